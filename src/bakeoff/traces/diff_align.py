"""Whether two traces answer one question, and how they are laid beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .busy import step_windows
from .diff_host_pieces import has_operators, host_steps
from .diff_types import Unit
from .limits import TraceError

if TYPE_CHECKING:
    from .timeline import Timeline

Mode = Literal["gpu", "host", "compile"]
_WHAT: dict[Mode | None, str] = {
    "gpu": "GPU events",
    "host": "operators of a CPU only",
    "compile": "a compiler's log",
    None: "nothing that takes time (no GPU event, no operator, no compilation)",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the sides are compared. counts: steps per trace of each side. ranks: a side's traces are ranks of one job."""

    mode: Mode
    unit: Unit
    aligned: bool
    words: str
    causes: bool
    ranks: bool
    counts: tuple[tuple[int, ...], tuple[int, ...]]
    tokens: tuple[float, float] | None = None

    @property
    def steps(self) -> tuple[int, int] | None:
        """Steps of one trace of each side (the fewest, where they differ); None without steps."""
        fewest = (min(self.counts[0]), min(self.counts[1]))
        return fewest if min(fewest) > 0 else None

    def divisor(self, side: int, trace: int) -> float:
        """How many units a trace holds."""
        if self.unit == "token" and self.tokens is not None:
            return self.tokens[side]
        return float(self.counts[side][trace]) if self.unit == "step" else 1.0


def mode_of(timeline: Timeline) -> Mode | None:
    """What of a trace can be compared; None: nothing."""
    if len(timeline.gpu):
        return "gpu"
    if has_operators(timeline):
        return "host"
    return "compile" if timeline.compiles else None


def plan(sides: tuple[list[Timeline], list[Timeline]], tokens: tuple[float, float] | None) -> Plan:
    """Raises TraceError when the traces cannot be compared."""
    mode = _one_mode(sides)
    if tokens is not None and not (min(tokens) > 0 and max(tokens) < 1e15):
        raise TraceError("token counts must be above 0", remedy="give the output tokens that each trace made")
    counts = tuple(tuple(_step_count(timeline, mode) for timeline in side) for side in sides)
    ranks = any(len({t.rank for t in side if t.rank is not None}) > 1 for side in sides)
    causes = all((t.gpu.launch >= 0).any() for side in sides for t in side) if mode == "gpu" else True
    unit, aligned, words = _laid(counts, tokens, mode)
    return Plan(
        mode=mode,
        unit=unit,
        aligned=aligned,
        words=words,
        causes=causes,
        ranks=ranks,
        counts=counts,  # type: ignore[arg-type]  # two sides
        tokens=tokens,
    )


def _one_mode(sides: tuple[list[Timeline], list[Timeline]]) -> Mode:
    if not sides[0] or not sides[1]:
        raise TraceError("a comparison needs a trace on each side", remedy="bakeoff trace BASE CANDIDATE")
    found = [(timeline, mode_of(timeline)) for side in sides for timeline in side]
    modes = {mode for _, mode in found}
    if len(modes) == 1 and None not in modes:
        return found[0][1]  # type: ignore[return-value]  # not None by the check
    told = "; ".join(f"{t.source or t.format} holds {_WHAT[m]}" for t, m in found[:4])
    if "compile" in modes and len(modes) > 1:
        remedy = "compare a compiler's log with a compiler's log, and a profile with a profile"
    else:
        remedy = "profile both sides in the same way (the same activities: CPU alone, or CPU and the GPU)"
    raise TraceError(f"these traces cannot be compared: {told}", remedy=remedy)


def _step_count(timeline: Timeline, mode: Mode) -> int:
    """Steps that did work; over several devices, the fewest of any."""
    if mode == "gpu":
        return min((len(step_windows(timeline, device)) for device in timeline.device_ids), default=0)
    return host_steps(timeline) if mode == "host" else 0


def _laid(
    counts: tuple[tuple[int, ...], ...], tokens: tuple[float, float] | None, mode: Mode
) -> tuple[Unit, bool, str]:
    """(unit, whether the sides hold the same work, what to say about it)."""
    if tokens is not None:
        return "token", True, f"per output token: {tokens[0]:g} in base, {tokens[1]:g} in candidate"
    if mode == "compile":
        return "trace", True, "whole logs are compared: all compilations of each"
    every = {count for side in counts for count in side}
    if 0 not in every:
        if len(every) == 1:
            number = every.pop()
            return "trace", True, f"{number} {'step' if number == 1 else 'steps'} on each side: the windows match"
        shown = [", ".join(str(count) for count in side) for side in counts]
        return "step", True, f"per step: {shown[0]} in base, {shown[1]} in candidate"
    lacking = [name for name, side in zip(("base", "candidate"), counts, strict=True) if 0 in side]
    who = "neither trace marks" if len(lacking) == 2 else f"{lacking[0]} does not mark"
    return (
        "trace",
        False,
        f"not aligned: {who} steps with work of their own, so whole windows are compared; "
        "give token counts, or mark steps (ProfilerStep#N, an NVTX range per step)",
    )
