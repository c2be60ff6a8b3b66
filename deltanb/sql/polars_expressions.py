"""Expressions of polars as SQL with the same meaning.

What lives here: :func:`text_of`, the whole of a ``polars.Expr`` as a condition, or a refusal that names the
part that has no counterpart.
What it does not know: polars, beyond the JSON that an expression gives; how SQL is run. Which parts of a lazy
frame's predicate leave files out is asked of ``polars_conditions``, which may leave parts out.

NULL and NaN are to polars what they are to Spark. Arithmetic is on numbers alone and of integers in 64 bits;
``is_in`` is NULL of NULL alone, whatever the list has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from warnings import catch_warnings, simplefilter

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import StructType, backticked
from deltanb.sql.arrow_conditions import name_of
from deltanb.sql.literals import literal, text_literal
from deltanb.sql.polars_conditions import literal_of
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import with_cut

__all__ = ["text_of"]

_NAN = "CAST('NaN' AS DOUBLE)"


def text_of(expression: Any, schema: StructType | pa.Schema) -> str:
    """The SQL of an expression of polars over the columns of a schema.

    Raises:
        UnsupportedPredicate: it has a part without a counterpart in our SQL; that is named.

    >>> import polars as pl
    >>> columns = pa.schema({"delay": pa.int64(), "carrier": pa.string()})
    >>> text_of((pl.col("delay") > 60) & ~pl.col("carrier").is_in(["UA", None]), columns)
    "((delay > 60) AND (NOT (carrier IN ('UA'))))"
    """
    shown = with_cut(str(expression), str(expression))
    with catch_warnings():  # this form of it is not promised to stay what it is
        simplefilter("ignore")
        try:
            tree = json.loads(expression.meta.serialize(format="json"))
        except Exception as error:  # polars has expressions that it does not write: Python's functions
            raise UnsupportedPredicate(
                f"the polars expression {shown} cannot be read ({str(error).splitlines()[0]}); write the "
                "condition as SQL", predicate=shown) from None
    columns = schema if isinstance(schema, pa.Schema) else schema.to_arrow()
    return _Reader(columns, shown).node(tree)


class _Reader:
    """From nodes to SQL, each in brackets."""

    def __init__(self, columns: pa.Schema, shown: str) -> None:
        self.columns, self.shown = columns, shown

    def node(self, node: Any) -> str:
        """A node with all below it."""
        match node:
            case {"Column": str(name)}:
                return name_of(self.name(name))
            case {"Literal": value}:
                return self.literal(value)
            case {"BinaryExpr": {"left": left, "op": str(op), "right": right}}:
                return self.binary(op, left, right)
            case {"Function": {"input": [*inputs], "function": function}}:
                return self.function(function, inputs)
            case {"Ternary": {"predicate": condition, "truthy": yes, "falsy": no}}:
                return f"(CASE WHEN {self.node(condition)} THEN {self.node(yes)} ELSE {self.node(no)} END)"
            case {"Agg": _}:
                raise self.unsupported("an aggregation of all rows")
            case {"Selector": _}:
                raise self.unsupported("a selector of columns (name one column)")
            case {"Cast": _}:
                raise self.unsupported("a cast")
        kind = next(iter(node)) if isinstance(node, dict) and node else node
        raise self.unsupported(f"a node of kind {kind!r}")

    def name(self, name: str) -> str:
        """The name of a column that is there: polars knows no other spelling of it.

        Raises:
            InvalidPredicate: there is none.
        """
        if name not in self.columns.names:
            hint, _ = did_you_mean(name, list(self.columns.names))
            raise InvalidPredicate(
                f"there is no column {name!r} for the polars expression {self.shown}; {hint}",
                predicate=self.shown, column=name)
        return name

    def literal(self, value: Any) -> str:
        """A literal; polars has more kinds of them than SQL."""
        if value == {"Scalar": {"Null": "Null"}}:
            return "NULL"
        if isinstance(value, dict) and isinstance(scalar := value.get("Scalar"), dict) and "Binary" in scalar:
            return literal(bytes(scalar["Binary"]))
        is_float = isinstance(value, dict) and [*value.values()] in ([{"Float": None}], [{"Float64": None}])
        if is_float:  # JSON has neither of them
            raise self.unsupported("NaN or an infinity as a literal (is_nan() asks for NaN)")
        text = literal_of(value)
        if text is None:
            raise self.unsupported("a literal of its type")
        return text

    def binary(self, op: str, left: Any, right: Any) -> str:
        """Two operands."""
        if op in _ARITHMETIC:
            kinds = [self.is_integer(side) for side in (left, right)]
            one, other = (f"CAST({self.node(side)} AS BIGINT)" if all(kinds) else self.node(side)
                          for side in (left, right))
            return f"({one} {_ARITHMETIC[op]} {other})"
        if op not in _SIGNS:
            raise self.unsupported(f"the operator {op}")
        text = f"({self.node(left)} {_SIGNS[op]} {self.node(right)})"
        return f"(NOT {text})" if op == "NotEqValidity" else text

    def is_integer(self, node: Any) -> bool:
        """Whether an operand of arithmetic is a whole number.

        Raises:
            UnsupportedPredicate: it is no number, or not known to be one.
        """
        match node:
            case {"Column": str(name)}:
                kind = self.columns.field(self.name(name)).type
                if t.is_integer(kind) or t.is_floating(kind):
                    return bool(t.is_integer(kind))
            case {"Literal": {"Dyn": {"Int": int()}}}:
                return True
            case {"Literal": {"Dyn": {"Float": _}}}:
                return False
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _ARITHMETIC:
                return all([self.is_integer(left), self.is_integer(right)])
            case {"Function": {"input": [inner], "function": "Negate" | "Abs"}}:
                return self.is_integer(inner)
        raise self.unsupported("arithmetic on something that is not a number")

    def function(self, function: Any, inputs: Sequence[Any]) -> str:
        """A function by its name, with its options."""
        name: Any = function
        options: dict[str, Any] = {}
        while isinstance(name, dict) and len(name) == 1:  # its kind, its name and its options in each other
            ((kind, inner),) = name.items()
            if kind in _KINDS:
                name = inner
            else:
                name, options = kind, inner if isinstance(inner, dict) else {"value": inner}
        rule = _RULES.get(name) if isinstance(name, str) else None
        if rule is None:
            raise self.unsupported(f"the function {name}")
        return rule(self, inputs, options)

    def unsupported(self, what: str) -> UnsupportedPredicate:
        """The refusal of a part, by its name."""
        return UnsupportedPredicate(
            f"{what} in the polars expression {self.shown} has no counterpart here; write the condition as "
            "SQL, or filter table.to_polars(), which is lazy", predicate=self.shown)


_SIGNS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=", "EqValidity": "<=>",
          "NotEqValidity": "<=>", "And": "AND", "LogicalAnd": "AND", "Or": "OR", "LogicalOr": "OR"}
_ARITHMETIC = {"Plus": "+", "Minus": "-", "Multiply": "*"}
_KINDS = frozenset({"Boolean", "StringExpr", "TemporalExpr", "StructExpr"})
_CLOSED = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}

_Rule = Callable[[_Reader, Sequence[Any], dict[str, Any]], str]


def _form(pattern: str) -> _Rule:
    return lambda reader, inputs, options: f"({pattern.format(*map(reader.node, inputs))})"


def _joined(word: str) -> _Rule:
    return lambda reader, inputs, options: f"({f' {word} '.join(map(reader.node, inputs))})"


def _number(pattern: str) -> _Rule:
    def rule(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
        reader.is_integer(inputs[0])
        return f"({pattern.format(reader.node(inputs[0]))})"

    return rule


def _nan(pattern: str) -> _Rule:
    def rule(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
        match inputs[0]:
            case {"Column": str(name)} if t.is_floating(reader.columns.field(reader.name(name)).type):
                return f"({pattern.format(reader.node(inputs[0]))})"
        raise reader.unsupported("is_nan on something that is not a float column")

    return rule


def _between(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
    one, low, high = map(reader.node, inputs)
    signs = _CLOSED.get(str(options.get("closed")))
    if signs is None:
        raise reader.unsupported(f"is_between closed={options.get('closed')!r}")
    return f"({one} {signs[0]} {low} AND {one} {signs[1]} {high})"


def _is_in(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
    one = reader.node(inputs[0])
    match inputs[1]:
        case {"Literal": {"Series": [*content]} | {"Scalar": {"List": [*content]}}}:
            values = _values(reader, bytes(content))
        case _:
            raise reader.unsupported("is_in of other than a list of values")
    has_null, equal = None in values, options.get("nulls_equal") is True
    try:
        members = [text_literal(v) if isinstance(v, str) else literal(v) for v in values if v is not None]
    except DeltaError as error:
        raise reader.unsupported(f"is_in of a list with such a value ({error})") from None
    listed = f"{one} IN ({', '.join(dict.fromkeys(members))})" if members else f"{one} IS NULL AND NULL"
    if not equal:
        return f"({listed})"
    is_member = listed if members else "FALSE"
    return f"({one} IS NULL OR {is_member})" if has_null else f"({one} IS NOT NULL AND {is_member})"


def _values(reader: _Reader, content: bytes) -> list[Any]:
    """A series, which polars writes as a stream of Arrow's."""
    try:
        with pa.ipc.open_stream(content) as stream:
            values: list[Any] = stream.read_all().column(0).to_pylist()
    except (pa.ArrowException, IndexError) as error:
        raise reader.unsupported(f"a list that cannot be read ({error})") from None
    return values


