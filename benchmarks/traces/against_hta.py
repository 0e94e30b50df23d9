"""`bakeoff trace`'s whole default analysis beside HolisticTraceAnalysis 0.5.0, interleaved; prints Markdown.

    python benchmarks/traces/against_hta.py TRACE.json.gz --hta-python /path/to/venv/bin/python --grow 6 24

Each run is a process of its own: wall and CPU time from before the file is opened to the last number, imports apart,
and peak resident memory. On a machine that does other work as well, CPU time is the fairer measure. The grown files
(`grow.py`) are ours alone; the other tool is timed on the first of them when asked (`--hta-grown`). Most of the other
tool's time beside loading goes into `operators` (operators, their kernels and delays), so its ratio is also given
without that analysis.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grow import grow

HERE = Path(__file__).parent
_OURS = """
import json, resource, sys, time
at = [time.process_time()]
from bakeoff.traces import analyse, read
at.append(time.process_time())
begun = time.perf_counter()
timeline = read(sys.argv[1])
at.append(time.process_time())
report = analyse(timeline)
done = time.perf_counter()
at.append(time.process_time())
json.dumps(report.to_json())
try:  # of this program alone; ru_maxrss would count the one that started it
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
parts = {name: after - before for name, before, after in zip(("import", "load", "analyse"), at, at[1:])}
print(json.dumps({"seconds": done - begun, "cpu": at[3] - at[1], "peak_mb": peak, "parts": parts}))
"""


def _run(command: Sequence[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def _ours(path: Path) -> Any:
    return _run([sys.executable, "-c", _OURS, str(path)])


def _startup() -> float:
    """Seconds of `bakeoff trace` on a trace of one kernel: the fixed cost."""
    import time

    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from bakeoff.cli.main import main; main()", "trace", str(path)],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - begun


def _line(label: str, mega: float, runs: Sequence[Any], others: Sequence[Any] = ()) -> str:
    def median(of: Sequence[Any], what: str) -> float:
        return statistics.median(run[what] for run in of)

    seconds = [run["seconds"] for run in runs]
    parts = {name: statistics.median(run["parts"].get(name, 0.0) for run in runs) for name in runs[0]["parts"]}
    told = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    spread = f"{median(runs, 'seconds'):.2f} [{min(seconds):.2f}, {max(seconds):.2f}]"
    faster = ""
    if others:
        wall, cpu = (median(others, what) / median(runs, what) for what in ("seconds", "cpu"))
        less = statistics.median(run["cpu"] - run["parts"]["operators"] for run in others) / median(runs, "cpu")
        faster = f"{wall:.1f} × wall, {cpu:.1f} × CPU; {less:.1f} × CPU without its operators"
    peak = max(run["peak_mb"] for run in runs)
    return f"| {label} | {mega:.0f} | {spread} | {median(runs, 'cpu'):.2f} | {peak:.0f} | {faster} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--hta-python", help="the Python of an environment with HolisticTraceAnalysis")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--grow", type=int, nargs="*", default=[6, 24])
    parser.add_argument("--hta-grown", action="store_true", help="time the other tool on the first grown file too")
    given = parser.parse_args()

    print(f"Start-up of `bakeoff trace` (one kernel): {statistics.median(_startup() for _ in range(5)):.2f} s\n")
    print("| what | MB of JSON | seconds, median [min, max] | CPU s | peak MB | faster by | parts [CPU s] |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "x1.json"
        mega = grow(given.trace, original, 1) / 1e6
        ours: list[Any] = []
        theirs: list[Any] = []
        for _ in range(given.repeats):  # interleaved: both meet the same machine
            ours.append(_ours(given.trace))
            if given.hta_python:
                theirs.append(_run([given.hta_python, str(HERE / "hta_analyses.py"), str(given.trace)]))
        if theirs:
            print(_line("HolisticTraceAnalysis 0.5.0, packed", mega, theirs))
        print(_line("Bakeoff, packed", mega, ours, theirs), flush=True)
        original.unlink()
        for index, times in enumerate(given.grow):
            path = Path(folder) / f"x{times}.json"
            mega = grow(given.trace, path, times) / 1e6
            others: list[Any] = []
            if index == 0 and given.hta_grown and given.hta_python:
                others = [_run([given.hta_python, str(HERE / "hta_analyses.py"), str(path)])]
                print(_line(f"HolisticTraceAnalysis 0.5.0, ×{times}", mega, others))
            runs = [_ours(path) for _ in range(given.repeats)]
            print(_line(f"Bakeoff, ×{times}, plain", mega, runs, others), flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
