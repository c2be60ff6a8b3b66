"""Work aside stops where it waits for a lock, and goes on where it is joined."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError, InvalidArgument, LockTimeoutError
from deltanb.options import options, set_options

KEY = (1, b"south")


@pytest.fixture
def manager() -> Any:
    return dn.locks.LockManager(lock_timeout=None)


def test_work_that_waits_for_nothing_is_done_at_once() -> None:
    beside = dn.testing.aside(lambda: 42)
    assert repr(beside) == "<aside: done>" and not beside.is_waiting
    assert beside.join() == beside.join() == 42


def test_it_waits_until_the_lock_is_released_and_somebody_joins(manager: Any) -> None:
    ann, ben = manager.new_transaction(), manager.new_transaction()
    ben.lock_exclusive(*KEY)
    done: list[str] = []
    beside = dn.testing.aside(lambda: (ann.lock_exclusive(*KEY), done.append("ann")))
    assert beside.is_waiting and "waits for" in repr(beside) and "exclusive" in repr(beside)
    with pytest.raises(IllegalStateError, match="still waits for .* end the transaction that holds it"):
        beside.join()
    ben.exit()
    assert not beside.is_waiting and done == [] and repr(beside) == "<aside: goes on>"
    beside.join()
    assert done == ["ann"]
    ann.exit()
    assert manager.num_locks_held == 0


def test_its_error_is_raised_where_it_is_joined(manager: Any) -> None:
    ann, ben = manager.new_transaction(), manager.new_transaction()
    ben.lock_exclusive(*KEY)
    ann.lock_timeout = 0
    beside = dn.testing.aside(lambda: ann.lock_exclusive(*KEY))
    with pytest.raises(LockTimeoutError):
        beside.join()
    ben.exit()


def test_a_deadlock_is_closed_by_who_comes_last(manager: Any) -> None:
    ann, ben = manager.new_transaction(), manager.new_transaction()
    ann.lock_exclusive(1, b"north")
    ben.lock_exclusive(*KEY)
    beside = dn.testing.aside(lambda: ann.lock_exclusive(*KEY))
    with pytest.raises(dn.errors.DeadlockError):
        ben.lock_exclusive(1, b"north")
    ben.exit()
    beside.join()
    ann.exit()


def test_what_it_sets_is_its_own() -> None:
    with set_options(max_rows=5):
        before = options.max_rows
        beside = dn.testing.aside(lambda: (options.max_rows, set_options(max_rows=3), options.max_rows))
        assert beside.join()[::2] == (5, 3) and options.max_rows == before


def test_it_takes_a_function() -> None:
    with pytest.raises(InvalidArgument, match="a function without arguments"):
        dn.testing.aside(42)  # type: ignore[arg-type]
