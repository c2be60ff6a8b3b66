"""Rows and where they lie: the rows of files at some positions, with file and position.

What lives here: :class:`Located`, and how it is read.
What it does not know: commits, who wrote a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import ROW_POSITION, Scan, read_data_file
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.actions import AddFile


@dataclass(frozen=True)
class Located:
    """Rows, the number of the file of each, and its position there."""

    rows: pa.Table
    file: np.ndarray
    position: np.ndarray

    def take(self, places: np.ndarray) -> Located:
        """Some of the rows."""
        return Located(self.rows.take(places), self.file[places], self.position[places])


@dataclass(frozen=True)
class Part:
    """A file to read; ``only`` restricts it to rows at positions."""

    file: AddFile
    only: BitMap64 | None = None


def read(scan: Scan, parts: Sequence[Part]) -> Located:
    """The rows of files, in their order.

    Raises:
        DataFileNotFound: a file is gone.
        InvalidTable: a file cannot be read.
    """
    def decode(part: Part) -> list[pa.RecordBatch]:
        return list(read_data_file(scan, part.file, positions=True, only=part.only))

    decoded = list(parallel.each(decode, parts, read_concurrency(scan.store), name="blame"))
    schema = scan.schema.append(pa.field(ROW_POSITION, pa.int64()))
    table = pa.Table.from_batches([batch for batches in decoded for batch in batches], schema)
    counts = [sum(batch.num_rows for batch in batches) for batches in decoded]
    file: np.ndarray = np.repeat(np.arange(len(parts)), np.array(counts, np.int64))
    return Located(table.drop_columns(ROW_POSITION), file, table[ROW_POSITION].to_numpy())
