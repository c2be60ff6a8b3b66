"""Conditions of a query on one table alone, as conditions that files can be checked against.

What lives here: :func:`pushed`, which takes the parts of WHERE that AND joins and turns those it is sure of
into the predicate language; of the others it says why not.
What it does not know: files, statistics, what a name stands for.

A file left out wrongly would be a wrong answer, so only forms are taken that DuckDB, Spark and this library
mean the same by: a column compared with a literal of its kind, IN, BETWEEN, IS NULL, LIKE, and what AND, OR
and NOT make of these. A table whose rows an outer join fills up with NULL is left whole: there
``WHERE b.id IS NULL`` asks for what has no partner.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from deltanb.errors import DeltaError
from deltanb.query.statement import Reference, Statement
from deltanb.schema.types import INTEGERS, PrimitiveType, StructType, backticked
from deltanb.sql import predicates
from deltanb.sql.literals import text_literal
from deltanb.sql.predicates import Predicate

MAX_DIGITS = 15  # that a double keeps, however it was read
_OPERATORS: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
OF_ANOTHER = "it is about what is made of the table's rows, not about these"
_PLAIN_METHODS = ("", "NATURAL")
_PLAIN_KINDS = ("", "INNER", "CROSS", "SEMI", "ANTI", "OUTER")


@dataclass(frozen=True)
class Pushed:
    """What a query says of one of its tables."""

    conditions: tuple[tuple[Predicate, str], ...] = ()
    """Conditions in the predicate language, each with its text in the query."""
    not_used: tuple[tuple[str, str], ...] = ()
    """Texts of the query that say something of the table and were not used, each with the reason."""

    @property
    def where(self) -> Predicate | None:
        """All conditions as one."""
        return predicates.all_of([ours for ours, _ in self.conditions])


class _NotUsed(Exception):
    """Why a condition is left to the engine alone."""


def pushed(
    statement: Statement, schemas: Mapping[Reference, StructType], values: Mapping[str, Any],
    *, is_utc: bool = True,
) -> dict[Reference, Pushed]:
    """What a query says of each of its Delta tables.

    Args:
        statement: the query.
        schemas: the columns of those of its tables that are pruned.
        values: what stands for the parameters of the query, by name.
        is_utc: whether the engine reads times without a zone as UTC.
    """
    by_reference: dict[Reference, Pushed] = {}
    for select in statement.tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is not None:
            sources = _Sources(select, statement, schemas)
            for reference, condition in _conditions_of(where, sources, values, is_utc):
                by_reference[reference] = condition
    return by_reference


def _conditions_of(
    where: exp.Expression, sources: _Sources, values: Mapping[str, Any], is_utc: bool
) -> Iterator[tuple[Reference, Pushed]]:
    taken: dict[Reference, list[tuple[Predicate, str]]] = {one: [] for one in sources.tables}
    left: dict[Reference, list[tuple[str, str]]] = {one: [] for one in sources.tables}
    for part in _conjuncts(where.this):
        text = part.sql(dialect=sources.statement.dialect)
        about = sources.about(part) or sources.tables[:len(sources.tables) == 1]
        if len(about) != 1:
            for one in about:
                left[one].append((text, "it is about several tables"))
            continue
        (one,) = about
        try:
            ours = predicates.parse(
                _Translation(sources, one, values, is_utc).condition(part), sources.schemas[one])
            ours.to_expression()
        except (_NotUsed, DeltaError) as reason:
            left[one].append((text, str(reason)))
        else:
            taken[one].append((ours, text))
    for one in sources.tables:
        yield one, Pushed(tuple(taken[one]), tuple(left[one]))


def _conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


class _Sources:
    """What one SELECT reads from, and whose column a name is."""

    def __init__(
        self, select: exp.Select, statement: Statement, schemas: Mapping[Reference, StructType]
    ) -> None:
        self.statement = statement
        self.schemas = schemas
        begin = select.args.get("from_") or select.args.get("from")
        joins = select.args.get("joins") or []
        nodes = [begin.this if begin is not None else None, *(join.this for join in joins)]
        self.all = [node for node in (*nodes, *(select.args.get("laterals") or [])) if node is not None]
        by_node = {id(one.node): one for one in schemas}
        self.tables = [by_node[id(node)] for node in self.all if id(node) in by_node]
        self.aliases = {one.alias.lower() for one in select.expressions if isinstance(one, exp.Alias)}
        places = {id(node): at for at, node in enumerate(nodes)}
        self.reasons = {one: reason for one in self.tables
                        if (reason := _why_whole(one, places.get(id(one.node), 0), joins)) is not None}
        if select.args.get("sample"):
            self.reasons = dict.fromkeys(self.tables, OF_ANOTHER)

    def about(self, part: exp.Expression) -> list[Reference]:
        """The tables that a condition has columns of."""
        owners = [self.owner(column) for column in part.find_all(exp.Column)]
        return list(dict.fromkeys(one for one in owners if one is not None))

    def owner(self, column: exp.Column) -> Reference | None:
        """The table that has a column, if it is certain that it does."""
        name, qualifier = column.name.lower(), column.table.lower()
        if column.args.get("db"):
            return None
        if qualifier:
            named = [node for node in self.all if node.alias_or_name.lower() == qualifier]
            owners = [one for one in self.tables if len(named) == 1 and named[0] is one.node]
            return owners[0] if owners and self._has(owners[0], name) else None
        if len(self.tables) < len(self.all) and len(self.all) > 1:
            return None  # the others' columns are not known
        holders = [one for one in self.tables if self._has(one, name)]
        return holders[0] if len(holders) == 1 and name not in self.aliases else None

    def _has(self, one: Reference, name: str) -> bool:
        return any(field.name.lower() == name for field in self.schemas[one].fields)


def _why_whole(one: Reference, place: int, joins: Sequence[exp.Join]) -> str | None:
    """Why no row of a table may be left out before it is joined; None if any may."""
    if one.node.args.get("pivots") or one.node.args.get("sample") or one.node.args.get("joins"):
        return OF_ANOTHER
    for at, join in enumerate(joins, 1):
        side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        if method not in _PLAIN_METHODS or kind not in _PLAIN_KINDS:
            return f"a join that is {method or kind} looks at rows beside those that match"
        if (side == "FULL" and place <= at) or (side == "LEFT" and place == at) or (
                side == "RIGHT" and place < at):
            return "an outer join fills this table up with NULL, and WHERE comes after it"
    return None


class _Translation:
    """A condition on one table, in the predicate language."""

    def __init__(
        self, sources: _Sources, table: Reference, values: Mapping[str, Any], is_utc: bool
    ) -> None:
        self.sources, self.table, self.values, self.is_utc = sources, table, values, is_utc

    def condition(self, node: exp.Expression) -> str:
        if (reason := self.sources.reasons.get(self.table)) is not None:
            raise _NotUsed(reason)
        return self._condition(node)

    def _condition(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Paren):
            return self._condition(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self._condition(node.this)} {word} {self._condition(node.expression)})"
        if isinstance(node, exp.Not):
            return f"(NOT {self._condition(node.this)})"
        if type(node) in _OPERATORS:
            return self._compared(node, _OPERATORS[type(node)])
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            column, kind = self._column(node.this)
            low, high = (self._literal(node.args[key], kind) for key in ("low", "high"))
            return f"{column} BETWEEN {low} AND {high}"
        if isinstance(node, exp.In) and node.expressions:
            column, kind = self._column(node.this)
            return f"{column} IN ({', '.join(self._literal(one, kind) for one in node.expressions)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return f"{self._column(node.this)[0]} IS NULL"
        if isinstance(node, exp.Like):
            return self._like(node)
        raise _NotUsed(f"files are asked only how a column compares with a value, which "
                       f"{node.sql(dialect=self.sources.statement.dialect)[:60]} does not say")

    def _compared(self, node: exp.Expression, operator: str) -> str:
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        column, kind = self._column(left)
        return f"{column} {operator} {self._literal(right, kind)}"

    def _like(self, node: exp.Like) -> str:
        column, kind = self._column(node.this)
        pattern = node.expression
        if kind != "string" or not (isinstance(pattern, exp.Literal) and pattern.is_string) or (
                "\\" in pattern.this):
            raise _NotUsed("engines differ in what escapes a letter of LIKE")
        return f"{column} LIKE {text_literal(pattern.this)}"

    def _column(self, node: exp.Expression) -> tuple[str, str]:
        """A column's name in SQL, and its type."""
        if not isinstance(node, exp.Column) or self.sources.owner(node) is not self.table:
            raise _NotUsed("files are asked only of columns, not of what is computed of them")
        schema = self.sources.schemas[self.table]
        field = next(one for one in schema.fields if one.name.lower() == node.name.lower())
        kind = field.type.name if isinstance(field.type, PrimitiveType) else "nested"
        return backticked(field.name), kind

    # -- literals --------------------------------------------------------------------------------

    def _literal(self, node: exp.Expression, kind: str) -> str:
        """A value as our SQL has it for a column of a type."""
        sign = ""
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            node = self._parameter(node)
        if isinstance(node, exp.Neg):
            sign, node = "-", node.this
        if isinstance(node, exp.Literal) and not node.is_string:
            return sign + _number(node.this, kind)
        if isinstance(node, exp.Boolean) and kind == "boolean" and not sign:
            return "TRUE" if node.this else "FALSE"
        text, typed = _text(node)
        if text is not None and not sign:
            if kind == "string" and not typed:
                return text_literal(text)
            if kind == "date" and typed in ("", "DATE") and _DATE.fullmatch(text):
                return f"DATE '{text}'"
            if kind in ("timestamp", "timestamp_ntz") and _TIME.fullmatch(text):
                return self._time(text, kind)
        raise _NotUsed(f"engines may differ in how they compare {kind} with "
                       f"{node.sql(dialect=self.sources.statement.dialect)[:60]}")

    def _time(self, text: str, kind: str) -> str:
        if kind == "timestamp" and not self.is_utc:
            raise _NotUsed("the session's time zone is not UTC, in which files keep times")
        zone = "Z" if kind == "timestamp" else ""
        moment = dt.datetime.fromisoformat(_padded(text)).isoformat(" ", "microseconds")
        return f"{'TIMESTAMP' if zone else 'TIMESTAMP_NTZ'} '{moment}{zone}'"

    def _parameter(self, node: exp.Expression) -> exp.Expression:
        value = self.values.get(node.name)
        if isinstance(value, (bool, int, str)) or (isinstance(value, float) and value == value):
            return exp.convert(value)
        if type(value) is dt.date:
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        raise _NotUsed(f"the value of {node.name} is {type(value).__name__}, of which files are not asked")


