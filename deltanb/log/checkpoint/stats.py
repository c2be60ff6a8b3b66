"""File statistics between their two stored forms: JSON text and typed columns.

Lives here: the types of ``stats_parsed`` and ``partitionValues_parsed`` for a table, JSON -> struct
for checkpoints that want typed columns, and struct -> JSON for checkpoints that hold nothing else.
PROTOCOL.md, "Checkpoints" and "Per-file Statistics".

Does not know: how statistics are collected, or how a predicate uses them. A value that is not of
its column's type becomes null: a missing bound never prunes a file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Metadata
from deltanb.errors import UnsupportedProtocol
from deltanb.schema import properties
from deltanb.schema.intervals import read_duration, read_months
from deltanb.schema.types import TYPES, ArrayType, MapType, StructField, StructType, arrow_type, held_as

ALL_COLUMNS = -1
"""The value of ``delta.dataSkippingNumIndexedCols`` that means every column."""


# -- schemas -----------------------------------------------------------------------------------


def stats_type(metadata: Metadata) -> pa.DataType:
    """The struct of ``stats_parsed``: bounds and null counts of the indexed columns."""
    bounds, counts = _indexed(metadata)
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    if bounds:
        fields += [
            pa.field("minValues", pa.struct(bounds)),
            pa.field("maxValues", pa.struct(bounds)),
        ]
    if counts:
        fields.append(pa.field("nullCount", pa.struct(counts)))
    return pa.struct(fields)


def partition_type(metadata: Metadata) -> pa.DataType | None:
    """The struct of ``partitionValues_parsed``, by physical name; None without partitions."""
    fields = []
    for name in metadata.partition_columns:
        field = metadata.schema.field(name)
        fields.append(pa.field(field.physical_name, arrow_type(field.type, name)))
    return pa.struct(fields) if fields else None


def _indexed(metadata: Metadata) -> tuple[list[pa.Field], list[pa.Field]]:
    """(bounds, null counts) of the columns that statistics are kept for."""
    partitions = set(metadata.partition_columns)
    columns = [f for f in metadata.schema.fields if f.name not in partitions]
    named = properties.get(metadata.configuration, "delta.dataSkippingStatsColumns")
    if named is not None:
        indexed = {str(name).replace("`", "").lower() for name in named}
        return _leaves(columns, _Named(indexed), ())
    limit = properties.get(metadata.configuration, "delta.dataSkippingNumIndexedCols")
    return _leaves(columns, _First(limit), ())


class _Named:
    """Takes the leaves at or below the named paths."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def takes(self, path: tuple[str, ...]) -> bool:
        words = [word.lower() for word in path]
        return any(".".join(words[: i + 1]) in self._names for i in range(len(words)))


