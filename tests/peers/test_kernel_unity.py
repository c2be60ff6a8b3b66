"""Delta Kernel's Unity Catalog client on a catalog that is served: it reads, commits and publishes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.server.serving import serve
from deltanb.log.commits import commit_name
from tests.peers.maven import Unavailable, classpath, run

VERSION = "4.4.0"
ARTIFACTS = [
    *(f"io.delta:delta-kernel-{part}:{VERSION}" for part in ("unitycatalog", "api", "defaults")),
    # What its client for Unity Catalog uses and does not declare.
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.13.5",
    "org.openapitools:jackson-databind-nullable:0.2.6",
]
SECONDS = 240


@pytest.mark.slow
def test_kernel_reads_commits_to_and_publishes_a_managed_table(tmp_path: Path) -> None:
    try:
        jars = classpath(ARTIFACTS, tmp_path / "jars")
    except Unavailable as reason:
        pytest.skip(f"no Delta Kernel: {reason}")
    source = Path(__file__).with_name("Managed.java")
    database = f"sqlite:///{tmp_path}/catalog.db"
    with dn.Catalog(database, warehouse=tmp_path / "lake") as catalog, serve(
            database, warehouse=tmp_path / "lake") as server:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", {"id": [1]})
        table.append({"id": [2]})
        done = run(["java", "-cp", jars, str(source), server.url, catalog.name, "shop", "orders"],
                   timeout=SECONDS)
        said = [line for line in done.stdout.splitlines() if line.startswith(("read", "committed"))]
        assert said == ["read 1 files 2", "committed 2", "read 2 owner kernel"], done.stdout[-3000:]
        assert table.version == 2 and table.properties["owner"] == "kernel"
        assert (Path(table.path) / commit_name(2)).exists()  # the catalog hears of it later
        assert table.append({"id": [3]}) == 3 and table.to_arrow().num_rows == 3
        row = catalog.store.tables.load("shop.orders")
        assert row.delta is not None and (row.delta.latest, row.delta.published) == (3, 3)
