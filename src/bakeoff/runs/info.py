"""run.json: what was asked, where, how it stands."""

from __future__ import annotations

import datetime
import re
import secrets
import unicodedata
from typing import Any, Literal

import msgspec

from ..model import Environment, Experiment

RUN_SCHEMA = "bakeoff.run/1"
RunState = Literal["running", "complete", "interrupted", "failed"]

_STAMP = re.compile(r"\d{8}-\d{6}(?=-)")


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a run. `command` and `source` hold no secrets: ``${VAR}`` is saved as it was written."""

    schema: str = RUN_SCHEMA
    id: str  # the folder's name
    created: str  # ISO 8601, UTC, for display and order only
    bakeoff: str  # version that measured
    state: RunState = "running"
    experiment: Experiment
    source: str = "command line"  # file name of the experiment, or "command line"
    command: list[str] = []
    environment: Environment = Environment()
    stop_reason: str | None = None
    notes: tuple[str, ...] = ()
    quality_note: str | None = None  # why quality cannot be compared here, where that is known beforehand
    spent: float = 0.0  # money, in the budget's currency
    plan: dict[str, Any] = {}
    blocks: int = 0  # written so far; 0 in folders of versions that did not count them
    resumes: int = 0

    @property
    def attempt(self) -> str:
        """Tells this attempt from those before: prompts sent again must not be found in a server's prefix cache."""
        return f"{self.id}/{self.resumes}" if self.resumes else self.id


def slug(name: str, longest: int = 40) -> str:
    """A name as part of a file name: ASCII letters, digits and single dashes; ``run`` if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:longest].strip("-").lower() or "run"


def new_id(name: str, now: datetime.datetime) -> str:
    """``<YYYYmmdd-HHMMSS>-<slug>-<6 hex>``. UTC, so that names sort by time in every zone and over clock changes."""
    return f"{now:%Y%m%d-%H%M%S}-{slug(name)}-{secrets.token_hex(3)}"


def stamp_of(folder_name: str) -> str | None:
    """The time stamp at the front of a run folder's name, or None if it was renamed."""
    match = _STAMP.match(folder_name)
    return match[0] if match else None
