"""The Delta API of a fake server of Unity Catalog: a part of :mod:`.fake`.

What lives here: one function per endpoint of ``/delta/v1``, and the table of them.
What it does not know: what an update does (``fake_updates``), and HTTP.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.catalog.unity.fake_faults import Answer, Asked
from tests.catalog.unity.fake_state import State, full_name
from tests.catalog.unity.fake_updates import (
    REQUIRED_FEATURES,
    REQUIRED_PROPERTIES,
    SUGGESTED_PROPERTIES,
    TABLE_ID,
    Json,
    Refusal,
    Table,
    derive,
    etag_of,
    fields_of,
    invalid,
    latest_of,
    require_contract,
    set_partitions,
    unpublished,
    updated,
)

DELTA = "/delta/v1"
_SCHEMA = f"{DELTA}/catalogs/{{catalog}}/schemas/{{schema}}"
_TABLE = f"{_SCHEMA}/tables/{{table}}"
ADVERTISED = (
    f"POST {_SCHEMA}/staging-tables", f"POST {_SCHEMA}/tables", f"GET {_SCHEMA}/tables", f"GET {_TABLE}",
    f"POST {_TABLE}", f"DELETE {_TABLE}", f"HEAD {_TABLE}", f"POST {_TABLE}/rename",
    f"GET {_TABLE}/credentials", f"POST {_TABLE}/metrics",
    f"GET {DELTA}/staging-tables/{{table_id}}/credentials", f"GET {DELTA}/temporary-path-credentials")
"""What ``config`` names; the real server serves neither the list of tables nor the credentials of a path."""

SINCE = {"tableExists": "0.6", "deleteTable": "0.6", "renameTable": "0.6", "reportMetrics": "0.6"}
"""From which release on an operation is served that ``config`` has named all along; others since 0.5."""


class DeltaApi(State):
    """The endpoints of ``/delta/v1``."""

    def _asked_table(self, asked: Asked) -> Table:
        return self._table(asked.names["catalog"], asked.names["schema"], asked.names["table"])

    def _delta_table(self, asked: Asked) -> Table:
        table = self._asked_table(asked)
        if table["format"] != "DELTA":
            raise Refusal("UnsupportedTableFormatException", f"It is not a Delta table: {full_name(table)}")
        return table

    def _config(self, asked: Asked) -> Any:
        for name in ("catalog", "protocol-versions"):
            if not asked.query.get(name):
                raise invalid(f"a parameter is missing: {name}")
        self._schemas(asked.query["catalog"])
        return {"endpoints": [each.replace("/delta", "") for each in ADVERTISED], "protocol-version": "1.0"}

    def _create_staging_table(self, asked: Asked) -> Any:
        name = fields_of(asked.body, {"name": str})["name"]
        self._refuse_taken(asked.names["catalog"], asked.names["schema"], name)
        table_id = str(uuid.uuid4())
        location = f"{self.root}/__unitystorage/tables/{table_id}"
        self._staging[table_id] = {"location": location, "committed": False}
        return {
            "table-id": table_id, "table-type": "MANAGED", "location": location,
            **self._vended(location, "READ_WRITE"),
            "required-protocol": {"min-reader-version": 3, "min-writer-version": 7,
                                  **{kind: list(names) for kind, names in REQUIRED_FEATURES.items()}},
            "suggested-protocol": {"reader-features": ["columnMapping"],
                                   "writer-features": ["columnMapping", "domainMetadata", "rowTracking"]},
            "required-properties": {**REQUIRED_PROPERTIES, TABLE_ID: table_id},
            "suggested-properties": SUGGESTED_PROPERTIES}

    def _create_table(self, asked: Asked) -> Any:
        body = fields_of(
            asked.body, {"name": str, "location": str, "table-type": str, "columns": dict, "protocol": dict,
                         "properties": dict, "last-commit-timestamp-ms": int},
            "comment", "partition-columns", "domain-metadata", "uniform")
        catalog, schema, properties = asked.names["catalog"], asked.names["schema"], dict(body["properties"])
        derive(properties, body["protocol"], body.get("domain-metadata"))
        if body["table-type"] == "MANAGED":
            require_contract(body["protocol"], properties)
        self._refuse_taken(catalog, schema, body["name"])
        properties |= {"delta.lastUpdateVersion": "0",
                       "delta.lastCommitTimestamp": str(body["last-commit-timestamp-ms"])}
        layout = {"columns": body["columns"].get("fields") or [], "partitions": []}
        set_partitions(layout, {"partition-columns": body.get("partition-columns") or []})
        if body["table-type"] == "MANAGED":
            table_id = self._commit_staging(body["location"], properties)
        else:
            table_id = self._new_external(body["table-type"], body["location"])
        table = self._new_table(
            catalog, schema, body, id=table_id, type=body["table-type"], format="DELTA",
            location=body["location"].rstrip("/"), properties=properties, **layout)
        return self._loaded(table)

    def _commit_staging(self, location: str, properties: Mapping[str, str]) -> str:
        """The id of the staging table at a place, which becomes a table."""
        for table_id, staging in self._staging.items():
            if staging["location"] == location.rstrip("/"):
                if staging["committed"]:
                    raise Refusal("InvalidParameterValueException",
                                  f"Staging table already committed: {location}", "FAILED_PRECONDITION")
                if properties.get(TABLE_ID) != table_id:
                    raise invalid(f"the table id ({table_id}) does not match the property {TABLE_ID}")
                staging["committed"] = True
                return table_id
        raise Refusal("NoSuchTableException", f"Staging table not found: {location}")

    def _load_table(self, asked: Asked) -> Any:
        return self._loaded(self._delta_table(asked))

    def _update_table(self, asked: Asked) -> Any:
        table = updated(self._delta_table(asked), asked.body, self.version, self._time, self.read)
        self._tables[full_name(table)] = table
        return self._loaded(table)

    def _loaded(self, table: Table) -> Json:
        properties = table["properties"]
        metadata: Json = {
            "etag": etag_of(table), "table-type": table["type"], "table-uuid": table["id"],
            "location": table["location"], "created-time": table["created"], "updated-time": table["updated"],
            "columns": {"type": "struct", "fields": table["columns"]},
            "partition-columns": table["partitions"], "properties": properties}
        for field, name in (("last-commit-version", "delta.lastUpdateVersion"),
                            ("last-commit-timestamp-ms", "delta.lastCommitTimestamp")):
            if name in properties:
                metadata[field] = int(properties[name])
        loaded: Json = {"metadata": metadata}
        if table["type"] == "MANAGED":
            loaded |= {"commits": unpublished(table), "latest-table-version": latest_of(table)}
        if self.version >= "0.7" and self.maintenance is not None:
            loaded["allowed-maintenance-operations"] = list(self.maintenance)
        return loaded

    def _delete_table(self, asked: Asked) -> Any:
        self._drop(self._asked_table(asked))
        return Answer(204)

    def _table_exists(self, asked: Asked) -> Any:
        self._asked_table(asked)
        return Answer(204)

    def _rename_table(self, asked: Asked) -> Any:
        name, table = fields_of(asked.body, {"new-name": str})["new-name"], self._asked_table(asked)
        if name != table["name"]:
            self._refuse_taken(table["catalog"], table["schema"], name)
            del self._tables[full_name(table)]
            table = {**table, "name": name, "updated": self._time()}
            self._tables[full_name(table)] = table
        return Answer(204)

    def _table_credentials(self, asked: Asked) -> Any:
        operation = asked.query.get("operation")
        if operation not in ("READ", "READ_WRITE"):
            raise invalid(f"unknown operation {operation}")
        return self._vended(self._asked_table(asked)["location"], operation)

    def _staging_credentials(self, asked: Asked) -> Any:
        staging = self._staging.get(asked.names["table_id"])
        if staging is None:
            raise Refusal("NoSuchTableException", f"Staging table not found: {asked.names['table_id']}")
        return self._vended(staging["location"], "READ_WRITE")

    def _vended(self, location: str, operation: str) -> Json:
        names = {"access_key_id": "s3.access-key-id", "secret_access_key": "s3.secret-access-key",
                 "session_token": "s3.session-token"}
        config = {} if location.startswith("file:") else {names[key]: each for key, each in self.keys.items()}
        return {"storage-credentials": [{"prefix": location, "operation": operation, "config": config,
                                         "expiration-time-ms": self.expires}]}

    def _report_metrics(self, asked: Asked) -> Any:
        body, table = fields_of(asked.body, {"table-id": str}, "report"), self._asked_table(asked)
        if body["table-id"] != table["id"]:
            raise invalid(f"table-id {body['table-id']} does not match table {full_name(table)}")
        return Answer(204)


ROWS: tuple[tuple[str, str, str, Callable[[Any, Asked], Any]], ...] = (
    ("GET", f"{DELTA}/config", "getConfig", DeltaApi._config),
    ("POST", f"{_SCHEMA}/staging-tables", "createStagingTable", DeltaApi._create_staging_table),
    ("POST", f"{_SCHEMA}/tables", "createTable", DeltaApi._create_table),
    ("GET", _TABLE, "loadTable", DeltaApi._load_table),
    ("POST", _TABLE, "updateTable", DeltaApi._update_table),
    ("DELETE", _TABLE, "deleteTable", DeltaApi._delete_table),
    ("HEAD", _TABLE, "tableExists", DeltaApi._table_exists),
    ("POST", f"{_TABLE}/rename", "renameTable", DeltaApi._rename_table),
    ("GET", f"{_TABLE}/credentials", "getTableCredentials", DeltaApi._table_credentials),
    ("POST", f"{_TABLE}/metrics", "reportMetrics", DeltaApi._report_metrics),
    ("GET", f"{DELTA}/staging-tables/{{table_id}}/credentials", "getStagingTableCredentials",
     DeltaApi._staging_credentials),
)
"""Method, path, operation, and what serves it."""
