"""DDL in Spark's SQL: types and columns as text.

What lives here: a small parser over sqlglot's Spark tokens for what stands between the brackets of CREATE
TABLE and after ADD COLUMNS: ``name type [NOT NULL] [DEFAULT …] [COMMENT '…'] [FIRST | AFTER name]``.
sqlglot cuts the text, and no more: its own reading of DDL leaves out the type in ``name: type``, knows
neither ``void`` nor ``struct<>``, takes ``text``, ``int[]`` and ``int(3)`` for types, which Spark has not,
and writes anew the text of an expression, which the log is to hold as it was written.
What it does not know: tables, and whether a column may be added to one.

>>> str(parse_type("array<struct<a: int, b: decimal(10, 2)>>"))
'array<struct<a: integer, b: decimal(10,2)>>'
>>> [column.field.name for column in parse_columns("id BIGINT NOT NULL, `a b` STRING COMMENT 'x' FIRST")]
['id', 'a b']
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from deltanb.errors import InvalidSchema
from deltanb.schema.intervals import DAY_TO_SECOND, SPELLINGS, YEAR_TO_MONTH
from deltanb.schema.paths import Position, parse_path, quoted, recorded_name
from deltanb.schema.types import (
    CHAR_KEY,
    MAX_PRECISION,
    SQL_NAMES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from deltanb.text.safe_text import shown

__all__ = [
    "ColumnDefinition", "parse_columns", "parse_position", "parse_schema", "parse_type",
]

CURRENT_DEFAULT = "CURRENT_DEFAULT"
GENERATION_EXPRESSION = "delta.generationExpression"
MAX_LENGTH = 2**31 - 1  # of char and varchar
_MAX_DIGITS = 4  # of a decimal's size that are read: one that has more is too large anyhow

_DECIMALS = ("decimal", "dec", "numeric")
_CLAUSES = ("comment", "generated", "first", "after")
_OPENING, _CLOSING = (TokenType.L_PAREN, TokenType.CASE), (TokenType.R_PAREN, TokenType.END)


@dataclass(frozen=True)
class ColumnDefinition:
    """One column as DDL describes it.

    ``path`` ends with the column's own name, as does ``field``; ``position`` is None for the end.
    """

    path: tuple[str, ...]
    field: StructField
    position: Position | None = None


def parse_type(text: str) -> DataType:
    """A type from SQL: ``bigint``, ``decimal(10,2)``, ``array<…>``, ``map<…, …>``, ``struct<a: …>``.

    ``char(n)`` and ``varchar(n)`` are strings; their length is a column's matter, see
    :func:`parse_columns`.

    Raises:
        InvalidSchema: no type, with the place.
    """
    parser = _Parser(text)
    data_type = parser.type()
    parser.end()
    return data_type


def parse_columns(text: str) -> list[ColumnDefinition]:
    """Column definitions between commas.

    ``COMMENT`` is kept in the field's metadata, as are ``DEFAULT`` (``CURRENT_DEFAULT``),
    ``GENERATED ALWAYS AS (…)`` (``delta.generationExpression``), ``GENERATED … AS IDENTITY`` and the
    length of ``char(n)`` and ``varchar(n)``: whether a table may have them is decided elsewhere.

    Raises:
        InvalidSchema: no such list, with the place.
    """
    parser = _Parser(text)
    columns = [parser.column()]
    while parser.take(TokenType.COMMA):
        columns.append(parser.column())
    parser.end()
    return columns


def parse_schema(text: str) -> StructType:
    """A table's schema from a list of column definitions.

    >>> str(parse_schema("id long NOT NULL, tags array<string>"))
    'struct<id: long not null, tags: array<string>>'

    Raises:
        InvalidSchema: as :func:`parse_columns`, or a nested name or a position, which only ADD COLUMNS has.
    """
    columns = parse_columns(text)
    for column in columns:
        if len(column.path) > 1 or column.position is not None:
            raise InvalidSchema(
                f"column {quoted(column.path)} of the schema {text!r} has a nested name or a position; "
                "write nested fields as struct<…>, and columns in their order",
                column=quoted(column.path))
    return StructType(column.field for column in columns)


def parse_position(text: str) -> Position:
    """``first`` or ``after <name>``.

    >>> str(parse_position("after month"))
    'AFTER month'

    Raises:
        InvalidSchema: neither.
    """
    word, _, name = text.strip().partition(" ")
    if word.lower() == "first" and not name:
        return Position()
    if word.lower() == "after" and name.strip():
        path = parse_path(name.strip())
        if len(path) == 1:
            return Position(path[0])
    raise InvalidSchema(f"position {text!r} is neither 'first' nor 'after <name of a column beside it>'")


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidSchema(f"DDL is text, found {type(text).__name__}: {text!r:.80}")
        self.text = text
        try:
            self.tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(text)
        except SqlglotError as error:
            raise InvalidSchema(f"{text!r} is not valid DDL: {str(error).splitlines()[0]}") from None
        self.place = 0

    # -- tokens --------------------------------------------------------------------------------------

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self, *types: TokenType) -> Token | None:
        token = self.token
        if token is None or token.token_type not in types:
            return None
        self.place += 1
        return token

    def word(self, *words: str) -> bool:
        """Take these words (in any case), or none of them."""
        place, left = self.place, list(words)
        while left:
            token = self.tokens[place] if place < len(self.tokens) else None
            if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return False
            parts = token.text.lower().split()  # some versions of sqlglot make one token of START WITH
            if left[:len(parts)] != parts:
                return False
            place, left = place + 1, left[len(parts):]
        self.place = place
        return True

    def expect(self, kind: TokenType, what: str) -> Token:
        return self.take(kind) or self.fail(what)

    def end(self) -> None:
        if self.token is not None:
            self.fail("the end")

    def fail(self, what: str) -> NoReturn:
        token = self.token
        if token is None:
            place = "it ends there"
        else:
            place = f"found {self.text[token.start:token.end + 1]!r} at character {token.start + 1}"
        raise InvalidSchema(f"{self.text!r} is not valid DDL: {what} is expected, {place}")

    def string(self) -> str:
        text = self.expect(TokenType.STRING, "a text in quotes").text
        while True:  # adjacent strings are one with a quote between: 'it''s'
            more, last = self.token, self.tokens[self.place - 1]
            if more is None or more.token_type != TokenType.STRING or more.start != last.end + 1:
                return text
            text += "'" + more.text
            self.place += 1

    def name(self) -> str:
        token = self.token
        if token is None:
            self.fail("a name")
        if token.token_type != TokenType.IDENTIFIER and not re.fullmatch(r"\w+", token.text):
            self.fail("a name")
        if token.token_type == TokenType.STRING:
            self.fail("a name")
        self.place += 1
        return token.text

    # -- columns -------------------------------------------------------------------------------------

    def column(self) -> ColumnDefinition:
        path = [self.name()]
        while self.take(TokenType.DOT):
            path.append(self.name())
        data_type, metadata = self.type_of_column()
        nullable, position = True, None
        while self.token is not None and self.token.token_type != TokenType.COMMA:
            if self.word("not", "null"):
                nullable = False
            elif self.word("null"):
                nullable = True
            elif self.word("comment"):
                metadata["comment"] = self.string()
            elif self.word("default"):
                metadata[CURRENT_DEFAULT] = self.expression()
            elif self.word("generated"):
                metadata.update(self.generated())
            elif self.word("first"):
                position = Position()
            elif self.word("after"):
                position = Position(self.name())
            else:
                self.fail("NOT NULL, DEFAULT, COMMENT, FIRST, AFTER or a comma")
        field = StructField(path[-1], data_type, nullable, metadata)
        return ColumnDefinition(tuple(path), field, position)

    def expression(self) -> str:
        """The text up to the next clause or comma outside brackets."""
        start, depth = self.place, 0
        while (token := self.token) is not None:
            if depth == 0 and (token.token_type == TokenType.COMMA or (
                    self.place > start and self._clause_begins(token))):
                break
            depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            self.place += 1
        if self.place == start:
            self.fail("an expression")
        return self.text[self.tokens[start].start:self.tokens[self.place - 1].end + 1]

    def _clause_begins(self, token: Token) -> bool:
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return False
        if token.token_type == TokenType.NOT:  # but 'x IS NOT NULL' is an expression
            following = self.tokens[self.place + 1:self.place + 2]
            before = self.tokens[self.place - 1].token_type
            return before != TokenType.IS and [t.token_type for t in following] == [TokenType.NULL]
        return token.text.lower() in _CLAUSES

    def generated(self) -> dict[str, Any]:
        always = self.word("always")
        if not always and not self.word("by", "default"):
            self.fail("ALWAYS or BY DEFAULT")
        if not self.word("as"):
            self.fail("AS")
        if self.word("identity"):
            return self.identity(by_default=not always)
        opening = self.expect(TokenType.L_PAREN, "an expression in brackets")
        depth = 1
        while depth:
            token = self.token
            if token is None:
                self.fail("a closing bracket")
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.place += 1
        closing = self.tokens[self.place - 1]
        return {GENERATION_EXPRESSION: self.text[opening.end + 1:closing.start].strip()}

    def identity(self, by_default: bool) -> dict[str, Any]:
        start = step = 1
        if self.take(TokenType.L_PAREN):
            while not self.take(TokenType.R_PAREN):
                if self.word("start", "with"):
                    start = self.integer()
                elif self.word("increment", "by"):
                    step = self.integer()
                else:
                    self.fail("START WITH or INCREMENT BY")
        return {"delta.identity.start": start, "delta.identity.step": step,
                "delta.identity.allowExplicitInsert": by_default}

    def integer(self) -> int:
        sign = -1 if self.take(TokenType.DASH) else 1
        return sign * int(self.expect(TokenType.NUMBER, "a number").text)

    def type_of_column(self) -> tuple[DataType, dict[str, Any]]:
        """The type behind a name, and what of it is metadata."""
        self.take(TokenType.COLON)
        data_type, char = self.type_and_length()
        return data_type, {CHAR_KEY: char} if char else {}

    # -- types ---------------------------------------------------------------------------------------

    def type(self) -> DataType:
        return self.type_and_length()[0]

    def type_and_length(self) -> tuple[DataType, str | None]:
        """The type, and ``char(n)`` or ``varchar(n)`` where it is one."""
        token = self.token
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            self.fail("a type")
        name = token.text.lower()
        self.place += 1
        if name == "struct" and self.take(TokenType.NEQ):  # struct<>
            return StructType(), None
        if name in ("array", "map", "struct"):
            self.expect(TokenType.LT, "'<'")
            data_type: DataType = getattr(self, "_" + name)()
            self.expect(TokenType.GT, "'>'")
            return data_type, None
        if name in _DECIMALS:
            return self._decimal(), None
        if name in ("char", "character", "varchar") and self.take(TokenType.L_PAREN):
            length = self.expect(TokenType.NUMBER, "a length").text
            self.expect(TokenType.R_PAREN, "')'")
            if len(length) > len(str(MAX_LENGTH)) or not 1 <= int(length) <= MAX_LENGTH:
                raise InvalidSchema(
                    f"{self.text!r}: {name} has a length from 1 to {MAX_LENGTH}, found {shown(length)}")
            return PrimitiveType("string"), f"{'varchar' if name == 'varchar' else 'char'}({length})"
        if name == "interval":
            return PrimitiveType(self._interval()), None
        if name not in SQL_NAMES:
            self.place -= 1
            self.fail(f"a type ({', '.join(SQL_NAMES)}, decimal(p,s), array<…>, map<…>, struct<…>)")
        return PrimitiveType(SQL_NAMES[name]), None

    def _decimal(self) -> PrimitiveType:
        precision, scale = 10, 0
        if self.take(TokenType.L_PAREN):
            precision = int(self.expect(TokenType.NUMBER, "a precision").text[:_MAX_DIGITS])
            if self.take(TokenType.COMMA):
                scale = int(self.expect(TokenType.NUMBER, "a scale").text[:_MAX_DIGITS])
            self.expect(TokenType.R_PAREN, "')'")
        if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
            raise InvalidSchema(
                f"{self.text!r}: decimal({precision},{scale}) is not a type; the precision is 1 to "
                f"{MAX_PRECISION}, the scale at most that")
        return PrimitiveType(f"decimal({precision},{scale})")

    def _interval(self) -> str:
        """The type of ``year [to month]``, ``day [to second]`` and so on."""
        first = self.name().lower()
        last = f" to {self.name().lower()}" if self.word("to") else ""
        known = SPELLINGS.get(f"interval {first}{last}")
        if known is None:
            raise InvalidSchema(f"{self.text!r}: interval {first}{last} is not a type; there are "
                                f"{YEAR_TO_MONTH} and {DAY_TO_SECOND}, and parts of these two")
        return known

    def _array(self) -> ArrayType:
        return ArrayType(self.type())

    def _map(self) -> MapType:
        key = self.type()
        self.expect(TokenType.COMMA, "','")
        return MapType(key, self.type())

    def _struct(self) -> StructType:
        fields: list[StructField] = []
        while self.token is not None and self.token.token_type != TokenType.GT:
            if fields:
                self.expect(TokenType.COMMA, "','")
            name = self.name()
            data_type, metadata = self.type_of_column()
            nullable = not self.word("not", "null")
            if self.word("comment"):
                metadata["comment"] = self.string()
            fields.append(StructField(name, data_type, nullable, metadata))
        return StructType(fields)


def field_for_log(path: Sequence[str], field: StructField) -> dict[str, Any]:
    """A column as ``operationParameters`` name one: name, name of the type, nullable, metadata.

    >>> field_for_log(["a", "b"], StructField("b", PrimitiveType("long")))
    {'name': 'a.b', 'type': 'long', 'nullable': True, 'metadata': {}}
    """
    value = field.type.to_dict()
    return {
        "name": recorded_name(path), "type": value if isinstance(value, str) else value["type"],
        "nullable": field.nullable, "metadata": json.loads(json.dumps(field.metadata)),
    }
