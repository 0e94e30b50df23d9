"""Engine ``llamacpp``: a GGUF file on embedded llama.cpp, in a child process of ours.

``context`` is the context of *one* request [tokens]; with ``parallel`` slots llama.cpp holds a KV cache of
context × parallel tokens. Requests beyond the number of slots queue inside the server, so at a concurrency above
``parallel`` TTFT contains that waiting. ``threads`` defaults to the physical cores that this process may use: more
threads than cores makes llama.cpp slower, because its threads spin while they wait for each other.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..errors import EngineError, EngineMissing
from ..model import Capabilities, Endpoint, Problem, StartContext, Variant
from .cores import available_cores
from .declared import check_declared
from .dialect import in_force, read_props
from .endpoint import EndpointSettings, read_body
from .files import page_cache, sha256_of
from .launched import Facts, LaunchedServer, LaunchPlan, launch
from .pagecache import settle
from .probe import Readiness, free_port
from .process import ProcessSpec
from .secrets import Redactor, secrets_of
from .settings import SettingsReader, refuse

KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_UNQUANTISED = ("f32", "f16", "bf16")
_HOST = "127.0.0.1"
_REMEDY_INSTALL = "pip install xllamacpp"
_MAGIC = b"GGUF"


class LlamaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one embedded server. Token counts are per slot where nothing else is said."""

    model: str
    alias: str  # the model's name in requests: its file name
    context: int = 4096
    parallel: int = 1
    threads: int = 1
    batch_threads: int = 1
    batch: int = 2048
    ubatch: int = 512
    k_type: str = "f16"
    v_type: str = "f16"
    flash_attention: str = "auto"
    gpu_layers: int | None = None
    mmap: bool = True
    repack: bool = True
    warmup: bool = True
    prompt_cache_mib: int = 0
    checkpoints: int | None = None
    chat_template: str | None = None
    seed: int | None = None


def _model(reader: SettingsReader, where: Path) -> Path | None:
    reader.require("model", "for example: model: models/gemma-3-270m-q8_0.gguf")
    text = reader.text("model")
    if text is None:
        return None
    path = Path(text).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        reader.wrong("model", f"there is no file {reader.shown('model')}", _nearby(path, where))
        return None
    except OSError as error:
        reader.wrong(
            "model", f"cannot read {reader.shown('model')}: {(error.strerror or 'error').lower()}", "give a file"
        )
        return None
    if magic != _MAGIC:
        reader.wrong(
            "model", f"{reader.shown('model')} is not a GGUF file", "convert the model to GGUF, or correct the path"
        )
        return None
    return path.absolute()


