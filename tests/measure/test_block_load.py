"""The load of a block: how many requests are prepared, when they leave, and which part of the block is steady."""

from __future__ import annotations

import numpy as np
import pytest

from bakeoff.client import ClientBlock, ClosedLoop, OpenLoop, PreparedRequest
from bakeoff.measure.block import _load, _request_count, steady_window
from bakeoff.measure.plan import Step
from bakeoff.measure.search import read_probe
from bakeoff.model import BlockSize, Cell, Load, LoadKind, Prompts, RequestRecord, Workload


def _workload(load: Load, block: BlockSize) -> Workload:
    return Workload(name="w", prompts=Prompts(input_tokens=9), output_tokens=1, load=load, block=block)


def _step(kind: LoadKind, level: float) -> Step:
    return Step(0, 0, "a", "measure", Cell(workload="w", kind=kind, level=level), 0)


def _request(index: int, turn: int) -> PreparedRequest:
    return PreparedRequest(index=index, prompt_id=index, path="/x", body=b"{}", conversation=index // 3, turn=turn)


def test_a_schedule_begins_as_many_conversations_as_there_are() -> None:
    workload = _workload(Load(kind="open", levels=(2.0,)), BlockSize(requests=7))
    prepared = [_request(index, index % 3) for index in range(7)]  # two whole conversations, and one opening
    load, end_ns = _load(workload, _step("open", 2.0), prepared, tuple(range(7)))
    assert (load, end_ns) == (OpenLoop(offsets_ns=(0, 1, 2)), None)


def test_a_closed_loop_has_its_ramp() -> None:
    workload = _workload(Load(kind="closed", levels=(4.0,), ramp_s=1.5), BlockSize(requests=8))
    load, end_ns = _load(workload, _step("closed", 4.0), [], None)
    assert (load, end_ns) == (ClosedLoop(concurrency=4, ramp_ns=1_500_000_000), None)


def test_a_block_by_time_prepares_what_its_schedule_may_need() -> None:
    by_time = BlockSize(seconds=10.0)
    closed = _workload(Load(kind="closed", levels=(4.0,)), by_time)
    assert _request_count(closed, _step("closed", 4.0), 2.0) == 32
    replay = _workload(Load(kind="replay", levels=(1.0,)), by_time)
    assert _request_count(replay, _step("replay", 1.0), 2.0) == 20_000
    assert (
        _request_count(_workload(Load(kind="replay", levels=(1.0,)), BlockSize(requests=5)), _step("replay", 1), 2) == 5
    )


def test_the_ramp_is_left_out_of_the_steady_window() -> None:
    records = [RequestRecord(index=n, prompt_id=n, scheduled_ns=1000 + 10 * n) for n in range(20)]
    client = ClientBlock(records=records, started_ns=1000, ended_ns=1300, loop_lag_ns=[])
    assert steady_window(client, _step("closed", 2.0)) == (1000, 1190)
    assert steady_window(client, _step("closed", 2.0), ramp_ns=40) == (1040, 1190)
    assert steady_window(client, _step("closed", 2.0), ramp_ns=10**9) == (1000, 1190)
    assert steady_window(client, _step("replay", 2.0)) == (1000, 1190)


def test_the_steady_window_begins_when_as_many_requests_have_ended_as_there_are_slots() -> None:
    records = [RequestRecord(index=n, prompt_id=n, scheduled_ns=1000 + 10 * n, end_ns=1050 + 10 * n) for n in range(20)]
    client = ClientBlock(records=records, started_ns=1000, ended_ns=1300, loop_lag_ns=[])
    assert steady_window(client, _step("closed", 1.0)) == (1050, 1190)
    assert steady_window(client, _step("closed", 4.0)) == (1080, 1190)
    assert steady_window(client, _step("closed", 4.0), ramp_ns=100) == (1100, 1190)
    assert steady_window(client, _step("closed", 8.0)) == (1000, 1190)  # under three requests a slot: no time to settle
    assert steady_window(client, _step("closed", 10.0)) == (1000, 1300)  # the whole block


@pytest.mark.parametrize("prefill", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("scatter", [0.05, 0.2, 0.5])
def test_the_rate_of_the_steady_window_is_true(prefill: float, scatter: float) -> None:
    """Eight slots, four requests each; the mean of many blocks is the rate of a server that takes 1 s a request."""
    draw = np.random.default_rng(5)
    rates = []
    for _ in range(400):
        free = [0.0] * 8
        records = []
        for n in range(32):
            sent = min(free)
            took = max(0.05, draw.normal(1.0, scatter))
            free[free.index(sent)] = sent + took
            stamps = [round(t * 1e9) for t in (sent, sent + prefill * took, sent + took)]
            records.append(
                RequestRecord(
                    index=n,
                    prompt_id=n,
                    scheduled_ns=stamps[0],
                    first_token_ns=stamps[1],
                    last_token_ns=stamps[2],
                    end_ns=stamps[2],
                )
            )
        client = ClientBlock(records=records, started_ns=0, ended_ns=round(max(free) * 1e9), loop_lag_ns=[])
        rates.append(read_probe(records, steady_window(client, _step("closed", 8.0)), {}).rps)
    error = np.std(rates) / np.sqrt(len(rates))
    assert abs(np.mean(rates) / 8 - 1) < 0.03 + 2 * error / 8
