"""A server that we start: process, readiness, endpoint, stop. Shared by the engines ``command`` and ``llamacpp``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ..errors import ServerDied
from ..model import Endpoint, Start, StartContext, Variant
from .probe import Readiness, require_free, wait_ready
from .process import ProcessSpec, ServerProcess, Stopped
from .secrets import Redactor, all_secrets, without_secrets


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a started server: fingerprint lines and the settings in force (no secrets)."""

    fingerprint: dict[str, str]
    effective_config: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """How to start a server and when to call it ready.

    `connect` is called once it is ready and says what the endpoint is; it may raise an EndpointError.
    """

    process: ProcessSpec
    readiness: Readiness
    connect: Callable[[], tuple[Endpoint, Facts]]
    stop_timeout_s: float = 15.0
    interrupt_first: bool = False
    page_cache: Literal["warm", "cold", "unknown"] = "unknown"
    redactor: Redactor = field(default_factory=lambda: Redactor(()))


class LaunchedServer:
    """A running server of ours."""

    def __init__(
        self, plan: LaunchPlan, process: ServerProcess, start: Start, endpoint: Endpoint, fingerprint: Mapping[str, str]
    ) -> None:
        self._plan = plan
        self._process = process
        self._start = start
        self._endpoint = endpoint
        self._fingerprint = dict(fingerprint)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def start(self) -> Start:
        return self._start

    def check(self) -> None:
        """Raises ServerDied (with the log's last lines) when the process is gone."""
        if self._process.alive:
            return
        code = self._process.returncode
        how = "ended" if code is None else (f"was ended by signal {-code}" if code < 0 else f"exited with code {code}")
        raise ServerDied(
            f"the server {how} while it was in use",
            where=f"variants.{self._start.variant}",
            remedy="the log says why; signal 9 often means that memory ran out",
            log_tail=self._process.tail(),
        )

    def fingerprint(self) -> dict[str, str]:
        return dict(self._fingerprint)

    def stop(self) -> Start:
        """Stops the whole process tree; a second call returns the same start."""
        ended: Stopped = self._process.stop(self._plan.stop_timeout_s, interrupt_first=self._plan.interrupt_first)
        self._start = msgspec.structs.replace(
            self._start, stopped_ns=ended.stopped_ns, exit_code=ended.exit_code, forced_stop=ended.forced
        )
        return self._start


def launch(plan: LaunchPlan, variant: Variant, context: StartContext) -> LaunchedServer:
    """Starts the server and waits until it is ready. Raises an EngineError; then no process of it is left."""
    where = f"variants.{variant.name}"
    with without_secrets(plan.redactor):
        require_free(plan.readiness.host, plan.readiness.port)
        process = ServerProcess(plan.process)
        try:
            port_ns, ready_ns = wait_ready(process, plan.readiness, context.on_phase)
            endpoint, facts = plan.connect()
        except BaseException as error:
            # Not ready means nothing in flight: a short grace is enough, and Ctrl-C is answered quickly.
            process.stop(min(plan.stop_timeout_s, 5.0), interrupt_first=plan.interrupt_first)
            if getattr(error, "where", "") is None:
                error.where = where  # type: ignore[attr-defined]  # one of ours
            if getattr(error, "log_tail", None) == ():
                error.log_tail = process.tail()  # type: ignore[attr-defined]  # one of ours
            raise
    start = Start(
        id=context.start_id,
        variant=variant.name,
        round=context.round,
        group=context.group,
        spawn_ns=process.spawn_ns,
        alive_ns=process.alive_ns,
        port_ns=port_ns,
        ready_ns=ready_ns,
        log=context.log_name,
        page_cache=plan.page_cache,
        effective_config=plan.redactor.clean_all(facts.effective_config),
    )
    fingerprint = {name: plan.redactor.clean(text) for name, text in facts.fingerprint.items()}
    endpoint = dataclasses.replace(endpoint, secrets=all_secrets(variant.settings))
    return LaunchedServer(plan, process, start, endpoint, fingerprint)
