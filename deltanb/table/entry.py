"""Where people begin: a table opened, created, or made of a folder of Parquet files.

What lives here: :func:`open`, :func:`create` and :func:`convert`, which put the handle around what the
commands return.
What it does not know: how anything is done.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.store.base import LogStore
from deltanb.store.open import store_for
from deltanb.table.table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.schema.types import StructType


def open(
    path: str | os.PathLike[str] | LogStore,
    version: int | None = None, timestamp: int | str | dt.datetime | None = None,
    *, storage_options: Mapping[str, Any] | None = None,
) -> DeltaTable:
    """Open a table; the same as :meth:`DeltaTable.for_path`."""
    return DeltaTable.for_path(path, version, timestamp, storage_options=storage_options)


def create(
    path: str | os.PathLike[str] | LogStore,
    data_or_schema: Any,
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: str = "error",
    *,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    allow_files: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> DeltaTable:
    """Create a table and return it.

    Args:
        path: where: a folder, a URI, or a store.
        data_or_schema: rows (anything :meth:`DeltaTable.append <deltanb.table.table.DeltaTable.append>`
            takes), which give the table its columns and become its first version; or a schema alone:
            SQL's (``"id bigint NOT NULL, name string"``, or ``{"id": "bigint", "name": "string"}``),
            Arrow's, Delta's (:class:`~deltanb.schema.types.StructType`, or its JSON) or Spark's.
        partition_by: column names; order matters for the folders only.
        properties: table properties, e.g. ``{"delta.appendOnly": True}``. Those of table features raise
            the protocol; ``delta.columnMapping.mode`` gives every column an id.
        name, description: kept in the metadata.
        mode: where a table is already: ``"error"`` raises, ``"ignore"`` returns that one as it is,
            ``"overwrite"`` replaces its rows, schema and properties (and keeps its history).
        user_metadata: a text kept in the commit.
        target_file_size, max_records_per_file, compression: of the data files, as in :meth:`DeltaTable.append
            <deltanb.table.table.DeltaTable.append>`.
        allow_files: make the table in a folder that has files already. They become no part of it, and its
            VACUUM deletes them; :func:`deltanb.convert` makes a table of them.
        storage_options: how to get to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.

    Raises:
        TableAlreadyExists: there is a table.
        InvalidArgument: no table is there and others have files, but for hidden ones (``_SUCCESS``, ``.x``).
        InvalidSchema, InvalidArgument: columns or properties that no table may have.
        UnsupportedProtocol: a feature that this library cannot write.

    >>> import deltanb as dn
    >>> table = dn.create("flights", {"month": [1, 1, 2], "delay": [5, None, 9]}, partition_by="month")
    >>> table.version, table.to_arrow(where="month = 1").num_rows
    (0, 2)
    """
    from deltanb.commands.define.create import create
    from deltanb.log.file_options import FileOptions

    return DeltaTable(create(
        store_for(path, storage_options) if storage_options else path,
        data_or_schema, partition_by, properties, name, description, mode,
        user_metadata=user_metadata,
        file_options=FileOptions(target_file_size, max_records_per_file, compression),
        allow_files=allow_files))


def convert(
    path: str | os.PathLike[str] | LogStore,
    partition_by: str | Mapping[str, Any] | StructType | pa.Schema | None = None,
    *,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    collect_stats: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> DeltaTable:
    """Make a Delta table of the Parquet files in a folder.

    Args:
        path: the folder. Files and folders whose names begin with ``_`` or ``.`` are passed over, all
            others must be Parquet.
        partition_by: the columns that the folders name (``month=1/``), in their order, with their types:
            ``{"month": "int"}``, ``"month int"``, or a schema. Needed where there are such folders.
        properties: table properties.
        name, description: kept in the metadata.
        collect_stats: describe the files, so that readers can skip them. Takes a look at every footer's
            bounds, and at the columns whose footer says nothing.
        storage_options: how to get to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.

    Raises:
        TableAlreadyExists: it is a Delta table.
        InvalidArgument: no file, folders that do not fit ``partition_by`` or are links, names that are no
            UTF-8.
        InvalidTable: a file that is not Parquet; it is named.
        SchemaMismatch: two files have one column with different types.
        ConcurrentWriteException: a table was created meanwhile; nothing was written.

    >>> import deltanb, os, pyarrow as pa, pyarrow.parquet as pq
    >>> os.makedirs("rain/month=1")
    >>> pq.write_table(pa.table({"mm": [3.5]}), "rain/month=1/a.parquet")
    >>> deltanb.convert("rain", {"month": "int"}).to_arrow().to_pylist()
    [{'mm': 3.5, 'month': 1}]
    """
    from deltanb.commands.define.convert import convert

    return DeltaTable(convert(
        store_for(path, storage_options) if storage_options else path,
        partition_by, properties=properties, name=name, description=description,
        collect_stats=collect_stats))
