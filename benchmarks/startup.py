"""How long does the program take to say anything? `bakeoff --help` (wall) and `import bakeoff` (CPU), interleaved with
a bare Python as the floor.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import bakeoff": [sys.executable, "-c", "import bakeoff"],
    "bakeoff --help": [sys.executable, "-m", "bakeoff", "--help"],
    "bakeoff run --help": [sys.executable, "-m", "bakeoff", "run", "--help"],
}
REPETITIONS = 15


def measure(command: list[str]) -> tuple[float, float]:
    """(wall, CPU) seconds of one call."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(REPETITIONS):
        for name, command in COMMANDS.items():
            times[name].append(measure(command))
    print("| command | wall p50 | wall max | CPU p50 |")
    print("|---|---|---|---|")
    for name, values in times.items():
        walls = [wall * 1e3 for wall, _ in values]
        cpu = statistics.median(cpu for _, cpu in values) * 1e3
        print(f"| `{name}` | {statistics.median(walls):.0f} ms | {max(walls):.0f} ms | {cpu:.0f} ms |")


if __name__ == "__main__":
    main()
