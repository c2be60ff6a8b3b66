"""DROP FEATURE: remove a table feature from the protocol, so that more clients can open the table.

What lives here: the traces of each droppable feature and how to remove them, and Delta's two ways to protect
readers from older versions that still use it: protected checkpoints (``checkpointProtection``), or truncated
history (``truncate_history``).
What it does not know: rewriting data. The user has to rewrite files with deletion vectors, mapped names or
narrower types first; the refusal says how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from deltanb.actions import (
    Action,
    AddCDCFile,
    AddFile,
    DomainMetadata,
    Metadata,
    RemoveFile,
)
from deltanb.commands.begin import begin
from deltanb.commands.define.alter import CHECK_PREFIX, commit_metadata
from deltanb.commands.define.alter_features import feature_name
from deltanb.commands.define.alter_properties import set_properties, unset_properties
from deltanb.commands.define.row_tracking import has_ids, unbackfill
from deltanb.commands.result import CommandResult
from deltanb.engines.arrow.conform import Place, compile_conversion, find_field
from deltanb.errors import FeatureDropConflict, IllegalStateError, InvalidArgument
from deltanb.log import cleanup
from deltanb.log.checkpoint.names import complete_checkpoints
from deltanb.log.commits import LOG_FOLDER
from deltanb.log.maintenance import CLEAN_LOG, check_maintenance
from deltanb.options import options
from deltanb.schema import column_mapping, properties
from deltanb.schema.ddl import field_for_log
from deltanb.schema.paths import field_at, replaced, walk
from deltanb.schema.protocol import FEATURE_PREFIX, GROUPS, downgraded, supports, upgraded
from deltanb.schema.widening import TYPE_CHANGES, has_changes
from deltanb.store.paths import place_of
from deltanb.transaction import active
from deltanb.transaction.new_table import MATERIALIZED_NAMES
from deltanb.transaction.operations import DROP_FEATURE, Operation

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

BARRIER_CHECKPOINTS = 3
"""Delta's readers try two older checkpoints where one cannot be read; past three they give up."""

PROTECTION = "checkpointProtection"
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
TRUNCATED_TO = "delta.dropFeatureTruncateHistory.retentionDuration"
_ICT = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp")
_DVS = "delta.enableDeletionVectors"
_WIDENING = "delta.enableTypeWidening"
_ROW_TRACKING = ("delta.enableRowTracking", "delta.rowTrackingSuspended")


@active.command
def drop_feature(log: DeltaLog, name: str, truncate_history: bool = False) -> CommandResult:
    """Remove a table feature from the protocol, after removing its traces from the newest version.

    Properties that enable it are unset first, in their own commits. If readers need the feature, older
    versions still do: three checkpoints are written and the table gets the feature ``checkpointProtection``,
    which keeps them; or, with ``truncate_history``, the log is truncated to 24 hours
    (``delta.dropFeatureTruncateHistory.retentionDuration``), and the command has to be run again after that
    time.

    Args:
        name: the feature's name.
        truncate_history: discard older versions instead of protecting them.

    Returns:
        The version without the feature.

    Raises:
        InvalidArgument: the table does not have the feature, or another one requires it; it cannot be
        dropped;
            rows, columns or constraints still use it (the message says how to remove them; nothing was
            changed).
        IllegalStateError: with ``truncate_history``, older versions still use it; says when to try again.
        FeatureDropConflict: another writer used it meanwhile.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]},
    ...     properties={"delta.feature.domainMetadata": "supported"})
    >>> table.drop_feature("domainMetadata")
    <CommandResult DROP FEATURE, ✓ committed v1, log only>
    >>> table.protocol.writer_features is None
    True
    """
    txn = begin(log)
    feature, removable = _removable(name, txn.snapshot, txn.table)
    protects = removable.uses is not None
    if truncate_history and not protects and feature != PROTECTION:
        raise InvalidArgument(
            f"table {txn.table}: {feature} leaves nothing in history that readers must know; drop it without "
            "truncate_history", feature=feature)
    if feature == PROTECTION and not truncate_history:
        raise InvalidArgument(
            f"table {txn.table}: {feature} protects older versions and is dropped only with them: "
            f'drop_feature("{feature}", truncate_history=True)', feature=feature)
    if protects or truncate_history:
        log.must_be_published(txn.read_version, "checkpointed")
    downgraded(txn.protocol, feature)  # refused now where another feature needs it
    removable.refuse(txn.snapshot, txn.table)
    if truncate_history:
        check_maintenance(log, CLEAN_LOG, "Truncating the history")
    cleaned = not removable.is_clean(txn.snapshot)
    if cleaned:
        removable.clean(log)
    if feature == "deletionVectors":
        _keep_vector_files(log)
    if truncate_history:
        _truncate(log, feature, removable, cleaned)
    elif protects:
        for _ in range(BARRIER_CHECKPOINTS):
            _checkpointed_commit(log)
    done = _downgrade(log, feature, removable, truncate_history)
    if protects and not truncate_history:
        log.checkpoint(done.version)
    return done


