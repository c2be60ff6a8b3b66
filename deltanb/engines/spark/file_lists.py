"""Lists of files that a session of Spark was given, kept for the next frame of the same version.

What lives here: which lists are kept, for how long, and whether one still holds. A list belongs to one
snapshot object and goes with it; so no version ever answers for another. It goes, too, with its session, and
when newer ones need the room.
What it does not know: what a list is, how it is made.

A list says how large its files are, which was looked up when it was made. It holds as long as no folder of
them has changed: in none of these has a file come or gone since.
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
MAX_FILES = 200_000
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
    """What :func:`keep` was given for them, the session by its ``sparkContext``; None where that is gone."""
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
    """Keep a list of these files, paths of Spark's; one that alone is too long is not kept.

    What a log says of an object holds as long as the log does: only folders of this machine are looked at.
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
    """Those of one session; those of sessions that were stopped are dropped."""
    for known in list(_sessions):
        if known._jsc is None:
            del _sessions[known]
    return _sessions.setdefault(context, weakref.WeakKeyDictionary())


def _num_files(lists: _Lists) -> int:
    return sum(cached.num_files for of_snapshot in list(lists.values()) for cached in of_snapshot.values())


def _changed(folders: Iterable[str]) -> dict[str, int] | None:
    """When folders were changed last; None where one is not there."""
    try:
        return {folder: os.stat(folder).st_mtime_ns for folder in folders}
    except OSError:
        return None
