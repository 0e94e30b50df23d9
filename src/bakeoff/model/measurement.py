"""What is measured: requests, blocks, starts, telemetry samples. Raw truth; nothing here is an estimate.

All stamps are nanoseconds of one monotonic clock (``time.monotonic_ns``), which on one machine is shared
by all processes; ``wall`` fields are seconds since the epoch and are used for display only.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ErrorKind = Literal[
    "connect",
    "timeout",
    "reset",
    "http",
    "rate_limited",
    "auth",
    "not_found",
    "stream_error",
    "truncated",
    "garbage",
    "empty",
    "cancelled",
    "server_died",
]
TokenSource = Literal["usage", "estimated", "unknown"]


class RequestRecord(msgspec.Struct, kw_only=True):
    """One request as the client saw it. A failed request keeps whatever was seen before it failed."""

    index: int  # position in the block
    prompt_id: int  # the same prompt (but for the nonce) in every variant of a round
    conversation: int | None = None  # requests of one conversation, in the order of `turn`
    turn: int = 0
    asked_input_tokens: int | None = None  # what the workload wanted the prompt to have
    asked_output_tokens: int | None = None  # the limit sent with the request
    scheduled_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None  # first response byte of any kind
    first_token_ns: int | None = None  # first chunk that carries generated content (text, reasoning, tool call)
    first_output_ns: int | None = None  # first non-reasoning content
    last_token_ns: int | None = None  # last chunk that carries content
    end_ns: int | None = None  # end of the response, or the moment of failure
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None  # prompt tokens that the server says it took from its cache
    tokens_source: TokenSource = "unknown"
    finish_reason: str | None = None
    status: int | None = None  # HTTP status
    error: ErrorKind | None = None
    error_message: str | None = None  # bounded in length, secrets removed
    retry_after_s: float | None = None
    chunk_ns: list[int] = []  # arrival (socket read) of each chunk that carries content
    chunk_tokens: list[int] = []  # tokens of each of those chunks, where known, else 1
    chunk_coalesced: list[bool] = []  # True: arrived in the same socket read as the chunk before
    prompt: str | None = None
    text: str = ""
    reasoning: str = ""
    server_timings: dict[str, float] = {}  # what the server says of itself (llama.cpp `timings`)
    oddities: dict[str, int] = {}  # what was odd in the stream without being a failure, and how often


class Sample(msgspec.Struct, kw_only=True):
    """One telemetry sample. Counters are cumulative; None means the platform or the server does not tell."""

    t_ns: int
    # the server's process tree (None for a server that we did not start)
    tree_cpu_s: float | None = None
    tree_anon_bytes: int | None = None
    tree_mapped_bytes: int | None = None  # file-backed resident pages, shared mappings counted in full
    tree_threads: int | None = None
    tree_processes: int | None = None
    # the client (this process)
    client_cpu_s: float | None = None
    # the machine
    machine_busy_s: float | None = None  # user + system + irq over all cores
    machine_steal_s: float | None = None
    runnable: int | None = None  # runnable tasks right now
    load1: float | None = None
    frequency_mhz: float | None = None
    available_bytes: int | None = None
    temperature_c: float | None = None
    # the GPU processes belong to (summed over the devices used)
    gpu_busy: float | None = None  # share of time, 0..1
    gpu_memory_bytes: int | None = None
    gpu_power_w: float | None = None
    gpu_clock_mhz: float | None = None
    gpu_temperature_c: float | None = None
    # energy counters since some moment [J] (zeus: RAPL, NVML, …), the whole machine's
    energy_cpu_j: float | None = None
    energy_dram_j: float | None = None
    energy_gpu_j: float | None = None
    energy_soc_j: float | None = None
    # what the server says of itself, in the one sample that follows each reading
    server_running: float | None = None  # requests in work
    server_waiting: float | None = None  # requests in its queue
    server_kv_use: float | None = None  # share of the KV cache in use, 0..1


#: Share of the machine taken by others that moves an embedded engine by about 3 %.
OTHER_CPU_LIMIT = 0.10
#: Share of the machine taken by the hypervisor that is close to the default margin.
STEAL_LIMIT = 0.02


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How fit the bench was during one block, from telemetry and the client's own lag."""

    send_delay_p50_s: float | None = None  # sent − scheduled
    send_delay_p99_s: float | None = None
    loop_lag_p50_s: float | None = None  # how late the client's event loop ran its timers
    loop_lag_p99_s: float | None = None
    parse_backlog_p99_s: float | None = None  # from a socket read to the end of its parsing
    client_processes: int = 1
    client_cpu_share: float | None = None  # client CPU time ÷ wall time (1 = one whole core)
    tree_cpu_share: float | None = None
    other_cpu_share: float | None = None  # busy time of processes that are not the experiment's ÷ wall
    steal_share: float | None = None  # stolen time ÷ (wall × cores)
    runnable_p50: float | None = None
    cores: int | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None

    @property
    def contended(self) -> bool:
        """True when other processes or the hypervisor took more of the machine than a comparison bears.

        It looks at the machine, never at the latencies, so measuring such a block again favours no arm.
        """
        others = self.other_cpu_share is not None and self.other_cpu_share > OTHER_CPU_LIMIT * (self.cores or 1)
        return others or (self.steal_share is not None and self.steal_share > STEAL_LIMIT)


