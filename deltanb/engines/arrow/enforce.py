"""Schema enforcement: rows become exactly what the table holds, or are refused with a readable reason.

What lives here: the comparison of a data schema with a table's (:func:`differences`), and the plan that
turns batches into the table's columns (:class:`Enforcer`): columns by name without regard to case,
missing nullable ones as NULL, types as Spark's ANSI store assignment allows, every value checked.
What it does not know: files, constraints, the merging of schemas.

Stricter than Spark where Spark loses something silently: a number that does not fit, a fraction that
would be cut off, a time of day that a date cannot hold are errors that name the column, row and value.

>>> from deltanb.schema.types import PrimitiveType, StructField
>>> table = StructType([StructField("id", PrimitiveType("long")), StructField("n", PrimitiveType("byte"))])
>>> rows = pa.record_batch({"ID": pa.array([1], pa.int32())})
>>> Enforcer(rows.schema, table).apply(rows).to_pylist()
[{'id': 1, 'n': None}]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.engines.arrow import intervals
from deltanb.engines.arrow.python_values import ROUNDED, lost_nanoseconds
from deltanb.engines.arrow.variants import filled
from deltanb.errors import InvalidSchema, SchemaMismatch
from deltanb.log.arrays import array_of, numbers
from deltanb.options import options
from deltanb.schema import types as schemas
from deltanb.schema.extensions import equivalent
from deltanb.schema.intervals import DAY_TO_SECOND, YEAR_TO_MONTH
from deltanb.schema.types import INTEGERS, ArrayType, DataType, MapType, PrimitiveType, StructType
from deltanb.sql.coercion import is_text
from deltanb.sql.kernels import decimal_text
from deltanb.sql.literals import NANOSECONDS_LOST
from deltanb.text.formatting import did_you_mean

_NUMBERS = INTEGERS.keys() | {"float", "double"}
_TIMES = {"timestamp", "timestamp_ntz", "timestamp_nanos", "timestamp_nanos_ntz"}
PARTITION_MISSING = "partition column, missing from the data"
OVERWRITE_SCHEMA = "overwrite_schema=True"
MISSPELT = "; did you mean "  # in the line of a column that is like one the data lacks
LIKE = 0.7  # how like: one slip in a short name; "delay_minutes" is no slip of "delay"


def differences(
    data: pa.Schema, table: StructType, partition_columns: Sequence[str] = (), *, extra_ok: bool = False
) -> list[str]:
    """What keeps data of that Arrow schema from being written to the table, one line each.

    ``+`` is a column the table lacks (left out with ``extra_ok``), with the one it may be a slip of; ``-``
    one the data lacks, ``~`` a type that cannot be assigned.
    """
    lines = _compare(_Struct(data), table, "", extra_ok)
    present = {name.lower() for name in data.names}
    lines += [f"- {name}: {PARTITION_MISSING}"
              for name in partition_columns if name.lower() not in present
              and table.field(name).nullable]
    return lines


def lacking(had: DataType, required: DataType, path: str) -> list[str]:
    """The fields of structs, at any depth, that a value would leave NULL in a column; one line each.

    >>> from deltanb.schema.ddl import parse_type
    >>> lacking(parse_type("struct<a: long>"), parse_type("struct<a: long, c: long>"), "st")
    ['- st.c: long, missing from the value']
    """
    match had, required:
        case StructType(), StructType():
            lines = []
            for field in required.fields:
                inner, name = had.get(field.name), f"{path}.{field.name}"
                lines += [f"- {name}: {field.type}, missing from the value"] if inner is None else \
                    lacking(inner.type, field.type, name)
            return lines
        case ArrayType(), ArrayType():
            return lacking(had.element_type, required.element_type, path + ".element")
        case MapType(), MapType():
            return (lacking(had.key_type, required.key_type, path + ".key")
                    + lacking(had.value_type, required.value_type, path + ".value"))
    return []


def refuse_lacking(had: DataType, required: DataType, path: str) -> None:
    """Refuse a value whose structs lack fields of the column's: it would set them to NULL in silence.

    Raises:
        SchemaMismatch: naming each of them.
    """
    lines = lacking(had, required, path)
    if lines:
        raise mismatch(lines, "Give the whole value, assign the fields that are there one by one (a.b), or, "
                              "in a merge, let the others be NULL: with_schema_evolution()")


def mismatch(lines: Sequence[str], hint: str = "") -> SchemaMismatch:
    """The error for :func:`differences`, with the lines in its message and as ``.differences``."""
    count = f"{len(lines)} difference{'s' if len(lines) > 1 else ''}"
    hint = hint or _hint(lines)
    return SchemaMismatch(
        f"the data does not fit the table: {count}\n" + "\n".join(f"  {line}" for line in lines)
        + f"\n{hint}", differences=list(lines),
    )


def _hint(lines: Sequence[str]) -> str:
    slips = [line for line in lines if MISSPELT in line]
    meant = {name for line in slips for name in line.rpartition(MISSPELT)[2].rstrip("?").split(" or ")}
    others = [line for line in lines if line not in slips and line[2:].partition(":")[0] not in meant]
    marks = {line[0] for line in others}
    says = []
    if slips:
        says.append("give the columns of the data the names that the table has")
    if "+" in marks:
        says.append("merge_schema=True adds new columns")
    if marks & {"-", "~"}:
        says.append("cast or fill the columns of the data")
    if others:
        more = ", partition_by=[...]" if any(PARTITION_MISSING in line for line in others) else ""
        says.append(f"overwrite(..., {OVERWRITE_SCHEMA}{more}) replaces the table's schema")
    return "What you can do: " + "; ".join(says) + "."


class _Struct:
    """The fields of an Arrow schema or struct type by lower-case name."""

    def __init__(self, holder: pa.Schema | pa.StructType) -> None:
        self.fields = [holder.field(i) for i in range(_width(holder))]
        self.places: dict[str, int] = {}
        self.twice = []
        for place, field in enumerate(self.fields):
            if self.places.setdefault(field.name.lower(), place) != place:
                self.twice.append(field.name)


def _width(holder: pa.Schema | pa.StructType) -> int:
    return len(holder) if isinstance(holder, pa.Schema) else holder.num_fields


def _compare(data: _Struct, table: StructType, prefix: str, extra_ok: bool) -> list[str]:
    lines = [f"+ {prefix}{name}: named twice in the data (names differ in case at most)"
             for name in data.twice]
    for field in table.fields:
        path = prefix + field.name
        place = data.places.get(field.name.lower())
        if place is None:
            if not field.nullable:
                lines.append(f"- {path}: {field.type} NOT NULL, missing from the data")
        else:
            lines += _compare_type(data.fields[place].type, field.type, path, extra_ok)
    if not extra_ok:
        known = {field.name.lower() for field in table.fields}
        lines += [f"+ {prefix}{field.name}: {_type_name(field.type)}, not in the table"
                  + _slip(field.name, data, table, prefix)
                  for field in data.fields if field.name.lower() not in known]
    return lines


def _slip(name: str, data: _Struct, table: StructType, prefix: str) -> str:
    """Which columns may be meant by one that the table does not have: those that the data lacks."""
    free = [field.name for field in table.fields if field.name.lower() not in data.places]
    hint, close = did_you_mean(name, free, least=LIKE, shown=lambda text: prefix + text)
    return f"; {hint}" if close else ""


def _compare_type(arrow_type: pa.DataType, data_type: DataType, path: str, extra_ok: bool) -> list[str]:
    if _is_uuid(arrow_type) and data_type == PrimitiveType("binary"):
        return []
    arrow_type = _plain(arrow_type)
    if t.is_null(arrow_type):
        return []
    if isinstance(data_type, StructType) and t.is_struct(arrow_type):
        return _compare(_Struct(arrow_type), data_type, path + ".", extra_ok)
    if isinstance(data_type, ArrayType) and _is_list(arrow_type):
        return _compare_type(arrow_type.value_type, data_type.element_type, path + ".element", extra_ok)
    if isinstance(data_type, MapType) and t.is_map(arrow_type):
        return (_compare_type(arrow_type.key_type, data_type.key_type, path + ".key", extra_ok)
                + _compare_type(arrow_type.item_type, data_type.value_type, path + ".value", extra_ok))
    if isinstance(data_type, PrimitiveType) and _assignable(arrow_type, data_type):
        return []
    return [f"~ {path}: {_type_name(arrow_type)} in the data, {data_type} in the table"]


def _type_name(arrow_type: pa.DataType) -> str:
    try:
        return str(schemas.from_arrow_type(arrow_type))
    except InvalidSchema:
        return f"{arrow_type} (an Arrow type Delta does not have)"


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    """The type below dictionaries and run-end encoding, and what an extension means, where that is known."""
    while True:
        if t.is_dictionary(arrow_type) or t.is_run_end_encoded(arrow_type):
            arrow_type = arrow_type.value_type
        elif isinstance(arrow_type, pa.BaseExtensionType) and (kind := equivalent(arrow_type)) is not None:
            arrow_type = kind
        else:
            return arrow_type


def _is_uuid(arrow_type: pa.DataType) -> bool:
    return isinstance(arrow_type, pa.BaseExtensionType) and arrow_type.extension_name == "arrow.uuid"


def _is_list(arrow_type: pa.DataType) -> bool:
    return (t.is_list(arrow_type) or t.is_large_list(arrow_type) or t.is_fixed_size_list(arrow_type)
            or t.is_list_view(arrow_type) or t.is_large_list_view(arrow_type))


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return (t.is_binary(arrow_type) or t.is_large_binary(arrow_type) or t.is_binary_view(arrow_type)
            or t.is_fixed_size_binary(arrow_type))


def _assignable(arrow_type: pa.DataType, data_type: PrimitiveType) -> bool:
    """Spark's ANSI store assignment, without the casts whose text depends on an engine."""
    name = data_type.name
    if name in _NUMBERS or data_type.is_decimal:
        return t.is_integer(arrow_type) or t.is_floating(arrow_type) or t.is_decimal(arrow_type)
    if name == "boolean":
        return t.is_boolean(arrow_type)
    if name == "binary":
        return _is_bytes(arrow_type)
    if name == "date" or name in _TIMES:
        return t.is_date(arrow_type) or t.is_timestamp(arrow_type)
    if name == DAY_TO_SECOND:
        return t.is_duration(arrow_type) or t.is_interval(arrow_type)
    if name == YEAR_TO_MONTH:
        return t.is_interval(arrow_type)
    if name == "variant":
        return t.is_struct(arrow_type) and sorted(f.name for f in arrow_type) == ["metadata", "value"]
    if name in ("void", "null"):
        return False
    if name == "string" or name.startswith(("varchar", "char", "string collate")):
        return (is_text(arrow_type) or t.is_integer(arrow_type) or t.is_decimal(arrow_type)
                or t.is_boolean(arrow_type) or t.is_date(arrow_type))
    return False


