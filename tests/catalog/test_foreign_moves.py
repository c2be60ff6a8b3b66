"""Another program on the same database: what PyIceberg's SqlCatalog does to tables is in the history here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")

from pyiceberg.catalog.sql import SqlCatalog

import deltanb as dn
from deltanb import errors
from deltanb.catalog.store.foreign import ANOTHER
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.catalog.store.upkeep import check, sweep
from deltanb.options import set_options
from tests.catalog.conftest import url_of


@pytest.fixture
def peer(behind: CatalogStore, tmp_path: Path) -> SqlCatalog:
    """PyIceberg on the database of :func:`catalog`."""
    url = url_of(behind).replace("postgresql:", "postgresql+psycopg:")
    return SqlCatalog("default", uri=url, warehouse=f"file://{tmp_path}/lake")


def filled(catalog: dn.Catalog) -> dn.Catalog:
    """One table of each format."""
    catalog.create_table("shop.events", {"id": [1]}, format="iceberg")
    catalog.create_table("shop.totals", {"events": [1]})
    return catalog


@pytest.fixture
def shop(catalog: dn.Catalog) -> dn.Catalog:
    """A catalog in the process or over HTTP, in either database."""
    return filled(catalog)


@pytest.fixture
def local(behind: CatalogStore, tmp_path: Path) -> Iterator[dn.Catalog]:
    """The same in the process."""
    with dn.Catalog(url_of(behind), tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        yield filled(catalog)


TXNS = sa.text("SELECT txn_id FROM dn_txns")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append(peer: SqlCatalog, *ids: int, table: str = "shop.events") -> int:
    """Rows that PyIceberg adds; the time of its commit, in epoch milliseconds."""
    loaded = peer.load_table(table)
    loaded.append(rows(*ids))
    return int(loaded.refresh().metadata.last_updated_ms)


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def chain(catalog: dn.Catalog, name: str) -> list[tuple[str | None, str | None]]:
    """What the history says of a table, the oldest first."""
    table_id = str(catalog.store.tables.load(name).table_id)
    return [entry.changes[table_id] for entry in reversed(catalog.history()) if table_id in entry.changes]


def is_whole(moves: list[tuple[str | None, str | None]]) -> bool:
    """Whether each move begins where the one before ended."""
    return moves[0][0] is None and all(a[1] == b[0] for a, b in pairwise(moves))


# -- reading: every way to a table at an instant ----------------------------------------------------

READS: dict[str, Callable[[dn.Catalog, int], Any]] = {
    "snapshot": lambda shop, then: shop.snapshot(["shop.events"])["shop.events"],
    "snapshot, asked later": lambda shop, then: shop.snapshot([])["shop.events"],
    "as_of": lambda shop, then: shop.as_of(then, ["shop.events"])["shop.events"],
    "transaction": lambda shop, then: shop.transaction().table("shop.events"),
    "table": lambda shop, then: shop.table("shop.events"),
    "pointer": lambda shop, then: Pinned(shop),
}


class Pinned:
    """A table as the last transaction of the history says."""

    def __init__(self, shop: dn.Catalog) -> None:
        row, seq = shop.store.tables.load("shop.events"), shop.store.instant()
        place = shop.store.pointers_at(seq, [row.table_id])[row.table_id]
        self.is_now = place == row.metadata_location

    def to_arrow(self) -> pa.Table:
        return rows(*range(1, len(READS) + 2)) if self.is_now else rows()


def test_every_read_sees_what_they_appended(shop: dn.Catalog, peer: SqlCatalog) -> None:
    for number, (way, read) in enumerate(READS.items(), 2):
        then = append(peer, number)
        assert ids(read(shop, then)) == list(range(1, number + 1)), way


def test_each_of_their_moves_is_a_transaction_of_the_history(shop: dn.Catalog, peer: SqlCatalog) -> None:
    before = len(shop.history())
    places = [peer.load_table("shop.events").metadata_location]
    for more in (2, 3):
        append(peer, more)
        places.append(peer.load_table("shop.events").metadata_location)
    newest = shop.history()
    assert len(newest) == before + 2 and [entry.seq for entry in newest] == list(range(before + 2, 0, -1))
    moves = chain(shop, "shop.events")
    assert moves[-2:] == list(pairwise(places)) and is_whole(moves)
    assert [entry.principal for entry in newest[:2]] == [ANOTHER] * 2
    assert [entry.summary for entry in newest[:2]] == ["commit"] * 2
    assert len(shop.history()) == before + 2  # and each of them once
    assert shop.overview().num_transactions == before + 2
    assert "APPEND" in str(shop.timeline())


def test_times_are_those_of_their_commits(local: dn.Catalog, peer: SqlCatalog) -> None:
    times = [append(peer, more) for more in (2, 3, 4)]
    local.table("shop.totals").append({"events": [2]})  # of ours, before anybody looks
    for at, time in enumerate(times):
        assert ids(local.as_of(time)["shop.events"]) == list(range(1, at + 3))
    assert ids(local.as_of(times[0] - 1)["shop.events"]) == [1]
    seen = [entry.time for entry in local.history()]
    assert seen == sorted(seen, reverse=True)
    assert local.snapshot(["shop.totals"])["shop.totals"].to_arrow().num_rows == 2


def test_a_time_to_come_of_theirs_is_none_here(
    behind: CatalogStore, peer: SqlCatalog, tmp_path: Path
) -> None:
    """Their clock is ahead: what is committed here afterwards is not hidden behind it."""
    with dn.Catalog(url_of(behind), tmp_path / "lake") as shop, set_options(clock=lambda: 1_000_000):
        shop.create_namespace("shop")
        shop.create_table("shop.events", {"id": [1]}, format="iceberg")
        append(peer, 2)
        assert ids(shop.as_of(1_000_000)["shop.events"]) == [1, 2]
        assert {entry.time for entry in shop.history()} == {1_000_000}


# -- committing -------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[dn.Catalog], Any]] = {
    "of one table": lambda shop: shop.table("shop.events").append({"id": [9]}),
    "of its properties": lambda shop: shop.iceberg.commit([change(shop, a="b")]),
    "in a transaction": lambda shop: both(shop, lambda txn: txn.table("shop.events").append({"id": [9]})),
    "only read": lambda shop: both(shop, lambda txn: txn.table("shop.events").to_arrow()),
    "dropped": lambda shop: shop.drop_table("shop.events"),
}


def change(shop: dn.Catalog, **properties: str) -> Any:
    from deltanb.catalog.iceberg.commit import Change
    from deltanb.catalog.store.names import TableName

    return Change(TableName.of("shop.events"), [], [{"action": "set-properties", "updates": properties}])


def both(shop: dn.Catalog, work: Callable[[Any], Any]) -> None:
    with shop.transaction() as txn:
        work(txn)
        txn.table("shop.totals").append({"events": [9]})


def test_every_commit_after_theirs_follows_it(shop: dn.Catalog, peer: SqlCatalog) -> None:
    table_id = str(shop.store.tables.load("shop.events").table_id)
    for number, (way, write) in enumerate(WRITES.items(), 2):
        append(peer, -number)
        append(peer, number)
        write(shop)
        moves = [entry.changes[table_id] for entry in reversed(shop.history()) if table_id in entry.changes]
        assert is_whole(moves), way
        if way == "dropped":
            assert moves[-1][1] is None
            return
        read = ids(shop.table("shop.events"))
        assert {-number, number} < set(read) and moves[-1][1] == shop.store.tables.load("shop.events").pointer
        assert sorted(peer.load_table("shop.events").scan().to_arrow()["id"].to_pylist()) == read, way


def test_transactions_of_pyiceberg_follow_their_own(local: dn.Catalog, peer: SqlCatalog) -> None:
    append(peer, 2)
    pending = [peer.load_table("shop.events").transaction()]
    pending[0].append(rows(3))
    assert local.commit_iceberg(*pending) == local.history(1)[0].seq
    assert ids(local.snapshot(["shop.events"])["shop.events"]) == [1, 2, 3]
    assert is_whole(chain(local, "shop.events"))


MEANWHILE: dict[str, Callable[[Any], Any]] = {
    "read": lambda txn: txn.table("shop.events").to_arrow(),
    "written": lambda txn: txn.table("shop.events").append({"id": [9]}),
    "read and written": lambda txn: (txn.table("shop.events").to_arrow(),
                                     txn.table("shop.events").append({"id": [9]})),
}


def test_what_they_move_during_a_transaction_is_a_conflict(shop: dn.Catalog, peer: SqlCatalog) -> None:
    for number, (way, work) in enumerate(MEANWHILE.items()):
        before = ids(shop.table("shop.events"))
        txn = shop.transaction()
        work(txn)
        txn.table("shop.totals").append({"events": [9]})
        append(peer, 100 + number)
        with pytest.raises(errors.CommitFailed, match=r"shop\.events|main"):
            txn.commit()
        assert ids(shop.table("shop.events")) == sorted([*before, 100 + number]), way
        assert shop.table("shop.totals").version == number
        both(shop, work)  # and the next one is on what they made
        assert shop.table("shop.totals").version == number + 1 and is_whole(chain(shop, "shop.events")), way


@pytest.mark.parametrize("theirs", ["append", "properties"])
def test_between_our_read_and_our_swap_they_are_first(
    local: dn.Catalog, peer: SqlCatalog, theirs: str
) -> None:
    write, done = local.iceberg.files.write, []

    def and_theirs(file: Any) -> None:
        write(file)
        if not done:
            done.append(1)
            if theirs == "append":
                append(peer, 2)
            else:
                peer.load_table("shop.events").transaction().set_properties(x="y").commit_transaction()

    local.iceberg.files.write = and_theirs  # type: ignore[method-assign]
    local.iceberg.commit([change(local, a="b")])  # nothing is required: it goes on top of theirs
    properties = local.table("shop.events").properties
    assert properties["a"] == "b" and properties.get("x") == ("y" if theirs == "properties" else None)
    assert ids(local.table("shop.events")) == ([1, 2] if theirs == "append" else [1])
    done.clear()
    if theirs == "append":
        local.table("shop.events").append({"id": [9]})  # refused once, and then on top of theirs
        assert done and ids(local.table("shop.events")) == [1, 2, 2, 9]
    assert is_whole(chain(local, "shop.events"))


# -- tables that come, go and are called otherwise ---------------------------------------------------


def test_a_table_that_they_made_has_its_history(local: dn.Catalog, peer: SqlCatalog) -> None:
    made = peer.create_table("shop.theirs", rows().schema)
    created = made.metadata.last_updated_ms
    then = append(peer, 7, table="shop.theirs")
    assert len(chain(local, "shop.theirs")) == 2 and is_whole(chain(local, "shop.theirs"))
    assert ids(local.snapshot(["shop.theirs"])["shop.theirs"]) == [7]
    assert ids(local.as_of(then)["shop.theirs"]) == [7]
    assert created == then or ids(local.as_of(created)["shop.theirs"]) == []
    with pytest.raises(errors.TableNotFound, match="made later"):
        local.as_of(created - 1)["shop.theirs"]
    with local.transaction() as txn:
        txn.table("shop.theirs").append({"id": [8]})
        txn.table("shop.events").append({"id": [8]})
    assert ids(local.table("shop.theirs")) == [7, 8]


def test_a_database_of_theirs_is_taken_over_with_its_history(
    new_url: Callable[[], str], tmp_path: Path
) -> None:
    url = new_url()
    peer = SqlCatalog("default", uri=url.replace("postgresql:", "postgresql+psycopg:"),
                      warehouse=f"file://{tmp_path}/lake")
    peer.create_namespace("shop")
    peer.create_table("shop.events", rows().schema)
    times = [append(peer, number) for number in (1, 2)]
    with dn.Catalog(url, tmp_path / "lake") as catalog:
        assert [ids(catalog.as_of(time)["shop.events"]) for time in times] == [[1], [1, 2]]
        assert is_whole(chain(catalog, "shop.events")) and len(chain(catalog, "shop.events")) == 3


def test_a_rename_of_theirs_is_no_move(local: dn.Catalog, peer: SqlCatalog) -> None:
    before = local.history()
    peer.rename_table("shop.events", "shop.clicks")
    assert local.history() == before
    append(peer, 2, table="shop.clicks")
    assert ids(local.snapshot(["shop.clicks"])["shop.clicks"]) == [1, 2]
    assert is_whole(chain(local, "shop.clicks")) and len(local.history()) == len(before) + 1


def test_a_drop_of_theirs_ends_the_table(shop: dn.Catalog, peer: SqlCatalog) -> None:
    row = shop.store.tables.load("shop.events")
    append(peer, 2)
    shop.snapshot(["shop.events"])
    last = shop.store.tables.load("shop.events").pointer
    peer.drop_table("shop.events")
    newest = shop.history(1)[0]
    assert dict(newest.changes) == {row.table_id: (last, None)} and newest.principal == ANOTHER
    assert newest.summary == "drop" and len(shop.history()) == newest.seq
    for read in (lambda: shop.snapshot(["shop.events"]), lambda: shop.transaction().table("shop.events")):
        with pytest.raises(errors.TableNotFound):
            read()
    peer.create_table("shop.events", rows().schema)
    append(peer, 5)
    assert ids(shop.snapshot(["shop.events"])["shop.events"]) == [5]
    assert shop.store.tables.load("shop.events").table_id != row.table_id
    assert len(chain(shop, "shop.events")) == 2


# -- what cannot be read, and what nobody may delete -------------------------------------------------


def test_a_file_that_cannot_be_read_is_no_obstacle(local: dn.Catalog, peer: SqlCatalog) -> None:
    """The move is in the history; whoever wants the table hears what is wrong with it."""
    local.create_table("shop.other", {"id": [1]}, format="iceberg")
    append(peer, 2)
    place = Path(peer.load_table("shop.events").metadata_location.removeprefix("file://"))
    place.write_bytes(b"{")
    with local.transaction() as txn:
        txn.table("shop.other").append({"id": [2]})
    assert ids(local.table("shop.other")) == [1, 2] and is_whole(chain(local, "shop.events"))
    with pytest.raises(errors.InvalidTable):
        local.snapshot(["shop.events"])


def test_a_look_at_the_catalog_changes_nothing(
    local: dn.Catalog, peer: SqlCatalog, behind: CatalogStore
) -> None:
    append(peer, 2)
    before = behind.database.read(lambda connection: connection.execute(TXNS).all())
    assert not [finding for finding in check(behind) if finding.is_fault]
    assert behind.database.read(lambda connection: connection.execute(TXNS).all()) == before


def test_a_sweep_leaves_the_files_that_their_tables_name(
    local: dn.Catalog, peer: SqlCatalog, behind: CatalogStore, tmp_path: Path
) -> None:
    """A folder that was noted as garbage is a table of theirs by now."""
    append(peer, 2)
    folder = f"{tmp_path}/lake/shop/again"
    behind.garbage.record([folder], "a table that was purged", 0)
    peer.create_table("shop.again", rows().schema, location=f"file://{folder}")
    append(peer, 3, table="shop.again")
    sweep(behind, grace=0)
    assert ids(local.table("shop.events")) == [1, 2] and ids(local.table("shop.again")) == [3]
    assert behind.garbage.due(2**60) == []


def test_their_metadata_may_lie_elsewhere(local: dn.Catalog, peer: SqlCatalog, tmp_path: Path) -> None:
    """Both folders are the table's: it is committed to, and purged."""
    lake = f"file://{tmp_path}/lake"
    peer.create_table("shop.apart", rows().schema, f"{lake}/apart", properties={
        "write.metadata.path": f"{lake}/of_apart/metadata"})
    append(peer, 1, table="shop.apart")
    with local.transaction() as txn:
        txn.table("shop.apart").append(rows(2))
    assert ids(local.table("shop.apart")) == [1, 2]
    local.drop_table("shop.apart", purge=True)
    assert not [file for place in ("apart", "of_apart") for file in (tmp_path / "lake" / place).rglob("*.*")]


