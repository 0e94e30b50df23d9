"""Servers that are up right now: started when a block needs them, one at a time unless the experiment says all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ..client import held
from ..engines.memory_log import MemoryParts, read_memory_log
from ..errors import EngineError, RunFolderError
from ..model import BlockKind, Engine, Environment, Experiment, Server, Sink, Start, StartContext
from .plan import Step
from .progress import Progress
from .telemetry import Telemetry


class StartSink(Sink, Protocol):
    """A sink that also numbers starts and keeps the environment."""

    def next_start_id(self) -> int: ...
    def write_environment(self, environment: Environment) -> None: ...


def refuse_change(what: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> None:
    """Raises RunFolderError when a resumed run would mix two environments, naming each entry that differs."""
    if not before:
        return
    keys = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if keys:
        listed = "; ".join(f"{key}: {before.get(key, 'absent')} → {now.get(key, 'absent')}" for key in keys[:8])
        raise RunFolderError(
            f"the environment is not the one this run began in ({listed})",
            where=what,
            remedy="start a new run: pairs of two environments cannot be put together",
        )


def page_cache_of(experiment: Experiment, group: int) -> Literal["as found", "warm", "cold"]:
    """How the starts of a group are to find their model files: alike for all variants, whatever is compared."""
    if experiment.page_cache == "alternate":
        return "cold" if group % 2 == 0 else "warm"
    return experiment.page_cache


@dataclass
class Resident:
    """One running server, and what is known about its warmth."""

    key: tuple[str, BlockKind, int]
    server: Server
    start: Start
    log: Path | None = None
    warm: dict[str, tuple[int, bool | None, float]] = field(default_factory=dict)  # cell → (requests, stable, E2E [s])

    @property
    def variant(self) -> str:
        return self.key[0]


class Residents:
    """Starts, keeps and stops servers; writes each start into the run folder."""

    def __init__(
        self,
        experiment: Experiment,
        engines: dict[str, Engine],
        sink: StartSink,
        telemetry: Telemetry,
        progress: Progress,
    ) -> None:
        self._experiment = experiment
        self._engines = engines
        self._sink = sink
        self._telemetry = telemetry
        self._progress = progress
        self._up: dict[tuple[str, BlockKind, int], Resident] = {}
        self._seen: set[str] = set()
        self._external: set[str] = set()
        self._last: tuple[str, BlockKind, int] | None = None
        self.was_idle = False  # another server was asked since the current one was
        self.environment = Environment()

    def get(self, step: Step) -> tuple[Resident, float]:
        """The server for a step, and the seconds its start took (0 when it was up already).

        Raises EngineError when it cannot be started.
        """
        key = self._key(step)
        self.was_idle, self._last = self._last != key, key
        if key in self._up:
            return self._up[key], 0.0
        if self._experiment.resident == "one":
            for other in [k for k in self._up if k[0] not in self._external]:
                self.stop(other)
        else:
            for other in [k for k in self._up if k[0] == key[0] and k[1] == key[1]]:
                self.stop(other)  # the same variant's start of an earlier group
        before = time.monotonic()
        resident = self._launch(key, step)
        if resident.start.spawn_ns is None:
            self._external.add(step.variant)
            key = resident.key = (step.variant, "measure", 0)
        self._up[key] = resident
        return resident, time.monotonic() - before

    def _key(self, step: Step) -> tuple[str, BlockKind, int]:
        if step.variant in self._external:
            return (step.variant, "measure", 0)  # a server that we did not start has one start for the whole run
        # With all servers resident the A/A visit asks the base's own server again; otherwise it is a second start.
        kind: BlockKind = "measure" if self._experiment.resident == "all" and step.kind != "probe" else step.kind
        return (step.variant, kind, step.group)

    def _launch(self, key: tuple[str, BlockKind, int], step: Step) -> Resident:
        variant = self._experiment.variant(key[0])
        engine = self._engines[variant.engine]
        start_id = self._sink.next_start_id()
        log_path, log_name = self._sink.log_path(start_id, variant.name)
        self._progress.phase(f"starting {variant.name}")
        context = StartContext(
            log_path=log_path,
            log_name=log_name,
            start_id=start_id,
            round=step.round,
            group=step.group,
            page_cache=page_cache_of(self._experiment, step.group),
            on_phase=lambda phase: self._progress.phase(f"starting {variant.name}: {phase}"),
        )
        server = engine.launch(variant, context)
        try:
            start = msgspec.structs.replace(server.start, kind=key[1])
            self._sink.write_start(start)
            self._remember(variant.name, server)
        except BaseException:
            server.stop()
            raise
        if server.pid is not None:
            self._telemetry.watch(server.pid)
        return Resident(key=key, server=server, start=start, log=log_path)

    def _remember(self, name: str, server: Server) -> None:
        """Keeps the variant's fingerprint; a resumed run must meet the same one."""
        if name in self._seen:
            return
        self._seen.add(name)
        found = server.fingerprint()
        refuse_change(f"variant {name}", self.environment.variants.get(name), found)
        variants = {**self.environment.variants, name: found}
        self.environment = msgspec.structs.replace(self.environment, variants=variants)
        self._sink.write_environment(self.environment)

    def first_token(self, resident: Resident, due_ns: int, at_ns: int) -> None:
        """The first token after a start (of the request that was due then) completes its cold start."""
        if resident.start.first_token_ns is None and resident.start.spawn_ns is not None:
            resident.start = msgspec.structs.replace(resident.start, first_request_ns=due_ns, first_token_ns=at_ns)
            self._sink.write_start(resident.start)

    def stop(self, key: tuple[str, BlockKind, int]) -> None:
        """Stops one server and completes its start record (peaks, exit code)."""
        with held():
            self._stop(key)

    def _stop(self, key: tuple[str, BlockKind, int]) -> None:
        resident = self._up.pop(key, None)
        if resident is None:
            return
        self._progress.phase(f"stopping {resident.variant}")
        pid = resident.server.pid
        if pid is not None:
            self._telemetry.sample()  # a last look: the peak may have come since the previous one
        ended = resident.server.stop()
        peaks = self._telemetry.unwatch(pid) if pid is not None else None
        told = read_memory_log(resident.log) if resident.log is not None else MemoryParts({}, False)
        self._sink.write_start(
            msgspec.structs.replace(
                resident.start,
                stopped_ns=ended.stopped_ns,
                exit_code=ended.exit_code,
                forced_stop=ended.forced_stop,
                effective_config=ended.effective_config or resident.start.effective_config,
                peak_anon_bytes=peaks.anon_bytes if peaks else None,
                peak_mapped_bytes=peaks.mapped_bytes if peaks else None,
                peak_gpu_bytes=peaks.gpu_bytes if peaks else None,
                memory_parts=told.parts,
                memory_on_device=told.on_device,
            )
        )

    def discard(self, resident: Resident) -> None:
        """After a failure: stop this server, so that the next block gets a fresh one."""
        self.stop(resident.key)

    def stop_all(self) -> None:
        """Stops every server, also when one of them makes trouble; the first trouble is raised at the end."""
        trouble: EngineError | None = None
        for key in list(self._up):
            try:
                self.stop(key)
            except EngineError as error:
                trouble = trouble or error
        if trouble is not None:
            raise trouble
