"""Which load levels to probe, and what they show: pure decisions, no server in sight.

A search is a generator: it yields a level, is sent what a probe block at that level showed, and returns what it found.
All variants search on one geometric grid, ``low · 2^(k/16)``, so that what they find can be compared level by level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..model import RequestRecord, Search

STEPS = 16  # grid levels a doubling: neighbours are 4.4 % apart, the resolution of an edge
RISE = 0.05  # a step that adds less throughput than this has added nothing
COLLAPSE = 0.20  # with a fifth of the requests lost the server is past its limit
ROOM = 1.5  # requests of a probe beyond the fewest that could hold, so that a single miss does not decide
MOST_LEVELS = 6
_SLOTS = 4  # requests a slot of a closed loop, so that most of a probe is its steady part
_FEWEST_OPEN = 32  # requests of an open-loop probe, enough to see a queue grow
_LIMITS = 10  # times its latency limit that a probe lasts: 11 % above its capacity a server still holds for so long
_LONGEST_S = 60.0


class Reading(NamedTuple):
    """One probe block. rps: answers that arrived per second of the steady window. held: lower bound of the share of
    requests that met every limit; errors: share that failed."""

    rps: float
    held: float
    errors: float


#: Why a search ended: the edge lies among the levels tried; a fifth of the requests failed; the upper end was reached,
#: and more might be had beyond; its share of the budget was used.
Ended = Literal["found", "collapsed", "upper end", "budget"]


class Found(NamedTuple):
    """edge: highest level that holds (find), or lowest that gives all the throughput there is (sweep); None where not
    even the lowest level holds, or where the budget ended the search before one did. tried: every level probed,
    rising."""

    edge: float | None
    tried: tuple[float, ...]
    ended: Ended = "found"


#: Sent None where the budget of the search is used up: it then returns what it knows.
Hunt = Generator[float, Reading | None, Found]


def grid_level(search: Search, step: int) -> float:
    """Level of a grid step, to three digits (neighbours differ in the second or third)."""
    return float(f"{search.low * 2 ** (step / STEPS):.3g}")


def last_step(search: Search) -> int:
    """The highest grid step that is not above the search's upper end."""
    return max(0, math.floor(STEPS * math.log2(search.high / search.low) + 1e-9))


def sweep(search: Search, *, whole: bool, near: float | None = None) -> Hunt:
    """Doubles the level until two steps in a row add nothing, the server collapses, or the upper end is reached.

    near: a level below which nothing is to be learnt; the sweep begins at the doubling of `low` just below it.
    """
    readings: dict[float, Reading] = {}
    doublings = math.floor(math.log2(max(search.low, min(near or 0.0, search.high)) / search.low))
    level, best, flat = search.low * 2**doublings, 0.0, 0
    ended: Ended = "found"
    while True:
        reading = yield level
        if reading is None:
            ended = "budget"
            break
        readings[level] = reading
        flat = flat + 1 if best and reading.rps < best * (1 + RISE) else 0
        best = max(best, reading.rps)
        following = min(level * 2, search.high)
        following = float(math.floor(following)) if whole else following
        if reading.errors > COLLAPSE:
            ended = "collapsed"
            break
        if flat >= 2 or following <= level:
            ended = "upper end" if flat == 0 else "found"  # one step that added nothing is an end as well
            break
        level = following
    alive = [at for at in sorted(readings) if readings[at].errors <= COLLAPSE]
    best = max((readings[at].rps for at in alive), default=0.0)
    good = [at for at in alive if readings[at].rps * (1 + RISE) >= best]
    return Found(good[0] if good and best else None, tuple(sorted(readings)), ended)


def find(search: Search, *, near: float) -> Hunt:
    """The highest level whose `held` is at least the attainment wanted: doubling from `near`, then bisection.

    near: a first guess, best below the edge: an overloaded probe takes long, since its queue has to drain.
    """
    top = last_step(search)
    guess = math.log2(max(near, search.low) / search.low)
    step = min(top, STEPS * math.floor(guess))
    tried: dict[int, bool] = {}
    holds, fails = -1, top + 1
    ended: Ended = "found"
    while fails - holds > 1:
        reading = yield grid_level(search, step)
        if reading is None:
            ended = "budget"
            break
        tried[step] = reading.held >= search.attainment and reading.errors <= COLLAPSE
        if tried[step]:
            holds = step
        else:
            fails = step
        if fails > top:
            step = min(top, step + STEPS)
        elif holds < 0:
            step = max(0, step - STEPS)
        else:
            step = (holds + fails) // 2
    edge = grid_level(search, holds) if holds >= 0 else None
    return Found(edge, tuple(grid_level(search, s) for s in sorted(tried)), "upper end" if holds == top else ended)


def find_grid(search: Search, edges: Sequence[float | None]) -> tuple[float, ...]:
    """At most six levels around all edges: a quarter of a doubling beyond the lowest and the highest one.

    The edge of a single round scatters about that of the run, so levels must lie on both sides of it. Edges more than
    two doublings apart get three levels each, instead of levels that lie around neither.
    """
    top = last_step(search)
    places = [0 if edge is None else round(STEPS * math.log2(edge / search.low)) for edge in edges]
    low, high = min(places), max(places)
    beyond = STEPS // 4
    if high - low > 2 * STEPS:
        steps = {place + offset for place in (low, high) for offset in (-beyond, 0, beyond)}
    else:
        first, last = low - beyond, high + beyond
        count = min(MOST_LEVELS, max(4, last - first + 1))
        steps = {round(first + i * (last - first) / (count - 1)) for i in range(count)}
    return tuple(sorted({grid_level(search, min(top, max(0, step))) for step in steps}))


