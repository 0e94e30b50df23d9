"""Prompts of a run: one source a workload, counted by the tokenizer of whichever server is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ..client import HttpClient, PreparedRequest, prepare
from ..model import Endpoint, Experiment, RequestRecord, Workload
from ..workloads import Prompt, PromptFactory
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
            self._factories[key] = PromptFactory(workload, seed=self._seed, run_id=self.run_id)
        return self._factories[key]

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
    ) -> list[PreparedRequest]:
        """Requests ready to send, their prompts counted by this server's own tokenizer where it has one.

        The connections used for counting are closed again: an idle one would occupy a thread in some servers.
        """
        factory = self.of(workload, warmup=warmup)
        async with HttpClient(endpoint) as http:
            factory.tokenizer = HttpTokenizer(endpoint, http) if endpoint.capabilities.tokenizer else None
            try:
                prompts = await factory.block(round=round, variant=variant, visit=visit, count=count)
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
    return [
        prepare(
            endpoint,
            workload,
            index,
            prompt.prompt_id,
            prompt.messages if prompt.messages is not None else prompt.text,
            output_tokens=prompt.output_tokens,
        )
        for index, prompt in enumerate(prompts)
    ]
