"""One request to a server with a fault."""

from __future__ import annotations

from bakeoff.mock import LatencyModel, RunningMock, running

from .raw import Reply, encode, exchange, prompt

QUICK = LatencyModel(ttft_s=0.002, tpot_s=0.001, noise_seed=1)
BODY = prompt(tokens=8)


def meet(fault: str, *, silent_s: float | None = None, **more: object) -> tuple[Reply, RunningMock]:
    """The reply of a server with that fault, and the (stopped) server, for its log."""
    with running(QUICK, faults=[fault]) as mock:
        data = encode("POST", "/v1/completions", {**BODY, **more})
        reply = exchange(mock.port, data, timeout_s=silent_s) if silent_s else exchange(mock.port, data)
        assert mock.stderr() == ""
    record = mock.send_log()[0]
    assert record.fault == fault
    assert len(record.chunk_ns) == len(record.chunk_tokens)
    assert sum(record.chunk_tokens) == record.output_tokens
    return reply, mock
