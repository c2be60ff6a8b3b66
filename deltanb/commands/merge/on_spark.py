"""MERGE on Spark: joins with any condition, and the resulting rows, as DataFrames.

What lives here: :class:`SparkMerge`, which finds the rows that clauses change, and writes the new
ones; the contract is :class:`deltanb.engines.contract.MergeEngine`.
What it does not know: the transaction's commit, metrics, deletion vectors (``merge``).

The source is first numbered and cached, since it is read twice and must be the same both times. Executors
hold it; if one is lost with rows of it, the merge has to start again. The first join returns one bitmap of
positions for each file, clause and Spark partition; the second join is over the files with a match only, and
Spark writes its result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F

from deltanb.actions import AddFile
from deltanb.commands.merge.clauses import (
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Fields,
    Names,
    Resolved,
)
from deltanb.commands.merge.on import MAX_LISTED_PARTITIONS, MAX_LISTED_VALUES, Key
from deltanb.commands.merge.outcomes import plain_column, type_at
from deltanb.engines.arrow.enforce import differences, mismatch, nullable, refuse_lacking
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.engines.contract import JoinedRows
from deltanb.engines.spark.checks import refused
from deltanb.engines.spark.columns import arrow_frame, column, converted, loses, spark_schema, spark_type
from deltanb.engines.spark.engine import SPARK
from deltanb.engines.spark.jobs import followed
from deltanb.engines.spark.read import PATH, ROW, read_rows
from deltanb.engines.spark.refusals import refusals
from deltanb.engines.spark.rows import rules, stored
from deltanb.engines.spark.session import spark as start_session
from deltanb.errors import InvalidTable, SourceRowsLost
from deltanb.log.replay import files_table
from deltanb.schema.columns import KEYS
from deltanb.schema.types import StructField, StructType, to_arrow
from deltanb.sql import expressions as ex

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deltanb.commands.merge.on import On
    from deltanb.commands.merge.source import Source
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

_NUMBER, _CLAUSE, _MATCHES = (f"__deltanb_{name}" for name in ("source_row", "clause", "matches"))
_COPY, _DROP = -1, -2  # in place of a clause: the row stays as it is, or is of no table
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_FOLDED = "path string, clause int, count long, several boolean, matched boolean, rows binary"


@dataclass
class SparkChanged:
    """The rows of a file that clauses change: positions by the clause's index."""

    file: AddFile
    rows: dict[int, BitMap64] = field(default_factory=dict)

    def of(self, clauses: Sequence[int]) -> BitMap64:
        """The positions of the rows that some clauses change."""
        return BitMap64.union(BitMap64(), *(self.rows.get(place, BitMap64()) for place in clauses))


