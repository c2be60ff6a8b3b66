"""File rows as they are stored in a checkpoint, made columns of this library.

Lives here: rows told from those of other actions, and each column of FILES_SCHEMA of what is stored of it,
be that nothing.

Does not know: where the rows come from, or which columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions.base import camel
from deltanb.concurrency.memory import pool
from deltanb.log.arrays import within
from deltanb.log.arrow_rows import scalar
from deltanb.log.replay import DELETION_VECTOR_TYPE
from deltanb.parquet.file import SafeFile

__all__ = [
    "BATCH",
    "absent",
    "by_pieces",
    "child",
    "chunked",
    "column_of",
    "concat",
    "nothing_but_nulls",
    "present",
]

MAX_SLICES = 64
"""Up to this many runs of file rows are sliced without copying; beyond, filtering is faster."""

BATCH = 8192
"""Rows decoded at a time where few are held: texts of so many files stay in the processor's cache, and the
next ones take the same memory."""

_WIRE_DV = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


def by_pieces(
    file: SafeFile, kind: str, leaves: list[str], group: int, picked: pa.Array | None
) -> Iterator[list[pa.StructArray]]:
    """The rows of a kind in a row group, or those at ascending positions among them, some at a time."""
    start, has_any = 0, False
    for batch in file.iter_batches(BATCH, [group], columns=leaves, use_threads=False):
        rows = present(batch.column(kind))
        stop = start + sum(map(len, rows))
        here = None if picked is None else within(picked, start, stop)
        if here is not None and len(here) < stop - start:  # else they stay where they are
            rows = [pc.take(pa.concat_arrays(rows), here, memory_pool=pool())] if len(here) else []
        start = stop
        if rows:
            has_any = True
            yield rows
    if not has_any:
        yield []


def present(chunk: pa.StructArray) -> list[pa.StructArray]:
    """The rows of a struct column that are not null, without copying where they lie together."""
    if chunk.null_count == 0:
        return [chunk] if len(chunk) else []
    if chunk.null_count == len(chunk):
        return []
    edges = _edges(chunk)
    if edges is None:
        return [chunk.drop_null()]
    return [chunk.slice(start, stop - start) for start, stop in edges if stop > start]


def _edges(chunk: pa.StructArray) -> list[tuple[int, int]] | None:
    """Runs of present rows as (start, stop), or None if there are too many."""
    valid = chunk.is_valid()
    changes = pc.indices_nonzero(pc.xor(valid.slice(0, len(valid) - 1), valid.slice(1)))
    if len(changes) > 2 * MAX_SLICES:
        return None
    bounds = [0, *(i + 1 for i in changes.to_pylist()), len(chunk)]
    first = 0 if valid[0].as_py() else 1
    return list(zip(bounds[first:-1:2], bounds[first + 1 :: 2], strict=True))


def child(row: pa.StructArray, name: str) -> pa.Array:
    """A field of a struct column."""
    return row.field(row.type.get_field_index(name))


def column_of(
    rows: list[pa.StructArray],
    column: str,
    data_type: pa.DataType,
    make: Callable[[pa.StructArray], pa.Array] | None,
) -> pa.ChunkedArray:
    """One of FILES_SCHEMA's columns: as it is stored, or what ``make`` gives for it."""
    if make is not None:
        return chunked([make(row) for row in rows], data_type)
    chunks = [child(row, camel(column)) for row in rows]
    if column == "deletion_vector":
        chunks = [_deletion_vector(chunk) for chunk in chunks]
    chunks = [chunk if chunk.type == data_type else chunk.cast(data_type) for chunk in chunks]
    return chunked(chunks, data_type)


def _deletion_vector(chunk: pa.StructArray) -> pa.StructArray:
    """The descriptor with this library's names and types."""
    children = []
    for name, field in zip(_WIRE_DV, DELETION_VECTOR_TYPE, strict=True):
        index = chunk.type.get_field_index(name)
        stored = pa.nulls(len(chunk), field.type) if index < 0 else chunk.field(index)
        children.append(stored.cast(field.type))
    fields = list(DELETION_VECTOR_TYPE)
    return pa.StructArray.from_arrays(children, fields=fields, mask=chunk.is_null())


def absent(column: str, data_type: pa.DataType, num_rows: int, is_add: bool) -> pa.Array:
    """A column the checkpoint has no value of; an add without partitions has an empty map."""
    if column == "partition_values" and is_add:
        return pa.MapArray.from_arrays(
            pa.repeat(scalar(0, pa.int32()), num_rows + 1),
            pa.nulls(0, pa.string()),
            pa.nulls(0, pa.string()),
        ).cast(data_type)
    if column == "data_change":
        return pa.repeat(scalar(False, pa.bool_()), num_rows)
    return pa.nulls(num_rows, data_type)


def nothing_but_nulls(
    kind: str, columns: Sequence[str], schema: pa.Schema, num_rows: int
) -> pa.Table:
    """The columns of rows of which a file has none, or no value; the footer knows how many."""
    known = [column for column in columns if column in schema.names] or ["stats"]
    return pa.table({
        column: absent(column, schema.field(column).type, num_rows, kind == "add")
        for column in known
    })


def chunked(chunks: list[pa.Array], data_type: pa.DataType | None = None) -> pa.ChunkedArray:
    """The arrays as a column, be there none."""
    return pa.chunked_array(chunks, data_type if data_type is not None or chunks else pa.null())


def concat(tables: list[pa.Table], columns: Sequence[str]) -> pa.Table:
    """One table; typed statistics of parts written under different schemas are united."""
    alone = len(tables) == 1
    table = tables[0] if alone else pa.concat_tables(tables, promote_options="permissive")
    order = dict.fromkeys(column.split(".")[0] for column in columns)
    return table.select([name for name in order if name in table.column_names])
