"""A real cluster: executors in other processes do the work; executors and drivers die; applications race.

All tests share a master, two workers and two drivers. Others are begun where a test ends them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.actions import decode_path
from tests.engines.spark.cluster import ROOT, Cluster, Driver, scratch
from tests.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.slow,
              pytest.mark.classic("drivers of a cluster are processes with sessions of their own"),
              pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")]

ROWS, FILES = 3000, 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = scratch()
    started = Cluster(folder)
    yield started
    started.close()
    shutil.rmtree(folder)


@dataclass
class Application:
    """A driver with its name in the cluster and the processes that are not to do its work."""

    driver: Driver
    cluster: Cluster
    name: str = ""
    own: tuple[int, ...] = ()

    def __call__(self, job: str, *arguments: Any) -> Any:
        return self.driver(job, *arguments)

    def joined(self) -> Application:
        """Wait until its session is there."""
        begun = self.driver.end()
        self.name, self.own = begun["application"], tuple(begun["driver"])
        return self

    def executors(self) -> set[int]:
        """The processes of the tasks since this was asked last, none of them the driver's."""
        names = self("tasks")["executors"]
        assert names and "driver" not in names
        known = self.cluster.executors(self.name)
        processes = {known[name] for name in names}
        assert not processes & {*self.own, os.getpid()}
        return processes


def application(cluster: Cluster, name: str) -> Application:
    """A new one, which begins in the background; see :meth:`Application.joined`."""
    driver = cluster.driver(name)
    driver.begin("begin")
    return Application(driver, cluster)


@pytest.fixture(scope="module")
def both(cluster: Cluster) -> Iterator[tuple[Application, Application]]:
    """Two applications, each with an executor on every worker."""
    applications = application(cluster, "first"), application(cluster, "second")
    yield applications[0].joined(), applications[1].joined()
    for one in applications:
        one.driver.close()


@pytest.fixture(scope="module")
def first(both: tuple[Application, Application]) -> Application:
    return both[0]


@pytest.fixture(scope="module")
def second(both: tuple[Application, Application]) -> Application:
    return both[1]


@pytest.fixture
def table(first: Application, tmp_path: Path) -> Path:
    """A table of ten rows in one file, made by Spark; a new count of tasks."""
    first("write", tmp_path / "t", 10, 1)
    first("tasks")
    return tmp_path / "t"


def rows(path: Path | str) -> list[dict[str, Any]]:
    return dn.open(str(path)).to_arrow().sort_by("id").to_pylist()


def files_of(path: Path | str) -> tuple[set[str], set[str]]:
    """What lies in a table's folder beside its log, folders too, and what its newest version names."""
    root = Path(path)
    on_disk = {str(file.relative_to(root)) for file in root.rglob("*") if "_delta_log" not in file.parts}
    named = set(map(decode_path, dn.open(str(path)).log.snapshot.files["path"].to_pylist()))
    return on_disk, named


# -- who works -----------------------------------------------------------------------------------


def test_executors_do_the_work_of_all_commands(first: Application, tmp_path: Path) -> None:
    path = tmp_path / "t"
    first("write", path, ROWS, FILES)
    writers = first.executors()
    stored = rows(path)
    assert [row["id"] for row in stored] == list(range(ROWS))
    assert {int(row["by"]) for row in stored} == writers and len(writers) == 2
    assert all(os.getpgid(process) == first.cluster.group for process in writers)

    changed = first("merge", path, ROWS - 10, ROWS + 10)
    assert (changed["numTargetRowsUpdated"], changed["numTargetRowsInserted"]) == (10, 10)
    assert {int(row["by"]) for row in rows(path) if row["p"] == -1} <= first.executors()

    assert first("delete_elsewhere", path, "id % 10 = 3")["numDeletedRows"] == ROWS // 10 + 1
    assert first.executors()
    assert dn.open(str(path)).log.snapshot.files["deletion_vector"].null_count < FILES
    assert first("read", path, "id % 10 = 3") == 0
    assert first("read", path, "id % 10 = 4") == ROWS // 10 + 1
    assert first.executors()

    before = rows(path)
    assert first("optimize", path)["numAddedFiles"] == 1
    assert first.executors()
    assert rows(path) == before
    first("append", path, ROWS + 10, ROWS + 1010)
    first("optimize", path, "id")
    assert first.executors()
    assert len(rows(path)) == len(before) + 1000


def test_batches_of_a_stream_are_written_by_executors(
    first: Application, table: Path, tmp_path: Path
) -> None:
    first("stream", table, tmp_path / "checkpoint", tmp_path / "source")
    streamed = rows(table)[10:]
    assert [row["id"] for row in streamed] == list(range(5000, 5100))
    assert {int(row["by"]) for row in streamed} <= first.executors()


def test_a_merge_brings_no_rows_to_the_driver(first: Application, tmp_path: Path) -> None:
    """Ten times as many rows, all of them changed: a bit of each comes back, and no more."""
    came = []
    for count in (20_000, 200_000):
        path = tmp_path / str(count)
        first("write", path, count, 2)
        assert first("merge_all", path, count)["numTargetRowsUpdated"] == count
        came.append(first("tasks")["bytes"])
    assert came[1] - came[0] < 200_000 / 8 * 3, came


