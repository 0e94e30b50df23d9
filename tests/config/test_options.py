from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bakeoff.config import CliOptions, from_options
from bakeoff.errors import ConfigError
from bakeoff.model import BlockSize, Experiment, Load, Problem, Variant

URLS: dict[str, Any] = {"base": "http://h:1", "candidates": ("http://h:2",)}


def _from(environ: dict[str, str] | None = None, **options: Any) -> Experiment:
    return from_options(CliOptions(**{**URLS, **options}), environ or {})


def _problems(environ: dict[str, str] | None = None, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        _from(environ, **options)
    assert caught.value.problems
    return str(caught.value)


def test_two_urls_are_enough() -> None:
    experiment = _from()
    assert experiment.variants == (
        Variant(name="base", engine="openai", settings={"url": "http://h:1"}),
        Variant(name="candidate", engine="openai", settings={"url": "http://h:2"}),
    )
    assert (experiment.start_every, experiment.resident) == (0, "all")
    workload = experiment.workload("main")
    assert (workload.prompts.input_tokens, workload.output_tokens, workload.length) == (256, 64, "fixed")
    assert workload.load == Load(kind="closed", levels=(1.0,))
    assert workload.block == BlockSize(requests=16)


def test_every_option(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("{}")
    experiment = _from(
        {"KEY": "sk-planted", "T": "x"},
        candidates=("http://h:2", "http://h:3"),
        model="m",
        candidate_model="m-fast",
        api="chat",
        api_key_env="KEY",
        headers=("X-Team: speech", "X-Auth-Token: ${T}"),
        body=("top_k=20", 'stop=["x"]'),
        price="0.15/0.60",
        rate="2,4.5",
        arrivals="constant",
        output_tokens=8,
        natural_length=True,
        prompts=str(tmp_path / "p.jsonl"),
        pairs="6..20",
        minutes=5.0,
        block_requests=7,
        margin="5%",
        gates="ttft_s, main.e2e_latency_s",
        name="try",
    )
    settings = experiment.base.settings
    assert settings["api_key"] == "${KEY}"
    assert settings["headers"] == {"X-Team": "speech", "X-Auth-Token": "${T}"}
    assert settings["body"] == {"top_k": 20, "stop": ["x"]}
    assert settings["price"] == {"input": 0.15, "output": 0.6, "currency": "USD"}
    assert [(v.name, v.settings["model"]) for v in experiment.variants] == [
        ("base", "m"),
        ("candidate-1", "m-fast"),
        ("candidate-2", "m-fast"),
    ]
    workload = experiment.workloads[0]
    assert (workload.api, workload.length, workload.output_tokens) == ("chat", "natural", 8)
    assert workload.load == Load(kind="open", levels=(2.0, 4.5), arrivals="constant")
    assert (workload.prompts.source, workload.prompts.path) == ("jsonl", str(tmp_path / "p.jsonl"))
    assert workload.block == BlockSize(requests=7)
    assert (experiment.budget.min_pairs, experiment.budget.max_pairs, experiment.budget.seconds) == (6, 20, 300.0)
    assert (experiment.margin, experiment.name) == (0.05, "try")
    assert experiment.gates == ("ttft_s", "main.e2e_latency_s")
    assert "planted" not in repr(experiment)


def test_unix_sockets_are_servers() -> None:
    experiment = _from(base="unix:///run/a.sock/v1", candidates=("http+unix://%2Frun%2Fb.sock/v1",), model="m")
    assert [(v.engine, v.settings["url"], v.settings["model"]) for v in experiment.variants] == [
        ("openai", "unix:///run/a.sock/v1", "m"),
        ("openai", "http+unix://%2Frun%2Fb.sock/v1", "m"),
    ]


def test_bursts_and_limits() -> None:
    workload = _from(rate="2,4.5", arrivals="gamma", burstiness=0.25, slo="ttft=0.5, tpot_s=50ms,e2e=3").workloads[0]
    assert workload.load == Load(kind="open", levels=(2.0, 4.5), arrivals="gamma", burstiness=0.25)
    assert workload.slo == {"ttft_s": 0.5, "tpot_s": 0.05, "e2e_latency_s": 3.0}


def test_a_trace_is_replayed_with_its_own_lengths(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{}")
    more: dict[str, Any] = {"prompts": str(tmp_path / "t.jsonl"), "source": "mooncake", "block_seconds": 60.0}
    workload = _from(replay="1,2", **more).workloads[0]
    assert workload.load == Load(kind="replay", levels=(1.0, 2.0))
    assert (workload.prompts.source, workload.prompts.input_tokens) == ("mooncake", None)
    assert (workload.prompts.recorded_lengths, workload.cache) == (True, "declared")
    assert workload.block == BlockSize(seconds=60.0)
    assert not _from(replay="1", output_tokens=9, **more).workloads[0].prompts.recorded_lengths


def test_conversations_and_prefixes() -> None:
    workload = _from(turns=4, think="2s", shared_prefix="50%", cache="shared").workloads[0]
    assert (workload.prompts.turns, workload.prompts.think_s, workload.prompts.shared_prefix) == (4, 2.0, 0.5)
    assert (workload.prompts.input_tokens, workload.output_tokens, workload.cache) == (256, 64, "shared")
    assert _from(turns=2, think="1.5").workloads[0].prompts.think_s == 1.5


def test_searches() -> None:
    swept = _from(sweep="concurrency").workloads[0].load
    assert (swept.kind, swept.levels, swept.search and swept.search.kind) == ("closed", (), "sweep")
    found = _from(find="goodput", slo="ttft=500ms", attainment="95%", block_requests=100).workloads[0]
    assert found.load.search is not None
    assert (found.load.kind, found.load.search.kind, found.load.search.attainment) == ("open", "find", 0.95)
    assert found.slo == {"ttft_s": 0.5}


def test_model_files_and_engines_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = _from(
        base="q8.gguf", candidates=("llamacpp:q4.gguf", "command:serve --port {port}", "openai:http://h:2")
    )
    assert [(v.engine, v.settings) for v in experiment.variants] == [
        ("llamacpp", {"model": str(tmp_path / "q8.gguf")}),
        ("llamacpp", {"model": str(tmp_path / "q4.gguf")}),
        ("command", {"command": "serve --port {port}"}),
        ("openai", {"url": "http://h:2"}),
    ]
    assert (experiment.start_every, experiment.resident) == (1, "one")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"base": None}, "--base: is missing"),
        ({"candidates": ()}, "--candidate: is missing"),
        ({"base": "localhost:8000"}, "--base: is neither a URL"),
        ({"candidates": ("vllm:model",)}, "--candidate: is neither a URL"),
        ({"concurrency": "1,x"}, "--concurrency: must be numbers with commas between, not '1,x'"),
        ({"concurrency": "1,0"}, "--concurrency: must be at least 1, not 0"),
        ({"concurrency": "1", "rate": "2"}, "--concurrency, --rate: has both"),
        ({"rate": "-1"}, "--rate: must be more than 0, not -1"),
        ({"arrivals": "constant"}, "--arrivals: is for a rate"),
        ({"rate": "1", "arrivals": "gamma"}, "--arrivals: `gamma` needs a burstiness"),
        ({"rate": "1", "burstiness": 0.0}, "--burstiness: must be more than 0"),
        ({"replay": "1"}, "--replay: needs a trace"),
        ({"replay": "x"}, "--replay: must be numbers with commas between, not 'x'"),
        ({"source": "azure"}, "--prompts: is missing"),
        ({"source": "azur", "prompts": "gone"}, "--source: must be"),
        ({"sweep": "rates"}, "--sweep: must be"),
        ({"sweep": "rate", "concurrency": "1"}, "--concurrency, --sweep: has both concurrency and sweep"),
        ({"find": "goodput"}, "--slo: is missing: goodput counts who meets limits"),
        ({"find": "goodput", "slo": "ttft=1", "attainment": "20%"}, "--attainment: must be at least 50%"),
        ({"attainment": "99%"}, "--attainment: is for a search"),
        ({"slo": "ttft"}, "--slo: must be limits of a request with commas between, not 'ttft'"),
        ({"slo": "speed=1"}, "--slo: must be limits of a request"),
        ({"slo": "ttft=soon"}, "--slo: must be a time"),
        ({"think": "2s"}, "--think: is for conversations"),
        ({"turns": 0}, "--turns: must be at least 1, not 0"),
        ({"shared_prefix": "50%", "cache": "unique"}, "--cache: `unique` puts a nonce"),
        ({"block_requests": 7, "block_seconds": 2.0}, "--block-requests, --block-seconds: needs either"),
        ({"rate": "1", "arrivals": "constnt"}, "did you mean 'constant'?"),
        (
            {"api": "chatt"},
            "--api: must be 'completions', 'chat', 'responses' or 'messages', not 'chatt'; did you mean 'chat'?",
        ),
        ({"input_tokens": 0}, "--input-tokens: must be at least 1, not 0"),
        ({"output_tokens": 0}, "--output-tokens: must be at least 1, not 0"),
        ({"prompts": "gone.jsonl"}, "--prompts: there is no file"),
        ({"pairs": "six"}, "--pairs: must be a number or a range such as 6..40, not 'six'"),
        ({"minutes": -1.0}, "--minutes: must be more than 0"),
        ({"block_requests": 0}, "--block-requests: must be at least 1, not 0"),
        ({"margin": "5 parsecs"}, "--margin: must be a percentage such as 3%, not '5 parsecs'"),
        ({"gates": ("ttft",)}, "--gates: there is no metric 'ttft'; did you mean 'ttft_s'?"),
        ({"starts": "every round"}, "--starts: every variant is a server that runs already"),
        ({"name": "a/b"}, "--name: must be text without slashes"),
        ({"api_key_env": "sk-planted-1"}, "--api-key-env: takes the name of a variable"),
        ({"api_key_env": "UNSET"}, "--api-key-env: environment variable UNSET is not set"),
        ({"headers": ("Authorization: Bearer sk-planted",)}, "--header: 'Authorization' looks like a secret"),
        ({"headers": ("nonsense",)}, "--header: must be 'Name: value'"),
        ({"body": ("stop=x",)}, "--body: the value of 'stop' is not JSON"),
        ({"body": ("x",)}, "--body: must be 'key=JSON'"),
        ({"price": "cheap"}, "--price: must be input/output per million tokens in USD, or free, not 'cheap'"),
        ({"base": "a.gguf", "candidates": ("b.gguf",), "model": "m"}, "--model: is for servers given by URL"),
        ({"base": "a.gguf", "candidates": ("b.gguf",), "price": "free"}, "for servers given by URL"),
    ],
)
def test_each_mistake_names_its_option(options: dict[str, Any], expected: str) -> None:
    report = _problems(**options)
    assert expected in report
    assert "planted" not in report


