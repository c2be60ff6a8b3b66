"""VACUUM: delete files that no version within the retention needs.

What lives here: :func:`vacuum`: which files are needed, the two ways of finding the others, and the records
in the log.
What it does not know: the log's own files (``log/cleanup.py`` deletes those).

A version is within the retention if it was the newest one at some time within it. Such a version needs the
files it reads: data files, deletion vectors, change data files. A file that no commit names is spared while
it is younger than the retention, since it may belong to a future commit; so are the temporary files of writes
(``leftovers.py``). Files outside the table's folder are never touched, since a clone's files are its
source's, nor are those of other tables whose folders are inside. ``store/paths.py`` decides what a path means
and what is inside: a file that is needed under any spelling is needed, and one reached through a linked
folder is where the link leads.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    RemoveFile,
)
from deltanb.commands.begin import begin
from deltanb.commands.result import CommandResult
from deltanb.commands.upkeep.leftovers import folders_of_leftovers, leftovers
from deltanb.commands.upkeep.listing import hidden_from_vacuum, is_of_another, outside_logs
from deltanb.commands.upkeep.rewrite import MAX_TRANSACTIONS
from deltanb.concurrency import parallel
from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.errors import (
    DeltaConcurrentModificationException,
    IllegalStateError,
    InvalidArgument,
)
from deltanb.log.commits import LOG_FOLDER
from deltanb.log.maintenance import CLEAN_DATA, check_maintenance
from deltanb.options import options
from deltanb.schema import properties
from deltanb.store.base import FileStatus, LogStore, delete_many, read_concurrency
from deltanb.store.paths import Inside
from deltanb.text.safe_text import shown
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

HOUR_MS = 3_600_000
MAX_HOURS = 1900 * 365 * 24  # so long ago there still are dates to show
RETENTION = "delta.deletedFileRetentionDuration"
LAST_VACUUM = f"{LOG_FOLDER}/_last_vacuum_info"
"""Up to which version removed files have been deleted, as Delta Spark notes it."""
FILES = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modification_time", pa.int64())])


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class VacuumResult(CommandResult):
    """What a vacuum deleted, or would delete.

    ``files`` has a row per file: its ``path`` below the table, ``size`` in bytes, ``modification_time`` in
    epoch ms. ``unnamed`` are those that no version had, as far as the log knows: from an interrupted write,
    or someone else's. ``version`` is that of the commit VACUUM END, None after a dry run. ``num_folders``
    counts the removed empty folders.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.overwrite({"id": [2]})
    >>> result = table.vacuum(dry_run=True)
    >>> result.version, result.num_files, result.files.column_names  # it is too young to go
    (None, 0, ['path', 'size', 'modification_time'])
    """

    table: str
    files: pa.Table
    cutoff: int
    num_folders: int = 0
    unnamed: pa.Table = field(default_factory=FILES.empty_table)

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing was deleted.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).vacuum(dry_run=True).is_dry_run
        True
        """
        return self.version is None

    @property
    def num_files(self) -> int:
        """The number of files.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).vacuum(dry_run=True).num_files
        0
        """
        return int(self.files.num_rows)

    @property
    def size_in_bytes(self) -> int:
        """The sum of their sizes.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).vacuum(dry_run=True).size_in_bytes
        0
        """
        return pc.sum(self.files["size"]).as_py() or 0


