"""Quality in the advice."""

from __future__ import annotations

from bakeoff.decide import decide
from bakeoff.model import Interval, QualityNote, QualityScore

from .test_decide import asked, rows


def score(outcome: str, **more: object) -> QualityScore:
    fields: dict[str, object] = {
        "candidate": "flash",
        "task": "sums",
        "measure": "accuracy",
        "unit": "points",
        "better": "higher",
        "base": Interval(point=0.8),
        "value": Interval(point=0.75),
        "difference": Interval(point=-5.0, low=-7.1, high=-2.9),
        "outcome": outcome,
        "margin": 1.0,
        "items": 600,
        "needed": 5400,
        **more,
    }
    return QualityScore(**fields)  # type: ignore[arg-type]


def test_below_its_margin_it_is_never_recommended() -> None:
    fast = rows("flash", short="faster faster faster", long="faster faster faster")
    found = decide(asked("flash"), fast, scores=[score("worse")])
    assert found.ship == "base"
    assert any(
        "never flash for precision-sensitive use: accuracy on sums −5.0 points [−7.1, −2.9], 600 items, below the "
        "margin of 1" in reason
        for reason in found.reasons
    )


def test_the_next_best_is_recommended_instead() -> None:
    fast = [
        *rows("flash", short="faster faster faster", long="faster faster faster"),
        *rows("fixed", short="faster faster faster", long="faster faster faster"),
    ]
    scores = [score("worse"), score("not worse", candidate="fixed", difference=Interval(point=0.1, low=-0.8, high=1.0))]
    found = decide(asked("flash", "fixed"), fast, scores=scores)
    assert found.ship == "fixed"
    assert not any("quality" in condition for condition in found.conditions)
    assert any(reason.startswith("quality of fixed: accuracy on sums +0.1 points") for reason in found.reasons)


def test_one_bad_task_is_enough_and_the_mean_does_not_mend_it() -> None:
    fast = rows("flash", short="faster faster faster", long="faster faster faster")
    scores = [score("equivalent"), score("worse", task="words"), score("not worse", task=None)]
    assert decide(asked("flash"), fast, scores=scores).ship == "base"


def test_undecided_quality_is_a_condition_with_the_items_needed() -> None:
    fast = rows("flash", short="faster faster faster", long="faster faster faster")
    found = decide(asked("flash"), fast, scores=[score("inconclusive")])
    assert found.ship == "flash"
    (condition,) = [c for c in found.conditions if "quality" in c]
    assert "inconclusive" in condition
    assert "about 5,400 items would decide within 1 point)" in condition
    found = decide(asked("flash"), fast, scores=[score("uninformative", reason="the base scores near chance")])
    assert any("uninformative, the base scores near chance" in condition for condition in found.conditions)


def test_without_measured_quality_the_old_condition_stays() -> None:
    fast = rows("flash", short="faster faster faster", long="faster faster faster")
    note = QualityNote(candidate="flash", status="not measured", reason="no quality task was run")
    found = decide(asked("flash"), fast, [note])
    assert "if its quality suffices (quality was not measured)" in found.conditions
    # Divergence alone is no task.
    found = decide(asked("flash"), fast, [note], scores=[score("inconclusive", measure="kl_mean", task=None)])
    assert "if its quality suffices (quality was not measured)" in found.conditions


def test_quality_that_could_not_be_judged_is_the_first_thing_that_is_said() -> None:
    fast = rows("flash", short="faster faster faster", long="faster faster faster")
    counts = {"base.asked": 3, "base.ungradable": 3, "candidate.asked": 3, "candidate.cut": 1, "candidate.failed": 2}
    row = score("invalid", items=0, reason="no answer could be graded: the function raised SystemExit", counts=counts)
    found = decide(asked("flash"), fast, scores=[row])
    assert found.ship == "flash"
    assert found.conditions[0] == "if its quality suffices (0 of 6 answers to sums could be graded)"
    never = score("invalid", items=0, reason="no question was asked of flash: the run ended before", counts={})
    assert decide(asked("flash"), fast, scores=[never]).conditions[0] == (
        "if its quality suffices (no question of sums was answered)"
    )
    blank = score(
        "invalid",
        reason="no answer holds what the scorer looks for: no number; mend it",
        counts={"base.asked": 3},
    )
    assert decide(asked("flash"), fast, scores=[blank]).conditions[0] == (
        "if its quality suffices (sums: invalid, no answer holds what the scorer looks for)"
    )
