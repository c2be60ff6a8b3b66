"""Commit statistics: one attempt to commit in numbers, as an event for listeners.

What lives here: :class:`CommitStats` (Delta's event of that name), how its numbers are counted, and how
listeners are called. What it does not know: the commit algorithm, what a listener does.

A listener is a function of one argument. It is called after each commit, failed ones included:

>>> from deltanb.options import set_options
>>> from deltanb.testing import MemoryStore, TableBuilder, add
>>> from deltanb.actions import AddFile
>>> log, heard = TableBuilder(MemoryStore()).create("id long").log, []
>>> with set_options(commit_listeners=[heard.append]):
...     log.start_transaction().commit([AddFile(path="a", partition_values={}, size=7)], "WRITE")
1
>>> [(stats.outcome, stats.commit_version, stats.num_add, stats.bytes_new) for stats in heard]
[('committed', 1, 1, 7)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import get_logger, redacted

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.transaction import OptimisticTransaction

logger = get_logger("deltanb.transaction")

NANOSECONDS_IN_A_MILLISECOND = 1_000_000


@dataclass
class Laps:
    """What a transaction's stopwatch says, in the nanoseconds of ``options.timer``."""

    begun: int
    prepared: int = 0
    """When its commit began."""
    ended: int | None = None
    """When it had landed, or come to nothing."""
    writing: int = 0
    """Spent on puts, from asking for one to its answer."""
    following: int = 0
    """Spent on bringing the log's snapshot up to the commit."""
    commit_size: int = 0
    """Bytes of the last body that was put."""


@dataclass(frozen=True, slots=True)
class CommitStats:
    """One try to commit, in numbers. Sizes are in bytes, durations in milliseconds.

    ``outcome`` is ``committed``, ``failed``, ``abandoned`` or ``unknown``. ``read_version``,
    ``num_files_total`` and ``size_in_bytes_total`` describe the table after a commit, when its version may be
    a later one already; they are None where nothing was committed. ``error`` is the stable code, or else the
    class, of what a commit failed with. ``info`` and ``new_metadata`` are the commit's.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> seen = []
    >>> with dn.set_options(commit_listeners=[seen.append]):
    ...     table = dn.create(MemoryStore(), {"id": [1, 2]})
    >>> [stats] = seen
    >>> stats.operation, stats.outcome, stats.num_add, stats.num_files_total
    ('CREATE TABLE AS SELECT', 'committed', 1, 1)
    """

    table: str
    txn_id: str
    operation: str
    outcome: str
    start_version: int
    commit_version: int | None
    read_version: int | None
    attempts: int
    isolation_level: str
    is_blind_append: bool
    num_actions: int
    num_add: int
    num_remove: int
    num_set_transaction: int
    num_domain_metadata: int
    num_cdc_files: int
    bytes_new: int
    cdc_bytes_new: int
    commit_size_bytes: int
    num_absolute_paths_in_add: int
    num_distinct_partitions_in_add: int
    num_partition_columns_in_table: int
    txn_duration_ms: float
    commit_duration_ms: float
    fs_write_duration_ms: float
    state_reconstruction_duration_ms: float
    num_files_total: int | None = None
    size_in_bytes_total: int | None = None
    checkpoint_attempt: bool = False
    error: str | None = None
    protocol: Protocol | None = field(default=None, repr=False)
    info: CommitInfo | None = field(default=None, repr=False)
    new_metadata: Metadata | None = field(default=None, repr=False)

    @property
    def retries(self) -> int:
        """How often it tried again after a lost race.

        >>> import deltanb as dn
        >>> from deltanb.testing import Lose, MemoryStore, ScriptedStore, add
        >>> store, seen = MemoryStore(), []
        >>> _ = dn.create(store, {"id": [1]})
        >>> with dn.set_options(commit_listeners=[seen.append], backoff=lambda attempt: 0):
        ...     _ = dn.open(ScriptedStore(store, [Lose((add("theirs"),))])).append({"id": [2]})
        >>> seen[-1].attempts, seen[-1].retries
        (2, 1)
        """
        return max(0, self.attempts - 1)

    def lightened(self) -> CommitStats:
        """The numbers without the actions.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> seen = []
        >>> with dn.set_options(commit_listeners=[seen.append]):
        ...     _ = dn.create(MemoryStore(), {"id": [1]})
        >>> light = seen[0].lightened()
        >>> light.info is light.new_metadata is None, light.num_add
        (True, 1)
        """
        return replace(self, info=None, new_metadata=None)


