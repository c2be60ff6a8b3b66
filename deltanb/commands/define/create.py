"""CREATE TABLE: a table from a schema, or from data.

What lives here: :func:`create`: the first metadata and protocol of a table, and its first rows;
:class:`RowsWithin`, rows that a replacement reads in its own transaction.
What it does not know: how rows become files, how commits work.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile, SetTransaction
from deltanb.commands.begin import refuse_append_only
from deltanb.commands.define import evolution
from deltanb.commands.define.place import begun, check_place
from deltanb.commands.rows.write import (
    Batch,
    commit_or_discard,
    metrics_of,
    removed_metrics,
    streaming_update,
    transactions,
)
from deltanb.commands.session import through_session
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.prewritten import PrewrittenFiles
from deltanb.errors import (
    DeltaError,
    InvalidArgument,
    InvalidSchema,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
)
from deltanb.log.file_options import FileOptions
from deltanb.options import options
from deltanb.schema import columns as column_values
from deltanb.schema import properties as table_properties
from deltanb.schema.paths import quoted
from deltanb.schema.protocol import FEATURE_PREFIX, check_writable, without_protocol_properties
from deltanb.schema.types import StructType, from_arrow
from deltanb.store.base import LogStore
from deltanb.text.safe_text import get_logger
from deltanb.transaction import active
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.ids import new_table_id
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.transaction import OptimisticTransaction

logger = get_logger(__name__)

MODES = {"error": "CREATE TABLE", "ignore": "CREATE TABLE", "overwrite": "CREATE OR REPLACE TABLE",
         "replace": "REPLACE TABLE"}
"""What is done where a table is there, or has to be, and the operation that the commit records."""


@dataclass(frozen=True)
class RowsWithin:
    """Rows that are read when the transaction has begun: what comes in place of a table may be made of it."""

    read: Callable[[], Any]


@active.command
def create(
    path: str | os.PathLike[str] | LogStore | DeltaLog,
    data_or_schema: Any,
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: str = "error",
    *,
    cluster_by: str | Sequence[str] = (),
    user_metadata: str | None = None,
    file_options: FileOptions | None = None,
    application: tuple[str, int] | None = None,
    batch: Batch | None = None,
    allow_files: bool = False,
    asked: str | None = None,
) -> DeltaLog:
    """The log of the created table; arguments and errors are those of :func:`deltanb.create`.

    ``data_or_schema`` may also be :class:`RowsWithin`.
    ``path`` may also be a log, for a table of a catalog; ``asked`` is the mode that was asked of the catalog,
    which knows whether the table is there, and that the commit records. ``application``
    is (application id, version) of the write, as in :func:`deltanb.commands.rows.write.append`. ``batch``
    is the micro-batch whose commit creates the table.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r} is not one of {', '.join(MODES)}")
    log = path if isinstance(path, DeltaLog) else DeltaLog.for_table(path)
    application = through_session("arrow", data_or_schema, ("txn",) if application is None else ()).get(
        "txn", application)
    txn = active.begin(log)
    if _stays(txn, mode):
        return log
    schema, data = schema_and_data(
        data_or_schema.read() if isinstance(data_or_schema, RowsWithin) else data_or_schema)
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    metadata = data.target.metadata if isinstance(data, PrewrittenFiles) and data.target is not None else \
        metadata_of(schema, columns, properties or {}, name, description)
    is_here = isinstance(data, PrewrittenFiles)  # in the folder already, which was looked at before
    is_new = txn.read_version < 0 and not is_here
    try:
        if is_new and not allow_files:
            check_place(log.store, metadata.partition_columns)
        with begun(log.store) if is_new and data is not None else nullcontext():
            commit_or_discard(
                txn, lambda: _create(
                    txn, metadata, data, user_metadata, file_options, application,
                    (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by), batch,
                    MODES[asked or mode]))
    except StorageError as error:
        if error.errno != errno.ENOTDIR:
            raise
        raise InvalidArgument(
            f"{log.path} is not a place for a table: it is a file, or lies in one. Give another path",
            path=log.path) from None
    except DeltaError as error:
        txn.note_outcome(error)
        if mode != "ignore" or not is_new or log.update().version < 0:
            raise
        logger.info("Not creating a table at %s: another writer has created it meanwhile", log.path)
    except BaseException as error:  # an interrupt may come behind the commit, while its note is removed
        txn.note_outcome(error)
        raise
    return log


def _stays(txn: OptimisticTransaction, mode: str) -> bool:
    """Whether there is a table already, which the mode leaves as it is.

    Raises:
        TableAlreadyExists, TableNotFound: the mode refuses that there is one, or that there is none.
    """
    exists, path = txn.read_version >= 0, txn.log.path
    if exists and mode == "error":
        raise TableAlreadyExists(
            f"there is a table at {path} already (version {txn.read_version}); open it with "
            'deltanb.open(path), or pass mode="ignore" or mode="overwrite"', path=path)
    if not exists and mode == "replace":
        raise nothing_to_replace(path)
    return exists and mode == "ignore"


