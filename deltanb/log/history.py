"""When and why each version was committed: commit times, history, and the version of a time.

What lives here: the rules for commit times (in-commit timestamps, else modification times made monotonic),
the list of commits, a single commit with its actions, and the search for the version of a time.
What it does not know: the state of the table at those versions.

PROTOCOL.md, "In-Commit Timestamps": from ``delta.inCommitTimestampEnablementVersion`` on a commit's
time is its ``inCommitTimestamp``; before that version, and without the feature, it is the
modification time of its file.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import TYPE_CHECKING, Any, Literal, overload

from deltanb.errors import DeltaError, InvalidArgument, InvalidTable, TableNotFound, VersionNotFound
from deltanb.log.commits import LOG_FOLDER, commit_name
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
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot

__all__ = [
    "History", "HistoryEntry", "between", "commit", "commit_times", "read", "timestamp_of",
    "to_milliseconds", "version_as_of",
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
        """The timestamp as a datetime in UTC."""
        return _EPOCH + dt.timedelta(milliseconds=self.timestamp)

    @property
    def content(self) -> CommitContent:
        """The actions of the commit, sorted into what they do, and its lines in the log.

        Raises:
            VersionNotFound: the log no longer has the commit, or this one was made by hand.
            InvalidTable: a damaged commit, naming file and line.
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
        """The content if it was read; showing a commit reads nothing."""
        content: CommitContent | None = vars(self).get("_content")
        return content

    @property
    def known_files(self) -> tuple[int, int]:
        """The numbers of files added and removed if they were counted, which is done for commits without
        operation metrics and for those whose content was read; else (0, 0)."""
        if self.known_content is not None:
            return len(self.added), len(self.removed)
        counts: tuple[int, int] = vars(self).get("_files", (0, 0))
        return counts

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions of the commit, in the order of the log."""
        return self.content.actions

    @property
    def added(self) -> tuple[AddFile, ...]:
        """The files that the commit added."""
        return self.content.added

    @property
    def removed(self) -> tuple[RemoveFile, ...]:
        """The files that the commit removed."""
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
        """The table's name, looked up at first use, since the list itself needs no replay."""
        if not isinstance(self._table, str):
            log = self._table
            self._table = log.snapshot.metadata.name or last_part(log.path)
        return self._table

    def up_to(self, version: int, limit: int | None = None) -> History:
        """The commits up to ``version``, at most ``limit`` of them."""
        _check_limit(limit)
        known = [entry for entry in self if entry.version <= version]
        damaged = {at: error for at, error in self.damaged.items() if at <= version}
        return History(known[:limit], self.log or self._table, len(known), damaged)

    def to_arrow(self) -> pa.Table:
        """The commits as a table, one row each, with the columns of ``DESCRIBE HISTORY``:
        :func:`deltanb.log.history_columns.to_arrow`.
        """
        from deltanb.log.history_columns import to_arrow
        return to_arrow(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The commits as a DataFrame, with the columns of :meth:`to_arrow`; parameters and metrics are dicts.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from deltanb.log.history_columns import to_pandas
        return to_pandas(self)

    def conflicts(
        self, isolation: str | None = None, zone: str | dt.tzinfo = "UTC"
    ) -> upper.ConflictMap:
        """Who raced whom in these commits, who lost, and what it cost: by writers, by operations and by the
        hour of the day. Arguments and errors are those of :func:`deltanb.observe.conflict_map.conflict_map`.
        """
        return upper.conflict_map(self, isolation, zone)

    def replay(
        self, isolation: str | Sequence[str] | None = None, rules: Any = None,
        without: str | Sequence[str] = (), row_level: str | None = None,
        partition_by: str | Sequence[str] | None = None,
    ) -> upper.Replay:
        """Which of these commits would have conflicted under other rules, with row-level concurrency, or in a
        table of other partitions; arguments and result are those of :func:`deltanb.observe.what_if.replay`.
        """
        return upper.replay(self, isolation, rules, without, row_level, partition_by)


def whole_number(value: Any) -> int | None:
    """A version or time in a commitInfo, which some writers record as text; negative values mean none.

    >>> whole_number("3"), whole_number(3), whole_number(-1), whole_number("x"), whole_number(True)
    (3, 3, None, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
    times = _file_times(log)
    if not times:
        _existing(log)
    known: dict[int, InvalidTable] | None = {} if damaged == "skip" else None
    entries = _entries(log, sorted(times, reverse=True)[:limit], times, known)
    return History(entries, log, len(times), known)


def _check_limit(limit: int | None) -> None:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InvalidArgument(f"limit={shown(limit)} must be a whole number of commits, 1 or more")


def between(log: LogReader, first: int, last: int, limit: int | None = None) -> list[HistoryEntry]:
    """The commits from ``first`` to ``last`` that are still in the log, newest first, at most ``limit``."""
    times = _file_times(log)
    return _entries(log, [v for v in sorted(times, reverse=True) if first <= v <= last][:limit], times)


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
        versions = [v for v in _file_times(log) if newest is None or v <= newest]
        if not versions:
            _existing(log)
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
    log: LogReader, versions: Iterable[int], times: Mapping[int, int],
    damaged: dict[int, InvalidTable] | None = None,
) -> list[HistoryEntry]:
    """The commits of versions; those that are damaged go into a dict, where there is one."""
    switched_on: tuple[int, int | None] | None = None
    is_known = False
    entries = []
    for version, data in _contents(log, versions):
        try:
            info = commit_info_of(data, version, log.path)
        except InvalidTable as error:
            if damaged is None:
                raise
            damaged[version] = error
            continue
        timestamp = times[version]
        if "inCommitTimestamp" in info:  # only then does it matter what the table says of them
            if not is_known:
                switched_on, is_known = _enablement(_existing(log)), True
            if switched_on is not None and version >= switched_on[0]:
                timestamp = _in_commit(info, timestamp)
        known: dict[str, Any] = {name: info.get(wire) for name, wire in _WIRE.items()}
        extra = {name: value for name, value in info.items() if name not in _NOT_EXTRA}
        entry = _of(log, HistoryEntry(version, timestamp, **known, extra=extra))
        if not entry.operation_metrics:
            vars(entry)["_files"] = count_files(data)
        entries.append(entry)
    return entries


def _contents(log: LogReader, versions: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """The lines of commits, each with its version; in a bucket several are read at a time."""
    if not is_remote(log.store):
        yield from ((version, log.commits.read(version)) for version in versions)
        return
    names = {version: commit_name(version) for version in versions}
    for version, data in zip(names, log.commits.read_many(names), strict=True):
        yield version, _lines_of(log, version) if data is None else data


def time_of(log: LogReader, version: int, info: Mapping[str, Any]) -> int | None:
    """The time of one commit in epoch milliseconds, as every view shows it: the in-commit timestamp if it has
    one, else when its file was written, else what its writer says; None where nothing is known.

    ``info`` is its commitInfo, as the log has it.
    """
    time = _in_commit(info, -1)
    if time < 0:
        try:
            status = log.commits.status(version)
        except (OSError, DeltaError):
            status = None  # a view of a commit does not fail for want of its file's time
        time = -1 if status is None else status.modification_time
    return time if time >= 0 else whole_number(info.get("timestamp"))


def known_time_of(snapshot: Snapshot) -> int | None:
    """As :func:`time_of` of a snapshot's version, without asking the store; where the newest commit is known
    by its tag alone, in a bucket, it is what its writer says."""
    info = snapshot.last_commit_info or {}
    modified = getattr(snapshot.commit_identity, "modification_time", -1)
    time = _in_commit(info, modified)
    return time if time >= 0 else whole_number(info.get("timestamp"))


def timestamp_of(snapshot: Snapshot) -> int:
    """The time of a snapshot's version in epoch milliseconds; -1 without a table."""
    version = snapshot.version
    if version < 0:
        return -1
    switched_on = _enablement(snapshot)
    if switched_on is None or version < switched_on[0]:
        return _modified(snapshot.log, version)
    if snapshot._state.commit_info is not None:
        info = snapshot._state.info
    else:
        try:
            info = _read_info(snapshot.log, version)
        except FileNotFoundError:
            info = {}
    in_commit = _in_commit(info, -1)
    return in_commit if in_commit >= 0 else _modified(snapshot.log, version)


def _modified(log: LogReader, version: int) -> int:
    """When the commit's file was written; for a cleaned-up commit, the time of its checkpoint."""
    status = log.commits.status(version)
    if status is None:
        status = next(iter(log.store.list_from(f"{LOG_FOLDER}/{version:020}.")), None)
    return status.modification_time if status is not None else -1


def commit_times(
    log: LogReader, first: int, last: int, only: Collection[int] | None = None
) -> dict[int, int]:
    """Commit times (epoch ms) of the versions from ``first`` to ``last``, or some, that are in the log.

    Raises:
        TableNotFound: there is no table.
    """
    switched_on = _enablement(_existing(log))
    times = {v: at for v, at in _file_times(log).items() if first <= v <= last and v in (only or (v,))}
    for version in times:
        if switched_on is not None and version >= switched_on[0]:
            times[version] = _in_commit(_read_info(log, version), times[version])
    return times


def version_as_of(log: LogReader, when: int | str | dt.datetime) -> int:
    """The last version committed at or before a time, among those that can be read.

    A day alone means its midnight, as in Delta's ``TIMESTAMP AS OF``.

    Raises:
        VersionNotFound: before the first or after the last of them; the message names both.
        InvalidArgument: a time that cannot be understood.
        TableNotFound: there is no table.
    """
    moment = to_milliseconds(when)
    snapshot = _existing(log)
    times = _file_times(log)
    first = log.earliest_version()
    versions = sorted(v for v in times if first <= v <= snapshot.version)
    switched_on = _enablement(snapshot)
    older = [v for v in versions if switched_on is None or v < switched_on[0]]
    newer = versions[len(older) :]

    def time_of(version: int) -> int:
        if version not in newer_set:
            return times[version]
        return _in_commit(_read_info(log, version), times[version])

    newer_set = frozenset(newer)
    if switched_on is not None and newer and moment >= (switched_on[1] or time_of(newer[0])):
        candidates = newer
    else:
        candidates = older
    if versions and candidates and time_of(candidates[0]) <= moment:
        chosen = candidates[bisect_right(candidates, moment, key=time_of) - 1]
        if chosen != versions[-1] or moment == time_of(chosen):
            return chosen
    earliest, latest = (versions[0], versions[-1]) if versions else (first, snapshot.version)
    bounds = [(v, time_of(v)) for v in (earliest, latest) if v in times]
    raise VersionNotFound(
        f"{log.path} has no version for {_iso(moment)}: "
        + "; ".join(
            f"the {word} commit that can be read, version {v}, is of {_iso(at)}"
            for word, (v, at) in zip(("first", "last"), bounds, strict=False)
        )
        + ". Ask for a time between them, or for a version by number" + _about_day(when, bounds),
        version=None, earliest=earliest, latest=latest, timestamp=moment,
    )


def _about_day(when: int | str | dt.datetime, bounds: Sequence[tuple[int, int]]) -> str:
    """A hint to ask for the end of a day, if that has a version and its midnight has none."""
    try:
        day = dt.date.fromisoformat(when.strip()) if isinstance(when, str) else None
    except ValueError:
        return ""
    if day is None or not bounds:
        return ""
    end = dt.datetime.combine(day, dt.time(23, 59, 59, 999_000), dt.timezone.utc)
    (_, begin), (latest, last) = bounds[0], bounds[-1]
    if not to_milliseconds(day.isoformat()) < begin <= to_milliseconds(end):
        return ""
    note = f". A day alone means its midnight, {day}T00:00:00Z; "
    if to_milliseconds(end) > last:
        return f"{note}at its end the table is at version {latest}: ask for that"
    return f"{note}its end is {_iso(to_milliseconds(end))}"


def to_milliseconds(when: int | str | dt.datetime) -> int:
    """Epoch milliseconds of a time; without a zone it is taken as UTC.

    >>> to_milliseconds("1970-01-01T00:00:01Z"), to_milliseconds("1970-01-02"), to_milliseconds(5)
    (1000, 86400000, 5)
    """
    if isinstance(when, int) and not isinstance(when, bool):
        return when
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when.strip().replace("Z", "+00:00"))
        except ValueError:
            raise InvalidArgument(
                f"{when!r} is not a valid time; write it like '2026-11-20T10:00:00Z' or '2026-11-20'"
            ) from None
    if not isinstance(when, dt.datetime):
        raise InvalidArgument(
            f"a time is epoch milliseconds, a datetime or ISO 8601 text, not {when!r}"
        )
    if when != when:
        raise InvalidArgument(f"expected a time, got {when!r}")
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.timezone.utc)
    return (when - _EPOCH) // dt.timedelta(milliseconds=1)


