"""Per-file statistics: the JSON that lets a reader skip a file without opening it.

What lives here: which columns are described (:func:`indexed_leaves`), how bounds are taken from Arrow
data (:class:`Collector`) or from a Parquet footer (:func:`from_footer`), and how they are written.
Both sources give the same text for the same rows (PROTOCOL.md, "Per-file Statistics").
What it does not know: files, stores, the log.

Bounds are exact or absent, never wrong: a float column's maximum is left out when the file holds a NaN
(engines order it above every number, Parquet writers disagree), infinities and years that ISO 8601
cannot say are left out, booleans and binaries have a null count only, as Delta writes them.

>>> import pyarrow as pa
>>> from deltanb.actions import Metadata
>>> from deltanb.schema import types as schema
>>> table = pa.table({"id": [3, 1], "name": ["b", None]})
>>> fields = schema.from_arrow(table.schema)
>>> from_table(table, fields, Metadata(id="t", schema_string=fields.to_json()))
'{"numRecords":2,"minValues":{"id":1,"name":"b"},"maxValues":{"id":3,"name":"b"},"nullCount":{"id":0,"name":1}}'
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow.bounds import FLOATS, TIMES, US_PER_DAY, bound
from deltanb.log.arrays import numbers
from deltanb.schema import properties
from deltanb.schema.types import TYPES, DataType, PrimitiveType, StructType

_quoted = json.encoder.encode_basestring  # as JSONEncoder has texts where it keeps them as they are
_EXACT = Context(prec=76)  # twice the widest decimal, so that rescaling never rounds
# Writers whose footers hold whole strings or none; others may cut a bound and mark it inexact in a
# flag that pyarrow does not show.
_WHOLE_STRINGS = ("parquet-mr", "parquet-cpp")


SHORT_TEXT = 512
"""Bytes of a column's texts on average up to which the footer is asked for their bounds: Arrow writes none of
more than 4096, and then the column is read again."""


@dataclass(frozen=True)
class Leaf:
    """A described column: physical path, type, and whether it has bounds beside its null count."""

    path: tuple[str, ...]
    type: DataType
    bounds: bool

    @property
    def kind(self) -> str:
        """The type's name; ``nested`` for arrays and maps."""
        return self.type.name if isinstance(self.type, PrimitiveType) else "nested"


def from_table(
    table: pa.Table,
    schema: StructType,
    metadata: Metadata,
    *,
    protocol: Protocol | None = None,
    clustering: Iterable[Sequence[str]] = (),
) -> str:
    """The statistics of the rows of ``table``, as JSON.

    Args:
        table: rows as they stand in the file: physical column names, no partition columns needed.
        schema: the table's logical schema.
        metadata: for the column mapping, the partition columns and the ``delta.dataSkipping…``
            properties.
        protocol: the table's; where it supports deletion vectors ``tightBounds`` is written.
        clustering: physical paths of clustering columns, which are described whatever their position.
    """
    collector = collector_for(schema, metadata, protocol, clustering)
    collector.update(table)
    return collector.to_json()


def from_footer(
    footer: pq.FileMetaData,
    schema: StructType,
    metadata: Metadata,
    *,
    read: Callable[[list[str]], pa.Table] | None = None,
    protocol: Protocol | None = None,
    clustering: Iterable[Sequence[str]] = (),
) -> str:
    """The statistics of a Parquet file from its footer, as JSON equal to :func:`from_table`'s.

    Args:
        footer: ``pyarrow.parquet.read_metadata(file)``.
        read: given top-level physical column names, the file's rows with these columns. It is called
            at most once, for columns whose footer cannot answer: null counts of arrays and maps, long
            strings, INT96 timestamps, floats that may hold NaN. Without it these values are left out.
        schema, metadata, protocol, clustering: as in :func:`from_table`.
    """
    collector = collector_for(schema, metadata, protocol, clustering)
    collector.rows = footer.num_rows
    collector.left = tuple(collector.leaves)
    collector.settle(footer, read)
    return collector.to_json()


def collector_for(
    schema: StructType,
    metadata: Metadata,
    protocol: Protocol | None = None,
    clustering: Iterable[Sequence[str]] = (),
) -> Collector:
    """An empty :class:`Collector` for the table, for data that arrives in pieces."""
    tight = protocol is not None and protocol.supports("deletionVectors")
    return Collector(indexed_leaves(schema, metadata, clustering, protocol), tight)


