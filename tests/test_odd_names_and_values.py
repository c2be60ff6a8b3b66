"""Names, texts and numbers at the edge of what can be held: right, or refused by an error of ours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb.actions import AddFile
from deltanb.errors import (
    ConstraintViolation,
    DataFileNotFound,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    InvalidSchema,
    InvalidTable,
    InvalidTransaction,
    SchemaMismatch,
    UnsupportedPredicate,
)
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.operations import Operation
from tests.helpers import ids

NAMES = ['a"b', "a\\b", '"', "a\x01b", "a\nb", "a\x00b", "a'b", "a`b", "a.b", "a/b", "\\u0041", "%41", "é"]
MAPPED = {"delta.columnMapping.mode": "name"}
HALF = "a\ud800b"
MANY_DIGITS = "9" * 5000
LONG = "i = 1 AND " * 400


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_is_asked_for(tmp_path: Path, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    values = pa.array([1, 2, None, 3])
    rows = pa.table({name: values, "id": range(4), "st": pa.StructArray.from_arrays([values], [name])})
    for partitioned in ([], [name]):
        path = tmp_path / ("p" if partitioned else "u")
        table = create(path, rows.slice(0, 2), properties=MAPPED, partition_by=partitioned)
        table.append(rows.slice(2))
        for column in (quoted, f"st.{quoted}"):
            for where, expected in [(f"{column} = 2", [1]), (f"{column} IN (1, 3)", [0, 3]),
                                 (f"{column} IS NULL", [2]), (f"NOT {column} < 2", [1, 3])]:
                assert ids(table, where) == expected
            assert table.snapshot.files_for_scan(f"{column} > 2").num_rows == 1
        table.delete(f"{quoted} = 2", engine="arrow")
        table.update({"id": "9"}, where=f"st.{quoted} = 1", engine="arrow")
        assert ids(table) == [2, 3, 9]


@pytest.mark.parametrize("scale", [0, 10, 38])
def test_decimals_of_38_nines_are_values(tmp_path: Path, scale: int) -> None:
    with localcontext() as context:
        context.prec = 38
        most = Decimal("9" * 38).scaleb(-scale)
        values = [most, -most, Decimal(1).scaleb(-scale), None]
    rows = pa.table({"id": range(4), "d": pa.array(values, pa.decimal128(38, scale))})
    for partitioned in ([], ["d"]):
        path = tmp_path / f"t{len(partitioned)}"
        table = create(path, rows, partition_by=partitioned)
        assert table.to_arrow().sort_by("id").select(["id", "d"]) == rows
        for number, value in enumerate(values[:3]):
            assert value is not None
            for where in (f"d = {value:f}", f"d = CAST('{value:f}' AS DECIMAL(38,{scale}))",
                          f"-d = {value.copy_negate():f}", f"d BETWEEN {value:f} AND {value:f}"):
                assert ids(table, where) == [number]
        if not partitioned:
            table.update({"d": f"{most:f}"}, where="id = 3", engine="arrow")
            assert ids(table, f"d = {most:f}") == [0, 3]
        table.delete(f"d = {most:f}", engine="arrow")
        assert ids(table) == ([1, 2] if not partitioned else [1, 2, 3])


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return create(tmp_path / "t", pa.table({"i": [1, 2], "s": ["a", "b"], "x": [1.0, 2.0]}))


@pytest.mark.parametrize("where", [
    f"i = {MANY_DIGITS}", f"i = -{MANY_DIGITS}", f"x = {MANY_DIGITS}", f"i IN (1, {MANY_DIGITS})",
    f"i = {MANY_DIGITS}.0", f"i = 1.{MANY_DIGITS}", f"i = 1e{MANY_DIGITS}", f"i = 1e{MANY_DIGITS}BD",
    f"CAST('{MANY_DIGITS}' AS INT) = i", f"CAST('{MANY_DIGITS}' AS DECIMAL(38,0)) = i",
    f"CAST(i AS DECIMAL({MANY_DIGITS},0)) = 1", f"i = '{MANY_DIGITS}'", f"substring(s, {MANY_DIGITS}) = 'a'",
    "CAST(1e300 AS DECIMAL(10,2)) = 1", "CAST('1e999999999999' AS DECIMAL(10,2)) = 1", f"i = {'9' * 39}",
    LONG, f"zzz = 1 AND {LONG} TRUE", f"{LONG} i = 'abc'", f"{LONG} hash(i) = 1", f"s = '{'x' * 5000}",
    "(" * 3000 + "i = 1" + ")" * 3000, f"{LONG} s = '{HALF}'",
])
def test_what_is_wrong_with_long_sql_is_said_in_short(table: DeltaTable, where: str) -> None:
    for refused in (lambda: table.to_arrow(where=where), lambda: table.delete(where, engine="arrow")):
        with pytest.raises((InvalidPredicate, UnsupportedPredicate)) as caught:
            refused()
        assert len(str(caught.value)) < 800
        assert where[:40] in str(caught.value)
        assert caught.value.predicate == where
    assert table.version == 0


def test_other_messages_cut_sql_too(table: DeltaTable) -> None:
    rows = table.to_arrow()
    refusals: list[Callable[[], Any]] = [
        lambda: table.add_constraint("c", f"{LONG} i = 7"),
        lambda: table.overwrite(rows, where=f"{LONG} i = 7"),
        lambda: table.update({"i": "1 + " * 2000 + "1"}, engine="arrow"),
        lambda: table.update({"i": f"'{'z' * 5000}'"}, engine="arrow"),
        lambda: table.merge(rows, f"t.zz = s.i AND {LONG} TRUE", target_alias="t", source_alias="s")
        .when_matched_update_all().execute(),
    ]
    for refused in refusals:
        with pytest.raises((ConstraintViolation, InvalidArgument)) as caught:
            refused()
        assert len(str(caught.value)) < 1000


def test_numbers_that_are_longer_still_compare(table: DeltaTable) -> None:
    assert ids(table, f"s = '{MANY_DIGITS}'", "i") == []
    assert ids(table, "x < 1e400", "i") == [1, 2]
    assert ids(table, f"x < CAST('{MANY_DIGITS}' AS DOUBLE)", "i") == [1, 2]


def test_nat_is_null_in_a_frame_and_refused_elsewhere(tmp_path: Path, table: DeltaTable) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"i": [1, 2], "t": [pd.Timestamp("2020-01-01"), pd.NaT]})
    for partitioned in ([], ["t"]):
        made = create(tmp_path / f"f{len(partitioned)}", frame, partition_by=partitioned)
        assert ids(made, "t IS NULL", "i") == [2]
    for refused in (lambda: create(tmp_path / "x", [{"t": dt.datetime(2020, 1, 1)}, {"t": pd.NaT}]),
                    lambda: table.as_of(pd.NaT)):
        with pytest.raises(InvalidArgument, match="NaT"):
            refused()
    made.update({"i": pd.NaT}, where="i = 1")  # a value of its own is NULL
    assert made.to_arrow()["i"].null_count == 1


def test_a_nul_is_a_character_of_a_value_and_of_no_path(tmp_path: Path, table: DeltaTable) -> None:
    rows = pa.table({"s": ["a\0b", "c"], "i": [1, 2]})
    for partitioned in ([], ["s"]):
        made = create(tmp_path / f"n{len(partitioned)}", rows, partition_by=partitioned)
        assert ids(made, "s = 'a\0b'", "i") == ids(made, r"s = 'a\0b'", "i") == [1]
        made.delete("s = 'a\0b'", engine="arrow")
        assert made.to_arrow()["s"].to_pylist() == ["c"]
    for refused in (lambda: create(f"{tmp_path}/a\0b", rows), lambda: DeltaTable.for_path(f"{tmp_path}/a\0b"),
                    lambda: table.clone(f"{tmp_path}/a\0b")):
        with pytest.raises(InvalidArgument, match="NUL"):
            refused()


def test_half_of_a_character_is_refused_wherever_it_stands(tmp_path: Path, table: DeltaTable) -> None:
    refusals: list[Callable[[], Any]] = [
        lambda: create(tmp_path / "a", {"s": [HALF]}),
        lambda: create(tmp_path / "b", {HALF: [1]}),
        lambda: create(tmp_path / "c", f"`{HALF}` int"),
        lambda: create(tmp_path / HALF, {"i": [1]}),
        lambda: DeltaTable.for_path(f"{tmp_path}/{HALF}"),
        lambda: table.append([{"i": 1, "s": HALF, "x": 1.0}]),
        lambda: table.update({"s": f"'{HALF}'"}, engine="arrow"),
        lambda: table.add_columns(f"`{HALF}` int"),
        lambda: table.add_constraint("c" + HALF, "i > 0"),
        lambda: table.set_properties({"a": HALF}),
    ]
    for refused in refusals:
        with pytest.raises(DeltaError) as caught:
            refused()
        str(caught.value).encode()
    assert table.version == 0


@pytest.mark.parametrize("path", ["a%00b.parquet", "a\ud800b.parquet", "%ED%A0%80.parquet"])
def test_a_file_that_no_disk_can_hold_is_not_there(table: DeltaTable, tmp_path: Path, path: str) -> None:
    txn = DeltaLog.for_table(tmp_path / "t").start_transaction()
    added = AddFile(path=path, partition_values={}, size=1, modification_time=1, data_change=True)
    if not path.isascii():
        with pytest.raises(InvalidTransaction, match="an unpaired surrogate"):
            txn.commit([added], Operation("WRITE", {}))
        return
    txn.commit([added], Operation("WRITE", {}))
    with pytest.raises((DataFileNotFound, InvalidTable)):
        DeltaTable.for_path(tmp_path / "t").to_arrow()


def test_integers_beyond_every_type_are_refused(tmp_path: Path, table: DeltaTable) -> None:
    for number in (10**38, 10**5000):
        with pytest.raises((InvalidArgument, InvalidSchema)):
            create(tmp_path / "x", {"i": [number]})
    for number in (10**30, 10**38, 10**5000):
        with pytest.raises((InvalidArgument, SchemaMismatch)):
            table.append([{"i": number, "s": "a", "x": 1.0}])
    assert str(create(tmp_path / "wide", {"i": [10**30]}).schema.field("i").type) == "decimal(31,0)"


BEYOND = 10**4400
"""An integer that Python does not write as text: a message that tries is a ValueError of Python's."""


