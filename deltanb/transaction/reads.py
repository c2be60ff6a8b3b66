"""What a transaction has read.

What lives here: the read registries (predicates, files, application ids, the whole-table mark) and the
question the conflict rules ask of them: would one of my scans have seen this file?
What it does not know: commits, winners, exceptions.

A scan is remembered by its conjuncts over partition columns alone; a conjunct that touches a data
column, or lies outside the evaluated subset, counts as TRUE. Predicates of different scans are OR-ed.
A scan that found nothing still counts. (Seed of the transaction: ``readPredicates``, ``readFiles``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile
from deltanb.errors import InvalidArgument, UnsupportedPredicate, require
from deltanb.log.arrays import array_of
from deltanb.log.reader import LogReader
from deltanb.log.snapshot import Snapshot
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

NO_IDS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Scan:
    """One read of the table.

    ``sql`` is what was asked, conjunct by conjunct; ``partition`` the conjuncts that count;
    ``partitions`` the exact partition values read, for a lookup by partition (no files recorded).
    """

    sql: tuple[str, ...] = ()
    partition: tuple[Predicate, ...] = ()
    partitions: frozenset[tuple[tuple[str, str | None], ...]] | None = None

    @property
    def text(self) -> str:
        """The scan in words of SQL; ``TRUE`` for a read of everything."""
        if self.partitions is not None:
            shown = [" AND ".join(f"{k} <=> {_literal(v)}" for k, v in values)
                     for values in sorted(self.partitions, key=str)]
            return " OR ".join(shown) or "FALSE"
        return " AND ".join(self.sql) or "TRUE"

    @property
    def partition_text(self) -> str:
        """The part of the scan that conflicts are judged by."""
        if self.partitions is not None:
            return self.text
        return " AND ".join(p.sql for p in self.partition) or "TRUE"

    def matches(
        self, files: Sequence[AddFile], schema: StructType, partition_columns: Sequence[str]
    ) -> list[bool]:
        """For each file, whether this scan would have seen it."""
        if self.partitions is not None:
            return [partition_key(f.partition_values) in self.partitions for f in files]
        if not self.partition:
            return [True] * len(files)
        from deltanb.log.skipping import partitions

        return list(partitions.matches(
            [f.partition_values for f in files], list(self.partition), schema,
            list(partition_columns),
        ))


@dataclass(frozen=True)
class Reads:
    """Everything a transaction has read, as the conflict rules see it."""

    scans: tuple[Scan, ...] = ()
    files: tuple[pa.Table, ...] = ()
    whole_table: bool = False
    app_ids: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    followed: frozenset[str] = frozenset()
    """Files to which rows that were read have been moved since."""
    elsewhere: bool = False
    """Whether the transaction has read other tables, which it commits with this one: what it adds here may
    depend on them, so its additions are no blind append though nothing of this table was read."""
    has_queries: bool = False
    """Whether its SQL had queries within it, which Spark ran: what they read is not recorded."""

    @property
    def depends_on_files(self) -> bool:
        """Whether any data was read: the opposite of a blind append's condition."""
        return bool(self.scans) or any(t.num_rows for t in self.files)

    def first_match(
        self, files: Sequence[AddFile], schema: StructType, partition_columns: Sequence[str]
    ) -> tuple[Scan | None, list[AddFile]]:
        """The first scan that meets one of the files, and all files it meets."""
        for scan in self.scans:
            hits = scan.matches(files, schema, partition_columns)
            met = [f for f, hit in zip(files, hits, strict=True) if hit]
            if met:
                return scan, met
        return None, []

    def read_among(self, paths: Iterable[str]) -> set[str]:
        """Which of the paths are files this transaction read."""
        asked = [p for p in dict.fromkeys(paths) if p not in self.forgotten]
        if not asked:
            return set()
        import pyarrow as pa
        import pyarrow.compute as pc

        read: set[str] = set(self.followed.intersection(asked))
        candidates = pa.array(asked, pa.string())
        for table in self.files:
            if table.num_rows:
                hits = pc.is_in(table["path"], value_set=candidates)
                read.update(table["path"].filter(hits).to_pylist())
        return read

    def partition_values_of(self, path: str) -> dict[str, str | None] | None:
        """The partition values of a file that was read."""
        import pyarrow.compute as pc

        for table in self.files:
            index = pc.index(table["path"], path).as_py() if table.num_rows else -1
            if index >= 0:
                values = table["partition_values"][index].as_py()
                return dict(values) if values is not None else None
        return None

    def paths(self, limit: int) -> tuple[str, ...]:
        """The first paths read, at most ``limit``, without repeats."""
        seen: dict[str, None] = {}
        for table in self.files:
            for path in table["path"].slice(0, limit).to_pylist():
                seen.setdefault(path)
        return tuple(seen)[:limit]


