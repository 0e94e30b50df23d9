"""From a file (or an Experiment made in code) to a checked experiment and its engines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..config import load_experiment as _load
from ..config import refuse_wrong
from ..engines import get_engine
from ..errors import BakeoffError, ConfigError
from ..model import Engine, Experiment, Problem, Variant
from ..quality.items import LoadedTask
from ..quality.tasks import load_tasks
from ..workloads import PromptFactory

__all__ = ["Inputs", "checked_inputs", "engine_problems", "engines_of", "load_experiment", "refuse_wrong"]


class Inputs(NamedTuple):
    """What an experiment names, found fit for use."""

    engines: dict[str, Engine]
    tasks: tuple[LoadedTask, ...]


def load_experiment(path: str | Path, environ: Mapping[str, str] | None = None) -> Experiment:
    """Reads and checks an experiment file. Raises ConfigError with every problem found, each with its line."""
    return _load(Path(path), os.environ if environ is None else environ, engine_problems=engine_problems)


def engine_problems(variant: Variant, where: Path) -> Sequence[Problem]:
    """What the variant's engine finds wrong with its settings; an unknown engine is a problem too."""
    try:
        return get_engine(variant.engine).problems(variant.settings, where)
    except BakeoffError as error:
        return [Problem(key=("engine",), message=error.message, remedy=error.remedy or "")]


def engines_of(experiment: Experiment) -> dict[str, Engine]:
    """The engines an experiment needs, its settings checked (an Experiment may have been made in code)."""
    problems = [
        Problem(key=("variants", variant.name, *problem.key), message=problem.message, remedy=problem.remedy)
        for variant in experiment.variants
        for problem in engine_problems(variant, Path.cwd())
    ]
    if problems:
        lines = [f"{'.'.join(p.key)}: {p.message}" + (f" → {p.remedy}" if p.remedy else "") for p in problems]
        raise ConfigError("\n".join(lines), where=experiment.name, problems=problems)
    return {variant.engine: get_engine(variant.engine) for variant in experiment.variants}


def checked_inputs(experiment: Experiment) -> Inputs:
    """Reads everything that the experiment names, in the same way for a plan and for a run, before anything is begun.

    Files of prompts and traces are read whole; questions are read or made, which loads the libraries and the scorers
    of one's own that they need. Raises ConfigError (an engine's settings), UsageError (a price or a budget),
    WorkloadError (prompts, traces) and TaskError (questions), each naming the file, the line and the remedy.
    """
    from .foretell import refuse_impossible
    from .price import require_prices

    engines = engines_of(experiment)
    require_prices(experiment)
    refuse_impossible(experiment)
    for workload in experiment.workloads:
        PromptFactory(workload, seed=experiment.seed, run_id="")
    return Inputs(engines, load_tasks(experiment.quality))
