"""What whole, narrow, selective, limited and streamed scans read, counted; all give the same rows."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import LANE_ITEMS
from deltanb.engines.arrow import file_writer, read, row_groups
from deltanb.parquet.file import SafeFile, open_parquet
from deltanb.store.local import LocalStore

GROUP, GROUPS, FILES = 50, 4, 3
ROWS = GROUP * GROUPS * FILES
Row = dict[str, Any]
Verdict = Callable[[Row], bool | None]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read as large ones are, by two threads."""
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)
    monkeypatch.setattr(row_groups, "CODED_ROWS", 0)
    monkeypatch.setattr(read, "SMALL_SCAN_BYTES", 0)
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", GROUP)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 2)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """(object of a file, row group, columns) of all that is decoded, as it begins."""
    groups: list[Any] = []
    real = SafeFile.iter_batches

    def iter_batches(self: SafeFile, size: int, row_groups: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        groups.append((id(self), row_groups[0], tuple(columns)))
        yield from real(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(SafeFile, "iter_batches", iter_batches)
    return groups


def rows(number: int) -> pa.Table:
    """Those of one file: ids ascend, and ``n`` has its bounds in each row group."""
    start = number * GROUP * GROUPS
    ids = range(start, start + GROUP * GROUPS)
    return pa.table({
        "id": list(ids), "n": [0 if i % GROUP == 0 else 99 if i % GROUP == 1 else i * 37 % 97 for i in ids],
        "x": [None if i % 7 == 0 else i / 4 for i in ids],
        "place": [None if i % 11 == 0 else f"p{i * 31 % 5}" for i in ids],
        "name": [f"name {i}" for i in ids]})


def written(where: Any) -> dn.DeltaTable:
    table = dn.create(where, rows(0))
    for number in range(1, FILES):
        table.append(rows(number))
    return table


# -- how much is read ------------------------------------------------------------------------------


def test_a_whole_scan_decodes_each_row_group_once(tmp_path: Path, decoded: list[Any]) -> None:
    assert written(tmp_path / "t").to_arrow().num_rows == ROWS
    assert len(decoded) == FILES * GROUPS and {columns for *_, columns in decoded} == {
        ("id", "n", "x", "place", "name")}


def test_a_narrow_scan_decodes_its_columns(tmp_path: Path, decoded: list[Any]) -> None:
    assert written(tmp_path / "t").to_arrow(["x"]).num_rows == ROWS
    assert len(decoded) == FILES * GROUPS and {columns for *_, columns in decoded} == {("x",)}


def test_a_condition_by_which_rows_are_clustered_leaves_files_and_row_groups_out(
    tmp_path: Path, decoded: list[Any]
) -> None:
    matching = written(tmp_path / "t").to_arrow(where=f"id >= {GROUP * 5 + 3} AND id < {GROUP * 5 + 8}")
    assert matching["id"].to_pylist() == list(range(GROUP * 5 + 3, GROUP * 5 + 8))
    assert [(group, columns) for _, group, columns in decoded] == [
        (1, ("id",)), (1, ("n", "x", "place", "name"))]


def test_a_condition_on_scattered_values_decodes_other_columns_where_rows_match(
    tmp_path: Path, decoded: list[Any]
) -> None:
    expected = [i for i, n in enumerate(_all("n")) if n == 42]
    matching = written(tmp_path / "t").to_arrow(["name"], "n = 42")
    assert matching["name"].to_pylist() == [f"name {i}" for i in expected]
    assert sum(columns == ("n",) for *_, columns in decoded) == FILES * GROUPS
    late = sum(columns == ("name",) for *_, columns in decoded)
    assert late == len({i // GROUP for i in expected}) < FILES * GROUPS


class _Counting(io.FileIO):
    bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = super().read(-1 if size is None else size) or b""
        _Counting.bytes_read += len(data)
        return data


class _CountingStore(LocalStore):
    """A folder of which it is counted how many bytes of data files are read."""

    def open_input(self, name: str) -> pa.NativeFile:
        if not name.endswith(".parquet"):
            return super().open_input(name)
        return pa.PythonFile(_Counting(self.local_path(name), "rb"), "r")


def test_a_limit_reads_no_more_of_a_row_group_than_its_rows_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 1 << 20)
    generator = random.Random(5)
    values = [generator.random() for _ in range(300_000)]
    dn.create(tmp_path / "t", {"a": values, "b": values[::-1]})
    dn.DeltaLog.clear_cache()
    table = dn.DeltaTable(dn.DeltaLog.for_table(_CountingStore(tmp_path / "t")))
    size = table.snapshot.size_in_bytes

    def counted(work: Callable[[], Any]) -> int:
        _Counting.bytes_read = 0
        work()
        return _Counting.bytes_read

    assert counted(table.to_arrow) >= size
    few = counted(lambda: table.to_arrow(limit=10))
    assert 0 < few < size // 2
    assert counted(table.head) == few
    assert counted(lambda: list(table.to_batches(limit=10))) == few
    assert table.to_arrow(limit=10)["b"].to_pylist() == values[::-1][:10]


@pytest.mark.parametrize("take", [1, 4, 9])
def test_a_stream_that_is_drained_slowly_has_few_row_groups_in_flight(
    tmp_path: Path, decoded: list[Any], take: int
) -> None:
    table = written(tmp_path / "t")
    stream = table.to_batches()
    for _ in range(take):
        next(stream)
    # Both threads have one row group in the works, and LANE_ITEMS of them wait; each is one batch here.
    assert take <= len(decoded) <= take + 2 * (LANE_ITEMS + 1)
    rest = sum(batch.num_rows for batch in stream)
    assert rest + take * GROUP == ROWS and len(decoded) == FILES * GROUPS


# -- texts that come again and again ----------------------------------------------------------------


def coded(table: pa.Table, names: list[str], **options: Any) -> list[int]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1000, **options)
    file = open_parquet(pa.BufferReader(sink.getvalue()))
    return row_groups.coded(file, list(file.schema_arrow), names)


def test_texts_that_come_again_are_read_as_dictionaries_and_others_are_not() -> None:
    few = [f"place {n % 7}" for n in range(3000)]
    table = pa.table({
        "pair": [{"a": 1, "b": "x"}] * 3000, "few": few, "many": [f"name {n}" for n in range(3000)],
        "rare": [f"name {n}" if n % 10 == 0 else None for n in range(3000)],
        "null": pa.nulls(3000, pa.string()),
        "number": [n % 3 for n in range(3000)], "also": few})
    assert coded(table, table.schema.names) == [2, 5 + 2]
    assert coded(table, ["also", "many"]) == [7]
    assert coded(table, table.schema.names, use_dictionary=False) == []
    assert coded(table, table.schema.names, write_statistics=False) == []


@pytest.mark.parametrize(("encoding", "text"), [
    ("DELTA_BYTE_ARRAY", "the same for all"), ("DELTA_LENGTH_BYTE_ARRAY", "")])
def test_texts_in_pages_that_arrow_reads_as_no_dictionary_are_read_as_texts(
    tmp_path: Path, encoding: str, text: str
) -> None:
    table = pa.table({"place": [text] * 3000, "other": ["a", "b"] * 1500})
    options: dict[str, Any] = {"use_dictionary": ["other"], "column_encoding": {"place": encoding}}
    assert coded(table, table.schema.names, **options) == [1]
    pq.write_table(table, tmp_path / "file.parquet", **options)
    assert dn.convert(tmp_path).to_arrow().equals(table)


def test_a_footer_that_takes_longer_than_its_rows_is_not_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"few": ["a", "b"] * 1500, "n": range(3000)})
    monkeypatch.setattr(row_groups, "CODED_ROWS", 500)
    assert coded(table, ["few"]) == [0]
    monkeypatch.setattr(row_groups, "CODED_ROWS", 501)  # three row groups of two columns
    assert coded(table, ["few"]) == []


def test_a_footer_that_contradicts_itself_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafeFile, "is_sound", False)
    assert coded(pa.table({"few": ["a", "b"] * 1500}), ["few"]) == []


def test_what_was_read_as_a_dictionary_is_text_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 1000)
    opened: list[list[int]] = []
    real = SafeFile.with_codes

    def with_codes(self: SafeFile, leaves: list[int], **options: Any) -> SafeFile:
        opened.append(leaves)
        return real(self, leaves, **options)

    monkeypatch.setattr(SafeFile, "with_codes", with_codes)
    places = [None if n % 13 == 0 else f"place {n % 7}" for n in range(3000)]
    table = dn.create(tmp_path / "t", {"id": list(range(3000)), "place": places})
    assert table.to_arrow().schema.field("place").type == pa.string()
    assert table.to_arrow()["place"].to_pylist() == places
    ids = table.to_arrow(["id"], "place >= 'place 5'")["id"].to_pylist()
    assert ids == [n for n, place in enumerate(places) if place is not None and place >= "place 5"]
    assert table.to_arrow(["place"], "id % 500 = 1")["place"].to_pylist() == places[1::500]
    assert opened == [[1]] * 8  # by each of the two threads


# -- the same rows, however they are read ------------------------------------------------------------


def _all(column: str) -> list[Any]:
    return [value for number in range(FILES) for value in rows(number)[column].to_pylist()]


def _atom(generator: random.Random) -> tuple[str, Verdict]:
    """A comparison as SQL, and as what it says of a row."""
    column = generator.choice(["id", "n", "x", "place", "part", "late"])
    constants: dict[str, list[Any]] = {
        "id": list(range(-1, ROWS + 1)), "n": [0, 42, 96, 99, 100], "x": [0.25, 50.0, 149.75, 200.0],
        "place": ["p0", "p3", "p4", "q"], "part": ["a", "b", "c"], "late": [1, 2]}
    value = generator.choice(constants[column])
    text = f"'{value}'" if isinstance(value, str) else str(value)
    match generator.randrange(8):
        case 0:
            return f"{column} IS NULL", lambda row: row[column] is None
        case 1:
            return f"{column} IS NOT NULL", lambda row: row[column] is not None
        case 2:
            other = generator.choice(constants[column])
            words = f"'{other}'" if isinstance(other, str) else str(other)
            return (f"{column} IN ({text}, {words})",
                    lambda row: None if row[column] is None else row[column] in (value, other))
    sign, holds = generator.choice([
        ("=", lambda a: a == value), ("<>", lambda a: a != value), ("<", lambda a: a < value),
        ("<=", lambda a: a <= value), (">", lambda a: a > value), (">=", lambda a: a >= value)])
    return f"{column} {sign} {text}", lambda row: None if row[column] is None else holds(row[column])


def _predicate(generator: random.Random, depth: int = 2) -> tuple[str, Verdict]:
    if not depth or generator.random() < 0.2:
        return _atom(generator)
    sql, left = _predicate(generator, depth - 1)
    if generator.random() < 0.2:
        return f"NOT ({sql})", lambda row: None if (one := left(row)) is None else not one
    other, right = _predicate(generator, depth - 1)
    if generator.random() < 0.5:
        return f"({sql}) AND ({other})", lambda row: _and(left(row), right(row))
    return f"({sql}) OR ({other})", lambda row: _not(_and(_not(left(row)), _not(right(row))))


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _and(one: bool | None, other: bool | None) -> bool | None:
    return False if one is False or other is False else None if one is None or other is None else True


def grown(where: Any, mode: str, vectors: bool) -> tuple[dn.DeltaTable, list[Row]]:
    """A table with partitions, NULLs, deleted rows and a column that older files lack; and its rows."""
    table = dn.create(where, rows(0).append_column("part", [["a"] * GROUP * GROUPS]), partition_by="part",
                      properties={"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": vectors})
    table.append(rows(1).append_column("part", pa.nulls(GROUP * GROUPS, pa.string())))
    table.add_columns({"late": "int"})
    late = pa.array([None, 1, 2, 3] * (GROUP * GROUPS // 4), pa.int32())
    last = rows(2).append_column("part", [["b"] * GROUP * GROUPS]).append_column("late", late)
    table.append(last)
    table.delete("n % 10 = 3 OR id < 60")
    model = [{**row, "part": part, "late": value}
             for number, part in enumerate(["a", None, "b"])
             for row, value in zip(rows(number).to_pylist(),
                                   late.to_pylist() if number == 2 else [None] * GROUP * GROUPS, strict=True)]
    return table, [row for row in model if not (row["n"] % 10 == 3 or row["id"] < 60)]


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_random_conditions_give_the_rows_of_a_filter_afterwards(
    tmp_path: Path, mode: str, vectors: bool
) -> None:
    table, model = grown(tmp_path / "t", mode, vectors)
    generator = random.Random(f"{mode} {vectors}")
    names = list(table.schema.names)
    for _ in range(60):
        sql, holds = _predicate(generator)
        columns = generator.sample(names, generator.randint(1, len(names)))
        expected = sorted((row["id"], *(row[name] for name in columns)) for row in model
                          if holds(row) is True)
        asked = ["id", *(name for name in columns if name != "id")]
        for matching in (table.to_arrow(asked, sql), table.to_batches(asked, sql).read_all()):
            got = sorted((row["id"], *(row[name] for name in columns)) for row in matching.to_pylist())
            assert got == expected, sql
        assert table.to_arrow(asked, sql, limit=5).num_rows == min(5, len(expected)), sql


def test_peers_find_the_same_rows(tmp_path: Path) -> None:
    duckdb, deltalake = pytest.importorskip("duckdb"), pytest.importorskip("deltalake")
    table, model = grown(tmp_path / "t", "none", False)
    theirs = deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table()
    assert sorted(theirs["id"].to_pylist()) == [row["id"] for row in model]
    generator = random.Random(8)
    for _ in range(60):
        sql, _holds = _predicate(generator)
        expected = duckdb.sql(f"SELECT id FROM theirs WHERE {sql} ORDER BY id").fetchall()
        assert sorted(table.to_arrow(["id"], sql)["id"].to_pylist()) == [one for one, in expected], sql
