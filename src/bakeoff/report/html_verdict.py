"""The first half of the page: the verdict, the measurements, why, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.view_types import ArmView, DecisionView, FindingView, Row, View
from ..units import change, quantity
from .figures import STATUS_TEXT, grouped_notes, interval, level, share
from .html_charts import interval_axis, interval_plot, ratio_domain
from .html_element import Markup, h, prose
from .html_svg import ARM_COLORS, Draftsman

_REASONS, _BANNERS = 6, 3  # shown at the top of the page
_LINE, _HEADLINE = 80, 140  # characters of a headline: beyond, it is set smaller; beyond, its conditions stand below


def section(key: str, title: str, lead: str | None, *children: Markup | Sequence[Markup] | None) -> Markup:
    """One titled part of the page."""
    return h(
        "section",
        {"id": key, "aria-labelledby": f"{key}-title"},
        h("h2", {"id": f"{key}-title"}, title),
        h("p", {"class": "lead"}, prose(lead)) if lead else None,
        *children,
    )


def swatch(arm: ArmView) -> Markup:
    """The arm's colour and dash, as its lines are drawn."""
    return h("span", {"class": f"swatch arm-{arm.index % ARM_COLORS}", "aria-hidden": "true"})


def legend(view: View) -> Markup:
    """All arms with their colours."""
    return h("ul", {"class": "legend"}, [h("li", None, swatch(arm), arm.name) for arm in view.arms])


def verdict(row: Row) -> Markup:
    """Sign and word; the colour only repeats them."""
    return h("span", {"class": f"verdict {row.tone}"}, h("span", {"class": "sign"}, row.sign), " ", row.word)


def hero(view: View) -> Markup:
    """What to ship, under which conditions, and each candidate at a glance."""
    names = [h("span", {"class": "arm-name"}, swatch(arm), arm.name) for arm in view.arms]
    versus = h("p", {"class": "versus"}, names[0], h("span", {"class": "arrow"}, "→"), names[1:])
    decision = view.decision
    headline = _headline(decision)
    below = decision.conditions if headline != decision.headline else ()
    extra = [*(decision.conditions if decision.ship is None else ()), *decision.reasons]
    return h(
        "header",
        {"class": "hero"},
        h("p", {"class": "eyebrow"}, h("b", None, "Bakeoff"), " · ", view.name),
        versus,
        h("h1", {"class": "long" if len(headline) > _LINE else None}, prose(headline)),
        h("ul", {"class": "reasons conditions"}, [h("li", None, prose(text)) for text in below]) if below else None,
        _reasons(extra),
        h("ul", {"class": "facts"}, [h("li", None, fact) for fact in view.facts]),
        h("p", {"class": "banner"}, prose(f"! {view.state_text}")) if view.state_text else None,
        _invalidities(view),
        h("div", {"class": "cards"}, [_card(view, arm) for arm in view.arms[1:]]),
    )


def _headline(decision: DecisionView) -> str:
    """One line to be read from afar: long conditions follow below it."""
    if decision.ship is None or len(decision.headline) <= _HEADLINE:
        return decision.headline
    return f"Ship {decision.ship}, under {'this condition' if len(decision.conditions) == 1 else 'these conditions'}:"


def _reasons(texts: Sequence[str]) -> list[Markup]:
    """All of them; where there are many (a run of many cells), the rest is folded away."""
    lists = [
        h("ul", {"class": "reasons"}, [h("li", None, prose(text)) for text in part])
        for part in (texts[:_REASONS], texts[_REASONS:])
        if part
    ]
    if len(lists) < 2:
        return lists
    return [lists[0], h("details", {"class": "more"}, h("summary", None, f"{len(texts) - _REASONS} more"), lists[1])]


