"""The documentation as data: pages, their code blocks, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class CodeBlock(NamedTuple):
    """A fenced block. `line`: of its first line of code, from 1."""

    page: str
    line: int
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page, and the README where there is one."""
    readme = ROOT / "README.md"
    return [*sorted(DOCS.glob("*.md")), *([readme] if readme.is_file() else [])]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def code_blocks(language: str) -> list[CodeBlock]:
    """All blocks of a language, over all pages."""
    return [block for path in pages() for block in _blocks(path) if block.language == language]


def _blocks(path: Path) -> Iterator[CodeBlock]:
    text = path.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield CodeBlock(path.name, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])


def links(path: Path) -> list[str]:
    """Targets of the links outside code blocks."""
    return _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """The anchors that a renderer makes of the headings (GitHub's rule: letters, digits, blanks to dashes)."""
    prose = _FENCE.sub("", path.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def table_rows(text: str) -> list[list[str]]:
    """Cells of every table row (heads and rules included), trimmed."""
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line[:1] == "|"]


def code_words(text: str) -> set[str]:
    """Everything that stands in backticks, outside code blocks."""
    return set(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))
