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
        ({"rate": "1", "arrivals": "constnt"}, "did you mean 'constant'?"),
        ({"api": "chatt"}, "--api: must be 'completions' or 'chat', not 'chatt'; did you mean 'chat'?"),
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
