"""Who says what of the same simulated runs: Bakeoff and `inference-doctor compare-runs` 0.4.1.

The candidate is truly 3 % faster, while the machine becomes slower all the time (10 % over the run). Once the base is
measured first and the candidate after it, once they are interleaved; and both again without the drift. Ten blocks
of 200 requests an arm; a block is one repetition to the other tool, in its own normalised format. It runs in its own
virtual environment, by its own command line, `--regression-percent 3`, at its default confidence (90 %) and at 95 %.

    python -m benchmarks.calibration.versus_inference_doctor --python VENV/bin/python [--experiments 200]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from tests.simulation.checks import MEAN, TYPICAL  # noqa: E402
from tests.simulation.counting import share  # noqa: E402
from tests.simulation.noise import SCENARIOS  # noqa: E402
from tests.simulation.suite import asked  # noqa: E402
from tests.simulation.trials import Claim, claims_of, concluded  # noqa: E402
from tests.simulation.world import Run, World  # noqa: E402

from bakeoff.compare.extract import extract  # noqa: E402
from bakeoff.model import BlockData  # noqa: E402

PAIRS, REQUESTS = 10, 200
TRUTH, DRIFT = math.log(0.97), math.log(1.10)
#: A reader of lines (arguments of the command, as JSON) that answers each with the command's own JSON.
_DRIVER = """
import json, sys
from typer.testing import CliRunner
from inference_doctor.cli import app
runner = CliRunner()
for line in sys.stdin:
    done = runner.invoke(app, json.loads(line))
    print(json.dumps({"code": done.exit_code, "out": done.stdout}), flush=True)
"""


class Said(NamedTuple):
    """Of one experiment by one tool. Bounds in log; verdict: the tool's own word; warned: that the order is unfit."""

    low: float
    high: float
    verdict: str
    warned: bool = False


def worlds() -> Iterator[tuple[str, World]]:
    weather = replace(SCENARIOS["+drift"], trend=0.0)
    for told, drift in (("+10 %", DRIFT), ("none", 0.0)):
        for order in ("one after the other", "interleaved"):
            # One start per arm where they follow each other, as it is done; a start a round where they alternate.
            experiment = asked("fixed", PAIRS, REQUESTS, start_every=int(order == "interleaved"))
            world = World(experiment=experiment, weather=weather, effect=TRUTH, drift=drift, order=order)
            yield f"{told} | {'base first' if order != 'interleaved' else order}", world


def ours(run: Run) -> dict[str, Said]:
    result = concluded(run)
    codes = {c.code for c in result.warnings}
    claims = claims_of(result)
    return {
        f"Bakeoff, fixed n, {name}": _said(claims[row], "not-interleaved" in codes)
        for name, row in (("mean", MEAN), ("typical request (the gate)", TYPICAL))
    }


def _said(claim: Claim, warned: bool) -> Said:
    return Said(claim.low, claim.high, claim.outcome, warned)


def repetition(data: BlockData) -> dict[str, Any]:
    """A block in the other tool's own format."""
    ms = extract(data).values["ttft_s"] * 1e3
    spread = {
        "mean": float(ms.mean()),
        "median": float(np.median(ms)),
        "p95": float(np.quantile(ms, 0.95)),
        "p99": float(np.quantile(ms, 0.99)),
    }
    return {
        "schema_version": "1",
        "environment": {"gpu": "simulated", "model": "simulated"},
        "benchmark_parameters": {"num_prompts": ms.size, "max_concurrency": 1},
        "metrics": {"ttft_ms": spread, "e2el_ms": spread, "requests": {"successful": ms.size, "failed": 0}},
    }


class Doctor:
    """The other tool, held open."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def says(self, run: Run) -> dict[str, Said]:
        arms = {variant: self._folder / variant for variant in ("base", "flash")}
        for variant, folder in arms.items():
            folder.mkdir(exist_ok=True)
            blocks = [b for b in run.blocks if b.block.variant == variant and b.block.kind == "measure"]
            for i, data in enumerate(blocks):
                (folder / f"repetition-{i:03}.json").write_text(json.dumps(repetition(data)))
        found = {}
        for metric in ("mean", "median"):
            for confidence in ("0.9", "0.95"):
                report = self._ask(
                    "compare-runs", "--baseline", str(arms["base"]), "--candidate", str(arms["flash"]),
                    "--metric", f"e2el_{metric}_ms", "--regression-percent", "3", "--confidence", confidence, "--json",
                )  # fmt: skip
                interval = report["confidence_interval"]
                name = f"inference-doctor, {metric}, {100 * float(confidence):g} %"
                low, high = (math.log1p(interval[f"regression_percent_{side}"] / 100) for side in ("low", "high"))
                found[name] = Said(low, high, report["result"])
        return found

    def _ask(self, *arguments: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return json.loads(answer["out"])


@contextmanager
def doctor(python: Path) -> Iterator[Doctor]:
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [str(python), "-c", _DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        yield Doctor(process, Path(folder))
        assert process.stdin is not None
        process.stdin.close()  # the driver ends with its input


def line(case: str, name: str, said: Sequence[Said]) -> str:
    def percent(hits: Iterator[bool]) -> str:
        return f"{100 * share(hits).value:.0f} %"

    verdicts = Counter(s.verdict for s in said)
    words = ", ".join(f"{word} {100 * count / len(said):.0f} %" for word, count in verdicts.most_common())
    middle = float(np.mean([(s.low + s.high) / 2 for s in said]))
    cells = (
        f"{100 * math.expm1(middle):+.1f} %",
        percent(s.high < 0 for s in said),
        percent(s.low > 0 for s in said),
        percent(s.low <= TRUTH <= s.high for s in said),
        words,
        percent(s.warned for s in said) if name.startswith("Bakeoff") else "–",
    )
    return f"| {case} | {name} | " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="of the environment that has inference-doctor")
    parser.add_argument("--experiments", type=int, default=200)
    arguments = parser.parse_args()
    print(f"Truth: −3 %. {arguments.experiments} experiments a case.\n")
    heads = ("drift", "order", "by", "middle of the interval", "faster (excludes 0)", "slower (excludes 0)",
             "holds the truth", "its verdicts", "warns of the order")  # fmt: skip
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    with doctor(arguments.python) as other:
        for case, world in worlds():
            said: dict[str, list[Said]] = {}
            for number in range(arguments.experiments):
                run = world.measure(PAIRS, "against another tool", case, number)
                for name, word in {**other.says(run), **ours(run)}.items():
                    said.setdefault(name, []).append(word)
            for name, words in said.items():
                print(line(case, name, words), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
