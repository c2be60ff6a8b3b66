"""Tables as DataFrames beside Delta Spark's and plain Parquet: planning, scans and writes, in one session.

    python -m tests.benchmarks spark [--quick] [--rounds N] [--only TEXT]

All ways run by turns in the same session, with the same settings, for which Delta Spark's jars and extension
are in it; the first turns warm the JVM up, which takes seconds, and do not count. Planning goes from the
table's path to what Spark would run: log, files, physical plan, tasks. Processor time is that of Python and
of the JVM.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure, absent, attempt, times

SUITE = "spark"
PLANNED, SCANNED, ROWS = (5_000, 50_000), 2_000, 2_000_000
QUICK_PLANNED, QUICK_SCANNED, QUICK_ROWS = (200,), 40, 40_000
PARTITIONS = 100
WARM_UP = 3  # turns; the JVM goes on compiling for longer, for both alike
GOAL = 1.0  # times Delta Spark's speed
SQL_TYPES = "id long, value double, name string, part int"

Way = Callable[[], Any]


# -- tables -------------------------------------------------------------------------------------


def rows_of(start: int, stop: int, part: int) -> Any:
    import pyarrow as pa

    ids = range(start, stop)
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array([i * 0.5 for i in ids], pa.float64()),
                     "name": pa.array([f"name {i % 1000}" for i in ids], pa.string()),
                     "part": pa.array([part] * len(ids), pa.int32())})


def make(folder: Path, files: int, rows: int, partitioned: bool = False, deleted: int = 0) -> Path:
    """A table of that many files with ``rows`` rows in all, one of ``deleted`` rows of them deleted."""
    import pyarrow.parquet as pq
    from pyroaring import BitMap64

    from deltanb.actions import AddFile, Metadata, Protocol
    from deltanb.data import deletion_vectors
    from deltanb.schema.types import from_arrow
    from deltanb.store.local import LocalStore

    store, each = LocalStore(folder), rows // files
    vectors = ("deletionVectors",) if deleted else ()
    protocol = Protocol(3, 7, vectors, vectors) if deleted else Protocol(1, 2)
    by = ("part",) if partitioned else ()
    schema = from_arrow(rows_of(0, 0, 0).schema)
    actions: list[Any] = [protocol, Metadata("t", schema.to_json(), by)]
    vector = deletion_vectors.inline(BitMap64(range(0, each, deleted))) if deleted else None
    for number in range(files):
        part = number % PARTITIONS
        name = f"part={part}/{number}.parquet" if partitioned else f"{number}.parquet"
        content = rows_of(number * each, (number + 1) * each, part)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(content.drop_columns(list(by)), path)
        bounds = {"id": number * each}, {"id": (number + 1) * each - 1}
        stats = {"numRecords": each, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {"id": 0},
                 **({"tightBounds": False} if deleted else {})}
        actions.append(AddFile(name, {"part": str(part)} if partitioned else {}, path.stat().st_size, 1,
                               stats=json.dumps(stats), deletion_vector=vector))
    text = "\n".join(action.to_json() for action in actions)
    store.put_if_absent(f"_delta_log/{0:020d}.json", text.encode())
    return folder


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


READERS = {"deltanb": ours, "Delta Spark": theirs, "plain Parquet": plain, "data source": data_source}


def processor_seconds(session: Any) -> float:
    """Of this process, of its JVM and of the JVM's Python workers, where the system tells."""
    known: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        known[int(entry.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))  # with ended children
    tree = {session.sparkContext._gateway.proc.pid}
    while more := {pid for pid, (parent, _) in known.items() if parent in tree} - tree:
        tree |= more
    ticks = sum(known[pid][1] for pid in tree if pid in known)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def compared(
    session: Any, title: str, ways: dict[str, Way], rounds: int, goal: float | None = GOAL
) -> Iterator[Figure]:
    """Each way by turns; the best of those that count, against ours."""
    best: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    for turn in range(-WARM_UP, rounds):
        for name, way in ways.items():
            started, worked = time.perf_counter(), processor_seconds(session)
            result = way()
            found = {"ms": (time.perf_counter() - started) * 1000,
                     "cpu": (processor_seconds(session) - worked) * 1000}
            if turn >= 0:
                known = best.get(name, found)
                best[name] = {key: min(known[key], value) for key, value in found.items()}
            results[name] = result
    own = {**best["deltanb"], "result": results["deltanb"]}
    for name, other in best.items():
        if name != "deltanb":
            wanted = goal if name == "Delta Spark" else None
            yield times(SUITE, title, name, {**other, "result": results[name]}, own, wanted)


# -- what is measured ---------------------------------------------------------------------------


