"""Markdown and JSON."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import msgspec
import pytest

from bakeoff.compare.view import build_view
from bakeoff.model import Interval
from bakeoff.report import render_json, render_markdown

from . import sample

HOSTILE = "a|b `c` <img src=x onerror=y> [x](https://evil.example) @team #7 *z* www.evil.example"


def test_markdown_tables_have_equal_columns() -> None:
    lines = [line for line in render_markdown(sample.view()).splitlines() if line.startswith("|")]
    pairs = 2 + 2 * 2 * 3  # two cells, two gates, three arms (the base against itself)
    assert len(lines) == 3 * 2 + 6 + 6 + 4 + pairs
    # Seven columns of measurements, four of pairs.
    assert {line.count("|") - line.count("\\|") for line in lines} == {8, 5}


def test_markdown_says_verdict_why_fix_and_warnings() -> None:
    text = render_markdown(sample.view())
    assert text.startswith("### base → flash, fixed\n")
    assert "**Ship fixed for both prompt lengths.**" in text
    assert "| TTFT | flash | 6.61 s | 11.2 s | +69 % | [+64, +75] | **✗ slower** |" in text
    assert "- **Fix** fixed: flash with a 16-bit KV cache" in text
    assert "- **Warning** flash" in text


def test_markdown_neutralises_untrusted_names() -> None:
    result = sample.result()
    rows = tuple(msgspec.structs.replace(c, candidate=HOSTILE) for c in result.comparisons if c.candidate == "flash")
    hostile = msgspec.structs.replace(result, candidates=(HOSTILE,), comparisons=rows, name=HOSTILE, resources=())
    text = render_markdown(build_view(hostile, sample.experiment()))
    assert "<img" not in text
    assert "](" not in text.replace("\\](", "")
    assert "://" not in text
    assert "@team" not in text
    assert "#7" not in text
    assert "www.evil" not in text
    assert "`" not in text.replace("\\`", "")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in table} == {7}


def test_json_is_the_contract() -> None:
    data = json.loads(render_json(sample.result()))
    assert data["schema"] == "bakeoff.result/1"
    top = {"schema", "run", "base", "candidates", "comparisons", "quality", "resources"}
    assert top | {"findings", "decision", "warnings"} <= data.keys()
    row = data["comparisons"][0]
    assert {
        "candidate", "workload", "load", "metric", "statistic", "unit", "better", "base", "value", "ratio", "outcome",
        "margin", "pairs",
    } <= row.keys()  # fmt: skip
    assert row["load"] == {"concurrency": 1.0}
    assert row["base"].keys() == {"point", "low", "high"}
    assert row["ratio"].keys() == {"point", "low", "high", "confidence"}
    assert {"candidate", "cause", "title", "share", "status", "evidence", "fix"} <= data["findings"][0].keys()
    assert {"ship", "conditions", "reasons"} <= data["decision"].keys()
    assert {"code", "message", "remedy"} <= data["warnings"][0].keys()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_never_holds_what_json_has_not(value: float) -> None:
    result = sample.result()
    row = msgspec.structs.replace(result.comparisons[0], base=Interval(point=value, low=value, high=1.0))
    text = render_json(msgspec.structs.replace(result, comparisons=(row,)))

    def refuse(token: str) -> float:
        raise AssertionError(token)

    data = json.loads(text, parse_constant=refuse)
    assert data["comparisons"][0]["base"] == {"point": None, "low": None, "high": 1.0}
    assert msgspec.json.decode(text)["run"] == result.run


def test_a_terminal_report_loads_no_chart_or_statistics_library() -> None:
    code = (
        "import sys; from bakeoff.report import render_terminal; from bakeoff.compare.view import build_view;"
        "print([m for m in ('vl_convert', 'numpy', 'scipy', 'rich') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