@pytest.mark.parametrize("where", [
    "i < " + "9" * 4400, "i < -" + "9" * 39, "i IN (1, " + "9" * 39 + ")", "x < 1." + "0" * 39,
    "i < CAST('1' AS DECIMAL(39,0))", "i < CAST(1 AS DECIMAL(3,5))",
])
def test_what_no_spark_can_evaluate_starts_none(
    table: DeltaTable, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "deltanb.engines.spark.session.spark", lambda *_, **__: pytest.fail("a session is started"))
    refusals: list[Callable[[], Any]] = [
        lambda: table.delete(where),
        lambda: table.update({"i": "1"}, where=where),
        lambda: table.update({"i": f"CASE WHEN {where} THEN 1 END"}),
        lambda: table.add_constraint("c", where),
        lambda: table.merge(table.to_arrow(), f"t.i = s.i AND t.{where}", target_alias="t", source_alias="s")
        .when_matched_delete().execute(),
    ]
    for refused in refusals:
        with pytest.raises(InvalidPredicate, match="Spark's SQL has no"):
            refused()
    assert table.version == 0


def test_a_long_number_that_spark_reads_as_a_double_is_left_to_it(table: DeltaTable) -> None:
    with pytest.raises(UnsupportedPredicate):
        table.to_arrow(where="x < " + "9" * 40 + "D")


