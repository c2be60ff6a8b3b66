"""Frames of pandas and polars, and Arrow's extension types: what they say is stored with its meaning, or
refused by name with the way out; nothing of it is lost in silence."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from deltanb.errors import DeltaError, InvalidArgument, InvalidSchema, SchemaMismatch
from deltanb.table.table import DeltaTable
from tests.helpers import refused, rows, table_of

pd = pytest.importorskip("pandas")


def _merged(table: DeltaTable, data: Any) -> None:
    merge = table.merge(data, "target.v = source.v").with_schema_evolution()
    merge.when_not_matched_insert_all().execute()


WRITES: dict[str, Callable[[DeltaTable, Any], Any]] = {
    "create": lambda table, data: table_of(data),
    "append": lambda table, data: table.append(data, merge_schema=True),
    "overwrite": lambda table, data: table.overwrite(data, overwrite_schema=True), "merge": _merged,
}


# --- the index of a pandas frame ------------------------------------------------------------------

UNNAMED: dict[str, Callable[[], Any]] = {
    "texts": lambda: pd.Index(["a", "b"]), "times": lambda: pd.to_datetime(["2024-01-01", "2024-01-02"]),
    "periods": lambda: pd.period_range("2024-01", periods=2, freq="M"),
    "negative": lambda: pd.Index([-1, 0]),
    "fractions": lambda: pd.Index([0.5, 1.5]), "truth": lambda: pd.Index([True, False]),
    "categories": lambda: pd.CategoricalIndex(["a", "b"]), "intervals": lambda: pd.interval_range(0, 2),
    "two levels": lambda: pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
    "a level": lambda: pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None]),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("index", UNNAMED)
def test_an_index_that_says_something_is_not_lost(index: str, write: str) -> None:
    table, frame = table_of({"v": [0]}), pd.DataFrame({"v": [1, 2]}, index=UNNAMED[index]())
    error = refused(table, InvalidArgument, lambda: WRITES[write](table, frame), "has no name")
    assert "rename_axis" in str(error) and "reset_index(drop=True)" in str(error)


def test_an_index_that_numbers_the_rows_is_left_out() -> None:
    table, frame = table_of({"v": [0]}), pd.DataFrame({"v": [1, 2, 3, 4]})
    for part in (frame, frame[frame.v > 2], frame[::2], frame[2:], frame.sort_values("v", ascending=False),
                 pd.concat([frame, frame]), frame[:0].set_index(pd.Index([], dtype=object))):
        table.append(part)
    assert table.schema.names == ["v"] and table.count() == 1 + 4 + 2 + 2 + 2 + 4 + 8


def test_an_index_with_names_becomes_columns() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", "n"])
    assert rows(table_of(pd.DataFrame({"v": [1, 2]}, index=index)), "v") == [
        {"v": 1, "k": "a", "n": 1}, {"v": 2, "k": "b", "n": 2}]
    frame = pd.DataFrame({"v": [1]}, index=pd.Index(["a"], name="v"))
    with pytest.raises(InvalidArgument, match="has the name 'v', as one of its columns"):
        table_of(frame)


# --- values ---------------------------------------------------------------------------------------

def _of_python(values: list[Any]) -> Any:
    return pd.DataFrame({"v": [1, 2], "c": values})


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("column", "way"), [
    (lambda: pd.period_range("2024-01", periods=2, freq="M"), "to_timestamp"),
    (lambda: pd.interval_range(0, 2), "left"), (lambda: pd.cut(pd.Series([1, 2]), 2), "left"),
    (lambda: [dt.time(1), dt.time(2)], "cast the column"), (lambda: [1j, 2j], "cannot be converted"),
    (lambda: [{}, {}], "without fields"),
])
def test_values_without_a_type_of_deltas_are_refused_by_name(
    column: Callable[[], Any], way: str, write: str
) -> None:
    table = table_of({"v": [1], "d": ["x"]})
    frame = pd.DataFrame({"v": [1, 2], "c": column()})
    error = refused(table, DeltaError, lambda: WRITES[write](table, frame))
    assert way in str(error) and "c" in str(error)


def test_values_with_a_type_of_deltas_keep_their_meaning() -> None:
    frame = pd.DataFrame({
        "v": [1, 2], "category": pd.Categorical(["a", None]), "numbers": pd.Categorical([5, 6]),
        "whole": pd.Series([1, None], dtype="Int64"), "text": pd.Series(["x", None], dtype="string"),
        "inside": [{"a": 1}, None], "list": [[1], [None]]})
    assert rows(table_of(frame), "v") == [
        {"v": 1, "category": "a", "numbers": 5, "whole": 1, "text": "x", "inside": {"a": 1}, "list": [1]},
        {"v": 2, "category": None, "numbers": 6, "whole": None, "text": None, "inside": None, "list": [None]}]


def _frame_of_pandas(values: list[Any]) -> Any:
    return pd.DataFrame({"v": [5, 6, 7], "c": pd.to_timedelta(values)})


def _frame_of_polars(values: list[Any]) -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"v": [5, 6, 7], "c": polars.Series(values, dtype=polars.Duration("ns"))})


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("frame", [_frame_of_pandas, _frame_of_polars])
def test_durations_of_frames_are_intervals_with_their_values(
    frame: Callable[[list[Any]], Any], write: str
) -> None:
    values = [dt.timedelta(days=-2, microseconds=1), None, dt.timedelta(seconds=1)]
    table = table_of({"v": [1], "d": ["x"]})
    made = WRITES[write](table, frame(values))
    written = made if write == "create" else table
    assert str(written.schema.field("c").type) == "interval day to second"
    assert [row["c"] for row in rows(written, "v") if row["v"] > 4] == values


# --- extension types of Arrow's -------------------------------------------------------------------

BYTES = uuid.UUID(int=1).bytes
SAMPLES: dict[str, Callable[[], pa.Array]] = {
    "arrow.uuid": lambda: pa.array([BYTES, None], pa.uuid()),
    "arrow.json": lambda: pa.array(["{}", None], pa.json_()),
    "arrow.bool8": lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([2, None], pa.int8())),
    "arrow.opaque": lambda: pa.ExtensionArray.from_storage(
        pa.opaque(pa.int32(), "n", "v"), pa.array([1, None], pa.int32())),
    "arrow.fixed_shape_tensor": lambda: pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), (2,)), pa.array([[1, 2], None], pa.list_(pa.int32(), 2))),
}
MEANT = {"arrow.uuid": ("string", [str(uuid.UUID(int=1)), None]), "arrow.json": ("string", ["{}", None]),
         "arrow.bool8": ("boolean", [True, None])}


def test_each_extension_type_of_arrows_is_tried() -> None:
    known = {kind.__name__ for kind in pa.BaseExtensionType.__subclasses__()} - {
        "ExtensionType", "PyExtensionType", "UnknownExtensionType"}
    assert known == {type(made().type).__name__ for made in SAMPLES.values()}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_extension_type_is_stored_as_what_it_means_or_refused(name: str) -> None:
    array = SAMPLES[name]()
    nested = pa.StructArray.from_arrays([array], names=["f"])
    for data, part_of in ((array, list), (nested, lambda values: [row["f"] for row in values])):
        if name not in MEANT:
            with pytest.raises(InvalidSchema, match=name):
                table_of(pa.table({"c": data}))
            continue
        table = table_of(pa.table({"c": data}))
        assert MEANT[name][0] in str(table.schema.field("c").type)
        assert part_of(table.to_arrow()["c"].to_pylist()) == MEANT[name][1]
        table.append(pa.table({"c": data}))
        assert table.count() == 4


def test_an_unknown_extension_is_not_appended_as_its_storage() -> None:
    table = table_of({"c": [1]})
    refused(table, SchemaMismatch, lambda: table.append(pa.table({"c": SAMPLES["arrow.opaque"]()})), "opaque")
    table.append(pa.table({"c": SAMPLES["arrow.opaque"]().storage}))
    periods = pd.DataFrame({"c": pd.period_range("2024-01", periods=2, freq="M")})
    refused(table, SchemaMismatch, lambda: table.append(periods), "period")


def test_uuids_go_into_columns_of_texts_and_of_bytes() -> None:
    value = uuid.UUID(int=1)
    texts, raw = table_of({"c": ["x"]}), table_of({"c": [b"x"]})
    for table in (texts, raw):
        table.append(pa.table({"c": SAMPLES["arrow.uuid"]()}))
    assert str(value) in texts.to_arrow()["c"].to_pylist() and BYTES in raw.to_arrow()["c"].to_pylist()
    try:
        inferred = pa.array([value])
    except pa.ArrowException:
        return  # of Python's UUIDs older ones make nothing, and say so
    assert inferred.type == pa.uuid() and rows(table_of({"c": [value]}), "c") == [{"c": str(value)}]
    assert rows(table_of(_of_python([value, value])), "v")[0]["c"] == str(value)


@pytest.mark.parametrize("value", [[uuid.UUID(int=1)], {"f": uuid.UUID(int=1)}], ids=["list", "struct"])
def test_uuids_that_arrow_does_not_take_are_refused_by_name(value: Any) -> None:
    for data in ({"c": [value]}, [{"c": value}], pd.DataFrame({"c": [value]})):
        with pytest.raises(InvalidArgument, match=r"(column 'c' .*UUID|UUID.* column c )"):
            table_of(data)


# --- polars ---------------------------------------------------------------------------------------

def _polars_types(kind: Any) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _polars_types(one)


def test_each_type_of_polars_is_stored_or_refused() -> None:
    polars = pytest.importorskip("polars")
    refused_types = set()
    for kind in dict.fromkeys(_polars_types(polars.DataType)):
        try:
            frame = polars.DataFrame({"id": [1], "c": polars.Series([None], dtype=kind())})
        except Exception:
            continue  # it takes arguments, or is none of values
        try:
            assert rows(table_of(frame)) == [{"id": 1, "c": None}]
        except DeltaError as error:
            assert "'c'" in str(error)
            refused_types.add(kind.__name__)
    assert {"Object", "Time", "Int128"} <= refused_types <= {"Object", "Time", "Int128", "UInt128", "UInt64"}


def test_a_type_of_polars_that_arrow_lacks_is_refused_at_any_depth() -> None:
    polars = pytest.importorskip("polars")
    table = table_of({"id": [1]})
    for series in (polars.Series([object()], dtype=polars.Object), polars.Series([[1]], dtype=polars.List(
            polars.Int128)), polars.Series([{"a": 1}], dtype=polars.Struct({"a": polars.Int128}))):
        frame = polars.DataFrame({"id": [1], "c": series})
        for data in (frame, frame.lazy(), iter([frame])):
            refused(table, InvalidArgument, lambda data=data: table.append(data, merge_schema=True), "'c")
    frame = polars.DataFrame({"c": polars.Series([["a"], None], dtype=polars.List(polars.Enum(["a"])))})
    assert table_of(frame).to_arrow()["c"].to_pylist() == [["a"], None]
