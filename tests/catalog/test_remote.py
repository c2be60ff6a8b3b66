"""A catalog behind a server: answers that are lost, servers that go, tokens, and requests that are malformed.

That it does what one in the process does is in ``test_catalog`` and ``test_iceberg_in_catalog``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import httpx

import deltanb as dn
from deltanb import errors
from deltanb.catalog.rest.client.connection import Connection
from deltanb.catalog.rest.server import Server, serve
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.ownership import NEW_TABLE, FolderNote
from deltanb.catalog.store.store import CatalogStore
from deltanb.log.commits import STAGED_FOLDER
from tests.catalog.conftest import url_of
from tests.helpers import tree

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
TOKENS = Tokens.of({"tokens": [
    {"name": "root", "token": "r", "permissions": {"*": "write"}},
    {"name": "shopper", "token": "s", "permissions": {"shop": "write"}},
    {"name": "reader", "token": "e", "permissions": {"*": "read", "hr": "none"}},
    {"name": "clerk", "token": "c", "permissions": {"shop": "read", "attic": "write"}},
    {"name": "nobody", "token": "n", "permissions": {"attic": "read"}}]})


@pytest.fixture
def server(behind: CatalogStore, tmp_path: Path) -> Iterator[Server]:
    with serve(behind, tmp_path / "lake") as server:
        yield server


@pytest.fixture
def shop(server: Server) -> Iterator[dn.Catalog]:
    """Two tables, behind a server."""
    with dn.connect(server.url) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1]})
        catalog.create_table("shop.totals", {"orders": [1]})
        yield catalog


def numbers(catalog: dn.Catalog) -> tuple[int, int]:
    """The rows of the first table, and what the second says of them."""
    orders, totals = catalog.snapshot(["shop.orders", "shop.totals"]).values()
    return orders.to_arrow().num_rows, totals.to_arrow()["orders"][0].as_py()


def order(txn: Any) -> None:
    txn.table("shop.orders").append({"id": [2]})
    txn.table("shop.totals").update({"orders": "orders + 1"})


class Wire:
    """Does to requests of a path what a test wants, in place of sending them: ``does(send)``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self._scripts: dict[str, list[Callable[[Callable[[], Any]], Any]]] = {}
        request = httpx.Client.request

        def sent(client: httpx.Client, method: str, url: Any, **more: Any) -> Any:
            path = httpx.URL(url).path
            self.asked.append(path)
            scripts = self._scripts.get(path)
            does = scripts.pop(0) if scripts else lambda send: send()

            def send(late: bool = False) -> Any:
                if not late:
                    return request(client, method, url, **more)
                with httpx.Client() as fresh:
                    return request(fresh, method, url, **more)

            return does(send)

        monkeypatch.setattr(httpx.Client, "request", sent)

    def script(self, path: str, *does: Callable[[Callable[[], Any]], Any]) -> None:
        """What becomes of the next requests of a path; those after them are as ever."""
        self._scripts[path] = list(does)


RATIFY, OUTCOME = "/deltanb/v1/ratify", "/deltanb/v1/outcome"


def lost_answer(send: Callable[[], Any]) -> Any:
    """The server does it, and its answer does not come."""
    send()
    raise httpx.ReadError("connection reset")


def lost_request(send: Callable[[], Any]) -> Any:
    """The server never sees it."""
    raise httpx.ReadTimeout("timed out")


def gateway(send: Callable[[], Any]) -> Any:
    """Something between answers in its place, after the server has done it."""
    send()
    return httpx.Response(502, text="bad gateway")


def no_server(send: Callable[[], Any]) -> Any:
    raise httpx.ConnectError("refused")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


# -- answers that are lost ---------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [lost_answer, gateway])
def test_a_commit_of_several_tables_whose_answer_is_lost_has_landed_once(
    shop: dn.Catalog, wire: Wire, lost: Any
) -> None:
    wire.script(RATIFY, lost)
    with shop.transaction() as txn:
        order(txn)
    assert txn.status == "committed" and numbers(shop) == (2, 2)
    assert wire.asked.count(RATIFY) == 1 and wire.asked.count(OUTCOME) == 1
    assert shop.history(1)[0].txn_id == txn.txn_id


