"""Assignments: ``{"carrier": "upper(carrier)", "delay": 1}`` as new columns for rows.

What lives here: :func:`resolve`, from the names and values people write to the table's fields and SQL;
:class:`Assigner`, which computes the new columns for rows in the process; :func:`replaced`, rows with other
values in their places; and what is said of SQL that was meant as a text (:func:`perhaps_text`).
What it does not know: which rows are meant, files, Spark (``engines/spark/rows.py`` makes the same columns).

All values see the row as it was. Generated columns follow: they are computed once more from the new
values, unless they are assigned themselves. A struct of which a field is assigned is not NULL
afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltanb.concurrency.memory import pool
from deltanb.engines.contract import Assignments
from deltanb.errors import InvalidArgument, InvalidPredicate, UnsupportedPredicate, shown
from deltanb.log.arrays import array_of, numbers
from deltanb.schema.columns import GENERATION, START
from deltanb.schema.types import DataType, PrimitiveType, StructField, StructType
from deltanb.sql import predicates
from deltanb.sql.literals import literal, text_literal
from deltanb.sql.names import leaf_names, split_name
from deltanb.sql.values import Value
from deltanb.text.formatting import did_you_mean

Tree = Assignments

MAX_TEXT = 60  # characters of a value that are said twice
_WORDS = re.compile(r"[^'\"`()\[\]=<>|*\\]*'?[^'\"`()\[\]=<>|*\\]*")
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d+)?(?:BD|[DFLSY])?\s*")
LIKE = 0.7  # how like a column a word must be to be its name misspelt rather than a text
_FROM_TEXT = ("string", "varchar", "char", "date", "timestamp")
"""Types of columns to which people give a text."""


def resolve(schema: StructType, assignments: Mapping[str, Any]) -> Tree:
    """The assignments by fields of the schema, as SQL; names are found without regard to case.

    ``a.b`` is the field ``b`` of the struct ``a``; backticks quote names with dots. A value that is a text is
    SQL, another Python value (:data:`~deltanb.sql.literals.TAKEN`) means itself.

    Raises:
        InvalidPredicate: a name that is not a column, with the closest ones, or a value that is neither SQL
            nor has a literal.
        InvalidArgument: nothing is assigned, a column twice, or one that the table fills in itself.

    >>> from deltanb.schema.columns import GENERATION, START
    >>> from deltanb.schema.types import PrimitiveType
    >>> inner = StructType([StructField("b", PrimitiveType("long"))])
    >>> resolve(StructType([StructField("a", inner)]), {"A.B": "a.b + 1"})
    {'a': {'b': 'a.b + 1'}}
    >>> resolve(StructType([StructField("a", inner)]), {"a.b": True})
    {'a': {'b': 'TRUE'}}
    """
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidArgument(
            f"assignments={assignments!r:.80} must be columns and their new values, as SQL or as Python "
            "values, such as {'name': 'upper(name)', 'age': 7}")
    tree: Tree = {}
    for name, value in assignments.items():
        if not isinstance(name, str):
            raise InvalidArgument(
                f"a column to assign to is a name, found {type(name).__name__}: {shown(name)}")
        path = _path(schema, name)
        sql = value if isinstance(value, str) else _literal(value, path[-1], name)
        _assign(tree, [field.name for field in path], sql, name)
    return tree


def _literal(value: Any, field: StructField, name: str) -> str:
    try:
        return literal(value, field.type)
    except InvalidArgument as error:
        raise InvalidPredicate(f"the new value of column {name!r}: {error.message}",
                               predicate=shown(value), column=name) from None


def perhaps_text(error: InvalidPredicate, sql: str, column: str, data_type: DataType) -> InvalidPredicate:
    """The error of a value that is no SQL, with its column, and with how to write a text or a number.

    >>> error = InvalidPredicate("no column 'UA'", predicate="UA", column="UA")
    >>> print(perhaps_text(error, "UA", "carrier", PrimitiveType("string")))
    the value 'UA' of column 'carrier' is SQL, and there is no column 'UA'; for the text UA write "'UA'"
    >>> print(perhaps_text(error, "UA", "delay", PrimitiveType("long")))
    the value of column 'delay' is an expression in SQL, and there is no column 'UA'; write a number as 7, \