def _downgrade(
    log: DeltaLog, feature: str, removable: _Removable, truncate_history: bool
) -> CommandResult:
    txn = begin(log)
    if not removable.is_clean(txn.snapshot):
        raise FeatureDropConflict(
            f"table {txn.table}: feature {feature} cannot be dropped, another writer used it again. "
            "Drop it once more", feature=feature, version=txn.read_version)
    configuration = {key: value for key, value in txn.metadata.configuration.items()
                     if key not in removable.properties}
    protocol = txn.protocol
    if removable.uses is not None and not truncate_history:
        configuration[PROTECTED_BEFORE] = str(txn.read_version + 1)
        protocol = upgraded(protocol, txn.metadata.replace(
            configuration={f"{FEATURE_PREFIX}{PROTECTION}": "supported"}))
    txn.update_protocol(downgraded(protocol, feature))
    domains = [DomainMetadata(name, domain.configuration, removed=True)
               for name, domain in txn.snapshot.domain_metadata.items() if name in removable.domains]
    return commit_metadata(
        txn, txn.metadata.replace(configuration=configuration),
        Operation(DROP_FEATURE, {"featureName": feature, "truncateHistory": truncate_history}), domains)


def _removable(name: str, snapshot: Snapshot, table: str) -> tuple[str, _Removable]:
    spelled = properties.spelled(name)
    if spelled in properties.PROPERTIES:
        raise InvalidArgument(
            f"table {table}: {spelled} is a property, not a feature; unset_properties({spelled!r}) takes it "
            "away", feature=name)
    feature = feature_name(name)
    if not supports(snapshot.protocol, feature):
        raise InvalidArgument(f"table {table} does not have the table feature {feature}", feature=feature)
    if feature not in _REMOVABLE:
        raise InvalidArgument(
            f"table {table}: the feature {feature} cannot be dropped; those that can are "
            f"{', '.join(_REMOVABLE)}. Write the rows to a new table without it", feature=feature)
    return feature, _REMOVABLE[feature]


# --- history --------------------------------------------------------------------------------------

def _checkpointed_commit(log: DeltaLog) -> None:
    """Write an empty commit and its checkpoint."""
    log.checkpoint(begin(log).commit([], Operation("Empty Commit")))


