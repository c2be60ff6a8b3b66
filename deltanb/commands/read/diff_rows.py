"""Comparison of two bags of rows: which rows are only in one, and which of these match.

What lives here: rows of one version in the columns of another, rows as numbers that are equal if the rows
are, and the matching by row ids, keys, or a column that turns out to be unique.
What it does not know: files, versions, where rows come from.

Equality is as people see it: NULL equals NULL, NaN equals NaN, −0.0 equals 0.0, and the entries of a map have
no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import InvalidArgument
from deltanb.log.diff import RowDiff, paired_fields
from deltanb.schema.types import PrimitiveType, StructType, arrow_type

KEY_TYPES = frozenset({"byte", "short", "integer", "long", "string"})
"""Types of columns that are tried as a key: what people number and name things with."""
KEY_NAMES = ("id", "key", "uuid")  # names, or ends of names after "_", that are tried first


@dataclass(frozen=True)
class Sides:
    """The rows of two versions that may differ, both in the columns of ``schema``.

    ``not_compared`` are columns whose values cannot be compared; ``ids`` are the row ids of both sides.
    """

    before: pa.Table
    after: pa.Table
    schema: StructType
    not_compared: tuple[str, ...] = ()
    ids: Sequence[pa.ChunkedArray] | None = None

    @cached_property
    def codes(self) -> dict[str, np.ndarray]:
        """For each compared column, one number per row, equal for equal values."""
        return {name: codes_of([self.before[name], self.after[name]])
                for name in self.schema.names if name not in self.not_compared}

    @cached_property
    def rows(self) -> np.ndarray:
        """One number per row, those of the earlier side first."""
        return combined(list(self.codes.values()), self.size)

    @property
    def size(self) -> int:
        """The number of rows of both sides."""
        return int(self.before.num_rows + self.after.num_rows)

    def parted(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parts of an array for the earlier and the later side."""
        return numbers[: self.before.num_rows], numbers[self.before.num_rows :]

    def has_nulls(self, names: Sequence[str]) -> np.ndarray:
        """For each row whether one of the columns is NULL."""
        mask: np.ndarray = np.zeros(self.size, bool)
        for name in names:
            for start, side in ((0, self.before), (self.before.num_rows, self.after)):
                nulls = pc.is_null(side[name]).to_numpy()
                mask[start : start + side.num_rows] |= nulls
        return mask


def match(
    sides: Sides, keys: tuple[str, ...] | None, fixed: frozenset[str], versions: tuple[int, int]
) -> RowDiff:
    """The added, removed and changed rows. ``fixed`` are columns that are no key unless requested.

    Raises:
        InvalidArgument: several rows of a version have the same ``keys``.
    """
    gone, come = left_over(*sides.parted(sides.rows))
    if sides.ids is not None:  # of equal rows the one that kept its id is the one that stayed
        with_ids = combined([sides.rows, codes_of(list(sides.ids))], sides.size)
        one, two = sides.parted(with_ids)
        gone, come = left_over(one, two)
        one, two = sides.parted(sides.rows)
        again = left_over(one[gone], two[come])
        gone, come = gone[again[0]], come[again[1]]
    how = "nothing"
    names: tuple[str, ...] = ()
    matches: list[tuple[np.ndarray, np.ndarray]] = []
    if sides.ids is not None:
        nulls = np.concatenate([pc.is_null(ids).to_numpy() for ids in sides.ids])
        matches.append(_pairs(sides, codes_of(list(sides.ids)), nulls, gone, come))
        gone, come = _without(gone, come, matches[0])
        how = "row ids" if len(matches[0][0]) else how
    if keys:
        how, names = "keys", keys
        matches.append(_pairs(sides, _asked(sides, keys, versions), sides.has_nulls(keys), gone, come))
    elif keys is None and (name := _inferred(sides, fixed, gone, come)) is not None:
        how, names = "inferred" if how == "nothing" else how, (name,)
        matches.append(_pairs(sides, sides.codes[name], np.zeros(sides.size, bool), gone, come))
    if keys or names:
        gone, come = _without(gone, come, matches[-1])
    pairs = [np.concatenate([np.zeros(0, np.int64), *side]) for side in zip(*matches, strict=True)] or (
        [np.zeros(0, np.int64)] * 2)
    pairs = [side[np.argsort(pairs[0], kind="stable")] for side in pairs]
    return RowDiff(
        num_added=len(come), num_removed=len(gone), num_changed=len(pairs[0]),
        added=sides.after.take(come), removed=sides.before.take(gone),
        before=sides.before.take(pairs[0]), after=sides.after.take(pairs[1]),
        matched_by=how, key=names, not_compared=sides.not_compared)


