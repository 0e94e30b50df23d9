"""A number with its uncertainty."""

from __future__ import annotations

from typing import Literal

import msgspec

Better = Literal["lower", "higher"]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A point and its interval, in the unit of its row. Infinite or unknown bounds are None."""

    point: float | None
    low: float | None = None
    high: float | None = None
