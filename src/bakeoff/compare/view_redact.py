"""Cleaning of every text that a report shows: bounded, free of control characters and, on request, redacted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from ..model import Experiment, Result

REDACTED = "redacted"
# Control characters could move a terminal's cursor; bidirectional overrides could make a name read as another one.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# What ends a sentence or a clause after an address is no part of it.
_END = r"(?=[:;,.)]*(?:[\s\"'<>]|$))"
_URL = re.compile(rf"\b([a-z][a-z0-9+.\-]*://)[^\s/?#\"'<>]+?(?:(?=[/?#])|{_END})", re.IGNORECASE)
# A socket's path stands in the place of the host: its folders name users and services.
_SOCKET = re.compile(rf"\bunix:/[^\s\"'<>]*?{_END}", re.IGNORECASE)
_QUERY = re.compile(rf"(://redacted[^\s?#\"'<>]*)[?#][^\s\"'<>]*?{_END}")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w.]*\.\d)")
_ABSOLUTE = re.compile(r"(?<![\w/.:])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s/\\'\"<>:,;|=]+[/\\])+(?=[^\s/\\'\"<>:,;|=])")
_ROOTED = re.compile(r"(?<![\w/.:])~?/(?=[\w.\-])")
_SUFFIXES = "gguf|ggml|safetensors|bin|pt|pth|onnx|json|jsonl|ya?ml|toml|log|txt|csv|parquet|py|sh|so|html|xml"
_RELATIVE = re.compile(rf"(?<![\w/.])(?:[\w.\-]+/)+(?=[\w.\-]+\.(?:{_SUFFIXES})\b)")
_PRIVATE_KEY = re.compile(r"(?:^|[._\- ])(?:host(?:_?name)?|user(?:_?name)?|node|fqdn|cwd|home)$", re.IGNORECASE)

# Where a text begins to quote what a server said, which may repeat a prompt. The rest of the text goes with it, save
# for the audit's own end of the sentence: a quoted text could imitate any other mark of where it ends.
_QUOTED = re.compile(
    r"(\bHTTP \d{3}(?::|, but the answer is an error:)|\binside the stream:|\bevent in the stream:|\bIt said:|"
    r"\bit starts(?::|(?= ['\"]))|\banswer is not HTTP\b|\bredirected to(?= ['\"]))"
    r".*?(?=(?:\)(?:; latencies are those of the rest)?)?\Z)",
    re.DOTALL | re.IGNORECASE,
)


class Cleaner:
    """Turns untrusted text into text that a report may show.

    redact: also replaces the hosts of URLs, IP addresses and `names` (of hosts and of files of prompts), keeps only the
    file name of other paths, and of what a server said only the HTTP status.
    """

    def __init__(self, *, redact: bool, names: Iterable[str] = ()) -> None:
        self.redact = redact
        known = sorted({name for name in names if len(name) > 2}, key=len, reverse=True)
        self._names = (
            re.compile(r"(?<![\w.\-])(?:" + "|".join(map(re.escape, known)) + r")(?![\w\-])") if known else None
        )

    def __call__(self, text: str, limit: int = 400) -> str:
        """The text on one line, at most `limit` characters, an ellipsis where it was cut."""
        return " ".join(self.block(text, limit=limit).split())

    def block(self, text: str, *, limit: int) -> str:
        """As the call, but keeps line ends."""
        # Cut before the expressions run, so that a megabyte of server output costs nothing.
        safe = _UNSAFE.sub("\ufffd", str(text)[: limit * 4 + 64].replace("\r\n", "\n"))
        if self.redact:
            safe = self._redacted(safe)
        return safe if len(safe) <= limit else safe[: limit - 1] + "…"

    def path(self, text: str, limit: int = 400) -> str:
        """A value known to be a path: under redact only its last part."""
        return self(re.split(r"[/\\]", text.rstrip("/\\"))[-1] if self.redact else text, limit)

    def setting(self, key: str, value: str, limit: int = 200) -> str:
        """A fingerprint value: under redact host and user names are replaced, and whole-value paths cut."""
        if self.redact:
            if _PRIVATE_KEY.search(key):
                return REDACTED
            if value[:1] in ("/", "~") or value[:2] in ("./", ".."):
                return self.path(value, limit)
        return self(value, limit)

    def _redacted(self, text: str) -> str:
        text = _QUOTED.sub(r"\1 …", text)
        text = _SOCKET.sub(f"unix://{REDACTED}", text)
        text = _URL.sub(rf"\1{REDACTED}", text)
        text = _QUERY.sub(r"\1", text)
        text = _IPV4.sub(REDACTED, text)
        if self._names is not None:
            text = self._names.sub(REDACTED, text)
        text = _ABSOLUTE.sub("", text)
        text = _ROOTED.sub("", text)
        return _RELATIVE.sub("", text)


def private_names(experiment: Experiment) -> set[str]:
    """Host names of the settings' URLs and names of files of prompts and of questions, to be replaced wherever else
    they turn up."""
    hosts = {host for variant in experiment.variants for host in _hosts_in(variant.settings)}
    tasks = experiment.quality.tasks if experiment.quality else ()
    asked = (*(workload.prompts.path for workload in experiment.workloads), *(task.path for task in tasks))
    paths = {path for path in asked if path}
    # A name without a dot may be a public data set's, or a word that stands for something else.
    return hosts | {name for path in paths if "." in (name := re.split(r"[/\\]", path.rstrip("/\\"))[-1])}


def _hosts_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return {host for item in value.values() for host in _hosts_in(item)}
    if isinstance(value, (list, tuple)):
        return {host for item in value for host in _hosts_in(item)}
    if isinstance(value, str) and "://" in value:
        try:
            host = urlsplit(value.strip()).hostname
        except ValueError:
            return set()
        return {host} if host else set()
    return set()


def redacted_result(result: Result, experiment: Experiment) -> Result:
    """The result with every text cleaned as a redacted report has it (names and numbers stay)."""
    clean = Cleaner(redact=True, names=private_names(experiment))

    def cleaned(value: object) -> object:
        if isinstance(value, str):
            return clean.block(value, limit=2000)
        if isinstance(value, dict):
            return {key: cleaned(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [cleaned(item) for item in value]
        return value

    shown = msgspec.structs.replace(result, flips=())  # these are prompts and answers
    plain = {name: cleaned(value) for name, value in msgspec.to_builtins(shown).items()}
    return msgspec.convert({**plain, "run": clean.path(result.run)}, Result)
