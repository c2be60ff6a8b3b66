"""Lazy forms of a table: datasets of pyarrow's, lazy frames of polars, relations of DuckDB."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.engines.arrow import data_file, read
from deltanb.errors import (
    DataFileNotFound,
    InvalidArgument,
    InvalidPredicate,
    MissingDependency,
    UnsupportedProtocol,
)
from tests.examples import few
from tests.helpers import NAN, rows, table_of

UTC = dt.timezone.utc
DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(4)]


def part(number: int) -> pa.Table:
    """Three rows of every type; files do not overlap in most columns."""
    base = number * 3
    moment = dt.datetime(2026, 1, 1 + number, 9, 30, 0, 999, tzinfo=UTC)
    return pa.table({
        "p": pa.array(["x" if number % 2 else None] * 3, pa.string()),
        "day": pa.array([DAYS[number]] * 3),
        "id": pa.array([base, base + 1, None], pa.int64()),
        "small": pa.array([number, None, -number], pa.int8()),
        "x": pa.array([base + 0.5, NAN, None]),
        "name": pa.array([f"n{number}", "m" * 40 + str(number), "it's"]),
        "at": pa.array([moment, moment, None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(number) / 2, None, Decimal("9.25")], pa.decimal128(9, 2)),
        "flag": pa.array([True, False, None]),
        "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
    })


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dn.DeltaTable:
    """Four files in a folder, partitioned by a text and a day."""
    made = dn.create(tmp_path_factory.mktemp("lazy") / "t", part(0), partition_by=["p", "day"])
    for number in (1, 2, 3):
        made.append(part(number))
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that this library reads, as they are."""
    paths: list[str] = []
    inner = read.read_data_file

    def noted(scan: Any, row: Any, **settings: Any) -> Any:
        paths.append(row["path"])
        return inner(scan, row, **settings)

    monkeypatch.setattr(read, "read_data_file", noted)
    return paths


def by_text(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


# -- pyarrow -------------------------------------------------------------------------------------------


def test_a_dataset_has_the_rows_of_the_table(table: dn.DeltaTable) -> None:
    dataset = table.to_dataset()
    assert dataset.schema == table.schema.to_arrow()
    assert by_text(dataset.to_table()) == by_text(table.to_arrow())
    assert by_text(pickle.loads(pickle.dumps(dataset)).to_table()) == by_text(table.to_arrow())
    assert dataset.count_rows() == 12


@pytest.mark.parametrize(("condition", "files"), [
    (pc.field("p") == "x", 2), (pc.field("p").is_null(), 2), (pc.field("day") == DAYS[1], 1),
    (pc.field("id") > 8, 1), (pc.field("small") == -2, 2), (pc.field("at") < pa.scalar(
        dt.datetime(2026, 1, 2, tzinfo=UTC), pa.timestamp("us", "UTC")), 1),
    (pc.field("name") < "m", 4), (pc.field("price") == Decimal("0.50"), 3), (pc.field("id").is_null(), 4),
    (pc.field("x") > 100, 4),
])
def test_a_dataset_leaves_files_out_by_what_the_log_says(
    table: dn.DeltaTable, condition: Any, files: int
) -> None:
    dataset = table.to_dataset()
    assert len(list(dataset.get_fragments(condition))) <= files
    assert by_text(dataset.to_table(filter=condition)) == by_text(table.to_arrow().filter(condition))


def test_a_dataset_can_be_narrowed_by_sql(table: dn.DeltaTable) -> None:
    dataset = table.to_dataset(where="id > 3 AND name LIKE 'n%'")
    assert by_text(dataset.to_table()) == by_text(table.to_arrow(where="id > 3 AND name LIKE 'n%'"))
    with pytest.raises(InvalidPredicate):
        table.to_dataset(where="idd > 1")


def test_a_dataset_of_any_store_and_an_evolved_schema() -> None:
    table = table_of({"id": [1]})
    table.append({"id": [2], "s": [{"a": 1}]}, merge_schema=True)
    assert by_text(table.to_dataset().to_table()) == by_text(table.to_arrow())
    assert table.as_of(0).to_pyarrow_dataset().to_table().to_pylist() == [{"id": 1}]
    assert table_of(pa.schema({"id": pa.int64()})).to_dataset().to_table().num_rows == 0


def test_a_dataset_names_a_file_that_is_gone() -> None:
    table = table_of({"id": [1]})
    dataset = table.to_dataset()
    for path in table.snapshot.files["path"].to_pylist():
        table.log.store.delete(path)
    with pytest.raises(DataFileNotFound, match="no data file"):
        dataset.to_table()


def refusals() -> dict[str, dn.DeltaTable]:
    """Tables that Arrow would read wrongly, by the feature that says why."""
    vectors = table_of({"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    vectors.delete("id = 2")
    mapped = table_of({"id": [1]}, properties={"delta.columnMapping.mode": "name"})
    widened = table_of(pa.table({"id": pa.array([1], pa.int32())}),
                       properties={"delta.enableTypeWidening": "true"})
    widened.change_column("id", type="long")
    return {"deletionVectors": vectors, "columnMapping": mapped, "typeWidening": widened}


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "typeWidening"])
def test_what_arrow_would_read_wrongly_is_refused_by_name(feature: str) -> None:
    table = refusals()[feature]
    with pytest.raises(UnsupportedProtocol, match="to_batches") as caught:
        table.to_dataset()
    assert caught.value.features == [feature]


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "typeWidening"])
def test_the_other_lazy_forms_read_these_tables(feature: str) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    ducks = refusals()[feature]
    expected = sorted(ducks.to_arrow()["id"].to_pylist())
    assert sorted(ducks.to_polars().collect()["id"].to_list()) == expected
    assert sorted(row[0] for row in ducks.to_duckdb().fetchall()) == expected
    assert ducks.to_polars().select(polars.len()).collect().item() == len(expected)
    assert duckdb.sql("SELECT count(*) FROM ducks").fetchall() == [(len(expected),)]


