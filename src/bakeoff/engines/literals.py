"""Secrets written out in an experiment: they would be saved with the run, so they are found and refused.

A name tells: ``Authorization``, ``HF_TOKEN``, ``--api-key``. Its value may then only refer to the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
_LAST_WORDS = frozenset(
    {
        "authorization",
        "auth",
        "bearer",
        "cookie",
        "cookies",
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "credential",
        "credentials",
        "key",
        "apikey",
        "jwt",
        "pat",
    }
)
_GLUED = re.compile(
    r"(password|passwd|passphrase|secret|credentials?|cookie|authorization|"
    r"(api|auth|access|secret|private|openai|hf|client|session|subscription|my)(key|token))\Z"
)
_GRAVE_WORDS = frozenset({"secret", "password", "passwd", "passphrase", "credentials", "apikey", "authorization"})
# What a name ends in that speaks about a secret and does not hold it.
_ABOUT = frozenset(
    {
        "file",
        "path",
        "dir",
        "name",
        "id",
        "ids",
        "type",
        "ttl",
        "url",
        "length",
        "count",
        "policy",
        "env",
        "hash",
        "mode",
        "format",
        "size",
    }
)
# Words before "token", "key" and "pass" with which they mean something else: text pieces, lookups, runs over data.
_HARMLESS = {
    "token": frozenset(
        {
            "stop",
            "eos",
            "bos",
            "eot",
            "pad",
            "unk",
            "sep",
            "cls",
            "mask",
            "image",
            "audio",
            "video",
            "special",
            "start",
            "end",
            "begin",
            "next",
            "first",
            "last",
            "per",
            "think",
            "reasoning",
            "new",
            "draft",
            "num",
            "max",
            "min",
            "tool",
            "prompt",
            "output",
            "input",
            "by",
        }
    ),
    "key": frozenset(
        {
            "cache",
            "primary",
            "sort",
            "foreign",
            "public",
            "partition",
            "idempotency",
            "group",
            "lookup",
            "shard",
            "sharding",
            "affinity",
            "routing",
            "hash",
            "by",
            "num",
        }
    ),
    "pass": frozenset({"single", "one", "two", "multi", "first", "second", "forward", "backward"}),
}

_SCHEMES = frozenset({"bearer", "basic", "token", "apikey", "api-key", "key"})
_COOKIE_NAME = re.compile(r"[\w.\-]{1,64}=(?=\$\{)")
_HEADER = re.compile(r"\s*([A-Za-z][A-Za-z0-9_\-]*)\s*:\s*(.*)\Z", re.DOTALL)
_SHELL_REFERENCE = re.compile(r"\$[A-Za-z_]\w*|\$\$\{[^}]*\}|\$\(.*|`.*", re.DOTALL)
_BEARER = re.compile(r"\b(?:bearer|basic)\s+([^\s'\"]{8,})", re.IGNORECASE)
_SWITCH_VALUES = frozenset({"true", "false", "none", "null", "auto", "yes", "no", "on", "off"})
_KEY_FILE = re.compile(r"(~|\.{0,2})/.*\.(pem|key|crt|cer|txt|json|ya?ml|toml)\Z|[\w.\-/]+\.(pem|key|crt|cer)\Z")
_DEEPEST = 4  # a command inside a command inside …


def is_secret_name(name: str) -> bool:
    """Whether a header, variable or option of this name usually carries a secret (``Authorization``, ``HF_TOKEN``).

    Judged by its words: ``OPENAI_KEY``, ``x-auth`` and ``accessToken`` do; ``max_tokens``, ``stop_token``,
    ``key_type`` and ``tokenizer`` do not.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    before = words[-2] if len(words) > 1 else ""
    if words[-1] in _LAST_WORDS:
        return before not in _HARMLESS.get(words[-1], ())
    return bool(_GLUED.search(words[-1])) or not _GRAVE_WORDS.isdisjoint(words)


