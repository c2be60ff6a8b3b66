"""Objects of a bucket as files for Arrow: read by ranges, written in parts.

What lives here: :class:`Reader`, whose first request brings size, end and, of a small object, all of it; and
:class:`Writer`, whose content is an object from ``close()`` on.
What it does not know: Parquet, and why something is read.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltanb.store.bucket import Bucket

__all__ = ["AHEAD", "PART_SIZE", "Reader", "Writer"]

AHEAD = 1 << 20
"""Bytes at the end of an object that are asked for at once: a megabyte takes no longer than the round trip
that it spares."""
PART_SIZE = 8 << 20
"""Bytes of a part. An object that is smaller is put as a whole; S3 takes no part below 5 MiB but the last,
and 10,000 of them."""


class Reader(io.RawIOBase):
    """An object, open for reading at random.

    Raises:
        FileNotFoundError: there is none.
        StorageError: it cannot be read.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        super().__init__()
        self._bucket, self._key = bucket, key
        self._size, self._tail = bucket.get_end(key, AHEAD)
        self._place = 0

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
            data = bytes(self._bucket.get_range(self._key, start, known)) + bytes(self._tail[:stop - known])
        else:
            data = self._bucket.get_range(self._key, start, stop)
        self._place = stop
        return data

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
