"""Lists of files for Spark sessions, cached for the next frame of the same version.

What lives here: which lists are cached, for how long, and whether one is still valid. A list belongs to one
snapshot object and is dropped with it, so that no version gets another's list; also with its session, and
when newer lists need the memory.
What it does not know: what a list is, how it is made.

A list has the sizes of its files, looked up when it was made. It is valid as long as none of their folders
has changed, that is, no file was added or removed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.engines.spark.paths import IN_A_BUCKET

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

MAX_SNAPSHOTS = 4
"""Versions a session keeps lists of."""
MAX_FILES = 800_000
"""Files in all lists that a session keeps: some 100 MB in its JVM."""


class _FileList(NamedTuple):
    made: Any
    num_files: int
    folders: Mapping[str, int]
    """When each folder was changed last, in ns."""


_Lists = weakref.WeakKeyDictionary[Any, dict[Any, _FileList]]
_sessions: weakref.WeakKeyDictionary[Any, _Lists] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def find(context: Any, snapshot: Snapshot, key: Any) -> Any:
    """The list that :func:`keep` stored for the session (its ``sparkContext``) and snapshot; None if
    dropped."""
    with _lock:
        lists = _lists(context)
        of_snapshot = lists.get(snapshot, {})
        cached = of_snapshot.get(key)
        if cached is None:
            return None
        if _changed(cached.folders) != cached.folders:
            del of_snapshot[key]
            return None
        lists[snapshot] = lists.pop(snapshot)  # the last one used is the last one to go
        return cached.made


def keep(context: Any, snapshot: Snapshot, key: Any, made: Any, files: Iterable[str]) -> None:
    """Cache a list of these files (Spark's paths), unless it alone is too long.

    The log's entries for objects in buckets stay valid, so only local folders are checked.
    """
    paths = list(files)
    folders = _changed({os.path.dirname(path) for path in paths if not IN_A_BUCKET.match(path)})
    if folders is None or len(paths) > MAX_FILES:
        return
    with _lock:
        lists = _lists(context)
        of_snapshot = lists.pop(snapshot, {})
        lists[snapshot] = of_snapshot  # at the end
        of_snapshot[key] = _FileList(made, len(paths), folders)
        while len(lists) > 1 and (len(lists) > MAX_SNAPSHOTS or _num_files(lists) > MAX_FILES):
            del lists[next(iter(lists))]
        if _num_files(lists) > MAX_FILES:
            lists[snapshot] = {key: of_snapshot[key]}


def clear() -> None:
    """Drop all lists, of all sessions."""
    with _lock:
        _sessions.clear()


def _lists(context: Any) -> _Lists:
    """The lists of one session; those of stopped sessions are dropped."""
    for known in list(_sessions):
        if known._jsc is None:
            del _sessions[known]
    return _sessions.setdefault(context, weakref.WeakKeyDictionary())


def _num_files(lists: _Lists) -> int:
    return sum(cached.num_files for of_snapshot in list(lists.values()) for cached in of_snapshot.values())


def _changed(folders: Iterable[str]) -> dict[str, int] | None:
    """When folders were last changed; None if one does not exist."""
    try:
        return {folder: os.stat(folder).st_mtime_ns for folder in folders}
    except OSError:
        return None