BlockKind = Literal["measure", "aa", "probe"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, warm, over one prompt set of one cell. Written whole or not at all."""

    id: int
    round: int
    position: int  # place of the variant's visit in the round's order, from 0
    variant: str
    cell: str  # Cell.key
    kind: BlockKind = "measure"  # aa: a second visit to the base; probe: a search for load levels, never compared
    start_id: int  # Start.id of the server that answered; -1 for a server that we did not start
    group: int  # start group: rounds that share one start per variant
    started_ns: int
    ended_ns: int
    wall: float  # seconds since the epoch at started_ns
    window_ns: tuple[int, int]  # steady window: after the ramp, before the drain
    requests: int
    errors: int
    warmup_requests: int = 0
    warmup_stable: bool | None = None
    nonce: str | None = None
    cache_hit_tokens: int | None = None  # server counters, difference over the block
    cache_query_tokens: int | None = None
    # of the server's metrics, by canonical name: differences over the block (`x_s`: seconds, summed over requests),
    # means of the gauges `running` and `waiting`, the peak of `kv_use`; `restarts` alone: its counters began anew
    counters: dict[str, float] = {}
    energy_j: float | None = None  # measured, gross, over `window_ns`; None where nothing measures it
    energy_by: dict[str, float] = {}  # the same by device: cpu, dram, gpu, soc [J]
    idle_w: float | None = None  # power of the same devices before the first server was started [W]
    memory: dict[str, float] = {}  # medians over the block [bytes]: anon, mapped, gpu
    health: Health = Health()
    notes: tuple[str, ...] = ()


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One server start, phase by phase [ns, monotonic]. None: the phase was not seen."""

    id: int
    variant: str
    round: int
    group: int
    kind: BlockKind = "measure"
    spawn_ns: int | None = None
    alive_ns: int | None = None  # the process exists
    port_ns: int | None = None  # its port accepts connections
    ready_ns: int | None = None  # its readiness probe says so (model loaded)
    first_request_ns: int | None = None  # when the first request was due: the harness pauses between ready and this
    first_token_ns: int | None = None  # first generated token of the first request
    stopped_ns: int | None = None
    peak_anon_bytes: int | None = None
    peak_mapped_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    exit_code: int | None = None
    forced_stop: bool = False
    log: str | None = None  # path relative to the run folder
    page_cache: Literal["warm", "cold", "unknown"] = "unknown"
    memory_parts: dict[str, float] = {}  # as its log tells them [bytes]: ``weights``, ``kv cache``, ``compute``, …
    memory_on_device: bool = False  # those parts lie in a device's memory
    effective_config: dict[str, Any] = {}


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What could make a result different elsewhere. Flat text keys, so that a difference is one line."""

    machine: dict[str, str] = {}
    variants: dict[str, dict[str, str]] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A short profiled pass of one variant, outside the measured blocks."""

    variant: str
    workload: str
    load: dict[str, float] = {}
    source: Literal["profiler", "timings"] | None = None  # its own profiler, or the times it told with each answer
    files: tuple[str, ...] = ()  # relative to the run folder
    requests: int = 0
    output_tokens: int | None = None  # of all its requests; None: not known of each
    problem: str | None = None  # why there is no trace
