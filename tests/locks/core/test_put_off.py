"""Commits that NO_FLUSH puts off: what flushes them, in which order, and whose error it is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.locks import CommitCallback, LockManager, Transaction
from deltanb.locks.core import buffer
from deltanb.locks.tables import table as locked_table
from deltanb.locks.tables.log import LockedTransaction
from deltanb.options import options, set_options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction.staging import StagedLog
from deltanb.transaction.transaction import OptimisticTransaction
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _without_sync() -> None:
    options.durability = "none"


@pytest.fixture
def manager() -> LockManager:
    return LockManager(lock_timeout=0, clock=lambda: 0)


class Log:
    """What becomes of changes: each is a number, and one that is an error fails."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def undo(self, change: Any) -> None:
        self.done.append(("undone", change))

    def commit(self, changes: Sequence[Any], durability: Any) -> None:
        for change in changes:
            if isinstance(change, BaseException):
                raise change
        self.done += changes

    def size(self, changes: Sequence[Any]) -> int:
        return sum(change for change in changes if isinstance(change, int))


def put_off(manager: LockManager, log: Log, change: Any, attachment: Any = None) -> Transaction:
    txn = manager.new_transaction()
    txn.attach(attachment)
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    txn.lock_exclusive(1, str(txn.id).encode())
    txn.changed(log, change)
    txn.commit()
    return txn


def store(txn: Any, table: DeltaTable, value: int, key: int = 1) -> None:
    cursor = txn.cursor(table, "id")
    cursor.find(key)
    cursor.store({"n": value})


WORK = pytest.mark.parametrize("work", [
    lambda txn, table: txn.table(table).update({"n": "0"}, where="id = 1"),
    lambda txn, table: store(txn, table, 0),
], ids=["statement", "row"])


# -- bounds --------------------------------------------------------------------------------------------


