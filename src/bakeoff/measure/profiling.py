"""A short profiled pass of each variant, after everything is measured: what slows a server down must not be measured.

Each pass has a start of its own, which is compared with nothing. A server with a profiler is told to begin and to end;
llama.cpp tells with every answer how long its prompt and its tokens took, which makes a coarser trace.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..client import ClosedLoop, HttpClient, run_requests
from ..errors import EngineError
from ..model import LOAD_NAMES, Cell, Experiment, Profile, ProfileHook, RequestRecord, Workload
from .block import BlockMeasurer
from .budget import Ledger
from .plan import Step
from .progress import Progress
from .prompting import count_missing
from .residents import Resident, Residents
from .timings_trace import timings_trace
from .warming import timeouts_of

_ROUND = 2_000_000  # its prompts come from a round that is neither measured nor used to warm up
_MOST_REQUESTS = 8
_FEWEST = 4  # one at a time: enough to see how much requests differ among themselves
_MOST_TOKENS = 32  # profilers write about a megabyte a token
_MOST_FILES = 64
_MOST_BYTES = 4 << 30
_SETTLE_S = 0.5  # a file that has not grown for so long is finished
_PATIENCE_S = 60.0  # for files that come after `stop` has answered


class _Run(Protocol):
    def __call__(self, main: Coroutine[Any, Any, Any], /) -> Any: ...


class Profiling:
    """Profiles variants, one after the other. `traces`: the run's folder for them, where copies of the files go."""

    def __init__(
        self,
        experiment: Experiment,
        residents: Residents,
        measurer: BlockMeasurer,
        *,
        ledger: Ledger,
        progress: Progress,
        traces: Path,
    ) -> None:
        self._experiment = experiment
        self._residents = residents
        self._measurer = measurer
        self._ledger = ledger
        self._progress = progress
        self._traces = traces

    def all(self, run: _Run, known: Collection[str], save: Callable[[Profile], None]) -> None:
        """Profiles every variant but the known ones; each result is saved as it comes. A variant that cannot be
        profiled is a result with its problem."""
        for variant in self._experiment.variants:
            if variant.name in known:
                continue
            workload, step = self._pass(variant.name)
            try:
                profile = self._one(run, step, workload)
            except EngineError as error:
                profile = _described(step, workload, problem=error.message)
            if profile.problem is not None:
                self._progress.note(f"{variant.name} is not profiled: {profile.problem}")
            save(profile)

    def _pass(self, variant: str) -> tuple[Workload, Step]:
        """The first cell as a closed loop, with few and short answers."""
        cell = self._experiment.cells()[0]
        level = min(cell.level, _MOST_REQUESTS) if cell.kind == "closed" else 1.0
        workload = self._experiment.workload(cell.workload)
        short = msgspec.structs.replace(workload, output_tokens=min(workload.output_tokens, _MOST_TOKENS))
        closed = Cell(workload=cell.workload, kind="closed", level=level)
        return short, Step(_ROUND, 0, variant, "probe", closed, _ROUND)

    def _one(self, run: _Run, step: Step, workload: Workload) -> Profile:
        resident, start_s = self._residents.get(step)
        if start_s:
            self._ledger.saw_start(step.variant, start_s)
        self._progress.phase(f"profiling {step.variant}")
        sent = run(self._measurer.warmer.prepare(resident, step, workload, None))
        self._ledger.saw_requests(step.variant, sent, workload.output_tokens)
        hook = resident.server.endpoint.profile
        folder = self._traces / step.variant
        if hook is None:
            records = run(self._send(resident, step, workload, concurrency=1))
            written = timings_trace(records)
            if written is None:
                return _described(step, workload, problem=_NO_PROFILER)
            folder.mkdir(parents=True, exist_ok=True)
            files = [folder / "timings.json"]
            files[0].write_text(json.dumps(written), encoding="utf-8")
        else:
            before = _listed(Path(hook.folder))
            records = run(self._profiled(resident, step, workload, hook))
            files = _copied(_finished(Path(hook.folder), before), Path(hook.folder), folder)
        self._ledger.saw_requests(step.variant, records, workload.output_tokens)
        if not files:
            return _described(
                step, workload, problem=f"its profiler wrote nothing new into {hook.folder if hook else ''}"
            )
        return _described(
            step,
            workload,
            source="timings" if hook is None else "profiler",
            files=tuple(path.relative_to(self._traces.parent).as_posix() for path in files),
            requests=len(records),
            output_tokens=_tokens(records),
        )

    async def _profiled(
        self, resident: Resident, step: Step, workload: Workload, hook: ProfileHook
    ) -> list[RequestRecord]:
        """Requests between `start` and `stop`; `stop` is sent in any case, so that no profiler is left running."""
        http = HttpClient(resident.server.endpoint, timeout_s=hook.timeout_s)
        await http.request("POST", hook.start)
        try:
            return await self._send(resident, step, workload, concurrency=round(step.cell.level))
        finally:
            self._progress.phase(f"profiling {step.variant}: the profiler writes")
            await http.request("POST", hook.stop)

    async def _send(
        self, resident: Resident, step: Step, workload: Workload, *, concurrency: int
    ) -> list[RequestRecord]:
        """The same prompts for every variant. Raises EngineError when none is answered."""
        endpoint = resident.server.endpoint
        prepared = await self._measurer.prompts.block(
            endpoint,
            workload,
            round=_ROUND,
            variant=step.variant,
            visit="profile",
            count=max(_FEWEST, concurrency),
        )
        client = await run_requests(
            endpoint,
            prepared,
            ClosedLoop(concurrency=concurrency),
            timeouts=timeouts_of(endpoint, None),
            check=resident.server.check,
        )
        await count_missing(endpoint, client.records)
        failed = [record for record in client.records if record.error is not None]
        if failed:
            raise EngineError(f"a profiled request failed: {failed[0].error_message or failed[0].error}")
        return client.records


