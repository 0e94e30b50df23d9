"""Questions of the library reasoning-gym: procedural, seeded, each with the scorer that its generator brings along."""

from __future__ import annotations

import re
from typing import Any

from ..model import QualityTask
from .items import Grade, Grader, Item, Reply, TaskError
from .scorers import answer_text

#: The default mix: short questions of several kinds with one short answer, 20 of each. Arithmetic, text, logic, and
#: dates; none asks for knowledge, none takes more than a few hundred tokens to solve.
DEFAULT_MIX = {
    "basic_arithmetic": 20,
    "calendar_arithmetic": 20,
    "chain_sum": 20,
    "family_relationships": 20,
    "gcd": 20,
    "leg_counting": 20,
    "letter_counting": 20,
    "number_sequence": 20,
    "simple_equations": 20,
    "spell_backward": 20,
    "syllogism": 20,
    "word_sorting": 20,
}
#: What blind guessing scores, for generators with a yes or no.
_CHANCE = {"syllogism": 0.5, "isomorphic_strings": 0.5, "ransom_note": 0.5, "coin_flip": 0.5}
_ASK = "Write the final answer alone between <answer> and </answer>."
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def reasoning_gym_items(task: QualityTask) -> list[Item]:
    """The items of the task's generators, or of the default mix. Raises TaskError."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise TaskError(
            "reasoning-gym is not installed", where=task.name, remedy="pip install 'bakeoff[quality]'"
        ) from None
    wanted = task.datasets or DEFAULT_MIX
    unknown = sorted(set(wanted) - set(DATASETS))
    if unknown:
        raise TaskError(
            f"reasoning-gym has no generator {', '.join(map(repr, unknown))}",
            where=task.name,
            remedy=f"its generators: {', '.join(sorted(DATASETS))}",
        )
    items: list[Item] = []
    for name, count in wanted.items():
        dataset = reasoning_gym.create_dataset(name, size=count, seed=task.seed)
        items += [_item(task, name, number, dataset) for number in range(count)]
    return items


def _item(task: QualityTask, name: str, number: int, dataset: Any) -> Item:
    entry = dataset[number]
    return Item(
        id=f"{name}-{number}",
        group=name,
        prompt=f"{str(entry['question']).strip()}\n\n{_ASK}\n",
        expected=str(entry["answer"]) if entry.get("answer") is not None else "",
        chance=_CHANCE.get(name),
        stop=task.stop,
        grade=graded_by(dataset, entry),
    )


def graded_by(dataset: Any, entry: dict[str, Any]) -> Grader:
    """A grader by the generator's own scorer, of what stands between the last answer tags (else of the whole text).

    Solved is what gets the full mark: some generators give partial marks for the form alone.
    """

    def grade(reply: Reply) -> Grade:
        text = answer_text(reply.text)
        tagged = _TAGGED.findall(text)
        if reply.cut and not tagged:
            return Grade(None, "cut", "ended by max_tokens before an answer could be read")
        given = tagged[-1].strip() if tagged else text
        try:
            score = float(dataset.score_answer(answer=given, entry=entry))
        except Exception as error:
            return Grade(None, "ungradable", f"the scorer raised {type(error).__name__}: {error}"[:300])
        return Grade(float(score >= 1.0), given=given[:200])

    return grade
