"""ADD and DROP CONSTRAINT: rows that are there are checked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.commands.choose_engine import refuse_unknown_functions
from deltanb.errors import (
    ConcurrentAppendException,
    ConstraintViolation,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    MetadataChangedException,
    UnsupportedPredicate,
)
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore, add
from tests.helpers import refuses, table_of


def refused(table: DeltaTable, error: type[DeltaError], match: str, *args: Any) -> DeltaError:
    return refuses(table, error, match, "add_constraint", *args)


def test_a_constraint_is_added_kept_and_dropped(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "name": ["a", None]})
    assert table.add_constraint("Positive", "id > 0") == 1
    assert table.properties == {"delta.constraints.positive": "id > 0"}
    assert table.protocol.min_writer_version == 3
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters) == (
        "ADD CONSTRAINT", {"name": "Positive", "expr": "id > 0"})
    with pytest.raises(ConstraintViolation, match="positive"):
        table.append({"id": [0], "name": ["x"]})
    with pytest.raises(deltalake.exceptions.DeltaError, match="1 rows failed validation check"):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [0], "name": ["x"]}), mode="append")
    assert table.drop_constraint("POSITIVE") == 2
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_parameters) == (
        "DROP CONSTRAINT", {"name": "POSITIVE", "expr": "id > 0", "existed": "true"})
    table.append({"id": [0], "name": ["x"]})


def test_a_row_that_violates_it_is_named_and_nothing_changes() -> None:
    table = table_of({"id": [1, 2, -3], "name": ["a", "b", "c"]})
    error = refused(table, ConstraintViolation, r"positive \(id > 0\) cannot be added.*id=-3, name='c'",
                    "positive", "id > 0")
    assert error.row == {"id": -3, "name": "c"} and error.constraint == "positive"


def test_null_violates_a_constraint() -> None:
    table = table_of({"id": [1], "name": pa.array([None], pa.string())})
    refused(table, ConstraintViolation, "name=None", "named", "name <> 'x'")
    table.add_constraint("named", "name IS NULL OR name <> 'x'")


def test_files_that_statistics_clear_are_not_read() -> None:
    table = table_of({"id": [1, 2], "p": [1, 1]}, ["p"])
    table.append({"id": [30], "p": [3]})
    store = table.log.store
    for name in [n for n in store.files if n.endswith(".parquet")]:  # type: ignore[attr-defined]
        store.delete(name)
    table.add_constraint("positive", "id > 0")
    table.add_constraint("small", "p < 9")
    with pytest.raises(FileNotFoundError):
        table.add_constraint("less", "id < 30")


def test_a_comment_in_the_condition_is_part_of_it() -> None:
    table = table_of({"id": [1]})
    table.add_constraint("c", "id > 0 -- always")
    assert table.properties["delta.constraints.c"] == "id > 0 -- always"


@pytest.mark.parametrize(("name", "expression", "error", "match"), [
    ("c", "ID > 5", InvalidArgument, r"constraint c already exists \(id > 0\)"),
    ("C", "id > 0", InvalidArgument, "already exists"),
    ("d", "nothing > 0", InvalidPredicate, "no column 'nothing'"),
    ("d", "id >", InvalidPredicate, "not valid SQL"), ("d", "id + 1", InvalidPredicate, r"id \+ 1"),
    ("d", "", InvalidPredicate, "needs a condition"),
    ("", "id > 0", InvalidArgument, "cannot be the name"),
    ("__CHAR_VARCHAR_STRING_LENGTH_CHECK__", "id > 0", InvalidArgument, "cannot be the name"),
])
def test_constraints_that_cannot_be_added(
    name: str, expression: str, error: type[DeltaError], match: str
) -> None:
    table = table_of({"id": [1]})
    table.add_constraint("c", "id > 0")
    refused(table, error, match, name, expression)


def test_the_engine_can_be_forced() -> None:
    table = table_of({"id": [1], "name": ["x"]})
    refused(table, UnsupportedPredicate, "SOUNDEX|soundex", "c", "soundex(name) = 'X000'", "process")
    refused(table, InvalidArgument, "engine='java'", "c", "id > 0", "java")


@pytest.mark.parametrize("engine", [None, "process", "spark"])
@pytest.mark.parametrize(("expression", "match"), [
    ("sum(id) > 1", "an aggregate"), ("count(*) > 0", "an aggregate|a star"),
    ("row_number() OVER (ORDER BY id) > 0", "a window function"), ("explode(array(id)) > 0", "explode"),
    ("id IN (SELECT 1)", "a query"), ("rand() < 2", r"rand\(\), whose value differs"),
    ("soundex(uuid()) <> name", r"uuid\(\)"), ("input_file_name() <> name", r"input_file_name\(\)"),
    ("monotonically_increasing_id() >= 0", r"monotonically_increasing_id\(\)"),
])
def test_what_one_row_does_not_decide_is_refused_without_spark(
    expression: str, match: str, engine: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.engines.spark.engine.SparkEngine.first", no_spark)
    table = table_of({"id": [1], "name": ["x"]})
    refused(table, InvalidPredicate, match, "c", expression, engine)


def test_a_function_that_spark_lacks_is_refused_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltanb.engines.spark.engine.SparkEngine.first", no_spark)
    monkeypatch.setattr("deltanb.engines.spark.session.running_session", lambda: None)
    table = table_of({"id": [1], "name": ["x"]})
    refused(table, InvalidPredicate, r"soundexx\(\), which is not a function of Spark; did you mean soundex",
            "c", "soundexx(name) = 'X000'")
    for known in ("soundex(name) <> 'y'", "exists(array(id), x -> x > 0) AND soundex(name) <> 'y'",
                  "soundex(CAST(name AS VARCHAR(10))) <> 'y'", "luhn_check(name)"):
        with pytest.raises(RuntimeError, match="Spark is started"):
            table.add_constraint("c", known)
    with pytest.raises(RuntimeError, match="Spark is started"):  # it may be a function of the session
        table.add_constraint("c", "my_check(name)", engine="spark")


@pytest.mark.spark
@pytest.mark.slow
def test_every_function_of_spark_is_known(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    no_rows = {"any", "between", "in", "not", "collations", "measure", "python_worker_logs", "range",
               "sql_keywords", "variant_explode", "variant_explode_outer", "vector_avg", "vector_sum"}
    names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()} - no_rows
    monkeypatch.setattr("deltanb.engines.spark.session.running_session", lambda: None)
    refused_ones = []
    for name in filter(str.isidentifier, names):
        try:
            refuse_unknown_functions(f"`{name}`(a) = 1")
        except InvalidPredicate as error:
            refused_ones += [name] if "not a function of Spark" in str(error) else []
    assert len(names) > 400 and refused_ones == []


def no_spark(*args: Any, **settings: Any) -> Any:
    raise RuntimeError("Spark is started")


@pytest.mark.spark
@pytest.mark.slow
def test_spark_checks_what_the_process_cannot(spark: Any) -> None:
    table = table_of({"id": [1, 2], "name": ["Robert", "Rupert"]})
    assert table.add_constraint("sounds", "soundex(name) = 'R163'") == 1
    error = refused(table, ConstraintViolation, "id=1, name='Robert'",
                    "other", "soundex(name) = 'R1' OR id > 1")
    assert error.row == {"id": 1, "name": "Robert"}
    refused(table, ConstraintViolation, "id=1", "more", "id > 1", "spark")


def test_dropping_what_is_not_there() -> None:
    table = table_of({"id": [1]})
    with pytest.raises(InvalidArgument, match="there are no constraints"):
        table.drop_constraint("positive")
    table.add_constraint("positive", "id > 0")
    with pytest.raises(InvalidArgument, match="did you mean positive"):
        table.drop_constraint("positiv")
    assert table.drop_constraint("other", if_exists=True) == 2
    assert table.history(1)[0].operation_parameters == {"name": "other", "existed": "false"}


def test_rows_appended_meanwhile_are_a_conflict_where_they_could_violate() -> None:
    store = MemoryStore()
    dn.create(store, {"id": [1], "p": [1]}, ["p"])
    rival = add("p=2/x", {"p": "2"}, stats='{"numRecords":1}')
    table = dn.open(ScriptedStore(store, [Lose((rival,))]))
    with pytest.raises(ConcurrentAppendException) as caught:
        table.add_constraint("positive", "id > 0")
    assert caught.value.version == 1 and table.properties == {}


def test_rows_appended_where_the_constraint_holds_are_none() -> None:
    store = MemoryStore()
    dn.create(store, {"id": [1], "p": [1]}, ["p"])
    rival = add("p=2/x", {"p": "2"}, stats='{"numRecords":1}')
    table = dn.open(ScriptedStore(store, [Lose((rival,))]))
    assert table.add_constraint("small", "p < 3") == 2  # the new file's partition satisfies it


def test_an_append_that_began_before_the_constraint_fails() -> None:
    table = table_of({"id": [1]})
    txn = table.start_transaction()
    added = txn.write_files({"id": [-1]})
    table.add_constraint("positive", "id > 0")
    with pytest.raises(MetadataChangedException):
        txn.commit(added, dn.Operation("WRITE", {"mode": "Append"}))
    txn.discard_written()
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_constraints_follow_mapped_and_vectored_tables() -> None:
    table = table_of({"id": [1, -1], "x": [1, 2]}, properties={"delta.columnMapping.mode": "name"})
    refused(table, ConstraintViolation, "id=-1", "c", "id > 0")
    table.rename_column("id", "number")
    refused(table, InvalidPredicate, "no column 'id'", "c", "id > 0")
    table.add_constraint("c", "number > -2")
