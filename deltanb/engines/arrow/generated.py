"""Values that the table gives to rows that come without: defaults, identity values, generated columns.

What lives here: :class:`Plan`, which says for data with some columns what has to be given and what has
to be verified (for both engines), and :class:`Filler`, which does it for batches in the process.
What it does not know: files and commits. High-water marks are handed in and come out moved.

A generated column that the data brings is verified instead, as is a constraint; NULL equals NULL
(PROTOCOL.md, "Generated Columns"). An identity column ``GENERATED ALWAYS`` gets values in the place of
NULLs, so that rows can be written beside rows that have theirs.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow.constraints import Check
from deltanb.engines.arrow.enforce import mismatch
from deltanb.errors import InvalidArgument, UnsupportedPredicate
from deltanb.options import options
from deltanb.schema.columns import DEFAULT, GENERATION, LONG_MAX, Identity, active
from deltanb.schema.types import PrimitiveType, StructField, StructType, arrow_type, backticked
from deltanb.sql import predicates

Marks = MutableMapping[str, int]
"""The last value given to each identity column since the version read."""

_NOW = re.compile(r"(?i)\s*(current_timestamp|now|current_date)\s*(\(\s*\))?\s*")


@dataclass(frozen=True)
class Generated(Check):
    """The expression of a generated column, for rows that bring a value of their own."""

    sql: str = ""

    def sentence(self) -> str:
        """How a violation begins."""
        return f"generated column {self.name} AS ({self.sql}): that the value is the expression's"


@dataclass(frozen=True)
class Plan:
    """What data with some columns lacks: SQL by column, and identity columns."""

    schema: StructType
    defaults: dict[str, str] = field(default_factory=dict)
    identities: dict[str, Identity] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    @property
    def supplied(self) -> frozenset[str]:
        """The columns that the data may lack, whatever else is asked of them."""
        return frozenset((*self.defaults, *self.identities, *self.computed))

    @property
    def relaxed(self) -> StructType:
        """The table's schema without a demand for these columns."""
        supplied = self.supplied
        return StructType([f.replace(nullable=True) if f.name in supplied else f
                           for f in self.schema.fields]) if supplied else self.schema

    def demanded(self, partition_columns: Iterable[str]) -> list[str]:
        """The partition columns that the data must have."""
        supplied = {name.lower() for name in self.supplied}
        return [name for name in partition_columns if name.lower() not in supplied]


def plan(names: Sequence[str], metadata: Metadata, protocol: Protocol) -> Plan:
    """What data with these columns lacks; features that the protocol has not give nothing."""
    schema = metadata.schema
    fields = active(metadata, protocol).fields
    if not fields:
        return Plan(schema)
    present = {name.lower() for name in names}
    defaults, identities, computed, checks = {}, {}, {}, []
    for column in fields:
        absent = column.name.lower() not in present
        identity = Identity.of(column)
        if identity is not None:
            if absent or not identity.explicit:
                identities[column.name] = identity
        elif GENERATION in column.metadata:
            sql = str(column.metadata[GENERATION])
            if absent:
                computed[column.name] = sql
            else:
                checks.append(_verified(column.name, sql))
        elif absent and DEFAULT in column.metadata:
            defaults[column.name] = str(column.metadata[DEFAULT])
    return Plan(schema, defaults, identities, computed, tuple(checks))


def checks_of(metadata: Metadata, protocol: Protocol) -> tuple[Check, ...]:
    """What rows of the whole table must satisfy: each generated column is what its expression says."""
    return plan(metadata.schema.names, metadata, protocol).checks


def refuse_explicit(names: Sequence[str], metadata: Metadata, protocol: Protocol) -> None:
    """Refuse data that brings values for a column ``GENERATED ALWAYS AS IDENTITY``.

    Raises:
        SchemaMismatch: naming the columns.
    """
    present = {name.lower() for name in names}
    lines = [f"~ {column.name}: GENERATED ALWAYS AS IDENTITY, in the data"
             for column in active(metadata, protocol).fields
             if column.name.lower() in present and (identity := Identity.of(column)) is not None
             and not identity.explicit]
    if lines:
        raise mismatch(lines, "What you can do: leave the column out, the table generates its values.")


def _verified(name: str, sql: str) -> Generated:
    return Generated(name, f"{backticked(name)} <=> ({sql})", sql)


