"""A Unity Catalog as people see it, and that each method of a catalog works there or is refused by name."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.app.cli import main
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.unity.client import overview
from deltanb.catalog.unity.client.catalog import REFUSED, REFUSED_FUNCTIONS, UnityCatalog
from deltanb.locks import LockManager
from deltanb.observe import catalog_timeline
from deltanb.options import StepClock
from tests.catalog.unity.clients import SERVERS, Server, of_release
from tests.helpers import ids
from tests.notebook.looks import assert_consistent, assert_golden


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with dn.set_options(durability="none"), SERVERS[request.param](tmp_path) as server:
        server.catalog.create_table("shop.orders", {"id": [1]})
        yield server


@pytest.fixture
def newest(tmp_path: Path) -> Iterator[Server]:
    with dn.set_options(durability="none"), of_release("0.7", tmp_path) as server:
        yield server


METHODS: dict[str, Callable[[Any, Path], Any]] = {
    "close": lambda c, _: c.close(),
    "commit_iceberg": lambda c, _: c.commit_iceberg(),
    "create_namespace": lambda c, _: c.create_namespace("attic"),
    "create_table": lambda c, _: c.create_table("shop.t", {"id": [1]}),
    "drop_namespace": lambda c, _: (c.create_namespace("attic"), c.drop_namespace("attic")),
    "drop_table": lambda c, _: c.drop_table("shop.orders"),
    "history": lambda c, _: c.history(),
    "list_namespaces": lambda c, _: c.list_namespaces(),
    "list_tables": lambda c, _: c.list_tables("shop"),
    "names_of": lambda c, _: c.names_of([]),
    "namespace_properties": lambda c, _: c.namespace_properties("shop"),
    "over": lambda c, _: None,  # makes a catalog of another kind of store
    "overview": lambda c, _: c.overview(),
    "page": lambda c, _: c.page("shop"),
    "register_table": lambda c, path: c.register_table("shop.e", dn.create(path / "e", {"id": [1]}).path),
    "rename_table": lambda c, _: c.rename_table("shop.orders", "shop.sales"),
    "require_for": lambda c, _: c.require_for("race"),
    "serve": lambda c, _: c.serve(),
    "snapshot": lambda c, _: c.snapshot(["shop.orders"]),
    "as_of": lambda c, _: c.as_of(0),
    "sql": lambda c, _: c.sql("SELECT id FROM shop.orders"),
    "table": lambda c, _: c.table("shop.orders"),
    "table_at": lambda c, _: c.table_at("shop.orders", 1),
    "timeline": lambda c, _: c.timeline(),
    "transaction": lambda c, _: c.transaction(),
    "update_namespace_properties": lambda c, _: c.update_namespace_properties("shop", {"owner": "ada"}),
}


def test_every_method_of_a_catalog_is_tried() -> None:
    public = {name for name, _ in inspect.getmembers(dn.Catalog, callable) if not name.startswith("_")}
    of_displays = {name for name in public if name not in vars(dn.Catalog)}
    assert public - of_displays == METHODS.keys()
    assert REFUSED.keys() <= METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_works_or_is_refused_by_name(server: Server, name: str, tmp_path: Path) -> None:
    if name in REFUSED:
        with pytest.raises(errors.InvalidArgument, match=rf"Unity Catalog has no {name}\(\): .+;"):
            METHODS[name](server.catalog, tmp_path)
        return
    try:
        METHODS[name](server.catalog, tmp_path)
    except errors.InvalidArgument as error:
        known = {"rename_table": "its release does not serve", "require_for": "no race()",
                 "register_table": "none is registered at a location of its own"}
        assert name in known and known[name] in str(error)


@pytest.mark.parametrize("name", REFUSED_FUNCTIONS)
def test_a_function_of_several_tables_is_refused_by_name(newest: Server, name: str) -> None:
    arguments: Any = (lambda tables: True,) if name == "bisect" else ({"ann": print, "ben": print},)
    with pytest.raises(errors.InvalidArgument, match=rf"Unity Catalog has no {name}\(\): .+; {name} "):
        getattr(dn, name)(newest.catalog, *arguments)


def test_functions_work_on_one_of_its_tables(newest: Server) -> None:
    table: Any = newest.catalog.create_table("shop.orders", {"id": [1]})
    raced = dn.race(table, {"ann": lambda t: t.append({"id": [2]}), "ben": lambda t: t.append({"id": [3]})})
    assert raced.outcomes == {"ann": 1, "ben": 2}
    assert dn.bisect(table, lambda t: t.count() < 3).first_bad == 2
    with LockManager().new_transaction() as txn:
        txn.table(table).append({"id": [4]})
        txn.commit()
    assert ids(table) == [1, 2, 3, 4]


def test_two_of_its_tables_are_not_locked_together(newest: Server) -> None:
    one, other = (newest.catalog.create_table(f"shop.{name}", {"id": [1]}) for name in ("a", "b"))
    with LockManager().new_transaction() as txn, pytest.raises(
            errors.InvalidArgument, match=r"shop\.a of catalog main and shop\.b of catalog main .* each"):
        txn.table(one).append({"id": [2]})
        txn.table(other).append({"id": [2]})


@pytest.mark.parametrize("arguments", [["serve", "--no-auth"], ["catalog", "check"], ["catalog", "sweep"]])
def test_commands_on_a_database_refuse_a_unity_catalog(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rest = ["--catalog", "uc://localhost:1/main", "--warehouse", str(tmp_path)]
    if arguments[0] == "catalog":
        rest = rest[:2]
    assert main([*arguments, *rest]) == 2
    assert "a catalog cannot be kept in uc" in capsys.readouterr().err


# -- what it looks like ------------------------------------------------------------------------------------


def whole(server: Server, path: Path) -> None:
    server.catalog.create_namespace("attic")
    server.catalog.create_table("shop.orders", {"id": [1]})
    server.catalog.create_table("shop.rates", {"id": [1]}, location=path / "rates")


def large(server: Server, path: Path) -> None:
    """More schemas than are named, and more tables than are listed."""
    for number in range(overview.MAX_LISTED + 1):
        server.catalog.create_namespace(f"attic{number}")
    for number in range(23):
        server.catalog.create_table(f"attic1.t{number:02d}", "id long")


MOMENTS: dict[str, Callable[[Server, Path], object]] = {
    "unity_catalog": whole, "unity_catalog_large": large,
    "unity_catalog_empty": lambda server, _: server.catalog.drop_namespace("shop")}


@pytest.mark.parametrize("name", MOMENTS)
def test_every_moment_looks_as_it_did(
    newest: Server, name: str, tmp_path: Path, update_golden: bool
) -> None:
    MOMENTS[name](newest, tmp_path)
    assert_consistent(newest.catalog)
    assert_golden(newest.catalog, name, update_golden)


def test_a_picture_costs_a_handful_of_requests(newest: Server, tmp_path: Path) -> None:
    large(newest, tmp_path)
    connection = newest.catalog.store.connection
    asked: list[str] = []
    question = connection.question
    connection.question = lambda row, *rest: (asked.append(row.name), question(row, *rest))[1]
    str(newest.catalog)
    assert asked[0] == "list_schemas" and 1 < len(asked) <= 1 + overview.MAX_LISTED
    assert set(asked[1:]) == {"list_tables"}


def test_a_schema_whose_tables_are_not_to_be_listed_is_named(
    newest: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise errors.Forbidden("no USE SCHEMA")

    monkeypatch.setattr(newest.catalog.store.tables, "page", refused)
    assert isinstance(newest.catalog, UnityCatalog)
    assert "tables of shop cannot be listed: Forbidden" in str(newest.catalog)


# -- its timeline ------------------------------------------------------------------------------------------


def test_a_timeline_has_the_commits_of_all_tables_in_their_order(newest: Server, tmp_path: Path) -> None:
    with dn.set_options(clock=StepClock(1_700_000_000_000, step=1_000), user_name="ada"):
        orders = newest.catalog.create_table("shop.orders", {"id": [1]})
        rates = newest.catalog.create_table("shop.rates", {"id": [1]}, location=tmp_path / "rates")
        orders.append({"id": [2]})
        rates.delete("id = 1")
        orders.update({"id": "id + 1"})
    timeline = newest.catalog.timeline()
    landed = [(track.version, track.read_version, track.writer, track.pointer, track.operation)
              for track in timeline.tracks]
    assert landed == [
        (1, None, "shop.orders", "v0", "CREATE TABLE AS SELECT"),
        (2, None, "shop.rates", "v0", "CREATE TABLE AS SELECT"), (3, 1, "shop.orders", "v1", "WRITE"),
        (4, 2, "shop.rates", "v1", "DELETE"), (5, 3, "shop.orders", "v2", "UPDATE")]
    assert "5 transactions  2 tables" in str(timeline) and {track.who for track in timeline.tracks} == {"ada"}
    assert [track.version for track in newest.catalog.timeline(2, 4).tracks] == [2, 3, 4]
    then = dt.datetime.fromtimestamp((timeline.tracks[2].time or 0) / 1000, dt.timezone.utc)
    assert [track.version for track in newest.catalog.timeline(end=then).tracks] == [1, 2, 3]
    with pytest.raises(errors.InvalidArgument):
        newest.catalog.timeline(True)


def test_a_timeline_says_what_it_leaves_out(
    newest: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_timeline, "MAX_TABLES", 2)
    monkeypatch.setattr(catalog_timeline, "NEWEST", 3)
    for number in range(3):
        newest.catalog.create_table(f"shop.t{number}", {"id": [1]}).append({"id": [2]})
    timeline = newest.catalog.timeline()
    assert timeline.title == "the newest 3 commits; the first 2 of 3 tables" and len(timeline.tracks) == 3


def test_timelines_show_commits_that_are_not_published(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder up to what is published, and from the catalog above it."""
    table: Any = server.catalog.table("shop.orders")
    table.append({"id": [2]})
    monkeypatch.setattr(ManagedCommitter, "publish", lambda *_: None)
    table.append({"id": [3]})
    table.delete("id = 1")
    assert sorted(file.name for file in Path(table.path, "_delta_log").glob("*.json")) == [
        f"{version:020}.json" for version in range(2)]
    fresh = server.catalog.table("shop.orders")
    operations = ["CREATE TABLE AS SELECT", "WRITE", "WRITE", "DELETE"]
    assert [track.operation for track in fresh.timeline().tracks] == operations
    assert [(track.pointer, track.operation) for track in server.catalog.timeline().tracks] == [
        (f"v{version}", operation) for version, operation in enumerate(operations)]


# -- its conflicts -----------------------------------------------------------------------------------------


def test_a_conflict_names_the_table_as_the_catalog_does(server: Server) -> None:
    table: Any = server.catalog.table("shop.orders")
    txn = table.start_transaction()
    stepper = txn.stepper([file.remove() for file in txn.filter_files()], "DELETE")
    stepper.let_win("delete")
    while not stepper.is_done:
        stepper.advance()
    html = stepper.conflict._repr_mimebundle_()["text/html"]
    for shown in (str(stepper.error), str(stepper.conflict), html):
        assert "shop.orders" in shown and Path(table.path).name not in shown
