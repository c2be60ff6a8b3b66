"""Columns of PySpark's as SQL with the same meaning.

What lives here: :func:`text_of`, which reads what a ``Column`` says of itself, and SQL for it.
What it does not know: Spark; it is not asked, and need not run.

The one thing that a Column tells by its public API is its text: calls before their operands (``>(a, 1)``),
texts in quotes, all else bare. Only calls and literals that are known, and names of columns, are taken; all
else is refused by name, such as SQL of ``F.expr`` (which can be given as it is) and times (whose text depends
on the time zone of the JVM).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from deltanb.errors import UnsupportedPredicate
from deltanb.sql.arrow_conditions import name_of
from deltanb.sql.literals import text_literal
from deltanb.text.safe_text import with_cut

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.schema.types import StructType

__all__ = ["read", "text_of"]

_BETWEEN = {"and": "AND", "or": "OR", "=": "=", "<=>": "<=>", ">": ">", ">=": ">=", "<": "<", "<=": "<=",
            "+": "+", "-": "-", "*": "*", "%": "%", "like": "LIKE", "rlike": "RLIKE"}
_BEHIND = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL"}
_CALLS = frozenset({"startswith", "endswith", "contains", "upper", "lower", "length", "isNaN", "year",
                    "quarter", "month", "day", "hour", "minute", "second"})
_CALL = re.compile(r"([A-Za-z]\w*|[!<>=+*%-]+)\(")
_CAST = re.compile(
    r" AS (TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|STRING|BOOLEAN|DATE|DECIMAL\(\d+,\s?\d+\))\)")
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'", re.S)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?L?(?=[,)]|$| AS )")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?=[,)]|$)")
_WORDS = {"true": "TRUE", "false": "FALSE", "NULL": "NULL", "NaN": "CAST('NaN' AS DOUBLE)",
          "Infinity": "CAST('Infinity' AS DOUBLE)", "-Infinity": "CAST('-Infinity' AS DOUBLE)"}
_PART = r"(?:[A-Za-z_]\w*|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*(?=[,)]|$| AS )")


def text_of(column: Any, schema: StructType | pa.Schema) -> str:
    """The SQL of a PySpark column over the columns of a schema.

    Raises:
        UnsupportedPredicate: it holds what has no counterpart here, or is a column of Spark Connect.
    """
    text = str(column)
    if "connect" in type(column).__module__:  # its text has no quotes around texts
        _refuse(text, "a column of Spark Connect")
    if not text.startswith("Column<'") or not text.endswith("'>"):
        _refuse(text, "its form")
    return read(text[len("Column<'"):-len("'>")], schema.names)


def read(text: str, columns: Sequence[str] = ()) -> str:
    """The SQL of what a column says of itself.

    >>> read("and(>(a, 1), !(in(b, 'x', 'it\\\\'s')))")
    "((a > 1) AND (NOT (b IN ('x', 'it\\\\'s'))))"
    """
    reader = _Reader(text, columns)
    sql = reader.node()
    if reader.at != len(text):
        reader.refuse()
    return sql


class _Reader:
    """Reads a text from its beginning; ``at`` is how far it is."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text, self.at = text, 0
        self.names = frozenset(columns)
        self.columns = sorted((name for name in columns if not _NAME.fullmatch(name)), key=len, reverse=True)
        self.clashing = {name for name in columns if name.lower() in {word.lower() for word in _WORDS}}

    def node(self) -> str:
        """The next node, with all below it."""
        if (call := self._take(_CALL)) is not None:
            return self._call(call[1])
        if (quoted := self._take(_TEXT)) is not None:
            return text_literal(re.sub(r"\\(.)", r"\1", quoted[1], flags=re.S))
        if (date := self._take(_DATE)) is not None:
            return f"DATE '{date[0]}'"
        if (number := self._take(_NUMBER)) is not None:
            return number[0]
        for name in self.columns:  # a name that is no word stands there as it is
            if self.text.startswith(name, self.at) and self.text[self.at + len(name):][:1] in ("", ",", ")"):
                self.at += len(name)
                return name_of(name)
        for word, sql in _WORDS.items():
            if re.match(rf"{word}(?=[,)]|$| AS )", self.text[self.at:]) and not self.clashing:
                self.at += len(word)
                return sql
        if (column := self._take(_NAME)) is not None and self._is_column(column[0]):
            parts = re.findall(_PART, column[0])
            return ".".join(part if part.startswith("`") else name_of(part) for part in parts)
        return self.refuse()

    def _is_column(self, name: str) -> bool:
        """Whether a word may be a column, and is no literal: intervals are words, too."""
        return name in self.names or (name not in _WORDS and re.match(r"PT?\d", name) is None)

    def _call(self, name: str) -> str:
        if name == "CAST":
            inner, kind = self.node(), self._take(_CAST)
            return f"CAST({inner} AS {kind[1]})" if kind is not None else self.refuse()
        arguments = [] if self._takes(")") else [self.node()]
        while arguments and not self._takes(")"):
            if not self._takes(", "):
                self.refuse()
            arguments.append(self.node())
        match name, arguments:
            case _, [one, other] if name in _BETWEEN:
                return f"({one} {_BETWEEN[name]} {other})"
            case _, [one] if name in _BEHIND:
                return f"({one} {_BEHIND[name]})"
            case "!", [one]:
                return f"(NOT {one})"
            case "negative", [one]:
                return f"(- {one})"
            case "in", [one, *others] if others:
                return f"({one} IN ({', '.join(others)}))"
            case _ if name in _CALLS:
                return f"{name.lower()}({', '.join(arguments)})"
        return _refuse(self.text, f"the function {name}")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def _takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def refuse(self) -> NoReturn:
        """Refuse what comes next."""
        _refuse(self.text, repr(with_cut(self.text[self.at:], self.text[self.at:]) or "its end"))


def _refuse(text: str, what: str) -> NoReturn:
    raise UnsupportedPredicate(
        f"{what} in the PySpark column {with_cut(text, text)} has no counterpart here; write the condition "
        "as SQL", predicate=text)
