"""Tables with the feature ``multiTableTransaction-dev`` in a catalog: by its database and behind a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from logging import LogRecord
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import TransactionGroup
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.log.commits import STAGED_FOLDER, commit_name
from deltanb.log.compaction import write_compaction
from deltanb.schema.protocol import GROUPS
from deltanb.transaction.group import Stage
from tests.catalog.groups import SUPPORTED, disagreements, num_groups
from tests.notebook.looks import assert_consistent

NAMES = ("shop.orders", "shop.totals")
pytestmark = pytest.mark.parametrize("new_url", ["sqlite"], indirect=True)


@pytest.fixture
def shop(catalog: dn.Catalog) -> Iterator[dn.Catalog]:
    """Two tables with the feature, one without it."""
    catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]}, properties=SUPPORTED)
    catalog.create_table("shop.totals", {"orders": [2], "sum": [30]}, properties=SUPPORTED)
    catalog.create_table("shop.plain", {"id": [1]})
    yield catalog
    assert list(disagreements(catalog, "shop")) == []


def order(shop: dn.Catalog, more: str | None = None) -> Any:
    """One more order, and with it the totals; ``more`` is a third table that it is added to."""
    txn = shop.transaction()
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"orders": "orders + 1", "sum": "sum + 30"})
    if more is not None:
        txn.table(more).append({"id": [3]})
    return txn


def group_of(table: dn.DeltaTable, version: int | None = None) -> Any:
    """The transaction group that a commit names."""
    return next((action for action in table.log.read_commit(table.version if version is None else version)
                 if isinstance(action, TransactionGroup)), None)


def ids(table: dn.DeltaTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


# -- which commits name a group --------------------------------------------------------------------


def test_the_commits_of_a_transaction_name_each_other(shop: dn.Catalog) -> None:
    txn = order(shop)
    txn.commit()
    orders, totals = (shop.table(name) for name in NAMES)
    assert group_of(orders) == group_of(totals)
    assert group_of(orders).versions == {
        shop.store.tables.load(name).table_id: 1 for name in NAMES}
    assert group_of(orders).transaction_id == txn.txn_id
    assert group_of(orders).coordinating_catalog == shop.name == "default"
    assert orders.history()[0].tags == {"delta.multiTableTransaction.transactionId": txn.txn_id}


def test_after_a_lost_race_both_are_staged_again_and_nothing_else_is_left(shop: dn.Catalog) -> None:
    txn = order(shop)
    shop.table("shop.orders").append({"id": [4], "price": [40]})
    staged: list[tuple[str, int]] = []
    drive = txn.begin()
    drive.run(lambda step: staged.append((step.name, step.version)) if isinstance(step, Stage) else None)
    txn.ended()
    assert sorted(staged) == [("shop.orders", 1), ("shop.orders", 2), ("shop.totals", 1), ("shop.totals", 1)]
    for name in NAMES:
        table = shop.table(name)
        assert num_groups(table) == 1
        log = Path(table.path)
        contents = {path.read_bytes() for path in (log / STAGED_FOLDER).iterdir()}
        assert contents == {(log / commit_name(v)).read_bytes() for v in range(1, table.version + 1)}


def test_one_written_table_names_none(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        total = txn.table("shop.totals").to_arrow()["sum"][0].as_py()
        txn.table("shop.orders").append({"id": [3], "price": [total]})
    shop.table("shop.orders").append({"id": [4], "price": [40]})
    assert num_groups(shop.table("shop.orders")) == 0


def test_where_a_written_table_lacks_the_feature_none_is_named_and_a_line_says_so(
    shop: dn.Catalog, caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "deltanb.catalog"):
        order(shop, "shop.plain").commit()
    assert [group_of(shop.table(name)) for name in (*NAMES, "shop.plain")] == [None] * 3
    lines = [text for text in map(LogRecord.getMessage, caplog.records) if "names its other tables" in text]
    assert lines == [
        f"No commit of the transaction names its other tables: shop.plain lacks the table feature {GROUPS}"]
    shop.table("shop.plain").add_feature(GROUPS)
    order(shop, "shop.plain").commit()
    assert [num_groups(shop.table(name)) for name in (*NAMES, "shop.plain")] == [1, 1, 1]
    shop.table("shop.plain").drop_feature(GROUPS)
    order(shop, "shop.plain").commit()
    assert num_groups(shop.table("shop.orders")) == 1


def test_a_table_that_gets_the_feature_in_the_transaction_is_in_the_group(shop: dn.Catalog) -> None:
    """As its commit leaves it, it supports what it says."""
    txn = order(shop)
    txn.table("shop.plain").set_properties(SUPPORTED)
    txn.commit()
    assert len(group_of(shop.table("shop.plain")).participants) == 3


def test_iceberg_tables_are_committed_beside_the_group(shop: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's: pip install pyiceberg")
    shop.create_table("shop.events", {"id": [1]}, format="iceberg")
    order(shop, "shop.events").commit()
    assert ids(shop.table("shop.events")) == [1, 3]
    assert len(group_of(shop.table("shop.orders")).participants) == 2


def test_statements_of_sql_are_one_group(shop: dn.Catalog) -> None:
    shop.sql("BEGIN ATOMIC INSERT INTO shop.orders VALUES (3, 30); DELETE FROM shop.orders WHERE id = 1; "
             "UPDATE shop.totals SET sum = sum + 30; END")
    assert group_of(shop.table("shop.orders")) == group_of(shop.table("shop.totals")) is not None


def test_what_is_done_under_locks_is_one_group(shop: dn.Catalog) -> None:
    with dn.locks.LockManager().new_transaction() as txn:
        txn.table(shop.table("shop.orders")).append({"id": [3], "price": [30]})
        txn.table(shop.table("shop.totals")).update({"sum": "sum + 30"})
        txn.commit()
    assert group_of(shop.table("shop.orders")) == group_of(shop.table("shop.totals")) is not None


# -- with other features -----------------------------------------------------------------------------

FEATURES = {
    "row tracking": {"delta.enableRowTracking": True},
    "deletion vectors": {"delta.enableDeletionVectors": True},
    "change feed": {"delta.enableChangeDataFeed": True},
    "names": {"delta.columnMapping.mode": "name"},
    "all": {"delta.enableRowTracking": True, "delta.enableDeletionVectors": True,
            "delta.enableChangeDataFeed": True, "delta.columnMapping.mode": "name"},
}


@pytest.mark.parametrize("properties", FEATURES.values(), ids=FEATURES)
def test_groups_and_what_else_a_table_has(catalog: dn.Catalog, properties: dict[str, Any]) -> None:
    """Each row is written once, also where the commit is made again behind another one's."""
    for name in NAMES:
        catalog.create_table(name, {"id": [1, 2], "n": [0, 0]}, properties={
            **SUPPORTED, "delta.isolationLevel": "WriteSerializable", **properties})
    txn = catalog.transaction()
    for name in NAMES:
        txn.table(name).append({"id": [3], "n": [0]})
        txn.table(name).update({"n": "n + 1"}, "id = 1")
    catalog.table("shop.totals").append({"id": [9], "n": [9]})
    txn.commit()
    orders, totals = (catalog.table(name) for name in NAMES)
    assert sorted(orders.to_arrow().to_pydict()["id"]) == [1, 2, 3]
    assert sorted(totals.to_arrow().to_pydict()["id"]) == [1, 2, 3, 9]
    assert group_of(orders) == group_of(totals)
    assert sorted(group_of(orders).versions.values()) == [1, 2]
    assert list(disagreements(catalog, "shop")) == []
    for table in (orders, totals):
        assert table.verify(files="all").findings == ()
        if "delta.enableChangeDataFeed" in properties:
            changes = table.changes(table.version, table.version).to_arrow()
            assert sorted(changes["_change_type"].to_pylist()) == [
                "insert", "update_postimage", "update_preimage"]
        if "delta.enableRowTracking" in properties:
            numbers = table.snapshot.files["base_row_id"].to_pylist()
            assert None not in numbers and len(set(numbers)) == len(numbers)
        before = table.to_arrow().sort_by("id")
        table.optimize()
        table.restore(table.version - 1)
        assert table.to_arrow().sort_by("id") == before


