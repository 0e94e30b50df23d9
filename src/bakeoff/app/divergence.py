"""Divergence in a run: walked before the rounds, on starts of its own; told as rows of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import BakeoffError
from ..model import Experiment, QualityScore
from ..runs import RunFolder
from ..runs.divergence import DivergenceStore

if TYPE_CHECKING:
    from ..measure.progress import Progress
    from ..measure.runner import Attempt, Runner
    from ..quality.items import LoadedTask
    from ..quality.probabilities import Prompt


def walk(
    experiment: Experiment,
    runner: Runner,
    attempt: Attempt,
    folder: RunFolder,
    progress: Progress,
    tasks: Sequence[LoadedTask],
) -> None:
    """Lets every variant that has not yet done so tell its probabilities along the base's answers.

    What fails costs the divergence only: the comparison goes on without it.
    """
    if experiment.quality is None or experiment.quality.divergence is None:
        return
    store = DivergenceStore(folder.path)
    prompts = prompts_of(tasks, experiment.quality.divergence.prompts)
    try:
        runner.diverge(
            attempt,
            sink=store,
            prompts=prompts,
        )
    except (BakeoffError, OSError) as error:
        progress.note(f"no divergence: {error}")


def prompts_of(tasks: Sequence[LoadedTask], count: int) -> list[Prompt]:
    """The first questions of the tasks, which take turns; as messages where a task goes through the chat template."""
    longest = max((len(loaded.items) for loaded in tasks), default=0)
    turns = [(loaded.task, loaded.items[n]) for n in range(longest) for loaded in tasks if n < len(loaded.items)]
    found: list[Prompt] = []
    for task, item in turns[:count]:
        if task.template == "chat":
            found.append([*(item.messages or ({"role": "user", "content": item.prompt},))])
        else:
            found.append(item.prompt)
    return found


def divergence_of(experiment: Experiment, folder: RunFolder) -> tuple[QualityScore, ...]:
    """The rows of a run; none where none was asked for. Files that cannot be read make rows that say so."""
    if experiment.quality is None or experiment.quality.divergence is None:
        return ()
    from ..compare.divergence import divergence_scores, invalid_row

    store = DivergenceStore(folder.path)
    names = [candidate.name for candidate in experiment.candidates]
    try:
        return divergence_scores(store.passes(), store.rows, experiment.base.name, names, experiment.confidence)
    except (BakeoffError, ValueError) as error:
        reason = f"its files cannot be read: {error.message if isinstance(error, BakeoffError) else error}"
        return tuple(invalid_row(name, reason) for name in names)
