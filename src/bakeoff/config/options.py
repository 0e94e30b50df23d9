"""`bakeoff run --base URL --candidate URL …`: the same experiment without a file, through the same checks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..model import Experiment, Problem, Variant
from ..web.address import is_socket
from .build import EngineProblems, build_experiment
from .places import Key, Ledger, Spot, shown
from .references import has_reference
from .rules import RUNNING_ENGINE
from .traffic_options import LOAD, TRAFFIC_PLACES, WORKLOAD, given, given_loads, remedy_for_options, workload_of

# engine:value → the setting that takes the value.
_VALUE_KEYS = {"openai": "url", "llamacpp": "model", "command": "command"}
_ENGINE = re.compile(r"([a-z][a-z0-9_-]*):(?!//)(.+)", re.DOTALL)
_SECRET_HEADER = re.compile(r"(authorization|cookie|token|secret|password|credentials?|key)\Z", re.IGNORECASE)
_PRICE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*")


class CliOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were typed; None: not given.

    base, candidates: a URL, a .gguf file, or engine:value. concurrency, rate, replay: numbers with commas between.
    slo: "ttft=0.5,tpot=50ms". think, shared_prefix, attainment: as in a file, with their unit.
    headers: "Name: value". body: "key=JSON". price: "input/output" per million tokens in USD, or "free".
    gates: names with commas between, or several of them. minutes: a number, or a text with its unit.
    """

    base: str | None = None
    candidates: tuple[str, ...] = ()
    model: str | None = None
    candidate_model: str | None = None
    api: str | None = None
    api_key_env: str | None = None
    headers: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    price: str | None = None
    concurrency: str | None = None
    rate: str | None = None
    arrivals: str | None = None
    burstiness: float | None = None
    replay: str | None = None
    sweep: str | None = None
    find: str | None = None
    slo: str | None = None
    attainment: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    natural_length: bool = False
    prompts: str | None = None
    source: str | None = None
    shared_prefix: str | None = None
    turns: int | None = None
    think: str | None = None
    cache: str | None = None
    pairs: str | None = None
    minutes: float | str | None = None
    block_requests: int | None = None
    block_seconds: float | None = None
    margin: str | None = None
    gates: tuple[str, ...] | str | None = None
    starts: str | None = None
    method: str | None = None
    name: str | None = None


class _Options:
    """Places on a command line: the option that a key came from."""

    _OPTIONS: tuple[tuple[Key, str], ...] = (
        *TRAFFIC_PLACES,
        (("budget", "pairs"), "--pairs"),
        (("budget", "minutes"), "--minutes"),
        (("margin",), "--margin"),
        (("gates",), "--gates"),
        (("starts",), "--starts"),
        (("method",), "--method"),
        (("name",), "--name"),
    )
    _SETTINGS = {  # noqa: RUF012 (a constant table)
        "headers": "--header",
        "body": "--body",
        "price": "--price",
        "api_key": "--api-key-env",
    }

    def __init__(self, loads: str) -> None:
        """loads: the options that were given for the load."""
        self._loads = loads

    def remedy(self, text: str) -> str:
        """Keys of a file as the options that set them."""
        return remedy_for_options(text)

    def spot(self, key: Key, *, on_key: bool) -> Spot:
        """The option; for a variant, the one that names it, with the setting beside it."""
        del on_key  # an option has one place
        if len(key) == 1 and key[0].startswith("--"):
            return Spot((0,), key[0], names_key=True)
        if key[:1] == ("variants",):
            return self._variant_spot(key)
        if key == LOAD:
            return Spot((2, 0), self._loads, names_key=True)
        for place, (known, option) in enumerate(self._OPTIONS):
            if key[: len(known)] == known:
                return Spot((2, place), option, names_key=True)
        return Spot((3,), "options")

    def _variant_spot(self, key: Key) -> Spot:
        if len(key) > 2 and key[2] in self._SETTINGS:
            return Spot((1, 2), self._SETTINGS[key[2]], names_key=True)
        base = len(key) > 1 and key[1] == "base"
        option = "--base" if base else "--candidate"
        if len(key) > 2 and key[2] == "model":
            option += " (model)"
        return Spot((1, 0 if base else 1), option, names_key=True)


def from_options(
    options: CliOptions, environ: Mapping[str, str], engine_problems: EngineProblems | None = None
) -> Experiment:
    """The experiment that the options describe; raises ConfigError with every problem, each with its option.

    Variants are called base and candidate (or candidate-1, candidate-2, …), the workload `main`. Paths are relative
    to the current folder.
    """
    ledger = Ledger("the options", _Options(given_loads(options)))
    data: dict[str, Any] = {
        "variants": _variants(options, ledger),
        "workloads": {WORKLOAD: workload_of(options, ledger)},
        "budget": given(pairs=_pairs(options.pairs), minutes=options.minutes),
        **given(
            margin=options.margin,
            gates=_gates(options.gates),
            starts=options.starts,
            method=options.method,
            name=options.name,
        ),
    }
    unusable = {name for name in data["variants"] if ledger.has(("variants", name)) or ledger.has((f"--{name}",))}

    def problems_of(variant: Variant, where: Path) -> Sequence[Problem]:
        return engine_problems(variant, where) if engine_problems and variant.name not in unusable else ()

    return build_experiment(
        data,
        ledger,
        where=Path.cwd(),
        environ=environ,
        default_name="base-against-candidate",
        engine_problems=problems_of,
    )


