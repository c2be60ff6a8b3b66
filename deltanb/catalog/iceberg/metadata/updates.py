"""Updates of an Iceberg table: what a commit request may ask for (REST catalog, ``TableUpdate``).

What lives here: one function an action, which changes a draft as Iceberg's Java implementation does, and
the table of all actions with the fields each has.
What it does not know: requirements, files, other tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

from deltanb.catalog.iceberg.metadata.draft import NEWEST_VERSION, PREVIOUS_FILES, Draft
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    base64_text,
    named,
    record,
    refuse,
    shaped,
    tagged,
    text,
    texts,
    uuid_text,
    whole,
)
from deltanb.catalog.iceberg.metadata.partitioning import (
    check_order,
    check_spec,
    highest_field_id,
    order_field,
    order_key,
    spec_field,
    spec_key,
    with_field_ids,
)
from deltanb.catalog.iceberg.metadata.schemas import check_for_version, columns_of, schema_field, schema_key
from deltanb.catalog.iceberg.metadata.snapshots import ACTIONS as SNAPSHOT_ACTIONS

__all__ = ["LAST_ADDED", "add_schema", "add_sort_order", "add_spec", "change", "parsed", "properties_field",
           "update_field"]

LAST_ADDED = -1
"""In place of an id: the schema, spec or order that was added last, in the same request."""


def parsed(updates: Any, where: str) -> list[Json]:
    """Updates of a request, checked and copied, under the names the specification has for their fields.

    Raises:
        BadRequest: a value is malformed; nothing unknown is accepted.
    """
    return array(update_field)(updates, where)


def change(draft: Draft, update: Json, path: str) -> None:
    """Apply one parsed update.

    Raises:
        BadRequest: the table, as it is after the updates before, cannot be changed like this.
        CommitFailed: the update was right for an older state of the table.
    """
    _ACTIONS[update["action"]][0](draft, update, path)


def _upgrade_format_version(draft: Draft, update: Json, path: str) -> None:
    version = update["format-version"]
    if version > NEWEST_VERSION:
        refuse(f"{path}.format-version", f"asks for v{version}, and the newest is v{NEWEST_VERSION}")
    if version < draft.version:
        refuse(f"{path}.format-version", f"cannot downgrade v{draft.version} table to v{version}")
    if version > draft.version:
        draft.set_version(version)
        draft.changed = True


def _setter(name: str, field: str) -> Callable[[Draft, Json, str], None]:
    """The function that sets a value of the table."""
    return lambda draft, update, path: _set(draft, name, update[field])


def _set(draft: Draft, name: str, value: Any) -> None:
    if draft.values.get(name) != value:
        draft.values[name], draft.changed = value, True


@shaped(texts)
def properties_field(value: Any, path: str) -> dict[str, str]:
    """The check of properties in a request.

    Raises:
        BadRequest: a value is malformed.
    """
    properties = texts(value, path)
    limit = properties.get(PREVIOUS_FILES, "1")
    if not re.fullmatch(r"-?[0-9]{1,9}", limit):
        refuse(f"{path}.{PREVIOUS_FILES}", f"must be a number of files, found {limit!r:.80}")
    return properties


def _set_properties(draft: Draft, update: Json, path: str) -> None:
    if update["updates"]:
        draft.own("properties", dict).update(update["updates"])
        draft.changed = True


def _remove_properties(draft: Draft, update: Json, path: str) -> None:
    for name in update["removals"]:
        draft.own("properties", dict).pop(name, None)
        draft.changed = True


# --- schemas, partition specs, sort orders --------------------------------------------------------

def add_schema(draft: Draft, schema: Json, path: str, last_column_id: int = 0) -> None:
    """Add a schema with its columns' ids as they are; the highest id ever given follows."""
    check_for_version(schema, draft.version, path)
    highest = max((column.id for column in columns_of(schema)), default=0)
    _set(draft, "last-column-id", max(draft.values["last-column-id"], last_column_id, highest))
    _add(draft, "schemas", "schema-id", schema, schema_key)


def add_spec(draft: Draft, spec: Json, path: str) -> None:
    """Add a partition spec of the current schema; fields without an id are given one."""
    values = draft.values
    check_spec(spec, _schema(draft, path), path)
    if draft.id_of("partition-specs", "spec-id", spec, spec_key) is None:
        spec = with_field_ids(
            spec, values["partition-specs"], values["last-partition-id"], draft.version, path)
        values["last-partition-id"] = max(values["last-partition-id"], highest_field_id([spec]))
    _add(draft, "partition-specs", "spec-id", spec, spec_key)


def add_sort_order(draft: Draft, order: Json, path: str) -> None:
    """Add a sort order of the current schema."""
    check_order(order, _schema(draft, path), path)
    _add(draft, "sort-orders", "order-id", order, order_key, 1)


def _schema(draft: Draft, path: str) -> Json:
    if draft.current_schema is None:
        refuse(path, "comes before the table has a current schema")
    return draft.current_schema


def _add(draft: Draft, name: str, id_field: str, value: Json, key: Callable[[Json], Hashable],
         least: int = 0) -> None:
    """Add to a list what is not in it yet, under the next free id; either way it is the last one added."""
    held = draft.values[name]
    its_id = draft.id_of(name, id_field, value, key)
    if its_id is None:
        its_id = max((each[id_field] + 1 for each in held), default=least)
        its_id = max(its_id, least) if value["fields"] or id_field != "order-id" else 0
        draft.own(name, list).append({**value, id_field: its_id})
        draft.ids[name][key(value)] = its_id
        draft.changed = True
    draft.last_added[name] = its_id


