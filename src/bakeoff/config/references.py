"""``${VAR}`` in settings: checked here to exist, resolved by the engine at the moment of use, shown never."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .places import Key, Ledger

# $${ stands for the literal characters ${ (as in an engine's settings).
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_references(data: Mapping[str, Any], environ: Mapping[str, str], ledger: Ledger) -> None:
    """Notes every reference to a variable that is not set, is malformed, or stands where none is replaced."""
    for key, text in _texts(data, ()):
        in_settings = len(key) > 2 and key[0] == "variants" and key[2] != "engine"
        for match in _REFERENCE.finditer(text):
            name = match[1]
            if name is None:
                continue
            if not match[2] or not _NAME.match(name):
                ledger.add(
                    key,
                    "holds a ${…} that does not name an environment variable",
                    "write ${NAME} (letters, digits, underscore), or $${ for the literal characters ${",
                )
            elif not in_settings:
                ledger.add(key, "${…} is replaced only in a variant's settings", "write the value itself here")
            elif name not in environ:
                ledger.add(key, f"environment variable {name} is not set", f"export {name}=…")


def has_reference(text: str) -> bool:
    """Whether a text refers to the environment."""
    return any(match[1] is not None for match in _REFERENCE.finditer(text))


def _texts(value: Any, key: Key) -> Iterator[tuple[Key, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, (*key, str(name)))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _texts(item, (*key, str(place)))
