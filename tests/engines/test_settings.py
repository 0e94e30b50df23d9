from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bakeoff.engines.settings import SettingsReader, did_you_mean, refuse
from bakeoff.errors import ConfigError

ENV = {"PORT": "8080", "WORD": "eleven", "FLAG": "true"}


def reader(**settings: Any) -> SettingsReader:
    return SettingsReader(settings, ENV)


def test_values_are_read_and_nothing_is_wrong() -> None:
    r = reader(a="x", n=3, f=0.5, b=True, d="50ms", e=2, m={"k": 1}, inner={"x": 1}, none=None)
    assert (r.text("a"), r.integer("n"), r.number("f"), r.flag("b", False)) == ("x", 3, 0.5, True)
    assert (r.duration("d", 1.0), r.duration("e", 1.0), r.duration("absent", 7.0)) == (0.05, 2.0, 7.0)
    assert r.texts("m") == {"k": "1"}
    inner = r.nested("inner")
    assert inner.integer("x") == 1
    assert r.text("none", "default") == "default"
    assert inner.finish() == []
    assert r.finish() == []


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("x", lambda r: r.integer("k")),
        (1.5, lambda r: r.integer("k")),
        (True, lambda r: r.integer("k")),
        (-1, lambda r: r.integer("k")),
        (float("nan"), lambda r: r.number("k")),
        ("3", lambda r: r.number("k")),
        ("yes please", lambda r: r.flag("k", False)),
        ("50", lambda r: r.duration("k", 1.0)),
        (0, lambda r: r.duration("k", 1.0)),
        ("2 days", lambda r: r.duration("k", 1.0)),
        (["x"], lambda r: r.text("k")),
        ("  ", lambda r: r.text("k")),
        ("blue", lambda r: r.text("k", "red", ("red", "green"))),
        ("x", lambda r: r.mapping("k")),
        ({"a": [1]}, lambda r: r.texts("k")),
    ],
)
def test_wrong_values_are_problems_of_their_key(value: Any, read: Callable[[SettingsReader], Any]) -> None:
    r = reader(k=value)
    read(r)
    (problem,) = r.finish()
    assert problem.key[0] == "k"


def test_numbers_and_flags_may_come_in_by_reference() -> None:
    r = reader(port="${PORT}", word="${WORD}", flag="${FLAG}")
    assert r.integer("port") == 8080
    assert r.flag("flag", False) is True
    assert r.integer("word") is None
    (problem,) = r.finish()
    assert "${WORD}" in problem.message
    assert "eleven" not in problem.message


def test_unset_variable_is_one_problem_and_the_default_is_read() -> None:
    r = reader(port="${UNSET}")
    assert r.integer("port", 5) == 5
    (problem,) = r.finish()
    assert "UNSET" in problem.message


def test_unknown_keys_are_named_with_the_nearest_known_one() -> None:
    r = reader(contxt=1)
    r.integer("context")
    (problem,) = r.finish()
    assert problem.key == ("contxt",)
    assert "did you mean 'context'" in problem.message


def test_yaml_booleans_count_as_the_words_they_were() -> None:
    r = reader(flash=True, other=False)
    assert r.text("flash", "auto", ("auto", "on", "off")) == "on"
    assert r.text("other", "auto", ("auto", "true", "false")) == "false"
    assert r.finish() == []


def test_refuse_carries_all_problems() -> None:
    r = reader(a=1, b=2)
    with pytest.raises(ConfigError) as caught:
        refuse(r.finish(), "variants.flash")
    assert [p.key for p in caught.value.problems] == [("a",), ("b",)]
    assert "variants.flash" in str(caught.value)
    refuse([], "variants.flash")


def test_did_you_mean_is_silent_when_nothing_is_near() -> None:
    assert did_you_mean("zzz", ("context",)) == ""
