"""Links between pages lead somewhere, and every page is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import DOCS, anchors, links, pages


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    for link in links(path):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name} links to {link}"
        if anchor:
            assert anchor in anchors(file), f"{path.name} links to {link}; it has {sorted(anchors(file))}"


def test_the_index_lists_every_page() -> None:
    listed = {link.partition("#")[0] for link in links(DOCS / "index.md")}
    assert {path.name for path in DOCS.glob("*.md")} - {"index.md"} == listed


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_prose_keeps_to_the_line_length(path: Path) -> None:
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        inside ^= line.startswith("```")
        assert inside or line[:1] in "|-" or len(line) <= 140, f"{path.name}:{number}: {len(line)} characters"
