"""The stepper of several tables drives the real commit on the real catalog, and holds nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.store import CatalogStore
from deltanb.notebook import bundle
from deltanb.notebook.widgets.stepper import Panel
from deltanb.observe.stepper import GroupStepper
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


def stepper_of(shop: dn.Catalog) -> GroupStepper:
    """An order that is added, a total that is kept, and a rate that is read."""
    txn = shop.transaction()
    txn.table("shop.rates").to_arrow()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"sum": "sum + 30"})
    stepper: GroupStepper = txn.stepper()
    return stepper


def step(stepper: GroupStepper, until: str) -> GroupStepper:
    """Go on up to the step whose line has these words."""
    while until not in stepper.advance():
        assert not stepper.is_done, stepper.frame.events
    return stepper


def ran(stepper: GroupStepper) -> GroupStepper:
    while not stepper.is_done:
        stepper.advance()
    return stepper


def lost_once(shop: dn.Catalog) -> GroupStepper:
    stepper = step(stepper_of(shop), "ratify")
    stepper.let_win("append here", "shop.orders", "ben")
    return stepper


def looking_back(shop: dn.Catalog) -> GroupStepper:
    stepper = ran(lost_once(shop))
    stepper.move(8)
    return stepper


def failed(shop: dn.Catalog) -> GroupStepper:
    stepper = step(stepper_of(shop), "ratify")
    stepper.let_win("append here", "shop.totals", "ben")
    return ran(stepper)


def renamed(shop: dn.Catalog) -> GroupStepper:
    stepper = step(stepper_of(shop), "ratify")
    shop.rename_table("shop.rates", "shop.fees")
    return ran(stepper)


MOMENTS: dict[str, Callable[[dn.Catalog], GroupStepper]] = {
    "group_stepper_new": stepper_of,
    "group_stepper_staged": lambda shop: step(stepper_of(shop), "ratify"),
    "group_stepper_refused": lambda shop: step(lost_once(shop), "refused"),
    "group_stepper_won": lambda shop: ran(lost_once(shop)),
    "group_stepper_back": looking_back,
    "group_stepper_failed": failed,
    "group_stepper_renamed": renamed,
}


@pytest.mark.parametrize("name", MOMENTS)
def test_every_moment_looks_as_it_did(name: str, shop: dn.Catalog, update_golden: bool) -> None:
    stepper = MOMENTS[name](shop)
    page = assert_consistent(stepper)
    assert_golden(stepper, name, update_golden)
    assert bundle.mimebundle(stepper.frame) == bundle.mimebundle(stepper)
    current = [attrs for tag, attrs in page.tags if tag == "li" and attrs.get("aria-current") == "step"]
    assert len(current) == 1


# -- it is the real commit ----------------------------------------------------------------------------


def test_it_commits_what_the_transaction_would(shop: dn.Catalog) -> None:
    stepper = ran(stepper_of(shop))
    assert stepper.seq == 4 and stepper.versions == {"shop.orders": 1, "shop.totals": 1}
    assert stepper.txn.status == "committed" and stepper.txn.committed.seq == 4
    assert shop.table("shop.totals").to_arrow()["sum"].to_pylist() == [60]
    assert stepper.advance() == "nothing left to do: transaction 4 is committed and stays"
    assert shop.history(1)[0].operations == {
        "shop.rates": "READ", "shop.orders": "WRITE", "shop.totals": "UPDATE"}


def test_only_the_table_that_lost_is_staged_again(shop: dn.Catalog) -> None:
    stepper = ran(lost_once(shop))
    lines = [line for line in stepper.frame.events if "stage " in line]
    assert [line.split(" ")[2].rstrip(":") for line in lines].count("shop.totals") == 1
    assert [line.split(" ")[2].rstrip(":") for line in lines].count("shop.orders") == 2
    assert stepper.versions == {"shop.orders": 2, "shop.totals": 1}


def test_a_commit_that_fails_does_not_raise_and_says_why(shop: dn.Catalog) -> None:
    stepper = failed(shop)
    assert isinstance(stepper.error, errors.ConcurrentAppendException)
    assert stepper.conflict is stepper.error.conflict and stepper.conflict.table == "shop.totals"
    assert stepper.txn.status == "failed" and stepper.txn.error is stepper.error
    assert stepper.seq is None and stepper.versions == {}
    assert shop.table("shop.orders").version == 0
    with pytest.raises(errors.IllegalStateError, match="no rival can win any more"):
        stepper.rival("append here")


def test_nothing_of_the_database_is_held_between_two_steps(shop: dn.Catalog, tmp_path: Path) -> None:
    """Another process's catalog writes at every moment, on SQLite, which lets one writer in at a time."""
    other = CatalogStore(f"sqlite:///{tmp_path}/shop.db")
    stepper, moments = stepper_of(shop), 0
    while not stepper.is_done:
        stepper.advance()
        assert shop.store.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        other.namespaces.create(f"made{moments}")
        moments += 1
    assert stepper.seq == 4 and moments >= 12


