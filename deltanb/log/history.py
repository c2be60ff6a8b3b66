"""What was committed, when and why: history, and a single commit with its actions.

What lives here: the list of commits, and a commit.
What it does not know: how a commit gets its time (``commit_times``), the state of the table at a version.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import TYPE_CHECKING, Any, Literal, overload

from deltanb.errors import DeltaError, InvalidArgument, InvalidTable, VersionNotFound
from deltanb.log.commit_times import existing, file_times, shown_time
from deltanb.log.commits import commit_name
from deltanb.log.lines import commit_info_of, count_files
from deltanb.store.base import is_remote
from deltanb.text import formatting as units
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.safe_text import last_part, shown
from deltanb.text.spellings import Spelt, SpeltRow, answer_wrong_arguments

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from deltanb.actions import Action, AddFile, RemoveFile
    from deltanb.log.commit_content import CommitContent
    from deltanb.log.commits import Commits
    from deltanb.log.reader import LogReader

__all__ = [
    "History", "HistoryEntry", "between", "commit", "read",
]

Damaged = Literal["refuse", "skip"]
"""What becomes of a history with damaged commits."""
MAX_AT_ONCE = 200_000
"""Bytes of a commit whose actions are read as soon as it is taken out of a history: some 500 files. Those of
a larger one are read when somebody asks for them."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True, repr=False)
class HistoryEntry(Displayable, SpeltRow, place="entry"):
    """One commit: its version, its time in epoch milliseconds, and the fields of its commitInfo.

    Fields are None if the writer left them out. Types are the writer's: Delta Spark writes metrics and
    parameters as text, others as numbers. ``extra`` has fields unknown here.

    :attr:`actions` has the content of the commit, :attr:`added` and :attr:`removed` the files; they are read
    at first use. An entry from :func:`commit` or ``history[i]`` shows them.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> entry = table.history()[0]
    >>> entry.operation, entry.read_version, len(entry.added)
    ('CREATE TABLE AS SELECT', None, 1)
    """

    version: int
    timestamp: int
    operation: Any = None
    operation_parameters: Any = None
    read_version: Any = None
    isolation_level: Any = None
    is_blind_append: Any = None
    operation_metrics: Any = None
    user_metadata: Any = None
    engine_info: Any = None
    user_name: Any = None
    user_id: Any = None
    txn_id: Any = None
    cluster_id: Any = None
    job: Any = None
    notebook: Any = None
    tags: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> dt.datetime:
        """The timestamp as a datetime in UTC.

        >>> HistoryEntry(0, 1_700_000_000_000).time.isoformat()
        '2023-11-14T22:13:20+00:00'
        """
        return _EPOCH + dt.timedelta(milliseconds=self.timestamp)

    @property
    def content(self) -> CommitContent:
        """The actions of the commit, sorted into what they do, and its lines in the log.

        Raises:
            VersionNotFound: the log no longer has the commit, or this one was made by hand.
            InvalidTable: a damaged commit, naming file and line.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> content = dn.create(MemoryStore(), {"id": [1]}).history()[0].content
        >>> len(content.added), len(content.lines)
        (1, 4)
        """
        if self.known_content is None:
            log = vars(self).get("_log")
            if log is None:
                raise VersionNotFound(
                    f"the actions of version {self.version} are not known: this is a commit without its log. "
                    f"Ask the table: table.commit({self.version})", version=self.version)
            _keep(self, log, _lines_of(log, self.version))
        content = self.known_content
        assert content is not None
        return content

    @property
    def known_content(self) -> CommitContent | None:
        """The content if it was read; showing a commit reads nothing.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> entry = dn.create(MemoryStore(), {"id": [1]}).history()[0]
        >>> entry.content is entry.known_content
        True
        """
        content: CommitContent | None = vars(self).get("_content")
        return content

    @property
    def known_files(self) -> tuple[int, int]:
        """The numbers of files added and removed if they were counted, which is done for commits without
        operation metrics and for those whose content was read; else (0, 0).

        >>> HistoryEntry(0, 0).known_files
        (0, 0)
        """
        if self.known_content is not None:
            return len(self.added), len(self.removed)
        counts: tuple[int, int] = vars(self).get("_files", (0, 0))
        return counts

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions of the commit, in the order of the log.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> entry = dn.create(MemoryStore(), {"id": [1]}).history()[0]
        >>> [action.key for action in entry.actions]
        ['commitInfo', 'metaData', 'protocol', 'add']
        """
        return self.content.actions

    @property
    def added(self) -> tuple[AddFile, ...]:
        """The files that the commit added.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> [file.num_records for file in dn.create(MemoryStore(), {"id": [1, 2]}).history()[0].added]
        [2]
        """
        return self.content.added

    @property
    def removed(self) -> tuple[RemoveFile, ...]:
        """The files that the commit removed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> _ = table.delete()
        >>> len(table.history()[0].removed)
        1
        """
        return self.content.removed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_log", "_content")}


@answer_wrong_arguments()
class History(Displayable, Spelt, Sequence[HistoryEntry], place="history"):
    """Commits, newest first: an immutable sequence, shown with a line for each commit.

    ``table`` is the table's name; ``total`` is the number of commits in the log, including those left out by
    a limit. A slice is a history, too; a single commit is shown with its content.

    >>> history = History([HistoryEntry(1, 5, "WRITE"), HistoryEntry(0, 0, "CREATE TABLE")])
    >>> history[-1].version, len(history[:1]), history == [history[0], history[1]]
    (0, 1, True)
    >>> history.to_arrow().column("operation").to_pylist()
    ['WRITE', 'CREATE TABLE']
    """

    def __init__(
        self, entries: Iterable[HistoryEntry] = (), table: str | LogReader = "", total: int | None = None,
        damaged: Mapping[int, InvalidTable] | None = None,
    ) -> None:
        self._entries = tuple(entries)
        self.damaged = dict(damaged or {})
        """The commits that cannot be read and were left out, by version: what is wrong with each."""
        self._table = table
        self.log = None if isinstance(table, str) else table
        """The log that the commits were read from; None for a history made by hand."""
        self.total = len(self._entries) if total is None else total

    @overload
    def __getitem__(self, at: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, at: slice) -> History: ...
    def __getitem__(self, at: int | slice) -> HistoryEntry | History:
        if isinstance(at, slice):
            return History(self._entries[at], self.log or self._table, self.total, self.damaged)
        try:
            return _with_content(self._entries[at])
        except IndexError:
            commits = units.count(len(self), "commit")
            raise IndexError(f"the history of {self.table} has {commits}, the newest first: there is no "
                             f"[{at}]; table.commit(version) takes a version") from None

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self._entries)

    def __reversed__(self) -> Iterator[HistoryEntry]:
        return reversed(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._entries == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple((entry.version, entry.timestamp) for entry in self._entries))

    @property
    def table(self) -> str:
        """The table's name, looked up at first use, since the list itself needs no replay.

        >>> import deltanb as dn
        >>> dn.create("pond", {"id": [1]}).history().table
        'pond'
        """
        if not isinstance(self._table, str):
            log = self._table
            self._table = log.snapshot.metadata.name or last_part(log.path)
        return self._table

    def up_to(self, version: int, limit: int | None = None) -> History:
        """The commits up to ``version``, at most ``limit`` of them.

        >>> history = History([HistoryEntry(2, 9), HistoryEntry(1, 5), HistoryEntry(0, 0)])
        >>> [entry.version for entry in history.up_to(1)], len(history.up_to(1, limit=1))
        ([1, 0], 1)
        """
        _check_limit(limit)
        known = [entry for entry in self if entry.version <= version]
        damaged = {at: error for at, error in self.damaged.items() if at <= version}
        return History(known[:limit], self.log or self._table, len(known), damaged)

    def to_arrow(self) -> pa.Table:
        """The commits as a table, one row each, with the columns of ``DESCRIBE HISTORY``:
        :func:`deltanb.log.history_columns.to_arrow`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> commits = dn.create(MemoryStore(), {"id": [1]}).history().to_arrow()
        >>> commits.select(["version", "operation"]).to_pylist()
        [{'version': 0, 'operation': 'CREATE TABLE AS SELECT'}]
        """
        from deltanb.log.history_columns import to_arrow
        return to_arrow(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The commits as a DataFrame, with the columns of :meth:`to_arrow`; parameters and metrics are dicts.

        Raises:
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> frame = dn.create(MemoryStore(), {"id": [1]}).history().to_pandas()
        >>> frame.loc[0, "operationMetrics"]["numOutputRows"]
        '1'
        """
        from deltanb.log.history_columns import to_pandas
        return to_pandas(self)

    def conflicts(
        self, isolation: str | None = None, zone: str | dt.tzinfo = "UTC"
    ) -> upper.ConflictMap:
        """Who raced whom in these commits, who lost, and what it cost: by writers, by operations and by the
        hour of the day. Arguments and errors are those of :func:`deltanb.observe.conflict_map.conflict_map`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> table.history().conflicts().total.races
        0
        """
        return upper.conflict_map(self, isolation, zone)

    def replay(
        self, isolation: str | Sequence[str] | None = None, rules: Any = None,
        without: str | Sequence[str] = (), row_level: str | None = None,
        partition_by: str | Sequence[str] | None = None,
    ) -> upper.Replay:
        """Which of these commits would have conflicted under other rules, with row-level concurrency, or in a
        table of other partitions; arguments and result are those of :func:`deltanb.observe.what_if.replay`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.history().replay(isolation="Serializable").total
        2
        """
        return upper.replay(self, isolation, rules, without, row_level, partition_by)


