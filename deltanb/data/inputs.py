"""What people hand to a write, as one stream of Arrow batches.

What lives here: :func:`source`, which takes Arrow tables, batches, readers and datasets, pandas and
polars frames (anything with ``__arrow_c_stream__``), a dict of columns, or a list of dicts.
What it does not know: the table it is written to; Spark (its frames never come here).

>>> source([{"a": 1}, {"b": "x"}]).schema.names
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from deltanb.errors import InvalidArgument

BATCH_ROWS = 1 << 20
"""Rows handled at a time: enough for Arrow's kernels to be fast, little enough for memory."""


@dataclass(frozen=True)
class Source:
    """Data to write: its Arrow schema, and its batches once."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    num_rows: int | None = None
    """Known beforehand for data in memory."""


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, asked without importing pyspark."""
    return type(data).__module__.partition(".")[0] == "pyspark"


def source(data: Any) -> Source:
    """The data as a :class:`Source`; a source comes back as it is.

    A pandas index that has a name becomes a column, any other is left out.

    Raises:
        InvalidArgument: data of a kind that cannot be read, or values no Arrow column can hold.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Mapping):
        data = _table_of_columns({str(name): values for name, values in data.items()})
    elif isinstance(data, list | tuple):
        data = _table_of_rows(data)
    elif type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        data = _table_of_pandas(data)
    if isinstance(data, pa.Table):
        table = data
        return Source(table.schema, lambda: iter(table.to_batches(BATCH_ROWS)), table.num_rows)
    if isinstance(data, ds.Dataset):
        data = data.scanner(batch_size=BATCH_ROWS)
    if isinstance(data, ds.Scanner):
        return Source(data.projected_schema, data.to_batches)
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, lambda: iter(reader))
    raise InvalidArgument(
        f"data of type {type(data).__module__}.{type(data).__qualname__} cannot be written; give an "
        "Arrow table, batch or reader, a pandas, polars or Spark DataFrame, a dict of columns, or a "
        "list of dicts"
    )


def _table_of_columns(columns: Mapping[str, Any]) -> pa.Table:
    arrays = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise InvalidArgument(
                f"column {name!r} is {values!r:.60}, not a list of values", column=name)
        try:
            known = isinstance(values, pa.Array | pa.ChunkedArray)
            arrays[name] = values if known else _array_of(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = "it holds pandas' NaT; write None" if "NaT" in str(error) else error
            raise InvalidArgument(f"column {name!r} cannot be converted to Arrow: {said}",
                                  column=name) from error
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidArgument(f"the columns have different numbers of values: {said}")
    try:
        return pa.table(arrays)
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{error.object!r} is not a valid column name: it contains an unpaired surrogate",
            column=error.object) from error


def _array_of(values: Any) -> pa.Array:
    """As ``pa.array``, which of Python's integers takes those of 64 bits only; the others are decimals."""
    values = list(values) if isinstance(values, Iterator) else values  # to be looked at twice
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(_without_long_integers(values))


def _without_long_integers(value: Any) -> Any:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return Decimal(value)
    if isinstance(value, Mapping):
        return {key: _without_long_integers(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [_without_long_integers(inner) for inner in value]


def _table_of_rows(rows: list[Any] | tuple[Any, ...]) -> pa.Table:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InvalidArgument(f"row {number} is {row!r:.60}, not a dict of column names and values")
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return _table_of_columns({name: [row.get(name) for row in rows] for name in names})


def _table_of_pandas(frame: Any) -> pa.Table:
    keep = all(name is not None for name in frame.index.names)
    try:
        try:
            table = pa.Table.from_pandas(frame, preserve_index=keep)
        except OverflowError:
            shorter = frame.apply(lambda c: c.map(_without_long_integers) if c.dtype == object else c)
            table = pa.Table.from_pandas(shorter, preserve_index=keep)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"the pandas frame cannot be converted to Arrow: {error}") from error
    return table.replace_schema_metadata(None)
