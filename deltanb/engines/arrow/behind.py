"""How a transaction goes on behind a winner that met it in files, and not in rows.

What lives here: :func:`look_closer`, which a committer asks: it looks at the winner's files, and writes the
vectors by which the same rows are taken from these files as the winner left them.
What it does not know: how rows are told apart (``closer_look``), the conflict rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.actions import Action, AddFile, DeletionVector
from deltanb.engines.arrow import deletion_vectors
from deltanb.engines.arrow.closer_look import Budget, RowLook
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.schema import properties
from deltanb.transaction.row_levels import MAX_LOOKS, ROW_LEVELS, CloserLook

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore
    from deltanb.transaction.current import CurrentTransaction
    from deltanb.transaction.steps import Winner

LITTLE = 8 << 20  # bytes of data files that may be read for any commit: some requests


def look_closer(
    snapshot: Snapshot, current: CurrentTransaction, winner: Winner, begun: list[AddFile]
) -> CloserLook:
    """What a closer look at a winner's files shows, at the level of the transaction, which read ``snapshot``.

    It reads no more bytes than the transaction itself has read and written (or :data:`LITTLE`), and writes
    the vectors with which the transaction goes on behind the winner; ``begun`` gets their file before that.

    Raises:
        StorageError: a vector cannot be written.
    """
    log = snapshot.log
    cost = max(LITTLE, _bytes_written(current) + _bytes_read(snapshot, current))
    look = RowLook(log, ROW_LEVELS[current.row_level], Budget(MAX_LOOKS, MAX_LOOKS, cost))
    left = {file.path for file in look.added(current, winner)}
    by = "layout" if winner.changes_layout_only and "layout" in look.looks else None
    added = {file.path: by or _reason(look, winner, file) for file in winner.adds if file.path not in left}
    read = current.reads.read_among(file.path for file in winner.removes)
    removed, changes = {}, _Changes(current, winner)
    can_write = bool(properties.get(current.metadata.configuration, "delta.enableDeletionVectors"))
    for path in (file.path for file in winner.removes):
        is_taken = path in current.paths
        if is_taken and not can_write:
            continue
        is_read = path in read or current.reads.whole_table
        if not (is_taken or is_read):
            continue
        if look.stays_as_read(current, winner, path):
            removed[path] = "layout"
            if is_taken:
                changes.move(path, look.places_of_rows(current, winner, path) or {}, log.store)
        elif look.are_disjoint(current, winner, path, by_changes=not is_read):
            removed[path] = "vectors"
            if is_taken:
                changes.unite(path, log.store)
    followed = frozenset(file.path for file in winner.adds) if "layout" in removed.values() else frozenset()
    seen = CloserLook(added, removed, followed=followed, doubts=tuple(look.doubts))
    return changes.written(log.store, seen, begun) if seen else seen


def _bytes_written(current: CurrentTransaction) -> int:
    return sum(action.size or 0 for action in current.actions if isinstance(action, AddFile))


def _bytes_read(snapshot: Snapshot, current: CurrentTransaction) -> int:
    files = snapshot.select_files(["path", "size"])
    read = pa.concat_arrays([chunk for table in current.reads.files for chunk in table["path"].chunks]
                            or [pa.array([], pa.string())])
    return int(pc.sum(files["size"].filter(pc.is_in(files["path"], value_set=read))).as_py() or 0)


def _reason(look: RowLook, winner: Winner, file: AddFile) -> str:
    """Which look shows that an added file is no conflict, for the checklist."""
    if file.path in winner.vectors and "vectors" in look.looks:
        return "vectors"
    return "values" if "values" in look.looks else "statistics"


class _Changes:
    """The actions with which a transaction takes the same rows behind a winner."""

    def __init__(self, current: CurrentTransaction, winner: Winner) -> None:
        self.current, self.winner = current, winner
        self.vectors = VectorFiles()
        self.moved: set[str] = set()
        self.rows: dict[str, BitMap64] = {}
        """Path of a file as the winner left it -> all rows that are gone then."""

    def unite(self, path: str, store: LogStore) -> None:
        """Add the rows that the winner took of a file to those of the transaction's vector."""
        self.moved.add(path)
        rows = self.vectors.load(store, self.current.vectors[path])
        theirs = self.winner.vectors[path]
        self.rows[path] = rows | self.vectors.load(store, theirs)

    def move(self, path: str, places: Mapping[str, BitMap64], store: LogStore) -> None:
        """Take rows from the files to which they were moved."""
        self.moved.add(path)
        for new, rows in places.items():
            if new not in self.rows:
                vector = self.winner.added[new].deletion_vector
                self.rows[new] = self.vectors.load(store, vector)
            self.rows[new] |= rows

    def written(self, store: LogStore, seen: CloserLook, begun: list[AddFile]) -> CloserLook:
        """Write the vectors, into one file, and say what takes the place of the transaction's actions."""
        instead: list[Action] = []
        partial: list[tuple[AddFile, BitMap64]] = []
        for path, rows in self.rows.items():
            file = self.winner.added[path]
            instead.append(file.remove())
            if len(rows) < (file.num_records or 0):
                partial.append((file, rows))
        vectors: list[DeletionVector] = []
        if partial:
            vectors = deletion_vectors.write_file(store, [rows for _, rows in partial], begun=begun)
        for (file, _), vector in zip(partial, vectors, strict=True):
            marked = file.with_deletion_vector(vector, file.num_records or 0)
            instead.append(marked.replace(data_change=True))
        return replace(seen, moved=frozenset(self.moved), instead=tuple(instead),
                       superseded=self._superseded())

    def _superseded(self) -> frozenset[str]:
        """Files of vectors of the transaction, all of which have another in their place."""
        files = {path: deletion_vectors.encoded_path(vector.storage_type, vector.path_or_inline_dv)
                 for path, vector in self.current.vectors.items()}
        stay = {file for path, file in files.items() if path not in self.moved}
        return frozenset(file for file in files.values() if file is not None and file not in stay)
