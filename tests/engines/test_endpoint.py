from __future__ import annotations

from typing import Any

import pytest

from bakeoff.engines.endpoint import is_local, read_endpoint, read_url, server_root
from bakeoff.engines.settings import SettingsReader
from bakeoff.model import Problem

ENV = {"KEY": "sk-very-secret", "BAD": "two\nlines", "EMPTY": ""}


def url_of(text: Any) -> tuple[str | None, list[Problem]]:
    reader = SettingsReader({"url": text}, ENV)
    return read_url(reader), reader.finish()


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("https://api.example.org/v1/chat/completions", "https://api.example.org/v1"),
        ("https://api.example.org/v1/completions/", "https://api.example.org/v1"),
        ("https://example.org/proxy", "https://example.org/proxy/v1"),
        ("https://example.org/api/v3", "https://example.org/api/v3"),
        ("https://example.org/v1beta/openai", "https://example.org/v1beta/openai"),
        ("http://[::1]:9", "http://[::1]:9/v1"),
        ("http://h/v1/responses", "http://h/v1"),
        ("http://h/v1/messages/", "http://h/v1"),
        ("unix:///run/a.sock", "http+unix://%2Frun%2Fa.sock/v1"),
        ("unix:///run/v1/a.sock/v1", "http+unix://%2Frun%2Fv1%2Fa.sock/v1"),
        ("http+unix://%2Frun%2Fa%20b/openai/v1/chat/completions", "http+unix://%2Frun%2Fa%20b/openai/v1"),
    ],
)
def test_urls_are_normalised(written: str, base: str) -> None:
    assert url_of(written) == (base, [])


@pytest.mark.parametrize(
    "written",
    [
        "127.0.0.1:8000",
        "ftp://x",
        "http://",
        "http://host:99999",
        "http://host:x",
        "http://user:hunter22@host",
        "http://host/v1?key=abc",
        "http://host/a b",
        "http://[::1",
        "unix:///run/server/v1",
        "unix://run/a.sock",
        "http+unix://run%2Fa.sock/v1",
        "unix:///run/a.sock/v1?key=abc",
        7,
        "",
        None,
    ],
)
def test_bad_urls_are_problems_and_show_no_password(written: Any) -> None:
    url, problems = url_of(written)
    assert url is None
    assert problems[0].key == ("url",)
    assert "hunter22" not in str(problems)


def test_root_and_locality() -> None:
    assert server_root("http://h:1/v1") == "http://h:1"
    assert server_root("http://h/v1beta/openai") == "http://h/v1beta/openai"
    assert is_local("http://127.0.0.1:1/v1")
    assert is_local("http://localhost/v1")
    assert is_local("http://[::1]:1/v1")
    assert is_local("http+unix://%2Frun%2Fa.sock/v1")
    assert server_root("http+unix://%2Frun%2Fa.sock/v1") == "http+unix://%2Frun%2Fa.sock"
    assert not is_local("http://example.org/v1")


def read(**settings: Any) -> tuple[Any, list[Problem]]:
    reader = SettingsReader(settings, ENV)
    return read_endpoint(reader), reader.finish()


def test_settings_are_read() -> None:
    found, problems = read(
        model="m",
        api_key="${KEY}",
        headers={"X-Team": "speed"},
        body={"top_k": 3},
        ignore_eos="true",
        price={"input": 0.1, "output": 2, "currency": "EUR"},
        requests_per_minute=30,
        request_timeout="2 min",
        first_byte_timeout="90s",
        chunk_counts=True,
    )
    assert problems == []
    assert found.headers == {"X-Team": "speed", "Authorization": "Bearer sk-very-secret"}
    assert (found.body, found.ignore_eos, found.requests_per_minute) == ({"top_k": 3}, True, 30)
    assert (found.request_timeout_s, found.connect_timeout_s) == (120.0, 10.0)
    assert (found.first_byte_timeout_s, found.idle_timeout_s, found.chunk_counts) == (90.0, None, True)
    assert "sk-very-secret" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"api_key": "sk-literal-key"}, ("api_key",)),
        ({"headers": {"Authorization": "Bearer sk-literal-key"}}, ("headers", "Authorization")),
        ({"headers": {"X-Api-Key": "sk-literal-key"}}, ("headers", "X-Api-Key")),
        ({"body": {"api_key": "sk-literal-key"}}, ("body", "api_key")),
    ],
)
def test_literal_secrets_are_problems_that_do_not_show_them(settings: dict[str, Any], key: tuple[str, ...]) -> None:
    _, problems = read(**settings)
    assert [p.key for p in problems] == [key]
    assert "${NAME}" in problems[0].remedy
    assert "sk-literal-key" not in str(problems)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"api_key": "${BAD}"}, ("api_key",)),
        ({"api_key": "${EMPTY}"}, ("api_key",)),
        ({"api_key": "${KEY}", "headers": {"authorization": "Bearer ${KEY}"}}, ("api_key",)),
        ({"headers": {"X-A": "${BAD}"}}, ("headers", "X-A")),
        ({"headers": {"bad name": "x"}}, ("headers", "bad name")),
        ({"headers": ["x"]}, ("headers",)),
        ({"body": {"max_tokens": 3}}, ("body", "max_tokens")),
        ({"body": {"max_output_tokens": 3}}, ("body", "max_output_tokens")),
        ({"body": {"input": "x"}}, ("body", "input")),
        ({"body": {"system": "x"}}, ("body", "system")),
        ({"idle_timeout": 0}, ("idle_timeout",)),
        ({"first_byte_timeout": "soon"}, ("first_byte_timeout",)),
        ({"chunk_counts": "perhaps"}, ("chunk_counts",)),
        ({"metrics_path": "metrics"}, ("metrics_path",)),
        ({"tokenizer": "vlm"}, ("tokenizer",)),
        ({"price": 3}, ("price",)),
        ({"price": {"input": 1}}, ("price", "output")),
        ({"price": {"input": 1, "output": -1}}, ("price", "output")),
        ({"price": {"input": 1, "output": 1, "currency": "dollars"}}, ("price", "currency")),
        ({"price": {"input": 1, "output": 1, "curency": "USD"}}, ("price", "curency")),
        ({"requests_per_minute": 0}, ("requests_per_minute",)),
    ],
)
def test_wrong_settings_are_problems(settings: dict[str, Any], key: tuple[str, ...]) -> None:
    _, problems = read(**settings)
    assert [p.key for p in problems] == [key]
    assert "sk-very-secret" not in str(problems)


def test_price_may_be_free() -> None:
    assert read(price="free")[1] == []


def test_a_limit_of_the_answer_may_be_left_out() -> None:
    assert read(body={"max_tokens": None, "max_output_tokens": None, "max_completion_tokens": 9})[1] == []
