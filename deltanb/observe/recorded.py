"""Recorded commits turned back into transactions: what each one read and wrote, according to the log.

What lives here: the version that a commit read, and its :class:`CurrentTransaction`: actions from the commit,
reads from the first source that has them: the session's journal; nothing for a blind append; the removed
files of a rewrite that changes no data; the predicate of a DELETE, UPDATE, MERGE or partial overwrite;
everything for a whole overwrite. For any other commit, the whole table counts as read.
What it does not know: rules, isolation levels other than the recorded one, the effects of a commit.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from deltanb.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    TransactionGroup,
)
from deltanb.errors import DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.log.lines import parse_commit
from deltanb.schema import properties
from deltanb.text import formatting as units
from deltanb.text.safe_text import last_part, redacted
from deltanb.transaction.current import SNAPSHOT_ISOLATION, CurrentTransaction
from deltanb.transaction.journal import Attempt
from deltanb.transaction.operations import (
    DEFINES,
    MANUAL_UPDATE,
    MATCHED,
    REPLACE_TABLE,
    UPGRADES,
    Operation,
    replaces_definition,
)
from deltanb.transaction.prepare import is_blind_append, isolation_of
from deltanb.transaction.reads import Reads, Scan, find_files, partition_key, scan_for
from deltanb.transaction.rebase import ROW_TRACKING_DOMAIN, parse_high_water_mark
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.history import History
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

MAX_COMMITS = 1_000  # parsed commits kept: more than any transaction is behind, and some MB
FEW_FILES = 1_000  # in a table this small, finding the files read again costs next to nothing
MAX_WALK = 100  # commits walked from one version to the next; beyond, a checkpoint is nearer
MAX_LOOSE = 30
"""Versions that are made from the last without settling which files they have: each search in them goes
through all changes since."""
IN_PART = ("cannot be determined without its source", "is not understood")
"""What is said of a condition of which only a part is known."""
WHOLE = "reads not recorded: taken as the whole table"
LAYOUT = "the files it rewrites"
_SPARK_ID = re.compile(r"#\d+L?\b")  # Spark writes predicates with the ids of its columns: month#12
MAX_SUPPOSED = 10_000
"""Removals that a transaction without a commit may have had: they matter only to what removes, too."""
_LAYS_OUT = frozenset({"OPTIMIZE", "REORG", "COMPUTE STATS"})
_REPLACES_ALL = REPLACE_TABLE | {"TRUNCATE", "CLONE", "RESTORE"}


@dataclass(frozen=True)
class Recorded:
    """A transaction restored from the log, and how its reads are known, in words.

    ``is_assumed``: its reads are not recorded, so more may count as read than was.
    """

    current: CurrentTransaction
    reads: str
    is_assumed: bool


class Recorder:
    """Restores the transactions behind a table's commits; fastest from old to new, since each version builds
    on the one before.

    A snapshot without its files needs only commits; the files cost much more, so they are loaded only if they
    can matter. ``num_files`` is how many the table has, where that is known.
    """

    def __init__(self, log: LogReader, num_files: int | None = None) -> None:
        self.log = log
        self._commits: OrderedDict[int, Winner] = OrderedDict()
        self._bare: Snapshot | None = None
        self._whole: Snapshot | None = None
        self._settled = -1 - MAX_LOOSE  # the last version whose files were settled
        self._is_small = (log.update().num_files if num_files is None else num_files) <= FEW_FILES

    def commit(self, version: int) -> Winner:
        """The commit of a version.

        Raises:
            VersionNotFound: the log does not have it, or no longer.
        """
        winner = self._commits.get(version)
        if winner is None:
            winner = self._keep(version, Winner(version, tuple(self.log.read_commit(version))))
        return winner

    def _keep(self, version: int, winner: Winner) -> Winner:
        self._commits[version] = winner
        if len(self._commits) > MAX_COMMITS:
            self._commits.popitem(last=False)
        return winner

    def read_ahead(self, names: Mapping[int, str]) -> None:
        """Read commits, by version and file name, that :meth:`commit` will be asked for; over a network,
        several at a time. What cannot be read is left to it, and so is what is beyond the first
        :data:`MAX_COMMITS`, which would push out what is asked for before."""
        missing: dict[int, str] = {}
        for version, name in islice(names.items(), MAX_COMMITS):
            if version in self._commits:
                self._commits.move_to_end(version)  # what is read now pushes out others
            else:
                missing[version] = name
        with suppress(OSError):
            bodies = self.log.commits.read_many(missing)
            for (version, name), data in zip(missing.items(), bodies, strict=True):
                if data is not None:
                    with suppress(DeltaError):
                        self._keep(version, Winner(version, tuple(parse_commit(data, name, self.log.path))))

    def snapshot(self, version: int, with_files: bool) -> Snapshot:
        """The table at a version; without ``with_files``, its files are not right.

        Raises:
            VersionNotFound: it cannot be read any more.
        """
        snapshot = self._next(self._whole if with_files else self._bare, version, with_files)
        if with_files:
            self._whole = snapshot
            if not 0 <= version - self._settled <= MAX_LOOSE:
                snapshot._state.files.parts()
                self._settled = version
        else:
            self._bare = snapshot
        return snapshot

    def _next(self, held: Snapshot | None, version: int, with_files: bool) -> Snapshot:
        from deltanb.log.replay import Delta, feed_actions
        from deltanb.log.snapshot import Snapshot

        if held is None or not 0 <= version - held.version <= MAX_WALK:
            return self.log.snapshot_at(version)
        if version == held.version:
            return held
        delta = Delta()
        for passed in range(held.version + 1, version + 1):
            actions = self.commit(passed).actions
            feed_actions(delta, actions if with_files else [
                a for a in actions if not isinstance(a, FileAction)])
        return Snapshot(self.log, held._state.after(delta, version))

    def _needs_files(self, version: int, read_version: int) -> bool:
        """Whether the files it read can matter, because winners remove some, or cost little."""
        return self._is_small or any(
            self.commit(winner).removes for winner in range(read_version + 1, version))

    def transaction(self, version: int, read_version: int, attempt: Attempt | None = None) -> Recorded:
        """The transaction that committed a version, as it was before its first attempt.

        Raises:
            VersionNotFound: the commit, or the version it read, cannot be read any more.
        """
        with_files = self._needs_files(version, read_version)
        commit, snapshot = self.commit(version), self.snapshot(read_version, with_files)
        actions = tuple(a for a in commit.actions if not isinstance(a, CommitInfo | TransactionGroup)
                        and not _is_rebased(a, commit, snapshot))
        info = commit.commit_info
        reads, words, is_assumed = _reads(commit, actions, snapshot, attempt, with_files)
        metadata = _last(Metadata, actions) or snapshot.metadata
        operation = _operation(info)
        if attempt is not None:
            operation = operation.replace(changes_data=attempt.changes_data)
        blind = info.is_blind_append
        current = CurrentTransaction(
            txn_id=info.txn_id or "", table=_name(self.log, snapshot), read_version=read_version,
            read_metadata=snapshot.metadata, read_protocol=snapshot.protocol, metadata=metadata,
            protocol=_last(Protocol, actions) or snapshot.protocol, actions=actions, reads=reads,
            operation=operation, isolation=isolation_of(actions, metadata, operation),
            is_blind_append=blind if isinstance(blind, bool) else is_blind_append(actions, reads),
            commit_info=info, row_id_high_water_mark=parse_high_water_mark(
                snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN)),
        )
        return Recorded(current, words, is_assumed)

    def supposed(self, info: CommitInfo, read_version: int, removes: bool = True) -> Recorded:
        """A transaction that has left no commit, as its commitInfo would have described it.

        Its reads are those of :meth:`transaction`; its actions the least that its operation does: removals of
        the files it read, unless nobody asks for them (``removes``), or metadata. ``is_blind_append`` of the
        info, where it is a bool, is believed.

        Raises:
            VersionNotFound: the version it read cannot be read any more.
        """
        snapshot, operation = self.snapshot(read_version, with_files=True), _operation(info)
        commit = Winner(read_version + 1, (info,))
        level = str(properties.get(snapshot.metadata.configuration, "delta.isolationLevel"))
        actions: tuple[Action, ...] = ()
        if operation.name in _LAYS_OUT:
            scans, words, is_assumed = _by_condition(operation.name, parameters_of(info), snapshot)
            tables = [_scan_again(snapshot, scan, True)[1] for scan in scans or ()]
            reads = Reads(files=tuple(table for table in tables if table is not None))
            words, is_assumed, level = f"files it may rewrite: {words}", True, SNAPSHOT_ISOLATION
        elif operation.name in DEFINES or operation.name.startswith("ALTER"):
            is_assumed = operation.name not in DEFINES
            reads, words = Reads(), "nothing: it changes the table's definition"
            actions = (snapshot.protocol if operation.name in UPGRADES else snapshot.metadata,)
        else:
            reads, words, is_assumed = _reads(commit, (), snapshot, None, True)
        if removes and not commit.is_blind_append and not actions:
            actions = tuple(_removals(reads, operation.name not in _LAYS_OUT))
        current = CurrentTransaction(
            txn_id="", table=_name(self.log, snapshot), read_version=read_version,
            read_metadata=snapshot.metadata, read_protocol=snapshot.protocol, metadata=snapshot.metadata,
            protocol=snapshot.protocol, actions=actions, reads=reads, operation=operation, isolation=level,
            is_blind_append=commit.is_blind_append or not reads.depends_on_files, commit_info=info,
        )
        return Recorded(current, words, is_assumed)


def _removals(reads: Reads, changes_data: bool) -> Iterator[RemoveFile]:
    """Removals of the files that were read, as many as matter to a rule."""
    left = MAX_SUPPOSED
    for table in reads.files:
        rows = table.slice(0, left)
        left -= rows.num_rows
        for row in rows.to_pylist(maps_as_pydicts="lossy"):
            yield RemoveFile(path=row["path"], deletion_timestamp=0, data_change=changes_data,
                             partition_values=row["partition_values"])


def recorder_of(log: LogReader) -> Recorder:
    """A recorder of a log that may be damaged: then its newest version cannot be read, but older ones can."""
    try:
        return Recorder(log)
    except (DeltaError, OSError):
        return Recorder(log, num_files=0)


def name_of(history: History) -> str:
    """The table's name, or that of its folder if its newest version cannot be read."""
    try:
        return history.table
    except (DeltaError, OSError):
        assert history.log is not None
        return units.name_of(history.log.path)


