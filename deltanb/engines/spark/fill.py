"""Values that the table adds to rows that lack them, as part of a query.

What lives here: :func:`filled` (defaults and identity values as columns of a frame), :func:`computed`
(generated columns, once the others have the table's types), and the last identity value that files
hold (:func:`moved`).
What it does not know: which values to add (``engines/arrow/generated.py``), files.

Identity values differ between Spark's partitions by their remainder: row ``k`` of partition ``p`` of at
most ``n`` gets the value ``n * k + p`` steps on. So no two rows share one, whatever runs when, and
there are gaps where partitions differ in length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from deltanb.engines.arrow.generated import Marks, Plan
from deltanb.engines.spark.columns import column, spark_type
from deltanb.engines.spark.refusals import refusals
from deltanb.errors import InvalidArgument
from deltanb.schema.columns import Identity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_PARTITIONS = 1024
"""Partitions that a frame is brought down to, at most, before its rows are numbered."""
_ROW_BITS = 33  # of monotonically_increasing_id: below them the row, above them the partition


def filled(frame: DataFrame, plan: Plan, marks: Marks | None) -> DataFrame:
    """The frame with defaults and identity values in the columns it lacks.

    Raises:
        InvalidArgument: identity values are needed and there are no marks.
        InvalidPredicate: a default that Spark cannot evaluate.
    """
    for name, sql in plan.defaults.items():
        frame = _with(frame, name, sql, plan)
    if not plan.identities:
        return frame
    if marks is None:
        name = next(iter(plan.identities))
        raise InvalidArgument(
            f"identity column {name!r} needs values, which only a transaction can give: write by "
            "txn.write_files(data)", column=name)
    partitions = _partitions(frame)
    frame = frame.coalesce(partitions)
    present = {name.lower(): name for name in frame.columns}
    for name, identity in plan.identities.items():
        at = replace(identity, mark=marks.get(name, identity.mark))
        value = _numbered(at, partitions)
        known = present.get(name.lower())
        if known is not None:
            value = F.when(column(known).isNull(), value).otherwise(column(known).cast("bigint"))
        frame = frame.withColumn(known or name, value)
    return frame


def computed(frame: DataFrame, plan: Plan) -> DataFrame:
    """The frame, whose columns are the table's, with its generated columns.

    Raises:
        InvalidPredicate: an expression that Spark cannot evaluate.
    """
    for name, sql in plan.computed.items():
        frame = _with(frame, name, sql, plan)
    return frame


def moved(
    plan: Plan, names: dict[str, str], footers: Iterable[pq.FileMetaData], marks: Marks
) -> None:
    """Advance the marks to the last values in files; ``names`` are the columns' names in files."""
    for footer in footers:
        for name, identity in plan.identities.items():
            last = _last(footer, names[name], identity)
            if last is None:
                continue
            before = marks.get(name, identity.mark)
            marks[name] = last if before is None else identity.furthest(last, before)


def _partitions(frame: DataFrame) -> int:
    text = frame.sparkSession.conf.get("spark.sql.shuffle.partitions", "")
    return min(int(text), MAX_PARTITIONS) if text and text.isdigit() and int(text) else MAX_PARTITIONS


def _numbered(identity: Identity, partitions: int) -> Column:
    number = F.monotonically_increasing_id()
    part = F.shiftrightunsigned(number, _ROW_BITS)
    row = number.bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
    steps = row * F.lit(partitions).cast("bigint") + part
    # Wide enough for any product; what leaves the range of long is an error, whatever the session says.
    exact = steps.cast("decimal(20,0)") * F.lit(identity.step).cast("decimal(18,0)") \
        if abs(identity.step) < 10**18 else F.lit(None).cast("decimal(38,0)")
    exact = exact + F.lit(identity.next).cast("decimal(20,0)")
    value = F.when(exact.between(F.lit(-2**63), F.lit(2**63 - 1)), exact.cast("bigint"))
    problem = F.lit(f"identity column {identity.column} has no value left: its steps of "
                    f"{identity.step} leave the range of long")
    return F.when((part < partitions) & value.isNotNull(), value).otherwise(
        F.raise_error(problem).cast("bigint"))


def _with(frame: DataFrame, name: str, sql: str, plan: Plan) -> DataFrame:
    target: Any = spark_type(plan.schema.field(name).type)
    with refusals(f"compute column {name!r} ({sql})", sql,
                  ". Correct the column's expression; nothing was written", column=name):
        made = frame.withColumn(name, F.expr(sql).cast(target))
        _ = made.schema  # a server analyses the query when it is asked
    return made


def _last(footer: pq.FileMetaData, name: str, identity: Identity) -> int | None:
    """The value of a file that lies furthest along."""
    last: int | None = None
    for group in range(footer.num_row_groups):
        chunks = [footer.row_group(group).column(i) for i in range(footer.num_columns)]
        for chunk in chunks:
            statistics = chunk.statistics
            if chunk.path_in_schema != name or statistics is None or not statistics.has_min_max:
                continue
            value = int(statistics.max if identity.step > 0 else statistics.min)
            last = value if last is None else identity.furthest(value, last)
    return last
