"""From sqlglot's syntax tree to a typed expression: names, types, implicit casts.

What lives here: operators, names and literals; :data:`_NODES`, one handler per kind of SQL node and the
arguments of the node that it reads. A node without a handler, or with an argument that nobody reads,
raises ``UnsupportedPredicate`` with its own text: what a newer sqlglot says in a new way is never left
out in silence.
What it does not know: what each function means (``functions``), how an expression runs, or what a
predicate is used for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as t
from sqlglot import exp

from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import MAX_PRECISION, TYPES, ArrayType, MapType, StructType, primitives
from deltanb.sql import coercion as co
from deltanb.sql import constants, nested
from deltanb.sql.expressions import Call, Expression, Literal, boolean, joined, like, negate
from deltanb.sql.functions import BOOL, DOUBLE, FUNCTION_NODES, INT, LONG, STRING, Reader, reads
from deltanb.sql.members import Members, folded
from deltanb.sql.names import resolve_column
from deltanb.sql.operands import Operands
from deltanb.sql.syntax import identifiers, sql_of

MAX_SIZE = 4  # digits of a type's size that are read: one that has more is too large anyhow
NULL = Literal(None, pa.null())
NOT_SPARK = {(exp.Between, "symmetric"): "BETWEEN SYMMETRIC"}
"""Arguments that the parser reads and Spark does not know: no engine is to be started for them."""

_COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt",
                exp.GTE: "ge"}
_TYPES = {kind: primitives()[name] for name, one in TYPES.items() for kind in one.parsed.split()}


class Resolver(Operands):
    """Resolves one predicate; keeps its text for messages, and which nodes were read.

    ``lists`` are those that :func:`deltanb.sql.constants.cut` took out of the text before it was parsed.
    """

    def __init__(self, sql: str, schema: StructType, lists: Mapping[str, str] | None = None) -> None:
        super().__init__(sql)
        self.schema = schema
        self.lists = dict(lists or {})
        self._read: set[int] = set()

    def whole(self, tree: exp.Expression, *, is_condition: bool) -> Expression:
        """The tree's expression, once every node below it was read and every argument accounted for."""
        expression = self.condition(tree) if is_condition else self.value(tree)
        for node in tree.walk():
            if id(node) not in self._read:
                self.unsupported(node)
        return expression

    def read(self, node: exp.Expression) -> Reader:
        """The reader of a node, which has no argument that the reader does not know."""
        reader = _NODES.get(type(node))
        if reader is None:
            self.unsupported(node)
        for name, value in node.args.items():
            if name not in reader[0] and not _is_unset(value):
                if (type(node), name) in NOT_SPARK:
                    self.invalid(f"Spark's SQL has no {NOT_SPARK[type(node), name]}")
                self.unsupported(node, f"{name!r} of {type(node).__name__} ({sql_of(node)})")
        self._read.add(id(node))
        return reader

    def condition(self, node: exp.Expression) -> Expression:
        """A node that must be TRUE, FALSE or NULL."""
        operand = self.value(node)
        if t.is_null(operand.type):
            return Literal(None, BOOL)
        if not t.is_boolean(operand.type):
            self.invalid(f"{sql_of(node)} is {co.spark_name(operand.type)}, not a condition")
        return operand

    def value(self, node: exp.Expression) -> Expression:
        """Any node."""
        handler = self.read(node)[1]
        if handler is None:
            self.unsupported(node)
        return handler(self, node)

    # ------------------------------------------------------------------ operators

    def common(self, items: Sequence[Expression], node: exp.Expression) -> list[Expression]:
        """All items in one type."""
        common: pa.DataType = pa.null()
        for item in items:
            joined = co.common_type(common, item.type)
            if joined is None:
                self.invalid(f"the types in {sql_of(node)} do not fit together")
            common = joined
        return [self.cast(item, common) for item in items]

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
        if whole + scale > MAX_PRECISION:
            self.unsupported(node, "a decimal result of more than 38 digits")
        result = pa.decimal128(whole + scale, scale)
        return Call(operation, (self.cast(left, a), self.cast(right, b)), result)

    def negative(self, node: exp.Neg) -> Expression:
        """Unary minus; a literal keeps the type of its digits."""
        operand = self.value(node.this)
        if isinstance(operand, Literal) and operand.value is not None \
                and co.is_number(operand.type):
            if t.is_integer(operand.type) or operand.type == pa.decimal128(19, 0):
                return integer(-int(operand.value))
            negated = operand.value.copy_negate() if t.is_decimal(operand.type) else -operand.value
            return Literal(negated, operand.type)
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
        """``IN`` over constants; over expressions it is a chain of equalities.

        Raises:
            ValueError: a list that was cut out has more than values of the operand's type.
        """
        if not node.expressions and not any(node.args.get(name) for name in ("query", "unnest", "field")):
            raise InvalidPredicate(f"IN () in the predicate {self.sql!r} names no value; name one at least",
                                   predicate=self.sql)
        if not node.expressions or node.args.get("query") or node.args.get("unnest"):
            self.unsupported(node, "IN with a subquery")
        operand = self.value(node.this)
        first = node.expressions[0]
        if self.lists and isinstance(first, exp.Literal) and first.this in self.lists:
            self.read(first)
            values = constants.values(operand.type, self.lists.pop(first.this))
            if values is None:
                raise ValueError
            return boolean("in", operand, extra=Members.of(values, operand.type))
        items = [self.value(item) for item in node.expressions]
        return self.is_one_of(operand, items)

    def between(self, node: exp.Between) -> Expression:
        """Two comparisons."""
        operand = self.value(node.this)
        return boolean("and", self.compare("ge", operand, self.value(node.args["low"])),
                       self.compare("le", operand, self.value(node.args["high"])), extra="between")

    def is_what(self, node: exp.Is) -> Expression:
        """``IS NULL``, ``IS TRUE``, ``IS FALSE``."""
        tested = node.expression
        self.read(tested)
        if isinstance(tested, exp.Null):
            return boolean("is_null", self.value(node.this))
        if isinstance(tested, exp.Boolean):
            operand = self.condition(node.this)
            return boolean("is_true", operand if tested.this else negate(operand))
        self.unsupported(node)

    def like(self, node: exp.Expression, escape: str = "\\") -> Expression:
        """``LIKE``: a plain comparison where the pattern has no wildcard, else prefix, suffix, …

        sqlglot says NOT LIKE with a node around it, or with an argument ``negate`` (since 30).
        """
        operand, pattern = self.cast(self.value(node.this), STRING), self.value(node.expression)
        if not isinstance(pattern, Literal):
            self.unsupported(node, "LIKE with a pattern that is not a constant")
        if pattern.value is None:
            return Literal(None, BOOL)
        text = pattern.value
        if isinstance(node, exp.ILike):  # Spark compares in lower case, whatever the escape is
            operand, text = Call("lower", (operand,), STRING), text.lower()
        matches = like(operand, self.pattern_parts(text, escape, node))
        return negate(matches) if node.args.get("negate") else matches

    def pattern_parts(self, pattern: str, escape: str, node: exp.Expression) -> list[str]:
        """Characters as they are; the wildcards with a NUL before them."""
        parts: list[str] = []
        i = 0
        while i < len(pattern):
            character = pattern[i]
            if character == escape:
                i += 1
                if i >= len(pattern) or pattern[i] not in ("%", "_", escape):
                    self.invalid(f"the escape in the pattern of {sql_of(node)} must stand before "
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
            self.unsupported(node, "RLIKE with a pattern that is not a constant")
        try:
            pc.match_substring_regex(pa.array([""]), pattern.value)
        except pa.ArrowInvalid:
            self.unsupported(node, f"the regular expression {pattern.value!r}")
        return boolean("regex", operand, extra=pattern.value)

    # ------------------------------------------------------------------ names and values

    def column(self, node: exp.Expression) -> Expression:
        """A column or nested field."""
        parts = identifiers(node)
        if parts is None:
            if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
                self.read(node.expression)
                return nested.field(self, self.value(node.this), node.expression.name, node.this)
            self.unsupported(node)
        for part in node.walk():
            self.read(part)
        meta = parts[0].meta
        start = meta.get("start")
        place = "" if start is None else f" at position {start + 1}"
        names = [part.name for part in parts]
        depth = _struct_depth(self.schema, names)
        expression: Expression = resolve_column(self.sql, self.schema, names[:depth], place)
        for name in names[depth:]:
            expression = nested.field(self, expression, name, node)
        return expression

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
            if number.adjusted() >= MAX_PRECISION:
                self.too_long(node, "integer of more than 38 digits")
            return integer(int(number))
        scale = -int(number.as_tuple().exponent)
        precision = max(len(number.as_tuple().digits), scale)
        if precision > MAX_PRECISION:
            self.too_long(node, "decimal of more than 38 digits")
        return Literal(number, pa.decimal128(precision, scale))

    def too_long(self, node: exp.Literal, what: str) -> NoReturn:
        """Refuse a number that no decimal of Spark's holds; ``…D`` is a double, and parsed as a cast."""
        if isinstance(node.parent, exp.Cast):
            self.unsupported(node, f"the {what}")
        self.invalid(f"Spark's SQL has no {what}, and {sql_of(node)} is one")

    def typed(self, node: exp.Cast) -> Expression:
        """``CAST``, ``DATE '…'``, ``1L``."""
        self.read(node.to)
        kind = node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
        target = _TYPES.get(kind)
        if kind == "DECIMAL":
            for size in node.to.expressions:
                self.read(size)
                self.read(size.this)
            sizes = [int(size.name[:MAX_SIZE]) for size in node.to.expressions] + [0]
            precision, scale = (sizes[0], sizes[1]) if len(sizes) > 1 else (10, 0)
            if scale > precision or precision > MAX_PRECISION:
                self.invalid(f"Spark's SQL has no type {sql_of(node.to)}: the precision is 1 to "
                             f"{MAX_PRECISION}, the scale at most that")
            if scale < 0 or not precision:
                self.unsupported(node, f"the type {sql_of(node.to)}")
            target = pa.decimal128(precision, scale)
        if target is None:
            self.unsupported(node, f"the type {sql_of(node.to)}")
        operand = self.value(node.this)
        if node.args.get("safe") and isinstance(operand, Literal):  # TRY_CAST
            try:
                return Literal(co.convert(operand.value, operand.type, target), target)
            except (ValueError, OverflowError):
                return Literal(None, target)
        return self.cast(operand, target)

    def unsupported(self, node: exp.Expression, what: str | None = None) -> NoReturn:
        """Refuse what cannot be evaluated here, by name."""
        name = what or f"{type(node).__name__} ({sql_of(node)})"
        raise UnsupportedPredicate(
            f"{name} in the predicate {self.sql!r} cannot be evaluated without Spark; rewrite it "
            "with comparisons, IN, BETWEEN, LIKE, IS NULL, CASE or CAST",
            predicate=self.sql, node=type(node).__name__,
        )


# ---------------------------------------------------------------------------- helpers


def integer(value: int) -> Literal:
    """An integer in the smallest of Spark's literal types that holds it."""
    for data_type in (pa.int32(), pa.int64()):
        if -co.INTEGER_BOUNDS[data_type] <= value < co.INTEGER_BOUNDS[data_type]:
            return Literal(value, data_type)
    return Literal(Decimal(value), pa.decimal128(len(str(abs(value))), 0))


def _is_unset(value: object) -> bool:
    return value is None or value is False or value == []


def _struct_depth(schema: StructType, names: Sequence[str]) -> int:
    """How many of the names are fields of structs; those after an array or a map are none."""
    current: Any = schema
    for depth, name in enumerate(names):
        if isinstance(current, (ArrayType, MapType)):
            return depth
        field = current.get(name) if isinstance(current, StructType) else None
        if field is None:
            break
        current = field.type
    return len(names)


def _tight_decimal(operand: Expression) -> pa.DataType:
    """An integer literal takes only the digits it has, as in Spark."""
    if isinstance(operand, Literal) and isinstance(operand.value, int):
        return pa.decimal128(len(str(abs(operand.value))), 0)
    if t.is_null(operand.type):
        return pa.decimal128(1, 0)
    return co.as_decimal(operand.type)


def _case(self: Resolver, node: exp.Case) -> Expression:
    conditions: list[Expression] = []
    for branch in node.args["ifs"]:
        self.read(branch)
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


def _escape(self: Resolver, node: exp.Escape) -> Expression:
    if not isinstance(node.this, (exp.Like, exp.ILike)) or len(node.expression.name) != 1:
        self.unsupported(node)
    self.read(node.this)
    self.read(node.expression)
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
    """AND or OR; a long chain of them is a tree as deep as it is long."""
    def handler(self: Resolver, node: exp.Connector) -> Expression:
        terms: list[Expression] = []
        waiting: list[exp.Expression] = [node]
        while waiting:
            last = waiting.pop()
            if type(last) is type(node):
                self.read(last)
                waiting += [last.args["expression"], last.this]
            else:
                terms.append(self.condition(last))
        return joined(operation, folded(operation, terms))

    return handler


def _comparison(operation: str) -> Callable[[Resolver, Any], Expression]:
    return lambda self, node: self.compare(operation, self.value(node.this), self.value(node.expression))


_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.Mod: "mod",
    exp.IntDiv: "idiv",
}
_NODES: dict[type[exp.Expression], Reader] = {
    **{kind: reads("this expression", _comparison(operation)) for kind, operation in _COMPARISONS.items()},
    **dict.fromkeys(_ARITHMETIC, reads("this expression", Resolver.arithmetic)),
    **FUNCTION_NODES,
    **nested.NESTED_NODES,
    # safe: that a division by zero is NULL, which holds for conditions; values.strict refuses it.
    exp.Div: reads("this expression safe", Resolver.arithmetic),
    exp.Neg: reads("this", Resolver.negative),
    exp.Paren: reads("this", lambda self, node: self.value(node.this)),
    exp.And: reads("this expression", _junction("and")),
    exp.Or: reads("this expression", _junction("or")),
    exp.Not: reads("this", lambda self, node: negate(self.condition(node.this))),
    exp.NullSafeEQ: reads("this expression", _null_safe_eq),
    exp.NullSafeNEQ: reads("this expression", _null_safe_ne),
    exp.EqualNull: reads("this expression", _null_safe_eq),
    exp.In: reads("this expressions query unnest", Resolver.member),
    exp.Between: reads("this low high", Resolver.between),
    exp.Is: reads("this expression", Resolver.is_what),
    exp.Like: reads("this expression negate", Resolver.like),
    exp.ILike: reads("this expression negate", Resolver.like),
    exp.Escape: reads("this expression", _escape),
    exp.RegexpLike: reads("this expression", Resolver.rlike),
    exp.Case: reads("this ifs default", _case),
    exp.If: reads("this true false", _if),
    exp.Cast: reads("this to safe", Resolver.typed),
    exp.TryCast: reads("this to safe", Resolver.typed),
    exp.Column: reads("this table db catalog", Resolver.column),
    exp.Dot: reads("this expression", Resolver.column),
    exp.Boolean: reads("this", lambda self, node: Literal(bool(node.this), BOOL)),
    exp.Null: reads("", lambda self, node: NULL),
    exp.Literal: reads("this is_string", Resolver.literal),
    exp.RawString: reads("this", lambda self, node: Literal(node.this, STRING)),
    exp.National: reads("this", lambda self, node: Literal(node.name, STRING)),
    exp.HexString: reads("this", lambda self, node: Literal(
        bytes.fromhex(node.name.rjust(len(node.name) + len(node.name) % 2, "0")), pa.binary())),
    # Read by what they are part of.
    exp.Identifier: reads("this quoted"),
    exp.DataType: reads("this expressions nested"),
    exp.DataTypeParam: reads("this"),
    exp.Var: reads("this"),
}
