"""Blocks in, comparisons out: pair estimates, fairness audit, outcomes; and the view that reports show.

Names are imported on first use, so that what only shows results does not load scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import compare_blocks
    from .stopping import decided, look, stop_reason

__all__ = ["compare_blocks", "decided", "look", "stop_reason"]


def __getattr__(name: str) -> Any:
    if name == "compare_blocks":
        from .engine import compare_blocks

        return compare_blocks
    if name in ("decided", "look", "stop_reason"):
        from . import stopping

        return getattr(stopping, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
