"""What the records of a ``TORCH_TRACE`` log say: which function was compiled, why again, for how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from .limits import Limits
from .timeline import Compile, HostKind, Thread
from .words import counted

_LATEST_US = float(1 << 51)
_SHOWN = 400
_MOST_RESTARTS = 20
#: Metrics that give the whole time of one compilation, newest form first: name → seconds per unit.
_DURATIONS = (
    ("duration_us", 1e-6),
    ("dynamo_cumulative_compile_time_us", 1e-6),
    ("entire_frame_compile_time_s", 1.0),
)
_EVENT = msgspec.json.Decoder(dict[str, Any])


class Compiles:
    """Gathers compilations, graph breaks and the compiler's phases (its chromium events) from records in order."""

    def __init__(self, limits: Limits, losses: dict[str, int]) -> None:
        self._limits = limits
        self._losses = losses
        self._done: list[Compile] = []
        self._reasons: dict[str, str] = {}  # compilation id → why the code before it did not fit
        self._started: dict[str, int | None] = {}  # compilation id → when
        self._broken: set[str] = set()  # compilation ids whose graph breaks have records of their own
        self._cache = {"hit": 0, "miss": 0, "bypass": 0}
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self._open: dict[tuple[int, int], list[tuple[str, int]]] = {}
        self._host: dict[str, list[int]] = {name: [] for name in ("start", "end", "thread", "kind", "name")}
        self._now: int | None = None
        self.version = ""

    def add(self, envelope: Mapping[str, Any], payload: bytes | None, process: int) -> None:
        """Takes one record."""
        if "chromium_event" in envelope:
            self._phase(payload, process)
        elif "dynamo_start" in envelope:
            self._started.setdefault(_id_of(envelope), self._now)
        elif isinstance(metrics := envelope.get("compilation_metrics"), Mapping):
            self._compiled(envelope, metrics)
        elif isinstance(artifact := envelope.get("artifact"), Mapping):
            self._artifact(envelope, str(artifact.get("name")), payload)
        elif isinstance(version := envelope.get("torch_version"), str):
            self.version = version[:40]

    def _compiled(self, envelope: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        number = _id_of(envelope)
        self._started.pop(number, None)
        again = _again(envelope, number)
        reason = self._reasons.pop(number, "") or _text(metrics.get("recompile_reason"))
        if metrics.get("fail_type") or metrics.get("fail_reason"):
            reason = f"failed: {_text(metrics.get('fail_type'))} {_text(metrics.get('fail_reason'))}".strip()
        seconds = next((s for key, unit in _DURATIONS if (s := _seconds(metrics.get(key), unit)) is not None), None)
        start = _seconds(metrics.get("start_time_us"), 1e-6)
        self._keep(
            Compile(
                kind="recompile" if again else "compile",
                frame=_frame(metrics),
                reason=reason,
                seconds=seconds,
                at_ns=round(start * 1e9) if start is not None else self._now,
            )
        )
        # The analysis starts anew after a graph break; older logs tell of it here only.
        restarts = metrics.get("restart_reasons")
        if isinstance(restarts, list) and number not in self._broken:
            for text in restarts[:_MOST_RESTARTS]:
                self._keep(Compile(kind="graph break", frame=_frame(metrics), reason=_text(text), at_ns=self._now))

    def _artifact(self, envelope: Mapping[str, Any], name: str, payload: bytes | None) -> None:
        text = payload.decode("utf-8", "replace") if payload is not None else ""
        if name == "recompile_reasons":
            self._reasons[_id_of(envelope)] = _first_reason(text)
        elif name == "dynamo_graph_break_reason":
            reason = _text(_why(text))
            self._broken.add(_id_of(envelope))
            self._keep(Compile(kind="graph break", frame=_place(text), reason=reason, at_ns=self._now))
        elif match := re.fullmatch(r"fx_graph_cache_(hit|miss|bypass)", name):
            self._cache[match[1]] += 1

    def _keep(self, compile: Compile) -> None:
        if len(self._done) < self._limits.names:
            self._done.append(compile)

    def _phase(self, payload: bytes | None, process: int) -> None:
        """A chromium event: B and E of a phase, µs of Unix time. Unmatched ends are counted."""
        try:
            event = _EVENT.decode(payload or b"")
        except (msgspec.DecodeError, RecursionError):
            if payload is not None:
                self._losses["lost_broken_json"] = self._losses.get("lost_broken_json", 0) + 1
            return
        at, name = event.get("ts"), event.get("name")
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _LATEST_US:
            return
        if not isinstance(name, str):
            return
        now = round(at * 1000)
        self._now = now
        thread = event.get("tid")
        key = (process, thread if isinstance(thread, int) and 0 <= thread < 1 << 62 else 0)
        stack = self._open.setdefault(key, [])
        if event.get("ph") == "B" and len(stack) < 1000:
            stack.append((name, now))
        elif event.get("ph") == "E":
            at_depth = next((i for i in range(len(stack) - 1, -1, -1) if stack[i][0] == name), None)
            if at_depth is None:
                self._losses["unmatched_end"] = self._losses.get("unmatched_end", 0) + 1
                return
            # What opened inside and never ended lost its end record.
            self._losses["open_host_range"] = self._losses.get("open_host_range", 0) + len(stack) - at_depth - 1
            begin = stack[at_depth][1]
            del stack[at_depth:]
            self._range(name, begin, now, key)

    def _range(self, name: str, begin: int, end: int, thread: tuple[int, int]) -> None:
        name = name[: self._limits.name_chars]
        values = {
            "start": begin,
            "end": end,
            "thread": self._threads.setdefault(thread, len(self._threads)),
            "kind": int(HostKind.ANNOTATION),
            "name": self._names.setdefault(name, len(self._names)),
        }
        for column, value in values.items():
            self._host[column].append(value)

    def finished(self) -> tuple[Compile, ...]:
        """All events of the compiler. A function that is compiled again and again shows as recompiles of one frame."""
        return tuple(self._done)

    def host(self) -> Mapping[str, list[int]]:
        """The compiler's phases, columns for `assemble`."""
        return self._host if self._host["start"] else {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def threads(self) -> tuple[Thread, ...]:
        return tuple(Thread(process=process, thread=thread) for process, thread in self._threads)

    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        if not self._started:
            return ()
        return (f"{counted(len(self._started), 'compilation')} without an end in this log (cut off, or failed)",)

    def facts(self) -> dict[str, str]:
        """Cache hits and misses of compiled graphs, where the log has them."""
        if not any(self._cache.values()):
            return {}
        return {"graph cache": ", ".join(f"{count} {word}" for word, count in self._cache.items() if count)}


def _id_of(envelope: Mapping[str, Any]) -> str:
    """``frame/compilation``, the id that torch.compile prints; attempts of one compilation share it."""
    return f"{_text(envelope.get('frame_id'))}/{_text(envelope.get('frame_compile_id'))}"


def _again(envelope: Mapping[str, Any], number: str) -> bool:
    count = envelope.get("frame_compile_id")
    return isinstance(count, int) and count > 0


def _seconds(value: object, unit: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST_US:
        return None
    return value * unit


def _frame(metrics: Mapping[str, Any]) -> str:
    """``forward (nn/model.py:12)``."""
    line = metrics.get("co_firstlineno")
    where = _short(_text(metrics.get("co_filename")))
    return f"{_text(metrics.get('co_name')) or '?'} ({where}:{line if isinstance(line, int) else '?'})"


def _short(path: str) -> str:
    """The last two parts of a path: enough to find the file, and no home folder."""
    return "/".join(PurePosixPath(path).parts[-2:])


def _text(value: object) -> str:
    """A bounded text on one line, home folders shortened."""
    text = "" if value is None else str(value)[: 4 * _SHOWN]
    text = re.sub(r"(?:/[\w.\-+@]+){2,}", lambda match: _short(match[0]), text)
    return " ".join(text.split())[:_SHOWN]


def _first_reason(text: str) -> str:
    """The guard that failed: the payload is a JSON text, or a list of them."""
    try:
        found = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        found = text
    if isinstance(found, list):
        found = found[0] if found else ""
    return _text(found)


def _why(text: str) -> str:
    """The line of a graph break that says why: the exception behind the last traceback, else its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if re.match(r"(?:[\w.]+(?:Error|Exception|Unsupported|Warning)|Graph break|Reason)\b.*?:", line):
            return line
    return lines[0] if lines else ""


def _place(text: str) -> str:
    """``file.py:12`` of the user's code: the last frame of the first stack."""
    stack = text.split("Traceback (most recent call last)", 1)[0]
    found = re.findall(r'File "([^"\n]{1,500})", line (\d{1,9})', stack or text)
    return f"{_short(found[-1][0])}:{found[-1][1]}" if found else ""
