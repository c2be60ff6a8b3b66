"""Files of deletion vectors, read in ranges: what one piece of work needs of them, once.

What lives here: :class:`VectorFiles`, which a scan has for all its files, and :func:`vectors_of`, those of a
transaction.
What it does not know: what is in a vector, and whether it is right (``deletion_vectors``).

A commit writes its vectors into one file, often thousands of a few bytes each. Read one by one they are as
many requests as there are data files. Which are wanted, and in which order, nobody says beforehand: so a
range around the one that is asked for is kept, and where ranges are asked for one behind the other they grow.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyroaring import BitMap64

from deltanb.engines.arrow import deletion_vectors
from deltanb.store.base import read_range

if TYPE_CHECKING:
    from deltanb.actions import DeletionVector
    from deltanb.store.base import LogStore
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["VectorFiles", "vectors_of"]

BLOCK = 1 << 18
"""Bytes that are asked for at least: they take about as long as one byte does."""
MOST_AT_ONCE = 16
"""Blocks of a request."""
MOST_HELD = 64 << 20
"""Bytes that are held, of all files together."""


class _File:
    """One file: which block follows what was asked for last, and which blocks are no longer held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next, self.width = 0, 1
        self.gone: set[int] = set()


class VectorFiles:
    """Reads vectors; whoever needs one of a file meanwhile another thread reads it waits for that.

    The files are read as they are at the first use, so it lives as long as one piece of work. In another
    process it holds nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[tuple[str, str], _File] = {}
        self._blocks: OrderedDict[tuple[tuple[str, str], int], bytes] = OrderedDict()
        self.held = 0
        """Bytes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorFiles, ()

    def load(
        self, store: LogStore, vector: DeletionVector | Mapping[str, Any] | None, *, data_file: str = ""
    ) -> BitMap64:
        """As :func:`~deltanb.engines.arrow.deletion_vectors.load`; no rows where a file has no vector."""
        if vector is None:
            return BitMap64()
        return deletion_vectors.load(store, vector, data_file=data_file, read=self.read)

    def read(self, store: LogStore, name: str, start: int, stop: int) -> bytes:
        """As :func:`~deltanb.store.base.read_range`."""
        first, behind = start // BLOCK, -(-stop // BLOCK)
        if behind - first > MOST_AT_ONCE:
            return read_range(store, name, start, stop)
        key = (getattr(store, "identity", None) or store.root, name)
        with self._lock:
            file = self._files.setdefault(key, _File())
        with file.lock:
            content, number = b"", first
            while number < behind and (block := self._block(key, number)) is not None:
                content, number = content + block, number + 1
            if number < behind:
                if not file.gone.isdisjoint(range(number, behind)):
                    return read_range(store, name, start, stop)  # they come in no order: what is needed alone
                content += self._fetched(store, key, file, number, behind)
        return content[start - first * BLOCK:stop - first * BLOCK]

    def _block(self, key: tuple[str, str], number: int) -> bytes | None:
        with self._lock:
            block = self._blocks.get((key, number))
            if block is not None:
                self._blocks.move_to_end((key, number))
            return block

    def _fetched(
        self, store: LogStore, key: tuple[str, str], file: _File, first: int, behind: int
    ) -> bytes:
        """The blocks, and some behind them, by one request."""
        file.width = min(2 * file.width, MOST_AT_ONCE) if first <= file.next <= behind and file.next else 1
        count = max(behind - first, file.width)
        content = read_range(store, key[1], first * BLOCK, (first + count) * BLOCK)
        file.next = first + count
        with self._lock:
            for number in range(count):
                block = content[number * BLOCK:(number + 1) * BLOCK]
                self.held += len(block) - len(self._blocks.pop((key, first + number), b""))
                self._blocks[key, first + number] = block
            while self.held > MOST_HELD:
                (of, number), block = self._blocks.popitem(last=False)
                self._files[of].gone.add(number)
                self.held -= len(block)
        return content


_of_transactions: WeakKeyDictionary[OptimisticTransaction, VectorFiles] = WeakKeyDictionary()


def vectors_of(txn: OptimisticTransaction) -> VectorFiles:
    """Those of a transaction, for all that it reads of its snapshot."""
    return _of_transactions.setdefault(txn, VectorFiles())
