"""Whether variants differ at all: a setup compared with itself is an A/A test, and better said than found out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Experiment, Variant

_REACHED = "openai"  # the engine that starts nothing: one address is one server
# Of a server given by URL, what makes requests to it differ. Prices, keys and counters do not.
_ASKED = ("url", "model", "headers", "body")


def one_setup_warnings(experiment: Experiment) -> Iterator[str]:
    """One sentence for all candidates that are the base once more."""
    base = experiment.base
    same = [candidate.name for candidate in experiment.candidates if _told(candidate) == _told(base)]
    if not same:
        return
    names = " and ".join((base.name, *same))
    one = "one server, asked in the same way" if base.engine == _REACHED else "one setup"
    yield f"{names} are {one}: an A/A comparison, which can only show how much the bench itself wanders"


def _told(variant: Variant) -> dict[str, Any]:
    """What decides how a variant behaves."""
    settings = variant.settings
    if variant.engine != _REACHED:
        return {"engine": variant.engine, **{key: value for key, value in settings.items() if key != "price"}}
    told = {key: settings.get(key) or None for key in _ASKED}
    return {"engine": variant.engine, **told, "url": str(told["url"]).rstrip("/").removesuffix("/v1")}
