"""What a commit says of the table and of itself, and whether that can be.

What lives here: protocol, metadata, features, applications, domains, times and commitInfo of one commit,
checked against the version before.
What it does not know: files of the table (``files``), what is derived from the log (``derived``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from deltanb.actions import (
    AddCDCFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    UnknownAction,
)
from deltanb.errors import DeltaError
from deltanb.observe.verify import kinds
from deltanb.observe.verify.files import mark_of
from deltanb.observe.verify.report import POSSIBLE, Finding
from deltanb.observe.verify.state import Commit, LogState
from deltanb.schema import properties
from deltanb.schema.column_mapping import ID_KEY, NAME_KEY, mode_of
from deltanb.schema.columns import Identity
from deltanb.schema.features import FEATURES
from deltanb.schema.protocol import is_active
from deltanb.schema.types import ArrayType, DataType, MapType, StructType
from deltanb.text import formatting as units
from deltanb.text.safe_text import safe
from deltanb.transaction.operations import DROP_FEATURE, OPERATIONS, REPLACE_TABLE
from deltanb.transaction.rebase import ROW_TRACKING_DOMAIN

_READER_LISTS, _WRITER_LISTS = 3, 7
_MAX_ID = "delta.columnMapping.maxColumnId"
_REPLACING = frozenset({"CLONE", "RESTORE", *REPLACE_TABLE})
_LOWERING = _REPLACING | {DROP_FEATURE}
_UNDOING = ("UNSET", "DROP")
"""How operations begin that undo a change on purpose; any that read the version before may do so, too."""
_ONCE: tuple[tuple[type[Any], str], ...] = (
    (Metadata, "metaData"), (Protocol, "protocol"), (CommitInfo, "commitInfo"))


def check_commit(state: LogState, commit: Commit) -> Iterator[Finding]:
    """What is wrong with a commit's actions beside its files; ``state`` is the version before."""
    yield from _actions(state, commit)
    yield from _times(state, commit)
    yield from _info(commit)
    protocol, metadata = commit.first(Protocol), commit.first(Metadata)
    if protocol is not None:
        yield from _protocol(state, commit, protocol)
    if metadata is not None:
        yield from _metadata(state, commit, metadata)
    if protocol is not None or metadata is not None:
        yield from _features(state, commit)
    yield from _applications(state, commit)
    yield from _domains(state, commit)
    yield from _changes(state, commit)


def _actions(state: LogState, commit: Commit) -> Iterator[Finding]:
    version = commit.version
    for kind, name in _ONCE:
        if len(commit.every(kind)) > 1:
            yield kinds.ACTION_TWICE(f"version {version} has {len(commit.every(kind))} {name} actions",
                                     version)
    for action in commit.every(UnknownAction):
        yield kinds.ACTION_UNKNOWN(f"version {version} has an action {action.name[:40]!r}", version)
    if state.metadata is None and commit.first(Metadata) is None:
        yield kinds.COMMIT_WITHOUT_TABLE(f"version {version} is the first and has no metaData", version)
    if state.protocol is None and commit.first(Protocol) is None:
        yield kinds.COMMIT_WITHOUT_TABLE(f"version {version} is the first and has no protocol", version)


def _times(state: LogState, commit: Commit) -> Iterator[Finding]:
    version, time = commit.version, commit.info.in_commit_timestamp
    metadata, protocol = state.definition(commit)
    if metadata is None or protocol is None:
        return
    if is_active(protocol, metadata, "inCommitTimestamp"):
        if not isinstance(time, int):
            yield kinds.TIME_MISSING(f"version {version} has no inCommitTimestamp", version)
        elif state.time is not None and time <= state.time:
            yield kinds.TIME_FALLS(
                f"version {version} is of {units.time(time)}, and version {state.version} of "
                f"{units.time(state.time)}", (state.version, version))
    elif 0 < commit.modified < state.modified:
        yield kinds.FILE_TIME_FALLS(
            f"the file of version {version} is of {units.time(commit.modified)}, and that of version "
            f"{state.version} of {units.time(state.modified)}", (state.version, version))


