"""MERGE on Spark and in the process: one definition, two engines, the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb.actions import AddCDCFile, RemoveFile
from deltanb.commands.merge.merge import MergeBuilder
from deltanb.errors import (
    ConstraintViolation,
    InvalidArgument,
    InvalidPredicate,
    MultipleSourceRowsMatched,
    SchemaMismatch,
)
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


SMALL = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture(autouse=True)
def _one_session(spark: Any) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


@pytest.fixture(params=["small", "large"])
def source_size(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether Spark gives the source to every task, or moves the rows of both sides."""
    before = spark.conf.get(SMALL)
    if request.param == "large":
        spark.conf.set(SMALL, "-1")
    yield request.param
    spark.conf.set(SMALL, before)


def rows(table: DeltaTable) -> list[str]:
    return sorted(str(row) for row in table.to_arrow().to_pylist())


def merge(table: DeltaTable, source: Any, on: str = "t.id = s.id") -> MergeBuilder:
    return table.merge(source, on, target_alias="t", source_alias="s")


def twins(tmp_path: Path, data: Any, files: int = 2, **settings: Any) -> dict[str, DeltaTable]:
    """The same table twice, one for each engine."""
    whole = pa.table(data)
    size = -(-whole.num_rows // files)
    made = {}
    for engine in ("arrow", "spark"):
        made[engine] = create(tmp_path / engine, whole.slice(0, size), **settings)
        for start in range(size, whole.num_rows, size):
            made[engine].append(whole.slice(start, size))
    return made


def both(tables: dict[str, DeltaTable], build: Any) -> dict[str, int]:
    """Run on each engine; rows, metrics and the feed must agree."""
    results = {engine: build(table).execute(engine=engine) for engine, table in tables.items()}
    assert {engine: result.engine for engine, result in results.items()} == {
        "arrow": "arrow", "spark": "spark"}
    arrow, spark = (results[engine].metrics for engine in ("arrow", "spark"))
    assert rows(tables["arrow"]) == rows(tables["spark"])
    alike = {name for name in arrow if name.startswith(("numSourceRows", "numTargetRows"))}
    alike -= {"numTargetRowsCopied"}  # the engines cut files differently
    assert {n: arrow[n] for n in alike} == {n: spark[n] for n in alike}
    assert results["arrow"].version == results["spark"].version
    assert tables["arrow"].history(1)[0].operation_parameters == \
        tables["spark"].history(1)[0].operation_parameters
    return dict(arrow)


@pytest.mark.parametrize("properties", [{}, {**VECTORS, **FEED}])
@pytest.mark.usefixtures("source_size")
def test_all_clauses_give_the_same_rows(tmp_path: Path, properties: dict[str, str]) -> None:
    chance = random.Random(7)
    data = {"id": [chance.choice([None, *range(12)]) for _ in range(16)],
            "n": [chance.randrange(10) for _ in range(16)], "p": ["a", "b"] * 8}
    tables = twins(tmp_path, data, 2, partition_by="p", properties=properties)
    keys = [0, 1, 2, 3, 4, 5, 6, None, None, 20]
    source = {"id": keys, "n": [chance.randrange(10) for _ in keys], "p": ["b"] * len(keys)}
    metrics = both(tables, lambda table: merge(table, source)
                   .when_matched_delete("t.n < 3 AND s.n > 2")
                   .when_matched_update("s.n <> 4", set={"n": "s.n * 100 + t.n", "p": "s.p"})
                   .when_not_matched_insert("s.n >= 2", values={"n": "-s.n", "id": "id"})
                   .when_not_matched_insert_all("s.id IS NOT NULL")
                   .when_not_matched_by_source_update("t.n = 5", set={"n": "1000"})
                   .when_not_matched_by_source_delete("t.n > 6"))
    assert all(metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted"))
    if "delta.enableChangeDataFeed" in properties:
        feeds = [sorted(str({k: v for k, v in row.items() if not k.startswith("_commit")})
                        for row in table.changes(2).to_pylist()) for table in tables.values()]
        assert feeds[0] == feeds[1] and len(feeds[0]) > 4


def test_null_safe_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = twins(tmp_path, {"id": [None, 1, 2, None, 4], "p": ["a", "b", None, None, "b"], "n": [0] * 5}, 3)
    for limit in (1000, 1):
        monkeypatch.setattr("deltanb.commands.merge.held.MAX_LISTED_VALUES", limit)
        monkeypatch.setattr("deltanb.commands.merge.on.MAX_LISTED_VALUES", limit)
        source = {"id": [None, 1, 2, 4], "p": ["a", None, None, "b"], "n": [limit, 2, 3, 4]}
        metrics = both(tables, lambda t, source=source: merge(t, source, "t.id <=> s.id AND t.p <=> s.p")
                       .when_matched_update_all().when_not_matched_insert_all())
        assert metrics["numTargetRowsUpdated"] >= 3


@pytest.mark.usefixtures("source_size")
def test_merges_of_few_clauses(tmp_path: Path) -> None:
    tables = twins(tmp_path, {"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})
    source = {"id": [2, 9, None], "v": ["B", "N", "Z"]}
    both(tables, lambda t: merge(t, source).when_not_matched_insert_all("s.id > 0"))
    assert all(isinstance(a, RemoveFile) is False for t in tables.values()
               for a in t.log.read_commit(t.version))
    both(tables, lambda t: merge(t, source).when_matched_update_all())
    twice = {"id": [1, 1, 7], "v": ["x", "y", "z"]}
    for engine, table in tables.items():
        with pytest.raises(MultipleSourceRowsMatched):
            merge(table, twice).when_matched_update_all().execute(engine=engine)
    both(tables, lambda t: merge(t, twice).when_matched_delete().when_not_matched_insert_all())


def test_an_upsert_by_name(tmp_path: Path, spark: Any) -> None:
    tables = twins(tmp_path, {"id": [1, 2, None], "the day": [1, 1, 1], "v": ["a", "b", "c"]},
                   properties={"delta.columnMapping.mode": "name"})
    source = {"ID": [2, None, 9], "the day": [1, 1, 1], "v": ["B", "N", "Z"]}
    frame = spark.createDataFrame(pa.table(source).to_pandas().astype({"ID": "Int64"}))
    done = {"arrow": tables["arrow"].upsert(source, on=["id", "the day"]),
            "spark": tables["spark"].upsert(frame, on=["id", "the day"])}
    assert {name: one.engine for name, one in done.items()} == {"arrow": "arrow", "spark": "spark"}
    assert rows(tables["arrow"]) == rows(tables["spark"])
    counts = [{name: n for name, n in one.metrics.items() if name.startswith("numTargetRows")
               and name != "numTargetRowsCopied"} for one in done.values()]
    assert counts[0] == counts[1] and counts[0]["numTargetRowsInserted"] == 2
    repeated = spark.createDataFrame([(7, 1, "x"), (7, 1, "y"), (None, 1, "z"), (None, 1, "z")],
                                     "id long, `the day` long, v string")
    for table in tables.values():
        with pytest.raises(MultipleSourceRowsMatched, match="2 rows with id=7, the day=1, "):
            table.upsert(repeated, on=["id", "the day"])
    with pytest.raises(InvalidArgument, match="the source has no column 'v'"):
        table.upsert(frame.drop("v"), on="v")


def test_schema_evolution_and_structs(tmp_path: Path) -> None:
    tables = twins(tmp_path, pa.table({"id": [1, 2], "s": [{"a": 1, "b": "x"}, {"a": 2, "b": None}]}),
                   properties={"delta.columnMapping.mode": "name"})
    source = pa.table({"id": [1, 3], "s": [{"b": "X", "c": 1.5}, {"b": "Y", "c": None}], "new": [1, 2]})
    both(tables, lambda t: merge(t, source).when_matched_update_all().when_not_matched_insert_all()
         .with_schema_evolution())
    both(tables, lambda t: merge(t, source).when_matched_update(set={"s.a": "t.s.a + 10", "t.new": "'7'"}))
    assert str(tables["spark"].schema.field("s").type) == "struct<a: long, b: string, c: double>"


def test_structs_that_lack_a_field(tmp_path: Path) -> None:
    """A value that would leave a field NULL is refused by name; with schema evolution it does."""
    part, whole = pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("c", pa.int64())])

    def data(fields: pa.StructType, structs: list[Any], *arrays: list[Any]) -> pa.Table:
        return pa.table({"id": list(range(1, len(structs) + 1)), "st": pa.array(structs, fields),
                         "l": pa.array(arrays[0] if arrays else [None] * len(structs), pa.list_(fields))})

    full = {"a": 1, "c": 5}
    tables = twins(tmp_path, data(whole, [full, None, full, None], [[full], None, None, []]))
    source = data(part, [{"a": 99}, None, None, {"a": 98}, {"a": 97}], [[{"a": 99}]] + [None] * 4)
    refused = {
        "st.c": [
            lambda t: merge(t, source).when_matched_update(set={"st": "s.st"}),
            lambda t: merge(t, source).when_matched_update(set={"st": "named_struct('a', s.id)"}),
            lambda t: merge(t, source).when_not_matched_insert(values={"id": "s.id", "st": "s.st"}),
            lambda t: merge(t, source).when_not_matched_insert_all(except_cols=["l"]),
            lambda t: merge(t, source, "t.id + 9 = s.id").when_not_matched_by_source_update(
                set={"st": "named_struct('a', t.id)"})],
        "l.element.c": [lambda t: merge(t, source).when_matched_update(set={"l": "s.l"}),
                        lambda t: merge(t, source).when_matched_update_all(),
                        lambda t: merge(t, source).when_matched_update(
                            set={"l": "transform(s.l, e -> named_struct('a', e.a))"})],
    }
    for name, builders in refused.items():
        for build in builders:
            with pytest.raises(SchemaMismatch) as raised:
                build(tables["spark"]).execute(engine="spark")
            assert raised.value.differences == [f"- {name}: long, missing from the value"]
    table = tables["spark"]
    with pytest.raises(SchemaMismatch, match=r"st\.c: long, missing from the value"):
        table.update({"st": "named_struct('a', 1L)"}, engine="spark")
    with pytest.raises(InvalidPredicate, match="does not take"):  # it would lose x
        table.update({"st": "named_struct('a', 1L, 'c', 2L, 'x', 3L)"}, engine="spark")
    assert table.version == 1
    both(tables, lambda t: merge(t, source).when_matched_update_all().when_not_matched_insert_all()
         .with_schema_evolution())
    assert sorted(str(row["st"]) for row in table.to_arrow().to_pylist()) == [
        "None", "{'a': 97, 'c': None}", "{'a': 98, 'c': None}", "{'a': 99, 'c': 5}", "{'a': None, 'c': 5}"]
    table.update({"st": "named_struct('C', 2L, 'a', 1L)"}, engine="spark")
    assert table.to_arrow()["st"].to_pylist() == [{"a": 1, "c": 2}] * 5


def test_the_table_gives_values_to_inserted_rows(tmp_path: Path) -> None:
    from deltanb.schema import columns as builders
    from deltanb.schema.types import PrimitiveType, StructField, StructType

    long = PrimitiveType("long")
    table = create(tmp_path / "t", StructType([
        StructField("id", long), StructField("v", long, metadata=builders.default("7")),
        StructField("number", long, metadata=builders.identity()),
        StructField("twice", long, metadata=builders.generated_as("v * 2"))]), properties={
            "delta.feature.allowColumnDefaults": "supported"})
    table.append({"id": [1, 2], "v": [10, 20]})
    result = (merge(table, {"id": [2, 3]}).when_matched_update(set={"v": "t.v + 1"})
              .when_not_matched_insert_all().execute(engine="spark"))
    assert result.metrics["numTargetRowsInserted"] == result.metrics["numTargetRowsCopied"] == 1
    stored = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["v"], row["twice"]) for row in stored] == [(1, 10, 20), (2, 21, 42), (3, 7, 14)]
    assert len({row["number"] for row in stored}) == 3


