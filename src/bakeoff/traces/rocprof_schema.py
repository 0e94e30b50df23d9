"""The parts of rocprofv3's JSON that are read, and their rescue from a broken file. Everything else is skipped."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

# What a column of a Timeline can hold.
_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class Handle(msgspec.Struct, gc=False):
    """A reference; 64-bit handles are folded into what a column holds."""

    handle: int = 0


class Correlation(msgspec.Struct, gc=False):
    internal: _Number = 0


class Api(msgspec.Struct):
    """One record: a call, a marker."""

    kind: int = 0
    operation: int = 0
    thread_id: _Number = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    start_timestamp: _Number = -1
    end_timestamp: _Number = -1


class Dispatch(msgspec.Struct, gc=False):
    agent_id: Handle = msgspec.field(default_factory=Handle)
    queue_id: Handle = msgspec.field(default_factory=Handle)
    kernel_id: int = 0


class Kernel(Api):
    dispatch_info: Dispatch = msgspec.field(default_factory=Dispatch)
    stream_id: Handle | None = None


class Copy(Api):
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    stream_id: Handle | None = None
    bytes: _Number = -1


class Buffers(msgspec.Struct):
    kernel_dispatch: list[Kernel] = []
    memory_copy: list[Copy] = []
    hip_api: list[Api] = []
    hsa_api: list[Api] = []
    rccl_api: list[Api] = []
    marker_api: list[Api] = []


class Symbol(msgspec.Struct, gc=False):
    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""

    @property
    def text(self) -> str:
        """The kernel's full name: demangled where the tool could."""
        return self.demangled_kernel_name or self.formatted_kernel_name or self.kernel_name


class Agent(msgspec.Struct):
    """A processor of the machine: type 1 a CPU, 2 a GPU."""

    id: Handle = msgspec.field(default_factory=Handle)
    type: int = 0
    node_id: Annotated[int, msgspec.Meta(ge=-1, le=65535)] = 0
    gpu_index: Annotated[int, msgspec.Meta(ge=-1, le=65535)] = -1
    name: str = ""
    product_name: str = ""
    cu_count: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    max_engine_clk_fcompute: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0


class KindNames(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class Marker(msgspec.Struct):
    key: int = 0
    value: str = ""


class Strings(msgspec.Struct):
    buffer_records: list[KindNames] = []
    marker_api: list[Marker] = []

    def operation(self, kind: int, operation: int) -> str:
        """The name of an operation ("" when the file has none)."""
        if 0 <= kind < len(self.buffer_records) and 0 <= operation < len(self.buffer_records[kind].operations):
            return self.buffer_records[kind].operations[operation]
        return ""


class Metadata(msgspec.Struct):
    pid: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)] = 0


class Tool(msgspec.Struct):
    """The records of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: Buffers = msgspec.field(default_factory=Buffers)


class Document(msgspec.Struct):
    tools: list[Tool] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


_LISTS: dict[str, Any] = {
    "agents": Agent,
    "kernel_symbols": Symbol,
    "kernel_dispatch": Kernel,
    "memory_copy": Copy,
    "hip_api": Api,
    "hsa_api": Api,
    "rccl_api": Api,
    "marker_api": Api,
}
_LIST = re.compile(rb'"(' + "|".join(_LISTS).encode() + rb')"\s*:\s*\[')
# Names of operations per kind: strings.buffer_records is a list, while the records' buffer_records is an object.
_KINDS = re.compile(rb'"buffer_records"\s*:\s*\[')
_LONGEST = 1 << 16  # bytes of one record; they are under 2,000


def salvage(content: bytes, most: int) -> tuple[list[Tool], int]:
    """(what whole records of a broken file give, as of one process; how many could not be read).

    Each list is read record by record; a broken record is skipped up to where the next one begins.
    """
    tool = Tool()
    lost = 0
    for match in _LIST.finditer(content):
        name = match[1].decode()
        if name == "marker_api" and b'"key"' in content[match.end() : match.end() + 40]:
            tool.strings.marker_api, broken = _records(content, match.end(), Marker, most)  # the texts, not the records
            lost += broken
            continue
        found, broken = _records(content, match.end(), _LISTS[name], most)
        lost += broken
        target = tool if name in ("agents", "kernel_symbols") else tool.buffer_records
        getattr(target, name).extend(found)
    kinds = _KINDS.search(content)
    if kinds is not None:
        tool.strings.buffer_records, broken = _records(content, kinds.end(), KindNames, most)
        lost += broken
    return [tool], lost


def _records(content: bytes, at: int, kind: Any, most: int) -> tuple[list[Any], int]:
    decoder = msgspec.json.Decoder(kind)
    found: list[Any] = []
    lost = 0
    while len(found) < most:
        begin = _next_object(content, at)
        if begin is None:
            break
        end = _object_end(content, begin)
        if end is None:
            lost += 1
            break
        try:
            found.append(decoder.decode(content[begin:end]))
        except (msgspec.DecodeError, RecursionError):
            lost += 1
        at = end
    return found, lost


def _next_object(content: bytes, at: int) -> int | None:
    """Where the next object of a list begins; None at the list's end."""
    match = re.compile(rb"[\s,]*(\{)?").match(content, at)
    return match.start(1) if match and match[1] else None


def _object_end(content: bytes, begin: int) -> int | None:
    """One past the object's closing brace, by counting braces outside of texts; None beyond any record's length."""
    depth = 0
    for match in re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL).finditer(content, begin, begin + _LONGEST):
        token = match[0]
        if token == b"{":
            depth += 1
        elif token == b"}":
            depth -= 1
            if depth == 0:
                return match.end()
    return None
