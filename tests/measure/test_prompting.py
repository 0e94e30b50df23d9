"""From prompts to requests: places in conversations, lengths asked for, and one schedule for all arms."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from bakeoff.measure.prompting import PromptSources, prepare_all
from bakeoff.model import BlockSize, Cell, Endpoint, Experiment, Load, Prompts, Variant, Workload
from bakeoff.workloads import PromptFactory

_ENDPOINT = Endpoint(base_url="http://127.0.0.1:1/v1", model="m")


def _workload(**changes: Any) -> Workload:
    plain: dict[str, Any] = {
        "name": "w",
        "prompts": Prompts(input_tokens=40, turns=3, think_s=1.5),
        "output_tokens": 10,
        "load": Load(kind="open", levels=(4.0, 8.0)),
        "block": BlockSize(requests=6),
        "api": "chat",
        "cache": "declared",
    }
    return Workload(**(plain | changes))


def _experiment(workload: Workload) -> Experiment:
    return Experiment(
        name="e",
        variants=(Variant(name="a", engine="openai"), Variant(name="b", engine="openai")),
        workloads=(workload,),
    )


async def _prompts(workload: Workload, count: int) -> Any:
    return await PromptFactory(workload, seed=1, run_id="r").block(round=0, variant="a", visit="v", count=count)


async def _prepared(workload: Workload, count: int = 6) -> Any:
    return prepare_all(_ENDPOINT, workload, await _prompts(workload, count))


def test_requests_know_their_place_and_what_was_asked() -> None:
    prepared = asyncio.run(_prepared(_workload()))
    assert [(p.index, p.conversation, p.turn) for p in prepared] == [(n, n // 3, n % 3) for n in range(6)]
    assert [p.think_ns for p in prepared] == [0, 1_500_000_000, 1_500_000_000] * 2
    assert [p.asked_input_tokens for p in prepared] == [40, 90, 140] * 2
    assert {p.asked_output_tokens for p in prepared} == {10}
    roles = [[m["role"] for m in json.loads(p.body)["messages"]] for p in prepared]
    assert roles[2] == ["user", "assistant", "user", "assistant", "user"]
    assert all(p.build is None for p in prepared)


def test_an_answered_history_is_built_from_the_servers_answers() -> None:
    answered = _workload(prompts=Prompts(input_tokens=40, turns=3, history="answered"))
    prepared = asyncio.run(_prepared(answered))
    assert prepared[0].build is None
    assert prepared[2].build is not None
    body, shown = prepared[2].build(["first said", "then said"])
    messages = json.loads(body)["messages"]
    assert [m["content"] for m in messages if m["role"] == "assistant"] == ["first said", "then said"]
    assert messages[0] == json.loads(prepared[0].body)["messages"][0]
    assert "then said" in (shown or "")
    assert (prepared[0].asked_input_tokens, prepared[2].asked_input_tokens) == (40, None)


def test_the_schedule_is_the_same_for_all_arms_and_differs_by_round_and_cell() -> None:
    workload = _workload()
    cells = [Cell(workload="w", kind="open", level=level) for level in (4.0, 8.0)]
    first, second = PromptSources(_experiment(workload)), PromptSources(_experiment(workload))
    drawn = [first.schedule(workload, cell, round_) for cell in cells for round_ in range(3)]
    assert drawn == [second.schedule(workload, cell, round_) for cell in cells for round_ in range(3)]
    assert len(set(drawn)) == 6
    assert first.schedule(workload, Cell(workload="w", kind="closed", level=1.0), 0) is None


def test_a_replay_has_the_traces_times_and_reads_its_file_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        "".join(f'{{"timestamp": {n * 10}, "input_length": 30, "output_length": {n + 1}}}\n' for n in range(6)), "utf-8"
    )
    prompts = Prompts(source="mooncake", path=str(path), recorded_lengths=True)
    workload = _workload(prompts=prompts, load=Load(kind="replay", levels=(2.0,)), block=BlockSize(requests=3))
    sources = PromptSources(_experiment(workload))
    cell = Cell(workload="w", kind="replay", level=2.0)
    assert sources.schedule(workload, cell, 1) == (0, 5_000_000, 10_000_000)
    assert sources.of(workload, warmup=True).source is sources.of(workload).source


def test_warm_up_sends_first_turns_alone() -> None:
    workload = _workload()
    factory = PromptSources(_experiment(workload)).of(workload, warmup=True)
    block = asyncio.run(factory.block(round=1_000_000, variant="a", visit="warm", count=4))
    assert [p.turn for p in block] == [0, 0, 0, 0]
