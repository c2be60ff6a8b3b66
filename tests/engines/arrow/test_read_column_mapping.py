"""Physical names and ids: assigned once, found again, and put on data without copying it."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.actions import Metadata, Protocol
from deltanb.errors import InvalidArgument, InvalidTable
from deltanb.schema import column_mapping as mapping
from deltanb.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
INNER = StructType([StructField("x y", LONG), StructField("z", STRING, nullable=False)])
SCHEMA = StructType([
    StructField("id", LONG, nullable=False),
    StructField("many", ArrayType(INNER)),
    StructField("map", MapType(STRING, INNER, value_contains_null=False)),
])
ROWS = pa.table({
    "id": [1, 2],
    "many": [[{"x y": 1, "z": "a"}], None],
    "map": pa.array([[("k", {"x y": 3, "z": "b"})], []],
                    SCHEMA.to_arrow().field("map").type),
}).cast(SCHEMA.to_arrow())


def names():
    counter = itertools.count(1)
    return lambda: f"col-{next(counter)}"


def test_every_field_gets_a_name_and_an_id_of_its_own():
    mapped, last = mapping.assign(SCHEMA, new_name=names())
    fields = [*mapped.fields, *mapped.field("many").type.element_type.fields,
              *mapped.field("map").type.value_type.fields]
    assert last == len(fields) == 7
    assert len({mapping.field_id(field) for field in fields}) == 7
    assert len({mapping.physical_name(field, "name") for field in fields}) == 7
    assert [field.name for field in mapped] == SCHEMA.names


def test_what_is_there_is_kept_and_new_fields_count_on():
    mapped, last = mapping.assign(SCHEMA, new_name=names())
    wider = StructType([*mapped.fields, StructField("new", LONG)])
    again, more = mapping.assign(wider, last, new_name=lambda: "col-new")
    assert again.fields[:3] == mapped.fields
    assert (mapping.field_id(again.field("new")), more) == (8, 8)
    # A property that lags behind the schema does not make two columns share an id.
    assert mapping.assign(wider, 0)[1] == 8


def test_a_table_with_files_keeps_their_names():
    mapped, _ = mapping.assign(SCHEMA, keep_names=True)
    assert mapping.physical_schema(mapped, "name").names == SCHEMA.names
    assert mapping.physical_names(mapped, "name") == {n: n for n in SCHEMA.names}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_data_goes_into_a_file_and_comes_back(tmp_path, mode):
    mapped, _ = mapping.assign(SCHEMA, new_name=names())
    physical = mapping.to_physical(ROWS, mapped, mode)
    assert physical.schema.names == mapping.physical_schema(mapped, mode).names
    assert physical.column(1).chunk(0).values.field(0).buffers()[1].address == \
        ROWS.column(1).chunk(0).values.field(0).buffers()[1].address
    pq.write_table(physical, tmp_path / "f")
    stored = pq.read_schema(tmp_path / "f")
    assert stored.names == physical.schema.names
    for field, expected in zip(stored, mapped, strict=True):
        assert field.metadata[mapping.PARQUET_ID] == str(mapping.field_id(expected)).encode()
    element = stored.field(1).type.value_type.field(0)
    assert element.metadata[mapping.PARQUET_ID] == b"3"
    assert mapping.to_logical(pq.read_table(tmp_path / "f"), mapped, mode).to_pylist() == \
        ROWS.to_pylist()
    batch = ROWS.to_batches()[0]
    assert mapping.to_logical(mapping.to_physical(batch, mapped, mode), mapped, mode).equals(batch)


def test_without_mapping_nothing_changes():
    assert mapping.to_physical(ROWS, SCHEMA, "none") is ROWS
    assert mapping.physical_schema(SCHEMA, "none") is SCHEMA
    assert mapping.physical_arrow(SCHEMA, "none") == SCHEMA.to_arrow()
    assert mapping.physical_arrow(SCHEMA, "none").field("id").metadata is None


@pytest.mark.parametrize(("protocol", "mode"), [
    (Protocol(1, 2), "none"), (Protocol(2, 5), "id"), (Protocol(3, 7, (), ()), "none"),
    (Protocol(3, 7, ("columnMapping",), ("columnMapping",)), "id"),
    (Protocol(2, 7, None, ("columnMapping",)), "id"),
])
def test_the_property_needs_the_feature(protocol, mode):
    metadata = Metadata("t", "{}", configuration={mapping.MODE_KEY: "id"})
    assert mapping.mode_of(metadata, protocol) == mode
    assert mapping.mode_of(Metadata("t", "{}"), protocol) == "none"


def test_a_mode_that_does_not_exist():
    with pytest.raises(InvalidArgument, match="columnMapping.mode"):
        mapping.mode_of(Metadata("t", "{}", configuration={mapping.MODE_KEY: "x"}), Protocol(2, 5))


@pytest.mark.parametrize("metadata", [{}, {mapping.ID_KEY: "1", mapping.NAME_KEY: 1},
                                      {mapping.ID_KEY: True}])
def test_a_mapped_table_whose_schema_does_not_say_where(metadata):
    field = StructField("lost", LONG, metadata=metadata)
    with pytest.raises(InvalidTable, match="'lost' has no delta.columnMapping.physicalName"):
        mapping.physical_name(field, "name")
    with pytest.raises(InvalidTable, match=r"'lost' has no delta.columnMapping.id"):
        mapping.field_id(field)
