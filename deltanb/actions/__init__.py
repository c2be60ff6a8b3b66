"""The actions of the Delta log: small frozen values with JSON both ways.

What lives here: one class an action, its wire names, the check of its types, and the encoding of paths.
What it does not know: files, snapshots, transactions. A snapshot's files are an Arrow table; an action
object exists for the handful that a commit holds.

Fields that this library does not know are kept in ``extra`` and written back unchanged, as the protocol
asks of writers (PROTOCOL.md, "Actions"). Absent fields are ``None`` and are left out of the JSON.

>>> action = from_json('{"txn": {"appId": "etl", "version": 3, "shiny": true}}')
>>> action.app_id, action.version, action.extra
('etl', 3, {'shiny': True})
>>> action.to_json()
'{"txn":{"appId":"etl","version":3,"shiny":true}}'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from deltanb.actions.action import (
    BY_KEY,
    Action,
    action,
    as_json,
    camel,
    check_texts,
    extra_fields,
    wire_hash,
)
from deltanb.errors import InvalidAction, InvalidTable
from deltanb.options import options
from deltanb.text.completion import offered
from deltanb.text.damage import what_is_wrong

if TYPE_CHECKING:
    from deltanb.schema.types import StructType

__all__ = [
    "Action", "AddCDCFile", "AddFile", "CheckpointMetadata", "CommitInfo", "DeletionVector",
    "DomainMetadata", "FileAction", "Metadata", "Protocol", "RemoveFile", "SetTransaction",
    "Sidecar", "UnknownAction", "decode_path", "encode_path", "from_dict", "from_json",
]

MAX_ROWS = 2**36  # no file has as many; a statistic that says so is damaged, and says nothing

TABLE_FEATURES_READER = 3
"""The reader version that lists its features; also the highest one PROTOCOL.md defines."""
TABLE_FEATURES_WRITER = 7
"""The writer version that lists its features; also the highest version number defined at all."""
LEGACY_FEATURES = {
    "appendOnly": (1, 2), "invariants": (1, 2), "checkConstraints": (1, 3), "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4), "columnMapping": (2, 5), "identityColumns": (1, 6),
}
"""Features that versions below those imply -> the reader and the writer version from which they do."""
FEATURE_ALIASES = {"timestampWithoutTimezone": "timestampNtz"}
"""Names that some writers gave a feature -> its name in PROTOCOL.md, under which it is known and written."""

# RFC 2396 characters that a path in the log may hold as they are; all others are percent-encoded.
_PATH_SAFE = "/:@!$&'()*+,;=-._~"

def decode_path(path: str) -> str:
    """The file a log path means: percent-decoding only, relative stays relative.

    >>> decode_path("day=a%20b/part%2525.parquet")
    'day=a b/part%25.parquet'
    """
    return unquote(path)


def encode_path(path: str) -> str:
    """The form in which a path is written to the log (PROTOCOL.md, "Add File": an RFC 2396 URI).

    >>> encode_path("day=a b/part%25.parquet")
    'day=a%20b/part%2525.parquet'
    """
    return quote(path, safe=_PATH_SAFE)


@lru_cache(maxsize=64)
def _parsed_schema(text: str) -> StructType:
    """Shared by the metadata of many versions: properties change, schemas seldom do."""
    from deltanb.schema.types import StructType

    return StructType.from_json(text)


STORAGE_TYPES = {"i": "inline", "u": "relative", "r": "relative", "p": "absolute"}
"""Where a deletion vector can be, in a word; ``r`` came with adaptive metadata (delta-io/delta#7463)."""


@action
class DeletionVector(Action):
    """Where the deleted row positions of a file are (PROTOCOL.md, "Deletion Vector Descriptor Schema").

    ``storage_type`` is ``u`` (relative, with a UUID), ``r`` (relative path), ``p`` (absolute path) or ``i``
    (inline); ``size_in_bytes`` and ``cardinality`` (rows deleted) are integers, ``offset`` is in bytes.
    """

    key = "deletionVector"

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    max_row_index: int | None = None
    extra: dict[str, Any] = extra_fields()

    @property
    def unique_id(self) -> str:
        """``<storage type><path or data>[@offset]``: half of a logical file's key."""
        start = f"{self.storage_type}{self.path_or_inline_dv}"
        return start if self.offset is None else f"{start}@{self.offset}"


class _Counts(msgspec.Struct):
    numRecords: int | None = None


_Counted = msgspec.json.Decoder(_Counts)
_Parts, _encode = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Encoder().encode
"""Statistics taken apart and put together again as they are written: as floats long decimals are others."""


class FileAction(Action):
    """A change to the set of data files: add, remove or cdc."""

    path: str
    partition_values: dict[str, str | None] | None
    size: int | None
    data_change: bool
    deletion_vector: DeletionVector | None = None

    def __post_init__(self) -> None:
        dv = self.deletion_vector
        if isinstance(dv, Mapping):
            object.__setattr__(self, "deletion_vector", DeletionVector.from_value(dv))
        super().__post_init__()
        for name, value in (self.partition_values or {}).items():
            if value is not None and not isinstance(value, str):
                raise InvalidAction(
                    f"{self.key}.partitionValues.{name} must be a string or null, found {value!r}"
                )

    @property
    def file_key(self) -> tuple[str, str | None]:
        """(path, deletion vector id): what replay reconciles by (PROTOCOL.md, "Action Reconciliation")."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def num_records(self) -> int | None:
        """``numRecords`` of the statistics, physical rows; None where unknown."""
        stats = getattr(self, "stats", None)
        try:  # the rest of the statistics is not wanted here
            number = _Counted.decode(stats).numRecords if stats else None
        except (msgspec.MsgspecError, UnicodeError):
            number = self._statistic("numRecords")
        return number if isinstance(number, int) and 0 <= number < MAX_ROWS else None

    @property
    def has_tight_bounds(self) -> bool:
        """Whether the statistics claim that bounds are met by a row; so they do where they do not say
        ``tightBounds`` (PROTOCOL.md, "Per-file Statistics")."""
        return self._statistic("tightBounds") is not False

    @property
    def statistics(self) -> dict[str, Any]:
        """The statistics as a dict: ``numRecords``, and by column ``minValues``, ``maxValues`` and
        ``nullCount``; empty where there are none, or none that can be read.

        >>> AddFile("a", {}, 5, 0, stats='{"numRecords":3,"minValues":{"day":1}}').statistics["minValues"]
        {'day': 1}
        """
        stats = getattr(self, "stats", None)
        try:
            parsed = json.loads(stats) if stats else None
        except (ValueError, RecursionError):
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def _statistic(self, name: str) -> Any:
        return self.statistics.get(name)


@action
class AddFile(FileAction):
    """A logical file becomes part of the table (PROTOCOL.md, "Add File and Remove File").

    ``path`` is percent-encoded as in the log, ``size`` is in bytes, ``modification_time`` in epoch
    milliseconds, ``partition_values`` maps physical column names to text or None, ``stats`` is JSON text.

    >>> add = AddFile(path="part=1/a", partition_values={"part": "1"}, size=1, modification_time=1)
    >>> add.remove(deletion_timestamp=4).to_json()[:60]
    '{"remove":{"path":"part=1/a","deletionTimestamp":4,"dataChan'
    """

    key = "add"

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    size: int = 0
    modification_time: int = 0
    data_change: bool = True
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None
    extra: dict[str, Any] = extra_fields()

    def remove(self, deletion_timestamp: int | None = None, data_change: bool = True) -> RemoveFile:
        """The tombstone for this file; the time is the clock's unless given."""
        return RemoveFile(
            path=self.path,
            deletion_timestamp=options.clock() if deletion_timestamp is None else deletion_timestamp,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            stats=self.stats,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )

    def with_deletion_vector(self, vector: DeletionVector, num_records: int | None = None) -> AddFile:
        """The file with other deleted rows: its bounds still hold, but no row need meet them any more.

        ``num_records`` counts all rows of the file, for statistics that do not.

        >>> add = AddFile("a", stats='{"numRecords":3}')
        >>> add.with_deletion_vector(DeletionVector("i", "x", 1, 1)).stats
        '{"numRecords":3,"tightBounds":false}'
        """
        stats = {} if num_records is None else {"numRecords": msgspec.Raw(b"%d" % num_records)}
        with suppress(msgspec.MsgspecError, TypeError, UnicodeError):
            stats |= _Parts.decode(self.stats or "{}")
        wide = _encode({**stats, "tightBounds": msgspec.Raw(b"false")}).decode()
        return self.replace(deletion_vector=vector, stats=wide)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> AddFile:
        """From a row of :attr:`Snapshot.files <deltanb.log.snapshot.Snapshot.files>` as a dict."""
        known = {name: row[name] for name in cls._wire if row.get(name) is not None}
        for name in ("partition_values", "tags"):
            if name in known:
                known[name] = dict(known[name])
        if "deletion_vector" in known:
            dv = {k: v for k, v in known["deletion_vector"].items() if v is not None}
            known["deletion_vector"] = DeletionVector(**dv)
        return cls(**known)


@action
class RemoveFile(FileAction):
    """A logical file leaves the table; the tombstone stays until it expires (PROTOCOL.md, as AddFile)."""

    key = "remove"

    path: str
    deletion_timestamp: int | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    extra: dict[str, Any] = extra_fields()


@action
class AddCDCFile(FileAction):
    """A file of row-level changes (PROTOCOL.md, "Add CDC File")."""

    key = "cdc"

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    size: int = 0
    data_change: bool = False
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()


@action
class Metadata(Action):
    """Name, schema, partitioning and properties of the table (PROTOCOL.md, "Change Metadata")."""

    key = "metaData"

    id: str
    schema_string: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format: dict[str, Any] = field(
        default_factory=lambda: {"provider": "parquet", "options": {}}
    )
    created_time: int | None = None
    extra: dict[str, Any] = extra_fields()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "partition_columns", tuple(self.partition_columns))
        check_texts("metaData.partitionColumns", self.partition_columns)
        if None in self.configuration.values():  # as if they were not set
            present = {name: text for name, text in self.configuration.items() if text is not None}
            object.__setattr__(self, "configuration", present)
        check_texts("metaData.configuration", self.configuration.values())
        options = self.format.get("options") or {}
        if not isinstance(options, Mapping):
            raise InvalidAction(f"metaData.format.options must be an object, found {options!r:.80}")
        named = [self.format.get("provider"), *options.values()]
        check_texts("metaData.format", [value for value in named if value is not None])

    @cached_property
    def schema(self) -> StructType:
        """The table's logical schema.

        Raises:
            InvalidTable: the action carries no schema, or one that does not parse.
        """
        if self.schema_string is None:
            raise InvalidTable(
                f"table {self.id} has no schemaString in its metaData action; it cannot be read. "
                "Restore the metaData of an earlier version"
            )
        return _parsed_schema(self.schema_string)


