"""The terminal verdict, as a user reads it."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest
from inline_snapshot import snapshot

from bakeoff.compare.view import Material, View, build_view
from bakeoff.compare.view_types import CellView
from bakeoff.model import Caution, Comparison, Decision, Experiment, Finding, Interval, Outcome, QualityNote, Result
from bakeoff.report import render_terminal

from . import sample


def one_candidate(**changes: object) -> Result:
    rows = tuple(c for c in sample.comparisons() if c.candidate == "fixed" and c.workload == "short")
    standard: dict[str, object] = {
        "candidates": ("fixed",),
        "comparisons": rows,
        "resources": tuple(c for c in sample.resources() if c.candidate == "fixed" and c.unit == "B"),
        "quality": (QualityNote(candidate="fixed", status="not measured", reason="no quality task was run"),),
        "findings": (),
        "warnings": (),
        "decision": Decision(ship="fixed", reasons=("faster than base in every gate",)),
    }
    return msgspec.structs.replace(sample.result(), **(standard | changes))


def one_experiment(**changes: object) -> Experiment:
    whole = sample.experiment()
    standard: dict[str, object] = {
        "variants": (whole.variants[0], whole.variants[2]),
        "workloads": whole.workloads[:1],
    }
    return msgspec.structs.replace(whole, **(standard | changes))


def shown(result: Result, experiment: Experiment | None = None, *, full: bool = False) -> str:
    view = build_view(result, experiment or one_experiment(), Material(run_path="runs/k3f9"))
    text = render_terminal(view, color=False, full=full)
    assert max(map(len, text.splitlines())) <= 100
    return text


def test_one_candidate_clear() -> None:
    assert shown(one_candidate()) == snapshot("""\
base → fixed    llama.cpp · 8 rounds, interleaved · fresh starts

short 128/32, 1 at a time
                 base      fixed     change   95 % interval   verdict
TTFT             212 ms    168 ms    −21 %    [−23, −19]      ✓ faster
TPOT             21.7 ms   14.3 ms   −34 %    [−36, −32]      ✓ faster
E2E              885 ms    612 ms    −31 %    [−33, −29]      ✓ faster (explored)
Private memory   412 MB    252 MB    −39 %    [−39, −39]      ✓ better (explored)
Quality          not measured: no quality task was run

Ship fixed.
  faster than base in every gate

Stopped  every gate is decided after 8 rounds
Saved    runs/k3f9   report: runs/k3f9/report.html
""")


def test_full_shows_what_was_only_explored() -> None:
    text = shown(one_candidate(), full=True)
    assert "TTFT mean" in text
    assert "TTFT mean" not in shown(one_candidate())


def test_two_candidates_with_mixed_cells() -> None:
    text = render_terminal(sample.view(), color=False)
    assert max(map(len, text.splitlines())) <= 100
    assert text == snapshot("""\
base → flash, fixed    llama.cpp · 8 rounds, interleaved · fresh starts

short 128/32, 1 at a time
                 base                        change   95 % interval   verdict
TTFT             212 ms    flash   231 ms    +9.0 %   [+6.4, +12]     ✗ slower
                           fixed   168 ms    −21 %    [−23, −19]      ✓ faster
TPOT             21.7 ms   flash   14.1 ms   −35 %    [−37, −33]      ✓ faster
                           fixed   14.3 ms   −34 %    [−36, −32]      ✓ faster
E2E              885 ms    flash   668 ms    −24 %    [−26, −22]      ✓ faster (explored)
                           fixed   612 ms    −31 %    [−33, −29]      ✓ faster (explored)

long 2048/32, 1 at a time
                 base                        change   95 % interval   verdict
TTFT             6.61 s    flash   11.2 s    +69 %    [+64, +75]      ✗ slower
                           fixed   5.21 s    −21 %    [−24, −19]      ✓ faster
