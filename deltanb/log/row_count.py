"""How many rows a version has, as far as the log alone tells.

What lives here: :func:`counted`, the sum over files of what their statistics say, less what deletion vectors
take away.
What it does not know: data files; a file whose statistics say nothing is counted by whoever may open it.
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
    """``known`` rows are in the files that say how many they have; ``silent`` files do not say it."""

    known: int
    silent: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether that is all of them."""
        return self.silent == 0


def counted(snapshot: Snapshot) -> RowCount:
    """The rows of a version; of the files' statistics only the number of records is read.

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
    """As :func:`counted`, of files with the columns ``stats`` and ``deletion_vector``."""
    stated = parse_stats(files.column("stats"), schema, needed=[NUM_RECORDS]).column(NUM_RECORDS.name)
    return _sum(stated, files.column("deletion_vector"))


def _sum(stated: pa.ChunkedArray, vectors: pa.ChunkedArray) -> RowCount:
    counts = pc.struct_field(vectors, "cardinality").cast(pa.int64())
    deleted = pc.fill_null(counts, arrow_scalar(0, pa.int64()))  # a plain 0 would load pandas
    live = pc.subtract(pa.chunked_array(stated.chunks, pa.int64()).combine_chunks(), deleted.combine_chunks())
    return RowCount(pc.sum(live).as_py() or 0, live.null_count)
