from bakeoff.explain.task_time import task_time_findings
from bakeoff.model import Interval, TaskPart, TaskTime


def row(outcome: str, **parts: float) -> TaskTime:
    """parts: name (with _ for a space) → its log share."""
    return TaskTime(
        candidate="flash",
        task="sums",
        base_s=Interval(point=1.0),
        value_s=Interval(point=2.0),
        ratio=Interval(point=2.0, low=1.9, high=2.1),
        outcome=outcome,
        parts=tuple(
            TaskPart(
                name=name.replace("_", " "),
                base=10,
                value=20,
                unit="tokens",
                log_share=Interval(point=share, low=share - 0.01, high=share + 0.01),
                seconds=Interval(point=share * 1.44),
            )
            for name, share in parts.items()
        ),
    )


def test_the_largest_part_is_the_cause_and_all_are_evidence() -> None:
    (finding,) = task_time_findings([row("slower", prefill=0.1, output_tokens=0.8, time_per_token=-0.2)])
    assert (finding.cause, finding.status, finding.metric) == ("more-tokens", "measured", "task_time_s")
    assert finding.share is not None
    assert finding.share.point == 0.8 / 0.7
    assert len(finding.evidence) == 4
    assert finding.fix is not None


def test_only_what_is_slower_needs_a_cause() -> None:
    for outcome in ("faster", "equivalent", "inconclusive", "probably faster"):
        assert task_time_findings([row(outcome, output_tokens=0.5)]) == ()
    assert len(task_time_findings([row("probably slower", calls=0.5)])) == 1


def test_a_gap_that_is_not_split_has_no_cause() -> None:
    assert task_time_findings([row("slower")]) == ()