def nothing_to_replace(table: str) -> TableNotFound:
    """The error where a table is to be replaced and there is none of its name or path."""
    return TableNotFound(
        f"there is no table {table} to be replaced; mode=\"overwrite\", in SQL CREATE OR REPLACE TABLE, "
        "creates one where there is none", path=table)


def schema_and_data(source: Any) -> tuple[StructType, Any]:
    """The schema of the new table, and its rows if there are any."""
    if isinstance(source, StructType):
        return source, None
    if isinstance(source, str):
        return StructType.from_json(source) if source.lstrip().startswith("{") else _of_ddl(source), None
    if isinstance(source, Mapping) and source.get("type") == "struct":
        return StructType.from_json(json.dumps(source)), None
    if isinstance(source, Mapping) and source and all(isinstance(kind, str) for kind in source.values()):
        return _of_ddl(", ".join(f"{quoted([str(n)])} {kind}" for n, kind in source.items())), None
    if isinstance(source, pa.Schema):
        return from_arrow(source), None
    if inputs.is_spark(source):
        if type(source).__name__ == "StructType":
            return StructType.from_json(source.json()), None
        schema = evolution.fresh(evolution.schema_of(source))
        assert isinstance(schema, StructType)
        return schema, source
    data = inputs.source(source)
    return evolution.schema_of(data), data


def _of_ddl(columns: str) -> StructType:
    from deltanb.schema.ddl import parse_schema  # late: it loads the SQL parser

    return parse_schema(columns)


def metadata_of(
    schema: StructType, partition_by: Sequence[str], properties: Mapping[str, Any],
    name: str | None = None, description: str | None = None,
) -> Metadata:
    """The metadata of the new table.

    Raises:
        InvalidSchema, InvalidArgument: columns or properties that are not allowed.
    """
    if not schema.fields:
        raise InvalidSchema("a table needs at least one column; the data, or the schema, has none")
    configuration = {key: table_properties.as_text(key, value) for key, value in properties.items()}
    table_properties.validate(configuration)
    if any(column_values.DEFAULT in field.metadata for field in schema.fields):
        configuration.setdefault(FEATURE_PREFIX + column_values.DEFAULTS_FEATURE, "supported")
    metadata = Metadata(
        id=new_table_id(), name=name, description=description, configuration=configuration,
        created_time=options.clock(), schema_string=schema.to_json())
    return evolution.with_schema(metadata, schema, partition_by)


def _create(
    txn: OptimisticTransaction, metadata: Metadata, data: Any, user_metadata: str | None,
    file_options: FileOptions | None, application: tuple[str, int] | None, cluster_by: Sequence[str],
    batch: Batch | None, operation_name: str,
) -> int:
    replaces = txn.read_version >= 0
    is_overwrite = operation_name != MODES["error"]
    removed: list[RemoveFile] = []
    domains: dict[str, DomainMetadata] = {}
    if replaces:
        refuse_append_only(txn, "an overwrite")
        metadata = metadata.replace(id=txn.snapshot.metadata.id)
        domains = _domains_removed(txn)
    if replaces or (is_overwrite and data is not None):  # what comes in place of all rows depends on all
        removed = [file.remove() for file in txn.filter_files()]
    txn.update_metadata_for_new_table(metadata, replaces=replaces)
    clustering: Sequence[tuple[str, ...]] = ()
    if cluster_by:
        from deltanb.commands.define.alter_clustering import clustering_of

        domain, clustering = clustering_of(txn, cluster_by)
        domains[domain.domain] = domain
    metadata = txn.metadata
    check_writable(txn.protocol, metadata, txn.table, writes_data=data is not None)
    added: list[AddFile] = []
    if data is not None:
        added = txn.write_files(data, file_options)
    if batch is not None:
        return txn.commit([*transactions(batch), *domains.values(), *added],
                          streaming_update(batch, added, removed, user_metadata))
    metrics = metrics_of(added) if data is not None else {}
    if data is not None and is_overwrite:
        metrics |= removed_metrics(removed)
    operation = Operation(
        operation_name + (" AS SELECT" if data is not None else ""),
        {
            "isManaged": "false",
            "description": metadata.description,
            "partitionBy": list(metadata.partition_columns),
            "clusterBy": [quoted(path) for path in clustering],
            "properties": without_protocol_properties(metadata.configuration),
        },
        metrics=metrics,
        user_metadata=user_metadata,
    )
    actions: list[Action] = [*removed, *domains.values(), *added]
    if application is not None:
        actions.insert(0, SetTransaction(*application, last_updated=options.clock()))
    return txn.commit(actions, operation)


def _domains_removed(txn: OptimisticTransaction) -> dict[str, DomainMetadata]:
    """By name, the removal of each domain of the replaced table, except the row id high-water mark."""
    return {name: DomainMetadata(name, domain.configuration, removed=True)
            for name, domain in txn.snapshot.domain_metadata.items() if name != "delta.rowTracking"}
