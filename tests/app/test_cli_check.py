"""``deltanb check``: what it prints, and an exit code that a job can act on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.observe.checkup.kinds import FAIL_ON
from tests.app.conftest import Run
from tests.helpers import tree

COMMAND = "check"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of twelve small files."""
    made = dn.create(tmp_path / "flights", {"month": [1]})
    for month in range(2, 13):
        made.append({"month": [month]})
    dn.flush()
    return tmp_path / "flights"


def test_findings_are_no_failure_unless_they_are_asked_for(table: Path, run: Run) -> None:
    before = tree(table)
    code, output, errors = run(table)
    assert (code, errors) == (0, "")
    assert output.startswith("Checkup flights  ! 1 finding  v11  12 files  ")
    assert "! small-files  OPTIMIZE makes 1 file of 12, " in output
    assert "  to do: table.optimize()\n  saves 11 files, 11 requests; reads " in output
    assert tree(table) == before


@pytest.mark.parametrize("kind", FAIL_ON)
def test_a_finding_of_a_kind_that_is_named_is_status_1(kind: str, table: Path, run: Run) -> None:
    assert run(table, "--fail-on", kind)[0] == (1 if kind in ("small-files", "any") else 0)


def test_several_kinds_are_named(table: Path, run: Run) -> None:
    assert run(table, "--fail-on", "orphans", "small-files")[0] == 1
    assert run(table, "--fail-on", "orphans", "--fail-on", "small-files")[0] == 1
    assert run(table, "--fail-on", "orphans", "log-age")[0] == 0


@pytest.mark.parametrize("words", [
    "--fail-on small-files PATH", "--fail-on orphans small-files PATH", "--fail-on orphans,small-files PATH",
    "--fail-on=orphans,small-files PATH", "PATH --fail-on orphans,small-files",
    "--files none --fail-on any PATH",
    "--fail-on orphans PATH --fail-on small-files", "--fail-on orphans --fail-on small-files --json PATH",
    "--fail-on small-files -- PATH", "--fail-on orphans small-files --json PATH"])
def test_kinds_are_named_before_the_path_and_behind_it(words: str, table: Path, run: Run) -> None:
    code, output, errors = run(*(table if word == "PATH" else word for word in words.split()))
    assert (code, errors) == (1, "") and "small-files" in output


@pytest.mark.parametrize("words", [
    "--fail-on PATH", "PATH --fail-on", "--fail-on small-files", "--fail-on small-files,ugly PATH",
    "--fail-on ugly PATH", "PATH --fail-on small-files PATH", "--fail-on small-files PATH PATH",
    "PATH --fail-on small-files,", "--fail-on orphans PATH --json PATH"])
def test_kinds_or_paths_that_are_wrong_are_refused(words: str, table: Path, run: Run) -> None:
    try:
        code = run(*(table if word == "PATH" else word for word in words.split()))[0]
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2


def test_a_kind_that_is_none_and_a_table_that_is_none(table: Path, run: Run) -> None:
    with pytest.raises(SystemExit) as error:
        run(table, "--fail-on", "ugly")
    assert error.value.code == 2
    code, output, errors = run(table / "none")
    assert (code, output) == (2, "") and "no Delta table" in errors


def test_the_folder_is_listed_unless_it_is_not_to_be(table: Path, run: Run) -> None:
    lost = table / "part-00000-lost.parquet"
    lost.write_bytes(b"PAR1")
    os.utime(lost, (0, 0))
    assert run(table, "--fail-on", "orphans")[0] == 1
    code, output, _ = run(table, "--files", "none", "--fail-on", "orphans")
    assert code == 0 and "listing" in output
    assert run(table, "--files", "all", "--fail-on", "orphans")[0] == 1


def test_json_is_for_programs(table: Path, run: Run) -> None:
    code, output, _ = run(table, "--json", "--fail-on", "any")
    report = json.loads(output)
    assert code == 1 and report["findings"][0]["saves"] == {"files": 11, "requests": 11}
    assert output.count("\n") == 1


def test_a_page_beside_the_text(table: Path, tmp_path: Path, run: Run) -> None:
    page = tmp_path / "report.html"
    code, output, _ = run(table, "--html", page)
    assert code == 0 and "1 finding" in output
    assert page.read_text("utf-8").startswith("<!doctype html>")
    code, _, errors = run(table, "--html", tmp_path / "report.svg")
    assert code == 2 and "must end in .html" in errors


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_credentials_and_no_control_characters_are_printed(table: Path, run: Run, form: list[str]) -> None:
    (table / "_delta_log" / f"{12:020}.json").write_text(json.dumps(
        {"commitInfo": {"operation": "POLISH \x1b[2J s3://AKIA:hidden@lake/"}}) + "\n")
    code, output, _ = run(table, *form)
    assert code == 0 and "operation-unknown" in output
    assert "hidden" not in output and "\x1b" not in output
