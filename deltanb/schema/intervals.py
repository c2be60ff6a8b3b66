"""Intervals: the spellings of their two types, and their values as text.

What lives here: which names a schema may give an interval (:func:`canonical`), and the ANSI literals that are
its partition values (protocol_rfcs/interval-types.md).
What it does not know: Arrow and Parquet, where months are an int32 and microseconds an int64.

>>> canonical("interval month"), canonical("interval day to minute"), canonical("interval month to day")
('interval year to month', 'interval day to second', None)
"""

from __future__ import annotations

import datetime as dt
import re

__all__ = [
    "DAY_TO_SECOND", "SPELLINGS", "YEAR_TO_MONTH", "canonical", "format_duration", "format_months",
    "micros_of", "read_duration", "read_months",
]

YEAR_TO_MONTH, DAY_TO_SECOND = "interval year to month", "interval day to second"
_FAMILIES = {YEAR_TO_MONTH: ("year", "month"), DAY_TO_SECOND: ("day", "hour", "minute", "second")}
SPELLINGS = {
    f"interval {first}" + (f" to {last}" if last != first else ""): name
    for name, units in _FAMILIES.items()
    for at, first in enumerate(units) for last in units[at:]
}
"""Every name of an interval in a schema -> the one that writers use."""

_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_PARTS = {"day": r"(?P<day>\d{1,9})", "hour": r"(?P<hour>\d{1,10})", "minute": r"(?P<minute>\d{1,12})",
          "second": r"(?P<second>\d{1,13})(?:\.(?P<fraction>\d{1,9}))?"}
_LITERAL = re.compile(r"\s*interval\s+([+-]?)\s*'([^']*)'\s+(\w+)(?:\s+to\s+(\w+))?\s*", re.I)


def canonical(name: str) -> str | None:
    """The name that a schema is written with, of any that one may be read with; None for what is none.

    They are as the log has them, in lower case.
    """
    return SPELLINGS.get(name)


def _literal(text: str, family: str) -> tuple[int, str, str]:
    """Sign, what is quoted, and the canonical type's fields that it has."""
    match = _LITERAL.fullmatch(text)
    named = match and f"interval {match[3]}{f' to {match[4]}' if match[4] else ''}".lower()
    if not match or not named or SPELLINGS.get(named) != family:
        raise ValueError(f"{text!r:.80} is not a literal of type {family}")
    body = match[2].strip()
    sign = -1 if match[1] == "-" else 1
    if body[:1] in ("-", "+"):
        sign, body = (-sign if body[0] == "-" else sign), body[1:]
    return sign, body, named.removeprefix("interval ")


def read_months(text: str) -> int:
    """The months of a literal.

    >>> read_months("INTERVAL '-1-6' YEAR TO MONTH"), read_months("INTERVAL '2' YEAR")
    (-18, 24)

    Raises:
        ValueError: it is none, or has more months than 32 bits hold.
    """
    sign, body, units = _literal(text, YEAR_TO_MONTH)
    match = re.fullmatch(r"(\d{1,10})(?:-(\d{1,2}))?", body)
    if match is None or bool(match[2]) != ("to" in units) or int(match[2] or 0) > 11:
        raise ValueError(f"{text!r:.80} is not a literal of type {YEAR_TO_MONTH}")
    months = sign * int(match[1]) if units == "month" else sign * (int(match[1]) * 12 + int(match[2] or 0))
    if not -2**31 <= months < 2**31:
        raise ValueError(f"{text!r:.80} has more months than 32 bits hold")
    return months


def format_months(months: int) -> str:
    """Months as a literal.

    >>> format_months(18), format_months(-1)
    ("INTERVAL '1-6' YEAR TO MONTH", "INTERVAL '-0-1' YEAR TO MONTH")
    """
    years, rest = divmod(abs(months), 12)
    return f"INTERVAL '{'-' if months < 0 else ''}{years}-{rest}' YEAR TO MONTH"


def read_duration(text: str) -> int:
    """The microseconds of a literal.

    >>> read_duration("INTERVAL '-1 02:00:00.5' DAY TO SECOND"), read_duration("INTERVAL '90' MINUTE")
    (-93600500000, 5400000000)

    Raises:
        ValueError: it is none, or has more microseconds than 64 bits hold.
    """
    sign, body, units = _literal(text, DAY_TO_SECOND)
    names = list(_MICROS)
    first, _, last = units.partition(" to ")
    names = names[names.index(first):names.index(last or first) + 1]
    pattern = "".join(
        ("" if at == 0 else " " if names[at - 1] == "day" else ":") + _PARTS[name]
        for at, name in enumerate(names))
    match = re.fullmatch(pattern, body)
    if match is None:
        raise ValueError(f"{text!r:.80} is not a literal of type {DAY_TO_SECOND}")
    total = sum(int(match[name]) * _MICROS[name] for name in names)
    fraction = (match["fraction"] or "") if "second" in names else ""
    if fraction[6:].strip("0"):
        raise ValueError(f"{text!r:.80} has a part of a microsecond")
    total = sign * (total + int(fraction[:6].ljust(6, "0")))
    if not -2**63 <= total < 2**63:
        raise ValueError(f"{text!r:.80} has more microseconds than 64 bits hold")
    return total


def format_duration(micros: int) -> str:
    """Microseconds as a literal.

    >>> format_duration(93_784_500_000), format_duration(0)
    ("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '0 00:00:00' DAY TO SECOND")
    """
    days, rest = divmod(abs(micros), _MICROS["day"])
    hours, rest = divmod(rest, _MICROS["hour"])
    minutes, rest = divmod(rest, _MICROS["minute"])
    seconds, rest = divmod(rest, _MICROS["second"])
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    sign = "-" if micros < 0 else ""
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}{fraction}' DAY TO SECOND"


def micros_of(value: dt.timedelta) -> int:
    """A duration of Python's in microseconds.

    >>> micros_of(dt.timedelta(days=-1, microseconds=1))
    -86399999999
    """
    return value // dt.timedelta(microseconds=1)
