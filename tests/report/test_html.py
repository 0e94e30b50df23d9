"""The page without a browser: one file, no script, nothing fetched, everything escaped."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from bakeoff.compare.view import Material, View, build_view
from bakeoff.compare.view_types import Bar, Curve, Strip, Timeline
from bakeoff.model import BlockData, Caution, Cell, Decision, Interval, Result, Variant
from bakeoff.report import render_html, render_terminal
from bakeoff.report.html_element import Markup, h, join, prose
from bakeoff.report.html_page import POLICY
from bakeoff.report.markdown import render_markdown

from . import sample

EVIL = "\"'></title></svg><script>alert(1)</script><img src=x onerror=alert(1)>"
VOID = {"meta", "br", "hr", "img", "link", "input", "col"}


class Page(HTMLParser):
    """Collects tags and attributes, and fails where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(sample.view())


def test_the_page_nests_and_has_its_sections(page: str) -> None:
    tags = Page(page)
    ids = [value for name, value in tags.attributes if name == "id" and value and not value.endswith("-title")]
    expected = ["measurements", "resources", "why", "warnings", "distributions", "pairs", "timeline", "outputs"]
    assert ids == [*expected, "environment", "method"]
    assert "Ship fixed for both prompt lengths." in tags.texts
    # 18 + 2 rows with a plot, 4 axes, 4 panels of each kind, 1 timeline.
    rows = len(sample.comparisons()) + len(sample.resources())
    assert tags.tags.count("svg") == rows + 4 + 4 + 4 + 1


def test_nothing_runs_and_nothing_is_fetched(page: str) -> None:
    tags = Page(page)
    assert POLICY in dict(tags.attributes).values() or ("content", POLICY) in tags.attributes
    assert not {"script", "iframe", "object", "embed", "link", "img", "image", "base", "form"} & set(tags.tags)
    assert not re.search(r"https?://", page)
    assert "url(" not in page
    assert "@import" not in page
    for name, value in tags.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "xlink:href", "action", "poster")
        if name == "href":
            assert value is not None
            assert value.startswith(("#", "./"))


def test_charts_take_their_colours_from_the_page(page: str) -> None:
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    painted = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawings))
    assert {"var(--arm-0)", "var(--arm-1)", "var(--arm-2)", "var(--good)", "var(--bad)"} <= painted
    assert not [p for p in painted if p.startswith(("#", "rgb")) or p in ("black", "white")]


def hostile() -> View:
    """Every text that others write is hostile: names, settings, prompts, outputs, errors, warnings."""
    result, experiment = sample.result(), sample.experiment()
    rows = {"base": "base", "flash": f"flash{EVIL}", "fixed": "fixed"}

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return rows.get(value, value)
        if isinstance(value, (list, tuple)):
            return [renamed(item) for item in value]
        if isinstance(value, dict):
            evil = (
                "title",
                "reason",
                "message",
                "remedy",
                "fix",
                "evidence",
                "conditions",
                "reasons",
                "method",
                "name",
            )
            return {
                k: (f"{v}{EVIL}" if isinstance(v, str) else [EVIL]) if k in evil and v else renamed(v)
                for k, v in value.items()
            }
        return value

    evil_result = msgspec.convert(renamed(msgspec.to_builtins(result)), Result)
    variants = tuple(
        Variant(name=rows[v.name], engine=v.engine, settings={**v.settings, EVIL: EVIL}) for v in experiment.variants
    )
    blocks = []
    for data in sample.blocks():
        columns = dict(data.columns)
        for name in ("prompt", "text"):
            column = columns[name].copy()
            column[:] = f"{name}{EVIL}\x00\x1b\ud800"
            columns[name] = column
        block = msgspec.structs.replace(data.block, variant=rows[data.block.variant])
        blocks.append(BlockData(block=block, columns=columns))
    return build_view(
        evil_result,
        msgspec.structs.replace(experiment, variants=variants, name=EVIL),
        Material(
            blocks=blocks,
            environment=sample.environment(),
            command=f"bakeoff run {EVIL}",
            run_path=f"runs/{EVIL}",
        ),
    )


