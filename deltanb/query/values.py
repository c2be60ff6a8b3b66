"""The arguments of a statement's method: conditions, values and rows, from what the statement says.

What lives here: :class:`Arguments`, for one statement about one table. Parameters become typed literals in
conditions and values, so that history has what was asked; queries get them bound by their engine.
What it does not know: which statement it is, how a table is changed.

Conditions and values stay as they were written, but for parameters and for the table's own name before a
column's. VALUES are evaluated as Spark does, in the types of their columns, in this process; only what does
not run there is left to the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from deltanb.errors import InvalidArgument, InvalidQuery, UnsupportedPredicate
from deltanb.query.names import Scope, resolve, value_of
from deltanb.query.statements.command import DEFAULT, Assignments, Clause, PartitionCondition, Rows
from deltanb.query.statements.text import Name, Sql
from deltanb.schema.columns import DEFAULT as DEFAULT_OF
from deltanb.schema.types import StructField, StructType, arrow_field, from_arrow
from deltanb.sql.literals import literal, text_literal
from deltanb.sql.names import split_name
from deltanb.sql.values import assignable, does_not_fit
from deltanb.table.table import DeltaTable
from deltanb.text.formatting import count, did_you_mean

_ONE_ROW = pa.table({"": pa.nulls(1)})


def as_literal(value: Any, name: str = "") -> str:
    """A Python value as SQL that means it and nothing else.

    >>> as_literal("it's"), as_literal(None), as_literal(2.5)
    ("'it\\\\'s'", 'NULL', '2.5E0')

    Raises:
        InvalidQuery: there is no literal of such a value.
    """
    if isinstance(value, str):
        return text_literal(value)
    try:
        return literal(value)
    except InvalidArgument as error:
        raise InvalidQuery(f"parameter {name}: {error.message}", name=name) from None


@dataclass(frozen=True)
class Arguments:
    """Makes the arguments of a statement about a table."""

    scope: Scope
    ask: Callable[[str], Any]
    """Runs a query; its result has ``rows``."""
    is_duckdb: bool
    """Whether that is DuckDB, whose SQL is not Spark's."""
    table: Any = None
    aliases: tuple[str, ...] = ()
    """Other names of the table, which may stand before its columns'."""

    @cached_property
    def schema(self) -> StructType:
        """The table's columns."""
        if isinstance(self.table, DeltaTable):
            return self.table.schema
        return from_arrow(self.table._arrow_schema())

    def of(self, value: Any) -> Any:
        """An argument as the method takes it."""
        match value:
            case Sql():
                return self.sql(value)
            case Rows():
                return self.rows(value)
            case Name():
                return resolve(value, self.scope)
            case Assignments():
                return self.assignments(value)
            case PartitionCondition():
                return " AND ".join(self._equality(*pair) for pair in value.pairs)
            case dict():
                return {name: self.of(one) for name, one in value.items()}
            case Clause():
                return {name: self.of(argument) for name, argument in value.arguments.items()}
        return value

    # -- expressions -----------------------------------------------------------------------------------

    def sql(self, sql: Sql) -> str:
        """A condition or value as text."""
        return sql.bound(self._literal, self._unqualified)

    def value(self, name: str) -> Any:
        """The value of a parameter."""
        return value_of(name, self.scope.variables, "statement", name=name)

    def _literal(self, name: str) -> str:
        return as_literal(self.value(name), name)

    @cached_property
    def _unqualified(self) -> frozenset[str]:
        """Names before a dot that are the table's, since no column has them."""
        if not self.aliases:
            return frozenset()
        columns = {name.lower() for name in self.schema.names}
        return frozenset(alias.lower() for alias in self.aliases) - columns

    def assignments(self, assignments: Assignments) -> dict[str, Any]:
        """New values by column."""
        made: dict[str, Any] = {}
        for column, value in assignments.pairs:
            name = self.sql(column)
            if name in made:
                raise InvalidQuery(f"column {name} is assigned twice; assign it once", name=name)
            made[name] = self._assigned(name, value)
        return made

    def _assigned(self, name: str, value: Sql) -> Any:
        if value.text.upper() == DEFAULT:
            return self._default(self.schema.get(split_name(name)[0]))
        if value.is_parameter:
            parameter = self.value(value.parameters[0][2])
            return text_literal(parameter) if isinstance(parameter, str) else parameter
        return self.sql(value)

    @staticmethod
    def _default(field: StructField | None) -> str:
        return "NULL" if field is None else str(field.metadata.get(DEFAULT_OF, "NULL"))

    def _equality(self, column: Sql, value: Sql) -> str:
        text = self.sql(value)
        return f"{column.text} IS NULL" if text.upper() == "NULL" else f"{column.text} = {text}"

    # -- rows ------------------------------------------------------------------------------------------

    def rows(self, rows: Rows) -> Any:
        """Rows with the names of their columns."""
        fixed = {split_name(column.text)[-1]: value for column, value in rows.partition}
        if rows.table is not None:
            made = pa.table(resolve(rows.table, self.scope))
        elif rows.values and not rows.by_name:
            return self._values(rows, fixed)
        else:
            made = self.ask(self._query(rows)).rows
        if not rows.by_name:
            made = made.rename_columns(self._names(rows, fixed, made.column_names))
        for name, value in fixed.items():
            field = self._field(name)
            made = made.append_column(
                field.name, pa.repeat(self._evaluated([value], field)[0], made.num_rows))
        return made

    def _query(self, rows: Rows) -> str:
        if rows.query is not None:
            return rows.query.text
        return self._of_values([[self.sql(value) for value in row] for row in rows.values])

    def _names(self, rows: Rows, fixed: Mapping[str, Sql], own: Sequence[str]) -> list[str]:
        """The names of the columns that rows are for, by the names that they have themselves."""
        if rows.columns is not None:
            names = [split_name(name)[-1] if "`" in name else name for name in rows.columns]
            what = count(len(names), "column is named", "columns are named")
        elif self.table is None:
            raise AssertionError("rows without names are for a table")
        else:
            taken = {name.lower() for name in fixed}
            names = [name for name in self.schema.names if name.lower() not in taken]
            what = f"table {self.table.name} has {count(len(names), 'column')}"
            if rows.evolves:
                names += own[len(names):]
        if len(names) != len(own):
            raise InvalidQuery(
                f"{what} ({', '.join(names)}), and the rows have {count(len(own), 'value')}; "
                "name the columns: INSERT INTO table (a, b) …, or insert BY NAME", columns=names)
        if rows.evolves and rows.columns is not None:
            for name in names:  # who names columns means those that there are
                self._field(name)
        times = Counter(name.lower() for name in (*names, *fixed))
        twice = next((name for name in names if times[name.lower()] > 1), None)
        if twice is not None:
            raise InvalidQuery(f"column {twice} is named twice; name it once", name=twice)
        return names

    @cached_property
    def _relaxed(self) -> StructType:
        """The table's columns with NULL anywhere: the write says which of them may not be NULL."""
        return self.schema.relaxed

    def _field(self, name: str) -> StructField:
        field = self._relaxed.get(name)
        if field is None:
            hint, _ = did_you_mean(name, self.schema.names)
            raise InvalidQuery(f"table {self.table.name} has no column {name}; {hint}", name=name)
        return field

    def _values(self, rows: Rows, fixed: Mapping[str, Sql]) -> pa.Table:
        own = [f"col{place}" for place, _ in enumerate(rows.values[0], 1)]  # as Spark calls them
        names = self._names(rows, fixed, own)
        columns = {name: [row[place] for row in rows.values] for place, name in enumerate(names)}
        columns.update({name: [value] * len(rows.values) for name, value in fixed.items()})
        made = {}
        for name, values in columns.items():
            if rows.evolves and self.schema.get(name) is None:
                made[name] = self._of_new_column(values)
                continue
            field = self._field(name)
            if not all(value.text.upper() == DEFAULT for value in values):
                made[field.name] = self._evaluated(values, field)
        if not made:  # DEFAULT alone: as many rows
            made[self.schema.names[0]] = pa.nulls(len(rows.values))
        return pa.table(made)

    def _of_new_column(self, values: Sequence[Sql]) -> pa.ChunkedArray:
        """Values of a column that the table does not have yet, in the type that the engine gives them."""
        texts = [self.sql(value) for value in values]
        if all(text.upper() in ("NULL", DEFAULT) for text in texts):
            return pa.chunked_array([pa.nulls(len(texts))])
        return self.ask(self._of_values([[text] for text in texts])).rows.column(0)

    def _evaluated(self, values: Sequence[Sql], field: StructField) -> pa.Array:
        """Values of one column, as Spark stores them."""
        from deltanb.engines.arrow.assignments import perhaps_text
        from deltanb.errors import InvalidPredicate
        from deltanb.sql.predicates import parse_value

        arrays = []
        for value in values:
            text = self._value_text(value, field)
            if not isinstance(text, str):
                arrays.append(text)
                continue
            try:
                arrays.append(parse_value(text, StructType(()), field.type).evaluate(_ONE_ROW, field.name))
            except InvalidPredicate as error:
                raise perhaps_text(error, text, field.name, field.type) from None
            except UnsupportedPredicate as reason:
                arrays.append(self._asked(text, field, reason))
        return pa.concat_arrays(arrays)

    def _value_text(self, value: Sql, field: StructField) -> str | pa.Array:
        """The SQL of a value; for a parameter that has none, such as a list, the value itself."""
        if value.text.upper() == DEFAULT:
            return self._default(field)
        if not value.is_parameter:
            return self.sql(value)
        parameter = self.value(value.parameters[0][2])
        if isinstance(parameter, str):
            return text_literal(parameter)
        try:
            return literal(parameter, field.type)
        except InvalidArgument as error:
            if not isinstance(parameter, list | tuple | dict):
                raise InvalidQuery(f"parameter {value.text}: {error.message}", name=value.text) from None
        try:
            return pa.array([parameter], arrow_field(field).type)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidQuery(f"parameter {value.text} does not fit column {field.name}: {error}",
                               name=value.text) from None

    def _asked(self, text: str, field: StructField, reason: UnsupportedPredicate) -> pa.Array:
        """A value that this process does not evaluate, by the engine."""
        target = arrow_field(field).type
        try:
            made = self.ask(self._of_values([[text]])).rows.column(0).combine_chunks()
        except InvalidQuery as error:
            raise InvalidQuery(f"{text}, the value of column {field.name}: {error.message}", query=text,
                               ) from reason
        try:
            if pa.types.is_nested(target) or assignable(made.type, target):
                return made.cast(target)
        except pa.ArrowException:
            pass
        raise does_not_fit(field.name, made[0].as_py(), str(field.type), text) from None

    def _of_values(self, rows: Sequence[Sequence[str]]) -> str:
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        sql = f"SELECT * FROM (VALUES {values})"
        if not self.is_duckdb:
            return sql
        return sqlglot.parse_one(sql, read="spark").transform(_struct).sql("duckdb")

    # -- the source of a merge -------------------------------------------------------------------------

    def source(self, value: Rows | Name) -> Any:
        """The rows of a merge's source."""
        if isinstance(value, Name):
            return resolve(value, self.scope)
        assert value.query is not None
        made = self.ask(f"({value.query.text})").rows
        if value.columns is None:
            return made
        if len(value.columns) != made.num_columns:
            raise InvalidQuery(f"the source has {count(made.num_columns, 'column')}, and "
                               f"{len(value.columns)} are named", columns=value.columns)
        return made.rename_columns(list(value.columns))


def _struct(node: exp.Expression) -> exp.Expression:
    """``named_struct('a', 1)`` as the struct that it makes: some versions of sqlglot do not know it."""
    is_named = isinstance(node, exp.Anonymous) and node.name.lower() == "named_struct"
    if not is_named or len(node.expressions) % 2:
        return node
    pairs = zip(node.expressions[::2], node.expressions[1::2], strict=True)
    return exp.Struct(expressions=[
        exp.PropertyEQ(this=exp.to_identifier(name.name), expression=value) for name, value in pairs])