def _name(log: LogReader, snapshot: Snapshot) -> str:
    return snapshot.metadata.name or last_part(log.path) or redacted(log.path)


def _is_rebased(action: Action, commit: Winner, snapshot: Snapshot) -> bool:
    """Whether a rebase added the action to the commit: it ends a domain that a winner introduced."""
    return (isinstance(action, DomainMetadata) and action.removed
            and replaces_definition(commit.operation, parameters_of(commit.commit_info))
            and action.domain not in snapshot.domain_metadata)


def _last(kind: type[Any], actions: Sequence[Action]) -> Any:
    return next((a for a in actions if isinstance(a, kind)), None)


def _operation(info: CommitInfo) -> Operation:
    name = info.operation
    if not isinstance(name, str) or not name:
        return MANUAL_UPDATE
    tags = info.tags if isinstance(info.tags, dict) else {}
    return Operation(name, parameters_of(info), tags=tags)


def parameters_of(info: CommitInfo) -> dict[str, Any]:
    """The operation's parameters with their JSON texts as values; writers differ in what they quote."""
    parameters = info.operation_parameters
    return {k: _value(v) for k, v in parameters.items()} if isinstance(parameters, Mapping) else {}


def _value(text: Any) -> Any:
    if not isinstance(text, str) or text[:1] not in ("[", "{", '"', "t", "f", "n"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


# ---------------------------------------------------------------------------- what was read

RecordedReads = tuple[Reads, str, bool]
"""What a commit read, how that is known, and whether it is only assumed."""


def _reads(
    commit: Winner, actions: Sequence[Action], snapshot: Snapshot, attempt: Attempt | None,
    with_files: bool,
) -> RecordedReads:
    files = [a for a in actions if isinstance(a, FileAction)]
    is_layout = bool(files) and not any(a.data_change for a in files)
    if attempt is not None:
        reads, words = _as_in_journal(snapshot, attempt, with_files)
        return reads, words or (LAYOUT if is_layout else "nothing"), False
    app_ids = frozenset(a.app_id for a in actions if isinstance(a, SetTransaction))
    if commit.is_blind_append:
        return Reads(app_ids=app_ids), "nothing: a blind append", False
    if is_layout:
        return Reads(files=(_paths(files),), app_ids=app_ids), LAYOUT, False
    scans, words, is_assumed = _scans(commit, snapshot)
    if scans is None:
        return Reads((Scan(),), whole_table=True, app_ids=app_ids), WHOLE, True
    rescanned = [_scan_again(snapshot, scan, with_files) for scan in scans]
    return Reads(tuple(scan for scan, _ in rescanned), tuple(t for _, t in rescanned if t is not None),
                 app_ids=app_ids), words, is_assumed


def _as_in_journal(snapshot: Snapshot, attempt: Attempt, with_files: bool) -> tuple[Reads, str]:
    rescanned = [_scan_again(snapshot, scan, with_files) for scan in attempt.scans]
    reads = Reads(tuple(scan for scan, _ in rescanned), tuple(t for _, t in rescanned if t is not None),
                  attempt.read_whole_table, attempt.app_ids)
    return reads, " OR ".join(attempt.reads)


def _scan_again(snapshot: Snapshot, scan: Scan, with_files: bool) -> tuple[Scan, pa.Table | None]:
    """Repeat a scan; returns it with its files, without them for a look-up by partition."""
    if scan.partitions is not None:
        return scan, None
    if not with_files:
        return scan_for(snapshot, scan.sql), None
    again, table = find_files(snapshot, scan.sql)
    return again, table.select(["path", "partition_values"])


def _paths(files: Sequence[FileAction]) -> pa.Table:
    import pyarrow as pa

    from deltanb.log.replay import FILES_SCHEMA

    kinds = [FILES_SCHEMA.field(name) for name in ("path", "partition_values")]
    chosen = [f for f in files if isinstance(f, AddFile | RemoveFile)]
    values = [list((f.partition_values or {}).items()) for f in chosen]
    return pa.table({"path": [f.path for f in chosen], "partition_values": values},
                    schema=pa.schema(kinds))


def _scans(commit: Winner, snapshot: Snapshot) -> tuple[list[Scan] | None, str, bool]:
    """The scans implied by the operation's parameters; None if they imply nothing."""
    name, parameters = commit.operation, parameters_of(commit.commit_info)
    predicate = parameters.get("predicate")
    if name in ("DELETE", "UPDATE", "MERGE"):
        return _by_condition(name, parameters, snapshot)
    if name in _REPLACES_ALL:
        verb = "empties" if name == "TRUNCATE" else "replaces"
        return [Scan()], f"everything: it {verb} the table", False
    if name == "WRITE" and str(parameters.get("mode")).lower() == "overwrite":
        if predicate:
            return _by_condition(name, parameters, snapshot)
        if parameters.get("isDynamicPartitionOverwrite") is True:
            keys = frozenset(partition_key(a.partition_values) for a in commit.adds)
            return [Scan(partitions=keys)], "the partitions it replaces", False
        if any(parameters.get(matched) for matched in MATCHED):
            return [Scan()], "everything (which rows it replaces is not recorded)", True
        return [Scan()], "everything: it overwrites the table", False
    return None, "", True


@dataclass(frozen=True)
class RecordedCondition:
    """The condition in an operation's parameters: the conjuncts that are understood, the texts of those that
    only Spark understands, and of those that nobody does without the operation's source."""

    parts: tuple[Predicate, ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def recorded_condition(parameters: Mapping[str, Any], schema: StructType) -> RecordedCondition:
    """The ``predicate`` of an operation, of whatever writer: a text, a list of texts, with Spark's ids of
    columns or without.

    >>> from deltanb.schema.ddl import parse_schema
    >>> known = recorded_condition({"predicate": ["id#12L > 3", "a.id = b.id"]}, parse_schema("id long"))
    >>> [part.sql for part in known.parts], known.unknown
    (['id > 3'], ('a.id = b.id',))
    """
    from deltanb.sql.predicates import parse_condition

    predicate = parameters.get("predicate")
    conditions = predicate if isinstance(predicate, list) else [predicate]
    parts: list[Predicate] = []
    left_out: list[str] = []
    unknown: list[str] = []
    for text in (_SPARK_ID.sub("", str(one)) for one in conditions if one is not None and one is not True):
        try:
            condition = parse_condition(text, schema)
        except (InvalidPredicate, UnsupportedPredicate):
            unknown.append(text)
            continue
        parts += condition.parts
        left_out += condition.left_out
    return RecordedCondition(tuple(parts), tuple(left_out), tuple(unknown))


def _by_condition(
    name: str, parameters: Mapping[str, Any], snapshot: Snapshot
) -> tuple[list[Scan] | None, str, bool]:
    if name == "MERGE" and parameters.get("notMatchedBySourcePredicates"):
        return [Scan()], "everything: it looks for rows without a source", False
    known = recorded_condition(parameters, snapshot.schema)
    understood = [part.sql for part in known.parts]
    words = " AND ".join(understood) or "everything"
    if known.left_out:
        words += f" (not counted: {' AND '.join(known.left_out)})"
    if known.unknown:
        words += f" (more of its {name} condition {IN_PART[0]})" \
            if name == "MERGE" else f" (its {name} condition {IN_PART[1]})"
    return [Scan(tuple(understood))], words, bool(known.left_out or known.unknown)
