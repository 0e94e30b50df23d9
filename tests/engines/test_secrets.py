from __future__ import annotations

import json
import os
import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.engines.secrets import (
    Redactor,
    all_secrets,
    names,
    reference_problems,
    resolve,
    secrets_of,
    without_secrets,
)
from bakeoff.errors import ConfigError, EndpointError, printable

ENV = {"KEY": "sk-very-secret", "HOST": "example.org", "EMPTY": ""}


def test_references_are_replaced_everywhere_inside_settings() -> None:
    settings = {"headers": {"Authorization": "Bearer ${KEY}"}, "list": ["${HOST}:1", 7], "plain": "x", "none": None}
    assert resolve(settings, ENV) == {
        "headers": {"Authorization": "Bearer sk-very-secret"},
        "list": ["example.org:1", 7],
        "plain": "x",
        "none": None,
    }


def test_doubled_dollar_is_literal_and_values_are_not_resolved_again() -> None:
    assert resolve("$${KEY} ${NESTED} $ {x}", {"NESTED": "${KEY}"}) == "${KEY} ${KEY} $ {x}"
    assert names("$${KEY} ${NESTED}") == ("NESTED",)


def test_unset_variables_are_named_with_their_keys_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"a": {"b": "${NOPE}"}, "c": ["${KEY}", "${ALSO}"]}, ENV)
    assert [(p.key, "NOPE" in p.message or "ALSO" in p.message) for p in caught.value.problems] == [
        (("a", "b"), True),
        (("c", "1"), True),
    ]
    assert "a.b" in str(caught.value)
    assert "sk-very" not in str(caught.value)


@pytest.mark.parametrize("text", ["${}", "${a-b}", "${KEY:-x}", "${KEY", "${ KEY }", "${1A}"])
def test_malformed_references_are_problems(text: str) -> None:
    (problem,) = reference_problems({"k": text}, ENV)
    assert problem.key == ("k",)
    assert "$${" in problem.remedy


def test_secrets_are_the_values_that_came_in_by_reference() -> None:
    assert secrets_of({"a": "${KEY}", "b": ["${EMPTY}", "${UNSET}", "literal"]}, ENV) == {"sk-very-secret"}


def test_longest_secret_first_and_short_ones_ignored() -> None:
    redactor = Redactor(["abcd", "abcdefgh", "xyz", ""])
    assert redactor.clean("abcdefgh abcd xyz") == "*** *** xyz"
    assert "abcd" not in repr(redactor)


def test_escaped_and_many_line_secrets_are_found() -> None:
    secret = 'p@ss"word/ü'
    redactor = Redactor([secret, "-----BEGIN-----\nMIIEabc\nMIIEdef"])
    for text in (secret, json.dumps({"k": secret}), quote(secret), quote(secret, safe="")):
        assert "word" not in redactor.clean(f"<{text}>")
    assert redactor.clean("x MIIEdef") == "x ***"


@given(st.text(min_size=4, max_size=30).filter(lambda s: len(s.strip()) >= 4), st.text(), st.text())
def test_a_secret_never_survives(secret: str, before: str, after: str) -> None:
    cleaned = Redactor([secret]).clean(before + secret + after)
    # What surrounds the mask may spell the secret again only if the mask itself is part of it.
    assert secret not in cleaned or "*" in secret


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text(), max_size=4), st.text())
def test_resolve_replaces_exactly_the_references(environ: dict[str, str], text: str) -> None:
    plain = text.replace("${", "$ {")
    spelled = plain + "".join(f"${{{name}}}" for name in environ)
    if plain.endswith("$"):
        return  # the text's own dollar would escape the first reference
    assert resolve(spelled, environ) == plain + "".join(environ.values())
    assert names(spelled) == tuple(environ)


def test_errors_are_cleaned_and_their_cause_is_cut() -> None:
    error = EndpointError("bad hidden-key", where="http://hidden-key", log_tail=["x hidden-key"])
    error.__cause__ = ValueError("hidden-key")
    with pytest.raises(EndpointError) as caught, without_secrets(Redactor(["hidden-key"])):
        raise error
    assert "hidden-key" not in str(caught.value)
    assert "hidden-key" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_every_log_is_free_of_what_any_variant_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(())  # that of another variant, whose server is already up
    monkeypatch.setenv("BAKEOFF_TEST_PLAIN", "of-variant-b")
    monkeypatch.setenv("BAKEOFF_TEST_HOME", "not-a-secret")
    assert redactor.clean("x of-variant-b") == "x of-variant-b"
    resolve({"env": {"B": "${BAKEOFF_TEST_PLAIN}"}}, os.environ)
    assert redactor.clean("x of-variant-b not-a-secret") == "x *** not-a-secret"
    assert "of-variant-b" in all_secrets({})


def test_inherited_variables_with_a_secret_name_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "sk-inherited")
    monkeypatch.setenv("USE_TOKEN", "true")
    cleaned = Redactor(()).clean_all({"a": ["sk-inherited", 1, None], "b": "true"})
    assert cleaned == {"a": ["***", 1, None], "b": "true"}


def test_a_control_in_an_error_reaches_no_terminal() -> None:
    error = EndpointError("\x1b[2Jred\x1b]0;t\x07", where="a\x9b1mb", remedy="\u202eok\nthen", log_tail=["\x00l\x85og"])
    error.message += "\x1b[31m!"
    assert str(error) == "ab: red!\nlast lines of the server's log:\n    log\n→ ok\nthen"


@given(st.text(alphabet=st.characters(max_codepoint=0x20FF)))
def test_printable_texts_hold_no_controls_and_stay(text: str) -> None:
    shown = printable(text)
    assert not any((unicodedata.category(c) == "Cc" and c not in "\n\t") or c in "\u202e\u2066" for c in shown)
    assert printable(shown) == shown
