"""Constants as most people write them: each in the type that Spark gives it, and thousands of them at once.

What lives here: what a constant looks like, :func:`literal` for one, :func:`values` for a list of them that
are values of a column as they stand, and :func:`cut`, which spares the SQL parser long lists.
What it does not know: the SQL parser, other escapes than `\\'` and `\\\\`, what a condition is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.schema.types import primitives
from deltanb.sql.coercion import (
    EXACT,
    INTEGER_BOUNDS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    UTC,
    is_text,
    read_text,
)
from deltanb.sql.expressions import Literal

SPACE = r"[ \t\r\n]"
_DIGITS, _BARE, _TEXT = "[0-9]{1,18}", r"'[^'\\]*'", r"'[^'\\]*(?:\\['\\][^'\\]*)*'"
_NUMBER = rf"-?{_DIGITS}(?:\.{_DIGITS})?"
_TYPED = rf"(?:date|timestamp|timestamp_ntz){SPACE}*{_BARE}"
CONSTANT = rf"(?:{_NUMBER}(?:bd|e[+-]?[0-9]{{1,3}})?|{_TEXT}|{_TYPED}|(?:true|false|null)\b)"
COMMA = rf"{SPACE}*,{SPACE}*"
EACH = re.compile(CONSTANT, re.I | re.ASCII)
_ESCAPED = re.compile(r"\\(.)")

MANY = 1_000
"""Characters from which a list is cut out: the parser takes some ten milliseconds for so many."""
_MARK = "0.7036441773"
_LONG = re.compile(
    rf"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/"
    rf"|(?P<before>\bin{SPACE}*\({SPACE}*)(?P<list>(?=[^()]{{{MANY}}}){CONSTANT}(?:{COMMA}{CONSTANT})*){SPACE}*\)",
    re.I | re.ASCII | re.S)

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{6}})?"
_TYPES = {name: primitives()[name] for name in ("date", "timestamp", "timestamp_ntz")}


def literal(text: str) -> Literal:
    """A constant in the type that Spark gives it.

    >>> literal("-1.50"), literal("DATE '2026-03-02'").value
    (Literal(value=Decimal('-1.50'), type=Decimal128Type(decimal128(3, 2))), datetime.date(2026, 3, 2))

    Raises:
        ValueError: a date or a time that is none.
    """
    if text[0] == "'":
        return Literal(_unescaped(text), pa.string())
    word = text.lower()
    if word in ("true", "false"):
        return Literal(word == "true", pa.bool_())
    if word == "null":
        return Literal(None, pa.null())
    if word[-1] == "'":
        kind = _TYPES[word[:word.index("'")].rstrip()]
        return Literal(read_text(_inside(text), kind), kind)
    return _number(word)


def integer(value: int) -> Literal:
    """An integer in the smallest of Spark's literal types that holds it."""
    for data_type in (pa.int32(), pa.int64()):
        if -INTEGER_BOUNDS[data_type] <= value < INTEGER_BOUNDS[data_type]:
            return Literal(value, data_type)
    return Literal(Decimal(value), pa.decimal128(len(str(abs(value))), 0))


def _number(word: str) -> Literal:
    if "e" in word:
        return Literal(float(word), pa.float64())
    is_decimal = word.endswith("bd")
    if not is_decimal and "." not in word:
        return integer(int(word))
    number = Decimal(word.removesuffix("bd"))
    scale = -int(number.as_tuple().exponent)
    return Literal(number, pa.decimal128(max(len(number.as_tuple().digits), scale), scale))


def values(kind: pa.DataType, text: str) -> list[Any] | None:
    """Several constants that are values of a column as they stand; None where each has to be looked at.

    >>> values(pa.date32(), "'2026-03-02', DATE'2026-03-01', NULL")
    [datetime.date(2026, 3, 2), datetime.date(2026, 3, 1), None]
    >>> values(pa.int8(), "1, 300") is values(pa.int32(), "1, 2.5") is None
    True
    """
    known = next(((listed, read) for is_kind, listed, read in _KINDS if is_kind(kind)), None)
    if known is None or not known[0].fullmatch(text):
        return None
    texts = EACH.findall(text)
    if len(texts) < 2:
        return None
    try:
        found = known[1]([one for one in texts if one[0] not in "nN"], kind)
    except (ValueError, OverflowError):  # told by who knows which of them it is
        return None
    if len(found) == len(texts):
        return found
    each = iter(found)
    return [None if one[0] in "nN" else next(each) for one in texts]


