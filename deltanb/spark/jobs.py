"""Progress of Spark's work: how long it takes, and how many of its tasks are done where Spark says so.

What lives here: :func:`followed`, around whatever this library lets Spark run.
What it does not know: what is run.

A Connect server tells its clients about stages and tasks. The public API of a session in this process has
nothing of the kind, so there the line has the time alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from deltanb.progress import Line, progress


@contextmanager
def followed(session: Any, what: str = "Spark") -> Iterator[None]:
    """Show progress while Spark works for the block.

    Args:
        session: that runs it.
        what: what is said of it.
    """
    with progress(what) as line:
        if not type(session).__module__.startswith("pyspark.sql.connect"):
            yield
            return
        handler = _handler(line)
        session.registerProgressHandler(handler)
        try:
            yield
        finally:
            session.removeProgressHandler(handler)


def _handler(line: Line) -> Any:
    """A ProgressHandler as PySpark calls it, in the thread that waits for the result."""

    def told(
        stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool, **_: Any
    ) -> None:
        known = list(stages or ())
        if known:
            line.at(sum(stage.num_completed_tasks for stage in known),
                    sum(stage.num_tasks for stage in known), "tasks")

    return told
