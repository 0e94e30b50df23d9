"""Texts of an Nsight Systems export: the ids that events use → the names of a Timeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from .limits import Limits
from .nsys_tables import Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

# cudaLaunchKernel_v7000, cudaMemcpyAsync_ptsz_v7000, cuMemcpyDtoHAsync_v2: one call, whatever its version.
_CALL_VERSION = re.compile(r"^((?:cu|cuda)[A-Z]\w*?)(?:_ptsz|_ptds)?(?:_v\d+)*(?:_ptsz|_ptds)?$")
UNKNOWN = "?"


class Names:
    """Interns texts: `ids` for references into StringIds, `of` for texts that stand in the event itself."""

    def __init__(self, tables: Tables, limits: Limits) -> None:
        self._tables = tables
        self._limits = limits
        self._index: dict[str, int] = {}
        self._strings: dict[int, str] = {}

    def of(self, text: str) -> int:
        """The index of a text (bounded in length and number)."""
        text = _CALL_VERSION.sub(r"\1", text[: self._limits.name_chars])
        known = self._index.get(text)
        if known is not None:
            return known
        if len(self._index) >= self._limits.names:
            return self.of(UNKNOWN) if UNKNOWN in self._index else 0
        self._index[text] = len(self._index)
        return self._index[text]

    def ids(self, ids: NDArray[np.int64], *fallbacks: NDArray[np.int64]) -> NDArray[np.int32]:
        """Name indices for ids of StringIds, each of shape (n,); where one has no text, the next column is asked."""
        columns = [ids, *fallbacks]
        self._load(np.unique(np.concatenate(columns)) if columns else ids)
        result = np.full(len(ids), -1, np.int32)
        for column in columns:
            open_ = np.flatnonzero(result < 0)
            if not len(open_):
                break
            values, inverse = np.unique(column[open_], return_inverse=True)
            mapped = np.array([self.of(t) if (t := self._strings.get(int(v))) else -1 for v in values], np.int32)
            result[open_] = mapped[inverse]
        if (result < 0).any():
            result[result < 0] = self.of(UNKNOWN)
        return result

    def string(self, string_id: int) -> str:
        """The text of one id that `ids` or `load` has seen ("" when there is none)."""
        return self._strings.get(string_id, "")

    def load(self, ids: NDArray[np.int64]) -> None:
        """Makes the texts of these ids known to `string`."""
        self._load(np.unique(ids))

    def _load(self, wanted: NDArray[np.int64]) -> None:
        """Reads the texts that are used; the table may hold a million others."""
        missing = {int(v) for v in wanted if v >= 0} - self._strings.keys()
        if not missing:
            return
        for batch in self._tables.rows("StringIds", ("id", "value")):
            for string_id, value in batch:
                if string_id in missing and isinstance(string_id, int):
                    self._strings[string_id] = str(value)[: self._limits.name_chars] if value is not None else ""

    def any_used(self, part: str) -> bool:
        """Whether any name holds this text."""
        return any(part in name for name in self._index)

    def texts(self) -> tuple[str, ...]:
        """All names, by index."""
        return tuple(self._index)
