"""A write in two halves: what other writers do between them, and what becomes of the files where it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.commands.rows.two_phase_write import PlannedWrite, commit_planned, planned
from deltanb.commands.rows.write import WriteOptions
from deltanb.engines.arrow.write import write_files
from deltanb.errors import (
    AppendOnlyTable,
    CommitOutcomeUnknown,
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConstraintViolation,
    MetadataChangedException,
    SchemaMismatch,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedPredicate,
    UnsupportedProtocol,
)
from deltanb.schema.types import from_arrow
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import ids, last_operation

APPEND = WriteOptions("Append")


def begun(table: DeltaTable, rows: pa.Table, options: WriteOptions = APPEND) -> PlannedWrite:
    return planned(table.log, from_arrow(rows.schema), options)


def wrote(log: DeltaLog, plan: PlannedWrite, rows: pa.Table) -> list[Any]:
    """As a task somewhere else does it."""
    target = plan.target
    assert target is not None
    return write_files(log.store, target.metadata, target.protocol, rows, checks=target.checks,
                       clustering=target.clustering)


def done(table: DeltaTable, rows: pa.Table, options: WriteOptions = APPEND) -> Any:
    plan = begun(table, rows, options)
    return commit_planned(table.log, plan, [] if plan.target is None else wrote(table.log, plan, rows))


def names(table: DeltaTable) -> set[str]:
    return {status.name for status in table.log.store.list_all("") if status.name.endswith(".parquet")}


ROWS = pa.table({"id": [3, 4]})


@pytest.fixture
def table() -> DeltaTable:
    return dn.create(MemoryStore(), {"id": [1, 2]})


def test_an_append_lands_beside_another(table):
    plan = begun(table, ROWS)
    files = wrote(table.log, plan, ROWS)
    table.append({"id": [9]})
    assert commit_planned(table.log, plan, files) == 2
    assert ids(table) == [1, 2, 3, 4, 9]
    assert last_operation(table)[0] == "WRITE"


def test_an_overwrite_loses_to_rows_it_has_not_seen_and_takes_its_files_along(table):
    plan = begun(table, ROWS, WriteOptions("Overwrite"))
    files = wrote(table.log, plan, ROWS)
    table.append({"id": [9]})
    before = names(table)
    with pytest.raises(ConcurrentAppendException):
        commit_planned(table.log, plan, files)
    assert names(table) == before - {file.path for file in files}
    assert ids(table) == [1, 2, 9]


def test_columns_that_come_meanwhile_are_a_conflict(table):
    plan = begun(table, ROWS)
    files = wrote(table.log, plan, ROWS)
    table.add_columns("name string")
    with pytest.raises(MetadataChangedException):
        commit_planned(table.log, plan, files)
    assert not names(table) & {file.path for file in files}


def test_files_for_another_table_than_is_committed_are_refused(table):
    plan = begun(table, ROWS)
    files = wrote(table.log, plan, ROWS)
    table.add_columns("name string")
    assert plan.target is not None
    wrong = PlannedWrite(APPEND, plan.schema, replace(plan.target, version=1))
    with pytest.raises(MetadataChangedException, match="written for"):
        commit_planned(table.log, wrong, files)
    assert not names(table) & {file.path for file in files}


def test_a_table_is_created_once():
    store = MemoryStore()
    log = DeltaLog.for_table(store)
    options = WriteOptions("Append", txn=("app", 4))
    plans = [planned(log, from_arrow(ROWS.schema), options) for _ in range(2)]
    files = [wrote(log, plan, ROWS) for plan in plans]
    assert commit_planned(log, plans[0], files[0]) == 0
    with pytest.raises(TableAlreadyExists):
        commit_planned(log, plans[1], files[1])
    table = dn.open(store)
    assert ids(table) == [3, 4]
    assert names(table) == {file.path for file in files[0]}
    assert planned(log, from_arrow(ROWS.schema), options).target is None


def test_mapped_columns_keep_the_ids_that_their_files_have():
    table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    rows = pa.table({"id": [2], "name": ["x"]})
    done(table, rows, WriteOptions("Append", merge_schema=True))
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]
    done(table, pa.table({"word": ["y"]}), WriteOptions("Overwrite", overwrite_schema=True))
    assert table.to_arrow().to_pylist() == [{"word": "y"}]


def test_a_write_that_was_done_is_not_begun_again(table):
    options = WriteOptions("Append", txn=("app", 1))
    assert done(table, ROWS, options) == 1
    assert begun(table, ROWS, options).target is None
    assert done(table, ROWS, options).version is None


def test_two_tries_of_one_write_at_a_time_are_a_conflict(table):
    options = WriteOptions("Append", txn=("app", 1))
    plans = [begun(table, ROWS, options) for _ in range(2)]
    files = [wrote(table.log, plan, ROWS) for plan in plans]
    assert commit_planned(table.log, plans[0], files[0]) == 1
    with pytest.raises(ConcurrentTransactionException):
        commit_planned(table.log, plans[1], files[1])
    assert ids(table) == [1, 2, 3, 4]


def test_rows_of_a_condition_are_replaced_and_the_feed_says_so():
    table = dn.create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    done(table, ROWS, WriteOptions("Overwrite", where="id > 1"))
    assert ids(table) == [1, 3, 4]
    assert sorted(table.changes(1)["_change_type"].to_pylist()) == ["delete", "insert", "insert"]
    plan = begun(table, ROWS, WriteOptions("Overwrite", where="id > 3"))
    with pytest.raises(ConstraintViolation, match="does not belong"):
        wrote(table.log, plan, ROWS)


def test_what_cannot_be_written_is_refused_before_a_row_is(table):
    with pytest.raises(SchemaMismatch):
        begun(table, pa.table({"idd": [1]}))
    with pytest.raises(UnsupportedPredicate):
        begun(table, ROWS, WriteOptions("Overwrite", where="soundex(string(id)) = 'x'"))
    with pytest.raises(TableNotFound, match="rows of 'id > 1' could be replaced"):
        planned(DeltaLog.for_table(MemoryStore()), from_arrow(ROWS.schema),
                WriteOptions("Overwrite", where="id > 1"))
    table.set_properties({"delta.appendOnly": True})
    with pytest.raises(AppendOnlyTable):
        begun(table, ROWS, WriteOptions("Overwrite"))
    counted = dn.create(MemoryStore(), "n long GENERATED ALWAYS AS IDENTITY, id long")
    with pytest.raises(UnsupportedProtocol, match="'n'"):
        begun(counted, ROWS)


def test_where_nobody_knows_whether_it_landed_the_files_stay(monkeypatch):
    store = MemoryStore()
    table = dn.create(store, {"id": [1, 2]})
    plan = begun(table, ROWS)
    files = wrote(table.log, plan, ROWS)

    def lost(name: str, data: bytes, **_: Any) -> bool:
        raise OSError("the answer was lost")

    monkeypatch.setattr(store, "put_if_absent", lost)
    monkeypatch.setattr(store, "read", lambda name: (_ for _ in ()).throw(OSError("nobody answers")))
    with pytest.raises(CommitOutcomeUnknown):
        commit_planned(table.log, plan, files)
    monkeypatch.undo()
    assert names(table) >= {file.path for file in files}
