"""The source of a MERGE on Spark: its rows, the same each time they are read, and what is known of them.

What lives here: :class:`HeldSource`. It numbers the rows and has executors hold them, since a merge reads
them twice; rows that are in this process are sent as they are. One query counts them and finds the bounds of
the keys.
What it does not know: the target's rows, clauses (``on_spark``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F

from deltanb.commands.merge.clauses import Names
from deltanb.commands.merge.on import MAX_LISTED_PARTITIONS, MAX_LISTED_VALUES, Key
from deltanb.commands.merge.sides import evaluated, sided
from deltanb.engines.spark.columns import arrow_frame, column, spark_schema
from deltanb.engines.spark.read import read_table
from deltanb.engines.spark.rows import rules
from deltanb.engines.spark.session import spark as start_session
from deltanb.engines.spark.write import row_bytes
from deltanb.errors import SourceRowsLost
from deltanb.schema.properties import size_in_bytes
from deltanb.sql import expressions as ex

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deltanb.commands.merge.source import Source

NUMBER = "__deltanb_source_row"
"""The column with a row's number, beside the source's own."""
ROW_BITS = 33
"""Of a number: below them the row, above them the task that gave it (``monotonically_increasing_id``)."""
SMALL = "spark.sql.autoBroadcastJoinThreshold"
"""Up to so many bytes, Spark gives a side of a join to all executors, and moves no row of the other."""
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_ESTIMATED = 2
"""Times a limit of distinct values, from which on an estimate of their number is surely over the limit."""


@dataclass
class _Known:
    """What one query tells of the source: how many rows, and of each key (low, high, about how many)."""

    rows: int
    keys: list[tuple[Any, Any, int] | None]


class HeldSource:
    """The rows of a source.

    Args:
        source: what people gave.
        keys: the equalities of the condition, whose values choose the target's files.
        partition_columns: of the target.
    """

    def __init__(
        self, source: Source, names: Names, keys: Sequence[Key], partition_columns: Sequence[str]
    ) -> None:
        self.source, self.names, self.keys = source, names, keys
        self.session = source.frame.sparkSession if source.frame is not None else start_session()
        self._partitions = {name.lower() for name in partition_columns}
        self._is_here = source.frame is None and source.snapshot is None
        with rules(self.session), while_held():
            self.frame = self._frame()
            self._known = _Known(source.table.num_rows, []) if self._is_here else self._asked()

    def _frame(self) -> DataFrame:
        """The rows with their numbers; executors hold them from the first query on."""
        source = self.source
        if self._is_here:
            table = source.table
            table = table.append_column(NUMBER, pa.array(range(table.num_rows), pa.int64()))
            return arrow_frame(self.session, table, spark_schema(source.schema).add(NUMBER, "long"))
        frame = source.frame
        if frame is None:
            assert source.snapshot is not None
            frame = read_table(source.snapshot, None, self.session)
        return frame.withColumn(NUMBER, F.monotonically_increasing_id()).localCheckpoint(eager=False)

    def _asked(self) -> _Known:
        """Count the rows, and look at the keys; the query reads every row, and so has all of them held."""
        values = [self._value(key) for key in self.keys]
        columns: list[Column] = [F.count(F.lit(1)).alias("rows")]
        for place, value in enumerate(values):
            if value is not None:
                columns += [F.min(value).alias(f"low{place}"), F.max(value).alias(f"high{place}"),
                           F.approx_count_distinct(value).alias(f"distinct{place}")]
        table = self._aliased().agg(*columns).toArrow()

        def bounds(place: int, key: Key) -> tuple[Any, Any, int]:
            low, high = (table.column(f"{side}{place}").cast(key.target.type)[0].as_py()
                         for side in ("low", "high"))
            return low, high, table.column(f"distinct{place}")[0].as_py()

        return _Known(table.column("rows")[0].as_py(), [
            None if value is None else bounds(place, key)
            for place, (key, value) in enumerate(zip(self.keys, values, strict=True))])

    @property
    def num_rows(self) -> int:
        """How many rows the source has."""
        return self._known.rows

    @cached_property
    def is_small(self) -> bool:
        """Whether every executor may have all of it, by the session's limit and a guess of a row's size."""
        with suppress(ValueError):
            limit = size_in_bytes(self.session.conf.get(SMALL) or "0")
            return self.num_rows * row_bytes(self.source.schema) <= limit
        return False  # a limit below zero: no side of a join is small

    def aliased(self) -> DataFrame:
        """The rows under the alias of the source; to be joined as a whole where they are few."""
        frame = self._aliased()
        return frame.hint("broadcast") if self.is_small else frame

    def without(self, numbers: BitMap64) -> DataFrame:
        """The same without the rows of these numbers."""
        if not numbers:
            return self._aliased()
        known = pa.table({NUMBER: pa.array(numbers.to_array(), pa.uint64()).cast(pa.int64())})
        others = arrow_frame(self.session, known).hint("broadcast")
        return self.frame.join(others, NUMBER, "left_anti").alias(self.names.source_alias)

    def _aliased(self) -> DataFrame:
        return self.frame.alias(self.names.source_alias)

    # -- values of keys ------------------------------------------------------------------------------

    def key_values(self) -> list[Any]:
        """For each key of the condition, the source's distinct values if they are few, else their bounds;
        None if unknown."""
        if self._is_here:
            rows = sided(self.names, source=self.source.table)
            return [None if key.path is None else evaluated(rows, key.source) for key in self.keys]
        with rules(self.session), while_held():
            return [self._values_of(key, known)
                    for key, known in zip(self.keys, self._known.keys, strict=True)]

    def _value(self, key: Key) -> Column | None:
        """A key's side of the source if it is a column as it is."""
        if key.path is None or not isinstance(key.source, ex.Column) or key.source.type != key.target.type:
            return None
        return F.expr(self.names.column("source", *key.source.path[1:]))

    def _values_of(self, key: Key, known: tuple[Any, Any, int] | None) -> Any:
        value = self._value(key)
        if value is None or known is None:
            return None
        assert key.path is not None
        is_partition = len(key.path) == 1 and key.path[0].lower() in self._partitions
        limit = MAX_LISTED_PARTITIONS if is_partition else MAX_LISTED_VALUES
        low, high, distinct = known
        if distinct <= limit * _ESTIMATED:
            values = self._aliased().select(value.alias("x"))
            if not key.null_safe:
                values = values.filter("x IS NOT NULL")
            listed = values.distinct().limit(limit + 1).toArrow().column("x")
            if len(listed) <= limit:
                return listed.combine_chunks().cast(key.target.type)
        return None if pa.types.is_boolean(key.target.type) else (low, high)

    def repeated(self, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
        """A key that several rows of the source have."""
        with rules(self.session), while_held():
            return repeated(self.frame, columns)


def repeated(rows: DataFrame, columns: Sequence[str]) -> tuple[dict[str, Any], int] | None:
    """Values without NULL that several rows of a frame have in these columns, and how many rows."""
    names = [f"k{place}" for place in range(len(columns))]
    keys = rows.select(*(column(one).alias(name) for one, name in zip(columns, names, strict=True)))
    for name in names:
        keys = keys.where(F.col(name).isNotNull())  # dropna() leaves out NaN, too, which equals NaN
    some = keys.groupBy(*names).agg(F.count(F.lit(1)).alias("n")).where("n > 1").limit(1).collect()
    return (dict(zip(columns, some[0][:-1], strict=True)), some[0]["n"]) if some else None


@contextmanager
def while_held() -> Iterator[None]:
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
