"""A real Spark cluster for tests, on loopback: a standalone master, workers, and drivers told what to do.

What lives here: :class:`Cluster`, whose processes live in a session of their own under a keeper, and
:class:`Driver`, an application of the cluster in a process beside the test's.
What it does not know: tables; what drivers do is in ``cluster_jobs``.

The keeper and each driver read from a pipe that the test's process holds. When that process ends, whatever
ended it, the pipe closes, and everything here is killed. Executors end with the worker that has them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from tests.machine import SHORT_LIVED

ROOT = Path(__file__).resolve().parents[3]
CORES = 2  # a worker's, by its own word: two applications have an executor each on every worker
WORKER_MEMORY = "1400m"
EXECUTOR_MEMORY = "512m"
DAEMON_MEMORY = "128m"
_HOST = "127.0.0.1"


class Cluster:
    """A master and ``workers`` in processes of their own, with scratch folders below ``folder``.

    ``java`` are options of all their JVMs, and of executors and drivers.
    """

    def __init__(self, folder: Path, workers: int = 2, java: str = SHORT_LIVED) -> None:
        self.folder, self.java = folder, java
        self._keeper = _kept_alive(
            "tests.engines.spark.cluster", [str(folder), str(workers)], folder / "keeper.txt", java)
        answer = self._keeper.stdout.readline()
        if not answer:
            raise RuntimeError(f"no cluster: {(folder / 'keeper.txt').read_text()[-2000:]}")
        self.url = json.loads(answer)["url"]

    @property
    def group(self) -> int:
        """The process group in which all of the cluster runs."""
        return self._keeper.pid

    def driver(self, name: str, java: str | None = None) -> Driver:
        """A new application; its process starts now, its session at the first call. ``java`` are options of
        its JVM, those of the cluster by default."""
        return Driver(self, name, self.java if java is None else java)

    def executors(self, application: str) -> dict[str, int]:
        """Process ids of the executors an application has had, by what Spark calls them."""
        logs = self.folder.glob(f"worker*/{application}/*/stderr")
        names = ((log.parent.name, re.search(r"daemon with process name: (\d+)@", log.read_text()))
                 for log in logs)
        return {name: int(match[1]) for name, match in names if match}

    def close(self) -> None:
        """Kill all of it."""
        _end(self._keeper)


class Driver:
    """A driver process of the cluster: :meth:`begin` a function of ``cluster_jobs`` there, :meth:`end` it."""

    def __init__(self, cluster: Cluster, name: str, java: str) -> None:
        self.folder = cluster.folder / name
        self.folder.mkdir()
        self.errors = self.folder / "stderr.txt"
        self.process = _kept_alive("tests.engines.spark.driver", [cluster.url, str(self.folder)],
                                   self.errors, java)

    def __call__(self, job: str, *arguments: Any) -> Any:
        """What the function gives, as JSON has it."""
        self.begin(job, *arguments)
        return self.end()

    def begin(self, job: str, *arguments: Any) -> None:
        """Start the function and do not wait for it."""
        self.tell({"job": job, "arguments": arguments})

    def end(self) -> Any:
        """Wait for the function that was begun.

        Raises:
            EOFError: the driver has ended.
            RuntimeError: the function failed.
        """
        answer = self.heard()
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}\n{self.errors.read_text()[-2000:]}")
        return answer["result"]

    def tell(self, message: Any) -> None:
        """A line for the driver."""
        self.process.stdin.write(json.dumps(message, default=str) + "\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        """A line of the driver's."""
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the driver has ended: {self.errors.read_text()[-2000:]}")
        return json.loads(line)

    def close(self) -> None:
        """Kill it; its JVM ends with it."""
        _end(self.process)


def _kept_alive(module: str, arguments: list[str], errors: Path, java: str) -> subprocess.Popen[str]:
    """A process in a session of its own, which reads our pipe."""
    with errors.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=file, text=True, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": java,
                 **_environment(errors.parent)})


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _environment(folder: Path) -> dict[str, str]:
    from deltanb.engines.spark.session import java_home

    return {"SPARK_LOCAL_IP": _HOST, "SPARK_LOCAL_DIRS": str(folder), "JAVA_HOME": str(java_home()),
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def ends_with_its_parent() -> Iterator[Callable[[], str]]:
    """In a process that reads a pipe: the next line of it. The whole group is killed when the pipe closes."""
    lines, arrived = list[str](), threading.Semaphore(0)

    def read() -> None:
        for line in sys.stdin:
            lines.append(line)
            arrived.release()
        os.killpg(0, signal.SIGKILL)

    def following() -> str:
        arrived.acquire()
        return lines.pop(0)

    threading.Thread(target=read, daemon=True).start()
    yield following


# -- the keeper ----------------------------------------------------------------------------------


def keep(folder: Path, workers: int) -> None:
    """Start the daemons, say where the master is when all workers are with it, and wait to be ended."""
    with ends_with_its_parent() as following:
        here = ["--host", _HOST, "--port", "0", "--webui-port", "0"]
        heard = _daemon("master.Master", here, folder / "master.txt")
        url = heard(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            _daemon("worker.Worker", [
                url, *here, "--cores", str(CORES), "--memory", WORKER_MEMORY,
                "--work-dir", str(folder / f"worker{number}")], folder / f"worker{number}.txt")
        for _ in range(workers):
            heard(r"Registering worker (\S+)")
        print(json.dumps({"url": url}), flush=True)
        following()


def _daemon(name: str, arguments: list[str], log: Path) -> Callable[[str], str]:
    """Start one; what it is given is a pattern, and what it gives the group of the next line that has it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    process = subprocess.Popen(
        [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "SPARK_HOME": str(home)})
    assert process.stdout is not None
    return partial(_waited_for, _copied(process.stdout, log))


def _copied(lines: IO[str], log: Path) -> Iterator[str]:
    """The lines of a daemon, kept in a file; from a thread, for it stops where nobody reads it."""
    buffer, arrived = list[str](), threading.Semaphore(0)

    def copy() -> None:
        with log.open("w", buffering=1) as file:
            for line in lines:
                file.write(line)
                buffer.append(line)
                arrived.release()
        arrived.release()

    threading.Thread(target=copy, daemon=True).start()
    while arrived.acquire() and buffer:
        yield buffer.pop(0)


def _waited_for(lines: Iterator[str], pattern: str) -> str:
    for line in lines:
        if match := re.search(pattern, line):
            return match[1]
    raise RuntimeError(f"the daemon has ended and has not said {pattern!r}")


def scratch() -> Path:
    """A folder for a cluster."""
    return Path(tempfile.mkdtemp(prefix="deltanb-cluster-"))


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
