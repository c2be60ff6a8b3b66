"""The views of tables, snapshots, transactions, actions and history, on real objects."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import time
from typing import Any

import pytest

import deltanb
from deltanb import actions
from deltanb.actions import AddFile, DeletionVector
from deltanb.commands.result import CommandResult
from deltanb.log.history import History, HistoryEntry
from deltanb.notebook import bundle
from deltanb.notebook.drawing import html, text
from deltanb.notebook.views import history, tables
from deltanb.notebook.views import registry as views
from deltanb.options import SeededIds, StepClock, set_options
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.operations import Operation
from tests.notebook.looks import assert_consistent, assert_golden
from tests.notebook.samples import TIME

MAX_SECONDS = 0.05  # to draw one object; the best of several, so that a busy machine does not count


@pytest.fixture(autouse=True)
def _still() -> None:
    set_options(clock=lambda: TIME, new_id=SeededIds(1), user_name="analyst")


def file(name: str, day: str = "2026-03-02", size: int = 4100) -> AddFile:
    stats = {"numRecords": 120, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    return AddFile(f"day={day}/{name}.parquet", {"day": day}, size, TIME, stats=json.dumps(stats))


def orders(store: MemoryStore | None = None) -> DeltaLog:
    """A partitioned table of five versions."""
    made = TableBuilder(store or MemoryStore("memory:///lake/orders")).create(
        "id long, qty integer, day string", partition_by=["day"],
        properties={"delta.appendOnly": "false"})
    for at in range(4):
        txn = made.log.start_transaction()
        parts = [file(f"part-{at}-{i}", f"2026-03-0{i}", 4100 * (i + 1)) for i in range(3)]
        txn.commit(parts, Operation("WRITE", {"mode": "Append", "partitionBy": ["day"]},
                                    metrics={"numFiles": 3, "numOutputRows": 360}))
    return made.log


def lost_race() -> tuple[Any, Any]:
    """A transaction that lost a race and went on, and one that failed."""
    log = orders()
    mine, other = log.start_transaction(), log.start_transaction()
    files = list(mine.filter_files("day = '2026-03-02'"))
    mine.txn_version("stream-1")
    winner = log.start_transaction()
    winner.commit([file("part-0131"), file("part-0132")], Operation("MERGE"))
    other.commit([file("part-0140", "2026-03-04")], Operation("WRITE", {"mode": "Append"}))
    removes = [files[0].remove(), file("part-0010")]
    with pytest.raises(Exception, match="conflict"):
        mine.commit(removes, Operation("DELETE", {"predicate": ["day = '2026-03-02'"]}))
    return other, mine


# -- tables and snapshots --------------------------------------------------------------------------


def test_table(update_golden: bool) -> None:
    table = DeltaTable(orders())
    assert_consistent(table)
    assert_golden(table, "table", update_golden)
    assert str(table).split("\n")[:3] == [
        "Table orders  v4  Serializable",
        "12 files  98.4 kB  1\u00a0440 rows  3 columns  partitioned by day",
        "last: WRITE 2026-03-02 09:14:22 UTC by analyst",
    ]


def test_repr_is_one_line_that_says_what_and_which() -> None:
    table = DeltaTable(orders())
    assert repr(table) == "<DeltaTable orders, v4, Serializable>"
    assert repr(table.snapshot) == "<Snapshot orders, v4, Serializable>"
    assert repr(table.history()[4]) == (
        "<HistoryEntry Commit v0, 2026-03-02 09:14:22 UTC, operation not recorded>")
    assert repr(file("part-0131")) == "<AddFile + part-0131.parquet, day=2026-03-02, 120 rows, 4.1 kB>"
    assert repr(CommandResult("DELETE", 3, "log", {"numDeletedRows": 4})) == (
        "<CommandResult DELETE, ✓ committed v3, log only>")
    long = repr(CommandResult("DELETE" * 30, 3, "log"))
    assert len(long) == 88 and long.endswith("…>")


def test_table_at_a_version() -> None:
    newest = DeltaTable(orders()).as_of(4)
    assert str(newest).startswith("Table orders  as of version 4  Serializable\n")
    table = DeltaTable(orders()).as_of(1)
    assert_consistent(table)
    assert str(table).startswith("Table orders  as of version 1  3 behind latest  Serializable\n")


def test_snapshot(update_golden: bool) -> None:
    snapshot = orders().snapshot
    page = assert_consistent(snapshot)
    assert_golden(snapshot, "snapshot", update_golden)
    assert "Files file" in page.text


def test_files_are_the_largest_with_the_number_of_all() -> None:
    with set_options(max_rows=5):
        page = assert_consistent(orders().snapshot)
    assert "Files: showing 5 of 12 files" in page.text
    assert page.text.count("12.3 kB") == 4 + 1  # four of them are the largest; the summary says it
    assert page.text.count("8.2 kB") == 1


def test_no_table_says_how_to_make_one() -> None:
    log = DeltaLog.for_table(MemoryStore("memory:///lake/new"))
    log.update()
    assert str(log) == "Log new  no commits yet"
    assert str(log.snapshot) == (
        'Snapshot new  not created yet\ncreate it: deltanb.create("new", data)'
    )
    assert_consistent(log.snapshot)


def test_looking_reads_nothing_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    log = orders()
    table, snapshot = DeltaTable(log), log.snapshot

    def refuse(*args: Any) -> Any:
        raise AssertionError(f"read {args}")

    for name in ("read", "status", "list_from", "list_names", "open_input"):
        monkeypatch.setattr(log.store, name, refuse)
    for obj in (table, snapshot, log, log.snapshot):
        assert "cannot be shown" not in str(obj)


def test_a_long_list_in_a_checkpoint_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory:///lake/orders")
    orders(store).checkpoint()
    monkeypatch.setattr(tables, "MAX_LISTED", 11)
    log = DeltaLog(store)
    snapshot = log.update()
    text_before = str(snapshot)
    assert "about 12 files  3 columns" in text_before
    assert "\nrows not counted yet; table.count() counts them\n" in text_before
    assert snapshot._state.files._parts is None
    assert_consistent(snapshot)
    assert snapshot.num_files == 12  # now it is known, and said
    assert "12 files  98.4 kB" in str(snapshot) and "about" not in str(snapshot)
    monkeypatch.setattr(tables, "MAX_LISTED", 12)
    assert "1\u00a0440 rows" in str(snapshot) and "not counted" not in str(snapshot)


def counts(*stats: str | None) -> tuple[str, str]:
    """What the card of a snapshot of files with these statistics says: the counts, and the line below."""
    made = TableBuilder(MemoryStore("memory:///lake/counted")).create("id long")
    made.commit(*(AddFile(f"{at}.parquet", {}, 1, TIME, stats=one) for at, one in enumerate(stats)))
    snapshot = made.log.update()
    assert_consistent(snapshot)
    return tuple(str(snapshot).split("\n")[1:3])


def test_a_card_says_how_many_rows_its_files_tell_of() -> None:
    three = '{"numRecords":3}'
    assert counts(three, three)[0] == "2 files  2 B  6 rows  1 column  not partitioned"
    assert counts(three, None, "{no json") == (
        "3 files  3 B  at least 3 rows  1 column  not partitioned",
        "rows not recorded for 2 of 3 files; table.count() counts them")
    assert counts(None) == (
        "1 file  1 B  1 column  not partitioned", "rows not recorded; table.count() counts them")


def test_deleted_rows_are_not_counted() -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = deltanb.create(MemoryStore(), {"coins": list(range(10))}, properties=properties)
    table.delete("coins < 3")
    assert "  7 rows  " in str(table) and table.count() == 7
    assert "  10 rows  " in str(table.as_of(0))


def test_many_statistics_are_not_parsed_for_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows is left out, until somebody has counted them."""
    monkeypatch.setattr(tables, "MAX_STATISTICS", 5)
    table = deltanb.create(MemoryStore(), {"coins": [1, 2], "pond": ["a", "b"]}, partition_by="pond")
    assert "2 rows" in str(table)
    table.append({"coins": [3], "pond": ["c"]})
    assert "rows not counted yet; table.count() counts them" in str(table)
    assert table.count() == 3
    assert "3 rows" in str(table) and "not counted" not in str(table)