# -- executors and drivers that die --------------------------------------------------------------


@pytest.mark.thorough
def test_an_executor_killed_while_it_writes_doubles_nothing(
    first: Application, table: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"
    first("append_and_lose_an_executor", table, marker, 10, 4010)
    assert marker.exists()
    assert first("tasks")["attempts"] == 1, "a task was run again"
    assert [row["id"] for row in rows(table)] == list(range(4010))
    on_disk, named = files_of(table)
    assert on_disk == named


def test_an_executor_killed_in_a_merge_takes_no_rows_of_the_source_with_it(
    first: Application, tmp_path: Path
) -> None:
    path, marker = tmp_path / "t", tmp_path / "killed"
    first("write", path, 1000, 2, False)
    changed = first("merge_and_lose_an_executor", path, marker, 0, 500)
    assert marker.exists()
    assert changed["numTargetRowsUpdated"] == 500
    stored = rows(path)
    assert [row["id"] for row in stored] == list(range(1000))
    assert [row["id"] for row in stored if row["p"] == -1] == list(range(500))
    on_disk, named = files_of(path)
    assert named < on_disk and len(on_disk) == len(named) + 1, "the one that was merged, for older versions"


def test_tasks_that_fail_leave_no_file(first: Application, table: Path) -> None:
    assert "ConstraintViolation" in first("append_bad_rows", table, 10, 4010)
    on_disk, named = files_of(table)
    assert on_disk == named and dn.open(str(table)).version == 1


# -- two applications ----------------------------------------------------------------------------


def test_of_two_applications_that_change_the_same_rows_one_wins(
    first: Application, second: Application, table: Path
) -> None:
    first.driver.begin("stopping_at_its_put", "delete_elsewhere", table, "id < 5")
    assert first.driver.heard() == {"waits": True}
    assert second("delete_elsewhere", table, "id < 3")["numDeletedRows"] == 3
    first.driver.tell("go on")
    assert first.driver.end() == "ConcurrentAppendException"
    assert [row["id"] for row in rows(table)] == list(range(3, 10))


@pytest.mark.thorough
def test_appends_of_two_applications_both_land(first: Application, second: Application, table: Path) -> None:
    first.driver.begin("stopping_at_its_put", "append", table, 10, 20)
    assert first.driver.heard() == {"waits": True}
    assert second("append", table, 20, 30) == 1
    first.driver.tell("go on")
    assert first.driver.end() == 2
    assert [row["id"] for row in rows(table)] == list(range(30))


def test_two_applications_count_to_the_same_sum(first: Application, second: Application, table: Path) -> None:
    for one in (first, second):
        one.driver.begin("add_one", table, 3)
    lost = [one.driver.end() for one in (first, second)]
    assert rows(table)[0]["p"] == 6, lost
    assert dn.open(str(table)).version == 6


# -- drivers that die; these are the last of both applications ------------------------------------


def test_a_driver_killed_before_its_put_has_committed_nothing(
    second: Application, first: Application, table: Path
) -> None:
    with pytest.raises(EOFError):
        second("append_and_die", table, "before", 10, 20)
    assert dn.open(str(table)).version == 0
    assert [row["id"] for row in rows(table)] == list(range(10))
    on_disk, named = files_of(table)
    assert len(on_disk - named) == 2, "files that no version names, for VACUUM"
    assert first("append", table, 30, 40) == 1
    assert [row["id"] for row in rows(table)] == [*range(10), *range(30, 40)]


@pytest.mark.thorough
def test_a_driver_killed_while_it_writes_has_committed_nothing(
    cluster: Cluster, first: Application, table: Path, tmp_path: Path
) -> None:
    doomed = application(cluster, "doomed").joined()
    with pytest.raises(EOFError):
        doomed("append_and_die_writing", table, tmp_path / "killed", 10, 4010)
    doomed.driver.close()
    assert [row["id"] for row in rows(table)] == list(range(10))
    on_disk, named = files_of(table)
    assert on_disk > named
    assert {name.partition("/")[0][:15] for name in on_disk - named} == {"_deltanb_write_"}
    first("append", table, 30, 40)
    assert len(rows(table)) == 20


@pytest.mark.thorough
def test_a_driver_killed_after_its_put_has_committed(first: Application, table: Path) -> None:
    """The last one of the first application."""
    with pytest.raises(EOFError):
        first("append_and_die", table, "after", 10, 20)
    assert [row["id"] for row in rows(table)] == list(range(20))
    on_disk, named = files_of(table)
    assert on_disk == named
    dn.open(table).append({"id": [20], "p": [0], "by": [""]})
    assert len(rows(table)) == 21


def test_the_cluster_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert begun.stdout is not None
    group = int(begun.stdout.readline())
    os.killpg(group, 0)  # there are processes
    begun.kill()
    begun.communicate()
    with pytest.raises(ProcessLookupError):
        patience = time.monotonic() + PATIENCE
        while time.monotonic() < patience:
            os.killpg(group, 0)


BEGIN = """
import sys, time
from pathlib import Path
from tests.engines.spark.cluster import Cluster
print(Cluster(Path(sys.argv[1]), workers=0).group, flush=True)
time.sleep(600)
"""
