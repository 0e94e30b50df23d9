"""What a question is, whatever source it comes from, and what grading an answer to it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import BakeoffError
from ..model import AnswerStatus, Endpoint, Purpose, QualityTask

#: Characters of an answer that are looked at and kept: an endless one must cost neither time nor disk.
MAX_ANSWER_CHARACTERS = 100_000
#: Characters of a prompt, and of an expected answer, that are kept with each answer.
MAX_PROMPT_KEPT = 20_000


class TaskError(BakeoffError):
    """A quality task cannot be read or built. `where` names the file (and line) or the task."""


class Reply(NamedTuple):
    """An answer as graders see it. `cut`: it was ended by max_tokens, so there might have been more of it."""

    text: str
    cut: bool = False


class Grade(NamedTuple):
    """Score 0..1 where the status is ``scored``; `given`: the answer as it was read out of the text.

    A finished text in which no answer can be found is scored 0 with a reason: to give none is to be wrong.
    """

    score: float | None
    status: AnswerStatus = "scored"
    reason: str | None = None
    given: str = ""


Grader = Callable[[Reply], Grade]
#: Puts a question to a server in its source's own way; raises EndpointError.
Ask = Callable[[Endpoint], Awaitable[Grade]]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question. `id` is the same in every variant, and unique in its task.

    messages: in OpenAI's chat form, where the source has them; `prompt` is then the same as plain text. choices: the
    continuations whose likelihood is compared (scorer ``choice``); the reply that is graded is then the likeliest one.
    ask: how the source itself asks and grades such a question, in place of the comparison of `choices`.
    chance: score of blind guessing, where the kind of question tells it. stop: texts that end an answer.
    """

    id: str
    prompt: str
    grade: Grader
    group: str = ""
    messages: tuple[dict[str, Any], ...] | None = None
    expected: str = ""
    choices: tuple[str, ...] = ()
    ask: Ask | None = None
    chance: float | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LoadedTask:
    """A task with its questions, in the order in which they are asked."""

    task: QualityTask
    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request to come: an item of a task, for the n-th time, for a purpose."""

    task: QualityTask
    item: Item
    repeat: int = 0
    purpose: Purpose = "score"

    @property
    def key(self) -> tuple[str, str, Purpose, int]:
        """The same in every variant."""
        return (self.task.name, self.item.id, self.purpose, self.repeat)
