"""`bakeoff compare RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import check_limits, finish, gate_options


@click.command("compare")
@click.argument("run", type=click.Path(path_type=Path))
@gate_options
def command(run: Path, **options: Any) -> int:
    """Recompute the verdict of RUN (a run folder) from its raw data."""
    from ..app import compare

    check_limits(options["fail_if"], options["fail_unless"])
    return finish(compare(run), **options)
