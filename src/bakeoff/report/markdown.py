"""The verdict as Markdown, for a pull request. Untrusted names cannot start markup, links or mentions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..compare.view_types import Row, View
from ..units import change, quantity
from .figures import (
    STATUS_TEXT,
    crossing_lines,
    edge_lines,
    fixes,
    grouped_notes,
    interval,
    level,
    pair_values,
    share,
    summary_text,
)
from .price_text import price_markdown
from .quality_text import score_markdown

_SPECIAL = re.compile(r"([\\`*_\[\]#|~$>])")
_WORD_JOINER = "\u2060"


def render_markdown(view: View) -> str:
    """Tables for a pull request; ends with a line end."""
    heads = [f"### {_escape(view.base)} → {', '.join(map(_escape, view.candidates))}"]
    if view.state_text:
        heads.append(f"> {_escape(view.state_text)}")
    heads += [f"**{_escape(view.decision.headline)}**", _escape(" · ".join(view.facts))]
    decision = view.decision
    reasons = [*(decision.conditions if decision.ship is None else ()), *decision.reasons]
    parts = [*heads, _bullets(reasons)]
    parts += [_table(view, cell.title, cell.rows) for cell in view.cells]
    if view.resources:
        parts.append(_table(view, "Resources, per start", view.resources))
    parts += [
        score_markdown(view, _escape),
        price_markdown(view, _escape),
        _quality(view),
        _bullets(edge_lines(view.edges)),
        _bullets(crossing_lines(view.crossings, full=False)),
    ]
    parts += [_why(view), _warnings(view)]
    parts.append(_pairs(view))
    if view.run_path:
        parts.append(f"Saved: {_escape(view.run_path)}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(view: View, title: str, rows: Sequence[Row]) -> str:
    shown = [row for row in rows if row.primary]
    several = len(view.candidates) > 1
    heads = ["", *(["candidate"] if several else []), view.base]
    heads += ["value" if several else "".join(view.candidates[:1]), "change", level(view), "verdict"]
    aligns = [":--", *([":--"] if several else []), "--:", "--:", "--:", "--:", ":--"]
    lines = [f"#### {_escape(title)}", "", _line([_escape(h) for h in heads]), _line(aligns)]
    for row in shown:
        verdict = _escape(f"{row.sign} {row.word}")
        cells = [
            _escape(row.label),
            *([_escape(row.candidate)] if several else []),
            quantity(row.base.point, row.unit),
            quantity(row.value.point, row.unit),
            change(row.ratio.point),
            interval(row.ratio),
            f"**{verdict}**" if row.gate else f"{verdict} (explored)",
        ]
        lines.append(_line(cells))
    notes = [f"{about}: {note}" for about, note in grouped_notes(shown, several=several)]
    return "\n".join(lines) + (f"\n\n{_bullets(notes)}" if notes else "")


def _pairs(view: View) -> str:
    """The data behind the gates, folded away: every pair in order of time, and base against base."""
    rows = [
        [f"{series.label} · {cell.title}", summary.arm, " ".join(pair_values(series, summary)), summary_text(summary)]
        for cell in view.cells
        for series in cell.pairs
        for summary in series.summaries
    ]
    if not rows:
        return ""
    head = [_line(["gate", "variant", "change of each pair [%]", "in short"]), _line([":--"] * 4)]
    table = "\n".join([*head, *(_line([_escape(cell) for cell in row]) for row in rows)])
    return f"<details><summary>Pairs in order of time</summary>\n\n{table}\n\n</details>"


def _quality(view: View) -> str:
    several = len(view.candidates) > 1
    return _bullets(
        [
            f"Quality{' of ' + ', '.join(note.candidates) if several else ''}: {note.status}"
            + (f": {note.text}" if note.text else "")
            for note in view.quality
        ]
    )


def _why(view: View) -> str:
    lines = []
    for finding in view.findings:
        status = STATUS_TEXT.get(finding.status, finding.status)
        about = " · ".join(p for p in (finding.candidate, finding.where) if p)
        amount = " ".join(p for p in share(finding.share) if p)
        text = f"{about}: {amount + ' ' if amount else ''}{finding.title}{f' ({status})' if status else ''}"
        lines.append(f"- **Why** {_escape(text)}")
    lines += [f"- **Fix** {_escape(fix)}" for fix in fixes(view.findings)]
    return "\n".join(lines)


def _warnings(view: View) -> str:
    lines = []
    for warning in view.warnings:
        about = f"{warning.where}: " if warning.where else ""
        remedy = f" → {warning.remedy}" if warning.remedy else ""
        lines.append(f"- **{warning.severity.capitalize()}** {_escape(f'{about}{warning.message}{remedy}')}")
    return "\n".join(lines)


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_escape(text)}" for text in texts)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """One line of literal text: no HTML, no markup, no automatic links, mentions or issue references."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    text = _SPECIAL.sub(r"\\\1", text)
    # A word joiner is invisible and breaks what renderers turn into links: https://, www., @name, #1.
    text = text.replace("://", f":{_WORD_JOINER}//").replace("@", f"@{_WORD_JOINER}").replace("#", f"#{_WORD_JOINER}")
    text = re.sub(r"\bwww\.", f"www{_WORD_JOINER}.", text, flags=re.IGNORECASE)
    # A list marker at the start of a line would open a list; a dash inside a line would not.
    return re.sub(r"^([\-=+])", r"\\\1", text)
