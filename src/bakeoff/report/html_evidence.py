"""The second half of the page: raw evidence, the environment, and how to do it again."""

from __future__ import annotations

from ..compare.view_types import Output, OutputSet, View
from ..units import seconds
from .figures import summary_text
from .html_charts import crossing_plot, distribution, pair_plot
from .html_element import Markup, h, prose
from .html_svg import Draftsman
from .html_timeline import timeline_chart
from .html_verdict import legend, section, swatch

_RAW = (
    ("result.json", "the verdict for programs"),
    ("run.json", "experiment, plan and environment"),
    ("requests/", "every request, one Parquet part a block"),
    ("telemetry/", "process tree and machine samples"),
    ("starts.parquet", "every server start, phase by phase"),
    ("logs/", "the servers' logs"),
)


def _figure(chart: Markup | None, title: str, caption: str, below: Markup | None = None) -> Markup:
    return h("figure", None, h("figcaption", None, h("b", None, title), h("span", None, caption)), chart, below)


def distributions(view: View, pen: Draftsman) -> Markup | None:
    """One panel a cell and metric."""
    figures = [
        _figure(
            distribution(pen, data, view.arms),
            f"{data.label} · {cell.title}",
            "median " + " · ".join(f"{curve.arm} {seconds(curve.median)}" for curve in data.curves),
        )
        for cell in view.cells
        for data in cell.distributions
    ]
    if not figures:
        return None
    lead = (
        "Share of requests at or below a value, all rounds together. "
        "A curve further left is faster; the dot is the median."
    )
    return section("distributions", "Distributions", lead, legend(view), h("div", {"class": "panels"}, figures))


def pairs(view: View, pen: Draftsman) -> Markup | None:
    """One panel a cell and gate, with what the pairs of each arm look like."""
    figures = []
    again = apart = False
    for cell in view.cells:
        for series in cell.pairs:
            again = again or any(point.kind == "aa" for point in series.points)
            apart = apart or any(point.outlier for point in series.points)
            items = [h("li", None, h("b", None, s.arm), f" {summary_text(s)}") for s in series.summaries]
            caption = f"{len({p.round for p in series.points})} rounds"
            plot, title = pair_plot(pen, series, view.arms), f"{series.label} · {cell.title}"
            figures.append(_figure(plot, title, caption, h("ul", {"class": "notes"}, items)))
    if not figures:
        return None
    lead = "Each dot is one pair: the candidate against the base in the same round. The band is the margin."
    if again:
        lead += " Hollow diamonds are base against base: what the bench alone does."
    if apart:
        lead += " A ring marks a pair that stands apart from the rest; it counts all the same."
    return section("pairs", "Differences in order of time", lead, legend(view), h("div", {"class": "panels"}, figures))


def crossings(view: View, pen: Draftsman) -> Markup | None:
    """One panel a candidate, metric and axis: the ratio at every level, and where it crosses 1."""
    if not view.crossings:
        return None
    figures = []
    for one in view.crossings:
        place = f" · {one.where}" if one.where else ""
        title = f"{one.label} of {one.candidate} along {one.axis}{place}"
        figures.append(_figure(crossing_plot(pen, one, view.arms), title, one.text))
    lead = (
        "The change against the base at every level measured, with its interval. Between levels the change is taken as "
        "a straight line in the logarithm of the level; the shaded stretch is where it may be none."
    )
    return section("crossings", "Where the variants change places", lead, h("div", {"class": "panels"}, figures))


