"""An experiment file → Experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..model import Experiment
from .build import EngineProblems, build_experiment
from .document import MAX_BYTES, read_document
from .places import did_you_mean


def load_experiment(
    path: Path, environ: Mapping[str, str], engine_problems: EngineProblems | None = None
) -> Experiment:
    """Reads an experiment file.

    environ: where ``${VAR}`` is looked up (only whether it is set; values stay out of the experiment).
    engine_problems: what an engine finds wrong with a variant's settings; its keys are relative to the variant.
    Raises ConfigError with every problem, each with its line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError("there is no such file", where=str(path), remedy=_similar(path)) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read: {reason}", where=str(path), remedy="name an experiment file") from error
    if len(content) > MAX_BYTES:
        raise ConfigError("is larger than 1 MiB", where=str(path), remedy="an experiment file is a page of text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", where=f"{path}:{line}", remedy="save it as UTF-8") from None
    return parse_experiment(text, str(path), path.absolute().parent, environ, engine_problems)


def parse_experiment(
    text: str,
    source: str,
    where: Path,
    environ: Mapping[str, str],
    engine_problems: EngineProblems | None = None,
) -> Experiment:
    """As :func:`load_experiment`, from text. source: its name in messages. where: the folder of relative paths."""
    document, ledger = read_document(text, source)
    return build_experiment(
        document.data,
        ledger,
        where=where,
        environ=environ,
        default_name=_usable_name(Path(source).stem),
        engine_problems=engine_problems,
    )


def experiment_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, for editors and other tools."""
    from .schema import ExperimentFile

    schema = ExperimentFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Bakeoff experiment"}


def _usable_name(stem: str) -> str:
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem).strip(".-")
    return kept[:100] or "experiment"


def _similar(path: Path) -> str:
    try:
        names = [entry.name for entry in path.absolute().parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return "check the path"
    return ("check the path" + did_you_mean(path.name, sorted(names)[:200])).strip()
