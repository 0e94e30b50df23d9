"""Bakeoff: which of two language-model setups is faster, with what certainty, at what price, and why."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["BakeoffError", "Experiment", "Result", "__version__", "compare", "load_experiment", "report", "run"]

# Two rooms bear the names of public functions: `bakeoff.compare(path)` is the function, `bakeoff.compare.view` a
# module. Python binds a subpackage to its parent's attribute once, when it is first loaded. So the rooms (their
# __init__ is light) are loaded here and the bindings given up: the names then resolve to the functions for good,
# while `from bakeoff.compare import …` still finds the package in sys.modules.
for _room in ("compare", "report"):
    import_module(f".{_room}", __name__)
    globals().pop(_room)

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
