"""One block: prompts, warm-up, the measured requests, and what the bench was like meanwhile."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..client import ClientBlock, ClosedLoop, OpenLoop, PreparedRequest, run_requests
from ..errors import EngineError
from ..model import Block, Experiment, RequestRecord, Sample, Workload
from .counting import BlockCounters, whole
from .energy import window_energy
from .health import block_health, block_memory
from .machine import usable_cores
from .plan import Step
from .progress import Progress
from .prompting import PromptSources, count_missing
from .residents import Resident, Residents
from .sending import Sending
from .telemetry import Telemetry
from .warming import Warmer, death, timeouts_of

_NONCE_SHOWN = 60  # characters of the first prompt kept as a sample of the block's nonce
_MAX_PREPARED = 20_000  # requests prepared for a block that is limited by time


class OutOfTime(Exception):
    """The time budget ended inside a block."""


class MeasuredBlock(NamedTuple):
    """What one block gave, ready to be saved."""

    block: Block
    records: list[RequestRecord]
    samples: list[Sample]
    warmup: list[RequestRecord]
    died: EngineError | None  # the server ended during the block; its records are kept


class Seen(NamedTuple):
    """What was seen while a block was sent."""

    client: ClientBlock
    samples: list[Sample]
    counters: dict[str, float]
    died: EngineError | None


class BlockMeasurer:
    """Measures one step on a running server."""

    def __init__(self, experiment: Experiment, residents: Residents, telemetry: Telemetry, progress: Progress) -> None:
        self._experiment = experiment
        self.prompts = PromptSources(experiment)
        self.sending = Sending(usable_cores())
        self.warmer = Warmer(experiment, residents, self.prompts, self.sending)
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
        workload: Workload | None = None,
    ) -> MeasuredBlock:
        """Warms the cell if this start has not seen it, then measures. Raises EngineError when nothing answers.

        workload: in place of the experiment's own (a probe has blocks of another size).
        """
        workload = workload or self._experiment.workload(step.cell.workload)
        self._progress.phase(f"warming up {step.variant} · {step.cell.key}")
        warmup = await self.warmer.prepare(resident, step, workload, deadline_ns)
        _, stable, typical_s = resident.warm[step.cell.key]
        offsets = self.prompts.schedule(workload, step.cell, step.round)
        endpoint = resident.server.endpoint
        prepared = await self.prompts.block(
            endpoint,
            workload,
            round=step.round,
            variant=step.variant,
            # The block's own number: one that is measured again must not find its first try in the cache.
            visit=f"{step.kind}/{step.cell.key}/{block_id}",
            count=_request_count(workload, step, typical_s),
            starts=None if offsets is None else len(offsets),
        )
        # Before the load: a block that is limited by time counts from there, and workers take a moment to start.
        await self.sending.prepare(step, local=resident.server.pid is not None)
        load, end_ns = _load(workload, step, prepared, offsets)
        self._progress.block_started(step, 0 if end_ns else len(prepared))
        seen = await self._run(resident, prepared, load, _earliest(end_ns, deadline_ns), deadline_ns, on_request)
        if deadline_ns is not None and seen.client.ended_ns > deadline_ns:
            raise OutOfTime  # what is cut short is no block: its requests would be the easy ones
        if seen.died is None:
            await count_missing(endpoint, seen.client.records)
        block = self._described(resident, step, block_id, workload, seen)
        shown = (prepared[0].prompt or "")[:_NONCE_SHOWN] if prepared and workload.cache != "shared" else None
        block = msgspec.structs.replace(block, warmup_requests=len(warmup), warmup_stable=stable, nonce=shown)
        return MeasuredBlock(block, seen.client.records, seen.samples, warmup, seen.died)

    def _described(self, resident: Resident, step: Step, block_id: int, workload: Workload, seen: Seen) -> Block:
        """What there is to say of a block, but for its warm-up and its nonce."""
        client, samples, counters, died = seen
        window = steady_window(client, step, round(workload.load.ramp_s * 1e9))
        energy = window_energy(samples, window)
        return Block(
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
            window_ns=window,
            requests=len(client.records),
            errors=sum(r.error is not None for r in client.records),
            cache_hit_tokens=whole(counters.get("cache_hit_tokens")),
            cache_query_tokens=whole(counters.get("cache_query_tokens")),
            counters=counters,
            energy_j=energy.joules,
            energy_by=energy.by_device,
            idle_w=self._telemetry.idle_w,
            memory=block_memory(samples),
            health=block_health(client, samples, usable_cores()),
            notes=(
                *self.prompts.of(workload).notes,
                *((f"the server ended during this block: {died.message}",) if died else ()),
            ),
        )

    async def _run(
        self,
        resident: Resident,
        prepared: Sequence[PreparedRequest],
        load: ClosedLoop | OpenLoop,
        end_ns: int | None,
        deadline_ns: int | None,
        on_request: Callable[[RequestRecord], None],
    ) -> Seen:
        endpoint = resident.server.endpoint
        self._telemetry.focus(resident.server.pid)
        counters = BlockCounters(endpoint, self._telemetry)
        await counters.begin()
        died: EngineError | None = None
        gc.collect()
        gc.disable()  # a collection in the block would be a pause of the client, seen as latency
        first = self._telemetry.sample().t_ns
        try:
            with counters.watching():
                client = await run_requests(
                    endpoint,
                    prepared,
                    load,
                    timeouts=timeouts_of(endpoint, deadline_ns),
                    deadline_ns=end_ns,
                    on_record=on_request,
                    check=resident.server.check,
                    shards=self.sending.shards,
                    processes=self.sending.processes,
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
            return Seen(client, samples, {}, died)
        return Seen(client, samples, await counters.end(samples), None)


def _earliest(*stamps: int | None) -> int | None:
    return min((stamp for stamp in stamps if stamp is not None), default=None)


def _load(
    workload: Workload, step: Step, prepared: Sequence[PreparedRequest], offsets: tuple[int, ...] | None
) -> tuple[ClosedLoop | OpenLoop, int | None]:
    """The load of a block, and when it stops to send (closed loop by time)."""
    if offsets is not None:
        # A block of so many requests begins fewer conversations than it has instants.
        return OpenLoop(offsets_ns=offsets[: sum(request.turn == 0 for request in prepared)]), None
    seconds = workload.block.seconds
    end_ns = None if seconds is None else time.monotonic_ns() + int(seconds * 1e9)
    return ClosedLoop(concurrency=round(step.cell.level), ramp_ns=round(workload.load.ramp_s * 1e9)), end_ns


def _request_count(workload: Workload, step: Step, typical_s: float) -> int:
    """How many requests to prepare at most: the block's number, or what its time can hold (with room to spare)."""
    if workload.block.requests is not None:
        return workload.block.requests
    if step.cell.kind != "closed":
        return _MAX_PREPARED  # the schedule says how many
    seconds = workload.block.seconds or 0.0
    return min(_MAX_PREPARED, math.ceil(1.5 * step.cell.level * seconds / max(typical_s, 1e-3)) + 2)


