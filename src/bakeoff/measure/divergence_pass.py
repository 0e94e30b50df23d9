"""Next-token probabilities of every variant along the base's own greedy answers, on starts of their own.

The base answers first; then each variant walks along those answers, the base once more at the end, on another start,
because what it shows against itself is the floor of all the others. Nothing here is timed.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from ..client import HttpClient
from ..errors import EngineError
from ..model import Cell, Distribution, Divergence, DivergencePass, Endpoint, Experiment, ForcedText
from ..quality.probabilities import Message, Prompt, Teller, find_teller
from .block import BlockMeasurer, OutOfTime
from .budget import Ledger
from .plan import Step
from .progress import Progress
from .residents import Resident, Residents

_ROUND = 3_000_000  # its prompts come from a round that is neither measured nor used to warm up
#: Share of the time budget that all walks together may use.
SHARE = 0.25


class _Run(Protocol):
    def __call__(self, main: Coroutine[Any, Any, Any], /) -> Any: ...


class DivergenceSink(Protocol):
    """Where texts and walks go, and which ones exist."""

    def texts(self) -> Sequence[ForcedText]: ...
    def passes(self) -> Sequence[DivergencePass]: ...
    def write_texts(self, texts: Sequence[ForcedText]) -> None: ...
    def write_pass(self, walked: DivergencePass, rows: Sequence[Distribution]) -> None: ...


class DivergenceWalks:
    """All walks of a run. prompts: what the base answers (messages: in its chat template); none: the first workload's.

    A variant that tells no probabilities, or reads text as other tokens than the base does, is a walk with its problem.
    """

    def __init__(
        self,
        experiment: Experiment,
        asked: Divergence,
        residents: Residents,
        measurer: BlockMeasurer,
        *,
        sink: DivergenceSink,
        ledger: Ledger,
        progress: Progress,
        prompts: Sequence[Prompt] = (),
    ) -> None:
        self._experiment = experiment
        self._asked = asked
        self._residents = residents
        self._measurer = measurer
        self._sink = sink
        self._ledger = ledger
        self._progress = progress
        self._prompts = prompts

    def all(self, run: _Run) -> None:
        """Makes every walk that does not exist yet. Raises OutOfTime when the run's own time is over."""
        base = self._experiment.base.name
        known = {(walked.variant, walked.repeat) for walked in self._sink.passes()}
        wanted = [(variant.name, 0) for variant in self._experiment.variants] + [(base, 1)]
        for group, (variant, repeat) in enumerate(wanted):
            if (variant, repeat) in known:
                continue
            try:
                walked, rows = self._one(run, variant, repeat, group)
            except EngineError as error:
                walked, rows = _failed(variant, repeat, error), []
            self._sink.write_pass(walked, rows)
            if walked.problem is not None:
                self._progress.note(f"no divergence of {variant}: {walked.problem}")
                if variant == base:
                    return  # nothing to compare with

    def _one(self, run: _Run, variant: str, repeat: int, group: int) -> tuple[DivergencePass, list[Distribution]]:
        cell = self._experiment.cells()[0]
        cell = Cell(workload=cell.workload, kind="closed", level=1.0)
        resident, start_s = self._residents.get(Step(_ROUND, 0, variant, "probe", cell, _ROUND + group))
        if start_s:
            self._ledger.saw_start(variant, start_s)
        again = " once more" if repeat else ""
        self._progress.phase(f"asking {variant} for its probabilities{again}")
        walked, rows = run(self._walk(resident, variant, repeat))
        # The dearest way to be told: a request a position, each with the whole text before it.
        texts = self._sink.texts()[: walked.texts]
        read = sum(len(t.tokens) * (len(t.before) + len(t.tokens) // 2) for t in texts)
        self._ledger.requests += len(rows)
        self._ledger.spent += self._ledger.prices[variant].of(read, len(rows))
        return walked, rows

    async def _walk(self, resident: Resident, variant: str, repeat: int) -> tuple[DivergencePass, list[Distribution]]:
        endpoint = resident.server.endpoint
        rows: list[Distribution] = []
        done = 0
        end = self._end()
        async with HttpClient(endpoint, timeout_s=endpoint.request_timeout_s) as http:
            teller = await find_teller(http, endpoint, self._asked.top)
            texts = list(self._sink.texts())
            if not texts:
                texts = await self._answers(teller, endpoint, end)
                self._sink.write_texts(texts)
                end = self._end()
            if variant != self._experiment.base.name:
                await _refuse_other_tokens(teller, texts)
            for number, text in enumerate(texts):
                resident.server.check()
                told = await teller.along(text.before, text.tokens)
                rows += [
                    Distribution(prompt=number, position=place, variant=variant, **msgspec.structs.asdict(position))
                    for place, position in enumerate(told)
                ]
                done += 1
                if time.monotonic_ns() > end:
                    break
        if done < len(texts):
            self._progress.note(
                f"{variant} walked along {done} of {len(texts)} texts: its share of the time is used up"
            )
        return DivergencePass(
            variant=variant,
            repeat=repeat,
            told_by=teller.name,
            top=teller.top,
            texts=done,
            start_id=resident.start.id,
        ), rows

    def _end(self) -> int:
        """When a walk ends early, so that all of them together keep to their share of the budget [ns]."""
        deadline, budget = self._ledger.deadline_ns, self._experiment.budget.seconds
        if deadline is not None and time.monotonic_ns() > deadline:
            raise OutOfTime
        if budget is None:
            return deadline if deadline is not None else 1 << 62
        walks = len(self._experiment.variants) + 2  # the base answers, and walks twice
        allowed = time.monotonic_ns() + int(SHARE * budget / walks * 1e9)
        return allowed if deadline is None else min(allowed, deadline)

    async def _answers(self, teller: Teller, endpoint: Endpoint, end: int) -> list[ForcedText]:
        """The base's own greedy answers. Raises EngineError where it gives none."""
        prompts = list(self._prompts[: self._asked.prompts]) or await self._workload_prompts(endpoint)
        found = []
        for prompt in prompts:
            before = await teller.prompt_tokens(prompt)
            answer = await teller.greedy(before, self._asked.tokens)
            self._ledger.requests += 1
            if before and answer.tokens:
                chat = not isinstance(prompt, str)
                found.append(
                    ForcedText(
                        prompt=msgspec.json.encode(prompt).decode() if chat else str(prompt),
                        chat=chat,
                        before=before,
                        tokens=answer.tokens,
                        text=answer.text,
                        read=await teller.text_tokens(answer.text),
                    )
                )
            if time.monotonic_ns() > end:
                break
        if not found:
            raise EngineError(
                "the base answers nothing at temperature 0",
                where=self._experiment.base.name,
                remedy="give it prompts that it answers",
            )
        return found

    async def _workload_prompts(self, endpoint: Endpoint) -> list[Prompt]:
        workload = self._experiment.workloads[0]
        prepared = await self._measurer.prompts.block(
            endpoint,
            workload,
            round=_ROUND,
            variant=self._experiment.base.name,
            visit="divergence",
            count=self._asked.prompts,
        )
        found: list[Prompt] = []
        for request in prepared:
            body = msgspec.json.decode(request.body)
            prompt = body.get("messages") or body.get("prompt") or request.prompt
            if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], dict)):
                found.append(prompt)
        return found


async def _refuse_other_tokens(teller: Teller, texts: Sequence[ForcedText]) -> None:
    """Raises EngineError unless this server reads the texts as the tokens that they are made of."""
    for text in texts:
        prompt = msgspec.json.decode(text.prompt, type=list[Message]) if text.chat else text.prompt
        if await teller.prompt_tokens(prompt) != text.before or await teller.text_tokens(text.text) != text.read:
            raise EngineError(
                "it reads text as other tokens than the base does, so their probabilities are of different things",
                remedy="compare variants of one tokenizer and one chat template; tasks can be compared in any case",
            )


def _failed(variant: str, repeat: int, error: EngineError) -> DivergencePass:
    return DivergencePass(variant=variant, repeat=repeat, problem=str(error.message), remedy=error.remedy)
