"""Before the first request to an API that costs money: its price must be known."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from ..errors import UsageError
from ..model import Experiment, Variant
from ..web.address import is_socket


def may_cost_money(variant: Variant) -> bool:
    """True for a URL on the open internet that takes a key. Private and loopback addresses are one's own."""
    url = variant.settings.get("url")
    if variant.engine != "openai" or not isinstance(url, str) or not variant.settings.get("api_key"):
        return False
    if is_socket(url):
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
    unpriced = [v for v in experiment.variants if v.settings.get("price") is None and v.engine == "openai"]
    if experiment.budget.spend is not None and unpriced:
        what, missing = "a spend budget needs the price of every URL", unpriced
    else:
        missing = [variant for variant in unpriced if may_cost_money(variant)]
        what = "this API may cost money, and its price is not declared"
    if missing:
        raise UsageError(
            what,
            where=", ".join(f"variants.{variant.name}" for variant in missing),
            remedy="add `price: {input: 0.15, output: 0.60, currency: USD}` (per million tokens), or `price: free`",
        )
