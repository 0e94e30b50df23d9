"""`bakeoff trace`: what it prints, its JSON contract, its page, its exit codes, and what it does not import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bakeoff.cli.trace import command
from bakeoff.errors import BakeoffError
from bakeoff.report.trace_html import render_trace_html
from bakeoff.report.trace_terminal import render_trace
from bakeoff.traces import TraceError, analyse, read

from .kineto_files import NCCL, document, gpu, launched, training, write

CONTRACT = {
    "span_ms", "busy_ms", "idle_pct", "idle_ms_by_cause", "kernel_ms_by_category", "unclassified_pct", "overlap_pct",
    "gpu_events", "graph_events", "unlinked_events", "lost_events",
}  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.json", document(training()))


def _run(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def _json(*words: object) -> Any:
    result = _run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_json_contract(trace: Path) -> None:
    numbers = _json(trace)
    assert numbers["schema"] == "bakeoff.trace/1"
    for part in (*numbers["devices"], numbers["total"]):
        assert part.keys() >= CONTRACT
    total = numbers["total"]
    assert total["overlap_pct"] is None
    assert total["gpu_events"] == 15
    assert total["span_ms"] == pytest.approx(total["busy_ms"] + total["idle_ms"])
    assert set(total["idle_ms_by_cause"]) == {"host", "launch", "dependency", "graph", "unknown"}
    assert total["host_idle_ms_by_activity"]["data loading"] > 0
    assert all(section["counted"] for section in numbers["sections"].values())


def test_overlap_is_a_number_with_communication(tmp_path: Path) -> None:
    events = [gpu(1, 100, NCCL, stream=9), *launched(20, 30, 5)]
    numbers = _json(write(tmp_path / "trace.json", document(events)))
    assert numbers["total"]["overlap_pct"] == pytest.approx(30.0)
    assert numbers["total"]["unlinked_events"] == 1


def test_the_text_begins_with_the_device_s_time(trace: Path) -> None:
    result = _run(trace)
    assert result.exit_code == 0
    words = ("span", "busy", "idle", "host", "data loading", "Kernels by category", "Top kernels", "Steps", "Copies")
    places = [result.output.index(word) for word in words]
    assert places[:3] == sorted(places[:3])
    assert "\x1b" not in result.output


@pytest.mark.parametrize("width", [60, 100, 120])
def test_the_text_keeps_to_its_width(trace: Path, width: int) -> None:
    text = render_trace(analyse(read(trace)), color=False, width=width, full=True)
    assert max(map(len, text.splitlines())) <= max(width, 84)


def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody writes to it: opening it would wait for ever
    with pytest.raises(TraceError, match="a pipe, not a file") as refused:
        read(pipe)
    assert refused.value.remedy
    assert refused.value.where == str(pipe)
    for path, what in ((Path(os.devnull), "a device"), (tmp_path, "a folder")):
        with pytest.raises(TraceError, match=what):
            read(path)


def test_one_is_not_several(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", document([gpu(10, 5)]))
    report = analyse(read(path))
    texts = [render_trace(report, color=False, full=True), render_trace_html(report)]
    for text in texts:
        assert "1 GPU event " in text or "1 GPU event<" in text or "1 GPU event;" in text
        assert not re.search(r"(?<![\d,.])1 (GPU |host )?(events|steps|gaps)\b", text)


HOSTILE = "<script>alert(1)</script>\x1b[31m\"'&"


def test_hostile_names_neither_steer_a_terminal_nor_become_markup(tmp_path: Path) -> None:
    events = [*launched(10, 5, 1, HOSTILE), *launched(30, 5, 2, HOSTILE + "elementwise")]
    path = write(tmp_path / "trace<b>.json", document(events))
    report = analyse(read(path))
    assert "\x1b" not in render_trace(report, color=False, width=100)
    page = render_trace_html(report)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "trace<b>" not in page


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "hr", "img", "link", "input", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = _run(trace, "--html", page)
    assert result.exit_code == 0
    assert result.output.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(text)
    assert not tags.open
    assert not tags.found & {"script", "iframe", "object", "link", "img"}
    assert all(link.startswith("#") for link in tags.links)
    assert "svg" in tags.found
    assert "data loading" in text


def test_two_traces_are_split_into_rows_that_add_up(tmp_path: Path, trace: Path) -> None:
    events = training()
    for event in events:
        if event["name"] == "Memcpy DtoH (Device -> Pinned)":
            event["dur"] += 50
    slower = write(tmp_path / "slower.json", document(events))
    numbers = _json(trace, slower)
    assert sum(row["ms"] for row in numbers["rows"]) + numbers["residual_ms"] == pytest.approx(numbers["gap_ms"])
    repeated = _run(trace, slower, "--base-repeat", trace, "--candidate-repeat", slower, "--tokens", 10, 10, "--json")
    assert repeated.exit_code == 0
    page = tmp_path / "diff.html"
    assert _run(trace, slower, "--html", page).exit_code == 0
    assert "<script" not in page.read_text(encoding="utf-8")
    assert _run(trace, slower).output.startswith("trace.json → slower.json")


@pytest.mark.parametrize("content", [b"", b"no trace at all", b'{"schemaVersion": 1, "traceEvents": []}'])
def test_bad_input_is_an_input_error_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    result = _run(path)
    assert isinstance(result.exception, BakeoffError)
    assert result.exception.exit_code == 2
    assert result.exception.remedy


def test_options_of_a_pair_need_a_pair(trace: Path) -> None:
    for words in (["--tokens", 1, 2], ["--base-repeat", trace], ["--candidate-repeat", trace]):
        result = _run(trace, *words)
        assert isinstance(result.exception, BakeoffError)


def test_a_page_that_cannot_be_written_is_told(trace: Path, tmp_path: Path) -> None:
    result = _run(trace, "--html", tmp_path / "nowhere" / "page.html")
    assert isinstance(result.exception, BakeoffError)
    assert "cannot write" in result.exception.message


def test_a_named_format_is_taken_at_its_word(trace: Path) -> None:
    assert _run(trace, "--format", "kineto").exit_code == 0
    assert isinstance(_run(trace, "--format", "nonsense").exception, BakeoffError)


def test_nothing_heavy_is_imported(trace: Path) -> None:
    code = (
        "import sys\nfrom bakeoff.cli.main import main\n"
        "try:\n    main(['trace', sys.argv[1]])\nexcept SystemExit as done:\n    assert not done.code\n"
        "heavy = {'scipy', 'pyarrow', 'pydantic', 'rich', 'vl_convert', 'torch', 'uvloop', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(trace)], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Top kernels" in done.stdout
