"""The commit algorithm, once.

Rule 1: everything that decides what happens next in a commit is in :func:`commit_steps`.
Rule 2: this file does no I/O. The generator yields a step and takes its reply; whoever drives it
(``commit()``, the notebook's stepper, a test's scheduler) answers. While it is suspended it holds no
lock and no open file.

Theory of operation. A transaction that read version r tries to put r+1. If that version exists, the
commit there is read: it may be our own, written by a put whose response was lost (we know it by its
``txnId``); otherwise it won the race, and is checked by the conflict rules. If no rule fails, the transaction
is rebased on it. So it goes through all winners; then the next free version is tried.
Three outcomes: committed, conflicted, unknown-then-resolved. A commit that is interrupted while a put is
unanswered asks once what became of it before it ends. :class:`Run` alone keeps what is known of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn, TypeVar

from deltanb.errors import (
    CommitOutcomeUnknown,
    ConcurrentWriteException,
    DeltaError,
    MaxCommitRetriesExceeded,
    StorageError,
    add_note,
)
from deltanb.schema.protocol import GROUPS, supports
from deltanb.text.safe_text import get_logger
from deltanb.transaction.backoff import pause
from deltanb.transaction.conflict_rules import check
from deltanb.transaction.conflicts import unchecked_conflict
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.row_levels import NOTHING_SEEN
from deltanb.transaction.steps import (
    Checked,
    Committed,
    Failed,
    Join,
    LookCloser,
    Lost,
    Prepared,
    PutIfAbsent,
    ReadWinner,
    Rebased,
    Recognised,
    Rejoin,
    Step,
    Winner,
)

logger = get_logger("deltanb.transaction")

MAX_UNKNOWN_PUTS = 4  # a store that fails this often without a commit to be seen is down, not slow

CommitSteps = Generator[Step, Any, Committed]
_Step = TypeVar("_Step", bound=Step)


def commit_steps(
    current: CurrentTransaction,
    *,
    max_attempts: int,
    clock: Callable[[], int],
    check_conflicts: bool = True,
    backoff: Callable[[int], float] | None = None,
    is_final: bool = False,
    joins: bool = False,
    listen: Callable[[Run, Step], object] = lambda run, step: None,
) -> CommitSteps:
    """Yield the steps of one commit and take their replies; return the last one, ``Committed``.

    Args:
        current: the prepared transaction.
        max_attempts: retries after lost races; 0 means one attempt.
        clock: a stopwatch in milliseconds, for the elapsed times that steps report.
        check_conflicts: False makes one attempt and fails if it loses (``commit_large``).
        backoff: seconds to wait before attempt n; none by default.
        is_final: the store's word: "exists" is never our own commit, and a put that was interrupted does
            not land later.
        joins: whether it is one of several commits that are ratified together. Where the table has the
            feature for it, the commit then asks for its transaction group before it is put.
        listen: called with the :class:`Run` and each step, before the step is yielded.

    Raises:
        DeltaConcurrentModificationException: a winner contradicts the transaction.
        MaxCommitRetriesExceeded: too many races were lost.
        CommitOutcomeUnknown: the store can neither write nor say what it holds.
        StorageError, TableNotFound, TableReplaced: the put was refused; nothing was written.

    An exception that is thrown in, or that ends a put, is raised again once the outcome is as clear as it can
    be; its notes say that the commit landed, or that this is unknown.
    """
    run = Run(current, is_final, clock(), listen)
    run.must_join = run.joins = joins and supports(current.protocol, GROUPS)
    try:
        yield run.at(Prepared(current.read_version, current.isolation, current.is_blind_append,
                              len(current.actions), current.operation.name))
        committed = yield from _attempts(run, max_attempts, clock, check_conflicts, backoff)
        yield run.at(committed)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from _end(run, error)
    return committed


class Run:
    """How far a commit is, and what is known of its outcome; this is the only place that keeps it."""

    def __init__(
        self, current: CurrentTransaction, is_final: bool, started: int,
        listen: Callable[[Run, Step], object] = lambda run, step: None,
    ) -> None:
        self.current, self.is_final, self.started, self.listen = current, is_final, started, listen
        self.version, self.attempt = current.read_version + 1, 0
        self.landed: Committed | None = None
        """The commit, from the moment when it is known to be there."""
        self.may_have_landed = False
        """Whether ``version`` may be this commit although no answer says so."""
        self.has_failed = False
        """Whether an error answered a put of ``version``, so that it may land even later."""
        self.joins = self.must_join = False
        """Whether it is asked for its transaction group at all, and before the next put."""
        self.silent = 0
        """Puts that the store neither answered nor shows."""

    def at(self, step: _Step) -> _Step:
        """The step, after the listener was called with it."""
        self.listen(self, step)
        return step

    def land(self) -> Committed:
        """Record that ``version`` is this commit; returns the last step."""
        current = self.current
        self.landed = Committed(self.version, self.attempt + 1, current.lines, current.isolation,
                                current.is_blind_append, current)
        self.may_have_landed = False
        return self.landed

    def may_be(self, winner: Winner) -> bool:
        """Whether a commit that was read back is this one. Two writers that create the same table may have
        drawn their ids from one seed: then the store's answer counts for more."""
        is_sure = self.is_final and not self.may_have_landed and self.current.read_version < 0
        return not is_sure and self.current.is_mine(winner)

    def note_outcome(self, error: BaseException) -> None:
        """Add a note to an exception: that the commit landed before it, or may have. Twice is harmless."""
        table, txn_id = self.current.table, self.current.txn_id
        if self.landed is not None:
            add_note(error, f"table {table}: version {self.version} was committed despite the interruption "
                            f"(txnId {txn_id})")
        elif self.may_have_landed and not isinstance(error, CommitOutcomeUnknown):
            add_note(error, f"table {table}: it is unknown whether version {self.version} is this commit. "
                            f"Check whether it carries txnId {txn_id} before running the operation again; "
                            "its files were kept")