def test_a_request_that_got_lost_is_sent_again(shop: dn.Catalog, wire: Wire) -> None:
    wire.script(RATIFY, lost_request)
    with shop.transaction() as txn:
        order(txn)
    assert txn.status == "committed" and numbers(shop) == (2, 2)
    assert wire.asked.count(RATIFY) == 2


def test_a_request_that_comes_late_can_do_nothing_any_more(shop: dn.Catalog, wire: Wire) -> None:
    late: list[Callable[..., Any]] = []

    def delayed(send: Callable[[], Any]) -> Any:
        late.append(send)
        raise httpx.ReadTimeout("timed out")

    wire.script(RATIFY, delayed, no_server)
    txn = shop.transaction()
    order(txn)
    with pytest.raises(errors.StorageError):
        txn.commit()
    assert txn.status == "failed"
    staged = Path(shop.table("shop.orders").path) / STAGED_FOLDER
    assert not list(staged.iterdir())
    answer = late[0](late=True)
    assert answer.status_code == 400 and numbers(shop) == (1, 1)


def test_one_that_is_late_and_was_not_given_up_lands(shop: dn.Catalog, wire: Wire) -> None:
    """The control: it is the outcome that was asked for that keeps it from landing."""
    late: list[Callable[..., Any]] = []

    def delayed(send: Callable[[], Any]) -> Any:
        late.append(send)
        raise httpx.ReadTimeout("timed out")

    wire.script(RATIFY, delayed)
    wire.script(OUTCOME, *[no_server] * 9)
    txn = shop.transaction()
    order(txn)
    with pytest.raises(errors.CommitOutcomeUnknown):
        txn.commit()
    assert late[0](late=True).status_code == 200 and numbers(shop) == (2, 2)


def test_no_file_is_deleted_while_the_fate_is_open(shop: dn.Catalog, wire: Wire, tmp_path: Path) -> None:
    wire.script(RATIFY, lost_answer)
    wire.script(OUTCOME, *[no_server] * 9)
    txn = shop.transaction()
    order(txn)
    before = tree(tmp_path / "lake")
    with pytest.raises(errors.CommitOutcomeUnknown, match="files were kept"):
        txn.commit()
    assert txn.status == "unknown" and before <= tree(tmp_path / "lake")
    wire.script(OUTCOME)
    assert shop.store.outcome(txn.txn_id) is not None and numbers(shop) == (2, 2)


def test_a_commit_of_one_table_whose_answer_is_lost_is_recognised(shop: dn.Catalog, wire: Wire) -> None:
    table = shop.table("shop.orders")
    wire.script(RATIFY, lost_answer)
    assert table.append({"id": [2]}) == 1 and table.version == 1
    wire.script(RATIFY, lost_request)
    assert table.append({"id": [3]}) == 2 and table.to_arrow().num_rows == 3


@pytest.mark.parametrize("lost", [lost_answer, lost_request, gateway])
def test_names_are_changed_once_whatever_is_lost(shop: dn.Catalog, wire: Wire, lost: Any) -> None:
    wire.script("/deltanb/v1/tables/rename", lost)
    shop.rename_table("shop.orders", "shop.bills")
    wire.script("/deltanb/v1/tables/drop", lost)
    shop.drop_table("shop.bills")
    wire.script("/deltanb/v1/tables/register", lost)
    assert shop.create_table("shop.orders", {"id": [1]}).version == 0
    wire.script("/v1/namespaces", lost)
    shop.create_namespace("attic")
    wire.script("/v1/namespaces/attic", lost)
    shop.drop_namespace("attic")
    assert shop.list_tables("shop") == ["shop.orders", "shop.totals"] and shop.list_namespaces() == ["shop"]