# --- which columns --------------------------------------------------------------------------------

def indexed_leaves(
    schema: StructType,
    metadata: Metadata,
    clustering: Iterable[Sequence[str]] = (),
    protocol: Protocol | None = None,
) -> list[Leaf]:
    """The columns to describe, in schema order.

    ``delta.dataSkippingStatsColumns`` names them (a struct stands for its fields); else the first
    ``delta.dataSkippingNumIndexedCols`` leaves count (32; -1 is all), an array or map as one.
    """
    configuration = metadata.configuration
    mapped = properties.get(configuration, "delta.columnMapping.mode") != "none" and (
        protocol is None or protocol.supports("columnMapping"))
    partitions = {name.lower() for name in metadata.partition_columns}
    leaves = []
    for field in schema.fields:
        if field.name.lower() not in partitions:
            leaves += _leaves(field, (), (), mapped)
    listed = properties.get(configuration, "delta.dataSkippingStatsColumns")
    forced = {tuple(path) for path in clustering}
    if listed is not None:
        prefixes = [_column_path(name) for name in listed]
        keep = [any(logical[:len(p)] == p for p in prefixes) for logical, _ in leaves]
    else:
        limit = int(properties.get(configuration, "delta.dataSkippingNumIndexedCols"))
        keep = [limit < 0 or place < limit for place in range(len(leaves))]
    return [leaf for (_, leaf), is_indexed in zip(leaves, keep, strict=True)
            if is_indexed or leaf.path in forced]


def _leaves(
    field: Any, logical: tuple[str, ...], physical: tuple[str, ...], mapped: bool
) -> list[tuple[tuple[str, ...], Leaf]]:
    logical = (*logical, field.name.lower())
    name = field.physical_name
    physical = (*physical, name if mapped else field.name)
    if isinstance(field.type, StructType):
        return [leaf for child in field.type.fields
                for leaf in _leaves(child, logical, physical, mapped)]
    return [(logical, Leaf(physical, field.type, _has_bounds(field.type)))]


def _has_bounds(type_: DataType) -> bool:
    if not isinstance(type_, PrimitiveType) or type_.name == "boolean":  # whose bounds say next to nothing
        return False
    return type_.is_decimal or (type_.name in TYPES and TYPES[type_.name].bounds)


def _column_path(text: str) -> tuple[str, ...]:
    """A dotted name as a lower-case path; backticks quote, a doubled one stands for itself.

    >>> _column_path("a.`b.c`")
    ('a', 'b.c')
    """
    parts = re.findall(r"`(?:[^`]|``)*`|[^.`]+", text.strip().lower())
    return tuple(part[1:-1].replace("``", "`") if part[0] == "`" else part for part in parts)


# --- bounds from data -----------------------------------------------------------------------------

@dataclass
class State:
    """What is known of one column: ordinals for numbers, days and microseconds; text; decimals."""

    nulls: int = 0
    low: Any = None
    high: Any = None
    nan: bool = False
    known: bool = True
    has_bounds: bool = True
    """Whether bounds can be told: a text that is not valid UTF-8 is none."""

    def widen(self, low: Any, high: Any) -> None:
        """Take in bounds; None is no bound."""
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
        if high is not None:
            self.high = high if self.high is None else max(self.high, high)

    def add(self, other: State) -> None:
        """Take in what is known of the same column in other rows."""
        self.nulls += other.nulls
        self.nan |= other.nan
        self.has_bounds &= other.has_bounds
        self.widen(other.low, other.high)


