"""Preparing a commit: the checks of a transaction in itself, and the final actions.

What lives here: ``prepareCommit`` of the seed. It takes the actions as given and returns the prepared
transaction, or refuses it; nothing has been written when it returns.
What it does not know: other transactions, the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from deltanb.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    TransactionGroup,
)
from deltanb.errors import (
    AppendOnlyTable,
    DeletionVectorMissingNumRecords,
    DeletionVectorsDisabled,
    DeletionVectorWithTightBounds,
    DuplicateActions,
    InvalidAction,
    InvalidTransaction,
    MetadataAbsent,
    PartitionMismatch,
    UnsupportedProtocol,
)
from deltanb.schema import properties
from deltanb.schema import protocol as features
from deltanb.transaction import rebase
from deltanb.transaction.current import (
    SERIALIZABLE,
    SNAPSHOT_ISOLATION,
    WRITE_SERIALIZABLE,
    CurrentTransaction,
)
from deltanb.transaction.metadata_check import (
    verify_feed_columns,
    verify_new_metadata,
)
from deltanb.transaction.operations import (
    BACKFILL,
    DROP_FEATURE,
    MANUAL_UPDATE,
    RECOMMITS_FILES,
    REPLACE_TABLE,
    TRANSACTION,
    UNBACKFILL,
    Operation,
)
from deltanb.transaction.reads import Reads

_A = TypeVar("_A", bound=Action)
_F = TypeVar("_F", AddFile, RemoveFile)

REPARTITIONING = frozenset({"RENAME COLUMN", "RESTORE", "CLONE", "WRITE", "STREAMING UPDATE",
                            "Manual Update", TRANSACTION})
"""Operations that may change the partition columns besides those that replace the table."""

TWO_METADATA = "Cannot change the metadata more than once in a transaction."
TWO_PROTOCOLS = (
    "Cannot change the protocol more than once in a transaction. More than one protocol change in a "
    "transaction is likely due to an explicitly specified Protocol action and an implicit protocol "
    "upgrade triggered by a table property."
)


def prepare(
    *,
    table: str,
    txn_id: str,
    read_version: int,
    read_metadata: Metadata | None,
    read_protocol: Protocol | None,
    read_row_id_mark: int,
    previous_timestamp: int | None,
    new_metadata: Metadata | None,
    new_protocol: Protocol | None,
    actions: Iterable[Action],
    reads: Reads,
    operation: Operation,
    now: int,
    commit_info: CommitInfo,
    checked: bool = True,
    records_commit_info: bool = True,
    is_managed: bool = False,
    gives_row_ids: bool = True,
) -> CurrentTransaction:
    """The transaction ready to commit.

    Args:
        table: name for messages.
        read_metadata, read_protocol: of the version read; None where there is no table yet.
        read_row_id_mark: the row id high-water mark read, -1 without one.
        previous_timestamp: in-commit timestamp of the version read, in ms, if it has one.
        new_metadata, new_protocol: changes registered with the transaction, beside ``actions``;
            the metadata was verified then.
        now: commit time, epoch ms.
        commit_info: who and what, completed here.
        checked: whether winners are checked. A commit without checks replaces the table's state as a
            whole, so it is serializable and no blind append, whatever its actions are.
        records_commit_info: whether the commit says where it came from.
        is_managed: whether the commit goes to a catalog, which alone may manage a table.
        gives_row_ids: whether files without row ids get theirs with this commit.

    Raises:
        InvalidTransaction and its children: what no transaction may hold.
        UnsupportedProtocol: the table, as it would be, is not one this library writes.
        InvalidSchema: the new metadata is not one a table may have.
    """
    listed = dedup_transactions(_only_actions(actions), table)
    metadata = _one(Metadata, new_metadata, listed, TWO_METADATA)
    protocol = _one(Protocol, new_protocol, listed, TWO_PROTOCOLS)
    others = [a for a in listed if not isinstance(a, Metadata | Protocol | CommitInfo | TransactionGroup)]
    if metadata is None and read_metadata is None:
        raise MetadataAbsent(
            f"table {table}: couldn't find Metadata while committing the first version of the Delta "
            "table. Create it with dn.create(...), or put a Metadata action into the first commit")
    effective = metadata if metadata is not None else read_metadata
    assert effective is not None
    metadata, protocol = _required_protocol(
        table, metadata, protocol, effective, read_protocol, read_version)
    final_protocol = protocol or read_protocol
    assert final_protocol is not None
    if features.supports(final_protocol, "columnMappingUsageTracking"):
        from deltanb.schema.column_mapping import with_usage  # late: most tables do without

        tracked = with_usage(metadata or effective, final_protocol, read_metadata, read_protocol)
        metadata = tracked if tracked is not effective else metadata
    if metadata is not None:
        if metadata is not new_metadata:
            verify_new_metadata(metadata, table, read_metadata)
        _verify_partitioning(metadata, read_metadata, operation, table)
        if read_metadata is not None and any(isinstance(a, FileAction) for a in others):
            verify_feed_columns(metadata, read_metadata, table)
        effective = metadata
    _no_downgrade(read_protocol, protocol, operation, table)
    if features.GROUPS in (final_protocol.writer_features or ()):
        features.check_groups(final_protocol, table, is_managed)
    if not is_managed:
        features.check_by_path(final_protocol, table, read_protocol)
    elif metadata is not None and features.supports(final_protocol, features.CATALOG_MANAGED):
        features.check_managed(metadata, read_metadata, table)
    features.check_writable(
        final_protocol, effective, table,
        writes_data=any(isinstance(a, AddFile) and a.data_change for a in others))
    _check_files(others, effective, read_metadata or effective, final_protocol, operation, table)
    _check_domains(others, final_protocol, table)
    final: list[Action] = [a for a in (metadata, protocol) if a is not None] + others
    isolation = isolation_of(final, effective, operation) if checked else SERIALIZABLE
    if not rebase.row_ids_suspended(effective):
        final = _track_rows(
            final, final_protocol, read_row_id_mark, read_version + 1, operation, table, gives_row_ids)
    blind = checked and is_blind_append(final, reads)
    info = commit_info.replace(
        timestamp=now, isolation_level=isolation, is_blind_append=blind,
        read_version=read_version if read_version >= 0 else None, txn_id=txn_id,
    )
    current = CurrentTransaction(
        txn_id=txn_id, table=table, read_version=read_version,
        read_metadata=read_metadata or effective, read_protocol=read_protocol or final_protocol,
        metadata=effective, protocol=final_protocol, actions=tuple(final), reads=reads,
        operation=operation, isolation=isolation, is_blind_append=blind, commit_info=info,
        row_id_high_water_mark=read_row_id_mark, records_commit_info=records_commit_info,
    )
    return _stamped(current, read_metadata, previous_timestamp, now)


def _only_actions(actions: Iterable[Action]) -> list[Action]:
    if not isinstance(actions, Iterable):
        raise InvalidAction(f"a commit takes a list of actions, found {type(actions).__name__}")
    listed = list(actions)
    for action in listed:
        if not isinstance(action, Action):
            raise InvalidAction(f"a commit takes actions, found {type(action).__name__}: {action!r:.60}")
    return listed


def dedup_transactions(actions: Sequence[Action], table: str) -> list[Action]:
    """Leave out repeated SetTransactions.

    Raises:
        InvalidTransaction: one application id with two versions.
    """
    seen: dict[str, int] = {}
    unique = []
    for action in actions:
        if isinstance(action, SetTransaction):
            version = seen.get(action.app_id)
            if version is not None and version != action.version:
                raise InvalidTransaction(
                    f"table {table}: two SetTransaction actions within the same transaction have the "
                    f"same application id {action.app_id} but different versions {version} and "
                    f"{action.version}", app_id=action.app_id,
                )
            if version is not None:
                continue
            seen[action.app_id] = action.version
        unique.append(action)
    return unique


def _one(kind: type[_A], registered: _A | None, listed: Sequence[Action], message: str) -> _A | None:
    changes = [c for c in [registered, *listed] if isinstance(c, kind)]
    if len(changes) > 1:
        raise InvalidTransaction(message)
    return changes[0] if changes else None


def _required_protocol(
    table: str, metadata: Metadata | None, protocol: Protocol | None, effective: Metadata,
    read_protocol: Protocol | None, read_version: int,
) -> tuple[Metadata | None, Protocol | None]:
    """The protocol with what the metadata asks for; properties that only steer it are taken out."""
    base = protocol or read_protocol or Protocol(1, 2)
    if metadata is None:
        needed = base
    else:
        needed = features.upgraded(base, metadata)
        configuration = features.without_protocol_properties(metadata.configuration)
        if configuration != metadata.configuration:
            metadata = metadata.replace(configuration=configuration)
    if needed is not base or read_version < 0:
        return metadata, needed
    return metadata, protocol


def _no_downgrade(
    old: Protocol | None, new: Protocol | None, operation: Operation, table: str,
) -> None:
    if new is None:
        return
    if new.min_reader_version < 1 or new.min_writer_version < 1:
        raise InvalidTransaction(f"table {table}: protocol versions begin with 1, found {new.to_json()}")
    if old is None or operation.name == DROP_FEATURE or operation.name in REPLACE_TABLE:
        return
    lost = features.dropped_features(old, new)
    lower = (new.min_reader_version < old.min_reader_version
             or new.min_writer_version < old.min_writer_version)
    if lost or lower:
        what = f"without {', '.join(lost)}" if lost else "with lower versions"
        raise InvalidTransaction(
            f"table {table}: protocol cannot be downgraded from {old.to_json()} to {new.to_json()} "
            f"({what}). Drop a feature by its own operation ({DROP_FEATURE})", features=tuple(lost))


def _verify_partitioning(
    new: Metadata, old: Metadata | None, operation: Operation, table: str
) -> None:
    if old is None or new.partition_columns == old.partition_columns:
        return
    if operation.name in REPLACE_TABLE or operation.name in REPARTITIONING:
        return
    raise InvalidTransaction(
        f"table {table}: {operation.name} cannot change the partition columns from "
        f"{list(old.partition_columns)} to {list(new.partition_columns)}; overwrite the table with "
        "overwrite_schema=True")


# ---------------------------------------------------------------------------- files


def _check_files(
    actions: Sequence[Action], metadata: Metadata, read_metadata: Metadata, protocol: Protocol,
    operation: Operation, table: str,
) -> None:
    physical = physical_partition_columns(metadata)
    append_only = features.is_active(protocol, read_metadata, "appendOnly")  # as commands/begin.py, earlier
    adds: dict[str, AddFile] = {}
    removes: dict[str, RemoveFile] = {}
    for action in actions:
        if isinstance(action, AddFile):
            if set(action.partition_values) != physical:
                raise PartitionMismatch(
                    f"table {table}: file {action.path} has partition values for "
                    f"{sorted(action.partition_values)}, the table is partitioned by "
                    f"{sorted(physical)}", path=action.path,
                )
            if action.deletion_vector is not None:
                _check_vector(action, metadata, protocol, operation, table)
            _unique(action, adds, table)
        elif isinstance(action, RemoveFile):
            if append_only and action.data_change:
                raise AppendOnlyTable(
                    f"table {table}: this table is configured to only allow appends. If you would "
                    "like to permit updates or deletes, set delta.appendOnly=false "
                    f"(file {action.path})", path=action.path,
                )
            _unique(action, removes, table)
    for path in adds.keys() & removes.keys():
        if adds[path].file_key == removes[path].file_key:
            raise _duplicate("add/remove", path, table)


def _unique(action: _F, seen: dict[str, _F], table: str) -> None:
    if action.path in seen:
        raise _duplicate(action.key, action.path, table)
    seen[action.path] = action


def _duplicate(kind: str, path: str, table: str) -> DuplicateActions:
    return DuplicateActions(
        f"table {table}: file operation '{kind}' for path {path} was specified several times. A "
        "commit names each file once", path=path,
    )


def physical_partition_columns(metadata: Metadata) -> set[str]:
    """The names under which ``partitionValues`` holds the partition columns."""
    if not metadata.partition_columns:
        return set()
    if properties.get(metadata.configuration, "delta.columnMapping.mode") == "none":
        return set(metadata.partition_columns)
    schema = metadata.schema
    return {schema.field(c).physical_name for c in metadata.partition_columns}


def _check_vector(
    add: AddFile, metadata: Metadata, protocol: Protocol, operation: Operation, table: str
) -> None:
    """What a file with a deletion vector must fulfil (PROTOCOL.md, "Deletion Vectors" and statistics).

    Operations that commit files again as they are may meet vectors from a time when they were enabled,
    and bounds that were made tight since. As in Delta Spark, the caller is responsible for the
    bounds of a manual update.
    """
    if not features.supports(protocol, "deletionVectors"):
        raise UnsupportedProtocol(
            f"table {table}: file {add.path} has a deletion vector, the table's protocol does not "
            "have them. Set delta.enableDeletionVectors=true first",
            features=("deletionVectors",), path=add.path,
        )
    if add.num_records is None:
        raise DeletionVectorMissingNumRecords(
            f"table {table}: file {add.path} has a deletion vector but no numRecords in its "
            "statistics, which the protocol requires", path=add.path,
        )
    if operation.name in RECOMMITS_FILES:
        return
    if add.has_tight_bounds and operation.name != MANUAL_UPDATE.name:
        raise DeletionVectorWithTightBounds(
            f"table {table}: file {add.path} has a deletion vector, and its statistics claim tight bounds: "
            "a deleted row may hold the smallest or largest value. Say \"tightBounds\": false in its "
            "statistics (without the key they count as tight)", path=add.path,
        )
    if not properties.get(metadata.configuration, "delta.enableDeletionVectors"):
        raise DeletionVectorsDisabled(
            f"table {table}: {operation.name} adds file {add.path} with a deletion vector, and new ones "
            "may only be written while delta.enableDeletionVectors is true. Set it first, or write the "
            "file's remaining rows into a new file", path=add.path,
        )


def _check_domains(actions: Sequence[Action], protocol: Protocol, table: str) -> None:
    seen: set[str] = set()
    for action in actions:
        if not isinstance(action, DomainMetadata):
            continue
        if not features.supports(protocol, "domainMetadata"):
            raise UnsupportedProtocol(
                f"table {table}: metadata domain {action.domain} needs the table feature "
                "domainMetadata", features=("domainMetadata",),
            )
        if action.domain in seen:
            raise InvalidTransaction(
                f"table {table}: metadata domain {action.domain} is set twice in one transaction")
        seen.add(action.domain)


# ---------------------------------------------------------------------------- what kind of commit


def isolation_of(actions: Sequence[Action], metadata: Metadata, operation: Operation) -> str:
    """The isolation level of this commit.

    The table's level, but snapshot isolation where nothing but files change and no data with them.
    """
    level = properties.get(metadata.configuration, "delta.isolationLevel")
    only_layout = all(
        (isinstance(a, FileAction) and not a.data_change)
        or (isinstance(a, DomainMetadata) and a.domain == rebase.ROW_TRACKING_DOMAIN)
        for a in actions
    )
    if only_layout and (level == SERIALIZABLE
                        or (level == WRITE_SERIALIZABLE and not operation.changes_data)):
        return SNAPSHOT_ISOLATION
    return str(level)


def is_blind_append(actions: Sequence[Action], reads: Reads) -> bool:
    """Only additions, and nothing read of any table: no winner's addition can contradict it."""
    only_adds = all(isinstance(a, AddFile) for a in actions if isinstance(a, FileAction))
    return only_adds and not (reads.depends_on_files or reads.elsewhere)


