"""Several statements, one commit: a table on which each statement sees what those before it have done.

What lives here: :class:`StagedLog`, a log whose newest commits are only staged, and what they come to as one
commit. A statement is an ordinary transaction on that log; its commit is kept in memory, as the version that
it would be, and no other reader knows of it.
What it does not know: what a statement is, how rows are read and written.

Theory of operation. The staged commits follow the version that was read first. At the end their actions are
taken together: a file that one statement adds and a later one removes vanishes; of metadata, application
versions and domains the last one counts. What all statements read is what the one transaction has read, so
that the conflict rules see all of it. Files that statements write have no row ids before the commit, which
gives them behind every winner's; a file of the table keeps its own, whatever statements do to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from deltanb.log.commits import Commits
from deltanb.log.lines import whole_number
from deltanb.schema import properties
from deltanb.schema.columns import SCHEMA_UPDATE
from deltanb.schema.protocol import is_active, supports
from deltanb.store.base import FileStatus
from deltanb.transaction.committer import FolderCommitter
from deltanb.transaction.conflict_rules import check
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.metadata_check import verify_feed_columns
from deltanb.transaction.operations import PRESERVED, TRANSACTION, Operation
from deltanb.transaction.steps import Committed, Step, Winner
from deltanb.transaction.transaction import OptimisticTransaction
from deltanb.transaction.writing import delete_files

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore
    from deltanb.transaction.current import CurrentTransaction

__all__ = ["READ_ONLY", "StagedCommits", "StagedLog", "Statement", "check_commits", "as_read_only_commit"]

READ_ONLY = "READ"
"""What a table did that was only read."""

FileKey = tuple[str, str | None]


class StagedCommits:
    """The commits of another log up to a version, and behind them those that are staged."""

    def __init__(self, below: Commits, base: int) -> None:
        self.below, self.base = below, base
        self.is_managed = below.is_managed
        self.bodies: list[_Body] = []

    def stage(self, version: int, body: bytes | Callable[[], bytes]) -> bool:
        """Take in a commit, if it is the next one: its lines, or a function that makes them."""
        if version != self.newest() + 1:
            return False
        self.bodies.append(_Body(body))
        return True

    def through(self, store: LogStore) -> StagedCommits:
        """The other log's, read from the store, and the staged ones, whatever is staged later."""
        other = StagedCommits(self.below.through(store), self.base)
        other.bodies = self.bodies
        return other

    def maintenance_refused(self, operation: str) -> str | None:
        """As the other log has it."""
        return self.below.maintenance_refused(operation)

    def newest(self) -> int:
        """The last one staged."""
        return self.base + len(self.bodies)

    def published(self, version: int) -> int:
        """As far as the other log goes."""
        return self.below.published(min(version, self.base))

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        """Those of the other log, then one for each staged commit."""
        below = {v: name for v, name in self.below.names(listed).items() if v <= self.base}
        return {**below, **{v: self._name(v) for v in self._staged()}}

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        """Those of the other log, then the staged ones."""
        below = [(v, status) for v, status in self.below.listed(first) if v <= self.base]
        return below + [(v, self._status(v)) for v in self._staged() if v >= first]

    def status(self, version: int) -> FileStatus | None:
        """Of the other log's commit, or of the staged one."""
        if version <= self.base:
            return self.below.status(version)
        return self._status(version) if version <= self.newest() else None

    def identity(self, version: int) -> object:
        """Of the other log's commit, or what was staged."""
        if version <= self.base:
            return self.below.identity(version)
        return self.bodies[version - self.base - 1] if version <= self.newest() else None

    def read(self, version: int) -> bytes:
        """The other log's commit, or the staged one."""
        if version <= self.base:
            return self.below.read(version)
        if version > self.newest():
            raise FileNotFoundError(self._name(version))
        return self.bodies[version - self.base - 1].lines

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        """The other log's, then the staged ones."""
        yield from self.below.read_many({v: name for v, name in names.items() if v <= self.base})
        for version in names:
            if version > self.base:
                yield self.read(version)

    def _staged(self) -> range:
        return range(self.base + 1, self.newest() + 1)

    def _name(self, version: int) -> str:
        return f"statement {version - self.base} of the transaction"

    def _status(self, version: int) -> FileStatus:
        body = self.bodies[version - self.base - 1]
        return FileStatus(self._name(version), len(body.lines), body.time)


