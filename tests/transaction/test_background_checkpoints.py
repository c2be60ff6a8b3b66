"""Checkpoints behind a commit are written after it has returned, and never into another table."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.concurrency import background
from deltanb.log.checkpoint.names import parse_name
from deltanb.options import set_options
from deltanb.store.base import LogStore
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

MINUTE = 60.0
EACH = {"delta.checkpointInterval": 1}


class Gate:
    """The line of the process, held until the gate is opened."""

    def __init__(self) -> None:
        self._begun, self._opened = threading.Event(), threading.Event()
        background.soon(self, "the gate", self._wait)
        assert self._begun.wait(MINUTE)

    def _wait(self) -> None:
        self._begun.set()
        assert self._opened.wait(MINUTE)

    def open(self) -> None:
        """Let all that waits be done, and wait for it."""
        self._opened.set()
        assert dn.flush(MINUTE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with set_options(checkpoints="background"):
        closed_gate = Gate()
        yield closed_gate
        closed_gate.open()


def checkpoints(store: LogStore) -> list[int]:
    names = map(parse_name, store.list_names("_delta_log/"))
    return [name.version for name in names if name is not None]


def add(path: str) -> AddFile:
    return AddFile(path=path, partition_values={}, size=1)


def test_a_commit_does_not_wait_and_the_newest_checkpoint_stands_for_all(gate: Gate) -> None:
    table = dn.create(MemoryStore(), {"id": [0]}, properties=EACH)
    for number in range(1, 4):
        assert table.append({"id": [number]}).version == number
    assert checkpoints(table.log.store) == []
    gate.open()
    assert checkpoints(table.log.store) == [3]
    dn.DeltaLog.clear_cache()
    assert sorted(dn.open(table.log.store).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_it_is_the_checkpoint_of_its_version_though_the_table_has_gone_on(gate: Gate) -> None:
    table = dn.create(MemoryStore(), {"id": [0]}, properties={"delta.checkpointInterval": 2})
    for number in range(1, 4):
        table.append({"id": [number]})
    gate.open()
    assert checkpoints(table.log.store) == [2]
    assert table.log.snapshot_at(2).num_files == 3


def test_tables_do_not_take_each_others_place(gate: Gate) -> None:
    tables = [dn.create(MemoryStore(), {"id": [0]}, properties=EACH) for _ in range(3)]
    for table in tables:
        table.append({"id": [1]})
    gate.open()
    assert [checkpoints(table.log.store) for table in tables] == [[1]] * 3


def test_the_checkpoint_of_a_large_commit_waits_too(gate: Gate) -> None:
    table = dn.create(MemoryStore(), {"id": [0]})
    table.log.start_transaction().commit_large([add("a")], "CONVERT")
    assert checkpoints(table.log.store) == []
    gate.open()
    assert checkpoints(table.log.store) == [1]


def test_the_log_is_cleaned_up_after_the_checkpoint(tmp_path: Path) -> None:
    now = [0]
    with set_options(clock=lambda: now[0], checkpoints="background"):
        gate = Gate()
        table = dn.create(MemoryStore(), {"id": [0]}, properties={
            **EACH, "delta.logRetentionDuration": "interval 1 day"})
        table.append({"id": [1]})
        gate.open()
        now[0] += 5 * 86_400_000
        gate = Gate()
        table.append({"id": [2]})
        before = table.log.store.list_names("_delta_log/")
        gate.open()
    gone = set(before) - set(table.log.store.list_names("_delta_log/"))
    assert gone == {f"_delta_log/{0:020d}.{kind}" for kind in ("json", "crc")}


def test_errors_go_to_the_log_as_those_of_hooks_do(gate: Gate, caplog: Any) -> None:
    class Full(MemoryStore):
        def put(self, name: str, data: bytes) -> None:
            if parse_name(name):
                raise OSError(28, "No space left on device")
            super().put(name, data)

    table = dn.create(Full(), {"id": [0]}, properties=EACH)
    with caplog.at_level(logging.ERROR, "deltanb.transaction"):
        assert table.append({"id": [1]}).version == 1
        gate.open()
    assert "Error when executing post-commit hook Checkpoint for commit 1" in caplog.text
    assert "No space left" in caplog.text


def removed(table: DeltaTable, folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(table: DeltaTable, folder: Path) -> None:
    removed(table, folder)
    dn.DeltaLog.clear_cache()
    other = dn.create(folder, {"other": ["x"]})
    other.append({"other": ["y"]})


@pytest.mark.parametrize("change", [removed, replaced])
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_nothing_is_written_where_the_table_is_another_one_by_then(
    tmp_path: Path, gate: Gate, caplog: Any, change: Any, policy: str
) -> None:
    folder = tmp_path / "t"
    table = dn.create(folder, {"id": [0]}, properties={**EACH, "delta.checkpointPolicy": policy})
    table.append({"id": [1]})
    change(table, folder)
    before = set(tmp_path.rglob("*"))
    with caplog.at_level(logging.INFO, "deltanb.transaction"):
        gate.open()
    assert set(tmp_path.rglob("*")) == before
    assert "The checkpoint of version 1 of" in caplog.text and not [
        record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_it_is_looked_again_before_each_file(tmp_path: Path, gate: Gate, policy: str) -> None:
    folder = tmp_path / "t"
    table = dn.create(folder, {"id": [0]}, properties={**EACH, "delta.checkpointPolicy": policy})
    table.append({"id": [1]})
    log, looked = table.log, []
    identity = log.commits.identity

    def vanishing(version: int) -> object:
        looked.append(version)
        if len(looked) == 2:
            shutil.rmtree(folder)
        return identity(version)

    log.commits.identity = vanishing  # type: ignore[method-assign]
    gate.open()
    assert looked == [1, 1] and not folder.exists()


def test_lessons_and_the_option_have_commits_wait() -> None:
    for changed in (dn.teaching(seed=1), set_options(checkpoints="inline")):
        with changed:
            table = dn.create(MemoryStore(), {"id": [0]}, properties=EACH)
            table.append({"id": [1]})
            assert checkpoints(table.log.store) == [1]


def test_many_threads_commit_while_checkpoints_are_written() -> None:
    with set_options(checkpoints="background"):
        store = MemoryStore()
        table = dn.create(store, {"id": [0]}, properties=EACH)

        def write(writer: int) -> None:
            for number in range(5):
                table.log.start_transaction().commit([add(f"{writer}-{number}")], "WRITE")

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(MINUTE)
        assert dn.flush(MINUTE)
    dn.DeltaLog.clear_cache()
    snapshot = dn.open(store).snapshot
    assert (snapshot.version, snapshot.num_files) == (20, 21)
    assert checkpoints(store)[-1] == 20 == snapshot.checkpoint_version
