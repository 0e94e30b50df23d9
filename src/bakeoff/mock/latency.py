"""The latency model: when each token of a request is due. Pure arithmetic; no clock is read here."""

from __future__ import annotations

import math
import random

import msgspec

from ..errors import UsageError

_NS = 1_000_000_000
_CACHE_LEAST = (("prefix_block", 1), ("kv_tokens", 1))


class LatencyModel(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a server, all in seconds.

    A request that holds a slot from time s is answered with token k (from 0) at

        s + f · (ttft_s + per_input_token_s · uncached prompt tokens) · J₁ + f · tpot_s · J₂ · k

    where f = scale × start effect × (1 + drift_per_minute · minutes since listening), taken at s, and J₁, J₂ are
    lognormal factors of mean 1 and relative sigma `jitter`, drawn once a request. `gap_jitter` draws one more factor
    for each gap. Deadlines are absolute, so a late timer delays one chunk and not those after it.

    Chunks of several tokens, and writes of several chunks, are sent when their last token is due; the first token
    always goes alone. So TTFT and TPOT are those of the model whatever the chunking is. Chunks that are due at the
    time of a write (because the server is late, or tpot_s is 0) go out in it together, at most 64.
    """

    ttft_s: float = 0.05
    per_input_token_s: float = 0.0
    tpot_s: float = 0.02
    jitter: float = 0.0
    gap_jitter: float = 0.0
    slots: int = 0  # requests answered at the same time; 0 = unlimited; more wait in line, first come first served
    seed: int = 0  # of texts and of natural lengths: the same seed and prompt give the same answer
    noise_seed: int | None = None  # of jitter, start effect and fault draws; None: another one in every process
    start_delay_s: float = 0.0  # before it listens: a model being loaded
    scale: float = 1.0  # multiplies all times
    drift_per_minute: float = 0.0  # relative
    start_effect: float = 0.0  # sigma of a lognormal factor drawn once a process
    role_chunk: bool = False  # chat: a chunk with only the role, as soon as the request holds a slot
    tokens_per_chunk: int = 1
    coalesce: int = 1  # chunks in one write
    natural_tokens_mean: float = 128.0  # mean answer length where the model ends by itself [tokens]
    talkative: float = 1.0  # multiplies that mean
    nonce_tokens: int = 0  # leading prompt tokens that do not influence the answer (a nonce in front)
    prefix_cache: bool = False  # tokens of a known beginning cost nothing and are reported as cached
    prefix_block: int = 16  # tokens of a block of that cache: only whole blocks are shared
    kv_tokens: int = 1_000_000  # size of the KV cache: what it holds of prompts, and what its use is a share of

    def __post_init__(self) -> None:
        for name in ("ttft_s", "per_input_token_s", "tpot_s", "jitter", "gap_jitter", "start_delay_s", "start_effect"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{name} is {value}", where="mock", remedy="give a finite number of 0 or more")
        for name in ("scale", "natural_tokens_mean", "talkative"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} is {value}", where="mock", remedy="give a finite number above 0")
        for name, least in (("slots", 0), ("nonce_tokens", 0), ("tokens_per_chunk", 1), ("coalesce", 1), *_CACHE_LEAST):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}", where="mock", remedy=f"give {least} or more")
        if not math.isfinite(self.drift_per_minute):
            raise UsageError(
                "drift_per_minute is not finite", where="mock", remedy="give a relative drift, such as 0.02"
            )


class Timing(msgspec.Struct, frozen=True):
    """When the tokens of one request are due, relative to nothing: absolute nanoseconds."""

    first_ns: float  # token 0
    gap_ns: float  # between tokens
    steps_ns: tuple[float, ...] = ()  # with gap_jitter: offset of token k from token 0

    def due(self, token: int) -> float:
        """Deadline of token `token` (from 0) [ns, monotonic]."""
        if self.steps_ns:
            return self.first_ns + self.steps_ns[token]
        return self.first_ns + self.gap_ns * token


class Pace:
    """The model in one process: its random factors, and the time from which drift counts."""

    def __init__(self, model: LatencyModel, listening_ns: int) -> None:
        self.model = model
        self.noise = random.Random(model.noise_seed)
        self.process_factor = _factor(self.noise, model.start_effect)
        self.listening_ns = listening_ns

    def timing(self, start_ns: int, uncached_tokens: int, output_tokens: int) -> Timing:
        """Draws the deadlines of a request that holds its slot from `start_ns`."""
        model = self.model
        minutes = (start_ns - self.listening_ns) / (60 * _NS)
        factor = model.scale * self.process_factor * max(0.0, 1 + model.drift_per_minute * minutes) * _NS
        prefill = (
            (model.ttft_s + model.per_input_token_s * uncached_tokens) * factor * _factor(self.noise, model.jitter)
        )
        gap = model.tpot_s * factor * _factor(self.noise, model.jitter)
        steps: list[float] = []
        if model.gap_jitter:
            steps.append(0.0)
            for _ in range(output_tokens - 1):
                steps.append(steps[-1] + gap * _factor(self.noise, model.gap_jitter))
        return Timing(start_ns + prefill, gap, tuple(steps))


def _factor(noise: random.Random, sigma: float) -> float:
    """A lognormal factor of mean 1: E exp(σZ − σ²/2) = 1, so that jitter does not change mean times."""
    return math.exp(sigma * noise.gauss(0.0, 1.0) - sigma * sigma / 2) if sigma else 1.0
