"""Comparison of a version with its checksum: what is cheap on opening, everything on request.

What lives here: the comparison of a snapshot with its ``.crc`` file (PROTOCOL.md, "Version Checksum File"),
the warning, and :class:`Recorded`, which is passed from version to version so that a commit does not hide a
mismatch.
What it does not know: how the file is read and written (``checksum``).

A table whose log lost a line still reads, with rows missing; only the checksum reveals it. So counts, sizes,
protocol, metadata, transactions and domains are compared as soon as both sides are known, and the commit's
id, its time and the deletion vectors if replay reads them. A difference is a
:class:`~deltanb.errors.ChecksumMismatchWarning`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from deltanb import errors
from deltanb.actions import CommitInfo, Metadata, Protocol
from deltanb.actions.base import camel
from deltanb.errors import ChecksumMismatchWarning, InvalidTable, VersionNotFound
from deltanb.log import checksum as files
from deltanb.log.checksum import Checksum
from deltanb.log.commit_times import timestamp_of
from deltanb.log.compute import pc
from deltanb.log.segment import checksum_name
from deltanb.log.tally import DELETED_BINS, binned
from deltanb.text.display import Displayable
from deltanb.text.safe_text import get_logger, safe

if TYPE_CHECKING:
    from deltanb.log.file_set import FileSet
    from deltanb.log.snapshot import Snapshot, State
    from deltanb.store.base import LogStore

__all__ = [
    "ChecksumVerification", "Comparison", "Recorded", "compare", "compare_definition", "read", "verify",
]

MAX_SHOWN = 80
"""Characters of a value in a message: a schema has thousands."""

MAX_NAMED = 4
"""Differences in a message; verify_checksum() has them all."""

MAX_PATHS = 10
"""Paths of files that a difference lists; there may be as many as the table has files."""

_DELETIONS = ("numDeletionVectorsOpt", "numDeletedRecordsOpt")

logger = get_logger(__name__)


@dataclass(frozen=True)
class Comparison:
    """One field of a checksum: its name, the recorded value, and the actual value from the log."""

    field: str
    recorded: Any
    actual: Any

    @property
    def agrees(self) -> bool:
        """Whether both values are equal."""
        return bool(self.recorded == self.actual)

    def __str__(self) -> str:
        parts = [f"{name}: the checksum says {_shown(recorded)}, the log gives {_shown(actual)}"
                 for name, recorded, actual in self.details()]
        more = [f"and {len(parts) - MAX_NAMED} more in {self.field}"] if len(parts) > MAX_NAMED else []
        return "; ".join(parts[:MAX_NAMED] + more)

    def details(self) -> Iterator[tuple[str, Any, Any]]:
        """The parts that differ: for an action or a mapping, only its differing fields."""
        both = _mapping(self.recorded), _mapping(self.actual)
        if both[0] is None or both[1] is None:
            yield self.field, self.recorded, self.actual
            return
        for name in dict.fromkeys((*both[0], *both[1])):
            recorded, actual = both[0].get(name), both[1].get(name)
            if recorded != actual:
                yield f"{self.field}.{name}", recorded, actual


def _some(differences: Sequence[Comparison]) -> str:
    """The first differences in words."""
    rest = len(differences) - MAX_NAMED
    return "; ".join(map(str, differences[:MAX_NAMED])) + (f"; and {rest} more fields" if rest > 0 else "")


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Metadata | Protocol):
        return value.to_value()
    return value if isinstance(value, Mapping) else None


def _shown(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


# -- when a table is opened ---------------------------------------------------------------------


class Recorded:
    """The checksum of an opened version, and how the log differs from it.

    Known values are compared at once; counts are compared when they are made (:meth:`note`). States of later
    versions keep it: see :meth:`carried`.
    """

    def __init__(self, checksum: Checksum, state: State, root: str) -> None:
        self.checksum, self.version, self.root = checksum, state.version, root
        self.state: State | None = state
        """The opened version, until its files are counted."""
        self.differences: list[Comparison] = []
        self._uncounted = {"numFiles", "tableSizeBytes"}
        self._lock = threading.Lock()

    def compare(self) -> None:
        """Compare what is known without cost; to be called once.

        Warns:
            ChecksumMismatchWarning: something differs.
        """
        state, checksum = self.state, self.checksum
        assert state is not None and state.metadata is not None and state.protocol is not None
        txns = {app: txn.version for app, txn in state.txns.items()}
        domains = {name: domain.configuration for name, domain in state.domains.items()}
        comparisons = list(compare_definition(checksum, state.protocol, state.metadata, txns, domains))
        if checksum.txn_id is not None or checksum.in_commit_timestamp is not None:
            comparisons += _of_info(checksum, state.commit_info)
        if checksum.num_deletion_vectors is not None or checksum.num_deleted_records is not None:
            comparisons += _of_deletions(checksum, state.files.known_deletions)
        guess = state.files.guessed_num_files()
        if guess is not None and guess != checksum.num_files:
            comparisons += self._waiting(state.files.num_files, state.files.size_in_bytes)
        else:
            comparisons += self._waiting(*state.files.known)
        self._tell(comparisons)

    def note(self, files: FileSet) -> None:
        """Compare counts of the opened version that were just made.

        Warns:
            ChecksumMismatchWarning: they differ.
        """
        if self.state is not None and self.state.files is files:
            self._tell(self._waiting(*files.known))

    def count(self) -> None:
        """Compare all counts, making them if necessary.

        Warns:
            ChecksumMismatchWarning: they differ.
        """
        state = self.state
        if state is not None:
            self._tell(self._waiting(state.files.num_files, state.files.size_in_bytes))

    def _waiting(self, num_files: int | None, size: int | None) -> list[Comparison]:
        """The pending comparisons that these counts decide, each once."""
        recorded = {"numFiles": self.checksum.num_files, "tableSizeBytes": self.checksum.table_size_bytes}
        actual = {"numFiles": num_files, "tableSizeBytes": size}
        with self._lock:
            ready = [field for field in self._uncounted if actual[field] is not None]
            self._uncounted -= set(ready)
            if not self._uncounted:
                self.state = None
        return [Comparison(field, recorded[field], actual[field]) for field in ready]

    def _tell(self, compared: Sequence[Comparison]) -> None:
        differing = [one for one in compared if not one.agrees]
        if differing:
            self.differences += differing
            warn(f"{checksum_name(self.version)} of {self.root} does not agree with the log: "
                 f"{_some(differing)}. The log was changed after it was written: rows may be "
                 "missing. Compare everything with verify_checksum(), restore the log from a copy, or delete "
                 "the .crc file if the log is right")

    def carried(self, store: LogStore, checksum: Checksum, state: State) -> Checksum:
        """The checksum of a later version with the differences of the opened one.

        A commit knows what it changed, not what was lost before it. So a difference between the checksum of
        the opened version and the log is kept in later checksums until it is repaired.

        Warns:
            ChecksumMismatchWarning: there are differences.
        """
        self.count()
        if not self.differences or store.status(checksum_name(self.version)) is None:
            return checksum
        by_field = {one.field: one for one in self.differences}
        changes: dict[str, Any] = {}
        for field, name in (("numFiles", "num_files"), ("tableSizeBytes", "table_size_bytes")):
            if field in by_field:
                one = by_field[field]
                changes[name] = max(0, getattr(checksum, name) + one.recorded - one.actual)
        if changes or any(field in by_field for field in _DELETIONS):
            changes |= {"histogram": None, "num_deletion_vectors": None, "num_deleted_records": None,
                        "deleted_counts": None}
        for field in ("metadata", "protocol"):
            if field in by_field and getattr(state, field) == by_field[field].actual:
                changes[field] = by_field[field].recorded
        for field, name in (("setTransactions", "set_transactions"), ("domainMetadata", "domain_metadata")):
            if field in by_field:
                changes[name] = None  # optional: nothing is said rather than something doubtful
        warn(f"{checksum_name(state.version)} of {self.root} builds on what the checksum of version "
             f"{self.version} says, which the log contradicts: {_some(self.differences)}. "
             "Restore the log from a copy, or delete the .crc files from that version on if the log is right")
        return replace(checksum, **changes)


def read(store: LogStore, state: State) -> Recorded | None:
    """The checksum of a state's version, compared as far as that is free; None without one.

    Warns:
        ChecksumMismatchWarning: something differs.
    """
    checksum = files.read_checksum(store, state.version)
    if checksum is None or state.protocol is None or state.metadata is None:
        return None
    recorded = Recorded(checksum, state, store.root)
    recorded.compare()
    return recorded


def warn(message: str) -> None:
    """Log the differences, and warn at the caller's line outside this library."""
    message = safe(message)
    logger.warning("%s", message)
    errors.warn(message, ChecksumMismatchWarning)


