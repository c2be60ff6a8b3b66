"""Random conditions mean what DuckDB means by them: read, skipped by statistics, and deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from deltanb.errors import UnsupportedPredicate
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from tests.random_predicates import ROWS, Sql, conditions

pytestmark = pytest.mark.slow

VECTORS = {"delta.enableDeletionVectors": "true"}
SORTED_BY = ["i", "d", "s", "dt", "dec", "f"]
PARTITIONED_BY = ["i", "dt", "bo", "dec"]


@pytest.fixture(scope="module")
def duck() -> Callable[[str], set[int]]:
    """The ids of the rows that DuckDB finds."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", ROWS)
    connection.execute("CREATE TABLE held AS SELECT * FROM rows")
    return lambda sql: {row[0] for row in connection.execute(f"SELECT id FROM held WHERE {sql}").fetchall()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same rows in small files: sorted by a column, so that bounds say something, or partitioned."""
    made = []
    for properties in ({}, VECTORS):
        for name in SORTED_BY:
            path = tmp_path_factory.mktemp(name)
            ordered = ROWS.sort_by(name)
            table = create(path, ordered.slice(0, 6), properties=properties)
            for start in range(6, ordered.num_rows, 6):
                table.append(ordered.slice(start, 6))
            made.append(path)
        for name in PARTITIONED_BY:
            path = tmp_path_factory.mktemp(name)
            create(path, ROWS, partition_by=[name], properties=properties)
            made.append(path)
    return made


@given(data=st.data(), condition=conditions())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                                 HealthCheck.filter_too_much])
def test_rows_read_and_deleted_are_those_that_duckdb_finds(
    duck: Callable[[str], set[int]], tables: list[Path], tmp_path: Path, data: st.DataObject, condition: Sql
) -> None:
    assume(condition.duck is not None)
    assert condition.duck is not None
    path = data.draw(st.sampled_from(tables))
    table = DeltaTable.for_path(path)
    expected = duck(condition.duck)
    try:
        rows_read = ids(table.to_arrow(columns=["id"], where=condition.ours))
    except UnsupportedPredicate as refused:
        event(f"refused: {str(refused)[:20]}")
        return
    assert rows_read == expected
    skipped = table.snapshot.files_for_scan(condition.ours).num_rows < table.snapshot.num_files
    event(f"files were skipped: {skipped}")
    copy = tmp_path / f"copy{next(COPIES)}"
    shutil.copytree(path, copy)
    other = DeltaTable.for_path(copy)
    other.delete(condition.ours, engine="arrow")
    assert ids(other.to_arrow(columns=["id"])) == set(range(ROWS.num_rows)) - expected
    shutil.rmtree(copy)


COPIES = count()


def ids(rows: pa.Table) -> set[int]:
    return set(rows["id"].to_pylist())
