"""Work in the background: in order, the newest of each key, under the caller's settings, done at the end."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.concurrency import background
from deltanb.concurrency.background import AT_EXIT_SECONDS, Line
from deltanb.options import options, set_options
from tests.patience import PATIENCE

MINUTE = 60.0


class Gate:
    """Work that waits to be let on, so that what is put in meanwhile waits in line."""

    def __init__(self, line: Line) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        line.put("gate", "the gate", self)
        assert self.begun.wait(MINUTE)

    def __call__(self) -> None:
        self.begun.set()
        assert self.opened.wait(MINUTE)


def test_the_newest_work_of_a_key_takes_the_place_of_what_waits() -> None:
    line, done = Line(), []
    gate = Gate(line)
    for name in ("a1", "b1", "a2", "a3"):
        line.put(name[0], name, lambda name=name: done.append(name))
    assert not line.flush(0)
    gate.opened.set()
    assert line.flush(MINUTE) and done == ["a3", "b1"]


def test_work_of_a_lower_rank_replaces_none_of_a_higher_one() -> None:
    line, done = Line(), []
    gate = Gate(line)
    for rank in (1, 3, 2):
        line.put("a", "work", lambda rank=rank: done.append(rank), rank)
    gate.opened.set()
    assert line.flush(MINUTE) and done == [3]


def test_work_that_is_being_done_is_not_replaced() -> None:
    line, done = Line(), []
    gate = Gate(line)
    line.put("gate", "again", lambda: done.append("again"))
    gate.opened.set()
    assert line.flush(MINUTE) and done == ["again"]


def test_one_thread_that_is_gone_when_nothing_is_left() -> None:
    line, used = Line(), []
    gate = Gate(line)
    for key in range(3):
        line.put(key, "work", lambda: used.append(threading.current_thread()))
    thread = line._thread
    gate.opened.set()
    assert line.flush(MINUTE) and thread is not None and used == [thread] * 3
    thread.join(MINUTE)
    assert not thread.daemon and not thread.is_alive()
    line.put("later", "work", lambda: used.append(threading.current_thread()))
    assert line.flush(MINUTE) and used[-1] is not thread


def test_a_daemon_thread_asks_for_work_that_the_interpreter_waits_for() -> None:
    line, daemons = Line(), []
    asking = threading.Thread(daemon=True, target=lambda: line.put(
        "a", "work", lambda: daemons.append(threading.current_thread().daemon)))
    asking.start()
    asking.join(MINUTE)
    assert line.flush(MINUTE) and daemons == [False]


def test_work_sees_the_settings_of_whoever_asked_for_it() -> None:
    line, seen = Line(), []
    with set_options(max_rows=3):
        line.put("a", "work", lambda: seen.append(options.max_rows))
    assert line.flush(MINUTE) and seen == [3]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_what_fails_is_logged_and_the_rest_is_done(error: BaseException, caplog: Any) -> None:
    line, done = Line(), []
    gate = Gate(line)

    def fail() -> None:
        raise error

    line.put("a", "the first", fail)
    line.put("b", "the second", lambda: done.append(1))
    with caplog.at_level(logging.ERROR, "deltanb.concurrency.background"):
        gate.opened.set()
        assert line.flush(MINUTE) and done == [1]
    assert "the first failed" in caplog.text and "the second" not in caplog.text


def test_work_that_waits_for_all_work_does_not_wait_for_itself() -> None:
    line, outcomes = Line(), []
    line.put("a", "work", lambda: outcomes.append(line.flush()))
    assert line.flush(MINUTE) and outcomes == [True]


def test_at_the_end_of_the_interpreter_what_takes_too_long_is_left_out(caplog: Any) -> None:
    ending, now, done = threading.Event(), [0.0], []
    line = Line(ending.is_set, lambda: now[0])
    gate = Gate(line)

    def slow() -> None:
        done.append("slow")
        now[0] += AT_EXIT_SECONDS + 1

    line.put("a", "the slow one", slow)
    line.put("b", "the last one", lambda: done.append("last"))
    ending.set()
    with caplog.at_level(logging.WARNING, "deltanb.concurrency.background"):
        gate.opened.set()
        assert line.flush(MINUTE) and done == ["slow"]
    assert [record.getMessage() for record in caplog.records] == [
        "the last one was skipped, because the process is ending"]
    line.put("c", "after it", lambda: done.append(threading.current_thread()))
    assert done == ["slow", threading.current_thread()], "no thread would be waited for"


def test_without_room_for_a_thread_work_is_done_by_whoever_asks(monkeypatch: Any) -> None:
    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    line, used = Line(), []
    monkeypatch.setattr(threading.Thread, "start", full)
    line.put("a", "work", lambda: used.append(threading.current_thread()))
    assert used == [threading.current_thread()] and line.flush(0)


@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan"), timedelta(-1)])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="timeout"):
        dn.flush(timeout)


def test_a_timeout_may_be_endless() -> None:
    assert dn.flush(float("inf")) and dn.flush(0) and dn.flush(timedelta.max) and dn.flush(timedelta(0))


# -- the line of the process -------------------------------------------------------------------------------

EACH = {"delta.checkpointInterval": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_begins_with_an_empty_line() -> None:
    gate = Gate(background._line)
    background.soon("waiting", "work", lambda: None)
    child = os.fork()
    if child == 0:
        background.soon("own", "work of its own", lambda: None)
        os._exit(0 if background.flush(MINUTE) and not gate.opened.is_set() else 1)
    _, status = os.waitpid(child, 0)
    gate.opened.set()
    assert os.waitstatus_to_exitcode(status) == 0 and dn.flush(MINUTE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_waits_until_the_background_has_imported_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the import would never end in the forked process, and whoever needs the module would hang."""
    begun, may_end = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "events_of_import", (begun, may_end), raising=False)
    (tmp_path / "imported_slowly.py").write_text(
        "import sys\nbegun, may_end = sys.events_of_import\nbegun.set()\nassert may_end.wait(600)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def work() -> None:
        importlib.import_module("imported_slowly")

    looks: list[float] = []
    monkeypatch.setattr(background, "_pause", lambda seconds: (looks.append(seconds), may_end.set()))
    background.soon("import", "work", work)
    assert begun.wait(MINUTE)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # one that hangs ends
        done: list[bool] = []
        background.soon("again", "work", lambda: (work(), done.append(True)))
        os._exit(0 if background.flush(MINUTE) and done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert looks and dn.flush(MINUTE)


def run(script: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


SCRIPT = """
import sys, threading
import deltanb as dn
from deltanb.concurrency import background
ended = threading.Event()
threading.Thread(target=lambda: (threading.main_thread().join(), ended.set())).start()
table = dn.create(sys.argv[1], {"id": [0]}, properties={"delta.checkpointInterval": 1})
dn.flush()
background.soon("gate", "the gate", ended.wait)  # until the main thread is over
table.append({"id": [1]})
table.append({"id": [2]})
"""


def test_what_waits_at_the_end_of_a_process_is_written(tmp_path: Path) -> None:
    ended = run(SCRIPT, tmp_path / "t")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "t" / "_delta_log").glob("*.checkpoint.*")) == [
        f"{2:020d}.checkpoint.parquet"], "the newest one stands for both"
    assert dn.open(tmp_path / "t").snapshot.checkpoint_version == 2


AT_END = """
import threading
from deltanb.concurrency import background
from deltanb.concurrency import parallel
def work():
    threading.main_thread().join()
    print(list(parallel.each(lambda n: n * n, range(5), 4)))
background.soon("a", "work", work)
"""


def test_work_in_parallel_goes_on_where_no_pool_takes_any_at_the_end_of_a_process() -> None:
    ended = run(AT_END)
    assert (ended.stdout, ended.stderr) == ("[0, 1, 4, 9, 16]\n", "")


def test_some_of_the_work_is_waited_for_while_the_rest_waits() -> None:
    line, done = Line(), []
    line.settle(lambda key: True)
    gate = Gate(line)
    line.put("a", "work", lambda: done.append("a"))
    line.settle(lambda key: key == "b")  # nothing of that key
    waiting = threading.Thread(target=line.settle, args=(lambda key: key == "a",))
    waiting.start()
    assert waiting.is_alive() and done == []
    second = Gate.__new__(Gate)
    second.begun, second.opened = threading.Event(), threading.Event()
    line.put("later", "the second gate", second)
    gate.opened.set()
    waiting.join(MINUTE)
    assert not waiting.is_alive() and done == ["a"] and not line.flush(0)
    second.opened.set()
    assert line.flush(MINUTE)


def test_work_that_asks_for_its_own_end_does_not_wait_for_it() -> None:
    line, done = Line(), []
    line.put("a", "work", lambda: (line.settle(lambda key: key == "a"), done.append("a")))
    assert line.flush(MINUTE) and done == ["a"]
