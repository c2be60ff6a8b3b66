"""The line that shows progress: when it comes, what it says, and that it goes."""

from __future__ import annotations

import contextvars
import io
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import progress as module
from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.log.reader import LogReader
from deltanb.progress import MIN_INTERVAL, PATIENCE, Line, Terminal, progress
from deltanb.testing import MemoryStore


class Surface:
    """Remembers what was drawn, and says when the first drawing came."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.first = threading.Event()

    def show(self, text: str) -> None:
        self.drawn.append(text)
        self.first.set()

    def clear(self) -> None:
        self.drawn.append("")


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def line(total: int | None = None) -> tuple[Line, Surface, Clock]:
    surface, clock = Surface(), Clock()
    return Line("looking", total, surface, clock=clock), surface, clock


def test_nothing_flickers_below_two_seconds() -> None:
    assert PATIENCE == 2
    work, surface, clock = line(total=100)
    for _ in range(19):
        clock.now += 0.1
        work()
        work.tell()
    work.end()
    assert surface.drawn == []


def test_from_two_seconds_on_it_says_how_much_is_done_and_how_long_it_has_taken() -> None:
    work, surface, clock = line(total=1000)
    work()
    clock.now += 2
    work.tell()
    assert surface.drawn == ["looking: 1 of 1,000, 2 s"]
    clock.now += 61
    work()
    assert surface.drawn[-1] == "looking: 2 of 1,000, 1 min 3 s"
    work.end()
    assert surface.drawn[-1] == ""
    clock.now += 1
    work()
    work.tell()
    assert surface.drawn[-1] == "", "what comes late draws nothing"


def test_without_a_total_there_is_the_time() -> None:
    work, surface, clock = line()
    for _ in range(4):
        clock.now += 1
        work.tell()
    assert surface.drawn == ["looking, 2 s", "looking, 3 s", "looking, 4 s"]


def test_it_is_drawn_no_more_often_than_eyes_follow() -> None:
    work, surface, clock = line(total=10_000)
    clock.now += 2
    for _ in range(1000):
        clock.now += 0.001
        work()
    assert len(surface.drawn) <= 1 / MIN_INTERVAL + 1


def test_work_within_work_is_said_behind_it_on_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    surface = Surface()
    monkeypatch.setattr(module, "_surface", lambda: surface)
    with progress("DELETE: writing files", patience=0) as outer:
        assert surface.first.wait(30)
        with progress("Spark writes") as inner:
            outer._drawn_at = None
            inner.at(3, 8, "tasks")
            assert surface.drawn[-1] == "DELETE: writing files, Spark writes: 3 of 8 tasks"
        assert outer.text == "DELETE: writing files"
    assert surface.drawn.count("") == 1, "the outer line alone is cleared"


def test_the_watching_thread_draws_by_itself_and_ends() -> None:
    surface = Surface()
    with progress("looking", total=2, surface=surface, patience=0) as done:
        assert surface.first.wait(30)
        done()
    assert surface.drawn[0] == "looking: 0 of 2" and surface.drawn[-1] == ""


def test_a_block_may_be_left_in_another_context_as_in_another_cell() -> None:
    surface = Surface()
    block = progress("looking", surface=surface, patience=0)
    contextvars.copy_context().run(block.__enter__)
    assert surface.first.wait(30)
    block.__exit__(None, None, None)
    assert surface.drawn[-1] == ""


def test_the_line_goes_when_the_work_fails() -> None:
    surface = Surface()
    with pytest.raises(ZeroDivisionError), progress("looking", surface=surface, patience=0):
        assert surface.first.wait(30)
        raise ZeroDivisionError
    assert surface.drawn == ["looking", ""]


def test_a_terminal_is_left_as_it_was() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.show("looking")
    terminal.clear()
    assert stream.getvalue() == "\rlooking\r       \r"


def test_nobody_watches_a_test(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("looking", patience=0):
        pass
    assert capfd.readouterr() == ("", "")


# -- where it is shown -----------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the lines said at their ends."""
    found: list[str] = []
    end = Line.end
    monkeypatch.setattr(Line, "end", lambda self: (found.append(self.said), end(self))[1])
    yield found


def test_reading_a_log_counts_its_commits(told: list[str]) -> None:
    store = MemoryStore("memory:///ducks")
    table = dn.create(store, {"id": [0]}, properties={"delta.checkpointInterval": "100"})
    for at in range(4):
        table.append({"id": [at]})
    told.clear()
    assert LogReader(store).update().version == 4
    assert told == ["ducks: commits read: 5 of 5"]


def test_reading_a_checkpoint_counts_its_parts(told: list[str]) -> None:
    store = MemoryStore("memory:///ducks")
    dn.create(store, {"id": [0]}).log.checkpoint()
    told.clear()
    assert LogReader(store).update().files.num_rows == 1
    assert "checkpoint: row groups read: 1 of 1" in told


class Session:
    """A session of Spark Connect, as far as its progress goes."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)


def test_tasks_of_spark_connect_are_counted(told: list[str]) -> None:
    pytest.importorskip("pyspark")
    from deltanb.spark.jobs import followed

    session = type("SparkSession", (Session,), {"__module__": "pyspark.sql.connect.session"})()
    with followed(session, "Spark writes"):
        (handler,) = session.handlers
        handler(stages=None, inflight_tasks=0, operation_id=None, done=False)
        stages = [SimpleNamespace(num_tasks=4, num_completed_tasks=done) for done in (4, 1)]
        handler(stages=stages, inflight_tasks=2, operation_id="x", done=False)
    assert told == ["Spark writes: 5 of 8 tasks"] and session.handlers == []


def test_a_session_in_this_process_has_the_time_alone(told: list[str]) -> None:
    pytest.importorskip("pyspark")
    from deltanb.spark.jobs import followed

    with followed(SimpleNamespace(), "Spark writes"):
        pass
    assert told == ["Spark writes"]


def test_the_start_of_spark_has_a_line_from_its_first_import_on(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from deltanb.spark import session

    def no_java() -> None:
        assert told == [], "the line is there while Java is looked for"
        raise MissingDependency("no Java", extra="java")

    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(session, "java_home", no_java)
    with pytest.raises(MissingDependency):
        session.spark()
    assert told == ["Starting Spark"]
    told.clear()
    with pytest.raises(InvalidArgument):
        session.spark("http://somewhere")
    assert told == ["Connecting to Spark"]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_says_what_it_does(spark: Any, told: list[str], tmp_path: Any) -> None:
    table = dn.create(tmp_path / "t", pa.table({"id": [1, 2, 3]}))
    table.append(spark.range(3))
    assert "Spark writes" in told
    table.delete("id = 1", engine="spark")
    assert "Spark reads" in told
