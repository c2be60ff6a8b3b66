"""From the JSON of commits to the changes they make: parsing and reconciliation.

What lives here: the Arrow schemas of files and tombstones, the parser of commits, the key by
which actions reconcile, and :class:`Delta`, the sum of a run of commits.
What it does not know: which files of the log to read (``segment``), checkpoint formats, snapshots.

PROTOCOL.md, "Action Reconciliation": the latest protocol and metadata win, the latest ``txn`` of an
application, the latest ``domainMetadata`` of a domain, and of a logical file (path, deletion vector
id) the latest add or remove.

>>> delta = Delta()
>>> feed(delta, b'{"add":{"path":"/lake/a","size":3}}', "_delta_log/00000000000000000000.json")
>>> feed(delta, b'{"remove":{"path":"file:/lake/a"}}', "_delta_log/00000000000000000001.json")
>>> list(delta.adds), list(delta.removes)
([], ['/lake/a'])
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltanb import actions
from deltanb.actions import Action, DomainMetadata, Metadata, SetTransaction
from deltanb.damage import what_is_wrong
from deltanb.errors import InvalidTable
from deltanb.log.arrow_rows import table_of

if TYPE_CHECKING:
    from deltanb.actions import Protocol as ProtocolAction

__all__ = [
    "DELETION_VECTOR_TYPE", "FILES_SCHEMA", "TOMBSTONES_SCHEMA", "CheckpointParts", "Delta",
    "canonical_path", "feed", "feed_actions", "files_table", "key_array", "parse_commit",
    "tombstones_table",
]

_STRINGS = pa.map_(pa.string(), pa.string())

DELETION_VECTOR_TYPE = pa.struct([
    ("storage_type", pa.string()),
    ("path_or_inline_dv", pa.string()),
    ("offset", pa.int32()),
    ("size_in_bytes", pa.int32()),
    ("cardinality", pa.int64()),
])

FILES_SCHEMA = pa.schema([
    ("path", pa.string()),  # as in the log: percent-encoded
    ("partition_values", _STRINGS),
    ("size", pa.int64()),
    ("modification_time", pa.int64()),
    ("data_change", pa.bool_()),
    ("stats", pa.string()),
    ("tags", _STRINGS),
    ("deletion_vector", DELETION_VECTOR_TYPE),
    ("base_row_id", pa.int64()),
    ("default_row_commit_version", pa.int64()),
    ("clustering_provider", pa.string()),
])

TOMBSTONES_SCHEMA = pa.schema([
    ("path", pa.string()),
    ("deletion_timestamp", pa.int64()),
    ("data_change", pa.bool_()),
    ("extended_file_metadata", pa.bool_()),
    ("partition_values", _STRINGS),
    ("size", pa.int64()),
    ("stats", pa.string()),
    ("tags", _STRINGS),
    ("deletion_vector", DELETION_VECTOR_TYPE),
    ("base_row_id", pa.int64()),
    ("default_row_commit_version", pa.int64()),
])

MAX_RECENT = 50  # commits whose size is remembered: what a line of bars can show
MAX_QUOTED = 60  # characters of a damaged line shown in its error


class CheckpointParts(Protocol):
    """What a checkpoint gives to replay: small actions at once, file actions by column."""

    protocol: ProtocolAction | None
    metadata: Metadata | None
    txns: dict[str, SetTransaction]
    domains: dict[str, DomainMetadata]

    @property
    def num_adds(self) -> int:
        """Files it adds."""

    def read_adds(self, columns: list[str], rows: pa.Array | None = None) -> pa.Table:
        """Columns of FILES_SCHEMA, ``stats_parsed`` where present; the same rows at every call.

        ``rows``: ascending positions of those wanted, None for all.
        """

    def read_stats(
        self, leaves: Sequence[str], rows: pa.Array | None, convert: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """What ``convert`` makes of tables with ``stats_parsed`` (the named leaves) or ``stats``."""

    def read_removes(self) -> pa.Table:
        """The tombstones, by TOMBSTONES_SCHEMA."""


# -- the wire ----------------------------------------------------------------------------------
# The parser's own records: attributes as in deltanb.actions, so that both kinds of row become Arrow
# by the same code. msgspec checks types while it decodes and skips what is not named.

_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _DeletionVector(msgspec.Struct, rename="camel", gc=False):
    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: _Int32
    cardinality: _Int
    offset: _Int32 | None = None


class _Add(msgspec.Struct, rename="camel", gc=False):
    path: str
    partition_values: dict[str, str | None] | None = None
    size: _Int | None = None
    modification_time: _Int | None = None
    data_change: bool | None = True
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: _DeletionVector | None = None
    base_row_id: _Int | None = None
    default_row_commit_version: _Int | None = None
    clustering_provider: str | None = None


class _Remove(msgspec.Struct, rename="camel", gc=False):
    path: str
    deletion_timestamp: _Int | None = None
    data_change: bool | None = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: _Int | None = None
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: _DeletionVector | None = None
    base_row_id: _Int | None = None
    default_row_commit_version: _Int | None = None


_NOTHING = msgspec.Raw(b"")


class _Line(msgspec.Struct, gc=False):
    add: _Add | None = None
    remove: _Remove | None = None
    commitInfo: msgspec.Raw = _NOTHING
    txn: msgspec.Raw = _NOTHING
    domainMetadata: msgspec.Raw = _NOTHING
    metaData: msgspec.Raw = _NOTHING
    protocol: msgspec.Raw = _NOTHING


_lines = msgspec.json.Decoder(_Line).decode_lines


# -- reconciliation ----------------------------------------------------------------------------


@dataclass
class Delta:
    """The sum of a run of commits: what they change in the state before them.

    ``adds`` and ``removes`` map a logical file's key to the row that decided last; a key is in one
    of them only. ``domains`` keeps removed ones, since they hide what came before.
    """

    adds: dict[str, Any] = field(default_factory=dict)
    removes: dict[str, Any] = field(default_factory=dict)
    protocol: ProtocolAction | None = None
    metadata: Metadata | None = None
    txns: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    commit_info: bytes | actions.CommitInfo | None = None
    """Of the last commit: as it was read, or as it was committed here."""
    """JSON of the last commit's commitInfo, None if it has none."""
    passing: int = 0
    """How many of ``removes`` are of files that this run of commits added itself, about."""
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    """How many files each of the last commits adds and removes, as far as each was read by itself."""

    def absorb(self, later: Delta) -> None:
        """Let the later file actions decide."""
        for key, row in later.adds.items():
            self.removes.pop(key, None)
            self.adds[key] = row
        for key, row in later.removes.items():
            self.adds.pop(key, None)
            self.removes[key] = row

    def extend(self, later: Delta) -> None:
        """Let everything in the later delta decide."""
        self.absorb(later)
        self.protocol = later.protocol or self.protocol
        self.metadata = later.metadata or self.metadata
        self.txns.update(later.txns)
        self.domains.update(later.domains)
        self.commit_info = later.commit_info
        self.recent = later.recent

    def apply(self, action: Action) -> None:
        """Take one action value into account."""
        if isinstance(action, actions.AddFile):
            key = _key(action)
            self.removes.pop(key, None)
            self.adds[key] = action
        elif isinstance(action, actions.RemoveFile):
            key = _key(action)
            self.adds.pop(key, None)
            self.removes[key] = action
        elif isinstance(action, SetTransaction):
            self.txns[action.app_id] = action
        elif isinstance(action, DomainMetadata):
            self.domains[action.domain] = action
        elif isinstance(action, Metadata):
            self.metadata = action
        elif isinstance(action, actions.Protocol):
            self.protocol = action
        elif isinstance(action, actions.CommitInfo):
            self.commit_info = action


