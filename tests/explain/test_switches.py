from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.explain.switches import Switch, switches
from bakeoff.model import Variant


def variant(engine: str = "llamacpp", **settings: Any) -> Variant:
    return Variant(name="any", engine=engine, settings=settings)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (variant(kv_type="q8_0"), variant(kv_type="f16"), [("kv_type", "q8_0", "f16")]),
        (variant(mmap=True), variant(mmap=False), [("mmap", "on", "off")]),
        (variant(threads=4), variant(), [("threads", "4", "(not set)")]),
        (variant("llamacpp"), variant("vllm"), [("engine", "llamacpp", "vllm")]),
        (variant(env={"A": "1", "B": "2"}), variant(env={"A": "1", "B": "3"}), [("env.B", "2", "3")]),
        (variant(model="/data/x/q8.gguf"), variant(model="/data/x/q4.gguf"), [("model", "q8.gguf", "q4.gguf")]),
        (variant(model="/a/m.gguf"), variant(model="/b/m.gguf"), [("model", "/a/m.gguf", "/b/m.gguf")]),
        (variant(model="org/small"), variant(model="org/large"), [("model", "org/small", "org/large")]),
        (variant(port=1, api_key="${A}", ready="/health"), variant(port=2, api_key="${B}", ready="/"), []),
    ],
)
def test_what_differs(a: Variant, b: Variant, expected: list[tuple[str, str, str]]) -> None:
    assert [tuple(s) for s in switches(a, b)] == expected


def test_flags_of_a_command_line_are_settings() -> None:
    a = variant("command", command="vllm serve m --kv-cache-dtype fp8 --port {port} --enforce-eager")
    b = variant("command", command=["vllm", "serve", "m", "--port={port}", "--kv-cache-dtype=auto", "--enforce-eager"])
    assert switches(a, b) == (Switch("command --kv-cache-dtype", "fp8", "auto"),)
    c = variant("command", command="vllm serve other --kv-cache-dtype fp8 --port {port}")
    assert {s.setting for s in switches(a, c)} == {"command", "command --enforce-eager"}
    broken = variant("command", command='echo "unclosed')
    assert next(s.setting for s in switches(a, broken)) == "command"


def test_two_addresses_are_two_servers() -> None:
    (found,) = switches(variant("openai", url="http://a/v1"), variant("openai", url="http://b/v1"))
    assert found.opaque
    assert not switches(variant(kv_type="a"), variant(kv_type="b"))[0].opaque


def test_values_are_bounded_and_on_one_line() -> None:
    (found,) = switches(variant(extra="x\n" * 500), variant(extra="y\x1b[31m"))
    assert len(found.value) <= 60
    assert "\n" not in found.title
    assert "\x1b" not in found.title


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=8), st.none()), max_size=5))
def test_a_variant_does_not_differ_from_itself(settings: dict[str, Any]) -> None:
    assert (
        switches(Variant(name="a", engine="x", settings=settings), Variant(name="b", engine="x", settings=settings))
        == ()
    )
