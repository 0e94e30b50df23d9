"""Experiment files and command-line options → Experiment. All errors at once, each with its place."""

from .build import EngineProblems
from .load import experiment_schema, load_experiment, parse_experiment
from .made import refuse_wrong
from .options import CliOptions, from_options

__all__ = [
    "CliOptions",
    "EngineProblems",
    "experiment_schema",
    "from_options",
    "load_experiment",
    "parse_experiment",
    "refuse_wrong",
]
