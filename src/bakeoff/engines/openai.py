"""Engine ``openai``: a server that already runs behind an OpenAI-compatible URL. Reached, never started or stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, ServerDied
from ..model import Endpoint, Problem, Start, StartContext, Variant
from .dialect import Reached, reach
from .endpoint import EndpointSettings, is_local, read_endpoint, read_url
from .secrets import Redactor, all_secrets, secrets_of, without_secrets
from .settings import SettingsReader, refuse

if TYPE_CHECKING:
    import psutil


def _read(
    settings: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, EndpointSettings, int | None, list[Problem]]:
    reader = SettingsReader(settings, environ)
    url = read_url(reader)
    endpoint = read_endpoint(reader)
    pid = reader.integer("pid", low=1)
    if pid is not None and url is not None and not is_local(url):
        reader.wrong("pid", "names a process of this machine, but `url` is on another one", "leave `pid` out")
    if endpoint.profile is not None and url is not None and not is_local(url):
        reader.wrong("profile", "names a folder of this machine, but `url` is on another one", "leave `profile` out")
    return url or "", endpoint, pid, reader.finish()


class ReachedServer:
    """A server that somebody else runs. Its process is looked at only when the setting `pid` names it."""

    def __init__(self, endpoint: Endpoint, reached: Reached, start: Start, process: psutil.Process | None) -> None:
        self._endpoint = endpoint
        self._reached = reached
        self._start = start
        self._process = process

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def start(self) -> Start:
        return self._start

    def check(self) -> None:
        """Raises ServerDied when the process named by `pid` is gone; without it, nothing can be told from outside."""
        if self._process is not None and not self._process.is_running():
            raise ServerDied(
                f"the process {self._process.pid} (setting `pid`) has ended",
                where=self._endpoint.base_url,
                remedy="start the server again and correct `pid`",
            )

    def fingerprint(self) -> dict[str, str]:
        return {"engine": "openai", **self._reached.facts}

    def stop(self) -> Start:
        """Does nothing: what we did not start we do not stop."""
        return self._start


class OpenAIEngine:
    """Settings: url, model, api_key, headers, body, tokenizer, metrics_path, price, pid, profile…"""

    name = "openai"

    def problems(self, settings: Mapping[str, Any], where: Path) -> Sequence[Problem]:
        return _read(settings, os.environ)[-1]

    def launch(self, variant: Variant, context: StartContext) -> ReachedServer:
        """Reaches the URL. Raises ConfigError, EndpointError."""
        redactor = Redactor(secrets_of(variant.settings, os.environ))
        with without_secrets(redactor):
            url, settings, pid, problems = _read(variant.settings, os.environ)
            refuse(problems, f"variants.{variant.name}")
            process = _process(pid) if pid is not None else None
            endpoint, reached = reach(url, settings)
        endpoint = dataclasses.replace(endpoint, secrets=all_secrets(variant.settings))
        facts = {name: redactor.clean(text) for name, text in reached.facts.items()}
        start = Start(
            id=context.start_id,
            variant=variant.name,
            round=context.round,
            group=context.group,
            effective_config=redactor.clean_all(reached.settings_in_force),
        )
        context.on_phase("ready")
        return ReachedServer(
            endpoint, Reached(dialect=reached.dialect, model=reached.model, facts=facts), start, process
        )


def _process(pid: int) -> psutil.Process:
    import psutil

    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid)
    raise EngineError(
        f"there is no process {pid}", where="pid", remedy="set `pid` to the running server's, or leave it out"
    )


ENGINE = OpenAIEngine()
