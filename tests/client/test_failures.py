from __future__ import annotations

import gzip
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.client.failures import Mask, body_text, retry_after, status_failure
from bakeoff.model import Endpoint

KEY = "sk-very-secret-0123456789"
NOW = 1_700_000_000.0


def masked(headers: dict[str, str] | None = None, *secrets: str) -> Mask:
    return Mask(Endpoint(base_url="http://x/v1", model="m", headers=headers or {}, secrets=secrets))


def test_keys_are_masked_with_and_without_their_scheme() -> None:
    mask = masked({"Authorization": f"Bearer {KEY}", "X-Org": "org-1", "User-Agent": "curl", "X-Short": "a"})
    text = mask(f"bad 'Bearer {KEY}', {KEY}, org-1; a Bearer token from curl")
    assert KEY not in text
    assert text == "bad '***', ***, ***; a Bearer token from curl"


@given(st.integers(0, 700), st.integers(0, 50))
def test_a_key_at_the_cut_does_not_show(before: int, after: int) -> None:
    text = masked({"Authorization": f"Bearer {KEY}"})("x" * before + KEY + "y" * after)
    assert len(text) <= 500
    assert not any(KEY[:n] in text for n in range(4, len(KEY)))


@pytest.mark.parametrize("secret", [KEY, 'p"ss\\w0rd', "zwei  Worte ü", "first-line\nsecond-line", "with/slash?&"])
def test_every_spelling_of_a_secret_is_masked(secret: str) -> None:
    mask = masked(None, secret, "abc")
    for body in (
        json.dumps({"error": {"message": f"env: {secret}!"}}).encode(),
        json.dumps({"env": {"K": secret}}).encode(),
        json.dumps({"env": {"K": secret}}, ensure_ascii=False).encode(),
        f"<html>{secret}</html>".encode(),
        f"?key={quote(secret, safe='')}&x".encode(),
    ):
        text = mask(status_failure(500, body)[1])
        assert "***" in text
        assert not any(line in text or " ".join(line.split()) in text for line in secret.splitlines())
    assert mask("abc is too short to be one") == "abc is too short to be one"


@given(st.integers(0, 2100), st.integers(1, 60))
def test_no_part_of_a_secret_stays_where_an_excerpt_is_cut(before: int, times: int) -> None:
    # Masking shortens the text, so that the place of the cut can come into sight.
    for body in (b"x" * before + KEY.encode() * times, json.dumps({"error": "x" * before + KEY * times}).encode()):
        text = masked(None, KEY)(status_failure(500, body)[1])
        assert not any(KEY[:n] in text for n in range(6, len(KEY)))


def test_a_control_character_hides_no_secret_and_reaches_no_terminal() -> None:
    hidden = KEY[:8] + "\x1b[31m\x00" + KEY[8:]
    for text in (masked(None, KEY)(f"a {hidden} b"), masked(None, KEY)(body_text(f"a {hidden} b".encode()))):
        assert text == "a *** b"
    assert body_text("\x1b]0;title\x07red\u202edlrow\x9b2J\x85 x".encode()) == "reddlrow x"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "auth"),
        (403, "auth"),
        (404, "not_found"),
        (429, "rate_limited"),
        (500, "http"),
        (400, "http"),
    ],
)
def test_kinds_by_status(status: int, kind: str) -> None:
    found, message = status_failure(status, b'{"error": {"message": "why", "type": "t"}}')
    assert found == kind
    assert message.startswith(f"HTTP {status}: why (t)")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://h:8443/v1/completions", "https://h:8443/v1/completions"),
        ("//user:pw-12345@h/v1?k=1", "//h/v1"),
        ("/v2#x", "/v2"),
        ("", "another place"),
        ("http://[bad", "another place"),
        ("/\x1b[31mred", "/red"),
        ("/" + "x" * 1000, "/" + "x" * 298 + "…"),
    ],
)
def test_where_a_redirect_leads(location: str, shown: str) -> None:
    found = status_failure(307, b"<html>moved</html>", [(b"location", location.encode())])
    assert found == ("http", f"HTTP 307: redirected to {shown} → use the address it redirects to")


def test_a_compressed_error_body_is_unpacked_within_bounds() -> None:
    headers = [(b"content-encoding", b"gzip")]
    assert status_failure(500, gzip.compress(b'{"error":"gone"}'), headers)[1] == "HTTP 500: gone"
    assert len(status_failure(500, gzip.compress(b"x" * 50_000_000), headers)[1]) < 3000
    assert status_failure(500, b"\x1f\x8b", headers)[1] == "HTTP 500"
    assert status_failure(500, b"\x28\xb5\x2f\xfd", [(b"content-encoding", b"zstd")])[1] == "HTTP 500"


def test_a_remedy_where_there_is_one() -> None:
    assert "→ check the API key" in status_failure(401, b"")[1]
    assert status_failure(500, b"") == ("http", "HTTP 500")


def test_body_text() -> None:
    assert body_text(b"<html>\n  <b>no</b>\r\n\xff") == "<html> <b>no</b> \ufffd"
    assert body_text(b"[" * 100_000).startswith("[[[")
    assert body_text(b"") == ""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"Retry-After": "Tue, 14 Nov 2000 22:13:50 GMT"}, 0.0),
        ({"Retry-After": "Tue, 14 Nov 2000 22:13:50 GMT", "Date": "Tue, 14 Nov 2000 22:13:40 GMT"}, 10.0),
        ({"Retry-After": "5", "Date": "Tue, 14 Nov 2000 22:13:40 GMT"}, 5.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After-Ms": "250", "Retry-After": "1"}, 0.25),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723.0),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset": str(int(NOW) + 9)}, 9.0),
        ({"x-ratelimit-reset-requests": "5s", "x-ratelimit-reset-tokens": "2s"}, 5.0),
        (
            {
                "x-ratelimit-reset-requests": "5s",
                "x-ratelimit-remaining-requests": "3",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
            },
            2.0,
        ),
        ({"x-ratelimit-reset-requests": ""}, None),
        ({"x-ratelimit-reset-requests": "bogus"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after([(k.encode(), v.encode()) for k, v in headers.items()], NOW) == expected


@given(
    st.dictionaries(
        st.sampled_from([b"retry-after", b"x-ratelimit-reset", b"retry-after-ms", b"date"]), st.binary(max_size=40)
    )
)
def test_any_header_value_is_survived(headers: dict[bytes, bytes]) -> None:
    wait = retry_after(headers.items(), NOW)
    assert wait is None or wait >= 0
