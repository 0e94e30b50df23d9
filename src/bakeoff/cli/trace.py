"""`bakeoff trace FILE`, `bakeoff trace BASE CANDIDATE`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import wants_color

if TYPE_CHECKING:
    from ..traces import Timeline

_FILE = click.Path(path_type=Path)


@click.command("trace")
@click.argument("file", type=_FILE)
@click.argument("candidate", required=False, type=_FILE)
@click.option("--base-repeat", multiple=True, type=_FILE, metavar="FILE", help="One more trace of the base.")
@click.option("--candidate-repeat", multiple=True, type=_FILE, metavar="FILE", help="One more trace of the candidate.")
@click.option(
    "--tokens", nargs=2, type=float, metavar="BASE CANDIDATE", help="Output tokens of one trace of each side."
)
@click.option("--format", "reader", metavar="NAME", help="Read as this format, without recognising it.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.option("--html", "html", type=_FILE, metavar="PAGE", help="Write one self-contained page to this file.")
@click.option("--full", is_flag=True, help="Say what each number counted; show every row.")
def command(
    file: Path,
    candidate: Path | None,
    *,
    base_repeat: tuple[Path, ...],
    candidate_repeat: tuple[Path, ...],
    tokens: tuple[float, float] | None,
    reader: str | None,
    as_json: bool,
    html: Path | None,
    full: bool,
) -> int:
    """Where the time of a profile went: busy, idle by cause, kernels, launches, the host.

    FILE is a profile of PyTorch (Kineto JSON, plain or gzip), Nsight Systems (SQLite), ONNX Runtime, rocprofv3 (JSON)
    or a TORCH_TRACE log; which one is told by its content.

    With a CANDIDATE, FILE is the base, and the gap between the two is split into rows that add up to it. Repeats give
    a noise band; --tokens compares per output token.
    """
    page = _Page(as_json=as_json, html=html, full=full)
    if candidate is None:
        _refuse_pair_options(base_repeat, candidate_repeat, tokens)
        page.one(_read(file, reader))
    else:
        base = [_read(path, reader) for path in (file, *base_repeat)]
        other = [_read(path, reader) for path in (candidate, *candidate_repeat)]
        page.two(base, other, tokens)
    return 0


def _refuse_pair_options(base: tuple[Path, ...], candidate: tuple[Path, ...], tokens: Any) -> None:
    from ..errors import UsageError

    if base or candidate or tokens:
        raise UsageError(
            "repeats and tokens belong to a comparison", remedy="name the candidate: bakeoff trace BASE CANDIDATE"
        )


def _read(path: Path, reader: str | None) -> Timeline:
    from ..traces import read

    return read(path, format=reader)


class _Page:
    """Where the answer goes: stdout as text or JSON, and a page on disk."""

    def __init__(self, *, as_json: bool, html: Path | None, full: bool) -> None:
        self._as_json = as_json
        self._html = html
        self._full = full

    def one(self, timeline: Timeline) -> None:
        """One trace's report."""
        from ..report.trace_terminal import render_trace
        from ..traces import analyse

        report = analyse(timeline)
        if self._html is not None:
            from ..report.trace_html import render_trace_html

            self._write(render_trace_html(report))
        self._say(
            report.to_json(), lambda width: render_trace(report, color=wants_color(), width=width, full=self._full)
        )

    def two(self, base: list[Timeline], candidate: list[Timeline], tokens: tuple[float, float] | None) -> None:
        """The gap between two sides."""
        from ..report.trace_diff_terminal import render_trace_diff
        from ..traces.diff import as_json, diff

        found = diff(base, candidate, tokens=tokens)
        if self._html is not None:
            from ..report.trace_diff_html import render_trace_diff_html

            self._write(render_trace_diff_html(found))
        self._say(
            as_json(found), lambda width: render_trace_diff(found, color=wants_color(), width=width, full=self._full)
        )

    def _say(self, numbers: dict[str, Any], text: Callable[[int], str]) -> None:
        if self._as_json:
            click.echo(json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False))
        elif self._html is not None:
            click.echo(self._html)
        else:
            click.echo(text(min(shutil.get_terminal_size((100, 24)).columns, 120)), nl=False)

    def _write(self, text: str) -> None:
        from ..errors import UsageError

        assert self._html is not None  # noqa: S101 - asked for by the callers
        try:
            self._html.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot write ({error.strerror})", where=str(self._html), remedy="name a file you can write to"
            ) from error
