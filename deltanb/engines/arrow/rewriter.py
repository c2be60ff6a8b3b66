"""Rows that move and do not change, in the process: read, and written again with their ids.

What lives here: :class:`Rewriter`, and :func:`plain_metadata`, under which such rows are written.
What it does not know: which files are worth it, the order of rows, the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltanb.actions import AddFile, Metadata
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.copied import copied
from deltanb.engines.arrow.read import stream
from deltanb.engines.arrow.touched import plan_in
from deltanb.engines.arrow.write import TableWriter, write_files
from deltanb.log.file_options import FileOptions
from deltanb.schema import column_mapping
from deltanb.schema.types import StructType
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.transaction.transaction import OptimisticTransaction

ONE_FILE = 1 << 62
"""A target size that no file reaches: everything goes into one."""

_KEPT_KEYS = frozenset({column_mapping.NAME_KEY, column_mapping.ID_KEY, "delta.typeChanges",
                        "delta.columnMapping.nested.ids", "__COLLATIONS"})


class Rewriter:
    """Reads live rows of a snapshot's files and writes them again as they are.

    On a table with ``delta.enableRowTracking`` every row keeps its id and its commit version: both are
    written beside it (PROTOCOL.md, "Row Tracking", materialized columns).

    ``clustering`` are physical paths of columns whose statistics are wanted in any case.
    """

    def __init__(
        self, txn: OptimisticTransaction, clustering: Iterable[Sequence[str]] = ()
    ) -> None:
        self.txn, self.snapshot = txn, txn.snapshot
        self.clustering = [tuple(path) for path in clustering]
        self.metadata = plain_metadata(txn.metadata)
        self.scan = plan_in(txn, row_ids=True)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows as they are read: the table's columns, then those of row tracking."""
        return self.scan.schema

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The live rows of rows of ``snapshot.files``, in their order."""
        return stream(self.scan, files)

    def copied(self, files: pa.Table) -> list[AddFile] | None:
        """One file with the rows of ``files``, none of which is decoded; None: that cannot be."""
        if self.scan.tracked or files["deletion_vector"].null_count < files.num_rows:
            return None
        writer = TableWriter(
            self.txn.log.store, self.metadata, self.txn.protocol, self.schema, FileOptions(ONE_FILE), (),
            self.clustering,
            None)
        added = copied(writer, list(FileScan(files)), self.scan.table, self.snapshot.version)
        if added is None:
            return None
        self.txn.written.append(added)
        return [added]

    def write(
        self, batches: Iterator[pa.RecordBatch], target_size: int = ONE_FILE
    ) -> list[AddFile]:
        """Write rows that :meth:`batches` gave; the files are the transaction's to discard."""
        added = write_files(
            self.txn.log.store, self.metadata, self.txn.protocol,
            inputs.Source(self.schema, lambda: batches), file_options=FileOptions(target_size),
            data_change=False, clustering=self.clustering, hidden=self.scan.tracked)
        self.txn.written.extend(added)
        return added


def plain_metadata(metadata: Metadata) -> Metadata:
    """The table's metadata without what acts on new rows, for rows that the table holds already.

    Constraints, defaults, generated and identity columns have done their work.
    """
    fields = [replace(f, metadata={k: v for k, v in f.metadata.items() if k in _KEPT_KEYS})
              for f in metadata.schema.fields]
    configuration = {key: text for key, text in metadata.configuration.items()
                     if not key.lower().startswith("delta.constraints.")}
    return metadata.replace(
        schema_string=StructType(fields).to_json(), configuration=configuration)
