"""Stored arrays as the table's present types: what converts, to what, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from deltanb.engines.arrow.conform import Place, check_type_changes, compile_conversion, find_field
from deltanb.errors import InvalidTable, UnsupportedProtocol
from deltanb.schema.column_mapping import ID_KEY, NAME_KEY, PARQUET_ID
from deltanb.schema.types import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
    parse_type,
)

PLACE = Place("part-1.parquet", "x")


def P(name: str) -> PrimitiveType:
    return PrimitiveType(name)


def struct(*fields: tuple[str, object]) -> StructType:
    return StructType(StructField(name, kind) for name, kind in fields)


def mapped(name: str, kind: object, number: int, physical: str | None = None) -> StructField:
    return StructField(name, kind, metadata={ID_KEY: number, NAME_KEY: physical or name})


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={PARQUET_ID: str(number).encode()})


def convert(array: pa.Array, target, mode: str = "none") -> pa.Array:
    conversion = compile_conversion(array.type, target, mode, PLACE)
    result = array if conversion is None else conversion(array)
    assert result.type == arrow_type(target)
    assert len(result) == len(array)
    result.validate(full=True)
    return result


UTC = dt.UTC if hasattr(dt, "UTC") else dt.timezone.utc
NOON = dt.datetime(2020, 1, 1, 12, 0, 0, 5)

WIDENED = [
    (pa.array([1, None], pa.int8()), "short", [1, None]),
    (pa.array([-128], pa.int8()), "long", [-128]),
    (pa.array([1 << 30], pa.int32()), "long", [1 << 30]),
    (pa.array([7], pa.int32()), "byte", [7]),  # plain INT32 holds bytes in some writers' files
    (pa.array([0.5], pa.float32()), "double", [0.5]),
    (pa.array([3], pa.int8()), "double", [3.0]),
    (pa.array([2**31 - 1], pa.int32()), "double", [2147483647.0]),
    (pa.array([5], pa.int32()), "decimal(10,0)", [Decimal(5)]),
    (pa.array([5], pa.int16()), "decimal(12,2)", [Decimal("5.00")]),
    (pa.array([-128], pa.int8()), "decimal(4,1)", [Decimal("-128.0")]),  # of the feature's preview
    (pa.array([2**63 - 1], pa.int64()), "decimal(20,0)", [Decimal(2**63 - 1)]),
    (pa.array([Decimal("1.25")], pa.decimal128(3, 2)), "decimal(6,4)", [Decimal("1.2500")]),
    (pa.array([Decimal("1.25")], pa.decimal128(3, 2)), "decimal(38,20)",
     [Decimal("1.25000000000000000000")]),
    (pa.array([dt.date(2020, 2, 29)]), "timestamp_ntz", [dt.datetime(2020, 2, 29)]),
]

ENCODINGS = [
    (pa.array([NOON], pa.timestamp("us")), "timestamp", [NOON.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "UTC")), "timestamp_ntz", [NOON]),
    (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), "timestamp", [NOON.replace(tzinfo=UTC)]),
    (pa.array([1], pa.timestamp("ms", "UTC")), "timestamp",
     [dt.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
    (pa.array([-1, 1999], pa.timestamp("ns")), "timestamp_ntz",
     [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (pa.array([b"ab", None]), "string", ["ab", None]),
    (pa.array(["ab"], pa.large_string()), "string", ["ab"]),
    (pa.array(["ab"], pa.string_view()), "string", ["ab"]),
    (pa.array(["b", "a", "b"]).dictionary_encode(), "string", ["b", "a", "b"]),
    (pa.array(["ab"]), "varchar(10)", ["ab"]),
    (pa.array([b"abc"], pa.binary(3)), "binary", [b"abc"]),
    (pa.array([b"abc"], pa.large_binary()), "binary", [b"abc"]),
    (pa.nulls(2), "long", [None, None]),
    (pa.array([86_400_000], pa.date64()), "date", [dt.date(1970, 1, 2)]),
]


@pytest.mark.parametrize(("array", "name", "values"), WIDENED + ENCODINGS,
                         ids=[f"{a.type}->{n}" for a, n, _ in WIDENED + ENCODINGS])
def test_values_are_kept(array, name, values):
    assert convert(array, P(name)).to_pylist() == values


@pytest.mark.parametrize(("stored", "name"), [
    (pa.int64(), "double"), (pa.float64(), "float"), (pa.float32(), "long"), (pa.string(), "long"),
    (pa.int32(), "decimal(9,0)"), (pa.int64(), "decimal(18,0)"),
    (pa.decimal128(10, 2), "decimal(10,3)"),
    (pa.decimal128(10, 2), "decimal(9,2)"), (pa.decimal128(10, 2), "decimal(12,1)"),
    (pa.date32(), "timestamp"), (pa.int64(), "timestamp"), (pa.timestamp("us"), "date"),
    (pa.bool_(), "integer"), (pa.int32(), "boolean"), (pa.int32(), "string"),
    (pa.struct([("a", pa.int32())]), "long"), (pa.list_(pa.int32()), "long"),
], ids=str)
def test_what_would_be_a_guess_is_refused(stored, name):
    with pytest.raises(InvalidTable) as caught:
        compile_conversion(stored, P(name), "none", PLACE)
    message = str(caught.value)
    assert "part-1.parquet" in message and "'x'" in message and name in message
    assert str(stored) in message


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(InvalidTable, match="part-1.parquet"):
        convert(pa.array([300], pa.int32()), P("byte"))
    with pytest.raises(InvalidTable, match="not of type string"):
        convert(pa.array([b"\xff\xfe"]), P("string"))


def test_a_type_we_do_not_know_is_refused_by_name():
    with pytest.raises(UnsupportedProtocol, match="hypercube"):
        compile_conversion(pa.binary(), P("hypercube(4)"), "none", PLACE)


@pytest.mark.parametrize("name", ["geometry(OGC:CRS84)", "geography(OGC:CRS84, SPHERICAL)"])
def test_a_shape_is_the_bytes_that_a_file_has(name):
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    for stored in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert convert(pa.array([point, None], stored), P(name)).to_pylist() == [point, None]
    with pytest.raises(InvalidTable, match="geo"):
        compile_conversion(pa.int64(), P(name), "none", PLACE)


def test_missing_extra_and_reordered_struct_fields():
    array = pa.array([{"b": 1, "gone": 0, "a": 2}, None, {"b": None, "gone": 1, "a": 3}])
    target = struct(("a", P("long")), ("new", P("string")), ("B", P("double")))
    with pytest.raises(InvalidTable, match="x.B"):  # long to double would lose digits
        convert(array, target)
    small = array.cast(pa.struct([("b", pa.int32()), ("gone", pa.int64()), ("a", pa.int8())]))
    assert convert(small, target).to_pylist() == [
        {"a": 2, "new": None, "B": 1.0}, None, {"a": 3, "new": None, "B": None}]


def test_nothing_to_do_is_nothing_done():
    target = struct(("a", P("long")), ("l", ArrayType(P("string"))),
                    ("m", MapType(P("string"), P("long"))))
    assert compile_conversion(arrow_type(target), target, "none", PLACE) is None


def test_swapped_names_are_not_mistaken_for_nothing_to_do():
    # b and a changed names: the types are equal, the columns are not.
    target = StructType([mapped("a", P("long"), 1, "b"), mapped("b", P("long"), 2, "a")])
    array = pa.array([{"a": 1, "b": 2}], arrow_type(target))
    assert convert(array, target, "name").to_pylist() == [{"a": 2, "b": 1}]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_nested_values_widen_in_slices_too(start):
    values = [
        [{"k": [("a", 1), ("b", None)]}, None],
        None,
        [],
        [{"k": None}, {"k": [("c", 3)]}],
    ]
    stored = pa.list_(pa.struct([("k", pa.map_(pa.string(), pa.int8()))]))
    target = ArrayType(struct(("k", MapType(P("string"), P("long")))))
    array = pa.array(values, stored).slice(start)
    assert convert(array, target).to_pylist() == values[start:]


def test_maps_may_widen_in_key_and_value():
    array = pa.array([[(1, 0.5)], None, [(2, None), (3, 1.5)]], pa.map_(pa.int8(), pa.float32()))
    assert convert(array, MapType(P("integer"), P("double"))).to_pylist() == [
        [(1, 0.5)], None, [(2, None), (3, 1.5)]]


@pytest.mark.parametrize("stored", [pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)], ids=str)
def test_other_lists_become_lists(stored):
    array = pa.array([[1, 2], None, [3, None]], stored)
    assert convert(array, ArrayType(P("long"))).to_pylist() == [[1, 2], None, [3, None]]


def test_struct_without_present_fields_keeps_its_nulls():
    array = pa.array([{"gone": 1}, None])
    assert convert(array, struct(("new", P("long")))).to_pylist() == [{"new": None}, None]
    assert convert(array, struct()).to_pylist() == [{}, None]


def test_void_is_null_wherever_it_is():
    array = pa.array([{"a": 1}, None])
    assert convert(array, struct(("a", P("long")), ("v", P("void")))).to_pylist() == [
        {"a": 1, "v": None}, None]


def test_variant_in_either_order_of_its_parts():
    array = pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, None])
    assert convert(array, P("variant")).to_pylist() == [
        {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}, None]


def test_parts_of_a_variant_that_are_not_there():
    stored = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    array = pa.array([{"metadata": b"\x01\x00\x00"}, None], stored)
    read = convert(array, P("variant"))
    assert read.to_pylist() == [{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None]
    assert [read.field(place).null_count for place in range(2)] == [0, 0], "they can be written again"
    with pytest.raises(InvalidTable, match=r"column 'x'.*part-1.parquet.*no metadata"):
        convert(pa.array([{"value": b"\x00"}], stored), P("variant"))
    with pytest.raises(InvalidTable):
        compile_conversion(pa.struct([("value", pa.binary())]), P("variant"), "none", PLACE)


def test_nested_fields_by_id_and_by_physical_name():
    target = ArrayType(StructType([mapped("new name", P("long"), 7, "col-7"),
                                   mapped("add", P("string"), 8)]))
    element = pa.struct([with_id("junk", pa.string(), 3), with_id("whatever", pa.int8(), 7)])
    array = pa.array([[{"junk": "a", "whatever": 1}], None], pa.list_(pa.field("element", element)))
    assert convert(array, target, "id").to_pylist() == [[{"new name": 1, "add": None}], None]

    by_name = pa.array([[{"col-7": 2, "new name": 9}]])
    assert convert(by_name, target, "name").to_pylist() == [[{"new name": 2, "add": None}]]


def test_find_field_prefers_the_exact_name_and_refuses_a_guess():
    fields = [pa.field(name, pa.int64()) for name in ("Id", "id", "NAME")]
    assert find_field(fields, StructField("id", P("long")), "none", PLACE) == 1
    assert find_field(fields, StructField("name", P("long")), "none", PLACE) == 2
    assert find_field(fields, StructField("other", P("long")), "none", PLACE) is None
    with pytest.raises(InvalidTable, match=r"'ID' could be any of \['Id', 'id'\]"):
        find_field(fields, StructField("ID", P("long")), "none", PLACE)


def test_id_mode_refuses_a_file_without_ids():
    with pytest.raises(InvalidTable, match="no field ids"):
        find_field([pa.field("x", pa.int64())], mapped("x", P("long"), 1), "id", PLACE)
    assert find_field([with_id("x", pa.int64(), 2)], mapped("x", P("long"), 1), "id", PLACE) is None


def change(before: str, after: str, **extra: str) -> dict:
    return {"delta.typeChanges": [{"fromType": before, "toType": after, **extra}]}


@pytest.mark.parametrize(("before", "after", "fine"), [
    ("byte", "short", True), ("integer", "long", True), ("float", "double", True),
    ("short", "double", True), ("long", "double", False), ("date", "timestamp_ntz", True),
    ("date", "timestamp", False), ("decimal(5,2)", "decimal(7,4)", True),
    ("decimal(5,2)", "decimal(6,4)", False), ("integer", "decimal(10,0)", True),
    ("integer", "decimal(9,0)", False), ("long", "decimal(20,0)", True), ("long", "integer", False),
    ("string", "binary", False), ("void", "string", True), ("integer", "geometry", False),
])
def test_recorded_type_changes(before, after, fine):
    field = StructField("x", P(after), metadata=change(before, after))
    nested = StructField("outer", ArrayType(StructType([field])))
    if fine:
        check_type_changes([nested])
        return
    with pytest.raises(UnsupportedProtocol, match=r"'outer.x' was changed from") as caught:
        check_type_changes([nested])
    assert caught.value.features == ("typeWidening",)


def test_a_change_inside_a_map_is_recorded_at_the_field():
    field = StructField("m", parse_type({"type": "map", "keyType": "string", "valueType": "string",
                                         "valueContainsNull": True}),
                        metadata=change("string", "integer", fieldPath="value"))
    with pytest.raises(UnsupportedProtocol, match="'m' was changed from string to integer"):
        check_type_changes([field])
