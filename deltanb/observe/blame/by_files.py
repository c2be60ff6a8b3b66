"""Blame by files: a row was written by the commit that added its file, or copied by it from another file.

What lives here: :class:`Walk`, from the newest commit to older ones. It knows where each row lies, file and
position, and follows copies: a row that a commit only moved lay elsewhere before.
What it does not know: row ids.

A commit that added a file wrote its rows, if it removed none, or replaced all. One that moves rows
(OPTIMIZE) wrote none. For others the change feed says which rows are new, and without one the rows that it
removed: those that are there again, and were not meant by its condition, are copies. A RESTORE brings back
files that were there: its rows were written by the commits that added these files first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.commands.read.changes import changed_in, feed_scan, is_feed_on, rows_of
from deltanb.commands.rows.change_files import CHANGE_TYPE
from deltanb.engines.arrow.data_file import plan
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.errors import DataFileNotFound, DeltaError, InvalidPredicate, UnsupportedPredicate
from deltanb.log.diff import paired_fields
from deltanb.observe.blame.answers import Answers
from deltanb.observe.blame.by_ids import removed_parts
from deltanb.observe.blame.commits import Commit, Commits, key_of, reason_of
from deltanb.observe.blame.matching import PLACE, changed_values, pairs_by_key, pairs_by_value
from deltanb.observe.blame.rows import Located, Part, read
from deltanb.schema.types import from_arrow
from deltanb.sql.predicates import parse
from deltanb.text import formatting as units

if TYPE_CHECKING:
    from deltanb.actions import AddFile
    from deltanb.engines.arrow.data_file import Scan
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

MAX_COMPARED = 10_000_000
"""Rows read to tell copies from new rows, of all commits together: some seconds, and some hundred bytes of
memory each. Rows that would need more stay open, and that is said."""
MAX_BYTES = 2 << 30
"""Bytes of removed files that are read for it: not every removal says how many rows its file has."""
_UPDATES = ("UPDATE", "MERGE", "")
"""Operations by which a new row may be what another one became."""
BOUND = f"{units.number(MAX_COMPARED)} rows or {units.size(MAX_BYTES)}"


class Walk:
    """The rows of a version, followed back through the commits that added their files."""

    def __init__(
        self, commits: Commits, snapshot: Snapshot, paths: Sequence[str], located: Located, answers: Answers,
        keys: tuple[str, ...] | None, condition: Predicate | None = None,
    ) -> None:
        self.condition = condition
        """What all rows satisfy, as of the version where the walk begins."""
        self.commits, self.snapshot, self.answers, self.keys = commits, snapshot, answers, keys
        self.names = tuple(answers.columns)
        self.position = located.position.copy()
        self.by_file: dict[str, np.ndarray] = {}
        """File -> the rows that lie in it and are open."""
        self.num_compared = self.size_compared = 0
        rows = np.flatnonzero(answers.open)
        order = rows[np.argsort(located.file[rows], kind="stable")]
        files, starts = np.unique(located.file[order], return_index=True)
        for file, some in zip(files, np.split(order, starts[1:]), strict=True):
            self._lie(paths[file], some)

    def _lie(self, key: str, rows: np.ndarray) -> None:
        """Note that rows lie in a file, as far as they are open."""
        rows = rows[self.answers.is_open(rows)]
        if len(rows):
            before = self.by_file.get(key)
            self.by_file[key] = rows if before is None else np.concatenate([before, rows])

    def run(self) -> None:
        """Walk until nothing is open, or there is no commit left."""
        version = self.snapshot.version
        earliest = min(self.commits.log.commits.names(), default=0)
        while version >= earliest and self.by_file:
            self.commits.read_before(version)
            commit = self.commits.at(version)
            if commit is None:
                self._hole(version)
            else:
                self._step(commit)
            version -= 1
        self._end(earliest)

    def _hole(self, version: int) -> None:
        reason = self.commits.unreadable[version]
        self.answers.doubt(self._open_rows(), f"v{version} may have written them: {reason}")

    def _open_rows(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.int64), *self.by_file.values()])

    def _end(self, earliest: int) -> None:
        rows = self._open_rows()
        if len(rows):
            self._lose(rows, f"written before v{earliest}, the first commit that the log still has"
                       if earliest else "the log does not name the commit that added their files")
        self.by_file.clear()

    def _lose(self, rows: np.ndarray, why: str) -> None:
        self.answers.use("versions")
        self.answers.doubt(rows, why)

    # -- one commit ----------------------------------------------------------------------------------------

    def _step(self, commit: Commit) -> None:
        """Follow rows through a commit."""
        touched = [key for key in commit.added if key in self.by_file]
        new = [key for key in touched if key not in commit.removed and not _is_again(commit)]
        if not new:
            return
        mine = {key: self.by_file.pop(key) for key in new}
        removes_files = any(key not in commit.added for key in commit.removed)
        if commit.is_layout:
            self._moved(commit, mine)
        elif commit.replaces_all or not commit.removed or not (removes_files or self.names):
            self.answers.use("feed" if self._has_feed(commit) else "versions")
            rows = np.concatenate(list(mine.values()))
            self.answers.wrote(rows, commit.version)
            self.answers.changed(rows, commit.version)
        else:
            self._rewritten(commit, mine)

    def _has_feed(self, commit: Commit) -> bool:
        try:
            at = self.commits.snapshot(commit.version)
        except DeltaError:
            return False
        return is_feed_on(at.metadata, at.protocol)

    # -- rows that were rewritten --------------------------------------------------------------------------

    def _moved(self, commit: Commit, mine: Mapping[str, np.ndarray]) -> None:
        """Rows that a commit only laid elsewhere."""
        both = self._both(commit, mine)
        if both is None:
            return
        self.answers.use("feed" if self._has_feed(commit) else "versions")
        at = pairs_by_value(both.fresh.rows, both.gone.rows, both.fresh.rows.column_names)
        self._go_back(both, np.flatnonzero(at >= 0), at[at >= 0])
        lost = both.rows[at < 0]
        if len(lost):
            self._lose(lost, f"v{commit.version} says that it changes no data, and has rows that it did not "
                             "remove")

    def _rewritten(self, commit: Commit, mine: Mapping[str, np.ndarray]) -> None:
        """Rows that a commit wrote or copied."""
        both = self._both(commit, mine)
        if both is None:
            return
        written = self._written_by_feed(commit, both.fresh)
        self.answers.use("versions" if written is None else "feed")
        at = self._copies(commit, both, written)
        copied, wrote = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        self._go_back(both, copied, at[copied])
        self.answers.wrote(both.rows[wrote], commit.version)
        if self.names and len(wrote):
            self._columns(commit, both, wrote, np.setdiff1d(np.arange(len(both.gone.file)), at[copied]))

    def _copies(self, commit: Commit, both: _Both, written: np.ndarray | None) -> np.ndarray:
        """For each row the place of the one it is a copy of among those removed, -1 where it is none."""
        sources = np.flatnonzero(both.is_whole[both.gone.file] & ~_is_meant(commit, both))
        unsure = np.arange(len(both.rows)) if written is None else np.flatnonzero(~written)
        places: np.ndarray = np.full(len(both.rows), -1, np.int64)
        if len(sources) and len(unsure):
            fresh = both.fresh.rows
            at = pairs_by_value(fresh.take(unsure), both.gone.rows.take(sources), fresh.column_names)
            places[unsure[at >= 0]] = sources[at[at >= 0]]
        return places

    def _written_by_feed(self, commit: Commit, fresh: Located) -> np.ndarray | None:
        """Which rows the change feed says to be new, as a mask; None without it."""
        if not self._has_feed(commit):
            return None
        try:
            at = self.commits.snapshot(commit.version)
            scan = feed_scan(at)
            files = changed_in(self.commits.log, commit.version, at, scan)
            if files and not commit.change_files:  # then all rows of added files are new
                is_tracked = columns_of(at.metadata, at.protocol)
                return None if is_tracked else np.ones(len(fresh.file), bool)
            batches = [batch for file in files for batch in rows_of(scan, file)]
        except (DeltaError, OSError):
            return None
        changes = pa.Table.from_batches(batches, scan.schema)
        new = changes.filter(pc.is_in(changes[CHANGE_TYPE], pa.array(["insert", "update_postimage"])))
        return pairs_by_value(fresh.rows, new, fresh.rows.column_names) >= 0

    def _columns(self, commit: Commit, both: _Both, wrote: np.ndarray, left: np.ndarray) -> None:
        """What rows that were written were before: columns whose value differs were changed here, the others
        before."""
        at = self.commits.snapshot(commit.version)
        old, new = both.gone.take(left), both.fresh.take(wrote)
        rows = both.rows[wrote]
        places = pairs_by_key(old.rows, new.rows, at.schema, self.keys, frozenset(at.partition_columns),
                              commit.version)
        alone, changed = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
        self.answers.changed(rows[alone], commit.version)
        has_others = len(old.file) > len(changed)
        if has_others and commit.operation in _UPDATES:
            self.answers.doubt(rows[alone], (
                f"v{commit.version} may have updated them, and nothing tells which rows they were before: "
                "their columns count as changed there; keys=[…] names columns that tell"))
        before, after = old.rows.take(places[changed]), new.rows.take(changed)
        known = {new.name: old.name for old, new in paired_fields(at.schema, self.snapshot.schema)
                 if old is not None and new is not None}
        for name in self.names:
            if name in known:
                differs = changed_values(before, after, known[name])
                self.answers.changed(rows[changed[differs]], commit.version, [name])
        self._go_back(both, wrote[changed], left[places[changed]])

    def _both(self, commit: Commit, mine: Mapping[str, np.ndarray]) -> _Both | None:
        """Open rows of files that a commit added, and all rows that it removed; None where these cannot be
        read, or are too many."""
        rows = np.concatenate(list(mine.values()))
        try:
            scan = plan(self.commits.snapshot(commit.version))
            of_removed = self._narrowed(commit, scan)
            gone = removed_parts(self.commits, commit)
            if of_removed is scan:
                self.num_compared += len(rows) + sum(_num_rows(part) for part in gone)
                self.size_compared += sum(part.file.size for part in gone if part.only is None)
            if self.num_compared > MAX_COMPARED or self.size_compared > MAX_BYTES:
                self._lose(rows, f"v{commit.version} or an earlier one wrote them: more than {BOUND} would "
                                 "have to be compared; narrow them by where")
                return None
            fresh = _read_rows(scan, [(commit.added[key], self.position[some]) for key, some in mine.items()])
            return _Both(rows, fresh, read(of_removed, gone), [key_of(part.file.path) for part in gone],
                         np.array([part.only is None for part in gone], bool))
        except DataFileNotFound:
            self._lose(rows, f"v{commit.version} or an earlier one wrote them: the files that it rewrote are "
                             "gone (vacuumed)")
        except (DeltaError, OSError) as error:
            self._lose(rows, f"v{commit.version} or an earlier one wrote them: {reason_of(error)}")
        return None

    def _narrowed(self, commit: Commit, scan: Scan) -> Scan:
        """What is read of removed files: copies of rows satisfy the condition as the rows do, as long as they
        are in the same columns, by the same names. What rows were before they were changed need not."""
        if self.condition is None or self.names:
            return scan
        at = self.commits.snapshot(commit.version)
        names = {path[0] for path in self.condition.column_paths}
        same = {new.name for old, new in paired_fields(at.schema, self.snapshot.schema)
                if old is not None and new is not None and old.physical_name == new.physical_name
                and (old.name, old.type) == (new.name, new.type)}
        return plan(at, None, self.condition.sql) if names <= same else scan

    def _go_back(self, both: _Both, some: np.ndarray, places: np.ndarray) -> None:
        """Some of the rows lay elsewhere before: at places among the rows that were removed."""
        rows = both.rows[some]
        self.position[rows] = both.gone.position[places]
        files = both.gone.file[places]
        for file in np.unique(files):
            self._lie(both.keys[file], rows[files == file])


def _is_again(commit: Commit) -> bool:
    """Whether the files that a commit adds were there before: brought back, or named for their statistics."""
    return commit.operation == "RESTORE" or (commit.is_layout and not commit.removed)


@dataclass(frozen=True)
class _Both:
    """Rows that a commit added, and rows that it removed."""

    rows: np.ndarray
    """Which rows the added ones are."""
    fresh: Located
    gone: Located
    keys: Sequence[str]
    """The files of the removed rows."""
    is_whole: np.ndarray
    """Whether a file was removed; in others rows were deleted in place, and none of these was copied."""


def _read_rows(scan: Scan, files: Sequence[tuple[AddFile, np.ndarray]]) -> Located:
    """Rows at positions of files, in the order of the positions; some may be asked for twice."""
    parts = [Part(file, BitMap64(positions.astype(np.uint64))) for file, positions in files]
    once = read(scan, parts)
    starts = np.asarray(np.searchsorted(once.file, np.arange(len(parts))))
    places = [int(first) + np.unique(positions, return_inverse=True)[1]
              for first, (_, positions) in zip(starts, files, strict=True)]
    return once.take(np.concatenate(places))


def _num_rows(part: Part) -> int:
    if part.only is not None:
        return len(part.only)
    return 0 if part.file.num_records is None else int(part.file.num_records)


def _is_meant(commit: Commit, both: _Both) -> np.ndarray:
    """Which removed rows the commit's condition is true of, as a mask: these it deleted or wrote anew."""
    none: np.ndarray = np.zeros(both.gone.rows.num_rows, bool)
    condition = commit.condition
    if condition is None:
        return none
    if condition == "TRUE":
        return ~none
    rows = both.gone.rows
    try:
        predicate = parse(condition, from_arrow(rows.schema))
        places = rows.append_column(PLACE, pa.array(np.arange(len(none)))).filter(
            predicate.to_expression(as_filter=True))[PLACE].to_numpy()
    except (InvalidPredicate, UnsupportedPredicate):  # another engine's function, say: values decide
        return none
    none[places] = True
    return none
