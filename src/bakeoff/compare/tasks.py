"""Tasks of two arms side by side: questions with their answers, or a workload's requests and conversations.

A task that only one arm finished is left out of both: what is compared is the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model import Answer, Experiment
from .extract import Floats, Ints, Requests
from .pairs import Pair

#: Columns of one arm's tasks, each of shape (tasks,): times [s] and counts of a whole task.
COLUMNS = (
    "calls", "waiting_s", "prefill_s", "decode_s", "reasoning", "output",
    "tokens", "input_tokens", "hidden", "occupied_s", "solved",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """The tasks that both arms finished, in the same order. Columns: see COLUMNS; NaN where a number is not known.

    reasoning, output: tokens after the first of each call; tokens: all that were written. hidden: calls whose tokens
    came all at once. occupied_s: the server's time that a task takes, tasks beside it counted off. solved: its score.
    """

    replicate: Ints  # start group, or round
    cluster: Ints  # tasks that resemble each other
    base: Mapping[str, Floats]
    other: Mapping[str, Floats]
    unfinished: tuple[int, int, int] = (
        0,
        0,
        0,
    )  # tasks left out: that base alone, the other alone, both did not finish
    unread: int = 0  # tasks without a score, which count as unsolved

    @property
    def count(self) -> int:
        return int(self.replicate.size)


def _empty() -> dict[str, float]:
    return dict.fromkeys(COLUMNS, 0.0)


def _call(row: dict[str, float], times: tuple[float, float, float], tokens: float, reasoning: float) -> None:
    """Adds a call to its task. times: waiting, to the first token after it, decode [s]."""
    row["calls"] += 1
    for name, seconds in zip(("waiting_s", "prefill_s", "decode_s"), times, strict=True):
        row[name] += seconds
    thought = 0.0 if np.isnan(reasoning) else min(reasoning, tokens)
    row["tokens"] += tokens
    # The first token belongs to the prefill; where a model reasons, it is one of those.
    row["reasoning"] += max(0.0, thought - 1)
    row["output"] += float(np.maximum(0.0, tokens - thought if thought else tokens - 1))
    row["hidden"] += bool(times[2] <= 0 and tokens >= 2)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def question_tasks(
    experiment: Experiment, task: str | None, base: Sequence[Answer], other: Sequence[Answer]
) -> Tasks | None:
    """The answers of two variants to the same questions, each repeat a task of its own. None where none has times."""
    arms = _answers(task, base), _answers(task, other)
    occupied = _occupied(base), _occupied(other)
    both = [key for key in arms[0] if key in arms[1]]
    done = {key: (_timed(arms[0][key]), _timed(arms[1][key])) for key in both}
    kept = [key for key in both if all(done[key])]
    if not kept:
        return None
    groups: dict[tuple[str, str], int] = {}
    replicates, clusters, rows = [], [], []
    unread = 0
    for key in kept:
        pair = arms[0][key], arms[1][key]
        every = experiment.start_every
        replicates.append(pair[0].round // every if every >= 2 else pair[0].round)
        clusters.append(groups.setdefault((pair[0].task, pair[0].group or pair[0].item), len(groups)))
        unread += any(answer.score is None for answer in pair)
        rows.append([_answer_row(a, occupied[i].get((a.round, a.start_id))) for i, a in enumerate(pair)])
    return Tasks(
        replicate=np.array(replicates, dtype=np.int64),
        cluster=np.array(clusters, dtype=np.int64),
        base=_columns([row[0] for row in rows]),
        other=_columns([row[1] for row in rows]),
        unfinished=_unfinished(done.values()),
        unread=unread,
    )


def _unfinished(done: Iterable[tuple[bool, bool]]) -> tuple[int, int, int]:
    """How many tasks base alone, the other arm alone, both did not finish. done: by task, whether each arm did."""
    found = Counter(done)
    return found[False, True], found[True, False], found[False, False]


def _answers(task: str | None, answers: Sequence[Answer]) -> dict[tuple[str, str, int], Answer]:
    return {(a.task, a.item, a.repeat): a for a in answers if a.purpose == "score" and task in (None, a.task)}


def _timed(answer: Answer) -> bool:
    return answer.status != "failed" and answer.first_token_ns is not None and answer.last_token_ns is not None


def _answer_row(answer: Answer, occupied_s: float | None) -> dict[str, float]:
    row = _empty()
    first, last = answer.first_token_ns or 0, answer.last_token_ns or 0
    times = (0.0, (first - answer.scheduled_ns) / 1e9, (last - first) / 1e9)
    tokens = np.nan if answer.output_tokens is None else float(answer.output_tokens)
    _call(row, times, tokens, np.nan if answer.reasoning_tokens is None else float(answer.reasoning_tokens))
    row["input_tokens"] = np.nan if answer.input_tokens is None else float(answer.input_tokens)
    row["occupied_s"] = np.nan if occupied_s is None else occupied_s
    row["solved"] = answer.score or 0.0
    return row


def _occupied(answers: Sequence[Answer]) -> dict[tuple[int, int], float]:
    """By visit (round, start): the time from its first question to its last answer ÷ questions [s]."""
    visits: dict[tuple[int, int], list[Answer]] = {}
    for answer in answers:
        if answer.purpose != "again" and _timed(answer):
            visits.setdefault((answer.round, answer.start_id), []).append(answer)
    return {
        visit: (max(a.last_token_ns or 0 for a in found) - min(a.scheduled_ns for a in found)) / 1e9 / len(found)
        for visit, found in visits.items()
    }


# ── requests and conversations ───────────────────────────────────────────────────────────────────────────────────────


def request_tasks(pairs: Sequence[Pair], start_every: int) -> Tasks | None:
    """A workload's requests in one cell, those of one conversation together. None where both arms share none."""
    replicates: list[int] = []
    base: list[dict[str, float]] = []
    other: list[dict[str, float]] = []
    done: list[tuple[bool, bool]] = []
    queues = [(_queue_s(pair.base), _queue_s(pair.other)) for pair in pairs]
    told = all(wait is not None for pair in queues for wait in pair)
    for pair, queue in zip(pairs, queues, strict=True):
        # What servers say of their queues counts only where both say it in every block.
        waits = queue if told else (0.0, 0.0)
        arms = _request_rows(pair.base, waits[0] or 0.0), _request_rows(pair.other, waits[1] or 0.0)
        kept = [key for key in arms[0] if arms[0][key] is not None and arms[1].get(key) is not None]
        done += [
            (arms[0].get(key) is not None, arms[1].get(key) is not None) for key in arms[0].keys() | arms[1].keys()
        ]
        for key in kept:
            replicates.append(pair.group if start_every >= 2 else pair.round)
            base.append(arms[0][key] or {})
            other.append(arms[1][key] or {})
    if not base:
        return None
    return Tasks(
        replicate=np.array(replicates, dtype=np.int64),
        cluster=np.arange(len(base), dtype=np.int64),
        base=_columns(base),
        other=_columns(other),
        unfinished=_unfinished(done),
    )


