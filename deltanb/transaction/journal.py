"""The journal: what this process saw of its own commits, those that came to nothing included.

What lives here: one value per transaction that tried to commit, and the list of them by table. A Delta log
records the winners only; who lost, to whom and how often is known to the loser alone.
What it does not know: commits of other processes, how an attempt is drawn.

>>> from deltanb.testing import MemoryStore, TableBuilder
>>> log = TableBuilder(MemoryStore()).create("id long").log
>>> log.start_transaction().commit()
1
>>> [(attempt.outcome, attempt.version) for attempt in journal_of(log)]
[('committed', 1)]
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from deltanb.actions import AddCDCFile, AddFile, RemoveFile
from deltanb.errors import MaxCommitRetriesExceeded
from deltanb.transaction.commit_stats import CommitStats
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.ids import note_made
from deltanb.transaction.operations import TAKES_FILES
from deltanb.transaction.reads import Scan
from deltanb.transaction.runs import WorkRun, running
from deltanb.transaction.steps import Lost

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.transaction.hook_failures import HookFailure
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_ATTEMPTS = 10_000  # transactions a table's journal keeps: some MB, and more than any picture shows
MAX_KEPT = 20_000
"""Files, partitions and texts of scans that a journal keeps, of all its attempts together: some 20 MB."""
TEXT_OF_A_FILE = 500  # characters of a scan's text that take as much as a file and its action
STREAM = ("queryId", "queryName", "epochId")  # parameters of an operation that name a streaming query's batch
NOT_KEPT = "what is no longer kept"


@dataclass(frozen=True)
class LostRace:
    """A version that was wanted and that someone else had: who, and with what."""

    version: int
    operation: str
    writer: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One transaction that tried to commit.

    ``outcome`` is ``committed``, ``failed``, ``abandoned`` or ``unknown``; ``version`` the version it
    committed, or else the last one it met. ``kind`` is the stable code of the error it failed with, ``lost``
    the races it lost on the way, in order. ``reads`` are its scans in words; ``scans`` have them as they
    were asked, without the parts that conflicts are judged by, which its read version tells again.
    ``newest`` is the last version that this process had committed when it ended. ``prepared`` is the whole
    transaction where it failed; it can be checked by other rules later. ``stats`` has its numbers, without
    actions, which the log tells. ``run`` is the run of :func:`deltanb.retry` that it was part of, if it was
    part of one. ``time`` is when it was prepared, in epoch milliseconds. Of one that failed, ``rule`` is the
    conflict rule that ended it, ``written`` the bytes of the files that it had written, and ``stream`` the
    query it was a batch of. ``is_elsewhere``: it is another process's, of whom not all is known. Beyond
    :data:`MAX_KEPT` the oldest attempts lose ``prepared`` and ``scans``; ``is_whole`` is False then.
    ``hook_failures`` are the hooks that failed after it committed.
    """

    txn_id: str
    writer: str | None
    operation: str
    isolation: str
    is_blind_append: bool
    read_version: int
    outcome: str
    version: int
    lost: tuple[LostRace, ...] = ()
    kind: str | None = None
    reads: tuple[str, ...] = ()
    scans: tuple[Scan, ...] = ()
    read_whole_table: bool = False
    app_ids: frozenset[str] = frozenset()
    changes_data: bool = False
    newest: int = -1
    prepared: CurrentTransaction | None = None
    is_whole: bool = True
    stats: CommitStats | None = None
    run: WorkRun | None = None
    hook_failures: tuple[HookFailure, ...] = ()
    time: int | None = None
    rule: str | None = None
    written: int | None = None
    stream: Mapping[str, Any] | None = None
    is_elsewhere: bool = False

    @property
    def tries(self) -> int:
        """How often it tried to put a version."""
        return len(self.lost) + (self.outcome == "committed")

    @property
    def weight(self) -> int:
        """How much it holds, counted in files."""
        if not self.scans and self.prepared is None:
            return 0
        weight = sum(1 + len(scan.partitions or ()) + len(text) // TEXT_OF_A_FILE
                    for scan, text in zip(self.scans, self.reads, strict=False))
        if self.prepared is not None:
            weight += len(self.prepared.actions) + sum(t.num_rows for t in self.prepared.reads.files)
        return weight


