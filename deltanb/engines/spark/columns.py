"""Types and columns in Spark's terms: a Delta schema as a Spark one, one schema turned into
another.

What lives here: column expressions that convert, rename and check; each is built from the two
schemas alone and can be used in any query.
What it does not know: files, partitions, who reads or writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltanb.engines.arrow.conform import Place, as_stored, compile_conversion
from deltanb.errors import UnsupportedProtocol
from deltanb.schema.column_mapping import field_id, in_files, physical_name
from deltanb.schema.intervals import YEAR_TO_MONTH
from deltanb.schema.types import (
    INTEGERS,
    TYPES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
    backticked,
    from_arrow,
    held_as,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIELD_ID = "parquet.field.id"  # the key by which Spark takes a column's Parquet field id

_DESCRIBED = {*INTEGERS, "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
_NOT_IN_ARROW = (YEAR_TO_MONTH,)
_EXACT_BITS = {"float": 24, "double": 53}  # integers up to this size are exact in a floating number


def column(name: str) -> Column:
    """The column of exactly that name, whatever characters are in it."""
    return F.col(backticked(name))


# ---------------------------------------------------------------------------- types


def arrow_frame(session: SparkSession, rows: pa.Table, schema: T.StructType | None = None) -> DataFrame:
    """Arrow rows as a DataFrame, all of them.

    Empty batches, as in filtered tables, are left out: Spark 4.0 to 4.2 takes one for the end of its
    partition and ignores the rest.
    """
    if any("month_day_nano" in str(kind) for kind in rows.schema.types):
        return _with_months(session, rows, schema)
    whole = pa.Table.from_batches([b for b in rows.to_batches() if b.num_rows], rows.schema)
    if schema is None and not whole.num_rows:  # a server cannot tell types without rows
        schema = spark_schema(from_arrow(rows.schema))
    return frame_of(session, whole, schema)


def frame_of(session: SparkSession, rows: Any, schema: T.StructType | None) -> DataFrame:
    """``session.createDataFrame`` that leaves ``SparkSession.active()`` unchanged.

    PySpark makes the session that created a frame the active one of every thread: a stream's batch would
    leave Spark's copy of the session for the stream.
    """
    kind = type(session)
    active = vars(kind).get("_activeSession")
    try:
        return session.createDataFrame(rows, schema)
    finally:
        if active is not None:
            kind._activeSession = active  # type: ignore[misc]


def _with_months(session: SparkSession, rows: pa.Table, schema: T.StructType | None) -> DataFrame:
    """Like :func:`arrow_frame`; Spark takes no month intervals from Arrow, so they are passed as numbers."""
    target = from_arrow(rows.schema) if schema is None else StructType.from_json(schema.json())
    stored = in_files(target, _NOT_IN_ARROW)
    convert = as_stored(target, stored)
    numbers = pa.Table.from_batches([convert(batch) for batch in rows.to_batches()], stored.to_arrow())
    frame = arrow_frame(session, numbers, spark_schema(stored))
    return frame.select(*_converted(stored, target))


def arrow_rows(frame: DataFrame) -> pa.Table:
    """A frame's rows in Arrow, month intervals in the types of :func:`deltanb.schema.types.to_arrow`."""
    if passes_through_arrow(frame.schema):
        return frame.toArrow()
    target = StructType.from_json(frame.schema.json())
    stored = in_files(target, _NOT_IN_ARROW)
    if stored is target:
        return frame.toArrow()
    numbers = frame.select(*_converted(target, stored)).toArrow()
    steps = [compile_conversion(actual.type, field.type, "none", Place("a frame", field.name))
             for actual, field in zip(numbers.schema, target.fields, strict=True)]
    columns = [many if step is None else pa.chunked_array([step(one) for one in many.chunks], kind)
               for many, step, kind in zip(numbers.columns, steps, target.to_arrow().types, strict=True)]
    return pa.table(columns, names=frame.columns)


