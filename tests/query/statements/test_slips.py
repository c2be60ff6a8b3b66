"""Statements mistyped, or known from another database: the answer names the thing and the way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.query.statements.kinds import KINDS
from deltanb.testing import MemoryStore

SLIPS = {
    "selct * from t": "selct is no statement; did you mean SELECT? (line 1, column 1)",
    "UPDAET t SET id = 1": "UPDAET is no statement; did you mean UPDATE?",
    "CREATE TABEL x (id int)": "CREATE TABEL is no statement; did you mean CREATE TABLE",
    "CREATE OR REPLCE TABLE x (id int)": "the statements that begin with CREATE are CREATE TABLE, CREATE OR",
    "SHOW COLUMS IN t": "SHOW COLUMS is no statement; did you mean SHOW COLUMNS?",
    "DROP t": "DROP t is no statement; did you mean DROP TABLE?",
    "dn.sql('x')": "dn is no statement; the statements are SELECT, ",
    "DELETE FROM t;\n  VACCUM t": "VACCUM is no statement; did you mean VACUUM? (line 2, column 3)",
    "UPSERT INTO t VALUES (1, 'a')": "UPSERT is not run here: MERGE INTO",
    "INSERT OVERWRITE INTO t VALUES (1, 'a')": "INSERT OVERWRITE stands without INTO",
    "INSERT INTO t VALUES (1, 'a') ON CONFLICT DO NOTHING": "takes no ON CONFLICT: MERGE INTO",
    "INSERT INTO t VALUES (1, $1)": "a parameter has a name: write :name or $name (line 1, column 26)",
    "DELETE FROM t WERE id = 1": "WHERE is expected, found 'WERE' (line 1, column 15)",
    "DELETE FROM TABLE t": "leave out the word TABLE before the table's name",
    "DELETE FROM t WHERE id = $1": "write :name or $name",
    "UPDATE TABLE t SET id = 1": "leave out the word TABLE before the table's name",
    "UPDATE t SETT id = 1": "SET is expected, found 'SETT' (line 1, column 10)",
    "UPDATE t SET id = 1, WHERE id = 2": "a column is expected, found 'WHERE' (line 1, column 22)",
    "UPDATE t SET id = s.id FROM s": "UPDATE takes no FROM: MERGE INTO table USING other",
    "MERGE INTO t USING s WHEN MATCHED THEN DELETE": "ON is expected, found 'WHEN'",
    "MERGE INTO t USIN s ON t.id = s.id WHEN MATCHED THEN DELETE": "USING is expected, found 'USIN'",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)":
        "1 column is named, and there are 2 values",
    "CREATE TABLE 'x' (id int) PARTITION BY (id)": "PARTITIONED BY is expected, found 'PARTITION'",
    "CREATE TABLE 'x' (id int) FAST": "a clause of CREATE TABLE, AS and a query, or the end of the statement",
    "ALTER TABLE t ADD x int": "COLUMNS, COLUMN or CONSTRAINT is expected, found 'x' (line 1, column 19)",
    "ALTER TABLE t SET PROPERTIES ('a' = 'b')": "TBLPROPERTIES is expected, found 'PROPERTIES'",
    "ALTER TABLE t MODIFY id bigint": "DROP FEATURE or RENAME TO is expected, found 'MODIFY'",
    "OPTIMIZE t ZORDER (id)": "BY is expected, found '('",
    "TRUNCATE TABLE t PARTITION (id = 1)": "DELETE FROM … WHERE empties a partition",
    "DESCRIBE HISTROY t": "DESCRIBE HISTROY: did you mean HISTORY?",
    "DESCRIBE t HISTORY": "table table has no column HISTORY; write DESCRIBE HISTORY",
    "SELECT * FROM t@1": "@v and a version, such as @v3, is expected, found '@' (line 1, column 16)",
}


@pytest.mark.parametrize("sql", SLIPS)
def test_a_slip_is_answered_with_the_way_out(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    t, s = (dn.create(MemoryStore("memory:///table"), {"id": [1], "name": ["a"]}) for _ in range(2))
    with pytest.raises(errors.DeltaError, match=re.escape(SLIPS[sql])):
        dn.sql(sql)
    assert t.version == s.version == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("sql", [
    "UPDATE t SET id = 2 WHERE id IS DISTINCT FROM 7", "UPDATE t SET id = :from", "DELETE FROM t AS were",
    "UPDATE t USIN SET id = USIN.id + 1", "DELETE FROM t wher WHERE wher.id = 1",
    "UPDATE t SET id = 3, from = 2", "UPDATE t SET t.from = 4"])
def test_what_looks_like_a_slip_and_is_none_runs(sql: str) -> None:
    t = dn.create(MemoryStore(), {"id": [1], "from": [1]})
    dn.sql(sql, **{"from": 5})
    assert t.version == 1


@pytest.mark.parametrize("word", sorted({words.split()[0] for kind in KINDS for words in kind.begins
                                         if len(words.split()[0]) > 4}))
def test_a_letter_less_is_answered_with_the_statement(word: str) -> None:
    with pytest.raises(errors.InvalidQuery, match=rf"is no statement; did you mean .*\b{word}\b"):
        dn.sql(f"{word[:2]}{word[3:]} t")
