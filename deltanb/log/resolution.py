"""From sqlglot's syntax tree to a typed expression: names, types, implicit casts.

What lives here: one handler per kind of SQL node, and the table of functions that are understood.
What it does not know: how an expression runs, or what a predicate is used for.
A node without a handler raises ``UnsupportedPredicate`` with its own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as t
from sqlglot import exp

from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.log import coercion as co
from deltanb.log.expressions import (
    MIRRORED,
    Call,
    Expression,
    Literal,
    boolean,
    joined,
    like,
    negate,
)
from deltanb.log.schema import StructType

BOOL, INT, LONG, STRING = pa.bool_(), pa.int32(), pa.int64(), pa.string()
DOUBLE, DATE = pa.float64(), pa.date32()
NULL = Literal(None, pa.null())

_COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt",
                exp.GTE: "ge"}
_TYPES = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": INT, "BIGINT": LONG,
          "FLOAT": pa.float32(), "DOUBLE": DOUBLE, "BOOLEAN": BOOL, "DATE": DATE,
          "TIMESTAMP": co.TIMESTAMP, "TIMESTAMPTZ": co.TIMESTAMP, "TIMESTAMPLTZ": co.TIMESTAMP,
          "TIMESTAMPNTZ": co.TIMESTAMP_NTZ, "TEXT": STRING, "VARCHAR": STRING, "CHAR": STRING,
          "BINARY": pa.binary(), "VARBINARY": pa.binary()}
_UNITS = {"YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month",
          "MON": "month", "MM": "month", "WEEK": "week", "DAY": "day", "DD": "day",
          "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
          "MICROSECOND": "microsecond"}
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
}
_CAST_FUNCTIONS = {"int": INT, "bigint": LONG, "smallint": pa.int16(), "tinyint": pa.int8(),
                   "double": DOUBLE, "float": pa.float32(), "string": STRING, "boolean": BOOL,
                   "timestamp": co.TIMESTAMP, "to_timestamp": co.TIMESTAMP, "to_date": DATE,
                   "date": DATE}


class Resolver:
    """Resolves one predicate; keeps its text for messages."""

    def __init__(self, sql: str, schema: StructType) -> None:
        self.sql = sql
        self.schema = schema

    def condition(self, node: exp.Expression) -> Expression:
        """A node that must be TRUE, FALSE or NULL."""
        found = self.value(node)
        if t.is_null(found.type):
            return Literal(None, BOOL)
        if not t.is_boolean(found.type):
            self.invalid(f"{_text(node)} is {co.spark_name(found.type)}, not a condition")
        return found

    def value(self, node: exp.Expression) -> Expression:
        """Any node."""
        operation = _COMPARISONS.get(type(node))
        if operation is not None:
            return self.compare(operation, self.value(node.this), self.value(node.expression))
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        name = _NODE_FUNCTIONS.get(type(node))
        if name is not None:
            return self.function(name, [node.this], node)
        self.unsupported(node)

    # ------------------------------------------------------------------ operators

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
                right = self.cast(right, LONG if t.is_integer(left.type) else DOUBLE)
            elif co.is_text(right.type):
                right = self.cast(right, left.type)
            assert isinstance(right, Literal)
            exact, value = co.exact_literal(right.value, right.type, left.type)
            if exact:
                return left, Literal(value, left.type)
        common = co.common_type(left.type, right.type)
        if common is None or not _is_comparable(common):
            self.invalid(f"{co.spark_name(left.type)} and {co.spark_name(right.type)} cannot be "
                         "compared; add a CAST")
        return self.cast(left, common), self.cast(right, common)

    def common(self, items: Sequence[Expression], node: exp.Expression) -> list[Expression]:
        """All items in one type."""
        found: pa.DataType = pa.null()
        for item in items:
            joined = co.common_type(found, item.type)
            if joined is None:
                self.invalid(f"the types in {_text(node)} do not fit together")
            found = joined
        return [self.cast(item, found) for item in items]

    def cast(self, operand: Expression, target: pa.DataType) -> Expression:
        """The operand in another type; literals at once, and refused if there is no such value."""
        if operand.type == target:
            return operand
        if isinstance(operand, Literal):
            try:
                return Literal(co.convert(operand.value, operand.type, target), target)
            except (ValueError, OverflowError) as error:
                self.invalid(f"{error}, but the predicate compares it as "
                             f"{co.spark_name(target)}")
            except TypeError as error:
                self.invalid(str(error))
        return Call("cast", (operand,), target)

    def arithmetic(self, node: exp.Binary) -> Expression:
        """``+ - * / % div`` on numbers, in Spark's result types."""
        left, right = self.value(node.this), self.value(node.expression)
        operation = _ARITHMETIC[type(node)]
        for operand in (left, right):
            if not (co.is_number(operand.type) or co.is_text(operand.type)
                    or t.is_null(operand.type)):
                self.unsupported(node, f"arithmetic on {co.spark_name(operand.type)}")
        if operation == "idiv":
            left, right = self.cast(left, LONG), self.cast(right, LONG)
            return Call("div", (left, right), LONG)
        kinds = (left.type, right.type)
        if any(map(t.is_decimal, kinds)) \
                and not any(t.is_floating(kind) or co.is_text(kind) for kind in kinds):
            return self.decimal_arithmetic(operation, left, right, node)
        common = co.common_type(left.type, right.type)
        if operation == "div" or common is None or co.is_text(common):
            common = DOUBLE
        if operation == "mod" and t.is_floating(common):
            self.unsupported(node, "% on floating point numbers")
        if t.is_null(common):
            return Literal(None, INT)
        return Call(operation, (self.cast(left, common), self.cast(right, common)), common)

    def decimal_arithmetic(
        self, operation: str, left: Expression, right: Expression, node: exp.Expression
    ) -> Expression:
        """Decimals stay exact; results wider than 38 digits and divisions are refused."""
        a, b = (_tight_decimal(operand) for operand in (left, right))
        scale = max(a.scale, b.scale)
        if operation in ("add", "sub"):
            whole = max(a.precision - a.scale, b.precision - b.scale) + 1
        elif operation == "mul":
            scale, whole = a.scale + b.scale, a.precision + b.precision + 1 - a.scale - b.scale
        else:
            self.unsupported(node, "a division of decimals")
        if whole + scale > co.MAX_PRECISION:
            self.unsupported(node, "a decimal result of more than 38 digits")
        result = pa.decimal128(whole + scale, scale)
        return Call(operation, (self.cast(left, a), self.cast(right, b)), result)

    def negative(self, node: exp.Neg) -> Expression:
        """Unary minus; a literal keeps the type of its digits."""
        operand = self.value(node.this)
        if isinstance(operand, Literal) and operand.value is not None \
                and co.is_number(operand.type):
            if t.is_integer(operand.type) or operand.type == pa.decimal128(19, 0):
                return _integer(-int(operand.value))
            return Literal(-operand.value, operand.type)
        operand = self.number(operand, node)
        return Call("neg", (operand,), operand.type)

    def number(self, operand: Expression, node: exp.Expression) -> Expression:
        """The operand as a number; text becomes double."""
        if co.is_text(operand.type):
            return self.cast(operand, DOUBLE)
        if not co.is_number(operand.type):
            self.unsupported(node)
        return operand

    def member(self, node: exp.In) -> Expression:
        """``IN`` over constants; over expressions it is a chain of equalities."""
        if not node.expressions or node.args.get("query") or node.args.get("unnest"):
            self.unsupported(node, "IN with a subquery")
        operand = self.value(node.this)
        items = [self.value(item) for item in node.expressions]
        pairs = [self.align(operand, item) for item in items]
        same = all(left is operand and isinstance(right, Literal) for left, right in pairs)
        if same and len(pairs) > 1 and not isinstance(operand, Literal):
            return boolean("in", operand, *(right for _, right in pairs))
        equals = [boolean("eq", left, right) for left, right in pairs]
        return equals[0] if len(equals) == 1 else boolean("or", *equals)

    def between(self, node: exp.Between) -> Expression:
        """Two comparisons."""
        operand = self.value(node.this)
        return boolean("and", self.compare("ge", operand, self.value(node.args["low"])),
                       self.compare("le", operand, self.value(node.args["high"])), extra="between")

    def is_what(self, node: exp.Is) -> Expression:
        """``IS NULL``, ``IS TRUE``, ``IS FALSE``."""
        tested = node.expression
        if isinstance(tested, exp.Null):
            return boolean("is_null", self.value(node.this))
        if isinstance(tested, exp.Boolean):
            operand = self.condition(node.this)
            return boolean("is_true", operand if tested.this else negate(operand))
        self.unsupported(node)

    def like(self, node: exp.Expression, escape: str = "\\") -> Expression:
        """``LIKE``: a plain comparison where the pattern has no wildcard, else prefix, suffix, …"""
        operand, pattern = self.cast(self.value(node.this), STRING), self.value(node.expression)
        if not isinstance(pattern, Literal) or isinstance(node.expression, (exp.Any, exp.All)):
            self.unsupported(node, "LIKE with a pattern that is no constant")
        if pattern.value is None:
            return Literal(None, BOOL)
        ignore_case = isinstance(node, exp.ILike)
        return like(operand, self.pattern_parts(pattern.value, escape, node), ignore_case)

    def pattern_parts(self, pattern: str, escape: str, node: exp.Expression) -> list[str]:
        """Characters as they are; the wildcards with a NUL before them."""
        parts: list[str] = []
        i = 0
        while i < len(pattern):
            character = pattern[i]
            if character == escape:
                i += 1
                if i >= len(pattern) or pattern[i] not in ("%", "_", escape):
                    self.invalid(f"the escape in the pattern of {_text(node)} must stand before "
                                 f"%, _ or {escape}")
                parts.append(pattern[i])
            else:
                parts.append("\0" + character if character in "%_" else character)
            i += 1
        return parts

    def rlike(self, node: exp.Expression) -> Expression:
        """``RLIKE``: the pattern must be one that RE2 and Java read alike."""
        import pyarrow.compute as pc

        operand, pattern = self.cast(self.value(node.this), STRING), self.value(node.expression)
        if not isinstance(pattern, Literal) or pattern.value is None:
            self.unsupported(node, "RLIKE with a pattern that is no constant")
        try:
            pc.match_substring_regex(pa.array([""]), pattern.value)
        except pa.ArrowInvalid:
            self.unsupported(node, f"the regular expression {pattern.value!r}")
        return boolean("regex", operand, extra=pattern.value)

    # ------------------------------------------------------------------ functions

    def function(
        self, name: str, nodes: Sequence[exp.Expression], node: exp.Expression
    ) -> Expression:
        """A function of :data:`_FUNCTIONS` or one with its own rule."""
        if name in _FUNCTIONS and len(nodes) == 1:
            operation, expected, result = _FUNCTIONS[name]
            operand = self.value(nodes[0])
            if operation == "length" and t.is_binary(operand.type):
                return Call("byte_length", (operand,), INT)
            if expected is not None:
                operand = self.cast(operand, _argument_type(operand.type, expected))
            return Call(operation, (operand,), result)
        values = [self.value(n) for n in nodes]
        match name, len(values):
            case "isnull", 1:
                return boolean("is_null", values[0])
            case "isnotnull", 1:
                return boolean("not", boolean("is_null", values[0]))
            case "abs", 1:
                operand = self.number(values[0], node)
                return Call("abs", (operand,), operand.type)
            case ("ifnull" | "nvl" | "coalesce"), _ if values:
                items = self.common(values, node)
                return Call("coalesce", tuple(items), items[0].type)
            case "nullif", 2:
                equal = self.compare("eq", values[0], values[1])
                return Call("case", (equal, Literal(None, values[0].type), values[0]),
                            values[0].type)
            case "nvl2", 3:
                then, other = self.common(values[1:], node)
                return Call("case", (boolean("is_null", values[0]), other, then), then.type)
            case "concat", _ if values:
                return self.concat(values)
            case ("substring" | "substr"), 2 | 3:
                return self.substring(values, node)
            case ("left"), 2:
                return self.substring([values[0], _integer(1), values[1]], node)
            case ("startswith" | "endswith" | "contains"), 2:
                operation = {"startswith": "prefix", "endswith": "suffix"}.get(name, name)
                pattern = self.cast(values[1], STRING)
                if not isinstance(pattern, Literal):
                    self.unsupported(node, f"{name} with an argument that is no constant")
                if pattern.value is None:
                    return Literal(None, BOOL)
                return boolean(operation, self.cast(values[0], STRING), extra=pattern.value)
            case "date_trunc", 2:
                return self.date_trunc(values, node)
        if name in _CAST_FUNCTIONS and len(values) == 1:
            return self.cast(values[0], _CAST_FUNCTIONS[name])
        self.unsupported(node, f"the function {name}")

    def concat(self, values: Sequence[Expression]) -> Expression:
        """Texts one after the other; NULL if one is."""
        texts = [self.cast(value, STRING) for value in values]
        if all(isinstance(text, Literal) for text in texts):
            parts = [text.value for text in texts if isinstance(text, Literal)]
            return Literal(None if None in parts else "".join(parts), STRING)
        return Call("concat", tuple(texts), STRING)

    def substring(self, values: Sequence[Expression], node: exp.Expression) -> Expression:
        """``substring(text, position, length)`` with constant position and length."""
        numbers = [self.cast(value, INT) for value in values[1:]]
        if not all(isinstance(n, Literal) and n.value is not None for n in numbers):
            self.unsupported(node, "substring with a position that is no constant")
        constants = [n.value for n in numbers if isinstance(n, Literal)]
        extra = (constants[0], constants[1] if len(constants) > 1 else None)
        return Call("substring", (self.cast(values[0], STRING),), STRING, extra)

    def date_trunc(self, values: Sequence[Expression], node: exp.Expression) -> Expression:
        """``date_trunc(unit, time)``: a timestamp."""
        unit = values[0].value if isinstance(values[0], Literal) else None
        arrow_unit = _UNITS.get(str(unit).upper())
        if arrow_unit is None:
            self.unsupported(node, f"date_trunc to {unit}")
        operand = self.cast(values[1], co.TIMESTAMP) if values[1].type != co.TIMESTAMP_NTZ \
            else values[1]
        return Call("date_trunc", (operand,), operand.type, arrow_unit)

    # ------------------------------------------------------------------ names and values

    def column(self, node: exp.Expression) -> Expression:
        """A column or nested field."""
        from deltanb.log.predicates import resolve_column

        parts = identifiers(node)
        if parts is None:
            self.unsupported(node)
        meta = parts[0].meta
        start = meta.get("start")
        place = "" if start is None else f" at position {start + 1}"
        return resolve_column(self.sql, self.schema, [i.name for i in parts], place)

    def literal(self, node: exp.Literal) -> Expression:
        """A text or a number in Spark's literal types."""
        if node.is_string:
            return Literal(node.this, STRING)
        try:
            number = Decimal(node.this)
        except InvalidOperation:
            self.unsupported(node)
        if re.search("[eE]", node.this):
            return Literal(float(number), DOUBLE)
        if "." not in node.this:
            return _integer(int(number))
        scale = -int(number.as_tuple().exponent)
        precision = max(len(number.as_tuple().digits), scale)
        if precision > co.MAX_PRECISION:
            self.unsupported(node, "a decimal of more than 38 digits")
        return Literal(number, pa.decimal128(precision, scale))

    def typed(self, node: exp.Cast) -> Expression:
        """``CAST``, ``DATE '…'``, ``1L``."""
        kind = node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
        target = _TYPES.get(kind)
        if kind == "DECIMAL":
            sizes = [int(p.name) for p in node.to.expressions] + [0]
            precision, scale = (sizes[0], sizes[1]) if len(sizes) > 1 else (10, 0)
            if not 0 <= scale <= precision <= co.MAX_PRECISION or not precision:
                self.unsupported(node, f"the type {node.to.sql(dialect='spark')}")
            target = pa.decimal128(precision, scale)
        if target is None:
            self.unsupported(node, f"the type {node.to.sql(dialect='spark')}")
        return self.cast(self.value(node.this), target)

    def invalid(self, problem: str) -> NoReturn:
        """Refuse the predicate."""
        raise InvalidPredicate(f"{problem} (in the predicate {self.sql!r})", predicate=self.sql)

    def unsupported(self, node: exp.Expression, what: str | None = None) -> NoReturn:
        """Refuse what cannot be evaluated here, by name."""
        name = what or f"{type(node).__name__} ({_text(node)})"
        raise UnsupportedPredicate(
            f"{name} in the predicate {self.sql!r} cannot be evaluated without Spark; rewrite it "
            "with comparisons, IN, BETWEEN, LIKE, IS NULL, CASE or CAST",
            predicate=self.sql, node=type(node).__name__,
        )


