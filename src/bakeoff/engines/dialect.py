"""Which server is behind an endpoint, and what it can do: found by asking it, once, before anything is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..errors import EndpointError
from ..model import Capabilities, Endpoint
from .endpoint import EndpointSettings, server_root
from .fetch import Answer, fetch
from .settings import did_you_mean

Dialect = Literal["llamacpp", "vllm", "sglang", "bakeoff", "unknown"]

_OWNERS: Mapping[str, Dialect] = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "bakeoff": "bakeoff",  # our own mock server
    "bakeoff-mock": "bakeoff",
}
_HONOURS_IGNORE_EOS = ("llamacpp", "vllm", "sglang", "bakeoff")
_SERVES_ONE_MODEL_UNDER_ANY_NAME = ("llamacpp", "bakeoff")
# Body fields that make each chunk carry its cumulative count of tokens. Of the OpenAI-like form, vLLM's.
_CHUNK_COUNTS: dict[str, Any] = {"stream_options": {"continuous_usage_stats": True}}
_CHUNK_TIMINGS: dict[str, Any] = {"timings_per_token": True}
# Servers whose chunks hold several tokens in ordinary use: where drafts are accepted, or a reader falls behind.
_MERGES_TOKENS = ("vllm", "sglang")
_VLLM_COUNTS_SINCE = (0, 6)  # earlier ones may refuse a field that they do not know
_SHOWN_MODELS = 8
_PROBE_LIMIT = 1024 * 1024  # bytes; a model's chat template stands in llama.cpp's /props
_FACTS_LIMIT = 200  # characters of a fact in the fingerprint


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: dialect, the model's name and facts for the fingerprint (no secrets, no per-start values)."""

    dialect: Dialect
    model: str
    facts: dict[str, str]
    settings_in_force: dict[str, Any] = {}


def reach(base_url: str, settings: EndpointSettings) -> tuple[Endpoint, Reached]:
    """Asks the server what it is. Raises EndpointError (refused, 401, 403, unknown model, not HTTP, TLS)."""
    listed, answer = _models(base_url, settings)
    root = server_root(base_url)
    props = read_props(root, settings) if _may_be(answer, listed, "llamacpp") else {}
    version = _version(root, settings) if not props else None
    dialect = _dialect(answer, listed, props, version)
    model = _model(base_url, settings, [item["id"] for item in listed], dialect)
    capabilities = Capabilities(
        ignore_eos=dialect in _HONOURS_IGNORE_EOS if settings.ignore_eos is None else settings.ignore_eos,
        tokenizer=_tokenizer(root, settings, model, dialect),
        metrics_path=_metrics(root, settings),
        cache_off={"cache_prompt": False} if dialect == "llamacpp" else {},
        stream_usage=settings.stream_usage,
        chunk_counts=_chunk_counts(settings, dialect, version),
    )
    endpoint = Endpoint(
        base_url=base_url,
        model=model,
        headers=settings.headers,
        body=settings.body,
        capabilities=capabilities,
        connect_timeout_s=settings.connect_timeout_s,
        request_timeout_s=settings.request_timeout_s,
        first_byte_timeout_s=settings.first_byte_timeout_s,
        idle_timeout_s=settings.idle_timeout_s,
        requests_per_minute=settings.requests_per_minute,
        profile=settings.profile,
    )
    facts = {"server": dialect, "model": model, **_facts(props, version, listed, model)}
    return endpoint, Reached(dialect=dialect, model=model, facts=facts, settings_in_force=in_force(props))


