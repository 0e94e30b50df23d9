"""`bakeoff compare RUN [RUN…]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import check_limits, finish, gate_options, judged, show


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN]...", type=click.Path(path_type=Path))
@click.option("--merge-anyway", is_flag=True, help="Merge runs although their environments differ: each is a stratum.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Also write a report: .html, .md or .json.")
@gate_options
def command(runs: tuple[Path, ...], merge_anyway: bool, output: Path | None, **options: Any) -> int:
    """Recompute the verdict of RUN (a run folder) from its raw data; of several runs of one experiment, together.

    Runs of one experiment in one environment are merged: more pairs. Where environments differ, the command says in
    what, and merges only with --merge-anyway; every environment then counts alike.
    """
    from ..app import compare
    from ..app.merging import compare_runs
    from ..app.recompute import describe

    check_limits(options["fail_if"], options["fail_unless"])
    if len(runs) == 1:
        result = compare(runs[0])
        if output is not None:
            _write(output, result, describe(result.run, result=result))
        return finish(result, **options)
    result, view = compare_runs(runs, merge_anyway=merge_anyway)
    if output is not None:
        _write(output, result, view)
    show(result, None if options.pop("as_json") else view, full=options.pop("full"))
    return judged(result, **options)


def _write(path: Path, result: Any, view: Any) -> None:
    from ..app.recompute import render
    from ..errors import UsageError
    from ..report import render_json

    formats = {".html": "html", ".md": "markdown", ".json": "json"}
    fmt = formats.get(path.suffix.lower())
    if fmt is None:
        raise UsageError(f"cannot tell the format of {path.name!r}", remedy="end its name in .html, .md or .json")
    text = render_json(result) if fmt == "json" else render(view, fmt)  # type: ignore[arg-type]  # from the table above
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write ({error.strerror})", where=str(path), remedy="name a file you can write to"
        ) from error
    click.echo(path, err=True)
