"""CONVERT: turn a folder of Parquet files into a Delta table in place.

What lives here: :func:`convert`: listing the files, merging their schemas, partition values from folder
names, statistics from footers, and the first commit.
What it does not know: rows; no data file is moved or rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from deltanb.actions import AddFile, Metadata, encode_path
from deltanb.commands.define import evolution
from deltanb.commands.define.place import has_iceberg
from deltanb.concurrency import parallel
from deltanb.engines.arrow import statistics
from deltanb.errors import InvalidArgument, SchemaMismatch, TableAlreadyExists
from deltanb.log.skipping import partitions
from deltanb.options import options
from deltanb.parquet.file import open_parquet
from deltanb.schema import column_mapping
from deltanb.schema import properties as table_properties
from deltanb.schema.ddl import parse_schema, parse_type
from deltanb.schema.types import DataType, StructField, StructType, from_arrow
from deltanb.store.base import FileStatus, LogStore, read_concurrency
from deltanb.store.local import raise_unlistable
from deltanb.store.paths import can_be_named
from deltanb.text.damage import reading
from deltanb.transaction import active
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.ids import new_table_id
from deltanb.transaction.metadata_check import walk
from deltanb.transaction.new_table import with_defaults
from deltanb.transaction.operations import Operation

_A = TypeVar("_A")
_B = TypeVar("_B")

MAX_READERS = 8  # footers read at a time: more only wait for the same disk
MAX_NAMED = 5  # files or folders named in an error


@active.command
def convert(
    path: str | os.PathLike[str] | LogStore,
    partition_by: str | Mapping[str, Any] | StructType | pa.Schema | None = None,
    *,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    collect_stats: bool = True,
) -> DeltaLog:
    """The log of the converted folder; arguments and errors are those of :func:`deltanb.convert`."""
    from deltanb.text.progress import progress

    log = DeltaLog.for_table(path)
    txn = active.begin(log)
    if txn.read_version >= 0:
        raise TableAlreadyExists(
            f"{log.path} is a Delta table already (version {txn.read_version}); there is nothing to "
            "convert. Open it with deltanb.open(path)", path=log.path)
    configuration = _configuration(properties or {})
    columns = _partition_columns(partition_by)
    names = [column.name for column in columns]
    statuses = [status for status in log.store.list_all("") if partitions.is_data_path(status.name, names)]
    if not statuses:
        raise InvalidArgument(
            f"there is no file to convert in {log.path}; give the folder that holds the Parquet files, or "
            "create a table with deltanb.create(path, data)", path=log.path)
    if has_iceberg(log.store):
        raise InvalidArgument(
            f"{log.path} holds an Iceberg table, and files that it has removed would come back with the "
            "others; copy its rows: deltanb.create(another_path, catalog.table(name).to_arrow())",
            path=log.path)
    _check_listing(log.store, [status.name for status in statuses], columns)
    values = [_values(status.name, columns, log.path) for status in statuses]
    at_once = read_concurrency(log.store, MAX_READERS)
    with progress("CONVERT: files opened", len(statuses)) as seen:
        files = []
        for file in parallel.each(lambda status: _read(log.store, status), statuses, at_once, "convert"):
            seen()
            files.append(file)
    schema = _schema(files, columns)
    if table_properties.get(configuration, column_mapping.MODE_KEY) != "none":
        # The files are written: what their columns are called is their physical name.
        schema, last = column_mapping.assign(schema, keep_names=True)
        configuration[column_mapping.MAX_ID_KEY] = str(last)
    metadata = evolution.with_schema(
        Metadata(id=new_table_id(), name=name, description=description,
                 configuration=configuration, created_time=options.clock(),
                 schema_string=schema.to_json()),
        schema, [column.name for column in columns])
    txn.update_metadata_for_new_table(metadata)
    metadata = txn.metadata

    def describe(place: int) -> AddFile:
        file = files[place]
        stats = _statistics(log.store, file, metadata, txn.protocol) if collect_stats else None
        return AddFile(path=encode_path(file.status.name), partition_values=values[place],
                       size=file.status.size, modification_time=file.status.modification_time,
                       stats=stats)

    with progress("CONVERT: files described", len(files)) as seen:
        added = []
        for one in parallel.each(describe, range(len(files)), at_once, "convert"):
            seen()
            added.append(one)
    parameters = {"numFiles": len(added), "partitionedBy": [column.name for column in columns],
                  "collectStats": collect_stats, "sourceFormat": "parquet"}
    txn.commit_large(added, Operation(
        "CONVERT", parameters, metrics={"numConvertedFiles": len(added)}))
    return log


def _configuration(properties: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: table_properties.as_text(key, value) for key, value in properties.items()}
    configuration = with_defaults(texts)  # now, as files keep the names that they have
    table_properties.validate(configuration)
    if table_properties.get(configuration, column_mapping.MODE_KEY) == "id":
        raise InvalidArgument(
            f"{column_mapping.MODE_KEY}=id finds columns by ids that the files do not have; use name")
    return configuration


# --- partitions -----------------------------------------------------------------------------------

def _partition_columns(columns: Any) -> list[StructField]:
    if columns is None:
        return []
    if isinstance(columns, str):
        return list(parse_schema(columns).fields)
    if isinstance(columns, pa.Schema):
        return list(from_arrow(columns).fields)
    if isinstance(columns, StructType):
        return list(columns.fields)
    if isinstance(columns, Mapping):
        return [StructField(name, _type(name, kind)) for name, kind in columns.items()]
    raise InvalidArgument(
        f"partition_by={columns!r:.80} must say the types of the columns: {{'month': 'int'}}, or a schema")


def _type(name: str, kind: Any) -> DataType:
    if isinstance(kind, pa.DataType):
        return from_arrow(pa.schema([(name, kind)])).fields[0].type
    if not isinstance(kind, str):
        raise InvalidArgument(f"partition column {name!r}: {kind!r} is not a type, such as 'int' or 'date'",
                              column=name)
    return parse_type(kind)


def _check_listing(store: LogStore, names: list[str], columns: list[StructField]) -> None:
    """Refuse names that a log cannot hold, and linked folders, which the listing does not follow."""
    for name in names:
        if not can_be_named(name):
            raise InvalidArgument(
                f"the name of the file {name!r} in {store.root} is not UTF-8, so that no log can name it; "
                "rename the file", path=name)
    root = store.local_path("") or ""
    for folder, folders, _ in os.walk(root, onerror=raise_unlistable) if root else ():
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path) and partitions.is_data_path(
                    os.path.relpath(path, root), [column.name for column in columns]):
                raise InvalidArgument(
                    f"the folder {os.path.relpath(path, root)} in {store.root} is a link; the files behind "
                    "it would be missing from the table. Move them here, or convert the folder they are in",
                    path=path)


def _values(name: str, columns: list[StructField], root: str) -> dict[str, str | None]:
    """Partition values in the log's form, from the folders of a file."""
    from_folders = partitions.parse_hive_path(name)
    by_name = {key.lower(): text for key, text in from_folders.items()}
    expected = [column.name.lower() for column in columns]
    if list(by_name) != expected:
        example = "{" + ", ".join(f"{key!r}: …" for key in from_folders) + "}"
        if not columns:
            raise InvalidArgument(
                f"the folders of {root} name partitions ({name}); their types cannot be inferred; pass "
                f"them: partition_by={example}", path=name)
        raise InvalidArgument(
            f"the file {name} in {root} lies in the partitions {list(from_folders)}, partition_by names "
            f"{[column.name for column in columns]}; name those of the folders, in their order, or "
            "move the file", path=name)
    values: dict[str, str | None] = {}
    for column in columns:
        text = by_name[column.name.lower()]
        try:
            value = partitions.parse_value(text, column.type)
            values[column.name] = partitions.format_value(value, column.type)
        except ValueError as error:
            raise InvalidArgument(
                f"the file {name} in {root} has the partition {column.name}={text}, which is not of type "
                f"{column.type} ({error}); give the column another type", path=name,
                column=column.name) from None
    return values


