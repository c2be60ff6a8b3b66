"""The active transaction of a thread, and who sees it.

What lives here: the slot that each thread has; :func:`command`, by which a command's own transaction is the
active one while it runs; and how reading a table within an active transaction becomes part of it.
What it does not know: what a transaction is, beyond that it is on a log, open or not, and reads files.

A transaction that a person made active (``with_new_transaction``, ``set_active``) is there for its whole
block. Tables of its log are read at its version, and what is read is recorded. A command commits by itself:
within such a block it is refused, as in Delta Spark, for it would be a second commit that nobody sees.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from deltanb.concurrency.stacks import of_each
from deltanb.errors import IllegalStateError

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Condition, Predicate
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

_P = ParamSpec("_P")
_R = TypeVar("_R")
_thread = threading.local()
of_each(_thread)


def get() -> OptimisticTransaction | None:
    """The transaction that is active in this thread."""
    active: OptimisticTransaction | None = getattr(_thread, "active", None)
    return active


def set_(txn: OptimisticTransaction) -> None:
    """Make a transaction this thread's active one.

    Raises:
        IllegalStateError: there is one already.
    """
    if get() is not None:
        raise IllegalStateError("Cannot set a new txn as active when one is already active")
    _thread.active, _thread.is_command = txn, False


def clear() -> None:
    """Leave this thread without an active transaction."""
    _thread.active = None


# -- commands ------------------------------------------------------------------------------------------


def command(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A command: the transactions it begins are active while it runs; afterwards all is as it was.

    Another writer that commits while a command does (from a hook of a test's store, from a listener) is
    a command within a command, and has the slot meanwhile.
    """
    return command_named(function.__name__)(function)


def command_named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """:func:`command` for a function that people know by another name."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def run(*args: _P.args, **settings: _P.kwargs) -> _R:
            outer, was_command = get(), getattr(_thread, "is_command", False)
            if outer is not None and not was_command and outer.status == "open":
                raise IllegalStateError(
                    f"{name}: a transaction on table {outer.table} (read version {outer.read_version}) is "
                    "active in this thread, and a command commits by itself. Write with "
                    "txn.write_files(data) and txn.commit(actions, operation), or run the command outside "
                    "the block of the transaction")
            outer_contexts = getattr(_thread, "contexts", None)
            _thread.active, _thread.is_command, _thread.contexts = None, True, None
            try:
                return function(*args, **settings)
            finally:
                contexts = _thread.contexts
                _thread.active, _thread.is_command, _thread.contexts = outer, was_command, outer_contexts
                if contexts is not None:
                    contexts.close()

        return run

    return decorate


def until_command_ends(context: AbstractContextManager[Any]) -> None:
    """Enter a context that is left when the running command ends."""
    if getattr(_thread, "contexts", None) is None:
        _thread.contexts = ExitStack()
    _thread.contexts.enter_context(context)


def begin(log: DeltaLog, at: int | None = None) -> OptimisticTransaction:
    """A transaction of a command, active in this thread while the command runs; it reads the newest version
    or, where the command began elsewhere, the one that it began at."""
    txn: OptimisticTransaction = log.start_transaction(None if at is None else log.snapshot_at(at))
    if getattr(_thread, "is_command", False):
        _thread.active = txn
    return txn


# -- reading -------------------------------------------------------------------------------------------


def reading(log: DeltaLog) -> OptimisticTransaction | None:
    """The open transaction that reads this table: the log's own, or that of this thread, if there is one."""
    if log.reader is not None:
        return log.reader
    txn = get()
    if txn is None or txn.status != "open" or txn.read_version < 0:
        return None
    return txn if txn.log is log or txn.log.path == log.path else None


def snapshot_of(log: DeltaLog, pinned: Snapshot | None) -> Snapshot:
    """The version to read: the one a table stands at, the active transaction's, or the newest.

    Raises:
        TableReplaced: the table that stands at a version is gone, and another one is there.
    """
    if pinned is not None:
        log.refuse_replaced(pinned)
        return pinned
    txn = reading(log)
    return log.update() if txn is None else txn.snapshot


def scan(
    log: DeltaLog, pinned: Snapshot | None, *predicates: str | Predicate
) -> tuple[Snapshot, pa.Table]:
    """The version to read and its files that may hold rows; the active transaction remembers them."""
    txn = None if pinned is not None else reading(log)
    if txn is not None:
        files = txn.filter_files(*predicates).table  # under locks this may wait, and find a newer version
        return txn.snapshot, files
    snapshot = snapshot_of(log, pinned)
    return snapshot, snapshot.files_for_scan(*predicates)


def read_elsewhere(
    log: DeltaLog, pinned: Snapshot | None, condition: Condition | None = None
) -> Snapshot | None:
    """The version the active transaction gives to a reader that looks for files itself; None without one.

    What the reader may look at is remembered: the files of the condition, or all where only Spark
    understands it.
    """
    txn = None if pinned is not None else reading(log)
    if txn is None:
        return None if pinned is None else snapshot_of(log, pinned)
    txn.filter_files(*(() if condition is None or condition.reason else condition.parts))
    return txn.snapshot
