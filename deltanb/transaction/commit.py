"""The commit algorithm, once.

Rule 1: everything that decides what happens next in a commit is in :func:`commit_steps`.
Rule 2: this file does no I/O. The generator yields a step and takes its reply; whoever drives it
(``commit()``, the notebook's stepper, a test's scheduler) answers. While it is suspended it holds no
lock and no open file.

Theory of operation. A transaction that read version r tries to put r+1. If that version exists, the
commit there is read: it may be our own, written by a put whose response was lost (we know it by its
``txnId``); otherwise it won the race, and the conflict rules are held against it. If no rule objects
the transaction is rebased on it, and so on through all winners, and the next free version is tried.
Three outcomes: committed, conflicted, unknown-then-resolved.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol

from deltanb.errors import (
    CommitOutcomeUnknown,
    ConcurrentWriteException,
    DeltaError,
    MaxCommitRetriesExceeded,
)
from deltanb.transaction.conflicts import unchecked_conflict
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.rules import check
from deltanb.transaction.steps import (
    Backoff,
    Checked,
    Committed,
    Failed,
    Lost,
    Prepared,
    PutIfAbsent,
    ReadWinner,
    Rebased,
    Recognised,
    Step,
    Winner,
)

logger = logging.getLogger("deltanb.transaction")

MAX_UNKNOWN_PUTS = 4  # a store that fails this often without a commit to be seen is down, not slow

CommitSteps = Generator[Step, Any, Committed]


def commit_steps(
    current: CurrentTransaction,
    *,
    max_attempts: int,
    clock: Callable[[], int],
    check_conflicts: bool = True,
    backoff: Callable[[int], float] | None = None,
) -> CommitSteps:
    """Yield the steps of one commit and take their replies; return the last one, ``Committed``.

    Args:
        current: the prepared transaction.
        max_attempts: retries after lost races; 0 means one attempt.
        clock: epoch milliseconds, for the elapsed times that steps report.
        check_conflicts: False makes one attempt and fails if it loses (``commit_large``).
        backoff: seconds to wait before attempt n; none by default.

    Raises:
        DeltaConcurrentModificationException: a winner contradicts the transaction.
        MaxCommitRetriesExceeded: too many races were lost.
        CommitOutcomeUnknown: the store can neither write nor say what it holds.
    """
    started = clock()
    yield Prepared(current.read_version, current.isolation, current.is_blind_append,
                   len(current.actions), current.operation.name)
    version = current.read_version + 1
    attempt = unknown = 0
    while True:
        try:
            written = yield PutIfAbsent(version, current.body(), attempt, len(current.actions),
                                        current.isolation)
            if written is True:
                break
            winner = Winner.of(version, (yield ReadWinner(version)))
            if winner is None:
                unknown += 1
                if unknown >= MAX_UNKNOWN_PUTS:
                    raise _unknown(current, version, unknown, written)
                continue
            if winner.commit_info.txn_id == current.txn_id:
                yield Recognised(version, attempt)
                break
            yield Lost(version, attempt, winner)
            if not check_conflicts:
                raise _concurrent_write(current, winner)
            if attempt >= max_attempts:
                raise _too_many(current, version, attempt, clock() - started)
            attempt += 1
            current, version, ours = yield from _rebase(current, winner, attempt, clock)
            if ours:
                yield Recognised(version, attempt)
                break
            seconds = backoff(attempt) if backoff is not None else 0.0
            if seconds > 0:
                yield Backoff(attempt, seconds)
        except DeltaError as error:
            yield Failed(version, attempt, error)
            raise
    committed = Committed(version, attempt + 1, (current.commit_info, *current.actions),
                          current.isolation, current.is_blind_append)
    yield committed
    return committed


def _rebase(
    current: CurrentTransaction, winner: Winner | None, attempt: int, clock: Callable[[], int]
) -> Generator[Step, Any, tuple[CurrentTransaction, int, bool]]:
    """Hold the rules against every winner from here on; the next free version comes back.

    The last value tells that a commit on the way is our own, from a put that landed late.
    """
    started = clock()
    first = version = winner.version if winner is not None else 0
    while winner is not None:
        verdict = check(current, winner)
        yield Checked(version, attempt, winner, verdict.checks, verdict.conflict)
        if verdict.error is not None:
            raise verdict.error
        current = verdict.transaction
        version += 1
        winner = Winner.of(version, (yield ReadWinner(version)))
        if winner is not None and winner.commit_info.txn_id == current.txn_id:
            return current, version, True
    yield Rebased(first, version, attempt, clock() - started)
    return current, version, False


def _unknown(
    current: CurrentTransaction, version: int, tries: int, reply: object
) -> DeltaError:
    reason = f" ({reply})" if isinstance(reply, OSError) else ""
    return CommitOutcomeUnknown(
        f"table {current.table}: version {version} could not be written and is not there to be read "
        f"after {tries} tries{reason}. Mend the store, then look whether version {version} "
        f"carries txnId {current.txn_id} before running the operation again",
        version=version, txn_id=current.txn_id,
    )


def _concurrent_write(current: CurrentTransaction, winner: Winner) -> DeltaError:
    conflict = unchecked_conflict(current, winner)
    return ConcurrentWriteException(
        conflict.message, conflict=conflict, version=winner.version,
        error_class=ConcurrentWriteException.error_class,
    )


def _too_many(current: CurrentTransaction, version: int, attempt: int, elapsed: int) -> DeltaError:
    started = current.read_version + 1
    return MaxCommitRetriesExceeded(
        f"This commit has failed as it has been tried {attempt + 1} times but did not succeed.\n"
        "This can be caused by the Delta table being committed continuously by many concurrent "
        "commits.\n\n"
        f"Commit started at version: {started}\n"
        f"Commit failed at version: {version}\n"
        f"Number of actions attempted to commit: {len(current.actions)}\n"
        f"Total time spent attempting this commit: {elapsed} ms",
        version=version, attempts=attempt + 1,
    )


# ---------------------------------------------------------------------------- drivers


class Committer(Protocol):
    """The seam between the algorithm and where commits go: a file system, or a catalog."""

    def put(self, version: int, body: bytes) -> bool | OSError | None:
        """Write a version if it is absent: True, False (exists), an error or None (unknown)."""

    def read(self, version: int) -> Winner | None:
        """The commit at a version, or None."""


def answer(step: Step, committer: Committer, sleep: Callable[[float], None] = time.sleep) -> Any:
    """Do what a step asks for: all of a commit's I/O."""
    match step:
        case PutIfAbsent():
            return committer.put(step.version, step.body)
        case ReadWinner():
            return committer.read(step.version)
        case Backoff():
            sleep(step.seconds)
    return None


