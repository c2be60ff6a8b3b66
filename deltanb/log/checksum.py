"""Version checksums: what the table is at one version, in a small file beside the commit.

Lives here: the ``.crc`` file of PROTOCOL.md, "Version Checksum File": reading (tolerant, for it is
optional) and writing after a commit.

Does not know: when one is due, and how it is compared with a table (``verification``). A checksum that
cannot be read counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from deltanb.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from deltanb.actions.base import as_json
from deltanb.errors import DeltaError
from deltanb.log.commit_times import timestamp_of
from deltanb.log.segment import checksum_name
from deltanb.log.tally import DELETED_BINS, SIZE_BINS, Deletions, Sizes, Tally
from deltanb.schema.protocol import is_active, supports
from deltanb.store.local import unsynced
from deltanb.text.damage import what_is_wrong
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

logger = get_logger(__name__)

_COUNTS = ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "inCommitTimestampOpt",
           "numDeletedRecordsOpt", "numDeletionVectorsOpt")

MAX_LISTED = 100
"""Transactions and domains are listed up to this number; a checksum is written at every commit and
must stay small. Both lists are optional."""


@dataclass(frozen=True)
class Checksum:
    """The content of one ``.crc`` file; what the file leaves out is None. Sizes are in bytes."""

    table_size_bytes: int
    num_files: int
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    histogram: dict[str, list[int]] | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    deleted_counts: list[int] | None = None
    all_files: list[dict[str, Any]] | None = None
    num_metadata: int | None = 1
    num_protocol: int | None = 1

    def to_json(self) -> str:
        """The file's content, by PROTOCOL.md, "Version Checksum File Schema"."""
        before = {
            "txnId": self.txn_id,
            "tableSizeBytes": self.table_size_bytes,
            "numFiles": self.num_files,
            "numDeletedRecordsOpt": self.num_deleted_records,
            "numDeletionVectorsOpt": self.num_deletion_vectors,
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": self.in_commit_timestamp,
            "setTransactions": _values(self.set_transactions),
            "domainMetadata": _values(self.domain_metadata),
        }
        parts = [as_json({name: value for name, value in before.items() if value is not None})[:-1]]
        if self.metadata is not None:
            parts.append(f'"metadata":{self.metadata.value_json}')
        if self.protocol is not None:
            parts.append(f'"protocol":{self.protocol.value_json}')
        if self.histogram is not None:
            parts.append(f'"fileSizeHistogram":{msgspec.json.encode(self.histogram).decode()}')
        if self.deleted_counts is not None:
            spread = {"deletedRecordCounts": self.deleted_counts}
            parts.append(f'"deletedRecordCountsHistogramOpt":{as_json(spread)}')
        return ",".join(parts) + "}"


# -- reading -----------------------------------------------------------------------------------


def read_checksum(store: LogStore, version: int) -> Checksum | None:
    """The checksum of a version, or None if it is absent or not one."""
    name = checksum_name(version)
    try:
        data = store.read(name)
    except FileNotFoundError:
        return None
    except Exception as error:
        _ignored(name, error)
        return None
    return parse_checksum(data, name)


def parse_checksum(data: bytes, name: str) -> Checksum | None:
    """The content of a checksum's file, or None if it is not one."""
    try:
        return _parse(json.loads(data))
    except Exception as error:
        _ignored(name, error)
        return None


def _ignored(name: str, error: Exception) -> None:
    """It is optional, whatever is in it."""
    logger.warning("%s is ignored: %s", name, what_is_wrong(error))


