"""Where no thread can be started, work is done one after the other, and what needs two stacks says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.catalog.rest.server import serving
from deltanb.concurrency import parallel, stacks
from deltanb.concurrency.background import Line
from deltanb.errors import NoThreads
from deltanb.options import options, set_options
from deltanb.testing import MemoryStore, SimulatedTime
from deltanb.text.progress import progress


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(stacks, "_has_started", [])


@pytest.fixture(params=["never", "no longer"])
def refused(request: pytest.FixtureRequest, without_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread: on this machine, or since the last one was started."""
    if request.param == "no longer":
        monkeypatch.setattr(stacks, "_has_started", [True])


def test_this_machine_has_threads() -> None:
    assert stacks.has_threads()


def test_another_has_none(without_threads: None) -> None:
    assert not stacks.has_threads()


def test_another_error_of_a_thread_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(threading.Thread, "start", fail)
    monkeypatch.setattr(stacks, "_has_started", [])
    with pytest.raises(RuntimeError, match="out of order"):
        stacks.has_threads()


def test_each_item_is_worked_on_here(refused: None) -> None:
    with set_options(max_rows=3):
        results = list(parallel.each(lambda n: (n, options.max_rows), range(20), 4, "test"))
    assert results == [(n, 3) for n in range(20)]


def test_an_item_is_worked_on_when_it_is_asked_for(without_threads: None) -> None:
    begun: list[int] = []

    def work(n: int) -> int:
        begun.append(n)
        return 1 // (2 - n)

    results = parallel.each(work, range(9), 4, "test")
    assert [next(results), next(results)] == [0, 1] and begun == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert begun == [0, 1, 2]


def test_streams_are_read_one_after_the_other_and_closed(without_threads: None) -> None:
    closed: list[int] = []

    def stream(n: int) -> Iterator[int]:
        try:
            yield from range(n)
        finally:
            closed.append(n)

    assert list(parallel.streamed(stream, [1, 2, 3], 4)) == [0, 0, 1, 0, 1, 2]  # type: ignore[arg-type]
    assert closed == [1, 2, 3]
    left = parallel.streamed(stream, [5, 6], 4)  # type: ignore[arg-type]
    next(left)
    left.close()
    assert closed == [1, 2, 3, 5]


def test_what_is_begun_is_done_at_once_and_keeps_its_error(refused: None) -> None:
    assert parallel.begin(lambda: 6 * 7)() == 42
    failed = parallel.begin(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed()
    done: list[str] = []
    assert parallel.beside(lambda: done.append("work"), lambda: done.append("rest"), at_once=True) is None
    assert done == ["work", "rest"]


def test_a_pool_works_as_it_is_handed_work(refused: None) -> None:
    with parallel.workers(3, "test") as pool:
        assert pool.submit(lambda: threading.current_thread()).result() is threading.main_thread()
        assert list(pool.map(abs, [-1, 2])) == [1, 2]


def test_a_pool_that_is_over_takes_no_work_here_either(without_threads: None) -> None:
    pool = parallel.workers(3, "test")
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


def test_work_in_the_background_is_done_here_and_now(without_threads: None) -> None:
    line, done = Line(), []
    line.put("a", "the work", lambda: done.append(1))
    assert done == [1] and line.flush()


def test_progress_is_drawn_as_things_are_done(without_threads: None) -> None:
    drawn: list[str] = []

    class Surface:
        def show(self, text: str) -> None:
            drawn.append(text)

        def clear(self) -> None:
            drawn.append("")

    with progress("looking", total=2, surface=Surface(), patience=0) as done:
        done()
    assert drawn == ["looking: 1 of 2", ""]


def test_a_table_is_written_and_read(without_threads: None) -> None:
    table = dn.create(MemoryStore(), {"n": [1, 2], "part": ["a", "b"]}, partition_by=["part"])
    for n in range(12):
        table.append({"n": [n], "part": ["c"]})
    table.delete("n = 1")
    table.optimize()
    assert table.count() == 12 and table.verify().is_sound


@pytest.mark.parametrize("call", [
    lambda table: dn.race(table, [lambda t: t.append({"n": [2]})]),
    lambda table: SimulatedTime().run([lambda: table.append({"n": [2]})]),
    lambda table: dn.testing.aside(lambda: table.append({"n": [2]})),
], ids=["race", "simulated time", "aside"])
def test_what_needs_two_stacks_says_so_and_writes_nothing(without_threads: None, call: Any) -> None:
    table = dn.create(MemoryStore(), {"n": [1]})
    with pytest.raises(NoThreads, match=r"starts no threads.*table\.transaction\(\)"):
        call(table)
    assert table.log.update().version == 0


def test_simulated_time_alone_needs_no_other_stack(without_threads: None) -> None:
    time = SimulatedTime()
    time.sleep(3)
    assert time.now == 3


def test_writers_are_explored_all_the_same(request: pytest.FixtureRequest) -> None:
    table = dn.create(MemoryStore(), {"n": [1]})
    add = {"ann": lambda t: t.append({"n": [2]}), "ben": lambda t: t.delete("n = 1")}
    by_threads = dn.explore(table, add)
    request.getfixturevalue("without_threads")
    here = dn.explore(table, add)
    assert here.num_orders == by_threads.num_orders == 6
    assert list(map(repr, here.outcomes)) == list(map(repr, by_threads.outcomes))


def test_a_catalog_that_nobody_can_serve_says_so_and_frees_its_port(
    refused: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[socket.socket] = []
    listen = serving._bound
    monkeypatch.setattr(serving, "_bound", lambda *place: bound.append(listen(*place)) or bound[-1])
    catalog = dn.Catalog(f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=tmp_path)
    with pytest.raises(NoThreads, match="without a server"):
        catalog.serve()
    assert [sock.fileno() for sock in bound] == [-1]
    assert catalog.list_namespaces() == []