# -- what readers and upkeep make of it ----------------------------------------------------------------


def test_the_action_is_in_commits_alone_and_every_view_takes_it(shop: dn.Catalog) -> None:
    order(shop).commit()
    table = shop.table("shop.orders")
    commit = table.commit(1)
    assert "Group    2 tables in default  " in str(commit)
    for participant in group_of(table).participants:
        assert f"{participant.table_id[:7]}…" in str(commit)
    assert_consistent(commit)
    assert_consistent(group_of(table))
    table.append({"id": [4], "price": [40]})
    assert b"transactionGroup" not in Path(table.path, write_compaction(table.log, 1, 2)).read_bytes()
    table.log.checkpoint()
    [checkpoint] = Path(table.path, "_delta_log").glob("*.checkpoint*.parquet")
    assert "transactionGroup" not in pq.read_schema(checkpoint).names
    assert table.verify().findings == ()
    assert "action-unknown" not in {spot.kind for spot in table.checkup().blind_spots}


def test_versions_that_were_not_published_are_published_by_anybody(
    shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(self: ManagedCommitter, version: int) -> None:
        raise OSError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(ManagedCommitter, "publish", die)
        order(shop).commit()
    tables = [shop.table(name) for name in NAMES]
    assert not any(Path(table.path, commit_name(1)).exists() for table in tables)
    tables[0].append({"id": [9], "price": [90]})
    tables[1].update({"sum": "0"})
    assert num_groups(tables[0]) == 1
    for table in tables:
        assert b'"transactionGroup"' in Path(table.path, commit_name(1)).read_bytes()


def test_what_was_staged_and_is_given_up_is_deleted(shop: dn.Catalog) -> None:
    stepper = order(shop).stepper()
    while "ratify" not in stepper.advance():
        pass
    folders = [Path(shop.table(name).path, STAGED_FOLDER) for name in NAMES]
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)
    stepper.close()
    assert not any(list(folder.iterdir()) for folder in folders)


