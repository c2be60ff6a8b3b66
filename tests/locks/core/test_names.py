"""What transactions are called, and that errors call them so."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from deltanb.errors import DeadlockError, InvalidArgument, LockTimeoutError
from deltanb.locks import LockManager
from deltanb.locks.core.names import MAX_NAME, called
from tests.locks.clockwork import Clockwork


def transfer(manager: LockManager) -> str:
    return manager.new_transaction().name


def test_a_name_is_the_argument_else_the_function_else_the_thread() -> None:
    manager, names = LockManager(), []
    assert manager.new_transaction("nightly").name == "nightly"
    assert transfer(manager) == "transfer"
    threads = [threading.Thread(target=lambda: names.append(manager.new_transaction().name), name="loader"),
               threading.Thread(target=lambda: names.append(transfer(manager)))]
    for thread in threads:
        thread.start()
        thread.join()
    assert names == ["loader", "transfer"]


def test_functions_that_only_call_others_name_nothing() -> None:
    manager = LockManager()

    @contextmanager
    def lent():  # type: ignore[no-untyped-def]
        yield manager.new_transaction()

    with lent() as txn:
        assert txn.name == "lent"
    assert eval("manager.new_transaction().name", {"manager": manager}) == ""


def test_a_text_that_is_attached_names_a_transaction_without_a_name() -> None:
    manager = LockManager()
    ann, ben = manager.new_transaction(), manager.new_transaction("ben")
    own = ann.name
    for txn in (ann, ben):
        txn.attach("planner")
    assert (ann.name, ben.name) == ("planner", "ben")
    ann.lock_shared(1, b"k")
    ann.commit()
    assert str(ann.id) == "planner #3" and ann.id == 3
    ann.attach(None)
    assert ann.name == own


def test_names_are_texts_on_a_line_and_not_long() -> None:
    manager = LockManager()
    with pytest.raises(InvalidArgument, match="name takes what .* called, as text, found int: 7"):
        manager.new_transaction(7)  # type: ignore[arg-type]
    name = manager.new_transaction("a\nb" + "x" * 99).name
    assert "\n" not in name and len(name) == MAX_NAME
    assert called(manager.new_transaction("").id) == "transaction 2"


def test_timeouts_name_who_holds_the_lock_and_in_which_mode() -> None:
    manager = LockManager()
    ann, ben, cid = (manager.new_transaction(name) for name in ("ann", "ben", "cid"))
    ann.lock_shared(1, b"k")
    ben.lock_shared(1, b"k")
    with pytest.raises(LockTimeoutError, match=r"held by ann #1 \(shared\), ben #2 \(shared\)"):
        cid.lock_exclusive(1, b"k", 0)


def test_deadlocks_name_who_waits_for_whom_and_in_which_mode() -> None:
    with Clockwork() as clockwork:
        ann, ben = (clockwork.manager.new_transaction(name) for name in ("ann", "ben"))
        ann.lock_exclusive(1, b"a")
        ben.lock_upgradable(1, b"b")
        call = clockwork.start(ann, lambda: ann.lock_exclusive(1, b"b"))
        with pytest.raises(DeadlockError) as caught:
            ben.lock_shared(1, b"a")
        ben.exit()
        clockwork.finish(call)
    assert "ben #2 waits for 1:a (shared) held by ann #1" in str(caught.value)
    assert "ann #1 waits for 1:b (exclusive) held by ben #2" in str(caught.value)
