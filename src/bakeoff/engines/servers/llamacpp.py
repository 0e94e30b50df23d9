"""The server behind engine ``llamacpp``: llama.cpp's own HTTP server, embedded through xllamacpp, on 127.0.0.1.

Runs as a child process (``python llamacpp.py --settings JSON``) and imports nothing of ours, so that its start-up is
the interpreter's and llama.cpp's alone. ``/health`` answers 503 while the model loads and 200 when it is ready.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_VERBOSITY_OF_LOADING = 4

_FLASH = {
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}


def _say(text: str) -> None:
    sys.stdout.write(f"[bakeoff] {text}\n")
    sys.stdout.flush()


def _put(params: Any, name: str, value: Any) -> None:
    """Sets a parameter; another version of the library may not have it, and then it must not be passed over."""
    if not hasattr(params, name):
        raise SystemExit(f"[bakeoff] this version of xllamacpp has no parameter {name!r}; install a newer one")
    setattr(params, name, value)


def _log_threshold() -> Callable[[int], object] | None:
    """Sets how much llama.cpp logs; None where this build of the library does not let us."""
    import xllamacpp

    folder = Path(xllamacpp.__file__).parent
    for path in sorted(folder.glob("xllamacpp*.so")):
        with contextlib.suppress(OSError, AttributeError):
            return ctypes.CDLL(str(path))._Z30common_log_set_verbosity_tholdi  # C++: common_log_set_verbosity_thold
    return None


def build_params(settings: dict[str, Any]) -> Any:
    """Settings → xllamacpp.CommonParams.

    Everything that would make two starts differ is pinned: no automatic fitting to free memory, no prompt cache in
    main memory that grows from request to request unless it was asked for.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["batch_threads"]
    values: dict[str, Any] = {
        "model_alias": {settings["alias"]},
        "hostnames": ["127.0.0.1"],
        "port": settings["port"],
        # llama.cpp divides its context among the slots; ours is the context of each.
        "n_ctx": settings["context"] * settings["parallel"],
        "n_parallel": settings["parallel"],
        # A connection occupies a thread, also an idle one; the default of a small machine lets requests wait for them.
        "n_threads_http": settings["parallel"] + 16,
        "kv_unified": False,
        "n_batch": settings["batch"],
        "n_ubatch": settings["ubatch"],
        "cache_type_k": getattr(xllamacpp.ggml_type, f"GGML_TYPE_{settings['k_type'].upper()}"),
        "cache_type_v": getattr(xllamacpp.ggml_type, f"GGML_TYPE_{settings['v_type'].upper()}"),
        "flash_attn_type": getattr(xllamacpp.llama_flash_attn_type, _FLASH[settings["flash_attention"]]),
        "load_mode": getattr(
            xllamacpp.llama_load_mode, "LLAMA_LOAD_MODE_MMAP" if settings["mmap"] else "LLAMA_LOAD_MODE_NONE"
        ),
        "no_extra_bufts": not settings["repack"],
        "warmup": settings["warmup"],
        "cache_ram_mib": settings["prompt_cache_mib"],
        "cache_idle_slots": settings["prompt_cache_mib"] != 0,
        "ctx_shift": False,
        "fit_params": False,
        "endpoint_metrics": True,
        "endpoint_props": False,  # GET works without; this would allow changing them
        "ui": False,
        "use_jinja": True,
    }
    optional = {"gpu_layers": "n_gpu_layers", "chat_template": "chat_template", "checkpoints": "n_ctx_checkpoints"}
    values |= {name: settings[key] for key, name in optional.items() if settings.get(key) is not None}
    for name, value in values.items():
        _put(params, name, value)
    if settings.get("seed") is not None:
        params.sampling.seed = settings["seed"]
    return params


def main() -> None:
    # The default action ends the process and its thread pool at once, also in the middle of llama.cpp's own code.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    began = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True, type=json.loads)
    settings = parser.parse_args().settings
    try:
        params = build_params(settings)
    except ImportError as error:
        raise SystemExit(f"[bakeoff] xllamacpp cannot be imported: {error}") from None
    import xllamacpp

    # What memory the model, its cache and its buffers take is told at a level that is too much while it answers.
    threshold, usual = _log_threshold(), params.verbosity
    if threshold is not None:
        params.verbosity = max(usual, _VERBOSITY_OF_LOADING)
    _say(f"library loaded after {time.monotonic() - began:.3f} s (xllamacpp {xllamacpp.__version__})")
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        _say(f"the server did not start: {error}")
        sys.stdout.flush()
        os._exit(1)
    if threshold is not None:
        threshold(usual)
    _say(f"model ready after {time.monotonic() - began:.3f} s at {server.listening_address}")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
