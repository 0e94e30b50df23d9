"""Read-only access to the tables of an Nsight Systems SQLite export: by name, tolerant of what is absent.

Only tables named by a reader are read; views and virtual tables of a file are never touched (their text is code of
whoever wrote the file), nor are the tables that hold environments, command lines and program output.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from .limits import TraceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"SQLite format 3\x00"
#: Never read: environment, capture command lines, output of the profiled programs.
PRIVATE = re.compile(
    r"(?i)TARGET_INFO_SYSTEM_ENV|META_DATA_CAPTURE|ProcessStreams|ANALYSIS_FILE|DIAGNOSTIC_EVENT|.*ENV.*"
)
_ROWS_AT_ONCE = 65_536
_LONGEST_VALUE = 1 << 24  # bytes of one text or row; a longer one is no kernel name
_LEAST_ROW_BYTES = 4  # a row takes at least its cell pointer and its header: no file holds more rows than this allows


class Tables:
    """The tables of one open database."""

    def __init__(self, connection: sqlite3.Connection, path: Path, notes: tuple[str, ...] = ()) -> None:
        self._connection = connection
        self._most_rows = path.stat().st_size // _LEAST_ROW_BYTES + 1
        self.path = path
        self.notes = notes
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        self._names = {
            name: ""
            for name, sql in listed
            if isinstance(name, str) and isinstance(sql, str) and re.match(r"(?i)CREATE\s+TABLE\b", sql)
            if not PRIVATE.fullmatch(name)
        }
        self._columns: dict[str, frozenset[str]] = {}

    def name_of(self, base: str) -> str | None:
        """The table of that name, or its newest versioned form (``_V2``, ``_V3``); None if there is neither."""
        pattern = re.compile(re.escape(base) + r"(?:_V(\d{1,3}))?")
        found = [(int(m[1] or 1), name) for name in self._names if (m := pattern.fullmatch(name))]
        filled = [entry for entry in found if self._has_rows(entry[1])]
        return max(filled or found)[1] if found else None

    def _has_rows(self, name: str) -> bool:
        return self._connection.execute(f"SELECT 1 FROM {_quoted(name)} LIMIT 1").fetchone() is not None  # noqa: S608 - a quoted name

    def columns(self, base: str) -> frozenset[str]:
        """Names of a table's columns (empty if there is no such table)."""
        name = self.name_of(base)
        if name is None:
            return frozenset()
        if name not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            self._columns[name] = frozenset(str(row[1]) for row in rows)
        return self._columns[name]

    def count(self, base: str) -> int:
        """How many rows a table has (0 if there is none)."""
        name = self.name_of(base)
        if name is None:
            return 0
        counted = self._connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {_quoted(name)} LIMIT {self._most_rows})"  # noqa: S608 - a quoted name
        ).fetchone()
        return int(counted[0])

    def rows(self, base: str, columns: Sequence[str], where: str = "") -> Iterator[list[tuple[object, ...]]]:
        """Rows in batches; a column that the table lacks is NULL. `where` is SQL of the reader's own."""
        name = self.name_of(base)
        if name is None:
            return
        present = self.columns(base)
        wanted = ", ".join(_quoted(c) if c in present else "NULL" for c in columns)
        condition = f" WHERE {where}" if where else ""
        cursor = self._connection.execute(
            f"SELECT {wanted} FROM {_quoted(name)}{condition} LIMIT {self._most_rows}"  # noqa: S608 - quoted names
        )
        while batch := cursor.fetchmany(_ROWS_AT_ONCE):
            yield batch

    def integers(self, base: str, columns: Sequence[str], missing: int = -1) -> dict[str, NDArray[np.int64]]:
        """Integer columns of a whole table, each of shape (rows,); what is absent or no integer is `missing`."""
        import numpy as np

        name = self.name_of(base)
        if name is None:
            return {column: np.empty(0, dtype=np.int64) for column in columns}
        present = self.columns(base)
        wanted = ", ".join(
            f"CASE typeof({_quoted(c)}) WHEN 'integer' THEN {_quoted(c)} ELSE {int(missing)} END"
            if c in present
            else str(int(missing))
            for c in columns
        )
        cursor = self._connection.execute(
            f"SELECT {wanted} FROM {_quoted(name)} LIMIT {self._most_rows}"  # noqa: S608 - quoted names
        )
        parts = []
        while batch := cursor.fetchmany(_ROWS_AT_ONCE):
            parts.append(np.array(batch, dtype=np.int64))
        table = np.concatenate(parts) if parts else np.empty((0, len(columns)), dtype=np.int64)
        return {column: np.ascontiguousarray(table[:, i]) for i, column in enumerate(columns)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_tables(path: Path) -> Iterator[Tables]:
    """Opens the file read-only and gives its tables; nothing is ever written beside it.

    Raises TraceError when it is no SQLite database, is damaged, or cannot be read.
    """
    notes: list[str] = []
    connection: sqlite3.Connection | None = None
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise TraceError("is no SQLite database", where=str(path), remedy=_EXPORT)
        connection = _connect(path, notes)
        yield Tables(connection, path, tuple(notes))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite quotes a damaged schema in its messages, which Python then cannot decode.
        reason = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
        raise TraceError(
            f"cannot be read as a database: {reason}",
            where=str(path),
            remedy="wait until its export has ended, or export it again: " + _EXPORT,
        ) from None
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    finally:
        if connection is not None:
            connection.close()


_EXPORT = "nsys export --type sqlite FILE.nsys-rep"


def _connect(path: Path, notes: list[str]) -> sqlite3.Connection:
    """Immutable: no lock is taken, so a file that another program holds, or one in a read-only folder, opens too.

    The price: what still lies in a write-ahead log is not seen. Where one is filled, an ordinary read-only
    connection is tried first, which does see it.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        connection = sqlite3.connect(uri, uri=True, timeout=1.0)
        try:
            _harden(connection)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
        except sqlite3.OperationalError:
            connection.close()
            notes.append(f"{log.name} could not be read: what another program has not yet written back is missing")
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and journal.stat().st_size > 0:
        notes.append(f"{journal.name} exists: an export is still going on, or was cut off; the file may be incomplete")
    connection = sqlite3.connect(uri + "&immutable=1", uri=True)
    _harden(connection)
    return connection


def _harden(connection: sqlite3.Connection) -> None:
    """An untrusted file: no code of its schema runs, nothing is written, no value grows without bound."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
