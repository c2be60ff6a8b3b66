"""The start of a JVM, and its end if the start fails.

What lives here: ending the Java processes of a start that Ctrl-C or an error ends. PySpark would leave the
JVM running until the end of this process, which in a notebook can be hours later. Also capturing Java's
console output during the start, such as the resolution of packages.
What it does not know: sessions and their settings.

PySpark does not expose the JVM's process, so the Java that it runs, a wrapper of ours
(:func:`deltanb.engines.spark.session.java_home`), identifies itself: it creates a file named by its process
id in the folder that :data:`VARIABLE` names, and does not start if that folder is gone. Removing the folder
therefore ends the start at any step, and the files in it name the processes to end.
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

START_SCRIPT = f"""\
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
    """A block that starts a JVM, with the environment variables it needs; if it fails, the JVM is ended.

    The block's error is raised unchanged after the JVM has ended. A JVM that ran before is left alone. Does
    nothing on Windows, where there is no wrapper.
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
    """End a JVM whose sessions are all stopped, so that the next start gets a new one.

    PySpark would reuse it, but packages are resolved only when a JVM starts.
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
    """Java's console output: recorded during the start, passed on to stderr afterwards."""

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
        """The recorded output; to be read after the start has failed and Java has ended."""
        self.end()
        self._thread.join(ENDS_WITHIN)
        return b"".join(self._outputs).decode("utf-8", "replace")

    def end(self) -> None:
        """The start is over: pass on further output to the console."""
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
    """A block that starts a JVM silently; None on Windows, where output is not captured."""
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
    """The coordinates of packages that Ivy could not resolve.

    >>> unresolved_packages("[unresolved dependency: org.example#probe;2.0: not found]")
    ['org.example:probe:2.0']
    """
    unresolved = re.findall(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+):", text)
    return sorted({":".join(one) for one in unresolved})


def _end_all(folder: str) -> bool:
    """End the processes named in the folder and keep others from starting; whether there was one."""
    closed = f"{folder}-closed"
    os.rename(folder, closed)  # from here on none begins
    processes = [int(name) for name in os.listdir(closed)]
    shutil.rmtree(closed, ignore_errors=True)
    ended = [_end(pid) for pid in processes]
    return any(ended)


def _end(pid: int) -> bool:
    """End a child of this process; False if it is not one, like the JVM that only computes a command line.

    That one ends at once, and its id may then belong to another process; the id of a child cannot.
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
    """Make PySpark forget the JVM that has ended, so that the next start is a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):
        _gateway().close()
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, name, None)
    SparkSession._instantiatedSession = None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]  # PySpark's stops its jobs
