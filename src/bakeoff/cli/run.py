"""`bakeoff run [EXPERIMENT]`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from .common import check_limits, finish, gate_options

_FLAGS = {"candidates": "--candidate", "headers": "--header"}
_GATE_KEYS = ("as_json", "full", "fail_if", "fail_unless", "require_decision")


@click.command("run")
@click.argument("experiment", required=False, type=click.Path(path_type=Path))
@click.option("--base", metavar="URL|GGUF", help="The base: a server's URL, or a GGUF file.")
@click.option("--candidate", "candidates", multiple=True, metavar="URL|GGUF", help="A candidate; may be repeated.")
@click.option("--model", metavar="NAME", help="Model name as the servers know it.")
@click.option("--candidate-model", metavar="NAME", help="Model name of the candidates, where it differs.")
@click.option("--api", type=click.Choice(["completions", "chat", "responses", "messages"]), help="What to measure.")
@click.option("--api-key-env", metavar="VAR", help="Environment variable that holds the API key.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Extra header; secrets as ${VAR}.")
@click.option("--body", multiple=True, metavar="KEY=JSON", help="Extra field of every request body.")
@click.option("--price", metavar="IN/OUT|free", help="Price per million input/output tokens in USD, e.g. 0.15/0.60.")
@click.option("--concurrency", metavar="1,4", help="Closed loop: requests at a time.")
@click.option("--rate", metavar="2,4", help="Open loop: requests per second.")
@click.option("--arrivals", type=click.Choice(["poisson", "constant", "gamma"]), help="Arrivals of the open loop.")
@click.option("--burstiness", type=float, help="Shape of gamma arrivals: 1 is Poisson, less is burstier.")
@click.option("--replay", metavar="1,2", help="Arrival times of a trace (see --source), so many times as fast.")
@click.option("--sweep", type=click.Choice(["concurrency", "rate"]), help="Find where more load gives no more.")
@click.option("--find", type=click.Choice(["goodput"]), help="Find the highest rate that meets --slo.")
@click.option("--slo", metavar="ttft=0.5,tpot=50ms", help="Limits of a request, for goodput; bare numbers are seconds.")
@click.option("--attainment", metavar="99%", help="Share of requests that must meet --slo.")
@click.option("--input-tokens", type=int, help="Prompt length [tokens].")
@click.option("--output-tokens", type=int, help="Answer length [tokens]; the limit with --natural-length.")
@click.option("--natural-length", is_flag=True, help="Let the model end its answers by itself.")
@click.option("--prompts", type=click.Path(path_type=Path), help="File of prompts or a trace, see --source.")
@click.option("--source", type=click.Choice(["jsonl", "sharegpt", "azure", "mooncake"]), help="What --prompts holds.")
@click.option("--shared-prefix", metavar="50%", help="Share of synthetic prompts that all begin with.")
@click.option("--turns", type=int, help="Conversations of at most so many turns.")
@click.option("--think", metavar="2s", help="Pause before each further turn.")
@click.option("--cache", type=click.Choice(["unique", "declared", "shared"]), help="What a prefix cache may serve.")
@click.option("--pairs", metavar="6..20", help="At least and at most so many rounds.")
@click.option("--minutes", type=float, help="Time budget.")
@click.option("--block-requests", type=int, help="Requests per block.")
@click.option("--block-seconds", type=float, help="Length of a block, instead.")
@click.option("--margin", metavar="3%", help="Changes within this margin do not matter.")
@click.option("--gates", metavar="ttft_s,tpot_s", help="Metrics that decide.")
@click.option("--method", type=click.Choice(["anytime", "fixed"]), help="fixed: all pairs of --pairs, and one look.")
@click.option("--name", help="Name of the run.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with an interrupted run.")
@click.option("--runs", "root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@gate_options
def command(experiment: Path | None, resume: Path | None, root: Path, quiet: bool, **options: Any) -> int:
    """Measure EXPERIMENT (a YAML file), or servers given by URL, and give the verdict.

    \b
    bakeoff run experiment.yaml
    bakeoff run --base http://localhost:8000 --candidate http://localhost:8001 --model NAME
    """
    from ..client import listening

    with listening():  # also while it reads, and while it prints: an end that is asked for has one exit code
        gates = {key: options.pop(key) for key in _GATE_KEYS}
        question, source = _question(experiment, resume, options)
        check_limits(gates["fail_if"], gates["fail_unless"], question)
        result = measure(question, root=root, resume=resume, source=source, quiet=quiet)
        return finish(result, **gates)


def _question(experiment: Path | None, resume: Path | None, options: dict[str, Any]) -> tuple[Any, str | None]:
    """The experiment from the file, the options, or (to resume) neither."""
    from ..app import load_experiment
    from ..app.loading import engine_problems
    from ..config import CliOptions, from_options
    from ..errors import UsageError

    given = [name for name, value in options.items() if value not in (None, (), False)]
    flags = ", ".join(_FLAGS.get(name, "--" + name.replace("_", "-")) for name in given)
    if resume is not None:
        if experiment is not None or given:
            raise UsageError(
                "--resume goes on with the run as it was planned",
                where=str(experiment or flags),
                remedy="leave out the file and the other options",
            )
        return None, None
    if experiment is not None:
        if given:
            raise UsageError(
                "an experiment file and options for one without a file do not go together",
                where=flags,
                remedy="put them into the file, or leave the file out",
            )
        return load_experiment(experiment), experiment.name
    if not options["base"] or not options["candidates"]:
        raise UsageError(
            "nothing to compare",
            remedy="name an experiment file, or give --base URL and --candidate URL (see bakeoff run --help)",
        )
    checked = CliOptions(**{**options, "prompts": str(options["prompts"]) if options["prompts"] else None})
    return from_options(checked, os.environ, engine_problems=engine_problems), "command line"


def measure(
    experiment: Any,
    *,
    root: Path,
    resume: Path | None = None,
    source: str | None = None,
    quiet: bool = False,
    quality_note: str | None = None,
    foretold: str | None = None,
) -> Any:
    """Runs with the live display on stderr; `demo` shares it."""
    from ..app import run
    from ..app.foretell import foretell
    from ..runs import RunFolder
    from .progress import TerminalProgress

    question = experiment if resume is None else RunFolder.open(resume).info.experiment
    with TerminalProgress(max_rounds=question.budget.max_pairs, quiet=quiet) as progress:

        def announce() -> None:
            """Not before everything is found fit: a forecast of what cannot begin is none."""
            forecast = foretell(question, root)
            progress.say(foretold or forecast.sentence)
            for warning in forecast.warnings:
                progress.note(warning)

        return run(
            experiment if resume is None else None,
            root=root,
            resume=resume,
            progress=progress,
            source=source,
            command=shown_command(sys.argv),
            quality_note=quality_note,
            begun=announce,
        )


def shown_command(argv: list[str]) -> list[str]:
    """The command line as it may be saved: values of ``--header``, ``--body`` and secret-looking options are left out.

    Those that consist of a ``${VAR}`` (behind their name and a scheme word) hold no secret and stay.
    """
    from ..engines.literals import is_secret_name, only_references

    shown = ["bakeoff"]
    hide = False
    for word in argv[1:]:
        option, joined, value = word.partition("=")
        hides = option in ("--header", "--body") or (option.startswith("-") and is_secret_name(option))
        if hide:
            shown.append(shlex.quote(word) if only_references(_bare(word)) else "'…'")
        elif hides and joined:
            shown.append(shlex.quote(word) if only_references(_bare(value)) else f"{option}='…'")
        else:
            shown.append(shlex.quote(word))
        hide = hides and not joined and not hide
    return shown


def _bare(value: str) -> str:
    """The value without the header's or field's name."""
    return re.sub(r"\A[\w.-]+\s*[:=]", "", value)
