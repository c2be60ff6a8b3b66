"""Values of single rows, as Python has them, checked against the types of a table's columns.

What lives here: :func:`checked` for one value, :func:`column_of` for those of a column. A value is converted
only where it means the same in the column's type: an integer for a column of doubles, say.
What it does not know: rows, tables, Arrow data that people hand in (``enforce``).
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltanb.errors import InvalidArgument
from deltanb.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

_PYTHON: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,), "byte": (numbers.Integral,), "short": (numbers.Integral,),
    "integer": (numbers.Integral,), "long": (numbers.Integral,), "float": (numbers.Real,),
    "double": (numbers.Real,), "decimal": (numbers.Integral, Decimal), "string": (str,),
    "binary": (bytes, bytearray, memoryview), "date": (dt.date,), "timestamp": (dt.datetime,),
    "timestamp_ntz": (dt.datetime,),
}


def is_ordered(type_: DataType) -> bool:
    """Whether values of a type have an order in which they can be asked for.

    >>> is_ordered(PrimitiveType("decimal(5,2)")), is_ordered(PrimitiveType("variant"))
    (True, False)
    """
    return _kind(type_) in _PYTHON


def checked(value: Any, field: StructField, arrow: pa.DataType) -> Any:
    """A value as the column holds it, which Arrow has as ``arrow``.

    Raises:
        InvalidArgument: it is none of the column's type, or loses something in it.

    >>> checked(1, StructField("x", PrimitiveType("double")), pa.float64())
    1.0
    """
    if value is None:
        return None
    _check(value, field.type, field.name)
    try:
        return pa.scalar(value, arrow).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise _refused(value, field.type, field.name) from None


def column_of(values: Sequence[Any], field: StructField, arrow: pa.DataType) -> pa.Array:
    """Values as a column that Arrow has as ``arrow``.

    Raises:
        InvalidArgument: as :func:`checked`.
    """
    for value in values:
        _check(value, field.type, field.name)
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for value in values:
            checked(value, field, arrow)
        raise


def _kind(type_: DataType) -> str:
    if not isinstance(type_, PrimitiveType):
        return ""
    if type_.is_decimal:
        return "decimal"
    return "string" if type_.name.startswith(("char(", "varchar(")) else type_.name


def _check(value: Any, type_: DataType, path: str) -> None:
    """Refuse what Arrow would take, and another type means."""
    if value is None:
        return
    match type_:
        case StructType():
            if not isinstance(value, Mapping):
                raise _refused(value, type_, path)
            for name, inner in value.items():
                member = next((one for one in type_.fields if one.name == name), None)
                if member is None:
                    hint, _ = did_you_mean(str(name), [one.name for one in type_.fields], "fields")
                    raise InvalidArgument(f"{path} has no field {shown(name)}; {hint}", column=path)
                _check(inner, member.type, f"{path}.{member.name}")
        case ArrayType():
            for inner in _items(value, type_, path):
                _check(inner, type_.element_type, f"{path}.element")
        case MapType():
            pairs = value.items() if isinstance(value, Mapping) else _items(value, type_, path)
            for pair in pairs:
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise _refused(value, type_, path)
                _check(pair[0], type_.key_type, f"{path}.key")
                _check(pair[1], type_.value_type, f"{path}.value")
        case _:
            if not _fits(value, _kind(type_)):
                raise _refused(value, type_, path)


def _items(value: Any, type_: DataType, path: str) -> Iterable[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _refused(value, type_, path)
    return value


def _fits(value: Any, kind: str) -> bool:
    if kind == "boolean" or kind not in _PYTHON:
        return kind != "boolean" or isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, _PYTHON[kind]):
        return False
    if kind == "date":
        return not isinstance(value, dt.datetime)
    return kind != "timestamp_ntz" or getattr(value, "tzinfo", None) is None


def _refused(value: Any, type_: DataType, path: str) -> InvalidArgument:
    return InvalidArgument(f"{shown(value)} is not a value of column {path!r}, which is {type_}", column=path)
