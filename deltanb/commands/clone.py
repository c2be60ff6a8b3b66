"""CLONE, shallow: a table of its own whose rows lie, for now, in the files of another.

What lives here: :func:`clone`: the source's files under absolute paths, its schema and properties, and
the operation's record.
What it does not know: rows; no data file is read or copied.

The clone and its source part from there: what is written to one is not in the other. A vacuum of the
source deletes files that the source no longer needs, whether a clone does or not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltanb.actions import Action, AddFile, DeletionVector, DomainMetadata, decode_path, encode_path
from deltanb.data.deletion_vectors import relative_path
from deltanb.errors import InvalidArgument, TableAlreadyExists
from deltanb.log.delta_log import DeltaLog
from deltanb.log.protocol import check_writable, merged
from deltanb.log.store import LogStore
from deltanb.options import options
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.table import DeltaTable
    from deltanb.transaction.transaction import OptimisticTransaction

MODES = ("error", "overwrite")
_OF_THE_SOURCES_LOG = ("delta.inCommitTimestampEnablementVersion",
                       "delta.inCommitTimestampEnablementTimestamp",
                       "delta.requireCheckpointProtectionBeforeVersion")
"""Properties about versions of the source, which the clone does not have."""


def clone(
    snapshot: Snapshot,
    path: str | os.PathLike[str] | LogStore,
    *,
    mode: str = "error",
    user_metadata: str | None = None,
) -> DeltaTable:
    """A new table with the rows, schema and properties of a version of another; nothing is copied.

    Args:
        snapshot: the version to clone.
        path: where the clone goes.
        mode: where a table is already, ``"error"`` raises, ``"overwrite"`` replaces what it is and keeps
            its history.
        user_metadata: a text kept in the commit.

    Raises:
        TableAlreadyExists: there is a table.
        InvalidArgument: the source itself, or an unknown mode.
        ConcurrentWriteException: another commit was first; nothing was written.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> copy = clone(table.snapshot, "more ducks")
    >>> _ = copy.append({"name": ["Scrooge"]})
    >>> copy.to_arrow().num_rows, table.to_arrow().num_rows
    (2, 1)
    """
    from deltanb.table import DeltaTable

    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r} is none of {', '.join(MODES)}")
    snapshot.check_readable()
    log = DeltaLog.for_table(path)
    if log.path == snapshot.log.path:
        raise InvalidArgument(
            f"a table cannot be cloned onto itself ({log.path}); give another path, or restore the "
            "version: table.restore(version)")
    txn: OptimisticTransaction = log.start_transaction()
    exists = txn.read_version >= 0
    if exists and mode == "error":
        raise TableAlreadyExists(
            f"there is a table at {log.path} already (version {txn.read_version}); clone to another "
            'path, or say mode="overwrite"', path=log.path)
    if exists:
        check_writable(txn.protocol, txn.metadata, txn.table, writes_data=False)
    txn.update_protocol(merged(txn.protocol, snapshot.protocol) if exists else snapshot.protocol)
    source = snapshot.metadata
    txn.update_metadata(source.replace(
        id=txn.snapshot.metadata.id if exists else options.new_id(),
        created_time=options.clock(),
        configuration={key: text for key, text in source.configuration.items()
                       if key not in _OF_THE_SOURCES_LOG}))
    removed = list(txn.filter_files()) if exists else []
    added = [_elsewhere(file, snapshot.log.store) for file in FileScan(snapshot.files)]
    actions: list[Action] = [*(file.remove() for file in removed), *added]
    actions += _domains(txn, snapshot)
    metrics = {
        "sourceTableSize": snapshot.size_in_bytes,
        "sourceNumOfFiles": snapshot.num_files,
        "numRemovedFiles": len(removed),
        "numCopiedFiles": 0,
        "removedFilesSize": sum(file.size for file in removed),
        "copiedFilesSize": 0,
    }
    parameters = {"source": snapshot.log.path, "sourceVersion": snapshot.version}
    txn.commit_large(actions, Operation(
        "CLONE", parameters, metrics=metrics, user_metadata=user_metadata))
    return DeltaTable(log)


def _elsewhere(file: AddFile, store: LogStore) -> AddFile:
    """The file, and its deletion vector, as another table has to name them."""
    vector = file.deletion_vector
    if vector is not None and vector.storage_type == "u":
        vector = DeletionVector(
            "p", _absolute(relative_path(vector.path_or_inline_dv), store), vector.size_in_bytes,
            vector.cardinality, vector.offset)
    return file.replace(path=_absolute(decode_path(file.path), store), deletion_vector=vector,
                        data_change=True)


def _absolute(path: str, store: LogStore) -> str:
    """A decoded path as an encoded URI (PROTOCOL.md, "Add File": absolute paths are URIs)."""
    target, name = store.resolve(path)
    local = target.local_path(name)
    if local is not None:  # one slash, as Java writes it: Delta Spark compares it with its own paths
        return "file:" + encode_path(local)
    return encode_path(f"{target.root.rstrip('/')}/{name}")


def _domains(txn: OptimisticTransaction, source: Snapshot) -> list[Action]:
    """The source's metadata domains, in place of those that are there."""
    theirs = source.domain_metadata
    ours = txn.snapshot.domain_metadata if txn.read_version >= 0 else {}
    ended = [DomainMetadata(name, found.configuration, removed=True)
             for name, found in ours.items() if name not in theirs]
    return [*ended, *theirs.values()]
