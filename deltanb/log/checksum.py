"""Version checksums: what the table is at one version, in a small file beside the commit.

Lives here: the ``.crc`` file of PROTOCOL.md, "Version Checksum File": reading (tolerant, for it is
optional), comparing with a snapshot, and writing after a commit.

Does not know: when one is due, or what to do about a difference. A checksum that cannot be read is
no checksum; one that differs says that the log was changed by something that is no Delta client.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import (
    Action,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from deltanb.errors import InvalidAction
from deltanb.log.derived import unsynced
from deltanb.log.protocol import is_active

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.log.store import LogStore

logger = logging.getLogger(__name__)

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
    paths: frozenset[str] | None = None

    def to_json(self) -> str:
        """The file's content, by PROTOCOL.md, "Version Checksum File Schema"."""
        fields = {
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
            "metadata": None if self.metadata is None else self.metadata.to_value(),
            "protocol": None if self.protocol is None else self.protocol.to_value(),
            "fileSizeHistogram": self.histogram,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(present, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Difference:
    """A value of the checksum that is not the table's."""

    field: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.field}: the checksum says {self.recorded}, the log gives {self.found}"


def checksum_name(version: int) -> str:
    """The name of a version's checksum.

    >>> checksum_name(1)
    '_delta_log/00000000000000000001.crc'
    """
    return f"_delta_log/{version:020d}.crc"


# -- reading -----------------------------------------------------------------------------------


def read_checksum(store: LogStore, version: int) -> Checksum | None:
    """The checksum of a version, or None if it is absent or not one."""
    name = checksum_name(version)
    try:
        return _parse(json.loads(store.read(name)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("%s is ignored: %s", name, error)
        return None


def _parse(value: dict[str, Any]) -> Checksum:
    counts = {name: value[name] for name in ("tableSizeBytes", "numFiles")}
    if not all(isinstance(count, int) for count in counts.values()):
        raise InvalidAction("tableSizeBytes and numFiles must be integers")
    files = value.get("allFiles")
    return Checksum(
        table_size_bytes=counts["tableSizeBytes"],
        num_files=counts["numFiles"],
        # Files of old writers hold counts only.
        metadata=_parse_one(Metadata, value.get("metadata")),
        protocol=_parse_one(Protocol, value.get("protocol")),
        txn_id=value.get("txnId"),
        in_commit_timestamp=value.get("inCommitTimestampOpt"),
        set_transactions=_parse_all(SetTransaction, value.get("setTransactions")),
        domain_metadata=_parse_all(DomainMetadata, value.get("domainMetadata")),
        # Spark's name for the histogram is older than the protocol's.
        histogram=value.get("fileSizeHistogram") or value.get("histogramOpt"),
        num_deleted_records=value.get("numDeletedRecordsOpt"),
        num_deletion_vectors=value.get("numDeletionVectorsOpt"),
        paths=None if files is None else frozenset(file["path"] for file in files),
    )


def _parse_one(kind: type[Any], value: Any) -> Any:
    return None if value is None else kind.from_value(value)


def _parse_all(kind: type[Any], values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(kind.from_value(value) for value in values)


# -- comparing ---------------------------------------------------------------------------------


def validate(snapshot: Snapshot, checksum: Checksum) -> list[Difference]:
    """Everything the checksum says that is not so in the snapshot of its version.

    What the checksum leaves out is not compared.
    """
    compared = [
        ("tableSizeBytes", checksum.table_size_bytes, snapshot.size_in_bytes),
        ("numFiles", checksum.num_files, snapshot.num_files),
        *_optional(snapshot, checksum),
    ]
    return [Difference(*values) for values in compared if values[1] != values[2]]


def _optional(snapshot: Snapshot, checksum: Checksum) -> Iterator[tuple[str, Any, Any]]:
    if checksum.metadata is not None:
        yield "metadata", checksum.metadata, snapshot.metadata
    if checksum.protocol is not None:
        yield "protocol", _comparable(checksum.protocol), _comparable(snapshot.protocol)
    if checksum.set_transactions is not None:
        listed = {txn.app_id: txn.version for txn in checksum.set_transactions}
        yield "setTransactions", listed, snapshot.set_transactions
    if checksum.domain_metadata is not None:
        recorded = {d.domain: d.configuration for d in checksum.domain_metadata if not d.removed}
        found = {d.domain: d.configuration for d in snapshot.domain_metadata.values()}
        yield "domainMetadata", recorded, found
    if checksum.in_commit_timestamp is not None:
        yield "inCommitTimestampOpt", checksum.in_commit_timestamp, snapshot.timestamp
    if checksum.histogram is not None:
        yield "fileSizeHistogram", *_histograms(snapshot, checksum.histogram)
    if checksum.num_deletion_vectors is not None or checksum.num_deleted_records is not None:
        vectors, records = _deleted(snapshot.select_files(["deletion_vector"]).column(0))
        if checksum.num_deletion_vectors is not None:
            yield "numDeletionVectorsOpt", checksum.num_deletion_vectors, vectors
        if checksum.num_deleted_records is not None:
            yield "numDeletedRecordsOpt", checksum.num_deleted_records, records
    if checksum.paths is not None:
        paths = frozenset(snapshot.select_files(["path"]).column(0).to_pylist())
        yield "allFiles", sorted(checksum.paths - paths), sorted(paths - checksum.paths)


def _comparable(protocol: Protocol) -> tuple[Any, ...]:
    """A protocol's lists are sets: their order says nothing."""
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(protocol.reader_features or ()),
        sorted(protocol.writer_features or ()),
    )


def _histograms(snapshot: Snapshot, recorded: dict[str, list[int]]) -> tuple[Any, Any]:
    """Both as (bin start, files, bytes) of the bins that hold something."""
    starts = recorded["sortedBinBoundaries"]
    counts = dict.fromkeys(starts, 0)
    sizes = dict.fromkeys(starts, 0)
    position = len(starts) - 1
    by_size = pc.value_counts(snapshot.select_files(["size"]).column(0))
    for entry in sorted(by_size.to_pylist(), key=lambda e: e["values"], reverse=True):
        while position > 0 and starts[position] > entry["values"]:
            position -= 1
        counts[starts[position]] += entry["counts"]
        sizes[starts[position]] += entry["counts"] * entry["values"]
    listed = zip(starts, recorded["fileCounts"], recorded["totalBytes"], strict=True)
    found = [(start, counts[start], sizes[start]) for start in starts if counts[start]]
    return [bin_ for bin_ in listed if bin_[1]], found


def _deleted(vectors: pa.ChunkedArray) -> tuple[int, int]:
    """How many deletion vectors there are and how many rows they delete."""
    records = sum(
        pc.sum(chunk.drop_null().field("cardinality")).as_py() or 0
        for chunk in vectors.chunks
        if chunk.null_count < len(chunk)
    )
    return len(vectors) - vectors.null_count, records


# -- writing -----------------------------------------------------------------------------------


def write_checksum(store: LogStore, snapshot: Snapshot, actions: Sequence[Action] = ()) -> Checksum:
    """Write the checksum of a snapshot's version; a file that is there already is left alone.

    ``actions`` are those of the commit, for its transaction id and in-commit timestamp. Counts and
    sizes come from the snapshot, which carries them forward from version to version.
    """
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    checksum = _checksum_of(snapshot, info)
    name = checksum_name(snapshot.version)
    unsynced(store).put_if_absent(name, checksum.to_json().encode())
    return checksum


def _checksum_of(snapshot: Snapshot, info: CommitInfo | None) -> Checksum:
    timestamp = None
    if is_active(snapshot.protocol, snapshot.metadata, "inCommitTimestamp"):
        timestamp = info.in_commit_timestamp if info else snapshot.timestamp
    txns, domains = snapshot.txns, snapshot.domain_metadata
    return Checksum(
        table_size_bytes=snapshot.size_in_bytes,
        num_files=snapshot.num_files,
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        txn_id=info.txn_id if info else None,
        in_commit_timestamp=timestamp,
        set_transactions=tuple(txns.values()) if len(txns) <= MAX_LISTED else None,
        domain_metadata=tuple(domains.values()) if len(domains) <= MAX_LISTED else None,
    )


def _values(actions: Sequence[Action] | None) -> list[dict[str, Any]] | None:
    return None if actions is None else [action.to_value() for action in actions]
