"""Delta's values in Unity Catalog's JSON: columns, protocols, domains, commits.

What lives here: the checks of requests, which read Delta's own form, and the JSON of a table. This
API's names of fields have hyphens, within types, too.
What it does not know: requests, and what is done with the values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Json,
    array,
    choice,
    flag,
    plain,
    record,
    refuse,
    shaped,
    text,
    to_json,
    whole,
)
from deltanb.catalog.rest.forms import form, is_staged_name
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import Commit, Tail
from deltanb.schema.protocol import FEATURE_PREFIX
from deltanb.text.safe_text import shown

__all__ = ["bare", "columns_of", "columns_value", "commit_of", "domains_of", "is_derived", "last_change",
           "loaded_value", "properties_of", "protocol_of", "uniform_of", "uri_of"]

MAX_DEPTH = 100  # of nested types
MAINTENANCE = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
"""What writers may do to tables here beside committing rows: optimize, vacuum, clean up the log. The catalog
does none of it by itself."""
COUNT = whole(64, least=0)
_POSITIVE = whole(64, least=1)

# (Delta's name, the name here)
_PARTS = {"array": (("elementType", "element-type"), ("containsNull", "contains-null")),
          "map": (("keyType", "key-type"), ("valueType", "value-type"),
                  ("valueContainsNull", "value-contains-null"))}


# -- columns -----------------------------------------------------------------------------------------


def columns_value(kind: Any) -> Any:
    """A type of Delta's schema JSON as it is written here.

    >>> columns_value({"type": "array", "elementType": "long", "containsNull": True})
    {'type': 'array', 'element-type': 'long', 'contains-null': True}
    """
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = [{**each, "type": columns_value(each["type"])} for each in kind["fields"]]
        return {"type": "struct", "fields": fields}
    return {"type": kind["type"], **{
        name: columns_value(kind[delta_name]) for delta_name, name in _PARTS[kind["type"]]}}


@shaped({"type": ["string", "object"]})
def _some_type(value: Any, path: str) -> Any:
    return value


_FIELD = record({"name": text, "type": _some_type, "nullable": flag, "metadata": plain})
_STRUCT = record({"type": choice("struct"), "fields": array(_FIELD)})


@shaped(_STRUCT)
def columns_of(value: Any, path: str) -> Json:
    """The check of columns, as Delta's schema JSON."""
    columns = _type(value, path, 0)
    if not isinstance(columns, dict) or columns["type"] != "struct":
        refuse(f"{path}.type", "must be struct")
    return columns


