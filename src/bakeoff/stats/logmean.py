"""The gap between two tasks' times, split exactly among calls, waiting, prefill, decode tokens and time per token.

A task is n calls; each waits, reads its prompt and writes tokens: T = n·w + n·p + n·k·τ, with k = reasoning + output
tokens after the first one. Log-mean weights (LMDI-I, Ang 2004): ln(T₁/T₀) = Σ over the three times T_i of
L(T_i₁, T_i₀)/L(T₁, T₀) · Σ over the factors of T_i of ln(f₁/f₀). The shares add up to the whole, need no order, and
change sign when the two are swapped. The two kinds of tokens add, so their factor splits again by log means.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import TooFewData

PARTS = ("calls", "waiting", "prefill", "reasoning tokens", "output tokens", "time per token")


def log_mean(a: float, b: float) -> float:
    """(a − b) ÷ ln(a ÷ b) of two positive numbers; a where they are equal."""
    if a == b:
        return a
    away = (a - b) / b
    # log1p keeps the quotient exact for numbers that hardly differ, and loses it where one is close to nothing.
    return (a - b) / (math.log1p(away) if abs(away) < 0.5 else math.log(a / b))


class TaskMeans(NamedTuple):
    """The mean task of one arm. Times [s]; waiting, prefill and decode are those of all calls of a task together.

    reasoning, output: tokens of a task after the first one of each call, which belongs to the prefill.
    """

    calls: float
    waiting_s: float
    prefill_s: float
    decode_s: float
    reasoning: float
    output: float

    @property
    def total_s(self) -> float:
        return self.waiting_s + self.prefill_s + self.decode_s

    @property
    def tokens(self) -> float:
        return self.reasoning + self.output

    @property
    def per_token_s(self) -> float:
        """Time per token after the first; NaN where a task has no such token."""
        return self.decode_s / self.tokens if self.tokens > 0 else math.nan


def split_task_time(base: TaskMeans, other: TaskMeans) -> dict[str, float]:
    """Share of ln(other ÷ base) that each of PARTS holds; they sum to it.

    A time that only one of the two has goes to its own part (decode: to the tokens). Raises TooFewData for numbers that
    are negative or not finite, for no calls and for no time at all.
    """
    numbers = [*base, *other]
    if any(not 0 <= n < math.inf for n in numbers) or min(base.calls, other.calls, base.total_s, other.total_s) <= 0:
        raise TooFewData("these task times cannot be split", remedy="give times and calls above zero")
    whole = log_mean(other.total_s, base.total_s)
    calls = math.log(other.calls / base.calls)
    shares = dict.fromkeys(PARTS, 0.0)
    times = (("waiting", base.waiting_s, other.waiting_s), ("prefill", base.prefill_s, other.prefill_s))
    for name, before, after in times:
        of_calls = _weight(before, after) * calls
        shares["calls"] += of_calls
        shares[name] += after - before - of_calls
    for name, seconds in _decode(base, other, calls).items():
        shares[name] += seconds
    return {name: seconds / whole for name, seconds in shares.items()}


def _decode(base: TaskMeans, other: TaskMeans, calls: float) -> dict[str, float]:
    """The change of the decode time [s] by part."""
    change = other.decode_s - base.decode_s
    weight = _weight(base.decode_s, other.decode_s)
    if base.tokens == other.tokens == 0:  # how many tokens they were is not known
        return {"calls": weight * calls, "time per token": change - weight * calls}
    if weight == 0 or min(base.tokens, other.tokens) <= 0:
        # An arm that decodes nothing has no time per token: what the other one spends is for its tokens.
        more = _by_kind(base, other, (1.0, 1.0))
        total = sum(more.values())
        return {name: change * part / total for name, part in more.items()} if total else {"time per token": change}
    parts = {"calls": weight * calls}
    # Tokens of a call, so that calls are not counted twice: their factor is the tokens' own without that of the calls.
    kinds = _by_kind(base, other, (base.calls, other.calls))
    size = log_mean(other.tokens / other.calls, base.tokens / base.calls)
    parts |= {name: weight * part / size for name, part in kinds.items()}
    parts["time per token"] = change - sum(parts.values())
    return parts


def _by_kind(base: TaskMeans, other: TaskMeans, per: tuple[float, float]) -> dict[str, float]:
    """How many tokens more of each kind, per so many."""
    return {
        "reasoning tokens": other.reasoning / per[1] - base.reasoning / per[0],
        "output tokens": other.output / per[1] - base.output / per[0],
    }


def _weight(before: float, after: float) -> float:
    """L(after, before), and its limit 0 where one of them vanishes."""
    return log_mean(after, before) if before > 0 and after > 0 else 0.0
