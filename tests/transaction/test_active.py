"""The active transaction of a thread: what is read within it, which commands run beside it, who sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import ConcurrentAppendException, IllegalStateError, InvalidSchema
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from deltanb.transaction.drive import watching

get_active = dn.OptimisticTransaction.get_active


@pytest.fixture
def table() -> dn.DeltaTable:
    return dn.create(MemoryStore(), {"id": [1, 2, 3], "p": ["a", "a", "b"]}, "p",
                     {"delta.enableChangeDataFeed": True})


def elsewhere(work: Callable[[], Any]) -> None:
    """What another writer does meanwhile, in a thread of its own."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def test_a_table_is_read_at_the_version_of_the_transaction(table: dn.DeltaTable) -> None:
    def work(txn: Any) -> None:
        elsewhere(lambda: table.append({"id": [4], "p": ["c"]}))
        other = dn.open(table.log.store)
        assert ids(table.to_arrow()) == ids(other.to_arrow()) == [1, 2, 3]
        assert (table.version, other.detail()["numFiles"]) == (0, 2)
        assert list(table.to_pandas(where="p = 'b'")["id"]) == [3]
        assert ids(table.as_of(1).to_arrow()) == [1, 2, 3, 4], "a version that is named is that version"
        assert [entry.version for entry in table.history()] == [1, 0], "the log shows what has landed"

    table.log.with_new_transaction(work)
    assert (table.version, get_active()) == (1, None)


def scans(table: dn.DeltaTable, read: Callable[[dn.DeltaTable], Any]) -> tuple[list[str], int]:
    """What reading left in the transaction: the scans, and how many files."""
    def work(txn: Any) -> tuple[list[str], int]:
        read(table)
        return [scan.text for scan in txn.reads.scans], sum(t.num_rows for t in txn.reads.files)

    return table.log.with_new_transaction(work)


def test_what_is_read_is_recorded(table: dn.DeltaTable) -> None:
    assert scans(table, lambda t: t.to_arrow()) == (["TRUE"], 2)
    assert scans(table, lambda t: t.to_arrow(["id"], "p = 'a'")) == (["p = 'a'"], 1)
    assert scans(table, lambda t: t.to_pandas(where="p = 'z'")) == (["p = 'z'"], 0)
    assert scans(table, lambda t: t.changes(0)) == (["TRUE"], 2)
    assert scans(table, lambda t: t.diff(0)) == (["TRUE"], 2)
    for unrecorded in (lambda t: t.schema, lambda t: t.detail(), lambda t: t.history(),
                       lambda t: t.as_of(0).to_arrow(), lambda t: str(t)):
        assert scans(table, unrecorded) == ([], 0)
    other = dn.create(MemoryStore(), {"id": [9]})
    assert scans(table, lambda t: other.to_arrow()) == ([], 0)


def test_what_was_read_makes_a_conflict(table: dn.DeltaTable) -> None:
    def total(where: str) -> Callable[[Any], int]:
        def work(txn: Any) -> int:
            ids_read = ids(table.to_arrow(where=where))
            elsewhere(lambda: table.append({"id": [4], "p": ["a"]}))
            added = txn.write_files({"id": [sum(ids_read)], "p": ["total"]})
            return int(txn.commit(added, "WRITE"))
        return work

    assert table.log.with_new_transaction(total("p = 'b'")) == 2
    with pytest.raises(ConcurrentAppendException):
        table.log.with_new_transaction(total("p = 'a'"))
    assert get_active() is None and "total" in table.to_arrow()["p"].to_pylist()


