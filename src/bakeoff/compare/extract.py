"""From the raw columns of a block to the values of its requests. Formulas: the metric table (`bakeoff.metrics`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import Block, BlockData, Price
from ..stats.estimators import throughput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A request whose chunks account for this much fewer or more tokens than `usage` says has chunks of unknown size,
#: and so no inter-token gaps (two tokens are allowed for the end-of-sequence token and a merged first chunk).
_CHUNK_MISMATCH = 0.10
_CHUNK_SLACK = 2


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The requests of one block: arrays of shape (requests,), NaN where a value is undefined.

    `values` holds the per-request metrics [s], NaN also for failed requests. `itl_s` is flat, one value a token.
    """

    block: Block
    columns: Mapping[str, NDArray[np.generic]]
    prompt_id: Ints
    ok: Bools
    values: dict[str, Floats]
    itl_s: Floats
    itl_hidden: float  # share of later tokens whose gap cannot be seen
    per_block: dict[str, float]  # metrics of scope `block`, NaN where undefined

    @property
    def completed(self) -> int:
        """Requests without an error."""
        return int(self.ok.sum())

    @property
    def decoding(self) -> Bools:
        """Successful requests of two output tokens or more: those that have a time per token."""
        stamped = (_stamps(self.columns, "first_token_ns") >= 0) & (_stamps(self.columns, "last_token_ns") >= 0)
        return self.ok & stamped & (self.numbers("output_tokens") >= 2)

    @property
    def in_one_read(self) -> Bools:
        """Those of `decoding` whose tokens all came in one network read: their decode time cannot be seen."""
        return self.decoding & (_stamps(self.columns, "last_token_ns") <= _stamps(self.columns, "first_token_ns"))

    def numbers(self, name: str) -> Floats:
        """A numeric column, NaN for failed requests and where the column is not recorded."""
        if name not in self.columns:
            return np.full(self.ok.size, np.nan)
        return np.where(self.ok, np.asarray(self.columns[name], dtype=np.float64), np.nan)

    def texts(self, name: str) -> list[str | None]:
        """A text column (None for missing or empty)."""
        if name not in self.columns:
            return [None] * self.ok.size
        return [value if isinstance(value, str) and value else None for value in self.columns[name]]


def extract(data: BlockData, *, slo: Mapping[str, float] | None = None, price: Price | None = None) -> Requests:
    """All values of one block. slo: limits per request, by metric [s]. price: of the block's variant."""
    columns = data.columns
    ok = np.array([not (isinstance(e, str) and e) for e in columns["error"]], dtype=np.bool_)
    scheduled = _stamps(columns, "scheduled_ns")
    first, output = _stamps(columns, "first_token_ns"), _stamps(columns, "first_output_ns")
    last = _stamps(columns, "last_token_ns")
    tokens = np.asarray(columns["output_tokens"], dtype=np.float64)
    several = np.where(tokens >= 2, tokens - 1, np.nan)
    # Everything in one chunk leaves no time between first and last token: TPOT is then not observable.
    decode = _span(first, last, ok)
    decode[~(decode > 0)] = np.nan
    answered = (ok & (first >= 0) & (last >= 0)).astype(np.float64)
    gaps, hidden = _token_gaps(columns, ok, tokens)
    known = np.where(np.isfinite(tokens), tokens, 0.0)
    window = data.block.window_ns

    def rate(weights: Floats) -> float:
        return throughput(first, last, answered * weights, window)

    values = {
        "ttft_s": _span(scheduled, first, ok),
        "ttfo_s": _span(scheduled, output, ok),
        "tpot_s": decode / several,
        "e2e_latency_s": _span(scheduled, last, ok),
    }
    return Requests(
        block=data.block,
        columns=columns,
        prompt_id=np.asarray(columns["prompt_id"], dtype=np.float64).astype(np.int64),
        ok=ok,
        values=values,
        itl_s=gaps,
        itl_hidden=hidden,
        per_block={
            "request_throughput_rps": rate(answered),
            "token_throughput_tps": rate(known),
            "goodput_rps": rate(_meets(values, slo)) if slo else np.nan,
            "task_time_s": _task_time(columns, values["e2e_latency_s"]),
            "cost_per_request": _cost(columns, ok, tokens, price) + _machine_cost(rate(answered), price),
            "energy_per_token_j": _per_token(data.block.energy_j, window, rate(known)),
        },
    )


