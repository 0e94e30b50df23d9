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

    source: Literal["synthetic", "jsonl"] | None = Field(None, description="synthetic, or jsonl where a path is given.")
    input_tokens: Count | None = Field(None, description="Exact length of synthetic prompts [tokens].")
    output_tokens: Count | None = Field(None, description="Length of each answer [tokens].")
    path: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="A JSON Lines file, relative to the experiment's folder."
    )
    seed: Seed = 0


class LoadSection(Section):
    """Closed loop (so many at a time) or open loop (so many a second)."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["concurrency"]}, {"required": ["rate"]}]})
    concurrency: Concurrencies | None = Field(None, description="Requests in flight, one cell for each number.")
    rate: Rates | None = Field(None, description="Requests per second, one cell for each number.")
    arrivals: Literal["poisson", "constant"] = "poisson"


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
    api: Literal["completions", "chat"] = "completions"
    cache: Literal["unique", "shared"] = Field("unique", description="unique: a nonce defeats the prefix cache.")
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
    confidence: Confidence = 0.95
    resident: Literal["one", "all"] | None = Field(None, description="How many variants are up at the same time.")
    warmup: WarmupSection = Field(default_factory=WarmupSection)
    aa: Annotated[int, Field(ge=0, le=100)] = Field(2, description="Pairs of base against base, a test of the bench.")
    seed: Seed = 0


# Which model describes the mapping at a path ("*" stands for a name of the user's).
SECTIONS: dict[tuple[str, ...], type[BaseModel]] = {
    (): ExperimentFile,
    ("budget",): BudgetSection,
    ("warmup",): WarmupSection,
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
