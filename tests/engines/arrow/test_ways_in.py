"""Odd data × every way into a table × every source: whole, or refused by name, and then nothing is written.

The ways are the methods of the contract that take data, of every kind of table, and the functions that make a
table; a method that is added is tried by itself.
"""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.catalog.iceberg.table import IcebergTable, PinnedIcebergTable
from deltanb.errors import DeltaError
from deltanb.table.contract import declared
from deltanb.testing import MemoryStore
from tests.engines.arrow.test_arrow_kinds import OF_USERS
from tests.helpers import table_of, tree
from tests.table import test_contract as contract
from tests.table_kinds import MAKERS, Home

pd = pytest.importorskip("pandas")

MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 6)
EAST = dt.timezone(dt.timedelta(hours=2))
NANOS = pd.Timestamp("2024-01-02 03:04:05.000006007")


class Odd(NamedTuple):
    """Values of a column, and what the refusal must say."""

    column: str
    values: list[Any]
    words: tuple[str, ...]


class Shade(enum.Enum):
    """A value of nobody's type."""

    RED = 1


ODD: dict[str, Odd] = {
    "periods": Odd("v", [pd.Period("2024-01"), None], ("Period", "to_timestamp")),
    "intervals": Odd("v", [None, pd.Interval(0, 1)], ("Interval", "left")),
    "complex": Odd("id", [1j, 2j], ("complex", "imaginary")),
    "text behind numbers": Odd("id", [1, "a"], ("row 2", "str", "of type int", "one type")),
    "numbers behind text": Odd("v", ["a", 1], ("row 2", "int", "of type str", "one type")),
    "truth beside numbers": Odd("x", [1.5, True], ("row 2", "bool", "mixes numbers and truth values")),
    "bytes beside texts": Odd("v", ["a", b"b"], ("row 2", "bytes", "mixes texts and bytes")),
    "a day beside a time": Odd("at", [dt.date(2024, 1, 1), MOMENT], ("row 2", "datetime", "mixes days")),
    "a zone beside none": Odd("at", [MOMENT, MOMENT.replace(tzinfo=EAST)], ("row 2", "with a zone")),
    "a decimal beside a float": Odd("x", [Decimal("1.5"), 1.5], ("row 2", "float", "of type Decimal")),
    "objects": Odd("v", [object(), None], ("object", "str(value)")),
    "paths": Odd("v", [PurePosixPath("a"), None], ("PurePosixPath", "str(value)")),
    "enumerations": Odd("v", [Shade.RED, None], ("Shade", "value.name")),
    "fractions": Odd("x", [Fraction(1, 3), None], ("Fraction", "Decimal")),
    "frozen sets": Odd("v", [frozenset([1]), None], ("frozenset", "list(value)")),
    "UUIDs in lists": Odd("v", [[uuid.UUID(int=1)], None], ("UUID", "str(value)")),
    "mixed lists": Odd("v", [[1, "a"], None], ("row 1", "list", "one type")),
    "nested bytes": Odd("v", [{"f": "a"}, {"f": b"a"}], ("v.f", "mixes texts and bytes")),
    "nested nanoseconds": Odd("v", [[NANOS], None], ("v.element", "row 1", "nanoseconds", "truncate")),
    "nanoseconds": Odd("at", [MOMENT, NANOS], ("row 2", "nanoseconds", 'nanoseconds="truncate"')),
    "halves of characters": Odd("v", ["a", "\ud800"], ("row 2", "str", "whole characters")),
}
ROWS = {"id": [1, 2], "v": ["a", "b"], "x": [0.5, None], "at": [MOMENT, None]}
"""Of the tables that the data goes into."""


# -- sources -----------------------------------------------------------------------------------------------


def columns_with(odd: Odd) -> dict[str, list[Any]]:
    return {name: odd.values if name == odd.column else values for name, values in ROWS.items()}


def of_objects(columns: dict[str, list[Any]]) -> Any:
    """A frame of pandas whose columns are what a person's objects are in."""
    frame = pd.DataFrame({"id": columns["id"]}, dtype=object)
    for name, values in columns.items():
        frame[name] = pd.Series(values, dtype=object)
    return frame


SOURCES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "columns": dict,
    "rows": lambda columns: [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "pandas": of_objects,
}


def nanoseconds(column: pa.Array) -> pa.Table:
    return pa.table({**ROWS, "at": column})


