"""Python's values as Arrow arrays."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.engines.arrow.inputs import source

KINDS = [st.integers(-2**63, 2**63 - 1), st.floats(), st.text(max_size=5), st.booleans(), st.none()]


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.lists(st.none() | kind, max_size=20)))
def test_a_plain_list_is_the_array_that_arrow_makes_of_it(values: list[Any]) -> None:
    made = source({"x": values})
    expected = pa.array(values)
    assert made.schema.field("x").type == expected.type
    array = pa.Table.from_batches(made.batches(), made.schema)["x"].combine_chunks()
    array.validate(full=True)
    assert str(array.to_pylist()) == str(expected.to_pylist())  # as text: NaN, and the sign of a zero
    assert array.null_count == expected.null_count


@pytest.mark.parametrize("values", [
    [1, 2.5], [True, None, False], [b"a"], [dt.date(2024, 1, 1)], [Decimal("1.5")], [[1], None], [{"a": 1}],
    (1, None), range(3),
])
def test_other_lists_are_arrows_own(values: Any) -> None:
    table = pa.Table.from_batches(source({"x": values}).batches())
    assert table["x"].combine_chunks().equals(pa.array(values))


def test_integers_of_more_than_64_bits_are_decimals() -> None:
    assert source({"x": [2**63, 1]}).schema.field("x").type == pa.decimal128(19, 0)