def test_what_is_never_answered_is_unknown_and_what_is_never_sent_is_certain(
    shop: dn.Catalog, wire: Wire
) -> None:
    wire.script("/v1/namespaces", *[lost_request] * 3)
    with pytest.raises(errors.CommitOutcomeUnknown):
        shop.create_namespace("attic")
    wire.script("/v1/namespaces", no_server)
    with pytest.raises(errors.StorageError, match="cannot be asked"):
        shop.create_namespace("attic")
    wire.script("/deltanb/v1/tables/load", lost_request, lost_request)
    with pytest.raises(errors.StorageError, match="cannot be asked"):
        shop.table("shop.orders")


def test_an_answer_that_is_lost_disturbs_no_other_request(shop: dn.Catalog, wire: Wire) -> None:
    def meanwhile(send: Callable[[], Any]) -> Any:
        wire.script("/v1/namespaces", lost_answer, lost_answer)
        shop.create_namespace("attic")
        return send()

    wire.script("/deltanb/v1/instant", meanwhile)
    assert shop.store.instant() > 0 and shop.list_namespaces() == ["attic", "shop"]


def test_iceberg_commits_whose_answer_is_lost(shop: dn.Catalog, wire: Wire) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    wire.script("/v1/namespaces/shop/tables", lost_answer)
    events = shop.create_table("shop.events", "id bigint", format="iceberg")
    for number, lost in enumerate((lost_answer, lost_request, gateway), 1):
        wire.script(RATIFY, lost)
        events.append({"id": [number]})
        assert events.to_arrow().num_rows == number
    wire.script(RATIFY, lost_answer)
    with shop.transaction() as txn:
        txn.table("shop.events").append({"id": [9]})
        txn.table("shop.orders").append({"id": [2]})
    assert events.to_arrow().num_rows == 4 and shop.table("shop.orders").version == 1
    assert not shop.history(1)[0].summary.startswith("commit")


def interrupted_after(send: Callable[[], Any]) -> Any:
    send()
    raise KeyboardInterrupt


def interrupted_before(send: Callable[[], Any]) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("does", "status"), [
    (interrupted_after, "committed"), (interrupted_before, "failed")])
def test_an_interrupted_commit_is_asked_for(
    shop: dn.Catalog, wire: Wire, tmp_path: Path, does: Any, status: str
) -> None:
    wire.script(RATIFY, does)
    txn = shop.transaction()
    order(txn)
    with pytest.raises(KeyboardInterrupt):
        txn.commit()
    assert txn.status == status and OUTCOME in wire.asked
    assert numbers(shop) == ((2, 2) if status == "committed" else (1, 1))


def test_an_interrupted_creation_is_asked_for(shop: dn.Catalog, wire: Wire, tmp_path: Path) -> None:
    register = "/deltanb/v1/tables/register"
    late: list[Callable[..., Any]] = []

    def interrupted_on_its_way(send: Callable[[], Any]) -> Any:
        late.append(send)
        raise KeyboardInterrupt

    before = tree(tmp_path / "lake")
    wire.script(register, interrupted_on_its_way)
    with pytest.raises(KeyboardInterrupt):
        shop.create_table("shop.bills", {"id": [1]})
    assert late[0](late=True).status_code == 400 and tree(tmp_path / "lake") == before
    wire.script(register, interrupted_after)
    with pytest.raises(KeyboardInterrupt) as caught:
        shop.create_table("shop.bills", {"id": [1]})
    assert "created despite" in caught.value.__notes__[0]
    assert shop.table("shop.bills").to_arrow().num_rows == 1


# -- servers that go ---------------------------------------------------------------------------------


def test_a_server_that_is_restarted_between_staging_and_ratification(
    behind: CatalogStore, tmp_path: Path, wire: Wire
) -> None:
    server = serve(behind, tmp_path / "lake")
    port = int(server.url.rpartition(":")[2])
    with dn.connect(server.url) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1]})
        catalog.create_table("shop.totals", {"orders": [1]})
        again: list[Server] = []

        def restarted(send: Callable[[], Any]) -> Any:
            server.stop()
            again.append(serve(CatalogStore(url_of(behind), durability="none"), tmp_path / "lake", port=port))
            return send()

        wire.script(RATIFY, restarted)
        with catalog.transaction() as txn:
            order(txn)
        assert txn.status == "committed" and numbers(catalog) == (2, 2)
    again[0].stop()
    with pytest.raises(errors.StorageError, match="cannot be asked"):
        dn.connect(server.url)


