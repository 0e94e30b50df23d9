from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bakeoff.config import experiment_schema, load_experiment, parse_experiment
from bakeoff.errors import ConfigError, EngineMissing
from bakeoff.model import BlockSize, Budget, Experiment, Load, Problem, Prompts, Spend, Variant, Warmup

DESIGN = """
name: q4-against-q8
variants:
  base:  {engine: llamacpp, model: models/gemma-q8_0.gguf}
  flash: {engine: llamacpp, model: models/gemma-q4_k_m.gguf}
workloads:
  chat:
    prompts: {source: synthetic, input_tokens: 256, output_tokens: 64}   # length: fixed (default) | natural
    load: {concurrency: [1, 4]}          # or {rate: [2, 4], arrivals: poisson}
    block: {requests: 16}                # or {seconds: 20}
    sampling: {temperature: 0}
budget: {pairs: 6..40, minutes: 20, requests: 20000, spend: 5 USD}
starts: every round                      # or: every 4 rounds | once
gates: [ttft_s, tpot_s]
margin: 3%
"""


def parse(text: str, environ: dict[str, str] | None = None, **kw: Any) -> Experiment:
    return parse_experiment(text, "experiment.yaml", kw.pop("where", Path("/nowhere")), environ or {}, **kw)


def problems(text: str, environ: dict[str, str] | None = None, **kw: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, environ, **kw)
    assert caught.value.problems
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in DESIGN
    return DESIGN.replace(old, new)


def test_the_design_example() -> None:
    experiment = parse(DESIGN)
    assert experiment.name == "q4-against-q8"
    assert experiment.base.name == "base"
    assert experiment.candidates == (
        Variant(name="flash", engine="llamacpp", settings={"model": "/nowhere/models/gemma-q4_k_m.gguf"}),
    )
    workload = experiment.workload("chat")
    assert workload.prompts == Prompts(input_tokens=256)
    assert workload.output_tokens == 64
    assert workload.load == Load(kind="closed", levels=(1.0, 4.0))
    assert workload.block == BlockSize(requests=16)
    assert experiment.budget == Budget(seconds=1200.0, requests=20000, spend=Spend(amount=5.0))
    assert (experiment.start_every, experiment.resident, experiment.margin) == (1, "one", 0.03)
    assert [cell.key for cell in experiment.cells()] == ["chat/c1", "chat/c4"]
    assert msgspec.json.decode(msgspec.json.encode(experiment), type=Experiment) == experiment


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "x"}\n')
    experiment = parse(
        """
variants:
  base: &base {engine: command, command: serve --port {port}, env: {TOKEN: "${TOKEN}"}}
  fast: {<<: *base, command: serve --fast}
  1: {engine: openai, url: "http://h:1"}
workloads:
  file:
    prompts: {path: p.jsonl, seed: 3}
    output_tokens: 9
    length: natural
    load: {rate: 2.5, arrivals: constant}
    block: {seconds: 500ms}
    sampling: {temperature: 0.7, top_p: 0.9, top_k: -1, seed: 1}
    api: chat
    cache: shared
  big: {prompts: {input_tokens: 8, output_tokens: 1}, load: {concurrency: 32}}
budget: {pairs: 8, minutes: null, spend: 1.50 eur}
starts: every 4 rounds
resident: all
gates: [ttft_s.p95, file.tpot_s, big.e2e_latency_s.mean, cold_start_s]
margin: 0.05
confidence: 99 %
warmup: {min_requests: 0, max_requests: 3, max_seconds: 2min}
aa: 0
seed: 12
""".replace("serve --port {port}", "serve --port 80"),
        {"TOKEN": "s3cret"},
        where=tmp_path,
    )
    file, big = experiment.workloads
    assert file.prompts == Prompts(source="jsonl", path=str(tmp_path / "p.jsonl"), seed=3)
    assert (file.length, file.api, file.cache, file.output_tokens) == ("natural", "chat", "shared", 9)
    assert file.load == Load(kind="open", levels=(2.5,), arrivals="constant")
    assert file.block == BlockSize(seconds=0.5)
    assert (file.sampling.temperature, file.sampling.top_p, file.sampling.top_k, file.sampling.seed) == (
        0.7,
        0.9,
        -1,
        1,
    )
    assert big.block == BlockSize(requests=128)  # 4 for each slot
    assert [v.name for v in experiment.variants] == ["base", "fast", "1"]
    assert experiment.variant("fast").settings == {"command": "serve --fast", "env": {"TOKEN": "${TOKEN}"}}
    assert experiment.budget == Budget(min_pairs=8, max_pairs=8, seconds=None, spend=Spend(amount=1.5, currency="EUR"))
    assert (experiment.start_every, experiment.resident, experiment.aa_pairs, experiment.seed) == (4, "all", 0, 12)
    assert (experiment.margin, experiment.confidence) == (0.05, 0.99)
    assert experiment.warmup == Warmup(min_requests=0, max_requests=3, max_seconds=120.0)
    assert experiment.gates == ("ttft_s.p95", "file.tpot_s", "big.e2e_latency_s.mean", "cold_start_s")
    assert experiment.name == "experiment"


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = changed("concurrency: [1, 4]", "concurency: [1, 4]").replace("output_tokens: 64", "output_tokens: -1")
    text = text.replace("3%", "5 parsecs").replace("name: q4-against-q8", "nme: 7").replace("5 USD", "5 parsecs")
    report = problems(text).splitlines()
    assert report[0] == "5 problems in experiment.yaml:"
    assert report[1:] == [
        "experiment.yaml:2:1: nme: unknown key; did you mean 'name'?",
        "experiment.yaml:8:68: workloads.chat.prompts.output_tokens: must be at least 1, not -1",
        "experiment.yaml:9:12: workloads.chat.load.concurency: unknown key; did you mean 'concurrency'?",
        "experiment.yaml:12:61: budget.spend: must be an amount of money such as '5 USD', not '5 parsecs'",
        "experiment.yaml:15:9: margin: must be a percentage such as 3%, not '5 parsecs'",
    ]


