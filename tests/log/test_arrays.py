"""Arrow's arrays are numpy's and back, whatever part of a buffer they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deltanb.log.arrays import array_of, numbers


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
                                  pa.bool_()])
def test_numbers_come_back_as_they_were(kind: pa.DataType) -> None:
    whole = pa.array([1, 0, 1, 1, 0], pa.int64()).cast(kind)
    for part in (whole, whole[2:], whole[1:4], whole[:0], pa.chunked_array([whole[3:], whole[:1]]),
                 pa.chunked_array([], kind)):
        found = numbers(part)
        assert found.tolist() == part.to_pylist()
        assert found.dtype == kind.to_pandas_dtype()
        assert array_of(found).equals(pa.array(part.to_pylist(), kind))


def test_every_second_number_is_copied() -> None:
    assert array_of(np.arange(6)[::2]).to_pylist() == [0, 2, 4]
