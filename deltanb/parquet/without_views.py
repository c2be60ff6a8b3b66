"""Parquet files for who reads them by Arrow alone: none says that its columns are views of Arrow's.

What lives here: :func:`without_views`, by which datasets open files.
What it does not know: datasets, and why a file is read.

Of views Arrow takes no rows by their positions, and compares them with nothing else. They are a form that
Arrow's own schema in a file asks for; without it the columns are what Parquet says.
"""

from __future__ import annotations

import io
import struct

import pyarrow as pa

from deltanb.parquet.file import ARROW_SCHEMA, open_parquet, raw_footer
from deltanb.parquet.splice import MAGIC

__all__ = ["without_views"]


def without_views(source: pa.NativeFile) -> pa.NativeFile:
    """The file for who reads it by Arrow alone: itself, or where it has views the same without them.

    Raises:
        Exception: of many kinds; it is not a Parquet file.
    """
    footer = raw_footer(source)
    if ARROW_SCHEMA not in footer:
        return source
    plain = open_parquet(source).footer_bytes
    return source if plain == footer else pa.PythonFile(_OtherEnd(source, plain), mode="r")


class _OtherEnd(io.RawIOBase):
    """A Parquet file with another footer of the same length."""

    def __init__(self, file: pa.NativeFile, footer: bytes) -> None:
        super().__init__()
        self._file, self._size, self._at = file, file.size(), 0
        self._end = footer + struct.pack("<I4s", len(footer), MAGIC)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        begin, stop = self._at, self._size if size < 0 else min(self._size, self._at + size)
        if stop <= begin:
            return b""
        first = self._size - len(self._end)
        content: bytes = self._file.read_at(min(stop, first) - begin, begin) if begin < first else b""
        self._at = stop
        return content + self._end[max(0, begin - first):max(0, stop - first)]

    def close(self) -> None:
        self._file.close()
        super().close()
