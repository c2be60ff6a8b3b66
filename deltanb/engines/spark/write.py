"""A Spark DataFrame as data files of a table, written by Spark's own Parquet writer.

What lives here: the query that checks and shapes the rows, and the description of the files. The rows pass
the same enforcement and constraints as rows written in the process (``engines/arrow/``), and the files get
the same statistics, taken from their footers.
What it does not know: transactions; a file is part of the table once a commit names it. Where Spark writes,
and how files are moved to their places (``folders``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltanb.actions import AddFile, Metadata, Protocol, encode_path
from deltanb.engines.arrow import statistics
from deltanb.engines.arrow import write as in_process
from deltanb.engines.arrow.constraints import Check
from deltanb.engines.arrow.generated import Marks, plan
from deltanb.engines.arrow.layout import columns_in_files
from deltanb.engines.arrow.prewritten import Target
from deltanb.engines.spark import buckets
from deltanb.engines.spark.checks import checked, translated
from deltanb.engines.spark.columns import (
    arrow_rows,
    column,
    passes_through_arrow,
    renamed,
    spark_schema,
    spark_type,
)
from deltanb.engines.spark.compiled import is_everywhere
from deltanb.engines.spark.connectors import connector_for
from deltanb.engines.spark.fill import filled, moved
from deltanb.engines.spark.folders import COMMITTER, BucketFolder, Folder, LocalFolder, WrittenFile
from deltanb.engines.spark.jobs import followed, wait_for_stragglers
from deltanb.engines.spark.session import settings
from deltanb.errors import InvalidArgument, StorageError
from deltanb.log.file_options import FileOptions
from deltanb.log.skipping import partitions
from deltanb.options import options
from deltanb.schema import column_mapping, properties
from deltanb.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltanb.store.base import LogStore
from deltanb.store.vending import READ_WRITE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_AS_TEXTS = {"boolean", "byte", "short", "integer", "long", "date"}
"""Types that Spark itself writes as the texts we want; it sorts rows by them faster than by texts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

ROW_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4, "string": 16,
             "binary": 32, "variant": 64, "decimal": 8}
"""Bytes a value takes in a compressed file, by guess; others count :data:`VALUE_BYTES`. Spark cuts
files by rows only, so a target in bytes needs a guess of a row's size."""
VALUE_BYTES = 8
ITEMS = 4  # elements of an array or map, by the same guess

MAX_RECORDS = "spark.sql.files.maxRecordsPerFile"
_WRITER_SETTINGS = {
    # Files as PROTOCOL.md has them, whatever the session says: no INT96, no shifted calendar, the
    # present layout of lists, ids where columns are mapped, no variant in pieces.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
}


def write_files(
    store: LogStore,
    metadata: Metadata,
    protocol: Protocol,
    frame: DataFrame,
    *,
    file_options: FileOptions = in_process.USUAL,
    data_change: bool = True,
    checks: Sequence[Check] = (),
    clustering: Iterable[Sequence[str]] = (),
    marks: Marks | None = None,
    hidden: Sequence[StructField] = (),
) -> list[AddFile]:
    """Write the rows of a Spark DataFrame as files of the table and describe them; commit nothing.

    Spark's partitions of ``frame`` become files: one for each, and for each value of the table's partition
    columns in it. A target in bytes splits much larger files, by an estimate of a row's size. The session's
    ``spark.sql.files.maxRecordsPerFile`` applies if the write has no limit.

    Works on Spark Connect if client and server see the same file system. Into a bucket, Spark writes if its
    session has a file system for it (:mod:`~deltanb.engines.spark.connectors`), else executors do, through
    Arrow (:mod:`~deltanb.engines.spark.buckets`). Otherwise rows are written from this process, through
    Arrow, and must fit into memory.

    Other arguments, result and errors: as :func:`deltanb.engines.arrow.write.write_files`.

    >>> files = write_files(store, metadata, protocol, session.range(9))     # doctest: +SKIP
    >>> sum(file.num_records for file in files)                              # doctest: +SKIP
    9
    """
    file_options = _with_session(file_options, frame.sparkSession)
    if frame.isStreaming:
        raise InvalidArgument(
            "the frame is a stream, which never ends; write it with "
            "table.write_stream(frame, checkpoint=…), a commit for each of its batches")
    folder = _folder_for(store, frame.sparkSession)
    if folder is None:
        place = buckets.place_for(store, frame.sparkSession, READ_WRITE)
        lacks = plan(frame.columns, metadata, protocol)
        # Identity values go on from one file to the next.
        if place is not None and passes_through_arrow(frame.schema) and not (hidden or lacks.identities):
            target = Target(-1, metadata, protocol, tuple(checks), tuple(map(tuple, clustering)),
                            file_options)
            return [file.replace(data_change=data_change)
                    for file in buckets.written(place, target, frame)]
        return in_process.write_files(
            store, metadata, protocol, arrow_rows(frame), file_options=file_options,
            data_change=data_change, checks=checks, clustering=clustering, marks=marks, hidden=hidden)
    write = _Write(folder, metadata, protocol, file_options, data_change, clustering, hidden)
    lacks = plan(frame.columns, metadata, protocol)
    checks = [*checks, *lacks.checks]
    frame = filled(frame, lacks, marks)
    rows = checked(frame, metadata, [c.name for c in write.partition_by], checks, lacks, hidden)
    try:
        with translated(metadata.schema, metadata, checks):
            write.run(rows)
        try:
            added = write.adopt()
        except StorageError:
            raise
        except OSError as error:
            raise StorageError.of(error, "written", str(error.filename or folder.root)) from error
        if marks is not None and lacks.identities:
            names = column_mapping.physical_names(metadata.schema, write.mode)
            moved(lacks, names, write.footers, marks)
        folder.remove(failed=False)
        return added
    except BaseException:
        try:
            wait_for_stragglers(frame.sparkSession)
        finally:
            folder.remove(failed=True)
        raise