# -- polars --------------------------------------------------------------------------------------------


def test_a_lazy_frame_reads_nothing_before_it_is_collected(table: dn.DeltaTable, opened: list[str]) -> None:
    polars = pytest.importorskip("polars")
    frame = table.to_polars()
    assert isinstance(frame, polars.LazyFrame) and frame.collect_schema().names() == table.schema.names
    assert opened == []
    assert by_text(frame.collect().to_arrow().cast(table.schema.to_arrow())) == by_text(table.to_arrow())


@pytest.mark.parametrize(("condition", "files"), [
    ('pl.col("p") == "x"', 2), ('pl.col("p").is_null()', 2), ('pl.col("day") == dt.date(2026, 1, 2)', 1),
    ('pl.col("id") > 8', 1), ('8 < pl.col("id")', 1), ('pl.col("id").is_between(3, 4)', 1),
    ('(pl.col("id") < 2) | (pl.col("id") > 8)', 2), ('(pl.col("id") > 8) & pl.col("tags").is_null()', 1),
    ('pl.col("at") < dt.datetime(2026, 1, 2, tzinfo=UTC)', 1), ('pl.col("small") == -2', 2),
    ('pl.col("id") * 2 > 16', 4), ('pl.col("id").is_in([9])', 4), ('pl.col("x") > 100', 4),
    ('pl.col("name").str.contains("3")', 4), ('pl.col("price") == Decimal("0.5")', 4),
])
def test_a_lazy_frame_leaves_files_out_by_its_filter(
    table: dn.DeltaTable, opened: list[str], condition: str, files: int
) -> None:
    pl = pytest.importorskip("polars")
    predicate = eval(condition, {"pl": pl, "dt": dt, "UTC": UTC, "Decimal": Decimal})
    collected = table.to_polars().filter(predicate).collect()
    assert len(opened) == files or (files == 4 and len(opened) <= 4), opened
    everything = pl.from_arrow(table.to_arrow())
    assert sorted(map(str, collected.rows())) == sorted(map(str, everything.filter(predicate).rows()))


