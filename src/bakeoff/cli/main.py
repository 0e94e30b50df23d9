"""The `bakeoff` command. Verbs are imported when they are called, so that `--help` is immediate."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from .. import __version__

# verb → (module, one-line help). The help stands here so that listing verbs imports none of them.
_VERBS = {
    "demo": ("demo", "A real bake-off on a small real model, on this machine, in minutes."),
    "run": ("run", "Measure an experiment and give the verdict."),
    "plan": ("plan", "Say what a run would do, and how long it may take."),
    "compare": ("compare", "Recompute a run's verdict (and result.json) from raw data; of several runs, one verdict."),
    "report": ("report", "Render a run's report: terminal, HTML, Markdown or JSON."),
    "trace": ("trace", "Where the time of a profile went, and where two profiles differ."),
    "doctor": ("doctor", "Is this machine fit to measure?"),
    "mock": ("mock", "An OpenAI-compatible server with a known latency model."),
}


#: What a full disk, a pipe without a reader or a limit answers to a write.
_NOT_WRITTEN = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f".{_VERBS[cmd_name][0]}", __package__)
        command = module.command
        assert isinstance(command, click.Command)  # noqa: S101 - a wrong table is our own bug
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], list(_VERBS), n=1) if args else []
            if close:
                raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Which of two language-model setups is faster, with what certainty, at what price, and why."""


def main(argv: list[str] | None = None) -> Any:
    """Entry point: our errors become a clear text and their exit code; Ctrl-C becomes 130."""
    from .streams import open_closed_streams

    open_closed_streams()
    from ..errors import EXIT_INTERRUPTED, BakeoffError

    try:
        code = cli.main(args=argv, prog_name="bakeoff", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except BakeoffError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except OSError as error:
        if error.filename is not None or error.errno not in _NOT_WRITTEN:
            raise
        code = _unwritten(error)
    code = code if isinstance(code, int) else 0
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _unwritten(error) or code
    sys.exit(code)


def _unwritten(error: OSError) -> int:
    """The exit code where stdout took no more. What is left in its buffer would fail once more at the very end."""
    import contextlib
    import os

    from ..errors import EXIT_USAGE

    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # `bakeoff report | head`
        return 0
    click.echo(f"error: cannot write the output ({error.strerror or error})", err=True)
    return EXIT_USAGE
