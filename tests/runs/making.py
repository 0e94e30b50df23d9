"""Ready-made experiments, blocks and records for the tests of the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bakeoff.model import (
    Block,
    BlockSize,
    Experiment,
    Health,
    Load,
    Prompts,
    RequestRecord,
    Sample,
    Variant,
    Workload,
)
from bakeoff.runs import RunFolder


def experiment(name: str = "Q4 gegen Q8: größer?", **settings: Any) -> Experiment:
    return Experiment(
        name=name,
        variants=(
            Variant(name="base", engine="openai", settings={"url": "http://127.0.0.1:1/v1", **settings}),
            Variant(name="flash", engine="openai", settings={"url": "http://127.0.0.1:2/v1"}),
        ),
        workloads=(
            Workload(
                name="chat",
                prompts=Prompts(input_tokens=32),
                output_tokens=8,
                load=Load(kind="closed", levels=(1,)),
                block=BlockSize(requests=4),
            ),
        ),
    )


def folder(root: Path, **kw: Any) -> RunFolder:
    return RunFolder.create(
        root, experiment(**kw), command=["bakeoff", "run", "e.yaml"], source="e.yaml", version="0.0.1"
    )


def block(block_id: int, requests: int = 2, **kw: Any) -> Block:
    fields: dict[str, Any] = {
        "id": block_id,
        "round": block_id // 2,
        "position": block_id % 2,
        "variant": "base",
        "cell": "chat/c1",
        "start_id": 0,
        "group": 0,
        "started_ns": 10,
        "ended_ns": 2**62,
        "wall": 1.5,
        "window_ns": (10, 20),
        "requests": requests,
        "errors": 0,
        "health": Health(cores=2),
        "notes": ("ein Wort",),
    }
    return Block(**{**fields, **kw})


def record(index: int, **kw: Any) -> RequestRecord:
    fields: dict[str, Any] = {
        "index": index,
        "prompt_id": 100 + index,
        "scheduled_ns": 5,
        "sent_ns": 7,
        "first_token_ns": 90,
        "output_tokens": 3,
        "chunk_ns": [90, 95, 99],
        "chunk_tokens": [1, 1, 1],
        "chunk_coalesced": [False, False, True],
        "text": "żółw 🐢",
        "server_timings": {"prompt_ms": 12.5},
    }
    return RequestRecord(**{**fields, **kw})


def sample(t_ns: int, **kw: Any) -> Sample:
    return Sample(t_ns=t_ns, tree_cpu_s=0.5, runnable=2, **kw)
