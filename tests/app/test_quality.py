"""Quality through a whole run, on mock servers: plumbing, not judgement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bakeoff
from bakeoff.errors import BakeoffError
from bakeoff.measure.progress import Progress
from bakeoff.model import Answer
from bakeoff.runs import RunFolder

from .flow import experiment, mock_command


def quality(folder: Path, **more: Any) -> dict[str, Any]:
    """Ten questions that any non-empty answer solves, graded by a function of one's own."""
    lines = [json.dumps({"id": str(i), "prompt": f"question {i}: ", "answer": "x"}) for i in range(10)]
    (folder / "q.jsonl").write_text("\n".join(lines))
    (folder / "scorer.py").write_text("def score(answer, item):\n    return float(bool(answer))\n")
    return {"tasks": {"any": {"path": "q.jsonl", "function": "scorer:score", "max_tokens": 4000}}, **more}


def short(*flags: str) -> list[str]:
    return [*mock_command(*flags), "--natural-tokens", "3", "--tpot", "0.1ms"]


def keys(answers: list[Answer], variant: str, purpose: str) -> set[tuple[int, str, int]]:
    return {(a.round, a.item, a.repeat) for a in answers if (a.variant, a.purpose) == (variant, purpose)}


def test_every_arm_answers_the_same_questions_in_the_same_rounds(tmp_path: Path) -> None:
    asked = quality(tmp_path, consistency={"items": 3, "repeats": 2})
    result = bakeoff.run(experiment(tmp_path, base=short(), candidate=short(), quality=asked), root=tmp_path / "runs")
    answers = RunFolder.open(Path(result.run)).answers()
    base, flash = keys(answers, "base", "score"), keys(answers, "flash", "score")
    assert base == flash
    assert sorted(int(item) for _, item, _ in base) == list(range(10))
    assert {round_ for round_, _, _ in base} == {0, 1}
    # one A/A round: the base answers its portion again, on another start
    assert keys(answers, "base", "again") == {key for key in base if key[0] == 0}
    starts = {(a.purpose, a.start_id) for a in answers if a.variant == "base" and a.round == 0}
    assert len({start for _, start in starts}) == 2
    assert len([a for a in answers if a.purpose == "consistency" and a.variant == "flash"]) == 6
    assert all(a.status == "scored" and a.score == 1.0 for a in answers)
    assert all(a.first_token_ns and a.last_token_ns and a.output_tokens for a in answers)
    (row,) = [score for score in result.scores if score.measure == "accuracy"]
    assert (row.items, row.flips, row.counts) == (10, (0, 0), {"base.asked": 10, "candidate.asked": 10})
    assert {score.measure for score in result.scores} >= {"agreement", "identical", "pass_k", "excess_flips"}
    assert result.quality == ()
    assert bakeoff.compare(result.run).scores == result.scores  # recomputed from the saved answers


def test_what_max_tokens_cuts_is_counted_and_not_wrong(tmp_path: Path) -> None:
    asked = quality(tmp_path)
    asked["tasks"]["any"]["max_tokens"] = 2
    endless = [*mock_command(), "--natural-tokens", "100000", "--tpot", "0.1ms"]
    result = bakeoff.run(
        experiment(tmp_path, base=short(), candidate=endless, quality=asked, aa=0), root=tmp_path / "runs"
    )
    (row,) = [score for score in result.scores if score.measure == "accuracy"]
    assert row.counts["candidate.cut"] == 10
    assert row.outcome == "invalid"
    assert row.reason is not None
    assert "raise `max_tokens`" in row.reason