class _Body:
    """A commit that is staged."""

    def __init__(self, body: bytes | Callable[[], bytes]) -> None:
        self._body = body

    @property
    def lines(self) -> bytes:
        """Its lines; most are never read."""
        if callable(self._body):
            self._body = self._body()
        return self._body

    @cached_property
    def time(self) -> int:
        """When the statement was staged, in epoch milliseconds: there is no file that was written then."""
        info = json.loads(self.lines.split(b"\n", 1)[0]).get("commitInfo") or {}
        return whole_number(info.get("timestamp")) or 0


class StagingCommitter(FolderCommitter):
    """Commits into memory: the next version is always free, and versions are read from the log."""

    is_final = True

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> bool:
        """Stage a version."""
        assert isinstance(self.log.commits, StagedCommits)
        return self.log.commits.stage(version, body)

    def publish(self, version: int) -> None:
        """Nothing: a staged commit is nobody else's."""


@dataclass(frozen=True)
class Statement:
    """A finished statement: the version it is staged as, what it did and what it read."""

    version: int
    transaction: CurrentTransaction
    written: tuple[AddFile, ...]

    @property
    def operation(self) -> Operation:
        """What it does, for the record."""
        return self.transaction.operation

    def of(self, kind: type[Action]) -> list[Any]:
        """Its actions of a kind."""
        return [action for action in self.transaction.actions if isinstance(action, kind)]


class StagedTransaction(OptimisticTransaction):
    """A statement: a transaction whose commit is staged."""

    gives_row_ids = False

    def prepare(
        self, actions: Iterable[Action] = (), operation: Operation | str | None = None,
        *, checked: bool = True,
    ) -> CurrentTransaction:
        """As of any transaction; what the commit of all would be refused for, each statement is, too."""
        assert isinstance(self.log, StagedLog)
        current = super().prepare(actions, operation, checked=checked)
        if any(isinstance(action, FileAction) for action in current.actions) or any(
                each.of(FileAction) for each in self.log.statements):
            verify_feed_columns(current.metadata, self.log.base.metadata, self.table)
        return current

    @property
    def has_surely_not_landed(self) -> bool:
        """Whether the files it wrote are nobody's: those of a statement that is staged go with it."""
        assert isinstance(self.log, StagedLog)
        done = self.committed
        return done is None or all(each.transaction is not done.transaction for each in self.log.statements)

    def _run(self, steps: Generator[Step, Any, Committed]) -> int:
        """As of any transaction; Ctrl-C after it was staged undoes it."""
        log = self.log
        assert isinstance(log, StagedLog)
        before = len(log.statements)
        try:
            return super()._run(steps)
        except BaseException:
            log.rollback_to(before)
            log.undo_staged(self.written)
            raise

    def note_outcome(self, error: BaseException) -> None:
        """Nothing: what is staged is no version yet, and is undone with its transaction."""

    def run_post_commit_hooks(self) -> None:
        """Bring the staged log up to the statement; hooks wait for the commit of all."""
        committed = self.committed
        assert committed is not None and committed.transaction is not None and isinstance(self.log, StagedLog)
        if OptimisticTransaction.get_active() is self:
            OptimisticTransaction.clear_active()
        before = len(self.log.statements)
        self.log.statements.append(
            Statement(committed.version, committed.transaction, tuple(self.written)))
        try:
            self.log.advance(committed.version, committed.actions, self.written)
        except BaseException:
            self.log.rollback_to(before)
            raise


