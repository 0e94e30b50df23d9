"""`bakeoff plan EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("plan")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--runs", "root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Where earlier runs lie: their times make the forecast.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(experiment: Path, root: Path, as_json: bool) -> int:
    """Check EXPERIMENT and say what a run would do, without starting anything."""
    from ..app import load_experiment
    from ..app.foretell import foretell, plan_text

    checked = load_experiment(experiment)
    forecast = foretell(checked, root)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(forecast), indent=2).decode())
    else:
        click.echo(plan_text(checked, forecast))
    return 0
