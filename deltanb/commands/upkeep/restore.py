"""RESTORE: return the table to the state of an older version, by a new commit.

What lives here: :func:`restore`: which files are added again, which are removed, the old metadata and
domains, and the operation's record.
What it does not know: rows; no data file is read or written.

The restored state is a new version, and those in between can still be read. The protocol is never lowered,
since files and readers of the versions in between rely on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Action, AddFile, DomainMetadata, Metadata, decode_path
from deltanb.commands.begin import begin
from deltanb.commands.result import CommandResult
from deltanb.concurrency import parallel
from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.errors import DataFileNotFound, InvalidArgument
from deltanb.log.replay import FILES_SCHEMA, key_array
from deltanb.schema import column_mapping, properties
from deltanb.schema.columns import preserve_marks
from deltanb.schema.protocol import CATALOG_TABLE_ID, merged
from deltanb.store.base import read_concurrency
from deltanb.store.paths import place_of
from deltanb.text.formatting import count, number
from deltanb.transaction import active
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore
    from deltanb.transaction.delta_log import DeltaLog

_KEPT_PROPERTIES = (
    "delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp", CATALOG_TABLE_ID)
"""They say how the log tells its times, which concerns the commits between as well, and whose table it is."""


@active.command
def restore(
    log: DeltaLog,
    moment: int | str | dt.datetime,
    *,
    ignore_missing_files: bool = False,
    user_metadata: str | None = None,
) -> CommandResult:
    """Restore the table's rows, schema and properties.

    Args:
        moment: a version (an integer), or a time (ISO 8601 text or a datetime; without a zone UTC).
        ignore_missing_files: leave out files that are gone, with their rows.
        user_metadata: text to record in the commit.

    Returns:
        A result whose ``version`` is None if the table has that state already.

    Raises:
        VersionNotFound: there is no such version, or the log no longer has it.
        DataFileNotFound: files of that version are gone (``files``); nothing was changed.
        ConcurrentWriteException: another commit landed meanwhile; nothing was changed.
        AppendOnlyTable: files would be removed from a table with ``delta.appendOnly=true``.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> _ = table.overwrite({"name": ["Scrooge"]})
    >>> restore(table.log, 0).version, table.to_arrow().to_pylist()
    (2, [{'name': 'Donald'}])
    """
    txn = begin(log, "files")
    now, then = txn.snapshot, _snapshot_of(log, moment)
    then.check_readable()
    target, present = then.files, now.files
    back = list(FileScan(_without(target, present)))
    gone = list(FileScan(_without(present, target)))
    store = now.log.store
    looked = parallel.each(
        lambda file: list(_missing(store, file)), back, read_concurrency(store, 1), "restore")
    missing = {file.file_key: path for file, paths in zip(back, looked, strict=True) for path in paths}
    if missing and not ignore_missing_files:
        raise _vacuumed(txn.table, then, len(missing), sorted(missing.values()))
    back = [file for file in back if file.file_key not in missing]
    protocol = merged(now.protocol, then.protocol)
    if protocol is not now.protocol:
        txn.update_protocol(protocol)
    metadata = _metadata(now.metadata, then.metadata)
    if metadata != now.metadata:
        txn.update_metadata(metadata)
    actions: list[Action] = [file.remove() for file in gone]
    actions += [file.replace(data_change=True) for file in back]
    actions += _domains(now, then)
    lost = [file for file in FileScan(target) if file.file_key in missing] if missing else []
    metrics = {
        "tableSizeAfterRestore": then.size_in_bytes - sum(file.size for file in lost),
        "numOfFilesAfterRestore": then.num_files - len(lost),
        "numRemovedFiles": len(gone),
        "numRestoredFiles": len(back),
        "removedFilesSize": sum(file.size for file in gone),
        "restoredFilesSize": sum(file.size for file in back),
    }
    if not actions and protocol is now.protocol and metadata == now.metadata:
        return CommandResult("RESTORE", None, "log", metrics)
    is_version = isinstance(moment, int)
    parameters = {"version": moment if is_version else None,
                  "timestamp": None if is_version else str(moment)}
    version = txn.commit_large(actions, Operation(
        "RESTORE", parameters, metrics=metrics, user_metadata=user_metadata))
    return CommandResult("RESTORE", version, "log", metrics)


def _snapshot_of(log: DeltaLog, moment: int | str | dt.datetime) -> Snapshot:
    if isinstance(moment, bool) or not isinstance(moment, int | str | dt.datetime):
        raise InvalidArgument(
            f"restore takes a version, an ISO 8601 string or a datetime, found {moment!r}")
    return log.snapshot_at(moment) if isinstance(moment, int) else log.snapshot_as_of(moment)


def _without(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files that are not among the others, by path and deletion vector."""
    keys = [key_array(table["path"], table["deletion_vector"]) for table in (files, others)]
    known = keys[1].combine_chunks() if isinstance(keys[1], pa.ChunkedArray) else keys[1]
    return files.select(FILES_SCHEMA.names).filter(pc.invert(pc.is_in(keys[0], value_set=known)))


# --- files that are gone --------------------------------------------------------------------------

def _missing(store: LogStore, file: AddFile) -> Iterable[str]:
    """The paths that the file needs and the store does not have."""
    paths = [(file.path, True)]
    vector = file.deletion_vector
    named = vector and vector_path(vector.storage_type, vector.path_or_inline_dv)
    if named:
        paths.append(named)
    for path, is_encoded in paths:
        target, name = place_of(store, path, is_encoded=is_encoded).opened()
        if target.status(name) is None:
            yield decode_path(path) if is_encoded else path


def _vacuumed(table: str, then: Snapshot, num_missing: int, paths: list[str]) -> DataFileNotFound:
    """The error for missing files; the message counts them, ``files`` has their names."""
    total = count(then.num_files, "data file")
    share = "all" if num_missing == then.num_files else number(num_missing)
    return DataFileNotFound(
        f"table {table} cannot be restored to version {then.version}: {share} of its {total} "
        f"{'is' if num_missing == 1 else 'are'} gone, vacuumed or deleted by hand. Restore a version that "
        "has its files (table.versions() lists those), or pass ignore_missing_files=True to go without their "
        "rows",
        path=paths[0], files=tuple(paths), version=then.version)


# --- what the table is ----------------------------------------------------------------------------

def _metadata(now: Metadata, then: Metadata) -> Metadata:
    """The old metadata, except what belongs to the table's whole history."""
    configuration = {key: text for key, text in then.configuration.items()
                     if key not in _KEPT_PROPERTIES}
    configuration |= {key: now.configuration[key] for key in _KEPT_PROPERTIES
                      if key in now.configuration}
    highest = column_mapping.MAX_ID_KEY
    if highest in configuration and highest in now.configuration:  # ids are never given twice
        ids = [properties.get(metadata.configuration, highest) for metadata in (now, then)]
        configuration[highest] = str(max(ids))
    return preserve_marks(
        then.replace(id=now.id, configuration=configuration, created_time=now.created_time), now)


def _domains(now: Snapshot, then: Snapshot) -> list[Action]:
    """The old metadata domains, except the row id high-water mark, which stays."""
    before, after = now.domain_metadata, then.domain_metadata
    actions: list[Action] = []
    for name in sorted({*before, *after} - {"delta.rowTracking"}):
        old, new = before.get(name), after.get(name)
        if new is None and old is not None:
            actions.append(DomainMetadata(name, old.configuration, removed=True))
        elif new is not None and (old is None or old.configuration != new.configuration):
            actions.append(new)
    return actions