def test_urls_that_are_none() -> None:
    for url in ("localhost:8181", "ftp://localhost", "http://", "http://localhost?x=1", 7):
        with pytest.raises(errors.InvalidArgument, match="URL of a server"):
            dn.connect(url)  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "error"), [
    (httpx.Response(404, text="not here"), errors.InvalidArgument),
    (httpx.Response(404, json={"error": {"message": "no", "type": "NotFoundException", "code": 404}}),
     errors.InvalidArgument),
    (httpx.Response(200, text="<html>"), errors.StorageError),
    (httpx.Response(200, json={"name": "x"}), errors.StorageError),
    (httpx.Response(302, headers={"Location": "http://localhost"}), errors.StorageError),
    (httpx.Response(503, text="busy"), errors.StorageError),
    (httpx.Response(400, json={"error": 7}), errors.InvalidArgument),
    (httpx.Response(400, json={"error": {"message": "no"}}, headers={"Deltanb-Error": "[]"}),
     errors.InvalidArgument),
])
def test_servers_of_another_kind(wire: Wire, answer: httpx.Response, error: type[Exception]) -> None:
    wire.script("/deltanb/v1/config", lambda send: answer, lambda send: answer)
    with pytest.raises(error, match="localhost:1"):
        dn.connect("http://localhost:1")


# -- who may do what ---------------------------------------------------------------------------------


Connect = Callable[[str], dn.Catalog]


@contextmanager
def refused(kind: type[Exception] = errors.Forbidden) -> Iterator[None]:
    with pytest.raises(kind):
        yield


@pytest.fixture
def guarded(behind: CatalogStore, tmp_path: Path) -> Iterator[Server]:
    """A server with tokens; tables in two namespaces."""
    with serve(behind, tmp_path / "lake", tokens=TOKENS) as server, dn.connect(server.url, "r") as catalog:
        for space in ("shop", "hr"):
            catalog.create_namespace(space)
            catalog.create_table(f"{space}.t", {"id": [1]})
            catalog.create_table(f"{space}.e", "id bigint", format="iceberg")
        yield server


@pytest.fixture
def connect(guarded: Server) -> Iterator[Connect]:
    """The catalog, to the owner of a token."""
    with ExitStack() as stack:
        yield lambda token: stack.enter_context(dn.connect(guarded.url, token))


def test_without_a_token_nothing_is_told(guarded: Server) -> None:
    for token in (None, "x"):
        with refused(errors.Unauthorized):
            dn.connect(guarded.url, token)
    for token in ("", "r\n", "ä"):
        with refused(errors.InvalidArgument):
            dn.connect(guarded.url, token)


def test_a_folder_of_a_warehouse_behind_a_link_is_had_again(behind: CatalogStore, tmp_path: Path) -> None:
    """After a purge and after a table that could not be made: the server knows it as its clients do."""
    (tmp_path / "there").mkdir()
    lake = tmp_path / "lake"
    lake.symlink_to(tmp_path / "there")
    with serve(behind, lake) as server, dn.connect(server.url) as catalog:
        catalog.create_namespace("shop")
        for again in (False, True):
            with pytest.raises(errors.DeltaError):
                catalog.create_table("shop.t", {"id": [1]}, location=lake / "t",
                                     properties={"delta.minReaderVersion": "99"})
            table = catalog.create_table("shop.t", {"id": [1]}, location=lake / "t")
            catalog.drop_table("shop.t")
            catalog.register_table("shop.t", table.path)
            catalog.drop_table("shop.t", purge=True)
            assert not behind.garbage.due(2**62) and not tree(tmp_path / "there"), again


