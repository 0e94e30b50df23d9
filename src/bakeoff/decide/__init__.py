"""Comparisons in, advice out: deterministic rules, each with its reason."""

from .choose import decide

__all__ = ["decide"]