# -- over HTTP --------------------------------------------------------------------------------------


def test_the_server_says_what_they_made(behind: CatalogStore, peer: SqlCatalog, tmp_path: Path) -> None:
    import httpx

    from deltanb.catalog.rest.server import serve

    with dn.Catalog(url_of(behind), tmp_path / "lake") as shop, serve(behind, tmp_path / "lake") as server, \
            httpx.Client(base_url=server.url) as http:
        shop.create_namespace("shop")
        shop.create_table("shop.events", {"id": [1]}, format="iceberg")
        path = "/v1/namespaces/shop/tables/events"
        tag = http.get(path).headers["etag"]
        assert http.get(path, headers={"If-None-Match": tag}).status_code == 304
        append(peer, 2)
        answer = http.get(path, headers={"If-None-Match": tag})
        assert answer.status_code == 200 and answer.headers["etag"] != tag
        assert answer.json()["metadata-location"] == peer.load_table("shop.events").metadata_location
        stale = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}
        body = {"identifier": {"namespace": ["shop"], "name": "events"}, "requirements": [stale],
                  "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        refused = http.post("/v1/transactions/commit", json={"table-changes": [body]})
        assert refused.status_code == 409 and "shop.events" in refused.json()["error"]["message"]
        body["requirements"] = []
        done = http.post("/v1/transactions/commit", json={"table-changes": [body]})
        assert done.status_code == 200, json.dumps(done.json())
        assert ids(shop.table("shop.events")) == [1, 2] and is_whole(chain(shop, "shop.events"))


def test_a_database_of_an_earlier_time_gets_what_it_lacks(new_url: Callable[[], str], tmp_path: Path) -> None:
    """Its tables were in the history before there was a note of that: none of them has moved."""
    url = new_url()
    with dn.Catalog(url, tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.events", {"id": [1]}, format="iceberg")
        before = catalog.history()
        lacking = ("DROP INDEX dn_unrecorded", "DROP TABLE dn_iceberg_tables",
                   "ALTER TABLE iceberg_tables DROP COLUMN dn_recorded_location")
        catalog.store.database.write(
            lambda connection: [connection.exec_driver_sql(text) for text in lacking] and None)
    with dn.Catalog(url, tmp_path / "lake") as catalog:
        assert catalog.history() == before and ids(catalog.snapshot(["shop.events"])["shop.events"]) == [1]
        moved = "SELECT count(*) FROM iceberg_tables WHERE dn_recorded_location <> metadata_location"
        assert catalog.store.database.read(
            lambda connection: connection.execute(sa.text(moved)).scalar()) == 0


def test_looking_for_moves_reads_no_table(behind: CatalogStore) -> None:
    """It is done before every commit: by an index that is empty but for what has moved."""
    if behind.database.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL reads a table of a few rows without any index")
    from deltanb.catalog.store.foreign import UNRECORDED

    text = str(UNRECORDED.params(in_catalog="default").compile(
        behind.database.engine, compile_kwargs={"literal_binds": True}))
    plan = behind.database.read(
        lambda connection: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
    assert "dn_unrecorded" in str(plan)


def test_who_looks_at_the_same_moment_records_nothing_twice(
    behind: CatalogStore, local: dn.Catalog, peer: SqlCatalog
) -> None:
    append(peer, 2)
    foreign, before = local.store.foreign, len(local.store.database.read(lambda c: c.execute(TXNS).all()))
    look = foreign._look

    def and_another(connection: Any, with_drops: bool) -> Any:
        seen = look(connection, with_drops)
        foreign._look = look
        behind.foreign.take_in(with_drops=True)  # of another process, between this one's look and its record
        return seen

    foreign._look = and_another  # type: ignore[method-assign]
    assert ids(local.snapshot(["shop.events"])["shop.events"]) == [1, 2]
    assert len(local.store.history()) == before + 1 and is_whole(chain(local, "shop.events"))