watching: ContextVar[Callable[[Any, Step], None] | None] = ContextVar("watching", default=None)
"""Told of each step that a transaction's ``commit()`` is about to answer in this context; None is nobody.

It gets the transaction and the step. While it has not returned, the commit stands still there and holds
no lock; if it raises, the commit is given up and nothing more is written.
"""

_NO_LOCK: AbstractContextManager[Any] = nullcontext()


class Drive:
    """A commit driven by hand: each :meth:`advance` does what the step it stands at asks for, and no more.

    ``lock`` is held while a step reads or writes, and not in between. A winner that cannot be understood
    ends the steps as failed, as it is not ours; unless one of the puts may have landed, which nobody knows
    then.
    """

    def __init__(
        self, steps: CommitSteps, committer: Committer,
        lock: AbstractContextManager[Any] = _NO_LOCK,
    ) -> None:
        self.steps, self.committer, self.lock = steps, committer, lock
        self.step: Step | None = None
        """The step it stands at; None before the first and after the last."""
        self.reply: Any = None
        """What the step before was answered."""
        self.committed: Committed | None = None
        """The end, once it is reached."""
        self.may_have_landed = False
        """Whether a put went unanswered: then a version may be there that nobody reported."""

    def advance(self) -> Step | None:
        """Answer the step it stands at and go on to the next one; None is the end.

        Raises:
            DeltaError: the commit failed.
        """
        if self.committed is not None:
            return None
        self.reply = None if self.step is None else self._answer(self.step)
        try:
            self.step = self.steps.send(self.reply)
        except StopIteration as stop:
            self.step, self.committed = None, stop.value
        return self.step

    def _answer(self, step: Step) -> Any:
        try:
            with self.lock if isinstance(step, PutIfAbsent | ReadWinner) else _NO_LOCK:
                reply = answer(step, self.committer)
        except DeltaError as error:
            if isinstance(step, ReadWinner) and not self.may_have_landed:
                self.steps.throw(error)
            raise
        if isinstance(step, PutIfAbsent) and reply is not False:
            self.may_have_landed = True
        return reply


def drain(
    steps: CommitSteps, committer: Committer, listen: Callable[[Step], None] | None = None,
    lock: AbstractContextManager[Any] = _NO_LOCK,
) -> Committed:
    """Run a commit to its end; ``listen`` hears of every step before it is answered, and gives the commit
    up by raising."""
    drive = Drive(steps, committer, lock)
    while (step := drive.advance()) is not None:
        if listen is not None:
            try:
                listen(step)
            except BaseException:
                steps.close()
                raise
    assert drive.committed is not None
    return drive.committed


def log_step(step: Step, log_path: str) -> None:
    """The commit's messages, as Delta words them."""
    match step:
        case PutIfAbsent():
            logger.debug(
                "Attempting to commit version %d with %d actions with %s isolation level",
                step.version, step.num_actions, step.isolation,
            )
        case Rebased():
            logger.info(
                "Completed checking for conflicts Version: %d Attempt: %d Time: %d ms",
                step.next_version, step.attempt, step.elapsed_ms,
            )
            logger.info("No logical conflicts with deltas [%d, %d), retrying.",
                        step.first, step.next_version)
        case Recognised():
            logger.info("Version %d is this transaction's own commit; its response was lost",
                        step.version)
        case Failed():
            logger.info("Commit failed at version %d: %s", step.version,
                        type(step.error).__name__)
        case Committed():
            logger.info("Committed delta #%d to %s", step.version, log_path)
