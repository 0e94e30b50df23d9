"""The frame of every page: its policy, its style, and nothing that is fetched or run."""

from __future__ import annotations

from importlib.resources import files

from .html_element import Child, Markup, h

# Nothing may be fetched or run, whatever a hostile text managed to become.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, *body: Child, body_class: str | None = None) -> str:
    """A whole self-contained page with these children in its body."""
    style = files(__package__).joinpath("html.css").read_text(encoding="utf-8")
    html = h(
        "html",
        {"lang": "en"},
        h(
            "head",
            None,
            h("meta", {"charset": "utf-8"}),
            h("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
            h("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
            h("meta", {"name": "color-scheme", "content": "light dark"}),
            h("meta", {"name": "referrer", "content": "no-referrer"}),
            h("title", None, title),
            Markup(f"<style>{style}</style>"),
        ),
        h("body", {"class": body_class}, *body),
    )
    return f"<!doctype html>\n{html}\n"
