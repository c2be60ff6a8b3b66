"""Filters as pyarrow and pandas write them: a list of (column, operator, value), all of which hold, or a list
of such lists, one of which holds.

What lives here: :func:`text_of`, which makes SQL of them with the meaning that pyarrow gives them.
What it does not know: how SQL is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidPredicate
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.schema.types import StructType

__all__ = ["OPERATORS", "text_of"]

OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
_FORM = '[("column", "=", value), …], or lists of these, of which one holds'


def text_of(filters: Sequence[Any], schema: StructType | pa.Schema) -> str:
    """The SQL of filters over the columns of a schema.

    Raises:
        InvalidPredicate: they have another form, or do not fit the columns.
        UnsupportedPredicate: a value that has no counterpart in our SQL.

    >>> import pyarrow as pa
    >>> columns = pa.schema({"day": pa.int64(), "name": pa.string()})
    >>> text_of([("day", ">=", 2), ("name", "in", ["a", "b"])], columns)
    "day >= 2 AND name IS NOT NULL AND name IN ('a', 'b')"
    >>> text_of([[("day", "=", 1)], [("day", "=", 3)]], columns)
    'day = 1 OR day = 3'
    """
    import pyarrow.parquet as pq

    from deltanb.sql import arrow_conditions

    groups = filters if filters and all(isinstance(part, list) for part in filters) and not any(
        _is_filter(part) for part in filters) else [filters]
    for group in groups:
        if isinstance(group, tuple) and _is_filter(group):
            raise _wrong(filters, f"it is one filter; write [{shown(group)}]")
        if not group:
            raise _wrong(filters, "it is empty; leave it out to have all rows")
        for part in group:
            _check(part, filters)
    expression = pq.filters_to_expression([list(map(tuple, group)) for group in groups])
    return arrow_conditions.text_of(expression, schema)


def _is_filter(part: Any) -> bool:
    return isinstance(part, list | tuple) and len(part) == 3 and isinstance(part[0], str) and isinstance(
        part[1], str)


def _check(part: Any, filters: Any) -> None:
    if not _is_filter(part):
        raise _wrong(filters, f"{shown(part)} is not a filter")
    name, operator, value = part
    if operator not in OPERATORS:
        hint, _ = did_you_mean(operator, list(OPERATORS), "operators")
        raise _wrong(filters, f"{operator!r} is not an operator; {hint}")
    if operator in ("in", "not in") and (
            isinstance(value, str | bytes) or not hasattr(value, "__iter__")):
        raise _wrong(filters, f"{operator!r} takes a list of values, found {shown(value)}")
    if operator not in ("in", "not in") and value is None:
        raise _wrong(filters, f"a comparison with None holds for no row; write it in SQL: "
                              f"{name} IS {'NOT ' if operator == '!=' else ''}NULL")


def _wrong(filters: Any, why: str) -> InvalidPredicate:
    return InvalidPredicate(f"filters are {_FORM}; of {shown(filters)} {why}", predicate=str(filters))