class Filler:
    """Gives batches (logical columns, as ``data.enforce.Enforcer`` makes them) what they lack.

    Args:
        names: the columns that the data has.
        marks: last identity values given already; moved on by :meth:`fill`. None: there may be no
            identity column to fill.
        lacks: what :func:`plan` says of them, where that is known already.

    Raises:
        UnsupportedPredicate: an expression that only Spark can compute.
        InvalidArgument: identity values are needed and there are no marks.

    >>> from deltanb.schema.columns import generated_as
    >>> long = PrimitiveType("long")
    >>> schema = StructType([StructField("x", long), StructField("y", long, metadata=generated_as("x * 2"))])
    >>> filler = Filler(["x"], Metadata("t", schema.to_json()), Protocol(1, 4), {})
    >>> filler.fill(pa.record_batch({"x": [3], "y": pa.nulls(1, pa.int64())})).to_pydict()
    {'x': [3], 'y': [6]}
    """

    def __init__(
        self, names: Sequence[str], metadata: Metadata, protocol: Protocol, marks: Marks | None,
        lacks: Plan | None = None,
    ) -> None:
        self.plan = plan(names, metadata, protocol) if lacks is None else lacks
        if marks is None and self.plan.identities:
            column = next(iter(self.plan.identities))
            raise InvalidArgument(
                f"identity column {column!r} needs values, which only a transaction can give: write by "
                "txn.write_files(data)", column=column)
        self._marks: Marks = {} if marks is None else marks
        schema = metadata.schema
        self._constants = {name: constant(sql, schema.field(name))
                           for name, sql in self.plan.defaults.items()}
        self._values = {name: _parsed(name, sql, schema, schema.field(name))
                        for name, sql in self.plan.computed.items()}

    def fill(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with all its values.

        Raises:
            InvalidArgument: an identity column has no value left.
            SchemaMismatch: a generated value does not fit its column.
        """
        for name, value in self._constants.items():
            rows = _put(rows, name, pa.repeat(value, rows.num_rows))
        for name, identity in self.plan.identities.items():
            rows = _put(rows, name, self._numbered(rows, identity))
        if self._values:
            table = pa.Table.from_batches([rows])
            for name, value in self._values.items():
                rows = _put(rows, name, value.evaluate(table, name))
        return rows

    def _numbered(self, rows: pa.RecordBatch, identity: Identity) -> pa.Array:
        column = rows.column(rows.schema.get_field_index(identity.column))
        missing = column.null_count
        if not missing:
            return column
        at = replace(identity, mark=self._marks.get(identity.column, identity.mark))
        first = at.next
        last = first + (missing - 1) * identity.step
        if not -LONG_MAX - 1 <= last <= LONG_MAX:
            raise InvalidArgument(
                f"identity column {identity.column!r} has no value left: after {at.mark} its steps of "
                f"{identity.step} leave the range of long; nothing was written",
                column=identity.column)
        self._marks[identity.column] = last
        numbers = pa.array(range(first, last + (1 if identity.step > 0 else -1), identity.step),
                           pa.int64())
        return numbers if missing == len(column) else \
            pc.replace_with_mask(column, column.is_null(), numbers)


def _put(rows: pa.RecordBatch, name: str, values: Any) -> pa.RecordBatch:
    place = rows.schema.get_field_index(name)
    target = rows.schema.field(place)
    if not values.type.equals(target.type):
        values = values.cast(target.type)
    return rows.set_column(place, target, values)


def constant(sql: str, column: StructField) -> pa.Scalar:
    """The value of a column's default.

    Raises:
        UnsupportedPredicate: only Spark can compute it.
    """
    target = arrow_type(column.type, column.name)
    if sql.strip().lower() == "null":
        return pa.scalar(None, target)
    if _NOW.fullmatch(sql) and column.type in (PrimitiveType("timestamp"), PrimitiveType("date")):
        now = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(
            milliseconds=options.clock())
        return pa.scalar(now, pa.timestamp("us", "UTC")).cast(target, safe=False)
    value = _parsed(column.name, sql, StructType(()), column)
    return value.evaluate(pa.table({"": [None]}), column.name)[0]


def _parsed(name: str, sql: str, schema: StructType, column: StructField) -> Any:
    try:
        return predicates.parse_value(sql, schema, column.type)
    except UnsupportedPredicate as error:
        raise UnsupportedPredicate(
            f"the value of column {name!r} ({sql}) cannot be computed in this process: {error}. Write the "
            "rows as a Spark DataFrame, or with the column in them", predicate=sql) from None
