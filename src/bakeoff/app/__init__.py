"""The public Python API: run an experiment, recompute a comparison, render a report."""

from .loading import load_experiment
from .recompute import compare, describe, report
from .session import run

__all__ = ["compare", "describe", "load_experiment", "report", "run"]
