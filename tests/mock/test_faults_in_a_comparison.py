"""A candidate whose server has a fault: the whole comparison says so, and of that arm alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import bakeoff
from bakeoff.model import BlockSize, Budget, Experiment, Load, Prompts, Variant, Warmup, Workload
from bakeoff.runs import RunFolder

from ..app.flow import mock_command

REQUESTS = 12


def compare(folder: Path, *flags: str) -> bakeoff.Result:
    """Two rounds of 12 requests an arm; the candidate has the flags."""
    variants = tuple(
        Variant(name=name, engine="command", settings={"command": mock_command(*more), "model": "mock"})
        for name, more in (("base", ()), ("flash", flags))
    )
    workload = Workload(
        name="chat",
        prompts=Prompts(input_tokens=16),
        output_tokens=6,
        load=Load(kind="closed", levels=(2,)),
        block=BlockSize(requests=REQUESTS),
    )
    return bakeoff.run(
        Experiment(
            name="faulty",
            variants=variants,
            workloads=(workload,),
            budget=Budget(min_pairs=2, max_pairs=2, seconds=300),
            warmup=Warmup(min_requests=1, max_requests=2),
            aa_pairs=0,
        ),
        root=folder / "runs",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("http_500:1of3", "http"),
        ("reset:1of3", "reset"),
        ("truncated:1of3", "truncated"),
        ("error_event:1of3", "stream_error"),
        ("empty:1of3", "empty"),
    ],
)
def test_failures_are_reported_by_arm(fault: str, kind: str, tmp_path: Path) -> None:
    result = compare(tmp_path, "--faults", fault)
    errors = [caution for caution in result.warnings if caution.code in ("errors", "survivorship")]
    assert errors
    assert {caution.variant for caution in errors} == {"flash"}
    assert any(kind in caution.message for caution in errors)
    for data in RunFolder.open(Path(result.run)).blocks():
        assert data.block.requests == len(data.columns["error"]) == REQUESTS  # none is lost
        failed = [error for error in data.columns["error"] if error is not None]
        assert len(failed) == data.block.errors == (REQUESTS // 3 if data.block.variant == "flash" else 0)
        assert set(failed) <= {kind}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["split_utf8", "role_first", "no_keep_alive"])
def test_oddities_that_are_no_failures_are_not_reported_as_such(fault: str, tmp_path: Path) -> None:
    result = compare(tmp_path, "--faults", fault)
    assert not [caution for caution in result.warnings if caution.code in ("errors", "survivorship", "all-failed")]
    for data in RunFolder.open(Path(result.run)).blocks():
        assert data.block.errors == 0
        assert list(data.columns["output_tokens"]) == [6] * REQUESTS


@pytest.mark.slow
def test_an_answer_of_other_length_than_the_usage_says_is_not_taken_for_a_sound_one(tmp_path: Path) -> None:
    result = compare(tmp_path, "--faults", "wrong_usage")
    told = {tuple(data.columns["output_tokens"]) for data in RunFolder.open(Path(result.run)).blocks()}
    assert told == {(6,) * REQUESTS, (12,) * REQUESTS}
    (found,) = [caution for caution in result.warnings if caution.code == "miscount"]
    assert (found.variant, found.severity) == ("flash", "invalid")
    assert found.message == "flash counts 12 tokens where 6 were asked: its count cannot be right"
    invalid = {row.metric for row in result.comparisons if row.outcome == "invalid"}
    assert {"tpot_s", "token_throughput_tps"} <= invalid
    assert "e2e_latency_s" not in invalid
    assert not [c for c in result.warnings if c.code in ("output-tokens", "output-shortfall", "hidden-gaps")]
