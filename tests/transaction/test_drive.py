"""A commit that is driven by hand does a step's work when the step is left, and holds nothing meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.testing import Fail, ScriptedStore, TableBuilder
from deltanb.transaction.drive import Drive
from deltanb.transaction.steps import Committed, Prepared, PutIfAbsent, ReadWinner


class Lock:
    """Counts how often it is taken, and says whether it is held."""

    def __init__(self) -> None:
        self.taken, self.is_held = 0, False

    def __enter__(self) -> None:
        self.taken, self.is_held = self.taken + 1, True

    def __exit__(self, *_: Any) -> None:
        self.is_held = False


def driven(store: ScriptedStore, lock: Any) -> Drive:
    txn = TableBuilder(store).create("id long").log.start_transaction()
    return Drive(txn.commit_steps(), txn.committer, lock)


def test_a_step_is_answered_when_it_is_left() -> None:
    store, lock = ScriptedStore(), Lock()
    drive = driven(store, lock)
    puts = len(store.puts)
    assert isinstance(drive.advance(), Prepared)
    assert isinstance(drive.advance(), PutIfAbsent)
    assert (len(store.puts) - puts, drive.reply, lock.taken) == (0, None, 0)
    assert isinstance(drive.advance(), Committed)
    assert (len(store.puts) - puts, drive.reply, lock.taken) == (1, True, 1)


def test_the_lock_is_held_while_a_step_writes_and_not_between() -> None:
    lock, held = Lock(), []

    def put(inner: Any, name: str, data: bytes) -> bool:
        held.append(lock.is_held)
        return bool(inner.put_if_absent(name, data))

    store = ScriptedStore()
    drive = driven(store, lock)
    store.script.append(put)
    while drive.advance() is not None:
        assert not lock.is_held
    assert held == [True]


def test_the_end_stays_the_end() -> None:
    drive = driven(ScriptedStore(), Lock())
    while (step := drive.advance()) is not None:
        assert drive.committed is (step if isinstance(step, Committed) else None)
    assert drive.advance() is None
    assert drive.committed is not None and drive.committed.version == 1


def test_an_error_of_the_store_is_the_reply_to_its_step() -> None:
    store = ScriptedStore()
    drive = driven(store, Lock())
    drive.advance(), drive.advance()
    store.script.append(Fail("gone"))
    assert isinstance(drive.advance(), ReadWinner)
    assert isinstance(drive.reply, OSError)


def test_an_interrupt_ends_the_commit_after_one_question() -> None:
    def put(inner: Any, name: str, data: bytes) -> bool:
        inner.put_if_absent(name, data)
        raise KeyboardInterrupt

    store, lock = ScriptedStore(), Lock()
    drive = driven(store, lock)
    drive.advance(), drive.advance()
    store.script.append(put)
    reads = store.calls["read"]
    with pytest.raises(KeyboardInterrupt) as caught:
        drive.advance()
    assert store.calls["read"] == reads + 1 and isinstance(drive.step, Committed)
    assert not lock.is_held and lock.taken == 2
    assert "version 1 was committed" in caught.value.__notes__[0]
    drive.give_up()
    assert store.calls["read"] == reads + 1, "the end stays the end"


def test_what_is_given_up_before_its_put_asks_nothing() -> None:
    store = ScriptedStore()
    drive = driven(store, Lock())
    drive.advance(), drive.advance()
    calls = store.calls.copy()
    drive.give_up()
    assert store.calls == calls
    with pytest.raises(StopIteration):
        next(drive.steps)
