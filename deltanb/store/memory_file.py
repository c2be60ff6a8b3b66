"""A file that is written in memory, for stores that are there.

What lives here: :class:`MemoryFile`. What it does not know: where its content goes.
"""

from __future__ import annotations

import io
from collections.abc import Callable

__all__ = ["MemoryFile"]


class MemoryFile(io.BytesIO):
    """What is written, handed on as a whole once the file is closed.

    >>> contents = []
    >>> file = MemoryFile(contents.append)
    >>> _ = file.write(b"quack")
    >>> contents, file.close(), contents
    ([b'quack'], None, [b'quack'])
    """

    def __init__(self, done: Callable[[bytes], object]) -> None:
        super().__init__()
        self._done = done

    def close(self) -> None:
        """Hand the content on, the first time."""
        if not self.closed:
            self._done(self.getvalue())
            super().close()
