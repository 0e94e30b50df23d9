"""What several verbs share: options, printing a verdict, exit codes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import EXIT_GATE_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, EXIT_UNDECIDED, UsageError
from ..model import Experiment, Result

if TYPE_CHECKING:
    from ..compare.view_types import View


def wants_color(stream: Any = None) -> bool:
    """Colour on a terminal, unless NO_COLOR is set (no-color.org)."""
    stream = stream or sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shown_path(path: str | Path) -> str:
    """A path as the user would type it: relative where it lies below the current folder."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def gate_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``, ``--full``, ``--fail-if``, ``--fail-unless``, ``--require-decision``."""
    for option in reversed(
        (
            click.option("--json", "as_json", is_flag=True, help="Print result.json instead of the verdict."),
            click.option("--full", is_flag=True, help="Show every metric, also the exploratory ones."),
            click.option(
                "--fail-if", multiple=True, metavar="LIMIT", help="Exit 1 if proven, e.g. 'chat.tpot_s > +5%'."
            ),
            click.option("--fail-unless", multiple=True, metavar="LIMIT", help="Exit 1 unless proven: 'tpot_s < +5%'."),
            click.option("--require-decision", is_flag=True, help="Exit 3 when a gate is undecided."),
        )
    ):
        function = option(function)
    return function


def check_limits(fail_if: tuple[str, ...], fail_unless: tuple[str, ...], experiment: Experiment | None = None) -> None:
    """Refuses a wrong limit, or one that no row of the experiment can match, before anything is measured."""
    from ..app.limits import parse_limit

    for text in (*fail_if, *fail_unless):
        limit = parse_limit(text)
        names = [w.name for w in experiment.workloads] if experiment is not None else []
        if names and limit.workload is not None and limit.workload not in names:
            raise UsageError(
                f"{text!r} names the workload {limit.workload!r}, which the experiment does not have",
                remedy="one of: " + ", ".join(names),
            )


def finish(result: Result, *, as_json: bool, full: bool, **limits: Any) -> int:
    """Prints the verdict of a run (stdout) and returns the exit code. limits: as of `judged`."""
    from ..app.recompute import describe

    view = None
    if not as_json:
        view = dataclasses.replace(describe(result.run, result=result), run_path=shown_path(result.run))
    show(result, view, full=full)
    return judged(result, **limits)


def show(result: Result, view: View | None, *, full: bool) -> None:
    """Prints the verdict; without a view the result as JSON."""
    from ..app.recompute import render

    if view is None:
        from ..report import render_json

        click.echo(render_json(result).rstrip("\n"))
    else:
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        click.echo(render(view, "terminal", color=wants_color(), width=width, full=full), nl=False)


def judged(result: Result, *, fail_if: tuple[str, ...], fail_unless: tuple[str, ...], require_decision: bool) -> int:
    """Says which limits fail (stderr) and returns the exit code."""
    from ..app.limits import failures, parse_limit

    failed = failures(result, [parse_limit(t) for t in fail_if], [parse_limit(t) for t in fail_unless])
    for line in failed:
        click.echo(f"failed  {line}", err=True)
    return exit_code(result, gate_failed=bool(failed), require_decision=require_decision)


def exit_code(result: Result, *, gate_failed: bool, require_decision: bool) -> int:
    """The contract's exit code; the gravest one first."""
    from ..compare.stopping import decided, gates_of

    gates = gates_of(result)
    if result.state == "interrupted":
        return EXIT_INTERRUPTED
    if not result.rounds:
        return EXIT_INVALID  # nothing was compared: that is not fine, whatever was asked
    if gates and all(row.outcome == "invalid" for row in gates):
        return EXIT_INVALID
    if gate_failed:
        return EXIT_GATE_FAILED
    if any(row.outcome == "invalid" for row in gates):
        return EXIT_INVALID
    if require_decision and not decided(result):
        return EXIT_UNDECIDED
    return EXIT_OK