# -- the stepper -----------------------------------------------------------------------------------------


def test_each_step_says_what_it_does_for_the_group(shop: dn.Catalog) -> None:
    stepper = order(shop).stepper()
    lines: list[str] = []
    while not stepper.is_done:
        lines.append(stepper.advance())
        if lines[-1].endswith("ratify: 2 tables, all or none"):
            stepper.let_win(lambda table: table.append({"id": [9], "price": [9]}), "shop.orders", "ben")
    words = [line.split(" ", 1)[1] for line in lines]
    group = "group: each commit names all of 2 tables and their versions"
    assert [word for word in words if word.startswith(("group", "stage", "again", "ratify"))] in [[
        group, *first, "ratify: 2 tables, all or none",
        "again shop.orders: it is based on v1 now, all that name its version are restaged",
        group, *second, "ratify once more: 2 tables, all or none"] for first, second in (
        (stages("orders", 1, "totals", 1), stages("orders", 2, "totals", 1)),
        (stages("totals", 1, "orders", 1), stages("totals", 1, "orders", 2)))]
    assert "2 tables, whose commits name each other, 2 ratifications tried" in str(stepper.txn)
    assert_consistent(stepper.txn)


def stages(first: str, at: int, second: str, then: int) -> list[str]:
    return [f"stage shop.{name}: v{version}, not visible yet" for name, version in (
        (first, at), (second, then))]


def test_the_stepper_says_why_no_group_is_named(shop: dn.Catalog) -> None:
    stepper = order(shop, "shop.plain").stepper()
    line = stepper.advance()
    while "group" not in line:
        line = stepper.advance()
    stepper.close()
    assert line.endswith("group: none, shop.plain without the table feature")


# -- where the feature may be ------------------------------------------------------------------------------


def test_only_tables_of_a_catalog_get_it(catalog: dn.Catalog, tmp_path: Path) -> None:
    for call in (lambda: dn.create(tmp_path / "new", {"id": [1]}, properties=SUPPORTED),
                 lambda: dn.create(tmp_path / "lake" / "old", {"id": [1]}).add_feature(GROUPS),
                 lambda: dn.open(tmp_path / "lake" / "old").set_properties(SUPPORTED)):
        with pytest.raises(errors.UnsupportedProtocol, match=f"{GROUPS}: only a table that a catalog"):
            call()
    assert dn.open(tmp_path / "lake" / "old").version == 0
    table = catalog.register_table("shop.old", str(tmp_path / "lake" / "old"))
    table.add_feature("MULTITABLETRANSACTION-DEV")
    assert GROUPS in table.protocol.writer_features
    assert GROUPS not in table.protocol.reader_features


def test_a_clone_lies_in_a_folder_and_has_it_not(shop: dn.Catalog, tmp_path: Path) -> None:
    shop.table("shop.orders").clone(tmp_path / "clone")
    clone = dn.open(tmp_path / "clone")
    assert GROUPS not in clone.protocol.writer_features
    clone.append({"id": [3], "price": [30]})
    assert ids(clone) == [1, 2, 3]


def test_the_definition_of_a_table_has_it(shop: dn.Catalog) -> None:
    text = shop.sql("SHOW CREATE TABLE shop.orders").rows["createtab_stmt"][0].as_py()
    assert f"'delta.feature.{GROUPS}' = 'supported'" in text
    shop.drop_table("shop.orders", purge=True)
    shop.sql(text)
    assert GROUPS in shop.table("shop.orders").protocol.writer_features
