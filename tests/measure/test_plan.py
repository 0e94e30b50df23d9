from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.measure.plan import Plan, williams_orders
from bakeoff.model import BlockSize, Budget, Experiment, Load, Prompts, Variant, Workload


def experiment(count: int = 2, **changes: object) -> Experiment:
    workload = Workload(
        name="chat",
        prompts=Prompts(input_tokens=8),
        output_tokens=4,
        load=Load(kind="closed", levels=(1, 4)),
        block=BlockSize(requests=2),
    )
    plain = Experiment(
        name="x",
        variants=tuple(Variant(name=f"v{i}", engine="openai") for i in range(count)),
        workloads=(workload,),
        budget=Budget(min_pairs=6, max_pairs=12),
        aa_pairs=0,
    )
    return msgspec.structs.replace(plain, **changes)


def test_two_variants_give_abba() -> None:
    assert williams_orders(2) == [(0, 1), (1, 0)]


@given(st.integers(2, 9))
def test_williams_orders_balance_position_and_predecessor(count: int) -> None:
    rows = williams_orders(count)
    assert all(sorted(row) == list(range(count)) for row in rows)
    positions = Counter((place, item) for row in rows for place, item in enumerate(row))
    assert len(set(positions.values())) == 1
    assert len(positions) == count * count
    followers = Counter(pair for row in rows for pair in pairwise(row))
    assert len(followers) == count * (count - 1)
    assert len(set(followers.values())) == 1


def test_every_round_measures_every_variant_in_every_cell_once() -> None:
    groups = list(Plan(experiment(3)).groups())
    assert len(groups) == 12
    for round_, steps in enumerate(groups):
        assert {s.round for s in steps} == {round_}
        assert len({s.key for s in steps}) == len(steps) == 3 * 2


def test_cells_of_a_round_come_in_one_order_for_all_variants() -> None:
    for steps in Plan(experiment(3)).groups():
        orders = {
            variant: [s.cell.key for s in steps if s.variant == variant] for variant in {s.variant for s in steps}
        }
        assert len({tuple(order) for order in orders.values()}) == 1


def test_rounds_that_share_a_start_follow_each_other_within_the_variant() -> None:
    """One resident at a time: a variant runs all rounds of its start before the next variant starts."""
    first = next(iter(Plan(experiment(2, start_every=3)).groups()))
    assert {s.round for s in first} == {0, 1, 2}
    changes = sum(a.variant != b.variant for a, b in pairwise(first))
    assert changes == 1


def test_resident_all_interleaves_every_round_even_within_one_start() -> None:
    groups = list(Plan(experiment(2, start_every=0, resident="all")).groups())
    assert len(groups) == 12
    assert {s.group for steps in groups for s in steps} == {0}


def test_aa_visits_come_in_the_first_rounds_only_and_not_always_last() -> None:
    groups = list(Plan(experiment(2, aa_pairs=5)).groups())
    with_aa = [steps for steps in groups if any(s.kind == "aa" for s in steps)]
    assert len(with_aa) == 5
    places = {next(s.position for s in steps if s.kind == "aa") for steps in with_aa}
    assert len(places) > 1
    assert all(s.variant == "v0" for steps in with_aa for s in steps if s.kind == "aa")


def test_a_plan_is_a_function_of_the_experiment() -> None:
    assert list(Plan(experiment(3)).groups()) == list(Plan(experiment(3)).groups())


@pytest.mark.parametrize(("every", "rounds", "group"), [(1, 5, 5), (4, 5, 1), (0, 5, 0)])
def test_group_of_a_round(every: int, rounds: int, group: int) -> None:
    assert Plan(experiment(2, start_every=every)).group_of(rounds) == group
