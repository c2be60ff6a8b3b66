"""``%sql`` and ``%%sql`` in a shell, and the card of a result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.log.skipping.explain import explain
from deltanb.notebook import bundle
from deltanb.notebook.magic import CellRequest, parse
from deltanb.notebook.views import query as view
from deltanb.options import SeededIds, set_options
from deltanb.query.duck import DUCKDB
from deltanb.query.result import QueryResult
from deltanb.query.run import run
from deltanb.query.statements.kinds import KINDS
from deltanb.testing import MemoryStore
from tests.notebook.looks import Page, assert_consistent, assert_golden
from tests.notebook.samples import TIME
from tests.query.test_run import flights

interactive = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell() -> Iterator[Any]:
    """A shell with a table, in which ``%load_ext deltanb`` has run."""
    made = interactive.InteractiveShell(user_ns={"flights": flights(), "month": 2})
    made.run_line_magic("load_ext", "deltanb")
    yield made
    made.run_line_magic("unload_ext", "deltanb")


def cell(shell: Any, text: str) -> Any:
    """What a cell ends with; its error is raised."""
    ran = shell.run_cell(text, store_history=False)
    ran.raise_error()
    return ran.result


def test_a_cell_is_a_query(shell: Any) -> None:
    result = cell(shell, "%%sql\nSELECT carrier\nFROM flights\nWHERE month = 1 AND delay > 100")
    assert isinstance(result, QueryResult)
    assert (result.rows.to_pylist(), result.opened) == ([{"carrier": "ZZ"}], 1)


def test_a_query_may_begin_on_the_first_line(shell: Any) -> None:
    assert len(cell(shell, "%%sql SELECT *\nFROM flights")) == 7


def test_a_line_gives_a_value(shell: Any) -> None:
    cell(shell, "found = %sql SELECT max(delay) AS m FROM flights VERSION AS OF 0")
    assert shell.user_ns["found"].rows.to_pylist() == [{"m": 90}]


def test_a_result_is_kept_and_asked_again(shell: Any) -> None:
    shown = cell(shell, "%%sql -o late\nSELECT * FROM flights WHERE delay > 50")
    assert shell.user_ns["late"] is shown
    assert len(cell(shell, "%sql SELECT * FROM late WHERE month = 1")) == 2


def test_a_result_is_kept_without_being_shown(shell: Any) -> None:
    assert cell(shell, "%%sql one <<\nSELECT 1 AS x") is None
    assert cell(shell, "%sql two << SELECT 2 AS x") is None
    assert cell(shell, "%sql -q -o three SELECT 3 AS x") is None
    assert [shell.user_ns[name].rows.to_pylist() for name in ("one", "two", "three")] == [
        [{"x": 1}], [{"x": 2}], [{"x": 3}]]


def test_a_variable_is_a_parameter_and_never_text(shell: Any) -> None:
    assert len(cell(shell, "%sql SELECT * FROM flights WHERE month = $month")) == 2
    shell.user_ns["carrier"] = "AA' OR 1=1 --"
    assert len(cell(shell, "%sql SELECT * FROM flights WHERE carrier = $carrier")) == 0


def test_a_slip_is_refused_with_the_closest_name(shell: Any) -> None:
    with pytest.raises(errors.TableNotFound, match="did you mean flights"):
        cell(shell, "%sql SELECT * FROM flight")
    with pytest.raises(errors.InvalidArgument, match="did you mean --spark"):
        cell(shell, "%sql --sprak SELECT 1")


def test_the_magics_go_as_they_came(shell: Any) -> None:
    shell.run_line_magic("unload_ext", "deltanb")
    assert shell.find_line_magic("sql") is None and shell.find_cell_magic("sql") is None
    shell.run_line_magic("load_ext", "deltanb")
    assert shell.find_cell_magic("sql") is not None


def test_its_help_says_what_there_is(shell: Any) -> None:
    text = shell.find_cell_magic("sql").__doc__
    for word in ("--spark", "--output", "--quiet", "VERSION AS OF", "TIMESTAMP AS OF", *(
            kind.name for kind in KINDS)):
        assert word in text


def test_statements_change_tables_and_make_variables(shell: Any, tmp_path: Path) -> None:
    shell.user_ns["least"] = 50
    commits = cell(shell, "%%sql\nDELETE FROM flights\nWHERE delay < :least;\nDESCRIBE HISTORY flights")
    assert commits[0].operation == "DELETE"
    made = cell(shell, f"%sql CREATE TABLE pond (id int) LOCATION '{tmp_path}/pond'")
    assert shell.user_ns["pond"] is made
    assert cell(shell, "%sql -o n INSERT INTO pond VALUES (1), (2)").version == 1
    assert len(cell(shell, "%sql SELECT * FROM pond")) == 2
    assert shell.user_ns["n"].metrics["numOutputRows"] == 2


@pytest.mark.parametrize("line, below, expected", [
    ("", "SELECT 1", CellRequest("SELECT 1")),
    ("--output=a --spark", "SELECT 1", CellRequest("SELECT 1", spark=True, output="a")),
    ("-q SELECT 1", None, CellRequest("SELECT 1", quiet=True)),
    ("--duckdb -o a", "SELECT 1", CellRequest("SELECT 1", output="a")),
    ("--spark a << SELECT 1", None, CellRequest("SELECT 1", spark=True, output="a", quiet=True)),
    ("SELECT -1 << 2", None, CellRequest("SELECT -1 << 2")),
    ("-- a comment", "SELECT 1", CellRequest("-- a comment\nSELECT 1")),
])
def test_options_stand_before_the_query(line: str, below: str | None, expected: CellRequest) -> None:
    assert parse(line, below) == expected


@pytest.mark.parametrize("line, message", [
    ("", "there is no query"), ("-o", "the name of a variable"), ("-o 3 SELECT 1", "the name of a variable"),
    ("--spark --duckdb SELECT 1", "not both"), ("--spark=yes SELECT 1", "takes no value"),
    ("-x SELECT 1", "-x"), ("-o class SELECT 1", "the name of a variable"),
])
def test_options_that_make_no_sense_are_refused(line: str, message: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        parse(line)


# -- the card --------------------------------------------------------------------------------------


def asked(sql: str) -> QueryResult:
    with set_options(clock=lambda: TIME, new_id=SeededIds(1)):
        names = {"flights": flights(MemoryStore("memory:///lake/flights")), "m": 1}
        return run(sql, names, DUCKDB)


def test_rows_and_files(update_golden: bool) -> None:
    result = asked("SELECT carrier, delay FROM flights WHERE month = $m AND delay > 100 "
                   "AND upper(carrier) = 'ZZ'")
    assert_consistent(result)
    assert_golden(result, "query", update_golden)
    assert "✓ opened 1 of 4 files; 2 skipped by partition values, 1 by statistics" in bundle.text(result)
    page = Page(bundle.mimebundle(result)["text/html"])
    assert "files are asked only of columns, not of what is computed of them" in page.text


def test_two_tables_and_no_rows(update_golden: bool) -> None:
    result = asked("SELECT a.delay FROM flights a JOIN flights VERSION AS OF 0 b USING (delay) "
                   "WHERE a.month = 1 AND b.month = 9 ORDER BY 1")
    assert_consistent(result)
    assert_golden(result, "query_two", update_golden)


def test_files_of_a_limit_are_counted_at_most() -> None:
    assert "opened at most 4 of 4 files" in bundle.text(asked("SELECT * FROM flights LIMIT 1"))
    assert "opened 0 of 4 files; the engine asked for no row" in bundle.text(asked("DESCRIBE flights"))


def test_more_tables_than_are_told_are_counted() -> None:
    rows = asked("SELECT 1 AS one").rows
    scan = explain(dn.create(MemoryStore(), {"id": [1]}).snapshot)
    many = QueryResult("SELECT", rows, (scan,) * (view.MAX_SCANS + 2), ("whole",) * (view.MAX_SCANS + 2))
    assert "2 more tables" in Page(bundle.mimebundle(many)["text/html"]).text
