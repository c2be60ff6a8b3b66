"""CREATE TABLE: the first commit says what the table is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import DomainMetadata
from deltanb.errors import (
    AppendOnlyTable,
    DeltaConcurrentModificationException,
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    InvalidTable,
    TableAlreadyExists,
    UnsupportedProtocol,
)
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.store.base import LogStore
from deltanb.table.entry import create
from deltanb.testing import Lose, LoseResponse, MemoryStore, ScriptedStore
from tests.helpers import parquet_files

ROWS = {"id": [1, 2], "p": ["a", None]}


def test_a_table_from_data(tmp_path: Path) -> None:
    table = create(tmp_path / "t", ROWS, partition_by="P", name="ducks", description="all of them",
                   properties={"delta.checkpointInterval": 5, "mine": "x"}, user_metadata="why")
    assert (table.version, table.name, table.partition_columns) == (0, "ducks", ("p",))
    assert table.properties == {"delta.checkpointInterval": "5", "mine": "x"}
    assert table.to_arrow().to_pylist() == [{"id": 1, "p": "a"}, {"id": 2, "p": None}]
    (entry,) = table.history()
    assert entry.operation == "CREATE TABLE AS SELECT" and entry.user_metadata == "why"
    assert entry.operation_parameters == {
        "isManaged": "false", "description": "all of them", "partitionBy": '["p"]',
        "clusterBy": "[]", "properties": '{"delta.checkpointInterval":"5","mine":"x"}'}
    assert entry.operation_metrics["numFiles"] == "2" and entry.operation_metrics["numOutputRows"] == "2"
    peer = deltalake.DeltaTable(tmp_path / "t")
    assert peer.metadata().name == "ducks" and peer.metadata().partition_columns == ["p"]


SCHEMA = StructType([StructField("id", PrimitiveType("long"), nullable=False),
                     StructField("p", PrimitiveType("string"))])


@pytest.mark.parametrize("schema", [
    SCHEMA, pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.string())]),
    "id bigint NOT NULL, p string", {"id": "bigint NOT NULL", "p": "string"},
    SCHEMA.to_json(), SCHEMA.to_dict()],
    ids=["delta", "arrow", "sql", "dict", "json", "json-dict"])
def test_a_table_from_a_schema(tmp_path: Path, schema: Any) -> None:
    table = create(tmp_path / "t", schema, ["p"])
    assert table.schema == SCHEMA and table.snapshot.num_files == 0
    assert table.history()[0].operation == "CREATE TABLE"
    assert table.protocol.min_reader_version == 1 and table.protocol.min_writer_version == 2
    assert table.to_arrow().num_rows == 0


def test_a_table_that_is_there_already(tmp_path: Path) -> None:
    create(tmp_path / "t", ROWS)
    with pytest.raises(TableAlreadyExists, match="version 0") as caught:
        create(tmp_path / "t", {"other": [1]})
    assert caught.value.path == str(tmp_path / "t")
    assert create(tmp_path / "t", {"other": [1]}, mode="ignore").schema.names == ["id", "p"]
    with pytest.raises(InvalidArgument, match="mode='append'"):
        create(tmp_path / "t", ROWS, mode="append")
    assert len(parquet_files(tmp_path)) == 1


def test_replacing_a_table_keeps_its_id_and_history(tmp_path: Path) -> None:
    first = create(tmp_path / "t", ROWS, ["p"], properties={"delta.appendOnly": False, "mine": "x"})
    before = first.metadata.id
    table = create(tmp_path / "t", {"new": [5]}, mode="overwrite", name="again")
    assert (table.version, table.metadata.id, table.partition_columns) == (1, before, ())
    assert table.properties == {} and table.to_arrow().to_pylist() == [{"new": 5}]
    assert table.history()[0].operation == "CREATE OR REPLACE TABLE AS SELECT"
    assert table.as_of(0).to_arrow().num_rows == 2
    assert deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist() == [{"new": 5}]


def test_an_append_only_table_is_not_replaced(tmp_path: Path) -> None:
    create(tmp_path / "t", ROWS, properties={"delta.appendOnly": True})
    with pytest.raises(AppendOnlyTable):
        create(tmp_path / "t", ROWS, mode="overwrite")
    assert len(parquet_files(tmp_path)) == 1


def test_replacing_a_table_ends_its_domains() -> None:
    store = MemoryStore()
    table = create(store, ROWS, properties={"delta.feature.domainMetadata": "supported"})
    table.start_transaction().commit([DomainMetadata("mine", "{}")])
    assert "mine" in table.snapshot.domain_metadata
    assert create(store, {"n": [1]}, mode="overwrite").snapshot.domain_metadata == {}


@pytest.mark.parametrize(("properties", "features"), [
    ({"delta.enableDeletionVectors": True}, {"deletionVectors"}),
    ({"delta.enableInCommitTimestamps": "true"}, {"inCommitTimestamp"}),
    ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
    ({"delta.feature.vacuumProtocolCheck": "supported"}, {"vacuumProtocolCheck"}),
    ({"delta.enableRowTracking": True}, {"rowTracking", "domainMetadata"}),
    ({"delta.constraints.c": "id > 0"}, {"checkConstraints"}),
])
def test_properties_bring_their_features(
    tmp_path: Path, properties: dict[str, Any], features: set[str]
) -> None:
    table = create(tmp_path / "t", ROWS, properties=properties)
    assert all(table.protocol.supports(name) for name in features)
    assert not any(key.startswith("delta.feature.") for key in table.properties)
    assert table.append(ROWS) == 1
    assert table.to_arrow().num_rows == 4


def test_row_tracking_names_its_columns(tmp_path: Path) -> None:
    table = create(tmp_path / "t", ROWS, properties={"delta.enableRowTracking": True})
    names = [table.properties[f"delta.rowTracking.materialized{kind}ColumnName"]
             for kind in ("RowId", "RowCommitVersion")]
    assert len(set(names)) == 2 and all(name.startswith("_row-") for name in names)
    assert table.snapshot.files["base_row_id"].to_pylist() == [0]


def test_column_mapping_gives_ids_and_names(tmp_path: Path) -> None:
    data = pa.table({"a b": [1, 2], "s": [{"x y": 1}, None], "p": ["u", "v"]})
    table = create(tmp_path / "t", data, "p", {"delta.columnMapping.mode": "name"})
    ids = [f.metadata["delta.columnMapping.id"] for f in table.schema.fields]
    names = [f.metadata["delta.columnMapping.physicalName"] for f in table.schema.fields]
    assert ids == [1, 2, 4] and len(set(names)) == 3
    assert all(name.startswith("col-") for name in names)
    assert table.properties["delta.columnMapping.maxColumnId"] == "4"
    assert (table.protocol.min_reader_version, table.protocol.supports("columnMapping")) == (2, True)
    table.append(data)
    peer = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    rows = pa.table(peer.execute('select "a b", s, p from t order by 1, 3')).to_pylist()
    assert rows == sorted(data.to_pylist() * 2, key=lambda row: row["a b"])
    assert table.to_arrow().sort_by("a b").to_pylist() == rows


@pytest.mark.parametrize(("data", "options", "error"), [
    ({}, {}, InvalidSchema),
    ({"a b": [1]}, {}, InvalidSchema),
    ({"a": [1], "A": [2]}, {}, InvalidSchema),
    (ROWS, {"partition_by": ["nowhere"]}, InvalidArgument),
    (ROWS, {"partition_by": ["id", "p"]}, InvalidSchema),
    (ROWS, {"properties": {"delta.appendOnly": "perhaps"}}, InvalidArgument),
    (ROWS, {"properties": {"delta.x": None}}, InvalidArgument),
    (ROWS, {"properties": {"delta.feature.nonsense": "supported"}}, UnsupportedProtocol),
    (ROWS, {"properties": {"delta.enableIcebergCompatV2": True,
                           "delta.columnMapping.mode": "name"}}, UnsupportedProtocol),
    ({"t": pa.array([1], pa.time64("us"))}, {}, InvalidSchema),
])
def test_what_no_table_may_be_is_refused_before_anything_is_written(
    tmp_path: Path, data: Any, options: dict[str, Any], error: type[DeltaError]
) -> None:
    with pytest.raises(error):
        create(tmp_path / "t", data, **options)
    assert not list(tmp_path.rglob("*.json")) and not parquet_files(tmp_path)
    assert not dn.DeltaTable.is_delta_table(tmp_path / "t")


def test_a_constraint_is_checked_from_the_first_row(tmp_path: Path) -> None:
    with pytest.raises(dn.errors.ConstraintViolation, match="row 2"):
        create(tmp_path / "t", {"id": [1, -1]}, properties={"delta.constraints.pos": "id > 0"})
    assert not parquet_files(tmp_path)


def data_files(store: ScriptedStore) -> list[str]:
    return [status.name for status in store.list_all("") if status.name.endswith(".parquet")]


def test_files_of_a_lost_race_to_create_are_removed() -> None:
    rival = create(MemoryStore(), SCHEMA)
    store = ScriptedStore(MemoryStore(), [Lose(rival.log.read_commit(0))])
    with pytest.raises(DeltaConcurrentModificationException):
        create(store, ROWS)
    assert data_files(store) == []


@pytest.mark.parametrize("data", [ROWS, SCHEMA])
@pytest.mark.parametrize("place", ["file", "file/in/it"])
def test_a_file_is_no_place_for_a_table(tmp_path: Path, place: str, data: Any) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InvalidArgument, match="not a place for a table"):
        create(tmp_path / place, data)
    assert [f.name for f in tmp_path.rglob("*")] == ["file"]


def test_files_are_removed_when_the_winner_is_no_commit() -> None:
    store = ScriptedStore(MemoryStore(), [Lose(('{"add":',))])
    with pytest.raises(InvalidTable, match=r"0\.json.*line 1"):
        create(store, ROWS)
    assert data_files(store) == []


def test_files_stay_where_a_put_may_have_landed_before_the_winner_that_is_no_commit() -> None:
    def unanswered(inner: LogStore, name: str, data: bytes) -> bool:
        inner.put(name, b'{"add":')
        raise OSError("connection reset")

    store = ScriptedStore(MemoryStore(), [unanswered])
    with pytest.raises(InvalidTable):
        create(store, ROWS)
    assert len(data_files(store)) == 1


def test_a_commit_whose_answer_was_lost_is_ours() -> None:
    store = ScriptedStore(MemoryStore(), [LoseResponse()])
    assert create(store, ROWS).to_arrow().num_rows == 2
    assert len(data_files(store)) == 1


@pytest.mark.parametrize("columns", [
    "i interval", "a long, i interval day to month", "i array<interval calendar>",
    StructType([StructField("i", ArrayType(PrimitiveType("interval second to day")))]),
])
def test_intervals_that_are_no_types_are_refused_by_name(tmp_path: Path, columns: Any) -> None:
    with pytest.raises(InvalidSchema, match=r"interval"):
        create(tmp_path / "t", columns)
    assert not (tmp_path / "t").exists()