def test_a_table_is_not_taken_over_where_one_may_not_write(connect: Connect, tmp_path: Path) -> None:
    """Not by a commit either, after which nobody could open it by its path."""
    dn.create(str(tmp_path / "lake" / "old"), {"id": [1]})
    before = tree(tmp_path / "lake" / "old")
    with refused():
        connect("c").register_table("shop.old", tmp_path / "lake" / "old")
    assert tree(tmp_path / "lake" / "old") == before
    assert connect("s").register_table("shop.old", tmp_path / "lake" / "old").append({"id": [2]}) == 2


def test_a_token_reads_and_writes_where_it_may(connect: Connect, behind: CatalogStore) -> None:
    root, shopper, reader = map(connect, "rse")
    assert shopper.table("shop.t").append({"id": [2]}) == 1
    assert reader.table("shop.t").to_arrow().num_rows == 2
    with refused():
        reader.table("shop.t").append({"id": [3]})
    for catalog in (shopper, reader):
        for call in (
            lambda c=catalog: c.table("hr.t"), lambda c=catalog: c.list_tables("hr"),
            lambda c=catalog: c.rename_table("hr.t", "shop.u"), lambda c=catalog: c.drop_table("hr.t"),
            lambda c=catalog: c.create_table("hr.u", {"id": [1]}),
            lambda c=catalog: c.create_table("hr.v", "id bigint", format="iceberg"),
            lambda c=catalog: c.namespace_properties("hr"), lambda c=catalog: c.drop_namespace("hr"),
        ):
            with refused():
                call()
    assert reader.list_namespaces() == ["shop"] and root.list_namespaces() == ["hr", "shop"]
    entry = behind.history(after=behind.instant() - 1)[0]
    assert entry.principal == "shopper"  # the token's owner, whatever the client says


def test_ids_open_no_other_namespace(guarded: Server, connect: Connect, behind: CatalogStore) -> None:
    hr = behind.tables.load("hr.t")
    shopper = connect("s").store
    for call in (
        lambda: shopper.tails([hr.table_id]), lambda: shopper.content(hr.table_id, 0),
        lambda: shopper.set_published(hr.table_id, 0), lambda: shopper.pointers_at(9, [hr.table_id]),
    ):
        with refused():
            call()
    mine = behind.tables.load("shop.t")
    body = ratification(delta(hr.table_id, ["shop"], "t"))
    answer = post(guarded, RATIFY, body, "s")
    assert answer.status_code == 409 and answer.json()["error"]["latest"] == {hr.table_id: None}
    assert post(guarded, RATIFY, ratification(delta(hr.table_id, ["hr"], "t")), "s").status_code == 403
    both = ratification(delta(mine.table_id, ["shop"], "t"), asserts=[
        {"table": {"namespace": ["hr"], "name": "t"}, "table-id": hr.table_id, "pointer": 0}])
    assert post(guarded, RATIFY, both, "s").status_code == 403
    assert behind.tables.load("hr.t") == hr and behind.tables.load("shop.t") == mine


def test_history_tells_of_what_may_be_read(connect: Connect) -> None:
    def counts_for(token: str) -> list[int]:
        return [len(entry.changes) for entry in connect(token).history()]

    assert counts_for("r") == [1, 1, 1, 1] and counts_for("e") == [0, 0, 1, 1] == counts_for("s")
    hidden, *_, seen = connect("e").history()
    assert (hidden.summary, hidden.principal) == (None, None) and seen.principal == "root"