# --- rows -----------------------------------------------------------------------------------------

class Enforcer:
    """Turns batches of one data schema into batches of the table's columns.

    Args:
        data: the Arrow schema of the batches.
        table: the table's logical schema; its order is the result's.
        partition_columns: must be in the data.

    Raises:
        SchemaMismatch: the schemas do not fit, with every difference.
        UnsupportedProtocol: the table has a type this library cannot hold.
    """

    def __init__(
        self, data: pa.Schema, table: StructType, partition_columns: Sequence[str] = ()
    ) -> None:
        lines = differences(data, table, partition_columns)
        if lines:
            raise mismatch(lines)
        self.table = table
        self.places = _Struct(data).places
        self.schema = schemas.to_arrow(nullable(table))
        """The Arrow schema of the result: the table's, everything nullable."""

    def apply(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """The batch in the table's form; ``first_row`` numbers its rows in errors (from 0).

        Raises:
            SchemaMismatch: a value does not fit its column (``.column``, ``.value``, ``.row``).
        """
        columns = []
        for field, target in zip(self.table.fields, self.schema, strict=True):
            place = self.places.get(field.name.lower())
            if place is None:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            try:
                columns.append(_convert(batch.column(place), field.type, target.type, field.name))
            except _Unfit as unfit:
                raise unfit.error(first_row) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def nullable(schema: StructType) -> StructType:
    """The schema with everything nullable: rows that break a NOT NULL can be held and named."""
    return schema.relaxed


class _Unfit(Exception):
    """A value that its column cannot hold; ``row`` counts within the batch, None inside arrays."""

    def __init__(
        self, path: str, row: int | None, value: Any, data_type: object, why: str, way: str = ""
    ) -> None:
        super().__init__(path)
        self.path, self.row, self.value, self.data_type, self.why = path, row, value, data_type, why
        self.way = way or "Change the value, or give the column a wider type"

    def error(self, first_row: int) -> SchemaMismatch:
        row = None if self.row is None else first_row + self.row + 1
        where = "" if row is None else f" in row {row}"
        line = f"~ {self.path}: value {self.value!r}{where} does not fit {self.data_type} ({self.why})"
        return SchemaMismatch(
            f"the data does not fit the table: column {self.path!r} is {self.data_type}, and the value "
            f"{self.value!r}{where} does not fit ({self.why}); nothing was written. {self.way}",
            differences=[line], column=self.path, value=self.value, row=row,
        )


def _convert(array: Any, data_type: DataType, target: pa.DataType, path: str) -> pa.Array:
    if array.type.equals(target) and not _has_months(target):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _convert(_of_extension(array, target), data_type, target, path)
    if t.is_dictionary(array.type) or t.is_run_end_encoded(array.type):
        return _convert(decoded(array), data_type, target, path)
    if t.is_null(array.type):
        return filled(pa.nulls(len(array), target))
    if isinstance(data_type, StructType):
        return _convert_struct(array, data_type, target, path)
    if isinstance(data_type, ArrayType):
        offsets = _offsets(array)
        values = _inside(array.flatten(), data_type.element_type, target.value_type, path + ".element")
        made = pa.ListArray.from_arrays(offsets, values, mask=array.is_null())
        return made.view(target)
    if isinstance(data_type, MapType):
        entries = _entries(array, array.keys, array.items)
        flat = entries.flatten()
        keys = _inside(pc.struct_field(flat, [0]), data_type.key_type, target.key_type, path + ".key")
        items = _inside(pc.struct_field(flat, [1]), data_type.value_type, target.item_type,
                        path + ".value")
        made = pa.MapArray.from_arrays(_offsets(entries), keys, items, mask=array.is_null())
        return made.view(target)
    if data_type.name == "variant":
        children = [pc.struct_field(array, [array.type.get_field_index(name)]).cast(pa.binary())
                    for name in ("metadata", "value")]
        parts = [child.fill_null(b"") for child in children]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())
    return _convert_values(array, data_type, target, path)