def test_so_many_commits_fill_the_buffer(manager: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_COMMITS", 3)
    log = Log()
    for number in range(1, 8):
        put_off(manager, log, number)
        assert (len(log.done), manager.num_pending) == (number - number % 3, number % 3)
    assert log.done == [1, 2, 3, 4, 5, 6] and manager.num_locks_held == 1
    manager.flush()


def test_so_many_bytes_fill_the_buffer(manager: LockManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_BYTES", 10)
    log = Log()
    put_off(manager, log, 4)
    put_off(manager, log, 5)
    assert not log.done
    put_off(manager, log, 1)
    assert log.done == [4, 5, 1] and manager.num_pending == 0


@WORK
def test_tables_know_how_many_bytes_wait(
    work: Callable[[Any, DeltaTable], Any], manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dn.create(MemoryStore(), {"id": [1], "n": [1]})
    for limit, version in ((1 << 20, 0), (100, 2)):
        monkeypatch.setattr(buffer, "MAX_BYTES", limit)
        txn = manager.new_transaction()
        txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
        work(txn, table)
        txn.commit()
        assert table.version == version
        manager.flush()


def test_who_waits_long_is_flushed_with_the_next_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    now, log = [0], Log()
    manager = LockManager(clock=lambda: now[0])
    put_off(manager, log, 1)
    now[0] = int(buffer.MAX_SECONDS * 1e9) - 1
    put_off(manager, log, 2)
    assert not log.done
    now[0] += 1
    put_off(manager, log, 3)
    assert log.done == [1, 2, 3]


def test_who_waits_long_is_flushed_though_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread, which ends then."""
    monkeypatch.setattr(buffer, "MAX_SECONDS", 1e-3)
    notified = Notified()
    readings = iter([0, 0, 0, 0, 0])  # as it is made, locked, put off, and looked at
    manager = LockManager(clock=lambda: next(readings, 10**9))
    put_off(manager, Log(), 1, notified)
    thread = manager.pending._thread
    assert notified.is_finished.wait(PATIENCE) and notified.error is None
    if thread is not None:
        thread.join(PATIENCE)
    assert manager.num_pending == manager.num_locks_held == 0 and manager.pending._thread is None


class Notified(CommitCallback):
    def __init__(self) -> None:
        self.is_finished = threading.Event()
        self.error: BaseException | None = None

    def finished(self, txn: Transaction, txn_id: int, error: BaseException | None) -> None:
        self.error = error
        self.is_finished.set()


# -- whose error ---------------------------------------------------------------------------------------


def test_who_fills_the_buffer_is_not_told_what_others_fail_with(
    manager: LockManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(buffer, "MAX_COMMITS", 4)
    log, notified = Log(), Notified()
    bad = put_off(manager, log, OSError("the disk is full"))
    put_off(manager, log, OSError("another disk is full"), notified)
    good = put_off(manager, log, 3)
    with caplog.at_level(logging.WARNING, "deltanb.locks"):
        put_off(manager, log, 4)
    assert [each for each in log.done if isinstance(each, int)] == [3, 4] and manager.num_locks_held == 0
    assert isinstance(notified.error, OSError)
    (record,) = caplog.records
    assert record.getMessage() == ("the commit of transaction 1, which NO_FLUSH had put off, has failed and "
                                   "is undone: OSError: the disk is full")
    good.flush()
    with pytest.raises(OSError, match="the disk is full") as caught:
        bad.flush()
    assert "in the commit of put_off #1" in " ".join(caught.value.__notes__)
    bad.flush()
    manager.flush()  # once is enough


def test_all_that_failed_is_named(manager: LockManager) -> None:
    log = Log()
    for number in (1, 2, 3):
        put_off(manager, log, OSError(f"disk {number} is full"))
    with pytest.raises(OSError, match="disk 1") as caught:
        manager.flush()
    notes = " ".join(caught.value.__notes__)
    assert "OSError: disk 2 is full" in notes and "OSError: disk 3 is full" in notes
    assert manager.num_pending == 0


@pytest.mark.parametrize("is_asked", [True, False])
def test_an_interrupt_undoes_one_and_leaves_the_others_in_the_buffer(
    is_asked: bool, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, interrupt = Log(), KeyboardInterrupt()
    for change in (1, interrupt, 3):
        put_off(manager, log, change)
    if not is_asked:
        monkeypatch.setattr(buffer, "MAX_COMMITS", 4)
    with pytest.raises(KeyboardInterrupt):
        manager.flush() if is_asked else put_off(manager, log, 4)
    assert log.done == [1, ("undone", interrupt)] and manager.num_pending == (1 if is_asked else 2)
    manager.flush()
    assert log.done[2:] == ([3] if is_asked else [3, 4]) and manager.num_locks_held == 0


@pytest.mark.parametrize("step", ["new_locker", "end"])
def test_an_interrupt_as_a_commit_is_put_off_loses_and_doubles_nothing(
    step: str, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    txn.lock_exclusive(1, b"k")
    txn.changed(log, 1)
    real, interrupts = getattr(LockManager, step), [KeyboardInterrupt()]

    def interrupted(self: LockManager, *args: Any) -> Any:
        if interrupts:
            raise interrupts.pop()
        return real(self, *args)

    monkeypatch.setattr(LockManager, step, interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit()
    is_put_off = step == "end"
    assert manager.num_pending == is_put_off and txn.is_valid == is_put_off
    notes = " ".join(getattr(caught.value, "__notes__", ()))
    assert ("put off despite the interruption" in notes) == is_put_off
    txn.exit()
    manager.flush()
    assert log.done == ([1] if is_put_off else [("undone", 1)]) and manager.num_locks_held == 0


def interrupt_in(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, is_done: bool = False) -> None:
    """Let Ctrl-C come as a method is called for the first time, or has just done its work."""
    real, interrupts = getattr(kind, name), [KeyboardInterrupt()]

    def interrupted(*args: Any, **settings: Any) -> Any:
        if not is_done and interrupts:
            raise interrupts.pop()
        result = real(*args, **settings)
        if interrupts:
            raise interrupts.pop()
        return result

    monkeypatch.setattr(kind, name, interrupted)


@WORK
@pytest.mark.parametrize("mode", ["NO_FLUSH", "NO_SYNC"])
@pytest.mark.parametrize("kind, name, is_done", [
    (locked_table.Part, "flush", True), (StagedLog, "together", False), (StagedLog, "together", True),
    (OptimisticTransaction, "prepare", False), (locked_table.Part, "landed", True),
], ids=lambda each: getattr(each, "__name__", str(each)))
def test_an_interrupt_of_a_tables_commit_leaves_no_file_and_is_no_lie(
    kind: type, name: str, is_done: bool, mode: str, work: Callable[[Any, DeltaTable], Any],
    manager: LockManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that a commit has failed may do the work once more."""
    table = dn.create(tmp_path / "t", {"id": [1, 2], "n": [1, 2]})
    txn, notified = manager.new_transaction(), Notified()
    txn.attach(notified)
    txn.durability_mode = mode  # type: ignore[assignment]
    work(txn, table)
    if mode == "NO_FLUSH":
        txn.commit()
    interrupt_in(monkeypatch, kind, name, is_done)
    with pytest.raises(KeyboardInterrupt) as caught:
        manager.flush() if mode == "NO_FLUSH" else txn.commit()
    has_landed = name == "landed"
    assert numbers(tmp_path / "t") == {1: 0 if has_landed else 1, 2: 2} and not unnamed(tmp_path / "t")
    assert mode != "NO_FLUSH" or (notified.is_finished.is_set() and
                                  (notified.error is None if has_landed else notified.error is caught.value))
    assert manager.num_pending == manager.num_locks_held == 0


@WORK
def test_an_interrupt_between_a_statement_and_its_record_leaves_no_file(
    work: Callable[[Any, DeltaTable], Any], manager: LockManager, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "n": [1, 2]})
    txn = manager.new_transaction()
    interrupt_in(monkeypatch, LockedTransaction, "_note", is_done=True)
    with pytest.raises(KeyboardInterrupt):
        work(txn, table)
        txn.commit()
    txn.exit()
    assert table.version == 0 and not unnamed(tmp_path / "t") and manager.num_locks_held == 0


@WORK
def test_a_conflict_in_the_flush_leaves_no_file_and_no_lock(
    work: Callable[[Any, DeltaTable], Any], manager: LockManager, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "n": [1, 2]})
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    work(txn, table)
    txn.commit()
    table.update({"n": "7"}, where="id = 1")
    files_before = set((tmp_path / "t").glob("*.parquet"))
    named = {tmp_path / "t" / action.path for version in (0, 1) for action in table.log.read_commit(version)
             if hasattr(action, "path")}
    with pytest.raises(errors.DeltaConcurrentModificationException):
        txn.flush()
    assert set((tmp_path / "t").glob("*.parquet")) == named <= files_before
    assert manager.num_locks_held == 0 and txn.is_valid
    work(txn, table)
    txn.commit()
    txn.flush()
    assert table.version == 2


# -- beside other modes --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["SYNC", "NO_SYNC"])
def test_a_durable_commit_lands_behind_those_put_off_before_it(mode: str, manager: LockManager) -> None:
    log = Log()
    put_off(manager, log, 1)
    reading = manager.new_transaction()
    reading.lock_shared(7, b"k")
    reading.commit()
    put_off(manager, log, 2)
    assert not log.done
    bad = put_off(manager, log, OSError("the disk is full"))
    txn = manager.new_transaction()
    txn.durability_mode = mode  # type: ignore[assignment]
    txn.enter()
    txn.changed(log, 3)
    txn.commit()
    assert not log.done, "a nested scope is made permanent later"
    txn.exit()
    txn.commit()
    assert [each for each in log.done if isinstance(each, int)] == [1, 2, 3]
    with pytest.raises(OSError, match="full"):
        bad.flush()


def test_one_manager_does_not_flush_another(manager: LockManager) -> None:
    other, log = LockManager(clock=lambda: 0), Log()
    put_off(manager, log, 1)
    put_off(other, log, 2)
    other.flush()
    assert log.done == [2]
    manager.close()
    assert log.done == [2, 1]


def test_a_commit_has_the_settings_of_the_block_in_which_it_was_committed(manager: LockManager) -> None:
    table = dn.create(MemoryStore(), {"id": [1], "n": [1]})
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"  # type: ignore[assignment]
    store(txn, table, 7)
    with set_options(user_metadata="by night"):
        txn.commit()
    manager.flush()
    assert table.history()[0].user_metadata == "by night"


# -- the end of the process ----------------------------------------------------------------------------

BEGIN = """
import gc, os, sys, threading
import deltanb as dn
from deltanb.locks import LockManager
from deltanb.options import options
options.durability = "none"

def begin(manager):
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"
    return txn

def store(txn, table, value, key=1):
    cursor = txn.cursor(table, "id")
    cursor.find(key)
    cursor.store({"n": value})

place = sys.argv[1]
table = dn.create(f"{place}/t", {"id": [1, 2, 3], "n": [1, 2, 3]}, partition_by="id",
                  properties={"delta.checkpointInterval": "1"})
"""


def run(place: Path, code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(code), str(place)], capture_output=True, text=True,
        timeout=PATIENCE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return done.returncode, done.stderr


def numbers(place: Path) -> dict[int, int]:
    data = dn.open(place).to_arrow()
    return dict(zip(data["id"].to_pylist(), data["n"].to_pylist(), strict=True))


def unnamed(place: Path) -> set[str]:
    table = dn.open(place)
    named = {Path(action.path).name for version in range(table.version + 1)
             for action in table.log.read_commit(version) if hasattr(action, "path")}
    return {path.name for path in place.rglob("*.parquet") if "_delta_log" not in path.parts} - named


@pytest.mark.slow
@pytest.mark.parametrize("end", [
    "pass", "raise SystemExit(3)", "raise RuntimeError('over')",
    "threading.Thread(target=lambda: threading.main_thread().join() or put_off(7, 3)).start()",
], ids=["end", "exit", "error", "thread"])
def test_the_end_of_the_process_flushes(end: str, tmp_path: Path) -> None:
    """Statements and rows, by managers that nobody has any more; checkpoints follow."""
    code, output = run(tmp_path, f"""
        def put_off(value, key):
            txn = begin(LockManager())
            store(txn, table, value, key)
            txn.commit()

        put_off(5, 1)
        txn = begin(LockManager())
        txn.table(table).update({{"n": "6"}}, where="id = 2")
        txn.commit()
        del txn
        gc.collect()
        assert table.version == 0
        {end}
    """)
    assert code == {"raise SystemExit(3)": 3, "raise RuntimeError('over')": 1}.get(end, 0), output
    is_late = end.startswith("threading")
    assert numbers(tmp_path / "t") == {1: 5, 2: 6, 3: 7 if is_late else 3} and not unnamed(tmp_path / "t")
    assert "NO_FLUSH" not in output
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint*.parquet")), output


@pytest.mark.slow
def test_the_end_of_the_process_says_what_it_could_not_flush(tmp_path: Path) -> None:
    code, output = run(tmp_path, """
        bad, good = begin(LockManager()), begin(LockManager())
        store(bad, table, 5, 1)
        bad.commit()
        table.update({"n": "9"}, where="id = 1")
        store(good, table, 6, 2)
        good.commit()
    """)
    assert code == 0 and "which NO_FLUSH had put off, has failed and is undone" in output
    assert numbers(tmp_path / "t") == {1: 9, 2: 6, 3: 3} and not unnamed(tmp_path / "t")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_leaves_to_its_parent_what_waits(tmp_path: Path) -> None:
    code, output = run(tmp_path, """
        manager = LockManager()
        txn = begin(manager)
        store(txn, table, 5, 1)
        txn.commit()
        child = os.fork()
        if not child:
            assert manager.num_pending == 0
            manager.flush()
            mine = begin(LockManager())
            store(mine, table, 6, 2)
            mine.commit()
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        assert table.version == 1 and manager.num_pending == 1
    """)
    assert code == 0, output
    assert numbers(tmp_path / "t") == {1: 5, 2: 6, 3: 3} and dn.open(tmp_path / "t").version == 2
    assert not unnamed(tmp_path / "t")
