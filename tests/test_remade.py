"""A table that was removed and made again by another run of its lesson is another table: whoever has begun on
the first one is told, whatever the two drew from one seed."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.commands.read.stream import StreamOptions, TableStreamSource
from deltanb.errors import StreamSourceChanged, TableNotFound, TableReplaced
from deltanb.options import SeededIds, StepClock, set_options
from deltanb.transaction import ids
from tests.test_ids import PLACES, SAME, txn_ids


class Process:
    """A process that runs a lesson: its clock and its ids, and what it remembers of both."""

    def __init__(self, new_id: Callable[[], str] | None = None) -> None:
        self.settings: dict[str, Any] = {
            "clock": StepClock(), "new_id": new_id or SeededIds(1), "checkpoints": "inline"}
        self.places: Any = OrderedDict()

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that is run by this process."""
        with set_options(**self.settings), mock.patch.object(ids, "_places", self.places):
            yield


def removed(table: dn.DeltaTable) -> None:
    """Nothing is left of it."""
    folder = table.log.store.local_path("")
    if folder is not None:
        shutil.rmtree(folder)
    for file in list(table.log.store.list_all("")):
        table.log.store.delete(file.name)


def made(at: Any, n: int, **settings: Any) -> dn.DeltaTable:
    """A table of two versions; the other one is the same but for its rows."""
    table = dn.create(at, {"n": [n]}, **settings)
    table.append({"n": [n + 1]})
    return table


# -- who has begun on the first table --------------------------------------------------------------------

Goes = Callable[[], Any]


def transaction(table: dn.DeltaTable) -> Goes:
    txn = table.start_transaction()
    txn.read_whole_table()
    added = txn.write_files({"n": [50]})
    return lambda: txn.commit(added, "WRITE")


def statements(table: dn.DeltaTable) -> Goes:
    txn = table.transaction()
    txn.append({"n": [50]})
    return txn.commit


def locks(table: dn.DeltaTable) -> Goes:
    txn = dn.locks.LockManager().new_transaction()
    txn.table(table).append({"n": [50]})
    return txn.commit


def stream(table: dn.DeltaTable) -> Goes:
    source = TableStreamSource(table.log, StreamOptions(), table.snapshot)
    at = source.latest(source.initial())

    def again() -> Any:
        dn.DeltaLog.clear_cache()
        source = TableStreamSource(table.log, StreamOptions(), table.log.update())
        return source.latest(at)

    return again


def pickled(table: dn.DeltaTable) -> Goes:
    data = pickle.dumps(table.as_of(1))
    return lambda: pickle.loads(data).to_arrow()


def past(read: Callable[[Any], Any]) -> Callable[[dn.DeltaTable], Goes]:
    def begin(table: dn.DeltaTable) -> Goes:
        then = table.as_of(0)
        return lambda: read(then)

    return begin


BEGUN: dict[str, Callable[[dn.DeltaTable], Goes]] = {
    "transaction": transaction, "statements": statements, "locks": locks, "stream": stream,
    "past version, rows": past(lambda then: then.to_arrow()),
    "past version, count": past(lambda then: then.count()),
    "past version, batches": past(lambda then: then.to_batches().read_all()),
    "past version, changes": past(lambda then: then.diff(0, 0)),
    "past version, schema": past(lambda then: then.schema),
}


@pytest.mark.parametrize("seed", [*SAME, "none"])
@pytest.mark.parametrize("begun", BEGUN)
def test_what_was_begun_on_the_first_table_ends_with_it(begun: str, seed: str, tmp_path: Path) -> None:
    def process() -> AbstractContextManager[Any]:
        return set_options() if seed == "none" else Process(SAME[seed]()).running()

    with process():
        go = BEGUN[begun](table := made(tmp_path / "t", 1))
    removed(table)
    with process():
        other = made(tmp_path / "t", 7)
    before = sorted(path.name for path in tmp_path.rglob("*.json"))
    with pytest.raises((TableReplaced, StreamSourceChanged), match="another"):
        go()
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == before
    dn.DeltaLog.clear_cache()
    assert sorted(dn.open(tmp_path / "t").to_arrow()["n"].to_pylist()) == [7, 8] and other.version == 1