# -- everything ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ChecksumVerification(Displayable):
    """A version compared with its ``.crc`` file, field by field.

    ``problem`` is the reason if nothing could be compared: the file is missing or cannot be read.

    >>> found = ChecksumVerification("ducks", 3, (Comparison("numFiles", 3, 2),))
    >>> found.ok, str(found.differences[0])
    (False, 'numFiles: the checksum says 3, the log gives 2')
    """

    table: str
    version: int
    compared: tuple[Comparison, ...] = ()
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a checksum and all fields agree.

        >>> ChecksumVerification("ducks", 3, (Comparison("numFiles", 3, 3),)).ok
        True
        >>> ChecksumVerification("ducks", 3, problem="there is no .crc file").ok
        False
        """
        return self.problem is None and not self.differences

    @property
    def differences(self) -> tuple[Comparison, ...]:
        """The fields that do not agree.

        >>> compared = Comparison("numFiles", 3, 3), Comparison("tableSizeBytes", 900, 800)
        >>> [each.field for each in ChecksumVerification("ducks", 3, compared).differences]
        ['tableSizeBytes']
        """
        return tuple(one for one in self.compared if not one.agrees)

    def raise_if_wrong(self) -> None:
        """Raise unless :attr:`ok`.

        Raises:
            InvalidTable: a field differs, or nothing could be compared; ``.fields`` has their names.

        >>> ChecksumVerification("ducks", 3, (Comparison("numFiles", 3, 2),)).raise_if_wrong()
        Traceback (most recent call last):
            ...
        deltanb.errors.InvalidTable: ...
        """
        if self.ok:
            return
        name = checksum_name(self.version)
        what = self.problem or _some(self.differences)
        raise InvalidTable(
            f"version {self.version} of {self.table} is not what {name} says: {what}. Restore the log from a "
            "copy, or delete the .crc file if the log is right",
            path=self.table, file=name, version=self.version,
            fields=tuple(one.field for one in self.differences))


def verify(snapshot: Snapshot) -> ChecksumVerification:
    """Compare the checksum of a snapshot's version with the log.

    Reads the ``.crc`` file, the commit of the version and the list of files. A difference is not an error
    here; see :meth:`ChecksumVerification.raise_if_wrong`.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> verify(table.snapshot).ok
    True
    """
    root, version = snapshot.log.path, snapshot.version
    store = snapshot.log.store
    checksum = files.read_checksum(store, version)
    if checksum is None:
        name = checksum_name(version)
        exists = store.status(name) is not None
        problem = f"{name} is damaged" if exists else f"there is no {name}"
        return ChecksumVerification(root, version, (), problem)
    return ChecksumVerification(root, version, tuple(compare(snapshot, checksum)))


def compare(snapshot: Snapshot, checksum: Checksum) -> Iterator[Comparison]:
    """The comparison of each field that the checksum has."""
    yield Comparison("tableSizeBytes", checksum.table_size_bytes, snapshot.size_in_bytes)
    yield Comparison("numFiles", checksum.num_files, snapshot.num_files)
    domains = {name: domain.configuration for name, domain in snapshot.domain_metadata.items()}
    yield from compare_definition(
        checksum, snapshot.protocol, snapshot.metadata, snapshot.set_transactions, domains)
    yield from _of_commit(snapshot, checksum)
    if checksum.histogram is not None:
        yield Comparison("fileSizeHistogram", *_sizes(snapshot, checksum.histogram))
    yield from _deleted(snapshot, checksum)
    if checksum.all_files is not None:
        yield Comparison("allFiles", *_all_files(snapshot, checksum.all_files))


def compare_definition(
    checksum: Checksum, protocol: Protocol, metadata: Metadata,
    txns: Mapping[str, int], domains: Mapping[str, str],
) -> Iterator[Comparison]:
    """The fields that a state has without its files."""
    for name, count in (("numMetadata", checksum.num_metadata), ("numProtocol", checksum.num_protocol)):
        if count is not None:
            yield Comparison(name, count, 1)
    if checksum.metadata is not None:
        yield Comparison("metadata", checksum.metadata, metadata)
    if checksum.protocol is not None:
        yield Comparison("protocol", _ordered(checksum.protocol), _ordered(protocol))
    if checksum.set_transactions is not None:
        recorded = {txn.app_id: txn.version for txn in checksum.set_transactions}
        if "delta.setTransactionRetentionDuration" in metadata.configuration:
            # Old ones are left out of checksums and checkpoints, not at the same time.
            both = recorded.keys() & txns.keys()
            recorded, txns = ({app: of[app] for app in sorted(both)} for of in (recorded, txns))
        yield Comparison("setTransactions", recorded, dict(txns))
    if checksum.domain_metadata is not None:
        listed = {d.domain: d.configuration for d in checksum.domain_metadata if not d.removed}
        yield Comparison("domainMetadata", listed, dict(domains))


def _of_info(checksum: Checksum, info: bytes | CommitInfo | None) -> Iterator[Comparison]:
    """The fields of the version's commitInfo, if replay has read it."""
    try:
        known = _Info(info.txn_id, info.in_commit_timestamp) if isinstance(info, CommitInfo) else \
            msgspec.json.decode(info or b"{}", type=_Info)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for name, recorded, actual in (
            ("txnId", checksum.txn_id, known.txnId),
            ("inCommitTimestampOpt", checksum.in_commit_timestamp, known.inCommitTimestamp)):
        if recorded is not None and actual is not None:
            yield Comparison(name, recorded, actual)


