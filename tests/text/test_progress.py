"""The line that shows progress: when it comes, what it says, and that it goes."""

from __future__ import annotations

import contextlib
import contextvars
import io
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import MissingDependency
from deltanb.log.reader import LogReader
from deltanb.testing import MemoryStore
from deltanb.text import progress as module
from deltanb.text.progress import MIN_INTERVAL, PATIENCE, Cell, Line, Terminal, progress


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
    monkeypatch.setattr(module, "surface_here", lambda: surface)
    with progress("DELETE: writing files", patience=0) as outer:
        assert surface.first.wait(600)
        with progress("Spark writes") as inner:
            outer._drawn_at = None
            inner.at(3, 8, "tasks")
            assert surface.drawn[-1] == "DELETE: writing files, Spark writes: 3 of 8 tasks"
        assert outer.text == "DELETE: writing files"
    assert surface.drawn.count("") == 1, "the outer line alone is cleared"


def test_the_watching_thread_draws_by_itself_and_ends() -> None:
    surface = Surface()
    with progress("looking", total=2, surface=surface, patience=0) as done:
        assert surface.first.wait(600)
        done()
    assert surface.drawn[0] == "looking: 0 of 2" and surface.drawn[-1] == ""


def test_a_block_may_be_left_in_another_context_as_in_another_cell() -> None:
    surface = Surface()
    block = progress("looking", surface=surface, patience=0)
    contextvars.copy_context().run(block.__enter__)
    assert surface.first.wait(600)
    block.__exit__(None, None, None)
    assert surface.drawn[-1] == ""


def test_the_line_goes_when_the_work_fails() -> None:
    surface = Surface()
    with pytest.raises(ZeroDivisionError), progress("looking", surface=surface, patience=0):
        assert surface.first.wait(600)
        raise ZeroDivisionError
    assert surface.drawn == ["looking", ""]


def test_a_terminal_is_left_as_it_was() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.show("looking")
    terminal.clear()
    assert stream.getvalue() == "\rlooking\r       \r"


def test_a_saved_cell_has_no_words_of_work_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    display = pytest.importorskip("IPython.display")
    outputs: list[dict[str, object]] = []
    monkeypatch.setattr(display, "publish_display_data", outputs.append)
    cell = Cell()
    for words in ("looking: 1 of 2", "looking: 2 of 2"):
        cell.show(words)
    cell.clear()
    assert [output["text/plain"] for output in outputs] == [""]
    assert "application/vnd.jupyter.widget-view+json" in outputs[0]


