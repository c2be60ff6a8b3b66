"""Delta Spark as the oracle: it reads and writes on what we write, and we on what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile, CommitInfo, RemoveFile, decode_path
from deltanb.log.commits import commit_name
from deltanb.log.verification import verify
from deltanb.transaction.delta_log import DeltaLog
from tests.engines.arrow.test_variants import decoded, names
from tests.examples import crossed
from tests.peers.delta_spark import DeltaSpark, table
from tests.peers.writer import LockedStore
from tests.shared_tables import path_of
from tests.test_tables import SHREDDED

pytestmark = [pytest.mark.slow, pytest.mark.spark]

APPENDS = 20

EVERY_TYPE = pa.table({
    "n": pa.array([1, 2]),
    "int": pa.array([1, None], pa.int32()), "short": pa.array([1, None], pa.int16()),
    "byte": pa.array([1, None], pa.int8()), "float": pa.array([1.5, None], pa.float32()),
    "double": pa.array([float("inf"), None]), "flag": pa.array([True, None]),
    "dec": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
    "wide": pa.array([Decimal("-9" * 1 + "1.0000000001"), None], pa.decimal128(38, 10)),
    "text": pa.array(["é\n\"'", None]), "bytes": pa.array([b"\x00\xff", None]),
    "day": pa.array([date(1582, 10, 4), None]),
    "time": pa.array([datetime(1950, 1, 2, 3, 4, 5, 6, timezone.utc), None],
                     pa.timestamp("us", "UTC")),
    "wall": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us")),
    "list": pa.array([[1, None], None], pa.list_(pa.int64())),
    "struct": pa.array([{"x": 1, "y": None}, None],
                       pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
})
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""A text that is no value, as the empty one is, since Spark names the folder of NULL so."""
ODD = ["a/b", "k=v", " ", "é ü", "100%", "%2F", "", None, "a:b", "{x}[y]*?", "'q\"", "a\\b", "#&+;",
       NO_VALUE, f"{NO_VALUE}x", "tab\there", "new\nline"]
TYPED = pa.table({
    "n": pa.array([1, 2, 3]),
    "int": pa.array([-1, None, 2**31 - 1], pa.int32()), "short": pa.array([-1, None, 5], pa.int16()),
    "byte": pa.array([-1, None, 5], pa.int8()), "long": pa.array([-1, None, 2**62], pa.int64()),
    "double": pa.array([-0.0, None, 5e-324]), "float": pa.array([1e10, None, 1.4e-45], pa.float32()),
    "flag": pa.array([True, None, False]),
    "dec": pa.array([Decimal("-1.50"), None, Decimal("0.01")], pa.decimal128(12, 2)),
    "day": pa.array([date(1969, 12, 31), None, date(2024, 2, 29)]),
    "time": pa.array([datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc), None,
                      datetime(2024, 1, 2, 3, 4, 5, 6, timezone.utc)], pa.timestamp("us", "UTC")),
    "wall": pa.array([datetime(1969, 12, 31, 23, 59, 59, 999999), None,
                      datetime(2024, 1, 2, 3, 4, 5)], pa.timestamp("us")),
})


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr(sorted(row.items(), key=lambda item: item[0])))


def both(peer: DeltaSpark, path: Path) -> list[dict[str, Any]]:
    """The rows of the table, the same for both, in order."""
    ours, theirs = ordered(dn.open(path).to_arrow().to_pylist()), ordered(peer.rows(path))
    assert ours == theirs
    return ours


# -- rows of every kind --------------------------------------------------------------------------------

@pytest.mark.parametrize("by", [[], ["int", "text"]], ids=["plain", "partitioned"])
def test_every_type_both_ways(delta_spark: DeltaSpark, tmp_path: Path, by: list[str]) -> None:
    rows = EVERY_TYPE.to_pylist()
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dn.create(ours, EVERY_TYPE, partition_by=by)
    assert both(delta_spark, ours) == ordered(rows)
    delta_spark.sql(f"INSERT INTO {table(ours)} BY NAME SELECT * FROM {table(ours)}")
    assert both(delta_spark, ours) == ordered(rows * 2)

    delta_spark.view("every_type", EVERY_TYPE)
    delta_spark.write("SELECT * FROM every_type", theirs, partition_by=by)
    assert both(delta_spark, theirs) == ordered(rows)
    dn.open(theirs).append(EVERY_TYPE)
    assert both(delta_spark, theirs) == ordered(rows * 2)
    assert dn.open(ours).schema == dn.open(theirs).schema


