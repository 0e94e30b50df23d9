"""Engine ``command``: any server that a command line starts (``vllm serve …``, ``llama-server …``)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..model import Endpoint, Problem, StartContext, Variant
from .dialect import reach
from .endpoint import EndpointSettings, read_endpoint
from .launched import Facts, LaunchedServer, LaunchPlan, launch
from .literals import literals_in, literals_in_command
from .probe import Readiness, free_port
from .process import ProcessSpec
from .secrets import Redactor, has_reference, resolve, secrets_of
from .settings import SettingsReader, refuse

# ${VAR} and $${ belong to the environment, {{ and }} are literal braces, {port} and {host} are ours.
_TEMPLATE = re.compile(r"\$\$\{|\$\{[^}]*\}|\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PLACEHOLDERS = ("port", "host")


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """Resolved settings (times in seconds). `words` still hold ``${VAR}`` and ``{port}``."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    port: int | None = None
    host: str = "127.0.0.1"
    path: str = "/v1"
    ready_path: str = "/health"
    ready_status: tuple[int, ...] = (200,)
    ready_timeout_s: float = 600.0
    stop_timeout_s: float = 15.0
    interrupt_first: bool = False
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)


def fill(word: str, port: int, host: str) -> str:
    """A word of the command with ``{port}`` and ``{host}`` filled in and doubled braces made single."""
    values = {"{port}": str(port), "{host}": host, "{{": "{", "}}": "}"}
    return _TEMPLATE.sub(lambda match: values.get(match[0], match[0]), word)


def _words(reader: SettingsReader) -> tuple[str, ...]:
    """The command's words, unresolved: a variable's value is never split, whatever it holds."""
    remedy = "for example: command: vllm serve MODEL --port {port}"
    reader.require("command", remedy)
    reader.value("command")
    raw = reader.raw("command")
    if raw is None:
        return ()
    if isinstance(raw, str):
        try:
            words = shlex.split(raw)
        except ValueError as error:
            reader.wrong("command", f"cannot be split into words: {str(error).lower()}", "close the quotes")
            return ()
    elif isinstance(raw, list | tuple) and all(isinstance(w, str | int | float) for w in raw):
        words = [str(word) for word in raw]
    else:
        reader.wrong("command", "must be a text or a list of words", remedy)
        return ()
    if not words or not words[0]:
        reader.wrong("command", "is empty", remedy)
        return ()
    _check_templates(reader, words)
    _check_literal_secrets(reader, words)
    return tuple(words)


def _check_templates(reader: SettingsReader, words: Sequence[str]) -> None:
    unknown = [
        match[0]
        for word in words
        for match in _TEMPLATE.finditer(word)
        if match[0] in ("{", "}") or (match[1] is not None and match[1] not in _PLACEHOLDERS)
    ]
    for text in dict.fromkeys(unknown):
        # Only what looks like a name is shown: braces may also hold JSON, and JSON a key.
        shown = text if re.fullmatch(r"[{}]|\{[\w.\- ]{0,40}\}", text) else "{…}"
        reader.wrong(
            "command", f"holds the unknown placeholder {shown}", "known: {port}, {host}; double literal braces: {{ }}"
        )
    if not unknown and not reader.has("port") and not any("{port}" in word for word in words):
        reader.wrong(
            "command", "does not say on which port the server listens", "write {port} in the command, or set `port`"
        )


def _check_literal_secrets(reader: SettingsReader, words: Sequence[str]) -> None:
    for name in dict.fromkeys(literals_in_command(words)):
        reader.wrong(
            "command",
            f"holds a literal secret after {name[:60]}, which would be saved with the run",
            "put it into an environment variable and write ${NAME} here",
        )


