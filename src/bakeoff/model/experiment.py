"""What is asked: variants, workloads, budget. All types are frozen and serialise with msgspec.

Secrets never enter these types: a setting that takes one holds the text ``${VAR}``, and the engine
resolves it from the environment at the moment of use. So a saved experiment cannot leak a key.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Api = Literal["completions", "chat"]
Arrivals = Literal["poisson", "constant"]
LengthMode = Literal["fixed", "natural"]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant's tokens cost, per million input and output tokens."""

    input: float = 0.0
    output: float = 0.0
    currency: str = "USD"

    @property
    def free(self) -> bool:
        return self.input == 0 and self.output == 0

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Cost of so many tokens, in `currency`."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One setup under test: an engine's name and that engine's settings (``${VAR}`` unresolved)."""

    name: str
    engine: str
    settings: dict[str, Any] = {}

    @property
    def price(self) -> Price | None:
        """The declared price; None where none is declared (``free`` is a price of zero)."""
        value = self.settings.get("price")
        if value is None:
            return None
        if not isinstance(value, dict):
            return Price()
        return Price(
            input=float(value.get("input", 0.0)),
            output=float(value.get("output", 0.0)),
            currency=str(value.get("currency", "USD")),
        )


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    """Where prompts come from. ``synthetic`` needs input_tokens [tokens]; ``jsonl`` needs path."""

    source: Literal["synthetic", "jsonl"] = "synthetic"
    input_tokens: int | None = None
    path: str | None = None
    seed: int = 0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Closed loop at given concurrencies, or open loop at given rates [requests/s]."""

    kind: Literal["closed", "open"]
    levels: tuple[float, ...]
    arrivals: Arrivals = "poisson"


class BlockSize(msgspec.Struct, frozen=True, kw_only=True):
    """How much one block measures: a number of requests, or a time [s] (exactly one is set)."""

    requests: int | None = None
    seconds: float | None = None


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling sent explicitly with every request, so that server defaults cannot differ."""

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of traffic."""

    name: str
    prompts: Prompts
    output_tokens: int  # exact length when `length` is fixed, else the upper limit [tokens]
    length: LengthMode = "fixed"
    load: Load
    block: BlockSize
    sampling: Sampling = Sampling()
    api: Api = "completions"
    cache: Literal["unique", "shared"] = "unique"  # unique: a nonce in front of every prompt
    slo: dict[str, float] = {}  # limits per request, metric name → highest value [s]; goodput counts who meets all


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A workload at one load level: the unit in which variants are compared."""

    workload: str
    kind: Literal["closed", "open"]
    level: float

    @property
    def key(self) -> str:
        """Stable text key, for example ``chat/c4`` (4 at a time) or ``chat/r2.5`` (2.5 requests/s)."""
        return f"{self.workload}/{'c' if self.kind == 'closed' else 'r'}{self.level:g}"

    @property
    def load(self) -> dict[str, float]:
        """The load as result.json shows it."""
        return {"concurrency" if self.kind == "closed" else "rate": self.level}


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of money, for example 5 USD."""

    amount: float
    currency: str = "USD"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the whole run; the first one reached ends it. None means no limit."""

    min_pairs: int = 6
    max_pairs: int = 40
    seconds: float | None = 1200.0
    requests: int | None = None
    spend: Spend | None = None


class Warmup(msgspec.Struct, frozen=True, kw_only=True):
    """Warm-up after each start: until stable, within these limits (per cell)."""

    min_requests: int = 2
    max_requests: int = 12
    max_seconds: float = 60.0


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A whole question. The first variant is the base."""

    name: str
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    budget: Budget = Budget()
    start_every: int = 1  # rounds per start; 0 = started once and kept
    gates: tuple[str, ...] = ("ttft_s", "tpot_s")
    margin: float = 0.03  # relative
    confidence: float = 0.95
    resident: Literal["one", "all"] = "one"
    warmup: Warmup = Warmup()
    aa_pairs: int = 2  # base-against-base pairs, a smoke test of the bench; 0 = none
    seed: int = 0

    @property
    def base(self) -> Variant:
        return self.variants[0]

    @property
    def candidates(self) -> tuple[Variant, ...]:
        return self.variants[1:]

    def variant(self, name: str) -> Variant:
        """The variant of that name (KeyError if there is none)."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    def workload(self, name: str) -> Workload:
        """The workload of that name (KeyError if there is none)."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(name)

    def cells(self) -> tuple[Cell, ...]:
        """Every workload at every load level, in the order of the file."""
        return tuple(
            Cell(workload=w.name, kind=w.load.kind, level=level) for w in self.workloads for level in w.load.levels
        )
