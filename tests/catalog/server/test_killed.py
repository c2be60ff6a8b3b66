"""A server killed at every statement of its database and around every file: whole, and it answers again."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.endpoints import ICEBERG
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import EVERYONE
from deltanb.catalog.store.store import CatalogStore
from tests.catalog.iceberg_tables import SCHEMA, set_properties
from tests.catalog.script import die, each_statement, in_child
from tests.catalog.server.ask import change, new_key
from tests.helpers import tree

Json = dict[str, Any]
FEWEST_STEPS = 12  # of a commit of two tables: so many statements and files there are at least


def opened(url: str, lake: Path) -> Service:
    return Service(IcebergTables(CatalogStore(url, durability="none"), lake))


def asked(service: Service, name: str, body: Json, headers: dict[str, str], **params: str) -> Reply:
    """A request, answered without HTTP."""
    endpoint = next(each for each in ICEBERG if each.name == name)
    request = Request(service, EVERYONE, endpoint.method, "", params, {}, {
        key.lower(): value for key, value in headers.items()}, json.dumps(body).encode())
    return service.respond(endpoint, request)


def until(steps: int, url: str, lake: Path, ask: Callable[[Service], Reply]) -> Any:
    """Ask in a child that is killed at one of its steps; its status where it came to its end."""

    def call() -> int:
        service = opened(url, lake)
        numbers = itertools.count()

        def step(*_: Any) -> None:
            if next(numbers) == steps:
                die()

        each_statement(service.tables.store, step)
        put = service.tables.warehouse.store.put_if_absent

        def between(*args: Any, **more: Any) -> bool:
            step()
            done = put(*args, **more)
            step()
            return done

        service.tables.warehouse.store.put_if_absent = between  # type: ignore[method-assign]
        return ask(service).status

    return in_child(call)()


def check(service: Service, lake: Path) -> list[Json]:
    """Every file is a table's or noted as garbage; returns all tables."""
    names = [row.name for row in service.tables.store.tables.page("ns").items]
    tables = [table.metadata for table in service.tables.load_many(names).values()]
    mine = {str(service.tables.row(name).metadata_location) for name in names}
    mine |= {entry["metadata-file"] for table in tables for entry in table["metadata-log"]}
    noted = {path for path, _ in service.tables.store.garbage.due(2**62)}
    on_disk = {f"{service.tables.warehouse.uri}/{name}" for name in tree(lake) if not name.endswith(".tmp")}
    assert mine <= on_disk <= mine | noted and not mine & noted
    return tables


@pytest.mark.slow
def test_a_commit_of_two_tables(url: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    service = opened(url, lake)
    service.tables.store.namespaces.create("ns")
    for letter in "ab":
        service.tables.create(f"ns.{letter}", SCHEMA)
    for steps in itertools.count():
        update, key = set_properties(**{f"s{steps}": "1"}), new_key()
        body = {"table-changes": [change("a", update), change("b", update)]}

        def ask(service: Service, body: Json = body, key: dict[str, str] = key) -> Reply:
            return asked(service, "commit_tables", body, key)

        service.tables.store.close()
        ended = until(steps, url, lake, ask)
        one, other = (table["properties"] for table in check(service, lake))
        assert one == other
        if ended != signal.SIGKILL:
            assert ended == 200 and f"s{steps}" in one
            break
        landed, history = f"s{steps}" in one, len(service.tables.store.history())
        assert ask(service).status == 200
        one, other = (table["properties"] for table in check(service, lake))
        assert one == other and f"s{steps}" in one
        assert len(service.tables.store.history()) == history + (not landed)
    assert steps > FEWEST_STEPS
    service.tables.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["create_table", "rename_table", "create_namespace"])
def test_other_changes(url: str, tmp_path: Path, name: str) -> None:
    lake = tmp_path / "lake"
    service = opened(url, lake)
    service.tables.store.namespaces.create("ns")
    service.tables.create("ns.t", SCHEMA)
    current = "t"
    for steps in itertools.count():
        key, new = new_key(), f"n{steps}"
        body: Json = {
            "create_table": {"name": new, "schema": SCHEMA},
            "create_namespace": {"namespace": [new]},
            "rename_table": {"source": {"namespace": ["ns"], "name": current},
                             "destination": {"namespace": ["ns"], "name": new}}}[name]
        params = {"namespace": "ns"} if name == "create_table" else {}

        def ask(
            service: Service, body: Json = body, key: dict[str, str] = key, params: Any = params
        ) -> Reply:
            return asked(service, name, body, key, **params)

        service.tables.store.close()
        ended = until(steps, url, lake, ask)
        check(service, lake)
        if ended != signal.SIGKILL:
            assert ended in (200, 204)
            break
        assert ask(service).status in (200, 204)
        check(service, lake)
        current = new
    assert steps > 3
    service.tables.store.close()
