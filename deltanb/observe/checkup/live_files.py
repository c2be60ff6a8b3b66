"""The live files of a version as arrays: sizes, partitions, deleted rows, bounds of some columns.

What lives here: :class:`LiveFiles`, read in one go, so that all arrays have the same order even where a
damaged checkpoint makes the snapshot read its files from elsewhere; and ranks, by which bounds of any type
are compared. What it does not know: what is good or bad about any of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import DeltaError, InvalidTable
from deltanb.log.arrays import numbers
from deltanb.log.skipping import partitions
from deltanb.log.skipping.prune import read_stats
from deltanb.log.skipping.stats import NUM_RECORDS, Kind, Stat, has_bounds, stats_of
from deltanb.schema.types import StructType, arrow_type

if TYPE_CHECKING:
    from deltanb.log.file_set import FileSet
    from deltanb.log.snapshot import Snapshot

Path = tuple[str, ...]
MOST_BYTES = 2**62
"""Of all files together; where a log says more, each counts as no more than its share of that."""
_KINDS: tuple[Kind, ...] = ("min", "max", "null_count")


@dataclass(frozen=True)
class Ranks:
    """Bounds of a column as ranks among all its bounds: comparable numbers, whatever the type.

    ``is_known`` says of which files there are both; ``is_null`` of which all rows are NULL. The others have
    no rank.
    """

    low: Any
    high: Any
    is_known: Any
    is_null: Any


@dataclass(frozen=True)
class LiveFiles:
    """Arrays with one element for each live file of a snapshot, all in the same order."""

    snapshot: Snapshot
    sizes: Any
    """Bytes; 0 where the log has none."""
    deleted: Any
    """Rows that its vector hides."""
    rows: Any
    """Rows with those hidden; -1 where its statistics do not say."""
    has_vector: Any
    provider: pa.ChunkedArray
    """Who clustered it, NULL for nobody."""
    groups: Any
    """The number of its partition, an index of :attr:`partitions`."""
    partitions: tuple[tuple[Any, ...], ...]
    """The values of each partition, in the order of the table's partition columns."""
    stats: pa.Table
    """Statistics of the columns asked for, named by :attr:`Stat.name`."""
    names: pa.Table
    """Path and deletion vector, or no column."""
    schema: StructType
    """The table's; without a column where it cannot be read."""
    problem: str = ""
    """Why partitions were told apart by their texts: a value that is none of its column's type."""

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Sequence[Path] = (), named: bool = False) -> LiveFiles:
        """The live files, with bounds of some columns; ``named``: with their names, too.

        Raises:
            InvalidTable: the files cannot be read.
        """
        schema = readable_schema(snapshot)
        needed = stats_of(list(columns))

        def read(files: FileSet) -> LiveFiles:
            names = ["path", "deletion_vector"] if named else []
            columns = dict.fromkeys(["size", "deletion_vector", "clustering_provider", *names])
            table = files.read(list(columns))
            vectors = table["deletion_vector"].combine_chunks()
            cardinality = pc.struct_field(vectors, "cardinality")
            stats = read_stats(files, schema, needed)
            groups, values, problem = _partitioned(snapshot, schema, files)
            return cls(
                snapshot, _added_up(_filled(table["size"], 0)), _filled(cardinality, 0),
                _filled(stats[NUM_RECORDS.name], -1), numbers(pc.is_valid(vectors)),
                table["clustering_provider"], groups, values, stats, table.select(names), schema, problem)

        return snapshot.files_by(read)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def total(self) -> int:
        """Bytes of all files."""
        return int(self.sizes.sum())

    def bounds(self, path: Path) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The least and the greatest value of each file, as far as statistics have them."""
        return self.stats[Stat("min", path).name], self.stats[Stat("max", path).name]

    def ranks(self, path: Path) -> Ranks:
        """The bounds of a column as ranks."""
        low, high = (pa.chunked_array(side.chunks, side.type).combine_chunks() for side in self.bounds(path))
        is_known = numbers(pc.and_(pc.is_valid(low), pc.is_valid(high)))
        ranked: Any = np.zeros(2 * len(self), np.int64)
        if len(self):
            both = pa.concat_arrays([_sortable(low), _sortable(high)])
            ranked = numbers(pc.rank(both, tiebreaker="dense")).astype(np.int64)
        return Ranks(ranked[:len(self)], ranked[len(self):], is_known, self.is_null(path))

    def has_no_statistics(self, path: Path) -> Any:
        """Of which files a column has neither bounds nor a count of NULLs: their writer left it out. A bound
        alone may be absent for its values, as where there is NaN."""
        parts = (self.stats[Stat(kind, path).name] for kind in _KINDS)
        return np.logical_and.reduce([~numbers(pc.is_valid(part)) for part in parts])

    def is_null(self, path: Path) -> Any:
        """Of which files all rows are NULL in a column."""
        nulls = _filled(self.stats[Stat("null_count", path).name], -1)
        return (nulls >= 0) & (nulls == self.rows)

    def by_group(self, values: Any) -> Any:
        """Sums over each partition."""
        return np.bincount(self.groups, weights=values, minlength=len(self.partitions)).astype(np.int64)

    def columns_with_bounds(self) -> list[Path]:
        """The columns that statistics can have bounds of, in schema order."""
        names = {name.lower() for name in self.snapshot.partition_columns}
        return [path for path in leaves(self.schema) if path[0].lower() not in names]


def leaves(schema: StructType) -> list[Path]:
    """The paths of the columns whose bounds can be compared, structs opened.

    >>> from deltanb.schema.ddl import parse_schema
    >>> leaves(parse_schema("a long, b struct<c: string, d: array<int>>"))
    [('a',), ('b', 'c')]
    """
    paths: list[Path] = []
    for field in schema.fields:
        if isinstance(field.type, StructType):
            paths += [(field.name, *below) for below in leaves(field.type)]
        elif has_bounds(arrow_type(field.type, field.name)):
            paths.append((field.name,))
    return paths


def readable_schema(snapshot: Snapshot) -> StructType:
    """The table's schema; one without a column where it cannot be read."""
    try:
        return snapshot.schema
    except DeltaError:
        return StructType(())