def _invalidities(view: View) -> list[Markup]:
    """What makes the run, or rows of it, invalid; the list of warnings holds all."""
    invalid = [w for w in view.warnings if w.severity == "invalid"]
    shown = [
        h(
            "p",
            {"class": "banner"},
            prose(f"! {w.where + ': ' if w.where else ''}{w.message}"),
            [h("br"), prose(f"→ {w.remedy}")] if w.remedy else None,
        )
        for w in invalid[:_BANNERS]
    ]
    rest = len(invalid) - _BANNERS
    if rest > 0:
        link = h("a", {"href": "#warnings"}, "Be careful about")
        shown.append(h("p", {"class": "facts"}, f"and {rest} more of this kind: ", link))
    return shown


def _card(view: View, arm: ArmView) -> Markup:
    """A candidate against the base: all its gates, cell by cell, then those per start."""
    parts: list[Markup] = []
    for title, rows in (*((cell.title, cell.rows) for cell in view.cells), ("per start", view.resources)):
        gates = [row for row in rows if row.candidate == arm.name and row.gate]
        if gates:
            parts.append(h("h3", None, title))
            parts.append(h("ul", {"class": "glance"}, [_glance(row) for row in gates]))
    notes = [note for note in view.quality if arm.name in note.candidates]
    quality = [h("p", {"class": "quality"}, h("b", None, "Quality "), prose(f"{n.status}: {n.text}")) for n in notes]
    shipped = h("span", {"class": "badge"}, "ship") if view.decision.ship == arm.name else None
    head = h("header", None, swatch(arm), h("b", None, arm.name), h("span", None, f"against {view.base}"), shipped)
    return h("article", {"class": "card"}, head, parts, quality)


def _glance(row: Row) -> Markup:
    return h(
        "li",
        None,
        h("span", {"class": "what"}, row.label),
        h("span", {"class": f"big {row.tone}"}, change(row.ratio.point)),
        verdict(row),
    )


def measurements(view: View, pen: Draftsman) -> Markup:
    """Every row of every cell; those that do not decide are folded away."""
    lead = (
        f"Intervals are {level(view)}s of the change. The band is the margin of {_margins(view)}: "
        "a change counts only if its whole interval lies beyond it."
    )
    tables = [_rows(view, cell.title, cell.rows, pen) for cell in view.cells]
    return section("measurements", "Measurements", lead, tables or [h("p", None, "Nothing was measured yet.")])


def _margins(view: View) -> str:
    """``±3 %``, or each of them where rows differ."""
    rows = [row for cell in view.cells for row in cell.rows] + list(view.resources)
    margins = dict.fromkeys([view.margin, *sorted(row.margin for row in rows)])
    return " or ".join(f"±{margin * 100:g} %" for margin in margins)


def resources(view: View, pen: Draftsman) -> Markup | None:
    """What is measured once a start: memory and start-up; and what is said about quality."""
    if not view.resources and not view.quality:
        return None
    several = len(view.candidates) > 1
    notes = [
        h(
            "p",
            {"class": "quality"},
            h("b", None, "Quality "),
            prose(f"{', '.join(n.candidates) + ': ' if several else ''}{n.status}: {n.text}"),
        )
        for n in view.quality
    ]
    table = _rows(view, "Per start", view.resources, pen) if view.resources else None
    return section("resources", "Resources and quality", None, table, notes)


def _rows(view: View, title: str, rows: Sequence[Row], pen: Draftsman) -> Markup:
    first = [row for row in rows if row.primary]
    rest = [row for row in rows if not row.primary]
    more = None
    if rest:
        summary = h("summary", None, f"{len(rest)} more {'row' if len(rest) == 1 else 'rows'}, explored")
        more = h("details", None, summary, _table(view, rest, pen))
    return h("div", {"class": "cell"}, h("h3", None, title), _table(view, first, pen) if first else None, more)


