"""Names of columns in SQL: parsed, and found in a schema.

What lives here: the parts of a name, the column that they name, and the closest names where there is none.
What it does not know: what an expression does with a column.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltanb.errors import DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import DataType, StructType, arrow_type
from deltanb.sql import expressions as ex
from deltanb.text.formatting import did_you_mean


def split_name(name: str) -> list[str]:
    """The parts of a column's name: dots part them, backticks quote.

    Raises:
        InvalidPredicate: no name.

    >>> split_name("a.`b.c`")
    ['a', 'b.c']
    """
    from deltanb.sql.syntax import identifiers, syntax  # late: they load the SQL parser

    parts = identifiers(syntax(name))
    if parts is None:
        raise InvalidPredicate(f"{name!r} is not a name of a column; quote it with backticks",
                               predicate=name)
    return [part.name for part in parts]


def resolve_column(sql: str, schema: StructType, parts: Sequence[str], place: str) -> ex.Column:
    """The column that ``parts`` names, or InvalidPredicate with the closest names."""
    current: DataType = schema
    path: list[str] = []
    for part in parts:
        field = current.get(part) if isinstance(current, StructType) else None
        if field is None:
            raise _unknown_column(sql, schema, parts, place)
        path.append(field.name)
        current = field.type
    name = ".".join(path)
    try:
        return ex.Column(tuple(path), arrow_type(current, name))
    except DeltaError:
        raise UnsupportedPredicate(
            f"column {name!r} has type {current}, which the predicate {sql!r} cannot compare",
            predicate=sql, column=name,
        ) from None


def _unknown_column(
    sql: str, schema: StructType, parts: Sequence[str], place: str
) -> InvalidPredicate:
    name = ".".join(parts)
    hint, close = did_you_mean(name, leaf_names(schema))
    if not close and sql.strip() != name:
        hint += f"; a string is quoted: '{name}'"
    return InvalidPredicate(f"no column {name!r}{place} in the predicate {sql!r}; {hint}",
                            predicate=sql, column=name, suggestions=tuple(close))


def leaf_names(schema: StructType, prefix: str = "") -> list[str]:
    """The dotted paths of all columns and fields inside structs."""
    names: list[str] = []
    for f in schema.fields:
        names.append(prefix + f.name)
        if isinstance(f.type, StructType):
            names += leaf_names(f.type, f"{prefix}{f.name}.")
    return names
