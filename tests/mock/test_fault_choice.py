"""Which request meets which fault."""

from __future__ import annotations

import pytest

from bakeoff.errors import UsageError
from bakeoff.mock import FAULTS, parse_fault, parse_faults, running
from bakeoff.mock.faults import FaultPlan

from .faulty import QUICK
from .raw import ask, prompt


def test_the_table() -> None:
    assert len(FAULTS) >= 40
    for name, kind in FAULTS.items():
        assert name == kind.name
        assert 0 < len(kind.says) <= 90
        listed = f"{name}:5" if kind.dies or kind.refuses_s else name
        assert parse_fault(listed).kind is kind


def test_selections() -> None:
    def met(*texts: str, seed: int | None = 1) -> list[int]:
        plan = FaultPlan(parse_faults(texts), seed)
        return [index for index in range(20) if plan.draw() is not None]

    assert met("hang:first3") == [0, 1, 2]
    assert met("hang:2of7") == [0, 1, 7, 8, 14, 15]
    assert met("hang") == list(range(20))
    assert met("hang:0") == []
    assert met("hang:30%") == met("hang:0.3") == met("hang:0.3,reset:0") != met("hang:30%", seed=2)
    assert 1 <= len(met("hang:30%")) <= 12
    both = FaultPlan(parse_faults(["reset:1of2,hang:1of4"]), 1)
    kinds = [kind.name if kind else None for kind in (both.draw() for _ in range(4))]
    assert kinds == ["reset", None, "reset", None]  # the first that hits


def test_a_share_hits_that_share() -> None:
    with running(QUICK, faults=["http_500:0.5"]) as mock:
        statuses = [ask(mock.port, prompt(tokens=1)).status for _ in range(60)]
    assert 15 <= statuses.count(500) <= 45
    assert statuses.count(200) == 60 - statuses.count(500)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("http_50", "did you mean http_50"),
        ("hang:0of4", "share"),
        ("hang:5of4", "share"),
        ("hang:2", "share"),
        ("hang:x", "share"),
        ("die_after", "die_after:5"),
        ("die_after:0", "die_after:5"),
        ("never_ready:0.5", "takes no share"),
        ("zzz", "one of"),
    ],
)
def test_wrong_faults_are_explained(text: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        parse_fault(text)


def test_faults_read_back() -> None:
    written = {
        "reset:10%": "reset:0.1",
        "hang": "hang:1",
        "die_after:3": "die_after:3",
        "http_500:5of20": "http_500:5of20",
        "hang:first2": "hang:first2",
    }
    assert {text: str(parse_fault(text)) for text in written} == written
    assert {str(parse_fault(text)) for text in written.values()} == set(written.values())
