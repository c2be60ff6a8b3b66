"""The start of a JVM, and its end where the start is given up.

What lives here: what becomes of the Java processes of a start that Ctrl-C or an error ends. PySpark would
leave the JVM behind: it ends with this process, and in a notebook that is hours later.
What it does not know: sessions and their settings.

PySpark keeps the JVM's process to itself, so the Java that it runs, a wrapper of ours
(:func:`deltanb.spark.session.java_home`), says who it is: it leaves a file named by its process id in the
folder that :data:`VARIABLE` names, and does not begin where that folder is gone. Removing the folder
therefore ends the start at whatever step it is, and the files in it are the processes to end.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

VARIABLE = "DELTANB_JVM_START"
ENDS_WITHIN = 5.0
"""Seconds that a JVM gets to remove its scratch files after it was asked to end."""

ANNOUNCED = f"""\
if [ -n "${VARIABLE}" ]; then
  {{ true > "${VARIABLE}/$$"; }} 2> /dev/null || exit 130
  unset {VARIABLE}
fi
"""
"""The lines of the wrapper that say who it is; processes that the JVM starts are their own affair."""


@contextmanager
def given_up_whole() -> Iterator[dict[str, str]]:
    """A block that starts a JVM, with the environment variables it needs: if it fails, the JVM is gone.

    An error of the block goes on as it is, after the JVM has ended. A JVM that ran before is left alone.
    On Windows, where there is no wrapper, nothing is done.
    """
    folder = tempfile.mkdtemp(prefix="deltanb-start-")
    before, handler = _gateway(), signal.getsignal(signal.SIGINT)
    try:
        yield {VARIABLE: folder}
    except BaseException:
        if _end_all(folder) and _gateway() is not before:
            _forget(handler)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_all(folder: str) -> bool:
    """End the processes that are named in the folder, and those to come; whether there was one."""
    closed = f"{folder}-closed"
    os.rename(folder, closed)  # from here on none begins
    found = [int(name) for name in os.listdir(closed)]
    shutil.rmtree(closed, ignore_errors=True)
    ended = [_end(pid) for pid in found]
    return any(ended)


def _end(pid: int) -> bool:
    """End a child of this process; False if it is none, as the one that only works out a command line.

    That one is over in a moment. A number can be some other process's by then, a child's cannot.
    """
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return True
        os.kill(pid, signal.SIGTERM)
        patience = time.monotonic() + ENDS_WITHIN
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > patience:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        return True
    return False


def _gateway() -> Any:
    """PySpark's connection to its JVM, if there is one."""
    from pyspark import SparkContext

    return getattr(SparkContext, "_gateway", None)


def _forget(handler: object) -> None:
    """Let the next start begin anew: PySpark would talk to the JVM that is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):
        _gateway().close()
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, name, None)
    SparkSession._instantiatedSession = None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]  # PySpark's stops its jobs
