"""Delta tables as a catalog takes them over: what their logs have to have, and the row that is made of one.

What lives here: the checks of a table that a catalog is to manage, and its registration.
What it does not know: who asks, and where the table may lie.
"""

from __future__ import annotations

import json
from typing import Any

from deltanb.actions import Metadata, Protocol
from deltanb.catalog.delta.commits import UnregisteredCommits
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import InvalidArgument
from deltanb.log.snapshot import Snapshot
from deltanb.schema.protocol import CATALOG_MANAGED, CATALOG_TABLE_ID
from deltanb.store.base import LogStore
from deltanb.transaction.delta_log import DeltaLog

__all__ = ["managed_table", "register", "require_managed"]


def register(
    tables: Any, name: TableName, snapshot: Snapshot, table_id: str | None, principal: str | None
) -> TableRow:
    """Make a row for a table as its log is there; ``tables`` is a registry, or one behind a server."""
    return tables.register_delta(  # type: ignore[no-any-return]
        name, snapshot.log.path, snapshot.version, table_id, principal, ict=snapshot.timestamp,
        etag=f"{snapshot.version}.{snapshot.timestamp}",
        protocol=json.dumps(snapshot.protocol.to_value()), metadata=json.dumps(snapshot.metadata.to_value()))


def require_managed(protocol: dict[str, Any], metadata: dict[str, Any], table_id: str | None = None) -> None:
    """Refuse a table that no catalog could manage.

    Raises:
        InvalidArgument: the protocol lacks a feature, or a property is not set.
    """
    checked = Protocol.from_value(protocol)
    Metadata.from_value(metadata)
    for feature, kinds in ((CATALOG_MANAGED, ("reader", "writer")), ("inCommitTimestamp", ("writer",))):
        for kind in kinds:
            if feature not in (getattr(checked, f"{kind}_features") or ()):
                raise InvalidArgument(f"protocol: a managed table has the {kind} feature {feature}")
    properties = metadata.get("configuration") or {}
    if properties.get("delta.enableInCommitTimestamps") != "true":
        raise InvalidArgument("properties: a managed table has delta.enableInCommitTimestamps=true")
    if table_id is not None and properties.get(CATALOG_TABLE_ID) != table_id:
        found_id = properties.get(CATALOG_TABLE_ID)
        raise InvalidArgument(f"properties: {CATALOG_TABLE_ID} is {table_id}, found {found_id}")


def managed_table(store: LogStore, version: int, table_id: str | None) -> Snapshot:
    """The newest snapshot of the table in a folder, as its log is there, for a catalog to register it.

    Raises:
        InvalidArgument: there is no log, its newest version is another one, or no catalog could manage it.
    """
    log = DeltaLog(store, UnregisteredCommits(store))
    if not log.exists:
        raise InvalidArgument(f"location: there is no Delta table at {store.root}")
    snapshot = log.snapshot
    if snapshot.version != version:
        raise InvalidArgument(
            f"version: the log at {store.root} is at version {snapshot.version}, and not at {version}")
    require_managed(snapshot.protocol.to_value(), snapshot.metadata.to_value(), table_id)
    return snapshot
