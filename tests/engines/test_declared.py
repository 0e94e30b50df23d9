from typing import Any

import pytest

from bakeoff.engines.declared import check_declared
from bakeoff.engines.settings import SettingsReader
from bakeoff.model import Power, Price, Variant


def problems(**settings: Any) -> list[tuple[str, ...]]:
    reader = SettingsReader(settings, {})
    check_declared(reader)
    return [problem.key for problem in reader.finish()]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"price": "free"},
        {"price": {"input": 0.15, "output": 0.6}},
        {"price": {"hour": 2.5}},
        {"price": {"hour": "2.5 EUR"}},
        {"price": {"hour": 2.5, "input": 0.1, "output": 0.2, "currency": "EUR"}},
        {"energy": {"idle": "40 W", "busy": "1.2 kW"}},
        {"energy": {"idle": 40, "busy": 120}},
    ],
)
def test_what_may_be_declared(settings: dict[str, Any]) -> None:
    assert problems(**settings) == []


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"price": {"hour": "much"}}, ("price", "hour")),
        ({"price": {"hour": -1}}, ("price", "hour")),
        ({"price": {"hour": 1, "input": 2}}, ("price", "output")),
        ({"price": {"hour": "1 EUR", "currency": "USD"}}, ("price", "currency")),
        ({"price": {}}, ("price", "input")),
        ({"energy": 40}, ("energy",)),
        ({"energy": {"idle": 40}}, ("energy", "busy")),
        ({"energy": {"idle": "120 W", "busy": "40 W"}}, ("energy", "busy")),
        ({"energy": {"idle": "40 volts", "busy": 100}}, ("energy", "idle")),
        ({"energy": {"idle": 40, "busy": 100, "bussy": 3}}, ("energy", "bussy")),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, Any], key: tuple[str, ...]) -> None:
    assert key in problems(**settings)


def test_as_the_model_reads_it() -> None:
    variant = Variant(
        name="a", engine="openai", settings={"price": {"hour": "2.5 EUR"}, "energy": {"idle": "40 W", "busy": "1.2 kW"}}
    )
    assert variant.price == Price(hour=2.5, currency="EUR")
    assert not variant.price.free
    assert variant.power == Power(idle=40, busy=1200)
    assert variant.power.at(0.5) == 620
    assert Variant(name="a", engine="openai").power is None
