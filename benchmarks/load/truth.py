"""What the mock really sent, and how far a tool's account is from it."""

from __future__ import annotations

from dataclasses import dataclass

from task import Seen

from bakeoff.mock.sendlog import SendRecord


@dataclass
class Errors:
    """Absolute differences between a tool's values and those of the send log [s]."""

    ttft_s: list[float]
    gap_s: list[float]
    gaps_are_means: bool = False


def errors(seen: list[Seen], sent: list[SendRecord]) -> Errors:
    """Requests are matched by their id where the tool sends one, else by the order of their starts.

    TTFT counts from the moment the server had read the request, to just before its first token left. A gap between two
    tokens is the difference of two such moments.
    """
    found = Errors([], [])
    for told, real in _pairs(seen, sent):
        found.ttft_s.append(abs(told.ttft_s - (real.chunk_ns[0] - real.recv_ns) / 1e9))
        gaps = [(b - a) / 1e9 for a, b in zip(real.chunk_ns, real.chunk_ns[1:], strict=False)]
        if told.gaps_s:
            found.gap_s += [abs(a - b) for a, b in zip(told.gaps_s, gaps, strict=False)]
        elif told.mean_gap_s is not None and gaps:
            found.gaps_are_means = True
            found.gap_s.append(abs(told.mean_gap_s - sum(gaps) / len(gaps)))
    return found


def _pairs(seen: list[Seen], sent: list[SendRecord]) -> list[tuple[Seen, SendRecord]]:
    real = sorted((record for record in sent if record.chunk_ns), key=lambda record: record.recv_ns)
    by_id = {record.request_id: record for record in real}
    if all(told.request_id in by_id for told in seen):
        return [(told, by_id[told.request_id or ""]) for told in seen]
    return list(zip(sorted(seen, key=lambda told: told.start), real[-len(seen) :], strict=True))