def _of_extension(array: Any, target: pa.DataType) -> pa.Array:
    """What values of an extension type mean, in types of Arrow's own."""
    if _is_uuid(array.type) and is_text(target):
        texts = (None if value is None else str(UUID(bytes=value)) for value in array.storage.to_pylist())
        return pa.array(texts, pa.string())
    return array.storage.cast(pa.bool_()) if t.is_boolean(target) else array.storage


def decoded(array: Any) -> pa.Array:
    """The values without dictionaries, runs and views, which Arrow does not take by their positions.

    >>> decoded(pa.array(["a", "b", "a"]).dictionary_encode()).type
    DataType(string)
    """
    if t.is_dictionary(array.type):
        return decoded(array.dictionary).take(array.indices)
    if t.is_run_end_encoded(array.type):
        rows: Any = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(numbers(array.run_ends), rows, side="right")
        return decoded(array.values).take(array_of(runs))
    if t.is_string_view(array.type):
        return array.cast(pa.string())
    if t.is_binary_view(array.type):
        return array.cast(pa.binary())
    return _decoded_inside(array) if _is_encoded(array.type) else array


def _is_encoded(kind: pa.DataType) -> bool:
    """Whether a type, or a part of it, is what :func:`decoded` undoes."""
    return (t.is_dictionary(kind) or t.is_run_end_encoded(kind) or t.is_list_view(kind)
            or t.is_large_list_view(kind) or t.is_string_view(kind) or t.is_binary_view(kind)
            or (t.is_nested(kind) and any(
                _is_encoded(kind.field(place).type) for place in range(kind.num_fields))))


