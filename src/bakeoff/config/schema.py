"""The grammar of an experiment file as pydantic models: types, bounds, defaults and the JSON schema.

Only what one value can say of itself is checked here; what ties keys together is in `rules`. Imported when a file
is read, not before: pydantic is heavy.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from . import values

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
_MAX_TOKENS = 10_000_000


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _pattern(pattern: str, *, number: str | None = None) -> WithJsonSchema:
    """Text of that form, or a plain number of that JSON type."""
    text: dict[str, Any] = {"type": "string", "pattern": pattern}
    return WithJsonSchema({"anyOf": [{"type": number}, text]} if number else text)


VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
WorkloadName = Annotated[str, Field(pattern=_ID, max_length=64)]
Title = Annotated[
    str, Field(pattern=r"^[^\x00-\x1f\x7f/\\]*[^\x00-\x1f\x7f/\\ .][^\x00-\x1f\x7f/\\]*$", max_length=100)
]
Count = Annotated[int, Field(ge=1, le=_MAX_TOKENS)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Pairs = Annotated[Any, BeforeValidator(values.pairs), _pattern(r"^\s*\d+\s*\.\.\s*\d+\s*$", number="integer")]
Money = Annotated[Any, BeforeValidator(values.spend), _pattern(r"^\s*\d+(\.\d+)?\s*[A-Za-z]{3}\s*$")]
Starts = Annotated[Any, BeforeValidator(values.starts), _pattern(r"^(once|every (\d+ )?rounds?)$")]
Points = Annotated[
    Any, BeforeValidator(values.margin_points), _pattern(r"^\s*\d+(\.\d+)?\s*(points?)?\s*$", number="number")
]
Watts = Annotated[Any, BeforeValidator(values.watts), _pattern(r"^\s*\d+(\.\d+)?\s*(k?W)?\s*$", number="number")]
Share = Annotated[Any, BeforeValidator(values.share), _pattern(r"^\s*\d*\.?\d+\s*%?\s*$", number="number")]
Confidence = Annotated[Any, BeforeValidator(values.confidence), _pattern(r"^\s*\d*\.?\d+\s*%?\s*$", number="number")]
Seconds = Annotated[Any, BeforeValidator(values.duration), _pattern(r"^\s*\d*\.?\d+\s*[a-zµ]+\s*$", number="number")]
Minutes = Annotated[
    Any,
    BeforeValidator(lambda value: None if value is None else values.duration(value, 60.0, "min")),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}, {"type": "null"}]}),
]


def _one_or_list(item: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})


Concurrencies = Annotated[
    list[Annotated[int, Field(ge=1, le=100_000)]],
    BeforeValidator(_as_list),
    Field(min_length=1),
    _one_or_list({"type": "integer", "minimum": 1}),
]
Rates = Annotated[
    list[Annotated[float, Field(gt=0, le=1e6)]],
    BeforeValidator(_as_list),
    Field(min_length=1),
    _one_or_list({"type": "number", "exclusiveMinimum": 0}),
]


# A pause may be nothing; a ramp and a block may not.
Pause = Annotated[Any, BeforeValidator(values.pause), _pattern(r"^\s*\d*\.?\d+\s*[a-zµ]+\s*$", number="number")]


Limits = dict[Literal["ttft_s", "ttfo_s", "tpot_s", "e2e_latency_s"], Seconds]


class Section(BaseModel):
    """A mapping whose keys are all known. Strict: "8" is not a number, and 8 is not a text."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class VariantSection(BaseModel):
    """One setup under test."""

    model_config = ConfigDict(extra="allow", strict=True)
    engine: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="Which recipe starts or reaches the server; the other keys are that engine's settings."
    )


class PromptsSection(Section):
    """Where prompts come from."""

    source: Literal["synthetic", "jsonl", "sharegpt", "azure", "mooncake"] | None = Field(
        None, description="synthetic, or jsonl where a path is given; azure and mooncake are traces."
    )
    input_tokens: Count | None = Field(None, description="Exact length of synthetic prompts (or turns) [tokens].")
    output_tokens: Count | None = Field(None, description="Length of each answer [tokens].")
    path: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="The file of prompts or the trace, relative to the experiment's folder."
    )
    seed: Seed = 0
    shared_prefix: Share = Field(0.0, description="Share of a synthetic prompt that all prompts begin with.")
    turns: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="Most turns of a conversation; 1: none.")
    think: Pause | None = Field(None, description="Pause before each further turn of a conversation.")
    history: Literal["recorded", "answered"] | None = Field(
        None, description="Whose answers a conversation's history holds: the file's (default), or the server's."
    )
    sample: Count | None = Field(None, description="Use so many entries of the file, drawn by the seed.")
    max_input_tokens: Count | None = Field(None, description="Limit of a prompt [tokens].")
    overlong: Literal["truncate", "skip"] | None = Field(
        None, description="What happens to a prompt beyond max_input_tokens (truncate by default)."
    )


