"""Shallow CLONE: a new table whose rows are, at first, in the files of another.

What lives here: :func:`clone`: the source's files under absolute paths, its schema and properties, and
the operation's record.
What it does not know: rows; no data file is read or copied.

A log stores no secrets: if the source's root has credentials in it, the files are named without them, and
readers of the clone bring their own. A file that needs a signature in its path cannot be cloned.

The clone and its source are independent from then on. Rows have the ids of the source, unless the clone
replaces a table that has row ids. A vacuum of the source deletes files that the source no longer needs, even
if a clone does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltanb.actions import Action, AddFile, DomainMetadata, Metadata, encode_path
from deltanb.commands.define.place import check_place
from deltanb.engines.arrow.deletion_vectors import vector_path
from deltanb.errors import InvalidArgument, TableAlreadyExists
from deltanb.options import options
from deltanb.schema.protocol import (
    CATALOG_MANAGED,
    CATALOG_TABLE_ID,
    GROUPS,
    check_writable,
    downgraded,
    merged,
    supports,
)
from deltanb.store.base import LogStore
from deltanb.store.open import beside
from deltanb.store.paths import is_same_table, place_of
from deltanb.text.safe_text import redacted, without_credentials
from deltanb.transaction import active
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.ids import new_table_id
from deltanb.transaction.new_table import MATERIALIZED_NAMES, with_materialized_names
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import FileScan
from deltanb.transaction.rebase import ROW_TRACKING_DOMAIN

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.transaction import OptimisticTransaction

MODES = ("error", "overwrite")
OF_THE_SOURCES_LOG = ("delta.inCommitTimestampEnablementVersion",
                      "delta.inCommitTimestampEnablementTimestamp",
                      "delta.requireCheckpointProtectionBeforeVersion", CATALOG_TABLE_ID)
"""Properties about versions of the source, which the clone does not have."""


@active.command
def clone(
    snapshot: Snapshot,
    path: str | os.PathLike[str] | LogStore,
    *,
    mode: str = "error",
    user_metadata: str | None = None,
    allow_files: bool = False,
) -> DeltaLog:
    """The log of a new table with the rows, schema and properties of another table's version; nothing is
    copied.

    Args:
        snapshot: the version to clone.
        path: the clone's place; within the source's bucket it is accessed like the source.
        mode: if a table exists, ``"error"`` raises, ``"overwrite"`` replaces it and keeps its history.
        user_metadata: text to record in the commit.
        allow_files: as in :func:`deltanb.create`.

    Raises:
        TableAlreadyExists: a table exists there.
        InvalidArgument: the source itself, a folder with other files, an unknown mode, or files that the
            source names by signed URLs.
        ConcurrentWriteException: another commit was first; nothing was written.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> copy = dn.DeltaTable(clone(table.snapshot, "more ducks"))
    >>> _ = copy.append({"name": ["Scrooge"]})
    >>> copy.to_arrow().num_rows, table.to_arrow().num_rows
    (2, 1)
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r} is not one of {', '.join(MODES)}")
    snapshot.check_readable()
    log = DeltaLog.for_table(beside(snapshot.log.store, path))
    if is_same_table(log.store, snapshot.log.store):
        raise InvalidArgument(
            f"a table cannot be cloned onto itself ({log.path}); give another path, or restore the "
            "version: table.restore(version)")
    txn: OptimisticTransaction = active.begin(log)
    exists = txn.read_version >= 0
    if exists and mode == "error":
        raise TableAlreadyExists(
            f"there is a table at {log.path} already (version {txn.read_version}); clone to another "
            'path, or pass mode="overwrite"', path=log.path)
    if not (exists or allow_files):
        check_place(log.store, snapshot.metadata.partition_columns)
    if exists:
        check_writable(txn.protocol, txn.metadata, txn.table, writes_data=False)
    protocol = snapshot.protocol
    for feature in (GROUPS, CATALOG_MANAGED):  # the clone lies in a folder, and no catalog knows of it
        if supports(protocol, feature):
            protocol = downgraded(protocol, feature)
    txn.update_protocol(merged(txn.protocol, protocol) if exists else protocol)
    source = snapshot.metadata
    configuration = {key: text for key, text in source.configuration.items()
                     if key not in OF_THE_SOURCES_LOG}
    added = [_elsewhere(file, snapshot.log.store) for file in FileScan(snapshot.files)]
    keeps_ids = not (exists and supports(txn.snapshot.protocol, "rowTracking"))
    if not keeps_ids:  # the table has given the same ids to rows of its own
        configuration.update(_own_names(txn.snapshot.metadata))
        added = [file.replace(base_row_id=None, default_row_commit_version=None) for file in added]
    txn.update_metadata(source.replace(
        id=txn.snapshot.metadata.id if exists else new_table_id(),
        created_time=options.clock(), configuration=configuration), ignore_default_properties=True)
    stays = {(file.path, file.deletion_vector) for file in added}  # as where a clone is made anew
    removed = [file for file in txn.filter_files() if (file.path, file.deletion_vector) not in stays
               ] if exists else []
    actions: list[Action] = [*(file.remove() for file in removed), *added]
    actions += _domains(txn, snapshot, frozenset() if keeps_ids else frozenset({ROW_TRACKING_DOMAIN}))
    metrics = {
        "sourceTableSize": snapshot.size_in_bytes,
        "sourceNumOfFiles": snapshot.num_files,
        "numRemovedFiles": len(removed),
        "numCopiedFiles": 0,
        "removedFilesSize": sum(file.size for file in removed),
        "copiedFilesSize": 0,
    }
    parameters = {"source": redacted(snapshot.log.path), "sourceVersion": snapshot.version}
    txn.commit_large(actions, Operation(
        "CLONE", parameters, metrics=metrics, user_metadata=user_metadata))
    return log


