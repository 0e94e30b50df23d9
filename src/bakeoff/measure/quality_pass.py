"""Questions about quality, asked of the very starts that are measured: a portion after the blocks of each visit.

So the arms answer in interleaved order, on as many starts as the comparison has, at no start of its own; blocks come
first in a visit and are not touched. All arms of a round get the same questions. The base's A/A visits answer once more
what the base has answered, which tells how often it disagrees with itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from ..client import ClosedLoop, run_requests
from ..errors import EngineError
from ..model import Answer, Endpoint, Experiment, RequestRecord
from ..quality.asking import Place, answers_of, choose, prepare_questions
from ..quality.items import LoadedTask, Question
from ..quality.tasks import portions
from .block import OutOfTime
from .budget import Ledger
from .plan import Step
from .progress import Progress
from .prompting import count_missing
from .residents import Resident, Residents
from .warming import death, timeouts_of

#: Share of each budget that quality may use at most: the rest is for what the run is named after.
SHARE = 0.5
_AT_A_TIME = 4
_CHARACTERS_A_TOKEN = 3  # fewer than any common tokenizer needs for plain text

Key = tuple[str, str, str, int]


class _Run(Protocol):
    def __call__(self, main: Coroutine[Any, Any, Any], /) -> Any: ...


class AnswerSink(Protocol):
    """Where answers go, visit by visit, and which ones exist."""

    def write_answers(self, answers: Sequence[Answer]) -> None: ...
    def answers(self) -> Sequence[Answer]: ...


class QualityPass:
    """Asks the questions of an experiment's tasks, a portion a round, over its `min_pairs` first rounds.

    tasks: as `load_tasks` read them. Where half of a budget does not hold all questions, each portion ends early, for
    all arms at the same question.
    """

    def __init__(
        self,
        experiment: Experiment,
        tasks: Sequence[LoadedTask],
        residents: Residents,
        *,
        sink: AnswerSink,
        ledger: Ledger,
        progress: Progress,
    ) -> None:
        self._experiment = experiment
        self._residents = residents
        self._sink = sink
        self._ledger = ledger
        self._progress = progress
        quality = experiment.quality
        rounds = experiment.budget.min_pairs
        self._portions = portions(tasks, quality.consistency if quality else None, rounds) if tasks else []
        self._visits = max(1, rounds * (len(experiment.variants) + (experiment.aa_pairs > 0)))
        self._done: set[tuple[int, str, bool]] = set()
        self._asked: dict[int, set[Key]] = {}  # by round, where its portion was cut short
        for answer in sink.answers() if tasks else ():
            self._note(answer.round, answer.variant, [answer])
        self._shortened = False

    def wants(self, step: Step) -> bool:
        """Whether the visit that a step belongs to has questions to answer."""
        place = (step.round, step.variant, step.kind == "aa")
        return step.kind != "probe" and place not in self._done and bool(self._questions(step))

    def most_requests(self, steps: Sequence[Step]) -> int:
        """Requests that the visits of these steps send at most."""
        visits = {(s.round, s.variant, s.kind): s for s in steps}
        return sum(len(self._affordable(step, self._questions(step))) for step in visits.values() if self.wants(step))

    def ask(self, run: _Run, step: Step) -> None:
        """Asks the portion of a visit and saves its answers. run: runs a coroutine in the measuring loop.

        Raises OutOfTime when the time budget ends (nothing of the visit is saved then, as with blocks), and EngineError
        when the server has ended (what it answered is saved).
        """
        portion = self._questions(step)
        questions = self._affordable(step, portion)
        if not questions:
            return
        resident, start_s = self._residents.get(step)
        if start_s:
            self._ledger.saw_start(step.variant, start_s)
        self._progress.phase(f"asking {step.variant} {len(questions)} questions" + (" · A/A" * (step.kind == "aa")))
        place = Place(step.variant, step.round, resident.start.id, again=step.kind == "aa")
        answers, died = run(self._answers(resident, questions, place))
        if answers:
            self._sink.write_answers(answers)
            self._note(step.round, step.variant, answers)
        if len(answers) < len(portion) and died is None and not self._shortened:
            self._shortened = True
            self._progress.note(
                f"the questions of a round end early: quality uses half of the budget at most "
                f"({len(answers)} of {len(portion)} were asked)"
            )
        if died is not None:
            self._residents.discard(resident)
            raise died

    def _note(self, round_: int, variant: str, answers: Sequence[Answer]) -> None:
        again = answers[0].purpose == "again"
        if not again and not any(done[0] == round_ and not done[2] for done in self._done if done[1] != variant):
            # The first arm of a round settles how much of its portion is asked.
            self._asked.setdefault(round_, set()).update((a.task, a.item, a.purpose, a.repeat) for a in answers)
        self._done.add((round_, variant, again))

    def _questions(self, step: Step) -> list[Question]:
        """What a visit asks: the round's portion, or the part of it that another arm was asked."""
        if step.round >= len(self._portions):
            return []
        portion = self._portions[step.round]
        asked = self._asked.get(step.round)
        if asked is not None:
            portion = [question for question in portion if question.key in asked]
        if step.kind == "aa":
            return [question for question in portion if question.purpose == "score" and question.repeat == 0]
        return portion

    def _affordable(self, step: Step, questions: list[Question]) -> list[Question]:
        """Without those that a visit's part of the budgets for requests and money cannot hold."""
        budget, price = self._ledger.budget, self._ledger.prices[step.variant]
        most = len(questions) if budget.requests is None else int(SHARE * budget.requests / self._visits)
        money = None if budget.spend is None else SHARE * budget.spend.amount / self._visits
        kept: list[Question] = []
        for question in questions[:most]:
            worst = price.of(len(question.item.prompt) // _CHARACTERS_A_TOKEN, question.task.max_tokens)
            if money is not None and (money := money - worst) < 0:
                break
            kept.append(question)
        return kept

    async def _answers(
        self, resident: Resident, questions: Sequence[Question], place: Place
    ) -> tuple[list[Answer], EngineError | None]:
        endpoint, budget = resident.server.endpoint, self._ledger.budget
        end_ns = self._ledger.deadline_ns
        if budget.seconds is not None and place.round not in self._asked:
            allowed_ns = time.monotonic_ns() + int(SHARE * budget.seconds / self._visits * 1e9)
            end_ns = allowed_ns if end_ns is None else min(end_ns, allowed_ns)
        written = [question for question in questions if not question.item.choices]
        records, died = await self._send(resident, written, end_ns)
        if died is None:
            await count_missing(endpoint, records)
        limit = max((question.task.max_tokens for question in written), default=0)
        self._ledger.saw_requests(place.variant, records, limit)
        answers = answers_of(written, records, place)
        if died is None:
            answers += await self._chosen(endpoint, [q for q in questions if q.item.choices], place, end_ns)
        deadline = self._ledger.deadline_ns
        if deadline is not None and time.monotonic_ns() > deadline:
            raise OutOfTime
        return answers, died

    async def _send(
        self, resident: Resident, questions: Sequence[Question], end_ns: int | None
    ) -> tuple[list[RequestRecord], EngineError | None]:
        """The records of what was sent before `end_ns`; and how the server ended, if it did."""
        if not questions:
            return [], None
        endpoint = resident.server.endpoint
        try:
            client = await run_requests(
                endpoint,
                prepare_questions(endpoint, questions),
                ClosedLoop(concurrency=self._at_a_time()),
                timeouts=timeouts_of(endpoint, self._ledger.deadline_ns),
                deadline_ns=end_ns,
                on_record=lambda _record: self._progress.request_done(),
                check=resident.server.check,
            )
        except EngineError as error:
            partial = getattr(error, "partial", None)
            if partial is None:
                raise
            return partial.records, error
        died = death(resident) if any(record.error for record in client.records) else None
        return client.records, died

    async def _chosen(
        self, endpoint: Endpoint, questions: Sequence[Question], place: Place, end_ns: int | None
    ) -> list[Answer]:
        """Answers to questions with choices, a few at a time."""
        found: list[Answer] = []
        for first in range(0, len(questions), self._at_a_time()):
            if end_ns is not None and time.monotonic_ns() > end_ns:
                break
            batch = questions[first : first + self._at_a_time()]
            found += await asyncio.gather(*(choose(endpoint, question, place) for question in batch))
        self._ledger.requests += sum(len(q.item.choices) for q in questions[: len(found)])
        return found

    def _at_a_time(self) -> int:
        """The lowest concurrency that is measured, four at most: an answer may depend on what shares its batch."""
        levels = [cell.level for cell in self._experiment.cells() if cell.kind == "closed"]
        return max(1, round(min([*levels, _AT_A_TIME])))
