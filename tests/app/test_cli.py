"""The command line, in the process and as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltanb import errors
from deltanb.app import cli


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two commits."""
    import pyarrow as pa

    import deltanb as dn

    path = tmp_path / "flights"
    made = dn.create(str(path), pa.table({"month": [1, 1, 2], "carrier": ["UA", "AA", "UA"]}))
    made.append(pa.table({"month": [3], "carrier": ["B6"]}))
    return path


def test_history_lists_commits_newest_first(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if re.match(r"\W*[01]\b", line)]
    assert [int(re.search(r"\d", row).group()) for row in rows] == [1, 0], lines  # type: ignore[union-attr]


def test_history_says_who_did_what(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import deltanb as dn

    with dn.set_options(user_name="ada"):
        dn.open(table).delete("month = 1")
    assert cli.main(["history", str(table)]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "DELETE" in line)
    assert re.search(r"\bada\b.*2 rows deleted$", row), row


def test_history_shows_no_more_than_asked(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", str(table), "--limit", "1"]) == 0
    output = capsys.readouterr().out
    assert "WRITE" in output
    assert "CREATE" not in output


def test_describe_shows_the_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["describe", str(table)]) == 0
    output = capsys.readouterr().out
    assert "flights" in output
    assert "v1" in output


@pytest.mark.parametrize("command", [["help"], ["history", "{table}"]])
def test_an_output_that_nobody_reads_ends_quietly(command: list[str], table: Path) -> None:
    """As after ``| head``: the pipe has no reader any more."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "deltanb", *(word.format(table=table) for word in command)],
            stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (cli.UNREAD, "")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    import deltanb as dn

    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"deltanb {dn.__version__}\n"


def test_timeline_is_text(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["timeline", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Timeline flights  v0 to v1  2 commits")
    assert [re.match(r"\* v(\d)", line).group(1) for line in lines[1:]] == ["1", "0"]  # type: ignore[union-attr]


def test_timeline_of_some_versions(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["timeline", str(table), "--start", "1", "--end", "1"]) == 0
    assert "* v0" not in capsys.readouterr().out
    assert cli.main(["timeline", str(table), "--start", "7"]) == 2


def test_timeline_as_a_page_and_as_a_drawing(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, drawing = tmp_path / "t.html", tmp_path / "t.svg"
    assert cli.main(["timeline", str(table), "--html", str(page), "--svg", str(drawing)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"deltanb: the timeline is in {page}", f"deltanb: the timeline is in {drawing}"]
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert drawing.read_text("utf-8").startswith("<svg")


def test_timeline_in_a_file_of_another_kind_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["timeline", str(table), "--html", str(tmp_path / "t.svg")]) == 2
    assert "must end in .html" in capsys.readouterr().err
    assert not list(tmp_path.glob("t.*"))


@pytest.mark.parametrize("command", ["history", "describe", "timeline", "verify"])
def test_a_missing_table_is_one_line_and_exit_code_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, str(tmp_path / "nothing")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("deltanb: ")
    assert captured.err.count("\n") == 1
    assert "nothing" in captured.err


@pytest.mark.parametrize(
    "arguments", [[], ["history"], ["history", "x", "--limit", "0"], ["describe", "x", "--port"],
                  ["verify"], ["verify", "x", "--from", "-1"], ["verify", "x", "--files", "some"]]
)
def test_wrong_arguments_are_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: deltanb" in capsys.readouterr().err


def test_help_explains_an_error_by_any_of_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    pages = set()
    for name in ("concurrent-append", "ConcurrentAppendException", "CONCURRENT_APPEND"):
        assert cli.main(["help", name]) == 0
        pages.add(capsys.readouterr().out)
    (page,) = pages
    assert page.startswith("ConcurrentAppendException (concurrent-append)\n==")
    assert "A winner added files" in page and ">>> " in page and "Way out: Run it again" in page
    assert "``" not in page and ":class:" not in page


def test_help_lists_every_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(errors.topics())


def test_an_error_of_a_command_names_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "no/such/table"]) == 2
    assert capsys.readouterr().err.endswith(" (deltanb help table-not-found)\n")
    assert cli.main(["help", "concurent-append"]) == 2
    assert "did you mean concurrent-append" in capsys.readouterr().err
