"""What differs between two versions: rows checked against a plain multiset difference, and the log's part."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import DeltaError, InvalidArgument, VersionNotFound
from deltanb.log.diff import TableDiff, compare
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.reads import FileScan
from tests.examples import few
from tests.shared_tables import expectations, names, path_of

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def bag(rows: pa.Table) -> Counter[str]:
    """Rows as a multiset, without Arrow's help: NaN is NaN, -0.0 is 0.0."""
    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value + 0.0
        return value

    return Counter(repr({k: plain(v) for k, v in row.items()}) for row in rows.to_pylist())


def assert_is_the_difference(table: Any, diff: TableDiff) -> None:
    """What came is what the bag of rows after has more than that before, to the row, and the reverse."""
    before, after = (bag(table.as_of(v).to_arrow()) for v in (diff.start, diff.end))
    rows = diff.rows
    assert rows is not None
    assert rows.is_exact
    assert bag(rows.added) + bag(rows.after) == after - before
    assert bag(rows.removed) + bag(rows.before) == before - after
    assert (rows.num_added, rows.num_removed, rows.num_changed) == (
        rows.added.num_rows, rows.removed.num_rows, rows.after.num_rows)


# -- rows ----------------------------------------------------------------------------------------

VALUES = st.sampled_from([0.0, -0.0, 1.5, math.nan, None])
ROWS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["a", "b", None]), VALUES), min_size=1,
                max_size=5)
CONDITIONS = st.sampled_from(["id < 3", "id = 4", "name = 'a'", "name IS NULL", "v > 1", "id > 9"])
STEPS = st.lists(st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS, st.sampled_from(["name", "v"])),
    st.tuples(st.just("merge"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("optimize")),
), min_size=1, max_size=6)


def batch(rows: list[tuple[int, str | None, float | None]]) -> pa.Table:
    ids, names, values = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string()),
                     "v": pa.array(values, pa.float64())})


def apply(table: Any, step: tuple[Any, ...]) -> None:
    match step:
        case ("append", rows):
            table.append(batch(rows))
        case ("overwrite", rows):
            table.overwrite(batch(rows))
        case ("delete", where):
            table.delete(where)
        case ("update", where, column):
            table.update({column: {"name": "'z'", "v": "v + 1"}[column]}, where=where)
        case ("merge", rows):
            source = batch(list({row[0]: row for row in rows}.values()))
            (table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
                .when_matched_update_all().when_not_matched_insert_all().execute())
        case ("optimize",):
            table.optimize()


@pytest.mark.slow
@settings(few, suppress_health_check=list(HealthCheck))
@given(first=ROWS, steps=STEPS, parts=st.sampled_from([[], ["name"]]),
       properties=st.sampled_from([{}, VECTORS, TRACKED, {**VECTORS, **TRACKED}]), data=st.data())
def test_rows_are_the_multiset_difference_of_both_versions(
    first: Any, steps: Any, parts: Any, properties: dict[str, str], data: Any
) -> None:
    table = dn.create(MemoryStore(), batch(first), partition_by=parts, properties=properties)
    for step in steps:
        apply(table, step)
    versions = st.integers(0, table.version)
    one, two = data.draw(versions), data.draw(versions)
    assert_is_the_difference(table, table.diff(one, two, keys=data.draw(st.sampled_from([None, ()]))))


@pytest.mark.parametrize("properties", [{}, VECTORS, TRACKED, {**VECTORS, **TRACKED}], ids=str)
def test_an_update_is_a_change_and_not_a_removal_and_an_addition(properties: dict[str, str]) -> None:
    table = ducks(properties)
    table.update({"name": "'Daisy'"}, where="id = 1")
    rows = table.diff(0).rows
    assert (rows.num_added, rows.num_removed, rows.num_changed) == (0, 0, 1)
    assert rows.before.to_pylist() == [{"id": 1, "name": "Donald"}]
    assert rows.after.to_pylist() == [{"id": 1, "name": "Daisy"}]
    by_id = "delta.enableRowTracking" in properties
    assert (rows.matched_by, rows.key) == (("row ids", ()) if by_id else ("inferred", ("id",)))


def ducks(properties: dict[str, str] | None = None) -> Any:
    return dn.create(MemoryStore(), {"id": [1, 2, 3], "name": ["Donald", "Scrooge", "Huey"]},
                     properties=properties or {})


