"""The view: everything that reports show, built once from a result and the run's raw data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..metrics import METRICS
from ..model import BlockData, Environment, Experiment, Finding, Interval, Result, Sample, Start, Variant
from .view_outputs import output_sets
from .view_redact import Cleaner, hosts_of
from .view_text import (
    cell_key,
    cell_title,
    decision_of,
    method_items,
    row_of,
    state_text,
    title_facts,
)
from .view_types import (
    ArmView,
    CellView,
    EnvironmentRow,
    ErrorCount,
    FindingView,
    QualityView,
    Row,
    Timeline,
    Tone,
    View,
    WarningView,
)

if TYPE_CHECKING:
    from .pairs import Grid

__all__ = ["View", "build_view"]

ROW_LIMIT = 200


def build_view(
    result: Result,
    experiment: Experiment,
    *,
    blocks: Sequence[BlockData] = (),
    starts: Sequence[Start] = (),
    samples: Mapping[int, Sequence[Sample]] | None = None,
    environment: Environment | None = None,
    command: str | None = None,
    run_path: str | None = None,
    redact: bool = False,
) -> View:
    """The view of a run. Without blocks it has no charts; all tables follow from the result alone.

    samples: telemetry by Block.id. command: how the run was started. run_path: where it is saved.
    redact: leaves out prompts and outputs, hosts of URLs, and all of a path but its file name.
    """
    clean = Cleaner(redact=redact, hosts=hosts_of(experiment) if redact else ())
    names = (result.base, *result.candidates)
    arms = tuple(_arm(experiment, name, index, clean) for index, name in enumerate(names))
    charted = [b for b in blocks if b.block.variant in names]
    return View(
        name=clean(result.name, 80),
        run=clean(result.run.rstrip("/").rsplit("/", 1)[-1], 120),
        base=arms[0].name,
        candidates=tuple(arm.name for arm in arms[1:]),
        arms=arms,
        facts=title_facts(result, experiment, arms, starts, charted),
        state=result.state,
        state_text=state_text(result),
        stop_reason=clean(result.stop_reason) if result.stop_reason else None,
        rounds=result.rounds,
        confidence=experiment.confidence,
        margin=experiment.margin,
        decision=decision_of(result.decision, clean),
        cells=_cells(result, experiment, charted, clean),
        resources=_in_order([row_of(c, clean) for c in result.resources]),
        quality=_quality(result, clean),
        findings=_findings(result, experiment, clean),
        warnings=_warnings(result, experiment, clean),
        timeline=_timeline(charted, samples or {}, clean),
        environment=_environment(experiment, environment, names, clean),
        machine=_machine(environment, clean),
        outputs=() if redact else output_sets(charted, experiment, names, clean),
        errors=_errors(charted, names, clean),
        requests=_requests(charted, names, clean),
        method=method_items(result, experiment, clean),
        command=clean.block(command, limit=2000) if command else None,
        run_path=clean.path(run_path) if run_path else None,
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
    cells = []
    for key in keys:
        rows = _in_order([row_of(c, clean) for c in result.comparisons if cell_key(c) == key])
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
    margin = rows[0].margin if rows else grid.experiment.margin
    return {
        "distributions": distributions(grid, key, arms),
        "pairs": pair_series(grid, key, arms, gates, margin),
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


def _quality(result: Result, clean: Cleaner) -> tuple[QualityView, ...]:
    """Notes that say the same of several candidates become one."""
    tones: dict[str, Tone] = {"ok": "good", "garbage": "bad"}
    notes: dict[tuple[str, str], list[str]] = {}
    for note in result.quality:
        notes.setdefault((note.status, clean(note.reason)), []).append(clean(note.candidate, 60))
    return tuple(
        QualityView(candidates=tuple(who), status=status, text=reason, tone=tones.get(status, "unsure"))
        for (status, reason), who in notes.items()
    )


def _findings(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[FindingView, ...]:
    gaps: dict[str, list[Finding]] = {}
    for finding in result.findings:
        gaps.setdefault(f"{finding.candidate}\0{_finding_where(finding, experiment, clean)}", []).append(finding)
    views: list[FindingView] = []
    for key, findings in gaps.items():
        candidate, where = clean(key.split("\0")[0], 60), key.split("\0", 1)[1]
        views.extend(
            FindingView(
                candidate=candidate,
                where=where,
                title=clean(f.title),
                share=f.share,
                status=f.status,
                evidence=tuple(clean(e) for e in f.evidence),
                fix=clean(f.fix) if f.fix else None,
            )
            for f in findings
        )
        shares = [f.share.point for f in findings if f.share and f.share.point is not None and f.status != "refuted"]
        # More than the whole gap (the other changes pull the other way) leaves no remainder to name.
        if shares and (rest := 1 - sum(shares)) >= 0.005:
            views.append(
                FindingView(
                    candidate=candidate,
                    where=where,
                    title="unexplained",
                    share=Interval(point=rest),
                    status="",
                    unexplained=True,
                )
            )
    return tuple(views)


def _metric_name(metric: str) -> str:
    return METRICS[metric].label if metric in METRICS else metric


def _finding_where(finding: Finding, experiment: Experiment, clean: Cleaner) -> str:
    parts = []
    if finding.metric:
        parts.append(_metric_name(finding.metric))
    if finding.workload and len(experiment.cells()) > 1:
        load = ", ".join(
            f"{level:g} {'at a time' if k == 'concurrency' else 'requests/s'}" for k, level in finding.load.items()
        )
        parts.append(f"{clean(finding.workload, 40)}{', ' + load if load else ''}")
    return " · ".join(parts)


def _warnings(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[WarningView, ...]:
    """Invalidities first."""
    order = {"invalid": 0, "warning": 1, "note": 2}
    cells = experiment.cells()
    views = []
    for caution in sorted(result.warnings, key=lambda w: order[w.severity]):
        where = [clean(caution.variant, 60)] if caution.variant else []
        if caution.cell and len(cells) > 1:
            titles = [cell_title(experiment.workload(c.workload), c, clean) for c in cells if c.key == caution.cell]
            where.append(titles[0] if titles else clean(caution.cell, 80))
        if caution.metrics:
            where.append(", ".join(_metric_name(m) for m in caution.metrics))
        views.append(
            WarningView(
                code=clean(caution.code, 60),
                severity=caution.severity,
                message=clean(caution.message),
                remedy=clean(caution.remedy),
                where=" · ".join(where),
            )
        )
    return tuple(views)


def _environment(
    experiment: Experiment, environment: Environment | None, names: Sequence[str], clean: Cleaner
) -> tuple[EnvironmentRow, ...]:
    """Settings and fingerprints by arm; what differs comes first."""
    tables: dict[str, dict[str, str]] = {}
    for name in names:
        variant = next((v for v in experiment.variants if v.name == name), None)
        table = {"engine": variant.engine} if variant else {}
        if variant:
            table |= {key: _text(value) for key, value in variant.settings.items()}
        tables[name] = table | dict((environment.variants if environment else {}).get(name, {}))
    keys = dict.fromkeys(key for table in tables.values() for key in table)
    rows = []
    for key in list(keys)[:ROW_LIMIT]:
        values = [tables[name].get(key) for name in names]
        rows.append(
            EnvironmentRow(
                key=clean(key, 60),
                values=tuple(None if v is None else clean.setting(key, v) for v in values),
                differs=len(set(values)) > 1,
            )
        )
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _machine(environment: Environment | None, clean: Cleaner) -> tuple[tuple[str, str], ...]:
    items = list(environment.machine.items())[:ROW_LIMIT] if environment else []
    return tuple((clean(key, 60), clean.setting(key, value)) for key, value in items)


def _requests(blocks: Sequence[BlockData], names: Sequence[str], clean: Cleaner) -> tuple[tuple[str, int], ...]:
    sent = Counter[str]()
    for b in blocks:
        sent[b.block.variant] += len(b)
    return tuple((clean(name, 60), sent[name]) for name in names)


def _errors(blocks: Sequence[BlockData], names: Sequence[str], clean: Cleaner) -> tuple[ErrorCount, ...]:
    sent, kinds = Counter[str](), Counter[tuple[str, str]]()
    for b in blocks:
        sent[b.block.variant] += len(b)
        kinds.update((b.block.variant, str(error)) for error in b.columns["error"] if error)
    return tuple(
        ErrorCount(arm=clean(arm, 60), kind=clean(kind, 40), count=count, requests=sent[arm])
        for (arm, kind), count in sorted(kinds.items(), key=lambda item: (names.index(item[0][0]), -item[1]))
    )