def stats_of(
    txn: OptimisticTransaction, laps: Laps, snapshot: Snapshot | None = None
) -> CommitStats | None:
    """The numbers of a transaction that has tried to commit; ``snapshot`` is the table after it."""
    current, done, error = txn.prepared, txn.committed, txn.error
    if current is None:
        return None
    try:
        attempted = snapshot is not None and done is not None and snapshot.needs_checkpoint(done.version)
    except InvalidArgument:  # an interval that cannot be read, of which the hook has told; the commit is done
        attempted = False
    tally = None if snapshot is None else snapshot.tally
    totals = (None, None) if tally is None else (tally.num_files, tally.size_in_bytes)
    actions, ended = current.actions, laps.begun if laps.ended is None else laps.ended
    by_kind: dict[type[Action], list[Any]] = {}
    for action in actions:
        by_kind.setdefault(type(action), []).append(action)
    adds, changes = by_kind.get(AddFile, ()), by_kind.get(AddCDCFile, ())
    partition_columns = current.metadata.partition_columns
    return CommitStats(
        table=redacted(txn.log.path), txn_id=current.txn_id, operation=current.operation.name,
        outcome=txn.status,
        start_version=current.read_version, commit_version=None if done is None else done.version,
        attempts=len(txn.attempts) + 1 if done is None else done.attempts,
        read_version=None if snapshot is None else snapshot.version,
        num_files_total=totals[0], size_in_bytes_total=totals[1],
        state_reconstruction_duration_ms=_milliseconds(laps.following),
        checkpoint_attempt=attempted,
        isolation_level=current.isolation, is_blind_append=current.is_blind_append,
        num_actions=len(actions), num_add=len(adds), num_remove=len(by_kind.get(RemoveFile, ())),
        num_set_transaction=len(by_kind.get(SetTransaction, ())),
        num_domain_metadata=len(by_kind.get(DomainMetadata, ())),
        num_cdc_files=len(changes), commit_size_bytes=laps.commit_size,
        bytes_new=sum([a.size for a in adds if a.data_change]),
        cdc_bytes_new=sum([a.size for a in changes]),
        num_absolute_paths_in_add=sum([_is_absolute(a.path) for a in adds]),
        num_distinct_partitions_in_add=len({tuple(a.partition_values.items()) for a in adds})
        if partition_columns else int(bool(adds)),
        num_partition_columns_in_table=len(partition_columns),
        txn_duration_ms=_milliseconds(ended - laps.begun),
        commit_duration_ms=_milliseconds(ended - laps.prepared),
        fs_write_duration_ms=_milliseconds(laps.writing),
        error=None if error is None else error_code(error),
        protocol=current.protocol if snapshot is None else snapshot.protocol,
        info=current.commit_info, new_metadata=next(iter(by_kind.get(Metadata, ())), None),
    )


def _is_absolute(path: str) -> bool:
    return path[:1] == "/" or "://" in path or path[:6] == "file:/"


def _milliseconds(nanoseconds: int) -> float:
    return nanoseconds / NANOSECONDS_IN_A_MILLISECOND


def error_code(error: BaseException) -> str:
    """The stable code of an error of this library, and of any other the name of its class.

    >>> error_code(InvalidArgument("no")), error_code(KeyError("a"))
    ('INVALID_ARGUMENT', 'KeyError')
    """
    return str(getattr(error, "kind", None) or type(error).__name__)


def tell_listeners(listeners: Iterable[Callable[[Any], object]], event: object) -> None:
    """Tell listeners of an event; one that raises is logged, and changes nothing else."""
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("A commit listener failed: %r", listener)
