"""A server killed at every step of a ratification, another one in its place: the commit is whole."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's: pip install pyiceberg")
pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import httpx

import deltanb as dn
from deltanb.catalog.rest.endpoints import OWN
from deltanb.catalog.rest.server import serve
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import EVERYONE
from deltanb.catalog.store.store import CatalogStore
from deltanb.log.commits import STAGED_FOLDER
from tests.catalog.server.test_killed import until

RATIFY = next(each for each in OWN if each.name == "ratify")
FEWEST_STEPS = 12  # of a commit of three tables


@pytest.mark.slow
def test_a_commit_of_delta_and_iceberg_tables(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, steps = tmp_path / "lake", 0
    died: list[Any] = []
    request = httpx.Client.request

    def sent(client: httpx.Client, method: str, where: Any, **more: Any) -> httpx.Response:
        """The first ratification of each commit goes to a server that dies at one of its steps."""
        if httpx.URL(where).path != RATIFY.path or len(died) > steps:
            return request(client, method, where, **more)

        def ask(service: Service) -> Reply:
            return service.respond(RATIFY, Request(
                service, EVERYONE, "POST", RATIFY.path, {}, {}, {}, more["content"].encode()))

        died.append(until(steps, url, lake, ask))
        raise httpx.ReadError("the server is gone")

    monkeypatch.setattr(httpx.Client, "request", sent)
    store = CatalogStore(url, durability="none")
    with serve(store, lake) as server, dn.connect(server.url) as catalog:
        made = prepared(catalog)
        for steps in itertools.count():
            before = len(catalog.history())
            store.close()
            with catalog.transaction() as txn:
                for table in made:
                    txn.table(table).append({"id": [steps]})
            assert txn.status == "committed" and len(catalog.history()) == before + 1
            counts = [catalog.table(name).to_arrow().num_rows for name in made]
            assert counts == [steps + 1] * 3
            for name in made[:2]:
                table = catalog.table(name)
                assert len(list((Path(table.path) / STAGED_FOLDER).iterdir())) == table.version == steps + 1
            if died[-1] != signal.SIGKILL:
                break
        assert died[-1] == 200 and steps > FEWEST_STEPS
        assert_metadata_files_are_known(server.service, lake)


def prepared(catalog: dn.Catalog) -> list[str]:
    """Two Delta tables and an Iceberg table without rows; their names."""
    catalog.create_namespace("ns")
    for name in ("ns.a", "ns.b"):
        catalog.create_table(name, "id bigint")
    catalog.create_table("ns.c", "id bigint", format="iceberg")
    return ["ns.a", "ns.b", "ns.c"]


def assert_metadata_files_are_known(service: Service, lake: Path) -> None:
    """Every metadata file is the table's, or noted as garbage."""
    (metadata,) = [service.tables.load("ns.c").metadata]
    mine = {str(service.tables.row("ns.c").metadata_location)}
    mine |= {entry["metadata-file"] for entry in metadata["metadata-log"]}
    noted = {path for path, _ in service.tables.store.garbage.due(2**62)}
    on_disk = {f"{service.tables.warehouse.uri}/{path.relative_to(lake)}"
             for path in lake.rglob("*.metadata.json")}
    assert mine <= on_disk <= mine | noted and not mine & noted
