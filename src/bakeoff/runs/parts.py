"""Parquet parts: requests of a block, its telemetry, and the starts. Written once, read without trust."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import RunFolderError
from ..model import Answer, Block, Distribution, RequestRecord, Sample, Start
from . import atomic
from .columns import Kind, kinds
from .info import RUN_SCHEMA

SCHEMA_KEY = b"bakeoff.schema"
BLOCK_KEY = b"bakeoff.block"

# Bounds for folders that come from elsewhere. A block of the longest run that the budget allows (20,000 requests of
# a few thousand chunks) stays well below them.
MAX_FILE_BYTES = 2**30
MAX_PLAIN_BYTES = 2**32  # uncompressed, as the file itself declares it
MAX_ROWS = 5_000_000
MAX_BLOCK_JSON = 2**20

_REMEDY = "restore it from a copy, or remove it: the other blocks of the run stay usable"

T = TypeVar("T", bound=msgspec.Struct)


def write_requests(path: Path, block: Block, requests: Sequence[RequestRecord]) -> None:
    """Commits a block: its requests as rows, the block itself in the schema's metadata. Raises OSError."""
    _write(path, RequestRecord, requests, {BLOCK_KEY: msgspec.json.encode(block)})


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Writes the telemetry of a block. Raises OSError."""
    _write(path, Sample, samples, {})


def write_starts(path: Path, starts: Sequence[Start]) -> None:
    """Writes all the starts of a run anew. Raises OSError."""
    _write(path, Start, starts, {})


def write_answers(path: Path, answers: Sequence[Answer]) -> None:
    """Writes answers to quality tasks. Raises OSError."""
    _write(path, Answer, answers, {})


def write_distributions(path: Path, rows: Sequence[Distribution]) -> None:
    """Writes one walk along the texts of a divergence. Raises OSError."""
    _write(path, Distribution, rows, {})


def _write(path: Path, struct: type[msgspec.Struct], rows: Sequence[Any], metadata: dict[bytes, bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields, arrays = [], []
    for name, kind in kinds(struct).items():
        arrays.append(_array([getattr(row, name) for row in rows], kind))
        fields.append(pa.field(name, arrays[-1].type))
    schema = pa.schema(fields, metadata={SCHEMA_KEY: RUN_SCHEMA.encode(), **metadata})
    table = pa.Table.from_arrays(arrays, schema=schema)

    def fill(temporary: Path) -> None:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    atomic.write_atomic(path, fill)


def _arrow_type(kind: Kind) -> Any:
    import pyarrow as pa

    return {
        "stamp": pa.int64(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "ints": pa.list_(pa.int64()),
        "bools": pa.list_(pa.bool_()),
        "floats": pa.list_(pa.float64()),
        "json": pa.string(),
    }[kind]


def _array(values: list[Any], kind: Kind) -> Any:
    """An arrow column. What a server says must not be able to lose a block: what does not fit is made to."""
    import pyarrow as pa

    if kind == "json":
        # Strict JSON has no infinity or NaN; msgspec would write null, which is no number when it is read back.
        values = [msgspec.json.encode(_finite(v)).decode() for v in values]
    try:
        return pa.array(values, type=_arrow_type(kind))
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        return pa.array([_fit(v) for v in values], type=_arrow_type(kind))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    limit = float("inf")
    return {_fit(k): _fit(v) for k, v in values.items() if not isinstance(v, float) or -limit < v < limit}


def _fit(value: Any) -> Any:
    if isinstance(value, str):  # lone surrogates, which JSON can carry and UTF-8 cannot
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # a nonsense count counts as not told
        return None
    return value


def read_block(path: Path) -> Block:
    """The block of a part, from its footer alone. Raises RunFolderError."""
    with _Part(path) as part:
        return part.block()


def read_requests(path: Path) -> tuple[Block, Any]:
    """(block, table with every field of RequestRecord). Raises RunFolderError."""
    with _Part(path) as part:
        return part.block(), part.table(RequestRecord)


def read_rows(path: Path, struct: type[T]) -> list[T]:
    """The rows of a part as structs of that type. Raises RunFolderError."""
    with _Part(path) as part:
        rows = part.table(struct).to_pylist()
    texts = [name for name, kind in kinds(struct).items() if kind == "json"]
    try:
        for row in rows:
            for name in texts:
                row[name] = msgspec.json.decode(row[name] or "{}")
        return msgspec.convert(rows, list[struct])  # type: ignore[valid-type]  # msgspec takes the type at run time
    except msgspec.MsgspecError as error:
        raise RunFolderError(f"a value does not fit: {error}", where=str(path), remedy=_REMEDY) from None


class _Part:
    """One open parquet file of ours; every way in which it can be bad becomes a RunFolderError that names it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def __enter__(self) -> _Part:
        import pyarrow as pa
        import pyarrow.parquet as pq

        atomic.regular_size(self._path, MAX_FILE_BYTES)
        try:
            self._file = pq.ParquetFile(self._path, page_checksum_verification=True)
            metadata = self._file.metadata
            self._keys = dict(self._file.schema_arrow.metadata or {})
            plain = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        except (pa.ArrowException, OSError, ValueError) as error:
            self._fail(f"the file is damaged or no parquet file ({_first_line(error)})", error)
        if metadata.num_rows > MAX_ROWS or plain > MAX_PLAIN_BYTES:
            self._fail(f"the file declares {metadata.num_rows:,} rows and {plain:,} bytes: too large to be a part")
        version = self._keys.get(SCHEMA_KEY, b"").decode("utf-8", "replace")
        if version != RUN_SCHEMA:
            self._fail(
                f"the file's schema is {version[:60]!r}, not {RUN_SCHEMA!r}: another program or version wrote it"
            )
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._file is not None:
            self._file.close()

    def _fail(self, message: str, cause: Exception | None = None) -> None:
        self.__exit__()
        raise RunFolderError(message, where=str(self._path), remedy=_REMEDY) from cause

    def block(self) -> Block:
        data = self._keys.get(BLOCK_KEY, b"")
        if not data or len(data) > MAX_BLOCK_JSON:
            self._fail("the file does not say which block it holds")
        try:
            block = msgspec.json.decode(data, type=Block)
        except msgspec.MsgspecError as error:
            self._fail(f"its block is not readable: {error}")
            raise
        if self._path.stem != part_name(block.id):
            self._fail(f"the file holds block {block.id}, so it was renamed")
        return block

    def table(self, struct: type[msgspec.Struct]) -> Any:
        """Every field of `struct`, in its type: unknown columns are dropped, missing ones get the field's default."""
        import pyarrow as pa

        wanted = kinds(struct)
        try:
            present = [name for name in self._file.schema_arrow.names if name in wanted]
            table = self._file.read(columns=present)
            columns = {
                name: self._column(table, name, kind, default)
                for (name, kind), default in zip(wanted.items(), _defaults(struct), strict=True)
            }
            return pa.table(columns)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            self._fail(f"the file's columns are damaged or not ours ({_first_line(error)})", error)
            raise

    def _column(self, table: Any, name: str, kind: Kind, default: Any) -> Any:
        import pyarrow as pa

        if name in table.column_names:
            column = table.column(name).cast(_arrow_type(kind))
            if column.null_count and isinstance(default, str) and kind == "text":
                column = column.fill_null(default)
            if column.null_count and default is msgspec.NODEFAULT:
                raise ValueError(f"{name} has gaps")
            return column
        if default is msgspec.NODEFAULT:
            raise ValueError(f"the column {name} is missing")
        cell = "{}" if kind == "json" else default
        return pa.array([cell] * table.num_rows, type=_arrow_type(kind))


def _defaults(struct: type[msgspec.Struct]) -> list[Any]:
    fields = msgspec.structs.fields(struct)
    return [f.default_factory() if f.default_factory is not msgspec.NODEFAULT else f.default for f in fields]


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]


def part_name(block_id: int) -> str:
    """``007``: the stem of a block's files."""
    return f"{block_id:03d}"