def _info(commit: Commit) -> Iterator[Finding]:
    version, info = commit.version, commit.info
    read = info.read_version
    if isinstance(read, int) and not isinstance(read, bool) and read >= version:
        yield kinds.READ_AHEAD(f"version {version} says that it read version {read}", version)
    if info.is_blind_append is True and any(file.data_change is not False for file in commit.removes):
        yield kinds.BLIND_CLAIM(f"version {version} ({commit.operation}) claims to be a blind append, and "
                                f"removes {units.count(len(commit.removes), 'file')}", version)
    if isinstance(info.operation, str) and info.operation not in OPERATIONS:
        yield kinds.OPERATION_UNKNOWN(
            f"version {version} says that its operation is {safe(info.operation[:40])!r}", version)
    yield from _metrics(commit)


_METRICS = (("WRITE", "numFiles", "adds"), ("OPTIMIZE", "numAddedFiles", "adds"),
            ("OPTIMIZE", "numRemovedFiles", "removes"))


def _metrics(commit: Commit) -> Iterator[Finding]:
    metrics = commit.info.operation_metrics
    for operation, name, kind in _METRICS:
        if operation != commit.operation or not isinstance(metrics, dict) or name not in metrics:
            continue
        files = getattr(commit, kind)
        if str(metrics[name]).isdigit() and int(metrics[name]) != len(files) \
                and not any(file.deletion_vector is not None for file in files):
            yield kinds.METRICS_DIFFER(
                f"version {commit.version} ({operation}) says {name} = {metrics[name]}, and has {len(files)}",
                commit.version)


# -- the definition ---------------------------------------------------------------------------------------


def _protocol(state: LogState, commit: Commit, protocol: Protocol) -> Iterator[Finding]:
    version = commit.version
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if (protocol.reader_features is not None) != (reader >= _READER_LISTS) or (
            protocol.writer_features is not None) != (writer >= _WRITER_LISTS) or reader < 1 or writer < 1:
        yield kinds.PROTOCOL_INVALID(
            f"version {version} has reader version {reader} with {_list(protocol.reader_features)}, and "
            f"writer version {writer} with {_list(protocol.writer_features)}", version)
    before = state.protocol
    if before is None or commit.operation in _LOWERING:
        return
    lost = sorted(set(before.features) - set(protocol.features))
    if lost or reader < before.min_reader_version or writer < before.min_writer_version:
        what = f"without {', '.join(lost)}" if lost else f"at ({reader}, {writer}), below " \
            f"({before.min_reader_version}, {before.min_writer_version})"
        yield kinds.PROTOCOL_FELL(f"version {version} ({commit.operation}) has a protocol {what}",
                                  (state.version, version))


def _list(features: tuple[str, ...] | None) -> str:
    return "no list of features" if features is None else "a list of features"


def _metadata(state: LogState, commit: Commit, metadata: Metadata) -> Iterator[Finding]:
    version, before = commit.version, state.metadata
    try:
        schema = metadata.schema
    except (DeltaError, ValueError, RecursionError) as error:
        yield kinds.SCHEMA_INVALID(
            f"the schema of version {version} cannot be read: {error}", version,
            certainty=POSSIBLE if metadata.schema_string is None else "")  # a pipeline begins without one
        return
    names = [f.name for f in schema.fields]
    for name, times in Counter(name.lower() for name in names).items():
        if times > 1:
            yield kinds.SCHEMA_DUPLICATES(f"version {version} has {times} columns {name!r}", version)
    for name in metadata.partition_columns:
        if name not in names:
            yield kinds.PARTITION_UNKNOWN(f"version {version} is partitioned by {name!r}, and has the "
                                          f"columns {', '.join(names)[:200]}", version)
    yield from _mapping(state, commit, metadata)
    yield from _properties(version, metadata)
    if before is None or commit.operation in _REPLACING:
        return
    if metadata.id != before.id:
        yield kinds.TABLE_ID(f"version {version} ({commit.operation}) has the table id {metadata.id}, and "
                             f"before it was {before.id}", (state.version, version))
    had = None if commit.info.read_version == state.version else state.previous.get(metadata)
    if had is not None and metadata != before and not commit.operation.startswith(_UNDOING):
        yield kinds.METADATA_BACK(
            f"version {version} ({commit.operation}) has the metadata of version {had} again", (had, version))
    yield from _identity_marks(state, commit, before, metadata)


