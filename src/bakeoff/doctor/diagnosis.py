"""Findings, their severities, and the exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ..errors import EXIT_INVALID, EXIT_OK
from .reading import Reading

Severity = Literal["ok", "note", "warning", "bad"]
_ORDER: tuple[Severity, ...] = ("ok", "note", "warning", "bad")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing found. ok: fit. note: good to know. warning: results get wider or biased. bad: do not measure."""

    code: str
    severity: Severity
    message: str  # with the number on which it stands
    remedy: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, in the order of the checks, and the reading on which they stand."""

    findings: tuple[Finding, ...]
    reading: Reading

    @property
    def worst(self) -> Severity:
        """The highest severity found."""
        return max((finding.severity for finding in self.findings), key=_ORDER.index, default="ok")

    def count(self, severity: Severity) -> int:
        """Number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def exit_code(self, strict: bool = False) -> int:
        """4 if something is bad, or, when strict, if there is a warning; else 0."""
        failing: tuple[Severity, ...] = ("bad", "warning") if strict else ("bad",)
        return EXIT_INVALID if self.worst in failing else EXIT_OK


def graded(value: float, warning: float, bad: float) -> Severity:
    """ok below `warning`, bad from `bad` on."""
    return "bad" if value >= bad else "warning" if value >= warning else "ok"


def diagnose(reading: Reading) -> Diagnosis:
    """Judges a reading. Pure: the same reading gives the same findings."""
    from .checks import CHECKS

    found = [finding for check in CHECKS for finding in check(reading)]
    # Checks may give their remedy with every severity; what is fine needs none.
    kept = tuple(msgspec.structs.replace(f, remedy="") if f.severity == "ok" else f for f in found)
    return Diagnosis(findings=kept, reading=reading)


def examine(seconds: float = 2.0, sampler: Callable[[float], Reading] | None = None) -> Diagnosis:
    """Watches this machine for `seconds` and judges it. `sampler` reads another way (tests, other machines)."""
    if sampler is None:
        from .collect import collect

        return diagnose(collect(seconds))
    return diagnose(sampler(seconds))