def test_features_we_do_not_have_are_named() -> None:
    made = TableBuilder(MemoryStore("memory:///lake/new")).create("id long")
    made.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7,
                              "readerFeatures": ["timeMachine"], "writerFeatures": ["timeMachine"]}})
    page = assert_consistent(made.log.update())
    assert "✕ not supported: timeMachine" in page.text


def test_a_schema_of_thousands_of_columns() -> None:
    columns = ", ".join(f"a_rather_long_name_{i} long" for i in range(3000))
    snapshot = TableBuilder(MemoryStore("memory:///lake/wide")).create(columns).log.update()
    page = assert_consistent(snapshot)
    assert "showing 200 of 3 000 columns" in page.text
    assert "and 2 988 more" in page.text


def test_names_cannot_break_out() -> None:
    made = TableBuilder(MemoryStore("memory:///lake/<b>x</b>")).create("id long")
    made.log.update()
    page = assert_consistent(DeltaTable(made.log))
    assert "<b>x</b>" not in page.text  # '/' ends a name, so the last part is 'b>'
    assert [tag for tag, _ in page.tags].count("b") == 1


# -- transactions ----------------------------------------------------------------------------------


def test_columns_of_any_name_are_shown_and_stay_on_their_line() -> None:
    """A diff has a column "change" of its own, a table may have one, too."""
    bad = "a\n\x1b\u202e"
    table = deltanb.create(MemoryStore("memory:///ducks"), {"change": [1], bad: ["x"]},
                           properties={"delta.columnMapping.mode": "name"})
    table.append({"change": [7], bad: ["y"]})
    for shown in (table.diff(0), table.time_travel()):
        text_shown = str(shown)
        assert all(character.isprintable() for character in text_shown.replace("\n", ""))
        assert len(text_shown.split("\n")) <= text.MAX_LINES
        assert "\x1b" not in json.dumps(bundle.mimebundle(shown)["text/html"], ensure_ascii=False)
    lines = [line.split() for line in str(table.diff(0)).split("\n")]
    assert ["change", "change", "a\\n\\x1b\\u202e"] in lines
    assert ["+", "added", "7", "y"] in lines


