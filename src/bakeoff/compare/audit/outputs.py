"""A garbage check on the outputs: empty, one token repeated, unprintable, or unlike the base's own text.

It finds broken set-ups, not worse ones: small base models loop on odd prompts too, so a candidate is judged against
the base's outputs on the same prompts, and never called good.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Experiment
from ..extract import Requests
from ..pairs import Grid
from . import limits
from .bench import percent

#: Bounds of the work: outputs per arm, characters per output.
_TEXTS, _CHARACTERS = 200, 600
#: Characters of base output below which its bigrams say nothing.
_ENOUGH_CHARACTERS = 3000
_MIN_WORDS, _MIN_BYTES, _MIN_RUN = 8, 100, 8


class OutputCheck(NamedTuple):
    """What the outputs of a candidate look like beside the base's, on the same prompts."""

    compared: int = 0
    base_degenerate: int = 0
    degenerate: int = 0
    garbage: str | None = None  # why the candidate is garbage


def check_outputs(experiment: Experiment, grid: Grid, candidate: str) -> OutputCheck:
    """Compares the outputs of one candidate with the base's over all cells."""
    texts = _paired_texts(experiment, grid, candidate)
    if not texts:
        return OutputCheck()
    base, other = [a for a, _ in texts], [b for _, b in texts]
    unlike_base, unlike_other = _gibberish(base, other)
    mine = [fault(text) or ("gibberish" if bad else None) for text, bad in zip(base, unlike_base, strict=True)]
    theirs = [fault(text) or ("gibberish" if bad else None) for text, bad in zip(other, unlike_other, strict=True)]
    a, b, n = sum(f is not None for f in mine), sum(f is not None for f in theirs), len(texts)
    garbage = None
    if (b - a) / n >= limits.GARBAGE_POINTS.value and _fisher(a, b, n) < limits.GARBAGE_P.value:
        kinds = ", ".join(kind for kind, _ in Counter(f for f in theirs if f).most_common(3))
        garbage = (
            f"{percent(b / n)} of the outputs of {candidate} are degenerate ({kinds}), {percent(a / n)} of the base's "
            f"on the same {n} prompts"
        )
    return OutputCheck(n, a, b, garbage)


def fault(text: str) -> str | None:
    """What is wrong with one output by itself: ``empty``, ``unprintable``, ``one token repeated``; else None."""
    bare = "".join(text.split())
    if not bare:
        return "empty"
    strange = sum(c == "\ufffd" or not (c.isprintable() or c.isspace()) for c in text)
    if strange > limits.UNPRINTABLE.value * len(text):
        return "unprintable"
    words, data = text.split(), text.encode("utf-8", "replace")
    if (
        (len(bare) >= _MIN_RUN and len(set(bare)) <= 2)
        or (len(words) >= _MIN_WORDS and len(set(words)) <= limits.DISTINCT_WORDS.value * len(words))
        or (len(data) >= _MIN_BYTES and len(zlib.compress(data, 6)) <= limits.COMPRESSION.value * len(data))
    ):
        return "one token repeated"
    return None


def _paired_texts(experiment: Experiment, grid: Grid, candidate: str) -> list[tuple[str, str]]:
    """(base output, candidate output) per prompt of every pair, thinned evenly to a bounded number."""
    found: list[tuple[str, str]] = []
    for cell in experiment.cells():
        for pair in grid.pairs(experiment.base.name, candidate, cell.key):
            a, b = _outputs(pair.base), _outputs(pair.other)
            found += [(a[i], b[i]) for i in sorted(a.keys() & b.keys())]
    places = np.linspace(0, len(found) - 1, min(len(found), _TEXTS)).round().astype(int)
    return [found[i] for i in places]


def _outputs(requests: Requests) -> dict[int, str]:
    """Text with reasoning by prompt, bounded, of requests that succeeded and wrote at least one token."""
    texts, reasoning = requests.texts("text"), requests.texts("reasoning")
    tokens = requests.numbers("output_tokens")
    return {
        int(requests.prompt_id[i]): ((reasoning[i] or "") + (texts[i] or ""))[:_CHARACTERS]
        for i in np.flatnonzero(requests.ok)
        if tokens[i] != 0  # NaN (not told) counts as written
    }


def _fisher(a: int, b: int, n: int) -> float:
    """One-sided exact p of b of n against a of n."""
    from scipy import stats

    return float(stats.fisher_exact(np.array([[b, n - b], [a, n - a]]), alternative="greater")[1])


def _gibberish(base: Sequence[str], other: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Outputs whose characters are far less likely under the base's text than the base's own are, and in no order.

    The base's outputs are scored by a model of the other half of them (split half), so that both arms are scored by
    text that they are not part of. Unlikely alone could be another topic; but prose of any topic has letters in an
    order that the base's text makes more likely than chance (its bigrams gain over single characters).
    """
    halves = base[0::2], base[1::2]
    if sum(len(t) for t in base) < _ENOUGH_CHARACTERS:
        return [False] * len(base), [False] * len(other)
    even, odd = (_bigram_model(half) for half in halves)
    own = np.array([(odd if i % 2 == 0 else even)(text) for i, text in enumerate(base)])
    scores = np.array([np.add(even(text), odd(text)) / 2 for text in other])
    middle = float(np.median(own[:, 0]))
    deviation = 1.4826 * float(np.median(np.abs(own[:, 0] - middle)))  # robust sd
    floor = middle - max(limits.GIBBERISH_NATS.value, limits.GIBBERISH_SPREADS.value * deviation)
    a, b = (((s[:, 0] < floor) & (s[:, 1] < limits.GIBBERISH_GAIN.value)).tolist() for s in (own, scores))
    return a, b


def _bigram_model(texts: Sequence[str]) -> Callable[[str], tuple[float, float]]:
    """Under interpolated bigrams of `texts`: (mean log probability per character, gain over single ones) [nats]."""
    singles: Counter[str] = Counter()
    firsts: Counter[str] = Counter()
    doubles: Counter[tuple[str, str]] = Counter()
    for text in texts:
        singles.update(text)
        firsts.update(text[:-1])
        doubles.update(itertools.pairwise(text))
    total = sum(singles.values())
    # A character never seen gets the share of one in 2¹⁶: about the characters that scripts in use have.
    space = float(total + 2**16)

    def score(text: str) -> tuple[float, float]:
        if len(text) < 2:
            return 0.0, 0.0
        logs = gain = 0.0
        for a, b in itertools.pairwise(text):
            single = (singles[b] + 1) / space
            double = doubles[(a, b)] / firsts[a] if firsts[a] else 0.0
            mixed = math.log(0.7 * double + 0.3 * single)
            logs += mixed
            gain += mixed - math.log(single)
        return logs / (len(text) - 1), gain / (len(text) - 1)

    return score
