"""The requirements of a new metaData action before any transaction may commit it.

What lives here: ``verifyNewMetadata`` of the seed: names, duplicates, types, partition columns,
column-mapping ids, values that the table gives, properties. What it does not know: the transaction; it
looks at two values.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltanb.actions import Metadata
from deltanb.errors import InvalidArgument, InvalidPredicate, InvalidSchema, InvalidTransaction
from deltanb.options import options
from deltanb.schema import properties
from deltanb.schema.columns import mentioned
from deltanb.schema.paths import find, parse_path
from deltanb.schema.types import (
    PHYSICAL_NAME,
    TYPES,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    unknown_types,
)
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import get_logger
from deltanb.transaction.new_table import MATERIALIZED_NAMES

logger = get_logger("deltanb.transaction")

FORBIDDEN = frozenset(" ,;{}()\n\t=")
ID = "delta.columnMapping.id"
CONSTRAINTS = "delta.constraints."
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
CDC_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def verify_new_metadata(metadata: Metadata, table: str, before: Metadata | None = None) -> None:
    """Check a proposed metaData action.

    Args:
        before: the metadata that the table has. What it contains already is not checked again when
            something else changes: types and expressions of columns while the schema stays,
            constraints that stay.

    Raises:
        InvalidSchema: duplicate or forbidden column names, types that Delta does not have, partition columns
            that are not there or cannot be one, column-mapping ids or physical names that are absent or not
            unique, generated, identity and default columns whose values cannot be computed.
        InvalidArgument: a table property whose text is not a value of it, a constraint that no row can be
            checked against, columns for statistics that are not there.

    Warns:
        UnknownPropertyWarning: a new ``delta.`` property that nobody knows.
    """
    properties.validate(metadata.configuration)
    properties.warn_of_unknown(key for key in metadata.configuration
                               if before is None or key not in before.configuration)
    schema = metadata.schema
    if before is None or before.schema_string != metadata.schema_string:
        if options.schema_type_check:
            _known_types(schema, table)
        if mentioned(metadata):
            from deltanb.transaction import column_check  # late: it loads what reads SQL

            column_check.verify(metadata, before)
    _expressions_of_properties(metadata, schema, table, before)
    _no_duplicates(schema, table, ())
    _partition_columns(metadata, schema, table)
    _apart_from_row_ids(metadata, schema, table)
    if properties.get(metadata.configuration, "delta.columnMapping.mode") == "none":
        _allowed_names(metadata, schema, table)
    else:
        _mapped(schema, table)
    if properties.get(metadata.configuration, "delta.enableChangeDataFeed"):
        for name in CDC_COLUMNS:
            if schema.get(name) is not None:
                raise InvalidSchema(
                    f"table {table}: column {name} cannot exist while delta.enableChangeDataFeed is "
                    "true, the feed itself has one. Rename the column or leave the feed off",
                    column=name,
                )


def _known_types(schema: StructType, table: str) -> None:
    for path, data_type in unknown_types(schema):
        raise InvalidSchema(
            f"table {table}: column {path} has the type {data_type}. Delta has no such type; there are "
            f"{', '.join(sorted(TYPES))}, decimal(p,s), array, map and struct", column=path)


def _expressions_of_properties(
    metadata: Metadata, schema: StructType, table: str, before: Metadata | None
) -> None:
    """Constraints and columns for statistics, as far as they are new or the columns are."""
    unchanged = before.configuration if before is not None and (
        before.schema_string == metadata.schema_string) else {}
    for key, text in metadata.configuration.items():
        if unchanged.get(key) == text:
            continue
        if key.lower().startswith(CONSTRAINTS):
            is_old = before is not None and before.configuration.get(key) == text
            _constraint(key, text, schema, table, is_old)
    indexed = properties.get(metadata.configuration, STATS_COLUMNS)
    if indexed is not None and properties.get(unchanged, STATS_COLUMNS) != indexed:
        for name in indexed:
            try:
                find(schema, parse_path(name), table)
            except (InvalidSchema, InvalidArgument) as error:
                was = None if before is None else properties.get(before.configuration, STATS_COLUMNS)
                way = (". Name others first: set_properties({...}), or unset_properties"
                       if was == indexed else "")
                raise InvalidArgument(
                    f"table {table}: {STATS_COLUMNS} names {name}: {error.message}{way}",
                    property=STATS_COLUMNS, column=name) from None


def _constraint(key: str, text: str, schema: StructType, table: str, is_old: bool) -> None:
    from deltanb.sql.coercion import spark_name
    from deltanb.sql.row_expressions import inspect, refuse_changing

    try:
        expression = inspect(text, schema, None)
        refuse_changing(text)
    except InvalidPredicate as error:
        name = key[len(CONSTRAINTS):]
        way = f". Drop it first, if its columns go: drop_constraint({name!r})" if is_old else ""
        raise InvalidArgument(
            f"table {table}: the constraint {name} ({text}) cannot be checked: {error.message}{way}",
            property=key) from None
    if expression.type is not None and str(expression.type) not in ("bool", "null"):
        raise InvalidArgument(
            f"table {table}: the constraint {key[len(CONSTRAINTS):]} ({text}) is "
            f"{spark_name(expression.type)}, not a condition; compare it with something", property=key)


def verify_feed_columns(new: Metadata, old: Metadata, table: str) -> None:
    """Check metadata that is committed together with data files on a table with a change data feed.

    Columns that column mapping renames or drops must keep their old names in the feed of the commit that
    did it, which one commit with both cannot tell. As in Delta: in two commits it is fine.

    Raises:
        InvalidTransaction: column mapping begins, or a mapped column is renamed or dropped.
    """
    key = "delta.columnMapping.mode"
    after = properties.get(new.configuration, key)
    if after == "none" or not properties.get(new.configuration, "delta.enableChangeDataFeed"):
        return
    before = properties.get(old.configuration, key)
    now = dict(_names(new.schema))
    changed = [] if before == "none" else [
        name for physical, name in _names(old.schema) if now.get(physical) != name]
    if before == after and not changed:
        return
    what = f"column {changed[0]} is renamed or dropped" if changed else "column mapping begins"
    raise InvalidTransaction(
        f"table {table}: {what} in a commit with data files, which is not possible while "
        "delta.enableChangeDataFeed is true. Change the columns in a commit of their own (rename_column, "
        "drop_columns), then write; or leave the feed off", column=changed[0] if changed else None)


def _names(schema: StructType) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every column's physical path and its name."""
    physical: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    for path, field in walk(schema):
        parent = path[:-1]
        while parent not in physical:  # element, key or value of an array or map
            parent = parent[:-1]
        inside = path[len(parent):-1]
        physical[path] = (*physical[parent], *inside, field.physical_name)
        yield physical[path], field.name