@action
class Protocol(Action):
    """The versions and table features a client must support (PROTOCOL.md, "Protocol Evolution").

    >>> Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)).supports("deletionVectors")
    True
    """

    key = "protocol"

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: dict[str, Any] = extra_fields()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("reader_features", "writer_features"):
            value = getattr(self, name)
            if value is not None:
                value = tuple(value)
                check_texts(f"protocol.{camel(name)}", value)
                named = dict.fromkeys(FEATURE_ALIASES.get(feature, feature) for feature in value)
                object.__setattr__(self, name, tuple(named))

    def has_reader_feature(self, name: str) -> bool:
        """Listed among the reader features."""
        return name in (self.reader_features or ())

    def has_writer_feature(self, name: str) -> bool:
        """Listed among the writer features."""
        return name in (self.writer_features or ())

    def supports(self, name: str) -> bool:
        """Listed, or implied by the legacy versions (PROTOCOL.md, "Table Features")."""
        return name in self.features

    @property
    def features(self) -> tuple[str, ...]:
        """All features the table supports, listed or implied, those unknown to us too."""
        return _features(self.min_reader_version, self.min_writer_version,
                         self.reader_features, self.writer_features)


@lru_cache(maxsize=64)
def _features(
    reader: int, writer: int, reader_features: tuple[str, ...] | None,
    writer_features: tuple[str, ...] | None,
) -> tuple[str, ...]:
    listed: dict[str, None] = {}
    if writer >= TABLE_FEATURES_WRITER:
        listed.update(dict.fromkeys(writer_features or ()))
    if reader >= TABLE_FEATURES_READER:
        listed.update(dict.fromkeys(reader_features or ()))
    listed.update(dict.fromkeys(implied(reader, writer)))
    return tuple(listed)


