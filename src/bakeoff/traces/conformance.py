"""What every trace reader must do, as a suite of assertions that a plugin's author can run in a test.

::

    from bakeoff.traces.conformance import check_reader

    def test_conformance(tmp_path):
        check_reader(READER, [Path("sample.trace")], tmp_path)
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .breakdown import analyse
from .limits import Limits, TraceError
from .opening import TraceStream
from .reading import HEAD_BYTES, Reader
from .timeline import GpuKind, HostKind, Timeline, WaitKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOREIGN = (
    b"",
    b"\0",
    b"{}",
    b"[]",
    b"hello\n",
    b"\xff\xfe\x00",
    b"<html></html>",
    b'{"a": [',
    b"PK\x03\x04",
    b"]" * 9,
)


def _require(condition: object, message: str) -> None:
    """An assertion that also holds under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def check_reader(reader: Reader, samples: Iterable[Path], tmp_path: Path, *, mutations: int = 20) -> None:
    """Checks the seam on sample files of the reader's format; AssertionError says what does not hold.

    Checked: the name; that samples are recognised, foreign content is not, and recognising never raises; that a read
    gives a sound Timeline (see `check_timeline`) which the default analysis can take; that the file is not changed;
    that files cut short or with bytes changed give a Timeline or a TraceError and nothing else.
    """
    _require(reader.name.isidentifier(), f"the name {reader.name!r} is not an identifier")
    for content in _FOREIGN:
        _require(not reader.recognises(content, tmp_path / "foreign"), f"recognises foreign content {content[:20]!r}")
    found = list(samples)
    _require(found, "no sample files were given")
    for sample in found:
        before = sample.read_bytes()
        head = _head(sample)
        _require(reader.recognises(head, sample), f"does not recognise {sample.name}")
        timeline = reader.read(sample, Limits())
        _require(timeline.format == reader.name, f"format is {timeline.format!r}, not the reader's name")
        check_timeline(timeline)
        json.dumps(analyse(timeline).to_json(), allow_nan=False)
        _require(sample.read_bytes() == before, f"reading changed {sample.name}")
        _check_damage(reader, sample, before, tmp_path, mutations)


def check_timeline(timeline: Timeline) -> None:
    """A Timeline keeps its promises: columns of equal length and of the right type, sorted, in bounds."""
    for label, table in (("gpu", timeline.gpu), ("host", timeline.host), ("waits", timeline.waits)):
        columns = vars(table)
        lengths = {len(column) for column in columns.values()}
        _require(len(lengths) == 1, f"{label}: columns of different lengths {lengths}")
        for name, column in columns.items():
            _require(column.dtype.kind == "i", f"{label}.{name} holds {column.dtype}, not whole numbers")
        _require(table.start.dtype == np.int64, f"{label}.start is not int64 ns")
        _require((np.diff(table.start) >= 0).all(), f"{label} is not sorted by start")
        _require((table.end >= table.start).all(), f"{label}: an event ends before it starts")
    gpu, host = timeline.gpu, timeline.host
    _in_bounds("gpu.name", gpu.name, len(timeline.names), lowest=0)
    _in_bounds("host.name", host.name, len(timeline.names), lowest=0)
    _in_bounds("host.thread", host.thread, len(timeline.threads), lowest=0)
    _in_bounds("host.detail", host.detail, len(timeline.details), lowest=-1)
    _in_bounds("gpu.launch", gpu.launch, len(host), lowest=-1)
    _in_bounds("gpu.op", gpu.op, len(host), lowest=-1)
    for label, kinds, kind in (
        ("gpu", gpu.kind, GpuKind),
        ("host", host.kind, HostKind),
        ("waits", timeline.waits.kind, WaitKind),
    ):
        _in_bounds(f"{label}.kind", kinds, len(kind), lowest=0)
    linked = gpu.launch >= 0
    called = gpu.launch[linked]
    _require(np.isin(host.kind[called], (HostKind.RUNTIME, HostKind.DRIVER)).all(), "a launch is no runtime call")
    _require((host.correlation[called] == gpu.correlation[linked]).all(), "a launch has another correlation")
    steps = timeline.steps
    _require((steps.end >= steps.start).all(), "a step ends before it starts")
    _require((steps.start[1:] >= steps.end[:-1]).all(), "steps overlap")
    _require(all(isinstance(name, str) for name in timeline.names), "a name is no text")
    _require(all(count > 0 for count in timeline.losses.values()), "a loss is counted as nothing")


def _in_bounds(label: str, column: NDArray[np.signedinteger[Any]], size: int, *, lowest: int) -> None:
    if len(column):
        _require(int(column.min()) >= lowest, f"{label} has {column.min()}, below {lowest}")
        _require(int(column.max()) < size, f"{label} has {column.max()}, but there are {size}")


def _head(path: Path) -> bytes:
    head = b""
    with TraceStream(path, Limits()) as stream:
        for piece in stream:
            head += piece
            if len(head) >= HEAD_BYTES:
                break
    return head[:HEAD_BYTES]


def _check_damage(reader: Reader, sample: Path, content: bytes, tmp_path: Path, mutations: int) -> None:
    """Cut short, bytes flipped, bytes left out: a Timeline or a TraceError."""
    source = random.Random(len(content))
    target = tmp_path / f"damaged-{sample.name}"
    for number in range(mutations):
        damaged = bytearray(content)
        if number % 3 == 0:
            del damaged[source.randrange(len(damaged)) :]
        elif number % 3 == 1:
            for _ in range(8):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
        else:
            at = source.randrange(len(damaged))
            del damaged[at : at + source.randrange(1, 200)]
        target.write_bytes(bytes(damaged))
        try:
            reader.recognises(_head(target), target)
            timeline = reader.read(target, Limits())
        except TraceError:
            continue
        check_timeline(timeline)
    target.unlink(missing_ok=True)