def _check_program(reader: SettingsReader, words: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> None:
    if not words or has_reference(words[0]):
        return
    program = os.path.expanduser(words[0])
    if os.sep in program:
        found = os.access((cwd or Path()) / program, os.X_OK) and not ((cwd or Path()) / program).is_dir()
    else:
        found = shutil.which(program, path=env.get("PATH", os.environ.get("PATH"))) is not None
    if not found:
        reader.wrong(
            "command",
            f"the program {words[0].partition('=')[0]!r} is not found or not executable",
            "install it, activate its environment, or write its full path",
        )


def _environment(reader: SettingsReader) -> dict[str, str]:
    raw = reader.raw("env")
    env = reader.texts("env")
    written_out = {path[0] for path in literals_in(raw)}
    for name in env:
        if not name or "=" in name or "\0" in name + env[name]:
            reader.wrong("env", "is not a valid environment variable", "", name)
        elif name in written_out:
            reader.wrong(
                "env",
                "holds a literal secret, which would be saved with the run",
                "put it into an environment variable and write ${NAME} here",
                name,
            )
    return env


def _ready(reader: SettingsReader) -> tuple[str, tuple[int, ...], float]:
    inner = reader.nested("ready")
    path = inner.text("path", "/health") or "/health"
    if not path.startswith("/"):
        inner.wrong("path", f"must start with '/', not {inner.shown('path')}", "for example: /health")
    raw = inner.value("status")
    status = [200] if raw is None else (raw if isinstance(raw, list) else [raw])
    if not status or not all(isinstance(s, int) and not isinstance(s, bool) and 100 <= s <= 599 for s in status):
        inner.wrong(
            "status", f"must be an HTTP status or a list of them, not {inner.shown('status')}", "for example: 200"
        )
        status = [200]
    timeout_s = inner.duration("timeout", 600.0)
    reader.problems.extend(inner.finish())
    return path, tuple(status), timeout_s


def read_command(settings: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[CommandSettings, list[Problem]]:
    """All settings and all that is wrong with them."""
    reader = SettingsReader(settings, environ)
    words = _words(reader)
    env = _environment(reader)
    cwd_text = reader.text("cwd")
    cwd = Path(cwd_text).expanduser() if cwd_text else None
    if cwd is not None and not cwd.is_dir():
        reader.wrong("cwd", f"there is no folder {reader.shown('cwd')}", "correct the path")
        cwd = None
    _check_program(reader, words, env, cwd)
    path = (reader.text("path", "/v1") or "/v1").rstrip("/")
    if path and not path.startswith("/"):
        reader.wrong("path", f"must start with '/', not {reader.shown('path')}", "for example: /v1")
    ready_path, ready_status, ready_timeout_s = _ready(reader)
    found = CommandSettings(
        words=words,
        env=env,
        cwd=cwd,
        port=reader.integer("port", low=1, high=65535),
        host=reader.text("host", "127.0.0.1") or "127.0.0.1",
        path=path,
        ready_path=ready_path,
        ready_status=ready_status,
        ready_timeout_s=ready_timeout_s,
        stop_timeout_s=reader.duration("stop_timeout", 15.0, high=600.0),
        interrupt_first=reader.text("stop_signal", "term", ("term", "int")) == "int",
        endpoint=read_endpoint(reader),
    )
    return found, reader.finish()


class CommandEngine:
    """Settings: command, env, cwd, port, host, path, ready, stop_timeout, stop_signal, and the endpoint's."""

    name = "command"

    def problems(self, settings: Mapping[str, Any], where: Path) -> Sequence[Problem]:
        return read_command(settings, os.environ)[1]

    def launch(self, variant: Variant, context: StartContext) -> LaunchedServer:
        """Starts the command. Raises ConfigError or an EngineError; leaves no process."""
        settings, problems = read_command(variant.settings, os.environ)
        refuse(problems, f"variants.{variant.name}")
        redactor = Redactor(secrets_of(variant.settings, os.environ))
        host = settings.host
        port = context.port or settings.port or free_port(host)
        argv = [resolve(fill(word, port, host), os.environ) for word in settings.words]
        argv[0] = os.path.expanduser(argv[0])
        name = f"[{host}]" if ":" in host else host
        base_url = f"http://{name}:{port}{settings.path}"

        def connect() -> tuple[Endpoint, Facts]:
            endpoint, reached = reach(base_url, settings.endpoint)
            facts = {"engine": "command", "command": shlex.join(settings.words), **reached.facts}
            return endpoint, Facts(fingerprint=facts, effective_config=reached.settings_in_force)

        plan = LaunchPlan(
            process=ProcessSpec(
                argv=tuple(argv),
                env={**os.environ, **settings.env},
                cwd=settings.cwd,
                log_path=context.log_path,
                redactor=redactor,
            ),
            readiness=Readiness(
                host=host,
                port=port,
                path=settings.ready_path,
                status=settings.ready_status,
                timeout_s=settings.ready_timeout_s,
                headers=settings.endpoint.headers,
            ),
            connect=connect,
            stop_timeout_s=settings.stop_timeout_s,
            interrupt_first=settings.interrupt_first,
            redactor=redactor,
        )
        return launch(plan, variant, context)


ENGINE = CommandEngine()