def _polars(rows: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(rows)


def _duckdb(rows: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(rows)


TYPED: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda rows: rows, "batches": lambda rows: iter(rows.to_batches()),
    "stream": pa.Table.to_reader,
    "polars": _polars, "lazy polars": lambda rows: _polars(rows).lazy(), "pandas": pa.Table.to_pandas,
    "duckdb": _duckdb, "dictionary": lambda rows: rows.set_column(3, "at", rows["at"].dictionary_encode()),
}
"""Sources whose columns have types, which hold nanoseconds as such."""


def odd_data(match: str = "") -> Iterator[tuple[str, Callable[[], Any], Odd]]:
    """All of it: a name, what makes it anew, and what is odd about it."""
    for kind, odd in ODD.items():
        for source, make in SOURCES.items():
            if match in kind:
                yield f"{kind} in {source}", lambda make=make, odd=odd: make(columns_with(odd)), odd
    rows = nanoseconds(pa.array([1000, 2007], pa.timestamp("ns")))
    for source, made in TYPED.items():
        yield f"nanoseconds in {source}", lambda made=made: made(rows), ODD["nanoseconds"]
    frame = pd.DataFrame(ROWS)
    named = Odd("index", [], ("index", "rename_axis", "reset_index(drop=True)"))
    for labels in (["a", "b"], [0.5, 1.5], pd.to_datetime(["2024-01-01", "2024-01-02"])):
        yield f"an index of {labels}", lambda labels=labels: frame.set_index(pd.Index(labels)), named
    twice = Odd("v", [], ("2 columns named 'v'", "rename"))
    yield "columns of one name", lambda: frame.rename(columns={"x": "v"}), twice
    levels, none, number = (
        Odd(name, [], words) for name, words in {
            "frame": ("2 levels", "join"), "None": ("None", "rename"), "1": ("'1'", "rename")}.items())
    yield "names of two levels", lambda: pd.concat({"a": frame}, axis=1), levels
    yield "a name that is no text", lambda: frame.rename(columns={"x": None}), none
    yield "a number and its text", lambda: {**ROWS, 1: [1, 2], "1": [1, 2]}, number


# -- ways in -----------------------------------------------------------------------------------------------


def takes_data(kind: type, name: str) -> bool:
    return declared(kind)[name].does.is_staged and bool(
        {"data", "source"} & inspect.signature(getattr(kind, name)).parameters.keys())


METHODS = [pytest.param(kind, name, id=f"{kind.__name__}-{name}") for kind in MAKERS
           for name in declared(kind) if kind is not PinnedIcebergTable and takes_data(kind, name)]


def test_the_methods_that_take_data_are_found() -> None:
    assert {name for kind, name in (each.values for each in METHODS) if kind is dn.DeltaTable} >= {
        "append", "overwrite", "merge", "upsert"}


def hand_in(table: Any, name: str, data: Any) -> Any:
    """Call a method with the data."""
    if name == "merge":
        return table.merge(data, "target.id = source.id").when_not_matched_insert_all().execute()
    return getattr(table, name)(data, **({"on": "id"} if name == "upsert" else {}))


@pytest.fixture
def home(kind: type[Any], tmp_path: Path) -> Iterator[Home]:
    with MAKERS[kind](tmp_path, ROWS, properties=contract.PROPERTIES) as made:
        yield made


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_what_would_be_lost_is_refused_by_name_and_nothing_is_written(
    kind: type[Any], name: str, home: Home, tmp_path: Path
) -> None:
    before = home.version, contract.operations(home), tree(tmp_path)
    for case, make, odd in odd_data():
        with pytest.raises(DeltaError) as caught:
            hand_in(home.table, name, make())
        text = str(caught.value)
        assert odd.column in text and all(word in text for word in odd.words), (case, text)
        assert (home.version, contract.operations(home), tree(tmp_path)) == before, case


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_the_option_cuts_nanoseconds_off_and_says_it_nowhere_else(
    kind: type[Any], name: str, home: Home
) -> None:
    rows = nanoseconds(pa.array([1999, 2000], pa.timestamp("ns"))).set_column(0, "id", pa.array([3, 4]))
    with dn.set_options(nanoseconds="truncate"):
        hand_in(home.table, name, rows)
    at = dict(zip(*(home.table.to_arrow()[column].to_pylist() for column in ("id", "at")), strict=True))
    assert (at[3], at[4]) == (dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 2))


@pytest.mark.parametrize("format", ["path", "delta", "iceberg"])
def test_no_table_is_made_of_what_is_refused(format: str, tmp_path: Path) -> None:
    if format == "iceberg":
        pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", tmp_path / "warehouse")
    with catalog:
        catalog.create_namespace("shop")
        for case, make, odd in odd_data():
            with pytest.raises(DeltaError) as caught:
                if format == "path":
                    dn.create(tmp_path / "new", make())
                else:
                    catalog.create_table("shop.new", make(), format=format)
            text = str(caught.value)
            assert odd.column in text and all(word in text for word in odd.words), (case, text)
            assert not [name for name in tree(tmp_path) if not name.startswith("catalog.db")], case
            assert catalog.list_tables("shop") == []


# -- what is whole -----------------------------------------------------------------------------------------