TPOT             23.1 ms   flash   18.7 ms   −19 %    [−23, −15]      ✓ faster
                           fixed   15.2 ms   −34 %    [−36, −32]      ✓ faster
E2E              7.33 s    flash   11.8 s    +61 %    [+56, +65]      ✗ slower (explored)
                           fixed   5.69 s    −22 %    [−25, −20]      ✓ faster (explored)

Resources, per start
                 base                        change   95 % interval   verdict
Private memory   412 MB    flash   227 MB    −45 %    [−45, −45]      ✓ better (explored)
                           fixed   252 MB    −39 %    [−39, −39]      ✓ better (explored)
Start-up         1.31 s    flash   1.22 s    −7.0 %   [−16, +3.0]     ? inconclusive (explored)
                           fixed   1.21 s    −7.9 %   [−14, −1.3]     ~ probably faster (explored)
Quality          not comparable: all variants come from one already quantised file

Ship fixed for both prompt lengths.
  faster than base in every gate
  needs 39 % less memory

Why      flash · TTFT · long, 1 at a time
          94 %  [88, 100]  KV cache q8_0: attention reads dequantise it   confirmed: one switch
         flipped, re-measured
         flash with a 16-bit KV cache reads the same prompts 21 % faster than base
           6 %  unexplained
Fix      fixed: flash with a 16-bit KV cache → TTFT −21 %, TPOT −34 % against base
Warn     flash · long 2048/32, 1 at a time: other processes used 0.6 of 2 cores during 2 of 54
         blocks
         → close what runs beside the benchmark, or pin it to other cores
Note     flash: 2 of 192 requests to flash timed out
Stopped  every gate is decided after 8 rounds
Saved    runs/20260714-101502-smaller-everything-k3f9
         report: runs/20260714-101502-smaller-everything-k3f9/report.html
""")


def test_invalid_rows_say_why_in_one_line() -> None:
    reason = "the client was late: median send delay 4.1 ms is 2.4 % of TTFT; run the client on a quieter machine"
    rows = tuple(
        msgspec.structs.replace(c, outcome="invalid", reason=reason) if c.gate else c
        for c in one_candidate().comparisons
    )
    caution = Caution(
        code="client-bound",
        severity="invalid",
        message="the client was late: median send delay 4.1 ms is 2.4 % of TTFT",
        remedy="run the client on a quieter machine",
        metrics=("ttft_s", "tpot_s"),
    )
    decision = Decision(ship=None, reasons=("two gates are invalid",))
    assert shown(one_candidate(comparisons=rows, warnings=(caution,), decision=decision)) == snapshot("""\
base → fixed    llama.cpp · 8 rounds, interleaved · fresh starts

short 128/32, 1 at a time
                 base      fixed     change   95 % interval   verdict
TTFT             212 ms    168 ms    −21 %    [−23, −19]      ! invalid
TPOT             21.7 ms   14.3 ms   −34 %    [−36, −32]      ! invalid
E2E              885 ms    612 ms    −31 %    [−33, −29]      ✓ faster (explored)
Private memory   412 MB    252 MB    −39 %    [−39, −39]      ✓ better (explored)
  TTFT, TPOT invalid: the client was late: median send delay 4.1 ms is 2.4 % of TTFT; run the client
    on a quieter machine
Quality          not measured: no quality task was run

No decision.
  two gates are invalid

Invalid  TTFT, TPOT: the client was late: median send delay 4.1 ms is 2.4 % of TTFT
         → run the client on a quieter machine
Stopped  every gate is decided after 8 rounds
Saved    runs/k3f9   report: runs/k3f9/report.html
""")


def test_inconclusive_says_what_is_still_needed() -> None:
    def undecided(c: Comparison) -> Comparison:
        ratio = msgspec.structs.replace(c.ratio, point=0.98, low=0.941, high=1.021)
        return msgspec.structs.replace(c, outcome="inconclusive", ratio=ratio, pairs_needed=11)

    rows = tuple(undecided(c) if c.metric == "ttft_s" else c for c in one_candidate().comparisons)
    result = one_candidate(comparisons=rows, decision=Decision(ship=None, reasons=("TTFT is undecided",)))
    assert shown(result) == snapshot("""\
