"""Rows as frames of other libraries: pandas, polars, DuckDB.

What lives here: how each takes rows, the lazy ones asking for them, and the refusal where one is missing.
What it does not know: how rows are decoded, transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import pyarrow as pa

from deltanb.engines.arrow.conform import as_stored
from deltanb.engines.arrow.data_file import plan
from deltanb.engines.arrow.dataset import dataset, is_native
from deltanb.engines.arrow.read import stream
from deltanb.errors import (
    InvalidArgument,
    InvalidPredicate,
    InvalidTable,
    MissingDependency,
    UnsupportedPredicate,
    UnsupportedProtocol,
)
from deltanb.schema.column_mapping import in_files
from deltanb.schema.intervals import YEAR_TO_MONTH
from deltanb.schema.types import StructType
from deltanb.sql.polars_conditions import parts_of
from deltanb.sql.predicates import parse

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructField
    from deltanb.sql.predicates import Predicate

__all__ = ["Rows", "library", "to_duckdb", "to_pandas", "to_polars", "types_for"]

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
        broken = None if error.name == name else error  # it is there, and something that it needs is not
        raise MissingDependency(
            f"{needed_for} needs {name}, which is not installed: pip install {name}. Without it to_arrow() "
            "gives the same rows", extra=name) from broken


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
    try:
        return rows.to_pandas(types_mapper=types_mapper)
    except (pa.ArrowException, UnicodeDecodeError):
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise InvalidTable(
                    f"column {name!r} cannot become one of pandas': {str(error).splitlines()[0]}. A data "
                    "file of another writer holds this; to_arrow() gives the column as it is, and its view "
                    "as binary the bytes", column=name) from None
        raise


# -- polars ----------------------------------------------------------------------------------------


def to_polars(
    snapshot: Snapshot, columns: Sequence[str] | None, where: str | Predicate | None
) -> pl.LazyFrame:
    """A version as a lazy frame of polars; files are listed and opened when it is collected.

    polars has no type for an interval of years and months: it is a number of months there.
    polars says which columns it needs, how many rows, and its predicate: what of that is understood leaves
    files out, as ``where`` does.
    """
    polars = library("polars", "to_polars")
    plugins = library("polars.io.plugins", "to_polars")
    scan = plan(snapshot, columns, where)

    def rows(
        selected: list[str] | None, predicate: pl.Expr | None, limit: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = scan.schema.names if selected is None else selected
        also = [] if predicate is None or limit is not None else _understood(predicate, snapshot)
        files = snapshot.files_for_scan(*([] if where is None else [where]), *also)
        narrow = plan(snapshot, names or scan.schema.names[:1], where)
        with closing(stream(narrow, files, limit)) as batches:
            numbers = _with_months(narrow.columns)
            for batch in batches:
                frame = polars.from_arrow(batch if numbers is None else numbers(batch))
                frame = frame if names else frame.select([])
                yield frame if predicate is None else frame.filter(predicate)

    frame: pl.LazyFrame = plugins.register_io_source(
        rows, schema=polars.from_arrow(
            in_files(StructType(scan.columns), (YEAR_TO_MONTH,)).to_arrow().empty_table()).schema)
    return frame


def _with_months(columns: Sequence[StructField]) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """What makes numbers of the months in rows with these columns; None where there are none."""
    schema = StructType(columns)
    numbers = in_files(schema, (YEAR_TO_MONTH,))
    return None if numbers is schema else as_stored(schema, numbers)


def _understood(predicate: pl.Expr, snapshot: Snapshot) -> list[Predicate]:
    """What of a predicate of polars leaves files out."""
    with catch_warnings():  # this form of it is not promised to stay what it is
        simplefilter("ignore")
        try:
            parts = parts_of(predicate.meta.serialize(format="json"))
        except Exception:  # polars has expressions that it does not write
            return []
    understood = []
    for part in parts:
        with suppress(InvalidPredicate, UnsupportedPredicate):
            understood.append(parse(part, snapshot.schema))
    return understood


# -- DuckDB ----------------------------------------------------------------------------------------


class Rows:
    """Rows as a stream of Arrow's that can be begun again and again, always of the same version."""

    def __init__(self, begin: Callable[[], pa.RecordBatchReader]) -> None:
        self.begin = begin

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Begin it."""
        return self.begin().__arrow_c_stream__(requested_schema)


def to_duckdb(
    snapshot: Snapshot, files: Callable[[], pa.Table], rows: Rows, is_whole: bool, connection: Any = None
) -> Any:
    """A relation of DuckDB over a version.

    Args:
        snapshot, files: the version and its files, which DuckDB reads as a dataset where Arrow can: it then
            hands its own conditions down, and files are left out by them.
        rows: the same, for where it cannot.
        is_whole: whether all columns and rows are wanted.
        connection: DuckDB's; its default one unless given.
    """
    duckdb = library("duckdb", "to_duckdb")
    data: Any = rows
    # A store in Python is asked from Arrow's threads; where that fails, they and DuckDB wait for each other.
    if is_whole and snapshot.log.store.local_path("") is not None:
        with suppress(UnsupportedProtocol):
            files_as_dataset = dataset(snapshot, files())
            data = files_as_dataset if is_native(files_as_dataset) else rows
    return (duckdb if connection is None else connection).from_arrow(data)
