"""Prompts, load and cache of a workload: what can be written, what it means, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bakeoff.config import parse_experiment
from bakeoff.errors import ConfigError
from bakeoff.model import BlockSize, Load, Prompts, Workload

_FRAME = """
variants:
  base: {{engine: openai, url: "http://127.0.0.1:1"}}
  fast: {{engine: openai, url: "http://127.0.0.1:2"}}
workloads:
  chat:
    {lines}
"""


def _parse(folder: Path, *lines: str) -> Workload:
    for name in ("talks.json", "trace.csv", "trace.jsonl", "p.jsonl"):
        (folder / name).touch()
    text = _FRAME.format(lines="\n    ".join(lines))
    return parse_experiment(text, "x.yaml", folder, {}).workload("chat")


def _problems(folder: Path, *lines: str) -> str:
    with pytest.raises(ConfigError) as caught:
        _parse(folder, *lines)
    return str(caught.value)


_SYNTHETIC = "prompts: {input_tokens: 100, output_tokens: 10}"


def test_a_conversation_with_everything(tmp_path: Path) -> None:
    workload = _parse(
        tmp_path,
        "prompts: {input_tokens: 100, turns: 4, think: 500ms, history: answered, shared_prefix: 50%}",
        "output_tokens: 10",
        "load: {concurrency: [1, 3], ramp: 10s}",
        "block: {seconds: 1min}",
    )
    assert workload.prompts == Prompts(input_tokens=100, turns=4, think_s=0.5, history="answered", shared_prefix=0.5)
    assert workload.load == Load(kind="closed", levels=(1.0, 3.0), ramp_s=10.0)
    assert workload.cache == "declared"


def test_a_trace_is_replayed_at_its_own_lengths(tmp_path: Path) -> None:
    workload = _parse(
        tmp_path,
        "prompts: {source: mooncake, path: trace.jsonl, sample: 50, max_input_tokens: 8000, overlong: skip}",
        "load: {replay: [1, 2.5]}",
    )
    assert workload.prompts == Prompts(
        source="mooncake",
        path=str(tmp_path / "trace.jsonl"),
        sample=50,
        max_input_tokens=8000,
        overlong="skip",
        recorded_lengths=True,
    )
    assert workload.load == Load(kind="replay", levels=(1.0, 2.5))
    assert (workload.cache, workload.output_tokens, workload.block) == ("declared", 4096, BlockSize(requests=16))


@pytest.mark.parametrize(
    ("lines", "cache"),
    [
        ([_SYNTHETIC], "unique"),
        (["prompts: {source: azure, path: trace.csv}"], "unique"),
        (["prompts: {source: sharegpt, path: talks.json}"], "unique"),
        (["prompts: {source: sharegpt, path: talks.json, turns: 3}"], "declared"),
        (["prompts: {source: mooncake, path: trace.jsonl}"], "declared"),
        (["prompts: {source: mooncake, path: trace.jsonl}", "cache: unique"], "unique"),
        (["prompts: {input_tokens: 9, output_tokens: 9, shared_prefix: 0.2}"], "declared"),
        (["prompts: {input_tokens: 9, output_tokens: 9, shared_prefix: 0.2}", "cache: shared"], "shared"),
    ],
)
def test_what_prompts_share_may_be_reused_and_else_nothing(tmp_path: Path, lines: list[str], cache: str) -> None:
    assert _parse(tmp_path, *lines, "load: {rate: 2}").cache == cache


def test_recorded_lengths_count_only_where_none_is_given(tmp_path: Path) -> None:
    given = _parse(tmp_path, "prompts: {source: azure, path: trace.csv, output_tokens: 7}", "load: {rate: 2}")
    assert (given.prompts.recorded_lengths, given.output_tokens) == (False, 7)
    lines = _parse(tmp_path, "prompts: {path: p.jsonl, output_tokens: 7}", "load: {rate: 2}")
    assert not lines.prompts.recorded_lengths


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("{rate: 2}", Load(kind="open", levels=(2.0,))),
        ("{rate: 2, arrivals: constant}", Load(kind="open", levels=(2.0,), arrivals="constant")),
        ("{rate: 2, burstiness: 0.25}", Load(kind="open", levels=(2.0,), arrivals="gamma", burstiness=0.25)),
        (
            "{rate: 2, arrivals: gamma, burstiness: 3}",
            Load(kind="open", levels=(2.0,), arrivals="gamma", burstiness=3.0),
        ),
    ],
)
def test_arrivals(tmp_path: Path, load: str, expected: Load) -> None:
    assert _parse(tmp_path, _SYNTHETIC, f"load: {load}").load == expected


def test_a_block_of_conversations_has_room_for_them(tmp_path: Path) -> None:
    workload = _parse(
        tmp_path, "prompts: {input_tokens: 9, output_tokens: 9, turns: 5, think: 0}", "load: {concurrency: 2}"
    )
    assert workload.block == BlockSize(requests=40)
    assert workload.prompts.think_s == 0


@pytest.mark.parametrize(
    ("prompts", "more", "expected"),
    [
        ("{input_tokens: 9, path: p.jsonl, source: synthetic}", "", "path: is for prompts of a file; synthetic"),
        ("{input_tokens: 9, sample: 3}", "", "sample: is for prompts of a file"),
        ("{input_tokens: 9, max_input_tokens: 3}", "", "max_input_tokens: is for prompts of a file"),
        ("{path: p.jsonl, input_tokens: 9}", "", "input_tokens: is for synthetic prompts"),
        ("{path: p.jsonl, shared_prefix: 10%}", "", "shared_prefix: is for synthetic prompts"),
        ("{source: azure, path: trace.csv, turns: 2}", "", "turns: is for conversations; a trace"),
        ("{source: azure}", "", "prompts.path: is missing"),
        ("{source: sharegpt, path: gone.json}", "", "there is no file"),
        ("{source: [azure], path: trace.csv}", "", "source: must be 'synthetic'"),
        ("{input_tokens: 9, think: 2s}", "", "think: is for conversations"),
        ("{input_tokens: 9, history: answered}", "", "history: is for conversations"),
        ("{path: p.jsonl, overlong: skip}", "", "overlong: needs a limit"),
        ("{input_tokens: 9, shared_prefix: 100%}", "", "below 100%"),
        ("{input_tokens: 9, turns: 0}", "", "must be at least 1"),
        ("{input_tokens: 9, turns: 2, think: -1s}", "", "must be a time"),
        ("{input_tokens: 9, shared_prefix: 0.5}", "cache: unique", "cache: `unique` puts a nonce"),
        ("{input_tokens: 9}", "cache: declaired", "did you mean 'declared'?"),
        ("{input_tokens: 9, turns: 4}", "block: {requests: 6}", "6 requests can never keep 2 at a time busy with"),
    ],
)
def test_prompts_that_do_not_fit(tmp_path: Path, prompts: str, more: str, expected: str) -> None:
    lines: list[Any] = [f"prompts: {prompts}", "output_tokens: 5", "load: {concurrency: 2}", *filter(None, [more])]
    assert expected in _problems(tmp_path, *lines)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("{replay: 1}", "replay: needs a trace"),
        ("{replay: 0}", "must be more than 0"),
        ("{rate: 1, replay: 1}", "has both rate and replay"),
        ("{repplay: 1}", "did you mean 'replay'?"),
        ("{rate: 1, ramp: 5s}", "ramp: is for a closed loop"),
        ("{concurrency: 1, burstiness: 0.5}", "burstiness: is for a rate"),
        ("{concurrency: 1, ramp: 20s}", "ramp: is as long as the block"),
        ("{rate: 1, arrivals: gamma}", "needs a burstiness"),
        ("{rate: 1, arrivals: poisson, burstiness: 2}", "burstiness: is for arrivals: gamma"),
        ("{rate: 1, burstiness: 0}", "must be more than 0"),
        ("{rate: 1, arrivals: gama}", "did you mean 'gamma'?"),
        ("{rate: [1, 1]}", "names the level 1 twice"),
    ],
)
def test_loads_that_do_not_fit(tmp_path: Path, load: str, expected: str) -> None:
    assert expected in _problems(tmp_path, _SYNTHETIC, f"load: {load}", "block: {seconds: 20}")


def test_an_answer_length_is_still_needed_where_the_source_has_none(tmp_path: Path) -> None:
    for prompts in ("{input_tokens: 9}", "{path: p.jsonl}"):
        assert "output_tokens: is missing" in _problems(tmp_path, f"prompts: {prompts}", "load: {rate: 1}")


def test_throughput_cannot_gate_a_replay(tmp_path: Path) -> None:
    text = _FRAME.format(lines="prompts: {source: azure, path: trace.csv}\n    load: {replay: 1}")
    (tmp_path / "trace.csv").touch()
    with pytest.raises(ConfigError, match="says nothing about the variants"):
        parse_experiment(text + "gates: [request_throughput_rps]\n", "x.yaml", tmp_path, {})