# --- files ----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _File:
    status: FileStatus
    footer: pq.FileMetaData
    schema: StructType


def _read(store: LogStore, status: FileStatus) -> _File:
    with _naming(store, status.name), store.open_input(status.name) as source:
        parquet = open_parquet(source)
        parquet.check_sound()
        footer, schema = parquet.metadata, parquet.schema_arrow
    has_instants = any(footer.schema.column(i).physical_type == "INT96" for i in range(len(footer.schema)))
    schema = pa.schema([f.with_type(_stored(f.type, has_instants)) for f in schema])
    plain = from_arrow(schema.remove_metadata())
    return _File(status, footer, evolution.fresh(_nullable(plain)))  # type: ignore[arg-type]


def _naming(store: LogStore, name: str) -> AbstractContextManager[None]:
    return reading("the Parquet file", name, store.root,
                   "Move it away, or give it a name that begins with _ or .")


def _stored(kind: pa.DataType, has_instants: bool) -> pa.DataType:
    """The storage type of a file's type; INT96 holds instants in UTC, which pyarrow shows without a time
    zone."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored(kind.storage_type, has_instants)
    if has_instants and pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_stored(f.type, has_instants)) for f in kind])
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(_stored(kind.key_type, has_instants), item.with_type(_stored(item.type, has_instants)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type, has_instants)))
    return kind


def _nullable(schema: StructType) -> StructType:
    """The type with everything nullable: later files may have NULLs where these have none."""
    return StructType(StructField(f.name, f.type) for f in schema.fields)


def _schema(files: list[_File], columns: list[StructField]) -> StructType:
    """The columns of all files, in order of appearance; partition columns last."""
    partitioned = {column.name.lower() for column in columns}
    merged = StructType([])
    for file in files:
        own = StructType(f for f in file.schema.fields if f.name.lower() not in partitioned)
        merged = evolution.merge(merged, own)
        types = {tuple(p.lower() for p in path): f.type for path, f in walk(merged)}
        for path, f in walk(own):
            known = types[tuple(p.lower() for p in path)]
            if known != f.type and not (isinstance(known, StructType)
                                        and isinstance(f.type, StructType)):
                column = ".".join(path)
                raise SchemaMismatch(
                    f"column {column!r} is {f.type} in {file.status.name}, {known} in files before it; "
                    "rewrite the files with one type, or move some of them away",
                    differences=[f"~ {column}: {f.type} in {file.status.name}, {known} before"],
                    column=column)
    return StructType([*merged.fields, *columns])


def _statistics(store: LogStore, file: _File, metadata: Metadata, protocol: Any) -> str:
    def read(names: list[str]) -> pa.Table:
        with _naming(store, file.status.name), store.open_input(file.status.name) as source:
            parquet = open_parquet(
                source, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
            return parquet.read([n for n in names if n in parquet.schema_arrow.names])

    return statistics.from_footer(
        file.footer, metadata.schema, metadata, read=read, protocol=protocol)
