"""``deltanb why``: what it prints, where it reads a text from, and an exit code that a job can act on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import deltanb as dn
from tests.app.conftest import Run
from tests.observe.post_mortem.failures import FAILURES, Failure, fail, printed

COMMAND = "why"
FAILURE: Failure = FAILURES[1]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table at which a DELETE failed; the text it ended with is in ``trace.txt`` beside it."""
    _, error = fail(FAILURE, tmp_path / "ducks")
    (tmp_path / "trace.txt").write_text(printed(error), "utf-8")
    return tmp_path / "ducks"


def test_what_the_text_explains_is_status_0_and_printed_in_full(table: Path, run: Run) -> None:
    code, output, errors = run(table, "--error", table.parent / "trace.txt")
    assert (code, errors) == (0, "")
    assert output.startswith("Post-mortem ducks  ✗ proved  v2 won  rule append\nVersion 2 (WRITE by ann, ")
    assert "added 1 file in [day=mon] where the DELETE read: the rule 'append' ended it.\n" in output
    assert "\nNo row met, by statistics.\n" in output
    for heading in ("What would have let it pass", "The job", "Winners", "Files that met", "Checks"):
        assert f"\n{heading}\n  " in output
    assert "  ✓ proved  Set delta.isolationLevel to WriteSerializable  version 2 is a blind append" in output


def test_what_is_inferred_is_status_3(table: Path, run: Run) -> None:
    code, output, _ = run(table, "--read-version", 1)
    assert code == 3 and "? possible" in output and "? would have ended it" in output
    code, output, _ = run(table, "--started", "2020-01-01", "--operation", "DELETE", "--where", "day = 'mon'")
    assert code == 3 and "? inferred: " in output and "was taken as UTC" in output


def test_a_text_that_is_not_known_is_status_3_and_shown(
    table: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("java.lang.OutOfMemoryError: Java heap space")
    code, output, _ = run(table, "--error", tmp_path / "other.txt")
    assert code == 3
    assert "one of the known texts of failed commits: java.lang.OutOfMemoryError: Java heap space." in output


def test_operation_predicate_and_version_explain_without_a_text(table: Path, run: Run) -> None:
    code, output, _ = run(table, "--read-version", 1, "--operation", "delete", "--where", "nephews = 0",
                          "--writer", "ben")
    assert code == 0 and "No row met, by statistics" in output and "\nMet before\n" in output


def test_a_text_is_piped_in(table: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO((table.parent / "trace.txt").read_bytes()))
    monkeypatch.setattr(sys, "stdin", piped)
    code, output, _ = run(table, "--error", "-")
    assert code == 0 and "v2 won" in output


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_a_text_in_any_encoding(table: Path, run: Run, encoding: str) -> None:
    file = table.parent / "trace.txt"
    file.write_bytes(file.read_text("utf-8").encode(encoding, "replace"))
    code, output, _ = run(table, "--error", file)
    assert code == 0 and "v2 won" in output


def test_json_is_for_programs(table: Path, run: Run) -> None:
    code, output, _ = run(table, "--error", table.parent / "trace.txt", "--json")
    report = json.loads(output)
    assert code == report["status"] == 0 and output.count("\n") == 1
    assert (report["rule"], report["rows_met"]["answer"], report["certainty"]) == ("append", "no", "proved")
    assert report["would_have_passed"][0]["kind"] == "isolation level"


def test_markdown_is_for_the_ticket_and_a_page_is_written_beside_it(table: Path, run: Run) -> None:
    page = table.parent / "why.html"
    code, output, _ = run(table, "--error", table.parent / "trace.txt", "--markdown", "--html", page)
    assert code == 0 and output.startswith("## Post-mortem: ducks\n\n✗ proved")
    assert "| ✓ proved | Set delta.isolationLevel to WriteSerializable |" in output
    assert page.read_text("utf-8").startswith("<!doctype html>")
    code, _, errors = run(table, "--read-version", 1, "--html", table.parent / "why.svg")
    assert code == 2 and "must end in .html" in errors


@pytest.mark.parametrize(("words", "message"), [
    ([], "nothing is known of the failed job"),
    (["--error", "no-such-file.txt"], "no-such-file.txt"),
    (["--read-version", "99"], "the newest version of the table"),
    (["--started", "yesterday"], "not a valid time"),
])
def test_what_cannot_be_looked_at_is_status_2_and_one_line(
    table: Path, run: Run, words: list[str], message: str
) -> None:
    code, output, errors = run(table, *words)
    assert (code, output) == (2, "") and message in errors and errors.count("\n") == 1
    code, _, errors = run(table.parent / "nothing", "--read-version", 1)
    assert code == 2 and errors.startswith("deltanb: ")


def test_an_empty_text_is_refused(table: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    code, _, errors = run(table, "--error", tmp_path / "empty.txt")
    assert code == 2 and "there is no text in it" in errors


@pytest.mark.parametrize(
    "words", [["--read-version", "-1"], ["--json", "--markdown"], ["--read-version", "x"]])
def test_a_wrong_command_line_is_status_2(table: Path, run: Run, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(table, *words)
    assert ended.value.code == 2


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
def test_no_credentials_and_no_control_characters_are_printed(
    table: Path, run: Run, tmp_path: Path, form: list[str]
) -> None:
    text = ("Error: a concurrent WRITE added data to table delta.`s3://AKIA:hidden@lake/ducks` "
            "committed at version 2.\x1b[2J")
    (tmp_path / "odd.txt").write_text(text)
    code, output, _ = run(table, "--error", tmp_path / "odd.txt", "--where", "day = 's3://k:hidden@x/\x1b[2J'",
                          *form)
    assert code == 0 and "hidden" not in output and "\x1b" not in output
    if form == ["--json"]:
        json.loads(output)


def test_nothing_is_written(table: Path, run: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    run(table, "--error", table.parent / "trace.txt", "--where", "nephews = 0")
    dn.flush()
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before
