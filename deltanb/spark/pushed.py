"""Filters that Spark hands to a data source, as SQL that means the same.

What lives here: :func:`sql_of`, from one of PySpark's filters to a condition, or None where there is none.
What it does not know: who runs the condition.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import datasource as filters

from deltanb.errors import DeltaError
from deltanb.schema.types import DataType, StructType, backticked
from deltanb.sql import predicates
from deltanb.sql.literals import literal, text_literal

__all__ = ["sql_of", "taken"]

_COMPARED = {filters.EqualTo: "=", filters.EqualNullSafe: "<=>", filters.GreaterThan: ">",
             filters.GreaterThanOrEqual: ">=", filters.LessThan: "<", filters.LessThanOrEqual: "<="}
_PATTERNS = {filters.StringStartsWith: "startswith", filters.StringEndsWith: "endswith",
             filters.StringContains: "contains"}


def taken(given: list[filters.Filter], schema: StructType) -> tuple[str | None, list[filters.Filter]]:
    """The condition that filters make together, and those that are not in it: Spark keeps these.

    >>> from deltanb.schema.ddl import parse_schema
    >>> equal, later = filters.EqualTo(("id",), 3), filters.GreaterThan(("nowhere",), 1)
    >>> where, kept = taken([equal, later], parse_schema("id long"))
    >>> where, kept == [later]
    ('(`id` = 3)', True)
    """
    conditions, kept = [], []
    for one in given:
        sql = sql_of(one, schema)
        if sql is None:
            kept.append(one)
        else:
            conditions.append(f"({sql})")
    return " AND ".join(conditions) or None, kept


def sql_of(given: filters.Filter, schema: StructType) -> str | None:
    """A filter as a condition that runs in the process with the meaning that it has in Spark."""
    try:
        sql = _sql(given, schema)
        if sql is None:
            return None
        predicates.parse(sql, schema).to_expression(as_filter=True)
    except (DeltaError, AttributeError, TypeError, ValueError):
        return None
    return sql


def _sql(given: Any, schema: StructType) -> str | None:
    if isinstance(given, filters.Not):
        inner = _sql(given.child, schema)
        return None if inner is None else f"NOT ({inner})"
    kind = _type_of(given.attribute, schema)
    if kind is None:
        return None
    name = ".".join(map(backticked, given.attribute))
    if isinstance(given, filters.IsNull | filters.IsNotNull):
        return f"{name} IS {'NOT ' if isinstance(given, filters.IsNotNull) else ''}NULL"
    if isinstance(given, filters.In):
        return f"{name} IN ({', '.join(_literal(value, kind) for value in given.value)})"
    if type(given) in _COMPARED:
        return f"{name} {_COMPARED[type(given)]} {_literal(given.value, kind)}"
    if type(given) in _PATTERNS:
        return f"{_PATTERNS[type(given)]}({name}, {_literal(given.value, kind)})"
    return None


def _type_of(path: tuple[str, ...], schema: StructType) -> DataType | None:
    """The type of a column or of a field in structs; None where texts are not compared byte by byte."""
    found: DataType = schema
    for part in path:
        field = found.get(part) if isinstance(found, StructType) else None
        if field is None or any(key.startswith("__") for key in field.metadata):  # padded, or collated
            return None
        found = field.type
    return found


def _literal(value: Any, kind: DataType) -> str:
    return text_literal(value) if isinstance(value, str) else literal(value, kind)
