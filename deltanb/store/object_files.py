"""Objects of a bucket as files for Arrow: read by ranges, written in parts.

What lives here: :class:`Reader`, whose first request brings size, end and, of a small object, all of it, and
which asks once for ranges that follow each other where it is told of them; and :class:`Writer`, whose content
is an object from ``close()`` on.
What it does not know: Parquet, and why something is read.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltanb.store.bucket import Bucket

__all__ = ["AHEAD", "BLOCK", "PART_SIZE", "Reader", "Writer"]

AHEAD = 1 << 20
"""Bytes at the end of an object that are asked for at once: a megabyte takes no longer than the round trip
that it spares."""
BLOCK = 16 << 20
"""Bytes up to which neighbouring ranges are one request: by then it takes many times as long as a round trip,
and another connection brings the next ones."""
PART_SIZE = 8 << 20
"""Bytes of a part. An object that is smaller is put as a whole; S3 takes no part below 5 MiB but the last,
and 10,000 of them."""


@dataclass(slots=True)
class _Block:
    """A range that is asked for as a whole. Once it was read to its end it is kept until another one is asked
    for: statistics of what is copied are read out of it a second time."""

    start: int
    stop: int
    reached: int = 0
    content: Any = None


class Reader(io.RawIOBase):
    """An object, open for reading at random; ``ahead`` bytes of its end come with the first request.

    Raises:
        FileNotFoundError: there is none.
        StorageError: it cannot be read.
    """

    def __init__(self, bucket: Bucket, key: str, ahead: int = AHEAD) -> None:
        super().__init__()
        self._bucket, self._key = bucket, key
        self._size, self._tail = bucket.get_end(key, ahead)
        self._place = 0
        self._blocks: list[_Block] = []
        self._lock = threading.Lock()  # Arrow reads ahead by threads of its own

    def again(self) -> Reader:
        """The same object for another thread, with what came with the first request."""
        other = Reader.__new__(Reader)
        io.RawIOBase.__init__(other)
        other._bucket, other._key, other._size, other._tail = self._bucket, self._key, self._size, self._tail
        other._place, other._blocks, other._lock = 0, [], threading.Lock()
        return other

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Ranges that will be read, each by one or more reads; nothing is asked for yet.

        Those that follow each other are one request, up to :data:`BLOCK` bytes.
        """
        known = self._size - len(self._tail)
        with self._lock:
            for start, stop in sorted(ranges):
                stop = min(stop, known)
                last = self._blocks[-1] if self._blocks else None
                if start >= stop:
                    continue
                if last and last.content is None and last.stop == start and stop - last.start <= BLOCK:
                    last.stop = stop
                else:
                    self._blocks.append(_Block(start, stop))

    @property
    def content(self) -> Any:
        """All that came with the first request."""
        return self._tail

    @property
    def is_whole(self) -> bool:
        """Whether that is the whole object."""
        return len(self._tail) == self._size

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is asked for."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def size(self) -> int:
        """In bytes."""
        return self._size

    def read(self, size: int = -1) -> Any:
        """The bytes from here on: out of the end that is here already, or by one request for a range."""
        start = self._place
        stop = self._size if size is None or size < 0 else min(self._size, start + size)
        if start >= stop:
            return b""
        known = self._size - len(self._tail)
        if start >= known:
            data: Any = self._tail[start - known:stop - known]
        elif stop > known:
            data = bytes(self._range(start, known)) + bytes(self._tail[:stop - known])
        else:
            data = self._range(start, stop)
        self._place = stop
        return data

    def _range(self, start: int, stop: int) -> Any:
        """Bytes before the end that is here, out of the block that they are expected in, or by a request."""
        with self._lock:
            block = next((one for one in self._blocks if one.start <= start and stop <= one.stop), None)
            if block is not None:
                if block.content is None:
                    self._blocks = [one for one in self._blocks if one.reached < one.stop]
                    block.content = self._bucket.get_range(self._key, block.start, block.stop)
                block.reached = max(block.reached, stop)
                return block.content[start - block.start:stop - block.start]
        return self._bucket.get_range(self._key, start, stop)

    def readinto(self, buffer: Any) -> int:
        """As any raw file."""
        content = self.read(len(buffer))
        buffer[:len(content)] = content
        return len(content)


class Writer:
    """An object being written, in parts of :data:`PART_SIZE`; nobody sees it before ``close()``."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket, self._key = bucket, key
        self._held = bytearray()
        self._file: Any = None
        self._place = 0
        self.closed = False

    def writable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is not."""
        return False

    def seekable(self) -> bool:
        """It is not."""
        return False

    def tell(self) -> int:
        """Bytes written."""
        return self._place

    def flush(self) -> None:
        """Nothing: what is not a whole part waits."""

    def write(self, data: Any) -> int:
        """Take bytes; a part that is full is sent."""
        view = memoryview(data).cast("B")
        self._held += view
        self._place += len(view)
        if len(self._held) >= PART_SIZE:
            with self._bucket.answering("written", self._key):
                if self._file is None:
                    self._file = self._bucket.writer(self._key, PART_SIZE)
                self._file.write(bytes(self._held))
            self._held.clear()
        return len(view)

    def close(self) -> None:
        """Make it an object; one that is smaller than a part by a single put.

        Raises:
            StorageError: it cannot be written.
        """
        if self.closed:
            return
        self.closed = True
        if self._file is None:
            self._bucket.put(self._key, bytes(self._held))
            return
        with self._bucket.answering("written", self._key):
            if self._held:
                self._file.write(bytes(self._held))
            self._file.close()
