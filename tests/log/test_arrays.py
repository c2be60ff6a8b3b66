"""Arrow's arrays are numpy's and back, whatever part of a buffer they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltanb.log.arrays import array_of, numbers
from deltanb.log.arrow_rows import column, scalar


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
                                  pa.bool_()])
def test_numbers_come_back_as_they_were(kind: pa.DataType) -> None:
    whole = pa.array([1, 0, 1, 1, 0], pa.int64()).cast(kind)
    for part in (whole, whole[2:], whole[1:4], whole[:0], pa.chunked_array([whole[3:], whole[:1]]),
                 pa.chunked_array([], kind)):
        array = numbers(part)
        assert array.tolist() == part.to_pylist()
        assert array.dtype == kind.to_pandas_dtype()
        assert array_of(array).equals(pa.array(part.to_pylist(), kind))


def test_every_second_number_is_copied() -> None:
    assert array_of(np.arange(6)[::2]).to_pylist() == [0, 2, 4]


@pytest.mark.parametrize("values", [
    [{"a": ["x", "é"], "b": {"k": "v"}, "c": 1}, None, {"a": [], "b": {}, "c": None}, {"b": None}],
    [{"a": None, "unknown": 1}],
    [None, None],
])
def test_structs_of_dicts_with_lists_are_what_pyarrow_makes_of_them(values: list[Any]) -> None:
    kind = pa.struct({
        "a": pa.list_(pa.field("element", pa.string())), "b": pa.map_(pa.string(), pa.string()),
        "c": pa.int32()})
    structs = column(values, kind)
    structs.validate(full=True)
    pairs = [value and {**value, "b": None if value.get("b") is None else list(value["b"].items())}
             for value in values]
    assert structs.equals(pa.array(pairs, kind))


def test_a_scalar_is_what_pyarrow_makes_of_the_value() -> None:
    for value, kind in ((7, pa.int64()), (False, pa.bool_()), ("", pa.string()), (None, pa.int32())):
        assert scalar(value, kind).equals(pa.scalar(value, kind))
