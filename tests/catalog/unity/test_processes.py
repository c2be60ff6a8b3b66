"""Several processes append to one table of a Unity Catalog: each append is there once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.rest.server.service import Settings
from deltanb.catalog.rest.server.serving import serve
from tests.catalog.unity.fake import Unity
from tests.examples import every
from tests.helpers import ids
from tests.patience import PATIENCE

WRITERS, APPENDS = 4, 25
WRITER = """
import sys
import deltanb as dn

dn.set_options(durability="none", max_commit_attempts=1000)
table = dn.open(sys.argv[1], allow_local_files=True)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    table.append({"id": [number]})
"""


@contextmanager
def fake(path: Path) -> Iterator[str]:
    unity = Unity(path / "unity", "0.7", catalog="default")
    with unity.serving() as url:
        yield url


@contextmanager
def ours(lax: bool, path: Path) -> Iterator[str]:
    with serve(f"sqlite:///{path}/c.db", path / "lake", settings=Settings(lax=lax)) as server:
        yield server.url


PLACES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "Unity 0.7": fake, "ours": lambda path: ours(False, path), "ours, lax": lambda path: ours(True, path)}


@pytest.mark.slow
@pytest.mark.parametrize("place", every(2, list(PLACES)))
def test_appends_of_several_processes_are_there_once(place: str, tmp_path: Path) -> None:
    with PLACES[place](tmp_path) as url:
        address = url.replace("http://", "uc://") + "/default"
        with dn.connect(address, allow_local_files=True) as catalog:
            catalog.create_namespace("shop")
            table = catalog.create_table("shop.orders", "id long")
            writers = [subprocess.Popen([sys.executable, "-c", WRITER, f"{address}.shop.orders", *map(
                str, (n * APPENDS, (n + 1) * APPENDS))]) for n in range(WRITERS)]
            assert [writer.wait(PATIENCE) for writer in writers] == [0] * WRITERS
            assert ids(table) == list(range(WRITERS * APPENDS)) and table.version == WRITERS * APPENDS
            assert table.verify(files="all").is_sound
            times = [entry.timestamp for entry in table.history()]
            assert times == sorted(times, reverse=True) and len(set(times)) == len(times)
