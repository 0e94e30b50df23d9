"""Engines: recipes that turn a variant's settings into a server behind an OpenAI-compatible endpoint.

A recipe is loaded only when it is asked for. Others come in as entry points of the group ``bakeoff.engines``.
"""

from __future__ import annotations

from typing import cast

from ..errors import EngineMissing
from ..model import Engine
from .secrets import Redactor, resolve

__all__ = ["BUILT_IN", "Redactor", "engine_names", "get_engine", "resolve"]

BUILT_IN = ("openai", "command", "llamacpp")
_GROUP = "bakeoff.engines"


def engine_names() -> tuple[str, ...]:
    """Every engine that can be asked for, plugins included."""
    from importlib.metadata import entry_points

    return tuple(dict.fromkeys((*BUILT_IN, *sorted(point.name for point in entry_points(group=_GROUP)))))


def get_engine(name: str) -> Engine:
    """The engine of that name: built-in ones first, then plugins. Raises EngineMissing."""
    from importlib import import_module

    if name in BUILT_IN:
        return cast(Engine, import_module(f"{__name__}.{name}").ENGINE)
    from importlib.metadata import entry_points

    for point in entry_points(group=_GROUP, name=name):
        try:
            return cast(Engine, point.load())
        except (ImportError, AttributeError) as error:
            raise EngineMissing(
                f"the engine {name!r} ({point.value}) cannot be loaded: {error}",
                remedy="install what it needs, or update the package that brings it",
            ) from error
    from .settings import did_you_mean

    known = engine_names()
    raise EngineMissing(
        f"there is no engine {name!r}{did_you_mean(name, known)}", remedy=f"known engines: {', '.join(known)}"
    )
