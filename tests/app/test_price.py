from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bakeoff.app.price import may_cost_money, require_prices
from bakeoff.errors import UsageError
from bakeoff.model import Budget, Spend, Variant
from tests.measure.test_plan import experiment


def variant(url: str, **settings: Any) -> Variant:
    return Variant(name="v", engine="openai", settings={"url": url, **settings})


@pytest.mark.parametrize(
    ("url", "costs"),
    [
        ("https://api.example.com/v1", True),
        ("http://127.0.0.1:8000", False),
        ("http://localhost:8000/v1", False),
        ("http://10.1.2.3:8000", False),
        ("http://192.168.0.7/v1", False),
        ("http://[::1]:8000", False),
        ("http://gpu-box:8000", False),
        ("http://gpu.internal:8000", False),
        ("http://8.8.8.8/v1", True),
    ],
)
def test_only_the_open_internet_with_a_key_costs_money(url: str, costs: bool) -> None:
    assert may_cost_money(variant(url, api_key="${KEY}")) is costs
    assert not may_cost_money(variant(url))


def test_a_paid_api_needs_its_price_before_the_first_request() -> None:
    paid = variant("https://api.example.com/v1", api_key="${KEY}")
    with pytest.raises(UsageError, match="price"):
        require_prices(experiment(2, variants=(paid, paid)))
    priced = variant("https://api.example.com/v1", api_key="${KEY}", price={"input": 1, "output": 2})
    require_prices(experiment(2, variants=(priced, priced)))
    free = variant("https://api.example.com/v1", api_key="${KEY}", price="free")
    require_prices(experiment(2, variants=(free, free)))


def test_a_spend_budget_needs_the_price_of_every_url() -> None:
    local = variant("http://127.0.0.1:8000")
    asked = msgspec.structs.replace(experiment(2), variants=(local, local), budget=Budget(spend=Spend(amount=5)))
    with pytest.raises(UsageError, match="spend budget"):
        require_prices(asked)
