"""Partition values: texts in the log, typed values to us, folders on the file system.

What lives here: reading and writing the texts (PROTOCOL.md, "Partition Value Serialization"), typed
Arrow columns from the map column of a file list, the Hive path Spark would choose, and
:func:`matches`, which asks a few files' values against predicates without going through Arrow.
What it does not know: statistics, data files, the log.

An empty text is NULL for every type; a key that is missing is NULL too. Timestamps are read in both
of the protocol's forms (without a zone they are taken as UTC) and written as ISO 8601 in UTC.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.errors import InvalidArgument, InvalidTable
from deltanb.schema.intervals import format_duration, format_months, micros_of
from deltanb.schema.types import DataType, StructField, StructType, arrow_type
from deltanb.sql import coercion as co
from deltanb.sql import expressions as ex
from deltanb.sql.predicates import Predicate, filter_table

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
MAX_PARSED_DISTINCT = 20_000  # beyond that, Arrow's casts beat reading each distinct text once

# What Spark and Hive escape in a folder's name, besides control characters.
_ESCAPED = frozenset('"#%\'*/:=?\\{[]^\x7f') | {chr(i) for i in range(0x20)}


def parse_value(text: str | None, data_type: DataType) -> Any:
    """The value of a partition column from its text in the log; ``None`` and ``""`` are NULL.

    >>> from deltanb.schema.types import PrimitiveType
    >>> parse_value("1970-01-01 00:00:00.5", PrimitiveType("timestamp")).isoformat()
    '1970-01-01T00:00:00.500000+00:00'

    Raises:
        ValueError: the text is not a value of the type.
    """
    if text is None or text == "":
        return None
    return _read(text, arrow_type(data_type))


@lru_cache(maxsize=4096)
def _read(text: str, data_type: pa.DataType) -> Any:
    if t.is_boolean(data_type) and text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not a boolean")
    if t.is_null(data_type):
        return None
    return co.read_text(text, data_type)


def format_value(value: Any, data_type: DataType) -> str | None:
    """The text of a partition value in the log. NULL is ``None``, and so are the texts that Spark has for it:
    the empty one, and the name of the folder of NULL.

    >>> from datetime import datetime, timezone
    >>> from deltanb.schema.types import PrimitiveType
    >>> format_value(datetime(2020, 1, 2, tzinfo=timezone.utc), PrimitiveType("timestamp"))
    '2020-01-02T00:00:00.000000Z'
    >>> format_value(0.1, PrimitiveType("float")), format_value(1e10, PrimitiveType("double"))
    ('0.1', '1.0E10')
    >>> format_value("__HIVE_DEFAULT_PARTITION__", PrimitiveType("string")) is None
    True

    Raises:
        InvalidArgument: the value is not of the type.
    """
    if value is None or value == "":
        return None
    arrow = arrow_type(data_type)
    try:
        text = _format(value, arrow)
        return None if text in ("", HIVE_NULL) else text
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidArgument(f"{value!r} is not a partition value of type {data_type}: {error}") \
            from None


def _format(value: Any, arrow: pa.DataType) -> str:
    if t.is_boolean(arrow) and isinstance(value, bool):
        return "true" if value else "false"
    if t.is_integer(arrow):
        return str(co.in_range(operator.index(value), arrow))
    if t.is_floating(arrow):
        return _java_float(float(value), single=arrow == pa.float32())
    if t.is_decimal(arrow):
        return format(co.to_decimal(Decimal(value), arrow), "f")
    if t.is_binary(arrow):
        return bytes(value).decode()
    if co.is_text(arrow):
        return value if isinstance(value, str) else _refuse("not a text")
    if t.is_date(arrow):
        return f"{value.year:04}-{value.month:02}-{value.day:02}"
    if t.is_timestamp(arrow) and arrow.unit == "ns":
        return value if arrow.tz else value.replace("T", " ")
    if t.is_timestamp(arrow):
        if arrow.tz is None:
            return value.replace(tzinfo=None).isoformat(" ")
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        utc = aware.astimezone(timezone.utc).replace(tzinfo=None)
        return utc.isoformat(timespec="microseconds") + "Z"
    if t.is_duration(arrow):
        return format_duration(micros_of(value))
    if t.is_interval(arrow) and value.days == value.nanoseconds == 0:
        return format_months(value.months)
    return _refuse("the type cannot partition a table")


def _refuse(problem: str) -> str:
    raise ValueError(problem)


def _java_float(value: float, single: bool) -> str:
    """The shortest digits that read back, two of them at least, laid out as Java does."""
    arrow = pa.float32() if single else pa.float64()
    value = co.to_float(value, arrow)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    # One digit may read back and be further off than two: Java's smallest double is 4.9E-324, not 5E-324.
    shortest = next((text for text in (f"{value:.{n}e}" for n in range(1, 9 if single else 2))
                     if co.to_float(float(text), arrow) == value), repr(value))
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    point = len(digits) + int(exponent)  # digits before the decimal point
    text = "".join(map(str, digits))
    if -3 < point <= 7:
        padded = text.ljust(point, "0") if point > 0 else "0" * (1 - point) + text
        whole = max(point, 1)
        body = f"{padded[:whole]}.{padded[whole:] or '0'}"
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return ("-" if sign else "") + body


# ---------------------------------------------------------------------------- folders


def hive_path(values: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> str:
    """The folder of partition values (as texts), by Spark's escaping; ``""`` without partitions.

    This is the path on the file system; the log holds ``actions.encode_path`` of it.

    >>> hive_path({"a": "x/y", "b": None})
    'a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__'
    """
    pairs = values.items() if isinstance(values, Mapping) else values
    return "/".join(f"{_escape(name)}={_escape(text) if text else HIVE_NULL}"
                    for name, text in pairs)


def is_data_path(path: str, columns: Iterable[str] = ()) -> bool:
    """Whether a path is that of a data file: neither it nor a folder is hidden, except for partitions.

    >>> is_data_path("a=1/x.parquet"), is_data_path("_SUCCESS"), is_data_path("_p=1/x")
    (True, False, False)
    >>> is_data_path("_p=1/x", ["_p"])
    True
    """
    openly = tuple(f"{column}=" for column in columns)
    *folders, last = path.split("/")
    return last[:1] not in ("_", ".") and not any(
        part[:1] in ("_", ".") and not part.startswith(openly) for part in folders)


def parse_hive_path(path: str) -> dict[str, str | None]:
    """The values in the folders of a path, in order; other parts are skipped.

    >>> parse_hive_path("a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    {'a': 'x/y', 'b': None}
    """
    from urllib.parse import unquote

    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1] if not path.endswith("/") else path.split("/"):
        name, equals, text = part.partition("=")
        if equals:
            values[unquote(name)] = None if text == HIVE_NULL else unquote(text)
    return values


def _escape(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


# ---------------------------------------------------------------------------- typed columns


def typed_partition_values(
    files: pa.Table,
    schema: StructType,
    partition_columns: Sequence[str],
    physical_names: Mapping[str, str] | None = None,
) -> pa.Table:
    """Typed columns from ``files["partition_values"]`` (``map<string, string>``), one row per file.

    Columns are named as the schema names them. ``physical_names`` (logical to physical) is taken
    from the schema's column mapping where it is not given.

    Raises:
        InvalidTable: a text is not a value of its column's type.
    """
    column = files.column("partition_values")
    arrays: dict[str, pa.ChunkedArray] = {}
    for name in partition_columns:
        field = schema.field(name)
        physical = (physical_names or {}).get(field.name) or field.physical_name
        chunks = [_typed(_texts(chunk, physical, field.name), field) for chunk in column.chunks]
        arrays[field.name] = pa.chunked_array(chunks, arrow_type(field.type, field.name))
    if not arrays:
        return pa.table({}).select([]) if not files.num_rows else files.select([])
    return pa.table(arrays)


def distinct_partitions(
    column: pa.MapArray, schema: StructType, names: Sequence[str]
) -> tuple[pa.Table, pa.Array]:
    """The partitions in a piece of ``partition_values``: a table with typed columns, and for each row of the
    piece which row of that table is its. ``names``: at least one partition column.

    Raises:
        InvalidTable: a text is not a value of its column's type.
    """
    kinds: dict[str, pa.Array] = {}
    codes: pa.Array | None = None
    for name in names:
        field = schema.field(name)
        words, at = _coded(_texts(column, field.physical_name, field.name), field)
        if codes is None:
            kinds, codes = {field.name: words}, at
            continue
        wide = pc.add(pc.multiply(codes.cast(pa.int64()), _int64(len(words))), at)
        both = wide.dictionary_encode()
        codes, pairs = both.indices, both.dictionary
        quotients = pc.divide(pairs, _int64(len(words)))
        kinds = {key: values.take(quotients) for key, values in kinds.items()}
        kinds[field.name] = words.take(pc.subtract(pairs, pc.multiply(quotients, _int64(len(words)))))
    return pa.table(kinds), codes


def _int64(value: int) -> pa.Scalar:
    return co.arrow_scalar(value, pa.int64())


def _texts(chunk: pa.MapArray, physical: str, logical: str) -> pa.Array:
    """One key's items, NULL if missing; dictionary-encoded if they were."""
    rows = len(chunk)
    if not chunk.null_count and rows:
        first, last = chunk.offsets[0].as_py(), chunk.offsets[rows].as_py()
        items = chunk.items.slice(first, last - first)
        hits = _equal(chunk.keys.slice(first, last - first), physical)
        count = pc.sum(hits).as_py() or 0
        if count == rows:  # every file has the key once: the common case, with no lookup a row
            return items if len(items) == rows else items.filter(hits)
    if t.is_dictionary(chunk.type.item_type):
        chunk = chunk.cast(pa.map_(pa.string(), pa.string()))
    column = _lookup(chunk, physical)
    if physical != logical and column.null_count == rows:
        return _lookup(chunk, logical)
    return column


def _equal(texts: pa.Array, text: str) -> pa.Array:
    if t.is_dictionary(texts.type):
        return _equal(texts.dictionary, text).take(texts.indices)
    return pc.equal(texts, co.arrow_scalar(text, texts.type))


def _lookup(chunk: pa.MapArray, key: str) -> pa.Array:
    scalar = co.arrow_scalar(key, chunk.type.key_type)
    return pc.map_lookup(chunk, query_key=scalar, occurrence="first")


def _without_empty(texts: pa.Array) -> pa.Array:
    """NULL in place of every empty text."""
    empty = co.arrow_scalar("", texts.type)
    return pc.if_else(pc.equal(texts, empty), pa.nulls(1, texts.type)[0], texts)


def _typed(texts: pa.Array, field: StructField) -> pa.Array:
    if co.is_text(arrow_type(field.type, field.name)) and not t.is_dictionary(texts.type):
        return _without_empty(texts)
    words, codes = _coded(texts, field)
    return words.take(codes)


def _coded(texts: pa.Array, field: StructField) -> tuple[pa.Array, pa.Array]:
    """The distinct values, the last of which is NULL, and the index of each text's value."""
    target = arrow_type(field.type, field.name)
    encoded = texts if t.is_dictionary(texts.type) else texts.dictionary_encode()
    values = _values(encoded, target, field)
    none = co.arrow_scalar(len(values), encoded.indices.type)
    codes = pc.coalesce(encoded.indices, none) if encoded.null_count else encoded.indices
    return pa.concat_arrays([values, pa.nulls(1, target)]), codes


def _values(encoded: pa.DictionaryArray, target: pa.DataType, field: StructField) -> pa.Array:
    words = encoded.dictionary
    if co.is_text(target):
        return _without_empty(words).cast(target)
    if len(words) > MAX_PARSED_DISTINCT:
        fast = _arrow_cast(words, target)
        if fast is not None:
            return fast
    values = []
    for number, text in enumerate(words.to_pylist()):
        try:
            values.append(_value(text, target, field))
        except InvalidTable:  # rows that are gone leave their texts in a dictionary
            if pc.any(pc.equal(encoded.indices, co.arrow_scalar(number, encoded.indices.type))).as_py():
                raise
            values.append(None)
    return co.arrow_array(values, target)


def _arrow_cast(words: pa.Array, target: pa.DataType) -> pa.Array | None:
    if t.is_timestamp(target) or t.is_boolean(target):
        return None
    try:
        return _without_empty(words).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _value(text: str | None, target: pa.DataType, field: StructField) -> Any:
    if not text:
        return None
    try:
        return _read(text, target)
    except ValueError as error:
        raise InvalidTable(
            f"a file's partition value {text!r} for column {field.name!r} is no {field.type} "
            f"({error}); the commit that added the file is broken: remove the file or restore an "
            "earlier version", column=field.name, value=text,
        ) from None


# ---------------------------------------------------------------------------- a few files


class _NotSimple(Exception):
    """An operation that only Arrow evaluates here."""


def matches(
    files: Iterable[Any],
    predicates: Sequence[Predicate],
    schema: StructType,
    partition_columns: Sequence[str],
) -> list[bool]:
    """For each file, whether its partition values make every predicate TRUE (NULL is no match).

    ``files`` are actions or their ``partition_values`` mappings. Predicates must be over partition
    columns only.

    Raises:
        InvalidTable: a text is not a value of its column's type.
        UnsupportedPredicate: as :meth:`Predicate.to_expression`.
    """
    maps: list[Mapping[str, str | None]] = [
        file if isinstance(file, Mapping) else file.partition_values for file in files
    ]
    used = {path[0] for predicate in predicates for path in predicate.column_paths}
    names = {schema.field(name).name for name in partition_columns}
    if used - names:
        raise InvalidArgument(f"{sorted(used - names)} are not partition columns; the table is "
                              f"partitioned by {list(partition_columns)}")
    fields = [(f.name, f.physical_name, f, arrow_type(f.type, f.name))
              for f in (schema.field(name) for name in used)]
    rows = [{name: _value(values.get(physical, values.get(name)), arrow, f)
             for name, physical, f, arrow in fields} for values in maps]
    may_match = [True] * len(rows)
    for predicate in predicates:
        try:
            test = _closure(predicate.expression)
        except _NotSimple:
            may_match = _through_arrow(predicate, rows, may_match, fields)
            continue
        may_match = [before and test(row) is True for before, row in zip(may_match, rows, strict=True)]
    return may_match


def _through_arrow(
    predicate: Predicate, rows: list[dict[str, Any]], may_match: list[bool], fields: Any
) -> list[bool]:
    columns = {name: pa.array([row[name] for row in rows], arrow)
               for name, _, _, arrow in fields}
    table = pa.table({**columns, "\0row": pa.array(range(len(rows)), pa.int64())})
    hits = set(filter_table(table, predicate).column("\0row").to_pylist())
    return [before and i in hits for i, before in enumerate(may_match)]


@lru_cache(maxsize=512)
def _closure(node: ex.Expression) -> Callable[[dict[str, Any]], Any]:
    """The expression as a function of a row; TRUE, FALSE or None."""
    if isinstance(node, ex.Literal):
        value = node.value
        return lambda row: value
    if isinstance(node, ex.Column):
        name = node.path[0]
        return lambda row: row[name]
    if node.op in _OPERATORS:
        if t.is_floating(node.args[0].type) or any(map(_is_text_of_time, node.args)):
            raise _NotSimple
        return _compared(_OPERATORS[node.op], *map(_closure, node.args))
    builder = _BUILDERS.get(node.op)
    if builder is None:
        raise _NotSimple
    return builder(node)


def _compared(operation: Any, left: Any, right: Any) -> Callable[[dict[str, Any]], Any]:
    def test(row: dict[str, Any]) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else operation(a, b)

    return test


def _junction(decisive: bool) -> Callable[[ex.Call], Callable[[dict[str, Any]], Any]]:
    """AND is decided by one FALSE, OR by one TRUE; else NULL where any part is."""

    def build(node: ex.Call) -> Callable[[dict[str, Any]], Any]:
        parts = [_closure(arg) for arg in node.args]

        def test(row: dict[str, Any]) -> Any:
            unknown = False
            for part in parts:
                value = part(row)
                if value is decisive:
                    return decisive
                unknown = unknown or value is None
            return None if unknown else not decisive

        return test

    return build


def _is_text_of_time(node: ex.Expression) -> bool:
    """Whether values are times in nanoseconds, which are texts here and datetimes in conditions."""
    return bool(t.is_timestamp(node.type) and node.type.unit == "ns")


def _member(node: ex.Call) -> Callable[[dict[str, Any]], Any]:
    if t.is_floating(node.args[0].type) or _is_text_of_time(node.args[0]):
        raise _NotSimple
    operand = _closure(node.args[0])
    values = set(node.extra.values)
    absent = None if node.extra.has_null else False

    def test(row: dict[str, Any]) -> Any:
        value = operand(row)
        return None if value is None else value in values or absent

    return test


def _cast(node: ex.Call) -> Callable[[dict[str, Any]], Any]:
    operand, source, target = _closure(node.args[0]), node.args[0].type, node.type
    if not co.is_text(source) or not t.is_integer(target):
        raise _NotSimple

    def test(row: dict[str, Any]) -> Any:
        try:
            return co.convert(operand(row), source, target)
        except ValueError:
            return None

    return test


def _null_safe(node: ex.Call) -> Callable[[dict[str, Any]], Any]:
    if t.is_floating(node.args[0].type) or _is_text_of_time(node.args[0]):
        raise _NotSimple
    left, right = map(_closure, node.args)
    return lambda row: left(row) == right(row)


def _of_one(function: Callable[[Any], Any]) -> Callable[[ex.Call], Callable[[dict[str, Any]], Any]]:
    def build(node: ex.Call) -> Callable[[dict[str, Any]], Any]:
        operand = _closure(node.args[0])
        return lambda row: function(operand(row))

    return build


_OPERATORS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
              "gt": operator.gt, "ge": operator.ge}
_BUILDERS: dict[str, Callable[[ex.Call], Callable[[dict[str, Any]], Any]]] = {
    "and": _junction(False),
    "or": _junction(True),
    "not": _of_one(lambda value: None if value is None else not value),
    "is_null": _of_one(lambda value: value is None),
    "is_true": _of_one(lambda value: value is True),
    "in": _member,
    "cast": _cast,
    "null_safe_eq": _null_safe,
}
