"""How fast the log is beside deltalake's: the ratio table.

    python -m tests.benchmarks log [--quick] [--rounds N] [--only TEXT]

Both libraries do the same operation on the same table, one after the other, each time in a fresh
process with the page cache warm; the table shows each one's best time of all rounds, their ratio, the
goal, the ratio of processor time (which a busy machine disturbs less), and peak memory. Importing the
libraries is not timed. ``--quick`` takes small tables: it shows that everything runs; its ratios say
little.

pytest never collects this file: a benchmark is read by people, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # where it runs as a script of its own, for one measurement

from tests.benchmarks.figures import Figure, absent, attempt, is_installed, times  # noqa: E402
from tests.benchmarks.peaks import peak_memory  # noqa: E402

PARTITIONS = 100
COLUMNS = (("id", "long"), ("value", "double"), ("name", "string"), ("part", "string"))
TAIL = 20  # commits after the checkpoint, as between two checkpoints of a busy table


# -- tables ------------------------------------------------------------------------------------


def file_name(number: int) -> str:
    unique = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128
    return f"part={number % PARTITIONS}/part-{number % 100_000:05}-{unique:032x}.c000.snappy.parquet"


def statistics(number: int) -> dict[str, Any]:
    low = number * 1000
    return {"numRecords": 1000,
            "minValues": {"id": low, "value": low / 7, "name": f"n{low:012}"},
            "maxValues": {"id": low + 999, "value": (low + 999) / 7, "name": f"n{low + 999:012}"},
            "nullCount": {"id": 0, "value": number % 3, "name": 0}}


def add(number: int) -> dict[str, Any]:
    return {"path": file_name(number), "partitionValues": {"part": str(number % PARTITIONS)},
            "size": 100_000 + number % 1000, "modificationTime": 1_700_000_000_000 + number,
            "dataChange": True, "stats": json.dumps(statistics(number), separators=(",", ":"))}


def commit_info() -> dict[str, Any]:
    return {"commitInfo": {
        "timestamp": 1_700_000_000_000, "operation": "WRITE", "readVersion": 0,
        "operationParameters": {"mode": "Append", "partitionBy": '["part"]'},
        "isolationLevel": "Serializable", "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "1000", "numOutputBytes": "100000"},
        "engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.0.0", "txnId": "5ec0a000-0000-4000-8000-0"}}


def start() -> list[dict[str, Any]]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in COLUMNS]
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "5ec0a000-0000-4000-8000-000000000000",
                          "format": {"provider": "parquet", "options": {}},
                          "schemaString": json.dumps({"type": "struct", "fields": fields}),
                          "partitionColumns": ["part"], "configuration": {}, "createdTime": 1}}]


def write_commit(table: Path, version: int, lines: list[dict[str, Any]]) -> None:
    folder = table / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (folder / f"{version:020}.json").write_text(text + "\n")


def make_commits(table: Path, commits: int, checkpoint_each: int = 0) -> None:
    """A log of single-file appends, with or without checkpoints."""
    write_commit(table, 0, start())
    for version in range(1, commits):
        write_commit(table, version, [commit_info(), {"add": add(version)}])
    if checkpoint_each:
        from deltanb.transaction.delta_log import DeltaLog

        log = DeltaLog.for_table(table)
        for version in range(checkpoint_each, commits, checkpoint_each):
            log.checkpoint(version)


def make_checkpoint(
    table: Path, files: int, parsed: bool = False, sidecars: int = 0, adds: Any = None
) -> None:
    """A log that begins with a checkpoint of many files, and TAIL commits that add and remove.

    ``adds`` makes the rows of some files in place of :func:`adds_table`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = table / "_delta_log"
    write_commit(table, 10, [commit_info()])
    schema = checkpoint_schema(parsed)
    name = f"{10:020}.checkpoint"
    batches = [range(at, min(files, at + 100_000)) for at in range(0, files, 100_000)]
    if sidecars:
        make_v2(folder, schema, files, sidecars, adds or adds_table)
    else:
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="snappy") as writer:
            writer.write_table(pa.Table.from_pylist([plain_row(row) for row in start()], schema))
            for numbers in batches:
                writer.write_table(adds_table(numbers, schema))
        (folder / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": files + 2}))
    for version in range(11, 11 + TAIL):
        write_commit(table, version, tail_commit(version, files))


def tail_commit(version: int, files: int) -> list[dict[str, Any]]:
    gone = {"path": file_name(version), "deletionTimestamp": 1_700_000_000_000, "dataChange": True,
            "extendedFileMetadata": True, "size": 100_000,
            "partitionValues": {"part": str(version % PARTITIONS)}}
    return [commit_info(), {"add": add(files + version)}, {"remove": gone}]


def make_v2(folder: Path, schema: Any, files: int, sidecars: int, adds: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "_sidecars").mkdir()
    lines: list[dict[str, Any]] = [{"checkpointMetadata": {"version": 10}}]
    protocol, metadata = start()
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7,
                             "readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}}
    lines += [protocol, metadata]
    share = -(-files // sidecars)
    for number in range(sidecars):
        name = f"5ec0a000-0000-4000-8000-{number:012}.parquet"
        only = pa.schema([schema.field("add"), schema.field("remove")])
        with pq.ParquetWriter(folder / "_sidecars" / name, only) as writer:
            for at in range(number * share, min(files, (number + 1) * share), 100_000):
                stop = min(files, (number + 1) * share, at + 100_000)
                writer.write_table(adds(range(at, stop), only))
        size = (folder / "_sidecars" / name).stat().st_size
        lines.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1}})
    text = "\n".join(json.dumps(line) for line in lines)
    unique = "5ec0a000-0000-4000-8000-00000000000a"
    (folder / f"{10:020}.checkpoint.{unique}.json").write_text(text)


