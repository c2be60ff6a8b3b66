"""Rows that a command changes, found and changed by Spark.

What lives here: :func:`find_rows` (which rows of which files satisfy a condition), :func:`without_rows` and
:func:`updated_rows` (what replaces them), all as DataFrames over the files of a snapshot. Values are stored
as in writes in the process: a value that a column cannot hold stops the query.
What it does not know: transactions, deletion vectors as files; ``commands/`` commits the results.

If the table tracks rows, their ids and commit versions are the last columns.

Positions are returned as bitmaps of 32,768 rows of a file each, made by Spark's own functions: they are far
smaller than the rows, and executors need no Python. Conditions and values are evaluated in UTC and by ANSI
rules, whatever the session's settings, because the rows that a command changes must not depend on these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import functions as F

from deltanb.engines.arrow.data_file import ROW_POSITION, plan, read_data_file
from deltanb.engines.arrow.enforce import refuse_lacking
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.engines.spark.checks import refused, schema_of
from deltanb.engines.spark.columns import column, converted, loses, shape
from deltanb.engines.spark.jobs import followed
from deltanb.engines.spark.read import PATH, ROW, read_positions, read_table
from deltanb.engines.spark.refusals import refusals
from deltanb.engines.spark.session import settings
from deltanb.engines.spark.session import spark as start_session
from deltanb.errors import InvalidPredicate, InvalidTable, UnsupportedPredicate
from deltanb.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, arrow_type
from deltanb.sql.predicates import parse_value
from deltanb.sql.values import assignable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from deltanb.log.snapshot import Snapshot

Assignments = Mapping[str, Any]
"""SQL by column name; for fields inside a struct a mapping of the same kind."""

_RULES = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Row groups written by Arrow have bounds that leave NaN out; Spark, to which NaN is the greatest
    # number, would skip rows by them. Files are pruned by the log's statistics, which are safe.
    "spark.sql.parquet.filterPushdown": "false",
}
CHUNK_BITS = 15
"""Rows of one bitmap: what Spark's ``bitmap_construct_agg`` holds, 4 kB."""


def rules(session: SparkSession | None = None) -> AbstractContextManager[None]:
    """The settings under which conditions and values have the same meaning as in the process."""
    return settings(session if session is not None else start_session(), _RULES)


def find_rows(
    snapshot: Snapshot, files: pa.Table, where: str, spark: SparkSession | None = None
) -> dict[int, BitMap64]:
    """The positions of the live rows for which a condition (any SQL of Spark's) is TRUE.

    Returns:
        Positions by the file's place in ``files``; files without such a row are left out. Deleted rows are
        included.

    Raises:
        InvalidPredicate: Spark cannot evaluate the condition.
        DataFileNotFound: a file that is gone.
    """
    session = spark if spark is not None else start_session()
    positions: dict[int, BitMap64] = {}
    with rules(session):
        frame, places, others = read_positions(snapshot, files, where, session)
        parts = [] if frame is None else _collected(frame, where)
    for path, chunk, bits in parts:
        if path not in places:
            raise InvalidTable(
                f"Spark has read {path!r}, which is not a file of the table's log under that name; rename "
                "the file, or use engine='arrow'", path=path)
        positions[places[path]] = positions.get(places[path], BitMap64()) | _positions(chunk, bits)
    if others:
        scan = plan(snapshot, [], where)
        for place in others:
            row = files.slice(place, 1).to_pylist()[0]
            rows = BitMap64()
            for batch in read_data_file(scan, row, positions=True):
                rows |= BitMap64(batch.column(ROW_POSITION).to_pylist())
            positions[place] = rows
    return {place: rows for place, rows in positions.items() if rows}


def _collected(frame: DataFrame, where: str) -> list[tuple[str, int, bytes]]:
    """(path, chunk, bits) of each chunk of 2**CHUNK_BITS rows of a file that has one of the rows."""
    chunks = frame.select(
        PATH, F.shiftright(column(ROW), CHUNK_BITS).alias("chunk"),
        column(ROW).bitwiseAND(F.lit((1 << CHUNK_BITS) - 1)).alias("place"),
    ).groupBy(PATH, "chunk").agg(F.bitmap_construct_agg("place").alias("bits"))
    # A server analyses the query when it runs.
    with refusals(f"evaluate {where!r}", where), followed(frame.sparkSession, "Spark reads"):
        collected = chunks.toArrow()
    return list(zip(*(collected.column(place).to_pylist() for place in range(3)), strict=True))


def _positions(chunk: int, bits: bytes) -> BitMap64:
    """Positions in the file from the bits of a chunk, the lowest bit of each byte first.

    >>> list(_positions(1, bytes([0b10, 0b1])))
    [32769, 32776]
    """
    flags = pa.Array.from_buffers(pa.bool_(), 8 * len(bits), [None, pa.py_buffer(bits)])
    return BitMap64(pc.indices_nonzero(flags).to_pylist()).shift(chunk << CHUNK_BITS)


# --- rows in place of them ------------------------------------------------------------------------

