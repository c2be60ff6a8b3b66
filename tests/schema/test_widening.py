"""Which type changes are widenings, and how they are recorded."""

from __future__ import annotations

import pytest

from deltanb.schema.ddl import parse_schema, parse_type
from deltanb.schema.paths import field_at
from deltanb.schema.widening import TYPE_CHANGES, fits_iceberg, has_changes, is_widening, recorded


@pytest.mark.parametrize(("before", "after", "allowed", "iceberg"), [
    ("byte", "short", True, True), ("byte", "long", True, True), ("int", "long", True, True),
    ("long", "int", False, False), ("long", "long", False, False), ("float", "double", True, True),
    ("double", "float", False, False), ("int", "double", True, False), ("long", "double", False, False),
    ("int", "float", False, False), ("date", "timestamp_ntz", True, False),
    ("date", "timestamp", False, False), ("timestamp", "timestamp_ntz", False, False),
    ("decimal(5,2)", "decimal(7,2)", True, True), ("decimal(5,2)", "decimal(7,4)", True, False),
    ("decimal(5,2)", "decimal(6,4)", False, False), ("decimal(5,2)", "decimal(5,2)", False, True),
    ("decimal(5,2)", "decimal(9,1)", False, False), ("decimal(5,0)", "double", False, False),
    ("int", "decimal(10,0)", True, False), ("int", "decimal(12,2)", True, False),
    ("int", "decimal(12,3)", False, False), ("byte", "decimal(9,0)", False, False),
    ("long", "decimal(20,0)", True, False), ("long", "decimal(19,0)", False, False),
    ("int", "string", False, False), ("string", "binary", False, False),
    ("array<int>", "array<long>", False, None),
])
def test_widenings(before: str, after: str, allowed: bool, iceberg: bool | None) -> None:
    old, new = parse_type(before), parse_type(after)
    assert is_widening(old, new) is allowed
    if iceberg is not None:
        assert fits_iceberg(old, new) is iceberg  # type: ignore[arg-type]


def test_a_change_is_recorded_in_the_nearest_field() -> None:
    schema = parse_schema("a int, m map<int, array<struct<b: int>>>")
    schema = recorded(schema, ("a",), parse_type("short"), parse_type("int"))
    schema = recorded(schema, ("a",), parse_type("int"), parse_type("long"))
    schema = recorded(schema, ("m", "key"), parse_type("int"), parse_type("long"))
    schema = recorded(schema, ("m", "value", "element", "b"), parse_type("int"), parse_type("long"))
    assert field_at(schema, ("a",)).metadata[TYPE_CHANGES] == [
        {"fromType": "short", "toType": "integer"}, {"fromType": "integer", "toType": "long"}]
    assert field_at(schema, ("m",)).metadata[TYPE_CHANGES] == [
        {"fromType": "integer", "toType": "long", "fieldPath": "key"}]
    assert field_at(schema, ("m", "value", "element", "b")).metadata[TYPE_CHANGES] == [
        {"fromType": "integer", "toType": "long"}]
    assert has_changes(schema) == ["a", "m", "m.value.element.b"]