def _models(base_url: str, settings: EndpointSettings) -> tuple[list[dict[str, Any]], Answer]:
    """GET /models: (the well-formed entries, the answer). A server without that path is fine."""
    url = f"{base_url}/models"
    answer = fetch(url, headers=settings.headers, timeout_s=settings.connect_timeout_s)
    if answer.status in (401, 403):
        signed = "the key is not accepted" if settings.headers else "a key is needed"
        raise EndpointError(
            f"HTTP {answer.status}: {signed}", where=url, remedy="set `api_key: ${NAME}` to a variable with a valid key"
        )
    if answer.status >= 500:
        raise EndpointError(
            f"the server answers HTTP {answer.status}",
            where=url,
            remedy="look at the server's log; is it still loading?",
        )
    if answer.status == 429:
        raise EndpointError(
            "HTTP 429: the server limits our requests", where=url, remedy="wait, then set `requests_per_minute`"
        )
    if 300 <= answer.status < 400:
        raise EndpointError(
            f"HTTP {answer.status}: redirected to {answer.headers.get('location', 'another place')[:200]!r}",
            where=url,
            remedy="write the final address as `url`",
        )
    data = answer.json()
    entries = data.get("data") if isinstance(data, dict) else None
    listed = (
        [e for e in entries if isinstance(e, dict) and isinstance(e.get("id"), str)]
        if isinstance(entries, list)
        else []
    )
    return listed, answer


def _may_be(answer: Answer, listed: list[dict[str, Any]], dialect: Dialect) -> bool:
    owner = _owner(listed)
    return owner in (None, dialect) or answer.headers.get("server", "").startswith("llama.cpp")


def _owner(listed: list[dict[str, Any]]) -> Dialect | None:
    return next((_OWNERS[o] for e in listed if (o := str(e.get("owned_by", "")).lower()) in _OWNERS), None)


def _ask(url: str, settings: EndpointSettings, body: Any = None) -> dict[str, Any] | None:
    """A JSON object that the server may or may not offer; None if it does not."""
    try:
        answer = fetch(
            url, headers=settings.headers, body=body, timeout_s=settings.connect_timeout_s, limit=_PROBE_LIMIT
        )
    except EndpointError:
        return None
    found = answer.json() if answer.status == 200 else None
    return found if isinstance(found, dict) else None


def read_props(root: str, settings: EndpointSettings) -> dict[str, Any]:
    props = _ask(f"{root}/props", settings) or {}
    return props if "default_generation_settings" in props else {}


def _version(root: str, settings: EndpointSettings) -> str | None:
    version = (_ask(f"{root}/version", settings) or {}).get("version")
    return version[:_FACTS_LIMIT] if isinstance(version, str) else None


def _dialect(answer: Answer, listed: list[dict[str, Any]], props: dict[str, Any], version: str | None) -> Dialect:
    if props or answer.headers.get("server", "").startswith("llama.cpp"):
        return "llamacpp"
    owner = _owner(listed)
    if owner == "vllm" and version is None:
        return "unknown"  # a proxy in front of vLLM: its own paths and fields cannot be relied on
    return owner or "unknown"


def _model(base_url: str, settings: EndpointSettings, listed: list[str], dialect: Dialect) -> str:
    shown = ", ".join(name[:_FACTS_LIMIT] for name in listed[:_SHOWN_MODELS])
    if len(listed) > _SHOWN_MODELS:
        shown += f", … ({len(listed)} in all)"
    if settings.model is None:
        if len(listed) == 1:
            return listed[0]
        raise EndpointError(
            f"serves {len(listed)} models: {shown}" if listed else "does not say which models it serves",
            where=base_url,
            remedy="set `model` to the one that you mean",
        )
    # Providers accept names that they do not list (aliases), so only a server known to be strict is taken at its word.
    strict = dialect != "unknown" and dialect not in _SERVES_ONE_MODEL_UNDER_ANY_NAME
    if strict and listed and settings.model not in listed:
        raise EndpointError(
            f"does not serve the model {settings.model!r}{did_you_mean(settings.model, listed)}; it serves {shown}",
            where=base_url,
            remedy="correct `model`",
        )
    return settings.model