base → fixed    llama.cpp · 8 rounds, interleaved · fresh starts

short 128/32, 1 at a time
                 base      fixed     change   95 % interval   verdict
TTFT             212 ms    168 ms    −2.0 %   [−5.9, +2.1]    ? inconclusive
TPOT             21.7 ms   14.3 ms   −34 %    [−36, −32]      ✓ faster
E2E              885 ms    612 ms    −31 %    [−33, −29]      ✓ faster (explored)
Private memory   412 MB    252 MB    −39 %    [−39, −39]      ✓ better (explored)
  TTFT inconclusive: proven: not slower by more than the margin; 8 pairs show changes from 4.1 % on;
    about 11 more pairs needed
Quality          not measured: no quality task was run

No decision.
  TTFT is undecided

Stopped  every gate is decided after 8 rounds
Saved    runs/k3f9   report: runs/k3f9/report.html
""")


def test_quick_run_with_one_start_says_so_and_has_no_interval() -> None:
    def single(c: Comparison) -> Comparison:
        ratio = msgspec.structs.replace(c.ratio, low=None, high=None)
        reason = "one pair has no interval"
        return msgspec.structs.replace(
            c, outcome="inconclusive", ratio=ratio, pairs=1, reason=reason, minimum_detectable=None
        )

    result = one_candidate(
        comparisons=tuple(single(c) for c in one_candidate().comparisons),
        resources=(),
        rounds=1,
        state="interrupted",
        decision=Decision(ship=None, reasons=("one round decides nothing",)),
    )
    assert shown(result, one_experiment(start_every=0)) == snapshot("""\
base → fixed    llama.cpp · 1 round · servers kept from round to round: holds for these starts only
! Interrupted: what follows rests on 1 round.

short 128/32, 1 at a time
            base      fixed     change   95 % interval   verdict
TTFT        212 ms    168 ms    −21 %    –               ? inconclusive
TPOT        21.7 ms   14.3 ms   −34 %    –               ? inconclusive
E2E         885 ms    612 ms    −31 %    –               ? inconclusive (explored)
  TTFT, TPOT inconclusive: one pair has no interval
Quality     not measured: no quality task was run

No decision.
  one round decides nothing

