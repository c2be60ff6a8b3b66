"""Plain conditions, read without the SQL parser: columns compared with constants, IN, IS NULL, one AND or OR.

What lives here: :func:`read`, :func:`pieces` and :func:`constant`. They answer for text of which every
character is accounted for, and leave anything else, with all that is refused, to ``syntax`` and ``resolver``;
what they answer is what these two would say. The parser takes a tenth of a second to load and seconds for
a hundred thousand constants.
What it does not know: nested fields, functions, casts, brackets other than those of an IN.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import DeltaError
from deltanb.schema.types import StructType
from deltanb.sql.coercion import INTEGER_BOUNDS, is_text
from deltanb.sql.expressions import Column, Expression, Literal, boolean, joined, negate
from deltanb.sql.members import Members, folded
from deltanb.sql.names import resolve_column
from deltanb.sql.operands import Operands, integer

_WORDS = """
all alter analyze and any array as asc begin between cache call case cast comment commit connect_by_root copy
create cross cube declare default delete desc describe distinct div drop else end escape except execute exists
explain false fetch filter for from full glob grant group grouping having if ilike in inner insert
intersect interval into is isnull join kill lateral left like limit list load local localtime
localtimestamp map merge minus natural not notnull null nullable object offset on optimize or order outer
over partition partitioned_by pivot pragma prepare prior qualify range refresh regexp rename returning
revoke right rlike rollback rollup row rows select semi serdeproperties session_user set show some struct
sysdate systimestamp table tablesample then top true truncate try_cast uncache union unique unnest
unpivot update use user using vacuum values variant when where window with within xor
"""
RESERVED = frozenset(_WORDS.split())
"""Words that are more than a name, at least to some version of the parser; so are those that begin
``current_``."""

_NUMBER, _TEXT, _SPACE = r"[0-9]{1,18}(?:\.[0-9]{1,18})?", r"'[^'\\]*'", r"[ \t\r\n]"
_CONSTANT = rf"(?:-?{_NUMBER}|{_TEXT}|(?:true|false|null)\b)"
_COMMA = rf"{_SPACE}*,{_SPACE}*"
_TERM = re.compile(
    rf"{_SPACE}*(?P<term>(?:(?P<name>[a-z_][a-z_0-9]*)(?![^ \t\r\n=<>!])|`(?P<quoted>[^`\\]+)`){_SPACE}*(?:"
    rf"(?P<sign>=|<>|!=|<=|>=|<|>){_SPACE}*(?:(?<={_SPACE})|(?!-))(?P<constant>{_CONSTANT})"
    rf"|(?<=[ \t\r\n`])is{_SPACE}+(?P<not_null>not{_SPACE}+)?(?P<null>null)"
    rf"|(?<=[ \t\r\n`])(?P<not_in>not{_SPACE}+)?in{_SPACE}*\({_SPACE}*"
    rf"(?P<list>{_CONSTANT}(?:{_COMMA}{_CONSTANT})*){_SPACE}*\)))"
    rf"(?:{_SPACE}+(?P<join>and|or)(?={_SPACE})|{_SPACE}*(?P<end>\Z))", re.I | re.ASCII)
_INTEGERS, _TEXTS = (re.compile(rf"(?:{one}|null)(?:{_COMMA}(?:{one}|null))*", re.I | re.ASCII)
                     for one in ("-?[0-9]{1,18}", _TEXT))
_EACH = re.compile(_CONSTANT, re.I | re.ASCII)
_SIGNS = {"=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def read(sql: str, schema: StructType) -> Expression | None:
    """The condition, resolved over the columns of a schema; None where the parser has to say what it is.

    >>> from deltanb.schema.types import PrimitiveType, StructField
    >>> schema = StructType([StructField("id", PrimitiveType("integer"))])
    >>> read("ID = 1 OR id IN (2, 3)", schema).extra.values
    (1, 2, 3)
    >>> read("abs(id) = 1", schema), read("id = 1 OR id = 2 AND id = 3", schema)
    (None, None)
    """
    terms = _terms(sql)
    if terms is None:
        return None
    reader = _Reader(sql, schema)
    try:
        found = [reader.term(term) for term in terms]
    except (DeltaError, _NotPlain):  # told again by who knows the place
        return None
    op = (terms[0]["join"] or "and").lower()
    return joined(op, folded(op, found))


def pieces(sql: str) -> list[str] | None:
    """The texts that AND joins, as :func:`deltanb.sql.syntax.split` has them; None where that has to look.

    >>> pieces("a = 'x AND y'  AND b IS NULL"), pieces("a = 1 OR b = 2"), pieces("a BETWEEN 1 AND 2")
    (["a = 'x AND y'", 'b IS NULL'], ['a = 1 OR b = 2'], None)
    """
    terms = _terms(sql)
    if terms is None:
        return None
    is_or = (terms[0]["join"] or "").lower() == "or"
    return [sql] if len(terms) == 1 or is_or else [term["term"] for term in terms]


def constant(sql: str) -> Literal | None:
    """The constant that a whole text is; None where the parser has to say what it is.

    >>> constant("-1.50"), constant("1 + 1")
    (Literal(value=Decimal('-1.50'), type=Decimal128Type(decimal128(3, 2))), None)
    """
    return _literal(sql) if _EACH.fullmatch(sql) and _is_whole(sql) else None


def _terms(sql: str) -> list[re.Match[str]] | None:
    """The terms, all joined in one way, without a character between them that is not understood."""
    found: list[re.Match[str]] = []
    place = 0
    while not found or found[-1]["end"] is None:
        term = _TERM.match(sql, place)
        if term is None or _is_reserved(term["name"]):
            return None
        found.append(term)
        place = term.end()
    if len({term["join"].lower() for term in found[:-1]}) > 1 or not _is_whole(sql):
        return None
    return found


def _is_reserved(name: str | None) -> bool:
    return name is not None and (name.lower() in RESERVED or name.lower().startswith("current_"))


def _is_whole(sql: str) -> bool:
    """Whether no character is half of one, which no file can hold."""
    return sql.isascii() or not any("\ud800" <= character <= "\udfff" for character in sql)


class _NotPlain(Exception):
    """Something that only the parser understands."""


class _Reader:
    def __init__(self, sql: str, schema: StructType) -> None:
        self._operands = Operands(sql)
        self._sql, self._schema = sql, schema
        self._columns: dict[str, Column] = {}

    def term(self, term: re.Match[str]) -> Expression:
        column = self._column(term["quoted"] or term["name"])
        if term["sign"]:
            return self._operands.compare(_SIGNS[term["sign"]], column, _literal(term["constant"]))
        if term["null"]:
            found: Expression = boolean("is_null", column)
            return negate(found) if term["not_null"] else found
        found = self._member(column, term["list"])
        return negate(found) if term["not_in"] else found

    def _column(self, name: str) -> Column:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = resolve_column(self._sql, self._schema, [name], "")
            if t.is_nested(found.type) or isinstance(found.type, pa.BaseExtensionType):
                raise _NotPlain
        return found

    def _member(self, column: Column, text: str) -> Expression:
        values = _values(column.type, text)
        if values is None:
            return self._operands.is_one_of(column, [_literal(one) for one in _EACH.findall(text)])
        return boolean("in", column, extra=Members.of(values, column.type))


def _values(kind: pa.DataType, text: str) -> list[Any] | None:
    """Several constants that are values of a column as they stand; None where each has to be looked at."""
    values: list[Any]
    if t.is_integer(kind) and _INTEGERS.fullmatch(text):
        values = [None if one[0] in "nN" else int(one) for one in _EACH.findall(text)]
        bound, known = INTEGER_BOUNDS[kind], [value for value in values if value is not None] or [0]
        return values if len(values) > 1 and -bound <= min(known) and max(known) < bound else None
    if is_text(kind) and _TEXTS.fullmatch(text):
        values = [None if one[0] in "nN" else one[1:-1] for one in _EACH.findall(text)]
        return values if len(values) > 1 else None
    return None


def _literal(text: str) -> Literal:
    """A constant in the type that Spark gives it."""
    if text[0] == "'":
        return Literal(text[1:-1], pa.string())
    word = text.lower()
    if word in ("true", "false"):
        return Literal(word == "true", pa.bool_())
    if word == "null":
        return Literal(None, pa.null())
    if "." not in text:
        return integer(int(text))
    number = Decimal(text)
    scale = -int(number.as_tuple().exponent)
    return Literal(number, pa.decimal128(max(len(number.as_tuple().digits), scale), scale))
