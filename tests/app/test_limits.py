from __future__ import annotations

import pytest

from bakeoff.app.limits import failures, parse_limit
from bakeoff.errors import UsageError
from bakeoff.model import Comparison, Interval, Outcome, Ratio, Result


def row(low: float | None, high: float | None, outcome: Outcome = "inconclusive", level: float = 1) -> Comparison:
    point = (low + high) / 2 if low is not None and high is not None else None
    return Comparison(
        candidate="flash",
        workload="chat",
        load={"concurrency": level},
        metric="tpot_s",
        statistic="p50",
        unit="s",
        better="lower",
        base=Interval(point=1.0),
        value=Interval(point=1.0),
        ratio=Ratio(point=point, low=low, high=high),
        outcome=outcome,
        margin=0.03,
        pairs=8,
        gate=True,
    )


def result(*rows: Comparison) -> Result:
    return Result(run="r", name="n", state="complete", base="base", candidates=("flash",), rounds=8, comparisons=rows)


@pytest.mark.parametrize(
    ("low", "high", "proven_worse", "proven_fine"),
    [
        (1.06, 1.10, True, False),  # wholly beyond
        (1.02, 1.10, False, False),  # straddles: neither is proven
        (0.98, 1.02, False, True),  # wholly within
        (None, None, False, False),  # no interval: nothing is proven
    ],
)
def test_harm_and_its_absence_are_two_different_proofs(
    low: float | None, high: float | None, proven_worse: bool, proven_fine: bool
) -> None:
    given = result(row(low, high))
    assert bool(failures(given, [parse_limit("chat.tpot_s > +5%")], [])) is proven_worse
    assert bool(failures(given, [], [parse_limit("chat.tpot_s < +5%")])) is not proven_fine


def test_an_invalid_row_proves_nothing() -> None:
    given = result(row(1.06, 1.10, "invalid"))
    assert failures(given, [parse_limit("tpot_s > 5%")], []) == []
    assert failures(given, [], [parse_limit("tpot_s < 5%")]) != []


def test_every_load_of_the_workload_counts() -> None:
    given = result(row(0.9, 1.0, level=1), row(1.2, 1.3, level=8))
    (sentence,) = failures(given, [parse_limit("chat.tpot_s > 5%")], [])
    assert "concurrency 8" in sentence


@pytest.mark.parametrize("text", ["", "tpot_s", "tpot_s > fast", "nope_s > 5%", "tpot_s.p42 > 5%", "a.b.c.d > 5%"])
def test_a_limit_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_limit(text)


def test_a_limit_that_matches_nothing_is_an_error_not_a_pass() -> None:
    with pytest.raises(UsageError, match="matches nothing"):
        failures(result(row(1, 1)), [parse_limit("other.tpot_s > 5%")], [])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ttft_s.mean < +50%", (None, "ttft_s", "mean")),
        ("ttft_s < +50%", (None, "ttft_s", "p50")),
        ("chat.ttft_s > 5%", ("chat", "ttft_s", "p50")),
        ("chat.ttft_s.p95 > 5%", ("chat", "ttft_s", "p95")),
        ("mean.ttft_s > 5%", ("mean", "ttft_s", "p50")),  # a workload may be called so
        ("my-chat_2.peak_memory_bytes.peak > 5%", ("my-chat_2", "peak_memory_bytes", "peak")),
    ],
)
def test_workload_and_statistic_may_both_be_left_out(text: str, parts: tuple[str | None, str, str]) -> None:
    limit = parse_limit(text)
    assert (limit.workload, limit.metric, limit.statistic) == parts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tttf_s.mean > 5%", "unknown metric 'tttf_s'"),
        ("chat.tttf_s > 5%", "unknown metric 'tttf_s'"),
        ("ttft_s.p42 > 5%", "ttft_s has no statistic 'p42'"),
        ("chat.ttft_s.p42 > 5%", "ttft_s has no statistic 'p42'"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "said", "remedy"),
    [
        (
            "chat.tpot_s.p99 > 5%",
            r"p99 of tpot_s is not reported \(it takes 1,000 requests a block, or with `method: fixed` in all\)",
            "reported here: p50",
        ),
        ("tpot_s.mean > 5%", "mean of tpot_s is not reported", "reported here: p50"),
        ("other.tpot_s > 5%", "it has no workload 'other'", "one of: chat"),
        ("chat.ttft_s > 5%", "ttft_s is not reported", "reported here: tpot_s"),
    ],
)
def test_a_limit_that_matches_nothing_says_what_is_not_there(text: str, said: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        failures(result(row(1, 1)), [parse_limit(text)], [])
    assert caught.value.remedy == remedy


def test_negative_limits_ask_for_a_gain() -> None:
    assert parse_limit("ttft_s < −10 %").change == pytest.approx(-0.1)
