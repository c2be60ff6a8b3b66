"""The wanted rows of one data file, found with as little decoding as they take.

What lives here: deleted rows left out, the condition asked of its own columns, the other columns decoded only
where it holds; where in the file each row is.
What it does not know: which rows may be wanted, how columns are found and converted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.concurrency.memory import pool
from deltanb.engines.arrow.row_groups import leaf_places
from deltanb.parquet.pages import Pages
from deltanb.parquet.ranges import Range, joined
from deltanb.sql.coercion import arrow_array, arrow_scalar

if TYPE_CHECKING:
    from deltanb.parquet.file import SafeFile
    from deltanb.sql.predicates import Predicate

Batches = Iterator[tuple[int, pa.RecordBatch]]
"""Batches as they are stored, each with the place of its first row."""

Alike = list[tuple[list[Range] | None, list[str]]]
"""Ranges of rows (None: of the whole row group), and the names of the columns of which these are read."""

_Selection = tuple[int, pa.Array | None, pa.RecordBatch]
"""Rows of a batch that are wanted: where the batch begins in the file, where they are in it (None: it is all
of them), and they themselves."""


class _Hit(NamedTuple):
    """Wanted rows of a batch of so many, as in :data:`_Selection`."""

    size: int
    start: int
    places: pa.Array | None
    rows: pa.RecordBatch


FEW = 4096
"""Rows of a row group that wait for each other, so that of the late columns their pages alone are read."""
MOST_SHARE = 0.9
"""Of the late columns' rows those that such pages have at most: else nothing is spared."""


class Rows(NamedTuple):
    """Rows that may be wanted: all of a row group, which begins at ``start`` in the file, or some ranges.
    ``is_paged`` is whether pages of late columns are looked for."""

    group: int
    start: int
    ranges: list[Range] | None = None
    is_paged: bool = False


