"""An Experiment made in code is held against the rules of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import bakeoff
from bakeoff.config import parse_experiment, refuse_wrong
from bakeoff.errors import ConfigError
from bakeoff.model import (
    BlockSize,
    Budget,
    Experiment,
    Load,
    Power,
    Prompts,
    Quality,
    QualityTask,
    Sampling,
    Search,
    Spend,
    Variant,
    Warmup,
    Workload,
)

CHAT = Workload(
    name="chat",
    prompts=Prompts(input_tokens=64),
    output_tokens=8,
    load=Load(kind="closed", levels=(4.0,)),
    block=BlockSize(requests=8),
)
RIGHT = Experiment(
    name="two",
    variants=(
        Variant(name="base", engine="openai", settings={"url": "http://127.0.0.1:8000"}),
        Variant(name="candidate", engine="openai", settings={"url": "http://127.0.0.1:8001"}),
    ),
    workloads=(CHAT,),
    start_every=0,
    resident="all",
)


def chat(**changes: Any) -> dict[str, Any]:
    return {"workloads": (msgspec.structs.replace(CHAT, **changes),)}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"variants": ()}, "variants: needs a base and at least one candidate"),
    ({"variants": RIGHT.variants[:1]}, "variants: needs a base and at least one candidate"),
    ({"variants": (RIGHT.base, RIGHT.base)}, "variants.base: the name stands twice"),
    ({"workloads": ()}, "workloads: must not be empty"),
    ({"workloads": (CHAT, CHAT)}, "workloads.chat: the name stands twice"),
    ({"workloads": [CHAT.name]}, "workloads[0]: Expected object, got str"),
    (chat(name="ttft_s"), "workloads.ttft_s: is the name of a metric"),
    (chat(load=Load(kind="closed", levels=())), "workloads.chat.load.levels: must not be empty"),
    (chat(load=Load(kind="closed", levels=(1.5,))), "workloads.chat.load.levels.0: must be a whole number"),
    (chat(load=Load(kind="open", levels=(-1.0,))), "workloads.chat.load.levels.0: must be more than 0"),
    (chat(load=Load(kind="open", levels=(float("nan"),))), "workloads.chat.load.levels.0: must be"),
    (chat(load=Load(kind="replay", levels=(1.0,))), "workloads.chat.load.levels: needs a trace"),
    (
        chat(load=Load(kind="open", levels=(), search=Search(kind="find"))),
        "workloads.chat.slo: is missing: goodput counts who meets limits",
    ),
    (
        chat(load=Load(kind="open", levels=(), search=Search(kind="sweep", low=9, high=3))),
        "workloads.chat.load.search.high: is not above low",
    ),
    (chat(prompts=Prompts(input_tokens=-64)), "workloads.chat.prompts.input_tokens: must be at least 1, not -64"),
    (
        chat(prompts=Prompts(input_tokens="64")),  # type: ignore[arg-type]  # the mistake
        "workloads[0].prompts.input_tokens: Expected int | null, got str",
    ),
    (chat(prompts=Prompts()), "workloads.chat.prompts.input_tokens: is missing"),
    (chat(prompts=Prompts(input_tokens=8, shared_prefix=0.5)), "workloads.chat.cache: `unique` puts a nonce"),
    (chat(prompts=Prompts(input_tokens=8, think_s=2.0)), "workloads.chat.prompts.think_s: is for conversations"),
    (chat(output_tokens=0), "workloads.chat.output_tokens: must be at least 1"),
    (chat(block=BlockSize()), "workloads.chat.block: needs either requests or seconds"),
    (chat(block=BlockSize(requests=2)), "workloads.chat.block.requests: 2 requests can never keep 4 at a time busy"),
    (chat(sampling=Sampling(temperature=-1)), "workloads.chat.sampling.temperature: must be at least 0"),
    ({"budget": Budget(min_pairs=5, max_pairs=2)}, "budget.min_pairs, budget.max_pairs: starts above its end: 5..2"),
    ({"budget": Budget(min_pairs=0, max_pairs=2)}, "budget.min_pairs, budget.max_pairs: must lie between 2 and 1000"),
    ({"budget": Budget(seconds=-3.0)}, "budget.seconds: must be a time"),
    ({"budget": Budget(seconds=0.0)}, "budget.seconds: must be more than 0"),
    ({"budget": Budget(requests=0)}, "budget.requests: must be at least 1"),
    ({"budget": Budget(spend=Spend(amount=0.0))}, "budget.spend: must be more than nothing"),
    ({"start_every": 1}, "start_every: every variant is a server that runs already"),
    ({"start_every": -1}, "start_every: must be 'every round'"),
    ({"resident": "one"}, '→ resident="all": such servers are all up'),
    ({"gates": ("tpot",)}, "gates.0: there is no metric 'tpot'; did you mean 'tpot_s'?"),
    ({"gates": ()}, "gates: must not be empty"),
    ({"margins": {"tpot": 0.1}}, "margins.tpot: is no metric"),
    ({"margin": 3.0}, "margin: must be at least 0% and below 100%"),
    ({"confidence": 95.0}, "confidence: must lie between 50% and 99.99%"),
    ({"method": "both"}, "method: Invalid enum value 'both'"),
    ({"warmup": Warmup(min_requests=5, max_requests=1)}, "warmup: min_requests (5) is above max_requests (1)"),
    ({"power": Power(idle=-1.0, busy=2.0)}, "power.idle: must be a power"),
    ({"aa_pairs": -1}, "aa_pairs: must be at least 0"),
    ({"quality": Quality()}, "quality: asks for nothing"),
    (
        {"quality": Quality(tasks=(QualityTask(name="q", source="jsonl", path="gone.jsonl"),))},
        "quality.tasks.q.path: there is no file",
    ),
]


def test_a_right_one_passes() -> None:
    refuse_wrong(RIGHT)


@pytest.mark.parametrize(("changes", "expected"), WRONG, ids=[expected for _, expected in WRONG])
def test_each_mistake_names_its_field_and_nothing_is_begun(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        bakeoff.run(msgspec.structs.replace(RIGHT, **changes), root=tmp_path / "runs")
    assert expected in str(caught.value)
    assert caught.value.problems
    assert not (tmp_path / "runs").exists()


def test_all_mistakes_come_at_once() -> None:
    wrong = msgspec.structs.replace(RIGHT, margin=3.0, **chat(output_tokens=0))
    with pytest.raises(ConfigError, match="2 problems in the experiment 'two'"):
        refuse_wrong(wrong)


def test_a_value_that_no_file_can_hold_is_refused() -> None:
    base = Variant(name="base", engine="openai", settings={"url": Path})
    with pytest.raises(ConfigError, match="experiment: "):
        refuse_wrong(msgspec.structs.replace(RIGHT, variants=(base, RIGHT.variants[1])))


_FILES = {
    "defaults": "chat: {prompts: {input_tokens: 24, output_tokens: 4}, load: {concurrency: 1}}",
    "talk": "chat: {prompts: {input_tokens: 24, output_tokens: 4, turns: 3, think: 2s, history: answered}, "
    "load: {concurrency: 2, ramp: 1s}, block: {seconds: 20}, length: natural}",
    "prefix": "chat: {prompts: {input_tokens: 24, output_tokens: 4, shared_prefix: 50%}, load: {rate: [0.5, 2]}}",
    "gamma": "chat: {prompts: {input_tokens: 24, output_tokens: 4}, load: {rate: 2, burstiness: 0.3}}",
    "constant": "chat: {prompts: {input_tokens: 24, output_tokens: 4}, load: {rate: 2, arrivals: constant}}",
    "sweep": "chat: {prompts: {input_tokens: 24, output_tokens: 4}, load: {sweep: concurrency, high: 32}}",
    "find": "chat: {prompts: {input_tokens: 24, output_tokens: 4}, load: {find: goodput, slo: {ttft_s: 50ms}}}",
    "file": "chat: {prompts: {path: p.jsonl, sample: 1, max_input_tokens: 9, overlong: skip}, output_tokens: 4, "
    "load: {concurrency: 1}, cache: shared, sampling: {temperature: 0.5, top_p: 0.9, seed: 3}}",
    "trace": "chat: {prompts: {path: t.csv, source: azure}, load: {replay: [1, 2]}}",
}
_MORE = """
quality:
  margin: 2 points
  tasks:
    made: {datasets: {leg_counting: 3}, repeats: 2}
    sums: {path: q.jsonl, function: "scorer:score", stop: ["."]}
    words: {path: q.jsonl, pattern: 'is (\\w+)'}
    gsm: {task: gsm8k, items: 5}
  divergence: {prompts: 3}
  consistency: {}
budget: {pairs: 6..9, minutes: 0.1, requests: 900, spend: 0.5 EUR}
energy: {idle: 40 W, busy: 1 kW}
margins: {ttft_s: 10%}
starts: every 3 rounds
"""


@pytest.mark.parametrize("name", _FILES)
def test_whatever_a_file_gives_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From wherever it is run: a file's relative paths have become absolute."""
    for file in ("p.jsonl", "q.jsonl", "t.csv", "scorer.py"):
        (tmp_path / file).write_text("")
    text = (
        "variants:\n  base: {engine: command, command: [a, --port, '{port}']}\n"
        f"  other: {{engine: command, command: [b]}}\nworkloads:\n  {_FILES[name]}\n{_MORE}"
    )
    made = parse_experiment(text, "x.yaml", tmp_path, {})
    monkeypatch.chdir("/")
    refuse_wrong(made)
    found = [
        msgspec.structs.replace(w, load=msgspec.structs.replace(w.load, levels=(1.0, 8.0))) for w in made.workloads
    ]
    refuse_wrong(msgspec.structs.replace(made, workloads=tuple(found)))  # levels that a search has found
