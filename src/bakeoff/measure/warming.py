"""Bringing a server to its steady state before a block, and telling a hopeless one from a cold one."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

import msgspec

from ..client import ClientBlock, ClosedLoop, PreparedRequest, Timeouts, limits_of, prepare, run_requests
from ..errors import EndpointError, EngineError
from ..model import Endpoint, Experiment, RequestRecord, Workload
from .plan import Step
from .prompting import PromptSources
from .residents import Resident, Residents
from .sending import Sending
from .warmup import is_stable

_WARM_ROUND = 1_000_000  # prompts of warm-up come from rounds that are never measured


class Warmer:
    """Sends unmeasured requests: until latencies agree after a start, a few where a warm server stood idle."""

    def __init__(self, experiment: Experiment, residents: Residents, prompts: PromptSources, sending: Sending) -> None:
        self._experiment = experiment
        self._residents = residents
        self._prompts = prompts
        self._sending = sending
        self._sent = 0
        self._deadline_ns: int | None = None

    async def prepare(
        self, resident: Resident, step: Step, workload: Workload, deadline_ns: int | None
    ) -> list[RequestRecord]:
        """Readies the server for a block of this cell; returns what it sent. Raises EngineError when nothing answers.

        A server that stood idle while another one worked has lost its caches (and its cores their clocks): the first
        request after that is slower by tens of percent, in every arm alike, which is noise in short blocks.
        """
        self._deadline_ns = deadline_ns
        if step.cell.key not in resident.warm:
            greeted = await self._greet(resident, workload)
            return [*greeted, *await self._warm(resident, step, workload, deadline_ns)]
        if self._residents.was_idle:
            return await self._batch(resident, step, workload)
        return []

    async def _greet(self, resident: Resident, workload: Workload) -> list[RequestRecord]:
        """The first request after a start ends its cold start: one token, the same few words for every variant.

        A prompt of the workload would put that prompt's prefill into the start-up time.
        """
        if resident.start.spawn_ns is None or resident.start.first_token_ns is not None:
            return []
        endpoint = resident.server.endpoint
        hello = prepare(endpoint, workload, 0, -1, "Hello, how are you today?", output_tokens=1)
        client = await self._send(resident, [hello], 1)
        self._see_first_token(resident, client.records)
        return client.records

    def most(self, step: Step) -> int:
        """Requests that the warm-up of a cell sends at most: two windows of its concurrency are needed to judge."""
        window = _concurrency(step)
        most = self._experiment.warmup.max_requests
        return 1 + (most if window == 1 else max(most, 2 * window))  # and the greeting

    async def _warm(
        self, resident: Resident, step: Step, workload: Workload, deadline_ns: int | None
    ) -> list[RequestRecord]:
        limits = self._experiment.warmup
        window = _concurrency(step)
        most = self.most(step) - 1
        records: list[RequestRecord] = []
        stable: bool | None = None
        end_ns = time.monotonic_ns() + int(limits.max_seconds * 1e9)
        if deadline_ns is not None:
            end_ns = min(end_ns, deadline_ns)
        while not stable and len(records) < most:
            if len(records) >= max(limits.min_requests, window) and time.monotonic_ns() > end_ns:
                break
            records += await self._batch(resident, step, workload)
            refuse_hopeless(resident, records)
            if len(records) >= limits.min_requests:
                stable = is_stable(_latencies(records), window)
        latencies = _latencies(records)
        typical = statistics.median(latencies[-window:]) if latencies else 1.0
        resident.warm[step.cell.key] = (len(records), stable, typical)
        return records

    async def _batch(self, resident: Resident, step: Step, workload: Workload) -> list[RequestRecord]:
        """As many requests as the cell has at a time, with prompts that are never measured."""
        endpoint = resident.server.endpoint
        count = _concurrency(step)
        prepared = await self._prompts.block(
            endpoint,
            workload,
            warmup=True,
            round=_WARM_ROUND + self._sent,
            variant=step.variant,
            visit=f"warm/{resident.start.id}/{step.cell.key}",
            count=count,
        )
        self._sent += 1
        client = await self._send(resident, prepared, count)
        self._sending.note(step, client)
        return client.records

    async def _send(self, resident: Resident, prepared: list[PreparedRequest], concurrency: int) -> ClientBlock:
        endpoint = resident.server.endpoint
        return await run_requests(
            endpoint,
            prepared,
            ClosedLoop(concurrency=concurrency),
            timeouts=timeouts_of(endpoint, self._deadline_ns),
            check=resident.server.check,
        )

    def _see_first_token(self, resident: Resident, records: Sequence[RequestRecord]) -> None:
        seen = [(r.first_token_ns, r.scheduled_ns) for r in records if r.first_token_ns is not None]
        if seen:
            at_ns, due_ns = min(seen)
            self._residents.first_token(resident, due_ns, at_ns)


def timeouts_of(endpoint: Endpoint, deadline_ns: int | None) -> Timeouts:
    """The endpoint's time-outs, none of which outlasts the run's time budget by more than a second."""
    limits = limits_of(endpoint)
    left = math.inf if deadline_ns is None else max(0.0, (deadline_ns - time.monotonic_ns()) / 1e9) + 1.0
    connect_s, request_s = min(limits.connect_s, left), min(limits.request_s, left)
    return msgspec.structs.replace(limits, connect_s=connect_s, request_s=request_s)


def _concurrency(step: Step) -> int:
    return max(1, round(step.cell.level)) if step.cell.kind == "closed" else 1


def death(resident: Resident) -> EngineError | None:
    """The error that says how the server ended, or None while it lives."""
    try:
        resident.server.check()
    except EngineError as error:
        return error
    return None


def _latencies(records: Sequence[RequestRecord]) -> list[float]:
    """E2E latencies [s] of the requests that succeeded."""
    return [
        (r.last_token_ns - r.scheduled_ns) / 1e9 for r in records if r.error is None and r.last_token_ns is not None
    ]


_REMEDIES = {
    "auth": "give the key as `api_key: ${VAR}` and export VAR",
    "not_found": "check `url`, `model` and the workload's `api` (completions, chat, responses or messages)",
    "garbage": "the URL must be an OpenAI-compatible server that streams server-sent events",
    "rate_limited": "set `requests_per_minute` for this variant",
    "timeout": "raise the time-outs of this variant (`request_timeout`, `first_byte_timeout`, `idle_timeout`), or "
    "shorten the outputs",
    "connect": "check that the server is running and that its URL is right",
}


def refuse_hopeless(resident: Resident, records: Sequence[RequestRecord]) -> None:
    """Nobody wants forty rounds of the same error: when every warm-up request failed, say why and end."""
    failed = [r for r in records if r.error is not None]
    if not failed or len(failed) < len(records):
        return
    last = failed[-1]
    if last.error == "rate_limited" and len(failed) < 4:
        return
    resident.server.check()  # a dead server explains it better, with its log
    raise all_failed(resident, last, "every warm-up request failed")


def all_failed(resident: Resident, last: RequestRecord, what: str) -> EndpointError:
    """The error for a server that answers nothing usable, with the last failure and its usual remedy."""
    # The client's message may end in a remedy of its own; one is enough.
    said, _, remedy = (last.error_message or "no further message").partition(" → ")
    return EndpointError(
        f"{what} ({last.error}): {said}",
        where=f"variant {resident.variant}",
        remedy=_REMEDIES.get(last.error or "") or remedy or "look at the server's log",
    )
