"""Commits to a table that Unity Catalog manages.

What lives here: :class:`UnityCommitter`: how a staged commit is proposed, and what each answer means for it.
What it does not know: the algorithm, HTTP.

The server reads no file. That a staged file is whole before it is proposed, that versions follow each other,
that times rise, and that a version is in the folder before it is reported as published, is ours to hold.

==============================  ==================================================================
answer to a proposal            what follows
==============================  ==================================================================
200                             ratified
CommitVersionConflict           the table is loaded: the file that has the version is ours, or lost
UpdateRequirementConflict       another table has the name (:class:`TableReplaced`); else asked again
ResourceExhausted               what is not published is, and is reported; then it is asked again
NoSuchTable                     dropped, or renamed
another refusal                 the latest version is far behind: the catalog was set back; else as it says
none                            unknown: the next read settles it
==============================  ==================================================================

An open proposal is settled by the table as it is loaded. If the version is still free, the same file is
proposed once more: whichever of the two requests comes first, it is one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltanb.actions import Protocol
from deltanb.catalog.delta.commits import CatalogCommits, staged_name
from deltanb.catalog.delta.managed import ManagedCommitter, Parts, drained
from deltanb.catalog.store.ratification import DeltaCommit, Ratified, Refused
from deltanb.catalog.store.store import Commit, Tail
from deltanb.catalog.unity.client.answers import Loaded
from deltanb.catalog.unity.client.connection import BACKLOG, REQUIREMENT, TAKEN, UnityRefusal
from deltanb.catalog.unity.client.updates import add_commit, updates_of
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    StorageError,
    TableNotFound,
    TableReplaced,
    UnsupportedProtocol,
)
from deltanb.log.commits import LOG_FOLDER, commit_name
from deltanb.schema.protocol import GROUPS
from deltanb.text.safe_text import get_logger
from deltanb.transaction.drive import GivenUp
from deltanb.transaction.steps import PublishCommits, RatifyCommit

if TYPE_CHECKING:
    from deltanb.actions import Action
    from deltanb.catalog.iceberg.metadata.fields import Json
    from deltanb.catalog.store.names import TableName
    from deltanb.catalog.unity.client.store import UnityStore
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.steps import Winner

__all__ = ["UnityCommits", "UnityCommitter"]

logger = get_logger("deltanb.catalog")

TRIES = 3  # of one proposal that is refused for a reason that passes


class UnityCommits(CatalogCommits):
    """The commits of a table of Unity Catalog."""

    catalog: UnityStore

    def look(self) -> Tail:
        """As the catalog has it now, or had it when the table was opened just before."""
        opened, self._answer.unused = self._answer.unused, None
        return super().look() if opened is None else self.take(opened)

    def begin_with(self, opened: Tail) -> None:
        """Have the catalog's answer with which the table was opened: the first look takes it, and asks
        nobody."""
        self._answer.unused = opened

    def report(self) -> None:
        """Do nothing: it is reported with the next request, as this server wants it."""

    def maintenance_refused(self, operation: str) -> str | None:
        """As the catalog said when the table was loaded last."""
        return self.catalog.maintenance_refused(self.table_id, operation)


class UnityCommitter(ManagedCommitter):
    """Commits of one table, by the name and id under which Unity Catalog has it."""

    catalog: UnityStore  # type: ignore[assignment]  # its ratification is a proposal, made here

    def __init__(
        self, catalog: UnityStore, name: TableName, table_id: str, log: LogReader, snapshot: Snapshot,
    ) -> None:
        super().__init__(catalog, name, table_id, log, snapshot)  # type: ignore[arg-type]
        self._updates: dict[str, list[Json]] = {}  # of each proposal that is open, by its file
        self._ratified_file: str | None = None

    def stage(self, version: int, body: bytes) -> DeltaCommit:
        """As of any managed table; not of one whose commits would have to be converted to Iceberg.

        Raises:
            UnsupportedProtocol: it is one; nothing was written.
            StorageError: it cannot be written.
        """
        if self.catalog.has_uniform(self.table_id):
            raise UnsupportedProtocol(
                f"{self.name} is converted to Iceberg with each commit (UniForm), which this library does "
                "not do; it can be read. Switch delta.universalFormat.enabledFormats off to write to it",
                path=str(self.name))
        return super().stage(version, body)

    def unreported(self) -> int | None:
        """What was published since the last request; the next one reports it."""
        return self.catalog.published_of(self.table_id)

    def note_published(self, version: int, file_name: str | None) -> None:
        """As of any managed table. Of a commit that was staged twice the catalog may have the other file;
        then the report of a later version is the next one."""
        self._commits.sync()
        self.catalog.set_published(self.table_id, version, file_name)
        super().note_published(version, file_name)

    def ratified(
        self, info: dict[str, Any], proposal: DeltaCommit, actions: Sequence[Action], attempt: int
    ) -> Parts[Ratified | Refused]:
        """Propose a staged commit, with what it changes of the table in the catalog.

        Raises:
            UnsupportedProtocol: it adds a feature that no table of Unity Catalog can have.
        """
        for action in actions:
            if isinstance(action, Protocol) and action.supports(GROUPS):
                raise UnsupportedProtocol(
                    f"{self.name}: the feature {GROUPS} is for tables that are committed together, and Unity "
                    "Catalog commits one at a time; leave it out", path=str(self.name), features=(GROUPS,))
        read = self.snapshot
        updates = [add_commit(proposal), *updates_of(read.protocol, read.metadata, actions)]
        self._updates[str(proposal.file_name)] = updates
        verdict = yield from self._proposed(proposal, updates, attempt)
        if len((self._open or ("", ()))[1]) > 1:  # one before it was not answered
            self._must_settle(verdict, proposal)
        return verdict

    def has_landed(self, txn_id: str, proposals: Sequence[DeltaCommit]) -> bool:
        """Whether one of them was ratified. One whose version is free is proposed again, so that it is."""
        try:
            for proposal in reversed(proposals):
                if isinstance(self._settle(proposal), Ratified):
                    return True
        except CommitOutcomeUnknown as error:
            raise StorageError(error.message, path=str(self.name)) from error
        return False

    def read(self, version: int) -> Winner | None:
        """As of any managed table; what is open of one that is gone stays so.

        Raises:
            CommitOutcomeUnknown: the table is not there any more, and had an open proposal.
        """
        was_open = self._open is not None
        try:
            return super().read(version)
        except (TableNotFound, TableReplaced) as error:
            if not was_open:
                raise
            raise CommitOutcomeUnknown(
                f"{self.name}: it is unknown whether version {version} was ratified before this: {error}",
                version=version) from error

    # -- one proposal ------------------------------------------------------------------------------

    def _proposed(
        self, proposal: DeltaCommit, updates: list[Json], attempt: int = 0
    ) -> Parts[Ratified | Refused]:
        """Propose a commit until there is an answer for good.

        Raises:
            CommitOutcomeUnknown: there is none.
            DeltaError: it was not ratified, and will not be.
        """
        last: DeltaError | None = None
        for _ in range(TRIES):
            try:
                self.catalog.update(self.name, self.table_id, updates)
            except UnityRefusal as refusal:
                last, kind = refusal.error, refusal.kind
                verdict = None if kind == BACKLOG else self._verdict(refusal, proposal)
                if verdict is not None:
                    return verdict
                try:
                    yield from self._prepared_again(kind, proposal, attempt)
                except GivenUp:
                    self._updates.pop(str(proposal.file_name))  # it was refused, and is not proposed again
                    raise
                continue
            self._ratified_file = proposal.file_name
            return Ratified(proposal.version)
        assert last is not None
        raise last

    def _verdict(self, refusal: UnityRefusal, proposal: DeltaCommit) -> Ratified | Refused | None:
        """What a refusal means; None: the same may be asked again.

        Raises:
            DeltaError: it was not ratified, and will not be.
        """
        try:
            loaded = self.catalog.load_same(self.name, self.table_id)
        except TableReplaced:
            raise
        except TableNotFound:
            return Refused({self.table_id: None})
        except DeltaError as error:
            if refusal.kind != TAKEN:  # it is certain all the same
                raise refusal.error from error
            raise CommitOutcomeUnknown(
                f"{self.name}: version {proposal.version} is there, and the table cannot be loaded to see "
                f"whose it is: {error}", version=proposal.version) from error
        if refusal.kind == TAKEN:
            return self._seen(loaded, proposal) or Refused({self.table_id: loaded.tail.latest})
        if refusal.kind == REQUIREMENT:
            return None
        if loaded.tail.latest < proposal.version - 1:
            return Refused({self.table_id: loaded.tail.latest})
        raise refusal.error

    def _settle(self, proposal: DeltaCommit) -> Ratified | Refused:
        """What has become of an open proposal.

        Raises:
            CommitOutcomeUnknown, StorageError: nobody says it.
        """
        loaded = self.catalog.load_same(self.name, self.table_id)
        latest, updates = loaded.tail.latest, self._updates.get(str(proposal.file_name))
        if updates is None:  # it was interrupted before it was proposed
            return Refused({self.table_id: latest})
        if latest >= proposal.version:
            return self._seen(loaded, proposal) or Refused({self.table_id: latest})
        if latest < proposal.version - 1:
            raise CommitOutcomeUnknown(
                f"{self.name}: the catalog has versions up to {latest}, and version {proposal.version} was "
                "proposed to it: it was set back meanwhile", version=proposal.version)
        try:
            verdict = drained(self._proposed(proposal, updates))
            self._must_settle(verdict, proposal)
            return verdict
        except CommitOutcomeUnknown:
            raise
        except DeltaError as error:  # the first request may still come, and be taken
            raise CommitOutcomeUnknown(
                f"{self.name}: version {proposal.version} cannot be proposed again, and the catalog has not "
                f"answered the first time: {error}", version=proposal.version) from error

    def _must_settle(self, verdict: Ratified | Refused, proposal: DeltaCommit) -> None:
        """Refuse a verdict that does not say what became of an earlier proposal of the version: only a table
        that has the version does.

        Raises:
            CommitOutcomeUnknown: it does not.
        """
        latest = verdict.latest[self.table_id] if isinstance(verdict, Refused) else proposal.version
        if not isinstance(latest, int) or latest < proposal.version:
            raise CommitOutcomeUnknown(
                f"{self.name}: the table is gone, or was set back, after version {proposal.version} of it "
                "was proposed and not answered; the files were kept", version=proposal.version)

    def _seen(self, loaded: Loaded, proposal: DeltaCommit) -> Ratified | None:
        """Whether a version that is there is the proposal: by the file's name, or once it is published by its
        content."""
        commit = _commit_at(loaded.tail, proposal.version)
        name = proposal.file_name
        if commit is not None:
            name = commit.file_name  # of this proposal, or of one before it that was not answered
            is_ours = name in {each.file_name for each in (proposal, *(self._open or ("", ()))[1])}
        else:
            is_ours = self._is_published(proposal.version, str(name))
        if not is_ours:
            return None
        self._ratified_file = name
        return Ratified(proposal.version)

    def _is_published(self, version: int, file_name: str) -> bool:
        store, mine, staged = self.log.store, self._staged, staged_name(file_name)
        try:
            body = mine.body if mine is not None and mine.name == staged else store.read(staged)
            return store.read(commit_name(version)) == body
        except FileNotFoundError as error:
            raise CommitOutcomeUnknown(
                f"{self.name}: version {version} is published, and is not in the table's log any more, so it "
                "is unknown whose it was", version=version) from error

    def _settled(self, has_landed: bool) -> None:
        _, proposals = self._open or ("", [])
        super()._settled(has_landed)
        self._updates.clear()
        for proposal in proposals if has_landed else ():
            if proposal.file_name != self._ratified_file:  # the same commit, staged once more
                self.discard(proposal)

    def _prepared_again(self, kind: str, proposal: DeltaCommit, attempt: int) -> Parts[None]:
        """The parts between a proposal that was refused and the same once more."""
        if kind == BACKLOG:
            yield PublishCommits(proposal.version - 1, is_asked=True)
            self._publish_backlog(proposal.version - 1)
        yield RatifyCommit(proposal.version, attempt, self.unreported())

    def _publish_backlog(self, version: int) -> None:
        """Publish what is ratified, and report it, so that further commits are taken.

        Raises:
            InvalidTable, StorageError: it cannot be published.
        """
        logger.info("%s has too many commits that are not published; publishing up to version %d", self.name,
                    version)
        try:
            self.publish(version)
        except OSError as error:  # which would say that nobody knows what became of the proposal
            raise StorageError.of(error, "written", f"{self.log.store.root}/{LOG_FOLDER}") from error
        self.catalog.report(self.name, self.table_id)


def _commit_at(tail: Tail, version: int) -> Commit | None:
    return next((commit for commit in tail.commits if commit.version == version), None)
