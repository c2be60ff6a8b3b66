"""Whatever four transactions lock of a table in whatever order, each lock is where a simple model says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings
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
    LockFailure,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks import LockResult
from deltanb.locks.core.batch import Batches, tree_of
from deltanb.locks.core.granules import Granule
from deltanb.locks.core.keys import partition_key, row_key
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    IS,
    IX,
    JOINED,
    MODE_NAMES,
    MODES,
    NONE,
    OWNED,
    SHARED,
    base_of,
    intention_of,
)
from deltanb.locks.core.stack import Locker
from tests.examples import every, few, longer
from tests.locks.clockwork import Call, Clockwork
from tests.locks.model import Request, stuck
from tests.locks.tree_model import ModelGranule, result_of

KEYS = [b"", partition_key(["1"]), partition_key(["2"]), row_key(["1"], (1,)), row_key(["1"], (2,))]
TXNS = range(4)
PLACES = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(MODES)), min_size=1, max_size=2)


class Steps(Clockwork):
    """A clockwork whose threads go on after a wait only when they are told to."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.resume: dict[Waiter, threading.Semaphore] = {}

    def _park(self, waiter: Waiter, timeout: float | None) -> bool:
        self.resume[waiter] = threading.Semaphore(0)
        came = super()._park(waiter, timeout)
        if came:
            self.resume[waiter].acquire()
        return came

    def go_on(self, call: Call) -> None:
        """Let a call whose wait has ended go on, until it is done or waits again."""
        waiter, call.waiter = call.waiter, None
        assert waiter is not None and waiter.result is not None
        self.resume[waiter].release()
        while not call.is_done and call.waiter is None:
            self._take_news()


class Side:
    """A transaction of the model: its stack, its scopes, and the call that it is in."""

    def __init__(self) -> None:
        self.stack: list[tuple[bytes, int]] = []
        self.floors = [0]
        self.began: list[dict[bytes, int]] = [{}]
        self.todo: list[tuple[bytes, int]] = []
        self.height = 0
        self.request: Request | None = None
        self.results: dict[bytes, Any] = {}
        self.call: Call | None = None
        self.until = 0.0


