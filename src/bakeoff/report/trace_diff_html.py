"""The difference of two traces as a section of a page, and as a page of its own: no script, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence

from ..traces.diff_types import Row, TraceDiff
from ..traces.diff_words import amount
from .html_element import Markup, h
from .html_page import page
from .trace_diff_words import band_text, evidence_lines, number, share, signed

_HEADS = ("", "base ms", "candidate ms", "change ms", "of the gap")


def render_trace_diff_html(diff: TraceDiff) -> str:
    """A self-contained page."""
    sources = " → ".join(" + ".join(side) or "?" for side in diff.sources)
    return page(
        f"{sources} · trace",
        h(
            "header",
            {"class": "hero"},
            h("p", {"class": "eyebrow"}, h("b", None, "Bakeoff"), " · traces · ", sources),
            h("h1", {"class": "long"}, _headline(diff)),
            h("ul", {"class": "reasons"}, h("li", None, diff.alignment)),
        ),
        h("main", None, trace_diff_section(diff)),
        h("footer", None, "Bakeoff"),
    )


def _headline(diff: TraceDiff) -> str:
    if not diff.aligned:
        return "The two windows cannot be compared"
    if diff.gap_ms == 0:
        return "No gap"
    size = amount(abs(diff.gap_ms), diff.unit).removeprefix("+")
    if diff.noisy:
        return f"The difference of {size} is within the noise"
    return f"The candidate is {size} {'slower' if diff.gap_ms > 0 else 'faster'}"


def trace_diff_section(diff: TraceDiff) -> Markup:
    """The rows with bars, the evidence folded under each, the residual, what to know."""
    most = max((abs(row.ms) for row in (*diff.rows, *diff.residual)), default=0.0)
    unit = "" if diff.unit == "trace" else f" per {diff.unit}"
    base, candidate = number(diff.base_ms), number(diff.candidate_ms)
    told = f"{base} → {candidate} ms{unit}: {amount(diff.gap_ms)}. " if diff.aligned else f"{base} and {candidate} ms. "
    band = f" {band_text(diff.band)}." if diff.band and diff.aligned else ""
    return h(
        "section",
        {"class": "trace-diff"},
        h("h2", None, "Where the gap sits" if diff.aligned else "Where the time of each went"),
        h("p", {"class": "cause"}, diff.cause if diff.aligned else f"Cause: {diff.cause}"),
        h("p", {"class": "about"}, f"{told}{diff.alignment}.{band}"),
        h(
            "div",
            {"class": "gap-rows"},
            h("p", {"class": "gap-row heads", "aria-hidden": "true"}, [h("span", None, head) for head in _heads(diff)]),
            [_row(row, diff, most) for row in diff.rows],
            h("p", {"class": "gap-row rest"}, _residual(diff)),
        ),
        h("ul", {"class": "warnings"}, [h("li", {"class": "note"}, note) for note in diff.notes])
        if diff.notes
        else None,
    )


def _row(row: Row, diff: TraceDiff, most: float) -> Markup:
    """A line of numbers that opens: what was counted stands below it, over the whole width."""
    part = 100 * abs(row.ms) / most if most else 0.0
    color = "var(--bad)" if row.ms > 0 else "var(--good)"
    style = f"width:{part:.1f}%;background:{color}"
    bar = h("span", {"class": "bar", "aria-hidden": "true", "style": style}) if diff.aligned else None
    numbers = (number(row.base_ms), number(row.candidate_ms), *_change(row.ms, diff))
    summary = h("summary", {"class": "gap-row"}, h("span", {"class": "what"}, row.label), _numbers(numbers, bar))
    return h("details", None, summary, h("ul", None, [h("li", None, line) for line in evidence_lines(row)]))


def _residual(diff: TraceDiff) -> list[Markup]:
    sides = [sum(row.base_ms for row in diff.residual), sum(row.candidate_ms for row in diff.residual)]
    first = ("", "") if diff.aligned else (number(sides[0]), number(sides[1]))
    numbers = (*first, *_change(diff.residual_ms, diff))
    return [h("span", {"class": "what"}, "residual (cause not told)"), *_numbers(numbers, None)]


def _change(ms: float, diff: TraceDiff) -> tuple[str, str]:
    """The change and its share of the gap; nothing where windows are not aligned."""
    return (signed(ms), share(ms, diff.gap_ms)) if diff.aligned else ("", "")


def _heads(diff: TraceDiff) -> tuple[str, ...]:
    return _HEADS if diff.aligned else (*_HEADS[:3], "", "")


def _numbers(texts: Sequence[str], bar: Markup | None) -> list[Markup]:
    """One cell a number. Its column's name goes with it: a narrow page shows it, a reader of the page speaks it."""
    cells = zip(_HEADS[1:], texts, (None, None, bar, None), strict=True)
    return [
        h("span", {"class": "n"}, h("span", {"class": "of"}, f"{head} ") if text else None, text, drawn)
        for head, text, drawn in cells
    ]