# Field of HistoryEntry -> name in commitInfo.
_WIRE = {
    "operation": "operation", "operation_parameters": "operationParameters",
    "read_version": "readVersion", "isolation_level": "isolationLevel",
    "is_blind_append": "isBlindAppend", "operation_metrics": "operationMetrics",
    "user_metadata": "userMetadata", "engine_info": "engineInfo", "user_name": "userName",
    "user_id": "userId", "txn_id": "txnId", "cluster_id": "clusterId", "job": "job",
    "notebook": "notebook", "tags": "tags",
}
_NOT_EXTRA = frozenset((*_WIRE.values(), "timestamp", "version"))


def read(log: LogReader, limit: int | None = None, damaged: Damaged = "refuse") -> History:
    """The commits that are still in the log, newest first.

    Args:
        log: the table's.
        limit: how many at most.
        damaged: with ``skip`` damaged commits are left out, and named in :attr:`History.damaged`.

    Raises:
        TableNotFound: there is no table.
        InvalidArgument: a limit below 1, or another word for ``damaged``.
        InvalidTable: a damaged commit, naming file and line.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> table = TableBuilder(MemoryStore()).create()
    >>> _ = table.commit({"commitInfo": {"operation": "OPTIMIZE", "readVersion": 0}})
    >>> [(entry.version, entry.operation) for entry in read(table.log)]
    [(1, 'OPTIMIZE'), (0, None)]
    """
    _check_limit(limit)
    if damaged not in ("refuse", "skip"):
        raise InvalidArgument(f"damaged={shown(damaged)} is neither 'refuse' nor 'skip'")
    commits = log.as_listed()[1]
    times = file_times(log, commits)
    if not times:
        existing(log)
    known: dict[int, InvalidTable] | None = {} if damaged == "skip" else None
    entries = _entries(log, commits, sorted(times, reverse=True)[:limit], times, known)
    return History(entries, log, len(times), known)


