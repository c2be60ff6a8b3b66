"""Which files and row groups may hold a row with a key of the source.

What lives here: :class:`Reach`, which checks the source's keys against minima and maxima. A range of the
target is hit only if a key is within it: with the keys 1 and 9, the range 3 to 5 is not.
What it does not know: rows of the target; the bounds of the whole source (``on``), which chose the files and
decide conflicts.

A missing statistic excludes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.commands.merge.on import Key
from deltanb.commands.merge.sides import whole
from deltanb.engines.arrow.row_groups import Condition
from deltanb.log.arrays import array_of, numbers
from deltanb.log.skipping.partitions import typed_partition_values
from deltanb.log.skipping.stats import Stat, has_bounds, parse_stats
from deltanb.schema.types import StructType
from deltanb.sql.coercion import arrow_scalar
from deltanb.sql.predicates import Predicate
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

MAX_RANGES = 100_000
"""Values of one key, as Python objects, that ranges are checked against; of more, several share a range."""
MAX_SORTED_OBJECTS = 1_000_000
"""Texts and decimals beyond it are not sorted, which would take longer than what it spares: their minimum and
maximum stand for all."""
_ZERO = pa.repeat(arrow_scalar(0, pa.int64()), 1)


@dataclass(frozen=True)
class _Values:
    """The values of one key in the source, as ascending disjoint ranges."""

    key: Key
    first: Any
    last: Any
    has_null: bool

    @property
    def path(self) -> tuple[str, ...]:
        """The target's column."""
        assert self.key.path is not None
        return self.key.path

    def meets(self, low: pa.Array, high: pa.Array, may_be_null: Any) -> Any:
        """Whether a value is within each pair of bounds (in the column's type); True if a bound is NULL.

        ``may_be_null``: whether the described rows may have NULLs, which match those of ``<=>``.
        """
        met = (may_be_null & self.has_null) | numbers(low.is_null()) \
            | numbers(high.is_null())
        asked = np.flatnonzero(~met)
        if not len(asked) or not len(self.first):
            return met
        ends = [_ordered(side.take(array_of(asked)).cast(self.key.target.type)) for side in (low, high)]
        places: Any = np.searchsorted(self.last, ends[0])  # of the first range that does not end below
        inside = places < len(self.first)
        met[asked[inside]] = self.first[places[inside]] <= ends[1][inside]
        return met


class Reach:
    """The parts of a table that rows of the source can match.

    Args:
        values: for each key, the values of the source's rows that can match, including NULLs.
        target_only: conjuncts of the condition over the target, which row groups are also checked against.
    """

    def __init__(
        self, snapshot: Snapshot, keys: Sequence[Key], values: Sequence[pa.Array],
        target_only: Sequence[Predicate] = (),
    ) -> None:
        self._snapshot = snapshot
        self._partitioned = frozenset(snapshot.schema.field(name).name for name in snapshot.partition_columns)
        known = [_known(key, array) for key, array in zip(keys, values, strict=True)]
        self._known = [one for one in known if one is not None]
        self._stored = [one for one in self._known if one.path[0] not in self._partitioned]
        data_only = [part for part in target_only
                     if not self._partitioned.intersection(path[0] for path in part.column_paths)]
        self._further = [Condition(part, frozenset()) for part in data_only]
        stats = [stat for one in self._stored for stat in _stats(one)]
        stats += [stat for condition in self._further for stat in condition.stats]
        self.stats: list[Stat] = list(dict.fromkeys(stats))

    def holds(self, table: pa.Table) -> list[bool]:
        """For each row of statistics, whether the described rows may match; see
        :class:`deltanb.engines.arrow.row_groups.Condition`.
        """
        met = self._met(self._stored, table)
        for condition in self._further:
            met &= np.array(condition.holds(table), bool)
        mask: list[bool] = met.tolist()
        return mask

    def of_files(self, files: FileScan) -> Any:
        """For each file, whether one of its rows may match, as a numpy mask."""
        schema: StructType = self._snapshot.schema
        met: Any = np.ones(len(files), bool)
        if not len(files) or not self._known:
            return met
        partitions = [one for one in self._known if one not in self._stored]
        if partitions:
            names = list(dict.fromkeys(one.path[0] for one in partitions))
            table = typed_partition_values(files.table, schema, names)
            for one in partitions:
                texts = whole(table[one.path[0]])
                is_null = numbers(texts.is_null())
                met &= np.where(is_null, one.has_null, one.meets(texts, texts, np.zeros(len(files), bool)))
        if self._stored:
            needed = list(dict.fromkeys(stat for one in self._stored for stat in _stats(one)))
            met &= self._met(self._stored, parse_stats(files.table["stats"], schema, needed=needed))
        return met

    def _met(self, known: Sequence[_Values], table: pa.Table) -> Any:
        met: Any = np.ones(table.num_rows, bool)
        for one in known:
            low, high = (whole(table[Stat(kind, one.path).name]) for kind in ("min", "max"))
            may_be_null: Any = np.zeros(table.num_rows, bool)
            if one.has_null:
                counts = whole(table[Stat("null_count", one.path).name])
                may_be_null = ~numbers(pc.is_in(counts, value_set=_ZERO))
            met &= one.meets(low, high, may_be_null)
        return met


def _stats(one: _Values) -> list[Stat]:
    stats = [Stat("min", one.path), Stat("max", one.path)]
    return [*stats, Stat("null_count", one.path)] if one.has_null else stats


def _known(key: Key, values: pa.Array) -> _Values | None:
    """The values as ranges; None if bounds of the target's column do not apply to them."""
    if key.path is None or not has_bounds(key.column_type) or not has_bounds(key.target.type):
        return None
    distinct = pc.unique(values)
    has_null = key.null_safe and distinct.null_count > 0
    distinct = distinct.drop_null()
    if t.is_floating(distinct.type) and pc.any(pc.is_nan(distinct)).as_py():
        return None  # NaN is above every maximum
    is_object = _is_object(distinct.type)
    if is_object and len(distinct) > MAX_SORTED_OBJECTS:
        ends = pc.min_max(distinct)
        first, last = (_ordered(pa.repeat(ends[side], 1)) for side in ("min", "max"))
        return _Values(key, first, last, has_null)
    if not is_object:
        first = last = np.sort(_ordered(distinct))
    else:
        distinct = distinct.take(pc.array_sort_indices(distinct))
        run = -(-len(distinct) // MAX_RANGES) or 1
        starts = np.arange(0, len(distinct), run)
        first, last = (_ordered(distinct.take(array_of(places)))
                       for places in (starts, np.minimum(starts + run, len(distinct)) - 1))
    return _Values(key, first, last, has_null)


def _is_object(kind: pa.DataType) -> bool:
    return bool(t.is_decimal(kind) or not (t.is_primitive(kind) or t.is_boolean(kind)))


def _ordered(array: pa.Array) -> Any:
    """Non-NULL values that numpy compares in the order of Spark's SQL: texts as bytes."""
    kind = array.type
    if t.is_string(kind):
        return _objects(array.cast(pa.binary()))
    if _is_object(kind):
        return _objects(array)
    if t.is_timestamp(kind):
        return numbers(array.cast(pa.int64()))
    if t.is_date(kind):
        return numbers(array.cast(pa.int32()))
    return numbers(array)


def _objects(array: pa.Array) -> Any:
    objects: Any = np.empty(len(array), object)
    objects[:] = array.to_pylist()
    return objects
