"""Where commits go: the contract of a committer, and that of a folder.

What lives here: :class:`Committer`, and :class:`FolderCommitter`, whose commits are files put if absent into
the log. What it does not know: the algorithm, and who drives it.
A catalog that ratifies commits is another committer of the same transaction; it reads them by its
``log.commits``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from deltanb.errors import DeltaError, StorageError, TableNotFound, TableReplaced, VersionNotFound
from deltanb.log.commits import commit_name
from deltanb.store.local import turn_in
from deltanb.text.safe_text import get_logger
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.actions import Action, AddFile
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.drafts import Turn
    from deltanb.transaction.current import CurrentTransaction
    from deltanb.transaction.row_levels import CloserLook

logger = get_logger("deltanb.transaction")


class Committer(Protocol):
    """What a commit asks of the place that it goes to.

    A put is answered in one of four ways:

    ===========================  ===========================================================================
    written: ``True``            the version is this commit, for good
    exists: ``False``            the version is there, and somebody else's; or, where ``is_final`` is False,
                                 perhaps this very commit, from a put whose answer was lost
    refused: a ``DeltaError``    nothing was written and nothing will be: trying again does not help
    unknown: ``None``, or        nobody knows whether it was written: the version is read to find out
    another exception
    ===========================  ===========================================================================

    What is thrown in place of an answer (an interrupt) is unknown, too, once the put has begun.
    """

    @property
    def is_final(self) -> bool:
        """Whether nothing of a put happens after it has returned or was interrupted, so that "exists" means
        another's commit."""

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> bool | Exception | None:
        """Make a commit the version, unless there is one: at most one put of a version is ever answered
        "written". ``body`` are the lines of ``actions``."""

    def read(self, version: int) -> Winner | None:
        """The commit at a version, or None where there is none.

        Raises:
            StorageError: it cannot be read; whether it is there is unknown.
            InvalidTable: it is damaged.
        """

    def look_closer(
        self, current: CurrentTransaction, winner: Winner, begun: list[AddFile]
    ) -> CloserLook:
        """Whether the rows of files that meet differ, and with which actions the transaction goes on then.

        ``begun`` gets each file that is written for these, before it is.

        Raises:
            DeltaError, OSError: what it needs cannot be read or written; the files stay a conflict.
        """

    def publish(self, version: int) -> None:
        """Make a commit that was written, and all before it, files of the folder, for those who read that
        alone. It stands even if this fails, and may be published by anybody at any later time."""


Makes = Callable[["LogReader", "Snapshot"], Committer]
"""A committer for the log, behind the snapshot that was read."""


class FolderCommitter:
    """Commits as files ``_delta_log/<version>.json``, behind the snapshot that a transaction read."""

    def __init__(self, log: LogReader, snapshot: Snapshot) -> None:
        self.log, self.snapshot = log, snapshot
        self._turn: Turn | None = None

    @property
    def is_final(self) -> bool:
        """As the store says of itself."""
        return bool(getattr(self.log.store, "is_final", False))

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> bool | OSError | DeltaError:
        """Write a version if it is absent, behind the one before it.

        A DeltaError comes back where nothing was written: the store says so, or the table that was read is
        no longer there. The store's error comes back where it leaves that open.
        """
        store = self.log.store
        settings: dict[str, Any] = {}
        try:
            if self.snapshot.version >= 0:
                self._verify(version - 1)
                if getattr(store, "has_folders", False):  # what was removed meanwhile is not made again
                    settings = {"make_folders": False}
            if self._turn is not None:
                settings["turn"] = self._turn
            return store.put_if_absent(commit_name(version), body, **settings)
        except DeltaError as error:
            return error
        except OSError as error:
            logger.warning("Writing version %d: %s; reading it back", version, error)
            return error

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A block in which the first put waits for its turn among the writers of this host, and those after
        it still have it. For a commit that goes through without a pause."""
        turn = turn_in(self.log.store) if self.snapshot.version >= 0 else None
        if turn is None:
            yield
            return
        try:
            with turn:
                self._turn = turn
                yield
        finally:
            self._turn = None

    def read(self, version: int) -> Winner | None:
        """The commit at a version, or None if there is none."""
        try:
            return Winner(version, tuple(self.log.read_commit(version)))
        except VersionNotFound:
            return None

    def look_closer(
        self, current: CurrentTransaction, winner: Winner, begun: list[AddFile]
    ) -> CloserLook:
        """As the engine that reads rows in the process sees it."""
        seen: CloserLook = import_module("deltanb.engines.arrow.behind").look_closer(
            self.snapshot, current, winner, begun)
        return seen

    def publish(self, version: int) -> None:
        """Nothing: the file is the commit."""

    def _verify(self, before: int) -> None:
        """The commit before ours is there, and where it is the one that was read it is still the same.

        Without this a commit to a table that was removed, or replaced by another one, would be
        acknowledged and never be seen.

        Raises:
            TableNotFound, TableReplaced: the table that was read is gone.
            VersionNotFound: its log no longer has the version to build on.
            StorageError: it cannot be looked at.
        """
        read = self.snapshot
        try:
            identity = self.log.commits.identity(before)
            if identity is not None and (before > read.version or identity == read.commit_identity):
                return
            now = self.log.update()
        except StorageError:
            raise
        except OSError as error:
            raise StorageError.of(error, "read", f"{self.log.path}/{commit_name(before)}") from error
        path = self.log.path
        if now.version < 0:
            raise TableNotFound(
                f"the table at {path} was removed after version {read.version} of it was read; nothing was "
                "committed", path=path)
        if now.metadata.id != read.metadata.id:
            raise TableReplaced(
                f"the table at {path} was replaced by another one after version {read.version} of it was "
                f"read (its id was {read.metadata.id} and is {now.metadata.id}); nothing was committed. Run "
                "the operation again if it is meant for the new table",
                path=path, table_id=now.metadata.id)
        is_cleaned = now.version > before and self.log.commits.status(before + 1) is None
        if now.version < before or is_cleaned:
            why = "was cleaned up" if is_cleaned else "was there when the transaction began and is gone"
            raise VersionNotFound(
                f"table {path}: version {before + 1 if is_cleaned else before} {why}; nothing was "
                "committed. Start a new transaction",
                version=before, earliest=None, latest=now.version)
