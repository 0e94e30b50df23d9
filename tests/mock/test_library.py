"""The server inside of the caller's own event loop, on asyncio's loop and on uvloop, with both kinds of timer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from bakeoff.errors import EngineError
from bakeoff.mock import LatencyModel, MockServer, ServeOptions, parse_fault, read_send_log, serve
from bakeoff.mock import alarm as alarm_module

from .raw import ask, prompt

MODEL = LatencyModel(ttft_s=0.01, tpot_s=0.002)
Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("timerfd", [True, False])
def test_serve_in_a_loop_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop_factory: Loop, timerfd: bool
) -> None:
    if not timerfd:

        def missing(*_: object) -> None:
            raise OSError("no timerfd on this system")

        monkeypatch.setattr(alarm_module, "TimerFd", missing)
    log = tmp_path / "send.jsonl"

    async def main() -> int:
        stop, ports = asyncio.Event(), asyncio.Queue[int]()
        options = ServeOptions(send_log=log)
        serving = asyncio.create_task(serve(MODEL, options=options, on_listening=ports.put_nowait, stop=stop))
        port = await ports.get()
        reply = await asyncio.to_thread(ask, port, prompt(tokens=20))
        assert reply.data[-1] == "[DONE]"
        stop.set()
        return await serving

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == 0
    (record,) = read_send_log(log)
    assert record.due_first_ns is not None
    assert record.due_last_ns is not None
    assert record.chunk_ns[0] >= record.due_first_ns
    assert record.chunk_ns[-1] >= record.due_last_ns
    assert record.due_last_ns - record.due_first_ns == pytest.approx(38_000_000, abs=1000)


def test_dying_is_an_exit_code_for_the_library() -> None:
    async def main() -> int:
        ports = asyncio.Queue[int]()
        options = ServeOptions(faults=(parse_fault("die_after:1"),))
        serving = asyncio.create_task(serve(MODEL, options=options, on_listening=ports.put_nowait))
        await asyncio.to_thread(ask, await ports.get(), prompt(tokens=1))
        return await serving

    assert asyncio.run(main()) == 3


def test_a_stop_while_loading_ends_it() -> None:
    async def main() -> int:
        stop = asyncio.Event()
        model = LatencyModel(start_delay_s=600)
        serving = asyncio.create_task(serve(model, stop=stop, on_listening=lambda _port: pytest.fail("too early")))
        await asyncio.sleep(0.05)
        stop.set()
        return await serving

    assert asyncio.run(main()) == 0


def test_it_serves_outside_of_the_main_thread() -> None:
    codes: list[int] = []

    async def main() -> int:
        stop = asyncio.Event()
        return await serve(MODEL, stop=stop, on_listening=lambda _port: stop.set())

    thread = threading.Thread(target=lambda: codes.append(asyncio.run(main())))
    thread.start()
    thread.join(20)
    assert codes == [0]


def test_two_servers_cannot_have_one_port() -> None:
    async def main() -> None:
        first, second = MockServer(MODEL), MockServer(MODEL)
        port = await first.start()
        assert first.port == port
        try:
            with pytest.raises(EngineError, match=str(port)):
                await second.start(port=port)
        finally:
            await first.stop()
            await first.stop()  # idempotent
            await second.stop()

    asyncio.run(main())


def test_options_hide_the_key() -> None:
    assert "sk-planted" not in repr(ServeOptions(api_key="sk-planted"))