class LoadSection(Section):
    """Closed loop (so many at a time), open loop (so many a second), or a trace's own times."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [name]} for name in ("concurrency", "rate", "replay", "sweep", "find")]
        }
    )
    concurrency: Concurrencies | None = Field(None, description="Requests in flight, one cell for each number.")
    rate: Rates | None = Field(None, description="Requests per second, one cell for each number.")
    replay: Rates | None = Field(None, description="A trace's own arrival times, so many times as fast.")
    arrivals: Literal["poisson", "constant", "gamma"] | None = Field(None, description="Of a rate; poisson by default.")
    burstiness: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        None, description="Shape of gamma arrivals: 1 is Poisson, less is burstier."
    )
    ramp: Seconds | None = Field(None, description="Closed loop: the slots start evenly over this time.")
    sweep: Literal["concurrency", "rate"] | None = Field(None, description="Find where more load gives no more.")
    find: Literal["goodput"] | None = Field(None, description="Find the highest rate that meets slo.")
    low: Annotated[float, Field(gt=0, le=1e6)] | None = Field(None, description="Where a search begins.")
    high: Annotated[float, Field(gt=0, le=1e6)] | None = Field(None, description="Where a search ends at the latest.")
    attainment: Share | None = Field(None, description="Share of requests that must meet slo; 99% by default.")
    slo: Limits = Field(default_factory=dict, description="Limits of a request, as beside the load.")


class BlockSection(Section):
    """How much one block measures."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["requests"]}, {"required": ["seconds"]}]})
    requests: Annotated[int, Field(ge=1, le=100_000)] | None = None
    seconds: Seconds | None = None


class SamplingSection(Section):
    """Sampling, sent with every request."""

    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    seed: Seed | None = None


class WorkloadSection(Section):
    """One kind of traffic."""

    prompts: PromptsSection
    output_tokens: Count | None = Field(None, description="Length of each answer [tokens]; may stand in prompts.")
    length: Literal["fixed", "natural"] = Field("fixed", description="natural: output_tokens is only a limit.")
    load: LoadSection
    block: BlockSection | None = Field(None, description="By default 16 requests, and 4 for each slot of the loop.")
    sampling: SamplingSection = Field(default_factory=SamplingSection)
    api: Literal["completions", "chat", "responses", "messages"] = "completions"
    cache: Literal["unique", "declared", "shared"] | None = Field(
        None, description="unique: a nonce defeats the prefix cache; declared: only what the workload shares is reused."
    )
    slo: Limits = Field(default_factory=dict, description="Limits of a request; goodput counts who meets all.")


class BudgetSection(Section):
    """Limits of the run; the first one reached ends it."""

    pairs: Pairs = Field(default_factory=lambda: (6, 40), description="By default 6..40.")
    minutes: Minutes = Field(default_factory=lambda: 1200.0, description="By default 20; null for no limit.")
    requests: Count | None = None
    spend: Money | None = None


class WarmupSection(Section):
    """Warm-up after each start, per cell."""

    min_requests: Annotated[int, Field(ge=0, le=100_000)] = 2
    max_requests: Annotated[int, Field(ge=0, le=100_000)] = 12
    max_seconds: Seconds = 60.0


class TaskSection(Section):
    """One set of questions with right answers."""

    source: Literal["reasoning-gym", "jsonl", "lm-eval"] | None = Field(
        None, description="jsonl where a path is given, lm-eval where a task is, else reasoning-gym."
    )
    datasets: dict[str, Annotated[int, Field(ge=1, le=10_000)]] = Field(
        default_factory=dict, description="reasoning-gym: generator → number of questions; by default a small mix."
    )
    path: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="jsonl: the file of questions, relative to the experiment's folder."
    )
    task: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(None, description="lm-eval: its name.")
    items: Count | None = Field(None, description="At most so many questions, drawn by the seed.")
    repeats: Annotated[int, Field(ge=1, le=100)] = Field(1, description="Answers to each question.")
    scorer: Literal["exact", "normalised", "numeric", "regex", "choice", "function"] | None = Field(
        None, description="How an answer is graded; of a file normalised, else the source's own."
    )
    pattern: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        None, description="scorer regex: its first group, or the whole match, is the answer."
    )
    function: Annotated[str, Field(min_length=3, max_length=300)] | None = Field(
        None, description="scorer function: module:function of your own."
    )
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=16)] | None = Field(
        None, description="Texts that end an answer."
    )
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    template: Literal["chat", "plain"] = Field("plain", description="chat: the server's chat template.")
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    seed: Seed = 0


