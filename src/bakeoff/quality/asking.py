"""Questions → requests, and what came back → answers. The same bytes go to every variant, apart from its own fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from ..client import PreparedRequest, prepare
from ..errors import EndpointError
from ..model import (
    Answer,
    BlockSize,
    Endpoint,
    Load,
    Prompts,
    RequestRecord,
    Sampling,
    Workload,
)
from ..workloads import derive_seed
from .items import MAX_ANSWER_CHARACTERS, MAX_PROMPT_KEPT, Grade, Question, Reply

_MAX_REASON = 500  # of why a server cannot be asked, its remedy included [characters]


class Place(NamedTuple):
    """Where answers belong."""

    variant: str
    round: int
    start_id: int
    again: bool = False  # the base's second visit


def prepare_questions(endpoint: Endpoint, questions: Sequence[Question]) -> list[PreparedRequest]:
    """A request for each question, in their order; `index` is the place in the list.

    No nonce: prompts must be the same. Where the server can switch its prefix cache off for a request, it is told to,
    so that no answer hangs on what was asked before.
    """
    return [_prepare(endpoint, question, index) for index, question in enumerate(questions)]


def _prepare(endpoint: Endpoint, question: Question, index: int) -> PreparedRequest:
    task, item = question.task, question.item
    chat = task.template == "chat"
    prompt: str | list[dict[str, object]] = item.prompt
    if chat:
        prompt = list(item.messages or ({"role": "user", "content": item.prompt},))
    if item.stop:
        endpoint = dataclasses.replace(endpoint, body={**endpoint.body, "stop": list(item.stop)})
    workload = Workload(
        name=task.name,
        prompts=Prompts(),
        output_tokens=task.max_tokens,
        length="natural",
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=1),
        sampling=_sampling(question),
        api="chat" if chat else "completions",
        cache="unique",
    )
    return prepare(endpoint, workload, index, index, prompt)


def _sampling(question: Question) -> Sampling:
    task = question.task
    if question.purpose == "consistency" or task.temperature == 0:
        return Sampling(temperature=0.0)
    # Each repeat draws anew, the same way in every variant; servers take seeds of 31 bits.
    seed = derive_seed(task.seed, task.name, question.item.id, question.repeat) % 2**31
    return Sampling(temperature=task.temperature, seed=seed)


def answers_of(questions: Sequence[Question], records: Sequence[RequestRecord], place: Place) -> list[Answer]:
    """The graded answer of each record. records: those of the requests that were sent, by `index`."""
    return [_answer(questions[record.index], record, place) for record in records]


def _answer(question: Question, record: RequestRecord, place: Place) -> Answer:
    cut = record.finish_reason == "length"
    if record.error == "empty":  # it answered, and said nothing: no fault of the connection
        grade = question.item.grade(Reply("", cut))
        if grade.score == 0:
            grade = grade._replace(reason="the answer is empty")
    elif record.error is not None:
        grade = Grade(None, "failed", f"{record.error}: {record.error_message or ''}"[:300])
    else:
        grade = question.item.grade(Reply(record.text, cut))
    answer = blank(question, place, grade)
    answer.text = record.text[:MAX_ANSWER_CHARACTERS]
    answer.reasoning = record.reasoning[:MAX_ANSWER_CHARACTERS]
    answer.finish_reason = record.finish_reason
    answer.input_tokens = record.input_tokens
    answer.output_tokens = record.output_tokens
    answer.reasoning_tokens = record.reasoning_tokens
    answer.scheduled_ns = record.scheduled_ns
    answer.first_token_ns = record.first_token_ns
    answer.last_token_ns = record.last_token_ns
    return answer


def blank(question: Question, place: Place, grade: Grade) -> Answer:
    """An answer with its grade, without text and times."""
    return Answer(
        task=question.task.name,
        item=question.item.id,
        group=question.item.group,
        variant=place.variant,
        purpose="again" if place.again else question.purpose,
        repeat=question.repeat,
        prompt=question.item.prompt[:MAX_PROMPT_KEPT],
        expected=question.item.expected[:MAX_PROMPT_KEPT],
        given=grade.given[:1000],
        score=grade.score,
        status=grade.status,
        reason=grade.reason,
        chance=question.item.chance,
        start_id=place.start_id,
        round=place.round,
    )


async def choose(endpoint: Endpoint, question: Question, place: Place) -> Answer:
    """The answer to a question with choices: the continuation that the variant finds likeliest.

    A server that gives no log-probabilities makes it ``ungradable``, with its reason.
    """
    from .loglikelihood import choice_logprobs

    item = question.item
    try:
        if item.ask is not None:
            grade = await item.ask(endpoint)
            answer = blank(question, place, grade)
            answer.text = grade.given
            return answer
        logs = await choice_logprobs(endpoint, item.prompt, item.choices, chat=question.task.template == "chat")
    except EndpointError as error:
        reason = f"{error.message}; {error.remedy}" if error.remedy else error.message
        return blank(question, place, Grade(None, "ungradable", reason[:_MAX_REASON]))
    likeliest = item.choices[max(range(len(logs)), key=logs.__getitem__)]
    answer = blank(question, place, item.grade(Reply(likeliest)))
    answer.text = likeliest
    return answer
