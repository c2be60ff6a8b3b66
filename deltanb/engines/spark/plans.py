"""Frames over a table's data files, over Spark's own Parquet reader: each plan, and the columns it has.

What lives here: the plans. Partition values and deleted rows come from the log; data columns, their pruning
and the pushdown of filters are Spark's.
What it does not know: which files to read, which plan suits a file (``file_groups.py``), conditions.

``listed``   the log's list of files, with the log's values for each.
``plain``    only the paths: no partition column is read, and no row is deleted.
``hive``     the paths and ``basePath``: the folders have exactly the log's values.
``joined``   a broadcast join of the log's values on ``_metadata.file_path``.
``vectors``  the same, and a broadcast join of the deleted positions.
``process``  files that Spark would overlook (names that begin with ``_`` or ``.``) or cannot reach:
             read here, handed over as Arrow; in a bucket read by executors (``buckets``).

A bucket is reached where Spark has a file system for it (``connectors``) and can be given a list.

``plain``, ``hive`` and ``joined`` replace ``listed`` if Spark cannot take a list, as on Connect (``hive`` is
worth its rules: with ``joined``, a table of 100 partitions took 1.7 times as long to read); with a list,
``vectors`` uses the number of a file in it.

The joins by path are left joins that fail if the log has no entry for a file: if two programs spell a path
differently, its rows must not be lost, nor deleted ones come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltanb.engines.arrow import read as in_process
from deltanb.engines.spark import buckets, file_lists, listed
from deltanb.engines.spark.bitmaps import CHUNK_BITS, WORDS, bitmaps
from deltanb.engines.spark.columns import (
    arrow_frame,
    column,
    described,
    frame_of,
    renamed,
    spark_schema,
    spark_type,
)
from deltanb.engines.spark.connectors import Connector, connector_for
from deltanb.engines.spark.file_groups import Choice, File, Groups
from deltanb.engines.spark.paths import file_path, literal_pattern, spark_path
from deltanb.engines.spark.session import MANY_PATHS, READ_BY_FIELD_ID, read_by_field_id, settings
from deltanb.engines.spark.session_request import is_remote
from deltanb.log.skipping import partitions
from deltanb.schema.column_mapping import field_id, physical_name
from deltanb.schema.types import StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from deltanb.engines.arrow.data_file import Scan
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

OURS = "__deltanb_"
"""Begins the names of a plan's columns that are not the table's."""
PATH, ROW, _KNOWN, _CHUNK, _BITS, _VALUE, _NUMBER = (
    f"{OURS}{name}" for name in ("path", "row", "known", "chunk", "bits", "value", "number"))

_OPTIONS = {
    "__globPaths__": "false",
    "mergeSchema": "false",
    # A file that is gone or damaged is an error, whatever the session says.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Dates as they are stored; files that say they are in the old calendar are shifted all the same.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_TRACKED = ("base_row_id", "default_row_commit_version")
"""Of a file in the log: what its rows' ids and commit versions begin with."""
MAX_DELETED = 1 << 24
"""Bytes of bitmaps of deleted rows that are kept with a version's lists."""
_NO_FOLDERS = {"recursiveFileLookup": "true"}  # the files named and no others; nothing from folders


class Value(NamedTuple):
    """A column with values from the log, one per file: its name in the table and in a plan."""

    name: str
    column: str
    type: T.DataType
    of_files: pa.Array | None = None


class _Lists(NamedTuple):
    """A version's files listed for Spark: those without deleted rows, those with, and the deleted rows."""

    whole: listed.FileList | None
    vectors: listed.FileList | None
    deleted: pa.Table | None


