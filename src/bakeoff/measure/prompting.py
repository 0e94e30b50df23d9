"""Prompts of a run: one source a workload, counted by the tokenizer of whichever server is asked.

And the instants at which they are due in an open loop: drawn once for a cell of a round, or a trace's own, the same
for every arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..client import HttpClient, Place, PreparedRequest, prepare_at
from ..model import Cell, Endpoint, Experiment, RequestRecord, Workload
from ..workloads import Prompt, PromptFactory, derive_seed, draw_schedule
from .tokenize import HttpTokenizer


class PromptSources:
    """Keeps one factory a workload, so that the bodies of a round are made once and shared by all arms.

    Warm-up has factories of its own: its prompts are never measured, and it must not displace a round's bodies.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._seed = experiment.seed
        self.run_id = ""
        self._factories: dict[tuple[str, bool], PromptFactory] = {}

    def of(self, workload: Workload, *, warmup: bool = False) -> PromptFactory:
        """The source of a workload's prompts."""
        key = (workload.name, warmup)
        if key not in self._factories:
            other = self._factories.get((workload.name, not warmup))
            self._factories[key] = PromptFactory(
                workload,
                seed=self._seed,
                run_id=self.run_id,
                source=other.source if other else None,  # a file is read once
                openings=warmup,
            )
        return self._factories[key]

    def schedule(self, workload: Workload, cell: Cell, round: int) -> tuple[int, ...] | None:
        """When the requests (or conversations) of a block are due [ns from its start]; None for a closed loop.

        A pure function of the experiment, so that all arms of a round get the same one.
        """
        size = workload.block
        if cell.kind == "closed":
            return None
        if cell.kind == "replay":
            return self.of(workload).arrivals(round, cell.level, count=size.requests, seconds=size.seconds)
        seed = derive_seed(self._seed, "schedule", round, cell.key)
        return draw_schedule(workload.load, cell.level, count=size.requests, seconds=size.seconds, seed=seed)

    async def block(
        self,
        endpoint: Endpoint,
        workload: Workload,
        *,
        warmup: bool = False,
        round: int,
        variant: str,
        visit: str,
        count: int,
        starts: int | None = None,
    ) -> list[PreparedRequest]:
        """Requests ready to send, their prompts counted by this server's own tokenizer where it has one.

        count: at most so many requests. starts: at most so many conversations, or single prompts.
        The connections used for counting are closed again: an idle one would occupy a thread in some servers.
        """
        factory = self.of(workload, warmup=warmup)
        async with HttpClient(endpoint) as http:
            factory.tokenizer = HttpTokenizer(endpoint, http) if endpoint.capabilities.tokenizer else None
            try:
                prompts = await factory.block(round=round, variant=variant, visit=visit, count=count, starts=starts)
            finally:
                factory.tokenizer = None
        return prepare_all(endpoint, workload, prompts)


async def count_missing(endpoint: Endpoint, records: Sequence[RequestRecord]) -> None:
    """Counts the output of requests whose server told no number, with its own tokenizer, marked ``estimated``.

    Retokenising a text may give other tokens than were generated (by a few percent), hence the mark. Without a
    tokenizer the number stays unknown: a chunk is not a token.
    """
    missing = [r for r in records if r.tokens_source == "unknown" and r.error is None and (r.text or r.reasoning)]
    if not missing or endpoint.capabilities.tokenizer is None:
        return
    async with HttpClient(endpoint) as http:
        counts = await HttpTokenizer(endpoint, http).count([r.reasoning + r.text for r in missing])
    for record, count in zip(missing, counts, strict=True):
        record.output_tokens, record.tokens_source = count, "estimated"


def prepare_all(endpoint: Endpoint, workload: Workload, prompts: Sequence[Prompt]) -> list[PreparedRequest]:
    """Request bodies, ready to send, in the order of the prompts."""
    return [_prepared(endpoint, workload, index, prompt) for index, prompt in enumerate(prompts)]


def _prepared(endpoint: Endpoint, workload: Workload, index: int, prompt: Prompt) -> PreparedRequest:
    rebuild = prompt.rebuild
    history = None
    if rebuild is not None:

        def history(answers: Sequence[str]) -> str | list[dict[str, Any]]:
            text, messages = rebuild(answers)
            return text if messages is None else messages

    place = Place(
        index=index,
        prompt_id=prompt.prompt_id,
        output_tokens=prompt.output_tokens,
        input_tokens=prompt.asked_tokens,
        conversation=prompt.conversation,
        turn=prompt.turn,
        think_ns=round(prompt.think_s * 1e9),
        history=history,
    )
    return prepare_at(endpoint, workload, prompt.text if prompt.messages is None else prompt.messages, place)