Stopped  every gate is decided after 8 rounds
Saved    runs/k3f9   report: runs/k3f9/report.html
""")


def test_detectable_equivalence_says_the_direction() -> None:
    rows = tuple(
        msgspec.structs.replace(
            c,
            outcome="equivalent",
            detectable=True,
            ratio=msgspec.structs.replace(c.ratio, point=1.012, low=1.004, high=1.02),
        )
        for c in one_candidate().comparisons[:1]
    )
    assert "= equivalent, detectably slower" in shown(one_candidate(comparisons=rows))


def test_colour_only_adds_codes() -> None:
    plain = render_terminal(sample.view(), color=False)
    painted = render_terminal(sample.view(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[31;1m✗ slower\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_names_cannot_move_the_cursor() -> None:
    evil = "fi\x1b[2Jxed\x07\u202e"
    result = one_candidate(
        candidates=(evil,),
        comparisons=tuple(msgspec.structs.replace(c, candidate=evil) for c in one_candidate().comparisons),
        warnings=(Caution(code="x", message="\x1b]0;owned\x07\rhidden", remedy="\x9b31m"),),
    )
    text = render_terminal(build_view(result, one_experiment()), color=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "xed" in text


def test_wide_and_long_names_keep_the_columns() -> None:
    view = build_view(one_candidate(), one_experiment())
    name = "量子化された候補モデルその二の改良版"
    wide = replace(view, candidates=(name,), cells=tuple(_renamed(view, name)))
    lines = render_terminal(wide, color=False).splitlines()
    heads = next(line for line in lines if "95 % interval" in line)
    row = next(line for line in lines if line.startswith("TTFT"))
    assert "…" in heads
    # Nine wide characters were shown, each of two columns.
    wide_count = sum(1 for c in heads if ord(c) > 0x2E80)
    assert heads.index("95 %") + wide_count == row.index("[")


def test_the_base_is_said_again_where_it_differs() -> None:
    rows = tuple(
        msgspec.structs.replace(c, base=Interval(point=0.263)) if (c.candidate, c.metric) == ("fixed", "ttft_s") else c
        for c in sample.comparisons()
        if c.workload == "short"
    )
    result = msgspec.structs.replace(sample.result(), comparisons=rows)
    text = render_terminal(build_view(result, sample.experiment()), color=False)
    (line,) = [line for line in text.splitlines() if "263 ms" in line]
    assert line.split()[:4] == ["263", "ms", "fixed", "168"]
    assert text.count("21.7 ms") == 1


def test_columns_that_point_the_other_way_are_explained() -> None:
    said = "the change is computed pair by pair, the columns are averages"

    def odd(c: Comparison, value: float, outcome: Outcome = "inconclusive") -> str:
        ratio = msgspec.structs.replace(c.ratio, point=1.091, low=0.9, high=1.3)
        changed = {"base": Interval(point=0.0215), "value": Interval(point=value), "ratio": ratio, "outcome": outcome}
        rows = tuple(msgspec.structs.replace(r, **changed) if r == c else r for r in one_candidate().comparisons)
        return " ".join(shown(one_candidate(comparisons=rows)).split())

    for row in one_candidate().comparisons[:3]:  # gates, and E2E that is explored
        assert said in odd(row, 0.0208)
        assert said not in odd(row, 0.0222)
        assert said not in odd(row, 0.0215)
        assert said not in odd(row, 0.0208, "invalid")


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 100])
def test_one_candidate_fits_from_40_columns_on(width: int) -> None:
    view = build_view(one_candidate(), one_experiment(), Material(run_path="runs/k3f9"))
    text = render_terminal(view, color=False, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("✓ faster") == 3
    assert ("✓ faster (expl.)" in text) == (width in (70, 80))


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 90, 100])
def test_several_candidates_fit_from_40_columns_on(width: int) -> None:
    for full in (False, True):
        text = render_terminal(replace(sample.view(), run_path=None), color=False, width=width, full=full)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("? inconclusive") == 1
        assert text.count("~ probably faster") == 1


def test_a_narrow_table_wraps_long_verdicts_in_their_column() -> None:
    lines = render_terminal(sample.view(), color=False, width=80).splitlines()
    (at,) = [i for i, line in enumerate(lines) if "~ probably faster" in line]
    assert lines[at + 1].strip() == "(expl.)"
    assert lines[at + 1].index("(") == lines[at].index("~") + 2


def test_a_cause_that_is_not_known_is_said_once() -> None:
    finding = Finding(
        candidate="fixed",
        cause="one-switch",
        title="TTFT slower, cause not attributed: no variant differs from fixed in one setting alone",
        status="cannot attribute",
    )
    text = shown(one_candidate(findings=(finding,)))
    assert "cause not attributed" in text
    assert "cannot attribute" not in text


def test_a_failed_run_says_why_it_stopped() -> None:
    reason = "base failed twice in round 2: the server ended (exit status 1)"
    text = shown(one_candidate(state="failed", stop_reason=reason, rounds=1))
    assert "! Failed: what follows rests on 1 round." in text
    assert f"Stopped  {reason}" in text


def _renamed(view: View, name: str) -> list[CellView]:
    return [replace(c, rows=tuple(replace(r, candidate=name) for r in c.rows)) for c in view.cells]
