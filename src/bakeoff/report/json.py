"""result.json: the contract that others build on (schema ``bakeoff.result/1``)."""

from __future__ import annotations

import math
from typing import Any

from ..model import Result


def render_json(result: Result) -> str:
    """The result as indented JSON; ends with a line end. Numbers that JSON does not have become null."""
    import msgspec

    plain = _finite(msgspec.to_builtins(result))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
