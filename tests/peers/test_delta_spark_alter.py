"""ALTER beside Delta Spark: each reads, writes and alters the other's tables; the records are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.table.table import DeltaTable
from tests.peers.delta_spark import DeltaSpark, PeerError, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

CREATE = ("CREATE TABLE {t} (id BIGINT NOT NULL, n INT, s STRUCT<x: INT, y: STRING>, l ARRAY<INT>, "
          "p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
          "('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')")
INSERT = "INSERT INTO {t} VALUES (1, 1, struct(1, 'a'), array(1, null), 'a'), (2, null, null, null, 'b')"

STEPS: list[tuple[str, Callable[[DeltaTable], Any]]] = [
    ("ALTER TABLE {t} ADD COLUMNS (c STRING COMMENT 'new' FIRST, s.z DOUBLE AFTER x)",
     lambda t: t.add_columns("c string COMMENT 'new' FIRST, s.z double AFTER x")),
    ("ALTER TABLE {t} RENAME COLUMN s.y TO `y y`", lambda t: t.rename_column("s.y", "y y")),
    ("ALTER TABLE {t} RENAME COLUMN p TO part", lambda t: t.rename_column("p", "part")),
    ("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT", lambda t: t.change_column("n", type="bigint")),
    ("ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
     lambda t: t.change_column("l.element", type="bigint")),
    ("ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL", lambda t: t.change_column("id", nullable=True)),
    ("ALTER TABLE {t} ALTER COLUMN n AFTER s", lambda t: t.change_column("n", position="after s")),
    ("ALTER TABLE {t} ALTER COLUMN n COMMENT 'count'", lambda t: t.change_column("n", comment="count")),
    ("ALTER TABLE {t} ADD CONSTRAINT Positive CHECK (id > 0)",
     lambda t: t.add_constraint("Positive", "id > 0")),
    ("ALTER TABLE {t} DROP CONSTRAINT positive", lambda t: t.drop_constraint("positive")),
    ("ALTER TABLE {t} DROP COLUMN c", lambda t: t.drop_columns("c")),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true', 'mine' = 'x')",
     lambda t: t.set_properties({"delta.appendOnly": True, "mine": "x"})),
    ("ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.appendOnly')",
     lambda t: t.unset_properties("delta.appendOnly", if_exists=True)),  # Spark's SQL implies it
    ("COMMENT ON TABLE {t} IS 'all'", lambda t: t.set_description("all")),
    ("ALTER TABLE {t} DROP FEATURE checkConstraints", lambda t: t.drop_feature("checkConstraints")),
]


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def both(peer: DeltaSpark, path: Path) -> list[dict[str, Any]]:
    ours, theirs = ordered(dn.open(path).to_arrow().to_pylist()), ordered(peer.rows(path))
    assert ours == theirs
    return ours


def strip(node: Any) -> Any:
    """A JSON value without the names that column mapping makes up anew in every table."""
    if isinstance(node, dict):
        return {k: strip(v) for k, v in node.items() if k != "delta.columnMapping.physicalName"}
    return [strip(item) for item in node] if isinstance(node, list) else node


def plain(text: Any) -> Any:
    """A parameter as a value; Delta Spark writes booleans bare."""
    try:
        return strip(json.loads(text))
    except (ValueError, TypeError):
        return text


def shape(opened: DeltaTable) -> tuple[Any, ...]:
    """What a table is, without physical names and times."""
    protocol = opened.protocol
    return (strip(opened.schema.to_dict()), opened.partition_columns, opened.metadata.description,
            {k: v for k, v in opened.properties.items() if "parquet.compression" not in k},
            protocol.min_reader_version, protocol.min_writer_version,
            set(protocol.reader_features or ()), set(protocol.writer_features or ()))


def test_every_alter_gives_the_same_table_and_the_same_record(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        delta_spark.sql(CREATE.format(t=table(path)))
        delta_spark.sql(INSERT.format(t=table(path)))
    for sql, ours_too in STEPS:
        delta_spark.sql(sql.format(t=table(theirs)))
        ours_too(dn.open(ours))
        assert shape(dn.open(ours)) == shape(dn.open(theirs)), sql
        one, two = dn.open(ours).history(1)[0], dn.open(theirs).history(1)[0]
        assert one.operation == two.operation, sql
        mine = {k: plain(v) for k, v in one.operation_parameters.items()}
        assert mine == {k: plain(v) for k, v in two.operation_parameters.items()}, sql
    assert both(delta_spark, ours) == both(delta_spark, theirs)
    delta_spark.sql(f"INSERT INTO {table(ours)} VALUES (3, struct(3, 0.5, 'c'), 5, array(7), 'c')")
    dn.open(theirs).append(pa.table({
        "id": [3], "s": pa.array([{"x": 3, "z": 0.5, "y y": "c"}]), "n": [5], "l": [[7]], "part": ["c"]}))
    assert both(delta_spark, ours) == both(delta_spark, theirs)
    first = dn.open(ours).as_of(1).to_arrow().to_pylist()
    assert ordered(first) == ordered(delta_spark.sql(f"SELECT * FROM {table(ours)} VERSION AS OF 1"))


def test_column_mapping_and_row_tracking_begin_on_a_table_that_is_there(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    dn.create(path, {"id": [1, 2], "p": ["a", "b"]}, ["p"]).append({"id": [3], "p": ["a"]})
    opened = dn.open(path)
    opened.set_properties({"delta.columnMapping.mode": "name"})
    opened.set_properties({"delta.enableRowTracking": True})
    opened.rename_column("id", "number")
    opened.set_properties({"delta.enableInCommitTimestamps": True})
    delta_spark.sql(f"INSERT INTO {table(path)} VALUES (4, 'c')")
    assert len(both(delta_spark, path)) == 4
    tracked = delta_spark.sql(
        f"SELECT _metadata.row_id AS id, _metadata.row_commit_version AS v FROM {table(path)}")
    assert sorted(row["id"] for row in tracked) == [0, 1, 2, 3] and all(row["v"] for row in tracked)
    delta_spark.sql(f"ALTER TABLE {table(path)} DROP FEATURE rowTracking")
    opened.append({"number": [5], "p": ["a"]})
    assert len(both(delta_spark, path)) == 5


def test_dropped_features_let_each_other_write_on(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    created = dn.create(path, {"id": [1, 2, 3]}, properties={
        "delta.enableDeletionVectors": True, "delta.enableRowTracking": True,
        "delta.checkpointPolicy": "v2", "delta.enableInCommitTimestamps": True})
    delta_spark.sql(f"DELETE FROM {table(path)} WHERE id = 1")
    with pytest.raises(DeltaError, match="has a deletion vector"):
        created.drop_feature("deletionVectors")
    created.overwrite(created.to_arrow())
    for feature in ("deletionVectors", "rowTracking", "v2Checkpoint", "inCommitTimestamp"):
        created.drop_feature(feature)
        delta_spark.sql(f"INSERT INTO {table(path)} VALUES (9)")
        assert feature not in (created.protocol.writer_features or ())
    assert created.protocol.min_reader_version == 1 and len(both(delta_spark, path)) == 6
    assert {r["operation"] for r in delta_spark.history(path)} >= {"DROP FEATURE", "ROW TRACKING UNBACKFILL"}


def test_clustering_is_the_same_for_both(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    created = dn.create(path, {"id": [1], "x": [2]}, properties={"delta.columnMapping.mode": "name"})
    created.cluster_by("x")
    assert delta_spark.sql(f"DESCRIBE DETAIL {table(path)}")[0]["clusteringColumns"] == ["x"]
    delta_spark.sql(f"ALTER TABLE {table(path)} CLUSTER BY (id, x)")
    theirs = created.history(1)[0]
    created.cluster_by(None)
    assert created.history(1)[0].operation_parameters == {
        "oldClusteringColumns": "id,x", "newClusteringColumns": ""}
    assert theirs.operation_parameters == {"oldClusteringColumns": "x", "newClusteringColumns": "id,x"}
    assert delta_spark.sql(f"DESCRIBE DETAIL {table(path)}")[0]["clusteringColumns"] == []


REFUSED: list[tuple[str, Callable[[DeltaTable], Any]]] = [
    ("ALTER TABLE {t} ADD COLUMNS (x INT NOT NULL)", lambda t: t.add_columns("x int NOT NULL")),
    ("ALTER TABLE {t} ADD COLUMNS (ID INT)", lambda t: t.add_columns("ID int")),
    ("ALTER TABLE {t} DROP COLUMN n", lambda t: t.drop_columns("n")),
    ("ALTER TABLE {t} RENAME COLUMN n TO m", lambda t: t.rename_column("n", "m")),
    ("ALTER TABLE {t} ALTER COLUMN n SET NOT NULL", lambda t: t.change_column("n", nullable=False)),
    ("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT", lambda t: t.change_column("n", type="bigint")),
    ("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 1)", lambda t: t.add_constraint("c", "id > 1")),
    ("ALTER TABLE {t} DROP CONSTRAINT c", lambda t: t.drop_constraint("c")),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
     lambda t: t.set_properties({"delta.columnMapping.mode": "id"})),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.maxColumnId' = '9')",
     lambda t: t.set_properties({"delta.columnMapping.maxColumnId": 9})),
    ("ALTER TABLE {t} DROP FEATURE appendOnly", lambda t: t.drop_feature("appendOnly")),
    ("ALTER TABLE {t} DROP FEATURE deletionVectors", lambda t: t.drop_feature("deletionVectors")),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.clustering' = 'supported')",
     lambda t: t.set_properties({"delta.feature.clustering": "supported"})),
]


def test_what_one_refuses_the_other_refuses(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    created = dn.create(path, "id bigint, n int")
    created.append(pa.table({"id": [1, 2], "n": pa.array([1, None], pa.int32())}))
    for sql, ours_too in REFUSED:
        with pytest.raises(DeltaError):
            ours_too(created)
        assert created.version == 1, sql
        with pytest.raises(PeerError):
            delta_spark.sql(sql.format(t=table(path)))
        assert created.version == 1, sql