@pytest.mark.usefixtures("source_size")
def test_rows_that_match_and_stay(tmp_path: Path) -> None:
    """A row with a match that no clause takes stays, and its source's row is not inserted."""
    for properties in ({}, VECTORS):
        tables = twins(tmp_path / str(len(properties)), {"id": [1, 2, 3, 4], "v": [1, 1, 9, 9]}, 2,
                       properties=properties)
        source = {"id": [1, 3, 4, 7, 8], "v": [5, 5, 5, 5, 0]}
        metrics = both(tables, lambda t, source=source: merge(t, source).when_matched_update_all("t.v < 5")
                       .when_not_matched_insert_all("s.v > 0"))
        assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]) == (1, 1)
        for table in tables.values():
            with pytest.raises(MultipleSourceRowsMatched):
                merge(table, {"id": [3, 3], "v": [1, 2]}).when_matched_update_all("s.v = 1").execute(
                    engine="spark")


def test_conditions_that_only_spark_can_join(tmp_path: Path) -> None:
    table = create(tmp_path / "t", {"id": [1, 5, 9], "v": ["a", "b", "c"]})
    ranges = {"low": [0, 8], "high": [2, 10], "w": ["x", "y"]}
    result = table.merge(ranges, "id BETWEEN low AND high") \
        .when_matched_update(set={"v": "reverse(concat(v, w))"}).execute()
    assert result.engine == "spark"
    assert rows(table) == ["{'id': 1, 'v': 'xa'}", "{'id': 5, 'v': 'b'}", "{'id': 9, 'v': 'yc'}"]
    with pytest.raises(InvalidPredicate, match="Spark cannot evaluate"):
        table.merge(ranges, "no_such_function(id) = low").when_matched_delete().execute()


