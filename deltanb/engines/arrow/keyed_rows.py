"""Rows of a snapshot in the order of a key.

What lives here: :class:`KeyedRows`: the rows of a key, the keys that follow one, the partition that a row
is in, and all that at the next version. Rows are fetched together with those that follow them as soon as
somebody goes through them in order.
What it does not know: how keys are ordered and found (``key_index``), locks, transactions, writing.

The key columns of all files are read once, and kept in order beside each row's place; rows are read by
their places when they are asked for. In a large table whose keys have not been asked for in order, the first
single keys are looked for as a scan would do it: by partitions, statistics of files and those of row groups.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import ROW_POSITION, Scan, plan, read_data_file
from deltanb.engines.arrow.key_index import (
    NEEDED,
    SMALL_BYTES,
    IndexedFile,
    Key,
    KeyColumns,
    KeyIndex,
    rank,
    shape_of,
)
from deltanb.schema.column_mapping import physical_name
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

MAX_READ_FILES = 256
"""Files whose key columns are read for a single key: each takes some 0.15 ms, a scan some milliseconds."""
MAX_READ_BYTES = 16 << 20
"""The same, of their size: the key columns of so much are read in some tens of milliseconds."""
MAX_SCANS = 64
"""Each scan makes reading the keys worth as much again, up to so many times: a gigabyte of files then."""
GROWTH = 8
"""So many times as many rows as the last time are fetched when somebody goes on to the next key."""
MAX_FETCHED_ROWS = 4096
MAX_FETCHED_BYTES = 8 << 20
"""Rows fetched at a time, and their size in data files on the average."""
MAX_READERS = 16
"""Places up to which rows were read in order that are remembered: so many may go through a table side by
side."""
MAX_SEARCHED = 16
"""Keys whose rows are kept where they were looked for by a scan."""

Row = dict[str, Any]
_Match = tuple[Mapping[str, Any], pa.RecordBatch, int]
"""A file, and a row in a batch of its rows."""


class KeyedRows:
    """The rows of a snapshot by a key, which need not be unique. Immutable, and safe to use from threads.

    A key is a tuple of one value for each column, as Python has it; None is NULL, and equal to NULL. The
    order is that of :mod:`deltanb.engines.arrow.key_index`.

    Args:
        snapshot: the version.
        key: names of columns, in any case.

    Raises:
        InvalidArgument: no column, one that is not there or named twice, or whose values have no order.
        UnsupportedProtocol: the table has a feature that cannot be read, or the key such a column.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Huey", "Daisy", "Huey"], "hat": ["red", None, "new"]})
    >>> rows = KeyedRows(table.snapshot, ["name"])
    >>> rows.after(None), rows.after(("Daisy",)), rows.after(("Huey",))
    (('Daisy',), ('Huey',), None)
    >>> rows.get(("Daisy",)), len(rows.get(("Huey",))), rows.get(("Donald",))
    ([{'name': 'Daisy', 'hat': None}], 2, [])
    >>> _ = table.delete("name = 'Huey'")
    >>> list(rows.at(table.snapshot).iterate())
    [('Daisy',)]
    """

    def __init__(self, snapshot: Snapshot, key: Sequence[str]) -> None:
        self._begin(snapshot, KeyColumns(snapshot, key), _RowCache())

    def _begin(self, snapshot: Snapshot, columns: KeyColumns, cache: _RowCache) -> None:
        self.snapshot = snapshot
        self.columns = columns
        self._cache = cache
        self._older = KeyIndex(columns)
        self._index: KeyIndex | None = None
        self._lock = threading.Lock()
        self._searched: OrderedDict[Key, list[_Match]] = OrderedDict()

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns, as the schema spells them."""
        return self.columns.names

    def normal(self, key_values: Sequence[Any]) -> Key:
        """The key as the columns hold it: ``1`` of a column of doubles is ``1.0``.

        Raises:
            InvalidArgument: another number of values, or one that is not of its column's type.
        """
        return self.columns.normal(key_values)

    def at(self, snapshot: Snapshot) -> KeyedRows:
        """The rows of another version of the table, or of what a transaction has staged on it.

        What was read of files that both versions have is kept.

        Raises:
            InvalidArgument: that version does not have the key's columns.
        """
        if snapshot is self.snapshot:
            return self
        same = shape_of(snapshot) == self.columns.shape
        made = KeyedRows.__new__(KeyedRows)
        if same:
            made._begin(snapshot, self.columns, self._cache)
            made._older = self._index or self._older
        else:
            made._begin(snapshot, KeyColumns(snapshot, self.key), _RowCache())
        return made

    # -- keys ----------------------------------------------------------------------------------------

    def after(self, key_values: Sequence[Any] | None = None) -> Key | None:
        """The first key behind a key, which need not be there, or of all; None where there is none."""
        index = self._ready()
        start = 0 if key_values is None else index.span(self.normal(key_values))[1]
        return index.key(start) if start < len(index) else None

    def iterate(self, after: Sequence[Any] | None = None) -> Iterator[Key]:
        """The keys behind a key, or all, each once and in their order."""
        index = self._ready()
        return index.keys(0 if after is None else index.span(self.normal(after))[1])

    # -- rows ----------------------------------------------------------------------------------------

    def get(self, key_values: Sequence[Any]) -> list[Row]:
        """The rows of a key, each with all columns; the caller may change them.

        Raises:
            InvalidArgument: as :meth:`normal`.
            UnsupportedProtocol: the table has a column that cannot be read.
            DataFileNotFound, InvalidTable: a file that is gone or damaged; the message names it.
        """
        key = self.normal(key_values)
        index = self._at_hand(key)
        if index is None:
            return [_row(batch, place) for _, batch, place in self._search(key)]
        start, stop = index.span(key)
        if start == stop:
            return []
        return [_row(*match) for match in self._fetched(index, start, stop)]

    def partition_of(self, key_values: Sequence[Any]) -> tuple[str | None, ...] | None:
        """The partition of a key's first row: its values as texts, as the log has them, in the order of the
        partition columns. None where there is no row."""
        key = self.normal(key_values)
        index = self._at_hand(key)
        if index is None:
            files = [file for file, _, _ in self._search(key)]
        else:
            files = [file.row for file, _ in index.where(*index.span(key))]
        if not files:
            return None
        values = dict(files[0]["partition_values"] or ())
        return tuple(values.get(physical, values.get(name)) or None for name, physical in self._partitions)

    def paths_of(self, keys: Iterable[Key]) -> set[str] | None:
        """The files, by their paths in the log, that hold rows of some keys, which :meth:`normal` has made;
        None where that is not known without reading much."""
        index = self._at_hand()
        if index is None:
            return None
        return {file.row["path"] for key in keys for file, _ in index.where(*index.span(key))}

    @cached_property
    def _partitions(self) -> list[tuple[str, str]]:
        fields = [self.snapshot.schema.field(name) for name in self.snapshot.partition_columns]
        return [(field.name, physical_name(field, self._scan.mode)) for field in fields]

    @cached_property
    def _scan(self) -> Scan:
        return plan(self.snapshot)

    # -- by the index --------------------------------------------------------------------------------

    def _ready(self) -> KeyIndex:
        """The keys of this version, read where they are not yet."""
        with self._lock:
            if self._index is None:
                self._index = self._older.at(self.snapshot)
                self._older = self._index
            return self._index

    def _at_hand(self, key: Key | None = None) -> KeyIndex | None:
        """As :meth:`_ready`; None where a scan for the key is less than reading all keys, or done already."""
        if self._index is None:
            if key is not None and rank(key) in self._searched:
                return None
            files, size = self._unread
            worth = min(MAX_SCANS, 1 + self._cache.scans)
            if files > MAX_READ_FILES * worth or size > MAX_READ_BYTES * worth:
                return None
        return self._ready()

    @cached_property
    def _unread(self) -> tuple[int, int]:
        """Number and size of the files whose keys are to be read."""
        files = self._older.to_read(self.snapshot)
        return files.num_rows, pc.sum(files["size"]).as_py() or 0

    def _fetched(self, index: KeyIndex, start: int, stop: int) -> list[tuple[pa.RecordBatch, int]]:
        """The rows from a place to another one, of one key; with those behind them where keys are asked for
        in their order."""
        places = list(index.where(start, stop))
        before = rank(index.key(start - 1)) if start else ()
        rows, count = self._cache.look(places, before, rank(index.key(start)))
        if rows is None:
            most = min(MAX_FETCHED_ROWS, max(1, MAX_FETCHED_BYTES * len(index) // (self._size or 1)))
            end = min(len(index), max(stop, start + min(count, most)))
            read = self._read([*places, *self._cache.lacking(index.where(stop, end))])
            self._cache.keep(read, stop - start)
            rows = [read[file.row["path"], position] for file, position in places]
        return rows

    @cached_property
    def _size(self) -> int:
        return self.snapshot.size_in_bytes

    def _read(self, places: Sequence[tuple[IndexedFile, int]]) -> _Batches:
        """The rows at some places, by file and position."""
        by_file: dict[int, tuple[IndexedFile, BitMap64]] = {}
        for file, position in places:
            by_file.setdefault(file.number, (file, BitMap64()))[1].add(position)
        rows: _Batches = {}

        def read(one: tuple[IndexedFile, BitMap64]) -> list[pa.RecordBatch]:
            return list(read_data_file(self._scan, one[0].row, positions=True, only=one[1]))

        small = sum(file.row["size"] or 0 for file, _ in by_file.values()) < SMALL_BYTES
        batches = parallel.each(
            read, by_file.values(), read_concurrency(self._scan.store, 1 if small else None), name="rows")
        for (file, _), decoded in zip(by_file.values(), batches, strict=True):
            for batch in decoded:
                for place, position in enumerate(batch.column(ROW_POSITION).to_pylist()):
                    rows[file.row["path"], position] = batch, place
        return rows

    # -- by a scan -----------------------------------------------------------------------------------

    def _search(self, key: Key) -> list[_Match]:
        """The rows of a key, looked for in the files that can have them."""
        with self._lock:
            known = self._searched.get(rank(key))
        if known is not None:
            return known
        self._cache.scanned()
        predicate = self.condition(key)
        scan = plan(self.snapshot, None, predicate)
        files = self.snapshot.files_for_scan(predicate, columns=NEEDED).to_pylist()
        matches: list[_Match] = []
        batches = parallel.each(
            lambda file: list(read_data_file(scan, file)), files, read_concurrency(scan.store), name="rows")
        for file, of_file in zip(files, batches, strict=True):
            matches += [(file, batch, place) for batch in of_file for place in range(batch.num_rows)]
        with self._lock:
            self._searched[rank(key)] = matches
            if len(self._searched) > MAX_SEARCHED:
                self._searched.popitem(last=False)
        return matches

    def condition(self, key: Key) -> Predicate:
        """What is true of the rows of a key, which is as :meth:`normal` gives it."""
        from deltanb.sql import expressions as ex  # late: most tables are read without the SQL parser
        from deltanb.sql.predicates import Predicate

        parts = []
        for field, type_, value in zip(self.columns.fields, self.columns.types, key, strict=True):
            column = ex.Column((field.name,), type_)
            parts.append(ex.boolean("is_null", column) if value is None else
                         ex.boolean("eq", column, ex.Literal(value, type_)))
        whole = reduce(lambda one, other: ex.boolean("and", one, other), parts)
        return Predicate(f"the key {', '.join(self.key)}", whole)


_Batches = dict[tuple[str, int], tuple[pa.RecordBatch, int]]
"""By path and position in the file: a batch, and the row's place in it."""


class _RowCache:
    """Rows that were fetched, of any version: what a file has at a position never changes.

    Beside them, how far somebody has come in the order of keys, how many rows were fetched there, and how
    many keys were looked for by scans.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[tuple[str, int], tuple[pa.RecordBatch, int]] = OrderedDict()
        self._reached: OrderedDict[Key, int] = OrderedDict()
        self.scans = 0

    def scanned(self) -> None:
        """Count a scan for a single key."""
        with self._lock:
            self.scans += 1

    def look(
        self, places: Sequence[tuple[IndexedFile, int]], before: Key, key: Key
    ) -> tuple[list[tuple[pa.RecordBatch, int]] | None, int]:
        """The rows, or None where one of them has to be fetched, and how many to fetch then.

        ``before`` is the key before this one: who has just had that goes through them in order.
        """
        with self._lock:
            count = self._reached.pop(before, 0) or self._reached.get(key, 0)
            cached = [self._rows.get((file.row["path"], position)) for file, position in places]
            has_all = all(one is not None for one in cached)
            if not has_all:
                count = min(max(1, count * GROWTH), MAX_FETCHED_ROWS)
            self._reached[key] = max(1, count)
            if len(self._reached) > MAX_READERS:
                self._reached.popitem(last=False)
        return ([one for one in cached if one is not None] if has_all else None), count

    def lacking(self, places: Iterator[tuple[IndexedFile, int]]) -> list[tuple[IndexedFile, int]]:
        """Those of some places of which the rows are not kept."""
        with self._lock:
            return [(file, position) for file, position in places
                    if (file.row["path"], position) not in self._rows]

    def keep(self, rows: _Batches, least: int) -> None:
        """Keep rows in place of the oldest ones."""
        with self._lock:
            self._rows.update(rows)
            while len(self._rows) > max(2 * MAX_FETCHED_ROWS, least):
                self._rows.popitem(last=False)


def _row(batch: pa.RecordBatch, place: int) -> Row:
    row: Row = batch.slice(place, 1).to_pylist()[0]
    row.pop(ROW_POSITION, None)
    return row
