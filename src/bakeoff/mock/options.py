"""The command line of the mock: one click command, used by ``python -m bakeoff.mock`` and ``bakeoff mock``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import BakeoffError, UsageError
from ..units import parse_duration, parse_percent

if TYPE_CHECKING:
    import asyncio

    from .latency import LatencyModel
    from .server import ServeOptions


def duration(value: str | float) -> float:
    """A duration [s], for click (which also converts defaults, that are numbers already)."""
    return _read(parse_duration, value)


def relative(value: str | float) -> float:
    """A share such as ``5%`` or ``0.05``, for click."""
    return _read(parse_percent, value)


def _read(parse: Callable[[str], float], value: str | float) -> float:
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except UsageError as problem:
        raise click.BadParameter(f"{problem.message}: {problem.remedy}") from None


# field of LatencyModel → (option, type, help). The defaults are the model's own.
_MODEL_OPTIONS: dict[str, tuple[str, Any, str]] = {
    "ttft_s": ("--ttft", duration, "Time to the first token, before the prompt's share: 50ms."),
    "per_input_token_s": ("--per-input-token", duration, "Added to it for each prompt token: 0.1ms."),
    "tpot_s": ("--tpot", duration, "Time per further token: 20ms."),
    "jitter": ("--jitter", relative, "Relative spread of both, drawn per request (lognormal, mean 1): 5%."),
    "gap_jitter": ("--gap-jitter", relative, "Relative spread of each gap between tokens."),
    "slots": ("--slots", click.IntRange(min=0), "Requests answered at the same time; others wait. 0: all."),
    "seed": ("--seed", int, "Seed of texts and natural lengths."),
    "noise_seed": ("--noise-seed", int, "Seed of jitter, start effect and faults. Default: new in each process."),
    "start_delay_s": ("--start-delay", duration, "Time before it listens, as a model being loaded."),
    "scale": ("--scale", float, "Multiplies all times: 1.1 is a server 10 % slower."),
    "drift_per_minute": ("--drift-per-minute", relative, "Relative change of all times per minute: 2%."),
    "start_effect": ("--start-effect", relative, "Spread of a factor drawn once a process."),
    "role_chunk": ("--role-chunk/--no-role-chunk", bool, "Chat: send a chunk with only the role at once."),
    "tokens_per_chunk": ("--tokens-per-chunk", click.IntRange(min=1), "Tokens in one chunk."),
    "coalesce": ("--coalesce", click.IntRange(min=1), "Chunks in one write."),
    "natural_tokens_mean": ("--natural-tokens", float, "Mean length of an answer that ends by itself."),
    "talkative": ("--talkative", float, "Multiplies that length."),
    "nonce_tokens": ("--nonce-tokens", click.IntRange(min=0), "Leading prompt tokens that do not change the answer."),
    "prefix_cache": ("--prefix-cache/--no-prefix-cache", bool, "Tokens of a known beginning cost nothing."),
    "prefix_block": ("--prefix-block", click.IntRange(min=1), "Tokens in a block of that cache."),
    "kv_tokens": ("--kv-tokens", click.IntRange(min=1), "Size of the KV cache."),
}


def _with_model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    from .latency import LatencyModel

    defaults = LatencyModel()
    for field, (option, kind, says) in reversed(_MODEL_OPTIONS.items()):
        default = getattr(defaults, field)
        shown = default is not None
        if kind is duration:  # as it would be written
            default = f"{default:g}s"
        command = click.option(option, field, type=kind, default=default, show_default=shown, help=says)(command)
    return command


def _list_faults(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from .faults import FAULTS, SELECTIONS

    for fault in FAULTS.values():
        click.echo(f"{fault.name:<14} {fault.says}")
    click.echo(f"\nWhich requests, after a colon: {SELECTIONS}")
    ctx.exit()


def model_flags(model: LatencyModel) -> Iterator[str]:
    """The command line of a model: what differs from the defaults, exactly."""
    defaults = type(model)()
    for field, (option, kind, _says) in _MODEL_OPTIONS.items():
        value = getattr(model, field)
        if value == getattr(defaults, field):
            continue
        if kind is bool:
            yield option.split("/")[0 if value else 1]
        else:
            number = f"{value:.17f}" if isinstance(value, float) else str(value)
            yield f"{option}={number}{'s' if kind is duration else ''}"


@click.command("mock", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free port.")
@click.option("--model-name", default="mock", show_default=True, help="Name in /v1/models; any name is answered.")
@_with_model_options
@click.option(
    "--faults",
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[:WHICH][,…]",
    help="Faults; repeatable. WHICH: 10%, 3of20, first5. See --list-faults.",
)
@click.option(
    "--list-faults", is_flag=True, is_eager=True, expose_value=False, callback=_list_faults, help="List them."
)
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the key which clients must send.")
@click.option(
    "--send-log", type=click.Path(path_type=Path, dir_okay=False), help="Write what was sent when, as JSON lines."
)
@click.option(
    "--metrics-dialect",
    type=click.Choice(["vllm", "llamacpp", "sglang", "tgi"]),
    default="vllm",
    show_default=True,
    help="Whose names GET /metrics uses.",
)
@click.option("--grace", type=duration, default=2.0, show_default="2 s", help="A stop waits this long for answers.")
@click.option("--stop-with-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
def mock_command(host: str, port: int, stop_with_stdin: bool, **settings: Any) -> None:
    """Serve the APIs of OpenAI and Anthropic with a known latency model.

    Paths: /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages, /v1/models, /tokenize, /metrics, /health.

    Prints one line, "listening on http://HOST:PORT", when it is ready. Ends on SIGTERM or Ctrl-C.
    """
    from .latency import LatencyModel

    try:
        model = LatencyModel(**{field: settings[field] for field in _MODEL_OPTIONS})
        options = _serve_options(settings, os.environ)
        code = _run(model, (host, port), options, stop_with_stdin)
    except BakeoffError as problem:
        click.echo(f"bakeoff mock: {problem}", err=True)
        raise SystemExit(problem.exit_code) from None
    raise SystemExit(code)


def _serve_options(settings: Mapping[str, Any], environ: Mapping[str, str]) -> ServeOptions:
    from .faults import parse_faults
    from .server import ServeOptions

    variable: str | None = settings["api_key_env"]
    api_key = environ.get(variable) if variable else None
    if variable and not api_key:
        raise UsageError(f"{variable} is not set", where="--api-key-env", remedy=f"export {variable}=…")
    return ServeOptions(
        model_name=settings["model_name"],
        api_key=api_key,
        send_log=settings["send_log"],
        faults=parse_faults(settings["faults"]),
        metrics_dialect=settings["metrics_dialect"],
        grace_s=settings["grace"],
    )


def _run(model: LatencyModel, address: tuple[str, int], options: ServeOptions, stop_with_stdin: bool) -> int:
    """Runs the server in this process; tuned so that collecting garbage does not delay tokens."""
    import asyncio
    import gc

    from .server import serve

    host, port = address
    shown = f"[{host}]" if ":" in host else host

    async def main() -> int:
        stop = asyncio.Event()
        if stop_with_stdin:
            # A pipe from the parent: its end says that the parent is gone, on every system.
            asyncio.get_running_loop().add_reader(0, _stop_at_end_of_stdin, stop)

        def announce(bound: int) -> None:
            click.echo(f"listening on http://{shown}:{bound}")
            sys.stdout.flush()

        return await serve(model, host, port, options=options, on_listening=announce, stop=stop)

    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


def _stop_at_end_of_stdin(stop: asyncio.Event) -> None:
    if not os.read(0, 1024):
        stop.set()


def _loop_factory() -> Callable[[], Any] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
