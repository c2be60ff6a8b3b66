"""Plain conditions, read without the SQL parser: columns and constants, IN, IS NULL, AND, OR, NOT, brackets.

What lives here: :func:`read`, :func:`pieces` and :func:`constant`. They answer for text of which every
character is accounted for, and leave anything else, with all that is refused, to ``syntax`` and ``resolver``;
what they answer is what these two would say. The parser takes a tenth of a second to load and seconds for
a hundred thousand constants.
What it does not know: nested fields, functions, casts, brackets around a single column or constant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import DeltaError
from deltanb.schema.types import StructType
from deltanb.sql.constants import COMMA, CONSTANT, EACH, SPACE, literal
from deltanb.sql.expressions import Column, Expression, Literal, boolean, joined, negate
from deltanb.sql.members import folded
from deltanb.sql.names import resolve_column
from deltanb.sql.operands import Operands

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

MAX_DEPTH = 16
"""Brackets in brackets that are followed; people write three."""

_TERM = re.compile(
    rf"{SPACE}*(?P<term>(?:(?P<name>[a-z_][a-z_0-9]*)(?![^ \t\r\n=<>!])|`(?P<quoted>[^`\\]+)`){SPACE}*(?:"
    rf"(?P<sign>=|<>|!=|<=|>=|<|>){SPACE}*(?:(?<={SPACE})|(?!-))(?P<constant>{CONSTANT})"
    rf"|(?<=[ \t\r\n`])is{SPACE}+(?P<not_null>not{SPACE}+)?(?P<null>null)"
    rf"|(?<=[ \t\r\n`])(?P<not_in>not{SPACE}+)?in{SPACE}*\({SPACE}*"
    rf"(?P<list>{CONSTANT}(?:{COMMA}{CONSTANT})*){SPACE}*\))"
    rf"|(?P<first>{CONSTANT}){SPACE}*(?P<mirrored>=|<>|!=|<=|>=|<|>){SPACE}*"
    rf"(?:(?P<last>[a-z_][a-z_0-9]*)|`(?P<last_quoted>[^`\\]+)`))"
    rf"(?={SPACE}|\)|\Z)", re.I | re.ASCII)
_BEFORE = re.compile(rf"{SPACE}*(?P<word>\(|not(?={SPACE}|\())", re.I | re.ASCII)
"""What may stand before a term, and :data:`_AFTER` what may stand behind it."""
_AFTER = re.compile(rf"{SPACE}*(?P<word>\)|(?<={SPACE})(?:and|or)(?={SPACE}|\())", re.I | re.ASCII)
_END = re.compile(rf"{SPACE}*\Z")
_SIGNS = {"=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@dataclass(frozen=True, slots=True)
class _Token:
    """A term, or one of the words ``and``, ``or``, ``not``, ``(`` and ``)``; where it begins and ends."""

    word: str
    start: int
    end: int
    term: re.Match[str] | None = None


def read(sql: str, schema: StructType) -> Expression | None:
    """The condition, resolved over the columns of a schema; None where the parser has to say what it is.

    >>> from deltanb.schema.types import PrimitiveType, StructField
    >>> schema = StructType([StructField("id", PrimitiveType("integer"))])
    >>> read("(ID = 1 OR id IN (2, 3))", schema).extra.values
    (1, 2, 3)
    >>> read("abs(id) = 1", schema), read("id = 1 OR (id) = 2", schema)
    (None, None)
    """
    tokens = _tokens(sql)
    if tokens is None:
        return None
    try:
        return _Reader(sql, schema, tokens).junction()
    except (DeltaError, ValueError, _NotPlain):  # told again by who knows the place
        return None


def pieces(sql: str) -> list[str] | None:
    """The texts that AND joins, as :func:`deltanb.sql.syntax.split` has them; None where that has to look.

    >>> pieces("a = 'x AND y'  AND b IS NULL"), pieces("a = 1 OR b = 2"), pieces("a BETWEEN 1 AND 2")
    (["a = 'x AND y'", 'b IS NULL'], ['a = 1 OR b = 2'], None)
    """
    tokens = _tokens(sql)
    return None if tokens is None else _split(sql, tokens)


def constant(sql: str) -> Literal | None:
    """The constant that a whole text is; None where the parser has to say what it is.

    >>> constant("-1.50"), constant("1 + 1")
    (Literal(value=Decimal('-1.50'), type=Decimal128Type(decimal128(3, 2))), None)
    """
    if not EACH.fullmatch(sql) or not _is_whole(sql):
        return None
    try:
        return literal(sql)
    except ValueError:
        return None


def _tokens(sql: str) -> list[_Token] | None:
    """The terms and what joins them, without a character between them that is not understood."""
    found: list[_Token] = []
    place = depth = 0
    wanted = True  # a term, and not what may stand behind one
    while not (not wanted and depth == 0 and _END.match(sql, place)):
        match = (_BEFORE if wanted else _AFTER).match(sql, place)
        word, is_term = match["word"].lower() if match else "", False
        if match is None and wanted:
            match, is_term = _TERM.match(sql, place), True
        if match is None or (is_term and _is_reserved(match["name"] or match["last"])):
            return None
        depth += (word == "(") - (word == ")")
        if not 0 <= depth <= MAX_DEPTH:
            return None
        name = "term" if is_term else "word"
        found.append(_Token(word, match.start(name), match.end(name), match if is_term else None))
        wanted = not is_term and word != ")"
        place = match.end()
    return found if _is_whole(sql) else None


def _split(sql: str, tokens: Sequence[_Token]) -> list[str]:
    """Where AND joins them outside of brackets; brackets around all of them count for nothing, once."""
    inside = tokens[1:-1] if _is_in_brackets(tokens) else tokens
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in inside:
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word == "or":
            return [sql]
        if depth == 0 and token.word == "and":
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) == 1:
        return [sql]
    return [text for part in parts
            for text in _split(sql[part[0].start:part[-1].end], [_moved(one, part[0].start) for one in part])]


def _is_in_brackets(tokens: Sequence[_Token]) -> bool:
    if tokens[0].word != "(":
        return False
    depth = 0
    for token in tokens[:-1]:
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0:
            return False
    return True


def _moved(token: _Token, by: int) -> _Token:
    return _Token(token.word, token.start - by, token.end - by)


def _is_reserved(name: str | None) -> bool:
    return name is not None and (name.lower() in RESERVED or name.lower().startswith("current_"))


def _is_whole(sql: str) -> bool:
    """Whether no character is half of one, which no file can hold."""
    return sql.isascii() or not any("\ud800" <= character <= "\udfff" for character in sql)


class _NotPlain(Exception):
    """Something that only the parser understands."""


class _Reader:
    """Reads tokens, which stand in an order that makes a condition, from the first to the last."""

    def __init__(self, sql: str, schema: StructType, tokens: list[_Token]) -> None:
        self._operands = Operands(sql)
        self._sql, self._schema = sql, schema
        self._columns: dict[str, Column] = {}
        self._tokens, self._place = tokens, 0

    def _next(self, *words: str) -> _Token | None:
        """The next token, where it is one of these words, and past it; of terms the word is empty."""
        if self._place < len(self._tokens) and self._tokens[self._place].word in words:
            self._place += 1
            return self._tokens[self._place - 1]
        return None

    def junction(self) -> Expression:
        """Terms that OR joins, each of terms that AND joins; up to a bracket that closes, or the end."""
        found = [self._conjunction()]
        while self._next("or"):
            found.append(self._conjunction())
        return joined("or", folded("or", found))

    def _conjunction(self) -> Expression:
        found = [self._single()]
        while self._next("and"):
            found.append(self._single())
        return joined("and", folded("and", found))

    def _single(self) -> Expression:
        is_negated = False
        while self._next("not"):  # a program may write thousands of them
            is_negated = not is_negated
        found = self._positive()
        return negate(found) if is_negated else found

    def _positive(self) -> Expression:
        if self._next("("):
            found = self.junction()
            self._next(")")
            return found
        token = self._next("")
        assert token is not None and token.term is not None
        return self._term(token.term)

    def _term(self, term: re.Match[str]) -> Expression:
        if term["first"]:
            other = self._column(term["last_quoted"] or term["last"])
            return self._operands.compare(_SIGNS[term["mirrored"]], literal(term["first"]), other)
        column = self._column(term["quoted"] or term["name"])
        if term["sign"]:
            return self._operands.compare(_SIGNS[term["sign"]], column, literal(term["constant"]))
        if term["null"]:
            found: Expression = boolean("is_null", column)
            return negate(found) if term["not_null"] else found
        found = self._operands.is_one_of_texts(column, term["list"])
        return negate(found) if term["not_in"] else found

    def _column(self, name: str) -> Column:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = resolve_column(self._sql, self._schema, [name], "")
            if t.is_nested(found.type) or isinstance(found.type, pa.BaseExtensionType):
                raise _NotPlain
        return found