def steady_window(client: ClientBlock, step: Step, ramp_ns: int = 0) -> tuple[int, int]:
    """The window in which the offered load was on and the server in its stride: where throughput is counted.

    In a closed loop of c slots it begins when as many requests have ended (all slots begin at once, so until then fewer
    answers arrive than later; nor does the ramp count), and ends with the last dispatch (after it the loop drains).
    Simulated with 4 requests a slot and service times that scatter by 20 %, the rate is then true to 1 %; from the
    first dispatch on it is 6 % low, and 11 % low where whole answers are counted. In an open loop it is the schedule's
    span.
    """
    sent = sorted(r.scheduled_ns for r in client.records)
    if len(sent) < 2 or (step.cell.kind == "closed" and len(sent) <= 2 * step.cell.level):
        return (client.started_ns, client.ended_ns)  # too short for a steady part: the whole block
    if step.cell.kind != "closed":
        return (sent[0], sent[-1])
    slots = round(step.cell.level)
    ended = sorted(r.end_ns for r in client.records if r.end_ns is not None)
    settled = len(sent) >= 3 * slots and len(ended) >= slots
    begin_ns = max(client.started_ns + ramp_ns, ended[slots - 1] if settled else client.started_ns)
    return (begin_ns if begin_ns < sent[-1] else client.started_ns, sent[-1])