class _First:
    """Takes the first leaves of the schema."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def takes(self, path: tuple[str, ...]) -> bool:
        if self._left == ALL_COLUMNS:
            return True
        self._left -= 1
        return self._left >= 0


def _leaves(
    fields: Sequence[StructField], chosen: _Named | _First, path: tuple[str, ...]
) -> tuple[list[pa.Field], list[pa.Field]]:
    bounds: list[pa.Field] = []
    counts: list[pa.Field] = []
    for field in fields:
        name, here = field.physical_name, (*path, field.name)
        if isinstance(field.type, StructType):
            inner_bounds, inner_counts = _leaves(field.type.fields, chosen, here)
            if inner_bounds:
                bounds.append(pa.field(name, pa.struct(inner_bounds)))
            if inner_counts:
                counts.append(pa.field(name, pa.struct(inner_counts)))
        elif chosen.takes(here):
            counts.append(pa.field(name, pa.int64()))
            kind = _bound_type(field)
            if kind is not None:
                bounds.append(pa.field(name, kind))
    return bounds, counts


def _bound_type(field: StructField) -> pa.DataType | None:
    if isinstance(field.type, ArrayType | MapType | StructType):
        return None
    named = TYPES.get(held_as(str(field.type)))
    if named is not None and not named.bounds:
        return None
    try:
        return arrow_type(field.type, field.name)
    except UnsupportedProtocol:
        return None


# -- JSON to struct ----------------------------------------------------------------------------


def stats_as_struct(stats: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """JSON statistics (one text a file, or null) as a struct array of ``kind``."""
    texts = stats.to_pylist()
    try:
        parsed = _parse_fast(texts, kind)
    except (pa.ArrowException, ValueError):
        parsed = pa.array([_parse_one(text, kind) for text in texts], kind)
    return _masked(parsed, stats)


def _parse_fast(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    """All texts by Arrow's reader; it refuses the whole column for one odd value."""
    import pyarrow.json as pj  # few tables store typed statistics, and a commit may wait while it is loaded

    lines = "\n".join("{}" if text is None else text for text in texts).encode()
    table = pj.read_json(
        io.BytesIO(lines),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(_wire(kind)),
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError("a text holds more than one line")
    children = [table.column(f.name).combine_chunks() for f in kind]
    cast = [_cast(child, f.type) for child, f in zip(children, kind, strict=True)]
    return pa.StructArray.from_arrays(cast, fields=list(kind))


def _wire(kind: pa.DataType) -> list[pa.Field]:
    return [pa.field(f.name, _wire_type(f.type)) for f in kind]


def _wire_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow's JSON reader is told: dates and times are texts there."""
    if pa.types.is_struct(kind):
        return pa.struct(_wire(kind))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_struct(kind):
        children = [_cast(values.field(i), f.type) for i, f in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_temporal(kind):
        return _parse_times(values, kind)
    return values.cast(kind)


def _parse_times(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """ISO texts; a zone in the text of a zone-less column is dropped, as Delta's readers do."""
    if not pa.types.is_timestamp(kind):
        return values.cast(kind)
    if kind.tz is None:
        return pc.replace_substring_regex(values, r"(Z|[+-]\d\d:?\d\d)$", "").cast(kind)
    zoned = pc.match_substring_regex(values, r"(Z|[+-]\d\d:?\d\d)$")
    return pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", "")).cast(kind)


def _parse_one(text: str | None, kind: pa.DataType) -> dict[str, Any] | None:
    """One text, leaf by leaf: what is not of its type is left out."""
    try:
        value = None if text is None else json.loads(text, parse_float=str)
    except ValueError:
        return None
    return _fit(value, kind)


def _fit(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return None
        return {f.name: _fit(value.get(f.name), f.type) for f in kind}
    if isinstance(value, dict | list):
        return None
    try:
        texts = pa.array([value if isinstance(value, str) else json.dumps(value)])
        fitted = _parse_times(texts, kind) if pa.types.is_temporal(kind) else texts.cast(kind)
    except pa.ArrowException:
        return None
    return fitted[0].as_py()


def _masked(parsed: pa.Array, stats: pa.ChunkedArray) -> pa.Array:
    """The struct is null where there were no statistics."""
    if stats.null_count == 0:
        return parsed
    absent = stats.is_null().combine_chunks()
    children = [parsed.field(i) for i in range(parsed.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(parsed.type), mask=absent)


def partition_values_as_struct(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Partition value maps as typed columns; the empty text and the null are both null."""
    children = []
    for field in kind:
        texts = pc.map_lookup(values, field.name, "first").combine_chunks()
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        if pa.types.is_duration(field.type) or pa.types.is_interval(field.type):
            children.append(_numbers_of(texts, field.type))
            continue
        try:
            children.append(_cast(texts, field.type))
        except pa.ArrowException:
            fitted = [_fit(text, field.type) for text in texts.to_pylist()]
            children.append(pa.array(fitted, field.type))
    return pa.StructArray.from_arrays(children, names=[field.name for field in kind])


def _numbers_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Intervals as Parquet has them; a text that is none is null."""
    read, numbers = (read_duration, pa.int64()) if pa.types.is_duration(kind) else (read_months, pa.int32())
    counts: list[int | None] = []
    for text in texts.to_pylist():
        try:
            counts.append(None if text is None else read(text))
        except ValueError:
            counts.append(None)
    return pa.array(counts, numbers)


# -- struct to JSON ----------------------------------------------------------------------------

_encoder = msgspec.json.Encoder(decimal_format="number")


def stats_as_json(values: pa.StructArray) -> pa.Array:
    """Typed statistics as the JSON texts an add action holds; null where the struct is null."""
    texts: list[str | None] = []
    for value in _spelled(values).to_pylist():
        cleaned = None if value is None else dict(_clean(value))
        texts.append(_encoder.encode(cleaned).decode() if cleaned else None)
    return pa.array(texts, pa.string())


def _spelled(values: pa.Array) -> pa.Array:
    """Dates and times as ISO texts, those too that Python's types cannot hold."""
    if pa.types.is_struct(values.type):
        children = [_spelled(values.field(i)) for i in range(values.type.num_fields)]
        names = [f.name for f in values.type]
        return pa.StructArray.from_arrays(children, names=names, mask=values.is_null())
    if pa.types.is_timestamp(values.type):
        return pc.replace_substring(values.cast(pa.string()), " ", "T", max_replacements=1)
    return values.cast(pa.string()) if pa.types.is_date(values.type) else values


def _clean(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields that JSON statistics have: no nulls, no empty structs, no binary bounds."""
    for name, item in value.items():
        if isinstance(item, dict):
            inner = dict(_clean(item))
            if inner:
                yield name, inner
        elif item is not None and not isinstance(item, bytes | list):
            yield name, item
