"""Change data files: the rows a commit deletes and inserts, where whole files no longer say it.

What lives here: :func:`write_changes`, for commands that rewrite files of a table with
``delta.enableChangeDataFeed`` (PROTOCOL.md, "Change Data Files", "Add CDC File").
What it does not know: which rows change, and reading the feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from deltanb.actions import AddCDCFile, Metadata
from deltanb.data import column_mapping, inputs
from deltanb.data.write import write_files
from deltanb.log import properties
from deltanb.log.column_values import KEYS
from deltanb.log.schema import STRING, StructField, StructType

if TYPE_CHECKING:
    from deltanb.transaction.transaction import OptimisticTransaction

FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"


def wants_changes(txn: OptimisticTransaction) -> bool:
    """Whether the table has a change data feed that a rewrite of files must feed."""
    return bool(properties.get(txn.metadata.configuration, "delta.enableChangeDataFeed")) and (
        txn.protocol.supports("changeDataFeed"))


def write_changes(
    txn: OptimisticTransaction, changes: Iterable[tuple[str, Iterable[pa.RecordBatch]]]
) -> list[AddCDCFile]:
    """Write change data files and describe them.

    Args:
        changes: (change type, its rows) pairs: ``insert``, ``delete``, ``update_preimage``,
            ``update_postimage``; rows in the table's logical schema.

    The files count as written by the transaction: they go when it is discarded.
    """
    metadata = _with_change_type(txn.metadata)
    schema = metadata.schema.to_arrow()

    def rows() -> Iterator[pa.RecordBatch]:
        for kind, batches in changes:
            for batch in batches:
                labels = pa.repeat(pa.scalar(kind), batch.num_rows)
                yield batch.append_column(CHANGE_TYPE, labels)

    written = write_files(txn.log.store, metadata, txn.protocol, inputs.Source(schema, rows),
                          data_change=False, folder=FOLDER, prefix="cdc")
    txn.written.extend(written)
    return [AddCDCFile(file.path, dict(file.partition_values), file.size) for file in written]


def _with_change_type(metadata: Metadata) -> Metadata:
    """The table's metadata with the column of the feed, for rows that have passed its constraints.

    Nothing is computed, given or verified once more.
    """
    keys = {}
    if properties.get(metadata.configuration, column_mapping.MODE_KEY) != "none":
        number = properties.get(metadata.configuration, column_mapping.MAX_ID_KEY) + 1
        keys = {column_mapping.NAME_KEY: CHANGE_TYPE, column_mapping.ID_KEY: number}
    fields = [field.replace(metadata={k: v for k, v in field.metadata.items() if k not in KEYS})
              for field in metadata.schema.fields]
    schema = StructType([*fields, StructField(CHANGE_TYPE, STRING, metadata=keys)])
    kept = {key: text for key, text in metadata.configuration.items()
            if not key.lower().startswith("delta.constraints.")}
    return metadata.replace(schema_string=schema.to_json(), configuration=kept)