def _truncate(log: DeltaLog, feature: str, removable: _Removable, cleaned: bool) -> None:
    """Truncate the log, and refuse while the rest of it uses the feature."""
    snapshot = log.update()
    retention = properties.get(snapshot.properties, TRUNCATED_TO)
    hours = f"{retention / 3_600_000:g} hours ({TRUNCATED_TO})"
    _checkpointed_commit(log)
    if cleaned and removable.uses is not None:
        raise IllegalStateError(
            f"the newest version of {log.path} does not use {feature} any more, older ones do: run the same "
            f"command again after {hours}; it then cuts off what is older and drops the feature",
            feature=feature)
    cleanup.clean_up(log, retention)
    if feature == PROTECTION:
        held = properties.get(snapshot.properties, PROTECTED_BEFORE)
        uses = min(log.commits.names()) < held
    else:
        uses = _history_uses(log, removable)
    if uses:
        raise IllegalStateError(
            f"older versions of {log.path} that are still in its log need {feature}: run the same command "
            f"again when they are older than {hours}", feature=feature)


def _history_uses(log: DeltaLog, removable: _Removable) -> bool:
    uses = removable.uses
    assert uses is not None
    commits = log.commits.names()
    if commits and any(uses(action) for version in commits for action in log.read_commit(version)):
        return True
    if removable is _REMOVABLE["v2Checkpoint"]:
        names = log.store.list_names(LOG_FOLDER + "/")
        return any(checkpoint.kind == "v2" for checkpoint in complete_checkpoints(names))
    return not removable.is_clean(log.snapshot_at(log.earliest_version()))


def _keep_vector_files(log: DeltaLog) -> None:
    """Commit tombstones for vector files that older versions need, so that all clients' vacuums spare
    them."""
    from deltanb.engines.arrow.deletion_vectors import encoded_path

    txn = begin(log)
    retention = properties.get(txn.metadata.configuration, "delta.deletedFileRetentionDuration")
    tombstones = txn.snapshot.tombstones
    known = set(tombstones["path"].to_pylist())
    vector_files: dict[str, None] = {}
    for row in tombstones.select(["deletion_vector", "deletion_timestamp"]).to_pylist():
        vector, time = row["deletion_vector"], row["deletion_timestamp"] or 0
        path = vector and encoded_path(vector["storage_type"], vector["path_or_inline_dv"])
        if path and path not in known and time >= options.clock() - retention:
            vector_files[path] = None
    if vector_files:
        txn.commit([RemoveFile(path, options.clock(), False) for path in vector_files],
                   Operation("Deletion Vector Tombstones"))


# --- the features ---------------------------------------------------------------------------------

def _nothing(*_: object) -> None:
    """Do nothing: there is nothing to refuse or remove."""


@dataclass(frozen=True)
class _Removable:
    """How to drop one feature.

    ``refuse`` raises for traces that only the user can remove; ``clean`` commits the removal of the others
    until ``is_clean``; ``uses`` finds traces in older commits, None if history need not be protected.
    ``properties`` and ``domains`` are removed with the feature.
    """

    is_clean: Callable[[Snapshot], bool] = lambda snapshot: True
    refuse: Callable[[Snapshot, str], None] = _nothing
    clean: Callable[[DeltaLog], object] = _nothing
    uses: Callable[[Action], bool] | None = None
    properties: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


def _is_set(snapshot: Snapshot, name: str) -> bool:
    return bool(properties.get(snapshot.properties, name))


def _refusal(table: str, feature: str, reason: str, way_out: str) -> InvalidArgument:
    return InvalidArgument(
        f"table {table}: the feature {feature} cannot be dropped yet: {reason}. {way_out}; nothing was "
        "changed", feature=feature)


def _refuse_constraints(snapshot: Snapshot, table: str) -> None:
    names = _constraints(snapshot.metadata)
    if names:
        raise _refusal(table, "checkConstraints", f"the table has the constraint {', '.join(names)}",
                       "Drop it first: drop_constraint(name)")


def _constraints(metadata: Metadata) -> list[str]:
    return sorted(key[len(CHECK_PREFIX):] for key in metadata.configuration
                  if key.lower().startswith(CHECK_PREFIX))


def _vectors(snapshot: Snapshot) -> int:
    column = snapshot.select_files(["deletion_vector"])["deletion_vector"]
    return len(column) - column.null_count