def read_tally(store: LogStore, version: int, may_have_vectors: bool = True) -> Tally | None:
    """The file counts in a version's checksum; None if it has none.

    ``may_have_vectors``: whether its protocol allows deletion vectors; else there are none. A
    histogram that does not add up to the number of files, or has other bins than ours, is left out.
    """
    try:
        counts = _Counts.decode(store.read(checksum_name(version)))
    except (OSError, DeltaError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if min(counts.numFiles, counts.tableSizeBytes) < 0:
        return None
    return Tally(counts.numFiles, counts.tableSizeBytes, _sizes_of(counts),
                 _deletions_of(counts) if may_have_vectors else Deletions.none(counts.numFiles))


class _BySize(msgspec.Struct):
    sortedBinBoundaries: list[int]
    fileCounts: list[int]
    totalBytes: list[int]


class _ByDeleted(msgspec.Struct):
    deletedRecordCounts: list[int]


class _CountsOfFiles(msgspec.Struct):
    numFiles: int
    tableSizeBytes: int
    numDeletedRecordsOpt: int | None = None
    numDeletionVectorsOpt: int | None = None
    fileSizeHistogram: _BySize | None = None
    histogramOpt: _BySize | None = None
    deletedRecordCountsHistogramOpt: _ByDeleted | None = None


_Counts = msgspec.json.Decoder(_CountsOfFiles)


def _sizes_of(tally: _CountsOfFiles) -> Sizes | None:
    by_size = tally.fileSizeHistogram or tally.histogramOpt
    if by_size is None or tuple(by_size.sortedBinBoundaries) != SIZE_BINS:
        return None
    counts, sizes = by_size.fileCounts, by_size.totalBytes
    if (len(counts), len(sizes), sum(counts), sum(sizes)) != (
            len(SIZE_BINS), len(SIZE_BINS), tally.numFiles, tally.tableSizeBytes):
        return None
    return Sizes(counts, sizes)


def _deletions_of(tally: _CountsOfFiles) -> Deletions | None:
    vectors, rows, spread = (
        tally.numDeletionVectorsOpt, tally.numDeletedRecordsOpt, tally.deletedRecordCountsHistogramOpt)
    if vectors is None or rows is None or spread is None:
        return None
    counts = spread.deletedRecordCounts
    if len(counts) != len(DELETED_BINS) or sum(counts) != tally.numFiles:
        return None
    return Deletions(vectors, rows, counts)


def _parse(value: dict[str, Any]) -> Checksum:
    counts = {name: _count(value, name) for name in _COUNTS}
    if counts["tableSizeBytes"] is None or counts["numFiles"] is None:
        raise ValueError("it lacks tableSizeBytes or numFiles")
    deleted = value.get("deletedRecordCountsHistogramOpt")
    return Checksum(
        table_size_bytes=counts["tableSizeBytes"],
        num_files=counts["numFiles"],
        # Files of old writers hold counts only.
        metadata=_parse_one(Metadata, value.get("metadata")),
        protocol=_parse_one(Protocol, value.get("protocol")),
        txn_id=value.get("txnId"),
        in_commit_timestamp=counts["inCommitTimestampOpt"],
        set_transactions=_parse_all(SetTransaction, value.get("setTransactions")),
        domain_metadata=_parse_all(DomainMetadata, value.get("domainMetadata")),
        # Spark's name for the histogram is older than the protocol's.
        histogram=_histogram(value.get("fileSizeHistogram") or value.get("histogramOpt")),
        num_deleted_records=counts["numDeletedRecordsOpt"],
        num_deletion_vectors=counts["numDeletionVectorsOpt"],
        deleted_counts=None if deleted is None else _integers(deleted["deletedRecordCounts"]),
        all_files=_files(value.get("allFiles")),
        num_metadata=counts["numMetadata"],
        num_protocol=counts["numProtocol"],
    )


def _count(value: dict[str, Any], name: str) -> int | None:
    number = value.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise ValueError(f"{name} must be an integer")
    return number


def _integers(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError("a histogram consists of integers")
    return values


def _histogram(value: Any) -> dict[str, list[int]] | None:
    if value is None:
        return None
    lists = {name: _integers(value[name]) for name in ("sortedBinBoundaries", "fileCounts", "totalBytes")}
    if len(set(map(len, lists.values()))) > 1 or not lists["fileCounts"]:
        raise ValueError("a histogram's lists must have one length")
    return lists


def _files(value: Any) -> list[dict[str, Any]] | None:
    if value is None:
        return None
    for file in value:
        AddFile.from_value(file)
    return list(value)


def _parse_one(kind: type[Any], value: Any) -> Any:
    return None if value is None else kind.from_value(value)


def _parse_all(kind: type[Any], values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(kind.from_value(value) for value in values)


# -- writing -----------------------------------------------------------------------------------


def write_checksum(store: LogStore, snapshot: Snapshot, actions: Sequence[Action] = ()) -> Checksum:
    """Write the checksum of a snapshot's version; a file that is there already is left alone.

    ``actions`` are those of the commit, for its transaction id and in-commit timestamp. Counts, sizes and
    histograms come from the snapshot, which carries them forward from version to version, and from the
    checksums of other writers where these were first; what the table's last checksum said otherwise is
    carried forward, too.

    Warns:
        ChecksumMismatchWarning: it is.
    """
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    checksum = _checksum_of(snapshot, info)
    recorded = snapshot._state.recorded
    if recorded is not None:
        checksum = recorded.carried(store, checksum, snapshot._state)
    name = checksum_name(snapshot.version)
    unsynced(store).put_if_absent(name, checksum.to_json().encode())
    return checksum


def _checksum_of(snapshot: Snapshot, info: CommitInfo | None) -> Checksum:
    timestamp = None
    if is_active(snapshot.protocol, snapshot.metadata, "inCommitTimestamp"):
        timestamp = info.in_commit_timestamp if info else timestamp_of(snapshot)
    txns, domains = snapshot.txns, snapshot.domain_metadata
    tally = snapshot.tally
    vectors = tally.deletions if supports(snapshot.protocol, "deletionVectors") else None
    return Checksum(
        table_size_bytes=tally.size_in_bytes,
        num_files=tally.num_files,
        histogram=_by_size(tally.sizes),
        num_deletion_vectors=None if vectors is None else vectors.vectors,
        num_deleted_records=None if vectors is None else vectors.rows,
        deleted_counts=None if vectors is None else list(vectors.counts),
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        txn_id=info.txn_id if info else None,
        in_commit_timestamp=timestamp,
        set_transactions=tuple(txns.values()) if len(txns) <= MAX_LISTED else None,
        domain_metadata=tuple(domains.values()) if len(domains) <= MAX_LISTED else None,
    )


def _by_size(sizes: Sizes | None) -> dict[str, list[int]] | None:
    if sizes is None:
        return None
    return {"sortedBinBoundaries": list(SIZE_BINS), "fileCounts": list(sizes.counts),
            "totalBytes": list(sizes.bytes)}


def _values(actions: Sequence[Action] | None) -> list[dict[str, Any]] | None:
    return None if actions is None else [action.to_value() for action in actions]
