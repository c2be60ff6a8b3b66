"""Several statements on a table, one commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, ScriptedStore

ROWS = {"day": [1, 1, 2], "n": [1, 2, 3]}


def orders(path: Any, **properties: Any) -> DeltaTable:
    return dn.create(path, ROWS, partition_by="day", properties=properties)


def rows(table: DeltaTable) -> list[tuple[int, int]]:
    data = table.to_arrow(columns=["day", "n"])
    return sorted(zip(data["day"].to_pylist(), data["n"].to_pylist(), strict=True))


def data_files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.suffix in (".parquet", ".bin")}


def named(table: DeltaTable, versions: range) -> set[str]:
    """The data files that some of the versions name."""
    paths: set[str] = set()
    for version in versions:
        paths |= {action.path for action in table.log.read_commit(version) if hasattr(action, "path")}
    return paths


KINDS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": True},
    "row tracking": {"delta.enableRowTracking": True},
    "feed": {"delta.enableChangeDataFeed": True},
    "feed and vectors": {"delta.enableChangeDataFeed": True, "delta.enableDeletionVectors": True},
    "mapping": {"delta.columnMapping.mode": "name"},
    "timestamps": {"delta.enableInCommitTimestamps": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_statements_see_each_other_and_are_one_version(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path / "t", **KINDS[kind])
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        assert rows(txn) == [(1, 1), (1, 2), (2, 3), (3, 4)]
        txn.update({"n": "n + 10"}, where="n >= 2")
        txn.delete("n = 13")
        (txn.merge({"day": [1, 4], "n": [1, 5]}, "target.day = source.day AND target.n = source.n")
            .when_matched_delete().when_not_matched_insert_all().execute())
        assert rows(txn) == [(1, 12), (3, 14), (4, 5)]
        assert (rows(table), table.version) == ([(1, 1), (1, 2), (2, 3)], 0)
    assert rows(table) == [(1, 12), (3, 14), (4, 5)]
    assert (table.version, txn.version, txn.committed) == (1, 1, 1)
    again = dn.open(str(tmp_path / "t"))
    dn.DeltaLog.clear_cache()
    assert rows(dn.open(str(tmp_path / "t"))) == rows(again)
    if kind not in ("mapping", "row tracking"):
        import deltalake

        read = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table() if "vectors" not in kind else None
        assert read is None or sorted(zip(read["day"].to_pylist(), read["n"].to_pylist(), strict=True)) == [
            (1, 12), (3, 14), (4, 5)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_left_that_no_version_names(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path / "t", **KINDS[kind])
    with table.transaction() as txn:
        txn.append({"day": [3, 3], "n": [4, 5]})
        txn.delete("n = 4")
        txn.delete("n = 5")
        txn.update({"n": "0"}, where="n = 1")
    removed = table.vacuum(0, check=False, dry_run=True)
    assert rows(table) == [(1, 0), (1, 2), (2, 3)]
    unnamed = data_files(tmp_path / "t") - {p.replace("%20", " ") for p in named(table, range(2))}
    assert all(name.endswith(".bin") for name in unnamed), unnamed
    assert removed is not None


def test_a_commit_of_several_statements_lists_them(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        txn.delete("n = 1", user_metadata="cleaned")
    entry = table.history()[0]
    assert entry.operation == "TRANSACTION"
    statements = json.loads(entry.operation_parameters["statements"])
    assert [s["operation"] for s in statements] == ["WRITE", "DELETE"]
    assert entry.user_metadata == "cleaned"
    assert entry.read_version == 0


def test_a_single_statement_is_recorded_as_itself(tmp_path: Path) -> None:
    table, alone = orders(tmp_path / "t"), orders(tmp_path / "alone")
    with table.transaction() as txn:
        txn.delete("n = 1")
    alone.delete("n = 1")
    entries = [t.history()[0] for t in (table, alone)]
    assert entries[0].operation == entries[1].operation == "DELETE"
    assert entries[0].operation_parameters == entries[1].operation_parameters
    assert entries[0].operation_metrics.keys() == entries[1].operation_metrics.keys()


def test_nothing_done_is_no_version(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        assert rows(txn) == [(1, 1), (1, 2), (2, 3)]
        txn.delete("n = 99")
    assert (table.version, txn.committed) == (0, None)


def test_an_exception_gives_all_of_it_up(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    before = data_files(tmp_path / "t")
    with pytest.raises(ZeroDivisionError), table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        txn.delete("n = 1")
        raise ZeroDivisionError
    assert (table.version, data_files(tmp_path / "t")) == (0, before)
    with pytest.raises(errors.IllegalStateError, match="was given up"):
        txn.append({"day": [3], "n": [4]})


def test_a_statement_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        with pytest.raises(errors.SchemaMismatch):
            txn.append({"day": [3], "n": ["x"]})
        with pytest.raises(errors.InvalidPredicate):
            txn.delete("no_such = 1")
        txn.delete("n = 1")
    assert rows(table) == [(1, 2), (2, 3), (3, 4)]


def test_the_schema_moves_on_within_it(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4], "note": ["new"]}, merge_schema=True)
        txn.add_columns("price double")
        txn.update({"price": "n * 2.0"}, where="note = 'new'")
        txn.set_properties({"delta.logRetentionDuration": "interval 9 days"})
        txn.add_constraint("positive", "n > 0")
        with pytest.raises(errors.ConstraintViolation):
            txn.append({"day": [1], "n": [-1]})
    assert table.version == 1
    assert table.schema.names == ["day", "n", "note", "price"]
    priced = table.to_arrow(columns=["n", "price"], where="price IS NOT NULL")
    assert priced.to_pylist() == [{"n": 4, "price": 8.0}]
    assert table.properties["delta.constraints.positive"] == "n > 0"
    assert table.properties["delta.logRetentionDuration"] == "interval 9 days"


def test_the_feed_has_the_changes_of_all_statements(tmp_path: Path) -> None:
    table = orders(tmp_path / "t", **KINDS["feed"])
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        txn.update({"n": "n + 10"}, where="n = 1")
        txn.delete("day = 2")
    feed = table.changes(1).select(["_change_type", "n", "_commit_version"]).to_pylist()
    assert sorted((row["_change_type"], row["n"]) for row in feed) == [
        ("delete", 3), ("insert", 4), ("update_postimage", 11), ("update_preimage", 1)]
    assert {row["_commit_version"] for row in feed} == {1}


def test_rows_keep_their_ids_and_new_ones_get_ids_behind_the_winner(tmp_path: Path) -> None:
    table = orders(tmp_path / "t", **KINDS["row tracking"])
    ids = ids_of(table)
    with table.transaction() as txn:
        txn.append({"day": [3, 3], "n": [4, 5]})
        txn.update({"n": "n * 100"}, where="day = 1 AND n = 1")
        txn.update({"n": "n * 100"}, where="day = 3 AND n = 4")
        table.append({"day": [9], "n": [9]})
    now = ids_of(table)
    assert {n: now[n] for n in (2, 3)} == {n: ids[n] for n in (2, 3)}
    assert now[100] == ids[1], "a row that was there before keeps its id"
    assert len(set(now.values())) == 6, "no two rows share one"
    assert now.keys() == {100, 2, 3, 400, 5, 9}


def ids_of(table: DeltaTable) -> dict[int, int]:
    """n -> the row's id."""
    from deltanb.engines.arrow.read import iter_batches

    snapshot = table.snapshot
    ids: dict[int, int] = {}
    for index in range(snapshot.num_files):
        files = snapshot.files.slice(index, 1)
        base = files["base_row_id"][0].as_py()
        for batch in iter_batches(snapshot, files, row_ids=True):
            name = next(c for c in batch.schema.names if "row_id" in c or "row-id" in c)
            for at, (n, own) in enumerate(zip(batch["n"].to_pylist(), batch[name].to_pylist(), strict=True)):
                ids[n] = base + at if own is None else own
    return ids


