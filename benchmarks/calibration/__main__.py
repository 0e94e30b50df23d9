"""Does the method behave as it promises? Simulated servers with known truth and noise, through the whole compare path.

    python -m benchmarks.calibration                          (full form; from the root of the repository)
    python -m benchmarks.calibration --jobs 2 --part null power --repetitions 200

Prints a Markdown table, a line as soon as it is known. Every share has its Monte Carlo standard error, and a target
counts as missed when it is missed by more than two of them. Exits 1 if one is. Seeded: the same numbers every time.
"""

from __future__ import annotations

import argparse
import os
import time

# Arrays are small here: threads of the linear algebra library would only wait for each other.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from tests.simulation.suite import PARTS, run  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--noise", default="", help="only checks whose noise scenario contains this text")
    parser.add_argument("--repetitions", type=int, help="of every check (default: 2,000 of the quick ones, 400–1,000)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the default repetitions")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    print("| check | noise | what | measured | target | | repetitions |\n|---|---|---|---|---|---|---|", flush=True)
    missed = 0
    begun = time.monotonic()
    for part in arguments.part:
        for check in PARTS[part]():
            if arguments.noise not in check.case:
                continue
            repetitions = arguments.repetitions or max(20, round(check.repetitions * arguments.scale))
            for line in run(check, repetitions, arguments.jobs):
                missed += line.ok is False
                sign = {None: "", True: "ok", False: "**missed**"}[line.ok]
                cells = (line.group, line.case, line.what, line.measured, line.target, sign, f"{line.trials:,}")
                print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{missed} targets missed; {(time.monotonic() - begun) / 60:.0f} minutes.")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
