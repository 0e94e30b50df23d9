"""The answer of one analysis: numbers for programs, one table for people, and a sentence on what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a section's table. kind: "text" | "count" | "ms" | "us" | "percent" | "bytes" | "number"."""

    title: str
    kind: str = "text"


@dataclass(frozen=True, kw_only=True)
class Section:
    """What one analysis found.

    data: JSON-able numbers under stable names. rows: raw values, formatted by the renderer according to the columns.
    counted: what the numbers include, in one sentence. notes: what a reader must be told, such as what is unknown.
    """

    name: str
    title: str
    counted: str
    data: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    notes: tuple[str, ...] = ()
