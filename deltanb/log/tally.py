"""Counts of a version's files: their number and sizes, and their deleted rows.

What lives here: :class:`Tally`, a value that each commit updates by the files it adds and removes
(PROTOCOL.md, "File Size Histogram Schema" and "Deleted Record Counts Histogram Schema").
What it does not know: where the files are listed, and where the tally is stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DELETED_BINS", "SIZE_BINS", "Deletions", "Sizes", "Tally", "binned", "sized"]

_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30

SIZE_BINS: tuple[int, ...] = (
    0, *(8 * _KB << n for n in range(10)),  # 8 KB to 4 MB, each twice the one before
    *range(8 * _MB, 40 * _MB, 4 * _MB), *range(40 * _MB, 120 * _MB, 8 * _MB),
    *range(120 * _MB, 144 * _MB, 4 * _MB), *range(144 * _MB, 576 * _MB, 16 * _MB),
    *range(576 * _MB, 1408 * _MB, 64 * _MB), *range(1408 * _MB, 2 * _GB, 128 * _MB),
    *range(2 * _GB, 4 * _GB, 256 * _MB), *(4 * _GB << n for n in range(7)))
"""Bytes at which the bins of Delta's histogram of file sizes begin."""

DELETED_BINS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)
"""Deleted rows of a file at which the bins of Delta's histogram of them begin."""


@dataclass(frozen=True)
class Sizes:
    """Files and their bytes by bins of :data:`SIZE_BINS`."""

    counts: Sequence[int]
    bytes: Sequence[int]


@dataclass(frozen=True)
class Deletions:
    """Deletion vectors, the rows that they delete, and files by bins of :data:`DELETED_BINS`."""

    vectors: int
    rows: int
    counts: Sequence[int]

    @classmethod
    def none(cls, num_files: int) -> Deletions:
        """The deletions of files without deletion vectors."""
        return cls(0, 0, (num_files, *(0 for _ in DELETED_BINS[1:])))


@dataclass(frozen=True)
class Tally:
    """Number of files, their size in bytes, and both histograms; None if unknown.

    >>> tally = Tally.empty().plus([(3, None), (9_000, 12)])
    >>> tally.num_files, tally.size_in_bytes, tally.sizes.bytes[:3], tally.deletions.counts[:3]
    (2, 9003, [3, 9000, 0], [1, 0, 1])
    """

    num_files: int
    size_in_bytes: int
    sizes: Sizes | None = None
    deletions: Deletions | None = None

    @classmethod
    def empty(cls) -> Tally:
        """The tally of no files."""
        bins = (0,) * len(SIZE_BINS)
        return cls(0, 0, Sizes(bins, bins), Deletions.none(0))

    @classmethod
    def of_columns(cls, sizes: pa.ChunkedArray, deleted: pa.ChunkedArray | None) -> Tally:
        """The tally of files given as columns: sizes, and the rows deleted by each vector, NULL without one.

        ``deleted`` is None if no file has a deletion vector.
        """
        count, counts, size = len(sizes), *binned(sizes, SIZE_BINS)
        deletions = Deletions.none(count)
        if deleted is not None:
            spread, by_bin = binned(deleted, DELETED_BINS)
            deletions = Deletions(count - deleted.null_count, sum(by_bin), spread)
        return cls(count, sum(size), Sizes(counts, size), deletions)

    def plus(self, files: Iterable[tuple[int | None, int | None]]) -> Tally:
        """This tally with further files: the size of each, and the rows its vector deletes, None without
        one."""
        more = [(size or 0, deleted) for size, deleted in files]
        return Tally(self.num_files + len(more), self.size_in_bytes + sum(size for size, _ in more),
                     self._with_sizes(more), self._with_deletions(more))

    def _with_sizes(self, files: Sequence[tuple[int, int | None]]) -> Sizes | None:
        if self.sizes is None:
            return None
        counts, sizes = list(self.sizes.counts), list(self.sizes.bytes)
        for size, _ in files:
            place = max(0, bisect_right(SIZE_BINS, size) - 1)
            counts[place] += 1
            sizes[place] += size
        return Sizes(counts, sizes)

    def _with_deletions(self, files: Sequence[tuple[int, int | None]]) -> Deletions | None:
        if self.deletions is None:
            return None
        vectors, rows, counts = self.deletions.vectors, self.deletions.rows, list(self.deletions.counts)
        for _, deleted in files:
            vectors += deleted is not None
            rows += deleted or 0
            counts[max(0, bisect_right(DELETED_BINS, deleted or 0) - 1)] += 1
        return Deletions(vectors, rows, counts)

    def combined(self, other: Tally, sign: int = 1) -> Tally:
        """This tally plus another one, or minus it if the sign is -1."""
        def both(one: Sequence[int], two: Sequence[int]) -> list[int]:
            return [a + sign * b for a, b in zip(one, two, strict=True)]

        sizes = deletions = None
        if self.sizes is not None and other.sizes is not None:
            sizes = Sizes(both(self.sizes.counts, other.sizes.counts),
                          both(self.sizes.bytes, other.sizes.bytes))
        if self.deletions is not None and other.deletions is not None:
            mine, theirs = self.deletions, other.deletions
            deletions = Deletions(mine.vectors + sign * theirs.vectors, mine.rows + sign * theirs.rows,
                                  both(mine.counts, theirs.counts))
        return Tally(self.num_files + sign * other.num_files,
                     self.size_in_bytes + sign * other.size_in_bytes, sizes, deletions)


def sized(adds: Iterable[Any]) -> Iterator[tuple[int | None, int | None]]:
    """The size of each file, and the rows that its deletion vector deletes; None without one."""
    for row in adds:
        vector = row.deletion_vector
        yield row.size, None if vector is None else vector.cardinality or 0


def binned(values: pa.ChunkedArray, bins: Sequence[int]) -> tuple[list[int], list[int]]:
    """The count and the sum of 64-bit integers in each bin; NULL counts as 0.

    >>> import pyarrow as pa
    >>> binned(pa.chunked_array([[1, 5, None], [7, 2**60]]), (0, 4, 8))
    ([2, 2, 1], [1, 12, 1152921504606846976])
    """
    import numpy as np

    counts, sums = [values.null_count, *(0 for _ in bins[1:])], [0] * len(bins)
    for chunk in values.drop_null().chunks:
        # As they lie in memory: to_numpy() would load pandas.
        numbers = np.frombuffer(chunk.buffers()[1] or b"", np.int64)[chunk.offset:chunk.offset + len(chunk)]
        places = np.maximum(np.searchsorted(bins, numbers, side="right") - 1, 0)
        here = np.bincount(places, minlength=len(bins))
        # By halves: numpy adds weights up as floats, which hold integers below 2**53 exactly.
        low, high = (np.bincount(places, half, len(bins)) for half in (numbers & 0xFFFFFFFF, numbers >> 32))
        counts = [a + int(b) for a, b in zip(counts, here, strict=True)]
        sums = [a + int(b) + (int(c) << 32) for a, b, c in zip(sums, low, high, strict=True)]
    return counts, sums
