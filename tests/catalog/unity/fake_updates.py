"""How the open-source server of Unity Catalog takes updates of a table: the rules of :mod:`.fake`.

What lives here: refusals, a table's state as a plain dict, and what a request to update makes of it. Written
from the specification and from recorded answers, not from this project's own server, so that a client that is
tested on both does not share one reading of them.
What it does not know: requests, names of tables, locks.

A table is a dict: ``id``, ``catalog``, ``schema``, ``name``, ``type``, ``format``, ``location``, ``columns``
(fields in the API's form), ``partitions``, ``properties``, ``comment``, ``created`` and ``updated`` (ms),
``rows`` (the commits that the server still has, oldest first) and ``marker``: the version of the row that is
published and stays as the latest.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Table = dict[str, Any]

MOST_UNPUBLISHED = 10
REQUIRED_FEATURES = {
    "reader-features": ("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"),
    "writer-features": ("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors",
                        "inCommitTimestamp")}
REQUIRED_PROPERTIES = {
    "delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2",
    "delta.enableInCommitTimestamps": "true", "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true"}
SUGGESTED_PROPERTIES = {
    "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": None,
    "delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": None,
    "delta.rowTracking.materializedRowCommitVersionColumnName": None,
    "delta.randomizeFilePrefixes": "true", "delta.parquet.compression.codec": "zstd"}
TABLE_ID = "io.unitycatalog.tableId"
DOMAINS = {"delta.clustering": ("clusteringColumns", "delta.clusteringColumns", "clustering"),
           "delta.rowTracking": ("rowIdHighWaterMark", "delta.rowTracking.rowIdHighWaterMark", "rowTracking")}
"""Of a domain: its field, the property that is derived from it, the feature that it needs."""

INVALID = "InvalidParameterValueException"
CONFLICT = "CommitVersionConflictException"
UNKNOWN = "CommitStateUnknownException"

ERRORS: Mapping[str, tuple[int, str]] = {
    "BadRequestException": (400, "OUT_OF_RANGE"),
    INVALID: (400, "INVALID_ARGUMENT"),
    "UnsupportedTableFormatException": (400, "UNSUPPORTED_TABLE_FORMAT"),
    "NotAuthorizedException": (401, "UNAUTHENTICATED"),
    "PermissionDeniedException": (403, "PERMISSION_DENIED"),
    "NotFoundException": (404, "NOT_FOUND"),
    "NoSuchCatalogException": (404, "CATALOG_NOT_FOUND"),
    "NoSuchSchemaException": (404, "SCHEMA_NOT_FOUND"),
    "NoSuchTableException": (404, "TABLE_NOT_FOUND"),
    "AlreadyExistsException": (409, "ALREADY_EXISTS"),
    CONFLICT: (409, "COMMIT_VERSION_CONFLICT"),
    "UpdateRequirementConflictException": (409, "UPDATE_REQUIREMENT_CONFLICT"),
    "ResourceExhaustedException": (429, "RESOURCE_EXHAUSTED"),
    UNKNOWN: (500, "COMMIT_STATE_UNKNOWN"),
    "InternalServerErrorException": (500, "INTERNAL"),
    "NotImplementedException": (501, "UNIMPLEMENTED")}
"""A type's status in the Delta API, and the code of the older API for it."""