def test_untrusted_text_never_becomes_markup() -> None:
    text = render_html(hostile())
    tags = Page(text)
    assert "script" not in tags.tags
    assert "img" not in tags.tags
    assert not re.search(r"<\s*script", text, re.IGNORECASE)
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert text.count("&lt;script&gt;alert(1)") > 20
    # Also inside a drawing: the lane of the timeline is named after the variant.
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "flash\"'&gt;&lt;/ti" in drawings
    assert text.encode("utf-8")
    assert "\x00" not in text
    assert "\x1b" not in text


def test_elements_escape_by_default() -> None:
    made = h(
        "a", {"title": 'x" onclick="y', "hidden": True, "id": None}, "<b>", [h("i", None, "&"), None], Markup("<br>")
    )
    assert made == '<a title="x&quot; onclick=&quot;y" hidden>&lt;b&gt;<i>&amp;</i><br></a>'
    assert join(["<", Markup("<")]) == "&lt;<"


def test_redacted_page_has_no_prompts_paths_or_links() -> None:
    text = render_html(sample.view(redact=True))
    assert 'id="outputs"' not in text
    for private in ("sourdough", "/home", "kitchen.example", 'href="./'):
        assert private not in text
    assert "redacted for sharing" in text


def test_without_the_chart_library_tables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "vl_convert":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    text = render_html(sample.view())
    tags = Page(text)
    assert "svg" not in tags.tags
    assert "The charts could not be drawn: the package vl-convert-python is not installed" in text
    assert "[+64, +75]" in text


def test_a_failing_chart_library_does_not_fail_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    import vl_convert

    def broken(*_args: object, **_kwargs: object) -> str:
        raise ValueError("no")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", broken)
    text = render_html(sample.view())
    assert "The charts could not be drawn: the chart library failed (ValueError)" in text
    assert "[+64, +75]" in text


def test_odd_data_still_renders() -> None:
    """No pairs, unknown bounds, a value of zero, a huge change, equal values."""
    rows = (
        sample.row("flash", "short", "ttft_s", 0.2, (1.0, None, None), "inconclusive", gate=True),
        sample.row("flash", "short", "tpot_s", 0.02, (400.0, 300.0, None), "slower", gate=True),
        sample.row("flash", "long", "ttft_s", 0.2, (0.001, 0.0005, 0.002), "faster", gate=True),
    )
    view = build_view(msgspec.structs.replace(sample.result(), comparisons=rows), sample.experiment())
    flat = Curve(arm="flash", x=(0.0,), p=(1.0,), requests=1, median=0.0)
    distribution = replace(sample.view().cells[0].distributions[0], curves=(flat,))
    cells = (replace(view.cells[0], distributions=(distribution,)), *view.cells[1:])
    text = render_html(replace(view, cells=cells))
    Page(text)
    assert "could not be drawn" not in text
    empty = build_view(msgspec.structs.replace(sample.result(), comparisons=(), resources=()), sample.experiment())
    assert "Nothing was measured yet." in render_html(empty)


def test_a_large_run_stays_below_two_megabytes() -> None:
    small = sample.view()
    curves = tuple(
        Curve(
            arm=arm,
            x=tuple(0.2 + i * 0.00137 for i in range(200)),
            p=tuple((i + 1) / 200 for i in range(200)),
            requests=9000,
            median=0.3,
        )
        for arm in ("base", "flash", "fixed")
    )
    cells = []
    for number in range(8):
        cell = small.cells[number % 2]
        points = tuple(
            replace(p, round=p.round + 8 * k, group=p.round + 8 * k) for k in range(5) for p in cell.pairs[0].points
        )
        cells.append(
            replace(
                cell,
                key=Cell(workload="w", kind="closed", level=number).key,
                distributions=tuple(replace(d, curves=curves) for d in cell.distributions),
                pairs=tuple(replace(s, points=points) for s in cell.pairs),
            )
        )
    bars = tuple(
        Bar(arm=arm, cell="c", round=r, group=r, aa=False, start=t, end=t + 0.11, requests=30, errors=0)
        for r in range(40)
        for a, arm in enumerate(("base", "flash", "fixed"))
        for c in range(8)
        for t in ((r * 24 + a * 8 + c) * 0.125,)
    )
    strips = tuple(
        Strip(name=s.name, label=s.label, unit=s.unit, segments=tuple((b.arm, b.start, b.end, 0.1234567) for b in bars))
        for s in small.timeline.strips
    )
    text = render_html(replace(small, cells=tuple(cells), timeline=Timeline(bars=bars, strips=strips)))
    assert len(bars) == 960
    assert len(text.encode()) < 2_000_000