a text as "'UA'"
    """
    takes_text = isinstance(data_type, PrimitiveType) and data_type.name.startswith(_FROM_TEXT)
    if not takes_text or not _WORDS.fullmatch(sql) or len(sql) > MAX_TEXT or _NUMBER.fullmatch(sql):
        return _for_column(error, sql, column)
    reason = "cannot be read as such" if "predicate" in error.message else error.message
    if missing := error.data.get("column"):
        hint, close = did_you_mean(missing, error.data.get("suggestions", ()), least=LIKE)
        reason = f"there is no column {missing!r}" + (f" ({hint})" if close else "")
    text = f"the text {sql}" if sql else "a text without a letter"
    return InvalidPredicate(f"the value {sql!r} of column {column!r} is SQL, and {reason}; for {text} write "
                            f"{text_literal(sql)!r}", **error.data)


def _for_column(error: InvalidPredicate, sql: str, column: str) -> InvalidPredicate:
    """The error of an expression, with the column that it is for."""
    message, predicate = error.message, f"the predicate {sql!r}"
    way = f"; write a number as 7, a text as {text_literal('UA')!r}"
    missing = error.data.get("column")
    if missing and message.startswith("no column"):
        hint, close = did_you_mean(missing, error.data.get("suggestions", ()), least=LIKE)
        reason = f"there is no column {missing!r}" + (f" ({hint})" if close else way)
    elif message.startswith(predicate):
        reason = repr(sql) + message.removeprefix(predicate).removesuffix("; write one condition") + way
    elif f" in {predicate}" in message:
        message = message.replace(f" in {predicate}", "").removesuffix("; join conditions with AND or OR")
        reason = f"{sql!r} is not valid SQL: {message}{way}"
    else:
        return InvalidPredicate(f"the value of column {column!r}: {message}", **error.data)
    return InvalidPredicate(f"the value of column {column!r} is an expression in SQL, and {reason}",
                            **error.data)


def generated(schema: StructType, tree: Tree) -> dict[str, str]:
    """The expressions of generated columns that nobody assigns."""
    return {field.name: str(field.metadata[GENERATION]) for field in schema.fields
            if GENERATION in field.metadata and field.name not in tree}


def texts(tree: Tree) -> Iterator[str]:
    """All SQL in a tree."""
    for value in tree.values():
        yield from texts(value) if isinstance(value, dict) else [value]


def _assign(tree: Tree, names: list[str], sql: str, message: str) -> None:
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            break
    if not isinstance(tree, dict) or names[-1] in tree:
        raise InvalidArgument(
            f"column {message!r} is assigned twice, alone or with a part of it; assign it once",
            column=".".join(names))
    tree[names[-1]] = sql


def _path(schema: StructType, name: str) -> list[StructField]:
    field = schema.get(name)
    parts = [name] if field is not None else split_name(name)
    current: DataType = schema
    path: list[StructField] = []
    for part in parts:
        field = current.get(part) if isinstance(current, StructType) else None
        if field is None:
            raise _unknown(schema, name)
        path.append(field)
        current = field.type
    if START in path[0].metadata:
        raise InvalidArgument(
            f"column {path[0].name!r} is an identity column, whose values the table generates; it cannot be "
            "assigned", column=path[0].name)
    return path


def _unknown(schema: StructType, name: str) -> InvalidPredicate:
    hint, close = did_you_mean(name, leaf_names(schema))
    return InvalidPredicate(f"no column {name!r} to assign to; {hint}", predicate=name, column=name,
                            suggestions=tuple(close))


# --- new columns ----------------------------------------------------------------------------------

class Assigner:
    """Computes the columns of changed rows.

    Args:
        schema: the table's; also that of the rows, unless ``rows`` says that they have more columns
            (those of a merge's source).
        tree: of :func:`resolve`.

    Raises:
        InvalidPredicate: SQL that cannot be understood, or of a type that its column does not take.
        UnsupportedPredicate: SQL that does not run in the process.
    """

    def __init__(self, schema: StructType, tree: Tree, rows: StructType | None = None) -> None:
        self.schema = schema
        self._assigned = _parsed(rows or schema, schema, tree)
        self._generated = _parsed(schema, schema, generated(schema, tree))

    @property
    def changed(self) -> frozenset[str]:
        """The columns of the table that get new values."""
        return frozenset((*self._assigned, *self._generated))

    @property
    def inputs(self) -> frozenset[str]:
        """The columns that these values are made of."""
        return frozenset((*_inputs(self._assigned), *_inputs(self._generated)))

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows with their new values; rows that are not to be changed must not be among them."""
        changed = _with(rows, self.schema, self._assigned)
        return _with(changed, self.schema, self._generated) if self._generated else changed

    def apply_where(self, batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
        """The batch with new values in the rows of the mask (no NULL), in the same order."""
        count = mask.true_count
        if not count:
            return batch
        is_whole = count == batch.num_rows
        changed = self.apply(pa.Table.from_batches([batch if is_whole else pc.filter(batch, mask)]))
        if is_whole:
            arrays = [pa.concat_arrays(column.chunks) for column in changed.columns]
            return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
        new = changed.select([name for name in batch.schema.names if name in self.changed])
        return replaced(batch, new, np.flatnonzero(numbers(mask)))


def replaced(rows: pa.RecordBatch, new: pa.Table, places: Any) -> pa.RecordBatch:
    """The rows with other values of some columns at some places, which may be in any order.

    >>> rows = pa.record_batch({"id": [1, 2, 3], "x": ["a", "b", "c"]})
    >>> replaced(rows, pa.table({"x": ["new", "newer"]}), [2, 0]).column("x").to_pylist()
    ['newer', 'b', 'new']
    """
    count = rows.num_rows
    order: Any = np.arange(count)
    order[places] = np.arange(count, count + len(places))
    arrays, taken = list(rows.columns), array_of(order)
    for name in new.schema.names:
        place = rows.schema.get_field_index(name)
        both = pa.concat_arrays([arrays[place], *new.column(name).chunks], pool())
        arrays[place] = pc.take(both, taken, boundscheck=False, memory_pool=pool())
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def check_runs_here(schema: StructType, tree: Tree) -> UnsupportedPredicate | None:
    """Why the assignments cannot be computed in the process; None if they can.

    Raises:
        InvalidPredicate: as :class:`Assigner`.
    """
    try:
        Assigner(schema, tree)
    except UnsupportedPredicate as reason:
        return reason
    return None


def _parsed(rows: StructType, fields: StructType, tree: Tree) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, assigned in tree.items():
        data_type = fields.field(name).type
        if isinstance(assigned, str):
            try:
                parsed[name] = predicates.parse_value(assigned, rows, data_type)
            except InvalidPredicate as error:
                raise perhaps_text(error, assigned, name, data_type) from None
        else:
            assert isinstance(data_type, StructType)
            parsed[name] = _parsed(rows, data_type, assigned)
    return parsed


def _inputs(assigned: dict[str, Any]) -> Iterator[str]:
    for value in assigned.values():
        if isinstance(value, dict):
            yield from _inputs(value)
        else:
            yield from (path[0] for path in value.column_paths)


def _with(rows: pa.Table, schema: StructType, assigned: dict[str, Any]) -> pa.Table:
    made = {}
    for name, value in assigned.items():
        place = rows.schema.get_field_index(name)
        made[place] = _new(rows, rows.column(place).combine_chunks(), value, name)
    for place, column in made.items():
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def _new(rows: pa.Table, old: Any, value: Value | dict[str, Any], path: str) -> pa.Array:
    if isinstance(value, Value):
        new = value.evaluate(rows, path)
        return new if new.type.equals(old.type) else new.cast(old.type)
    if isinstance(old, pa.ChunkedArray):
        old = pa.concat_arrays(old.chunks) if old.num_chunks else pa.nulls(0, old.type)
    children = []
    for place, field in enumerate(old.type):
        child = pc.struct_field(old, [place])
        if field.name in value:
            child = _new(rows, child, value[field.name], f"{path}.{field.name}")
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(old.type))
