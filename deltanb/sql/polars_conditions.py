"""What of a polars predicate can leave files out, as SQL.

What lives here: :func:`parts_of`, the conjuncts of a ``polars.Expr`` that are understood.
What it does not know: polars; an expression comes as the JSON that polars makes of it, a form that may change
with its version. Whatever is not exactly what is known here says nothing: polars applies the predicate itself
to the rows it gets, so that a part that is left out costs time and no row.

NULL and NaN are to polars what they are to Spark: NaN equals itself and is greater than all numbers.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from deltanb.errors import DeltaError
from deltanb.schema.types import backticked
from deltanb.sql.literals import literal, text_literal

__all__ = ["literal_of", "parts_of"]

_SIGNS = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"Eq": "Eq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_INTEGERS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)) | {"Int"}
_EPOCH = dt.datetime(1970, 1, 1)


def parts_of(serialized: str) -> list[str]:
    """The conditions, in SQL, that all rows of a predicate fulfil.

    >>> parts_of('{"BinaryExpr": {"left": {"Column": "id"}, "op": "Gt",'
    ...          ' "right": {"Literal": {"Scalar": {"Int64": 1}}}}}')
    ['`id` > 1']
    >>> parts_of('{"Anything": "else"}')
    []
    """
    try:
        return [part for node in _conjuncts(json.loads(serialized)) if (part := _part(node)) is not None]
    except (ValueError, RecursionError):
        return []


def _conjuncts(node: Any) -> Iterator[Any]:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield node


def _part(node: Any) -> str | None:
    match node:
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            one, other = _part(left), _part(right)
            return None if one is None or other is None else f"({one} OR {other})"
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": {"Literal": value}}}:
            return _compared(name, op, value)
        case {"BinaryExpr": {"left": {"Literal": value}, "op": str(op), "right": {"Column": str(name)}}}:
            return _compared(name, _MIRRORED.get(op, ""), value)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull"}}}:
            return f"{backticked(name)} IS NULL"
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNotNull"}}}:
            return f"{backticked(name)} IS NOT NULL"
        case {"Function": {"input": [{"Column": str(name)}, {"Literal": low}, {"Literal": high}],
                           "function": {"Boolean": {"IsBetween": {"closed": "Both"}}}}}:
            bounds = _compared(name, "GtEq", low), _compared(name, "LtEq", high)
            return None if None in bounds else " AND ".join(map(str, bounds))
    return None


def _compared(name: str, op: str, value: Any) -> str | None:
    text = literal_of(value)
    return None if text is None or op not in _SIGNS else f"{backticked(name)} {_SIGNS[op]} {text}"


def literal_of(value: Any) -> str | None:
    """A literal as SQL; None for one whose form is not known.

    >>> literal_of({"Scalar": {"Int64": 1}}), literal_of({"Dyn": "something"})
    ('1', None)
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    (form, inner), = value.items()
    if form not in ("Dyn", "Scalar") or not isinstance(inner, Mapping) or len(inner) != 1:
        return None
    (kind, constant), = inner.items()
    try:
        return _sql(kind, constant)
    except (DeltaError, ArithmeticError, ValueError, TypeError):
        return None


def _sql(kind: str, constant: Any) -> str | None:
    match kind, constant:
        case _, int() if kind in _INTEGERS and not isinstance(constant, bool):
            return literal(constant)
        case "Float" | "Float64", int() | float():
            return literal(float(constant))
        case "String", str():
            return text_literal(constant)
        case "Boolean", bool():
            return literal(constant)
        case "Date", int():
            return literal((_EPOCH + dt.timedelta(days=constant)).date())
        case "Decimal", [int(unscaled), int(), int(scale)]:
            return literal(Decimal(unscaled).scaleb(-scale))
        case "Datetime" | "DatetimeOwned", [int(count), "Microseconds", zone]:
            moment = _EPOCH + dt.timedelta(microseconds=count)
            return literal(moment if zone is None else moment.replace(tzinfo=dt.timezone.utc))
    return None
