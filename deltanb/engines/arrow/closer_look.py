"""A closer look at two commits on the same files: which rows one added or took, and which the other read.

What lives here: :class:`RowLook`, which drops those of a winner's files that statistics, rows or deletion
vectors show to be no conflict.
What it does not know: the conflict rules, which files they object to, what a commit does then (``behind``).

Invariant: a file is dropped only where that is proved. Where it is not known, as something is gone, damaged
or too much to read, it stays and the reason is kept as a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap64

from deltanb.actions import Action, AddFile, RemoveFile
from deltanb.engines.arrow.data_file import ROW_POSITION
from deltanb.engines.arrow.read import plan, read_data_file, read_table
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import DataFileNotFound, DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.log.replay import Delta, feed_actions
from deltanb.log.snapshot import EMPTY, Snapshot
from deltanb.schema.protocol import is_active
from deltanb.sql.predicates import Predicate, all_of, parse
from deltanb.transaction.reads import Scan, partition_key
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.actions import DeletionVector
    from deltanb.log.reader import LogReader
    from deltanb.transaction.current import CurrentTransaction

FEW = 20  # files of one conflict that are looked at one by one
MAX_ROWS = 100_000  # rows taken that are looked for in rewritten files
ALL = Scan()
CHANGES_ALL_IT_READS = frozenset({"DELETE", "UPDATE"})
BOUND = "more files than are looked at"
GONE = "a file that has to be read is gone or damaged"
UNREADABLE = "its condition cannot be evaluated on the files"
READ = "which rows it read beside those that it changed is not recorded"
UNSEEN = "a blind append added rows where it read, which the winner may have seen"
QUERIES = "its SQL has queries, and what they read is not recorded"
NOT_FOUND_AGAIN = "not every row that it took was found in the rewritten files"
NOT_COUNTED = "statistics do not say how many rows a file has"


@dataclass
class Budget:
    """What may still be read."""

    statistics: float = field(default=float("inf"))
    """Statistics of files."""
    files: float = field(default=float("inf"))
    """Data files and vectors."""
    num_bytes: float = field(default=float("inf"))
    """Bytes of these data files."""

    def takes(self, *, statistics: int = 0, files: int = 0, num_bytes: int = 0) -> bool:
        """Take a part of it, if there is as much left."""
        left = (self.statistics - statistics, self.files - files, self.num_bytes - num_bytes)
        if min(left) < 0:
            return False
        self.statistics, self.files, self.num_bytes = left
        return True


class _RowsReturn(Exception):
    """A vector has fewer rows than the one before it, as after RESTORE: a commit brings rows back."""


class RowLook:
    """The files of winners that meet a transaction, by their rows.

    Args:
        log: of the table; its store is read.
        looks: some of :data:`~deltanb.transaction.row_levels.LOOKS`.
        budget: what may be read.
    """

    def __init__(self, log: LogReader, looks: Iterable[str], budget: Budget) -> None:
        self.log, self.looks, self.budget = log, frozenset(looks), budget
        self.vectors = VectorFiles()
        self.doubts: list[str] = []
        """Why files stayed that may not meet, since the last :meth:`forget`."""
        self._pair: tuple[CurrentTransaction | None, Winner | None] = (None, None)
        self._answers: dict[Any, Any] = {}
        self._appended: tuple[AddFile, ...] = ()
        self._left = self.looks

    def forget(self) -> None:
        """Begin with another transaction."""
        self.doubts = []

    def doubt(self, reason: str) -> None:
        """Keep why a file stays."""
        if reason not in self.doubts:
            self.doubts.append(reason)

    def looks_at(self, current: CurrentTransaction) -> frozenset[str]:
        """The looks that a transaction may take.

        At WriteSerializable it passes blind appends as if they came later. Once they have added rows that it
        would have read, a winner may have seen these rows and be told apart from it by the others all the
        same: then the winner comes after the append, the append after the transaction, and the transaction
        after the winner. From there on files decide, as in Delta. So they do where reads are not recorded.
        """
        if current.reads.has_queries and self.looks:
            self.doubt(QUERIES)
            return self.looks & {"layout"}
        if not current.appended or not self.looks:
            return self.looks
        if self._appended is not current.appended:
            self._appended = current.appended
            unseen = self._added(current, Winner(current.read_version, current.appended), self.looks)
            self._left = self.looks & {"layout"} if unseen else self.looks
        if self._left is not self.looks:
            self.doubt(UNSEEN)
        return self._left

    # -- files that were added ---------------------------------------------------------------------

    def added(self, current: CurrentTransaction, winner: Winner) -> list[AddFile]:
        """The files that a winner added where the transaction read."""
        return self._added(current, winner, self.looks_at(current))

    def _added(self, current: CurrentTransaction, winner: Winner, looks: frozenset[str]) -> list[AddFile]:
        if "layout" in looks and winner.changes_layout_only:
            return []
        left = [file for file in winner.adds
                if file.path not in winner.vectors or not self.are_disjoint(current, winner, file.path)]
        if current.reads.whole_table or not current.reads.scans:
            return left
        met: dict[str, AddFile] = {}
        for scan in current.reads.scans:
            asked = [file for file in left if file.path not in met]
            met |= {file.path: file for file in self._met_by(scan, current, winner, asked, looks)}
        return [file for file in left if file.path in met]

    def _met_by(
        self, scan: Scan, current: CurrentTransaction, winner: Winner, files: list[AddFile],
        looks: frozenset[str],
    ) -> list[AddFile]:
        if not files:
            return []
        try:
            parts = [part for text in scan.sql for part in parse(text, current.schema).conjuncts()]
            files = self.in_partitions(scan, parts, current, winner, files)
            if parts and files and "statistics" in looks:
                files = self.by_statistics(parts, current, files)
            if parts and files and "values" in looks:
                files = self._by_values(parts, current, files)
        except DeltaError:
            self.doubt(UNREADABLE)
        return files

    def in_partitions(
        self, scan: Scan, parts: Sequence[Predicate], current: CurrentTransaction, winner: Winner,
        files: list[AddFile],
    ) -> list[AddFile]:
        """The files of the partitions that a scan asked for."""
        hits = scan.matches(files, current.schema, current.partition_columns)
        return [file for file, is_hit in zip(files, hits, strict=True) if is_hit]

    def table_of(self, current: CurrentTransaction, files: Sequence[AddFile]) -> Snapshot:
        """A version with these files alone, as the transaction would read it."""
        delta = Delta(metadata=current.read_metadata, protocol=current.read_protocol)
        feed_actions(delta, files)
        return Snapshot(self.log, EMPTY.after(delta, current.read_version))

    def by_statistics(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: Sequence[AddFile]
    ) -> list[AddFile]:
        """The files that may hold a row for which all parts are true, by partition values and statistics."""
        if not self.budget.takes(statistics=len(files)):
            self.doubt(BOUND)
            return list(files)
        left = self.table_of(current, files).files_for_scan(*parts, columns=["path"])
        paths = set(left["path"].to_pylist())
        return [file for file in files if file.path in paths]

    def _by_values(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: Sequence[AddFile]
    ) -> list[AddFile]:
        """The files that do hold such a row."""
        left: list[AddFile] = []
        for at, file in enumerate(files):
            if at >= FEW or not self.budget.takes(files=1, num_bytes=file.size or 0):
                self.doubt(BOUND)
                return [*left, *files[at:]]
            table = self.table_of(current, [file])
            try:
                if read_table(table, table.files, [], all_of(parts), limit=1).num_rows:
                    left.append(file)
            except (DeltaError, OSError):
                self.doubt(GONE)
                left.append(file)
        return left

    # -- files that were removed ---------------------------------------------------------------------

    def stays_as_read(self, current: CurrentTransaction, winner: Winner, path: str) -> bool:
        """Whether a file that a winner removed was only rewritten, and the transaction leaves its rows alone
        or takes rows that are found in the new files."""
        if "layout" not in self.looks or not winner.changes_layout_only:
            return False
        return path not in current.paths or self.places_of_rows(current, winner, path) is not None

    def places_of_rows(
        self, current: CurrentTransaction, winner: Winner, path: str
    ) -> dict[str, BitMap64] | None:
        """Where the rows that the transaction took from a file by a vector lie in the winner's files: paths
        and positions. None if it took them in another way, or not all are found."""
        def places() -> dict[str, BitMap64] | None:
            ours = current.vectors.get(path)
            try:
                return None if ours is None else self._places(current, winner, path, ours)
            except _RowsReturn:
                return None
            except (DeltaError, OSError):
                self.doubt(GONE)
            except (ValueError, OverflowError):  # no values of Python, such as dates after the year 9999
                self.doubt(UNREADABLE)
            return None

        places_found: dict[str, BitMap64] | None = self._once(current, winner, (path, None), places)
        return places_found

    def _places(
        self, current: CurrentTransaction, winner: Winner, path: str, ours: DeletionVector
    ) -> dict[str, BitMap64] | None:
        own = next(a for a in current.actions if isinstance(a, AddFile) and a.path == path)
        candidates = [file for file in winner.adds
                      if partition_key(file.partition_values) == partition_key(own.partition_values)]
        size = sum(file.size or 0 for file in (own, *candidates))
        if not self.budget.takes(files=2 + len(candidates), num_bytes=size):
            self.doubt(BOUND)
            return None
        before = _vector_before(current.actions, path)
        taken = self._taken(ours, before)
        if len(taken) > MAX_ROWS:
            self.doubt(BOUND)
            return None
        sought: Counter[Any] = Counter()
        for keys, _ in self._keys(current, own.replace(deletion_vector=before), only=taken):
            sought.update(keys)
        # A row without an id has the key None, and is not told apart from others.
        places = None if None in sought else self._found_in(current, candidates, sought)
        if places is None:
            self.doubt(NOT_FOUND_AGAIN)
        elif any(winner.added[new].num_records is None for new in places):
            self.doubt(NOT_COUNTED)
            return None
        return places

    def _found_in(
        self, current: CurrentTransaction, files: Iterable[AddFile], sought: Counter[Any]
    ) -> dict[str, BitMap64] | None:
        """Positions of rows with the keys that are sought, each as often; None if some are missing."""
        left, places = sum(sought.values()), dict[str, BitMap64]()
        where = current.reads.scans[0] if len(current.reads.scans) == 1 else ALL
        for file in files:
            rows = BitMap64()
            for keys, positions in self._keys(current, file, where) if left else ():
                for key, position in zip(keys, positions, strict=True):
                    if sought[key] > 0:
                        sought[key] -= 1
                        left -= 1
                        rows.add(position)
            if rows:
                places[file.path] = rows
        return None if left else places

    def _keys(
        self, current: CurrentTransaction, file: AddFile, scan: Scan = ALL, only: BitMap64 | None = None,
    ) -> Iterator[tuple[list[Any], list[int]]]:
        """What tells rows of a file apart, with their positions: their ids where the table has them, else all
        their values. Rows of equal values stand for each other, as no statement tells them apart."""
        table = self.table_of(current, [file])
        is_tracked = is_active(current.read_protocol, current.read_metadata, "rowTracking")
        where = all_of([parse(text, current.schema) for text in scan.sql]) if scan.sql else None
        asked = plan(table, [] if is_tracked else None, where, row_ids=is_tracked)
        for batch in read_data_file(asked, file, positions=True, only=only):
            positions = batch.column(ROW_POSITION).to_pylist()
            columns = [batch.column(name).to_pylist() for name in batch.schema.names if name != ROW_POSITION]
            rows = zip(*columns, strict=True)
            yield columns[0] if is_tracked else [tuple(map(_frozen, row)) for row in rows], positions

    def _once(self, current: CurrentTransaction, winner: Winner, asked: Any, look: Callable[[], Any]) -> Any:
        """The answer of a look, which is taken once for a transaction and a winner: several rules ask it."""
        if self._pair[0] is not current or self._pair[1] is not winner:
            self._pair, self._answers = (current, winner), {}
        if asked not in self._answers:
            self._answers[asked] = look()
        return self._answers[asked]

    # -- vectors -------------------------------------------------------------------------------------

    def are_disjoint(
        self, current: CurrentTransaction, winner: Winner, path: str, *, by_changes: bool = False
    ) -> bool:
        """Whether a winner took rows of a file by a vector, and the transaction took and read none of these;
        ``by_changes``: took none, whatever it read."""
        def are_disjoint() -> bool:
            theirs, ours = winner.vectors.get(path), current.vectors.get(path)
            if theirs is None or (ours is None and path in current.paths):
                return False
            if ours is not None and winner.added[path].num_records is None:
                self.doubt(NOT_COUNTED)
                return False
            if not self.budget.takes(files=2 if ours is None else 4):
                self.doubt(BOUND)
                return False
            try:
                return self._are_disjoint(current, winner, path, theirs, ours, by_changes)
            except _RowsReturn:
                return False
            except (InvalidPredicate, UnsupportedPredicate):
                self.doubt(UNREADABLE)
            except (DeltaError, OSError):
                self.doubt(GONE)
            return False

        return "vectors" in self.looks_at(current) and bool(
            self._once(current, winner, (path, by_changes), are_disjoint))

    def _are_disjoint(
        self, current: CurrentTransaction, winner: Winner, path: str, theirs: DeletionVector,
        ours: DeletionVector | None, by_changes: bool,
    ) -> bool:
        before = _vector_before(winner.removes, path)
        taken = self._taken(theirs, before)
        changed = BitMap64() if ours is None else self._taken_if_there(
            ours, _vector_before(current.actions, path))
        if ours is not None and changed is not None:
            if taken & changed or by_changes:
                return not taken & changed
            if _changes_all_it_reads(current):
                return True
        if not self._reads_any(current, winner, path, before, taken):
            return True
        if current.operation.name not in CHANGES_ALL_IT_READS or (
                by_changes and not _changes_all_it_reads(current)):
            self.doubt(READ if changed is not None else GONE)
        return False

    def _taken(self, vector: DeletionVector, before: DeletionVector | None) -> BitMap64:
        """The rows that a commit took from a file, by its vector and the one before.

        Raises:
            _RowsReturn: it brings others back.
        """
        rows = self.vectors.load(self.log.store, vector)
        if before is None:
            return rows
        gone = self.vectors.load(self.log.store, before)
        if not gone <= rows:
            raise _RowsReturn
        return rows - gone

    def _taken_if_there(self, vector: DeletionVector, before: DeletionVector | None) -> BitMap64 | None:
        """Alike; None if the vector is gone, as one is that a failed transaction has tidied up."""
        try:
            return self._taken(vector, before)
        except DataFileNotFound:
            return None

    def _reads_any(
        self, current: CurrentTransaction, winner: Winner, path: str, before: Any, rows: BitMap64
    ) -> bool:
        """Whether a transaction read any of these rows of a file, by its conditions."""
        if current.reads.whole_table:
            return True
        if not current.reads.scans:
            self.doubt(READ)
            return True
        written = winner.added[path]
        if not self.budget.takes(files=1, num_bytes=written.size or 0):
            self.doubt(BOUND)
            return True
        file = AddFile(path, dict(written.partition_values or {}), 0, 0, deletion_vector=before)
        table = self.table_of(current, [file])
        for scan in current.reads.scans:
            if not all(scan.matches([file], current.schema, current.partition_columns)):
                continue
            where = all_of([parse(text, current.schema) for text in scan.sql])
            if any(batch.num_rows for batch in read_data_file(plan(table, [], where), file, only=rows)):
                return True
        return False


def _changes_all_it_reads(current: CurrentTransaction) -> bool:
    """Whether it read no more than the rows that it changed: one statement, and no read beside it."""
    reads = current.reads
    return (current.operation.name in CHANGES_ALL_IT_READS and len(reads.scans) == 1
            and not reads.whole_table)


def _vector_before(actions: Iterable[Action], path: str) -> DeletionVector | None:
    """The vector that a file had which a commit removes."""
    return next((action.deletion_vector for action in actions
                 if isinstance(action, RemoveFile) and action.path == path), None)


def _frozen(value: Any) -> Any:
    """A value that can be a key, and is one key if it is one value: NaN too."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return tuple((name, _frozen(one)) for name, one in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
