"""Tasks of the lm-eval library (extra ``lm-eval``): its datasets, its prompts, its filters and metrics, our servers.

Only asking is ours, so that an answer is one of the run's answers: interleaved, saved, compared in pairs. The library's
own `limit`, seeds of sampling and bootstrap play no part.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import io
import logging
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model import Endpoint, QualityTask
from .items import Grade, Item, Reply, TaskError

_REMEDY_INSTALL = "pip install 'bakeoff[lm-eval]'"
_FEWSHOT_SEED = 1234  # the library's own default


def lm_eval_items(task: QualityTask) -> list[Item]:
    """The questions of an lm-eval task, or of all tasks of a group (each one a group of items).

    `task.path`: a folder with task files of your own. Raises TaskError with a remedy: library missing, unknown task,
    data that cannot be loaded, a task that no server can be asked or whose metrics are no scores of single answers.
    """
    loaded = _load(task)
    items: list[Item] = []
    for name, source in sorted(loaded.items()):
        _refuse_unfit(task, name, source)
        with _quiet(task, f"the requests of {name} cannot be built"):
            if source.get_config("num_fewshot") is None:
                source.set_config(key="num_fewshot", value=0)
            source.set_fewshot_seed(seed=_FEWSHOT_SEED)
            source.build_all_requests(limit=None, rank=0, world_size=1)
        several = len(loaded) > 1
        for doc_id, instances in _by_document(source.instances).items():
            document = _Document(source, instances, task.name)
            items.append(document.item(f"{name}/{doc_id}" if several else str(doc_id), name if several else ""))
    return items


def _load(task: QualityTask) -> dict[str, Any]:
    """Task objects of the library, by name."""
    try:
        from lm_eval.tasks import TaskManager
    except ImportError:
        raise TaskError("lm-eval is not installed", where=task.name, remedy=_REMEDY_INSTALL) from None
    if task.path is not None and not Path(task.path).is_dir():
        raise TaskError(f"there is no folder {task.path}", where=task.name, remedy="name the folder of the task files")
    with _quiet(task, "its tasks cannot be listed"):
        manager = TaskManager(include_path=task.path)
    name = task.task or ""
    known = list(manager.all_tasks)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "lm-eval ls tasks lists the names"
        raise TaskError(f"lm-eval has no task {name!r}", where=task.name, remedy=hint)
    with _quiet(task, f"{name} cannot be loaded"):
        return dict(manager.load([name])["tasks"])


def _refuse_unfit(task: QualityTask, name: str, source: Any) -> None:
    if getattr(source, "UNSAFE_CODE", False):
        raise TaskError(
            f"{name} runs code that models write", where=task.name, remedy="choose another task: nothing runs such code"
        )
    if getattr(source, "MULTIMODAL", False):
        raise TaskError(f"{name} asks about images or sound", where=task.name, remedy="choose a task of text alone")
    if source.OUTPUT_TYPE == "loglikelihood_rolling":
        raise TaskError(
            f"{name} measures perplexity, which is no score of an answer",
            where=task.name,
            remedy="ask for `divergence:`: it holds the perplexity ratio",
        )


@contextlib.contextmanager
def _quiet(task: QualityTask, failed: str) -> Iterator[None]:
    """The library's chatter (progress bars, log lines, warnings of what it imports) left out, its failures told."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # a task file is a program: whatever it raises is a task that cannot be used
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise TaskError(
            f"{failed}: {said}",
            where=task.name,
            remedy="its data must be on this machine or within reach: load it once with lm-eval itself, or name a "
            "folder of your own task files with `path`",
        ) from None
    finally:
        logger.setLevel(level)


def _by_document(instances: Sequence[Any]) -> Mapping[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for instance in instances:
        found[instance.doc_id].append(instance)
    for own in found.values():
        own.sort(key=lambda instance: instance.idx)
    return found


class _Document:
    """One document of a task with the requests that the library makes of it."""

    def __init__(self, source: Any, instances: Sequence[Any], task: str) -> None:
        self._source = source
        self._instances = instances
        self._task = task

    def item(self, identity: str, group: str) -> Item:
        first = self._instances[0]
        expected = str(self._source.doc_to_target(first.doc))
        if first.request_type == "generate_until":
            until = first.args[1].get("until") or ()
            stop = (until,) if isinstance(until, str) else tuple(str(text) for text in until)
            return Item(
                id=identity,
                group=group,
                prompt=first.args[0],
                expected=expected,
                stop=tuple(text for text in stop if text),
                grade=lambda reply: self._graded_text(reply, stop),
            )
        choices = tuple(instance.args[1] for instance in self._instances)
        if first.request_type != "loglikelihood":
            raise TaskError(
                f"requests of the kind {first.request_type} are not known",
                where=self._task,
                remedy="choose a task of the kind generate_until, multiple_choice or loglikelihood",
            )
        return Item(
            id=identity,
            group=group,
            prompt=first.args[0],
            expected=self._expected_choice(expected, choices),
            choices=choices,
            ask=self._ask,
            chance=1 / len(choices) if len(choices) > 1 and self._source.OUTPUT_TYPE == "multiple_choice" else None,
            grade=lambda _reply: Grade(None, "ungradable", "it is scored by log-likelihood"),
        )

    def _expected_choice(self, target: str, choices: Sequence[str]) -> str:
        """The library's target of a multiple choice is a number."""
        return choices[int(target)].strip() if target.isdecimal() and int(target) < len(choices) else target

    def _graded_text(self, reply: Reply, stop: Sequence[str]) -> Grade:
        text = reply.text
        for ending in stop:  # a server may ignore it
            text = text.split(ending, 1)[0] if ending else text
        grade = self._graded([[text]], text)
        if reply.cut and text == reply.text and grade.score == 0:
            return Grade(None, "cut", "ended by max_tokens before an answer could be read")
        return grade

    async def _ask(self, endpoint: Endpoint) -> Grade:
        from .lm_eval_model import likelihoods

        answers = await likelihoods(endpoint, [instance.args for instance in self._instances])
        likeliest = max(range(len(answers)), key=lambda place: answers[place][0])
        given = self._instances[likeliest].args[1] if len(answers) > 1 else ""
        return self._graded([[answer] for answer in answers], given)

    def _graded(self, responses: Sequence[list[Any]], given: str) -> Grade:
        """The library's own way from responses to a score: its first filter, then its first metric that is one."""
        own = []
        for instance, response in zip(self._instances, responses, strict=True):
            answered = copy.copy(instance)
            answered.resps, answered.filtered_resps = response, {}
            own.append(answered)
        try:
            for ensemble in self._source._filters:
                ensemble.apply(own)
            name = next(iter(own[0].filtered_resps))
            metrics = self._source.process_results(own[0].doc, [answered.filtered_resps[name] for answered in own])
        except Exception as error:  # the task file's own code
            return Grade(None, "ungradable", f"lm-eval could not score it: {error}"[:300], given)
        for metric in [*getattr(self._source, "_metric_fn_list", {}), *metrics]:
            score = metrics.get(metric)
            if isinstance(score, int | float) and 0 <= float(score) <= 1:
                return Grade(float(score), given=given)
        return Grade(None, "ungradable", f"lm-eval's metrics {', '.join(metrics)} are no scores between 0 and 1", given)
