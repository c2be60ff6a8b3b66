"""The database of a catalog: connections, transactions, and the outcome after a failure.

What lives here: a common interface to SQLite and PostgreSQL. A write is one transaction: it is committed, or
nothing happened, or, if the answer to its COMMIT is lost, a new connection finds out.
What it does not know: the content of the tables, except the row that proves that a transaction was committed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from deltanb.catalog.limits import deadline, unlimited
from deltanb.catalog.store import tables
from deltanb.catalog.store.databases import BUSY_SECONDS, begin, engine_of, waiting
from deltanb.catalog.store.tables import sa
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    MaxCommitRetriesExceeded,
    StorageError,
    add_note,
)
from deltanb.options import options, random_id
from deltanb.store.read_only import check_writable
from deltanb.transaction.ids import note_made

__all__ = ["Database", "Undo"]

MAX_ATTEMPTS = 10  # of a transaction that the database ended: ours take locks in one order, others' may not
MAX_WAIT = 24 * 3600  # seconds: databases count a wait in milliseconds, in 32 bits
_ROLLED_BACK = {"40001", "40P01"}  # serialisation failure, deadlock: the database says: once more
_READ_ONLY = "25006"  # a transaction that may only read
_SEQUENCE_LOCK = 0x646E_7365  # an advisory lock of PostgreSQL: the one who commits next
_PLACES_LOCK = 0x646E_706C  # and the one who takes a folder next

T = TypeVar("T")


class Undo(Exception):
    """Raised within a write to roll it back; the write returns ``result``."""

    def __init__(self, result: Any) -> None:
        super().__init__("rolled back")
        self.result = result


class Database:
    """A catalog's database; its tables are created when it is first opened.

    ``durability`` defaults to that of the options: ``sync`` waits for the disk at each COMMIT.

    Raises:
        InvalidArgument: neither ``sqlite:///FILE`` nor ``postgresql://…``.
        MissingDependency: the driver is not installed.
        StorageError: the database cannot be reached, or is not a database.

    >>> with Database("sqlite:///catalog.db") as database:
    ...     database.place
    'sqlite:///catalog.db'
    """

    def __init__(self, url: str, durability: str | None = None) -> None:
        self._syncs = (durability or options.durability) == "sync"
        self.engine = engine_of(url, self._syncs)
        self.place = self.engine.url.render_as_string(hide_password=True)
        self.place_of_ids: str | None = None
        """Where no two transactions may have one id, while these connections are to a database that was made
        by them: what is at the same place later may be another one."""
        self._pid = os.getpid()
        self._turn = threading.RLock()
        try:
            if not self.read(tables.is_complete):
                self.write(self._create)
        except BaseException:
            self.close()
            raise

    def _create(self, connection: sa.Connection) -> None:
        hold_sequence(connection)  # two who open a new database at once
        self.place_of_ids = f"{self.place} {random_id()}" if tables.create(connection) else None
        note_made(self.place_of_ids)

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError(
            "connections to a catalog cannot be pickled or copied; in the other process, open the catalog "
            "again: deltanb.Catalog(url, warehouse=...)")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; a later use opens new ones."""
        self.place_of_ids = None
        self.engine.dispose()

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """The result of ``work``, whose statements each read at their own instant.

        Raises:
            StorageError: the database cannot be read.
        """
        for last in (False, True):
            try:
                with self._errors("read"), self._connection() as connection, \
                        waiting(connection, _patience()):
                    return work(connection)
            except StorageError as error:
                if last or not _was_closed(error.__cause__):
                    raise
        raise AssertionError("unreachable")

    def write(
        self, work: Callable[[sa.Connection], T],
        landed: Callable[[sa.Connection], T | None] | None = None, txn_id: str | None = None,
        is_durable: bool = True,
    ) -> T:
        """The result of ``work``, run in one transaction; all or nothing.

        ``work`` runs again if the database aborted its transaction because of another one, or if the
        connection was closed before COMMIT. If the answer to COMMIT is lost, ``landed`` reads on a new
        connection: its result, or None if the transaction was not committed. It can no longer be committed by
        then, since committing needs the lock of :func:`hold_sequence`. Without ``is_durable``, the write does
        not wait for the disk, and may be lost in a power failure.

        Raises:
            StorageError: nothing was written.
            CommitOutcomeUnknown: the database cannot be read, or there is no ``landed``.
            MaxCommitRetriesExceeded: the database kept aborting the transaction.
        """
        check_writable(f"the catalog at {self.place}")
        for _ in range(MAX_ATTEMPTS):
            try:
                with self._errors("written"), self._my_turn(), self._connection(False) as connection:
                    transaction = begin(connection, self._syncs, is_durable, _patience())
                    try:
                        result = work(connection)
                    except BaseException:
                        transaction.rollback()
                        raise
                    lost = _commit(connection, transaction)
            except Undo as undo:
                return undo.result  # type: ignore[no-any-return]
            except StorageError as error:
                if _state(error.__cause__) in _ROLLED_BACK or _was_closed(error.__cause__):
                    continue
                raise
            if lost is None:
                return result
            if _state(lost) in _ROLLED_BACK:
                continue
            return self._asked(lost, landed, txn_id)
        raise MaxCommitRetriesExceeded(
            f"the catalog at {self.place} ended a transaction {MAX_ATTEMPTS} times because of other clients; "
            "nothing was written, try again", txn_id=txn_id)

    def _asked(
        self, lost: sa.exc.DBAPIError, landed: Callable[[sa.Connection], T | None] | None,
        txn_id: str | None,
    ) -> T:
        """The outcome of a transaction whose COMMIT has no answer."""
        if landed is None:
            raise CommitOutcomeUnknown(
                f"the catalog at {self.place} did not answer a COMMIT ({lost.orig}); check whether it took "
                "effect before asking again", txn_id=txn_id) from lost
        try:
            result = self.ask(landed)
        except DeltaError as error:
            raise CommitOutcomeUnknown(
                f"the catalog at {self.place} did not answer the COMMIT of transaction {txn_id} "
                f"({lost.orig}) and cannot be asked ({error}); ask for its outcome later, and delete none of "
                "its files", txn_id=txn_id) from lost
        if result is None:
            raise StorageError(
                f"the catalog at {self.place} cannot be written: {lost.orig}; transaction {txn_id} did not "
                "land", txn_id=txn_id) from lost
        return result

    def ask(self, landed: Callable[[sa.Connection], T]) -> T:
        """The result of ``landed`` on a new connection, after every transaction that is in its COMMIT,
        regardless of a commit's deadline.

        Raises:
            StorageError: the database cannot be asked.
        """
        self.close()
        with unlimited(), self._errors("asked"), self._connection(False) as connection, \
                begin(connection, self._syncs, True, _patience()):
            hold_sequence(connection)
            return landed(connection)

    def _after_fork(self) -> None:
        """Leave the parent process its connections and locks."""
        self.engine.dispose(close=False)
        self._pid, self._turn = os.getpid(), threading.RLock()

    @contextmanager
    def _connection(self, reads: bool = True) -> Iterator[sa.Connection]:
        if self._pid != os.getpid():  # a fork: the connections are the parent's
            self._after_fork()
        with self.engine.connect() as connection:
            if reads and connection.dialect.name == "postgresql":
                connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """A block for one writer of this process at a time, if the database allows only one.

        Threads waiting in SQLite sleep for up to a tenth of a second; here the next one continues at once.
        """
        if self._pid != os.getpid():
            self._after_fork()
        if self.engine.dialect.name != "sqlite" or not self._turn.acquire(timeout=_patience()):
            yield
            return
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Errors of the database as errors of this library."""
        try:
            yield
        except sa.exc.DataError as error:
            raise InvalidArgument(f"the catalog at {self.place} cannot hold a value: {error.orig}") from error
        except sa.exc.DBAPIError as error:
            why = f"the catalog at {self.place} cannot be {doing}: {error.orig}"
            if _state(error) == _READ_ONLY:
                why += "; nobody writes here, as in a replica: connect to the primary database"
            ends = deadline()
            if ends is not None and not ends.left:
                raise ends.over(why) from error
            raise StorageError(why, path=self.place) from error
        except sa.exc.TimeoutError as error:
            raise StorageError(
                f"the catalog at {self.place} cannot be {doing}: no connection was free in time",
                path=self.place) from error


def _patience() -> float:
    """The seconds to wait for locks of others."""
    ends = deadline()
    return BUSY_SECONDS if ends is None else min(ends.left, MAX_WAIT)


def hold_sequence(connection: sa.Connection) -> None:
    """Take the lock to commit next, until the transaction ends.

    SQLite has only one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SEQUENCE_LOCK)))


def hold_places(connection: sa.Connection) -> None:
    """Take the lock to assign a folder to a table, like :func:`hold_sequence`."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_PLACES_LOCK)))


def _commit(connection: sa.Connection, transaction: sa.RootTransaction) -> sa.exc.DBAPIError | None:
    """COMMIT; returns the error if its answer is lost."""
    try:
        transaction.commit()
    except sa.exc.DBAPIError as error:
        connection.invalidate()  # closes it: what did not land is rolled back
        return error
    except BaseException as error:
        connection.invalidate()
        add_note(error, "it interrupted a COMMIT to the catalog: ask for the outcome of the transaction")
        raise
    return None


def _state(error: object) -> str | None:
    """The SQLSTATE of PostgreSQL's error; SQLite has none."""
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def _was_closed(error: object) -> bool:
    """Whether a pooled connection was closed, because the server was restarted."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
