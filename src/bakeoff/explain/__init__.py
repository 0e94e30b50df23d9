"""Why a candidate is slower: causes that were tested, not guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .one_switch import one_switch_findings
    from .task_time import task_time_findings

__all__ = ["one_switch_findings", "task_time_findings"]


def __getattr__(name: str) -> Any:
    """Imported on first use: the estimates need scipy."""
    if name == "one_switch_findings":
        from .one_switch import one_switch_findings

        return one_switch_findings
    if name == "task_time_findings":
        from .task_time import task_time_findings

        return task_time_findings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