def _refuse_vectors(snapshot: Snapshot, table: str) -> None:
    count = _vectors(snapshot)
    if count:
        raise _refusal(table, "deletionVectors",
                       f"{count} file{' has' if count == 1 else 's have'} a deletion vector",
                       f'Apply them to the files first: set_properties({{"{_DVS}": False}}), then purge()')


def _uses_vectors(action: Action) -> bool:
    if isinstance(action, Metadata):
        return bool(properties.get(action.configuration, _DVS))
    return isinstance(action, AddFile | RemoveFile | AddCDCFile) and action.deletion_vector is not None


def _mapped(metadata: Metadata) -> bool:
    return properties.get(metadata.configuration, column_mapping.MODE_KEY) != "none" or any(
        key in field.metadata for _, field in walk(metadata.schema)
        for key in (column_mapping.ID_KEY, column_mapping.NAME_KEY))


def _refuse_mapping(snapshot: Snapshot, table: str) -> None:
    if _mapped(snapshot.metadata):
        raise _refusal(table, "columnMapping", "its data files are read by mapped names",
                       "Write the rows to a new table: deltanb.create(path, table.to_arrow())")


def _refuse_widened(snapshot: Snapshot, table: str) -> None:
    file = _narrower_file(snapshot, snapshot.files)
    if file is not None:
        columns = ", ".join(has_changes(snapshot.schema))
        raise _refusal(table, "typeWidening", f"the type of {columns} was widened, and the file {file} "
                       "does not hold it as it is now", "Rewrite such files first, e.g. "
                       "table.overwrite(table.to_arrow())")


def _narrower_file(snapshot: Snapshot, files: pa.Table) -> str | None:
    """The first file whose widened columns are stored in another type than the table's."""
    partitions = snapshot.partition_columns
    columns = {path.partition(".")[0] for path in has_changes(snapshot.schema)}
    fields = [f for f in snapshot.schema if f.name in columns and f.name not in partitions]
    mode = column_mapping.mode_of(snapshot.metadata, snapshot.protocol)
    for path in files["path"].to_pylist() if fields else ():
        store, name = place_of(snapshot.log.store, path).opened()
        with store.open_input(name) as source:
            stored = list(pq.read_schema(source))
        for field in fields:
            place = Place(path, field.name)
            index = find_field(stored, field, mode, place)
            if index is not None and compile_conversion(
                    stored[index].type, field.type, mode, place) is not None:
                return str(path)
    return None


def _stop_widening(log: DeltaLog) -> None:
    """Disable type widening, then remove the records of changes."""
    if _WIDENING in log.update().properties:
        unset_properties(log, [_WIDENING], if_exists=True)
    txn = begin(log)
    if not has_changes(txn.metadata.schema):
        return
    if _narrower_file(txn.snapshot, txn.filter_files().table) is not None:
        _refuse_widened(txn.snapshot, txn.table)
    changed = [(path, field) for path, field in walk(txn.metadata.schema)
               if TYPE_CHANGES in field.metadata]
    schema = txn.metadata.schema
    record = []
    for path, field in changed:
        field_metadata = {k: v for k, v in field.metadata.items() if k != TYPE_CHANGES}
        schema = replaced(schema, path, field_at(schema, path).replace(metadata=field_metadata))
        record.append(field_for_log(path, field))
    commit_metadata(txn, txn.metadata.replace(schema_string=schema.to_json()),
                    Operation(DROP_FEATURE, {"columns": record}))


def _stop_timestamps(log: DeltaLog) -> None:
    txn = begin(log)
    unset = [name for name in _ICT if name in txn.metadata.configuration]
    configuration = {k: v for k, v in txn.metadata.configuration.items() if k not in _ICT}
    commit_metadata(txn, txn.metadata.replace(configuration=configuration), Operation(
        "UNSET TBLPROPERTIES", {"properties": unset, "ifExists": True}))


