"""Several statements on a table, one commit: the handle that ``table.transaction()`` gives.

What lives here: :class:`TableTransaction`, a table's methods on statements that are staged, and its commit.
What it does not know: what a statement does, what statements come to together (``transaction/staging``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from deltanb.actions import Action, AddCDCFile, FileAction
from deltanb.commands.read.changes import changes
from deltanb.commands.rows.change_files import CHANGE_TYPE, wants_changes, write_changes
from deltanb.commands.rows.write import commit_or_discard
from deltanb.data import deletion_vectors
from deltanb.errors import IllegalStateError
from deltanb.table import DeltaTable
from deltanb.transaction.staging import StagedLog

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.staging import Statement
    from deltanb.transaction.transaction import OptimisticTransaction


class TableTransaction(DeltaTable):
    """A table on which several statements are one transaction.

    It has the methods of a table. Every statement sees what those before it have done; nobody else sees any
    of it before the block ends, which commits all of it as one version. An exception that leaves the block
    gives all of it up. What is read here counts as read: another writer's commit that changes it is a
    conflict.

    Commands that need commits of their own (VACUUM, OPTIMIZE, RESTORE, CLONE, …) are refused.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> with table.transaction() as txn:
    ...     _ = txn.delete("name = 'Donald'")
    ...     _ = txn.append({"name": ["Daisy"], "nephews": [txn.to_arrow().num_rows]})
    >>> table.version, table.to_arrow().to_pylist()
    (1, [{'name': 'Daisy', 'nephews': 0}])
    """

    def __init__(self, log: DeltaLog) -> None:
        self._staged = StagedLog(log)
        super().__init__(self._staged)
        self._end = ""
        self.committed: int | None = None
        """The version that was committed, once it was; None where there was nothing to commit."""

    def __enter__(self) -> TableTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is not None:
            self.give_up()
        elif not self._end:
            self.commit()

    def commit(self) -> int | None:
        """Commit what was done as one version; the block does it at its end.

        Returns:
            The version, or None where no statement changed anything.

        Raises:
            DeltaConcurrentModificationException: another writer's commit contradicts what was read or done
                here; see ``.conflict``. Nothing was written, and the files are deleted.
            IllegalStateError: it has ended already.
        """
        self._check_open("commit")
        self._end = "has ended without a statement that changed anything"
        if not self._staged.statements:
            return None
        self._end = "has failed"
        txn, actions, operation = self._staged.together()

        def work() -> int:
            actions.extend(_feed(txn, self._staged))
            return txn.commit(actions, operation)

        try:
            commit_or_discard(txn, work)
        finally:
            if txn.committed is not None:  # whatever interrupted it afterwards
                self._landed(txn, txn.committed.version, actions)
        return self.committed

    def _landed(self, txn: OptimisticTransaction, version: int, actions: list[Action]) -> None:
        """Files that came and went within the transaction are no version's: they are deleted."""
        self.committed, self._end = version, f"was committed as version {version}"
        kept = set(_paths(actions))
        try:
            self._staged.delete(file for file in txn.written if file.path not in kept)
        except BaseException as error:
            txn.note_outcome(error)
            raise

    def give_up(self) -> None:
        """Do none of it: the files that were written are deleted. Nothing happens where it has ended."""
        if not self._end:
            self._end = "was given up"
            self._staged.delete(file for statement in self._staged.statements for file in statement.written)

    @property
    def version(self) -> int:
        """The version that was read first, and once it is committed the one that it made."""
        return self._staged.base.version if self.committed is None else self.committed

    def _check_open(self, what: str) -> None:
        if self._end:
            raise IllegalStateError(
                f"{what}: the transaction on table {self.name} {self._end}; begin another one with "
                "table.transaction()")

    def _writable(self, what: str) -> DeltaLog:
        if what in OF_THEIR_OWN:
            raise IllegalStateError(
                f"{what} commits by itself, so it cannot be a part of a transaction on table {self.name}; "
                "run it on the table, before or after")
        self._check_open(what)
        return super()._writable(what)

    def clone(self, *args: Any, **settings: Any) -> NoReturn:  # type: ignore[override]
        """Refused: a clone is a table of its own, and what is staged here is no version yet."""
        self._writable("clone")
        raise AssertionError

    def generate(self, mode: str = "symlink_format_manifest") -> NoReturn:
        """Refused: manifests are for other engines, which cannot see what is staged here."""
        self._writable("generate")
        raise AssertionError


OF_THEIR_OWN = frozenset({
    "vacuum", "optimize", "purge", "restore", "clone", "generate", "drop_feature", "add_feature",
    "upgrade_protocol", "sync_identity", "start_transaction", "transaction"})
"""What makes commits of its own, or has to see the table as others see it."""


def _paths(actions: Iterable[Action]) -> Iterator[str]:
    """The files that actions name, vectors included."""
    for action in actions:
        if isinstance(action, FileAction):
            yield action.path
        vector = getattr(action, "deletion_vector", None)
        if vector is not None and vector.storage_type == "u":
            yield deletion_vectors.relative_path(vector.path_or_inline_dv)


def _feed(txn: OptimisticTransaction, log: StagedLog) -> list[Action]:
    """The change data files of all statements.

    Where some statements have them, a reader takes them for all changes of the version (PROTOCOL.md, "Reading
    change data files"): those of the other statements are written as well.
    """
    if not wants_changes(txn):
        return []
    found: dict[int, list[Action]] = {s.version: s.of(AddCDCFile) for s in log.statements}
    if not any(found.values()):
        return []
    for statement in log.statements:
        if not found[statement.version] and _changes_rows(statement):
            found[statement.version] = list(write_changes(txn, _changes(log, statement.version)))
    return [action for files in found.values() for action in files]


def _changes_rows(statement: Statement) -> bool:
    return any(action.data_change for action in statement.of(FileAction))


def _changes(log: StagedLog, version: int) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """The rows that a staged version inserts and deletes."""
    names = log.snapshot.schema.names
    rows = changes(log, version, version, columns=[*names, CHANGE_TYPE])
    for kind in rows[CHANGE_TYPE].unique().to_pylist():
        yield kind, rows.filter(pa.compute.equal(rows[CHANGE_TYPE], kind)).select(names).to_batches()
