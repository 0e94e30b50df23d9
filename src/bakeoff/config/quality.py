"""The section `quality` of an experiment file: what ties its keys together, and the types that it becomes."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..model import Consistency, Divergence, Quality, QualityTask, Scorer, TaskSource
from .places import Key, Ledger
from .traffic import absolute_path, as_mapping, exists

if TYPE_CHECKING:
    from .schema import QualitySection, TaskSection

_OWN_KEYS: dict[str, tuple[str, ...]] = {
    "jsonl": ("path", "scorer", "pattern", "function", "stop"),
    "reasoning-gym": ("datasets", "stop"),
    "lm-eval": ("task", "path"),
}
_EXAMPLES = {"jsonl": "path: questions.jsonl", "lm-eval": "task: gsm8k"}


def task_source(task: Mapping[str, Any]) -> str:
    """The source that is meant: a path alone means a file, a task's name lm-eval's, and nothing reasoning-gym's mix."""
    given = task.get("source")
    if isinstance(given, str):
        return given
    return "lm-eval" if task.get("task") is not None else "jsonl" if task.get("path") is not None else "reasoning-gym"


def check_quality(data: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    """Notes every combination of keys that asks for nothing that can be done."""
    quality = data.get("quality")
    if not isinstance(quality, Mapping):
        return
    tasks = as_mapping(quality.get("tasks"))
    if not tasks and quality.get("divergence") is None:
        ledger.add(("quality",), "asks for nothing", "tasks: {puzzles: {}}, or divergence: {}")
    if quality.get("consistency") is not None and not tasks:
        ledger.add(("quality", "consistency"), "repeats questions of `tasks`, and there are none", on_key=True)
    for name, task in tasks.items():
        if isinstance(task, Mapping):
            _check_task(("quality", "tasks", str(name)), task, where, ledger)


def _check_task(key: Key, task: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    source = task_source(task)
    own = _OWN_KEYS.get(source)
    if own is None:
        return  # reported by its value
    for name in dict.fromkeys(name for keys in _OWN_KEYS.values() for name in keys):
        if name not in own and task.get(name) is not None:
            ledger.add((*key, name), f"is not for source {source}", on_key=True)
    needed = "path" if source == "jsonl" else "task" if source == "lm-eval" else None
    if needed is not None and task.get(needed) is None:
        ledger.add((*key, needed), "is missing", _EXAMPLES[source])
    path = task.get("path")
    if source == "jsonl" and isinstance(path, str) and not exists(absolute_path(path, where)):
        ledger.add((*key, "path"), f"there is no file {str(path)!r}", f"it is looked for in {where}")
    if source == "jsonl":
        _check_scorer(key, task, where, ledger)


def _check_scorer(key: Key, task: Mapping[str, Any], where: Path, ledger: Ledger) -> None:
    scorer = _scorer(task)
    for name, owner in (("pattern", "regex"), ("function", "function")):
        if scorer == owner and task.get(name) is None:
            example = r"pattern: 'answer is (\w+)'" if name == "pattern" else "function: scorer:score"
            ledger.add((*key, name), f"is missing: scorer {owner} needs it", example)
        elif scorer != owner and task.get(name) is not None:
            ledger.add((*key, name), f"is for scorer {owner}, and this task has {scorer}", on_key=True)
    pattern, function = task.get("pattern"), task.get("function")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            ledger.add((*key, "pattern"), f"is no regular expression: {error}", r"pattern: 'answer is (\w+)'")
    if isinstance(function, str):
        _check_function((*key, "function"), function, where, ledger)


def _check_function(key: Key, function: str, where: Path, ledger: Ledger) -> None:
    module, _, name = function.partition(":")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", module) or not name.isidentifier():
        ledger.add(key, "must be module:function", "function: scorer:score, of a file scorer.py beside the experiment")
    elif _module_file(module, where) is None and not _installed(module):
        ledger.add(key, f"there is neither {module}.py beside the experiment nor a package {module}")


def _module_file(module: str, where: Path) -> Path | None:
    path = absolute_path(f"{module.replace('.', '/')}.py", where)
    return path if exists(path) else None


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module.split(".", maxsplit=1)[0]) is not None
    except (ImportError, ValueError):
        return False


def _scorer(task: Mapping[str, Any]) -> str:
    given = task.get("scorer")
    if isinstance(given, str):
        return given
    if task_source(task) != "jsonl":
        return "task"
    return "regex" if task.get("pattern") is not None else "function" if task.get("function") else "normalised"


def build_quality(section: QualitySection | None, where: Path) -> Quality | None:
    """The checked section as a type; paths made absolute. None where it is not there."""
    if section is None:
        return None
    return Quality(
        tasks=tuple(_task(name, entry, where) for name, entry in section.tasks.items()),
        margin_points=section.margin,
        divergence=Divergence(**section.divergence.model_dump()) if section.divergence else None,
        consistency=Consistency(**section.consistency.model_dump()) if section.consistency else None,
    )


def _task(name: str, entry: TaskSection, where: Path) -> QualityTask:
    raw = entry.model_dump()
    function = entry.function
    if function is not None:
        module, _, attribute = function.partition(":")
        file = _module_file(module, where)
        function = f"{file}:{attribute}" if file is not None else function
    return QualityTask(
        name=name,
        source=cast("TaskSource", task_source(raw)),
        datasets=dict(entry.datasets),
        path=str(absolute_path(entry.path, where)) if entry.path is not None else None,
        task=entry.task,
        items=entry.items,
        repeats=entry.repeats,
        scorer=cast("Scorer", _scorer(raw)),
        pattern=entry.pattern,
        function=function,
        stop=tuple(entry.stop or ()),
        max_tokens=entry.max_tokens,
        template=entry.template,
        temperature=entry.temperature,
        seed=entry.seed,
    )
