"""The keys of a version's rows, in their order, and where each row lies.

What lives here: :class:`KeyIndex`, an immutable sorted Arrow table of key columns, file and position, which
goes on to another version by what came and what went; the order of key values; which columns can be a key.
What it does not know: rows, and who asks for them (``keyed_rows``).

The order is that of tuples, column by column: NULL first, then values: FALSE before TRUE, numbers by size
with NaN above all, texts by code point, bytes, dates and times. ``-0.0`` is ``0.0``, and NaN is NaN.

>>> import deltanb as dn
>>> snapshot = dn.create("ducks", {"id": [7, None, 3]}).snapshot
>>> index = KeyIndex(KeyColumns(snapshot, ["id"])).at(snapshot)
>>> [index.key(place) for place in range(len(index))], index.span((7,))
([(None,), (3,), (7,)], (2, 3))
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import ROW_POSITION, Scan, plan, read_data_file
from deltanb.engines.arrow.row_values import checked, is_ordered
from deltanb.errors import InvalidArgument, require
from deltanb.log.replay import key_array
from deltanb.schema.column_mapping import mode_of
from deltanb.schema.types import StructField, arrow_type
from deltanb.store.base import read_concurrency
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

Key = tuple[Any, ...]
"""One value for each key column, as Python has it; None is NULL."""

NEEDED = ("path", "partition_values", "size", "deletion_vector")
"""What is asked of the log about a file."""
SMALL_BYTES = 4 << 20
"""Files that are smaller than this together are read one after the other: threads would cost more."""
INSERT_RATIO = 200
"""So many times as many rows have to be there as come before the places of those that come are looked up one
by one, some 40 microseconds each; else all are sorted again, some 0.2 microseconds each."""
WINDOW = 1024
"""Keys that are Python objects at once while one goes through them."""
_FILE, _POSITION = "file", "position"
_KEPT_IN_SHAPE = ("delta.columnMapping.", "delta.typeChanges")


class KeyColumns:
    """The columns of a key in a version of a table, checked.

    Raises:
        InvalidArgument: no column, one that is not there or named twice, or whose values have no order.
    """

    def __init__(self, snapshot: Snapshot, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise InvalidArgument(f"key={names!r} is a string; write key=[{names!r}]")
        schema, fields = snapshot.schema, dict[str, StructField]()
        for name in names:
            require(name, str, "key", "names of columns (strings)")
            field = schema.get(name)
            if field is None:
                hint, _ = did_you_mean(name, schema.names)
                raise InvalidArgument(f"the key names {name!r}, which the table does not have; {hint}",
                                      column=name)
            if field.name in fields:
                raise InvalidArgument(f"the key names column {field.name!r} twice", column=field.name)
            _check_ordered(field)
            fields[field.name] = field
        if not fields:
            raise InvalidArgument("the key has no column; name those that tell rows apart: key=['id']")
        self.fields = tuple(fields.values())
        self.names = tuple(fields)
        self.types = tuple(arrow_type(field.type, field.name) for field in self.fields)
        self.scan: Scan = plan(snapshot, self.names)
        self.shape = shape_of(snapshot)

    def normal(self, values: Sequence[Any]) -> Key:
        """The values as the columns hold them.

        Raises:
            InvalidArgument: another number of values, or one that is not of its column's type.
        """
        if isinstance(values, str | bytes) or not isinstance(values, Sequence):
            raise InvalidArgument(f"a key is a tuple of one value for each of {list(self.names)}, "
                                  f"found {shown(values)}")
        if len(values) != len(self.fields):
            raise InvalidArgument(f"the key {list(self.names)} has {len(self.fields)} columns, "
                                  f"found {len(values)} values: {shown(values)}")
        return tuple(map(_normal, values, self.fields, self.types))

    def value(self, name: str, value: Any) -> Any:
        """The value of one column as it holds it.

        Raises:
            InvalidArgument: it is not of the column's type.
        """
        place = self.names.index(name)
        return _normal(value, self.fields[place], self.types[place])


def shape_of(snapshot: Snapshot) -> tuple[Any, ...]:
    """What decides how files are read: equal for versions of which rows can be kept together."""
    fields = tuple(
        field.replace(metadata={key: value for key, value in field.metadata.items()
                                if key.startswith(_KEPT_IN_SHAPE)}) for field in snapshot.schema.fields)
    return (str(snapshot.log.path), snapshot.metadata.id, fields, snapshot.partition_columns,
            mode_of(snapshot.metadata, snapshot.protocol))


# --- values ---------------------------------------------------------------------------------------

def _normal(value: Any, field: StructField, arrow: pa.DataType) -> Any:
    converted = checked(value, field, arrow)
    return converted + 0.0 if isinstance(converted, float) else converted


def _check_ordered(field: StructField) -> None:
    if not is_ordered(field.type):
        raise InvalidArgument(
            f"column {field.name!r} is {field.type}, whose values have no order, so it cannot be in a key; "
            "take columns of numbers, texts, bytes, booleans, dates or times", column=field.name)


def rank(key: Key) -> tuple[Any, ...]:
    """What keys are compared and told apart by.

    >>> sorted([(1.5,), (float("nan"),), (None,)], key=rank)
    [(None,), (1.5,), (nan,)]
    """
    return tuple((0, 0) if v is None else (2, 0) if v != v else (1, v) for v in key)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of which equal ones are the same, in arrays that hold any amount of them."""
    if t.is_floating(column.type):
        nan = pa.scalar(float("nan"), column.type)
        return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
    if t.is_string(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if t.is_binary(column.type) else column


def _in_order(table: pa.Table, width: int) -> pa.Table:
    """The rows by their first ``width`` columns; equal ones stay as they were."""
    if table.num_rows < 2:
        return table
    columns: list[Any] = []
    for column in table.columns[:width]:
        if column.null_count:
            columns.append(pc.is_valid(column))
        columns.append(_sortable(column) if t.is_floating(column.type) else column)
    names = [str(place) for place in range(len(columns))]
    order = pc.sort_indices(pa.table(columns, names=names),
                            sort_keys=[(name, "ascending") for name in names])
    return table.take(order)


def _sortable(column: pa.ChunkedArray) -> pa.Array:
    """Integers in the order of floating point numbers, NaN last: Arrow's own place for NaN depends on that of
    NULL."""
    bits = pc.fill_null(column, 0.0).cast(pa.float64()).to_numpy().view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))