def test_each_problem_can_be_read_by_a_program() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changed("source: synthetic, input_tokens: 256", "source: synthetic"))
    assert caught.value.problems == (
        Problem(
            key=("workloads", "chat", "prompts", "input_tokens"),
            message="line 8, column 5: is missing",
            remedy="input_tokens: 256",
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "source: synthetic",
            "source: sythetic",
            "must be 'synthetic', 'jsonl', 'sharegpt', 'azure' or 'mooncake', not 'sythetic'; did you mean 'synth",
        ),
        ("[1, 4]", "[]", "9:25: workloads.chat.load.concurrency: must not be empty"),
        ("[1, 4]", "[1, 0]", "9:29: workloads.chat.load.concurrency.1: must be at least 1, not 0"),
        ("[1, 4]", "four", "concurrency: must be a whole number, not 'four'"),
        ("[1, 4]", "[1, 1]", "names the level 1 twice"),
        ("[1, 4]", "[1.5]", "must be a whole number, not 1.5"),
        ("[1, 4]", "'1'", "must be a whole number, not '1'"),
        ("[1, 4]", "true", "must be a whole number, not true"),
        ("{concurrency: [1, 4]}", "{concurrency: 1, rate: 2}", "has both concurrency and rate"),
        ("{concurrency: [1, 4]}", "{}", "9:11: workloads.chat.load: needs concurrency or rate"),
        ("{concurrency: [1, 4]}", "{rate: -2}", "must be more than 0, not -2"),
        ("{concurrency: [1, 4]}", "{concurrency: 1, arrivals: constant}", "is for a rate"),
        ("{concurrency: [1, 4]}", "{concurrency: 64}", "16 requests can never keep 64 at a time busy"),
        ("{requests: 16}", "{requests: 16, seconds: 20}", "needs either requests or seconds"),
        ("{requests: 16}", "{seconds: 20 parsecs}", "must be a time such as 20s, not '20 parsecs'"),
        ("{requests: 16}", "{seconds: 0}", "more than 0"),
        ("temperature: 0", "temperature: hot", "must be a number, not 'hot'"),
        ("temperature: 0", "top_p: 2", "must be at most 1, not 2"),
        ("sampling: {temperature: 0}", "concurrency: 4", "unknown key here; it belongs into `load`"),
        ("sampling: {temperature: 0}", "output_tokens: 4", "stands in `prompts` as well"),
        ("sampling: {temperature: 0}", "sampling: 5", "must be a mapping (key: value), not 5"),
        ("source: synthetic, input", "source: synthetic, path: x, input", "is for prompts of a file; synthetic"),
        ("source: synthetic, input_tokens: 256", "path: x.jsonl", "there is no file /nowhere/x.jsonl"),
        ("source: synthetic, input_tokens: 256", "source: jsonl", "prompts.path: is missing"),
        (", output_tokens: 64", "", "workloads.chat.output_tokens: is missing"),
        ("6..40", "40..6", "did you mean 6..40?"),
        ("6..40", "1", "between 2 and 1000"),
        ("6..40", "some", "must be a number or a range such as 6..40, not 'some'"),
        ("minutes: 20", "minutes: 5 parsecs", "must be a time such as 20min"),
        ("5 USD", "5", "must be an amount of money such as '5 USD', not 5"),
        ("requests: 20000", "requests: null, minuts: 3", "unknown key; did you mean 'minutes'?"),
        ("every round", "evry round", "did you mean 'every round'?"),
        ("every round", "every 0 rounds", "between 1 and 1000 rounds"),
        ("every round", "once", "`once` cannot be with one resident variant at a time"),
        ("margin: 3%", "margin: 3", "did you mean 3%?"),
        ("margin: 3%", "margin: -3%", "at least 0%"),
        ("margin: 3%", "confidence: 100%", "confidence: must lie between 50% and 99.99%, not '100%'"),
        ("margin: 3%", "confidence: 30%", "confidence: must lie between 50% and 99.99%, not '30%'"),
        ("margin: 3%", "confidence: 95", "not 95; did you mean 95%?"),
        ("margin: 3%", "confidence: 20%", "between 50% and 99.99%"),
        ("margin: 3%", "resident: most", "must be 'one' or 'all', not 'most'"),
        ("margin: 3%", "warmup: {min_requests: 9, max_requests: 3}", "min_requests (9) is above max_requests (3)"),
        ("margin: 3%", "aa: -1", "must be at least 0, not -1"),
        ("margin: 3%", "seed: 1.5", "must be a whole number, not 1.5"),
        ("margin: 3%", "budget: {pairs: 8}", "the key stands twice, on lines 12 and 15"),
        ("name: q4-against-q8", "name: a/b", "without slashes"),
        ("name: q4-against-q8", "name: 5", "must be text, not 5"),
        ("  chat:", "  chat/x:", "is not a usable name"),
        ("  chat:", "  ttft_s:", "is the name of a metric"),
        ("  flash:", "  flash one:", "5:3: variants.flash one: is not a usable name"),
        ("engine: llamacpp, model: models/gemma-q4", "model: models/gemma-q4", "variants.flash.engine: is missing"),
        ("engine: llamacpp, model: models/gemma-q4", "engine: 5, model: models/gemma-q4", "must be text, not 5"),
        ("  flash: {engine: llamacpp, model: models/gemma-q4_k_m.gguf}", "", "needs a base and at least one candidate"),
        ("[ttft_s, tpot_s]", "[]", "gates: must not be empty"),
        ("[ttft_s, tpot_s]", "ttft_s", "must be a list, not 'ttft_s'"),
        ("[ttft_s, tpot_s]", "[ttft]", "there is no metric 'ttft'; did you mean 'ttft_s'?"),
        ("[ttft_s, tpot_s]", "[cat.ttft_s]", "there is no workload 'cat'; did you mean 'chat'?"),
        ("[ttft_s, tpot_s]", "[chat.ttft_s.p90]", "ttft_s has no statistic 'p90'; it has p50, mean, p95, p99"),
        ("[ttft_s, tpot_s]", "[a.b.c.d]", "too many parts"),
        ("[ttft_s, tpot_s]", "[ttft_s, chat.ttft_s.p50]", "asks again"),
        ("[ttft_s, tpot_s]", "[chat.cold_start_s]", "belongs to a start, not to a workload"),
        ("output_tokens: 64", "output_tokens: 1", "tpot_s of chat is undefined: its answers are one token long"),
    ],
)
def test_what_is_wrong_and_what_to_write(old: str, new: str, expected: str) -> None:
    report = problems(changed(old, new))
    assert expected in report
    assert report.startswith("1 problem in experiment.yaml:"), report


