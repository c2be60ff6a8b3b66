"""Iceberg's Java client on a catalog that is served: a commit of two tables, and its compatibility kit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.rest.server.serving import Server, serve
from deltanb.catalog.store.tables import places, sa
from tests.patience import PATIENCE
from tests.peers.maven import Unavailable, classpath, run

ICEBERG = "1.11.0"
JETTY = "12.1.5"
CLIENT = [f"org.apache.iceberg:iceberg-core:{ICEBERG}", "org.apache.hadoop:hadoop-client-api:3.4.2",
          "org.apache.hadoop:hadoop-client-runtime:3.4.2"]
# The kit declares no dependencies.
KIT = [
    *CLIENT,
    f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:tests",
    f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
    f"org.apache.iceberg:iceberg-api:{ICEBERG}:tests",
    "org.junit.platform:junit-platform-console-standalone:1.14.1",
    "org.assertj:assertj-core:3.27.6",
    "org.mockito:mockito-core:4.11.0",
    "org.awaitility:awaitility:4.3.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    f"org.eclipse.jetty:jetty-server:{JETTY}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
]
THEIR_SERVER_PASSES = 94  # of 106; 11 stop by themselves: they ask for what a server need not have


def jars(artifacts: list[str], folder: Path) -> str:
    try:
        return classpath(artifacts, folder)
    except Unavailable as reason:
        pytest.skip(f"no Iceberg for Java: {reason}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serve(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as server:
        yield server


@pytest.mark.slow
def test_a_transaction_of_two_tables_lands_whole_or_not_at_all(server: Server, tmp_path: Path) -> None:
    path = jars(CLIENT, tmp_path / "jars")
    source = Path(__file__).with_name("Transfer.java")
    done = run(["java", "-cp", path, str(source), server.url, "anybody"], timeout=PATIENCE)
    lines = [line for line in done.stdout.splitlines()
             if line.startswith(("owner", "columns", "refused", "landed"))]
    assert lines[:2] == ["owner ada", "columns 2"], done.stdout[-3000:]
    assert re.match(r"refused .*(schema|field)", lines[2]), lines
    assert lines[3:] == ["owner ada"]
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        assert catalog.table("bank.a").properties["owner"] == "ada"
        assert catalog.table("bank.b").column_names == ["id", "amount", "first"]


@pytest.fixture
def below_tmp(tmp_path: Path) -> Iterator[str]:
    """A catalog's database, for tables below /tmp; they are gone afterwards, as far as it had them."""
    database = f"sqlite:///{tmp_path}/catalog.db"
    yield database
    with dn.Catalog(database, warehouse="/tmp") as catalog:
        had = catalog.store.database.read(lambda connection: list(
            connection.execute(sa.select(places.c.place).order_by(places.c.place)).scalars()))
    for place in map(Path, had):
        assert place.is_relative_to("/tmp")
        shutil.rmtree(place, ignore_errors=True)
    for namespace in {place.parent for place in map(Path, had)}:
        with suppress(OSError):
            namespace.rmdir()


@pytest.mark.slow
def test_the_compatibility_kit_passes_as_on_its_own_server(below_tmp: str, tmp_path: Path) -> None:
    """Its tables lie where its tests say: directly below /tmp, many of them in /tmp/a."""
    if (folder := Path("/tmp/a")).exists() and not folder.is_dir():
        pytest.skip(f"the kit's tables lie in {folder}, where somebody else has a file")
    path = jars(KIT, tmp_path / "jars")
    console = next(jar for jar in path.split(os.pathsep) if "console-standalone" in jar)
    with serve(below_tmp, warehouse="/tmp") as server:
        done = run(
            ["java", "-jar", console, "execute", "-cp", path, "--config", "rck.local=false", "-c",
             "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests", "--details=tree",
             "--disable-ansi-colors"],
            timeout=PATIENCE, env={**os.environ, "CATALOG_URI": server.url,
                                  "CATALOG_WAREHOUSE": "file:///tmp",
                                  "CATALOG_RCK_REQUIRES__NAMESPACE__CREATE": "true"})
    counts = {kind: int(count) for count, kind in re.findall(r"\[ *(\d+) tests (\w+) *\]", done.stdout)}
    failed = [line.strip() for line in done.stdout.splitlines() if "✘" in line]
    assert counts.get("failed") == 0, "\n".join(failed) or done.stdout[-3000:]
    assert counts["successful"] >= THEIR_SERVER_PASSES, counts
