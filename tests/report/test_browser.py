"""The page in a real browser: charts are drawn, text is legible in light and dark, nothing is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bakeoff.compare.view import build_view
from bakeoff.model import Interval
from bakeoff.report import render_html
from bakeoff.report.trace_diff_html import render_trace_diff_html
from bakeoff.report.trace_html import render_trace_html
from bakeoff.traces import analyse
from bakeoff.traces.diff import diff
from tests.traces.test_diff import busy_loop

from . import sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = [pytest.mark.real, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]

# Every chart: how many of its marks have an area or a length, and whether its own box has one.
MEASURE = """() => [...document.querySelectorAll('svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('[class*=role-mark] *, [class*=role-axis-label] text')].filter(e => {
    const b = e.getBoundingClientRect();
    return b.width > 0 || b.height > 0;
  });
  return {name: svg.querySelector('title').textContent, width: box.width, height: box.height, marks: marks.length};
})"""

# Contrast of every visible text against the nearest opaque background (WCAG 2, relative luminance).
CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const background = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.tagName === 'title' || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = rgb(element.closest('svg') ? style.fill : style.color);
    const [a, b] = [luminance(color), luminance(background(element))].sort((m, n) => n - m);
    found.push({text: node.data.trim().slice(0, 40), ratio: (a + .05) / (b + .05)});
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(sample.view()), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_the_report_in_a_browser(browser: Browser, report: Path, scheme: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests: list[str] = []
    messages: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    assert requests == [report.as_uri()]
    assert messages == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    charts = [c for c in page.evaluate(MEASURE) if not (width == 390 and c["name"].startswith("Axis"))]
    # 18 interval plots, 8 panels and the timeline; on a phone the axes of the tables are left out.
    assert len(charts) == 27 + (4 if width == 1200 else 0)
    for chart in charts:
        assert chart["width"] > 100, chart
        assert chart["height"] > 10, chart
        assert chart["marks"] >= 3, chart
    assert {c["name"].split(":")[0] for c in charts} >= {"TTFT", "Blocks and bench quantities over time"}

    texts = page.evaluate(CONTRAST)
    assert len(texts) > 250
    assert [t for t in texts if t["ratio"] < 4.5] == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(247, 247, 244)"
    assert light is (scheme == "light")
    page.close()


# Texts of one line of a table or list that run into each other, and boxes whose text is wider than they are.
TORN = """() => {
  const clipped = e => e.closest('.again, .of') && getComputedStyle(e.closest('.again, .of')).position === 'absolute';
  const box = e => {  // of the text that is seen
    const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
    let found = null;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.data.trim() || clipped(node.parentElement)) continue;
      const range = document.createRange(); range.selectNodeContents(node);
      const {left, right, top, bottom} = range.getBoundingClientRect();
      if (right - left < 1) continue;
      found = found || {left, right, top, bottom};
      found = {left: Math.min(found.left, left), right: Math.max(found.right, right),
               top: Math.min(found.top, top), bottom: Math.max(found.bottom, bottom)};
    }
    return found;
  };
  const torn = [];
  for (const line of document.querySelectorAll('tr, .gap-row, .glance li')) {
    const cells = [...line.children].map(e => [e.textContent.trim().slice(0, 30), box(e)]).filter(([, b]) => b);
    for (const [i, [a, p]] of cells.entries()) for (const [b, q] of cells.slice(i + 1)) {
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > -4 && y > 2) torn.push([a, b]);
    }
  }
  for (const e of document.querySelectorAll('.num, .gap-row .n, td.n')) {
    const seen = box(e);
    const lines = seen ? (seen.bottom - seen.top) / parseFloat(getComputedStyle(e).fontSize) : 0;
    if (lines > 3.2) torn.push(['broken into lines', e.textContent]);
  }
  return torn;
}"""


@pytest.mark.parametrize("width", [1100, 390])
def test_no_figure_runs_into_its_neighbour(browser: Browser, tmp_path: Path, width: int) -> None:
    rows = tuple(
        msgspec.structs.replace(
            row,
            unit="token/s",
            base=Interval(point=139_000.0),
            value=Interval(point=353_060.0),
            ratio=msgspec.structs.replace(row.ratio, point=2.54, low=0.001, high=541.2),
        )
        for row in sample.result().comparisons
    )
    torn = build_view(msgspec.structs.replace(sample.result(), comparisons=rows), sample.experiment())
    base, other = busy_loop(700), busy_loop(20)
    pages = {
        "run": render_html(torn),
        "diff": render_trace_diff_html(diff(base, other)),
        "trace": render_trace_html(analyse(base)),
    }
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        for opened in (False, True):
            page.evaluate("open => document.querySelectorAll('details').forEach(d => d.open = open)", opened)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate(TORN) == [], name
        page.close()


def test_the_report_prints_in_light_colours(browser: Browser, report: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(report.as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 25, 29)"
    page.close()
