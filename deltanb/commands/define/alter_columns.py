"""ALTER TABLE … COLUMNS: columns and nested fields added, renamed, dropped, moved, widened, commented.

What lives here: the rules of each change and its record. Names are paths: ``a.b`` is a field of the
struct ``a``, ``a.element.b`` one of the structs in the array ``a``; backticks quote names with dots.
What it does not know: surgery on schemas (``schema/paths.py``), SQL's types (``schema/ddl.py``).

No data file is read or written: a column that a file lacks is NULL, a narrower type is widened on
reading, and column mapping finds columns by the names in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions import Metadata
from deltanb.commands.begin import begin
from deltanb.commands.define import evolution
from deltanb.commands.define.alter import commit_metadata, refuse_dependents
from deltanb.commands.define.clustering import logical_columns
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument, InvalidSchema
from deltanb.schema import properties
from deltanb.schema import widening as type_widening
from deltanb.schema.ddl import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    ColumnDefinition,
    field_for_log,
    parse_columns,
    parse_position,
    parse_type,
)
from deltanb.schema.paths import (
    field_at,
    find,
    inserted,
    moved,
    parse_path,
    quoted,
    recorded_name,
    removed,
    replaced,
    type_at,
    walk,
)
from deltanb.schema.protocol import supports
from deltanb.schema.types import DataType, PrimitiveType, StructField, StructType, arrow_type, from_arrow
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

MODE = "delta.columnMapping.mode"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_INTERNAL = ("delta.columnMapping.", "delta.typeChanges")
VALUES = (CURRENT_DEFAULT, GENERATION_EXPRESSION, "delta.identity.")


@active.command
def add_columns(log: DeltaLog, columns: Any) -> CommandResult:
    """Add columns, or fields of structs; they are NULL in existing rows.

    Args:
        columns: SQL text as in ADD COLUMNS (``"gate string COMMENT 'at departure' AFTER carrier,
            plane.seats int"``); or a mapping from path to type (SQL or
            :class:`~deltanb.schema.types.PrimitiveType` …); or fields of Delta or Arrow, which are
            top-level columns; or a list of any of these.

    Returns:
        The version committed.

    Raises:
        InvalidSchema: no such type, parent or neighbour; a name that is taken; NOT NULL.
        InvalidArgument: a default or generated value, which existing rows do not have.
        UnsupportedProtocol: a type that this library cannot write.
    """
    new_columns = list(definitions(columns, "add_columns"))
    if not new_columns:
        raise InvalidArgument("add_columns: no column is named")
    txn = begin(log)
    schema = txn.metadata.schema
    record = []
    for column in new_columns:
        parent = find(schema, column.path[:-1], txn.table) if len(column.path) > 1 else ()
        _refuse_name_taken(schema, parent, column.path[-1], txn.table)
        field = new_field(column.path, column.field, txn.table)
        schema = inserted(schema, parent, field, column.position)
        entry: dict[str, Any] = {"column": field_for_log((*parent, field.name), field)}
        if column.position is not None:
            entry["position"] = str(column.position)
        record.append(entry)
    metadata = evolution.with_schema(txn.metadata, schema)
    return commit_metadata(txn, metadata, Operation("ADD COLUMNS", {"columns": record}))


def definitions(columns: Any, command: str) -> Iterable[ColumnDefinition]:
    """The definitions in a text, a mapping, fields, or a list of any of these.

    Raises:
        InvalidArgument: none of these; the message names ``command``.
        InvalidSchema: text that is not a list of columns.
    """
    if isinstance(columns, str):
        yield from parse_columns(columns)
    elif isinstance(columns, ColumnDefinition):
        yield columns
    elif isinstance(columns, StructField):
        yield ColumnDefinition((columns.name,), columns)
    elif isinstance(columns, pa.Field):
        yield from definitions(from_arrow(pa.schema([columns])).fields[0], command)
    elif isinstance(columns, Mapping):
        for name, type_ in columns.items():
            path = parse_path(name)
            if isinstance(type_, str):  # the type may be followed by COMMENT, AFTER …
                parsed = parse_columns(f"{quoted(path)} {type_}")
                if len(parsed) != 1:
                    raise InvalidArgument(f"column {name} takes one type, found {type_!r}")
                yield from parsed
            else:
                yield ColumnDefinition(path, StructField(path[-1], _data_type(type_)))
    elif isinstance(columns, Iterable):
        for item in columns:
            yield from definitions(item, command)
    else:
        raise InvalidArgument(
            f"{command} takes SQL text, fields, or a mapping from name to type, found {columns!r:.80}")


def _data_type(type_: Any) -> DataType:
    if isinstance(type_, DataType):
        return type_
    if isinstance(type_, str):
        return parse_type(type_)
    if isinstance(type_, pa.DataType):
        return from_arrow(pa.schema([("type", type_)])).fields[0].type
    raise InvalidArgument(f"a type is SQL text, a Delta or an Arrow type, found {type_!r:.80}")


def new_field(path: Sequence[str], field: StructField, table: str) -> StructField:
    """A field as a new column of a table with rows, without metadata of another table's column.

    Raises:
        InvalidSchema: NOT NULL, which existing rows violate.
        InvalidArgument: a default or generated value, which existing rows do not have.
    """
    _refuse_values(path, field, table)
    metadata = {k: v for k, v in field.metadata.items() if not k.startswith(_INTERNAL)}
    arrow_type(field.type, quoted(path))  # refuses what this library cannot hold
    return field.replace(metadata=metadata, type=evolution.fresh(field.type))


def _refuse_values(name: Sequence[str], column: StructField, table: str) -> None:
    for path, field in [(tuple(name), column), *walk(column.type, tuple(name))]:
        if not field.nullable:
            raise InvalidSchema(
                f"table {table}: cannot add {quoted(path)} NOT NULL: rows that are there have NULL in it. "
                "Add it without, fill it, then add_constraint(name, \"… IS NOT NULL\")",
                column=quoted(path))
        if any(key.startswith(VALUES) for key in field.metadata):
            raise InvalidArgument(
                f"table {table}: cannot add {quoted(name)} with a default, generated or identity value: rows "
                "that are there do not have it. Add it without; then change_column(name, default=…) "
                "gives later rows a default", column=quoted(name))


def _refuse_name_taken(
    schema: StructType, parent: Sequence[str], name: str, table: str
) -> None:
    struct = type_at(schema, parent)
    taken = struct.get(name) if isinstance(struct, StructType) else None
    if taken is not None:
        raise InvalidSchema(
            f"table {table}: column {quoted([*parent, taken.name])} already exists; names are compared "
            "without case", column=quoted([*parent, name]))


# --- rename and drop ------------------------------------------------------------------------------

@active.command
def rename_column(log: DeltaLog, name: str | Sequence[str], new_name: str) -> CommandResult:
    """Rename a column or a nested field; files keep the physical name, so none is rewritten.

    Args:
        name: the path, e.g. ``"plane.seats"``.
        new_name: the new name of its last part.

    Returns:
        The version committed.

    Raises:
        InvalidArgument: the table does not map columns, or a constraint or generated column reads it.
        InvalidSchema: no such column, or the new name is taken.
    """
    txn = begin(log)
    schema = txn.metadata.schema
    path = find(schema, parse_path(name), txn.table)
    _require_mapping(txn, "rename", path)
    if not isinstance(new_name, str) or not new_name:
        raise InvalidArgument(f"table {txn.table}: {quoted(path)} needs a new name, found {new_name!r}")
    if not isinstance(type_at(schema, path[:-1]), StructType):
        raise InvalidSchema(
            f"table {txn.table}: {quoted(path)} is a part of a type and has no name of its own",
            column=quoted(path))
    if new_name.lower() != path[-1].lower():
        _refuse_name_taken(schema, path[:-1], new_name, txn.table)
    refuse_dependents(txn.metadata, path, "rename", txn.table)
    new_path = (*path[:-1], new_name)
    changed = replaced(schema, path, field_at(schema, path).replace(name=new_name))
    partitions = [new_name if (column,) == path else column
                  for column in txn.metadata.partition_columns]
    metadata = evolution.with_schema(
        with_stats_columns(txn.metadata, path, new_path), changed, partitions)
    return commit_metadata(txn, metadata, Operation("RENAME COLUMN", {
        "oldColumnPath": recorded_name(path), "newColumnPath": recorded_name(new_path)}))


@active.command
def drop_columns(
    log: DeltaLog, names: str | Sequence[str], if_exists: bool = False
) -> CommandResult:
    """Drop columns or nested fields; older versions still show them, files are not rewritten.

    Args:
        names: paths, or one path.
        if_exists: ignore those that do not exist.

    Returns:
        A result whose ``version`` is None if ``if_exists`` left nothing to drop.

    Raises:
        InvalidArgument: the table does not map columns; a partition or clustering column; a constraint
            or generated column reads it.
        InvalidSchema: no such column, or it is the last one.
    """
    txn = begin(log)
    paths = []
    for name in [names] if isinstance(names, str) else list(names):
        try:
            paths.append(find(txn.metadata.schema, parse_path(name), txn.table))
        except InvalidSchema:
            if not if_exists:
                raise
    if not paths:
        if not if_exists:
            raise InvalidArgument("drop_columns: no column is named")
        return CommandResult("DROP COLUMNS", None, "log")
    metadata = txn.metadata
    schema = metadata.schema
    for path in paths:
        refuse_drop(txn, path)
        schema = removed(schema, find(schema, path, txn.table))
        metadata = with_stats_columns(metadata, path, None)
    metadata = evolution.with_schema(metadata, schema)
    return commit_metadata(
        txn, metadata, Operation("DROP COLUMNS", {"columns": [recorded_name(path) for path in paths]}))


def refuse_drop(txn: OptimisticTransaction, path: tuple[str, ...]) -> None:
    """Refuse to drop a column or field that the table needs, or that would still be in its files.

    Raises:
        InvalidArgument: the table does not map columns; a partition or clustering column; a constraint or
            generated column reads it.
    """
    _require_mapping(txn, "drop", path)
    for role, columns in (("partition", [(c,) for c in txn.metadata.partition_columns]),
                          ("clustering", logical_columns(txn.snapshot))):
        if any(column[:len(path)] == path for column in columns):
            hint = ("overwrite the table with overwrite_schema=True" if role == "partition"
                    else "cluster_by(…) other columns first")
            raise InvalidArgument(
                f"table {txn.table}: cannot drop {quoted(path)}, it is a {role} column; {hint}",
                column=quoted(path))
    refuse_dependents(txn.metadata, path, "drop", txn.table)


def _require_mapping(txn: OptimisticTransaction, what: str, path: Sequence[str]) -> None:
    if properties.get(txn.metadata.configuration, MODE) == "none":
        raise InvalidArgument(
            f"table {txn.table}: cannot {what} column {quoted(path)}: columns are found in the data files by "
            'their names. Switch column mapping on first: set_properties({"delta.columnMapping.mode": '
            '"name"})', column=quoted(path))


def with_stats_columns(
    metadata: Metadata, path: tuple[str, ...], new_path: tuple[str, ...] | None
) -> Metadata:
    """The metadata with ``delta.dataSkippingStatsColumns`` updated for a renamed or dropped column."""
    named = properties.get(metadata.configuration, STATS_COLUMNS)
    if named is None:
        return metadata
    lower = tuple(part.lower() for part in path)
    stats_columns = []
    for text in named:
        column = parse_path(text)
        if tuple(part.lower() for part in column[:len(path)]) == lower:
            if new_path is None:
                continue
            column = (*new_path, *column[len(path):])
        stats_columns.append(quoted(column))
    return metadata.replace(
        configuration={**metadata.configuration, STATS_COLUMNS: ",".join(stats_columns)})


# --- change ---------------------------------------------------------------------------------------

@active.command
def change_column(
    log: DeltaLog,
    name: str | Sequence[str],
    *,
    type: Any = None,
    comment: str | None = None,
    nullable: bool | None = None,
    position: str | None = None,
    default: str | None = None,
    drop_default: bool = False,
) -> CommandResult:
    """Change a column, a nested field, or the element, key or value of an array or map.

    Args:
        name: the path, e.g. ``"delay"`` or ``"legs.element.seats"``.
        type: a wider type (SQL text, Delta's or Arrow's); needs ``delta.enableTypeWidening``.
        comment: a new comment.
        nullable: True drops NOT NULL. Delta does not set it on a column; a constraint does the same.
        position: ``"first"`` or ``"after <name>"``, beside its siblings.
        default: SQL of the value for later rows that lack the column; needs the feature
            ``allowColumnDefaults``.
        drop_default: remove the default.

    Returns:
        The version committed, even if nothing changes, as in Delta Spark.

    Raises:
        InvalidSchema: no such column, or not a widening.
        InvalidArgument: a required feature is not enabled; no change is given; the type of a column that a
            constraint or generated column reads.
    """
    change = {"type": type, "comment": comment, "nullable": nullable, "position": position,
              "default": default, "drop_default": drop_default}
    _refuse_no_change("change_column", name, change)
    txn = begin(log)
    changed, _, (column, position) = _changed(txn, txn.metadata.schema, name, **change)
    return commit_metadata(txn, evolution.with_schema(txn.metadata, changed), Operation(
        "CHANGE COLUMN", {"column": column, **({} if position is None else {"position": position})}))


@active.command
def change_columns(
    log: DeltaLog, changes: Mapping[str | Sequence[str], Mapping[str, Any]]
) -> CommandResult:
    """Change several columns in one commit, one after another.

    Args:
        changes: by column, the keyword arguments of :func:`change_column`:
            ``{"delay": {"comment": "in minutes"}, "month": {"position": "first"}}``.

    Returns:
        The version committed.

    Raises:
        InvalidSchema, InvalidArgument: as of :func:`change_column`, and where a column is named twice, or
            beside a field of its own; nothing was changed.
    """
    if not isinstance(changes, Mapping) or not changes or not all(
            isinstance(change, Mapping) for change in changes.values()):
        raise InvalidArgument(
            "change_columns takes a dict with the changes of one column at least, each a dict of "
            f"change_column's arguments, found {shown(changes)}; write it like "
            'change_columns({"delay": {"comment": "in minutes"}})')
    for name, change in changes.items():
        for unknown in change.keys() - _CHANGES:
            hint, _ = did_you_mean(str(unknown), _CHANGES)
            raise InvalidArgument(
                f"change_columns: {shown(unknown)} is no change of column {shown(name)}; {hint}", column=name)
        _refuse_no_change("change_columns", name, change)
    txn = begin(log)
    schema, columns = txn.metadata.schema, []
    before: list[tuple[str, ...]] = []
    for name, change in changes.items():
        schema, path, (column, position) = _changed(txn, schema, name, **change)
        other = next((one for one in before if one[:len(path)] == path[:len(one)]), None)
        if other is not None:
            raise InvalidArgument(
                f"table {txn.table}: {quoted(path)} is changed together with {quoted(other)}; change a "
                "column, or a struct and a field of it, by one statement each", column=quoted(path))
        before.append(path)
        columns.append({**column, **({} if position is None else {"position": position})})
    return commit_metadata(txn, evolution.with_schema(txn.metadata, schema), Operation(
        "CHANGE COLUMNS", {"columns": columns}))


_CHANGES = ("type", "comment", "nullable", "position", "default", "drop_default")


def _refuse_no_change(command: str, name: str | Sequence[str], change: Mapping[str, Any]) -> None:
    if all(value is None or (value is False and kind != "nullable") for kind, value in change.items()):
        raise InvalidArgument(
            f"{command}: nothing to change of {name!r}; give {', '.join(_CHANGES[:-1])} or {_CHANGES[-1]}",
            column=name)


def _changed(
    txn: OptimisticTransaction, schema: StructType, name: str | Sequence[str], *, type: Any = None,
    comment: str | None = None, nullable: bool | None = None, position: str | None = None,
    default: str | None = None, drop_default: bool = False,
) -> tuple[StructType, tuple[str, ...], tuple[dict[str, Any], str | None]]:
    """A schema with a change of a column, the column's path, and what a commit records of both."""
    path = find(schema, parse_path(name), txn.table)
    before = field = field_at(schema, path)
    if not isinstance(type_at(schema, path[:-1]), StructType):
        _refuse_for_part(txn.table, path, comment, nullable, position, default, drop_default)
    if nullable is not None:
        field = _with_nullable(txn.table, path, field, nullable)
    if comment is not None:
        field = field.replace(metadata={**field.metadata, "comment": str(comment)})
    if default is not None or drop_default:
        field = _with_default(txn, path, field, default)
    changed = schema
    if field != before or field.metadata != before.metadata:
        changed = replaced(schema, path, field)
    metadata = field.metadata
    if type is not None:
        field, changed = with_type(txn, path, field, _new_type(type, path, txn.table), changed)
    where = None if position is None else parse_position(position)
    if where is not None:
        changed = moved(changed, path, where)
    recorded = field.replace(metadata=metadata)  # as Delta records it: before this change of type
    return changed, path, (field_for_log(path, recorded), None if where is None else str(where))


