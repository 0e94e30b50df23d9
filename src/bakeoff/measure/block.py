"""One block: prompts, warm-up, the measured requests, and what the bench was like meanwhile."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..client import ClientBlock, ClosedLoop, HttpClient, OpenLoop, PreparedRequest, Timeouts, run_requests
from ..errors import EndpointError, EngineError
from ..model import Block, Experiment, RequestRecord, Sample, Workload
from ..workloads import derive_seed, draw_schedule
from .counters import read_cache_counters
from .health import block_health
from .machine import usable_cores
from .plan import Step
from .progress import Progress
from .prompting import PromptSources
from .residents import Resident, Residents
from .telemetry import Telemetry
from .warmup import is_stable

_WARM_ROUND = 1_000_000  # prompts of warm-up come from rounds that are never measured
_NONCE_SHOWN = 60  # characters of the first prompt kept as a sample of the block's nonce
_MAX_PREPARED = 20_000  # requests prepared for a block that is limited by time


class MeasuredBlock(NamedTuple):
    """What one block gave, ready to be saved."""

    block: Block
    records: list[RequestRecord]
    samples: list[Sample]
    warmup: list[RequestRecord]
    died: EngineError | None  # the server ended during the block; its records are kept


class BlockMeasurer:
    """Measures one step on a running server."""

    def __init__(self, experiment: Experiment, residents: Residents, telemetry: Telemetry, progress: Progress) -> None:
        self._experiment = experiment
        self.prompts = PromptSources(experiment)
        self._residents = residents
        self._telemetry = telemetry
        self._progress = progress

    async def measure(
        self,
        resident: Resident,
        step: Step,
        block_id: int,
        *,
        deadline_ns: int | None,
        on_request: Callable[[RequestRecord], None],
    ) -> MeasuredBlock:
        """Warms the cell if this start has not seen it, then measures. Raises EngineError when nothing answers."""
        workload = self._experiment.workload(step.cell.workload)
        warmup: list[RequestRecord] = []
        if step.cell.key not in resident.warm:
            self._progress.phase(f"warming up {step.variant} · {step.cell.key}")
            warmup = await self._warm(resident, step, workload, deadline_ns)
        requests, stable, typical_s = resident.warm[step.cell.key]
        count = _request_count(workload, step, typical_s)
        endpoint = resident.server.endpoint
        prepared = await self.prompts.block(
            endpoint,
            workload,
            round=step.round,
            variant=step.variant,
            visit=f"{step.kind}/{step.cell.key}",
            count=count,
        )
        load: ClosedLoop | OpenLoop
        end_ns: int | None = None
        if step.cell.kind == "open":
            offsets = draw_schedule(
                workload.load,
                step.cell.level,
                count=workload.block.requests,
                seconds=workload.block.seconds,
                seed=derive_seed(self._experiment.seed, "schedule", step.round, step.cell.key),
            )
            load = OpenLoop(offsets_ns=offsets[: len(prepared)])
            prepared = prepared[: len(offsets)]
        else:
            load = ClosedLoop(concurrency=round(step.cell.level))
            if workload.block.seconds is not None:
                end_ns = time.monotonic_ns() + int(workload.block.seconds * 1e9)
        self._progress.block_started(step, 0 if end_ns else len(prepared))
        client, samples, cache, died = await self._run(resident, prepared, load, end_ns, on_request)
        block = Block(
            id=block_id,
            round=step.round,
            position=step.position,
            variant=step.variant,
            cell=step.cell.key,
            kind=step.kind,
            start_id=resident.start.id,
            group=step.group,
            started_ns=client.started_ns,
            ended_ns=client.ended_ns,
            wall=time.time() - (time.monotonic_ns() - client.started_ns) / 1e9,
            window_ns=steady_window(client, step),
            requests=len(client.records),
            errors=sum(r.error is not None for r in client.records),
            warmup_requests=requests,
            warmup_stable=stable,
            cache_hit_tokens=cache[0],
            cache_query_tokens=cache[1],
            health=block_health(client.records, samples, client.loop_lag_ns, usable_cores()),
            nonce=(prepared[0].prompt or "")[:_NONCE_SHOWN] if prepared and workload.cache == "unique" else None,
            notes=(
                *self.prompts.of(workload).notes,
                *((f"the server ended during this block: {died.message}",) if died else ()),
            ),
        )
        return MeasuredBlock(block, client.records, samples, warmup, died)

    async def _run(
        self,
        resident: Resident,
        prepared: Sequence[PreparedRequest],
        load: ClosedLoop | OpenLoop,
        end_ns: int | None,
        on_request: Callable[[RequestRecord], None],
    ) -> tuple[ClientBlock, list[Sample], tuple[int | None, int | None], EngineError | None]:
        endpoint = resident.server.endpoint
        self._telemetry.focus(resident.server.pid)
        http = HttpClient(endpoint)  # outside a `with`: a connection per call, none is open during the block
        before = await read_cache_counters(http, endpoint.capabilities.metrics_path)
        died: EngineError | None = None
        gc.collect()
        gc.disable()  # a collection in the block would be a pause of the client, seen as latency
        first = self._telemetry.sample().t_ns
        try:
            client = await run_requests(
                endpoint,
                prepared,
                load,
                timeouts=Timeouts(connect_s=endpoint.connect_timeout_s, request_s=endpoint.request_timeout_s),
                deadline_ns=end_ns,
                on_record=on_request,
                check=resident.server.check,
            )
        except EngineError as error:
            partial = getattr(error, "partial", None)
            if not isinstance(partial, ClientBlock):
                raise
            client, died = partial, error
        finally:
            gc.enable()
        last = self._telemetry.sample().t_ns
        samples = self._telemetry.between(first, last)
        if died is None and any(record.error for record in client.records):
            died = death(resident)  # it may have ended between two looks of the client
        if died is not None:
            return client, samples, (None, None), died
        after = await read_cache_counters(http, endpoint.capabilities.metrics_path)
        if before is None or after is None or after.queries < before.queries:
            return client, samples, (None, None), None
        return client, samples, (round(after.hits - before.hits), round(after.queries - before.queries)), None

    async def _warm(
        self, resident: Resident, step: Step, workload: Workload, deadline_ns: int | None
    ) -> list[RequestRecord]:
        """Sends unmeasured requests until latencies agree, within the experiment's limits."""
        limits = self._experiment.warmup
        concurrency = round(step.cell.level) if step.cell.kind == "closed" else 1
        window = max(1, concurrency)
        records: list[RequestRecord] = []
        stable: bool | None = None
        end_ns = time.monotonic_ns() + int(limits.max_seconds * 1e9)
        if deadline_ns is not None:
            end_ns = min(end_ns, deadline_ns)
        endpoint = resident.server.endpoint
        while not stable and len(records) < max(limits.max_requests, 2 * window):
            if len(records) >= max(limits.min_requests, window) and time.monotonic_ns() > end_ns:
                break
            batch = await self.prompts.block(
                endpoint,
                workload,
                warmup=True,
                round=_WARM_ROUND + len(records),
                variant=step.variant,
                visit=f"warm/{resident.start.id}/{step.cell.key}",
                count=window,
            )
            client = await run_requests(
                endpoint,
                batch,
                ClosedLoop(concurrency=concurrency),
                timeouts=Timeouts(connect_s=endpoint.connect_timeout_s, request_s=endpoint.request_timeout_s),
                check=resident.server.check,
            )
            records += client.records
            self._see_first_token(resident, client.records)
            _refuse_hopeless(resident, records)
            if len(records) >= limits.min_requests:
                stable = is_stable(_latencies(records), window)
                if limits.min_requests >= limits.max_requests and len(records) >= limits.min_requests:
                    break
        latencies = _latencies(records)
        typical = statistics.median(latencies[-window:]) if latencies else 1.0
        resident.warm[step.cell.key] = (len(records), stable, typical)
        return records

    def _see_first_token(self, resident: Resident, records: Sequence[RequestRecord]) -> None:
        stamps = [r.first_token_ns for r in records if r.first_token_ns is not None]
        if stamps:
            self._residents.first_token(resident, min(stamps))


