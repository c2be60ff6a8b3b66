"""Rebases that follow when no rule objects: row ids, commit versions, timestamps.

What lives here: how a transaction's own actions change when it moves behind a winner. PROTOCOL.md,
"Row Tracking", "In-Commit Timestamps", "Type Widening".
What it does not know: whether a winner conflicts (``conflict_rules.py``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from deltanb.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile
from deltanb.errors import (
    RowIdAssignmentWithoutStats,
    RowTrackingBackfillRunningConcurrentlyWithUnbackfill,
)
from deltanb.schema import properties
from deltanb.schema import protocol as features
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.metadata_rules import retime_type_changes
from deltanb.transaction.operations import BACKFILL, UNBACKFILL
from deltanb.transaction.row_levels import NOTHING_SEEN, TAG
from deltanb.transaction.steps import Winner

ROW_TRACKING_DOMAIN = "delta.rowTracking"
MISSING_HIGH_WATER_MARK = -1  # no row has an id yet, so the first one gets 0
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
ICT = "delta.enableInCommitTimestamps"
ICT_VERSION = "delta.inCommitTimestampEnablementVersion"
ICT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def is_backfill_pair(current: CurrentTransaction, winner: Winner) -> bool:
    """Whether either side only re-commits files for row tracking."""
    return (winner.is_backfill or winner.is_unbackfill
            or current.operation.name in (BACKFILL, UNBACKFILL))


def row_tracking_skips(current: CurrentTransaction, winner: Winner) -> str:
    """Why there is nothing to do for row tracking; empty if there is."""
    if not features.supports(current.protocol, "rowTracking"):
        return "the table does not track rows"
    return ""


def row_tracking(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    """Merge backfills, then give this transaction's files ids behind the winner's.

    Raises:
        RowTrackingBackfillRunningConcurrentlyWithUnbackfill: ids are filled in and removed at the same time.
        RowIdAssignmentWithoutStats: a file has no ``numRecords``.
    """
    if features.supports(current.protocol, "rowTracking"):
        current = _merge_backfill(current, winner)
        if current.operation.name != UNBACKFILL and not row_ids_suspended(current.metadata):
            current = _reassign_row_ids(current, winner)
    return _retime_types(current, winner)


def _merge_backfill(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    touched = {a.path for a in winner.adds} | {r.path for r in winner.removes}
    if current.operation.name == UNBACKFILL:
        if winner.is_backfill:
            raise RowTrackingBackfillRunningConcurrentlyWithUnbackfill(
                f"table {current.table}: version {winner.version} fills in row ids while this "
                "transaction takes them out. Let one finish, then run the other",
                version=winner.version,
            )
        stripped = [a.replace(data_change=False, base_row_id=None, default_row_commit_version=None)
                    for a in winner.adds
                    if a.base_row_id is not None or a.default_row_commit_version is not None]
        return _without_files(current, touched, stripped)
    if current.operation.name == BACKFILL:
        current = _without_files(current, touched, [])
    if winner.is_backfill:
        backfilled = {a.path: a for a in winner.adds}
        current = current.with_actions([
            a.replace(base_row_id=backfilled[a.path].base_row_id,
                      default_row_commit_version=backfilled[a.path].default_row_commit_version)
            if isinstance(a, AddFile | RemoveFile) and a.path in backfilled else a
            for a in current.actions
        ])
    return current


def _without_files(
    current: CurrentTransaction, paths: set[str], more: Sequence[Action]
) -> CurrentTransaction:
    """Leave out files that the winner committed again or removed: they are not to be resurrected."""
    remaining = [a for a in current.actions if not (isinstance(a, AddFile) and a.path in paths)]
    reads = replace(current.reads, forgotten=current.reads.forgotten | frozenset(paths))
    return current.with_actions([*remaining, *more]).replace(reads=reads)


def row_ids_suspended(metadata: Metadata) -> bool:
    """Whether new files get no row ids for now, although the table has the feature."""
    return bool(properties.get(metadata.configuration, "delta.rowTrackingSuspended"))


def high_water_mark(actions: Sequence[Action]) -> int | None:
    """The row id high-water mark that actions set, if they do."""
    for action in actions:
        if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
            return parse_high_water_mark(action)
    return None


def parse_high_water_mark(domain: DomainMetadata | None) -> int:
    """The mark in a ``delta.rowTracking`` domain; -1 where there is none."""
    if domain is None or domain.removed:
        return MISSING_HIGH_WATER_MARK
    try:
        return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
    except (ValueError, KeyError, TypeError):
        return MISSING_HIGH_WATER_MARK


def high_water_mark_domain(mark: int) -> DomainMetadata:
    """The action that records a mark."""
    return DomainMetadata(ROW_TRACKING_DOMAIN, json.dumps(
        {"rowIdHighWaterMark": mark}, separators=(",", ":")))


def assign_row_ids(
    actions: Sequence[Action], mark: int, table: str, keep_up_to: int | None = None,
    known: Collection[str] = (),
) -> tuple[list[Action], int]:
    """Give fresh base row ids to added files behind ``mark``; the new mark comes back.

    Files whose id is at most ``keep_up_to`` keep it, and so do those at ``known`` paths: an earlier commit
    gave it. With ``None`` every file that has an id keeps it.

    Raises:
        RowIdAssignmentWithoutStats: a file has no ``numRecords``.
    """
    out: list[Action] = []
    for action in actions:
        if isinstance(action, AddFile):
            own = action.base_row_id
            if own is None or (keep_up_to is not None and own > keep_up_to and action.path not in known):
                count = action.num_records
                if count is None:
                    raise RowIdAssignmentWithoutStats(
                        f"table {table}: file {action.path} has no numRecords in its statistics, so "
                        "its rows cannot be given ids. Write it with statistics",
                        path=action.path,
                    )
                action = action.replace(base_row_id=mark + 1)
                mark += count
        out.append(action)
    return out, mark


def _reassign_row_ids(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    read_mark = current.row_id_high_water_mark
    theirs = high_water_mark(winner.actions)
    start = read_mark if theirs is None else theirs
    rest = [a for a in current.actions
            if not (isinstance(a, DomainMetadata) and a.domain == ROW_TRACKING_DOMAIN)]
    known = {file.path for file in winner.adds} if winner.is_backfill else set()
    assigned, mark = assign_row_ids(rest, start, current.table, read_mark, known)
    next_version = winner.version + 1
    assigned = [
        a.replace(default_row_commit_version=next_version)
        if isinstance(a, AddFile) and a.path not in known and (
            a.default_row_commit_version in (None, winner.version)) else a
        for a in assigned
    ]
    # The mark goes first, where a reader of many actions finds it soonest.
    domain: list[Action] = [high_water_mark_domain(mark)] if mark > MISSING_HIGH_WATER_MARK else []
    return current.replace(actions=[*domain, *assigned], row_id_high_water_mark=start)


def _retime_types(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    if not current.metadata_changed or not any(
            features.supports(current.protocol, f) for f in ("typeWidening", "typeWidening-preview")):
        return current
    moved: list[Action] = []
    for action in current.actions:
        if isinstance(action, Metadata) and "delta.typeChanges" in (action.schema_string or ""):
            schema = retime_type_changes(action.schema, winner.version, winner.version + 1)
            action = action.replace(schema_string=schema.to_json())
        moved.append(action)
    return current.with_actions(moved)


# ---------------------------------------------------------------------------- rows


def rows(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    """Take the same rows behind a winner that took others of the same files, or moved them to other files.

    What was read is followed to where it lies now, so that the next winner that takes it is a conflict; and
    the commit says at which level it has passed.
    """
    seen = winner.seen
    if seen is NOTHING_SEEN or not seen:
        return current
    if seen.moved:
        stay = [a for a in current.actions
                if not (isinstance(a, AddFile | RemoveFile) and a.path in seen.moved)]
        current = current.with_actions([*stay, *seen.instead])
    reads = replace(current.reads, followed=current.reads.followed | seen.followed)
    info = current.commit_info
    tags = {**(info.tags if isinstance(info.tags, dict) else {}), TAG: current.row_level}
    return current.replace(reads=reads, commit_info=info.replace(tags=tags))


# ---------------------------------------------------------------------------- checkpoint protection


def checkpoint_protection(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    """Protect the winner's version too, where this transaction drops a feature and protects what came before.

    PROTOCOL.md, "Checkpoint Protection": the winner was still written with the feature.
    """
    if not current.metadata_changed or not features.dropped_features(
            current.read_protocol, current.protocol):
        return current
    metadata = current.metadata
    if metadata.configuration.get(PROTECTED_BEFORE) != str(winner.version):
        return current
    moved = metadata.replace(configuration={
        **metadata.configuration, PROTECTED_BEFORE: str(winner.version + 1)})
    actions = [moved if isinstance(a, Metadata) else a for a in current.actions]
    return current.replace(actions=actions, metadata=moved)


# ---------------------------------------------------------------------------- timestamps


def timestamp_skips(current: CurrentTransaction, winner: Winner) -> str:
    """Why there is no timestamp to order; empty if there is."""
    if not in_commit_timestamps(current.metadata):
        return "the table has no in-commit timestamps"
    return ""


def in_commit_timestamps(metadata: Metadata) -> bool:
    """Whether commits of the table carry their own time."""
    return bool(properties.get(metadata.configuration, ICT))


def timestamp(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    """Make our in-commit timestamp later than the winner's, and re-stamp an enablement by us.

    A winner from before the enablement has no in-commit timestamp; its wall clock stands in.
    """
    if not in_commit_timestamps(current.metadata):
        return current
    theirs = winner.commit_info.in_commit_timestamp or winner.commit_info.timestamp
    theirs = theirs if isinstance(theirs, int) else 0
    info = current.commit_info
    own = info.in_commit_timestamp if info.in_commit_timestamp is not None else info.timestamp
    stamp = max(int(own or 0), theirs + 1)
    current = current.replace(commit_info=info.replace(in_commit_timestamp=stamp))
    if not current.metadata_changed or in_commit_timestamps(current.read_metadata):
        return current
    return _stamp_enablement(current, winner.version + 1, stamp)


def _stamp_enablement(current: CurrentTransaction, version: int, stamp: int) -> CurrentTransaction:
    actions = [stamp_enablement(a, version, stamp) if isinstance(a, Metadata) else a
               for a in current.actions]
    metadata = next(a for a in actions if isinstance(a, Metadata))
    return current.replace(actions=actions, metadata=metadata)


def stamp_enablement(metadata: Metadata, version: int, stamp: int) -> Metadata:
    """The metadata with when in-commit timestamps began: needed unless they began with version 0."""
    return metadata.replace(configuration={
        **metadata.configuration, ICT_VERSION: str(version), ICT_TIMESTAMP: str(stamp)})