def _properties(version: int, metadata: Metadata) -> Iterator[Finding]:
    for name in metadata.configuration:
        try:
            properties.get(metadata.configuration, name)
        except (DeltaError, ValueError, KeyError) as error:
            if name in properties.PROPERTIES:
                yield kinds.PROPERTY_INVALID(f"version {version}: {error}", version)


def _mapping(state: LogState, commit: Commit, metadata: Metadata) -> Iterator[Finding]:
    _, protocol = state.definition(commit)
    if not _is_mapped(metadata, protocol):
        return
    version, columns = commit.version, list(_columns(metadata.schema))
    for key in (ID_KEY, NAME_KEY):
        seen: dict[Any, str] = {}
        for path, of_field in columns:
            value = of_field.get(key)
            where = (path.rpartition(".")[0], value) if key == NAME_KEY else value
            if not isinstance(value, int | str):
                continue
            if where in seen:
                yield kinds.MAPPING_TWICE(
                    f"version {version} maps {seen[where]} and {path} to {value!r}", version)
            seen[where] = path
    most = metadata.configuration.get(_MAX_ID)
    ids = [(of_field.get(ID_KEY), path) for path, of_field in columns]
    if most is not None and most.isdigit():
        for number, path in ids:
            if isinstance(number, int) and number > int(most):
                yield kinds.MAPPING_MAX(f"version {version} has column {path} with id {number}, and "
                                        f"{_MAX_ID} is {most}", version)
    before = state.metadata
    if before is None or commit.operation in _REPLACING or not _is_mapped(before, protocol):
        return
    try:
        earlier = list(_columns(before.schema))
    except DeltaError:
        return
    was = {str(of_field.get(ID_KEY)): (of_field.get(NAME_KEY), path) for path, of_field in earlier}
    for path, of_field in columns:
        name, old = was.get(str(of_field.get(ID_KEY)), (None, ""))
        if name is not None and of_field.get(NAME_KEY) != name:
            yield kinds.MAPPING_MOVED(
                f"version {version} maps column {path} to {of_field.get(NAME_KEY)!r} in files, and {old} "
                f"with that id was {name!r}", (state.version, version))


def _is_mapped(metadata: Metadata, protocol: Protocol | None) -> bool:
    try:
        return protocol is not None and mode_of(metadata, protocol) != "none"
    except DeltaError:
        return False  # the property has its own finding


def _columns(data_type: DataType, path: str = "") -> Iterator[tuple[str, Any]]:
    match data_type:
        case StructType():
            for f in data_type.fields:
                name = f"{path}.{f.name}" if path else f.name
                yield name, f.metadata
                yield from _columns(f.type, name)
        case ArrayType():
            yield from _columns(data_type.element_type, f"{path}.element")
        case MapType():
            yield from _columns(data_type.key_type, f"{path}.key")
            yield from _columns(data_type.value_type, f"{path}.value")


