"""Which metadata changes of a winner a transaction can adopt.

What lives here: the difference of two metaData actions field by field, and the allow-list. A change is
adopted where files prepared before it are still right after it; everything else ends the commit.
What it does not know: the other conflict rules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from deltanb.actions import Metadata
from deltanb.errors import DeltaError
from deltanb.schema import properties
from deltanb.schema import protocol as features
from deltanb.schema.types import StructField, StructType, parse_type
from deltanb.transaction.conflicts import FieldChange
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.steps import Winner

MODE = "delta.columnMapping.mode"
ROW_TRACKING = "delta.enableRowTracking"
COLUMN_MAPPING_KEYS = frozenset({
    "delta.columnMapping.id", "delta.columnMapping.physicalName", "delta.columnMapping.nested.ids",
    "parquet.field.id", "parquet.field.nested.ids",
})
NOT_PRESERVED = {"delta.rowTracking.preserved": "false"}


def changes(current: CurrentTransaction, winner: Winner) -> tuple[FieldChange, ...]:
    """Every field in which the winner's metadata differs from what we stand on."""
    old, new = current.metadata, winner.metadata
    if new is None:
        return ()
    found: list[FieldChange] = []
    for name in ("id", "name", "description", "format", "partition_columns", "created_time"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            found.append(FieldChange(name, before, after))
    found += _configuration_changes(current, winner, old, new)
    if old.schema_string != new.schema_string:
        found += _schema_changes(current, winner, old, new)
    return tuple(found)


def _configuration_changes(
    current: CurrentTransaction, winner: Winner, old: Metadata, new: Metadata
) -> list[FieldChange]:
    found = []
    for key in sorted({*old.configuration, *new.configuration}):
        before, after = old.configuration.get(key), new.configuration.get(key)
        if before == after:
            continue
        rule = _ALLOWED.get(key)
        allowed = after is not None and rule is not None and rule(_Change(
            before, after, old, new, current, winner))
        found.append(FieldChange(key, before, after, allowed))
    return found


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
    found = []
    for name in dict.fromkeys([*before.names, *after.names]):
        one = next((f for f in before if f.name == name), None)
        two = next((f for f in after if f.name == name), None)
        if one == two and one is not None and two is not None and one.metadata == two.metadata:
            continue
        allowed = bool(mapping and same_shape and one and two and _only_mapping_differs(one, two))
        found.append(FieldChange(f"column {name}", _shown(one), _shown(two), allowed))
    if not found:
        found.append(FieldChange("column order", ", ".join(before.names), ", ".join(after.names),
                                 before.names == after.names))
    return found


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