def test_all_mistakes_at_once() -> None:
    report = _problems(margin="x", pairs="y", base="z", gates="w")
    assert report.startswith("4 problems in the options:")


def test_a_url_with_a_password_is_not_repeated() -> None:
    assert "planted" not in _problems(base="me:planted@host")


def test_engine_problems_name_the_option() -> None:
    def engine(variant: Variant, _where: Path) -> list[Problem]:
        return [Problem(key=("model",), message=f"no {variant.name}")]

    with pytest.raises(ConfigError) as caught:
        from_options(CliOptions(base="a.gguf", candidates=("b.gguf",)), {}, engine)
    assert "--base (model): no base\n--candidate (model): no candidate" in str(caught.value)


def test_an_engine_is_not_asked_about_what_is_not_understood() -> None:
    asked: list[str] = []

    def engine(variant: Variant, _where: Path) -> list[Problem]:
        asked.append(variant.name)
        return []

    with pytest.raises(ConfigError, match="1 problem"):
        from_options(CliOptions(base="what", candidates=("http://h:1",)), {}, engine)
    assert asked == ["candidate"]


def test_the_method() -> None:
    assert _from(method="fixed", pairs="12").method == "fixed"
    assert _from().method == "anytime"
    assert _problems(method="fix").count("--method") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"find": "goodput"}, "--slo: is missing: goodput counts who meets limits\n    → --slo ttft=0.5,tpot=50ms"),
        ({"gates": "goodput_rps"}, "--gates: goodput of main needs limits\n    → --slo ttft=0.5"),
        ({"think": "2s"}, "--think: is for conversations\n    → --turns 4 (at most so many)"),
        (
            {"sweep": "rate", "rate": "3"},
            "--rate, --sweep: has both rate and sweep\n    → give one of them",
        ),
        ({"concurrency": "a"}, "--concurrency: must be numbers with commas between, not 'a'\n    → --concurrency 1,4"),
        ({"attainment": "99%"}, "--attainment: is for a search of load levels\n    → --find goodput, or --sweep rate"),
        ({"arrivals": "gamma", "rate": "2"}, "--arrivals: `gamma` needs a burstiness\n    → --burstiness 0.25"),
        ({"source": "azure"}, "--prompts: is missing\n    → --prompts trace.csv"),
        (
            {"find": "goodput", "slo": "ttft=1", "attainment": "30%"},
            "--attainment: must be at least 50% and below 100%\n    → --attainment 99%",
        ),
        ({"gates": "task_time_s"}, "→ set --natural-length, or gate on e2e_latency_s"),
    ],
)
def test_remedies_are_options_and_each_mistake_is_told_once(options: dict[str, Any], expected: str) -> None:
    report = _problems(**options)
    assert expected in report
    assert report.startswith("1 problem in")


def test_what_options_set_of_every_variant_is_told_once() -> None:
    def engine(variant: Variant, _where: Path) -> list[Problem]:
        return [Problem(key=("body", "stream"), message="is set by Bakeoff")] if variant.settings.get("body") else []

    with pytest.raises(ConfigError) as caught:
        from_options(CliOptions(base="http://h:1", candidates=("http://h:2",), body=("stream=false",)), {}, engine)
    assert str(caught.value) == "1 problem in the options:\n--body: is set by Bakeoff"
    assert _problems(api_key_env="NOPE").startswith("1 problem in")