def _nearby(path: Path, where: Path) -> str:
    """What to do about a file that is not there: the nearest one in the same folder, or the folder that was meant."""
    folder = where if where.is_dir() else where.parent
    if not path.is_absolute() and (folder / path).is_file():
        return f"relative paths start at the folder that bakeoff runs in: write {folder / path}, or run it there"
    names = [p.name for p in path.parent.glob("*.gguf")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"did you mean {path.parent / near[0]}?" if near else "correct the path"


def _kv_types(reader: SettingsReader, flash_attention: str) -> tuple[str, str]:
    both = reader.text("kv_type", None, KV_TYPES)
    for key in ("k_type", "v_type"):
        if reader.has(key) and reader.has("kv_type"):
            reader.wrong(key, "is given beside `kv_type`, which sets both", "keep `kv_type`, or `k_type` and `v_type`")
    k_type = reader.text("k_type", both or "f16", KV_TYPES) or "f16"
    v_type = reader.text("v_type", both or "f16", KV_TYPES) or "f16"
    if v_type not in _UNQUANTISED and flash_attention == "off":
        reader.wrong(
            "v_type" if reader.has("v_type") else "kv_type",
            f"a quantised V cache ({v_type}) needs flash attention, which is off",
            "set `flash_attention: on`, or `v_type: f16`",
        )
    return k_type, v_type


@dataclass(frozen=True, kw_only=True)
class LlamaRecipe:
    """Everything a variant says: the server's settings, extra body fields, time-outs in seconds."""

    llama: LlamaSettings
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request_timeout_s: float = 600.0
    first_byte_timeout_s: float | None = None
    idle_timeout_s: float | None = None
    ready_timeout_s: float = 600.0
    stop_timeout_s: float = 10.0


def read_llamacpp(
    settings: Mapping[str, Any], environ: Mapping[str, str], where: Path
) -> tuple[LlamaRecipe | None, list[Problem]]:
    """All settings (None if the model is wrong) and all that is wrong with them."""
    reader = SettingsReader(settings, environ)
    model = _model(reader, where)
    flash_attention = reader.text("flash_attention", "auto", ("auto", "on", "off")) or "auto"
    k_type, v_type = _kv_types(reader, flash_attention)
    threads = reader.integer("threads", low=1, high=512) or available_cores()
    batch = reader.integer("batch", 2048, low=1, high=65536) or 2048
    ubatch = reader.integer("ubatch", min(512, batch), low=1, high=65536) or 512
    if ubatch > batch:
        reader.wrong("ubatch", f"{ubatch} exceeds `batch`, which is {batch}", "a micro-batch is a part of a batch")
    values: dict[str, Any] = {
        "context": reader.integer("context", 4096, low=32, high=16_777_216),
        "parallel": reader.integer("parallel", 1, low=1, high=256),
        "threads": threads,
        "batch_threads": reader.integer("batch_threads", threads, low=1, high=512),
        "batch": batch,
        "ubatch": ubatch,
        "k_type": k_type,
        "v_type": v_type,
        "flash_attention": flash_attention,
        "gpu_layers": reader.integer("gpu_layers", low=0, high=10_000),
        "mmap": reader.flag("mmap", True),
        "repack": reader.flag("repack", True),
        "warmup": reader.flag("warmup", True),
        "prompt_cache_mib": reader.integer("prompt_cache_mib", 0),
        "checkpoints": reader.integer("checkpoints", low=0, high=4096),
        "chat_template": reader.text("chat_template"),
        "seed": reader.integer("seed", low=0, high=2**32 - 2),
    }
    check_declared(reader)
    rest: dict[str, Any] = {
        "body": read_body(reader),
        "request_timeout_s": reader.duration("request_timeout", 600.0),
        "first_byte_timeout_s": reader.limit("first_byte_timeout"),
        "idle_timeout_s": reader.limit("idle_timeout"),
        "ready_timeout_s": reader.duration("ready_timeout", 600.0),
        "stop_timeout_s": reader.duration("stop_timeout", 10.0, high=600.0),
    }
    problems = reader.finish()
    if model is None:
        return None, problems
    return LlamaRecipe(llama=LlamaSettings(model=str(model), alias=model.name, **values), **rest), problems


@functools.cache
def library_facts() -> dict[str, str]:
    """Version and build of the embedded library, asked once in a process of its own (it is 100 MB; we stay small).

    Raises EngineMissing when it is not installed, EngineError when it cannot be loaded here.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise EngineMissing("xllamacpp is not installed", where="engine llamacpp", remedy=_REMEDY_INSTALL)
    code = "import json, xllamacpp as x; print(json.dumps([x.BUILD_INFO, x.get_system_info()]))"
    try:
        asked = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            errors="replace",
        )
        build, system = json.loads(asked.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-3:]
        raise EngineError(
            "xllamacpp is installed but cannot be loaded",
            where="engine llamacpp",
            remedy="reinstall it for this machine: pip install --force-reinstall xllamacpp",
            log_tail=said,
        ) from None
    return {
        "xllamacpp": importlib.metadata.version("xllamacpp"),
        "llama.cpp build": " ".join(str(value) for value in build.values()),
        "llama.cpp features": " ".join(str(system).split()),
    }


class LlamaCppEngine:
    """Settings: see :class:`LlamaSettings`; kv_type sets k_type and v_type; body, price, energy, time-outs."""

    name = "llamacpp"

    def problems(self, settings: Mapping[str, Any], where: Path) -> Sequence[Problem]:
        """Raises EngineMissing when xllamacpp is not installed."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise EngineMissing("xllamacpp is not installed", where="engine llamacpp", remedy=_REMEDY_INSTALL)
        return read_llamacpp(settings, os.environ, where)[1]

    def launch(self, variant: Variant, context: StartContext) -> LaunchedServer:
        """Starts the server. Raises ConfigError or an EngineError; leaves no process."""
        recipe, problems = read_llamacpp(variant.settings, os.environ, Path.cwd())
        refuse(problems, f"variants.{variant.name}")
        if recipe is None:  # a wrong model is always a problem
            raise EngineError("the model cannot be used", where=f"variants.{variant.name}.model")
        redactor = Redactor(secrets_of(variant.settings, os.environ))
        llama, port = recipe.llama, context.port or free_port(_HOST)
        # Hashing reads the whole file and asking the library takes a process: both before the timed start.
        facts = _fingerprint(llama)
        settle(Path(llama.model), context.page_cache)
        child = Path(__file__).with_name("servers") / "llamacpp.py"
        wanted = json.dumps({**msgspec.to_builtins(llama), "port": port})

        def connect() -> tuple[Endpoint, Facts]:
            props = read_props(f"http://{_HOST}:{port}", EndpointSettings())
            config = {**msgspec.to_builtins(llama), **in_force(props), "model": llama.alias}
            return _endpoint(recipe, port), Facts(
                fingerprint={**facts, "weights": str(props.get("model_ftype", ""))}, effective_config=config
            )

        plan = LaunchPlan(
            process=ProcessSpec(
                argv=(sys.executable, "-P", str(child), "--settings", wanted),
                env=os.environ,
                log_path=context.log_path,
                redactor=redactor,
            ),
            readiness=Readiness(host=_HOST, port=port, timeout_s=recipe.ready_timeout_s),
            connect=connect,
            stop_timeout_s=recipe.stop_timeout_s,
            page_cache=page_cache(Path(llama.model)),
            redactor=redactor,
        )
        return launch(plan, variant, context)


def _endpoint(recipe: LlamaRecipe, port: int) -> Endpoint:
    return Endpoint(
        base_url=f"http://{_HOST}:{port}/v1",
        model=recipe.llama.alias,
        body=recipe.body,
        capabilities=Capabilities(
            ignore_eos=True, tokenizer="llamacpp", metrics_path="/metrics", cache_off={"cache_prompt": False}
        ),
        request_timeout_s=recipe.request_timeout_s,
        first_byte_timeout_s=recipe.first_byte_timeout_s,
        idle_timeout_s=recipe.idle_timeout_s,
    )


def _fingerprint(llama: LlamaSettings) -> dict[str, str]:
    """Versions, the model file's identity, and every setting; the file's folder says nothing and may be private."""
    model = Path(llama.model)
    settings = {k: v for k, v in msgspec.to_builtins(llama).items() if k not in ("model", "alias") and v is not None}
    return {
        "engine": "llamacpp",
        **library_facts(),
        "model": llama.alias,
        "model_bytes": str(model.stat().st_size),
        "model_sha256": sha256_of(model),
        **{name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()},
    }


ENGINE = LlamaCppEngine()
