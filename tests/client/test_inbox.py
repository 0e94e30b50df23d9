from __future__ import annotations

import asyncio

from bakeoff.client.inbox import Inbox

from .server import run


class Reader:
    """Takes as long to parse a read as its first byte says."""

    def __init__(self, clock: list[int], order: list[bytes]) -> None:
        self._clock = clock
        self._order = order

    def parse(self, data: bytes, stamp_ns: int) -> None:
        self._clock[0] += data[0]
        self._order.append(data)
        assert stamp_ns <= self._clock[0]


def test_reads_are_parsed_later_in_their_order_and_in_slices() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock, order = [0], list[bytes]()
        inbox = Inbox(loop, lambda: clock[0], slice_ns=50)
        reader = Reader(clock, order)
        for n in range(4):
            inbox.put(reader, bytes([30, n]), 0)
        assert order == []  # stamping goes first
        seen: list[int] = []
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(len(order))
        assert seen[-1] == 4
        assert 2 in seen  # a slice of 50 holds two reads of 30: the loop looked at its sockets in between
        assert [data[1] for data in order] == [0, 1, 2, 3]
        assert inbox.backlog.values == [30, 60, 90, 120]

    run(main())


def test_a_flush_parses_all_at_once() -> None:
    async def main() -> None:
        clock, order = [0], list[bytes]()
        inbox = Inbox(asyncio.get_running_loop(), lambda: clock[0])
        reader = Reader(clock, order)
        inbox.put(reader, b"\x01a", 0)
        inbox.put(reader, b"\x01b", 0)
        inbox.flush()
        assert order == [b"\x01a", b"\x01b"]
        inbox.put(reader, b"\x01c", 0)
        await asyncio.sleep(0.01)
        assert order[-1] == b"\x01c"

    run(main())