# -- beside others ---------------------------------------------------------------------------------


def test_a_winner_elsewhere_is_no_matter(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.delete("day = 1 AND n = 1")
        table.append({"day": [2], "n": [9]})
        assert (2, 9) not in rows_of_day(txn, 1)
        txn.append({"day": [1], "n": [7]})
    assert (table.version, txn.committed) == (2, 2)
    assert rows(table) == [(1, 2), (1, 7), (2, 3), (2, 9)]


def rows_of_day(table: DeltaTable, day: int) -> list[tuple[int, int]]:
    data = table.to_arrow(columns=["day", "n"], where=f"day = {day}")
    return sorted(zip(data["day"].to_pylist(), data["n"].to_pylist(), strict=True))


READS: dict[str, Callable[[DeltaTable], Any]] = {
    "to_arrow": lambda txn: txn.to_arrow(where="day = 2"),
    "to_pandas": lambda txn: txn.to_pandas(where="day = 2"),
    "delete": lambda txn: txn.delete("day = 2 AND n = 99"),
    "all": lambda txn: txn.to_arrow(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("is_before", [True, False], ids=["read first", "read after a statement"])
def test_what_was_read_may_not_change_meanwhile(tmp_path: Path, read: str, is_before: bool) -> None:
    table = orders(tmp_path / "t")
    before = data_files(tmp_path / "t")
    with pytest.raises(errors.ConcurrentAppendException), table.transaction() as txn:
        if is_before:
            READS[read](txn)
        txn.append({"day": [5], "n": [5]})
        if not is_before:
            READS[read](txn)
        table.append({"day": [2], "n": [9]})
    assert table.version == 1
    new = {action.path for action in table.log.read_commit(1) if hasattr(action, "path")}
    assert data_files(tmp_path / "t") == before | new, "the files of what was refused are gone"


def test_two_transactions_on_the_same_rows_never_both_commit(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    first, second = table.transaction(), table.transaction()
    for txn in (first, second):
        txn.update({"n": "n + 1"}, where="n = 1")
        txn.append({"day": [8], "n": [8]})
    assert first.commit() == 1
    with pytest.raises(errors.DeltaConcurrentModificationException):
        second.commit()
    assert rows(table) == [(1, 2), (1, 2), (2, 3), (8, 8)]


def test_a_lost_answer_is_found_and_an_unknown_one_keeps_the_files() -> None:
    store = ScriptedStore(MemoryStore())
    table = orders(store)
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        txn.delete("n = 1")
    assert (table.version, rows(table)) == (1, [(1, 2), (2, 3), (3, 4)])


# -- what it refuses -------------------------------------------------------------------------------

REFUSED: dict[str, Callable[[DeltaTable], Any]] = {
    "vacuum": lambda txn: txn.vacuum(),
    "optimize": lambda txn: txn.optimize(),
    "purge": lambda txn: txn.purge(),
    "restore": lambda txn: txn.restore(0),
    "clone": lambda txn: txn.clone("elsewhere"),
    "convert": lambda txn: txn.convert("elsewhere"),
    "generate": lambda txn: txn.generate(),
    "drop_feature": lambda txn: txn.drop_feature("deletionVectors"),
    "add_feature": lambda txn: txn.add_feature("deletionVectors"),
    "upgrade_protocol": lambda txn: txn.upgrade_protocol(3, 7),
    "sync_identity": lambda txn: txn.sync_identity("n"),
    "start_transaction": lambda txn: txn.start_transaction(),
    "transaction": lambda txn: txn.transaction(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_commits_by_itself_is_refused_by_name(tmp_path: Path, name: str) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
        with pytest.raises(errors.IllegalStateError, match=f"^{name} commits by itself"):
            REFUSED[name](txn)
    assert table.version == 1


def test_after_its_end_it_is_not_used_again(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with table.transaction() as txn:
        txn.append({"day": [3], "n": [4]})
    for use in (lambda: txn.append({"day": [3], "n": [4]}), txn.commit):
        with pytest.raises(errors.IllegalStateError, match="was committed as version 1"):
            use()
    txn.give_up()
    assert rows(table) == [(1, 1), (1, 2), (2, 3), (3, 4)]


def test_a_table_at_one_of_its_past_versions_has_none(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with pytest.raises(errors.IllegalStateError, match="read only"):
        table.as_of(0).transaction()