COMMANDS: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "append": lambda t: t.append({"id": [5], "p": ["a"]}),
    "overwrite": lambda t: t.overwrite({"id": [5], "p": ["a"]}),
    "delete": lambda t: t.delete("id = 1"), "truncate": lambda t: t.truncate(),
    "update": lambda t: t.update({"id": "9"}, "id = 1"),
    "merge": lambda t: t.merge({"id": [1], "p": ["a"]}, "t.id = s.id", target_alias="t", source_alias="s")
    .when_matched_update_all().execute(),
    "optimize": lambda t: t.optimize(), "purge": lambda t: t.purge(), "vacuum": lambda t: t.vacuum(),
    "restore": lambda t: t.restore(0), "clone": lambda t: t.clone(MemoryStore()),
    "create": lambda t: dn.create(MemoryStore(), {"id": [1]}), "analyze": lambda t: t.analyze(),
    "add_columns": lambda t: t.add_columns("n int"), "rename_column": lambda t: t.rename_column("id", "n"),
    "drop_columns": lambda t: t.drop_columns("id"),
    "replace_columns": lambda t: t.replace_columns("p string, id bigint"),
    "change_column": lambda t: t.change_column("id", comment="x"),
    "change_columns": lambda t: t.change_columns({"id": {"comment": "x"}}),
    "set_properties": lambda t: t.set_properties({"a": "b"}),
    "unset_properties": lambda t: t.unset_properties("a", if_exists=True),
    "set_description": lambda t: t.set_description("x"), "set_name": lambda t: t.set_name("x"),
    "add_constraint": lambda t: t.add_constraint("c", "id > 0"),
    "drop_constraint": lambda t: t.drop_constraint("c", if_exists=True),
    "add_feature": lambda t: t.add_feature("deletionVectors"),
    "drop_feature": lambda t: t.drop_feature("changeDataFeed"),
    "upgrade_protocol": lambda t: t.upgrade_protocol(1, 7), "cluster_by": lambda t: t.cluster_by("id"),
    "sync_identity": lambda t: t.sync_identity("id"), "convert": lambda t: dn.convert("nowhere"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_commits_beside_the_transaction(name: str, table: dn.DeltaTable) -> None:
    files = table.log.store.list_all("")

    def work(txn: Any) -> None:
        with pytest.raises(IllegalStateError, match=rf"{name}: a transaction on table .*txn\.write_files"):
            COMMANDS[name](table)
        assert get_active() is txn and txn.status == "open"

    table.log.with_new_transaction(work)
    assert [s.name for s in table.log.store.list_all("")] == [s.name for s in files]


def test_once_it_has_ended_commands_run_again(table: dn.DeltaTable) -> None:
    def work(txn: Any) -> int | None:
        txn.commit([], "Empty")
        assert get_active() is None
        return table.append({"id": [4], "p": ["a"]})

    assert table.log.with_new_transaction(work) == 2
    with pytest.raises(IllegalStateError, match="has committed"):
        txn = table.start_transaction()
        txn.commit()
        dn.OptimisticTransaction.set_active(txn)


def test_a_command_is_the_active_transaction_while_it_runs(table: dn.DeltaTable) -> None:
    seen: list[Any] = []

    def rows() -> Iterator[pa.RecordBatch]:
        seen.append(get_active())
        yield from table.to_arrow(where="p = 'b'").to_batches()

    token = watching.set(lambda txn, step: seen.append(get_active() is txn))
    try:
        batches = pa.RecordBatchReader.from_batches(table.to_arrow().schema, rows())
        with set_options(commit_listeners=[lambda stats: seen.append(("told", get_active()))]):
            table.append(batches)
    finally:
        watching.reset(token)
    first, *steps, last = seen
    assert first.status == "committed" and first.log is table.log
    assert steps and all(steps) and last == ("told", None), "what follows a commit is no part of it"
    assert [scan.text for scan in first.reads.scans] == ["p = 'b'"]
    assert table.history(1)[0].is_blind_append is False, "rows were read for it"
    assert get_active() is None


def test_a_command_that_fails_leaves_none(table: dn.DeltaTable) -> None:
    for fail in (lambda: table.append({"id": ["x"], "p": [1]}), lambda: table.add_columns("id int")):
        with pytest.raises((dn.DeltaError, InvalidSchema)):
            fail()
        assert get_active() is None

    def interrupt(txn: Any, step: Any) -> None:
        raise KeyboardInterrupt

    token = watching.set(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            table.append({"id": [1], "p": ["a"]})
    finally:
        watching.reset(token)
    assert get_active() is None


def test_another_writer_of_the_thread_has_the_slot_for_its_own_command(table: dn.DeltaTable) -> None:
    """A listener that writes, a test's rival: commands within a command follow each other."""
    log = dn.create(MemoryStore(), {"n": [0]})

    def rows() -> Iterator[pa.RecordBatch]:
        outer = get_active()
        log.append({"n": [1]})
        assert get_active() is outer
        yield pa.record_batch({"id": [7], "p": ["a"]})

    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    with set_options(commit_listeners=[lambda s: log.append({"n": [2]}) if s.operation == "WRITE"
                                       and s.table == table.path else None]):
        table.append(pa.RecordBatchReader.from_batches(schema, rows()))
    assert sorted(log.to_arrow()["n"].to_pylist()) == [0, 1, 2] and table.version == 1


def test_threads_have_their_own(table: dn.DeltaTable) -> None:
    def work(txn: Any) -> None:
        elsewhere(lambda: table.append({"id": [4], "p": ["a"]}))
        assert get_active() is txn

    table.log.with_new_transaction(work)
    result = dn.race(table, {"ann": lambda t: t.append({"id": [8], "p": ["c"]}),
                             "ben": lambda t: t.delete("p = 'b'")})
    assert result.outcomes == {"ann": 2, "ben": 3}
