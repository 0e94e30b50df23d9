"""Which request meets which fault: asked for on the command line, drawn once a request.

Where several are asked for, each request draws each of them, and the first that hits applies.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Sequence

import msgspec

from ..errors import UsageError
from .fault_table import FAULTS, LOADING, FaultKind

__all__ = ["FAULTS", "LOADING", "SELECTIONS", "Fault", "FaultKind", "FaultPlan", "parse_fault", "parse_faults"]

SELECTIONS = "10% or 0.1 (drawn), 3of20 (the first 3 of every 20), first5 (the first 5 only); nothing: all"
_K_OF_N = re.compile(r"(\d{1,9})of(\d{1,9})", re.ASCII)
_FIRST = re.compile(r"first=?(\d{1,9})", re.ASCII)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as asked for. It meets a share of the requests, or the first `hits` of every `period` (period 0: of all
    that ever come); `count` is the number of requests of a fault of the whole server."""

    kind: FaultKind
    share: float = 1.0
    hits: int | None = None
    period: int = 0
    count: int | None = None

    def __str__(self) -> str:
        """As it is written on the command line."""
        if self.count is not None:
            return f"{self.kind.name}:{self.count}"
        if self.hits is not None:
            return f"{self.kind.name}:{f'{self.hits}of{self.period}' if self.period else f'first{self.hits}'}"
        return f"{self.kind.name}:{self.share:g}"


def parse_faults(texts: Sequence[str]) -> tuple[Fault, ...]:
    """Each text is one fault or several, separated by commas. Raises UsageError."""
    return tuple(parse_fault(part) for text in texts for part in text.split(",") if part.strip())


def parse_fault(text: str) -> Fault:
    """``hang`` | ``reset:10%`` | ``http_500:5of20`` | ``hang:first2`` | ``die_after:5`` → Fault. Raises UsageError."""
    name, _, argument = text.strip().partition(":")
    kind = FAULTS.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, FAULTS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"one of: {', '.join(FAULTS)}"
        raise UsageError(f"{name[:100]!r} is not a fault", where="--fault", remedy=remedy)
    if kind.dies or kind.refuses_s:
        if not (argument.isascii() and argument.isdigit() and int(argument) > 0):
            raise UsageError(f"{text[:100]!r} needs a number of requests", where="--fault", remedy=f"write {name}:5")
        return Fault(kind=kind, count=int(argument))
    if not argument:
        return Fault(kind=kind)
    if kind.scope == "server":
        raise UsageError(
            f"{argument[:100]!r} is not a share of requests", where="--fault", remedy=f"{name} takes no share"
        )
    return _selected(kind, argument)


def _selected(kind: FaultKind, argument: str) -> Fault:
    if match := _K_OF_N.fullmatch(argument):
        hits, period = int(match[1]), int(match[2])
        if 0 < hits <= period:
            return Fault(kind=kind, hits=hits, period=period)
    elif match := _FIRST.fullmatch(argument):
        return Fault(kind=kind, hits=int(match[1]))
    else:
        try:
            share = float(argument[:-1]) / 100 if argument.endswith("%") else float(argument)
        except ValueError:
            share = -1.0
        if 0 <= share <= 1:
            return Fault(kind=kind, share=share)
    raise UsageError(
        f"{argument[:100]!r} is not a share of requests",
        where="--fault",
        remedy=f"write {kind.name}: with {SELECTIONS}",
    )


class FaultPlan:
    """The faults of one server, and the draws of which request meets which: the same for the same seed."""

    def __init__(self, faults: Sequence[Fault], seed: int | None) -> None:
        self._requests = tuple(f for f in faults if f.kind.scope != "server")
        # A source of its own: faults do not change the jitter of the requests that they spare.
        self._noise = random.Random(None if seed is None else f"faults-{seed}")
        self._seen = 0
        self.ready = all(f.kind.ready for f in faults)
        self.dies_after = min([f.count for f in faults if f.kind.dies and f.count is not None], default=None)
        refusing = [f for f in faults if f.kind.refuses_s and f.count is not None]
        self.refuses_after = min([f.count for f in refusing if f.count is not None], default=None)
        self.refuses_s = max([f.kind.refuses_s for f in refusing], default=0.0)

    def draw(self) -> FaultKind | None:
        """The fault that the next generation request meets, if any."""
        if not self._requests:
            return None
        at, self._seen = self._seen, self._seen + 1
        met: FaultKind | None = None
        for fault in self._requests:
            # Every fault draws for every request, so that one fault does not shift the draws of another.
            hit = self._noise.random() < fault.share if 0 < fault.share < 1 else fault.share == 1
            if fault.hits is not None:
                hit = (at % fault.period if fault.period else at) < fault.hits
            if hit and met is None:
                met = fault.kind
        return met

    def draw_beside(self) -> FaultKind | None:
        """The fault that a request of another kind (the list of models, …) meets, if any."""
        for fault in self._requests:
            if fault.kind.scope == "authorisation" and (fault.share >= 1 or self._noise.random() < fault.share):
                return fault.kind
        return None
