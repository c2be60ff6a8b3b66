"""Delta Kernel's Unity Catalog client on a served catalog: it reads, commits, publishes and creates."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.rest.server.serving import serve
from deltanb.log.commits import commit_name
from tests.patience import PATIENCE
from tests.peers.maven import Unavailable, classpath, run

VERSION = "4.4.0"
ARTIFACTS = [
    *(f"io.delta:delta-kernel-{part}:{VERSION}" for part in ("unitycatalog", "api", "defaults")),
    # What its client for Unity Catalog uses and does not declare.
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.13.5",
    "org.openapitools:jackson-databind-nullable:0.2.6",
]


@pytest.fixture
def jars(tmp_path: Path) -> str:
    """The class path of the client."""
    try:
        return classpath(ARTIFACTS, tmp_path / "jars")
    except Unavailable as reason:
        pytest.skip(f"no Delta Kernel: {reason}")


@pytest.mark.slow
def test_kernel_reads_commits_to_and_publishes_a_managed_table(jars: str, tmp_path: Path) -> None:
    source = Path(__file__).with_name("Managed.java")
    database = f"sqlite:///{tmp_path}/catalog.db"
    with dn.Catalog(database, warehouse=tmp_path / "lake") as catalog, serve(
            database, warehouse=tmp_path / "lake") as server:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", {"id": [1]})
        table.append({"id": [2]})
        done = run(["java", "-cp", jars, str(source), server.url, catalog.name, "shop", "orders"],
                   timeout=PATIENCE)
        lines = [line for line in done.stdout.splitlines() if line.startswith(("read", "committed"))]
        assert lines == ["read 1 files 2", "committed 2", "read 2 owner kernel"], done.stdout[-3000:]
        assert table.version == 2 and table.properties["owner"] == "kernel"
        assert (Path(table.path) / commit_name(2)).exists()  # the catalog hears of it later
        assert table.append({"id": [3]}) == 3 and table.to_arrow().num_rows == 3
        assert table.append({"id": [4]}) == 4  # with each commit the catalog hears of those before it
        row = catalog.store.tables.load("shop.orders")
        assert row.delta is not None and (row.delta.latest, row.delta.published) == (4, 3)


@pytest.mark.slow
def test_kernel_makes_a_table_and_takes_turns_with_this_library(jars: str, tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path}/catalog.db", tmp_path / "lake") as server, \
            dn.connect(server.url) as catalog:
        catalog.create_namespace("ns")
        orders = catalog.create_table("ns.orders", {"id": [1, 2]})
        orders.append({"id": [3]})
        source = Path(__file__).with_name("ManagedRows.java")
        done = run(["java", "-cp", jars, str(source), server.url, "orders", "made"], timeout=PATIENCE)
        lines = [line for line in done.stdout.splitlines()
                if line.startswith(("read", "committed", "published", "created"))]
        assert lines == [
            "read orders v1 [1, 2, 3]", "committed orders v2", "published orders v2 [1, 2, 3, 10, 11]",
            "created made v0", "read made v0 []", "committed made v1", "published made v1 [10, 11]",
        ], done.stdout[-3000:]
        assert orders.append({"id": [20]}) == 3
        made = catalog.table("ns.made")
        with catalog.transaction() as txn:
            txn.table("ns.orders").delete("id = 20")
            txn.table("ns.made").append({"id": [20]})
        assert (ids(orders), ids(made)) == ([1, 2, 3, 10, 11], [10, 11, 20])


def ids(table: dn.DeltaTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())