def death(resident: Resident) -> EngineError | None:
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
    "not_found": "check `url`, `model` and the workload's `api` (completions or chat)",
    "garbage": "the URL must be an OpenAI-compatible server that streams server-sent events",
    "rate_limited": "set `requests_per_minute` for this variant",
    "timeout": "raise `request_timeout` of this variant, or shorten the outputs",
    "connect": "check that the server is running and that its URL is right",
}


def _refuse_hopeless(resident: Resident, records: Sequence[RequestRecord]) -> None:
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
    return EndpointError(
        f"{what} ({last.error}): {last.error_message or 'no further message'}",
        where=f"variant {resident.variant}, {resident.server.endpoint.base_url}",
        remedy=_REMEDIES.get(last.error or "", "look at the server's log"),
    )


def _request_count(workload: Workload, step: Step, typical_s: float) -> int:
    """How many requests to prepare: the block's number, or what its time can hold (with room to spare)."""
    if workload.block.requests is not None:
        return workload.block.requests
    seconds = workload.block.seconds or 0.0
    if step.cell.kind == "open":
        # Poisson counts scatter by their square root; six of them are never exceeded in practice.
        expected = step.cell.level * seconds
        return min(_MAX_PREPARED, math.ceil(expected + 6 * math.sqrt(expected)) + 1)
    return min(_MAX_PREPARED, math.ceil(1.5 * step.cell.level * seconds / max(typical_s, 1e-3)) + 2)


def steady_window(client: ClientBlock, step: Step) -> tuple[int, int]:
    """The window in which the offered load was on: from the first request to the last dispatch.

    In a closed loop all slots are busy until the last request is sent; after that the loop drains, and counting
    the drain would lower throughput by up to concurrency ÷ requests. In an open loop it is the schedule's span.
    """
    sent = sorted(r.scheduled_ns for r in client.records)
    if step.cell.kind == "closed" and len(sent) <= 2 * step.cell.level:
        return (client.started_ns, client.ended_ns)  # too short for a steady part: the whole block
    if len(sent) < 2:
        return (client.started_ns, client.ended_ns)
    return (client.started_ns if step.cell.kind == "closed" else sent[0], sent[-1])