def passes_through_arrow(schema: T.StructType) -> bool:
    """Whether Spark and this library have the same Arrow types for these columns: Spark has no month
    intervals in Arrow, and variants only as structs."""
    text = schema.simpleString()
    return not ("variant" in text or "interval year" in text or "interval month" in text)


def _converted(actual: StructType, target: StructType) -> list[Column]:
    return [converted(column(a.name), a.type, b.type).alias(a.name)
            for a, b in zip(actual.fields, target.fields, strict=True)]


def spark_schema(schema: StructType, mode: str = "none", *, ids: bool = False) -> T.StructType:
    """The Spark schema of a Delta schema, everything nullable.

    In the column mapping modes ``name`` and ``id`` the names are the physical ones, in mode ``none``
    the logical ones. With ``ids`` each field of a mapped table carries its id as :data:`FIELD_ID`.

    Raises:
        UnsupportedProtocol: an unknown type; names its column.
    """
    return T.StructType([_spark_field(f, mode, f.name, ids) for f in schema.fields])


def described(schema: StructType, mode: str = "none") -> T.StructType:
    """The columns whose statistics in the log can be checked against Spark's filters, named as in
    :func:`spark_schema`: numbers, dates, times, and texts without length or collation."""
    return spark_schema(StructType(
        f for f in schema.fields
        if (str(f.type) in _DESCRIBED or str(f.type).startswith("decimal"))
        and not any(key.startswith("__") for key in f.metadata)  # how a text is padded or collated
    ), mode)


def spark_type(
    data_type: DataType, mode: str = "none", path: str = "", ids: bool = False
) -> T.DataType:
    """Like :func:`spark_schema`, for one type."""
    match data_type:
        case StructType():
            return T.StructType([_spark_field(f, mode, f"{path}.{f.name}", ids)
                                 for f in data_type.fields])
        case ArrayType():
            return T.ArrayType(spark_type(data_type.element_type, mode, f"{path}.element", ids))
        case MapType():
            return T.MapType(spark_type(data_type.key_type, mode, f"{path}.key", ids),
                             spark_type(data_type.value_type, mode, f"{path}.value", ids))
        case PrimitiveType(name):
            arrow_type(data_type, path)  # refuses what nobody here can hold
            if data_type.is_decimal:
                return T.DecimalType(data_type.precision, data_type.scale)
            held = TYPES[held_as(name)]
            if not held.spark:
                raise UnsupportedProtocol(
                    f"column {path!r} has type {name}, which Spark does not have; read it without Spark, or "
                    "the other columns with columns=[...]", features=(name,), column=path)
            return getattr(T, held.spark)()


def _spark_field(field: StructField, mode: str, path: str, ids: bool) -> T.StructField:
    number = field_id(field) if ids and mode != "none" else None
    metadata = {} if number is None else {FIELD_ID: number}
    data_type = spark_type(field.type, mode, path, ids)
    return T.StructField(physical_name(field, mode), data_type, True, metadata)


def shape(data_type: DataType) -> Any:
    """Names and types alone, for comparison: no nullability, no metadata."""
    match data_type:
        case StructType():
            return tuple((f.name, shape(f.type)) for f in data_type.fields)
        case ArrayType():
            return ("array", shape(data_type.element_type))
        case MapType():
            return ("map", shape(data_type.key_type), shape(data_type.value_type))
        case PrimitiveType(name) if not data_type.is_decimal:
            return held_as(name)  # CHAR, VARCHAR, a collation, a geometry
    return str(data_type)


# ---------------------------------------------------------------------------- conversion


