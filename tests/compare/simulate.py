"""A small simulator of a whole run: blocks as the run folder would give them, with a known truth.

Noise as in the method's simulation: prompts differ (σ 0.40), requests of a block resemble their neighbours (AR(1)
0.15, φ 0.6), each request scatters (0.15), each start has its luck (1 %), the machine wanders (AR(1) 2 %) and
drifts (3 % over the run), one request in a hundred is an outlier. All in log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from bakeoff.measure.plan import williams_orders
from bakeoff.model import (
    Block,
    BlockData,
    BlockKind,
    BlockSize,
    Budget,
    Cell,
    Experiment,
    Health,
    Load,
    Prompts,
    Start,
    Variant,
    Workload,
)

_PROSE = (
    "the river runs past an old stone mill where children play and their father mends a broken wheel while rain "
    "falls softly over green fields before evening brings quiet light across every window of this small town"
)
WORDS = _PROSE.split()


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations in log."""

    prompt: float = 0.40
    ar: float = 0.15
    phi: float = 0.6
    eps: float = 0.15
    start: float = 0.01
    slow: float = 0.02
    trend: float = 0.03  # over the whole run
    outliers: float = 0.01  # share


QUIET = Noise(prompt=0.3, ar=0.0, eps=0.01, start=0.002, slow=0.0, trend=0.0, outliers=0.0)


