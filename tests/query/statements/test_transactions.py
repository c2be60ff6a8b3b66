"""Several statements as one transaction, of a catalog's tables or of one table; ``catalog.sql``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.query.result import QueryResult
from deltanb.testing import MemoryStore


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", tmp_path / "warehouse") as made:
        made.sql("CREATE SCHEMA shop; CREATE TABLE shop.stock AS SELECT 1 AS id, 7 AS n;"
                 "CREATE TABLE shop.sold (id int, n int)")
        yield made


def rows(catalog: dn.Catalog, name: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in catalog.sql(f"SELECT * FROM shop.{name}").rows.to_pylist())


def versions(catalog: dn.Catalog) -> list[int]:
    return [catalog.table(name).version for name in catalog.list_tables("shop")]


def names(shown: QueryResult) -> list[str]:
    """The names that SHOW TABLES or SHOW SCHEMAS has."""
    return [".".join(value for value in row.values() if value is not False)
            for row in shown.rows.to_pylist()]


def test_a_catalog_names_its_tables_and_those_of_the_caller(catalog: dn.Catalog) -> None:
    frame, table = pa.table({"id": [2], "n": [5]}), dn.create(MemoryStore(), {"id": [9]})
    catalog.sql("INSERT INTO shop.stock SELECT * FROM frame; DELETE FROM table WHERE id = :id", id=9)
    assert rows(catalog, "stock") == [(1, 7), (2, 5)] and table.count() == 0 and frame.num_rows == 1
    assert names(catalog.sql("SHOW TABLES")) == ["shop.sold", "shop.stock"]
    assert names(catalog.sql("SHOW SCHEMAS")) == ["shop"]
    with pytest.raises(errors.TableNotFound, match="did you mean shop.stock"):
        catalog.sql("SELECT * FROM shop.stok")


def test_a_variable_may_be_called_as_a_namespace_is(catalog: dn.Catalog) -> None:
    shop = catalog
    shop.sql("CREATE TABLE shop.more AS SELECT 5 AS id; INSERT INTO shop.more VALUES (6);"
             "CREATE SCHEMA shop.eu; ALTER TABLE shop.more RENAME TO shop.less")
    assert names(shop.sql("SHOW TABLES IN shop")) == ["shop.less", "shop.sold", "shop.stock"]
    assert names(shop.sql("SHOW SCHEMAS IN shop")) == ["shop.eu"]
    assert names(catalog.sql("SHOW TABLES IN catalog.shop")) == names(shop.sql("SHOW TABLES IN shop"))
    with pytest.raises(errors.TableNotFound, match="did you mean shop.less"):
        shop.sql("SELECT * FROM shop.les")
    assert shop.sql("SELECT sum(id) AS n FROM shop.shop.less").rows.to_pylist() == [{"n": 11}]
    shop.sql("DROP TABLE shop.shop.less; DROP SCHEMA shop.eu")
    catalog.sql("CREATE SCHEMA catalog.stock; CREATE TABLE catalog.stock.a (id int)")
    assert names(catalog.sql("SHOW SCHEMAS")) == ["shop", "stock"]
    assert names(shop.sql("SHOW TABLES IN stock")) == ["stock.a"]


@pytest.mark.parametrize("begin, end", [
    ("BEGIN ATOMIC", "END"), ("begin transaction;", "commit"), ("START TRANSACTION;", "COMMIT WORK;")])
def test_statements_over_several_tables_are_one_commit(catalog: dn.Catalog, begin: str, end: str) -> None:
    before = len(catalog.history())
    done = catalog.sql(f"{begin} INSERT INTO shop.sold SELECT id, 2 FROM shop.stock; "
                       f"UPDATE shop.stock SET n = n - (2); {end}")
    assert done.committed.versions == {"shop.sold": 1, "shop.stock": 1}
    assert len(catalog.history()) == before + 1
    assert (rows(catalog, "sold"), rows(catalog, "stock")) == ([(1, 2)], [(1, 5)])


def test_later_statements_see_earlier_ones_and_a_rollback_undoes_all(catalog: dn.Catalog) -> None:
    stock = catalog.table("shop.stock")
    gone = dn.sql("""BEGIN TRANSACTION;
        DELETE FROM stock;
        INSERT INTO catalog.shop.sold SELECT 3, CAST(count(*) AS int) FROM catalog.shop.stock;
        INSERT INTO stock SELECT * FROM catalog.shop.sold;
        ROLLBACK""")
    assert gone.status == "abandoned" and versions(catalog) == [0, 0]
    dn.sql("BEGIN ATOMIC DELETE FROM stock; INSERT INTO catalog.shop.sold SELECT 3, count(*) FROM stock; END")
    assert (rows(catalog, "sold"), stock.count()) == ([(3, 0)], 0)


def test_a_failure_rolls_all_of_it_back_and_says_where(catalog: dn.Catalog) -> None:
    with pytest.raises(errors.InvalidPredicate) as caught:
        catalog.sql("INSERT INTO shop.sold VALUES (9, 9); BEGIN ATOMIC DELETE FROM shop.stock; "
                    "DELETE FROM shop.sold WHERE nosuch = 1; END; DELETE FROM shop.sold")
    (note,) = caught.value.__notes__
    assert note.replace("\u00a0", " ") == (
        "statement 4 of 6 failed (line 1, column 75): DELETE FROM shop.sold WHERE nosuch = 1; "
        "its transaction is rolled back, the 1 statement before that is done")
    assert (rows(catalog, "sold"), rows(catalog, "stock")) == ([(9, 9)], [(1, 7)])


def test_a_conflict_carries_its_picture_and_nothing_lands(
    catalog: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.query.block import Block

    commit = Block.commit

    def late(block: Block) -> object:
        catalog.table("shop.stock").delete("id = 1")
        return commit(block)

    monkeypatch.setattr(Block, "commit", late)
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        catalog.sql("BEGIN ATOMIC UPDATE shop.stock SET n = 0; INSERT INTO shop.sold VALUES (1, 7); END")
    assert caught.value.conflict is not None
    assert versions(catalog) == [0, 1]


def test_one_table_in_a_folder_is_a_transaction_of_its_own() -> None:
    table, other = (dn.create(MemoryStore(), {"id": [1, 2]}) for _ in range(2))
    done = dn.sql("BEGIN ATOMIC DELETE FROM table WHERE id = 1; INSERT INTO table SELECT id + 10 FROM table; "
                  "INSERT INTO table SELECT id + 5 FROM other; END")
    assert done.committed == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 6, 7, 12] and other.version == 0
    with pytest.raises(errors.IllegalStateError, match="optimize commits by itself"):
        dn.sql("BEGIN ATOMIC DELETE FROM table; OPTIMIZE table; END")
    with pytest.raises(errors.InvalidQuery, match="of tables of one catalog, or of one table in a folder"):
        dn.sql("BEGIN ATOMIC DELETE FROM table; DELETE FROM other; END")
    with pytest.raises(errors.IllegalStateError, match="CREATE TABLE commits by itself"):
        dn.sql("BEGIN ATOMIC DELETE FROM table; CREATE TABLE 'x' (id int); END")
    assert (table.version, other.version) == (1, 0)


def test_an_insert_that_reads_its_table_conflicts_with_who_changes_what_it_read(
    catalog: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = dn.create(MemoryStore(), {"id": [1], "n": [1]})
    stock = catalog.table("shop.stock")
    for table, run, name in ((alone, dn.sql, "alone"), (stock, catalog.sql, "shop.stock")):
        done = run(f"INSERT INTO {name} SELECT id + 10, n FROM {name}")
        assert (done.version, done.is_staged) == (table.version, False)
        (newest,) = table.history(1)
        assert (newest.operation, newest.is_blind_append) == ("WRITE", False)
        assert run(f"INSERT INTO {name} VALUES (99, 1)").version == table.version
        done = run(f"INSERT INTO {name} SELECT id + 9, n FROM {name} VERSION AS OF 0")
        assert done.version == table.version
        assert [one.is_blind_append for one in table.history(2)] == [True, True]
        assert run(f"INSERT INTO {name} SELECT id, n FROM {name} WHERE id = 77").version is None

    append = dn.DeltaTable.append

    def overtaken(self: dn.DeltaTable, *args: object, **settings: object) -> object:
        monkeypatch.setattr(dn.DeltaTable, "append", append)
        alone.delete("id = 1")
        return self.append(*args, **settings)

    monkeypatch.setattr(dn.DeltaTable, "append", overtaken)
    before = alone.version
    with pytest.raises(errors.ConcurrentDeleteReadException):
        dn.sql("INSERT INTO alone SELECT id + 20, n FROM alone WHERE id < 50")
    assert alone.version == before + 1


@pytest.mark.parametrize("source", ["(SELECT max(id) + 1 AS id, sum(n) AS n FROM alone)", "alone"])
def test_a_merge_that_reads_its_table_conflicts_with_who_changes_what_it_read(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = dn.create(MemoryStore(), {"id": [1], "n": [1]})
    alone.append({"id": [2], "n": [2]})
    sql = f"MERGE INTO alone t USING {source} s ON t.id = s.id + 50 WHEN NOT MATCHED THEN INSERT *"
    done = dn.sql(sql)
    assert (done.operation, done.version, done.is_staged) == ("MERGE", 2, False)
    assert alone.history(1)[0].operation == "MERGE"
    merge = dn.DeltaTable.merge

    def overtaken(self: dn.DeltaTable, *args: object, **settings: object) -> object:
        monkeypatch.setattr(dn.DeltaTable, "merge", merge)
        alone.delete("id = 1")
        return self.merge(*args, **settings)

    monkeypatch.setattr(dn.DeltaTable, "merge", overtaken)
    with pytest.raises(errors.DeltaConcurrentModificationException):
        dn.sql(sql)
    assert alone.version == 3


@pytest.mark.parametrize("query", [
    "SELECT id, n FROM {t}", "SELECT id, n FROM {t} WHERE id = 1",
    "WITH a AS (FROM {t}) SELECT a.id, b.n FROM a JOIN {t} b USING (id)",
    "SELECT id, n FROM frame WHERE id IN (SELECT id FROM {t})"])
@pytest.mark.parametrize("begin", ["CREATE OR REPLACE TABLE", "REPLACE TABLE"])
@pytest.mark.parametrize("name", ["alone", "'folder'", "shop.stock"])
def test_what_replaces_a_table_is_read_in_its_transaction(
    name: str, begin: str, query: str, catalog: dn.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltanb.query import perform

    monkeypatch.chdir(tmp_path)
    frame = pa.table({"id": [1], "n": [7]})
    alone = dn.create(MemoryStore(), frame)
    tables = {"alone": alone, "'folder'": dn.create("folder", frame),
              "shop.stock": catalog.table("shop.stock")}
    table, run = tables[name], perform.run
    version = table.version
    sql = f"{begin} {name} AS {query.format(t=name)}"

    def overtaken(*args: object) -> QueryResult:
        result = run(*args)
        monkeypatch.setattr(perform, "run", run)
        table.append({"id": pa.array([2], table.to_arrow()["id"].type),
                      "n": pa.array([8], table.to_arrow()["n"].type)})
        return result

    monkeypatch.setattr(perform, "run", overtaken)
    with pytest.raises(errors.DeltaConcurrentModificationException):
        catalog.sql(sql)
    assert (table.version, table.count()) == (version + 1, 2)
    assert catalog.sql(sql).version == version + 2
    (newest,) = table.history(1)
    assert newest.operation == f"{begin} AS SELECT" and newest.is_blind_append is False
    assert table.count("id = 1") == frame.num_rows


def test_iceberg_tables_take_part(catalog: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    catalog.sql("CREATE TABLE shop.events (id int) USING iceberg")
    catalog.sql("BEGIN ATOMIC INSERT INTO shop.events VALUES (1); DELETE FROM shop.stock; END")
    assert rows(catalog, "events") == [(1,)] and rows(catalog, "stock") == []


def test_a_past_version_is_read_as_it_was_and_never_written(catalog: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    catalog.sql("CREATE TABLE shop.events (id int, n int) USING iceberg; "
                "INSERT INTO shop.events VALUES (1, 7)")
    then = catalog.snapshot(["shop.events", "shop.stock"])
    for name in ("events", "stock"):
        catalog.sql(f"INSERT INTO shop.{name} VALUES (2, 0)")
        past = then[f"shop.{name}"]
        catalog.sql("BEGIN ATOMIC INSERT INTO shop.sold SELECT * FROM past; END")
        with pytest.raises(errors.IllegalStateError, match="can be read only; write to the table itself"):
            catalog.sql("BEGIN ATOMIC DELETE FROM past; END")
        assert past.count() == 1 and len(rows(catalog, name)) == 2
    assert rows(catalog, "sold") == [(1, 7), (1, 7)]


def test_what_is_part_of_a_transaction_is_part_of_no_other(catalog: dn.Catalog) -> None:
    pytest.importorskip("pyiceberg", reason="rows of Iceberg tables are PyIceberg's")
    catalog.sql("CREATE TABLE shop.events (id int, n int) USING iceberg; "
                "INSERT INTO shop.events VALUES (1, 7)")
    with catalog.transaction() as txn:
        for name in ("events", "stock"):
            table = txn.table(f"shop.{name}")
            with pytest.raises(errors.IllegalStateError, match=f"shop.{name} is part of a transaction"):
                catalog.sql("BEGIN ATOMIC DELETE FROM table; END")
            assert not table.operations and rows(catalog, name) == [(1, 7)]


@pytest.mark.parametrize("sql, words", [
    ("BEGIN ATOMIC DELETE FROM t", "BEGIN ATOMIC has no end in this text: END .line 1, column 1"),
    ("BEGIN TRANSACTION; DELETE FROM t; END", "BEGIN TRANSACTION ends with COMMIT or ROLLBACK .line 1,"),
    ("COMMIT", "COMMIT ends no transaction: one begins and ends in the same text"),
    ("BEGIN ATOMIC BEGIN ATOMIC DELETE FROM t; END; END", "within a transaction already .line 1, column 14"),
    ("BEGIN TRANSACTION DELETE FROM t; COMMIT", "the end of the statement is expected, found 'DELETE'"),
    ("BEGIN DELETE FROM t; END", "BEGIN DELETE is no statement; the statements that begin with BEGIN are"),
    ("BEGIN ATOMIC SELECT 1; END", "this one has none"),
])
def test_what_is_no_transaction_is_refused(sql: str, words: str) -> None:
    t = dn.create(MemoryStore(), {"id": [1]})
    with pytest.raises(errors.InvalidQuery, match=words):
        dn.sql(sql)
    assert t.version == 0
