"""What can go wrong with a workload's prompts."""

from __future__ import annotations

from ..errors import BakeoffError


class WorkloadError(BakeoffError):
    """A workload's prompts cannot be read or built. `where` names the file (and line) or the workload."""
