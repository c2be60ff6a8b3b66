"""Long lists of constants, which the SQL parser is spared: it takes seconds for a hundred thousand.

What lives here: :func:`cut`, which takes the lists of an IN out of a condition before it is parsed, and
:func:`values`, which reads one of them as values of a column's type.
What it does not know: the SQL parser, what a condition is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.sql.coercion import EXACT, INTEGER_BOUNDS, TIMESTAMP, TIMESTAMP_NTZ, UTC, is_text

_SPACE = r"[ \t\r\n]"
_DIGITS, _TEXT = "[0-9]{1,18}", "'[^']*'"
_NUMBER = rf"-?{_DIGITS}(?:\.{_DIGITS})?"
_TYPED = rf"(?:date|timestamp|timestamp_ntz){_SPACE}*{_TEXT}"
_CONSTANT = rf"(?:{_NUMBER}(?:bd|e[+-]?[0-9]{{1,3}})?|{_TEXT}|{_TYPED}|(?:true|false|null)\b)"
_COMMA = rf"{_SPACE}*,{_SPACE}*"
_EACH = re.compile(_CONSTANT, re.I | re.ASCII)

MANY = 1_000
"""Characters from which a list is cut out: the parser takes some ten milliseconds for so many."""
_MARK = "0.7036441773"
_LONG = re.compile(
    rf"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/"
    rf"|(?P<before>\bin{_SPACE}*\({_SPACE}*)(?P<list>(?=[^()]{{{MANY}}}){_CONSTANT}(?:{_COMMA}{_CONSTANT})*){_SPACE}*\)",
    re.I | re.ASCII | re.S)

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{6}})?"


def values(kind: pa.DataType, text: str) -> list[Any] | None:
    """Constants as values of a column's type; None where one of them is none.

    >>> values(pa.date32(), "'2026-03-02', DATE'2026-03-01', NULL")
    [datetime.date(2026, 3, 2), datetime.date(2026, 3, 1), None]
    >>> values(pa.int8(), "1, 300") is values(pa.int32(), "1, 2.5") is None
    True
    """
    reader = next(((listed, read) for is_kind, listed, read in _KINDS if is_kind(kind)), None)
    if reader is None or not reader[0].fullmatch(text):
        return None
    texts = _EACH.findall(text)
    if len(texts) < 2:
        return None
    try:
        parsed = reader[1]([one for one in texts if one[0] not in "nN"], kind)
    except (ValueError, OverflowError):  # the parser names the one that is wrong
        return None
    if len(parsed) == len(texts):
        return parsed
    each = iter(parsed)
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
    numbers, bound = list(map(int, texts)), INTEGER_BOUNDS[kind]
    if numbers and not (-bound <= min(numbers) and max(numbers) < bound):
        raise ValueError
    return numbers


def _decimals(texts: list[str], kind: pa.DataType) -> list[Any]:
    numbers = [Decimal(text.rstrip("bBdD")) for text in texts]
    unit, limit = Decimal(1).scaleb(-kind.scale), Decimal(1).scaleb(kind.precision - kind.scale)
    rounded = [EXACT.quantize(number, unit) for number in numbers]
    if rounded != numbers or any(not -limit < number < limit for number in rounded):
        raise ValueError
    return rounded


def _floats(texts: list[str], kind: pa.DataType) -> list[Any]:
    return [float(text.rstrip("bBdD")) for text in texts]


def _times(texts: list[str], kind: pa.DataType) -> list[Any]:
    times = [datetime.fromisoformat(_inside(text).rstrip("Z")) for text in texts]
    return times if kind.tz is None else [one.replace(tzinfo=UTC) for one in times]


def _inside(text: str) -> str:
    return text[text.index("'") + 1:-1]


def _listed(one: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{one}|null)(?:{_COMMA}(?:{one}|null))*", re.I | re.ASCII)


Kind = tuple[Callable[[pa.DataType], bool], re.Pattern[str], Callable[[list[str], pa.DataType], list[Any]]]
_KINDS: tuple[Kind, ...] = (
    (t.is_integer, _listed(f"-?{_DIGITS}"), _integers),
    (is_text, _listed(_TEXT), lambda texts, kind: [text[1:-1] for text in texts]),
    (t.is_decimal, _listed(rf"{_NUMBER}(?:bd)?"), _decimals),
    (t.is_float64, _listed(rf"{_NUMBER}(?:bd|e[+-]?[0-9]{{1,3}})?"), _floats),
    (t.is_date, _listed(rf"(?:date{_SPACE}*)?'{_DAY}'"),
     lambda texts, kind: [date.fromisoformat(text[-11:-1]) for text in texts]),
    (lambda kind: bool(kind == TIMESTAMP), _listed(rf"(?:timestamp{_SPACE}*)?'{_TIME}Z?'"), _times),
    (lambda kind: bool(kind == TIMESTAMP_NTZ), _listed(rf"(?:timestamp_ntz{_SPACE}*)?'{_TIME}'"), _times),
)
"""What the constants for a type of columns look like, and how they are read together."""
