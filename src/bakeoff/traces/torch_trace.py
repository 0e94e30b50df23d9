"""``TORCH_TRACE`` logs of torch.compile: compilations, recompilations with the guard that failed, graph breaks.

A log is text: a header line of the logger with a JSON envelope, then, indented by a tab, the payload that the envelope
announces with its MD5. Payloads that do not fit their checksum are damaged and counted. Of the paths in it only the
last two parts are kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .assemble import assemble
from .limits import Limits, TraceError
from .opening import TraceStream
from .torch_compiles import Compiles

if TYPE_CHECKING:
    from .timeline import Timeline

_HEADER = re.compile(
    rb"^(?:\[rank(?P<rank>\d{1,6})\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{3,9} "
    rb"(?P<pid>\d+) \S+:\d+\] ?(?P<json>\{.*)$",
    re.DOTALL,
)
_KNOWN = re.compile(
    rb'\{"(?:str|chromium_event|dynamo_start|compilation_metrics|artifact|dynamo_output_graph|describe_\w+'
    rb'|bwd_compilation_metrics|torch_version|compile_stack|inductor_\w+|aot_\w+|dump_file|link|stack)"'
)
_ENVELOPE = msgspec.json.Decoder(dict[str, Any])
_LONGEST_LINE = 8 << 20


class Record(NamedTuple):
    """One log record. `payload` is None when there is none, or it is damaged."""

    envelope: dict[str, Any]
    payload: bytes | None
    process: int
    rank: int | None


class TorchTraceReader:
    """Reads one ``dedicated_log_torch_trace_*.log``."""

    name = "torch_trace"

    def recognises(self, head: bytes, path: Path) -> bool:
        lines = (_HEADER.match(line) for line in head[:65536].split(b"\n")[:50])
        return any(match is not None and _KNOWN.match(match["json"]) for match in lines)

    def read(self, path: Path, limits: Limits) -> Timeline:
        """Raises TraceError when the log holds no record of the compiler."""
        losses: dict[str, int] = {}
        compiles = Compiles(limits, losses)
        rank: int | None = None
        count = 0
        for record in _records(path, limits, losses):
            count += 1
            rank = record.rank if record.rank is not None else rank
            compiles.add(record.envelope, record.payload, record.process)
            if count > limits.events:
                raise TraceError(
                    f"the log holds more than {limits.events} records", where=str(path), remedy="trace a shorter run"
                )
        if not count:
            raise TraceError(
                "this log holds no readable record of torch.compile",
                where=str(path),
                remedy="record it with TORCH_TRACE=FOLDER, and keep the file as it is written",
            )
        return assemble(
            format="torch_trace",
            version=compiles.version,
            source=path.name,
            names=compiles.names(),
            gpu={},
            host=compiles.host(),
            losses=losses,
            threads=compiles.threads(),
            compiles=compiles.finished(),
            rank=rank,
            notes=compiles.notes(),
            facts=compiles.facts(),
        )


def _records(path: Path, limits: Limits, losses: dict[str, int]) -> Iterator[Record]:
    """Records in the file's order; lines that belong to none, and damaged ones, are counted."""
    envelope: dict[str, Any] | None = None
    place = (0, None)
    body: list[bytes] = []
    for line in _lines(path, limits, losses):
        if line.startswith(b"\t"):
            if envelope is None:
                losses["lost_lines"] = losses.get("lost_lines", 0) + 1
            else:
                body.append(line[1:])
            continue
        if envelope is not None:
            yield Record(envelope, _payload(envelope, body, losses), *place)
        envelope, body = None, []
        match = _HEADER.match(line)
        if match is None:
            if line.strip():
                losses["lost_lines"] = losses.get("lost_lines", 0) + 1
            continue
        try:
            envelope = _ENVELOPE.decode(match["json"])
        except (msgspec.DecodeError, RecursionError):
            losses["lost_broken_json"] = losses.get("lost_broken_json", 0) + 1
            continue
        place = (int(match["pid"][:9]), int(match["rank"]) if match["rank"] else None)  # type: ignore[assignment]
    if envelope is not None:
        yield Record(envelope, _payload(envelope, body, losses), *place)


def _payload(envelope: dict[str, Any], body: list[bytes], losses: dict[str, int]) -> bytes | None:
    """The payload, if it is the one that was written."""
    told = envelope.get("has_payload")
    if told is None:
        if body:
            losses["lost_lines"] = losses.get("lost_lines", 0) + len(body)
        return None
    text = b"\n".join(body)
    if hashlib.md5(text, usedforsecurity=False).hexdigest() != told:
        losses["lost_damaged_payload"] = losses.get("lost_damaged_payload", 0) + 1
        return None
    return text


def _lines(path: Path, limits: Limits, losses: dict[str, int]) -> Iterator[bytes]:
    """Lines without their ends. A line beyond any record's length is cut off, and counted."""
    rest = b""
    with TraceStream(path, limits) as stream:
        for piece in stream:
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if len(rest) > _LONGEST_LINE:
                losses["lost_lines"] = losses.get("lost_lines", 0) + 1
                rest = b""
        if stream.truncated:
            losses["lost_lines"] = losses.get("lost_lines", 0) + 1
    if rest:
        yield rest


READER = TorchTraceReader()
