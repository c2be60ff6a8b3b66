"""The command line, in the process and as a process of its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltanb import cli

LAB_SECONDS = 120  # JupyterLab starts in about five; a loaded machine needs more


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
    said = capsys.readouterr().out.splitlines()
    assert said == [f"deltanb: the timeline is in {page}", f"deltanb: the timeline is in {drawing}"]
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert drawing.read_text("utf-8").startswith("<svg")


def test_timeline_in_a_file_of_another_kind_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["timeline", str(table), "--html", str(tmp_path / "t.svg")]) == 2
    assert "must end in .html" in capsys.readouterr().err
    assert not list(tmp_path.glob("t.*"))


@pytest.mark.parametrize("command", ["history", "describe", "timeline"])
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
    "arguments", [[], ["history"], ["history", "x", "--limit", "0"], ["describe", "x", "--port"]]
)
def test_wrong_arguments_are_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: deltanb" in capsys.readouterr().err


def test_lab_without_jupyterlab_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 2
    assert "pip install 'deltanb[lab]'" in capsys.readouterr().err


def test_copying_keeps_what_the_reader_changed(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "mine"
    source.mkdir()
    for name in ("01-first-commit.ipynb", "02-a-conflict.ipynb"):
        (source / name).write_text("shipped")
    (source / "sanitize.cfg").write_text("not a tutorial")
    folder.mkdir()
    (folder / "01-first-commit.ipynb").write_text("changed")
    assert cli.copy_tutorials(source, folder) == [folder / "02-a-conflict.ipynb"]
    assert (folder / "01-first-commit.ipynb").read_text() == "changed"
    assert not (folder / "sanitize.cfg").exists()


def test_a_folder_that_is_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("")
    assert cli.main(["lab", str(tmp_path / "mine")]) == 2
    assert "is a file" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="elsewhere JupyterLab is a process of its own")
@pytest.mark.parametrize(("given", "expected"), [
    (["mine", "--port", "8889", "--no-browser"], ["--port", "8889", "--no-browser"]),
    (["mine", "--port=8889"], ["--port=8889"]),
    (["mine"], []),
])
def test_options_of_jupyterlab_keep_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], expected: list[str]
) -> None:
    started: list[list[str]] = []

    def end_here(program: str, command: list[str]) -> None:
        started.append(command)
        raise SystemExit  # as the call that never returns

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", end_here)
    with pytest.raises(SystemExit):
        cli.main(["lab", *given])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
    (command,) = started
    assert f"--ServerApp.root_dir={tmp_path / 'mine'}" in command
    assert [text for text in command[4:] if not text.startswith(("--LabApp", "--allow"))] == expected


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``deltanb lab`` on a free port of this machine, stopped afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    homes = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    arguments = ["lab", str(tmp_path / "mine"), "--no-browser", f"--port={port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "deltanb.cli", *arguments, "--IdentityProvider.token=secret"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **homes},
        cwd=tmp_path,
    )
    too_late = threading.Timer(LAB_SECONDS, process.kill)
    too_late.start()
    try:
        yield process
    finally:
        too_late.cancel()
        process.terminate()
        process.wait(timeout=LAB_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.slow
def test_lab_serves_a_copy_of_the_tutorials(
    lab: subprocess.Popen[str], tmp_path: Path
) -> None:
    url = served_at(lab)
    assert "started" in ask(f"{url}/api/status")
    served = {entry["name"] for entry in ask(f"{url}/api/contents")["content"]}
    assert cli.FIRST_TUTORIAL in served
    assert served == {path.name for path in (tmp_path / "mine").iterdir()}
    assert ask(f"{url}/api/contents/{cli.FIRST_TUTORIAL}")["type"] == "notebook"


def served_at(process: subprocess.Popen[str]) -> str:
    """Read what the server prints until it names its address."""
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if match := re.search(r"http://127\.0\.0\.1:(\d+)(?=/lab)", line):
            listening(process, int(match[1]))
            return match[0]
    pytest.fail("JupyterLab ended without an address:\n" + "".join(printed))


def listening(process: subprocess.Popen[str], port: int) -> None:
    """Wait until the port answers: the server names its address a moment before it listens."""
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    pytest.fail("JupyterLab ended before it listened")


def ask(url: str) -> dict:
    """The JSON answer of the server, asked with its token."""
    request = urllib.request.Request(url, headers={"Authorization": "token secret"})
    with urllib.request.urlopen(request, timeout=LAB_SECONDS) as response:
        return json.load(response)
