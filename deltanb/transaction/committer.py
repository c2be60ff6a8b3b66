"""The file system's committer: put-if-absent into the log.

What lives here: the answers of a log store to the commit's steps. What it does not know: the algorithm.
A catalog that ratifies commits is another committer of the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltanb.errors import DeltaError, StorageError, TableNotFound, TableReplaced, VersionNotFound
from deltanb.log.commits import commit_name
from deltanb.safe_text import get_logger
from deltanb.transaction.steps import PutIfAbsent, Winner

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot

logger = get_logger("deltanb.transaction")


class LogCommitter:
    """Commits as files ``_delta_log/<version>.json``, behind the snapshot that a transaction read.

    ``begins`` is called before each put: from then on the version may be there, whatever is answered.
    """

    def __init__(
        self, log: LogReader, snapshot: Snapshot, begins: Callable[[], object] = lambda: None
    ) -> None:
        self.log, self.snapshot, self.begins = log, snapshot, begins

    def put(self, version: int, body: bytes) -> bool | OSError | DeltaError:
        """Write a version if it is absent, behind the one before it.

        A DeltaError comes back where nothing was written: the store says so, or the table that was read is
        no longer there. The store's error comes back where it leaves that open.
        """
        store, settings = self.log.store, {}
        try:
            if self.snapshot.version >= 0:
                self._verify(version - 1)
                if getattr(store, "has_folders", False):  # what was removed meanwhile is not made again
                    settings = {"make_folders": False}
            self.begins()
            return store.put_if_absent(commit_name(version), body, **settings)
        except DeltaError as error:
            return error
        except OSError as error:
            logger.warning("Writing version %d: %s; reading it back", version, error)
            return error

    def read(self, version: int) -> Winner | None:
        """The commit at a version, or None if there is none."""
        try:
            return Winner(version, tuple(self.log.read_commit(version)))
        except VersionNotFound:
            return None

    def holds(self, put: PutIfAbsent) -> bool | None:
        """Whether a version is there with what a put was to write; None where there is no such version.

        Raises:
            StorageError: it cannot be read.
        """
        try:
            return self.log.commits.read(put.version) == put.body
        except FileNotFoundError:
            return None

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
            found = self.log.commits.status(before)
            if found is not None and (before > read.version or found == read.commit_status):
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