def test_folders_of_tables_cannot_be_made_garbage(connect: Connect, behind: CatalogStore) -> None:
    delta_place = behind.tables.load("hr.t").delta.location  # type: ignore[union-attr]
    iceberg_place = str(behind.tables.load("hr.e").metadata_location).rpartition("/metadata/")[0]
    shopper, nobody = (connect(token).store for token in "sn")

    def note(store: Any, place: str) -> None:
        store.tables.note_folder(place, FolderNote(NEW_TABLE, "new"), 0)

    for place in (delta_place, iceberg_place, f"{delta_place}/part", delta_place.rpartition("/")[0],
                  f"file://{delta_place}", iceberg_place.removeprefix("file://"), f"{iceberg_place}/data"):
        with refused(errors.InvalidArgument):
            note(shopper, place)
    for place in ("/etc", "file:///etc", f"{delta_place}/../../..", "lake"):
        with refused(errors.BadRequest):
            note(shopper, place)
    with refused():
        note(nobody, f"{delta_place}x")
    assert not behind.garbage.due(10**15)
    note(shopper, f"{delta_place}x")
    behind.garbage.record(["lake/metadata"], "metadata of a commit", 0)
    assert len(behind.garbage.due(10**15)) == 2
    connect("r").store.tables.forget_folder(f"{delta_place}x")
    assert len(behind.garbage.due(10**15)) == 2  # somebody else's
    shopper.tables.forget_folder(f"{delta_place}x")
    assert behind.garbage.due(10**15) == [("lake/metadata", "metadata of a commit")]


# -- requests that are malformed ---------------------------------------------------------------------


def post(server: Server, path: str, body: Any, token: str | None = None) -> httpx.Response:
    headers = {"Content-Type": "application/json"} | ({} if token is None else {
        "Authorization": f"Bearer {token}"})
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{server.url}{path}", content=content, headers=headers)


def delta(table_id: Any, namespace: list[str], name: str, **more: Any) -> Any:
    return {"delta": {"table": {"namespace": namespace, "name": name}, "table-id": table_id, "version": 1,
                      "file-name": f"{1:020}.a.json", **more}}


def ratification(*proposals: Any, asserts: Any = (), **more: Any) -> Any:
    return {"txn-id": "t", "attempt": str(uuid.uuid4()), "proposals": list(proposals),
            "assertions": list(asserts), **more}


NAME = {"namespace": ["shop"], "name": "orders"}
DELTA = delta("x", ["shop"], "orders")["delta"]
ICEBERG = {"table": {"namespace": ["shop"], "name": "e"}, "requirements": [], "updates": []}
MALFORMED = [
    (RATIFY, b"{", "the body"),
    (RATIFY, [], "the body"),
    (RATIFY, {}, "txn-id"),
    (RATIFY, ratification(), "proposals"),
    (RATIFY, ratification({"delta": DELTA}, attempt="x"), "attempt"),
    (RATIFY, ratification({"delta": DELTA}, more=1), "more"),
    (RATIFY, ratification({"delta": DELTA}, summary="x" * 200_000), "summary"),
    (RATIFY, ratification({"delta": DELTA, "iceberg": ICEBERG}), "proposals[0]"),
    (RATIFY, ratification({"view": DELTA}), "proposals[0].view"),
    (RATIFY, ratification({"delta": {**DELTA, "version": "1"}}), "proposals[0].delta.version"),
    (RATIFY, ratification({"delta": {**DELTA, "version": 2}}), "proposals[0].delta.file-name"),
    (RATIFY, ratification({"delta": {**DELTA, "file-name": "../a.json"}}), "proposals[0].delta.file-name"),
    (RATIFY, ratification({"delta": {**DELTA, "inline": "e30="}}), "proposals[0].delta.file-name"),
    (RATIFY, ratification({"delta": {**DELTA, "file-name": None, "inline": "?"}}),
     "proposals[0].delta.inline"),
    (RATIFY, ratification({"delta": {**DELTA, "table": {"namespace": ["a.b"], "name": "t"}}}),
     "proposals[0].delta.table"),
    (RATIFY, ratification({"delta": DELTA}, asserts=[{"table": NAME, "table-id": "x", "pointer": None}]),
     "assertions[0].pointer"),
    (RATIFY, ratification({"iceberg": {**ICEBERG, "updates": {}}}), "proposals[0].iceberg.updates"),
    (RATIFY, ratification({"iceberg": {**ICEBERG, "updates": [{"action": "dance"}]}}),
     "proposals[0].iceberg.updates[0].action"),
    (RATIFY, ratification(*[{"delta": DELTA}] * 101), "proposals"),
    (OUTCOME, {"txn-id": ""}, "txn-id"),
    (OUTCOME, {"txn-id": "t", "attempts": ["x"]}, "attempts[0]"),
    ("/deltanb/v1/tails", {"table-ids": "x"}, "table-ids"),
    ("/deltanb/v1/tails", {"table-ids": ["x"] * 1001}, "table-ids"),
    ("/deltanb/v1/content", {"table-id": "x", "version": -1}, "version"),
    ("/deltanb/v1/published", {"table-id": "x"}, "version"),
    ("/deltanb/v1/instant", {"time": "now"}, "time"),
    ("/deltanb/v1/pointers", {"seq": 2**70, "table-ids": []}, "seq"),
    ("/deltanb/v1/history", {"after": 0, "size": 0}, "size"),
    ("/deltanb/v1/tables/load", {"tables": ["shop.orders"]}, "tables[0]"),
    ("/deltanb/v1/tables/page", {"namespace": [], "page-size": 3}, "namespace"),
    ("/deltanb/v1/tables/page", {"namespace": ["shop"], "format": "hudi"}, "format"),
    ("/deltanb/v1/tables/register", {"table": {**NAME, "name": "n"}, "location": "file:///etc", "version": 0},
     "location"),
    ("/deltanb/v1/tables/rename", {"source": NAME}, "destination"),
    ("/deltanb/v1/tables/drop", {"table": {"namespace": ["shop"], "name": ".."}}, "table"),
    ("/deltanb/v1/places/record", {"locations": [7]}, "locations[0]"),
    ("/deltanb/v1/places/forget", {"locations": ["file:///etc"]}, "locations[0]"),
]