class DivergenceSection(Section):
    """How far next-token probabilities are from the base's."""

    prompts: Annotated[int, Field(ge=1, le=10_000)] = 32
    tokens: Annotated[int, Field(ge=1, le=10_000)] = Field(64, description="Positions of each answer.")
    top: Annotated[int, Field(ge=1, le=1024)] | None = Field(None, description="Probabilities asked a position.")


class ConsistencySection(Section):
    """The same prompts again and again at temperature 0."""

    items: Annotated[int, Field(ge=1, le=100_000)] = 20
    repeats: Annotated[int, Field(ge=2, le=100)] = 4


class QualitySection(Section):
    """What is asked about quality."""

    tasks: dict[WorkloadName, TaskSection] = Field(default_factory=dict)
    margin: Points = Field(1.0, description="A loss of accuracy within it does not matter [percentage points].")
    divergence: DivergenceSection | None = None
    consistency: ConsistencySection | None = None


class EnergySection(Section):
    """A declared model of the machine's power, used where nothing measures it."""

    idle: Watts = Field(description="Without load.")
    busy: Watts = Field(description="With all cores, or the whole GPU, at work.")


class ExperimentFile(Section):
    """A Bakeoff experiment: which variants are compared, under which traffic, with which budget."""

    name: Title | None = Field(None, description="By default the name of the file.")
    variants: Annotated[dict[VariantName, VariantSection], Field(min_length=2)] = Field(
        description="The first is the base; each other one is compared with it."
    )
    workloads: Annotated[dict[WorkloadName, WorkloadSection], Field(min_length=1)]
    budget: BudgetSection = Field(default_factory=BudgetSection)
    starts: Starts | None = Field(None, description="every round | every N rounds | once")
    gates: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="What must be decided: metric, metric.statistic, workload.metric or all three."
    )
    margin: Share = Field(0.03, description="Differences within it do not matter.")
    margins: dict[str, Share] = Field(
        default_factory=dict, description="Margins of single metrics, where they differ from `margin`."
    )
    method: Literal["anytime", "fixed"] = Field(
        "anytime", description="fixed: as many pairs as budget.pairs says, one look at the end, Holm over the gates."
    )
    confidence: Confidence = 0.95
    resident: Literal["one", "all"] | None = Field(None, description="How many variants are up at the same time.")
    warmup: WarmupSection = Field(default_factory=WarmupSection)
    quality: QualitySection | None = Field(None, description="Questions with right answers, and probabilities.")
    energy: EnergySection | None = Field(None, description="Declared watts, for variants without their own.")
    page_cache: Literal["as found", "warm", "cold", "alternate"] = Field(
        "as found", description="How starts of engine llamacpp find their model file; alternate: cold every other time."
    )
    profile: bool = Field(False, description="A short profiled pass of each variant after the measuring.")
    aa: Annotated[int, Field(ge=0, le=100)] = Field(2, description="Pairs of base against base, a test of the bench.")
    seed: Seed = 0


# Which model describes the mapping at a path ("*" stands for a name of the user's).
SECTIONS: dict[tuple[str, ...], type[BaseModel]] = {
    (): ExperimentFile,
    ("budget",): BudgetSection,
    ("warmup",): WarmupSection,
    ("energy",): EnergySection,
    ("quality",): QualitySection,
    ("quality", "tasks", "*"): TaskSection,
    ("quality", "divergence"): DivergenceSection,
    ("quality", "consistency"): ConsistencySection,
    ("variants", "*"): VariantSection,
    ("workloads", "*"): WorkloadSection,
    ("workloads", "*", "prompts"): PromptsSection,
    ("workloads", "*", "load"): LoadSection,
    ("workloads", "*", "block"): BlockSection,
    ("workloads", "*", "sampling"): SamplingSection,
}


def known_keys(section: tuple[str, ...]) -> list[str]:
    """The keys that a section may have (empty for an unknown section)."""
    for pattern, model in SECTIONS.items():
        if len(pattern) == len(section) and all(p in ("*", s) for p, s in zip(pattern, section, strict=True)):
            return list(model.model_fields)
    return []
