from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bakeoff.client import ClientBlock
from bakeoff.measure.health import block_health, block_memory, quantile
from bakeoff.model import RequestRecord, Sample

SECOND = 1_000_000_000


def samples(other: float, *, steal: float = 0.0) -> list[Sample]:
    """Two seconds of a server that uses 1.5 cores, a client that uses 0.1, and others."""
    return [
        Sample(
            t_ns=i * SECOND,
            tree_cpu_s=10 + 1.5 * i,
            client_cpu_s=3 + 0.1 * i,
            machine_busy_s=100 + (1.6 + other) * i,
            machine_steal_s=steal * i,
            runnable=i + 1,
        )
        for i in range(3)
    ]


def seen_by_client(records: Sequence[RequestRecord] = (), **more: Any) -> ClientBlock:
    return ClientBlock(records=list(records), started_ns=0, ended_ns=2 * SECOND, loop_lag_ns=[], **more)


def test_other_cpu_is_what_neither_server_nor_client_used() -> None:
    health = block_health(seen_by_client(), samples(0.4), cores=2)
    assert health.tree_cpu_share == pytest.approx(1.5)
    assert health.client_cpu_share == pytest.approx(0.1)
    assert health.other_cpu_share == pytest.approx(0.4)
    assert health.runnable_p50 == 2


def test_workers_of_the_client_are_not_others() -> None:
    block = seen_by_client(workers_cpu_s=0.6, processes=3, backlog_ns=[1_000_000, 3_000_000])
    health = block_health(block, samples(0.4), cores=2)
    assert health.client_cpu_share == pytest.approx(0.4)
    assert health.other_cpu_share == pytest.approx(0.1)
    assert health.client_processes == 3
    assert health.parse_backlog_p99_s == pytest.approx(0.00298)


def test_steal_is_a_share_of_all_cores() -> None:
    assert block_health(seen_by_client(), samples(0.0, steal=0.1), cores=2).steal_share == pytest.approx(0.05)


def test_without_the_servers_tree_the_others_are_unknown() -> None:
    """Else a server that we did not start would count as contention against itself."""
    seen = [Sample(t_ns=i * SECOND, machine_busy_s=float(i), client_cpu_s=0.0) for i in range(3)]
    assert block_health(seen_by_client(), seen, cores=2).other_cpu_share is None


def test_a_span_too_short_for_the_counters_ticks_tells_nothing() -> None:
    seen = [Sample(t_ns=0, machine_steal_s=0.0), Sample(t_ns=SECOND // 10, machine_steal_s=0.01)]
    assert block_health(seen_by_client(), seen, cores=2).steal_share is None


def test_send_delay_counts_from_the_schedule() -> None:
    records = [RequestRecord(index=i, prompt_id=i, scheduled_ns=1000, sent_ns=1000 + i * SECOND) for i in range(3)]
    records.append(RequestRecord(index=3, prompt_id=3, scheduled_ns=0))  # never sent
    assert block_health(seen_by_client(records), [], cores=2).send_delay_p50_s == pytest.approx(1.0)


def test_quantiles_are_linear() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([], 0.5) is None
    assert quantile([7], 0.99) == 7


def test_memory_is_the_median_of_what_is_told() -> None:
    seen = [Sample(t_ns=t * SECOND, tree_anon_bytes=b) for t, b in ((0, 100), (1, 500), (2, 300))]
    assert block_memory(seen) == {"anon": 300.0}
    assert block_memory([Sample(t_ns=0)]) == {}
