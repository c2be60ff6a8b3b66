"""External tables of Unity Catalog: their folder has their commits, and the catalog the keys to it."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from tests.catalog.unity.clients import Server, catalog_of, of_ours, of_release
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import Answer, Asked, Serve, older_refusal
from tests.helpers import ids, tree
from tests.patience import PATIENCE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "unity.md"
WRITER = """
import sys
import deltanb as dn

dn.set_options(durability="none", max_commit_attempts=1000)
table = dn.open(sys.argv[1], allow_local_files=True)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    table.append({"id": [number]})
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with (dn.set_options(durability="none", max_commit_attempts=1000),
          of_release("0.7", tmp_path / "server") as server):
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ours" / "orders"


def made(server: Server, place: Path) -> dn.DeltaTable:
    return server.catalog.create_table("shop.orders", {"id": [1]}, location=place)


# -- two writers ---------------------------------------------------------------------------------------


def test_threads_append_to_a_folder(server: Server, place: Path) -> None:
    made(server, place)

    def append(first: int) -> None:
        with server.connect() as catalog:
            table = catalog.table("shop.orders")
            for number in range(first, first + 5):
                table.append({"id": [number]})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(append, (10, 20), timeout=PATIENCE))
    table = dn.open(place)
    assert ids(table) == [1, *range(10, 15), *range(20, 25)] and table.version == 10
    assert table.verify(files="all").is_sound
    assert not (place / "_delta_log" / "_staged_commits").exists()


@pytest.mark.slow
def test_processes_append_to_a_folder(tmp_path: Path, place: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7", catalog="default")
    with unity.serving() as url:
        address = url.replace("http://", "uc://") + "/default"
        with dn.connect(address, allow_local_files=True) as catalog:
            catalog.create_namespace("shop")
            table = catalog.create_table("shop.orders", "id long", location=place)
            writers = [subprocess.Popen([sys.executable, "-c", WRITER, f"{address}.shop.orders", *map(
                str, (n * 10, n * 10 + 10))]) for n in range(2)]
            assert [writer.wait(PATIENCE) for writer in writers] == [0, 0]
            assert ids(table) == list(range(20)) and table.version == 20
            assert unity.counts["updateTable"] == 0


def test_who_loses_a_race_for_a_row_is_told(server: Server, place: Path) -> None:
    table = made(server, place)
    with server.connect() as catalog, pytest.raises(errors.DeltaConcurrentModificationException), (
            table.transaction()) as txn:
        txn.delete("id = 1")
        catalog.table("shop.orders").delete("id = 1")
    assert table.version == 1 and ids(table) == []


# -- dropping ------------------------------------------------------------------------------------------


def test_a_drop_keeps_the_files_and_purge_is_refused(server: Server, place: Path) -> None:
    made(server, place)
    before = tree(place)
    with pytest.raises(errors.InvalidArgument, match=r"shop\.orders is an external table.*without purge"):
        server.catalog.drop_table("shop.orders", purge=True)
    assert server.catalog.list_tables("shop") == ["shop.orders"]
    server.catalog.drop_table("shop.orders")
    assert server.catalog.list_tables("shop") == [] and tree(place) == before
    assert ids(server.catalog.register_table("shop.again", place)) == [1]


# -- SQL -----------------------------------------------------------------------------------------------


def test_sql(server: Server, place: Path) -> None:
    catalog = server.catalog
    catalog.sql("CREATE TABLE shop.orders (id BIGINT, part INT) USING delta PARTITIONED BY (part) "
                f"LOCATION '{place}'")
    catalog.sql("INSERT INTO shop.orders VALUES (1, 0), (2, 1)")
    assert ids(dn.open(place)) == [1, 2]
    assert server.loaded("orders")["metadata"]["table-type"] == "EXTERNAL"
    detail = dict(catalog.sql("DESCRIBE DETAIL shop.orders"))
    assert detail["location"].removeprefix("file://") == str(place) and detail["numFiles"] == 2
    text = catalog.sql("SHOW CREATE TABLE shop.orders").rows["createtab_stmt"][0].as_py()
    before = tree(place)
    catalog.sql("DROP TABLE shop.orders")
    assert catalog.list_tables("shop") == [] and tree(place) == before
    place.rename(place.with_name("moved"))
    catalog.sql(text)
    assert server.loaded("orders")["metadata"]["location"] == f"file://{place}", text
    assert catalog.table("shop.orders").partition_columns == ("part",)


def test_create_external_is_refused_with_the_way_out(server: Server, place: Path) -> None:
    with pytest.raises(errors.InvalidQuery, match="CREATE TABLE name .* LOCATION"):
        server.catalog.sql(f"CREATE EXTERNAL TABLE shop.orders (id BIGINT) USING delta LOCATION '{place}'")
    assert server.catalog.list_tables("shop") == [] and not place.exists()


# -- maintenance ---------------------------------------------------------------------------------------


MAINTENANCE: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "optimize": lambda table: table.optimize(), "reorg": lambda table: table.purge(),
    "vacuum": lambda table: table.vacuum(), "restore": lambda table: table.restore(0),
    "checkpoint": lambda table: table.log.checkpoint()}


