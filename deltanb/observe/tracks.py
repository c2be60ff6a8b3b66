"""What a timeline is made of: one value per transaction, from the log and from this session's journal.

What lives here: reading commits quickly, their kinds and writers, and how attempts of this process join them.
What it does not know: positions in a picture, colours, words.

Files and bytes are counted from the actions of a commit, since metrics may be missing, are texts or numbers,
and mean different things to different writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile, RemoveFile
from deltanb.errors import DeltaError, InvalidArgument, VersionNotFound
from deltanb.log.commit_times import MAX_BEFORE, raised, shown_time
from deltanb.log.lines import DAMAGED, decode_sizes, explain, whole_number
from deltanb.text import formatting as units
from deltanb.text.writer import LIBRARY
from deltanb.transaction.operations import REPLACE_ON, REPLACE_TABLE, REPLACE_USING

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.transaction.hook_failures import HookFailure
    from deltanb.transaction.journal import Attempt
    from deltanb.transaction.runs import WorkRun

KINDS = ("append", "rewrite", "delete", "optimize", "schema")
UNKNOWN_WRITER = "unknown writer"
WHOLE_TABLE = "the whole table"  # in place of a condition
UNKNOWN_OPERATION = "not recorded"
MAX_NAME = 60  # characters of an operation, a writer or a table: nobody reads more of them in a picture

READ_BY_ANOTHER = ("MERGE", "ADD CONSTRAINT")
"""Operations that read by a condition which nobody wrote: a MERGE by the values of its source, a constraint
by what would break it."""

SHORT_ID = 8  # characters of a query's id: up to its first hyphen

MAX_PREDICATE = 80  # characters of a condition: what a tooltip shows on a line or two

_KIND_OF = {
    "append": ("STREAMING UPDATE", "CREATE TABLE AS SELECT", "CONVERT", "CLONE", "COPY INTO"),
    "rewrite": ("MERGE", "UPDATE", "RESTORE", "REPLACE TABLE AS SELECT",
                "CREATE OR REPLACE TABLE AS SELECT", "FSCK"),
    "delete": ("DELETE", "TRUNCATE"),
    "optimize": ("OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "COMPUTE STATS",
                 "REORG TABLE UPGRADE UNIFORM", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"),
}
_KINDS_BY_OPERATION = {name: kind for kind, names in _KIND_OF.items() for name in names}
_SPARK_ID = re.compile(r"#\d+L?\b")  # of a column, as Spark writes it: month#12
_ENGINE = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*")


@dataclass(frozen=True)
class Mark:
    """A remark on one commit: a sign, ``✕``, ``✓`` or ``…`` (not yet), and a few words.

    For a wait, ``since`` is the version at which it began; the lane has a band from there on.
    """

    words: str
    sign: str = "✕"
    since: int | None = None

    @classmethod
    def of(cls, mark: Mark | str) -> Mark:
        """A remark from text, which may begin with its sign.

        >>> Mark.of("✓ read"), Mark.of("delete / read")
        (Mark(words='read', sign='✓', since=None), Mark(words='delete / read', sign='✕', since=None))
        >>> Mark.of("… not yet").is_open
        True
        """
        if not isinstance(mark, str):
            return mark
        sign, _, words = mark.partition(" ")
        return cls(words, sign) if sign in ("✓", "✕", "…") and words else cls(mark)

    @property
    def is_open(self) -> bool:
        """Whether it is neither good nor bad news: what it is about has not happened yet."""
        return self.sign == "…"


@dataclass(frozen=True)
class Track:
    """One transaction: the version it read, the one it committed or met last, and what it did.

    ``lost`` are the versions of races it lost, ``None`` if this process did not see them: a Delta log does
    not record them. ``outcome`` is as in the journal, ``reason`` the code of the error it failed with.
    ``added`` and ``removed`` count files, ``written`` and ``gone`` their bytes; ``is_counted`` is False if
    they are unknown. ``predicate`` is its condition as SQL, or what an attempt of this process read; empty if
    there is none. ``run`` is the run of :func:`deltanb.retry` it was part of, as far as this process knows,
    ``hook_failures`` are the hooks that failed after it.
    """

    version: int
    read_version: int | None
    operation: str
    writer: str
    kind: str
    added: int = 0
    removed: int = 0
    written: int = 0
    gone: int = 0
    time: int | None = None
    txn_id: str | None = None
    outcome: str = "committed"
    lost: tuple[int, ...] | None = None
    reason: str | None = None
    is_counted: bool = True
    predicate: str = ""
    run: WorkRun | None = None
    hook_failures: tuple[HookFailure, ...] = ()
    user: str | None = None
    """Who wrote it, where ``writer`` is the lane of a stream."""
    is_elsewhere: bool = False
    """Whether it failed in another process, and is known from a journal that is kept."""

    @property
    def is_committed(self) -> bool:
        """Whether it is a commit of the table."""
        return self.outcome == "committed"

    @property
    def start(self) -> int:
        """Where its line starts: at the version read or, if that is unknown, where it ends."""
        return self.version if self.read_version is None else min(self.read_version, self.version)

    @property
    def crosses(self) -> tuple[int, ...]:
        """The versions that bear its ✕: lost races, and where it failed."""
        lost = self.lost or ()
        if not self.is_committed and self.version not in lost:
            lost = (*lost, self.version)
        return lost


# -- commits -----------------------------------------------------------------------------------


def read(log: LogReader, first: int | None = None, last: int | None = None) -> list[Track]:
    """The commits that the log still has, oldest first; bounds are inclusive.

    Raises:
        InvalidTable: a damaged commit, naming file and line.
    """
    tracks, is_current = [], False
    listed = log.commits.listed(max(0, (first or 0) - MAX_BEFORE))
    times = raised(log, listed)
    statuses = {version: status for version, status in listed
                if version >= (first or 0) and (last is None or version <= last)}
    names = {version: status.name for version, status in statuses.items()}
    for version, data in zip(names, log.commits.read_many(names), strict=True):
        if data is None:  # cleaned up since it was listed
            continue
        try:
            lines = decode_sizes(data)
            info = next((line.commitInfo for line in lines if line.commitInfo is not None), {})
            if "inCommitTimestamp" in info and not is_current:
                is_current = True
                with suppress(DeltaError, OSError):  # the newest version says what these are worth
                    log.update()
            tracks.append(commit(version, lines, shown_time(log, version, info, times[version])))
        except DAMAGED as error:
            raise explain(data, names[version], log.path, error) from None
    return tracks


def versions(log: LogReader) -> list[int]:
    """The versions whose commits are in the log."""
    return sorted(log.commits.names())


def commit(version: int, lines: Iterable[Any], time: int | None = None) -> Track:
    """The track of a commit of any writer, from the lines of its file and its time in epoch milliseconds.

    >>> lines = decode_sizes(b'{"add":{"size":5}}')
    >>> commit(3, lines).kind, commit(3, lines).written, commit(3, []).writer
    ('append', 5, 'unknown writer')
    """
    info: Mapping[str, Any] = {}
    added = removed = written = gone = 0
    changes_data = False
    for line in lines:
        if line.add is not None:
            added += 1
            written += line.add.size or 0
            changes_data |= line.add.dataChange is not False
        elif line.remove is not None:
            removed += 1
            gone += line.remove.size or 0
            changes_data |= line.remove.dataChange is not False
        elif line.commitInfo is not None:
            info = line.commitInfo
    operation = operation_of(info.get("operation"))
    stream = stream_of(info.get("operationParameters"))
    writer = name_writer(info)
    user = writer_of(info.get("userName"), info.get("engineInfo")) if stream else None
    return Track(
        version=version, read_version=whole_number(info.get("readVersion")), operation=operation,
        writer=writer, user=user,
        kind=kind_of(operation, info.get("operationParameters"), added, removed, changes_data),
        added=added, removed=removed, written=written, gone=gone,
        time=time,
        txn_id=info.get("txnId"), predicate=predicate_of(info.get("operationParameters")),
    )


def operation_of(name: Any) -> str:
    """What a commit did, by the name that all views give.

    >>> operation_of("WRITE"), operation_of(None)
    ('WRITE', 'not recorded')
    """
    return units.fit(units.clean(name or UNKNOWN_OPERATION), MAX_NAME)


def name_writer(info: Mapping[str, Any]) -> str:
    """Who wrote a commit, from the fields of its commitInfo: the stream, else the user, else the engine
    without its version, else the client of an old deltalake. This library is nobody: its commits name their
    writer, unless somebody has wished otherwise.

    >>> name_writer({"userName": "etl-b", "engineInfo": "deltanb/1"})
    'etl-b'
    >>> name_writer({"engineInfo": "Apache-Spark/4.0.0"}), name_writer({"engineInfo": "deltanb/1"})
    ('Apache-Spark', 'unknown writer')
    >>> name_writer({"clientVersion": "delta-rs.0.17.0"}), name_writer({})
    ('delta-rs', 'unknown writer')
    """
    return stream_of(info.get("operationParameters")) or writer_of(
        info.get("userName"), info.get("engineInfo") or info.get("clientVersion"))


def writer_of(user: Any, engine: Any) -> str:
    """The owner of a commit's lane: the user, else the engine without its version.

    >>> writer_of("etl-b", None), writer_of(None, "Apache-Spark/4.0.0 Delta-Lake/4.0.0")
    ('etl-b', 'Apache-Spark')
    >>> writer_of(None, "delta-rs:py-1.1.4"), writer_of(None, None)
    ('delta-rs', 'unknown writer')
    """
    return units.fit_writer(units.clean(user), MAX_NAME) if user else engine_of(engine) or UNKNOWN_WRITER


def engine_of(engine: Any) -> str:
    """The engine without its version, where it stands for who wrote; empty for none, and for this library.

    >>> engine_of("Apache-Spark/4.0.0 Delta-Lake/4.0.0"), engine_of("deltanb/1"), engine_of(None)
    ('Apache-Spark', '', '')
    """
    match = _ENGINE.match(str(engine or ""))
    return match[0] if match and match[0] != LIBRARY else ""


def stream_of(parameters: Any) -> str | None:
    """The lane of a stream's batches: the name of its query or, if it has none, the beginning of its id; None
    for commits that are not batches.

    >>> batch = {"queryId": "4a812577-36cc-4dce-a4d2-12161abde8b9", "epochId": "0"}
    >>> stream_of(batch), stream_of({**batch, "queryName": "ducks"}), stream_of({"mode": "Append"})
    ('stream 4a812577', 'stream ducks', None)
    """
    query = parameters.get("queryId") if isinstance(parameters, Mapping) else None
    if not query or "epochId" not in parameters:
        return None
    name = parameters.get("queryName") or str(query)[:SHORT_ID]
    return units.fit(f"stream {units.clean(name)}", MAX_NAME)


def kind_of(
    operation: str, parameters: Any = None, added: int = 0, removed: int = 0, changes_data: bool = True
) -> str:
    """The kind of a commit, by its operation if that is known, else by its files.

    >>> kind_of("MERGE"), kind_of("WRITE", {"mode": "Append"}), kind_of("WRITE", {}, 1, 2)
    ('rewrite', 'append', 'rewrite')
    >>> kind_of("REPLACE TABLE AS SELECT", None, 1, 5), kind_of("CREATE OR REPLACE TABLE AS SELECT", None, 1)
    ('rewrite', 'append')
    >>> kind_of("anything", None, 1, 5, changes_data=False), kind_of("ADD COLUMNS")
    ('optimize', 'schema')
    """
    known = _KINDS_BY_OPERATION.get(operation.upper())
    if known is not None:
        created = operation.upper() in REPLACE_TABLE and added and not removed
        return "append" if created else known
    mode = parameters.get("mode") if isinstance(parameters, Mapping) else None
    if operation.upper() == "WRITE" and isinstance(mode, str):
        return "append" if mode.lower() in ("append", "errorifexists", "ignore") else "rewrite"
    if (added or removed) and not changes_data:
        return "optimize"
    if added:
        return "rewrite" if removed else "append"
    if removed:
        return "delete"
    return "append" if operation.upper() == "WRITE" else "schema"


def predicate_of(parameters: Any) -> str:
    """The condition in an operation's parameters: some writers record it as a JSON list, in brackets and with
    the ids of Spark's columns, others as it was typed.

    >>> predicate_of({"predicate": '["(month#12 = 6)"]'}), predicate_of({"predicate": "month = 6"})
    ('month = 6', 'month = 6')
    >>> predicate_of({"predicate": "[]"}), predicate_of(None), predicate_of({"name": "sane", "expr": "n > 0"})
    ('', '', 'n > 0')
    """
    return _condition(conditions_of(parameters))


def stated_condition(operation: Any) -> str:
    """The condition that a person wrote, of an operation that reads by another one; else empty.

    >>> from deltanb.transaction.operations import Operation
    >>> stated_condition(Operation("ADD CONSTRAINT", {"name": "sane", "expr": "n > 0"}))
    'n > 0'
    >>> stated_condition(Operation("DELETE", {"predicate": "n > 0"}))
    ''
    """
    if str(getattr(operation, "name", operation)).upper() not in READ_BY_ANOTHER:
        return ""
    return " AND ".join(_unbracketed(text) for text in conditions_of(operation.parameters))


def conditions_of(parameters: Any) -> list[str]:
    """The parts of the condition in an operation's parameters, whole, without the ids of Spark's columns;
    that of a constraint is what holds of the rows, and that of an overwrite by columns is as in a join.

    >>> conditions_of({"predicate": '["(month#12 = 6)"]'}), conditions_of({})
    (['(month = 6)'], [])
    >>> conditions_of({"replaceUsingCols": "(id, day)"}), conditions_of({"replaceOnCond": "t.id = s.id"})
    (['USING (id, day)'], ['t.id = s.id'])
    """
    named = parameters if isinstance(parameters, Mapping) else {}
    predicate = units.parsed(named.get("predicate", named.get("expr")))
    texts = list(predicate) if isinstance(predicate, list) else [predicate]
    texts += [f"USING {columns}" for columns in [named.get(REPLACE_USING)] if columns]
    texts.append(named.get(REPLACE_ON))
    return [_SPARK_ID.sub("", str(text)) for text in texts if text not in (None, "", True)]


def _condition(texts: Iterable[str]) -> str:
    parts = [_unbracketed(text) for text in texts]
    return units.fit(units.clean(" AND ".join(parts)), MAX_PREDICATE)


def _unbracketed(text: str) -> str:
    """A condition without outer brackets."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return _unbracketed(text[1:-1]) if char == ")" and at == len(text) - 1 else text
    return text