def feed(
    delta: Delta, data: bytes, name: str, root: str = "", newest_first: bool = False
) -> None:
    """Add the actions of one commit, in their order.

    Compactions are read with ``newest_first``: some writers only join the commits, the newest in
    front, so the first word on a file is the last one.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.
    """
    delta.commit_info = None
    try:
        lines = _lines(data)
        if not lines:
            raise ValueError("no actions")
        others = 0
        for line in reversed(lines) if newest_first else lines:
            if (add := line.add) is not None:
                key = add.path
                if key[0:1] == "/" or key[0:5] == "file:" or add.deletion_vector is not None:
                    key = _key(add)
                if delta.removes:
                    delta.removes.pop(key, None)
                delta.adds[key] = add
            elif (remove := line.remove) is not None:
                key = _key(remove)
                if delta.adds.pop(key, None) is not None:
                    delta.passing += 1
                delta.removes[key] = remove
            elif info := line.commitInfo:
                delta.commit_info = bytes(info)
                others += 1
            else:
                _feed_small(delta, line)
                others += 1
    except Exception as error:
        raise explain(data, name, root, error) from None
    if newest_first:
        delta.recent.clear()
    else:
        delta.recent.append(len(lines) - others)


def feed_actions(delta: Delta, new: Iterable[Action]) -> None:
    """As :func:`feed`, for a commit whose actions are at hand."""
    delta.commit_info = None
    files = 0
    for action in new:
        delta.apply(action)
        files += isinstance(action, actions.AddFile | actions.RemoveFile)
    delta.recent.append(files)


