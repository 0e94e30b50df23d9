"""A planted talkative server: the same times per token, twice as many tokens a task."""

import math
from pathlib import Path

import pytest

import bakeoff

from .flow import experiment, mock_command


def test_a_talkative_servers_tokens_are_found_in_the_time_of_its_tasks(tmp_path: Path) -> None:
    # The nonce in front must not change an answer's length: then both arms draw the same lengths, one of them doubled.
    natural = ("--natural-tokens", "12", "--nonce-tokens", "7")
    path = experiment(
        tmp_path,
        base=mock_command(*natural),
        candidate=mock_command(*natural, "--talkative", "2"),
        workloads={
            "chat": {
                "prompts": {"source": "synthetic", "input_tokens": 24},
                "output_tokens": 200,
                "length": "natural",
                "load": {"concurrency": [1]},
                "block": {"requests": 4},
            }
        },
        energy={"idle": "40 W", "busy": "120 W"},
        aa=0,
    )
    result = bakeoff.run(path, root=tmp_path / "runs")
    (row,) = result.task_times
    parts = {part.name: part for part in row.parts}
    tokens = parts["output tokens"]
    assert tokens.value / tokens.base == pytest.approx(2, rel=0.25)
    assert row.ratio.point is not None
    shares = [part.log_share.point or 0.0 for part in row.parts]
    assert sum(shares) == pytest.approx(math.log(row.ratio.point))
    assert (tokens.log_share.point or 0.0) > 0
    assert {use.source for use in result.energy} == {"modelled"}
    assert {use.variant for use in result.memory} == {"base", "flash"}
    assert all(set(s.phases) == {"process", "port", "ready", "first request"} for s in result.startups)
