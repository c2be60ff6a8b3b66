"""Iceberg tables of a catalog, in the process and over HTTP: rows by PyIceberg, commits with Delta's."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.commands.result import CommandResult
from tests.notebook.looks import assert_consistent

pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's: pip install pyiceberg")


@pytest.fixture
def shop(catalog: dn.Catalog) -> dn.Catalog:
    catalog.create_table("shop.events", {"id": [1, 2]}, format="iceberg")
    catalog.create_table("shop.totals", {"events": [2]})
    return catalog


def files_below(folder: Path) -> list[str]:
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def ids(table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_a_table_is_made_and_its_rows_written(shop: dn.Catalog) -> None:
    events = shop.table("shop.events")
    events.append({"id": [3]})
    events.append(pa.table({"id": pa.array([4], pa.int32())}))
    events.delete("id = 1")
    assert ids(shop.table("shop.events")) == [2, 3, 4] and ids_where(events, "id > 2") == [3, 4]
    events.overwrite({"id": [9]})
    assert ids(events) == [9] and events.column_names == ["id"]
    assert shop.list_tables("shop") == ["shop.events", "shop.totals"]


def test_commands_say_what_they_did(shop: dn.Catalog) -> None:
    events = shop.table("shop.events")
    done = events.append({"id": [3]})
    assert isinstance(done, CommandResult) and done.version == events.snapshot_id and done.changes_data
    assert (done.operation, done.engine, done.metrics["added-records"]) == ("WRITE", "pyiceberg", 1)
    assert repr(done) == f"<CommandResult WRITE, ✓ committed snapshot {events.snapshot_id}, by PyIceberg>"
    replaced = events.overwrite({"id": [8, 9]})
    assert replaced == events.snapshot_id
    assert (replaced.metrics["deleted-records"], replaced.metrics["added-records"]) == (3, 2)
    assert not any(name.startswith("total-") for name in replaced.metrics)
    deleted = events.delete("id = 8")
    assert deleted.operation == "DELETE" and deleted.version == events.snapshot_id and ids(events) == [9]
    assert_consistent(deleted)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_delete_that_meets_no_row_commits_nothing(shop: dn.Catalog) -> None:
    events = shop.table("shop.events")
    before = events.snapshot_id
    done = events.delete("id = 77")
    assert done.version is None and events.snapshot_id == before and "no row matched" in str(done)


def test_staged_commands_say_what_they_will_do(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        done = txn.table("shop.events").append({"id": [3]})
        assert done.version == txn.table("shop.events").snapshot_id
    assert done == shop.table("shop.events").snapshot_id and done.metrics["added-records"] == 1


def ids_where(table, where: str) -> list[int]:
    return sorted(table.to_arrow(where=where)["id"].to_pylist())


def test_types_comments_and_partitions_become_icebergs(shop: dn.Catalog) -> None:
    table = shop.create_table(
        "shop.typed", "id bigint NOT NULL COMMENT 'which', day date, tags array<string>, at timestamp, "
                      "price decimal(10,2), inside struct<a: int, m: map<string, double>>",
        format="iceberg", partition_by="day", properties={"owner": "ada", "format-version": 2})
    metadata = table.metadata
    (schema,) = metadata["schemas"]
    assert [field["type"] if isinstance(field["type"], str) else field["type"]["type"]
            for field in schema["fields"]] == [
        "long", "date", "list", "timestamptz", "decimal(10, 2)", "struct"]
    assert schema["fields"][0]["doc"] == "which" and schema["fields"][0]["required"]
    (spec,) = metadata["partition-specs"]
    assert [(field["name"], field["transform"]) for field in spec["fields"]] == [("day", "identity")]
    assert table.properties == {"owner": "ada"} and table.snapshot_id is None
    with pytest.raises(errors.InvalidSchema, match="nothing"):
        shop.create_table("shop.x", "id bigint", format="iceberg", partition_by="nothing")
    with pytest.raises(errors.InvalidSchema, match="variant"):
        shop.create_table("shop.x", "id bigint, v variant", format="iceberg")


def test_rows_that_do_not_fit_leave_nothing(shop: dn.Catalog, tmp_path: Path) -> None:
    before = shop.table("shop.events").snapshot_id
    with pytest.raises(errors.DeltaError, match=r"shop\.events"):
        shop.table("shop.events").append({"other": [1]})
    assert shop.table("shop.events").snapshot_id == before


def test_delta_and_iceberg_tables_are_committed_together(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        txn.table("shop.events").append({"id": [3]})
        txn.table("shop.events").append({"id": [4]})
        count = txn.table("shop.events").to_arrow().num_rows
        txn.table("shop.totals").update({"events": str(count)})
        assert ids(shop.table("shop.events")) == [1, 2]
    assert txn.committed is not None
    assert ids(shop.table("shop.events")) == [1, 2, 3, 4]
    assert shop.table("shop.totals").to_arrow().to_pylist() == [{"events": 4}]
    (newest,) = shop.history(1)
    assert newest.txn_id == txn.txn_id and len(newest.changes) == 2
    then = shop.snapshot(["shop.events", "shop.totals"])
    shop.table("shop.events").append({"id": [5]})
    assert ids(then["shop.events"]) == [1, 2, 3, 4]
    with pytest.raises(errors.IllegalStateError, match="read only"):
        then["shop.events"].append({"id": [6]})


def test_a_conflict_on_the_iceberg_table_abandons_both_and_leaves_no_file(
    shop: dn.Catalog, tmp_path: Path
) -> None:
    txn = shop.transaction()
    txn.table("shop.events").append({"id": [3]})
    txn.table("shop.totals").update({"events": "3"})
    shop.table("shop.events").append({"id": [7]})
    with pytest.raises(errors.CommitFailed) as caught:
        txn.commit()
    (failed,) = caught.value.failed_requirements
    assert failed["requirement"]["type"] == "assert-ref-snapshot-id"
    assert txn.status == "failed" and shop.table("shop.totals").version == 0
    assert ids(shop.table("shop.events")) == [1, 2, 7]
    data = [name for name in files_below(tmp_path / "lake") if name.endswith(".parquet") and "events" in name]
    assert len(data) == 2  # of the first rows, and of the winner


def test_a_conflict_on_the_delta_table_abandons_both(shop: dn.Catalog, tmp_path: Path) -> None:
    before = [name for name in files_below(tmp_path / "lake") if "events" in name]
    txn = shop.transaction()
    txn.table("shop.events").append({"id": [3]})
    txn.table("shop.totals").update({"events": "events + 1"})
    shop.table("shop.totals").update({"events": "0"})
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit()
    assert [name for name in files_below(tmp_path / "lake") if "events" in name] == before
    assert ids(shop.table("shop.events")) == [1, 2]


def test_an_iceberg_table_that_was_only_read_counts(shop: dn.Catalog) -> None:
    txn = shop.transaction()
    count = txn.table("shop.events").to_arrow().num_rows
    txn.table("shop.totals").update({"events": str(count)})
    shop.table("shop.events").append({"id": [3]})
    with pytest.raises(errors.CommitFailed, match=r"shop\.events, which was read"):
        txn.commit()
    assert shop.table("shop.totals").version == 0


def test_what_is_given_up_leaves_no_file(shop: dn.Catalog, tmp_path: Path) -> None:
    before = files_below(tmp_path / "lake")
    with pytest.raises(RuntimeError), shop.transaction() as txn:
        txn.table("shop.events").append({"id": [3]})
        txn.table("shop.events").delete("id = 1")  # rewrites a file of the table
        txn.table("shop.events").delete("id = 3")  # and removes one of the transaction
        raise RuntimeError
    assert files_below(tmp_path / "lake") == before and ids(shop.table("shop.events")) == [1, 2]


def test_transactions_of_pyiceberg_are_committed_together(shop: dn.Catalog) -> None:
    shop.create_table("shop.copies", {"id": [0]}, format="iceberg")
    tables = [shop.table(f"shop.{name}").pyiceberg() for name in ("events", "copies")]
    pending = [table.transaction() for table in tables]
    for one in pending:
        one.append(pa.table({"id": [8]}))
    seq = shop.commit_iceberg(*pending)
    assert seq == shop.history(1)[0].seq and len(shop.history(1)[0].changes) == 2
    assert ids(shop.table("shop.events")) == [1, 2, 8] and ids(shop.table("shop.copies")) == [0, 8]
    late = [table.transaction() for table in tables]
    for one in late:
        one.append(pa.table({"id": [9]}))
    shop.table("shop.copies").append({"id": [10]})
    with pytest.raises(errors.CommitFailed) as caught:
        shop.commit_iceberg(*late)
    assert [f["identifier"]["name"] for f in caught.value.failed_requirements] == ["copies"]
    assert ids(shop.table("shop.events")) == [1, 2, 8]
    with pytest.raises(errors.InvalidArgument, match="transactions of PyIceberg"):
        shop.commit_iceberg("events")
    with pytest.raises(errors.InvalidArgument, match="again"):
        shop.commit_iceberg(late[0], late[0])


def test_a_metadata_file_is_registered(shop: dn.Catalog) -> None:
    place = shop.table("shop.events").loaded().metadata_location
    shop.drop_table("shop.events")
    assert ids(shop.register_table("shop.again", place)) == [1, 2]
    shop.drop_table("shop.again", purge=True)
    with pytest.raises(errors.TableNotFound):
        shop.table("shop.again")
