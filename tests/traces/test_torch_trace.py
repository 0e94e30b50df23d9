"""TORCH_TRACE logs: compilations, recompilations, graph breaks, the compiler's phases, damage."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bakeoff.report.trace_terminal import render_trace
from bakeoff.traces import TraceError, analyse, read
from bakeoff.traces.limits import Limits

from .damage import CUT, EDITS, damaged, read_or_refused, sound

REAL = Path(__file__).parents[3] / "shared" / "traces" / "compile"


def line(envelope: dict[str, Any], payload: str | None = None, rank: int | None = None) -> str:
    if payload is not None:
        envelope = {**envelope, "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()}
    prefix = "" if rank is None else f"[rank{rank}]:"
    head = f"{prefix}V1206 15:18:21.916000 1500233 torch/_dynamo/utils.py:1045] {json.dumps(envelope)}\n"
    return head + ("".join(f"\t{part}\n" for part in payload.split("\n")) if payload is not None else "")


def ids(frame: int, compile: int) -> dict[str, Any]:
    return {"frame_id": frame, "frame_compile_id": compile, "attempt": 0}


def phase(mark: str, name: str, at_us: float) -> str:
    return line({"chromium_event": {}}, json.dumps({"name": name, "ts": at_us, "ph": mark, "tid": 0}, indent=0))


def metrics(frame: int, compile: int, **more: Any) -> str:
    told = {
        "co_name": "forward",
        "co_filename": "/home/someone/private/nets/model.py",
        "co_firstlineno": 12,
        "restart_reasons": [],
        **more,
    }
    return line({"compilation_metrics": told, **ids(frame, compile)})


def log() -> str:
    broken = (
        'Stack:\n  File "/home/someone/private/serve.py", line 44, in step\nTraceback (most recent call last):\n'
        '  File "/opt/torch/x.py", line 1\ntorch._dynamo.exc.Unsupported: Tensor.item(): data dependent'
    )
    return "".join(
        [
            phase("B", "dynamo", 1_700_000_000_000_000.0),
            line({"dynamo_start": {"stack": []}, **ids(0, 0)}),
            phase("B", "inductor_compile", 1_700_000_000_100_000.5),
            phase("E", "inductor_compile", 1_700_000_000_600_000.5),
            line({"artifact": {"name": "fx_graph_cache_miss", "encoding": "json"}, **ids(0, 0)}, "{}"),
            metrics(0, 0, dynamo_cumulative_compile_time_us=1_500_000),
            phase("E", "dynamo", 1_700_000_001_500_000.0),
            line(
                {"artifact": {"name": "recompile_reasons", "encoding": "json"}, **ids(0, 1)},
                json.dumps(["tensor 'x' size mismatch at index 0. expected 4, actual 5", "other"]),
            ),
            line({"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}, **ids(0, 1)}, broken),
            metrics(0, 1, duration_us=2_000_000, start_time_us=1_700_000_002_000_000, restart_reasons=["item()"]),
            metrics(1, 0, entire_frame_compile_time_s=0.25, fail_type="Unsupported", fail_reason="no"),
            line({"dynamo_start": {"stack": []}, **ids(9, 0)}),
        ]
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_was_compiled_and_why_again(tmp_path: Path) -> None:
    timeline = read(write(tmp_path / "anything.txt", log()))
    assert timeline.format == "torch_trace"
    found = [(c.kind, c.frame, c.seconds, c.reason) for c in timeline.compiles]
    frame = "forward (nets/model.py:12)"
    assert found == [
        ("compile", frame, 1.5, ""),
        (
            "graph break",
            "private/serve.py:44",
            None,
            "torch._dynamo.exc.Unsupported: Tensor.item(): data dependent",
        ),
        ("recompile", frame, 2.0, "tensor 'x' size mismatch at index 0. expected 4, actual 5"),
        ("compile", frame, 0.25, "failed: Unsupported no"),
    ]
    assert timeline.compiles[2].at_ns == 1_700_000_002_000_000_000
    assert timeline.facts == {"graph cache": "1 miss"}
    assert "1 compilation without an end" in timeline.notes[0]
    assert "/home" not in repr(timeline.__dict__)


def test_the_compilers_phases_are_ranges(tmp_path: Path) -> None:
    timeline = read(write(tmp_path / "t.log", log()))
    host = timeline.host
    spans = {timeline.names[n]: int(e - s) for n, s, e in zip(host.name, host.start, host.end, strict=True)}
    assert spans == {"dynamo": 1_500_000_000, "inductor_compile": 500_000_000}


def test_restarts_of_older_logs_are_graph_breaks(tmp_path: Path) -> None:
    text = metrics(3, 0, restart_reasons=["call to print"], dynamo_cumulative_compile_time_us=1)
    kinds = [(c.kind, c.reason) for c in read(write(tmp_path / "t.log", text)).compiles]
    assert kinds == [("compile", ""), ("graph break", "call to print")]


def test_damage_is_counted(tmp_path: Path) -> None:
    text = log().replace('\t"ph": "E",\n', "", 1)  # a line of a payload is gone
    text += "V1206 15:18:21.916000 1 torch/x.py:1] {broken\n\tpayload of it\nno header at all\n"
    timeline = read(write(tmp_path / "t.log", text))
    assert timeline.losses["lost_damaged_payload"] == 1
    assert timeline.losses["lost_broken_json"] == 1
    assert timeline.losses["lost_lines"] == 2
    assert timeline.lost_events == 4
    told = render_trace(analyse(timeline), color=False, width=200)
    assert "could not be read: 1 payload (its checksum does not fit)" in told
    assert "could not be read: 2 lines (belonging to no record)" in told


def test_a_log_has_the_compilers_phases_and_no_host_to_set_beside_them(tmp_path: Path) -> None:
    report = analyse(read(write(tmp_path / "t.log", log())))
    assert [section.name for section in report.sections] == ["compiling", "phases"]
    found = report.section("phases")
    assert found is not None
    assert found.rows == (("dynamo", 1, 1500.0), ("inductor_compile", 1, 500.0))


def test_the_rank_of_a_log(tmp_path: Path) -> None:
    text = line({"str": ["a.py", 0]}, rank=3) + line({"dynamo_start": {}, **ids(0, 0)}, rank=3)
    assert read(write(tmp_path / "t.log", text)).rank == 3


def test_too_many_records(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="more than 2"):
        read(write(tmp_path / "t.log", log()), limits=Limits(events=2))


def test_another_log_is_not_taken_for_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="known format"):
        read(write(tmp_path / "t.log", "V1206 15:18:21.916000 1500233 server.cc:10] started\n" * 5))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, cut=CUT)
def test_mutated_logs_never_crash(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    path = tmp_path / "mutated"
    path.write_bytes(damaged(log().encode(), edits, cut))
    assert sound(read_or_refused(path, "torch_trace"))


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not here")
@pytest.mark.parametrize(
    ("file", "compiled", "seconds", "damaged"),
    [("cache", 6, 8.297, 0), ("simple", 1, 1.659, 0), ("corrupted", 1, 1.659, 1)],
)
def test_real_logs(file: str, compiled: int, seconds: float, damaged: int) -> None:
    timeline = read(REAL / f"torch_trace_{file}.log")
    assert len(timeline.compiles) == compiled
    assert sum(c.seconds or 0 for c in timeline.compiles) == pytest.approx(seconds, abs=1e-3)
    assert timeline.lost_events == damaged
