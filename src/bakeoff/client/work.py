"""A block's requests as the sender takes them: in chains, one a conversation, and each with its whole message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ..model import RequestRecord
from .message import frame
from .request import PreparedRequest


class Chain(NamedTuple):
    """Positions of one conversation's requests (or of a single request) in the block's list: first, behind the last."""

    start: int
    end: int


def chains(requests: Sequence[PreparedRequest]) -> list[Chain]:
    """Requests that follow each other with the same `conversation` are one chain; without one, each is its own."""
    found: list[Chain] = []
    start = 0
    for position in range(1, len(requests) + 1):
        conversation = requests[start].conversation
        if position == len(requests) or conversation is None or requests[position].conversation != conversation:
            found.append(Chain(start, position))
            start = position
    return found


class Work(Protocol):
    """The requests of a block, wherever they are kept."""

    @property
    def exhausted(self) -> bool:
        """Whether `claim` would give None."""

    def claim(self) -> Chain | None:
        """The next chain that nobody has played."""

    def request(self, position: int) -> PreparedRequest:
        """A request (its body may be left out)."""

    def fetch(self, position: int, answers: Sequence[str], then: Callable[[PreparedRequest, bytes], None]) -> None:
        """`then(request, whole message)`, at once or later. `answers`: those of the turns before."""


class OwnWork:
    """All requests in this process. Whole messages are made before the clock starts: a slot has only to send."""

    def __init__(self, requests: Sequence[PreparedRequest], heads: Mapping[str, bytes]) -> None:
        self.chains = chains(requests)
        self._requests = requests
        self._heads = heads
        self._messages = [frame(heads[request.path], request.body) for request in requests]
        self._next = 0

    @property
    def exhausted(self) -> bool:
        return self._next >= len(self.chains)

    def claim(self) -> Chain | None:
        if self._next >= len(self.chains):
            return None
        self._next += 1
        return self.chains[self._next - 1]

    def request(self, position: int) -> PreparedRequest:
        return self._requests[position]

    def fetch(self, position: int, answers: Sequence[str], then: Callable[[PreparedRequest, bytes], None]) -> None:
        request = self._requests[position]
        if request.build is None:
            then(request, self._messages[position])
        else:
            body, shown = request.build(answers)
            then(msgspec.structs.replace(request, prompt=shown), frame(self._heads[request.path], body))


def unsent(request: PreparedRequest, failed: RequestRecord) -> RequestRecord:
    """The record of a turn that was not sent because one before it failed."""
    return RequestRecord(
        index=request.index,
        prompt_id=request.prompt_id,
        conversation=request.conversation,
        turn=request.turn,
        asked_input_tokens=request.asked_input_tokens,
        asked_output_tokens=request.asked_output_tokens,
        scheduled_ns=failed.end_ns or failed.scheduled_ns,
        end_ns=failed.end_ns,
        error="cancelled",
        error_message=f"not sent: turn {failed.turn + 1} of its conversation failed ({failed.error})",
        prompt=request.prompt,
    )