class Columns(Protocol):
    """Columns of the file, as the table has them."""

    schema: pa.Schema

    @property
    def stored_names(self) -> list[str]:
        """What has to be read for them."""

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What was read as the table has it."""


Division = tuple[Columns, Columns | None]
"""Those that are decoded first, and those that follow where a row is wanted (None: there are none)."""


class FileRows:
    """The wanted rows of a file.

    Args:
        columns: those that are decoded first, all that the condition looks at among them; and those that
            follow for row groups in which a row fulfils it, up to the last such row (None: there are none).
        pages: those of the file.
        naming: names the file in errors of its content.
        deleted, only: positions of rows that are left out, and of those that are wanted (None: all).
        condition: on the rows, of which those are wanted that fulfil it.
    """

    def __init__(
        self, parquet: SafeFile, pages: Pages, columns: Division,
        naming: Callable[[], AbstractContextManager[None]], deleted: BitMap64 | None,
        only: BitMap64 | None, condition: Predicate | None, batch_rows: int,
    ) -> None:
        self.columns = columns
        self._parquet, self._naming, self._batch_rows = parquet, naming, batch_rows
        self._pages = pages
        self._deleted, self._only, self._condition = deleted, only, condition
        self._expected: set[int] = set()

    def expect(self, groups: Sequence[int]) -> None:
        """Say that row groups are read as a whole: the columns that are decoded first."""
        self._expected.update(groups)
        with self._naming():
            self._expect(groups, self.columns[0].stored_names)

    def _expect(self, groups: Sequence[int], names: Collection[str]) -> None:
        places = leaf_places(list(self._parquet.schema_arrow), names)
        self._parquet.expect(groups, [leaf for some in places.values() for leaf in some])

    def of(self, rows: Iterable[Rows]) -> Iterator[_Selection]:
        """Those among the rows."""
        for some in rows:
            places = self._named(some)
            picked = None if places is None else self._picked(self.columns[0], some, places)
            if places is not None and picked is not None:
                yield from self._pieces(some, places, picked)
                continue
            if some.ranges is None and some.group not in self._expected:
                self.expect([some.group])
            first, rest = self.columns
            hits = self._hits(self._decoded(some, first), first)
            if rest is None:
                yield from (hit[1:] for hit in hits)
            else:
                yield from self._with(rest, some, hits)

    def _named(self, rows: Rows) -> list[int] | None:
        """Where in a row group the rows are that are wanted by their positions; None where these are many, or
        a condition is asked."""
        if self._only is None or self._condition is not None or not rows.is_paged:
            return None
        stop = rows.start + self._parquet.metadata.row_group(rows.group).num_rows
        if not self.columns[0].stored_names or not 0 < self._only.range_cardinality(rows.start, stop) <= FEW:
            return None
        places = _remaining(self._deleted, self._only, rows.start, stop - rows.start)
        return None if places is None else places.to_pylist()

    def _hits(self, batches: Batches, first: Columns) -> Iterator[_Hit]:
        for start, batch in batches:
            places = _remaining(self._deleted, self._only, start, batch.num_rows)
            with self._naming():
                rows = first.convert(_taken(batch, places))
            if self._condition is not None:
                places, rows = _filtered(rows, places, self._condition)
            if rows.num_rows:
                yield _Hit(batch.num_rows, start, places, rows)

    def _with(self, rest: Columns, rows: Rows, hits: Iterator[_Hit]) -> Iterator[_Selection]:
        """The rows with the columns that come late."""
        known, late = list[_Hit](), None
        if rows.is_paged:
            known, are_all = _first(hits, FEW)
            places = _places(rows.start, known) if are_all else []
            picked = self._picked(rest, rows, places)
            if picked is not None:
                first = _batch_of(pa.Table.from_batches([hit.rows for hit in known]))
                yield from self._pieces(rows, places, _beside(first, picked))
                return
        for hit in chain(known, hits):
            if late is None:
                if rows.ranges is None:
                    with self._naming():
                        self._expect([rows.group], rest.stored_names)
                late = _Cursor(self._decoded(rows, rest))
            with self._naming():
                stored = _taken(late.rows(hit.start, hit.size), hit.places)
            yield from self._completed(hit, stored, rest)

    def _picked(self, columns: Columns, rows: Rows, places: list[int]) -> pa.RecordBatch | None:
        """Columns of rows at some places of a row group, of which the pages with such rows are decoded; None
        where these are most of them, or there is no such row."""
        if not places:
            return None
        names, stored = columns.stored_names, dict[str, Any]()
        with self._naming():
            self._pages.expect(rows.group)
            alike = self._alike(rows.group, joined((place, place + 1) for place in places), names)
            count = self._parquet.metadata.row_group(rows.group).num_rows
            read = sum(len(some) * sum(stop - start for start, stop in covered or [(0, count)])
                       for covered, some in alike)
            if read > MOST_SHARE * count * len(names):
                return None
            for batches in self._sources(rows, alike):
                table = _gathered(batches, [rows.start + place for place in places])
                stored |= zip(table.column_names, table.columns, strict=True)
            return columns.convert(_batch_of(pa.table(stored)))

    def _pieces(self, rows: Rows, places: list[int], picked: pa.RecordBatch) -> Iterator[_Selection]:
        for at in range(0, len(places), self._batch_rows):
            some = arrow_array(places[at:at + self._batch_rows], pa.uint64())
            yield rows.start, some, picked.slice(at, self._batch_rows)

    def _completed(self, hit: _Hit, stored: pa.Table, rest: Columns) -> Iterator[_Selection]:
        """The rows with the columns that came late, in pieces where these came in pieces."""
        _, start, places, rows = hit
        at = 0
        for batch in stored.to_batches():
            with self._naming():
                late = rest.convert(batch)
            whole = _beside(rows.slice(at, batch.num_rows), late)
            if places is None:
                yield start + at, None, whole
            else:
                yield start, places.slice(at, batch.num_rows), whole
            at += batch.num_rows

    def _decoded(self, rows: Rows, columns: Columns) -> Batches:
        with self._naming():
            batches = self._of_group(rows, columns.stored_names) if rows.ranges is None else self._of_pages(
                rows, rows.ranges, columns.stored_names)
        while True:
            with self._naming():
                batch = next(batches, None)
            if batch is None:
                break
            yield batch

    def _of_group(self, rows: Rows, names: list[str]) -> Batches:
        start = rows.start
        for batch in self._parquet.iter_batches(self._batch_rows, row_groups=[rows.group], columns=names):
            yield start, batch
            start += batch.num_rows

    def _of_pages(self, rows: Rows, ranges: list[Range], names: list[str]) -> Batches:
        """The columns of some rows of a row group, from a small file for all that have the same pages."""
        cursors = [_Cursor(batches)
                   for batches in self._sources(rows, self._alike(rows.group, ranges, names))]
        for begin, end in ranges:
            for at in range(rows.start + begin, rows.start + end, self._batch_rows):
                count = min(self._batch_rows, rows.start + end - at)
                tables = [cursor.rows(at, count) for cursor in cursors]
                whole = tables[0] if len(tables) == 1 else pa.table(
                    {name: table.column(name) for table in tables for name in table.column_names})
                for batch in whole.to_batches():
                    yield at, batch
                    at += batch.num_rows

    def _sources(self, rows: Rows, alike: Alike) -> list[Batches]:
        """Batches of the columns, from as many small files as there are different pages."""
        for covered, names in alike:
            if covered is None:
                self._expect([rows.group], names)
        return [self._of_group(rows, names) if covered is None else self._of_file(rows, covered, names)
                for covered, names in alike]

    def _alike(self, group: int, ranges: list[Range], names: list[str]) -> Alike:
        """The columns by the rows that their pages with rows of these ranges have."""
        alike: Alike = []
        for name, leaves in leaf_places(list(self._parquet.schema_arrow), names).items():
            covered = self._pages.covering(group, leaves, ranges)
            same = next((some for known, some in alike if known == covered), None)
            if same is None:
                alike.append((covered, [name]))
            else:
                same.append(name)
        return alike

    def _of_file(self, rows: Rows, covered: list[Range], names: list[str]) -> Batches:
        places = leaf_places(list(self._parquet.schema_arrow), names)
        leaves = [leaf for some in places.values() for leaf in some]
        file = self._parquet.like(self._pages.file_of(rows.group, leaves, covered))
        ranges = iter(covered)
        at, end = next(ranges)
        for batch in file.batches_of(self._batch_rows, 0, leaves):
            while batch.num_rows:
                if at == end:
                    at, end = next(ranges)
                part = batch.slice(0, end - at)
                yield rows.start + at, part
                at += part.num_rows
                batch = batch.slice(part.num_rows)


class _Cursor:
    """Columns of some rows, of which nobody decodes more than are asked for."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._begin = self._end = -1
        self._batch: pa.RecordBatch

    def rows(self, start: int, count: int) -> pa.Table:
        """So many rows from a position of the file on; it never goes back.

        Raises:
            ValueError: there are fewer.
        """
        stop, pieces = start + count, []
        while start < stop:
            while self._end <= start:
                self._begin, self._batch = next(self._batches, (self._end, None))
                if self._batch is None:
                    raise ValueError(f"columns end at row {self._end}, others after row {start}")
                self._end = self._begin + self._batch.num_rows
            if start < self._begin:
                raise ValueError(f"columns begin at row {self._begin}, others at row {start}")
            pieces.append(self._batch.slice(start - self._begin, stop - start))
            start += pieces[-1].num_rows
        return pa.Table.from_batches(pieces)


