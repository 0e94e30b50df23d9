"""The reference pages name everything that the code has: settings, metrics, outcomes, fields, checks, thresholds."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from bakeoff.compare.audit import limits
from bakeoff.engines.command import read_command
from bakeoff.engines.endpoint import read_url
from bakeoff.engines.llamacpp import KV_TYPES, read_llamacpp
from bakeoff.engines.openai import _read
from bakeoff.engines.settings import SettingsReader
from bakeoff.metrics import METRICS
from bakeoff.model import Caution, Comparison, Crossing, Decision, Finding, Outcome, QualityNote, Result
from bakeoff.stats.anytime import multiplier

from .pages import ROOT, code_words, page, table_rows


def _known(problems: Any) -> set[str]:
    """The settings that the answer to an unknown one lists."""
    (remedy,) = [p.remedy for p in problems if p.key == ("no_such_setting",)]
    return set(remedy.removeprefix("known here: ").split(", "))


def _settings(engine: str, tmp_path: Path) -> set[str]:
    wrong: Mapping[str, Any] = {"no_such_setting": 1}
    if engine == "openai":
        return _known(_read(wrong, {})[-1])
    if engine == "command":
        return _known(read_command(wrong, {})[1])
    return _known(read_llamacpp(wrong, {}, tmp_path)[1])


@pytest.mark.parametrize("engine", ["openai", "command", "llamacpp"])
def test_every_setting_of_an_engine_is_explained(engine: str, tmp_path: Path) -> None:
    rows = [row[0] for row in table_rows(page("engines.md"))]
    named = {word.split(".")[0] for cell in rows for word in re.findall(r"`([\w.]+)`", cell)}
    assert _settings(engine, tmp_path) - named == set()


def test_no_setting_is_explained_that_does_not_exist(tmp_path: Path) -> None:
    text = page("engines.md").partition("## Settings of every endpoint")[2].partition("## When servers")[0]
    known = set().union(*(_settings(engine, tmp_path) for engine in ("openai", "command", "llamacpp")))
    named = {word.split(".")[0] for row in table_rows(text) for word in re.findall(r"`([\w.]+)`", row[0])}
    assert named - known == set()


def test_every_type_of_the_kv_cache_is_named() -> None:
    assert set(KV_TYPES) <= code_words(page("engines.md"))


def test_urls_are_normalised_as_the_page_says() -> None:
    for url in ("http://h:1", "http://h:1/v1", "http://h:1/v1/chat/completions"):
        assert read_url(SettingsReader({"url": url}, {})) == "http://h:1/v1"


def test_every_metric_is_defined_with_its_statistics() -> None:
    method, grammar = page("method.md"), page("experiment-file.md")
    for metric in METRICS.values():
        assert f"`{metric.name}`" in method, metric.name
        assert f"`{metric.name}`" in grammar, metric.name
        assert {f"`{s}`" for s in metric.statistics} <= set(re.findall(r"`\w+`", grammar)), metric.name


def test_every_outcome_is_explained() -> None:
    for name in ("method.md", "reading-a-verdict.md"):
        assert set(get_args(Outcome)) <= code_words(page(name)), name


@pytest.mark.parametrize("kind", [Result, Comparison, Crossing, Finding, Decision, Caution, QualityNote])
def test_every_field_of_the_result_is_explained(kind: type[msgspec.Struct]) -> None:
    words = code_words(page("reading-a-verdict.md").partition("## result.json")[2])
    assert {field.encode_name for field in msgspec.structs.fields(kind)} <= words


def test_every_section_of_the_report_is_explained() -> None:
    text = page("reading-a-verdict.md")
    for file in ("html_verdict.py", "html_evidence.py", "html_timeline.py"):
        for call in _calls((ROOT / "src/bakeoff/report" / file).read_text("utf-8"), "section"):
            title = call.args[1] if len(call.args) > 1 else None
            if isinstance(title, ast.Constant) and isinstance(title.value, str):
                assert f"| {title.value} |" in text, title.value


# the fairness audit ───────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(source: str, function: str) -> list[ast.Call]:
    nodes = ast.walk(ast.parse(source))
    return [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == function]


def _codes() -> set[str]:
    """Every caution code that stands in the source (computed ones spelt out)."""
    codes: set[str] = set()
    for file in sorted((ROOT / "src/bakeoff").rglob("*.py")):
        source = file.read_text("utf-8")
        for call in _calls(source, "Caution"):
            (code,) = [k.value for k in call.keywords if k.arg == "code"]
            known = isinstance(code, ast.Constant) and isinstance(code.value, str)
            codes |= {ast.literal_eval(code)} if known else set(_computed(ast.unparse(code), source))
    return codes


def _computed(code: str, source: str) -> list[str]:
    values = {"f'tokens-{source}'": ["tokens-estimated", "tokens-unknown"], "code": ["contention", "steal"]}[code]
    for value in values:
        assert f'"{value.removeprefix("tokens-")}"' in source
    return values


def _audit() -> list[list[str]]:
    table = page("method.md").partition("## The fairness audit")[2].partition("\n## ")[0]
    return [row for row in table_rows(table) if row[0].startswith("`")]


def test_the_audit_table_has_exactly_the_checks_of_the_source() -> None:
    assert {row[0].strip("`") for row in _audit()} == _codes()
    assert all(len(row) == 5 and all(row) for row in _audit())


def _percent(value: float) -> str:
    return f"{value * 100:g} %"


# limit → (row, the threshold as the page words it); "" is the prose below the table.
_THRESHOLDS = {
    "OUTPUT_TOKENS": ("output-tokens", _percent),
    "SHORTFALL": ("output-shortfall", _percent),
    "MISCOUNTED": ("miscount", _percent),
    "NATURAL_LENGTH": ("output-length", _percent),
    "NATURAL_LENGTH_P": ("output-length", "p < {:g}".format),
    "LENGTHS_OFF": ("lengths-differ", _percent),
    "LENGTHS_SHARE": ("lengths-differ", _percent),
    "INPUT_TOKENS": ("input-tokens", _percent),
    "SAME_OFFSET": ("input-tokens", _percent),
    "FINISH_REASONS": ("finish-reasons", lambda v: f"{v * 100:g} points"),
    "FINISH_P": ("finish-reasons", "p < {:g}".format),
    "UNSEEN_OUTPUT": ("unseen-output", _percent),
    "ODD_STREAMS": ("odd-streams", lambda v: f"{v * 100:g} points"),
    "ODD_P": ("odd-streams", "p < {:g}".format),
    "ERRORS_ONE_ARM": ("survivorship", _percent),
    "CACHE_HITS": ("cache-hits", _percent),
    "CACHE_HEAD_TOKENS": ("cache-head", "{:g} tokens".format),
    "CACHE_UNEQUAL": ("cache-unequal", lambda v: f"{v * 100:g} points"),
    "CACHE_BEYOND": ("cache-contamination", _percent),
    "FOREIGN": ("foreign-traffic", _percent),
    "COUNTED": ("counters-partial", _percent),
    "QUEUEING": ("queueing", _percent),
    "KV_FULL": ("kv-full", _percent),
    "SEND_DELAY": ("client-bound", lambda v: f"over {v * 100:g} % of TTFT"),
    "SEND_DELAY_HEALTHY_S": ("client-bound", lambda v: f"over {v * 1e3:g} ms"),
    "SEND_DELAY_BETWEEN": ("client-bound", lambda v: {1 / 3: "over a third of the margin × TTFT between the arms"}[v]),
    "SEND_DELAY_SHARED": ("client-bound", lambda v: {1.0: "over the margin × TTFT"}[v]),
    "LOOP_LAG_MEDIAN_S": ("client-bound", lambda v: f"over {v * 1e3:g} ms"),
    "LOOP_LAG_TAIL_S": ("client-bound", lambda v: f"over {v * 1e3:g} ms and"),
    "LOOP_LAG_TPOT": ("client-bound", lambda v: f"over {v * 100:g} % of TPOT"),
    "CLIENT_CPU": ("client-bound", lambda v: f"over {v * 100:g} % of a core"),
    "OTHER_CPU": ("contention", _percent),
    "STEAL": ("steal", _percent),
    "BAD_BLOCKS": ("contention", lambda v: {1 / 3: "over a third of its blocks"}[v]),
    "DRIFT_P": ("drift", "p < {:g}".format),
    "DRIFT_OF_MARGIN": ("drift", lambda v: {0.5: "half the margin"}[v]),
    "SERIES_PAIRS": ("drift", "{:g} pairs".format),
    "LAG1_P": ("dependent-pairs", "p < {:g}".format),
    "FIRST_P": ("first-pair", "p < {:g}".format),
    "OUTLIER_SD": ("outlier-pairs", "over {:g} robust".format),
    "WITHIN_P": ("block-warm-up", "p < {:g}".format),
    "MACHINES_P": ("machines-differ", "p < {:g}".format),
    "AA_LEVEL": ("aa-failed", "level {:g}".format),
    "HIDDEN_GAPS": ("hidden-gaps", _percent),
    "TPOT_HIDDEN": ("tpot-hidden", _percent),
    "SATURATION_GROWTH": ("saturated", "{:g}×".format),
    "SATURATION_REQUESTS": ("saturated", "{:g} requests".format),
    "GARBAGE_POINTS": ("garbage-output", lambda v: f"{v * 100:g} points"),
    "GARBAGE_P": ("garbage-output", "p < {:g}".format),
    "BASE_DEGENERATE": ("degenerate-outputs", _percent),
    "DISTINCT_WORDS": ("", lambda v: f"{v * 100:g} % distinct words"),
    "COMPRESSION": ("", lambda v: f"compressed to at most {v * 100:g} %"),
    "UNPRINTABLE": ("", lambda v: f"{v * 100:g} % unprintable"),
    "GIBBERISH_NATS": ("", "{:g} nat".format),
    "GIBBERISH_GAIN": ("", lambda v: {0.0: "its letters come in no order"}[v]),
    "GIBBERISH_SPREADS": ("", "{:g} robust".format),
}


def test_every_threshold_is_the_one_in_the_source() -> None:
    values = {name: value.value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert set(values) == set(_THRESHOLDS)
    prose = " ".join(page("method.md").split())
    for name, (code, wording) in _THRESHOLDS.items():
        rows = [" | ".join(row) for row in _audit() if row[0] == f"`{code}`"] if code else [prose]
        assert any(wording(values[name]) in row for row in rows), f"{name}: {wording(values[name])!r} in {rows}"


def test_the_table_of_half_widths_is_computed() -> None:
    rows = [row for row in table_rows(page("method.md")) if re.fullmatch(r"\d+", row[0]) and len(row) == 4]
    assert len(rows) == 6
    for row in rows:
        for cell, gates in zip(row[1:], (1, 2, 4), strict=True):
            value = multiplier(int(row[0]), 0.05 / gates)
            assert cell == ("∞" if value == float("inf") else f"{value:.2f}"), row
