"""Deleted positions as bitmaps in which a Spark query looks rows up.

What lives here: positions to words of 64 bits, a chunk of rows at a time.
What it does not know: Spark, deletion vectors in the log.
"""

from __future__ import annotations

from array import array

import pyarrow as pa
import pyarrow.compute as pc

CHUNK_BITS = 13
"""Deleted positions are joined as one bitmap for every 2**13 rows: large enough that a row's lookup is
one of few entries, small enough that a file with one deletion sends 1 kB."""
WORDS = 1 << (CHUNK_BITS - 6)  # 64-bit words of a bitmap


def bitmaps(file: pa.Scalar, positions: pa.Array) -> pa.Table:
    """Sorted positions in a file as rows of (file, number of the chunk, :data:`WORDS` words)."""
    words = pc.shift_right(positions, 6)
    # Unsigned: Arrow leaves a signed number as it is when a shift would reach its sign.
    one, places = pa.scalar(1, pa.uint64()), pa.scalar(63, pa.uint64())
    bits = pc.shift_left(one, pc.bit_wise_and(positions, places))
    # Powers of two, each once: their sum is their union.
    sums = pa.table({"word": words, "bits": bits}).group_by("word", use_threads=False).aggregate(
        [("bits", "sum")])
    chunks = pc.shift_right(sums.column("word"), CHUNK_BITS - 6).combine_chunks()
    encoded = chunks.dictionary_encode()
    flat = array("Q", bytes(8 * WORDS * len(encoded.dictionary)))
    for chunk, word, value in zip(encoded.indices.to_pylist(), sums.column("word").to_pylist(),
                                  sums.column("bits_sum").to_pylist(), strict=True):
        flat[chunk * WORDS + (word & (WORDS - 1))] = value
    values = pa.Array.from_buffers(pa.int64(), len(flat), [None, pa.py_buffer(flat)])
    offsets = pa.array(range(0, len(flat) + 1, WORDS), pa.int32())
    return pa.table([pa.repeat(file, len(encoded.dictionary)),
                     encoded.dictionary.cast(pa.int64()),
                     pa.ListArray.from_arrays(offsets, values)], names=["file", "chunk", "bits"])
