"""What the view holds, and what redaction leaves out."""

from __future__ import annotations

import dataclasses
import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.view import Material, View, build_view
from bakeoff.compare.view_redact import Cleaner, redacted_result
from bakeoff.compare.view_text import row_of
from bakeoff.model import Caution, Decision, Experiment, Interval, Prompts, Quality, QualityTask, Result, Variant
from bakeoff.report import render_html, render_terminal
from bakeoff.report.markdown import render_markdown

from . import sample


@pytest.fixture(scope="module")
def view() -> View:
    return sample.view()


def test_every_cell_has_curves_of_every_arm(view: View) -> None:
    assert [cell.key for cell in view.cells] == ["short/c1", "long/c1"]
    for cell in view.cells:
        assert [d.metric for d in cell.distributions] == ["ttft_s", "tpot_s"]
        for data in cell.distributions:
            assert [c.arm for c in data.curves] == ["base", "flash", "fixed"]
            for curve in data.curves:
                assert len(curve.x) == len(curve.p) <= 200
                assert list(curve.x) == sorted(curve.x)
                assert curve.p[-1] == 1.0
                assert curve.x[0] <= curve.median <= curve.x[-1]
    # One request of flash failed in each cell; the base's second visits are left out.
    assert [c.requests for c in view.cells[0].distributions[0].curves] == [96, 95, 96]


def test_pairs_are_near_the_truth_and_keep_base_against_base_apart(view: View) -> None:
    series = view.cells[1].pairs[0]
    flash = [p.ratio for p in series.points if p.arm == "flash"]
    again = [p for p in series.points if p.kind == "aa"]
    truth = sample.TRUTH["long/c1"]["flash"][0] / sample.TRUTH["long/c1"]["base"][0]
    assert len(flash) == sample.ROUNDS
    assert abs(math.log(sum(flash) / len(flash) / truth)) < 0.05
    assert [(p.arm, p.round) for p in again] == [("base", 1), ("base", 5)]


def test_timeline_counts_from_the_first_block_in_minutes(view: View) -> None:
    bars = view.timeline.bars
    assert bars[0].start == 0.0
    assert all(bar.end > bar.start for bar in bars)
    assert sum(bar.aa for bar in bars) == 4
    strips = {s.name: s for s in view.timeline.strips}
    assert "temperature_c" not in strips  # this machine does not tell
    assert max(v for *_, v in strips["other_cpu_share"].segments) == 0.61
    assert len(strips["tree_anon_bytes"].segments) == len(bars)


def test_a_result_alone_gives_all_tables() -> None:
    view = build_view(sample.result(), sample.experiment())
    assert len(view.cells[0].rows) == 8
    assert view.cells[0].distributions == ()
    assert view.timeline.bars == ()


def test_unexplained_closes_the_gap(view: View) -> None:
    shares = [f.share.point for f in view.findings if f.share and f.share.point is not None]
    assert view.findings[-1].unexplained
    assert sum(shares) == pytest.approx(1.0)


def test_warnings_that_invalidate_come_first() -> None:
    cautions = (
        Caution(code="a", message="m", remedy="r", severity="note"),
        Caution(code="b", message="m", remedy="r", severity="invalid"),
    )
    result = msgspec.structs.replace(sample.result(), warnings=cautions)
    assert [w.code for w in build_view(result, sample.experiment()).warnings] == ["b", "a"]


def test_what_differs_between_arms_comes_first(view: View) -> None:
    flags = [row.differs for row in view.environment]
    assert flags == sorted(flags, reverse=True)
    assert [row.key for row in view.environment if row.differs] == ["model", "kv_type", "model_sha256", "model_bytes"]


def test_outputs_say_how_far_they_agree(view: View) -> None:
    base, flash, fixed = view.outputs[0].outputs
    assert base.same is None
    assert fixed.identical
    assert flash.same == sample.ANSWERS["base"].index(" and bake")
    assert len(view.outputs) == 6


def test_starts_fact_names_what_the_result_holds_for() -> None:
    experiment = msgspec.structs.replace(sample.experiment(), start_every=0)
    assert "holds for these starts only" in build_view(sample.result(), experiment).facts[-1]


