"""Fixtures for files that are copied in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.engines.arrow import copyable, file_writer


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of a few hundred rows are large."""
    monkeypatch.setattr(copyable, "LEAST_ROWS", 1)
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 250)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the rows of each batch of a data file that is decoded."""
    counts: list[int] = []
    batches = pq.ParquetFile.iter_batches

    def noted(*args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(*args, **options):
            counts.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    return counts
