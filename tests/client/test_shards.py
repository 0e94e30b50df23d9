"""Blocks over worker processes: one queue, one schedule, one clock; nothing lost, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import psutil
import pytest

from bakeoff.client import ClientBlock, ClosedLoop, OpenLoop, PreparedRequest, Shards, Timeouts, run_requests
from bakeoff.client.shard_messages import Go, Job, Stream, ToWorker, encode
from bakeoff.errors import BakeoffError, EndpointError, ServerDied

from .blocks import good
from .server import SSE_HEAD, RawServer, Script, Seen, Wire, answer, chunk, endpoint, requests, run, text_event
from .test_conversations import conversations

KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def shards() -> Iterator[Shards]:
    kept = Shards()
    yield kept
    kept.close()


def block(
    shards: Shards, script: Script, made: Sequence[PreparedRequest], load: ClosedLoop | OpenLoop, **more: Any
) -> ClientBlock:
    async def main() -> ClientBlock:
        async with RawServer(script) as server:
            headers = {"Authorization": f"Bearer {KEY}"}
            return await run_requests(
                endpoint(server.url, headers=headers), made, load, shards=shards, processes=2, **more
            )

    return run(main())


def test_one_queue_and_one_concurrency(shards: Shards) -> None:
    now = highest = 0
    keys: set[str] = set()

    async def busy(seen: Seen, wire: Wire) -> None:
        nonlocal now, highest
        keys.add(seen.headers["authorization"])
        now += 1
        highest = max(highest, now)
        await asyncio.sleep(0.01)
        now -= 1
        await good(seen, wire)

    told: list[int] = []
    got = block(shards, busy, requests(60), ClosedLoop(5), on_record=lambda r: told.append(r.index))
    assert [r.index for r in got.records] == list(range(60))
    assert sorted(told) == list(range(60))
    assert all((r.error, r.text, r.prompt) == (None, "ab", f"p{r.index}") for r in got.records)
    assert highest == 5
    assert keys == {f"Bearer {KEY}"}
    assert (got.processes, len(shards.pids)) == (2, 2)
    assert got.cpu_s > got.workers_cpu_s > 0
    assert got.backlog_ns
    # One queue: requests leave in its order, but for what two processes do at the same moment.
    order = [r.index for r in sorted(got.records, key=lambda r: r.scheduled_ns)]
    assert all(abs(place - index) <= 10 for place, index in enumerate(order))
    assert min(r.scheduled_ns for r in got.records) == got.started_ns  # one clock, one start


def test_workers_are_kept_between_blocks(shards: Shards) -> None:
    before = shards.pids
    assert len(block(shards, good, requests(4), ClosedLoop(2)).records) == 4
    assert before in ([], shards.pids)
    assert block(shards, good, [], ClosedLoop(2)).records == []


def test_one_schedule(shards: Shards) -> None:
    offsets = tuple(i * 7_000_000 for i in range(11))
    got = block(shards, good, requests(11), OpenLoop(offsets))
    assert [r.scheduled_ns - got.started_ns for r in got.records] == list(offsets)
    assert all(r.error is None and r.sent_ns is not None and r.sent_ns >= r.scheduled_ns for r in got.records)


def test_conversations_with_the_servers_own_answers(shards: Shards) -> None:
    heard: list[Any] = []

    async def remember(seen: Seen, wire: Wire) -> None:
        heard.append(seen.json)
        await good(seen, wire)

    def build(answers: Sequence[str]) -> tuple[bytes, str | None]:
        return msgspec.json.encode({"history": answers}), f"after {list(answers)}"

    made = [msgspec.structs.replace(r, build=build) if r.turn else r for r in conversations(3, 3, 3)]
    for load in (ClosedLoop(2), OpenLoop((0, 1_000_000, 2_000_000))):
        heard.clear()
        got = block(shards, remember, made, load)
        assert [r.error for r in got.records] == [None] * 9
        assert [(r.conversation, r.turn) for r in got.records] == [(c, t) for c in range(3) for t in range(3)]
        assert got.records[5].prompt == "after ['ab', 'ab']"
        assert sum(h == {"history": ["ab", "ab"]} for h in heard) == 3


def test_a_failed_turn_and_a_deadline(shards: Shards) -> None:
    async def refuses(seen: Seen, wire: Wire) -> None:
        await (wire.send(answer("500 No", b"why")) if seen.json["n"] == 1 else good(seen, wire))

    got = block(shards, refuses, conversations(3, 2), ClosedLoop(2))
    assert [r.error for r in got.records] == [None, "http", "cancelled", None, None]
    assert block(shards, good, requests(9), ClosedLoop(2), deadline_ns=time.monotonic_ns()).records == []


async def hang(_seen: Seen, wire: Wire) -> None:
    await wire.send(SSE_HEAD, chunk(text_event("a")))
    await wire.gone()


async def first_only(seen: Seen, wire: Wire) -> None:
    await (good(seen, wire) if seen.json["n"] < 2 else hang(seen, wire))


def test_the_death_of_the_server_is_recorded_by_all(shards: Shards) -> None:
    def dead() -> None:
        raise ServerDied("the server's process ended with code 3")

    with pytest.raises(ServerDied) as caught:
        block(shards, first_only, requests(9), ClosedLoop(4), check=dead)
    partial: ClientBlock = caught.value.partial  # type: ignore[attr-defined]
    assert sorted(str(r.error) for r in partial.records) == ["None"] * 2 + ["server_died"] * 4
    assert all("code 3" in (r.error_message or "") for r in partial.records if r.error)
    assert len(block(shards, good, requests(4), ClosedLoop(2)).records) == 4  # the workers go on


def test_cancelling_closes_the_sockets_of_all(shards: Shards) -> None:
    async def main() -> None:
        left = asyncio.Semaphore(0)

        async def until_gone(seen: Seen, wire: Wire) -> None:
            await hang(seen, wire)
            left.release()

        async with RawServer(until_gone) as server:
            sending = run_requests(endpoint(server.url), requests(4), ClosedLoop(4), shards=shards, processes=2)
            task = asyncio.ensure_future(sending)
            await server.arrived(4)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(4):
                await left.acquire()

    run(main())
    assert len(block(shards, good, requests(4), ClosedLoop(2)).records) == 4


def test_time_outs_hold_in_workers(shards: Shards) -> None:
    got = block(shards, hang, requests(2), ClosedLoop(2), timeouts=Timeouts(idle_s=0.1))
    assert [r.error for r in got.records] == ["timeout"] * 2


def test_a_listener_that_fails_ends_the_block_loudly(shards: Shards) -> None:
    def fail(_record: object) -> None:
        raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"):
        block(shards, good, requests(6), ClosedLoop(2), on_record=fail)


def test_an_unusable_endpoint_and_a_load_that_does_not_fit(shards: Shards) -> None:
    async def main() -> None:
        bad = endpoint("http://h/v1", headers={"X-A": f"{KEY}\n"})
        await run_requests(bad, requests(1), ClosedLoop(1), shards=shards, processes=2)

    with pytest.raises(EndpointError) as caught:
        run(main())
    assert KEY not in str(caught.value)
    with pytest.raises(ValueError, match="2 instants"):
        block(shards, good, requests(1), OpenLoop((0, 1)))


def test_a_worker_that_is_killed_ends_the_block_and_the_next_one_has_new_workers() -> None:
    shards = Shards()

    async def main() -> None:
        async with RawServer(hang) as server:
            sending = run_requests(endpoint(server.url), requests(4), ClosedLoop(4), shards=shards, processes=2)
            task = asyncio.ensure_future(sending)
            await server.arrived(4)
            os.kill(shards.pids[0], signal.SIGKILL)
            await task

    with pytest.raises(BakeoffError, match="worker process"):
        run(main())
    assert shards.pids == []
    assert len(block(shards, good, requests(4), ClosedLoop(2)).records) == 4
    pids = shards.pids
    shards.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="closed"):
        block(shards, good, requests(4), ClosedLoop(2))


def test_workers_die_with_their_parent_and_show_no_secret() -> None:
    """A parent that is killed in the middle of a block can tidy nothing up."""
    parent = """