class StagedLog(DeltaLog):
    """A table's log at one version, and the statements that are staged behind it."""

    def __init__(self, log: DeltaLog, base: Snapshot | None = None) -> None:
        self.base: Snapshot = log.update() if base is None else base
        """The version that was read first."""
        self.below = log
        """The table's own log."""
        self.statements: list[Statement] = []
        """What is done, in order."""
        super().__init__(log.store, StagedCommits(log.commits, self.base.version), StagingCommitter, log.name)
        self.begun: list[OptimisticTransaction] = []
        """Every transaction on it, statements or reads: what they have read stays read."""
        self._reader: OptimisticTransaction | None = None
        self._install(self.base._state)

    @property
    def seen_by_others(self) -> DeltaLog:
        """The table's own log."""
        return self.below

    @property
    def staged_behind(self) -> int:
        """The version that was read first."""
        return self.base.version

    def start_transaction(
        self, snapshot: Snapshot | None = None, *, clock: Callable[[], int] | None = None,
    ) -> OptimisticTransaction:
        """The next statement."""
        self.begun.append(StagedTransaction(self, snapshot, clock))
        return self.begun[-1]

    def update(self) -> Snapshot:
        """The table after the last statement; others' commits are not looked for."""
        return self.snapshot

    def rollback_to(self, count: int) -> None:
        """Take back all statements after the first ``count`` and delete their files; their reads stay.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = StagedLog(TableBuilder(MemoryStore()).create("id long").log)
        >>> txn = log.start_transaction()
        >>> txn.commit(txn.write_files({"id": [1]}))
        1
        >>> log.rollback_to(0)
        >>> log.snapshot.version, log.snapshot.num_files
        (0, 0)
        """
        gone = self.statements[count:]
        if not gone:
            return
        try:
            del self.statements[count:]
            self._stage_again()
        except BaseException:  # Ctrl-C, mostly: once more, so that nobody reads files that are gone
            self._stage_again()
            raise
        finally:
            self.delete(file for statement in gone for file in statement.written)

    def undo_staged(self, written: Iterable[AddFile]) -> None:
        """Take back what is staged and is no statement, if anything is, and delete its files."""
        assert isinstance(self.commits, StagedCommits)
        if self.commits.newest() > self.snapshot.version:
            self._stage_again()
            self.delete(written)

    def follow(self) -> bool:
        """Move to the table's newest version, statements and all, unless a commit since then contradicts
        them or what was read; whether there was a newer one.

        Invariant: what was read so far was checked against every commit up to the base, so that the commit
        of all statements has to check only later ones. A table that was removed or replaced stays as it
        was read; its commit is refused.

        Raises:
            DeltaConcurrentModificationException: as the commit would, had it been tried now.
        """
        newest = self.below.update()
        if newest.version <= self.base.version or newest.metadata.id != self.base.metadata.id:
            return False
        if newest.metadata != self.base.metadata and any(each.of(Metadata) for each in self.statements):
            return False  # two changes of one metadata: the commit knows which of them go together
        if self.begun:
            txn, actions, operation = self.together()
            current = txn.prepare(actions, operation) if self.statements else as_read_only_commit(txn)
            check_commits(self.below, current, newest.version)
        ahead = newest.version - self.base.version
        self.base = newest
        self.statements = [replace(each, version=each.version + ahead) for each in self.statements]
        self._stage_again()
        return True

    def _stage_again(self) -> None:
        """Stage the statements again, on the present base."""
        assert isinstance(self.commits, StagedCommits)
        self.commits.base, self.commits.bodies = self.base.version, []
        self._install(self.base._state, replacing=self._held)
        for statement in self.statements:
            current = statement.transaction
            self.commits.stage(statement.version, current.body)
            self.advance(statement.version, current.lines, statement.written)

    def together(self) -> tuple[OptimisticTransaction, list[Action], Operation]:
        """One transaction that does what all statements did; returns it, its actions and its operation.

        Change data files are left out: where some statements have them and others do not, a reader would take
        those for all changes of the version. The files that the statements wrote are the transaction's.
        """
        txn = self.below.start_transaction(self.base)
        for begun in self.begun:  # those that found nothing to do, or were refused, have read as well
            txn._reads.add(begun.reads)
        for statement in self.statements:
            txn.written.extend(statement.written)
        now = self.snapshot
        changed = [s for s in self.statements if s.of(Metadata)]
        if now.metadata != self.base.metadata:
            txn.update_metadata(now.metadata, ignore_default_properties=True)
        if now.protocol != self.base.protocol:
            txn.update_protocol(now.protocol)
        are_marks = all(SCHEMA_UPDATE.items() <= s.operation.tags.items() for s in changed)
        tags = {**(SCHEMA_UPDATE if changed and are_marks else {}), **self._preserved()}
        return txn, self._actions(), _operation(self.statements, tags)

    def _preserved(self) -> dict[str, str]:
        """The tag that says whether rows keep their ids: they do where each statement says so. One that was
        done before the table tracked its rows says nothing."""
        if not is_active(self.snapshot.protocol, self.snapshot.metadata, "rowTracking"):
            return {}
        says = {s.operation.tags.get(PRESERVED) for s in self.statements
                if any(action.data_change for action in s.of(FileAction))}
        return {PRESERVED: "true" if says == {"true"} else "false"} if says else {}

    def _actions(self) -> list[Action]:
        """The net actions of all statements."""
        net = _Net(self.base)
        last: dict[object, Action] = {}
        for statement in self.statements:
            for action in statement.transaction.actions:
                match action:
                    case AddFile():
                        net.add(action)
                    case RemoveFile():
                        net.remove(action)
                    case SetTransaction():
                        last["txn", action.app_id] = action
                    case DomainMetadata():
                        last["domain", action.domain] = action
                    case AddCDCFile() | Metadata() | Protocol() | CommitInfo():
                        pass  # the feed has a place of its own; the others are those of the last snapshot
                    case _:
                        last[len(last)] = action
        written = {file.path for statement in self.statements for file in statement.written}
        return [*last.values(), *net.actions(written)]

    @property
    def reader(self) -> OptimisticTransaction:
        """Who remembers what is read between statements."""
        now = self.snapshot
        if self._reader is None or self._reader.snapshot is not now:
            self._reader = self.start_transaction(now)
        return self._reader

    def delete(self, files: Iterable[AddFile]) -> None:
        """Remove files that no version names, all of them even where that is interrupted."""
        delete_files(self.store, files)


