"""Every command in the documentation uses verbs and options that exist; options and exit codes are all explained."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
import yaml

from bakeoff import errors
from bakeoff.cli.main import cli

from .pages import code_blocks, page, pages


def _lines() -> Iterator[tuple[str, str]]:
    """(place, command) of every line of a shell block or a job that calls bakeoff."""
    for block in code_blocks("bash") + code_blocks("console") + code_blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            yield block.id, line.removeprefix("$ ")
    for block in code_blocks("yaml"):
        data = yaml.safe_load(block.text)
        for job in data.get("jobs", {}).values():
            for step in job["steps"]:
                yield from ((block.id, line) for line in str(step.get("run", "")).splitlines())
    for path in pages():
        for code in re.findall(r"`(bakeoff [^`\n]+)`", path.read_text(encoding="utf-8")):
            yield path.name, code


def _calls() -> list[tuple[str, list[str]]]:
    """(place, words after `bakeoff`) of every call, without what the shell takes (pipes, redirections, comments)."""
    found = []
    for place, line in _lines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        call: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set("();<>|&"):
                call.append(word)
                continue
            if call[:1] == ["bakeoff"]:
                found.append((place, [word for word in call[1:] if word != "…"]))
            # What follows a redirection is a file, no call.
            call = [">"] if ">" in word or "<" in word else []
    return [(place, words) for place, words in found if words]


def _verb(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no verb {name!r}"
    return command


def test_there_are_commands() -> None:
    assert len(_calls()) >= 10


@pytest.mark.parametrize(("place", "words"), _calls(), ids=lambda value: value if isinstance(value, str) else None)
def test_commands_exist(place: str, words: list[str]) -> None:
    if words[0].startswith("-"):
        assert words[0] in ("--help", "--version", "-h"), place
        return
    command = _verb(words[0])
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    given = {word.partition("=")[0] for word in words[1:] if re.match(r"-{1,2}[a-z]", word)}
    assert given <= known, f"{place}: {sorted(given - known)}"
    if words[-1].startswith("--") and "EXPERIMENT" not in words:
        return  # an option named in passing, without its value
    # Parsed, not run: a wrong value or a missing argument raises.
    command.make_context(words[0], words[1:], resilient_parsing=False)


def test_options_of_run_without_a_file_are_all_explained() -> None:
    text = page("experiment-file.md") + page("ci.md")
    for parameter in _verb("run").params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in text, parameter.opts[0]


def test_exit_codes_are_all_explained() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    explained = set(map(int, re.findall(r"^\| (\d+) \|", page("ci.md"), re.MULTILINE)))
    assert explained == codes


def test_every_limit_in_the_pages_can_be_read() -> None:
    from bakeoff.app.limits import parse_limit

    limits = [m for path in pages() for m in re.findall(r"--fail-(?:if|unless) '([^']+)'", path.read_text("utf-8"))]
    assert len(limits) >= 4
    for text in limits:
        assert parse_limit(text).text == text
