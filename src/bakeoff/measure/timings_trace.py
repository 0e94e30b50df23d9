"""A coarse trace from what a server tells with each answer: llama.cpp's ``timings`` (prompt_ms, predicted_ms).

Chrome's trace format, as PyTorch's profiler writes it: a step per request, in it the operators ``prefill`` and
``decode``. What neither covers is the server's queue, HTTP, tokenising and sampling outside of its own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import RequestRecord

_PLACE = {"pid": 1, "tid": 1, "ph": "X"}


def timings_trace(records: Sequence[RequestRecord]) -> dict[str, Any] | None:
    """The document; None where not every answer tells its timings. Requests must not overlap (one at a time).

    The server's clock gives lengths only: the prefill is laid so that it ends with the first token, the decoding so
    that it begins there; both are cut to the request.
    """
    events: list[dict[str, Any]] = []
    for number, record in enumerate(records):
        prompt, predicted = (record.server_timings.get(key) for key in ("prompt_ms", "predicted_ms"))
        if None in (prompt, predicted, record.sent_ns, record.first_token_ns, record.last_token_ns):
            return None
        assert prompt is not None  # noqa: S101 - by the check above; tells the type checker
        assert predicted is not None  # noqa: S101 - as above
        sent, first = _us(record.sent_ns), _us(record.first_token_ns)
        end = max(first, _us(record.last_token_ns), _us(record.end_ns or record.last_token_ns))
        events.append(
            {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": sent, "dur": end - sent} | _PLACE
        )
        begin = max(sent, first - prompt * 1e3)
        events.append({"cat": "cpu_op", "name": "prefill", "ts": begin, "dur": first - begin} | _PLACE)
        until = min(end, first + predicted * 1e3)
        events.append({"cat": "cpu_op", "name": "decode", "ts": first, "dur": until - first} | _PLACE)
    return {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events} if events else None


def _us(stamp_ns: int | None) -> float:
    return (stamp_ns or 0) / 1e3
