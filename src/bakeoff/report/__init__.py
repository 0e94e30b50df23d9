"""Renderers: each formats the view (or the result) into text and computes no statistics.

Imported lazily, so that a terminal verdict does not pay for the chart library of the HTML report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["render_html", "render_json", "render_markdown", "render_terminal"]

if TYPE_CHECKING:
    from .html import render_html
    from .json import render_json
    from .markdown import render_markdown
    from .terminal import render_terminal


def __getattr__(name: str) -> Any:
    """Public names are imported on first use (PEP 562)."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f".{name.removeprefix('render_')}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
