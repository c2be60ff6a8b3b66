"""Predicates: a condition in Spark's SQL, parsed once, run on Arrow.

What lives here: :func:`parse` (syntax by sqlglot, names and types by the table's schema) and
:class:`Predicate`, the value that scans, conflict rules and file skipping share; :func:`parse_condition` and
:class:`Condition`, where Spark may run what the process cannot; :func:`parse_value` for expressions that are
stored.
What it does not know: how expressions run (``expressions``), where files are (``skipping``).

Comparison rules are Spark's with ANSI casts of literals, in a session whose time zone is UTC. Three
things differ on purpose, so that a filter never fails halfway: a division by zero is NULL, and so are
an overflow and a cast of a *column's* unreadable text. A *literal* that cannot be read as the column's
type is refused. Two decimals compare exactly, also where Spark rounds both to 38 digits first. What Spark
refuses of an array or a map (``failures``) is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import DataType, StructType, arrow_type, from_arrow
from deltanb.sql import constants, direct, failures
from deltanb.sql import expressions as ex
from deltanb.sql.coercion import convert, is_text, spark_name
from deltanb.sql.conditions import Where, text_of
from deltanb.sql.names import split_name as split_name

if TYPE_CHECKING:
    from deltanb.sql.values import Value


@dataclass(frozen=True)
class Predicate:
    """A condition on a table's rows: TRUE, FALSE or NULL for each; a scan keeps the TRUE ones.

    >>> from deltanb.schema.types import PrimitiveType, StructField
    >>> schema = StructType([StructField("part", PrimitiveType("integer")),
    ...                      StructField("name", PrimitiveType("string"))])
    >>> predicate = parse("PART = '1' AND name LIKE 'a%'", schema)
    >>> sorted(predicate.columns), [p.sql for p in predicate.conjuncts()]
    (['name', 'part'], ["PART = '1'", "name LIKE 'a%'"])
    >>> table = pa.table({"part": pa.array([1, 1, 2], pa.int32()), "name": ["ab", None, "a"]})
    >>> filter_table(table, predicate).num_rows
    1
    """

    sql: str
    expression: ex.Expression = field(repr=False)
    schema: StructType | None = field(default=None, repr=False, compare=False)
    """What its text was parsed over; None where it was made without one."""

    @cached_property
    def columns(self) -> frozenset[str]:
        """Dotted paths of the columns that the condition mentions, as the schema spells them."""
        return frozenset(".".join(path) for path in self.column_paths)

    @cached_property
    def column_paths(self) -> frozenset[tuple[str, ...]]:
        """As :attr:`columns`, each path as the tuple of its names (a name may hold dots)."""
        return frozenset(node.path for node in self._columns)

    @cached_property
    def _columns(self) -> frozenset[ex.Column]:
        return frozenset(node for node in ex.walk(self.expression) if isinstance(node, ex.Column))

    @cached_property
    def _compiled(self) -> dict[tuple[frozenset[ex.Column], bool], pc.Expression]:
        """By the columns that are cast, and whether FALSE may stand for NULL."""
        return {}

    def conjuncts(self) -> list[Predicate]:
        """The parts that AND joins at the top, left to right; ``[self]`` where there is no AND."""
        return list(self._conjuncts)

    @cached_property
    def _conjuncts(self) -> tuple[Predicate, ...]:
        parts = ex.conjuncts(self.expression)
        if len(parts) == 1:
            return (self,)
        texts = _pieces(self.sql)
        if len(texts) != len(parts):
            texts = [self.sql] * len(parts)
        return tuple(Predicate(text, part, self.schema) for text, part in zip(texts, parts, strict=True))

    def is_partition_only(self, partition_columns: Sequence[str]) -> bool:
        """Whether partition values alone decide the condition (constants count)."""
        if failures.can_fail(self.expression):
            return False
        names = {name.lower() for name in partition_columns}
        return all(len(path) == 1 and path[0].lower() in names for path in self.column_paths)

    def to_expression(
        self,
        schema: StructType | pa.Schema | None = None,
        *,
        as_filter: bool = False,
    ) -> pc.Expression:
        """The condition for ``Table.filter`` and ``pyarrow.dataset``.

        ``schema`` is that of the data, where its types may differ from the table's (an ``int32``
        file of a column widened to ``int64``): such columns are cast. ``as_filter`` allows FALSE
        for NULL where that is faster. Asked again in the same way, it gives the same expression.

        Raises:
            UnsupportedPredicate: a part cannot run on Arrow with Spark's meaning; it is named.

        Evaluating it raises InvalidPredicate for a row where Spark raises, such as ``a[9]`` of three.
        """
        cast = frozenset(node for node in self._columns if isinstance(schema, pa.Schema)
                         and _type_at(schema, node.path) not in (None, node.type))
        compiled = self._compiled.get((cast, as_filter))
        if compiled is None:
            compiled = self._compiled[cast, as_filter] = self._compile(cast, as_filter)
        return compiled

    def _compile(self, cast: frozenset[ex.Column], as_filter: bool) -> pc.Expression:
        def column(node: ex.Column) -> pc.Expression:
            return pc.field(*node.path).cast(node.type) if node in cast else pc.field(*node.path)

        try:
            condition = failures.guarded(self.expression, self.sql)
            return ex.compile_expression(condition, column, as_filter=as_filter)
        except (ex.Unsupported, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedPredicate(
                f"{error} in the predicate {self.sql!r} cannot be evaluated without Spark; rewrite "
                "it with comparisons, IN, LIKE or a plain CAST",
                predicate=self.sql,
            ) from None

    def verdicts(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        """TRUE, FALSE or NULL for each row; FALSE may stand for NULL, which a filter cannot tell apart.

        Raises:
            UnsupportedPredicate: as :meth:`to_expression`.
        """
        schema = rows.schema
        if direct.handles(self.expression) and all(
                len(node.path) == 1 and schema.names.count(node.path[0]) == 1
                and schema.field(node.path[0]).type == node.type for node in self._columns):
            return direct.verdicts(self.expression, lambda node: rows.column(node.path[0]), rows.num_rows)
        from deltanb.sql.values import project

        condition = self.to_expression(schema, as_filter=True)
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if not table.num_columns:  # its rows would be forgotten; the condition is the same for all
            table = pa.table({"": pa.nulls(rows.num_rows)})
        result = project(table, {"holds": condition})["holds"]
        return result if isinstance(rows, pa.Table) else result.combine_chunks()

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Condition:
    """Which rows are meant, and how much of that runs in the process.

    ``sql`` is None for all rows. ``parts`` hold for all rows that are meant: the whole condition, or, where
    there is a ``reason`` why Spark alone understands it, those of its conjuncts that we do. ``left_out`` are
    the texts of the others.
    """

    sql: str | None
    parts: tuple[Predicate, ...] = ()
    left_out: tuple[str, ...] = ()
    reason: UnsupportedPredicate | None = None

    @property
    def predicate(self) -> Predicate | None:
        """The whole condition, where it runs in the process; None for all rows, too."""
        return self.parts[0] if self.sql is not None and self.reason is None else None

    @property
    def can_be_repeated(self) -> bool:
        """Whether it is known to name the same rows each time: Spark has functions that do not."""
        return self.reason is None

    def is_partition_only(self, partition_columns: Sequence[str]) -> bool:
        """Whether partition values alone say which rows are meant: all of a file, or none."""
        return self.reason is None and all(part.is_partition_only(partition_columns) for part in self.parts)


def parse(sql: Where | Predicate, schema: StructType | pa.Schema) -> Predicate:
    """A condition over the columns of ``schema``, as a value: SQL, or what :mod:`conditions
    <deltanb.sql.conditions>` makes SQL of. A predicate comes back as it is, unless its text was parsed over
    other columns.

    Names resolve without regard to case; ``a.b`` reaches into structs, backticks quote names.

    Raises:
        InvalidPredicate: syntax, an unknown column (with the closest names) or operands that do not
            fit; the message says where.
        UnsupportedPredicate: SQL outside the subset evaluated in the process; it is named.
    """
    if isinstance(schema, pa.Schema):
        schema = from_arrow(schema)
    if isinstance(sql, Predicate):
        return sql if sql.schema is None or sql.schema == schema else _parse(sql.sql, schema)
    text = text_of(sql, lambda: schema)
    return (_parse if type(text) is str else _parse_anew)(text, schema)  # trees are too large to be kept


@lru_cache(maxsize=256)
def _parse(sql: str, schema: StructType) -> Predicate:
    return _parse_anew(sql, schema)


def _parse_anew(sql: str, schema: StructType) -> Predicate:
    from deltanb.sql.backquotes import with_hint
    from deltanb.sql.resolver import Resolver  # late: it loads the SQL parser
    from deltanb.sql.syntax import syntax, too_deep

    text, lists = constants.cut(sql)
    if lists:
        reader = Resolver(sql, schema, lists)
        with suppress(DeltaError, ValueError, RecursionError):  # raised below, with its place
            expression = reader.whole(syntax(text), is_condition=True)
            if not reader.lists:
                return Predicate(sql, expression, schema)
    def read(text: str) -> ex.Expression:
        return Resolver(text, schema).whole(syntax(text), is_condition=True)

    try:
        expression = read(sql)
    except RecursionError:
        raise too_deep(sql) from None
    except (InvalidPredicate, UnsupportedPredicate) as error:
        raise with_hint(sql, schema.names, error, read) from None
    return Predicate(str(sql), expression, schema)


def parse_value(sql: str, schema: StructType, target: DataType | pa.DataType) -> Value:
    """Understand an expression over the columns of ``schema`` that is stored in a column.

    ``target`` is the column's type: the value is cast to it by Spark's store assignment (numbers to
    numbers, dates and times to each other, anything plain to text); a literal may also be a text that
    reads as a value of the type.

    Raises:
        InvalidPredicate: syntax, an unknown column (with the closest names), or a type that may not be
            stored in the target.
        UnsupportedPredicate: SQL outside the subset evaluated in the process, or such that may fail for
            a row (``deltanb.sql.values``).
    """
    if not isinstance(sql, str):
        raise InvalidPredicate(
            f"a value is SQL text, not {type(sql).__name__}: {sql!r:.80}; write 'NULL', '1' or "
            "\"'text'\"", predicate=str(sql))
    kind = target if isinstance(target, pa.DataType) else arrow_type(target)
    return (_parse_value if type(sql) is str else _parse_value_anew)(sql, schema, kind)


@lru_cache(maxsize=256)
def _parse_value(sql: str, schema: StructType, target: pa.DataType) -> Value:
    return _parse_value_anew(sql, schema, target)


def _parse_value_anew(sql: str, schema: StructType, target: pa.DataType) -> Value:
    from deltanb.sql import values

    expression = _resolved_value(sql, schema)
    if not (_reads_as_type(expression) or values.assignable(expression.type, target)):
        if pa.types.is_nested(expression.type) and pa.types.is_nested(target):
            raise UnsupportedPredicate(
                f"{sql!r} is {spark_name(expression.type)}, which only Spark stores as {spark_name(target)}; "
                "give it that type", predicate=sql)
        raise InvalidPredicate(
            f"{sql!r} is {spark_name(expression.type)}, which a column of type {spark_name(target)} does not "
            "take; add a CAST", predicate=sql)
    if isinstance(expression, ex.Literal):
        expression = _stored_literal(sql, expression, target)
    try:
        value = values.Value(str(sql), values.strict(expression), target)
        _ = value.compiled
    except (ex.Unsupported, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedPredicate(
            f"{error} in {sql!r} cannot be computed without Spark; rewrite it",
            predicate=sql) from None
    return value


def _resolved_value(sql: str, schema: StructType) -> ex.Expression:
    from deltanb.sql.backquotes import with_hint
    from deltanb.sql.resolver import Resolver
    from deltanb.sql.syntax import syntax, too_deep

    def read(text: str) -> ex.Expression:
        return Resolver(text, schema).whole(syntax(text), is_condition=False)

    try:
        return read(sql)
    except RecursionError:
        raise too_deep(sql) from None
    except (InvalidPredicate, UnsupportedPredicate) as error:
        raise with_hint(sql, schema.names, error, read) from None


def filter_table(table: pa.Table, predicate: Predicate | str) -> pa.Table:
    """The rows for which the condition is TRUE.

    Raises:
        InvalidPredicate: as :func:`parse`.
        UnsupportedPredicate: as :meth:`Predicate.to_expression`.
    """
    if isinstance(predicate, str):
        predicate = parse(predicate, table.schema)
    return table.filter(predicate.verdicts(table))


def all_of(predicates: Sequence[Predicate]) -> Predicate | None:
    """The predicates, over the same columns, joined by AND; None for none.

    >>> columns = pa.schema({"id": pa.int64()})
    >>> str(all_of([parse("id > 1", columns), parse("(id = 2 OR id = 3)", columns)]))
    'id > 1 AND (id = 2 OR id = 3)'
    """
    if len(predicates) < 2:
        return predicates[0] if predicates else None
    return Predicate(" AND ".join(one.sql for one in predicates),
                     ex.joined("and", [one.expression for one in predicates]), predicates[0].schema)


def untrue(predicate: Predicate) -> Predicate:
    """TRUE for the rows for which a predicate is FALSE or NULL.

    >>> columns = pa.schema({"id": pa.int64()})
    >>> filter_table(pa.table({"id": [1, 2, None]}), untrue(parse("id > 1", columns)))["id"].to_pylist()
    [1, None]
    """
    return Predicate(untrue_text(predicate.sql),
                     ex.boolean("or", ex.negate(predicate.expression),
                                ex.boolean("is_null", predicate.expression)), predicate.schema)


def untrue_text(sql: str) -> str:
    """As :func:`untrue`, of SQL that may end in a comment."""
    return f"NOT ({sql}\n) OR ({sql}\n) IS NULL"


def _reads_as_type(expression: ex.Expression) -> bool:
    """Whether its value decides, not its type: a text may read as a date, an array have wider numbers."""
    kind = expression.type
    return isinstance(expression, ex.Literal) and (
        is_text(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind))


def _stored_literal(sql: str, constant: ex.Literal, target: pa.DataType) -> ex.Literal:
    try:
        return ex.Literal(convert(constant.value, constant.type, target), target)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidPredicate(
            f"{sql!r} cannot be stored in a column of type {spark_name(target)}: {error}", predicate=sql
        ) from None


def parse_condition(where: Where | Predicate | Condition | None, schema: StructType) -> Condition:
    """As :func:`parse`; of a condition that is not wholly in the evaluated subset, the parts that are.

    Raises:
        InvalidPredicate: as :func:`parse`.
    """
    if isinstance(where, Condition):
        if all(part.schema == schema for part in where.parts):
            return where
        where = where.sql
    if where is None:
        return Condition(None)
    sql = where if isinstance(where, Predicate) else text_of(where, lambda: schema)
    try:
        whole = parse(sql, schema)
        whole.to_expression(as_filter=True)
    except UnsupportedPredicate as error:
        reason = error
    else:
        return Condition(whole.sql, (whole,))
    parts: list[Predicate] = []
    left_out: list[str] = []
    for text, resolve in _resolvers(str(sql), schema):
        try:
            part = Predicate(text, resolve(), schema)
            part.to_expression(as_filter=True)
        except UnsupportedPredicate:
            left_out.append(text)
        else:
            parts.append(part)
    return Condition(str(sql), tuple(parts), tuple(left_out), reason)


def _resolvers(sql: str, schema: StructType) -> Iterator[tuple[str, Callable[[], ex.Expression]]]:
    """The parts that AND joins at the top of a condition: each one's text, and what resolves it."""
    from deltanb.sql.resolver import Resolver
    from deltanb.sql.syntax import conjuncts, split, sql_of, syntax

    nodes, texts = conjuncts(syntax(sql)), split(sql)
    if len(nodes) != len(texts):
        texts = list(map(sql_of, nodes))
    for text, node in zip(texts, nodes, strict=True):
        yield text, partial(Resolver(sql, schema).whole, node, is_condition=True)


def _pieces(sql: str) -> list[str]:
    """The texts that AND joins at the top. A description that is no SQL is one text."""
    from deltanb.sql.syntax import split

    text, lists = constants.cut(sql)
    texts = split(text)
    for mark, whole in lists.items():
        texts = [one.replace(mark, whole) for one in texts]
    return texts


def _type_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    index = schema.get_field_index(path[0])
    if index < 0:
        return None
    type_ = schema.field(index).type
    for name in path[1:]:
        if not pa.types.is_struct(type_) or type_.get_field_index(name) < 0:
            return None
        type_ = type_.field(name).type
    return type_
