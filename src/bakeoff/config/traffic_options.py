"""The one workload of a command line: the options that say what is sent, and when."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .places import Key, Ledger, shown
from .traffic import RECORDED

if TYPE_CHECKING:
    from .options import CliOptions

WORKLOAD = "main"  # the one workload's name, for gates and limits such as main.tpot_s
DEFAULT_INPUT_TOKENS = 256
DEFAULT_OUTPUT_TOKENS = 64
# Limits of a request, by the names that a command line may also use.
_LIMITS = {"ttft": "ttft_s", "ttfo": "ttfo_s", "tpot": "tpot_s", "e2e": "e2e_latency_s"}
_LOADS = ("concurrency", "rate", "replay")


def _at(*key: str) -> Key:
    return ("workloads", WORKLOAD, *key)


LOAD = _at("load")

# Keys that remedies for a file name, each with its value, and the options that set them.
_REMEDIES = (
    (re.compile(r"slo: \{ttft_s: 0\.5, tpot_s: 50ms\}"), "--slo ttft=0.5,tpot=50ms"),
    (re.compile(r"set workloads\.main\.slo: \{ttft_s: 0\.5\}"), "--slo ttft=0.5"),
    (re.compile(r"block: \{requests: 16\}, or \{seconds: 20\}"), "--block-requests 16, or --block-seconds 20"),
    (re.compile(r"write \{concurrency: \[1, 4\]\} or \{rate: \[2, 4\]\}.*"), "give one of them"),
    (re.compile(r"set prompts\.source to"), "set --source to"),
    (re.compile(r"\bload\.attainment\b"), "--attainment"),
    (re.compile(r"`?\blength: natural\b`?"), "--natural-length"),
    (re.compile(r"\bpath: "), "--prompts "),
    (re.compile(r"\bgates: \[([\w, ]+)\]"), r"--gates \1"),
    (re.compile(r"\bstarts: every round\b"), "an experiment file, with starts: every round"),
    (
        re.compile(
            r"\b(turns|input_tokens|output_tokens|find|sweep|burstiness|attainment|cache|method|margin): (?=\S)"
        ),
        lambda match: f"--{match[1].replace('_', '-')} ",
    ),
)

#: Which option a key of the workload came from; the first that fits.
TRAFFIC_PLACES: tuple[tuple[Key, str], ...] = (
    (_at("load", "concurrency"), "--concurrency"),
    (_at("load", "rate"), "--rate"),
    (_at("load", "replay"), "--replay"),
    (_at("load", "arrivals"), "--arrivals"),
    (_at("load", "burstiness"), "--burstiness"),
    (_at("load", "sweep"), "--sweep"),
    (_at("load", "find"), "--find"),
    (_at("load", "attainment"), "--attainment"),
    (_at("load", "slo"), "--slo"),
    (_at("slo"), "--slo"),
    (_at("prompts", "input_tokens"), "--input-tokens"),
    (_at("prompts", "path"), "--prompts"),
    (_at("prompts", "source"), "--source"),
    (_at("prompts", "shared_prefix"), "--shared-prefix"),
    (_at("prompts", "turns"), "--turns"),
    (_at("prompts", "think"), "--think"),
    (_at("output_tokens"), "--output-tokens"),
    (_at("block", "seconds"), "--block-seconds"),
    (_at("block", "requests"), "--block-requests"),
    (_at("block"), "--block-requests, --block-seconds"),
    (_at("api"), "--api"),
    (_at("cache"), "--cache"),
)


def workload_of(options: CliOptions, ledger: Ledger) -> dict[str, Any]:
    """The workload as a file would have it; what cannot even be read is noted."""
    output_tokens = options.output_tokens
    if output_tokens is None and options.source not in RECORDED:
        output_tokens = DEFAULT_OUTPUT_TOKENS
    return {
        "prompts": _prompts(options),
        "length": "natural" if options.natural_length else "fixed",
        "load": _load(options, ledger),
        **given(
            output_tokens=output_tokens,
            api=options.api,
            cache=options.cache,
            slo=_limits(options.slo, ledger),
            block=given(requests=options.block_requests, seconds=options.block_seconds) or None,
        ),
    }


def given_loads(options: CliOptions) -> str:
    """The options that say what the load is; the two usual ones where none was given."""
    found = [f"--{name}" for name in (*_LOADS, "sweep", "find") if getattr(options, name) is not None]
    return ", ".join(found) or "--concurrency, --rate"


def remedy_for_options(text: str) -> str:
    """A remedy that is worded for a file, worded for a command line."""
    for pattern, option in _REMEDIES:
        text = pattern.sub(option, text)
    return text


def given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def _prompts(options: CliOptions) -> dict[str, Any]:
    input_tokens = options.input_tokens
    if input_tokens is None and options.prompts is None and options.source in (None, "synthetic"):
        input_tokens = DEFAULT_INPUT_TOKENS
    return given(
        source=options.source,
        path=options.prompts,
        input_tokens=input_tokens,
        shared_prefix=_number(options.shared_prefix),
        turns=options.turns,
        think=_number(options.think),
    )


def _load(options: CliOptions, ledger: Ledger) -> dict[str, Any]:
    load = given(
        arrivals=options.arrivals,
        burstiness=options.burstiness,
        sweep=options.sweep,
        find=options.find,
        attainment=_number(options.attainment),
        **{name: _levels(f"--{name}", getattr(options, name), ledger) for name in _LOADS},
    )
    if all(getattr(options, name) is None for name in (*_LOADS, "sweep", "find")):
        load["concurrency"] = 1
    return load


def _levels(option: str, text: str | None, ledger: Ledger) -> list[Any] | None:
    """``1,4`` → [1, 4]; None where it is not given, and a stand-in where it cannot be read (noted)."""
    if text is None:
        return None
    try:
        return [int(part) if re.fullmatch(r"\s*[+-]?\d{1,9}\s*", part) else float(part) for part in text.split(",")]
    except ValueError:
        ledger.add((option,), f"must be numbers with commas between, not {shown(text)}", f"{option} 1,4")
        return [1]


def _number(text: str | None) -> Any:
    """A bare number as one; what has a unit stays text."""
    return float(text) if text is not None and re.fullmatch(r"\s*\d*\.?\d+\s*", text) else text


def _limits(text: str | None, ledger: Ledger) -> dict[str, Any] | None:
    """``ttft=0.5,tpot=50ms`` → {"ttft_s": 0.5, "tpot_s": "50ms"}."""
    if text is None:
        return None
    limits: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = _LIMITS.get(name, name)
        if not equals or name not in _LIMITS.values():
            message = f"must be limits of a request with commas between, not {shown(text)}"
            ledger.add(("--slo",), message, f"--slo ttft=0.5,tpot=50ms; also {', '.join(_LIMITS)}")
            return None
        limits[name] = _number(value)
    return limits
