"""Works in a simulated time take turns, and nobody waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.options import options
from deltanb.testing import SimulatedTime


def test_whose_wait_ends_first_goes_on_and_of_two_the_one_who_waited_longer() -> None:
    time, seen = SimulatedTime(), list[tuple[str, float]]()

    def work(name: str, *waits: float) -> None:
        for seconds in waits:
            time.sleep(seconds)
            seen.append((name, time.now))

    time.run([lambda: work("a", 3, 0), lambda: work("b", 1, 2), lambda: work("c", 1)])
    assert seen == [("b", 1), ("c", 1), ("a", 3), ("b", 3), ("a", 3)]


def test_time_goes_on_from_run_to_run_and_by_hand() -> None:
    time = SimulatedTime()
    time.run([lambda: time.sleep(5)])
    time.sleep(1)
    assert time.run([lambda: time.now]) == [6]
    assert time.run([]) == []


def test_works_have_the_settings_of_their_caller() -> None:
    with dn.set_options(user_name="ann"):
        assert SimulatedTime().run([lambda: options.user_name] * 2) == ["ann", "ann"]


def test_all_go_on_to_their_ends_and_the_first_failure_is_raised() -> None:
    time, done = SimulatedTime(), list[float]()

    def fail(seconds: float) -> None:
        time.sleep(seconds)
        raise ValueError(seconds)

    def end() -> None:
        time.sleep(9)
        done.append(time.now)

    with pytest.raises(ValueError, match="^2$"):
        time.run([lambda: fail(2), lambda: fail(1), end])
    assert done == [9]


@pytest.mark.parametrize("seconds", [None, "1", True, float("nan"), float("inf")])
def test_a_wait_is_a_number(seconds: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="a number of seconds"):
        SimulatedTime().sleep(seconds)


def test_works_are_functions() -> None:
    with pytest.raises(errors.InvalidArgument, match="functions without arguments"):
        SimulatedTime().run([3])  # type: ignore[list-item]


def locked(time: SimulatedTime) -> tuple[Any, Any]:
    manager = dn.locks.LockManager(park=time.park)
    holder, other = manager.new_transaction(), manager.new_transaction()
    holder.lock_exclusive(1, b"k")
    return holder, other


def test_a_lock_is_waited_for_in_this_time() -> None:
    time = SimulatedTime()
    holder, other = locked(time)
    other.lock_timeout = 10

    def release() -> None:
        time.sleep(4)
        holder.commit()

    def take() -> float:
        other.lock_exclusive(1, b"k")
        return time.now

    assert time.run([take, release]) == [4, None]


def test_a_wait_for_a_lock_ends_with_its_timeout() -> None:
    time = SimulatedTime()
    _, other = locked(time)
    other.lock_timeout = 10
    with pytest.raises(errors.LockTimeoutError):
        time.run([lambda: other.lock_exclusive(1, b"k"), lambda: time.sleep(3)])
    assert time.now == 10


def test_nobody_waits_for_ever() -> None:
    class Never:
        result = None

    time = SimulatedTime()
    with pytest.raises(errors.IllegalStateError, match="nobody is left to release"):
        time.run([lambda: time.park(Never(), None), lambda: time.sleep(3)])
    assert time.now == 3


def test_who_takes_long_gets_through_by_keeping_locks(tmp_path: Path) -> None:
    """Short updates without an end are in the way of a long one; under locks they wait for it."""
    options.durability = "none"
    table = dn.create(tmp_path / "t", {"n": [0]})

    def outcome(keep_locks: bool) -> Any:
        time, busy = SimulatedTime(), [True]
        manager = dn.locks.LockManager(park=time.park)

        def change(seconds: float) -> int:
            with table.transaction() as txn:
                number = txn.to_arrow()["n"][0].as_py()
                time.sleep(seconds)
                txn.update({"n": str(number + 1)})
            return 1

        def again(seconds: float) -> int:
            return dn.retry(lambda: change(seconds), 5, keep_locks=keep_locks, after=2, manager=manager,
                            sleep=time.sleep, jitter=lambda: 1)

        def short() -> None:
            while busy[0]:
                again(0.1)

        def long() -> int:
            try:
                return again(1)
            finally:
                busy[0] = False

        return time.run([short, long])[1]

    assert outcome(keep_locks=True) == 1
    with pytest.raises(errors.ConcurrentAppendException):
        outcome(keep_locks=False)