def _refuse_for_part(table: str, path: Sequence[str], *settings: Any) -> None:
    if any(setting not in (None, False) for setting in settings):
        raise InvalidArgument(
            f"table {table}: {quoted(path)} is a part of a type: it can be given a wider type; comments, "
            "nullability, position and default belong to columns and fields", column=quoted(path))


def _with_nullable(
    table: str, path: Sequence[str], field: StructField, nullable: bool
) -> StructField:
    if field.nullable and not nullable:
        raise InvalidArgument(
            f"table {table}: Delta does not set NOT NULL on the column {quoted(path)} of a table that is "
            f'there; add_constraint("{path[-1]}_not_null", "{quoted(path)} IS NOT NULL") does the same, and '
            "checks the rows first", column=quoted(path))
    return field.replace(nullable=nullable)


def _with_default(
    txn: OptimisticTransaction, path: Sequence[str], field: StructField, default: str | None
) -> StructField:
    metadata = {k: v for k, v in field.metadata.items() if k != CURRENT_DEFAULT}
    if default is None:
        return field.replace(metadata=metadata)
    if not supports(txn.protocol, "allowColumnDefaults"):
        raise InvalidArgument(
            f"table {txn.table}: column {quoted(path)} cannot have a default before the table has the "
            'feature: add_feature("allowColumnDefaults")', column=quoted(path))
    parsed = parse_columns(f"x int DEFAULT {default}")
    if len(parsed) != 1 or parsed[0].field.metadata != {CURRENT_DEFAULT: default.strip()}:
        raise InvalidArgument(
            f"table {txn.table}: default={default!r} of {quoted(path)} is not one SQL expression",
            column=quoted(path))
    return field.replace(metadata={**metadata, CURRENT_DEFAULT: default.strip()})


