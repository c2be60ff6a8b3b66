"""Commits to tables whose catalog ratifies them, stepped part by part: staged, ratified, published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("httpx")

import deltanb as dn
from deltanb import errors
from deltanb.log.commits import STAGED_FOLDER
from deltanb.notebook import bundle
from tests.catalog.unity.clients import catalog_of, publishing_nothing
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import LOST_ANSWER, LOST_REQUEST
from tests.helpers import ids, tree
from tests.notebook.looks import assert_consistent, assert_golden
from tests.table_kinds import HANDLES


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    with dn.set_options(durability="none"):
        yield


@pytest.fixture
def unity(tmp_path: Path) -> Unity:
    return Unity(tmp_path / "unity", "0.7")


def in_unity(path: Path) -> dn.DeltaTable:
    catalog = catalog_of(Unity(path / "unity", "0.7"))
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1]})


def in_our_own(path: Path) -> dn.DeltaTable:
    catalog = dn.Catalog(f"sqlite:///{path}/lake.db", warehouse=path / "lake")
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1]})


CATALOGS: dict[str, Callable[[Path], dn.DeltaTable]] = {"Unity": in_unity, "ours": in_our_own}


@pytest.fixture(params=CATALOGS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> dn.DeltaTable:
    return CATALOGS[request.param](tmp_path)


@pytest.fixture
def orders(unity: Unity) -> dn.DeltaTable:
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1]})


def stepper_of(table: dn.DeltaTable, number: int = 7) -> Any:
    txn = table.start_transaction()
    return txn.stepper(txn.write_files({"id": [number]}), "WRITE")


def lines(stepper: Any) -> list[str]:
    """The rest of its lines, without their numbers."""
    texts = []
    while not stepper.is_done:
        texts.append(stepper.advance().split(" ", 1)[1])
    return texts


def staged(table: dn.DeltaTable) -> int:
    folder = Path(table.path) / STAGED_FOLDER
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_a_commit_is_staged_ratified_and_published(table: dn.DeltaTable) -> None:
    stepper = stepper_of(table)
    assert lines(stepper)[1:-1] == [
        "stage: v1, not visible yet", "ratify: does the catalog take v1?", "committed v1 after 1 attempt",
        "publish: v1 into the folder"]
    assert [frame.place for frame in stepper.frames] == [
        "read", "prepare", "stage", "ratify", "won", "publish", "publish"]
    assert stepper.in_short() == "v1 is committed and stays" and ids(table) == [1, 7]


def test_each_part_is_done_when_it_is_left(table: dn.DeltaTable) -> None:
    stepper, other = stepper_of(table), dn.DeltaTable(table.log)
    seen = []
    while not stepper.is_done:
        stepper.advance()
        in_folder = [name for name in tree(Path(table.path)) if name.endswith(f"{1:020}.json")]
        seen.append((stepper.frame.place, staged(table), other.version, len(in_folder)))
    places = [place for place, *_ in seen]
    assert places == ["prepare", "stage", "ratify", "won", "publish", "publish"]
    first = seen[0][1]
    assert [count - first for _, count, *_ in seen[:3]] == [0, 0, 1], "the file is there once it is staged"
    assert [version for *_, version, _ in seen] == [0, 0, 0, 1, 1, 1], "current once it is ratified"
    assert [count for *_, count in seen] == [0, 0, 0, 0, 0, 1], "in the folder once it is published"


def test_who_wins_between_staging_and_ratifying_is_met(table: dn.DeltaTable) -> None:
    stepper = stepper_of(table)
    while stepper.frame.place != "ratify":
        stepper.advance()
    stepper.let_win("append here", "ben")
    assert [line.split(":")[0] for line in lines(stepper)] == [
        "taken", "lost", "check", "next", "again", "stage", "ratify", "committed v2 after 2 attempts",
        "publish", "done"]
    assert table.version == 2 and ids(table)[-1] == 7 and len(ids(table)) == 3
    assert not table.verify(files="all").proved


@pytest.mark.parametrize("at", range(1, 6))
def test_a_commit_that_is_given_up_at_a_part_leaves_nothing(table: dn.DeltaTable, at: int) -> None:
    stepper, before = stepper_of(table), tree(Path(table.path))
    log = {name for name in before if "_delta_log" in name}
    for _ in range(at):
        stepper.advance()
    is_there = stepper.frame.place in ("won", "publish")
    stepper.close()
    assert stepper.is_done and ids(table) == ([1, 7] if is_there else [1])
    assert stepper.txn.status == ("committed" if is_there else "abandoned")
    if not is_there:
        assert {name for name in tree(Path(table.path)) if "_delta_log" in name} == log
    table.append({"id": [8]})
    assert not table.verify(files="all").proved


def test_the_next_commit_reports_what_was_published(orders: dn.DeltaTable) -> None:
    assert lines(stepper_of(orders))[-1] == "done: v1 is in the folder, which the next commit reports"
    assert "ratify: does the catalog take v2?; v1 is reported as published" in lines(stepper_of(orders, 8))


def test_our_own_catalog_hears_of_it_with_the_next_commit_too(tmp_path: Path) -> None:
    table = in_our_own(tmp_path)
    assert lines(stepper_of(table))[-1] == "done: v1 is in the folder, which the next commit reports"
    assert "ratify: does the catalog take v2?; v1 is reported as published" in lines(stepper_of(table, 8))


@pytest.mark.parametrize(("fate", "ending"), [
    (LOST_ANSWER, "found: v1 is your own, its answer was lost"),
    (LOST_REQUEST, "found: v1 is your own, its answer was lost"),
])
def test_an_answer_that_is_lost_is_looked_up(
    unity: Unity, orders: dn.DeltaTable, fate: str, ending: str
) -> None:
    unity.script("updateTable", fate)
    seen = lines(stepper_of(orders))
    asked = seen.index("unknown: no answer from the catalog, has it taken v1?")
    assert seen[asked + 1] == ending and ids(orders) == [1, 7]


@pytest.fixture
def backlog(orders: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A commit to a table that has as many unpublished ones as the server takes."""
    with publishing_nothing(monkeypatch):
        for number in range(2, 12):
            orders.append({"id": [number]})
    return stepper_of(orders, 12)