def _elsewhere(file: AddFile, store: LogStore) -> AddFile:
    """The file, and its deletion vector, with paths for another table."""
    vector = file.deletion_vector
    named = vector and vector_path(vector.storage_type, vector.path_or_inline_dv)
    if vector is not None and named:
        path, is_encoded = named
        vector = vector.replace(
            storage_type="p", path_or_inline_dv=_absolute(path, store, is_encoded=is_encoded))
    return file.replace(path=_absolute(file.path, store), deletion_vector=vector, data_change=True)


def _absolute(path: str, store: LogStore, *, is_encoded: bool = True) -> str:
    """A path of the source as an encoded URI (PROTOCOL.md, "Add File": absolute paths are URIs)."""
    place = place_of(store, path, is_encoded=is_encoded)
    local = place.address if place.name is None else store.local_path(place.name)
    if local is not None and local.startswith("/"):
        return "file:" + encode_path(local)  # one slash, as Java writes it, which Delta Spark compares
    if place.name is not None:
        return encode_path(f"{without_credentials(store.root).rstrip('/')}/{place.name}")
    plain = without_credentials(place.address)
    if "?" in place.address.removeprefix(plain) and "?" not in plain:
        raise InvalidArgument(
            f"{store.root} names the file {place.address!r} by a signed URL; the clone's log would keep the "
            "signature for everybody to read. Copy the rows instead: deltanb.create(path, table.to_arrow())",
            path=store.root, file=path)
    return encode_path(plain)


def _own_names(metadata: Metadata) -> dict[str, str]:
    """The metadata with the table's own row id columns: those in the source's files do not apply here."""
    configuration = with_materialized_names(metadata).configuration
    return {key: configuration[key] for key in MATERIALIZED_NAMES}


def _domains(txn: OptimisticTransaction, source: Snapshot, retained: frozenset[str]) -> list[Action]:
    """The source's metadata domains, replacing existing ones that are not ``retained``."""
    theirs = source.domain_metadata
    ours = txn.snapshot.domain_metadata if txn.read_version >= 0 else {}
    ended = [DomainMetadata(name, domain.configuration, removed=True)
             for name, domain in ours.items() if name not in theirs]
    return [domain for domain in [*ended, *theirs.values()] if domain.domain not in retained]