def only_references(value: str, *, cookie: bool = False) -> bool:
    """Whether a text consists of ``${VAR}`` alone, a scheme word such as ``Bearer`` before it left aside.

    cookie: ``name=`` before each reference is allowed, and separators between them.
    """
    text = _COOKIE_NAME.sub("", value) if cookie else value
    rest = REFERENCE.sub(lambda m: " " if m[1] is not None and m[2] else m[0], text)
    if rest == text:
        return False
    words = rest.replace(";", " ").split() if cookie else rest.split()
    return not words or (len(words) == 1 and words[0].lower() in _SCHEMES)


def literal_in_header(name: str, value: Any) -> bool:
    """Whether a header's value, as written in the file, holds a secret literally."""
    return is_secret_name(name) and not only_references(str(value), cookie=name.lower().endswith("cookie"))


def literals_in(value: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths inside nested data whose name is a secret's and whose value is written out."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            path = (*key, str(name))
            if is_secret_name(str(name)) and _holds_literal(item):
                yield path
            elif isinstance(item, Mapping | list | tuple):
                yield from literals_in(item, path)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from literals_in(item, (*key, str(position)))


def _holds_literal(value: Any) -> bool:
    """Whether anything below a secret's name is neither a switch nor a reference."""
    if isinstance(value, Mapping):
        return any(_holds_literal(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds_literal(item) for item in value)
    if value is None or isinstance(value, bool):
        return False
    text = str(value).strip()
    return bool(text) and text.lower() not in _SWITCH_VALUES and not only_references(text)


def literals_in_command(words: Sequence[str], depth: int = 0) -> Iterator[str]:
    """What names each secret that a command line writes out (an option, a variable, a header).

    Looks at ``--api-key VALUE``, ``--api-key=VALUE``, ``NAME=value``, ``Header: value``, JSON, and inside words that
    are command lines themselves (``bash -c '…'``).
    """
    for position, word in enumerate(words):
        name, joined, value = word.partition("=")
        if word.startswith("-") and not joined and is_secret_name(name):
            after = words[position + 1] if position + 1 < len(words) else ""
            if not after.startswith("-") and _given_out(after):
                yield name
        elif joined and re.fullmatch(r"[\w.\-]+", name) and is_secret_name(name):
            if _given_out(value):
                yield name
        else:
            yield from _inside(value if joined and name.startswith("-") else word, depth)


def _inside(word: str, depth: int) -> Iterator[str]:
    """Secrets within one word: a header, JSON, another command line, or ``NAME=value`` behind ``--env=``."""
    header = _HEADER.match(word)
    if header and is_secret_name(header[1]):
        if _given_out(header[2], header=header[1]):
            yield header[1]
        return
    if word[:1] in ("{", "["):
        # As it is, and as it will be when doubled braces have become single.
        for text in (word, word.replace("{{", "{").replace("}}", "}")):
            with contextlib.suppress(ValueError, RecursionError):
                yield from (path[-1] for path in literals_in(json.loads(text)))
                return
    bearer = _BEARER.search(word)
    if bearer and _given_out(bearer[1]):
        yield bearer[0].split()[0]
    elif depth < _DEEPEST and (len(word.split()) > 1 or ("=" in word and not word.startswith("-"))):
        inner = _split(word)
        if inner != [word]:
            yield from literals_in_command(inner, depth + 1)
        elif depth == 0:
            yield from literals_in_command(inner, _DEEPEST)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _given_out(value: str, *, header: str = "") -> bool:
    """Whether a value is written out: no reference, no shell variable, no switch, no name of a key file."""
    text = value.strip().strip("\"';")
    if not text or text.lower() in _SWITCH_VALUES or _KEY_FILE.match(text):
        return False
    if text.startswith(("/", "./", "~/")) and os.path.exists(os.path.expanduser(text)):
        return False
    scheme, _, rest = text.partition(" ")
    bare = rest.strip() if scheme.lower() in _SCHEMES and rest.strip() else text
    if _SHELL_REFERENCE.fullmatch(bare):
        return False
    return not only_references(text, cookie=header.lower().endswith("cookie"))
