"""Commits go first: work behind them waits at its points, for no longer than it may, and comes to its end."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.concurrency import precedence
from deltanb.concurrency.background import Line
from deltanb.concurrency.precedence import EACH_SECONDS, TOTAL_SECONDS, Precedence

MINUTE = 60.0


class Waits(threading.Condition):
    """A condition whose waiting takes no time: ``during`` is what happens meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.waited = 0.0, list[float]()
        self.during: Callable[[], object] = lambda: None

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        assert timeout is not None
        self.during()
        if not predicate():
            self.now += timeout
            self.waited.append(timeout)
        return predicate()


def made() -> tuple[Precedence, Waits]:
    waits = Waits()
    return Precedence(lambda: waits.now, lambda: waits), waits


def test_a_commit_in_progress_makes_the_work_wait_at_its_next_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedence, "EACH_SECONDS", MINUTE)
    monkeypatch.setattr(precedence, "TOTAL_SECONDS", MINUTE)
    order, gate = [], Precedence()
    begun = threading.Event()

    def work() -> None:
        with gate.behind():
            gate.yield_to_commits()
            order.append("no wait")
            begun.wait(MINUTE)
            gate.yield_to_commits()
            order.append("work")

    thread = threading.Thread(target=work)
    thread.start()
    while not order:
        assert thread.is_alive()
    with gate.ahead():
        begun.set()
        while not gate._changed._waiters:  # type: ignore[attr-defined]
            assert thread.is_alive()
        order.append("commit")
    thread.join(MINUTE)
    assert order == ["no wait", "commit", "work"]


def test_the_work_waits_until_the_last_of_several_commits_is_made() -> None:
    gate, waits = made()
    with gate.behind():
        with gate.ahead():
            with gate.ahead():
                pass
            gate.yield_to_commits()
        gate.yield_to_commits()
    assert waits.waited == [EACH_SECONDS]


def test_a_commit_that_does_not_end_is_waited_for_once() -> None:
    """It may be waiting itself, for a lock that the work holds."""
    gate, waits = made()
    with gate.ahead():
        for _ in range(2):
            with gate.behind():
                for _ in range(1000):
                    gate.yield_to_commits()
                with gate.ahead():  # another one
                    gate.yield_to_commits()
                    gate.yield_to_commits()
    assert waits.waited == [EACH_SECONDS] * 4  # once for each, by each piece of work


def test_commits_without_end_hold_the_work_up_for_a_bounded_time() -> None:
    gate, waits = made()
    for _ in range(2):
        with gate.behind():
            for _ in range(1000):
                with gate.ahead():
                    gate.yield_to_commits()
    assert max(waits.waited) <= EACH_SECONDS
    assert sum(waits.waited) == pytest.approx(2 * TOTAL_SECONDS)  # for each piece of work


def test_who_is_not_behind_never_waits() -> None:
    gate, waits = made()
    with gate.ahead():
        gate.yield_to_commits()
        with gate.behind():
            pass
        gate.yield_to_commits()
    assert waits.waited == []


def test_a_commit_that_fails_is_no_longer_ahead() -> None:
    gate, waits = made()
    with pytest.raises(KeyboardInterrupt), gate.ahead():
        raise KeyboardInterrupt
    with gate.behind():
        gate.yield_to_commits()
    assert waits.waited == []


def test_an_interrupt_as_the_end_of_a_commit_is_told_leaves_nobody_ahead() -> None:
    gate, waits = made()

    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None: ...

    def commit() -> None:
        with gate.ahead():
            gate._changed = Interrupted()  # type: ignore[assignment]

    with pytest.raises(KeyboardInterrupt):
        commit()
    gate._changed = waits
    gc.collect()
    with gate.behind():
        gate.yield_to_commits()
    assert waits.waited == []


def test_a_forked_process_knows_none_of_the_commits_of_the_other_one() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no processes are forked here")
    with precedence.ahead():
        child = os.fork()
        if not child:
            os._exit(len(precedence._precedence._ahead))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_work_in_the_background_is_behind_and_gives_way() -> None:
    line, lefts = Line(), []
    line.put("a", "work", lambda: lefts.append(precedence._precedence._mine.left))
    assert line.flush(MINUTE) and lefts == [TOTAL_SECONDS]


def test_a_checkpoint_gives_way_between_the_pieces_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.log.checkpoint import write

    others = set(precedence._precedence._ahead)  # of commits that other tests have left in their threads
    points: list[int] = []
    monkeypatch.setattr(
        write, "yield_to_commits", lambda: points.append(len(set(precedence._precedence._ahead) - others))
    )
    table = dn.create(tmp_path / "t", {"id": [0]}, properties={"delta.checkpointInterval": 2})
    with dn.set_options(checkpoints="inline"):
        table.append({"id": [1]})
        table.append({"id": [2]})
    assert len(points) >= 4 and set(points) == {1}  # in line, and so within the commit itself
