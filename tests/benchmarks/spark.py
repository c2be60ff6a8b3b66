"""Tables as DataFrames beside Delta Spark's and plain Parquet: planning, scans, writes, merges, streams.

    python -m tests.benchmarks spark [--quick] [--rounds N] [--only TEXT]

All ways run by turns in the same session, with the same settings, for which Delta Spark's jars and extension
are in it; the first turns warm the JVM up, which takes seconds, and do not count. Planning goes from the
table's path to what Spark would run: log, files, physical plan, tasks; "after a commit" of one file by
somebody else, "cold" with nothing known of the table. Processor time is that of Python and of the JVM, and it
decides: the clock says more about what else the machine does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.figures import Figure, absent, attempt, times
from tests.benchmarks.spark_tables import SQL_TYPES, add_one, make, make_many

SUITE = "spark"
GOAL = 1.0  # times Delta Spark's speed
GOAL_OF_MERGE = 1.2
MOST = 1.15  # of the time of plain Parquet
MOST_BY_SOURCE = 1.5  # times ours, of a selective scan by format("deltanb")
STATES = ("", "after a commit", "cold")
"""What is known of a table when a query is planned: it, the version before, nothing."""
NAMES = ("deltanb", "Delta Spark", "plain Parquet", "data source")

Way = Callable[[], Any]
Ways = dict[str, Way]


class Size(NamedTuple):
    """How much is measured."""

    planned: int = 10_000
    planned_partitioned: tuple[int, ...] = (10_000, 50_000)
    planned_selected: tuple[tuple[int, int], ...] = ((20_000, 30), (400_000, 4))
    """Files, and columns with statistics, of tables of which a filter leaves one file."""
    files: int = 200
    rows: int = 10_000_000
    deleted: tuple[int, int] = (200, 2_000_000)
    """Files and rows of the table that has deleted rows."""
    batches: int = 25
    merged: tuple[int, int, int] = (16, 5_000_000, 100_000)
    """Files and rows of a table, and rows that are merged into it, half of them new."""


QUICK = Size(200, (200,), ((200, 30),), 40, 40_000, (40, 40_000), 3, (4, 40_000, 1_000))


class Work(NamedTuple):
    """What is measured: its ways, made in a folder, and what is wanted of ours."""

    ways: Callable[[Any, Path], Ways]
    goal: float | None = GOAL
    """Against Delta Spark."""
    most: float | None = None
    """Against plain Parquet."""
    by_source: float | None = None
    """Of the data source, against ours."""
    warm_up: int = 2
    """Turns that do not count; the JVM goes on compiling for longer, for all alike."""


# -- the session --------------------------------------------------------------------------------


def begun() -> Any:
    """A session with Delta Spark in it, and otherwise as ``deltanb.spark()`` begins one.

    Raises:
        Unavailable: Delta Spark's jars are not to be had.
    """
    import deltanb
    from tests.peers.delta_spark import jars

    return deltanb.spark(config={
        "spark.jars": ",".join(jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # of the log; 50, its own value, is for clusters
    })


def ours(session: Any, path: Path) -> Any:
    import deltanb as dn

    return dn.open(path).to_df(session)


def theirs(session: Any, path: Path) -> Any:
    return session.read.format("delta").load(str(path))


def plain(session: Any, path: Path) -> Any:
    """The files alone, which Spark finds itself; no table is as simple."""
    return session.read.schema(SQL_TYPES).parquet(str(path))


def data_source(session: Any, path: Path) -> Any:
    """By the data source, whose rows come from Python processes."""
    return session.read.format("deltanb").load(str(path))


READERS = dict(zip(NAMES, (ours, theirs, plain, data_source), strict=True))


def forget(session: Any) -> None:
    """What the two libraries know of tables."""
    from deltanb.engines.spark import file_lists
    from deltanb.transaction.delta_log import DeltaLog

    DeltaLog.clear_cache()
    file_lists.clear()
    session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


class Processor:
    """What this process, its JVM and the JVM's Python workers have worked, where the system tells."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._gateway.proc.pid
        self._known: dict[tuple[int, str], int] = {}

    def seconds(self) -> float:
        """All in all. A process that has ended counts with what it had when it was last looked at: whether
        and when its parent counts it depends on how it ended."""
        processes: dict[int, tuple[int, tuple[int, str], int]] = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            pid = int(entry.parent.name)
            processes[pid] = int(fields[1]), (pid, fields[19]), int(fields[11]) + int(fields[12])
        tree = {self._jvm}
        while more := {pid for pid, (parent, *_) in processes.items() if parent in tree} - tree:
            tree |= more
        self._known.update((key, ticks) for pid, (_, key, ticks) in processes.items() if pid in tree)
        return time.process_time() + sum(self._known.values()) / os.sysconf("SC_CLK_TCK")


