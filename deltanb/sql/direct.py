"""Conditions run on columns in memory, one call of Arrow's after the other.

What lives here: :func:`run`, for what most conditions are made of, and :func:`handles`, which says whether a
condition is. Acero, which runs all the others, loads pandas at its first plan.
What it does not know: where columns come from, what a condition is for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.sql.coercion import arrow_scalar
from deltanb.sql.expressions import Call, Column, Expression
from deltanb.sql.expressions import Literal as Constant

Columns = Callable[[Column], Any]
"""The values of a column: an array, chunked or not."""


def handles(node: Expression) -> bool:
    """Whether all of a condition runs here."""
    if isinstance(node, Column):
        return not t.is_nested(node.type)
    if isinstance(node, Constant):
        return not t.is_nested(node.type)
    if node.op not in _CALLS:
        return False
    if node.op in _COMPARISONS and t.is_floating(node.args[0].type):
        return False
    return all(map(handles, node.args))


def run(node: Expression, column: Columns) -> Any:
    """The value of what :func:`handles` allows: an array, or a scalar where no column has a say."""
    if isinstance(node, Column):
        return column(node)
    if isinstance(node, Constant):
        return arrow_scalar(node.value, node.type)
    return _CALLS[node.op](node, [run(arg, column) for arg in node.args])


def verdicts(node: Expression, column: Columns, count: int) -> Any:
    """As :func:`run`, one value for each of ``count`` rows."""
    verdict = run(node, column)
    return pa.repeat(verdict, count) if isinstance(verdict, pa.Scalar) else verdict


def _in(node: Call, args: list[Any]) -> Any:
    members, operand = node.extra, args[0]
    is_member = pc.is_in(operand, value_set=members.array)
    if members.has_nan:
        is_member = pc.or_(is_member, pc.coalesce(pc.is_nan(operand), arrow_scalar(False, pa.bool_())))
    null = arrow_scalar(None, pa.bool_())
    if members.has_null:
        is_member = pc.or_kleene(is_member, null)
    return pc.if_else(pc.is_valid(operand), is_member, null)


def _reduced(function: Any) -> Callable[[Call, list[Any]], Any]:
    return lambda node, args: reduce(function, args)


_COMPARISONS: dict[str, Any] = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater,
    "ge": pc.greater_equal,
}
_CALLS: dict[str, Callable[[Call, list[Any]], Any]] = {
    **{op: _reduced(function) for op, function in _COMPARISONS.items()},
    "and": _reduced(pc.and_kleene),
    "or": _reduced(pc.or_kleene),
    "not": lambda node, args: pc.invert(args[0]),
    "is_null": lambda node, args: pc.is_null(args[0]),
    "is_true": lambda node, args: pc.coalesce(args[0], arrow_scalar(False, pa.bool_())),
    "prefix": lambda node, args: pc.starts_with(args[0], node.extra),
    "in": _in,
    "meets": lambda node, args: node.extra.any_between(*args),
}