def plans(session: Any, path: Path, where: str) -> dict[str, Way]:
    def planned(reader: Callable[[Any, Path], Any]) -> Way:
        def way() -> None:
            frame = reader(session, path)
            frame = frame.filter(where) if where else frame
            frame._jdf.queryExecution().toRdd().getNumPartitions()

        return way

    return {name: planned(READERS[name]) for name in ("deltanb", "Delta Spark")}


def scans(
    session: Any, path: Path, query: str, names: tuple[str, ...], asked: bool = False
) -> dict[str, Way]:
    """The rows of a filter on the frame; with ``asked`` we are told the condition when the frame is made."""

    def scanned(reader: Callable[[Any, Path], Any]) -> Way:
        return lambda: reader(session, path).filter(query).selectExpr("sum(value)", "count(*)").collect()

    def told() -> Any:
        import deltanb as dn

        return dn.open(path).to_df(session, where=query).selectExpr("sum(value)", "count(*)").collect()

    def by_source() -> Any:
        chosen = session.read.format("deltanb").option("where", query).load(str(path))
        return chosen.selectExpr("sum(value)", "count(*)").collect()

    conditions = {"deltanb": told, "data source": by_source} if asked else {}
    return {name: conditions.get(name) or scanned(READERS[name]) for name in names}


def writes(session: Any, folder: Path, rows: int, by: tuple[str, ...], durability: str) -> dict[str, Way]:
    import deltanb as dn
    from deltanb.options import set_options

    def frame() -> Any:
        return session.range(0, rows, 1, 4).selectExpr(
            "id", "id * 0.5D value", "concat('name ', id % 1000) name", f"int(id * 24 div {rows}) part")

    def fresh() -> Path:
        target = folder / "written"
        shutil.rmtree(target, ignore_errors=True)
        return target

    def own() -> None:
        with set_options(durability=durability):
            dn.create(fresh(), frame(), partition_by=by)

    def by_source() -> None:
        writer = frame().write.format("deltanb").mode("append")
        (writer.option("partitionBy", ",".join(by)) if by else writer).save(str(fresh()))

    found = {"deltanb": own,
             "Delta Spark": lambda: frame().write.format("delta").partitionBy(*by).save(str(fresh())),
             "plain Parquet": lambda: frame().write.partitionBy(*by).parquet(str(fresh()))}
    return {**found, "data source": by_source} if durability == "sync" else found  # its tasks always sync


def works(quick: bool) -> dict[str, tuple[float | None, Callable[[Any, Path], dict[str, Way]]]]:
    """By title: the goal, and the ways, of a session and a folder for the tables."""
    found: dict[str, tuple[float | None, Callable[[Any, Path], dict[str, Way]]]] = {}
    for files in QUICK_PLANNED if quick else PLANNED:
        found[f"plan, {files:,} files"] = GOAL, lambda session, folder, files=files: plans(
            session, make(folder / f"{files}", files, files), "")
        found[f"plan, one partition of {files:,} files"] = GOAL, lambda session, folder, files=files: plans(
            session, make(folder / f"{files}-by", files, files, partitioned=True), "part = 7")
    files, rows = (QUICK_SCANNED, QUICK_ROWS) if quick else (SCANNED, ROWS)
    for text, query, goal, deleted in (
            ("scan", "value >= 0", GOAL, 0), ("selective scan", "id = 777", GOAL, 0),
            ("selective scan, by a filter", "id = 777", GOAL, 0),
            ("scan, 1 % of rows deleted", "value >= 0", None, 100)):
        names = ("deltanb", "Delta Spark") if deleted else tuple(READERS)
        found[f"{text}, {files:,} files"] = (
            goal, lambda session, folder, text=text, query=query, deleted=deleted, names=names: scans(
                session, _known(folder / f"rows-{deleted}", files, rows, deleted), query, names,
                text == "selective scan"))
    for text, by, durability, goal in (
            ("write", (), "sync", GOAL), ("write, neither syncs", (), "none", GOAL),
            ("write, 24 partitions", ("part",), "sync", None)):
        found[f"{text}, {rows // 1000:,} k rows"] = (
            goal, lambda session, folder, by=by, durability=durability: writes(
                session, folder, rows, by, durability))
    return found


def _known(folder: Path, files: int, rows: int, deleted: int) -> Path:
    return folder if folder.exists() else make(folder, files, rows, deleted=deleted)


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    from tests.peers.delta_spark import Unavailable

    chosen = {title: work for title, work in works(quick).items() if only in title}
    if not chosen:
        return
    try:
        session = begun()
    except Unavailable:
        yield from (absent(SUITE, title, "Delta Spark") for title in chosen)
        return
    folder = Path(tempfile.mkdtemp(prefix="deltanb-spark-"))
    try:
        for title, (goal, ways) in chosen.items():
            yield from attempt(SUITE, title, lambda title=title, goal=goal, ways=ways: compared(
                session, title, ways(session, folder), rounds, goal))
    finally:
        session.stop()
        shutil.rmtree(folder)
