"""What the footer of a data file says of its row groups: which may hold rows that a predicate wants.

What lives here: :func:`matching`, for which the statistics of a Parquet footer become the typed columns that
``log.skipping.prune`` judges, one row for each row group; and :func:`coded`, which names the texts that are
read as dictionaries. The rules on bounds are the log's own, so a file's footer and its ``add`` action never
disagree on what a bound means.
What it does not know: how rows are read, and what a predicate says.

A bound is converted as the column's values are (widened types, older encodings). One that is missing,
or cannot be converted, is NULL and keeps the row group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from deltanb.engines.arrow.conform import Place, compile_conversion, find_field
from deltanb.errors import DeltaError
from deltanb.parquet.file import has_codes
from deltanb.schema.types import DataType, PrimitiveType, StructField, StructType, arrow_type
from deltanb.sql.coercion import arrow_array, is_text

if TYPE_CHECKING:
    from deltanb.log.skipping.stats import Stat
    from deltanb.parquet.file import SafeFile
    from deltanb.sql.expressions import Expression
    from deltanb.sql.predicates import Predicate

__all__ = [
    "MIN_ROWS", "Condition", "Judge", "Leaf", "coded", "leaf_places", "matching", "type_at"]

MIN_ROWS = 10_000  # smaller files are decoded in the time that judging their statistics takes


CODED_BYTES = 2
"""Bytes for each value of a text, uncompressed, up to which a column is read as a dictionary. A text that is
stored as it is takes 4 and its length, so that at most a few of such a column are: Arrow would have to search
its dictionary for each of them, seven times the work of copying it."""

CODED_ROWS = 5_000
"""Rows for each column of a row group, from which on its footer is read in less time than is spared."""


class Judge(Protocol):
    """Who says which row groups may hold wanted rows: made once, used for many files."""

    @property
    def stats(self) -> Sequence[Stat]:
        """The statistics that it asks for."""

    def holds(self, table: pa.Table) -> list[bool]:
        """For each row of statistics whether the rows it describes may be wanted."""


class Condition:
    """A predicate over row groups."""

    def __init__(self, predicate: Predicate, partition_columns: frozenset[str]) -> None:
        from deltanb.log.skipping import prune as skipping

        names = sorted(partition_columns)
        self._expression: Expression = skipping.may_match(predicate.expression, names)
        self.stats: list[Stat] = skipping.stats_in(self._expression)

    def holds(self, table: pa.Table) -> list[bool]:
        """For each row of statistics whether the rows it describes may match."""
        from deltanb.log.skipping import prune as skipping

        return [verdict is not False
                for verdict in skipping.evaluate(table, self._expression).to_pylist()]


def matching(
    file: SafeFile,
    stored: Sequence[pa.Field],
    fields: Sequence[StructField],
    condition: Judge,
    *,
    mode: str = "none",
    constants: Mapping[str, pa.Scalar] | None = None,
) -> Sequence[int]:
    """The row groups that may hold wanted rows, in order.

    ``stored`` are the file's Arrow fields, ``fields`` the table's, those of the statistics at least, ``mode``
    its column mapping; ``constants`` are the file's partition values by name.
    """
    footer = file.metadata
    everything = range(footer.num_row_groups)
    if not condition.stats or footer.num_rows < MIN_ROWS or not file.is_sound:
        return everything
    groups = [footer.row_group(number) for number in everything]
    columns: dict[str, pa.Array] = {
        name: pa.repeat(value, len(groups)) for name, value in (constants or {}).items()}
    for stat in condition.stats:
        columns[stat.name] = _statistic(stat, groups, stored, fields, mode)
    verdicts = condition.holds(pa.table(columns))
    return [number for number, verdict in zip(everything, verdicts, strict=True) if verdict]


def coded(file: SafeFile, stored: Sequence[pa.Field], names: Collection[str]) -> list[int]:
    """The places, among all leaves of the file, of texts of these names whose values come again and again.

    Read as dictionaries they cost half the time, and next to none where few of their rows are wanted.
    """
    footer = file.metadata
    texts = {field.name for field in stored if field.name in names and is_text(field.type)}
    leaves = [places.start for places in leaf_places(stored, texts).values()]
    chunks = footer.num_columns * footer.num_row_groups
    if not leaves or not chunks or footer.num_rows < CODED_ROWS * chunks:
        return []
    try:
        return [leaf for leaf in leaves if file.is_sound and _is_coded(file, leaf)]
    except ValueError:  # a footer that only Arrow understands
        return []


def _is_coded(file: SafeFile, leaf: int) -> bool:
    size = values = 0
    for number, (_, chunks) in enumerate(file.footer.groups):
        chunk = chunks[leaf]
        if chunk.null_count is None:
            return False
        size += file.metadata.row_group(number).column(leaf).total_uncompressed_size
        values += chunk.num_values - chunk.null_count
    return size <= CODED_BYTES * values and has_codes(file.metadata, leaf)


def _statistic(
    stat: Stat, groups: Sequence[pq.RowGroupMetaData], stored: Sequence[pa.Field],
    fields: Sequence[StructField], mode: str,
) -> pa.Array:
    """One statistic of each row group, NULL where it is not known."""
    rows = [group.num_rows for group in groups]
    if stat.kind == "num_records":
        return arrow_array(rows, pa.int64())
    data_type = type_at(stat.path, fields)
    leaf = Leaf.at(stat.path, stored, fields, mode)
    if stat.kind == "null_count":
        counts = rows if leaf is None else leaf.null_counts(groups)
        is_single = isinstance(data_type, PrimitiveType) and data_type.name != "variant"
        return arrow_array(counts if is_single else [None] * len(groups), pa.int64())
    if leaf is None:  # the column is not in the file: all NULL, no bounds
        return pa.nulls(len(groups), arrow_type(data_type))
    return leaf.bounds(stat.kind, groups, data_type)


class Leaf:
    """A single column of a file: its index among the leaves of the Parquet schema, its type."""

    def __init__(self, index: int, stored: pa.DataType) -> None:
        self.index = index
        self.stored = stored

    @classmethod
    def at(
        cls, path: tuple[str, ...], stored: Sequence[pa.Field], fields: Sequence[StructField],
        mode: str,
    ) -> Leaf | None:
        """Where a column of the table is; None where the file lacks it."""
        index, kind = 0, pa.null()
        for name in path:
            field = StructType(fields).field(name)
            stored_field = find_field(stored, field, mode, Place(""))
            if stored_field is None:
                return None
            index += sum(_leaf_count(other.type) for other in stored[:stored_field])
            kind = stored[stored_field].type
            stored = list(kind) if t.is_struct(kind) else []
            fields = field.type.fields if isinstance(field.type, StructType) else ()
        return cls(index, kind)

    def null_counts(self, groups: Sequence[pq.RowGroupMetaData]) -> list[int | None]:
        """NULLs in each row group."""
        chunks = [group.column(self.index).statistics for group in groups]
        return [s.null_count if s is not None and s.has_null_count else None for s in chunks]

    def bounds(
        self, kind: str, groups: Sequence[pq.RowGroupMetaData], data_type: DataType
    ) -> pa.Array:
        """The minimum or maximum of each row group, as a value of the table's column."""
        target = arrow_type(data_type)
        try:
            convert = compile_conversion(self.stored, data_type, "none", Place(""))
            stored = self.stored.value_type if t.is_dictionary(self.stored) else self.stored
            values = arrow_array([_bound(kind, group.column(self.index)) for group in groups], stored)
            return values if convert is None else convert(values)
        except (DeltaError, pa.ArrowException, ValueError, TypeError, OverflowError):
            return pa.nulls(len(groups), target)


def _bound(kind: str, chunk: pq.ColumnChunkMetaData) -> Any:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or chunk.physical_type == "INT96":
        return None
    value = statistics.min if kind == "min" else statistics.max
    return None if isinstance(value, float) and value != value else value  # NaN bounds nothing


def type_at(path: tuple[str, ...], fields: Sequence[StructField]) -> DataType:
    """The type of a column of the table, by its path."""
    data_type: DataType = StructType(fields)
    for name in path:
        assert isinstance(data_type, StructType)
        data_type = data_type.field(name).type
    return data_type


def leaf_places(stored: Sequence[pa.Field], names: Collection[str]) -> dict[str, range]:
    """The places, among all leaves of a file, of those of its columns of these names."""
    places, place = {}, 0
    for field in stored:
        count = _leaf_count(field.type)
        if field.name in names:
            places[field.name] = range(place, place + count)
        place += count
    return places


def _leaf_count(kind: pa.DataType) -> int:
    """How many columns of a Parquet file an Arrow type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if t.is_struct(kind):
        return sum(_leaf_count(field.type) for field in kind)
    if t.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _leaf_count(kind.value_type)
    return 1
