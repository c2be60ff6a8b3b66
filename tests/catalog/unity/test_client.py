"""A client of Unity Catalog on each server: all that a table does, and what the catalog knows of it then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.unity.forms import columns_value, is_derived
from tests.catalog.unity.clients import SERVERS, Server
from tests.helpers import ids


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with dn.set_options(durability="none"), SERVERS[request.param](tmp_path) as server:
        yield server


def follows(server: Server, table: dn.DeltaTable, name: str, clients: int = 1) -> None:
    """What the catalog keeps of a table, which so many clients commit to, is what its log says."""
    loaded, snapshot = server.loaded(name), table.snapshot
    metadata = loaded["metadata"]
    assert loaded["latest-table-version"] == snapshot.version
    assert metadata["columns"] == columns_value(json.loads(snapshot.metadata.schema_string))
    assert metadata["partition-columns"] == list(snapshot.metadata.partition_columns)
    ours = {name: value for name, value in metadata["properties"].items() if not is_derived(name)}
    assert ours == snapshot.metadata.configuration
    features = {name.removeprefix("delta.feature.") for name in metadata["properties"]
                if name.startswith("delta.feature.")}
    assert features == set(snapshot.protocol.features)
    assert len(loaded["commits"]) <= clients  # the newest of each is reported with its next


COMMANDS = {
    "append": lambda t: t.append({"id": [9], "part": [1]}),
    "overwrite": lambda t: t.overwrite({"id": [9], "part": [1]}),
    "overwrite a part": lambda t: t.overwrite({"id": [9], "part": [1]}, where="part = 1"),
    "another schema": lambda t: t.overwrite({"id": [9], "name": ["x"]}, overwrite_schema=True),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"id": "id + 10"}, where="id = 2"),
    "merge": lambda t: t.merge({"id": [2, 9], "part": [0, 0]}, "target.id = source.id")
    .when_matched_delete().when_not_matched_insert_all().execute(),
    "set properties": lambda t: t.set_properties({"delta.appendOnly": True, "owner": "ada"}),
    "change feed": lambda t: t.set_properties({"delta.enableChangeDataFeed": True}),
    "comment": lambda t: t.set_description("all sales"),
    "add columns": lambda t: t.add_columns("name string COMMENT 'who', tags map<string, array<int>>"),
    "column mapping": lambda t: t.set_properties({"delta.columnMapping.mode": "name"}),
    "row tracking": lambda t: t.set_properties({"delta.enableRowTracking": True}),
    "constraint": lambda t: t.add_constraint("small", "id < 100"),
    "cluster": lambda t: t.cluster_by(["id"]),
    "optimize": lambda t: t.optimize(),
    "reorg": lambda t: t.purge(),
    "vacuum": lambda t: t.vacuum(),
    "restore": lambda t: t.restore(0),
    "transaction": lambda t: _transaction(t),
    "checkpoint": lambda t: (t.log.checkpoint(), t.append({"id": [9], "part": [1]})),
}


def _transaction(table: dn.DeltaTable) -> None:
    with table.transaction() as txn:
        txn.append({"id": [9], "part": [1]})
        txn.delete("id = 2")


PARTITIONED = ("overwrite a part",)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_what_it_does_in_a_folder(server: Server, name: str, tmp_path: Path) -> None:
    rows: Any = {"id": [1, 2], "part": [0, 1]}
    settings: dict[str, Any] = {"partition_by": "part"} if name in PARTITIONED else {}
    table = server.catalog.create_table("shop.orders", rows, **settings)
    folder = dn.create(tmp_path / "folder", rows, **settings)
    follows(server, table, "orders")
    for each in (table, folder):
        each.append({"id": [3], "part": [1]})
        COMMANDS[name](each)
    assert ids(table) == ids(folder)
    follows(server, table, "orders")
    table.append({"id": [11], **({} if name == "another schema" else {"part": [0]})})
    follows(server, table, "orders")
    with server.connect() as other:
        again = other.table("shop.orders")
        assert ids(again) == ids(table) and again.version == table.version
        assert again.verify(files="all").is_sound


def test_names(server: Server) -> None:
    catalog = server.catalog
    catalog.create_namespace("attic", {"owner": "ada", "comment": "old things"})
    assert catalog.list_namespaces() == ["attic", "shop"]
    assert catalog.namespace_properties("attic")["comment"] == "old things"
    assert catalog.list_tables("shop") == []
    for number in range(3):
        catalog.create_table(f"shop.t{number}", "id long")
    assert catalog.list_tables("shop") == ["shop.t0", "shop.t1", "shop.t2"]
    if server.unity is not None and server.unity.version == "0.5":
        with pytest.raises(errors.InvalidArgument, match="its release does not serve this request"):
            catalog.rename_table("shop.t0", "shop.u")
        return
    catalog.rename_table("shop.t0", "shop.u")
    assert catalog.list_tables("shop") == ["shop.t1", "shop.t2", "shop.u"]
    with pytest.raises(errors.TableNotFound, match=r"shop\.t0"):
        catalog.table("shop.t0")
    with pytest.raises(errors.TableAlreadyExists):
        catalog.rename_table("shop.u", "shop.t1")
    with pytest.raises(errors.TableAlreadyExists):
        catalog.create_table("shop.u", "id long")
    with pytest.raises(errors.InvalidArgument, match="stays in its schema"):
        catalog.rename_table("shop.u", "attic.u")
    catalog.drop_table("shop.u")
    assert catalog.list_tables("shop") == ["shop.t1", "shop.t2"]
    for name in ("shop.u", "nowhere.t"):
        with pytest.raises(errors.TableNotFound):
            catalog.table(name)
    with pytest.raises(errors.NamespaceNotFound):
        catalog.list_tables("nowhere")
    with pytest.raises(errors.NamespaceNotFound):
        catalog.create_table("nowhere.t", "id long")
    with pytest.raises(errors.NamespaceAlreadyExists):
        catalog.create_namespace("shop")


def test_properties_of_a_schema(server: Server) -> None:
    catalog = server.catalog
    catalog.create_namespace("attic", {"owner": "ada", "room": "7", "comment": "old things"})
    catalog.update_namespace_properties("attic", {"owner": "bea"}, ["room"])
    assert catalog.namespace_properties("attic") == {"owner": "bea", "comment": "old things"}
    try:
        catalog.update_namespace_properties("attic", removals=["owner"])
    except errors.InvalidArgument as error:
        assert "keeps owner of schema attic" in str(error)
        assert catalog.namespace_properties("attic")["owner"] == "bea"
    else:
        assert "owner" not in catalog.namespace_properties("attic")
    with pytest.raises(errors.NamespaceNotFound):
        catalog.update_namespace_properties("nowhere", {"owner": "bea"})


def test_what_a_mode_says(server: Server) -> None:
    catalog = server.catalog
    with pytest.raises(errors.TableNotFound):
        catalog.create_table("shop.t", {"id": [1]}, mode="replace")
    first = catalog.create_table("shop.t", {"id": [1]}, mode="overwrite", properties={"owner": "ada"})
    assert ids(catalog.create_table("shop.t", {"id": [2]}, mode="ignore")) == [1]
    for mode in ("overwrite", "replace"):
        made = catalog.create_table("shop.t", {"id": [7], "more": ["x"]}, mode=mode)
        follows(server, made, "t")
        assert ids(first) == [7] and "owner" not in made.snapshot.metadata.configuration
    assert first.version == 2 and first.verify().is_sound
