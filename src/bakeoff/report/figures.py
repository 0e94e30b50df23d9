"""Figures as text, the same in every report: change, interval, load of notes. Formatting only."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_types import CrossingView, EdgeView, FindingView, PairSeries, PairSummary, Row, View
from ..model import Interval, Ratio
from ..units import change

STATUS_TEXT = {
    "confirmed": "confirmed: one switch flipped, re-measured",
    "measured": "measured: its time split exactly",
    "suspected": "suspected: not yet flipped alone",
    "refuted": "refuted: flipped, no effect",
    "cannot attribute": "",  # the title of such a finding says it already
}


def interval(ratio: Ratio) -> str:
    """The interval of a ratio as changes in percent: ``[+64, +75]``; ``–`` where nothing is known."""
    if ratio.low is None and ratio.high is None:
        return "–"
    low = "−∞" if ratio.low is None else change(ratio.low, unit=False)
    high = "+∞" if ratio.high is None else change(ratio.high, unit=False)
    return f"[{low}, {high}]"


def share(part: Interval | None) -> tuple[str, str]:
    """A share of a gap and its interval: ``("94 %", "[88, 100]")``; empty texts where unknown."""
    if part is None or part.point is None:
        return "", ""
    text = f"{part.point * 100:.0f} %"
    if part.low is None or part.high is None:
        return text, ""
    return text, f"[{part.low * 100:.0f}, {part.high * 100:.0f}]"


def level(view: View) -> str:
    """The confidence as the head of an interval's column: ``95 % interval``."""
    return f"{view.confidence * 100:g} % interval"


def grouped_notes(rows: Sequence[Row], *, several: bool) -> list[tuple[str, str]]:
    """(what it is about, the note), rows of the same outcome and note together.

    several: name the candidates, because there is more than one.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.note:
            groups.setdefault((row.word, row.note), []).append(row)
    notes = []
    for (word, note), members in groups.items():
        labels: dict[str, list[str]] = {}
        for row in members:
            labels.setdefault(row.candidate, []).append(row.label)
        if several:
            names = "; ".join(f"{candidate} {', '.join(found)}" for candidate, found in labels.items())
        else:
            names = ", ".join(row.label for row in members)
        notes.append((f"{names} {word}", note))
    return notes


def fixes(findings: Sequence[FindingView]) -> list[str]:
    """Every fix once."""
    return list(dict.fromkeys(f.fix for f in findings if f.fix))


def crossing_lines(views: Sequence[CrossingView], *, full: bool) -> list[str]:
    """A line for every crossing; full: also for lines of cells along which nothing crosses, or nothing is sure."""
    several = len({view.candidate for view in views}) > 1
    lines = []
    for view in views:
        if full or view.status == "crosses":
            who = f"{view.candidate} · " if several else ""
            place = f" ({view.where})" if view.where else ""
            lines.append(f"{who}{view.label} along {view.axis}{place} {view.text}")
    return lines


def edge_lines(views: Sequence[EdgeView]) -> list[str]:
    """What each arm bears, and why that is open."""
    return [f"{view.text} ({view.reason})" if view.reason else view.text for view in views]


def summary_text(summary: PairSummary) -> str:
    """What the pairs of one arm look like, in one line."""
    parts = [f"{summary.pairs} {'A/A pair' if summary.kind == 'aa' else 'pair'}{'' if summary.pairs == 1 else 's'}"]
    parts.append(f"mean {change(summary.ratio)}")
    if summary.spread is not None:
        parts.append(f"spread {summary.spread * 100:.2g} %")
    if summary.drift is not None:
        parts.append(f"drift over the run {change(summary.drift)}")
    if summary.likeness is not None:
        parts.append(f"correlation of neighbours {f'{summary.likeness:+.2f}'.replace('-', '−')}")
    if summary.detectable is not None:
        parts.append(f"show changes from {change(1 + summary.detectable).lstrip('+')} on")
    return ", ".join(parts)


def pair_values(series: PairSeries, summary: PairSummary) -> list[str]:
    """The changes of one arm's pairs in order of time [%]; ``!`` marks one that stands apart."""
    points = [p for p in series.points if (p.arm, p.kind) == (summary.arm, summary.kind)]
    return [change(p.ratio, unit=False) + ("!" if p.outlier else "") for p in points]