WHOLE: dict[str, tuple[list[Any], list[Any]]] = {
    "UUIDs": ([uuid.UUID(int=1), None], [str(uuid.UUID(int=1)), None]),
    "durations": (2 * [dt.timedelta(microseconds=-1)], 2 * [dt.timedelta(microseconds=-1)]),
    "times of pandas": ([pd.Timestamp(MOMENT), None], [MOMENT, None]),
    "times in two zones": (
        [MOMENT.replace(tzinfo=dt.timezone.utc), MOMENT.replace(tzinfo=EAST)],
        [MOMENT.replace(tzinfo=dt.timezone.utc), MOMENT.replace(tzinfo=EAST)]),
    "integers beside none": ([2**62 + 1, None], [2**62 + 1, None]),
    "long integers": ([2**70, 1], [Decimal(2**70), Decimal(1)]),
    "integers and floats": ([1, 0.5], [1.0, 0.5]),
    "scalars of NumPy": ([np.int16(1), np.int16(2)], [1, 2]),
    "sets and tuples": ([(1, 2), (3,)], [[1, 2], [3]]),
    "structs of several forms": ([{"a": 1}, {"b": "x"}], [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
    "decimals": ([Decimal("1.50"), Decimal("-0.125")], [Decimal("1.500"), Decimal("-0.125")]),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", WHOLE)
def test_what_has_a_type_is_stored_whole(kind: str, source: str) -> None:
    values, stored = WHOLE[kind]
    table = table_of(SOURCES[source]({"id": [1, 2], "c": values}))
    assert table.to_arrow()["c"].to_pylist() == stored


def test_encoded_columns_are_written_to_iceberg_as_the_values_that_they_are(tmp_path: Path) -> None:
    encodings = (
        "DICTIONARY", "RUN_END_ENCODED", "STRING_VIEW", "BINARY_VIEW", "LIST_VIEW", "LARGE_LIST_VIEW")
    rows = pa.table({"id": range(4), **{
        kind: array for kind, array in OF_USERS.items() if any(name in kind for name in encodings)}})
    with MAKERS[IcebergTable](tmp_path, rows.slice(0, 0)) as home:
        table = home.table
        table.append(rows.slice(0, 0))
        table.append(rows.slice(0, 3))
        table.upsert(rows.slice(2), on="id")
        assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


def test_a_series_of_pandas_among_columns_is_taken_as_pandas_means_it() -> None:
    table = table_of({
        "a": pd.Series(["x", np.nan], dtype=object), "b": pd.Series([1, None], dtype="Int64"),
        "c": pd.Categorical(["u", None]), "d": np.array([1.5, 2.5]),
        "e": pd.Series(["x", pd.NA], dtype="string"),
        "f": pd.Series([pd.Timestamp(MOMENT), pd.NaT], dtype=object)})
    assert table.to_arrow().to_pylist() == [
        {"a": "x", "b": 1, "c": "u", "d": 1.5, "e": "x", "f": MOMENT},
        {"a": None, "b": None, "c": None, "d": 2.5, "e": None, "f": None}]


def test_a_time_that_is_missing_says_nothing_of_the_zone() -> None:
    east = NANOS.tz_localize("Europe/Athens")
    frame = pd.DataFrame({"c": pd.Series([pd.NaT, east], dtype=object)})
    with dn.set_options(nanoseconds="truncate"):
        stored = table_of(frame).to_arrow()["c"]
    assert stored.to_pylist() == [None, east.floor("us").to_pydatetime()] and stored.type.tz == "UTC"


def test_integers_name_columns_as_pandas_numbers_them() -> None:
    assert table_of(pd.DataFrame(np.eye(2))).columns == ["0", "1"]
    assert table_of([{1: "a"}, {1: "b", 2: "c"}]).to_arrow().to_pylist() == [
        {"1": "a", "2": None}, {"1": "b", "2": "c"}]


def test_a_refusal_of_a_long_column_finds_its_row() -> None:
    with pytest.raises(DeltaError, match=r"column 'c' .* row 70001 is a str, 'x'"):
        table_of({"c": [*range(70_000), "x", *range(5)]})


@pytest.mark.parametrize("data", [
    {"a b": [1]}, {"s": [{"a b": 1}]}, pd.DataFrame({"a b": [1]}), pa.table({"a,b": [1]}), [{"a=b": 1}]])
def test_names_that_need_column_mapping_say_how_to_get_it(data: Any) -> None:
    for write in (lambda: table_of(data), lambda: table_of({"id": [1]}).append(data, merge_schema=True)):
        with pytest.raises(DeltaError, match=r"invalid character.*Rename .*columnMapping\.mode") as caught:
            write()
        assert '"delta.columnMapping.mode": "name"' in str(caught.value)
    assert table_of(data, properties={"delta.columnMapping.mode": "name"}).count() == 1


# -- values of assignments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [NANOS, NANOS.to_datetime64()], ids=["pandas", "NumPy"])
def test_nanoseconds_of_a_new_value_are_refused_or_cut_off_alike(value: Any) -> None:
    table = dn.create(MemoryStore(), ROWS)

    def merge(table: dn.DeltaTable) -> Any:
        begun = table.merge({"id": [1]}, "target.id = source.id")
        return begun.when_matched_update(set={"at": value}).execute()

    for write in (lambda table: table.update({"at": value}, where="id = 1"), merge):
        with pytest.raises(DeltaError, match="nanoseconds would be lost.*truncate"):
            write(table)
        with dn.set_options(nanoseconds="truncate"):
            write(table)
        assert table.to_arrow(where="id = 1")["at"].to_pylist() == [MOMENT]
        table.update({"at": None})
    table.update({"at": np.datetime64("2024-01-02", "ns")})
    assert table.to_arrow()["at"].to_pylist() == [dt.datetime(2024, 1, 2)] * 2
