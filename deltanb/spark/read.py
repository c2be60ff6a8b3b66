"""The rows of a snapshot as a Spark DataFrame, over Spark's own Parquet reader.

What lives here: the choice among plans for a list of files, and each plan. Partition values and
deleted rows come from the log; data columns, their pruning and the pushdown of filters are Spark's.
What it does not know: which files to read (``log/skipping/prune.py``), transactions.

Plans, fastest first; one read may need several, whose rows are then united:

``listed``   Spark is given the log's list of files, the log's values beside each.
``plain``    the paths alone: no partition column is wanted, and no row is deleted.
``hive``     the paths and ``basePath``: the folders say what the log says, letter by letter.
``joined``   a broadcast join of the log's values on ``_metadata.file_path``.
``vectors``  the same, and a broadcast join of the deleted positions.
``process``  files that Spark would overlook (names that begin with ``_`` or ``.``) or cannot reach:
             read here, handed over as Arrow; in a bucket read by executors (``buckets``).

``plain``, ``hive`` and ``joined`` stand in for ``listed`` where Spark cannot be given a list; with one,
``vectors`` goes by the number of a file in it.

The joins by path are left joins that stop when the log has no entry for a file: a path that two programs
spell differently must not lose its rows, nor bring deleted ones back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltanb.actions import decode_path
from deltanb.data import deletion_vectors
from deltanb.data import read as in_process
from deltanb.errors import (
    DataFileNotFound,
    DeltaError,
    InvalidPredicate,
    UnsupportedPredicate,
)
from deltanb.log.skipping import partitions
from deltanb.schema.column_mapping import physical_name
from deltanb.schema.types import StructField, StructType
from deltanb.spark import buckets, kept, listed
from deltanb.spark.bitmaps import CHUNK_BITS, WORDS, bitmaps
from deltanb.spark.columns import arrow_frame, column, described, renamed, spark_schema, spark_type
from deltanb.spark.paths import GLOB, SIMPLE, file_path, is_overlooked, literal_pattern, spark_path
from deltanb.spark.refusals import refusals
from deltanb.spark.session import MANY_PATHS, is_remote, read_by_field_id, settings
from deltanb.spark.session import spark as start_session
from deltanb.sql import predicates
from deltanb.store.paths import place_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from deltanb.data.data_file import Scan
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

# For the columns of a plan, beside the table's.
PATH, ROW, _KNOWN, _CHUNK, _BITS, _VALUE, _NUMBER = (
    f"__deltanb_{name}" for name in ("path", "row", "known", "chunk", "bits", "value", "number"))

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
_NO_FOLDERS = {"recursiveFileLookup": "true"}  # the files named and no others; nothing from folders


def read_table(
    snapshot: Snapshot,
    files: pa.Table | None = None,
    spark: SparkSession | None = None,
    columns: Sequence[str] | None = None,
    where: str | Predicate | None = None,
    *, row_ids: bool = False,
) -> DataFrame:
    """The rows of ``files`` as a DataFrame with the snapshot's logical schema.

    Arguments are as for :func:`deltanb.data.read.read_table`, but without ``files`` those are read
    that may hold rows of ``where``, and ``where`` may also be SQL that only Spark understands.
    Without ``spark`` the running session is used, or a local one is begun. The frame holds the
    paths: it stays at this version whatever is committed later.

    Raises:
        DataFileNotFound: a file that is gone.
        UnsupportedProtocol: a feature, or a column that is asked for, is not supported.
        InvalidArgument, InvalidPredicate: from ``columns`` and ``where``.
        MissingDependency: there is no PySpark or no Java.

    >>> read_table(table.log.snapshot, where="id > 1").count()                  # doctest: +SKIP
    2
    """
    text = where if where is None or isinstance(where, str) else where.sql
    wanted = [f.name for f in in_process.plan(snapshot, columns, row_ids=row_ids).columns]
    try:
        scan = in_process.plan(snapshot, columns, where, row_ids=row_ids)
        if files is None and text is not None:
            files = snapshot.files_for_scan(text)
    except UnsupportedPredicate:  # Spark may know more; which columns it needs is unknown
        scan = in_process.plan(snapshot, row_ids=row_ids)
        files = _by_what_is_understood(snapshot, text) if files is None else files
    session = spark if spark is not None else start_session()
    frame = _Reader(snapshot, scan, session).frame(files)
    if text is not None:
        frame = filtered(frame, text)
    return frame.select(*(column(name) for name in wanted))


def _by_what_is_understood(snapshot: Snapshot, text: str | None) -> pa.Table:
    """The files that may hold rows of a condition, as far as we know what it means."""
    assert text is not None
    try:
        parts = predicates.parse_understood(text, snapshot.schema)
    except InvalidPredicate:  # for us; Spark has the last word
        return snapshot.files
    return snapshot.files_for_scan(*parts)


def read_positions(
    snapshot: Snapshot, files: pa.Table, where: str, spark: SparkSession | None = None
) -> tuple[DataFrame | None, dict[str, int], list[int]]:
    """Where the rows of a condition are: (path, position in the file) of each, deleted rows too.

    Returns:
        A frame of the columns :data:`PATH` (as Spark spells it) and :data:`ROW`; the place in ``files``
        of each such path; and the places of files that Spark cannot read, which are not in the frame.

    Raises:
        InvalidPredicate: Spark cannot evaluate ``where``.
        DataFileNotFound: a file that is gone.
    """
    try:
        scan = in_process.plan(snapshot, [], where)
    except UnsupportedPredicate:
        scan = in_process.plan(snapshot)
    session = spark if spark is not None else start_session()
    reader = _Reader(snapshot, scan, session)
    groups = reader._grouped(files)
    group = [*groups.listed, *groups.plain, *groups.hive, *groups.joined, *groups.vectors]
    places = {file_path(file.local): file.place for file in group}
    if not group:
        return None, places, groups.process
    with reader.planning():
        frame = reader.positioned(group, files)
    return filtered(frame, where).select(PATH, ROW), places, groups.process


def read_rows(
    snapshot: Snapshot, files: pa.Table, spark: SparkSession | None = None, *, row_ids: bool = False
) -> tuple[DataFrame, dict[str, int]]:
    """The live rows of the files, each with where it is: :data:`PATH` and :data:`ROW` beside the columns.

    ``row_ids`` adds each row's id and commit version, where the table tracks rows.

    Returns:
        The frame, and the place in ``files`` of each path that is in it.

    Raises:
        DataFileNotFound: a file that is gone.
    """
    session = spark if spark is not None else start_session()
    reader = _Reader(snapshot, in_process.plan(snapshot, row_ids=row_ids), session)
    groups = reader._grouped(files)
    whole = [*groups.listed, *groups.plain, *groups.hive, *groups.joined]
    places = {file_path(file.local): file.place for file in (*whole, *groups.vectors)}
    frames = []
    with reader.planning():
        if whole:
            frames.append(reader.positioned(whole, files))
        if groups.vectors:
            frames.append(reader._without_deleted(groups.vectors, files, (PATH, ROW)))
    if groups.process or not frames:
        frames.append(reader.positioned_in_process(groups.process, files))
        places.update({_unread(place): place for place in groups.process})
    return reduce(lambda one, other: one.union(other), frames), places


def _unread(place: int) -> str:
    """Stands for the path of a file that Spark did not read itself."""
    return f"#{place}"


def filtered(frame: DataFrame, where: str) -> DataFrame:
    """The rows for which a condition is TRUE.

    Raises:
        InvalidPredicate: Spark cannot evaluate it.
    """
    with refusals(f"evaluate {where!r}", where):
        return frame.filter(where)


@dataclass(slots=True)
class _File:
    """One data file: its row in the list of files, where and how large it is, and what the log says of it."""

    place: int
    local: str
    size: int
    modified: int
    """In ms since 1970."""
    values: Mapping[str, str | None] = field(default_factory=dict)
    vector: Mapping[str, Any] | None = None


@dataclass
class _Groups:
    """Files by plan."""

    listed: list[_File] = field(default_factory=list)
    plain: list[_File] = field(default_factory=list)
    hive: list[_File] = field(default_factory=list)
    joined: list[_File] = field(default_factory=list)
    vectors: list[_File] = field(default_factory=list)
    process: list[int] = field(default_factory=list)


class _Value(NamedTuple):
    """A column whose values the log gives: as the table names it and as a plan does; one value a file."""

    name: str
    column: str
    type: T.DataType
    of_files: pa.Array | None = None


class _Reader:
    """One read: the snapshot's mapping of columns, and the frame of each plan."""

    def __init__(self, snapshot: Snapshot, scan: Scan, session: SparkSession) -> None:
        self.snapshot, self.scan, self.session = snapshot, scan, session
        self.mode = scan.mode
        by = [snapshot.schema.field(name) for name in snapshot.partition_columns]
        self.partition_by = [(f, physical_name(f, self.mode)) for f in by]
        names = {f.name for f in by}
        self.tracked = scan.tracked
        self.wanted_values = [f for f in scan.fields if f.name in names]
        self.stored = StructType(f for f in scan.fields if f.name not in names and not _is_void(f))
        # Spark needs a column to read; it is pruned again.
        first = next((f for f in snapshot.schema.fields if f.name not in names and not _is_void(f)), None)
        file_schema = self.stored if self.stored.fields or first is None else StructType([first])
        self.file_schema = spark_schema(file_schema, self.mode, ids=self.mode == "id")
        self.needs_values = bool(self.wanted_values or self.tracked)
        self.trusted: dict[tuple[str, str], bool] = {}
        self.lists = listed.is_possible(session)
        if self.mode == "id":
            read_by_field_id(session)

    def planning(self) -> AbstractContextManager[None]:
        """While frames are made: names alone are listed by Spark, and without a job of its own."""
        many = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(MANY_PATHS)}
        return nullcontext() if self.lists else settings(self.session, many)

    def frame(self, files: pa.Table | None) -> DataFrame:
        """The rows of the files, or of all, with the columns of ``scan.fields``."""
        return self._whole() if files is None else self._of_groups(self._grouped(files), files)

    def _whole(self) -> DataFrame:
        """The rows of all files; where Spark was given a list of them before, by that one."""
        known = tuple(value.column for value in self._values())
        context = self.session.sparkContext if self.lists else None
        index = kept.find(context, self.snapshot, known) if self.lists else None
        if index is not None:
            return self._logical(*self._valued(self._relation(index), places=bool(self.tracked)))
        files = self.snapshot.files_for_scan()
        groups = self._grouped(files)
        if not (self.lists and groups.listed) or groups.process or groups.vectors:
            return self._of_groups(groups, files)
        files = files.take(pa.array([file.place for file in groups.listed]))  # in the order of the group
        index = self._index(groups.listed, self._values(files), files.column("stats"))
        kept.keep(context, self.snapshot, known, index, (file.local for file in groups.listed))
        return self._logical(*self._valued(self._relation(index), places=bool(self.tracked)))

    def _of_groups(self, groups: _Groups, files: pa.Table) -> DataFrame:
        with self.planning():
            frames = [plan(group) for plan, group in (
                (lambda group: self._listed(group, files), groups.listed),
                (self._plain, groups.plain), (self._hive, groups.hive),
                (lambda group: self._joined(group, files), groups.joined),
                (lambda group: self._without_deleted(group, files), groups.vectors),
            ) if group]
        if groups.process:
            frames.append(self._process(files.take(pa.array(groups.process))))
        if not frames:
            return self.session.createDataFrame([], spark_schema(StructType(self.scan.fields)))
        return reduce(lambda one, other: one.union(other), frames)

    def positioned(self, group: list[_File], files: pa.Table) -> DataFrame:
        """All rows of the files, deleted ones too, with :data:`PATH` and :data:`ROW` beside them."""
        frame, values = self._with_values(group, files) if self.needs_values or self.lists else \
            (self._read_places(group), {})
        return self._logical(frame, values, (PATH, ROW))

    def positioned_in_process(self, places: Sequence[int], files: pa.Table) -> DataFrame:
        """As :meth:`positioned`, of live rows of files that are read here."""
        schema = spark_schema(StructType(self.scan.fields)).add(PATH, "string").add(ROW, "long")
        tables = [self.session.createDataFrame([], schema)] if not places else []
        for place in places:
            row = files.slice(place, 1).to_pylist()[0]
            batches = list(in_process.read_data_file(self.scan, row, positions=True))
            rows = pa.Table.from_batches(
                batches, self.scan.schema.append(pa.field(in_process.ROW_POSITION, pa.int64())))
            paths = pa.array([_unread(place)] * rows.num_rows, pa.string())
            rows = rows.add_column(rows.num_columns - 1, PATH, paths)
            rows = rows.rename_columns([*rows.schema.names[:-1], ROW])
            tables.append(arrow_frame(self.session, rows, schema))
        return reduce(lambda one, other: one.union(other), tables)

    # -- choice ---------------------------------------------------------------------------------

    def _grouped(self, files: pa.Table) -> _Groups:
        groups, seen = _Groups(), set[str]()
        files = files.select(["path", "partition_values", "deletion_vector"])
        others = self._listed_at_once(files, groups, seen) if self.lists else None
        rows = files if others is None else files.take(others)
        places = range(files.num_rows) if others is None else others.to_pylist()
        for place, row in zip(places, rows.to_pylist(), strict=True):
            path = decode_path(row["path"])
            store, name = place_of(self.scan.store, path, is_encoded=False).opened()
            local = store.local_path(name)
            # A path that Spark was given twice would meet both entries of the log in the join by path.
            is_new = local not in seen
            seen.add(local or "")
            if local is None or not is_new or is_overlooked(os.path.basename(local)):
                groups.process.append(place)
                continue
            file = self._file(place, local, path, row["partition_values"], row["deletion_vector"])
            if file.vector is not None:
                groups.vectors.append(file)
            elif self.lists:
                groups.listed.append(file)
            elif not self.needs_values:
                groups.plain.append(file)
            elif self.tracked:  # where a file holds no row id, the log's and the row's place give it
                groups.joined.append(file)
            elif store is self.scan.store and self._is_hive(name, file.values):
                groups.hive.append(file)
            else:
                groups.joined.append(file)
        return groups

    def _listed_at_once(self, files: pa.Table, groups: _Groups, seen: set[str]) -> pa.Array | None:
        """List the files whose paths mean what they say and that have no deleted rows.

        The places of the others; None where no file can be told so.
        """
        is_simple = pc.and_(pc.match_substring_regex(files.column("path").cast(pa.string()), SIMPLE),
                            pc.is_null(files.column("deletion_vector")))
        places = pc.indices_nonzero(is_simple)
        names = files.column("path").take(places).to_pylist()
        found = [local for local in map(self.scan.store.local_path, names) if local is not None]
        seen.update(found)
        if len(seen) < len(names) or not names:  # elsewhere, or one of them named twice
            seen.clear()
            return None
        groups.listed.extend(map(self._file, places.to_pylist(), found, names))
        return pc.indices_nonzero(pc.invert(is_simple))

    def _file(
        self, place: int, local: str, path: str, values: Any = (), vector: Mapping[str, Any] | None = None
    ) -> _File:
        try:
            # Not the log's word for it: Spark would lose the rows beyond a size that is too small.
            status = os.stat(local)
        except (OSError, ValueError):
            raise _gone(self.scan, path) from None
        modified = status.st_mtime_ns // 1_000_000
        return _File(place, local, status.st_size, modified, dict(values or ()), vector)

    def _is_hive(self, name: str, values: Mapping[str, str | None]) -> bool:
        """Whether the folders say exactly what the log says, in a form that Spark reads alike."""
        texts = {physical: values.get(physical) for _, physical in self.partition_by}
        return (os.path.dirname(name) == partitions.hive_path(texts)
                and not GLOB.intersection(self.scan.store.local_path(name) or "")
                and all(self._is_plain_text(f, texts[name]) for f, name in self.partition_by))

    def _is_plain_text(self, f: StructField, text: str | None) -> bool:
        if not text:
            return True
        key = (f.name, text)
        if key not in self.trusted:
            try:
                again = partitions.format_value(partitions.parse_value(text, f.type), f.type)
            except (DeltaError, ValueError):
                again = None  # the join's typed values say what is wrong with it
            self.trusted[key] = text == again != partitions.HIVE_NULL
        return self.trusted[key]

    # -- plans ----------------------------------------------------------------------------------

    def _plain(self, group: list[_File]) -> DataFrame:
        return self._logical(self._read(group, self.file_schema, _NO_FOLDERS), {})

    def _hive(self, group: list[_File]) -> DataFrame:
        root = self.scan.store.local_path("")
        assert root is not None
        physical = [name for _, name in self.partition_by]
        schema = T.StructType([*self.file_schema.fields,
                               *(T.StructField(name, T.StringType()) for name in physical)])
        frame = self._read(group, schema, {"basePath": spark_path(root.rstrip("/"))})
        values = {f.name: column(name).cast(spark_type(f.type)) for f, name in self.partition_by}
        return self._logical(frame, values)

    def _listed(self, group: list[_File], files: pa.Table) -> DataFrame:
        return self._logical(*self._with_values(group, files, places=bool(self.tracked)))

    def _joined(self, group: list[_File], files: pa.Table) -> DataFrame:
        return self._logical(*self._with_values(group, files))

    def _without_deleted(
        self, group: list[_File], files: pa.Table, more: Sequence[str] = ()
    ) -> DataFrame:
        frame, values = self._with_values(group, files)
        frame = frame.withColumn(_CHUNK, F.shiftright(column(ROW), CHUNK_BITS))
        key = _NUMBER if self.lists else PATH
        frame = frame.join(self._deleted(group).hint("broadcast"), [key, _CHUNK], "left")
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
        self, group: list[_File], schema: T.StructType, more: Mapping[str, str]
    ) -> DataFrame:
        reader = self.session.read.schema(schema).options(**_OPTIONS, **more)
        # A server passes the option on in lower case, in which Spark does not know it.
        spelled = literal_pattern if is_remote(self.session) else spark_path
        return reader.parquet(*(spelled(file.local) for file in group))

    def _read_places(self, group: list[_File]) -> DataFrame:
        """The stored columns beside the file's path and the row's position in it."""
        return _placed(self._read(group, self.file_schema, _NO_FOLDERS))

    def _with_values(
        self, group: list[_File], files: pa.Table, *, places: bool = True
    ) -> tuple[DataFrame, dict[str, Column]]:
        """The stored columns and, with ``places``, :data:`PATH` and :data:`ROW`; the log's values."""
        columns = self._values(files.take(pa.array([file.place for file in group])))
        if self.lists:
            return self._valued(self._list(group, columns), places=places)
        frame, made = self._join(group, columns)
        return frame, self._with_row_ids(made)

    def _values(self, files: pa.Table | None = None) -> list[_Value]:
        """The columns whose values the log gives, of these files; without them their names and types."""
        columns = [_Value(f.name, physical_name(f, self.mode), spark_type(f.type))
                   for f in self.wanted_values]
        columns += [_Value(f.name, f"{_VALUE}{i}", T.LongType()) for i, f in enumerate(self.tracked)]
        if files is None:
            return columns
        values = partitions.typed_partition_values(
            files, self.snapshot.schema,
            [f.name for f in self.wanted_values], {f.name: name for f, name in self.partition_by})
        arrays = [values.column(f.name) for f in self.wanted_values]
        arrays += [files.column(source) for _, source in zip(self.tracked, _TRACKED, strict=False)]
        return [value._replace(of_files=array) for value, array in zip(columns, arrays, strict=True)]

    def _valued(self, frame: DataFrame, *, places: bool) -> tuple[DataFrame, dict[str, Column]]:
        """A frame that has each file's values, with ``places`` beside :data:`PATH` and :data:`ROW`."""
        made = {value.name: column(value.column) for value in self._values()}
        return _placed(frame) if places else frame, self._with_row_ids(made)

    def _with_row_ids(self, made: dict[str, Column]) -> dict[str, Column]:
        if self.tracked:
            row_id, version = (f.name for f in self.tracked)
            made[row_id] = F.coalesce(column(row_id), made[row_id] + column(ROW))
            made[version] = F.coalesce(column(version), made[version])
        return made

    def _list(self, group: list[_File], columns: Sequence[_Value]) -> DataFrame:
        """The stored columns, each file's values and, where rows are deleted, its number in the group."""
        columns = list(columns)
        if any(file.vector is not None for file in group):
            columns.append(_Value(_NUMBER, _NUMBER, T.IntegerType(), pa.array(range(len(group)), pa.int32())))
        return self._relation(self._index(group, columns))

    def _index(
        self, group: list[_File], columns: Sequence[_Value], stats: pa.ChunkedArray | None = None
    ) -> listed.FileList:
        root = self.scan.store.local_path("") or ""
        files = listed.table_of(
            [file.local for file in group], [file.size for file in group], [file.modified for file in group],
            [value.of_files for value in columns], stats)
        schema = T.StructType([T.StructField(value.column, value.type) for value in columns])
        return listed.file_list(self.session, spark_path(root.rstrip("/")), files, schema,
                                described(self.snapshot.schema, self.mode))

    def _relation(self, files: listed.FileList) -> DataFrame:
        return listed.frame(self.session, files, self.file_schema, _OPTIONS)

    def _join(
        self, group: list[_File], columns: Sequence[_Value]
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

    def _deleted(self, group: list[_File]) -> DataFrame:
        """(file, number of the chunk, bitmap as 64-bit words) of every chunk that has a deletion.

        The file is its number in the list, or its path where Spark has none.
        """
        tables = []
        for number, file in enumerate(group):
            assert file.vector is not None
            rows = deletion_vectors.load(self.scan.store, file.vector, data_file=file.local)
            positions = pa.Array.from_buffers(
                pa.uint64(), len(rows), [None, pa.py_buffer(rows.to_array())])
            key = pa.scalar(number, pa.int32()) if self.lists else pa.scalar(file_path(file.local))
            tables.append(bitmaps(key, positions))
        file_key = T.StructField(_NUMBER, T.IntegerType()) if self.lists else \
            T.StructField(PATH, T.StringType())
        schema = T.StructType([
            file_key, T.StructField(_CHUNK, T.LongType()),
            T.StructField(_BITS, T.ArrayType(T.LongType()))])
        return arrow_frame(self.session, pa.concat_tables(tables).rename_columns(schema.names), schema)

    def _logical(
        self, frame: DataFrame, values: Mapping[str, Column], more: Sequence[str] = ()
    ) -> DataFrame:
        """The columns of ``scan.fields`` under their logical names, comments beside them."""
        columns = []
        for f in self.scan.fields:
            target = spark_type(f.type)
            if f.name in values:
                made = values[f.name]
            elif _is_void(f):
                made = F.lit(None).cast(target)
            else:
                made = column(physical_name(f, self.mode))
                made = made if self.mode == "none" else renamed(made, f.type, target)
            comment = f.metadata.get("comment")
            columns.append(made.alias(f.name, metadata={"comment": comment}) if comment
                           else made.alias(f.name))
        return frame.select(*columns, *more)


def _placed(frame: DataFrame) -> DataFrame:
    """Beside the columns of files, the path of each row's and its position in it."""
    origin = frame.metadataColumn("_metadata")  # the file's own, should a column be named so
    return frame.select("*", origin["file_path"].alias(PATH), origin["row_index"].alias(ROW))


def _guarded(value: Column, data_type: T.DataType | str) -> Column:
    """The value from the log, which must have an entry for the row's file."""
    message = F.concat(F.lit("the table's log has no entry under the path that Spark read: "),
                       column(PATH))
    return F.when(column(_KNOWN).isNull(), F.raise_error(message).cast(data_type)).otherwise(value)


def _is_void(f: StructField) -> bool:
    return str(f.type) in ("void", "null")


def _gone(scan: Scan, path: str) -> DataFileNotFound:
    return DataFileNotFound(
        f"version {scan.version} of {scan.table or 'the table'} names the data file {path!r}, "
        "which does not exist. If it was vacuumed, read a newer version; if it was deleted by "
        "hand, restore it from a copy, or remove it from the table with a commit.",
        path=path, version=scan.version)