@pytest.mark.parametrize("every", [0, 1])
def test_without_a_whole_round_nothing_is_said_of_starts(every: int) -> None:
    asked = msgspec.structs.replace(sample.experiment(), start_every=every)
    for state, fact in (("interrupted", "no round was completed"), ("running", "no round is complete yet")):
        empty = msgspec.structs.replace(sample.result(), rounds=0, state=state)
        view = build_view(empty, asked, Material(blocks=sample.blocks()[:1]))
        assert view.facts[-1] == fact
        assert "start per arm" not in " ".join(view.facts)
        assert "round" in (view.state_text or "")
        assert "0 rounds" not in (view.state_text or "")


def thinking(value: float, base: float = 0.212, **fields: object) -> Result:
    """The sample with a first visible output of fixed in the short cell."""
    row = sample.row("fixed", "short", "ttfo_s", base, (1.39, 1.35, 1.43), "slower")
    row = msgspec.structs.replace(row, value=Interval(point=value), **fields)
    return msgspec.structs.replace(sample.result(), comparisons=(*sample.comparisons(), row))


@pytest.mark.parametrize(("base", "value", "shown"), [(0.212, 0.295, True), (0.25, 0.168, True), (0.213, 0.169, False)])
def test_a_first_output_that_is_not_the_first_token_is_shown(base: float, value: float, shown: bool) -> None:
    view = build_view(thinking(value, base), sample.experiment())
    (row,) = [row for row in view.cells[0].rows if row.metric == "ttfo_s"]
    assert row.primary is shown
    for text in (render_terminal(view, color=False), render_markdown(view)):
        assert ("TTFO" in text) is shown
    assert "TTFO" in render_html(view)


def test_what_the_pairs_could_show_is_told_gate_by_gate() -> None:
    rows = tuple(
        msgspec.structs.replace(c, minimum_detectable={"short": 0.012, "long": 0.03}[c.workload or ""])
        for c in sample.comparisons()
    )
    start = msgspec.structs.replace(sample.resources()[2], gate=True, minimum_detectable=0.54)
    result = msgspec.structs.replace(sample.result(), comparisons=rows, resources=(start, sample.resources()[0]))
    told = dict(build_view(result, sample.experiment()).method)["Sensitivity"]
    assert told == (
        "The smallest change that these pairs could show: TTFT 1.2 to 3.0 %, TPOT 1.2 to 3.0 %, Start-up 54 %."
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot connect to http://127.0.0.1:8000: connection refused", "http://redacted: connection refused"),
        ("cannot connect to http://[::1]:8000/v1: refused", "http://redacted/v1: refused"),
        ("(see https://a.example), https://b.example; done", "(see https://redacted), https://redacted; done"),
        ("https://a.example/x?key=secret: refused", "https://redacted/x: refused"),
        ("https://u:secret@a.example.", "https://redacted."),
        ("no socket at unix:/run/me/s.sock: no such file", "unix://redacted: no such file"),
    ],
)
def test_redact_keeps_the_sentence_around_an_address(text: str, shown: str) -> None:
    found = Cleaner(redact=True)(text)
    assert shown in found
    assert "secret" not in found
    assert "example" not in found


def test_throughput_is_primary_only_where_it_is_not_e2e_said_twice() -> None:
    row = sample.row("flash", "short", "token_throughput_tps", 40.0, (1.2, 1.1, 1.3), "faster", statistic="total")
    clean = Cleaner(redact=False)
    assert not row_of(row, clean).primary
    assert row_of(msgspec.structs.replace(row, load={"concurrency": 8.0}), clean).primary
    assert not row_of(msgspec.structs.replace(row, load={"rate": 8.0}), clean).primary


def test_redact_leaves_nothing_private() -> None:
    text = repr(dataclasses.astuple(sample.view(redact=True)))
    for private in ("/home", "baker", "sourdough", "220 °C", "kitchen.example"):
        assert private not in text
    assert "gemma-3-270m-q8_0.gguf" in text


