"""The actions of data files: what is added and removed, what changed, and deletion vectors.

What lives here: :class:`AddFile`, :class:`RemoveFile`, :class:`AddCDCFile` and :class:`DeletionVector`, what
their statistics say of the rows, and the encoding of paths.
What it does not know: the files themselves, which of them are part of a table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from deltanb.actions.base import Action, action, extra_fields
from deltanb.errors import InvalidAction
from deltanb.options import options

MAX_ROWS = 2**36  # no file has as many; a statistic that says so is damaged, and says nothing

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


STORAGE_TYPES = {"i": "inline", "u": "relative", "r": "relative", "p": "absolute"}
"""Where a deletion vector can be, in a word; ``r`` came with adaptive metadata (delta-io/delta#7463)."""


@action
class DeletionVector(Action):
    """Where the deleted row positions of a file are (PROTOCOL.md, "Deletion Vector Descriptor Schema").

    ``storage_type`` is ``u`` (relative, with a UUID), ``r`` (relative path), ``p`` (absolute path) or ``i``
    (inline); ``size_in_bytes`` and ``cardinality`` (rows deleted) are integers, ``offset`` is in bytes.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": range(99)}, properties={"delta.enableDeletionVectors": True})
    >>> _ = table.delete("id = 5")
    >>> [add] = [action for action in table.log.read_commit(1) if isinstance(action, AddFile)]
    >>> add.deletion_vector.cardinality
    1
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
        """``<storage type><path or data>[@offset]``: half of a logical file's key.

        >>> DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 34, 1, offset=4).unique_id
        'uab^-aqEH.-t@S}K{vb[*k^@4'
        """
        start = f"{self.storage_type}{self.path_or_inline_dv}"
        return start if self.offset is None else f"{start}@{self.offset}"


class _Counts(msgspec.Struct):
    numRecords: int | None = None


_Counted = msgspec.json.Decoder(_Counts)
_Parts, _encode = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Encoder().encode
"""Statistics taken apart and put together again as they are written: as floats long decimals are others."""


def statistics_of(stats: str | None) -> dict[str, Any]:
    """A file's statistics, parsed; empty where there are none, or none that can be read."""
    try:
        parsed = json.loads(stats) if stats else None
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def num_records_of(stats: str | None) -> int | None:
    """``numRecords`` of a file's statistics, physical rows; None where unknown."""
    try:  # the rest of the statistics is not wanted here
        number = _Counted.decode(stats).numRecords if stats else None
    except (msgspec.MsgspecError, UnicodeError):
        number = statistics_of(stats).get("numRecords")
    return number if isinstance(number, int) and 0 <= number < MAX_ROWS else None


class FileAction(Action):
    """A change to the set of data files: add, remove or cdc.

    >>> add = AddFile("a", {"day": "1"}, 5, 0)
    >>> isinstance(add, FileAction), isinstance(add.remove(), FileAction)
    (True, True)
    """

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
        """(path, deletion vector id): what replay reconciles by (PROTOCOL.md, "Action Reconciliation").

        >>> add = AddFile("a", {}, 5, 0)
        >>> add.file_key, add.with_deletion_vector(DeletionVector("i", "x", 1, 1)).file_key
        (('a', None), ('a', 'ix'))
        """
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def num_records(self) -> int | None:
        """``numRecords`` of the statistics, physical rows; None where unknown.

        >>> AddFile("a", stats='{"numRecords":3}').num_records, AddFile("a").num_records
        (3, None)
        """
        return num_records_of(getattr(self, "stats", None))

    @property
    def has_tight_bounds(self) -> bool:
        """Whether the statistics claim that bounds are met by a row; so they do where they do not say
        ``tightBounds`` (PROTOCOL.md, "Per-file Statistics").

        >>> add = AddFile("a", {}, 5, 0, stats='{"numRecords":3}')
        >>> add.has_tight_bounds, add.with_deletion_vector(DeletionVector("i", "x", 1, 1)).has_tight_bounds
        (True, False)
        """
        return self._statistic("tightBounds") is not False

    @property
    def statistics(self) -> dict[str, Any]:
        """The statistics as a dict: ``numRecords``, and by column ``minValues``, ``maxValues`` and
        ``nullCount``; empty where there are none, or none that can be read.

        >>> AddFile("a", {}, 5, 0, stats='{"numRecords":3,"minValues":{"day":1}}').statistics["minValues"]
        {'day': 1}
        """
        return statistics_of(getattr(self, "stats", None))

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
        """The tombstone for this file; the time is the clock's unless given.

        >>> removed = AddFile("a", {"day": "1"}, 5, 0).remove(deletion_timestamp=1_700_000_000_000)
        >>> removed.path, removed.partition_values, removed.deletion_timestamp
        ('a', {'day': '1'}, 1700000000000)
        """
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
        """From a row of :attr:`Snapshot.files <deltanb.log.snapshot.Snapshot.files>` as a dict.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> [row] = dn.create(MemoryStore(), {"id": [1, 2]}).snapshot.files.to_pylist()
        >>> AddFile.from_row(row).num_records
        2
        """
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
    """A logical file leaves the table; the tombstone stays until it expires (PROTOCOL.md, as AddFile).

    >>> RemoveFile("a", deletion_timestamp=1).to_json()
    '{"remove":{"path":"a","deletionTimestamp":1,"dataChange":true}}'
    """

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
    """A file of row-level changes (PROTOCOL.md, "Add CDC File").

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})
    >>> _ = table.update({"id": "id + 10"}, "id = 1")
    >>> [cdc] = [action for action in table.log.read_commit(1) if isinstance(action, AddCDCFile)]
    >>> cdc.path.startswith("_change_data/"), cdc.data_change
    (True, False)
    """

    key = "cdc"

    path: str
    partition_values: dict[str, str | None] = field(default_factory=dict)
    size: int = 0
    data_change: bool = False
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()


def vectors_of(actions: Sequence[Action]) -> dict[str, DeletionVector]:
    """The vectors with which a commit puts files back that it removes, by path.

    >>> vector = DeletionVector("i", "x", 1, 1)
    >>> adds = AddFile("a", deletion_vector=vector), AddFile("b")
    >>> list(vectors_of([*adds, RemoveFile("a"), RemoveFile("b")]))
    ['a']
    """
    removed = {action.path for action in actions if isinstance(action, RemoveFile)}
    return {action.path: action.deletion_vector for action in actions
            if isinstance(action, AddFile) and action.deletion_vector is not None and action.path in removed}
