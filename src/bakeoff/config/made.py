"""An Experiment made in code, held against the rules of a file: the same checks, told by the names of its fields."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConfigError
from ..model import Budget, Experiment, Load, Problem, Prompts, Quality, QualityTask, Workload
from .build import build_experiment
from .places import Key, Ledger, Spot, dotted

_LEVELS = {"closed": "concurrency", "open": "rate", "replay": "replay"}
# A key of a file → the field; "*" stands for a name.
_FIELDS: dict[Key, str] = {
    ("budget", "pairs"): "budget.min_pairs, budget.max_pairs",
    ("budget", "minutes"): "budget.seconds",
    ("starts",): "start_every",
    ("aa",): "aa_pairs",
    ("energy",): "power",
    ("quality", "margin"): "quality.margin_points",
    **{("workloads", "*", "load", name): "workloads.*.load.levels" for name in _LEVELS.values()},
    **{("workloads", "*", "load", name): "workloads.*.load.search" for name in ("sweep", "find")},
    **{("workloads", "*", "load", n): f"workloads.*.load.search.{n}" for n in ("low", "high", "attainment")},
    ("workloads", "*", "load", "slo"): "workloads.*.slo",
    ("workloads", "*", "load", "ramp"): "workloads.*.load.ramp_s",
    ("workloads", "*", "prompts", "think"): "workloads.*.prompts.think_s",
}
_OF_A_FILE = re.compile(r"(?!metrics\b)\w+: ")
_REMEDIES = {"leave `starts` out": "start_every=0", "leave `resident` out": 'resident="all"'}


def refuse_wrong(experiment: Experiment, environ: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError, with every problem, for an Experiment that no file could have described.

    Relative paths count from the current folder. What engines find wrong with their settings is not asked here.
    """
    checked = _typed(experiment)
    ledger = Ledger(f"the experiment {checked.name!r}", _Fields())
    for section, names in (
        ("variants", [variant.name for variant in checked.variants]),
        ("workloads", [workload.name for workload in checked.workloads]),
        ("quality.tasks", [task.name for task in checked.quality.tasks] if checked.quality else []),
    ):
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            ledger.add((*section.split("."), name), "the name stands twice", "give each a name of its own")
    build_experiment(
        _as_file(checked),
        ledger,
        where=Path.cwd(),
        environ=os.environ if environ is None else environ,
        default_name=checked.name,
        engine_problems=None,
    )


class _Fields:
    """Places in an Experiment: the field that a key of a file stands for."""

    def spot(self, key: Key, *, on_key: bool) -> Spot:
        """The field."""
        del on_key  # a field has one place
        return Spot((0,), _field(key) or "experiment", names_key=True)

    def remedy(self, text: str) -> str:
        """What is to be written in a file is said to be so."""
        for known, ours in _REMEDIES.items():
            text = text.replace(known, ours)
        return f"in a file: {text}" if _OF_A_FILE.match(text) else text


def _field(key: Key) -> str:
    if key[:1] == ("variants",) and len(key) > 2 and key[2] != "engine":
        key = (*key[:2], "settings", *key[2:])
    plain = tuple("*" if place == 1 and key[0] == "workloads" else part for place, part in enumerate(key))
    for length in range(len(key), 0, -1):
        field = _FIELDS.get(plain[:length])
        if field is not None:
            return dotted((field.replace("*", key[1] if len(key) > 1 else ""), *key[length:]))
    return dotted(key)


def _typed(experiment: Experiment) -> Experiment:
    """The same with every value of its declared type. msgspec checks none when a struct is made in code."""
    try:
        return msgspec.convert(msgspec.to_builtins(experiment), Experiment)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        message, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`")
        message = message.replace("`", "")
        raise ConfigError(
            message,
            where=field or "experiment",
            remedy="see bakeoff.model for the types of the fields",
            problems=[Problem(key=tuple(field.split(".")) if field else (), message=message, remedy="")],
        ) from None