def test_redact_reaches_hosts_named_outside_of_urls() -> None:
    experiment = sample.experiment()
    remote = Variant(name="flash", engine="openai", settings={"url": "https://u:p@gpu7.corp.example:8443/v1"})
    experiment = msgspec.structs.replace(experiment, variants=(experiment.variants[0], remote, experiment.variants[2]))
    message = "cannot resolve gpu7.corp.example (tried 10.1.2.3:8443, see /var/log/x.log and runs/a/b.log)"
    result = msgspec.structs.replace(
        sample.result(),
        run="/srv/runs/r1",
        warnings=(Caution(code="c", message=message, remedy="https://a.example/x?k=1"),),
    )
    view = build_view(result, experiment, redact=True)
    assert view.warnings[0].message == "cannot resolve redacted (tried redacted, see x.log and b.log)"
    assert view.warnings[0].remedy == "https://redacted/x"
    assert next(r for r in view.environment if r.key == "url").values[1] == "https://redacted/v1"
    shared = redacted_result(result, experiment)
    assert shared.run == "r1"
    assert shared.comparisons == result.comparisons
    assert "corp" not in msgspec.json.encode(shared).decode()


def _recorded(path: str) -> Experiment:
    """The sample's experiment with prompts from a file in its first workload."""
    experiment = sample.experiment()
    first, *rest = experiment.workloads
    prompts = Prompts(source="jsonl", path=path, recorded_lengths=True)
    return msgspec.structs.replace(
        experiment, workloads=(msgspec.structs.replace(first, prompts=prompts, output_tokens=None), *rest)
    )


def test_a_title_names_the_file_of_prompts_not_its_place() -> None:
    view = build_view(sample.result(), _recorded("/srv/secret/chats/conv.csv"))
    assert view.cells[0].title == "short conv.csv/recorded, 1 at a time"


def test_redact_takes_out_the_names_of_files_of_prompts() -> None:
    experiment = _recorded("/srv/secret/chats/acme-support.csv")
    notes = (
        Caution(code="prompt-note", message="acme-support.csv: 3 lines passed over", remedy="mend acme-support.csv"),
    )
    decision = Decision(ship=None, reasons=("undecided in short acme-support.csv/recorded",))
    result = msgspec.structs.replace(sample.result(), warnings=notes, decision=decision)
    assert "acme" in render_terminal(build_view(result, experiment), color=False, full=True)
    view = build_view(result, experiment, redact=True)
    assert view.cells[0].title == "short redacted/recorded, 1 at a time"
    for text in (render_terminal(view, color=False, full=True), render_html(view)):
        assert "acme" not in text
    assert b"acme" not in msgspec.json.encode(redacted_result(result, experiment))


def test_redact_takes_out_the_names_of_files_of_questions() -> None:
    tasks = (QualityTask(name="faq", source="jsonl", path="/srv/secret/acme-faq.jsonl"),)
    experiment = msgspec.structs.replace(sample.experiment(), quality=Quality(tasks=tasks))
    notes = (Caution(code="quality-source", message="acme-faq.jsonl: line 3 has no answer", remedy="mend it"),)
    result = msgspec.structs.replace(sample.result(), warnings=notes)
    assert "acme" in render_terminal(build_view(result, experiment), color=False, full=True)
    view = build_view(result, experiment, redact=True)
    for text in (render_terminal(view, color=False, full=True), render_html(view)):
        assert "acme" not in text
    assert b"acme" not in msgspec.json.encode(redacted_result(result, experiment))


def test_a_long_decision_is_a_list_and_whole() -> None:
    open_gates = "TTFT +2.0 % inconclusive; " * 20
    reasons = tuple(f"flash is undecided in cell {i}: {open_gates}the end {i}" for i in range(10))
    result = msgspec.structs.replace(sample.result(), decision=Decision(ship=None, reasons=reasons))
    view = build_view(result, sample.experiment())
    assert view.decision.reasons == reasons
    page = render_html(view)
    assert all(f"the end {i}</li>" in page for i in range(10))
    assert "<summary>4 more</summary>" in page
    brief, full = (" ".join(render_terminal(view, color=False, full=full).split()) for full in (False, True))
    assert "the end 7" in brief
    assert "the end 8" not in brief
    assert "and 2 more: see the report, or --full" in brief
    assert "the end 9" in full


