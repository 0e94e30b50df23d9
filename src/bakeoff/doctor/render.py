"""A diagnosis as text or JSON."""

from __future__ import annotations

import msgspec

from .diagnosis import Diagnosis, Severity
from .reading import printable

# Sign, word and colour: the word says what the colour shows, for those who see no colour.
_MARKS: dict[Severity, tuple[str, str, str]] = {
    "ok": ("✓", "ok", "32"),
    "note": ("·", "note", "36"),
    "warning": ("!", "warning", "33"),
    "bad": ("✗", "bad", "31"),
}
_WIDTH = max(len(word) for _, word, _ in _MARKS.values())
_SUMMARY: dict[Severity, str] = {
    "ok": "fit to measure",
    "note": "fit to measure",
    "warning": "usable with care: expect wider intervals",
    "bad": "not fit to measure",
}
_LONGEST = 400


def render(diagnosis: Diagnosis, color: bool = False) -> str:
    """One line a finding, a second one for its remedy, and a summary. Without colour: plain text."""

    def painted(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if color else text

    lines = []
    for finding in diagnosis.findings:
        sign, word, code = _MARKS[finding.severity]
        mark = painted(f"{sign} {word:<{_WIDTH}}", code)
        lines.append(f"{mark}  {printable(finding.message, _LONGEST)}")
        if finding.remedy:
            lines.append(" " * (_WIDTH + 4) + painted(f"→ {printable(finding.remedy, _LONGEST)}", "2"))
    worst = diagnosis.worst
    sign, _, code = _MARKS["ok" if worst == "note" else worst]
    counts = ", ".join(f"{n} {_plural(name, n)}" for name in ("bad", "warning", "note") if (n := diagnosis.count(name)))
    lines += ["", painted(f"{sign} {_SUMMARY[worst]}", f"1;{code}") + (f" ({counts})" if counts else "")]
    return "\n".join(lines) + "\n"


def _plural(word: Severity, count: int) -> str:
    return word if word == "bad" or count == 1 else f"{word}s"


def to_json(diagnosis: Diagnosis) -> str:
    """The diagnosis with its reading, as one JSON object."""
    value = {
        "schema": "bakeoff.doctor/1",
        "worst": diagnosis.worst,
        "findings": diagnosis.findings,
        "reading": diagnosis.reading,
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
