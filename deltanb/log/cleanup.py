"""Cleaning up the log: deleting what no version within the retention needs.

Lives here: PROTOCOL.md, "Metadata Cleanup": which commits, checkpoints, checksums, compactions and
sidecars have expired, and the order in which they go. Nothing is deleted above or at the checkpoint
that the oldest retained version builds on, and that checkpoint is opened before anything is deleted; nor
is anything outside the log that a link points to.

Does not know: data files (that is vacuum), or when a clean-up is due.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltanb.concurrency.precedence import yield_to_commits
from deltanb.errors import InvalidTable
from deltanb.log.checkpoint.names import (
    LOG_FOLDER,
    SIDECAR_FOLDER,
    complete_checkpoints,
    parse_name,
    sidecar_name,
)
from deltanb.log.checkpoint.read import open_checkpoint
from deltanb.log.commits import STAGED_FOLDER
from deltanb.options import options
from deltanb.schema import properties
from deltanb.schema.properties import DAY_MS
from deltanb.schema.protocol import check_writable, supports
from deltanb.store.base import delete_many
from deltanb.store.local import is_temporary
from deltanb.store.paths import Inside
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import FileStatus, LogStore

logger = get_logger(__name__)

_VERSIONED = re.compile(
    r"_delta_log/(?P<version>\d{20})\.(?:(?P<commit>json)|(?P<crc>crc)|\d{20}\.compacted\.json)"
)


_STAGED = re.compile(re.escape(STAGED_FOLDER) + r"/(\d{20})\.[^/]+\.json")


def clean_up(log: LogReader, retention: int | None = None) -> list[str]:
    """Delete what ``delta.logRetentionDuration`` no longer covers; returns the deleted names.

    ``retention`` in milliseconds replaces it, exact to the millisecond and regardless of
    ``delta.enableExpiredLogCleanup``, to truncate history on request.

    Does nothing if ``delta.enableExpiredLogCleanup`` is false, if no readable checkpoint lies at or
    below the oldest retained commit, or if ``checkpointProtection`` guards what would go. Raises
    UnsupportedProtocol for tables that this library may not write.
    """
    snapshot = log.update()
    if snapshot.version < 0:
        return []
    if retention is None and not properties.get(
            snapshot.properties, "delta.enableExpiredLogCleanup"):
        return []
    check_writable(snapshot.protocol, snapshot.metadata, log.path, writes_data=False)
    names = log.store.list_names(LOG_FOLDER)
    cutoff = _cutoff(snapshot) if retention is None else options.clock() - retention
    yield_to_commits()
    base = _base(log, names, cutoff, snapshot)
    yield_to_commits()
    expired = [] if base is None else _expired(names, base) + _staged(log.store, base)
    expired += _abandoned(log.store, names)
    expired += _orphans(log.store, sorted(set(names) - set(expired)))
    yield_to_commits()
    inside = Inside(log.store, LOG_FOLDER)
    expired = [name for name in expired if inside.name_of(name, is_encoded=False) is not None]
    for _ in delete_many(log.store, expired):
        pass
    if expired:
        log.forget_versions()
        logger.info("%s: deleted %d expired log files", log.path, len(expired))
    return expired


def expired_files(log: LogReader, snapshot: Snapshot, names: list[str]) -> list[str]:
    """The commits, checksums, compactions and checkpoints among the log's files that :func:`clean_up` would
    delete as expired.

    Raises:
        InvalidArgument: a retention that is no interval.
    """
    if not properties.get(snapshot.properties, "delta.enableExpiredLogCleanup"):
        return []
    base = _base(log, names, _cutoff(snapshot), snapshot)
    return [] if base is None else _expired(names, base)


def _cutoff(snapshot: Snapshot) -> int:
    retained: int = properties.get(snapshot.properties, "delta.logRetentionDuration")
    return _midnight(options.clock() - retained)


def _midnight(milliseconds: int) -> int:
    """The UTC midnight at or before a time: clean-ups of one day delete the same files."""
    return milliseconds - milliseconds % DAY_MS


def _base(log: LogReader, names: list[str], cutoff: int, snapshot: Snapshot) -> int | None:
    """The version of the checkpoint below which everything may be deleted, or None."""
    first = min(log.commits.names(names), default=None)
    status = None if first is None else log.commits.status(first)
    if status is None or status.modification_time > cutoff:
        return None  # the usual case, without a look at every file
    oldest = _oldest_retained(log.commits.listed(), cutoff)
    if oldest is None:
        return None
    for candidate in complete_checkpoints(names, oldest):
        try:
            open_checkpoint(log.store, candidate.names)
        except InvalidTable as error:
            logger.warning("No clean-up up to version %d: %s", candidate.version, error)
            continue
        return None if candidate.version < _protected(snapshot) else candidate.version
    return None


def _oldest_retained(listed: list[tuple[int, FileStatus]], cutoff: int) -> int | None:
    """The newest commit not newer than the cutoff: retained, as is everything after it.

    A commit counts as at least a millisecond younger than the one before it, as in time travel.
    """
    oldest = None
    previous: int | None = None
    for version, status in listed:
        time = status.modification_time
        if previous is not None and time <= previous:
            time = previous + 1
        if time > cutoff:
            break
        oldest, previous = version, time
    return oldest


def _protected(snapshot: Snapshot) -> int:
    """The version below which checkpoints may only go all at once.

    Checkpoints before ``delta.requireCheckpointProtectionBeforeVersion`` hide commits that some
    readers cannot replay: they stay until a clean-up removes all the history up to that version.
    """
    if not supports(snapshot.protocol, "checkpointProtection"):
        return 0
    key = "delta.requireCheckpointProtectionBeforeVersion"
    return int(properties.get(snapshot.properties, key))


def _expired(names: Iterable[str], base: int) -> list[str]:
    """The files below the base, checkpoints last: they must not be deleted before what builds on them.

    The commit of the base itself stays for its commitInfo, which no checkpoint holds.
    """
    commits: list[str] = []
    others: list[str] = []
    checkpoints: list[str] = []
    for name in names:
        checkpoint = parse_name(name)
        if checkpoint is not None:
            if checkpoint.version < base:
                checkpoints.append(name)
            continue
        match = _VERSIONED.fullmatch(name)
        if match is None:
            continue
        # A compaction counts by its first version, and goes with the base itself.
        is_compaction = not match["commit"] and not match["crc"]
        if int(match["version"]) < base + is_compaction:
            (commits if match["commit"] else others).append(name)
    return [*commits, *others, *checkpoints]


def _staged(store: LogStore, base: int) -> list[str]:
    """Staged commits of versions up to the base: checkpoints are of published versions only (PROTOCOL.md,
    "Metadata Cleanup")."""
    matched = ((name, _STAGED.fullmatch(name)) for name in store.list_names(f"{STAGED_FOLDER}/"))
    return [name for name, match in matched if match and int(match[1]) <= base]


def _abandoned(store: LogStore, names: list[str]) -> list[str]:
    """Temporary files so old that their writers must be gone."""
    before = _midnight(options.clock() - DAY_MS)
    temporary = [store.status(name) for name in names if is_temporary(name)]
    return [status.name for status in temporary if status and status.modification_time < before]


def _orphans(store: LogStore, remaining: list[str]) -> list[str]:
    """Sidecars that no kept checkpoint links, older than a day before the last midnight.

    Younger ones may belong to a checkpoint that is being written. If a kept checkpoint cannot be
    read, what it links is unknown, and all sidecars stay.
    """
    before = _midnight(options.clock() - DAY_MS)
    sidecars = store.list_from(SIDECAR_FOLDER)
    old = [status.name for status in sidecars if status.modification_time < before]
    if not old:
        return []
    linked: set[str] = set()
    key = Inside(store).key
    for checkpoint in complete_checkpoints(remaining):
        if checkpoint.kind == "multi-part":
            continue
        try:
            parts = open_checkpoint(store, checkpoint.names)
        except InvalidTable as error:
            logger.warning("All sidecars are kept: %s", error)
            return []
        linked.update(key(sidecar_name(sidecar.path)) for sidecar in parts.sidecars)
    return [name for name in old if key(name) not in linked]
