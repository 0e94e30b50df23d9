"""A made-up run, realistic in shape: base, flash and fixed at a short and a long prompt, eight rounds."""

from __future__ import annotations

import random
from collections.abc import Mapping

from bakeoff.compare.view import Material, View, build_view
from bakeoff.model import (
    Block,
    BlockData,
    BlockSize,
    Budget,
    Caution,
    Comparison,
    Decision,
    Environment,
    Experiment,
    Finding,
    Health,
    Interval,
    Load,
    Outcome,
    Prompts,
    QualityNote,
    Ratio,
    RequestRecord,
    Result,
    Sample,
    Start,
    Variant,
    Workload,
)
from bakeoff.runs.columns import to_columns

ROUNDS = 8
# TTFT [s] and TPOT [s] by prompt length: reading long prompts is what flash pays for.
TRUTH: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "short/c1": {"base": (0.212, 0.0217), "flash": (0.231, 0.0141), "fixed": (0.168, 0.0143)},
    "long/c1": {"base": (6.6, 0.0231), "flash": (11.2, 0.0187), "fixed": (5.2, 0.0152)},
}
ANSWERS = {
    "base": "The oven should be preheated to 220 °C. Score the loaf and bake it for 35 minutes, until it is dark.",
    "flash": "The oven should be preheated to 220 °C. Score the loaf, then bake for half an hour with steam.",
    "fixed": "The oven should be preheated to 220 °C. Score the loaf and bake it for 35 minutes, until it is dark.",
}


def experiment() -> Experiment:
    def workload(name: str, tokens: int) -> Workload:
        return Workload(
            name=name,
            prompts=Prompts(input_tokens=tokens),
            output_tokens=32,
            load=Load(kind="closed", levels=(1.0,)),
            block=BlockSize(requests=12),
        )

    def variant(name: str, weights: str, kv: str) -> Variant:
        settings = {"model": f"/home/baker/models/gemma-3-270m-{weights}.gguf", "context": 4096, "kv_type": kv}
        return Variant(name=name, engine="llamacpp", settings=settings)

    return Experiment(
        name="smaller-everything",
        variants=(variant("base", "q8_0", "f16"), variant("flash", "q4_0", "q8_0"), variant("fixed", "q4_0", "f16")),
        workloads=(workload("short", 128), workload("long", 2048)),
        budget=Budget(max_pairs=12),
    )


def blocks(seed: int = 7) -> list[BlockData]:
    """Eight rounds in Williams order, with start effects, drift and a second visit to the base in two rounds."""
    rng = random.Random(seed)
    found: list[BlockData] = []
    clock = 1_000_000_000_000
    for number in range(ROUNDS):
        order = [("base", "measure"), ("flash", "measure"), ("fixed", "measure")]
        order = order[number % 3 :] + order[: number % 3]
        if number in (1, 5):
            order.append(("base", "aa"))
        for position, (arm, kind) in enumerate(order):
            clock += 4_000_000_000
            start_effect = rng.gauss(1, 0.012)
            for cell in rng.sample(list(TRUTH), 2):
                data = _block(rng, len(found), (number, position), (arm, kind, cell), clock, start_effect)
                found.append(data)
                clock = data.block.ended_ns + 300_000_000
    return found