import asyncio, sys
from bakeoff.client import ClosedLoop, PreparedRequest, Shards, run_requests
from bakeoff.model import Endpoint

async def main():
    body = b"{}"
    made = [PreparedRequest(index=i, prompt_id=i, path="/completions", body=body) for i in range(4)]
    endpoint = Endpoint(base_url=sys.argv[1], model="m", headers={"Authorization": "Bearer " + sys.stdin.readline()})
    shards = Shards()
    await shards.ready(2)
    print(*shards.pids, flush=True)
    await run_requests(endpoint, made, ClosedLoop(4), shards=shards, processes=2)

asyncio.run(main())
"""

    async def main() -> None:
        left = asyncio.Semaphore(0)

        async def until_gone(seen: Seen, wire: Wire) -> None:
            assert seen.headers["authorization"] == f"Bearer {KEY}"
            await hang(seen, wire)
            left.release()

        async with RawServer(until_gone) as server:
            with subprocess.Popen(  # noqa: ASYNC220  # it returns when the process is there
                [sys.executable, "-c", parent, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(KEY.encode())
                process.stdin.close()
                line = await asyncio.get_running_loop().run_in_executor(None, process.stdout.readline)
                workers = [psutil.Process(int(word)) for word in line.split()]
                await server.arrived(4)
                shown = [word for worker in workers for word in (*worker.cmdline(), *worker.environ().values())]
                assert not any(KEY in word for word in shown)
                process.kill()
                for _ in range(4):
                    await left.acquire()
                gone, alive = psutil.wait_procs(workers, timeout=60)
                assert (len(gone), alive) == (2, [])

    run(main())


def test_messages_survive_any_segmentation() -> None:
    job = Job(
        base_url="u",
        headers={"a": "b"},
        secrets=("s",),
        requests=[{"index": 1}],
        bodies=[0, 5],
        built=frozenset({3}),
        slots=(4, 0, 1, 2),
        instants=[(1, 2)],
        timeouts=Timeouts(),
        deadline_ns=None,
    )
    data = encode(job) + encode(Go(7))
    for size in (1, 3, 7, len(data)):
        stream = Stream(ToWorker)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert [m for part in parts for m in stream.feed(part)] == [job, Go(7)]
