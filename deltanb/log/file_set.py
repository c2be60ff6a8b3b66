"""The files of a version as layers of Arrow tables, each hidden in part by the ones above it.

What lives here: :class:`FileSet`, an immutable set of files and tombstones made of a checkpoint's
columns and the deltas after it. Columns are read on demand and shared by all versions that rest on the same
checkpoint; a new version costs a lookup of its few keys in the layers below.
What it does not know: how commits are parsed, where files are, what a snapshot is.

A layer *names* the files that it adds or removes, by path and deletion vector, each once. The newest layer
that names a file decides whether it is live. The *live* files are the adds that no newer layer names.
*Candidates* are the adds of all layers before the newest one is applied: all live files and perhaps some
more, which are known without reading a column.

>>> from deltanb.log.replay import Delta, feed
>>> delta = Delta()
>>> feed(delta, b'{"add":{"path":"a","size":3}}', "0")
>>> older = FileSet().extended(delta)
>>> delta = Delta()
>>> feed(delta, b'{"remove":{"path":"a"}}', "1")
>>> newer = older.extended(delta)
>>> older.num_files, newer.num_files, newer.tombstones().num_rows
(1, 0, 1)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from deltanb.log.arrays import array_of, mask_of, numbers, taken, within
from deltanb.log.arrow_rows import empty_table
from deltanb.log.compute import pc
from deltanb.log.layer import Convert, Layer, Leaf
from deltanb.log.replay import FILES_SCHEMA, CheckpointParts, Delta, key_array, tombstones_table
from deltanb.log.tally import Tally, sized

__all__ = ["FileSet", "Part"]

MAX_LAYERS = 8
"""Deltas kept apart; beyond that they are merged, so that reading stays a walk over few tables."""
MANY = 10
"""Paths of a layer are kept in memory once more than one in so many is asked for at a time."""
MAX_CHECKED = 100_000
"""Files of a checkpoint up to which a doubt about their number is worth reading their paths: 20 ms."""
MAX_KEPT = 65_536
"""Files of a layer up to which their columns stay in memory for the next checkpoint. That of a larger table
is made of the newest checkpoint in the log, and not of what a process began with."""
MAX_NAMED = 10_000
"""Files up to which a set that was counted remembers their keys, to know those that it surely lacks."""
MAX_HOLES = 256
"""Up to so many hidden rows a layer is cut into slices, which copies nothing; else filtered."""


@dataclass(frozen=True)
class Part:
    """A layer and which of its adds are live: ``keep`` is None for all of them.

    Positions in a part count its live files only; those in its layer count all adds.
    """

    layer: Layer
    keep: pa.ChunkedArray | None
    num_files: int

    @classmethod
    def whole(cls, layer: Layer) -> Part:
        """All adds of a layer."""
        return cls(layer, None, layer.num_rows)

    def hidden_by(self, above: Layer) -> Part:
        """This part without the files that a newer layer names."""
        hit = _named_by(self.layer, above)
        if hit is None:
            return self
        keep = pc.invert(hit)
        if self.keep is not None:
            keep = pc.and_(self.keep, keep)
        return Part(self.layer, keep, pc.sum(keep).as_py() or 0)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The live files, with columns of FILES_SCHEMA."""
        return self._live(self.layer.read(columns))

    def partition_values(self) -> pa.ChunkedArray:
        """The partition values of the live files, as in :meth:`Layer.partition_values`."""
        return self._live(pa.table({"": self.layer.partition_values()})).column(0)

    def take(self, columns: Sequence[str], rows: pa.Array) -> pa.Table:
        """The live files at these positions."""
        if self.keep is not None:
            rows = pc.indices_nonzero(self.keep).cast(pa.int64()).take(rows)
        return self.layer.take(columns, rows)

    def stats(self, leaves: Sequence[Leaf], rows: pa.Array | None, convert: Convert) -> pa.Table:
        """Typed statistics of the live files, or of those at these positions."""
        if self.keep is None:
            return self.layer.stats(leaves, rows, convert)
        if rows is None:
            return self._live(self.layer.stats(leaves, None, convert))
        rows = pc.indices_nonzero(self.keep).cast(pa.int64()).take(rows)
        return self.layer.stats(leaves, rows, convert)

    def whole_pieces(self) -> list[Any]:
        """The pieces of a checkpoint's layer whose files are all live."""
        pieces = self.layer.pieces()
        if self.keep is None:
            return pieces
        gone: Any = np.flatnonzero(~numbers(self.keep))
        firsts = gone.searchsorted([piece.start for piece in pieces])
        ends = gone.searchsorted([piece.stop for piece in pieces])
        return [piece for piece, a, b in zip(pieces, firsts, ends, strict=True) if a == b]

    def streamed(self, columns: Sequence[str], pieces: Sequence[Any]) -> Iterator[pa.Table]:
        """The live files outside these pieces, in batches; the columns of a small layer are cached."""
        if self.layer.in_memory or (not pieces and self.layer.num_rows <= MAX_KEPT):
            yield self.read(columns)
        else:
            yield from self.layer.streamed(columns, self._rows_but(pieces))

    def _rows_but(self, pieces: Sequence[Any]) -> pa.Array | None:
        """The positions in the layer of the live files outside these pieces; None for all."""
        if not pieces and self.keep is None:
            return None
        runs, start = [], 0
        for piece in (*sorted(pieces, key=lambda piece: piece.start), None):
            stop = self.layer.num_rows if piece is None else piece.start
            runs.append(np.arange(start, stop) if self.keep is None
                        else start + np.flatnonzero(numbers(self.keep.slice(start, stop - start))))
            start = stop if piece is None else piece.stop
        return array_of(np.concatenate(runs))

    def _live(self, table: pa.Table) -> pa.Table:
        if self.keep is None:
            return table
        if len(self.keep) - self.num_files > MAX_HOLES:
            return table.filter(self.keep)
        return pa.concat_tables([table.slice(0, 0), *(table.slice(*run) for run in self._runs())])

    def _runs(self) -> list[tuple[int, int]]:
        """(start, length) of the stretches of rows between the hidden ones."""
        assert self.keep is not None
        gone = pc.indices_nonzero(pc.invert(self.keep)).to_pylist()
        edges = zip([-1, *gone], [*gone, len(self.keep)], strict=True)
        return [(before + 1, after - before - 1) for before, after in edges if after > before + 1]

    def bytes(self) -> int:
        """The sum of the sizes of the live files."""
        if self.keep is None:
            return self.layer.size_in_bytes
        if len(self.keep) - self.num_files > MAX_HOLES:
            return pc.sum(self.layer.column("size").filter(self.keep)).as_py() or 0
        gone = self.layer.column("size").filter(pc.invert(self.keep))
        return self.layer.size_in_bytes - (pc.sum(gone).as_py() or 0)


    def tally(self) -> Tally:
        """The tally of the live files."""
        if self.keep is None:
            return self.layer.tally
        return self.layer.tally.combined(self.layer.tally_of(pc.invert(self.keep)), -1)


