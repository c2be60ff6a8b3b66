"""How values lie in files: ranges of every type, what has none, what a condition names and opens."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, InvalidPredicate, InvalidSchema, InvalidTable
from deltanb.observe.file_layout import MAX_BARS
from deltanb.schema.types import TYPES
from deltanb.testing import MemoryStore, TableBuilder, add

UTC = dt.timezone.utc
VALUES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "byte": (pa.int8(), [-3, -2, -1, 0, 1, 2], "c = 0"),
    "short": (pa.int16(), [-3, -2, -1, 0, 1, 2], "c = 0"),
    "integer": (pa.int32(), [1, 2, 3, 4, 5, 6], "c BETWEEN 3 AND 4"),
    "long": (pa.int64(), [-5, 0, 5, 10, 15, 20], "c > 8"),
    "double": (pa.float64(), [-1.5, 0.0, 2.5, 1e6, 2e6, 3e6], "c < 1.0"),
    "float": (pa.float32(), [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "c < 1.0"),
    "decimal": (pa.decimal128(9, 2), [Decimal(n) / 4 for n in range(6)], "c >= 1"),
    "date": (pa.date32(), [dt.date(2026, m, 1) for m in range(1, 7)], "c = DATE '2026-03-01'"),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(2026, m, 1, tzinfo=UTC) for m in range(1, 7)],
                  "c >= TIMESTAMP '2026-04-02 00:00:00'"),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(2026, m, 1) for m in range(1, 7)], "c IS NOT NULL"),
    "string": (pa.string(), ["aa", "ab", "b", "c", "cc", "é"], "c = 'b'"),
    "long string": (pa.string(), ["x" * 50 + c for c in "abcdef"], "c > 'y'"),
}


def written(path: Path, type_: pa.DataType, values: list[Any], **settings: Any) -> dn.DeltaTable:
    """A table of three files, with two values in each."""
    for at in range(0, len(values), 2):
        data = pa.table({"c": pa.array(values[at:at + 2], type_), "n": [at, at + 1]})
        if at == 0:
            dn.create(path, data, **settings)
        else:
            dn.open(path).append(data)
    return dn.open(path)


@pytest.mark.parametrize("name", VALUES)
def test_ranges_lie_in_their_order_whatever_the_type(name: str, tmp_path: Path) -> None:
    type_, values, where = VALUES[name]
    table = written(tmp_path / "t", type_, values)
    layout = table.layout("c")
    assert (layout.num_files, layout.opened, layout.num_unknown, layout.num_null) == (3, 3, 0, 0)
    bars = layout.bars()
    assert [bar.files for bar in bars] == [1, 1, 1] and sum(bar.bytes for bar in bars) == layout.size_in_bytes
    assert bars[0].low == 0 and bars[-1].high == pytest.approx(1, abs=1e-6)
    assert all(bar.low <= bar.high <= 1 for bar in bars)
    assert [bar.low for bar in bars] == sorted(bar.low for bar in bars)
    if name != "long string":  # cut off: their bounds are one
        assert layout.depth == 1 and layout.files["min"].to_pylist() == values[::2]
    assert layout.files["rows"].to_pylist() == [2, 2, 2]
    scanned = table.layout("c", where)
    assert scanned.opened == table.explain(where).opened
    assert scanned.opened_bytes == table.explain(where).opened_bytes == sum(
        row["bytes"] for row in scanned.files.to_pylist() if row["opened"])


def spans(where: str, path: Path) -> tuple[tuple[float, float], ...]:
    return written(path / "t", pa.int64(), [0, 2, 4, 6, 8, 10]).layout("c", where).spans


@pytest.mark.parametrize(("where", "expected"), [
    ("c > 5", [(0.5, 1)]), ("5 > c", [(0, 0.5)]), ("c BETWEEN 2 AND 5", [(0.2, 0.5)]),
    ("c = 7 AND n = 3", [(0.7, 0.7)]), ("c IN (1, 9)", [(0.1, 0.1), (0.9, 0.9)]),
    ("c IN (1, 9) AND c > 5", [(0.9, 0.9)]), ("c > 2.5", [(0.25, 1)]), ("c > 100", [(1, 1)]),
    ("c < 2 AND c > 8", []), ("n = 3", []),
    ("c = 1 OR c = 9", [(0.1, 0.1), (0.9, 0.9)]), ("c = 1 OR n = 3", []), ("c <> 5", []), ("c IS NULL", []),
    ("c > NULL", []), ("c IN (1, 2.5, NULL)", [(0.1, 0.1), (0.25, 0.25)]),
    ("c < 2 OR c >= 9", [(0, 0.2), (0.9, 1)]),
    ("c < 5 OR c > 4", [(0, 1)]), ("(c = 1 OR c > 8) AND c < 9", [(0.1, 0.1), (0.8, 0.9)]),
    ("c = 1 OR c IS NULL", [(0.1, 0.1)]), ("c NOT BETWEEN 2 AND 8", [(0, 0.2), (0.8, 1)])])
def test_the_stretch_that_a_condition_names(where: str, expected: Any, tmp_path: Path) -> None:
    assert [pytest.approx(span) for span in expected] == list(spans(where, tmp_path))


ODD = {
    "string": ["c > 2", "c IN (1, 2)", "c > 5.5", "c = true", "c > DATE '2024-01-01'", "2 < c"],
    "integer": ["cast(c AS string) > '3'", "cast(c AS byte) = 3", "cast(c AS boolean)",
                "cast(c AS float) = 2"],
    "double": ["cast(c AS int) = 2", "cast(c AS float) > 2", "cast(c AS decimal(9, 2)) = 2.5",
               "cast(c AS string) = 'x'"],
    "decimal": ["cast(c AS int) = 1", "cast(c AS decimal(9, 1)) = 0.3", "cast(c AS string) > 'a'"],
    "date": ["cast(c AS string) > 'a'", "c > TIMESTAMP '2026-03-01 01:00:00'",
             "cast(c AS timestamp) > '2026'"],
    "timestamp": ["cast(c AS date) = DATE '2026-03-01'", "cast(c AS string) > 'a'", "cast(c AS bigint) > 3"],
    "timestamp_ntz": ["c > TIMESTAMP '2026-03-01 01:00:00+00:00'"],
}
"""Conditions that compare a column as something else: where its values lie then is another matter."""


@pytest.mark.parametrize(("name", "where"), [(name, where) for name in ODD for where in ODD[name]])
@pytest.mark.parametrize("is_partition", [False, True])
def test_a_column_compared_as_something_else_has_no_stretch(
    is_partition: bool, name: str, where: str, tmp_path: Path
) -> None:
    type_, values, _ = VALUES[name]
    table = written(tmp_path / "t", type_, values, **({"partition_by": "c"} if is_partition else {}))
    layout = table.layout("c", where)
    assert layout.spans == () and layout.opened == table.explain(where).opened


@pytest.mark.parametrize(("name", "where", "expected"), [
    ("integer", "c > 3.5", [(0.5, 1)]), ("byte", "cast(c AS bigint) = 2", [(1, 1)]),
    ("integer", "cast(c AS double) <= 2", [(0, 0.2)]), ("float", "cast(c AS double) = 1.5", [(0.2, 0.2)]),
    ("decimal", "c > 0.62500", [(0.5, 1)]), ("decimal", "c > 0.625D", [(0.5, 1)]),
    ("float", "c > double('NaN')", [(1, 1)])])
def test_a_column_as_a_wider_number_has_its_stretch(
    name: str, where: str, expected: Any, tmp_path: Path
) -> None:
    type_, values, _ = VALUES[name]
    spans = written(tmp_path / "t", type_, values).layout("c", where).spans
    assert [pytest.approx(span) for span in expected] == list(spans)


def test_a_condition_of_any_length_has_a_stretch(tmp_path: Path) -> None:
    """Of more stretches than are marked, the one around all of them."""
    table = written(tmp_path / "t", pa.int64(), [0, 200, 400, 600, 800, 1_000])
    many = " OR ".join(f"c > {number} AND c < {number + 1}" for number in range(200, 800, 2))
    assert table.layout("c", many).spans == (pytest.approx((0.2, 0.799)),)
    assert table.layout("c", many.replace(" OR ", " AND ")).spans == ()


def test_many_values_of_an_in_are_a_stretch(tmp_path: Path) -> None:
    table = written(tmp_path / "t", pa.int64(), [0, 200, 400, 600, 800, 1_000])
    many = ", ".join(map(str, range(200, 260)))
    assert table.layout("c", f"c IN ({many})").spans == (pytest.approx((0.2, 0.259)),)


def test_files_without_a_range(tmp_path: Path) -> None:
    table = written(tmp_path / "t", pa.int64(), [1, 2, None, None, 5, None])
    layout = table.layout("c", "c = 5")
    assert (layout.num_files, layout.num_null, layout.num_unknown, layout.opened) == (3, 1, 0, 1)
    assert layout.files["min"].to_pylist() == [1, 5, None]
    bare = TableBuilder(MemoryStore()).create("c long")
    bare.commit(add("a"), add("b", stats='{"numRecords":3,"minValues":{"c":1},"maxValues":{"c":2}}'))
    layout = dn.open(bare.store).layout("c", "c = 9")
    assert (layout.num_unknown, layout.opened) == (1, 1)
    assert layout.files["rows"].to_pylist() == [3, None]
    assert layout.files["opened"].to_pylist() == [False, True]


def test_an_empty_table(tmp_path: Path) -> None:
    layout = dn.create(tmp_path / "t", "c long").layout("c", "c > 3")
    assert (layout.num_files, layout.depth, layout.bars(), layout.opened) == (0, 0.0, [], 0)


FLOATS: list[tuple[str, list[Any], list[tuple[float, float]], str]] = [
    ("NaN is above all", [1.0, float("nan"), 2.0], [(0, 0), (1, 1), (1, 1)], "c > 1.5"),
    ("NaN alone", [float("nan")] * 2, [(1, 1)] * 2, "c = 2.0"),
    ("no float is as long as the axis", [-1e308, 0.0, 1e308], [(0, 0), (0.5, 0.5), (1, 1)], "c > 0.0"),
    ("the least and the greatest", [-1.7976931348623157e308, 1.7976931348623157e308], [(0, 0), (1, 1)],
     "c < 0"),
    ("infinite", [float("-inf"), 3.0, 4.0, float("inf")], [(0, 0), (0, 0), (1, 1), (1, 1)], "c < 3.5"),
]


@pytest.mark.parametrize(("values", "places", "where"), [case[1:] for case in FLOATS], ids=[
    case[0] for case in FLOATS])
@pytest.mark.filterwarnings("error")
def test_every_float_has_a_place(values: list[Any], places: Any, where: str, tmp_path: Path) -> None:
    made = dn.create(tmp_path / "t", pa.table({"c": values, "n": list(range(len(values)))}), partition_by="c")
    layout = made.layout("c", where)
    assert sorted((bar.low, bar.high) for bar in layout.bars()) == sorted(places)[-len(layout.bars()):]
    assert layout.num_unknown == 0 and layout.depth > 0
    assert all(0 <= low <= high <= 1 for low, high in layout.spans) and layout.spans
    assert str(layout) and layout.svg and layout.spec


def bare(schema: str, *stats: tuple[Any, Any], size: int = 10, by: tuple[str, ...] = ()) -> dn.DeltaTable:
    """A table of files with bounds of a column c, as any writer may have written them."""
    builder = TableBuilder(MemoryStore()).create(schema, partition_by=list(by))
    texts = [json.dumps({"numRecords": 2, "minValues": {"c": low}, "maxValues": {"c": high},
                         "nullCount": {"c": 0}}) for low, high in stats]
    builder.commit(*(add(f"f{at}", size=size, stats=text) for at, text in enumerate(texts)))
    return dn.open(builder.store)


BOUNDS: list[tuple[str, Any, Any, Any]] = [
    ("timestamp", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00.000Z", dt.datetime(2026, 1, 2, tzinfo=UTC)),
    ("timestamp_ntz", "2026-01-01T00:00:00", "2026-01-02T00:00:00.123",
     dt.datetime(2026, 1, 2, 0, 0, 0, 123000)),
    ("string", "a", "x" * 32 + "\x7f", "x" * 32 + "…"),
    ("string", "a", "x" * 32 + "\U0010ffff", "x" * 32 + "…"),
    ("string", "a", "x\x7f", "x\x7f"), ("boolean", False, True, True)]


@pytest.mark.parametrize(("type_", "low", "high", "shown"), BOUNDS)
def test_a_bound_is_shown_as_it_is_and_not_as_files_are_skipped(
    type_: str, low: Any, high: Any, shown: Any
) -> None:
    layout = bare(f"c {type_}", (low, high)).layout("c")
    assert layout.files["max"].to_pylist() == [shown] == [bar.greatest for bar in layout.bars()]
    assert [(bar.low, bar.high) for bar in layout.bars()] == [(0, 1)]


@pytest.mark.parametrize(("type_", "values"), [
    ("long", (1, 5, 9)), ("double", (1.5, 2.5, 3.5)), ("string", ("a", "b", "c")),
    ("string", ("x1", "x2", "x3")),
    ("date", ("2026-01-01", "2026-01-02", "2026-01-03"))])
def test_a_least_value_above_the_greatest_is_no_range(type_: str, values: Any) -> None:
    low, middle, high = values
    layout = bare(f"c {type_}", (low, middle), (high, low), (middle, high)).layout("c")
    assert layout.num_unknown == 1 and layout.num_files == 3
    assert [(bar.low, bar.high) for bar in layout.bars()] == [(0, 0.5), (0.5, 1)]


@pytest.mark.parametrize(("where", "expected"), [
    ("c", [(1, 1)]), ("NOT c", [(0, 0)]), ("c = false", [(0, 0)]), ("c IN (true, false)", [(0, 0), (1, 1)])])
def test_booleans_are_drawn(where: str, expected: Any, tmp_path: Path) -> None:
    """Of other writers, who keep bounds of them, and as partitions."""
    assert list(bare("c boolean", (False, False), (False, True)).layout("c", where).spans) == expected
    made = dn.create(tmp_path / "t", pa.table({"c": [True, False], "n": [1, 2]}), partition_by="c")
    layout = made.layout("c", where)
    assert list(layout.spans) == expected and len(layout.bars()) == 2 and layout.svg


@pytest.mark.filterwarnings("error")
def test_sizes_beyond_64_bits_are_no_negative_bytes() -> None:
    table = bare("c long", (1, 2), (3, 4), (5, 6), size=2**62)
    layout = table.layout("c", "c = 1")
    assert 0 < layout.opened_bytes < layout.size_in_bytes < 2**63
    assert all(bar.bytes > 0 for bar in layout.bars(1)) and str(layout)
    report = table.checkup()
    assert not re.search(r": -\d", report.to_json()) and str(report)


def test_one_value_everywhere(tmp_path: Path) -> None:
    layout = written(tmp_path / "t", pa.int64(), [7] * 6).layout("c", "c = 7")
    assert {(bar.low, bar.high) for bar in layout.bars()} == {(0.5, 0.5)} and layout.spans == ((0.5, 0.5),)
    assert layout.depth == 3


def test_a_field_of_a_struct_and_mapped_columns(tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name"}
    made = dn.create(tmp_path / "t", pa.table({"a": [{"b": 1, "x.y": "u"}, {"b": 3, "x.y": "v"}]}),
                     properties=properties)
    made.rename_column("a.b", "c")
    made.rename_column("a", "z")
    made.append(pa.table({"z": [{"c": 5, "x.y": "w"}]}))
    layout = made.layout("z.c", "z.c > 4")
    assert (layout.column, layout.files["max"].to_pylist(), layout.opened) == ("z.c", [3, 5], 1)
    assert made.layout("Z.`x.y`").files["min"].to_pylist() == ["u", "w"]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_partition_column_has_one_value_in_each_file(mode: str, tmp_path: Path) -> None:
    data = pa.table({"p": ["b", "a", None], "n": [1, 2, 3]})
    made = dn.create(tmp_path / "t", data, partition_by="p", properties={"delta.columnMapping.mode": mode})
    layout = made.layout("p", "p = 'a'")
    assert layout.files["min"].to_pylist() == layout.files["max"].to_pylist() == ["a", "b", None]
    assert (layout.opened, layout.num_null, layout.depth) == (1, 1, 1)


def test_deleted_rows_do_not_count_and_a_vector_is_part_of_a_file(tmp_path: Path) -> None:
    made = written(tmp_path / "t", pa.int64(), [1, 2, 3, 4, 5, 6],
                   properties={"delta.enableDeletionVectors": True})
    made.delete("c = 3")
    layout = made.layout("c", "c > 2")
    assert layout.files["rows"].to_pylist() == [2, 1, 2] and layout.opened == 2


def test_bars_of_many_files_stand_for_neighbours() -> None:
    builder = TableBuilder(MemoryStore()).create("c long")
    stats = '{{"numRecords":1,"minValues":{{"c":{0}}},"maxValues":{{"c":{1}}},"nullCount":{{"c":0}}}}'
    builder.commit(*(add(f"f{n}", size=10, stats=stats.format(n, n + 3)) for n in range(1_000)))
    layout = dn.open(builder.store).layout("c", "c < 100")
    bars = layout.bars()
    assert len(bars) == MAX_BARS and sum(bar.files for bar in bars) == 1_000
    assert sum(bar.opened for bar in bars) == layout.opened == 100
    assert [bar.least for bar in bars] == sorted(bar.least for bar in bars)
    assert len(layout.bars(7)) == 7 and layout.files.num_rows == 1_000


def test_the_files_of_deltalake(tmp_path: Path) -> None:
    for start in (0, 100):
        data = pa.table({"c": list(range(start, start + 50))})
        deltalake.write_deltalake(tmp_path / "t", data, mode="append")
    layout = dn.open(tmp_path / "t").layout("c", "c = 120")
    assert (layout.files["min"].to_pylist(), layout.opened, layout.depth) == ([0, 100], 1, 1)


def test_a_condition_that_only_spark_understands_spares_nothing_by_that(tmp_path: Path) -> None:
    table = written(tmp_path / "t", pa.int64(), [1, 2, 3, 4, 5, 6])
    layout = table.layout("c", "c > 4 AND soundex(n) = 'x'")
    assert layout.opened == 1 and "soundex" in layout.left_out[0]


@pytest.mark.parametrize(("column", "error", "words"), [
    ("d", InvalidSchema, "'d'"), ("c.x", InvalidSchema, "c.x"), ("", InvalidSchema, "not a column"),
    ("s", InvalidArgument, "name one of its fields: s.a"),
    ("l", InvalidArgument, "columns that have some are c"), ("m", InvalidArgument, "no bounds are kept"),
    ("s.l", InvalidArgument, "no bounds are kept")])
def test_columns_without_a_range_are_refused(
    column: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    schema = "c long, s struct<a: string, l: array<int>>, l array<int>, m map<string, int>"
    table = dn.create(tmp_path / "t", schema)
    with pytest.raises(error, match=words):
        table.layout(column)


def test_a_partition_value_that_is_none_is_named() -> None:
    builder = TableBuilder(MemoryStore()).create("c long, day date", partition_by=["day"])
    builder.commit(add("a", {"day": "never"}))
    table = dn.open(builder.store)
    with pytest.raises(InvalidTable, match="never"):
        table.layout("day")
    assert table.layout("c").num_files == 1


def test_a_condition_that_is_none_is_refused(tmp_path: Path) -> None:
    table = written(tmp_path / "t", pa.int64(), [1, 2])
    with pytest.raises(InvalidPredicate):
        table.layout("c", "c >")


def test_every_type_with_bounds_is_tried() -> None:
    """Of booleans other writers keep bounds, and we do not."""
    assert {name for name, type_ in TYPES.items() if type_.bounds} - VALUES.keys() == {"boolean"}


def test_a_pinned_version_and_a_staged_one(tmp_path: Path) -> None:
    table = written(tmp_path / "t", pa.int64(), [1, 2, 3, 4])
    assert table.as_of(0).layout("c").num_files == 1
    with table.transaction() as txn:
        txn.append({"c": [9], "n": [9]})
        assert txn.layout("c").num_files == 3 and table.layout("c").num_files == 2


def test_to_pandas_has_a_row_for_each_file(tmp_path: Path) -> None:
    frame = written(tmp_path / "t", pa.int64(), [1, 2, 3, 4]).layout("c", "c = 4").to_pandas()
    assert list(frame) == ["path", "min", "max", "rows", "bytes", "opened"]
    assert frame["opened"].tolist() == [False, True]