def _default_of(name: str, id_field: str, default: str, what: str) -> Callable[[Draft, Json, str], None]:
    """The function that makes a schema, spec or order the default one."""
    wire = "sort-order-id" if id_field == "order-id" else id_field

    def set_default(draft: Draft, update: Json, path: str) -> None:
        its_id = update[wire]
        if its_id == LAST_ADDED:
            if name not in draft.last_added:
                refuse(f"{path}.{wire}", f"cannot set last added {what}: no {what} has been added")
            its_id = draft.last_added[name]
        if draft.find(name, id_field, its_id) is None:
            refuse(f"{path}.{wire}", f"is an unknown {what}: {its_id}")
        if draft.values.get(default) != its_id:
            draft.values[default] = its_id
            draft.changed = draft.layout_changed = True

    return set_default


def _removal_from(name: str, id_field: str, default: str, wire: str, what: str) -> (
        Callable[[Draft, Json, str], None]):
    """The function that removes schemas or specs; ids that are not there are no matter."""

    def remove(draft: Draft, update: Json, path: str) -> None:
        ids = set(update[wire])
        if draft.values.get(default) in ids:
            refuse(f"{path}.{wire}", f"cannot remove the {what} of the table: {draft.values[default]}")
        if ids:
            draft.values[name] = [each for each in draft.values[name] if each[id_field] not in ids]
            draft.ids.pop(name, None)
            draft.changed = True
            if draft.last_added.get(name) in ids:
                del draft.last_added[name]

    return remove


# --- encryption keys ------------------------------------------------------------------------------

def _add_encryption_key(draft: Draft, update: Json, path: str) -> None:
    key = update["encryption-key"]
    if not any(each["key-id"] == key["key-id"] for each in draft.values.get("encryption-keys") or ()):
        draft.own("encryption-keys", list).append(key)
        draft.changed = True


def _remove_encryption_key(draft: Draft, update: Json, path: str) -> None:
    keys = draft.values.get("encryption-keys") or []
    others = [each for each in keys if each["key-id"] != update["key-id"]]
    if len(others) < len(keys):
        draft.values["encryption-keys"], draft.changed = others, True


# --- the actions ----------------------------------------------------------------------------------

def _renamed(old: str, new: str, check: Check) -> Check:
    """The check of an object of which old clients send a field by another name; the new one comes first."""

    @shaped(check)
    def renamed(value: Json, path: str) -> Any:
        if old in value:
            value = {new: value[old], **{name: each for name, each in value.items() if name != old}}
        return check(value, path)

    return renamed


def _action(change_it: Callable[[Draft, Json, str], None], required: dict[str, Check],
            optional: dict[str, Check] | None = None, old_name: str | None = None) -> (
        tuple[Callable[[Draft, Json, str], None], Check]):
    check = record({"action": text, **required}, optional)
    return change_it, check if old_name is None else _renamed(old_name, next(iter(required)), check)


_INT = whole(32)
_ENCRYPTION_KEY = record(
    {"key-id": text, "encrypted-key-metadata": base64_text}, {"encrypted-by-id": text, "properties": texts})
_SPEC = _action(
    lambda draft, update, path: add_spec(draft, update["spec"], f"{path}.spec"), {"spec": spec_field})
_ACTIONS: dict[str, tuple[Callable[[Draft, Json, str], None], Check]] = {
    "assign-uuid": _action(_setter("table-uuid", "uuid"), {"uuid": uuid_text}),
    "upgrade-format-version": _action(_upgrade_format_version, {"format-version": whole(32, least=1)}),
    "add-schema": _action(
        lambda draft, update, path: add_schema(
            draft, update["schema"], f"{path}.schema", update.get("last-column-id", 0)),
        {"schema": schema_field}, {"last-column-id": _INT}),
    "set-current-schema": _action(
        _default_of("schemas", "schema-id", "current-schema-id", "schema"), {"schema-id": _INT}),
    "add-spec": _SPEC,
    "add-partition-spec": _SPEC,
    "set-default-spec": _action(
        _default_of("partition-specs", "spec-id", "default-spec-id", "spec"), {"spec-id": _INT}),
    "add-sort-order": _action(
        lambda draft, update, path: add_sort_order(draft, update["sort-order"], f"{path}.sort-order"),
        {"sort-order": order_field}),
    "set-default-sort-order": _action(
        _default_of("sort-orders", "order-id", "default-sort-order-id", "sort order"),
        {"sort-order-id": _INT}),
    "set-location": _action(_setter("location", "location"), {"location": text}),
    "set-properties": _action(_set_properties, {"updates": properties_field}, old_name="updated"),
    "remove-properties": _action(_remove_properties, {"removals": array(text)}, old_name="removed"),
    "remove-partition-specs": _action(
        _removal_from("partition-specs", "spec-id", "default-spec-id", "spec-ids", "default partition spec"),
        {"spec-ids": array(_INT)}),
    "remove-schemas": _action(
        _removal_from("schemas", "schema-id", "current-schema-id", "schema-ids", "current schema"),
        {"schema-ids": array(_INT)}),
    "add-encryption-key": _action(_add_encryption_key, {"encryption-key": _ENCRYPTION_KEY}),
    "remove-encryption-key": _action(_remove_encryption_key, {"key-id": text}),
    **{name: _action(*parts) for name, parts in SNAPSHOT_ACTIONS.items()},
}
"""What each action does, and the fields it has; the document's ``add-partition-spec`` is ``add-spec``."""

update_field = named("Update", tagged(
    "action", "action of tables", {name: check for name, (_, check) in _ACTIONS.items()}))
"""The check of an update in a request."""