def test_a_past_version_that_the_second_table_does_not_have(tmp_path: Path) -> None:
    """Its files have the names that those of the second one have."""
    with Process().running():
        table = made(tmp_path / "t", 1)
        table.set_properties({"delta.appendOnly": True})
        then = table.as_of(2)
    removed(table)
    with Process().running():
        made(tmp_path / "t", 7)
    with pytest.raises(TableReplaced, match="version 2 of .* was read"):
        then.to_arrow()


def test_a_past_version_of_a_table_that_was_put_back_or_cleaned_up(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 1)
    table.append({"n": [3]})
    table.log.checkpoint()
    then = table.as_of(1)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "copy", tmp_path / "t", copy_function=shutil.copyfile)
    assert sorted(then.to_arrow()["n"].to_pylist()) == [1, 2]
    for version in range(2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert sorted(then.to_arrow()["n"].to_pylist()) == [1, 2]
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_text("damaged")
    assert sorted(then.to_arrow()["n"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("kind", [*PLACES, "bucket"])
def test_a_transaction_on_the_first_table_wherever_it_was(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings: dict[str, Any] = {}
    if kind == "bucket":
        at: Any = request.getfixturevalue("bucket") + "/t"
        settings["storage_options"] = request.getfixturevalue("s3_server").options
    else:
        at = PLACES[kind](tmp_path)
    with Process().running():
        go = transaction(table := made(at, 1, **settings))
    removed(table)
    with Process().running():
        made(at, 7, **settings)
    with pytest.raises(TableReplaced):
        go()
    assert sorted(table.to_arrow()["n"].to_pylist()) == [7, 8], "an open handle shows what is there"


OTHER_PROCESS = """
import shutil, sys
import deltanb as dn
dn.teaching(seed=1)
shutil.rmtree(sys.argv[1])
dn.create(sys.argv[1], {"n": [7]}).append({"n": [8]})
"""


def test_another_process_makes_the_table_again(tmp_path: Path) -> None:
    with dn.teaching(seed=1):
        table = made(tmp_path / "t", 1)
        first, then, txn = table.metadata.id, table.as_of(0), table.start_transaction()
        subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "t")], check=True)
        with pytest.raises(TableReplaced):
            txn.commit(txn.write_files({"n": [50]}), "WRITE")
        with pytest.raises(TableReplaced):
            then.to_arrow()
    assert table.metadata.id != first and sorted(table.to_arrow()["n"].to_pylist()) == [7, 8]


# -- every way to make a table ------------------------------------------------------------------------------

def cloned(at: Path, base: Path) -> dn.DeltaTable:
    source = base / "source"
    return (dn.open(source) if source.exists() else dn.create(source, {"n": [1]})).clone(at)


def converted(at: Path, base: Path) -> dn.DeltaTable:
    at.mkdir()
    pq.write_table(pa.table({"n": [1]}), at / "part.parquet")
    return dn.convert(at)


MAKERS: dict[str, Callable[[Path, Path], dn.DeltaTable]] = {
    "create": lambda at, base: dn.create(at, {"n": [1]}),
    "empty": lambda at, base: dn.create(at, "n long"),
    "clone": cloned, "convert": converted,
}


@pytest.mark.parametrize("seed", SAME)
@pytest.mark.parametrize("maker", MAKERS)
def test_no_two_tables_have_one_id(maker: str, seed: str, tmp_path: Path) -> None:
    table_ids = []
    for _ in range(2):
        with Process(SAME[seed]()).running():
            table = MAKERS[maker](tmp_path / "t", tmp_path)
        table_ids.append(table.metadata.id)
        removed(table)
    assert len(set(table_ids)) == 2


def test_a_table_that_is_overwritten_keeps_its_id(tmp_path: Path) -> None:
    with Process().running():
        table = made(tmp_path / "t", 1)
        before = table.metadata.id
        assert dn.create(tmp_path / "t", {"m": [1]}, mode="overwrite").metadata.id == before


def test_ids_of_commits_of_two_who_write_to_the_second_table(tmp_path: Path) -> None:
    """Who made the first one draws no ids from a seed any more."""
    one, other = Process(), Process()
    with one.running():
        table = dn.create(tmp_path / "t", {"n": [1]})
    removed(table)
    with other.running():
        dn.DeltaLog.clear_cache()
        second = dn.create(tmp_path / "t", {"n": [7]})
    for n in range(3):
        for process, handle in ((one, table), (other, second)):
            with process.running():
                handle.append({"n": [n]})
    assert len(set(txn_ids(second))) == second.version + 1 == 7


# -- tables of a catalog -----------------------------------------------------------------------------------

@contextmanager
def catalog_of(base: Path, n: int) -> Iterator[dn.Catalog]:
    """A catalog with a table of each format."""
    with dn.Catalog(f"sqlite:///{base}/c.db", warehouse=base / "w") as catalog:
        if not catalog.list_namespaces():
            catalog.create_namespace("shop")
            catalog.create_table("shop.delta", {"n": [n]}).append({"n": [n + 1]})
            catalog.create_table("shop.iceberg", {"n": [n]}, format="iceberg").append({"n": [n + 1]})
        yield catalog


@pytest.mark.parametrize("seed", SAME)
def test_a_catalog_that_is_made_again(seed: str, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pyiceberg")
    base = tmp_path / "lake"
    base.mkdir()
    one, other = (Process(SAME[seed]()) for _ in range(2))
    with one.running(), catalog_of(base, 1) as catalog:
        table, then = catalog.table("shop.delta"), catalog.table("shop.delta").as_of(1)
        uuids = [catalog.table("shop.iceberg").metadata["table-uuid"], table.log.commits.table_id]
        folder = table.path
    shutil.rmtree(base)
    base.mkdir()
    with other.running(), catalog_of(base, 7) as again:
        assert again.table("shop.iceberg").metadata["table-uuid"] != uuids[0]
        assert again.table("shop.delta").log.commits.table_id != uuids[1]
        assert again.table("shop.delta").path != folder
        for handle in (table, then):
            with one.running(), pytest.raises((TableNotFound, TableReplaced, dn.errors.DataFileNotFound)):
                handle.to_arrow()
        with one.running(), pytest.raises(TableNotFound):
            table.append({"n": [50]})
        assert sorted(again.table("shop.delta").to_arrow()["n"].to_pylist()) == [7, 8]


@pytest.mark.parametrize("seed", SAME)
def test_ids_of_transactions_of_a_catalog_that_is_made_again(seed: str, tmp_path: Path) -> None:
    """Else one that nobody has ratified is taken for the one that drew its id."""
    pytest.importorskip("sqlalchemy")
    base = tmp_path / "lake"
    base.mkdir()
    one, other = (Process(SAME[seed]()) for _ in range(2))
    with one.running(), dn.Catalog(f"sqlite:///{base}/c.db", warehouse=base / "w") as catalog:
        catalog.create_namespace("shop")
        shutil.rmtree(base)
        base.mkdir()
        with other.running(), dn.Catalog(f"sqlite:///{base}/c.db", warehouse=base / "w") as again:
            again.create_namespace("shop")
            table = again.create_table("shop.t", {"n": [0]})
            for n in range(3):
                table.append({"n": [n + 1]})
        with dn.Catalog(f"sqlite:///{base}/c.db", warehouse=base / "w") as third:
            mine = third.table("shop.t")
            for n in range(3):
                mine.append({"n": [n + 11]})
            drawn = [entry.txn_id for entry in third.store.history()]
    assert sorted(mine.to_arrow()["n"].to_pylist()) == [0, 1, 2, 3, 11, 12, 13]
    assert len(set(drawn)) == len(drawn)
