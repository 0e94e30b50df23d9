"""A scorer that the user wrote: ``module:function`` of a file beside the experiment, or of an installed package.

It is the user's own code and runs in this process, when answers are scored; a verdict that is recomputed later reads
the saved scores and runs nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .items import Grade, Grader, Reply, TaskError
from .scorers import answer_text

Scorer = Callable[[str, Mapping[str, Any]], Any]
_REMEDY = "write scorer.py with `def score(answer, item): …` beside the experiment, and `function: scorer:score`"


def load_function(spec: str, where: str) -> Scorer:
    """The function that ``module:function`` names; the module is a dotted name or a path that ends in ``.py``.

    where: the task, for messages. Raises TaskError.
    """
    place, _, name = spec.rpartition(":")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that calls sys.exit() must not end the run
        raise TaskError(
            f"the function {spec!r} cannot be loaded: {_told(error)}", where=where, remedy=_REMEDY
        ) from error
    if not callable(found):
        raise TaskError(f"{spec!r} is no function", where=where, remedy=_REMEDY)
    return found  # type: ignore[no-any-return]  # callable, by the check above


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bakeoff_scorer_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _told(error: BaseException) -> str:
    """``ValueError: what it says``, short; its own text may fail as well."""
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}"[:300] if text else name


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:
        return f"a {type(value).__name__}"


def graded_by(function: Scorer, item: Mapping[str, Any]) -> Grader:
    """A grader that asks `function(answer, item)` for a score from 0 to 1; None means that it cannot tell.

    A cut answer is not shown to it: what it would say of a part is no score of the whole.
    """

    def grade(reply: Reply) -> Grade:
        text = answer_text(reply.text)
        if reply.cut:
            return Grade(None, "cut", "ended by max_tokens")
        try:
            value = function(text, item)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() too: what grades one answer must not end the run
            return Grade(None, "ungradable", f"the function raised {_told(error)}")
        if value is None:
            return Grade(None, "ungradable", "the function gave no score")
        try:
            score = float(value)
        except Exception:
            score = math.nan
        if not 0.0 <= score <= 1.0:
            return Grade(None, "ungradable", f"the function gave {_shown(value)}, which is no score from 0 to 1")
        return Grade(score, given=text[:200])

    return grade
