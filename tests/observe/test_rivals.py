"""A rival is a real commit by another user, in the place where the transaction wants to see it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException, IllegalStateError, InvalidArgument
from deltanb.observe import rivals
from deltanb.options import options
from deltanb.schema.columns import generated_as, identity
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.testing import MemoryStore

ROWS = {"id": list(range(8)), "day": ["mon"] * 4 + ["tue"] * 4}


def orders(**settings: Any) -> dn.DeltaTable:
    return dn.create(MemoryStore(), ROWS, partition_by=["day"], **settings)


def reading(table: dn.DeltaTable, *predicates: str) -> Any:
    txn = table.start_transaction()
    txn.filter_files(*predicates)
    return txn


def rule_met(txn: Any) -> str | None:
    """The rule by which the transaction's commit fails now; None if it commits."""
    try:
        txn.commit(txn.write_files({"id": [99], "day": ["mon"]}), "WRITE")
    except DeltaConcurrentModificationException as error:
        assert error.conflict is not None
        return error.conflict.rule
    return None


@pytest.mark.parametrize(("kind", "did", "rule"), [
    ("append here", "appended 3 rows where you read", "append"),
    ("append elsewhere", "appended 3 rows elsewhere, in day=tue", None),
    ("delete", "deleted a file you read", "delete / read"),
    ("metadata", "set the property deltanb.rival = 1", "metadata"),
])
def test_each_does_what_it_says(kind: str, did: str, rule: str | None) -> None:
    table = orders()
    txn = reading(table, "day = 'mon'")
    before = options.user_name
    won = rivals.commit_rival(txn, kind, "etl-b")
    assert won == rivals.RivalCommit("etl-b", did, 1)
    assert table.history()[0].user_name == "etl-b"
    assert options.user_name == before
    assert rule_met(txn) == rule


def test_rows_are_copies_in_the_right_place() -> None:
    table = orders()
    rivals.commit_rival(reading(table, "day = 'mon'"), "append here")
    assert table.to_arrow(where="day = 'mon'")["id"].to_pylist().count(0) == 2
    rivals.commit_rival(reading(table, "day = 'mon'"), "append elsewhere")
    assert sorted(table.to_arrow()["day"].to_pylist()) == ["mon"] * 7 + ["tue"] * 7


def test_a_condition_on_other_columns_counts_as_every_partition() -> None:
    txn = reading(orders(), "id > 3")
    assert rivals.refusal(txn, "append elsewhere") == "every partition is read, so there is no elsewhere"
    rivals.commit_rival(txn, "append here")
    assert rule_met(txn) == "append"


def test_who_read_all_partitions_by_name_has_no_elsewhere() -> None:
    txn = reading(orders(), "day IN ('mon', 'tue')")
    with pytest.raises(IllegalStateError, match="there is no row to copy there"):
        rivals.commit_rival(txn, "append elsewhere")
    assert txn.log.update().version == 0


@pytest.mark.parametrize(("kind", "reason"), [
    ("append here", None),
    ("append elsewhere", "the table has no partitions, so there is no elsewhere"),
    ("delete", "no file was read"),
    ("metadata", None),
])
def test_a_table_without_partitions_and_a_transaction_without_reads(kind: str, reason: str | None) -> None:
    txn = dn.create(MemoryStore(), {"id": [1, 2]}).start_transaction()
    assert rivals.refusal(txn, kind) == reason
    if reason is None:
        assert rivals.commit_rival(txn, kind).version == 1
    else:
        with pytest.raises(IllegalStateError, match=f"a rival cannot .*: {reason}"):
            rivals.commit_rival(txn, kind)


def test_who_reads_nothing_is_met_where_it_writes() -> None:
    table = orders()
    txn = table.start_transaction()
    added = txn.write_files({"id": [9], "day": ["wed"]})
    assert rivals.commit_rival(txn, "append here").did == "appended 1 row where you write"
    assert table.to_arrow(where="day = 'wed'")["id"].to_pylist() == [9]
    assert rivals.commit_rival(txn, "append elsewhere").did == "appended 3 rows elsewhere, in day=mon"
    assert txn.commit(added, "WRITE") == 3


