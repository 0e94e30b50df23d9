"""What is asked of every tool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scenario:
    """A load, the mock's latency model, and how much of it; `peers` may get fewer requests, because they are slower."""

    name: str
    says: str
    mock: tuple[str, ...]
    tokens: int
    requests: int
    concurrency: int = 1
    rate: float = 0.0
    peers: int | None = None  # requests for tools other than the floor and ours
    own_only: bool = False


_STEADY = ("--ttft", "50ms", "--tpot", "20ms")


def streams(concurrency: int) -> Scenario:
    """So many streams of 50 token/s, each slot twice."""
    says = f"{concurrency} streams × 50 token/s"
    return Scenario(f"stream-{concurrency}", says, _STEADY, 100, max(8, 2 * concurrency), concurrency)


def offered(rate: int, *, own_only: bool) -> Scenario:
    """So many tokens a second over 64 streams."""
    flags = ("--ttft", "50ms", "--tpot", f"{64 / rate * 1e3:.4f}ms")
    tokens = max(100, round(rate * 2 / 64))  # about two seconds
    return Scenario(f"offered-{rate}", f"{rate:,} token/s offered", flags, tokens, 128, 64, own_only=own_only)


#: From the start of a tool to its first request.
IDLE = Scenario("idle", "two requests", ("--ttft", "1ms", "--tpot", "1ms"), 1, 2)

ALL: dict[str, list[Scenario]] = {
    "stream": [streams(concurrency) for concurrency in (1, 16, 64, 256)],
    "open": [Scenario("open", "open loop, 32 requests/s × 100 tokens", _STEADY, 100, 128, rate=32.0)],
    "one": [
        Scenario("one", "one token, 64 at a time", ("--ttft", "0.001ms", "--tpot", "1ms"), 1, 20_000, 64, peers=2_000)
    ],
    "flood": [offered(25_600, own_only=False), *(offered(rate, own_only=True) for rate in (40_000, 60_000, 80_000))],
    "thousand": [Scenario("thousand", "1,000 streams", ("--ttft", "200ms", "--tpot", "100ms"), 50, 1_000, 1_000)],
}
