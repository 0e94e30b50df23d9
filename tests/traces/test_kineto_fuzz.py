"""Hostile Kineto files: any bytes give a Timeline or a refusal, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
import math
import resource
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.traces import Limits, TraceError, analyse, read
from bakeoff.traces.conformance import check_reader, check_timeline
from bakeoff.traces.json_repair import repaired
from bakeoff.traces.kineto import READER
from bakeoff.traces.reading import reader_names

from .damage import CUT, EDITS, damaged, read_or_refused
from .kineto_files import call, document, gpu, launched, op, training, write

SOUND = document(
    [*training(), op(1_000_500, 5, "aten::{a}, {b}"), call(1, 1, 900, "cudaGraphLaunch"), gpu(5, 1, correlation=900)],
    distributedInfo={"rank": 0, "world_size": 2},
).encode()
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FRAGMENTS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"},{", b"}]", b'}],"a":[{', b"N/A", b"1e999", b"-", b"\x00", b"\xff",
    b'"ts":', b"null", b"99999999999999999999999", b'{"args":', b"\n", b":",
)  # fmt: skip


def _answered(path: Path) -> None:
    timeline = read_or_refused(path, "kineto")
    if timeline is None:
        return
    check_timeline(timeline)
    if len(timeline.gpu) or len(timeline.host):
        json.dumps(analyse(timeline).to_json(), allow_nan=False)


@MANY
@given(EDITS, CUT)
def test_changed_bytes(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(damaged(SOUND, edits, cut))
    _answered(path)


@MANY
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(FRAGMENTS)), max_size=12))
def test_inserted_syntax(tmp_path: Path, inserted: list[tuple[float, bytes]]) -> None:
    data = SOUND
    for place, fragment in inserted:
        at = int(place * len(data))
        data = data[:at] + fragment + data[at:]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    _answered(path)


@MANY
@given(EDITS, CUT)
def test_changed_gzip(tmp_path: Path, edits: list[tuple[float, int]], cut: float) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(damaged(gzip.compress(SOUND, mtime=0), edits, cut, keep=2))
    _answered(path)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(("stream 7", "0x10", "nan")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(
    st.sampled_from(("correlation", "stream", "device", "External id", "external id", "bytes", "Input Dims",
                     "Input type", "graph id", "cuda_sync_kind", "name")),
    VALUES,
    max_size=5,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(("X", "X", "X", "i", "M", "s", "f")) | VALUES,
        "cat": st.sampled_from(("kernel", "gpu_memcpy", "cuda_runtime", "cpu_op", "cuda_sync", "ac2g", "Kernel"))
        | VALUES,
        "name": st.sampled_from(("k", "ProfilerStep#1", "cudaGraphLaunch", "thread_name")) | VALUES,
        "pid": VALUES,
        "tid": VALUES,
        "ts": st.integers(-5, 10**17) | st.floats() | VALUES,
        "dur": st.integers(-5, 10**6) | st.floats() | VALUES,
        "args": ARGS | VALUES,
        "id": VALUES,
    },
)


@MANY
@given(st.lists(EVENTS, max_size=8), st.dictionaries(st.sampled_from(("deviceProperties", "distributedInfo",
       "baseTimeNanoseconds", "schemaVersion", "cupti_version")), VALUES, max_size=3))  # fmt: skip
def test_values_of_any_type(tmp_path: Path, events: list[Any], around: dict[str, Any]) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [], **around, "traceEvents": events}), encoding="utf-8")
    _answered(path)


@given(st.binary(max_size=400))
def test_mending_never_fails_and_settles(text: bytes) -> None:
    once = repaired(text)
    once.decode()
    assert not any(byte < 32 for byte in once)


@given(st.recursive(SCALARS.filter(lambda v: not isinstance(v, float) or math.isfinite(v)), st.lists, max_leaves=8))
def test_mending_leaves_sound_json_as_it_is(value: Any) -> None:
    text = json.dumps({"a": value}).encode()
    assert json.loads(repaired(text)) == json.loads(text)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts in kB on Linux only")
def test_bombs_cost_little_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    opening = b'{"schemaVersion": 1, "traceEvents": [' + document(training())[:0].encode()
    bombs = {
        "text": opening + b'{"ph": "X", "name": "' + b"a" * (40 << 20),
        "spaces": opening + b" " * (40 << 20),
        "brackets": opening + b"[" * (40 << 20),
        "metadata": b'{"schemaVersion": "' + b"a" * (90 << 20),
    }
    for name, content in bombs.items():
        path = tmp_path / f"{name}.json.gz"
        path.write_bytes(gzip.compress(content, 1, mtime=0))
        with pytest.raises(TraceError):
            read(path, limits=Limits(ratio=100_000))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 700  # MB, with the bombs themselves (90 MB) and their copies made here


def test_the_reader_conforms(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.json", SOUND.decode())
    packed = write(tmp_path / "packed.json.gz", SOUND.decode(), packed=True)
    bare = write(tmp_path / "bare.json", json.dumps([*training(), *launched(5, 1, 1)]))
    check_reader(READER, [plain, packed, bare], tmp_path)


def test_the_conformance_suite_finds_a_bad_reader(tmp_path: Path) -> None:
    class Careless:
        name = "careless"

        def recognises(self, head: bytes, path: Path) -> bool:
            return True

        read = READER.read

    with pytest.raises(AssertionError, match="recognises foreign content"):
        check_reader(Careless(), [write(tmp_path / "plain.json", SOUND.decode())], tmp_path)


def test_the_general_reader_is_asked_last() -> None:
    assert reader_names()[-1] == "kineto"
    assert len(set(reader_names())) == len(reader_names())