def _attempts(
    run: Run, max_attempts: int, clock: Callable[[], int], check_conflicts: bool,
    backoff: Callable[[int], float] | None,
) -> CommitSteps:
    """Put, and rebase on the winner where there is one, until a version is ours."""
    while True:
        if run.must_join:
            run.current = run.current.in_group((yield run.at(Join(run.version))))
            run.must_join = False
        current = run.current
        put = PutIfAbsent(run.version, current.body(), run.attempt, len(current.actions), current.isolation,
                          current.lines)
        was_open, run.may_have_landed = run.may_have_landed, True  # until its reply is understood
        try:
            reply = yield run.at(put)
        except BaseException:  # it was not begun
            run.may_have_landed = was_open
            raise
        if reply is True:
            return run.land()
        if isinstance(reply, Rejoin):
            run.may_have_landed, run.must_join = was_open, run.joins
            continue
        is_refused = (reply is False and run.is_final) or isinstance(reply, DeltaError)
        run.may_have_landed = was_open or not is_refused
        run.has_failed |= reply is None or (isinstance(reply, OSError) and not _ends(reply))
        if _ends(reply) and not (run.may_have_landed and isinstance(reply, DeltaError)):
            raise reply
        answer = yield run.at(ReadWinner(run.version))
        if isinstance(answer, BaseException) and not isinstance(answer, OSError):
            raise answer
        winner = None if isinstance(answer, OSError) else Winner.of(run.version, answer)
        if winner is None:
            run.silent += 1
            if run.silent >= MAX_UNKNOWN_PUTS:
                raise _unknown(run, reply, answer) from _cause(reply, answer)
            yield from pause(run, backoff)
            continue
        if run.may_be(winner):
            committed = run.land()
            yield run.at(Recognised(run.version, run.attempt))
            return committed
        run.may_have_landed, run.has_failed, run.silent = False, False, 0
        yield run.at(Lost(run.version, run.attempt, winner))
        if not check_conflicts:
            raise _concurrent_write(run.current, winner)
        if run.attempt >= max_attempts:
            raise too_many(run.current, run.version, run.attempt, clock() - run.started)
        run.attempt += 1
        if (yield from rebase_steps(run, winner, clock)):
            committed = run.land()
            yield run.at(Recognised(run.version, run.attempt))
            return committed
        run.must_join = run.joins
        yield from pause(run, backoff)


def _ends(reply: object) -> bool:
    """Whether a reply is an error that a retry cannot cure."""
    return isinstance(reply, DeltaError) or (
        isinstance(reply, BaseException) and not isinstance(reply, OSError))


