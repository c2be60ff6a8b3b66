"""A table as a frame: what pandas, polars and DuckDB have taught people to try, and tools do unasked."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import pprint
import unittest.mock
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.commands.read import count as counting
from deltanb.commands.read import describe as describing
from deltanb.commands.read import sample as sampling
from deltanb.engines.arrow import data_file
from deltanb.testing import MemoryStore
from tests.helpers import table_of

pd = pytest.importorskip("pandas")
ROWS = {"id": [1, 2, 3], "name": ["a", "b", None], "x": [1.5, None, 2.5]}


@pytest.fixture
def ducks(tmp_path: Path) -> dn.DeltaTable:
    """A table in a folder, of which tools may take the path."""
    return dn.create(tmp_path / "ducks", ROWS)


# -- columns and rows by name ------------------------------------------------------------------------------


def test_a_table_has_the_length_and_shape_of_its_rows(ducks: dn.DeltaTable) -> None:
    assert (len(ducks), ducks.shape, ducks.columns) == (3, (3, 3), ["id", "name", "x"])
    ducks.delete("id = 2")
    assert (len(ducks), ducks.shape, len(ducks.as_of(0))) == (2, (2, 3), 3)
    assert ducks.dtypes == dict(zip(ducks.columns, ducks.to_arrow().schema.types, strict=True))
    assert "ID" in ducks and "y" not in ducks and 1 not in ducks


def test_a_table_without_rows_is_true() -> None:
    empty = table_of("id bigint")
    assert len(empty) == 0 and empty and bool(empty)
    with empty.transaction() as txn:
        assert txn


def test_a_column_and_columns_are_arrows_and_nothing_else_is_read(
    ducks: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []
    inner = data_file.plan_for
    monkeypatch.setattr(data_file, "plan_for", lambda *a, **k: planned.append(a[2]) or inner(*a, **k))
    assert ducks["id"].equals(ducks.to_arrow()["id"]) and isinstance(ducks["x"], pa.ChunkedArray)
    assert ducks[["x", "ID"]].equals(ducks.to_arrow(["x", "id"]))
    assert planned == [["id"], None, ["x"], ["x", "ID"], ["x", "id"]]
    with ducks.transaction() as txn:
        txn.append({"id": [4], "name": ["d"], "x": [0.0]})
        assert txn["id"].to_pylist() == [1, 2, 3, 4] and len(txn) == 4
        assert txn.reads == ["TRUE"]


@pytest.mark.parametrize(("key", "way"), [
    (0, r"head\(n\)"), (-1, r"head\(n\)"), (slice(2), r"limit=n"), (True, "where="), (None, "where="),
    (pa.compute.field("id") > 1, "where="), (pd.Series([True, False, True]), "where="), ([1], "where="),
    ("y", "the columns are id, name, x"), (["id", "idd"], "did you mean id"), (["id", "id"], "twice")])
def test_what_names_no_column_is_refused_with_the_way_out(
    ducks: dn.DeltaTable, key: Any, way: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=way):
        ducks[key]


def test_ipython_offers_the_columns_after_a_bracket(ducks: dn.DeltaTable) -> None:
    assert ducks._ipython_key_completions_() == ducks.columns


@pytest.mark.parametrize(("columns", "way"), [
    (5, r'columns=5 is not a list of names; write columns=\["name"\]'), ("id", r"write columns=\['id'\]"),
    ([5], "names of columns"), (["id", "ID"], "asked for twice"), (["idd"], "did you mean id")])
def test_columns_that_are_no_list_of_names_are_refused_by_every_read(
    ducks: dn.DeltaTable, columns: Any, way: str
) -> None:
    for read in (ducks.to_arrow, ducks.to_batches, ducks.to_pandas, lambda columns: ducks.head(1, columns),
                 lambda columns: ducks.sample(columns=columns), ducks.describe):
        with pytest.raises(errors.InvalidArgument, match=way):
            read(columns)


# -- what tools try ------------------------------------------------------------------------------------------


def _numpy() -> Any:
    return pytest.importorskip("numpy")


ITERATE: dict[str, Callable[[Any], Any]] = {
    "for": list, "star": lambda table: [*table], "sorted": sorted, "max": max, "any": any,
    "zip": lambda table: list(zip(table, table, strict=False)),
    "enumerate": lambda table: [*enumerate(table)], "dict": dict, "DataFrame": pd.DataFrame,
    "Series": pd.Series, "numpy": lambda table: _numpy().array(table),
    "numpy of two": lambda table: _numpy().array([table, table]),
}


@pytest.mark.parametrize("way", ITERATE)
def test_rows_are_not_iterated_over_and_the_error_names_what_is(ducks: dn.DeltaTable, way: str) -> None:
    with pytest.raises(TypeError, match=r"to_batches\(\).*to_pandas\(\)") as caught:
        ITERATE[way](ducks)
    assert isinstance(caught.value, errors.NotIterable)


def _pretty(what: Any) -> str:
    return str(pytest.importorskip("IPython.lib.pretty").pretty(what))


def _rich(what: Any) -> str:
    return str(pytest.importorskip("rich.pretty").pretty_repr(what))


SHOWN: dict[str, Callable[[Any], str]] = {
    "repr": repr, "pprint": pprint.pformat, "IPython": _pretty, "rich": _rich,
    "pandas": lambda table: pd.DataFrame({"table": pd.Series([repr(table)], dtype=object)}).to_string(),
    "hypothesis": lambda table: pytest.importorskip("hypothesis.vendor.pretty").pretty(table),
}


@pytest.mark.parametrize("tool", SHOWN)
def test_who_shows_a_table_counts_and_reads_no_rows(
    ducks: dn.DeltaTable, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__len__", "__getitem__", "__iter__", "count"):
        monkeypatch.setattr(dn.DeltaTable, name, unittest.mock.Mock(side_effect=AssertionError(name)))
    assert "<DeltaTable ducks, v0, Serializable>" in SHOWN[tool](ducks)


def test_tools_that_hold_a_table_as_a_value_do_so(ducks: dn.DeltaTable) -> None:
    assert pd.Series([ducks, ducks])[1] is ducks
    assert pd.DataFrame({"table": [ducks], "id": [1]})["table"][0] is ducks
    assert copy.copy(ducks).count() == pickle.loads(pickle.dumps(ducks)).count() == 3
    assert unittest.mock.call(ducks) == unittest.mock.call(ducks) and {ducks: 1}[ducks] == 1


def test_a_table_is_no_column_of_another(ducks: dn.DeltaTable) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"column 'id' is <DeltaTable ducks, .*, not a list of"):
        ducks.append({"id": ducks})


def test_tools_that_take_arrow_streams_still_take_the_table(ducks: dn.DeltaTable) -> None:
    assert pa.table(ducks).equals(ducks.to_arrow())
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(ducks).to_arrow().column_names == ducks.columns
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("d", ducks)
        assert connection.sql("SELECT count(*) FROM d").fetchall() == [(3,)]
    assert dn.create(MemoryStore(), ducks).columns == ducks.columns


# -- a sample ----------------------------------------------------------------------------------------------


@pytest.fixture
def pond() -> dn.DeltaTable:
    """Ten files of ten rows, a third of which is deleted, by vectors and without."""
    table = table_of({"id": range(10)}, properties={"delta.enableDeletionVectors": True})
    for start in range(10, 100, 10):
        table.append({"id": range(start, start + 10)})
    table.delete("id % 3 = 0")
    assert sum(vector is not None for vector in table.snapshot.files["deletion_vector"].to_pylist()) > 8
    return table


def test_a_sample_is_of_live_rows_each_at_most_once_and_any_of_them(pond: dn.DeltaTable) -> None:
    live = {number for number in range(100) if number % 3}
    seen: set[int] = set()
    for seed in range(60):
        ids = pond.sample(7, seed=seed)["id"].tolist()
        assert len(set(ids)) == 7 and set(ids) <= live
        seen |= set(ids)
    assert seen == live
    assert sorted(pond.sample(500)["id"]) == sorted(live)
    assert len(pond.sample()) == 5 and len(pond.sample(0)) == 0 and len(table_of("id int").sample(3)) == 0


def test_every_row_is_as_likely_as_any_other(pond: dn.DeltaTable) -> None:
    counts = dict.fromkeys(pond.to_arrow()["id"].to_pylist(), 0)
    for where in (None, "id >= 0"):
        for seed in range(150):
            for number in pond.sample(11, seed=seed, where=where)["id"]:
                counts[number] += 1
    expected = 2 * 150 * 11 / len(counts)
    assert all(0.5 * expected < count < 1.6 * expected for count in counts.values())


def test_a_seed_gives_the_same_rows_of_a_version(pond: dn.DeltaTable) -> None:
    for settings in ({}, {"where": "id > 20"}):
        one, other = (pond.sample(5, seed=7, **settings) for _ in range(2))
        assert one.equals(other) and not one.equals(pond.sample(5, seed=8, **settings))
    before = pond.as_of(9).sample(5, seed=7)
    pond.append({"id": [1]})
    assert pond.as_of(9).sample(5, seed=7).equals(before)
    assert not pond.sample(5).equals(pond.sample(5)), "without a seed they are others each time"
    with dn.teaching(seed=3):
        one = pond.sample(5)
    with dn.teaching(seed=3):
        assert pond.sample(5).equals(one), "but in a lesson"


def test_a_sample_reads_the_row_groups_that_it_lies_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "t").mkdir()
    for number in range(6):
        pq.write_table(pa.table({"id": range(1000), "wide": ["w" * 50] * 1000}),
                       tmp_path / "t" / f"{number}.parquet", row_group_size=100)
    table = dn.convert(tmp_path / "t")
    groups: list[Any] = []
    inner = data_file._groups
    monkeypatch.setattr(data_file, "_groups", lambda *a: groups.append(inner(*a)) or groups[-1])
    assert len(table.sample(4, seed=1, columns=["id"])) == 4
    assert 1 <= len(groups) <= 4 and sum(map(len, groups)) <= 4


def test_rows_of_files_without_statistics_are_drawn_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": range(5)}), tmp_path / "t" / "a.parquet")
    table = dn.convert(tmp_path / "t", collect_stats=False)
    opened: list[str] = []
    inner = counting.opened
    monkeypatch.setattr(counting, "opened", lambda *a, **k: opened.append(a[1]) or inner(*a, **k))
    assert sorted(table.sample(9)["id"]) == [0, 1, 2, 3, 4] and opened == ["a.parquet"]


def test_a_sample_under_a_condition_holds_few_rows() -> None:
    batches = [pa.record_batch({"id": [*range(start, start + 100)]}) for start in range(0, 10_000, 100)]
    rows = sampling.sample_of(batches, batches[0].schema, 5, __import__("random").Random(1))
    assert len(set(rows["id"].to_pylist())) == 5
    assert sampling.sample_of([], batches[0].schema, 5, __import__("random").Random(1)).num_rows == 0


@pytest.mark.parametrize(("settings", "match"), [
    ({"n": -1}, "n=-1 must be an integer of at least 0"), ({"n": 1.5}, "n=1.5"), ({"n": True}, "n=True"),
    ({"seed": "a"}, "seed='a' must be an integer"), ({"columns": ["y"]}, "no column 'y'")])
def test_wrong_arguments_of_a_sample_are_named(
    ducks: dn.DeltaTable, settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=match):
        ducks.sample(**settings)


# -- a description -------------------------------------------------------------------------------------------

DAY = dt.date(2024, 1, 1)
DESCRIBED = pa.table({
    "id": [1, 2, 3, 4, None], "small": pa.array([1, 2, 3, 4, 5], pa.int8()), "x": [0.5, 1.5, None, None, 9.0],
    "name": ["b", "a", None, "c", "c"], "flag": [True, False, True, None, True],
    "price": pa.array([Decimal("1.10"), Decimal("2.20"), None, Decimal("0.01"), Decimal("7.00")]),
    "day": [DAY, DAY + dt.timedelta(2), None, DAY, DAY],
    "at": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), None, None, None],
                   pa.timestamp("us", "UTC")),
    "raw": [b"a", b"b", None, None, None], "list": [[1], None, [], [2], [3]],
    "whole": pa.array([2**60, 2**60 + 1, 2**60, 2**60, 2**62]),
})


@pytest.mark.parametrize("is_exact", [True, False])
def test_a_description_is_pandas_of_every_column(
    is_exact: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(describing, "MAX_EXACT", 5 if is_exact else 4)
    table = table_of(DESCRIBED.slice(0, 2))
    table.append(DESCRIBED.slice(2))
    shown = table.describe()
    assert list(shown.index) == list(describing.STATISTICS) and list(shown) == DESCRIBED.column_names
    theirs = table.to_pandas()[["id", "small", "x"]].describe()
    for name in theirs:
        for row in theirs.index if is_exact else ("count", "mean", "std", "min", "max"):
            assert shown.loc[row, name] == pytest.approx(theirs.loc[row, name]), (name, row)
    assert shown.loc["null_count"].tolist() == [column.null_count for column in DESCRIBED.columns]
    assert shown["name"].tolist()[:2] == [4, 1] and shown.loc[["min", "max"], "name"].tolist() == ["a", "c"]
    assert shown.loc[["mean", "min", "max"], "flag"].tolist() == [0.75, False, True]
    assert (shown.loc["min", "price"], shown.loc["max", "price"]) == (Decimal("0.01"), Decimal("7.00"))
    assert shown.loc["mean", "at"] == dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)
    assert shown.loc[["min", "max"], "day"].tolist() == [DAY, DAY + dt.timedelta(2)]
    assert shown.loc["min":, ["raw", "list"]].isna().all(axis=None)
    assert shown.loc["mean", "whole"] > 2**60, "nothing overflows"
    assert shown.attrs["quartiles"] == ("exact" if is_exact else "estimates, of more than 4 rows")
    assert ("estimates" in caplog.text) is not is_exact


def test_a_description_of_some_columns_under_a_condition(ducks: dn.DeltaTable) -> None:
    shown = ducks.describe(["x"], where="id < 3")
    assert shown["x"].tolist()[:3] == [1, 1, 1.5] and list(shown) == ["x"]
    empty = table_of("id bigint, name string").describe()
    assert empty.loc["count"].tolist() == [0, 0] and empty.loc["mean":].isna().all(axis=None)


def test_nan_is_a_value_of_a_description() -> None:
    shown = table_of({"x": [1.0, float("nan"), 3.0]}).describe()["x"]
    assert shown["count"] == 3 and shown["mean"] != shown["mean"]
    assert (shown["min"], shown["max"]) == (1.0, 3.0)
