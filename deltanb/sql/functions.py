"""The functions of the predicate language: what each takes and gives, by Spark's names.

What lives here: the table of functions with one rule each, and readers for the nodes that sqlglot makes
of functions it knows.
What it does not know: operators, names of columns (``resolver``), or how an expression runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as t
from sqlglot import exp

from deltanb.schema.types import SQL_NAMES, primitives
from deltanb.sql import coercion as co
from deltanb.sql.expressions import Call, Expression, Literal, boolean

if TYPE_CHECKING:
    from deltanb.sql.resolver import Resolver

Reader = tuple[frozenset[str], "Callable[[Resolver, Any], Expression] | None"]
"""The arguments of a kind of node that its handler reads, and the handler (None: its parent reads it)."""

BOOL, INT, LONG, STRING = pa.bool_(), pa.int32(), pa.int64(), pa.string()
DOUBLE, DATE = pa.float64(), pa.date32()

_UNITS = {"YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month",
          "MON": "month", "MM": "month", "WEEK": "week", "DAY": "day", "DD": "day",
          "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
          "MICROSECOND": "microsecond"}
_DATE_UNITS = {"year", "quarter", "month", "week"}  # of trunc(), which gives NULL for any other
# name -> (operation, argument type, result type)
_FUNCTIONS: dict[str, tuple[str, pa.DataType, pa.DataType]] = {
    "upper": ("upper", STRING, STRING), "ucase": ("upper", STRING, STRING),
    "lower": ("lower", STRING, STRING), "lcase": ("lower", STRING, STRING),
    "length": ("length", STRING, INT), "char_length": ("length", STRING, INT),
    "character_length": ("length", STRING, INT), "len": ("length", STRING, INT),
    "trim": ("trim", STRING, STRING), "ltrim": ("ltrim", STRING, STRING),
    "rtrim": ("rtrim", STRING, STRING), "isnan": ("is_nan", DOUBLE, BOOL),
    **{name: (op, DATE, INT) for name, op in {
        "year": "year", "quarter": "quarter", "month": "month", "day": "day",
        "dayofmonth": "day", "dayofyear": "dayofyear", "dayofweek": "dayofweek",
        "weekofyear": "weekofyear"}.items()},
    **{name: (name, co.TIMESTAMP, INT) for name in ("hour", "minute", "second")},
}
_NODE_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Upper: "upper", exp.Lower: "lower", exp.Length: "length", exp.IsNan: "isnan",
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Day: "day",
    exp.DayOfMonth: "day", exp.DayOfYear: "dayofyear", exp.DayOfWeek: "dayofweek",
    exp.WeekOfYear: "weekofyear", exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
    exp.Abs: "abs",
}
_CASTS = ("int", "bigint", "smallint", "tinyint", "double", "float", "string", "boolean", "timestamp", "date")
_CAST_FUNCTIONS = {**{name: primitives()[SQL_NAMES[name]] for name in _CASTS},
                   "to_timestamp": co.TIMESTAMP, "to_date": DATE}


def function(
    resolver: Resolver, name: str, nodes: Sequence[exp.Expression], node: exp.Expression
) -> Expression:
    """A function of :data:`_FUNCTIONS` or one with its own rule."""
    if name in _FUNCTIONS and len(nodes) == 1:
        operation, expected, result = _FUNCTIONS[name]
        operand = resolver.value(nodes[0])
        if operation == "length" and t.is_binary(operand.type):
            return Call("byte_length", (operand,), INT)
        if expected is not None:
            operand = resolver.cast(operand, _argument_type(operand.type, expected))
        return Call(operation, (operand,), result)
    values = [resolver.value(n) for n in nodes]
    from deltanb.sql import nested  # here: it reads nodes with the helpers below

    if name in nested.FUNCTIONS:
        return nested.function(resolver, name, values, node)
    match name, len(values):
        case "isnull", 1:
            return boolean("is_null", values[0])
        case "isnotnull", 1:
            return boolean("not", boolean("is_null", values[0]))
        case "abs", 1:
            operand = resolver.number(values[0], node)
            return Call("abs", (operand,), operand.type)
        case ("ifnull" | "nvl" | "coalesce"), _ if values:
            items = resolver.common(values, node)
            return Call("coalesce", tuple(items), items[0].type)
        case "nullif", 2:
            equal = resolver.compare("eq", values[0], values[1])
            return Call("case", (equal, Literal(None, values[0].type), values[0]),
                        values[0].type)
        case "nvl2", 3:
            then, other = resolver.common(values[1:], node)
            return Call("case", (boolean("is_null", values[0]), other, then), then.type)
        case "concat", _ if values:
            return _concat(resolver, values)
        case ("substring" | "substr"), 2 | 3:
            return _substring(resolver, values, node)
        case ("left"), 2:
            return _substring(resolver, [values[0], Literal(1, INT), values[1]], node)
        case ("startswith" | "endswith" | "contains"), 2:
            operation = {"startswith": "prefix", "endswith": "suffix"}.get(name, name)
            pattern = resolver.cast(values[1], STRING)
            if not isinstance(pattern, Literal):
                resolver.unsupported(node, f"{name} with an argument that is not a constant")
            if pattern.value is None:
                return Literal(None, BOOL)
            return boolean(operation, resolver.cast(values[0], STRING), extra=pattern.value)
        case "date_trunc", 2:
            return _date_trunc(resolver, values, node)
    if name in _CAST_FUNCTIONS and len(values) == 1:
        return resolver.cast(values[0], _CAST_FUNCTIONS[name])
    resolver.unsupported(node, f"the function {name}")


def _concat(resolver: Resolver, values: Sequence[Expression]) -> Expression:
    """Texts one after the other; NULL if one is."""
    texts = [resolver.cast(value, STRING) for value in values]
    if all(isinstance(text, Literal) for text in texts):
        parts = [text.value for text in texts if isinstance(text, Literal)]
        return Literal(None if None in parts else "".join(parts), STRING)
    return Call("concat", tuple(texts), STRING)


def _substring(
    resolver: Resolver, values: Sequence[Expression], node: exp.Expression
) -> Expression:
    """``substring(text, position, length)`` with constant position and length."""
    numbers = [resolver.cast(value, INT) for value in values[1:]]
    if not all(isinstance(n, Literal) and n.value is not None for n in numbers):
        resolver.unsupported(node, "substring with a position that is not a constant")
    constants = [n.value for n in numbers if isinstance(n, Literal)]
    extra = (constants[0], constants[1] if len(constants) > 1 else None)
    return Call("substring", (resolver.cast(values[0], STRING),), STRING, extra)


def _date_trunc(
    resolver: Resolver, values: Sequence[Expression], node: exp.Expression
) -> Expression:
    """``date_trunc(unit, time)``: a timestamp."""
    unit = values[0].value if isinstance(values[0], Literal) else None
    arrow_unit = _UNITS.get(str(unit).upper())
    if arrow_unit is None:
        resolver.unsupported(node, f"date_trunc to {unit}")
    operand = resolver.cast(values[1], co.TIMESTAMP) if values[1].type != co.TIMESTAMP_NTZ \
        else values[1]
    return Call("date_trunc", (operand,), operand.type, arrow_unit)


def _argument_type(actual: pa.DataType, expected: pa.DataType) -> pa.DataType:
    """Calendar functions take dates and timestamps as they are."""
    if t.is_temporal(expected) and t.is_timestamp(actual):
        return actual
    if expected == DOUBLE and t.is_floating(actual):
        return actual
    return expected


# ---------------------------------------------------------------------------- nodes


def reads(arguments: str, handler: Callable[[Resolver, Any], Expression] | None = None) -> Reader:
    """An entry of the table of nodes; ``arguments`` are parted by blanks."""
    return frozenset(arguments.split()), handler


def _named(name: str, *arguments: str) -> Reader:
    """A function whose operands are the node's arguments, in this order."""
    def handler(resolver: Resolver, node: exp.Expression) -> Expression:
        operands = [node.args.get(argument) for argument in arguments]
        nodes = [n for one in operands for n in (one if isinstance(one, list) else [one])]
        return function(resolver, name, [n for n in nodes if n is not None], node)

    return frozenset(arguments), handler


