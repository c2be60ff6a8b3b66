"""The folder that one write of Spark's goes into, here or in a bucket, and the way of its files from there.

What lives here: :class:`LocalFolder`, from which files are moved to their places, and :class:`BucketFolder`,
in which they stay, since a rename is a copy there. Each write has a folder of its own, so the files in it are
the ones written, whatever else goes on.
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
from deltanb.store.drafts import NO_HARD_LINKS
from deltanb.store.local import raise_unlistable, sync_path
from deltanb.store.new_files import created

__all__ = ["COMMITTER", "BucketFolder", "Folder", "LocalFolder", "Written"]

COMMITTER = "InPlaceCommitter"
"""The class of ours by which tasks leave files where they wrote them."""
_DONE = "done-"  # known to InPlaceCommitter.java, which makes objects of such names


@dataclass(frozen=True)
class Written:
    """A file as Spark left it: where, in which folder below that of the write, how large, and its footer."""

    name: str
    folder: str
    size: int
    footer: pq.FileMetaData


class Folder(Protocol):
    """What a write asks of its folder."""

    root: str
    """For messages."""
    uri: str
    """As Spark is told it."""
    options: Mapping[str, str]
    """For Spark's writer."""
    key: str
    """What the names of the columns that Spark makes folders of begin with."""

    def written(self) -> AbstractContextManager[None]:
        """While Spark writes: what it raises because of the folder becomes an error of ours."""

    def written_files(self) -> Iterator[Written]:
        """The Parquet files that the tasks have left."""

    def open(self, written: Written) -> Any:
        """A file, for Arrow's reader."""

    def adopt(self, written: Written, name_of: Callable[[str], str]) -> str:
        """Let a file be the table's, if it can be by a name that is made of an id; the name that it has."""

    def remove(self, *, failed: bool) -> None:
        """Remove all that is not the table's; where the write has failed, that is everything."""


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
        """Errors of the system's are ours already, or Spark's own."""
        return nullcontext()

    def written_files(self) -> Iterator[Written]:
        """Those in the folder and below it."""
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
                    yield Written(path, inside, os.path.getsize(path), pq.read_metadata(path))

    def open(self, written: Written) -> Any:
        """Its path."""
        return written.name

    def adopt(self, written: Written, name_of: Callable[[str], str]) -> str:
        """Move it to such a name; it is on the disk before any commit names it."""
        name, _ = created(self.store, name_of, partial(_move, self.store, written.name), self._adopted)
        return name

    def remove(self, *, failed: bool) -> None:
        """The folder goes, with ``failed`` what was moved, too."""
        if failed:
            in_process.delete_files(self.store, self._adopted)
        shutil.rmtree(self.root, ignore_errors=True)


def _move(store: LogStore, source: str, name: str) -> None:
    """Give a file its place in the table, unless that is taken; it is on the disk before any commit names it.

    Raises:
        FileExistsError: it is taken.
        NotADirectoryError: what lies in the place of its folder is none, or cannot be looked at.
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
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))  # the name is ours from here on
        os.replace(source, target)
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
    """A prefix of keys inside the table's. Each attempt of a task writes below one of its own.

    Files of an attempt count once its mark is there (``InPlaceCommitter.java``); of two attempts of one task
    that have left a mark it is one of them, whichever. An attempt that fails removes what it has written, and
    so does one that finds the write ended (``permits``).
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
        """What the session's file system cannot do, as other stores tell it; a permit stands meanwhile."""
        with granted(self.store, self.name), refusals(self.root):
            yield

    def written_files(self) -> Iterator[Written]:
        """Those of attempts that Spark let commit; the footers are read several at a time."""
        statuses = list(self.store.list_all(self.name))
        self._listed = [status.name for status in statuses]
        attempts = self._attempts()
        files = [status for status in statuses if status.name.endswith(".parquet")
                 and status.name.split("/")[1] in attempts]
        yield from parallel.each(self._described, files, parallel.MAX_WAITING, "footers")

    def _attempts(self) -> set[str]:
        """The folder of one attempt of each task whose files are whole."""
        assert self._listed is not None
        by_task = {}
        for name in self._listed:
            base = name.split("/")[1]
            if base.startswith(_DONE):
                attempt = base.removeprefix(_DONE)
                by_task[attempt.partition("-")[0]] = attempt
        return set(by_task.values())

    def _described(self, status: FileStatus) -> Written:
        with self.store.open_input(status.name) as file:
            footer = pq.read_metadata(file)
        folder = "/".join(status.name.split("/")[2:-1])
        return Written(status.name, folder, status.size, footer)

    def open(self, written: Written) -> Any:
        """Ranges of it are read when they are asked for."""
        return self.store.open_input(written.name)

    def adopt(self, written: Written, name_of: Callable[[str], str]) -> str:
        """It keeps the name that it has."""
        self._adopted.add(written.name)
        return written.name

    def remove(self, *, failed: bool) -> None:
        """What else lies below the prefix goes, with ``failed`` all of it; what stays is left for VACUUM."""
        with suppress(OSError):
            if failed or self._listed is None:
                self._listed = [status.name for status in self.store.list_all(self.name)]
            gone = [name for name in self._listed if failed or name not in self._adopted]
            for _ in delete_many(self.store, gone):
                pass