@pytest.mark.parametrize("values", ["odd", "typed"])
def test_partition_values_both_ways(delta_spark: DeltaSpark, tmp_path: Path, values: str) -> None:
    if values == "odd":
        data, by = pa.table({"n": list(range(len(ODD))), "part": ODD}), ["part"]
    else:
        data, by = TYPED, TYPED.schema.names[1:]
    expected = [{**row, "part": None} if row.get("part") in ("", NO_VALUE) else row
                for row in data.to_pylist()]
    dn.create(tmp_path / "ours", data, partition_by=by)
    assert both(delta_spark, tmp_path / "ours") == ordered(expected)
    delta_spark.view("partitioned", data)
    delta_spark.write("SELECT * FROM partitioned", tmp_path / "theirs", partition_by=by)
    assert both(delta_spark, tmp_path / "theirs") == ordered(expected)

    def parts(name: str) -> list[Any]:
        files = dn.open(tmp_path / name).snapshot.files
        return sorted({json.dumps(dict(value), sort_keys=True)
                       for value in files["partition_values"].to_pylist()})

    for one in data.select(by).to_pylist():  # each finds the rows that the other put there
        conditions = " AND ".join(
            f"{name} <=> {literal(value)}" for name, value in one.items() if value not in ("", NO_VALUE))
        if not conditions:
            continue
        by_engine = [ordered(delta_spark.sql(f"SELECT n FROM {table(tmp_path / name)} WHERE {conditions}"))
                 for name in ("ours", "theirs")]
        assert by_engine[0] == by_engine[1] and by_engine[0], conditions
    assert parts("ours") == parts("theirs")


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return repr(value) + ("D" if isinstance(value, float) else "")
        case Decimal():
            return str(value)
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.replace(tzinfo=None)}'"
        case date():
            return f"DATE '{value}'"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case other:
            raise TypeError(other)