def test_a_lazy_frame_reads_the_columns_and_rows_that_it_needs(
    table: dn.DeltaTable, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    assert table.to_polars().head(2).collect().height == 2 and len(opened) == 1
    planned: list[Any] = []
    inner = data_file.plan
    monkeypatch.setattr("deltanb.engines.arrow.frames.plan",
                        lambda *args: planned.append(args[1]) or inner(*args))  # type: ignore[func-returns-value]
    assert table.to_polars().select(polars.col("id").sum()).collect().item() == 40
    assert planned[-1] == ["id"]
    assert table.to_polars().select(polars.len()).collect().item() == 12


def test_a_lazy_frame_takes_our_columns_and_condition(table: dn.DeltaTable, opened: list[str]) -> None:
    polars = pytest.importorskip("polars")
    frame = table.to_polars(["name", "id"], where=pc.field("id") > 7)
    assert frame.collect().columns == ["name", "id"] and len(opened) == 1
    assert frame.filter(polars.col("id") < 9).collect().height == 0 and len(opened) == 1
    with pytest.raises(InvalidPredicate):
        table.to_polars(where="idd > 1")
    with pytest.raises(InvalidArgument):
        table.to_polars(["idd"])


def test_a_lazy_frame_stays_at_its_version_and_can_be_collected_again() -> None:
    pytest.importorskip("polars")
    table = table_of({"id": [1]})
    frame = table.to_polars()
    table.append({"id": [2]})
    assert frame.collect().height == 1 == frame.collect().height
    assert table.to_polars().collect().height == 2


NUMBERS = st.integers(-1, 12) | st.floats(-1, 12) | st.just(NAN)
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
COMPARED = st.tuples(st.sampled_from(["id", "x", "small"]), SIGNS, NUMBERS, st.booleans())


@few
@given(st.lists(COMPARED, min_size=1, max_size=3), st.booleans())
def test_any_filter_of_polars_keeps_its_rows(
    table: dn.DeltaTable, tests: list[tuple[str, str, float, bool]], joins_by_or: bool
) -> None:
    pl = pytest.importorskip("polars")
    parts = [eval(f"{'~' if negated else ''}(pl.col({name!r}) {sign} value)", {"pl": pl, "value": value})
             for name, sign, value, negated in tests]
    predicate = parts[0]
    for other in parts[1:]:
        predicate = predicate | other if joins_by_or else predicate & other
    collected = table.to_polars().filter(predicate).select("id", "x", "small").collect()
    everything = pl.from_arrow(table.to_arrow()).filter(predicate).select("id", "x", "small")
    assert sorted(map(str, collected.rows())) == sorted(map(str, everything.rows()))


# -- DuckDB --------------------------------------------------------------------------------------------


def test_a_relation_reads_what_it_is_asked_for(table: dn.DeltaTable) -> None:
    pytest.importorskip("duckdb")
    relation = table.to_duckdb()
    assert relation.columns == table.schema.names
    assert relation.filter("id > 8").project("id").fetchall() == [(9,), (10,)]
    assert relation.aggregate("count(*)").fetchall() == [(12,)] == relation.aggregate("count(*)").fetchall()


def test_a_relation_leaves_files_out_by_its_filter(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    table = dn.create(tmp_path / "t", part(0).select(["id", "p"]))
    for number in (1, 2, 3):
        table.append(part(number).select(["id", "p"]))
    relation = table.to_duckdb()
    paths = table.snapshot.files_for_scan("id > 8")["path"].to_pylist()
    for path in set(table.snapshot.files["path"].to_pylist()) - set(paths):
        (tmp_path / "t" / path).unlink()
    assert relation.filter("id > 8").fetchall() == [(9, "x"), (10, "x")]
    assert table.to_duckdb(where="id > 8").fetchall() == [(9, "x"), (10, "x")]


def test_a_relation_takes_our_columns_condition_and_connection(
    table: dn.DeltaTable, opened: list[str]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = table.to_duckdb(["id"], where="id > 8", connection=connection)
        assert opened == []
        assert relation.fetchall() == [(9,), (10,)] == relation.fetchall() and len(opened) == 2
        ours = table.to_duckdb(connection=connection)
        assert ours.join(relation.set_alias("b"), "id").aggregate("count(*)").fetchall() == [(2,)]
    with pytest.raises(InvalidPredicate):
        table.to_duckdb(where="idd > 1")


@pytest.mark.parametrize("store", ["a folder", "memory"])
def test_a_relation_whose_file_is_gone_is_an_error_and_no_endless_wait(store: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = table_of({"id": [1]}) if store == "memory" else dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    relation = table.to_duckdb()
    table.log.store.delete(table.snapshot.files["path"].to_pylist()[0])
    with pytest.raises(duckdb.Error, match="part-00000"):
        relation.fetchall()


def test_nan_is_to_duckdb_what_it_is_here(table: dn.DeltaTable) -> None:
    pytest.importorskip("duckdb")
    for sql in ("x > 1", "x = 'NaN'", "x < 4", "x >= 9.5", "x <> 0.5"):
        ours = table.count(sql.replace("'NaN'", "CAST('NaN' AS DOUBLE)"))
        assert table.to_duckdb().filter(sql).aggregate("count(*)").fetchall() == [(ours,)], sql


# -- without them --------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_a_library_that_is_missing_is_said_with_the_way_to_get_it(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=f"pip install {library}") as caught:
        getattr(table_of({"id": [1]}), f"to_{library}")()
    assert caught.value.extra == library


# -- within transactions -------------------------------------------------------------------------------


def test_what_is_staged_is_read_and_counts_as_read() -> None:
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    table = table_of({"id": [1, 2]})
    with table.transaction() as txn:
        txn.append({"id": [3]})
        assert txn.to_polars(where="id > 2").collect().height == 1
        assert txn.to_dataset(where="id > 1").count_rows() == 2
        assert len(txn.to_duckdb(where="id > 0").fetchall()) == 3
        assert set(txn.reads) == {"id > 2", "id > 1", "id > 0"}
        txn.give_up()
    under = dn.locks.LockManager().new_transaction()
    locked = under.table(table)
    locked.append({"id": [3]})
    assert locked.to_polars().collect().height == 3 == locked.to_dataset().count_rows()
    assert len(locked.to_duckdb().fetchall()) == 3
    assert rows(table) == [{"id": 1}, {"id": 2}]
    under.rollback()
