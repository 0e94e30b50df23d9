"""The view: everything that reports show, built once from a result and the run's raw data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..metrics import METRICS
from ..model import BlockData, Environment, Experiment, Result, Sample, Start, Variant
from .view_crossings import crossing_views
from .view_edges import edge_views
from .view_first_output import first_outputs
from .view_method import method_items
from .view_outputs import output_sets
from .view_price import price_view
from .view_quality import flip_views, score_views
from .view_redact import Cleaner, private_names
from .view_tables import ROW_LIMIT, environment_of, errors_of, findings, machine_of, quality, requests_of, warnings
from .view_text import cell_key, cell_title, decision_of, row_of, state_text, title_facts
from .view_types import ArmView, CellView, Row, Timeline, View

if TYPE_CHECKING:
    from .pairs import Grid

__all__ = ["Material", "View", "build_view"]


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a report shows beside the verdict; all of it may be missing.

    samples: telemetry by Block.id. command: how the run was started. run_path: where it is saved. one_clock: False
    where blocks come from several runs, whose stamps have nothing in common.
    """

    blocks: Sequence[BlockData] = ()
    starts: Sequence[Start] = ()
    samples: Mapping[int, Sequence[Sample]] = field(default_factory=dict)
    environment: Environment | None = None
    command: str | None = None
    run_path: str | None = None
    one_clock: bool = True


def build_view(
    result: Result, experiment: Experiment, material: Material | None = None, *, redact: bool = False
) -> View:
    """The view of a run. Without blocks it has no charts; all tables follow from the result alone.

    redact: leaves out prompts and outputs, names of their files, hosts of URLs, and all of a path but its file name.
    """
    raw = material or Material()
    clean = Cleaner(redact=redact, names=private_names(experiment) if redact else ())
    names = (result.base, *result.candidates)
    arms = tuple(_arm(experiment, name, index, clean) for index, name in enumerate(names))
    charted = [b for b in raw.blocks if b.block.variant in names and b.block.kind != "probe"]
    return View(
        name=clean(result.name, 80),
        run=clean(result.run.rstrip("/").rsplit("/", 1)[-1], 120),
        base=arms[0].name,
        candidates=tuple(arm.name for arm in arms[1:]),
        arms=arms,
        facts=title_facts(result, experiment, arms, raw.starts, charted),
        state=result.state,
        state_text=state_text(result),
        stop_reason=clean(result.stop_reason) if result.stop_reason else None,
        rounds=result.rounds,
        confidence=experiment.confidence,
        margin=experiment.margin,
        decision=decision_of(result.decision, clean),
        cells=_cells(result, experiment, charted, clean),
        resources=_in_order([row_of(c, clean) for c in result.resources]),
        quality=quality(result, clean),
        findings=findings(result, experiment, clean),
        warnings=warnings(result, experiment, clean),
        timeline=_timeline(charted, raw.samples, clean) if raw.one_clock else Timeline(),
        environment=environment_of(experiment, raw.environment, names, clean),
        machine=machine_of(raw.environment, clean),
        outputs=() if redact else output_sets(charted, experiment, names, clean),
        errors=errors_of(charted, names, clean),
        requests=requests_of(charted, names, clean),
        method=method_items(result, experiment, clean),
        crossings=crossing_views(result, experiment, clean),
        scores=score_views(result, clean),
        flips=flip_views(result.flips, clean),
        edges=edge_views(result, experiment, clean),
        price=price_view(result, experiment, clean),
        command=clean.block(raw.command, limit=2000) if raw.command else None,
        run_path=clean.path(raw.run_path) if raw.run_path else None,
        redacted=redact,
    )


def _arm(experiment: Experiment, name: str, index: int, clean: Cleaner) -> ArmView:
    variant = next((v for v in experiment.variants if v.name == name), Variant(name=name, engine=""))
    model = variant.settings.get("model")
    # The last part only: a path says where a model lies, the title should say what it is.
    short = str(model).rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf") if model else None
    return ArmView(
        name=clean(name, 60), index=index, engine=clean(variant.engine, 40), model=clean(short, 60) if short else None
    )


def _cells(result: Result, experiment: Experiment, blocks: Sequence[BlockData], clean: Cleaner) -> tuple[CellView, ...]:
    titles = {c.key: cell_title(experiment.workload(c.workload), c, clean) for c in experiment.cells()}
    keys = dict.fromkeys([*titles, *(key for c in result.comparisons if (key := cell_key(c)))])
    grid = _grid(experiment, blocks)
    measured = {b.block.cell for b in blocks}
    thinking = [found.output for found in first_outputs(result.comparisons)]
    cells = []
    for key in keys:
        mine = [c for c in result.comparisons if cell_key(c) == key]
        rows = _in_order([row_of(c, clean, primary=True if c in thinking else None) for c in mine])
        if rows or key in measured:
            charts = _charts(grid, key, rows, result, clean) if grid else {}
            cells.append(CellView(key=clean(key, 80), title=titles.get(key) or clean(key, 80), rows=rows, **charts))
    return tuple(cells)


def _grid(experiment: Experiment, blocks: Sequence[BlockData]) -> Grid | None:
    if not blocks:
        return None
    from .pairs import Grid  # numpy and scipy: only where there is something to chart

    return Grid(experiment, blocks)


def _charts(grid: Grid, key: str, rows: Sequence[Row], result: Result, clean: Cleaner) -> dict[str, Any]:
    from .view_series import distributions, pair_series

    arms = {name: clean(name, 60) for name in (result.base, *result.candidates)}
    gates = list(dict.fromkeys((row.metric, row.statistic) for row in rows if row.gate and row.metric in METRICS))
    return {
        "distributions": distributions(grid, key, arms),
        "pairs": pair_series(grid, key, arms, gates),
    }


def _timeline(blocks: Sequence[BlockData], samples: Mapping[int, Sequence[Sample]], clean: Cleaner) -> Timeline:
    if not blocks:
        return Timeline()
    from .view_series import timeline

    return timeline(blocks, samples, lambda text: clean(text, 80))


def _in_order(rows: list[Row]) -> tuple[Row, ...]:
    """Gates first, then the rest, both in the order found; all candidates of a metric beside each other."""
    places: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda r: not r.gate):
        places.setdefault((row.metric, row.statistic), len(places))
    return tuple(sorted(rows, key=lambda r: places[(r.metric, r.statistic)])[:ROW_LIMIT])