def _table(view: View, rows: Sequence[Row], pen: Draftsman) -> Markup:
    several = len(view.candidates) > 1
    domain = ratio_domain(rows)
    heads = [
        h("th", {"scope": "col"}, "Metric"),
        h("th", {"scope": "col", "class": "num"}, view.base),
        h("th", {"scope": "col", "class": "who"}, "Candidate") if several else None,
        h("th", {"scope": "col", "class": "num"}, "" if several else "".join(view.candidates)),
        h("th", {"scope": "col", "class": "num"}, "Change"),
        h("th", {"scope": "col", "class": "num interval"}, level(view)),
        h("th", {"scope": "col", "class": "plot-head"}, interval_axis(pen, domain)),
        h("th", {"scope": "col"}, "Verdict"),
    ]
    body = []
    previous: Row | None = None
    for row in rows:
        body.append(_row(view, row, previous, interval_plot(pen, row, domain)))
        previous = row
    notes = grouped_notes(rows, several=several)
    return h(
        "div",
        {"class": "scroll"},
        h("table", {"class": "metrics"}, h("thead", None, h("tr", None, heads)), h("tbody", None, body)),
        h("ul", {"class": "notes"}, [h("li", None, h("b", None, about), prose(f": {note}")) for about, note in notes])
        if notes
        else None,
    )


def _row(view: View, row: Row, above: Row | None, plot: Markup | None) -> Markup:
    """A wide page leaves out the name and the base's value where they are those of the row above.

    Each candidate has pairs of its own, so that the base's value may differ between rows of one metric.
    """
    arm = next((a for a in view.arms if a.name == row.candidate), None)
    again = above is not None and (above.metric, above.statistic) == (row.metric, row.statistic)
    base = quantity(row.base.point, row.unit)
    same = again and above is not None and quantity(above.base.point, above.unit) == base
    several = len(view.candidates) > 1
    explored = None if row.gate else h("span", {"class": "explored"}, "explored")
    return h(
        "tr",
        {"class": None if again else "first"},
        h("th", {"scope": "row", "class": "metric"}, h("span", {"class": "again" if again else None}, row.label)),
        h("td", {"class": "num base"}, h("span", {"class": "again" if same else None}, base)),
        h("td", {"class": "who"}, swatch(arm) if arm else None, row.candidate) if several else None,
        h("td", {"class": "num value"}, quantity(row.value.point, row.unit)),
        h("td", {"class": "num change"}, change(row.ratio.point)),
        h("td", {"class": "num interval"}, interval(row.ratio)),
        h("td", {"class": "plot-cell"}, plot),
        h("td", {"class": "outcome"}, verdict(row), explored),
    )


def findings(view: View) -> Markup | None:
    """Causes with their share of the gap, their evidence and their fix."""
    if not view.findings:
        return None
    items = [_finding(finding) for finding in view.findings]
    return section("why", "Why, and what fixes it", None, h("ul", {"class": "findings"}, items))


def _finding(finding: FindingView) -> Markup:
    part, span = share(finding.share)
    about = " · ".join(p for p in (finding.candidate, finding.where) if p)
    status = STATUS_TEXT.get(finding.status, finding.status)
    return h(
        "li",
        {"class": "unexplained" if finding.unexplained else None},
        h("div", {"class": "share"}, h("b", None, part or "–"), h("span", None, span)),
        h(
            "div",
            None,
            h("p", {"class": "about"}, about),
            h("p", {"class": "cause"}, prose(finding.title)),
            h("p", {"class": "status"}, status) if status else None,
            h("ul", None, [h("li", None, prose(e)) for e in finding.evidence]) if finding.evidence else None,
            h("p", {"class": "fix"}, h("b", None, "Fix "), prose(finding.fix)) if finding.fix else None,
        ),
    )


def warnings(view: View) -> Markup | None:
    """Each warning with its remedy; those that invalidate come first."""
    if not view.warnings:
        return None
    signs = {"invalid": "! Invalid", "warning": "Warning", "note": "Note"}
    items = [
        h(
            "li",
            {"class": w.severity},
            h("p", None, h("b", None, signs[w.severity]), prose(f" {w.where + ': ' if w.where else ''}{w.message}")),
            h("p", {"class": "remedy"}, prose(f"→ {w.remedy}")) if w.remedy else None,
        )
        for w in view.warnings
    ]
    return section("warnings", "Be careful about", None, h("ul", {"class": "warnings"}, items))