def _named_by(below: Layer, above: Layer) -> pa.ChunkedArray | None:
    """Which adds of a layer another one names, too; None for none.

    Paths are compared first, since they are at hand. Equal keys have equal paths, so without a common path
    there is no common key: deletion vectors are read, and keys built, only for paths in common.
    """
    hit = below.find(above.named())
    if hit is None or not (below.has_vectors or above.has_vectors):
        return hit
    rows = pc.indices_nonzero(hit).cast(pa.int64())
    keys = key_array(*(taken(below.column(name), rows) for name in ("path", "deletion_vector")))
    hit = _among(keys, above.keys())
    return None if hit is None else mask_of(numbers(rows.filter(hit.combine_chunks())), below.num_rows)


def _undecided_files(
    part: Part, rows: pa.Array, above: Layer, columns: Sequence[str]
) -> pa.Table:
    """Columns of a part's files that another layer does not name."""
    vectors = part.layer.has_vectors or above.has_vectors
    key = ["path", "deletion_vector"] if vectors else ["path"]
    if len(rows) * MANY > part.num_files:
        part.layer.read(key)
    files = part.take([*columns, *key], rows)
    if vectors:
        hit = _among(key_array(files["path"], files["deletion_vector"]), above.keys())
    else:
        hit = _among(files["path"], above.named())
    return (files if hit is None else files.filter(pc.invert(hit))).select(list(columns))