def _stop_row_tracking(log: DeltaLog) -> None:
    if not _is_set(log.update(), _ROW_TRACKING[1]) or _is_set(log.snapshot, _ROW_TRACKING[0]):
        set_properties(log, {_ROW_TRACKING[0]: False, _ROW_TRACKING[1]: True})
    unbackfill(log)


def _remove_domains(log: DeltaLog) -> None:
    txn = begin(log)
    gone = [DomainMetadata(name, domain.configuration, removed=True)
            for name, domain in txn.snapshot.domain_metadata.items()]
    txn.commit(gone, Operation(
        "DOMAIN METADATA CLEANUP", {"domainMetadataRemovedCount": len(gone)}))


def _unset(*names: str) -> Callable[[DeltaLog], object]:
    return lambda log: unset_properties(log, list(names), if_exists=True)


def _none_set(*names: str) -> Callable[[Snapshot], bool]:
    return lambda snapshot: not any(name in snapshot.properties for name in names)


_WIDENED = _Removable(
    is_clean=lambda s: not _is_set(s, _WIDENING) and not has_changes(s.schema),
    refuse=_refuse_widened, clean=_stop_widening,
    uses=lambda a: isinstance(a, Metadata) and bool(has_changes(a.schema)),
    properties=(_WIDENING,),
)

_REMOVABLE: dict[str, _Removable] = {
    "checkConstraints": _Removable(
        is_clean=lambda s: not _constraints(s.metadata), refuse=_refuse_constraints),
    "columnMapping": _Removable(
        is_clean=lambda s: not _mapped(s.metadata), refuse=_refuse_mapping,
        uses=lambda a: isinstance(a, Metadata) and _mapped(a),
        properties=(column_mapping.MODE_KEY, column_mapping.MAX_ID_KEY)),
    column_mapping.USAGE_TRACKING: _Removable(properties=(column_mapping.USED_KEY,)),
    "deletionVectors": _Removable(
        is_clean=lambda s: not _is_set(s, _DVS) and not _vectors(s), refuse=_refuse_vectors,
        clean=_unset(_DVS), uses=_uses_vectors, properties=(_DVS,)),
    "rowTracking": _Removable(
        is_clean=lambda s: (not _is_set(s, _ROW_TRACKING[0]) and _is_set(s, _ROW_TRACKING[1])
                            and not has_ids(s)),
        clean=_stop_row_tracking, properties=(*_ROW_TRACKING, *MATERIALIZED_NAMES),
        domains=("delta.rowTracking",)),
    "domainMetadata": _Removable(
        is_clean=lambda s: not s.domain_metadata, clean=_remove_domains),
    "v2Checkpoint": _Removable(
        is_clean=lambda s: properties.get(s.properties, "delta.checkpointPolicy") != "v2",
        clean=lambda log: set_properties(log, {"delta.checkpointPolicy": "classic"}),
        uses=lambda a: (isinstance(a, Metadata) and properties.get(
            a.configuration, "delta.checkpointPolicy") == "v2")),
    "inCommitTimestamp": _Removable(is_clean=_none_set(*_ICT), clean=_stop_timestamps),
    "vacuumProtocolCheck": _Removable(uses=lambda a: False),
    "typeWidening": _WIDENED,
    "typeWidening-preview": _WIDENED,
    "materializePartitionColumns": _Removable(
        properties=("delta.enableMaterializePartitionColumnsFeature",)),
    GROUPS: _Removable(),
    PROTECTION: _Removable(properties=(PROTECTED_BEFORE,)),
}
"""The features that Delta can drop, and the proposed one that only this library has -> how; every other one
stays."""


def droppable() -> Sequence[str]:
    """The names of the features that can be dropped.

    >>> "deletionVectors" in droppable(), "clustering" in droppable()
    (True, False)
    """
    return tuple(_REMOVABLE)
