"""Files of which a part is encoded anew: the same rows and statistics, and nothing decoded without need."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddCDCFile, AddFile
from deltanb.engines.arrow import copyable
from deltanb.errors import ConstraintViolation, InvalidTable, SchemaMismatch
from deltanb.parquet import encodings
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.engines.arrow.copies import ENCODE, OTHERS, SETTINGS, added, foreign, rows, table_of
from tests.examples import crossed
from tests.helpers import last_commit

pytestmark = pytest.mark.usefixtures("small")
Command = Callable[[DeltaTable], Any]

def merge(table: DeltaTable, ids: list[int]) -> Any:
    every = rows(0, max(ids) + 1).take(pa.array(ids))
    source = every.set_column(4, "name", pa.array(["new"] * len(ids)))
    return table.merge(source.select(table.schema.names), "target.id = source.id").when_matched_update_all(
        ).when_not_matched_insert_all().execute()


COMMANDS: dict[str, Command] = {
    "delete a few": lambda table: table.delete("id BETWEEN 300 AND 310 OR id = 1799"),
    "delete row groups": lambda table: table.delete("id >= 250 AND id < 501"),
    "update a number": lambda table: table.update({"x": "x + 1"}, "id BETWEEN 200 AND 1300"),
    "update two columns": lambda table: table.update(
        {"name": "upper(name)", "id": "id + 5000"}, "id < 650 AND id % 3 = 0"),
    "update all": lambda table: table.update({"even": "NOT even", "nothing": 7}),
    "update a field": lambda table: table.update({"inside.f": "x"}, "small < 50"),
    "update a list": lambda table: table.update({"list": None}, "day > DATE'1970-06-01'"),
    "merge": lambda table: merge(table, [310, 305, 300, 1750, 5000]),
    "merge and delete": lambda table: table.merge(
        rows(280, 30).select(["id", "name"]), "target.id = source.id").when_matched_delete(
            "source.name IS NULL").when_matched_update(set={"name": "'new'"}).execute(),
    "merge by source": lambda table: table.merge({"id": list(range(320, 5000))}, "target.id = source.id"
        ).when_not_matched_by_source_update("target.id > 300", set={"x": "0"}).execute(),
    "merge with several clauses": lambda table: table.merge(
        rows(280, 400).select(["id", "name", "x"]), "target.id <=> source.id AND target.small < 90"
        ).when_matched_update("source.id < 300", set={"name": "concat(target.name, source.name)"}
        ).when_matched_update("source.id % 2 = 0", set={"inside.f": "source.x + target.f", "list": "NULL"}
        ).when_not_matched_by_source_update("target.id > 1700", set={"price": "target.price + 1"}
        ).when_matched_delete("target.id BETWEEN 600 AND 610").execute(),
    "move": lambda table: table.update({"part": 1, "f": 0.5}, "id < 300"),
}
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = {**SETTINGS, "change feed": {"properties": FEED},
          "mapped by ids": {"properties": {"delta.columnMapping.mode": "id"}},
          "row ids": {"properties": {"delta.enableRowTracking": "true"}},
          "few statistics": {"properties": {"delta.dataSkippingStatsColumns": "x,name,inside"}}}


def table_with(settings: dict[str, Any], where: Any = None) -> DeltaTable:
    return table_of(where or MemoryStore(), rows(0), rows(600, 1), rows(601, 1199), **settings)


@pytest.mark.parametrize(("settings", "command"), crossed(3, list(TABLES), list(COMMANDS)))
def test_rows_and_statistics_are_those_of_files_that_are_encoded_anew(
    monkeypatch: pytest.MonkeyPatch, settings: str, command: str,
) -> None:
    table = table_with(TABLES[settings])
    start = table.version
    seen = content_after(COMMANDS[command], table)
    monkeypatch.setattr(copyable, "LEAST_ROWS", ENCODE)
    table.restore(start)
    expected = content_after(COMMANDS[command], table)
    assert seen == expected
    assert not table.verify_checksum().differences


def content_after(command: Command, table: DeltaTable) -> list[Any]:
    """What the log and the files say after a command: metrics, statistics, rows and changes."""
    result = command(table)
    metrics = {key: value for key, value in result.metrics.items()
               if "Time" not in key and "Bytes" not in key}
    files = sorted(added(table), key=lambda file: (file[0].get("part") or "", file[1]))
    seen = [metrics, files, table.to_arrow().sort_by("id").to_pylist()]
    if table.properties.get("delta.enableChangeDataFeed") == "true":
        changes = table.changes(table.version).to_arrow().sort_by(
            [("id", "ascending"), ("_change_type", "ascending")])
        assert last_commit(table, AddCDCFile) and changes.num_rows
        seen.append(changes.drop_columns(["_commit_version", "_commit_timestamp"]).to_pylist())
    return seen


# --- what is decoded ------------------------------------------------------------------------------

@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many row groups of each column are decoded from here on."""
    counts: Counter[str] = Counter()
    batches, group = pq.ParquetFile.iter_batches, pq.ParquetFile.read_row_group

    def noted(file: Any, *args: Any, **options: Any) -> Any:
        counts.update(name for name in options["columns"] for _ in options["row_groups"])
        return batches(file, *args, **options)

    def noted_group(file: Any, number: int, columns: list[str]) -> Any:
        counts.update(columns)
        return group(file, number, columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted_group)
    return counts