def _new_type(type_: Any, path: Sequence[str], table: str) -> DataType:
    if isinstance(type_, str) and type_.strip().lower().startswith(("char", "varchar")):
        raise InvalidArgument(
            f"table {table}: the length of {quoted(path)} cannot be changed to {type_}; keep it a string "
            f'and add_constraint(name, "length({quoted(path)}) <= …")', column=quoted(path))
    return _data_type(type_)


def with_type(
    txn: OptimisticTransaction, path: tuple[str, ...], field: StructField, new: DataType,
    schema: StructType,
) -> tuple[StructField, StructType]:
    """The field with another type, and the schema with it and its record.

    Raises:
        InvalidSchema: not a widening of the present type.
        InvalidArgument: type widening is off, or a constraint or generated column reads it.
    """
    old = field.type
    if new == old:
        return field, schema
    name = quoted(path)
    if not isinstance(old, PrimitiveType):
        raise InvalidSchema(
            f"table {txn.table}: column {name} is {old} and cannot become {new} as a whole; change its "
            "parts (a.field, a.element, a.key, a.value) or add fields to it", column=name)
    if any(key.startswith((GENERATION_EXPRESSION, "delta.identity.")) for key in field.metadata):
        raise InvalidArgument(
            f"table {txn.table}: column {name} is generated or an identity, it keeps the type {old}",
            column=name)
    refuse_dependents(txn.metadata, path, f"change the type of ({old} to {new})", txn.table)
    field = field.replace(type=new)
    if old.name == "void":
        return field, replaced(schema, path, field)
    _require_widening(txn, path, old, new)
    changed = type_widening.recorded(replaced(schema, path, field), path, old, new)
    return field_at(changed, path), changed


def _require_widening(
    txn: OptimisticTransaction, path: Sequence[str], old: PrimitiveType, new: DataType
) -> None:
    name = quoted(path)
    if not type_widening.is_widening(old, new):
        raise InvalidSchema(
            f"table {txn.table}: column {name} cannot change from {old} to {new}: that is not a widening. "
            "Integers can become wider integers, double or decimal; float can become double; date can become "
            "timestamp_ntz; a decimal can get more digits, with no fewer on either side of the point. For "
            "any other type, add a new column and fill it",
            column=name)
    on = properties.get(txn.metadata.configuration, "delta.enableTypeWidening")
    if not on or not any(supports(txn.protocol, f) for f in type_widening.FEATURES):
        raise InvalidArgument(
            f"table {txn.table}: column {name} cannot change from {old} to {new} while type widening is "
            'off: set_properties({"delta.enableTypeWidening": True}) first', column=name)
    compatible = [f for f in ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
                  if supports(txn.protocol, f)]
    if compatible and isinstance(new, PrimitiveType) and not type_widening.fits_iceberg(old, new):
        raise InvalidArgument(
            f"table {txn.table}: column {name} cannot change from {old} to {new}: Iceberg has no such "
            f"change, and the table has the feature {compatible[0]}", column=name)