def _decoded_inside(array: Any) -> pa.Array:
    """A struct, list or map whose parts are decoded; its rows are as they were."""
    kind = array.type
    if t.is_struct(kind):
        parts = [decoded(array.field(place)) for place in range(kind.num_fields)]
        fields = [kind.field(place).with_type(part.type) for place, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if t.is_map(kind):
        entries = _entries(array, decoded(array.keys), decoded(array.items))
        pairs = entries.flatten()
        return pa.MapArray.from_arrays(
            _offsets(entries), pairs.field(0), pairs.field(1), mask=array.is_null())
    if _is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), decoded(array.flatten()), mask=array.is_null())
    return array


def _entries(array: pa.MapArray, keys: pa.Array, items: pa.Array) -> pa.ListArray:
    """A map as a list of pairs; a cast of some rows would take runs from the beginning."""
    pairs = pa.StructArray.from_arrays([keys, items], names=["key", "value"])
    return pa.ListArray.from_buffers(
        pa.list_(pairs.type), len(array), array.buffers()[:2], array.null_count, array.offset, [pairs])


@lru_cache(maxsize=256)
def _has_months(kind: pa.DataType) -> bool:
    """Whether values of the type may have days beside months, which no column takes."""
    return "month_day_nano" in str(kind)


def _convert_struct(array: Any, struct: StructType, target: pa.DataType, path: str) -> pa.Array:
    places = _Struct(array.type).places
    children = []
    for field, child in zip(struct.fields, target, strict=True):
        place = places.get(field.name.lower())
        if place is None:
            children.append(filled(pa.nulls(len(array), child.type)))
        else:
            children.append(_convert(pc.struct_field(array, [place]), field.type, child.type,
                                     f"{path}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _offsets(array: Any) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    return pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))


def _inside(array: Any, data_type: DataType, target: pa.DataType, path: str) -> pa.Array:
    """Convert the elements of arrays or maps, whose places are not the rows' numbers."""
    try:
        return _convert(array, data_type, target, path)
    except _Unfit as unfit:
        unfit.row = None
        raise


def _convert_values(
    array: Any, data_type: PrimitiveType, target: pa.DataType, path: str
) -> pa.Array:
    try:
        return _cast(array, target)
    except pa.ArrowInvalid as error:
        low, high = 0, len(array)  # the first value that fails, by halving
        while high - low > 1:
            middle = (low + high) // 2
            try:
                _cast(array.slice(low, middle - low), target)
                low = middle
            except pa.ArrowInvalid:
                high = middle
        why = str(error).splitlines()[0]
        counts = counts_nanoseconds(array.type, target) and ("lose data" in why or "microsecond " in why)
        raise _Unfit(path, low, _shown(array[low]), data_type, _why(array.type, data_type, why, counts),
                     ROUNDED if counts else "") from None


def _shown(scalar: pa.Scalar) -> Any:
    """A value for a message: as Python's where Python has one."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return pa.array([scalar], scalar.type).to_string().strip("[]\n ")


def _why(arrow_type: pa.DataType, data_type: PrimitiveType, arrow_says: str, counts: bool) -> str:
    if counts:
        return NANOSECONDS_LOST
    if t.is_date(arrow_type) or t.is_timestamp(arrow_type):
        return "a part of the time would be lost"
    if data_type.name in INTEGERS:
        return "out of its range" if t.is_integer(arrow_type) else "out of its range, or has a fraction"
    if data_type.is_decimal:
        return "needs more digits"
    if data_type.name in ("float", "double"):
        return "out of the range it holds exactly"
    return arrow_says


def counts_nanoseconds(arrow_type: pa.DataType, target: pa.DataType) -> bool:
    """Whether values have nanoseconds for which their column has no place."""
    if t.is_interval(arrow_type):
        return bool(t.is_duration(target))
    has_unit = (t.is_timestamp(arrow_type) and t.is_timestamp(target)) or (
        t.is_duration(arrow_type) and t.is_duration(target))
    return has_unit and arrow_type.unit == "ns" and target.unit == "us"


def in_microseconds(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of nanoseconds cut off at the microseconds, as the options allow.

    Raises:
        SchemaMismatch: something would be lost, and the options do not allow it; naming the first such row.

    >>> in_microseconds("at", pa.chunked_array([pa.array([1000], pa.timestamp("ns"))])).type
    TimestampType(timestamp[us])
    """
    cut = pa.chunked_array([to_microseconds(chunk) for chunk in column.chunks],
                           to_microseconds(pa.array([], column.type)).type)
    if options.nanoseconds == "refuse":
        lost = pc.not_equal(cut.cast(column.type), column)
        row = pc.index(lost, True).as_py()
        if row >= 0:
            raise lost_nanoseconds(name, _shown(column[row]), row + 1)
    return cut


def to_microseconds(array: Any) -> pa.Array:
    """Times in nanoseconds, each cut off at the microsecond before it.

    >>> to_microseconds(pa.array([-1, 1999], pa.duration("ns"))).cast(pa.int64()).to_pylist()
    [-1, 1]
    """
    if t.is_interval(array.type):
        return intervals.to_microseconds(array)
    moments = array.cast(pa.int64()).cast(pa.timestamp("ns"))
    micros = pc.floor_temporal(moments, unit="microsecond").cast(pa.timestamp("us")).cast(pa.int64())
    return micros.cast(pa.timestamp("us", array.type.tz) if t.is_timestamp(array.type) else pa.duration("us"))


def _cast(array: Any, target: pa.DataType) -> pa.Array:
    """A cast that raises ArrowInvalid rather than lose anything but the tail of a binary fraction."""
    if options.nanoseconds == "truncate" and counts_nanoseconds(array.type, target):
        array = to_microseconds(array)
    arrow_type = array.type
    if t.is_floating(target) and t.is_floating(arrow_type):
        made = array.cast(target)
        if pc.any(pc.and_(pc.is_inf(made), pc.is_finite(array))).as_py():
            raise pa.ArrowInvalid("too large")
        return made
    if t.is_decimal(target) and t.is_integer(arrow_type):
        return array.cast(pa.decimal256(76, target.scale)).cast(target)
    if t.is_decimal(arrow_type) and is_text(target):
        return decimal_text(array).cast(target)
    if t.is_floating(target) and t.is_decimal(arrow_type):
        return array.cast(target, safe=False)
    if t.is_integer(target) and t.is_decimal(arrow_type):
        return array.cast(pa.decimal128(38, 0)).cast(target)
    if t.is_date(target) and t.is_timestamp(arrow_type):
        wall_clock = array.cast(pa.timestamp(arrow_type.unit))  # UTC's reading, without a zone
        made = wall_clock.cast(target)
        if pc.any(pc.not_equal(made.cast(wall_clock.type), wall_clock)).as_py():
            raise pa.ArrowInvalid("time of day")
        return made
    if t.is_timestamp(target) and t.is_date(arrow_type):
        return array.cast(pa.timestamp(target.unit)).cast(target)
    if t.is_interval(arrow_type):
        return intervals.checked(array, target)
    return array.cast(target)
