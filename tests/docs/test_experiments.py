"""Every experiment in the documentation is one that Bakeoff takes, and the complete one states the defaults."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from bakeoff.app.loading import engine_problems
from bakeoff.config import parse_experiment
from bakeoff.errors import ConfigError
from bakeoff.model import Experiment, Problem, Variant

from .pages import CodeBlock, code_blocks, page, table_rows

EXPERIMENTS = [block for block in code_blocks("yaml") if re.search(r"^variants:", block.text, re.MULTILINE)]
OTHERS = [block for block in code_blocks("yaml") if block not in EXPERIMENTS]
_NAMED = re.compile(r"[\w./-]+\.(?:gguf|jsonl|json|csv)\b")


def stand_ins(text: str, folder: Path) -> None:
    """Files that the experiment names."""
    for name in set(_NAMED.findall(text)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"GGUF" if name.endswith(".gguf") else b'{"prompt": "one"}\n')


def problems_but_programs(variant: Variant, where: Path) -> list[Problem]:
    """What the engine finds wrong, apart from programs and libraries that this machine lacks."""
    found = engine_problems(variant, where)
    return [p for p in found if "not found or not executable" not in p.message and "not installed" not in p.message]


def parsed(block: CodeBlock, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    stand_ins(block.text, folder)
    environ = dict.fromkeys(re.findall(r"(?<!\$)\$\{(\w+)\}", block.text), "value")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    return parse_experiment(block.text, "page.yaml", folder, environ, problems_but_programs)


def test_there_are_experiments() -> None:
    assert len(EXPERIMENTS) >= 6


@pytest.mark.parametrize("block", EXPERIMENTS, ids=lambda block: block.id)
def test_experiments_are_valid(block: CodeBlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(block, tmp_path, monkeypatch).candidates


@pytest.mark.parametrize("block", OTHERS, ids=lambda block: block.id)
def test_other_yaml_is_yaml(block: CodeBlock) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


# The sections of an experiment that every fragment needs around itself.
_FRAME = {
    "variants": """\
variants:
  base: {engine: openai, url: "http://127.0.0.1:8000"}
  candidate: {engine: openai, url: "http://127.0.0.1:8001"}
""",
    "workloads": """\
workloads:
  chat: {prompts: {input_tokens: 256, output_tokens: 64}, load: {concurrency: 4}}
""",
}


def _fragments() -> list[CodeBlock]:
    """Blocks that show some sections of an experiment, made whole by those that they leave out."""
    from bakeoff.config.schema import known_keys

    found = []
    for block in OTHERS:
        sections = set(yaml.safe_load(block.text))
        if sections <= set(known_keys(())):
            around = "".join(text for name, text in _FRAME.items() if name not in sections)
            found.append(block._replace(text=block.text + around))
    return found


FRAGMENTS = _fragments()


def test_there_are_fragments() -> None:
    assert {"README.md", "experiment-file.md", "quality.md"} <= {block.page for block in FRAGMENTS}


@pytest.mark.parametrize("block", FRAGMENTS, ids=lambda block: block.id)
def test_fragments_are_valid_within_an_experiment(
    block: CodeBlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_tasks").mkdir()
    assert parsed(block, tmp_path, monkeypatch).candidates


def test_every_option_of_a_run_without_a_file_is_explained_and_none_besides() -> None:
    from bakeoff.cli.run import command

    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    text = page("experiment-file.md").partition("## Without a file")[2]
    assert options - set(re.findall(r"--[\w-]+", text)) == set()
    named = {option for row in table_rows(text) for option in re.findall(r"`(--[a-z][\w-]*)", row[0])}
    assert named - options == set()


def test_the_complete_example_states_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written out equals what is taken where nothing is written (but for the documented examples)."""
    shown = next(block for block in EXPERIMENTS if "# rounds" in block.text or "starts: every round " in block.text)
    full = parsed(shown, tmp_path, monkeypatch)
    bare = msgspec.structs.replace(full, **_defaults(Experiment))
    budget = msgspec.structs.replace(full.budget, requests=None, spend=None)
    assert msgspec.structs.replace(full, budget=budget) == bare
    chat = full.workload("chat")
    for name, default in _defaults(type(chat)).items():
        assert getattr(chat, name) == default, name


def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    return {f.name: f.default for f in msgspec.structs.fields(kind) if f.default is not msgspec.NODEFAULT}


def test_the_shown_errors_are_those_that_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = next(b for b in code_blocks("text") if b.text.startswith("error: 7 problems")).text
    monkeypatch.delenv("CANDIDATE_KEY", raising=False)
    with pytest.raises(ConfigError) as raised:
        parse_experiment(_WRONG, "bad.yaml", tmp_path, {}, problems_but_programs)
    assert f"error: {raised.value}\n" == shown


_WRONG = """\
name: chat-server
variants:
  base: {engine: openai, url: http://127.0.0.1:8000, api_key: sk-live-1234}
  candidate: {engine: openai, url: "http://127.0.0.1:8001", api_key: "${CANDIDATE_KEY}"}
workloads:
  chat:
    prompts: {input_tokens: 256, output_tokens: 64}
    load: {concurency: [1, 4]}
    block: {requests: 2, seconds: 5}
budget: {pairs: 40..6, minutes: 20 min}
gates: [ttft_s, tpot.p95]
margin: 3
"""


def test_every_key_of_the_grammar_is_explained() -> None:
    from bakeoff.config.schema import SECTIONS

    text = page("experiment-file.md")
    for section, model in SECTIONS.items():
        for key in model.model_fields:
            assert re.search(rf"[`.]{key}\b", text), f"{'.'.join(section)}.{key}"
