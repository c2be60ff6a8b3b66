"""What drivers of a cluster do in tests: functions of a session of theirs, with values that JSON has.

What lives here: the work; ``tests/engines/spark/test_cluster.py`` says what must have come of it. Functions
that travel to executors are made inside of others, so that they travel whole.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.store.local import LocalStore
from deltanb.transaction.drive import watching
from deltanb.transaction.steps import PutIfAbsent
from tests.engines.spark.driver import Session
from tests.patience import PATIENCE

HERE = "reflect('java.lang.ProcessHandle', 'current')"
"""SQL: the id of the process that evaluates it, as a text."""
NUMBERS = "id bigint, p bigint, by string"


def begin(session: Session) -> dict[str, Any]:
    """Begin the application: its name, and the processes that are not to do its work."""
    jvm = session.spark.sparkContext._gateway.proc.pid
    return {"application": session.name, "driver": [os.getpid(), jvm]}


def tasks(session: Session) -> dict[str, Any]:
    """What has been done since this was asked last: by whom, and how many bytes came back to the driver."""
    done = session.tasks()
    return {
        "executors": sorted({task["Task Info"]["Executor ID"] for task in done}),
        "failed": sum(task["Task Info"]["Failed"] for task in done),
        "attempts": max(task["Task Info"]["Attempt"] for task in done) if done else 0,
        "bytes": sum(task["Task Metrics"]["Result Size"] for task in done if "Task Metrics" in task)}


# -- commands ------------------------------------------------------------------------------------


def write(session: Session, path: str, rows: int, files: int, vectors: bool = True) -> None:
    """A table whose rows say which process wrote them."""
    frame = session.spark.range(0, rows, 1, files).selectExpr("id", "id % 3 p", f"{HERE} by")
    dn.create(path, frame, properties={"delta.enableDeletionVectors": str(vectors).lower()})


def merge(session: Session, path: str, first: int, after: int) -> dict[str, int]:
    """Rows of these ids get the process that changes them; ids that are new are inserted."""
    source = session.spark.range(first, after).selectExpr("id", "-1L p")
    merging = dn.open(path).merge(source, "t.id = s.id", target_alias="t", source_alias="s")
    result = merging.when_matched_update(set={"p": "s.p", "by": HERE}) \
        .when_not_matched_insert(values={"id": "s.id", "p": "s.p", "by": HERE}).execute(engine="spark")
    return dict(result.metrics)


def delete_elsewhere(session: Session, path: str, where: str) -> dict[str, int]:
    """Delete rows of a condition, those alone that are looked at in another process than the driver's."""
    [_, jvm] = begin(session)["driver"]
    return dict(dn.open(path).delete(f"{where} AND {HERE} <> '{jvm}'", engine="spark").metrics)


def optimize(session: Session, path: str, by: str | None = None) -> dict[str, int]:
    return dict(dn.open(path).optimize(zorder_by=by, engine="spark").metrics)


def read(session: Session, path: str, where: str) -> int:
    """How many rows Spark finds."""
    return int(dn.open(path).to_df(session.spark).where(where).count())


def append(session: Session, path: str, first: int, after: int) -> int:
    frame = session.spark.range(first, after).selectExpr("id", "id % 3 p", f"{HERE} by")
    return int(dn.open(path).append(frame).version)


def stream(session: Session, path: str, checkpoint: str, source: str) -> None:
    """The files of a folder, into the table."""
    session.spark.range(5000, 5100, 1, 2).write.parquet(source)
    frame = session.spark.readStream.schema("id long").parquet(source)
    frame = frame.selectExpr("id", "id % 3 p", f"{HERE} by")
    dn.open(path).write_stream(frame, checkpoint=checkpoint, trigger="availableNow").awaitTermination()


def merge_all(session: Session, path: str, rows: int) -> dict[str, int]:
    """Every row of the table matches and is changed. Spark itself sends no small side through the driver."""
    for kind in ("", "adaptive."):
        session.spark.conf.set(f"spark.sql.{kind}autoBroadcastJoinThreshold", "-1")
    session.tasks()
    return merge(session, path, 0, rows)


def merge_all_measured(session: Session, path: str, rows: int) -> dict[str, float]:
    """As :func:`merge_all`: seconds, and the most that this process had resident, in MB."""
    clock = time.perf_counter()
    Path("/proc/self/clear_refs").write_text("5")  # the most is what there is now
    assert merge_all(session, path, rows)["numTargetRowsUpdated"] == rows
    most = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    return {"seconds": time.perf_counter() - clock, "python": most}


