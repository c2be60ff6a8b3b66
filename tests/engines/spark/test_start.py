"""A start that is given up: whatever it has come to, no JVM is left, and the next start begins anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from deltanb.engines.spark import session as sessions
from deltanb.engines.spark import start
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def children(pid: int) -> dict[int, str]:
    """The command lines of all processes below one, by process id; ended ones have none."""
    parents, commands = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it has ended
                continue
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    pids = {pid}
    while more := {child for child, parent in parents.items() if parent in pids} - pids:
        pids |= more
    return {child: commands[child] for child in pids - {pid} if commands[child]}


def wait_for(message: str, condition) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < PATIENCE, message
        time.sleep(0.01)


INTERRUPTED = """
import sys
import deltanb as dn
print("begins", flush=True)
try:
    dn.spark()
except KeyboardInterrupt as error:
    kept = error  # as a notebook does, and with it everything that the start held
    print("interrupted", flush=True)
if sys.stdin.readline() == "again\\n":
    print(dn.spark().range(3).count(), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic("a session of this machine is started, in a process of its own")
def test_ctrl_c_during_the_start_leaves_no_jvm_behind(tmp_path: Path) -> None:
    """At the one stage that lasts until it is seen; that no later one begins is tested without Java."""
    seen = "deploy.SparkSubmit"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], env=environment, cwd=tmp_path,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "begins\n"
        wait_for(f"no {seen}", lambda: any(seen in line for line in children(process.pid).values()))
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        # The shell around the start, and the Java that works out its command line, end by themselves.
        wait_for("a JVM is left", lambda: not children(process.pid))
        assert process.poll() is None, "the process itself goes on"
        assert not list(tmp_path.glob("deltanb-start-*"))
        process.stdin.write("again\n")
        process.stdin.flush()
        assert process.stdout.readline() == "3\n"
    finally:
        process.communicate("\n")


LATE = """
import signal, sys
import deltanb as dn
from pyspark import SparkContext
whole = SparkContext._do_init
def interrupted(*args):
    SparkContext._do_init = whole
    raise KeyboardInterrupt
SparkContext._do_init = interrupted
before = signal.getsignal(signal.SIGINT)
try:
    dn.spark()
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is before, flush=True)
sys.stdin.readline()
print(dn.spark().range(3).count(), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic("a session of this machine is started, in a process of its own")
def test_ctrl_c_when_the_jvm_is_up_ends_it_too(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", LATE], env=environment, cwd=tmp_path,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "interrupted True\n"
        assert children(process.pid) == {}
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "3\n"
        assert any("deploy.SparkSubmit" in line for line in children(process.pid).values())
    finally:
        process.communicate("\n")


UNFIT = """
import os
import deltanb as dn
try:
    dn.spark(master="local-cluster[2,1,600]")
except dn.errors.IllegalStateError as error:
    print(error, flush=True)
spark = dn.spark(master="local-cluster[1,1,512]", config={"spark.executor.memory": "512m"})
print(spark.range(3).count(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic("a session of this machine is started, in a process of its own")
def test_what_spark_says_of_a_master_is_told_and_a_cluster_beside_it_leaves_nothing(tmp_path: Path) -> None:
    import pyspark

    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    environment.pop("SPARK_HOME", None)
    home = Path(pyspark.__file__).parent
    before = set(home.iterdir())
    run = subprocess.run([sys.executable, "-c", UNFIT], env=environment, cwd=tmp_path, text=True,
                         capture_output=True, check=True)
    assert run.stdout.splitlines() == [
        "Spark does not start on local-cluster[2,1,600]: Asked to launch cluster with 600 MiB/worker but "
        "requested 1024 MiB/executor; check master=, config= and Spark's environment variables",
        "3"]
    assert (run.stderr, list((tmp_path / "tmp").glob("deltanb-*"))) == ("", [])
    assert set(home.iterdir()) == before


# --- without Java ---------------------------------------------------------------------------------

def wrapper_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Our wrapper around a Java that is a shell script."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.3"\n')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return sessions.java_home() / "bin" / "java"


def test_a_start_that_fails_ends_its_java_even_one_that_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "ENDS_WITHIN", 0.0)
    wrapper = wrapper_of(tmp_path, monkeypatch, "trap '' TERM; echo up; while :; do read -r _; done")
    started: list[subprocess.Popen[bytes]] = []
    with pytest.raises(ZeroDivisionError), start.kill_jvm_on_failure() as variables:
        started.append(subprocess.Popen([wrapper], env={**os.environ, **variables},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        assert started[0].stdout is not None and started[0].stdout.readline() == b"up\n"
        _ = 1 / 0
    assert not Path(f"/proc/{started[0].pid}").exists()
    with started[0]:
        pass


def test_no_java_begins_after_a_start_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = wrapper_of(tmp_path, monkeypatch, f"echo began ${start.VARIABLE}")
    with start.kill_jvm_on_failure() as variables:
        environment = {**os.environ, **variables}
        run = subprocess.run([wrapper], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "began\n", "what the JVM starts is not part of the start"
    late = subprocess.run([wrapper], env=environment, capture_output=True, text=True, check=False)
    assert (late.returncode, late.stdout, late.stderr) == (130, "", "")
    assert subprocess.run([wrapper], capture_output=True, text=True, check=True).stdout == "began\n"
