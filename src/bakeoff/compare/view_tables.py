"""The tables of a report beside the measurements: quality, findings, warnings, environment, requests and errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ..metrics import METRICS
from ..model import BlockData, Caution, Environment, Experiment, Finding, Interval, Result
from .view_redact import Cleaner
from .view_text import cell_title, load_words
from .view_types import EnvironmentRow, ErrorCount, FindingView, QualityView, Tone, WarningView

ROW_LIMIT = 200
_NUMBER = re.compile(r"\d[\d.,]*")
_NAMED_CELLS = 4


def quality(result: Result, clean: Cleaner) -> tuple[QualityView, ...]:
    """Notes that say the same of several candidates become one."""
    tones: dict[str, Tone] = {"ok": "good", "garbage": "bad"}
    notes: dict[tuple[str, str], list[str]] = {}
    for note in result.quality:
        notes.setdefault((note.status, clean(note.reason)), []).append(clean(note.candidate, 60))
    return tuple(
        QualityView(candidates=tuple(who), status=status, text=reason, tone=tones.get(status, "unsure"))
        for (status, reason), who in notes.items()
    )


def findings(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[FindingView, ...]:
    """Causes, each gap closed by what is left unexplained."""
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
        # An exact split leaves nothing unexplained: what is not the cause named is told as evidence.
        if any(f.status == "measured" for f in findings):
            continue
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
        load = ", ".join(load_words(kind, level) for kind, level in finding.load.items())
        parts.append(f"{clean(finding.workload, 40)}{', ' + load if load else ''}")
    return " · ".join(parts)


def warnings(result: Result, experiment: Experiment, clean: Cleaner) -> tuple[WarningView, ...]:
    """Invalidities first. What is said alike of several cells is said once, with the numbers of the first."""
    order = {"invalid": 0, "warning": 1, "note": 2}
    groups: dict[tuple[object, ...], list[Caution]] = {}
    for caution in sorted(result.warnings, key=lambda w: order[w.severity]):
        alike = (
            caution.severity,
            caution.code,
            caution.variant,
            caution.metrics,
            _plain(caution),
            caution.cell is None,
        )
        groups.setdefault(alike, []).append(caution)
    views = []
    for group in groups.values():
        caution = group[0]
        where = [clean(caution.variant, 60)] if caution.variant else []
        where += _cells_of(group, experiment, clean)
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


def _plain(caution: Caution) -> str:
    """What two cautions have in common where only their numbers differ."""
    return _NUMBER.sub("#", f"{caution.message}\n{caution.remedy}")


def _cells_of(group: Sequence[Caution], experiment: Experiment, clean: Cleaner) -> list[str]:
    cells = {cell.key: cell for cell in experiment.cells()}
    keys = list(dict.fromkeys(caution.cell for caution in group if caution.cell is not None))
    if not keys or len(cells) == 1:
        return []
    if len(keys) == 1:
        cell = cells.get(keys[0])
        return [cell_title(experiment.workload(cell.workload), cell, clean) if cell else clean(keys[0], 80)]
    names = ", ".join(clean(key, 80) for key in keys[:_NAMED_CELLS])
    more = f" and {len(keys) - _NAMED_CELLS} more" if len(keys) > _NAMED_CELLS else ""
    return ["all cells" if len(keys) == len(cells) else f"{len(keys)} of {len(cells)} cells ({names}{more})"]


def environment_of(
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


def machine_of(environment: Environment | None, clean: Cleaner) -> tuple[tuple[str, str], ...]:
    """The machine's fingerprint."""
    items = list(environment.machine.items())[:ROW_LIMIT] if environment else []
    return tuple((clean(key, 60), clean.setting(key, value)) for key, value in items)


def requests_of(blocks: Sequence[BlockData], names: Sequence[str], clean: Cleaner) -> tuple[tuple[str, int], ...]:
    """Requests sent, by arm."""
    sent = Counter[str]()
    for b in blocks:
        sent[b.block.variant] += len(b)
    return tuple((clean(name, 60), sent[name]) for name in names)


def errors_of(blocks: Sequence[BlockData], names: Sequence[str], clean: Cleaner) -> tuple[ErrorCount, ...]:
    """Failed requests by arm and kind."""
    sent, kinds = Counter[str](), Counter[tuple[str, str]]()
    for b in blocks:
        sent[b.block.variant] += len(b)
        kinds.update((b.block.variant, str(error)) for error in b.columns["error"] if error)
    return tuple(
        ErrorCount(arm=clean(arm, 60), kind=clean(kind, 40), count=count, requests=sent[arm])
        for (arm, kind), count in sorted(kinds.items(), key=lambda item: (names.index(item[0][0]), -item[1]))
    )
