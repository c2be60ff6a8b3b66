"""An Iceberg table's part in a commit of several tables: its steps, and what they ask for.

What lives here: :class:`IcebergMember`. It takes part like a Delta table: its new metadata file is staged,
one ratification decides, and after a lost race it is prepared again on the current table. Winners are checked
against the requirements of the change; a table that was only read must not have moved.
What it does not know: the other tables, and where the change comes from.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from deltanb.catalog.iceberg.commit import Change, Committer, IcebergTable
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, IcebergSwap
from deltanb.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    DeltaError,
    MaxCommitRetriesExceeded,
    StorageError,
    TableNotFound,
)
from deltanb.options import options
from deltanb.transaction.group import Member, Stand
from deltanb.transaction.steps import PutIfAbsent, Step

__all__ = ["IcebergMember"]


class IcebergMember:
    """The part of the table ``table``, as it was read, in a commit of several.

    ``change`` is None if it was only read.
    """

    def __init__(self, committer: Committer, table: IcebergTable, change: Change | None) -> None:
        self.committer, self.table, self.change = committer, table, change
        self.name: TableName = table.name
        self.table_id = str(table.table_id)

    def member(self, name: str) -> Member:
        """Its steps, for the algorithm."""
        return Member(name, self.table_id, self._steps())

    def _steps(self) -> Generator[Step, Any, Step]:
        """Its steps; their versions count attempts, since an Iceberg table has no version to put."""
        most = max(1, options.max_commit_attempts)  # as of a Delta table, with which it is committed
        for attempt in range(1, 1 + most):
            wait = Stand(attempt) if self.change is None else PutIfAbsent(attempt, b"", attempt, 0, "")
            reply = yield wait
            if reply is True:
                return wait
            if isinstance(reply, BaseException):
                raise CommitOutcomeUnknown(
                    f"the catalog does not say whether {self.name} was changed; its files stay") from reply
            if self.change is None:
                raise CommitFailed(
                    f"Transaction failed: {self.name}, which was read, was changed by another commit; "
                    "nothing was committed. Run it again: a new transaction reads the table as it is",
                    failed_requirements=[])
        raise MaxCommitRetriesExceeded(
            f"Transaction failed: others changed {self.name} each time it was about to be committed; nothing "
            "was committed, try again", attempts=most)

    # -- what its steps ask for --------------------------------------------------------------------

    def read(self, version: int) -> None:
        """Return nothing: its steps read no winner; staging again checks the requirements."""

    def stage(self, version: int, body: bytes) -> IcebergSwap | Asserted:
        """Check the requirements against the table as it is now and write its new metadata file.

        Raises:
            CommitFailed: a requirement is not met.
            BadRequest: an update cannot be applied.
            TableNotFound: it was dropped or renamed.
            StorageError: the file cannot be written.
        """
        assert self.change is not None
        (member,) = self.committer.prepare([self.change]).members
        step = member.step
        if step is None:  # it stays as it is, and nothing is required of it
            step = Asserted(self.table_id, self.name, str(member.after.metadata_location))
        if step.table_id != self.table_id:
            self.discard(step)
            raise TableNotFound(
                f"the table {self.name} was replaced by another one after it was read; nothing was "
                "committed. Run the operation again if it is meant for the new table", path=str(self.name))
        return step

    def discard(self, proposal: Any) -> None:
        """Delete a metadata file that was certainly not ratified."""
        if isinstance(proposal, IcebergSwap):
            self.committer.discard([proposal.after])

    def written(self, proposal: Any) -> list[str]:
        """The files that the ratification takes out of the catalog's garbage."""
        return [proposal.after] if isinstance(proposal, IcebergSwap) else []

    def asserted(self, version: int) -> Asserted:
        """The assertion that it has not moved since it was read."""
        return Asserted(self.table_id, self.name, str(self.table.metadata_location))

    def refusal(self, latest: object, version: int) -> DeltaError | None:
        """Why no attempt can succeed; None if it just lost a race."""
        if latest is None:
            return TableNotFound(
                f"the catalog has no table {self.name} any more: it was dropped or renamed; nothing was "
                "committed. Load it by its present name and run the operation again", path=str(self.name))
        return None if isinstance(latest, str) else StorageError(
            f"the catalog has a version of {self.name} where the location of its metadata should "
            "be", path=latest)

    def publish(self, version: int) -> None:
        """Do nothing: all readers follow the catalog's pointer."""
