"""What the values of each column are like: counts, mean, spread, quartiles.

What lives here: :func:`describe`, in one pass over a stream of rows, in bounded memory.
What it does not know: where the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.engines.arrow.frames import library
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["QUARTILES", "STATISTICS", "describe"]

QUARTILES = {"25%": 0.25, "50%": 0.5, "75%": 0.75}
MAX_EXACT = 1_000_000
"""Rows up to which quartiles are exact, for which their values are held: 8 MB for each column of numbers."""
STATISTICS = ("count", "null_count", "mean", "std", "min", *QUARTILES, "max")
"""The rows of a description, in their order."""

logger = get_logger(__name__)
_Numbers = dict[str, Any]


def describe(rows: pa.RecordBatchReader) -> pd.DataFrame:
    """One column for each of the rows', and a row for each of :data:`STATISTICS`; None where a column has no
    such number.

    Quartiles of more than :data:`MAX_EXACT` rows are estimates (t-digest); ``attrs["quartiles"]`` says which
    they are. NaN is a value: it counts, makes mean and deviation NaN, and is left out of the others.

    Raises:
        MissingDependency: pandas is not installed.

    >>> table = pa.table({"coins": [1, 2, 3, None], "name": ["b", "a", None, None]})
    >>> describe(table.to_reader())
               coins  name
    count          3     2
    null_count     1     2
    mean         2.0  None
    std          1.0  None
    min            1     a
    25%          1.5  None
    50%          2.0  None
    75%          2.5  None
    max            3     b
    """
    pandas = library("pandas", "describe")
    with rows:
        numbers, is_exact = _aggregated(rows)
    columns = {field.name: _description(place, field.type, numbers)
               for place, field in enumerate(rows.schema)}
    frame: pd.DataFrame = pandas.DataFrame(
        columns, index=list(STATISTICS), columns=rows.schema.names, dtype=object)
    frame.attrs["quartiles"] = "exact" if is_exact else f"estimates, of more than {MAX_EXACT:,} rows"
    if not is_exact:
        logger.warning("describe: the quartiles are %s", frame.attrs["quartiles"])
    return frame


def _description(place: int, kind: pa.DataType, numbers: _Numbers) -> list[Any]:
    """The values of a column for :data:`STATISTICS`."""

    def value(name: str) -> Any:
        number = numbers.get(f"{name} {place}")
        return number if number is None or not t.is_temporal(kind) else _moment(number, kind)

    return [value(name) if name in ("mean", *QUARTILES) else numbers.get(f"{name} {place}")
            for name in STATISTICS]


def _moment(number: float, kind: pa.DataType) -> Any:
    return pa.scalar(round(number), pa.int64()).cast(_whole(kind)).cast(kind).as_py()


# -- the aggregation -------------------------------------------------------------------------------


def _aggregated(rows: pa.RecordBatchReader) -> tuple[_Numbers, bool]:
    """All numbers, by the statistic's name and the column's place; whether the quartiles are exact."""
    from pyarrow import acero  # late: it imports pandas

    names = [str(place) for place in range(len(rows.schema))]
    schema = pa.schema([field.with_name(name) for name, field in zip(names, rows.schema, strict=True)])
    doubles = {field.name: _as_double(pc.field(field.name), field.type)
               for field in schema if _has_mean(field.type)}
    aggregates = [each for field in schema for each in _aggregates(field)]
    held = _Held(field.name for field in schema if _has_quartiles(field.type))
    batches = (held.also(pa.RecordBatch.from_arrays(batch.columns, schema=schema)) for batch in rows)
    if not aggregates:
        return {}, True
    plan = acero.Declaration.from_sequence([
        acero.Declaration("record_batch_reader_source", acero.RecordBatchReaderSourceNodeOptions(
            pa.RecordBatchReader.from_batches(schema, batches))),
        acero.Declaration("project", acero.ProjectNodeOptions(
            [*map(pc.field, names), *doubles.values()], [*names, *map("double {}".format, doubles)])),
        acero.Declaration("aggregate", acero.AggregateNodeOptions(aggregates)),
    ])
    (numbers,) = plan.to_table(use_threads=False).to_pylist()
    return {**numbers, **held.quartiles()}, held.is_whole


def _aggregates(field: pa.Field) -> list[tuple[str, str, Any, str]]:
    """What is computed of a column: (column, function, options, name)."""
    name, kind, double = field.name, field.type, f"double {field.name}"
    made: list[tuple[str, str, Any, str]] = [
        (name, "count", pc.CountOptions("only_valid"), f"count {name}"),
        (name, "count", pc.CountOptions("only_null"), f"null_count {name}")]
    if not (t.is_nested(kind) or t.is_duration(kind) or t.is_interval(kind) or _is_bytes(kind)):
        made += [(name, "min", None, f"min {name}"), (name, "max", None, f"max {name}")]
    if _has_mean(kind):
        made.append((double, "mean", None, f"mean {name}"))
    if _has_quartiles(kind):
        made += [(double, "tdigest", pc.TDigestOptions(q), f"{label} {name}")
                 for label, q in QUARTILES.items()]
    if _is_number(kind):
        made.append((double, "stddev", pc.VarianceOptions(ddof=1), f"std {name}"))
    return made


class _Held:
    """The values of columns as long as they are few, for exact quartiles."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.columns, self.rows = list(columns), 0

    @property
    def is_whole(self) -> bool:
        """Whether all values are held."""
        return self.rows <= MAX_EXACT

    def also(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, of which the values are held."""
        self.rows += batch.num_rows
        if self.is_whole:
            self.batches.append(batch.select(self.columns))
        else:
            self.batches.clear()
        return batch

    def quartiles(self) -> _Numbers:
        """The exact ones, where all values are held."""
        numbers: _Numbers = {}
        for name in self.columns if self.is_whole and self.rows else ():
            columns = [batch.column(name) for batch in self.batches]
            values = pa.chunked_array([_as_double(column, column.type) for column in columns])
            each = pc.quantile(values, list(QUARTILES.values()), skip_nulls=True).to_pylist()
            numbers |= {f"{label} {name}": number for label, number in zip(QUARTILES, each, strict=True)}
        return numbers


# -- types -------------------------------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))


def _has_mean(kind: pa.DataType) -> bool:
    return _is_number(kind) or t.is_boolean(kind) or t.is_date(kind) or t.is_timestamp(kind)


def _has_quartiles(kind: pa.DataType) -> bool:
    return _has_mean(kind) and not t.is_boolean(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind))


def _whole(kind: pa.DataType) -> pa.DataType:
    """The integer type of a moment."""
    return pa.int32() if t.is_date32(kind) else pa.int64()


def _steps(kind: pa.DataType) -> list[pa.DataType]:
    """The casts from a type to double: a moment's is by its number."""
    return [_whole(kind), pa.float64()] if t.is_temporal(kind) else \
        [pa.int8(), pa.float64()] if t.is_boolean(kind) else [pa.float64()]


def _as_double(values: Any, kind: pa.DataType) -> Any:
    """Values of a type, or an expression of them, as doubles."""
    for step in _steps(kind):
        values = values.cast(step, safe=False)
    return values
