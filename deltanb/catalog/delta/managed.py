"""The committer of tables that a catalog manages: commits are staged, ratified, published.

What lives here: :class:`ManagedCommitter`. A commit is written to ``_delta_log/_staged_commits``, where it
has no effect; it becomes the table's next version when the catalog ratifies it, and is then copied into the
log's folder for readers of the folder (PROTOCOL.md, "Catalog-managed tables").
What it does not know: the commit algorithm, the database, and that several tables may be ratified together
(``group``), which uses the same parts.

==========================  ====================================================================
interruption                what is left, and who repairs it
==========================  ====================================================================
while staging               a staged file that nobody ratifies: a sweep deletes it
before the COMMIT           the same
COMMIT without an answer    either of the two; the catalog is asked before anything else is done
after it                    a version that is not published: the next commit or a sweep publishes it
==========================  ====================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from deltanb.catalog.delta.commits import CatalogCommits, Tails, staged_name
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, Ratified, Refused
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    InvalidTable,
    StorageError,
    TableNotFound,
    VersionNotFound,
)
from deltanb.log.commits import commit_name
from deltanb.options import options, writer_name
from deltanb.store.new_files import names_for
from deltanb.text.safe_text import get_logger
from deltanb.transaction.committer import FolderCommitter
from deltanb.transaction.steps import RatifyCommit, StageCommit, Step

if TYPE_CHECKING:
    from deltanb.actions import Action
    from deltanb.catalog.store.names import TableName
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.steps import Winner

__all__ = ["ManagedCommitter", "Ratifier", "commit_info_of", "retained_of", "summary_of"]

logger = get_logger("deltanb.catalog")


class Ratifier(Tails, Protocol):
    """The catalog as a committer uses it: :class:`~deltanb.catalog.store.store.CatalogStore`, or a server."""

    def ratify(self, txn_id: str, principal: str | None, proposals: Sequence[Any],
               assertions: Sequence[Any] = (), *, written: Iterable[str] = (),
               summary: str | None = None) -> Any:
        """Move all proposed tables if all assertions hold, or none."""

    def outcome(self, txn_id: str) -> Ratified | None:
        """Whether a transaction has landed."""


T = TypeVar("T")
Parts = Generator[Step, None, T]
"""Parts of a step, each before it is done; ends with what comes of them all."""


class _Staged(NamedTuple):
    """A staged commit: its version, file and content."""

    version: int
    name: str
    body: bytes


class ManagedCommitter(FolderCommitter):
    """Commits of one table, by the name and id under which the catalog has it."""

    is_final = True
    """``put`` says False of another's commit alone: one ratified by a call whose answer was lost is known by
    its id. Where it was interrupted, ``read`` waits until it has landed or never will."""

    def __init__(
        self, catalog: Ratifier, name: TableName, table_id: str, log: LogReader, snapshot: Snapshot,
    ) -> None:
        super().__init__(log, snapshot)
        self.catalog, self.name, self.table_id = catalog, name, table_id
        self._staged: _Staged | None = None  # the last one
        self._open: tuple[str, list[DeltaCommit]] | None = None  # nobody knows whether these are ratified

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> bool | OSError | DeltaError:
        """Stage a version and have it ratified."""
        return drained(self.putting(version, body, actions))

    def putting(
        self, version: int, body: bytes, actions: Sequence[Action], attempt: int = 0
    ) -> Parts[bool | OSError | DeltaError]:
        """As :meth:`put`, part by part: each is done when it is left."""
        info = commit_info_of(body)
        yield StageCommit(version, attempt)
        try:
            proposal = self.stage(version, body)
        except DeltaError as error:
            return error
        try:
            yield RatifyCommit(version, attempt, self.unreported())
        except BaseException:  # given up before it was proposed
            self.discard(proposal)
            raise
        before = self._open
        self._open = info["txnId"], [*(before[1] if before else ()), proposal]
        try:
            verdict = yield from self.ratified(info, proposal, actions, attempt)
        except CommitOutcomeUnknown as error:
            logger.warning("Ratifying version %d of %s: %s; asking what became of it", version, self.name,
                           error)
            return OSError(str(error))  # a DeltaError would say that nothing was committed
        except DeltaError as error:
            self._open = before  # this one is not ratified; one before it may be
            self.discard(proposal)
            return error
        self._settled(isinstance(verdict, Ratified))
        if isinstance(verdict, Ratified):
            return True
        return self.refusal(verdict.latest[self.table_id], version) or False

    def unreported(self) -> int | None:
        """Up to which version commits are in the folder that the next request says so of; None: of none."""
        return self._commits.unreported()

    def is_published(self, version: int) -> bool:
        """Whether a version is known to be in the folder, without asking the catalog."""
        return self._commits.is_published(version)

    @property
    def _commits(self) -> CatalogCommits:
        assert isinstance(self.log.commits, CatalogCommits)
        return self.log.commits

    def ratified(
        self, info: dict[str, Any], proposal: DeltaCommit, actions: Sequence[Action], attempt: int
    ) -> Parts[Ratified | Refused]:
        """Have a staged commit ratified; further parts are given where it takes any.

        Raises:
            CommitOutcomeUnknown: the catalog did not answer.
            DeltaError: nothing was ratified, and trying again does not help.
        """
        verdict: Ratified | Refused = self.catalog.ratify(
            info["txnId"], writer_name(), [proposal],
            summary=summary_of({str(self.name): info.get("operation")}))
        yield from ()
        return verdict

    def read(self, version: int) -> Winner | None:
        """The commit at a version, after any pending ratification of this transaction has ended."""
        if self._open is not None:
            self._settled(self.has_landed(*self._open))
        return super().read(version)

    def has_landed(self, txn_id: str, proposals: Sequence[DeltaCommit]) -> bool:
        """Whether one of the proposals of a transaction was ratified; if not, none will be.

        Raises:
            StorageError: nobody says it.
        """
        return self.catalog.outcome(txn_id) is not None

    def _settled(self, has_landed: bool) -> None:
        """Settle whether the staged commit was ratified."""
        _, proposals = self._open or ("", [])
        self._open = None
        for proposal in () if has_landed else proposals:
            self.discard(proposal)

    def stage(self, version: int, body: bytes) -> DeltaCommit:
        """Write a staged commit; returns the proposal for the catalog.

        Raises:
            StorageError: it cannot be written.
        """
        store = self.log.store
        name = next(names_for(store, lambda drawn: staged_name(f"{version:020}.{drawn}.json")))
        file_name = name.rpartition("/")[2]
        try:
            # A put whose answer was lost is sent again, and meets what the first one wrote.
            if not store.put_if_absent(name, body) and (store.is_final or store.read(name) != body):
                raise StorageError(
                    f"{store.root}/{name} already exists; a staged commit has a name of its own", path=name)
        except BaseException as error:
            self._delete(file_name)  # an error may come after the file is there
            if isinstance(error, StorageError) or not isinstance(error, OSError):
                raise
            raise StorageError.of(error, "written", f"{store.root}/{name}") from error
        time = commit_info_of(body).get("inCommitTimestamp")
        self._staged = _Staged(version, name, body)
        return DeltaCommit(
            self.table_id, self.name, version, file_name=file_name, file_size=len(body),
            mtime=options.clock(), ict=time, **retained_of(body, version),
            published=self._to_report(version))

    def _to_report(self, version: int) -> int | None:
        """What the proposal of a version says that is published: what is surely in the folder for good."""
        published = self.unreported()
        if published is None or published >= version:
            return None
        try:
            self._commits.sync()
        except OSError as error:
            logger.warning("Versions up to %d of %s are not reported as published: %s", published, self.name,
                           error)
            return None
        return published

    def discard(self, proposal: DeltaCommit) -> None:
        """Delete a staged file that was certainly not ratified; if that fails, a sweep deletes it later."""
        if proposal.file_name is not None:
            self._delete(proposal.file_name)

    def _delete(self, file_name: str) -> None:
        with suppress(OSError):
            try:
                self.log.store.delete(staged_name(file_name))
            except Exception:
                raise
            except BaseException:  # an interrupt: the file goes all the same
                self.log.store.delete(staged_name(file_name))
                raise

    def written(self, proposal: DeltaCommit) -> list[str]:
        """No files: staged ones that are not ratified are found by their place."""
        return []

    def asserted(self, version: int) -> Asserted:
        """The assertion that a version is the latest one."""
        return Asserted(self.table_id, self.name, version)

    def refusal(self, latest: object, version: int) -> DeltaError | None:
        """Why no attempt at a version can succeed if the catalog has ``latest``; None after a lost race."""
        if latest is None:
            return TableNotFound(
                f"the catalog has no table {self.name} any more: it was dropped or renamed; nothing was "
                "committed. Load it by its present name and run the operation again", path=str(self.name))
        if isinstance(latest, int) and latest < version - 1:
            return VersionNotFound(
                f"the catalog has versions of {self.name} up to {latest}, and this commit follows version "
                f"{version - 1}: the catalog was restored to an earlier state. Nothing was committed; look "
                "at it with 'deltanb catalog check'", version=version - 1, earliest=None, latest=latest)
        return None

    def publish(self, version: int) -> None:
        """Copy ratified commits into the folder, in order up to a version. The catalog hears of it with the
        next commit (:meth:`unreported`); whoever does not find it there publishes once more.

        Raises:
            InvalidTable: a file of that name has other content, written without the catalog.
            StorageError: it cannot be written.
        """
        commits, last, file_name = self._commits, None, None
        mine = self._staged if self._staged is not None and self._staged.version == version else None
        if mine is not None and commits.is_published(version):
            return
        before = None if mine is None else commits.unpublished(version - 1)
        if before is None:
            before, mine = self.catalog.tails([self.table_id])[self.table_id].commits, None
        for commit in before:
            if commit.version > version:
                break
            staged = None if commit.file_name is None else staged_name(commit.file_name)
            self._put_into_folder(commit.version, commits.read(commit.version), staged)
            last, file_name = commit.version, commit.file_name
        if mine is not None:
            self._put_into_folder(version, mine.body, mine.name)
            last, file_name = version, mine.name.rpartition("/")[2]
        if last is not None:
            self.note_published(last, file_name)

    def note_published(self, version: int, file_name: str | None) -> None:
        """Remember that all versions up to one, which has a staged file, are in the folder."""
        self._commits.note_published(version)

    def _put_into_folder(self, version: int, body: bytes, staged: str | None = None) -> None:
        """Publish a commit in the folder, as a hard link of the staged file if possible."""
        store, name = self.log.store, commit_name(version)
        link = getattr(store, "link_if_absent", None)
        is_new = None if staged is None or link is None else link(staged, name)
        is_synced = is_new is None and store.put_if_absent(name, body)
        if not is_synced:  # one that is there already may have its name from somebody who was killed
            self._commits.note_unsynced()
        is_new = is_new or is_synced
        if not is_new and store.read(name) != body:
            raise InvalidTable(
                f"{store.root}: the file {name} is not the commit that the catalog has ratified as "
                f"version {version}; it was written past the catalog. Move it away, publish again",
                path=store.root, file=name, version=version)


def drained(parts: Parts[T]) -> T:
    """What parts end with, when all of them are done without a pause."""
    while True:
        try:
            next(parts)
        except StopIteration as ended:
            result: T = ended.value
            return result


def summary_of(operations: dict[str, Any]) -> str:
    """What a transaction did, by table, as the catalog's history records it.

    >>> summary_of({"sales.orders": "WRITE"})
    '{"sales.orders": "WRITE"}'
    """
    return json.dumps(operations)


def commit_info_of(body: bytes) -> dict[str, Any]:
    """The first line: in-commit timestamps are on in every managed table, so it is the commitInfo."""
    info = json.loads(body.partition(b"\n")[0]).get("commitInfo")
    if not isinstance(info, dict) or "txnId" not in info:
        raise InvalidTable("a commit of a table that a catalog manages begins with its commitInfo, and that "
                           "has a txnId; this one does not")
    return info


_RETAINED = re.compile(rb'^\{"(protocol|metaData)":', re.MULTILINE)


def retained_of(body: bytes, version: int) -> dict[str, Any]:
    """The protocol and metadata that the catalog stores with a version, if the commit changes them.

    The tag identifies the last change: it begins with the version and its time.
    """
    retained = {}
    for match in _RETAINED.finditer(body):
        line = body[match.start():body.find(b"\n", match.start()) + 1 or None]
        key = "protocol" if match[1] == b"protocol" else "metadata"
        retained[key] = json.dumps(json.loads(line)[match[1].decode()])
    if retained:
        retained["etag"] = f"{version}.{commit_info_of(body).get('inCommitTimestamp')}"
    return retained