def _identity_marks(
    state: LogState, commit: Commit, before: Metadata, after: Metadata
) -> Iterator[Finding]:
    try:
        then_schema = before.schema
    except DeltaError:
        return  # its own commit has the finding
    for f in after.schema.fields:
        old = then_schema.get(f.name)
        try:
            marks = Identity.of(f), None if old is None else Identity.of(old)
        except DeltaError as error:
            yield kinds.SCHEMA_INVALID(f"version {commit.version}: {error}", commit.version)
            continue
        now, then = marks
        if now is None or then is None or then.mark is None or commit.operation == "SYNC IDENTITY":
            continue
        if now.mark is None or now.furthest(now.mark, then.mark) != now.mark:
            yield kinds.IDENTITY_MARK(
                f"version {commit.version} has the mark {now.mark} for {f.name}, and before it was "
                f"{then.mark}", (state.version, commit.version))


def _features(state: LogState, commit: Commit) -> Iterator[Finding]:
    metadata, protocol = state.definition(commit)
    if metadata is None or protocol is None:
        return
    for feature in FEATURES.values():
        if not feature.automatic or feature.active is None or protocol.supports(feature.name):
            continue
        stand_in = feature.stands_in
        try:
            is_used = feature.active(metadata)
        except (ValueError, TypeError, RecursionError):
            continue  # a schema that cannot be read has its own finding
        if is_used and not (stand_in and protocol.supports(stand_in)):
            yield kinds.FEATURE_UNNAMED(
                f"version {commit.version} uses {feature.name}, which its protocol does not name",
                commit.version, certainty="possible" if feature.legacy else "")


# -- what applications and domains say --------------------------------------------------------------------


def _applications(state: LogState, commit: Commit) -> Iterator[Finding]:
    seen: set[str] = set()
    for action in commit.every(SetTransaction):
        if action.app_id in seen:
            yield kinds.ACTION_TWICE(
                f"version {commit.version} has two txn actions of {action.app_id[:60]!r}", commit.version)
        seen.add(action.app_id)
        known = state.txns.get(action.app_id)
        if known is not None and action.version < known:
            yield kinds.TXN_FELL(
                f"version {commit.version} takes application {action.app_id[:60]!r} from {known} back to "
                f"{action.version}", commit.version)


def _domains(state: LogState, commit: Commit) -> Iterator[Finding]:
    version, seen = commit.version, set()
    domains = commit.every(DomainMetadata)
    for action in domains:
        if action.domain in seen:
            yield kinds.ACTION_TWICE(
                f"version {version} has two actions of domain {action.domain[:60]!r}", version)
        seen.add(action.domain)
        if action.removed and action.domain not in state.domains:
            yield kinds.DOMAIN_UNKNOWN(f"version {version} removes domain {action.domain[:60]!r}", version)
        if action.domain == ROW_TRACKING_DOMAIN and not action.removed and not commit.restores:
            mark, before = mark_of(action.configuration), mark_of(state.domains.get(ROW_TRACKING_DOMAIN))
            if mark < before:
                yield kinds.ROW_MARK_FELL(f"version {version} has the high-water mark {mark}, and before it "
                                          f"was {before}", (state.version, version))
    _, protocol = state.definition(commit)
    if domains and protocol is not None and not protocol.supports("domainMetadata"):
        yield kinds.FEATURE_UNNAMED(f"version {version} sets the domain {domains[0].domain[:60]!r}, and the "
                                    "protocol does not name domainMetadata", version)


def _changes(state: LogState, commit: Commit) -> Iterator[Finding]:
    changes = commit.every(AddCDCFile)
    _, protocol = state.definition(commit)
    if not changes or protocol is None:
        return
    version = commit.version
    if not protocol.supports("changeDataFeed"):
        yield kinds.FEATURE_UNNAMED(f"version {version} has change files, and the protocol does not name "
                                    "changeDataFeed", version)
    if not any(file.data_change is not False for file in (*commit.adds, *commit.removes)):
        yield kinds.CHANGES_DIFFER(
            f"version {version} ({commit.operation}) has {units.count(len(changes), 'change file')} and "
            "changes no data", version, [change.path for change in changes])
