"""MERGE on Spark: joins with any condition, and the resulting rows, as DataFrames.

What lives here: :class:`SparkMerge`, which finds the rows that clauses change, and writes the new
ones; the contract is :class:`deltanb.engines.contract.MergeEngine`.
What it does not know: the source's own rows (``held``); the transaction's commit, metrics, deletion vectors
(``merge``).

Executors hold the source; if one is lost with rows of it, the merge has to start again. The first join
returns positions as words of 64 bits, with the file and the clause; Spark's own expressions make them, and
executors need no Python. The second join is over the files with a match only, and Spark writes its result.

A small source goes to every executor, and no row of the table moves between them: in place of a full join,
the rows of the table are joined, and those of the source whose numbers the first join did not see are added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
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
from deltanb.commands.merge.held import NUMBER, ROW_BITS, HeldSource, while_held
from deltanb.commands.merge.outcomes import plain_column, type_at
from deltanb.engines.arrow.enforce import differences, mismatch, nullable, refuse_lacking
from deltanb.engines.arrow.row_ids import columns_of
from deltanb.engines.contract import JoinedRows
from deltanb.engines.spark.checks import refused
from deltanb.engines.spark.columns import column, converted, loses, spark_type
from deltanb.engines.spark.engine import SPARK
from deltanb.engines.spark.jobs import followed
from deltanb.engines.spark.read import PATH, ROW, read_rows
from deltanb.engines.spark.refusals import refusals
from deltanb.engines.spark.rows import rules, stored
from deltanb.errors import InvalidTable
from deltanb.log.replay import files_table
from deltanb.schema.columns import KEYS
from deltanb.schema.types import StructField, StructType, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deltanb.commands.merge.on import On
    from deltanb.commands.merge.source import Source
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

_CLAUSE, _WORD, _BITS, _SEVERAL, _SEEN = (
    f"__deltanb_{name}" for name in ("clause", "word", "bits", "several", "seen"))
_COPY, _DROP, _SOURCE = -1, -2, -3
"""In place of a clause: the row stays as it is, is of no table, is one of the source."""
_ROWS = (1 << ROW_BITS) - 1
_DECODED = 1 << 16  # words at a time, 4 MB of bits as bytes


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
        self.with_matches: list[AddFile] = []
        self.matched: BitMap64 | None = None
        """The numbers of the source's rows with a match, if it is small and they are needed."""
        self.source = HeldSource(source, names, on.keys, txn.snapshot.partition_columns)
        self.session = self.source.session

    @property
    def num_source_rows(self) -> int:
        """How many rows the source has."""
        return self.source.num_rows

    # -- finding -------------------------------------------------------------------------------------

    def repeated(self, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
        """A key that several rows of the source have."""
        return self.source.repeated(columns)

    def key_values(self) -> list[Any]:
        """For each key of the condition, the source's distinct values if they are few, else their bounds;
        None if unknown."""
        return self.source.key_values()

    def find(self, files: FileScan, seen: Callable[[], None] = lambda: None) -> JoinedRows:
        """Join the files' rows with the source."""
        kinds = {clause.kind for clause in self.clauses}
        matches = JoinedRows(inserts_are_counted=NOT_MATCHED not in kinds)
        if kinds == {NOT_MATCHED} and not self.source.is_small:
            self.with_matches = list(files)
        elif len(files):
            with rules(self.session), while_held():
                self._find(files, kinds, matches)
        return matches

    def _find(self, files: FileScan, kinds: set[str], matches: JoinedRows) -> None:
        target, places = self._target(files.table)
        joined = self._joined(target, "left" if NOT_MATCHED_BY_SOURCE in kinds else "inner")
        joined = joined.filter((column(_CLAUSE) >= 0) | column(NUMBER).isNotNull())
        parts = []
        if kinds != {NOT_MATCHED}:
            parts.append(F.struct(column(PATH), column(_CLAUSE), column(ROW).alias(_SEEN)))
        if NOT_MATCHED in kinds and self.source.is_small:
            self.matched = BitMap64()
            task, row = F.shiftright(column(NUMBER), ROW_BITS), column(NUMBER).bitwiseAND(_ROWS)
            parts.append(F.struct(task.cast(target.schema[PATH].dataType).alias(PATH),
                                  F.lit(_SOURCE).alias(_CLAUSE), row.alias(_SEEN)))
        with followed(self.session, "Spark joins"):
            words = self._run(lambda: _words(joined, parts).toArrow())
        matched: dict[int, BitMap64] = {}
        changed: dict[int, SparkChanged] = {}
        for path, clause, seen, several in _positions(words):
            if clause == _SOURCE:
                assert self.matched is not None
                self.matched |= seen.shift(int(path) << ROW_BITS)
                continue
            place = places.get(path)
            if place is None:
                raise InvalidTable(
                    f"Spark has read {path!r}, which is not a file of the table's log under that "
                    "name; rename the file, or use engine='arrow'", path=path)
            if clause == _COPY or self.clauses[clause].kind == MATCHED:
                known = matched.get(place, BitMap64())
                matches.several |= several or known.intersect(seen)
                matched[place] = known | seen
            if clause >= 0:
                one = changed.setdefault(place, SparkChanged(files[place]))
                one.rows[clause] = one.rows.get(clause, BitMap64()) | seen
        for one in changed.values():
            for clause, rows in one.rows.items():
                matches.counts[clause] = matches.counts.get(clause, 0) + len(rows)
        matches.changed = [changed[place] for place in sorted(changed)]
        self.with_matches = [files[place] for place in sorted(matched)]

    # -- rows ----------------------------------------------------------------------------------------

    def write(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None = None,
        without: Collection[str] = (),
    ) -> list[AddFile]:
        """Write new files by a second join, over the files with a match only."""
        with while_held():
            return SPARK.write(self.txn, self._rows(changed, groups, inserts, without))

    def _rows(
        self, changed: Sequence[Any], groups: Sequence[str], inserts: Sequence[int] | None,
        without: Collection[str],
    ) -> DataFrame:
        with rules(self.session):
            if set(groups) == {INSERT}:
                rows = self._inserted()
                if inserts is not None:
                    rows = rows.filter(column(_CLAUSE).isin(list(inserts)))
                rows = self._run(lambda: self._made(rows, groups).drop(*without))
                computed = any(key in one.metadata for one in self.schema.fields for key in KEYS)
                return rows if computed else self._arranged(rows)
            if INSERT in groups and self.matched is None:
                return self._arranged(self._all_in_one(changed, groups))
            of_table = [group for group in groups if group != INSERT]
            target, _ = self._target(files_table([one.file for one in changed]), row_ids=True)
            joined = self._joined(target, "left" if self._is_lonely(groups) else "inner")
            rows = self._run(lambda: self._made(joined, of_table))
            if INSERT in groups:
                new = self._run(lambda: self._made(self._inserted(), [INSERT]))
                # A few new rows get no file of their own from every task that has some.
                rows = rows.unionByName(new.hint("rebalance"), allowMissingColumns=True)
            return self._arranged(rows, scattered="copy" not in groups)

    def _is_lonely(self, groups: Sequence[str]) -> bool:
        """Whether rows of the table are needed for which the source has none."""
        return "copy" in groups or any(c.kind == NOT_MATCHED_BY_SOURCE for c in self.clauses)

    def _all_in_one(self, changed: Sequence[Any], groups: Sequence[str]) -> DataFrame:
        """The rows of the table and new ones from one join, in which rows of both sides move."""
        files = {one.file.path: one.file for one in changed}
        apart = {file.path for file in self.with_matches} - set(files)
        files.update({file.path: file for file in self.with_matches})
        target, places = self._target(files_table(list(files.values())), row_ids=True)
        joined = self._joined(target, "full" if self._is_lonely(groups) else "right")
        order = list(files)
        unchanged = [name for name, place in places.items() if order[place] in apart]
        if unchanged:
            keeps = (column(_CLAUSE) == _COPY) & column(PATH).isin(unchanged)
            joined = joined.filter(~F.coalesce(keeps, F.lit(False)))
        made: DataFrame = self._run(lambda: self._made(joined, groups))
        return made

    def _arranged(self, rows: DataFrame, *, scattered: bool = False) -> DataFrame:
        """The rows as tasks write them: each partition by one task, and few rows of many tasks together."""
        partition = [column(name) for name in self.txn.metadata.partition_columns]
        if partition:
            return rows.repartition(*partition)
        return rows.hint("rebalance") if scattered else rows

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
        return self._with_generated(joined.select(*made, *tracked, _CLAUSE), places)

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

    def _target(self, files: pa.Table, *, row_ids: bool = False) -> tuple[DataFrame, dict[int | str, int]]:
        frame, places = read_rows(self.txn.snapshot, files, self.session, row_ids=row_ids)
        return frame.alias(self.names.target_alias), places

    def _joined(self, target: DataFrame, how: str) -> DataFrame:
        """Both sides joined, with the clause of each row."""
        def join() -> DataFrame:
            joined = target.join(self.source.aliased(), F.expr(self.on.sql), how)
            is_target, is_source = column(PATH).isNotNull(), column(NUMBER).isNotNull()
            clause = F.when(is_target & is_source, self._first(MATCHED, _COPY)) \
                .when(is_target, self._first(NOT_MATCHED_BY_SOURCE, _COPY)) \
                .otherwise(self._first(NOT_MATCHED, _DROP))
            return joined.withColumn(_CLAUSE, clause)

        return self._run(join)

    def _inserted(self) -> DataFrame:
        """The source's rows without a match that a clause inserts."""
        def join() -> DataFrame:
            rows = self.source.without(self.matched or BitMap64())
            if self.matched is None and self.with_matches:
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


# --- positions ------------------------------------------------------------------------------------

def _words(joined: DataFrame, parts: Sequence[Column]) -> DataFrame:
    """(file, clause, number of the word, bits, whether one came twice) of 64 positions each."""
    seen = joined.select(F.inline(F.array(*parts))).filter(column(_SEEN).isNotNull())
    word = F.shiftright(column(_SEEN), 6).cast("int").alias(_WORD)
    place = column(_SEEN).bitwiseAND(F.lit(63)).cast("int")
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), place)
    bits = F.bit_or(bit)
    return seen.groupBy(PATH, _CLAUSE, word).agg(
        bits.alias(_BITS), (F.count(F.lit(1)) > F.bit_count(bits)).alias(_SEVERAL))


def _positions(words: pa.Table) -> Iterator[tuple[Any, int, BitMap64, bool]]:
    """(file, clause, positions, whether one came twice) of :func:`_words`, in parts of files."""
    for batch in words.to_batches(max_chunksize=_DECODED):
        paths = batch.column(0).dictionary_encode()
        clauses, numbers, bits, several = (
            batch.column(place).to_numpy(zero_copy_only=False) for place in range(1, 5))
        groups = paths.indices.to_numpy().astype(np.int64) << 32 | (clauses.astype(np.int64) - _SOURCE)
        order = np.argsort(groups, kind="stable")
        some, starts = np.unique(groups[order], return_index=True)
        flags = np.unpackbits(bits[order].view(np.uint8), bitorder="little").reshape(-1, 64)
        for group, of in zip(some.tolist(), np.split(np.arange(len(order)), starts[1:]), strict=True):
            rows, offsets = np.nonzero(flags[of])
            positions = (numbers[order[of]][rows].astype(np.int64) << 6) + offsets
            yield (paths.dictionary[group >> 32].as_py(), (group & 0xFFFFFFFF) + _SOURCE,
                   BitMap64(positions.astype(np.uint64)), bool(several[order[of]].any()))