def _iso(milliseconds: int) -> str:
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _existing(log: LogReader) -> Snapshot:
    snapshot = log.update()
    if snapshot.version < 0:
        raise TableNotFound(f"there is no Delta table at {log.path}", path=log.path)
    return snapshot


def _file_times(log: LogReader) -> dict[int, int]:
    """Modification times by version, raised if a later file is older than an earlier one."""
    times: dict[int, int] = {}
    before = None
    for version, status in log.commits.listed():
        at = status.modification_time
        times[version] = before = at if before is None or at > before else before + 1
    return times


def _enablement(snapshot: Snapshot) -> tuple[int, int | None] | None:
    """(first version with in-commit timestamps, its time or None); None if they are off."""
    properties = snapshot.properties
    if properties.get("delta.enableInCommitTimestamps", "").lower() != "true":
        return None
    try:
        version = int(properties.get("delta.inCommitTimestampEnablementVersion", 0))
        time = properties.get("delta.inCommitTimestampEnablementTimestamp")
        return version, None if time is None else int(time)
    except ValueError:
        return 0, None


def _in_commit(info: Mapping[str, Any], otherwise: int) -> int:
    value = info.get("inCommitTimestamp")
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _read_info(log: LogReader, version: int) -> dict[str, Any]:
    return commit_info_of(log.commits.read(version), version, log.path)