def test_a_fast_variant_that_answers_wrongly_is_not_recommended(tmp_path: Path) -> None:
    """Right is a short answer, and the candidate rambles; how fast it is plays no part."""
    asked = quality(tmp_path)
    (tmp_path / "scorer.py").write_text("def score(answer, item):\n    return float(len(answer.split()) < 40)\n")
    lines = [json.dumps({"id": str(i), "prompt": f"question {i}: ", "answer": "x"}) for i in range(60)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    rambling = [*mock_command(), "--natural-tokens", "400", "--tpot", "0.05ms"]
    result = bakeoff.run(experiment(tmp_path, base=short(), candidate=rambling, quality=asked), root=tmp_path / "runs")
    row = next(score for score in result.scores if score.measure == "accuracy")
    assert row.outcome == "worse"
    assert result.flips
    assert result.decision.ship != "flash"
    assert any("never flash for precision-sensitive use" in reason for reason in result.decision.reasons)


def test_an_interrupted_run_asks_no_question_twice(tmp_path: Path) -> None:
    class Impatient(Progress):
        def phase(self, text: str) -> None:
            if text.startswith("asking") and len(asked) == 2:
                raise KeyboardInterrupt
            if text.startswith("asking"):
                asked.append(text)

    asked: list[str] = []
    file = experiment(tmp_path, base=short(), candidate=short(), quality=quality(tmp_path), aa=0)
    result = bakeoff.run(file, root=tmp_path / "runs", progress=Impatient())
    assert result.state == "interrupted"
    first = RunFolder.open(Path(result.run)).answers()
    assert len(first) == 10  # one portion of five from each arm
    result = bakeoff.run(resume=result.run)
    assert result.state == "complete"
    answers = RunFolder.open(Path(result.run)).answers()
    assert answers[:10] == first
    assert len(answers) == 20
    assert keys(answers, "base", "score") == keys(answers, "flash", "score")


def test_a_resumed_run_refuses_other_questions(tmp_path: Path) -> None:
    class Impatient(Progress):
        def round_done(self, rounds: int, remaining_s: float | None, estimate: tuple[str, ...]) -> None:
            raise KeyboardInterrupt

    file = experiment(tmp_path, base=short(), candidate=short(), quality=quality(tmp_path), aa=0)
    result = bakeoff.run(file, root=tmp_path / "runs", progress=Impatient())
    assert result.state == "interrupted"
    text = (tmp_path / "q.jsonl").read_text()
    (tmp_path / "q.jsonl").write_text(text.replace("question", "puzzle"))
    with pytest.raises(BakeoffError, match="is not the one that was asked"):
        bakeoff.run(resume=result.run)
    (tmp_path / "q.jsonl").write_text(text)
    assert bakeoff.run(resume=result.run).state == "complete"


def test_half_of_the_request_budget_is_for_quality(tmp_path: Path) -> None:
    class Notes(Progress):
        def note(self, text: str) -> None:
            told.append(text)

    told: list[str] = []
    spared = {"min_requests": 1, "max_requests": 1}
    file = experiment(
        tmp_path,
        base=short(),
        candidate=short(),
        quality=quality(tmp_path),
        aa=0,
        warmup=spared,
        budget={"pairs": "2..2", "minutes": 5, "requests": 36},
    )
    result = bakeoff.run(file, root=tmp_path / "runs", progress=Notes())
    answers = RunFolder.open(Path(result.run)).answers()
    assert {(a.round, a.variant) for a in answers} == {(r, v) for r in (0, 1) for v in ("base", "flash")}
    assert len(answers) == 4 * 4  # half of 36, shared by four visits
    assert keys(answers, "base", "score") == keys(answers, "flash", "score")
    assert result.rounds == 2
    assert any("end early" in note for note in told)


def test_a_bad_file_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    asked = quality(tmp_path)
    (tmp_path / "q.jsonl").write_text("not json\n")
    with pytest.raises(BakeoffError, match="not valid JSON"):
        bakeoff.run(experiment(tmp_path, quality=asked), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_too_few_items_are_told_beforehand(tmp_path: Path) -> None:
    from bakeoff.app.foretell import foretell
    from bakeoff.app.loading import load_experiment

    file = experiment(tmp_path, quality=quality(tmp_path))
    (told,) = [text for text in foretell(load_experiment(file), tmp_path).warnings if "quality" in text]
    assert "10 items are few for a margin of 1 points" in told
    assert "about 8,652" in told
    file = experiment(tmp_path, quality=quality(tmp_path, margin=40))
    assert not any("quality" in text for text in foretell(load_experiment(file), tmp_path).warnings)


def test_choices_of_a_server_that_tells_no_probabilities_are_told_with_the_remedy(tmp_path: Path) -> None:
    line = json.dumps({"prompt": "one or two? ", "answer": 0, "choices": [" one", " two"]})
    (tmp_path / "c.jsonl").write_text(line)
    asked = {"tasks": {"c": {"path": "c.jsonl", "scorer": "choice"}}}
    result = bakeoff.run(experiment(tmp_path, quality=asked, aa=0), root=tmp_path / "runs")
    (row,) = [score for score in result.scores if score.measure == "accuracy"]
    assert row.outcome == "invalid"
    assert row.reason is not None
    assert row.reason.startswith("no answer could be graded: it tells no probabilities along a given text")
    assert row.reason.endswith("or grade generated answers (scorer: normalised)")


def test_a_plan_foretells_the_requests_of_a_divergence(tmp_path: Path) -> None:
    from bakeoff.app.foretell import foretell
    from bakeoff.app.loading import load_experiment
    from bakeoff.app.plan_text import plan_text

    asked = load_experiment(experiment(tmp_path, quality={"divergence": {"prompts": 8, "tokens": 16}}))
    text = plan_text(asked, foretell(asked, tmp_path))
    assert "diverges  3 walks along 8 answers of the base, up to 16 tokens each, before the rounds" in text
    assert "24 (vLLM) to 384 (llama.cpp, one a token) requests, and 8 for the answers; at most 25% of the time" in text