def test_the_base_is_hidden_only_where_it_is_that_of_the_row_above() -> None:
    rows = tuple(
        msgspec.structs.replace(c, base=Interval(point=0.263)) if (c.candidate, c.metric) == ("fixed", "ttft_s") else c
        for c in sample.comparisons()
    )
    text = render_html(build_view(msgspec.structs.replace(sample.result(), comparisons=rows), sample.experiment()))
    assert "<span>263 ms</span>" in text
    assert '<span class="again">263 ms</span>' not in text
    assert '<span class="again">21.7 ms</span>' in text
    assert '<span class="again">TTFT</span>' in text


def test_many_invalidities_do_not_bury_the_verdict() -> None:
    warnings = tuple(
        Caution(code=f"c{i}", severity="invalid", message=f"reason {'abcde'[i]}", remedy="repeat") for i in range(5)
    )
    page = render_html(build_view(msgspec.structs.replace(sample.result(), warnings=warnings), sample.experiment()))
    assert page.count('class="banner"') == 3
    assert "and 2 more of this kind" in page
    assert all(f"reason {letter}" in page for letter in "abcde")


def test_cards_show_all_gates_and_nothing_else() -> None:
    resources = tuple(msgspec.structs.replace(row, gate=row.metric == "cold_start_s") for row in sample.resources())
    result = msgspec.structs.replace(sample.result(), resources=resources)
    page = render_html(build_view(result, sample.experiment()))
    cards = re.findall(r'<article class="card">.*?</article>', page)
    assert len(cards) == 2
    for card in cards:
        assert re.findall(r'<span class="what">(.*?)</span>', card) == ["TTFT", "TPOT", "TTFT", "TPOT", "Start-up"]


def test_every_row_that_is_no_gate_is_labelled_so() -> None:
    view = sample.view()
    page, markdown = render_html(view), render_markdown(view)
    open_rows = [row for row in (*view.resources, *(r for c in view.cells for r in c.rows)) if not row.gate]
    assert page.count('<span class="explored">explored</span>') == len(open_rows)
    assert markdown.count("(explored)") == sum(row.primary for row in open_rows)
    assert render_terminal(view, color=False, width=120).count("(explored)") == sum(row.primary for row in open_rows)


def test_words_in_backticks_are_code_and_still_escaped() -> None:
    assert prose("run `bakeoff doctor <x>` now") == "run <code>bakeoff doctor &lt;x&gt;</code> now"
    assert prose("a ` b <i>") == "a ` b &lt;i&gt;"
    warning = Caution(code="c", severity="invalid", message="tails are not; medians are", remedy="see `bakeoff doctor`")
    decision = Decision(ship=None, reasons=("raise `budget.pairs`",))
    result = msgspec.structs.replace(sample.result(), warnings=(warning,), decision=decision)
    page = render_html(build_view(result, sample.experiment()))
    assert page.count("<code>bakeoff doctor</code>") == 2
    assert "<code>budget.pairs</code>" in page
    assert "medians are<br>→ see" in page
    assert "`" not in page.partition("<body")[2]


def test_a_headline_is_short_and_its_conditions_stand_below() -> None:
    conditions = (
        "if its quality suffices (accuracy on sums −0.4 points " + "and so on " * 20 + ")",
        "for this start only",
    )
    result = msgspec.structs.replace(sample.result(), decision=Decision(ship="fixed", conditions=conditions))
    page = render_html(build_view(result, sample.experiment()))
    assert "Ship fixed, under these conditions:</h1>" in page
    assert '<ul class="reasons conditions"><li>if its quality suffices' in page
    assert "<li>for this start only</li>" in page
    short = msgspec.structs.replace(result, decision=Decision(ship="fixed", conditions=conditions[1:]))
    page = render_html(build_view(short, sample.experiment()))
    assert "Ship fixed for this start only.</h1>" in page
    assert 'class="reasons conditions"' not in page
