"""The contract of a transaction beyond the scenarios: misuse, commits, callbacks, durability, undo."""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import logging
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import (
    DeadlockError,
    DeltaError,
    IllegalStateError,
    IllegalUpgradeError,
    InvalidArgument,
    InvalidTransactionError,
    LockFailure,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import (
    CommitCallback,
    DurabilityMode,
    LockManager,
    LockMode,
    LockResult,
    Transaction,
    UpgradeRule,
)
from deltanb.locks.core.keys import partition_key
from deltanb.testing import MemoryIndex

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def manager() -> LockManager:
    return LockManager()


@pytest.fixture
def txn(manager: LockManager) -> Transaction:
    return manager.new_transaction()


class Log:
    """A participant that writes down what it is asked, and fails where it is told to."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[Any] = []
        self.fails = fails

    def undo(self, change: Any) -> None:
        self.calls.append(("undo", change))
        if self.fails == "undo":
            raise OSError("the disk is gone")

    def commit(self, changes: Sequence[Any], durability: DurabilityMode) -> None:
        self.calls.append(("commit", list(changes), durability.name))
        if self.fails == "commit":
            raise OSError("the disk is full")


# -- misuse ------------------------------------------------------------------------------------


def holding(txn: Transaction) -> Any:
    """All that can be seen of a transaction and its locks."""
    return (txn.manager.locks(), txn.scopes(), txn.lock_mode, txn.lock_timeout, txn.durability_mode, txn.id,
            txn.is_valid, txn.last_locked_key, txn.attachment)


def exclusive(txn: Transaction) -> None:
    txn.lock_exclusive(1, A)


def below_a_scope(txn: Transaction) -> None:
    txn.lock_shared(1, A)
    txn.enter()


def upgraded_later(txn: Transaction) -> None:
    txn.lock_upgradable(1, A)
    txn.lock_upgradable(1, B)
    txn.lock_exclusive(1, A)


def shared(txn: Transaction) -> None:
    txn.lock_shared(1, A)


def nothing(txn: Transaction) -> None:
    pass


MISUSE: list[tuple[Callable[[Transaction], None], Callable[[Transaction], Any], type[DeltaError], str]] = [
    (nothing, lambda t: t.unlock(), IllegalStateError, "no locks held"),
    (nothing, lambda t: t.unlock_to_shared(), IllegalStateError, "unlock_to_shared: no locks held"),
    (below_a_scope, lambda t: t.unlock(), IllegalStateError, "scope boundary: 1:a .* exit this scope first"),
    (below_a_scope, lambda t: t.unlock_to_shared(), IllegalStateError, "scope boundary"),
    (exclusive, lambda t: t.unlock(), IllegalStateError, "exclusive lock: 1:a .* commit, exit or roll back"),
    (upgraded_later, lambda t: t.unlock(), IllegalStateError, "non-immediate upgrade: 1:a"),
    (upgraded_later, lambda t: t.unlock_combine(), IllegalStateError,
     "combine an acquire with an upgrade: 1:b is acquired, 1:a is an upgrade"),
    (shared, lambda t: t.lock_exclusive(1, A), IllegalUpgradeError, "1:a cannot become exclusive"),
    (nothing, lambda t: t.lock_shared(1, "a"), InvalidArgument, "a key is bytes, found str: 'a'; encode it"),
    (nothing, lambda t: t.lock_shared(1, None), InvalidArgument, "a key is bytes, found NoneType"),
    (nothing, lambda t: t.lock_shared("1", A), InvalidArgument, "an index id is an integer of 64 bits"),
    (nothing, lambda t: t.lock_shared(True, A), InvalidArgument, "an index id is an integer"),
    (nothing, lambda t: t.lock_shared(2**63, A), InvalidArgument, "an index id is an integer of 64 bits"),
    (nothing, lambda t: t.lock_check(1, "a"), InvalidArgument, "a key is bytes"),
    (nothing, lambda t: t.was_acquired(1, "a"), InvalidArgument, "a key is bytes"),
    (nothing, lambda t: t.lock_shared(1, A, "soon"), InvalidArgument, "timeout takes seconds"),
    (nothing, lambda t: t.lock_shared(1, A, True), InvalidArgument, "timeout takes seconds"),
    (nothing, lambda t: t.lock_shared(1, A, float("nan")), InvalidArgument, "timeout takes seconds"),
    (nothing, lambda t: setattr(t, "lock_mode", None), InvalidArgument, "lock_mode takes one of UPGRADABLE"),
    (nothing, lambda t: setattr(t, "lock_mode", "NONE"), InvalidArgument, "found str: 'NONE'"),
    (nothing, lambda t: setattr(t, "durability_mode", None), InvalidArgument, "durability_mode takes one of"),
    (nothing, lambda t: setattr(t, "lock_timeout", "1"), InvalidArgument, "lock_timeout takes seconds"),
    (nothing, lambda t: t.lock_many([(1, A), (1, "b")]), InvalidArgument, "a key is bytes"),
    (nothing, lambda t: t.lock_many([A]), InvalidArgument, "pairs of an index id and a key"),
    (nothing, lambda t: t.lock_many([(1, A)], "unlocked"), InvalidArgument, "takes a mode of shared"),
]


@pytest.mark.parametrize(("before", "call", "error", "message"), MISUSE)
def test_misuse_is_refused_and_changes_nothing(
    txn: Transaction, before: Callable[[Transaction], None], call: Callable[[Transaction], Any],
    error: type[DeltaError], message: str,
) -> None:
    before(txn)
    was = holding(txn)
    with pytest.raises(error, match=message):
        call(txn)
    assert holding(txn) == was


BOGUS_REFUSES: list[Callable[[Transaction], Any]] = [
    lambda t: t.enter(), lambda t: t.check(), lambda t: t.attach("x"), lambda t: t.lock_shared(1, A),
    lambda t: t.try_lock_exclusive(1, A, 0), lambda t: t.lock_many([(1, A)]), lambda t: t.lock_check(1, A),
    lambda t: t.unlock(), lambda t: t.unlock_to_shared(), lambda t: t.unlock_combine(),
    lambda t: setattr(t, "lock_mode", "UNSAFE"), lambda t: setattr(t, "lock_timeout", 1),
    lambda t: setattr(t, "durability_mode", "SYNC"), lambda t: t.scope().__enter__(),
]


@pytest.mark.parametrize("call", BOGUS_REFUSES)
def test_bogus_is_no_transaction(call: Callable[[Transaction], Any]) -> None:
    with pytest.raises(IllegalStateError, match="BOGUS is not a transaction"):
        call(Transaction.BOGUS)


def test_what_bogus_can() -> None:
    bogus = dn.Transaction.BOGUS
    for call in (bogus.commit, bogus.commit_all, bogus.exit, bogus.close, bogus.rollback, bogus.reset,
                 bogus.flush):
        assert call() is None
    bogus.reset("cause")
    assert (bogus.id, bogus.is_bogus, bogus.is_nested, bogus.nesting_level) == (0, True, False, 0)
    assert (bogus.lock_mode, bogus.durability_mode) == (LockMode.UNSAFE, DurabilityMode.NO_REDO)
    assert (bogus.last_locked_index, bogus.last_locked_key, bogus.was_acquired(1, A)) == (0, None, False)
    assert bogus.attachment is None and bogus.waiting is None and not bogus.interrupt()


def test_keys_that_can_change_are_copied(txn: Transaction) -> None:
    key = bytearray(b"k")
    txn.lock_shared(1, key)
    key[0] = 0
    assert txn.last_locked_key == b"k"
    assert txn.lock_check(1, memoryview(b"k")) is LockResult.OWNED_SHARED


def test_a_transaction_of_another_manager_is_refused(txn: Transaction) -> None:
    index = MemoryIndex(1, {"k": "v"})
    assert index.load(txn, "k") == "v"
    other = LockManager().new_transaction()
    for use in (lambda: index.store(other, "k", "w"), lambda: index.cursor(other)):
        with pytest.raises(IllegalStateError, match="of another lock manager than index 1"):
            use()
    with pytest.raises(InvalidArgument, match="takes a transaction or None"):
        index.load("txn", "k")
    assert index.load(txn, "k") == "v" and other.manager.num_locks_held == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_is_told(txn: Transaction) -> None:
    txn.lock_shared(1, A)
    child = os.fork()
    if child == 0:  # whatever happens, it must not go on as a test run
        try:
            try:
                txn.lock_shared(1, B)
            except IllegalStateError as error:
                txn.reset()
                os._exit(0 if "forked" in str(error) and txn.manager.num_locks_held == 0 else 2)
            os._exit(1)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert txn.lock_shared(1, B) is LockResult.ACQUIRED


# -- invalid transactions ----------------------------------------------------------------------


INVALID: list[Callable[[Transaction], Any]] = [
    lambda t: t.check(), lambda t: t.commit(), lambda t: t.commit_all(), lambda t: t.enter(),
    lambda t: t.rollback(), lambda t: t.lock_shared(1, A), lambda t: t.lock_exclusive(1, A),
    lambda t: t.try_lock_upgradable(1, A, 0), lambda t: t.lock_many([(1, A)]), lambda t: t.lock_check(1, A),
    lambda t: t.unlock(), lambda t: t.unlock_combine(), lambda t: t.flush(),
    lambda t: MemoryIndex(1).load(t, A), lambda t: MemoryIndex(1).store(t, A, 1),
]


@pytest.mark.parametrize("call", INVALID)
def test_a_transaction_reset_with_a_cause_is_disabled(
    manager: LockManager, txn: Transaction, call: Callable[[Transaction], Any]
) -> None:
    cause = ValueError("the input is bad")
    txn.lock_exclusive(1, A)
    txn.enter()
    txn.reset(cause)
    txn.reset("a second cause")
    with pytest.raises(InvalidTransactionError, match="the input is bad") as caught:
        call(txn)
    assert caught.value.cause is caught.value.__cause__ is cause
    assert manager.num_locks_held == 0 and txn.nesting_level == 0
    txn.exit()
    txn.reset()


def test_reset_with_none_is_quiet_and_disables_only_if_it_fails(txn: Transaction) -> None:
    txn.lock_exclusive(1, A)
    txn.reset(None)
    txn.check()
    txn.changed(Log("undo"), 1)
    txn.reset(None)
    with pytest.raises(InvalidTransactionError, match="the disk is gone"):
        txn.check()


def test_what_cannot_be_undone_disables_the_transaction_and_frees_its_locks(txn: Transaction) -> None:
    good, bad = Log(), Log("undo")
    txn.lock_exclusive(1, A)
    for participant in (good, bad, good):
        txn.changed(participant, 1)
    with pytest.raises(OSError, match="the disk is gone"):
        txn.exit()
    assert good.calls == [("undo", 1)] * 2, "the others are undone all the same"
    assert txn.manager.num_locks_held == 0 and not txn.is_valid


def test_a_failed_commit_undoes_everything_and_disables(txn: Transaction) -> None:
    first, second = Log(), Log("commit")
    txn.lock_exclusive(1, A)
    txn.changed(first, 1)
    txn.changed(second, 2)
    txn.changed(first, 3)
    with pytest.raises(OSError, match="the disk is full") as caught:
        txn.commit()
    assert first.calls == [("commit", [1, 3], "SYNC"), ("undo", 3), ("undo", 1)]
    assert second.calls == [("commit", [2], "SYNC"), ("undo", 2)]
    assert txn.manager.num_locks_held == 0
    with pytest.raises(InvalidTransactionError) as invalid:
        txn.commit()
    assert invalid.value.cause is caught.value


# -- scopes ------------------------------------------------------------------------------------


def test_changes_of_a_scope_are_undone_the_last_first(txn: Transaction) -> None:
    log = Log()
    txn.changed(log, 1)
    txn.enter()
    txn.changed(log, 2)
    txn.commit()
    txn.changed(log, 3)
    txn.changed(log, 4)
    txn.exit()
    assert log.calls == [("undo", 4), ("undo", 3)]
    txn.commit()
    assert log.calls[2:] == [("commit", [1, 2], "SYNC")]
    txn.exit()
    assert len(log.calls) == 3, "what is committed is not undone"


def test_with_txn_exits_one_scope(txn: Transaction) -> None:
    txn.enter()
    with txn as same:
        assert same is txn
        txn.lock_shared(1, A)
    assert txn.nesting_level == 0 and txn.manager.num_locks_held == 0


def test_scope_commits_where_its_block_succeeds(txn: Transaction) -> None:
    log = Log()
    with txn.scope():
        txn.lock_exclusive(1, A)
        txn.changed(log, 1)
    with pytest.raises(KeyError), txn.scope():
        txn.lock_exclusive(1, B)
        txn.changed(log, 2)
        txn.enter()
        raise KeyError
    assert txn.nesting_level == 0 and log.calls == [("undo", 2)]
    assert [txn.lock_check(1, key).name for key in (A, B)] == ["OWNED_EXCLUSIVE", "UNOWNED"]


@pytest.mark.parametrize("unbalanced", [Transaction.enter, Transaction.exit])
def test_a_scope_that_its_block_does_not_leave_as_it_found_it_is_refused(
    txn: Transaction, unbalanced: Callable[[Transaction], None]
) -> None:
    log = Log()
    with pytest.raises(IllegalStateError, match="end each scope where it was entered"), txn.scope():
        txn.changed(log, 1)
        unbalanced(txn)
    assert txn.nesting_level == 0 and log.calls == [("undo", 1)]


def test_commit_all_from_the_depth(txn: Transaction) -> None:
    log = Log()
    for level in range(3):
        txn.lock_exclusive(1, b"%d" % level)
        txn.changed(log, level)
        txn.enter()
    txn.commit_all()
    assert log.calls == [("commit", [0, 1, 2], "SYNC")]
    assert txn.nesting_level == 0 and txn.manager.num_locks_held == 0


def test_ids_are_positive_and_new_after_the_outermost_end(manager: LockManager) -> None:
    txn, other = manager.new_transaction(), manager.new_transaction()
    ids = [txn.id, other.id]
    txn.enter()
    txn.commit()
    txn.exit()
    assert txn.id == ids[0] > 0
    for end in (txn.commit, txn.exit, txn.reset, txn.rollback):
        end()
        ids.append(txn.id)
    assert len(set(ids)) == len(ids)


def test_groups_within_groups(txn: Transaction) -> None:
    for key in (A, B, C):
        txn.lock_upgradable(1, key)
        txn.unlock_combine()
    txn.unlock_combine()  # there is nothing below
    txn.lock_shared(1, b"d")
    txn.unlock()
    assert txn.last_locked_key == C
    txn.unlock_to_shared()
    assert [txn.lock_check(1, key).name for key in (A, B, C)] == ["OWNED_SHARED"] * 3
    txn.unlock()
    assert txn.manager.num_locks_held == 0
    txn.unlock_combine()


def test_an_empty_stack_combines_to_nothing(txn: Transaction) -> None:
    txn.unlock_combine()
    txn.lock_shared(1, A)
    txn.unlock_combine()
    txn.unlock()
    assert txn.manager.num_locks_held == 0


# -- several at once ---------------------------------------------------------------------------


def test_lock_many_is_sorted_and_says_what_came_of_each(txn: Transaction) -> None:
    txn.lock_upgradable(1, B)
    results = txn.lock_many([(2, A), (1, C), (1, B), (1, C)])
    assert list(results.items()) == [((1, B), "UPGRADED"), ((1, C), "ACQUIRED"), ((2, A), "ACQUIRED")]
    assert txn.lock_many([]) == {}


@pytest.mark.parametrize("rule", ["STRICT", "UNCHECKED"])
def test_lock_many_gives_all_back_where_one_fails(rule: str) -> None:
    manager = LockManager(rule)
    txn, other = manager.new_transaction(), manager.new_transaction()
    other.lock_shared(1, b"z")
    txn.lock_upgradable(1, A)
    txn.lock_upgradable(1, B)
    if rule == "UNCHECKED":
        txn.lock_shared(1, C)
    was = holding(txn)
    with pytest.raises(LockTimeoutError, match="1:z"):
        txn.lock_many([(1, b"z"), (1, A), (1, b"n"), (1, B), (1, C)], timeout=0)
    assert holding(txn) == was


# -- durability and callbacks ------------------------------------------------------------------


class Notified(CommitCallback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pending(self, txn: Transaction, txn_id: int) -> None:
        self.calls.append(("pending", txn_id, txn.id != txn_id))

    def finished(self, txn: Transaction, txn_id: int, error: BaseException | None) -> None:
        self.calls.append(("finished", txn_id, error, txn.manager.num_locks_held))


@pytest.mark.parametrize("mode", ["SYNC", "NO_SYNC", "NO_REDO"])
def test_a_commit_that_is_done_at_once_calls_nobody_back(txn: Transaction, mode: str) -> None:
    log, notified = Log(), Notified()
    txn.attach(notified)
    txn.durability_mode = mode
    txn.lock_exclusive(1, A)
    txn.changed(log, 1)
    txn.commit()
    assert log.calls == [("commit", [1], mode)] and notified.calls == []


def test_a_commit_that_is_put_off_keeps_its_exclusive_locks(manager: LockManager, txn: Transaction) -> None:
    log, notified = Log(), Notified()
    txn.attach(notified)
    txn.durability_mode = "NO_FLUSH"
    first = txn.id
    txn.lock_upgradable(1, A)
    txn.lock_upgradable(1, B)
    txn.lock_exclusive(1, A)
    txn.lock_shared(1, C)
    txn.changed(log, 1)
    txn.commit()
    assert log.calls == [] and notified.calls == [("pending", first, True)]
    assert manager.num_pending == 1 and txn.id != first
    assert [(state.key, state.holders) for state in manager.locks()] == [(A, ((first, "exclusive"),))]
    with pytest.raises(LockTimeoutError) as caught:
        manager.new_transaction().lock_shared(1, A, 0)
    assert caught.value.owner_attachment is notified
    txn.lock_exclusive(1, B)
    txn.flush()
    assert log.calls == [("commit", [1], "NO_SYNC")]
    assert notified.calls[1:] == [("finished", first, None, 1)]
    assert manager.num_pending == 0 and txn.lock_exclusive(1, A) is LockResult.ACQUIRED


def test_a_commit_of_nothing_is_not_put_off(manager: LockManager, txn: Transaction) -> None:
    txn.durability_mode = "NO_FLUSH"
    txn.lock_exclusive(1, A)
    txn.commit()
    assert manager.num_pending == manager.num_locks_held == 0


def test_flush_publishes_what_can_be_and_tells_what_cannot(manager: LockManager) -> None:
    good, bad, notified = Log(), Log("commit"), Notified()
    ids = []
    for log, attachment in ((bad, notified), (good, None), (bad, None), (good, notified)):
        txn = manager.new_transaction()
        txn.attach(attachment)
        txn.durability_mode = "NO_FLUSH"
        txn.lock_exclusive(txn.id, A)
        txn.changed(log, txn.id)
        ids.append(txn.id)
        txn.commit()
    other = manager.new_transaction()
    other.flush()
    assert manager.num_pending == 4, "they are not its own"
    with pytest.raises(OSError, match="the disk is full"):
        manager.flush()
    assert manager.num_pending == manager.num_locks_held == 0
    assert [call[1] for call in notified.calls[2:]] == [ids[0], ids[3]]
    assert isinstance(notified.calls[2][2], OSError) and notified.calls[3][2] is None
    assert bad.calls.count(("undo", ids[0])) == bad.calls.count(("undo", ids[2])) == 1
    assert len(good.calls) == 2


def test_a_callback_that_fails_is_logged(txn: Transaction, caplog: pytest.LogCaptureFixture) -> None:
    class Fails(CommitCallback):
        def pending(self, txn: Transaction, txn_id: int) -> None:
            raise RuntimeError("not now")

    txn.attach(Fails())
    txn.durability_mode = "NO_FLUSH"
    txn.changed(Log(), 1)
    with caplog.at_level(logging.ERROR, "deltanb.locks"):
        txn.commit()
    assert "pending of transaction 1 failed" in caplog.text and "not now" in caplog.text
    txn.flush()


def test_a_change_that_was_put_off_is_undone_in_the_index_where_it_fails(manager: LockManager) -> None:
    index, log = MemoryIndex(1, {"k": 1}), Log("commit")
    txn = manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"
    index.store(txn, "k", 2)
    index.delete(txn, "k")
    txn.changed(log, "x")
    txn.commit()
    with pytest.raises(LockTimeoutError):
        txn.lock_shared(1, b"k", 0)
    with pytest.raises(OSError, match="full"):
        txn.flush()
    assert index.load(None, "k") == 1


# -- closing -----------------------------------------------------------------------------------


def test_a_closed_manager_grants_nothing(manager: LockManager, txn: Transaction) -> None:
    index = MemoryIndex(1, {"k": 1, "j": 1})
    other = manager.new_transaction()
    index.store(txn, "k", 2)
    txn.lock_shared(1, C)
    other.durability_mode = "NO_FLUSH"
    index.store(other, "j", 2)
    other.commit()
    manager.close()
    manager.close()
    assert manager.is_closed and manager.num_pending == 0
    assert txn.try_lock_shared(1, b"n", 0) is LockResult.INTERRUPTED
    with pytest.raises(LockInterruptedError, match="closed"):
        other.lock_exclusive(1, b"k")
    assert txn.lock_check(1, C) is LockResult.UNOWNED
    with pytest.raises(IllegalStateError, match="closed"):
        txn.commit()
    assert index.load(Transaction.BOGUS, "k") == 1, "nobody keeps others away, so it was undone"
    assert index.load(Transaction.BOGUS, "j") == 2, "it was published before"
    txn.exit()
    other.exit()
    assert [state.key for state in manager.locks()] == [b"k"], "for good"


# -- errors ------------------------------------------------------------------------------------


def test_the_tree_of_errors() -> None:
    assert issubclass(DeadlockError, LockTimeoutError) and issubclass(LockTimeoutError, LockFailure)
    assert issubclass(LockInterruptedError, LockFailure) and issubclass(IllegalUpgradeError, LockFailure)
    assert issubclass(LockFailure, DeltaError) and issubclass(InvalidTransactionError, DeltaError)
    assert not issubclass(InvalidTransactionError, LockFailure)


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_an_attachment_whose_str_fails_does_no_harm(manager: LockManager, txn: Transaction) -> None:
    attachment = Hostile()
    txn.attach(attachment)
    txn.lock_exclusive(1, A)
    message = r"held by txn #1 \(exclusive\); owner attachment: a Hostile whose str raises Runtime"
    with pytest.raises(LockTimeoutError, match=message) as caught:
        manager.new_transaction().lock_shared(1, A, 0)
    assert caught.value.owner_attachment is attachment
    assert (caught.value.index_id, caught.value.key, caught.value.timeout) == (1, A, 0)


def test_the_attachment_of_a_reader_is_named_to_writers_only(manager: LockManager) -> None:
    readers = [manager.new_transaction() for _ in range(3)]
    for reader, attachment in zip(readers, (None, "second", "third"), strict=True):
        reader.attach(attachment)
        reader.lock_shared(1, A)
    writer, planner = manager.new_transaction(), manager.new_transaction()
    with pytest.raises(LockTimeoutError) as caught:
        writer.lock_exclusive(1, A, 0)
    assert caught.value.owner_attachment == "second"
    readers[0].lock_upgradable(1, B)
    readers[1].lock_shared(1, B)
    with pytest.raises(LockTimeoutError) as caught:
        planner.lock_upgradable(1, B, 0)
    assert caught.value.owner_attachment is None


def test_errors_go_through_pickle(manager: LockManager, txn: Transaction) -> None:
    manager.new_transaction().lock_exclusive(1, A)
    with pytest.raises(LockTimeoutError) as caught:
        txn.lock_shared(1, A, 0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is LockTimeoutError and again.timeout == 0 and str(again) == str(caught.value)


def test_results_and_modes_are_their_names() -> None:
    for kind in (LockResult, LockMode, DurabilityMode):
        for member in kind:
            assert member == member.name == str(member) == f"{member}" and hash(member) == hash(member.name)
            assert copy.deepcopy(member) is pickle.loads(pickle.dumps(member)) is member
    held = {result.name for result in LockResult if result.is_held}
    owned = {"OWNED_SHARED", "OWNED_UPGRADABLE", "OWNED_EXCLUSIVE"}
    assert held == {"ACQUIRED", "UPGRADED", *owned}
    assert {result.name for result in LockResult if result.is_already_owned} == owned
    assert {result.name for result in LockResult if result.is_timed_out} == {"TIMED_OUT_LOCK"}


@pytest.mark.parametrize(("settings", "message"), [
    ({"upgrade_rule": "LAX"}, "upgrade_rule takes one of STRICT, LENIENT, UNCHECKED"),
    ({"upgrade_rule": None}, "upgrade_rule takes one of"),
    ({"detect": "never"}, "detect takes one of enqueue, timeout"),
    ({"lock_timeout": "1"}, "lock_timeout takes seconds"),
])
def test_settings_of_a_manager_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        LockManager(**settings)


def test_who_waits_for_a_commit_that_was_put_off_is_told_what_ends_that(manager: LockManager) -> None:
    index, txn = MemoryIndex(1), manager.new_transaction()
    txn.durability_mode = "NO_FLUSH"
    index.store(txn, b"k", b"1")
    txn.commit()
    with pytest.raises(LockTimeoutError, match=r"keeps it until it is flushed: manager\.flush\(\)"):
        txn.lock_shared(1, b"k", 0.001)
    manager.flush()
    assert txn.lock_shared(1, b"k", 0.001) == "ACQUIRED"


def test_the_class_of_a_callback_is_not_attached(txn: Transaction) -> None:
    with pytest.raises(InvalidArgument, match=r"attach\(CommitCallback\(\)\)"):
        txn.attach(CommitCallback)
    assert txn.attachment is None


# -- words -------------------------------------------------------------------------------------


def with_timeouts(kind: type) -> list[str]:
    return sorted(name for name, call in inspect.getmembers(kind, inspect.isfunction)
                  if not name.startswith("_") and "timeout" in inspect.signature(call).parameters)


@pytest.mark.parametrize("name", with_timeouts(Transaction))
@pytest.mark.parametrize("timeout", [0, dt.timedelta(0), dt.timedelta(microseconds=1), 1e-6])
def test_every_timeout_is_seconds_or_a_timedelta(name: str, timeout: Any) -> None:
    manager = LockManager()
    manager.new_transaction().lock_exclusive(1, A)
    call = getattr(manager.new_transaction(), name)
    args: tuple[Any, ...] = ([(1, A)],) if name == "lock_many" else (1, A)
    if name.startswith("try"):
        assert call(*args, timeout=timeout) is LockResult.TIMED_OUT_LOCK
        return
    with pytest.raises(LockTimeoutError) as caught:
        call(*args, timeout=timeout)
    asked = timeout.total_seconds() if isinstance(timeout, dt.timedelta) else timeout
    assert caught.value.timeout == asked or (name == "lock_many" and caught.value.timeout < asked)


@pytest.mark.parametrize(("value", "reads"), [
    (2, 2), (0.5, 0.5), (dt.timedelta(milliseconds=1500), 1.5), (dt.timedelta(0), 0), (-3, -1), (None, -1),
    (dt.timedelta(microseconds=-1), -1), (dt.timedelta.max, -1), (float("inf"), -1)])
def test_the_timeout_of_a_scope_reads_as_seconds(value: Any, reads: float) -> None:
    manager = LockManager(lock_timeout=value)
    txn = manager.new_transaction()
    assert manager.lock_timeout == txn.lock_timeout == reads
    manager.lock_timeout = 9
    assert (manager.new_transaction().lock_timeout, txn.lock_timeout) == (9, reads)
    manager.lock_timeout = value
    assert manager.lock_timeout == manager.new_transaction().lock_timeout == reads
    txn.lock_timeout = 7
    txn.enter()
    txn.lock_timeout = value
    assert txn.lock_timeout == reads
    txn.exit()
    assert txn.lock_timeout == 7
    for refused in (manager, txn):
        with pytest.raises(InvalidArgument, match="lock_timeout takes seconds or a timedelta"):
            refused.lock_timeout = "1s"  # type: ignore[assignment]


@pytest.mark.parametrize("index_id", [1, -1], ids=["key", "place of a table"])
def test_what_was_owned_already_was_not_just_acquired(index_id: int) -> None:
    """Whatever found it so: at a glance, under the mutex, or as one of many."""
    one, two = (partition_key([name]) if index_id < 0 else name.encode() for name in ("a", "b"))
    txn = LockManager().new_transaction()
    assert txn.lock_upgradable(index_id, one) == "ACQUIRED" and txn.was_acquired(index_id, one)
    for again in (txn.lock_shared, txn.lock_upgradable, txn.try_lock_shared):
        assert again(index_id, one).is_already_owned and not txn.was_acquired(index_id, one)
    assert txn.lock_exclusive(index_id, one) == "UPGRADED" and txn.was_acquired(index_id, one)
    assert txn.lock_exclusive(index_id, one).is_already_owned and not txn.was_acquired(index_id, one)
    assert txn.lock_shared(index_id, two) == "ACQUIRED" and txn.was_acquired(index_id, two)
    assert len(txn.lock_many([(index_id, one), (index_id, two)], "shared")) == 2
    assert not txn.was_acquired(index_id, two) and txn.last_locked_key == two
    txn.unlock()
    assert not txn.was_acquired(index_id, two)
    assert txn.lock_shared(index_id, two) == "ACQUIRED" and txn.was_acquired(index_id, two)
    with txn.scope():
        assert txn.lock_shared(index_id, two).is_already_owned and not txn.was_acquired(index_id, two)


def test_messages_have_the_text_of_an_attachment(manager: LockManager) -> None:
    class Job:
        def __str__(self) -> str:
            return "job 7,\nby night"

    holder = manager.new_transaction()
    holder.lock_exclusive(1, A)
    for attachment, text in ((Job(), r"job 7,\nby night"), ("planner", "planner"), (7, "7")):
        holder.attach(attachment)
        with pytest.raises(LockTimeoutError) as caught:
            manager.new_transaction().lock_shared(1, A, 0)
        assert f"; owner attachment: {text}; wait longer" in str(caught.value)
        assert caught.value.owner_attachment is attachment


def test_every_result_and_mode_is_its_name_in_a_text() -> None:
    for kind in (LockResult, LockMode, DurabilityMode, UpgradeRule):
        for member in kind:
            assert str(member) == f"{member}" == repr(member) == member.name


def test_a_disabled_transaction_says_why(txn: Transaction) -> None:
    txn.reset(OSError("the disk is full"))
    with pytest.raises(InvalidTransactionError, match="is disabled: OSError: the disk is full; it can still"):
        txn.commit()
