"""The difference of two traces as text: the cause, the rows that add up to the gap, the residual, what to know."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import printable
from ..traces.diff_types import Row, TraceDiff
from .lines import columns, fit, wrap
from .trace_diff_words import band_text, evidence_lines, headline, large_rows, number, share, signed

_SHOWN_ROWS = 14
_LEAST_WIDTH = 60


def render_trace_diff(diff: TraceDiff, *, color: bool, width: int = 100, full: bool = False) -> str:
    """Lines of at most ``width`` columns; ends with a line end. full: every row, with its evidence below it."""
    width = max(_LEAST_WIDTH, width)
    paint = _Paint(color)
    sources = " → ".join(" + ".join(side) or "?" for side in diff.sources)
    lines = [paint.style(fit(printable(sources), width), "1")]
    unit = "" if diff.unit == "trace" else f" per {diff.unit}"
    sign = diff.gap_ms if diff.aligned and not diff.noisy else 0.0
    lines.append(
        f"{number(diff.base_ms)} {'→' if diff.aligned else 'and'} {number(diff.candidate_ms)} ms{unit}   "
        f"{paint.by_sign(sign, headline(diff))}"
    )
    for text in (band_text(diff.band) if diff.aligned else "", diff.alignment):
        lines += [paint.style(line, "2") for line in wrap(printable(text), width)] if text else []
    lines += ["", *wrap(f"Cause  {printable(diff.cause)}", width, indent=7), ""]
    lines += _table(diff, width, paint, full=full)
    for note in diff.notes:
        lines += wrap(f"Note   {printable(note)}", width, indent=7)
    return "\n".join(lines) + "\n"


def _table(diff: TraceDiff, width: int, paint: _Paint, *, full: bool) -> list[str]:
    shown = list(diff.rows) if full else large_rows(diff, _SHOWN_ROWS)
    label = max([len("residual (cause not told)"), *(columns(row.label) for row in shown)])
    label = min(label, max(20, width - 42))
    heads = f"{'change ms':>10} {'of gap':>7}" if diff.aligned else "ms"
    lines = [paint.style(f"{'':{label}} {'base':>9} {'candidate':>9} {heads}", "2")]
    for row in shown:
        lines.append(_line(row, diff, label, width, paint))
        if full:
            for text in evidence_lines(row):
                lines += [paint.style(line, "2") for line in wrap(f"    {printable(text)}", width, indent=6)]
    rest = [row for row in diff.rows if row not in shown]
    if rest:
        lines.append(_plain(f"{len(rest)} smaller rows", rest, diff, label))
    lines.append(_plain("residual (cause not told)", diff.residual, diff, label))
    return lines


def _line(row: Row, diff: TraceDiff, label: int, width: int, paint: _Paint) -> str:
    """One row; behind it, where there is room, how many there were and the name most of the time went to."""
    name = fit(row.label, label)
    head = f"{name}{' ' * (label - columns(name))} {number(row.base_ms):>9} {number(row.candidate_ms):>9} "
    change = f"{paint.by_sign(row.ms, f'{signed(row.ms):>10}')} {share(row.ms, diff.gap_ms):>7}"
    line = f"{head}{change}" if diff.aligned else head.rstrip()
    room = width - label - (41 if diff.aligned else 22)
    if room < 12:
        return line
    side = row.candidate if row.ms > 0 else row.base
    example = f" {printable(side.examples[0].name)}" if side.examples else ""
    return f"{line}  {paint.style(fit(f'{row.base.events:,} → {row.candidate.events:,}{example}', room), '2')}"


def _plain(name: str, rows: Sequence[Row], diff: TraceDiff, label: int) -> str:
    head = f"{fit(name, label):{label}} "
    if not diff.aligned:
        base, candidate = sum(row.base_ms for row in rows), sum(row.candidate_ms for row in rows)
        return f"{head}{number(base):>9} {number(candidate):>9}"
    ms = diff.residual_ms if rows is diff.residual else sum(row.ms for row in rows)
    return f"{head}{'':>9} {'':>9} {signed(ms):>10} {share(ms, diff.gap_ms):>7}"


class _Paint:
    """Colours, or none. A sign stands beside every colour."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def style(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text

    def by_sign(self, value: float, text: str) -> str:
        return self.style(text, "31" if value > 0 else "32") if value else text