def test_a_backlog_is_published_and_the_same_file_proposed_again(orders: dn.DeltaTable, backlog: Any) -> None:
    stepper = backlog
    assert lines(stepper)[1:6] == [
        "stage: v11, not visible yet", "ratify: does the catalog take v11?",
        "publish: the catalog takes no more until v10 is in the folder",
        "ratify once more: does the catalog take v11?", "committed v11 after 1 attempt"]
    assert ids(orders) == list(range(1, 13))


def test_a_commit_that_is_given_up_behind_a_refusal_is_not_proposed_again(
    orders: dn.DeltaTable, backlog: Any
) -> None:
    stepper, before = backlog, staged(orders)
    while not stepper.frame.line.endswith("until v10 is in the folder"):
        stepper.advance()
    stepper.close()
    assert stepper.in_short() == "abandoned" and staged(orders) == before
    assert ids(orders) == list(range(1, 12))


def test_a_frame_looks_as_it_did(unity: Unity, orders: dn.DeltaTable, update_golden: bool) -> None:
    stepper = stepper_of(orders)
    while stepper.frame.place != "ratify":
        stepper.advance()
    stepper.let_win("append here", "ben")
    lines(stepper)
    assert_consistent(stepper)
    assert_golden(stepper, "managed_stepper", update_golden)


def test_a_conflict_names_the_table_as_its_catalog_does(tmp_path: Path) -> None:
    """Of our own catalog; of Unity's it is tried on each server."""
    table = in_our_own(tmp_path)
    txn = table.transaction()
    txn.delete("id = 1")
    dn.DeltaTable(table.log).update({"id": "id + 1"}, where="id = 1")
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        txn.commit()
    conflict = caught.value.conflict
    drawn = bundle.mimebundle(conflict)["text/html"]
    for shown in (str(caught.value), str(conflict), drawn):
        assert "shop.orders" in shown
        assert Path(table.path).name not in shown


@pytest.mark.parametrize("make", HANDLES, ids=lambda make: make.__name__)
def test_a_commit_to_any_kind_of_table_is_stepped_or_refused(make: Any, tmp_path: Path) -> None:
    with make(tmp_path, {"id": [1]}) as home:
        try:
            txn = home.table.start_transaction()
            stepper = txn.stepper(txn.write_files({"id": [7]}), "WRITE")
        except (errors.DeltaError, AttributeError) as refused:
            assert str(refused)
            return
        while not stepper.is_done:
            stepper.advance()
        assert stepper.frame.state == "committed" and stepper.frame.algorithm[-1][0] in ("won", "publish")
