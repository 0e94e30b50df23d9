"""Oddities of answers and requests that were sent anew: counted by arm, told of each, a warning where arms differ."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bakeoff.model import Load

from .simulate import Arm, changed, experiment, objects, workload
from .test_audit import HEALTHY, cautions, invalid, measured, one


def odd(every: int, **found: int) -> Arm:
    """Every so many answers show it."""
    return Arm(columns={"oddities": lambda columns: objects([*map(dict, _cells(len(columns["index"]), every, found))])})


def _cells(count: int, every: int, found: dict[str, int]) -> list[dict[str, int]]:
    return [found if i % every == 0 else {} for i in range(count)]


def test_what_one_arm_alone_does_is_a_warning() -> None:
    result = measured({"base": odd(16), "flash": odd(2, surplus_chunks=3, no_end=1)})
    found = one(result, "odd-streams")
    assert (found.severity, found.variant, found.metrics) == ("warning", "flash", ())
    assert "50 % of the answers of flash and 0 % of those of base have more chunks with content" in found.message
    assert "end without the mark of the stream's end" in found.message
    assert invalid(result) == set()


def test_what_every_arm_does_is_a_note_of_each() -> None:
    result = measured({"base": odd(1, no_finish_reason=1), "flash": odd(1, no_finish_reason=1)})
    found = cautions(result, "odd-streams")
    assert {(c.variant, c.severity) for c in found} == {("base", "note"), ("flash", "note")}
    assert "base: 128 of 128 answers do not say why they end" in found[0].message


def test_the_base_alone_is_told_with_the_candidate_that_differs() -> None:
    found = one(measured({"base": odd(1, untrue_counts=1)}), "odd-streams")
    assert (found.severity, found.variant) == ("warning", "flash")
    assert "0 % of the answers of flash and 100 % of those of base carry counts" in found.message


@pytest.mark.parametrize(("every", "severity"), [(16, "note"), (4, "warning")])
def test_requests_sent_anew_are_counted_by_arm(every: int, severity: str) -> None:
    result = measured({"flash": odd(every, resent=1)})
    found = one(result, "resent")
    assert found.severity == severity
    assert f"0 of 128 requests of base, {128 // every} of 128 requests of flash" in found.message
    assert not cautions(result, "odd-streams")


def test_failed_answers_count_as_requests_and_not_as_odd_answers() -> None:
    arm = odd(1, resent=1, no_end=1)
    failing = changed(arm, columns={**arm.columns, "error": lambda columns: objects(["reset"] * len(columns["index"]))})
    result = measured({"flash": failing})
    assert "128 of 128 requests of flash" in one(result, "resent").message
    assert not cautions(result, "odd-streams")


@pytest.mark.parametrize("cell", [None, "text", 3, [1]])
def test_damaged_cells_say_nothing(cell: Any) -> None:
    arm = Arm(columns={"oddities": lambda columns: objects([cell] * len(columns["index"]))})
    assert not cautions(measured({"flash": arm}), "odd-streams")


# The client, by its processes and its backlog.


def client(**fields: Any) -> Arm:
    return changed(Arm(), health=msgspec.structs.replace(HEALTHY, **fields))


def test_cpu_time_counts_by_process() -> None:
    shared = client(client_cpu_share=2.0, client_processes=4)
    assert not cautions(measured({"base": shared, "flash": shared}), "client-bound")
    busy = client(client_cpu_share=3.6, client_processes=4)
    found = cautions(measured({"base": busy, "flash": busy}), "client-bound")
    assert {c.severity for c in found} == {"invalid"}
    assert "used 90 % of a core in each of its processes" in found[0].message


def test_reads_that_wait_to_be_parsed_spoil_gaps_and_tails_and_no_median() -> None:
    result = measured({"flash": client(parse_backlog_p99_s=0.02)})
    found = cautions(result, "client-bound")
    assert [c.severity for c in found] == ["invalid"]
    assert "reads waited 20" in found[0].message
    assert invalid(result) == {"itl_s"}


def test_a_lag_is_set_against_the_tokens_that_came() -> None:
    asked = experiment(workloads=(workload(output_tokens=4096, length="natural"),))  # the limit of recorded lengths
    late = changed(client(loop_lag_p50_s=0.004), output_tokens=8)
    result = measured({"base": late, "flash": late}, asked)
    assert "tpot_s" in {metric for c in cautions(result, "client-bound") for metric in c.metrics}


def test_a_replay_can_be_too_much_for_an_arm() -> None:
    asked = experiment(workloads=(workload(load=Load(kind="replay", levels=(4.0,))),))
    queue = Arm(
        columns={
            name: lambda columns, n=name: columns[n] + (columns["index"] * 5e7).astype(int)
            for name in ("first_token_ns", "first_output_ns", "last_token_ns")
        }
    )
    found = one(measured({"flash": queue}, asked), "saturated")
    assert "flash does not keep up with the trace at 4 times its speed" in found.message