class Collector:
    """Statistics of rows that arrive in pieces.

    >>> leaf = Leaf(("x",), PrimitiveType("long"), True)
    >>> collector = Collector([leaf])
    >>> collector.update(pa.table({"x": [5]})); collector.update(pa.table({"x": [2, None]}))
    >>> collector.to_json()
    '{"numRecords":3,"minValues":{"x":2},"maxValues":{"x":5},"nullCount":{"x":1}}'
    """

    def __init__(self, leaves: Sequence[Leaf], tight_bounds: bool = False) -> None:
        self.leaves = list(leaves)
        self.tight_bounds = tight_bounds
        self.rows = 0
        self.states = {leaf.path: State() for leaf in leaves}
        self.left: tuple[Leaf, ...] = ()
        """What is not measured here, but asked of the footer."""

    def leave(self, table: pa.Table) -> None:
        """Leave to the footer what its writer finds out anyway; said before the first rows are taken in.

        That is all bounds but those of floats, which are not in it, and of long texts.
        """
        if not any("." in name for name in table.schema.names):  # by dots the footer tells columns apart
            self.left = tuple(leaf for leaf in self.leaves if _is_in_footer(leaf, table))

    def settle(self, footer: pq.FileMetaData, read: Callable[[list[str]], pa.Table] | None) -> None:
        """Take what was left from the footer; ``read`` as in :func:`from_footer`."""
        facts, unknown = _Footer(footer), []
        for leaf in self.left:
            state = facts.state(leaf)
            if state is None:
                unknown.append(leaf)
                state = State(known=False)
            self.states[leaf.path] = state
        self.left = ()
        if unknown and read is not None:
            rest = Collector(unknown)
            rest.update(read(list(dict.fromkeys(leaf.path[0] for leaf in unknown))))
            self.states.update(rest.states)

    def take_over(self, footer: pq.FileMetaData, logged: Mapping[str, Any]) -> bool:
        """Take in a whole file by its footer and, of what is not in it, by the statistics that the log has.

        False where they leave anything open; what is here is of no use then.
        """
        facts = _Footer(footer)
        for leaf in self.leaves:
            in_log = leaf.kind in FLOATS or not leaf.bounds
            state = _logged(leaf, logged, footer.num_rows) if in_log else facts.state(leaf)
            if state is None:
                return False
            self.states[leaf.path].add(state)
        self.rows += footer.num_rows
        return True

    def add(self, rows: int, states: Mapping[tuple[str, ...], State]) -> None:
        """Take in rows of which all is known, as :func:`of_group` says it."""
        self.rows += rows
        for path, state in states.items():
            self.states[path].add(state)

    def update(self, table: pa.Table | pa.RecordBatch) -> None:
        """Take in more rows (physical column names)."""
        self.rows += table.num_rows
        names = set(table.schema.names)
        for leaf in self.leaves:
            if leaf in self.left:
                continue
            state = self.states[leaf.path]
            if leaf.path[0] not in names:  # a column newer than the file reads as NULL
                state.nulls += table.num_rows
                continue
            column = table.column(leaf.path[0])
            for name in leaf.path[1:]:
                if column.type.get_field_index(name) < 0:
                    column = pa.nulls(table.num_rows)
                    break
                column = pc.struct_field(column, [name])
            state.nulls += column.null_count
            if leaf.bounds and column.null_count < len(column):
                _measure(column, leaf, state)

    def to_json(self) -> str:
        """The statistics, keys in Delta's order, numbers exact."""
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self.leaves:
            state = self.states[leaf.path]
            if not state.known:
                continue
            _put(nulls, leaf.path, str(state.nulls))
            if leaf.bounds and state.has_bounds:
                _put(low, leaf.path, bound(state.low, leaf.kind, is_max=False))
                _put(high, leaf.path, None if state.nan else bound(state.high, leaf.kind, True))
        whole: dict[str, Any] = {"numRecords": str(self.rows)}
        whole |= {"minValues": low, "maxValues": high, "nullCount": nulls}
        if self.tight_bounds:
            whole["tightBounds"] = "true"
        return _dump({key: value for key, value in whole.items() if value})


def of_group(
    leaves: Sequence[Leaf], footer: pq.FileMetaData, number: int, logged: Mapping[str, Any],
    read: Callable[[list[str]], pa.Table],
) -> dict[tuple[str, ...], State]:
    """What is known of the columns in one row group of a file.

    Args:
        logged: the statistics that the log has of the whole file.
        read: given top-level physical column names, the rows of the row group. It is called at most once, for
            what neither footer nor log say.
    """
    group = footer.row_group(number)
    facts, states, unknown = _Footer(footer, [group]), {}, []
    for leaf in leaves:
        state = None
        if footer.num_row_groups == 1 and (leaf.kind in FLOATS or not leaf.bounds):
            state = _logged(leaf, logged, group.num_rows)
        state = facts.state(leaf) if state is None else state
        if state is None:
            unknown.append(leaf)
        else:
            states[leaf.path] = state
    if unknown:
        rest = Collector(unknown)
        rest.update(read(list(dict.fromkeys(leaf.path[0] for leaf in unknown))))
        states.update(rest.states)
    return states