def implied(reader: int, writer: int) -> tuple[str, ...]:
    """The legacy features that version numbers imply (PROTOCOL.md, "Table Features")."""
    if writer >= TABLE_FEATURES_WRITER:
        # A table with reader version 2 that lists writer features lists columnMapping there.
        return ()
    return tuple(name for name, (least_reader, least_writer) in LEGACY_FEATURES.items()
                 if least_writer <= writer and least_reader <= reader)


@action
class SetTransaction(Action):
    """The latest version an application has written (PROTOCOL.md, "Transaction Identifiers")."""

    key = "txn"

    app_id: str
    version: int
    last_updated: int | None = None
    extra: dict[str, Any] = extra_fields()


@action
class DomainMetadata(Action):
    """A named configuration; ``removed`` makes it a tombstone (PROTOCOL.md, "Domain Metadata")."""

    key = "domainMetadata"

    domain: str
    configuration: str = ""
    removed: bool = False
    extra: dict[str, Any] = extra_fields()


@action
class CommitInfo(Action):
    """Where a commit came from (PROTOCOL.md, "Commit Provenance Information").

    The protocol leaves its content free, so nothing in it is checked; writers disagree on types.
    """

    key = "commitInfo"

    in_commit_timestamp: Any = None
    timestamp: Any = None
    user_id: Any = None
    user_name: Any = None
    operation: Any = None
    operation_parameters: Any = None
    job: Any = None
    notebook: Any = None
    cluster_id: Any = None
    read_version: Any = None
    isolation_level: Any = None
    is_blind_append: Any = None
    operation_metrics: Any = None
    user_metadata: Any = None
    tags: Any = None
    engine_info: Any = None
    txn_id: Any = None
    extra: dict[str, Any] = extra_fields()