def test_open_transaction(update_golden: bool) -> None:
    log = orders()
    txn = log.start_transaction()
    assert str(txn).startswith("Transaction orders  open  read v4  0 reads  nothing to write yet")
    txn.filter_files("day = '2026-03-02'", "qty < 0")
    txn.txn_version("stream-1")
    assert_consistent(txn)
    assert_golden(txn, "transaction_open", update_golden)


def test_looking_does_not_move_the_clock() -> None:
    clock = StepClock(TIME)
    set_options(clock=clock)
    txn = orders().start_transaction()
    before = clock.now
    for obj in (txn, txn.snapshot, DeltaTable(txn.log)):
        bundle.mimebundle(obj)
    assert clock.now == before > TIME


def test_committed_transaction(update_golden: bool) -> None:
    won, _ = lost_race()
    assert str(won).startswith("Transaction orders  ✓ committed v6  2 attempts  read v4\n")
    assert "Lost races  v5 to MERGE" in str(won)
    assert_consistent(won)
    assert_golden(won, "transaction_committed", update_golden)


def test_failed_transaction_ends_with_its_conflict(update_golden: bool) -> None:
    _, lost = lost_race()
    assert str(lost).startswith(
        "Transaction orders  ✕ failed at v5  ConcurrentAppend  nothing written\n")
    page = assert_consistent(lost)
    assert page.text.count("← matches your predicate") == 2
    assert page.text.count("Nothing was written.") == 1
    assert_golden(lost, "transaction_failed", update_golden)