def test_integers_beyond_every_number_are_refused_by_name(table: DeltaTable, tmp_path: Path) -> None:
    refusals: list[Callable[[], Any]] = [
        lambda: table.as_of(BEYOND), lambda: table.as_of(-BEYOND), lambda: table.as_of(2**63),
        lambda: table.restore(BEYOND), lambda: table.history(-BEYOND), lambda: table.changes(BEYOND),
        lambda: table.changes(0, BEYOND), lambda: table.diff(BEYOND, 0),
        lambda: DeltaTable.for_path(tmp_path / "t").log.start_transaction().txn_version(BEYOND),  # type: ignore[arg-type]
        lambda: table.set_properties({"delta.checkpointInterval": BEYOND}),
        lambda: table.set_properties({"delta.logRetentionDuration": f"interval {MANY_DIGITS} days"}),
        lambda: table.vacuum(float("inf")), lambda: table.vacuum(10**400, check=False),
        lambda: table.vacuum(BEYOND), lambda: table.vacuum(-BEYOND),
        lambda: Operation("W", {"a": BEYOND}), lambda: Operation("W", metrics={"a": BEYOND}),
    ]
    for refused in refusals:
        with pytest.raises(InvalidArgument):
            refused()
    for sql_type in (f"decimal({MANY_DIGITS},0)", f"decimal(10,{MANY_DIGITS})", f"varchar({MANY_DIGITS})",
                   "char(0)", "decimal(39,0)"):
        with pytest.raises(InvalidSchema):
            table.add_columns({"d": sql_type})
    assert table.version == 0
    assert table.add_columns({"d": "decimal(38,38)", "v": f"varchar({2**31 - 1})"}) == 1