def _is_in_footer(leaf: Leaf, table: pa.Table) -> bool:
    if not leaf.bounds or leaf.kind in FLOATS or leaf.path[0] not in table.schema.names:
        return False  # to count nulls costs nothing
    if any("." in name for name in leaf.path):
        return False
    if leaf.kind != "string":
        return True
    column = table.column(leaf.path[0])
    return bool(len(leaf.path) == 1 and column.nbytes <= SHORT_TEXT * table.num_rows)


def _measure(column: pa.ChunkedArray | pa.Array, leaf: Leaf, state: State) -> None:
    kind = leaf.kind
    if pa.types.is_dictionary(column.type):  # of whose codes Arrow finds no bounds
        column = column.cast(column.type.value_type)
    if kind in FLOATS:
        if pa.types.is_float16(column.type):
            column = column.cast(pa.float32())  # Arrow adds up no halves
        ends = _ends_of_floats(column)
        if ends is not None:
            state.widen(*ends)
            return
        total = pc.sum(column).as_py()
        if total != total:  # a NaN, or infinities of both signs: the sum is one pass and no copy
            not_a_number = pc.is_nan(column)
            state.nan |= bool(pc.any(not_a_number).as_py())
            column = pc.filter(column, pc.invert(not_a_number))
    elif kind == "date":
        column = column.cast(pa.date32()).cast(pa.int32())
    elif kind in TIMES:
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    try:
        if len(column) == 1:  # it is no NULL; asking Arrow takes longer than all else that is done for a row
            low = high = column[0].as_py()
        else:
            bounds = pc.min_max(column)
            low, high = bounds["min"].as_py(), bounds["max"].as_py()
    except UnicodeDecodeError:
        state.has_bounds = False
        return
    if kind.startswith("decimal"):
        low, high = _rescale(low, leaf), _rescale(high, leaf)
    state.widen(low, high)


def _ends_of_floats(column: pa.ChunkedArray | pa.Array) -> tuple[float, float] | None:
    """The smallest and the largest number by numpy, which takes a tenth of Arrow's time.

    None where that may be another answer than Arrow's: with NULLs, NaN, or a zero, which has two signs.
    """
    if column.null_count or column.type not in (pa.float32(), pa.float64()):
        return None
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    chunks_of_numbers = [numbers(chunk) for chunk in chunks if len(chunk)]
    ends = [(float(one.min()), float(one.max())) for one in chunks_of_numbers]
    if any(low != low for low, _ in ends):
        return None
    lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
    return (lowest, highest) if lowest and highest else None


def _rescale(value: Any, leaf: Leaf) -> Decimal | None:
    if value is None:
        return None
    assert isinstance(leaf.type, PrimitiveType)
    return Decimal(value).quantize(Decimal(1).scaleb(-leaf.type.scale), context=_EXACT)


# --- bounds from a footer -------------------------------------------------------------------------

