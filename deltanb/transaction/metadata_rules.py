"""Which metadata changes of a winner a transaction can adopt.

What lives here: the difference of two metaData actions field by field, and the allow-list. A change is
adopted where files prepared before it are still right after it; everything else ends the commit.
What it does not know: the other conflict rules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from deltanb.actions import Metadata
from deltanb.errors import DeltaError
from deltanb.schema import properties
from deltanb.schema import protocol as features
from deltanb.schema.paths import with_fields
from deltanb.schema.types import ArrayType, DataType, MapType, StructField, StructType, parse_type
from deltanb.transaction.conflicts import FieldChange
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.operations import PRESERVED
from deltanb.transaction.steps import Winner

MODE = "delta.columnMapping.mode"
ROW_TRACKING = "delta.enableRowTracking"
COLUMN_MAPPING_KEYS = frozenset({
    "delta.columnMapping.id", "delta.columnMapping.physicalName", "delta.columnMapping.nested.ids",
    "parquet.field.id", "parquet.field.nested.ids",
})
NOT_PRESERVED = {PRESERVED: "false"}


def changes(current: CurrentTransaction, winner: Winner) -> tuple[FieldChange, ...]:
    """Every field in which the winner's metadata differs from what we stand on, our own change aside."""
    old, new = current.read_metadata if current.metadata_changed else current.metadata, winner.metadata
    if new is None:
        return ()
    in_schema = _schema_changes(current, winner, old, new) if old.schema_string != new.schema_string else []
    renamed = {change.before: change.after for change in in_schema if change.renamed}
    changed: list[FieldChange] = []
    for name in ("id", "name", "description", "format", "partition_columns", "created_time"):
        before, after = getattr(old, name), getattr(new, name)
        if name == "partition_columns" and renamed:  # the change of the column's name says it
            before = type(after)(renamed.get(column, column) for column in before)
        if before != after:
            changed.append(FieldChange(name, getattr(old, name), after))
    changed += _configuration_changes(current, winner, old, new)
    return (*changed, *in_schema)


def _configuration_changes(
    current: CurrentTransaction, winner: Winner, old: Metadata, new: Metadata
) -> list[FieldChange]:
    changed = []
    for key in sorted({*old.configuration, *new.configuration}):
        before, after = old.configuration.get(key), new.configuration.get(key)
        if before == after:
            continue
        rule = _ALLOWED.get(key)
        allowed = after is not None and rule is not None and rule(_Change(
            before, after, old, new, current, winner))
        changed.append(FieldChange(key, before, after, allowed))
    return changed


class _Change:
    """One property's change with what a rule may ask about it."""

    def __init__(self, before: str | None, after: str, old: Metadata, new: Metadata,
                 current: CurrentTransaction, winner: Winner) -> None:
        self.before, self.after, self.old, self.new = before, after, old, new
        self.protocol = winner.protocol or current.protocol

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_true(self) -> bool:
        return self.after.strip().lower() == "true"

    def supports(self, feature: str) -> bool:
        return features.supports(self.protocol, feature)


def _mapping_begins(old: Metadata, new: Metadata) -> bool:
    return (_get(old, MODE), _get(new, MODE)) == ("none", "name")


def _get(metadata: Metadata, key: str) -> Any:
    try:
        return properties.get(metadata.configuration, key)
    except DeltaError:
        return None


def _begins_mapping(c: _Change) -> bool:
    return _mapping_begins(c.old, c.new) and c.supports("columnMapping")


def _row_tracking_on(c: _Change) -> bool:
    return _get(c.new, ROW_TRACKING) is True


_ALLOWED: dict[str, Callable[[_Change], bool]] = {
    ROW_TRACKING: lambda c: c.supports("rowTracking") and c.is_true,
    "delta.rowTracking.materializedRowIdColumnName": _row_tracking_on,
    "delta.rowTracking.materializedRowCommitVersionColumnName": _row_tracking_on,
    MODE: _begins_mapping,
    "delta.columnMapping.hasDroppedOrRenamed": lambda c: True,
    "delta.columnMapping.maxColumnId": lambda c: True,
    "delta.enableDeletionVectors": lambda c: c.supports("deletionVectors") and c.is_true,
    "delta.checkpointPolicy": lambda c: c.supports("v2Checkpoint") and c.after == "v2",
    "delta.enableInCommitTimestamps": lambda c: c.supports("inCommitTimestamp") and c.is_true,
    "delta.inCommitTimestampEnablementVersion": lambda c: c.is_new,
    "delta.inCommitTimestampEnablementTimestamp": lambda c: c.is_new,
    "io.unitycatalog.tableId": lambda c: c.is_new or not c.supports("catalogManaged"),
}
"""property -> whether a winner's change of it leaves our files right. What is not here ends the commit."""


