"""`bakeoff report [RUN]`."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import click

from .common import shown_path, wants_color


@click.command("report")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--html", is_flag=True, help="One self-contained file.")
@click.option("--markdown", is_flag=True, help="Tables for a pull request.")
@click.option("--json", is_flag=True, help="result.json.")
@click.option("--terminal", is_flag=True, help="The verdict as `run` prints it (default).")
@click.option("--redact", is_flag=True, help="Leave out prompts, outputs, hosts and paths.")
@click.option("--full", is_flag=True, help="Show every metric, also the exploratory ones (terminal).")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file (default: stdout).")
def command(run: Path | None, redact: bool, full: bool, output: Path | None, **formats: bool) -> int:
    """Render the report of RUN, recomputed from its raw data. Without RUN: the newest one in ./runs.

    `--html` without `-o` writes RUN/report.html and prints its path.
    """
    from ..app.recompute import describe, render, report
    from ..errors import UsageError
    from ..runs import RunFolder

    asked = [name for name, wanted in formats.items() if wanted]
    if len(asked) > 1:
        raise UsageError(
            "a report has one format", where=", ".join(f"--{name}" for name in asked), remedy="call it once for each"
        )
    fmt = asked[0] if asked else "terminal"
    path = run if run is not None else RunFolder.latest(Path("runs"))
    if fmt == "terminal":
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        color = wants_color() and output is None
        view = describe(path, redact=redact)
        if not redact:
            view = dataclasses.replace(view, run_path=shown_path(path))
        text = render(view, "terminal", color=color, width=width, full=full)
    else:
        text = report(path, fmt, redact=redact)  # type: ignore[arg-type]  # click offers only these
    if output is not None:
        try:
            output.write_text(text + ("" if text.endswith("\n") else "\n"), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot write ({error.strerror})", where=str(output), remedy="name a file you can write to"
            ) from error
        click.echo(output)
    elif fmt == "html":
        target = RunFolder.open(path)
        if redact:
            raise UsageError("--redact makes a copy to share", remedy="name its file with -o shared.html")
        click.echo(target.write_report(text))
    else:
        click.echo(text, nl=not text.endswith("\n"))
    return 0