def timeline(view: View, pen: Draftsman) -> Markup | None:
    """Blocks and bench health on one time axis, and failed requests by arm."""
    if not view.timeline.bars:
        return None
    lead = (
        "Each bar is one block. Hollow bars are the base's second visits; "
        "a triangle marks a block with failed requests."
    )
    if view.timeline.client_processes > 1:
        lead += f" The client sent from {view.timeline.client_processes} processes where one was not enough."
    chart = timeline_chart(pen, view.timeline, view.arms)
    drawing = h("div", {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": "Timeline"}, chart)
    return section(
        "timeline",
        "What ran when, and how quiet the machine was",
        lead,
        legend(view),
        drawing if chart else None,
        _errors(view),
    )


def _errors(view: View) -> Markup:
    if not view.errors:
        sent = sum(count for _, count in view.requests)
        return h("p", {"class": "quality"}, h("b", None, "Errors "), f"none in {sent:,} requests")
    rows = [
        h(
            "tr",
            None,
            h("th", {"scope": "row"}, e.arm),
            h("td", None, e.kind),
            h("td", {"class": "num"}, f"{e.count:,} of {e.requests:,}"),
        )
        for e in view.errors
    ]
    heads = [h("th", {"scope": "col"}, text) for text in ("Failed requests", "Kind")]
    head = h("tr", None, heads, h("th", {"scope": "col", "class": "num"}, "Count"))
    return h(
        "div",
        {"class": "scroll"},
        h("table", {"class": "plain narrow"}, h("thead", None, head), h("tbody", None, rows)),
    )


def outputs(view: View) -> Markup | None:
    """A few answers side by side; the reader judges, no score is made of them."""
    if not view.outputs:
        return None
    lead = (
        "The same prompt, answered by every variant in the last complete round. A look, not a measurement of quality."
    )
    return section("outputs", "Outputs side by side", lead, [_output_set(view, one) for one in view.outputs])


def _output_set(view: View, one: OutputSet) -> Markup:
    prompt = one.prompt if one.prompt is not None else "prompt not stored"
    short = " ".join(prompt.split())
    summary = h(
        "summary", None, h("b", None, one.cell), h("span", None, short[:110] + ("…" if len(short) > 110 else ""))
    )
    cut = f"\n… {one.prompt_cut:,} more characters" if one.prompt_cut else ""
    answers = h("div", {"class": "answers"}, [_answer(view, output) for output in one.outputs])
    return h("details", {"class": "outputs"}, summary, h("pre", {"class": "prompt"}, prompt, cut), answers)


def _answer(view: View, output: Output) -> Markup:
    arm = next((a for a in view.arms if a.name == output.arm), None)
    if output.same is None:
        said = "base"
    elif output.identical:
        said = "identical to base"
    else:
        said = f"same as base for {output.same:,} characters"
    cut = h("span", {"class": "cut"}, f"\n… {output.cut:,} more characters") if output.cut else None
    head = h("p", None, swatch(arm) if arm else None, h("b", None, output.arm), h("span", None, said))
    return h("div", None, head, h("pre", None, output.text or "(empty)", cut))


def environment(view: View) -> Markup | None:
    """What differs between the arms, then what is the same, then the machine."""
    if not view.environment and not view.machine:
        return None
    heads = [h("th", {"scope": "col"}, ""), [h("th", {"scope": "col"}, swatch(arm), arm.name) for arm in view.arms]]
    body = [
        h(
            "tr",
            {"class": "differs" if row.differs else None},
            h("th", {"scope": "row"}, row.key, h("span", {"class": "mark"}, "differs") if row.differs else None),
            [h("td", None, "–" if value is None else value) for value in row.values],
        )
        for row in view.environment
    ]
    variants = h("table", {"class": "plain"}, h("thead", None, h("tr", None, heads)), h("tbody", None, body))
    machine = [h("tr", None, h("th", {"scope": "row"}, key), h("td", None, value)) for key, value in view.machine]
    return section(
        "environment",
        "Environment",
        None,
        h("h3", None, "Variants"),
        h("div", {"class": "scroll"}, variants),
        h("h3", None, "Machine") if machine else None,
        h("div", {"class": "scroll"}, h("table", {"class": "plain narrow"}, h("tbody", None, machine)))
        if machine
        else None,
    )


def method(view: View) -> Markup:
    """How the numbers came about, how to get them again, and where the raw data lies."""
    items = [[h("dt", None, term), h("dd", None, prose(text))] for term, text in view.method]
    command = [h("h3", None, "Do it again"), h("pre", {"class": "command"}, view.command)] if view.command else None
    return section("method", "Method and raw data", None, h("dl", None, items), command, _raw(view))


def _raw(view: View) -> Markup | None:
    # A redacted report is read away from its run folder, where these links lead nowhere.
    if view.run_path is None or view.redacted:
        return None
    links = [h("li", None, h("a", {"href": f"./{name}"}, name), f" {what}") for name, what in _RAW]
    return h(
        "div",
        None,
        h("h3", None, "Raw data"),
        h("p", None, "Beside this file, in ", h("code", None, view.run_path), ":"),
        h("ul", {"class": "raw"}, links),
    )
