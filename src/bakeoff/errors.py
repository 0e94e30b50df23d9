"""One exception tree. Every error says what happened, where, and what to do; each knows its exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .model import Problem

EXIT_OK = 0
EXIT_GATE_FAILED = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3
EXIT_INVALID = 4
EXIT_INTERRUPTED = 130

# ECMA-48: CSI, the string commands OSC, DCS, SOS, PM and APC up to their terminator, other ESC pairs; then what is left
# of C0 (line ends and tabs stay), DEL and C1, and the bidirectional controls, which make a text read as another one.
_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[^\n]?"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """The text without anything that steers a terminal: untrusted text must not move cursors or hide words."""
    return _CONTROLS.sub("", text)


class BakeoffError(Exception):
    """Base of all errors that Bakeoff raises on purpose.

    message: what happened. where: file, line, key, URL or variant. remedy: what to do.
    log_tail: last lines of a server's log, where there is one (secrets already removed).
    """

    exit_code = EXIT_USAGE

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        remedy: str | None = None,
        log_tail: Sequence[str] = (),
    ) -> None:
        message = printable(message)
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.log_tail:
            parts.append("last lines of the server's log:")
            parts.extend(f"    {line}" for line in self.log_tail)
        if self.remedy:
            parts.append(f"→ {self.remedy}")
        return printable("\n".join(parts))


class ConfigError(BakeoffError):
    """The experiment is wrong. Carries every problem found, each with its line."""

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), **kw: object) -> None:
        super().__init__(message, **kw)  # type: ignore[arg-type]  # same keywords as the base
        self.problems = tuple(problems)


class UsageError(BakeoffError):
    """A command was called with arguments that do not fit."""


class EngineError(BakeoffError):
    """An engine could not do its job."""


class EngineMissing(EngineError):
    """The engine's library is not installed, or the engine is unknown."""


class ServerNotReady(EngineError):
    """The server did not become ready in time, or exited before it was."""


class ServerDied(EngineError):
    """The server's process ended while it was being measured."""


class EndpointError(EngineError):
    """An endpoint answers in a way that no measurement can use (401, 404, not HTTP, …)."""


class RunFolderError(BakeoffError):
    """A run folder is missing, unreadable, of another schema version, or of another experiment."""


class TooFewData(BakeoffError):
    """There is not enough valid data for what was asked."""

    exit_code = EXIT_INVALID


class Interrupted(BakeoffError):
    """The user interrupted; what was measured is saved."""

    exit_code = EXIT_INTERRUPTED
