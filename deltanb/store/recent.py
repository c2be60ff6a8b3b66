"""What was fetched from buckets not long ago, in memory: objects that never change, by what identifies them.

What lives here: :class:`Recent`, bounded in bytes; and :data:`recent`, that of the process.
What it does not know: whether somebody may read an object. Whoever asks has its tag from a listing of theirs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

__all__ = ["MAX_RECENT", "ObjectKey", "Recent", "recent"]

MAX_RECENT = 4 << 20
"""Bytes: some 3,000 commits of a file each. A handle that commits forever holds no more than that."""
SHARE = 4
"""No object takes more than one in so many of them."""
OVERHEAD = 500
"""Bytes of an object beside its content: its key, and its place in the order."""


class ObjectKey(NamedTuple):
    """What identifies the content of an object: the place of its table, its name there, tag and size.

    A tag differs wherever the content does; a table made anew at the same place has others.
    """

    place: str
    name: str
    tag: str
    size: int


class Recent:
    """The objects that were used last, up to so many bytes.

    >>> objects = Recent(8_000)
    >>> key = ObjectKey("s3|lake|ducks", "0.json", tag="a", size=2)
    >>> objects.keep(key, b"{}")
    >>> objects.content(key), objects.content(key._replace(tag="b"))
    (b'{}', None)
    """

    def __init__(self, limit: int = MAX_RECENT) -> None:
        self._limit = limit
        self._contents: OrderedDict[ObjectKey, bytes] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    @property
    def weight(self) -> int:
        """Bytes that are taken."""
        return self._weight

    def content(self, key: ObjectKey) -> bytes | None:
        """The content of an object; None where it is not here."""
        with self._lock:
            data = self._contents.get(key)
            if data is not None:
                self._contents.move_to_end(key)
            return data

    def keep(self, key: ObjectKey, data: bytes) -> None:
        """Have an object's content from now on; those that were used longest ago make room for it."""
        weight = len(data) + OVERHEAD
        if weight * SHARE > self._limit:
            return
        with self._lock:
            before = self._contents.pop(key, None)
            self._weight += weight - (0 if before is None else len(before) + OVERHEAD)
            self._contents[key] = data
            while self._weight > self._limit:
                _, oldest = self._contents.popitem(last=False)
                self._weight -= len(oldest) + OVERHEAD

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._contents.clear()
            self._weight = 0


recent = Recent()
"""Those of this process."""
