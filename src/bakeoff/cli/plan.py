"""`bakeoff plan EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("plan")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--runs", "root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Where earlier runs lie: their times and noise make the forecast.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(experiment: Path, root: Path, as_json: bool) -> int:
    """Check EXPERIMENT, with every file that it names, and say what a run would do, without starting anything.

    For every gate: the noise of a pair (of earlier runs on this machine with these engines, else assumed), the change
    that the budget can detect, and how long it takes.
    """
    from ..app import load_experiment
    from ..app.foretell import plan
    from ..app.loading import checked_inputs
    from ..app.plan_text import plan_text

    checked = load_experiment(experiment)
    checked_inputs(checked)
    forecast = plan(checked, root)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(forecast), indent=2).decode())
    else:
        click.echo(plan_text(checked, forecast))
    return 0
