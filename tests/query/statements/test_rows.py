"""INSERT, UPDATE, DELETE and MERGE in SQL: their grammar, their values, their parameters."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb import errors
from deltanb.query.statements.kinds import ABSENT, KINDS, commands_of
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore


def ducks(schema: Any = None, **properties: Any) -> DeltaTable:
    return dn.create(
        MemoryStore("memory:///lake/ducks"), schema or {"id": [1, 2], "name": ["Donald", "Daisy"]},
        properties=properties)


def rows(table: DeltaTable, *columns: str) -> list[Any]:
    listed = table.to_arrow(list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in listed), key=str)


# -- INSERT --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("sql, expected", [
    ("INSERT INTO t VALUES (3, 'Gus')", [(3, "Gus")]),
    ("INSERT INTO TABLE t (name, ID) VALUES ('Gus', 3)", [(3, "Gus")]),
    ("INSERT INTO t (id) VALUES (3), (4)", [(3, None), (4, None)]),
    ("INSERT INTO t VALUES (1 + 2, upper('gus')), (DEFAULT, NULL)", [(3, "GUS"), (None, None)]),
    ("INSERT INTO t BY NAME SELECT 'Gus' AS NAME, 3 AS id", [(3, "Gus")]),
    ("INSERT INTO t BY NAME SELECT 3 AS id", [(3, None)]),
    ("INSERT INTO t SELECT id + 10, name FROM t WHERE id = 1", [(11, "Donald")]),
    ("INSERT INTO t (SELECT id + 10, name FROM t WHERE id = 1)", [(11, "Donald")]),
    ("INSERT INTO t (name, id) SELECT name, id FROM frame", [(7, "Huey")]),
    ("INSERT INTO t TABLE frame", [(7, "Huey")]),
    ("INSERT INTO t FROM frame", [(7, "Huey")]),
    ("WITH w AS (SELECT * FROM frame) INSERT INTO t SELECT * FROM w", [(7, "Huey")]),
    ("INSERT INTO t WITH w AS (SELECT * FROM frame) SELECT * FROM w", [(7, "Huey")]),
    ("INSERT INTO t SELECT * FROM (VALUES (3, 'it''s')) v(a, b)", [(3, "it's")]),
    ("INSERT INTO t PARTITION (name = 'Gus') VALUES (3)", [(3, "Gus")]),
    ("INSERT INTO t PARTITION (name = 'Gus') SELECT id FROM frame", [(7, "Gus")]),
])
def test_insert_adds_rows(sql: str, expected: list[Any]) -> None:
    t = ducks()
    frame = pd.DataFrame({"id": [7], "name": ["Huey"]})
    assert dn.sql(sql).version == 1 and len(frame) == 1
    assert rows(t) == sorted([(1, "Donald"), (2, "Daisy"), *expected], key=str)


@pytest.mark.parametrize("sql, columns, new", [
    ("INTO t SELECT id, name, 5 AS age FROM frame", ["id", "name", "age"], [(7, "Huey", 5)]),
    ("INTO t VALUES (3, DEFAULT, 5, 'x'), (4, upper('gus'), NULL, NULL)", ["id", "name", "col3", "col4"],
     [(3, None, 5, "x"), (4, "GUS", None, None)]),
    ("INTO t VALUES (3, :name, :age)", ["id", "name", "col3"], [(3, "Gus", 5)]),
    ("INTO t PARTITION (name = 'Gus') SELECT 3, 5 AS age", ["id", "name", "age"], [(3, "Gus", 5)]),
    ("OVERWRITE t SELECT id, name, 5 AS age FROM frame", ["id", "name", "age"], [(7, "Huey", 5)]),
    ("INTO t VALUES (3, 'Gus')", ["id", "name"], [(3, "Gus")]),
    ("INTO t SELECT 'Gus' AS name, 3 AS id", None, "id: string in the data, long in the table"),
    ("INTO t SELECT 3", None, "has 2 columns .*, and the rows have 1 value"),
    ("INTO t SELECT 3, 'Gus', 5 AS Id", None, "column id is named twice"),
    ("INTO t PARTITION (id = 3) SELECT 'Gus', 5 AS id", None, "column id is named twice"),
    ("INTO t (id, nam) SELECT 3, 'Gus'", None, "has no column nam; did you mean name"),
])
def test_insert_with_schema_evolution_goes_by_position(
    sql: str, columns: list[str] | None, new: Any
) -> None:
    t, frame, name, age = ducks(), pd.DataFrame({"id": [7], "name": ["Huey"]}), "Gus", 5
    if columns is None:
        with pytest.raises(errors.DeltaError, match=new):
            dn.sql(f"INSERT WITH SCHEMA EVOLUTION {sql}")
    else:
        dn.sql(f"INSERT WITH SCHEMA EVOLUTION {sql}")
        assert t.columns == columns and set(new) <= set(rows(t))
    assert (t.version, len(frame), name, age) == (int(columns is not None), 1, "Gus", 5)


@pytest.mark.parametrize("sql, expected", [
    ("INSERT OVERWRITE t VALUES (3, 'Gus')", [(3, "Gus")]),
    ("INSERT OVERWRITE TABLE t SELECT id * 10, name FROM t", [(10, "Donald"), (20, "Daisy")]),
    ("INSERT INTO t REPLACE WHERE id = 1 VALUES (1, 'Gus')", [(1, "Gus"), (2, "Daisy")]),
    ("INSERT INTO t REPLACE WHERE id = 1 AND CASE WHEN id > 0 THEN true ELSE false END "
     "SELECT 1, 'Gus'", [(1, "Gus"), (2, "Daisy")]),
    ("INSERT INTO t BY NAME REPLACE WHERE id = 1 SELECT 'Gus' AS name, 1 AS id", [(1, "Gus"), (2, "Daisy")]),
    ("INSERT OVERWRITE t PARTITION (id = 1) VALUES ('Gus')", [(1, "Gus"), (2, "Daisy")]),
])
def test_insert_overwrite_replaces_rows(sql: str, expected: list[Any]) -> None:
    t = ducks()
    assert dn.sql(sql).operation == "WRITE"
    assert rows(t) == sorted(expected, key=str)


WITHOUT_X = [{"id": 2, "s": {"x": None, "y": {"z": 1}}}]
ARROW = pa.table({"id": [2], "s": pa.array([WITHOUT_X[0]["s"]], pa.struct([
    ("x", pa.int32()), ("y", pa.struct([("z", pa.int32())]))]))})
WAYS_IN: dict[str, Any] = {
    "VALUES": lambda t: dn.sql(
        "INSERT INTO t VALUES (2, named_struct('x', CAST(NULL AS INT), 'y', named_struct('z', 1)))"),
    "VALUES NULL": lambda t: dn.sql(
        "INSERT INTO t VALUES (2, named_struct('x', NULL, 'y', named_struct('z', 1)))"),
    "a parameter": lambda t: dn.sql("INSERT INTO t VALUES (2, :s)", s=WITHOUT_X[0]["s"]),
    "SELECT": lambda t: dn.sql("INSERT INTO t SELECT 2, {'x': NULL::INT, 'y': {'z': 1}}"),
    "UPDATE": lambda t: dn.sql("UPDATE t SET s.x = NULL"),
    "MERGE": lambda t: dn.sql("MERGE INTO t USING ARROW s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
                              ARROW=ARROW),
    "dicts": lambda t: t.append(WITHOUT_X), "Arrow": lambda t: t.append(ARROW),
    "a stream": lambda t: t.append(ARROW.to_reader()), "overwrite": lambda t: t.overwrite(WITHOUT_X),
    "pandas": lambda t: t.append(pd.DataFrame(WITHOUT_X)), "upsert": lambda t: t.upsert(ARROW, on="id"),
    "in a transaction": lambda t: dn.sql("BEGIN ATOMIC INSERT INTO t SELECT * FROM ARROW; END", ARROW=ARROW),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_field_of_a_struct_may_be_not_null(way: str) -> None:
    t = dn.create(MemoryStore(), "id bigint, s struct<x: int NOT NULL, y: struct<z: int NOT NULL>>")
    dn.sql("INSERT INTO t VALUES (1, named_struct('x', 1, 'y', named_struct('z', 1)))")
    with pytest.raises(errors.ConstraintViolation, match="NOT NULL constraint on column 's.x' is violated"):
        WAYS_IN[way](t)
    assert t.version == 1


def test_insert_stores_values_as_spark_does() -> None:
    t = ducks("b tinyint, d decimal(5, 2), f double, day date, at timestamp, raw binary, tags array<int>, "
              "s struct<x: int, y: string>, m map<string, int>")
    dn.sql("INSERT INTO t VALUES (1, 2.5, 1e3, DATE '2026-03-01', TIMESTAMP '2026-03-01 10:00:00', X'61', "
           "array(1, 2), named_struct('x', 1, 'y', 'a'), map('k', 7))")
    (row,) = t.to_arrow().to_pylist()
    assert row == {
        "b": 1, "d": Decimal("2.50"), "f": 1000.0, "day": dt.date(2026, 3, 1),
        "at": dt.datetime(2026, 3, 1, 10, tzinfo=dt.timezone.utc), "raw": b"a", "tags": [1, 2],
        "s": {"x": 1, "y": "a"}, "m": [("k", 7)]}
    with pytest.raises(errors.DeltaError, match="300"):
        dn.sql("INSERT INTO t (b) VALUES (300)")
    assert t.version == 1


def test_insert_evolves_the_schema_and_fills_in_defaults() -> None:
    t = ducks("id bigint, name string DEFAULT 'Gus', twice bigint GENERATED ALWAYS AS (id * 2), "
              "n bigint GENERATED ALWAYS AS IDENTITY")
    dn.sql("INSERT INTO t (id) VALUES (1); INSERT INTO t (id, name) VALUES (2, DEFAULT), (3, 'Huey')")
    assert rows(t) == [(1, "Gus", 2, 1), (2, "Gus", 4, 2), (3, "Huey", 6, 3)]
    dn.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 4 AS id, 'duck' AS kind")
    assert rows(t, "id", "kind") == [(1, None), (2, None), (3, None), (4, "duck")]
    dn.sql("UPDATE t SET name = DEFAULT WHERE id = 3")
    assert rows(t, "id", "name")[2] == (3, "Gus")


@pytest.mark.parametrize("sql, error, match", [
    ("INSERT INTO t VALUES (1)", errors.InvalidQuery, "has 2 columns .id, name., and the rows have 1 value"),
    ("INSERT INTO t (id) VALUES (1, 2)", errors.InvalidQuery, "1 column is named"),
    ("INSERT INTO t (id, ID) VALUES (1, 2)", errors.InvalidQuery, "column id is named twice"),
    ("INSERT INTO t (nmae, id) VALUES (1, 2)", errors.InvalidQuery, "no column nmae; did you mean name"),
    ("INSERT INTO t VALUES (1, 'a'), (2)", errors.InvalidQuery, "1 and 2 values"),
    ("INSERT INTO t VALUES (1, Gus)", errors.InvalidPredicate, "for the text Gus write"),
    ("INSERT INTO t VALUES (current_date(), 'a')", errors.SchemaMismatch, "column 'id' .long. cannot hold"),
    ("INSERT INTO t VALUES (true, 'a')", errors.InvalidPredicate, "boolean, which a column of type bigint"),
    ("INSERT INTO t VALUES (nosuch(1), 'a')", errors.InvalidQuery, "the value of column id: DuckDB refuses"),
    ("INSERT INTO t BY NAME SELECT 1 AS nr", errors.SchemaMismatch, "nr"),
    ("INSERT INTO frame VALUES (1)", errors.InvalidQuery, "frame is a Table and no Delta table"),
    ("INSERT INTO t PARTITION (id) SELECT 1", errors.InvalidQuery, "the partition's value"),
])
def test_insert_refuses_what_does_not_fit(sql: str, error: type[Exception], match: str) -> None:
    t, frame = ducks(), pa.table({"id": [1]})
    with pytest.raises(error, match=match):
        dn.sql(sql)
    assert t.version == 0 and frame.num_rows == 1


# -- UPDATE and DELETE ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("sql, predicate, expected", [
    ("DELETE FROM t WHERE id = 1", "id = 1", [(2, "Daisy")]),
    ("DELETE FROM t x WHERE X.id = 1 AND x.name LIKE 'D%'", "id = 1 AND name LIKE 'D%'", [(2, "Daisy")]),
    ("delete from t where t.id=1 -- one", "id=1", [(2, "Daisy")]),
    ("DELETE FROM t WHERE `id` = 1", "`id` = 1", [(2, "Daisy")]),
    ("DELETE FROM t", "true", []),
    ("UPDATE t SET name = 'x' WHERE id = 1", "id = 1", [(1, "x"), (2, "Daisy")]),
    ("UPDATE t AS d SET d.name = upper(d.name), id = d.id + 1 WHERE d.id = 1", "id = 1",
     [(2, "DONALD"), (2, "Daisy")]),
    ("UPDATE t SET name = CASE WHEN id = 1 THEN 'a, b' ELSE 'WHERE' END", "", [(1, "a, b"), (2, "WHERE")]),
])
def test_conditions_stay_as_people_wrote_them(sql: str, predicate: str, expected: list[Any]) -> None:
    t = ducks()
    dn.sql(sql)
    assert rows(t) == sorted(expected, key=str)
    assert t.history()[0].operation_parameters["predicate"] == f'[{predicate and json.dumps(predicate)}]'


def test_a_column_called_as_the_table_is_a_column() -> None:
    t = ducks("t struct<a: int>, name string")
    dn.sql("INSERT INTO t VALUES (named_struct('a', 1), 'x'); UPDATE t SET t.a = 7 WHERE t.a = 1")
    assert rows(t) == [({"a": 7}, "x")]


# -- MERGE ---------------------------------------------------------------------------------------------------

SOURCE = "(SELECT 2 AS id, 'Dewey' AS name UNION ALL SELECT 3, 'Louie')"


@pytest.mark.parametrize("sql, expected", [
    (f"MERGE INTO t USING {SOURCE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
     "WHEN NOT MATCHED THEN INSERT *", [(1, "Donald"), (2, "Dewey"), (3, "Louie")]),
    (f"MERGE INTO t AS a USING {SOURCE} AS b ON a.id = b.id WHEN MATCHED AND b.name = 'Dewey' THEN DELETE "
     "WHEN NOT MATCHED BY TARGET AND CASE WHEN b.id = 3 THEN true ELSE false END "
     "THEN INSERT (id, a.name) VALUES (b.id, concat(b.name, ', 1')) "
     "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'gone', id = a.id - 1",
     [(0, "gone"), (3, "Louie, 1")]),
    (f"MERGE INTO t USING {SOURCE} source ON t.id = source.id "
     "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE", [(2, "Daisy")]),
    ("MERGE INTO t USING (VALUES (2, 'x')) AS v (id, new) ON t.id = v.id "
     "WHEN MATCHED THEN UPDATE SET name = new", [(1, "Donald"), (2, "x")]),
    ("MERGE INTO t USING frame ON t.id = frame.id "
     "WHEN MATCHED THEN UPDATE SET t.name = frame.name, id = DEFAULT", [(1, "Donald"), (None, "Huey")]),
    ("MERGE INTO t USING other@v0 o ON t.id = o.id WHEN MATCHED THEN UPDATE SET name = :new",
     [(1, "it's"), (2, "Daisy")]),
    (f"MERGE INTO t USING {SOURCE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (name) "
     "WHEN NOT MATCHED THEN INSERT * EXCEPT (name)", [(1, "Donald"), (2, "Daisy"), (3, None)]),
])
def test_merge_has_all_clauses(sql: str, expected: list[Any]) -> None:
    t, frame = ducks(), pa.table({"id": [2], "name": ["Huey"]})
    other = dn.create(MemoryStore(), {"id": [1]})
    other.delete()
    assert dn.sql(sql, new="it's").operation == "MERGE" and frame.num_rows
    assert rows(t) == sorted(expected, key=str)


def test_merge_evolves_the_schema() -> None:
    t = ducks()
    dn.sql("MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS id, 7 AS nephews) s ON t.id = s.id "
           "WHEN MATCHED THEN UPDATE SET *")
    assert rows(t) == [(1, "Donald", 7), (2, "Daisy", None)]


# -- parameters ----------------------------------------------------------------------------------------------

def values() -> st.SearchStrategy[Any]:
    texts = st.text(st.one_of(
        st.characters(exclude_categories=["Cs"]), st.sampled_from("'\"\\`;:$-/*%_{}\n\0")))
    return st.one_of(
        st.none(), st.booleans(), st.integers(-2**63, 2**63 - 1), st.floats(), texts, st.binary(),
        st.decimals(-10**9, 10**9, places=4, allow_nan=False), st.dates(),
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)),
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.timezone.utc)))


TYPES = {bool: "boolean", int: "bigint", float: "double", str: "string", bytes: "binary",
         Decimal: "decimal(20, 4)", dt.date: "date", type(None): "string"}


def type_of(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return "timestamp" if value.tzinfo else "timestamp_ntz"
    return TYPES[type(value)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other) and type(one) is type(other)


@given(values())
def test_a_parameter_is_its_value_and_nothing_else(value: Any) -> None:
    kind = type_of(value)
    t = dn.create(MemoryStore(), f"id bigint, v {kind}, w {kind}")
    dn.sql("INSERT INTO t VALUES (0, :value, NULL), (1, $value, :value)", value=value)
    dn.sql("INSERT INTO t BY NAME SELECT 2 AS id, :value AS v" if value is not None else
           "INSERT INTO t (id) VALUES (2)", value=value)
    dn.sql("UPDATE t SET w = :value WHERE v <=> :value", value=value)
    dn.sql("MERGE INTO t USING (SELECT 2 AS id) s ON t.id = s.id AND t.v <=> :value "
           "WHEN MATCHED THEN UPDATE SET id = 7", value=value)
    columns = t.to_arrow().sort_by("id").to_pydict()
    assert columns["id"] == [0, 1, 7]
    assert all(same(one, value) for one in (*columns["v"], *columns["w"]))
    dn.sql("DELETE FROM t WHERE v <=> $value", value=value)
    assert t.count() == 0


def test_parameters_of_other_kinds() -> None:
    t = ducks("id bigint, tags array<string>, s struct<x: int>")
    dn.sql("INSERT INTO t VALUES (1, :tags, :s)", tags=["a", "b'"], s={"x": 1})
    assert rows(t) == [(1, ["a", "b'"], {"x": 1})]
    with pytest.raises(errors.InvalidQuery, match="parameter :tags does not fit column tags"):
        dn.sql("INSERT INTO t (tags) VALUES (:tags)", tags=[1, 2])
    with pytest.raises(errors.InvalidQuery, match="parameter day: .*timedelta"):
        dn.sql("DELETE FROM t WHERE id = :day", day=dt.timedelta(1))
    with pytest.raises(errors.InvalidQuery, match="no variable nr, which the statement asks for"):
        dn.sql("DELETE FROM t WHERE id = :nr")
    with pytest.raises(errors.InvalidQuery, match="write :name or .name .line 1, column 26"):
        dn.sql("DELETE FROM t WHERE id = ?")
    assert t.version == 1


def test_what_looks_like_a_parameter_and_is_none() -> None:
    t = ducks()
    made = dn.sql("SELECT ':x', [1, 2, 3][1:2] AS y, {'a':id} AS z FROM t WHERE id = 1")
    assert made.rows.to_pylist() == [{"':x'": ":x", "y": [1, 2], "z": {"a": 1}}] and t.version == 0
    assert dn.sql("DELETE FROM t WHERE name = ':x'").version is None


# -- names, places, refusals ---------------------------------------------------------------------------------

def test_names_are_the_callers_variables_then_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dn.create("lake/t", {"id": [1]})
    inner = ducks()
    assert dn.sql("INSERT INTO delta.`lake/t` VALUES (2); INSERT INTO 'lake/t' VALUES (3); "
                  'UPDATE "lake/t" SET id = 4 WHERE id = 3').version == 3
    assert dn.sql("DELETE FROM inner").version == 1 and inner.count() == 0
    assert dn.sql("DELETE FROM mine WHERE id = 1", mine=dn.open("lake/t")).version == 4
    with pytest.raises(errors.TableNotFound, match="did you mean inner"):
        dn.sql("DELETE FROM innre")


@pytest.mark.parametrize("sql, line, column, words", [
    ("SELEC 1", 1, 1, "did you mean SELECT"),
    ("\n  CACHE TABLE t", 2, 3, "CACHE is not run here"),
    ("CREATE VIEW v AS SELECT 1", 1, 1, "CREATE VIEW is not run here"),
    ("DELETE t", 1, 8, "FROM is expected, found 't'"),
    ("INSERT t VALUES (1)", 1, 8, "INTO or OVERWRITE is expected"),
    ("MERGE INTO t\nUSING s ON t.a = s.a", 2, 21, "WHEN MATCHED or WHEN NOT MATCHED is expected"),
    ("MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", 1, 70, "2 columns"),
    ("UPDATE t SET", 1, 13, "the name of a column is expected, the statement ends there"),
    ("UPDATE t SET a = 1 WHERE b = 2, c", 1, 31, "the end of the statement is expected"),
    ("DELETE FROM t WHERE (a = 1", 1, 27, "closing bracket"),
])
def test_what_is_no_statement_is_refused_by_its_place(sql: str, line: int, column: int, words: str) -> None:
    with pytest.raises(errors.InvalidQuery, match=words) as caught:
        dn.sql(sql)
    assert (caught.value.line, caught.value.position) == (line, column)


def test_what_spark_has_and_is_not_run_here_names_another_way() -> None:
    for words, way in ABSENT.items():
        with pytest.raises(errors.InvalidQuery) as caught:
            dn.sql(f"{words} x y z")
        assert words in str(caught.value) and way in str(caught.value)
    assert not {words for kind in KINDS for words in kind.begins} & ABSENT.keys()


def test_statements_run_in_order_and_an_error_says_which_one_failed() -> None:
    t = ducks()
    assert dn.sql("DELETE FROM t WHERE id = 1; ; SELECT count(*) AS n FROM t;").rows.to_pylist() == [{"n": 1}]
    with pytest.raises(errors.InvalidPredicate, match="nosuch") as caught:
        dn.sql("DELETE FROM t WHERE id = 2;\nDELETE FROM t WHERE nosuch = 1; DELETE FROM t")
    (note,) = caught.value.__notes__
    assert note == ("statement 2 of 3 failed (line 2, column 1): DELETE FROM t WHERE nosuch = 1; "
                    "the one before it is done")
    assert t.version == 2
    with pytest.raises(errors.InvalidQuery, match="DELTE is no statement; did you mean DELETE"):
        dn.sql("DELETE FROM t; DELTE FROM t")
    assert t.version == 2, "all are read before the first one runs"
    for nothing in ("", " ; ", "-- none"):
        with pytest.raises(errors.InvalidQuery, match="no statement in this text"):
            dn.sql(nothing)


@pytest.mark.parametrize("sql, count", [
    ("INSERT INTO table VALUES (2, 'x')", 3), ("INSERT INTO TABLE table VALUES (2, 'x')", 3),
    ("INSERT INTO table (id) VALUES (3)", 3), ("INSERT INTO table TABLE table", 4),
    ("TRUNCATE TABLE table", 0), ("INSERT OVERWRITE TABLE table TABLE table", 2), ("OPTIMIZE table", 2),
    ("DESCRIBE TABLE table", 2), ("DESCRIBE table", 2), ("RESTORE table TO VERSION AS OF 0", 2),
])
def test_a_table_may_be_called_table(sql: str, count: int) -> None:
    table = ducks()
    dn.sql(sql)
    assert table.count() == count


def test_a_command_is_a_value_of_the_text_alone() -> None:
    one, two = commands_of("UPDATE nowhere SET a = :x;\n INSERT INTO b TABLE c")
    assert one.target is not None
    assert (one.statement, one.method, one.target.text) == ("UPDATE", "update", "nowhere")
    assert (two.sql, two.line, two.column) == ("INSERT INTO b TABLE c", 2, 2)


# -- the change feed, and a version by its sign --------------------------------------------------------------

def test_table_changes_and_versions_are_read_in_from() -> None:
    t = ducks(None, **{"delta.enableChangeDataFeed": True})
    t.delete("id = 1")
    t.append({"id": [3], "name": ["Huey"]})
    made = dn.sql("SELECT id, _change_type AS c FROM table_changes('t', 1) x ORDER BY x.id")
    assert made.rows.to_pylist() == [{"id": 1, "c": "delete"}, {"id": 3, "c": "insert"}]
    assert dn.sql("SELECT count(*) AS n FROM table_changes(t, 1, 1)").rows.to_pylist() == [{"n": 1}]
    assert dn.sql("SELECT count(*) AS n FROM t@v1 JOIN t@v0 o USING (id)").rows.to_pylist() == [{"n": 1}]
    frame = pa.table({"id": [1]})
    for sql in ("SELECT 1 FROM table_changes('t')", "SELECT 1 FROM table_changes('frame', 1)",
                "SELECT 1 FROM table_changes_by_path('t')", "SELECT 1 FROM table_changes_by_path(t, 1)"):
        with pytest.raises(errors.InvalidQuery):
            dn.sql(sql)
    assert frame.num_rows == 1


def test_a_path_may_end_in_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = dn.create("lake/t", {"id": [1]}, properties={"delta.enableChangeDataFeed": True})
    t.append({"id": [2]})
    for name in ("delta.`lake/t@v0`", "'lake/t@v0'", "delta.`lake/t@V0`"):
        assert dn.sql(f"SELECT count(*) AS n FROM {name}").rows.to_pylist() == [{"n": 1}]
    made = dn.sql("BEGIN ATOMIC INSERT INTO delta.`lake/t` SELECT id + 7 FROM delta.`lake/t@v0`; "
                  "MERGE INTO delta.`lake/t` t USING delta.`lake/t@v0` s ON t.id = s.id "
                  "WHEN MATCHED THEN DELETE; END")
    assert made.committed == 2 and rows(t) == [(2,), (8,)]
    assert dn.sql("SELECT id FROM table_changes_by_path('lake/t', 1, 1)").rows.to_pylist() == [{"id": 2}]
    with pytest.raises(errors.DeltaError, match="version 0"):
        dn.sql("DELETE FROM delta.`lake/t@v0`")
    with pytest.raises(errors.VersionNotFound):
        dn.sql("SELECT * FROM 'lake/t@v9'")
    with pytest.raises(errors.InvalidQuery, match="lake/t@v0 says the version already: leave out"):
        dn.sql("SELECT * FROM delta.`lake/t@v0` VERSION AS OF 0")
    with pytest.raises(errors.InvalidArgument, match="2026-13-01"):
        dn.sql("SELECT * FROM delta.`lake/t@20261301000000000`")
    with pytest.raises(errors.TableNotFound, match="lake/t@1"):
        dn.sql("SELECT * FROM delta.`lake/t@1`")
    dn.create("lake/t@v0", {"id": [3, 4, 5]})
    assert dn.sql("SELECT count(*) AS n FROM delta.`lake/t@v0`").rows.to_pylist() == [{"n": 3}], "its own"