def _contains(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
    if options.get("literal") is not True:
        raise reader.unsupported("a regular expression (for a plain text say literal=True)")
    return _form("contains({}, {})")(reader, inputs, options)


def _field(reader: _Reader, inputs: Sequence[Any], options: dict[str, Any]) -> str:
    return f"{reader.node(inputs[0])}.{backticked(str(options['value']))}"


_RULES: dict[str, _Rule] = {
    "Not": _form("NOT {}"), "IsNull": _form("{} IS NULL"), "IsNotNull": _form("{} IS NOT NULL"),
    "AllHorizontal": _joined("AND"), "AnyHorizontal": _joined("OR"), "IsBetween": _between, "IsIn": _is_in,
    "IsNan": _nan(f"{{}} = {_NAN}"), "IsNotNan": _nan(f"NOT {{}} = {_NAN}"),
    "StartsWith": _form("startswith({}, {})"), "EndsWith": _form("endswith({}, {})"), "Contains": _contains,
    "Uppercase": _form("upper({})"), "Lowercase": _form("lower({})"), "LenChars": _form("length({})"),
    **{name: _form(f"{name.lower()}({{}})") for name in ("Year", "Quarter", "Month", "Day")},
    "Date": _form("CAST({} AS DATE)"), "FieldByName": _field, "FillNull": _form("coalesce({}, {})"),
    "Abs": _number("abs({})"), "Negate": _number("-{}"),
}
"""Functions of polars -> how each is written. A function that is not here is refused."""
