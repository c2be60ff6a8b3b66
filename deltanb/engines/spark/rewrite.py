"""Rows that Spark rewrites without changing them.

What lives here: :func:`write_together`, which has Spark read some files of a table and rewrite their rows, in
one file or along a curve.
What it does not know: which files, and the commit (``commands/upkeep/optimize.py``).

The numbers of the curve come from the same code as in the process, run by Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T

from deltanb.actions import AddFile
from deltanb.engines.spark.columns import column
from deltanb.engines.spark.read import read_table
from deltanb.engines.spark.write import write_files
from deltanb.log.file_options import FileOptions

if TYPE_CHECKING:
    from deltanb.engines.arrow.rewriter import Rewriter
    from deltanb.engines.contract import Curve

KEY = "__curve"  # beside the table's columns while rows are brought into order
ONE_FILE = 1 << 50  # bytes that no file reaches; Spark cuts by rows, whose number must stay a long


def write_together(rewriter: Rewriter, files: pa.Table, curve: Curve | None) -> list[AddFile]:
    """Rewrite the live rows of some of ``snapshot.files``; the new files are the transaction's.

    Without a curve, there is one new file; with one, a file for each of its stretches.
    """
    frame = read_table(rewriter.snapshot, files, row_ids=True)
    if curve is None:
        frame = frame.coalesce(1)
    else:
        schema = T.StructType([*frame.schema.fields, T.StructField(KEY, T.LongType())])

        def with_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.append_column(KEY, curve.keys(batch).cast(pa.int64()))

        frame = frame.mapInArrow(with_keys, schema)
        parts = len(curve.stretches) + 1
        frame = frame.repartitionByRange(parts, KEY).sortWithinPartitions(KEY)
        frame = frame.select(*(column(name) for name in rewriter.schema.names))
    added = write_files(
        rewriter.txn.log.store, rewriter.metadata, rewriter.txn.protocol, frame,
        file_options=FileOptions(ONE_FILE), data_change=False, clustering=rewriter.clustering,
        hidden=rewriter.scan.tracked)
    rewriter.txn.written.extend(added)
    return added
