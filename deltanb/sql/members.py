"""The constants of an IN as a set: what scans, file skipping and conflict rules ask of thousands of them.

What lives here: :class:`Members`, which an ``in`` holds as its ``extra``, and :func:`folded`, which makes one
``in`` of equalities of one operand.
What it does not know: SQL, where an operand's values come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.sql import expressions as ex
from deltanb.sql import failures
from deltanb.sql.coercion import arrow_array, arrow_scalar
from deltanb.sql.expressions import Call, Expression, Literal, boolean

MANY = 64
"""Inequalities that AND joins stay apart up to here, so that messages show each by its own text."""


@dataclass(frozen=True)
class Members:
    """Constants of one type: those that are not NULL, each once, and whether NULL is one of them."""

    values: tuple[Any, ...]
    has_null: bool
    type: pa.DataType

    @classmethod
    def of(cls, values: Iterable[Any], type_: pa.DataType) -> Members:
        """The set of some values.

        >>> Members.of([2, None, 2, 1], pa.int32())
        Members(values=(2, 1), has_null=True, type=DataType(int32))
        """
        distinct = dict.fromkeys(values)
        has_null = None in distinct
        distinct.pop(None, None)
        return cls(tuple(distinct), has_null, type_)

    @cached_property
    def has_nan(self) -> bool:
        """Whether NaN is one of them."""
        return t.is_floating(self.type) and any(map(math.isnan, self.values))

    @cached_property
    def array(self) -> pa.Array:
        """The values as Arrow looks them up: without NaN, and a zero with both signs."""
        if not t.is_floating(self.type):
            return _array(self.values, self.type)
        values = [value for value in self.values if not math.isnan(value)]
        return _array([*values, 0.0, -0.0] if 0.0 in values else values, self.type)

    @cached_property
    def _ordered(self) -> tuple[pa.Array, Any]:
        """The values from the least to the greatest, and as numpy searches them."""
        values = self.array.take(pc.sort_indices(self.array))
        return values, _searchable(values)

    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        return min(self.values), max(self.values)

    def any_between(self, low: Any, high: Any) -> pa.Array:
        """For each pair of bounds whether a value lies between them; NULL where a bound is NULL.

        >>> from deltanb.sql.coercion import arrow_array
        >>> some = Members.of([10, 20], pa.int32())
        >>> some.any_between(arrow_array([1, 11, 20], pa.int32()),
        ...                  arrow_array([9, 19, None], pa.int32())).to_pylist()
        [False, False, None]
        """
        low, high = _whole(low), _whole(high)
        ordered, searched = self._ordered
        known = pc.and_(pc.is_valid(low), pc.is_valid(high))
        least = pc.coalesce(low, ordered[0])
        places = np.searchsorted(searched, _searchable(least))
        inside = places < len(ordered)
        reached = pc.less_equal(ordered.take(_array(np.minimum(places, len(ordered) - 1), pa.int64())), high)
        if t.is_floating(self.type):  # a bound may be NaN, which is the greatest
            reached = pc.or_kleene(reached, pc.is_nan(high))
        flags = pc.and_kleene(reached, _array(inside, pa.uint8()).cast(pa.bool_()))
        return pc.if_else(known, flags, arrow_scalar(None, pa.bool_()))


def folded(op: str, terms: Sequence[Expression]) -> list[Expression]:
    """Terms that OR (or AND) joins, with the equalities (the inequalities) of one operand as one set.

    The set stands where the first of them stood. Terms of which one may fail stay as they are: the
    order in which they are looked at decides whether it does.
    """
    least = 2 if op == "or" else MANY + 1
    groups: dict[Expression, list[Call]] = {}
    for term in terms:
        asked = _asked(op, term)
        if asked is not None:
            groups.setdefault(asked.args[0], []).append(asked)
    whole = {operand: group for operand, group in groups.items() if len(group) >= least}
    if not whole or any(map(failures.can_fail, terms)):
        return list(terms)
    remaining: list[Expression] = []
    for term in terms:
        asked = _asked(op, term)
        if asked is None or asked.args[0] not in groups or asked.args[0] not in whole:
            remaining.append(term)
        elif (group := groups[asked.args[0]]):
            remaining.append(_one_of(op, group))
            groups[asked.args[0]] = []
    return remaining


def _asked(op: str, term: Expression) -> Call | None:
    """The equality, inequality or IN of an operand with constants that a term is."""
    if op == "and" and isinstance(term, Call) and term.op == "not":
        term = term.args[0]
        op = "not"
    if not isinstance(term, Call):
        return None
    if term.op == "in" and op != "and":
        return term
    if term.op != {"or": "eq", "and": "ne"}.get(op) or t.is_nested(term.args[0].type):
        return None
    operand, constant = term.args
    return term if isinstance(constant, Literal) and not isinstance(operand, Literal) else None


def _one_of(op: str, group: Sequence[Call]) -> Expression:
    operand = group[0].args[0]
    values: list[Any] = []
    for term in group:
        if term.op == "in":
            values += [*term.extra.values, *([None] if term.extra.has_null else [])]
        elif isinstance(term.args[1], Literal):
            values.append(term.args[1].value)
    is_member = boolean("in", operand, extra=Members.of(values, operand.type))
    return is_member if op == "or" else ex.negate(is_member)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if not (t.is_integer(kind) or t.is_floating(kind)):
        return arrow_array(values, kind)
    letter = "f" if t.is_floating(kind) else "u" if t.is_unsigned_integer(kind) else "i"
    numbers = np.asarray(values, f"{letter}{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers.tobytes())])


def _whole(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _searchable(values: pa.Array) -> Any:
    """Values without NULL as numpy compares them."""
    kind = values.type
    if t.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if t.is_integer(values.type) or t.is_floating(values.type):
        return values.to_numpy(zero_copy_only=False)
    return np.array([*values.to_pylist(), None], object)[:-1]
