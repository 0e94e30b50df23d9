"""Checked data → Experiment; all checks in one place, whichever way the data came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BakeoffError
from ..model import (
    BlockSize,
    Budget,
    Experiment,
    Load,
    LoadKind,
    Power,
    Problem,
    Prompts,
    Sampling,
    Spend,
    Variant,
    Warmup,
    Workload,
)
from .places import Ledger
from .quality import build_quality
from .references import check_references, has_reference
from .rules import DEFAULT_GATES, RUNNING_ENGINE, all_running, check_rules
from .searching import build_search, fewest_of, limits_of, searched_kind
from .traffic import (
    LOADS,
    MAX_RECORDED_TOKENS,
    absolute_path,
    default_cache,
    exists,
    prompts_source,
    takes_recorded_lengths,
)

if TYPE_CHECKING:
    from .schema import ExperimentFile, LoadSection, WorkloadSection

# The setting that holds a path, by engine; every other engine's is `model`.
_PATH_KEYS = {RUNNING_ENGINE: "", "command": "cwd"}

EngineProblems = Callable[[Variant, Path], Sequence[Problem]]


def build_experiment(  # the six parameters are the whole input
    data: Mapping[str, Any],
    ledger: Ledger,
    *,
    where: Path,
    environ: Mapping[str, str],
    default_name: str,
    engine_problems: EngineProblems | None,
) -> Experiment:
    """The experiment, or ConfigError with everything that is wrong with the data."""
    from pydantic import ValidationError

    from .messages import note_errors
    from .schema import ExperimentFile

    checked: ExperimentFile | None = None
    try:
        checked = ExperimentFile.model_validate(data)
    except ValidationError as error:
        note_errors(error.errors(include_url=False), data, ledger)
    check_references(data, environ, ledger)
    check_rules(data, where, ledger)
    variants = _variants(data, where)
    if engine_problems is not None:
        for variant in variants:
            _check_engine(variant, where, engine_problems, ledger)
    ledger.raise_any()
    assert checked is not None  # noqa: S101 (no problem means that it is there)
    return _experiment(checked, variants, running=all_running(data), where=where, default_name=default_name)


def _variants(data: Mapping[str, Any], where: Path) -> tuple[Variant, ...]:
    """Every variant that can be recognised, even where others cannot."""
    entries = data.get("variants")
    found = []
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("engine"), str) and entry["engine"]:
            settings = {key: value for key, value in entry.items() if key != "engine"}
            found.append(
                Variant(name=name, engine=entry["engine"], settings=_anchored(entry["engine"], settings, where))
            )
    return tuple(found)


def _anchored(engine: str, settings: dict[str, Any], where: Path) -> dict[str, Any]:
    """Relative paths of this machine become absolute: a start knows nothing of the experiment's folder.

    `model` is a name that a server knows where the engine talks to a foreign server, and a path elsewhere.
    """
    key = _PATH_KEYS.get(engine, "model")
    path = settings.get(key) if key else None
    if not isinstance(path, str) or not path or has_reference(path):
        return settings
    absolute = absolute_path(path, where)
    # What is neither there nor looks like a file may be a name (of a model hub, say).
    if exists(absolute) or path.endswith(".gguf") or engine == "command":
        return {**settings, key: str(absolute)}
    return settings


def _check_engine(variant: Variant, where: Path, engine_problems: EngineProblems, ledger: Ledger) -> None:
    key = ("variants", variant.name)
    try:
        problems = engine_problems(variant, where)
    except BakeoffError as error:  # no such engine, or its library is missing
        ledger.add((*key, "engine"), error.message, error.remedy or "")
        return
    for problem in problems:
        full = (*key, *problem.key)
        # A variable that is not set has been reported already.
        if not (ledger.has(full) and "${" in str(_at(variant.settings, problem.key))):
            ledger.add(full, problem.message, problem.remedy)


def _at(value: Any, key: tuple[str, ...]) -> Any:
    for part in key:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _experiment(
    checked: ExperimentFile, variants: tuple[Variant, ...], *, running: bool, where: Path, default_name: str
) -> Experiment:
    budget, warmup = checked.budget, checked.warmup
    start_every = checked.starts if checked.starts is not None else (0 if running else 1)
    return Experiment(
        name=checked.name or default_name,
        variants=variants,
        workloads=tuple(_workload(name, entry, where) for name, entry in checked.workloads.items()),
        budget=Budget(
            min_pairs=budget.pairs[1 if checked.method == "fixed" else 0],
            max_pairs=budget.pairs[1],
            seconds=budget.minutes,
            requests=budget.requests,
            spend=Spend(amount=budget.spend[0], currency=budget.spend[1]) if budget.spend else None,
        ),
        start_every=start_every,
        gates=tuple(gate.strip() for gate in checked.gates) if checked.gates is not None else DEFAULT_GATES,
        margin=checked.margin,
        margins={name: float(margin) for name, margin in checked.margins.items()},
        method=checked.method,
        confidence=checked.confidence,
        resident=checked.resident or ("all" if running else "one"),
        warmup=Warmup(
            min_requests=warmup.min_requests, max_requests=warmup.max_requests, max_seconds=warmup.max_seconds
        ),
        quality=build_quality(checked.quality, where),
        power=Power(idle=checked.energy.idle, busy=checked.energy.busy) if checked.energy else None,
        page_cache=checked.page_cache,
        profile=checked.profile,
        aa_pairs=checked.aa,
        seed=checked.seed,
    )


def _workload(name: str, entry: WorkloadSection, where: Path) -> Workload:
    prompts, block, load = entry.prompts, entry.block, _load(entry.load)
    if block is not None:
        size = BlockSize(requests=block.requests, seconds=block.seconds)
    else:
        # Enough to fill every slot four times over, so that the steady part outweighs ramp and drain.
        slots = 4 * max(entry.load.concurrency or [1]) * prompts.turns
        size = BlockSize(requests=max(16, slots, fewest_of(load)))
    return Workload(
        name=name,
        prompts=_prompts(entry, where),
        output_tokens=entry.output_tokens or prompts.output_tokens or MAX_RECORDED_TOKENS,
        length=entry.length,
        load=load,
        block=size,
        sampling=Sampling(**entry.sampling.model_dump()),
        api=entry.api,
        cache=entry.cache or default_cache(prompts.model_dump()),
        slo=limits_of(entry.model_dump()),
    )


def _prompts(entry: WorkloadSection, where: Path) -> Prompts:
    prompts = entry.prompts
    return Prompts(
        source=prompts_source(prompts.model_dump()),
        input_tokens=prompts.input_tokens,
        path=str(absolute_path(prompts.path, where)) if prompts.path is not None else None,
        seed=prompts.seed,
        shared_prefix=prompts.shared_prefix,
        turns=prompts.turns,
        think_s=prompts.think or 0.0,
        history=prompts.history or "recorded",
        sample=prompts.sample,
        max_input_tokens=prompts.max_input_tokens,
        overlong=prompts.overlong or "truncate",
        recorded_lengths=takes_recorded_lengths(entry.model_dump()),
    )


def _load(load: LoadSection) -> Load:
    name = next((name for name in LOADS if getattr(load, name) is not None), None)
    kinds: dict[str, LoadKind] = {"concurrency": "closed", "rate": "open", "replay": "replay"}
    return Load(
        kind=kinds[name] if name else searched_kind(load.model_dump()),
        levels=tuple(float(level) for level in getattr(load, name)) if name else (),
        search=None if name else build_search(load.model_dump()),
        arrivals=load.arrivals or ("poisson" if load.burstiness is None else "gamma"),
        burstiness=load.burstiness or 1.0,
        ramp_s=load.ramp or 0.0,
    )
