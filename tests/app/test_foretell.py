"""What is said before a run: in exact words, and within every limit of its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bakeoff.app.foretell import Forecast, foretell, plan
from bakeoff.app.loading import load_experiment
from bakeoff.app.plan_text import plan_text
from bakeoff.model import Experiment

from .flow import experiment, mock_command


def asked(folder: Path, budget: dict[str, Any], **more: Any) -> Experiment:
    more.setdefault("candidate", mock_command("--tpot", "2ms"))
    return load_experiment(experiment(folder, budget=budget, **more))


def planned(folder: Path, budget: dict[str, Any], **more: Any) -> tuple[Forecast, list[str]]:
    question = asked(folder, budget, **more)
    forecast = plan(question, folder / "runs")
    return forecast, plan_text(question, forecast).splitlines()


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (2.5, "2.5 min"),
        (1.5, "1.5 min"),
        (1.25, "75 s"),
        (1.775, "1.775 min"),
        (20, "20 min"),
        (600, "600 min"),
        (0.8, "48 s"),
    ],
)
def test_a_time_budget_is_told_as_it_was_given(minutes: float, said: str, tmp_path: Path) -> None:
    forecast = foretell(asked(tmp_path, {"minutes": minutes}), tmp_path / "runs")
    assert forecast.sentence.startswith(f"at most {said}; ")


def test_rounds_are_those_that_the_whole_budget_allows(tmp_path: Path) -> None:
    """3 requests a block and two variants: 6 a round."""
    forecast, text = planned(tmp_path, {"pairs": "3..6", "minutes": 2.5, "requests": 10})
    assert (forecast.rounds, forecast.allowed, forecast.limited_by) == ((3, 6), 1, "budget.requests")
    assert "rounds    1, as many as budget.requests allows (budget.pairs: 3 to 6)" in text
    assert "shows     with 1 pair, 4 times in 5:" in text
    rows = [line for line in text if line.lstrip().startswith("chat/c1")]
    assert len(rows) == 2
    assert all(line.count("not at all") == 2 for line in rows)  # neither told from no change, nor beyond the margin
    assert not any("nothing" in line for line in text)
    (warning,) = forecast.warnings
    assert warning.startswith("no gate can be decided")
    assert warning.endswith("and budget.requests allows 1")
    assert f"! {warning}" in text


def test_rounds_that_a_schedule_leaves_time_for(tmp_path: Path) -> None:
    load = {"prompts": {"input_tokens": 24}, "output_tokens": 4, "load": {"rate": 1}, "block": {"seconds": 15}}
    forecast, text = planned(tmp_path, {"pairs": "6..40", "minutes": 5}, workloads={"slow": load})
    assert (forecast.allowed, forecast.limited_by) == (10, "budget.minutes")
    line = "rounds    6 to 10, as many as budget.minutes allows (budget.pairs: 6 to 40), until every gate is decided"
    assert line in text
    assert "requests  as many as fit the time of a block; warm-up apart" in text
    assert forecast.warnings == ()
    assert {one.pairs for one in forecast.sensitivity} == {10}


@pytest.mark.parametrize(
    ("budget", "method", "said"),
    [
        ({"pairs": 7}, "anytime", "rounds    7"),
        ({"pairs": "6..9"}, "anytime", "rounds    6 to 9, until every gate is decided"),
        ({"pairs": "6..9"}, "fixed", "rounds    9, one look at the end"),
    ],
)
def test_rounds_of_pairs_alone(budget: dict[str, Any], method: str, said: str, tmp_path: Path) -> None:
    _, text = planned(tmp_path, budget, method=method)
    assert said in text
    assert "requests  6 a round; warm-up apart" in text


SERVER = {"engine": "openai", "url": "http://127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("base", "candidate", "one"),
    [
        ({}, {}, True),
        ({}, {"url": "http://127.0.0.1:8000/v1/", "price": "free"}, True),
        ({"headers": {}}, {"body": {}}, True),
        ({}, {"url": "http://127.0.0.1:8001"}, False),
        ({"model": "a"}, {"model": "b"}, False),
        ({}, {"headers": {"X-Draft": "off"}}, False),
        ({}, {"body": {"top_k": 5}}, False),
    ],
)
def test_one_server_under_two_names_is_remarked_on(
    base: dict[str, Any], candidate: dict[str, Any], one: bool, tmp_path: Path
) -> None:
    variants = {"base": {**SERVER, **base}, "candidate": {**SERVER, **candidate}}
    warnings = foretell(asked(tmp_path, {"pairs": "6..9"}, variants=variants), tmp_path / "runs").warnings
    assert any("base and candidate are one server, asked in the same way: an A/A" in text for text in warnings) is one


def test_two_starts_of_one_setup_are_remarked_on(tmp_path: Path) -> None:
    question = asked(tmp_path, {"pairs": "6..9"}, candidate=mock_command())
    (told,) = foretell(question, tmp_path / "runs").warnings
    assert told.startswith("base and flash are one setup: an A/A comparison")


def test_variants_without_a_profiler_are_named_beforehand(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    with_one = {"engine": "openai", "url": "http://127.0.0.1:8001", "profile": {"folder": str(tmp_path / "p")}}
    variants = {"base": SERVER, "candidate": with_one}
    forecast, text = planned(tmp_path, {"pairs": "6..9"}, variants=variants, profile=True)
    (told,) = forecast.warnings
    assert told.startswith("base is not profiled, unless its answers tell timings")
    assert f"! {told}" in text
    assert planned(tmp_path, {"pairs": "6..9"}, variants=variants, profile=False)[0].warnings == ()
