"""Delta's schema types, their JSON form, and their Arrow counterparts.

What lives here: the types of PROTOCOL.md ("Schema Serialization Format") as values, both ways to JSON
and to Arrow. Types that this library does not know parse (a log with them must still replay); they
are refused by name when an Arrow schema is asked for.
What it does not know: column mapping, statistics, files.

>>> schema = StructType([StructField("id", PrimitiveType("long")), StructField("tags", ArrayType(STRING))])
>>> StructType.from_json(schema.to_json()) == schema
True
>>> to_arrow(schema).field("tags").type
ListType(list<element: string>)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidSchema, InvalidTable, UnsupportedProtocol
from deltanb.schema.extensions import storable
from deltanb.schema.intervals import DAY_TO_SECOND, SPELLINGS, YEAR_TO_MONTH
from deltanb.text.damage import what_is_wrong
from deltanb.text.display import views
from deltanb.text.formatting import MAX_COLUMNS, clean, fit
from deltanb.text.spellings import refuse_call

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PRECISION = 38  # digits of a decimal
PHYSICAL_NAME = "delta.columnMapping.physicalName"
CHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # metadata of a column of strings: char(n) or varchar(n)
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_STORED_AS = {
    "string": re.compile(r"(var)?char\(\s*\d+\s*\)|string collate .*"),
    "binary": re.compile(r"(geometry|geography)(\([\w:\- ,]*\))?"),
}
"""Types that have a parameter, and are held as another one: texts, and geometries as well-known binary."""


@dataclass(frozen=True)
class PrimitiveType:
    """A type that is written as a string, e.g. ``long`` or ``decimal(10,2)``."""

    name: str

    @property
    def is_decimal(self) -> bool:
        """``decimal`` with or without precision."""
        return self.name == "decimal" or _DECIMAL.fullmatch(self.name) is not None

    @property
    def precision(self) -> int:
        """Digits of a decimal; 10 where the schema does not say."""
        match = _DECIMAL.fullmatch(self.name)
        return int(match[1]) if match else 10

    @property
    def scale(self) -> int:
        """Digits after the point of a decimal; 0 where the schema does not say."""
        match = _DECIMAL.fullmatch(self.name)
        return int(match[2]) if match else 0

    def to_dict(self) -> str:
        """The JSON form: the name."""
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ArrayType:
    """A list of one element type."""

    element_type: DataType
    contains_null: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"type": "array", "elementType": self.element_type.to_dict(),
                "containsNull": self.contains_null}

    def __str__(self) -> str:
        return f"array<{self.element_type}>"


@dataclass(frozen=True)
class MapType:
    """A map from a key type to a value type."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"type": "map", "keyType": self.key_type.to_dict(),
                "valueType": self.value_type.to_dict(),
                "valueContainsNull": self.value_contains_null}

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"


@dataclass(frozen=True)
class StructField:
    """A column or nested field; ``metadata`` holds JSON values (comment, column mapping, …)."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"name": self.name, "type": self.type.to_dict(), "nullable": self.nullable,
                "metadata": self.metadata}

    @property
    def physical_name(self) -> str:
        """The name in data files, statistics and partition values (PROTOCOL.md, "Column Mapping")."""
        return str(self.metadata.get(PHYSICAL_NAME, self.name))

    def replace(self, **changes: Any) -> StructField:
        """A copy with some parts changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, repr=False)
