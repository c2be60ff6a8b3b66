"""Leftovers of interrupted writes: temporary files, and Spark's folders.

What lives here: where these are in a table, and which are so old that their writers must be gone.
What it does not know: files with final names but without a commit (``vacuum`` lists those), deleting.

A killed process leaves the temporary file it was writing (a commit, a checkpoint, deletion vectors, a
manifest), or the folder that Spark was writing into; other libraries have their own names for such files
(``.deletion_vector_<uuid>.bin.tmp``, ``_delta_log/.<name>.<uuid>.tmp``). Running writers have such files,
too, but younger than the retention.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from deltanb.engines.arrow.write import SPARK_FOLDER
from deltanb.errors import StorageError
from deltanb.log.checkpoint.names import LOG_FOLDER, SIDECAR_FOLDER
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.local import is_temporary
from deltanb.transaction.hooks import MANIFEST_FOLDER

_FOLDER = re.compile(re.escape(SPARK_FOLDER) + "[0-9a-f]{32}")


def leftovers(store: LogStore, cutoff: int) -> list[FileStatus]:
    """The files of interrupted writes that are older than the cutoff (epoch ms).

    A folder of Spark counts as one: its files are included once the youngest is old enough.
    """
    names = [*store.list_names(""), *store.list_names(LOG_FOLDER), *store.list_names(SIDECAR_FOLDER)]
    statuses = [status for name in names if is_temporary(name) and (status := store.status(name))]
    statuses += [status for status in store.list_all(MANIFEST_FOLDER) if is_temporary(status.name)]
    abandoned = [status for status in statuses if status.modification_time <= cutoff]
    for folder in _folders(store):
        files = list(store.list_all(folder))
        if all(status.modification_time <= cutoff for status in files):
            abandoned += files
    return abandoned


def folders_of_leftovers(store: LogStore, cutoff: int) -> list[str]:
    """The local folders that Spark wrote into before the cutoff, the deepest first.

    Those that are empty by then should be removed.
    """
    folders = []
    for name in _folders(store):
        top = store.local_path(name)
        assert top is not None
        paths = [folder for folder, _, _ in os.walk(top, topdown=False)]
        if all(_changed(path) <= cutoff for path in paths):
            folders += paths
    return folders


def _folders(store: LogStore) -> Iterator[str]:
    """The names of the folders that Spark writes into, on the local file system only."""
    root = store.local_path("")
    if root is None:
        return
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if _FOLDER.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise StorageError.of(error, "listed", root) from error
    yield from sorted(names)


def _changed(path: str) -> int:
    """When a folder was changed last, epoch ms; a folder that is gone was never."""
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
