"""A client of Unity Catalog is killed at one of its requests, or between two operations on files: nothing is
lost or doubled, and others go on."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.unity.client.catalog import UnityCatalog
from tests.catalog.unity.clients import MAINTENANCE, RELEASES, catalog_of
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import Answer, Asked, Lost, Serve
from tests.examples import every, first
from tests.faults.disk import CHANGING, Done
from tests.helpers import ids
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
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


# -- between operations on files -----------------------------------------------------------------------

AT_FILES = """
import sys
import deltanb as dn
from tests.faults.disk import Disk, Strike

url, root, place, moment, *statements = sys.argv[1:]
strike = Strike(int(place), moment, "kill") if place else None
dn.set_options(durability="none", checkpoints="inline")
with dn.connect(url, allow_local_files=True) as catalog, Disk(root, strike).inserted() as disk:
    for statement in statements:
        exec(statement)
        print("done", statement, flush=True)
for operation in disk.done:
    print("operation", operation.kind, operation.name)
"""
OF_FILES = (
    'catalog.create_table("shop.made", {"id": [1]})', 'catalog.table("shop.orders").append({"id": [2]})',
    'catalog.table("shop.orders").append({"id": [3]})', 'catalog.table("shop.orders").delete("id = 1")',
    'catalog.table("shop.orders").optimize()', 'catalog.table("shop.orders").log.checkpoint()')
PARTS = 60


@dataclass
class Lake:
    """A server with a table, and what a client does there."""

    unity: Unity
    catalog: UnityCatalog
    url: str
    folder: Path

    def run(self, place: int | None = None, moment: str = "") -> list[str]:
        """The lines that a client prints, until it is killed at an operation."""
        arguments = ["" if place is None else str(place), moment, *OF_FILES]
        client = subprocess.run(
            [sys.executable, "-c", AT_FILES, self.url.replace("http://", "uc://") + "/main",
             str(self.folder), *arguments], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
        assert client.returncode == (0 if place is None else -signal.SIGKILL), client.stderr
        return client.stdout.splitlines()


@contextmanager
def lake(path: Path) -> Iterator[Lake]:
    unity = Unity(path / "unity", "0.7")
    unity.maintenance = MAINTENANCE
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    with unity.serving() as url:
        yield Lake(unity, catalog, url, path / "unity")


@pytest.mark.slow
@pytest.mark.parametrize("part", first(1, PARTS))
def test_a_client_is_killed_between_two_operations_on_files(
    tmp_path: Path, unsynced: None, part: int
) -> None:
    with lake(tmp_path / "clean") as clean:
        lines = [line.split(" ", 2)[1:] for line in clean.run() if line.startswith("operation")]
    operations = [Done(kind, name) for kind, name in lines]
    strikes = [(place, moment) for place, operation in enumerate(operations) if operation.kind in CHANGING
               for moment in dict.fromkeys(moment for moment, _ in operation.strikes)]
    assert len(strikes) > 100
    strikes = one_of_each_first(strikes, operations)
    size = -(-len(strikes) // PARTS)
    for place, moment in strikes[part * size:(part + 1) * size]:
        with lake(tmp_path / f"{place}-{moment}") as struck:
            done = struck.run(place, moment)
            look(struck, done)


def one_of_each_first(strikes: list[tuple[int, str]], operations: list[Done]) -> list[tuple[int, str]]:
    """The same, so that those of published commits, of staged ones and of data files come by turns."""
    rows: dict[tuple[bool, str, str], list[tuple[int, str]]] = {}
    for place, moment in strikes:
        kind = kind_of(operations[place])
        rows.setdefault((kind == "other", kind, moment), []).append((place, moment))
    keys = sorted(rows, key=lambda key: (key[0], key[2], key[1]))
    turns = itertools.zip_longest(*(rows[key] for key in keys))
    return [strike for turn in turns for strike in turn if strike is not None]


def kind_of(operation: Done) -> str:
    folder, _, base = operation.name.rpartition("/")
    if folder.endswith("_staged_commits"):
        return "staged"
    if operation.is_commit or (folder.endswith("_delta_log") and base[:20].isdigit()):
        return "published" if ".json" in base else "other"
    return "data" if base.endswith(".parquet") and "_delta_log" not in folder else "other"


def look(struck: Lake, done: list[str]) -> None:
    """Whatever was acknowledged is there, whole and once, and others go on."""
    table, folder = struck.catalog.table("shop.orders"), Path(struck.catalog.table("shop.orders").path)
    rows, acknowledged = ids(table), "\n".join(done)
    assert len(rows) == len(set(rows)) and {*rows} <= {1, 2, 3}
    for number in (2, 3):
        assert number in rows or f"append({{\"id\": [{number}]}})" not in acknowledged
    assert 1 not in rows or "delete" not in acknowledged
    for version in range(table.version + 1):
        published = folder / "_delta_log" / f"{version:020}.json"
        assert not published.exists() or published.read_bytes() == table.log.commits.read(version)
    assert "shop.made" not in struck.catalog.list_tables("shop") or ids(
        struck.catalog.table("shop.made")) == [1]
    table.append({"id": [9]})
    assert ids(table) == sorted([*rows, 9]) and not table.verify(files="all").proved
    struck.catalog.create_table("shop.made", {"id": [1]}, mode="ignore")
