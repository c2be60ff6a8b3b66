"""The folder that a Spark write goes into, local or in a bucket, and how its files become the table's.

What lives here: :class:`LocalFolder`, from which files are moved to their places, and :class:`BucketFolder`,
in which they stay, since a rename is a copy there. Each write has its own folder, so that the files in it are
exactly the ones written.
What it does not know: rows, tables, statistics.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow.parquet as pq

from deltanb.concurrency import parallel
from deltanb.engines.arrow import write as in_process
from deltanb.engines.spark.connectors import Connector, refusals
from deltanb.engines.spark.permits import granted
from deltanb.errors import InvalidArgument
from deltanb.options import options
from deltanb.store.base import FileStatus, LogStore, delete_many
from deltanb.store.local import raise_unlistable, sync_path
from deltanb.store.naming import NO_HARD_LINKS, hard_link, take
from deltanb.store.new_files import created

__all__ = ["COMMITTER", "BucketFolder", "Folder", "LocalFolder", "WrittenFile"]

COMMITTER = "InPlaceCommitter"
"""The class of ours by which tasks leave files where they wrote them."""
_DONE = "done-"  # known to InPlaceCommitter.java, which makes objects of such names


@dataclass(frozen=True)
class WrittenFile:
    """A file as Spark wrote it: its path, its folder below that of the write, its size and footer."""

    name: str
    folder: str
    size: int
    footer: pq.FileMetaData


class Folder(Protocol):
    """The interface of a write's folder."""

    root: str
    """For messages."""
    uri: str
    """As Spark is told it."""
    options: Mapping[str, str]
    """For Spark's writer."""
    key: str
    """What the names of the columns that Spark makes folders of begin with."""

    def written(self) -> AbstractContextManager[None]:
        """A block in which Spark writes; its errors about the folder become ours."""

    def written_files(self) -> Iterator[WrittenFile]:
        """The Parquet files that the tasks wrote."""

    def open(self, written: WrittenFile) -> Any:
        """A file, for Arrow's reader."""

    def adopt(self, written: WrittenFile, name_of: Callable[[str], str]) -> str:
        """Make a file the table's, if possible under a name made from an id; returns its name."""

    def remove(self, *, failed: bool) -> None:
        """Remove all files that are not the table's: everything, if the write has failed."""


# --- on this machine ------------------------------------------------------------------------------

class LocalFolder:
    """A folder inside the table's; other programs do not see it."""

    options: Mapping[str, str] = {}
    key = "__deltanb_key"

    def __init__(self, store: LogStore) -> None:
        # Random, not options.new_id(): processes that draw their ids from one seed must not meet
        # here.
        path = store.local_path(in_process.SPARK_FOLDER + uuid.uuid4().hex)
        assert path is not None
        self.store, self.root, self.uri = store, path, "file:" + path
        self._adopted: list[str] = []

    def written(self) -> AbstractContextManager[None]:
        """A block without translation: local errors are ours already, or Spark's own."""
        return nullcontext()

    def written_files(self) -> Iterator[WrittenFile]:
        """The files in the folder and below it."""
        if not os.path.isdir(self.root):
            raise InvalidArgument(
                f"Spark has written to {self.root}, but nothing is there: the Spark server has "
                "another file system than this process. Write to a path both of them see, or use "
                "a local session (deltanb.spark())", path=self.root)
        for folder, _, names in os.walk(self.root, onerror=raise_unlistable):
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/")
            for name in names:
                if name.endswith(".parquet") and name[0] not in "._":
                    path = os.path.join(folder, name)
                    yield WrittenFile(path, inside, os.path.getsize(path), pq.read_metadata(path))

    def open(self, written: WrittenFile) -> Any:
        """The path of the file."""
        return written.name

    def adopt(self, written: WrittenFile, name_of: Callable[[str], str]) -> str:
        """Move the file into the table; it is synced to disk before a commit names it."""
        name, _ = created(self.store, name_of, partial(_move, self.store, written.name), self._adopted)
        return name

    def remove(self, *, failed: bool) -> None:
        """Remove the folder, with ``failed`` also the files that were moved."""
        if failed:
            in_process.delete_files(self.store, self._adopted)
        shutil.rmtree(self.root, ignore_errors=True)


