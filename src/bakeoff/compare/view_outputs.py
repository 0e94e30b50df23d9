"""Sample outputs of the arms side by side: a few prompts, bounded in length."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import BlockData, Experiment
from .view_redact import Cleaner
from .view_text import cell_title
from .view_types import Output, OutputSet

OUTPUT_PROMPTS = 3
PROMPT_CHARS = 500
OUTPUT_CHARS = 1200


def output_sets(
    blocks: Sequence[BlockData], experiment: Experiment, names: Sequence[str], clean: Cleaner
) -> tuple[OutputSet, ...]:
    """The first prompts of the last round that every arm has finished, per cell."""
    titles = {c.key: cell_title(experiment.workload(c.workload), c, clean) for c in experiment.cells()}
    sets: list[OutputSet] = []
    for key in dict.fromkeys(b.block.cell for b in blocks):
        places = {
            (b.block.round, b.block.variant): b for b in blocks if b.block.cell == key and b.block.kind == "measure"
        }
        complete = [r for r in sorted({r for r, _ in places}) if all((r, name) in places for name in names)]
        if not complete:
            continue
        texts = {name: _texts(places[(complete[-1], name)]) for name in names}
        shared = [i for i in sorted(texts[names[0]]) if all(i in texts[name] for name in names)]
        sets.extend(
            _output_set(titles.get(key, clean(key, 80)), texts, i, names, clean) for i in shared[:OUTPUT_PROMPTS]
        )
    return tuple(sets)


def _texts(data: BlockData) -> dict[int, tuple[str | None, str]]:
    """(prompt, output) by prompt_id, of requests that did not fail."""
    columns = data.columns
    prompts = columns["prompt"] if "prompt" in columns else [None] * len(data)
    found: dict[int, tuple[str | None, str]] = {}
    for i, prompt in enumerate(prompts):
        if not columns["error"][i]:
            output = columns["text"][i] or columns["reasoning"][i] or ""
            found.setdefault(int(columns["prompt_id"][i]), (None if prompt is None else str(prompt), str(output)))
    return found


def _output_set(
    title: str, texts: dict[str, dict[int, tuple[str | None, str]]], index: int, names: Sequence[str], clean: Cleaner
) -> OutputSet:
    prompt, reference = texts[names[0]][index]
    outputs = []
    for name in names:
        text = texts[name][index][1]
        same = next(
            (i for i, (a, b) in enumerate(zip(text, reference, strict=False)) if a != b), min(len(text), len(reference))
        )
        outputs.append(
            Output(
                arm=clean(name, 60),
                text=clean.block(text[:OUTPUT_CHARS], limit=OUTPUT_CHARS),
                cut=max(0, len(text) - OUTPUT_CHARS),
                same=None if name == names[0] else same,
                identical=name != names[0] and text == reference,
            )
        )
    shown = clean.block(prompt[:PROMPT_CHARS], limit=PROMPT_CHARS) if prompt is not None else None
    return OutputSet(
        cell=title, prompt=shown, prompt_cut=max(0, len(prompt or "") - PROMPT_CHARS), outputs=tuple(outputs)
    )
