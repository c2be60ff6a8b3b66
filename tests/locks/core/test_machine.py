"""Whatever four transactions do in whatever order, each lock is where a simple model says it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deltanb.errors import (
    DeadlockError,
    IllegalStateError,
    IllegalUpgradeError,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import LockResult
from deltanb.locks.core.modes import EXCLUSIVE, MODE_NAMES, NONE, OWNED, SHARED, UPGRADABLE
from tests.examples import every, few, longer
from tests.locks.clockwork import Call, Clockwork
from tests.locks.model import ModelLock, Request, result_of, stuck

KEYS = [b"a", b"b", b"c"]
TXNS = range(4)
MODES = [SHARED, UPGRADABLE, EXCLUSIVE]
TIMEOUTS = [0, 1, 5, -1]


class Side:
    """A transaction of the model: its scopes, each with what it held at the start, and what it waits for."""

    def __init__(self) -> None:
        self.began: list[dict[bytes, int]] = [{}]
        self.taken: list[tuple[bytes, str]] = []
        self.floors = [0]
        self.request: Request | None = None
        self.key = b""
        self.until = 0.0
        self.call: Call | None = None


def machine(upgrade_rule: str) -> type[RuleBasedStateMachine]:
    """The rules of a lock manager under one upgrade rule."""

    class Locks(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.clockwork = Clockwork(upgrade_rule=upgrade_rule)
            self.manager = self.clockwork.manager
            self.txns = [self.manager.new_transaction() for _ in TXNS]
            self.sides = [Side() for _ in TXNS]
            self.locks = {key: ModelLock() for key in KEYS}

        def teardown(self) -> None:
            for at in TXNS:
                if self.sides[at].request is not None:
                    self.interrupt(at)
                self.reset(at)
            assert self.manager.num_locks_held == self.manager.num_waiting == 0
            self.clockwork.__exit__()

        # -- helpers ---------------------------------------------------------------------------

        def idle(self, at: int) -> bool:
            return self.sides[at].request is None

        def do(self, at: int, work: Callable[[], Any]) -> Any:
            return self.clockwork.do(self.txns[at], work)

        def held(self, at: int) -> dict[bytes, int]:
            return {key: lock.held[at] for key, lock in self.locks.items() if at in lock.held}

        def weaken(self, at: int, key: bytes, to: int) -> None:
            self.granted(self.locks[key].weaken(at, to))

        def granted(self, requests: list[Request]) -> None:
            for request in requests:
                side = self.sides[request.txn]
                side.request = None
                self.note(request.txn, side.key, result_of(request))
                assert side.call is not None
                self.clockwork.finish(side.call, within=0)
                assert side.call.result() is result_of(request)

        def note(self, at: int, key: bytes, result: LockResult) -> None:
            side = self.sides[at]
            if result is LockResult.ACQUIRED:
                side.taken.append((key, "acquire"))
            elif result is LockResult.UPGRADED:
                top = side.taken[-1] if len(side.taken) > side.floors[-1] else None
                if top is None or top[0] != key:
                    side.taken.append((key, "upgrade"))

        # -- locks -----------------------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS), key=st.sampled_from(KEYS), mode=st.sampled_from(MODES),
              timeout=st.sampled_from(TIMEOUTS), is_try=st.booleans())
        def lock(self, at: int, key: bytes, mode: int, timeout: float, is_try: bool) -> None:
            if not self.idle(at):
                return
            txn, side = self.txns[at], self.sides[at]
            name = f"{'try_' if is_try else ''}lock_{MODE_NAMES[mode]}"
            expected = self.locks[key].ask(at, mode, self.manager.upgrade_rule)
            closes = isinstance(expected, Request) and at in stuck(self.locks)
            call = self.clockwork.start(txn, lambda: getattr(txn, name)(1, key, timeout))
            if isinstance(expected, Request) and (closes or timeout == 0):
                self.granted(self.locks[key].cancel(expected))
                if closes and not (timeout == 0 and is_try):
                    with pytest.raises(DeadlockError) as caught:
                        call.result()
                    assert caught.value.guilty and txn.id in caught.value.cycle.transactions
                elif is_try:
                    assert call.result() is LockResult.TIMED_OUT_LOCK
                else:
                    with pytest.raises(LockTimeoutError):
                        call.result()
            elif isinstance(expected, Request):
                assert call.is_waiting
                side.request, side.key, side.call = expected, key, call
                side.until = float("inf") if timeout < 0 else self.clockwork.now + timeout
            elif expected is LockResult.ILLEGAL and not is_try:
                with pytest.raises(IllegalUpgradeError):
                    call.result()
            else:
                assert call.result() is expected
                self.note(at, key, expected)

        @rule(at=st.sampled_from(TXNS))
        def unlock(self, at: int) -> None:
            if self.idle(at):
                self.expect_unlock(at, self.txns[at].unlock, NONE)

        @rule(at=st.sampled_from(TXNS))
        def unlock_to_shared(self, at: int) -> None:
            if self.idle(at):
                self.expect_unlock(at, self.txns[at].unlock_to_shared, SHARED)

        def expect_unlock(self, at: int, work: Callable[[], None], to: int) -> None:
            side = self.sides[at]
            own = side.taken[side.floors[-1]:]
            if not own or own[-1][1] == "upgrade" or self.held(at)[own[-1][0]] == EXCLUSIVE:
                with pytest.raises(IllegalStateError):
                    self.do(at, work)
                return
            self.do(at, work)
            key = own[-1][0]
            if to == NONE:
                side.taken.pop()
            self.weaken(at, key, to)

        # -- scopes ----------------------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS))
        def enter(self, at: int) -> None:
            if self.idle(at) and len(self.sides[at].began) < 4:
                self.do(at, self.txns[at].enter)
                self.sides[at].began.append(self.held(at))
                self.sides[at].floors.append(len(self.sides[at].taken))

        @rule(at=st.sampled_from(TXNS))
        def commit(self, at: int) -> None:
            if not self.idle(at):
                return
            side = self.sides[at]
            self.do(at, self.txns[at].commit)
            if len(side.began) > 1:
                side.began[-1], side.floors[-1] = self.held(at), len(side.taken)
            else:
                self.release(at)

        @rule(at=st.sampled_from(TXNS), is_rollback=st.booleans())
        def exit(self, at: int, is_rollback: bool) -> None:
            if not self.idle(at):
                return
            side, txn = self.sides[at], self.txns[at]
            self.do(at, txn.rollback if is_rollback else txn.exit)
            self.release(at)
            if len(side.began) > 1 and not is_rollback:
                side.began.pop()
                side.floors.pop()

        @rule(at=st.sampled_from(TXNS))
        def reset(self, at: int) -> None:
            if not self.idle(at):
                return
            self.do(at, self.txns[at].reset)
            self.sides[at].began, self.sides[at].floors = [{}], [0]
            self.release(at)

        def release(self, at: int) -> None:
            """What the scope took goes, what it made exclusive is upgradable, the last one first."""
            side = self.sides[at]
            began = side.began[-1]
            for key, kind in reversed(side.taken[side.floors[-1]:]):
                self.weaken(at, key, UPGRADABLE if kind == "upgrade" else NONE)
            del side.taken[side.floors[-1]:]
            for key, mode in self.held(at).items():
                assert mode in (began[key], UPGRADABLE)

        # -- time and interrupts ---------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS))
        def interrupt(self, at: int) -> None:
            side = self.sides[at]
            assert self.txns[at].interrupt() == (side.request is not None)
            if side.request is not None:
                self.end_wait(at, LockInterruptedError, LockResult.INTERRUPTED)

        def end_wait(self, at: int, error: type[Exception], result: LockResult) -> None:
            side = self.sides[at]
            assert side.call is not None and side.request is not None
            self.clockwork.finish(side.call, within=0)
            if side.call.error is None:
                assert side.call.value is result
            else:
                assert isinstance(side.call.error, error)
            request, side.request = side.request, None
            self.granted(self.locks[side.key].cancel(request))

        @precondition(lambda self: any(side.request for side in self.sides))
        @rule(seconds=st.sampled_from([0.5, 1, 4]))
        def time_passes(self, seconds: float) -> None:
            end = self.clockwork.now + seconds
            while True:
                late = [at for at in TXNS if not self.idle(at) and self.sides[at].until <= end]
                if not late:
                    break
                first = min(late, key=lambda at: (self.sides[at].until, self.sides[at].request is None))
                until = self.sides[first].until
                together = [at for at in late if self.sides[at].until == until]
                if len(together) > 1:  # which of them is first is not said: end them one by one
                    for at in together:
                        if not self.idle(at):
                            self.interrupt(at)
                    continue
                self.clockwork.pass_time(until - self.clockwork.now)
                self.end_wait(first, LockTimeoutError, LockResult.TIMED_OUT_LOCK)
            self.clockwork.pass_time(end - self.clockwork.now)

        # -- what always holds -----------------------------------------------------------------

        @invariant()
        def locks_are_those_of_the_model(self) -> None:
            if not hasattr(self, "locks"):
                return
            states = {state.key: state for state in self.manager.locks()}
            ids = [txn.id for txn in self.txns]
            for key, lock in self.locks.items():
                lock.check()
                held = dict(states[key].holders) if key in states else {}
                assert held == {ids[at]: MODE_NAMES[mode] for at, mode in lock.held.items()}
                waiting = [txn for txn, _ in states[key].waiters] if key in states else []
                assert waiting == [ids[request.txn] for request in lock.queue]
            assert stuck(self.locks) == set()
            assert self.manager.num_locks_held == sum(bool(lock.held) for lock in self.locks.values())

        @invariant()
        def transactions_say_what_they_hold(self) -> None:
            for at, txn in enumerate(self.txns if hasattr(self, "txns") else ()):
                held = self.held(at)
                assert [txn.lock_check(1, key) for key in KEYS] == [OWNED[held.get(key, 0)] for key in KEYS]
                side = self.sides[at]
                own = side.taken[side.floors[-1]:]
                assert txn.last_locked_key == (own[-1][0] if own else None)
                assert txn.nesting_level == len(side.began) - 1
                assert (txn.waiting is not None) == (side.request is not None)

    return Locks


@pytest.mark.parametrize("upgrade_rule", ["STRICT", "LENIENT", "UNCHECKED"])
def test_manager_against_the_model(upgrade_rule: str) -> None:
    run_state_machine_as_test(machine(upgrade_rule),
                              settings=few)


@pytest.mark.slow
@pytest.mark.parametrize("upgrade_rule", every(3, ["STRICT", "LENIENT", "UNCHECKED"]))
def test_manager_against_the_model_for_longer(upgrade_rule: str) -> None:
    run_state_machine_as_test(machine(upgrade_rule),
                              settings=longer)
