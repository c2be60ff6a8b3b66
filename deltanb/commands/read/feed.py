"""The result of a change data feed: an Arrow table with a picture, before → after.

What lives here: :class:`ChangeFeed`, its counts by commit, and the pairing of updated rows.
What it does not know: where the changes are read (``changes``), how they are drawn.

The feed has two images of an updated row, before and after, and does not say which belong together. They are
paired by a column that is unique among both; without one, by the order in which they were written, which
writers preserve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.commands.read.changes import COMMIT_TIMESTAMP, COMMIT_VERSION, FEED_COLUMNS
from deltanb.commands.read.diff_rows import codes_of, is_unlikely_key
from deltanb.commands.rows.change_files import CHANGE_TYPE
from deltanb.engines.arrow.frames import library
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pandas as pd

BEFORE, AFTER = "update_preimage", "update_postimage"
MAX_PAIRED = 1_000
"""Rows of one commit of which it is found out which two belong together; a picture shows far fewer."""


@dataclass(frozen=True)
class Pairs:
    """Updated rows of one commit, before and after, row by row.

    ``key`` is the column that paired them; empty if it was their order.
    """

    before: pa.Table
    after: pa.Table
    key: str = ""


@answer_wrong_arguments()
class ChangeFeed(Displayable):
    """The changes of some versions, as an Arrow table that shows updated rows as before → after.

    It has everything that an Arrow table has (``num_rows``, ``filter``, ``to_pylist``, ``feed["id"]``);
    :meth:`to_arrow` returns the table itself, and everything that accepts Arrow streams accepts the feed.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"id": [1], "n": [1]}, properties={"delta.enableChangeDataFeed": "true"})
    >>> _ = table.update({"n": "2"})
    >>> feed = table.changes(1)
    >>> feed.num_rows, feed["n"].to_pylist(), [pairs.key for pairs in [feed.updated(1)]]
    (2, [1, 2], ['id'])
    """

    def __init__(
        self, rows: pa.Table, table: str = "", partition_columns: Sequence[str] = (),
        staged_behind: int | None = None,
    ) -> None:
        self._rows = rows
        self._pairs: dict[int, Pairs | None] = {}
        self.table = table
        """The table's name or path."""
        self.partition_columns = tuple(partition_columns)
        self.staged_behind = staged_behind
        """Of a transaction, the version that it has read: what is behind that is staged."""

    def to_arrow(self) -> pa.Table:
        """The changes as an Arrow table.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
        >>> table.changes(0).to_arrow().select(["id", "_change_type"]).to_pylist()
        [{'id': 1, '_change_type': 'insert'}]
        """
        return self._rows

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """The changes as a pandas DataFrame; options are those of Arrow's ``to_pandas``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
        >>> list(table.changes(0).to_pandas()["_change_type"])
        ['insert']
        """
        library("pandas", "changes().to_pandas")
        return self._rows.to_pandas(**options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._rows, name)

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key]

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __eq__(self, other: object) -> bool:
        return bool(self._rows == (other.to_arrow() if isinstance(other, ChangeFeed) else other))

    __hash__ = None  # type: ignore[assignment]  # as Arrow's tables, which have none

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._rows) if name[0] != "_")})

    @property
    def columns_of_table(self) -> list[str]:
        """The names of the table's own columns, without those of the feed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
        >>> list(table.changes(0).columns_of_table)
        ['id']
        """
        return [name for name in self._rows.column_names if name not in FEED_COLUMNS]

    @cached_property
    def commits(self) -> list[dict[str, Any]]:
        """The time and the row counts by kind of each version that changed rows.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
        >>> _ = table.delete()
        >>> first, second = table.changes(0).commits
        >>> first["version"], first["insert"], second["version"], second["delete"]
        (0, 1, 1, 1)
        """
        by_version: dict[int, dict[str, Any]] = {}
        for (version, kind), places in self._places.items():
            time = self._rows[COMMIT_TIMESTAMP][int(places[0])].as_py()
            by_version.setdefault(version, {"version": version, "time": time})[kind] = len(places)
        return [by_version[version] for version in sorted(by_version)]

    def of(self, version: int, kind: str, limit: int | None = None) -> pa.Table:
        """The rows of one kind in one commit, in the table's columns.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
        >>> _ = table.delete("id = 1")
        >>> table.changes(0).of(1, "delete").to_pylist()
        [{'id': 1}]
        """
        at = self._places.get((version, kind), np.zeros(0, np.int64))[:limit]
        return self._rows.select(self.columns_of_table).take(pa.array(at, pa.int64()))

    @cached_property
    def _places(self) -> dict[tuple[int, str], np.ndarray]:
        """The positions of the rows of each commit and kind."""
        if not self._rows.num_rows:
            return {}
        kinds = pc.dictionary_encode(self._rows[CHANGE_TYPE]).unify_dictionaries()
        names = kinds.chunk(0).dictionary.to_pylist()
        codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in kinds.chunks])
        numbers = self._rows[COMMIT_VERSION].to_numpy() * len(names) + codes
        small = numbers - numbers.min()  # numbers of 16 bits are sorted in a fraction of the time
        order = np.argsort(small.astype(np.uint16) if small.max() < 1 << 16 else small, kind="stable")
        ends: np.ndarray = np.flatnonzero(np.diff(numbers[order])) + 1
        parts = np.split(order, ends)
        return {(int(numbers[part[0]]) // len(names), names[int(numbers[part[0]]) % len(names)]): part
                for part in parts}

    def updated(self, version: int) -> Pairs | None:
        """The first updated rows of one commit in pairs; None if they cannot be paired.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> feed = {"delta.enableChangeDataFeed": True}
        >>> table = dn.create(MemoryStore(), {"id": [1], "n": [1]}, properties=feed)
        >>> _ = table.update({"n": "2"})
        >>> table.changes(1).updated(1).key
        'id'
        """
        if version not in self._pairs:
            self._pairs[version] = self._paired(version)
        return self._pairs[version]

    def _paired(self, version: int) -> Pairs | None:
        before = self.of(version, BEFORE, MAX_PAIRED)
        after = self.of(version, AFTER, MAX_PAIRED)
        for name in self._key_columns():
            if before.num_rows == 1 and is_unlikely_key(name):
                break  # a single row is unique by any column
            indices = _by_key(before[name], after[name])
            if indices is not None:
                return Pairs(before.take(indices[0]), after.take(indices[1]), name)
        if before.num_rows != after.num_rows or not _have_something_in_common(before, after):
            return None
        return Pairs(before, after)

    def _key_columns(self) -> Iterator[str]:
        """Columns that may identify rows, those named like a key first."""
        fields = [field for field in self._rows.schema if field.name not in FEED_COLUMNS
                  and field.name not in self.partition_columns
                  and (pa.types.is_integer(field.type) or pa.types.is_string(field.type))]
        return (field.name for field in sorted(fields, key=lambda field: is_unlikely_key(field.name)))


def _by_key(before: pa.ChunkedArray, after: pa.ChunkedArray) -> tuple[pa.Array, pa.Array] | None:
    """The positions of equal values in both; None if they are not unique, or not all in both."""
    if not len(before) or len(before) != len(after) or before.null_count or after.null_count:
        return None
    codes = codes_of([before, after])
    one, two = codes[: len(before)], codes[len(before) :]
    values, first = np.unique(one, return_index=True)
    others, second = np.unique(two, return_index=True)
    if len(values) != len(one) or not np.array_equal(values, others):
        return None
    order = np.argsort(first, kind="stable")
    return pa.array(first[order]), pa.array(second[order])


def _have_something_in_common(before: pa.Table, after: pa.Table) -> bool:
    """Whether each row has a value in common with its pair, else the pairing is wrong. In a table of one
    column, all values may have changed."""
    if before.num_columns == 1:
        return True
    common = np.zeros(before.num_rows, bool)
    for name in before.column_names:
        codes = codes_of([before[name], after[name]])
        common |= codes[: len(common)] == codes[len(common) :]
        if common.all():
            return True
    return not before.num_columns