def all_rows(snapshot: Snapshot, files: pa.Table, spark: SparkSession | None = None) -> DataFrame:
    """The live rows of the files. Run it under :func:`rules`."""
    return read_table(snapshot, files, spark, row_ids=True)


def without_rows(
    snapshot: Snapshot, files: pa.Table, where: str, spark: SparkSession | None = None
) -> DataFrame:
    """The live rows of the files for which a condition is not TRUE. Run it under :func:`rules`."""
    with rules(spark):
        frame = read_table(snapshot, files, spark, row_ids=True)
        with refusals(f"evaluate {where!r}", where):
            return frame.filter(~_is_true(where))


def updated_rows(
    snapshot: Snapshot, files: pa.Table, where: str | None, assignments: Assignments,
    generated: Assignments, spark: SparkSession | None = None, *, others: bool,
) -> DataFrame:
    """The live rows of the files with assignments applied where a condition is TRUE.

    ``generated`` are assigned after the others, and see their values. ``others`` includes the other rows
    unchanged. Run it under :func:`rules`.

    Raises:
        InvalidPredicate: SQL that Spark cannot evaluate, or of a type that its column does not take.
    """
    with rules(spark):
        frame = read_table(snapshot, files, spark, row_ids=True)
        with refusals(f"evaluate {where!r}", where):
            if where is not None and not others:
                frame, where = frame.filter(_is_true(where)), None
            frame = frame.withColumn(_MEANT, F.lit(True) if where is None else _is_true(where))
        tracked = columns_of(snapshot.metadata, snapshot.protocol)
        for step in (assignments, generated):
            if step:
                frame = _assigned(frame, snapshot.schema, step, [field.name for field in tracked])
        columns = [column(field.name) for field in (*snapshot.schema.fields, *tracked)]
        if tracked:  # changed rows keep their ids; their version is that of the commit to come
            version = tracked[1].name
            columns[-1] = F.when(~column(_MEANT), column(version)).alias(version)
        return frame.select(*columns)


_MEANT = "__deltanb_meant"  # a column beside the table's: whether the row is to be changed


def _is_true(where: str) -> Column:
    return F.coalesce(F.expr(where).cast("boolean"), F.lit(False))


def _assigned(
    frame: DataFrame, schema: StructType, assignments: Assignments, beside: Sequence[str]
) -> DataFrame:
    made = []
    for field in schema.fields:
        old = column(field.name)
        if field.name in assignments:
            new = _new(frame, schema, field.type, old, assignments[field.name], field.name)
            old = F.when(column(_MEANT), new).otherwise(old)
        made.append(old.alias(field.name))
    return frame.select(*made, *map(column, beside), _MEANT)


def _new(
    frame: DataFrame, schema: StructType, data_type: DataType, old: Column, assigned: Any, path: str
) -> Column:
    """A column's new value; for a struct with assigned fields, the struct with these replaced."""
    if isinstance(assigned, str):
        return stored(frame, schema, data_type, assigned, path)
    assert isinstance(data_type, StructType)
    fields = []
    for field in data_type.fields:
        value = old.getField(field.name)
        if field.name in assigned:
            value = _new(frame, schema, field.type, value, assigned[field.name], f"{path}.{field.name}")
        fields.append(value.alias(field.name))
    return F.struct(*fields)


def stored(
    frame: DataFrame, schema: StructType, target: DataType, sql: str, path: str, *, lacks: bool = False
) -> Column:
    """A value by store assignment; one that the column cannot hold stops the query.

    With ``lacks``, its structs may lack fields of the column, which are then NULL.
    """
    with refusals(f"evaluate {sql!r}", sql):
        raw = F.expr(sql)
        actual = schema_of(frame.select(raw.alias("value"))).fields[0].type
    if not _fits(actual, target):
        try:
            parse_value(sql, schema, target)  # a literal may be a text that reads as the type
        except UnsupportedPredicate:
            raise InvalidPredicate(
                f"{sql!r} is {actual}, which column {path!r} of type {target} does not take; add a CAST",
                predicate=sql) from None
    if shape(actual) == shape(target):
        return raw
    if not lacks:
        refuse_lacking(actual, target, path)
    made = converted(raw, actual, target)
    plain = isinstance(target, PrimitiveType)
    lost = raw.isNotNull() & made.isNull() if plain else loses(raw, actual, target)
    return made if lost is None else refused(lost, path, target, raw).otherwise(made)


def _fits(actual: DataType, target: DataType) -> bool:
    """Whether store assignment allows values of one type in a column of the other."""
    if shape(actual) == shape(target) or str(actual) in ("void", "null"):
        return True
    match actual, target:
        case StructType(), StructType():
            return all((field := target.get(inner.name)) is not None and _fits(inner.type, field.type)
                       for inner in actual.fields)
        case ArrayType(), ArrayType():
            return _fits(actual.element_type, target.element_type)
        case MapType(), MapType():
            return _fits(actual.key_type, target.key_type) and _fits(actual.value_type, target.value_type)
        case PrimitiveType(), PrimitiveType():
            return assignable(arrow_type(actual), arrow_type(target))
    return False