def _type(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        refuse(path, f"is nested deeper than {MAX_DEPTH} types")
    if isinstance(value, str):
        return text(value, path)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "struct":
        fields = record({"type": text, "fields": array(_FIELD)})(value, path)["fields"]
        return {"type": "struct", "fields": [
            {**each, "type": _type(each["type"], f"{path}.fields[{at}].type", depth + 1)}
            for at, each in enumerate(fields)]}
    if kind not in ("array", "map"):
        refuse(f"{path}.type", "must be the name of a type, or struct, array or map")
    parts = _PARTS[kind]
    values = record({"type": text, **{
        name: (flag if "Null" in delta_name else plain) for delta_name, name in parts}})(
        value, path)
    return {"type": kind, **{
        delta_name: values[name] if "Null" in delta_name else _type(values[name], f"{path}.{name}", depth + 1)
        for delta_name, name in parts}}


def bare(kind: Any) -> Any:
    """A type without its fields' metadata, for comparison."""
    if isinstance(kind, str):
        return kind.replace(" ", "")
    if isinstance(kind, list):
        return [bare(each) for each in kind]
    if isinstance(kind, dict):
        return {name: bare(each) for name, each in kind.items() if name != "metadata"}
    return kind


# -- protocols, domains, commits ---------------------------------------------------------------------


_AT_LEAST_1 = shaped(COUNT)(whole(32, least=1))
_PROTOCOL = record({"min-reader-version": _AT_LEAST_1, "min-writer-version": _AT_LEAST_1},
                   {"reader-features": array(text), "writer-features": array(text)})


@shaped(_PROTOCOL)
def protocol_of(value: Any, path: str) -> Json:
    """The check of a protocol, as the log's action."""
    protocol = _PROTOCOL(value, path)
    names = {"min-reader-version": "minReaderVersion", "min-writer-version": "minWriterVersion",
             "reader-features": "readerFeatures", "writer-features": "writerFeatures"}
    return {names[name]: each for name, each in protocol.items()}


domains_of = record({}, {
    "delta.clustering": record({"clusteringColumns": array(array(text))}),
    "delta.rowTracking": record({"rowIdHighWaterMark": shaped(COUNT)(whole(64))})})
"""The check of domain metadata: what is set of each domain."""

uniform_of = record({"iceberg": shaped(plain)(record({}, {
    "metadata-location": text, "converted-delta-version": COUNT, "converted-delta-timestamp": COUNT,
    "base-converted-delta-version": COUNT}))})
"""The check of what is said of a table's conversion to Iceberg."""

_COMMIT = form(partial(Commit, txn_id=""), {
    "version": _POSITIVE, "timestamp": _POSITIVE, "file-name": text, "file-size": _POSITIVE,
    "file-modification-timestamp": _POSITIVE}, timestamp="ict", file_modification_timestamp="mtime")


@shaped(_COMMIT)
def commit_of(value: Any, path: str) -> Commit:
    """The form of a commit that is proposed, or not published yet."""
    commit: Commit = _COMMIT(value, path)
    if not is_staged_name(str(commit.file_name), commit.version):
        refuse(f"{path}.file-name", f"is not the name of a staged file of version {commit.version}: "
                                    f"{shown(commit.file_name)}")
    return commit


# -- a table -----------------------------------------------------------------------------------------


def loaded_value(row: TableRow, tail: Tail, location: str) -> Json:
    """A Delta table with its commits that are not published, newest first."""
    state = row.delta
    assert state is not None
    metadata = json.loads(state.metadata or "{}")
    version, time = last_change(state.etag, metadata)
    return {
        "metadata": {
            "etag": state.etag or f"{version}.{time}", "table-type": "MANAGED", "table-uuid": row.table_id,
            "location": location, "created-time": metadata.get("createdTime") or 0,
            "updated-time": time,
            "columns": columns_value(json.loads(metadata["schemaString"])),
            "partition-columns": metadata.get("partitionColumns") or [],
            "properties": properties_of(state),
            "last-commit-version": version, "last-commit-timestamp-ms": time},
        "commits": [to_json(commit_of, commit) for commit in reversed(tail.commits)],
        "latest-table-version": tail.latest,
        "allowed-maintenance-operations": list(MAINTENANCE)}


def properties_of(state: DeltaState) -> dict[str, str]:
    """A table's properties, with those that are derived from its protocol and its last change."""
    metadata, protocol = json.loads(state.metadata or "{}"), json.loads(state.protocol or "{}")
    version, time = last_change(state.etag, metadata)
    return {**(metadata.get("configuration") or {}), **_derived(protocol),
            "delta.lastUpdateVersion": str(version), "delta.lastCommitTimestamp": str(time)}


def _derived(protocol: Mapping[str, Any]) -> dict[str, str]:
    """The properties that are derived from the protocol."""
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return {"delta.minReaderVersion": str(protocol.get("minReaderVersion")),
            "delta.minWriterVersion": str(protocol.get("minWriterVersion")),
            **{FEATURE_PREFIX + name: "supported" for name in sorted(features)}}


DERIVED = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.clusteringColumns",
           "delta.rowTracking.rowIdHighWaterMark", "delta.lastUpdateVersion", "delta.lastCommitTimestamp")


def is_derived(name: str) -> bool:
    """Whether a property is derived, from the protocol or by the catalog, and cannot be set.

    >>> is_derived("delta.feature.rowTracking"), is_derived("delta.appendOnly")
    (True, False)
    """
    return name in DERIVED or name.startswith(FEATURE_PREFIX)


def last_change(etag: str | None, metadata: Mapping[str, Any]) -> tuple[int, int]:
    """The version and time of the last change of metadata, which the tag begins with.

    >>> last_change("7.1700000000000", {}), last_change(None, {"createdTime": 5})
    ((7, 1700000000000), (0, 5))
    """
    version, _, rest = (etag or "").partition(".")
    time = rest.partition(".")[0]
    if version.isdecimal() and time.isdecimal():
        return int(version), int(time)
    return 0, int(metadata.get("createdTime") or 0)


def uri_of(place: str) -> str:
    """A place as a URI."""
    return place if "://" in place or place.startswith("file:") else f"file://{place}"
