"""The tasks of an experiment with all their questions, read and checked before anything is measured."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..model import Answer, Consistency, Quality, QualityTask
from ..workloads import derive_seed
from ..workloads.lines import numbered_lines, open_checked
from ..workloads.problems import WorkloadError
from .items import MAX_PROMPT_KEPT, Item, LoadedTask, Question, TaskError


def load_tasks(quality: Quality | None) -> tuple[LoadedTask, ...]:
    """Every task with its questions, in an order that follows from its seed. Raises TaskError; OSError never."""
    return tuple(_load(task) for task in (quality.tasks if quality is not None else ()))


def _load(task: QualityTask) -> LoadedTask:
    items = _items(task)
    if not items:
        raise TaskError("has no question", where=task.name, remedy="raise `items`, or give it a file that holds some")
    # Drawn and mixed at once: a prefix of the order is a fair sample of the whole, wherever the budget ends it.
    order = random.Random(derive_seed(task.seed, "items", task.name)).sample(items, k=len(items))
    return LoadedTask(task=task, items=tuple(order[: task.items]))


def _items(task: QualityTask) -> Sequence[Item]:
    if task.source == "jsonl":
        from .jsonl import jsonl_items

        return jsonl_items(task)
    if task.source == "reasoning-gym":
        from .reasoning_gym import reasoning_gym_items

        return reasoning_gym_items(task)
    from .lm_eval import lm_eval_items

    return lm_eval_items(task)


def refuse_changed(tasks: Sequence[LoadedTask], answers: Iterable[Answer]) -> None:
    """Raises TaskError where a question that has been answered already reads otherwise now, or is gone.

    A resumed run must not pair answers to different questions.
    """
    known = {(t.task.name, item.id): item.prompt for t in tasks for item in t.items}
    for answer in answers:
        prompt = known.get((answer.task, answer.item))
        if prompt is None or prompt[:MAX_PROMPT_KEPT] != answer.prompt:
            raise TaskError(
                f"question {answer.item!r:.80} is not the one that was asked when the run began",
                where=answer.task,
                remedy="put the file (or the library's version) back as it was, or start a new run",
            )


def count_items(task: QualityTask) -> int | None:
    """How many questions a task has, found without its library; None where that is unknown."""
    found: int | None = None
    if task.source == "reasoning-gym":
        from .reasoning_gym import DEFAULT_MIX

        found = sum((task.datasets or DEFAULT_MIX).values())
    elif task.source == "jsonl":
        try:
            with open_checked(Path(task.path or ""), "a file of questions") as file:
                found = sum(1 for _ in numbered_lines(file))
        except (OSError, WorkloadError):  # said by whoever reads the questions
            return None
    if found is None or task.items is None:
        return found
    return min(found, task.items)


def portions(tasks: Sequence[LoadedTask], consistency: Consistency | None, rounds: int) -> list[list[Question]]:
    """The questions of each round: every task's items dealt out one by one, so that each portion is like the whole.

    All questions on an item are in one portion. The first items of all tasks together are those that are asked again
    and again at temperature 0.
    """
    dealt: list[list[Question]] = [[] for _ in range(max(1, rounds))]
    again = _first(tasks, consistency.items) if consistency else set()
    for loaded in tasks:
        for place, item in enumerate(loaded.items):
            portion = dealt[place % len(dealt)]
            portion += [Question(task=loaded.task, item=item, repeat=r) for r in range(loaded.task.repeats)]
            if consistency and (loaded.task.name, item.id) in again:
                portion += [
                    Question(task=loaded.task, item=item, repeat=r, purpose="consistency")
                    for r in range(consistency.repeats)
                ]
    return dealt


def _first(tasks: Sequence[LoadedTask], count: int) -> set[tuple[str, str]]:
    """The first items in the order of their places, the tasks taking turns; of `choice` none: they write no text."""
    lists = [[(t.task.name, item.id) for item in t.items if not item.choices] for t in tasks]
    longest = max((len(items) for items in lists), default=0)
    turns = [items[place] for place in range(longest) for items in lists if place < len(items)]
    return set(turns[:count])