def sweep_grid(search: Search, found: Sequence[Found]) -> tuple[float, ...]:
    """At most six of the levels tried: the lowest, every knee, one beyond the highest knee, and what lies around."""
    tried = sorted({level for one in found for level in one.tried}) or [search.low]
    knees = [one.edge for one in found if one.edge is not None] or tried[:1]
    tried = [level for level in tried if level <= 2 * max(knees)]  # beyond, there is nothing but waiting
    keep = {tried[0], tried[-1], *knees}
    by_distance = sorted(tried, key=lambda level: (min(abs(math.log(level / knee)) for knee in knees), level))
    for level in by_distance:
        if len(keep) >= MOST_LEVELS:
            break
        keep.add(level)
    return tuple(sorted(keep))


# what a probe shows ───────────────────────────────────────────────────────────────────────────────────────────────────


def fewest_requests(attainment: float) -> int:
    """Requests of a block in which an attainment can hold at all: with none missed, its lower bound is n ÷ (n + z²)."""
    return math.ceil(_Z**2 * attainment / (1 - attainment)) if attainment < 1 else 0


def steady_requests(level: float) -> int:
    """Requests of a closed-loop block that leave it a steady part: more than two for each slot."""
    return math.ceil(2.5 * level)


def probe_requests(search: Search, level: float, asked: int | None, *, closed: bool, slo: Mapping[str, float]) -> int:
    """Requests of one probe block at a level; `asked`: those of the workload's own blocks.

    With few requests no bound can hold; in a short block a queue that grows does not reach the limit.
    """
    if closed:
        return max(asked or 0, math.ceil(_SLOTS * level))
    if search.kind == "sweep":
        return max(asked or 0, _FEWEST_OPEN)
    waits = [slo[name] for name in ("ttft_s", "ttfo_s", "e2e_latency_s") if name in slo]
    lasting = min(_LONGEST_S, _LIMITS * min(waits, default=0.0))
    return max(asked or 0, math.ceil(ROOM * fewest_requests(search.attainment)), math.ceil(lasting * level))


def read_probe(records: Sequence[RequestRecord], window_ns: tuple[int, int], slo: Mapping[str, float]) -> Reading:
    """A block's reading. Without limits whoever is answered meets them."""
    if not records:
        return Reading(0.0, 0.0, 1.0)
    ordered = sorted(records, key=lambda r: r.scheduled_ns)
    begin, end = window_ns
    rate = sum(_arrived(r, window_ns) for r in ordered) / ((end - begin) / 1e9) if end > begin else 0.0
    errors = sum(r.error is not None for r in ordered) / len(ordered)
    return Reading(rate, attained([meets(r, slo) for r in ordered]), errors)


def _arrived(record: RequestRecord, window_ns: tuple[int, int]) -> float:
    """Share of the answer, which flows evenly from its first to its last chunk, that arrived in the window."""
    first, last = record.first_token_ns, record.last_token_ns
    if record.error is not None or first is None or last is None:
        return 0.0
    begin, end = window_ns
    if last <= first:
        return float(begin < last <= end)
    return max(0, min(last, end) - max(first, begin)) / (last - first)


def meets(record: RequestRecord, slo: Mapping[str, float]) -> bool:
    """Whether a request was answered within every limit [s]; an undefined value (TPOT of one token) breaks none."""
    if record.error is not None:
        return False
    values = {
        "ttft_s": _seconds(record.scheduled_ns, record.first_token_ns),
        "ttfo_s": _seconds(record.scheduled_ns, record.first_output_ns),
        "e2e_latency_s": _seconds(record.scheduled_ns, record.last_token_ns),
    }
    decode, tokens = _seconds(record.first_token_ns, record.last_token_ns), record.output_tokens or 0
    if decode and tokens >= 2:
        values["tpot_s"] = decode / (tokens - 1)
    return all((value := values.get(name)) is None or value <= limit for name, limit in slo.items())


def _seconds(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


_Z = 1.6448536269514722  # one-sided 95 %


def attained(met: Sequence[bool]) -> float:
    """One-sided 95 % lower bound (Wilson 1927) of the share of requests that met the limits, in order of schedule.

    Neighbours in a block share its queue, so they are no independent witnesses: with the lag-1 autocorrelation r of
    the outcomes n requests count as n · (1 − r) ÷ (1 + r), the size with which an AR(1) series has the same variance
    of its mean. Where all met (or all missed) the block shows no correlation, and n counts.
    """
    n = len(met)
    if n == 0:
        return 0.0
    share = sum(met) / n
    deviations = [m - share for m in met]
    variance = sum(d * d for d in deviations)
    lag = sum(a * b for a, b in itertools.pairwise(deviations)) / variance if variance else 0.0
    r = min(0.95, max(0.0, lag))
    size = max(1.0, n * (1 - r) / (1 + r))
    z = _Z * _Z / size
    return (share + z / 2 - _Z * math.sqrt(share * (1 - share) / size + z / (4 * size))) / (1 + z)
