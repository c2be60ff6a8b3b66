"""Paired rows of two sides, and SQL over them, with Arrow.

What lives here: :func:`sided`, the rows of target and source as :meth:`Names.schema` describes them; columns
of such rows, conditions and key values.
What it does not know: which rows belong together (``matching``), clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.commands.merge.clauses import Names
from deltanb.concurrency.memory import pool
from deltanb.log.arrays import numbers
from deltanb.sql import expressions as ex
from deltanb.sql import values
from deltanb.sql.coercion import arrow_scalar
from deltanb.sql.predicates import Predicate

_NUMBER = "__row"  # a column that is always there: a table without columns has no rows


def sided(names: Names, target: pa.Table | None = None, source: pa.Table | None = None) -> pa.Table:
    """One struct column for each side, under its alias, as :meth:`Names.schema` describes it."""
    count = next(side.num_rows for side in (target, source) if side is not None)
    columns = {_NUMBER: pa.nulls(count)}
    for alias, side in ((names.target_alias, target), (names.source_alias, source)):
        if side is None:
            continue
        side = side.combine_chunks(pool())
        columns[alias] = pa.StructArray.from_arrays(
            [whole(column) for column in side.columns], names=side.schema.names) \
            if side.num_columns else pa.array([{}] * count, pa.struct([]))
    return pa.table(columns)


def whole(column: Any) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks, pool()) if column.num_chunks else pa.nulls(0, column.type)
    return column


def inner(rows: pa.Table, path: Sequence[str]) -> pa.Array:
    """A column of a side: the alias, the column's name, and those of fields inside it."""
    array = whole(rows.column(path[0]))
    for name in path[1:]:
        array = pc.struct_field(array, [name])
    return array


def is_true(rows: pa.Table, condition: Predicate) -> Any:
    """A numpy mask of the rows for which the condition is TRUE."""
    return numbers(whole(pc.coalesce(condition.verdicts(rows), arrow_scalar(False, pa.bool_()))))


def evaluated(rows: pa.Table, expression: ex.Expression) -> pa.Array:
    """The values of an expression."""
    if isinstance(expression, ex.Column):
        return inner(rows, expression.path)
    return whole(values.project(rows, {"x": ex.compile_expression(expression)}).column("x"))
