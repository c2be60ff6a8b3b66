"""A driver of a cluster: a process that does what it is told, line by line, in a session of its own.

What lives here: the loop, and :class:`Session`, what a function of ``cluster_jobs`` or ``s3a_jobs`` is given.
What it does not know: what these functions do.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from tests.engines.spark.cluster import EXECUTOR_MEMORY, ends_with_its_parent


@dataclass
class Session:
    """The application of this driver, and the test that it talks to."""

    url: str
    folder: Path
    answers: IO[str]
    following: Callable[[], str]
    read: int = field(default=0)
    """Bytes of the event log that were looked at."""

    @cached_property
    def spark(self) -> Any:
        """The session; it begins now. All that its tasks do is written to an event log."""
        import deltanb

        events = self.folder / "events"
        events.mkdir()
        more = json.loads(os.environ.get("DELTANB_TEST_SESSION", "{}"))
        return deltanb.spark(**more.pop("arguments", {}), config={
            **more, "spark.master": self.url, "spark.cores.max": "2", "spark.executor.cores": "1",
            "spark.executor.memory": EXECUTOR_MEMORY, "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(), "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.python.authenticate.socketTimeout": "60s"})

    @property
    def name(self) -> str:
        """What the cluster calls the application."""
        return str(self.spark.sparkContext.applicationId)

    def tasks(self) -> list[dict[str, Any]]:
        """The tasks that have ended since this was asked last, as Spark's event log has them."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        [log] = (self.folder / "events").glob("app-*")
        text = log.read_bytes()
        lines, self.read = text[self.read:text.rfind(b"\n") + 1].splitlines(), text.rfind(b"\n") + 1
        events = map(json.loads, lines)
        return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]

    def settle(self) -> None:
        """Wait until no task is at work, of jobs that have failed neither: this one needs all processors."""
        context = self.spark.sparkContext
        count = context.defaultParallelism
        context.parallelize(range(count), count).barrier().mapPartitions(iter).collect()

    def tell(self, message: Any) -> None:
        """A line for the test."""
        self.answers.write(json.dumps(message) + "\n")
        self.answers.flush()

    def stop_here(self) -> None:
        """Wait until the test says to go on."""
        self.tell({"waits": True})
        self.following()


def main(url: str, folder: Path) -> None:
    """Do what the lines say, until they end."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is none of the answers
    with ends_with_its_parent() as following:
        session = Session(url, folder, answers, following)
        while True:
            request = json.loads(following())
            try:
                module, _, name = request["job"].rpartition(".")
                jobs = import_module(f"tests.engines.spark.{module or 'cluster_jobs'}")
                result = getattr(jobs, name)(session, *request["arguments"])
                session.tell({"result": result})
            except Exception:
                session.tell({"error": traceback.format_exc()})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
