"""Whether an experiment asks enough questions for its margin, said before it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..measure.divergence_pass import SHARE
from ..model import Divergence, Experiment
from ..quality.tasks import count_items

#: Share of items that two runs of one server flip at one repeat, where nothing is known yet: what is usual.
USUAL_FLIPS = 0.14


def quality_lines(experiment: Experiment) -> Iterator[str]:
    """What is asked about quality, for the plan."""
    quality = experiment.quality
    for task in quality.tasks if quality is not None else ():
        items = count_items(task)
        repeats = f", {task.repeats} answers each" if task.repeats > 1 else ""
        rounds = experiment.budget.min_pairs
        yield (
            f"quality   {task.name}: {f'{items:,}' if items is not None else 'all'} questions{repeats}, dealt out over "
            f"the first {rounds} rounds"
        )
    if quality is not None and quality.divergence is not None:
        yield from _divergence_lines(experiment, quality.divergence)


def _divergence_lines(experiment: Experiment, asked: Divergence) -> Iterator[str]:
    """Requests of the divergence: the base answers, every variant walks along, the base twice."""
    walks = len(experiment.variants) + 1
    least, most = asked.prompts * walks, asked.prompts * walks * asked.tokens
    engines = {variant.engine for variant in experiment.variants}
    told = f"{most:,}" if engines == {"llamacpp"} else f"{least:,} (vLLM) to {most:,} (llama.cpp, one a token)"
    yield (
        f"diverges  {walks} walks along {asked.prompts:,} answers of the base, up to {asked.tokens:,} tokens each, "
        "before the rounds"
    )
    yield f"          {told} requests, and {asked.prompts:,} for the answers; at most {SHARE:.0%} of the time budget"


def quality_warnings(experiment: Experiment) -> Iterator[str]:
    """One sentence a task that has fewer items than its margin needs."""
    quality = experiment.quality
    if quality is None:
        return
    from ..stats.accuracy import items_for

    for task in quality.tasks:
        items = count_items(task)
        variance = USUAL_FLIPS / task.repeats
        needed = items_for(variance, quality.margin_points / 100)
        if items and needed is not None and items < needed:
            shown = 100 * math.sqrt(6.18 * variance / items)
            yield (
                f"quality.tasks.{task.name}: {items:,} items are few for a margin of {quality.margin_points:g} "
                f"points: at {USUAL_FLIPS * 100:.0f} % flips it takes about {needed:,}; they settle a margin of "
                f"{shown:.1f} points"
            )