class _Info(msgspec.Struct):
    txnId: Any = None
    inCommitTimestamp: Any = None


def _of_deletions(checksum: Checksum, known: tuple[int, int] | None) -> Iterator[Comparison]:
    """The numbers of deletion vectors and of deleted rows, if both sides have them."""
    recorded = (checksum.num_deletion_vectors, checksum.num_deleted_records)
    for name, expected, actual in zip(_DELETIONS, recorded, known or (), strict=False):
        if expected is not None:
            yield Comparison(name, expected, actual)


def _ordered(protocol: Protocol) -> Protocol:
    """A protocol with its lists as sets: order and empty lists do not matter."""
    return protocol.replace(
        reader_features=tuple(sorted(protocol.reader_features or ())) or None,
        writer_features=tuple(sorted(protocol.writer_features or ())) or None)


def _of_commit(snapshot: Snapshot, checksum: Checksum) -> Iterator[Comparison]:
    """The fields of the version's commit; none if it was cleaned up."""
    if checksum.in_commit_timestamp is not None:
        yield Comparison("inCommitTimestampOpt", checksum.in_commit_timestamp, timestamp_of(snapshot))
    if checksum.txn_id is None:
        return
    try:
        actions = snapshot.log.read_commit(snapshot.version)
    except VersionNotFound:
        return
    infos = [action for action in actions if isinstance(action, CommitInfo)]
    if infos and infos[0].txn_id is not None:
        yield Comparison("txnId", checksum.txn_id, infos[0].txn_id)


