"""The poll of the server's gauges, and its place in a block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bakeoff.measure.counting import BlockCounters
from bakeoff.measure.gauges import GaugePoll, Gauges, gauge_names
from bakeoff.measure.telemetry import Telemetry
from bakeoff.model import Capabilities, Endpoint


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.asked += 1
        if server.silent:
            server.gone.wait(20)
            return
        asked = server.asked
        body = f"tgi_queue_size {asked}\ntgi_batch_current_size 4\ntgi_request_count {asked}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    asked = 0
    silent = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.gone = threading.Event()


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.gone.set()
        made.shutdown()
        thread.join()


def poll(server: _Server, on_reading: object, period_s: float = 0.01) -> GaugePoll:
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{server.server_port}/v1", model="m")
    return GaugePoll(endpoint, "/metrics", gauge_names("tgi"), on_reading, period_s)  # type: ignore[arg-type]


def test_readings_come_until_it_is_stopped(server: _Server) -> None:
    readings: list[Gauges] = []
    three = threading.Event()

    def see(reading: Gauges) -> None:
        readings.append(reading)
        if len(readings) == 3:
            three.set()

    asking = poll(server, see)
    asking.start()
    assert three.wait(30)
    asking.stop()
    seen = len(readings)
    assert readings[:3] == [Gauges(4.0, n) for n in (1.0, 2.0, 3.0)]
    assert not [t for t in threading.enumerate() if t.name == "bakeoff-gauges"]
    assert len(readings) == seen


def test_a_server_that_does_not_answer_holds_nothing_up(server: _Server) -> None:
    server.silent = True
    readings: list[Gauges] = []
    asking = poll(server, readings.append)
    asking.start()
    for _ in range(3000):
        if server.asked:
            break
        threading.Event().wait(0.01)
    asking.stop()  # the time-out of a request is 5 s, of this test 120 s
    assert server.asked
    assert readings == []


def test_a_poll_may_be_stopped_at_once(server: _Server) -> None:
    asking = poll(server, lambda _reading: None)
    asking.start()
    asking.stop()
    assert not [t for t in threading.enumerate() if t.name == "bakeoff-gauges"]


def test_a_reading_stands_in_one_sample_and_ends_with_its_block() -> None:
    telemetry = Telemetry()
    telemetry.note_gauges(Gauges(3.0, 2.0, 0.5))
    first, second = telemetry.sample(), telemetry.sample()
    assert (first.server_running, first.server_waiting, first.server_kv_use) == (3.0, 2.0, 0.5)
    assert (second.server_running, second.server_waiting, second.server_kv_use) == (None, None, None)
    telemetry.note_gauges(Gauges(9.0))
    telemetry.focus(None)
    assert telemetry.sample().server_running is None


def test_a_block_has_differences_of_counters_and_means_of_gauges(server: _Server) -> None:
    asyncio.run(_watched_block(server))


async def _watched_block(server: _Server) -> None:
    telemetry = Telemetry()
    endpoint = Endpoint(
        base_url=f"http://127.0.0.1:{server.server_port}/v1",
        model="m",
        capabilities=Capabilities(metrics_path="/metrics"),
    )
    counters = BlockCounters(endpoint, telemetry)
    await counters.begin()
    samples = []
    with counters.watching():
        for _ in range(3000):
            samples.append(telemetry.sample())
            if samples[-1].server_running is not None:
                break
            await asyncio.sleep(0.01)
    found = await counters.end(samples)
    assert found["running"] == 4
    assert found["waiting"] >= 1
    assert found["requests"] == server.asked - 1  # it counts the looks at its page themselves
    assert "kv_use" not in found


def test_a_server_without_a_page_says_nothing(server: _Server) -> None:
    asyncio.run(_silent_block(server))


async def _silent_block(server: _Server) -> None:
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{server.server_port}/v1", model="m")
    counters = BlockCounters(endpoint, Telemetry())
    await counters.begin()
    with counters.watching():
        pass
    assert await counters.end([]) == {}
    assert server.asked == 0
