"""A server of ours as lm-eval's own kind of model: for its evaluator, and for scoring its requests one document at a
time. lm_eval is imported only where its classes are needed."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from ..client import ClosedLoop, PreparedRequest, prepare, run_requests
from ..errors import EndpointError
from ..model import BlockSize, Endpoint, Load, Prompts, RequestRecord, Sampling, Workload
from .loglikelihood import Likelihood


async def likelihoods(endpoint: Endpoint, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
    """(log-probability, whether each token is the likeliest) of each (context, continuation). Raises EndpointError.

    Continuations of one context are scored together, so that all start at the same token.
    """
    together: dict[str, list[int]] = {}
    for place, (context, _) in enumerate(pairs):
        together.setdefault(context, []).append(place)
    found: dict[int, tuple[float, bool]] = {}
    async with Likelihood(endpoint) as likelihood:
        for context, places in together.items():
            told = await likelihood.continuations(context, [pairs[place][1] for place in places])
            found.update((p, (c.logprob, c.greedy)) for p, c in zip(places, told, strict=True))
    return [found[place] for place in range(len(pairs))]


def endpoint_model(endpoint: Endpoint, *, max_tokens: int = 256, concurrency: int = 1) -> Any:
    """An ``lm_eval.api.model.LM`` that asks this endpoint: ``lm_eval.simple_evaluate(model=endpoint_model(e), …)``.

    max_tokens: where a task names no limit of its own. Its methods raise EndpointError, and must not be called where
    an event loop runs. Raises ImportError without lm-eval.
    """
    from lm_eval.api.model import LM

    class EndpointModel(LM):  # type: ignore[misc, unused-ignore]  # typed as Any where the library is missing
        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            return asyncio.run(likelihoods(endpoint, [request.args for request in requests]))

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            return asyncio.run(_wholes(endpoint, [request.args[0] for request in requests]))

        def generate_until(self, requests: list[Any]) -> list[str]:
            return asyncio.run(_texts(endpoint, [request.args for request in requests], max_tokens, concurrency))

    return EndpointModel()


async def _wholes(endpoint: Endpoint, texts: Sequence[str]) -> list[float]:
    async with Likelihood(endpoint) as likelihood:
        return [await likelihood.whole(text) for text in texts]


async def _texts(
    endpoint: Endpoint, asked: Sequence[tuple[str, dict[str, Any]]], max_tokens: int, concurrency: int
) -> list[str]:
    prepared = [_prepared(endpoint, place, *each, max_tokens) for place, each in enumerate(asked)]
    block = await run_requests(endpoint, prepared, ClosedLoop(concurrency=max(1, min(concurrency, len(asked)))))
    return [_text(record, settings) for record, (_, settings) in zip(block.records, asked, strict=True)]


def _prepared(
    endpoint: Endpoint, place: int, prompt: str, settings: dict[str, Any], max_tokens: int
) -> PreparedRequest:
    workload = Workload(
        name="lm-eval",
        prompts=Prompts(),
        output_tokens=int(settings.get("max_gen_toks") or max_tokens),
        length="natural",
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=1),
        sampling=Sampling(temperature=float(settings.get("temperature") or 0.0) if settings.get("do_sample") else 0.0),
        cache="shared",
    )
    return prepare(_stopping(endpoint, _until(settings)), workload, place, place, prompt)


def _stopping(endpoint: Endpoint, until: Sequence[str]) -> Endpoint:
    return dataclasses.replace(endpoint, body={**endpoint.body, "stop": list(until)}) if until else endpoint


def _until(settings: dict[str, Any]) -> list[str]:
    until = settings.get("until") or []
    return [text for text in ([until] if isinstance(until, str) else until) if text]


def _text(record: RequestRecord, settings: dict[str, Any]) -> str:
    if record.error is not None:
        raise EndpointError(
            f"a request of lm-eval failed: {record.error_message or record.error}", remedy="see the server's log"
        )
    text = record.text
    for ending in _until(settings):
        text = text.split(ending, 1)[0]
    return text