def _check_limit(limit: int | None) -> None:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InvalidArgument(f"limit={shown(limit)} must be a whole number of commits, 1 or more")


def between(log: LogReader, first: int, last: int, limit: int | None = None) -> list[HistoryEntry]:
    """The commits from ``first`` to ``last`` that are still in the log, newest first, at most ``limit``."""
    commits = log.as_listed()[1]
    times = file_times(log, commits)
    versions = [version for version in sorted(times, reverse=True) if first <= version <= last]
    return _entries(log, commits, versions[:limit], times)


def commit(log: LogReader, version: int, newest: int | None = None) -> HistoryEntry:
    """One commit in full: its actions, its files with their statistics, its lines.

    Args:
        version: which commit, as an integer.
        newest: the newest version to consider, by default that of the log.

    Raises:
        VersionNotFound: there is no such commit, or the log no longer has it (``.earliest``, ``.latest``).
        InvalidArgument: not a version.
        InvalidTable: a damaged commit, naming file and line.
        TableNotFound: there is no table.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"]})
    >>> _ = table.append({"name": ["Scrooge"]})
    >>> entry = commit(table.log, 1)
    >>> entry.operation, [action.key for action in entry.actions], entry.added[0].num_records
    ('WRITE', ['commitInfo', 'add'], 1)
    """
    if isinstance(version, bool) or not hasattr(version, "__index__"):  # NumPy's integers have it, too
        raise InvalidArgument(f"commit takes a version (an integer), found {version!r:.80}")
    version = index(version)
    entries = between(log, version, version) if newest is None or version <= newest else []
    if not entries:
        versions = [v for v in file_times(log) if newest is None or v <= newest]
        if not versions:
            existing(log)
        first, last = min(versions, default=-1), max(versions, default=-1)
        raise VersionNotFound(
            f"{log.path} has no commit {version}: those in the log are {first} to {last}",
            version=version, earliest=first, latest=last)
    _keep(entries[0], log, _lines_of(log, version))
    return entries[0]


