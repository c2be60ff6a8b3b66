"""A client of Unity Catalog's Delta API that writes a table's log by itself."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.log.commits import STAGED_FOLDER, commit_name
from tests.catalog.server.ask import Client

Json = dict[str, Any]
ROOT = "/delta/v1"
TABLES = f"{ROOT}/catalogs/default/schemas/ns/tables"
ORDERS = f"{TABLES}/orders"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "unity-server.md"


class Table:
    """Stages commits of ``ns.orders``, and says what a request has to say of them."""

    def __init__(self, catalog: dn.Catalog) -> None:
        self.catalog = catalog
        row = catalog.store.tables.load("ns.orders")
        self.id = row.table_id
        self.folder = Path(row.delta.location)

    def stage(self, version: int, *actions: Json, name: str | None = None) -> Json:
        """Write a commit where it does not count; the update that proposes it."""
        row = self.catalog.store.tables.load("ns.orders")
        time = row.delta.last_ict + 1 + version
        info = {"commitInfo": {"inCommitTimestamp": time, "txnId": str(uuid.uuid4()), "operation": "WRITE"}}
        body = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in (info, *actions))
        name = name or f"{version:020}.{uuid.uuid4()}.json"
        path = self.folder / STAGED_FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(body)
        return {"action": "add-commit", "commit": {
            "version": version, "timestamp": time, "file-name": name, "file-size": len(body),
            "file-modification-timestamp": time}}

    def publish(self, version: int, name: str) -> None:
        shutil.copy(self.folder / STAGED_FOLDER / name, self.folder / commit_name(version))

    def metadata(self, **changes: Any) -> Json:
        """A metaData action that changes the table's."""
        now = json.loads(self.catalog.store.tables.load("ns.orders").delta.metadata)
        return {"metaData": {**now, **changes}}

    def ask(self, *updates: Json, uuid: str | None = None, etag: str | None = None) -> Json:
        """A request for updates."""
        requirements = [{"type": "assert-table-uuid", "uuid": uuid or self.id}]
        if etag is not None:
            requirements.append({"type": "assert-etag", "etag": etag})
        return {"requirements": requirements, "updates": list(updates)}


def published(version: int) -> Json:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def json_of(answer: Any) -> Json:
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def staging(client: Client, name: str = "new") -> Json:
    return json_of(client.post(TABLES.replace("tables", "staging-tables"), json={"name": name}))