class StructType:
    """An ordered list of fields: a table's schema, or a nested struct.

    ``repr`` is one line, cut where it is longer than that; ``str`` has all of it, as in SQL. Notebooks show
    the columns as a tree, and :meth:`tree` is that tree as text.

    >>> StructType([StructField("id", PrimitiveType("long"), False), StructField("tags", ArrayType(STRING))])
    <StructType id: long not null, tags: array<string>>
    """

    fields: tuple[StructField, ...] = ()

    def __init__(self, fields: Any = ()) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    @cached_property
    def names(self) -> list[str]:
        """Field names in order."""
        return [f.name for f in self.fields]

    @cached_property
    def _lower(self) -> dict[str, StructField]:
        return {f.name.lower(): f for f in reversed(self.fields)}

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refuse_call("schema")

    def get(self, name: str) -> StructField | None:
        """The field of that name: the exact one, else the one that differs in case, else None."""
        field = self._lower.get(name.lower())
        if field is not None and field.name != name:
            return next((f for f in self.fields if f.name == name), field)
        return field

    def field(self, name: str) -> StructField:
        """The field of that name, as :meth:`get`.

        Raises:
            KeyError: there is none.
        """
        field = self.get(name)
        if field is None:
            raise KeyError(name)
        return field

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"type": "struct", "fields": [f.to_dict() for f in self.fields]}

    def to_json(self) -> str:
        """The text that ``metaData.schemaString`` holds."""
        return json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> StructType:
        """Parse ``metaData.schemaString``.

        Raises:
            InvalidTable: the text is not a schema.
        """
        try:
            parsed = parse_type(json.loads(text))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidTable(
                f"the table's schemaString is not a schema ({what_is_wrong(error)}): {text[:80]!r}. Read an "
                "earlier version, or commit a metaData action with a whole schema") from None
        if not isinstance(parsed, StructType):
            raise InvalidTable(f"the table's schemaString is not a struct: {text[:80]!r}")
        return parsed

    def to_arrow(self) -> pa.Schema:
        """As :func:`to_arrow`."""
        return self._arrow

    @cached_property
    def _arrow(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([arrow_field(f, f.name) for f in self.fields])

    @cached_property
    def relaxed(self) -> StructType:
        """The schema with everything nullable, at every level."""
        return StructType([StructField(f.name, _relaxed(f.type), True, f.metadata) for f in self.fields])

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __str__(self) -> str:
        return f"struct<{', '.join(str(f) for f in self.fields)}>"

    def __repr__(self) -> str:
        text = f"StructType {', '.join(clean(f) for f in self.fields[:MAX_COLUMNS])}".rstrip()
        return f"<{fit(text, MAX_COLUMNS - 2)}>"

    def tree(self) -> str:
        """The columns as a tree, a line for each column and nested field.

        >>> address = StructType([StructField("city", STRING), StructField("zip", STRING, False)])
        >>> print(StructType([StructField("id", PrimitiveType("long")),
        ...                   StructField("addresses", ArrayType(address))]).tree())
        ├─ id: long
        └─ addresses: array
           └─ element: struct
              ├─ city: string
              └─ zip: string not null
        """
        return "\n".join(f"{branch}{name}: {kind}{'' if nullable else ' not null'}"
                         for branch, name, kind, nullable in self.nodes())

    def nodes(self) -> list[tuple[str, str, str, bool]]:
        """The lines of :meth:`tree`: branches, name, type in a word, whether it may be null."""
        return list(_nodes([(f.name, f.type, f.nullable) for f in self.fields], ""))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        forms: dict[str, Any] = views().mimebundle(self, include, exclude)
        return forms

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree to a page that needs nothing else: :meth:`deltanb.text.display.Displayable.save`.

        >>> StructType([StructField("id", PrimitiveType("long"))]).save("schema.html").name
        'schema.html'
        """
        written: Path = views().save(self, path)
        return written


DataType = PrimitiveType | ArrayType | MapType | StructType


def _nodes(
    children: Sequence[tuple[str, DataType, bool]], indent: str
) -> Iterator[tuple[str, str, str, bool]]:
    for at, (name, kind, nullable) in enumerate(children):
        is_last = at == len(children) - 1
        below = _children(kind)
        word = type(kind).__name__.removesuffix("Type").lower() if below else str(kind)
        yield indent + ("└─ " if is_last else "├─ "), name, word, nullable
        yield from _nodes(below, indent + ("   " if is_last else "│  "))


def _children(kind: DataType) -> list[tuple[str, DataType, bool]]:
    """What a nested type is made of; an array or map of plain values is one line."""
    if isinstance(kind, StructType):
        return [(f.name, f.type, f.nullable) for f in kind.fields]
    if isinstance(kind, ArrayType) and not isinstance(kind.element_type, PrimitiveType):
        return [("element", kind.element_type, kind.contains_null)]
    if isinstance(kind, MapType) and not (
            isinstance(kind.key_type, PrimitiveType) and isinstance(kind.value_type, PrimitiveType)):
        return [("key", kind.key_type, False), ("value", kind.value_type, kind.value_contains_null)]
    return []


STRING = PrimitiveType("string")


def parse_type(value: Any) -> DataType:
    """The type in its JSON form.

    Raises:
        ValueError, KeyError: not a type.
    """
    if isinstance(value, str):
        return PrimitiveType(SPELLINGS.get(value, value))
    if not isinstance(value, Mapping):
        raise ValueError(f"no type: {value!r:.80}")
    match value["type"]:
        case "struct":
            return StructType(_parse_field(item) for item in value["fields"])
        case "array":
            return ArrayType(parse_type(value["elementType"]), _flag(value, "containsNull"))
        case "map":
            return MapType(parse_type(value["keyType"]), parse_type(value["valueType"]),
                           _flag(value, "valueContainsNull"))
        case other:
            raise ValueError(f"no type: {other!r:.80}")


@dataclass(frozen=True)
class TypeNames:
    """One primitive type by all its names.

    ``delta`` is that of the log; ``sql`` are SQL's, of which messages use the first; ``spark`` is the class
    in ``pyspark.sql.types`` ("": Spark has none), ``arrow`` the function of ``pyarrow`` with its arguments,
    ``parsed`` what sqlglot calls a type that can be cast to. ``bits`` is the size of an integer. ``bounds``:
    statistics have its smallest and largest value. ``in_files`` is the type whose values a file has in its
    stead.
    """

    delta: str
    sql: tuple[str, ...]
    spark: str
    arrow: str
    parsed: str = ""
    bits: int = 0
    bounds: bool = True
    in_files: str = ""


TYPES = {one.delta: one for one in (
    TypeNames("byte", ("tinyint", "byte"), "ByteType", "int8", "TINYINT", 8),
    TypeNames("short", ("smallint", "short"), "ShortType", "int16", "SMALLINT", 16),
    TypeNames("integer", ("int", "integer"), "IntegerType", "int32", "INT", 32),
    TypeNames("long", ("bigint", "long"), "LongType", "int64", "BIGINT", 64),
    TypeNames("float", ("float", "real"), "FloatType", "float32", "FLOAT"),
    TypeNames("double", ("double",), "DoubleType", "float64", "DOUBLE"),
    TypeNames("string", ("string",), "StringType", "string", "TEXT VARCHAR CHAR"),
    TypeNames("binary", ("binary",), "BinaryType", "binary", "BINARY VARBINARY", bounds=False),
    TypeNames("boolean", ("boolean",), "BooleanType", "bool_", "BOOLEAN"),
    TypeNames("date", ("date",), "DateType", "date32", "DATE"),
    TypeNames("timestamp", ("timestamp", "timestamp_ltz"), "TimestampType", "timestamp us UTC",
              "TIMESTAMP TIMESTAMPTZ TIMESTAMPLTZ"),
    TypeNames("timestamp_ntz", ("timestamp_ntz",), "TimestampNTZType", "timestamp us", "TIMESTAMPNTZ"),
    TypeNames("timestamp_nanos", ("timestamp_nanos",), "", "timestamp ns UTC", bounds=False),
    TypeNames("timestamp_nanos_ntz", ("timestamp_nanos_ntz",), "", "timestamp ns", bounds=False),
    TypeNames(DAY_TO_SECOND, (DAY_TO_SECOND,), "DayTimeIntervalType", "duration us", bounds=False,
              in_files="long"),
    TypeNames(YEAR_TO_MONTH, (YEAR_TO_MONTH,), "YearMonthIntervalType", "month_day_nano_interval",
              bounds=False, in_files="integer"),  # Arrow's months alone are a type that pyarrow cannot make
    TypeNames("variant", ("variant",), "VariantType", "struct", bounds=False),
    TypeNames("void", ("void",), "NullType", "null", bounds=False),
    TypeNames("null", (), "NullType", "null", bounds=False),  # as some writers call void
)}
"""Every primitive type but decimals and texts of limited length, by its name in the log."""
SQL_NAMES = {name: one.delta for one in TYPES.values() for name in one.sql}
"""SQL's name of a type, in lower case -> its name in the log."""
INTEGERS = {one.delta: one.bits for one in TYPES.values() if one.bits}
"""The integer types and their bits, the smallest first."""


def unknown_types(data_type: DataType, path: str = "") -> Iterator[tuple[str, DataType]]:
    """The types in a schema that this library does not know, each with the path of its column.

    PROTOCOL.md, "Schema Serialization Format"; ``char`` and ``varchar`` count as known, they are texts.

    >>> schema = StructType([StructField("a", ArrayType(PrimitiveType("interval month to second")))])
    >>> [(path, str(one)) for path, one in unknown_types(schema)]
    [('a.element', 'interval month to second')]
    """
    match data_type:
        case StructType():
            for one in data_type.fields:
                yield from unknown_types(one.type, f"{path}.{one.name}" if path else one.name)
        case ArrayType():
            yield from unknown_types(data_type.element_type, f"{path}.element")
        case MapType():
            yield from unknown_types(data_type.key_type, f"{path}.key")
            yield from unknown_types(data_type.value_type, f"{path}.value")
        case PrimitiveType(name):
            fits = data_type.is_decimal and 0 <= data_type.scale <= data_type.precision <= MAX_PRECISION and (
                data_type.precision > 0)
            if not (held_as(name) in TYPES or fits):
                yield path, data_type


def held_as(name: str) -> str:
    """The name in :data:`TYPES` of the type in which values are held; of other types the name itself.

    >>> held_as("varchar(5)"), held_as("geometry(EPSG:4326)"), held_as("long")
    ('string', 'binary', 'long')
    """
    if name not in TYPES:
        for held, pattern in _STORED_AS.items():
            if pattern.fullmatch(name):
                return held
    return name


def _parse_field(item: Mapping[str, Any]) -> StructField:
    if not isinstance(item["name"], str):
        raise ValueError(f"a field's name is not a string: {item['name']!r:.80}")
    return StructField(item["name"], parse_type(item["type"]), _flag(item, "nullable"),
                       dict(item.get("metadata") or {}))


def _flag(item: Mapping[str, Any], name: str) -> bool:
    value = item.get(name, True)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, found {value!r:.80}")
    return value


# ---------------------------------------------------------------------------- Arrow


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema in which rows of a table are held; nullability kept, metadata not.

    Timestamps are microseconds in UTC, ``timestamp_ntz`` without a zone; a variant is the struct of its
    two binaries. An interval of days and seconds is a duration in microseconds, as in Spark's ``toArrow``;
    one of years and months is a ``month_day_nano_interval`` of months alone. A geometry or geography is
    its well-known binary.

    Raises:
        UnsupportedProtocol: a type that this library does not know, with its column.
    """
    return schema.to_arrow()


def _relaxed(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return type_.relaxed
    if isinstance(type_, ArrayType):
        return ArrayType(_relaxed(type_.element_type), True)
    if isinstance(type_, MapType):
        return MapType(_relaxed(type_.key_type), _relaxed(type_.value_type), True)
    return type_


def arrow_field(f: StructField, path: str | None = None) -> pa.Field:
    """One field of :func:`to_arrow`; ``path`` names the column in errors."""
    import pyarrow as pa

    return pa.field(f.name, arrow_type(f.type, path or f.name), f.nullable)


def arrow_type(data_type: DataType, path: str = "") -> pa.DataType:
    """The Arrow type of a Delta type, as :func:`to_arrow`."""
    import pyarrow as pa

    match data_type:
        case StructType():
            return pa.struct([arrow_field(f, f"{path}.{f.name}") for f in data_type.fields])
        case ArrayType():
            element = arrow_type(data_type.element_type, f"{path}.element")
            return pa.list_(pa.field("element", element, data_type.contains_null))
        case MapType():
            value = arrow_type(data_type.value_type, f"{path}.value")
            return pa.map_(arrow_type(data_type.key_type, f"{path}.key"),
                           pa.field("value", value, data_type.value_contains_null))
        case PrimitiveType(name):
            held = held_as(name)
            if held in TYPES:
                return primitives()[held]
            if data_type.is_decimal and 1 <= data_type.precision <= MAX_PRECISION:
                return pa.decimal128(data_type.precision, data_type.scale)
    raise UnsupportedProtocol(
        f"column {path!r} has type {data_type}, which this version of deltanb cannot hold; "
        "read the other columns with columns=[...]",
        features=(str(data_type),), column=path,
    )


@cache
def primitives() -> dict[str, pa.DataType]:
    """The Arrow types of :data:`TYPES`, by their names in the log."""
    import pyarrow as pa

    variant = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    arrow = {name: one.arrow.split() for name, one in TYPES.items()}
    return {name: variant if name == "variant" else getattr(pa, made)(*arguments)
            for name, (made, *arguments) in arrow.items()}


@cache
def primitive_names() -> dict[pa.DataType, str]:
    """Their names in the log, by Arrow type."""
    return {arrow: name for name, arrow in reversed(primitives().items())}


def from_arrow(schema: pa.Schema) -> StructType:
    """The Delta schema that holds rows of an Arrow schema.

    Unsigned integers take the next larger signed type, dictionaries and runs their values' type, times in
    nanoseconds or milliseconds become microseconds; zoned timestamps become ``timestamp``, unzoned
    ``timestamp_ntz``, durations ``interval day to second``, other intervals ``interval year to month``.
    Nullability is kept. Field metadata under ``comment`` is kept.

    Raises:
        InvalidSchema: a type with no Delta counterpart, with its column.
    """
    return StructType(_from_arrow_field(f, f.name) for f in schema)


def _from_arrow_field(f: pa.Field, path: str) -> StructField:
    comment = (f.metadata or {}).get(b"comment")
    metadata = {"comment": comment.decode()} if comment else {}
    return StructField(f.name, from_arrow_type(f.type, path), f.nullable, metadata)


def from_arrow_type(data_type: pa.DataType, path: str = "") -> DataType:
    """The Delta type of an Arrow type, as :func:`from_arrow`."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(data_type) or t.is_run_end_encoded(data_type):
        return from_arrow_type(data_type.value_type, path)
    if isinstance(data_type, pa.BaseExtensionType):
        return from_arrow_type(storable(data_type, path), path)
    if t.is_timestamp(data_type):
        return PrimitiveType("timestamp" if data_type.tz else "timestamp_ntz")
    if data_type in primitive_names():
        return PrimitiveType(primitive_names()[data_type])
    if t.is_struct(data_type):
        if not data_type.num_fields:
            raise InvalidSchema(
                f"column {path!r} is a struct without fields, which Parquet does not store; leave it out, or "
                "give it a field", column=path)
        return StructType(_from_arrow_field(f, f"{path}.{f.name}") for f in data_type)
    if t.is_map(data_type):
        return MapType(from_arrow_type(data_type.key_type, f"{path}.key"),
                       from_arrow_type(data_type.item_type, f"{path}.value"),
                       data_type.item_field.nullable)
    if (t.is_list(data_type) or t.is_large_list(data_type) or t.is_fixed_size_list(data_type)
            or _is_list_view(data_type)):
        return ArrayType(from_arrow_type(data_type.value_type, f"{path}.element"),
                         data_type.value_field.nullable)
    if t.is_decimal(data_type):
        if data_type.precision <= 38 and 0 <= data_type.scale <= data_type.precision:
            return PrimitiveType(f"decimal({data_type.precision},{data_type.scale})")
    else:
        for test, name in _from_arrow_tests():
            if test(data_type):
                return PrimitiveType(name)
    raise InvalidSchema(
        f"column {path!r} has Arrow type {data_type}, which Delta has no type for; "
        "cast the column before writing it"
        + next((f", {way}" for start, way in _CASTS.items() if str(data_type).startswith(start)), ""),
        column=path,
    )


_CASTS = {"time": "to text, or to a duration since midnight", "uint64": "to decimal(20, 0)"}
"""Types of Arrow's by the beginning of their names -> what holds all of their values."""


def _is_list_view(data_type: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_list_view(data_type) or t.is_large_list_view(data_type))


def _from_arrow_tests() -> list[tuple[Any, str]]:
    """Types that one of Delta's holds."""
    import pyarrow.types as t

    return [
        (t.is_uint8, "short"), (t.is_uint16, "integer"), (t.is_uint32, "long"), (t.is_float16, "float"),
        (t.is_date, "date"), (t.is_large_string, "string"), (t.is_string_view, "string"),
        (t.is_large_binary, "binary"), (t.is_binary_view, "binary"), (t.is_fixed_size_binary, "binary"),
        (t.is_duration, DAY_TO_SECOND),
    ]


def backticked(name: str) -> str:
    """A name in backticks, whatever characters are in it.

    >>> backticked("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
