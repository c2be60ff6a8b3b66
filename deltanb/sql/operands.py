"""The two sides of an operator: brought to one type as Spark does it.

What lives here: :class:`Operands`, implicit casts and comparisons of resolved expressions.
What it does not know: SQL syntax and its parser, names of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import InvalidPredicate
from deltanb.sql import coercion as co
from deltanb.sql.expressions import MIRRORED, Call, Expression, Literal, boolean, joined
from deltanb.sql.members import folded

_LONG, _DOUBLE = pa.int64(), pa.float64()


class Operands:
    """Brings operands of one predicate together; keeps its text for messages."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def compare(self, operation: str, left: Expression, right: Expression) -> Expression:
        """A comparison of two operands in the type where Spark lets them meet."""
        if isinstance(left, Literal) and not isinstance(right, Literal):
            mirrored = MIRRORED.get(operation, operation)
            return self.compare(mirrored, right, left)
        return boolean(operation, *self.align(left, right))

    def align(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """Both operands in one type; a literal moves to the other's type where that is exact."""
        if isinstance(right, Literal) and not isinstance(left, Literal):
            if co.is_text(right.type) and co.is_number(left.type):
                right = self.cast(right, _LONG if t.is_integer(left.type) else _DOUBLE)
            elif co.is_text(right.type):
                right = self.cast(right, left.type)
            assert isinstance(right, Literal)
            exact, value = co.exact_literal(right.value, right.type, left.type)
            if exact:
                return left, Literal(value, left.type)
        common = co.common_type(left.type, right.type)
        if t.is_nested(left.type) and co.same_shape(left.type, right.type) and co.is_ordered(left.type):
            return left, right
        if common is None or not _is_comparable(common):
            self.invalid(f"{co.spark_name(left.type)} and {co.spark_name(right.type)} cannot be "
                         "compared; add a CAST")
        return self.cast(left, common), self.cast(right, common)

    def is_one_of(self, operand: Expression, items: Sequence[Expression]) -> Expression:
        """``IN``: a set where the items are constants of the operand's type, else a chain of equalities."""
        equals = [boolean("eq", *self.align(operand, item)) for item in items]
        return joined("or", folded("or", equals))

    def cast(self, operand: Expression, target: pa.DataType) -> Expression:
        """The operand in another type; literals at once, and refused if there is no such value."""
        if operand.type == target:
            return operand
        if isinstance(operand, Literal) and t.is_nested(target):  # NULL, or an array of nothing
            return Literal(operand.value, target)
        if isinstance(operand, Literal):
            try:
                return Literal(co.convert(operand.value, operand.type, target), target)
            except (ValueError, OverflowError) as error:
                self.invalid(f"{error}, but the predicate compares it as "
                             f"{co.spark_name(target)}")
            except TypeError as error:
                self.invalid(str(error))
        return Call("cast", (operand,), target)

    def invalid(self, problem: str) -> NoReturn:
        """Refuse the predicate."""
        raise InvalidPredicate(f"{problem} (in the predicate {self.sql!r})", predicate=self.sql)


def _is_comparable(data_type: pa.DataType) -> bool:
    return co.is_ordered(data_type) and not isinstance(data_type, pa.BaseExtensionType)
