"""The load client against its floor and its peers: errors of TTFT and of gaps, CPU time, rates, memory, start-up.

Everything is sent to our mock, whose send log is the truth. Tools are interleaved within each repetition, in a drawn
order; ours takes part twice (an A/A pair). The mock and the tool have one core each, and with --unpinned all cores.

    python benchmarks/load/run.py
    python benchmarks/load/run.py --peer vllm=BIN --peer guidellm=BIN --peer aiperf=BIN --tokenizer FOLDER
    python benchmarks/load/run.py --scenario one --repetitions 2 --unpinned

Peers: aiperf 0.13, guidellm 0.8, vLLM's `bench serve`, each in a virtual environment of its own; BIN is its program.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from child import mock, run
from scenarios import ALL, IDLE, Scenario
from table import head, quantile, row, spread
from task import Task
from tools import Child, Tool, tools
from truth import errors

from bakeoff.mock.sendlog import read_send_log

Results = dict[tuple[str, str], dict[str, list[float]]]  # (scenario, tool) → metric → a value a repetition
TIMEOUT_S = 300.0


def measure(tool: Tool, scenario: Scenario, cores: tuple[int | None, int | None], folder: Path) -> dict[str, float]:
    """One run of one tool on a fresh mock."""
    log, out = folder / "send.jsonl", folder / "out.json"
    if scenario.peers is not None and not isinstance(tool, Child):
        scenario = replace(scenario, requests=scenario.peers)
    with mock(scenario.mock, log, cores[0]) as (url, server):
        task = Task(url, str(out), scenario.requests, scenario.tokens, scenario.concurrency, scenario.rate)
        before = server.cpu_times()
        usage = run(tool.command(task), tool.environment, cores[1], TIMEOUT_S)
        after = server.cpu_times()
    sent = [record for record in read_send_log(log) if record.chunk_ns]
    seen, told = tool.read(out)
    wrong = errors(seen, sent)
    first_s, last_s = min(r.recv_ns for r in sent) / 1e9, max(r.end_ns for r in sent) / 1e9
    time_s = last_s - first_s
    served = after.user + after.system - before.user - before.system
    return {
        "ttft_p50": quantile(wrong.ttft_s, 0.5),
        "ttft_p99": quantile(wrong.ttft_s, 0.99),
        **({"gap_p50": quantile(wrong.gap_s, 0.5), "gap_p99": quantile(wrong.gap_s, 0.99)} if wrong.gap_s else {}),
        "requests": float(len(sent)),
        "requests_s": len(sent) / time_s,
        "tokens_s": sum(r.output_tokens for r in sent) / time_s,
        "tokens": float(sum(r.output_tokens for r in sent)),
        "mock_busy": served / time_s,
        "cpu": usage.cpu_between(first_s, last_s),
        "memory": float(usage.memory),
        "start": first_s - usage.started_s,
        **told,
    }


def collect(chosen: list[Tool], scenarios: list[Scenario], repetitions: int, pinned: bool) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    usable = sorted(os.sched_getaffinity(0))
    if pinned and len(usable) < 2:
        raise SystemExit("pinning needs two cores")
    cores = (usable[0], usable[1]) if pinned else (None, None)
    order = random.Random(1)
    for repetition in range(repetitions):
        for scenario in (IDLE, *scenarios):
            turn = [tool for tool in chosen if isinstance(tool, Child) or not scenario.own_only]
            order.shuffle(turn)
            for tool in turn:
                print(f"{repetition + 1}/{repetitions} {scenario.name} {tool.name}", file=sys.stderr)
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        found = measure(tool, scenario, cores, Path(folder))
                    except (RuntimeError, OSError, KeyError, ValueError) as error:
                        print(f"  failed: {error}", file=sys.stderr)
                        continue
                for name, value in found.items():
                    results[scenario.name, tool.name][name].append(value)
    return results


def report(results: Results, chosen: list[Tool], scenarios: list[Scenario]) -> None:
    columns = [
        "load", "tool", "TTFT error p50 [ms]", "p99", "gap error p50 [ms]", "p99", "CPU per token [µs]", "requests/s",
        "tokens/s", "lag p99 [ms]", "peak memory [MB]", "mock's core",
    ]  # fmt: skip
    print(head(columns))
    for scenario in scenarios:
        for tool in chosen:
            got = results.get((scenario.name, tool.name))
            if not got:
                continue
            cpu = [c / t for c, t in zip(got["cpu"], got["tokens"], strict=True)]
            print(
                row(
                    [
                        scenario.says,
                        tool.name,
                        spread(got["ttft_p50"], 1e3),
                        spread(got["ttft_p99"], 1e3),
                        spread(got["gap_p50"], 1e3, 3),
                        spread(got["gap_p99"], 1e3),
                        spread(cpu, 1e6, 1),
                        spread(got["requests_s"], digits=0),
                        spread(got["tokens_s"], digits=0),
                        spread(got["lag_p99_s"], 1e3),
                        spread(got["memory"], 1e-6, 0),
                        spread(got["mock_busy"], 100, 0) + " %",
                    ]
                )
            )
    print("\n" + head(["tool", "start to first request [s]"]))
    for tool in chosen:
        print(row([tool.name, spread(results[IDLE.name, tool.name]["start"])]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=BIN")
    parser.add_argument("--tokenizer", default="", help="a folder with a tokenizer, which every peer needs")
    parser.add_argument("--scenario", action="append", choices=list(ALL), help="default: all")
    parser.add_argument("--only", action="append", default=[], help="names of single loads within them")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--unpinned", action="store_true")
    options = parser.parse_args()
    if options.peer and not options.tokenizer:
        parser.error("--peer needs --tokenizer")
    chosen = tools(options.peer, options.tokenizer)
    wanted = [scenario for name in options.scenario or ALL for scenario in ALL[name]]
    scenarios = [scenario for scenario in wanted if not options.only or scenario.name in options.only]
    results = collect(chosen, scenarios, options.repetitions, not options.unpinned)
    print(f"{options.repetitions} repetitions, {'unpinned' if options.unpinned else 'one core each'}: median (range)\n")
    report(results, chosen, scenarios)


if __name__ == "__main__":
    main()