# ---------------------------------------------------------------------------- helpers


def _text(node: exp.Expression) -> str:
    return node.sql(dialect="spark")


def _is_comparable(data_type: pa.DataType) -> bool:
    return not (t.is_nested(data_type) or isinstance(data_type, pa.BaseExtensionType))


def _integer(value: int) -> Literal:
    for data_type in (INT, LONG):
        if -co.INTEGER_BOUNDS[data_type] <= value < co.INTEGER_BOUNDS[data_type]:
            return Literal(value, data_type)
    digits = min(len(str(abs(value))), co.MAX_EXACT_PRECISION)
    make = pa.decimal128 if digits <= co.MAX_PRECISION else pa.decimal256
    return Literal(Decimal(value), make(digits, 0))


def _tight_decimal(operand: Expression) -> pa.DataType:
    """An integer literal takes only the digits it has, as in Spark."""
    if isinstance(operand, Literal) and isinstance(operand.value, int):
        return pa.decimal128(len(str(abs(operand.value))), 0)
    if t.is_null(operand.type):
        return pa.decimal128(1, 0)
    return co.as_decimal(operand.type)


def _argument_type(actual: pa.DataType, expected: pa.DataType) -> pa.DataType:
    """Calendar functions take dates and timestamps as they are."""
    if t.is_temporal(expected) and t.is_timestamp(actual):
        return actual
    if expected == DOUBLE and t.is_floating(actual):
        return actual
    return expected