@pytest.mark.parametrize("command", MAINTENANCE)
def test_maintenance_is_the_clients(server: Server, place: Path, command: str) -> None:
    made(server, place).append({"id": [2]})
    assert server.unity is not None
    server.unity.maintenance = ()
    with catalog_of(server.unity, allow_maintenance=False) as catalog:
        MAINTENANCE[command](catalog.table("shop.orders"))
    table = dn.open(place)
    assert ids(table) == ([1] if command == "restore" else [1, 2]) and table.verify(files="all").is_sound


# -- places --------------------------------------------------------------------------------------------


def test_a_place_with_other_files(server: Server, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(errors.TableAlreadyExists, match="is not empty"):
        made(server, place)
    with pytest.raises(errors.TableNotFound, match="no Delta table"):
        server.catalog.register_table("shop.orders", place)
    assert tree(place) == {"notes.txt"} and server.catalog.list_tables("shop") == []


@pytest.mark.parametrize("rows", [{"id": [7]}, {"name": ["x"]}], ids=["same schema", "another schema"])
def test_a_place_with_a_table(server: Server, place: Path, rows: Any) -> None:
    dn.create(place, {"id": [1]})
    before = tree(place)
    with pytest.raises(errors.TableAlreadyExists, match="register_table"):
        server.catalog.create_table("shop.orders", rows, location=place)
    assert tree(place) == before and server.catalog.list_tables("shop") == []
    assert ids(server.catalog.register_table("shop.orders", place)) == [1]
    assert tree(place) == before


def test_a_place_that_has_two_names(server: Server, place: Path) -> None:
    """The server allows it, and as the folder has the commits, none is lost."""
    first, before = made(server, place), tree(place)
    with pytest.raises(errors.TableAlreadyExists, match="register_table"):
        server.catalog.create_table("shop.twin", {"id": [2]}, location=place)
    assert server.catalog.list_tables("shop") == ["shop.orders"] and tree(place) == before
    twin = server.catalog.register_table("shop.twin", place)
    for number, table in enumerate([first, twin, first]):
        table.append({"id": [10 + number]})
    assert ids(first) == ids(twin) == [1, 10, 11, 12]
    server.catalog.drop_table("shop.twin")
    assert ids(first) == [1, 10, 11, 12]


def test_a_name_that_is_taken_keeps_what_is_there(server: Server, place: Path) -> None:
    made(server, place)
    with pytest.raises(errors.TableAlreadyExists):
        server.catalog.create_table("shop.orders", {"id": [2]}, location=place.with_name("more"))
    assert not tree(place.with_name("more")) and ids(dn.open(place)) == [1]
    dn.create(place.with_name("more"), {"id": [2]})
    with pytest.raises(errors.TableAlreadyExists):
        server.catalog.register_table("shop.orders", place.with_name("more"))
    assert ids(dn.open(place.with_name("more"))) == [2]


def test_a_table_inside_another_ones_place(server: Server, place: Path) -> None:
    """The server allows it; what is done to one leaves the other as it is."""
    outer, inner = made(server, place), server.catalog.create_table(
        "shop.inner", {"id": [2]}, location=place / "inner")
    before = tree(place / "inner")
    outer.delete("id = 1")
    own = {name for name in tree(place) if name.endswith(".parquet")} - {f"inner/{name}" for name in before}
    with dn.set_options(clock=dn.options.StepClock(inner.snapshot.timestamp + 10**11)):
        outer.vacuum()
    assert own and not own & tree(place), "what it deleted is gone"
    assert tree(place / "inner") == before and ids(inner) == [2] and ids(outer) == []
    server.catalog.drop_table("shop.orders")
    assert ids(inner) == [2] and inner.verify(files="all").is_sound


def register(server: Server, place: Path) -> None:
    with server.connect() as catalog:
        catalog.register_table("shop.twin", place).append({"id": [7]})
        catalog.table("shop.twin").restore(0)  # no row tells that it was here


def register_untouched(server: Server, place: Path) -> None:
    with server.connect() as catalog:
        catalog.create_namespace("attic")
        catalog.register_table("attic.twin", place)


def list_nothing(server: Server, place: Path) -> None:
    assert server.unity is not None
    server.unity.script("older.listTables", older_refusal(403, "PERMISSION_DENIED", "no lists"), forever=True)


BETWEEN: dict[str, tuple[Callable[[Server, Path], Any], str | None]] = {
    "nobody comes": (lambda server, place: None, None),
    "others register it": (register_untouched, r"it is registered as attic\.twin"),
    "others register it and commit": (register, "somebody has committed to it"),
    "others commit by its path": (lambda server, place: dn.open(place).append({"id": [7]}),
                                  "somebody has committed to it"),
    "the catalog lists no tables": (
        list_nothing, "whether another table has it by now cannot be seen: .*no lists"),
}
"""What happens between a table's first version and a catalog's refusal of it, and why its folder stays."""


@pytest.mark.parametrize("case", BETWEEN)
def test_the_folder_of_a_refused_table_stays_if_others_may_have_it(
    server: Server, place: Path, case: str
) -> None:
    meanwhile, reason = BETWEEN[case]
    files: list[set[str]] = []

    def refused(asked: Asked, serve: Serve) -> Answer:
        meanwhile(server, place)
        files.append(tree(place))
        return older_refusal(400, "TABLE_ALREADY_EXISTS", "shop.orders is taken")

    assert server.unity is not None
    server.unity.script(lambda asked: asked.operation == "older.createTable" and (
        asked.body["name"] == "orders"), refused)
    with pytest.raises(errors.TableAlreadyExists, match=r"shop\.orders is taken") as caught:
        made(server, place)
    [note] = getattr(caught.value, "__notes__", None) or [""]
    assert len(files) == 1 and tree(place) == (files[0] if reason else set())
    assert re.search(f"{re.escape(str(place))} was kept: {reason}", note) if reason else not note


def test_a_place_in_managed_storage(server: Server) -> None:
    managed = server.catalog.create_table("shop.managed", {"id": [1]})
    before = tree(Path(managed.path))
    for place in (Path(managed.path) / "within", Path(managed.path).parent / "beside"):
        with pytest.raises(errors.DeltaError):
            server.catalog.create_table("shop.other", {"id": [2]}, location=place)
        assert not place.exists() or not tree(place)
    assert server.catalog.list_tables("shop") == ["shop.managed"] and tree(Path(managed.path)) == before


def test_the_example_of_the_documentation(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text("utf-8").split("\n## External tables\n")[1].split("\n## ")[0]
    failures: list[str] = []
    example = doctest.DocTestParser().get_doctest(
        section, {"catalog": server.catalog, "dn": dn}, PAGE.name, PAGE.name, 0)
    doctest.DocTestRunner().run(example, out=failures.append)
    assert len(example.examples) == section.count(">>>") > 6 and failures == []


@pytest.mark.parametrize("lax", [False, True])
def test_this_librarys_server_has_none(tmp_path: Path, place: Path, lax: bool) -> None:
    with of_ours(lax, tmp_path) as server:
        with pytest.raises(errors.DeltaError, match="tables here are managed ones"):
            server.catalog.create_table("shop.orders", {"id": [1]}, location=place)
        assert not place.exists() or not tree(place)
        dn.create(place, {"id": [1]})
        before = tree(place)
        with pytest.raises(errors.DeltaError, match="tables here are managed ones"):
            server.catalog.register_table("shop.orders", place)
        assert tree(place) == before and server.catalog.list_tables("shop") == []
