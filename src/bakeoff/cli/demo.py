"""`bakeoff demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .common import finish, gate_options


@click.command("demo")
@click.option("--quick", is_flag=True, help="Short prompts only, one start per arm: about 2 minutes.")
@click.option("--runs", "root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@gate_options
def command(quick: bool, root: Path, quiet: bool, **gates: Any) -> int:
    """A real bake-off on this machine: Gemma 3 270M on embedded llama.cpp.

    base (Q8_0 weights, 16-bit KV cache) against flash (everything smaller: Q4_0 block matrices, q8_0 KV cache)
    and fixed (as flash, with the 16-bit KV cache). It says what it finds, whatever that is.
    """
    from ..app.loading import engines_of
    from ..demo import QUALITY_NOTE, demo_experiment, prepare
    from .common import check_limits
    from .run import measure

    with _PreparationBar(quiet) as bar:
        models = prepare(None, progress=bar.update)
    experiment = demo_experiment(models, quick=quick)
    check_limits(gates["fail_if"], gates["fail_unless"], experiment)
    engines_of(experiment)  # a missing library is said before anything starts
    expected = "about 2 min" if quick else "about 10 min"
    result = measure(
        experiment,
        root=root,
        source="demo",
        quiet=quiet,
        quality_note=QUALITY_NOTE,
        foretold=f"Gemma 3 270M on this machine: {expected} on 2 idle cores. Leave the machine alone meanwhile.",
    )
    return finish(result, **gates)


class _PreparationBar:
    """Progress of the one-time preparation, on stderr; invisible when everything is cached."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._said = ""

    def __enter__(self) -> _PreparationBar:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.start()
            self._task = self._bar.add_task("preparing models", total=1.0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, text: str, share: float) -> None:
        """`share` of the whole preparation, 0 to 1."""
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=share)
        elif not self._quiet and text != self._said:
            click.echo(text, err=True)
            self._said = text
