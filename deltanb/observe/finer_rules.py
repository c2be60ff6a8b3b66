"""The conflict rules as they would be with row-level concurrency, or with another partitioning.

What lives here: :class:`FinerRules`, which takes the files that a rule objects to and drops those that
statistics, rows, deletion vectors or other partitions clear.
What it does not know: which commits are checked (``what_if``), what the rules say of the rest.

A file is dropped only where that is proved. Where it is not known, the file stays and the reason is kept as a
doubt: the commit may have passed all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile, RemoveFile
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow.read import plan, read_data_file, read_table
from deltanb.errors import DataFileNotFound, DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.log.replay import Delta, feed_actions
from deltanb.log.skipping.stats import NUM_RECORDS, Kind, Stat, stats_of
from deltanb.log.snapshot import EMPTY, Snapshot
from deltanb.sql.predicates import Predicate, all_of, parse
from deltanb.transaction.conflict_rules import Rule
from deltanb.transaction.conflicts import Finding
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.reads import Scan
from deltanb.transaction.row_levels import ROW_LEVELS
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64

    from deltanb.actions import DeletionVector
    from deltanb.observe.recorded import Recorder
    from deltanb.store.base import LogStore

MAX_FINDINGS = 20_000  # of rules, that are looked at more closely in a replay: a millisecond each
MAX_FILES_READ = 200  # data files whose rows are looked at, and vectors that are read, in a replay
MAX_BYTES_READ = 1 << 30  # of these data files: what a person may wait for
FEW = 20  # files of one conflict that are looked at one by one

CHANGES_ALL_IT_READS = frozenset({"DELETE", "UPDATE"})
_BOUNDS: tuple[Kind, ...] = ("min", "max", "null_count")
BOUND = "more files than are looked at in a replay"
SPANS = "a file has several values of the columns, or no statistics of them"
REWRITTEN = "the winner rewrote files, of which other partitions would have had a part each"
GONE = "a file that has to be read is gone or damaged"
UNREADABLE = "its condition cannot be evaluated on the files"
READ = "which rows it read beside those that it changed is not recorded"


class FinerRules:
    """Rules for one replay; it keeps count of what it reads.

    Args:
        recorder: of the table's log.
        row_level: one of :data:`~deltanb.transaction.row_levels.ROW_LEVELS`.
        partition_by: columns by which the table would be partitioned, in place of its own; none to leave it.
    """

    def __init__(self, recorder: Recorder, row_level: str, partition_by: Sequence[str] = ()) -> None:
        self._recorder, self._looks = recorder, ROW_LEVELS[row_level]
        self._columns = tuple(partition_by)
        self._findings = MAX_FINDINGS
        self._files, self._bytes = MAX_FILES_READ, MAX_BYTES_READ
        self.doubts: list[str] = []
        """Why files stayed that may not meet, since the last :meth:`forget`."""

    def forget(self) -> None:
        """Begin with another transaction."""
        self.doubts = []

    def of(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """The rules, those about files with this closer look."""
        if not self._looks and not self._columns:
            return tuple(rules)
        closer: dict[str, Callable[..., list[Any]]] = {
            "append": self._added, "delete / read": self._removed, "delete / delete": self._removed_by_both}
        return tuple(self._closer(rule, closer[rule.name]) if rule.name in closer else rule for rule in rules)

    def _closer(self, rule: Rule, met: Callable[..., list[Any]]) -> Rule:
        def finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
            finding = rule.finds(current, winner)
            if finding is None:
                return None
            if self._findings < 1:
                self._doubt(BOUND)
                return finding
            self._findings -= 1
            files = met(current, winner, finding.files)
            return replace(finding, files=tuple(files)) if files else None

        return replace(rule, finds=finds)

    def _doubt(self, reason: str) -> None:
        if reason not in self.doubts:
            self.doubts.append(reason)

    # -- files that were added ---------------------------------------------------------------------

    def _added(self, current: CurrentTransaction, winner: Winner, files: Sequence[AddFile]) -> list[AddFile]:
        """The files that a winner added where the transaction read."""
        left = [file for file in winner.adds if not self._are_disjoint(current, winner, file.path)]
        if current.reads.whole_table or not current.reads.scans:
            return left
        met: dict[str, AddFile] = {}
        for scan in current.reads.scans:
            for file in self._met_by(scan, current, winner, [file for file in left if file.path not in met]):
                met[file.path] = file
        return [file for file in left if file.path in met]

    def _met_by(
        self, scan: Scan, current: CurrentTransaction, winner: Winner, files: list[AddFile]
    ) -> list[AddFile]:
        if not files:
            return []
        if not self._columns:
            hits = scan.matches(files, current.schema, current.partition_columns)
            files = [file for file, is_hit in zip(files, hits, strict=True) if is_hit]
        try:
            parts = [part for text in scan.sql for part in parse(text, current.schema).conjuncts()]
            if self._columns:
                files = self._in_partitions(parts, current, files)
                if files and winner.removes:
                    self._doubt(REWRITTEN)
            if parts and files and "statistics" in self._looks:
                files = self._by_statistics(parts, current, files)
            if parts and files and "values" in self._looks:
                files = self._by_values(parts, current, files)
        except DeltaError:
            self._doubt(UNREADABLE)
        return files

    def _table_of(self, current: CurrentTransaction, files: Sequence[AddFile]) -> Snapshot:
        """A version with these files alone, as the transaction would read it."""
        delta = Delta(metadata=current.read_metadata, protocol=current.read_protocol)
        feed_actions(delta, files)
        return Snapshot(self._recorder.log, EMPTY.after(delta, current.read_version))

    def _by_statistics(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: Sequence[AddFile]
    ) -> list[AddFile]:
        """The files that may hold a row for which all parts are true, by partition values and statistics."""
        left = self._table_of(current, files).files_for_scan(*parts, columns=["path"])
        paths = set(left["path"].to_pylist())
        return [file for file in files if file.path in paths]

    def _by_values(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: Sequence[AddFile]
    ) -> list[AddFile]:
        """The files that do hold such a row."""
        left: list[AddFile] = []
        for at, file in enumerate(files):
            if at >= FEW or self._files < 1 or self._bytes < (file.size or 0):
                self._doubt(BOUND)
                return [*left, *files[at:]]
            self._files -= 1
            self._bytes -= file.size or 0
            table = self._table_of(current, [file])
            try:
                if read_table(table, table.files, [], all_of(parts), limit=1).num_rows:
                    left.append(file)
            except (DeltaError, OSError):
                self._doubt(GONE)
                left.append(file)
        return left

    # -- files that were removed ---------------------------------------------------------------------

    def _removed(
        self, current: CurrentTransaction, winner: Winner, files: Sequence[RemoveFile]
    ) -> list[RemoveFile]:
        """The files that the transaction read and a winner removed."""
        left = [file for file in files if not self._are_disjoint(current, winner, file.path)]
        if not self._columns or current.reads.whole_table or not current.reads.scans:
            return left
        met: dict[str, RemoveFile] = {}
        known = self._as_read(current, left)
        for scan in current.reads.scans:
            try:
                parts = [part for text in scan.sql for part in parse(text, current.schema).conjuncts()]
                hits = {file.path for file in self._in_partitions(parts, current, list(known.values()))}
            except DeltaError:
                self._doubt(UNREADABLE)
                hits = set(known)
            met.update({file.path: file for file in left if file.path in hits or file.path not in known})
        if any(file.path not in known for file in left):
            self._doubt(SPANS)
        return [file for file in left if file.path in met]

    def _removed_by_both(
        self, current: CurrentTransaction, winner: Winner, files: Sequence[RemoveFile]
    ) -> list[RemoveFile]:
        """The files that both removed."""
        left = [file for file in files
                if not self._are_disjoint(current, winner, file.path, by_changes=True)]
        if self._columns and left:
            known = self._as_read(current, left)
            if len(left) > FEW or any(
                    file.path not in known
                    or not self._is_of_one_partition(current, known[file.path], self._columns)
                    for file in left):
                self._doubt(SPANS)
        return left

    def _as_read(self, current: CurrentTransaction, files: Sequence[RemoveFile]) -> dict[str, AddFile]:
        """Removed files with their statistics, as the version that was read has them."""
        known = {file.path: AddFile(file.path, dict(file.partition_values or {}), file.size or 0, 0,
                                    stats=file.stats) for file in files if file.stats is not None}
        missing = [file.path for file in files if file.path not in known]
        if not missing:
            return known
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            table = self._recorder.snapshot(current.read_version, with_files=True).files
        except (DeltaError, OSError):
            self._doubt(GONE)
            return known
        rows = table.filter(pc.is_in(table["path"], value_set=pa.array(missing, pa.string())))
        known.update({row["path"]: AddFile.from_row(row)
                      for row in rows.to_pylist(maps_as_pydicts="lossy")})
        return known

    # -- another partitioning --------------------------------------------------------------------------

    def _in_partitions(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: list[AddFile]
    ) -> list[AddFile]:
        """The files with rows in the partitions that a condition asks for, as far as is known."""
        counting = [part for part in parts if part.is_partition_only(self._columns)]
        if not counting or not files:
            return files
        left = self._by_statistics(counting, current, files)
        names = sorted({path[0] for part in counting for path in part.column_paths})
        if len(left) > FEW or any(not self._is_of_one_partition(current, file, names) for file in left):
            self._doubt(SPANS)
        return left

    def _is_of_one_partition(
        self, current: CurrentTransaction, file: AddFile, columns: Iterable[str]
    ) -> bool:
        """Whether all rows of a file have one value of each of the columns, and that is known."""
        own = {name.lower() for name in current.partition_columns}
        others = [name for name in columns if name.lower() not in own]
        if not others:
            return True
        snapshot = self._table_of(current, [file])
        fields = [current.schema.get(name) for name in others]
        if any(field is None for field in fields):
            return False
        names = [field.name for field in fields if field is not None]
        table = snapshot.stats_for(stats_of([(name,) for name in names]))
        row = {name: _readable(table[name]) for name in table.column_names}
        return all(_is_one_value(row, name) for name in names)

    # -- vectors -------------------------------------------------------------------------------------

    def _are_disjoint(
        self, current: CurrentTransaction, winner: Winner, path: str, *, by_changes: bool = False
    ) -> bool:
        """Whether both took rows of a file by vectors, no row in common, and the transaction read none that
        the winner took; ``by_changes``: whatever it read."""
        if "vectors" not in self._looks:
            return False
        theirs, ours = _vector_of(winner.actions, path), _vector_of(current.actions, path)
        if theirs is None or ours is None:
            return False
        if self._files < 3:
            self._doubt(BOUND)
            return False
        self._files -= 3
        store = self._recorder.log.store
        before = next((a.deletion_vector for a in current.actions
                       if isinstance(a, RemoveFile) and a.path == path), None)
        try:
            taken = deletion_vectors.load(store, theirs)
            if before is not None:
                taken = taken - deletion_vectors.load(store, before)
            changed = _loaded(store, ours)
            if changed is not None and (taken & changed or by_changes):
                return not taken & changed
            if changed is not None and _changes_all_it_reads(current):
                return True
            if not self._reads_any(current, path, before, taken):
                return True
        except (InvalidPredicate, UnsupportedPredicate):
            self._doubt(UNREADABLE)
            return False
        except (DeltaError, OSError):
            self._doubt(GONE)
            return False
        if current.operation.name not in CHANGES_ALL_IT_READS or (
                by_changes and not _changes_all_it_reads(current)):
            self._doubt(READ if changed is not None else GONE)
        return False

    def _reads_any(self, current: CurrentTransaction, path: str, before: Any, rows: BitMap64) -> bool:
        """Whether a transaction read any of these rows of a file, by its conditions."""
        if current.reads.whole_table:
            return True
        if not current.reads.scans:
            self._doubt(READ)
            return True
        written = next(a for a in current.actions if isinstance(a, AddFile) and a.path == path)
        if self._files < 1 or self._bytes < (written.size or 0):
            self._doubt(BOUND)
            return True
        self._files -= 1
        self._bytes -= written.size or 0
        file = AddFile(path, dict(written.partition_values or {}), 0, 0, deletion_vector=before)
        table = self._table_of(current, [file])
        for scan in current.reads.scans:
            if not all(scan.matches([file], current.schema, current.partition_columns)):
                continue
            where = all_of([parse(text, current.schema) for text in scan.sql])
            if any(batch.num_rows for batch in read_data_file(plan(table, [], where), file, only=rows)):
                return True
        return False


def _loaded(store: LogStore, vector: DeletionVector) -> BitMap64 | None:
    """The rows of a vector; None if it is gone, as one is that a failed transaction has tidied up."""
    try:
        return deletion_vectors.load(store, vector)
    except DataFileNotFound:
        return None


def _changes_all_it_reads(current: CurrentTransaction) -> bool:
    """Whether it read no more than the rows that it changed: one statement, and no read beside it."""
    reads = current.reads
    return (current.operation.name in CHANGES_ALL_IT_READS and len(reads.scans) == 1
            and not reads.whole_table)


def _vector_of(actions: Iterable[Any], path: str) -> Any:
    """The vector with which a commit put a file back that it removed; None if it did not."""
    is_removed, vector = False, None
    for action in actions:
        if isinstance(action, RemoveFile) and action.path == path:
            is_removed = True
        elif isinstance(action, AddFile) and action.path == path:
            vector = action.deletion_vector
    return vector if is_removed else None


def _readable(column: pa.ChunkedArray) -> Any:
    """The one value of a column, a text as bytes: the upper bound of one that was cut off is no text."""
    import pyarrow as pa

    value = column[0]
    return (value.cast(pa.binary()) if pa.types.is_string(column.type) else value).as_py()


def _is_one_value(row: dict[str, Any], name: str) -> bool:
    low, high, nulls = (row[Stat(kind, (name,)).name] for kind in _BOUNDS)
    if nulls is not None and nulls == row[NUM_RECORDS.name]:
        return True
    return low is not None and low == high and nulls == 0