def test_frames_and_tables_as_sources(tmp_path: Path, spark: Any) -> None:
    table = create(tmp_path / "t", {"id": [1, 2], "v": ["a", "b"], "p": [0, 1]}, partition_by="p")
    frame = spark.createDataFrame([(2, "B", 1), (3, "N", 1)], "id long, v string, p long")
    result = merge(table, frame, "t.id = s.id AND t.p = s.p").when_matched_update_all() \
        .when_not_matched_insert_all().execute()
    assert (result.engine, result.metrics["numSourceRows"]) == ("spark", 2)
    assert result.metrics["numTargetFilesRemoved"] == 1
    merge(table, frame).when_matched_delete().execute(engine="arrow")
    assert rows(table) == ["{'id': 1, 'v': 'a', 'p': 0}"]
    other = create(tmp_path / "s", frame)
    assert merge(table, other).when_not_matched_insert_all().execute(engine="spark").version == 3
    assert len(rows(table)) == 3


def test_no_row_of_a_filtered_source_is_left_out(tmp_path: Path) -> None:
    table = create(tmp_path / "t", {"id": [0], "v": ["old"]})
    source = pa.table({"id": pa.chunked_array([[], [], [0, 1], [], [2]], pa.int64()), "v": ["new", "b", "c"]})
    (merge(table, source).when_matched_update_all().when_not_matched_insert_all().execute(engine="spark"))
    assert sorted(table.to_arrow().to_pylist(), key=str) == [
        {"id": 0, "v": "new"}, {"id": 1, "v": "b"}, {"id": 2, "v": "c"}]


