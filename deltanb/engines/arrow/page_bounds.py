"""What is known of the pages of a row group: which of its rows may be wanted.

What lives here: :func:`rows_to_read`, for which the bounds of pages become the typed columns
that ``log.skipping.prune`` judges, one row for each stretch of rows between two ends of pages.
What it does not know: where pages are, how rows are read, what a predicate says.

Bounds are believed where Arrow believes those of the whole row group. One that is missing, or of a type that
is not looked at here, is NULL and keeps its rows. A count of NULLs says something of a part of a page only
where it is none of the page's rows, or all of them.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.engines.arrow.conform import Place, compile_conversion
from deltanb.engines.arrow.row_groups import Judge, Leaf, type_at
from deltanb.errors import DeltaError
from deltanb.parquet.pages import Chunk, Page, Pages
from deltanb.parquet.ranges import Range, joined
from deltanb.schema.types import DataType, PrimitiveType, StructField, arrow_type
from deltanb.sql.coercion import arrow_array

if TYPE_CHECKING:
    from deltanb.log.skipping.stats import Stat
    from deltanb.parquet.file import SafeFile

__all__ = ["rows_to_read"]

_FORMATS = {(True, 32): "<i", (True, 64): "<q", (False, 32): "<f", (False, 64): "<d"}
"""Of integers and others, by the bits of a value."""


def rows_to_read(
    file: SafeFile,
    pages: Pages,
    group: int,
    stored: Sequence[pa.Field],
    fields: Sequence[StructField],
    condition: Judge,
    *,
    mode: str = "none",
    constants: Mapping[str, pa.Scalar] | None = None,
) -> list[Range] | None:
    """The rows of a row group that may be wanted; None where no page tells. Arguments as for
    :func:`deltanb.engines.arrow.row_groups.matching`, whose file is sound."""
    metadata = file.metadata.row_group(group)
    leaves = {stat: Leaf.at(stat.path, stored, fields, mode) for stat in condition.stats
              if stat.kind != "num_records"}
    pages.expect(group, {leaf.index for leaf in leaves.values() if leaf is not None})
    chunks = {leaf.index: pages.chunk(group, leaf.index, with_bounds=True)
              for leaf in leaves.values() if leaf is not None}
    starts = sorted({page.row for chunk in chunks.values() if chunk is not None for page in chunk.pages})
    if len(starts) < 2:
        return None
    rows = [stop - start for start, stop in zip(starts, (*starts[1:], metadata.num_rows), strict=True)]
    columns: dict[str, pa.Array] = {
        name: pa.repeat(value, len(rows)) for name, value in (constants or {}).items()}
    for stat in condition.stats:
        if stat.kind == "num_records":
            columns[stat.name] = arrow_array(rows, pa.int64())
            continue
        leaf, kind = leaves[stat], type_at(stat.path, fields)
        if leaf is None:
            columns[stat.name] = _of_none(stat, kind, rows)
            continue
        statistics = metadata.column(leaf.index).statistics
        is_believed = statistics is not None and statistics.has_min_max
        known = _Known(starts, rows, chunks[leaf.index], is_believed)
        columns[stat.name] = known.nulls(kind) if stat.kind == "null_count" else known.bounds(
            stat.kind, leaf.stored, kind)
    verdicts = condition.holds(pa.table(columns))
    return joined((start, start + count)
                  for start, count, verdict in zip(starts, rows, verdicts, strict=True) if verdict)


def _of_none(stat: Stat, kind: DataType, rows: Sequence[int]) -> pa.Array:
    """The statistic of a column that the file lacks: it is NULL."""
    if stat.kind == "null_count":
        return arrow_array(rows if _is_single(kind) else [None] * len(rows), pa.int64())
    return pa.nulls(len(rows), arrow_type(kind))


def _is_single(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name != "variant"


class _Known:
    """What is known of one column in each stretch."""

    def __init__(
        self, starts: Sequence[int], rows: Sequence[int], chunk: Chunk | None, is_believed: bool
    ) -> None:
        self._rows, self._is_believed = rows, is_believed
        self._pages: list[Page | None] = [None] * len(rows)
        if chunk is not None:
            firsts = [page.row for page in chunk.pages]
            self._pages = [chunk.pages[bisect_right(firsts, start) - 1] for start in starts]

    def nulls(self, kind: DataType) -> pa.Array:
        """NULLs, where it is none or all of the rows."""
        counts: list[int | None] = [None] * len(self._rows)
        for number, page in enumerate(self._pages if _is_single(kind) else ()):
            if page is not None and page.bounds.nulls in (0, page.rows):
                counts[number] = self._rows[number] if page.bounds.nulls else 0
        return arrow_array(counts, pa.int64())

    def bounds(self, name: str, stored: pa.DataType, kind: DataType) -> pa.Array:
        """Minima or maxima, as values of the table's column."""
        target = arrow_type(kind)
        try:
            convert = compile_conversion(stored, kind, "none", Place(""))
            flat = stored.value_type if t.is_dictionary(stored) else stored
            values = _typed([self._bound(name, page) for page in self._pages], flat)
            return values if convert is None else convert(values)
        except (DeltaError, pa.ArrowException, ValueError, TypeError, OverflowError):
            return pa.nulls(len(self._rows), target)

    def _bound(self, name: str, page: Page | None) -> bytes | None:
        if page is None or not self._is_believed:
            return None
        return page.bounds.lower if name == "min" else page.bounds.upper


def _typed(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Values as Parquet stores them in its plain encoding, as an array.

    Raises:
        ValueError, TypeError: they are of a type that is not looked at.
    """
    if t.is_string(kind) or t.is_binary(kind) or t.is_large_string(kind) or t.is_large_binary(kind):
        return arrow_array(values, pa.binary()).cast(kind)
    read = _numbers(kind)
    typed = [None if value is None else read(value) for value in values]
    if not (t.is_timestamp(kind) or t.is_date(kind)):
        return arrow_array(typed, kind)
    whole = arrow_array(typed, pa.int64() if kind.bit_width == 64 else pa.int32())
    return whole.view(kind)


def _numbers(kind: pa.DataType) -> Any:
    """What reads a number."""
    if t.is_floating(kind):
        return lambda value: _number(value, False)
    if t.is_signed_integer(kind) or t.is_timestamp(kind) or t.is_date32(kind):
        return lambda value: _number(value, True)
    raise TypeError(f"{kind} is not looked at")


def _number(value: bytes, is_integer: bool) -> int | float | None:
    try:
        (number,) = struct.unpack(_FORMATS[is_integer, 8 * len(value)], value)
    except KeyError:  # INT96
        raise TypeError from None
    return number if number == number else None  # NaN bounds nothing