def test_a_file_that_is_gone_is_not_deleted_again() -> None:
    txn = reading(orders(), "day = 'mon'")
    rivals.commit_rival(txn, "delete")
    with pytest.raises(IllegalStateError, match="cannot delete what the transaction read: it is deleted"):
        rivals.commit_rival(txn, "delete")
    # Of the version that was read.
    assert rivals.commit_rival(txn, "append here").did == "appended 3 rows where you read"


def test_who_read_the_whole_table_sees_any_file_deleted() -> None:
    table = orders()
    txn = table.start_transaction()
    txn.read_whole_table()
    rivals.commit_rival(txn, "delete")
    assert table.snapshot.num_files == 1
    assert rule_met(txn) == "delete / read"


def test_metadata_changes_every_time() -> None:
    table = orders(properties={rivals.PROPERTY: "mine"})
    txn = reading(table, "day = 'mon'")
    deeds = [rivals.commit_rival(txn, "metadata").did for _ in range(3)]
    assert deeds == [f"set the property deltanb.rival = {n}" for n in (1, 2, 3)]


def test_an_append_only_table_loses_no_file() -> None:
    table = orders(properties={"delta.appendOnly": "true"})
    txn = reading(table, "day = 'mon'")
    assert rivals.refusal(txn, "delete") == "the table is append-only"
    assert rivals.commit_rival(txn, "append here").version == 1


def test_there_is_no_rival_where_there_is_no_table() -> None:
    txn = dn.DeltaLog.for_table(MemoryStore()).start_transaction()
    assert {rivals.refusal(txn, kind) for kind in rivals.KINDS} == {"there is no table yet"}


def test_there_is_no_other_kind() -> None:
    with pytest.raises(InvalidArgument, match="'append here', 'append elsewhere', 'delete', 'metadata'"):
        rivals.commit_rival(reading(orders()), "update")


def test_columns_that_the_table_gives_are_given_anew() -> None:
    schema = StructType((
        StructField("key", PrimitiveType("long"), metadata=identity()),
        StructField("id", PrimitiveType("long")),
        StructField("twice", PrimitiveType("long"), metadata=generated_as("id * 2")),
    ))
    table = dn.create(MemoryStore(), schema)
    table.append({"id": [1, 2]})
    rivals.commit_rival(reading(table), "append here")
    assert sorted(table.to_arrow()["key"].to_pylist()) == [1, 2, 3, 4]
    assert table.to_arrow()["twice"].to_pylist() == [2, 4, 2, 4]


def test_partitions_have_the_names_that_people_know() -> None:
    table = orders(properties={"delta.columnMapping.mode": "name"})
    txn = reading(table, "day = 'mon'")
    assert rivals.commit_rival(txn, "append elsewhere").did == "appended 3 rows elsewhere, in day=tue"
    assert rule_met(txn) is None


def test_deleted_rows_are_not_copied() -> None:
    table = orders(properties={"delta.enableDeletionVectors": "true"})
    table.delete("id IN (0, 1, 2)")
    rivals.commit_rival(reading(table, "day = 'mon'"), "append here")
    assert table.to_arrow(where="day = 'mon'")["id"].to_pylist() == [3, 3]


def test_many_files_are_looked_at_here_and_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "MAX_LOOK", 4)
    table = dn.create(MemoryStore(), pa.table({"id": range(12), "part": range(12)}), partition_by=["part"])
    txn = reading(table, "part < 6")
    assert "elsewhere, in part=" in rivals.commit_rival(txn, "append elsewhere").did
    assert rivals.commit_rival(txn, "append here").version == 2


@pytest.mark.parametrize("writer", [5, b"x", ["ann"]])
def test_a_writer_without_a_name_of_text_is_refused_and_writes_nothing(writer: Any) -> None:
    table = dn.create(MemoryStore("memory:///ducks"), {"id": [1]})
    names = [status.name for status in table.log.store.list_all("")]
    with pytest.raises(InvalidArgument, match="user_name"):
        rivals.commit_rival(table.start_transaction(), "append here", writer)
    assert [status.name for status in table.log.store.list_all("")] == names
