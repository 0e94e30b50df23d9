"""The time of a task, split exactly, through the whole compare path on simulated runs."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from bakeoff.app.verdict import Evidence, conclude
from bakeoff.compare.task_words import solved_sentence
from bakeoff.model import Answer, Experiment, Health, Quality, QualityTask, Result, TaskTime, Variant

from .simulate import Arm, Simulation, experiment, workload


def natural(**changes: Any) -> Experiment:
    return experiment(workloads=(workload(length="natural", output_tokens=512),), **changes)


def judged(asked: Experiment, arms: dict[str, Arm], rounds: int = 10, answers: list[Answer] | None = None) -> Result:
    run = Simulation(asked, arms).run(rounds)
    return conclude(
        asked, Evidence(blocks=run.blocks, starts=run.starts, answers=answers or ()), run="r", state="complete"
    )


def total(row: TaskTime) -> float:
    return sum(part.log_share.point or 0.0 for part in row.parts)


def named(row: TaskTime, name: str) -> float:
    return next(part.log_share.point or 0.0 for part in row.parts if part.name == name)


def questions(
    variant: str, tokens: int, *, rounds: int = 6, per_round: int = 20, right: float = 0.8, **fields: Any
) -> list[Answer]:
    """Answers at 50 ms to the first token and 10 ms for each other one, `right` of them right."""
    rng = np.random.default_rng(len(variant))
    found = []
    for number in range(rounds * per_round):
        start = 10**12 + number * 10**9
        luck = 1 + rng.normal(0, 0.01)
        first = start + int(50e6 * luck)
        answer = Answer(
            task="sums",
            item=f"q{number}",
            variant=variant,
            score=float(number % 10 < right * 10),
            input_tokens=40,
            output_tokens=tokens,
            scheduled_ns=start,
            first_token_ns=first,
            last_token_ns=first + int(10e6 * luck * (tokens - 1)),
            round=number // per_round,
            start_id=number // per_round,
        )
        for name, value in fields.items():
            setattr(answer, name, value)
        found.append(answer)
    return found


def asked_sums(**changes: Any) -> Experiment:
    return experiment(quality=Quality(tasks=(QualityTask(name="sums", source="reasoning-gym"),)), **changes)


def test_a_talkative_variant_is_slower_per_task_and_its_tokens_are_the_cause() -> None:
    result = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=64)})
    (row,) = result.task_times
    assert (row.workload, row.outcome, row.tasks) == ("chat", "slower", 160)
    assert row.ratio.point == pytest.approx((0.05 + 63 * 0.02) / (0.05 + 31 * 0.02), rel=0.02)
    assert total(row) == pytest.approx(math.log(row.ratio.point or 0))
    assert named(row, "output tokens") == pytest.approx(total(row), rel=0.05)
    (finding,) = [f for f in result.findings if f.metric == "task_time_s"]
    assert (finding.cause, finding.status) == ("more-tokens", "measured")
    assert "output tokens 32 → 64" in finding.title
    assert finding.share is not None
    assert finding.share.point == pytest.approx(1, abs=0.05)
    assert result.decision.ship == "base"
    (reason,) = [r for r in result.decision.reasons if r.startswith("not flash: a task of chat takes +9")]
    assert "slower (output tokens 32 → 64: +6" in reason
    tpot = next(c for c in result.comparisons if (c.metric, c.statistic) == ("tpot_s", "p50"))
    assert tpot.outcome == "equivalent"


def test_faster_per_token_and_slower_per_task_is_not_shipped() -> None:
    result = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=96, tpot_s=0.014)})
    assert {c.outcome for c in result.comparisons if c.gate and c.metric == "tpot_s"} == {"faster"}
    (row,) = result.task_times
    assert named(row, "time per token") < 0 < named(row, "output tokens")
    assert row.outcome == "slower"
    assert result.decision.ship == "base"


def test_slower_tokens_are_named_as_such() -> None:
    result = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=32, tpot_s=0.03)})
    (finding,) = [f for f in result.findings if f.metric == "task_time_s"]
    assert finding.cause == "time-per-token"


def test_swapping_the_arms_negates_every_part() -> None:
    arms = {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=48, ttft_s=0.08, tpot_s=0.015)}
    names = ("flash", "base")
    swapped = natural(variants=tuple(Variant(name=n, engine="openai") for n in names))
    run = Simulation(natural(), arms).run(8)
    (there,) = conclude(natural(), Evidence(blocks=run.blocks, starts=run.starts), run="r", state="complete").task_times
    (back,) = conclude(swapped, Evidence(blocks=run.blocks, starts=run.starts), run="r", state="complete").task_times
    assert total(back) == pytest.approx(-total(there))
    for part in there.parts:
        assert named(back, part.name) == pytest.approx(-(part.log_share.point or 0.0))


def test_a_a_shows_no_gap() -> None:
    (row,) = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=32)}).task_times
    assert row.outcome == "equivalent"
    assert row.ratio.low is not None
    assert row.ratio.high is not None
    assert row.ratio.low < 1 < row.ratio.high


def test_fixed_lengths_are_no_tasks() -> None:
    result = judged(experiment(), {"flash": Arm(tpot_s=0.03)})
    assert result.task_times == ()
    assert not [c for c in result.comparisons if c.metric == "task_time_s"]


def test_conversations_are_tasks_of_several_calls() -> None:
    talk = {"conversation": lambda c: np.arange(len(c["index"])) // 4.0, "turn": lambda c: np.arange(16) % 4.0}
    short = talk | {"conversation": lambda c: np.arange(len(c["index"])) // 4.0}
    result = judged(
        natural(),
        {"base": Arm(output_tokens=32, columns=talk), "flash": Arm(output_tokens=32, columns=short)},
    )
    (row,) = result.task_times
    assert row.tasks == 40
    assert row.base_s.point == pytest.approx(4 * (0.05 + 31 * 0.02), rel=0.2)
    calls = next(part for part in row.parts if part.name == "calls")
    assert (calls.base, calls.value) == (4, 4)
    assert next(part for part in row.parts if part.name == "prefill").unit == "s/call"


def test_reasoning_tokens_stand_apart() -> None:
    think = {"reasoning_tokens": 40.0}
    result = judged(
        natural(),
        {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=72, columns=think)},
    )
    (row,) = result.task_times
    assert named(row, "reasoning tokens") > 0.9 * total(row)
    (finding,) = [f for f in result.findings if f.metric == "task_time_s"]
    assert "reasoning" in finding.title


def test_answers_in_one_piece_are_not_split() -> None:
    whole = {"last_token_ns": lambda c: c["first_token_ns"]}
    result = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=64, columns=whole)})
    (row,) = result.task_times
    assert row.parts == ()
    assert "come in one piece" in (row.reason or "")


def test_a_server_that_counts_no_tokens_has_a_decode_part() -> None:
    none = {"output_tokens": np.nan}
    result = judged(natural(), {"base": Arm(output_tokens=32, columns=none), "flash": Arm(output_tokens=64)})
    (row,) = result.task_times
    assert [part.name for part in row.parts] == ["prefill", "decode"]
    assert total(row) == pytest.approx(math.log(row.ratio.point or 0))
    assert "tokens" not in row.per_task


def test_failed_requests_are_left_out_of_both() -> None:
    result = judged(natural(), {"base": Arm(output_tokens=32), "flash": Arm(output_tokens=64, fail=0.2)})
    (row,) = result.task_times
    assert row.tasks < 160
    assert "that flash did not finish are left out of both" in (row.reason or "")


def test_tasks_that_both_arms_did_not_finish_are_not_laid_at_one_door() -> None:
    lost = [msgspec.structs.replace(a, status="failed") for a in questions("base", 33)[:10]]
    answers = [*lost, *questions("base", 33)[10:], *questions("flash", 33)[:4]]
    answers += [msgspec.structs.replace(a, status="failed") for a in questions("flash", 33)[4:12]]
    answers += questions("flash", 33)[12:]
    (row,) = judged(asked_sums(), {}, answers=answers).task_times
    told = "12 tasks are left out of both: 4 that base did not finish, 2 that flash did not finish, 6 that neither arm"
    assert told in (row.reason or "")


@pytest.mark.parametrize(
    ("base", "flash", "who"),
    [(0.0, 0.5, "the base"), (0.5, 0.0, "flash"), (0.0, 0.0, "either of the two")],
)
def test_who_solved_nothing_is_named(base: float, flash: float, who: str) -> None:
    answers = [*questions("base", 33, right=base), *questions("flash", 33, right=flash)]
    (row,) = judged(asked_sums(), {}, answers=answers).task_times
    assert solved_sentence(row) == f"a task of sums: nothing was solved by {who}"


def test_questions_are_tasks_and_a_solved_one_costs_what_the_wrong_ones_cost_too() -> None:
    """Same speed per token, half as often right: a solved task takes twice as long."""
    answers = [*questions("base", 33, right=0.8), *questions("flash", 33, right=0.4)]
    result = judged(asked_sums(), {}, answers=answers)
    (row,) = result.task_times
    assert (row.task, row.tasks, row.rounds, row.outcome) == ("sums", 120, 6, "equivalent")
    assert row.ratio.point == pytest.approx(1.0, abs=0.01)
    assert row.solved_ratios["time_s"].point == pytest.approx(2.0, rel=0.02)
    assert row.solved_outcome == "slower"
    assert row.per_solved["tokens"][1].point == pytest.approx(33 / 0.4)
    assert result.decision.ship != "flash"


def test_a_talkative_variant_by_its_questions() -> None:
    answers = [*questions("base", 33), *questions("flash", 65)]
    result = judged(asked_sums(), {}, answers=answers)
    (row,) = result.task_times
    assert row.outcome == row.solved_outcome == "slower"
    assert named(row, "output tokens") == pytest.approx(total(row), rel=0.02)
    assert row.ratios["tokens"].point == pytest.approx(65 / 33)
    assert result.decision.ship == "base"


def test_nothing_solved_has_no_time_per_solved_task() -> None:
    answers = [*questions("base", 33), *questions("flash", 33, right=0.0)]
    (row,) = judged(asked_sums(), {}, answers=answers).task_times
    assert row.per_solved["time_s"][1].point is None
    assert row.solved_outcome == "invalid"


def test_unread_answers_count_with_their_time() -> None:
    cut = questions("flash", 33, score=None, status="cut")
    (row,) = judged(asked_sums(), {}, answers=[*questions("base", 33), *cut]).task_times
    assert row.tasks == 120
    assert "120 tasks without a readable answer" in (row.reason or "")


def test_one_round_says_that_it_is_one() -> None:
    answers = [*questions("base", 33, rounds=1), *questions("flash", 65, rounds=1)]
    (row,) = judged(asked_sums(), {}, answers=answers).task_times
    assert row.rounds == 1
    assert row.ratio.low is not None
    assert "one round" in (row.reason or "")
    assert "jackknife" in row.method


def test_choices_without_times_are_no_tasks() -> None:
    answers = [a for v in ("base", "flash") for a in questions(v, 1, first_token_ns=None, last_token_ns=None)]
    assert judged(asked_sums(), {}, answers=answers).task_times == ()


def test_cost_by_token_and_by_the_hour() -> None:
    prices = {"base": {"input": 1.0, "output": 10.0}, "flash": {"hour": 3.6}}
    variants = tuple(Variant(name=n, engine="openai", settings={"price": p}) for n, p in prices.items())
    answers = [*questions("base", 33), *questions("flash", 33)]
    (row,) = judged(asked_sums(variants=variants), {}, answers=answers).task_times
    base, flash = row.per_task["cost"]
    assert base.point == pytest.approx((40 * 1 + 33 * 10) / 1e6)
    # A question begins every second; the machine costs 0.001 a second.
    assert flash.point == pytest.approx(0.001 * (19 + 0.37) / 20, rel=0.01)
    assert row.units["cost"] == "USD"


def test_a_queue_that_both_servers_tell_of_is_waiting() -> None:
    told = {"counters": {"queue_s": 0.32, "queue_count": 16.0}}
    long = {"counters": {"queue_s": 1.6, "queue_count": 16.0}}
    result = judged(
        natural(),
        {"base": Arm(output_tokens=32, block=told), "flash": Arm(output_tokens=32, ttft_s=0.13, block=long)},
    )
    (row,) = result.task_times
    assert named(row, "waiting") > 0.8 * total(row)


def test_a_busy_machine_makes_task_times_invalid_and_nothing_is_concluded_from_them() -> None:
    busy = Health(other_cpu_share=1.5, cores=2, loop_lag_p50_s=1e-4, loop_lag_p99_s=1e-3, client_cpu_share=0.1)
    arms = {"base": Arm(output_tokens=32, health=busy), "flash": Arm(output_tokens=64, health=busy)}
    asked = asked_sums(workloads=(workload(length="natural", output_tokens=512),))
    answers = [*questions("base", 33), *questions("flash", 65)]
    result = judged(asked, arms, answers=answers)
    assert {row.outcome for row in result.task_times} == {"invalid"}
    assert all("other processes" in (row.reason or "") for row in result.task_times)
    assert not [f for f in result.findings if f.metric == "task_time_s"]
    assert result.decision.ship is None


def test_shares_of_the_gap_are_surer_than_the_gap() -> None:
    """Rounds differ in how much longer the tasks are; that it is the tokens is the same in all."""
    lengths = iter([64, 96, 48, 80, 112, 56, 72, 88, 60, 100])
    asked = natural()
    run = Simulation(asked, {"base": Arm(output_tokens=32)})
    for tokens in lengths:
        run.arms["flash"] = Arm(output_tokens=tokens)
        run.run(1)
    (row,) = conclude(asked, Evidence(blocks=run.blocks, starts=run.starts), run="r", state="complete").task_times
    part = next(part for part in row.parts if part.name == "output tokens")
    assert part.share is not None
    assert part.share.low is not None
    assert part.share.high is not None
    assert row.ratio.low is not None
    assert row.ratio.high is not None
    assert part.share.high - part.share.low < 0.1
    assert row.ratio.high / row.ratio.low > 1.4