def _as_file(experiment: Experiment) -> dict[str, Any]:
    """The mapping that a file would hold. What equals a default that a file may not write is left out."""
    every, power = experiment.start_every, experiment.power
    return {
        "name": experiment.name,
        "variants": {v.name: {**v.settings, "engine": v.engine} for v in experiment.variants},
        "workloads": {workload.name: _workload(workload) for workload in experiment.workloads},
        "budget": _budget(experiment.budget),
        "starts": "once" if every == 0 else f"every {every} rounds",
        "gates": list(experiment.gates),
        "margin": experiment.margin,
        "margins": dict(experiment.margins),
        "method": experiment.method,
        "confidence": experiment.confidence,
        "resident": experiment.resident,
        "warmup": msgspec.structs.asdict(experiment.warmup),
        "energy": msgspec.structs.asdict(power) if power is not None else None,
        "quality": _quality(experiment.quality) if experiment.quality is not None else None,
        "page_cache": experiment.page_cache,
        "profile": experiment.profile,
        "aa": experiment.aa_pairs,
        "seed": experiment.seed,
    }


def _given(pairs: Iterable[tuple[str, Any, Any]]) -> dict[str, Any]:
    """(key, value, default): those whose value is another one."""
    return {key: value for key, value, default in pairs if value != default}


def _budget(budget: Budget) -> dict[str, Any]:
    spend = budget.spend
    return {
        "pairs": f"{budget.min_pairs}..{budget.max_pairs}",
        "minutes": None if budget.seconds is None else f"{_decimal(budget.seconds)} s",
        "requests": budget.requests,
        "spend": None if spend is None else f"{_decimal(spend.amount)} {spend.currency}",
    }


def _decimal(value: float) -> str:
    """Never in the scientific form."""
    text = f"{value:.9f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _workload(workload: Workload) -> dict[str, Any]:
    block = workload.block
    found: dict[str, Any] = {
        "prompts": _prompts(workload.prompts),
        "length": workload.length,
        "load": _load(workload.load),
        "block": _given((("requests", block.requests, None), ("seconds", block.seconds, None))),
        "sampling": msgspec.structs.asdict(workload.sampling),
        "api": workload.api,
        "cache": workload.cache,
        "slo": dict(workload.slo),
    }
    if not workload.prompts.recorded_lengths:
        found["output_tokens"] = workload.output_tokens
    return found


def _prompts(prompts: Prompts) -> dict[str, Any]:
    return {
        "source": prompts.source,
        "seed": prompts.seed,
        **_given(
            (
                ("input_tokens", prompts.input_tokens, None),
                ("path", prompts.path, None),
                ("shared_prefix", prompts.shared_prefix, 0.0),
                ("turns", prompts.turns, 1),
                ("think", prompts.think_s, 0.0),
                ("history", prompts.history, "recorded"),
                ("sample", prompts.sample, None),
                ("max_input_tokens", prompts.max_input_tokens, None),
                ("overlong", prompts.overlong, "truncate"),
            )
        ),
    }


def _load(load: Load) -> dict[str, Any]:
    """Levels that a search has found stand as if they had been given."""
    search = load.search
    found = _given((("arrivals", load.arrivals, "poisson"), ("burstiness", load.burstiness, 1.0)))
    if load.arrivals == "gamma":
        found["burstiness"] = load.burstiness
    if load.ramp_s != 0:
        found["ramp"] = load.ramp_s
    if search is None or load.levels:
        whole = load.kind == "closed"
        levels = [int(level) if whole and level.is_integer() else level for level in load.levels]
        return {**found, _LEVELS[load.kind]: levels}
    found |= {"low": search.low, "high": search.high}
    if search.kind == "find":
        return {**found, "find": "goodput", "attainment": search.attainment}
    return {**found, "sweep": "concurrency" if load.kind == "closed" else "rate"}


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "tasks": {task.name: _task(task) for task in quality.tasks},
        "margin": quality.margin_points,
        "divergence": msgspec.structs.asdict(quality.divergence) if quality.divergence is not None else None,
        "consistency": msgspec.structs.asdict(quality.consistency) if quality.consistency is not None else None,
    }


def _task(task: QualityTask) -> dict[str, Any]:
    found = {key: value for key, value in msgspec.structs.asdict(task).items() if value not in (None, (), {})}
    del found["name"]
    if "stop" in found:
        found["stop"] = list(task.stop)
    # The file of a function that was looked up already stands with its path.
    looked_up = task.function is not None and task.function.rpartition(":")[0].endswith(".py")
    if task.source != "jsonl" or looked_up:
        found.pop("scorer", None)
    if looked_up:
        del found["function"]
    return found