def walk(schema: StructType, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field of a schema, nested ones too, with its path."""
    for field in schema:
        path = (*prefix, field.name)
        yield path, field
        yield from _walk_type(field.type, path)


def _walk_type(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match data_type:
        case StructType():
            yield from walk(data_type, path)
        case ArrayType():
            yield from _walk_type(data_type.element_type, (*path, "element"))
        case MapType():
            yield from _walk_type(data_type.key_type, (*path, "key"))
            yield from _walk_type(data_type.value_type, (*path, "value"))


def _no_duplicates(schema: StructType, table: str, prefix: tuple[str, ...]) -> None:
    seen: set[tuple[str, ...]] = set()
    for path, _ in walk(schema, prefix):
        key = tuple(p.lower() for p in path)
        if key in seen:
            name = ".".join(path)
            raise InvalidSchema(
                f"table {table}: found duplicate column(s) in the metadata update: {name} (names are "
                "compared without case). Rename one of them",
                column=name,
            )
        seen.add(key)


def _allowed_names(metadata: Metadata, schema: StructType, table: str) -> None:
    """Names that files can have; those of partition columns name folders, too."""
    for path, _ in walk(schema):
        is_partition = len(path) == 1 and path[0] in metadata.partition_columns
        try:
            _allowed_name(path, table)
        except InvalidSchema as error:
            if not is_partition or options.partition_column_check:
                raise
            logger.warning("%s (let through, as the option partition_column_check is False)", error.message)


def _allowed_name(path: tuple[str, ...], table: str) -> None:
    if not path[-1] or not FORBIDDEN.isdisjoint(path[-1]):
        bad = sorted(FORBIDDEN.intersection(path[-1]))
        shown = "".join(c if c.strip() else {" ": "space", "\n": "newline", "\t": "tab"}[c]
                        for c in bad) or "nothing"
        raise InvalidSchema(
            f"table {table}: column name {'.'.join(path)!r} contains invalid character(s) ({shown}) "
            f"among ' ,;{{}}()\\n\\t='. Rename the column, or set delta.columnMapping.mode=name: of a new "
            'table by properties={"delta.columnMapping.mode": "name"}, else by set_properties(the same)',
            column=".".join(path),
        )


def _partition_columns(metadata: Metadata, schema: StructType, table: str) -> None:
    columns = metadata.partition_columns
    lowered = [c.lower() for c in columns]
    for column in columns:
        if lowered.count(column.lower()) > 1:
            raise InvalidSchema(f"table {table}: partition column {column} is named twice",
                                column=column)
        field = schema.get(column)
        if field is None or field.name != column:
            raise InvalidSchema(
                f"table {table}: partition column {column} is not in the schema; "
                f"{did_you_mean(column, schema.names)[0]}", column=column)
        if isinstance(field.type, StructType | ArrayType | MapType) or field.type.name in (
                "variant", "void"):
            raise InvalidSchema(
                f"table {table}: cannot partition by {column}, its type is {field.type}. "
                "Partition columns are of simple types", column=column,
            )
    if columns and len(columns) >= len(schema):
        raise InvalidSchema(
            f"table {table}: cannot use all columns for partition columns; leave at least one out")


def _apart_from_row_ids(metadata: Metadata, schema: StructType, table: str) -> None:
    """PROTOCOL.md, "Writer Requirements for Row Tracking": its columns have names of their own."""
    names = [metadata.configuration[key] for key in MATERIALIZED_NAMES if key in metadata.configuration]
    lowered = [name.lower() for name in names]
    taken = next((name for name in names if lowered.count(name.lower()) > 1), None)
    for field in schema:
        if {field.name.lower(), field.physical_name.lower()} & set(lowered):
            taken = field.name
    if taken is not None:
        raise InvalidSchema(
            f"table {table}: column {taken} cannot exist, row tracking keeps ids and commit versions under "
            f"the names {' and '.join(names)} in its data files. Give the column another name",
            column=taken)


def _mapped(schema: StructType, table: str) -> None:
    ids: dict[int, str] = {}
    names: dict[tuple[str, ...], str] = {}
    for path, field in walk(schema):
        name = ".".join(path)
        number, physical = field.metadata.get(ID), field.metadata.get(PHYSICAL_NAME)
        if not isinstance(number, int) or not isinstance(physical, str) or not physical:
            raise InvalidSchema(
                f"table {table}: column {name} has no {ID} or {PHYSICAL_NAME}, which column mapping "
                "needs", column=name,
            )
        key = (*path[:-1], physical.lower())
        if number in ids or key in names:
            other = ids.get(number) or names.get(key)
            raise InvalidSchema(
                f"table {table}: columns {other} and {name} share the column-mapping id {number} or "
                f"the physical name {physical}", column=name,
            )
        ids[number] = names[key] = name