@active.command
def vacuum(
    log: DeltaLog,
    retention_hours: float | None = None,
    *,
    lite: bool = False,
    dry_run: bool = False,
    check: bool = True,
) -> VacuumResult:
    """Delete files that no version within the retention needs; older versions cannot be read any more.

    Args:
        retention_hours: how long to retain removed files, by default ``delta.deletedFileRetentionDuration``
            (7 days).
        lite: take removed files from the log instead of listing the folder: faster, but files that no commit
            ever named stay, including those of interrupted writes.
        dry_run: only report what would be deleted.
        check: refuse a retention shorter than the table's, with which readers, or writers that have not
            committed yet, could lose files they are using.

    Raises:
        TableNotFound: there is no table.
        InvalidArgument: a retention that is too short, or not a number.
        IllegalStateError: with ``lite``, the log since the last vacuum is gone.
        UnsupportedProtocol: the table has a feature that this library cannot write.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> _ = table.overwrite({"name": ["Scrooge"]})
    >>> vacuum(table.log, dry_run=True).num_files
    0
    >>> vacuum(table.log, 0, check=False).num_files
    1
    """
    from deltanb.text.progress import progress

    txn = begin(log, "files")
    if not dry_run:
        check_maintenance(log, CLEAN_DATA, "VACUUM")
    snapshot = txn.snapshot
    table_retention = int(properties.get(snapshot.properties, RETENTION))
    retention = _retention(retention_hours, table_retention, check, txn.table)
    cutoff = options.clock() - retention
    needed = _Needed(snapshot, cutoff)
    if lite:
        candidates, folders = _removed_by_log(snapshot, needed), []
    else:
        candidates = _listed(snapshot, needed) + [
            status for status in leftovers(log.store, cutoff)
            if needed.inside.name_of(status.name, is_encoded=False) is not None]
        folders = folders_of_leftovers(log.store, cutoff)
    doomed = [status for status in candidates if status.name not in needed]
    if dry_run:
        return VacuumResult("VACUUM", None, "arrow", table=txn.table, files=_table(doomed),
                            unnamed=_table(needed.unnamed(doomed)), cutoff=cutoff)
    folders += _old_folders(snapshot, needed)
    parameters = {"retentionCheckEnabled": check, "defaultRetentionMillis": table_retention}
    if retention_hours is not None:
        parameters["specifiedRetentionMillis"] = retention
    started = _note(log, Operation("VACUUM START", parameters, metrics={
        "numFilesToDelete": len(doomed), "sizeOfDataToDelete": sum(s.size for s in doomed)}))
    for version in range(snapshot.version + 1, started):  # may have brought files back
        needed.keep(log.read_commit(version))
    doomed = [status for status in doomed if status.name not in needed]
    unnamed = _table(needed.unnamed(doomed))
    end = {"numDeletedFiles": 0, "numVacuumedDirectories": len(
        {posixpath.dirname(status.name) for status in candidates} | {""})}
    try:
        with progress("VACUUM: files deleted", len(doomed)) as seen:
            for _ in delete_many(log.store, [status.name for status in doomed]):
                end["numDeletedFiles"] += 1
                seen()
    except BaseException:
        _end(log, "FAILED", end)
        raise
    removed = _remove_empty(folders)
    if needed.oldest_version is not None and needed.oldest_version >= 0:
        note = {"latestCommitVersionOutsideOfRetentionWindow": needed.oldest_version}
        log.store.put(LAST_VACUUM, json.dumps(note, separators=(",", ":")).encode())
    version = _end(log, "COMPLETED", end)
    return VacuumResult("VACUUM", version, "arrow", end, table=txn.table, files=_table(doomed),
                        unnamed=unnamed, cutoff=cutoff, num_folders=removed)


def _end(log: DeltaLog, status: str, metrics: dict[str, int]) -> int:
    return _note(log, Operation("VACUUM END", {"status": status}, metrics=metrics))


def _note(log: DeltaLog, operation: Operation) -> int:
    """Commit a record into the log, regardless of concurrent commits, since it changes nothing."""
    for _ in range(MAX_TRANSACTIONS - 1):
        with suppress(DeltaConcurrentModificationException):
            version: int = active.begin(log).commit([], operation)
            return version
    return int(active.begin(log).commit([], operation))


def _retention(hours: float | None, table_retention: int, check: bool, table: str) -> int:
    if hours is None:
        return table_retention
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not hours >= 0:
        raise InvalidArgument(f"retention_hours={shown(hours)} must be a number of hours, 0 or more")
    if hours > MAX_HOURS:
        raise InvalidArgument(
            f"retention_hours={shown(hours)} must be at most {MAX_HOURS}: longer than there are dates")
    retention = int(hours * HOUR_MS)
    if check and retention < table_retention:
        raise InvalidArgument(
            f"table {table}: a retention of {hours:g} hours is shorter than the table's "
            f"{table_retention / HOUR_MS:g} ({RETENTION}). Files that somebody is still reading, or has "
            "written and not committed yet, could be deleted. If nobody else uses the table, pass "
            f"check=False; to keep less in future, set {RETENTION}", retention_hours=hours)
    return retention


def _table(files: Iterable[FileStatus]) -> pa.Table:
    rows = sorted((f.name, f.size, f.modification_time) for f in files)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(values, field.type)
                     for values, field in zip(columns, FILES, strict=True)], schema=FILES)


# --- what is needed -------------------------------------------------------------------------------

