"""Values: an expression in Spark's SQL that is stored in a column.

What lives here: :class:`Value`, what an assignment such as ``upper(name)`` becomes once names, types
and the column's type are settled, and the rules of what may be stored where.
What it does not know: how SQL is parsed (``predicates.parse_value``), tables, files.

A condition that cannot be evaluated for a row is NULL, and the row stays; a value must be right. So
what may fail for a row in Spark (a division by a column, a CAST of a text column, one to a narrower
type) is refused here and left to Spark, which says which row it was. Integers never wrap around, and
a value that its column cannot hold is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.errors import SchemaMismatch
from deltanb.sql import coercion as co
from deltanb.sql import expressions as ex
from deltanb.sql import failures

_CHECKED = {"add", "sub", "mul", "neg", "abs"}


@dataclass(frozen=True)
class Value:
    """An expression over a table's columns, for a column of type ``target``.

    >>> from deltanb.sql.predicates import parse_value
    >>> from deltanb.schema.types import PrimitiveType, StructField, StructType
    >>> schema = StructType([StructField("n", PrimitiveType("short"))])
    >>> value = parse_value("n * 2", schema, PrimitiveType("short"))
    >>> value.evaluate(pa.table({"n": pa.array([1, None], pa.int16())}), "n").to_pylist()
    [2, None]
    """

    sql: str
    expression: ex.Expression = field(repr=False)
    target: pa.DataType

    @cached_property
    def column_paths(self) -> frozenset[tuple[str, ...]]:
        """The columns that the value is made of, each path as the tuple of its names."""
        return frozenset(node.path for node in ex.walk(self.expression)
                         if isinstance(node, ex.Column))

    @cached_property
    def compiled(self) -> tuple[pc.Expression, pc.Expression]:
        """The value in its own type, and in the target's (NULL where it does not fit).

        Raises:
            Unsupported, ArrowInvalid, ArrowNotImplementedError: it does not run on Arrow.
        """
        raw, stored = ex.compile_expression(self.expression), _as(self.expression, self.target)
        return raw, raw if stored is self.expression else ex.compile_expression(stored)

    def evaluate(self, rows: pa.Table, column: str) -> pa.Array:
        """The values for the rows, in the target's type; ``column`` names the target in errors.

        Raises:
            SchemaMismatch: a value that the target cannot hold, or an integer overflow on the way.
        """
        if isinstance(self.expression, ex.Literal):
            return pa.repeat(co.arrow_scalar(self.expression.value, self.target), rows.num_rows)
        raw, stored = self.compiled
        try:
            columns = project(rows, {"raw": raw, "stored": stored})
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(
                f"{self.sql!r} for column {column!r} cannot be computed: {error}; nothing was written. "
                "Compute in a wider type, such as CAST(… AS DECIMAL(38,0))",
                differences=[f"~ {column}: {error}"], column=column) from None
        lost = pc.and_(pc.is_null(columns["stored"]), pc.is_valid(columns["raw"]))
        if pc.any(lost).as_py():
            value = columns["raw"][pc.index(lost, True).as_py()].as_py()
            raise does_not_fit(column, value, co.spark_name(self.target), self.sql)
        return pa.concat_arrays(columns["stored"].chunks) if columns["stored"].num_chunks else \
            pa.nulls(0, self.target)


def does_not_fit(column: str, value: object, target: str, sql: str) -> SchemaMismatch:
    """The error for a value that its column cannot hold."""
    return SchemaMismatch(
        f"{sql!r} gives {value!r:.80} for a row, which column {column!r} ({target}) cannot hold; nothing "
        "was written. Change the expression, or give the column a wider type",
        differences=[f"~ {column}: value {value!r:.80} does not fit {target}"], column=column,
        value=value, row=None)


def project(rows: pa.Table, columns: dict[str, pc.Expression]) -> pa.Table:
    """Expressions evaluated for each row, in the order of the rows."""
    from pyarrow import acero  # late: it imports pandas

    plan = acero.Declaration.from_sequence([
        acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
        acero.Declaration("project", acero.ProjectNodeOptions(list(columns.values()), list(columns))),
    ])
    return plan.to_table(use_threads=False)


def assignable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Spark's ANSI store assignment lets a value of one type into a column of another."""
    if source == target or t.is_null(source):
        return True
    if t.is_nested(source) or t.is_nested(target):
        return False
    if co.is_number(target):
        return co.is_number(source)
    if t.is_temporal(target):
        return bool(t.is_temporal(source))
    return co.is_text(target) and not t.is_binary(source)


def strict(expression: ex.Expression) -> ex.Expression:
    """The expression with integer arithmetic that raises instead of wrapping around.

    Raises:
        Unsupported: a part that may fail for a row.
    """
    if not isinstance(expression, ex.Call):
        return expression
    args = tuple(strict(arg) for arg in expression.args)
    op = expression.op
    if op in failures.FAILING:
        raise ex.Unsupported("an index that may be outside of its array, or a key that may be there twice,")
    if op in ("div", "mod"):
        divisor = args[1]
        if not (isinstance(divisor, ex.Literal) and divisor.value):
            raise ex.Unsupported("a division by something that may be 0")
        if divisor.value == -1 and t.is_integer(expression.type):
            raise ex.Unsupported("a division by -1")
    if op == "cast" and not _is_total(args[0].type, expression.type):
        raise ex.Unsupported(f"a CAST from {co.spark_name(args[0].type)} to "
                             f"{co.spark_name(expression.type)}, which may fail for a row,")
    if op in _CHECKED and t.is_integer(expression.type):
        op += "_checked"
    return ex.Call(op, args, expression.type, expression.extra)


def _is_total(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast gives every value that is not NULL one of the target's."""
    if not (co.is_number(source) and co.is_number(target)):
        return not co.is_text(source) or co.is_text(target) or bool(t.is_binary(target))
    if t.is_floating(target):
        return True
    if t.is_floating(source):
        return False
    if t.is_integer(target):
        return bool(t.is_integer(source)) and co.INTEGER_BOUNDS[source] <= co.INTEGER_BOUNDS[target]
    exact = co.as_decimal(source)
    return (exact.scale <= target.scale
            and exact.precision - exact.scale <= target.precision - target.scale)


def _as(expression: ex.Expression, target: pa.DataType) -> ex.Expression:
    if expression.type == target:
        return expression
    if isinstance(expression, ex.Literal):
        return ex.Literal(expression.value, target)  # converted when it was parsed
    return ex.Call("cast", (expression,), target)