_CALM: dict[str, Any] = {"other_cpu_share": 0.05, "steal_share": 0.001}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The truth of one variant."""

    ttft_s: float = 0.050
    tpot_s: float = 0.020
    output_tokens: int | None = None  # None: as the workload asks
    input_tokens: int | None = None
    fail: float = 0.0  # share of requests that fail
    text: str | None = None  # None: ordinary prose
    drift: float = 0.0  # own change of TTFT over the run, in log
    cached_tokens: float | None = None
    health: Health = Health(loop_lag_p50_s=1e-4, loop_lag_p99_s=1e-3, client_cpu_share=0.1, cores=2, **_CALM)
    columns: Mapping[str, Any] = field(default_factory=dict)  # overrides whole columns
    block: Mapping[str, Any] = field(default_factory=dict)  # overrides fields of Block
    peak_bytes: int = 300_000_000
    start_s: float = 2.0


def experiment(**changes: Any) -> Experiment:
    """base and flash on one cell (``chat/c1``), 16 requests a block; fields may be replaced."""
    plain = Experiment(
        name="simulated",
        variants=(Variant(name="base", engine="openai"), Variant(name="flash", engine="openai")),
        workloads=(workload(),),
        budget=Budget(min_pairs=6, max_pairs=40),
        aa_pairs=2,
    )
    return msgspec.structs.replace(plain, **changes)


def workload(**changes: Any) -> Workload:
    """``chat``: 128 tokens in, 32 out, one at a time; fields may be replaced."""
    plain = Workload(
        name="chat",
        prompts=Prompts(input_tokens=128),
        output_tokens=32,
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=16),
    )
    return msgspec.structs.replace(plain, **changes)


class Simulation:
    """Measures an experiment that is not there."""

    def __init__(
        self,
        asked: Experiment,
        arms: Mapping[str, Arm] | None = None,
        *,
        noise: Noise = QUIET,
        seed: int = 0,
    ) -> None:
        self.experiment = asked
        self.arms = {v.name: Arm() for v in asked.variants} | dict(arms or {})
        self.noise = noise
        self.rng = np.random.default_rng(seed)
        self.blocks: list[BlockData] = []
        self.starts: list[Start] = []
        self._clock = 10**15  # an uptime of eleven days
        self._slow = 0.0
        self._luck: dict[int, float] = {}

    def run(self, rounds: int) -> Simulation:
        """Measures that many rounds more."""
        names = [v.name for v in self.experiment.variants]
        orders = williams_orders(len(names))
        first = max((b.block.round for b in self.blocks), default=-1) + 1
        for number in range(first, first + rounds):
            size = self.experiment.start_every or 10**6
            visits: list[tuple[str, BlockKind]] = [(names[i], "measure") for i in orders[number % len(orders)]]
            if number < self.experiment.aa_pairs:
                visits.append((names[0], "aa"))
            prompts = {
                cell.key: self.rng.normal(0, self.noise.prompt, self._size(cell)) for cell in self.experiment.cells()
            }
            for position, (name, kind) in enumerate(visits):
                group = number // size
                start = self._start(name, kind, number, group)
                for cell in self.experiment.cells():
                    self._block(cell, name, kind, number, position, start, prompts[cell.key])
        return self

    def _size(self, cell: Cell) -> int:
        return self.experiment.workload(cell.workload).block.requests or 16

    def _start(self, name: str, kind: BlockKind, number: int, group: int) -> tuple[Start, float]:
        for start in self.starts:
            if (start.variant, start.kind, start.group) == (name, kind, group):
                return start, self._luck[start.id]
        arm, clock = self.arms[name], self._clock
        took = int(arm.start_s * 1e9 * np.exp(self.rng.normal(0, 0.02)))
        start = Start(
            id=len(self.starts),
            variant=name,
            round=number,
            group=group,
            kind=kind,
            spawn_ns=clock,
            ready_ns=clock + took,
            first_token_ns=clock + took + 10**8,
            peak_anon_bytes=int(arm.peak_bytes * np.exp(self.rng.normal(0, 0.001))),
            page_cache="warm",
        )
        self._luck[start.id] = float(self.rng.normal(0, self.noise.start))
        self.starts.append(start)
        return start, self._luck[start.id]

    def _ar(self, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        values = np.zeros(n)
        state = self.rng.normal(0, self.noise.ar)
        for i in range(n):
            state = self.noise.phi * state + self.rng.normal(0, self.noise.ar * np.sqrt(1 - self.noise.phi**2))
            values[i] = state
        return values

    def _block(
        self,
        cell: Cell,
        name: str,
        kind: BlockKind,
        number: int,
        position: int,
        start: tuple[Start, float],
        prompts: np.ndarray[Any, np.dtype[np.float64]],
    ) -> None:
        arm, n, noise = self.arms[name], prompts.size, self.noise
        progress = number / max(1, self.experiment.budget.max_pairs)
        self._slow = 0.9 * self._slow + self.rng.normal(0, noise.slow * np.sqrt(1 - 0.81))
        common = start[1] + self._slow + noise.trend * progress
        scatter = [
            common + self._ar(n) + self.rng.normal(0, noise.eps, n) + (self.rng.random(n) < noise.outliers) * 1.5
            for _ in range(2)
        ]
        ttft = arm.ttft_s * np.exp(prompts + scatter[0] + arm.drift * progress)
        tpot = arm.tpot_s * np.exp(0.1 * prompts + scatter[1])
        tokens = arm.output_tokens or self.experiment.workload(cell.workload).output_tokens
        columns = self._columns(cell, arm, ttft, tpot, tokens)
        started, ended = int(columns["scheduled_ns"][0]), int(columns["end_ns"].max())
        self._clock = ended + 10**9
        block = Block(
            id=len(self.blocks),
            round=number,
            position=position,
            variant=name,
            cell=cell.key,
            kind=kind,
            start_id=start[0].id,
            group=start[0].group,
            started_ns=started,
            ended_ns=ended,
            wall=1.8e9,
            window_ns=(started, ended),
            requests=n,
            errors=sum(bool(e) for e in columns["error"]),
            warmup_stable=True,
            health=arm.health,
        )
        self.blocks.append(BlockData(block=msgspec.structs.replace(block, **arm.block), columns=columns))

    def _columns(self, cell: Cell, arm: Arm, ttft: Any, tpot: Any, tokens: int) -> dict[str, Any]:
        n = ttft.size
        took = ttft + tpot * (tokens - 1)
        if cell.kind == "closed":
            scheduled = self._clock + np.r_[0, np.cumsum((took * 1e9).astype(np.int64))[:-1]]
        else:
            scheduled = self._clock + (np.arange(n) / cell.level * 1e9).astype(np.int64)
        first = scheduled + (ttft * 1e9).astype(np.int64)
        failed = self.rng.random(n) < arm.fail
        last = first + (tpot * (tokens - 1) * 1e9).astype(np.int64)
        steps = (tpot[:, None] * np.arange(tokens)[None, :] * 1e9).astype(np.int64)
        columns: dict[str, Any] = {
            "index": np.arange(n, dtype=np.float64),
            "prompt_id": np.arange(n, dtype=np.float64),
            "scheduled_ns": scheduled,
            "sent_ns": scheduled + 20_000,
            "first_byte_ns": first,
            "first_token_ns": first,
            "first_output_ns": first,
            "last_token_ns": last,
            "end_ns": last,
            "input_tokens": np.full(n, float(arm.input_tokens or 128)),
            "output_tokens": np.full(n, float(tokens)),
            "cached_tokens": np.full(n, np.nan if arm.cached_tokens is None else arm.cached_tokens),
            "error": objects(["timeout" if f else None for f in failed]),
            "error_message": objects(["no answer\x1b[31m in 600 s" if f else None for f in failed]),
            "finish_reason": objects(["length"] * n),
            "tokens_source": objects(["usage"] * n),
            "text": objects([self._text(tokens) if arm.text is None else arm.text for _ in range(n)]),
            "reasoning": objects([""] * n),
            "prompt": objects([None] * n),
            "chunk_ns": objects([first[i] + steps[i] for i in range(n)]),
            "chunk_tokens": objects([np.ones(tokens, dtype=np.int64)] * n),
            "chunk_coalesced": objects([np.zeros(tokens, dtype=np.bool_)] * n),
        }
        return columns | {
            key: value(columns) if callable(value) else np.full(n, value) for key, value in arm.columns.items()
        }

    def _text(self, tokens: int) -> str:
        return " ".join(self.rng.choice(WORDS, size=tokens))


def objects(values: Sequence[Any]) -> Any:
    """A one-dimensional object array, also of arrays of one length."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def changed(arm: Arm, **fields: Any) -> Arm:
    """An arm with some fields replaced."""
    return replace(arm, **fields)
