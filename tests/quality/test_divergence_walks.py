"""The walks of a run: who walks, in which order, what is kept, and what a variant that does not fit is told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bakeoff.errors import RunFolderError
from bakeoff.measure.budget import Ledger
from bakeoff.measure.divergence_pass import DivergenceWalks
from bakeoff.measure.progress import Progress
from bakeoff.model import (
    BlockSize,
    Budget,
    Capabilities,
    Distribution,
    Divergence,
    DivergencePass,
    Endpoint,
    Experiment,
    ForcedText,
    Load,
    Prompts,
    Quality,
    Start,
    Variant,
    Workload,
)
from bakeoff.runs.divergence import DivergenceStore

from .tiny_language import TinyLanguage, logprobs, served

EXPERIMENT = Experiment(
    name="walks",
    variants=(Variant(name="base", engine="openai"), Variant(name="fast", engine="openai")),
    workloads=(
        Workload(
            name="chat",
            prompts=Prompts(input_tokens=16),
            output_tokens=8,
            load=Load(kind="closed", levels=(1.0,)),
            block=BlockSize(requests=2),
        ),
    ),
    budget=Budget(seconds=None),
    quality=Quality(divergence=Divergence(prompts=2, tokens=5)),
)


class _Residents:
    """Every visit is a start of its own."""

    def __init__(self, urls: dict[str, tuple[str, str]]) -> None:
        self._urls = urls
        self.visits: list[str] = []

    def get(self, step: Any) -> tuple[Any, float]:
        url, way = self._urls[step.variant]
        self.visits.append(step.variant)
        endpoint = Endpoint(base_url=url, model="tiny", capabilities=Capabilities(tokenizer=way))
        start = Start(id=len(self.visits) - 1, variant=step.variant, round=step.round, group=step.group)
        return SimpleNamespace(server=SimpleNamespace(endpoint=endpoint, check=lambda: None), start=start), 0.0


def walk(languages: dict[str, TinyLanguage], store: DivergenceStore) -> list[str]:
    """Lets the variants walk; returns who was visited."""

    def run(main: Coroutine[Any, Any, Any], /) -> Any:
        return asyncio.run(main)

    with ExitStack() as stack:
        residents = _Residents(
            {name: (stack.enter_context(served(lang)), lang.way) for name, lang in languages.items()}
        )
        assert EXPERIMENT.quality is not None
        assert EXPERIMENT.quality.divergence is not None
        DivergenceWalks(
            EXPERIMENT,
            EXPERIMENT.quality.divergence,
            cast(Any, residents),
            cast(Any, None),
            sink=store,
            ledger=Ledger(EXPERIMENT),
            progress=Progress(),
            prompts=["hello", [{"role": "user", "content": "you"}], "never asked"],
        ).all(run)
        return residents.visits


def test_all_walk_along_the_bases_answers_and_the_base_twice(tmp_path: Path) -> None:
    store = DivergenceStore(tmp_path)
    fast = TinyLanguage("vllm", blur=0.5, limit=128)
    assert walk({"base": TinyLanguage("llamacpp"), "fast": fast}, store) == ["base", "fast", "base"]
    assert [(p.variant, p.repeat, p.texts, p.problem) for p in store.passes()] == [
        ("base", 0, 2, None),
        ("fast", 0, 2, None),
        ("base", 1, 2, None),
    ]
    texts = store.texts()
    assert [text.chat for text in texts] == [False, True]
    first, fast_rows, again = (store.rows(p) for p in store.passes())
    assert [(r.prompt, r.position) for r in first] == [
        (n, i) for n, t in enumerate(texts) for i in range(len(t.tokens))
    ]
    assert [r.token for r in first] == [token for text in texts for token in text.tokens]
    assert [r.token_logprob for r in first] == [r.token_logprob for r in again]
    text = texts[0]
    assert fast_rows[0].token_logprob == pytest.approx(logprobs(text.before, 0.5)[text.tokens[0]])


def test_a_resumed_run_makes_only_the_walks_that_are_missing(tmp_path: Path) -> None:
    store = DivergenceStore(tmp_path)
    languages = {"base": TinyLanguage("llamacpp"), "fast": TinyLanguage("llamacpp", blur=0.5)}
    walk(languages, store)
    texts = store.texts()
    store._write(type(store._read())(texts=texts, passes=store.passes()[:1]))
    assert walk(languages, store) == ["fast", "base"]
    assert store.texts() == texts
    assert len(store.passes()) == 3


def test_another_tokenizer_is_refused_with_the_reason(tmp_path: Path) -> None:
    store = DivergenceStore(tmp_path)

    class Other(TinyLanguage):
        def _tokenize_llamacpp(self, body: dict[str, Any]) -> tuple[int, Any]:
            status, answer = super()._tokenize_llamacpp(body)
            return status, {"tokens": [*answer["tokens"], 5]}

    walk({"base": TinyLanguage("llamacpp"), "fast": Other("llamacpp")}, store)
    _, fast, again = store.passes()
    assert "other tokens than the base" in (fast.problem or "")
    assert "one tokenizer" in (fast.remedy or "")
    assert fast.part is None
    assert again.problem is None


def test_a_base_without_probabilities_ends_the_walks(tmp_path: Path) -> None:
    store = DivergenceStore(tmp_path)
    assert walk({"base": TinyLanguage("none"), "fast": TinyLanguage("llamacpp")}, store) == ["base"]
    (base,) = store.passes()
    assert "no probabilities" in (base.problem or "")
    assert "vLLM" in (base.remedy or "")


def test_the_store_gives_back_what_it_was_given(tmp_path: Path) -> None:
    store = DivergenceStore(tmp_path)
    rows = [
        Distribution(
            prompt=0,
            position=n,
            variant="v",
            token=7,
            token_logprob=-0.5 - n,
            ids=[7, 2],
            logprobs=[-0.5, -2.0],
            rest=0.1,
        )
        for n in range(3)
    ]
    text = ForcedText(prompt="p", before=[1, 2], tokens=[7, 7, 7], text="aaa", read=[7, 7, 7])
    store.write_texts([text])
    store.write_pass(DivergencePass(variant="v", told_by="w", top=2, texts=1), rows)
    again = DivergenceStore(tmp_path)
    assert again.texts() == (text,)
    (told,) = again.passes()
    assert told.part == "quality/divergence-000.parquet"
    assert again.rows(told) == rows


@pytest.mark.parametrize(
    "part", ["../x/divergence-0.parquet", "quality/../run.json", "/etc/passwd", "quality/000.parquet"]
)
def test_a_part_outside_its_folder_is_not_read(tmp_path: Path, part: str) -> None:
    with pytest.raises(RunFolderError, match="outside"):
        DivergenceStore(tmp_path).rows(DivergencePass(variant="v", part=part))


@pytest.mark.parametrize("logprobs_", [[-0.5], [-0.5, float("nan")], [-0.5, 0.7]])
def test_rows_that_are_no_probabilities_are_refused(tmp_path: Path, logprobs_: list[float]) -> None:
    row = Distribution(prompt=0, position=0, variant="v", token=7, token_logprob=-0.5, ids=[7, 2], logprobs=logprobs_)
    store = DivergenceStore(tmp_path)
    store.write_pass(DivergencePass(variant="v"), [row])
    with pytest.raises(RunFolderError, match="probabilities are none"):
        store.rows(store.passes()[0])
