"""Entry points: open a table, create one, or convert a folder of Parquet files.

What lives here: :func:`open`, :func:`create` and :func:`convert`, which wrap the results of commands in the
handle.
What it does not know: how the commands work.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument
from deltanb.options import catalog_place
from deltanb.store.base import LogStore
from deltanb.store.open import store_for
from deltanb.store.uris import is_of_unity
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.schema.types import StructType


@answer_wrong_arguments()
def open(
    path: str | os.PathLike[str] | LogStore,
    version: int | None = None, timestamp: int | str | dt.datetime | None = None,
    *, storage_options: Mapping[str, Any] | None = None, token: str | None = None,
    client_id: str | None = None, client_secret: str | None = None, token_url: str | None = None,
    scope: str | None = None, profile: str | None = None, allow_local_files: bool = False,
    allow_maintenance: bool = False,
) -> DeltaTable:
    """Open a table: by its path, as :meth:`DeltaTable.for_path` does, or by its name in a catalog.

    A name is the address of a table of Unity Catalog, ``uc://host/catalog.schema.table``; or
    ``catalog.schema.table`` where the option ``catalog`` or the environment variable ``DELTANB_CATALOG`` says
    in which catalog, and no folder is called so.

    Args:
        version, timestamp: as in :meth:`DeltaTable.as_of <deltanb.table.table.DeltaTable.as_of>`.
        storage_options: access to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.
        token, client_id, client_secret, token_url, scope, profile, allow_local_files, allow_maintenance: as
            in :func:`deltanb.connect`, where a catalog is connected to.

    Raises:
        TableNotFound: there is no table.
        VersionNotFound: there is no such version, or it is gone.
        InvalidArgument: arguments of a connection, and a path.
        StorageError: the place, or the catalog, cannot be reached or read.

    >>> import deltanb as dn
    >>> _ = dn.create("opened", {"id": [1]})
    >>> dn.open("opened").count()
    1
    >>> catalog = dn.Catalog("sqlite:///named.db", warehouse="named")
    >>> catalog.create_namespace("shop")
    >>> _ = catalog.create_table("shop.ducks", {"id": [1, 2]})
    >>> with dn.set_options(catalog=catalog):
    ...     dn.open("default.shop.ducks").count()
    2
    """
    connection: dict[str, Any] = {
        "token": token, "client_id": client_id, "client_secret": client_secret, "token_url": token_url,
        "scope": scope, "profile": profile, "allow_local_files": allow_local_files,
        "allow_maintenance": allow_maintenance}
    if isinstance(path, str) and is_in_a_catalog(path):
        if version is not None and timestamp is not None:
            raise InvalidArgument("give version or timestamp, not both")
        table = upper.open_named(path, storage_options=storage_options, **connection)
        moment = timestamp if version is None else version
        return table if moment is None else table.as_of(moment)
    if any(connection.values()):
        raise InvalidArgument(
            f"{', '.join(filter(connection.get, connection))} goes with the name of a table in a catalog, "
            f"such as uc://host/catalog.schema.table; {shown(path)} is a path")
    return DeltaTable.for_path(path, version, timestamp, storage_options=storage_options)


def is_in_a_catalog(path: str) -> bool:
    """Whether a text that is to be opened is a name in a catalog and no path.

    >>> is_in_a_catalog("uc://localhost/main.shop.ducks"), is_in_a_catalog("lake/main.shop.ducks")
    (True, False)
    """
    return is_of_unity(path) or (catalog_place() is not None and is_like_a_name(path))


def is_like_a_name(path: str) -> bool:
    """Whether a text is written like ``catalog.schema.table``, and there is no such file or folder.

    >>> is_like_a_name("main.shop.ducks"), is_like_a_name("./main.shop.ducks")
    (True, False)
    """
    parts = path.split(".")
    return (len(parts) >= 3 and all(parts) and not {"/", "\\", ":"} & set(path)
            and not os.path.exists(path))


@answer_wrong_arguments()
def create(
    path: str | os.PathLike[str] | LogStore,
    data_or_schema: Any,
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: str = "error",
    *,
    cluster_by: str | Sequence[str] = (),
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    allow_files: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> DeltaTable:
    """Create a table and return it.

    Args:
        path: a folder, a URI, or a store.
        data_or_schema: rows (anything :meth:`DeltaTable.append <deltanb.table.table.DeltaTable.append>`
            takes), which give the table its columns and become its first version; or only a schema:
            SQL's (``"id bigint NOT NULL, name string"``, or ``{"id": "bigint", "name": "string"}``),
            Arrow's, Delta's (:class:`~deltanb.schema.types.StructType`, or its JSON) or Spark's.
        partition_by: column names; order matters for the folders only.
        properties: table properties, e.g. ``{"delta.appendOnly": True}``. Properties of table features raise
            the protocol; ``delta.columnMapping.mode`` gives every column an id.
        name, description: kept in the metadata.
        mode: if the table exists, ``"error"`` raises, ``"ignore"`` returns it unchanged, ``"overwrite"``
            replaces its rows, schema and properties (and keeps its history). ``"replace"`` does so, too, and
            raises where there is no table.
        cluster_by: columns by which OPTIMIZE orders the rows, in place of partitions; at most four.
        user_metadata: text to record in the commit.
        target_file_size, max_records_per_file, compression: of the data files, as in :meth:`DeltaTable.append
            <deltanb.table.table.DeltaTable.append>`.
        allow_files: create the table in a folder that has files already. They do not become part of it, and
            its VACUUM deletes them; :func:`deltanb.convert` makes a table of them.
        storage_options: access to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.

    Raises:
        TableAlreadyExists: the table exists.
        TableNotFound: there is no table to be replaced.
        InvalidArgument: the folder has files, other than hidden ones (``_SUCCESS``, ``.x``), and no table.
        InvalidSchema, InvalidArgument: columns or properties that are not allowed.
        UnsupportedProtocol: a feature that this library cannot write.

    >>> import deltanb as dn
    >>> table = dn.create("flights", {"month": [1, 1, 2], "delay": [5, None, 9]}, partition_by="month")
    >>> table.version, table.to_arrow(where="month = 1").num_rows
    (0, 2)
    """
    from deltanb.commands.define.create import create
    from deltanb.log.file_options import FileOptions

    if isinstance(path, str) and is_in_a_catalog(path):
        raise InvalidArgument(
            f"{shown(path)} names a table in a catalog, which makes it: catalog.create_table(name, data) of "
            f"what deltanb.connect(address) gives. A folder of this name is {shown('./' + path)}", path=path)
    return DeltaTable(create(
        store_for(path, storage_options) if storage_options else path,
        data_or_schema, partition_by, properties, name, description, mode,
        cluster_by=cluster_by, user_metadata=user_metadata,
        file_options=FileOptions(target_file_size, max_records_per_file, compression),
        allow_files=allow_files))


@answer_wrong_arguments()
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
    """Turn a folder of Parquet files into a Delta table.

    Args:
        path: the folder. Files and folders whose names begin with ``_`` or ``.`` are skipped, all others must
            be Parquet.
        partition_by: the columns in the folders' names (``month=1/``), in their order, with their types:
            ``{"month": "int"}``, ``"month int"``, or a schema. Required if there are such folders.
        properties: table properties.
        name, description: kept in the metadata.
        collect_stats: collect statistics, so that readers can skip files: from the footers, and from the
        columns
            themselves if a footer has no bounds.
        storage_options: access to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.

    Raises:
        TableAlreadyExists: it is a Delta table.
        InvalidArgument: no files, folders that do not fit ``partition_by`` or are links, names that are not
            UTF-8.
        InvalidTable: a file that is not Parquet.
        SchemaMismatch: two files have a column with different types.
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