@pytest.mark.parametrize(("path", "body", "field"), MALFORMED)
def test_a_malformed_request_names_the_field_and_changes_nothing(
    shop: dn.Catalog, server: Server, behind: CatalogStore, tmp_path: Path, path: str, body: Any, field: str
) -> None:
    before = tree(tmp_path / "lake"), behind.instant(), behind.tables.load("shop.orders")
    answer = post(server, path, body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error.get("field") == field and field in error["message"], error
    details = json.loads(answer.headers["deltanb-error"])
    assert details["kind"] == "BAD_REQUEST" and details["field"] == field
    assert (tree(tmp_path / "lake"), behind.instant(), behind.tables.load("shop.orders")) == before


def test_what_is_not_json_or_too_large_is_refused(server: Server) -> None:
    answer = httpx.post(f"{server.url}{RATIFY}", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert httpx.get(f"{server.url}{RATIFY}").status_code == 405
    connection = Connection(server.url)
    with pytest.raises(errors.InvalidArgument):
        connection.ask("/deltanb/v1/no-such", {}, lambda value, path: value)


def test_the_same_ratification_twice_is_one(shop: dn.Catalog, server: Server, behind: CatalogStore) -> None:
    made = httpx.post(f"{server.url}/v1/namespaces/shop/tables", json={"name": "e", "schema": SCHEMA}).json()
    uuid_is = {"type": "assert-table-uuid", "uuid": made["metadata"]["table-uuid"]}
    is_new = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    change = {"iceberg": {**ICEBERG, "requirements": [uuid_is, is_new], "updates": [
        {"action": "set-properties", "updates": {"a": "1"}}]}}
    orders = behind.tables.load("shop.orders")
    body = ratification(delta(orders.table_id, ["shop"], "orders"), change)
    first = post(server, RATIFY, body)
    seq = behind.instant()
    again = [post(server, RATIFY, body), post(server, RATIFY, {**body, "attempt": str(uuid.uuid4())})]
    assert first.status_code == 200 and first.json()["seq"] == seq == behind.instant()
    assert [(each.status_code, each.json()["seq"]) for each in again] == [(200, seq)] * 2
    assert post(server, OUTCOME, {"txn-id": "t", "attempts": [body["attempt"]]}).json() == {"seq": seq}
    assert post(server, OUTCOME, {"txn-id": "u"}).json() == {"seq": None}
