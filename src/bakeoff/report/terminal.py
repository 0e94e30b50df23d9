"""The terminal verdict: aligned columns, the decision, why, fix, warnings, and where everything is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..compare.view_types import Row, View
from .figures import STATUS_TEXT, crossing_lines, edge_lines, fixes, grouped_notes, pair_values, share, summary_text
from .lines import columns, fit, wrap
from .price_text import break_even_lines, resource_lines, task_lines
from .quality_text import score_lines
from .terminal_table import table_lines

_CODES = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "unsure": "33", "invalid": "35", "equal": "36"}
_REASONS = 8  # behind a decision, in the short form
_NARROWEST = 40  # columns: below, figures would have to be cut
_NOTES = 2  # notes in the short form; warnings and invalidities are always told


def render_terminal(view: View, *, color: bool, width: int = 100, full: bool = False) -> str:
    """The verdict as text of at most `width` columns (40 at least) where its figures allow it; ends with a line end.

    color: with ANSI codes; sign and word say the same without. full: also the rows that are exploration only.
    """
    page = _Page(view=view, color=color, width=max(_NARROWEST, width), full=full)
    scores = "\n".join(score_lines(view, page.width, page.paint, full=full))
    tasks = "\n".join(task_lines(view, page.width, page.paint, full=full))
    resources = "\n".join(resource_lines(view, page.width, page.paint)) if full else ""
    parts = [page.title(), *page.tables(), scores, tasks, resources, page.decision(), page.tail()]
    return "\n\n".join(part for part in parts if part) + "\n"


@dataclass(frozen=True)
class _Page:
    view: View
    color: bool
    width: int
    full: bool

    def paint(self, text: str, *styles: str) -> str:
        """The text in a style, where colour is wanted."""
        codes = ";".join(_CODES[s] for s in styles)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and codes and text else text

    def title(self) -> str:
        view = self.view
        head = f"{fit(view.base, 40)} → {', '.join(fit(c, 40) for c in view.candidates)}"
        facts = " · ".join(view.facts)
        if columns(head) + 4 + columns(facts) <= self.width:
            lines = [f"{self.paint(head, 'bold')}    {facts}"]
        else:
            lines = [self.paint(head, "bold"), *wrap(facts, self.width)]
        if view.state_text:
            lines += [self.paint(line, "unsure") for line in wrap(f"! {view.state_text}", self.width)]
        return "\n".join(lines)

    def tables(self) -> list[str]:
        """One table a cell, then what holds per start; all share their columns' widths."""
        view = self.view
        joined = len(view.cells) == 1
        sections = [(cell.title, (*cell.rows, *(view.resources if joined else ()))) for cell in view.cells]
        if view.resources and not joined:
            sections.append(("Resources, per start", view.resources))
        shown = [self.shown(rows) for _, rows in sections]
        tables, indent = table_lines(view, shown, self.width, self.paint)
        blocks = [
            self.table(title, rows, lines) for (title, _), rows, lines in zip(sections, shown, tables, strict=True)
        ]
        quality = self.quality(indent)
        if quality and (joined or view.resources):
            blocks[-1] += f"\n{quality}"
        elif quality:
            blocks.append(quality)
        return blocks

    def shown(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if self.full or row.primary]

    def table(self, title: str, shown: Sequence[Row], table: Sequence[str]) -> str:
        if not shown:
            return "\n".join([self.paint(title, "bold"), self.paint("  nothing measured here yet", "dim")])
        lines = [self.paint(line, "bold") for line in wrap(title, self.width, indent=2)] + [*table]
        # What only came along needs no excuse for being undecided; a gate does, and so does whatever is invalid or
        # seems to contradict itself.
        told = [row for row in shown if row.gate or self.full or row.tone == "invalid" or row.contradicts]
        for about, note in grouped_notes(told, several=len(self.view.candidates) > 1):
            lines += [self.paint(line, "dim") for line in wrap(f"  {about}: {note}", self.width, indent=4)]
        return "\n".join(lines)

    def quality(self, indent: int) -> str:
        lines = []
        for note in self.view.quality:
            several = len(self.view.candidates) > 1 and len(note.candidates) < len(self.view.candidates)
            who = f"{', '.join(note.candidates)}: " if several else ""
            said = f"{note.status}: {note.text}" if note.text else note.status
            sign = {"good": "✓ ", "bad": "✗ "}.get(note.tone, "")
            text = wrap(f"{'Quality':<{indent}}{who}{sign}{said}", self.width, indent=indent)
            lines += [self.paint(line, note.tone) if note.tone in ("good", "bad") else line for line in text]
        return "\n".join(lines)

    def decision(self) -> str:
        decision = self.view.decision
        lines = [self.paint(line, "bold") for line in wrap(decision.headline, self.width)]
        extra = [*(decision.conditions if decision.ship is None else ()), *decision.reasons]
        shown = extra if self.full else extra[:_REASONS]
        for text in shown:
            lines += wrap(f"  {text}", self.width, indent=4)
        if len(extra) > len(shown):
            lines.append(f"  and {len(extra) - len(shown)} more: see the report, or --full")
        return "\n".join(lines)

    def tail(self) -> str:
        head = [*self._load(), *self._cross(), *self._even(), *self._pairs()]
        return "\n".join([*head, *self._why(), *self._fix(), *self._warn(), *self._saved()])

    def _load(self) -> list[str]:
        lines: list[str] = []
        for text in edge_lines(self.view.edges):
            lines += self._labelled("" if lines else "Load", text)
        return lines

    def _cross(self) -> list[str]:
        lines: list[str] = []
        for text in crossing_lines(self.view.crossings, full=self.full):
            lines += self._labelled("" if lines else "Cross", text)
        return lines

    def _even(self) -> list[str]:
        lines: list[str] = []
        for text in break_even_lines(self.view, full=self.full):
            lines += self._labelled("" if lines else "Even", text)
        return lines

    def _pairs(self) -> list[str]:
        """The data behind the gates, pair by pair in order of time: in the full form only."""
        lines: list[str] = []
        for cell in self.view.cells if self.full else ():
            for series in cell.pairs:
                for summary in series.summaries:
                    place = f"{cell.title}: " if len(self.view.cells) > 1 else ""
                    head = f"{place}{series.label} of {summary.arm}, {summary_text(summary)}"
                    lines += self._labelled("" if lines else "Pairs", head)
                    values = "  ".join(pair_values(series, summary))
                    lines += [self.paint(line, "dim") for line in self._labelled("", values)]
        return lines

    def _why(self) -> list[str]:
        lines: list[str] = []
        previous = None
        several = len(self.view.candidates) > 1
        for finding in self.view.findings:
            gap = " · ".join(([finding.candidate] if several else []) + ([finding.where] if finding.where else []))
            head = "" if gap == previous else gap
            previous = gap
            part, span = share(finding.share)
            text = "  ".join(p for p in (f"{part:>5}" if part else "", span, finding.title) if p)
            status = STATUS_TEXT.get(finding.status, finding.status)
            if head:
                lines += self._labelled("" if lines else "Why", head)
            lines += self._labelled("" if lines else "Why", f"{text}{'   ' + status if status else ''}")
            if finding.status == "confirmed":
                lines += [self.paint(line, "dim") for e in finding.evidence for line in self._labelled("", e)]
        return lines

    def _fix(self) -> list[str]:
        lines: list[str] = []
        for fix in fixes(self.view.findings):
            lines += self._labelled("" if lines else "Fix", fix)
        return lines

    def _warn(self) -> list[str]:
        lines: list[str] = []
        names = {"invalid": ("Invalid", "invalid"), "warning": ("Warn", "unsure"), "note": ("Note", "dim")}
        notes = 0
        for warning in self.view.warnings:
            label, style = names[warning.severity]
            brief = warning.severity == "note" and not self.full
            notes += brief
            if brief and notes > _NOTES:
                continue
            where = f"{warning.where}: " if warning.where else ""
            lines += self._labelled(label, f"{where}{warning.message}", style)
            if warning.remedy and not brief:
                lines += self._labelled("", f"→ {warning.remedy}")
        if notes > _NOTES:
            more = notes - _NOTES
            lines += self._labelled("", f"and {more} more note{'s' if more > 1 else ''}: see the report, or --full")
        return lines

    def _saved(self) -> list[str]:
        path = self.view.run_path
        stopped = self._labelled("Stopped", self.view.stop_reason) if self.view.stop_reason else []
        if not path:
            return stopped
        report = f"report: {path.rstrip('/')}/report.html"
        if 9 + columns(path) + 3 + columns(report) <= self.width:
            return [*stopped, *self._labelled("Saved", f"{path}   {report}")]
        return [*stopped, *self._labelled("Saved", path), *self._labelled("", report)]

    def _labelled(self, label: str, text: str, style: str = "bold") -> list[str]:
        lines = wrap(" " * 9 + text, self.width, indent=9)
        return [self.paint(label, style) + " " * (9 - len(label)) + lines[0][9:], *lines[1:]]
