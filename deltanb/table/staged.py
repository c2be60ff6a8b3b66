"""Several statements on a table, one commit: the handle that ``table.transaction()`` returns.

What lives here: :class:`StagedChanges`, the changes of staged statements and their commit;
:class:`StagedTable`, whose methods stage statements; :class:`TableTransaction`, which commits those of one
table.
What it does not know: what a statement does, how statements are combined (``transaction/staging``).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from deltanb.actions import Action, AddCDCFile, FileAction
from deltanb.commands.read.changes import changed_in, check_schema, feed_scan, rows_of
from deltanb.commands.result import CommandResult
from deltanb.commands.rows.change_files import CHANGE_TYPE, wants_changes, write_changes
from deltanb.commands.rows.write import commit_or_discard
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import IllegalStateError, IncompatibleSchemaChange, VersionNotFound
from deltanb.table.contract import Asked, Call, Does, ends
from deltanb.table.table import DeltaTable
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import Number
from deltanb.transaction.staging import StagedLog

if TYPE_CHECKING:
    from deltanb.engines.arrow.data_file import Scan
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.staging import Statement
    from deltanb.transaction.transaction import OptimisticTransaction


class StagedChanges:
    """The changes that statements made to a table, to be committed together later."""

    restart_hint = "table.transaction()"
    """How another transaction is begun, for messages."""

    def __init__(self, log: DeltaLog, base: Snapshot | None = None) -> None:
        self.staged = log if isinstance(log, StagedLog) else StagedLog(log, base)
        self.end = ""
        """How its transaction has ended, as the end of a sentence; empty as long as it goes on."""
        self.committed: int | None = None
        """The version that was committed, once it was; None where there was nothing to commit."""

    @property
    def name(self) -> str:
        """The table's name; neither the folder nor what is staged is read for it."""
        return self.staged.name or self.staged.base.metadata.name or last_part(self.staged.path)

    @property
    def is_read_only(self) -> bool:
        """Whether nothing was changed; it may have been read."""
        return not self.staged.statements

    @property
    def operations(self) -> list[str]:
        """The operations so far, statement by statement."""
        return [statement.operation.name for statement in self.staged.statements]

    @property
    def reads(self) -> list[str]:
        """The conditions read so far, each once, as SQL; ``TRUE`` is the whole table."""
        return list(dict.fromkeys(
            scan.text for begun in self.staged.begun for scan in begun.reads.scans))

    def feed(self, txn: OptimisticTransaction) -> list[Action]:
        """Write the change data files that the commit of all statements needs."""
        return _feed(txn, self.staged)

    def commit_staged(self) -> None:
        """Commit what was staged as one version of this table.

        Raises:
            DeltaConcurrentModificationException: another writer's commit conflicts; the files are deleted.
        """
        self.end = "has failed"
        try:
            txn, actions, operation = self.staged.together()
        except BaseException:
            self.delete_written()
            raise

        def work() -> int:
            actions.extend(self.feed(txn))
            return txn.commit(actions, operation)

        try:
            commit_or_discard(txn, work, lambda: self.discard(txn))
        finally:
            if txn.committed is not None:  # whatever interrupted it afterwards
                self.landed(txn, txn.committed.version, list(txn.committed.actions))

    def landed(self, txn: OptimisticTransaction, version: int, actions: list[Action]) -> None:
        """Record the committed version, and delete files that were added and removed within the transaction,
        since no version names them."""
        self.committed, self.end = version, f"was committed as version {version}"
        paths = set(_paths(actions))
        try:
            self.staged.delete(file for file in txn.written if file.path not in paths)
        except BaseException as error:
            txn.note_outcome(error)
            raise

    def discard(self, txn: OptimisticTransaction) -> None:
        """Delete the files of a commit that has certainly not landed."""
        txn.discard_written()

    def delete_written(self) -> None:
        """Delete the files that the statements wrote; no commit names them."""
        self.staged.delete(file for statement in self.staged.statements for file in statement.written)

    def check_open(self, what: str) -> None:
        """Refuse calls after the end of the transaction.

        Raises:
            IllegalStateError: the transaction has ended.
        """
        if self.end:
            raise IllegalStateError(
                f"{what}: the transaction on table {self.name} {self.end}; begin another one with "
                f"{self.restart_hint}")


class StagedTable(DeltaTable, StagedChanges):
    """A table on which statements are staged, to be committed together later."""

    def __init__(self, log: DeltaLog, base: Snapshot | None = None) -> None:
        StagedChanges.__init__(self, log, base)
        super().__init__(self.staged)

    @property
    def version(self) -> int:
        """The version that was read first; after the commit, the committed version.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with table.transaction() as txn:
        ...     _ = txn.append({"id": [2]})
        ...     print(txn.version)
        0
        >>> txn.version
        1
        """
        return Number(self.staged.base.version if self.committed is None else self.committed)

    @property
    def _committed(self) -> DeltaTable:
        """The table as it was read first or, after the commit, as it was committed: what is staged is in no
        history, and has no version to travel to."""
        log, version = self.staged.below, self.version
        if version == self.staged.base.version:
            return DeltaTable(log, self.staged.base)
        return DeltaTable(log, log.snapshot_at(version))

    def _at(self, version: int | None, timestamp: int | str | dt.datetime | None) -> DeltaTable:
        at = super()._at(version, timestamp)
        if not at.snapshot.is_staged:
            return at
        if version is None:  # the time is that of a statement, and so behind the last commit
            return DeltaTable(self.log, self.staged.base)
        raise VersionNotFound(
            f"version {version} of table {self.name} is not committed: the transaction has read version "
            f"{self.version}, and its own changes are in no version before its end; read the transaction "
            "itself", version=version, earliest=None, latest=self.version, path=self.path)

    @property
    def _reads_at(self) -> Literal["transaction"]:
        return "transaction"

    def _admit(self, asked: Asked) -> None:
        if asked.does is Does.READS_COMMITS:
            raise IllegalStateError(
                f"{asked.name} reads what is committed, and nothing of a transaction on table {self.name} is "
                "before its end; stream from the table itself, before or after")
        if asked.does.is_alone:
            raise IllegalStateError(
                f"{asked.name} commits by itself, so it cannot be a part of a transaction on table "
                f"{self.name}; run it on the table, before or after")
        if asked.does.is_staged:
            self.check_open(asked.name)

    def _perform(self, call: Call) -> Any:
        return CommandResult.staged(super()._perform(call))

    def _writable(self, what: str) -> DeltaLog:
        self.check_open(what)
        return self.log