@action
class CheckpointMetadata(Action):
    """Version of a V2 checkpoint (PROTOCOL.md, "Checkpoint Metadata")."""

    key = "checkpointMetadata"

    version: int
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()


@action
class Sidecar(Action):
    """A file of a V2 checkpoint that holds file actions (PROTOCOL.md, "Sidecar File Information")."""

    key = "sidecar"

    path: str
    size_in_bytes: int
    modification_time: int
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()


@dataclass(frozen=True, repr=False)
class UnknownAction(Action):
    """An action this library does not know: kept, written back, otherwise ignored."""

    name: str
    value: Any
    extra: dict[str, Any] = extra_fields()
    key = ""

    def to_dict(self) -> dict[str, Any]:
        """The action as it was read."""
        return {self.name: self.value}

    def __hash__(self) -> int:
        return wire_hash(self)


def from_dict(wrapped: Mapping[str, Any]) -> Action:
    """The action in one line of a commit, already parsed.

    Raises:
        InvalidAction: not an object with one action, or a field of the wrong type.
    """
    if type(wrapped) is not dict and not isinstance(wrapped, Mapping):
        raise InvalidAction(f"an action is a JSON object, found {wrapped!r:.80}")
    present = [(key, value) for key, value in wrapped.items() if value is not None]
    if len(present) != 1:
        raise InvalidAction(
            f"an action is an object with one key, found {[key for key, _ in present]}"
        )
    key, value = present[0]
    cls = BY_KEY.get(key)
    if cls is None or not key or cls is DeletionVector:
        return UnknownAction(key, value)
    return cls.from_value(value)


def from_json(line: str | bytes) -> Action:
    """The action in one line of a commit.

    Raises:
        InvalidAction: the text is not JSON, or no action.

    >>> from_json('{"add": {"path": "a", "size": "1"}}')
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidAction: add.size must be of type integer, found string: '1'
    """
    try:  # several times as fast, and stricter: what it refuses may still be JSON to others
        wrapped = _decoded(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        wrapped = _leniently(line)
    return from_dict(wrapped)


def _leniently(line: str | bytes) -> Any:
    try:
        wrapped = json.loads(line)
        if (b"\\ud" if isinstance(line, bytes) else "\\ud") in line.lower():  # type: ignore[operator]
            as_json(wrapped).encode()  # an unpaired surrogate, which no file of the table can hold
    except (ValueError, RecursionError) as error:
        raise InvalidAction(f"an action must be JSON: {what_is_wrong(error)}") from None
    return wrapped


_decoded = msgspec.json.Decoder().decode


__dir__ = offered(globals())