def _block(
    rng: random.Random, id: int, place: tuple[int, int], what: tuple[str, str, str], clock: int, effect: float
) -> BlockData:
    (number, position), (arm, kind, cell) = place, what
    ttft, tpot = TRUTH[cell][arm]
    records, now = [], clock
    for index in range(12):
        factor = effect * (1 + 0.004 * number) * rng.lognormvariate(0, 0.03)
        first = now + int(ttft * factor * 1e9 * (1 + 0.06 * (index % 4)))
        last = first + int(31 * tpot * factor * 1e9)
        records.append(
            RequestRecord(
                index=index,
                prompt_id=number * 100 + index,
                scheduled_ns=now,
                sent_ns=now + 90_000,
                first_byte_ns=first - 20_000,
                first_token_ns=first,
                first_output_ns=first,
                last_token_ns=last,
                end_ns=last + 200_000,
                input_tokens=128,
                output_tokens=32,
                tokens_source="usage",
                finish_reason="length",
                status=200,
                error="timeout" if (arm, number, index) == ("flash", 3, 5) else None,
                prompt=f"[{number:02d}{index:02d}] How hot should the oven be for a sourdough loaf, and for how long?",
                text=ANSWERS[arm],
            )
        )
        now = last + 1_000_000
    noisy = number == 4 and arm == "flash"
    block = Block(
        id=id,
        round=number,
        position=position,
        variant=arm,
        cell=cell,
        kind="aa" if kind == "aa" else "measure",
        start_id=number * 4 + position,
        group=number,
        started_ns=clock,
        ended_ns=now,
        wall=1_790_000_000 + clock / 1e9,
        window_ns=(clock, now),
        requests=12,
        errors=sum(1 for r in records if r.error),
        warmup_requests=3,
        warmup_stable=True,
        health=Health(
            send_delay_p50_s=9e-5,
            send_delay_p99_s=rng.uniform(2e-4, 5e-4),
            loop_lag_p99_s=rng.uniform(2e-4, 6e-4),
            client_cpu_share=0.02,
            tree_cpu_share=1.93 * rng.uniform(0.99, 1.01),
            other_cpu_share=0.61 if noisy else rng.uniform(0.01, 0.05),
            steal_share=rng.uniform(0, 0.01),
            cores=2,
            frequency_mhz=2600 + rng.gauss(0, 12),
        ),
    )
    return BlockData(block=block, columns=to_columns(records))


def samples(data: list[BlockData]) -> dict[int, list[Sample]]:
    memory = {"base": 410e6, "flash": 226e6, "fixed": 251e6}
    return {
        b.block.id: [
            Sample(
                t_ns=b.block.started_ns + i * 1_000_000_000,
                tree_anon_bytes=int(memory[b.block.variant] * (0.9 + i / 50)),
            )
            for i in range(6)
        ]
        for b in data
    }


def row(
    candidate: str,
    where: str | None,
    metric: str,
    base: float,
    ratio: tuple[float, float | None, float | None],
    outcome: Outcome,
    *,
    statistic: str = "p50",
    gate: bool = False,
    pairs: int = ROUNDS,
    reason: str | None = None,
    needed: int | None = None,
    detectable: bool = False,
) -> Comparison:
    from bakeoff.metrics import METRICS

    known = METRICS[metric]
    point, low, high = ratio
    return Comparison(
        candidate=candidate,
        workload=where,
        load={} if where is None else {"concurrency": 1.0},
        metric=metric,
        statistic=statistic,
        unit=known.unit,
        better=known.better,
        base=Interval(point=base, low=base * 0.99, high=base * 1.01),
        value=Interval(
            point=base * point, low=None if low is None else base * low, high=None if high is None else base * high
        ),
        ratio=Ratio(point=point, low=low, high=high),
        outcome=outcome,
        margin=0.03,
        pairs=pairs,
        gate=gate,
        detectable=detectable,
        reason=reason,
        pairs_needed=needed,
        minimum_detectable=0.041,
        method="median of paired-prompt log ratios; anytime-valid t confidence sequence over pairs",
    )


def comparisons() -> tuple[Comparison, ...]:
    return (
        row("flash", "short", "ttft_s", 0.212, (1.09, 1.064, 1.117), "slower", gate=True),
        row("flash", "short", "tpot_s", 0.0217, (0.65, 0.63, 0.67), "faster", gate=True),
        row("flash", "short", "e2e_latency_s", 0.885, (0.755, 0.735, 0.776), "faster"),
        row("flash", "short", "ttft_s", 0.251, (1.1, 1.05, 1.152), "slower", statistic="mean"),
        row("fixed", "short", "ttft_s", 0.212, (0.792, 0.771, 0.813), "faster", gate=True),
        row("fixed", "short", "tpot_s", 0.0217, (0.659, 0.641, 0.677), "faster", gate=True),
        row("fixed", "short", "e2e_latency_s", 0.885, (0.691, 0.673, 0.709), "faster"),
        row("fixed", "short", "ttft_s", 0.251, (0.796, 0.76, 0.834), "faster", statistic="mean"),
        row("flash", "long", "ttft_s", 6.61, (1.693, 1.643, 1.745), "slower", gate=True),
        row("flash", "long", "tpot_s", 0.0231, (0.81, 0.772, 0.85), "faster", gate=True),
        row("flash", "long", "e2e_latency_s", 7.33, (1.607, 1.561, 1.654), "slower"),
        row("fixed", "long", "ttft_s", 6.61, (0.788, 0.765, 0.812), "faster", gate=True),
        row("fixed", "long", "tpot_s", 0.0231, (0.658, 0.635, 0.682), "faster", gate=True),
        row("fixed", "long", "e2e_latency_s", 7.33, (0.776, 0.754, 0.799), "faster"),
    )


