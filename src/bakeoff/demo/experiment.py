"""The demo's experiment: three variants of one model, a short and a long prompt.

Sizes are chosen for two slow cores (about 360 prompt tokens/s and 50 output tokens/s with the Q8_0 file): there a full
round takes about 75 s and a quick one about 9 s. Faster machines end sooner, as soon as every gate is decided.
"""

from __future__ import annotations

import os
from typing import Any

from ..engines.cores import available_cores
from ..model import BlockSize, Budget, Experiment, Load, Prompts, Variant, Warmup, Workload
from .models import DemoModels

#: Why nothing is said about quality: `base` is no full-precision reference, it holds the packaged file's weights again.
QUALITY_NOTE = "all variants come from one already quantised file"

SHORT_TOKENS, LONG_TOKENS, OUTPUT_TOKENS = 128, 2048, 32
CONTEXT = 4096  # the long prompt with its output, and room; twice that would only take memory
_MOST_THREADS = 8  # a model of this size gains nothing from more, and would lose to their synchronisation


def demo_experiment(models: DemoModels, *, quick: bool = False) -> Experiment:
    """Base: Q8_0 weights, 16-bit KV cache. Flash: Q4_0 block weights and q8_0 KV cache. Fixed: flash with 16-bit KV.

    So flash against base changes two things, fixed against base one, flash against fixed the other. `quick`: the short
    prompt only, all variants resident, one start an arm: its result holds for those starts only.
    """
    return Experiment(
        name="demo-quick" if quick else "demo",
        variants=(
            _variant("base", models.base, "f16"),
            _variant("flash", models.flash, "q8_0"),
            _variant("fixed", models.flash, "f16"),
        ),
        workloads=(_workload("short", SHORT_TOKENS, requests=3),)
        if quick
        else (
            _workload("short", SHORT_TOKENS, requests=4),
            # One long request a block: its prefill alone averages over seconds of computing, and with the time given
            # another round (with starts of its own) is worth more than a second request in the same block.
            _workload("long", LONG_TOKENS, requests=1),
        ),
        budget=_QUICK_BUDGET if quick else _FULL_BUDGET,
        start_every=0 if quick else 1,
        resident="all" if quick else "one",
        gates=("ttft_s", "tpot_s"),
        # The time limit is for the long prompt, of which one request (after the short ones or before them) has to do
        # on slow machines; the short prompt warms up until two requests agree.
        warmup=Warmup(min_requests=1, max_requests=3, max_seconds=3.0),
        aa_pairs=1 if quick else 2,
    )


# Two metrics × two cells × two candidates = 8 gates share the error budget; at 0.05/8 the anytime-valid interval is
# infinite below 7 pairs, so no earlier look can decide. 4 gates at 0.05/4 (quick): infinite below 6.
_FULL_BUDGET = Budget(min_pairs=7, max_pairs=16, seconds=11 * 60.0)
_QUICK_BUDGET = Budget(min_pairs=6, max_pairs=10, seconds=110.0)


def _variant(name: str, model: os.PathLike[str], kv_type: str) -> Variant:
    """Everything that is not compared is said outright, so that no default can differ between the arms."""
    settings: dict[str, Any] = {
        "model": os.fspath(model),
        "kv_type": kv_type,
        "flash_attention": "on",  # a quantised V cache needs it, so all arms have it
        "context": CONTEXT,
        "parallel": 1,
        "threads": min(available_cores(), _MOST_THREADS),
    }
    return Variant(name=name, engine="llamacpp", settings=settings)


def _workload(name: str, input_tokens: int, *, requests: int) -> Workload:
    return Workload(
        name=name,
        prompts=Prompts(source="synthetic", input_tokens=input_tokens),
        output_tokens=OUTPUT_TOKENS,
        length="fixed",
        load=Load(kind="closed", levels=(1,)),
        block=BlockSize(requests=requests),
    )