class TableTransaction(StagedTable):
    """A table on which several statements are one transaction.

    It has the methods of a table. Every statement sees the effects of those before it; nobody else sees them
    before the end of the block, which commits all of them as one version. An exception that leaves the block
    discards them. Reads count: another writer's commit that changes what was read here is a conflict.

    Commands that make their own commits (VACUUM, OPTIMIZE, RESTORE, CLONE, …) are refused.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> with table.transaction() as txn:
    ...     _ = txn.delete("name = 'Donald'")
    ...     _ = txn.append({"name": ["Daisy"], "nephews": [txn.to_arrow().num_rows]})
    >>> table.version, table.to_arrow().to_pylist()
    (1, [{'name': 'Daisy', 'nephews': 0}])
    """

    def __enter__(self) -> TableTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is not None:
            self.give_up()
        elif not self.end:
            self.commit()

    @ends
    def commit(self) -> int | None:  # type: ignore[override]
        """Commit the statements as one version; the end of the block calls it.

        Returns:
            The version, or None if no statement changed anything.

        Raises:
            DeltaConcurrentModificationException: another writer's commit conflicts with what was read or
                changed here; see ``.conflict``. Nothing was committed, and the files are deleted.
            IllegalStateError: it has ended already.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.transaction()
        >>> _ = txn.append({"id": [2]}), txn.delete("id = 1")
        >>> txn.commit(), len(table.history())
        (1, 2)
        """
        self.check_open("commit")
        self.end = "has ended without a statement that changed anything"
        if not self.staged.statements:
            return None
        self.commit_staged()
        return self.committed

    def give_up(self) -> None:
        """Discard the statements and delete the files they wrote; does nothing after the end.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.transaction()
        >>> _ = txn.append({"id": [2]})
        >>> txn.give_up()
        >>> table.version, table.count()
        (0, 1)
        """
        if not self.end:
            self.end = "was given up"
            self.delete_written()


def _paths(actions: Iterable[Action]) -> Iterator[str]:
    """The files that actions name, including deletion vectors."""
    for action in actions:
        if isinstance(action, FileAction):
            yield action.path
        vector = getattr(action, "deletion_vector", None)
        file = vector and deletion_vectors.encoded_path(vector.storage_type, vector.path_or_inline_dv)
        if file:
            yield file


def _feed(txn: OptimisticTransaction, log: StagedLog) -> list[Action]:
    """The change data files of all statements.

    If some statements have them, readers take them for all changes of the version (PROTOCOL.md, "Reading
    change data files"), so those of the other statements are written as well, with the columns of the last
    one.
    """
    if not wants_changes(txn):
        return []
    by_version: dict[int, list[Action]] = {s.version: s.of(AddCDCFile) for s in log.statements}
    if not any(by_version.values()) or _is_another_table(log):
        return []
    scan = feed_scan(log.snapshot)
    for statement in log.statements:
        if not by_version[statement.version] and _changes_rows(statement):
            by_version[statement.version] = list(write_changes(txn, _changes(log, statement.version, scan)))
    return [action for files in by_version.values() for action in files]


def _is_another_table(log: StagedLog) -> bool:
    """Whether rows were overwritten under another schema, whose columns cannot show the old rows. None of the
    old files is left then, so the removed and added files have all changes."""
    shown, scan = log.snapshot, feed_scan(log.snapshot)
    try:
        check_schema(log.base.version, log.base.metadata, log.base.protocol, shown, scan)
        for statement in log.statements:
            current = statement.transaction
            check_schema(statement.version, current.metadata, current.protocol, shown, scan)
    except IncompatibleSchemaChange:
        return True
    return False


def _changes_rows(statement: Statement) -> bool:
    return any(action.data_change for action in statement.of(FileAction))


def _changes(log: StagedLog, version: int, scan: Scan) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """The rows that a staged version inserts and deletes."""
    names = log.snapshot.schema.names
    batches = [batch for file in changed_in(log, version, log.snapshot, scan, recorded=False)
               for batch in rows_of(scan, file)]
    rows = pa.Table.from_batches(batches, scan.schema)
    for kind in rows[CHANGE_TYPE].unique().to_pylist():
        yield kind, rows.filter(pa.compute.equal(rows[CHANGE_TYPE], kind)).select(names).to_batches()