def rebase_steps(
    run: Run, winner: Winner | None, clock: Callable[[], int]
) -> Generator[Step, Any, bool]:
    """Check every winner from here on, up to the next version that may be free.

    True where a commit on the way is our own, from a put that landed late.
    """
    started = clock()
    first, elapsed = run.version, 0
    while winner is not None:
        verdict = check(run.current, winner)
        if verdict.conflict is not None and verdict.may_pass_closer:
            seen = yield run.at(LookCloser(run.version, run.attempt, winner, run.current))
            if isinstance(seen, BaseException) and not isinstance(seen, Exception):
                raise seen
            winner = winner.seen_as(seen)
            verdict = check(run.current, winner)
        if verdict.error is not None:
            yield run.at(Checked(run.version, run.attempt, winner, verdict.checks, verdict.conflict))
            raise verdict.error
        elapsed = clock() - started
        yield run.at(Checked(run.version, run.attempt, winner, verdict.checks, None, elapsed))
        run.current = verdict.transaction
        run.version += 1
        answer = yield run.at(ReadWinner(run.version))
        if isinstance(answer, BaseException) and not isinstance(answer, OSError):
            raise answer
        # What cannot be read may be free: the put will show.
        winner = None if isinstance(answer, OSError) else Winner.of(run.version, answer)
        if winner is not None and run.may_be(winner):
            return True
    yield run.at(Rebased(first, run.version, run.attempt, elapsed))
    return False


def _end(run: Run, error: BaseException) -> Generator[Step, Any, NoReturn]:
    """Raise the error; one that came from outside, after asking what became of an unanswered put."""
    if run.may_have_landed and not isinstance(error, DeltaError):
        try:
            answer = yield run.at(ReadWinner(run.version))
            winner = None if isinstance(answer, BaseException) else Winner.of(run.version, answer)
        except GeneratorExit:
            raise
        except BaseException as again:  # a second interrupt: it is not asked a second time
            answer, winner = again, None
        if winner is not None and run.current.is_mine(winner):
            yield run.at(Recognised(run.version, run.attempt))
            yield run.at(run.land())
        is_absent = answer is None and run.is_final and not run.has_failed
        run.may_have_landed = winner is None and not is_absent
    run.note_outcome(error)
    if run.landed is None:
        yield run.at(Failed(run.version, run.attempt, error, run.may_have_landed))
    raise error


def _cause(reply: object, answer: object) -> BaseException | None:
    """The last error of the store."""
    return next((e for e in (answer, reply) if isinstance(e, BaseException)), None)


def _unknown(run: Run, reply: object, answer: object) -> DeltaError:
    """The error for a store that shows nothing, however often it is asked."""
    table, version, txn_id = run.current.table, run.version, run.current.txn_id
    if not run.may_have_landed:
        return StorageError(
            f"table {table}: version {version} exists and cannot be read after {run.silent} tries "
            f"({answer}), so it is unknown whether it conflicts with this commit. Nothing was written; fix "
            "the store and run the operation again",
            version=version, errno=getattr(answer, "errno", None))
    error = answer if isinstance(answer, OSError) else reply
    reason = f" ({error})" if isinstance(error, Exception) else ""
    state = "cannot be read" if isinstance(answer, OSError) else "is not there to be read"
    return CommitOutcomeUnknown(
        f"table {table}: version {version} could not be written and {state} "
        f"after {run.silent} tries{reason}. Fix the store, then check whether version {version} "
        f"carries txnId {txn_id} before running the operation again",
        version=version, txn_id=txn_id,
    )


def _concurrent_write(current: CurrentTransaction, winner: Winner) -> DeltaError:
    conflict = unchecked_conflict(current, winner)
    return ConcurrentWriteException(
        conflict.message, conflict=conflict, version=winner.version,
        error_class=ConcurrentWriteException.error_class,
    )


def too_many(current: CurrentTransaction, version: int, attempt: int, elapsed: int) -> DeltaError:
    """The error of a commit that has lost too many races."""
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


def log_step(step: Step, log_path: str) -> None:
    """The commit's messages, as Delta words them."""
    match step:
        case PutIfAbsent():
            logger.debug(
                "Attempting to commit version %d with %d actions with %s isolation level",
                step.version, step.num_actions, step.isolation,
            )
        case LookCloser():
            logger.debug("Looking closer at the files of version %d", step.version)
        case Checked() if step.winner.seen is not NOTHING_SEEN and step.conflict is None:
            logger.info("Passed version %d at row level", step.version)
        case Checked() if step.elapsed_ms is not None:
            logger.info(
                "Completed checking for conflicts Version: %d Attempt: %d Time: %d ms",
                step.version, step.attempt, step.elapsed_ms,
            )
        case Rebased():
            logger.info("No logical conflicts with deltas [%d, %d), retrying.",
                        step.first, step.next_version)
        case Recognised():
            logger.info("Version %d is this transaction's own commit; its response was lost",
                        step.version)
        case Failed():
            logger.info("Commit failed at version %d: %s%s", step.version, type(step.error).__name__,
                        ", which may be there" if step.may_have_landed else "")
        case Committed():
            logger.info("Committed delta #%d to %s", step.version, log_path)