def _first(hits: Iterator[_Hit], most: int) -> tuple[list[_Hit], bool]:
    """The first hits, with more rows than ``most`` at the last of them, and whether these are all."""
    known, count = [], 0
    for hit in hits:
        known.append(hit)
        count += hit.rows.num_rows
        if count > most:
            return known, False
    return known, True


def _places(start: int, hits: Sequence[_Hit]) -> list[int]:
    """Where the rows of hits are, behind ``start``."""
    return [hit.start - start + place for hit in hits
            for place in (range(hit.size) if hit.places is None else hit.places.to_pylist())]


def _gathered(batches: Batches, positions: Sequence[int]) -> pa.Table:
    """The rows at ascending positions of the file.

    Raises:
        ValueError: the batches have none there.
    """
    pieces, at = [], 0
    for start, batch in batches:
        stop = bisect_left(positions, start + batch.num_rows, at)
        if stop > at:
            if positions[at] < start:
                break
            places = [position - start for position in positions[at:stop]]
            pieces.append(_taken(batch, arrow_array(places, pa.uint64())))
        at = stop
        if at == len(positions):
            return pa.Table.from_batches(pieces)
    raise ValueError(f"columns have no row {positions[at]}, others have")


def _beside(rows: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *others.columns], schema=pa.schema([*rows.schema, *others.schema]))


def _batch_of(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    return batch


def _taken(rows: Any, places: pa.Array | None) -> Any:
    return rows if places is None else pc.take(rows, places, memory_pool=pool())


def _filtered(
    rows: pa.RecordBatch, places: pa.Array | None, condition: Predicate
) -> tuple[pa.Array | None, pa.RecordBatch]:
    """Where in their batch the rows are that fulfil the condition, and these rows."""
    holds = condition.verdicts(rows)
    if holds.true_count == rows.num_rows:
        return places, rows
    places = pc.indices_nonzero(holds) if places is None else pc.filter(places, holds)
    return places, pc.filter(rows, holds, memory_pool=pool())


def _remaining(
    deleted: BitMap64 | None, only: BitMap64 | None, start: int, count: int
) -> pa.Array | None:
    """Positions within the batch that are wanted and not deleted; None: all of them."""
    stop = start + count
    if only is not None and only.range_cardinality(start, stop) == count:
        only = None
    if deleted is not None and not deleted.range_cardinality(start, stop):
        deleted = None
    if deleted is None and only is None:
        return None
    positions = BitMap64()
    positions.add_range(start, stop)
    if only is not None:
        positions &= only
    if deleted is not None:
        positions -= deleted
    return _numbers(positions.shift(-start) if start else positions)


def positions_of(start: int, count: int, places: pa.Array | None) -> pa.Array:
    """The positions in the file of so many rows of a batch that are at ``places`` (None: all of it)."""
    if places is not None:
        return pc.add(places.view(pa.int64()), arrow_scalar(start, pa.int64()))  # an int would load pandas
    every = BitMap64()
    every.add_range(start, start + count)
    return _numbers(every).view(pa.int64())


def _numbers(rows: BitMap64) -> pa.Array:
    """Without a Python object each: a deletion vector may hold millions."""
    return pa.Array.from_buffers(pa.uint64(), len(rows), [None, pa.py_buffer(rows.to_array())])