PLAIN = ["id", "x", "name", "day"]


def plain(*parts: pa.Table, **settings: Any) -> DeltaTable:
    pieces = parts or [rows(0), rows(600)]
    return table_of(MemoryStore(), *[part.select(PLAIN) for part in pieces], **settings)


def test_an_update_decodes_the_columns_that_it_needs_and_encodes_those_that_it_gives(
    work: Counter[str]
) -> None:
    table = plain(rows(0, 250))
    table.update({"x": "x + 1"}, "id >= 0")
    assert work == {"id": 1, "x": 1}
    table.update({"day": "DATE'2000-01-01'"})
    assert work == {"id": 1, "x": 1, "day": 1}


def test_a_delete_decodes_only_row_groups_with_a_row_that_goes(work: Counter[str]) -> None:
    table = plain()
    table.delete("id BETWEEN 300 AND 310")
    # all of "id" is searched, and decoded again in the row group that is written anew; the floats of the row
    # groups that stay are measured for the statistics
    assert work == {"id": 3 + 1, "name": 1, "day": 1, "x": 1 + 2}
    groups = pq.ParquetFile(io.BytesIO(table.log.store.read(added_path(table)))).metadata
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [250, 239, 100]


def test_a_merge_decodes_only_row_groups_with_a_row_that_changes(work: Counter[str]) -> None:
    table = plain()
    merge(table, [310, 5000])
    # of the file that may hold 310 all keys are searched, and floats that stay measured for the statistics
    assert work == {"id": 3, "name": 1, "day": 1, "x": 1 + 2}
    assert table.to_arrow(where="id IN (310, 5000)")["name"].to_pylist() == ["new", "new"]
    assert table.count() == 1201


def test_a_merge_decodes_the_columns_that_change_and_leaves_rows_in_their_places(work: Counter[str]) -> None:
    table = plain(rows(0, 250))
    before = table.to_arrow()
    work.clear()
    source = before.set_column(2, "name", pa.array(["new"] * 250)).take([7, 200]).append_column(
        "more", pa.array([1.5, 2.5]))
    builder = table.merge(source, "target.id = source.id")
    builder.when_matched_update(set={"id": "source.id", "name": "source.name"}).execute()
    assert work == {"id": 1, "name": 1}
    names = ["new" if n in (7, 200) else name for n, name in enumerate(before["name"].to_pylist())]
    assert table.to_arrow().equals(before.set_column(2, "name", pa.array(names)))
    work.clear()
    builder.when_matched_update(set={"day": "DATE'2000-01-01'", "x": "source.more"}).execute()
    assert work == {"id": 1, "day": 1, "x": 1}
    values = before["x"].to_pylist()
    assert table.to_arrow()["x"].to_pylist()[199:202] == [values[199], 2.5, values[201]]


def test_a_merge_by_a_float_stores_the_zero_of_the_source() -> None:
    table = table_of(MemoryStore(), pa.table({"x": [0.0, *range(1, 250)], "id": list(range(250))}))
    table.merge({"x": [-0.0], "id": [7]}, "target.x = source.x").when_matched_update_all().execute()
    values = table.to_arrow(where="id = 7 AND x = 0")["x"].to_pylist()
    assert [math.copysign(1, x) for x in values] == [-1]