def identifiers(node: exp.Expression) -> list[exp.Identifier] | None:
    """The parts of a name; None for anything else."""
    if isinstance(node, exp.Column):
        parts = list(node.parts)
        return parts if all(isinstance(p, exp.Identifier) for p in parts) else None
    if isinstance(node, exp.Dot):
        left = identifiers(node.this)
        if left is not None and isinstance(node.expression, exp.Identifier):
            return [*left, node.expression]
    return None


def _case(self: Resolver, node: exp.Case) -> Expression:
    conditions: list[Expression] = []
    for branch in node.args["ifs"]:
        if node.this is not None:
            tested = self.compare("eq", self.value(node.this), self.value(branch.this))
            conditions.append(tested)
        else:
            conditions.append(self.condition(branch.this))
    default = node.args.get("default")
    results = [self.value(branch.args["true"]) for branch in node.args["ifs"]]
    results = self.common([*results, self.value(default) if default else NULL], node)
    args = [item for pair in zip(conditions, results, strict=False) for item in pair]
    return Call("case", (*args, results[-1]), results[0].type)


def _if(self: Resolver, node: exp.If) -> Expression:
    otherwise = node.args.get("false")
    then, other = self.common([self.value(node.args["true"]),
                               self.value(otherwise) if otherwise else NULL], node)
    return Call("case", (self.condition(node.this), then, other), then.type)


