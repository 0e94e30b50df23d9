"""The default analyses of HolisticTraceAnalysis on one file. Run by `against_hta.py` with the Python that has it."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]  # only in the other environment

    folder = Path(tempfile.mkdtemp())
    try:
        source = Path(sys.argv[1])
        target = folder / source.name
        shutil.copyfile(source, target)
        spent: dict[str, float] = {}
        begun = time.perf_counter()
        cpu = last = time.process_time()

        def lap(name: str) -> None:
            nonlocal last
            now = time.process_time()
            spent[name] = now - last
            last = now

        analysis = TraceAnalysis(trace_dir=str(folder))
        rank = next(iter(analysis.t.get_all_traces()))
        lap("load")
        for name, call in (
            ("temporal", lambda: analysis.get_temporal_breakdown(visualize=False)),
            ("idle", lambda: analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)),
            ("kernels", lambda: analysis.get_gpu_kernel_breakdown(visualize=False)),
            ("overlap", lambda: analysis.get_comm_comp_overlap(visualize=False)),
            ("launches", lambda: analysis.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)),
            ("queue", lambda: analysis.get_queue_length_summary(ranks=[rank])),
            ("copies", lambda: analysis.get_memory_bw_summary(ranks=[rank])),
            ("steps", analysis.get_profiler_steps),
            ("operators", lambda: analysis.get_aten_op_kernels_and_delay(ranks=[rank])),
        ):
            try:
                call()
            except Exception as error:  # a fault of the other tool is told, not raised
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            lap(name)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        try:  # of this program alone; ru_maxrss would count the one that started it
            status = Path("/proc/self/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        except OSError:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": peak, "parts": spent}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
