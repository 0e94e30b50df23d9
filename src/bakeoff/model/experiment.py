"""What is asked: variants, workloads, budget. All types are frozen and serialise with msgspec.

Secrets never enter these types: a setting that takes one holds the text ``${VAR}``, and the engine
resolves it from the environment at the moment of use. So a saved experiment cannot leak a key.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from .quality import Quality

Api = Literal["completions", "chat", "responses", "messages"]
Arrivals = Literal["poisson", "constant", "gamma"]
LoadKind = Literal["closed", "open", "replay"]
PromptSource = Literal["synthetic", "jsonl", "sharegpt", "azure", "mooncake"]
CachePolicy = Literal["unique", "shared", "declared"]
Method = Literal["anytime", "fixed"]
LengthMode = Literal["fixed", "natural"]
PageCache = Literal["as found", "warm", "cold", "alternate"]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant costs: its tokens, per million input and output tokens; its machine, per hour; or both."""

    input: float = 0.0
    output: float = 0.0
    currency: str = "USD"
    hour: float = 0.0  # of the machine, busy or not

    @property
    def free(self) -> bool:
        return self.input == 0 and self.output == 0 and self.hour == 0

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Cost of so many tokens, in `currency`, the hours of a machine aside."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """A declared model of a machine's power [W]: idle, and with all of it at work. Linear in between."""

    idle: float
    busy: float

    def at(self, utilisation: float) -> float:
        """Watts at a utilisation of 0..1."""
        return self.idle + (self.busy - self.idle) * min(1.0, max(0.0, utilisation))


def _watts(value: Any) -> float:
    """``40``, ``"40 W"``, ``"1.2 kW"`` → W. Settings were checked before; what is no power reads as NaN."""
    if isinstance(value, str):
        number, _, unit = value.strip().partition(" ")
        for suffix in ("kW", "W"):
            if number.endswith(suffix):
                number, unit = number.removesuffix(suffix), suffix
                break
        try:
            return float(number) * (1000.0 if unit.strip() == "kW" else 1.0)
        except ValueError:
            return math.nan
    return float(value) if isinstance(value, int | float) else math.nan


def _money(value: Any) -> tuple[float, str]:
    """``2.5``, ``"2.5 USD"`` → (amount, currency)."""
    if not isinstance(value, str):
        return float(value), "USD"
    amount, currency = value.strip()[:-3], value.strip()[-3:]
    return float(amount), currency


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
        hour, currency = _money(value.get("hour", 0.0))
        return Price(
            input=float(value.get("input", 0.0)),
            output=float(value.get("output", 0.0)),
            currency=str(value.get("currency", currency)),
            hour=hour,
        )

    @property
    def power(self) -> Power | None:
        """The declared power model of this variant; None where it has none of its own."""
        value = self.settings.get("energy")
        if not isinstance(value, dict):
            return None
        return Power(idle=_watts(value.get("idle", 0.0)), busy=_watts(value.get("busy", 0.0)))


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    """Where prompts come from. ``synthetic`` needs input_tokens [tokens]; every other source needs path.

    A conversation is a chain of requests: each one carries the turns before it, and leaves `think_s` after the end
    of the answer before. `history` says which answers it carries: those of the file or of the generator (the same
    work in every arm), or those that the server gave.
    """

    source: PromptSource = "synthetic"
    input_tokens: int | None = None  # of a conversation: of each turn's new text
    path: str | None = None
    seed: int = 0
    shared_prefix: float = 0.0  # share (0..1) of a synthetic prompt that all prompts of the workload begin with
    turns: int = 1  # most turns of a conversation; 1: single requests
    think_s: float = 0.0  # pause before each further turn, where the file names none [s]
    history: Literal["recorded", "answered"] = "recorded"
    sample: int | None = None  # draw that many entries of the file by seed; None: all
    max_input_tokens: int | None = None  # limit of a prompt [tokens]
    overlong: Literal["truncate", "skip"] = "truncate"  # what happens to a prompt beyond that limit
    recorded_lengths: bool = False  # each answer is as long as the recorded one; `output_tokens` is then the limit


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Load levels that the run finds itself, before the comparison, with probe blocks of every variant.

    ``sweep``: geometric levels from `low` until throughput stops rising (at most `high`). ``find``: the highest rate
    at which at least `attainment` of the requests meet the workload's slo; levels are in requests/s. The levels found
    for all variants together are the grid on which all of them are then compared.
    """

    kind: Literal["sweep", "find"]
    low: float = 1.0
    high: float = 256.0
    attainment: float = 0.99


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Closed loop at given concurrencies, open loop at given rates [requests/s], or a trace's own arrival times
    replayed so many times faster (levels are speed factors). `levels` is empty until a search has found them."""

    kind: LoadKind
    levels: tuple[float, ...]
    arrivals: Arrivals = "poisson"
    burstiness: float = 1.0  # shape of gamma arrivals: 1 is Poisson, below 1 burstier, above 1 more regular
    ramp_s: float = 0.0  # closed loop: the slots start evenly over this time
    search: Search | None = None


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
    # unique: a nonce in front of every prompt. declared: one nonce a block, so that only what the workload itself
    # shares (a prefix, earlier turns, a trace's blocks) can be served from the cache. shared: no nonce.
    cache: CachePolicy = "unique"
    slo: dict[str, float] = {}  # limits per request, metric name → highest value [s]; goodput counts who meets all


#: What the number of a load level means, as files and results name it.
LOAD_NAMES: dict[LoadKind, str] = {"closed": "concurrency", "open": "rate", "replay": "replay"}
_KEY_LETTER: dict[LoadKind, str] = {"closed": "c", "open": "r", "replay": "x"}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A workload at one load level: the unit in which variants are compared."""

    workload: str
    kind: LoadKind
    level: float

    @property
    def key(self) -> str:
        """Stable text key: ``chat/c4`` (4 at a time), ``chat/r2.5`` (2.5 requests/s), ``chat/x2`` (replay, twice as
        fast)."""
        return f"{self.workload}/{_KEY_LETTER[self.kind]}{self.level:g}"

    @property
    def load(self) -> dict[str, float]:
        """The load as result.json shows it."""
        return {LOAD_NAMES[self.kind]: self.level}


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
    margins: dict[str, float] = {}  # by metric, where one differs from `margin` (relative)
    method: Method = "anytime"  # fixed: exactly budget.max_pairs pairs, one look, Holm over the gates
    confidence: float = 0.95
    resident: Literal["one", "all"] = "one"
    warmup: Warmup = Warmup()
    quality: Quality | None = None  # None: nothing is asked about quality
    profile: bool = False  # a short profiled pass of each variant after the measuring
    aa_pairs: int = 2  # base-against-base pairs, a smoke test of the bench; 0 = none
    seed: int = 0
    power: Power | None = None  # of every variant that declares none of its own
    page_cache: PageCache = "as found"  # how each start finds model files: alternate is cold in every other group

    def power_of(self, variant: str) -> Power | None:
        """The declared power model that holds for a variant."""
        return self.variant(variant).power or self.power

    @property
    def base(self) -> Variant:
        return self.variants[0]

    @property
    def candidates(self) -> tuple[Variant, ...]:
        return self.variants[1:]

    def margin_of(self, metric: str) -> float:
        """The relative margin of a metric."""
        return self.margins.get(metric, self.margin)

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
