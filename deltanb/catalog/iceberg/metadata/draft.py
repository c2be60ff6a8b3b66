"""A table's metadata while updates change it (format/spec.md, "Table Metadata").

What lives here: the metadata of the last commit as newer versions write it, the draft that updates write
to, and what follows when they are done: the logs of snapshots and of metadata files.
What it does not know: the updates, and files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import Json, refuse
from deltanb.catalog.iceberg.metadata.partitioning import (
    FIRST_FIELD_ID,
    check_order,
    check_spec,
    highest_field_id,
)
from deltanb.errors import BadRequest, InvalidTable, UnsupportedProtocol

__all__ = ["MAIN", "NEWEST_VERSION", "PREVIOUS_FILES", "Draft", "completed"]

MAIN = "main"
NEWEST_VERSION = 3
PREVIOUS_FILES = "write.metadata.previous-versions-max"
MAX_PREVIOUS_FILES = 100  # Iceberg's default for the property
MINUTE = 60_000  # milliseconds; Iceberg's readers refuse logs that are out of order by more

_REQUIRED = ("location", "last-updated-ms", "last-column-id", "schemas", "current-schema-id",
             "partition-specs", "default-spec-id", "last-partition-id", "sort-orders",
             "default-sort-order-id")


def completed(metadata: Json) -> Json:
    """The metadata with the lists that old writers of v1 left out: the same object where there are all.

    >>> old = {"format-version": 1, "location": "s3://lake/t", "last-updated-ms": 0, "last-column-id": 0,
    ...        "schema": {"type": "struct", "fields": []}, "partition-spec": []}
    >>> completed(old)["schemas"], completed(old)["default-spec-id"]
    ([{'type': 'struct', 'fields': [], 'schema-id': 0}], 0)

    Raises:
        UnsupportedProtocol: the table's format is newer than v3.
        InvalidTable: a field is missing that tables of its version have.
    """
    version = metadata.get("format-version")
    if not isinstance(version, int) or version < 1:
        raise InvalidTable(f"the metadata of an Iceberg table has no format-version: {version!r:.80}")
    if version > NEWEST_VERSION:
        raise UnsupportedProtocol(
            f"the Iceberg table has the format v{version}, and deltanb changes up to v{NEWEST_VERSION}",
            features=[f"format-version {version}"])
    out = dict(metadata)
    if version == 1:
        _complete_v1(out)
    main = out.get("current-snapshot-id")
    if "refs" not in out and main is not None and main != -1:
        out["refs"] = {MAIN: {"snapshot-id": main, "type": "branch"}}
    missing = [name for name in _REQUIRED if out.get(name) is None]
    if missing:
        raise InvalidTable(f"the metadata of an Iceberg table lacks {', '.join(missing)}")
    return metadata if len(out) == len(metadata) else out


def _complete_v1(out: Json) -> None:
    if "schemas" not in out and "schema" in out:
        out["schemas"] = [{**out["schema"], "schema-id": out["schema"].get("schema-id", 0)}]
        out.setdefault("current-schema-id", out["schemas"][0]["schema-id"])
    if "partition-specs" not in out and "partition-spec" in out:
        fields = [{"field-id": FIRST_FIELD_ID + at, **field}
                  for at, field in enumerate(out["partition-spec"])]
        out["partition-specs"] = [{"spec-id": 0, "fields": fields}]
        out.setdefault("default-spec-id", 0)
    if "last-partition-id" not in out and "partition-specs" in out:
        out["last-partition-id"] = highest_field_id(out["partition-specs"])
    if "sort-orders" not in out:
        out["sort-orders"] = [{"order-id": 0, "fields": []}]
        out.setdefault("default-sort-order-id", 0)


class Draft:
    """The metadata of a table, being changed.

    ``values`` is a shallow copy of the base. What a field holds is shared with the base until :meth:`own`
    copies it, one level deep: snapshots, schemas and the like are replaced and never written to.
    """

    def __init__(self, base: Json | None, now: int, version: int = 2) -> None:
        self.base = base
        self.now = now if base is None else max(now, base.get("last-updated-ms", now))
        self.values: Json = _empty() if base is None else dict(completed(base))
        self.changed = False
        self.layout_changed = base is None
        """Whether the current schema, default spec or default order may be another one."""
        self.has_removed_snapshots = False
        self.last_added: dict[str, int] = {}
        """Lists of schemas, specs and orders -> the id that -1 means."""
        self.ids: dict[str, dict[Hashable, int]] = {}
        """Lists of schemas, specs and orders -> what equal ones share -> the id; see :meth:`id_of`."""
        self.added_snapshots: set[int] = set()
        self.made_current: set[int] = set()
        """Snapshots that were added and made the current one, in this draft."""
        self._owned: set[str] = set()
        self._snapshots: dict[int, Json] | None = None
        if base is None:
            self.set_version(version)

    @property
    def version(self) -> int:
        """The format version, as far as the updates have come."""
        return int(self.values["format-version"])

    def set_version(self, version: int) -> None:
        """Have the fields that tables of the version have, and not those of older ones alone."""
        values = self.values
        values["format-version"] = version
        if version >= 2:
            values.setdefault("last-sequence-number", 0)
            for name in ("schema", "partition-spec"):
                values.pop(name, None)
        if version >= 3:
            values.setdefault("next-row-id", 0)
            if values.get("current-snapshot-id") == -1:
                values["current-snapshot-id"] = None

    @property
    def snapshots(self) -> dict[int, Json]:
        """Snapshots by id; those of the draft, to be changed in place."""
        if self._snapshots is None:
            self._snapshots = {each["snapshot-id"]: each for each in self.values.get("snapshots") or ()}
        return self._snapshots

    @property
    def current_schema(self) -> Json | None:
        """The current schema; None while a new table has none."""
        return self.find("schemas", "schema-id", self.values.get("current-schema-id"))

    def own(self, name: str, empty: Callable[[], Any]) -> Any:
        """The list or object of a field, copied once so that the draft may change it."""
        if name not in self._owned:
            self._owned.add(name)
            held = self.values.get(name)
            self.values[name] = empty() if held is None else held.copy()
        return self.values[name]

    def find(self, name: str, id_field: str, its_id: int | None) -> Json | None:
        """The schema, spec or order of an id, or None."""
        return next((each for each in self.values[name] if each[id_field] == its_id), None)

    def id_of(self, name: str, id_field: str, value: Json, key: Callable[[Json], Hashable]) -> int | None:
        """The id of the first one in a list that is equal by a key, or None."""
        if name not in self.ids:
            self.ids[name] = {key(each): each[id_field] for each in reversed(self.values[name])}
        return self.ids[name].get(key(value))

    def set_current(self, snapshot_id: int | None) -> None:
        """Move the current snapshot; None is for a table that has none any more."""
        if snapshot_id is None:
            self.values["current-snapshot-id"] = None if self.version >= 3 else -1
            return
        self.values["current-snapshot-id"] = snapshot_id
        time = self.now
        if snapshot_id in self.added_snapshots:
            self.made_current.add(snapshot_id)
            time = self.snapshots[snapshot_id]["timestamp-ms"]
        log = self.own("snapshot-log", list)
        log.append({"timestamp-ms": self._in_order(time, log), "snapshot-id": snapshot_id})

    def _in_order(self, time: int, log: list[Json]) -> int:
        """A time of the log: the writer's, unless its clock is off by more than readers accept."""
        if time > self.now + MINUTE:
            time = self.now
        if log and time < log[-1]["timestamp-ms"] - MINUTE:
            time = log[-1]["timestamp-ms"]
        return time

    def finish(self, where: str, previous_file: str | None) -> Json:
        """The metadata after all updates; the base itself where they changed nothing.

        Raises:
            BadRequest: the default spec or order does not fit the current schema, or a new table lacks parts.
        """
        if self.base is not None and not self.changed:
            return self.base
        if self.base is None:
            self._require_parts(where)
        if self.layout_changed:
            self._check_layout(where)
        if self._snapshots is not None:
            self.values["snapshots"] = list(self._snapshots.values())
        self._correct_snapshot_log()
        if previous_file is not None and self.base is not None:
            log = [*(self.values.get("metadata-log") or ()),
                   {"timestamp-ms": self.base["last-updated-ms"], "metadata-file": previous_file}]
            self.values["metadata-log"] = log[-_max_previous_files(self.values.get("properties") or {}):]
        self.values["last-updated-ms"] = self.now
        return self.values

    def _require_parts(self, where: str) -> None:
        for name, action in (("table-uuid", "assign-uuid"), ("location", "set-location")):
            if name not in self.values:
                refuse(where, f"creates a table without {name}: {action} is missing")
        if self.current_schema is None:
            refuse(where, "creates a table without a schema: add-schema or set-current-schema is missing")
        for name, id_field, empty in (("partition-specs", "spec-id", {"spec-id": 0, "fields": []}),
                                      ("sort-orders", "order-id", {"order-id": 0, "fields": []})):
            default = _DEFAULTS[name]
            if default not in self.values:
                if not self.values[name]:
                    self.own(name, list).append(empty)
                if self.find(name, id_field, 0) is None:
                    refuse(where, f"creates a table whose {default} is not set")
                self.values[default] = 0

    def _check_layout(self, where: str) -> None:
        schema = self.current_schema
        spec = self.find("partition-specs", "spec-id", self.values["default-spec-id"])
        order = self.find("sort-orders", "order-id", self.values["default-sort-order-id"])
        if schema is None or spec is None or order is None:
            raise InvalidTable("the metadata of an Iceberg table lacks its current schema, spec or order")
        try:
            check_spec(spec, schema, "partition-spec")
            check_order(order, schema, "sort-order")
        except BadRequest as error:
            refuse(where, f"leaves the table with a default that does not fit its current schema: {error}")
        if self.version == 1:  # readers of v1 look for these two
            self.values["schema"], self.values["partition-spec"] = schema, spec["fields"]

    def _correct_snapshot_log(self) -> None:
        """Leave out what was current within the draft alone, and all before a snapshot that is gone.

        With a gap the log would say that the snapshot before it had been current for longer than it was.
        """
        passing = self.made_current - {self.values.get("current-snapshot-id")}
        if not passing and not self.has_removed_snapshots:
            return
        entries: list[Json] = []
        for entry in self.values.get("snapshot-log") or ():
            if entry["snapshot-id"] in self.snapshots:
                if entry["snapshot-id"] not in passing:
                    entries.append(entry)
            elif self.has_removed_snapshots:
                entries.clear()
        self.values["snapshot-log"] = entries


def _max_previous_files(properties: Mapping[str, str]) -> int:
    try:
        return max(1, int(properties.get(PREVIOUS_FILES, MAX_PREVIOUS_FILES)))
    except ValueError:  # was there before: no commit would get through any more
        return MAX_PREVIOUS_FILES


_DEFAULTS = {"partition-specs": "default-spec-id", "sort-orders": "default-sort-order-id"}


def _empty() -> Json:
    """A table of v1 before its first update."""
    return {
        "last-column-id": 0, "schemas": [], "partition-specs": [], "last-partition-id": FIRST_FIELD_ID - 1,
        "sort-orders": [], "properties": {}, "current-snapshot-id": -1, "refs": {}, "snapshots": [],
        "statistics": [], "partition-statistics": [], "snapshot-log": [], "metadata-log": [],
    }
