"""Constraints: what every row of a table must satisfy, checked while it is written.

What lives here: the constraints of a table (:func:`constraints_of`: NOT NULL at every level of structs,
the legacy ``delta.invariants``, CHECK from ``delta.constraints.*``, lengths of CHAR and VARCHAR) and
the check of a batch (:class:`Checker`).
What it does not know: how an expression is parsed or run (``sql/predicates.py``), files.

As in Delta, a CHECK must be TRUE: NULL violates it (PROTOCOL.md, "CHECK Constraints", "Column
Invariants"); a nested NOT NULL means its parents too.

>>> from deltanb.actions import Metadata
>>> from deltanb.schema.types import PrimitiveType, StructField
>>> schema = StructType([StructField("x", PrimitiveType("long"), nullable=False)])
>>> checker = Checker(schema, Metadata("t", schema.to_json()))
>>> checker.check(pa.record_batch({"x": pa.array([1, None])}))
Traceback (most recent call last):
    ...
deltanb.errors.ConstraintViolation: NOT NULL constraint on column 'x' is violated in row 2:
 - x : None
nothing was written
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Metadata
from deltanb.errors import ConstraintViolation, InvalidTable, UnsupportedPredicate
from deltanb.schema.types import CHAR_KEY, ArrayType, DataType, MapType, StructType, backticked
from deltanb.sql import predicates

MAX_SHOWN_VALUES = 8
"""Columns of a violating row that a message shows; the whole row is the error's ``.row``."""
MAX_SHOWN_CHARACTERS = 80
"""Characters shown of one value."""

_CHECK_PREFIX = "delta.constraints."


