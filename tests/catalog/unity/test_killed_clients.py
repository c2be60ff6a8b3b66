"""A client of Unity Catalog is killed at one of its requests: nothing is lost or doubled, others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from tests.catalog.unity.clients import MAINTENANCE, RELEASES, catalog_of
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import Answer, Asked, Lost, Serve
from tests.examples import every
from tests.helpers import ids
from tests.patience import PATIENCE

CLIENT = """
import sys
import deltanb as dn

dn.set_options(durability="none")
with dn.connect(sys.argv[1], allow_local_files=True) as catalog:
    for statement in sys.argv[2:]:
        exec(statement)
        print("done", statement, flush=True)
"""
STATEMENTS = (
    'catalog.create_table("shop.made", {"id": [1]})', 'catalog.table("shop.orders").append({"id": [2]})',
    'catalog.table("shop.orders").append({"id": [3]})', 'catalog.rename_table("shop.made", "shop.kept")',
    'catalog.drop_table("shop.kept")')
NUM_REQUESTS = 15  # a clean run has these, which a test counts


def run(unity: Unity, url: str, kill_at: int | None, served: bool = True) -> str:
    """What a client says of its statements, until it is killed at a request, before or behind its answer."""
    asked: list[str] = []
    client: list[subprocess.Popen[str]] = []

    def struck(request: Asked, serve: Serve) -> Answer:
        asked.append(request.operation)
        if len(asked) - 1 != kill_at:
            return serve()
        if served:
            serve()
        os.kill(client[0].pid, signal.SIGKILL)
        raise Lost("killed")

    unity.script(lambda _: True, struck, forever=True)
    client.append(subprocess.Popen(
        [sys.executable, "-c", CLIENT, url.replace("http://", "uc://") + "/main", *STATEMENTS],
        stdout=subprocess.PIPE, text=True))
    words, _ = client[0].communicate(timeout=PATIENCE)
    unity.clear()
    assert kill_at is not None or len(asked) == NUM_REQUESTS, asked
    return words


@pytest.fixture
def unsynced() -> Iterator[None]:
    with dn.set_options(durability="none"):
        yield


CASES = [(release, at, served) for release in RELEASES[1:] for at in range(NUM_REQUESTS)
         for served in (False, True)]


@pytest.mark.slow
def test_a_client_that_lives_asks_so_often(tmp_path: Path, unsynced: None) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    with unity.serving() as url:
        assert run(unity, url, None).count("done") == len(STATEMENTS)
    assert ids(catalog.table("shop.orders")) == [1, 2, 3] and catalog.list_tables("shop") == ["shop.orders"]


@pytest.mark.slow
@pytest.mark.parametrize(("release", "at", "served"), every(7, CASES))
def test_a_client_is_killed(tmp_path: Path, unsynced: None, release: str, at: int, served: bool) -> None:
    unity = Unity(tmp_path / "unity", release)
    unity.maintenance = MAINTENANCE
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    with unity.serving() as url:
        done = run(unity, url, at, served)
    table = catalog.table("shop.orders")
    acknowledged = [number for number in (2, 3) if f"append({{\"id\": [{number}]}})" in done]
    rows = ids(table)
    assert rows == sorted(set(rows)) and {1, *acknowledged} <= {*rows} <= {1, 2, 3}
    for name in catalog.list_tables("shop"):
        assert ids(catalog.table(name))[0] == 1, "a table that is there is whole"
    table.append({"id": [9]})
    assert ids(table) == [*rows, 9] and not table.verify(files="all").proved
    catalog.create_table("shop.made", {"id": [1]}, mode="ignore")
