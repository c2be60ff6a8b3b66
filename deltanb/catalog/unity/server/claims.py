"""What a request says of a table, believed: how Unity Catalog's own server takes updates.

What lives here: a table's protocol and metadata after updates, of which no file is read.
What it does not know: which updates are believed: of what only the catalog keeps; from a server whose
settings are ``lax``, all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.rows import DeltaState

__all__ = ["believed"]


def believed(updates: Mapping[str, Json], state: DeltaState, version: int, time: int) -> DeltaState:
    """A table's state after updates by action; its tag names the change, where there is one.

    >>> empty = DeltaState("lake/t", 0, 0, metadata='{"configuration": {"a": "1"}}')
    >>> after = believed({"remove-properties": {"removals": ["a"]}}, empty, 3, 1700000000000)
    >>> after.metadata, after.etag
    ('{"configuration": {}}', '3.1700000000000')
    """
    before = protocol, metadata = json.loads(state.protocol or "{}"), json.loads(state.metadata or "{}")
    for action, update in updates.items():
        if action == "set-protocol":
            protocol = update["protocol"]
        elif action in _CHANGES:
            metadata = {**metadata, **_CHANGES[action](update, metadata)}
    if (protocol, metadata) == before:
        return state
    return replace(state, protocol=json.dumps(protocol), metadata=json.dumps(metadata),
                   etag=f"{version}.{time}")


def _set(update: Json, metadata: Json) -> Json:
    return {"configuration": {**(metadata.get("configuration") or {}), **update["updates"]}}


def _removed(update: Json, metadata: Json) -> Json:
    return {"configuration": {name: each for name, each in (metadata.get("configuration") or {}).items()
                              if name not in update["removals"]}}


_CHANGES: Mapping[str, Callable[[Json, Json], dict[str, Any]]] = {
    "set-properties": _set, "remove-properties": _removed,
    "set-columns": lambda update, _: {"schemaString": json.dumps(update["columns"])},
    "set-partition-columns": lambda update, _: {"partitionColumns": update["partition-columns"]},
    "set-table-comment": lambda update, _: {"description": update["comment"]}}
"""What an update changes of the metadata; the catalog keeps no domains."""
