"""A file of a bucket as Arrow reads it, of which may be said before what will be read.

What lives here: :class:`RangedFile`, a file of Arrow's around a :class:`~deltanb.store.object_files.Reader`.
What it does not know: why something is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from deltanb.store.object_files import Reader

__all__ = ["RangedFile", "opened"]


class RangedFile(pa.PythonFile):
    """A file that is read by ranges, each of which is a request."""

    def __init__(self, reader: Reader, mode: str) -> None:  # which Arrow has taken in before
        self._ranges = reader

    @property
    def at_hand(self) -> int:
        """How many bytes of its end are here already."""
        return len(self._ranges.content)

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As :meth:`deltanb.store.object_files.Reader.expect`."""
        self._ranges.expect(ranges)

    def again(self) -> RangedFile:
        """The same for another thread; nothing is asked for."""
        return RangedFile(self._ranges.again(), "r")


def opened(reader: Reader) -> Any:
    """A file of Arrow's; in memory, where all of it came with the first request."""
    return pa.BufferReader(reader.content) if reader.is_whole else RangedFile(reader, "r")
