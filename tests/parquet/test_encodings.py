"""Dictionaries are written where values come again, and nowhere else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.parquet.encodings import BLOCK_ROWS, BLOCKS, MIN_ROWS, with_bounds, with_dictionary
from deltanb.testing import MemoryStore

SAMPLE = BLOCKS * BLOCK_ROWS
ROWS = 200_000


def has_dictionary(values: pa.Array) -> bool:
    answer = with_dictionary(pa.table({"x": values}))
    assert answer in (True, [])
    return bool(answer)


@pytest.mark.parametrize(("different", "expected"), [(1, True), (1000, True), (60_000, True), (ROWS, False)])
@pytest.mark.parametrize("order", ["cyclic", "in runs"])
def test_a_column_has_a_dictionary_where_values_come_again(
    different: int, expected: bool, order: str,
) -> None:
    numbers = range(ROWS)
    values = [n % different if order == "cyclic" else n * different // ROWS for n in numbers]
    assert has_dictionary(pa.array(values, pa.int64())) is expected


def test_a_dictionary_that_the_writer_would_give_up_is_not_begun() -> None:
    texts = pa.array([f"{n % 60_000:>60}" for n in range(ROWS)])
    assert not has_dictionary(texts)  # 60,000 different texts of 60 bytes
    assert has_dictionary(pa.array([f"{n % 6_000:>60}" for n in range(ROWS)]))


@pytest.mark.parametrize("rows", [MIN_ROWS - 1, MIN_ROWS, SAMPLE, SAMPLE + 1])
def test_few_rows_have_dictionaries_in_any_case(rows: int) -> None:
    assert has_dictionary(pa.array(range(rows))) is (rows < MIN_ROWS)


def test_a_column_in_pieces_is_judged_as_one() -> None:
    column = pa.chunked_array([[n, n + 1] for n in range(0, SAMPLE * 2, 2)])
    assert with_dictionary(pa.table({"x": column})) == []


def test_nulls_are_no_values() -> None:
    assert has_dictionary(pa.nulls(ROWS, pa.int64()))
    assert has_dictionary(pa.array([None if n % 2 else n // 2 % 500 for n in range(ROWS)], pa.int64()))
    assert not has_dictionary(pa.array([None if n % 2 else n for n in range(ROWS)], pa.int64()))


def test_what_is_nested_keeps_its_dictionaries_and_floats_have_no_bounds() -> None:
    kind = pa.struct([("f", pa.float64()), ("l", pa.list_(pa.int64())), ("m", pa.map_("string", "float"))])
    ids = pa.array(range(MIN_ROWS))
    table = pa.table({"id": ids, "s": pa.nulls(MIN_ROWS, kind)})
    paths = ["s.f", "s.l.list.element", "s.m.key_value.key", "s.m.key_value.value"]
    assert with_dictionary(table) == paths
    assert with_bounds(table.schema) == ["id", *paths[1:3]]
    assert with_bounds(table.select(["id"]).schema) is True


def test_a_written_file_has_the_dictionaries_of_its_first_rows() -> None:
    store = MemoryStore()
    dn.create(store, {"id": list(range(MIN_ROWS)), "day": [n // 100 for n in range(MIN_ROWS)]})
    (name,) = [name for name in store.files if name.endswith(".parquet")]
    with store.open_input(name) as file:
        group = pq.ParquetFile(file).metadata.row_group(0)
        encodings = [group.column(place).encodings for place in range(2)]
    assert ["RLE_DICTIONARY" in names for names in encodings] == [False, True]


def test_columns_that_are_known_to_get_none_are_not_judged() -> None:
    ids = pa.array(range(MIN_ROWS))
    table = pa.table({"id": ids, "other": ids, "even": pa.array([n % 2 == 0 for n in range(MIN_ROWS)])})
    assert with_dictionary(table) == ["even"]
    assert with_dictionary(table, {"other", "even"}) == ["id", "even"]
    assert with_dictionary(table, ()) is True
