"""Work that is repeated after a conflict: optimistically at first, under locks if it keeps losing.

What lives here: :func:`retry`.
What it does not know: what the work is, and what a conflict is about.

The work that takes longest may keep losing: short transactions commit before it again and again. With
``keep_locks`` everybody who retries holds the *intention to write* a table while it commits there, which
keeps nobody from doing the same; and who has lost often enough holds the tables *exclusively* from before it
reads until it has committed. Then the others wait with their commits, and lose to it.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from deltanb.errors import (
    DeadlockError,
    DeltaConcurrentModificationException,
    InvalidArgument,
    add_note,
    require,
)
from deltanb.locks.core import keys
from deltanb.locks.core.commit import committing
from deltanb.locks.core.manager import LockManager
from deltanb.locks.core.modes import EXCLUSIVE, IX
from deltanb.locks.core.waits import here
from deltanb.text.formatting import count, duration
from deltanb.text.safe_text import get_logger, shown
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction import runs
from deltanb.transaction.runs import WorkRun, running

if TYPE_CHECKING:
    from deltanb.locks.core.transaction import Transaction
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.steps import Step

T = TypeVar("T")

logger = get_logger("deltanb.locks")

ATTEMPTS: Final = 10
PAUSE: Final = 0.1
"""Seconds that the first pause takes at most: some commits to a local table."""

_shared: Final[dict[int, LockManager]] = {}
"""The manager of all who retry and name none, by process: a forked one needs its own.
It is made in a context of nobody's, as it outlives whoever comes first."""


_works: Final = itertools.count(1)


@answer_wrong_arguments()
def retry(
    work: Callable[[], T], attempts: int = ATTEMPTS, *, keep_locks: bool = False, after: int = 3,
    manager: LockManager | None = None, pause: float = PAUSE,
    sleep: Callable[[float], object] = runs.pause, jitter: Callable[[], float] = random.random,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Do some work, and do all of it again where a conflict kept it from being committed.

    The work itself is run anew, so it reads the newest version and decides by what is there now. Between two
    attempts there is a pause of random length. It becomes shorter from one to the next, so that those who
    have waited longest are the first to try again.

    >>> import deltanb as dn
    >>> table = dn.create("coins", {"owner": ["Scrooge"], "coins": [900]})
    >>> dn.retry(lambda: table.update({"coins": "coins + 1"})).version
    1

    The timeline of a table, and that of a catalog, tie the runs that failed to the one that was committed.

    Args:
        work: a function without arguments: commands, ``table.transaction()``, transactions of a catalog or
            under locks that it begins itself. What it does beside tables is done again, too.
        attempts: how often at most, 1 or more.
        keep_locks: whether to work under locks after so many conflicts as ``after`` says: then nobody else
            in this process who retries with ``keep_locks`` commits to the tables that it commits to. Other
            processes are not kept away, and commits of threads that the work starts are not its own.
        after: conflicts before that.
        manager: the locks to use, to be kept apart from its transactions on tables as well; unless given, one
            that all calls of this process share. Where the work itself is a transaction of this manager,
            its own locks are what keeps others away.
        pause: seconds that the first pause takes at most; 0 for none.
        sleep, jitter, clock: how to pause, a number from 0 to 1, and the time in seconds.

    Returns:
        What the work returned.

    Raises:
        DeltaConcurrentModificationException: the conflict of the last attempt; a note says how many
            attempts there were, and how long they took with their pauses.
        DeadlockError: so with transactions under locks that waited for each other.
        InvalidArgument: no function, or no number that can be.
    """
    if not callable(work):
        raise InvalidArgument(
            f"retry takes a function without arguments, found {type(work).__name__}; write it like "
            "dn.retry(lambda: table.delete(\"month = 1\"))")
    for name, value, least in (("attempts", attempts, 1), ("after", after, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidArgument(f"{name}={shown(value)} is not a whole number, {least} or more")
    if isinstance(pause, bool) or not isinstance(pause, int | float) or not pause >= 0:
        raise InvalidArgument(f"pause={shown(pause)} is not a number of seconds, 0 or more")
    require(keep_locks, bool, "keep_locks", "True or False")
    if manager is not None:
        require(manager, LockManager, "retry", "a lock manager: dn.locks.LockManager()")
    keeper = _Keeper(_manager() if manager is None else manager) if keep_locks else None
    number, begun = next(_works), clock()
    for attempt in range(1, attempts + 1):
        run = running.set(WorkRun(number, attempt))
        try:
            return work() if keeper is None else keeper.run(work, attempt > after)
        except (DeltaConcurrentModificationException, DeadlockError) as error:
            if attempt == attempts:
                took = duration(round((clock() - begun) * 1000))
                add_note(error, f"retry: gave up after {count(attempt, 'attempt')} over {took}")
                raise
            logger.info("Attempt %d of %d ended with %s; trying again", attempt, attempts,
                        type(error).__name__)
        finally:
            running.reset(run)
        if pause:
            sleep(pause / attempt * jitter())
    raise AssertionError


class _Keeper:
    """Which tables the work of one call has met, and the locks for each attempt."""

    def __init__(self, manager: LockManager) -> None:
        self.manager = manager
        self.met: dict[int, None] = {}
        """The index ids of the tables that were committed to, or were about to be."""

    def run(self, work: Callable[[], T], is_alone: bool) -> T:
        """One attempt; alone on all tables it has met so far, or with the intention on each that it
        commits to."""
        # Late: only who commits needs them, and has loaded what they need.
        from deltanb.locks.tables.log import index_of
        from deltanb.transaction.drive import watching

        outer = watching.get()
        with self.manager.new_transaction() as locks:
            locks.lock_timeout = -1
            if is_alone:
                for index_id in sorted(self.met, reverse=True):  # the first table that was met comes first
                    self._lock(locks, index_id, EXCLUSIVE)

            home = here.token

            def watch(txn: Any, step: Step) -> None:
                # A commit of this manager has locks of its own, which ours would stand in the way of. What
                # was started with this context, in a thread or beside it, may be another's, and outlive it.
                is_ours = here.token is home and committing.get() is not locks.manager
                for log in _logs_of(txn) if is_ours else ():
                    index_id = index_of(locks.manager, log)
                    self.met[index_id] = None
                    self._lock(locks, index_id, IX)
                if outer is not None:
                    outer(txn, step)

            token = watching.set(watch)
            try:
                answer = work()
            finally:
                watching.reset(token)
            locks.commit()
            return answer

    def _lock(self, locks: Transaction, index_id: int, mode: int) -> None:
        locks.manager.lock_tree(locks._locker, index_id, [(keys.table_key(), mode)], -1)


def _logs_of(txn: Any) -> list[DeltaLog]:
    """The logs that a transaction commits to; what is only staged is committed by another one."""
    own = getattr(txn, "log", None)
    if own is not None:
        return [] if hasattr(own, "below") else [own]
    return [table.staged.below for table in txn.tables.values() if hasattr(table, "staged")]


def _manager() -> LockManager:
    """The one of this process; it is put there in one step, so threads that come first together agree."""
    pid = os.getpid()
    return _shared.get(pid) or _shared.setdefault(pid, Context().run(LockManager, lock_timeout=None))
