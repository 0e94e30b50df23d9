"""A simulated world: an experiment, the truth about its arms, and the noise. It measures whole runs in mock time.

The order of blocks is that of the real plan (Williams order, A/A visits, cells in drawn order, start groups). Blocks
and starts are those that a run folder gives back, with short texts and two chunks an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bakeoff.measure.plan import Plan, Step
from bakeoff.model import Block, BlockData, Experiment, Health, Start
from bakeoff.workloads import derive_seed
from tests.compare.simulate import objects

from .noise import Floats, Weather, machine, scatter

Ints = NDArray[np.int64]

_TTFT_S, _TPOT_S = 0.050, 0.010
_TEXT = "the river runs past an old stone mill"
_CALM = Health(
    loop_lag_p50_s=1e-4,
    loop_lag_p99_s=1e-3,
    client_cpu_share=0.1,
    cores=2,
    other_cpu_share=0.05,
    steal_share=0.001,
)


class Run(NamedTuple):
    """What one run measured. `asked`: the experiment with the seed of this run."""

    asked: Experiment
    blocks: list[BlockData]
    starts: list[Start]

    def until(self, rounds: int) -> Run:
        """The run as it was after so many rounds."""
        last = max((b.block.start_id for b in self.blocks if b.block.round < rounds), default=-1)
        blocks = [b for b in self.blocks if b.block.round < rounds]
        return Run(self.asked, blocks, [s for s in self.starts if s.id <= last])


@dataclass(frozen=True, kw_only=True)
class World:
    """effect: log ratio candidate ÷ base of every latency, of all cells or by cell key.

    order: ``interleaved`` as planned, or ``one after the other``: all blocks of the base first.
    drift: a further monotone change over the run, in log.
    """

    experiment: Experiment
    weather: Weather
    effect: float | Mapping[str, float] = 0.0
    order: Literal["interleaved", "one after the other"] = "interleaved"
    drift: float = 0.0
    share_of_prompt: Mapping[str, float] = field(default_factory=lambda: {"ttft": 1.0, "tpot": 0.1})

    def measure(self, rounds: int, *seed: int | str) -> Run:
        """A run of so many rounds; the same seed gives the same run."""
        number = derive_seed(*seed)
        rng = np.random.default_rng(number)
        budget = msgspec.structs.replace(self.experiment.budget, max_pairs=rounds)
        asked = msgspec.structs.replace(self.experiment, seed=number % 2**31, budget=budget)
        steps = [step for group in Plan(asked).groups() for step in group]
        if self.order == "one after the other":
            names = [v.name for v in asked.variants]
            steps.sort(key=lambda s: (names.index(s.variant), s.round))
        starts, luck = self._starts(rng, steps)
        asked = msgspec.structs.replace(asked, budget=self.experiment.budget)
        blocks = self._blocks(rng, asked, steps, luck)
        return Run(asked, blocks, [_timed(start, blocks) for start in starts])

    def _starts(self, rng: np.random.Generator, steps: Sequence[Step]) -> tuple[list[Start], list[tuple[int, float]]]:
        """(the starts, for every step its start's id and luck)."""
        known: dict[tuple[str, str, int], tuple[int, float]] = {}
        starts: list[Start] = []
        chosen = []
        for step in steps:
            key = (step.variant, step.kind, step.group)
            if key not in known:
                known[key] = (len(starts), float(rng.normal(0.0, self.weather.start)))
                starts.append(
                    Start(
                        id=len(starts),
                        variant=step.variant,
                        round=step.round,
                        group=step.group,
                        kind=step.kind,
                        peak_anon_bytes=int(3e8 * np.exp(rng.normal(0.0, 0.001))),
                        page_cache="warm",
                    )
                )
            chosen.append(known[key])
        return starts, chosen

    def _blocks(
        self, rng: np.random.Generator, asked: Experiment, steps: Sequence[Step], luck: Sequence[tuple[int, float]]
    ) -> list[BlockData]:
        sizes = {w.name: w.block.requests or 16 for w in asked.workloads}
        n = max(sizes.values())
        prompts: dict[tuple[int, str], Floats] = {}
        base = asked.base.name
        level = machine(rng, self.weather, len(steps)) + self.drift * np.linspace(0.0, 1.0, len(steps))
        level += np.array([mine for _, mine in luck])
        for i, step in enumerate(steps):
            prompts.setdefault((step.round, step.cell.key), rng.normal(0.0, self.weather.prompt, n))
            level[i] += 0.0 if step.variant == base else self._effect(step.cell.key)
        common = np.array([prompts[step.round, step.cell.key] for step in steps])
        shape = common.shape
        share = self.share_of_prompt
        ttft = _TTFT_S * np.exp(level[:, None] + share["ttft"] * common + scatter(rng, self.weather, shape))
        tokens = np.array([asked.workload(step.cell.workload).output_tokens for step in steps])
        decode = np.zeros(shape)
        if (tokens > 1).any():
            tpot = _TPOT_S * np.exp(level[:, None] + share["tpot"] * common + scatter(rng, self.weather, shape))
            decode = tpot * (tokens - 1)[:, None]
        first, last = (ttft * 1e9).astype(np.int64), ((ttft + decode) * 1e9).astype(np.int64)
        clock = 10**15  # an uptime of eleven days
        found = []
        for i, step in enumerate(steps):
            size = sizes[step.cell.workload]
            clock += 3 * 10**9 if step.kind == "measure" else 2 * 10**9
            columns = _columns(clock, first[i, :size], last[i, :size], int(tokens[i]))
            block = Block(
                id=i,
                round=step.round,
                position=step.position,
                variant=step.variant,
                cell=step.cell.key,
                kind=step.kind,
                start_id=luck[i][0],
                group=step.group,
                started_ns=clock,
                ended_ns=int(columns["end_ns"][-1]),
                wall=1.8e9,
                window_ns=(clock, int(columns["end_ns"][-1])),
                requests=size,
                errors=0,
                warmup_stable=True,
                health=_CALM,
            )
            clock = block.ended_ns
            found.append(BlockData(block=block, columns=columns))
        return found

    def _effect(self, cell: str) -> float:
        return self.effect if isinstance(self.effect, float) else self.effect[cell]


def _timed(start: Start, blocks: Sequence[BlockData]) -> Start:
    """The start with its stamps, two seconds before its first block."""
    begin = min(b.block.started_ns for b in blocks if b.block.start_id == start.id) - 2 * 10**9
    ready = begin + 15 * 10**8
    return msgspec.structs.replace(
        start, spawn_ns=begin, ready_ns=ready, first_request_ns=ready, first_token_ns=ready + 10**8
    )


def _columns(clock: int, first: Ints, last: Ints, tokens: int) -> dict[str, Any]:
    """Columns of one block of a closed loop, one at a time. first, last: after the request was due [ns]."""
    scheduled = clock + np.concatenate([[0], np.cumsum(last)[:-1]])
    begin, end = scheduled + first, scheduled + last
    stamps = {
        "scheduled_ns": scheduled,
        "sent_ns": scheduled + 20_000,
        "first_byte_ns": begin,
        "first_token_ns": begin,
        "first_output_ns": begin,
        "last_token_ns": end,
        "end_ns": end,
    }
    if tokens > 1:
        stamps["chunk_ns"] = objects([np.array(two) for two in zip(begin, end, strict=True)])
    return _constant(first.size, tokens) | stamps


@lru_cache
def _constant(n: int, tokens: int) -> dict[str, Any]:
    """What all blocks of one size have in common."""
    several = tokens > 1
    chunks = {
        "chunk_tokens": objects([np.array([1, tokens - 1])] * n),
        "chunk_coalesced": objects([np.array([False, False])] * n),
    }
    return {
        "index": np.arange(n, dtype=np.float64),
        "prompt_id": np.arange(n, dtype=np.float64),
        "input_tokens": np.full(n, 128.0),
        "output_tokens": np.full(n, float(tokens)),
        "cached_tokens": np.zeros(n),
        "error": objects([None] * n),
        "error_message": objects([None] * n),
        "finish_reason": objects(["length"] * n),
        "tokens_source": objects(["usage"] * n),
        "text": objects([_TEXT] * n),
        "reasoning": objects([""] * n),
        "prompt": objects([None] * n),
        **(chunks if several else {}),
    }
