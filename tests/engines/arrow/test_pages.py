"""Scans that read some pages of a row group: which ones, and that they give the rows of a filter."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.engines.arrow import data_file, file_rows, file_writer, row_groups
from deltanb.engines.arrow.data_file import ROW_POSITION, plan, read_data_file
from deltanb.engines.arrow.read import read_table
from deltanb.errors import InvalidTable
from deltanb.parquet import pages
from deltanb.parquet.file import SafeFile, open_parquet

ROWS, PAGE = 600, 20
Row = dict[str, Any]
DAY = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read as large ones are."""
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)
    monkeypatch.setattr(row_groups, "CODED_ROWS", 0)
    monkeypatch.setattr(data_file, "PAGED_ROWS", 0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[pages.Range], int]]:
    """(rows, columns) of all small files that are put together."""
    reads: list[tuple[list[pages.Range], int]] = []
    real = pages.Pages.file_of

    def file_of(self: pages.Pages, group: int, leaves: list[int], ranges: list[pages.Range]) -> pa.Buffer:
        reads.append((ranges, len(leaves)))
        return real(self, group, leaves, ranges)

    monkeypatch.setattr(pages.Pages, "file_of", file_of)
    return reads


def rows(seed: int = 0) -> pa.Table:
    """Ids ascend and so, roughly, do the others, each with some NULLs; ``gap`` is NULL for long."""
    generator = random.Random(seed)

    def some(value: Callable[[int], Any]) -> list[Any]:
        return [None if generator.random() < 0.1 else value(n) for n in range(ROWS)]

    return pa.table({
        "id": pa.array(range(ROWS), pa.int64()),
        "small": pa.array(some(lambda n: n // 6), pa.int16()),
        "text": pa.array(some(lambda n: f"t{n // 40:03}"), pa.string()),
        "name": pa.array([f"name {n}" * (n % 7) for n in range(ROWS)], pa.string()),
        "day": pa.array(some(lambda n: DAY + dt.timedelta(n // 8)), pa.date32()),
        "at": pa.array(some(lambda n: NOON + dt.timedelta(minutes=n)), pa.timestamp("us", "UTC")),
        "x": pa.array(some(lambda n: n / 4), pa.float64()),
        "flag": pa.array(some(lambda n: n > 300), pa.bool_()),
        "price": pa.array(some(lambda n: Decimal(n) / 100), pa.decimal128(9, 2)),
        "gap": pa.array([n if n % 200 < 30 else None for n in range(ROWS)], pa.int32()),
        "pair": pa.array(some(lambda n: {"a": n, "b": f"b{n % 5}"}),
                         pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "tags": pa.array(some(lambda n: [n, None, n + 1][: n % 4]), pa.list_(pa.int64())),
        "map": pa.array(some(lambda n: [("k", n)] * (n % 2)), pa.map_(pa.string(), pa.int64()))})


def written(folder: Path, table: pa.Table, **options: Any) -> dn.DeltaTable:
    """A table of one file, which Arrow wrote with these options."""
    folder.mkdir()
    pq.write_table(table, folder / "one.parquet", **{
        "max_rows_per_page": PAGE, "write_batch_size": 4, "write_page_checksum": True, **options})
    return dn.convert(folder)


# -- which pages ------------------------------------------------------------------------------------


def test_of_clustered_rows_only_their_pages_are_read(tmp_path: Path, read: list[Any]) -> None:
    table = written(tmp_path / "t", rows().select(["id", "name", "x"]))
    assert table.to_arrow(["name"], "id >= 95 AND id < 103")["name"].to_pylist() == [
        f"name {n}" * (n % 7) for n in range(95, 103)]
    assert read == [([(80, 120)], 1), ([(80, 120)], 1)]  # the ids, and then the names


def test_ranges_are_read_that_do_not_follow_each_other(tmp_path: Path, read: list[Any]) -> None:
    table = written(tmp_path / "t", rows().select(["id", "name"]))
    assert table.to_arrow(where="id IN (1, 333, 341, 599)")["id"].to_pylist() == [1, 333, 341, 599]
    assert read == [([(0, 20), (320, 360), (580, 600)], 1)] * 2


def test_columns_whose_pages_end_elsewhere_are_read_by_their_own(tmp_path: Path, read: list[Any]) -> None:
    table = pa.table({"id": range(ROWS), "wide": [f"{n:0100}" for n in range(ROWS)]})
    table_written = written(tmp_path / "t", table, data_page_size=1500, use_dictionary=False,
                            max_rows_per_page=50)
    numbers = list(range(120, 131))
    assert table_written.to_arrow(where="id BETWEEN 120 AND 130").to_pydict() == {
        "id": numbers, "wide": [f"{n:0100}" for n in numbers]}
    (of_ids, _), (of_texts, _) = read
    assert of_ids == [(100, 150)] and of_texts == [(112, 144)]  # only those with rows, of the late ones


def test_where_more_than_half_is_wanted_the_row_group_is_read(tmp_path: Path, read: list[Any]) -> None:
    table = written(tmp_path / "t", rows())
    assert table.count("id >= 250") == 350
    assert table.count("id >= 310") == 290
    assert [ranges for ranges, _ in read] == [[(300, 600)]]


def test_a_row_group_is_not_decoded_whose_pages_are_all_left_out(tmp_path: Path, read: list[Any]) -> None:
    table = pa.table({"id": [n // 20 * 100 for n in range(ROWS)]})
    assert written(tmp_path / "t", table).to_arrow(where="id = 150").num_rows == 0
    assert read == []


@pytest.mark.parametrize("index", [False, True], ids=["headers", "index"])
def test_of_scattered_rows_the_other_columns_pages_are_read_that_have_some(
    tmp_path: Path, read: list[Any], index: bool
) -> None:
    table = written(tmp_path / "t", rows().select(["id", "name", "x"]), write_page_index=index)
    ids = [n for n in range(ROWS) if n * 7 % 250 == 11]
    assert table.to_arrow(where="id * 7 % 250 = 11").select(["id", "name"]).to_pylist() == [
        {"id": n, "name": f"name {n}" * (n % 7)} for n in ids]
    assert read == [([(n // PAGE * PAGE, (n // PAGE + 1) * PAGE) for n in ids], 2)]


@pytest.mark.parametrize("index", [False, True], ids=["headers", "index"])
def test_rows_by_their_positions_are_read_by_pages(tmp_path: Path, read: list[Any], index: bool) -> None:
    table = written(tmp_path / "t", rows(), write_page_index=index, row_group_size=350)
    (file,) = table.snapshot.files.to_pylist()
    model, generator = rows().to_pylist(), random.Random(2)
    for count in (1, 3, 9, 40, ROWS):
        only = BitMap64(generator.sample(range(ROWS), count))
        batches = list(read_data_file(plan(table.snapshot), file, positions=True, only=only, batch_rows=4))
        assert max(batch.num_rows for batch in batches) <= 4
        some = pa.Table.from_batches(batches)
        assert some[ROW_POSITION].to_pylist() == list(only)
        assert some.drop_columns([ROW_POSITION]).to_pylist() == [model[n] for n in only]
        pages_read = {start for ranges, _ in read for start, _ in ranges}
        assert 0 < len(pages_read) <= count or count == ROWS
        read.clear()


def test_an_update_of_few_rows_reads_their_pages(
    tmp_path: Path, read: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = file_writer.settings_of
    monkeypatch.setattr(file_writer, "settings_of", lambda *args: {
        **settings(*args), "max_rows_per_page": PAGE, "write_batch_size": 4})
    table = dn.create(tmp_path / "t", rows(), properties={"delta.enableDeletionVectors": True})
    table.update({"x": "-1.0D"}, "id * 7 % 250 = 11")
    ids = [n for n in range(ROWS) if n * 7 % 250 == 11]
    assert [ranges for ranges, _ in read][-1] == [(n // PAGE * PAGE, (n // PAGE + 1) * PAGE) for n in ids]
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {**row, "x": -1.0} if row["id"] in ids else row for row in rows().to_pylist()]


def test_many_rows_do_not_wait_for_each_other(
    tmp_path: Path, read: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path / "t", rows())
    answers = []
    for few in (file_rows.FEW, 1):
        monkeypatch.setattr(file_rows, "FEW", few)
        answers.append(table.to_arrow(where="id * 7 % 250 = 11"))
    assert answers[0].equals(answers[1]) and len(read) == 1


def test_pages_are_not_put_together_where_nearly_all_have_rows(tmp_path: Path, read: list[Any]) -> None:
    assert written(tmp_path / "t", rows()).to_arrow(where=f"id % {PAGE} = 3").num_rows == ROWS // PAGE
    assert read == []


@pytest.mark.parametrize("where", ["gap = 205", "gap IS NOT NULL AND id < 60", "small <=> 7"])
def test_pages_of_nulls_are_left_out(tmp_path: Path, read: list[Any], where: str) -> None:
    table = written(tmp_path / "t", rows())
    table.to_arrow(["id"], where)
    assert 0 < sum(end - begin for begin, end in read[0][0]) <= 60


def test_a_name_with_a_dot_is_no_field_of_another_column(tmp_path: Path, read: list[Any]) -> None:
    table = written(tmp_path / "t", pa.table({
        "id": range(ROWS), "a.b": range(ROWS), "a": pa.array([{"b": -n} for n in range(ROWS)])}))
    assert table.to_arrow(["a.b"], "id = 33").to_pylist() == [{"a.b": 33}]
    assert table.to_arrow(["a"], "id = 33").to_pylist() == [{"a": {"b": -33}}]
    assert [columns for _, columns in read] == [1, 1, 1, 1]


def test_files_elsewhere_are_read_whole(
    tmp_path: Path, read: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path / "t", rows())
    monkeypatch.setattr(SafeFile, "is_at_hand", False)
    assert table.to_arrow(["id"], "id = 7").num_rows == 1 and read == []


# -- damage -------------------------------------------------------------------------------------------


def test_a_page_that_is_damaged_is_an_error_of_its_file(tmp_path: Path) -> None:
    table = written(tmp_path / "t", rows().select(["id", "name"]), compression="none", use_dictionary=False)
    path = tmp_path / "t" / "one.parquet"
    data = bytearray(path.read_bytes())
    at = data.find(b"name 101")
    data[at:at + 8] = b"NAME 101"
    path.write_bytes(data)
    assert table.to_arrow(where="id = 7").num_rows == 1  # in another page
    with pytest.raises(InvalidTable, match=r"one\.parquet"):
        table.to_arrow(where="id = 102")


def test_headers_that_say_something_else_are_not_followed(tmp_path: Path) -> None:
    table = rows().select(["id"])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, max_rows_per_page=PAGE, write_batch_size=4)
    data = bytearray(sink.getvalue().to_pybytes())
    whole = pages.Pages(open_parquet(pa.BufferReader(bytes(data)))).chunk(0, 0)
    assert whole is not None and len(whole.pages) == ROWS // PAGE
    generator = random.Random(3)
    num_read = 0
    for _ in range(300):
        page = generator.choice(whole.pages)
        place = page.begin + generator.randrange(20)
        broken = bytearray(data)
        broken[place] ^= 1 << generator.randrange(8)
        chunk = pages.Pages(open_parquet(pa.BufferReader(bytes(broken)))).chunk(0, 0)
        num_read += chunk is not None
        if chunk is not None:
            assert sum(chunk.end_of(n) - one.row for n, one in enumerate(chunk.pages)) == ROWS
    assert num_read < 300


def test_headers_that_are_nested_without_end_are_not_followed() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(5000)}), sink, use_dictionary=False, compression="none",
                   max_rows_per_page=PAGE, write_batch_size=4)
    data = bytearray(sink.getvalue().to_pybytes())
    assert pages.Pages(open_parquet(pa.BufferReader(bytes(data)))).chunk(0, 0) is not None
    data[4:20_000] = b"\x1c" * 19_996  # a structure as the first field of a structure as the first field of …
    assert pages.Pages(open_parquet(pa.BufferReader(bytes(data)))).chunk(0, 0) is None


# -- the same rows, however they are read ---------------------------------------------------------------


def atom(generator: random.Random) -> tuple[str, Callable[[Row], bool | None]]:
    """A comparison as SQL, and as what it says of a row."""
    n = generator.randrange(-5, ROWS + 5)
    name, value, text = generator.choice([
        ("id", n, str(n)), ("small", n // 6, str(n // 6)), ("text", f"t{n // 40:03}", f"'t{n // 40:03}'"),
        ("day", DAY + dt.timedelta(n // 8), f"DATE '{DAY + dt.timedelta(n // 8)}'"),
        ("at", NOON + dt.timedelta(minutes=n), f"TIMESTAMP '{NOON + dt.timedelta(minutes=n)}'"),
        ("x", n / 4, f"{n / 4}D"), ("price", Decimal(n) / 100, str(Decimal(n) / 100)), ("gap", n, str(n)),
        ("pair.a", n, str(n))])

    def of(row: Row) -> Any:
        return (row["pair"] or {}).get("a") if name == "pair.a" else row[name]

    if generator.random() < 0.15:
        return f"{name} IS NULL", lambda row: of(row) is None
    sign, holds = generator.choice([
        ("=", lambda a: a == value), ("<>", lambda a: a != value), ("<", lambda a: a < value),
        (">=", lambda a: a >= value)])
    return f"{name} {sign} {text}", lambda row: None if of(row) is None else holds(of(row))


def condition(generator: random.Random) -> tuple[str, Callable[[Row], bool]]:
    """Ranges and points, most of them narrow."""
    parts = [atom(generator) for _ in range(generator.randint(1, 3))]
    if generator.random() < 0.3:  # rows here and there, of which no bound says anything
        rest, few = generator.randrange(150), parts[:-1]
        return (" AND ".join([f"id % 150 = {rest}", *(sql for sql, _ in few)]),
                lambda row: row["id"] % 150 == rest and all(one(row) is True for _, one in few))
    start = generator.randrange(ROWS)
    stop = start + generator.choice([1, 5, 40, 200])
    near = f"id >= {start} AND id < {stop}"
    if generator.random() < 0.5:
        return (" AND ".join([near, *(sql for sql, _ in parts)]),
                lambda row: start <= row["id"] < stop and all(one(row) is True for _, one in parts))
    return (f"({near}) OR " + " AND ".join(sql for sql, _ in parts),
            lambda row: start <= row["id"] < stop or all(one(row) is True for _, one in parts))


def compared(table: dn.DeltaTable, model: list[Row], seed: str, count: int = 20) -> None:
    """Random conditions give, of random columns, the rows of a filter afterwards."""
    generator = random.Random(seed)
    names = [name for name in model[0] if name != "id"]
    for _ in range(count):
        sql, holds = condition(generator)
        asked = ["id", *generator.sample(names, generator.randint(0, len(names)))]
        expected = [{name: row[name] for name in asked} for row in model if holds(row)]
        rows_read = table.to_arrow(asked, sql).to_pylist()
        assert sorted(rows_read, key=lambda row: row["id"]) == expected, sql


@pytest.mark.parametrize("index", [False, True], ids=["headers", "index"])
@pytest.mark.parametrize("options", [
    {}, {"data_page_version": "2.0"}, {"use_dictionary": False}, {"compression": "none"},
    {"row_group_size": 170}, {"write_statistics": False},
    {"data_page_size": 300, "max_rows_per_page": 1000, "row_group_size": 400},
    {"data_page_version": "2.0", "compression": "gzip", "store_schema": False},
    {"column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"},
     "use_dictionary": ["text"]},
    {"store_decimal_as_integer": True, "dictionary_pagesize_limit": 64}], ids=str)
def test_random_conditions_on_files_of_many_forms(
    tmp_path: Path, options: Any, index: bool, read: list[Any]
) -> None:
    table = written(tmp_path / "t", rows(), write_page_index=index, **options)
    compared(table, rows().to_pylist(), str(options))
    assert read


@pytest.mark.parametrize("index", [False, True], ids=["headers", "index"])
@pytest.mark.parametrize("mode", ["none", "name"])
def test_random_conditions_with_deleted_rows_and_partitions(
    tmp_path: Path, mode: str, index: bool, monkeypatch: pytest.MonkeyPatch, read: list[Any]
) -> None:
    settings = file_writer.settings_of
    monkeypatch.setattr(file_writer, "settings_of", lambda *args: {
        **settings(*args), "max_rows_per_page": PAGE, "write_batch_size": 4, "write_page_index": index})
    model = rows().append_column("part", pa.array(["a" if n < 350 else "b" for n in range(ROWS)]))
    table = dn.create(tmp_path / "t", model, partition_by="part", properties={
        "delta.enableDeletionVectors": True, "delta.columnMapping.mode": mode,
        "delta.enableRowTracking": True})
    table.add_columns({"late": "int"})
    table.delete("id % 10 = 3 OR id BETWEEN 100 AND 130")
    left = [{**row, "late": None} for row in model.to_pylist()
            if not (row["id"] % 10 == 3 or 100 <= row["id"] <= 130)]
    compared(table, left, mode)
    assert read
    every = {row["id"]: row for row in read_table(
        table.snapshot, table.snapshot.files, row_ids=True).to_pylist()}
    for where in ("id % 150 = 7", "id BETWEEN 200 AND 215", "id IN (4, 333, 444)"):
        some = read_table(table.snapshot, table.snapshot.files, where=where, row_ids=True)
        assert some.num_rows and some.to_pylist() == [every[n] for n in some["id"].to_pylist()]


# -- what others write -------------------------------------------------------------------------------


def of_polars(table: pa.Table, path: Path) -> None:
    polars.from_arrow(table).write_parquet(path, data_page_size=64, statistics="full")


def of_duckdb(table: pa.Table, path: Path) -> None:
    duckdb.from_arrow(table).write_parquet(str(path), compression="zstd")


def of_deltalake(table: pa.Table, path: Path) -> None:
    deltalake.write_deltalake(path.parent, table, writer_properties=deltalake.WriterProperties(
        data_page_row_count_limit=PAGE, write_batch_size=7, compression="LZ4_RAW",
        statistics_truncate_length=2, dictionary_page_size_limit=64,
        default_column_properties=deltalake.ColumnProperties(statistics_enabled="PAGE")))


@pytest.mark.parametrize("write", [of_polars, of_duckdb, of_deltalake])
def test_any_ranges_of_files_that_others_wrote(tmp_path: Path, write: Callable[..., None]) -> None:
    table = rows().drop_columns(["map"])  # polars has none
    write(table, tmp_path / "one.parquet")
    (path,) = tmp_path.glob("*.parquet")
    file, generator = open_parquet(pa.OSFile(str(path))), random.Random(5)
    parts = pages.Pages(file)
    whole = pq.read_table(path)
    for name, leaves in row_groups.leaf_places(list(file.schema_arrow), table.column_names).items():
        for _ in range(4):
            edges = sorted(generator.sample(range(ROWS), 4))
            covered = parts.covering(0, leaves, [(edges[0], edges[1]), (edges[2], edges[3])])
            counts = parts.has_index(0) or name != "tags"  # else nobody counts the rows of its lists
            assert (covered is not None) is counts
            if covered is not None:
                small = file.like(parts.file_of(0, list(leaves), covered)).read([name])[name]
                right = [value for start, stop in covered for value in whole[name].slice(start, stop - start)]
                assert small.to_pylist() == [value.as_py() for value in right]


def test_files_of_deltalake_are_read_by_their_page_index(tmp_path: Path, read: list[Any]) -> None:
    deltalake.write_deltalake(tmp_path, rows(), writer_properties=deltalake.WriterProperties(
        data_page_row_count_limit=PAGE, write_batch_size=PAGE))
    table = dn.open(tmp_path)
    compared(table, rows().to_pylist(), "deltalake")
    read.clear()
    assert table.to_arrow(["tags", "map"], "id BETWEEN 95 AND 103").num_rows == 9
    assert sum(columns for _, columns in read) == 4  # of lists as many values are a page, and other rows
    assert all(80 - PAGE <= begin <= 95 and 104 <= end <= 120 + PAGE for ((begin, end),), _ in read)


@pytest.mark.spark
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_files_of_spark_are_read_by_their_page_index(
    tmp_path: Path, spark: Any, read: list[Any], version: str, codec: str
) -> None:
    model = rows()
    dn.create(tmp_path / "rows", model)
    frame = dn.open(tmp_path / "rows").to_df(spark).orderBy("id").coalesce(1)
    frame.write.options(**{"parquet.page.row.count.limit": PAGE, "parquet.writer.version": version,
                           "compression": codec}).parquet(str(tmp_path / "t"))
    table = dn.convert(tmp_path / "t")
    compared(table, model.to_pylist(), version + codec)
    read.clear()
    assert table.to_arrow(["tags", "map", "x"], "id BETWEEN 95 AND 103").num_rows == 9
    assert {tuple(ranges) for ranges, _ in read} == {((0, 120),)}  # its first page is longer


# -- values that compare oddly ------------------------------------------------------------------------


def odd() -> pa.Table:
    """NaN, zeros of both signs and infinities, texts beyond ASCII, bytes, a column of NULLs, old times."""
    rare = [math.nan, -0.0, 0.0, math.inf, -math.inf, None]
    generator = random.Random(11)
    return pa.table({
        "id": pa.array(range(ROWS), pa.int64()),
        "x": pa.array([generator.choice(rare) if 100 <= n < 160 or n % 37 == 0 else n - 300.0
                       for n in range(ROWS)]),
        "f": pa.array([rare[n // 40 % 6] for n in range(ROWS)], pa.float32()),
        "text": pa.array(["ü" * (n // 30 % 2) + f"{n // 9}" + "\U0010ffff" * (n % 3)
                          for n in range(ROWS)]),
        "raw": pa.array([bytes([n // 3, 255, n % 256]) for n in range(ROWS)], pa.binary()),
        "void": pa.nulls(ROWS, pa.int32()),
        "old": pa.array([NOON + dt.timedelta(days=365 * (n - 300) // 8) for n in range(ROWS)],
                        pa.timestamp("us", "UTC"))})


def order(value: Any) -> Any:
    """By what values compare: NaN is the greatest number, and equal to itself."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%SZ}'"
    return repr(value)


Test = Callable[[Row], bool | None]


def odd_condition(generator: random.Random, model: list[Row], depth: int = 2) -> tuple[str, Test]:
    """Comparisons under AND, OR and NOT, in logic of three values."""
    form = generator.choice(["and", "or", "not", "one"] if depth else ["one"])
    if form == "one":
        return odd_atom(generator, model)
    left, one = odd_condition(generator, model, depth - 1)
    if form == "not":
        return f"NOT ({left})", lambda row: None if (truth := one(row)) is None else not truth
    right, other = odd_condition(generator, model, depth - 1)
    decisive = form == "or"

    def both(row: Row) -> bool | None:
        both_sides = one(row), other(row)
        return decisive if decisive in both_sides else None if None in both_sides else not decisive

    return f"({left}) {form.upper()} ({right})", both


def odd_atom(generator: random.Random, model: list[Row]) -> tuple[str, Test]:
    name = generator.choice(["id", "id", *model[0]])
    values = [generator.choice(model)[name] if name != "void" else 1 for _ in range(3)]
    form = generator.choice(["=", "<>", "<", ">=", "<=>", "IN", "BETWEEN", "IS NULL", "IS NOT NULL"])
    first = values[0]
    if form.startswith("IS"):
        return f"{name} {form}", lambda row: (row[name] is None) is (form == "IS NULL")
    if form == "<=>":
        return f"{name} <=> {literal(first)}", lambda row: order(row[name]) == order(first)
    if form == "IN":
        return f"{name} IN ({', '.join(map(literal, values))})", lambda row: in_(row[name], values)
    if None in values:
        return f"{name} IS NULL", lambda row: row[name] is None
    keys = [order(value) for value in values]
    sql = f"{name} {form} {literal(first)}" if form != "BETWEEN" else (
        f"{name} BETWEEN {literal(first)} AND {literal(values[1])}")
    holds: dict[str, Callable[[Any], bool]] = {
        "=": lambda a: a == keys[0], "<>": lambda a: a != keys[0], "<": lambda a: a < keys[0],
        ">=": lambda a: a >= keys[0], "BETWEEN": lambda a: keys[0] <= a <= keys[1]}
    return sql, lambda row: None if row[name] is None else holds[form](order(row[name]))


def in_(value: Any, values: list[Any]) -> bool | None:
    if value is None:
        return None
    return True if order(value) in map(order, values) else None if None in values else False


@pytest.mark.parametrize("options", [
    {}, {"data_page_version": "2.0", "use_dictionary": False, "use_deprecated_int96_timestamps": True},
    {"write_statistics": ["id", "x"], "dictionary_pagesize_limit": 64}, {"write_page_index": True},
    {"write_page_index": True, "data_page_version": "2.0", "use_dictionary": False}, None], ids=str)
def test_random_conditions_on_values_that_compare_oddly(
    tmp_path: Path, options: Any, read: list[Any]
) -> None:
    model, folder = odd().to_pylist(), tmp_path / "t"
    if options is None:
        folder.mkdir()
        of_deltalake(odd(), folder / "one.parquet")
    table = dn.open(folder) if options is None else written(folder, odd(), **options)
    generator = random.Random(str(options))
    for _ in range(30):
        sql, holds = odd_condition(generator, model)
        start = generator.randrange(ROWS)
        sql = f"id BETWEEN {start} AND {start + 90} AND ({sql})"
        ids = table.to_arrow(["id"], sql)["id"].to_pylist()
        assert sorted(ids) == [row["id"] for row in model[start:start + 91] if holds(row) is True], sql
    assert read