def machine(upgrade_rule: str) -> type[RuleBasedStateMachine]:
    """The rules of a lock manager whose transactions lock places of one table."""

    class Trees(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.clockwork = Steps(upgrade_rule=upgrade_rule)
            self.manager = self.clockwork.manager
            self.txns = [self.manager.new_transaction() for _ in TXNS]
            self.sides = [Side() for _ in TXNS]
            self.locks = {key: ModelGranule() for key in KEYS}
            self.woken: set[int] = set()

        def teardown(self) -> None:
            if not hasattr(self, "clockwork"):
                return
            for at in TXNS:
                if self.sides[at].request is not None:
                    self.interrupt(at)
            for at in TXNS:
                self.reset(at)
            assert self.manager.num_locks_held == self.manager.num_waiting == 0
            self.clockwork.__exit__()

        # -- helpers ---------------------------------------------------------------------------

        def idle(self, at: int) -> bool:
            return self.sides[at].call is None

        def do(self, at: int, work: Callable[[], Any]) -> Any:
            return self.clockwork.do(self.txns[at], work)

        def held(self, at: int) -> dict[bytes, int]:
            return {key: lock.held[at] for key, lock in self.locks.items() if at in lock.held}

        def note(self, at: int, key: bytes, had: int, result: LockResult) -> None:
            self.sides[at].results[key] = result
            if result in ("ACQUIRED", "UPGRADED"):
                self.sides[at].stack.append((key, had))

        def granted(self, requests: list[Request]) -> None:
            for request in requests:
                side = self.sides[request.txn]
                side.request = None
                self.note(request.txn, side.todo.pop(0)[0], request.had, result_of(request))
                self.woken.add(request.txn)

        def give_back(self, at: int, height: int) -> None:
            stack = self.sides[at].stack
            while len(stack) > height:
                key, had = stack.pop()
                self.granted(self.locks[key].weaken(at, had))

        def advance(self, at: int) -> type[LockFailure] | None:
            """What the call of a transaction does next, in the model: the error it ends with, if any."""
            side = self.sides[at]
            while side.todo:
                key, mode = side.todo[0]
                had = self.held(at).get(key, NONE)
                answer = self.locks[key].ask(at, mode, self.manager.upgrade_rule)
                if isinstance(answer, Request):
                    is_late = self.clockwork.now >= side.until
                    if at not in (hopeless := stuck(self.locks)) and not is_late:
                        side.request = answer
                        return None
                    self.granted(self.locks[key].cancel(answer))
                    return DeadlockError if at in hopeless else LockTimeoutError
                if answer is LockResult.ILLEGAL:
                    return IllegalUpgradeError
                self.note(at, key, had, answer)
                side.todo.pop(0)
            return None

        def follow(self, at: int, error: type[LockFailure] | None) -> None:
            """The call ends as the model says, or waits."""
            side = self.sides[at]
            call = side.call
            assert call is not None
            if side.request is not None:
                assert call.is_waiting, call.error
                return
            assert call.is_done and type(call.error) is (error or type(None)), (call.error, error)
            if error is not None:
                self.give_back(at, side.height)
            side.call, side.todo = None, []

        def settle(self) -> None:
            """Those who were granted a lock go on, one after the other."""
            while self.woken:
                at = min(self.woken)
                self.woken.remove(at)
                call = self.sides[at].call
                assert call is not None
                error = self.advance(at)
                self.clockwork.go_on(call)
                self.follow(at, error)

        def ask(self, at: int, todo: Sequence[tuple[bytes, int]], timeout: float,
                work: Callable[[], Any]) -> None:
            side = self.sides[at]
            side.todo, side.height, side.results = list(todo), len(side.stack), {}
            side.until = float("inf") if timeout < 0 else self.clockwork.now + timeout
            error = self.advance(at)
            side.call = self.clockwork.start(self.txns[at], work)
            self.follow(at, error)
            self.settle()

        # -- locks -----------------------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS), wants=PLACES, timeout=st.sampled_from([0, 1, 5, -1]))
        def lock_tree(self, at: int, wants: list[tuple[bytes, int]], timeout: float) -> None:
            if self.idle(at):
                txn, side = self.txns[at], self.sides[at]
                todo = [(name[1], mode) for name, mode in tree_of(-1, wants)]
                self.ask(at, todo, timeout, lambda: self.manager.lock_tree(txn._locker, -1, wants, timeout))
                if side.call is None and side.results.keys() >= {key for key, _ in wants}:
                    call = self.clockwork._last[txn]
                    assert call.error or call.value == [side.results[key] for key, _ in wants]

        @rule(at=st.sampled_from(TXNS), key=st.sampled_from(KEYS), mode=st.sampled_from([1, 2, 3]))
        def lock(self, at: int, key: bytes, mode: int) -> None:
            if self.idle(at):
                txn = self.txns[at]
                self.ask(at, [(key, mode)], 0, lambda: getattr(txn, f"lock_{MODE_NAMES[mode]}")(-1, key, 0))

        @rule(at=st.sampled_from(TXNS), entries=st.integers(0, 5))
        def give_back_tree(self, at: int, entries: int) -> None:
            if self.idle(at):
                side = self.sides[at]
                height = max(side.floors[-1], len(side.stack) - entries)
                self.do(at, lambda: self.manager.give_back_tree(self.txns[at]._locker, height))
                self.give_back(at, height)
                self.settle()

        @rule(at=st.sampled_from(TXNS), to=st.sampled_from([NONE, SHARED]))
        def unlock(self, at: int, to: int) -> None:
            if not self.idle(at):
                return
            side, txn = self.sides[at], self.txns[at]
            work = txn.unlock if to == NONE else txn.unlock_to_shared
            own = side.stack[side.floors[-1]:]
            mode = self.held(at)[own[-1][0]] if own else EXCLUSIVE
            if base_of(mode) == EXCLUSIVE or intention_of(mode) == IX:
                with pytest.raises(IllegalStateError):
                    self.do(at, work)
                return
            self.do(at, work)
            key, had = own[-1]
            if to == NONE:
                side.stack.pop()
            else:
                had = JOINED[had][(base_of(mode) and SHARED) | (intention_of(mode) and IS)]
            self.granted(self.locks[key].weaken(at, had))
            self.settle()

        # -- scopes ----------------------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS))
        def enter(self, at: int) -> None:
            if self.idle(at) and len(self.sides[at].floors) < 4:
                self.do(at, self.txns[at].enter)
                self.sides[at].floors.append(len(self.sides[at].stack))
                self.sides[at].began.append(self.held(at))

        @rule(at=st.sampled_from(TXNS))
        def commit(self, at: int) -> None:
            if not self.idle(at):
                return
            side = self.sides[at]
            self.do(at, self.txns[at].commit)
            if len(side.floors) > 1:
                side.floors[-1], side.began[-1] = len(side.stack), self.held(at)
            else:
                self.give_back(at, 0)
            self.settle()

        @rule(at=st.sampled_from(TXNS), is_rollback=st.booleans())
        def exit(self, at: int, is_rollback: bool) -> None:
            if not self.idle(at):
                return
            side, txn = self.sides[at], self.txns[at]
            self.do(at, txn.rollback if is_rollback else txn.exit)
            self.give_back(at, side.floors[-1])
            assert self.held(at) == side.began[-1], "exactly what it was"
            if len(side.floors) > 1 and not is_rollback:
                side.floors.pop()
                side.began.pop()
            self.settle()

        @rule(at=st.sampled_from(TXNS))
        def reset(self, at: int) -> None:
            if self.idle(at):
                self.do(at, self.txns[at].reset)
                self.sides[at].floors, self.sides[at].began = [0], [{}]
                self.give_back(at, 0)
                self.settle()

        # -- time and interrupts ---------------------------------------------------------------

        @rule(at=st.sampled_from(TXNS))
        def interrupt(self, at: int) -> None:
            side = self.sides[at]
            assert self.txns[at].interrupt() == (side.request is not None)
            if side.request is not None:
                assert side.call is not None
                request, side.request = side.request, None
                self.granted(self.locks[side.todo[0][0]].cancel(request))
                self.clockwork.go_on(side.call)
                self.follow(at, LockInterruptedError)
                self.settle()

        @precondition(lambda self: any(side.request for side in self.sides))
        @rule(seconds=st.sampled_from([0.5, 1, 4]))
        def time_passes(self, seconds: float) -> None:
            end = self.clockwork.now + seconds
            while late := [at for at in TXNS if self.sides[at].request and self.sides[at].until <= end]:
                until = min(self.sides[at].until for at in late)
                together = [at for at in late if self.sides[at].until == until]
                if len(together) > 1:  # which of them is first is not said: end them one by one
                    self.interrupt(together[0])
                    continue
                at, = together
                side = self.sides[at]
                assert side.call is not None and side.request is not None
                self.clockwork.finish(side.call, within=until - self.clockwork.now)
                request, side.request = side.request, None
                self.granted(self.locks[side.todo[0][0]].cancel(request))
                self.follow(at, LockTimeoutError)
                self.settle()
            self.clockwork.now = end

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
            assert stuck(self.locks) == set() and not self.woken
            assert self.manager.num_locks_held == sum(bool(lock.held) for lock in self.locks.values())

        @invariant()
        def transactions_say_what_they_hold(self) -> None:
            for at, txn in enumerate(self.txns if hasattr(self, "txns") else ()):
                held, side = self.held(at), self.sides[at]
                if side.call is None:
                    answers = [OWNED[held.get(key, NONE)] for key in KEYS]
                    assert [txn.lock_check(-1, key) for key in KEYS] == answers
                assert [lock.name[1] for lock in txn._locker.entries] == [key for key, _ in side.stack]
                assert {key for key, _ in side.stack} == set(held)
                assert (txn.waiting is not None) == (side.request is not None)

    return Trees


@pytest.mark.parametrize("upgrade_rule", ["STRICT", "LENIENT", "UNCHECKED"])
def test_manager_against_the_model(upgrade_rule: str) -> None:
    run_state_machine_as_test(machine(upgrade_rule),
                              settings=few)


@pytest.mark.slow
@pytest.mark.parametrize("upgrade_rule", every(3, ["STRICT", "LENIENT", "UNCHECKED"]))
def test_manager_against_the_model_for_longer(upgrade_rule: str) -> None:
    run_state_machine_as_test(machine(upgrade_rule),
                              settings=longer)


# -- faults that it notices ----------------------------------------------------------------------


def stay_stronger(patch: pytest.MonkeyPatch) -> None:
    """What a scope made stronger stays so."""
    def upgraded(locker: Locker, lock: Granule, held: int) -> None:
        """Nothing is noted."""

    patch.setattr(Locker, "upgraded", upgraded)


def keep_what_was_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batches, "_give_back", lambda batches, locker, height, before: None)


@pytest.mark.parametrize("build_in", [stay_stronger, keep_what_was_taken])
def test_a_fault_is_noticed(build_in: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        build_in(patch)
        with pytest.raises(AssertionError):
            run_state_machine_as_test(machine("UNCHECKED"), settings=settings(
                phases=[Phase.generate]))