def _schema_changes(
    current: CurrentTransaction, winner: Winner, old: Metadata, new: Metadata
) -> list[FieldChange]:
    try:
        before, after = old.schema, new.schema
    except DeltaError:
        return [FieldChange("schemaString", old.schema_string, new.schema_string)]
    mapping = _mapping_begins(old, new)
    same_shape = before.names == after.names
    changed = []
    for one, two in _paired(before, after):
        if one is not None and two is not None:
            renamed = list(_renames(one, two, ()))
            changed += [FieldChange(f"column {old_name}", old_name, new_name, renamed=True)
                      for old_name, new_name in renamed]
            if _same(_physical(one) if renamed else one, _physical(two) if renamed else two):
                continue
        allowed = bool(mapping and same_shape and one and two and _only_mapping_differs(one, two))
        field = two or one
        assert field is not None
        changed.append(FieldChange(f"column {field.name}", _shown(one), _shown(two), allowed))
    if not changed:
        changed.append(FieldChange("column order", ", ".join(before.names), ", ".join(after.names),
                                 before.names == after.names))
    return changed


def _paired(
    before: StructType, after: StructType
) -> Iterator[tuple[StructField | None, StructField | None]]:
    """The fields of both, those that are one together: by the physical name, which a rename leaves alone."""
    left = {field.physical_name: field for field in after}
    for field in before:
        yield field, left.pop(field.physical_name, None)
    for field in left.values():
        yield None, field


def _renames(one: StructField, two: StructField, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Old and new names of a column and of the fields inside it, as paths in the old and the new schema."""
    if one.name != two.name:
        yield ".".join((*path, one.name)), ".".join((*path, two.name))
    yield from _renames_inside(one.type, two.type, (*path, two.name))


def _renames_inside(one: DataType, two: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    match one, two:
        case StructType(), StructType():
            for old, new in _paired(one, two):
                if old is not None and new is not None:
                    yield from _renames(old, new, path)
        case ArrayType(), ArrayType():
            yield from _renames_inside(one.element_type, two.element_type, (*path, "element"))
        case MapType(), MapType():
            yield from _renames_inside(one.key_type, two.key_type, (*path, "key"))
            yield from _renames_inside(one.value_type, two.value_type, (*path, "value"))


def _same(one: StructField, two: StructField) -> bool:
    return one == two and one.metadata == two.metadata


def _physical(field: StructField) -> StructField:
    """The field under its physical names, by which renamed ones are the same."""
    return replace(field, name=field.physical_name, type=with_fields(field.type, _physical))


def _shown(field: StructField | None) -> str | None:
    return None if field is None else str(field).split(": ", 1)[1]


def _only_mapping_differs(one: StructField, two: StructField) -> bool:
    keys = {k for k in {*one.metadata, *two.metadata} if one.metadata.get(k) != two.metadata.get(k)}
    return (keys <= COLUMN_MAPPING_KEYS and one.nullable == two.nullable
            and _stripped(one.type) == _stripped(two.type))


def _stripped(data_type: Any) -> Any:
    """The type without column-mapping metadata of nested fields."""
    value = data_type.to_dict()

    def strip(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: ({m: v for m, v in item.items() if m not in COLUMN_MAPPING_KEYS}
                        if k == "metadata" else strip(item)) for k, item in node.items()}
        return [strip(item) for item in node] if isinstance(node, list) else node

    return strip(value)


def adopt(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    """The transaction standing on the winner's metadata."""
    new = winner.metadata
    if new is None or current.metadata_changed:
        return current
    if winner.is_identity_update:
        return current.replace(metadata=new)
    turned_on = new.configuration.get(ROW_TRACKING, "").lower() == "true" and (
        current.metadata.configuration.get(ROW_TRACKING, "").lower() != "true")
    info = current.commit_info
    if turned_on:
        # Our files were written before row ids had to be carried over.
        info = info.replace(tags={**(info.tags or {}), **NOT_PRESERVED})
    return current.replace(metadata=new, commit_info=info)


def retime_type_changes(schema: StructType, from_version: int, to_version: int) -> StructType:
    """Move ``delta.typeChanges`` recorded for a version that was lost to the next one."""
    value = copy.deepcopy(schema.to_dict())

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            for change in (node.get("metadata") or {}).get("delta.typeChanges") or ():
                if isinstance(change, dict) and change.get("tableVersion") == from_version:
                    change["tableVersion"] = to_version
            for item in node.values():
                walk(item)
        elif isinstance(node, list):
            for item in node:
                walk(item)

    walk(value)
    moved = parse_type(value)
    assert isinstance(moved, StructType)
    return moved