def added_path(table: DeltaTable) -> str:
    (file,) = last_commit(table, AddFile)
    return str(file.path)


def test_columns_that_are_copied_are_the_same_bytes() -> None:
    table = plain(rows(0, 250))
    (before,) = last_commit(table, AddFile)
    table.update({"name": "'other'"}, "id = 5")
    old, new = (table.log.store.read(path) for path in (before.path, added_path(table)))
    for place in (0, 1, 3):
        one, two = (pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(place)
                    for data in (old, new))
        start, other = (chunk.dictionary_page_offset or chunk.data_page_offset for chunk in (one, two))
        assert old[start:start + one.total_compressed_size] == new[other:other + two.total_compressed_size]
    group = pq.ParquetFile(io.BytesIO(new)).metadata.row_group(0)
    chunks = [group.column(place) for place in range(4)]
    assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)


@pytest.mark.parametrize("options", [*OTHERS.values(), {}], ids=[*OTHERS, "as ours"])
def test_files_of_another_form_are_encoded_anew(work: Counter[str], options: dict[str, Any]) -> None:
    table = table_of(MemoryStore(), rows(0).select(["id", "x", "name"]))
    foreign(table, 600, **options)
    table.update({"id": "id + 1"})
    assert work["name"] == (1 if options else 0)
    assert table.to_arrow()["id"].to_pylist() == [*range(1, 601), *range(601, 1201)]


@pytest.mark.parametrize("change", [
    lambda table: table.add_columns("more int"),
    lambda table: table.set_properties({"delta.parquet.compression.codec": "snappy"}),
    lambda table: table.add_constraint("early", "day < DATE'2100-01-01'")],
    ids=["another column", "another codec", "a constraint"])
def test_what_a_new_file_would_not_be_is_encoded_anew(work: Counter[str], change: Command) -> None:
    table = plain()
    change(table)
    work.clear()
    table.update({"x": "x + 1"})
    assert work["name"] == 6


def test_small_row_groups_are_decoded_and_put_together(
    monkeypatch: pytest.MonkeyPatch, work: Counter[str]
) -> None:
    monkeypatch.setattr(copyable, "LEAST_ROWS", 201)
    table = plain()  # 250, 250 and 100 rows, twice
    table.update({"x": "x + 1"})
    assert work == {"x": 6, "id": 2, "day": 2, "name": 2}


