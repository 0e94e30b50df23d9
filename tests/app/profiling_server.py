"""The fake server with a profiler: ``/start_profile`` and ``/stop_profile`` write a trace. Run as a script."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.engines.fake_server import Handler

US_PER_TOKEN = 200


def trace(tokens: int, *, dequantise: bool) -> dict[str, Any]:
    """A kernel per token, launched by the host; with `dequantise`, a second one before it."""
    events: list[dict[str, Any]] = []
    at, number = 1000.0, 0
    for _ in range(tokens):
        kernels = [("void gemm_kernel<float>", 100.0)]
        if dequantise:
            kernels.insert(0, ("void kDequantizeBlockwise<float>", 50.0))
        call = at
        for name, length in kernels:
            number += 1
            place = {"ph": "X", "pid": 1, "tid": 1}
            args = {"correlation": number}
            events.append(
                {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": call, "dur": 2, "args": args} | place
            )
            device = {"ph": "X", "pid": 0, "tid": 7, "ts": at + 4, "dur": length}
            args = {"correlation": number, "device": 0, "stream": 7}
            events.append({"cat": "kernel", "name": name, "args": args} | device)
            at += length
            call += 2
        at += 100
    return {"schemaVersion": 1, "traceEvents": events}


class ProfilingHandler(Handler):
    folder = Path()
    dequantise = False
    tokens: int | None = None  # generated since the profiler was started

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        if self.path == "/start_profile":
            type(self).tokens = 0
            self.answer(200, {})
        elif self.path == "/stop_profile":
            self.folder.mkdir(exist_ok=True)
            content = json.dumps(trace(self.tokens or 0, dequantise=self.dequantise)).encode()
            (self.folder / f"rank0.{time.time_ns()}.pt.trace.json.gz").write_bytes(gzip.compress(content))
            (self.folder / "profiler_out.txt").write_text("a table of the profiler's own\n")
            self.answer(200, {})
        else:
            super().do_POST()

    def event(self, data: Any) -> None:
        if self.tokens is not None and data["choices"]:
            type(self).tokens = self.tokens + 1
        super().event(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--dequantise", action="store_true")
    options = parser.parse_args()
    ProfilingHandler.folder = options.folder
    ProfilingHandler.dequantise = options.dequantise
    ThreadingHTTPServer(("127.0.0.1", options.port), ProfilingHandler).serve_forever()


if __name__ == "__main__":
    main()
