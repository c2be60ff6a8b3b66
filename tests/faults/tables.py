"""What a table is, whole, as somebody reads it who was not there: ours without any cache, and delta-rs.

What lives here: :func:`state`, everything of a table that a command may or may not have done, as plain values
that can be compared; :func:`files`, what lies in a folder.
What it does not know: commands, and what is struck.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from deltanb.commands.read.changes import changes
from deltanb.errors import MissingChangeData
from deltanb.log.snapshot import Snapshot
from deltanb.store.local import LocalStore
from deltanb.table.table import DeltaTable
from deltanb.transaction.delta_log import DeltaLog

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
State = dict[str, Any] | None


def state(path: Path, version: int | None = None) -> State:
    """A table as it is, or was at a version; None where there is none.

    Left out is what differs between two runs of one command: times, ids, names of files.
    """
    log = DeltaLog(LocalStore(path))
    if not log.exists:
        return None
    table = DeltaTable(log) if version is None else DeltaTable(log).as_of(version)
    facts = {
        "version": table.version,
        "rows": rows(table.to_arrow()),
        "schema": table.schema.to_json(),
        "partition columns": table.partition_columns,
        "properties": dict(table.properties),
        "name": table.metadata.name,
        "description": table.metadata.description,
        "protocol": table.protocol.to_json(),
        "domains": {name: domain.to_json() for name, domain in table.snapshot.domain_metadata.items()},
        "applications": dict(table.snapshot.set_transactions),
        "files": file_rows(table.snapshot),
        "changes": change_rows(table),
        "operation": operation(log, table.version),
        "delta-rs": second_reader(path, table.version),
    }
    return {name: json.loads(ID.sub("<id>", json.dumps(value))) for name, value in facts.items()}


def rows(table: pa.Table) -> list[str]:
    """The rows in an order of their own."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


def file_rows(snapshot: Snapshot) -> list[str]:
    """What the log says of each file but its name, size and time."""
    table = snapshot.files.select(
        ["partition_values", "stats", "base_row_id", "default_row_commit_version", "deletion_vector"])
    texts = []
    for row in table.to_pylist():
        vector = row.pop("deletion_vector")
        row["deleted"] = vector and vector["cardinality"]
        texts.append(json.dumps(row, sort_keys=True, default=str))
    return sorted(texts)


def change_rows(table: DeltaTable) -> list[str] | str | None:
    """The change data feed of the version; None where the feed is off, and why where it has a gap."""
    if table.properties.get("delta.enableChangeDataFeed") != "true":
        return None
    try:
        changed = changes(table.log, table.version, table.version)
    except MissingChangeData as error:
        return error.kind
    return rows(changed.drop_columns("_commit_timestamp"))


def operation(log: DeltaLog, version: int) -> str | None:
    """The name of what made the version; None where its commit was cleaned up."""
    commit = next((entry for entry in log.history() if entry.version == version), None)
    return commit.operation if commit else None


def second_reader(path: Path, version: int) -> list[str] | str:
    """The rows as delta-rs reads them; why it does not, where it cannot."""
    try:
        table = deltalake.DeltaTable(path, version=version)
        result = deltalake.QueryBuilder().register("t", table).execute("select * from t")
        return rows(pa.table(result))
    except Exception as error:
        return f"refused: {type(error).__name__}"


def files(folder: Path) -> set[str]:
    """The names of all files below a folder, relative to it."""
    return {os.path.relpath(os.path.join(place, name), folder)
            for place, _, names in os.walk(folder) for name in names}