# -- accidents -----------------------------------------------------------------------------------


def append_and_lose_an_executor(session: Session, path: str, marker: str, first: int, after: int) -> int:
    """The first task of the second half to come so far kills its executor in the midst of its file."""
    return int(dn.open(path).append(_through(session, _killing(path, marker, (first + after) // 2, 2),
                                             first, after)).version)


def append_bad_rows(session: Session, path: str, first: int, after: int) -> str:
    """Rows of which a constraint refuses the last: one task finds it while another writes."""
    dn.open(path).add_constraint("small", f"id < {after - 1}")
    try:
        append(session, path, first, after)
    except DeltaError as error:
        session.settle()
        return type(error).__name__
    return "none"


def append_and_die_writing(session: Session, path: str, marker: str, first: int, after: int) -> None:
    """A task kills the driver in the midst of its file."""
    work = _killing(path, marker, (first + after) // 2, pid=os.getpid())
    dn.open(path).append(_through(session, work, first, after))


def append_and_die(session: Session, path: str, moment: str, first: int, after: int) -> None:
    """The driver kills itself ``before`` the commit is put into the log, or ``after``."""
    put = LocalStore.put_if_absent

    def killed(store: LocalStore, name: str, data: bytes, **settings: Any) -> bool:
        if moment == "after":
            put(store, name, data, **settings)
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    LocalStore.put_if_absent = killed  # type: ignore[method-assign]
    append(session, path, first, after)


def merge_and_lose_an_executor(
    session: Session, path: str, marker: str, first: int, after: int
) -> dict[str, int]:
    """A task that writes a merge's rows kills its executor, and with it what that holds of the source."""
    def die_on(number: int) -> int:
        kill(marker, None, 2)
        return number

    kill = _kill
    session.spark.udf.register("die_on", die_on, "bigint")
    source = session.spark.range(first, after, 1, 2).selectExpr("id", "-1L p")
    result = dn.open(path).merge(source, "t.id = s.id", target_alias="t", source_alias="s") \
        .when_matched_update(set={"p": "die_on(s.p)"}).execute(engine="spark")
    return dict(result.metrics)


def _through(session: Session, work: Callable[..., Any], first: int, after: int) -> Any:
    session.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    frame = session.spark.range(first, after, 1, 2).selectExpr("id", "id % 3 p", f"{HERE} by")
    return frame.mapInArrow(work, NUMBERS)


def _killing(path: str, marker: str, second: int, up: int = 0, pid: int | None = None) -> Callable[..., Any]:
    """For tasks: pass batches on, and once, when a file has been begun, kill a process."""
    kill = _kill

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        import glob
        import time

        for number, batch in enumerate(batches):
            if number == 5 and batch.column(0)[0].as_py() >= second:
                patience = time.monotonic() + PATIENCE
                while not glob.glob(f"{path}/_deltanb_write_*/**/part-0000*", recursive=True):
                    assert time.monotonic() < patience, "no file was begun"
                kill(marker, pid, up)
            yield batch

    return passed


def _kill(marker: str, pid: int | None, up: int) -> None:
    """Kill a process, or the one that many steps above this one; once."""
    import os
    import signal

    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    victim = os.getpid() if pid is None else pid
    for _ in range(up):
        with open(f"/proc/{victim}/stat") as file:
            victim = int(file.read().rpartition(")")[2].split()[1])
    os.kill(victim, signal.SIGKILL)


# -- races ---------------------------------------------------------------------------------------


def stopping_at_its_put(session: Session, work: str, *arguments: Any) -> Any:
    """Do a work of this module that waits for the test before its commit is put; its result, or the error."""
    stops = iter([session.stop_here])

    def watch(_: Any, step: Any) -> None:
        if isinstance(step, PutIfAbsent):
            next(stops, lambda: None)()

    def run() -> Any:
        watching.set(watch)
        try:
            return globals()[work](session, *arguments)
        except DeltaError as error:
            return type(error).__name__

    return copy_context().run(run)


def add_one(session: Session, path: str, times: int) -> int:
    """Count up, again where another was first; how often it was."""
    lost = 0
    for _ in range(times):
        while True:
            try:
                dn.open(path).update({"p": "p + 1"}, f"id = 0 AND {HERE} <> '0'", engine="spark")
                break
            except dn.errors.DeltaConcurrentModificationException:
                lost += 1
    return lost
