"""Searches against servers of known capacity, in simulated time."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import UsageError
from bakeoff.measure.budget import Ledger
from bakeoff.measure.pilot import Pilot, searches
from bakeoff.measure.plan import Step
from bakeoff.measure.search import (
    Found,
    Hunt,
    Reading,
    attained,
    fewest_requests,
    find,
    find_grid,
    grid_level,
    last_step,
    meets,
    probe_requests,
    read_probe,
    sweep,
    sweep_grid,
)
from bakeoff.model import (
    BlockSize,
    Budget,
    Experiment,
    Load,
    LoadKind,
    Prompts,
    RequestRecord,
    Search,
    Spend,
    Variant,
    Workload,
)

FIND = Search(kind="find", low=1.0, high=256.0, attainment=0.9)
SWEEP = Search(kind="sweep", low=1.0, high=256.0)


def run(hunt: Hunt, show: Callable[[float], Reading | None]) -> tuple[Found, list[float]]:
    asked: list[float] = []
    level = next(hunt)
    while True:
        asked.append(level)
        try:
            level = hunt.send(show(level))
        except StopIteration as ended:
            return ended.value, asked


class Server:
    """`slots` requests at a time, each taking `service_s`; what must wait does so in order of arrival."""

    def __init__(self, slots: int, service_s: float) -> None:
        self.slots, self.service_s = slots, service_s

    @property
    def capacity(self) -> float:
        return self.slots / self.service_s

    def open_loop(self, rate: float, count: int, seed: int = 0) -> list[RequestRecord]:
        draw = random.Random(seed)
        free = [0.0] * self.slots
        at, records = 0.0, []
        for index in range(count):
            at += draw.expovariate(rate)
            begin = max(at, heapq.heappop(free))
            heapq.heappush(free, begin + self.service_s)
            records.append(record(index, at, begin + 0.5 * self.service_s, begin + self.service_s))
        return records

    def closed_loop(self, slots: int, count: int) -> list[RequestRecord]:
        free, mine, records = [0.0] * self.slots, [0.0] * slots, []
        for index in range(count):
            at = heapq.heappop(mine)
            begin = max(at, heapq.heappop(free))
            heapq.heappush(free, begin + self.service_s)
            heapq.heappush(mine, begin + self.service_s)
            records.append(record(index, at, begin + 0.5 * self.service_s, begin + self.service_s))
        return records


def record(index: int, at: float, first: float, last: float, error: bool = False) -> RequestRecord:
    return RequestRecord(
        index=index,
        prompt_id=index,
        scheduled_ns=round(at * 1e9),
        first_token_ns=round(first * 1e9),
        first_output_ns=round(first * 1e9),
        last_token_ns=round(last * 1e9),
        output_tokens=11,
        error="timeout" if error else None,
    )


def reading(records: Sequence[RequestRecord], limit_s: float = 1.0) -> Reading:
    due = [r.scheduled_ns for r in records]
    return read_probe(records, (min(due), max(due)), {"ttft_s": limit_s})


# find ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_the_edge_lies_just_below_the_capacity(slots: int) -> None:
    server = Server(slots, 0.1)

    def show(rate: float) -> Reading:
        count = probe_requests(FIND, rate, 100, closed=False, slo={"ttft_s": 1.0})
        return reading(server.open_loop(rate, count))

    found, asked = run(find(FIND, near=10.0), show)
    assert found.edge is not None
    # Queueing takes some of it: with one slot more than with many, and for ten times the limit some more is held.
    assert 0.7 * server.capacity < found.edge < 1.25 * server.capacity
    assert len(asked) <= 10
    assert len(set(asked)) == len(asked)


def test_the_neighbour_above_the_edge_was_tried_and_failed() -> None:
    shown: dict[float, Reading] = {}

    def show(rate: float) -> Reading:
        shown[rate] = Reading(rate, 1.0 if rate <= 37 else 0.5, 0.0)
        return shown[rate]

    found, _ = run(find(FIND, near=3.0), show)
    assert found.edge == 36.4  # 2^(83/16) = 36.45, and the next one 38.05
    above = min(rate for rate in shown if rate > 37)
    assert above / found.edge < 2 ** (1.5 / 16)


@given(st.floats(0.5, 400), st.floats(0.01, 1000))
def test_every_edge_is_found_to_one_step_from_any_guess(edge: float, near: float) -> None:
    found, asked = run(find(FIND, near=near), lambda rate: Reading(rate, 1.0 if rate <= edge else 0.0, 0.0))
    assert len(asked) <= 14
    if edge < 1.0:
        assert found.edge is None
    else:
        assert found.edge is not None
        assert found.edge <= edge
        assert edge < found.edge * 2 ** (1.6 / 16) or found.edge == 256.0


def test_a_level_with_many_errors_does_not_hold() -> None:
    found, _ = run(find(FIND, near=1.0), lambda rate: Reading(rate, 1.0, 0.3 if rate > 8 else 0.0))
    assert found.edge == 8.0


def test_a_search_that_is_cut_short_knows_what_it_knows() -> None:
    left = [4]

    def show(rate: float) -> Reading | None:
        left[0] -= 1
        return Reading(rate, 1.0, 0.0) if left[0] >= 0 else None

    assert run(find(FIND, near=1.0), show)[0] == Found(8.0, (1.0, 2.0, 4.0, 8.0), "budget")
    assert run(find(FIND, near=1.0), lambda _rate: None)[0] == Found(None, (), "budget")
    assert run(sweep(SWEEP, whole=True), lambda _level: None)[0] == Found(None, (), "budget")


# sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_ends_when_more_at_a_time_gives_no_more() -> None:
    server = Server(8, 0.1)
    found, asked = run(
        sweep(SWEEP, whole=True), lambda level: reading(server.closed_loop(round(level), round(16 * level)))
    )
    assert found.edge == 8
    assert asked == [1, 2, 4, 8, 16, 32]


def test_a_sweep_of_rates_ends_beyond_the_capacity() -> None:
    server = Server(4, 0.1)
    found, asked = run(sweep(SWEEP, whole=False, near=10.0), lambda rate: reading(server.open_loop(rate, 600)))
    assert asked[0] == 8.0
    assert found.edge in (32.0, 64.0)
    assert asked[-1] <= 256


def test_a_sweep_ends_at_its_upper_end_and_at_a_collapse() -> None:
    found, asked = run(sweep(Search(kind="sweep", low=1, high=6), whole=True), lambda level: Reading(level, 1, 0))
    assert (found.edge, asked, found.ended) == (6, [1, 2, 4, 6], "upper end")
    found, asked = run(sweep(SWEEP, whole=True), lambda level: Reading(level, 1, 0.5 if level == 4 else 0))
    assert (found.edge, asked, found.ended) == (2, [1, 2, 4], "collapsed")
    # At the upper end, but the last step added nothing: that much is known.
    found, asked = run(
        sweep(Search(kind="sweep", low=1, high=8), whole=True), lambda level: Reading(min(level, 4), 1, 0)
    )
    assert (found.edge, asked, found.ended) == (4, [1, 2, 4, 8], "found")


def test_a_find_that_holds_at_its_upper_end_says_so() -> None:
    found, _ = run(find(FIND, near=1.0), lambda rate: Reading(rate, 1.0, 0.0))
    assert (found.edge, found.ended) == (FIND.high, "upper end")
    found, _ = run(find(FIND, near=1.0), lambda rate: Reading(rate, 1.0 if rate < 10 else 0.0, 0.0))
    assert found.ended == "found"
    assert run(sweep(SWEEP, whole=True), lambda _level: Reading(0, 0, 1))[0].edge is None


# grids ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, last_step(FIND)) | st.none(), min_size=1, max_size=4))
def test_the_grid_is_small_and_lies_around_every_edge(steps: list[int | None]) -> None:
    edges = [None if step is None else grid_level(FIND, step) for step in steps]
    grid = find_grid(FIND, edges)
    assert 2 <= len(grid) <= 6
    assert list(grid) == sorted(set(grid))
    known = [edge for edge in edges if edge is not None]
    for edge in (min(known), max(known)) if len(known) == len(edges) else ():
        assert any(level < edge for level in grid) or edge == FIND.low
        assert any(level > edge for level in grid) or edge == grid_level(FIND, last_step(FIND))


def test_edges_far_apart_have_levels_of_their_own() -> None:
    assert find_grid(FIND, [2.0, 64.0]) == (1.68, 2.0, 2.38, 53.8, 64.0, 76.1)
    assert len(find_grid(FIND, [10.0, 12.0])) == 6


def test_a_swept_grid_keeps_the_ends_and_the_knees() -> None:
    tried = tuple(float(2**i) for i in range(9))
    assert sweep_grid(SWEEP, [Found(8.0, tried), Found(16.0, tried)]) == (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    assert sweep_grid(SWEEP, [Found(None, ())]) == (1.0,)


# readings ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_fewest_requests_of_an_attainment() -> None:
    for share in (0.5, 0.9, 0.95, 0.99):
        fewest = fewest_requests(share)
        assert attained([True] * fewest) >= share > attained([True] * (fewest - 1))
    assert fewest_requests(0.99) == 268


def test_neighbours_that_fail_together_are_weaker_witnesses() -> None:
    scattered = [i % 10 != 0 for i in range(500)]
    clumped = [i >= 50 for i in range(500)]
    assert attained(clumped) < attained(scattered) < 0.9
    assert attained([]) == 0.0


@given(st.lists(st.booleans(), min_size=1))
def test_a_lower_bound_lies_below(met: list[bool]) -> None:
    assert -1e-12 <= attained(met) <= sum(met) / len(met)


def test_the_bound_covers_at_its_level() -> None:
    draw = random.Random(5)
    covered = sum(attained([draw.random() < 0.97 for _ in range(400)]) <= 0.97 for _ in range(1000))
    assert 930 <= covered <= 985


def test_every_limit_counts_and_an_undefined_value_breaks_none() -> None:
    one = record(0, 0.0, 0.4, 1.4)
    assert meets(one, {"ttft_s": 0.4, "tpot_s": 0.1, "e2e_latency_s": 1.4})
    assert not meets(one, {"ttft_s": 0.39})
    assert not meets(one, {"tpot_s": 0.099})
    assert not meets(one, {"e2e_latency_s": 1.39})
    assert meets(msgspec.structs.replace(one, output_tokens=1), {"tpot_s": 0.001})
    assert not meets(record(0, 0.0, 0.1, 0.2, error=True), {})


def test_a_probe_without_requests_holds_nothing() -> None:
    assert read_probe([], (0, 1), {}) == Reading(0.0, 0.0, 1.0)


# the pilot ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def experiment(search: Search, kind: LoadKind = "open", **budget: Any) -> Experiment:
    return Experiment(
        name="x",
        variants=tuple(
            Variant(name=name, engine="openai", settings={"price": {"input": 1.0, "output": 1.0}})
            for name in ("base", "fast")
        ),
        workloads=(
            Workload(
                name="chat",
                prompts=Prompts(input_tokens=10),
                output_tokens=10,
                load=Load(kind=kind, levels=(), search=search),
                block=BlockSize(requests=100),
                slo={"ttft_s": 1.0},
            ),
        ),
        budget=msgspec.structs.replace(Budget(seconds=None), **budget),
    )


class Clocked(Ledger):
    """A ledger whose time is told."""

    now_s = 0.0

    @property
    def elapsed_s(self) -> float:
        return self.now_s


class Bench:
    """Probes simulated servers; counts what it used."""

    def __init__(self, ledger: Clocked, servers: dict[str, Server]) -> None:
        self.ledger, self.servers = ledger, servers
        self.steps: list[Step] = []
        self.shown: list[tuple[Step, Reading]] = []
        self.notes: list[str] = []

    def typical_s(self, step: Step, workload: Workload) -> float:
        return self.servers[step.variant].service_s

    def probe(self, step: Step, workload: Workload) -> Reading | None:
        self.steps.append(step)
        count = workload.block.requests or 0
        self.ledger.requests += count
        self.ledger.spent += count * 20 / 1e6
        server = self.servers[step.variant]
        level = step.cell.level
        closed = step.cell.kind == "closed"
        self.ledger.now_s += 0.0 if closed else count / level
        found = reading(
            server.closed_loop(round(level), count) if closed else server.open_loop(level, count, seed=step.round)
        )
        self.shown.append((step, found))
        return found

    def note(self, text: str) -> None:
        self.notes.append(text)


SERVERS = {"base": Server(4, 0.1), "fast": Server(8, 0.1)}


def resolve(asked: Experiment, known: dict[tuple[str, str], Reading] | None = None) -> tuple[Experiment, Bench]:
    ledger = Clocked(asked)
    bench = Bench(ledger, SERVERS)
    return Pilot(asked, ledger, bench, known).resolve(), bench


def test_both_variants_get_one_grid_around_both_edges() -> None:
    asked = experiment(FIND)
    assert searches(asked)
    resolved, bench = resolve(asked)
    assert not searches(resolved)
    levels = resolved.workloads[0].load.levels
    assert levels[0] < 40
    assert levels[-1] > 80 / 1.2
    assert len(levels) <= 6
    assert {cell.level for cell in resolved.cells()} == set(levels)
    assert {step.kind for step in bench.steps} == {"probe"}
    assert min(step.round for step in bench.steps) >= asked.budget.max_pairs
    assert len({step.key for step in bench.steps}) == len(bench.steps)
    assert [note.split(":")[0] for note in bench.notes] == ["base", "fast"]


def test_a_search_is_gone_on_with_where_it_stopped() -> None:
    asked = experiment(FIND)
    resolved, bench = resolve(asked)
    shown = {(s.variant, s.cell.key): reading for s, reading in bench.shown}
    again, second = resolve(asked, shown)
    assert second.steps == []
    assert again == resolved
    part = dict(list(shown.items())[:3])
    again, third = resolve(asked, part)
    assert len(third.steps) == len(bench.steps) - 3
    assert again == resolved


def test_a_sweep_of_concurrencies() -> None:
    resolved, _ = resolve(experiment(SWEEP, "closed"))
    chat = resolved.workloads[0]
    assert chat.load.levels == (1.0, 2.0, 4.0, 8.0, 16.0)
    assert chat.block.requests == 100


@pytest.mark.parametrize("budget", [{"requests": 3000}, {"seconds": 120.0}, {"spend": Spend(amount=0.06)}])
def test_the_pilot_takes_a_third_of_each_budget_at_most(budget: dict[str, Any]) -> None:
    asked = experiment(FIND, **budget)
    resolved, bench = resolve(asked)
    assert bench.ledger.requests <= 1000 or "seconds" in budget
    assert bench.ledger.now_s <= 40 or "seconds" not in budget
    assert bench.ledger.spent <= 0.02 or "spend" not in budget
    assert any("ends early" in note for note in bench.notes)
    assert {step.variant for step in bench.steps} == {"base", "fast"}  # the first leaves its share to the second
    assert resolved.workloads[0].load.levels
    assert all(math.isfinite(level) for level in resolved.workloads[0].load.levels)


@pytest.mark.parametrize(
    ("kind", "high", "said"),
    [
        ("closed", 4.0, "is still rising at 4 at a time, the upper end of the search; raise `high`"),
        ("closed", 256.0, "gains nothing beyond about"),
        ("open", 8.0, "holds even at 8 requests/s, the upper end of the search; raise `high`"),
        ("open", 256.0, "holds up to about"),
    ],
)
def test_the_note_says_why_the_search_ended(kind: LoadKind, high: float, said: str) -> None:
    search = msgspec.structs.replace(SWEEP if kind == "closed" else FIND, high=high)
    _, bench = resolve(experiment(search, kind))
    assert len(bench.notes) == 2
    assert all(said in note for note in bench.notes)


@pytest.mark.parametrize(
    ("search", "kind", "budget", "where"),
    [
        (FIND, "open", {"seconds": 6.0}, "budget.minutes"),
        (FIND, "open", {"requests": 300}, "budget.requests"),
        (FIND, "open", {"spend": Spend(amount=0.003)}, "budget.spend"),
        (SWEEP, "closed", {"requests": 200}, "budget.requests"),
    ],
)
def test_a_budget_that_holds_no_probe_is_refused_with_what_it_takes(
    search: Search, kind: LoadKind, budget: dict[str, Any], where: str
) -> None:
    """Going on would compare at a rate that nobody asked for and nobody found."""
    with pytest.raises(UsageError) as caught:
        resolve(experiment(search, kind, **budget))
    assert caught.value.where == where
    assert "needs about" in caught.value.message
    assert "its share of the budget is" in caught.value.message
    assert caught.value.remedy is not None
    assert f"raise {where} to about" in caught.value.remedy