class _Needed:
    """The files below the table's folder that a version within the retention reads."""

    def __init__(self, snapshot: Snapshot, cutoff: int) -> None:
        self.store, self.log, self.cutoff = snapshot.log.store, snapshot.log, cutoff
        self.newest = snapshot.version
        self.inside = Inside(self.store)
        self.names: set[str] = set()
        """Keys of :class:`Inside`."""
        self.expired: set[str] = set()
        """Of files that were removed longer ago than the retention; perhaps needed all the same."""
        self.oldest_version: int | None = None
        """The newest version committed before the retention began, -1 without one; None if unknown."""
        self._add(self.names, snapshot.select_files(["path", "deletion_vector"]))
        tombstones = snapshot.tombstones
        times = tombstones["deletion_timestamp"].to_pylist()
        late = pa.array([(time or 0) > cutoff for time in times], pa.bool_())
        early = pa.array([(time or 0) <= cutoff for time in times], pa.bool_())
        self._add(self.names, tombstones.filter(late))
        self._add(self.expired, tombstones.filter(early))
        self._keep_recent(snapshot.version)

    def _keep_recent(self, version: int) -> None:
        """Keep files that commits within the retention added, removed or named as change data."""
        while version >= 0:
            status = self.log.commits.status(version)
            if status is None:
                return
            actions = self.log.read_commit(version)
            stamps = [a.in_commit_timestamp for a in actions if isinstance(a, CommitInfo)]
            time = max([status.modification_time, *(s for s in stamps if isinstance(s, int))])
            if time <= self.cutoff:
                break
            self.keep(actions)
            version -= 1
        self.oldest_version = version

    def __contains__(self, name: str) -> bool:
        return self.inside.key(name) in self.names

    def unnamed(self, files: Collection[FileStatus]) -> list[FileStatus]:
        """The files among these that no version had, as far as the log knows; commits are read, newest first,
        until each file is found."""
        left = {self.inside.key(file.name) for file in files} - self.expired
        version = self.newest
        while left and version >= 0 and self.log.commits.status(version) is not None:
            for path, is_encoded in _paths_of(self.log.read_commit(version)):
                left.difference_update(self.inside.keys_of(path, is_encoded=is_encoded))
            version -= 1
        return [file for file in files if self.inside.key(file.name) in left]

    def keep(self, actions: Iterable[Any]) -> None:
        """Keep the files that these actions name."""
        for path, is_encoded in _paths_of(actions):
            self.names.update(self.inside.keys_of(path, is_encoded=is_encoded))

    def _add(self, names: set[str], table: pa.Table) -> None:
        for path in table["path"].to_pylist():
            names.update(self.inside.keys_of(path))
        for vector in table["deletion_vector"].drop_null().to_pylist():
            named = vector_path(vector["storage_type"], vector["path_or_inline_dv"])
            if named:
                names.update(self.inside.keys_of(named[0], is_encoded=named[1]))


def _paths_of(actions: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    """The paths that actions name, and those of their deletion vectors; whether they are encoded."""
    for action in actions:
        if isinstance(action, AddFile | RemoveFile | AddCDCFile):
            yield action.path, True
            vector = action.deletion_vector if not isinstance(action, AddCDCFile) else None
            named = vector and vector_path(vector.storage_type, vector.path_or_inline_dv)
            if named:
                yield named


# --- what there is --------------------------------------------------------------------------------

def _listed(snapshot: Snapshot, needed: _Needed) -> list[FileStatus]:
    """Files in the folder that are old enough to be deleted, if no version needs them.

    Files below a folder with its own log are another table's, unless this one has removed them.
    """
    hidden, key = hidden_from_vacuum(snapshot, needed.inside), needed.inside.key
    tables: set[str] = set()
    files = [status for status in outside_logs(snapshot.log.store.list_all(""), tables)
             if not hidden(status.name) and (
                 status.modification_time <= needed.cutoff or key(status.name) in needed.expired)]
    return [status for status in files
            if key(status.name) in needed.expired or not is_of_another(status.name, tables)]


def _removed_by_log(snapshot: Snapshot, needed: _Needed) -> list[FileStatus]:
    """Files that commits before the retention removed, and their change data files."""
    log, store = snapshot.log, snapshot.log.store
    last = needed.oldest_version
    if last is not None and last < 0:
        return []
    done = _last_vacuumed(store)
    start = 0 if done is None else done + 1
    names: set[str | None] = set()
    for version in range(start, (-1 if last is None else last) + 1):
        if log.commits.status(version) is None:
            last = None
            break
        actions = log.read_commit(version)
        names.update(needed.inside.name_of(path, is_encoded=is_encoded) for path, is_encoded in _paths_of(
            a for a in actions if isinstance(a, RemoveFile | AddCDCFile)))
    if last is None:
        raise IllegalStateError(
            f"table {log.path}: a lite vacuum reads the log from version {start} on, the end of the "
            "last vacuum, but some of its commits were cleaned up. Vacuum without lite=True")
    hidden = hidden_from_vacuum(snapshot, needed.inside)
    visible = [name for name in sorted(filter(None, names)) if not hidden(name)]
    statuses = parallel.each(store.status, visible, read_concurrency(store, 1), "vacuum")
    return [status for status in statuses if status is not None]


def _last_vacuumed(store: LogStore) -> int | None:
    try:
        note = json.loads(store.read(LAST_VACUUM))
        version = note["latestCommitVersionOutsideOfRetentionWindow"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None


# --- folders --------------------------------------------------------------------------------------

def _old_folders(snapshot: Snapshot, needed: _Needed) -> list[str]:
    """Local folders that have not changed since the cutoff, the deepest first.

    In a younger one, a writer may be about to create a file.
    """
    root = snapshot.log.store.local_path("")
    if root is None:
        return []
    hidden, old = hidden_from_vacuum(snapshot, needed.inside), []
    for folder, folders, _ in os.walk(root):
        relative = os.path.relpath(folder, root).replace(os.sep, "/")
        inside = "" if relative == "." else relative + "/"
        folders[:] = [name for name in folders if not hidden(f"{inside}{name}/x")]
        with suppress(OSError):
            if inside and os.stat(folder).st_mtime_ns // 1_000_000 <= needed.cutoff:
                old.append(folder)
    return old[::-1]


def _remove_empty(folders: Iterable[str]) -> int:
    removed = 0
    for folder in folders:
        with suppress(OSError):  # not empty, or gone already
            os.rmdir(folder)
            removed += 1
    return removed