def converted(source: Column, actual: DataType, target: DataType) -> Column:
    """``source`` converted to a type: fields of structs by name in any case, missing ones NULL.

    A value that does not fit becomes NULL; :func:`loses` detects these.
    """
    if shape(actual) == shape(target):
        return source
    if str(actual) in ("void", "null"):
        return source.cast(spark_type(target))
    match actual, target:
        case StructType(), StructType():
            fields = [_field_of(source, actual, f).alias(f.name) for f in target.fields]
            return F.when(source.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            before, after = actual.element_type, target.element_type
            return F.transform(source, lambda element: converted(element, before, after))
        case MapType(), MapType():
            key, value = (actual.key_type, target.key_type), (actual.value_type, target.value_type)
            return F.map_from_entries(F.transform(
                F.map_entries(source),
                lambda entry: F.struct(converted(entry.getField("key"), *key).alias("key"),
                                       converted(entry.getField("value"), *value).alias("value"))))
    if YEAR_TO_MONTH in (str(actual), str(target)):  # a number is one of months
        return source.cast(T.YearMonthIntervalType(1, 1)).cast(spark_type(target))
    return source.try_cast(spark_type(target))


def _field_of(source: Column, actual: StructType, target: StructField) -> Column:
    inner = actual.get(target.name)
    if inner is None:
        return F.lit(None).cast(spark_type(target.type))
    return converted(source.getField(inner.name), inner.type, target.type)


def loses(source: Column, actual: DataType, target: DataType) -> Column | None:
    """Whether conversion would lose part of the value; None if the types rule it out."""
    if shape(actual) == shape(target) or str(actual) in ("void", "null"):
        return None
    match actual, target:
        case StructType(), StructType():
            parts = []
            for field in target.fields:
                inner = actual.get(field.name)
                if inner is not None:
                    parts.append(loses(source.getField(inner.name), inner.type, field.type))
            return _any(parts)
        case ArrayType(), ArrayType():
            return _exists(source, actual.element_type, target.element_type)
        case MapType(), MapType():
            return _any([_exists(F.map_keys(source), actual.key_type, target.key_type),
                         _exists(F.map_values(source), actual.value_type, target.value_type)])
    assert isinstance(target, PrimitiveType)  # other pairs are refused by the schemas alone
    return _primitive_loses(source, str(actual), target)


def _exists(source: Column, actual: DataType, target: DataType) -> Column | None:
    if loses(F.lit(None), actual, target) is None:
        return None

    def fails(element: Column) -> Column:
        lost = loses(element, actual, target)
        assert lost is not None
        return lost

    return F.coalesce(F.exists(source, fails), F.lit(False))


def _any(parts: list[Column | None]) -> Column | None:
    result = None
    for part in parts:
        if part is not None:
            result = part if result is None else result | part
    return result


def _primitive_loses(source: Column, before: str, target: PrimitiveType) -> Column | None:
    after = target.name
    if after in ("string", "variant") or (after not in TYPES and not target.is_decimal):
        return None
    if before in INTEGERS and INTEGERS[before] <= INTEGERS.get(after, _EXACT_BITS.get(after, 0)):
        return None
    if (before, after) in (("float", "double"), ("date", "timestamp"), ("date", "timestamp_ntz")):
        return None
    made = source.try_cast(spark_type(target))
    infinite = [F.lit(float("inf")), F.lit(float("-inf"))]
    if after in _EXACT_BITS and before not in INTEGERS:  # only the tail of a fraction may go
        return F.coalesce(made.isin(*infinite) & ~source.cast("double").isin(*infinite),
                          source.isNotNull() & made.isNull())
    if after.startswith("decimal") and before in _EXACT_BITS:
        return source.isNotNull() & made.isNull()
    back = made.try_cast(spark_type(PrimitiveType(before)))
    return source.isNotNull() & ~back.eqNullSafe(source)


def renamed(source: Column, data_type: DataType, target: T.DataType) -> Column:
    """The same values under the names of ``target``, which differ inside structs only."""
    has_names = isinstance(data_type, StructType) or (
        isinstance(data_type, ArrayType | MapType) and "struct<" in str(data_type))
    return source.cast(target) if has_names else source
