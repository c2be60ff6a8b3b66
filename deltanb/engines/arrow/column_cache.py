"""Columns of data files that are decoded once and needed twice: to find rows, and to write others again.

What lives here: :class:`Kept`, the columns of one file by its row groups, and :class:`Room`, which bounds
what is kept of all files.
What it does not know: what the columns are for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
from pyroaring import BitMap64

__all__ = ["MOST_BYTES", "Batches", "Kept", "Room"]

MOST_BYTES = 8 << 20
"""Of a command: a column of a million long numbers. It is held beside the rows that are encoded: 20 MB, in a
DELETE from 10 M rows, were 4 % of its peak of memory, and these 8 MB are 2 %."""

Batches = Iterator[tuple[int, pa.RecordBatch]]
"""Batches as they are stored, each with the place of its first row."""


class Room:
    """So many bytes, by default :data:`MOST_BYTES`, for files that several threads read."""

    def __init__(self, size: int | None = None) -> None:
        self._left = MOST_BYTES if size is None else size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there was room for so many bytes, which there is no more."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def leave(self, size: int) -> None:
        """Give so many bytes back."""
        with self._lock:
            self._left += size


class Kept:
    """Columns of one file, of those row groups for which there was room.

    >>> kept = Kept(Room(100))
    >>> for number, rows in enumerate((8, 100)):
    ...     batches = iter([(0, pa.record_batch({"id": pa.array(range(rows))}))])
    ...     _ = list(kept.group(number, batches))
    >>> [kept.given_back(number) is not None for number in (0, 0, 1)]
    [True, False, False]
    """

    def __init__(self, room: Room) -> None:
        self.schema: pa.Schema | None = None
        self._room = room
        self._groups: dict[int, tuple[int, list[tuple[int, pa.RecordBatch]]]] = {}

    def group(self, number: int, batches: Batches) -> Batches:
        """The batches of a row group, which are kept once they all were taken."""
        found, size, fits = list[tuple[int, pa.RecordBatch]](), 0, True
        for start, batch in batches:
            fits = fits and self._room.take(batch.nbytes)
            if fits:
                size += batch.nbytes
                found.append((start, batch))
            yield start, batch
        if fits and found:
            self.schema = found[0][1].schema
            self._groups[number] = size, found
        else:
            self._room.leave(size)

    def given_back(self, number: int) -> Batches | None:
        """The batches of a row group, once; None where they were not kept."""
        size, found = self._groups.pop(number, (0, None))
        self._room.leave(size)
        return None if found is None else iter(found)

    def narrow(self, rows: BitMap64) -> None:
        """Let go of row groups without any of these rows, which are positions in the file."""
        for number, (_, found) in list(self._groups.items()):
            last, batch = found[-1]
            if not rows.range_cardinality(found[0][0], last + batch.num_rows):
                self.given_back(number)