def _trim(self: Resolver, node: exp.Trim) -> Expression:
    if node.expression is not None:
        self.unsupported(node, "trim of given characters")
    position = (node.args.get("position") or "BOTH").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
    return self.function(name, [node.this], node)


def _timestamp_trunc(self: Resolver, node: exp.Expression) -> Expression:
    unit = Literal(node.args["unit"].name, STRING)
    return self.date_trunc([unit, self.value(node.this)], node)


def _to_date(self: Resolver, node: exp.Expression) -> Expression:
    operand = self.value(node.this)
    inside = isinstance(node.parent, tuple(_NODE_FUNCTIONS))  # year(x) wraps x, whatever it is
    if inside and t.is_temporal(operand.type):
        return operand
    return self.cast(operand, DATE)


def _substring(self: Resolver, node: exp.Substring) -> Expression:
    nodes = [node.this, node.args.get("start"), node.args.get("length")]
    return self.function("substring", [n for n in nodes if n is not None], node)


def _escape(self: Resolver, node: exp.Escape) -> Expression:
    if not isinstance(node.this, (exp.Like, exp.ILike)) or len(node.expression.name) != 1:
        self.unsupported(node)
    return self.like(node.this, node.expression.name)


def _null_safe_ne(self: Resolver, node: exp.Binary) -> Expression:
    return boolean("not", _null_safe_eq(self, node))


