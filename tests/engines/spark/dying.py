"""Streams that die: at a step that the environment names, the whole application is killed, Spark and all.

What lives here: :func:`dies`, which makes a process die at :data:`STEPS`, and :class:`Dying`, the data source
that takes this with it to the processes of Spark's in which files are written and committed.
What it does not know: tests, and what the stream writes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from deltanb.commands.read.stream import TableStreamSource
from deltanb.engines.spark import stream_sink
from deltanb.sources.spark import stream as source_stream
from deltanb.sources.spark import write as source_write
from deltanb.sources.spark.source import DeltaDataSource
from deltanb.store.local import LocalStore
from deltanb.transaction.transaction import OptimisticTransaction

STEPS = ("before it is planned", "before the files", "after the files", "before the commit",
         "before the put", "after the put", "after the commit")
"""Of a batch, in their order."""
STEP, DRIVER = "DELTANB_TEST_DIES", "DELTANB_TEST_DRIVER"


def dies() -> None:
    """Let this process end the application at the step that the environment names."""
    _around(TableStreamSource, "latest", STEPS[0], None)
    _around(OptimisticTransaction, "write_files", STEPS[1], STEPS[2])
    _around(source_write, "write_files", STEPS[1], STEPS[2])
    _around(source_stream.DeltaStreamWriter, "commit", STEPS[3], STEPS[6])
    _around(stream_sink.Sink, "_write", STEPS[3], STEPS[6])
    _around(LocalStore, "put_if_absent", STEPS[4], STEPS[5], _is_commit)


def _is_commit(store: Any, path: str, *more: Any) -> bool:
    return path.endswith(".json") and "checkpoint" not in path


def _around(
    owner: Any, name: str, before: str, after: str | None, when: Callable[..., bool] = lambda *args: True
) -> None:
    work = getattr(owner, name)

    def run(*args: Any, **more: Any) -> Any:
        _kill(before, when(*args))
        done = work(*args, **more)
        _kill(after, when(*args))
        return done

    setattr(owner, name, run)


def _kill(step: str | None, is_there: bool) -> None:
    """End this process and those above it up to the driver, which goes first."""
    if is_there and step is not None and step == os.environ.get(STEP):
        driver, ours = int(os.environ[DRIVER]), [os.getpid()]
        while ours[-1] != driver:
            with open(f"/proc/{ours[-1]}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            assert parent > 1, "the driver is above all of its processes"
            ours.append(parent)
        for each in reversed(ours):
            os.kill(each, signal.SIGKILL)


class Dying(DeltaDataSource):
    """``deltanb`` in a process that dies."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        made = super().streamWriter(schema, overwrite)
        made.__class__ = DyingWriter
        return made


class DyingWriter(source_stream.DeltaStreamWriter):
    """Of this module, so that the processes of tasks load it, too."""


if os.environ.get(STEP):
    dies()
