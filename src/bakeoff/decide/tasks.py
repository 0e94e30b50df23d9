"""What the time of a whole task says against a candidate: faster per token and slower per task is slower."""

from __future__ import annotations

from collections.abc import Sequence

from ..compare.task_words import leading_parts, part_sentence, solved_sentence, task_sentence
from ..model import TaskTime


def slower_tasks(rows: Sequence[TaskTime]) -> dict[str, str]:
    """Candidate → why it is not shipped: its tasks (solved ones, where they are graded) take longer, and none less."""
    against: dict[str, str] = {}
    for candidate in dict.fromkeys(row.candidate for row in rows):
        mine = _deciding([row for row in rows if row.candidate == candidate])
        outcomes = {_outcome(row) for row in mine}
        if "slower" in outcomes and "faster" not in outcomes:
            slower = [row for row in mine if _outcome(row) == "slower"]
            against[candidate] = f"not {candidate}: {'; '.join(_why(row) for row in slower)}"
    return against


def task_reasons(candidate: str, rows: Sequence[TaskTime]) -> tuple[str, ...]:
    """What a candidate's tasks take, as reasons."""
    told = _deciding([row for row in rows if row.candidate == candidate])
    return tuple(f"{candidate}: {_why(row)}" for row in told if _outcome(row) in ("faster", "slower", "equivalent"))


def _deciding(rows: Sequence[TaskTime]) -> list[TaskTime]:
    """All questions together, where there are several tasks of them; and each cell of traffic."""
    whole = [row for row in rows if row.workload is None and row.task is None]
    return [row for row in rows if row.workload is not None or row in whole or not whole]


def _outcome(row: TaskTime) -> str:
    """A solved task's where it is known for sure; that it takes no longer to answer does not make up for wrong ones."""
    return row.solved_outcome if row.solved_outcome in ("faster", "slower", "equivalent") else row.outcome


def _why(row: TaskTime) -> str:
    solved = solved_sentence(row)
    told = [task_sentence(row), *([solved] if solved else [])]
    causes = [part_sentence(part, gap=row) for part in leading_parts(row)] if row.outcome != "equivalent" else []
    return "; ".join(told) + (f" ({'; '.join(causes)})" if causes else "")