def _null_safe_eq(self: Resolver, node: exp.Binary) -> Expression:
    left, right = self.value(node.this), self.value(node.expression)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.value is None:
            return boolean("is_null", other)
    return self.compare("null_safe_eq", left, right)


def _junction(operation: str) -> Callable[[Resolver, Any], Expression]:
    return lambda self, node: joined(operation, [self.condition(n) for n in node.flatten(unnest=False)])


def _pair(name: str) -> Callable[[Resolver, Any], Expression]:
    return lambda self, node: self.function(name, [node.this, node.expression], node)


_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.Mod: "mod",
    exp.IntDiv: "idiv",
}
_HANDLERS: dict[type[exp.Expression], Callable[[Resolver, Any], Expression]] = {
    exp.Paren: lambda self, node: self.value(node.this),
    exp.And: _junction("and"),
    exp.Or: _junction("or"),
    exp.Not: lambda self, node: negate(self.condition(node.this)),
    exp.Boolean: lambda self, node: Literal(bool(node.this), BOOL),
    exp.Null: lambda self, node: NULL,
    exp.Literal: Resolver.literal,
    exp.RawString: lambda self, node: Literal(node.this, STRING),
    exp.National: lambda self, node: Literal(node.name, STRING),
    exp.HexString: lambda self, node: Literal(bytes.fromhex(node.name), pa.binary()),
    exp.Column: Resolver.column,
    exp.Dot: Resolver.column,
    exp.Cast: Resolver.typed,
    exp.TryCast: Resolver.typed,
    exp.NullSafeEQ: _null_safe_eq,
    exp.NullSafeNEQ: _null_safe_ne,
    exp.EqualNull: _null_safe_eq,
    exp.In: Resolver.member,
    exp.Between: Resolver.between,
    exp.Is: Resolver.is_what,
    exp.Like: Resolver.like,
    exp.ILike: Resolver.like,
    exp.Escape: _escape,
    exp.RegexpLike: Resolver.rlike,
    exp.Neg: Resolver.negative,
    **dict.fromkeys(_ARITHMETIC, Resolver.arithmetic),
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: lambda self, node: self.function("coalesce", [node.this, *node.expressions],
                                                   node),
    exp.Nullif: _pair("nullif"),
    exp.Nvl2: lambda self, node: self.function(
        "nvl2", [node.this, node.args["true"], node.args["false"]], node),
    exp.Abs: lambda self, node: self.function("abs", [node.this], node),
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Left: _pair("left"),
    exp.Concat: lambda self, node: self.function("concat", node.expressions, node),
    exp.DPipe: _pair("concat"),
    exp.StartsWith: _pair("startswith"),
    exp.EndsWith: _pair("endswith"),
    exp.Contains: _pair("contains"),
    exp.TimestampTrunc: _timestamp_trunc,
    exp.DateTrunc: _timestamp_trunc,
    exp.TsOrDsToDate: _to_date,
    exp.Date: _to_date,
    exp.Anonymous: lambda self, node: self.function(node.name.lower(), node.expressions, node),
}