class Journal(deque[Attempt]):
    """The attempts on one table, in the order in which they ended; the oldest give way.

    Threads may record attempts while others go through it: these see it as it was when they began.
    """

    def __init__(self) -> None:
        super().__init__(maxlen=MAX_ATTEMPTS)
        self._lock = threading.Lock()
        self._newest = -1
        self._recorded = self._weight = 0
        self._weights: deque[tuple[int, int]] = deque()
        """Of the attempts that hold something, the oldest first: its place among all ever recorded, and its
        weight."""

    def __iter__(self) -> Iterator[Attempt]:
        with self._lock:
            return iter(list(super().__iter__()))

    def record(self, txn: OptimisticTransaction) -> None:
        """Keep what became of a transaction that has tried to commit."""
        current = txn.prepared
        if current is None:
            return
        lost = tuple(_race(step) for step in txn.attempts)
        last = lost[-1].version if lost else txn.read_version + 1
        rule = None
        if txn.committed is not None:
            last = txn.committed.version
            if last == 0 and current.metadata_changed:
                note_made(txn.log.place_of_ids(current.metadata))
        elif txn.conflict is not None:
            last, rule = txn.conflict.version, txn.conflict.rule
        has_failed = txn.status == "failed"
        written, stream = (_bytes_written(current), _stream(current)) if has_failed else (None, None)
        global _last_version
        with self._lock:
            if txn.committed is not None:
                self._newest = max(self._newest, last)
                _last_version = last
            attempt = Attempt(
                txn_id=current.txn_id, writer=current.commit_info.user_name,
                operation=current.operation.name, isolation=current.isolation,
                is_blind_append=current.is_blind_append, read_version=current.read_version,
                outcome=txn.status, version=last, lost=lost,
                kind=getattr(txn.error, "kind", None),
                reads=tuple(scan.text for scan in current.reads.scans),
                scans=tuple(Scan(scan.sql, partitions=scan.partitions) for scan in current.reads.scans),
                read_whole_table=current.reads.whole_table, app_ids=current.reads.app_ids,
                changes_data=bool(current.operation.changes_data), newest=self._newest,
                prepared=current.replace(_lines=None) if has_failed else None,
                run=running.get(), time=current.commit_info.timestamp, rule=rule,
                written=written, stream=stream,
            )
            self._keep(attempt)
        if has_failed and (rule is not None or isinstance(txn.error, MaxCommitRetriesExceeded)):
            from deltanb.transaction.kept_journal import keep

            keep(txn.log, current.read_metadata.id, attempt)

    def complete(self, stats: CommitStats) -> None:
        """Keep the numbers of an attempt that is recorded already, since it committed."""
        with self._lock:
            place = self._place_of(stats.txn_id)
            if place is not None:
                object.__setattr__(self[place], "stats", stats.lightened())  # before anybody was told of it

    def hook_failed(self, failure: HookFailure) -> None:
        """Keep a hook's failure beside the attempt that it followed."""
        with self._lock:
            place = self._place_of(failure.txn_id)
            if place is not None:
                attempt = self[place]
                self[place] = replace(attempt, hook_failures=(*attempt.hook_failures, failure))

    def hook_failures(self, txn_id: str) -> tuple[HookFailure, ...]:
        """The hooks that failed after a transaction's commit."""
        with self._lock:
            place = self._place_of(txn_id)
            return () if place is None else self[place].hook_failures

    def _place_of(self, txn_id: str | None) -> int | None:
        """Where the attempt of a transaction is, the newest first."""
        return next((place for place in range(len(self) - 1, -1, -1) if self[place].txn_id == txn_id), None)

    def _keep(self, attempt: Attempt) -> None:
        """Append it; where the attempts hold too much, the oldest are lightened until they do not."""
        self.append(attempt)
        self._recorded += 1
        if weight := attempt.weight:
            self._weights.append((self._recorded, weight))
            self._weight += weight
        while self._weight > MAX_KEPT:
            place, weight = self._weights.popleft()
            self._weight -= weight
            at = len(self) - 1 - (self._recorded - place)
            if at >= 0:  # it is not gone as a whole
                self[at] = replace(
                    self[at], reads=(NOT_KEPT,), scans=(), prepared=None, is_whole=False)


_last_version: int | None = None


def last_commit_version_in_session() -> int | None:
    """The version that this process committed last, whichever the table; None before its first commit.

    >>> import deltanb as dn
    >>> _ = dn.create("ducks", {"id": [1]}).append({"id": [2]})
    >>> dn.last_commit_version_in_session()
    1
    """
    return _last_version


_journals: WeakKeyDictionary[LogReader, Journal] = WeakKeyDictionary()


def journal_of(log: LogReader) -> Journal:
    """The journal of a table; empty at first, gone with the log."""
    journal = _journals.get(log)
    return _journals.setdefault(log, Journal()) if journal is None else journal


def _race(step: Lost) -> LostRace:
    info = step.winner.commit_info
    return LostRace(step.version, step.winner.operation, info.user_name)


def _stream(current: CurrentTransaction) -> dict[str, Any] | None:
    """Which batch of which streaming query a transaction is, if it is one."""
    parameters = current.operation.parameters
    return {name: parameters[name] for name in STREAM if name in parameters} or None


def _bytes_written(current: CurrentTransaction) -> int:
    """The bytes of the data files, vectors and change files that a transaction has written for its commit."""
    if current.operation.name in TAKES_FILES:
        return 0
    before = {action.path for action in current.actions if isinstance(action, RemoveFile)}
    total = 0
    for action in current.actions:
        if isinstance(action, AddCDCFile) or (isinstance(action, AddFile) and action.path not in before):
            total += action.size or 0
        elif isinstance(action, AddFile) and action.deletion_vector is not None:
            total += action.deletion_vector.size_in_bytes or 0
    return total
