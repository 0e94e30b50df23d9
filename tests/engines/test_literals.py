from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.engines.command import read_command
from bakeoff.engines.endpoint import read_endpoint
from bakeoff.engines.literals import (
    is_secret_name,
    literal_in_header,
    literals_in,
    literals_in_command,
    only_references,
)
from bakeoff.engines.settings import SettingsReader

SECRET = """
Authorization Proxy-Authorization x-api-key X-Auth X-Auth-Token API_KEY api_key apiKey APIKEY apikey key KEY
token TOKEN Cookie Set-Cookie HF_TOKEN HFToken OPENAI_KEY OPENAI_API_KEY OPENAI_API_KEY_2 API_KEY1 my-key
AWS_SECRET_ACCESS_KEY Ocp-Apim-Subscription-Key secret CLIENT_SECRET client_secret_value passwd password
DB_PASSWORD PGPASSWORD passphrase accessToken refresh_token session_token authtoken credentials
GOOGLE_CREDENTIALS --api-key --key --token
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


HARMLESS = """
max_tokens max-tokens maxTokens min_tokens tokenizer --tokenizer-mode TOKENIZERS_PARALLELISM token_ids
return_token_ids stop_token stop_token_ids eos_token bos_token pad_token timings_per_token top_k key_type
k_type v_type kv_type --cache-type-k prompt_cache_key Idempotency-Key monkey turkey keyboard KEYBOARD
authority author SSL_CERT_FILE --ssl-keyfile api_key_file HF_TOKEN_PATH AWS_ACCESS_KEY_ID --api-key-env
Content-Type Accept User-Agent model temperature n_keep single_pass compass bypass num_key_value_heads
"""


@pytest.mark.parametrize("name", HARMLESS.split())
def test_harmless_names(name: str) -> None:
    assert not is_secret_name(name)


@given(st.text())
def test_any_name_is_judged(name: str) -> None:
    assert is_secret_name(name) in (True, False)


@pytest.mark.parametrize(
    ("name", "value", "literal"),
    [
        ("Authorization", "Bearer ${KEY}", False),
        ("Authorization", "${KEY}", False),
        ("Authorization", "Basic ${USER}${PASS}", False),
        ("Authorization", "Bearer sk-abc", True),
        ("Authorization", "sk-abc ${KEY}", True),
        ("Authorization", "Bearer sk-abc${KEY}", True),
        ("Authorization", "Bearer $${KEY}", True),
        ("X-Auth", "token ${KEY} more", True),
        ("Cookie", "session=${S}; csrf=${C}", False),
        ("Cookie", "session=abc; csrf=${C}", True),
        ("X-Team", "speed", False),
    ],
)
def test_headers(name: str, value: str, literal: bool) -> None:
    assert literal_in_header(name, value) is literal


def test_nested_fields_at_every_depth() -> None:
    body = {
        "metadata": {"user": {"token": "tok-1", "name": "x"}, "list": [{"api_key": "sk-1"}, {"api_key": "${K}"}]},
        "auth": {"kind": ["abc"]},
        "stop_token": "</s>",
        "logit": {"key": None, "secret": False, "password": ""},
        "max_tokens": 5,
    }
    assert list(literals_in(body)) == [("metadata", "user", "token"), ("metadata", "list", "0", "api_key"), ("auth",)]


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--api-key", "sk-1234"],
        ["serve", "--api-key=sk-1234"],
        ["serve", "--key", "sk-1234"],
        ["env", "HF_TOKEN=hf_1234", "serve"],
        ["serve", "--env=HF_TOKEN=hf_1234"],
        ["docker", "run", "-e", "OPENAI_KEY=sk-1234", "image"],
        ["serve", "--header", "Authorization: Bearer sk-1234"],
        ["serve", "--header=Authorization: Bearer sk-1234"],
        ["curl", "-H", "X-Api-Key: sk-1234"],
        ["serve", "--header", "Authorization: sk-1234 ${KEY}"],
        ["serve", "--extra", '{"a": {"password": "pw-1234"}}'],
        ["serve", "--extra", '{{"a": {{"password": "pw-1234"}}}}'],
        ["bash", "-c", "HF_TOKEN=hf_1234 serve --port {port}"],
        ["bash", "-c", "HF_TOKEN=hf_1234"],
        ["HF_TOKEN=hf_1234", "serve"],
        ["bash", "-c", "export HF_TOKEN='hf_1234'; exec serve"],
        ["bash", "-c", "serve --api-key sk-1234 --port {port}"],
        ["bash", "-lc", "curl -H 'Authorization: Bearer sk-1234' x"],
        ["bash", "-c", "sh -c \"serve --api-key 'sk-1234'\""],
        ["bash", "-c", "echo 'unclosed; serve --api-key sk-1234"],
    ],
)
def test_literal_secrets_of_a_command_are_found_and_not_shown(words: list[str]) -> None:
    found = list(literals_in_command(words))
    assert found
    assert "1234" not in "".join(found)
    problems = read_command({"command": [*words, "{port}"]}, {"KEY": "k-value"})[1]
    assert any("literal secret" in p.message for p in problems)
    assert not any("1234" in p.message + p.remedy for p in problems)


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--api-key", "${KEY}", "--token=${KEY}"],
        ["env", "HF_TOKEN=${KEY}", "serve", "--max-tokens", "100", "--tokenizer", "org/name", "--stop-token", "</s>"],
        ["serve", "--header", "Authorization: Bearer ${KEY}", "--key", "--port", "1"],
        ["bash", "-c", 'serve --api-key "$KEY" --port {port}'],
        ["bash", "-c", "serve --api-key $${KEY}"],
        ["bash", "-c", "HF_TOKEN=$(cat secret) serve"],
        ["serve", "--override-kv", "tokenizer.ggml.add_bos_token=bool:false", "--top-k=1", "--cache-type-k", "q8_0"],
        ["serve", "--ssl-key", "certs/server.pem", "--tls-key=/etc/ssl/server.key"],
        ["serve", "--extra", '{"max_tokens": 4, "api_key": "${KEY}"}', "--use-token=true"],
        [],
    ],
)
def test_commands_without_literal_secrets(words: list[str]) -> None:
    assert list(literals_in_command(words)) == []


@given(st.lists(st.text(alphabet="aKEYtoken=-:'\"{}$; /", max_size=20), max_size=5))
def test_any_command_line_is_survived(words: list[str]) -> None:
    assert all(isinstance(name, str) for name in literals_in_command(words))


@given(st.text(min_size=1, alphabet="abc123-._"))
def test_text_beside_a_reference_is_literal(text: str) -> None:
    assert only_references("Bearer ${A}")
    assert not only_references(f"Bearer {text}${{A}}")
    assert not only_references(text)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"body": {"metadata": {"deep": [{"token": "t-1"}]}}}, ("body", "metadata", "deep", "0", "token")),
        ({"headers": {"X-Auth": "t-1"}}, ("headers", "X-Auth")),
        ({"headers": {"Authorization": "t-1 ${KEY}"}}, ("headers", "Authorization")),
        ({"api_key": "t-1${KEY}"}, ("api_key",)),
    ],
)
def test_the_endpoint_refuses_them(settings: dict[str, object], key: tuple[str, ...]) -> None:
    reader = SettingsReader(settings, {"KEY": "value"})
    read_endpoint(reader)
    assert [p.key for p in reader.problems if "literal secret" in p.message] == [key]


def test_the_environment_of_a_command_refuses_them() -> None:
    settings = {
        "command": "true {port}",
        "env": {"OPENAI_KEY": "t-1", "HF_TOKEN": "x${KEY}", "A_KEY": "${KEY}", "N": 1},
    }
    problems = read_command(settings, {"KEY": "value"})[1]
    assert [p.key for p in problems if "literal" in p.message] == [("env", "OPENAI_KEY"), ("env", "HF_TOKEN")]