def _tokenizer(root: str, settings: EndpointSettings, model: str, dialect: Dialect) -> str | None:
    """The dialect of /tokenize, tried with a real word. An explicit choice that does not work is an error."""
    if settings.tokenizer == "none":
        return None
    bodies = {"llamacpp": {"content": "hello"}, "vllm": {"model": model, "prompt": "hello"}}
    wanted = [settings.tokenizer] if settings.tokenizer in bodies else list(bodies)
    if settings.tokenizer == "auto" and dialect in bodies:
        wanted = [dialect]
    for name in wanted:
        tokens = (_ask(f"{root}/tokenize", settings, bodies[name]) or {}).get("tokens")
        if isinstance(tokens, list) and tokens:
            return name
    if settings.tokenizer != "auto":
        raise EndpointError(
            f"its /tokenize does not answer in the way of {settings.tokenizer}",
            where=f"{root}/tokenize",
            remedy="set `tokenizer: auto`, or `none` (prompt lengths are then estimated)",
        )
    return None


def _chunk_counts(settings: EndpointSettings, dialect: Dialect, version: str | None) -> dict[str, Any]:
    """What to ask for, so that a chunk of several tokens is known as one.

    llama.cpp sends each token in a chunk of its own, and its counts come with eight times in every chunk, whose length
    they multiply: only where they are asked for. It cannot be tried out: a first answer belongs to the cold start.
    """
    wanted = settings.chunk_counts
    if wanted is None:
        wanted = dialect in _MERGES_TOKENS and (dialect != "vllm" or _counts_since(version))
    if not wanted:
        return {}
    return _CHUNK_TIMINGS if dialect == "llamacpp" else _CHUNK_COUNTS


def _counts_since(version: str | None) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= _VLLM_COUNTS_SINCE


def _metrics(root: str, settings: EndpointSettings) -> str | None:
    """The path of Prometheus text. An explicit path is kept only if it works, else it is an error."""
    path = settings.metrics_path or "/metrics"
    reason = "does not answer with Prometheus text"
    try:
        answer = fetch(
            f"{root}{path}", headers=settings.headers, timeout_s=settings.connect_timeout_s, limit=_PROBE_LIMIT
        )
        if answer.status == 200 and b"# TYPE" in answer.body:
            return path
        if answer.status != 200:
            reason = f"answers HTTP {answer.status}"
    except EndpointError as error:
        reason = error.message
    if settings.metrics_path is not None:
        raise EndpointError(
            f"the metrics path {reason}", where=f"{root}{path}", remedy="correct `metrics_path`, or leave it out"
        )
    return None


def _facts(props: dict[str, Any], version: str | None, listed: list[dict[str, Any]], model: str) -> dict[str, str]:
    facts: dict[str, str] = {}
    if version is not None:
        facts["version"] = version
    for source, name in (("build_info", "build"), ("model_ftype", "weights"), ("total_slots", "slots")):
        if isinstance(props.get(source), str | int):
            facts[name] = str(props[source])[:_FACTS_LIMIT]
    entry = next((e for e in listed if e["id"] == model), {})
    meta = entry.get("meta")
    details = {**entry, **(meta if isinstance(meta, dict) else {})}
    for name in ("n_ctx", "max_model_len", "n_params", "root"):
        if isinstance(details.get(name), str | int):
            facts[name] = str(details[name])[:_FACTS_LIMIT]
    return facts


def in_force(props: dict[str, Any]) -> dict[str, Any]:
    """The plain values of llama.cpp's /props, sampling defaults included; per-start and bulky ones left out."""
    kept: dict[str, Any] = {
        name: props[name]
        for name in ("total_slots", "model_ftype", "build_info", "n_ctx")
        if isinstance(props.get(name), str | int | float)
    }
    defaults = props.get("default_generation_settings")
    if isinstance(defaults, dict):
        if isinstance(defaults.get("n_ctx"), int):
            kept["n_ctx"] = defaults["n_ctx"]
        params = defaults.get("params")
        if isinstance(params, dict):
            plain = {k: v for k, v in params.items() if isinstance(v, str | int | float | bool)}
            kept["sampling_defaults"] = {k: v for k, v in plain.items() if len(str(v)) <= _FACTS_LIMIT}
    return kept
