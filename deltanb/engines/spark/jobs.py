"""Progress of Spark's work: how long it takes, and how many of its tasks are done.

What lives here: :func:`followed`, around whatever this library lets Spark run.
What it does not know: what is run.

A Connect server tells its clients about stages and tasks by itself. A session in this process is asked for
the jobs of a group: ours for the time of the block, or that of the caller, who may want to cancel it by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from deltanb.engines.spark.session_request import is_remote
from deltanb.text.progress import Line, progress

GROUP = "spark.jobGroup.id"
CELL = "deltanb-cell-"
"""What the group of a cell's jobs begins with; work of ours in the cell has a group and a line of its own."""
_numbers = itertools.count(1)


@contextmanager
def followed(session: Any, what: str = "Spark") -> Iterator[None]:
    """Show progress while Spark works for the block.

    Args:
        session: that runs it.
        what: what is said of it.
    """
    with progress(what) as line, _by_handler(session, line) if is_remote(session) else _asked(session, line):
        yield


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
    """The line asks Spark's status tracker each time before it is drawn; nobody does where nobody watches."""
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
    """What the line is to do to learn how far the jobs of a group are that begin from now on."""
    before = frozenset(tracker.getJobIdsForGroup(group))

    def ask() -> None:
        tasks = _running(tracker, _jobs(tracker, group, before))
        if tasks is not None:
            tell_tasks(line, tasks)

    return ask


def tell_tasks(line: Line, tasks: tuple[int, int, int]) -> None:
    """Have a line say which job it is, and how many of its tasks are done."""
    number, done, total = tasks
    line.at(done, total, "tasks", f"job {number}" if number > 1 else "")


def running_tasks(tracker: Any, group: str) -> tuple[int, int, int] | None:
    """What :func:`_running` gives while a job of the group runs, else None."""
    jobs = _jobs(tracker, group, ())
    is_running = any(info is not None and info.status == "RUNNING" for info in jobs.values())
    return _running(tracker, jobs) if is_running else None


def _jobs(tracker: Any, group: str, before: Collection[int]) -> dict[int, Any]:
    """What is known of the jobs of a group, in their order; None of those that Spark has forgotten."""
    return {job: tracker.getJobInfo(job)
            for job in sorted(tracker.getJobIdsForGroup(group)) if job not in before}


def _running(tracker: Any, jobs: Mapping[int, Any]) -> tuple[int, int, int] | None:
    """The how-manieth of some jobs is running, how many of its tasks are done, and how many it has.

    Stages of a job whose rows are there from an earlier one are left out: those with no task begun before
    one that has. None where no job has been seen.
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
