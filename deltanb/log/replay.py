"""From the JSON of commits to the changes they make: parsing and reconciliation.

What lives here: the Arrow schemas of files and tombstones, the key by
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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from deltanb import actions
from deltanb.actions import Action, DomainMetadata, Metadata, SetTransaction
from deltanb.log.arrow_rows import table_of
from deltanb.log.compute import pc
from deltanb.log.lines import Line, decode_actions, explain

if TYPE_CHECKING:
    from deltanb.actions import Protocol as ProtocolAction

__all__ = [
    "CODED_SCHEMA", "DELETION_VECTOR_TYPE", "FILES_SCHEMA", "TOMBSTONES_SCHEMA", "CheckpointParts", "Delta",
    "canonical_path", "feed", "feed_actions", "file_key", "files_table", "key_array",
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

_CODES = pa.dictionary(pa.int32(), pa.string())
CODED_SCHEMA = FILES_SCHEMA.set(
    FILES_SCHEMA.get_field_index("partition_values"), pa.field("partition_values", pa.map_(_CODES, _CODES)))
"""FILES_SCHEMA with partition values as numbers of few texts, which is how a checkpoint stores them."""

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


class CheckpointParts(Protocol):
    """What replay reads from a checkpoint: small actions at once, file actions by column."""

    protocol: ProtocolAction | None
    metadata: Metadata | None
    txns: dict[str, SetTransaction]
    domains: dict[str, DomainMetadata]

    @property
    def num_adds(self) -> int:
        """The number of files it adds."""

    def read_adds(self, columns: list[str], rows: pa.Array | None = None) -> pa.Table:
        """Columns of FILES_SCHEMA, ``stats_parsed`` where present; the same rows at every call.

        ``rows``: ascending positions, None for all.
        """

    def stream_adds(self, columns: list[str], rows: pa.Array | None = None) -> Iterator[pa.Table]:
        """The same in batches."""

    def read_partition_values(self) -> pa.ChunkedArray:
        """Those of :meth:`read_adds`, in the type of CODED_SCHEMA."""

    def read_stats(
        self, leaves: Sequence[str], rows: pa.Array | None, convert: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """What ``convert`` makes of tables with ``stats_parsed`` (the named leaves) or ``stats``."""

    def read_removes(self) -> pa.Table:
        """The tombstones, by TOMBSTONES_SCHEMA."""


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
        """Add later file actions, which override earlier ones."""
        for key, row in later.adds.items():
            self.removes.pop(key, None)
            self.adds[key] = row
        for key, row in later.removes.items():
            self.adds.pop(key, None)
            self.removes[key] = row

    def extend(self, later: Delta) -> None:
        """Add a later delta, which overrides this one."""
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
            key = file_key(action)
            self.removes.pop(key, None)
            self.adds[key] = action
        elif isinstance(action, actions.RemoveFile):
            key = file_key(action)
            if self.adds.pop(key, None) is not None:
                self.passing += 1
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

    Compactions are read with ``newest_first``: some writers only concatenate the commits, newest first, so
    the first action on a file decides.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.
    """
    delta.commit_info = None
    try:
        lines = decode_actions(data)
        if not lines:
            raise ValueError("no actions")
        others = 0
        for line in reversed(lines) if newest_first else lines:
            if (add := line.add) is not None:
                key = add.path
                if key[0:1] == "/" or key[0:5] == "file:" or add.deletion_vector is not None:
                    key = file_key(add)
                if delta.removes:
                    delta.removes.pop(key, None)
                delta.adds[key] = add
            elif (remove := line.remove) is not None:
                key = file_key(remove)
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
    """Like :func:`feed`, for a commit whose actions are parsed already."""
    delta.commit_info = None
    files = 0
    for action in new:
        delta.apply(action)
        files += isinstance(action, actions.AddFile | actions.RemoveFile)
    delta.recent.append(files)


def _feed_small(delta: Delta, line: Line) -> None:
    for key in ("txn", "domainMetadata", "metaData", "protocol"):
        raw = getattr(line, key)
        if raw and (value := json.loads(bytes(raw))) is not None:
            delta.apply(actions.from_dict({key: value}))


# -- keys --------------------------------------------------------------------------------------

# "file:/x" and "file:///x" mean "/x"; a host ("file://nas/x") stays.
_FILE_URI = r"^file:(?://)?/([^/])"
_FILE_URI_RE = re.compile(_FILE_URI)
_DV_MARK = "\x00"  # in no path


def canonical_path(path: str) -> str:
    """The canonical spelling of a local absolute path.

    >>> canonical_path("file:///lake/a"), canonical_path("/lake/a"), canonical_path("a")
    ('/lake/a', '/lake/a', 'a')
    """
    return _FILE_URI_RE.sub(r"/\1", path) if path.startswith("file:") else path


def file_key(row: Any) -> str:
    """The key by which a file reconciles: its path, and the id of its deletion vector if it has one.

    >>> file_key(actions.AddFile(path="file:/lake/a"))
    '/lake/a'
    """
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
