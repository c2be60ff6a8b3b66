"""SHOW CREATE TABLE: the statement that creates a table like one that is there.

What lives here: :func:`create_text`, from a snapshot: columns, partitioning, clustering, description,
properties and protocol.
What it does not know: what the table is called, rows.

What a table's metadata says and a statement cannot, such as elements of a list that are never NULL, is named
in a remark above the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltanb.commands.define.clone import OF_THE_SOURCES_LOG
from deltanb.commands.define.clustering import logical_columns
from deltanb.errors import InvalidSchema
from deltanb.schema import columns as column_values
from deltanb.schema.column_mapping import ID_KEY, MAX_ID_KEY, NAME_KEY, USED_KEY
from deltanb.schema.ddl import parse_schema
from deltanb.schema.paths import quoted, with_fields
from deltanb.schema.protocol import CATALOG_MANAGED, FEATURE_PREFIX, READER_VERSION_KEY, WRITER_VERSION_KEY
from deltanb.schema.types import StructField, StructType
from deltanb.schema.widening import TYPE_CHANGES
from deltanb.sql.column_text import comment_text, named_text, null_text
from deltanb.sql.literals import text_literal
from deltanb.transaction.new_table import MATERIALIZED_NAMES

if TYPE_CHECKING:
    from deltanb.actions import Protocol
    from deltanb.log.snapshot import Snapshot

OF_ONE_TABLE = frozenset({*OF_THE_SOURCES_LOG, *MATERIALIZED_NAMES, MAX_ID_KEY, USED_KEY})
"""Properties that each table gets for itself."""
OF_ONE_TABLES_COLUMNS = frozenset({ID_KEY, NAME_KEY, column_values.MARK, TYPE_CHANGES})
"""Metadata of columns that each table gets for itself."""


def create_text(snapshot: Snapshot, name: str, location: str | None = None) -> str:
    """The statement that creates a table of the same definition.

    Args:
        name: the new table's name, or its path, as SQL writes it.
        location: its path, where it has a name.

    >>> import deltanb as dn
    >>> columns = "id bigint NOT NULL, day date COMMENT 'of arrival'"
    >>> table = dn.create("described", columns, partition_by="day")
    >>> print(create_text(table.snapshot, "ducks"))
    CREATE TABLE ducks (
      id bigint NOT NULL,
      day date COMMENT 'of arrival')
    USING delta
    PARTITIONED BY (day)
    TBLPROPERTIES (
      'delta.minReaderVersion' = '1',
      'delta.minWriterVersion' = '2')
    """
    metadata = snapshot.metadata
    in_effect = list(_in_effect(snapshot))
    lines = [f"-- {quoted([field.name])}: the table's metadata says more of it than a statement can"
             for field, text in zip(metadata.schema.fields, map(_column, in_effect), strict=True)
             if not _says(text, field)]
    columns = ",\n  ".join(map(_column, in_effect))
    lines += [f"CREATE TABLE {name} (\n  {columns})", "USING delta"]
    if metadata.partition_columns:
        lines.append(f"PARTITIONED BY ({_list([column] for column in metadata.partition_columns)})")
    if clustering := logical_columns(snapshot):
        lines.append(f"CLUSTER BY ({_list(clustering)})")
    if location is not None:
        lines.append(f"LOCATION {text_literal(location)}")
    if metadata.description is not None:
        lines.append(f"COMMENT {text_literal(metadata.description)}")
    properties = {**{key: value for key, value in sorted(metadata.configuration.items())
                     if key not in OF_ONE_TABLE}, **dict(protocol_properties(snapshot.protocol))}
    properties.pop(FEATURE_PREFIX + CATALOG_MANAGED, None)  # a catalog's tables get it from the catalog
    pairs = ",\n  ".join(
        f"{text_literal(key)} = {text_literal(value)}" for key, value in properties.items())
    lines.append(f"TBLPROPERTIES (\n  {pairs})")
    return "\n".join(lines)


def protocol_properties(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """A protocol as Delta Spark writes it among the properties of a table."""
    for name in sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}):
        yield FEATURE_PREFIX + name, "supported"
    yield READER_VERSION_KEY, str(protocol.min_reader_version)
    yield WRITER_VERSION_KEY, str(protocol.min_writer_version)


def _in_effect(snapshot: Snapshot) -> Iterator[StructField]:
    """The columns, without expressions and numbers of which the protocol makes nothing."""
    active = {field.name for field in column_values.active(snapshot.metadata, snapshot.protocol).fields}
    for field in snapshot.metadata.schema.fields:
        idle = () if field.name in active else column_values.KEYS
        yield field.replace(metadata={
            key: value for key, value in field.metadata.items() if key not in idle})


def _list(paths: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    return ", ".join(map(quoted, paths))


def _says(text: str, field: StructField) -> bool:
    """Whether the text of a column means all that its metadata says."""
    try:
        return parse_schema(text) == StructType([own_to_no_table(field)])
    except InvalidSchema:
        return False


def own_to_no_table(field: StructField) -> StructField:
    """A column without what each table gets for itself, nested fields alike."""
    metadata = {key: value for key, value in field.metadata.items() if key not in OF_ONE_TABLES_COLUMNS}
    return field.replace(type=with_fields(field.type, own_to_no_table), metadata=metadata)


# -- columns -------------------------------------------------------------------------------------------------

def _column(field: StructField) -> str:
    metadata = field.metadata
    parts = [f"{named_text(field)}{null_text(field)}"]
    if column_values.GENERATION in metadata:
        parts.append(f"GENERATED ALWAYS AS ({metadata[column_values.GENERATION]})")
    if column_values.START in metadata:
        when = "BY DEFAULT" if metadata.get(column_values.EXPLICIT) else "ALWAYS"
        parts.append(f"GENERATED {when} AS IDENTITY (START WITH {metadata[column_values.START]} "
                     f"INCREMENT BY {metadata.get(column_values.STEP)})")
    if column_values.DEFAULT in metadata:
        parts.append(f"DEFAULT {metadata[column_values.DEFAULT]}")
    return " ".join(parts) + comment_text(field)