def test_overwrites_both_ways(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": [1, 2, 3, 4], "p": ["a", "a", "b", "c"]}, partition_by="p")
    delta_spark.write("SELECT 5L n, 'a' p", tmp_path, "overwrite", replaceWhere="p = 'a'")
    mine.overwrite({"n": [6], "p": ["b"]}, where="p = 'b'")
    assert [(r["n"], r["p"]) for r in both(delta_spark, tmp_path)] == [(4, "c"), (5, "a"), (6, "b")]
    delta_spark.write("SELECT 7L n, 'c' p", tmp_path, "overwrite", partitionOverwriteMode="dynamic")
    mine.overwrite({"n": [8], "p": ["a"]}, partition_overwrite="dynamic")
    assert [(r["n"], r["p"]) for r in both(delta_spark, tmp_path)] == [(6, "b"), (7, "c"), (8, "a")]
    mine.append({"n": [6, 7], "p": ["b", "c"]})
    mine.overwrite({"n": [6], "p": ["d"]}, where="n = 6")  # a data column: files are rewritten
    delta_spark.write("SELECT 7L n, 'd' p", tmp_path, "overwrite", replaceWhere="n = 7")
    assert [(r["n"], r["p"]) for r in both(delta_spark, tmp_path)] == [(6, "d"), (7, "d"), (8, "a")]
    mine.overwrite({"n": [1], "q": [1.5]}, overwrite_schema=True, partition_by=[])
    assert both(delta_spark, tmp_path) == [{"n": 1, "q": 1.5}]
    delta_spark.write("SELECT 2L m", tmp_path, "overwrite", overwriteSchema="true")
    assert both(delta_spark, tmp_path) == [{"m": 2}]
    mine.append({"m": [3], "new": ["x"]}, merge_schema=True)
    delta_spark.write("SELECT 4L m, 'y' new, 1 more", tmp_path, mergeSchema="true")
    assert both(delta_spark, tmp_path) == [
        {"m": 2, "new": None, "more": None}, {"m": 3, "new": "x", "more": None},
        {"m": 4, "new": "y", "more": 1}]


# -- features ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("mode", "first"), crossed(2, ["name", "id"], ["ours", "theirs"]))
def test_column_mapping(delta_spark: DeltaSpark, tmp_path: Path, mode: str, first: str) -> None:
    rows = pa.table({"a b": [1, 2], "s": [{"x,y": 1}, {"x,y": 2}], "p": ["u", "v"]})
    if first == "ours":
        dn.create(tmp_path, rows, partition_by="p", properties={"delta.columnMapping.mode": mode})
    else:
        delta_spark.sql(
            f"CREATE TABLE {table(tmp_path)} (`a b` BIGINT, s STRUCT<`x,y`: BIGINT>, p STRING) "
            f"USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')")
        delta_spark.view("mapped", rows)
        delta_spark.sql(f"INSERT INTO {table(tmp_path)} BY NAME SELECT * FROM mapped")
    assert both(delta_spark, tmp_path) == ordered(rows.to_pylist())
    delta_spark.sql(f"ALTER TABLE {table(tmp_path)} RENAME COLUMN `a b` TO a")
    delta_spark.sql(f"ALTER TABLE {table(tmp_path)} RENAME COLUMN s.`x,y` TO x")
    dn.open(tmp_path).append({"a": [3], "s": [{"x": 3}], "p": ["u"]})
    delta_spark.sql(f"INSERT INTO {table(tmp_path)} SELECT 4L, named_struct('x', 4L), 'w'")
    assert [(row["a"], row["s"], row["p"]) for row in both(delta_spark, tmp_path)] == [
        (1, {"x": 1}, "u"), (2, {"x": 2}, "v"), (3, {"x": 3}, "u"), (4, {"x": 4}, "w")]
    assert dn.open(tmp_path).to_arrow(where="s.x > 2")["a"].to_pylist() in ([3, 4], [4, 3])
    assert delta_spark.sql(f"SELECT a FROM {table(tmp_path)} WHERE s.x = 3") == [{"a": 3}]


def test_deletion_vectors_of_delta_spark(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": list(range(1000)), "p": [n % 2 for n in range(1000)]},
                     partition_by="p", properties={"delta.enableDeletionVectors": "true"})
    delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n % 10 = 3")
    vectors = [v for v in mine.snapshot.files["deletion_vector"].to_pylist() if v]
    assert len(vectors) == 1 and vectors[0]["storage_type"] == "u"
    assert len(both(delta_spark, tmp_path)) == 900
    delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n % 10 = 4 OR n = 5")  # one more, one grows
    mine.overwrite({"n": [503], "p": [1]}, where="n BETWEEN 500 AND 999 AND p = 1")
    left = {n for n in range(1000) if n % 10 not in (3, 4) and n != 5}
    assert {row["n"] for row in both(delta_spark, tmp_path)} == {
        n for n in left if n < 500 or n % 2 == 0} | {503}
    assert mine.as_of(1).to_arrow().num_rows == 900


def test_we_pass_it_at_row_level_and_it_reads_and_changes_what_came_of_it(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    """Behind its vectors, its OPTIMIZE and its append; it sees the same row ids, and the same changes."""
    properties = dict.fromkeys(("delta.enableDeletionVectors", "delta.enableRowTracking",
                                "delta.enableChangeDataFeed"), "true")
    mine = dn.create(tmp_path, {"n": list(range(20))}, properties={
        **properties, "deltanb.rowLevelConcurrency": "all"})
    before = delta_spark.sql(f"SELECT n, _metadata.row_id id FROM {table(tmp_path)}")
    with mine.transaction() as txn:
        txn.delete("n IN (1, 2)")
        delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 3")
        delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES (30)")
        delta_spark.sql(f"OPTIMIZE {table(tmp_path)}")
        delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 4")
    assert mine.log.update().version == 5
    left = [*range(5, 20), 30]
    assert sorted(row["n"] for row in both(delta_spark, tmp_path)) == [0, *left]
    after = delta_spark.sql(f"SELECT n, _metadata.row_id id FROM {table(tmp_path)} WHERE n < 20")
    assert sorted(after, key=str) == sorted((row for row in before if row["n"] in (0, *left)), key=str)
    changes = delta_spark.sql(f"SELECT _change_type, n FROM table_changes_by_path('{tmp_path}', 5)")
    assert sorted(row["n"] for row in changes) == [1, 2]
    delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 0")
    assert sorted(row["n"] for row in both(delta_spark, tmp_path)) == left
    assert not dn.verify(tmp_path).findings


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_of_both(delta_spark: DeltaSpark, tmp_path: Path, policy: str) -> None:
    mine = dn.create(tmp_path, {"n": [0], "p": ["a"]}, partition_by="p", properties={
        "delta.checkpointPolicy": policy, "delta.enableDeletionVectors": "true"})

    def forget(version: int) -> None:
        """Only the checkpoint can tell what was before; Delta Spark wants the last commit as well."""
        for old in range(version):
            (tmp_path / commit_name(old)).unlink(missing_ok=True)
        DeltaLog.clear_cache()

    delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES (1, 'b'), (2, 'b')")
    delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 2")
    mine.log.checkpoint()
    forget(2)
    assert [row["n"] for row in both(delta_spark, tmp_path)] == [0, 1]
    delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES (3, 'c')")
    delta_spark.ask("checkpoint", path=str(tmp_path))
    forget(3)
    dn.open(tmp_path).append({"n": [4], "p": ["a"]})
    assert [row["n"] for row in both(delta_spark, tmp_path)] == [0, 1, 3, 4]
    kinds = {(path.name[:20], path.suffix) for path in (tmp_path / "_delta_log").glob("0*.checkpoint.*")}
    suffix = ".parquet" if policy == "classic" else ".json"
    assert {version for version, kind in kinds if kind == suffix} == {f"{n:020}" for n in (2, 3)}


def test_row_tracking(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": [0, 1, 2]}, properties={"delta.enableRowTracking": "true"})
    delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES (3), (4)")
    mine.append({"n": [5]})
    mine.overwrite({"n": [1, 1]}, where="n = 1")
    ids = delta_spark.sql("SELECT n, _metadata.row_id id, _metadata.row_commit_version version "
                          f"FROM {table(tmp_path)}")
    tracked = sorted((row["n"], row["id"], row["version"]) for row in ids)
    assert [row for row in tracked if row[0] > 2] == [(3, 3, 1), (4, 4, 1), (5, 5, 2)]
    # 0 and 2 were written again beside the new rows, and are the rows that they were.
    assert [row for row in tracked if row[0] in (0, 2)] == [(0, 0, 0), (2, 2, 0)]
    assert all(id_ >= 6 and version == 3 for n, id_, version in tracked if n == 1)
    assert len({row[1] for row in tracked}) == len(tracked) == 7


def test_in_commit_timestamps(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": [0]}, properties={"delta.enableInCommitTimestamps": "true"})
    for n in range(3):
        delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES ({n})")
        mine.append({"n": [n]})
    stamps = [info.in_commit_timestamp for version in range(7)
              for info in mine.log.read_commit(version) if isinstance(info, CommitInfo)]
    assert len(stamps) == 7 and sorted(set(stamps)) == stamps
    seen = [round(row["timestamp"].timestamp() * 1000) for row in delta_spark.history(tmp_path)]
    assert seen == stamps[::-1] == [entry.timestamp for entry in mine.history()]


def test_type_widening(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, pa.table({"n": pa.array([1], pa.int16()), "f": pa.array([1.5], pa.float32())}),
                     properties={"delta.enableTypeWidening": "true"})
    delta_spark.sql(f"ALTER TABLE {table(tmp_path)} ALTER COLUMN n TYPE BIGINT")
    delta_spark.sql(f"ALTER TABLE {table(tmp_path)} ALTER COLUMN f TYPE DOUBLE")
    mine.append({"n": [2**40], "f": [0.1]})
    delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES ({2**41}, 0.2D)")
    assert sorted((row["n"], row["f"]) for row in both(delta_spark, tmp_path)) == [
        (1, 1.5), (2**40, 0.1), (2**41, 0.2)]


def variants(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in order, a variant's two binaries in order too: which comes first is each reader's affair."""
    def ordered_parts(value: Any) -> Any:
        if isinstance(value, dict):
            return sorted((name, ordered_parts(item)) for name, item in value.items())
        return bytes(value) if isinstance(value, bytearray) else value

    return sorted(str(ordered_parts(row)) for row in rows)


@pytest.mark.shared
@pytest.mark.parametrize("name", SHREDDED)
def test_variants_in_pieces_of_others(delta_spark: DeltaSpark, name: str) -> None:
    path = path_of(name)
    theirs = delta_spark.sql(f"SELECT to_json(struct(*)) j FROM {table(path)}")
    assert sorted((json.loads(row["j"]) for row in theirs), key=str) == [SHREDDED[name](n) for n in range(10)]
    assert variants(delta_spark.rows(path)) == variants(dn.open(path).to_arrow().to_pylist())


def test_variants_in_pieces_of_delta_spark(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(f"CREATE TABLE {table(path)} (n BIGINT, v VARIANT) USING delta "
                    "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')")
    delta_spark.sql(
        f"INSERT INTO {table(path)} SELECT id, IF(id % 5 = 0, NULL, parse_json('{{\"a\":' || id || "
        "',\"b\":[\"x\",null],\"c\":{\"d\":\"' || id || '\"}}')) FROM range(200)",
        **{"spark.sql.variant.writeShredding.enabled": "true",
           "spark.sql.variant.inferShreddingSchema": "true"})
    ours = dn.open(path)
    (file, *_) = ours.start_transaction().filter_files()
    stored = pq.read_schema(path / file.path).field("v").type
    assert "typed_value" in [part.name for part in getattr(stored, "storage_type", stored)]

    def read(row: dict[str, Any]) -> Any:
        return row["v"] and decoded(row["v"]["value"], names(row["v"]["metadata"]))

    expected = {n: {"a": n, "b": ["x", None], "c": {"d": str(n)}} if n % 5 else None for n in range(200)}
    assert {row["n"]: read(row) for row in ours.to_arrow().to_pylist()} == expected
    assert ours.to_arrow(where="v IS NULL").num_rows == 40
    ours.update({"n": "n + 1000"}, where="n >= 0")  # written whole
    theirs = delta_spark.sql(f"SELECT n, to_json(v) j FROM {table(path)}")
    assert {row["n"] - 1000: row["j"] and json.loads(row["j"]) for row in theirs} == expected


@pytest.mark.parametrize("asks", [
    {"delta.feature.materializePartitionColumns": "supported"},
    {"delta.writePartitionColumnsToParquet": "true", "delta.parquet.compression.codec": "lz4_raw",
     "delta.parquet.format.version": "2.12.0"},
])
def test_partition_columns_in_the_files(
    delta_spark: DeltaSpark, tmp_path: Path, asks: dict[str, str]
) -> None:
    path = tmp_path / "t"
    ours = dn.create(path, TYPED, partition_by=["int", "time"], properties=asks)
    assert len(both(delta_spark, path)) == 3
    delta_spark.write(f"SELECT * FROM {table(path)}", path)
    assert len(both(delta_spark, path)) == 6
    ours.delete("n = 1")
    assert len(both(delta_spark, path)) == 4
    added = (a.path for v in (0, 1) for a in ours.log.read_commit(v) if isinstance(a, AddFile))
    names = {tuple(pq.ParquetFile(path / decode_path(name)).schema_arrow.names) for name in added}
    if "delta.feature.materializePartitionColumns" in asks:
        assert {frozenset(columns) for columns in names} == {frozenset(TYPED.schema.names)}


def test_constraints_and_generated_columns_of_delta_spark(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    delta_spark.sql(f"CREATE TABLE {table(tmp_path)} (n INT NOT NULL, at TIMESTAMP) USING delta")
    delta_spark.sql(f"ALTER TABLE {table(tmp_path)} ADD CONSTRAINT positive CHECK (n > 0)")
    mine = dn.open(tmp_path)
    for wrong in ({"n": [-1]}, {"n": [None]}):
        with pytest.raises(dn.errors.ConstraintViolation):
            mine.append({**wrong, "at": pa.array([None], pa.timestamp("us", "UTC"))})
    mine.append({"n": [1], "at": [datetime(2024, 5, 6, tzinfo=timezone.utc)]})
    assert [row["n"] for row in both(delta_spark, tmp_path)] == [1]


# -- the log -------------------------------------------------------------------------------------------

def test_checksums_of_both(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """Each writes its own from the other's: the numbers stay those of the table."""
    mine = dn.create(tmp_path, {"n": [0], "p": ["a"]}, partition_by="p",
                     properties={"delta.enableDeletionVectors": "true"})
    for n in range(1, 4):
        mine.append({"n": [n, n], "p": ["a", "b"]})
        delta_spark.sql(f"INSERT INTO {table(tmp_path)} VALUES ({n}, 'c'), ({n * 10}, 'c')")
    delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 20")
    mine.append({"n": [9], "p": ["z"]})
    for version in range(mine.version + 1):
        verification = verify(mine.log.snapshot_at(version))
        assert verification.compared and verification.differences == (), (version, verification)
    texts = [json.loads((tmp_path / "_delta_log" / f"{version:020}.crc").read_text())
             for version in (mine.version - 1, mine.version)]
    assert set(texts[1]) - set(texts[0]) == set()  # we write no field that Delta Spark does not
    assert {"tableSizeBytes", "numFiles", "metadata", "protocol"} <= set(texts[1])


HISTORIES: dict[str, tuple[Callable[[DeltaSpark, Path], Any], Callable[[Any], Any]]] = {
    "append": (lambda peer, path: peer.write("SELECT 9L n, 'a' p", path, "append"),
               lambda mine: mine.append({"n": [9], "p": ["a"]})),
    "overwrite": (lambda peer, path: peer.write("SELECT 9L n, 'a' p", path, "overwrite"),
                  lambda mine: mine.overwrite({"n": [9], "p": ["a"]})),
    "replaceWhere, partition": (
        lambda peer, path: peer.write("SELECT 9L n, 'a' p", path, "overwrite", replaceWhere="p = 'a'"),
        lambda mine: mine.overwrite({"n": [9], "p": ["a"]}, where="p = 'a'")),
    "replaceWhere, data": (
        lambda peer, path: peer.write("SELECT 1L n, 'a' p", path, "overwrite", replaceWhere="n = 1"),
        lambda mine: mine.overwrite({"n": [1], "p": ["a"]}, where="n = 1")),
    "dynamic": (
        lambda peer, path: peer.write("SELECT 9L n, 'a' p", path, "overwrite",
                                      partitionOverwriteMode="dynamic"),
        lambda mine: mine.overwrite({"n": [9], "p": ["a"]}, partition_overwrite="dynamic")),
}


@pytest.mark.parametrize("what", HISTORIES)
def test_history_says_the_same(delta_spark: DeltaSpark, tmp_path: Path, what: str) -> None:
    """Operation, parameters and the numbers that do not depend on the engine are equal."""
    theirs, ours = HISTORIES[what]
    for name in ("theirs", "ours"):
        dn.create(tmp_path / name, {"n": [1, 2, 3], "p": ["a", "a", "b"]}, partition_by="p")
    theirs(delta_spark, tmp_path / "theirs")
    ours(dn.open(tmp_path / "ours"))
    (their, *_), (our, *_) = delta_spark.history(tmp_path / "theirs"), delta_spark.history(tmp_path / "ours")
    for key in ("operation", "readVersion", "isolationLevel", "isBlindAppend"):
        assert our[key] == their[key], key
    assert same_parameters(our["operationParameters"]) == same_parameters(their["operationParameters"])
    assert our["operationMetrics"].keys() == their["operationMetrics"].keys()
    for key, value in their["operationMetrics"].items():
        if "Bytes" not in key and "Time" not in key:
            assert our["operationMetrics"][key] == value, key


def same_parameters(parameters: dict[str, str]) -> dict[str, Any]:
    """The predicate is written in each engine's spelling: with parentheses and quotes, or without."""
    return {key: value.replace("(", "").replace(")", "").replace("`", "") if key == "predicate" else value
            for key, value in parameters.items()}


# -- both at once --------------------------------------------------------------------------------------

def test_they_take_turns(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """Twenty appends each, one after the other, over checkpoints of both."""
    mine = dn.create(tmp_path, pa.schema({"who": pa.string(), "n": pa.int64(), "part": pa.int64()}),
                     partition_by="part")
    lock = tmp_path / "lock"
    for n in range(APPENDS):
        mine.append({"who": ["deltanb"], "n": [n], "part": [n % 3]})
        delta_spark.ask("append_locked", path=str(tmp_path), lock=str(lock), count=1, who=f"peer {n}")
    assert mine.version == 2 * APPENDS
    stored = both(delta_spark, tmp_path)
    assert sorted(row["n"] for row in stored if row["who"] == "deltanb") == list(range(APPENDS))
    assert {row["who"] for row in stored if row["who"] != "deltanb"} == {
        f"peer {n}" for n in range(APPENDS)}


def test_both_append_at_once_and_nothing_is_lost(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """Two processes read, write and lose races as they come; only the last step is one at a time."""
    path, lock = tmp_path / "table", tmp_path / "lock"
    dn.create(path, pa.schema({"who": pa.string(), "n": pa.int64(), "part": pa.int64()}),
              partition_by="part")
    mine = dn.open(LockedStore(path, lock))
    ours, theirs = [], []
    for n in range(APPENDS):
        delta_spark.send("append_locked", path=str(path), lock=str(lock), count=1, who=f"peer {n}")
        ours += [mine.append({"who": ["deltanb"], "n": [3 * n + k], "part": [k]}) for k in range(3)]
        theirs += delta_spark.receive()
    assert sorted(ours + theirs) == list(range(1, 4 * APPENDS + 1))
    stored = both(delta_spark, path)
    assert sorted((row["who"], row["n"]) for row in stored) == sorted(
        [("deltanb", n) for n in range(3 * APPENDS)] + [(f"peer {n}", 0) for n in range(APPENDS)])
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(str(path))
    for version in range(1, log.snapshot.version + 1):
        actions = log.read_commit(version)
        assert len([a for a in actions if isinstance(a, AddFile)]) == 1
        assert not [a for a in actions if isinstance(a, RemoveFile)]


def test_delta_spark_reads_and_vacuums_past_our_journal(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine = dn.create(tmp_path, {"n": [1], "p": ["a"]}, partition_by="p",
                     properties={"delta.isolationLevel": "Serializable"})
    with dn.set_options(journal="beside"):
        with pytest.raises(dn.errors.ConcurrentAppendException), mine.transaction() as txn:
            txn.delete("p = 'a'")
            mine.append({"n": [2], "p": ["a"]})
        journal = sorted((tmp_path / "_deltanb_journal").iterdir())
        assert len(journal) == 1
        assert [row["n"] for row in both(delta_spark, tmp_path)] == [1, 2]
        delta_spark.sql(f"DELETE FROM {table(tmp_path)} WHERE n = 1")
        delta_spark.sql(f"VACUUM {table(tmp_path)} RETAIN 0 HOURS",
                        **{"spark.databricks.delta.retentionDurationCheck.enabled": "false"})
        assert sorted((tmp_path / "_deltanb_journal").iterdir()) == journal
        assert not list(tmp_path.glob("p=a/.*.parquet")) and len(list(tmp_path.glob("p=a/*.parquet"))) == 1
        lost = dn.open(tmp_path).history().conflicts().lost
        assert [meeting.loser.operation for meeting in lost] == ["DELETE"]
