"""How rows of one Arrow schema become files of a table: found out once, and kept for the next write.

What lives here: :class:`Layout`, all of a write that follows from the table's metadata, its protocol and the
schema of the rows; and :func:`layout_of`, which keeps the layouts of the last writes. Small appends through
one handle would else spend as much on these as on their rows.
What it does not know: rows, files and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow import file_writer, statistics
from deltanb.engines.arrow.conform import as_stored
from deltanb.engines.arrow.constraints import Check, Checker
from deltanb.engines.arrow.enforce import Enforcer, nullable
from deltanb.engines.arrow.generated import plan
from deltanb.errors import InvalidSchema
from deltanb.log import parquet_options
from deltanb.schema import column_mapping, properties
from deltanb.schema.types import StructField, StructType

MOST_KEPT = 8
"""Layouts that are kept: a process seldom writes to more tables in turns."""

Asked = tuple[tuple[Check, ...], tuple[tuple[str, ...], ...], tuple[StructField, ...], str | None]
"""What a write asks for beside the table: checks, clustering columns, hidden columns, and a codec."""


class Layout:
    """What becomes of rows with the columns ``incoming``; the arguments are those of
    :func:`deltanb.engines.arrow.write.write_files`.

    Raises:
        SchemaMismatch, InvalidSchema, InvalidArgument, UnsupportedProtocol, UnsupportedPredicate: such rows
            cannot be written to the table.
    """

    def __init__(self, metadata: Metadata, protocol: Protocol, incoming: pa.Schema, asked: Asked) -> None:
        checks, clustering, hidden, codec = asked
        self.metadata, self.protocol, self.incoming, self.asked = metadata, protocol, incoming, asked
        schema = metadata.schema
        self.mode = column_mapping.mode_of(metadata, protocol)
        self.visible = schema.names if hidden else None
        """The columns that are the table's, where there are others."""
        self.partition_by = [schema.field(name) for name in metadata.partition_columns]
        self.partition_names = [
            column_mapping.physical_name(column, self.mode) for column in self.partition_by]
        whole = nullable(schema)
        if hidden:
            whole = StructType([*whole.fields, *hidden])
        self.file_columns = columns_in_files(whole, metadata, protocol)
        """The columns that are stored in files."""
        self.stored = column_mapping.in_files(self.file_columns)
        """These columns in the types that files hold them in."""
        self.file_schema = column_mapping.physical_arrow(self.stored, self.mode)
        self.as_stored = (
            None if self.stored is self.file_columns else as_stored(self.file_columns, self.stored))
        """What brings rows to these types; None where they have them."""
        self.is_nested = any(pa.types.is_nested(kind) for kind in self.file_schema.types)
        """Whether a stored column has others in it, as a variant has in Arrow."""
        self.form = parquet_options.of(metadata.configuration, codec=codec)
        self.lacks = plan(incoming.names, metadata, protocol)
        """What the rows lack, and who gives it."""
        relaxed = self.lacks.relaxed
        self.enforcer = Enforcer(incoming, StructType([*relaxed.fields, *hidden]) if hidden else relaxed,
                                 self.lacks.demanded(metadata.partition_columns))
        self.checker = Checker(schema, metadata, [*checks, *self.lacks.checks])
        self.leaves = statistics.indexed_leaves(schema, metadata, clustering, protocol)
        self.has_tight_bounds = protocol.supports("deletionVectors")
        self.is_hive = self.mode == "none" and not properties.get(
            metadata.configuration, "delta.randomizeFilePrefixes")
        """Whether files lie in folders that are named by their partition."""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What Arrow's Parquet writer is told of every file."""
        return file_writer.settings_of(self.file_schema, self.form)

    def collector(self) -> statistics.Collector:
        """For the statistics of a new file."""
        return statistics.Collector(self.leaves, self.has_tight_bounds)

    @cached_property
    def holds_partitions(self) -> bool:
        """Whether partition columns are in the files, too."""
        return any(column in self.file_columns.fields for column in self.partition_by)

    @property
    def is_fixed(self) -> bool:
        """Whether the next write has the same: no expression is evaluated, which may ask for the time."""
        return not (self.lacks.supplied or any(isinstance(one, Check) for one in self.checker.constraints))

    def fits(self, metadata: Metadata, protocol: Protocol, incoming: pa.Schema, asked: Asked) -> bool:
        """Whether it is that of another write. Actions never change, so the same ones say the same."""
        return (self.metadata is metadata and self.protocol is protocol and self.asked == asked
                and self.incoming.equals(incoming, check_metadata=True))


_recent: tuple[Layout, ...] = ()  # the last one used first; replaced as a whole, so that threads need no lock


def layout_of(
    metadata: Metadata, protocol: Protocol, incoming: pa.Schema, checks: Sequence[Check] = (),
    clustering: Iterable[Sequence[str]] = (), hidden: Sequence[StructField] = (),
    codec: str | None = None,
) -> Layout:
    """The layout of a write, from one of the last writes where that was the same.

    Raises:
        As :class:`Layout`.
    """
    global _recent
    asked = tuple(checks), tuple(map(tuple, clustering)), tuple(hidden), codec
    recent = _recent
    for one in recent:
        if one.fits(metadata, protocol, incoming, asked):
            return one
    layout = Layout(metadata, protocol, incoming, asked)
    if layout.is_fixed:
        _recent = (layout, *recent[:MOST_KEPT - 1])
    return layout


def columns_in_files(schema: StructType, metadata: Metadata, protocol: Protocol) -> StructType:
    """The columns of ``schema`` that are stored in new data files, in the files' order.

    Partition columns are among them, after the others, where the feature ``materializePartitionColumns``
    or ``delta.writePartitionColumnsToParquet`` asks for it. Readers take their values from the log all
    the same.

    Raises:
        InvalidSchema: nothing would be left beside the partition columns.
    """
    partition_by = [schema.field(name) for name in metadata.partition_columns]
    stored = [f for f in schema.fields if f not in partition_by and str(f.type) != "void"]
    if not stored:
        raise InvalidSchema(
            "a table needs at least one column that is neither a partition column nor void; a column of "
            "nothing but None is void: give it a type, as in create(path, \"name string\")"
        )
    if len(stored) == len(schema.fields):
        return schema
    if protocol.supports("materializePartitionColumns") or properties.get(
            metadata.configuration, "delta.writePartitionColumnsToParquet"):
        stored += partition_by
    return StructType(stored)
