"""Filters of a query of Spark's as a condition, so that files and row groups without its rows are left out.

What lives here: :func:`condition_of`. Spark evaluates every filter after the read, so a filter that is left
out costs time, and one that drops a row too much would cost rows: only those are taken that mean the same
here.
What it does not know: how a condition is used (``read``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import datasource as F

from deltanb.engines.spark.columns import described
from deltanb.errors import InvalidArgument
from deltanb.schema.types import DataType, StructType, backticked
from deltanb.sql.literals import literal, text_literal

__all__ = ["condition_of"]

_COMPARISONS = {F.EqualTo: "=", F.GreaterThan: ">", F.GreaterThanOrEqual: ">=", F.LessThan: "<",
                F.LessThanOrEqual: "<=", F.EqualNullSafe: "<=>"}
_TEXTS = {F.StringStartsWith: "startswith", F.StringEndsWith: "endswith", F.StringContains: "contains"}
_UNORDERED = ("float", "double")
"""Spark has an order of its own for NaN."""


def condition_of(filters: Iterable[F.Filter], columns: StructType) -> str | None:
    """The filters that mean the same here, as one condition; None without any.

    >>> from deltanb.schema.ddl import parse_schema
    >>> columns = parse_schema("id long, d double")
    >>> condition_of([F.GreaterThan(("id",), 5), F.Not(F.IsNull(("d",))), F.EqualTo(("d",), 0.5)], columns)
    '`id` > 5 AND NOT (`d` IS NULL)'
    >>> condition_of([F.EqualTo(("id", "x"), 5)], columns) is None
    True
    """
    known = {field.name for field in columns.fields}
    compared = {field.name for field in described(columns).fields}
    types = {field.name: field.type for field in columns.fields
             if field.name in compared and str(field.type) not in _UNORDERED}
    texts = [text for text in (_text(one, known, types) for one in filters) if text is not None]
    return " AND ".join(texts) or None


def _text(one: Any, known: set[str], types: dict[str, DataType]) -> str | None:
    if isinstance(one, F.Not):
        inner = _text(one.child, known, types)
        return None if inner is None else f"NOT ({inner})"
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in known:  # a field of a struct
        return None
    name = backticked(path[0])
    if isinstance(one, F.IsNull | F.IsNotNull):
        return f"{name} IS {'NOT ' if isinstance(one, F.IsNotNull) else ''}NULL"
    if path[0] not in types:
        return None
    values = one.value if isinstance(one, F.In) else (one.value,)
    try:
        sql = [text_literal(value) if isinstance(value, str) else literal(value, types[path[0]])
               for value in values]
    except InvalidArgument:  # a value that such a column cannot hold
        return None
    if isinstance(one, F.In):
        return f"{name} IN ({', '.join(sql)})" if sql else None
    if (function := _TEXTS.get(type(one))) is not None:
        return f"{function}({name}, {sql[0]})"
    return f"{name} {_COMPARISONS[type(one)]} {sql[0]}" if type(one) in _COMPARISONS else None