class _Footer:
    """Answers per leaf from the row groups of a footer, or ``None`` where it cannot be sure."""

    def __init__(self, footer: pq.FileMetaData, groups: Sequence[pq.RowGroupMetaData] = ()) -> None:
        self.writer = footer.created_by or ""
        self.groups = groups or [footer.row_group(i) for i in range(footer.num_row_groups)]
        names = footer.schema.to_arrow_schema().names
        self.ambiguous = any("." in name for name in names)  # paths are joined by dots below
        self.paths: dict[str, int] = {}
        for i in range(len(footer.schema)):
            path = footer.schema.column(i).path
            self.ambiguous |= path in self.paths
            self.paths[path] = i

    def state(self, leaf: Leaf) -> State | None:
        if self.ambiguous or any("." in part for part in leaf.path):
            return None
        path = ".".join(leaf.path)
        below = [i for p, i in self.paths.items() if p == path or p.startswith(path + ".")]
        if not below:
            return State(nulls=sum(group.num_rows for group in self.groups))
        if leaf.kind == "variant":
            below = [self.paths[path + ".metadata"]] if path + ".metadata" in self.paths else below
        chunks = [(group.num_rows, group.column(below[0])) for group in self.groups]
        state = State()
        for rows, chunk in chunks:
            of_chunk = chunk.statistics
            if of_chunk is None or not of_chunk.has_null_count:
                return None
            if leaf.kind == "nested":
                if of_chunk.null_count:  # nulls, empties and null elements are one number here
                    return None
                continue
            state.nulls += of_chunk.null_count
            if leaf.bounds and of_chunk.null_count < rows and not self._widen(state, of_chunk, leaf):
                return None
        return state

    def _widen(self, state: State, of_chunk: Any, leaf: Leaf) -> bool:
        """Take one chunk's bounds; false where they are absent or not to be trusted."""
        if not of_chunk.has_min_max:
            return False
        kind = leaf.kind
        if kind == "date" or kind in TIMES:
            factor = _microseconds(of_chunk, leaf)
            if factor is None:
                return False
            low, high = (math.floor(raw * factor) for raw in (of_chunk.min_raw, of_chunk.max_raw))
        else:
            try:
                low, high = of_chunk.min, of_chunk.max
            except UnicodeDecodeError:
                return False
        if kind in FLOATS:
            # parquet-mr lets a NaN win the maximum; other writers skip it silently.
            if not self.writer.startswith("parquet-mr") or math.isnan(low) or math.isnan(high):
                return False
            low, high = float(low), float(high)
        elif kind == "string":
            if not self.writer.startswith(_WHOLE_STRINGS):
                return False
            if isinstance(low, bytes):
                try:
                    low, high = low.decode(), high.decode()
                except UnicodeDecodeError:
                    return False
        elif kind.startswith("decimal"):
            low, high = _rescale(low, leaf), _rescale(high, leaf)
        state.widen(low, high)
        return True


def _microseconds(value: Any, leaf: Leaf) -> float | int | None:
    """What one unit of the chunk's integers is worth: days for a date, else microseconds."""
    if value.physical_type not in ("INT32", "INT64"):
        return None
    logical = json.loads(value.logical_type.to_json())
    if logical["Type"] == "Date":
        return 1 if leaf.kind == "date" else US_PER_DAY
    units = {"milliseconds": 1000, "microseconds": 1, "nanoseconds": Decimal("0.001")}
    return units.get(logical.get("timeUnit")) if leaf.kind in TIMES else None  # type: ignore[return-value]


# --- bounds from the log --------------------------------------------------------------------------

def _logged(leaf: Leaf, statistics: Mapping[str, Any], rows: int) -> State | None:
    """What the log says of a float, or of a column without bounds; None where it does not say all.

    Without a maximum a float's file has a NaN or an infinity, and neither have those that it is merged into.
    """
    nulls = _at(statistics.get("nullCount"), leaf.path)
    if type(nulls) is not int or not 0 <= nulls <= rows:
        return None
    state = State(nulls)
    if leaf.bounds and nulls < rows:
        low, high = (_at(statistics.get(key), leaf.path) for key in ("minValues", "maxValues"))
        state.nan = high is None
        try:
            state.widen(_as_stored(low, leaf.kind), None if high is None else _as_stored(high, leaf.kind))
        except (OverflowError, TypeError):
            return None
    return state


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _as_stored(value: Any, kind: str) -> float:
    """The number whose text this was: a float of 32 bits has a shorter one.

    Raises:
        OverflowError, TypeError: it is none of its type, or not a finite one.
    """
    if type(value) not in (int, float):
        raise TypeError(value)
    rounded = float(value) if kind == "double" else float(struct.unpack("f", struct.pack("f", value))[0])
    if not math.isfinite(rounded):
        raise OverflowError(value)
    return rounded


# --- writing --------------------------------------------------------------------------------------

def _put(tree: dict[str, Any], path: tuple[str, ...], token: str | None) -> None:
    if token is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = token


def _dump(tree: dict[str, Any]) -> str:
    """JSON of a tree whose leaves are JSON tokens already, so that no number is rounded."""
    items = [_quoted(key) + ":" + (_dump(value) if isinstance(value, dict) else value)
             for key, value in tree.items()]
    return "{" + ",".join(items) + "}"
