"""Before the first request to an API that costs money: its price must be known."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from ..errors import UsageError
from ..model import Experiment, Variant


def may_cost_money(variant: Variant) -> bool:
    """True for a URL on the open internet that takes a key. Private and loopback addresses are one's own."""
    url = variant.settings.get("url")
    if variant.engine != "openai" or not isinstance(url, str) or not variant.settings.get("api_key"):
        return False
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    if host == "localhost" or host.endswith((".local", ".internal", ".localhost")) or "." not in host + ":":
        return False
    try:
        return not (ipaddress.ip_address(host).is_private or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return "." in host


def require_prices(experiment: Experiment) -> None:
    """Raises UsageError, naming each variant whose price is not declared, before anything is sent."""
    missing = [v.name for v in experiment.variants if v.settings.get("price") is None and may_cost_money(v)]
    needs_all = experiment.budget.spend is not None
    if needs_all:
        missing = [v.name for v in experiment.variants if v.settings.get("price") is None and (v.engine == "openai")]
    if missing:
        raise UsageError(
            "this API may cost money, and its price is not declared",
            where=", ".join(f"variants.{name}" for name in missing),
            remedy="add `price: {input: 0.15, output: 0.60, currency: USD}` (per million tokens), or `price: free`",
        )