def test_a_nul_in_a_file_uri_is_one_however_it_is_written(tmp_path: Path) -> None:
    for refused in (lambda: DeltaTable.for_path(f"file://{tmp_path}/a%00b"),
                    lambda: create(f"FILE://{tmp_path}/a%00b", {"i": [1]})):
        with pytest.raises(InvalidArgument, match="NUL"):
            refused()
    assert create(f"{tmp_path}/a%00b", {"i": [1]}).version == 0  # a path is no URI: three characters


@pytest.mark.parametrize("arguments", [
    {"parameters": "abc"}, {"parameters": ["a"]}, {"parameters": {"a": object()}}, {"parameters": {1: 2}},
    {"parameters": {"a": [{1, 2}]}}, {"metrics": "abc"}, {"metrics": {"a": object()}}, {"tags": "abc"},
])
def test_an_operation_that_no_log_can_hold_is_none(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="operation W"):
        Operation("W", **arguments)


def test_names_of_columns_are_texts(table: DeltaTable) -> None:
    pd = pytest.importorskip("pandas")
    for name in (pd.NaT, 1, None, b"i"):
        for refused in (lambda n=name: table.to_arrow(columns=[n]),  # type: ignore[misc]
                        lambda n=name: table.to_pandas(columns=["i", n]),  # type: ignore[misc]
                        lambda n=name: table.drop_columns([n]),  # type: ignore[misc]
                        lambda n=name: table.rename_column(n, "b")):  # type: ignore[misc]
            with pytest.raises(DeltaError):
                refused()


@pytest.mark.spark
def test_what_spark_refuses_is_an_error_of_ours(tmp_path: Path, spark: Any) -> None:
    table = create(tmp_path / "t", {"i": [0, 1], "s": ["a", "b"]})
    rows = table.to_arrow()
    source = spark.createDataFrame([(1, "b")], "i int, s string")
    refusals: list[Callable[[], Any]] = [
        lambda: table.update({"s": "raise_error('own')"}, engine="spark"),
    ]
    for condition in ("hash(i) < " + "9" * 39, "assert_true(i > 5, 'no') IS NULL", "hash(i) = 1 1",
                      "nosuch(i) = 1", "raise_error('own') = 1"):
        refusals += [
            lambda w=condition: table.delete(w, engine="spark"),  # type: ignore[misc]
            lambda w=condition: table.update({"s": "'c'"}, where=w, engine="spark"),  # type: ignore[misc]
            lambda w=condition: table.add_constraint("c", w, engine="spark"),  # type: ignore[misc]
            lambda w=condition: table.merge(  # type: ignore[misc]
                source, f"t.i = s.i AND {w}".replace("(i", "(t.i"), target_alias="t", source_alias="s",
                ).when_matched_delete().execute(engine="spark"),
        ]
    for refused in refusals:
        with pytest.raises(InvalidPredicate) as caught:
            refused()
        assert len(str(caught.value).partition(": ")[2]) > 5
        assert len(str(caught.value)) < 1200
    assert table.version == 0
    assert table.to_arrow() == rows