def compared(session: Any, title: str, work: Work, folder: Path, rounds: int) -> Iterator[Figure]:
    """Each way by turns, each time in another order; the best of those that count, against ours."""
    best: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    ways, processor = work.ways(session, folder), Processor(session)
    for turn in range(-work.warm_up, rounds):
        for name in sorted(ways, reverse=bool(turn % 2)):
            started, worked = time.perf_counter(), processor.seconds()
            results[name] = ways[name]()
            measures = {"ms": (time.perf_counter() - started) * 1000,
                     "cpu": (processor.seconds() - worked) * 1000}
            if turn >= 0:
                known = best.get(name, measures)
                best[name] = {key: min(known[key], value) for key, value in measures.items()}
    own = {**best["deltanb"], "result": results["deltanb"]}
    for name, other in best.items():
        if name != "deltanb":
            yield _figure(title, name, {**other, "result": results[name]}, own, work)


def _figure(title: str, name: str, other: dict[str, Any], own: dict[str, Any], work: Work) -> Figure:
    if name == "plain Parquet" and work.most is not None:
        figure = times(SUITE, title, name, own, other, work.most, by="cpu")
        return replace(figure, at_most=True)
    if name == "data source" and work.by_source is not None:
        return replace(times(SUITE, title, name, other, own, work.by_source, by="cpu"), at_most=True)
    return times(SUITE, title, name, other, own, work.goal if name == "Delta Spark" else None, by="cpu")


# -- what is measured ---------------------------------------------------------------------------


def plans(session: Any, path: Path, where: str, state: str = "") -> Ways:
    """From a path to the number of tasks that Spark would run; see :data:`STATES`."""
    def planned(reader: Callable[[Any, Path], Any]) -> Way:
        def way() -> int:
            if state == "cold":
                forget(session)
            elif state:
                add_one(path)
            frame = reader(session, path)
            frame = frame.filter(where) if where else frame
            return frame._jdf.queryExecution().toRdd().getNumPartitions()

        return way

    return {name: planned(READERS[name]) for name in NAMES[:2 if where or state else 3]}


def scans(session: Any, path: Path, query: str, names: tuple[str, ...] = NAMES, asked: bool = False) -> Ways:
    """The rows of a filter on the frame; with ``asked`` we are told the condition when the frame is made."""
    sums = ("sum(id)", "sum(value)", "sum(length(name))", "max(part)", "count(*)")

    def scanned(reader: Callable[[Any, Path], Any]) -> Way:
        return lambda: reader(session, path).filter(query).selectExpr(*sums).collect()

    def by_option() -> Any:
        import deltanb as dn

        return dn.open(path).to_df(session, where=query).selectExpr(*sums).collect()

    def by_source() -> Any:
        chosen = session.read.format("deltanb").option("where", query).load(str(path))
        return chosen.selectExpr(*sums).collect()

    conditions = {"deltanb": by_option, "data source": by_source} if asked else {}
    return {name: conditions.get(name) or scanned(READERS[name]) for name in names}


def writes(session: Any, folder: Path, rows: int, by: tuple[str, ...]) -> Ways:
    """Rows that Spark makes, into a new table; ours with syncs and without, Delta Spark has none."""
    import deltanb as dn
    from deltanb.options import set_options

    def frame() -> Any:
        return session.range(0, rows, 1, 4).selectExpr(
            "id", "id * 0.5D value", "concat('name ', id % 1000) name", f"int(id * 24 div {rows}) part")

    def fresh() -> Path:
        target = folder / "written"
        shutil.rmtree(target, ignore_errors=True)
        return target

    def own(durability: str) -> None:
        with set_options(durability=durability):
            dn.create(fresh(), frame(), partition_by=by)

    def by_source() -> None:
        writer = frame().write.format("deltanb").mode("append")
        (writer.option("partitionBy", ",".join(by)) if by else writer).save(str(fresh()))

    return {"deltanb": lambda: own("sync"),
            "Delta Spark": lambda: frame().write.format("delta").partitionBy(*by).save(str(fresh())),
            "plain Parquet": lambda: frame().write.partitionBy(*by).parquet(str(fresh())),
            "deltanb, not synced": lambda: own("none"),
            "data source": by_source}


