"""``${VAR}``: how secrets come in from the environment, and how they are kept out of everything that is written.

A setting holds the text ``${VAR}`` until the moment of use, so that a saved experiment cannot leak a key. Whatever
came in that way counts as secret: logs and error texts pass through a :class:`Redactor` first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from ..errors import BakeoffError, ConfigError, printable
from ..model import Problem
from .literals import REFERENCE as _REFERENCE
from .literals import is_secret_name

__all__ = [
    "Redactor",
    "all_secrets",
    "has_reference",
    "inherited_secrets",
    "is_secret_name",
    "names",
    "reference_problems",
    "resolve",
    "secrets_of",
    "without_secrets",
]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHORTEST = 4  # shorter texts occur by chance: replacing every "1" or "on" would ruin a log without hiding anything
_MASK = "***"

# Values that switches have; they hide nothing, and replacing each "true" would ruin a log.
_PLAIN_VALUES = frozenset({"true", "false", "none", "null", "auto", "default", "enabled", "disabled"})

# Names, never values, of the variables that settings have referred to in this process.
_referenced: set[str] = set()


def _texts(value: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text inside nested settings, with the path that leads to it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, (*key, str(name)))
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for position, item in enumerate(value):
            yield from _texts(item, (*key, str(position)))


def names(value: Any) -> tuple[str, ...]:
    """Names of the variables that nested settings use, each once, in order. Malformed references are left out."""
    found: dict[str, None] = {}
    for _, text in _texts(value, ()):
        for match in _REFERENCE.finditer(text):
            if match[1] is not None and match[2] and _NAME.match(match[1]):
                found[match[1]] = None
    return tuple(found)


def has_reference(value: Any) -> bool:
    """Whether any ``${VAR}`` occurs in nested settings."""
    return bool(names(value))


def reference_problems(value: Any, environ: Mapping[str, str], key: tuple[str, ...] = ()) -> list[Problem]:
    """Every ``${…}`` that cannot be resolved. Names keys and variables, never a value."""
    problems = []
    for path, text in _texts(value, key):
        for match in _REFERENCE.finditer(text):
            if match[1] is None:  # the escape
                continue
            if not match[2] or not _NAME.match(match[1]):
                problems.append(
                    Problem(
                        key=path,
                        message="holds a ${…} that does not name an environment variable",
                        remedy="write ${NAME} (letters, digits, underscore), or $${ for the literal characters ${",
                    )
                )
            elif match[1] not in environ:
                problems.append(
                    Problem(
                        key=path,
                        message=f"environment variable {match[1]} is not set",
                        remedy=f"export {match[1]}=… before you start bakeoff",
                    )
                )
    return problems


def resolve(value: Any, environ: Mapping[str, str]) -> Any:
    """Nested settings with every ``${VAR}`` in their texts replaced (``$${`` stays ``${``); keys stay as they are.

    Variables of this process's own environment are remembered by name: every server inherits them, so every log must
    be free of them (see :func:`inherited_secrets`).

    Raises ConfigError that names the keys and the variables, never a value, with one Problem per place.
    """
    if environ is os.environ:
        _referenced.update(names(value))
    problems = reference_problems(value, environ)
    if problems:
        first = problems[0]
        where = ".".join(first.key) or None
        raise ConfigError(first.message, problems=problems, where=where, remedy=first.remedy)
    return _replace(value, environ)


def _replace(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda m: "${" if m[1] is None else environ[m[1]], value)
    if isinstance(value, Mapping):
        return {name: _replace(item, environ) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replace(item, environ) for item in value)
    return value


def secrets_of(settings: Any, environ: Mapping[str, str]) -> frozenset[str]:
    """The values that come in through ``${VAR}``: all of them count as secret. Unset and empty ones are left out."""
    return frozenset(environ[name] for name in names(settings) if environ.get(name))


def inherited_secrets() -> frozenset[str]:
    """Secrets that any process of ours inherits, whichever variant it belongs to.

    Values of all variables that any variant's settings have referred to so far (settings of all variants are checked
    before anything starts), and of variables whose name says that they carry a secret.
    """
    return frozenset(
        value
        for name, value in os.environ.items()
        if name in _referenced or (is_secret_name(name) and value.strip().lower() not in _PLAIN_VALUES)
        if value
    )


def all_secrets(settings: Any) -> tuple[str, ...]:
    """What must not show in anything that a server of these settings says, in a fixed order."""
    return tuple(sorted(secrets_of(settings, os.environ) | inherited_secrets()))


class Redactor:
    """Replaces secrets in text by ``***``, also where they stand escaped (JSON, Python) or percent-encoded.

    To the given ones come the inherited ones, also those that become known later. Texts shorter than 4 characters are
    ignored. The longest is replaced first, so that a secret that contains another one leaves no remainder. Each line
    of a many-line secret counts too, because logs are cleaned by the line.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._own = frozenset(secrets)
        self._build()

    def _build(self) -> None:
        self._known = len(_referenced)
        spellings: set[str] = set()
        for secret in self._own | inherited_secrets():
            for part in (secret, *secret.splitlines()):
                spellings |= {
                    part,
                    repr(part)[1:-1],
                    json.dumps(part)[1:-1],
                    json.dumps(part, ensure_ascii=False)[1:-1],
                }
                spellings |= {quote(part, errors="replace"), quote(part, safe="", errors="replace"), printable(part)}
        kept = sorted((s for s in spellings if len(s.strip()) >= _SHORTEST), key=lambda s: (-len(s), s))
        self.longest = len(kept[0]) if kept else 0  # characters
        self._pattern = re.compile("|".join(map(re.escape, kept))) if kept else None

    def __repr__(self) -> str:
        return "Redactor(…)"

    def clean(self, text: str) -> str:
        """The text without the secrets."""
        if self._known != len(_referenced):
            self._build()
        return self._pattern.sub(_MASK, text) if self._pattern else text

    def clean_all(self, value: Any) -> Any:
        """Nested plain data with every text in it cleaned; names stay."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, Mapping):
            return {name: self.clean_all(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean_all(item) for item in value]
        return value


@contextmanager
def without_secrets(redactor: Redactor) -> Iterator[None]:
    """Cleans every text of an error of ours that leaves the block, and cuts the chain to what caused it."""
    try:
        yield
    except BakeoffError as error:
        error.message = redactor.clean(error.message)
        error.args = (error.message,)
        error.where = redactor.clean(error.where) if error.where else None
        error.remedy = redactor.clean(error.remedy) if error.remedy else None
        error.log_tail = tuple(redactor.clean(line) for line in error.log_tail)
        raise error from None
