"""Delta Spark and the commands of upkeep: each reads the other's result, writes on it, and records the
same things of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.engines.arrow.read import read_table
from tests.examples import every
from tests.peers.delta_spark import DeltaSpark, PeerError, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

NO_CHECK = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


def rows(peer: DeltaSpark, path: Path) -> list[tuple[Any, ...]]:
    """The table's rows, the same for both."""
    ours = sorted(tuple(row.values()) for row in dn.open(path).to_arrow().to_pylist())
    assert ours == sorted(tuple(row.values()) for row in peer.rows(path))
    return ours


def run(peer: DeltaSpark, text: str) -> None:
    """A statement whose result Spark gives with types that Arrow does not take."""
    try:
        peer.sql(text)
    except PeerError as error:
        if error.kind != "ArrowInvalid":
            raise


def appended(peer: DeltaSpark, path: Path, files: int = 4, **properties: str) -> Path:
    """A table that Delta Spark made: rows 0 … 2·files-1, two a commit; p is the commit modulo 2."""
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    peer.sql(f"CREATE TABLE {table(path)} (id BIGINT, p BIGINT) USING delta "
             + (f"TBLPROPERTIES ({pairs})" if pairs else ""))
    for n in range(files):
        peer.sql(f"INSERT INTO {table(path)} VALUES ({2 * n}, {n % 2}), ({2 * n + 1}, {n % 2})")
    return path


def same_record(peer: DeltaSpark, ours: Path, theirs: Path, *operations: str) -> None:
    """Both wrote these operations with the same parameters and metrics, by name."""
    for operation in operations:
        entries = [next(e for e in peer.history(path) if e["operation"] == operation)
                 for path in (ours, theirs)]
        for part in ("operationParameters", "operationMetrics"):
            assert set(entries[0][part]) == set(entries[1][part]), (operation, part)


def copies(path: Path) -> tuple[Path, Path]:
    """The table twice, the same in all files and their times."""
    other = path.with_name(path.name + "_theirs")
    shutil.copytree(path, other)
    return path, other


