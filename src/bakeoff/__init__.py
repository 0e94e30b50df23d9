"""Bakeoff: which of two language-model setups is faster, with what certainty, at what price, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "BakeoffError",
    "Experiment",
    "Result",
    "__version__",
    "compare",
    "load_experiment",
    "report",
    "run",
]

if TYPE_CHECKING:
    from .app import compare, load_experiment, report, run
    from .errors import BakeoffError
    from .model import Experiment, Result


def __getattr__(name: str) -> Any:
    """Public names are imported on first use, so that `import bakeoff` costs next to nothing (PEP 562)."""
    if name in ("compare", "load_experiment", "report", "run"):
        from . import app

        return getattr(app, name)
    if name in ("Experiment", "Result"):
        from . import model

        return getattr(model, name)
    if name == "BakeoffError":
        from .errors import BakeoffError

        return BakeoffError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