def test_rows_that_kept_their_id_are_matched_by_it() -> None:
    """As Delta Spark updates rows: the new file says which id each row has."""
    table = dn.create(MemoryStore(), {"n": [7, 7, 5], "s": ["x", "x", "x"]}, properties=TRACKED)
    (old,) = FileScan(table.snapshot.files)
    name = table.properties["delta.rowTracking.materializedRowIdColumnName"]
    rows = pa.table({"n": [7, 8, 6], "s": ["x", "x", "x"], name: [1, 0, None]})
    with table.log.store.open_output("kept") as file:
        pq.write_table(rows, file)
    moved = AddFile("kept", {}, 1, 1, True, stats='{"numRecords": 3}')
    table.start_transaction().commit([old.remove(), moved], dn.Operation("UPDATE"))
    rows = table.diff(0).rows
    assert rows.matched_by == "row ids"
    assert rows.before.to_pylist() == [{"n": 7, "s": "x"}]
    assert rows.after.to_pylist() == [{"n": 8, "s": "x"}]
    assert (rows.added["n"].to_pylist(), rows.removed["n"].to_pylist()) == ([6], [5])
    assert_is_the_difference(table, table.diff(0))


def test_without_a_unique_column_rows_are_added_and_removed() -> None:
    table = dn.create(MemoryStore(), {"n": [1, 1, 2], "s": ["a", "a", "a"]})
    table.overwrite({"n": [1, 3, 3], "s": ["a", "a", "a"]})
    rows = table.diff(0).rows
    assert rows.matched_by == "nothing"
    assert sorted(rows.added["n"].to_pylist()) == [3, 3]
    assert sorted(rows.removed["n"].to_pylist()) == [1, 2]


def test_a_column_that_is_called_an_id_is_tried_before_others() -> None:
    table = dn.create(MemoryStore(), {"name": ["a", "b"], "duck_id": [1, 2]})
    table.overwrite({"name": ["b", "a"], "duck_id": [1, 2]})
    assert table.diff(0).rows.key == ("duck_id",)


def test_rows_that_share_no_id_are_said_to_be_other_rows() -> None:
    table = ducks()
    table.delete("id = 1")
    table.append({"id": [9], "name": ["Donald"]})
    rows = table.diff(0).rows
    assert (rows.key, rows.num_changed, rows.num_added, rows.num_removed) == (("id",), 0, 1, 1)


def test_keys_are_asked_to_tell_rows_apart() -> None:
    table = dn.create(MemoryStore(), {"a": [1, 1], "b": [1, 2], "v": [1, 1]})
    table.update({"v": "5"}, where="b = 2")
    rows = table.diff(0, keys=["a", "B"]).rows
    assert (rows.key, rows.num_changed) == (("a", "b"), 1)
    with pytest.raises(InvalidArgument, match=r"keys=\['a'\] do not tell the rows of version 0 apart: 2 "
                                              r"have a=1"):
        table.diff(0, keys="a")
    with pytest.raises(InvalidArgument, match="has no column 'c'; the columns are a, b, v"):
        table.diff(0, keys="c")


def test_null_is_no_key() -> None:
    table = dn.create(MemoryStore(), {"id": [None, 1], "v": [1, 1]})
    table.overwrite({"id": [None, 1], "v": [2, 2]})
    rows = table.diff(0, keys="id").rows
    assert (rows.num_changed, rows.num_added, rows.num_removed) == (1, 1, 1)


def test_rows_that_only_moved_are_no_difference() -> None:
    table = ducks()
    table.append({"id": [4], "name": ["Dewey"]})
    table.optimize()
    diff = table.diff(1)
    assert diff.files.removed.num_rows == 2
    assert (diff.rows.num_added, diff.rows.num_removed, diff.rows.num_changed) == (0, 0, 0)


def test_the_feed_tells_the_same_rows() -> None:
    table = ducks({"delta.enableChangeDataFeed": "true"})
    table.update({"name": "upper(name)"}, where="id < 3")
    table.delete("id = 3")
    table.append({"id": [9], "name": ["Gladstone"]})
    feed = table.changes(1).to_pylist()
    rows = table.diff(0, keys="id").rows
    by_kind = {"insert": rows.added, "delete": rows.removed, "update_preimage": rows.before,
               "update_postimage": rows.after}
    for kind, changed in by_kind.items():
        feed_rows = [(row["id"], row["name"]) for row in feed if row["_change_type"] == kind]
        assert sorted(feed_rows) == sorted((row["id"], row["name"]) for row in changed.to_pylist()), kind


