"""Statements as text: words, names, brackets, and where each of them stands.

What lives here: :class:`Cursor`, which the grammars of all statements read with; :class:`Sql`, a slice of the
text as it was written; :class:`Name`, what a statement calls a table.
What it does not know: any statement, any table. The text is cut by sqlglot's tokenizer for Spark, which is
loaded with the first text: the table of statements is had without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, TypeVar

from deltanb.errors import DeltaError, InvalidQuery
from deltanb.text.formatting import did_you_mean

T = TypeVar("T")

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
QUERY_WORDS = ("SELECT", "VALUES", "WITH", "FROM", "TABLE")
_BEHIND_A_NAME = (*QUERY_WORDS, "BY", "REPLACE", "PARTITION", "WHERE", "ZORDER", "FULL", "TO", "VERSION",
                  "TIMESTAMP", "LIMIT")
"""Words before which TABLE is a name: many call a table so."""


@cache
def _dialect() -> Any:
    """Spark's dialect, of which every word is a token: sqlglot keeps what follows SHOW as one text."""
    from sqlglot.dialects.spark import Spark

    class AllWords(Spark):
        class Tokenizer(Spark.Tokenizer):
            COMMANDS: set[Any] = set()  # noqa: RUF012  # as sqlglot wants it

    return AllWords()


@dataclass(frozen=True)
class Word:
    """One token: a word, a quoted name, a text in quotes, a number, or a sign."""

    kind: str
    """``word``, ``name``, ``text``, ``number`` or ``sign``."""
    text: str
    """What it means: a text without its quotes."""
    start: int
    end: int
    """Where it stands in the text; the end is behind it."""

    def is_word(self, *words: str) -> bool:
        """Whether it is one of some words, in any case."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of some signs."""
        return self.kind == "sign" and self.text in signs


@dataclass(frozen=True)
class Sql:
    """A part of a statement as it was written, and the parameters in it.

    >>> condition = Cursor.over("month = :m").expression()
    >>> condition.text, condition.bound(lambda name: "12")
    ('month = :m', 'month = 12')
    """

    text: str
    parameters: tuple[tuple[int, int, str], ...] = ()
    """Where each of them is, from the beginning of this text, and its name."""
    qualifiers: tuple[tuple[int, int, str], ...] = ()
    """Names before a dot that may be the table's: where they are, with the dot."""

    def bound(self, value: Callable[[str], str], unqualified: Container[str] = ()) -> str:
        """The text with literals for its parameters, and without the names of ``unqualified`` before dots."""
        edits = [(start, end, value(name)) for start, end, name in self.parameters]
        edits += [(start, end, "") for start, end, name in self.qualifiers
                  if name.lower() in unqualified]
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    @property
    def is_parameter(self) -> bool:
        """Whether it is one parameter and nothing else."""
        return len(self.parameters) == 1 and self.parameters[0][:2] == (0, len(self.text))


@dataclass(frozen=True)
class Name:
    """What a statement calls a table: a variable, a table of a catalog, a path, at a version or now."""

    parts: tuple[str, ...]
    moment: int | str | None = None
    is_quoted: bool = False
    """Whether it is one text in quotes, as a path is."""
    changes = None
    """A query's reference may be to a table's changes instead of its rows; no statement's name is."""

    @property
    def text(self) -> str:
        """The name as a person says it."""
        return ".".join(self.parts)

    @property
    def path(self) -> str | None:
        """The path that it surely is."""
        path = path_of(self.parts)
        return self.parts[0] if path is None and self.is_quoted else path


def path_of(parts: Sequence[str], format: str = "delta") -> str | None:
    """The path of a name like ``delta.`lake/flights```; None of any other.

    >>> path_of(("Delta", "lake/flights")), path_of(("shop", "orders"))
    ('lake/flights', None)
    """
    return parts[1] if len(parts) == 2 and parts[0].lower() == format else None