def _meets(values: Mapping[str, Floats], slo: Mapping[str, float]) -> Floats:
    """1 for each request that met every limit. An undefined value (TPOT of one token) cannot break its limit."""
    good = [np.isnan(values[name]) | (values[name] <= limit) for name, limit in slo.items() if name in values]
    return np.logical_and.reduce(good).astype(np.float64) if good else np.ones(len(next(iter(values.values()))))


def _cost(columns: Mapping[str, Any], ok: Bools, output_tokens: Floats, price: Price | None) -> float:
    """Mean cost of the tokens of completed requests, in the price's currency; NaN without a price or token counts."""
    if price is None or price.free or not ok.any():
        return np.nan
    if price.input == price.output == 0:
        return 0.0
    asked = np.asarray(columns["input_tokens"], dtype=np.float64)[ok]
    return float(np.mean((asked * price.input + output_tokens[ok] * price.output) / 1e6))


def _machine_cost(rate: float, price: Price | None) -> float:
    """Cost of the machine for one of so many requests a second; NaN where there is no such rate."""
    if price is None or not price.hour:
        return 0.0
    return price.hour / 3600 / rate if rate > 0 else np.nan


def _task_time(columns: Mapping[str, Any], e2e_s: Floats) -> float:
    """Mean time of a task [s]: the calls of a conversation together. One whose calls did not all end well is left out;
    NaN where there is none."""
    talks = np.asarray(columns.get("conversation", np.full(e2e_s.size, np.nan)), dtype=np.float64)
    single = ~np.isfinite(talks)
    times = e2e_s[single & np.isfinite(e2e_s)]
    names, owner = np.unique(talks[~single], return_inverse=True)
    if names.size:
        whole = np.bincount(owner, weights=e2e_s[~single], minlength=names.size)  # NaN: a call of it failed
        times = np.concatenate([times, whole[np.isfinite(whole)]])
    return float(times.mean()) if times.size else np.nan


def _per_token(energy_j: float | None, window_ns: tuple[int, int], tokens_per_s: float) -> float:
    """Energy of the steady window ÷ tokens that arrived in it [J]."""
    seconds = (window_ns[1] - window_ns[0]) / 1e9
    return energy_j / seconds / tokens_per_s if energy_j is not None and seconds > 0 and tokens_per_s > 0 else np.nan


def _stamps(columns: Mapping[str, Any], name: str) -> Ints:
    return np.asarray(columns[name], dtype=np.int64)


def _span(start: Ints, end: Ints, ok: Bools) -> Floats:
    """(end − start) [s]; NaN where a stamp is missing (−1) or the request failed. Integers first: no rounding."""
    good = ok & (start >= 0) & (end >= 0)
    return np.where(good, (end - start) / 1e9, np.nan)


def _token_gaps(columns: Mapping[str, Any], ok: Bools, output_tokens: Floats) -> tuple[Floats, float]:
    """(gap per token [s], flat; share of tokens without a visible gap).

    A chunk of k tokens counts as k tokens of gap ÷ k. Gaps within one network read tell nothing of the server.
    """
    if "chunk_ns" not in columns:
        return np.zeros(0), 1.0
    times, counts, merged = (columns[n] for n in ("chunk_ns", "chunk_tokens", "chunk_coalesced"))
    rows = [i for i in np.flatnonzero(ok) if len(times[i]) and len(times[i]) == len(counts[i]) == len(merged[i])]
    if not rows:
        return np.zeros(0), 1.0
    lengths = np.array([len(times[i]) for i in rows])
    owner = np.repeat(np.arange(len(rows)), lengths)
    t = np.concatenate([np.asarray(times[i], dtype=np.int64) for i in rows])
    k = np.concatenate([np.asarray(counts[i], dtype=np.int64) for i in rows])
    z = np.concatenate([np.asarray(merged[i], dtype=np.bool_) for i in rows])
    counted = np.bincount(owner, weights=k, minlength=len(rows))
    usage = output_tokens[rows]
    allowed = np.maximum(_CHUNK_SLACK, _CHUNK_MISMATCH * np.nan_to_num(usage))
    sized = ~np.isfinite(usage) | (np.abs(usage - counted) <= allowed)
    within = owner[1:] == owner[:-1]
    later = np.where(within, np.maximum(k[1:], 0), 0)
    visible = within & ~z[1:] & sized[owner[1:]] & (k[1:] > 0)
    total = int(later.sum())
    if not total:
        return np.zeros(0), 1.0
    weights = later[visible]
    gaps = np.repeat((t[1:] - t[:-1])[visible] / 1e9 / weights, weights)
    return gaps, 1.0 - float(weights.sum()) / total