def _queue_s(requests: Requests) -> float | None:
    """Mean time of a call in the server's queue over a block [s], by its counters; None where it does not tell."""
    counters = requests.block.counters
    seconds, calls = counters.get("queue_s"), counters.get("queue_count")
    return seconds / calls if seconds is not None and calls else None


def _request_rows(requests: Requests, queue_s: float) -> dict[tuple[float, int], dict[str, float] | None]:
    """A row for each task, None for one that did not end well. Key: conversation or prompt, and how often it came."""
    stamps = {n: np.asarray(requests.columns[f"{n}_ns"], dtype=np.int64) for n in _STAMPS}
    numbers = {n: requests.numbers(n) for n in ("output_tokens", "reasoning_tokens", "input_tokens")}
    rows: dict[tuple[float, int], dict[str, float] | None] = {}
    seen: dict[float, int] = {}
    talks = np.asarray(requests.columns.get("conversation", np.full(requests.ok.size, np.nan)), dtype=np.float64)
    for i in range(requests.ok.size):
        if np.isfinite(talks[i]):
            key = (-1.0 - float(talks[i]), 0)
        else:
            prompt = float(requests.prompt_id[i])
            seen[prompt] = seen.get(prompt, -1) + 1
            key = (prompt, seen[prompt])
        row = rows.setdefault(key, _empty())
        if row is None:
            continue
        first, last = int(stamps["first_token"][i]), int(stamps["last_token"][i])
        if not requests.ok[i] or first < 0 or last < 0:
            rows[key] = None
            continue
        scheduled, sent = int(stamps["scheduled"][i]), int(stamps["sent"][i])
        wait = max(0, sent - scheduled) / 1e9 if sent >= 0 else 0.0
        wait = min(wait + queue_s, (first - scheduled) / 1e9)
        times = (wait, (first - scheduled) / 1e9 - wait, (last - first) / 1e9)
        _call(row, times, float(numbers["output_tokens"][i]), float(numbers["reasoning_tokens"][i]))
        row["input_tokens"] += float(numbers["input_tokens"][i])
    finished = [row for row in rows.values() if row is not None]
    block = requests.block
    for row in finished:
        row["occupied_s"] = (block.ended_ns - block.started_ns) / 1e9 / len(finished)
        row["solved"] = np.nan
    return rows


_STAMPS = ("scheduled", "sent", "first_token", "last_token")


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in COLUMNS}
