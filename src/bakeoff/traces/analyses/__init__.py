"""Analyses of a Timeline: each is a plain function, and the list below says which ones a report holds.

To add one, write ``def name(timeline: Timeline) -> Section | None`` (None: the trace has nothing of the kind) in a file
of this folder and put it into ANALYSES.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .communication import communication
from .compiling import compiling, phases
from .copies import copies
from .host_side import host_side
from .kernels import kernels
from .launches import graphs, launches
from .op_kernels import op_kernels
from .operators import operators
from .quantisation import quantisation
from .roofline import roofline
from .steps import steps

if TYPE_CHECKING:
    from ..section import Section
    from ..timeline import Timeline

    Analysis = Callable[[Timeline], Section | None]

ANALYSES: tuple[Analysis, ...] = (
    steps,
    kernels,
    op_kernels,
    quantisation,
    roofline,
    launches,
    graphs,
    copies,
    communication,
    host_side,
    operators,
    compiling,
    phases,
)
