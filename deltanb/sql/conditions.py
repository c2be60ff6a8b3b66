"""Conditions as people give them: SQL, an expression of pyarrow's or polars', a Column of PySpark's, filters.

What lives here: :func:`text_of`, which makes SQL of any of them, so that all else knows SQL alone.
What it does not know: what the SQL means (``predicates``), how the others are read (``arrow_conditions``,
``polars_expressions``, ``spark_conditions``, ``filters``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deltanb.errors import InvalidPredicate
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import Column

    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

    Where: TypeAlias = str | pc.Expression | pl.Expr | Column | Predicate | Sequence[Any]
else:
    Where: TypeAlias = object
"""What a condition may be given as."""

__all__ = ["Where", "text_of"]


def text_of(where: Where, schema: Callable[[], StructType | pa.Schema]) -> str:
    """A condition as SQL; a text comes back as it is.

    Args:
        where: SQL, a ``pyarrow.compute.Expression``, a ``polars.Expr``, a PySpark ``Column``, or filters as
            pyarrow writes them: ``[("nephews", ">", 1), …]``, or lists of such lists, of which one holds.
        schema: gives the columns that the condition is about; only asked where it matters.

    Raises:
        InvalidPredicate: it is none of these, or not a condition on these columns.
        UnsupportedPredicate: it holds what has no counterpart in our SQL; that is named.

    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> columns = pa.schema({"name": pa.string(), "nephews": pa.int64()})
    >>> text_of((pc.field("nephews") > 1) & pc.starts_with(pc.field("name"), "Don"), lambda: columns)
    "nephews > 1 AND startswith(name, 'Don')"
    """
    if isinstance(where, str):
        return where
    kind = type(where)
    library = kind.__module__.partition(".")[0]
    if library == "pyarrow" and kind.__name__ == "Expression":
        from deltanb.sql import arrow_conditions

        return arrow_conditions.text_of(where, schema())
    if library == "polars" and kind.__name__ == "Expr":
        from deltanb.sql import polars_expressions

        return polars_expressions.text_of(where, schema())
    if isinstance(where, list | tuple):
        from deltanb.sql import filters

        return filters.text_of(where, schema())
    if library == "pyspark" and kind.__name__ in ("Column", "ConnectColumn"):
        from deltanb.sql import spark_conditions

        return spark_conditions.text_of(where, schema())
    text = getattr(where, "sql", None)
    if library == "deltanb" and isinstance(text, str):  # a predicate that was understood already
        return text
    raise InvalidPredicate(
        f"a predicate is SQL text, not {kind.__name__}: {shown(where)}; an expression of pyarrow.compute or "
        "polars, a Column of PySpark, and a list of filters can be given, too", predicate=str(where))