def _track_rows(
    actions: list[Action], protocol: Protocol, mark: int, version: int, operation: Operation,
    table: str, gives_row_ids: bool,
) -> list[Action]:
    """Row ids and commit versions for new files (PROTOCOL.md, "Row Tracking")."""
    if not features.supports(protocol, "rowTracking"):
        return actions
    own = rebase.high_water_mark(actions)
    if own is not None and operation.name not in (BACKFILL, "CLONE", "Manual Update"):
        raise InvalidTransaction(
            f"table {table}: manually setting the Row ID high water mark is not allowed")
    if own is not None:
        mark = max(mark, own)
    if operation.name == UNBACKFILL or not gives_row_ids:
        return actions
    assigned, new_mark = rebase.assign_row_ids(actions, mark, table)
    assigned = [a.replace(default_row_commit_version=version)
                if isinstance(a, AddFile) and a.default_row_commit_version is None else a
                for a in assigned]
    if new_mark != mark:
        assigned = [a for a in assigned if not (
            isinstance(a, DomainMetadata) and a.domain == rebase.ROW_TRACKING_DOMAIN)]
        assigned.append(rebase.high_water_mark_domain(new_mark))
    return assigned


def _stamped(
    current: CurrentTransaction, read_metadata: Metadata | None, previous: int | None, now: int
) -> CurrentTransaction:
    """The in-commit timestamp, later than the one read (PROTOCOL.md, "In-Commit Timestamps")."""
    if not rebase.in_commit_timestamps(current.metadata):
        return current
    stamp = max(now, (previous if previous is not None else 0) + 1)
    current = current.replace(commit_info=current.commit_info.replace(in_commit_timestamp=stamp))
    began_before = read_metadata is None or rebase.in_commit_timestamps(read_metadata)
    if began_before or not current.metadata_changed:
        return current
    actions = [rebase.stamp_enablement(a, current.read_version + 1, stamp)
               if isinstance(a, Metadata) else a for a in current.actions]
    return current.replace(
        actions=actions, metadata=next(a for a in actions if isinstance(a, Metadata)))


def describe(operation: Operation, engine: str, user_name: str | None,
             user_metadata: str | None, metrics: bool) -> CommitInfo:
    """The part of commitInfo that is known before the commit is prepared."""
    chosen = operation.user_metadata if operation.user_metadata is not None else user_metadata
    return CommitInfo(
        operation=operation.name,
        operation_parameters=operation.encoded_parameters(),
        operation_metrics=operation.encoded_metrics() if metrics and operation.metrics else None,
        user_metadata=chosen, user_name=user_name, engine_info=engine,
        tags=dict(operation.tags) or None,
    )

