"""When is a server warm? Judged from the latencies of its first requests after a start."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# Two consecutive windows within 10 %: well above the request noise of a quiet machine (2–5 %), well below the
# steps that warm-up causes (JIT, lazy loading, page faults: 30 % and more).
_TOLERANCE = 0.10


def is_stable(latencies_s: Sequence[float], window: int) -> bool | None:
    """True when the last `window` latencies agree with the `window` before them; None: too few to tell.

    Medians of the two windows are compared, so that one slow request does not decide.
    """
    if len(latencies_s) < 2 * window:
        return None
    late = statistics.median(latencies_s[-window:])
    early = statistics.median(latencies_s[-2 * window : -window])
    if late <= 0 or early <= 0:
        return None
    return abs(math.log(late / early)) <= _TOLERANCE
