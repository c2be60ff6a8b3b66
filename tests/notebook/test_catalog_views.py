"""The views of catalogs: what they have, their history, tables at one instant, commits of several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.catalog import progress
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.history import CatalogHistory
from deltanb.catalog.store.store import CatalogStore
from deltanb.errors import CommitOutcomeUnknown
from deltanb.notebook import bundle
from deltanb.options import set_options
from tests.notebook.looks import assert_consistent, assert_golden, counted_ids
from tests.notebook.samples import TIME


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[dn.Catalog]:
    set_options(clock=lambda: TIME, new_id=counted_ids(), user_name="ada")
    with dn.Catalog(f"sqlite:///{tmp_path}/shop.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})
        catalog.create_table("shop.totals", {"orders": [2], "sum": [30]})
        catalog.create_table("shop.rates", {"rate": [1]})
        yield catalog


def begun(shop: dn.Catalog) -> Any:
    """A transaction that writes two tables and has read a third."""
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.orders").delete("id = 1")
    rate = txn.table("shop.rates").to_arrow()["rate"][0].as_py()
    txn.table("shop.totals").update({"sum": f"sum + 30 * {rate}"})
    return txn


def opened(shop: dn.Catalog) -> Any:
    return begun(shop)


def committed(shop: dn.Catalog) -> Any:
    """One of its tables lost a race on the way."""
    txn = begun(shop)
    shop.table("shop.orders").append({"id": [9], "price": [90]})
    txn.table("shop.orders").to_arrow()
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.rates").to_arrow()
    txn.table("shop.totals").update({"sum": "sum + 30"})
    shop.table("shop.orders").append({"id": [10], "price": [90]})
    txn.commit()
    return txn


def failed(shop: dn.Catalog) -> Any:
    txn = begun(shop)
    with set_options(user_name="ben"):
        shop.table("shop.totals").update({"sum": "0"})
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    return txn


def refused(shop: dn.Catalog) -> Any:
    """A requirement that is no conflict: the name of a table has gone."""
    txn = begun(shop)
    shop.rename_table("shop.rates", "shop.fees")
    with pytest.raises(errors.TableNotFound):
        txn.commit()
    return txn


def stepped(shop: dn.Catalog) -> Any:
    """Between two steps: all is staged, and nothing ratified."""
    txn = begun(shop)
    drive = txn.begin()
    while type(drive.advance()).__name__ != "Ratify":
        pass
    return txn


def history(shop: dn.Catalog) -> Any:
    failed(shop)
    committed(shop)
    shop.drop_table("shop.rates")
    return shop.history()


def empty(shop: dn.Catalog) -> Any:
    return dn.Catalog(shop.store.database.place, shop.warehouse.uri, "another")


MOMENTS: dict[str, Callable[[dn.Catalog], Any]] = {
    "catalog": lambda shop: [failed(shop), shop][1],
    "catalog_empty": empty,
    "catalog_history": history,
    "catalog_snapshot": lambda shop: shop.snapshot(["shop.orders", "shop.totals"]),
    "catalog_transaction_open": opened,
    "catalog_transaction_committed": committed,
    "catalog_transaction_failed": failed,
    "catalog_transaction_refused": refused,
    "group_staged": lambda shop: stepped(shop).group,
    "group_failed": lambda shop: failed(shop).group,
}


@pytest.mark.parametrize("name", MOMENTS)
def test_every_moment_looks_as_it_did(name: str, shop: dn.Catalog, update_golden: bool) -> None:
    shown = MOMENTS[name](shop)
    assert_consistent(shown)
    assert_golden(shown, name, update_golden)


def test_no_password_and_no_folder_is_shown(shop: dn.Catalog, tmp_path: Path) -> None:
    forms = bundle.mimebundle(shop)
    assert str(tmp_path) not in "".join(forms.values()) and "shop.db" in forms["text/plain"]


def test_a_version_that_is_not_published_is_seen(
    shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ManagedCommitter, version: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ManagedCommitter, "publish", full)
    txn = begun(shop)
    txn.commit()
    assert "up to v0, 1 not reported" in str(shop)
    begun(shop).commit()
    assert "up to v0, 2 unpublished" in str(shop)
    monkeypatch.undo()
    begun(shop).commit()
    assert "unpublished" not in str(shop) and "not reported" not in str(shop), "it is published, here"
    assert str(txn.group.row("shop.orders").cells[4]) == "✕ v1"
    assert str(txn.group.row("shop.rates").cells[4]) == "–"


def test_history_is_a_sequence_that_does_not_change(shop: dn.Catalog) -> None:
    entries = shop.history()
    assert isinstance(entries, CatalogHistory) and [entry.seq for entry in entries] == [3, 2, 1]
    assert [entry.seq for entry in entries[:2]] == [3, 2] and entries[:2].total == 3
    assert shop.history(2) == entries[:2] == list(entries)[:2] and entries[0] in entries
    assert {entries.names[table_id] for entry in entries for table_id in entry.changes} == {
        "shop.orders", "shop.totals", "shop.rates"}
    with pytest.raises(TypeError):
        entries[0] = entries[1]  # type: ignore[index]
    with pytest.raises(TypeError):
        entries.names["a"] = "b"  # type: ignore[index]
    for limit in (0, -1, True, "2"):
        with pytest.raises(errors.InvalidArgument):
            shop.history(limit)  # type: ignore[arg-type]


def test_a_renamed_table_has_its_name_of_now_and_a_dropped_one_its_id(shop: dn.Catalog) -> None:
    shop.rename_table("shop.orders", "shop.bills")
    shop.drop_table("shop.rates")
    text = str(shop.history())
    assert "shop.bills new v0" in text and "shop.orders" not in text and "shop.rates" not in text
    assert "v0→dropped" in text


def test_the_history_of_another_catalog_in_the_database_has_no_names(shop: dn.Catalog) -> None:
    assert "shop.orders" not in str(empty(shop).history())


def test_what_nobody_knows_is_said_to_be_unknown(shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: CatalogStore, *args: Any, **settings: Any) -> Any:
        raise CommitOutcomeUnknown("no answer", version=None, txn_id="")

    monkeypatch.setattr(CatalogStore, "ratify", silent)
    monkeypatch.setattr(CatalogStore, "outcome", silent)
    txn = begun(shop)
    with pytest.raises(CommitOutcomeUnknown):
        txn.commit()
    assert txn.group.state == "unknown"
    assert {str(row.cells[3]) for row in txn.group.rows} == {"? no answer"}
    assert {str(row.cells[2]) for row in txn.group.rows} == {"✓ v1", "–"}  # what was staged was kept
    text = str(txn)
    assert "? outcome unknown  all of 3 tables, or none" in text and txn.txn_id in text


def test_a_commit_that_is_given_up_says_so(shop: dn.Catalog) -> None:
    txn = stepped(shop)
    txn.drive.give_up()
    txn.ended(RuntimeError())
    assert txn.group.state == "abandoned"
    assert "given up  none of 3 tables committed" in str(txn)
    assert shop.store.instant() == 3


def test_a_transaction_without_a_commit_has_no_grid(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        txn.table("shop.rates").to_arrow()
    assert txn.group is None and "ended without a change" in str(txn)
    txn = begun(shop)
    txn.give_up()
    assert "given up, nothing written" in str(txn)


def test_tables_of_both_formats_stand_in_one_grid(shop: dn.Catalog) -> None:
    """PyIceberg draws its own ids, so there is no golden file of these."""
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    events = shop.create_table("shop.events", {"id": [1]}, format="iceberg")
    assert_consistent(events)
    with shop.transaction() as txn:
        txn.table("shop.events").append({"id": [2]})
        txn.table("shop.orders").append({"id": [3], "price": [1]})
        assert_consistent(txn)
    row = txn.group.row("shop.events")
    assert [str(cell) for cell in row.cells] == ["✓", "–", "✓ metadata", "✓", "–"]
    assert_consistent(txn)
    assert "shop.events m1→m2" in str(shop.history(1)) and "last: append" in str(events)
    assert_consistent(shop.snapshot(["shop.events", "shop.orders"]))
    assert_consistent(shop)
    lost = shop.transaction()
    lost.table("shop.events").append({"id": [4]})
    lost.table("shop.orders").append({"id": [4], "price": [1]})
    events.append({"id": [5]})
    with pytest.raises(errors.CommitFailed):
        lost.commit()
    row = lost.group.row("shop.events")
    assert row.cells[2].sign == "✕" and row.error is lost.error
    assert "Requirement failed" in str(lost)
    page = assert_consistent(lost)
    assert "Not met" in page.text and "assert-ref-snapshot-id" in page.text
    assert any(tag == "details" and "open" in attrs for tag, attrs in page.tags)


def test_a_catalog_behind_a_server_is_seen_alike(shop: dn.Catalog, tmp_path: Path) -> None:
    """Looked at, raced, stepped and drawn; what it says is what the one in the process says."""
    from deltanb.catalog.rest.server import serve

    def order(txn: Any) -> None:
        txn.table("shop.orders").append({"id": [3], "price": [30]})
        txn.table("shop.totals").update({"sum": "sum + 30"})

    with serve(shop.store.database.place, warehouse=tmp_path / "lake") as server, \
            dn.connect(server.url) as remote:
        race = dn.race(remote, {"ann": order, "ben": order})
        assert race.outcomes["ann"] == 4 and isinstance(
            race.outcomes["ben"], errors.ConcurrentAppendException)
        txn = remote.transaction()
        order(txn)
        stepper = txn.stepper()
        stepper.let_win("append here", "shop.totals", "cid")
        while not stepper.is_done:
            stepper.advance()
        for shown in (remote, remote.history(), remote.snapshot(["shop.orders"]), txn, stepper):
            assert_consistent(shown)
        assert str(remote.history()) == str(shop.history())
        assert str(remote).split("\n")[1].startswith("server http://127.0.0.1:")
        assert str(remote.timeline()).split("\n")[0] == str(shop.timeline()).split("\n")[0]


def test_the_row_that_failed_is_shown_however_many_there_are(shop: dn.Catalog) -> None:
    grid = progress.begun("txn", {f"shop.t{at:04}": "WRITE" for at in range(300)})
    error = errors.TableNotFound("there is no such table", path="shop.t0299")
    from deltanb.transaction.group import Ratify

    names = tuple((row.name, 1, None) for row in grid.rows)
    grid = progress.after(grid, Ratify("txn", names, ()))
    grid = progress.after(grid, None, Ratify("txn", names, ()), error)
    page = assert_consistent(grid)
    assert "shop.t0299" in page.text and "there is no such table" in page.text
    assert "shop.t0299" in bundle.mimebundle(grid)["text/plain"]


def test_a_catalog_that_cannot_be_asked_says_why(shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: Any) -> Any:
        raise errors.StorageError("the database cannot be reached")

    monkeypatch.setattr(dn.Catalog, "overview", gone)
    assert str(shop) == "Catalog cannot be shown\nStorageError: the database cannot be reached"