class SparkMerge:
    """One merge on Spark; arguments as of ``ArrowMerge``, with the source. See
    :class:`deltanb.engines.contract.MergeEngine`.

    Raises:
        InvalidPredicate: SQL that Spark cannot evaluate.
    """

    def __init__(
        self, txn: OptimisticTransaction, names: Names, on: On, clauses: Sequence[Resolved],
        schema: StructType, source: Source,
    ) -> None:
        self.txn, self.names, self.on, self.schema = txn, names, on, schema
        self.clauses = list(clauses)
        self.session = source.frame.sparkSession if source.frame is not None else start_session()
        self.with_matches: list[AddFile] = []
        with rules(self.session):
            self.source = self._held(source)

    def _held(self, source: Source) -> DataFrame:
        """The source's rows, numbered and cached."""
        if source.frame is None and source.snapshot is None:
            table = source.table
            table = table.append_column(_NUMBER, pa.array(range(table.num_rows), pa.int64()))
            schema = spark_schema(source.schema).add(_NUMBER, "long")
            return arrow_frame(self.session, table, schema)
        frame = source.frame
        if frame is None:
            from deltanb.engines.spark.read import read_table

            assert source.snapshot is not None
            frame = read_table(source.snapshot, None, self.session)
        return frame.withColumn(_NUMBER, F.monotonically_increasing_id()).localCheckpoint()

    @cached_property
    def num_source_rows(self) -> int:
        """How many rows the source has."""
        with _while_held():
            return int(self.source.count())

    # -- finding -------------------------------------------------------------------------------------

    def repeated(self, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
        """A key that several rows of the source have."""
        with rules(self.session), _while_held():
            return repeated(self.source, columns)

    def key_values(self) -> list[Any]:
        """For each key of the condition, the source's distinct values if they are few, else their bounds;
        None if unknown."""
        with rules(self.session), _while_held():
            return [self._values_of(key) for key in self.on.keys]

    def _values_of(self, key: Key) -> Any:
        if key.path is None or not isinstance(key.source, ex.Column) or key.source.type != key.target.type:
            return None
        partition = {name.lower() for name in self.txn.snapshot.partition_columns}
        is_partition = len(key.path) == 1 and key.path[0].lower() in partition
        limit = MAX_LISTED_PARTITIONS if is_partition else MAX_LISTED_VALUES
        name = self.names.column("source", *key.source.path[1:])
        values = self._aliased_source().select(F.expr(name).alias("x"))
        if not key.null_safe:
            values = values.filter("x IS NOT NULL")
        distinct = values.distinct().limit(limit + 1).toArrow().column("x")
        if len(distinct) <= limit:
            return distinct.combine_chunks().cast(key.target.type)
        if pa.types.is_boolean(key.target.type):
            return None
        bounds = values.agg(F.min("x").alias("low"), F.max("x").alias("high")).toArrow()
        return tuple(bounds.column(side).cast(key.target.type)[0].as_py() for side in ("low", "high"))

    def find(self, files: FileScan, seen: Callable[[], None] = lambda: None) -> JoinedRows:
        """Join the files' rows with the source."""
        kinds = {clause.kind for clause in self.clauses}
        matches = JoinedRows(inserts_are_counted=NOT_MATCHED not in kinds)
        if kinds == {NOT_MATCHED}:
            self.with_matches = list(files)
        elif len(files):
            with rules(self.session), _while_held():
                self._find(files, NOT_MATCHED_BY_SOURCE in kinds, matches)
        return matches

    def _find(self, files: FileScan, by_source: bool, matches: JoinedRows) -> None:
        target, places = self._target(files.table)
        joined = self._joined(target, "left" if by_source else "inner")
        per_row = joined.groupBy(PATH, ROW).agg(
            F.max(column(_CLAUSE)).alias(_CLAUSE), F.count(column(_NUMBER)).alias(_MATCHES))
        changed: dict[int, SparkChanged] = {}
        matched = set()
        with followed(self.session, "Spark joins"):
            parts = self._run(lambda: per_row.select(PATH, ROW, _CLAUSE, _MATCHES)
                              .mapInArrow(_folding(), _FOLDED).toArrow().to_pylist())
        for part in parts:
            place = places.get(part["path"])
            if place is None:
                raise InvalidTable(
                    f"Spark has read {part['path']!r}, which is not a file of the table's log under that "
                    "name; rename the file, or use engine='arrow'", path=part["path"])
            matches.several |= part["several"]
            if part["matched"]:
                matched.add(place)
            clause = part["clause"]
            if clause >= 0:
                matches.counts[clause] = matches.counts.get(clause, 0) + part["count"]
                one = changed.setdefault(place, SparkChanged(files[place]))
                rows = BitMap64.deserialize(part["rows"])
                one.rows[clause] = one.rows.get(clause, BitMap64()) | rows
        matches.changed = [changed[place] for place in sorted(changed)]
        self.with_matches = [files[place] for place in sorted(matched)]

    # -- rows ----------------------------------------------------------------------------------------

    def write(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None = None,
        without: Collection[str] = (),
    ) -> list[AddFile]:
        """Write new files by a second join, over the files with a match only."""
        with _while_held():
            return SPARK.write(self.txn, self._rows(changed, groups, inserts, without))

    def _rows(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None,
        without: Collection[str],
    ) -> DataFrame:
        with rules(self.session):
            if set(groups) == {INSERT}:
                source = self._inserted()
                if inserts is not None:
                    source = source.filter(column(_CLAUSE).isin(list(inserts)))
                return self._run(lambda: self._made(source, groups).drop(*without))
            files = {one.file.path: one.file for one in changed}
            apart = set()
            if INSERT in groups:
                apart = {file.path for file in self.with_matches} - set(files)
                files.update({file.path: file for file in self.with_matches})
            target, places = self._target(files_table(list(files.values())), row_ids=True)
            lonely = "copy" in groups or any(c.kind == NOT_MATCHED_BY_SOURCE for c in self.clauses)
            how = ("full" if lonely else "right") if INSERT in groups else ("left" if lonely else "inner")
            joined = self._joined(target, how)
            order = list(files)
            unchanged = [path for path, place in places.items() if order[place] in apart]
            if unchanged:
                keeps = (column(_CLAUSE) == _COPY) & column(PATH).isin(unchanged)
                joined = joined.filter(~F.coalesce(keeps, F.lit(False)))
            return self._run(lambda: self._made(joined, groups))

    def _made(self, joined: DataFrame, groups: Sequence[str]) -> DataFrame:
        """The rows of the groups, with the values of each row's clause."""
        places = [place for place, clause in enumerate(self.clauses)
                  if clause.action in groups]
        clauses = [*places, *([_COPY] if "copy" in groups else [])]
        joined = joined.filter(column(_CLAUSE).isin(clauses))
        both = self.names.schema()
        old_schema = self.txn.snapshot.schema
        has_target = PATH in joined.columns
        made = []
        for one in self.schema.fields:
            target_type = spark_type(one.type)
            before = old_schema.get(one.name)
            old: Column = F.lit(None).cast(target_type)
            if before is not None and has_target:
                old = converted(F.expr(self.names.column("target", before.name)), before.type, one.type)
            value = None
            for place in places:
                clause = self.clauses[place]
                if one.name in clause.tree:
                    start = old if clause.action == UPDATE else F.lit(None).cast(target_type)
                    new = _new(joined, both, one, start, clause.tree[one.name], one.name, clause.evolves)
                elif clause.action == INSERT:
                    new = F.lit(None).cast(target_type)
                else:
                    continue
                hit = column(_CLAUSE) == place
                value = F.when(hit, new) if value is None else value.when(hit, new)
            made.append((old if value is None else value.otherwise(old)).alias(one.name))
        tracked = self._row_ids(places) if has_target else []
        shaped = self._with_generated(joined.select(*made, *tracked, _CLAUSE), places)
        partition = [column(name) for name in self.txn.metadata.partition_columns]
        inserts_computed = set(groups) == {INSERT} and any(
            key in one.metadata for one in self.schema.fields for key in KEYS)
        return shaped.repartition(*partition) if partition and not inserts_computed else shaped

    def _row_ids(self, places: Sequence[int]) -> list[Column]:
        """The ids of existing rows, and the commit versions of unchanged ones."""
        fields = columns_of(self.txn.metadata, self.txn.protocol)
        names = [F.expr(self.names.column("target", field.name)) for field in fields]
        inserted = [place for place in places if self.clauses[place].action == INSERT]
        keeps = [~column(_CLAUSE).isin(inserted), column(_CLAUSE) == _COPY]
        return [F.when(keep, name).alias(field.name)
                for keep, name, field in zip(keeps, names, fields, strict=False)]

    def _with_generated(self, rows: DataFrame, places: Sequence[int]) -> DataFrame:
        """The frame with generated columns computed from the new values, unless the row's clause assigns
        them."""
        beside = [column(name) for name in rows.columns[len(self.schema.fields):] if name != _CLAUSE]
        made = []
        for one in self.schema.fields:
            value = column(one.name)
            free = [place for place in places if one.name in self.clauses[place].generated]
            if free:
                sql = self.clauses[free[0]].generated[one.name]
                new = stored(rows, self.schema, one.type, sql, one.name)
                value = F.when(column(_CLAUSE).isin(free), new).otherwise(value)
            made.append(value.alias(one.name))
        return rows.select(*made, *beside)

    # -- joins ---------------------------------------------------------------------------------------

    def _target(self, files: pa.Table, *, row_ids: bool = False) -> tuple[DataFrame, dict[str, int]]:
        frame, places = read_rows(self.txn.snapshot, files, self.session, row_ids=row_ids)
        return frame.alias(self.names.target_alias), places

    def _aliased_source(self) -> DataFrame:
        return self.source.alias(self.names.source_alias)

    def _joined(self, target: DataFrame, how: str) -> DataFrame:
        """Both sides joined, with the clause of each row."""
        def join() -> DataFrame:
            joined = target.join(self._aliased_source(), F.expr(self.on.sql), how)
            is_target, is_source = column(PATH).isNotNull(), column(_NUMBER).isNotNull()
            clause = F.when(is_target & is_source, self._first(MATCHED, _COPY)) \
                .when(is_target, self._first(NOT_MATCHED_BY_SOURCE, _COPY)) \
                .otherwise(self._first(NOT_MATCHED, _DROP))
            return joined.withColumn(_CLAUSE, clause)

        return self._run(join)

    def _inserted(self) -> DataFrame:
        """The source's rows without a match that a clause inserts."""
        def join() -> DataFrame:
            rows = self._aliased_source()
            if self.with_matches:
                target, _ = self._target(files_table(self.with_matches))
                rows = rows.join(target, F.expr(self.on.sql), "left_anti")
            clause = self._first(NOT_MATCHED, _DROP)
            return rows.withColumn(_CLAUSE, clause).filter(column(_CLAUSE) >= 0)

        return self._run(join)

    def _first(self, kind: str, otherwise: int) -> Column:
        """The index of the first clause of a kind whose condition is TRUE."""
        chosen: Any = None
        for place, clause in enumerate(self.clauses):
            if clause.kind != kind:
                continue
            holds = F.lit(True) if clause.condition is None else F.expr(clause.condition)
            value = F.lit(place)
            chosen = F.when(holds, value) if chosen is None else chosen.when(holds, value)
        return F.lit(otherwise) if chosen is None else chosen.otherwise(F.lit(otherwise))

    def _run(self, work: Callable[[], Any]) -> Any:
        """Spark's refusal of SQL as an error of this library."""
        with refusals(f"evaluate the merge on {self.on.sql!r}", self.on.sql):
            return work()


def repeated(rows: DataFrame, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
    """Values without NULL that several rows of a frame have in these columns, and how many rows."""
    names = [f"k{place}" for place in range(len(columns))]
    keys = rows.select(*(column(one).alias(name) for one, name in zip(columns, names, strict=True)))
    for name in names:
        keys = keys.where(F.col(name).isNotNull())  # dropna() leaves out NaN, too, which equals NaN
    some = keys.groupBy(*names).agg(F.count(F.lit(1)).alias("n")).where("n > 1").limit(1).collect()
    return (dict(zip(columns, some[0][:-1], strict=True)), some[0]["n"]) if some else None


@contextmanager
def _while_held() -> Iterator[None]:
    """A block that reads the source.

    Raises:
        SourceRowsLost: an executor that held some of it is gone.
    """
    try:
        yield
    except Exception as error:
        if _LOST in str(error):
            raise SourceRowsLost(
                "the executors of Spark that held the rows of the merge's source are gone, and nothing was "
                "written; run the merge again, or write the source to a table first and merge that"
            ) from error
        raise


def _new(
    joined: DataFrame, both: StructType, one: StructField, old: Column, assigned: Any, path: str,
    evolves: bool,
) -> Column:
    """A column's new value; for a struct with assigned fields, the struct with these replaced.

    A plain column must fit like written rows; other values are stored by Spark's store assignment.
    """
    if isinstance(assigned, dict):
        assert isinstance(one.type, StructType)
        fields = []
        for inner in one.type.fields:
            value = old.getField(inner.name)
            if inner.name in assigned:
                inside = f"{path}.{inner.name}"
                value = _new(joined, both, inner, value, assigned[inner.name], inside, evolves)
            fields.append(value.alias(inner.name))
        made = F.struct(*fields)
        if isinstance(assigned, Fields):
            return F.when(old.isNotNull() | F.expr(assigned.source).isNotNull(), made)
        return made
    source = plain_column(both, assigned)
    if source is None:
        return stored(joined, both, one.type, assigned, path, lacks=evolves)
    type_ = type_at(both, source)
    if not evolves:
        refuse_lacking(type_, one.type, path)
    lines = differences(to_arrow(nullable(StructType([StructField(path, type_)]))),
                        nullable(StructType([StructField(path, one.type)])))
    if lines:
        raise mismatch(lines, "Change the type, or give a value with a CAST.")
    raw = F.expr(assigned)
    made, lost = converted(raw, type_, one.type), loses(raw, type_, one.type)
    return made if lost is None else refused(lost, path, one.type, raw).otherwise(made)


def _folding() -> Any:
    """A function for executors: (path, position, clause, matches) rows to one bitmap a path and clause.

    It is a closure with its own imports, so that it can be pickled.
    """

    def fold(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow
        import pyroaring

        united: dict[tuple[str, int], list[Any]] = {}
        for batch in batches:
            paths, rows, clauses, matches = (batch.column(i) for i in range(4))
            table = arrow.table({"p": paths, "r": rows, "c": clauses, "m": matches})
            grouped = table.group_by(["p", "c"], use_threads=False).aggregate(
                [("r", "list"), ("m", "max")])
            for one in grouped.to_batches():
                lists = one.column("r_list")
                for i in range(one.num_rows):
                    key = (one.column("p")[i].as_py(), one.column("c")[i].as_py())
                    entry = united.setdefault(key, [pyroaring.BitMap64(), 0, 0])
                    positions = lists[i].values
                    if key[1] >= 0:
                        entry[0] |= pyroaring.BitMap64(positions.to_numpy().astype("uint64"))
                    entry[1] += len(positions)
                    entry[2] = max(entry[2], one.column("m_max")[i].as_py())
        if united:
            yield arrow.record_batch({
                "path": arrow.array([key[0] for key in united], arrow.string()),
                "clause": arrow.array([key[1] for key in united], arrow.int32()),
                "count": arrow.array([entry[1] for entry in united.values()], arrow.int64()),
                "several": arrow.array([entry[2] > 1 for entry in united.values()]),
                "matched": arrow.array([entry[2] > 0 for entry in united.values()]),
                "rows": arrow.array([entry[0].serialize() for entry in united.values()],
                                    arrow.binary())})

    return fold
