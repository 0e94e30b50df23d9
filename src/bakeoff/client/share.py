"""What one process sends of a load."""

from __future__ import annotations

from .block import ClosedLoop
from .timing import Backoff
from .work import Chain

# Open loop: connections are opened this long before they are needed, so that no handshake is in a latency, and not
# much earlier, because an idle connection holds a thread in some servers.
AHEAD_NS = 250_000_000
# At the start of an open loop at most this many connections are opened before the clock starts.
_MAX_OPENED_BEFORE = 64


class Slots(ClosedLoop, frozen=True):
    """This process's share of a closed loop: slots number `first`, `first` + `step`, … below `concurrency`."""

    first: int = 0
    step: int = 1

    @property
    def starts_ns(self) -> list[int]:
        """When each of them starts [ns after the block's start]."""
        return [n * self.ramp_ns // self.concurrency for n in range(self.first, self.concurrency, self.step)]

    @property
    def at_start(self) -> int:
        """Connections to open before the clock starts."""
        return len(self.starts_ns)


class Instants(tuple[tuple[int, Chain], ...]):
    """This process's share of an open loop: (offset [ns after the block's start], chain), in the order of time."""

    __slots__ = ()

    @property
    def at_start(self) -> int:
        """Connections to open before the clock starts."""
        return min(sum(1 for offset, _ in self if offset <= AHEAD_NS), _MAX_OPENED_BEFORE)


class Player:
    """Plays one chain after another (a slot of a closed loop), or a single one (open loop)."""

    __slots__ = ("answers", "backoff", "end", "position", "slot")

    def __init__(self, slot: bool) -> None:
        self.slot = slot
        self.position = 0
        self.end = 0
        self.answers: list[str] = []
        self.backoff = Backoff()
