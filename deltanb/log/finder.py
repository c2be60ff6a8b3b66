"""Search for few texts among very many: the paths that a commit names among those of a checkpoint.

What lives here: :class:`Finder`, which returns the same rows as ``pyarrow.compute.is_in`` but reads only a
few bytes of each text. What it does not know: what the texts are.

Four bytes of each text become a fingerprint of 16 bits; a fingerprint that no search text has rules the text
out. The rest, one text in some hundreds, is compared as a whole. So the place of the four bytes affects only
speed. It is counted from the end, since the beginning varies in length (partitions), and chosen where a
sample of the texts differs most: paths have random digits somewhere.

Memory is read in aligned words, which is much faster than four bytes at any address. The offset of a place in
its word depends on the address of the text, so each search text has four fingerprints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from deltanb.log.arrays import array_of, mask_of, numbers, taken
from deltanb.log.compute import pc

__all__ = ["MIN_ROWS", "Finder"]

MIN_ROWS = 50_000
"""Texts from which on to look at a sample of them first takes less time than it spares."""
MAX_WANTED = 2000
"""Wanted texts up to which their fingerprints are few of all that there are."""
SAMPLE = 64
MIN_DISTINCT = 62
"""Of a sample so many have four bytes of their own where there are some thousands of them."""
MAX_LEFT = 8
"""No more than one text in so many is compared as a whole; else all are, which Arrow does faster."""
_BLOCK = 1 << 17  # rows at a time: what is worked out on the way stays in the processor's cache
_WORD = np.dtype("<u4")
_MIX = np.uint32(0x9E3779B1)  # odd, without a pattern in its bits: each byte changes the upper half


class Finder:
    """Texts to search in, with their fingerprints of two bytes each.

    >>> few = pa.array(["b", "x"])
    >>> Finder(pa.chunked_array([["a", "b"], ["b"]])).find(few).to_pylist()
    [False, True, True]
    """

    def __init__(self, texts: pa.ChunkedArray) -> None:
        self._texts = texts
        self._place: int | None = None
        if len(texts) >= MIN_ROWS and t.is_string(texts.type) and not texts.null_count:
            self._place = _telling_place(texts)
        if self._place is not None:
            self._marks, self._short = _fingerprints(texts, self._place)

    def find(self, keys: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | None:
        """Which texts are among the given ones; None if none is."""
        if not len(keys) or not len(self._texts):
            return None
        left = self._left(keys)
        if left is None:
            hit = pc.is_in(self._texts, value_set=keys)
            return hit if pc.any(hit).as_py() else None
        rows = left[numbers(pc.is_in(taken(self._texts, array_of(left)), value_set=keys))]
        return mask_of(rows, len(self._texts)) if len(rows) else None

    def _left(self, keys: pa.ChunkedArray | pa.Array) -> Any:
        """Ascending positions of texts that fingerprints do not rule out; None if these do not help."""
        if self._place is None or len(keys) > MAX_WANTED or keys.null_count:
            return None
        met: Any = np.zeros(1 << 16, np.uint8)
        met[_fingerprints_of(_as_bytes(keys), self._place)] = 1
        starts = range(0, len(self._marks), _BLOCK)
        left: Any = np.concatenate(
            [_met(self._marks[at : at + _BLOCK], array_of(met)) + at for at in starts])
        if len(self._short):
            left = np.union1d(left, self._short)
        return None if len(left) * MAX_LEFT > len(self._texts) else left


def _telling_place(texts: pa.ChunkedArray) -> int | None:
    """The distance from the end at which texts differ most; None if they differ too little."""
    rows: Any = np.arange(SAMPLE, dtype=np.int64) * len(texts) // SAMPLE
    sample = _as_bytes(taken(texts, array_of(rows)))
    length = min(map(len, sample))
    if length < 7:  # a word before the place, and one from there on
        return None
    ends = np.frombuffer(b"".join(text[-length:] for text in sample), np.uint8).reshape(SAMPLE, length)
    words = np.lib.stride_tricks.sliding_window_view(ends, 4, axis=1).copy().view(_WORD)[:, :, 0]
    words.sort(axis=0)
    distinct = 1 + (words[1:] != words[:-1]).sum(axis=0)
    worst = np.lib.stride_tricks.sliding_window_view(distinct, 4).min(axis=1)  # of the words that may be read
    best = np.flatnonzero(worst == worst.max())
    middle = int(best[len(best) // 2])  # of the random digits, not where they begin
    return length - 3 - middle if worst[middle] >= MIN_DISTINCT else None


def _fingerprints(texts: pa.ChunkedArray, place: int) -> tuple[Any, Any]:
    """The fingerprint of each text, and the positions of those too short to have one."""
    marks: Any = np.empty(len(texts), np.uint16)
    short: list[Any] = [np.zeros(0, np.int64)]
    start = 0
    for chunk in texts.chunks:
        _, edges, data = chunk.buffers()
        at = np.frombuffer(edges, np.int32, len(chunk) + 1, 4 * chunk.offset)
        words = pa.Array.from_buffers(pa.uint32(), 0 if data is None else len(data) // 4, [None, data])
        for first in range(0, len(chunk), _BLOCK):
            block = at[first : first + _BLOCK + 1]
            index, lengths = (block[1:] - np.int32(place)) >> 2, block[1:] - block[:-1]
            if lengths.min() < place + 3:
                without = np.flatnonzero(lengths < place + 3)
                short.append(without + (start + first))
                index[without] = 0
            read = words.take(array_of(index)) if len(words) else pa.repeat(0, len(index)).cast(pa.uint32())
            marks[start + first : start + first + len(index)] = _mixed(numbers(read))
        start += len(chunk)
    return marks, np.concatenate(short)


def _fingerprints_of(texts: Sequence[bytes], place: int) -> Any:
    """The fingerprints that texts may have at any address."""
    prints = []
    for text in texts:
        at = len(text) - place
        prints += [text[at - shift : at - shift + 4] for shift in range(4) if at >= 3]
    return _mixed(np.frombuffer(b"".join(prints), _WORD))


def _mixed(words: Any) -> Any:
    return (words * _MIX).view(np.uint16)[1::2]  # the upper halves


def _met(marks: Any, met: pa.Array) -> Any:
    """The positions of marks that match."""
    return np.flatnonzero(numbers(met.take(array_of(marks))).view(np.bool_))


def _as_bytes(texts: pa.ChunkedArray | pa.Array) -> list[bytes]:
    """The texts as bytes, since a damaged text may not be valid."""
    return texts.cast(pa.binary()).to_pylist()
