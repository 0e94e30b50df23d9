"""The seams between rooms: what an engine, a server, a sink and a stop rule must offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from .experiment import Variant
from .measurement import Block, RequestRecord, Sample, Start

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the server behind an endpoint can do; False or None means: do not rely on it."""

    ignore_eos: bool = False  # accepts `ignore_eos: true`
    tokenizer: str | None = None  # dialect of its /tokenize: "llamacpp" | "vllm" | None
    metrics_path: str | None = None  # Prometheus text, for example "/metrics"
    cache_off: dict[str, Any] = {}  # body fields that switch prefix caching off for one request
    stream_usage: bool = True  # accepts stream_options.include_usage
    # Body fields that make every chunk carry its cumulative token count, for example vLLM's
    # {"stream_options": {"continuous_usage_stats": True}}
    chunk_counts: dict[str, Any] = {}


class ProfileHook(msgspec.Struct, frozen=True, kw_only=True):
    """How the server behind an endpoint is told to profile itself: POST `start` and `stop` (paths on its root); it then
    writes its traces into `folder`, a folder of this machine."""

    start: str = "/start_profile"
    stop: str = "/stop_profile"
    folder: str
    timeout_s: float = 600.0  # a profiler may write for minutes before `stop` answers


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where to send requests. Holds resolved secrets, so it is never serialised and its repr hides them."""

    base_url: str  # up to and including /v1, without a trailing slash
    model: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)  # extra body fields of every request
    capabilities: Capabilities = Capabilities()
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 600.0
    first_byte_timeout_s: float | None = None  # from sending to the first byte of an answer; None: no limit of its own
    idle_timeout_s: float | None = None  # between two reads of an answer
    requests_per_minute: float | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what no text quoted from the server may show
    profile: ProfileHook | None = None


@dataclass(frozen=True, kw_only=True)
class StartContext:
    """What a start may use: where logs go, and which port to take (None: a free one)."""

    log_path: Path
    start_id: int
    round: int
    group: int
    log_name: str | None = None  # path relative to the run folder
    port: int | None = None
    on_phase: Callable[[str], None] = lambda _phase: None  # progress: "spawned", "port", "ready"
    page_cache: Literal["as found", "warm", "cold"] = "as found"  # of model files, just before the process begins


class Server(Protocol):
    """A running server of one variant."""

    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def pid(self) -> int | None:
        """Root of its process tree, or None for a server that we did not start."""

    @property
    def start(self) -> Start:
        """The start so far; complete (peaks aside) when the server is ready."""

    def check(self) -> None:
        """Raises ServerDied (with the log's last lines) when the process is gone."""

    def fingerprint(self) -> dict[str, str]:
        """What could make results differ: versions, settings in force, model file hash and size. No secrets."""

    def stop(self) -> Start:
        """Stops the whole process tree (gracefully, then by force) and returns the completed start. Idempotent."""


class Engine(Protocol):
    """A recipe: settings → a server behind an OpenAI-compatible endpoint. One instance serves all variants."""

    name: str

    def problems(self, settings: Mapping[str, Any], where: Path) -> Sequence[Problem]:
        """All that is wrong with a variant's settings, found without starting anything."""

    def launch(self, variant: Variant, context: StartContext) -> Server:
        """Starts (or reaches) the server and waits until it is ready. Raises an EngineError; leaves no process."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with an experiment file. `key` is a path such as ``variants.flash.model``."""

    key: tuple[str, ...]
    message: str
    remedy: str = ""


class Sink(Protocol):
    """Where measurements go, block by block (the run folder)."""

    def write_block(self, block: Block, requests: Sequence[RequestRecord], samples: Sequence[Sample]) -> None: ...
    def write_start(self, start: Start) -> None: ...
    def log_path(self, start_id: int, variant: str) -> tuple[Path, str]:
        """(absolute path, path relative to the run folder) for a start's log."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the data between start groups. `stop`: a text ends the run with that reason."""

    stop: str | None = None
    estimate: tuple[str, ...] = ()  # the running estimate, one line a gate
    more_rounds: int | None = None  # rounds that undecided gates probably still need


class Stop(Protocol):
    """Asked after every whole start group."""

    def __call__(self, rounds_done: int) -> Look: ...


@dataclass(frozen=True, kw_only=True)
class BlockData:
    """One block with its requests as columns of equal length (numpy; NaN for missing numbers).

    Columns: every numeric field of RequestRecord as float64 (stamps as int64, −1 for missing), texts as object
    arrays, `chunk_ns`, `chunk_tokens`, `chunk_coalesced` as object arrays of numpy arrays.
    """

    block: Block
    columns: Mapping[str, NDArray[np.generic]]

    def __len__(self) -> int:
        return len(self.columns["index"])
