"""Tables made, changed, dropped, described and looked after in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.query.result import QueryResult
from deltanb.query.statements.command import Command
from deltanb.query.statements.kinds import KINDS, commands_of
from deltanb.query.statements.text import Name, Sql
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

FLIGHTS = {"month": [1, 2], "delay": [5, 9], "carrier": ["AA", "UA"]}


def ducks(**properties: Any) -> DeltaTable:
    return dn.create(MemoryStore("memory:///lake/ducks"), {"id": [1, 2], "name": ["Donald", "Daisy"]},
                     properties=properties)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def catalog(folder: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog("sqlite:///catalog.db", warehouse="warehouse") as made:
        made.create_namespace("shop")
        made.create_table("shop.orders", {"id": [1]})
        yield made


# -- every example runs, and every form is a call ------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_examples_run(kind: Any, catalog: dn.Catalog) -> None:
    flights = dn.create("flights", FLIGHTS, partition_by="month")
    late = pa.table({"month": [1], "delay": [100], "carrier": ["AA"]})
    Path("rain").mkdir()
    pq.write_table(pa.table({"mm": [1.0]}), "rain/a.parquet")
    assert dn.sql(kind.example) is not None
    assert flights.version >= 0 and late.num_rows == 1 and catalog.name == "default"
    assert kind.grammar and kind.calls


@pytest.mark.parametrize("sql", [
    *(kind.example for kind in KINDS), "DROP SCHEMA catalog.empty", "ALTER TABLE flights RENAME TO trips",
    "CREATE TABLE delta.`copy` SHALLOW CLONE flights VERSION AS OF 0"])
def test_no_statement_outlives_a_rollback(sql: str, catalog: dn.Catalog) -> None:
    catalog.create_namespace("empty")
    flights = catalog.create_table("shop.flights", FLIGHTS, partition_by="month")
    late = pa.table({"month": [1], "delay": [100], "carrier": ["AA"]})
    Path("rain").mkdir()
    pq.write_table(pa.table({"mm": [1.0]}), "rain/a.parquet")

    def state() -> tuple[Any, ...]:
        return (len(catalog.history()), catalog.list_namespaces(), catalog.list_tables("shop"),
                flights.version, set(Path().rglob("_delta_log/*")))

    before = state()
    with suppress(errors.IllegalStateError, errors.InvalidQuery):
        done = dn.sql(f"BEGIN TRANSACTION; DELETE FROM flights WHERE month = 1; {sql}; ROLLBACK")
        assert done.status == "abandoned"
    assert state() == before and late.num_rows == 1


def written(value: Any) -> Any:
    """An argument as it was written."""
    if isinstance(value, Sql):
        return value.text
    if isinstance(value, dict):
        return {name: written(one) for name, one in value.items()}
    return value.text if isinstance(value, Name) else value


@pytest.mark.parametrize("sql, method, arguments", [
    ("SET TBLPROPERTIES ('delta.appendOnly' = 'true', a.b = 7, c true)", "set_properties",
     {"values": {"delta.appendOnly": "true", "a.b": "7", "c": "true"}}),
    ("UNSET TBLPROPERTIES ('a', b.c)", "unset_properties", {"names": ["a", "b.c"], "if_exists": True}),
    ("UNSET TBLPROPERTIES IF EXISTS (a)", "unset_properties", {"names": ["a"], "if_exists": True}),
    ("ADD COLUMNS (a int, b struct<c: int, d: string> COMMENT 'x, y' FIRST)", "add_columns",
     {"columns": "a int, b struct<c: int, d: string> COMMENT 'x, y' FIRST"}),
    ("ADD COLUMN s.a decimal(10, 2) AFTER b", "add_columns", {"columns": "s.a decimal(10, 2) AFTER b"}),
    ("RENAME COLUMN `a b`.c TO `d e`", "rename_column", {"name": "`a b`.c", "new_name": "d e"}),
    ("DROP COLUMN a", "drop_columns", {"names": ["a"]}),
    ("DROP COLUMNS IF EXISTS (a, b.c)", "drop_columns", {"names": ["a", "b.c"], "if_exists": True}),
    ("DROP COLUMNS a, `b`", "drop_columns", {"names": ["a", "`b`"]}),
    ("REPLACE COLUMNS (a int, b string)", "replace_columns", {"columns": "a int, b string"}),
    ("ALTER COLUMN a TYPE array<decimal(20, 2)>", "change_column",
     {"name": "a", "type": "array<decimal(20, 2)>"}),
    ("ALTER COLUMN a.b COMMENT 'it''s'", "change_column", {"name": "a.b", "comment": "it's"}),
    ("ALTER COLUMN a SET NOT NULL", "change_column", {"name": "a", "nullable": False}),
    ("ALTER COLUMN a DROP NOT NULL", "change_column", {"name": "a", "nullable": True}),
    ("ALTER COLUMN a SET DEFAULT concat('x', 'y')", "change_column",
     {"name": "a", "default": "concat('x', 'y')"}),
    ("ALTER COLUMN a DROP DEFAULT", "change_column", {"name": "a", "drop_default": True}),
    ("ALTER COLUMN a FIRST", "change_column", {"name": "a", "position": "first"}),
    ("CHANGE COLUMN a AFTER `b c`", "change_column", {"name": "a", "position": "after `b c`"}),
    ("CHANGE COLUMN a a bigint COMMENT 'x' AFTER b", "change_column",
     {"name": "a", "type": "bigint", "comment": "x", "position": "after b"}),
    ("CHANGE COLUMN a a struct<b: int, c: map<string, int>> COMMENT 'x'", "change_column",
     {"name": "a", "type": "struct<b: int, c: map<string, int>>", "comment": "x"}),
    ("ALTER COLUMN a TYPE decimal(8, 3), b.c COMMENT 'x' FIRST, `d e` SET DEFAULT (1 + 2)", "change_columns",
     {"changes": {"a": {"type": "decimal(8, 3)"}, "b.c": {"comment": "x", "position": "first"},
                  "`d e`": {"default": "(1 + 2)"}}}),
    ("ALTER COLUMN a SYNC IDENTITY", "sync_identity", {"column": "a"}),
    ("ADD CONSTRAINT positive CHECK (a > 0 AND (b IS NULL OR b > 0))", "add_constraint",
     {"name": "positive", "expression": "a > 0 AND (b IS NULL OR b > 0)"}),
    ("DROP CONSTRAINT positive", "drop_constraint", {"name": "positive"}),
    ("DROP CONSTRAINT IF EXISTS positive", "drop_constraint", {"name": "positive", "if_exists": True}),
    ("CLUSTER BY (a, b.c)", "cluster_by", {"columns": ["a", "b.c"]}),
    ("CLUSTER BY NONE", "cluster_by", {"columns": None}),
    ("DROP FEATURE deletionVectors", "drop_feature", {"name": "deletionVectors"}),
    ("DROP FEATURE 'v2Checkpoint' TRUNCATE HISTORY", "drop_feature",
     {"name": "v2Checkpoint", "truncate_history": True}),
    ("RENAME TO shop.sales", "rename_table", {"new_name": "shop.sales"}),
])
def test_a_form_of_alter_table_is_a_call(sql: str, method: str, arguments: dict[str, Any]) -> None:
    (command,) = commands_of(f"ALTER TABLE shop.t {sql}")
    (calls,) = (kind.calls.split(", ") for kind in KINDS if kind.name == command.statement)
    assert (command.method, {name: written(value) for name, value in command.arguments.items()}) == (
        method, arguments)
    assert f"table.{method}" in calls if hasattr(DeltaTable, method) else f"catalog.{method}" in calls
    assert hasattr(DeltaTable, method) or hasattr(dn.Catalog, method)


@pytest.mark.parametrize("sql, arguments", [
    ("OPTIMIZE t", {}), ("OPTIMIZE t FULL", {"full": True}),
    ("OPTIMIZE t WHERE p = 1 AND q IN (1, 2) ZORDER BY a, b", {
        "where": "p = 1 AND q IN (1, 2)", "zorder_by": ["a", "b"]}),
    ("VACUUM t", {}), ("VACUUM t FULL", {}), ("VACUUM t LITE DRY RUN", {"lite": True, "dry_run": True}),
    ("VACUUM t RETAIN 0.5 HOURS", {"retention_hours": 0.5}),
    ("RESTORE t TO VERSION AS OF 3", {"moment": 3}), ("RESTORE TABLE t VERSION AS OF 3", {"moment": 3}),
    ("RESTORE TABLE t TO TIMESTAMP AS OF '2026-03-01'", {"moment": "2026-03-01"}),
    ("ANALYZE TABLE t COMPUTE DELTA STATISTICS", {}),
    ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", {}),
    ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b.c", {"columns": ["a", "b.c"]}),
    ("REORG TABLE t WHERE p = 1 APPLY (PURGE)", {"where": "p = 1"}),
    ("DESCRIBE HISTORY t LIMIT 3", {"limit": 3}),
    ("COMMENT ON TABLE t IS NULL", {"description": ""}),
])
def test_upkeep_is_a_call(sql: str, arguments: dict[str, Any]) -> None:
    (command,) = commands_of(sql)
    assert {name: written(value) for name, value in command.arguments.items()} == arguments
    assert callable(getattr(DeltaTable, command.method)) and command.target == Name(("t",))


# -- CREATE --------------------------------------------------------------------------------------------------

def test_create_table_in_a_folder(folder: Path) -> None:
    made = dn.sql("""
        CREATE TABLE delta.`lake/ducks` (
            id bigint NOT NULL COMMENT 'it''s', at timestamp, day date GENERATED ALWAYS AS (CAST(at AS DATE)),
            kind string DEFAULT 'duck',
            n bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 2))
        USING DELTA PARTITIONED BY (kind) COMMENT 'all' TBLPROPERTIES ('delta.appendOnly' = true)""")
    assert made.schema.names == ["id", "at", "day", "kind", "n"] and made.partition_columns == ("kind",)
    assert made.properties["delta.appendOnly"] == "true" and made.metadata.description == "all"
    dn.sql("INSERT INTO delta.`lake/ducks` (id, at) VALUES (1, TIMESTAMP '2026-03-01 10:00:00')")
    (row,) = made.to_arrow(["id", "kind", "n"]).to_pylist()
    assert row == {"id": 1, "kind": "duck", "n": 5}
    with pytest.raises(errors.TableAlreadyExists):
        dn.sql("CREATE TABLE delta.`lake/ducks` (id bigint)")
    assert dn.sql("CREATE TABLE IF NOT EXISTS 'lake/ducks' AS SELECT nonsense FROM nowhere").version == 1


def test_create_or_replace_and_as_select(folder: Path) -> None:
    source = ducks()
    dn.sql("CREATE OR REPLACE TABLE 'a' PARTITIONED BY (name) AS SELECT * FROM source WHERE id < :n", n=9)
    again = dn.sql("CREATE OR REPLACE TABLE 'a' CLUSTER BY (nr) AS (SELECT id AS nr FROM source)")
    assert (again.version, again.schema.names, again.partition_columns) == (1, ["nr"], ())
    assert again.detail()["clusteringColumns"] == ["nr"] and source.version == 0
    dn.sql("REPLACE TABLE again (x int, y int) PARTITIONED BY (z string)")
    assert (again.version, again.partition_columns) == (2, ("z",))


@pytest.mark.parametrize("what", ["(id int)", "AS SELECT 1 AS id"])
@pytest.mark.parametrize("name", ["delta.`a`", "catalog.shop.a"])
def test_a_commit_records_how_its_table_was_asked_for(name: str, what: str, catalog: dn.Catalog) -> None:
    for words in ("CREATE OR REPLACE TABLE", "REPLACE TABLE", "CREATE OR REPLACE TABLE"):
        made = dn.sql(f"{words} {name} {what}")
        (last,) = made.history(1)
        assert last.operation == (words if "AS" not in what else f"{words} AS SELECT")
        assert made.verify().is_sound
    assert made.version == 2


def test_no_table_is_replaced_that_is_not_there(catalog: dn.Catalog) -> None:
    source = dn.create("source", {"id": [1]})
    for sql in ("delta.`a` (id int)", "'a' AS SELECT 1 AS id", "catalog.shop.a (id int)",
                "catalog.shop.a (id int) USING iceberg", "delta.`a` SHALLOW CLONE source"):
        with pytest.raises(errors.TableNotFound, match="to be replaced; .* CREATE OR REPLACE TABLE, creates"):
            dn.sql(f"REPLACE TABLE {sql}")
    assert source.version == 0 and catalog.list_tables("shop") == ["shop.orders"] and not Path("a").exists()
    assert dn.sql("REPLACE TABLE delta.`source` (n int)").schema.names == ["n"]


def test_a_name_with_a_location_is_known_to_later_statements(folder: Path) -> None:
    made = dn.sql("CREATE TABLE pond (id int) LOCATION 'lake/pond'; "
                  "INSERT INTO pond VALUES (1); SELECT * FROM pond")
    assert made.rows.to_pylist() == [{"id": 1}]
    assert dn.open("lake/pond").name == "pond"
    with pytest.raises(errors.InvalidQuery, match="table pond has no place: add LOCATION"):
        dn.sql("CREATE TABLE pond (id int)")


def test_create_table_in_a_catalog(catalog: dn.Catalog) -> None:
    dn.sql("CREATE TABLE catalog.shop.ducks (id int, name string) CLUSTER BY (id)")
    assert catalog.table("shop.ducks").detail()["clusteringColumns"] == ["id"]
    dn.sql("CREATE TABLE IF NOT EXISTS catalog.shop.ducks (other int)")
    table = dn.sql("CREATE OR REPLACE TABLE catalog.shop.ducks AS SELECT id AS nr FROM catalog.shop.orders")
    assert (table.version, table.to_arrow().to_pylist()) == (1, [{"nr": 1}])
    assert catalog.history(1)[0].changes, "the catalog has the commit"
    dn.sql("CREATE TABLE catalog.shop.cold (id int) USING iceberg")
    assert type(catalog.table("shop.cold")).__name__ == "IcebergTable"
    with pytest.raises(errors.InvalidArgument, match="no Iceberg table is replaced"):
        dn.sql("CREATE OR REPLACE TABLE catalog.shop.cold (id int) USING iceberg")
    with pytest.raises(errors.InvalidQuery, match="shop is not a variable that holds one"):
        dn.sql("CREATE TABLE shop.more (id int)")


def test_clone_and_convert(folder: Path) -> None:
    source = dn.create("source", {"id": [1]})
    source.append({"id": [2]})
    assert dn.sql("CREATE TABLE 'a' SHALLOW CLONE source VERSION AS OF 0").count() == 1
    assert dn.sql("CREATE OR REPLACE TABLE 'a' SHALLOW CLONE delta.`source`").count() == 2
    assert dn.sql("CREATE TABLE IF NOT EXISTS b SHALLOW CLONE source@v0 LOCATION 'a'").count() == 2
    for month in (1, 2):
        Path(f"rain/month={month}").mkdir(parents=True)
        pq.write_table(pa.table({"mm": [1.5]}), f"rain/month={month}/x.parquet")
    made = dn.sql("CONVERT TO DELTA parquet.`rain` NO STATISTICS PARTITIONED BY (month int)")
    assert made.count("month = 2") == 1 and made.partition_columns == ("month",)


# -- catalogs ------------------------------------------------------------------------------------------------

def listed(result: QueryResult) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result.rows.to_pylist()]


def test_tables_and_namespaces_of_a_catalog(catalog: dn.Catalog) -> None:
    tables = dn.sql("SHOW TABLES IN catalog.shop")
    assert tables.rows.to_pylist() == [{"namespace": "shop", "tableName": "orders", "isTemporary": False}]
    assert str(tables).startswith("Query  1 row  the catalog")
    assert dn.sql("SHOW SCHEMAS IN catalog").rows.to_pylist() == [{"namespace": "shop"}]
    dn.sql("ALTER TABLE catalog.shop.orders RENAME TO sales; CREATE NAMESPACE catalog.stock;"
           "ALTER TABLE catalog.shop.sales RENAME TO catalog.stock.sold")
    assert listed(dn.sql("SHOW TABLES IN catalog")) == [("stock", "sold", False)]
    nothing = dn.sql("SHOW TABLES IN catalog.shop")
    assert len(nothing) == 0 and nothing.columns == tables.columns
    held = catalog.table("stock.sold")
    dn.sql("DROP TABLE held; DROP TABLE IF EXISTS catalog.stock.sold; DROP SCHEMA catalog.stock")
    assert held.name == "stock.sold" and listed(dn.sql("SHOW SCHEMAS IN catalog")) == [("shop",)]
    dn.sql("DROP SCHEMA IF EXISTS catalog.stock; CREATE SCHEMA IF NOT EXISTS catalog.shop")
    with pytest.raises(errors.TableNotFound):
        dn.sql("DROP TABLE catalog.shop.none")


@pytest.mark.parametrize("sql, words", [
    ("CREATE SCHEMA catalog.stock", "CREATE SCHEMA  ✓ stock created"),
    ("CREATE SCHEMA IF NOT EXISTS catalog.shop",
     "CREATE SCHEMA  nothing done  shop: there is one already"),
    ("DROP SCHEMA catalog.empty", "DROP SCHEMA  ✓ empty dropped"),
    ("DROP SCHEMA IF EXISTS catalog.none", "DROP SCHEMA  nothing done  none: there is no such schema"),
    ("DROP TABLE catalog.shop.orders", "DROP TABLE  ✓ shop.orders dropped"),
    ("DROP TABLE held PURGE", "DROP TABLE  ✓ shop.orders dropped, with its files"),
    ("DROP TABLE IF EXISTS catalog.shop.none",
     "DROP TABLE  nothing done  shop.none: there is no such table"),
    ("DROP TABLE IF EXISTS catalog.none.orders",
     "DROP TABLE  nothing done  none.orders: there is no such table"),
    ("ALTER TABLE held RENAME TO sales", "ALTER TABLE  ✓ shop.orders renamed to shop.sales"),
])
def test_a_change_of_the_catalog_is_answered(sql: str, words: str, catalog: dn.Catalog) -> None:
    catalog.create_namespace("empty")
    held = catalog.table("shop.orders")
    before = catalog.list_namespaces(), catalog.list_tables("shop")
    done = dn.sql(sql)
    assert str(done) == words and held.name == "shop.orders"
    assert (before != (catalog.list_namespaces(), catalog.list_tables("shop"))) is done.is_done


def test_a_variable_with_an_iceberg_table_names_it(catalog: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    held = catalog.create_table("shop.events", {"id": [1]}, format="iceberg")
    assert dn.sql("CREATE TABLE IF NOT EXISTS held (other int)").count() == 1
    with pytest.raises(errors.InvalidArgument, match="shop.events is an Iceberg table"):
        dn.sql("CREATE OR REPLACE TABLE held (other int)")
    dn.sql("ALTER TABLE held RENAME TO visits")
    held = catalog.table("shop.visits")
    dn.sql("DROP TABLE held")
    assert held.name == "shop.visits" and catalog.list_tables("shop") == ["shop.orders"]


# -- refusals ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("sql, error, match", [
    ("CREATE TABLE 'a'", errors.InvalidQuery, "the columns in brackets, or AS and a query, is expected"),
    ("CREATE TABLE 'a' (id int) AS SELECT 1", errors.InvalidQuery, "leave out those in brackets"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS 'a' (id int)", errors.InvalidQuery, "OR REPLACE or IF NOT"),
    ("CREATE TABLE 'a' (id int) USING parquet", errors.InvalidQuery, "USING parquet: tables are of"),
    ("CREATE TABLE 'a' (id int) USING iceberg", errors.InvalidQuery, "such a table is in a catalog"),
    ("CREATE TABLE 'a' (id nosuch)", errors.InvalidSchema, "nosuch"),
    ("CREATE TABLE 'a' DEEP CLONE t", errors.InvalidQuery, "SHALLOW CLONE: .* 'DEEP' .line 1, column 18"),
    ("ALTER TABLE t SET LOCATION 'x'", errors.InvalidQuery, "TBLPROPERTIES is expected, found 'LOCATION'"),
    ("ALTER TABLE t ALTER COLUMN id RENAME TO x", errors.InvalidQuery, "TYPE, COMMENT, .* found 'RENAME'"),
    ("ALTER TABLE t ALTER COLUMN id FIRST, name", errors.InvalidQuery, "TYPE, COMMENT, .* ends there"),
    ("ALTER TABLE t ALTER COLUMN id FIRST, id COMMENT 'x'", errors.InvalidQuery,
     "column id is changed twice; write all its changes behind its name .line 1, column 38"),
    ("ALTER TABLE t ALTER COLUMN id FIRST, ID COMMENT 'x'", errors.InvalidArgument,
     "id is changed together with id"),
    ("ALTER TABLE t ALTER COLUMN id FIRST, nosuch COMMENT 'x'", errors.InvalidSchema, "nosuch"),
    ("ALTER TABLE t ALTER COLUMN id COMMENT 'x', name SYNC IDENTITY", errors.InvalidQuery, "found 'SYNC'"),
    ("ALTER TABLE t ADD CONSTRAINT c UNIQUE (id)", errors.InvalidQuery, "CHECK is expected, found 'UNIQUE'"),
    ("ALTER TABLE t RENAME TO u", errors.InvalidQuery, "t is not a table of a catalog"),
    ("DROP TABLE t", errors.InvalidQuery, "t is not a table of a catalog, .* delete the folder"),
    ("SHOW TABLES", errors.InvalidQuery, "run it by catalog.sql"),
    ("SHOW VIEWS", errors.InvalidQuery, "the statements that begin with SHOW are SHOW TABLES"),
    ("CREATE TABLE 'a' (id int); SHOW PARTITIONS t", errors.InvalidQuery, "SHOW PARTITIONS is not run here"),
    ("VACUUM t RETAIN 7 DAYS", errors.InvalidQuery, "HOURS is expected, found 'DAYS' .line 1, column 19"),
    ("RESTORE TABLE t", errors.InvalidQuery, "TO VERSION AS OF and a number"),
    ("OPTIMIZE t ZORDER (a)", errors.InvalidQuery, "BY is expected, found '.' .line 1, column 19"),
    ("SHOW TBLPROPERTIES t (nosuch)", errors.InvalidQuery, "no property nosuch"),
    ("SHOW TBLPROPERTIES t (delta.minReaderVersion@v0)", errors.InvalidQuery, "'.' is expected, found '@'"),
    ("SHOW TBLPROPERTIES t (7)", errors.InvalidQuery, "the name of a property is expected, found '7'"),
    ("EXPLAIN INSERT INTO t VALUES (1, 'a')", errors.InvalidQuery, "this INSERT has none"),
    ("DESCRIBE t nosuch", errors.InvalidSchema, "nosuch"),
    ("DESCRIBE t 'id'", errors.InvalidQuery, "or the name of a column, is expected, found"),
    ("DESCRIBE t id name", errors.InvalidQuery, "the end of the statement is expected, found 'name'"),
    ("DESCRIBE HISTORY frame", errors.InvalidQuery, "frame is a Table and no Delta table"),
])
def test_what_cannot_be_is_refused(sql: str, error: type[Exception], match: str, folder: Path) -> None:
    t, frame = ducks(), pa.table({"id": [1]})
    with pytest.raises(error, match=match):
        dn.sql(sql)
    assert t.version == 0 and frame.num_rows == 1 and not list(folder.iterdir())


@pytest.mark.parametrize("moment", ["@v0", " VERSION AS OF 0", " TIMESTAMP AS OF '2026-01-01'"])
@pytest.mark.parametrize("sql", [
    "DROP TABLE {}", "DROP TABLE IF EXISTS {} PURGE", "ALTER TABLE {} RENAME TO more",
    "ALTER TABLE catalog.shop.orders RENAME TO {}", "CREATE TABLE {} (id int)",
    "CREATE OR REPLACE TABLE {} AS SELECT 7 AS n", "REPLACE TABLE {} (n int)",
    "CREATE TABLE IF NOT EXISTS {} (n int)", "CREATE TABLE {} SHALLOW CLONE catalog.shop.orders",
    "CONVERT TO DELTA {}", "CREATE SCHEMA {}", "DROP SCHEMA {}", "SHOW TABLES IN {}", "SHOW SCHEMAS IN {}"])
def test_what_is_about_all_versions_takes_none(sql: str, moment: str, catalog: dn.Catalog) -> None:
    before = len(catalog.history()), catalog.list_namespaces()
    for name in ("catalog.shop", "catalog.shop.orders", "delta.`lake/ducks`"):
        with pytest.raises(errors.InvalidQuery, match=r"takes no version or time here; leave it out .line 1"):
            dn.sql(sql.format(name + moment))
    assert (len(catalog.history()), catalog.list_namespaces()) == before
    assert catalog.list_tables("shop") == ["shop.orders"] and not Path("lake").exists()


@pytest.mark.parametrize("sql", [
    "DROP TABLE held", "DROP TABLE IF EXISTS held PURGE", "ALTER TABLE held RENAME TO more",
    "CREATE TABLE held (id int)", "CREATE OR REPLACE TABLE held AS SELECT 7 AS n",
    "REPLACE TABLE held (n int)", "CREATE OR REPLACE TABLE held SHALLOW CLONE source"])
def test_a_handle_that_refuses_writes_is_not_replaced_or_dropped(sql: str, catalog: dn.Catalog) -> None:
    source = dn.create("source", {"id": [1]})
    for table in (catalog.table("shop.orders"), dn.create("lake", {"id": [1]})):
        table.append({"id": [2]})
        before = len(catalog.history())
        with pytest.raises(errors.IllegalStateError, match="as of version 0, which can be read only"):
            dn.sql(sql, held=table.as_of(0))
        with table.transaction() as txn, pytest.raises(
                errors.IllegalStateError, match="commits by itself, so it cannot be a part of a transaction"):
            dn.sql(sql, held=txn)
        assert (len(catalog.history()), table.version, table.count()) == (before, 1, 2)
        assert catalog.list_tables("shop") == ["shop.orders"] and source.version == 0


# -- EXPLAIN and DESCRIBE ------------------------------------------------------------------------------------

def test_explain_says_what_is_skipped_and_runs_nothing() -> None:
    t = dn.create(MemoryStore(), {"p": ["a", "b"], "id": [1, 2]}, partition_by="p")
    u = dn.create(MemoryStore(), {"p": ["a"]})
    for sql in ("SELECT id FROM t WHERE p = :p", "DELETE FROM t x WHERE x.p = 'b'",
                "UPDATE t SET id = 7 WHERE p = 'b'"):
        scan = dn.sql(f"EXPLAIN {sql}", p="b")
        assert (scan.opened, scan.num_files, [file.because for file in scan.spared_files]) == (
            1, 2, ["p is 'a'"])
    plan = dn.sql("EXPLAIN SELECT 1 FROM t JOIN u USING (p) WHERE t.id > 1")
    assert (plan.opened, plan.num_files, len(plan.scans)) == (2, 3, 2)
    assert str(plan).startswith("Plan of a query  ✓ opens 2 of 3 files")
    assert "opens no file" in str(dn.sql("EXPLAIN SELECT 1"))
    assert t.version == u.version == 0


def test_describe_shows_columns() -> None:
    t = ducks()
    dn.sql("COMMENT ON COLUMN t.name IS 'its name'")
    assert dn.sql("DESC t").rows.to_pylist() == [
        {"col_name": "id", "data_type": "bigint", "comment": None},
        {"col_name": "name", "data_type": "string", "comment": "its name"}]
    extended = dn.sql("DESCRIBE TABLE EXTENDED t").rows.to_pylist()
    assert {"col_name": "numFiles", "data_type": "1", "comment": None} in extended
    of_one = dn.sql("DESCRIBE t NAME")
    assert of_one.rows.to_pylist() == [
        {"info_name": "col_name", "info_value": "NAME"}, {"info_name": "data_type", "info_value": "string"},
        {"info_name": "comment", "info_value": "its name"}] and of_one.engine == "the log"
    assert [row["column_name"] for row in dn.sql("DESCRIBE SELECT id FROM t").rows.to_pylist()] == ["id"]
    assert t.version == 1


def test_properties_are_shown_with_the_protocol() -> None:
    t = ducks(**{"delta.enableDeletionVectors": "true", "by": "us"})
    properties = dict(listed(dn.sql("SHOW TBLPROPERTIES t")))
    assert properties == {**t.properties, "delta.minReaderVersion": "3", "delta.minWriterVersion": "7",
                          **{f"delta.feature.{name}": "supported" for name in t.protocol.features}}
    assert list(properties) == sorted(properties) and "delta.feature.deletionVectors" in properties
    assert listed(dn.sql("SHOW TBLPROPERTIES t ('by')")) == [("by", "us")]
    assert listed(dn.sql("SHOW TBLPROPERTIES t (delta.minReaderVersion)")) == [
        ("delta.minReaderVersion", "3")]
    assert listed(dn.sql("SHOW COLUMNS IN t")) == [("id",), ("name",)]


def test_commands_are_frozen_values() -> None:
    assert commands_of("DROP TABLE a") == commands_of("DROP TABLE a")
    assert isinstance(commands_of("DROP TABLE a")[0], Command)
