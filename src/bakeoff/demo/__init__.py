"""The demo: a real question on a real model, prepared once on the user's own machine."""

from .experiment import QUALITY_NOTE, demo_experiment
from .models import DemoModels, prepare

__all__ = ["QUALITY_NOTE", "DemoModels", "demo_experiment", "prepare"]