@dataclass
class _Net:
    """The net of removed and added files: one added and removed within the transaction leaves no trace.

    Invariant: ``added`` and ``removed`` have no key in common, and a key in ``removed`` is one of the base's.
    """

    base: Snapshot
    added: dict[FileKey, AddFile] = field(default_factory=dict)
    removed: dict[FileKey, RemoveFile] = field(default_factory=dict)

    def add(self, file: AddFile) -> None:
        self.removed.pop(file.file_key, None)
        before = self.added.get(file.file_key)
        if before is not None and before.data_change:  # whatever else was noted of it, it brings its rows
            file = file.replace(data_change=True)
        self.added[file.file_key] = file

    def remove(self, file: RemoveFile) -> None:
        if self.added.pop(file.file_key, None) is None or self._is_in_base(file):
            self.removed[file.file_key] = file

    def _is_in_base(self, file: RemoveFile) -> bool:
        """Whether the table had a file before: it can have been added once more, with new statistics."""
        return any(live.file_key == file.file_key for live in _files_at(self.base, {file.path}))

    def actions(self, written: Collection[str]) -> Sequence[Action]:
        """All of it. A file that was not ``written`` here is the table's, and has the row ids that it has by
        now: a winner may have filled them in since a statement met the file."""
        net: list[AddFile | RemoveFile] = [*self.removed.values(), *self.added.values()]
        bare = {file.path for file in net if file.base_row_id is None}.difference(written)
        if not bare or not supports(self.base.protocol, "rowTracking"):
            return net
        live = {file.path: file for file in _files_at(self.base, bare)}
        return [file if file.path not in live else file.replace(
                    base_row_id=live[file.path].base_row_id,
                    default_row_commit_version=live[file.path].default_row_commit_version)
                for file in net]


def as_read_only_commit(txn: OptimisticTransaction) -> CurrentTransaction:
    """A transaction that has only read, prepared for the rules: what it read decided what is written
    elsewhere, so it counts as one that changes data."""
    read = txn.prepare([], Operation(READ_ONLY, changes_data=True))
    # Without an action it would be of no more than snapshot isolation, whatever the table asks for.
    return read.replace(isolation=str(properties.get(txn.metadata.configuration, "delta.isolationLevel")))


def check_commits(log: DeltaLog, current: CurrentTransaction, newest: int) -> None:
    """Check each commit after the version that a transaction has read, up to a version.

    Raises:
        DeltaConcurrentModificationException: of the first commit that contradicts it.
    """
    for version in range(current.read_version + 1, newest + 1):
        verdict = check(current, Winner(version, tuple(log.read_commit(version))))
        if verdict.error is not None:
            raise verdict.error
        current = verdict.transaction


def _files_at(snapshot: Snapshot, paths: Collection[str]) -> list[AddFile]:
    at = pc.is_in(snapshot.select_files(["path"])["path"], pa.array(paths, pa.string()))
    if not pc.any(at).as_py():
        return []
    rows = snapshot.files.filter(at).to_pylist(maps_as_pydicts="lossy")
    return [AddFile.from_row(row) for row in rows]


def _operation(statements: Sequence[Statement], tags: Mapping[str, str]) -> Operation:
    """One statement's own, or that of several, with their list and the sums of their metrics."""
    if len(statements) == 1:
        return statements[0].operation.replace(tags={**statements[0].operation.tags, **tags})
    metrics: dict[str, int] = {}
    for statement in statements:
        for name, value in statement.operation.metrics.items():
            with suppress(TypeError, ValueError):
                metrics[name] = metrics.get(name, 0) + int(value)
    listed = [{"operation": s.operation.name, "operationParameters": s.operation.encoded_parameters()}
              for s in statements]
    texts = [s.operation.user_metadata for s in statements if s.operation.user_metadata]
    return Operation(
        TRANSACTION, {"statements": listed}, changes_data=any(s.operation.changes_data for s in statements),
        metrics=metrics, user_metadata=json.dumps(texts) if len(texts) > 1 else next(iter(texts), None),
        tags=tags)
