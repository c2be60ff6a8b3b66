"""Expressions of pyarrow's as SQL with the same meaning.

What lives here: :func:`text_of`: the tree of a ``pyarrow.compute.Expression``, and SQL for what it holds.
What it does not know: how SQL is run.

An expression gives its tree to nobody but pickle: a record batch whose metadata lists the nodes in order,
and whose columns are literals and options. That is what is read here, and whatever is not known in it is
refused by name.

Arrow and Spark differ in NaN, which is never equal, greater or less to Arrow, and to Spark equal to itself
and greater than all numbers; and in ``isin``, which to Arrow is never NULL. The SQL says it explicitly, so
that the rows are those that ``Table.filter`` keeps.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as t
import sqlglot
from sqlglot.tokens import TokenType

from deltanb.errors import DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.schema.paths import quoted
from deltanb.schema.types import StructType, backticked
from deltanb.sql.literals import literal, text_literal
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import with_cut

__all__ = ["name_of", "text_of"]

_ATOM, _COMPARED, _NOT, _AND, _OR = range(5)  # how tightly an operator binds


@dataclass(frozen=True)
class _Sql:
    """SQL, its Arrow type, and how tightly its outermost operator binds."""

    text: str
    type: pa.DataType
    binds: int = _ATOM
    is_number: bool = False
    """Whether it is a number that was written down, and not NaN."""

    def below(self, binds: int) -> str:
        """As an operand, in brackets where it needs them."""
        return f"({self.text})" if self.binds > binds else self.text

    @property
    def operand(self) -> str:
        """As an operand of a comparison."""
        return self.below(_ATOM)


def text_of(expression: Any, schema: StructType | pa.Schema) -> str:
    """The SQL of a pyarrow expression over the columns of a schema.

    Raises:
        InvalidPredicate: Arrow itself does not take it as a condition on these columns.
        UnsupportedPredicate: it calls what has no counterpart in our SQL.

    >>> import pyarrow.compute as pc
    >>> columns = pa.schema({"x": pa.float64(), "n": pa.int64()})
    >>> text_of(~pc.field("n").isin([1, 2]), columns)
    'NOT (n IS NOT NULL AND n IN (1, 2))'
    >>> text_of(pc.field("x") > 1, columns)
    "x > 1 AND x <= CAST('Infinity' AS DOUBLE)"
    """
    columns = schema if isinstance(schema, pa.Schema) else schema.to_arrow()
    shown = with_cut(str(expression), str(expression))
    tokens = _Tokens(expression, shown)
    condition = _Reader(tokens, columns, shown).node()
    _check_bound(expression, columns, shown)
    if not t.is_boolean(condition.type):
        raise InvalidPredicate(f"the pyarrow expression {shown} is not a condition: it is {condition.type}",
                               predicate=shown)
    return condition.text


def _check_bound(expression: Any, columns: pa.Schema, shown: str) -> None:
    row = pa.table([pa.nulls(1, field.type) for field in columns], names=columns.names)
    try:
        row.filter(expression)  # some of what Arrow refuses it refuses of a row alone
    except (pa.ArrowException, TypeError) as error:
        raise InvalidPredicate(
            f"the pyarrow expression {shown} is not a condition on this table: {str(error).splitlines()[0]}",
            predicate=shown) from None


# -- the tree --------------------------------------------------------------------------------------


class _Tokens:
    """The nodes of an expression in their order: (kind, text), as pickle has them."""

    def __init__(self, expression: Any, shown: str) -> None:
        try:
            (data, *_) = expression.__reduce__()[1]
            with pa.ipc.open_file(data) as file:
                self.values = file.get_batch(0)
            self._pairs = iter(_metadata(self.values.schema))
        except (pa.ArrowException, ValueError, TypeError, AttributeError) as error:
            raise UnsupportedPredicate(
                f"the pyarrow expression {shown} cannot be read ({error}); name its columns with "
                "pyarrow.compute.field(name), or write SQL", predicate=shown) from None

    def next(self) -> tuple[str, str]:
        """The next of them; ``("end", "")`` behind the last."""
        return next(self._pairs, ("end", ""))

    def value(self, place: str) -> pa.Scalar:
        """The literal, or the options, at a place."""
        return self.values.column(int(place))[0]


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The metadata of a schema in order, with the keys that are there several times; as a dict it has each
    once. It is read in the form that Arrow's C data interface gives it."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    fields = (ctypes.c_void_p * 3).from_address(pointer(capsule, b"arrow_schema"))  # format, name, metadata
    at = fields[2]
    if at is None:
        return

    def number() -> int:
        nonlocal at
        (integer,) = struct.unpack("=i", ctypes.string_at(at, 4))
        at += 4
        return int(integer)

    def text() -> str:
        nonlocal at
        size = number()
        characters = ctypes.string_at(at, size)
        at += size
        return characters.decode()

    for _ in range(number()):
        yield text(), text()


class _Reader:
    """From nodes to SQL."""

    def __init__(self, tokens: _Tokens, columns: pa.Schema, shown: str) -> None:
        self.tokens, self.columns, self.shown = tokens, columns, shown

    def node(self) -> _Sql:
        """The next node, with all below it."""
        return self._of(*self.tokens.next())

    def _of(self, kind: str, text: str) -> _Sql:
        if kind == "literal":
            return self._literal(self.tokens.value(text))
        if kind == "field_ref":
            return self._field([text])
        if kind == "nested_field_ref":
            return self._field([self.tokens.next()[1] for _ in range(int(text))])
        if kind == "call":
            return self._call(text)
        raise self.unsupported(f"a node of kind {kind!r}")

    def _call(self, name: str) -> _Sql:
        arguments: list[_Sql] = []
        options: dict[str, Any] = {}
        kind, text = self.tokens.next()
        while kind not in ("end", "options"):
            arguments.append(self._of(kind, text))
            kind, text = self.tokens.next()
        if kind == "options":
            scalar = self.tokens.value(text)
            options = {field.name: scalar[field.name] for field in scalar.type}
            self.tokens.next()  # the end of the call
        rule = _RULES.get(name)
        if rule is None:
            raise self.unsupported(f"the function {name}")
        return rule(self, name, arguments, options)

    def _field(self, path: Sequence[str]) -> _Sql:
        kind: Any = self.columns
        for name in path:
            has_fields = isinstance(kind, pa.Schema) or t.is_struct(kind)
            if not has_fields or name not in [field.name for field in kind]:
                hint, _ = did_you_mean(".".join(path), list(self.columns.names))
                raise InvalidPredicate(
                    f"there is no column {'.'.join(path)!r} for the pyarrow expression {self.shown}{hint}",
                    predicate=self.shown, column=".".join(path))
            kind = kind.field(name).type
        return _Sql(".".join(map(name_of, path)), kind)

    def _literal(self, value: pa.Scalar) -> _Sql:
        text = self._text(value)
        return _Sql(text, value.type, is_number=text.lstrip("-")[:1].isdigit())

    def _text(self, value: pa.Scalar) -> str:
        kind = value.type
        if t.is_time(kind) or t.is_duration(kind) or t.is_interval(kind) or t.is_nested(kind):
            raise self.unsupported(f"a literal of type {kind}")
        try:
            constant = value.as_py()
            return text_literal(constant) if isinstance(constant, str) else literal(constant)
        except (DeltaError, pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise self.unsupported(f"the literal {value} ({error})") from None

    def unsupported(self, what: str) -> UnsupportedPredicate:
        """The refusal of a part, by its name."""
        return UnsupportedPredicate(
            f"{what} in the pyarrow expression {self.shown} has no counterpart here; write the condition as "
            "SQL", predicate=self.shown)


def name_of(name: str) -> str:
    """A name as SQL: in backticks where it is more than a word, or a word that SQL knows."""
    tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(name) if name.isidentifier() else []
    is_plain = len(tokens) == 1 and tokens[0].token_type == TokenType.VAR
    return quoted([name]) if is_plain else backticked(name)


# -- what each function means ------------------------------------------------------------------------

_Rule = Callable[[_Reader, str, list[_Sql], dict[str, Any]], _Sql]
_BOOL = pa.bool_()
_INFINITY, _NAN = "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
_SIGNS = {"equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">",
          "greater_equal": ">="}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
_MATCH, _SKIP = 0, 1  # SetLookupOptions::NullMatchingBehavior


def _joined(word: str, binds: int) -> _Rule:
    def rule(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
        return _Sql(f" {word} ".join(a.below(binds) for a in arguments), _BOOL, binds)

    return rule


def _not(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    return _Sql(f"NOT {arguments[0].below(_ATOM)}", _BOOL, _NOT)


def _compare(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    one, other = arguments
    plain = _Sql(f"{one.operand} {_SIGNS[name]} {other.operand}", _BOOL, _COMPARED)
    if name in ("equal", "not_equal"):
        if not (_may_be_nan(one) and _may_be_nan(other)):
            return plain
        both = f"{one.operand} = {_NAN} AND {other.operand} = {_NAN}"
        return _Sql(f"{plain.text} OR {both}", _BOOL, _OR) if name == "not_equal" else \
            _Sql(f"{plain.text} AND NOT ({both})", _BOOL, _AND)
    large, small = (one, other) if name.startswith("greater") else (other, one)
    if not _may_be_nan(large):
        return plain
    return _Sql(f"{plain.text} AND {_no_nan(large, small)}", _BOOL, _AND)


def _may_be_nan(side: _Sql) -> bool:
    return t.is_floating(side.type) and not side.is_number


def _no_nan(side: _Sql, other: _Sql) -> str:
    """That a side is not NaN; it is not FALSE where the other side is NULL, for then the comparison is."""
    is_below = f"{side.operand} <= {_INFINITY}"
    return is_below if other.is_number else f"({is_below} OR {other.operand} IS NULL)"


def _is_null(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    (one,) = arguments
    is_null = f"{one.operand} IS NULL"
    if options and options["nan_is_null"].as_py() and t.is_floating(one.type):
        return _Sql(f"{is_null} OR {one.operand} = {_NAN}", _BOOL, _OR)
    return _Sql(is_null, _BOOL, _COMPARED)


def _after(words: str) -> _Rule:
    def rule(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
        return _Sql(f"{arguments[0].operand} {words}", _BOOL, _COMPARED)

    return rule


def _is_in(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    (one,) = arguments
    behaviour = options["null_matching_behavior"].as_py()
    if behaviour not in (_MATCH, _SKIP):
        raise reader.unsupported(f"isin with null_matching_behavior={behaviour}")
    values = options["value_set"].values
    try:
        values = values.cast(one.type)  # as Arrow does
    except pa.ArrowException as error:
        raise reader.unsupported(f"isin of {one.type} with values of another type ({error})") from None
    takes_null = behaviour == _MATCH and values.null_count > 0
    members = list(dict.fromkeys(reader._text(value) for value in values if value.is_valid))
    if not members:
        return _Sql(f"{one.operand} IS NULL" if takes_null else "FALSE", _BOOL, _COMPARED)
    listed = f"{one.operand} IN ({', '.join(members)})"
    if takes_null:
        return _Sql(f"{one.operand} IS NULL OR {listed}", _BOOL, _OR)
    return _Sql(f"{one.operand} IS NOT NULL AND {listed}", _BOOL, _AND)


def _match(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    (one,) = arguments
    pattern = options["pattern"].as_py()
    pattern = pattern.decode() if isinstance(pattern, bytes) else pattern
    if options["ignore_case"].as_py():
        raise reader.unsupported(f"{name} with ignore_case=True")
    if name == "match_like":
        if "\\" in pattern:
            raise reader.unsupported(f"match_like with the escape in {pattern!r}")
        return _Sql(f"{one.operand} LIKE {text_literal(pattern)}", _BOOL, _COMPARED)
    function = {"starts_with": "startswith", "ends_with": "endswith", "match_substring": "contains"}[name]
    return _Sql(f"{function}({one.text}, {text_literal(pattern)})", _BOOL)


def _arithmetic(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    kinds = [a.type for a in arguments]
    if not all(t.is_integer(kind) or t.is_floating(kind) for kind in kinds):
        raise reader.unsupported(f"{name} of {' and '.join(map(str, kinds))}")
    is_float = any(map(t.is_floating, kinds))
    if pa.float32() in kinds and any(map(t.is_integer, kinds)):  # of other precision here and there
        raise reader.unsupported(f"{name} of {' and '.join(map(str, kinds))}")
    sign = _ARITHMETIC[name.removesuffix("_checked")]
    sides = [a.operand if is_float else f"CAST({a.text} AS BIGINT)" for a in arguments]
    return _Sql(f"({sides[0]} {sign} {sides[1]})", pa.float64() if is_float else pa.int64())


def _function(called: str, result: pa.DataType | None = None) -> _Rule:
    def rule(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
        return _Sql(f"{called}({', '.join(a.text for a in arguments)})", result or arguments[0].type)

    return rule


def _cast(reader: _Reader, name: str, arguments: list[_Sql], options: dict[str, Any]) -> _Sql:
    (one,) = arguments
    target = options["to_type"].type
    names = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
             pa.float64(): "DOUBLE"}
    is_wider = (t.is_integer(one.type) or t.is_floating(one.type)) and (
        target == pa.float64() or (t.is_signed_integer(one.type) and t.is_signed_integer(target)
                                   and target.bit_width >= one.type.bit_width))
    if target not in names or not is_wider:
        raise reader.unsupported(f"a cast from {one.type} to {target}")
    return _Sql(f"CAST({one.text} AS {names[target]})", target)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_SIGNS, _compare),
    "and_kleene": _joined("AND", _AND), "or_kleene": _joined("OR", _OR), "invert": _not,
    "is_null": _is_null, "is_valid": _after("IS NOT NULL"), "is_nan": _after(f"= {_NAN}"),
    "is_in": _is_in,
    **dict.fromkeys(("starts_with", "ends_with", "match_substring", "match_like"), _match),
    **{name + suffix: _arithmetic for name in _ARITHMETIC for suffix in ("", "_checked")},
    **{f"utf8_{name}": _function(name) for name in ("upper", "lower")},
    "utf8_length": _function("length", pa.int32()),
    **{name: _function(name, pa.int64()) for name in ("year", "quarter", "month", "day")},
    "cast": _cast,
}
"""Arrow's functions -> how each is written. A function that is not here is refused."""
