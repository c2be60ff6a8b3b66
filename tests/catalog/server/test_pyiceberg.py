"""PyIceberg's client against a server that runs, on either database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")

from pyiceberg import exceptions as theirs
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from deltanb.catalog.rest.server import Server, serve
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.store import CatalogStore
from tests.helpers import tree

ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "b", "a"]})
TOKENS = Tokens.of({"tokens": [{"name": "ada", "token": "s3cret", "permissions": {"*": "write"}}]})


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Server]:
    with serve(CatalogStore(url, durability="none"), warehouse=tmp_path / "lake", tokens=TOKENS) as server:
        yield server


@pytest.fixture
def catalog(server: Server) -> RestCatalog:
    """A client that knows the token, and the namespace ``ns``."""
    catalog = RestCatalog("rest", uri=server.url, token="s3cret")
    catalog.create_namespace("ns", {"owner": "ada"})
    return catalog


def test_a_table_is_made_written_changed_renamed_and_dropped(catalog: RestCatalog) -> None:
    table = catalog.create_table("ns.t", ROWS.schema, properties={"a": "b"})
    table.append(ROWS)
    table.append(ROWS.slice(0, 1))
    table.overwrite(ROWS, overwrite_filter="id = 1")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 2, 3, 3]
    with table.update_schema() as change:
        change.add_column("more", LongType())
        change.rename_column("part", "place")
    with table.update_spec() as spec:
        spec.add_field("place", IdentityTransform(), "place")
    with table.transaction() as transaction:
        transaction.set_properties(c="d")
        transaction.remove_properties("a")
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "here").commit()
    catalog.rename_table("ns.t", "ns.u")
    again = catalog.load_table("ns.u")
    assert [field.name for field in again.schema().fields] == ["id", "place", "more"]
    assert again.spec() == PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "place"), spec_id=1)
    assert again.properties == {"c": "d"} and "here" in again.refs()
    assert catalog.list_tables("ns") == [("ns", "u")] and not catalog.table_exists("ns.t")
    again.append(pa.table({"id": [9], "place": ["z"], "more": [1]}))
    assert again.scan(row_filter="place = 'z'").to_arrow()["id"].to_pylist() == [9]
    catalog.drop_table("ns.u")
    with pytest.raises(theirs.NoSuchTableError):
        catalog.load_table("ns.u")


def test_namespaces_are_made_changed_and_dropped(catalog: RestCatalog) -> None:
    catalog.create_namespace(("ns", "in"))
    assert catalog.list_namespaces("ns") == [("ns", "in")]
    assert catalog.load_namespace_properties("ns") == {"owner": "ada"}
    summary = catalog.update_namespace_properties("ns", removals={"owner", "x"}, updates={"k": "v"})
    assert (summary.updated, summary.removed, summary.missing) == (["k"], ["owner"], ["x"])
    assert catalog.namespace_exists(("ns", "in"))
    with pytest.raises(theirs.NamespaceAlreadyExistsError):
        catalog.create_namespace("ns")
    with pytest.raises(theirs.NamespaceNotEmptyError):
        catalog.drop_namespace("ns")
    catalog.drop_namespace(("ns", "in"))
    with pytest.raises(theirs.NoSuchNamespaceError):
        catalog.drop_namespace(("ns", "in"))
    with pytest.raises(theirs.NoSuchNamespaceError):
        catalog.create_table("no.t", ROWS.schema)


def test_a_table_made_in_a_transaction_comes_to_be_with_its_rows(catalog: RestCatalog) -> None:
    with catalog.create_table_transaction("ns.t", ROWS.schema) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists("ns.t")
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3
    with pytest.raises(theirs.TableAlreadyExistsError):
        catalog.create_table("ns.t", ROWS.schema)


def test_of_two_writers_the_later_one_is_told_of_the_conflict(catalog: RestCatalog) -> None:
    table = catalog.create_table("ns.t", ROWS.schema)
    stale = catalog.load_table("ns.t")
    with table.update_schema() as change:
        change.add_column("mine", StringType())
    with pytest.raises(theirs.CommitFailedException, match="current schema changed"), \
            stale.update_schema() as change:
        change.add_column("theirs", StringType())
    assert [field.name for field in catalog.load_table("ns.t").schema().fields] == ["id", "part", "mine"]


def test_registered_tables_are_read(catalog: RestCatalog) -> None:
    table = catalog.create_table("ns.t", ROWS.schema)
    table.append(ROWS)
    with pytest.raises(BadRequestError, match="the folder of another table"):
        catalog.register_table("ns.r", table.metadata_location)
    catalog.drop_table("ns.t")
    again = catalog.register_table("ns.r", table.metadata_location)
    assert again.scan().to_arrow().num_rows == 3
    catalog.purge_table("ns.r")
    assert tree(Path(table.location().removeprefix("file://"))) == set()


def together(server: Server, *transactions: Transaction) -> httpx.Response:
    """Commit transactions of PyIceberg as one; it has no call for that."""
    changes = [{
        "identifier": {"namespace": list(each._table.name()[:-1]), "name": each._table.name()[-1]},
        "requirements": [one.model_dump(mode="json") for one in each._requirements],
        "updates": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in each._updates],
    } for each in transactions]
    return httpx.post(f"{server.url}/v1/transactions/commit", json={"table-changes": changes},
                      headers={"Authorization": "Bearer s3cret"})


def begun(table: Table, rows: Any) -> Transaction:
    transaction = table.transaction()
    transaction.append(rows)
    return transaction


def test_transactions_of_many_tables_are_committed_together(catalog: RestCatalog, server: Server) -> None:
    tables = [catalog.create_table(f"ns.{name}", ROWS.schema) for name in "ab"]
    answer = together(server, *(begun(table, ROWS) for table in tables))
    assert answer.status_code == 200, answer.text
    assert [table.refresh().scan().to_arrow().num_rows for table in tables] == [3, 3]
    late = [begun(table, ROWS) for table in tables]
    tables[1].append(ROWS)
    refused = together(server, *late).json()["error"]
    (failed,) = refused["failed-requirements"]
    assert refused["code"] == 409 and failed["identifier"]["name"] == "b"
    assert failed["actual"]["snapshot-id"] == tables[1].current_snapshot().snapshot_id
    assert [table.refresh().scan().to_arrow().num_rows for table in tables] == [3, 6]


def test_who_has_no_token_is_told(server: Server) -> None:
    with pytest.raises(theirs.UnauthorizedError):
        RestCatalog("rest", uri=server.url, token="wrong")
