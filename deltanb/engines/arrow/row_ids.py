"""Row ids in data files: the columns that say which row each one is.

What lives here: the two columns a table keeps ids and commit versions in (:func:`columns_of`), their values
for the rows of a file (:func:`filled`) and for rows that change (:func:`renewed`), and what a commit says of
them (:func:`preserved`).
What it does not know: which rows are copied or changed, marks of ids (``transaction/rebase``), Spark.

They are columns of data files and of no schema (PROTOCOL.md, "Row Tracking"). Where a row has no value in
them, its file gives it: its id is the file's first one plus the row's position, its version the file's. So
a file of new rows needs neither; one of rows that were elsewhere before holds both, NULL for the version of
a row that changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Metadata, Protocol
from deltanb.schema import column_mapping, properties
from deltanb.schema.protocol import supports
from deltanb.schema.types import PrimitiveType, StructField
from deltanb.transaction.new_table import MATERIALIZED_NAMES
from deltanb.transaction.operations import PRESERVED

Fields = tuple[StructField, ...]
"""The columns of ids and of commit versions, or nothing."""


def tracks_rows(metadata: Metadata, protocol: Protocol) -> bool:
    """Whether every row of the table has an id, which those who write it again should keep."""
    return supports(protocol, "rowTracking") and bool(
        properties.get(metadata.configuration, "delta.enableRowTracking"))


def columns_of(metadata: Metadata, protocol: Protocol) -> Fields:
    """The columns of ids and of commit versions; none where rows have none, or the table does not name both.

    Data files know them by name whatever the column mapping: they have no field id.
    """
    names = [metadata.configuration.get(key) for key in MATERIALIZED_NAMES]
    if not (tracks_rows(metadata, protocol) and all(names)):
        return ()
    return tuple(column_mapping.hidden(str(name), PrimitiveType("long")) for name in names)


def tracked_in(names: Collection[str], metadata: Metadata, protocol: Protocol) -> list[StructField]:
    """Those of :func:`columns_of` that rows with these columns bring."""
    return [field for field in columns_of(metadata, protocol) if field.name in names]


def preserved(metadata: Metadata, protocol: Protocol, *, copies: bool) -> dict[str, str]:
    """The commit's tag that says whether all rows keep their ids and, unless they change, their versions.

    Rows that stay in their files do; ``copies`` says that others are written again, with the columns for
    it, if the table names such columns. Without row tracking there is no tag.
    """
    if not tracks_rows(metadata, protocol):
        return {}
    needs_copy = not copies or columns_of(metadata, protocol)
    return {PRESERVED: "true" if needs_copy else "false"}


def filled(
    batch: pa.RecordBatch, columns: Fields, positions: pa.Array, file: Mapping[str, Any]
) -> pa.RecordBatch:
    """The rows of a file with the id and version of each.

    Args:
        positions: of the rows in the file.
        file: what the log says of it: ``base_row_id``, ``default_row_commit_version``. A row for which
            neither file nor log has an id stays without.
    """
    base, version = file.get("base_row_id"), file.get("default_row_commit_version")
    computed = [None if base is None else pc.add(positions, base),
             None if version is None else pa.repeat(pa.scalar(version, pa.int64()), batch.num_rows)]
    for column, values in zip(columns, computed, strict=True):
        place = batch.schema.get_field_index(column.name)
        stored = batch.column(place)
        if stored.null_count and values is not None:
            batch = batch.set_column(place, batch.schema.field(place), pc.coalesce(stored, values))
    return batch


def renewed(batch: pa.RecordBatch, columns: Fields, changed: pa.Array | None = None) -> pa.RecordBatch:
    """Rows that change, or those of them in a mask: they keep their ids and get the commit's version.

    >>> fields = tuple(column_mapping.hidden(name, PrimitiveType("long")) for name in ("id", "version"))
    >>> renewed(pa.record_batch({"id": [7], "version": [2]}), fields).to_pylist()
    [{'id': 7, 'version': None}]
    """
    if not columns:
        return batch
    place = batch.schema.get_field_index(columns[1].name)
    none = pa.nulls(batch.num_rows, pa.int64())
    versions = none if changed is None else pc.if_else(changed, none, batch.column(place))
    return batch.set_column(place, batch.schema.field(place), versions)
