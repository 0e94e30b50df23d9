"""Before anything is begun: do the servers answer that somebody else runs?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import EngineError
from ..measure.progress import Progress
from ..model import Engine, Experiment, StartContext

_REACHED = "openai"  # the engine that starts nothing


def refuse_unreached(experiment: Experiment, engines: Mapping[str, Engine], progress: Progress) -> None:
    """Reaches every server that is not ours to start. Raises EngineError, with the variant, where one does not answer.

    Without this look a dead one would be found only at its first visit, after minutes of measuring the others.
    """
    for variant in experiment.variants:
        if variant.engine != _REACHED:
            continue
        progress.phase(f"reaching {variant.name}")
        context = StartContext(log_path=Path(os.devnull), start_id=-1, round=0, group=0)
        try:
            engines[_REACHED].launch(variant, context).stop()
        except EngineError as error:
            error.where = f"variants.{variant.name}" + (f" ({error.where})" if error.where else "")
            raise