def _partitioned(
    snapshot: Snapshot, schema: StructType, files: FileSet
) -> tuple[Any, tuple[tuple[Any, ...], ...], str]:
    """The number of each file's partition, the values of each, and what is wrong with them."""
    names = [schema.field(name).name for name in snapshot.partition_columns if name in schema]
    if not names:
        return np.zeros(files.num_files, np.int64), ((),), ""
    try:
        return *_grouped(schema, names, files), ""
    except InvalidTable as error:
        if "is_checkpoint" in error.data:
            raise
        problem = str(error)
    texts: dict[Any, int] = {}
    rows = [dict(row or ()) for piece in files.partition_values() for row in piece.to_pylist()]
    keys = [tuple(row.get(schema.field(name).physical_name, row.get(name)) for name in names) for row in rows]
    return np.array([texts.setdefault(key, len(texts)) for key in keys], np.int64), tuple(texts), problem


def _grouped(
    schema: StructType, names: Sequence[str], files: FileSet
) -> tuple[Any, tuple[tuple[Any, ...], ...]]:
    numbered: dict[tuple[Any, ...], int] = {}
    pieces: list[Any] = [np.zeros(0, np.int64)]
    for piece in files.partition_values():
        kinds, codes = partitions.distinct_partitions(piece, schema, names)
        values = zip(*(kinds[name].to_pylist() for name in names), strict=True)
        places = np.array([numbered.setdefault(value, len(numbered)) for value in values], np.int64)
        pieces.append(places[numbers(codes.cast(pa.int64()))])
    return np.concatenate(pieces), tuple(numbered)


def _filled(array: pa.Array | pa.ChunkedArray, value: int) -> Any:
    whole = array.cast(pa.int64())
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.chunked_array(whole.chunks, pa.int64()).combine_chunks()
    return numbers(pc.fill_null(whole, pa.scalar(value, pa.int64())))


def _added_up(sizes: Any) -> Any:
    """Sizes whose sum fits 64 bits: no table has exbibytes, and a size that says so is made up."""
    if sizes.astype(np.float64).sum() < MOST_BYTES:
        return sizes
    return np.minimum(sizes, MOST_BYTES // len(sizes))


def _sortable(array: pa.Array) -> pa.Array:
    """Texts as bytes: an upper bound of a text need not be a text, and both are ordered alike."""
    return array.cast(pa.binary()) if pa.types.is_string(array.type) else array


def average_depth(low: Any, high: Any) -> float:
    """How many ranges hold a value, averaged over the ends of all ranges; 0 without any.

    >>> average_depth(np.array([1, 3]), np.array([2, 4])), average_depth(np.array([1, 1]), np.array([9, 9]))
    (1.0, 2.0)
    """
    if not len(low):
        return 0.0
    points = np.concatenate([low, high])
    begun = np.sort(low).searchsorted(points, "right")
    ended = np.sort(high).searchsorted(points, "left")
    return float((begun - ended).mean())


def shown_partition(snapshot: Snapshot, values: Sequence[Any]) -> str:
    """The values of a partition in words."""
    pairs: Mapping[str, Any] = dict(zip(snapshot.partition_columns, values, strict=True))
    return ", ".join(f"{name} = {value}" for name, value in pairs.items())