def merges(session: Any, folder: Path, files: int, rows: int, merged: int) -> Ways:
    """Rows from all over a table and as many new ones, merged into a fresh copy of it."""
    import deltanb as dn

    table, numbers = _known(make, folder / "merged", files, rows), count()
    source = folder / "merged-source"
    ids = session.range(0, rows, rows * 2 // merged, 1).union(session.range(rows, rows + merged // 2, 1, 1))
    changed = ids.selectExpr("id", "id * 0.25D value", "concat('new ', id % 1000) name", "7 part")
    changed.coalesce(1).write.parquet(str(source))

    def fresh() -> Path:
        return Path(shutil.copytree(table, folder / f"copy-{next(numbers)}", copy_function=os.link))

    def own() -> None:
        merge = dn.open(fresh()).merge(
            session.read.parquet(str(source)), "t.id = s.id", target_alias="t", source_alias="s")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def theirs() -> None:
        session.sql(f"MERGE INTO delta.`{fresh()}` t USING parquet.`{source}` s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    return {"deltanb": own, "Delta Spark": theirs}


def streams(session: Any, folder: Path, batches: int) -> Ways:
    """Micro-batches of a file each, from a folder into a new table, until all are there."""
    import pyarrow.parquet as pq

    import deltanb as dn
    from tests.benchmarks.spark_tables import rows_of

    source, numbers = folder / "source", count()
    source.mkdir()
    for number in range(batches):
        pq.write_table(rows_of(number * 1000, number * 1000 + 1000, number), source / f"{number}.parquet")

    def begun() -> tuple[Any, str, str]:
        place = folder / f"stream-{next(numbers)}"
        frame = session.readStream.schema(SQL_TYPES).option("maxFilesPerTrigger", 1).parquet(str(source))
        dn.create(place / "t", pq.read_schema(source / "0.parquet"))
        return frame, str(place / "t"), str(place / "checkpoint")

    def ended(query: Any, table: str) -> int:
        query.awaitTermination()
        assert dn.open(table).version == batches
        return batches

    def own() -> int:
        frame, table, checkpoint = begun()
        return ended(dn.open(table).write_stream(frame, checkpoint=checkpoint, trigger="availableNow"), table)

    def by_format(name: str) -> Way:
        def way() -> int:
            frame, table, checkpoint = begun()
            writer = frame.writeStream.format(name).option("checkpointLocation", checkpoint)
            return ended(writer.trigger(availableNow=True).start(table), table)

        return way

    return {"deltanb": own, "Delta Spark": by_format("delta"), "data source": by_format("deltanb")}


# -- all of it ----------------------------------------------------------------------------------


def works(size: Size) -> dict[str, Work]:
    """By title."""
    files, rows, merged = size.merged
    return {**_plans(size), **_scans(size), **_writes(size),
            f"merge of {merged // 1000:,} k rows into {rows // 1000:,} k": Work(
                lambda session, folder: merges(session, folder, files, rows, merged), goal=GOAL_OF_MERGE),
            f"stream, {size.batches} micro-batches": Work(
                lambda session, folder: streams(session, folder, size.batches), warm_up=1)}


def _plans(size: Size) -> dict[str, Work]:
    by_title = {}
    for state in STATES:
        after = state and f", {state}"
        by_title[f"plan, {size.planned:,} files{after}"] = Work(
            lambda session, folder, state=state: plans(
                session, _known(make_many, folder / "many", size.planned), "", state), most=MOST)
        for files in size.planned_partitioned:
            by_title[f"plan, one partition of {files:,} files{after}"] = Work(
                lambda session, folder, files=files, state=state: plans(
                    session, _known(make_many, folder / f"{files}", files, True), "part = 7", state))
    for files, columns in size.planned_selected:
        by_title[f"plan, one of {files:,} files by {columns} columns"] = Work(
            lambda session, folder, files=files, more=columns - 1: plans(
                session, _known(make_many, folder / f"{files} {more}", files, False, more), "id = 777"))
    return by_title


def _scans(size: Size) -> dict[str, Work]:
    rows = f"{size.rows // 1000:,} k rows"
    by_title = {f"{text}, {rows}": Work(
        lambda session, folder, query=query, asked=asked: scans(
            session, _known(make, folder / "rows", size.files, size.rows), query, asked=asked),
        most=MOST, by_source=None if text == "scan" else MOST_BY_SOURCE, warm_up=1 if text == "scan" else 3)
        for text, query, asked in (
            ("scan", "value >= 0", False), ("selective scan", "id = 777", True),
            ("selective scan, by a filter", "id = 777", False))}
    files, rows_left = size.deleted
    by_title[f"scan, 1 % of {rows_left // 1000:,} k rows deleted"] = Work(lambda session, folder: scans(
        session, _known(make, folder / "deleted", files, rows_left, 100), "value >= 0", NAMES[:2]), goal=None)
    return by_title


def _writes(size: Size) -> dict[str, Work]:
    rows = f"{size.rows // 1000:,} k rows"
    return {f"write, {text}{rows}": Work(
        lambda session, folder, by=by: writes(session, folder, size.rows, by), warm_up=1)
        for text, by in (("", ()), ("24 partitions, ", ("part",)))}


def _known(make: Callable[..., Path], folder: Path, *arguments: Any) -> Path:
    return folder if folder.exists() else make(folder, *arguments)


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    from tests.peers.delta_spark import Unavailable

    chosen = {title: work for title, work in works(QUICK if quick else Size()).items() if only in title}
    if not chosen:
        return
    try:
        session = begun()
    except Unavailable:
        yield from (absent(SUITE, title, "Delta Spark") for title in chosen)
        return
    folder = Path(tempfile.mkdtemp(prefix="deltanb-spark-"))
    try:
        for title, work in chosen.items():
            yield from attempt(SUITE, title, lambda title=title, work=work: compared(
                session, title, work, folder, rounds))
    finally:
        session.stop()
        shutil.rmtree(folder)
