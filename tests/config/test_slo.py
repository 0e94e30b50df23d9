from __future__ import annotations

import re
from pathlib import Path

import pytest

from bakeoff.config import parse_experiment
from bakeoff.errors import ConfigError

TEXT = """
variants:
  base: {engine: openai, url: "http://127.0.0.1:1", model: m}
  flash: {engine: openai, url: "http://127.0.0.1:2", model: m}
workloads:
  chat:
    prompts: {input_tokens: 8, output_tokens: 8}
    load: {rate: 2}
    slo: SLO
gates: [goodput_rps]
"""


def test_limits_are_seconds_or_durations() -> None:
    found = parse_experiment(TEXT.replace("SLO", "{ttft_s: 500 ms, tpot_s: 0.05}"), "x.yaml", Path(), {})
    assert found.workloads[0].slo == {"ttft_s": 0.5, "tpot_s": 0.05}
    assert found.gates == ("goodput_rps",)  # an open loop has a goodput, though no throughput of its own


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ("{}", "needs limits"),
        ("{ttft: 1}", "slo.ttft: unknown key; did you mean 'ttft_s'?"),
        ("{e2e: 1}", "slo.e2e: unknown key; did you mean 'e2e_latency_s'?"),
        ("{speed: 1}", "known here: ttft_s, ttfo_s, tpot_s, e2e_latency_s"),
        ("{ttft_s: 5 parsecs}", "parsecs"),
        ("{ttft_s: -1}", "slo"),
    ],
)
def test_wrong_limits_are_named(slo: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_experiment(TEXT.replace("SLO", slo), "x.yaml", Path(), {})