def _feed_small(delta: Delta, line: _Line) -> None:
    for key in ("txn", "domainMetadata", "metaData", "protocol"):
        raw = getattr(line, key)
        if raw and (value := json.loads(bytes(raw))) is not None:
            delta.apply(actions.from_dict({key: value}))


def parse_commit(data: bytes, name: str, root: str = "") -> list[Action]:
    """The actions of a commit as values, unknown ones and unknown fields included.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.
    """
    try:
        found = [actions.from_json(line) for line in data.split(b"\n") if line.strip()]
        if not found:
            raise ValueError("no actions")
        return found
    except Exception as error:
        raise explain(data, name, root, error) from None


def explain(data: bytes, name: str, root: str, error: Exception) -> InvalidTable:
    """The error of a damaged commit: which line, what is wrong with it, and what to do."""
    where = f"{name} of {root}" if root else name
    line_number, fault = None, what_is_wrong(error)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            actions.from_json(line)
            _lines(line)
        except Exception as found:
            shown = line[:MAX_QUOTED].decode("utf-8", "replace")
            line_number, fault = number, f"{what_is_wrong(found)}; the line begins {shown!r}"
            break
    if not data.strip():
        fault = "the file is empty"
    at = f"{where}, line {line_number}" if line_number else where
    match = re.search(r"(\d{20})[^/]*$", name)
    earlier = int(match[1]) - 1 if match else -1
    way_out = "Restore the file from a backup or a copy of the table"
    if earlier >= 0:
        way_out += f", or read the table as it was before with snapshot_at({earlier})"
    return InvalidTable(
        f"{at} is not a valid commit: {fault}. {way_out}", path=root, file=name, line=line_number
    )


# -- keys --------------------------------------------------------------------------------------

# "file:/x" and "file:///x" mean "/x"; a host ("file://nas/x") stays.
_FILE_URI = r"^file:(?://)?/([^/])"
_FILE_URI_RE = re.compile(_FILE_URI)
_DV_MARK = "\x00"  # in no path


def canonical_path(path: str) -> str:
    """One spelling for the spellings of a local absolute path.

    >>> canonical_path("file:///lake/a"), canonical_path("/lake/a"), canonical_path("a")
    ('/lake/a', '/lake/a', 'a')
    """
    return _FILE_URI_RE.sub(r"/\1", path) if path.startswith("file:") else path


def _key(row: Any) -> str:
    path = canonical_path(row.path)
    dv = row.deletion_vector
    if dv is None:
        return path
    at = "" if dv.offset is None else f"@{dv.offset}"
    return f"{path}{_DV_MARK}{dv.storage_type}{dv.path_or_inline_dv}{at}"


def canonical_paths(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """:func:`canonical_path` of a column; untouched where there is nothing to do."""
    if pc.any(pc.starts_with(paths, "file:")).as_py():
        return pc.replace_substring_regex(paths, _FILE_URI, r"/\1")
    return paths


def key_array(paths: pa.ChunkedArray, vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """The keys by which a column of paths and one of deletion vectors reconcile."""
    paths = canonical_paths(paths)
    if vectors.null_count == len(vectors):
        return paths
    kind = pc.struct_field(vectors, "storage_type")
    offset = pc.cast(pc.struct_field(vectors, "offset"), pa.string())
    at = pc.fill_null(pc.binary_join_element_wise(pa.scalar(""), offset, "@"), "")
    value = pc.struct_field(vectors, "path_or_inline_dv")
    marked = pc.binary_join_element_wise(paths, kind, _DV_MARK)
    return pc.coalesce(pc.binary_join_element_wise(marked, value, at, ""), paths)


# -- rows to Arrow -----------------------------------------------------------------------------


def files_table(rows: Collection[Any]) -> pa.Table:
    """Adds as a table of FILES_SCHEMA."""
    return table_of(rows, FILES_SCHEMA)


def tombstones_table(rows: Collection[Any]) -> pa.Table:
    """Removes as a table of TOMBSTONES_SCHEMA."""
    return table_of(rows, TOMBSTONES_SCHEMA)
