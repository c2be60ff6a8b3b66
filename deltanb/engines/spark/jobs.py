"""Progress of Spark's work: how long it takes, and how many of its tasks are done.

What lives here: :func:`followed`, around whatever this library lets Spark run.
What it does not know: what is run.

A Connect server reports stages and tasks to its clients. A session in this process is polled for the jobs of
a group: ours within the block, or the caller's group, by which the caller may cancel it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from deltanb.engines.spark.session_request import is_remote
from deltanb.text.progress import Line, progress
from deltanb.text.safe_text import get_logger

GROUP = "spark.jobGroup.id"
CELL = "deltanb-cell-"
"""What the group of a cell's jobs begins with; work of ours in the cell has a group and a line of its own."""
STRAGGLERS = 10.0
"""Seconds for which tasks are waited for that were told to stop."""
PAUSE = 0.05
_numbers = itertools.count(1)

logger = get_logger("deltanb.spark")


@contextmanager
def followed(session: Any, what: str = "Spark") -> Iterator[None]:
    """Show progress while Spark works for the block.

    Args:
        session: the session that runs it.
        what: the text of the progress line.
    """
    with progress(what) as line, _by_handler(session, line) if is_remote(session) else _asked(session, line):
        yield


def wait_for_stragglers(session: Any, seconds: float = STRAGGLERS) -> None:
    """Wait until no task runs, after a job has failed: Spark has told its other tasks to stop, and goes on
    without waiting for them. One that writes makes its folder again, where that was removed.

    Tasks of other jobs count, too, as Spark does not tell them apart; so the wait has an end.
    """
    if is_remote(session):
        return
    with suppress(Exception):  # the session may have ended with the job
        tracker = session.sparkContext._jsc.sc().statusTracker()
        end = time.monotonic() + seconds
        while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            if time.monotonic() > end:
                logger.info("Tasks still run %g s after a write failed; if one makes its folder again, "
                            "VACUUM removes it", seconds)
                return
            time.sleep(PAUSE)


# -- Spark Connect -------------------------------------------------------------------------------


@contextmanager
def _by_handler(session: Any, line: Line) -> Iterator[None]:
    handler = _handler(line)
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)


def _handler(line: Line) -> Any:
    """A ProgressHandler as PySpark calls it, in the thread that waits for the result."""

    def report(
        stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool, **_: Any
    ) -> None:
        known = list(stages or ())
        if known:
            line.at(sum(stage.num_completed_tasks for stage in known),
                    sum(stage.num_tasks for stage in known), "tasks")

    return report


# -- a session in this process -------------------------------------------------------------------


@contextmanager
def _asked(session: Any, line: Line) -> Iterator[None]:
    """Have the line poll Spark's status tracker before it is drawn; without a display, nothing is polled."""
    context: Any = None
    if line.is_watched:
        with suppress(Exception):  # a cluster may keep it from its users; they have the time alone
            context = session.sparkContext
    if context is None:
        yield
        return
    before = context.getLocalProperty(GROUP)
    is_named = before is not None and not before.startswith(CELL)
    group = before if is_named else f"deltanb-{next(_numbers)}"
    if not is_named:
        context.setLocalProperty(GROUP, group)
    try:
        line.ask = _question(context.statusTracker(), group, line)
        yield
    finally:
        line.ask = None
        if not is_named:
            context.setLocalProperty(GROUP, before)


def _question(tracker: Any, group: str, line: Line) -> Callable[[], None]:
    """A function by which the line polls the progress of a group's new jobs."""
    before = frozenset(tracker.getJobIdsForGroup(group))

    def ask() -> None:
        tasks = _running(tracker, _jobs(tracker, group, before))
        if tasks is not None:
            tell_tasks(line, tasks)

    return ask


def tell_tasks(line: Line, tasks: tuple[int, int, int]) -> None:
    """Set a line to the job's number, and how many of its tasks are done."""
    number, done, total = tasks
    line.at(done, total, "tasks", f"job {number}" if number > 1 else "")


def running_tasks(tracker: Any, group: str) -> tuple[int, int, int] | None:
    """The result of :func:`_running` while a job of the group runs, else None."""
    jobs = _jobs(tracker, group, ())
    is_running = any(info is not None and info.status == "RUNNING" for info in jobs.values())
    return _running(tracker, jobs) if is_running else None


def _jobs(tracker: Any, group: str, before: Collection[int]) -> dict[int, Any]:
    """The status of a group's jobs, in order, without those that Spark has forgotten."""
    return {job: tracker.getJobInfo(job)
            for job in sorted(tracker.getJobIdsForGroup(group)) if job not in before}


def _running(tracker: Any, jobs: Mapping[int, Any]) -> tuple[int, int, int] | None:
    """The number of the running job, how many of its tasks are done, and how many it has.

    Skipped stages, whose rows an earlier job has made, are left out: those without tasks before a stage with
    some. None if no job has been seen.
    """
    infos = {job: info for job, info in jobs.items() if info is not None}
    if not infos:
        return None
    newest = max((job for job, info in infos.items() if info.status == "RUNNING"), default=max(infos))
    known = [tracker.getStageInfo(stage) for stage in sorted(infos[newest].stageIds)]
    stages = [stage for stage in known if stage is not None]
    begun = [stage for stage in stages
             if stage.numActiveTasks or stage.numCompletedTasks or stage.numFailedTasks]
    last = max((stage.stageId for stage in begun), default=-1)
    counted = [stage for stage in stages if stage in begun or stage.stageId > last]
    return (list(jobs).index(newest) + 1, sum(stage.numCompletedTasks for stage in counted),
            sum(stage.numTasks for stage in counted))
