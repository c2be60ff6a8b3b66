"""What Unity Catalog's own server accepts, and this one only where it is lax, for tests of clients."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.log.commits import STAGED_FOLDER
from tests.catalog.server.ask import Client, error
from tests.catalog.server.unity import ORDERS, PAGE, TABLES, Json, Table, json_of, published, staging

COLUMNS = {"type": "struct", "fields": [
    {"name": "other", "type": "string", "nullable": True, "metadata": {}}]}
Ask = Callable[[Client, Table], Any]


@pytest.fixture
def lax(service: Service, orders: Table) -> Iterator[Client]:
    """Asks the server, which believes what it is asked."""
    service.settings = Settings(lax=True)
    with Client(application(service)) as client:
        yield client


def test_a_lax_server_is_had_as_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    with names["server"] as server:
        assert server.service.settings.lax


def post(*updates: Json) -> Ask:
    return lambda client, orders: client.post(ORDERS, json=orders.ask(*updates))


def _commit(*updates: Json, is_missing: bool = False, **changes: Any) -> Ask:
    """Propose version 1, with other fields than its staged file is of."""

    def ask(client: Client, orders: Table) -> Any:
        add = orders.stage(1)
        if is_missing:
            (orders.folder / STAGED_FOLDER / add["commit"]["file-name"]).unlink()
        return client.post(ORDERS, json=orders.ask({**add, "commit": {**add["commit"], **changes}}, *updates))

    return ask


def _report_falsely(client: Client, orders: Table) -> Any:
    json_of(client.post(ORDERS, json=orders.ask(orders.stage(1))))
    return client.post(ORDERS, json=orders.ask(published(1)))


def _create_without_a_file(client: Client, orders: Table) -> Any:
    staged = staging(client)
    return client.post(TABLES, json={
        "name": "new", "location": staged["location"], "table-type": "MANAGED", "columns": COLUMNS,
        "protocol": staged["required-protocol"], "properties": staged["required-properties"],
        "comment": "believed", "last-commit-timestamp-ms": 5})


BELIEVED: dict[str, Ask] = {
    "a time before that of the version before": _commit(timestamp=1),
    "no staged file": _commit(is_missing=True),
    "another size": _commit(**{"file-size": 7}),
    "other columns than the file's": _commit({"action": "set-columns", "columns": COLUMNS}),
    "published, and not in the log": _report_falsely,
    "columns without a commit": post({"action": "set-columns", "columns": COLUMNS}),
    "Delta's properties without a commit": post(
        {"action": "set-properties", "updates": {"delta.appendOnly": "true"}}),
    "a table without a first version": _create_without_a_file,
}


@pytest.mark.parametrize("ask", BELIEVED.values(), ids=BELIEVED)
def test_what_is_believed_is_refused_by_default(client: Client, orders: Table, ask: Ask) -> None:
    answer = ask(client, orders)
    assert error(answer) == (400, "InvalidParameterValueException")


@pytest.mark.parametrize("ask", BELIEVED.values(), ids=BELIEVED)
def test_a_lax_server_believes_it(lax: Client, orders: Table, ask: Ask) -> None:
    json_of(ask(lax, orders))


def test_what_is_believed_is_what_the_catalog_has(lax: Client, orders: Table) -> None:
    columns = {"action": "set-columns", "columns": COLUMNS}
    after = json_of(_commit(columns, {"action": "remove-properties", "removals": ["none"]})(lax, orders))
    assert after["metadata"]["columns"] == COLUMNS and after["latest-table-version"] == 1
    assert after["metadata"]["last-commit-version"] == 1
    required = staging(lax)["required-protocol"]
    after = json_of(post({"action": "set-protocol", "protocol": {
        **required, "writer-features": [*required["writer-features"], "appendOnly"]}})(lax, orders))
    assert after["metadata"]["properties"]["delta.feature.appendOnly"] == "supported"
    assert json_of(lax.post(ORDERS, json=orders.ask(published(1))))["commits"] == []
    made = json_of(_create_without_a_file(lax, orders))["metadata"]
    assert made["columns"] == COLUMNS and made["properties"]["delta.checkpointPolicy"] == "v2"
    row = orders.catalog.store.tables.load("ns.new")
    assert json.loads(row.delta.metadata)["description"] == "believed"


def test_a_lax_server_reads_no_file_to_know_a_commit_again(lax: Client, orders: Table) -> None:
    first = orders.stage(1)
    json_of(lax.post(ORDERS, json=orders.ask(first)))
    json_of(lax.post(ORDERS, json=orders.ask(published(1))))  # and it is not: no such file is in the log
    assert error(lax.post(ORDERS, json=orders.ask(first))) == (409, "CommitVersionConflictException")


def test_a_lax_server_holds_what_the_real_one_holds(lax: Client, orders: Table) -> None:
    """Versions in their order, one commit a version, the table's id, no report of what is not ratified."""
    first = orders.stage(1)
    json_of(lax.post(ORDERS, json=orders.ask(first)))
    json_of(lax.post(ORDERS, json=orders.ask(first)))
    other = orders.stage(1)
    assert error(lax.post(ORDERS, json=orders.ask(other))) == (409, "CommitVersionConflictException")
    invalid = (400, "InvalidParameterValueException")
    assert error(lax.post(ORDERS, json=orders.ask(orders.stage(3)))) == invalid
    assert error(lax.post(ORDERS, json=orders.ask(published(2)))) == invalid
    assert error(lax.post(ORDERS, json=orders.ask(orders.stage(2), uuid=str(uuid.uuid4())))) == (
        409, "UpdateRequirementConflictException")
