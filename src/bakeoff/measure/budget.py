"""The budget of a run: time, requests, money. Asked before every block; predicted, not only noticed."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence

from ..errors import UsageError
from ..model import Experiment, Price, RequestRecord
from .plan import Step


class Ledger:
    """What has been used so far, and whether the next block still fits."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        elapsed_s: float = 0.0,
        requests: int = 0,
        spent: float = 0.0,
    ) -> None:
        self.budget = experiment.budget
        self.prices = {variant.name: variant.price or Price() for variant in experiment.variants}
        self.requests = requests
        self.spent = spent
        self._elapsed_before = elapsed_s
        self._started = time.monotonic()
        self._blocks: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._starts: dict[str, list[float]] = defaultdict(list)
        self._check_currency()

    def _check_currency(self) -> None:
        if self.budget.spend is None:
            return
        for name, price in self.prices.items():
            if not price.free and price.currency != self.budget.spend.currency:
                raise UsageError(
                    f"the price is in {price.currency}, the budget in {self.budget.spend.currency}",
                    where=f"variants.{name}.price",
                    remedy="give both in one currency",
                )

    @property
    def elapsed_s(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    @property
    def deadline_ns(self) -> int | None:
        """The end of the time budget on the monotonic clock, or None."""
        if self.budget.seconds is None:
            return None
        return time.monotonic_ns() + int((self.budget.seconds - self.elapsed_s) * 1e9)

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is used up."""
        return self.budget.seconds is not None and self.elapsed_s > self.budget.seconds

    def saw_block(self, step: Step, seconds: float) -> None:
        """Remembers how long a block took, its warm-up and preparation included."""
        self._blocks[step.variant, step.cell.key].append(seconds)

    def saw_start(self, variant: str, seconds: float) -> None:
        self._starts[variant].append(seconds)

    def saw_requests(self, variant: str, records: Sequence[RequestRecord], output_tokens: int) -> None:
        """Counts requests and money; warm-up requests cost as much as measured ones.

        A request whose server told no token counts costs what it may have cost at most: its whole prompt and
        `output_tokens`, the limit of its answer. One that was refused before it was answered costs nothing.
        """
        self.requests += len(records)
        price = self.prices[variant]
        for record in records:
            answered = record.status == 200  # HTTP: from then on the tokens are being paid
            asked = record.input_tokens
            written = record.output_tokens
            if asked is None:
                # Three characters a token is fewer than any common tokenizer needs for plain text.
                asked = len(record.prompt or "") // 3 if answered else 0
            if written is None:
                written = output_tokens if answered else 0
            self.spent += price.of(asked, written)

    def predicted_s(self, steps: Sequence[Step]) -> float | None:
        """Time for these blocks with their starts; None while a block of one of these kinds was never seen."""
        total = 0.0
        visits = set()
        for step in steps:
            seen = self._blocks.get((step.variant, step.cell.key))
            if not seen:
                return None
            total += statistics.median(seen)
            visits.add((step.variant, step.kind, step.group))
        for variant, _, _ in visits:
            if self._starts.get(variant):
                total += statistics.median(self._starts[variant])
        return total

    def refusal(self, steps: Sequence[Step], requests: int, worst_cost: float) -> str | None:
        """Why these blocks must not begin, or None. `worst_cost`: money if every answer has full length."""
        if self.budget.requests is not None and self.requests + requests > self.budget.requests:
            return f"request budget: {self.requests} of {self.budget.requests} requests are used"
        spend = self.budget.spend
        if spend is not None and self.spent + worst_cost > spend.amount:
            return (
                f"spend budget: {self.spent:.2f} of {spend.amount:g} {spend.currency} is spent, "
                f"and the next blocks may cost {worst_cost:.2f}"
            )
        if self.budget.seconds is not None:
            left = self.budget.seconds - self.elapsed_s
            need = self.predicted_s(steps)
            if left <= 0 or (need is not None and need > left):
                return f"time budget: {self.budget.seconds / 60:.3g} min"
        return None