# --- the index ------------------------------------------------------------------------------------

@dataclass(frozen=True)
class IndexedFile:
    """A file of the log, a row of :data:`NEEDED`, under the number that it has in an index."""

    number: int
    row: Mapping[str, Any]


class KeyIndex:
    """The keys of a version; :meth:`at` gives those of another one.

    ``len`` is the number of rows. Places run from 0 in the order of keys; rows of one key are side by side.
    """

    def __init__(self, columns: KeyColumns) -> None:
        self.columns = columns
        kinds = [_plain(pa.chunked_array([], kind)).type for kind in columns.types]
        names = [*(str(place) for place in range(len(kinds))), _FILE, _POSITION]
        self._schema = pa.schema(list(zip(names, [*kinds, pa.int32(), pa.int64()], strict=True)))
        self._names: pa.ChunkedArray = pa.chunked_array([], pa.string())
        self._by_name: dict[str, IndexedFile] = {}
        self._next = 0
        self._hold(self._schema.empty_table())

    def _hold(self, table: pa.Table) -> None:
        self._table = table.combine_chunks()
        self._arrays = [_single(column) for column in self._table.columns]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    # -- from version to version ---------------------------------------------------------------------

    def to_read(self, snapshot: Snapshot) -> pa.Table:
        """The files of a version that are not in here: :data:`NEEDED` and the names they go by."""
        files = _named(snapshot)
        return files.filter(pc.invert(pc.is_in(files["name"], value_set=self._names)))

    def at(self, snapshot: Snapshot) -> KeyIndex:
        """The keys of another version of the same shape: only files that came are read.

        Raises:
            DataFileNotFound, InvalidTable: a file that is gone or damaged; the message names it.
        """
        files = _named(snapshot)
        names = files["name"]
        came = files.filter(pc.invert(pc.is_in(names, value_set=self._names)))
        left = self._names.filter(pc.invert(pc.is_in(self._names, value_set=names))).to_pylist()
        if not came.num_rows and not left:
            return self
        made = KeyIndex(self.columns)
        made._names, made._by_name = names, dict(self._by_name)
        table = self._without([made._by_name.pop(name).number for name in left])
        new = []
        for number, row in enumerate(came.to_pylist(), self._next):
            made._by_name[row.pop("name")] = file = IndexedFile(number, row)
            new.append(file)
        made._next = self._next + len(new)
        made._hold(made._merged(table, made._read(new)))
        return made

    def _without(self, left: Sequence[int]) -> pa.Table:
        if not left:
            return self._table
        gone = pc.is_in(self._table[_FILE], value_set=pa.array(left, pa.int32()))
        return self._table.filter(pc.invert(gone))

    def _read(self, files: Sequence[IndexedFile]) -> pa.Table:
        small = sum(file.row["size"] or 0 for file in files) < SMALL_BYTES
        tables = parallel.each(
            self._keys_in, files, read_concurrency(self.columns.scan.store, 1 if small else None),
            name="keys")
        return pa.concat_tables([self._schema.empty_table(), *tables])

    def _keys_in(self, file: IndexedFile) -> pa.Table:
        scan = self.columns.scan
        schema = scan.schema.append(pa.field(ROW_POSITION, pa.int64()))
        rows = pa.Table.from_batches(list(read_data_file(scan, file.row, positions=True)), schema)
        numbers = pa.repeat(pa.scalar(file.number, pa.int32()), rows.num_rows)
        columns = [*map(_plain, rows.columns[:-1]), numbers, rows.column(ROW_POSITION)]
        return pa.table(columns, schema=self._schema)

    def _merged(self, old: pa.Table, new: pa.Table) -> pa.Table:
        """Two tables of keys as one in order; the old one is in order already."""
        width = len(self.columns.fields)
        if not new.num_rows:
            return old
        if new.num_rows * INSERT_RATIO > old.num_rows:
            return _in_order(pa.concat_tables([old, new]), width)
        new = _in_order(new, width).combine_chunks()
        self._hold(old)
        keys = zip(*(column.to_pylist() for column in new.columns[:width]), strict=True)
        places = [self.span(key)[1] for key in keys]
        order: np.ndarray = np.insert(np.arange(old.num_rows), places, old.num_rows + np.arange(new.num_rows))
        return pa.concat_tables([self._table, new]).combine_chunks().take(pa.array(order))

    # -- what is there -------------------------------------------------------------------------------

    def key(self, place: int) -> Key:
        """The key of the row at a place."""
        return tuple(array[place].as_py() for array in self._arrays[:-2])

    def span(self, key: Key) -> tuple[int, int]:
        """The place of the first row of a key, and that behind its last one; equal where there is none."""
        target, places = rank(key), range(len(self))
        start = bisect_left(places, target, key=self._rank)
        return start, bisect_right(places, target, start, key=self._rank)

    def keys(self, start: int) -> Iterator[Key]:
        """The distinct keys from a place on, in their order."""
        before = None
        for first in range(start, len(self), WINDOW):
            slices = (array.slice(first, WINDOW).to_pylist() for array in self._arrays[:-2])
            for key in zip(*slices, strict=True):
                if before is None or rank(key) != before:
                    before = rank(key)
                    yield key

    def where(self, start: int, stop: int) -> Iterator[tuple[IndexedFile, int]]:
        """The file of each row from a place to another one, and its position there."""
        files, positions = (array.slice(start, stop - start).to_pylist() for array in self._arrays[-2:])
        for number, position in zip(files, positions, strict=True):
            yield self._files[number], position

    def _rank(self, place: int) -> tuple[Any, ...]:
        return rank(self.key(place))

    @cached_property
    def _files(self) -> dict[int, IndexedFile]:
        return {file.number: file for file in self._by_name.values()}


def _named(snapshot: Snapshot) -> pa.Table:
    files = snapshot.select_files(NEEDED)
    return files.append_column("name", key_array(files["path"], files["deletion_vector"]))


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
