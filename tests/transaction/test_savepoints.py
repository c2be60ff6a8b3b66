"""Savepoints: what a transaction takes back, what it keeps, and what stays of it on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import Metadata
from deltanb.table.table import DeltaTable
from deltanb.transaction.staging import StagedLog


def data_files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.suffix in (".parquet", ".bin")}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return dn.create(tmp_path / "t", {"day": [1, 2], "n": [1, 2]}, partition_by="day",
                     properties={"delta.enableDeletionVectors": True})


# -- an optimistic transaction -------------------------------------------------------------------------


def test_files_metadata_hooks_and_marks_are_taken_back_and_reads_stay(table: DeltaTable) -> None:
    txn = table.log.start_transaction()
    before, files = txn.savepoint(), data_files(Path(table.path))
    txn.filter_files("day = 1")
    txn.update_metadata(txn.metadata.replace(description="other"))
    txn.write_files({"day": [3], "n": [3]})
    txn.identity_marks["n"] = 9
    assert data_files(Path(table.path)) != files
    txn.rollback_to(before)
    assert data_files(Path(table.path)) == files
    assert txn.metadata == table.metadata and not txn.has_written and not txn.identity_marks
    assert [scan.text for scan in txn.reads.scans] == ["day = 1"]
    # the savepoint stands; what follows it is committed, and what was read counts still
    files_written = txn.write_files({"day": [4], "n": [4]})
    table.append({"day": [1], "n": [9]})
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit(files_written)


def test_what_was_rolled_back_is_not_in_the_commit(table: DeltaTable) -> None:
    txn = table.log.start_transaction()
    first = txn.write_files({"day": [3], "n": [3]})
    after_first = txn.savepoint()
    txn.write_files({"day": [4], "n": [4]})
    txn.rollback_to(after_first)
    assert txn.commit(first, "WRITE") == 1
    assert table.to_arrow(where="day >= 3").to_pylist() == [{"day": 3, "n": 3}]
    assert len(data_files(Path(table.path))) == 3


def test_the_outer_savepoint_ends_the_inner_one(table: DeltaTable) -> None:
    txn = table.log.start_transaction()
    outer = txn.savepoint()
    inner = txn.savepoint()
    txn.rollback_to(inner)
    txn.rollback_to(outer)
    with pytest.raises(errors.IllegalStateError, match="rolled back since"):
        txn.rollback_to(inner)
    txn.rollback_to(outer)


def test_savepoints_are_of_one_transaction_and_end_with_it(table: DeltaTable) -> None:
    txn, other = table.log.start_transaction(), table.log.start_transaction()
    mine = txn.savepoint()
    with pytest.raises(errors.IllegalStateError, match="of another transaction"):
        other.rollback_to(mine)
    with pytest.raises(errors.InvalidArgument, match="txn.savepoint()"):
        txn.rollback_to(0)  # type: ignore[arg-type]
    txn.commit(txn.write_files({"day": [3], "n": [3]}))
    for late in (txn.savepoint, lambda: txn.rollback_to(mine)):
        with pytest.raises(errors.IllegalStateError, match="has committed v1"):
            late()


# -- statements that are staged ------------------------------------------------------------------------


class Staged(DeltaTable):
    """A table on a staged log, for its methods."""

    def __init__(self, table: DeltaTable) -> None:
        self.staged = StagedLog(table.log)
        super().__init__(self.staged)


def rows(table: DeltaTable) -> list[tuple[int, int]]:
    data = table.to_arrow(columns=["day", "n"])
    return sorted(zip(data["day"].to_pylist(), data["n"].to_pylist(), strict=True))


def committed(staged: Staged) -> int:
    txn, actions, operation = staged.staged.together()
    return txn.commit(actions, operation)


def test_statements_are_taken_back_with_their_files(table: DeltaTable) -> None:
    staged, files = Staged(table), data_files(Path(table.path))
    staged.update({"n": "n + 10"}, where="day = 1")
    expected = data_files(Path(table.path))
    staged.append({"day": [5], "n": [5]})
    staged.add_columns("more int")
    staged.delete("n = 2")
    staged.staged.rollback_to(1)
    assert data_files(Path(table.path)) == expected > files
    assert rows(staged) == [(1, 11), (2, 2)] and staged.schema.names == ["day", "n"]
    staged.append({"day": [6], "n": [6]})
    assert rows(staged) == [(1, 11), (2, 2), (6, 6)]
    assert committed(staged) == 1
    assert rows(table) == [(1, 11), (2, 2), (6, 6)]


def test_a_rollback_that_is_interrupted_has_taken_back_all_the_same(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the log is looked at once more, when the statements are gone and their files are still there."""
    staged = Staged(table)
    staged.update({"n": "n + 10"}, where="day = 1")
    expected = data_files(Path(table.path))
    staged.append({"day": [5], "n": [5]})
    times = iter([KeyboardInterrupt])
    install = StagedLog._install

    def interrupted(*args: Any, **more: Any) -> Any:
        if (error := next(times, None)) is not None:
            raise error
        return install(*args, **more)

    monkeypatch.setattr(StagedLog, "_install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        staged.staged.rollback_to(1)
    assert data_files(Path(table.path)) == expected
    assert rows(staged) == [(1, 11), (2, 2)]
    assert committed(staged) == 1


def test_the_base_follows_the_table_and_statements_stay(table: DeltaTable) -> None:
    staged = Staged(table)
    staged.update({"n": "n + 10"}, where="day = 1")
    table.append({"day": [7], "n": [7]})
    assert staged.staged.follow() and not staged.staged.follow()
    assert (staged.staged.base.version, staged.snapshot.version) == (1, 2)
    assert [staged.to_arrow(where=f"day = {day}")["n"].to_pylist() for day in (1, 7)] == [[11], [7]]
    staged.update({"n": "n + 100"}, where="day = 7")
    table.append({"day": [8], "n": [8]})
    assert committed(staged) == 3
    assert rows(table) == [(1, 11), (2, 2), (7, 107), (8, 8)]


@pytest.mark.parametrize(("other", "error"), [
    (lambda t: t.delete("day = 1"), errors.ConcurrentDeleteReadException),
    (lambda t: t.append({"day": [1], "n": [5]}), errors.ConcurrentAppendException),
    (lambda t: t.set_properties({"delta.appendOnly": False}), errors.MetadataChangedException),
])
def test_the_base_does_not_follow_a_commit_that_contradicts(
    table: DeltaTable, other: Callable[[DeltaTable], Any], error: type[Exception],
) -> None:
    staged = Staged(table)
    staged.update({"n": "n + 10"}, where="day = 1")
    other(table)
    with pytest.raises(error):
        staged.staged.follow()
    assert staged.staged.base.version == 0 and rows(staged) == [(1, 11), (2, 2)]
    with pytest.raises(error):  # as its commit does
        committed(staged)


def test_reads_alone_are_held_against_what_the_base_follows(table: DeltaTable) -> None:
    staged = Staged(table)
    assert staged.to_arrow(where="day = 1").num_rows == 1
    table.append({"day": [2], "n": [5]})
    assert staged.staged.follow()
    assert staged.to_arrow(where="day = 2").num_rows == 2
    table.append({"day": [1], "n": [5]})
    with pytest.raises(errors.ConcurrentAppendException):
        staged.staged.follow()


def test_two_changes_of_the_metadata_are_left_to_the_commit(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"n": [1]})
    staged = Staged(table)
    staged.set_description("mine")
    table.set_description("theirs")
    assert not staged.staged.follow()
    assert isinstance(staged.metadata, Metadata) and staged.metadata.description == "mine"
    with pytest.raises(errors.MetadataChangedException):
        committed(staged)
