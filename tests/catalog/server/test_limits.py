"""What one commit may ask for, and how long it may take, whoever else writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.app import cli
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.limits import Limits
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.catalog.store.store import CatalogStore
from deltanb.concurrency.parallel import workers
from tests.catalog.conftest import url_of
from tests.catalog.iceberg_tables import SCHEMA, set_properties
from tests.catalog.server.ask import TABLES, Client, change, commit, error, loaded, made, new_key

CLIENTS = 12
Json = dict[str, Any]


# -- many clients at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True], ids=["one table", "two tables"])
def test_what_requires_nothing_is_merged(client: Client, many: bool) -> None:
    """Twelve clients each set a property of their own: all of them succeed, and all properties are there."""
    made(client, "t", "u")
    start = threading.Barrier(CLIENTS)

    def ask(number: int) -> int:
        update = set_properties(**{f"p{number}": str(number)})
        start.wait()
        if many:
            return int(commit(client, change("t", update), change("u", update)).status_code)
        return int(client.post(f"{TABLES}/t", json={"requirements": [], "updates": [update]}).status_code)

    with workers(CLIENTS, "test") as pool:
        assert list(pool.map(ask, range(CLIENTS))) == [200] * CLIENTS
    for name in ("t", "u") if many else ("t",):
        assert loaded(client, name)["properties"] == {f"p{number}": str(number) for number in range(CLIENTS)}


def test_a_transaction_with_an_iceberg_table_is_merged_however_often_it_loses(
    store: CatalogStore, tmp_path: Path
) -> None:
    with dn.Catalog(url_of(store), tmp_path / "lake") as catalog:
        catalog.create_table("ns.i", "id bigint", format="iceberg")
        catalog.create_table("ns.d", "id bigint")
        rivals, ratify = list(range(9)), catalog.store.ratify

        def and_a_rival(*args: Any, **more: Any) -> Any:
            if rivals and len(args[2]) > 1:
                catalog.table("ns.i")._commit([], [set_properties(rival=str(rivals.pop(0)))])
            return ratify(*args, **more)

        catalog.store.ratify = and_a_rival
        with catalog.transaction() as txn:
            txn.table("ns.i")._commit([], [set_properties(mine="1")])
            txn.table("ns.d").append({"id": [1]})
        assert catalog.table("ns.i").properties == {"rival": "8", "mine": "1"} and not rivals
        assert catalog.table("ns.d").to_arrow().num_rows == 1


# -- a database that is locked -----------------------------------------------------------------------

LOCKS = {"sqlite": "BEGIN EXCLUSIVE", "postgresql": "LOCK TABLE dn_garbage, iceberg_tables"}


@contextmanager
def locked(url: str) -> Iterator[None]:
    """A database that another program holds."""
    with CatalogStore(url) as other, other.database.engine.connect() as connection:
        connection.exec_driver_sql(LOCKS[connection.dialect.name])
        yield
        connection.exec_driver_sql("ROLLBACK")


LATE: dict[str, Callable[[Client], Any]] = {
    "many tables": lambda client: commit(client, change("t", set_properties(a="b"))),
    "with a key": lambda client: commit(client, change("t", set_properties(a="b")), headers=new_key()),
    "one table": lambda client: client.post(
        f"{TABLES}/t", json={"requirements": [], "updates": [set_properties(a="b")]}),
    "a new table": lambda client: client.post(TABLES, json={"name": "v", "schema": SCHEMA}),
    "a staging table": lambda client: client.post(
        "/delta/v1/catalogs/default/schemas/ns/staging-tables", json={"name": "w"}),
    "a folder's note": lambda client: client.post("/deltanb/v1/places/record", json={
        "table-id": "x", "locations": [f"{client.get('/deltanb/v1/config').json()['warehouse']}/x"]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", LATE)
def test_the_time_of_a_commit_holds_while_the_database_is_locked(
    store: CatalogStore, tmp_path: Path, way: str, files: Callable[[], set[str]]
) -> None:
    tables = IcebergTables(store, tmp_path / "lake", Limits(seconds=0.3))
    with Client(application(Service(tables))) as client:
        made(client, "t")
        before = files()
        with locked(url_of(store)):  # until it is answered
            late = LATE[way](client)
        assert error(late)[0] == 503
        assert "longer than 0.3 seconds" in late.json()["error"]["message"]
        assert "deltanb" not in late.json()["error"]["message"]
        assert loaded(client, "t")["properties"] == {} and files() == before
        tables.committer.limits = Limits()
        assert LATE[way](client).status_code == 200  # nothing of it stays with the connections


@pytest.mark.slow
def test_it_holds_for_who_waits_for_others_to_be_served(store: CatalogStore, tmp_path: Path) -> None:
    """Each of them has the database for all of its time, one after the other."""
    seconds = 5  # what else the machine does is little beside it
    tables = IcebergTables(store, tmp_path / "lake", Limits(seconds=seconds))
    with Client(application(Service(tables, settings=Settings(threads=1)))) as client:
        made(client, "t")
        with locked(url_of(store)), workers(CLIENTS, "test") as pool:
            began = time.monotonic()
            late = [pool.submit(commit, client, change("t", set_properties(a=str(number))))
                    for number in range(CLIENTS)]
            assert [each.result().status_code for each in late] == [503] * CLIENTS
            assert time.monotonic() - began < CLIENTS * seconds / 2


@pytest.mark.slow
def test_it_holds_in_the_process_too(store: CatalogStore, tmp_path: Path) -> None:
    with dn.Catalog(url_of(store), tmp_path / "lake", limits=dn.Limits(seconds=0.3)) as catalog:
        catalog.create_table("ns.i", "id bigint", format="iceberg")
        catalog.create_table("ns.d", "id bigint")
        txn = catalog.transaction()
        txn.table("ns.d").append({"id": [1]})
        alone = [{"action": "set-properties", "updates": {"a": "b"}}]
        with locked(url_of(store)):
            for work in (txn.commit, lambda: catalog.table("ns.i")._commit([], alone)):
                if work != txn.commit and store.database.engine.dialect.name == "postgresql":
                    continue  # there the table cannot be looked up either
                with pytest.raises(errors.CommitTimedOut, match="longer than 0.3 seconds"):
                    work()
        assert txn.status == "failed" and catalog.table("ns.d").to_arrow().num_rows == 0
        catalog.table("ns.d").append({"id": [1]})


# -- how many ----------------------------------------------------------------------------------------


def refused_over_http(url: str, tables: int, updates: int) -> str:
    import httpx

    changes = [change(f"t{at}", *[set_properties(a="b")] * updates) for at in range(tables)]
    answer = httpx.post(f"{url}/v1/transactions/commit", json={"table-changes": changes})
    return str(answer.json()["error"]["message"])


def test_limits_are_those_of_the_catalog_and_of_who_serves_it(store: CatalogStore, tmp_path: Path) -> None:
    few = dn.Limits(tables=2, updates=3)
    with dn.Catalog(url_of(store), tmp_path / "lake", limits=few) as catalog:
        for name in "abc":
            catalog.create_table(f"ns.{name}", "id bigint")
        assert catalog.limits == few
        txn = catalog.transaction()
        for name in "abc":
            txn.table(f"ns.{name}").append({"id": [1]})
        with pytest.raises(errors.InvalidArgument, match=r"may have 2 tables, and this one has 3.*tables=3"):
            txn.commit()
        assert [catalog.table(f"ns.{name}").version for name in "abc"] == [0, 0, 0]
        catalog.create_table("ns.i", "id bigint", format="iceberg")
        txn = catalog.transaction()
        for number in range(4):
            txn.table("ns.i")._commit([], [set_properties(a=str(number))])
        with pytest.raises(errors.InvalidArgument, match="may have 3 updates of a table, and this one has 4"):
            txn.commit()
        assert catalog.table("ns.i").properties == {}
        with catalog.serve() as server:
            assert "has 3 tables, and a commit may have 2" in refused_over_http(server.url, 3, 1)
            assert "has 4 updates, and a table may have 3" in refused_over_http(server.url, 1, 4)
        with catalog.serve(limits=dn.Limits(tables=1)) as server, dn.connect(server.url) as remote:
            assert "has 2 tables, and a commit may have 1" in refused_over_http(server.url, 2, 1)
            assert remote.limits is None
            txn = remote.transaction()
            for name in "ab":
                txn.table(f"ns.{name}").append({"id": [1]})
            with pytest.raises(errors.BadRequest, match="2 tables, and a commit may have 1"):
                txn.commit()


def test_a_commit_may_have_all_the_time_in_the_world(store: CatalogStore, tmp_path: Path) -> None:
    tables = IcebergTables(store, tmp_path / "lake", Limits(seconds=10**12))
    with Client(application(Service(tables))) as client:
        made(client, "t")
        assert commit(client, change("t", set_properties(a="b"))).status_code == 200


@pytest.mark.parametrize("wrong", [
    {"tables": 0}, {"tables": 1.5}, {"tables": True}, {"updates": -1}, {"updates": "7"}, {"seconds": -1},
    {"seconds": "30"}, {"seconds": float("nan")}, {"seconds": float("inf")},
])
def test_limits_that_are_none_are_refused(wrong: Json) -> None:
    with pytest.raises(errors.InvalidArgument, match=next(iter(wrong))):
        dn.Limits(**wrong)


def test_something_else_than_limits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"limits=30 are not limits; give deltanb\.Limits"):
        dn.Catalog(f"sqlite:///{tmp_path}/c.db", tmp_path / "lake", limits=30)  # type: ignore[arg-type]
    assert not (tmp_path / "c.db").exists()


def test_the_command_takes_each_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    output = capsys.readouterr().out
    assert all(f"--max-{each.name}" in output and "default "
                                                  f"{each.default}" in output for each in fields(Limits))


# -- a table that the Iceberg REST API does not serve --------------------------------------------------

ASKED: dict[str, Callable[[Client], Any]] = {
    "in table-changes": lambda client: commit(client, change("t"), change("d", set_properties(a="b"))),
    "committed to": lambda client: client.post(f"{TABLES}/d", json={"requirements": [], "updates": []}),
    "loaded": lambda client: client.get(f"{TABLES}/d"),
    "dropped": lambda client: client.delete(f"{TABLES}/d"),
    "renamed": lambda client: client.post("/v1/tables/rename", json={
        "source": {"namespace": ["ns"], "name": "d"}, "destination": {"namespace": ["ns"], "name": "e"}}),
    "reported on": lambda client: client.post(f"{TABLES}/d/metrics", json={"report-type": "scan-report"}),
}


@pytest.mark.parametrize("way", ASKED)
def test_a_delta_table_is_said_to_be_one(client: Client, service: Service, way: str) -> None:
    made(client, "t")
    service.tables.store.tables.register_delta("ns.d", "lake/d", 0)
    answer = ASKED[way](client)
    assert error(answer) == (404, "NoSuchTableException")
    message = answer.json()["error"]["message"]
    assert message.startswith("Table does not exist: ns.d") and "ns.d is a Delta table" in message


def test_what_is_missing_and_what_is_a_delta_table_are_told_apart(client: Client, service: Service) -> None:
    made(client, "t")
    service.tables.store.tables.register_delta("ns.d", "lake/d", 0)
    answer = commit(client, change("d"), change("t", set_properties(a="b")), change("x"))
    message = answer.json()["error"]["message"]
    assert message.startswith("Table does not exist: ns.d, ns.x (ns.d is a Delta table")
    assert loaded(client, "t")["properties"] == {}
