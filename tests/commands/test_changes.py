"""The change data feed: applied to the rows of one version, it gives the rows of another."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddCDCFile, decode_path
from deltanb.engines.arrow.deletion_vectors import inline
from deltanb.errors import (
    DataFileNotFound,
    IncompatibleSchemaChange,
    InvalidArgument,
    InvalidPredicate,
    InvalidSchema,
    MissingChangeData,
    TableNotFound,
    VersionNotFound,
)
from deltanb.options import options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.examples import few
from tests.shared_tables import expectations, names, path_of

FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {**FEED, "delta.columnMapping.mode": "name"}
VECTORS = {**FEED, "delta.enableDeletionVectors": "true"}
SIGNS = {"insert": 1, "update_postimage": 1, "update_post": 1,
         "delete": -1, "update_preimage": -1, "update_pre": -1}


def content(table: pa.Table) -> Counter[str]:
    """The rows as a multiset."""
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


def assert_reconstructs(table: DeltaTable, start: int, end: int) -> None:
    """The changes after ``start`` up to ``end``, applied to the rows at ``start``, give those at ``end``."""
    counts = content(table.as_of(start).to_arrow())
    feed = table.changes(start + 1, end)
    for row in feed.to_pylist():
        kind, version = row.pop("_change_type"), row.pop("_commit_version")
        assert start < version <= end
        row.pop("_commit_timestamp")
        text = json.dumps(row, default=str, sort_keys=True)
        counts[text] += SIGNS[kind]
    assert {text: n for text, n in counts.items() if n} == dict(content(table.as_of(end).to_arrow()))


def kinds(feed: pa.Table) -> dict[str, int]:
    """How many rows of each kind a version has, as ``version/kind``."""
    return dict(Counter(f"{row['_commit_version']}/{row['_change_type']}"
                        for row in feed.to_pylist()))


def feeding(properties: dict[str, str] = FEED, **more: Any) -> DeltaTable:
    return dn.create(MemoryStore(), {"id": [1, 2, 3], "p": ["a", "a", "b"]}, properties=properties,
                     **more)


# --- real tables ----------------------------------------------------------------------------------

WITH_FEED = names(meets=lambda expected: "cdf_delta_rs_from_0" in expected)
# First version with the feed, where it is not 0; and what the feed holds where delta-rs cannot read it.
STARTS = {"delta_rs_data__checkpoint-cdf-table": 3, "kernel_rs__cdf-column-mapping-id-mode": 1}
BY_HAND = {
    "delta_rs_data__checkpoint-cdf-table": {
        "3/delete": 1, "4/insert": 4, "5/update_preimage": 4, "5/update_postimage": 4},
    "kernel_rs__cdf-column-mapping-id-mode": {
        "2/update_preimage": 1, "2/update_postimage": 1, "3/insert": 1, "4/delete": 1},
    "kernel_rs__cdf-table-data-change": {"0/insert": 10},
    "kernel_rs__cdf-table-delete-conditional-two-rows": {"0/insert": 10, "1/delete": 2},
    "kernel_rs__cdf-table-simple": {"0/insert": 10, "1/delete": 10, "2/insert": 5},
    "kernel_rs__cdf-table-update-ops": {"0/insert": 10, "1/update_pre": 5, "2/update_post": 5},
}
LAST_WITH_FEED = {"kernel_rs__table-with-cdf": 1}
# Their change files say what their data files do not: they were put together to test one rule.
CONTRADICTS_ITSELF = {"kernel_rs__cdf-table-simple", "kernel_rs__cdf-table-update-ops",
                      "kernel_rs__table-with-cdf"}


def shared_table(name: str) -> tuple[DeltaTable, dict[str, Any]]:
    return dn.open(str(path_of(name))), expectations()[name]


@pytest.mark.shared
@pytest.mark.parametrize("name", WITH_FEED)
def test_a_real_table_has_the_changes_that_are_known_of_it(name: str) -> None:
    table, expected = shared_table(name)
    known = expected["cdf_delta_rs_from_0"]
    if name in LAST_WITH_FEED:
        with pytest.raises(MissingChangeData) as caught:
            table.changes(0)
        assert caught.value.version == LAST_WITH_FEED[name] + 1
        return
    assert kinds(table.changes(STARTS.get(name, 0))) == BY_HAND.get(name, known.get("counts"))


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in WITH_FEED if name not in CONTRADICTS_ITSELF])
def test_the_changes_of_a_real_table_rebuild_each_of_its_versions(name: str) -> None:
    table, expected = shared_table(name)
    first, last = STARTS.get(name, 0), expected["version"]
    for version in range(first, last):
        assert_reconstructs(table, version, version + 1)
    assert_reconstructs(table, first, last)


# --- histories at random --------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None])), max_size=4)
CONDITIONS = st.sampled_from(["id = 1", "id > 2", "p = 'a'", "p IS NULL AND id < 4", "id % 2 = 0"])
STEPS = st.lists(st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("replace"), st.sampled_from(["id = 1", "p = 'a'", "id > 3"])),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("bring back"), st.none()),
), min_size=1, max_size=5)


def run(table: DeltaTable, step: tuple[str, Any]) -> None:
    what, value = step
    if what == "delete":
        table.delete(value, engine="arrow")
    elif what == "update":
        table.update({"id": "id + 1", "p": "'a'"}, where=value, engine="arrow")
    elif what == "replace":
        table.overwrite({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())}, where=value)
    elif what == "bring back":
        come_back(table)
    elif value or what == "overwrite":
        table_of = pa.table({"id": pa.array([i for i, _ in value], pa.int64()),
                             "p": pa.array([p for _, p in value], pa.string())})
        getattr(table, what)(table_of)


def come_back(table: DeltaTable) -> None:
    """Files with deleted rows get them all back, as RESTORE does it."""
    txn = table.start_transaction()
    marked = [file for file in txn.filter_files() if file.deletion_vector is not None]
    whole = [file.replace(deletion_vector=None) for file in marked]
    if marked:
        txn.commit([*(file.remove() for file in marked), *whole], "RESTORE")


@settings(few, suppress_health_check=list(HealthCheck))
@given(first=ROWS.filter(bool), steps=STEPS, properties=st.sampled_from([
    FEED, VECTORS, MAPPED, {**MAPPED, **VECTORS, "delta.columnMapping.mode": "id"}]),
    partitioned=st.booleans())
def test_the_changes_of_any_history_rebuild_its_versions(
    first: list[tuple[int, str | None]], steps: list[tuple[str, Any]], properties: dict[str, str],
    partitioned: bool,
) -> None:
    rows = pa.table({"id": [i for i, _ in first],
                     "p": pa.array([p for _, p in first], pa.string())})
    table = dn.create(MemoryStore(), rows, properties=properties,
                      partition_by=["p"] if partitioned else [])
    for step in steps:
        run(table, step)
    for start in range(table.version):
        assert_reconstructs(table, start, table.version)
        assert_reconstructs(table, start, start + 1)


# --- what a commit says ---------------------------------------------------------------------------

def test_change_files_alone_tell_of_their_commit() -> None:
    table = feeding()
    table.overwrite({"id": [1, 9], "p": ["a", "a"]}, where="id < 2 OR id > 8")
    commit = table.log.read_commit(1)
    assert any(isinstance(a, AddCDCFile) for a in commit)
    assert kinds(table.changes(1)) == {"1/delete": 1, "1/insert": 2}


def test_a_partition_that_goes_by_the_log_alone_is_deleted_row_by_row() -> None:
    table = feeding(partition_by="p")
    table.delete("p = 'a'")
    feed = table.changes(1).to_pylist()
    assert [(row["id"], row["p"], row["_change_type"]) for row in feed] == [
        (1, "a", "delete"), (2, "a", "delete")]


def test_the_difference_of_two_deletion_vectors_is_what_came_and_went() -> None:
    table = feeding(VECTORS)
    file = table.start_transaction().filter_files()[0]
    first = file.with_deletion_vector(inline(BitMap64([0, 1])))
    second = file.with_deletion_vector(inline(BitMap64([1, 2])))
    for actions in ([file.remove(), first], [first.remove(), second]):
        table.start_transaction().commit(actions, "DELETE")
    changes = [(r["id"], r["_change_type"], r["_commit_version"]) for r in table.changes(1).to_pylist()]
    assert changes == [(1, "delete", 1), (2, "delete", 1), (3, "delete", 2), (1, "insert", 2)]


def test_files_that_only_moved_changed_no_row() -> None:
    table = feeding()
    txn = table.start_transaction()
    old = txn.filter_files()[0]
    new = txn.write_files(table.to_arrow(), data_change=False)
    txn.commit([old.remove(data_change=False), *new], "OPTIMIZE")
    assert table.changes(1).num_rows == 0


def test_a_merge_that_changed_no_row_has_no_changes() -> None:
    table = feeding()
    txn = table.start_transaction()
    old = txn.filter_files()[0]
    new = txn.write_files(table.to_arrow())
    metrics = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
    txn.commit([old.remove(), *new], dn.Operation("MERGE", metrics=metrics))
    assert table.changes(1).num_rows == 0


def test_a_removal_that_leaves_out_its_partition_is_looked_up() -> None:
    table = feeding(partition_by="p")
    file = table.start_transaction().filter_files("p = 'b'")[0]
    TableBuilder(table.log.store, 0).commit(remove(file.path))
    assert [(r["id"], r["p"]) for r in table.changes(1).to_pylist()] == [(3, "b")]


def test_the_path_of_a_change_file_is_decoded_once() -> None:
    store = MemoryStore()
    table = TableBuilder(store).create("id long", properties=FEED,
                                       protocol={"minReaderVersion": 1, "minWriterVersion": 4})
    with store.open_output("a%20b c") as file:
        pq.write_table(pa.table({"id": [7]}), file)
    table.commit(add("a%2520b%20c"))
    assert dn.open(store).changes(1)["id"].to_pylist() == [7]


# --- columns, conditions, types -------------------------------------------------------------------

def test_the_result_has_the_columns_and_those_of_the_feed() -> None:
    feed = feeding().changes(0)
    assert feed.schema.names == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]
    assert feed.schema.types[2:] == [pa.string(), pa.int64(), pa.timestamp("us", "UTC")]


def test_columns_are_chosen_and_ordered() -> None:
    feed = feeding().changes(0, columns=["_commit_version", "P"])
    assert feed.schema.names == ["_commit_version", "p", "_change_type", "_commit_timestamp"]
    with pytest.raises(InvalidArgument, match="no column 'q'"):
        feeding().changes(0, columns=["q"])


@pytest.mark.parametrize("properties", [FEED, MAPPED])
@pytest.mark.parametrize("where, left", [
    ("id > 1", [("delete", 3), ("insert", 2), ("insert", 3)]),
    ("_change_type = 'delete'", [("delete", 3)]),
    ("_commit_version = 0 AND p = 'a'", [("insert", 1), ("insert", 2)]),
    ("p = 'b' AND _commit_timestamp >= TIMESTAMP'1970-01-01 00:00:00'",
     [("delete", 3), ("insert", 3)]),
])
def test_a_condition_may_be_on_any_column(
    properties: dict[str, str], where: str, left: list[tuple[str, int]]
) -> None:
    table = feeding(properties, partition_by="p")
    table.delete("id = 3")
    feed = table.changes(0, columns=["id"], where=where)
    assert sorted((r["_change_type"], r["id"]) for r in feed.to_pylist()) == left


def test_files_that_a_condition_excludes_are_not_opened() -> None:
    table = feeding(partition_by="p")
    gone = [decode_path(f.path) for f in table.start_transaction().filter_files("p = 'a'")]
    table.append({"id": [4], "p": ["b"]})
    for name in gone:
        table.log.store.delete(name)
    assert table.changes(0, where="p = 'b'").num_rows == 2
    assert table.changes(0, where="_commit_version = 1").num_rows == 1
    with pytest.raises(InvalidPredicate, match="no column 'q'"):
        table.changes(0, where="q = 1")


# --- the range ------------------------------------------------------------------------------------

MINUTE = 60_000


@pytest.fixture(params=[False, True], ids=["file times", "in-commit timestamps"])
def timed(request: pytest.FixtureRequest) -> DeltaTable:
    """Versions 0, 1, 2 at 1, 2 and 3 minutes of the epoch."""
    minute = [MINUTE]
    options.clock = lambda: minute[0]
    extra = {"delta.enableInCommitTimestamps": "true"} if request.param else {}
    table = feeding({**FEED, **extra})
    for number in (4, 5):
        minute[0] += MINUTE
        table.append({"id": [number], "p": ["c"]})
    return table


def at(seconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("start, end, versions", [
    (at(60), at(180), [0, 1, 2]),
    (at(61), at(179), [1]),
    ("1970-01-01T00:02:00Z", None, [1, 2]),
    (at(0), at(500), [0, 1, 2]),
    (1, "1970-01-01 00:02:30", [1]),
    (at(121), at(122), []),
    (2, 2, [2]),
])
def test_a_range_of_versions_or_times(
    timed: DeltaTable, start: Any, end: Any, versions: list[int]
) -> None:
    feed = timed.changes(start, end)
    assert sorted(set(feed["_commit_version"].to_pylist())) == versions
    for row in feed.to_pylist():
        assert row["_commit_timestamp"] == at(60 * (1 + row["_commit_version"]))


def test_a_range_outside_the_table_names_what_there_is(timed: DeltaTable) -> None:
    for start, end in [(3, None), (0, 3), (-1, None), (at(181), None), (at(0), at(59))]:
        with pytest.raises(VersionNotFound, match=r"(?s)0.*2") as caught:
            timed.changes(start, end)
        assert (caught.value.earliest, caught.value.latest) == (0, 2)


@pytest.mark.parametrize("start, end", [(2, 1), (True, None), (1.5, None)])
def test_a_range_that_makes_no_sense_is_refused(timed: DeltaTable, start: Any, end: Any) -> None:
    with pytest.raises(InvalidArgument):
        timed.changes(start, end)


def test_a_table_of_the_past_knows_no_later_changes(timed: DeltaTable) -> None:
    past = timed.as_of(1)
    assert set(past.changes(0)["_commit_version"].to_pylist()) == {0, 1}
    assert set(past.changes(0, at(500))["_commit_version"].to_pylist()) == {0, 1}
    with pytest.raises(VersionNotFound):
        past.changes(0, 2)


def test_commits_that_were_cleaned_up_are_outside() -> None:
    table = feeding()
    table.append({"id": [4], "p": ["c"]})
    table.log.checkpoint()
    table.append({"id": [5], "p": ["c"]})
    TableBuilder(table.log.store).delete(0)
    with pytest.raises(VersionNotFound) as caught:
        dn.open(table.log.store).changes(0)
    assert (caught.value.earliest, caught.value.latest) == (1, 2)
    assert dn.open(table.log.store).changes(1)["id"].to_pylist() == [4, 5]


def test_without_a_start_it_begins_where_the_feed_does() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    table.append({"id": [2]})
    with pytest.raises(MissingChangeData, match="no changes at version 1"):
        table.changes()
    table.set_properties(FEED)
    table.append({"id": [3]})
    table.set_properties({"owner": "ada"})  # metadata that leaves the feed on
    table.append({"id": [4]})
    assert table.changes()["id"].to_pylist() == [3, 4]
    assert table.changes(end=3)["id"].to_pylist() == [3]
    table.set_properties({"delta.enableChangeDataFeed": "false"})
    with pytest.raises(MissingChangeData, match=f"no changes at version {table.version}"):
        table.changes()
    table.set_properties(FEED)
    table.append({"id": [5]})
    assert table.changes()["id"].to_pylist() == [5], "what lies before the gap is asked for by its versions"
    assert table.changes(end=5)["id"].to_pylist() == [3, 4]
    with pytest.raises(VersionNotFound):
        table.changes(end=99)


def test_without_a_start_it_begins_where_the_log_does() -> None:
    table = feeding()
    for number in (4, 5):
        table.append({"id": [number], "p": ["c"]})
    assert sorted(table.changes()["_commit_version"].unique().to_pylist()) == [0, 1, 2]
    table.log.checkpoint()
    for version in (0, 1):
        table.log.store.delete(f"_delta_log/{version:020}.json")
    assert dn.open(table.log.store).changes()["id"].to_pylist() == [5]


def test_no_table_no_changes() -> None:
    from deltanb.commands.read.changes import changes
    from deltanb.transaction.delta_log import DeltaLog

    with pytest.raises(TableNotFound):
        changes(DeltaLog.for_table(MemoryStore()), 0)


# --- what cannot be told --------------------------------------------------------------------------

def test_the_feed_must_be_on_in_the_whole_range() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    for value in ("true", "false"):
        txn = table.start_transaction()
        configuration = {"delta.enableChangeDataFeed": value}
        txn.update_metadata(txn.metadata.replace(configuration=configuration))
        txn.commit([], "SET TBLPROPERTIES")
        table.append({"id": [2]})
    assert kinds(table.changes(1, 2)) == {"2/insert": 1}
    for start, end, version in [(0, 2, 0), (1, 4, 3), (4, 4, 4)]:
        with pytest.raises(MissingChangeData, match=f"at version {version}") as caught:
            table.changes(start, end)
        assert caught.value.version == version


def test_files_that_were_vacuumed_are_named_with_their_version() -> None:
    table = feeding()
    table.overwrite({"id": [9], "p": ["z"]}, where="id = 9 OR id = 1")
    change = next(a for a in table.log.read_commit(1) if isinstance(a, AddCDCFile))
    table.log.store.delete(decode_path(change.path))
    assert table.changes(0, 0).num_rows == 3
    with pytest.raises(DataFileNotFound, match="version 1.*VACUUM") as caught:
        table.changes(0)
    assert caught.value.version == 1


def test_a_column_named_like_one_of_the_feed_is_refused() -> None:
    broken = TableBuilder().create("_commit_version long", properties=FEED)
    with pytest.raises(InvalidSchema, match="_commit_version"):
        dn.open(broken.store).changes(0)


# --- schemas that change --------------------------------------------------------------------------

def test_columns_that_are_new_are_null_before() -> None:
    table = feeding()
    table.append({"id": [4], "p": ["c"], "new": [1.5]}, merge_schema=True)
    assert table.changes(0)["new"].to_pylist() == [None, None, None, 1.5]
    assert "new" not in table.changes(0, 0).schema.names


def test_a_type_that_was_widened_is_shown_wide() -> None:
    table = dn.create(MemoryStore(), {"n": pa.array([1], pa.int16())}, properties={
        **FEED, "delta.enableTypeWidening": "true"})
    table.append({"n": pa.array([70_000], pa.int32())}, merge_schema=True)
    assert table.changes(0)["n"].to_pylist() == [1, 70_000]
    assert table.changes(0)["n"].type == pa.int32()


@pytest.mark.parametrize("data, line", [
    ({"id": [1]}, "- p: string, dropped since"),
    ({"id": ["x"], "p": ["a"]}, "~ id: long, since then string"),
    ({"ID": [1], "p": [1]}, "~ p: string, since then long"),
])
def test_a_schema_that_was_replaced_is_refused_by_name(data: Any, line: str) -> None:
    table = feeding()
    table.overwrite(data, overwrite_schema=True)
    for start in (0, 1):  # the first commit of a range may remove rows of the schema before it
        with pytest.raises(IncompatibleSchemaChange) as caught:
            table.changes(start)
        assert (caught.value.version, caught.value.differences) == (0, [line])
    assert table.changes(0, 0).num_rows == 3
    table.append(data)
    assert kinds(table.changes(2)) == {"2/insert": 1}


def test_a_partitioning_that_was_replaced_is_refused_by_name() -> None:
    table = feeding()
    table.overwrite({"id": [1], "p": ["a"]}, overwrite_schema=True, partition_by=["p"])
    with pytest.raises(IncompatibleSchemaChange, match="partitioned by"):
        table.changes(0)


def renamed(table: DeltaTable, old: str, new: str) -> None:
    txn = table.start_transaction()
    schema = txn.metadata.schema
    fields = [f.replace(name=new) if f.name == old else f for f in schema.fields]
    txn.update_metadata(txn.metadata.replace(schema_string=type(schema)(fields).to_json()))
    txn.commit([], "RENAME COLUMN")


def test_a_column_that_was_renamed_is_refused_unless_it_is_left_out() -> None:
    table = feeding(MAPPED)
    renamed(table, "p", "q")
    table.append({"id": [4], "q": ["c"]})
    with pytest.raises(IncompatibleSchemaChange, match="p: renamed to 'q' since"):
        table.changes(0)
    assert table.changes(0, columns=["id"])["id"].to_pylist() == [1, 2, 3, 4]
    assert table.changes(1)["q"].to_pylist() == ["c"]
    assert table.changes(0, 0)["p"].to_pylist() == ["a", "a", "b"]


def test_columns_that_are_mapped_later_are_found_before() -> None:
    table = feeding()
    txn = table.start_transaction()
    from deltanb.schema.column_mapping import assign

    schema, last = assign(txn.metadata.schema, keep_names=True)
    txn.update_metadata(txn.metadata.replace(schema_string=schema.to_json(), configuration={
        **MAPPED, "delta.columnMapping.maxColumnId": str(last)}))
    txn.commit([], "SET TBLPROPERTIES")
    table.append({"id": [4], "p": ["c"]})
    assert table.changes(0)["id"].to_pylist() == [1, 2, 3, 4]


# --- Spark ----------------------------------------------------------------------------------------

@pytest.mark.spark
def test_spark_has_the_same_changes(tmp_path: Path, spark: Any) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3]}, properties=FEED)
    table.overwrite({"id": [9]}, where="id = 9 OR id = 1")
    expected = table.changes(1).to_pylist()
    spark_rows = [row.asDict() for row in table.changes_df(1, spark=spark).collect()]
    for row in [*expected, *spark_rows]:
        row["_commit_timestamp"] = str(row["_commit_timestamp"])[:19]
    assert sorted(map(str, spark_rows)) == sorted(map(str, expected))
