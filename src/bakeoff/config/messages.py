"""pydantic's errors in words that say what is wrong with this file and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .places import Key, Ledger, did_you_mean, nearest, shown
from .schema import SECTIONS, known_keys

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MISSING = {
    "variants": "variants: {base: {engine: …}, candidate: {engine: …}}",
    "workloads": "workloads: {chat: {prompts: {…}, load: {concurrency: 1}}}",
    "engine": "engine: openai | command | llamacpp",
    "prompts": "prompts: {input_tokens: 256, output_tokens: 64}",
    "load": "load: {concurrency: [1, 4]}, or {rate: 2}",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least {}, not {}"),
    "greater_than": ("gt", "must be more than {}, not {}"),
    "less_than_equal": ("le", "must be at most {}, not {}"),
    "less_than": ("lt", "must be less than {}, not {}"),
}
_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
}


def note_errors(errors: list[ErrorDetails], data: Mapping[str, Any], ledger: Ledger) -> None:
    """Puts each error into the ledger, at the key that it concerns."""
    unknown = [tuple(map(str, error["loc"])) for error in errors if error["type"] == "extra_forbidden"]
    misspelt = {(*key[:-1], nearest(key[-1], known_keys(key[:-1]))) for key in unknown}
    for error in errors:
        loc = tuple(str(part) for part in error["loc"])
        if error["type"] == "missing" and loc in misspelt:
            continue  # it is there, under a misspelt name
        if loc and loc[-1] == "[key]":
            ledger.add(loc[:-1], *_bad_name(error, loc), on_key=True)
            continue
        key = _existing(loc, data) if error["type"] != "missing" else loc
        message, remedy = _explain(error, key)
        ledger.add(key, message, remedy, on_key=error["type"] == "extra_forbidden")


def _existing(loc: Key, data: Any) -> Key:
    """The part of pydantic's path that is in the file: a lone number is wrapped into a list before it is checked."""
    for place, part in enumerate(loc):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        else:
            return loc[:place]
    return loc


def _bad_name(error: ErrorDetails, loc: Key) -> tuple[str, str]:
    """A key of a mapping whose keys are not those of a section: a name of the user's, or one of a few words."""
    section, word = loc[0], loc[-2]
    if error["type"] == "literal_error":
        known = _quoted(str(error.get("ctx", {})["expected"]))
        meant = next((name for name in known if name.startswith(f"{word}_")), None)
        hint = f"; did you mean {meant!r}?" if meant else did_you_mean(word, known)
        return f"unknown key{hint}", "" if hint else f"known here: {', '.join(known)}"
    allowed = "letters, digits, _, - and ." if section == "variants" else "letters, digits, _ and -"
    return f"is not a usable name: {allowed} (at most 64), starting with a letter or digit", ""


def _explain(error: ErrorDetails, key: Key) -> tuple[str, str]:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return _unknown(key)
    if kind == "missing":
        return "is missing", _MISSING.get(key[-1], "")
    if kind in _BOUNDS:
        name, form = _BOUNDS[kind]
        return form.format(_number(context[name]), shown(value)), ""
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {shown(value)}", ""
    if kind == "literal_error":
        choices = str(context["expected"])
        hint = did_you_mean(value, _quoted(choices)) if isinstance(value, str) else ""
        return f"must be {choices}, not {shown(value)}{hint}", ""
    if kind == "value_error":
        return str(context["error"]), ""
    return _SPECIAL.get(kind, _other)(error, key)


def _unknown(key: Key) -> tuple[str, str]:
    section, word = key[:-1], key[-1]
    known = known_keys(section)
    hint = did_you_mean(word, known)
    if hint:
        return f"unknown key{hint}", ""
    for pattern, model in SECTIONS.items():
        if pattern and word in model.model_fields:
            return f"unknown key here; it belongs into `{pattern[-1] if pattern[-1] != '*' else pattern[0]}`", ""
    if word in known_keys(()):
        return "unknown key here; it belongs to the top level of the file", ""
    return "unknown key", f"known here: {', '.join(known)}" if known else ""


def _too_short(_error: ErrorDetails, key: Key) -> tuple[str, str]:
    if key == ("variants",):
        return "needs a base and at least one candidate", "the first variant is the base"
    return "must not be empty", ""


def _pattern(error: ErrorDetails, key: Key) -> tuple[str, str]:
    if key == ("name",):
        return f"must be text without slashes and line breaks, not {shown(error['input'])}", ""
    return _other(error, key)


def _too_long(error: ErrorDetails, _key: Key) -> tuple[str, str]:
    return f"is too long (at most {error.get('ctx', {}).get('max_length')} characters)", ""


def _other(error: ErrorDetails, _key: Key) -> tuple[str, str]:
    return f"cannot be used: {error['msg']}", ""


_SPECIAL: dict[str, Callable[[ErrorDetails, Key], tuple[str, str]]] = {
    "too_short": _too_short,
    "string_too_short": _too_short,
    "string_pattern_mismatch": _pattern,
    "string_too_long": _too_long,
}


def _number(value: object) -> str:
    """Bounds with few digits: 100000, but 2^63 in a form that can be read."""
    if isinstance(value, int) and abs(value) >= 10**15:
        return f"2^{value.bit_length() - 1}"
    return f"{value:,}".replace(",", "") if isinstance(value, int) else f"{value:g}"


def _quoted(choices: str) -> list[str]:
    return choices.split("'")[1::2]
