"""What is in the store and no retained version needs: removed files past the retention, and orphans.

What lives here: both checks, from one listing, which is bounded in a bucket; without one, what the log says
of removed files.
What it does not know: how VACUUM deletes. Which files are data is told by ``commands/upkeep/listing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.commands.rows.change_files import CHANGE_FOLDER
from deltanb.commands.upkeep.listing import hidden_from_vacuum, is_of_another, outside_logs
from deltanb.commands.upkeep.vacuum import RETENTION
from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.logs import HOUR_MS
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState
from deltanb.options import options
from deltanb.schema.properties import DAY_MS
from deltanb.store.base import is_remote
from deltanb.store.paths import Inside
from deltanb.text import formatting as units
from deltanb.text.progress import progress

if TYPE_CHECKING:
    from deltanb.store.base import FileStatus

MAX_LISTED = 100_000
"""Files that are listed of a bucket unless all are asked for: a hundred requests, one after the other."""
_NOT_PLAIN = r"%|^[/.]|//|/\.|/$|:/"
"""Paths that are no names as they are: encoded, absolute, or not normal (``store/paths``)."""
AT_ONCE = 10_000
"""Files of a listing that are compared at a time."""


def check_storage(state: TableState, whole: bool | None) -> Iterator[Finding]:
    """Removed files and orphans; ``whole`` as in :func:`deltanb.observe.checkup.examine.checkup`."""
    retention = state.setting(RETENTION)
    cutoff = options.clock() - retention
    if whole is False:
        state.blind_spots.append(kinds.blind_spot("listing"))
        yield from _by_log(state, cutoff, retention)
        return
    removed, orphans = _unneeded(state, cutoff, whole)
    hours = retention / HOUR_MS
    if removed:
        size = sum(status.size for status in removed)
        yield kinds.TOMBSTONES(
            f"removed more than {hours:g} hours ago and still there: {units.count(len(removed), 'file')} of "
            f"{units.size(size)}",
            {"files_unneeded": len(removed), "bytes": size, "retention_hours": hours},
            {"files": len(removed), "bytes": size}, reads=0, writes=0)
    if orphans:
        size = sum(status.size for status in orphans)
        oldest = (options.clock() - min(status.modification_time for status in orphans)) // DAY_MS
        yield kinds.ORPHANS(
            f"named by nothing: {units.count(len(orphans), 'file')} of {units.size(size)}, the first "
            f"{min(status.name for status in orphans)}",
            {"files_unneeded": len(orphans), "bytes": size, "oldest_days": oldest, "retention_hours": hours},
            {"files": len(orphans), "bytes": size}, reads=0, writes=0)


def _by_log(state: TableState, cutoff: int, retention: int) -> Iterator[Finding]:
    """Removed files by the log alone: those that no VACUUM since can have deleted."""
    tombstones = state.snapshot.tombstones
    vacuumed = next((one for one in state.records.records if one.operation == "VACUUM END"), None)
    if vacuumed is not None:
        return  # which of them it deleted is not in the log
    times = pc.fill_null(tombstones["deletion_timestamp"], pa.scalar(0, pa.int64()))
    expired = tombstones.filter(pc.less_equal(times, pa.scalar(cutoff, pa.int64())))
    if expired.num_rows:
        size = pc.sum(expired["size"]).as_py() or 0
        yield kinds.TOMBSTONES(
            f"removed more than {retention / HOUR_MS:g} hours ago, by the log, in which no VACUUM is: "
            f"{units.count(expired.num_rows, 'file')} of {units.size(size)}",
            {"files_unneeded": expired.num_rows, "bytes": size, "retention_hours": retention / HOUR_MS},
            {"files": expired.num_rows, "bytes": size}, reads=0, writes=0)


def _unneeded(
    state: TableState, cutoff: int, whole: bool | None
) -> tuple[list[FileStatus], list[FileStatus]]:
    """What VACUUM would delete of what is listed: removed files, and those that nothing names."""
    store = state.snapshot.log.store
    names = _Names(state, cutoff)
    limit = MAX_LISTED if whole is None and is_remote(store) else None
    hidden = hidden_from_vacuum(state.snapshot, names.inside)
    removed, unnamed, tables = list[Any](), list[Any](), set[str]()
    listing = store.list_all("")
    count = 0
    with progress("check: files listed", limit or len(state.files)) as seen:
        while some := list(islice(listing, AT_ONCE if limit is None else min(AT_ONCE, limit - count))):
            count += len(some)
            for status in outside_logs(names.not_plainly_live(some), tables):
                if hidden(status.name):
                    continue
                which = names.which(status)
                removed += [status] if which == "removed" else []
                unnamed += [status] if which == "unnamed" else []
            seen.at(count, max(count, limit or len(state.files)))
    if limit is not None and count == limit and next(listing, None) is not None:
        state.blind_spots.append(kinds.blind_spot(
            "listing", (), f"{units.count(count, 'file')} were listed; checkup(list_files=True) lists all"))
    return removed, [status for status in unnamed if not is_of_another(status.name, tables)]


class _Names:
    """The names that a version's files and its removed files have in the store."""

    def __init__(self, state: TableState, cutoff: int) -> None:
        snapshot = state.snapshot
        self.cutoff = cutoff
        self.inside = Inside(snapshot.log.store)
        self._live = snapshot.select_files(["path", "deletion_vector"])
        paths = self._live["path"]
        self._is_plain = pc.invert(pc.match_substring_regex(paths, _NOT_PLAIN))
        self._plain = pa.chunked_array(paths.filter(self._is_plain).chunks, pa.string()).combine_chunks()
        self._tombstones = snapshot.tombstones
        self._changes = {key: record.time > cutoff for record in state.records.records
                         for path in record.change_files for key in self.inside.keys_of(path)}
        """Of change files that commits name: whether a retained version needs them."""
        oldest = min((record.time for record in state.records.records), default=0)
        self._knows_changes = state.records.first == 0 or oldest <= cutoff
        self._keys: tuple[set[str], set[str], set[str]] | None = None

    def not_plainly_live(self, statuses: list[FileStatus]) -> list[FileStatus]:
        """Those that are not live files by their very names, which nearly all are."""
        texts = (status.name.encode("utf-8", "replace").decode() for status in statuses)
        names = pa.array(texts, pa.string())
        is_live = pc.is_in(names, value_set=self._plain)
        return [statuses[at] for at in pc.indices_nonzero(pc.invert(is_live)).to_pylist()]

    def which(self, status: FileStatus) -> str:
        """``removed`` past the retention, ``unnamed`` and as old, or nothing that VACUUM deletes."""
        if self._keys is None:
            self._keys = self._all_keys()
        needed, expired, recent = self._keys
        key = self.inside.key(status.name)
        if key in needed or key in recent or self._changes.get(key):
            return ""
        if key in expired:
            return "removed"
        is_change = status.name.startswith(f"{CHANGE_FOLDER}/")
        if status.modification_time > self.cutoff or (is_change and not self._knows_changes):
            return ""
        return "removed" if key in self._changes else "unnamed"

    def _all_keys(self) -> tuple[set[str], set[str], set[str]]:
        """What is live but by other names and by vectors, what was removed past the retention, and since."""
        times = pc.fill_null(self._tombstones["deletion_timestamp"], pa.scalar(0, pa.int64()))
        is_expired = pc.less_equal(times, pa.scalar(self.cutoff, pa.int64()))
        others = None if self.inside.root is not None else pc.invert(self._is_plain)
        return (self._keys_of(self._live, others),
                self._keys_of(self._tombstones.filter(is_expired)),
                self._keys_of(self._tombstones.filter(pc.invert(is_expired))))

    def _keys_of(self, files: pa.Table, which: Any = None) -> set[str]:
        paths: Iterable[str] = (files["path"] if which is None else files["path"].filter(which)).to_pylist()
        keys = {key for path in paths for key in self.inside.keys_of(path)}
        for vector in files["deletion_vector"].drop_null().to_pylist():
            path = vector_path(vector["storage_type"], vector["path_or_inline_dv"])
            if path is not None:
                keys.update(self.inside.keys_of(path[0], is_encoded=path[1]))
        return keys
