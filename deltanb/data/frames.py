"""Rows as frames of other libraries: pandas, polars, DuckDB.

What lives here: how each takes Arrow, and the refusal where it is not installed.
What it does not know: how rows are read, which version they are of.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument, MissingDependency

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["library", "to_pandas", "types_for"]

BACKENDS = ("pyarrow", "numpy_nullable")
"""What pandas takes as ``dtype_backend``."""

_NULLABLE = {
    "int8": "Int8Dtype", "int16": "Int16Dtype", "int32": "Int32Dtype", "int64": "Int64Dtype",
    "uint8": "UInt8Dtype", "uint16": "UInt16Dtype", "uint32": "UInt32Dtype", "uint64": "UInt64Dtype",
    "float": "Float32Dtype", "double": "Float64Dtype", "bool": "BooleanDtype",
    "string": "StringDtype", "large_string": "StringDtype"}
"""Types of Arrow's -> pandas' nullable ones; the others stay what they are."""


def library(name: str, needed_for: str) -> Any:
    """An optional library.

    Raises:
        MissingDependency: it is not installed; the message says how it is.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependency(
            f"{needed_for} needs {name}, which is not installed: pip install {name}. Without it to_arrow() "
            "gives the same rows", extra=name) from error


def types_for(
    types_mapper: Callable[[Any], Any] | None, dtype_backend: str | None
) -> Callable[[Any], Any] | None:
    """What ``Table.to_pandas`` takes as ``types_mapper``, by what a person says.

    Raises:
        InvalidArgument: another backend, or both.
        MissingDependency: pandas is not installed.
    """
    if dtype_backend is None:
        return types_mapper
    if types_mapper is not None:
        raise InvalidArgument("give types_mapper or dtype_backend, not both")
    if dtype_backend not in BACKENDS:
        raise InvalidArgument(
            f"dtype_backend={dtype_backend!r} is not one of {', '.join(map(repr, BACKENDS))}")
    pandas = library("pandas", "to_pandas")
    if dtype_backend == "pyarrow":
        mapper: Callable[[Any], Any] = pandas.ArrowDtype
        return mapper

    def nullable(kind: pa.DataType) -> Any:
        name = _NULLABLE.get(str(kind))
        return None if name is None else getattr(pandas, name)()

    return nullable


def to_pandas(rows: pa.Table, types_mapper: Callable[[Any], Any] | None = None) -> pd.DataFrame:
    """The rows as a pandas DataFrame."""
    library("pandas", "to_pandas")
    return rows.to_pandas(types_mapper=types_mapper)
