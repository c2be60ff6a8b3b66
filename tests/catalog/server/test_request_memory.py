"""What a request holds: its body and the metadata it names, however much the catalog has."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.server.service import Service
from tests.catalog.iceberg_tables import set_properties
from tests.catalog.server.ask import TABLES, Client, change, commit, made

LARGE = 1 << 20  # bytes of a table's metadata, and of a request's body
TABLES_OF_ALL = 24
MOST = 12 * LARGE  # the metadata before and after, as text and as objects, and the body, three times over


@pytest.fixture
def full(client: Client, service: Service) -> Client:
    """A server of two dozen tables of a megabyte each, of which it knows nothing by heart."""
    made(client, *(f"t{at}" for at in range(TABLES_OF_ALL)), properties={"text": "x" * LARGE})
    tables = service.tables
    service.tables = IcebergTables(tables.store, tables.warehouse)
    commit(client, change("t0", set_properties(warm="up")))
    service.tables.files.forget(str(tables.store.tables.load("ns.t0").metadata_location))
    gc.collect()
    return client


def peak_of(ask: Callable[[], Any]) -> int:
    """The most bytes that Python held while a request was answered, beyond those before."""
    tracemalloc.start()
    try:
        assert ask().status_code == 200
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_request_holds_its_body_and_the_metadata_it_names(full: Client) -> None:
    body = "y" * LARGE
    assert LARGE < peak_of(lambda: commit(full, change("t1", set_properties(note=body)))) < MOST
    assert LARGE < peak_of(lambda: full.get(f"{TABLES}/t2")) < MOST
    assert peak_of(lambda: full.get(TABLES)) < LARGE
    assert peak_of(lambda: full.get("/v1/namespaces")) < LARGE
    every = [change(f"t{at}", set_properties(a="b")) for at in range(3, TABLES_OF_ALL)]
    assert peak_of(lambda: commit(full, *every)) > MOST  # so much is to be seen where they are named


def test_what_requests_held_is_given_back(full: Client, service: Service) -> None:
    """But for the content of files, of which a bounded amount is remembered."""
    service.tables = IcebergTables(service.tables.store, service.tables.warehouse)
    service.tables.files._max_cached = 0
    full.get(f"{TABLES}/t0")
    gc.collect()
    tracemalloc.start()
    try:
        for at in range(TABLES_OF_ALL):
            assert full.get(f"{TABLES}/t{at}").status_code == 200
            assert commit(full, change(f"t{at}", set_properties(a="b"))).status_code == 200
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LARGE
    finally:
        tracemalloc.stop()
