"""Python's values as columns of Arrow: whole, or refused by name.

What lives here: :func:`array_of`, from a list of values to an array; :func:`check`, which refuses values
that Arrow takes and changes (a text beside bytes, a date beside a time, nanoseconds of pandas);
and :func:`refusal`, which names the column, the row, the value's type and the way out, of what Arrow does
not take.
What it does not know: frames, tables.

>>> array_of("at", [1, None]).to_pylist()
[1, None]
>>> array_of("at", [1, "a"])
Traceback (most recent call last):
    ...
deltanb.errors.InvalidArgument: column 'at' cannot be converted to Arrow: row 2 is a str, 'a', and the rows \
before it are of type int; give values of one type, such as text, str(value)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from deltanb.errors import InvalidArgument, SchemaMismatch
from deltanb.options import options
from deltanb.sql.literals import CUT_OFF, NANOSECONDS_LOST
from deltanb.text.safe_text import shown

__all__ = ["ROUNDED", "array_of", "check", "lost_nanoseconds", "refusal"]

ROUNDED = f'To write it, round them, as with series.dt.floor("us"), or {CUT_OFF}'
"""The ways out where a table would keep microseconds of a time alone."""

Convert = Callable[[Sequence[Any]], pa.Array]


def array_of(name: str, values: Sequence[Any], convert: Convert = pa.array) -> pa.Array:
    """The values as an array, by ``convert``; nanoseconds make it one of nanoseconds.

    Raises:
        InvalidArgument: a value that Arrow does not take, or would change.
    """
    kind = check(name, values)
    try:
        return convert(values) if kind is None else pa.array(values, kind, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise refusal(name, values, convert, error) from error


# -- what Arrow would change -------------------------------------------------------------------------


def check(name: str, values: Sequence[Any]) -> pa.DataType | None:
    """The type that keeps all of the values, where Arrow would choose one that does not; None: it does not.

    Raises:
        InvalidArgument: values of two kinds, of which Arrow would change one.
        SchemaMismatch: nanoseconds within lists or structs, unless the options let them be cut off.
    """
    kinds = set(map(type, values))
    others = kinds - _PLAIN
    _check_families(name, values, kinds)
    if any(hasattr(kind, "nanosecond") or hasattr(kind, "nanoseconds") for kind in others):
        return _with_nanoseconds(values)
    if all(issubclass(kind, dt.date | dt.timedelta) for kind in others):
        return None
    for path, inner in _parts(name, values, others):
        if check(path, inner) is not None and options.nanoseconds == "refuse":
            row = next(row for row, value in enumerate(values, 1) if _has_nanoseconds([value]))
            raise lost_nanoseconds(path, values[row - 1], row)
    return None


_PLAIN = {int, float, str, bytes, bool, type(None)}


def _check_families(name: str, values: Sequence[Any], kinds: set[type]) -> None:
    """Refuse values of two families that Arrow makes one type of."""
    families = {family for kind in kinds for family in _families(kind)}
    if not any(pair <= families for pair in _CHANGED):
        return
    if families == {_TIME, _INSTANT}:  # at a tenth of the time of what follows
        zones = {value.tzinfo is None for value in values if value is not None and hasattr(value, "tzinfo")}
        if len(zones) < 2:
            return
    first: tuple[str, int, Any] | None = None
    for row, value in enumerate(values, 1):
        family = _family(value)
        if first is None and family is not None:
            first = family, row, value
        elif first is not None and {family, first[0]} in _CHANGED:
            raise InvalidArgument(
                f"column {name!r} mixes {first[0]} and {family}: row {first[1]} is {_described(first[2])}, "
                f"and row {row} {_described(value)}; Arrow would change one: give values of one kind",
                column=name, row=row, value=value)


_TEXT, _BYTES, _TRUTH, _NUMBER = "texts", "bytes", "truth values", "numbers"
_DAY, _TIME, _INSTANT = "days", "times without a zone", "times with a zone"
_CHANGED = {frozenset(pair) for pair in [
    (_TEXT, _BYTES), (_TRUTH, _NUMBER), (_DAY, _TIME), (_DAY, _INSTANT), (_TIME, _INSTANT)]}
"""Families that Arrow makes one type of; of all others together it says that it does not take them."""


def _families(kind: type) -> tuple[str, ...]:
    """The families that values of a type may be of."""
    if issubclass(kind, dt.datetime):
        return _TIME, _INSTANT
    return next((families for base, families in _OF.items() if issubclass(kind, base)), ()) or (
        (_TRUTH,) if kind.__name__ in ("bool", "bool_") else ())


_OF: dict[type | tuple[type, ...], tuple[str, ...]] = {
    dt.date: (_DAY,), str: (_TEXT,), (bytes, bytearray, memoryview): (_BYTES,), bool: (_TRUTH,),
    float: (_NUMBER,)}


def _family(value: Any) -> str | None:
    """None: one that goes with any, or a value that is missing, as NaN is to pandas."""
    families = _families(type(value))
    if not families or (families[0] in (_TIME, _NUMBER) and value != value):
        return None
    return _INSTANT if getattr(value, "tzinfo", None) is not None else families[0]


def _first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _parts(name: str, values: Sequence[Any], kinds: set[type]) -> Iterator[tuple[str, list[Any]]]:
    """The elements of lists, and the values of each key of dicts."""
    if any(issubclass(kind, Mapping) for kind in kinds):
        rows = [value for value in values if isinstance(value, Mapping)]
        for key in dict.fromkeys(chain.from_iterable(rows)):
            yield f"{name}.{key}", [row.get(key) for row in rows]
    if any(_is_list(kind) for kind in kinds):
        yield f"{name}.element", list(chain.from_iterable(
            value for value in values if _is_list(type(value)) and not _is_numeric(value)))


def _is_list(kind: type) -> bool:
    return issubclass(kind, list | tuple | set) or kind.__name__ == "ndarray"


def _is_numeric(value: Any) -> bool:
    """Whether it is an array of NumPy's own numbers."""
    return hasattr(value, "dtype") and value.dtype.kind != "O"