def _sizes(snapshot: Snapshot, recorded: Mapping[str, list[int]]) -> tuple[Any, Any]:
    """Both as (bin start, files, bytes) of the non-empty bins."""
    starts = recorded["sortedBinBoundaries"]
    bins = zip(starts, *binned(snapshot.select_files(["size"]).column(0), starts), strict=True)
    listed = zip(starts, recorded["fileCounts"], recorded["totalBytes"], strict=True)
    return [one for one in listed if one[1]], [one for one in bins if one[1]]


def _deleted(snapshot: Snapshot, checksum: Checksum) -> Iterator[Comparison]:
    """Deletion vectors, the rows they delete, and how these spread over the files."""
    recorded = (checksum.num_deletion_vectors, checksum.num_deleted_records, checksum.deleted_counts)
    if recorded == (None, None, None):
        return
    vectors = snapshot.select_files(["deletion_vector"]).column(0)
    counts = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
    known = len(vectors) - vectors.null_count, pc.sum(counts).as_py() or 0
    yield from _of_deletions(checksum, known)
    if checksum.deleted_counts is not None:
        yield Comparison("deletedRecordCountsHistogramOpt", checksum.deleted_counts,
                         binned(counts, DELETED_BINS)[0])


def _all_files(snapshot: Snapshot, recorded: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Both as lists of what only one side has: paths, and the differing fields of common files."""
    columns = ["path", "size", "modification_time", "partition_values", "deletion_vector"]
    rows = snapshot.select_files(columns).to_pylist(maps_as_pydicts="lossy")
    listed = {_key(row["path"], row.get("deletionVector")): row for row in recorded}
    by_key = {_key(row["path"], _wire(row["deletion_vector"])): {camel(k): v for k, v in row.items()}
             for row in rows}
    names = ("size", "modificationTime", "partitionValues")

    def differ(key: str) -> list[str]:
        both = listed[key], by_key[key]
        return [name for name in names if name in both[0] and both[0][name] != both[1][name]]

    changed = {key: differ(key) for key in listed.keys() & by_key.keys()}
    return _listed(listed, changed), _listed(by_key, changed)


def _listed(files: dict[str, dict[str, Any]], changed: dict[str, list[str]]) -> list[str]:
    lines = []
    for key in sorted(files):
        if key not in changed:
            lines.append(key)
        elif changed[key]:
            lines.append(f"{key} ({', '.join(f'{name} {files[key][name]}' for name in changed[key])})")
    return lines if len(lines) <= MAX_PATHS else [*lines[:MAX_PATHS], f"and {len(lines) - MAX_PATHS} more"]


def _key(path: str, vector: Mapping[str, Any] | None) -> str:
    known = {name: value for name, value in sorted((vector or {}).items()) if name != "maxRowIndex"}
    return f"{path} with {json.dumps(known)}" if known else path


def _wire(vector: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if vector is None:
        return None
    names = ("storage_type", "path_or_inline_dv", "offset", "size_in_bytes", "cardinality")
    return {camel(name): vector[name] for name in names if vector[name] is not None}