def _without(
    gone: np.ndarray, come: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    return np.setdiff1d(gone, pairs[0]), np.setdiff1d(come, pairs[1])


def _pairs(
    sides: Sides, numbers: np.ndarray, nulls: np.ndarray, gone: np.ndarray, come: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of removed and added rows with the same key, in the order of the removed; NULL is not a key."""
    one, two = sides.parted(numbers)
    none, neither = sides.parted(nulls)
    gone, come = gone[~none[gone]], come[~neither[come]]
    values, first = np.unique(one[gone], return_index=True)
    others, second = np.unique(two[come], return_index=True)
    _, at, to = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    left, right = gone[first[at]], come[second[to]]
    order = np.argsort(left, kind="stable")
    return left[order], right[order]


def _asked(sides: Sides, keys: tuple[str, ...], versions: tuple[int, int]) -> np.ndarray:
    """The keys as one number per row; raises if they are not unique."""
    lost = [name for name in keys if name in sides.not_compared]
    if lost:
        raise InvalidArgument(f"keys: the values of {lost[0]!r} cannot be compared, as its type is "
                              "another in each version; give other keys", column=lost[0])
    numbers, nulls = combined([sides.codes[name] for name in keys], sides.size), sides.has_nulls(keys)
    for side, values, empty, version in zip(
            (sides.before, sides.after), sides.parted(numbers), sides.parted(nulls), versions, strict=True):
        rows = np.flatnonzero(~empty)
        _, first, counts = np.unique(values[rows], return_index=True, return_counts=True)
        if len(counts) and counts.max() > 1:
            row = rows[first[counts.argmax()]]
            shown = ", ".join(f"{name}={side[name][int(row)].as_py()!r}" for name in keys)
            raise InvalidArgument(
                f"keys={list(keys)} do not tell the rows of version {version} apart: {counts.max()} have "
                f"{shown}. Give more columns, or keys=[] to see rows only added and removed", keys=keys)
    return numbers


def _inferred(
    sides: Sides, fixed: frozenset[str], gone: np.ndarray, come: np.ndarray
) -> str | None:
    """A column that is unique on both sides and has no NULL: one named like a key, even if no row under it
    changed, else one that matches a removed and an added row.
    """
    if not (len(gone) and len(come)):
        return None
    fields = [f for f in sides.schema
              if f.name in sides.codes and f.name not in fixed
              and isinstance(f.type, PrimitiveType) and f.type.name in KEY_TYPES]
    unmatched = None
    for field in sorted(fields, key=lambda field: is_unlikely_key(field.name)):
        if unmatched and is_unlikely_key(field.name):
            break
        if sides.before[field.name].null_count or sides.after[field.name].null_count:
            continue
        one, two = sides.parted(sides.codes[field.name])
        if len(np.unique(one)) == len(one) and len(np.unique(two)) == len(two):
            if np.isin(one[gone], two[come]).any():
                return field.name
            if not is_unlikely_key(field.name):
                unmatched = unmatched or field.name
    return unmatched


def is_unlikely_key(name: str) -> bool:
    """Whether a column is not named like a key.

    >>> is_unlikely_key("flight_id"), is_unlikely_key("delay")
    (False, True)
    """
    name = name.lower()
    return not (name in KEY_NAMES or name.endswith(tuple(f"_{word}" for word in KEY_NAMES)))


# --- rows as numbers ------------------------------------------------------------------------------


def left_over(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of what is in one bag only, where each item cancels one of the other bag.

    >>> [at.tolist() for at in left_over(np.array([1, 1, 2]), np.array([1, 3]))]
    [[1, 2], [1]]
    """
    size = int(max(one.max(initial=-1), two.max(initial=-1))) + 1
    counts = [np.bincount(numbers, minlength=size) for numbers in (one, two)]
    left = []
    for numbers, others in ((one, counts[1]), (two, counts[0])):
        order = np.argsort(numbers, kind="stable")
        arranged = numbers[order]
        starts = np.searchsorted(arranged, arranged, side="left")
        rank = np.arange(len(arranged)) - starts
        left.append(np.sort(order[rank >= others[arranged]]))
    return left[0], left[1]


def combined(codes: Sequence[np.ndarray], size: int) -> np.ndarray:
    """One number for the numbers of several columns.

    >>> combined([np.array([0, 0, 1]), np.array([5, 5, 5])], 3).tolist()
    [0, 0, 1]
    """
    total: np.ndarray = np.zeros(size, np.int64)
    for numbers in codes:
        total = total * (int(numbers.max(initial=0)) + 1) + numbers
        total = _numbered(pa.chunked_array([pa.array(total)]))
    return total


def codes_of(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """The values of columns of one type, one after the other, as numbers from 0.

    >>> codes_of([pa.chunked_array([[1.0, None, -0.0]]), pa.chunked_array([[0.0, None]])]).tolist()
    [0, 1, 2, 2, 1]
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    return _numbered(pa.chunked_array([_plain(chunk) for chunk in chunks], None if chunks else pa.null()))


def _numbered(column: pa.ChunkedArray) -> np.ndarray:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    indices = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate([np.zeros(0, np.int64), *indices]).astype(np.int64)


def _plain(array: pa.Array) -> pa.Array:
    """An array whose equal values are equal for Arrow."""
    if pa.types.is_floating(array.type):
        return pc.add(array, pa.scalar(0.0, array.type))
    if pa.types.is_nested(array.type):
        return pa.array([None if v is None else repr(_ordered(v, array.type)) for v in array.to_pylist()],
                        pa.large_string())
    return array


def _ordered(value: Any, data_type: pa.DataType) -> Any:
    """A nested value whose ``repr`` is the same for equal ones."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        pairs = [(_ordered(k, data_type.key_type), _ordered(v, data_type.item_type)) for k, v in value]
        return sorted(pairs, key=repr)
    if pa.types.is_struct(data_type):
        return [_ordered(value[f.name], f.type) for f in data_type]
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return [_ordered(item, data_type.value_type) for item in value]
    return value + 0.0 if isinstance(value, float) else value


# --- rows of one version in the columns of another -----------------------------------------------


def conformed(
    rows: pa.Table, own: StructType, target_schema: StructType
) -> tuple[pa.Table, tuple[str, ...]]:
    """The rows in the columns of another schema, and the names of columns that cannot be compared.

    Columns that the rows lack are NULL. A column whose values do not fit the target type is NULL, too, and is
    named.
    """
    target, arrays, lost = target_schema.to_arrow(), [], []
    for old, new in paired_fields(own, target_schema):
        if new is None:
            continue
        kind = target.field(new.name).type
        converted = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
        if old is not None:
            try:
                chunks = [_converted(chunk, old.type, new.type) for chunk in rows[old.name].chunks]
                converted = pa.chunked_array(chunks, kind)
            except (pa.ArrowException, ValueError, TypeError, KeyError):
                lost.append(new.name)
        arrays.append((new.name, converted))
    columns = dict(arrays)
    loose = pa.schema([field.with_nullable(True) for field in target])
    return pa.table([columns[name] for name in target.names], schema=loose), tuple(lost)


def _converted(array: pa.Array, old: Any, new: Any) -> pa.Array:
    """Values of one type as those of another; fields of structs are matched by identity, not by name."""
    kind = arrow_type(new)
    if array.type.equals(kind):
        return array
    if isinstance(old, StructType) and isinstance(new, StructType):
        parts = {}
        for one, two in paired_fields(old, new):
            if two is not None:
                parts[two.name] = pa.nulls(len(array), arrow_type(two.type)) if one is None else (
                    _converted(pc.struct_field(array, [old.fields.index(one)]), one.type, two.type))
        arrays = [parts[field.name] for field in new]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pc.is_null(array))
    return array.cast(kind)
