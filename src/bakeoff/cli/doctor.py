"""`bakeoff doctor`."""

from __future__ import annotations

import click

from .common import wants_color


@click.command("doctor")
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.2, 60), help="How long to watch.")
@click.option("--strict", is_flag=True, help="Exit 4 for warnings too.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(seconds: float, strict: bool, as_json: bool) -> int:
    """Is this machine fit to measure? Exit 0: yes; 4: no, with the remedy for each finding."""
    from ..doctor import examine, render, to_json

    diagnosis = examine(seconds)
    click.echo(to_json(diagnosis) if as_json else render(diagnosis, color=wants_color()))
    return diagnosis.exit_code(strict)