# -- nanoseconds -----------------------------------------------------------------------------------------


def _with_nanoseconds(values: Sequence[Any]) -> pa.DataType | None:
    """The type of pandas' times that count nanoseconds; None where none of them does."""
    if not _has_nanoseconds(values):
        return None
    time: Any = next(value for value in values if _has_nanoseconds([value]))
    if isinstance(time, dt.timedelta):
        return pa.duration("ns")
    return pa.timestamp("ns", None if time.tzinfo is None else "UTC")


def _has_nanoseconds(values: Sequence[Any]) -> bool:
    return any(getattr(value, "nanosecond", 0) > 0 or getattr(value, "nanoseconds", 0) > 0 or (
        isinstance(value, Mapping) and _has_nanoseconds(list(value.values()))) or (
        _is_list(type(value)) and not _is_numeric(value) and _has_nanoseconds(value)) for value in values)


def lost_nanoseconds(column: str, value: Any, row: int | None) -> SchemaMismatch:
    """The refusal of a time of which a table would keep microseconds alone."""
    where = "" if row is None else f" in row {row}"
    return SchemaMismatch(
        f"the data does not fit the table: column {column!r} has the value {shown(value)}{where}, and "
        f"{NANOSECONDS_LOST}; nothing was written. {ROUNDED}",
        differences=[f"~ {column}: value {shown(value)}{where} does not fit ({NANOSECONDS_LOST})"],
        column=column, value=value, row=row)


# -- what Arrow does not take ------------------------------------------------------------------------


def refusal(
    name: str, values: Sequence[Any], convert: Convert, error: Exception
) -> InvalidArgument:
    """The error for values that ``convert`` does not take: which row, of which type, and what to do."""
    row = _first_failing(values, convert)
    if row is None:
        return InvalidArgument(f"column {name!r} cannot be converted to Arrow: {error}", column=name)
    value, before = values[row - 1], _first(values[:row - 1])
    if before is not None and _takes(convert, [value]):
        is_of_another = {type(before), type(value)} not in ({type(before)}, {int, float})
        what = f"and the rows before it are of type {type(before).__name__}" if is_of_another else (
            f"which does not go with the rows before it ({error})")
        way = "write None for NaN" if value != value else "give values of one type, such as text, str(value)"
    else:
        path, inner = _culprit(name, value, convert)
        what = "for which Arrow has no type" if path == name else (
            f"for whose part {path!r}, {_described(inner)}, Arrow has no type")
        what += f" ({error})" if type(inner).__name__ in _EXPLAINED else ""
        way = _way_of(inner)
    return InvalidArgument(
        f"column {name!r} cannot be converted to Arrow: row {row} is {_described(value)}, {what}; {way}",
        column=name, row=row, value=value)


def _described(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}, {shown(value)}"


def _takes(convert: Convert, values: Sequence[Any]) -> bool:
    try:
        convert(values)
    except Exception:
        return False
    return True


def _first_failing(values: Sequence[Any], convert: Convert) -> int | None:
    """The number of the first row, from 1, up to which the values are not taken; by halving."""
    low, high = 0, len(values)
    if _takes(convert, values):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _takes(convert, values[:middle]) else (low, middle)
    return high


def _culprit(name: str, value: Any, convert: Convert) -> tuple[str, Any]:
    """The part of a value that is not taken, and its path; else the first UUID, which is none in a list."""
    inner: Iterator[tuple[str, Any]] = iter(())
    if isinstance(value, Mapping):
        inner = ((f"{name}.{key}", part) for key, part in value.items())
    elif _is_list(type(value)) and not _is_numeric(value):
        inner = ((f"{name}.element", part) for part in value)
    for path, part in inner:
        if not _takes(convert, [part]):
            return _culprit(path, part, convert)
        if type(part).__name__ == "UUID":
            return path, part
    return name, value


_EXPLAINED = {"Decimal", "int", "float", "ndarray", "list", "tuple", "set", "dict", "str"}
"""Types of which Arrow takes other values: what it says is said, too."""
_TEXT_WAY = "give its text, str(value)"
_WAYS = {
    "complex": "give its real and its imaginary part as two columns",
    "Period": "give its begin, value.to_timestamp(), or its text, str(value)",
    "Interval": "give its ends as two columns, value.left and value.right",
    "NAType": "write None", "NaTType": "it is pandas' NaT: write None",
    "UUID": _TEXT_WAY, "PurePath": _TEXT_WAY, "IPv4Address": _TEXT_WAY, "IPv6Address": _TEXT_WAY,
    "Fraction": f"give it as a Decimal of so many digits, or {_TEXT_WAY[5:]}",
    "Enum": "give its name or its value, value.name or value.value",
    "Decimal": "write None, or the numbers as floats, which have NaN and infinity",
    "BaseOffset": "give the time that it lasts as a timedelta",
    "frozenset": "give list(value)", "range": "give list(value)", "generator": "give list(value)",
    "str": "write whole characters", "ndarray": "give lists of lists, value.tolist()",
    **dict.fromkeys(("list", "tuple", "set"), "give elements of one type"),
    "dict": "give it keys that are strings, and in all rows values of one type to each",
}
"""Types of values by their name, or a base's -> what to give instead."""


def _way_of(value: Any) -> str:
    names = (kind.__name__ for kind in type(value).__mro__)
    return next((_WAYS[name] for name in names if name in _WAYS), f"{_TEXT_WAY}, or its parts as columns")