def test_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    table = create(tmp_path / "t", {"id": [1, 2], "n": [1, 2]},
                   properties={"delta.constraints.small": "n < 100"})
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(ConstraintViolation):
        merge(table, {"id": [1, 9], "n": [5, 500]}).when_matched_update_all() \
            .when_not_matched_insert_all().execute(engine="spark")
    with pytest.raises(SchemaMismatch):
        merge(table, {"id": [1], "n": [1.5]}).when_matched_update_all().execute(engine="spark")
    nothing = merge(table, {"id": [1]}).when_matched_delete("t.n > 50") \
        .when_not_matched_insert("s.id > 1", values={"id": "s.id"})
    assert nothing.execute(engine="spark").version is None
    assert sorted(tmp_path.rglob("*.parquet")) == before and table.version == 0


def test_a_store_that_spark_cannot_reach(spark: Any) -> None:
    table = create(MemoryStore(), {"id": [1, 2], "v": ["a", "b"]}, properties={**VECTORS, **FEED})
    source = {"id": [2, 3], "v": ["B", "C"]}
    merge(table, source).when_matched_update_all().when_not_matched_insert_all().execute(engine="spark")
    assert rows(table) == ["{'id': 1, 'v': 'a'}", "{'id': 2, 'v': 'B'}", "{'id': 3, 'v': 'C'}"]
    assert any(isinstance(a, AddCDCFile) for a in table.log.read_commit(1))
