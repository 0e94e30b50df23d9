"""Prompts and arrival schedules: what is sent, and when. Deterministic, and the same for every arm."""

from .jsonl import JsonlPrompts
from .nonce import nonce
from .problems import WorkloadError
from .prompts import Prompt, PromptFactory
from .schedule import draw_schedule
from .seeds import derive_seed
from .sharegpt import ShareGptPrompts
from .sources import read_source
from .tokens import Tokenizer, estimate_tokens
from .traces import Trace

__all__ = [
    "JsonlPrompts",
    "Prompt",
    "PromptFactory",
    "ShareGptPrompts",
    "Tokenizer",
    "Trace",
    "WorkloadError",
    "derive_seed",
    "draw_schedule",
    "estimate_tokens",
    "nonce",
    "read_source",
]
