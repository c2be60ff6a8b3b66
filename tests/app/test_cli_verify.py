"""``deltanb verify``: what it prints, and an exit code that a job can act on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import deltanb as dn
from tests.app.conftest import Run

COMMAND = "verify"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three commits; the second adds a file, the third deletes it."""
    path = tmp_path / "flights"
    made = dn.create(str(path), {"month": [1], "carrier": ["UA"]}, partition_by="month")
    made.append({"month": [2], "carrier": ["B6"]})
    made.delete("month = 2")
    return path


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def test_a_sound_table_is_status_0(table: Path, run: Run) -> None:
    code, output, errors = run(table)
    assert (code, errors) == (0, "")
    assert output.startswith("Verification flights  ✓ sound  v0 to v2  3 commits\n"
                             "a sample of the data files was opened\n")
    assert "\n  other-reads  –  " in output


def test_what_is_proved_is_status_1_and_printed_in_full(table: Path, run: Run) -> None:
    shutil.copy(commit(table, 2), commit(table, 3))  # deletes the same file again
    code, output, _ = run(table, "--files", "none")
    assert code == 1
    assert "✗ removed-twice  proved\n  v2, v3  version 3 removes month=2/part-" in output
    assert "  to do: Compare the rows of both commits with diff(), and DELETE the duplicates\n" in output
    assert "✗ lost update  proved  v3 →rw v2 →ww v3\n" in output


def test_what_is_only_possible_is_status_3(table: Path, run: Run) -> None:
    (table / "month=1" / "part-00000-lost.parquet").write_bytes(b"PAR1")
    code, output, _ = run(table)
    assert code == 3
    assert "? orphan  possible\n" in output
    assert run(table, "--files", "none")[0] == 0


def test_a_damaged_log_is_looked_at_all_the_same(table: Path, run: Run) -> None:
    commit(table, 1).write_text("{", "utf-8")
    code, output, errors = run(table)
    assert (code, errors) == (1, "")
    assert "✗ commit-unreadable  proved\n  v1  " in output


def test_versions_from_and_to(table: Path, run: Run) -> None:
    shutil.copy(commit(table, 2), commit(table, 3))
    assert run(table, "--to", 2, "--files", "none")[0] == 0
    code, output, _ = run(table, "--from", 3, "--files", "none")
    assert code in (1, 3) and "v3  1 commit\n" in output  # whoever removed it before is not looked at
    code, output, errors = run(table, "--from", 3, "--to", 2)
    assert (code, output) == (2, "") and "not a range of versions" in errors


def test_json_is_for_programs(table: Path, run: Run) -> None:
    shutil.copy(commit(table, 2), commit(table, 3))
    code, output, _ = run(table, "--json", "--files", "none")
    report = json.loads(output)
    assert code == report["status"] == 1
    assert report["cycles"][0]["edges"] == [[3, 2, "rw"], [2, 3, "ww"]]
    assert output.count("\n") == 1 and report["findings"][0]["kind"] == "removed-twice"


def test_a_page_beside_the_text(table: Path, tmp_path: Path, run: Run) -> None:
    page = tmp_path / "report.html"
    code, output, _ = run(table, "--html", page)
    assert code == 0 and "✓ sound" in output
    assert page.read_text("utf-8").startswith("<!doctype html>")
    code, _, errors = run(table, "--html", tmp_path / "report.svg")
    assert code == 2 and "must end in .html" in errors


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_credentials_and_no_control_characters_are_printed(table: Path, run: Run, form: list[str]) -> None:
    text = commit(table, 1).read_text("utf-8")
    for before, after in (('"add":{"path":"', '"add":{"path":"s3://AKIA:hidden@lake/'),
                          ('"size":', '"size":-'), ("month=2", "month=\\u001b[2J")):
        text = text.replace(before, after)
    commit(table, 3).write_text(text, "utf-8")
    code, output, _ = run(table, "--files", "none", *form)
    assert code == 1 and "size-invalid" in output
    assert "hidden" not in output and "\x1b" not in output
    if form:
        json.loads(output)