@dataclass(frozen=True)
class NotNull:
    """A column, or a field inside structs, arrays or maps, that must not be NULL."""

    path: tuple[str, ...]

    name = "NOT NULL"

    @property
    def column(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Check:
    """A condition in SQL that must be TRUE for every row."""

    name: str
    expression: str

    def sentence(self) -> str:
        """How a violation begins."""
        return f"CHECK constraint {self.name} ({self.expression})"


@dataclass(frozen=True)
class Within(Check):
    """The condition of a partial overwrite: rows outside it would land where nothing was replaced."""

    predicate: predicates.Predicate | None = dataclasses.field(default=None, compare=False)
    """The expression as it was parsed, where it was."""

    def sentence(self) -> str:
        """How a violation begins."""
        return f"the data does not belong to where={self.expression!r}: the condition"


Constraint = NotNull | Check


def constraints_of(schema: StructType, metadata: Metadata) -> list[Constraint]:
    """All constraints of a table, CHECK constraints by name first, then those of the columns.

    Raises:
        InvalidTable: a column's ``delta.invariants`` is not of the form the protocol defines.
    """
    constraints: list[Constraint] = [
        Check(key[len(_CHECK_PREFIX):], expression)
        for key, expression in sorted(metadata.configuration.items())
        if key.lower().startswith(_CHECK_PREFIX)
    ]
    return constraints + list(_of_columns(schema, ()))


def _of_columns(schema: StructType, parents: tuple[str, ...]) -> Iterable[Constraint]:
    for field in schema.fields:
        path = (*parents, field.name)
        if not field.nullable:
            yield NotNull(path)
        if "delta.invariants" in field.metadata:
            yield Check(".".join(path), _invariant(field.metadata["delta.invariants"], path))
        length = None
        if CHAR_KEY in field.metadata and not parents:
            length = re.fullmatch(r"(?:var)?char\((\d+)\)", str(field.metadata[CHAR_KEY]))
        if length:
            name = backticked(field.name)
            yield Check(f"{field.metadata[CHAR_KEY]} {field.name}",
                        f"{name} IS NULL OR length({name}) <= {length[1]}")
        yield from _inside(field.type, path)


def _inside(type_: DataType, path: tuple[str, ...]) -> Iterable[Constraint]:
    if isinstance(type_, StructType):
        yield from _of_columns(type_, path)
    elif isinstance(type_, ArrayType) and not type_.contains_null:
        yield NotNull((*path, "element"))
    elif isinstance(type_, MapType) and not type_.value_contains_null:
        yield NotNull((*path, "value"))


def _invariant(text: Any, path: tuple[str, ...]) -> str:
    try:
        return str(json.loads(text)["expression"]["expression"])
    except (TypeError, ValueError, KeyError):
        raise InvalidTable(
            f"column {'.'.join(path)!r} has the invariant {text!r}, which is not of the form "
            '{"expression": {"expression": SQL}}; correct the table\'s schema before writing',
            column=".".join(path),
        ) from None


class Checker:
    """Checks batches (logical columns, as :class:`~deltanb.engines.arrow.enforce.Enforcer` gives them).

    Args:
        schema: the table's logical schema.
        metadata: for the CHECK constraints.
        extra: further conditions, such as :class:`Within`.

    Raises:
        InvalidPredicate: a constraint names a column the table does not have, or is not valid SQL.
        UnsupportedPredicate: a CHECK that only Spark can evaluate; rows cannot be written unchecked.
    """

    def __init__(
        self, schema: StructType, metadata: Metadata, extra: Sequence[Check] = ()
    ) -> None:
        self.schema = schema
        self.constraints = [*extra, *constraints_of(schema, metadata)]
        self._predicates = {
            check: _parse(check, schema) for check in self.constraints if isinstance(check, Check)
        }

    def check(self, batch: pa.RecordBatch, first_row: int = 0) -> None:
        """Pass, or raise for the first row that violates a constraint.

        Args:
            first_row: the batch's place in the data, for the row number (which counts from 1).

        Raises:
            ConstraintViolation: ``.constraint`` (name), ``.row`` (values), ``.row_number``.
        """
        if not self.constraints or not batch.num_rows:
            return
        table = pa.Table.from_batches([batch])
        for constraint in self.constraints:
            if isinstance(constraint, NotNull):
                place = _first_null(batch, constraint.path, self.schema)
            else:
                place = self._first_failure(table, constraint)
            if place is not None:
                raise self._violation(constraint, batch, place, first_row)

    @cached_property
    def _expressions(self) -> Mapping[Check, pc.Expression]:
        from deltanb.engines.arrow.enforce import nullable
        from deltanb.schema.types import to_arrow

        schema = to_arrow(nullable(self.schema))
        return {c: predicate.to_expression(schema) for c, predicate in self._predicates.items()}

    def _first_failure(self, table: pa.Table, check: Check) -> int | None:
        expression = self._expressions[check]
        if table.filter(expression).num_rows == table.num_rows:
            return None
        number = "row number"
        while number in table.schema.names:
            number += "_"
        numbered = table.append_column(number, pa.array(range(table.num_rows), pa.int64()))
        passed = numbered.filter(expression).column(number).to_pylist()
        return next((i for i, row in enumerate(passed) if i != row), len(passed))

    def _violation(
        self, constraint: Constraint, batch: pa.RecordBatch, place: int, first_row: int
    ) -> ConstraintViolation:
        row = batch.slice(place, 1).to_pylist()[0]
        number = first_row + place + 1
        if isinstance(constraint, NotNull):
            says = f"NOT NULL constraint on column {constraint.column!r} is violated in row {number}:"
            shown = list(dict.fromkeys([constraint.path[0], *row]))
        else:
            says = f"{constraint.sentence()} is not TRUE for row {number}:"
            paths = self._predicates[constraint].column_paths
            shown = sorted({path[0] for path in paths}) or list(row)
        lines = [f" - {name} : {_short(row[name])}" for name in shown[:MAX_SHOWN_VALUES]]
        if len(shown) > MAX_SHOWN_VALUES:
            lines.append(f" - … {len(shown) - MAX_SHOWN_VALUES} more columns")
        return ConstraintViolation(
            "\n".join([says, *lines, "nothing was written"]),
            constraint=constraint.name, row=row, row_number=number,
            expression=getattr(constraint, "expression", None),
            column=getattr(constraint, "column", None),
        )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def _parse(check: Check, schema: StructType) -> predicates.Predicate:
    try:
        known = check.predicate if isinstance(check, Within) else None
        parsed = predicates.parse(known or check.expression, schema)
        parsed.to_expression()
    except UnsupportedPredicate as error:
        raise UnsupportedPredicate(
            f"{check.sentence()} cannot be checked in this process, so the rows cannot be written: "
            f"{error}. Write them as a Spark DataFrame",
            predicate=check.expression,
        ) from None
    return parsed


def _first_null(batch: pa.RecordBatch, path: tuple[str, ...], schema: StructType) -> int | None:
    """The first row in which the value at the path is NULL, or one of its parents is."""
    column = batch.column(path[0])
    type_: Any = schema.field(path[0]).type
    for name in path[1:]:
        if isinstance(type_, StructType):
            column = pc.struct_field(column, [name])
            type_ = type_.field(name).type
            continue
        return _first_null_inside(column, name)
    return pc.index(column.is_null(), True).as_py() if column.null_count else None


def _first_null_inside(column: pa.Array, part: str) -> int | None:
    """The first row whose array has a NULL element, or whose map has a NULL value."""
    if isinstance(column, pa.MapArray):
        column = column.cast(pa.list_(pa.struct([("key", column.type.key_type),
                                                 ("value", column.type.item_type)])))
    values = pc.list_flatten(column)
    if part == "value":
        values = pc.struct_field(values, ["value"])
    if not values.null_count:
        return None
    place = pc.index(values.is_null(), True).as_py()
    return pc.list_parent_indices(column)[place].as_py()