def test_the_length_of_prompts_from_a_file_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"prompt": "x"}\n')
    report = problems(changed("source: synthetic", "path: x.jsonl"), where=tmp_path)
    assert "8:30: workloads.chat.prompts.input_tokens: is for synthetic prompts" in report


def test_throughput_of_an_open_loop_is_no_gate() -> None:
    text = changed("{concurrency: [1, 4]}", "{rate: 2}").replace("[ttft_s, tpot_s]", "[ttft_s, request_throughput_rps]")
    assert "below saturation an open loop returns the rate that was offered" in problems(text)
    assert parse(text.replace("{rate: 2}", "{concurrency: 2}")).gates == ("ttft_s", "request_throughput_rps")


def test_once_with_all_resident_is_fine() -> None:
    assert parse(changed("starts: every round", "starts: once\nresident: all")).start_every == 0


RUNNING = changed("{engine: llamacpp, model: models/gemma-q8_0.gguf}", "{engine: openai, url: 'http://h:1'}").replace(
    "{engine: llamacpp, model: models/gemma-q4_k_m.gguf}", "{engine: openai, url: 'http://h:2'}"
)


def test_servers_that_run_already_are_neither_started_nor_stopped() -> None:
    experiment = parse(RUNNING.replace("starts: every round ", ""))
    assert (experiment.start_every, experiment.resident) == (0, "all")
    assert parse(RUNNING.replace("every round ", "once ")).start_every == 0
    report = problems(RUNNING + "resident: one\n")
    assert "13:9: starts: every variant is a server that runs already" in report
    assert "16:11: resident: every variant is a server that runs already" in report
    assert "cold_start_s needs a fresh start" in problems(
        RUNNING.replace("starts: every round ", "").replace("[ttft_s, tpot_s]", "[cold_start_s]")
    )