@dataclass
class ReadRegistry:
    """The growing form of :class:`Reads` inside an open transaction."""

    scans: list[Scan] = field(default_factory=list)
    files: list[pa.Table] = field(default_factory=list)
    whole_table: bool = False
    app_ids: set[str] = field(default_factory=set)
    elsewhere: bool = False
    has_queries: bool = False

    def add(self, reads: Reads) -> None:
        """Add what another transaction has read."""
        self.scans += reads.scans
        self.files += reads.files
        self.whole_table |= reads.whole_table
        self.app_ids |= reads.app_ids
        self.has_queries |= reads.has_queries

    def freeze(self) -> Reads:
        """The registry as it is now, frozen."""
        return Reads(tuple(self.scans), tuple(self.files), self.whole_table,
                     frozenset(self.app_ids) or NO_IDS,  # of which there is one for all
                     elsewhere=self.elsewhere, has_queries=self.has_queries)


class FileScan(Displayable, Sequence[AddFile]):
    """The files a scan found: iterates :class:`AddFile`; ``.table`` is the Arrow table.

    The actions are made one by one as they are asked for; a scan of a million files stays Arrow.

    >>> from deltanb.testing import MemoryStore, TableBuilder, add
    >>> builder = TableBuilder(MemoryStore()).create().commit(add("a", size=3))
    >>> scan = builder.log.start_transaction().filter_files()
    >>> len(scan), [file.size for file in scan], scan.table.num_rows
    (1, [3], 1)
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[AddFile]:
        for batch in self.table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                yield AddFile.from_row(row)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return FileScan(self.table.take(list(range(start, stop, step))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("file index out of range")
        row = self.table.slice(index, 1).to_pylist(maps_as_pydicts="lossy")[0]
        return AddFile.from_row(row)

    def where(self, mask: Any) -> FileScan:
        """Those of the files for which a mask (of numpy) is True.

        >>> import numpy as np
        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> txn = TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).log.start_transaction()
        >>> [file.path for file in txn.filter_files().where(np.array([False, True]))]
        ['b']
        """

        return self if mask.all() else FileScan(self.table.filter(array_of(mask)))

    @property
    def paths(self) -> list[str]:
        """The files' paths as in the log.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> txn = TableBuilder(MemoryStore()).create().commit(add("a"), add("b")).log.start_transaction()
        >>> list(txn.filter_files().paths)
        ['a', 'b']
        """
        return list(self.table["path"].to_pylist())


def partition_key(
    values: Mapping[str, str | None] | None,
) -> tuple[tuple[str, str | None], ...]:
    """Partition values as a value that can be compared; an empty string is null in the log."""
    return tuple(sorted((k, v if v != "" else None) for k, v in (values or {}).items()))


def partition_of(file: AddFile) -> tuple[tuple[str, str | None], ...]:
    """The partition of a file, as :func:`partition_key`.

    Raises:
        InvalidArgument: no file.
    """
    require(file, AddFile, "filter_files_in_partitions_of", "AddFile actions")
    return partition_key(file.partition_values)


def scan_of(
    predicates: Sequence[Predicate], partition_columns: Sequence[str], schema: StructType
) -> Scan:
    """The scan that the predicates ask for, with the conjuncts that count for conflicts."""
    conjuncts = [c for p in predicates for c in p.conjuncts()]
    counting = []
    for conjunct in conjuncts:
        if conjunct.is_partition_only(partition_columns):
            try:
                conjunct.to_expression(schema)
            except UnsupportedPredicate:
                continue
            counting.append(conjunct)
    return Scan(tuple(p.sql for p in predicates), tuple(counting))


def find_files(snapshot: Snapshot, predicates: Sequence[str | Predicate]) -> tuple[Scan, pa.Table]:
    """The scan that predicates (SQL) ask of a version, and the files that may hold such rows.

    Raises:
        InvalidPredicate: syntax, or a column the table does not have.
    """
    from deltanb.sql.predicates import parse

    parsed = [parse(predicate, snapshot.schema) for predicate in predicates]
    return scan_for(snapshot, parsed), snapshot.files_for_scan(*parsed)


def scan_for(snapshot: Snapshot, predicates: Sequence[str | Predicate]) -> Scan:
    """As :func:`find_files`, without looking for files: metadata is enough."""
    from deltanb.log.skipping.generated import implied_predicates
    from deltanb.sql.predicates import parse

    schema = snapshot.schema
    parsed = [parse(p, schema) for p in predicates]
    scan = scan_of(parsed, snapshot.partition_columns, schema)
    if more := implied_predicates(snapshot.metadata, snapshot.protocol, parsed):
        scan = replace(scan, partition=(*scan.partition, *more))
    return scan


def _literal(value: str | None) -> str:
    return "NULL" if value is None else f"'{value}'"

def require_version_of(log: LogReader, snapshot: Snapshot | None) -> None:
    """Refuse what no transaction can read: only a version of its own table.

    Raises:
        InvalidArgument: no log, no snapshot, or that of another table.
    """
    require(log, LogReader, "OptimisticTransaction", "a DeltaLog: DeltaLog.for_table(path)")
    if snapshot is None:
        return
    require(snapshot, Snapshot, "OptimisticTransaction", "a Snapshot of the table, or None for the newest")
    if snapshot.log is not log and snapshot.log.path != log.path:
        raise InvalidArgument(
            f"the snapshot is of the table at {snapshot.log.path}, the transaction on that at "
            f"{log.path}; give log.snapshot_at(version)", path=log.path)
