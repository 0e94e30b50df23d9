"""What an experiment declares of a variant without the server knowing: its price, and the power it draws."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .settings import SettingsReader

_MONEY = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([A-Z]{3})\s*")
_WATTS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(k?W)?\s*")
_PRICES = "price: {input: 0.15, output: 0.60, currency: USD}, or price: {hour: 2.5 USD}"
_POWER = "energy: {idle: 40 W, busy: 120 W}"


def check_declared(reader: SettingsReader) -> None:
    """Checks `price` and `energy`; problems are noted in the reader."""
    _check_price(reader)
    _check_energy(reader)


def _check_price(reader: SettingsReader) -> None:
    """``free``, ``{input, output, currency}`` per million tokens, ``{hour}``, or both; the budget reads it."""
    price = reader.value("price")
    if price is None or price == "free":
        return
    if not isinstance(price, Mapping):
        reader.wrong("price", f"must be 'free', or prices, not {reader.shown('price')}", _PRICES)
        return
    inner = reader.nested("price")
    hour = inner.value("hour")
    if hour is not None:
        _check_hour(inner, hour)
    for key in ("input", "output"):
        if hour is None or inner.has("input") or inner.has("output"):
            inner.require(key, "write the price of a million tokens")
        inner.number(key)
    currency = inner.text("currency", "USD")
    if currency is not None and not re.fullmatch(r"[A-Z]{3}", currency):
        inner.wrong("currency", f"must be a currency code, not {inner.shown('currency')}", "for example: USD, EUR")
    reader.problems.extend(inner.finish())


def _check_hour(inner: SettingsReader, hour: object) -> None:
    if isinstance(hour, str):
        match = _MONEY.fullmatch(hour)
        if match is None:
            inner.wrong("hour", f"must be an amount such as 2.5 USD, not {inner.shown('hour')}", _PRICES)
        elif inner.has("currency") and inner.raw("currency") != match[2]:
            inner.wrong("currency", f"is {inner.shown('currency')}, and the hour is in {match[2]}", "name one currency")
    else:
        inner.number("hour")


def _check_energy(reader: SettingsReader) -> None:
    """``{idle: 40 W, busy: 120 W}``: power of the machine without load, and with all of it at work."""
    energy = reader.value("energy")
    if energy is None:
        return
    if not isinstance(energy, Mapping):
        reader.wrong("energy", f"must be watts without and with load, not {reader.shown('energy')}", _POWER)
        return
    inner = reader.nested("energy")
    watts = {}
    for key in ("idle", "busy"):
        inner.require(key, _POWER)
        watts[key] = _watts(inner, key)
    idle, busy = watts["idle"], watts["busy"]
    if idle is not None and busy is not None and busy < idle:
        inner.wrong("busy", f"is {inner.shown('busy')}, less than `idle`", "give the power with all cores at work")
    reader.problems.extend(inner.finish())


def _watts(inner: SettingsReader, key: str) -> float | None:
    value = inner.value(key)
    if value is None:
        return None
    if isinstance(value, str):
        match = _WATTS.fullmatch(value)
        if match is not None:
            return float(match[1]) * (1000.0 if match[2] == "kW" else 1.0)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    inner.wrong(key, f"must be a power such as 40 W, not {inner.shown(key)}", _POWER)
    return None