def test_a_lone_file_keeps_its_deletion_vector(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """However many of its rows are deleted; files that have others to go with lose theirs."""
    made = dn.create(tmp_path / "t", {"id": list(range(40)), "p": [n // 20 for n in range(40)]},
                     partition_by="p", properties={"delta.enableDeletionVectors": "true"})
    made.append({"id": [40, 41], "p": [1, 1]})
    made.delete("id % 4 <> 0")
    ours, theirs = copies(tmp_path / "t")
    dn.open(ours).optimize()
    run(delta_spark, f"OPTIMIZE {table(theirs)}")
    left = [sorted((dict(file["partition_values"])["p"], file["deletion_vector"] is not None)
                   for file in dn.open(path).snapshot.files.to_pylist()) for path in (ours, theirs)]
    assert left[0] == left[1] == [("0", True), ("1", False)]
    assert rows(delta_spark, ours) == rows(delta_spark, theirs)


def test_optimize(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = copies(appended(delta_spark, tmp_path / "t"))
    before = rows(delta_spark, ours)
    dn.open(ours).optimize()
    run(delta_spark, f"OPTIMIZE {table(theirs)}")
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == before
    assert dn.open(ours).snapshot.num_files == dn.open(theirs).snapshot.num_files == 1
    same_record(delta_spark, ours, theirs, "OPTIMIZE")
    version = dn.open(ours).version
    run(delta_spark, f"OPTIMIZE {table(ours)}")
    assert dn.open(theirs).optimize().version is None and dn.open(ours).version == version
    dn.open(ours).optimize(zorder_by=["id", "p"])
    run(delta_spark, f"OPTIMIZE {table(theirs)} ZORDER BY (id, p)")
    same_record(delta_spark, ours, theirs, "OPTIMIZE")
    delta_spark.sql(f"UPDATE {table(ours)} SET p = 9 WHERE id = 0")
    assert rows(delta_spark, ours)[0] == (0, 9)


@pytest.mark.thorough
def test_purge(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = appended(delta_spark, tmp_path / "t", **{"delta.enableDeletionVectors": "true"})
    dn.open(path).optimize()
    delta_spark.sql(f"DELETE FROM {table(path)} WHERE id IN (1, 4)")
    ours, theirs = copies(path)
    before = rows(delta_spark, ours)
    assert dn.open(ours).purge().metrics["numDeletionVectorsRemoved"] == 1
    run(delta_spark, f"REORG TABLE {table(theirs)} APPLY (PURGE)")
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == before
    same_record(delta_spark, ours, theirs, "REORG")


def test_rows_keep_their_ids(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = appended(delta_spark, tmp_path / "t", **{"delta.enableRowTracking": "true"})
    query = ("SELECT id, _metadata.row_id AS r, _metadata.row_commit_version AS v "
             f"FROM {table(path)} ORDER BY id")
    before = delta_spark.sql(query)
    dn.open(path).optimize()
    assert delta_spark.sql(query) == before
    delta_spark.sql(f"INSERT INTO {table(path)} VALUES (100, 0)")
    run(delta_spark, f"OPTIMIZE {table(path)}")
    before = delta_spark.sql(query)
    dn.open(path).optimize(zorder_by="id")
    assert delta_spark.sql(query) == before
    assert len({row["r"] for row in before}) == len(before) == 9


ROW_IDS = "SELECT id, p, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM {t} ORDER BY id"
STEPS: list[tuple[str, Callable[[Any, str], Any]]] = [
    ("UPDATE {t} SET p = p + 10 WHERE id IN (1, 4)",
     lambda t, engine: t.update({"p": "p + 10"}, "id IN (1, 4)", engine=engine)),
    ("DELETE FROM {t} WHERE id = 2", lambda t, engine: t.delete("id = 2", engine=engine)),
    ("MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
     "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.p = 1 THEN UPDATE SET p = 100",
     lambda t, engine: (t.merge(NEWCOMERS, "t.id = s.id", target_alias="t", source_alias="s")
                        .when_matched_update_all().when_not_matched_insert_all()
                        .when_not_matched_by_source_update("t.p = 1", set={"p": "100"}).execute(engine))),
    ("INSERT INTO {t} VALUES (60, 1)", lambda t, engine: t.append({"id": [60], "p": [1]})),
    ("OPTIMIZE {t}", lambda t, engine: t.optimize(engine=engine)),
    ("UPDATE {t} SET p = 0 WHERE id = 5", lambda t, engine: t.update({"p": "0"}, "id = 5", engine=engine)),
]
NEWCOMERS = pa.table({"id": [3, 50, 51], "p": [-3, -50, -51]})


@pytest.mark.parametrize(("mode", "vectors", "engine"), every(4, [
    ("none", "false", "arrow"), ("id", "true", "arrow"), ("id", "false", "spark"),
    ("name", "true", "spark")]))
def test_rows_keep_their_ids_from_hand_to_hand(
    delta_spark: DeltaSpark, tmp_path: Path, mode: str, vectors: str, engine: str
) -> None:
    """Each step is done by us, by Delta Spark, and in turns: the rows, ids and versions are the same."""
    ours, theirs = copies(appended(delta_spark, tmp_path / "t", **{
        "delta.enableRowTracking": "true", "delta.columnMapping.mode": mode,
        "delta.enableDeletionVectors": vectors}))
    shared = tmp_path / "shared"
    shutil.copytree(theirs, shared)
    delta_spark.view("source", NEWCOMERS)
    for number, (sql, ours_does) in enumerate(STEPS):
        ours_does(dn.open(ours), engine)
        run(delta_spark, sql.format(t=table(theirs)))
        if number % 2:
            run(delta_spark, sql.format(t=table(shared)))
        else:
            ours_does(dn.open(shared), engine)
        by_table = [tracked(delta_spark, where) for where in (ours, theirs, shared)]
        assert by_table[0] == by_table[1] == by_table[2], sql
        snapshot = dn.open(shared).snapshot
        rows = read_table(snapshot, snapshot.files, row_ids=True).rename_columns(["id", "p", "r", "v"])
        mine = sorted(rows.to_pylist(), key=lambda row: row["id"])
        assert normal(mine) == by_table[2]


def tracked(delta_spark: DeltaSpark, path: Path) -> list[tuple[Any, ...]]:
    return normal(delta_spark.sql(ROW_IDS.format(t=table(path))))


def normal(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows by id; a new row's own number depends on how many were written before, which differs."""
    return [(row["id"], row["p"], "new" if row["id"] >= 50 else row["r"], row["v"]) for row in rows]


def test_clustering(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(f"CREATE TABLE {table(path)} (id BIGINT, p STRING) USING delta CLUSTER BY (id, p)")
    for n in range(3):
        dn.open(path).append({"id": [n, n + 10], "p": ["a", "b"]})
    ours, theirs = copies(path)
    before = rows(delta_spark, ours)
    dn.open(ours).optimize()
    run(delta_spark, f"OPTIMIZE {table(theirs)}")
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == before
    same_record(delta_spark, ours, theirs, "OPTIMIZE")
    files = [dn.open(where).snapshot.files.to_pylist() for where in (ours, theirs)]
    assert [len(added) for added in files] == [1, 1]
    assert files[0][0]["clustering_provider"] == files[1][0]["clustering_provider"] == "liquid"
    tags = [dict(added[0]["tags"]) for added in files]
    assert set(tags[0]) == set(tags[1]) and tags[0]["ZCUBE_ZORDER_BY"] == tags[1]["ZCUBE_ZORDER_BY"]
    for where in (ours, theirs):
        assert dn.open(where).optimize().version is None
        delta_spark.sql(f"INSERT INTO {table(where)} VALUES (50, 'z')")
        run(delta_spark, f"OPTIMIZE {table(where)}")
        assert dn.open(where).optimize(full=True).version is not None
        assert rows(delta_spark, where) == [*before, (50, "z")]
    detail = delta_spark.sql(f"DESCRIBE DETAIL {table(ours)}")[0]
    assert detail["clusteringColumns"] == dn.open(ours).detail()["clusteringColumns"] == ["id", "p"]


def test_detail(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = appended(delta_spark, tmp_path / "t", **{"delta.enableDeletionVectors": "true"})
    theirs = delta_spark.sql(f"DESCRIBE DETAIL {table(path)}")[0]
    ours = dn.open(path).detail()
    for name in ("format", "id", "name", "description", "partitionColumns", "clusteringColumns",
                 "numFiles", "sizeInBytes", "minReaderVersion", "minWriterVersion"):
        assert ours[name] == theirs[name], name
    assert ours["properties"] == dict(theirs["properties"])
    assert sorted(ours["tableFeatures"]) == sorted(theirs["tableFeatures"])


@pytest.mark.parametrize("lite", every(2, [False, True]))
def test_vacuum(delta_spark: DeltaSpark, tmp_path: Path, lite: bool) -> None:
    path = appended(delta_spark, tmp_path / "t", **{"delta.enableDeletionVectors": "true"})
    dn.open(path).optimize()
    delta_spark.sql(f"DELETE FROM {table(path)} WHERE id IN (1, 4)")
    delta_spark.sql(f"DELETE FROM {table(path)} WHERE id IN (2)")
    ours, theirs = copies(path)
    mode = "LITE " if lite else ""
    result = dn.open(ours).vacuum(0, lite=lite, check=False)
    delta_spark.sql(f"VACUUM {table(theirs)} {mode}RETAIN 0 HOURS", **NO_CHECK)

    def left(where: Path) -> set[str]:
        return {p.name for p in where.rglob("*")
                if p.is_file() and "_delta_log" not in p.parts and not p.name.startswith(".")}

    assert left(ours) == left(theirs) and result.num_files == 5
    assert rows(delta_spark, ours) == rows(delta_spark, theirs)
    same_record(delta_spark, ours, theirs, "VACUUM START", "VACUUM END")
    for where in (ours, theirs):  # each goes on where the other ended
        dn.open(where).overwrite({"id": [7], "p": [7]})
    assert dn.open(theirs).vacuum(0, lite=True, check=False).num_files == 2
    delta_spark.sql(f"VACUUM {table(ours)} LITE RETAIN 0 HOURS", **NO_CHECK)
    assert all(len(left(where)) == 1 for where in (ours, theirs))
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == [(7, 7)]


def test_restore(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = copies(appended(delta_spark, tmp_path / "t"))
    for where in (ours, theirs):
        delta_spark.sql(f"DELETE FROM {table(where)} WHERE id < 3")
        delta_spark.sql(f"ALTER TABLE {table(where)} ADD COLUMN extra STRING")
    dn.open(ours).restore(3)
    delta_spark.sql(f"RESTORE TABLE {table(theirs)} TO VERSION AS OF 3")
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == [
        (0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (5, 0)]
    entries = [next(iter(delta_spark.history(path))) for path in (ours, theirs)]
    sizes = ("removedFilesSize", "tableSizeAfterRestore")  # files of the two deletes differ
    assert {k: v for k, v in entries[0]["operationMetrics"].items() if k not in sizes} == {
        k: v for k, v in entries[1]["operationMetrics"].items() if k not in sizes}
    delta_spark.sql(f"INSERT INTO {table(ours)} VALUES (9, 9)")
    assert rows(delta_spark, ours)[-1] == (9, 9)


@pytest.mark.thorough
def test_clone(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    source = appended(delta_spark, tmp_path / "a b", **{"delta.enableDeletionVectors": "true"})
    dn.open(source).optimize()
    delta_spark.sql(f"DELETE FROM {table(source)} WHERE id IN (1, 4)")
    before = rows(delta_spark, source)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dn.open(source).clone(ours)
    delta_spark.sql(f"CREATE TABLE {table(theirs)} SHALLOW CLONE {table(source)}")
    assert rows(delta_spark, ours) == rows(delta_spark, theirs) == before
    same_record(delta_spark, ours, theirs, "CLONE")
    delta_spark.sql(f"DELETE FROM {table(ours)} WHERE id = 0")
    dn.open(theirs).append({"id": [9], "p": [9]})
    assert rows(delta_spark, ours) == before[1:]
    assert rows(delta_spark, theirs) == [*before, (9, 9)]
    assert dn.open(theirs).vacuum(0, check=False).num_files == 0
    assert rows(delta_spark, source) == before


@pytest.mark.thorough
def test_convert(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    for part in ("a b", "ü"):
        folder = ours / f"q={part}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2], "s": ["x", None]}), folder / "f.parquet")
    theirs = copies(ours)[1]
    dn.convert(ours, {"q": "string"})
    delta_spark.sql(f"CONVERT TO DELTA parquet.`{theirs}` PARTITIONED BY (q STRING)")
    order: Callable[[dict[str, Any]], Any] = lambda row: (row["q"], row["id"])  # noqa: E731
    by_reader = [sorted(reader(path), key=order) for path in (ours, theirs) for reader in (
        delta_spark.rows, lambda path: dn.open(path).to_arrow().to_pylist())]
    assert len(by_reader[0]) == 4 and all(one == by_reader[0] for one in by_reader)
    stats = [sorted(dn.open(path).snapshot.files["stats"].to_pylist()) for path in (ours, theirs)]
    assert stats[0] == stats[1]
    same_record(delta_spark, ours, theirs, "CONVERT")
    delta_spark.sql(f"INSERT INTO {table(ours)} VALUES (3, 'y', 'ü')")
    assert dn.open(ours).to_arrow().num_rows == 5


@pytest.mark.thorough
def test_statistics_and_manifests(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = appended(delta_spark, tmp_path / "t", 1)
    expected = dn.open(path).snapshot.files["stats"].to_pylist()
    txn = dn.open(path).start_transaction()
    txn.commit([f.replace(stats=None, data_change=False) for f in txn.filter_files()])
    dn.open(path).analyze()
    assert dn.open(path).snapshot.files["stats"].to_pylist() == expected
    assert rows(delta_spark, path) == [(0, 0), (1, 0)]
    manifest = path / "_symlink_format_manifest" / "manifest"
    delta_spark.sql(f"GENERATE symlink_format_manifest FOR TABLE {table(path)}")
    theirs = {line.removeprefix("file:") for line in manifest.read_text().split()}
    dn.open(path).generate()
    assert set(manifest.read_text().split()) == theirs
