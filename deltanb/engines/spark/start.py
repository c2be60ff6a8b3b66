"""The start of a JVM, and its end where the start is given up.

What lives here: what becomes of the Java processes of a start that Ctrl-C or an error ends. PySpark would
leave the JVM behind: it ends with this process, and in a notebook that is hours later.
Also what Java says on the console meanwhile, where somebody wants it quiet: the resolution of packages.
What it does not know: sessions and their settings.

PySpark keeps the JVM's process to itself, so the Java that it runs, a wrapper of ours
(:func:`deltanb.engines.spark.session.java_home`), says who it is: it leaves a file named by its process id in
the folder that :data:`VARIABLE` names, and does not begin where that folder is gone. Removing the folder
therefore ends the start at whatever step it is, and the files in it are the processes to end.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

VARIABLE = "DELTANB_JVM_START"
STDERR = "DELTANB_JVM_STDERR"
ENDS_WITHIN = 5.0
"""Seconds that a JVM gets to remove its scratch files after it was asked to end."""

ANNOUNCED = f"""\
if [ -n "${VARIABLE}" ]; then
  {{ true > "${VARIABLE}/$$"; }} 2> /dev/null || exit 130
  unset {VARIABLE}
fi
if [ -n "${STDERR}" ]; then
  case " $* " in
    *" org.apache.spark.launcher.Main "*) exec 2> "${STDERR}" ;;  # what it prints is read
    *) exec > "${STDERR}" 2>&1 ;;
  esac
  unset {STDERR}
fi
"""
"""The lines of the wrapper that say who it is; processes that the JVM starts are their own affair."""


@contextmanager
def kill_jvm_on_failure() -> Iterator[dict[str, str]]:
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


def renew() -> None:
    """Let the next start have a JVM of its own: one whose sessions are all stopped is ended.

    PySpark would go on with it, and packages are found when a JVM starts, and then only.
    """
    gateway, handler = _gateway(), signal.getsignal(signal.SIGINT)
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    _forget(handler)
    if process is not None:
        process.stdin.close()  # what it waits for
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class JavaOutput:
    """What Java says on the console: kept while it starts, and passed on (as errors are) from then on."""

    def __init__(self, pipe: str) -> None:
        self.variables = {STDERR: pipe}
        self._outputs: list[bytes] = []
        self._is_over = False
        self._lock = threading.Lock()
        self._source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        # Held open until the start is over: Java is run twice, and the pipe would end with the first.
        self._held: int | None = os.open(pipe, os.O_WRONLY)
        os.set_blocking(self._source, True)
        self._thread = threading.Thread(target=self._listen, name="deltanb java", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """What was said; asked after the start has failed, and Java is gone."""
        self.end()
        self._thread.join(ENDS_WITHIN)
        return b"".join(self._outputs).decode("utf-8", "replace")

    def end(self) -> None:
        """The start is over: what comes from here on is for the console."""
        with self._lock:
            self._is_over = True
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def _listen(self) -> None:
        with open(self._source, "rb", buffering=0) as source:
            while output := source.read(1 << 16):
                with self._lock:
                    is_over = self._is_over
                if not is_over:
                    self._outputs.append(output)
                else:
                    with suppress(OSError):  # a console that is closed
                        os.write(2, output)


@contextmanager
def capture_java_output() -> Iterator[JavaOutput | None]:
    """A block that starts a JVM in silence; None on Windows, where nothing is kept from the console."""
    if os.name == "nt":
        yield None
        return
    folder = tempfile.mkdtemp(prefix="deltanb-start-")
    pipe = os.path.join(folder, "stderr")
    os.mkfifo(pipe, 0o600)
    heard = JavaOutput(pipe)
    try:
        yield heard
    finally:
        heard.end()
        shutil.rmtree(folder, ignore_errors=True)


def unresolved_packages(text: str) -> list[str]:
    """The packages that Ivy has not found, as coordinates.

    >>> unresolved_packages("[unresolved dependency: org.example#probe;2.0: not found]")
    ['org.example:probe:2.0']
    """
    unresolved = re.findall(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+):", text)
    return sorted({":".join(one) for one in unresolved})


def _end_all(folder: str) -> bool:
    """End the processes that are named in the folder, and those to come; whether there was one."""
    closed = f"{folder}-closed"
    os.rename(folder, closed)  # from here on none begins
    processes = [int(name) for name in os.listdir(closed)]
    shutil.rmtree(closed, ignore_errors=True)
    ended = [_end(pid) for pid in processes]
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