def test_transaction_far_behind_says_so() -> None:
    log = orders()
    txn = log.start_transaction(snapshot=log.snapshot_at(0))
    assert "far behind" not in str(txn)
    for at in range(6):
        log.start_transaction().commit([file(f"later-{at}")], Operation("WRITE"))
    assert "far behind: 10 versions came since it began" in str(txn)


def test_transaction_refused_for_another_reason() -> None:
    txn = orders().start_transaction()
    with pytest.raises(Exception, match="."):
        txn.commit([file("a"), file("a")], Operation("WRITE"))
    assert_consistent(txn)


def test_operation() -> None:
    operation = Operation("DELETE", {"predicate": ["day = '2026-03-02'"]})
    forms = bundle.mimebundle(operation)
    assert forms["text/plain"].startswith("Operation DELETE  changes data\nParameters")
    assert_consistent(operation)


# -- actions ---------------------------------------------------------------------------------------

VECTOR = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 36, 3, 1)
ACTIONS = {
    "add": file("part-0131"),
    "add_with_vector": file("part-0131").replace(deletion_vector=VECTOR, data_change=False),
    "remove": file("part-0131").remove(deletion_timestamp=TIME),
    "cdc": actions.AddCDCFile("_change_data/cdc-1.parquet", {}, 700),
    "metadata": actions.Metadata(
        "11111111-1111-1111-1111-111111111111",
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
        ("id",), {f"delta.p{i}": "1" for i in range(5)}),
    "protocol": actions.Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")),
    "txn": actions.SetTransaction("stream-1", 8),
    "domain": actions.DomainMetadata("app.lineage", '{"step":3}'),
    "domain_removed": actions.DomainMetadata("app.lineage", "", True),
    "commit_info": actions.CommitInfo(operation="MERGE", user_name="etl-b", timestamp=TIME,
                                      read_version=16),
    "sidecar": actions.Sidecar("016ae953-37a9-438e-8683-9a9a4a79a395.parquet", 9000, TIME),
    "unknown": actions.from_json('{"shiny": {"new": [1, 2]}}'),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_one_line(name: str) -> None:
    action = ACTIONS[name]
    assert "\n" not in str(action)
    assert_consistent(action)


def test_the_lines_of_actions(update_golden: bool) -> None:
    lines = {name: str(action) for name, action in ACTIONS.items()}
    assert lines["add"] == "+ part-0131.parquet  day=2026-03-02  120 rows  4.1 kB"
    assert lines["add_with_vector"].endswith("3 rows deleted  data unchanged")
    assert lines["remove"].startswith("− part-0131.parquet  day=2026-03-02")
    assert lines["txn"] == "transaction of stream-1  version 8"
    assert lines["commit_info"] == "commit  MERGE  by etl-b  2026-03-02 09:14:22 UTC  read v16"
    assert lines["unknown"] == 'shiny {"new":[1,2]}'
    assert_golden(ACTIONS["add"], "action_add", update_golden)


def test_statistics_become_a_table() -> None:
    page = assert_consistent(ACTIONS["add"])
    assert "Statistics column" in page.text
    nested = file("a").replace(stats='{"minValues":{"a":{"b":3}},"nullCount":{"a":{"b":0}}}')
    assert "a.b" in assert_consistent(nested).text
    broken = file("a").replace(stats="{no json")
    assert "not readable" in assert_consistent(broken).text


def test_an_action_of_enormous_size() -> None:
    values = {f"c{i}": "x" * 300 for i in range(5000)}
    huge = file("a").replace(stats=json.dumps({"minValues": values}), tags=values)
    assert_consistent(huge)


# -- history ---------------------------------------------------------------------------------------


def test_history(update_golden: bool) -> None:
    commits = orders().history()
    page = assert_consistent(commits)
    for column in history.COLUMNS:
        assert column in page.text
    lines = str(commits).split("\n")
    assert lines[0] == "History orders"
    assert lines[2].split()[0] == "version" and lines[3].split()[0] == "4"
    assert lines[3].endswith("+3 files, 360 rows written")
    assert_golden(commits, "history", update_golden)


def test_long_history_is_capped() -> None:
    entries = [HistoryEntry(at, TIME, operation="WRITE") for at in range(300, 0, -1)]
    page = assert_consistent(History(entries, "orders"))
    assert "showing 20 of 300 commits" in page.text
    lines = str(History(entries, "orders")).split("\n")
    assert len(lines) == text.MAX_LINES
    assert "… 292 more commits" in lines[-1]
    assert str(History((), "orders")) == "History orders  no commits yet"
    assert "300 commits" in str(History(entries[:5], "orders", 300))


def test_one_commit() -> None:
    entry = HistoryEntry(20, TIME, operation="DELETE", user_name="analyst", operation_metrics={"a": 1})
    assert str(entry) == "Commit v20  2026-03-02 09:14:22 UTC  DELETE  by analyst"
    assert_consistent(entry)


def test_who_committed_is_in_the_text_and_in_the_html() -> None:
    """The user; where a writer names none, its engine; where it names neither, nobody."""
    entries = [HistoryEntry(2, TIME, "WRITE", user_name="ada", engine_info="Apache-Spark/4.0.0"),
               HistoryEntry(1, TIME, "WRITE", engine_info="Apache-Spark/4.0.0"), HistoryEntry(0, TIME)]
    commits = History(entries, "orders")
    rows = [re.split(r"  +", line)[2] for line in str(commits).split("\n")[3:]]
    assert rows == ["ada", "Apache-Spark", "–"]
    page = assert_consistent(commits)
    assert "ada" in page.text and "by ada" in str(entries[0])


def test_what_a_commit_did_is_cut_last() -> None:
    metrics = {"numFiles": "9", "numOutputRows": "252484"}
    entry = HistoryEntry(0, TIME, "CREATE TABLE AS SELECT", operation_metrics=metrics, user_name="analyst")
    line = str(History([entry], "orders")).split("\n")[3]
    assert units.width(line) == units.MAX_COLUMNS or not line.endswith("…")
    assert line.endswith("  +9 files, 252\u00a0484 rows written") and "CREATE TABLE" in line


def test_a_commit_is_one_line_and_all_else_unfolds_from_it() -> None:
    metrics = {"numAddedFiles": "5", "numRemovedFiles": 7, "numOutputRows": "18", "scanTimeMs": "40"}
    entry = HistoryEntry(20, TIME, "WRITE", {"mode": "Append"}, operation_metrics=metrics, read_version=19,
                         extra={"clientVersion": "delta-rs.0.30"})
    commits = History([entry, HistoryEntry(19, TIME)], "orders")
    assert str(commits).split("\n")[3].endswith("WRITE      +5 −7 files, 18 rows written")
    assert "scanTimeMs" not in str(commits)
    rich = bundle.mimebundle(commits)[bundle.HTML].replace("\n", "")
    rows = re.findall(r"<tr><td[^>]*>\d+</td>.*?</details></td></tr>", rich)
    assert len(rows) == 2
    folded = re.search(r"<details><summary>(.*?)</summary>(.*)</details>", rows[0])
    assert folded is not None and folded[1] == "+5 −7 files, 18 rows written"
    for detail in ("mode=Append", "scanTimeMs=40", "readVersion", "delta-rs.0.30"):
        assert detail in folded[2] and detail not in rows[0].split("<details>")[0]
    assert "<details open" not in rows[0]
    assert_consistent(commits)


# -- all of them -----------------------------------------------------------------------------------


def test_drawing_is_quick() -> None:
    log = orders()
    _, lost = lost_race()
    for obj in (DeltaTable(log), log.snapshot, lost, lost.conflict, ACTIONS["add"]):
        times = []
        for _ in range(5):
            start = time.process_time()
            bundle.mimebundle(obj)
            times.append(time.process_time() - start)
        assert min(times) <= MAX_SECONDS, type(obj).__name__


def test_what_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(LookupError, match="no view of int"):
        views.fields(3)


def test_more_than_fits_gives_up_rows() -> None:
    values = {f"key{i}": "ü" * 390 for i in range(400)}
    with set_options(max_rows=400):
        page = assert_consistent(Operation("WRITE", values))
    assert "showing 50 of 400 parameters" in page.text
    assert html.MAX_BYTES == 60_000


def test_every_displayable_class_has_a_view() -> None:
    """Found by importing what is there: a new class without a view is noticed here."""
    skipped = ("deltanb.engines.spark", "deltanb.sources.spark", "deltanb.spark", "deltanb.app.cli")
    for module in pkgutil.walk_packages(deltanb.__path__, "deltanb."):
        if not module.name.startswith(skipped):
            importlib.import_module(module.name)
    classes, viewed = [Displayable], set()
    while classes:
        for cls in classes.pop().__subclasses__():
            if cls.__module__.startswith("deltanb."):
                classes.append(cls)
                viewed.add(cls)
    assert len(viewed) >= 20
    assert {cls.__name__ for cls in viewed if not views.is_known(cls) and not cls.__subclasses__()} == set()


# -- schemas, details, scans -----------------------------------------------------------------------


def test_a_schema_is_a_tree() -> None:
    schema = deltanb.create(
        MemoryStore(), "id BIGINT NOT NULL, address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>, "
        "stops ARRAY<STRUCT<at: TIMESTAMP>>, seen MAP<STRING, STRUCT<n: BIGINT>>").schema
    assert schema.tree().split("\n") == [
        "├─ id: long not null",
        "├─ address: struct",
        "│  ├─ city: string",
        "│  └─ zip: string",
        "├─ tags: array<string>",
        "├─ stops: array",
        "│  └─ element: struct",
        "│     └─ at: timestamp",
        "└─ seen: map",
        "   ├─ key: string not null",
        "   └─ value: struct",
        "      └─ n: long",
    ]
    page = assert_consistent(schema)
    assert "5 columns" in page.text and "Columns column type" in page.text and "└─" in page.text
    assert str(schema).startswith("struct<id: long not null, "), "in a message it stays one line"


def test_detail_is_a_dict_that_is_shown() -> None:
    detail = DeltaTable(orders()).detail()
    assert isinstance(detail, dict) and detail["numFiles"] == 12 and dict(detail) == detail
    page = assert_consistent(detail)
    assert repr(detail) == "<TableDetail orders>"
    assert str(detail).startswith("Detail orders\nFields")
    assert "partitionColumns day" in " ".join(page.text.split())


def test_the_files_of_a_scan_are_shown() -> None:
    txn = orders().start_transaction()
    scan = txn.filter_files("day = '2026-03-02'")
    page = assert_consistent(scan)
    assert repr(scan) == f"<FileScan {len(scan)} files, {units.size(sum(f.size for f in scan))}>"
    assert str(scan).split("\n")[2].split() == ["file", "partition", "rows", "size"]
    assert "day=2026-03-02" in page.text
    none = txn.filter_files("day = '1999-01-01'")
    assert repr(none) == "<FileScan no files>" and "none can hold such rows" in str(none)
    assert_consistent(none)


def test_a_schema_is_one_line_whatever_is_in_it() -> None:
    long = PrimitiveType("long")
    one = StructType([StructField("id", long, False), StructField("s", StructType([StructField("a", long)]))])
    assert repr(one) == "<StructType id: long not null, s: struct<a: long>>"
    assert repr(StructType()) == "<StructType>"
    wide = repr(StructType([StructField(f"column {at}\n", long) for at in range(1000)]))
    assert wide.startswith("<StructType column 0\\n: long, ") and wide.endswith("…>")
    assert len(wide) <= 88 and "\n" not in wide