def _folder_for(store: LogStore, session: SparkSession) -> Folder | None:
    """The folder for a write by Spark; None if Spark cannot reach the table."""
    if store.local_path("") is not None:
        return LocalFolder(store)
    connector = connector_for(store, session, READ_WRITE)
    if connector is None or not is_everywhere(session, COMMITTER):
        return None
    return BucketFolder(store, connector)


def check_columns(frame: DataFrame, metadata: Metadata, protocol: Protocol) -> None:
    """Refuse a frame, which may be a stream, by its columns; no row is read.

    Raises:
        SchemaMismatch: the columns do not fit; every difference is named.
    """
    lacks = plan(frame.columns, metadata, protocol)
    checked(frame, metadata, metadata.partition_columns, lacks.checks, lacks)


def _with_session(file_options: FileOptions, session: SparkSession) -> FileOptions:
    """The options of a write, with the session's limit of rows per file if the write has none."""
    text = session.conf.get(MAX_RECORDS, None)
    if file_options.max_records_per_file is not None or not text or int(text) < 1:
        return file_options
    return replace(file_options, max_records_per_file=int(text))


class _Write:
    """One write: its folder, and the files in it."""

    def __init__(
        self, folder: Folder, metadata: Metadata, protocol: Protocol,
        file_options: FileOptions, data_change: bool, clustering: Iterable[Sequence[str]],
        hidden: Sequence[StructField],
    ) -> None:
        self.folder, self.metadata, self.protocol = folder, metadata, protocol
        self.data_change, self.clustering = data_change, [tuple(path) for path in clustering]
        self.file_options = file_options
        self.mode = column_mapping.mode_of(metadata, protocol)
        self.partition_by = [metadata.schema.field(name) for name in metadata.partition_columns]
        # Names of their own: Spark leaves the columns it makes folders of out of the files.
        self.keys = [f"{folder.key}{number}" for number in range(len(self.partition_by))]
        whole = StructType([*metadata.schema.fields, *hidden])
        self.data_schema = columns_in_files(whole, metadata, protocol)
        self.form = file_options.form(metadata.configuration)
        self.footers: list[pq.FileMetaData] = []

    # -- Spark's part ---------------------------------------------------------------------------

    def run(self, rows: DataFrame) -> None:
        """Let Spark write ``rows`` (the table's logical columns) into the folder."""
        writer = self._in_file_form(rows).write.mode("error").partitionBy(*self.keys)
        size = self.file_options.size(self.metadata.configuration)
        per_file = max(1, size // row_bytes(self.data_schema))
        per_file = min(per_file, self.file_options.max_records_per_file or per_file)
        writer = writer.option("maxRecordsPerFile", per_file).options(
            **self.form.for_spark, **self.folder.options)
        session = rows.sparkSession
        with self.folder.written(), settings(session, _WRITER_SETTINGS), followed(session, "Spark writes"):
            writer.parquet(self.folder.uri)

    def _in_file_form(self, rows: DataFrame) -> DataFrame:
        """The rows under physical names with field ids; partition keys last, in a lossless form."""
        schema = spark_schema(self.data_schema, self.mode, ids=True)
        columns = []
        for field, target in zip(self.data_schema.fields, schema.fields, strict=True):
            stored = column(field.name)
            if field in self.partition_by:
                stored = _without_blanks(stored, target.dataType)
            if self.mode != "none":
                stored = renamed(stored, field.type, target.dataType)
            # Ids of whole columns are given here: Spark drops a projection that changes nothing else.
            columns.append(stored.alias(target.name, metadata=target.metadata))
        for field, key in zip(self.partition_by, self.keys, strict=True):
            # Spark begins a file for each value, and those that read as NULL share a folder: they are one.
            value = _without_blanks(column(field.name), spark_type(field.type))
            columns.append(_key(value, field.type).alias(key))
        shaped = rows.select(*columns)
        if self.mode == "none":
            return shaped
        for key in self.keys:
            schema = schema.add(key, shaped.schema[key].dataType)
        return shaped.to(schema)  # the one way to give nested fields theirs

    def _physical(self, field: StructField) -> str:
        return column_mapping.physical_name(field, self.mode)

    # -- our part -------------------------------------------------------------------------------

    def adopt(self) -> list[AddFile]:
        """Describe the files and move them to their places; returns actions in the order of names."""
        now = options.clock()
        # Spark writes a file without rows where there are none at all, so that it has a schema.
        files = [written for written in self.folder.written_files() if written.footer.num_rows]
        files.sort(key=lambda written: (os.path.basename(written.name), written.name))
        return [self._adopt(number, written, now) for number, written in enumerate(files)]

    def _values_of(self, folder: str) -> dict[str, str | None]:
        """Partition values in the log's form, from a path of Hive folders."""
        values = partitions.parse_hive_path(folder + "/")
        return {self._physical(field): _log_text(values.get(key), field.type)
                for field, key in zip(self.partition_by, self.keys, strict=True)}

    def _folder(self, values: dict[str, str | None]) -> str:
        """The folder for these partition values, as for rows written in the process."""
        configuration = self.metadata.configuration
        if self.mode != "none" or properties.get(configuration, "delta.randomizeFilePrefixes"):
            length = int(configuration.get("delta.randomPrefixLength",
                                           in_process.RANDOM_PREFIX_LENGTH))
            return options.new_id().replace("-", "")[:length]
        return partitions.hive_path(values)

    def _adopt(self, number: int, written: WrittenFile, now: int) -> AddFile:
        footer = written.footer
        self.footers.append(footer)
        stats = statistics.from_footer(
            footer, self.metadata.schema, self.metadata, protocol=self.protocol,
            clustering=self.clustering,
            read=lambda names: pq.ParquetFile(self.folder.open(written)).read(columns=names))
        values = self._values_of(written.folder)
        folder = cache(partial(self._folder, values))

        def name_of(drawn: str) -> str:
            name = self.form.file_name(f"part-{number:05d}-{drawn}-c000")
            return f"{folder()}/{name}" if folder() else name

        name = self.folder.adopt(written, name_of)
        return AddFile(path=encode_path(name), partition_values=values, size=written.size,
                       modification_time=now, data_change=self.data_change, stats=stats)


# --- partition values -----------------------------------------------------------------------------

def _without_blanks(source: Column, data_type: T.DataType) -> Column:
    """An empty text is NULL as a partition value (PROTOCOL.md, "Partition Value Serialization"). So is the
    name of NULL's folder."""
    if not isinstance(data_type, T.StringType | T.BinaryType):
        return source
    return F.when((F.octet_length(source) > 0) & (source.cast("string") != partitions.HIVE_NULL), source)


def _key(source: Column, data_type: DataType) -> Column:
    """The key of a folder, from which the value can be restored exactly, in any session time zone."""
    name = str(data_type)
    if name in _AS_TEXTS:
        return source
    if name == "timestamp":
        return F.unix_micros(source).cast("string")
    if name == "binary":
        return F.hex(source)
    return source.cast("string")


def _log_text(text: str | None, data_type: DataType) -> str | None:
    """The log's form of a text that :func:`_key` made."""
    if text is None:
        return None
    name = str(data_type)
    value: Any
    if name == "timestamp":
        value = _EPOCH + timedelta(microseconds=int(text))
    elif name == "binary":
        value = bytes.fromhex(text)
    else:
        value = partitions.parse_value(text, data_type)
    return partitions.format_value(value, data_type)


# --- files ----------------------------------------------------------------------------------------

def row_bytes(schema: StructType) -> int:
    """Bytes of a row in a compressed file, by guess."""
    return sum(_value_bytes(field.type) for field in schema.fields)


def _value_bytes(data_type: DataType) -> int:
    match data_type:
        case StructType():
            return row_bytes(data_type)
        case ArrayType():
            return ITEMS * _value_bytes(data_type.element_type)
        case MapType():
            return ITEMS * (_value_bytes(data_type.key_type) + _value_bytes(data_type.value_type))
        case PrimitiveType(name):
            return ROW_BYTES.get(re.split(r"\W", name)[0], VALUE_BYTES)