def _trim(resolver: Resolver, node: exp.Trim) -> Expression:
    position = (node.args.get("position") or "BOTH").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
    return function(resolver, name, [node.this], node)


def _timestamp_trunc(resolver: Resolver, node: exp.Expression) -> Expression:
    unit = node.args["unit"]
    resolver.read(unit)
    return _date_trunc(resolver, [Literal(unit.name, STRING), resolver.value(node.this)], node)


def _trunc(resolver: Resolver, node: exp.Expression) -> Expression:
    """``trunc(date, unit)``: a date, or NULL for a unit that is not a part of a year."""
    resolver.read(node.args["unit"])
    unit = _UNITS.get(node.args["unit"].name.upper())
    operand = resolver.cast(resolver.value(node.this), DATE)
    if unit not in _DATE_UNITS:
        return Literal(None, DATE)
    return Call("date_trunc", (operand,), DATE, unit)


def _to_date(resolver: Resolver, node: exp.Expression) -> Expression:
    operand = resolver.value(node.this)
    inside = isinstance(node.parent, tuple(_NODE_FUNCTIONS))  # year(x) wraps x, whatever it is
    if inside and t.is_temporal(operand.type):
        return operand
    return resolver.cast(operand, DATE)


FUNCTION_NODES: dict[type[exp.Expression], Reader] = {
    **{kind: _named(name, "this") for kind, name in _NODE_FUNCTIONS.items()},
    exp.Coalesce: _named("coalesce", "this", "expressions"),
    exp.Nullif: _named("nullif", "this", "expression"),
    exp.Nvl2: _named("nvl2", "this", "true", "false"),
    exp.Trim: reads("this position", _trim),
    exp.Substring: _named("substring", "this", "start", "length"),
    exp.Left: _named("left", "this", "expression"),
    # safe: that NULL joined to a text is NULL, which is Spark's rule; coalesce would say otherwise.
    exp.Concat: reads("expressions safe", lambda resolver, node: function(
        resolver, "concat", node.expressions, node)),
    exp.DPipe: reads("this expression safe", lambda resolver, node: function(
        resolver, "concat", [node.this, node.expression], node)),
    exp.StartsWith: _named("startswith", "this", "expression"),
    exp.EndsWith: _named("endswith", "this", "expression"),
    exp.Contains: _named("contains", "this", "expression"),
    exp.TimestampTrunc: reads("this unit", _timestamp_trunc),
    exp.DateTrunc: reads("this unit", _trunc),
    exp.TsOrDsToDate: reads("this safe", _to_date),  # safe: NULL for a text that is not a date
    exp.Date: reads("this", _to_date),
    exp.Anonymous: reads("this expressions", lambda resolver, node: function(
        resolver, node.name.lower(), node.expressions, node)),
}
