"""One layer of a file set: the rows of a checkpoint, or of a run of commits, as columns.

What lives here: :class:`Layer`, which reads the columns of its rows on demand and caches them.
What it does not know: other layers, and which of its rows they hide; how a checkpoint is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from deltanb.concurrency.precedence import yield_to_commits
from deltanb.log.arrays import mask_of, numbers, picked, regrouped, taken
from deltanb.log.arrow_rows import scalar
from deltanb.log.compute import pc
from deltanb.log.finder import Finder
from deltanb.log.replay import (
    FILES_SCHEMA,
    CheckpointParts,
    Delta,
    canonical_paths,
    files_table,
    key_array,
    tombstones_table,
)
from deltanb.log.tally import Tally

__all__ = ["Convert", "Layer", "Leaf"]


class Leaf(NamedTuple):
    """A leaf of the statistics to read: its path in their JSON, and the type of its values."""

    path: tuple[str, ...]
    type: pa.DataType


Convert = Callable[[pa.Table, Sequence[Leaf]], pa.Table]
"""Makes a column for each of some leaves, of a table with ``stats_parsed`` or the texts ``stats``."""

_TYPES = {f.name: f.type for f in FILES_SCHEMA}


FOUND_AT_ONCE = 1 << 17
"""Paths in memory at a time, of a layer that keeps none, while some are looked for."""


class Layer:
    """Rows of one origin: a checkpoint, or a run of commits. Columns are cached once read, unless this is
    switched off."""

    def __init__(
        self, source: CheckpointParts | None, adds: pa.Table | None, removes: pa.Table | None,
        keeps: bool = True,
    ) -> None:
        self._source = source
        self._keeps = keeps
        self._removes = removes
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._named: pa.ChunkedArray | None = None
        self._coded: pa.ChunkedArray | None = None
        self._stats: dict[Leaf, pa.ChunkedArray] = {}
        if adds is not None:
            self._columns = dict(zip(adds.column_names, adds.columns, strict=True))
        self.in_memory = source is None

    @classmethod
    def of_delta(cls, delta: Delta) -> Layer:
        """The rows of a run of commits."""
        return cls(None, files_table(delta.adds.values()), tombstones_table(delta.removes.values()))

    def read(self, columns: Sequence[str]) -> pa.Table:
        """All adds, columns of FILES_SCHEMA."""
        absent = [name for name in dict.fromkeys(columns) if name not in self._columns]
        columns_read = dict(self._columns)
        if absent:
            assert self._source is not None, absent
            yield_to_commits()
            read = self._source.read_adds(absent)
            for name in absent:
                column = read.column(name)
                if name in _TYPES and column.type != _TYPES[name]:
                    column = column.cast(_TYPES[name])
                columns_read[name] = column
            if self._keeps:
                self._keep({name: columns_read[name] for name in absent})
        return pa.table({name: columns_read[name] for name in dict.fromkeys(columns)})

    def _keep(self, columns: dict[str, pa.ChunkedArray]) -> None:
        self._columns.update(columns)
        if "partition_values" in columns:
            self._coded = None
        if "path" in columns:  # so that a refresh need not wait for it; 4 % of the time to open a table
            self.finder = Finder(columns["path"])

    def take(self, columns: Sequence[str], rows: pa.Array) -> pa.Table:
        """Rows at ascending positions; columns that are not cached are read for these rows only."""
        absent = [name for name in dict.fromkeys(columns) if name not in self._columns]
        rows_read = {name: taken(self._columns[name], rows) for name in columns if name not in absent}
        if "partition_values" in absent and self._coded is not None:
            rows_read["partition_values"] = taken(self._coded, rows)
            absent.remove("partition_values")
        if absent:
            assert self._source is not None, absent
            read = self._source.read_adds(absent, rows)
            rows_read.update(zip(absent, map(read.column, absent), strict=True))
        schema = pa.schema([FILES_SCHEMA.field(name) for name in dict.fromkeys(columns)])
        return pa.table({name: rows_read[name] for name in schema.names}).cast(schema)

    def streamed(self, columns: Sequence[str], rows: pa.Array | None) -> Iterator[pa.Table]:
        """All adds, or those at ascending positions, in batches; nothing is cached."""
        absent = [name for name in dict.fromkeys(columns) if name not in self._columns]
        schema = pa.schema([FILES_SCHEMA.field(name) for name in dict.fromkeys(columns)])
        start = 0
        for read in self._source.stream_adds(absent, rows) if absent and self._source is not None else ():
            yield_to_commits()
            count = read.num_rows
            here = None if rows is None else rows.slice(start, count)
            batch = {name: read.column(name) if name in absent
                     else self._columns[name].slice(start, count) if here is None
                     else picked(self._columns[name], here) for name in schema.names}
            yield pa.table(batch).cast(schema)
            start += count
        if not absent:
            yield self.read(columns) if rows is None else self.take(columns, rows)

    def partition_values(self) -> pa.ChunkedArray:
        """Maps of texts, or of texts in dictionaries where a checkpoint has them so; kept once read."""
        if "partition_values" in self._columns:
            return self._columns["partition_values"]
        if self._coded is None:
            assert self._source is not None
            self._coded = self._source.read_partition_values()
        return self._coded

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of all adds."""
        return self.read([name]).column(0)

    @property
    def num_rows(self) -> int:
        """Adds, without reading a column."""
        return len(self._columns["path"]) if self._source is None else self._source.num_adds

    @property
    def has_typed_stats(self) -> bool:
        """Whether a checkpoint holds statistics as typed columns."""
        return self._source is not None and getattr(self._source, "has_stats_parsed", False)

    def stats(self, leaves: Sequence[Leaf], rows: pa.Array | None, convert: Convert) -> pa.Table:
        """Statistics of all rows, or of those at ascending positions: one column for each leaf, in order.

        Those of all rows are cached, for every version that rests on this layer.
        """
        absent = [leaf for leaf in dict.fromkeys(leaves) if leaf not in self._stats]
        read: dict[Leaf, pa.ChunkedArray] = {}
        if absent:
            stats = self._read_stats(absent, rows, lambda table: convert(table, absent))
            read = dict(zip(absent, stats.columns, strict=True))
            if rows is None:
                self._stats.update(read)
        for leaf in leaves:
            if leaf not in read:
                read[leaf] = self._stats[leaf] if rows is None else taken(self._stats[leaf], rows)
        return pa.table([read[leaf] for leaf in leaves], names=[str(n) for n in range(len(leaves))])

    def _read_stats(
        self, leaves: Sequence[Leaf], rows: pa.Array | None, convert: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Statistics piece by piece, so that the texts of many files are never all in memory."""
        if self._source is None or "stats" in self._columns:
            table = self.read(["stats"])
            return convert(table if rows is None else pa.table({"stats": taken(table[0], rows)}))
        names = [".".join(("stats_parsed", *leaf.path)) for leaf in leaves]
        return self._source.read_stats(names, rows, convert)

    def pieces(self) -> list[Any]:
        """The pieces of a checkpoint's layer; none for a layer in memory."""
        return list(getattr(self._source, "pieces", tuple)())

    def removes(self) -> pa.Table:
        """The tombstones, by TOMBSTONES_SCHEMA."""
        if self._removes is None:
            assert self._source is not None
            self._removes = self._source.read_removes()
        return self._removes

    @cached_property
    def size_in_bytes(self) -> int:
        """The sum of the sizes of all adds."""
        return pc.sum(self.column("size")).as_py() or 0

    @cached_property
    def tally(self) -> Tally:
        """The tally of all adds."""
        return self.tally_of(None)

    def tally_of(self, mask: pa.ChunkedArray | None) -> Tally:
        """The tally of some adds."""
        sizes = self.column("size")
        deleted = pc.struct_field(self.column("deletion_vector"), "cardinality") if self.has_vectors else None
        if mask is not None:
            sizes, deleted = sizes.filter(mask), None if deleted is None else deleted.filter(mask)
        return Tally.of_columns(sizes, deleted)

    @property
    def has_vectors(self) -> bool:
        """Whether an add or, in a layer in memory, a remove has a deletion vector."""
        if self._source is not None and not getattr(self._source, "has_deletion_vectors", True):
            return False
        columns = [self.column("deletion_vector")]
        if self.in_memory:
            columns.append(self.removes().column("deletion_vector"))
        return any(column.null_count < len(column) for column in columns)

    @cached_property
    def finder(self) -> Finder:
        """A finder of adds by their paths as written; cached for every version that rests on this layer."""
        return Finder(self.column("path"))

    def find(self, paths: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Which adds have one of these paths as written; None if none has."""
        if self._keeps or self._source is None:
            return self.finder.find(paths)
        if not len(paths):
            return None
        rows, start = [], 0
        for some in regrouped(self._source.stream_adds(["path"]), FOUND_AT_ONCE):
            yield_to_commits()
            hit = Finder(some.column("path")).find(paths)
            if hit is not None:
                rows.append(numbers(pc.indices_nonzero(hit)).astype(np.int64) + start)
            start += some.num_rows
        return mask_of(np.concatenate(rows), start) if rows else None

    def keys(self) -> pa.ChunkedArray:
        """Keys of all rows of this layer, adds and removes."""
        adds = key_array(self.column("path"), self.column("deletion_vector"))
        removes = self.removes()
        gone = key_array(removes.column("path"), removes.column("deletion_vector"))
        return pa.chunked_array([*adds.chunks, *gone.chunks], pa.string())

    def named(self) -> pa.ChunkedArray:
        """Paths of all rows of this layer, adds and removes, absolute ones in every spelling, so that the
        many paths below need not be normalized.
        """
        if self._named is None:
            columns = self.column("path"), self.removes().column("path")
            chunks = [chunk for column in columns for chunk in canonical_paths(column).chunks]
            paths = pa.chunked_array(chunks, pa.string())
            absolute = paths.filter(pc.starts_with(paths, "/"))
            for start in ("file:", "file://") if len(absolute) else ():
                texts = scalar(start, pa.string()), absolute, scalar("", pa.string())  # the last one joins
                chunks += pc.binary_join_element_wise(*texts).chunks
            self._named = pa.chunked_array(chunks, pa.string())
        return self._named
