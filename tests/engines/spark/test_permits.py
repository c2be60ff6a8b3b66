"""A task that is still at work when its write ends leaves no file, in whatever order the two go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.engines.arrow.prewritten import Target
from deltanb.engines.spark.executors import Place, WritePlan, begun, ended, write_files
from deltanb.engines.spark.permits import permit_of
from deltanb.errors import IllegalStateError, StorageError
from deltanb.log.file_options import FileOptions
from deltanb.observe.schedule import interleavings
from deltanb.options import options
from deltanb.store.base import FileStatus
from deltanb.testing import MemoryStore
from tests.helpers import files_of

BATCHES = [pa.record_batch({"id": [number], "p": ["x"]}) for number in range(2)]


class Worker:
    """Work in a thread of its own, which stands still before each request to a store until it is advanced."""

    at_work: ContextVar[Worker | None] = ContextVar("at_work", default=None)

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.outcome, self.done = work, None, False
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        token = self.at_work.set(self)
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self.at_work.reset(token)
        self._thread.start()
        self._stands.acquire()

    def _run(self) -> None:
        try:
            self.outcome = self.work()
        except Exception as error:
            self.outcome = error
        self.done = True
        self._stands.release()

    def stand(self) -> None:
        """Called before a request."""
        self._stands.release()
        self._go.acquire()

    def advance(self, _: Any) -> None:
        """One request, and on to the next one, or to the end."""
        self._go.release()
        self._stands.acquire()


class Stepped(MemoryStore):
    """A store at whose requests workers stand still."""

    def __init__(self, is_remote: bool) -> None:
        super().__init__()
        self.is_remote = is_remote

    def put(self, name: str, data: bytes) -> None:
        step()
        super().put(name, data)

    def delete(self, name: str) -> None:
        step()
        super().delete(name)

    def status(self, name: str) -> FileStatus | None:
        step()
        return super().status(name)

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        step()
        return super().list_all(prefix)


def step() -> None:
    worker = Worker.at_work.get()
    if worker is not None:
        worker.stand()


def plan_for(table: dn.DeltaTable) -> WritePlan:
    """A write by tasks that begin a file with each batch."""
    snapshot = table.snapshot
    target = Target(0, snapshot.metadata, snapshot.protocol, file_options=FileOptions(1))
    return begun(Place(table.log.store), target)


@pytest.fixture(params=[False, True], ids=["folder", "bucket"])
def table(request: pytest.FixtureRequest) -> dn.DeltaTable:
    return dn.create(Stepped(request.param), {"id": [9], "p": ["y"]}, partition_by="p")


def test_a_task_leaves_no_file_of_a_write_that_has_failed(table: dn.DeltaTable) -> None:
    before, outcomes = files_of(table), []

    def start() -> list[Any]:
        plan = plan_for(table)
        return [Worker(lambda: write_files(plan, BATCHES)), Worker(lambda: ended(plan))]

    for (task, driver), _ in interleavings(start, {}):  # type: ignore[arg-type, misc]
        assert driver.outcome is None
        assert files_of(table) == before
        outcomes.append(type(task.outcome))
    assert set(outcomes) == {list, IllegalStateError}
    assert len(outcomes) > 50, "orders of three requests and more of each of the two"


def test_an_attempt_that_nobody_waits_for_leaves_no_file(table: dn.DeltaTable) -> None:
    before, outcomes = files_of(table), []
    counted: list[set[str]] = []

    def start() -> list[Any]:
        for name in files_of(table) - before:
            table.log.store.delete(name)
        plan = plan_for(table)
        paths = [file.path for file in write_files(plan, BATCHES)]
        counted.append(set(paths))
        return [Worker(lambda: write_files(plan, BATCHES)), Worker(lambda: ended(plan, paths))]

    for (task, _), _ in interleavings(start, {}):  # type: ignore[arg-type, misc]
        assert files_of(table) - before == counted[-1]
        outcomes.append(type(task.outcome))
    assert set(outcomes) == {list, IllegalStateError}


def test_a_task_that_cannot_know_whether_its_write_goes_on_leaves_no_file(table: dn.DeltaTable) -> None:
    plan, store = plan_for(table), table.log.store
    before = files_of(table)

    def lost(name: str) -> None:
        raise StorageError(f"{name} cannot be looked at")

    store.status = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageError, match=permit_of(plan.name)):
        write_files(plan, BATCHES)
    assert files_of(table) == before


def test_a_permit_that_cannot_be_removed_keeps_no_file(table: dn.DeltaTable) -> None:
    before, plan = files_of(table), plan_for(table)
    write_files(plan, BATCHES)
    delete = table.log.store.delete

    def refuse(name: str) -> None:
        if name == permit_of(plan.name):
            raise StorageError(f"{name} cannot be removed")
        delete(name)

    table.log.store.delete = refuse  # type: ignore[method-assign]
    ended(plan)
    assert files_of(table) - before == {permit_of(plan.name)}


def test_vacuum_removes_the_permit_of_a_driver_that_was_killed_and_no_young_one(table: dn.DeltaTable) -> None:
    before = files_of(table)
    old, young = plan_for(table), plan_for(table)
    table.log.store.set_modification_time(permit_of(old.name), options.clock() - 8 * 24 * 3_600_000)
    assert table.vacuum().files["path"].to_pylist() == [permit_of(old.name)]
    assert files_of(table) - before == {permit_of(young.name)}
    assert write_files(young, BATCHES)


def test_every_task_asks_once(table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = plan_for(table), []
    status = table.log.store.status
    monkeypatch.setattr(table.log.store, "status", lambda name: asked.append(name) or status(name))
    write_files(plan, BATCHES)
    assert asked == [permit_of(plan.name)]
    assert write_files(plan, []) == [] and len(asked) == 1, "without files nothing is asked"