def _with_content(entry: HistoryEntry) -> HistoryEntry:
    """The commit with its actions if reading them is quick; otherwise it says how to read them."""
    log = vars(entry).get("_log")
    if log is None or entry.known_content is not None:
        return entry
    entry = _of(log, replace(entry))  # those that stay in the history keep no actions
    try:
        data = log.commits.read(entry.version)
        if len(data) <= MAX_AT_ONCE:
            _keep(entry, log, data)
    except (DeltaError, OSError):
        pass  # whoever asks for its actions is told why
    return entry


def _of(log: LogReader, entry: HistoryEntry) -> HistoryEntry:
    vars(entry)["_log"] = log
    return entry


def _keep(entry: HistoryEntry, log: LogReader, data: bytes) -> None:
    from deltanb.log.commit_content import CommitContent

    vars(entry)["_content"] = CommitContent(data, entry.version, log.path)


def _lines_of(log: LogReader, version: int) -> bytes:
    try:
        return log.commits.read(version)
    except FileNotFoundError:
        raise VersionNotFound(
            f"{log.path} no longer has commit {version}: its file was cleaned up", version=version) from None


def _entries(
    log: LogReader, commits: Commits, versions: Iterable[int], times: Mapping[int, int],
    damaged: dict[int, InvalidTable] | None = None,
) -> list[HistoryEntry]:
    """The commits of versions; those that are damaged go into a dict, where there is one."""
    is_current = False
    entries = []
    for version, data in _contents(log, commits, versions):
        try:
            info = commit_info_of(data, version, log.path)
        except InvalidTable as error:
            if damaged is None:
                raise
            damaged[version] = error
            continue
        if "inCommitTimestamp" in info and not is_current:  # the newest version says what these are worth
            existing(log)
            is_current = True
        timestamp = shown_time(log, version, info, times[version])
        assert timestamp is not None
        known: dict[str, Any] = {name: info.get(wire) for name, wire in _WIRE.items()}
        extra = {name: value for name, value in info.items() if name not in _NOT_EXTRA}
        entry = _of(log, HistoryEntry(version, timestamp, **known, extra=extra))
        if not entry.operation_metrics:
            vars(entry)["_files"] = count_files(data)
        entries.append(entry)
    return entries


def _contents(
    log: LogReader, commits: Commits, versions: Iterable[int]
) -> Iterator[tuple[int, bytes]]:
    """The lines of commits, each with its version; in a bucket several are read at a time."""
    if not is_remote(log.store):
        yield from ((version, commits.read(version)) for version in versions)
        return
    names = {version: commit_name(version) for version in versions}
    for version, data in zip(names, commits.read_many(names), strict=True):
        yield version, _lines_of(log, version) if data is None else data