def checkpoint_schema(parsed: bool) -> Any:
    import pyarrow as pa

    text, number, flag = pa.string(), pa.int64(), pa.bool_()
    strings = pa.map_(text, text)
    file = [("path", text), ("partitionValues", strings), ("size", number)]
    bounds = pa.struct([("id", number), ("value", pa.float64()), ("name", text)])
    counts = pa.struct([("id", number), ("value", number), ("name", number)])
    parsed_type = pa.struct([("numRecords", number), ("minValues", bounds), ("maxValues", bounds),
                             ("nullCount", counts)])
    statistics_field = ("stats_parsed", parsed_type) if parsed else ("stats", text)
    return pa.schema([
        ("txn", pa.struct([("appId", text), ("version", number), ("lastUpdated", number)])),
        ("add", pa.struct([*file, ("modificationTime", number), ("dataChange", flag),
                           ("tags", strings), statistics_field])),
        ("remove", pa.struct([*file, ("deletionTimestamp", number), ("dataChange", flag)])),
        ("metaData", pa.struct([
            ("id", text), ("name", text), ("description", text),
            ("format", pa.struct([("provider", text), ("options", strings)])),
            ("schemaString", text), ("partitionColumns", pa.list_(text)),
            ("configuration", strings), ("createdTime", number)])),
        ("protocol", pa.struct([
            ("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(text)), ("writerFeatures", pa.list_(text))])),
    ])


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """An action as pyarrow wants it: maps as lists of pairs."""
    if "metaData" in row:
        value = row["metaData"]
        value = {**value, "format": {"provider": "parquet", "options": []}, "configuration": []}
        return {"metaData": value}
    return row


def adds_table(numbers: range, schema: Any) -> Any:
    import pyarrow as pa

    rows = []
    parsed = schema.field("add").type.get_field_index("stats_parsed") >= 0
    for number in numbers:
        row = add(number)
        row["partitionValues"] = list(row["partitionValues"].items())
        if parsed:
            del row["stats"]
            row["stats_parsed"] = statistics(number)
        rows.append(row)
    column = pa.array(rows, schema.field("add").type)
    others = {f.name: pa.nulls(len(rows), f.type) for f in schema}
    return pa.table({**others, "add": column}, schema=schema)


def make_small(table: Path) -> None:
    """A real table of two columns and ten files, written by deltalake."""
    import pyarrow as pa
    from deltalake import write_deltalake

    for number in range(10):
        write_deltalake(str(table), pa.table({"id": [number], "name": ["x"]}), mode="append")


# -- operations --------------------------------------------------------------------------------
# Each returns what must be equal for both libraries, or None where there is nothing to compare.
# ``prepare`` runs before the clock starts.


def scan_predicate(files: int) -> tuple[str, int, int]:
    """One column's range that meets ten files."""
    low = files // 2 * 1000
    return f"id >= {low} AND id < {low + 10_000}", low, low + 10_000


class Deltalake:
    """The peer."""

    name = "deltalake"

    def __init__(self) -> None:
        import deltalake
        import pandas  # pyarrow imports it at its first conversion

        assert pandas
        self.open = deltalake.DeltaTable
        self.write = deltalake.write_deltalake

    def open_files(self, path: str) -> Any:
        return self.active(self.open(path))

    def active(self, table: Any) -> int:
        """The files as Arrow, as ours are; file_uris() makes Python texts and takes longer."""
        return int(table.get_add_actions().num_rows)

    def open_at_half(self, path: str, commits: int) -> Any:
        return self.active(self.open(path, version=commits // 2))

    def history(self, path: str) -> Any:
        return self.open(path).history()[0]["version"]

    def statistics(self, path: str) -> Any:
        import pyarrow as pa

        return pa.table(self.open(path).get_add_actions(flatten=True)).num_rows

    def partition(self, path: str) -> Any:
        return len(self.open(path).file_uris(file_pruning_predicate="part = '7'"))

    def skip(self, path: str, files: int) -> Any:
        """Through the files' statistics as a table: the public way to a file list by a range."""
        import pyarrow as pa
        import pyarrow.compute as pc

        _, low, high = scan_predicate(files)
        actions = pa.table(self.open(path).get_add_actions(flatten=True))
        hit = pc.and_(pc.less(actions["min.id"], high), pc.greater_equal(actions["max.id"], low))
        return actions.filter(hit).num_rows

    def prepare_refresh(self, path: str) -> Any:
        table = self.open(path)
        self.active(table)
        return table

    def refresh(self, table: Any) -> Any:
        table.update_incremental()
        return self.active(table)

    def prepare_append(self, path: str) -> Any:
        import pyarrow as pa

        table, data = self.open(path), pa.table({"id": [1], "name": ["x"]})
        self.write(table, data, mode="append")
        return table, data

    def append(self, prepared: Any, times: int) -> None:
        for _ in range(times):
            self.write(prepared[0], prepared[1], mode="append")

    def prepare_log_only(self, path: str) -> Any:
        table = self.open(path)
        table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
        return table

    def log_only(self, table: Any, times: int) -> None:
        for number in range(times):
            table.alter.set_table_properties({"delta.deletedFileRetentionDuration":
                                              f"interval {number + 1} days"})


class Deltanb:
    """Ours, with everything on: conflict checks, checksums, checkpoints, whose writing is waited for.

    Commits are written twice, as by default with fsync of every file and folder, which deltalake
    never calls, and with ``durability="none"``.
    """

    name = "deltanb"

    def __init__(self) -> None:
        import pandas
        import sqlglot

        import deltanb
        from deltanb import actions
        from deltanb.log import history
        from deltanb.log.checkpoint import hint, read, write
        from deltanb.log.skipping import prune
        from deltanb.schema import protocol
        from deltanb.transaction import transaction
        from deltanb.transaction.delta_log import DeltaLog

        assert pandas and sqlglot and history and hint and read and write and prune and protocol
        assert transaction
        self.actions, self.package = actions, deltanb
        self.log = DeltaLog.for_table

    def open_files(self, path: str) -> Any:
        files = self.log(path).snapshot.select_files(["path", "partition_values", "size"])
        return files.num_rows

    def open_at_half(self, path: str, commits: int) -> Any:
        snapshot = self.log(path).snapshot_at(commits // 2)
        return snapshot.select_files(["path", "partition_values", "size"]).num_rows

    def history(self, path: str) -> Any:
        return self.log(path).history()[0].version

    def statistics(self, path: str) -> Any:
        from deltanb.log.skipping.stats import stats_of

        snapshot = self.log(path).snapshot
        stats = stats_of(["id", "value", "name"])
        files = snapshot.select_files(["path", "partition_values", "size"])
        assert snapshot.stats_for(stats).num_rows >= files.num_rows
        return files.num_rows

    def partition(self, path: str) -> Any:
        return self.scan(path, "part = '7'")

    def skip(self, path: str, files: int) -> Any:
        return self.scan(path, scan_predicate(files)[0])

    def scan(self, path: str, predicate: str) -> int:
        columns = ["path", "partition_values", "size"]
        return self.log(path).snapshot.files_for_scan(predicate, columns=columns).num_rows

    def prepare_refresh(self, path: str) -> Any:
        log = self.log(path)
        log.snapshot.select_files(["path", "partition_values", "size"])
        return log

    def refresh(self, log: Any) -> Any:
        return log.update().select_files(["path", "partition_values", "size"]).num_rows

    def prepare_append(self, path: str) -> Any:
        import pyarrow as pa

        table = self.package.DeltaTable.for_path(path)
        table.append(pa.table({"id": [1], "name": ["x"]}))
        return table, pa.table({"id": [1], "name": ["x"]})

    def append(self, prepared: Any, times: int) -> None:
        table, data = prepared
        for _ in range(times):
            table.append(data)

    def prepare_log_only(self, path: str) -> Any:
        table = self.package.DeltaTable.for_path(path)
        table.set_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
        return table

    def log_only(self, table: Any, times: int) -> None:
        for number in range(times):
            table.set_properties({"delta.deletedFileRetentionDuration":
                                  f"interval {number + 1} days"})


class Replay:
    """The least that opening a table can be: its checkpoint's columns decoded by pyarrow, the rows that its
    commits name taken out, theirs put in."""

    name = "a bare replay"

    def __init__(self) -> None:
        import pandas  # pyarrow imports it at its first conversion
        import pyarrow.compute
        import pyarrow.parquet

        assert pandas
        self.pq, self.pc, self.pa = pyarrow.parquet, pyarrow.compute, pyarrow

    def open_files(self, path: str) -> Any:
        log = Path(path, "_delta_log")
        [checkpoint] = log.glob("*.checkpoint.parquet")
        columns = ["add.path", "add.size", "add.partitionValues.key_value.key",
                   "add.partitionValues.key_value.value"]
        adds = self.pq.ParquetFile(checkpoint).read(columns=columns).column("add").combine_chunks()
        paths, added, named = adds.field("path"), 0, []
        for commit in sorted(log.glob("*.json"))[1:]:
            for line in commit.read_bytes().splitlines():
                action = json.loads(line)
                for kind in action.keys() & {"add", "remove"}:
                    named.append(action[kind]["path"])
                    added += kind == "add"
        gone = self.pc.is_in(paths, value_set=self.pa.array(named))
        stands = self.pc.and_(self.pc.invert(gone), self.pc.is_valid(paths))
        return self.pc.sum(stands).as_py() + added


class BareFiles:
    """The least that a synced append can be: one data file and one of the log, each written and synced, and
    the folder that got its name."""

    name = "bare files"

    def __init__(self) -> None:
        import pyarrow.parquet

        self.pa, self.pq = pyarrow, pyarrow.parquet

    def prepare_append(self, path: str) -> Any:
        prepared = path, self.pa.table({"id": [1], "name": ["x"]})
        self.append(prepared, 1)
        return prepared

    def append(self, prepared: Any, times: int) -> None:
        path, data = prepared
        for _ in range(times):
            name = uuid.uuid4().hex
            parquet = self.pa.BufferOutputStream()
            self.pq.write_table(data, parquet, compression="zstd")
            synced(Path(path, f"{name}.parquet"), parquet.getvalue())
            synced(Path(path, "_delta_log", f"{name}.json"), b"x" * LOG_BYTES)


LOG_BYTES = 700
"""Of a commit of one file."""


def synced(path: Path, data: Any) -> None:
    """A file with these bytes, on the disk under its name."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


LIBRARIES: dict[str, Callable[[], Any]] = {
    "deltalake": Deltalake, "a bare replay": Replay, "bare files": BareFiles, "deltanb": Deltanb}
QUICK_SCALE = 20
APPENDS = 110  # deltalake's grow with the commits since its last checkpoint, one in 100
UNSYNCED = "_unsynced"
"""Ends the name of an operation that our library does without fsync; deltalake's is the same."""


def run(library: Any, operation: str, path: str, size: int) -> tuple[float, float, Any]:
    """Seconds by the clock and of processor time, and what both libraries must agree on."""
    if operation.endswith(UNSYNCED):
        operation = operation.removesuffix(UNSYNCED)
        if isinstance(library, Deltanb):
            library.package.set_options(durability="none")
    arguments: tuple[Any, ...] = (path,)
    if operation in ("open_at_half", "skip"):
        arguments = path, size
    if operation == "refresh":
        # The newest commits are taken away, and come back after the table was opened.
        folder = Path(path, "_delta_log")
        newest = sorted(folder.glob("*.json"))[-TAIL:]
        for file in newest:
            file.rename(file.with_suffix(".later"))
        try:
            arguments = (library.prepare_refresh(path),)
        finally:
            for file in newest:
                file.with_suffix(".later").rename(file)
    times = 1
    if operation in ("append", "log_only"):
        times = APPENDS
        arguments = getattr(library, f"prepare_{operation}")(path), times
    started, worked = time.perf_counter(), time.process_time()
    result = getattr(library, operation)(*arguments)
    if isinstance(library, Deltanb):
        library.package.flush()
    elapsed = (time.perf_counter() - started) / times
    return elapsed, (time.process_time() - worked) / times, result


# -- the table ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line: what is done, on which table, and the least ratio wanted."""

    title: str
    operation: str
    table: str
    size: int
    goal: float | None
    copies: bool = False
    """The operation writes: every run gets a copy of its own."""
    by: str = "ms"
    """Whether the clock decides (``ms``) or the processor's time (``cpu``)."""
    peer: str = "deltalake"


def rows(scale: int) -> tuple[dict[str, Callable[[Path], None]], list[Row]]:
    commits, small, large = 10_000 // scale, 100_000 // scale, 1_000_000 // scale
    tables: dict[str, Callable[[Path], None]] = {
        "commits": lambda path: make_commits(path, commits),
        "checkpointed": lambda path: make_commits(path, commits, checkpoint_each=100),
        "small-checkpoint": lambda path: make_checkpoint(path, small),
        "large-checkpoint": lambda path: make_checkpoint(path, large),
        "v2": lambda path: make_checkpoint(path, large, sidecars=4),
        "parsed": lambda path: make_checkpoint(path, large, parsed=True),
        "small": make_small,
    }
    n, c, m = f"{commits:,} commits", f"{small:,} files + {TAIL} commits", f"{large:,} files"
    return tables, [
        Row(f"open, {n}", "open_files", "commits", commits, 20),
        Row(f"open at half, {n}", "open_at_half", "commits", commits, 12),
        Row(f"history, {n}", "history", "commits", commits, 12, by="cpu"),
        Row(f"open, {n}, checkpoints", "open_files", "checkpointed", commits, 4),
        Row(f"open, {c}", "open_files", "small-checkpoint", small, 12),
        Row(f"open, {m} + {TAIL} commits", "open_files", "large-checkpoint", large, 12),
        Row(f"the same, {m}", "open_files", "large-checkpoint", large, 0.95, by="cpu", peer="a bare replay"),
        Row(f"open with all statistics, {m}", "statistics", "parsed", large, 2),
        Row(f"open, {m}, V2 with 4 sidecars", "open_files", "v2", large, 8),
        Row(f"partition filter, cold, {m}", "partition", "large-checkpoint", large, 10),
        Row(f"skip on a column, cold, {m}", "skip", "large-checkpoint", large, 4),
        Row(f"the same on stats_parsed, {m}", "skip", "parsed", large, 12),
        Row(f"refresh, {TAIL} commits, {m}", "refresh", "large-checkpoint", large, 200, by="cpu"),
        Row("append of one row, neither syncs", "append" + UNSYNCED, "small", 1, 6, copies=True),
        Row("append of one row, ours synced", "append", "small", 1, 3, copies=True),
        Row("the same, all synced", "append", "small", 1, 0.67, copies=True, peer="bare files"),
        Row("commit without data, neither syncs", "log_only" + UNSYNCED, "small", 1, None, copies=True),
        Row("commit without data, ours synced", "log_only", "small", 1, None, copies=True),
    ]


def measure(library: str, row: Row, path: Path) -> dict[str, Any]:
    """Run one operation in a fresh process."""
    command = [sys.executable, __file__, library, row.operation, str(path), str(row.size)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def child(library: str, operation: str, path: str, size: str) -> None:
    seconds, worked, result = run(LIBRARIES[library](), operation, path, int(size))
    print(json.dumps(
        {"ms": seconds * 1000, "cpu": worked * 1000, "mb": peak_memory(), "result": result}))


def measure_row(row: Row, table: Path, rounds: int) -> dict[str, Any]:
    """Both libraries, alternating; the best time of each."""
    best: dict[str, Any] = {}
    for number in range(rounds):
        for library in (row.peer, "deltanb"):
            path = table
            if row.copies:
                path = table.with_name(f"{table.name}-{library}-{row.operation}-{number}")
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(table, path)
            measures = measure(library, row, path)
            if row.copies:
                shutil.rmtree(path, ignore_errors=True)
            if "error" in measures:
                best.setdefault(library, measures)
            elif library not in best or "error" in best[library]:
                best[library] = measures
            else:
                best[library] = {**measures, **{
                    name: min(measures[name], best[library][name]) for name in ("ms", "cpu", "mb")}}
    return best


def build(name: str, table: Path, quick: bool) -> None:
    """Make one table."""
    rows(QUICK_SCALE if quick else 1)[0][name](table)


def figures(
    quick: bool = False, rounds: int = 3, only: str = "", keep: Path | None = None
) -> Iterator[Figure]:
    """The figures, one after another as they are measured."""
    folder = keep or Path(tempfile.mkdtemp(prefix="deltanb-benchmark-"))
    try:
        for row in rows(QUICK_SCALE if quick else 1)[1]:
            if only not in row.title:
                continue
            if row.peer == "deltalake" and not is_installed(row.peer):
                yield absent("log", row.title, row.peer)
                continue
            yield from attempt("log", row.title, lambda row=row: [_figure(row, folder, quick, rounds)])
    finally:
        if not keep:
            shutil.rmtree(folder)


def _figure(row: Row, folder: Path, quick: bool, rounds: int) -> Figure:
    """One row, on its table, which is made where it is not there yet."""
    table = folder / row.table
    if not table.exists():  # in another process: this one stays small
        builder = multiprocessing.get_context("spawn").Process(target=build, args=(row.table, table, quick))
        builder.start()
        builder.join()
        if builder.exitcode:
            shutil.rmtree(table, ignore_errors=True)
            raise RuntimeError(f"the table {row.table} could not be made")
    best = measure_row(row, table, rounds)
    return times("log", row.title, row.peer, best[row.peer], best["deltanb"], row.goal, row.by)


if __name__ == "__main__":
    child(*sys.argv[1:])
