"""The conflict rules as they would be with row-level concurrency, or with another partitioning.

What lives here: :class:`FinerRules`, which takes the files that a rule objects to and drops those that a
closer look at their rows, or other partitions, clear.
What it does not know: which commits are checked (``what_if``), what the rules say of the rest, how rows are
looked at (``engines/arrow/closer_look.py``, as commits do it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile, RemoveFile
from deltanb.engines.arrow.closer_look import BOUND, FEW, GONE, UNREADABLE, Budget, RowLook
from deltanb.errors import DeltaError
from deltanb.log.skipping.stats import NUM_RECORDS, Kind, Stat, stats_of
from deltanb.sql.predicates import Predicate, parse
from deltanb.transaction.conflict_rules import Rule
from deltanb.transaction.conflicts import Finding
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.reads import Scan
from deltanb.transaction.row_levels import ROW_LEVELS
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.observe.recorded import Recorder

MAX_FINDINGS = 20_000  # of rules, that are looked at more closely in a replay: a millisecond each
MAX_FILES_READ = 200  # data files whose rows are looked at, and vectors that are read, in a replay
MAX_BYTES_READ = 1 << 30  # of these data files: what a person may wait for

_BOUNDS: tuple[Kind, ...] = ("min", "max", "null_count")
SPANS = "a file has several values of the columns, or no statistics of them"
REWRITTEN = "the winner rewrote files, of which other partitions would have had a part each"


class FinerRules(RowLook):
    """Rules for one replay; it keeps count of what it reads.

    Args:
        recorder: of the table's log.
        row_level: one of :data:`~deltanb.transaction.row_levels.ROW_LEVELS`.
        partition_by: columns by which the table would be partitioned, in place of its own; none to leave it.
    """

    def __init__(self, recorder: Recorder, row_level: str, partition_by: Sequence[str] = ()) -> None:
        super().__init__(recorder.log, ROW_LEVELS[row_level],
                         Budget(files=MAX_FILES_READ, num_bytes=MAX_BYTES_READ))
        self._recorder = recorder
        self.columns = tuple(partition_by)
        self._findings = MAX_FINDINGS

    def of(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """The rules, those about files with this closer look."""
        if not self.looks and not self.columns:
            return tuple(rules)
        closer: dict[str, Callable[..., list[Any]]] = {
            "append": lambda current, winner, files: self.added(current, winner),
            "delete / read": self._removed, "delete / delete": self._removed_by_both}
        return tuple(self._closer(rule, closer[rule.name]) if rule.name in closer else rule for rule in rules)

    def _closer(self, rule: Rule, met: Callable[..., list[Any]]) -> Rule:
        def finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
            finding = rule.finds(current, winner)
            if finding is None:
                return None
            if self._findings < 1:
                self.doubt(BOUND)
                return finding
            self._findings -= 1
            files = met(current, winner, finding.files)
            return replace(finding, files=tuple(files)) if files else None

        return replace(rule, finds=finds)

    def in_partitions(
        self, scan: Scan, parts: Sequence[Predicate], current: CurrentTransaction, winner: Winner,
        files: list[AddFile],
    ) -> list[AddFile]:
        """The files of the partitions that a scan asked for: of the table's own, or of those supposed."""
        if not self.columns:
            return super().in_partitions(scan, parts, current, winner, files)
        files = self._in_supposed(parts, current, files)
        if files and winner.removes:
            self.doubt(REWRITTEN)
        return files

    # -- files that were removed ---------------------------------------------------------------------

    def _removed(
        self, current: CurrentTransaction, winner: Winner, files: Sequence[RemoveFile]
    ) -> list[RemoveFile]:
        """The files that the transaction read and a winner removed."""
        left = [file for file in files if not self.stays_as_read(current, winner, file.path)
                and not self.are_disjoint(current, winner, file.path)]
        if not self.columns or current.reads.whole_table or not current.reads.scans:
            return left
        met: dict[str, RemoveFile] = {}
        known = self._as_read(current, left)
        for scan in current.reads.scans:
            try:
                parts = [part for text in scan.sql for part in parse(text, current.schema).conjuncts()]
                hits = {file.path for file in self._in_supposed(parts, current, list(known.values()))}
            except DeltaError:
                self.doubt(UNREADABLE)
                hits = set(known)
            met.update({file.path: file for file in left if file.path in hits or file.path not in known})
        if any(file.path not in known for file in left):
            self.doubt(SPANS)
        return [file for file in left if file.path in met]

    def _removed_by_both(
        self, current: CurrentTransaction, winner: Winner, files: Sequence[RemoveFile]
    ) -> list[RemoveFile]:
        """The files that both removed."""
        left = [file for file in files if not self.stays_as_read(current, winner, file.path)
                and not self.are_disjoint(current, winner, file.path, by_changes=True)]
        if self.columns and left:
            known = self._as_read(current, left)
            if len(left) > FEW or any(
                    file.path not in known
                    or not self._is_of_one_partition(current, known[file.path], self.columns)
                    for file in left):
                self.doubt(SPANS)
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
            self.doubt(GONE)
            return known
        rows = table.filter(pc.is_in(table["path"], value_set=pa.array(missing, pa.string())))
        known.update({row["path"]: AddFile.from_row(row)
                      for row in rows.to_pylist(maps_as_pydicts="lossy")})
        return known

    # -- another partitioning --------------------------------------------------------------------------

    def _in_supposed(
        self, parts: Sequence[Predicate], current: CurrentTransaction, files: list[AddFile]
    ) -> list[AddFile]:
        """The files with rows in the partitions that a condition asks for, as far as is known."""
        counting = [part for part in parts if part.is_partition_only(self.columns)]
        if not counting or not files:
            return files
        left = self.by_statistics(counting, current, files)
        names = sorted({path[0] for part in counting for path in part.column_paths})
        if len(left) > FEW or any(not self._is_of_one_partition(current, file, names) for file in left):
            self.doubt(SPANS)
        return left

    def _is_of_one_partition(
        self, current: CurrentTransaction, file: AddFile, columns: Iterable[str]
    ) -> bool:
        """Whether all rows of a file have one value of each of the columns, and that is known."""
        own = {name.lower() for name in current.partition_columns}
        others = [name for name in columns if name.lower() not in own]
        if not others:
            return True
        snapshot = self.table_of(current, [file])
        fields = [current.schema.get(name) for name in others]
        if any(field is None for field in fields):
            return False
        names = [field.name for field in fields if field is not None]
        table = snapshot.stats_for(stats_of([(name,) for name in names]))
        row = {name: _readable(table[name]) for name in table.column_names}
        return all(_is_one_value(row, name) for name in names)


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
