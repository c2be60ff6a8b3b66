"""A table with very many files, without any data, and one of every kind of object that is shown of it.

Its first files stand in a checkpoint; after it come real commits, among them one that loses a race.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import deltanb as dn
from deltanb import errors
from deltanb.actions import AddFile
from deltanb.catalog import progress
from deltanb.commands.merge.clauses import Clause
from deltanb.commands.read.feed import ChangeFeed
from deltanb.commands.result import CommandResult
from deltanb.commands.upkeep.vacuum import FILES, VacuumResult
from deltanb.locks import Cycle, LockManager, Transaction, Wait
from deltanb.log.history import commit
from deltanb.log.skipping.explain import explain
from deltanb.log.verification import ChecksumVerification, Comparison
from deltanb.observe.bisect.bisection import Bisection, Trial
from deltanb.observe.blame.answers import Answers
from deltanb.observe.blame.blame import Blame, Blamed
from deltanb.observe.checkup import kinds as checkups
from deltanb.observe.checkup.kinds import KINDS as KINDS_OF_UPKEEP
from deltanb.observe.checkup.report import Checkup, Finding
from deltanb.observe.conflict_map import ConflictMap
from deltanb.observe.explore.exploration import (
    Exploration,
    LevelComparison,
    Outcome,
    State,
    Taken,
    Violation,
)
from deltanb.observe.explore.play import Play
from deltanb.observe.explore.states import MAX_DRAWN
from deltanb.observe.meetings import Contender, Meeting, Meetings
from deltanb.observe.post_mortem.report import (
    Fact,
    MetBefore,
    MetFile,
    PostMortem,
    Remedy,
    RowsMet,
    WinnerReport,
)
from deltanb.observe.stream_state import StreamState
from deltanb.observe.verify.kinds import KINDS as KINDS_OF_FINDINGS
from deltanb.observe.verify.report import Verification
from deltanb.query.result import QueryPlan, QueryResult, StatementResult
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable
from deltanb.testing import TableBuilder
from deltanb.text.display import Displayable
from deltanb.transaction.operations import Operation

DAYS = 20
WINNERS_FILES = 3_000  # files that a winner adds where somebody reads
TABLES = 100_000  # of a catalog
TIME = 1_772_442_862_000
STATS = '{"numRecords":120,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
_STRINGS = pa.map_(pa.string(), pa.string())
_ADD = pa.struct([("path", pa.string()), ("partitionValues", _STRINGS), ("size", pa.int64()),
                  ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string())])


def file(name: str, day: int) -> AddFile:
    return AddFile(f"day={day}/{name}.parquet", {"day": str(day)}, 4100, TIME, stats=STATS)


def make(folder: Path, files: int) -> Path:
    """A table of so many files; its only data is its log."""
    made = TableBuilder(folder).create("id long, qty integer, day integer", partition_by=["day"])
    made.commit({"commitInfo": {"operation": "WRITE", "timestamp": TIME, "readVersion": 0}})
    head = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    protocol, metadata = (next(json.loads(line)[key] for line in head if key in line)
                          for key in ("protocol", "metaData"))
    metadata = {**metadata, "configuration": [], "format": {"provider": "parquet", "options": []}}
    numbers = pa.array(range(files), pa.int64())
    day = pc.cast(pc.subtract(numbers, pc.multiply(pc.divide(numbers, DAYS), DAYS)), pa.string())
    number = pc.utf8_lpad(pc.cast(numbers, pa.string()), 8, "0")
    path = pc.binary_join_element_wise("day=", day, "/part-", number, ".parquet", "")
    values = pa.MapArray.from_arrays(pa.array(range(files + 1), pa.int32()), pa.repeat("day", files), day)
    size, time = pc.add(numbers, 4000), pa.repeat(TIME, files)
    columns = [path, values, size, time, pa.repeat(True, files), pa.repeat(STATS, files)]
    adds = pa.StructArray.from_arrays(columns, fields=list(_ADD))
    few = pa.table({"protocol": [protocol, None], "metaData": [None, metadata]})
    name = folder / "_delta_log" / f"{1:020}.checkpoint.parquet"
    few = few.append_column("add", pa.nulls(2, _ADD))
    types = few.schema.field("metaData").type
    types = pa.struct([f.with_type(_STRINGS) if f.name == "configuration" else
                       f.with_type(pa.struct([("provider", pa.string()), ("options", _STRINGS)]))
                       if f.name == "format" else f for f in types])
    schema = pa.schema([few.schema.field("protocol"), ("metaData", types), ("add", _ADD)])
    with pq.ParquetWriter(name, schema) as writer:
        writer.write_table(pa.Table.from_pylist(few.to_pylist(), schema))
        nulls = [pa.nulls(files, schema.field(at).type) for at in range(2)]
        writer.write_table(pa.table([*nulls, adds], schema=schema))
    hint = {"version": 1, "size": files + 2}
    (folder / "_delta_log" / "_last_checkpoint").write_text(json.dumps(hint))
    return folder


def commits(table: DeltaTable) -> Any:
    """Eight commits more, and the transaction that lost a race to one of them and ended."""
    for at in range(6):
        with dn.set_options(user_name=f"writer {at % 3}"):
            table.log.start_transaction().commit(
                [file(f"more-{at}", at)], Operation("WRITE", {"mode": "Append"}))
    lost = table.start_transaction()
    read = lost.filter_files("day = 3")
    table.log.start_transaction().commit(
        [file(f"won-{at}", 3) for at in range(WINNERS_FILES)], Operation("MERGE"))
    removes = [file.remove() for _, file in zip(range(WINNERS_FILES), read, strict=False)]
    try:
        lost.commit(removes, Operation("DELETE", {"predicate": ["day = 3"]}))
    except errors.ConcurrentAppendException:
        return lost
    raise AssertionError("the race was not lost")


def many_locks(manager: LockManager) -> Transaction:
    """A transaction with ten thousand locks in a hundred scopes, one shared with a thousand others, and
    another with a hundred thousand locks, for which a thousand transactions wait, two of them in a circle."""
    txn = manager.new_transaction()
    for scope in range(100):
        txn.lock_many([(scope, b"%d" % at) for at in range(100)], "shared")
        txn.enter()
    for _ in range(1000):
        manager.new_transaction().lock_shared(1, b"1")
    txn.attach("x" * 10_000)
    owner = manager.new_transaction()
    owner.lock_many([(1000, b"%d" % at) for at in range(100_000)])
    pair = [manager.new_transaction() for _ in range(2)]
    for at, one in enumerate(pair):
        one.attach("y" * 10_000)
        one.lock_exclusive(2000, b"%d" % at)
    lockers = [one._locker for one in pair]
    with manager._mutex:
        for at in range(1000):
            name = (2000, b"%d" % (1 - at)) if at < 2 else (1000, b"%d" % (at % 100))
            manager._table.ask(lockers[at] if at < 2 else manager.new_locker(), name, 3)
    return txn


def feed() -> Any:
    """Changes of a million rows in a hundred commits, with forty columns."""
    rows = pa.array(range(1_000_000), pa.int64())
    versions = pc.divide(rows, 10_000)
    kinds = pa.array(["update_preimage", "update_postimage", "insert", "delete"]).take(
        pc.bit_wise_and(rows, 3))
    times = pa.repeat(pa.scalar(TIME, pa.timestamp("ms", "UTC")), len(rows))
    columns = {f"column_{at}": rows for at in range(40)}
    return ChangeFeed(pa.table({**columns, "_change_type": kinds, "_commit_version": versions,
                                "_commit_timestamp": times}), "orders")


def blamed(rows: pa.Table) -> Blame:
    """Rows of as many commits as there are rows."""
    answers = Answers(rows.num_rows, rows.column_names[:3])
    answers.rows[:] = range(rows.num_rows)
    commits = {at: Blamed(at, "x" * 400, "x" * 400, TIME) for at in range(rows.num_rows)}
    return Blame(rows, answers, commits, "orders", rows.num_rows)


def most_files(table: DeltaTable) -> Any:
    """The commit of the winner: all of its files are read."""
    entries = [commit(table.log, entry.version) for entry in table.history()]
    most = max(entries, key=lambda entry: len(entry.added))
    assert len(most.added) == WINNERS_FILES
    return most


KINDS = (
    "DeltaTable", "DeltaLog", "Snapshot", "StructType", "TableDetail", "FileScan",
    "OptimisticTransaction", "OptimisticTransaction, failed",
    "Conflict", "Operation", "Action", "History", "HistoryEntry", "HistoryEntry, of many files",
    "CommitTimeline", "Stepper", "StepFrame", "Replay", "Explanation", "ScanExplanation",
    "ChangeFeed", "QueryPlan", "QueryResult", "TableDiff", "TimeTravel", "TimeFrame", "Versions",
    "VacuumResult",
    "CommandResult", "StatementResult", "MergeBuilder", "ConflictMap",
    "Verification", "Checkup", "Bisection", "Exploration", "LevelComparison", "Moment", "Play",
    "Blame", "PostMortem", "ChecksumVerification", "LockManager",
    "Transaction", "Cycle", "LockGraph", "LockTimeline", "Catalog", "UnityCatalog",
    "CatalogHistory", "CatalogSnapshot", "CatalogTransaction", "CatalogTransaction, failed", "GroupCommit",
    "IcebergTable", "StepFrame, of several tables", "Stepper, of several tables", "CatalogTimeline",
    "StreamState", "TableStream", "FileLayout",
)
"""Names of the objects: that of the view, and of what state."""


def explored(writers: int = 1000) -> Exploration:
    """Many writers, of whom each loses in an outcome of its own, and very many turns."""
    names = tuple(f"writer {'x' * 100} {at}" for at in range(writers))
    turns = tuple(Taken(name, "fails", 10**9, "x" * 100, "y" * 100) for name in names)
    outcomes = tuple(
        Outcome(names, {name: "z" * 100}, {}, dict.fromkeys(names, 2), dict.fromkeys(names, (1, 9)), None,
                10**30, names, 10**300, turns, holds=False) for name in names)
    broken = tuple(Violation(at, names, 10**300, turns) for at in range(1000))
    rows = pa.table({"a": ["y" * 1000] * 1000})
    states = tuple(State(at, tuple((names[to % writers], to) for to in range(at + 1, min(at + 4, MAX_DRAWN))),
                         at % 2 == 1, tuple(range(5)), at == MAX_DRAWN - 1) for at in range(MAX_DRAWN))
    return Exploration("orders", names, "Serializable", outcomes, broken, 10**33, 10**6, 10**6, "x" * 400,
                       "y" * 120, played=lambda number: (turns, [rows] * (writers + 1)), states=states)


def played(turns: int = 1000) -> Play:
    """Very many turns, and rows of very many wide columns."""
    rows = pa.table({f"column {'x' * 100} {at}": ["y" * 1000] * 1000 for at in range(100)})
    one = Taken("writer " + "x" * 100, "fails", 10**9, "x" * 100, "y" * 100)
    exploration = explored()
    play = Play("orders", (one.writer,), (one,) * turns, (rows,) * (turns + 1), 10**300, exploration.states,
                range(MAX_DRAWN))
    play.move(turns // 2)
    return play


def catalog_of(folder: Path) -> dn.Catalog:
    """A catalog of very many tables, of which two are there and the others are rows."""
    from deltanb.catalog.store.tables import delta_tables, iceberg_tables

    catalog = dn.Catalog(f"sqlite:///{folder}/large.db", folder / "warehouse")
    catalog.create_namespace("shop")
    for name in ("orders", "totals"):
        catalog.create_table(f"shop.{name}", {"id": [1]})
    row = {"catalog_name": "default", "table_namespace": "shop", "iceberg_type": "DELTA"}
    state = {"latest_version": 9, "published_version": 8}

    def many(connection: Any) -> None:
        numbers = range(TABLES)
        connection.execute(iceberg_tables.insert(), [
            {**row, "table_name": f"t{at:06}", "dn_table_id": str(at)} for at in numbers])
        connection.execute(delta_tables.insert(), [
            {**state, "table_id": str(at), "location": f"lake/t{at}"} for at in numbers])

    catalog.store.database.write(many)
    return catalog


def unity_catalog(folder: Path) -> dn.Catalog:
    """A Unity Catalog of many schemas and tables, of which no file is there."""
    from deltanb.actions import Metadata
    from deltanb.catalog.iceberg.metadata.fields import plain
    from deltanb.catalog.store.names import TableName
    from deltanb.catalog.unity.client.updates import external_table
    from tests.catalog.unity.clients import catalog_of as client_of
    from tests.catalog.unity.fake import Unity

    catalog = client_of(Unity(folder / "unity", "0.7"))
    metadata = Metadata("t", schema_string='{"type": "struct", "fields": []}')
    for number in range(60):
        catalog.create_namespace(f"schema{number:03}" + "x" * 100)
    for number in range(100):
        name = TableName((f"schema{number // 50:03}" + "x" * 100,), f"t{number:03}" + "y" * 100)
        catalog.store.change("create_external_table", {}, plain, external_table(
            "main", name, f"file:///far/t{number}", metadata))
    return catalog


def transactions(catalog: dn.Catalog) -> tuple[Any, Any]:
    """A transaction of the catalog with many statements, and one that failed."""
    busy, lost = catalog.transaction(), catalog.transaction()
    for at in range(30):
        busy.table("shop.orders").delete(f"id = {at + 1000}")
    busy.table("shop.totals").to_arrow()
    for name in ("shop.orders", "shop.totals"):
        lost.table(name).update({"id": "id + 1"})
    catalog.table("shop.totals").append({"id": [5]})
    try:
        lost.commit()
    except errors.ConcurrentAppendException:
        return busy, lost
    raise AssertionError("the race was not lost")


def step_failed(catalog: dn.Catalog) -> Any:
    """A stepped commit that lost many races and then failed."""
    txn = catalog.transaction()
    txn.table("shop.orders").append({"id": [7]})
    txn.table("shop.totals").update({"id": "id + 1"})
    stepper = txn.stepper()
    for _ in range(10):
        while "ratify" not in stepper.advance():
            pass
        stepper.let_win(lambda table: table.append({"id": [8]}), "shop.orders", "x" * 100)
    stepper.let_win("append here", "shop.totals")
    while not stepper.is_done:
        stepper.advance()
    return stepper


def stream_of(table: DeltaTable) -> StreamState:
    """A stream with a thousand sources, and as many batches that Spark tells of."""
    sources = [{"description": "x" * 400 + str(at)} for at in range(1000)]
    reports = [{"batchId": at, "numInputRows": 10**9, "batchDuration": 90, "sources": sources}
               for at in range(1000)]
    return StreamState.of(table.log, "4a812577-36cc-4dce-a4d2-12161abde8b9", name="x" * 10_000,
                          error=ValueError("y" * 10_000), progress=reports)


class TableStream(Displayable):
    """What a view asks of a stream that Spark runs; no Spark is loaded here."""

    def __init__(self, state: StreamState) -> None:
        self.state = state


def much_of_everything() -> PostMortem:
    """A post-mortem of a thousand winners, files and remarks, each with long words."""
    long = "x" * 400
    return PostMortem(
        long, long, "possible", tuple(Fact(f"{long} {at}", long, "inferred", long) for at in range(100)),
        tuple(WinnerReport(at, long, long, TIME, at, at, "passed", long) for at in range(1000)),
        5000, long,
        rows_met=RowsMet("yes", long, 10**9, tuple(
            MetFile(f"{long}/{at}", "add", {long: long}, True, 10**9) for at in range(100)), 10**6, long),
        would_have_passed=tuple(Remedy(long, "proved", long, long) for _ in range(100)),
        met_before=MetBefore((long, long), 10**9, 10**9, dict.fromkeys(range(24), 10**9), 10**9, (), long),
        remarks=(long,) * 100)


def objects(table: DeltaTable) -> dict[str, Callable[[], Any]]:
    """How to get one of every kind of object, by the name of its view."""
    lost = commits(table)
    reader = table.start_transaction()
    reader.read_whole_table()
    scan = reader.filter_files()
    wide_schema = StructType([StructField(f"c{at}", PrimitiveType("long")) for at in range(1000)])
    snapshot = table.snapshot
    gone = snapshot.files.select(["path", "size"])
    vacuumed = gone.append_column("modification_time", pa.repeat(TIME, len(gone))).cast(FILES)
    stepper = table.start_transaction().stepper([file("mine", 1)], "WRITE")
    travel = table.time_travel()
    metrics = {f"num{at}Bytes": 10**at for at in range(12)}
    paths = [f"day={number}/part-{number:05}.parquet" for number in range(1000)]
    different = tuple(Comparison(f"field{number}", paths, paths[1:]) for number in range(30))
    manager = LockManager(record=10_000)
    locked = many_locks(manager)
    catalog = catalog_of(Path(table.path).parent)
    busy, lost_together = transactions(catalog)
    stepped = step_failed(catalog)
    columns = ", ".join(f"c{at} bigint" for at in range(1000))
    wide = catalog.create_table("shop.wide", columns, format="iceberg")
    assert len(wide.column_names) == 1000
    scanned = explain(snapshot, "day < 15 AND id > 9 AND " + " AND ".join(
        f"qty NOT IN ({', '.join(map(str, range(at, at + 100)))})" for at in range(100)))
    wide_rows = pa.table({f"c{at}": ["x" * 400] * 1000 for at in range(100)})
    grid = progress.begun("txn", {f"shop.t{at:06}": "WRITE" for at in range(1000)})
    streamed = stream_of(table)
    made: dict[str, Callable[[], Any]] = {
        "DeltaTable": lambda: table, "DeltaLog": lambda: table.log, "Snapshot": lambda: snapshot,
        "StructType": lambda: wide_schema, "TableDetail": table.detail, "FileScan": lambda: scan,
        "OptimisticTransaction": lambda: reader,
        "OptimisticTransaction, failed": lambda: lost,
        "Conflict": lambda: lost.conflict,
        "Operation": lambda: Operation("WRITE", {f"key{at}": "x" * 400 for at in range(1000)}),
        "Action": lambda: file("a", 1).replace(tags={f"key{at}": "x" * 40 for at in range(1000)}),
        "History": table.history, "HistoryEntry": lambda: table.history()[0],
        "HistoryEntry, of many files": lambda: most_files(table),
        "CommitTimeline": table.timeline,
        "Stepper": lambda: stepper, "StepFrame": lambda: stepper.frame,
        "Replay": lambda: table.history().replay(isolation="WriteSerializable"),
        "Explanation": lambda: dn.explain_conflict(reader),
        "ScanExplanation": lambda: scanned,
        "ChangeFeed": feed,
        "QueryPlan": lambda: QueryPlan("SELECT", (scanned,) * 100),
        "QueryResult": lambda: QueryResult("SELECT", wide_rows, (scanned,) * 100, ("part",) * 100),
        "TableDiff": lambda: snapshot - table.as_of(0).snapshot,
        "TimeTravel": lambda: travel, "TimeFrame": lambda: travel.frame, "Versions": table.versions,
        "VacuumResult": lambda: VacuumResult(
            "VACUUM", 9, "arrow", table="orders", files=vacuumed, cutoff=TIME, num_folders=3),
        "CommandResult": lambda: CommandResult("OPTIMIZE", 7, "arrow", metrics),
        "StatementResult": lambda: StatementResult("ALTER TABLE", "x" * 400, "renamed to " + "y" * 400),
        "MergeBuilder": lambda: replace(table.merge(wide_rows, "x" * 400), clauses=tuple(
            Clause("matched", "update", "y" * 400, {f"c{n}": "z" * 40 for n in range(1000)})
            for _ in range(1000))),
        "ConflictMap": lambda: ConflictMap(Meetings("orders", tuple(
            Meeting(Contender(f"{'x' * 55} {at % 97}", f"{'y' * 50} {at % 31}", at),
                    Contender(f"{'z' * 55} {at % 89}", f"{'w' * 50} {at % 37}", None, TIME), "failed",
                    "append", at % 24, at) for at in range(100_000)), 10, 10, 100_000)),
        "Verification": lambda: Verification("orders", (0, 9), 10, "all", tuple(
            kind(f"{'x' * 400} {at}", range(100), ["p" * 400] * 10) for kind in KINDS_OF_FINDINGS.values()
            for at in range(100))),
        "Checkup": lambda: Checkup("orders", 9, 10**6, 10**12, 1000, tuple(Finding(
            kind, dict.fromkeys(figures.figures, 10**9), "x" * 400, f"table.{'y' * 400}()", 10**9, 10**9,
            dict.fromkeys(figures.saves, 10**9)) for kind, figures in KINDS_OF_UPKEEP.items()) * 10, tuple(
                checkups.blind_spot(kind, range(1000), "z" * 400) for kind in checkups.BLIND_SPOTS)),
        "Bisection": lambda: Bisection(
            ("orders",), "x" * 120, "linear", 0, 9999, 10_000, "in a range", 9, 6, tuple(range(7, 10)),
            {"orders": most_files(table)}, trials=tuple(Trial(at, None, "x" * 400) for at in range(10_000)),
            flips=tuple((at, at % 2 == 0) for at in range(10_000)), notes=("x" * 400,) * 100),
        "Exploration": explored, "LevelComparison": lambda: LevelComparison("orders", {
            "x" * 40 + str(at): explored() for at in range(3)}),
        "Moment": lambda: played().moment, "Play": played,
        "Blame": lambda: blamed(wide_rows),
        "PostMortem": much_of_everything,
        "ChecksumVerification": lambda: ChecksumVerification("orders", 7, different),
        "LockManager": lambda: manager, "Transaction": lambda: locked,
        "Cycle": lambda: Cycle(tuple(
            Wait(at, "x" * 400, 1, b"k%d" % at, "shared", "unlocked", ((1, b"j", "exclusive"),) * 100, at, at)
            for at in range(1000)), 1),
        "LockGraph": manager.graph, "LockTimeline": manager.timeline,
        "Catalog": lambda: catalog, "UnityCatalog": lambda: unity_catalog(Path(table.path).parent),
        "CatalogHistory": catalog.history,
        "CatalogSnapshot": lambda: catalog.snapshot(["shop.orders", "shop.totals"]),
        "CatalogTransaction": lambda: busy, "CatalogTransaction, failed": lambda: lost_together,
        "GroupCommit": lambda: grid, "IcebergTable": lambda: wide,
        "StepFrame, of several tables": lambda: stepped.frame,
        "Stepper, of several tables": lambda: stepped,
        "CatalogTimeline": catalog.timeline,
        "StreamState": lambda: streamed, "TableStream": lambda: TableStream(streamed),
        "FileLayout": lambda: table.layout("id", "id > 3 AND day = 3"),
    }
    assert tuple(made) == KINDS
    return made
