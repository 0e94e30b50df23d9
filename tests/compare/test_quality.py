"""Answers made up by hand, and what is concluded from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from bakeoff.compare.divergence import invalid_row
from bakeoff.compare.quality import judge_quality, without_unmeasured
from bakeoff.model import (
    Answer,
    BlockSize,
    Experiment,
    Load,
    Prompts,
    Quality,
    QualityNote,
    QualityScore,
    QualityTask,
    Variant,
    Workload,
)


def asked(*tasks: str, margin: float = 4.0, candidates: Sequence[str] = ("flash",)) -> Experiment:
    workload = Workload(
        name="chat",
        prompts=Prompts(input_tokens=8),
        output_tokens=4,
        load=Load(kind="closed", levels=(1,)),
        block=BlockSize(requests=4),
    )
    return Experiment(
        name="x",
        variants=tuple(Variant(name=n, engine="openai") for n in ("base", *candidates)),
        workloads=(workload,),
        quality=Quality(tasks=tuple(QualityTask(name=t, source="jsonl") for t in tasks), margin_points=margin),
    )


def answers(variant: str, scores: Sequence[float | None], task: str = "sums", **more: object) -> list[Answer]:
    """One answer an item; None is a cut one."""
    return [
        msgspec.convert(
            {
                "task": task,
                "item": f"i{number}",
                "variant": variant,
                "prompt": f"question {number}",
                "text": f"{variant} says {score}",
                "score": score,
                "status": "scored" if score is not None else "cut",
                "reason": None if score is not None else "ended by max_tokens",
                **more,
            },
            Answer,
        )
        for number, score in enumerate(scores)
    ]


def judged(experiment: Experiment, *parts: list[Answer]) -> QualityScore:
    scores, _ = judge_quality(experiment, [answer for part in parts for answer in part])
    return next(score for score in scores if score.measure == "accuracy")


def some(right: int, wrong: int, lost: int = 0, won: int = 0) -> tuple[list[float | None], list[float | None]]:
    base = [1.0] * (right + lost) + [0.0] * (wrong + won)
    other = [1.0] * right + [0.0] * (lost + wrong) + [1.0] * won
    return [*base], [*other]


def test_flips_and_the_difference_in_points() -> None:
    a, b = some(700, 200, lost=60, won=40)
    found = judged(asked("sums"), answers("base", a), answers("flash", b))
    assert found.difference.point == pytest.approx(-2.0)
    assert found.flips == (60, 40)
    assert found.items == 1000
    assert found.outcome == "equivalent"
    assert found.reason == "detectably lower, by less than the margin"
    assert found.base.point == 0.76
    assert found.value.point == 0.74
    assert found.method == "mid-p McNemar"
    assert found.counts == {"base.asked": 1000, "candidate.asked": 1000}
    assert found.flip_floor is None


def test_arms_with_the_same_answers_are_equivalent_where_items_suffice() -> None:
    a, _ = some(800, 200)
    assert judged(asked("sums"), answers("base", a), answers("flash", a)).outcome == "equivalent"
    found = judged(asked("sums", margin=1.0), answers("base", a[:20]), answers("flash", a[:20]))
    assert found.outcome == "inconclusive"
    assert found.needed is not None
    assert found.needed > 20
    assert found.reason is not None
    assert "items would decide" in found.reason


def test_the_order_of_answers_does_not_matter() -> None:
    a, b = some(30, 5, lost=4, won=2)
    one = judged(asked("sums"), answers("base", a), answers("flash", b))
    two = judged(asked("sums"), answers("flash", b)[::-1], answers("base", a)[::-1])
    assert one == two


def test_cut_answers_are_left_out_counted_and_weighed_both_ways() -> None:
    a, b = some(800, 200)
    found = judged(asked("sums"), answers("base", a), answers("flash", [None] * 10 + b[10:]))
    assert found.items == 990
    assert found.counts["candidate.cut"] == 10
    assert "base.cut" not in found.counts
    assert found.outcome == "equivalent"  # ten items cannot turn it
    assert found.reason is not None
    assert "10 of 1000 items" in found.reason
    assert "−1.0 to ±0.0 points" in found.reason


def test_a_verdict_that_hangs_on_cut_answers_is_none() -> None:
    a, b = some(800, 200)
    found = judged(asked("sums"), answers("base", a), answers("flash", [None] * 150 + b[150:]))
    assert found.outcome == "inconclusive"
    assert found.reason is not None
    assert "raise `max_tokens`" in found.reason
    assert found.difference.point == 0  # what could be read is the same


def test_too_few_readable_answers_are_invalid() -> None:
    a, _ = some(80, 20)
    found = judged(asked("sums"), answers("base", a), answers("flash", [None] * 60 + a[60:]))
    assert found.outcome == "invalid"
    assert "60 %" in (found.reason or "")
    assert "candidate: 60 cut" in (found.reason or "")
    nothing = judged(asked("sums"), answers("base", [None] * 5), answers("flash", [None] * 5))
    assert nothing.outcome == "invalid"
    assert "no answer could be graded" in (nothing.reason or "")
    assert "raise `max_tokens`" in (nothing.reason or "")


def test_failed_requests_are_not_wrong_answers() -> None:
    a, _ = some(800, 200)
    failed = answers("flash", [None] * 20, status="failed", reason="timeout")
    found = judged(asked("sums"), answers("base", a), failed + answers("flash", a)[20:])
    assert found.counts["candidate.failed"] == 20
    assert found.difference.point == 0


def test_a_scorer_that_finds_no_answer_anywhere_is_told() -> None:
    found = judged(
        asked("sums"),
        answers("base", [0.0] * 30, reason="the pattern finds nothing in it"),
        answers("flash", [0.0] * 30, reason="the pattern finds nothing in it"),
    )
    assert found.outcome == "invalid"
    assert "mend the scorer" in (found.reason or "")


def test_an_arm_that_was_never_asked() -> None:
    found = judged(asked("sums"), answers("base", [1.0] * 10))
    assert found.outcome == "invalid"
    assert "flash" in (found.reason or "")
    assert judge_quality(asked("sums"), []) == ((), ())


def test_near_chance_says_nothing() -> None:
    a, b = some(52, 148)
    found = judged(asked("sums"), answers("base", a, chance=0.25), answers("flash", b, chance=0.25))
    assert found.outcome == "uninformative"
    assert "near the 25.0 % of blind guessing" in (found.reason or "")
    hopeless = judged(asked("sums"), answers("base", [0.0] * 300), answers("flash", [0.0] * 300))
    assert hopeless.outcome == "uninformative"
    good = judged(asked("sums"), answers("base", [0.0] * 300), answers("flash", [1.0] * 300))
    assert good.outcome == "better"


def test_several_repeats_are_averaged_by_item() -> None:
    parts = []
    for repeat in range(4):
        a = [1.0 if (i + repeat) % 4 else 0.0 for i in range(200)]
        b = [1.0 if (i + repeat) % 2 else 0.0 for i in range(200)]
        parts += [answers("base", a, repeat=repeat), answers("flash", b, repeat=repeat)]
    found = judged(asked("sums"), *parts)
    assert found.method == "paired t"
    assert found.difference.point == pytest.approx(-25.0)
    assert found.outcome == "worse"


def test_items_in_many_groups_are_clustered_and_in_few_are_not() -> None:
    def grouped(variant: str, scores: Sequence[float | None], groups: int) -> list[Answer]:
        found = answers(variant, scores)
        for number, answer in enumerate(found):
            answer.group = f"g{number % groups}"
        return found

    a, b = some(100, 20, lost=12, won=8)
    many = judged(asked("sums"), grouped("base", a, 20), grouped("flash", b, 20))
    few = judged(asked("sums"), grouped("base", a, 4), grouped("flash", b, 4))
    assert many.method == "clustered t over 20 groups"
    assert few.method == "mid-p McNemar"


def test_several_tasks_have_a_row_each_and_one_over_all() -> None:
    a, b = some(80, 20, lost=5, won=5)
    everything = [
        part for task in ("sums", "words") for part in (*answers("base", a, task), *answers("flash", b, task))
    ]
    scores, flips = judge_quality(asked("sums", "words"), everything)
    rows = [score for score in scores if score.measure == "accuracy"]
    assert [row.task for row in rows] == ["sums", "words", None]
    assert rows[2].items == 220
    assert rows[2].flips == (10, 10)
    assert len(flips) == 20
    assert [(flip.base_score, flip.candidate_score) for flip in flips[:10]] == [(1.0, 0.0)] * 10
    assert flips[0].base_text == "base says 1.0"
    assert flips[0].prompt.startswith("question")


def test_flips_are_bounded() -> None:
    a, b = some(10, 10, lost=200)
    _, flips = judge_quality(asked("sums"), answers("base", a, text="x" * 9000) + answers("flash", b))
    assert len(flips) == 30
    assert len(flips[0].base_text) == 2000


def test_the_bases_own_flips_are_the_floor() -> None:
    a, b = some(300, 80, lost=40, won=40)
    again = answers("base", [1.0 - (s or 0.0) if i % 5 == 0 else s for i, s in enumerate(a)], purpose="again")
    scores, _ = judge_quality(asked("sums"), answers("base", a) + answers("flash", b) + again)
    accuracy = scores[0]
    assert accuracy.flip_floor is not None
    assert accuracy.flip_floor.point == pytest.approx(0.2, abs=0.005)
    (excess,) = [score for score in scores if score.measure == "excess_flips"]
    assert excess.value.point == pytest.approx(80 / 460)
    assert excess.difference.point == pytest.approx(100 * (80 / 460 - 0.2), abs=0.5)
    assert excess.outcome == "inconclusive"  # no more than the base against itself
    quiet, _ = judge_quality(
        asked("sums"), answers("base", a) + answers("flash", b) + answers("base", a, purpose="again")
    )
    (excess,) = [score for score in quiet if score.measure == "excess_flips"]
    assert excess.outcome == "probably worse"


def _repeated(variant: str, text: Callable[[int, int], str]) -> list[Answer]:
    found = []
    for repeat in range(4):
        part = answers(variant, [1.0] * 30, purpose="consistency", repeat=repeat)
        for number, answer in enumerate(part):
            answer.text = text(number, repeat)
        found += part
    return found


def test_consistency_within_each_arm() -> None:
    a, _ = some(30, 0)
    steady = _repeated("base", lambda number, _: f"answer {number}")
    wavering = _repeated("flash", lambda number, repeat: f"answer {number}{' ' * repeat}{repeat if number % 2 else ''}")
    for answer in wavering:
        answer.given = answer.text.replace(" ", "")
    scores, _ = judge_quality(asked("sums"), answers("base", a) + answers("flash", a) + steady + wavering)
    rows = {score.measure: score for score in scores}
    assert (rows["agreement"].base.point, rows["agreement"].value.point) == (1.0, 0.5)
    assert (rows["identical"].base.point, rows["identical"].value.point) == (1.0, 0.0)
    assert rows["identical"].outcome == "probably worse"
    assert (rows["pass_k"].base.point, rows["pass_k"].value.point) == (1.0, 1.0)
    assert rows["excess_flips"].method.startswith("against repeats of the base")


def test_a_note_that_quality_was_not_measured_goes_when_it_was() -> None:
    a, _ = some(10, 2)
    scores, _ = judge_quality(asked("sums"), answers("base", a) + answers("flash", a))
    unmeasured = QualityNote(candidate="flash", status="not measured", reason="no quality task was run")
    garbage = QualityNote(candidate="flash", status="garbage", reason="empty")
    assert without_unmeasured([unmeasured, garbage], scores) == (garbage,)
    assert without_unmeasured([unmeasured], ()) == (unmeasured,)


def test_a_divergence_that_failed_is_told_in_place_of_nothing_was_run() -> None:
    note = QualityNote(candidate="flash", status="not measured", reason="no quality task was run")
    row = invalid_row("flash", "base: it tells no probabilities (it has no /completion); use a server that does")
    (found,) = without_unmeasured([note], [row])
    assert found.status == "not measured"
    assert found.reason == (
        "the divergence that was asked for failed: base: it tells no probabilities (it has no /completion)"
    )
    (other,) = without_unmeasured([note], [invalid_row("fixed", "it failed")])
    assert other == note


@pytest.mark.parametrize(
    ("scorer", "status", "remedy"),
    [
        ("choice", "ungradable", None),
        ("normalised", "ungradable", None),
        ("function", "ungradable", "mend the function for those that it could not grade"),
        ("choice", "failed", "look at the server's log for those that failed"),
        ("numeric", "cut", "raise `max_tokens` (or give `stop`) for those that max_tokens cut"),
    ],
)
def test_a_remedy_is_one_for_what_went_wrong(scorer: str, status: str, remedy: str | None) -> None:
    experiment = asked("sums")
    task = QualityTask(name="sums", source="jsonl", scorer=scorer)  # type: ignore[arg-type]
    experiment = msgspec.structs.replace(experiment, quality=Quality(tasks=(task,)))
    reason = "it tells no probabilities; grade generated answers "
    found = [a for v in ("base", "flash") for a in answers(v, [None] * 4, status=status, reason=reason)]
    (row,) = judge_quality(experiment, found)[0]
    assert row.outcome == "invalid"
    assert row.reason == "; ".join(
        text
        for text in ("no answer could be graded: it tells no probabilities; grade generated answers", remedy)
        if text
    )
