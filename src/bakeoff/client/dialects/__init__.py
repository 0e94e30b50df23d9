"""The dialects of HTTP APIs that stream generated text: one file each, one table."""

from __future__ import annotations

from ...model import Api
from .chat import CHAT
from .completions import COMPLETIONS
from .messages import MESSAGES
from .responses import RESPONSES
from .seam import Dialect, Prompt

#: Every `api` that a workload may name.
DIALECTS: dict[Api, Dialect] = {dialect.api: dialect for dialect in (COMPLETIONS, CHAT, RESPONSES, MESSAGES)}

__all__ = ["DIALECTS", "Dialect", "Prompt"]
