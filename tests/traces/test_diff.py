"""The difference of two traces: rows add up, swapping negates, itself is nothing; causes, alignment, refusals."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.report.trace_diff_html import render_trace_diff_html
from bakeoff.report.trace_diff_terminal import render_trace_diff
from bakeoff.report.trace_diff_words import band_text
from bakeoff.traces import Timeline, TraceError, read
from bakeoff.traces.diff import TraceDiff, as_json, diff
from bakeoff.traces.diff_types import Band
from bakeoff.traces.diff_words import amount
from bakeoff.traces.timeline import Detail, HostKind

from .diff_timelines import compile_timeline, cpu_timeline, cpu_timelines, gpu_timeline, gpu_timelines

REAL = Path(__file__).parents[3] / "shared" / "traces"
TINY = 1e-9  # ms
TOKENS = st.one_of(st.none(), st.tuples(st.integers(1, 500), st.integers(1, 500)))


def values(found: TraceDiff) -> dict[tuple[str, str], float]:
    return {(row.kind, row.name): row.ms for row in (*found.rows, *found.residual)}


def check_sums(found: TraceDiff) -> None:
    scale = max(1.0, abs(found.base_ms), abs(found.candidate_ms))
    assert math.isclose(
        math.fsum([*(row.ms for row in found.rows), found.residual_ms]), found.gap_ms, abs_tol=TINY * scale
    )
    assert math.isclose(math.fsum(row.ms for row in found.residual), found.residual_ms, abs_tol=TINY * scale)
    assert math.isclose(found.candidate_ms - found.base_ms, found.gap_ms, abs_tol=TINY * scale)
    rows = (*found.rows, *found.residual)
    assert math.isclose(math.fsum(row.base_ms for row in rows), found.base_ms, abs_tol=TINY * scale)
    assert math.isclose(math.fsum(row.candidate_ms for row in rows), found.candidate_ms, abs_tol=TINY * scale)
    assert all(row.base_ms >= 0 and row.candidate_ms >= 0 for row in rows)


@settings(max_examples=120, deadline=None)
@given(gpu_timelines(), gpu_timelines(), TOKENS)
def test_rows_add_up_and_swapping_negates(a: Timeline, b: Timeline, tokens: tuple[int, int] | None) -> None:
    there = diff(a, b, tokens=tokens)
    check_sums(there)
    back = diff(b, a, tokens=(tokens[1], tokens[0]) if tokens else None)
    assert back.gap_ms == pytest.approx(-there.gap_ms, abs=TINY)
    assert back.residual_ms == pytest.approx(-there.residual_ms, abs=TINY)
    assert {k: -v for k, v in values(back).items()} == pytest.approx(values(there), abs=TINY)


@settings(max_examples=60, deadline=None)
@given(gpu_timelines())
def test_a_trace_against_itself_is_nothing(a: Timeline) -> None:
    found = diff(a, a)
    assert found.gap_ms == 0
    assert found.residual_ms == 0
    assert set(values(found).values()) <= {0.0}
    assert found.cause == "there is no gap"


@settings(max_examples=60, deadline=None)
@given(cpu_timelines(), cpu_timelines())
def test_cpu_traces_add_up_too(a: Timeline, b: Timeline) -> None:
    found = diff(a, b)
    check_sums(found)
    assert {k: -v for k, v in values(diff(b, a)).items()} == pytest.approx(values(found), abs=TINY)


@settings(max_examples=30, deadline=None)
@given(st.lists(gpu_timelines(), min_size=2, max_size=3), st.lists(gpu_timelines(), min_size=2, max_size=3))
def test_several_traces_add_up_and_have_bands(a: list[Timeline], b: list[Timeline]) -> None:
    found = diff(a, b)
    check_sums(found)
    assert found.band is not None
    assert found.band.low <= found.gap_ms <= found.band.high
    assert all(row.band is not None for row in found.rows)


def busy_loop(loading: int) -> Timeline:
    """Four steps of two kernels; before each, the host loads data for so many µs."""
    kernels, host, steps = [], [], []
    at = 0
    for _ in range(4):
        begin = at
        host.append((at, at + loading, "enumerate(DataLoader)#next"))
        at += loading + 2
        kernels += [(at + 5, at + 105, "void gemm_kernel", at), (at + 105, at + 155, "elementwise_kernel", at + 2)]
        at += 156
        steps.append((begin, at))
    return gpu_timeline(kernels, host=host, steps=steps)


def test_a_slow_data_loader_is_named() -> None:
    found = diff(busy_loop(700), busy_loop(20))
    assert (found.unit, found.aligned, found.steps) == ("trace", True, (4, 4))
    assert found.gap_ms == pytest.approx(-3 * 0.680)
    top = found.rows[0]
    assert (top.kind, top.name) == ("idle", "host: data loading")
    assert top.ms == pytest.approx(found.gap_ms, rel=0.01)
    assert "the host: −2.04 ms" in found.cause
    assert "data loading (enumerate(DataLoader)#next)" in found.cause
    assert top.base.events == 3
    assert top.base.longest_ms == pytest.approx(0.708)
    assert found.sums["busy"] == pytest.approx(0)


def test_communication_hidden_behind_compute_costs_nothing() -> None:
    hidden = gpu_timeline([(0, 100, "gemm", 0), (10, 90, "ncclDevKernel", 1)], stream=[1, 2])
    exposed = gpu_timeline([(0, 100, "gemm", 0), (100, 180, "ncclDevKernel", 1)], stream=[1, 2])
    found = diff(hidden, exposed)
    assert values(found) == pytest.approx({("busy", "gemm"): 0.0, ("communication", "exposed"): 0.080})
    assert found.sums["communication"] == pytest.approx(0.080)


def test_kernels_of_several_streams_share_the_time_they_run_at_once() -> None:
    together = gpu_timeline([(0, 100, "gemm", 0), (0, 100, "elementwise", 1)], stream=[1, 2])
    found = diff(gpu_timeline([(0, 100, "gemm", 0)]), together)
    assert found.gap_ms == 0
    assert values(found) == pytest.approx({("busy", "gemm"): -0.050, ("busy", "elementwise"): 0.050})


def test_time_that_no_one_can_explain_is_the_residual() -> None:
    base = gpu_timeline([(0, 100, "gemm", 0), (100, 200, "gemm", 1)])
    odd = gpu_timeline([(0, 100, "gemm", 0), (180, 280, "gemm", None), (280, 300, "zzz", 1)])
    found = diff(base, odd, tokens=(1, 1))
    assert found.gap_ms == pytest.approx(0.100)
    assert found.residual_ms == pytest.approx(0.100)
    assert {row.label for row in found.residual} == {"idle · unknown", "busy · unclassified"}
    assert found.cause == "the traces do not tell: it lies in the residual"


def test_different_numbers_of_steps_are_compared_per_step() -> None:
    short = gpu_timeline(
        [(0, 90, "gemm", 0), (100, 190, "gemm", 100)], steps=[(0, 50), (100, 150)], host=[(95, 101, "DataLoader")]
    )
    windows = [(100 * k, 100 * k + 50) for k in range(4)]
    long = gpu_timeline([(start, end, "gemm", start) for start, end in windows], steps=windows)
    found = diff(short, long)
    assert (found.unit, found.steps) == ("step", (2, 4))
    assert found.base_ms == pytest.approx(0.095)
    assert found.candidate_ms == pytest.approx(0.350 / 4)
    assert values(found)["busy", "gemm"] == pytest.approx(-0.040)
    check_sums(found)


def test_per_token() -> None:
    found = diff(gpu_timeline([(0, 100, "gemm", 0)]), gpu_timeline([(0, 300, "gemm", 0)]), tokens=(10, 20))
    assert (found.unit, found.tokens) == ("token", (10, 20))
    assert found.gap_ms == pytest.approx(0.015 - 0.010)
    assert "per output token: 10 in base, 20 in candidate" in found.alignment
    with pytest.raises(TraceError, match="above 0"):
        diff(gpu_timeline([(0, 1, "gemm", 0)]), gpu_timeline([(0, 1, "gemm", 0)]), tokens=(0, 5))


def test_without_steps_the_reason_is_said_and_different_work_is_noticed() -> None:
    found = diff(gpu_timeline([(0, 10, "gemm", 0)]), gpu_timeline([(k, k + 1, "gemm", k) for k in range(9)]))
    assert not found.aligned
    assert "neither trace marks steps" in found.alignment
    assert any("1 GPU events against 9" in note for note in found.notes)
    told_apart(found)


def told_apart(found: TraceDiff) -> None:
    """Both breakdowns and why they cannot be compared: no cause, no share, nothing slower or faster."""
    assert found.cause == "none can be named: the windows are not aligned, and may hold different work"
    assert all(row["share"] is None for row in as_json(found)["rows"])
    text = render_trace_diff(found, color=False, full=True)
    assert "ms   whole windows, not aligned: no comparison" in text.splitlines()[1]
    page = render_trace_diff_html(found)
    assert "The two windows cannot be compared" in page
    for shown in (text, page):
        assert "neither trace marks steps" in shown or "does not mark steps" in shown
        assert not re.search(r"slower|faster|of gap\b|>of the gap|\d %", shown)


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("kineto/cpu_only.json.gz", "ort/mlp_fp32.json"),
        ("nsys/schema_3_25_h100_before.sqlite", "kineto/a100_ddp_nccl.json.gz"),
    ],
)
def test_windows_of_other_work_name_no_cause(one: str, two: str) -> None:
    told_apart(diff(read(REAL / one), read(REAL / two)))


def test_a_gap_within_the_noise_is_not_called_slower() -> None:
    found = diff(busy_loop(700), busy_loop(20))
    assert found.noisy
    assert found.cause.startswith("the gap of −2.04 ms is within the noise (4 and 4 steps of one trace each); its larg")
    text = render_trace_diff(found, color=False).splitlines()
    assert text[1].endswith("−2.04 ms, within the noise")
    assert '<h1 class="long">The difference of 2.04 ms is within the noise</h1>' in render_trace_diff_html(found)


def test_a_gap_beyond_the_noise_is() -> None:
    sides = [[gpu_timeline([(0, end + k, "gemm", 0)], steps=[(0, end + k)]) for k in range(3)] for end in (100, 300)]
    found = diff(*sides)
    assert not found.noisy
    assert "+0.20 ms slower" in render_trace_diff(found, color=False)
    assert "The candidate is 0.20 ms slower" in render_trace_diff_html(found)


def test_traces_that_answer_different_questions_are_refused() -> None:
    gpu = gpu_timeline([(0, 10, "gemm", 0)], source="gpu.json")
    cpu = cpu_timeline([(0, 10, "aten::mm")], source="cpu.json")
    empty = gpu_timeline([], host=[(0, 5, "a range")], source="empty.json")
    log = compile_timeline([("compile", "f", 1.0)])
    with pytest.raises(TraceError, match=r"gpu\.json holds GPU events; cpu\.json holds operators of a CPU only"):
        diff(gpu, cpu)
    for a, b in ((cpu, log), (gpu, empty), (empty, empty)):
        with pytest.raises(TraceError) as caught:
            diff(a, b)
        assert caught.value.remedy
    with pytest.raises(TraceError, match="on each side"):
        diff([], gpu)


def test_mixed_formats_are_compared_with_what_both_know() -> None:
    linked = gpu_timeline([(0, 100, "gemm", 0), (150, 250, "gemm", 149)], source="a")
    silent = gpu_timeline([(0, 100, "gemm", None), (120, 220, "gemm", None)], source="b")
    found = diff(linked, silent)
    assert values(found) == pytest.approx({("busy", "gemm"): 0.0, ("idle", "any cause"): -0.030})
    assert any("b records no launch calls" in note for note in found.notes)


def test_ranks_are_no_repeats() -> None:
    side = [gpu_timeline([(0, 100 + rank, "gemm", 0)], rank=rank) for rank in (0, 1)]
    found = diff(side, side)
    assert found.band is None
    assert any("ranks of one job" in note for note in found.notes)
    assert any("different ranks" in note for note in diff(side[0], side[1]).notes)


def test_the_innermost_operator_counts_and_time_between_steps_is_apart() -> None:
    base = cpu_timeline([(0, 100, "aten::linear"), (10, 90, "aten::copy_"), (150, 200, "aten::mm")])
    found = diff(base, cpu_timeline([(0, 100, "aten::mm")], steps=[(0, 100)]))
    base_values = {(row.kind, row.name): row.base_ms for row in found.rows}
    assert base_values["busy", "gemm"] == pytest.approx(0.070)
    assert base_values["busy", "copy"] == pytest.approx(0.080)
    assert base_values["idle", "between operators"] == pytest.approx(0.050)
    stepped = cpu_timeline([(0, 50, "aten::mm"), (100, 150, "aten::mm")], steps=[(0, 60), (100, 160)])
    outside = {row.label: row.base_ms for row in diff(stepped, stepped).rows}
    assert outside["idle · between steps"] == pytest.approx(0.040)
    assert outside["idle · between operators"] == pytest.approx(0.010)


def test_what_an_onnx_node_does_is_its_type_not_its_name() -> None:
    def node(op: str) -> Timeline:
        timeline = cpu_timeline([(0, 10, "/layer/5")], details=(Detail(op_type=op),))
        timeline.host.detail[timeline.host.kind == HostKind.OP] = 0
        return timeline

    found = diff(node("MatMul"), node("DequantizeLinear"))
    assert values(found) == pytest.approx({("busy", "gemm"): -0.010, ("busy", "dequantise"): 0.010})


def test_compilers_logs() -> None:
    base = compile_timeline([("compile", "f", 2.0)])
    again = compile_timeline(
        [("compile", "f", 2.0), ("recompile", "f", 1.5), ("graph break", "f", None), ("recompile", "f", 1.0)]
    )
    found = diff(base, again)
    assert found.gap_ms == pytest.approx(2500)
    assert found.rows[0].label == "compile · recompilations"
    assert found.rows[0].candidate.events == 2
    assert "recompilations 0 → 2, graph breaks 0 → 1" in found.notes


def hostile() -> TraceDiff:
    name = "gemm<script>alert(1)</script>\x1b[2J\u202e"
    return diff(gpu_timeline([(0, 10, "gemm", 0)], source="a"), gpu_timeline([(0, 90, name, 0)], source=name))


def test_renderings_escape_what_traces_say() -> None:
    page = render_trace_diff_html(hostile())
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    text = render_trace_diff(hostile(), color=False, full=True)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_log_against_a_profile_is_told_what_fits_to_it() -> None:
    with pytest.raises(TraceError, match="a compiler's log") as refused:
        diff(compile_timeline([("compile", "f", 2.0)]), busy_loop(20))
    assert refused.value.remedy is not None
    assert "log with a compiler's log" in refused.value.remedy


def test_numbers_are_written_in_one_way() -> None:
    assert amount(6637.7) == "+6,637.7 ms"
    assert band_text(Band(low=-355.2, high=-34.625, confidence=0.95, basis="6 and 6 steps")) == (
        "95 % band [−355.2, −34.6] over 6 and 6 steps"
    )
    assert "[−0.006, +0.002]" in band_text(Band(low=-0.006, high=0.0021, confidence=0.95, basis="x"))


def test_a_row_opens_below_its_numbers_not_beside_them() -> None:
    page = render_trace_diff_html(diff(busy_loop(700), busy_loop(20)))
    assert "<table" not in page
    first = page[page.index("<details>") :]
    summary, rest = first.split("</summary>", 1)
    assert summary.count('class="n"') == 4  # base, candidate, change, share
    assert rest.startswith("<ul><li>base: ")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_keep_to_the_terminal(width: int) -> None:
    found = diff(busy_loop(700), busy_loop(20))
    text = render_trace_diff(found, color=False, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "residual" in text
    assert "\x1b[32m" in render_trace_diff(found, color=True, width=width)


def test_json_carries_the_contract() -> None:
    told: dict[str, Any] = json.loads(json.dumps(as_json(diff(busy_loop(700), busy_loop(20))), allow_nan=False))
    assert told["gap_ms"] == pytest.approx(sum(row["ms"] for row in told["rows"]) + told["residual_ms"])
    first = told["rows"][0]
    assert set(first) >= {"kind", "name", "ms", "share", "evidence"}
    assert first["share"] == pytest.approx(1.0, abs=0.01)
    assert first["evidence"]["base"]["events"] == 3
    assert first["evidence"]["base"]["examples"][0]["name"] == "enumerate(DataLoader)#next"


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
def test_the_data_loader_of_resnet50() -> None:
    found = diff(*(read(REAL / f"kineto/resnet50_workers{n}.json.gz") for n in (0, 4)))
    assert found.gap_ms == pytest.approx(-194.9, abs=0.1)
    assert found.sums["idle"] == pytest.approx(-205.8, abs=0.1)
    assert found.sums["host idle"] == pytest.approx(-207.7, abs=0.1)
    assert found.sums["busy"] == pytest.approx(10.9, abs=0.1)
    assert found.aligned
    assert found.cause.startswith("the host: −207.7 ms")
    assert "DataLoader" in found.cause
    check_sums(found)


@pytest.mark.skipif(not REAL.exists(), reason="the real profiles are not here")
def test_the_unfused_dequantisation_of_the_int8_model() -> None:
    found = diff(*(read(REAL / f"ort/mlp_{name}.json") for name in ("fp32", "int8_unfused_dq")))
    assert found.gap_ms == pytest.approx(13.951, abs=1e-3)
    assert found.cause.startswith("the gap of +14.0 ms is within the noise (20 and 20 steps of one trace each)")
    assert "its largest part is dequantise (DequantizeLinear): +11.2 ms" in found.cause
    assert "none of it in base" in found.cause
    assert found.rows[0].candidate.events == 80
    check_sums(found)