# -- attempts ----------------------------------------------------------------------------------


def joined(commits: Iterable[Track], attempts: Iterable[Attempt]) -> list[Track]:
    """Commits with the races recorded in attempts, and the failed attempts, by version.

    An attempt belongs to the commit that names its transaction, even if it does not know that it landed; else
    to a commit of its version that names no transaction.
    """
    by_version = {track.version: track for track in commits}
    landed = {track.txn_id: track.version for track in by_version.values() if track.txn_id is not None}
    failed = []
    for attempt in attempts:
        lost = tuple(race.version for race in attempt.lost)
        if attempt.outcome != "committed" and attempt.txn_id not in landed:
            failed.append(_failed(attempt, lost))
            continue
        version = landed.get(attempt.txn_id, attempt.version)
        track = by_version.get(version)
        if track is not None and track.txn_id in (None, attempt.txn_id):
            read = attempt.read_version if attempt.read_version >= 0 else None
            by_version[version] = replace(track, lost=lost, read_version=read,
                                     predicate=track.predicate or _read_by(attempt), run=attempt.run,
                                     hook_failures=attempt.hook_failures)
    return sorted([*by_version.values(), *failed], key=lambda track: (track.version, track.is_committed))


def _failed(attempt: Attempt, lost: tuple[int, ...]) -> Track:
    prepared = attempt.prepared
    actions = () if prepared is None else prepared.actions
    stream = stream_of(attempt.stream) if prepared is None else stream_of(prepared.operation.parameters)
    added = [a for a in actions if isinstance(a, AddFile)]
    removed = [a for a in actions if isinstance(a, RemoveFile)]
    return Track(
        version=attempt.version,
        read_version=attempt.read_version if attempt.read_version >= 0 else None,
        operation=attempt.operation, writer=stream or writer_of(attempt.writer, None),
        kind=kind_of(attempt.operation, None, len(added), len(removed)),
        added=len(added), removed=len(removed),
        written=sum(a.size or 0 for a in added), gone=sum(a.size or 0 for a in removed),
        txn_id=attempt.txn_id, outcome=attempt.outcome, lost=lost, reason=attempt.kind,
        is_counted=attempt.prepared is not None, predicate=_read_by(attempt), run=attempt.run,
        is_elsewhere=attempt.is_elsewhere,
    )


