"""Rows of a target and a source with equal keys.

What lives here: :class:`SourceKeys`, which holds the source's keys and finds the source rows for rows of the
target; :func:`comparable`, values whose equality is that of Spark's SQL.
What it does not know: conditions other than equality, files, clauses.

No table is built from the target's keys: each column is looked up among the source's values, and only rows
with a hit proceed to the next column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.commands.merge.on import Key
from deltanb.concurrency.memory import pool
from deltanb.log.arrays import array_of, numbers
from deltanb.sql.coercion import arrow_scalar

MAX_TABLE_RATIO = 8
"""Entries, of four bytes, that a table of integers may have for each that it knows."""
MIN_ROWS_FOR_EACH = 16
"""Ascending integers for each one that is looked for among them: it takes some comparisons."""


class SourceKeys:
    """The keys of a source's rows, by which rows with equal ones are found.

    Args:
        columns: the key, in the order and types of those given to :meth:`pairs`.
        able: ascending numbers of the rows that can match; None for all.

    >>> keys = SourceKeys([pa.array([7, 8, None, 7])])
    >>> [rows.tolist() for rows in keys.pairs([pa.array([9, 7, None, 8])])]
    [[1, 1, 3], [0, 3, 1]]
    """

    def __init__(self, columns: Sequence[pa.Array], able: Any = None) -> None:
        codes: Any = None
        rows = able
        self._steps: list[tuple[_Distinct, Any]] = []
        for column in columns:
            values = _at(column, rows)
            distinct = _Distinct(values)
            codes, rows = _codes_and_rows(values, distinct, codes, rows)
            known = None
            if self._steps:  # of the pairs of codes there are fewer than the two numbers allow
                known, codes = np.unique(codes, return_inverse=True)
            self._steps.append((distinct, known))
        counts = np.bincount(codes, minlength=1)
        self._rows = rows[np.argsort(codes, kind="stable")]
        self._counts = counts
        self._starts = np.cumsum(counts) - counts
        self._are_unique = bool(counts.max() <= 1)

    def __len__(self) -> int:
        """The number of rows that can match."""
        return len(self._rows)

    def pairs(self, columns: Sequence[pa.Array]) -> tuple[Any, Any]:
        """All pairs (row of the target, row of the source) with equal non-NULL keys, in order."""
        codes: Any = None
        here: Any = None
        for column, (distinct, known) in zip(columns, self._steps, strict=True):
            codes, here = _codes_and_rows(_at(column, here), distinct, codes, here)
            if known is not None and len(codes):
                places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
                hit = known[places] == codes
                codes, here = places[hit], here[hit]
        if self._are_unique:
            return here, self._rows[self._starts[codes]]
        counts = self._counts[codes]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(here, counts), self._rows[np.repeat(self._starts[codes], counts) + within]


def _at(column: pa.Array, rows: Any) -> pa.Array:
    return column if rows is None else pc.take(column, array_of(rows), memory_pool=pool())


def _codes_and_rows(values: pa.Array, distinct: _Distinct, codes: Any, rows: Any) -> tuple[Any, Any]:
    """The combined codes and the numbers of the rows whose values are among the distinct ones.

    ``codes`` are those of the previous columns, None at the first; ``rows`` None means all.
    """
    places, indices = distinct.places(values)
    places = places if codes is None else codes[indices] * len(distinct) + places
    return places, indices if rows is None else rows[indices]


class _Distinct:
    """The distinct values of a column, each with a number.

    Dense integers are looked up in a table from the minimum to the maximum, other values by hash. If the
    integers to look up ascend, as in a file sorted by its key, and few are known, the known ones are searched
    among them.
    """

    def __init__(self, values: pa.Array) -> None:
        self._values = pc.unique(values, memory_pool=pool()).drop_null()
        self._table: Any = None
        if t.is_integer(values.type) and len(self):
            ends = pc.min_max(self._values).as_py()
            self._least, self._greatest = ends["min"], ends["max"]
            span = self._greatest - self._least + 1
            if span <= MAX_TABLE_RATIO * len(self):
                self._table = np.full(span, -1, np.int32)
                self._table[numbers(self._values.cast(pa.int64())) - self._least] = np.arange(len(self))

    def __len__(self) -> int:
        return len(self._values)

    def places(self, values: pa.Array) -> tuple[Any, Any]:
        """The numbers of the known values, and their positions."""
        whole: Any = None
        if t.is_integer(values.type) and len(self) and len(values) and not values.null_count:
            whole = numbers(values.cast(pa.int64()))
            ascending = self._among(whole)
            if ascending is not None:
                return ascending
        if self._table is not None and whole is not None:
            indices = np.flatnonzero((whole >= self._least) & (whole <= self._greatest))
            codes = self._table[whole[indices] - self._least]
            known = codes >= 0
            return codes[known].astype(np.int64), indices[known]
        places = pc.index_in(values, value_set=self._values, memory_pool=pool())
        indices = np.flatnonzero(numbers(places.is_valid()))
        if places.null_count:
            places = pc.drop_null(places, memory_pool=pool())
        return numbers(places).astype(np.int64), indices

    def _among(self, whole: Any) -> tuple[Any, Any] | None:
        """Like :meth:`places`; None if the integers do not ascend, or many known ones may be among them."""
        if not (whole[1:] > whole[:-1]).all():
            return None
        ordered, order = self._in_order
        first, last = int(ordered.searchsorted(whole[0])), int(ordered.searchsorted(whole[-1], "right"))
        if MIN_ROWS_FOR_EACH * (last - first) > len(whole):
            return None
        known = ordered[first:last]
        places: Any = np.searchsorted(whole, known)
        hit = whole[places] == known
        return order[first:last][hit], places[hit]

    @cached_property
    def _in_order(self) -> tuple[Any, Any]:
        """Integers, ascending, and their numbers."""
        whole = numbers(self._values.cast(pa.int64()))
        order: Any = np.argsort(whole)
        return whole[order], order


def comparable(key: Key, array: pa.Array) -> list[pa.Array]:
    """The values a key is compared by: for a null-safe one, whether it is NULL, and a substitute value."""
    array = _normal(array)
    if not key.null_safe:
        return [array]
    kind = array.type
    empty: Any = b"" if t.is_binary(kind) else "" if t.is_string(kind) else False if t.is_boolean(kind) else 0
    return [array.is_null(), array.fill_null(arrow_scalar(empty, kind)) if array.null_count else array]


def _normal(array: pa.Array) -> pa.Array:
    """Keys whose bytes are equal exactly if they are equal in Spark's SQL."""
    if t.is_floating(array.type):
        array = array.cast(pa.float64())
        array = pc.if_else(pc.is_nan(array), float("nan"), pc.add(array, 0.0))
        return pa.Array.from_buffers(pa.int64(), len(array), array.buffers(), offset=array.offset)
    if t.is_decimal256(array.type):
        return array.cast(pa.string())
    return array
