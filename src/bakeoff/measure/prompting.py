"""Prompts of a run: one source a workload, counted by the tokenizer of whichever server is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ..client import HttpClient, PreparedRequest, prepare
from ..model import Endpoint, Experiment, Workload
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