def _text(node: exp.Expression) -> tuple[str | None, str]:
    """A text, and the type that it is written with: ``DATE '2026-03-01'``."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this), ""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        word = node.to.sql(dialect="spark").upper()
        if word == "DATE":
            return str(node.this.this), "DATE"
        if word.startswith("TIMESTAMP"):
            return str(node.this.this), "TIMESTAMP"
    return None, ""


def _padded(text: str) -> str:
    """A time with all digits of its fraction, which Python before 3.11 wants."""
    whole, dot, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}" if dot else whole


def _number(text: str, kind: str) -> str:
    """A number for a column of a type, where all engines compare the two exactly."""
    digits = re.fullmatch(r"(\d*)(?:\.(\d*))?(?:[eE][+-]?\d+)?", text)
    if digits is None:
        raise _NotUsed(f"{text} is a number that engines may read in different ways")
    whole, fraction, has_exponent = digits[1].lstrip("0"), digits[2] or "", "e" in text.lower()
    if kind in INTEGERS and not has_exponent and len(whole) + len(fraction) <= MAX_DIGITS:
        return text
    if kind == "double" and len(whole) + len(fraction) <= MAX_DIGITS:
        return text if has_exponent else f"{text}E0"
    if kind.startswith("decimal") and not has_exponent:
        precision, scale = map(int, re.findall(r"\d+", kind))
        if len(fraction) <= scale and len(whole) <= precision - scale:
            return f"{text}BD"
    raise _NotUsed(f"engines may differ in how they compare {kind} with {text}")