def _read_by(attempt: Attempt) -> str:
    """What an attempt read, as the condition that a person wrote; empty for a blind append."""
    stated = "" if attempt.prepared is None else stated_condition(attempt.prepared.operation)
    if stated:
        return units.fit(units.clean(stated), MAX_PREDICATE)
    if attempt.read_whole_table or "TRUE" in attempt.reads:
        return WHOLE_TABLE
    return units.fit(units.clean(" OR ".join(dict.fromkeys(attempt.reads))), MAX_PREDICATE)


def gone(log: LogReader, first: int, last: int) -> str:
    """Which versions from ``first`` on have lost their commits, in words; empty if none have."""
    begin = next(iter(versions(log)), None)
    if begin is not None and begin <= first:
        return ""
    end = last if begin is None else min(last, begin - 1)
    span = f"v{first} is gone: its commit was" if first == end else \
        f"v{first} to v{end} are gone: their commits were"
    left = "no commit is left" if begin is None else f"the log begins at v{begin}"
    return f"{span} cleaned up; {left}"


def bounds(log: LogReader, start: Any, end: Any, newest: int) -> tuple[int, int]:
    """The versions from ``start`` to ``end``, each a version, a time or None, up to ``newest``.

    Raises:
        VersionNotFound: a version that does not exist, or an end before the start.
        InvalidArgument: neither a version nor a time.
    """
    first = 0 if start is None else _version(log, start)
    last = newest if end is None else _version(log, end)
    if first < 0 or first > newest or last < first:
        raise VersionNotFound(
            f"{log.path} has no versions from {first} to {last}: this table is pinned to version {newest}; "
            "give a start from 0 on that is not after the end",
            version=first, earliest=0, latest=newest)
    return first, min(last, newest)


def _version(log: LogReader, moment: Any) -> int:
    if hasattr(moment, "__index__") and not isinstance(moment, bool):
        return int(moment)
    if isinstance(moment, bool):
        raise InvalidArgument(f"a timeline's bounds are versions or times, not {moment!r}")

    from deltanb.log import commit_times

    return commit_times.version_as_of(log, moment)
