"""Rows out of a table, and into it, as the libraries beside it take and give them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.engines.arrow import read
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidPredicate, MissingDependency
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.helpers import ids, last_operation, refuses, table_of


@pytest.fixture
def four() -> dn.DeltaTable:
    """Four files of one row each."""
    table = table_of({"id": [1], "n": ["a"]})
    for number in (2, 3, 4):
        table.append({"id": [number], "n": [None]})
    return table


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are read, as they are."""
    paths: list[str] = []
    inner = read.read_data_file

    def noted(scan: Any, row: Any, **settings: Any) -> Any:
        paths.append(row["path"])
        return inner(scan, row, **settings)

    monkeypatch.setattr(read, "read_data_file", noted)
    return paths


# -- Arrow's streams -----------------------------------------------------------------------------------


def test_arrow_takes_the_table_itself(four: dn.DeltaTable) -> None:
    assert pa.table(four).equals(four.to_arrow())
    with pa.RecordBatchReader.from_stream(four.as_of(0)) as reader:
        assert reader.read_all().num_rows == 1
    schema = pa.schema({"id": pa.int64(), "n": pa.large_string()})
    assert pa.RecordBatchReader.from_stream(four, schema).schema == schema


def test_polars_takes_the_table_itself(four: dn.DeltaTable) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(four)
    assert frame["id"].sort().to_list() == [1, 2, 3, 4] and frame["n"].null_count() == 3


def test_duckdb_takes_the_table_by_the_name_of_its_variable(four: dn.DeltaTable) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("registered", four)
        query = "SELECT count(*), sum(id) FROM {} WHERE id > 1"
        assert connection.sql(query.format("four")).fetchall() == [(3, 9)]
        assert connection.sql(query.format("registered")).fetchall() == [(3, 9)]
        assert connection.sql("SELECT count(*) FROM four a JOIN four b USING (id)").fetchall() == [(4,)]


def test_a_stream_opens_files_as_it_advances_and_stays_at_its_version(
    four: dn.DeltaTable, opened: list[str]
) -> None:
    stream = four.to_batches()
    assert opened == []
    four.append({"id": [5], "n": ["late"]})
    assert next(stream).num_rows == 1 and len(opened) == 1
    assert sum(batch.num_rows for batch in stream) == 3


