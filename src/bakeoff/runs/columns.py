"""Requests as columns: from records in memory, or from an arrow table, with the same result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from ..model import RequestRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns = dict[str, NDArray[np.generic]]

Kind = Literal["stamp", "int", "float", "bool", "text", "ints", "bools", "floats", "json"]


def kinds(struct: type[msgspec.Struct]) -> dict[str, Kind]:
    """How each field of a measurement type is stored; derived, so that a new field needs no second list."""
    hints = get_type_hints(struct)
    return {field: _kind(field, hints[field]) for field in struct.__struct_fields__}


def _kind(field: str, hint: Any) -> Kind:
    options = [a for a in get_args(hint) if a is not type(None)] if type(None) in get_args(hint) else [hint]
    plain = options[0]
    if plain is bool:
        return "bool"
    if plain is int:
        return "stamp" if field.endswith("_ns") else "int"
    if plain is float:
        return "float"
    if plain is str or get_origin(plain) is Literal:
        return "text"
    if get_origin(plain) is list:
        kind: dict[type, Kind] = {bool: "bools", float: "floats"}
        return kind.get(get_args(plain)[0], "ints")
    if get_origin(plain) is dict:
        return "json"
    raise TypeError(f"no column kind for {field}: {hint}")


REQUEST_KINDS = kinds(RequestRecord)


def to_columns(records: Sequence[RequestRecord]) -> Columns:
    """Columns of `BlockData` from records.

    Stamps int64 (−1 missing), other numbers float64 (NaN missing), texts, lists and mappings as objects; all of one
    length, one element a request.
    """
    import numpy as np

    columns: Columns = {}
    for name, kind in REQUEST_KINDS.items():
        values = [getattr(record, name) for record in records]
        if kind == "stamp":
            columns[name] = np.array([-1 if v is None else v for v in values], dtype=np.int64)
        elif kind in ("int", "float", "bool"):
            columns[name] = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
        elif kind in ("ints", "bools"):
            dtype = np.bool_ if kind == "bools" else np.int64
            columns[name] = objects([np.array(v, dtype=dtype) for v in values])
        else:
            columns[name] = objects(values)
    return columns


def objects(values: Sequence[Any]) -> NDArray[np.generic]:
    """A one-dimensional object array, even where all the values are arrays of one length."""
    import numpy as np

    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array


def from_table(table: Any) -> Columns:
    """The same columns from a `pyarrow.Table` that has every field of RequestRecord, without a record in between."""
    import numpy as np
    import pyarrow as pa

    columns: Columns = {}
    for name, kind in REQUEST_KINDS.items():
        column = table.column(name)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(array, pa.ChunkedArray):  # more than 2 GB of text stays chunked
            array = pa.concat_arrays([c.cast(pa.large_string()) for c in array.chunks])
        if kind == "stamp":
            columns[name] = array.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        elif kind in ("int", "float", "bool"):
            numbers = array.cast(pa.float64(), safe=False)
            columns[name] = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
        elif kind in ("ints", "bools"):
            columns[name] = _lists(array, np.bool_ if kind == "bools" else np.int64)
        elif kind == "json":
            columns[name] = objects([read_json_cell(text) for text in array.to_pylist()])
        else:
            columns[name] = objects(array.to_pylist())
    return columns


def _lists(array: Any, dtype: type[np.generic]) -> NDArray[np.generic]:
    """A list column as an object array of numpy arrays (a null list is empty, a null element 0)."""
    import numpy as np

    array = array.fill_null([])
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    values = array.values.fill_null(False if dtype is np.bool_ else 0).to_numpy(zero_copy_only=False).astype(dtype)
    return objects([values[low:high] for low, high in itertools.pairwise(offsets)])


def read_json_cell(text: str | None) -> Mapping[str, Any]:
    """The mapping in a JSON cell; empty where it is missing or no mapping. Raises msgspec.DecodeError."""
    value = msgspec.json.decode(text) if text else {}
    return value if isinstance(value, dict) else {}
