"""Questions of a JSON Lines file, checked whole before anything is measured.

One object a line: ``prompt`` (text) or ``messages`` (OpenAI's chat form); ``answer`` (text, number, or a list of
accepted ones; for `choice`, one of the choices or its number from 0); optionally ``id``, ``group``, ``choices``,
``chance``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import QualityTask
from ..workloads.lines import BadPlaces, numbered_lines, object_of, open_checked, unreadable
from ..workloads.messages import messages_problem, one_turn
from ..workloads.problems import WorkloadError
from . import own_code, scorers
from .items import Grader, Item, TaskError

_FORM = 'write one object a line: {"id": "a1", "prompt": "2+2=", "answer": "4"}'


def jsonl_items(task: QualityTask) -> list[Item]:
    """All questions of the task's file. Raises TaskError naming every bad line (the first 20 in words)."""
    path = Path(task.path or "")
    function = own_code.load_function(task.function or "", task.name) if task.scorer == "function" else None
    bad = BadPlaces(path, "1 line is not a question", "{} lines are not questions")
    items: dict[str, Item] = {}
    try:
        with open_checked(path, "a JSON Lines file of questions") as file:
            for line_number, _, line in numbered_lines(file):
                found = "longer than 1 MiB" if line is None else _read(task, line, line_number, function)
                if isinstance(found, str):
                    bad.add(line_number, found)
                elif found.id in items:
                    bad.add(line_number, "has the id of a line before it")
                else:
                    items[found.id] = found
        bad.raise_any(_FORM)
    except OSError as error:
        raise unreadable(path, error) from error
    except WorkloadError as error:
        raise TaskError(error.message, where=error.where, remedy=error.remedy) from None
    if not items:
        raise TaskError("holds no question", where=str(path), remedy=_FORM)
    return list(items.values())


def _read(task: QualityTask, line: bytes, number: int, function: own_code.Scorer | None) -> Item | str:
    """The question, or what is wrong with the line (in words that do not repeat its content)."""
    data = object_of(line)
    if isinstance(data, str):
        return data
    prompt, messages = data.get("prompt"), data.get("messages")
    if (prompt is None) == (messages is None):
        return "needs one of prompt and messages"
    if messages is not None:
        if problem := messages_problem(messages, "chat"):
            return problem
        prompt = one_turn(messages, None).text
    if not isinstance(prompt, str) or not prompt:
        return '"prompt" must be text that is not empty'
    choices = data.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(c, str) and c for c in choices):
        return '"choices" must be a list of texts'
    name = data.get("id", number)
    if isinstance(name, bool) or not isinstance(name, str | int):
        return '"id" must be text or a number'
    group = data.get("group", "")
    chance = data.get("chance", 1 / len(choices) if choices else None)
    if chance is not None and (isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1):
        return '"chance" must be a number from 0 to 1'
    graded = _grader(task, data, choices, function)
    if isinstance(graded, str):
        return graded
    grader, expected = graded
    return Item(
        id=str(name),
        group=str(group)[:200],
        prompt=prompt,
        messages=tuple(messages) if messages is not None else None,
        expected=expected,
        choices=tuple(choices) if task.scorer == "choice" else (),
        chance=chance,
        stop=task.stop,
        grade=grader,
    )


def _grader(
    task: QualityTask, data: Mapping[str, Any], choices: list[str], function: own_code.Scorer | None
) -> tuple[Grader, str] | str:
    """(grader, the expected answer as text), or what is wrong."""
    answer = data.get("answer")
    accepted = answer if isinstance(answer, list) else [answer]
    texts = [str(a) for a in accepted if isinstance(a, str | int | float) and not isinstance(a, bool)]
    if function is not None:
        return own_code.graded_by(function, data), " | ".join(texts)
    if not texts or len(texts) < len(accepted):
        return '"answer" must be text, a number, or a list of them'
    if task.scorer == "choice":
        if len(choices) < 2:
            return "needs choices, at least two"
        if isinstance(answer, int) and 0 <= answer < len(choices):
            texts = [choices[answer]]
        if texts[0] not in choices:
            return '"answer" is none of the choices'
        return scorers.choice(texts[0]), texts[0]
    shown = " | ".join(texts)
    if task.scorer == "numeric":
        try:
            return scorers.numeric(texts), shown
        except ValueError as error:
            return str(error)
    if task.scorer == "regex":
        try:
            return scorers.regex(task.pattern or "", texts), shown
        except re.error as error:
            return f"the task's pattern is none: {error}"
    return (scorers.exact if task.scorer == "exact" else scorers.normalised)(texts), shown