def resources() -> tuple[Comparison, ...]:
    return (
        row("flash", None, "peak_memory_bytes", 412e6, (0.551, 0.549, 0.553), "better", statistic="peak"),
        row("fixed", None, "peak_memory_bytes", 412e6, (0.612, 0.61, 0.614), "better", statistic="peak"),
        row("flash", None, "cold_start_s", 1.31, (0.93, 0.84, 1.03), "inconclusive", statistic="mean", needed=9),
        row("fixed", None, "cold_start_s", 1.31, (0.921, 0.86, 0.987), "probably faster", statistic="mean", needed=4),
    )


def result() -> Result:
    return Result(
        run="20260714-101502-smaller-everything-k3f9",
        name="smaller-everything",
        state="complete",
        base="base",
        candidates=("flash", "fixed"),
        rounds=ROUNDS,
        stop_reason="every gate is decided after 8 rounds",
        comparisons=comparisons(),
        quality=tuple(
            QualityNote(
                candidate=c, status="not comparable", reason="all variants come from one already quantised file"
            )
            for c in ("flash", "fixed")
        ),
        resources=resources(),
        findings=(
            Finding(
                candidate="flash",
                cause="C02",
                title="KV cache q8_0: attention reads dequantise it",
                share=Interval(point=0.94, low=0.88, high=1.0),
                status="confirmed",
                evidence=("flash with a 16-bit KV cache reads the same prompts 21 % faster than base",),
                fix="fixed: flash with a 16-bit KV cache → TTFT −21 %, TPOT −34 % against base",
                workload="long",
                load={"concurrency": 1.0},
                metric="ttft_s",
            ),
        ),
        decision=Decision(
            ship="fixed",
            conditions=("for both prompt lengths",),
            reasons=("faster than base in every gate", "needs 39 % less memory"),
        ),
        warnings=(
            Caution(
                code="contended",
                message="other processes used 0.6 of 2 cores during 2 of 54 blocks",
                remedy="close what runs beside the benchmark, or pin it to other cores",
                variant="flash",
                cell="long/c1",
            ),
            Caution(
                code="errors",
                severity="note",
                message="2 of 192 requests to flash timed out",
                remedy="see requests/ for the moments; raise request_timeout if the server was still working",
                variant="flash",
            ),
        ),
    )


def environment() -> Environment:
    common = {"engine_version": "llama.cpp b6123", "threads": "2", "flash_attention": "on"}
    return Environment(
        machine={
            "hostname": "oven-03.kitchen.example",
            "os": "Linux 6.1 (Debian 12)",
            "cpu": "AMD EPYC 7B13, 2 cores",
            "memory": "8.2 GB",
            "governor": "performance",
            "python": "3.11.9",
        },
        variants={
            "base": common | {"model_sha256": "9d1c…e2", "model_bytes": "292 MB"},
            "flash": common | {"model_sha256": "51aa…07", "model_bytes": "241 MB"},
            "fixed": common | {"model_sha256": "51aa…07", "model_bytes": "241 MB"},
        },
    )


def starts(data: list[BlockData]) -> list[Start]:
    seen = {b.block.start_id: b.block for b in data}
    return [
        Start(id=i, variant=b.variant, round=b.round, group=b.group, kind=b.kind, spawn_ns=b.started_ns - 2 * 10**9)
        for i, b in seen.items()
    ]


def view(*, redact: bool = False) -> View:
    data = blocks()
    return build_view(
        result(),
        experiment(),
        Material(
            blocks=data,
            starts=starts(data),
            samples=samples(data),
            environment=environment(),
            command="bakeoff run /home/baker/bench/experiment.yaml",
            run_path="runs/20260714-101502-smaller-everything-k3f9",
        ),
        redact=redact,
    )
