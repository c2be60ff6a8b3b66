"""Lists of a catalog with a hundred thousand tables: no more of them is held at a time than a page."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.endpoints import ICEBERG
from deltanb.catalog.rest.server.messages import Request
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import EVERYONE
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import iceberg_tables

COUNT = 100_000
MOST = 4 << 20  # bytes: a page of a thousand rows takes one to two megabytes, all rows some forty
LIST = next(each for each in ICEBERG if each.name == "list_tables")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("many")
    with CatalogStore(f"sqlite:///{folder}/c.db", durability="none") as store:
        store.namespaces.create("ns")
        rows = [{"catalog_name": "default", "table_namespace": "ns", "table_name": f"t{at:06}",
                 "metadata_location": f"file:///{at}", "iceberg_type": "TABLE"} for at in range(COUNT)]
        store.database.write(lambda connection: connection.execute(iceberg_tables.insert(), rows) and None)
        yield Service(IcebergTables(store, Path(folder) / "lake"))


def asked(service: Service, **query: str) -> Request:
    return Request(service, EVERYONE, "GET", "", {"namespace": "ns"}, query, {}, b"")


@pytest.mark.slow
def test_a_page_costs_the_same_wherever_it_is(service: Service) -> None:
    service.respond(LIST, asked(service, pageToken=""))
    tracemalloc.start()
    try:
        names: list[str] = []
        token = ""
        while token is not None:
            page = service.respond(LIST, asked(service, pageToken=token, pageSize="1000")).value
            assert len(page["identifiers"]) == 1000
            names += [page["identifiers"][at]["name"] for at in (0, -1)]
            token = page["next-page-token"]
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    assert len(names) == 2 * COUNT / 1000 and names == sorted(names) and names[-1] == f"t{COUNT - 1:06}"


@pytest.mark.slow
def test_all_of_them_are_sent_without_being_held(service: Service) -> None:
    reply = service.respond(LIST, asked(service))
    assert reply.parts is not None
    size, last = 0, b""
    tracemalloc.start()
    try:
        for part in reply.parts:
            size, last = size + len(part), part
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    assert last == b'],"next-page-token":null}' and size > 35 * COUNT
    again = service.respond(LIST, asked(service)).parts
    assert again is not None
    listed = msgspec.json.decode(b"".join(again))["identifiers"]
    assert len(listed) == COUNT and listed[-1] == {"namespace": ["ns"], "name": f"t{COUNT - 1:06}"}
