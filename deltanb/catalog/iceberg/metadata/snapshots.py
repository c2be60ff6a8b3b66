"""Updates of an Iceberg table's snapshots: added, removed, named by branches and tags, with statistics.

What lives here: what these actions do to a draft, the fields each has, and the check of sequence numbers and
row ids (format/spec.md, "Snapshots", "Sequence Numbers", "Row Lineage").
What it does not know: schemas, and the manifests a snapshot names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from deltanb.catalog.iceberg.metadata.draft import MAIN, Draft
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    base64_text,
    choice,
    named,
    plain,
    record,
    refuse,
    shaped,
    text,
    texts,
    whole,
)
from deltanb.errors import CommitFailed

__all__ = ["ACTIONS"]


def _add_snapshot(draft: Draft, update: Json, path: str) -> None:
    snapshot, values, place = update["snapshot"], draft.values, f"{path}.snapshot"
    its_id = snapshot["snapshot-id"]
    for name in ("schemas", "partition-specs", "sort-orders"):
        if not values[name]:
            refuse(place, f"comes before the table has {name}")
    if its_id in draft.snapshots:
        refuse(f"{place}.snapshot-id", f"already exists: {its_id}")
    if draft.version > 1:
        if "manifests" in snapshot:
            refuse(f"{place}.manifests", "is for v1 tables; others have a manifest-list")
        snapshot = _with_sequence_number(draft, snapshot)
        values["last-sequence-number"] = snapshot["sequence-number"]
    if draft.version >= 3:
        first, next_row = snapshot.get("first-row-id"), values.get("next-row-id", 0)
        if first is None:
            refuse(f"{place}.first-row-id", "is missing")
        if first < next_row:
            _refuse_stale("Cannot add a snapshot, first-row-id is behind table next-row-id: "
                          f"{first} < {next_row}")
        values["next-row-id"] = next_row + snapshot["added-rows"]
    draft.snapshots[its_id] = snapshot
    draft.added_snapshots.add(its_id)
    draft.changed = True


def _with_sequence_number(draft: Draft, snapshot: Json) -> Json:
    """The snapshot with the next sequence number where it came without one; none goes back.

    A snapshot without a parent may have the last number again: so do the first ones of a table from v1.
    """
    last = draft.values.get("last-sequence-number", 0)
    if "sequence-number" not in snapshot:
        return {**snapshot, "sequence-number": last + 1}
    number = snapshot["sequence-number"]
    if number < last or (number == last and "parent-snapshot-id" in snapshot):
        _refuse_stale(
            f"Cannot add snapshot with sequence number {number} older than last sequence number {last}")
    return snapshot


def _refuse_stale(message: str) -> NoReturn:
    raise CommitFailed(message, failed_requirements=[])


def _set_snapshot_ref(draft: Draft, update: Json, path: str) -> None:
    name, its_id = update["ref-name"], update["snapshot-id"]
    ref = {field: item for field, item in update.items() if field not in ("action", "ref-name")}
    if ref["type"] == "tag":
        for field in ("min-snapshots-to-keep", "max-snapshot-age-ms"):
            if field in ref:
                refuse(f"{path}.{field}", "is for branches; a tag has one snapshot")
    if (draft.values.get("refs") or {}).get(name) == ref:
        return
    if its_id not in draft.snapshots:
        refuse(f"{path}.snapshot-id", f"cannot set {name} to unknown snapshot: {its_id}")
    if name == MAIN:
        if ref["type"] != "branch":
            refuse(f"{path}.type", "cannot set main to a tag, it must be a branch")
        draft.set_current(its_id)
    draft.own("refs", dict)[name] = ref
    draft.changed = True


def _remove_snapshot_ref(draft: Draft, update: Json, path: str) -> None:
    _remove_ref(draft, update["ref-name"])


def _remove_ref(draft: Draft, name: str) -> None:
    if name in (draft.values.get("refs") or {}):
        del draft.own("refs", dict)[name]
        draft.changed = True
        if name == MAIN:
            draft.set_current(None)


def _remove_snapshots(draft: Draft, update: Json, path: str) -> None:
    gone = set(update["snapshot-ids"]) & draft.snapshots.keys()
    if not gone:
        return
    for its_id in gone:
        del draft.snapshots[its_id]
    draft.changed = draft.has_removed_snapshots = True
    for name in ("statistics", "partition-statistics"):
        _drop_files(draft, name, gone)
    for name, ref in list((draft.values.get("refs") or {}).items()):
        if ref["snapshot-id"] in gone:
            _remove_ref(draft, name)


def _set_files(name: str) -> Callable[[Draft, Json, str], None]:
    """The function that puts a file of statistics in place of those of the same snapshot."""

    def set_files(draft: Draft, update: Json, path: str) -> None:
        file = update[name]
        its_id = file["snapshot-id"]
        if update.get("snapshot-id", its_id) != its_id:
            refuse(f"{path}.snapshot-id", f"must be that of the statistics, {its_id}")
        _drop_files(draft, name, {its_id})
        draft.own(name, list).append(file)
        draft.changed = True

    return set_files


def _remove_files(name: str) -> Callable[[Draft, Json, str], None]:
    """The function that removes the statistics of a snapshot; none being there is no matter."""

    def remove(draft: Draft, update: Json, path: str) -> None:
        _drop_files(draft, name, {update["snapshot-id"]})

    return remove


def _drop_files(draft: Draft, name: str, snapshot_ids: set[int]) -> None:
    if any(each["snapshot-id"] in snapshot_ids for each in draft.values.get(name) or ()):
        files = draft.own(name, list)
        files[:] = [each for each in files if each["snapshot-id"] not in snapshot_ids]
        draft.changed = True


def _snapshot(value: Any, path: str) -> Json:
    snapshot: Json = _SNAPSHOT(value, path)
    if ("manifest-list" in snapshot) == ("manifests" in snapshot):
        refuse(f"{path}.manifest-list", "is missing" if "manifests" not in snapshot else
               "and manifests are both there: a snapshot has one of them")
    if "first-row-id" in snapshot and "added-rows" not in snapshot:
        refuse(f"{path}.added-rows", "is missing: it is required when first-row-id is set")
    return snapshot


@shaped({"type": "object", "properties": {"operation": {"type": "string"}}, "required": ["operation"],
         "additionalProperties": {"type": "string"}})
def _summary(value: Any, path: str) -> dict[str, str]:
    summary = texts(value, path)
    if "operation" not in summary:
        refuse(f"{path}.operation", "is missing")
    return summary


_INT, _LONG, _COUNT = whole(32), whole(64), whole(64, least=0)
_SOME = shaped(_LONG)(whole(64, least=1))
_ALWAYS = {"snapshot-id": _COUNT, "timestamp-ms": _LONG}
_FROM_V2 = {"manifest-list": text, "summary": _summary}
_OPTIONAL = {"sequence-number": _COUNT, "parent-snapshot-id": _LONG, "schema-id": _INT,
             "first-row-id": _COUNT, "added-rows": _COUNT, "key-id": text}
_SNAPSHOT = record(_ALWAYS, {**_FROM_V2, **_OPTIONAL, "manifests": array(text)})
named("Snapshot", shaped(record({**_ALWAYS, **_FROM_V2}, _OPTIONAL))(_snapshot))
_BLOB = record(
    {"type": text, "snapshot-id": _LONG, "sequence-number": _LONG, "fields": array(_INT)},
    {"properties": texts})
_STATISTICS = record(
    {"snapshot-id": _LONG, "statistics-path": text, "file-size-in-bytes": _COUNT,
     "file-footer-size-in-bytes": _COUNT, "blob-metadata": shaped(array(plain))(array(_BLOB))},
    {"key-metadata": base64_text})
_PARTITION_STATISTICS = record(
    {"snapshot-id": _LONG, "statistics-path": text, "file-size-in-bytes": _COUNT})

ACTIONS: dict[str, tuple[Callable[[Draft, Json, str], None], dict[str, Check], dict[str, Check]]] = {
    "add-snapshot": (_add_snapshot, {"snapshot": _snapshot}, {}),
    "remove-snapshots": (_remove_snapshots, {"snapshot-ids": array(_LONG)}, {}),
    "set-snapshot-ref": (
        _set_snapshot_ref, {"ref-name": text, "type": choice("branch", "tag"), "snapshot-id": _LONG},
        {"min-snapshots-to-keep": whole(32, least=1), "max-snapshot-age-ms": _SOME, "max-ref-age-ms": _SOME}),
    "remove-snapshot-ref": (_remove_snapshot_ref, {"ref-name": text}, {}),
    "set-statistics": (_set_files("statistics"), {"statistics": _STATISTICS}, {"snapshot-id": _LONG}),
    "remove-statistics": (_remove_files("statistics"), {"snapshot-id": _LONG}, {}),
    "set-partition-statistics": (
        _set_files("partition-statistics"), {"partition-statistics": _PARTITION_STATISTICS}, {}),
    "remove-partition-statistics": (_remove_files("partition-statistics"), {"snapshot-id": _LONG}, {}),
}
"""What each action does, its required fields and its optional ones."""