@pytest.mark.parametrize(
    "text", ["40 token/s", "2048/32, 1 at a time", "KV q8_0/f16", "a/b is 1/2", "org/model-name", "9:30"]
)
def test_redact_keeps_what_is_no_path(text: str) -> None:
    assert Cleaner(redact=True)(text) == text


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_clean_text_is_bounded_printable_and_encodable(text: str, limit: int) -> None:
    for redact in (False, True):
        cleaned = Cleaner(redact=redact, names=["host.example"])(text, limit)
        assert len(cleaned) <= limit
        cleaned.encode("utf-8")
        assert not any(c < " " or 0x7F <= ord(c) < 0xA0 for c in cleaned)


def test_every_gate_shows_its_pairs_in_short(view: View) -> None:
    series = view.cells[0].pairs[0]
    by_arm = {(s.arm, s.kind): s for s in series.summaries}
    assert set(by_arm) == {("flash", "pair"), ("fixed", "pair"), ("base", "aa")}
    flash = by_arm["flash", "pair"]
    assert flash.pairs == sample.ROUNDS
    logs = [math.log(p.ratio) for p in series.points if p.arm == "flash"]
    mean = sum(logs) / len(logs)
    assert math.log(flash.ratio) == pytest.approx(mean)
    assert flash.spread == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1)))
    assert flash.detectable is not None
    assert flash.likeness is not None
    assert flash.drift is not None
    assert by_arm["base", "aa"].pairs == 2


def test_a_pair_that_stands_apart_is_marked() -> None:
    blocks = sample.blocks()
    for i, data in enumerate(blocks):
        if (data.block.round, data.block.variant, data.block.cell) == (3, "fixed", "short/c1"):
            late = data.columns["first_token_ns"] + 200_000_000
            blocks[i] = dataclasses.replace(data, columns={**data.columns, "first_token_ns": late})
    view = build_view(sample.result(), sample.experiment(), Material(blocks=blocks))
    ttft = view.cells[0].pairs[0]
    assert [(p.arm, p.round) for p in ttft.points if p.outlier] == [("fixed", 3)]
    text = render_terminal(view, color=False, full=True)
    assert len(re.findall(r"\+\d+!", text)) == 1
    assert "A ring marks a pair that stands apart" in render_html(view)


def test_probe_blocks_are_no_part_of_a_report() -> None:
    blocks = sample.blocks()
    probe = blocks[0].block
    more = [*blocks, dataclasses.replace(blocks[0], block=msgspec.structs.replace(probe, id=999, kind="probe"))]
    plain, probed = (build_view(sample.result(), sample.experiment(), Material(blocks=b)) for b in (blocks, more))
    assert plain == probed


def test_blocks_of_several_clocks_have_no_timeline() -> None:
    material = Material(blocks=sample.blocks(), one_clock=False)
    view = build_view(sample.result(), sample.experiment(), material)
    assert view.timeline.bars == ()
    assert view.cells[0].pairs


def test_margins_of_single_metrics_are_told() -> None:
    asked = msgspec.structs.replace(sample.experiment(), margins={"ttft_s": 0.05})
    view = build_view(sample.result(), asked, Material(blocks=sample.blocks()))
    assert [s.margin for s in view.cells[0].pairs] == [0.05, 0.03]
    assert "beyond the margin of ±3 % (TTFT ±5 %)" in dict(view.method)["Outcomes"]


def test_time_that_missing_pairs_take() -> None:
    rows = tuple(
        msgspec.structs.replace(c, outcome="inconclusive", pairs_needed=11, seconds_needed=660.0)
        for c in sample.comparisons()
    )
    view = build_view(msgspec.structs.replace(sample.result(), comparisons=rows), sample.experiment())
    assert "about 11 more pairs needed (about 11 min)" in (view.cells[0].rows[0].note or "")
