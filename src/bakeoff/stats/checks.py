"""What every estimator demands of its input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import TooFewData


def finite_vector(values: NDArray[np.float64] | Sequence[float]) -> NDArray[np.float64]:
    """`values` as a float64 vector. Raises TooFewData where a value is NaN or infinite, or the shape is not (n,)."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise TooFewData(f"a vector was expected, not an array of shape {x.shape}", remedy="pass one value per pair")
    if not np.isfinite(x).all():
        raise TooFewData(
            f"{int((~np.isfinite(x)).sum())} of {x.size} values are not finite",
            remedy="leave undefined values out before estimating",
        )
    return x