def test_nested_values_are_compared_as_people_see_them() -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.float64()))])
    one = [{"m": [("a", 1), ("b", 2)], "l": [1.0, math.nan]}, None]
    two = [{"m": [("b", 2), ("a", 1)], "l": [1.0, math.nan]}, {"m": [], "l": None}]
    table = dn.create(MemoryStore(), pa.table({"id": [1, 2], "x": pa.array(one, kind)}))
    table.overwrite(pa.table({"id": [1, 2], "x": pa.array(two, kind)}))
    rows = table.diff(0).rows
    assert (rows.num_changed, rows.after["id"].to_pylist()) == (1, [2])


# -- which files are read ------------------------------------------------------------------------


def test_only_files_that_differ_are_read(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    (first,) = table.as_of(0).snapshot.files["path"].to_pylist()
    (tmp_path / "t" / first).unlink()
    assert table.diff(0).rows.added["id"].to_pylist() == [2]


def test_of_a_file_with_another_vector_only_the_rows_between_are_compared() -> None:
    table = dn.create(MemoryStore(), {"id": list(range(100))}, properties=VECTORS)
    table.delete("id < 10")
    table.delete("id = 50")
    diff = table.diff(1, 2, max_rows=1)
    assert (diff.files.remasked_after.num_rows, diff.files.num_same) == (1, 0)
    assert diff.rows.removed["id"].to_pylist() == [50]
    assert table.diff(2, 0).rows.num_added == 11


def test_beyond_the_bound_the_log_counts() -> None:
    table = dn.create(MemoryStore(), {"id": list(range(50))})
    table.append({"id": list(range(50, 90))})
    rows = table.diff(0, max_rows=39).rows
    assert (rows.is_exact, rows.num_added, rows.added.num_rows) == (True, 40, 40)
    assert "max_rows=39" in rows.note
    table.update({"id": "id + 1000"}, where="id = 3")
    rows = table.diff(0, max_rows=10).rows
    assert (rows.is_exact, rows.num_added, rows.num_removed, rows.added.num_rows) == (False, 90, 50, 0)


def test_vacuumed_rows_are_said_to_be_unknown(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.overwrite({"id": [2]})
    table.vacuum(0, check=False)
    diff = table.diff(0, 1)
    assert not diff.rows.is_exact
    assert "which does not exist" in diff.rows.note
    assert (diff.rows.num_added, diff.rows.num_removed) == (1, 1)


# -- versions ------------------------------------------------------------------------------------


def test_moments_are_versions_times_and_tables() -> None:
    table = ducks()
    table.append({"id": [4], "name": ["Dewey"]})
    times = [entry.time for entry in table.history()]
    for start, end in [(0, 1), (table.as_of(0), table.as_of(1)), (0, None), (times[1], times[0]),
                       (times[1].isoformat(), 1), (table.as_of(0).snapshot, None)]:
        diff = table.diff(start, end)
        assert (diff.start, diff.end, diff.rows.num_added) == (0, 1, 1)
    assert table.as_of(0).diff(0).end == 0
    with pytest.raises(VersionNotFound):
        table.diff(0, 7)
    with pytest.raises(InvalidArgument, match="diff takes versions"):
        table.diff(True)
    with pytest.raises(InvalidArgument, match="max_rows"):
        table.diff(0, max_rows=-1)
    with pytest.raises(InvalidArgument, match="keys=3 is neither a column's name nor a list"):
        table.diff(0, keys=3)


def test_backwards_is_the_reverse() -> None:
    table = ducks()
    table.delete("id = 1")
    table.update({"name": "'x'"}, where="id = 2")
    forth, back = table.diff(0, 2), table.diff(2, 0)
    assert bag(forth.rows.removed) == bag(back.rows.added)
    assert bag(forth.rows.before) == bag(back.rows.after)
    assert forth.num_commits == back.num_commits == 2
    assert [c.version for c in back.commits] == [2, 1]


def test_snapshots_are_subtracted_without_reading_rows(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    table.append({"id": [3]})
    for path in (tmp_path / "t").glob("*.parquet"):
        path.unlink()
    diff = table.snapshot - table.as_of(0).snapshot
    assert (diff.start, diff.end, diff.rows, diff.files.row_change) == (0, 1, None, 1)
    with pytest.raises(InvalidArgument, match="versions of two tables"):
        compare(ducks().snapshot, table.snapshot)
    with pytest.raises(TypeError):
        _ = table.snapshot - 1


# -- schema, properties, protocol ----------------------------------------------------------------


def changes(schema_changes: Any) -> list[tuple[str, str, str | None, str | None]]:
    return [(c.name, c.kind, c.before, c.after) for c in schema_changes]


def test_fields_are_followed_through_renames() -> None:
    table = dn.create(MemoryStore(), "id long, name string, a struct<x: int, y: int>, z int",
                      properties={"delta.columnMapping.mode": "name"})
    table.append({"id": [1], "name": ["n"], "a": [{"x": 1, "y": 2}], "z": [1]})
    table.rename_column("name", "title")
    table.rename_column(["a", "x"], "u")
    table.drop_columns("z")
    table.add_columns("note string")
    diff = table.diff(1)
    assert changes(diff.schema) == [
        ("name", "renamed", "name", "title"), ("a.x", "renamed", "x", "u"),
        ("note", "added", None, "string"), ("z", "removed", "integer", None)]
    table.update({"note": "'!'"})
    rows = table.diff(1, keys="id").rows
    assert rows.before.to_pylist() == [{"id": 1, "title": "n", "a": {"u": 1, "y": 2}, "note": None}]
    assert rows.after["note"].to_pylist() == ["!"]
    with pytest.raises(InvalidArgument):
        table.diff(1, keys="name")


def test_type_nullability_comment_partitioning_and_order() -> None:
    table = dn.create(MemoryStore(), "n int not null, s string", properties={
        "delta.enableTypeWidening": "true"})
    table.append({"n": [1], "s": ["a"]})
    table.change_column("n", type="long")
    table.change_column("n", nullable=True)
    table.change_column("s", comment="a letter")
    table.change_column("s", position="first")
    table.update({"s": "'b'"})
    diff = table.diff(1)
    assert changes(diff.schema) == [
        ("s", "comment", None, "a letter"), ("n", "type", "integer", "long"),
        ("n", "nullability", "not null", "nullable"), ("order of the columns", "order", "n, s", "s, n")]
    assert diff.rows.before.to_pylist() == [{"s": "a", "n": 1}]
    table.overwrite({"s": ["b"], "n": [1]}, overwrite_schema=True, partition_by=["s"])
    again = table.diff(1)
    assert ("partitioned by", "added", None, "s") in changes(again.schema)


def test_values_of_another_type_are_not_compared_and_named() -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "x": ["a", "b"]})
    table.overwrite({"id": [1, 3], "x": [[1], [2]]}, overwrite_schema=True)
    rows = table.diff(0).rows
    assert rows.not_compared == ("x",)
    assert (rows.num_added, rows.num_removed, rows.num_changed) == (1, 1, 0)
    with pytest.raises(InvalidArgument, match="cannot be compared"):
        table.diff(0, keys="x")


def test_properties_protocol_and_domains() -> None:
    table = ducks({"delta.appendOnly": "false"})
    table.set_properties({"delta.enableDeletionVectors": "true", "delta.appendOnly": "true"})
    table.set_description("ducks of Duckburg")
    diff = table.diff(0)
    assert changes(diff.properties) == [
        ("table description", "added", None, "ducks of Duckburg"),
        ("delta.appendOnly", "changed", "false", "true"),
        ("delta.enableDeletionVectors", "added", None, "true")]
    assert changes(diff.protocol)[:2] == [
        ("reader version", "changed", "1", "3"), ("writer version", "changed", "2", "7")]
    assert ("deletionVectors", "added", None, "feature") in changes(diff.protocol)
    assert diff.files.is_empty
    assert diff.rows.num_added == 0


def test_a_damaged_newest_commit_does_not_keep_older_versions_from_being_compared(
    tmp_path: Path,
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]}, properties={"delta.enableInCommitTimestamps": "true"})
    table.append({"id": [2]})
    table.append({"id": [3]})
    DeltaLog.clear_cache()
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_text("{nonsense")
    old = dn.open(tmp_path / "t", version=0)
    assert old.diff(0, 1).rows.added["id"].to_pylist() == [2]


# -- real tables ---------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows", "log_only"))
def test_first_and_last_version_of_a_real_table(name: str) -> None:
    log = DeltaLog.for_table(str(path_of(name)))
    last, first = log.snapshot, None
    for version in range(log.earliest_version(), last.version + 1):
        try:
            first = log.snapshot_at(version)
            break
        except DeltaError:
            continue
    assert first is not None
    table = dn.DeltaTable(log)
    diff = table.diff(first, last)
    assert len(str(diff).split("\n")) <= 12
    assert "cannot be shown" not in str(diff)
    is_comparable = diff.rows.is_exact and not diff.rows.not_compared and not diff.schema
    if expectations()[name]["outcome"] == "rows" and is_comparable:
        assert_is_the_difference(table, diff)