class Refusal(Exception):
    """What the server refuses: a type of the Delta API, and the older API's code where that has its own."""

    def __init__(self, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status, default = ERRORS[kind]
        self.code = code or default


def invalid(message: str) -> Refusal:
    return Refusal(INVALID, message)


# -- the shape of a request ------------------------------------------------------------------------------

_REQUIREMENTS: Mapping[str, Mapping[str, type]] = {
    "assert-table-uuid": {"uuid": str}, "assert-etag": {"etag": str}}
_ACTIONS: Mapping[str, Mapping[str, type]] = {
    "add-commit": {"commit": dict},
    "set-latest-backfilled-version": {"latest-published-version": int},
    "set-properties": {"updates": dict}, "remove-properties": {"removals": list},
    "set-protocol": {"protocol": dict}, "set-columns": {"columns": dict},
    "set-partition-columns": {"partition-columns": list}, "set-table-comment": {"comment": str},
    "set-domain-metadata": {"updates": dict}, "remove-domain-metadata": {"domains": list},
    "update-metadata-snapshot-version": {"last-commit-version": int, "last-commit-timestamp-ms": int}}
_COMMIT: Mapping[str, type] = {"version": int, "timestamp": int, "file-name": str, "file-size": int,
                               "file-modification-timestamp": int}


def fields_of(value: Any, required: Mapping[str, type], *optional: str) -> Json:
    """An object, refused where a field is unknown, missing or of another type."""
    if not isinstance(value, dict):
        raise invalid("an object is required")
    for name in value.keys() - required.keys() - set(optional):
        raise invalid(f"unrecognized field {name!r}")
    for name, kind in required.items():
        each = value.get(name)
        if not isinstance(each, kind) or (isinstance(each, bool) and kind is int):
            raise invalid(f"{name} is required: {kind.__name__}")
    return value


def _by_kind(values: Any, tag: str, kinds: Mapping[str, Mapping[str, type]]) -> dict[str, Json]:
    by_kind: dict[str, Json] = {}
    for value in values:
        kind = value.get(tag) if isinstance(value, dict) else None
        if kind not in kinds:
            raise invalid(f"unknown {tag} {kind!r}")
        if kind in by_kind:
            raise invalid(f"at most one {kind} is allowed per request")
        optional = ("uniform",) if kind == "add-commit" else ()
        by_kind[kind] = fields_of(value, {tag: str, **kinds[kind]}, *optional)
    return by_kind


def _collected(body: Any) -> tuple[dict[str, Json], dict[str, Json]]:
    """A request's requirements and actions by kind."""
    body = fields_of(body, {"updates": list}, "requirements")
    if not body["updates"]:
        raise invalid("at least one update is required")
    requirements = _by_kind(body.get("requirements") or (), "type", _REQUIREMENTS)
    if "assert-table-uuid" not in requirements:
        raise invalid("an assert-table-uuid requirement is required")
    actions = _by_kind(body["updates"], "action", _ACTIONS)
    for setting, field, removing, names in (
            ("set-properties", "updates", "remove-properties", "removals"),
            ("set-domain-metadata", "updates", "remove-domain-metadata", "domains")):
        both = set(actions.get(setting, {}).get(field, ())) & set(actions.get(removing, {}).get(names, ()))
        if both:
            raise invalid(f"{setting} and {removing} overlap: {sorted(both)}")
    if "add-commit" in actions:
        _require_commit(actions["add-commit"]["commit"])
    return requirements, actions


def _require_commit(commit: Any) -> None:
    for name, value in fields_of(commit, _COMMIT).items():
        if value == "" or (isinstance(value, int) and value <= 0):
            raise invalid(f"field must be positive: {name}")
    if {"/", "\\"} & set(commit["file-name"]):
        raise invalid("field must be a single file name: file-name")


# -- what a managed table has to have --------------------------------------------------------------------


def derive(properties: dict[str, str], protocol: Json | None, domains: Json | None) -> None:
    """Add the properties that the server derives from a protocol and from domains."""
    if protocol is not None:
        for name in [name for name in properties if name.startswith("delta.feature.")]:
            del properties[name]
        fields_of(protocol, {"min-reader-version": int, "min-writer-version": int}, *REQUIRED_FEATURES)
        properties["delta.minReaderVersion"] = str(protocol["min-reader-version"])
        properties["delta.minWriterVersion"] = str(protocol["min-writer-version"])
        for kind in REQUIRED_FEATURES:
            properties.update({f"delta.feature.{name}": "supported" for name in protocol.get(kind) or ()})
    for domain, value in (domains or {}).items():
        if domain not in DOMAINS:
            raise invalid(f"unrecognized field {domain!r}")
        field, name, _ = DOMAINS[domain]
        value = fields_of(value, {field: object})[field]
        properties[name] = json.dumps(value, separators=(",", ":")) if isinstance(value, list) else str(value)


def require_contract(protocol: Json, properties: Mapping[str, str]) -> None:
    """Refuse a managed table that lacks what the staging answer requires."""
    if protocol.get("min-reader-version", 0) < 3 or protocol.get("min-writer-version", 0) < 7:
        raise invalid("MANAGED table: minReaderVersion must be at least 3 and minWriterVersion 7")
    for name in set(protocol.get("reader-features") or ()) - set(protocol.get("writer-features") or ()):
        raise invalid(f"feature {name!r} is in reader-features but not in writer-features")
    for kind, names in REQUIRED_FEATURES.items():
        for name in names:
            if name not in (protocol.get(kind) or ()):
                raise invalid(f"MANAGED table missing required {kind[:-1]} {name!r}")
    for name, value in REQUIRED_PROPERTIES.items():
        if properties.get(name) != value:
            raise invalid(f"MANAGED table required property {name!r} must be {value!r}")
    if not properties.get(TABLE_ID):
        raise invalid(f"MANAGED table required property {TABLE_ID!r} is missing")
    require_features_of_domains(properties)


def require_features_of_domains(properties: Mapping[str, str]) -> None:
    for domain, (_, name, feature) in DOMAINS.items():
        if name in properties and f"delta.feature.{feature}" not in properties:
            raise invalid(f"domain-metadata.{domain} requires the {feature!r} writer feature")


# -- an update -------------------------------------------------------------------------------------------


def etag_of(table: Table) -> str:
    """The tag of a table's metadata, which a commit of rows alone does not change."""
    return f"etag-{table['updated']}"


def updated(table: Table, body: Any, version: str, now: Callable[[], int],
            read: Callable[[str], bytes]) -> Table:
    """A table after a request to update it, or itself where the request is a resend of what it has done.

    ``version`` is the server's, ``now`` gives the time in ms, ``read`` the bytes of a file by its URI.

    Raises:
        Refusal: with the type that the real server gives.
    """
    requirements, actions = _collected(body)
    uuid = requirements["assert-table-uuid"]["uuid"]
    if uuid != table["id"]:
        raise Refusal("UpdateRequirementConflictException",
                      f"assert-table-uuid failed: expected {uuid} but table has {table['id']}")
    if version < "0.6":  # later ones look at the tag after the commit, because a resend has an old one
        _require_etag(table, requirements)
    after = copy.deepcopy(table)
    for action, update in actions.items():
        if action in _APPLIED:
            _APPLIED[action](after, update)
    _require_after(after, actions)
    if _committed(after, actions, version, read):
        return table
    _require_etag(table, requirements)
    if _changes_metadata(actions) or "update-metadata-snapshot-version" in actions:
        after["updated"] = now()
    return after


def _require_etag(table: Table, requirements: Mapping[str, Json]) -> None:
    etag = requirements.get("assert-etag", {}).get("etag", etag_of(table))
    if etag != etag_of(table):
        raise Refusal("UpdateRequirementConflictException",
                      f"assert-etag failed: expected {etag} but table has {etag_of(table)}")


def _changes_metadata(actions: Mapping[str, Json]) -> bool:
    others = {*_APPLIED} - {"set-domain-metadata", "update-metadata-snapshot-version"}
    return bool(others & actions.keys()) or "delta.clustering" in actions.get(
        "set-domain-metadata", {}).get("updates", {})


def _require_after(table: Table, actions: Mapping[str, Json]) -> None:
    if table["type"] != "MANAGED":
        return
    if "set-protocol" in actions:
        require_contract(actions["set-protocol"]["protocol"], table["properties"])
    elif "set-domain-metadata" in actions:
        require_features_of_domains(table["properties"])


def _set_columns(table: Table, update: Json) -> None:
    if not update["columns"].get("fields"):
        raise invalid("set-columns requires at least one column")
    table["columns"] = update["columns"]["fields"]
    names = {each["name"].lower() for each in table["columns"]}
    table["partitions"] = [name for name in table["partitions"] if name.lower() in names]


def set_partitions(table: Table, update: Json) -> None:
    names = {each["name"].lower(): each["name"] for each in table["columns"]}
    for name in update["partition-columns"]:
        if name.lower() not in names:
            raise invalid(f"partition column {name!r} is no column")
    table["partitions"] = [names[name.lower()] for name in update["partition-columns"]]


def _remove_properties(table: Table, update: Json) -> None:
    for name in update["removals"]:
        table["properties"].pop(name, None)


def _set_domains(table: Table, update: Json) -> None:
    if not update["updates"]:
        raise invalid("set-domain-metadata requires at least one domain entry")
    derive(table["properties"], None, update["updates"])


def _remove_domains(table: Table, update: Json) -> None:
    for domain in update["domains"]:
        if domain not in DOMAINS:
            raise invalid(f"unknown domain in remove-domain-metadata: {domain}")
        table["properties"].pop(DOMAINS[domain][1], None)


def _set_snapshot_version(table: Table, update: Json) -> None:
    if table["type"] != "EXTERNAL":
        raise invalid("update-metadata-snapshot-version is only supported for EXTERNAL Delta tables")
    _note_change(table, update["last-commit-version"], update["last-commit-timestamp-ms"])


def _note_change(table: Table, version: int, timestamp: int) -> None:
    table["properties"] |= {
        "delta.lastUpdateVersion": str(version), "delta.lastCommitTimestamp": str(timestamp)}


_APPLIED: Mapping[str, Callable[[Table, Json], None]] = {
    "set-columns": _set_columns, "set-partition-columns": set_partitions,
    "set-protocol": lambda table, update: derive(table["properties"], update["protocol"], None),
    "set-properties": lambda table, update: table["properties"].update(update["updates"]),
    "remove-properties": _remove_properties, "set-domain-metadata": _set_domains,
    "remove-domain-metadata": _remove_domains,
    "set-table-comment": lambda table, update: table.update(comment=update["comment"]),
    "update-metadata-snapshot-version": _set_snapshot_version}


# -- commits ---------------------------------------------------------------------------------------------


def latest_of(table: Table) -> int:
    """The latest version that the server knows: 0 without a commit."""
    return int(table["rows"][-1]["version"]) if table["rows"] else 0


def unpublished(table: Table) -> list[Json]:
    """The commits that are not published, newest first."""
    return [row for row in reversed(table["rows"]) if row["version"] != table["marker"]]


def _committed(table: Table, actions: Mapping[str, Json], version: str, read: Callable[[str], bytes]) -> bool:
    """Do what a request says of commits; whether it is a resend, of which nothing is done."""
    add, report = actions.get("add-commit"), actions.get("set-latest-backfilled-version")
    if add is None and report is None:
        return False
    if table["type"] != "MANAGED":
        raise invalid("add-commit and set-latest-backfilled-version require a MANAGED Delta table")
    published = None if report is None else report["latest-published-version"]
    if add is None:
        _report(table, published)
        return False
    commit = add["commit"]
    formats = table["properties"].get("delta.universalFormat.enabledFormats", "")
    if ("iceberg" in formats) != ("uniform" in add):
        raise invalid("add-commit: uniform comes with a UniForm-enabled table, and with no other")
    if _changes_metadata(actions):
        _note_change(table, commit["version"], commit["timestamp"])
    return _add(table, commit, published, version, read)


def _report(table: Table, published: int) -> None:
    """Forget the commits up to a version; the last one stays, marked. Whether their files are there is not
    looked at."""
    if not table["rows"]:
        raise invalid("a backfill request requires a prior commit; the table's commit log is empty")
    latest = latest_of(table)
    if published > latest:
        raise invalid(f"should not backfill version {published} while the last version committed is {latest}")
    if published == latest:
        table["marker"] = latest
    table["rows"] = [row for row in table["rows"] if row["version"] > published or row["version"] == latest]


def _add(table: Table, commit: Json, published: int | None, version: str,
         read: Callable[[str], bytes]) -> bool:
    rows, latest = table["rows"], latest_of(table)
    if not rows:  # the first one has any version, and a report beside it is not looked at
        table["rows"] = [commit]
        return False
    if commit["version"] <= latest:
        return _is_resend(table, commit, version, read)
    if commit["version"] > latest + 1:
        raise invalid(f"commit version must be the next version after the latest commit {latest}, "
                      f"but got {commit['version']}")
    if published is not None and published > latest:
        raise invalid(f"latest backfilled version {published} is above the last commit {latest}")
    first = rows[0]["version"]
    before = table["marker"] if table["marker"] is not None else first - 1
    if published is not None:
        before = max(before, published)
    if commit["version"] - before > MOST_UNPUBLISHED:
        raise Refusal("ResourceExhaustedException", f"max number of commits per table reached: {table['id']}")
    rows.append(commit)
    if published is not None and published >= first:
        table["rows"] = [row for row in rows if row["version"] > published]
        if table["marker"] is not None and table["marker"] <= published:
            table["marker"] = None
    return False


def _is_resend(table: Table, commit: Json, version: str, read: Callable[[str], bytes]) -> bool:
    """Whether a version that is taken was taken by this very commit; refused where not.

    Releases before 0.6 refuse each; those after it read the files of versions that the server has forgotten.
    """
    taken = Refusal(CONFLICT, f"commit version already accepted: {commit['version']}")
    if version < "0.6":
        raise taken
    for row in table["rows"]:
        if row["version"] == commit["version"]:
            if row["file-name"] != commit["file-name"]:
                raise taken
            return True
    if version < "0.7":
        raise taken
    log = f"{table['location']}/_delta_log"
    try:
        staged = read(f"{log}/_staged_commits/{commit['file-name']}")
        same = staged == read(f"{log}/{commit['version']:020}.json")
    except OSError as error:
        raise Refusal(UNKNOWN, f"could not determine whether commit version {commit['version']} is a replay; "
                               "retry the request") from error
    if not same:
        raise taken
    return True
