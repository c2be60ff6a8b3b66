"""Ids of a seed: other runs, processes and forks that draw the same ones harm no table and no catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddCDCFile
from deltanb.errors import StorageError
from deltanb.options import SeededIds, set_options
from deltanb.store.local import LocalStore
from deltanb.store.new_files import created, names_for
from deltanb.testing import AnswerExists, Lose, LoseResponse, MemoryStore, ScriptedStore, TableBuilder

SAME = {"seed": lambda: SeededIds(1), "constant": lambda: lambda: "00000000-0000-4000-8000-000000000001",
        "no UUID": lambda: lambda: "again"}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": "p"},
    "mapped": {"properties": {"delta.columnMapping.mode": "name"}},
    "random prefixes": {"properties": {"delta.randomizeFilePrefixes": True, "delta.randomPrefixLength": 1}},
    "vectors": {"properties": {"delta.enableDeletionVectors": True}},
    "changes": {"properties": {"delta.enableChangeDataFeed": True}},
    "row ids": {"properties": {"delta.enableRowTracking": True}},
    "checkpoints": {"properties": {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": 1}},
}


class Bucket(MemoryStore):
    """A store of others: it does not say whether a name is taken, and repeats requests."""

    creates_only = False
    is_final = False

    def open_output(self, name: str) -> Any:
        with self._lock:
            self._begun.discard(name)
            self.files.pop(name, None)
        return super().open_output(name)


PLACES: dict[str, Callable[[Path], Any]] = {
    "folder": lambda folder: folder / "t", "memory": lambda folder: MemoryStore(),
    "store of others": lambda folder: Bucket(),
}


def work(table: dn.DeltaTable, run: int) -> None:
    """What a run does: it draws ids for every kind of file."""
    table.append({"p": [run] * 3, "n": [10 * run, 10 * run + 1, 10 * run + 2]})
    table.delete(f"n = {10 * run}")
    table.update({"n": "n + 100"}, where=f"n = {10 * run + 1}")
    table.optimize(where="p = -1" if table.metadata.partition_columns else None, engine="arrow")


def txn_ids(table: dn.DeltaTable) -> list[Any]:
    return [table.commit(version).txn_id for version in range(table.version + 1)]


def assert_whole(table: dn.DeltaTable, runs: range) -> None:
    rows = sorted(row["n"] for row in table.to_arrow().to_pylist())
    assert rows == sorted(n for run in runs for n in (10 * run + 101, 10 * run + 2))
    assert len(set(txn_ids(table))) == table.version + 1
    for version in range(table.version + 1):
        table.as_of(version).to_arrow()  # what older versions name is as it was


@pytest.mark.parametrize("place, kind, ids", [
    *((place, kind, "seed") for place in PLACES for kind in KINDS),
    *(("folder", "vectors", ids) for ids in SAME if ids != "seed")])
def test_three_runs_of_a_lesson_on_one_table(place: str, kind: str, ids: str, tmp_path: Path) -> None:
    at, table = PLACES[place](tmp_path), None
    for run in range(3):
        with dn.teaching(seed=1), set_options(new_id=SAME[ids]()):
            if table is None:
                table = dn.create(at, "p long, n long", **KINDS[kind])
            work(table, run)
    assert table is not None
    assert_whole(table, range(3))


def test_columns_that_were_dropped_do_not_come_back(tmp_path: Path) -> None:
    for run in range(2):
        with dn.teaching(seed=1):
            if run == 0:
                table = dn.create(tmp_path / "t", "n long", properties={"delta.columnMapping.mode": "name"})
            table.append({"n": [run], "extra": [run]}, merge_schema=True)
            if run == 0:
                table.drop_columns("extra")
    assert sorted(table.to_arrow()["extra"].to_pylist(), key=str) == [1, None]


def test_a_lesson_on_a_table_of_its_own_is_the_same_at_every_run(tmp_path: Path) -> None:
    """But for the table's own id, and that of the commit which makes it."""
    logs = []
    for run in range(2):
        with dn.teaching(seed=1):
            table = dn.create(tmp_path / f"{run}", {"n": [1]})
            table.append({"n": [2]})
            dn.open(tmp_path / f"{run}").delete("n = 1")
        own = f"{table.metadata.id}|{txn_ids(table)[0]}"
        logs.append([re.sub(own, "", path.read_text())
                     for path in sorted((tmp_path / f"{run}" / "_delta_log").glob("*.json"))])
    assert logs[0] == logs[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_of_a_lesson(tmp_path: Path) -> None:
    with dn.teaching(seed=1):
        table = dn.create(tmp_path / "t", {"n": [0]})
        child = os.fork()
        if not child:
            try:
                for n in range(3):
                    table.append({"n": [10 + n]})
                os._exit(0)
            finally:
                os._exit(1)
        for n in range(3):
            table.append({"n": [20 + n]})
        assert os.waitpid(child, 0)[1] == 0
    rows = sorted(dn.open(tmp_path / "t").to_arrow()["n"].to_pylist())
    assert rows == [0, 10, 11, 12, 20, 21, 22]
    assert len(set(txn_ids(table))) == 7


@pytest.mark.parametrize("ids", SAME)
def test_a_commit_with_the_same_id_is_no_other_ones_commit(ids: str) -> None:
    """The second one has to be checked against the first, and not be mistaken for it."""
    with set_options(new_id=SAME[ids]()):
        log = TableBuilder(MemoryStore()).create("id long").log
        first = log.start_transaction()
    with set_options(new_id=SAME[ids]()):
        second = log.start_transaction()
    for txn in (first, second):
        txn.read_whole_table()
    assert first.commit(first.write_files({"id": [1]}), "WRITE") == 1
    with pytest.raises(dn.errors.ConcurrentAppendException):
        second.commit(second.write_files({"id": [1]}), "WRITE")


def test_two_who_make_one_table_from_one_seed_do_not_take_each_other_for_themselves() -> None:
    """The other process has drawn the same ids, and was first."""
    with dn.teaching(seed=1):
        theirs = MemoryStore()
        dn.create(theirs, {"n": [1]})
    with dn.teaching(seed=1):
        winner = theirs.read("_delta_log/00000000000000000000.json").decode().splitlines()
        store = ScriptedStore(MemoryStore(), [Lose(tuple(winner))])
        with pytest.raises(dn.errors.DeltaConcurrentModificationException):
            dn.create(store, {"n": [2]})


@pytest.mark.parametrize("answer", [LoseResponse(), AnswerExists()])
def test_a_commit_whose_answer_was_lost_still_knows_itself(answer: Any) -> None:
    with set_options(new_id=SAME["constant"]()):
        store = ScriptedStore(TableBuilder(MemoryStore()).create("id long").store)
        txn = dn.DeltaLog.for_table(store).start_transaction()
        store.script.append(answer)
        assert txn.commit((), "WRITE") == 1


def creators(folder: Path) -> Iterator[tuple[str, Any]]:
    yield "folder", LocalStore(folder)
    yield "folder without sync", LocalStore(folder, durability="none")
    yield "memory", MemoryStore()


@pytest.mark.parametrize("held", [True, False], ids=["clock held", "clock runs"])
def test_a_new_file_never_takes_the_place_of_one(tmp_path: Path, held: bool) -> None:
    with dn.teaching() if held else set_options():
        for name, store in creators(tmp_path):
            store.put("a/b", b"theirs")
            with pytest.raises(FileExistsError):
                store.open_output("a/b")
            assert store.read("a/b") == b"theirs", name


def test_what_was_begun_is_no_file_of_others(tmp_path: Path) -> None:
    """Whoever cleans up after an error deletes what was begun, and nothing else."""
    store, begun = LocalStore(tmp_path), list[str]()
    store.put("part-1", b"theirs")

    def create(name: str) -> str:
        if name == "part-1":
            raise FileExistsError(name)
        return name

    with set_options(new_id=lambda: "1"):
        store.delete("part-1")  # another one takes the name between the look and the file
        name, _ = created(store, "part-{}".format, create, begun)
    assert begun == [name] != ["part-1"]


def test_a_store_that_refuses_every_name_is_an_error(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise FileExistsError(name)

    begun: list[str] = []
    with pytest.raises(StorageError, match="names are taken"):
        created(LocalStore(tmp_path), "part-{}".format, refuse, begun)
    assert begun == []


def test_names_of_a_store_that_overwrites_are_random() -> None:
    with set_options(new_id=lambda: "1"):
        assert next(names_for(Bucket(), "part-{}".format)) != "part-1"


@pytest.mark.parametrize("ids", SAME)
def test_two_runs_of_a_lesson_on_one_catalog(ids: str, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    for run in range(2):
        with dn.teaching(seed=1), set_options(new_id=SAME[ids]()), \
                dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "w") as catalog:
            if run == 0:
                catalog.create_namespace("shop")
            delta = catalog.create_table(f"shop.delta{run}", {"n": [run]})
            catalog.create_table(f"shop.ice{run}", {"n": [run]}, format="iceberg")
            delta.append({"n": [run + 10]})
            with catalog.transaction() as txn:
                for before in range(run + 1):
                    txn.table(f"shop.delta{before}").append({"n": [run + 20]})
            seen = {f"delta{n}": sorted(catalog.table(f"shop.delta{n}").to_arrow()["n"].to_pylist())
                    for n in range(run + 1)}
            ids_of = [entry.txn_id for entry in catalog.store.history()]
    assert seen == {"delta0": [0, 10, 20, 21], "delta1": [1, 11, 21]}
    assert len(set(ids_of)) == len(ids_of)


def test_change_files_are_new_ones(tmp_path: Path) -> None:
    paths = []
    for run in range(2):
        with dn.teaching(seed=1):
            if run == 0:
                table = dn.create(tmp_path / "t", {"n": [1, 2, 3]},
                                  properties={"delta.enableChangeDataFeed": True})
            table.delete(f"n = {run + 1}")
            paths += [action.path for action in table.log.read_commit(table.version)
                      if isinstance(action, AddCDCFile)]
    assert len(set(paths)) == len(paths) == 2
    assert sorted(row["n"] for row in table.changes(1).to_pylist()) == [1, 2]