def test_a_stream_that_nobody_drains_closes_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": list(range(200_000))})
    closed: list[bool] = []
    inner = read.read_data_file

    def noted(scan: Any, row: Any, **settings: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from inner(scan, row, **settings)
        finally:
            closed.append(True)

    monkeypatch.setattr(read, "read_data_file", noted)
    stream = table.to_batches()
    assert next(stream).num_rows == 65_536 and not closed
    del stream
    gc.collect()
    assert closed


def test_a_stream_works_under_the_settings_of_who_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": [1]})
    seen: list[int] = []
    inner = read.read_data_file

    def noted(scan: Any, row: Any, **settings: Any) -> Any:
        seen.append(dn.options.options.max_rows)
        return inner(scan, row, **settings)

    monkeypatch.setattr(read, "read_data_file", noted)
    with set_options(max_rows=3):
        stream = table.to_batches()
    thread = threading.Thread(target=stream.read_all)
    thread.start()
    thread.join()
    assert seen == [3]


def test_a_stream_names_the_file_that_is_gone(four: dn.DeltaTable) -> None:
    store = four.log.store
    for path in four.snapshot.files["path"].to_pylist():
        store.delete(path)
    with pytest.raises(DataFileNotFound):
        four.to_batches().read_all()
    with pytest.raises(OSError, match="does not exist"):
        pa.table(four)
    refuses(table_of({"id": [1], "n": ["x"]}), DataFileNotFound, "does not exist", "append", four)


def test_a_stream_checks_its_arguments_at_once(four: dn.DeltaTable, opened: list[str]) -> None:
    with pytest.raises(InvalidPredicate):
        four.to_batches(where="idd > 1")
    with pytest.raises(InvalidArgument):
        four.to_batches(columns=["none"])
    assert four.to_batches(["n"], "id > 2").read_all().num_rows == 2 and len(opened) == 2


# -- a few of them -------------------------------------------------------------------------------------


def test_a_limit_stops_early(four: dn.DeltaTable, opened: list[str]) -> None:
    assert four.to_arrow(limit=2).num_rows == 2 and len(opened) == 2
    assert four.to_batches(limit=1).read_all().num_rows == 1 and len(opened) == 3
    assert len(four.to_pandas(limit=3)) == 3 and len(opened) == 6
    assert four.to_arrow(limit=0).num_rows == 0 and len(opened) == 6
    assert four.to_arrow(limit=9).num_rows == 4


def test_a_limit_counts_rows_that_meet_the_condition(four: dn.DeltaTable) -> None:
    assert sorted(four.to_arrow(where="id > 2", limit=9)["id"].to_pylist()) == [3, 4]
    assert four.to_arrow(where="n IS NULL", limit=2)["n"].to_pylist() == [None, None]


def test_no_more_of_a_file_is_decoded_than_a_limit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": list(range(200_000))})
    sizes: list[int] = []
    inner = read.read_data_file

    def noted(scan: Any, row: Any, **settings: Any) -> Any:
        sizes.append(settings["batch_rows"])
        return inner(scan, row, **settings)

    monkeypatch.setattr(read, "read_data_file", noted)
    assert table.to_arrow(limit=7).num_rows == 7 and sizes == [7]


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_limit_is_a_number_of_rows(four: dn.DeltaTable, limit: Any) -> None:
    for read_rows in (four.to_arrow, four.to_batches, four.to_pandas):
        with pytest.raises(InvalidArgument, match="a number of rows is 0 or more"):
            read_rows(limit=limit)


def test_head_gives_a_frame_of_some_rows(four: dn.DeltaTable) -> None:
    assert len(four.head()) == 4 and len(four.head(2)) == 2
    assert list(four.head(1, columns=["n"]).columns) == ["n"]


# -- how many ------------------------------------------------------------------------------------------


def test_rows_are_counted_without_a_data_file(four: dn.DeltaTable, opened: list[str]) -> None:
    for path in four.snapshot.files["path"].to_pylist():
        four.log.store.delete(path)
    assert four.count() == 4 and four.as_of(0).count() == 1 and opened == []


def test_rows_that_a_deletion_vector_takes_away_are_not_counted() -> None:
    table = table_of({"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    assert table.count() == 2 == table.to_arrow().num_rows


def test_files_without_statistics_are_asked_for_their_footers() -> None:
    source = table_of({"id": [1, 2, 3]})
    (written,) = source.snapshot.files["path"].to_pylist()
    silent = TableBuilder(MemoryStore()).create("id long")
    with silent.store.open_output("part-0") as file:
        file.write(source.log.store.read(written))
    log = silent.commit(add("part-0"), add("part-1", stats='{"numRecords":4}')).log
    table = dn.DeltaTable(log)
    assert table.count() == 7
    silent.store.delete("part-0")
    assert table.count() == 7 == table.snapshot.row_count.known, "a version is counted once"


def test_a_condition_on_partitions_is_counted_without_a_data_file(opened: list[str]) -> None:
    table = table_of({"p": ["a", "b", "b"], "id": [1, 2, 3]}, partition_by="p")
    assert table.count("p = 'b'") == 2 and opened == []
    assert table.count("p = 'b' AND id > 2") == 1 and len(opened) == 1
    assert table.count("1 = 1") == 3 and table.count("FALSE") == 0


def test_a_count_is_a_read_of_the_transaction() -> None:
    table = table_of({"id": [1, 2]})
    with table.transaction() as txn:
        txn.append({"id": [3]})
        assert txn.count() == 3 and len(txn.head(2)) == 2 and pa.table(txn).num_rows == 3
        assert txn.reads == ["TRUE"]
        txn.give_up()
    assert table.count() == 2


def test_an_active_transaction_remembers_what_a_stream_reads() -> None:
    table = table_of({"id": [1, 2]})

    def work(txn: Any) -> list[str]:
        pa.table(table)
        table.count("id > 1")
        return [scan.text for scan in txn.reads.scans]

    assert table.log.with_new_transaction(work) == ["TRUE", "id > 1"]


def test_a_table_under_locks_is_read_in_all_ways() -> None:
    table = table_of({"id": [1, 2]})
    txn = dn.locks.LockManager().new_transaction()
    locked = txn.table(table)
    locked.append({"id": [3]})
    assert locked.count() == 3 == pa.table(locked).num_rows == len(locked.head())
    assert locked.to_batches(where="id > 2").read_all().num_rows == 1
    txn.rollback()
    assert table.count() == 2


# -- pandas --------------------------------------------------------------------------------------------


def test_pandas_types_are_chosen() -> None:
    pandas = pytest.importorskip("pandas")
    table = table_of({"i": [1, None], "s": ["a", None], "b": [True, None], "x": [0.5, None]})
    assert str(table.to_pandas()["i"].dtype) == "float64"
    nullable = table.to_pandas(dtype_backend="numpy_nullable").dtypes
    assert list(map(str, nullable)) == ["Int64", "string", "boolean", "Float64"]
    by_arrow = table.to_pandas(dtype_backend="pyarrow").dtypes
    assert all(isinstance(kind, pandas.ArrowDtype) for kind in by_arrow)
    mapped = table.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)
    assert list(map(str, mapped.dtypes)) == ["Int64", "object", "object", "float64"]


def test_a_backend_that_pandas_does_not_know_is_refused() -> None:
    table = table_of({"i": [1]})
    with pytest.raises(InvalidArgument, match="'arrow' is not one of 'pyarrow', 'numpy_nullable'"):
        table.to_pandas(dtype_backend="arrow")
    with pytest.raises(InvalidArgument, match="not both"):
        table.to_pandas(dtype_backend="pyarrow", types_mapper=lambda kind: None)


@pytest.mark.parametrize("call", ["head", "to_pandas"])
def test_without_pandas_the_error_says_how_to_get_it(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match="pip install pandas") as caught:
        getattr(table_of({"i": [1]}), call)()
    assert caught.value.extra == "pandas"


# -- paths ---------------------------------------------------------------------------------------------


def test_a_table_is_a_path(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "ducks", {"id": [1]})
    assert os.fspath(table) == str(tmp_path / "ducks") and Path(table).name == "ducks"
    assert dn.open(table).log is table.log
    with pytest.raises(TypeError, match="is not in a folder"):
        os.fspath(table_of({"id": [1]}))


# -- rows in -------------------------------------------------------------------------------------------


def batches() -> Iterator[pa.RecordBatch]:
    for number in range(3):
        yield pa.record_batch({"id": [number], "n": ["x"]})


def forms_of_rows() -> dict[str, Any]:
    """Three rows in every form beside the usual ones."""
    rows = pa.table({"id": [0, 1, 2], "n": ["x", "x", "x"]})
    forms: dict[str, Any] = {
        "a generator of batches": batches(), "a list of batches": list(batches()),
        "a list of tables": [rows.slice(0, 1), rows.slice(1)], "a table of ours": table_of(rows),
        "a past version": table_of(rows).as_of(0), "a reader": rows.to_reader(),
        "a stream of streams": iter([rows.slice(0, 2), rows.slice(2).to_batches()[0]]),
    }
    try:
        import polars

        frame = polars.from_arrow(rows)
        forms["a lazy frame"] = frame.lazy()
        forms["a categorical"] = frame.with_columns(polars.col("n").cast(polars.Categorical))
        forms["an enum"] = frame.with_columns(polars.col("n").cast(polars.Enum(["x", "y"])))
    except ImportError:
        pass
    try:
        import duckdb

        forms["a relation of DuckDB"] = duckdb.from_arrow(rows)
        forms["an enum of DuckDB"] = duckdb.sql("SELECT range AS id, 'x'::ENUM('x', 'y') AS n FROM range(3)")
    except ImportError:
        pass
    return forms


@pytest.mark.parametrize("form", list(forms_of_rows()))
def test_rows_come_in_any_form(form: str) -> None:
    expected = [{"id": number, "n": "x"} for number in range(3)]
    assert table_of(forms_of_rows()[form]).to_arrow().to_pylist() == expected
    table = table_of({"id": [7], "n": ["first"]})
    table.append(forms_of_rows()[form])
    assert ids(table) == [0, 1, 2, 7]
    table.overwrite(forms_of_rows()[form])
    assert table.to_arrow().to_pylist() == expected and last_operation(table)[0] == "WRITE"
    merge = table.merge(forms_of_rows()[form], "target.id = source.id AND source.id > "
                                               "0").when_matched_delete()
    merge.execute()
    assert ids(table) == [0]


def test_null_categories_stay_null() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"c": polars.Series(["a", None, "b", "a"], dtype=polars.Categorical)})
    assert table_of(frame).to_arrow()["c"].to_pylist() == ["a", None, "b", "a"]


def test_a_table_can_be_appended_to_itself(four: dn.DeltaTable) -> None:
    four.append(four)
    assert ids(four) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize(("data", "pattern"), [
    (iter([]), "is empty, so its columns are not known"),
    (iter([{"id": 1}]), "item 1 of the stream is dict"),
    (iter([pa.record_batch({"id": [1]}), 3]), "item 2 of the stream is int"),
    (iter([pa.record_batch({"id": [1]}), pa.record_batch({"x": [1]})]), "batch 2 has other columns"),
    (pa.array([1]), "has no rows with columns"),
])
def test_a_stream_of_anything_else_is_refused(data: Any, pattern: str) -> None:
    refuses(table_of({"id": [1]}), InvalidArgument, pattern, "append", data)
