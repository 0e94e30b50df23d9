from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.config import parse_experiment
from bakeoff.config.document import MAX_NODES, read_document
from bakeoff.config.schema import SECTIONS, known_keys
from bakeoff.errors import ConfigError
from bakeoff.model import Experiment


def _data(text: str) -> dict[str, Any]:
    document, ledger = read_document(text, "x.yaml")
    ledger.raise_any()
    return document.data


def _refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        _data(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("5", 5), ("0.5", 0.5), ("1e3", 1000.0), (".5", 0.5), ("-3.", -3.0), ("010", 10), ("-7", -7)],
        *[("true", True), ("False", False), ("null", None), ("~", None), ("", None)],
        *[("on", "on"), ("no", "no"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("6..40", "6..40")],
        *[("'5'", "5"), ("0x10", "0x10"), ("1_000", "1_000"), ("=", "="), (".inf", ".inf")],
        *[("!!str 5", "5"), ("!!int '7'", 7), ("|\n  a\n  b", "a\nb\n")],
    ],
)
def test_plain_values_are_what_they_look_like(text: str, value: object) -> None:
    found = _data(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text_whatever_they_look_like() -> None:
    assert _data("{1: a, true: b, 1.5: c}") == {"1": "a", "true": "b", "1.5": "c"}


def test_merges_and_aliases() -> None:
    text = "{a: &a {x: 1, y: [1, 2]}, b: {x: 9, <<: *a}, c: {<<: [{x: 7}, *a], z: *a}}"
    assert _data(text) == {
        "a": {"x": 1, "y": [1, 2]},
        "b": {"x": 9, "y": [1, 2]},
        "c": {"x": 7, "y": [1, 2], "z": {"x": 1, "y": [1, 2]}},
    }
    assert "`<<` takes a mapping" in _refused("a: {<<: 5}")


def test_places_are_kept_through_merges() -> None:
    document, _ = read_document("a: &a {x: 1, y: 2}\nb:\n  x: 9\n  <<: *a\n", "x.yaml")
    assert document.spot(("b", "x"), on_key=True).label == "x.yaml:3:3"
    assert document.spot(("b", "y"), on_key=False).label == "x.yaml:1:17"
    assert document.spot(("b",), on_key=False).label == "x.yaml:3:3"
    assert document.spot(("b", "missing"), on_key=False).label == "x.yaml:2:1"


def test_duplicate_keys_name_both_lines() -> None:
    assert "x.yaml:1:1: a: the key stands twice, on lines 1 and 3" in _refused("a: 1\nb: 2\na: 3")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("# only a comment", "is empty"),
        ("- a\n- b", "must be a mapping"),
        ("just text", "must be a mapping"),
        ("a: [1, 2", "not valid YAML"),
        ("a: 1\n\tb: 2", "x.yaml:2:"),
        ("a: b: c", "x.yaml:1:5"),
        ("a: *nowhere", "undefined alias"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: \x00", "character that is not allowed"),
        ("a: \udc80", "not valid YAML"),
        ("a: !!python/object/apply:os.system [true]", "tags are not allowed"),
        ("a: !secret x", "tags are not allowed"),
        ("a: !!set {x, y}", "tags are not allowed"),
        ("a: !!binary aGk=", "tags are not allowed"),
        ('!!python/object/apply:os.system ["id"]', "tags are not allowed"),
        ("!secret x", "tags are not allowed"),
        ("a: 1e999", "not a number that can be used"),
        ("a: 99999999999999999999", "not a number that can be used"),
        (f"a: {'9' * 9000}", "not a number that can be used"),
        ("a: !!int x", "not a number that can be used"),
        ("{[1, 2]: 3}", "a key that is not plain text"),
        ("a: &a [*a]", "contains itself"),
        ("[" * 900, "nested deeper than 64"),
        ("[" * 100_000, "maximum nesting depth" if hasattr(yaml, "CSafeLoader") else "nested deeper than 64"),
        ("{a: " * 70 + "1" + "}" * 70, "nested deeper than 64"),
        ("a:\n " + "- " * 5000 + "a", "nested deeper than 64"),
        ("a: [" + "1," * (2 * MAX_NODES + 10) + "]", "100,000 values"),
        ("#" * (1 << 20) + "\n", "1 MiB"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    assert expected in _refused(text)


def test_an_alias_bomb_is_not_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    assert "expands to more than 100,000 values" in _refused("\n".join(lines))


def test_control_characters_do_not_reach_a_terminal() -> None:
    report = _parse_text('"a\\e[31mb": 1\nvariants: "\\e[2J"\n')
    assert "\x1b" not in report
    assert "\\x1b[31m" in report


def _parse_text(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_experiment(text, "x.yaml", Path("/nowhere"), {})
    return str(caught.value)


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["${X}", "once", "6..40"]),
)
_NAMES = st.sampled_from(
    sorted({*known_keys(()), *(key for model in SECTIONS.values() for key in model.model_fields), "base", "chat"})
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_NAMES | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=25,
)


def _only_config_errors(text: str) -> None:
    try:
        experiment = parse_experiment(text, "x.yaml", Path("/nowhere"), {}, engine_problems=lambda *_: ())
    except ConfigError as error:
        experiment = None
        report = str(error)
    assert isinstance(experiment, Experiment) or ("x.yaml" in report and "\x1b" not in report)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_text_parses_or_gives_a_config_error(text: str) -> None:
    _only_config_errors(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(alphabet=" \n\t-:{}[],&*!|>'\"%@`#<?~ab1.$", max_size=120))
def test_any_yaml_like_text_parses_or_gives_a_config_error(text: str) -> None:
    _only_config_errors(text)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(_NAMES, _TREES, max_size=8))
def test_any_tree_parses_or_gives_a_config_error(tree: dict[str, Any]) -> None:
    _only_config_errors(yaml.safe_dump(tree, allow_unicode=True))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(value=_TREES, place=st.integers(0, 10**6))
def test_any_value_in_place_of_a_good_one(value: object, place: int) -> None:
    good = {
        "variants": {"base": {"engine": "x"}, "flash": {"engine": "x"}},
        "workloads": {
            "chat": {
                "prompts": {"input_tokens": 8, "output_tokens": 8},
                "load": {"concurrency": [1]},
                "block": {"requests": 4},
            }
        },
        "budget": {"pairs": "6..40"},
        "gates": ["ttft_s"],
    }
    sections: list[tuple[dict[str, Any], str]] = []

    def collect(section: dict[str, Any]) -> None:
        for key, inner in section.items():
            sections.append((section, key))
            if isinstance(inner, dict):
                collect(inner)

    collect(good)
    section, key = sections[place % len(sections)]
    section[key] = value
    _only_config_errors(yaml.safe_dump(good, allow_unicode=True))


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999", "-1e999"])
@pytest.mark.parametrize(
    "place",
    ["input_tokens: 8", "output_tokens: 4", "concurrency: 1", "requests: 16", "pairs: 6", "margin: 0.03", "seed: 0"],
)
def test_a_number_that_cannot_be_used_is_one_problem_and_not_two(place: str, number: str, tmp_path: Path) -> None:
    text = """
variants:
  base: {engine: openai, url: "http://127.0.0.1:1"}
  flash: {engine: openai, url: "http://127.0.0.1:2"}
workloads:
  chat:
    prompts: {input_tokens: 8}
    output_tokens: 4
    load: {concurrency: 1}
    block: {requests: 16}
budget: {pairs: 6}
margin: 0.03
seed: 0
"""
    parse_experiment(text, "x.yaml", tmp_path, {})
    with pytest.raises(ConfigError) as caught:
        parse_experiment(text.replace(place, f"{place.partition(':')[0]}: {number}"), "x.yaml", tmp_path, {})
    (problem,) = caught.value.problems
    assert "not a number that can be used" in problem.message
