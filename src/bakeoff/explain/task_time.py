"""Why a task takes longer: the parts of its time, which were measured and add up exactly.

The most frequent "slower model" is a more talkative one: more tokens at the same time per token.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.task_words import part_sentence, parts_by_weight, place_of, share_of, task_sentence
from ..model import Finding, TaskPart, TaskTime

_SLOWER = ("slower", "probably slower")
#: Part → its cause in the taxonomy of slow-downs, what it is called, and what usually helps.
_CAUSES = {
    "output tokens": (
        "more-tokens",
        "more tokens, not slower ones",
        "stop tokens and the chat template of the base; a budget of tokens; a prompt that asks for short answers",
    ),
    "reasoning tokens": (
        "more-tokens",
        "more reasoning tokens, not slower ones",
        "a lower reasoning effort or a budget of reasoning tokens; switch reasoning off where answers do not need it",
    ),
    "time per token": ("time-per-token", "more time per token", None),
    "decode": ("time-per-token", "more time to write the answer", None),
    "prefill": ("prefill", "more time to the first token", None),
    "waiting": ("waiting", "more time in a queue", "fewer requests at a time, or more slots"),
    "calls": ("more-calls", "more calls a task", "find out why the same task takes more calls (retries, tool errors)"),
}


def task_time_findings(rows: Sequence[TaskTime]) -> tuple[Finding, ...]:
    """One finding for each row that is slower: its largest part is the cause, all parts are the evidence."""
    return tuple(_finding(row, parts_by_weight(row)) for row in rows if row.outcome in _SLOWER and row.parts)


def _finding(row: TaskTime, parts: Sequence[TaskPart]) -> Finding:
    first = parts[0]
    cause, title, fix = _CAUSES.get(first.name, (first.name, first.name, None))
    return Finding(
        candidate=row.candidate,
        cause=cause,
        title=f"{place_of(row)}: {title} ({part_sentence(first)})",
        share=share_of(row, first),
        status="measured",
        evidence=(task_sentence(row), *(part_sentence(part, gap=row) for part in parts)),
        fix=fix,
        workload=row.workload,
        load=row.load,
        metric="task_time_s",
    )
