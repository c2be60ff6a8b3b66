"""Change data files: the rows a commit deletes and inserts, if whole files do not show them.

What lives here: :func:`write_changes`, for commands that rewrite files of a table with
``delta.enableChangeDataFeed`` (PROTOCOL.md, "Change Data Files", "Add CDC File").
What it does not know: which rows change, and reading the feed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from deltanb.actions import AddCDCFile, Metadata
from deltanb.concurrency import parallel
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.write import write_files
from deltanb.schema import column_mapping, properties
from deltanb.schema.columns import KEYS
from deltanb.schema.types import STRING, StructType
from deltanb.store.base import is_remote

if TYPE_CHECKING:
    from deltanb.transaction.transaction import OptimisticTransaction

CHANGE_FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"
KINDS = 2  # that are read at a time from a bucket: rows before and after


def wants_changes(txn: OptimisticTransaction) -> bool:
    """Whether the table has a change data feed, for which a rewrite of files needs change data files."""
    return bool(properties.get(txn.metadata.configuration, "delta.enableChangeDataFeed")) and (
        txn.protocol.supports("changeDataFeed"))


def write_changes(
    txn: OptimisticTransaction, changes: Iterable[tuple[str, Iterable[pa.RecordBatch]]]
) -> list[AddCDCFile]:
    """Write change data files and describe them.

    Args:
        changes: (change type, its rows) pairs: ``insert``, ``delete``, ``update_preimage``,
            ``update_postimage``; rows in the table's logical schema.

    The files count as written by the transaction, and are deleted if it is discarded.
    """
    metadata = _without_rules(txn.metadata)
    schema = metadata.schema.to_arrow().append(pa.field(CHANGE_TYPE, pa.string()))

    def labelled(change: tuple[str, Iterable[pa.RecordBatch]]) -> Generator[pa.RecordBatch, None, None]:
        kind, batches = change
        for batch in batches:
            labels = pa.repeat(pa.scalar(kind), batch.num_rows)
            yield batch.append_column(CHANGE_TYPE, labels)

    def rows() -> Iterator[pa.RecordBatch]:
        if is_remote(txn.log.store):  # each kind waits for files of its own
            return parallel.streamed(labelled, changes, KINDS, "changes")
        return (batch for change in changes for batch in labelled(change))

    written = write_files(txn.log.store, metadata, txn.protocol, inputs.Source(schema, rows),
                          data_change=False, folder=CHANGE_FOLDER, prefix="cdc",
                          hidden=[column_mapping.hidden(CHANGE_TYPE, STRING)])
    txn.written.extend(written)
    return [AddCDCFile(file.path, dict(file.partition_values), file.size) for file in written]


def _without_rules(metadata: Metadata) -> Metadata:
    """The table's metadata without constraints, for rows that were checked already."""
    fields = [field.replace(metadata={k: v for k, v in field.metadata.items() if k not in KEYS})
              for field in metadata.schema.fields]
    configuration = {key: text for key, text in metadata.configuration.items()
            if not key.lower().startswith("delta.constraints.")}
    return metadata.replace(schema_string=StructType(fields).to_json(), configuration=configuration)