def _move(store: LogStore, source: str, name: str) -> None:
    """Move a file to its place in the table, unless that is taken; it is synced to disk before a commit names
    it.

    Raises:
        FileExistsError: the place is taken.
        NotADirectoryError: its folder is not a folder, or cannot be accessed.
    """
    target = store.local_path(name)
    assert target is not None
    folder = os.path.dirname(target)
    made = []
    while not os.path.isdir(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    except FileExistsError as error:  # not of the file: another name for it would not help
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from error
    _sync(source)
    try:
        hard_link(source, target)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        if not take(source, target)[0]:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
    else:
        os.unlink(source)
    _sync(os.path.dirname(target))
    for folder in made:
        _sync(os.path.dirname(folder))


def _sync(path: str) -> None:
    if options.durability == "sync":
        sync_path(path)


# --- in a bucket ----------------------------------------------------------------------------------

class BucketFolder:
    """A prefix of keys inside the table's, with a prefix for each attempt of a task.

    Files of an attempt count once its mark exists (``InPlaceCommitter.java``); if two attempts of a task have
    left a mark, either one is used. An attempt that fails removes its files, and so does one that finds the
    write ended (``permits``).
    """

    key = "deltanb_key"  # seen by others, who overlook folders that begin with an underscore

    def __init__(self, store: LogStore, connector: Connector) -> None:
        self.store = store
        self.name = f"part-{uuid.uuid4().hex[:16]}"
        self.root = f"{store.root}/{self.name}"
        self.uri = connector.path(f"{connector.key}/{self.name}".lstrip("/"))
        committer = {"spark.sql.parquet.output.committer.class": f"deltanb.{COMMITTER}"}
        self.options: Mapping[str, str] = {**connector.options, **committer}
        self._listed: list[str] | None = None
        self._adopted: set[str] = set()

    @contextmanager
    def written(self) -> Iterator[None]:
        """A block with the write's permit; errors of the session's file system become those of this
        library."""
        with granted(self.store, self.name), refusals(self.root):
            yield

    def written_files(self) -> Iterator[WrittenFile]:
        """The files of attempts that Spark let commit; several footers are read at a time."""
        statuses = list(self.store.list_all(self.name))
        self._listed = [status.name for status in statuses]
        attempts = self._attempts()
        files = [status for status in statuses if status.name.endswith(".parquet")
                 and status.name.split("/")[1] in attempts]
        yield from parallel.each(self._described, files, parallel.MAX_WAITING, "footers")

    def _attempts(self) -> set[str]:
        """The folder of one complete attempt of each task."""
        assert self._listed is not None
        by_task = {}
        for name in self._listed:
            base = name.split("/")[1]
            if base.startswith(_DONE):
                attempt = base.removeprefix(_DONE)
                by_task[attempt.partition("-")[0]] = attempt
        return set(by_task.values())

    def _described(self, status: FileStatus) -> WrittenFile:
        with self.store.open_input(status.name) as file:
            footer = pq.read_metadata(file)
        folder = "/".join(status.name.split("/")[2:-1])
        return WrittenFile(status.name, folder, status.size, footer)

    def open(self, written: WrittenFile) -> Any:
        """A file that reads ranges on demand."""
        return self.store.open_input(written.name)

    def adopt(self, written: WrittenFile, name_of: Callable[[str], str]) -> str:
        """The file keeps its name."""
        self._adopted.add(written.name)
        return written.name

    def remove(self, *, failed: bool) -> None:
        """Remove the other keys below the prefix, with ``failed`` all of them; leftovers are for VACUUM."""
        with suppress(OSError):
            if failed or self._listed is None:
                self._listed = [status.name for status in self.store.list_all(self.name)]
            gone = [name for name in self._listed if failed or name not in self._adopted]
            for _ in delete_many(self.store, gone):
                pass