def test_what_is_staged_counts_for_nothing_and_what_is_ratified_for_everybody(shop: dn.Catalog) -> None:
    stepper = step(stepper_of(shop), "ratify")
    assert shop.snapshot(["shop.orders", "shop.totals"]).versions == {"shop.orders": 0, "shop.totals": 0}
    step(stepper, "committed as transaction 4")
    assert shop.snapshot(["shop.orders", "shop.totals"]).versions == {"shop.orders": 1, "shop.totals": 1}
    row = shop.store.tables.load("shop.orders")
    assert row.delta is not None and (row.delta.latest, row.delta.published) == (1, 0)


def test_a_version_that_cannot_be_published_is_said_to_be_so(
    shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = step(stepper_of(shop), "committed as")

    def full(self: ManagedCommitter, version: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ManagedCommitter, "publish", full)
    ran(stepper)
    assert "unpublished: shop.orders, shop.totals" in stepper.frame.line


# -- rivals --------------------------------------------------------------------------------------------


def test_a_rival_commits_to_the_table_of_choice(shop: dn.Catalog) -> None:
    stepper = stepper_of(shop)
    assert stepper.tables == ["shop.rates", "shop.orders", "shop.totals"]
    line = stepper.let_win("metadata", "shop.rates", "ben")
    assert line == "ben: set the property deltanb.rival = 1, shop.rates v1"
    entry = shop.history(1)[0]
    assert entry.principal == "ben" and list(entry.operations) == ["shop.rates"]
    assert ran(stepper).conflict.table == "shop.rates"


def test_a_rival_is_any_function_of_a_table(shop: dn.Catalog) -> None:
    stepper = stepper_of(shop)
    line = stepper.let_win(lambda table: table.append({"id": [9], "price": [1]}), "shop.orders", "cid")
    assert line == "cid: WRITE, shop.orders v1"
    assert stepper.let_win(lambda table: None) == "another writer: committed nothing"
    assert ran(stepper).versions == {"shop.orders": 2, "shop.totals": 1}


def test_rivals_that_cannot_be_are_refused(shop: dn.Catalog) -> None:
    stepper = stepper_of(shop)
    for wrong in (lambda: stepper.rival("append here", "shop.nothing"), lambda: stepper.rival("anything"),
                  lambda: stepper.rival("delete", "shop.rates", "")):
        with pytest.raises(errors.InvalidArgument):
            wrong()
    with pytest.raises(errors.IllegalStateError, match="no file was read"):
        stepper.rival("delete", "shop.orders")


# -- the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("until", ["prepare", "stage", "ratify"])
def test_what_is_given_up_before_it_is_ratified_leaves_nothing(
    shop: dn.Catalog, tmp_path: Path, until: str
) -> None:
    before = sorted((tmp_path / "lake").rglob("*.parquet"))
    stepper = step(stepper_of(shop), until)
    stepper.close()
    stepper.close()
    assert stepper.is_done and stepper.txn.status == "abandoned" and shop.store.instant() == 3
    assert sorted((tmp_path / "lake").rglob("*.parquet")) == before
    assert "nothing of any table was written" in stepper.frame.line
    assert_consistent(stepper)


def test_what_is_closed_after_it_is_ratified_stays(shop: dn.Catalog) -> None:
    stepper = step(stepper_of(shop), "committed as transaction 4")
    stepper.close()
    assert stepper.seq == 4 and stepper.txn.status == "committed"
    assert "transaction 4 is committed and stays" in stepper.frame.line
    assert shop.table("shop.totals").to_arrow()["sum"].to_pylist() == [60]


def test_an_interrupt_ends_the_commit_and_is_raised(
    shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = step(stepper_of(shop), "ratify")

    def interrupted(self: CatalogStore, *args: Any, **settings: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CatalogStore, "ratify", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stepper.advance()
    assert stepper.is_done and shop.store.instant() == 3
    assert_consistent(stepper)


def test_a_transaction_without_changes_has_no_stepper(shop: dn.Catalog) -> None:
    txn = shop.transaction()
    txn.table("shop.orders").to_arrow()
    with pytest.raises(errors.IllegalStateError, match="nothing was done"):
        txn.stepper()
    txn.table("shop.orders").append({"id": [3], "price": [1]})
    assert ran(txn.stepper()).seq == 4
    with pytest.raises(errors.IllegalStateError):
        txn.stepper()


# -- buttons ---------------------------------------------------------------------------------------------


def test_buttons_drive_it_and_let_another_writer_win_on_a_table(shop: dn.Catalog) -> None:
    stepper = stepper_of(shop)
    panel = Panel(stepper)
    assert bundle.WIDGET in panel.view() and list(panel.table.options) == stepper.tables
    panel.next.click()
    panel.table.value, panel.kind.value = "shop.totals", "delete"
    assert not panel.rival.disabled
    panel.table.value = "shop.orders"
    assert panel.rival.disabled and panel.message.value == "no file was read"
    panel.table.value = "shop.totals"
    panel.rival.click()
    assert shop.table("shop.totals").version == 1
    while not stepper.is_done:
        panel.next.click()
    assert panel.rival.disabled and "ConcurrentDeleteRead" in panel.picture.value
    panel.first.click()
    assert stepper.position == 0 and "looking back" in panel.picture.value
