"""Is this machine fit to measure? A reading of the machine, judged by pure functions.

``examine()`` takes a reading and judges it; ``diagnose(reading)`` judges a reading from anywhere.
"""

from __future__ import annotations

from .diagnosis import Diagnosis, Finding, Severity, diagnose, examine
from .reading import Activity, Clock, Cpu, Gpu, HotProcess, Lag, Limits, Memory, Place, Power, Reading
from .render import render, to_json

__all__ = [
    "Activity",
    "Clock",
    "Cpu",
    "Diagnosis",
    "Finding",
    "Gpu",
    "HotProcess",
    "Lag",
    "Limits",
    "Memory",
    "Place",
    "Power",
    "Reading",
    "Severity",
    "diagnose",
    "examine",
    "render",
    "to_json",
]