def cut(sql: str) -> tuple[str, dict[str, str]]:
    """The SQL with one number for each long list of an IN, and the lists by these numbers.

    >>> long = ", ".join(map(str, range(500)))
    >>> text, lists = cut(f"abs(id) IN ({long}) AND name LIKE 'in (1, 2)'")
    >>> [mark] = lists
    >>> text.replace(mark, "?"), lists[mark] == long
    ("abs(id) IN (?) AND name LIKE 'in (1, 2)'", True)
    """
    lists: dict[str, str] = {}
    if len(sql) < MANY or "\\" in sql or _MARK in sql:  # with a backslash, a quote may end no text
        return sql, lists

    def short(match: re.Match[str]) -> str:
        if match["list"] is None:
            return match[0]
        mark = f"{_MARK}{len(lists):09}"
        lists[mark] = match["list"]
        return f"{match['before']}{mark})"

    return _LONG.sub(short, sql), lists


def _integers(texts: list[str], kind: pa.DataType) -> list[Any]:
    found, bound = list(map(int, texts)), INTEGER_BOUNDS[kind]
    if found and not (-bound <= min(found) and max(found) < bound):
        raise ValueError
    return found


def _decimals(texts: list[str], kind: pa.DataType) -> list[Any]:
    given = [Decimal(text.rstrip("bBdD")) for text in texts]
    unit, limit = Decimal(1).scaleb(-kind.scale), Decimal(1).scaleb(kind.precision - kind.scale)
    found = [EXACT.quantize(number, unit) for number in given]
    if found != given or any(not -limit < number < limit for number in found):
        raise ValueError
    return found


def _floats(texts: list[str], kind: pa.DataType) -> list[Any]:
    return [float(text.rstrip("bBdD")) for text in texts]


def _times(texts: list[str], kind: pa.DataType) -> list[Any]:
    found = [datetime.fromisoformat(_inside(text).rstrip("Z")) for text in texts]
    return found if kind.tz is None else [one.replace(tzinfo=UTC) for one in found]


def _unescaped(text: str) -> str:
    """What stands between two quotes."""
    inside = text[1:-1]
    return _ESCAPED.sub(r"\1", inside) if "\\" in inside else inside


def _inside(text: str) -> str:
    return text[text.index("'") + 1:-1]


def _listed(one: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{one}|null)(?:{COMMA}(?:{one}|null))*", re.I | re.ASCII)


Kind = tuple[Callable[[pa.DataType], bool], re.Pattern[str], Callable[[list[str], pa.DataType], list[Any]]]
_KINDS: tuple[Kind, ...] = (
    (t.is_integer, _listed(f"-?{_DIGITS}"), _integers),
    (is_text, _listed(_TEXT), lambda texts, kind: list(map(_unescaped, texts))),
    (t.is_decimal, _listed(rf"{_NUMBER}(?:bd)?"), _decimals),
    (t.is_float64, _listed(rf"{_NUMBER}(?:bd|e[+-]?[0-9]{{1,3}})?"), _floats),
    (t.is_date, _listed(rf"(?:date{SPACE}*)?'{_DAY}'"),
     lambda texts, kind: [date.fromisoformat(text[-11:-1]) for text in texts]),
    (lambda kind: bool(kind == TIMESTAMP), _listed(rf"(?:timestamp{SPACE}*)?'{_TIME}Z?'"), _times),
    (lambda kind: bool(kind == TIMESTAMP_NTZ), _listed(rf"(?:timestamp_ntz{SPACE}*)?'{_TIME}'"), _times),
)
"""What the constants for a type of columns look like, and how they are read together."""