_PATH_AT = re.compile(r"(?P<path>.+)@(?:[vV](?P<version>\d{1,18})|"
                      r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3}))", re.DOTALL)


def split_moment(path: str) -> tuple[str, int | str | None]:
    """A path that may end in ``@v3``, or in ``@`` and a time as ``yyyyMMddHHmmssSSS``, and what it ends in.

    >>> split_moment("lake/flights@v3"), split_moment("lake/flights@20260301120000500"), split_moment("a@b")
    (('lake/flights', 3), ('lake/flights', '2026-03-01 12:00:00.500'), ('a@b', None))
    """
    match = _PATH_AT.fullmatch(path)
    if match is None:
        return path, None
    if match["version"]:
        return match["path"], int(match["version"])
    year, month, day, *time, milliseconds = match.groups()[2:]
    return match["path"], f"{year}-{month}-{day} {':'.join(time)}.{milliseconds}"


class Cursor:
    """A place in a text of statements; what is taken moves it on.

    >>> cursor = Cursor.over("DELETE FROM delta.`lake/flights` WHERE month = 1")
    >>> cursor.take("DELETE", "FROM"), cursor.table().path, cursor.take("WHERE"), cursor.expression().text
    (True, 'lake/flights', True, 'month = 1')
    """

    def __init__(self, sql: str, words: list[Word]) -> None:
        self.sql = sql
        self.words = words
        self.at = 0

    @classmethod
    def over(cls, sql: str) -> Cursor:
        """A cursor at the beginning of a text.

        Raises:
            InvalidQuery: the text cannot be cut into words: a quote is open.
        """
        from sqlglot.errors import SqlglotError

        from deltanb.sql.syntax import spark_tokens

        try:
            tokens = spark_tokens(sql, _dialect().tokenize(sql))
        except (SqlglotError, DeltaError) as error:
            raise InvalidQuery(
                f"this is not valid SQL, perhaps a quote or a comment is not closed: {_first_line(error)}",
                query=sql) from None
        return cls(sql, list(words_of(sql, tokens)))

    # -- where it is -----------------------------------------------------------------------------------

    @property
    def word(self) -> Word | None:
        """The next token; None at the end."""
        return self.words[self.at] if self.at < len(self.words) else None

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self.words)

    @property
    def start(self) -> int:
        """Where the next token stands in the text."""
        return self.words[self.at].start if not self.is_at_end else self.end

    @property
    def end(self) -> int:
        """The end of the last token of all."""
        return self.words[-1].end if self.words else len(self.sql)

    def statements(self) -> Iterator[Cursor]:
        """A cursor over each of the statements that semicolons separate."""
        first = 0
        for place, word in enumerate([*self.words, Word("sign", ";", len(self.sql), len(self.sql))]):
            if word.is_sign(";"):
                if place > first:
                    yield Cursor(self.sql, self.words[first:place])
                first = place + 1

    def place(self, start: int | None = None) -> tuple[int, int]:
        """Line and column, both from 1."""
        start = self.start if start is None else start
        return self.sql.count("\n", 0, start) + 1, start - self.sql.rfind("\n", 0, start)

    def fail(self, expected: str) -> NoReturn:
        """Refuse what is next.

        Raises:
            InvalidQuery: with its place.
        """
        word = self.word
        what = "the statement ends there" if word is None else f"found {self.sql[word.start:word.end]!r}"
        raise self.refused(f"{expected} is expected, {what}", None if word else self.end)

    def refused(self, why: str, start: int | None = None) -> InvalidQuery:
        """The error of what stands at a place, by default of what is next."""
        line, column = self.place(start)
        return InvalidQuery(f"{why} (line {line}, column {column})", query=self.sql, line=line,
                            position=column)

    # -- words and signs -------------------------------------------------------------------------------

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        ahead = self.words[self.at:self.at + len(words)]
        return len(ahead) == len(words) and all(
            one.is_word(word) for one, word in zip(ahead, words, strict=True))

    def take(self, *words: str) -> bool:
        """Take these words, or none of them."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def take_keyword_table(self) -> None:
        """Take the word TABLE, unless it is itself the name: ``INSERT INTO table VALUES …``."""
        if not self.sees("TABLE"):
            return
        one, two, three = (*self.words[self.at + 1:self.at + 4], None, None, None)[:3]
        if one is not None and one.is_word("TABLE"):  # TABLE table VALUES …, or table TABLE other
            is_keyword = two is None or two.kind == "sign" or (
                three is not None if two.is_word("TABLE") else two.is_word(*_BEHIND_A_NAME))
        else:
            is_keyword = one is not None and one.kind != "sign" and not one.is_word(*_BEHIND_A_NAME)
        self.at += is_keyword

    def take_any(self, *words: str) -> str:
        """Take one of some words and return it in capitals, or the empty text."""
        word = self.word
        if word is None or not word.is_word(*words):
            return ""
        self.at += 1
        return word.text.upper()

    def expect(self, *words: str) -> None:
        """Take these words.

        Raises:
            InvalidQuery: something else comes next.
        """
        if not self.take(*words):
            self.fail(" ".join(words))

    def sees_sign(self, *signs: str) -> bool:
        """Whether one of some signs comes next."""
        return self.word is not None and self.word.is_sign(*signs)

    @property
    def sees_text(self) -> bool:
        """Whether a text in quotes comes next."""
        return self.word is not None and self.word.kind == "text"

    def take_sign(self, *signs: str) -> str:
        """Take a sign and return it, or the empty text."""
        word = self.word
        if word is None or not word.is_sign(*signs):
            return ""
        self.at += 1
        return word.text

    def expect_sign(self, sign: str) -> None:
        """Take a sign.

        Raises:
            InvalidQuery: something else comes next.
        """
        if not self.take_sign(sign):
            self.fail(f"'{sign}'")

    def expect_end(self) -> None:
        """Refuse what is left.

        Raises:
            InvalidQuery: something is.
        """
        if not self.is_at_end:
            self.fail("the end of the statement")

    def listed(self, read: Callable[[], T]) -> list[T]:
        """What a function reads, once or more with commas between."""
        items = [read()]
        while self.take_sign(","):
            items.append(read())
        return items

    def bracketed(self, read: Callable[[], T]) -> list[T]:
        """The same in brackets."""
        self.expect_sign("(")
        items = self.listed(read)
        self.expect_sign(")")
        return items

    # -- names and values ------------------------------------------------------------------------------

    def name(self, what: str = "a name") -> str:
        """A name, quoted in backticks or not."""
        word = self.word
        if word is None or word.kind not in ("word", "name"):
            self.fail(what)
        self.at += 1
        return word.text

    def column(self, what: str = "the name of a column") -> Sql:
        """The name of a column, with dots and backticks as it was written."""
        first = self.at
        self.name(what)
        while self.take_sign("."):
            self.name("the name of a field")
        return self._slice(first, self.at)

    def columns(self) -> list[str]:
        """Names of columns in brackets."""
        return [column.text for column in self.bracketed(self.column)]

    def columns_or_one(self) -> list[str]:
        """Names of columns, in brackets or without them."""
        if self.sees_sign("("):
            return self.columns()
        return [column.text for column in self.listed(self.column)]

    def string(self, what: str = "a text in quotes") -> str:
        """A text in quotes."""
        word = self.word
        if word is None or word.kind != "text":
            self.fail(what)
        self.at += 1
        return word.text

    def number(self, what: str = "a number") -> str:
        """A number as it was written."""
        word = self.word
        if word is None or word.kind != "number":
            self.fail(what)
        self.at += 1
        return word.text

    def table(self) -> Name:
        """The name of a table, with the version or time at which it is meant."""
        if self.sees_text:
            return Name((self.string(),), self.moment(), is_quoted=True)
        parts = [self.name("the name of a table")]
        while self.take_sign("."):
            parts.append(self.name("the rest of the table's name"))
        return Name(tuple(parts), self.travel())

    def whole(self) -> Name:
        """The name of a table with all its versions, or of what has none."""
        start, name = self.start, self.table()
        self.refuse_moment(name, start)
        return name

    def refuse_moment(self, name: Name, start: int) -> None:
        """Refuse a version or time behind a name that stands at a place.

        Raises:
            InvalidQuery: the name has one.
        """
        if name.moment is not None:
            raise self.refused(f"{name.text} takes no version or time here; leave it out", start)

    def travel(self, or_fail: bool = True) -> int | str | None:
        """The version or time at which what is before is meant: ``@v3``, or as of :meth:`moment`.

        With ``or_fail=False`` nothing is taken of such words where no version or time is behind them.
        """
        version = self._at_version(or_fail)
        return self.moment(or_fail) if version is None else version

    def _at_version(self, or_fail: bool) -> int | None:
        """``@v3`` directly behind a name."""
        sign, version = (*self.words[self.at:self.at + 2], None, None)[:2]
        if sign is None or not sign.is_sign("@") or version is None or version.start != sign.end:
            return None
        before = self.words[self.at - 1]
        if sign.start != before.end or not re.fullmatch(r"[vV]\d{1,18}", version.text):
            is_slip = version.kind == "number" and before.kind != "sign" and sign.start == before.end
            return self.fail("@v and a version, such as @v3,") if or_fail or is_slip else None
        self.at += 2
        return int(version.text[1:])

    def moment(self, or_fail: bool = True) -> int | str | None:
        """``VERSION AS OF 3`` or ``TIMESTAMP AS OF '2026-03-01'``, where it comes next."""
        start = self.at
        self.take("FOR")
        kind = self.take_any("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
        if not (kind and self.take("AS", "OF")):
            self.at = start
            return None
        is_version = "VERSION" in kind
        if not is_version:
            self.take_any("TIMESTAMP", "DATE")
        word = self.word
        if word is not None and (word.kind == "text" or (is_version and word.kind == "number")) and (
                not is_version or re.fullmatch(r"\d{1,18}", word.text)):
            self.at += 1
            return int(word.text) if is_version else word.text
        if or_fail:
            self.fail("the number of a version" if is_version else
                      "a time in quotes, such as '2026-03-01 12:00:00',")
        self.at = start
        return None

    def alias(self, *stops: str) -> str | None:
        """Another name for a table, with or without AS; the words of ``stops`` are none.

        Raises:
            InvalidQuery: it is one of ``stops`` misspelt, since none of them is behind it.
        """
        if self.take("AS"):
            return self.name("another name for the table")
        word = self.word
        if word is None or word.kind not in ("word", "name") or word.is_word(*stops):
            return None
        self.at += 1
        if word.kind == "word" and self.word is not None and not self.word.is_word(*stops):
            _, meant = did_you_mean(word.text, stops, least=0.7)
            if meant:
                self.at -= 1
                self.fail(meant[0])
        return word.text

    # -- parts that stay as they were written ----------------------------------------------------------

    def expression(self, *stops: str, what: str = "an expression") -> Sql:
        """The text up to a comma, one of some words, or a bracket that closes what is around it."""
        first = self.at
        self._pass_over(stops, comma=True)
        if self.at == first:
            self.fail(what)
        return self._slice(first, self.at)

    def type(self, *stops: str) -> Sql:
        """The text of a type, in whose angle brackets commas may be."""
        first, depth = self.at, 0
        while (word := self.word) is not None and (depth or not (word.is_word(*stops) or word.is_sign(","))):
            if word.kind == "sign":
                depth += sum(map(word.text.count, "<(")) - sum(map(word.text.count, ">)"))
            self.at += 1
        if self.at == first:
            self.fail("a type")
        return self._slice(first, self.at)

    def brackets(self, what: str = "'('") -> Sql:
        """The text between two brackets."""
        if not self.take_sign("("):
            self.fail(what)
        first = self.at
        self._pass_over((), comma=False)
        inside = self._slice(first, self.at)
        self.expect_sign(")")
        return inside

    def rest(self) -> Sql:
        """All that is left."""
        first, self.at = self.at, len(self.words)
        return self._slice(first, self.at)

    def query(self) -> Sql:
        """A query to the end of the statement.

        Raises:
            InvalidQuery: no query comes next.
        """
        if not self.sees_query():
            self.fail("VALUES, SELECT or another query")
        return self.rest()

    def sees_query(self) -> bool:
        """Whether a query begins here."""
        return self.sees_sign("(") or (self.word is not None and self.word.is_word(*QUERY_WORDS))

    def _pass_over(self, stops: tuple[str, ...], comma: bool) -> None:
        depth = cases = 0
        while (word := self.word) is not None:
            if word.is_sign(*_OPENING):
                depth += 1
            elif word.is_sign(*_CLOSING):
                if not depth:
                    return
                depth -= 1
            elif word.is_word("CASE"):
                cases += 1
            elif cases and word.is_word("END"):
                cases -= 1
            elif not depth and not cases and (word.is_word(*stops) or (comma and word.is_sign(","))):
                return
            self.at += 1
        if depth:
            self.fail("a closing bracket")

    def _slice(self, first: int, last: int) -> Sql:
        """The text of some tokens, with the parameters and qualifying names in it."""
        words = self.words[first:last]
        if not words:
            return Sql("")
        start = words[0].start
        parameters, qualifiers = [], []
        for place, word in enumerate(words):
            follower = words[place + 1] if place + 1 < len(words) else None
            before = words[place - 1] if place else None
            if follower is not None and is_parameter(before, word, follower):
                parameters.append((word.start - start, follower.end - start, follower.text))
            elif word.is_sign("?") or (word.is_sign("$") and follower is not None
                                       and follower.kind == "number"):
                raise self.refused("a parameter has a name: write :name or $name", word.start)
            elif (word.kind in ("word", "name") and follower is not None and follower.is_sign(".")
                    and not (before is not None and before.is_sign("."))):
                qualifiers.append((word.start - start, follower.end - start, word.text))
        return Sql(self.sql[start:words[-1].end], tuple(parameters), tuple(qualifiers))


def is_parameter(before: Word | None, sign: Word, name: Word) -> bool:
    """Whether ``:name`` or ``$name`` stands there: neither ``a:b``, ``a[1:b]`` nor ``{'a':b}``."""
    if not sign.is_sign(":", "$") or name.kind != "word" or name.start != sign.end:
        return False
    if sign.text == "$":
        return True
    if before is None:
        return True
    touches = before.end == sign.start and before.kind != "sign"
    return not (touches or before.is_sign(")", "]", "["))


def words_of(sql: str, tokens: Iterable[Any]) -> Iterator[Word]:
    """sqlglot's tokens of a text as words, of which each stands somewhere in it."""
    from sqlglot.tokens import TokenType

    end = 0
    for token in tokens:
        if token.start < end:  # 5L is one number, for sqlglot a number and its type
            continue
        end = token.end + 1
        raw = sql[token.start:end]
        if token.token_type == TokenType.IDENTIFIER:
            yield Word("name", token.text, token.start, end)
        elif raw[-1:] in "'\"":
            yield Word("text", token.text, token.start, end)
        elif token.token_type == TokenType.NUMBER or re.match(r"\d+(\.\d*)?BD", raw, re.IGNORECASE):
            yield Word("number", token.text, token.start, end)
        elif re.match(r"[^\W\d]|\d\w", raw):
            for part in re.finditer(r"\S+", raw):  # GROUP BY is one token
                yield Word("word", part[0], token.start + part.start(), token.start + part.end())
        else:
            yield Word("sign", raw, token.start, end)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
