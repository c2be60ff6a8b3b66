"""Rows of two bags that are the same row: pairs by value, by a number, by a key.

What lives here: pairs of positions, as arrays.
What it does not know: files, versions, commits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from deltanb.commands.read.diff_rows import Sides, codes_of, combined, match
from deltanb.schema.types import StructType

PLACE = "__place"
"""A column with each row's place in its bag, which comparisons do not see."""


def pairs_of_equal(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """For each number of one bag the place of an equal one of the other, each at most once; -1 for none.

    >>> pairs_of_equal(np.array([5, 7, 5, 5]), np.array([5, 9, 5])).tolist()
    [0, -1, 2, -1]
    """
    places: np.ndarray = np.full(len(one), -1, np.int64)
    if not len(one) or not len(two):
        return places
    first, second = np.argsort(one, kind="stable"), np.argsort(two, kind="stable")
    left, right = one[first], two[second]
    rank = np.arange(len(left)) - np.searchsorted(left, left, side="left")
    at = np.searchsorted(right, left, side="left") + rank
    is_there = at < np.searchsorted(right, left, side="right")
    places[first[is_there]] = second[at[is_there]]
    return places


def pairs_by_value(one: pa.Table, two: pa.Table, names: Sequence[str]) -> np.ndarray:
    """For each row of one table the place of an equal row of another; equality is that of a diff.

    >>> pairs_by_value(pa.table({"a": [1, 2]}), pa.table({"a": [2, 2]}), ["a"]).tolist()
    [-1, 0]
    """
    codes = [codes_of([one[name], two[name]]) for name in names]
    numbers = combined(codes, one.num_rows + two.num_rows)
    return pairs_of_equal(numbers[: one.num_rows], numbers[one.num_rows:])


def pairs_by_key(
    old: pa.Table, new: pa.Table, schema: StructType, keys: tuple[str, ...] | None, fixed: frozenset[str],
    version: int,
) -> np.ndarray:
    """For each new row the place of the old one that it replaces, by key; -1 for none.

    Rows that are equal are paired first. Without keys, a column that is unique on both sides and has a value
    in common is the key.

    Raises:
        InvalidArgument: several rows have the same key.
    """
    names = schema.names
    places = pairs_by_value(new, old, names)
    left_new = np.flatnonzero(places < 0)
    left_old = np.setdiff1d(np.arange(old.num_rows), places[places >= 0])
    if not len(left_new) or not len(left_old):
        return places
    sides = Sides(_placed(old, left_old), _placed(new, left_new), schema)
    changed = match(sides, keys, fixed, (version - 1, version))
    if changed.num_changed:
        places[changed.after[PLACE].to_numpy()] = changed.before[PLACE].to_numpy()
    return places


def _placed(rows: pa.Table, places: np.ndarray) -> pa.Table:
    return rows.take(places).append_column(PLACE, pa.array(places, pa.int64()))


def changed_values(old: pa.Table, new: pa.Table, name: str) -> np.ndarray:
    """For rows side by side whether a column's value differs; a column that a side lacks is NULL there."""
    if name not in old.column_names or name not in new.column_names:
        present = old if name in old.column_names else new if name in new.column_names else None
        return np.zeros(old.num_rows, bool) if present is None else present[name].is_valid().to_numpy()
    if not old[name].type.equals(new[name].type):
        old = old.set_column(old.column_names.index(name), name, old[name].cast(new[name].type, safe=False))
    codes = codes_of([old[name], new[name]])
    return codes[: old.num_rows] != codes[old.num_rows:]