_NO_PROFILER = (
    "no profiler of its server is set up (setting `profile` of the variant), and its answers tell no timings either"
)


def _described(step: Step, workload: Workload, **more: Any) -> Profile:
    load = {LOAD_NAMES[step.cell.kind]: step.cell.level}
    return Profile(variant=step.variant, workload=workload.name, load=load, **more)


def _tokens(records: Sequence[RequestRecord]) -> int | None:
    """Output tokens of all requests; None unless every request's number is known."""
    counts = [record.output_tokens for record in records]
    return sum(c for c in counts if c is not None) if counts and all(counts) else None


def _listed(folder: Path) -> dict[Path, tuple[int, int]]:
    """Files below the folder: (size, time of the last change in ns). Symbolic links are not followed."""
    found: dict[Path, tuple[int, int]] = {}
    if not folder.is_dir():
        return found
    for path in sorted(folder.rglob("*")):
        if len(found) >= 100 * _MOST_FILES:
            break
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found


def _finished(folder: Path, before: dict[Path, tuple[int, int]]) -> list[Path]:
    """New or changed files, once they have stopped growing; none after a minute without any."""
    end = time.monotonic() + _PATIENCE_S
    last: dict[Path, tuple[int, int]] = {}
    while True:
        now = {path: told for path, told in _listed(folder).items() if before.get(path) != told and told[0] > 0}
        if (now and now == last) or time.monotonic() > end:
            return sorted(now)[:_MOST_FILES]
        last = now
        time.sleep(_SETTLE_S)


def _copied(files: Sequence[Path], source: Path, target: Path) -> list[Path]:
    """Copies into the run folder, under their own names; beyond the bound on bytes they are left where they are."""
    copies: list[Path] = []
    left = _MOST_BYTES
    for path in files:
        size = path.stat().st_size
        if size > left:
            continue
        left -= size
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copies.append(copy)
    return copies
