"""ALTER TABLE … REPLACE COLUMNS: a new list of all columns, with the existing rows.

What lives here: matching the list with the table's columns, and the change of each.
What it does not know: the rules of adding, dropping and widening a column (``alter_columns``).

A list has the result and not the changes: a struct that loses a field and gains another one may have been
meant as a rename. Such a list is refused, as in Delta Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltanb.commands.begin import begin
from deltanb.commands.define import evolution
from deltanb.commands.define.alter import commit_metadata
from deltanb.commands.define.alter_columns import (
    VALUES,
    definitions,
    new_field,
    refuse_drop,
    with_stats_columns,
    with_type,
)
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument, InvalidSchema
from deltanb.schema.columns import Identity
from deltanb.schema.ddl import field_for_log
from deltanb.schema.paths import field_at, quoted
from deltanb.schema.types import CHAR_KEY, ArrayType, DataType, MapType, StructField, StructType
from deltanb.transaction import active
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog

__all__ = ["replace_columns"]

Path = tuple[str, ...]


@active.command
def replace_columns(log: DeltaLog, columns: Any) -> CommandResult:
    """Replace the list of columns: their order, comments, wider types and nullability; new and dropped ones.

    Columns and fields of structs are matched by name without case. A matched column keeps its name, values
    and comment, unless a new comment is given. No data file is read or written.

    Args:
        columns: SQL text as in REPLACE COLUMNS (``"id bigint, name string COMMENT 'full'"``), a mapping from
            name to type, or fields of Delta or Arrow; all columns of the table, in their new order.

    Returns:
        The version committed.

    Raises:
        InvalidSchema: columns are dropped and added in one struct; NOT NULL on a new or nullable column; a
        type
            that is not a widening of the present one.
        InvalidArgument: a column is dropped and the table does not map columns, or it is a partition or
            clustering column, or a constraint or generated column reads it; types change while type
            widening is off; the table has an identity column; a default or generated value.

    >>> import deltanb as dn
    >>> table = dn.create("geese", {"id": [1], "name": ["Gladstone"]})
    >>> table.replace_columns("name string COMMENT 'first', id bigint, luck double").version
    1
    >>> table.to_arrow().to_pylist()
    [{'name': 'Gladstone', 'id': 1, 'luck': None}]
    """
    new = _listed(columns)
    txn = begin(log)
    schema = txn.metadata.schema
    for field in schema.fields:
        if Identity.of(field) is not None:
            raise InvalidArgument(
                f"table {txn.table}: column {quoted((field.name,))} is an identity, and the columns of such "
                "a table cannot be replaced as a whole; change them one by one: add_columns, drop_columns, "
                "change_column", column=field.name)
    change = _Replacement(txn.table)
    replacement = change.struct(schema, new, ())
    metadata = txn.metadata
    for path in change.dropped:
        refuse_drop(txn, path)
        metadata = with_stats_columns(metadata, path, None)
    for path, wider in change.retyped:
        _, replacement = with_type(txn, path, field_at(replacement, path), wider, replacement)
    metadata = evolution.with_schema(metadata, replacement)
    record = [field_for_log((field.name,), field) for field in new.fields]
    return commit_metadata(txn, metadata, Operation("REPLACE COLUMNS", {"columns": record}))


def _listed(columns: Any) -> StructType:
    """The columns as a schema."""
    listed = list(definitions(columns, "replace_columns"))
    if not listed:
        raise InvalidArgument("replace_columns: no column is named; a table has one at least")
    for column in listed:
        if len(column.path) > 1 or column.position is not None:
            raise InvalidSchema(
                f"replace_columns: {quoted(column.path)} has a nested name or a position; write nested "
                "fields as struct<…>, and columns in their order", column=quoted(column.path))
    return StructType(column.field for column in listed)


class _Replacement:
    """A schema made from another one and a list of columns; records what the list drops and widens.

    Types to widen are still the old ones: each change is made, and recorded, separately.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.dropped: list[Path] = []
        self.retyped: list[tuple[Path, DataType]] = []

    def struct(self, before: StructType, after: StructType, path: Path) -> StructType:
        """The fields of a struct in their new order."""
        fields, added = [], []
        for field in after.fields:
            was = before.get(field.name)
            if was is None:
                added.append(field.name)
                fields.append(new_field((*path, field.name), field, self.table))
            else:
                fields.append(self._field(was, field, (*path, was.name)))
        stays = {field.name for field in fields}
        dropped = [name for name in before.names if name not in stays]
        if dropped and added:
            raise InvalidSchema(
                f"table {self.table}: {_names(path, dropped)} would go and {_names(path, added)} would come, "
                "which may be meant as a rename. Do it one by one: rename_column(name, new_name), or "
                "drop_columns(…) and add_columns(…)", column=quoted((*path, dropped[0])))
        self.dropped += [(*path, name) for name in dropped]
        return StructType(fields)

    def _field(self, was: StructField, field: StructField, path: Path) -> StructField:
        self._refuse_tighter(was.nullable, field.nullable, path)
        for key, value in field.metadata.items():
            if key.startswith((CHAR_KEY, *VALUES)) and value != was.metadata.get(key):
                raise InvalidArgument(
                    f"table {self.table}: replace_columns keeps the values and the length of "
                    f"{quoted(path)}; change_column(name, default=…) changes a default", column=quoted(path))
        comment = field.metadata.get("comment")
        metadata = was.metadata if comment is None else {**was.metadata, "comment": comment}
        type_ = self._type(was.type, field.type, path)
        return was.replace(nullable=field.nullable, type=type_, metadata=metadata)

    def _type(self, was: DataType, new: DataType, path: Path) -> DataType:
        match was, new:
            case StructType(), StructType():
                return self.struct(was, new, path)
            case ArrayType(), ArrayType():
                self._refuse_tighter(was.contains_null, new.contains_null, (*path, "element"))
                return ArrayType(self._type(was.element_type, new.element_type, (*path, "element")),
                                 new.contains_null)
            case MapType(), MapType():
                self._refuse_tighter(was.value_contains_null, new.value_contains_null, (*path, "value"))
                return MapType(self._type(was.key_type, new.key_type, (*path, "key")),
                               self._type(was.value_type, new.value_type, (*path, "value")),
                               new.value_contains_null)
        if was != new:
            self.retyped.append((path, new))
        return was

    def _refuse_tighter(self, before: bool, after: bool, path: Path) -> None:
        if before and not after:
            raise InvalidSchema(
                f"table {self.table}: {quoted(path)} may be NULL, and rows that are there may have NULL in "
                f'it; add_constraint(name, "{quoted(path)} IS NOT NULL") checks them', column=quoted(path))


def _names(path: Path, names: list[str]) -> str:
    return ", ".join(quoted((*path, name)) for name in names)
