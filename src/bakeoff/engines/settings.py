"""Reading an engine's settings: every problem at once, with "did you mean", and no value of a secret in a message."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, UsageError
from ..model import Problem
from ..units import parse_duration
from .secrets import has_reference, reference_problems, resolve


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'context'?)`` for the nearest known word, or the empty text."""
    near = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def refuse(problems: Sequence[Problem], where: str) -> None:
    """Raises ConfigError with all problems, if there are any."""
    if not problems:
        return
    lines = "; ".join(f"{'.'.join(p.key)}: {p.message}" if p.key else p.message for p in problems)
    raise ConfigError(lines, problems=problems, where=where, remedy=problems[0].remedy or None)


class SettingsReader:
    """Takes settings key by key, converts them, and gathers what is wrong in `problems` (keys relative to the variant).

    ``${VAR}`` is resolved first; a message shows what the file says, never what the variable holds. A number may come
    in through a variable (``port: ${PORT}``), so a text is converted only there. A wrong value reads as the default.
    """

    def __init__(self, settings: Mapping[str, Any], environ: Mapping[str, str], prefix: tuple[str, ...] = ()) -> None:
        self._raw = {str(key): value for key, value in settings.items()}
        self._environ = environ
        self._prefix = prefix
        self._asked: set[str] = set()
        # A nested reader's references were looked at by the outer one.
        self.problems: list[Problem] = [] if prefix else reference_problems(self._raw, environ)
        broken = {problem.key[0] for problem in self.problems}
        self._values = {k: resolve(v, environ) for k, v in self._raw.items() if k not in broken and v is not None}
        self._broken = broken

    def wrong(self, key: str, message: str, remedy: str = "", *inner: str) -> None:
        """Notes a problem of this key (or of a key inside its value)."""
        self.problems.append(Problem(key=(*self._prefix, key, *inner), message=message, remedy=remedy))

    def raw(self, key: str) -> Any:
        """What the file says, ``${VAR}`` unresolved."""
        return self._raw.get(key)

    def has(self, key: str) -> bool:
        """Whether the key is given (even if wrong)."""
        return self._raw.get(key) is not None

    def value(self, key: str) -> Any:
        """The resolved value, or None when it is absent or cannot be resolved."""
        self._asked.add(key)
        return self._values.get(key)

    def shown(self, key: str) -> str:
        """The value as a message may show it: as written, and short."""
        text = repr(self._raw.get(key))
        return text if len(text) <= 60 else text[:57] + "…"

    def require(self, key: str, remedy: str) -> None:
        """Notes a problem when the key is missing."""
        if not self.has(key):
            self.wrong(key, "is missing", remedy)

    def text(self, key: str, default: str | None = None, choices: Sequence[str] = ()) -> str | None:
        """A text, one of `choices` if they are given. YAML's on/off/yes/no count as the words they were."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, bool) and choices:
            value = next((c for c in choices if c in (("on", "true") if value else ("off", "false"))), value)
        if not isinstance(value, str) or not value.strip():
            self.wrong(
                key, f"must be a text, not {self.shown(key)}", f"one of: {', '.join(choices)}" if choices else ""
            )
            return default
        if choices and value not in choices:
            hint = "" if has_reference(self._raw[key]) else did_you_mean(value, choices)
            self.wrong(key, f"cannot be {self.shown(key)}{hint}", f"one of: {', '.join(choices)}")
            return default
        return value

    def number(self, key: str, default: float | None = None, low: float = 0.0, high: float = math.inf) -> float | None:
        """A finite number within [low, high]."""
        value = self._numeric(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.wrong(key, f"must be a number, not {self.shown(key)}")
            return default
        if not low <= value <= high:
            limits = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
            self.wrong(key, f"must be {limits}, not {self.shown(key)}")
            return default
        return float(value)

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = 2**31 - 1) -> int | None:
        """A whole number within [low, high]."""
        value = self._numeric(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            self.wrong(key, f"must be a whole number, not {self.shown(key)}")
            return default
        if not low <= value <= high:
            self.wrong(key, f"must be between {low} and {high}, not {self.shown(key)}")
            return default
        return int(value)

    def _numeric(self, key: str) -> Any:
        value = self.value(key)
        if isinstance(value, str) and has_reference(self._raw[key]):
            try:
                return float(value)
            except ValueError:
                return value
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.value(key)
        if isinstance(value, str) and has_reference(self._raw[key]) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.wrong(key, f"must be true or false, not {self.shown(key)}")
        return default

    def duration(self, key: str, default: float, high: float = 86400.0) -> float:
        """Seconds: ``500ms``, ``2 min``, or a bare number of seconds; more than 0, at most a day."""
        value = self.value(key)
        if isinstance(value, str):
            try:
                value = parse_duration(value)
            except UsageError:
                self.wrong(key, f"{self.shown(key)} is not a duration", "write a number and a unit: 50ms, 2s, 5min")
                return default
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= high:
            self.wrong(key, f"must be more than 0 and at most {high:g} s, not {self.shown(key)}", "for example: 30s")
            return default
        return float(value)

    def limit(self, key: str) -> float | None:
        """A duration as above, or None for no limit."""
        seconds = self.duration(key, math.inf)
        return None if math.isinf(seconds) else seconds

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping (name: value) with resolved values."""
        value = self.value(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            # The value is not shown: it may be a header line with its key.
            kind = "a list" if isinstance(value, list | tuple) else "a single value"
            self.wrong(key, f"must be a mapping of names to values, not {kind}")
            return {}
        return {str(name): item for name, item in value.items()}

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of names to texts; numbers are taken as they are written, anything else is a problem."""
        found = {}
        for name, value in self.mapping(key).items():
            if isinstance(value, str):
                found[name] = value
            elif isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = str(value)
            else:
                self.wrong(key, "must be a text", "put the value in quotes", name)
        return found

    def nested(self, key: str) -> SettingsReader:
        """A reader of the mapping at this key; its problems join this reader's in :meth:`finish` of the nested one."""
        self.mapping(key)
        raw = self._raw.get(key)
        usable = isinstance(raw, Mapping) and key not in self._broken
        return SettingsReader(raw if usable else {}, self._environ, (*self._prefix, key))  # type: ignore[arg-type]  # checked

    def finish(self) -> list[Problem]:
        """All problems, unknown keys included."""
        for key in self._raw:
            if key not in self._asked:
                hint = did_you_mean(key, self._asked)
                self.wrong(key, f"unknown setting{hint}", f"known here: {', '.join(sorted(self._asked))}")
        return self.problems
