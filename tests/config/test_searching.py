"""Loads whose levels the run finds itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bakeoff.config import parse_experiment
from bakeoff.errors import ConfigError
from bakeoff.model import Experiment, Search

FILE = """\
variants:
  base: {engine: openai, url: http://127.0.0.1:1}
  fast: {engine: openai, url: http://127.0.0.1:2}
workloads:
  chat:
    prompts: {input_tokens: 64, output_tokens: 8}
    load: LOAD
    BLOCK
"""


def read(load: str, block: str = "", more: str = "") -> Experiment:
    text = FILE.replace("LOAD", load).replace("BLOCK", block) + more
    return parse_experiment(text, "x.yaml", Path("/nowhere"), {})


def refused(load: str, block: str = "", more: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        read(load, block, more)
    lines = [f"{'.'.join(p.key)}: {p.message}" for p in caught.value.problems]
    return re.sub(r"line \d+, column \d+: ", "", "\n".join(lines))


def test_a_sweep_of_concurrencies_has_no_levels_yet() -> None:
    load = read("{sweep: concurrency}").workloads[0].load
    assert (load.kind, load.levels) == ("closed", ())
    assert load.search == Search(kind="sweep", low=1, high=256, attainment=0.99)
    assert read("{sweep: concurrency, high: 8, ramp: 2s}").workloads[0].load.search == Search(kind="sweep", high=8)


def test_a_sweep_of_rates_and_a_find_are_open_loops() -> None:
    sweep = read("{sweep: rate, low: 0.5, high: 16, arrivals: constant}").workloads[0].load
    assert (sweep.kind, sweep.arrivals, sweep.search) == ("open", "constant", Search(kind="sweep", low=0.5, high=16))
    found = read("{find: goodput, slo: {ttft_s: 0.5, tpot_s: 50ms}, attainment: 95%}").workloads[0]
    assert found.slo == {"ttft_s": 0.5, "tpot_s": 0.05}
    assert found.load.kind == "open"
    assert found.load.search == Search(kind="find", low=0.0625, high=1024, attainment=0.95)
    assert found.block.requests == 20  # with fewer a single miss would decide


def test_limits_may_stand_beside_the_load() -> None:
    beside = read("{find: goodput}", "slo: {ttft_s: 0.5}").workloads[0]
    assert beside.slo == {"ttft_s": 0.5}
    assert beside.block.requests == 100


@pytest.mark.parametrize(
    ("load", "block", "words"),
    [
        ("{sweep: rate, rate: 2}", "", "load: has both rate and sweep"),
        ("{sweep: tokens}", "", "load.sweep: must be 'concurrency' or 'rate', not 'tokens'"),
        ("{swep: rate}", "", "load.swep: unknown key; did you mean 'sweep'?"),
        ("{find: goodput}", "", "load.slo: is missing"),
        ("{find: goodput, slo: {ttft_s: 1}}", "slo: {ttft_s: 2}", "load.slo: stands beside the load as well"),
        ("{rate: 2, slo: {ttft_s: 1}}", "", "load.slo: is for a search of load levels"),
        ("{rate: 2, high: 4}", "", "load.high: is for a search of load levels"),
        ("{sweep: rate, attainment: 90%}", "", "load.attainment: is for a search of load levels"),
        ("{sweep: rate, low: 8, high: 4}", "", "load.high: is not above low (8)"),
        ("{sweep: concurrency, high: 4.5}", "", "load.high: must be a whole number"),
        ("{sweep: concurrency, arrivals: constant}", "", "load.arrivals: is for a rate"),
        ("{sweep: rate, ramp: 1s}", "", "load.ramp: is for a closed loop"),
        ("{find: goodput, slo: {ttft_s: 1}, attainment: 30%}", "", "attainment: must be at least 50%"),
        (
            "{find: goodput, slo: {ttft_s: 1}}",
            "block: {requests: 99}",
            "block.requests: 99 requests cannot tell whether 99 % of them meet the limits",
        ),
    ],
)
def test_what_a_search_cannot_do_is_said(load: str, block: str, words: str) -> None:
    assert words in refused(load, block)


def test_goodput_may_gate_a_search_and_throughput_may_not() -> None:
    limits = "{find: goodput, slo: {ttft_s: 1}}"
    assert read(limits, more="gates: [goodput_rps]\n").gates == ("goodput_rps",)
    assert "says nothing about the variants" in refused(limits, more="gates: [request_throughput_rps]\n")
    assert read("{sweep: concurrency}", more="gates: [request_throughput_rps]\n").gates == ("request_throughput_rps",)
