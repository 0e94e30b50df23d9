"""What is still to come of a run: requests, money and time, from the plan and from what blocks have taken so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model import Block, Experiment, Look
from .budget import Ledger
from .plan import Step


class Forecast:
    """Upper bounds for what a budget must bear, and an estimate of the time to the end."""

    def __init__(self, experiment: Experiment, ledger: Ledger, warmup_of: Callable[[Step], int]) -> None:
        """warmup_of: warm-up requests that a step may need at most."""
        self._experiment = experiment
        self._ledger = ledger
        self._warmup_of = warmup_of

    def requests(self, steps: Sequence[Step]) -> int:
        """Requests that these blocks may send at most, their warm-up included."""
        blocks = sum(self._experiment.workload(s.cell.workload).block.requests or 1 for s in steps)
        return blocks + sum(self._warmup_of(s) for s in steps)

    def worst_cost(self, steps: Sequence[Step]) -> float:
        """Money these blocks may cost when every answer has its full length."""
        total = 0.0
        for step in steps:
            workload = self._experiment.workload(step.cell.workload)
            count = workload.block.requests or int((workload.block.seconds or 0) * max(step.cell.level, 1)) or 1
            count += self._warmup_of(step)
            tokens = workload.prompts.input_tokens or 1000  # unknown prompt lengths: a generous guess
            total += count * self._ledger.prices[step.variant].of(tokens, workload.output_tokens)
        return total

    def remaining_s(self, steps: Sequence[Step], look: Look, rounds: int) -> float | None:
        """Predicted seconds to the end: rounds still needed × what a group like the last one takes."""
        per_group = self._ledger.predicted_s(steps)
        if per_group is None:
            return None
        per_round = per_group / max(1, len({s.round for s in steps}))
        budget = self._experiment.budget
        wanted = max(budget.min_pairs - rounds, look.more_rounds if look.more_rounds is not None else 1, 1)
        seconds = per_round * min(wanted, budget.max_pairs - rounds)
        return seconds if budget.seconds is None else min(seconds, max(0.0, budget.seconds - self._ledger.elapsed_s))

    def worth_repeating(self, step: Step, block: Block) -> bool:
        """Whether a block that met a busy machine is measured again: the cause is others, and the budget allows it.

        The earlier try stays in the run folder; the comparison takes the last one of a place.
        """
        if step.kind == "probe" or not block.health.contended:
            return False  # a probe chooses levels, which need not be exact
        # Enough rounds to decide come before clean ones.
        rounds_left = self._experiment.budget.min_pairs - step.round
        places = [Step(step.round, 0, v.name, "measure", c, step.group) for v in self._experiment.variants
                  for c in self._experiment.cells()]  # fmt: skip
        need = self._ledger.predicted_s(places)
        budget = self._experiment.budget.seconds
        if budget is not None and need is not None and self._ledger.elapsed_s + need * rounds_left > budget:
            return False
        return self._ledger.refusal([step], self.requests([step]), self.worst_cost([step])) is None