def test_nobody_watches_a_test(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("looking", patience=0):
        pass
    assert capfd.readouterr() == ("", "")


# -- where it is shown -----------------------------------------------------------------------------


@pytest.fixture
def ended_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the lines said at their ends."""
    lines: list[str] = []
    end = Line.end
    monkeypatch.setattr(Line, "end", lambda self: (lines.append(self.description), end(self))[1])
    yield lines


def test_reading_a_log_counts_its_commits(ended_lines: list[str]) -> None:
    store = MemoryStore("memory:///ducks")
    table = dn.create(store, {"id": [0]}, properties={"delta.checkpointInterval": "100"})
    for at in range(4):
        table.append({"id": [at]})
    ended_lines.clear()
    assert LogReader(store).update().version == 4
    assert ended_lines == ["ducks: commits read: 5 of 5"]


def test_reading_a_checkpoint_counts_its_parts(ended_lines: list[str]) -> None:
    store = MemoryStore("memory:///ducks")
    dn.create(store, {"id": [0]}).log.checkpoint()
    ended_lines.clear()
    assert LogReader(store).update().files.num_rows == 1
    assert "checkpoint: row groups read: 1 of 1" in ended_lines


class Session:
    """A session of Spark Connect, as far as its progress goes."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)


def test_tasks_of_spark_connect_are_counted(ended_lines: list[str]) -> None:
    pytest.importorskip("pyspark")
    from deltanb.engines.spark.jobs import followed

    session = type("SparkSession", (Session,), {"__module__": "pyspark.sql.connect.session"})()
    with followed(session, "Spark writes"):
        (handler,) = session.handlers
        handler(stages=None, inflight_tasks=0, operation_id=None, done=False)
        stages = [SimpleNamespace(num_tasks=4, num_completed_tasks=done) for done in (4, 1)]
        handler(stages=stages, inflight_tasks=2, operation_id="x", done=False)
    assert ended_lines == ["Spark writes: 5 of 8 tasks"] and session.handlers == []


class Context:
    """A SparkContext, as far as its status goes: jobs by group, each with stages: (running, done, all)."""

    def __init__(self, group: str | None = None) -> None:
        self.properties = {"spark.jobGroup.id": group}
        self.jobs: list[tuple[str | None, str, list[tuple[int, int, int]]]] = []

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def statusTracker(self) -> Context:
        return self

    def run(self, *stages: tuple[int, int, int]) -> None:
        """The job before is done, the next one runs."""
        self.jobs = [(group, "SUCCEEDED", its) for group, _, its in self.jobs]
        self.jobs.append((self.properties["spark.jobGroup.id"], "RUNNING", list(stages)))

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [job for job, (its, _, _) in enumerate(self.jobs) if its == group][::-1]

    def getJobInfo(self, job: int) -> Any:
        _, status, stages = self.jobs[job]
        return SimpleNamespace(status=status, stageIds=[10 * job + at for at in range(len(stages))])

    def getStageInfo(self, stage: int) -> Any:
        active, done, total = self.jobs[stage // 10][2][stage % 10]
        return SimpleNamespace(stageId=stage, numTasks=total, numActiveTasks=active, numCompletedTasks=done,
                               numFailedTasks=0)


@contextlib.contextmanager
def watched(context: Any) -> Iterator[Line]:
    """A line that somebody watches, around Spark's work; it is drawn when the test asks for it."""
    from deltanb.engines.spark.jobs import followed

    surface = Surface()
    with progress("MERGE", surface=surface, patience=3600) as outer, \
            followed(SimpleNamespace(sparkContext=context), "Spark"):
        yield outer


def seen(outer: Line) -> str:
    outer._learn()
    assert outer._inner is not None
    return outer._inner.description


def test_jobs_and_tasks_of_a_session_in_this_process_are_counted() -> None:
    pytest.importorskip("pyspark")
    context = Context()
    context.run((0, 7, 7))
    with watched(context) as outer:
        assert seen(outer) == "Spark", "the job before is not its own"
        context.run((4, 0, 8), (0, 0, 200))
        assert seen(outer) == "Spark: 0 of 208 tasks"
        context.run((0, 0, 8), (2, 31, 200))
        assert seen(outer) == "Spark: job 2, 31 of 200 tasks", "rows that are there are not made again"
        context.run((0, 0, 8), (0, 0, 200), (0, 0, 1))
        context.properties["spark.jobGroup.id"] = "another thread's"
        context.run((1, 0, 9))
        assert seen(outer) == "Spark: job 3, 0 of 209 tasks"
        context.properties["spark.jobGroup.id"] = context.jobs[1][0]
    assert context.properties == {"spark.jobGroup.id": None} and outer.ask is None


def test_the_job_group_of_the_caller_stays(ended_lines: list[str]) -> None:
    """Who has set one may want to cancel it by its name."""
    pytest.importorskip("pyspark")
    context = Context("nightly")
    context.run((0, 7, 7))
    with watched(context) as outer:
        context.run((1, 1, 3))
        assert context.jobs[-1][0] == "nightly"
        assert seen(outer) == "Spark: 1 of 3 tasks"
    assert context.properties == {"spark.jobGroup.id": "nightly"}


def test_spark_that_cannot_be_asked_leaves_the_time_alone() -> None:
    pytest.importorskip("pyspark")
    context = Context()
    with watched(context) as outer:
        context.getJobIdsForGroup = None  # type: ignore[assignment, method-assign]
        assert seen(outer) == "Spark"
    with watched(None) as outer:
        assert seen(outer) == "Spark"


def test_spark_is_not_asked_where_nobody_watches(ended_lines: list[str]) -> None:
    pytest.importorskip("pyspark")
    from deltanb.engines.spark.jobs import followed

    with followed(SimpleNamespace(), "Spark writes"):  # it has no context to ask
        pass
    assert ended_lines == ["Spark writes"]


class Events:
    """IPython's events, as far as they are registered."""

    def __init__(self) -> None:
        self.registered: list[tuple[str, Any]] = []

    def register(self, name: str, work: Any) -> None:
        self.registered.append((name, work))

    def unregister(self, name: str, work: Any) -> None:
        self.registered.remove((name, work))


class LocalSession:
    """A session in this process."""

    def __init__(self, context: Any) -> None:
        self.sparkContext = context


@pytest.fixture
def cells_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Cells that are drawn when the test asks for it."""
    pytest.importorskip("pyspark")
    from deltanb.engines.spark import cells

    monkeypatch.setattr(cells, "PATIENCE", 3600)
    return cells.Cells


def test_jobs_of_a_cells_own_code_are_counted_and_ours_in_it_have_a_line_of_their_own(cells_of: Any) -> None:
    context, surface, events = Context(), Surface(), Events()
    session = LocalSession(context)
    cells = cells_of(session, events, surface)
    cells.begin()
    look = cells.looking(context, str(context.properties["spark.jobGroup.id"]))
    look()
    assert surface.drawn == [""], "nothing is said of a cell that has Spark do nothing"
    context.run((2, 1, 8))
    look()
    assert surface.drawn[-1] == "Spark: 1 of 8 tasks"
    with watched(context) as outer:
        context.run((1, 0, 3))
        assert seen(outer) == "Spark: 0 of 3 tasks"
        look()
        assert surface.drawn[-1] == "", "one line at a time"
    context.run((1, 2, 9))
    look()
    assert surface.drawn[-1] == "Spark: job 2, 2 of 9 tasks"
    cells.end()
    assert context.properties == {"spark.jobGroup.id": None} and surface.drawn[-1] == ""


def test_a_cell_leaves_the_job_group_of_its_user_and_ends_with_its_session(cells_of: Any) -> None:
    context, events = Context("nightly"), Events()
    session = LocalSession(context)
    cells = cells_of(session, events, Surface())
    cells.begin()
    cells.end()
    assert context.properties == {"spark.jobGroup.id": "nightly"}
    context.setLocalProperty("spark.jobGroup.id", None)
    cells.begin()
    context.setLocalProperty("spark.jobGroup.id", "set in the cell")
    cells.end()
    assert context.properties == {"spark.jobGroup.id": "set in the cell"} and len(events.registered) == 2
    del session.sparkContext
    cells.begin()
    assert events.registered == []


def test_the_start_of_spark_has_a_line_from_its_first_import_on(
    ended_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from deltanb.engines.spark import session

    def no_java() -> None:
        assert ended_lines == [], "the line is there while Java is looked for"
        raise MissingDependency("no Java", extra="java")

    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(session, "_of_running_context", lambda: None)
    monkeypatch.setattr(session, "java_home", no_java)
    with pytest.raises(MissingDependency):
        session.spark()
    assert ended_lines == ["Starting Spark"]
    ended_lines.clear()

    def no_server(*_: object) -> None:
        assert ended_lines == []
        raise MissingDependency("no server", extra="spark")

    monkeypatch.setattr(session, "_remote_session", no_server)
    with pytest.raises(MissingDependency):
        session.spark("sc://somewhere")
    assert ended_lines == ["Connecting to Spark"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_local_session_counts_its_tasks(spark: Any) -> None:
    from deltanb.engines.spark.jobs import followed

    context = spark.sparkContext
    with progress("MERGE", surface=Surface(), patience=3600) as outer:
        with followed(spark, "Spark"):
            spark.range(0, 100, 1, 3).toArrow()
            context._jsc.sc().listenerBus().waitUntilEmpty()
            assert seen(outer) == "Spark: 3 of 3 tasks"
            spark.range(0, 100, 1, 4).toArrow()
            context._jsc.sc().listenerBus().waitUntilEmpty()
            assert seen(outer) == "Spark: job 2, 4 of 4 tasks"
        assert context.getLocalProperty("spark.jobGroup.id") is None


@pytest.mark.spark
@pytest.mark.slow
def test_spark_says_what_it_does(spark: Any, ended_lines: list[str], tmp_path: Any) -> None:
    table = dn.create(tmp_path / "t", pa.table({"id": [1, 2, 3]}))
    table.append(spark.range(3))
    assert "Spark writes" in ended_lines
    table.delete("id = 1", engine="spark")
    assert "Spark reads" in ended_lines
