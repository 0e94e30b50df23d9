"""Which settings tell two variants apart."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..model import Variant

#: Settings that say where a server is, not what it is: a difference in them hides any number of others.
_OPAQUE = ("base_url", "url", "endpoint")
#: Settings of the client's side, or that cannot change how fast a server is.
_CLIENT = (
    "api_key",
    "connect_timeout",
    "first_byte_timeout",
    "headers",
    "idle_timeout",
    "metrics_path",
    "name",
    "pid",
    "price",
    "profile",
    "request_timeout",
    "tokenizer",
)
_PROCESS = ("host", "log", "port", "ready", "ready_timeout", "stop_signal", "stop_timeout")
_NEUTRAL = frozenset((*_CLIENT, *_PROCESS))
_COMMAND = "command"
_SHOWN = 60


class Switch(NamedTuple):
    """One setting that differs: its name and its value (as text) in the one and the other variant."""

    setting: str
    value: str
    other: str

    @property
    def opaque(self) -> bool:
        """True where the difference is that of two whole servers, and no setting of one."""
        return self.setting.split(".")[0].split(" ")[0] in _OPAQUE

    @property
    def title(self) -> str:
        return f"setting {self.setting}: {self.value} → {self.other}"


def switches(variant: Variant, other: Variant) -> tuple[Switch, ...]:
    """All settings that differ, `variant` first; the engine counts as a setting."""
    a, b = _flat(variant), _flat(other)
    keys = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    return tuple(_switch(key, a.get(key), b.get(key)) for key in keys)


def _switch(key: str, value: Any, other: Any) -> Switch:
    short = Switch(key, _shown(value), _shown(other))
    if short.value != short.other:
        return short
    return Switch(key, _shown(value, whole=True), _shown(other, whole=True))  # the same file name in two folders


def _flat(variant: Variant) -> dict[str, Any]:
    flat: dict[str, Any] = {"engine": variant.engine}
    for key, value in variant.settings.items():
        if key in _NEUTRAL:
            continue
        if key == _COMMAND and isinstance(value, (str, list, tuple)):
            flat |= _command(value)
        else:
            flat |= _nested(key, value)
    return flat


def _nested(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {key: value}
    return {name: leaf for part, inner in value.items() for name, leaf in _nested(f"{key}.{part}", inner).items()}


def _command(command: str | list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """A command line as settings: ``command --flag`` → its value (True where it has none)."""
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    except ValueError:  # an unclosed quote: compare the text as a whole
        return {_COMMAND: command}
    found: dict[str, Any] = {}
    flag: str | None = None
    plain: list[str] = []
    for word in words:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            name, given, value = word.partition("=")
            flag = f"{_COMMAND} {name}"
            found[flag] = value if given else True
            flag = None if given else flag
        elif flag is not None:
            found[flag] = word if found[flag] is True else f"{found[flag]} {word}"
        else:
            plain.append(word)
    return {_COMMAND: " ".join(plain)} | found


def _shown(value: Any, *, whole: bool = False) -> str:
    """A value as one bounded line; of a path only its last part, unless the whole is asked for."""
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else " " for c in text)
    # A name such as org/model has one slash and no folder.
    if not whole and " " not in text and (text.startswith(("/", "~", ".")) or text.count("/") >= 2):
        text = text.rstrip("/").rsplit("/", 1)[-1]
    return text if len(text) <= _SHOWN else "…" + text[1 - _SHOWN :]
