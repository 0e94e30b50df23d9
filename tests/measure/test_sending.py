from __future__ import annotations

import asyncio

import pytest

from bakeoff.client import ClientBlock
from bakeoff.errors import UsageError
from bakeoff.measure.plan import Step
from bakeoff.measure.sending import Sending, processes_wanted
from bakeoff.model import Cell, LoadKind, RequestRecord


def step(level: float, kind: LoadKind = "closed", variant: str = "base") -> Step:
    return Step(0, 0, variant, "measure", Cell(workload="w", kind=kind, level=level), 0)


def warm(cpu_s: float, *, requests: int = 100, late_ns: int = 100_000) -> ClientBlock:
    """One second of warm-up."""
    records = [RequestRecord(index=i, prompt_id=i, scheduled_ns=0) for i in range(requests)]
    return ClientBlock(records=records, started_ns=0, ended_ns=10**9, loop_lag_ns=[late_ns] * 100, cpu_s=cpu_s)


@pytest.mark.parametrize(
    ("cpu_s", "late_ms", "cores", "local", "processes"),
    [
        (0.1, 0.1, 32, False, 1),
        (0.1, 50.0, 32, False, 1),  # so little work is not what made the loop late
        (0.6, 0.1, 32, False, 2),
        (3.0, 0.1, 32, False, 6),
        (0.4, 50.0, 32, False, 2),
        (3.0, 0.1, 4, False, 3),  # a core is left for the parent
        (3.0, 0.1, 16, True, 4),  # beside a server: a quarter of the cores
        (3.0, 50.0, 16, True, 6),  # half of them where the client cannot keep up
        (3.0, 0.1, 2, True, 1),
        (0.9, 50.0, 2, True, 1),
    ],
)
def test_processes_follow_the_need_within_what_the_machine_can_spare(
    cpu_s: float, late_ms: float, cores: int, local: bool, processes: int
) -> None:
    seen = [warm(cpu_s, late_ns=round(late_ms * 1e6))]
    assert Sending(cores, None).needed(step(64), seen, local=local) == processes


def test_an_open_loop_needs_what_its_rate_costs() -> None:
    seen = [warm(0.01, requests=10)]  # 1 ms a request, one at a time
    sending = Sending(32)
    assert sending.needed(step(100, "open"), seen, local=False) == 1
    assert sending.needed(step(2000, "open"), seen, local=False) == 4


def test_never_more_processes_than_slots_and_one_without_any_knowledge() -> None:
    assert Sending(32).needed(step(2), [warm(9.0)], local=False) == 2
    assert Sending(32).needed(step(64), [], local=False) == 1


def test_the_first_arm_decides_for_all() -> None:
    async def main() -> list[int]:
        sending = Sending(32)
        decided = []
        for variant, cpu_s in (("base", 0.1), ("flash", 5.0)):
            sending.note(step(64, variant=variant), warm(cpu_s))
            decided.append(await sending.prepare(step(64, variant=variant), local=False))
        sending.close()
        return decided

    assert asyncio.run(main()) == [1, 1]


def test_a_resumed_run_goes_on_with_the_instrument_that_it_began_with() -> None:
    async def main() -> tuple[int, int]:
        sending = Sending(32, 2)
        sending.keep({"w/c64": 1})
        sending.note(step(64), warm(9.0))
        kept = await sending.prepare(step(64), local=False)
        new = sending.needed(step(32), [warm(9.0)], local=False)
        sending.close()
        return kept, new

    assert asyncio.run(main()) == (1, 18)


def test_the_environment_may_ask_for_a_number() -> None:
    assert processes_wanted({}) is None
    assert processes_wanted({"BAKEOFF_CLIENT_PROCESSES": "auto"}) is None
    assert processes_wanted({"BAKEOFF_CLIENT_PROCESSES": " 3 "}) == 3
    for nonsense in ("0", "-1", "many", "1.5", "99999"):
        with pytest.raises(UsageError, match="number of processes"):
            processes_wanted({"BAKEOFF_CLIENT_PROCESSES": nonsense})


def test_workers_come_up_and_go() -> None:
    async def main() -> list[int]:
        sending = Sending(2, 2)
        assert await sending.prepare(step(64), local=True) == 2
        assert sending.shards is not None
        pids = sending.shards.pids
        sending.close()
        sending.close()
        assert sending.shards is None
        return pids

    assert len(set(asyncio.run(main()))) == 2