class Reader:
    """One read: the snapshot's mapping of columns, and the frame of each plan."""

    def __init__(self, snapshot: Snapshot, scan: Scan, session: SparkSession) -> None:
        self.snapshot, self.scan, self.session = snapshot, scan, session
        self.mode = scan.mode
        by = [snapshot.schema.field(name) for name in snapshot.partition_columns]
        self.partition_by = [(f, physical_name(f, self.mode)) for f in by]
        names = {f.name for f in by}
        self.tracked = scan.tracked
        self.partition_fields = [f for f in scan.fields if f.name in names]
        self.stored = StructType(f for f in scan.fields if f.name not in names and not _is_void(f))
        # Spark needs a column to read; it is pruned again.
        first = next((f for f in snapshot.schema.fields if f.name not in names and not _is_void(f)), None)
        file_schema = self.stored if self.stored.fields or first is None else StructType([first])
        read = spark_schema(file_schema, self.mode, ids=self.mode == "id")
        self.file_schema = T.StructType([
            T.StructField(read_as(f, self.mode), part.dataType, True, part.metadata)
            for f, part in zip(file_schema.fields, read.fields, strict=True)])
        self.needs_values = bool(self.partition_fields or self.tracked)
        self.lists = listed.is_possible(session)
        self.connector = connector_for(scan.store, session) if self.lists else None
        if self.mode == "id" and not self.lists:
            read_by_field_id(session)

    def planning(self) -> AbstractContextManager[None]:
        """A block in which frames are made: Spark lists only names, without a job."""
        many = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(MANY_PATHS)}
        return nullcontext() if self.lists else settings(self.session, many)

    def frame(self, files: pa.Table | None) -> DataFrame:
        """The rows of the files, or of all, with the columns of ``scan.fields``."""
        return self._whole() if files is None else self._of_groups(self.groups(files), files)

    def _whole(self) -> DataFrame:
        """The rows of all files, from a cached list if there is one."""
        known = (*(value.column for value in self._values()), self.connector and self.connector.scheme)
        context = self.session.sparkContext if self.lists else None
        lists = file_lists.find(context, self.snapshot, known) if self.lists else None
        if lists is None:
            files = self.snapshot.files_for_scan()
            groups = self.groups(files)
            listed_files = [*groups.listed, *groups.vectors]
            if not (self.lists and listed_files) or groups.process:
                return self._of_groups(groups, files)
            lists = _Lists(self._described(groups.listed, files), self._described(groups.vectors, files),
                           self._deleted(groups.vectors) if groups.vectors else None)
            if lists.deleted is None or lists.deleted.nbytes <= MAX_DELETED:
                file_lists.keep(context, self.snapshot, known, lists, (file.local for file in listed_files))
        return self._of_lists(lists)

    def _of_lists(self, lists: _Lists) -> DataFrame:
        frames = []
        if lists.whole is not None:
            frame, values = self._valued(self._relation(lists.whole), places=bool(self.tracked))
            frames.append(self._logical(frame, values))
        if lists.vectors is not None and lists.deleted is not None:
            frame, values = self._valued(self._relation(lists.vectors), places=True)
            frames.append(self._live(frame, values, lists.deleted))
        return reduce(lambda one, other: one.union(other), frames)

    def _of_groups(self, groups: Groups, files: pa.Table) -> DataFrame:
        with self.planning():
            frames = [plan(group) for plan, group in (
                (lambda group: self._listed(group, files), groups.listed),
                (self._plain, groups.plain), (self._hive, groups.hive),
                (lambda group: self._joined(group, files), groups.joined),
                (lambda group: self.without_deleted(group, files), groups.vectors),
            ) if group]
        if groups.process:
            frames.append(self._process(files.take(pa.array(groups.process))))
        if not frames:
            return frame_of(self.session, [], spark_schema(StructType(self.scan.fields)))
        return reduce(lambda one, other: one.union(other), frames)

    def name_of(self, file: File) -> int | str:
        """A file in :data:`PATH`: its place if Spark can take a list, which has it for each file; else the
        path, as Spark spells it."""
        return file.place if self.lists else file_path(file.local)

    def name_of_unread(self, place: int) -> int | str:
        """The same of a file that Spark does not read itself."""
        return place if self.lists else f"#{place}"

    def positioned(self, group: list[File], files: pa.Table) -> DataFrame:
        """All rows of the files, deleted ones too, with :data:`PATH` and :data:`ROW` beside them."""
        frame, values = self._with_values(group, files) if self.needs_values or self.lists else \
            (self._read_places(group), {})
        return self._logical(frame, values, (PATH, ROW))

    def positioned_in_process(self, places: Sequence[int], files: pa.Table) -> DataFrame:
        """Like :meth:`positioned`, for live rows of files that are read in this process."""
        names = (pa.int32(), "integer") if self.lists else (pa.string(), "string")
        schema = spark_schema(StructType(self.scan.fields)).add(PATH, names[1]).add(ROW, "long")
        tables = [frame_of(self.session, [], schema)] if not places else []
        for place in places:
            row = files.slice(place, 1).to_pylist()[0]
            batches = list(in_process.read_data_file(self.scan, row, positions=True))
            rows = pa.Table.from_batches(
                batches, self.scan.schema.append(pa.field(in_process.ROW_POSITION, pa.int64())))
            paths = pa.repeat(pa.scalar(self.name_of_unread(place), names[0]), rows.num_rows)
            rows = rows.add_column(rows.num_columns - 1, PATH, paths)
            rows = rows.rename_columns([*rows.schema.names[:-1], ROW])
            tables.append(arrow_frame(self.session, rows, schema))
        return reduce(lambda one, other: one.union(other), tables)

    def groups(self, files: pa.Table) -> Groups:
        """Files by the plan that reads them."""
        choice = Choice(self.scan, self.partition_by, lists=self.lists, needs_values=self.needs_values,
                        tracked=bool(self.tracked), connector=self.connector)
        return choice.groups(files)

    # -- plans ----------------------------------------------------------------------------------

    def _plain(self, group: list[File]) -> DataFrame:
        return self._logical(self._read(group, self.file_schema, _NO_FOLDERS), {})

    def _hive(self, group: list[File]) -> DataFrame:
        root = self.scan.store.local_path("")
        assert root is not None
        physical = [name for _, name in self.partition_by]
        schema = T.StructType([*self.file_schema.fields,
                               *(T.StructField(name, T.StringType()) for name in physical)])
        frame = self._read(group, schema, {"basePath": spark_path(root.rstrip("/"))})
        values = {f.name: column(name).cast(spark_type(f.type)) for f, name in self.partition_by}
        return self._logical(frame, values)

    def _listed(self, group: list[File], files: pa.Table) -> DataFrame:
        return self._logical(*self._with_values(group, files, places=bool(self.tracked)))

    def _joined(self, group: list[File], files: pa.Table) -> DataFrame:
        return self._logical(*self._with_values(group, files))

    def without_deleted(
        self, group: list[File], files: pa.Table, more: Sequence[str] = ()
    ) -> DataFrame:
        """The live rows of files with deleted rows, with columns ``more``."""
        frame, values = self._with_values(group, files)
        return self._live(frame, values, self._deleted(group), more)

    def _live(
        self, frame: DataFrame, values: Mapping[str, Column], deleted: pa.Table, more: Sequence[str] = ()
    ) -> DataFrame:
        """The rows of a frame without the deleted ones (from :meth:`_deleted`)."""
        key = T.StructField(_NUMBER, T.IntegerType()) if self.lists else T.StructField(PATH, T.StringType())
        chunks = arrow_frame(self.session, deleted, T.StructType([
            key, T.StructField(_CHUNK, T.LongType()), T.StructField(_BITS, T.ArrayType(T.LongType()))]))
        frame = frame.withColumn(_CHUNK, F.shiftright(column(ROW), CHUNK_BITS))
        frame = frame.join(chunks.hint("broadcast"), [key.name, _CHUNK], "left")
        word = F.element_at(column(_BITS), (
            F.shiftright(column(ROW), 6).bitwiseAND(F.lit(WORDS - 1)) + 1).cast("int"))
        is_live = F.getbit(word, column(ROW).bitwiseAND(F.lit(63)).cast("int")) == 0
        is_live = column(_BITS).isNull() | is_live
        is_live = is_live if self.lists else _guarded(is_live, "boolean")
        return self._logical(frame.filter(is_live), values, more)

    def _process(self, files: pa.Table) -> DataFrame:
        names = [f.name for f in self.scan.fields if f not in self.tracked]
        schema = spark_schema(StructType(self.scan.fields))
        made = None if self.tracked else buckets.rows_of(self.session, self.snapshot, names, files, schema)
        if made is None:
            rows = in_process.read_table(self.snapshot, files, columns=names, row_ids=bool(self.tracked))
            made = arrow_frame(self.session, rows, schema)
        return made

    # -- parts of plans -------------------------------------------------------------------------

    def _read(
        self, group: list[File], schema: T.StructType, more: Mapping[str, str]
    ) -> DataFrame:
        reader = self.session.read.schema(schema).options(**_OPTIONS, **more)
        # A server passes the option on in lower case, in which Spark does not know it.
        spelled = literal_pattern if is_remote(self.session) else spark_path
        return reader.parquet(*(spelled(file.local) for file in group))

    def _read_places(self, group: list[File]) -> DataFrame:
        """The stored columns with the file's path and the row's position in it."""
        frame = self._read(group, self.file_schema, _NO_FOLDERS)
        origin = _origin(frame)
        return frame.select("*", origin["file_path"].alias(PATH), origin["row_index"].alias(ROW))

    def _with_values(
        self, group: list[File], files: pa.Table, *, places: bool = True
    ) -> tuple[DataFrame, dict[str, Column]]:
        """The stored columns and, with ``places``, :data:`PATH` and :data:`ROW`; the log's values."""
        order = pa.array([file.place for file in group], pa.int32())
        columns = self._values(files.take(order))
        if self.lists:
            if places:
                columns.append(Value(PATH, PATH, T.IntegerType(), order))
            return self._valued(self._relation(self._index(group, columns)), places=places)
        frame, made = self._join(group, columns)
        return frame, self._with_row_ids(made)

    def _values(self, files: pa.Table | None = None) -> list[Value]:
        """The columns with values from the log, for these files; without files, only names and types."""
        columns = [Value(f.name, physical_name(f, self.mode), spark_type(f.type))
                   for f in self.partition_fields]
        columns += [Value(f.name, f"{_VALUE}{i}", T.LongType()) for i, f in enumerate(self.tracked)]
        if files is None:
            return columns
        values = partitions.typed_partition_values(
            files, self.snapshot.schema,
            [f.name for f in self.partition_fields], {f.name: name for f, name in self.partition_by})
        arrays = [values.column(f.name) for f in self.partition_fields]
        arrays += [files.column(source) for _, source in zip(self.tracked, _TRACKED, strict=False)]
        return [value._replace(of_files=array) for value, array in zip(columns, arrays, strict=True)]

    def _valued(self, frame: DataFrame, *, places: bool) -> tuple[DataFrame, dict[str, Column]]:
        """A frame of a list with each file's values, with ``places`` also :data:`ROW`."""
        made = {value.name: column(value.column) for value in self._values()}
        if places:
            frame = frame.select("*", _origin(frame)["row_index"].alias(ROW))
        return frame, self._with_row_ids(made)

    def _with_row_ids(self, made: dict[str, Column]) -> dict[str, Column]:
        if self.tracked:
            row_id, version = (f.name for f in self.tracked)
            made[row_id] = F.coalesce(column(row_id), made[row_id] + column(ROW))
            made[version] = F.coalesce(column(version), made[version])
        return made

    def _described(self, group: list[File], files: pa.Table) -> listed.FileList | None:
        """A list of the files with statistics to skip some; None without files."""
        if not group:
            return None
        files = files.take(pa.array([file.place for file in group]))  # in the order of the group
        return self._index(group, self._values(files), files.column("stats"))

    def _index(
        self, group: list[File], columns: Sequence[Value], stats: pa.ChunkedArray | None = None
    ) -> listed.FileList:
        """A list of the files with their values and, where rows are deleted, their numbers in the group."""
        columns = list(columns)
        if any(file.vector is not None for file in group):
            columns.append(Value(_NUMBER, _NUMBER, T.IntegerType(), pa.array(range(len(group)), pa.int32())))
        files = listed.table_of(
            [file.local for file in group], [file.size for file in group], [file.modified for file in group],
            [value.of_files for value in columns])
        schema = T.StructType([T.StructField(value.column, value.type) for value in columns])
        names = {physical_name(f, self.mode): read_as(f, self.mode) for f in self.snapshot.schema.fields}
        statistics_schema = T.StructType([
            T.StructField(names[f.name], f.dataType, True, {listed.STATISTICS: f.name})
            for f in described(self.snapshot.schema, self.mode).fields])
        root = root_of(self.scan.store, self.connector)
        return listed.file_list(
            self.session, root, self.snapshot.version, files, schema, statistics_schema, stats)

    def _relation(self, files: listed.FileList) -> DataFrame:
        more = {} if self.connector is None else self.connector.options
        by = {READ_BY_FIELD_ID: "true"} if self.mode == "id" else {}
        return listed.frame(self.session, files, self.file_schema, {**_OPTIONS, **more, **by})

    def _join(
        self, group: list[File], columns: Sequence[Value]
    ) -> tuple[DataFrame, dict[str, Column]]:
        """The stored columns, joined with the log's values by path, and the values as guarded columns."""
        keys = pa.array([file_path(file.local) for file in group], pa.string())
        names = [f"{_VALUE}{i}" for i in range(len(columns))]
        entries = pa.table([keys, pa.array([True] * len(group)), *(value.of_files for value in columns)],
                           names=[PATH, _KNOWN, *names])
        schema = T.StructType([
            T.StructField(PATH, T.StringType()), T.StructField(_KNOWN, T.BooleanType()),
            *(T.StructField(name, value.type) for name, value in zip(names, columns, strict=True))])
        known = arrow_frame(self.session, entries, schema)
        frame = self._read_places(group).join(known.hint("broadcast"), PATH, "left")
        return frame, {value.name: _guarded(column(name), value.type)
                       for name, value in zip(names, columns, strict=True)}

    def _deleted(self, group: list[File]) -> pa.Table:
        """(file, number of the chunk, bitmap as 64-bit words) of every chunk that has a deletion.

        The file is its number in the list, or its path where Spark has none.
        """
        tables = []
        for number, file in enumerate(group):
            assert file.vector is not None
            rows = self.scan.vectors.load(self.scan.store, file.vector, data_file=file.local)
            positions = pa.Array.from_buffers(
                pa.uint64(), len(rows), [None, pa.py_buffer(rows.to_array())])
            key = pa.scalar(number, pa.int32()) if self.lists else pa.scalar(file_path(file.local))
            tables.append(bitmaps(key, positions))
        return pa.concat_tables(tables).rename_columns([_NUMBER if self.lists else PATH, _CHUNK, _BITS])

    def _logical(
        self, frame: DataFrame, values: Mapping[str, Column], more: Sequence[str] = ()
    ) -> DataFrame:
        """The columns of ``scan.fields`` under their logical names, with comments."""
        columns = []
        for f in self.scan.fields:
            target = spark_type(f.type)
            if f.name in values:
                made = values[f.name]
            elif _is_void(f):
                made = F.lit(None).cast(target)
            else:
                made = column(read_as(f, self.mode))
                made = made if self.mode == "none" else renamed(made, f.type, target)
            comment = f.metadata.get("comment")
            columns.append(made.alias(f.name, metadata={"comment": comment}) if comment
                           else made.alias(f.name))
        return frame.select(*columns, *more)


def read_as(f: StructField, mode: str) -> str:
    """A stored column's name in the frame of the files, of a table with this mode of column mapping.

    Spark resolves columns by id, but checks filters against a file's statistics by name, and an old file may
    have another column of that name. So if columns are resolved by id, this is a name that no file has.
    """
    number = field_id(f) if mode == "id" else None
    return physical_name(f, mode) if number is None else f"{OURS}id_{number}"


def root_of(store: LogStore, connector: Connector | None) -> str:
    """The folder of a table as its lists of files have it, in Spark's spelling."""
    root = store.local_path("") or "" if connector is None else connector.root
    return spark_path(root.rstrip("/"))


def _origin(frame: DataFrame) -> Column:
    """What Spark knows of each row's file; the files' own, should a column be named so."""
    return frame.metadataColumn("_metadata")


def _guarded(value: Column, data_type: T.DataType | str) -> Column:
    """The value from the log; fails if the log has no entry for the row's file."""
    message = F.concat(F.lit("the table's log has no entry under the path that Spark read: "),
                       column(PATH))
    return F.when(column(_KNOWN).isNull(), F.raise_error(message).cast(data_type)).otherwise(value)


def _is_void(f: StructField) -> bool:
    return str(f.type) in ("void", "null")