def _variants(options: CliOptions, ledger: Ledger) -> dict[str, Any]:
    if not options.base:
        ledger.add(("--base",), "is missing", "--base URL (or a .gguf file)")
    if not any(options.candidates):
        ledger.add(("--candidate",), "is missing", "--candidate URL (or a .gguf file)")
    candidates = options.candidates or ("",)
    single = len(candidates) == 1
    names = ["base", *("candidate" if single else f"candidate-{n + 1}" for n in range(len(candidates)))]
    shared = _server_settings(options, ledger)
    variants: dict[str, Any] = {}
    for name, text in zip(names, (options.base or "", *candidates), strict=True):
        variant = _variant(name, text, ledger) if text else {}
        if variant.get("engine") == RUNNING_ENGINE:
            model = options.candidate_model if name != "base" and options.candidate_model else options.model
            variant.update(given(model=model), **shared)
        variants[name] = variant
    engines = {variant.get("engine") for variant in variants.values()}
    if RUNNING_ENGINE not in engines and None not in engines:
        for option, value in (("--model", options.model), ("--candidate-model", options.candidate_model)):
            if value:
                ledger.add((option,), "is for servers given by URL", "leave it out")
        if shared:
            remedy = "leave out --header, --body, --price and --api-key-env"
            ledger.add(("--header",), "is, like --body, --price and --api-key-env, for servers given by URL", remedy)
    return {name: variant or {"engine": RUNNING_ENGINE} for name, variant in variants.items()}


def _variant(name: str, text: str, ledger: Ledger) -> dict[str, Any]:
    """The engine and its main setting. The text is never shown: a URL may carry a password."""
    if text.startswith(("http://", "https://")) or is_socket(text):
        return {"engine": RUNNING_ENGINE, "url": text}
    match = _ENGINE.fullmatch(text)
    if match and match[1] in _VALUE_KEYS:
        return {"engine": match[1], _VALUE_KEYS[match[1]]: match[2]}
    if text.endswith(".gguf"):
        return {"engine": "llamacpp", "model": text}
    ledger.add(
        ("variants", name),
        "is neither a URL, nor a .gguf file, nor engine:value",
        f"write http://…, model.gguf, or one of {', '.join(f'{e}:…' for e in _VALUE_KEYS)}; "
        "any other engine needs an experiment file",
    )
    return {}


def _server_settings(options: CliOptions, ledger: Ledger) -> dict[str, Any]:
    """Settings that all servers given by URL share."""
    settings: dict[str, Any] = {}
    if options.api_key_env is not None:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", options.api_key_env):
            settings["api_key"] = f"${{{options.api_key_env}}}"
        else:  # not shown: it may be the key itself
            ledger.add(("--api-key-env",), "takes the name of a variable, not its value", "--api-key-env MY_API_KEY")
    headers = dict(filter(None, (_header(text, ledger) for text in options.headers)))
    body = dict(filter(None, (_field(text, ledger) for text in options.body)))
    price = _price(options.price, ledger)
    if headers:
        settings["headers"] = headers
    if body:
        settings["body"] = body
    if price is not None:
        settings["price"] = price
    return settings


def _header(text: str, ledger: Ledger) -> tuple[str, str] | None:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not value or not re.fullmatch(r"[!-~]+", name):
        ledger.add(("--header",), "must be 'Name: value'", "--header 'X-Team: speech'")
        return None
    if _SECRET_HEADER.search(name) and not has_reference(value):
        ledger.add(
            ("--header",),
            f"{shown(name)} looks like a secret, and its value would be saved with the run",
            f"put it into an environment variable: --header '{name}: ${{NAME}}' (in single quotes)",
        )
        return None
    return name, value


def _field(text: str, ledger: Ledger) -> tuple[str, Any] | None:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        ledger.add(("--body",), "must be 'key=JSON'", "--body 'top_k=20'")
        return None
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        remedy = f"text needs its quotes: --body '{key.strip()}=\"…\"'"
        ledger.add(("--body",), f"the value of {shown(key.strip())} is not JSON", remedy)
        return None


def _price(text: str | None, ledger: Ledger) -> str | dict[str, Any] | None:
    if text is None or text.strip() == "free":
        return text and text.strip()
    match = _PRICE.fullmatch(text)
    if not match:
        message = f"must be input/output per million tokens in USD, or free, not {shown(text)}"
        ledger.add(("--price",), message, "--price 0.15/0.60")
        return None
    return {"input": float(match[1]), "output": float(match[2]), "currency": "USD"}


def _pairs(text: str | None) -> Any:
    return int(text) if text is not None and re.fullmatch(r"\s*\d{1,9}\s*", text) else text


def _gates(gates: tuple[str, ...] | str | None) -> list[str] | None:
    """None where no gate is given: the default ones."""
    texts = (gates,) if isinstance(gates, str) else gates or ()
    return [part.strip() for text in texts for part in text.split(",")] if texts else None