def _among(values: pa.ChunkedArray, named: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if not len(named) or not len(values):
        return None
    hit = pc.is_in(values, value_set=named)
    return hit if pc.any(hit).as_py() else None


class FileSet:
    """The files and tombstones of one version, as described at the top of the module.

    Work is deferred: an extended set that is never read costs no more than its delta.
    """

    def __init__(self, checkpoint: CheckpointParts | None = None, keeps: bool = True) -> None:
        """``keeps``: whether columns of the checkpoint stay in memory after they are read."""
        self._checkpoint = checkpoint
        self._keeps = keeps
        self._parts: tuple[Part, ...] | None = () if checkpoint is None else None
        self._below: FileSet | None = None
        self._delta: Delta | None = None
        self._num_files: int | None = None
        self._size_in_bytes: int | None = None
        self.known_tally: Tally | None = None
        """The tally, once somebody has counted it."""
        self._named: set[str] | None = None
        """Keys of all files of this set, and of others: of all sets that were extended from the same one."""
        self._loose: FileSet | None = None
        self._lock = threading.Lock()

    @classmethod
    def _of(cls, parts: tuple[Part, ...]) -> FileSet:
        made = cls()
        made._parts = parts
        return made

    def extended(self, delta: Delta, all_new: bool = False) -> FileSet:
        """This set after one more run of commits.

        ``all_new``: the delta only adds files, none of which is in this set; counts are then carried forward
        instead of counted again.
        """
        if not delta.adds and not delta.removes:
            return self
        above = FileSet()
        above._parts, above._below, above._delta = None, self, delta
        if self._named is not None and len(self._named) <= 2 * MAX_NAMED:
            self._named.update(delta.adds)
            above._named = self._named
        if all_new and self._num_files is not None:
            above._num_files = self._num_files + len(delta.adds)
        if all_new and self._size_in_bytes is not None:
            above._size_in_bytes = self._size_in_bytes + sum(
                row.size or 0 for row in delta.adds.values())
        return above

    def lacks_all(self, delta: Delta) -> bool:
        """Whether the delta certainly only adds files that are not in this set, decided without reading."""
        return not delta.removes and not delta.passing and (
            self._named is not None and self._named.isdisjoint(delta.adds))

    @property
    def num_files(self) -> int:
        """Files, without reading more than paths."""
        if self._num_files is None:
            self._num_files = sum(part.num_files for part in self.parts())
        return self._num_files

    @property
    def known(self) -> tuple[int | None, int | None]:
        """Number and size of the files, each None unless it is known without reading anything."""
        below, delta = self._below, self._delta
        if below is not None and below._parts == () and delta is not None:  # from version 0 on
            if self._num_files is None:
                self._num_files = len(delta.adds)
            if self._size_in_bytes is None:
                self._size_in_bytes = sum(row.size or 0 for row in delta.adds.values())
        return self._num_files, self._size_in_bytes

    @property
    def tally(self) -> Tally:
        """The tally of the files; reads their sizes and, if there are any, deletion vectors."""
        if self.known_tally is None:
            below, delta = self._below, self._delta
            if below is not None and below._parts == () and delta is not None:  # from version 0 on
                tally = Tally.empty().plus(sized(delta.adds.values()))
                named: Iterable[str] = delta.adds
            else:
                tally = reduce(Tally.combined, (part.tally() for part in self.parts(["size"])), Tally.empty())
                named = self._keys() if tally.num_files <= MAX_NAMED else ()
            self._num_files, self._size_in_bytes = tally.num_files, tally.size_in_bytes
            self.known_tally = tally
            if self._named is None and 0 < tally.num_files <= MAX_NAMED:  # empty, it may be any table's
                self._named = set(named)
        return self.known_tally

    def _keys(self) -> Iterator[str]:
        files = self.read(["path", "deletion_vector"])
        yield from key_array(files.column("path"), files.column("deletion_vector")).to_pylist()

    @property
    def known_deletions(self) -> tuple[int, int] | None:
        """Number of deletion vectors and of the rows they delete, unless a checkpoint has to be read."""
        below, delta = self._below, self._delta
        if below is None or below._parts != () or delta is None:
            return None
        vectors = [row.deletion_vector for row in delta.adds.values() if row.deletion_vector is not None]
        return len(vectors), sum(vector.cardinality or 0 for vector in vectors)

    def guessed_num_files(self) -> int | None:
        """About how many files there are, from a checkpoint's footers and the commits after it.

        Wrong if these add a file again or remove an absent one; None if the guess, or its check, would cost
        reading.
        """
        below, delta = self._below, self._delta
        checkpoint = self._checkpoint if below is None else below._checkpoint
        if checkpoint is None or not getattr(checkpoint, "is_counted", False):
            return None
        count = checkpoint.num_adds
        if count > MAX_CHECKED:
            return None
        return count if delta is None else count + len(delta.adds) - len(delta.removes) + delta.passing

    @property
    def size_in_bytes(self) -> int:
        """Sum of the files' sizes in bytes."""
        if self._size_in_bytes is None:
            self._size_in_bytes = sum(part.bytes() for part in self.parts())
        return self._size_in_bytes

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The named columns of every file, oldest layer first."""
        schema = pa.schema([FILES_SCHEMA.field(name) for name in columns])
        tables = [part.read(columns) for part in self.parts(columns) if part.num_files]
        return pa.concat_tables(tables) if tables else empty_table(schema)

    def partition_values(self) -> Iterator[pa.MapArray]:
        """The maps of partition values in the order of :meth:`read`, in pieces. Keys and items are texts, or
        texts in dictionaries where a checkpoint stores them so."""
        for part in self.parts():
            if part.num_files:
                yield from part.partition_values().chunks

    def take(self, columns: Sequence[str], rows: pa.Array) -> pa.Table:
        """Rows of :meth:`read` by ascending positions, without reading the others."""
        tables, start = [], 0
        for part in self.parts():
            stop = start + part.num_files
            here = within(rows, start, stop)
            if len(here):
                tables.append(part.take(columns, here))
            start = stop
        schema = pa.schema([FILES_SCHEMA.field(name) for name in columns])
        return pa.concat_tables(tables) if tables else empty_table(schema)

    def read_apart(
        self, columns: Sequence[str], is_retained: Callable[[Any], bool]
    ) -> tuple[int, Iterator[pa.Table]]:
        """The files outside the fully live pieces of the checkpoint that ``is_retained`` accepts: their
        number, and their named columns in batches.

        Pieces are those of :meth:`CheckpointParts.pieces`; of retained ones only paths are read. A damaged
        page is detected only when the columns are read.
        """
        count, rest = 0, []
        for part in self.parts():
            pieces = [piece for piece in part.whole_pieces() if is_retained(piece)]
            count += part.num_files - sum(piece.stop - piece.start for piece in pieces)
            rest.append((part, pieces))
        return count, (table for part, pieces in rest if part.num_files
                       for table in part.streamed(columns, pieces))

    def stats(
        self, leaves: Sequence[Leaf], rows: pa.Array | None, convert: Convert
    ) -> list[pa.Table]:
        """Statistics of every file, or of those at some positions, in the order of :meth:`read`.

        One column per leaf, which ``convert`` makes from tables with ``stats_parsed`` of these leaves if a
        checkpoint has typed statistics, and with the texts ``stats`` otherwise.
        """
        pieces, start = [], 0
        for part in self.parts():
            stop = start + part.num_files
            here = None if rows is None else within(rows, start, stop)
            if part.num_files and (here is None or len(here)):
                whole = here is not None and len(here) == part.num_files
                pieces.append(part.stats(leaves, None if whole else here, convert))
            start = stop
        return pieces

    @property
    def has_typed_stats(self) -> bool:
        """Whether statistics are stored as typed columns, which can be read one by one."""
        return any(part.layer.has_typed_stats for part in self.parts())

    def candidates(self) -> FileSet:
        """These files and perhaps some that the newest commits hide, without reading any column.

        A search that leaves few of them calls :meth:`live_files` for those that are live. The same object at
        every call.
        """
        with self._lock:
            if self._loose is None:
                self._loose = self if self._parts is not None else FileSet._of(self._stacked())
            return self._loose

    def live_files(self, columns: Sequence[str], rows: pa.Array) -> pa.Table:
        """The named columns of the files among :meth:`candidates` at ascending positions."""
        loose = self.candidates()
        if loose is self or not loose._parts:
            return self.take(columns, rows)
        # The parts below have hidden each other's files already, so that only the top one can hide more;
        # its own adds are the newest word on their files, and stand.
        top = loose._parts[-1]
        tables, start = [], 0
        for part in loose._parts:
            stop = start + part.num_files
            here = within(rows, start, stop)
            start = stop
            if len(here) and part is not top:
                tables.append(_undecided_files(part, here, top.layer, columns))
            elif len(here):
                tables.append(part.take(columns, here))
        schema = pa.schema([FILES_SCHEMA.field(name) for name in columns])
        return pa.concat_tables(tables) if tables else empty_table(schema)

    def tombstones(self) -> pa.Table:
        """The removes that no later action reverted, by TOMBSTONES_SCHEMA."""
        layers = [part.layer for part in self.parts()]
        tables = []
        for index, layer in enumerate(layers):
            removes = layer.removes()
            for above in layers[index + 1 :]:
                removes = _without(removes, above)
            tables.append(removes)
        return pa.concat_tables(tables) if tables else tombstones_table(())

    def parts(self, columns: Sequence[str] = ()) -> tuple[Part, ...]:
        """The layers with the live files of each; computed at the first call.

        ``columns`` are those that will be read next: a checkpoint then reads them in one go.
        """
        with self._lock:
            if self._parts is None:
                self._parts = self._settle(columns)
                self._below = self._delta = self._checkpoint = None
            return self._parts

    def _settle(self, columns: Sequence[str]) -> tuple[Part, ...]:
        parts = self._stacked() if self._loose is None else self._loose.parts()
        if len(parts) < 2:
            return parts
        if columns and not parts[0].layer.in_memory:
            parts[0].layer.read(["path", *columns])
        # Those below were settled when their version was; only the newest layer has hidden nothing yet.
        *below, top = parts
        parts = (*(part.hidden_by(top.layer) for part in below), top)
        return _merged(parts) if len(parts) > MAX_LAYERS else parts

    def _stacked(self) -> tuple[Part, ...]:
        """The parts known below, and the commits above them as one layer that hides nothing yet."""
        if self._checkpoint is not None:
            return (Part.whole(Layer(self._checkpoint, None, None, self._keeps)),)
        deltas = []
        at: FileSet = self
        while at._parts is None and (below := at._below) is not None:
            deltas.append(at._delta)
            at = below
        parts = at.parts()
        merged = Delta()
        for delta in reversed(deltas):
            assert delta is not None
            merged.absorb(delta)
        return (*parts, Part.whole(Layer.of_delta(merged)))


def _without(removes: pa.Table, above: Layer) -> pa.Table:
    keys = key_array(removes.column("path"), removes.column("deletion_vector"))
    hit = _among(keys, above.keys())
    return removes if hit is None else removes.filter(pc.invert(hit))


def _merged(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """One layer in place of all those in memory.

    Its adds and tombstones name the same files as the merged layers, since the newest action on a file is one
    or the other. So it hides the same files of the checkpoint below, and no ``keep`` there has to change.
    """
    first = next(i for i, part in enumerate(parts) if part.layer.in_memory)
    upper = parts[first:]
    names = FILES_SCHEMA.names
    adds = pa.concat_tables(part.read(names) for part in upper).combine_chunks()
    layer = Layer(None, adds, FileSet._of(upper).tombstones().combine_chunks())
    return (*parts[:first], Part.whole(layer))
