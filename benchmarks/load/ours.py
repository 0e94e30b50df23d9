"""Bakeoff's client, as a measurement uses it. Run by run.py."""

from __future__ import annotations

import gc
import json
from pathlib import Path

from task import body, child_task

from bakeoff.client import ClosedLoop, OpenLoop, PreparedRequest, loop_runner, run_requests
from bakeoff.model import Endpoint


def quantile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e9 if ordered else 0.0


def main() -> None:
    task = child_task()
    payload = json.dumps(body(task.tokens)).encode()
    requests = [PreparedRequest(index=n, prompt_id=n, path="/completions", body=payload) for n in range(task.requests)]
    load: ClosedLoop | OpenLoop = ClosedLoop(task.concurrency)
    if task.rate:
        load = OpenLoop(tuple(round(n / task.rate * 1e9) for n in range(task.requests)))
    gc.disable()
    with loop_runner() as runner:
        block = runner.run(run_requests(Endpoint(base_url=f"{task.url}/v1", model="mock"), requests, load))
    failed = [record for record in block.records if record.error]
    assert not failed, failed[0].error_message
    seen = [
        {"start": r.scheduled_ns / 1e9, "sent": (r.sent_ns or 0) / 1e9, "chunks": r.chunk_ns} for r in block.records
    ]
    told = {
        "seen": seen,
        "cpu_s": block.cpu_s,
        "lag_p99_s": quantile(block.loop_lag_ns, 0.99),
        "backlog_p99_s": quantile(block.backlog_ns, 0.99),
    }
    Path(task.out).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
