"""Every kind of type that Arrow has, with values: what data files of others and rows of users may hold."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KINDS = sorted(name.removeprefix("Type_") for name in dir(pa.lib) if name.startswith("Type_"))
"""As this pyarrow names them; a newer one may have more."""

PRICES = [Decimal("1.50"), Decimal("-2.25")]
TIMES = [dt.time(1, 2, 3), dt.time(23, 59, 59)]
LISTS = [[1, 2], [3, 4]]

_VALUES: dict[str, tuple[Callable[[], pa.DataType], list[Any]]] = {
    "BINARY": (pa.binary, [b"a", b"b" * 40]), "BINARY_VIEW": (pa.binary_view, [b"a", b"b" * 40]),
    "BOOL": (pa.bool_, [True, False]), "DATE32": (pa.date32, [dt.date(2024, 1, 2), dt.date(1969, 1, 1)]),
    "DATE64": (pa.date64, [dt.date(2024, 1, 2), dt.date(1969, 1, 1)]),
    "DECIMAL32": (lambda: pa.decimal32(9, 2), PRICES), "DECIMAL64": (lambda: pa.decimal64(9, 2), PRICES),
    "DECIMAL128": (lambda: pa.decimal128(9, 2), PRICES), "DECIMAL256": (lambda: pa.decimal256(9, 2), PRICES),
    "DICTIONARY": (lambda: pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    "DOUBLE": (pa.float64, [0.5, -1.0]), "DURATION": (lambda: pa.duration("us"), [
        dt.timedelta(1, 2, 3), -dt.timedelta(microseconds=1)]),
    "FIXED_SIZE_BINARY": (lambda: pa.binary(2), [b"ab", b"cd"]),
    "FIXED_SIZE_LIST": (lambda: pa.list_(pa.int64(), 2), LISTS), "FLOAT": (pa.float32, [0.5, -1.0]),
    "HALF_FLOAT": (pa.float16, [0.5, -1.0]), "INT16": (pa.int16, [1, -2]), "INT32": (pa.int32, [1, -2]),
    "INT64": (pa.int64, [1, -2]), "INT8": (pa.int8, [1, -2]),
    "INTERVAL_MONTH_DAY_NANO": (pa.month_day_nano_interval, [
        pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([-18, 0, 0])]),
    "LARGE_BINARY": (pa.large_binary, [b"a", b"b" * 40]),
    "LARGE_LIST": (lambda: pa.large_list(pa.int64()), LISTS),
    "LARGE_LIST_VIEW": (lambda: pa.large_list_view(pa.int64()), LISTS),
    "LARGE_STRING": (pa.large_string, ["a", "b" * 40]), "LIST": (lambda: pa.list_(pa.int64()), LISTS),
    "LIST_VIEW": (lambda: pa.list_view(pa.int64()), LISTS),
    "MAP": (lambda: pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]), "NA": (pa.null, [None, None]),
    "STRING": (pa.string, ["a", "b" * 40]), "STRING_VIEW": (pa.string_view, ["a", "b" * 40]),
    "STRUCT": (lambda: pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": None}]),
    "TIME32": (lambda: pa.time32("ms"), TIMES), "TIME64": (lambda: pa.time64("us"), TIMES),
    "TIMESTAMP": (lambda: pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)] * 2),
    "UINT16": (pa.uint16, [1, 2]), "UINT32": (pa.uint32, [1, 2]), "UINT64": (pa.uint64, [1, 2]),
    "UINT8": (pa.uint8, [1, 2]),
}

_ARRAYS: dict[str, Callable[[], pa.Array]] = {
    "RUN_END_ENCODED": lambda: pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3, 4], pa.int32()), pa.array(["a", "b", None], pa.string())),
    "DENSE_UNION": lambda: pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2])] * 2),
    "SPARSE_UNION": lambda: pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1] * 4)] * 2),
}

WITHOUT_VALUES = {"INTERVAL_DAY_TIME", "INTERVAL_MONTHS"}
"""Of these pyarrow makes no array."""


def array_of(kind: str) -> pa.Array:
    """Four values of a kind, the last of them NULL where it can be."""
    if kind in _ARRAYS:
        return _ARRAYS[kind]()
    made, (one, other) = _VALUES[kind]
    return pa.array([one, other, other, None], made())


VIEWS: dict[str, tuple[Callable[[], pa.DataType], list[Any]]] = {
    "LIST_of_STRING_VIEW": (lambda: pa.list_(pa.string_view()), [["a", None], []]),
    "LIST_VIEW_of_BINARY_VIEW": (lambda: pa.list_view(pa.binary_view()), [[b"a", None], []]),
    "MAP_of_STRING_VIEW": (lambda: pa.map_(pa.string_view(), pa.string_view()), [[("a", "b")], []]),
    "STRUCT_of_LIST_VIEW": (
        lambda: pa.struct([("a", pa.list_view(pa.int64())), ("b", pa.string_view())]),
        [{"a": [1], "b": "x"}, {"a": None, "b": None}]),
}
"""Views inside of other types."""


def stored_kinds() -> dict[str, tuple[pa.ChunkedArray, pa.DataType]]:
    """Those that this pyarrow writes into Parquet files: values as Parquet has them, and the kind that they
    were of."""
    arrays = {kind: array_of(kind) for kind in KINDS if kind not in WITHOUT_VALUES}
    arrays |= {name: pa.array([*values, values[0], None], made()) for name, (made, values) in VIEWS.items()}
    by_name = {}
    for name, array in arrays.items():
        sink = pa.BufferOutputStream()
        try:
            pq.write_table(pa.table({name: array}), sink, store_schema=False)
        except pa.ArrowException:
            continue
        by_name[name] = pq.read_table(pa.BufferReader(sink.getvalue())).column(0), array.type
    return by_name


def file_of(rows: pa.Table, schema: pa.Schema | None = None, **options: Any) -> pa.Buffer:
    """A Parquet file with the rows, which says that they were of this schema of Arrow's."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **options) as writer:
        writer.write_table(rows)
        if schema is not None:
            writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(schema.serialize())})
    return sink.getvalue()
