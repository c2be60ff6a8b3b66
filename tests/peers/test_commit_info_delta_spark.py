"""commitInfo, command by command: what deltanb records of itself is what Delta Spark records.

Operation, isolation and blind append are equal, parameters are equal with their JSON types (booleans,
numbers and nulls are bare, lists and objects are texts), and the same metrics are there. Predicates are
spelled by each engine in its own way.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from tests.peers.delta_spark import DeltaSpark, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROWS = pa.table({"id": [1, 2, 3], "p": pa.array([1, 2, 2], pa.int32()), "v": ["a", "b", "c"]})
SOURCE = "SELECT 1L id, 1 p, 'a' v UNION ALL SELECT 2L, 2, 'b' UNION ALL SELECT 3L, 2, 'c'"
SPELLED = ("predicate", "matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates",
           "source", "timestamp")
"""Parameters whose text each engine, or each table, has for itself."""
MERGE = ("MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
         "WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, s.v) "
         "WHEN NOT MATCHED BY SOURCE AND t.id > 10 THEN DELETE")

Theirs = str | Callable[[DeltaSpark, Path], Any]
Ours = Callable[[dn.DeltaTable], Any]


def written(mode: str, where: str = "true", **options: str) -> Callable[[DeltaSpark, Path], Any]:
    return lambda peer, path: peer.write(f"SELECT * FROM src WHERE {where}", path, mode, **options)


def merged(t: dn.DeltaTable) -> Any:
    return (t.merge(ROWS, "t.id = s.id", target_alias="t", source_alias="s")
            .when_matched_update(set={"v": "s.v"})
            .when_not_matched_insert(values={"id": "s.id", "p": "s.p", "v": "s.v"})
            .when_not_matched_by_source_delete(condition="t.id > 10").execute())


STEPS: list[tuple[Theirs, Ours]] = [
    ("INSERT INTO {t} SELECT * FROM src", lambda t: t.append(ROWS)),
    (written("append", txnAppId="a", txnVersion="1", userMetadata="um"),
     lambda t: t.append(ROWS, txn=("a", 1), user_metadata="um")),
    (written("append", mergeSchema="true"), lambda t: t.append(ROWS, merge_schema=True)),
    ("INSERT INTO {t} SELECT * FROM src WHERE false", lambda t: t.append(ROWS.slice(0, 0))),
    (written("append", "false", txnAppId="a", txnVersion="2"),
     lambda t: t.append(ROWS.slice(0, 0), txn=("a", 2))),
    (written("overwrite", "false", replaceWhere="p = 77"),
     lambda t: t.overwrite(ROWS.slice(0, 0), where="p = 77")),
    (written("overwrite", "p = 2", replaceWhere="p = 2"),
     lambda t: t.overwrite(ROWS.slice(1), where="p = 2")),
    (written("overwrite", "p = 2", partitionOverwriteMode="dynamic"),
     lambda t: t.overwrite(ROWS.slice(1), partition_overwrite="dynamic")),
    (written("overwrite"), lambda t: t.overwrite(ROWS)),
    ("DELETE FROM {t} WHERE id = 1", lambda t: t.delete("id = 1")),
    ("DELETE FROM {t} WHERE id = 1000", lambda t: t.delete("id = 1000")),
    ("UPDATE {t} SET v = 'q' WHERE id = 2", lambda t: t.update({"v": "'q'"}, "id = 2")),
    ("UPDATE {t} SET v = 'q'", lambda t: t.update({"v": "'q'"})),
    (MERGE, merged),
    ("INSERT INTO {t} SELECT * FROM src", lambda t: t.append(ROWS)),
    ("OPTIMIZE {t} WHERE p = 2", lambda t: t.optimize("p = 2")),
    ("INSERT INTO {t} SELECT * FROM src", lambda t: t.append(ROWS)),
    ("OPTIMIZE {t} ZORDER BY (id)", lambda t: t.optimize(zorder_by=["id"])),
    ("RESTORE TABLE {t} TO VERSION AS OF 2", lambda t: t.restore(2)),
    ("RESTORE TABLE {t} TO TIMESTAMP AS OF '{second}'", lambda t: t.restore(time_of(t, 1))),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')", lambda t: t.set_properties({"a": "b"})),
    ("ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('a', 'z')",
     lambda t: t.unset_properties(["a", "z"], if_exists=True)),
    ("COMMENT ON TABLE {t} IS 'x y'", lambda t: t.set_description("x y")),
    ("ALTER TABLE {t} ADD COLUMNS (n INT COMMENT 'nn' AFTER id)",
     lambda t: t.add_columns("n int COMMENT 'nn' AFTER id")),
    ("ALTER TABLE {t} ALTER COLUMN n COMMENT 'zz'", lambda t: t.change_column("n", comment="zz")),
    ("ALTER TABLE {t} ALTER COLUMN n COMMENT 'zz'", lambda t: t.change_column("n", comment="zz")),
    ("ALTER TABLE {t} ALTER COLUMN n FIRST", lambda t: t.change_column("n", position="first")),
    ("ALTER TABLE {t} ALTER COLUMN n DROP NOT NULL", lambda t: t.change_column("n", nullable=True)),
    ("ALTER TABLE {t} ALTER COLUMN id SET NOT NULL", lambda t: t.change_column("id", nullable=False)),
    ("ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL", lambda t: t.change_column("id", nullable=True)),
    ("ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id > 0)", lambda t: t.add_constraint("pos", "id > 0")),
    ("ALTER TABLE {t} DROP CONSTRAINT pos", lambda t: t.drop_constraint("pos")),
    ("ALTER TABLE {t} DROP CONSTRAINT IF EXISTS pos", lambda t: t.drop_constraint("pos", True)),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
     lambda t: t.set_properties({"delta.columnMapping.mode": "name"})),
    ("ALTER TABLE {t} RENAME COLUMN n TO m", lambda t: t.rename_column("n", "m")),
    ("ALTER TABLE {t} DROP COLUMN m", lambda t: t.drop_columns("m")),
    ("VACUUM {t} RETAIN 0 HOURS", lambda t: t.vacuum(0, check=False)),
]
CREATED = ("CREATE TABLE {t} (id BIGINT NOT NULL, p INT, v STRING) USING delta PARTITIONED BY (p) "
           "COMMENT 'all' TBLPROPERTIES ('foo' = 'bar')")


def time_of(t: dn.DeltaTable, version: int) -> str:
    at = dt.datetime.fromtimestamp(t.history()[-1 - version].timestamp / 1000, dt.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")


def last(path: Path, back: int = 0) -> tuple[int, dict[str, Any]]:
    names = sorted((path / "_delta_log").glob("0*.json"))
    name = names[-1 - back]
    lines = [json.loads(line) for line in name.read_text().splitlines()]
    return int(name.stem), next(line["commitInfo"] for line in lines if "commitInfo" in line)


def same(ours: Path, theirs: Path, what: str, back: int = 0) -> None:
    (mine, our), (others, their) = last(ours, back), last(theirs, back)
    assert mine == others, f"{what}: as many commits"
    for key in ("operation", "isolationLevel", "isBlindAppend", "tags", "userMetadata"):
        assert our.get(key) == their.get(key), (what, key)
    assert our.get("readVersion", -1) == their.get("readVersion", -1), what  # commitLarge writes the -1
    one, two = our["operationParameters"], their["operationParameters"]
    assert {k: type(v) for k, v in one.items()} == {k: type(v) for k, v in two.items()}, what
    for name in set(one) - set(SPELLED):
        assert one[name] == two[name], (what, name)
    metrics = our.get("operationMetrics") or {}, their.get("operationMetrics") or {}
    assert metrics[0].keys() == metrics[1].keys(), what
    assert all(isinstance(v, str) for v in metrics[0].values()), what


def test_every_command_records_itself_as_delta_spark_does(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    delta_spark.sql(f"CREATE OR REPLACE TEMP VIEW src AS {SOURCE}")
    delta_spark.sql(CREATED.format(t=table(theirs)))
    dn.create(ours, "id bigint NOT NULL, p int, v string", "p", {"foo": "bar"}, description="all")
    same(ours, theirs, CREATED)
    for their, our in STEPS:
        if isinstance(their, str):
            second = time_of(dn.open(theirs), 1) if "{second}" in their else ""
            delta_spark.sql(their.format(t=table(theirs), second=second))
        else:
            their(delta_spark, theirs)
        our(dn.open(ours))
        same(ours, theirs, f"step {STEPS.index((their, our))}: {their}")
    same(ours, theirs, "VACUUM START", back=1)


def test_so_do_commands_that_make_tables(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    delta_spark.sql(f"CREATE OR REPLACE TEMP VIEW src AS {SOURCE}")
    delta_spark.sql(f"CREATE TABLE {table(theirs)} USING delta PARTITIONED BY (p) AS SELECT * FROM src")
    dn.create(ours, ROWS, "p")
    same(ours, theirs, "CTAS")
    delta_spark.sql(f"CREATE OR REPLACE TABLE {table(theirs)} USING delta COMMENT 'c' AS SELECT * FROM src")
    dn.create(ours, ROWS, description="c", mode="overwrite")
    same(ours, theirs, "RTAS")
    delta_spark.sql(f"CREATE TABLE {table(tmp_path / 'theirs2')} SHALLOW CLONE {table(theirs)}")
    dn.open(ours).clone(tmp_path / "ours2")
    same(tmp_path / "ours2", tmp_path / "theirs2", "CLONE")
    for name in ("ours3", "theirs3"):
        folder = tmp_path / name / "p=1"
        folder.mkdir(parents=True)
        pq.write_table(ROWS.select(["id"]), folder / "a.parquet")
    delta_spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path / 'theirs3'}` PARTITIONED BY (p INT)")
    dn.DeltaTable.convert(tmp_path / "ours3", {"p": "int"})
    same(tmp_path / "ours3", tmp_path / "theirs3", "CONVERT")