def test_of_a_file_with_deleted_rows_what_is_whole_is_copied(work: Counter[str]) -> None:
    table = plain(rows(0), properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 300")
    table.set_properties({"delta.enableDeletionVectors": "false"})
    before = table.to_arrow()
    work.clear()
    table.update({"x": "x + 1"})
    assert work == {"x": 3, "id": 1, "day": 1, "name": 1}
    assert table.to_arrow().drop_columns("x").equals(before.drop_columns("x"))
    assert added(table)[0][1].count('"numRecords":599') == 1


def test_new_values_are_checked() -> None:
    table = dn.create(MemoryStore(), "id long NOT NULL, name string, b byte")
    table.append({"id": list(range(600)), "name": ["n"] * 600, "b": [100] * 600})
    with pytest.raises(ConstraintViolation, match="'id' is violated in row 551"):
        table.update({"id": "CASE WHEN id = 550 THEN NULL ELSE id END"})
    with pytest.raises(SchemaMismatch, match="column 'b'"):
        table.update({"b": "b + 100"})
    assert table.version == 1 and len([name for name in table.log.store.files if "part-" in name]) == 1


def test_tables_that_give_values_to_new_rows_are_changed_as_others_are(work: Counter[str]) -> None:
    table = dn.create(MemoryStore(), "no long GENERATED ALWAYS AS IDENTITY, v long DEFAULT 3, "
                                     "twice long GENERATED ALWAYS AS (v * 2), name string NOT NULL")
    table.append({"v": list(range(600)), "name": ["n"] * 600})
    work.clear()
    table.delete("no = 1")
    assert work["name"] == 1
    table.update({"v": "v + 1"}, "no = 600")  # what is made of it follows: all of its row group is decoded
    assert work["name"] == 1 + 1
    table.merge({"name": ["n"], "v": [600]}, "target.v = source.v").when_matched_delete().execute()
    assert table.to_arrow().to_pylist() == [
        {"no": n + 1, "v": n, "twice": 2 * n, "name": "n"} for n in range(1, 599)]


@pytest.mark.parametrize("first", [math.nan, math.inf, -0.0, None])
def test_bounds_of_floats_are_those_of_the_rows_that_stay(first: float | None) -> None:
    values = [first, *[n * 0.5 for n in range(599)]]
    table = table_of(MemoryStore(), pa.table({"id": list(range(600)), "x": pa.array(values, pa.float64())}))
    table.delete("id = 599")
    stats = added(table)[0][1]
    other = table_of(MemoryStore(), table.to_arrow())
    assert stats == added(other)[0][1]


def test_files_end_at_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    table = plain(rows(0), rows(600), rows(1200), properties={"delta.targetFileSize": "9kb"})
    before = table.to_arrow()
    table.update({"x": "x + 1"})
    files = last_commit(table, AddFile)
    assert len(files) > 1 and sum(file.num_records for file in files) == 1800
    assert table.to_arrow().drop_columns("x").equals(before.drop_columns("x"))


# --- what others see ------------------------------------------------------------------------------

@pytest.mark.parametrize(
    "command", ["delete a few", "update a number", "update two columns", "update a field", "merge"])
def test_every_reader_reads_what_was_put_together(tmp_path: Path, command: str) -> None:
    table = table_with({}, tmp_path)
    COMMANDS[command](table)
    expected = table.to_arrow().sort_by("id")
    seen = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id")
    assert seen.to_pydict() == expected.to_pydict()
    names = [str(tmp_path / name) for name in table.snapshot.files["path"].to_pylist()]
    whole = pa.concat_tables([pq.read_table(name) for name in names]).sort_by("id")
    assert whole.to_pylist() == expected.to_pylist()
    theirs = polars.concat([polars.read_parquet(name) for name in names]).sort("id")
    assert theirs["name"].to_list() == expected["name"].to_pylist()
    relation = duckdb.read_parquet(names).order("id")
    assert [row[0] for row in relation.filter("id BETWEEN 300 AND 330").fetchall()] == [
        n for n in expected["id"].to_pylist() if 300 <= n <= 330]
    assert [row[2] for row in relation.fetchall()] == expected["x"].to_pylist()
    written = pq.ParquetFile(tmp_path / added_path(table)).schema
    assert written.equals(pq.ParquetFile(tmp_path / next(
        file.path for file in rows_of_version(table, 1))).schema)


def rows_of_version(table: DeltaTable, version: int) -> list[AddFile]:
    return [AddFile(path, {}, 0, 0) for path in table.as_of(version).snapshot.files["path"].to_pylist()]


# --- what goes wrong ------------------------------------------------------------------------------

@pytest.mark.parametrize("command", [lambda table: table.delete("id = 599"),
                                     lambda table: table.update({"id": "id + 1"})])
def test_a_damaged_page_is_not_copied(command: Command) -> None:
    store = MemoryStore()
    table = table_of(store, rows(0).select(PLAIN))
    path = table.snapshot.files["path"][0].as_py()
    content = bytearray(store.read(path))
    chunk = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(2)
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    store.files[path] = bytes(content), store.files[path][1]
    before = set(store.files)
    with pytest.raises(InvalidTable, match=path):
        command(table)
    assert set(store.files) == before


def test_files_written_again_have_the_dictionaries_that_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "MIN_ROWS", 100)
    table = table_of(MemoryStore(), *[part.select(["id", "small"]) for part in (rows(0), rows(600))])
    before = dictionaries(table, table.snapshot.files["path"][0].as_py())
    monkeypatch.setattr(encodings, "_mostly_differ", lambda column: pytest.fail("judged again"))
    table.delete("id % 100 = 7")
    assert dictionaries(table, added_path(table)) == before
    assert before == [False, True]


def dictionaries(table: DeltaTable, path: str) -> list[bool]:
    group = pq.ParquetFile(io.BytesIO(table.log.store.read(path))).metadata.row_group(0)
    return [group.column(place).has_dictionary_page for place in range(group.num_columns)]