def test_engines_add_their_problems_with_lines() -> None:
    seen: list[Variant] = []

    def engine(variant: Variant, where: Path) -> list[Problem]:
        seen.append(variant)
        assert where == Path("/nowhere")
        if variant.name == "base":
            return [
                Problem(key=("model",), message="there is no such file", remedy="look"),
                Problem(key=(), message="!"),
            ]
        raise EngineMissing("its library is not installed", remedy="pip install it")

    report = problems(changed("margin: 3%", "margin: x"), engine_problems=engine)
    assert "experiment.yaml:4:36: variants.base.model: there is no such file\n    → look" in report
    assert "experiment.yaml:4:10: variants.base: !" in report
    assert "experiment.yaml:5:19: variants.flash.engine: its library is not installed\n    → pip install it" in report
    assert "experiment.yaml:15:9: margin" in report
    assert [variant.name for variant in seen] == ["base", "flash"]


def test_an_unset_variable_has_its_line_and_is_reported_once() -> None:
    def engine(variant: Variant, _where: Path) -> list[Problem]:
        return [Problem(key=("api_key",), message="environment variable KEY is not set, says the engine")]

    text = RUNNING.replace("url: 'http://h:1'", "url: 'http://h:1', api_key: '${KEY}', body: {a: ['${OTHER}']}")
    text = text.replace("starts: every round ", "")
    report = problems(text, {"OTHER": "x"}, engine_problems=lambda v, w: engine(v, w) if v.name == "base" else [])
    assert (
        "experiment.yaml:4:55: variants.base.api_key: environment variable KEY is not set\n    → export KEY=…" in report
    )
    assert report.startswith("1 problem")
    assert "variants.base.body.a.0: environment variable OTHER" in problems(text, {"KEY": "x"})


def test_values_of_variables_stay_out_of_experiment_and_errors() -> None:
    text = RUNNING.replace("url: 'http://h:1'", "url: 'http://h:1', api_key: '${KEY}'").replace(
        "starts: every round ", ""
    )
    secret = "sk-planted"
    experiment = parse(text, {"KEY": secret})
    assert experiment.base.settings["api_key"] == "${KEY}"
    assert secret not in repr(experiment)
    assert secret not in problems(text.replace("margin: 3%", "margin: ${KEY}"), {"KEY": secret})


@pytest.mark.parametrize("bad", ["${", "${}", "${A B}", "x${1A}"])
def test_malformed_references(bad: str) -> None:
    text = changed("models/gemma-q8_0.gguf", f"'{bad}'")
    assert "does not name an environment variable" in problems(text)
    assert parse(changed("models/gemma-q8_0.gguf", "'$${x}'")).base.settings["model"] == "$${x}"


def test_references_elsewhere_are_refused() -> None:
    assert "name: ${…} is replaced only in a variant's settings" in problems(
        changed("name: q4-against-q8", "name: ${NAME}"), {"NAME": "x"}
    )


def test_paths_of_the_experiment_count_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "tiny").write_text("x")
    (folder / "x.yaml").write_text(
        changed("models/gemma-q8_0.gguf", "models/tiny").replace("models/gemma-q4_k_m.gguf", "org/name"), "utf-8"
    )
    experiment = load_experiment(folder / "x.yaml", {})
    assert experiment.base.settings["model"] == str(folder / "models" / "tiny")
    assert experiment.candidates[0].settings["model"] == "org/name"  # no such file: may be a name on a hub


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("x")
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_experiment(tmp_path / "experimnt.yaml", {})
    assert "did you mean 'experiment.yaml'?" in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_experiment(tmp_path, {})
    (tmp_path / "latin.yaml").write_bytes("name: x\n# caf\u00e9\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load_experiment(tmp_path / "latin.yaml", {})
    assert "latin.yaml:2" in str(caught.value)
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 20) + b"\nname: x")
    with pytest.raises(ConfigError, match="1 MiB"):
        load_experiment(tmp_path / "big.yaml", {})


def test_the_schema_names_every_key() -> None:
    schema = experiment_schema()
    assert schema["required"] == ["variants", "workloads"]
    assert set(schema["properties"]) >= {"name", "budget", "starts", "gates", "margin", "confidence", "resident", "aa"}
    load = schema["$defs"]["LoadSection"]
    assert load["oneOf"] == [{"required": [name]} for name in ("concurrency", "rate", "replay", "sweep", "find")]
    assert load["additionalProperties"] is False
    assert schema["$defs"]["VariantSection"]["additionalProperties"] is True
    msgspec.json.encode(schema)
