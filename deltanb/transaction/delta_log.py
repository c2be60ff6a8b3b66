"""The log of one table as people hold it: it is read, and transactions on it begin.

What lives here: :class:`DeltaLog`, one for a table and process.
What it does not know: how a log is read (``log/reader``), what a transaction does.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.log.reader import LogReader
from deltanb.store.base import LogStore
from deltanb.store.guard import unguarded
from deltanb.store.open import store_for
from deltanb.store.recent import recent
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.committer import Committer, FolderCommitter, Makes

if TYPE_CHECKING:
    from deltanb.actions import Metadata
    from deltanb.log.commits import Commits
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["DeltaLog", "identity_of"]

MAX_CACHED_LOGS = 32
"""Logs kept alive though nobody holds them: a notebook that opens one path again and again."""

_R = TypeVar("_R")
_logs: weakref.WeakValueDictionary[str, DeltaLog] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, DeltaLog] = OrderedDict()
_logs_lock = threading.Lock()


@answer_wrong_arguments(only=("start_transaction", "with_new_transaction", "for_table", "checkpoint"))
class DeltaLog(LogReader, Displayable):
    """The log of one table, on which transactions begin.

    A place without a table has a log too, whose snapshot has version -1: so tables are created.

    >>> from deltanb.testing import MemoryStore
    >>> log = DeltaLog.for_table(MemoryStore())
    >>> log.exists, log.snapshot.version
    (False, -1)
    """

    def __init__(
        self, store: LogStore, commits: Commits | None = None, committer: Makes = FolderCommitter,
        name: str | None = None,
    ) -> None:
        super().__init__(store, commits)
        self._makes_committer = committer
        self.name = name
        """What the table is called in its catalog; None without one."""
        self.catalog: Any = None
        """The catalog that manages the table, as people hold it; None without one."""

    def committer(self, snapshot: Snapshot) -> Committer:
        """Where a commit behind this snapshot goes: into the folder, unless the log was made with another
        :data:`committer <deltanb.transaction.committer.Makes>`.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore()).create("id long").log
        >>> committer = log.committer(log.snapshot)
        >>> type(committer).__name__, committer.is_final
        ('FolderCommitter', True)
        """
        return self._makes_committer(self, snapshot)

    def place_of_ids(self, metadata: Metadata | None) -> str | None:
        """Where no two transactions may have one id: the table with this metadata, as long as it is here, or
        the catalog that keeps all ids. None for a table to be, or in a store that may repeat a request.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore()).create("id long").log
        >>> metadata = log.snapshot.metadata
        >>> log.place_of_ids(None) is None, log.place_of_ids(metadata).endswith(metadata.id)
        (True, True)
        """
        catalog = getattr(self.commits, "catalog", None)
        if catalog is not None:
            place: str | None = catalog.place_of_ids
            return place
        if metadata is None or not getattr(self.store, "is_final", False):
            return None
        return f"{identity_of(self.store)} {metadata.id}"

    @property
    def reader(self) -> OptimisticTransaction | None:
        """Who remembers what is read between statements, where several of them are one transaction.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> table.log.reader is None
        True
        >>> with table.transaction() as txn:
        ...     type(txn.log.reader).__name__
        'StagedTransaction'
        """
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """As of any log; where it was made with a committer of its own, nobody could make that again.

        Raises:
            IllegalStateError: it is a catalog's, a transaction's, or has such a committer.
        """
        again = super().__reduce__()
        if self._makes_committer is not FolderCommitter:
            raise IllegalStateError(
                f"the log of {self.path} cannot be pickled or copied: it was made with a committer of its "
                "own. In the other process, make it again: DeltaLog(store, committer=...)")
        return again

    @classmethod
    def _again(cls, store: LogStore) -> DeltaLog:
        return cls.for_table(store)

    @classmethod
    def for_table(
        cls, table: str | os.PathLike[str] | LogStore, storage_options: Mapping[str, Any] | None = None
    ) -> DeltaLog:
        """The log of a table given by path, URI or store; the same object for the same table.

        ``storage_options`` say how to get to a bucket; a table opened with others has another log.

        Raises:
            InvalidArgument: a URI that no store serves, or options that it does not know.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> DeltaLog.for_table(table.log.store) is table.log
        True
        """
        store = store_for(table, storage_options)
        key = identity_of(store)
        is_path = isinstance(table, str | os.PathLike) and store.local_path("") is not None
        with _logs_lock:
            log = _logs.get(key)
            if log is None or not (is_path or log.store == store):
                log = _logs[key] = cls(store)
            _recent[key] = log
            _recent.move_to_end(key)
            while len(_recent) > MAX_CACHED_LOGS:
                _recent.popitem(last=False)
            return log

    @staticmethod
    def known_by_id(table_id: str) -> DeltaLog | None:
        """The log of the table with this id, where this process has read one; None where it has several, as
        of a table whose folder was copied.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = TableBuilder(MemoryStore("memory:///ducks")).create().log
        >>> DeltaLog.known_by_id("not " + log.snapshot.metadata.id) is None
        True
        """
        with _logs_lock:
            logs = list(_logs.values())
        same = [log for log in logs if log._held is not None and log._held[0].version >= 0
                 and log._held[0].metadata.id == table_id]
        return same[0] if len(same) == 1 else None

    @staticmethod
    def clear_cache() -> None:
        """Forget all logs, and what was fetched of them; handles that people hold go on working.

        >>> from deltanb.testing import MemoryStore
        >>> store = MemoryStore()
        >>> log = DeltaLog.for_table(store)
        >>> DeltaLog.for_table(store) is log
        True
        >>> DeltaLog.clear_cache()
        >>> DeltaLog.for_table(store) is log
        False
        """
        with _logs_lock:
            _logs.clear()
            _recent.clear()
        recent.clear()

    def start_transaction(
        self, snapshot: Snapshot | None = None, *, clock: Callable[[], int] | None = None,
    ) -> OptimisticTransaction:
        """A new transaction on this table.

        Args:
            snapshot: the version it reads; the newest unless given.
            clock: gives the time of the commit and of its files in epoch milliseconds; the option of that
                name unless given.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = TableBuilder(MemoryStore()).create("id long").commit(add("a")).log
        >>> txn = log.start_transaction(clock=lambda: 1_700_000_000_000)
        >>> txn.commit([file.remove() for file in txn.filter_files()], "TRUNCATE")
        2
        >>> log.snapshot.num_files, log.snapshot.last_commit_info["timestamp"]
        (0, 1700000000000)
        """
        from deltanb.transaction.transaction import OptimisticTransaction

        return OptimisticTransaction(self, snapshot, clock)

    def with_new_transaction(self, work: Callable[[OptimisticTransaction], _R]) -> _R:
        """Run ``work(txn)`` with a new transaction that is the thread's active one meanwhile.

        Raises:
            IllegalStateError: the thread has an active transaction already.
            InvalidArgument: ``work`` is not a function.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = TableBuilder(MemoryStore()).create("id long").commit(add("a")).log
        >>> def truncate(txn):
        ...     return txn.commit([file.remove() for file in txn.filter_files()], "TRUNCATE")
        >>> log.with_new_transaction(truncate)
        2
        """
        if not callable(work):
            raise InvalidArgument(
                f"with_new_transaction takes a function of the transaction, found {type(work).__name__}")
        from deltanb.transaction.transaction import OptimisticTransaction

        txn = self.start_transaction()
        OptimisticTransaction.set_active(txn)
        try:
            return work(txn)
        finally:
            if OptimisticTransaction.get_active() is txn:
                OptimisticTransaction.clear_active()


def identity_of(store: LogStore) -> str:
    """What makes two stores one table: the real folder, the place in a bucket, or the store object."""
    local = store.local_path("")
    if local is not None:
        return os.path.realpath(local)
    own = getattr(unguarded(store), "identity", None)
    return own if isinstance(own, str) else f"{store.root}#{id(unguarded(store))}"
