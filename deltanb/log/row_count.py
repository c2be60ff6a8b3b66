"""The number of rows of a version, according to the log alone.

What lives here: :func:`counted`, the sum of the files' record counts, less the rows in deletion vectors.
What it does not know: data files; a file without statistics has to be counted by opening it, which callers
do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.log.skipping.prune import read_stats
from deltanb.log.skipping.stats import NUM_RECORDS, parse_stats
from deltanb.sql.coercion import arrow_scalar

if TYPE_CHECKING:
    from deltanb.log.file_set import FileSet
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructType

__all__ = ["RowCount", "counted", "of_files"]


@dataclass(frozen=True)
class RowCount:
    """``known`` rows are in files with a record count; ``silent`` files have none."""

    known: int
    silent: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the count is complete."""
        return self.silent == 0


def counted(snapshot: Snapshot) -> RowCount:
    """The rows of a version; only the record counts of the files' statistics are read.

    >>> from deltanb.testing import TableBuilder, add
    >>> table = TableBuilder().create("id long")
    >>> counted(table.commit(add("a", stats='{"numRecords":3}'), add("b")).log.update())
    RowCount(known=3, silent=1)
    """
    schema = snapshot.metadata.schema

    def of(files: FileSet) -> RowCount:
        stated = read_stats(files, schema, [NUM_RECORDS]).column(NUM_RECORDS.name)
        return _sum(stated, files.read(["deletion_vector"]).column("deletion_vector"))

    return snapshot._read(of)


def of_files(files: pa.Table, schema: StructType) -> RowCount:
    """Like :func:`counted`, for files with the columns ``stats`` and ``deletion_vector``."""
    stated = parse_stats(files.column("stats"), schema, needed=[NUM_RECORDS]).column(NUM_RECORDS.name)
    return _sum(stated, files.column("deletion_vector"))


def _sum(stated: pa.ChunkedArray, vectors: pa.ChunkedArray) -> RowCount:
    counts = pc.struct_field(vectors, "cardinality").cast(pa.int64())
    deleted = pc.fill_null(counts, arrow_scalar(0, pa.int64()))  # a plain 0 would load pandas
    live = pc.subtract(pa.chunked_array(stated.chunks, pa.int64()).combine_chunks(), deleted.combine_chunks())
    return RowCount(pc.sum(live).as_py() or 0, live.null_count)
