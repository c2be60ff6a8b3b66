"""``deltanb sql``: statements over paths and catalogs, results for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.query.statements.kinds import KINDS
from tests.app.conftest import Run

COMMAND = "sql"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of two partitions."""
    monkeypatch.chdir(tmp_path)
    dn.create("flights", {"month": [1, 2], "carrier": ["AA", None]}, partition_by="month")
    return tmp_path


def test_a_query_prints_its_rows(run: Run) -> None:
    assert run("SELECT * FROM 'flights' WHERE month = 2") == (
        0, "month  carrier\n2      null\n1 row, opened 1 of 2 files\n", "")
    code, output, _ = run("SELECT * FROM range(1005)")
    assert code == 0 and output.count("\n") == 1 + 1000 + 2
    assert "the first 1\u00a0000 rows; --csv and --json print all" in output


def test_rows_for_programs(run: Run) -> None:
    sql = "SELECT month, carrier, DATE '2026-03-01' AS day FROM 'flights' ORDER BY month"
    code, output, _ = run(sql, "--json")
    assert (code, json.loads(output)) == (0, [
        {"month": 1, "carrier": "AA", "day": "2026-03-01"},
        {"month": 2, "carrier": None, "day": "2026-03-01"}])
    code, output, _ = run(sql, "--csv")
    assert list(csv.reader(io.StringIO(output))) == [
        ["month", "carrier", "day"], ["1", "AA", "2026-03-01"], ["2", "", "2026-03-01"]]
    assert run("SELECT [1] AS a", "--csv")[0] == 2
    assert "last statement is not a query" in run("DESCRIBE DETAIL 'flights'", "--csv")[2]


def test_statements_change_tables(run: Run, folder: Path) -> None:
    code, output, errors = run("DELETE FROM 'flights' WHERE month = :m AND carrier = :c", "-p", "m=1",
                               "--param", "c=AA")
    assert (code, errors) == (0, "") and output.startswith("DELETE  ✓ committed v1")
    code, output, _ = run("INSERT INTO 'flights' VALUES (3, 'x')", "--json")
    assert json.loads(output)["version"] == 2 and json.loads(output)["metrics"]["numOutputRows"] == 1
    code, output, _ = run("DESCRIBE HISTORY 'flights'", "--json")
    assert [commit["operation"] for commit in json.loads(output)] == [
        "WRITE", "DELETE", "CREATE TABLE AS SELECT"]


def test_a_file_has_many_statements(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "job.sql").write_text(
        "-- a job\nDELETE FROM 'flights' WHERE month = 1;\nSELECT count(*) AS n FROM 'flights';\n")
    assert run("-f", "job.sql")[:2] == (0, "n\n1\n1 row, opened 1 of 1 file\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS x"))
    assert run("-f", "-")[:2] == (0, "x\n1\n1 row\n")
    (folder / "bad.sql").write_text("DELETE FROM 'flights';\nDELETE FROM 'nowhere'; DELETE FROM 'flights'")
    code, output, errors = run("-f", "bad.sql")
    assert (code, output) == (2, "") and "nowhere" in errors.splitlines()[0]
    assert errors.splitlines()[1] == ("deltanb: statement 2 of 3 failed (line 2, column 1): "
                                      "DELETE FROM 'nowhere'; the one before it is done")


def test_a_catalog_names_tables(run: Run, folder: Path) -> None:
    where = ("--catalog", "sqlite:///shop.db", "--warehouse", "shop")
    assert "CREATE SCHEMA makes one" in run("SHOW TABLES", *where)[2] and not (folder / "shop.db").exists()
    assert run("CREATE SCHEMA shop; CREATE TABLE shop.a AS SELECT 1 AS id; "
               "CREATE TABLE shop.b (id int)", *where)[0] == 0
    code, output, _ = run(
        "BEGIN ATOMIC INSERT INTO shop.b SELECT * FROM shop.a; DELETE FROM shop.a; END", *where)
    assert code == 0 and "shop.a" in output and "shop.b" in output
    assert run("SHOW TABLES", *where)[1] == (
        "namespace  tableName  isTemporary\n"
        "shop       a          false\nshop       b          false\n2 rows\n")
    assert json.loads(run("SELECT * FROM shop.b", "--json", *where)[1]) == [{"id": 1}]
    assert run("SHOW CREATE TABLE shop.a", *where)[1].startswith("CREATE TABLE shop.a (\n  id int)\nUSING")
    assert run("DROP TABLE shop.a", *where)[1] == "DROP TABLE  ✓ shop.a dropped\n"
    assert json.loads(run("DROP TABLE IF EXISTS shop.a", "--json", *where)[1]) == {
        "statement": "DROP TABLE", "name": "shop.a", "outcome": "there is no such table", "is_done": False}


@pytest.mark.parametrize("words, error", [
    ([], "give the statements, or -f"), (["SELECT 1", "-f", "x"], "give the statements, or -f"),
    (["SELECT 1", "-p", "x"], "write it as NAME=VALUE"),
    (["SELECT 1", "--warehouse", "x"], "--warehouse needs --catalog"),
    (["SELECT 1", "--catalog", "sqlite:///x"], "pass --warehouse"),
    (["SELEC 1"], "did you mean SELECT"), (["-f", "none.sql"], "none.sql"),
])
def test_what_is_wrong_is_one_line_and_exit_code_2(words: list[str], error: str, run: Run) -> None:
    code, output, errors = run(*words)
    assert (code, output) == (2, "") and error in errors and errors.count("\n") == 1


def test_the_help_has_all_statements(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    words = " ".join(capsys.readouterr().out.split())
    assert all(kind.name in words for kind in KINDS)
