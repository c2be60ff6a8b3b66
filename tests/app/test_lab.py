"""``deltanb lab``: whose the tutorials are, what a newer version does to a copy, how JupyterLab starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltanb.app import cli, lab
from deltanb.errors import InvalidArgument
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST, SECOND = "01-first-commit.ipynb", "02-a-conflict.ipynb"
NOTIFICATION = "@jupyterlab/apputils-extension:notification"


def notebook(*sources: str, output: str | None = None) -> str:
    """A notebook of these cells, run or not."""
    outputs = [] if output is None else [{"output_type": "stream", "name": "stdout", "text": output}]
    return json.dumps({"cells": [
        {"cell_type": "code", "source": [source], "outputs": outputs} for source in sources]})


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Two tutorials as they come with the library, and a file that is none."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    for name in (FIRST, SECOND):
        (folder / name).write_text(notebook("1 + 1"))
    (folder / "sanitize.cfg").write_text("not a tutorial")
    return folder


@pytest.fixture
def mine(shipped: Path, tmp_path: Path) -> Path:
    """A reader's copy of them."""
    folder = tmp_path / "mine"
    assert lab.copy_tutorials(shipped, folder).new == [FIRST, SECOND]
    return folder


def names(folder: Path) -> list[str]:
    """The files of a folder that a reader sees."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


# -- the reader's copy -----------------------------------------------------------------------------


def test_a_copy_has_the_tutorials_and_nothing_else(shipped: Path, mine: Path) -> None:
    assert names(mine) == [FIRST, SECOND]
    assert sorted(path.name for path in mine.iterdir()) == [lab.RECORD, FIRST, SECOND]
    again = lab.copy_tutorials(shipped, mine)
    assert again == lab.Copied() and list(again.lines()) == []


def test_what_the_reader_changed_is_kept_and_named(shipped: Path, mine: Path) -> None:
    (mine / SECOND).write_text(notebook("2 + 2"))
    for _ in range(2):
        copied = lab.copy_tutorials(shipped, mine)
        assert copied == lab.Copied(unchanged=[SECOND])
        assert list(copied.lines()) == [f"not updated, because you changed them: {SECOND}"]
    assert (mine / SECOND).read_text() == notebook("2 + 2")
    assert names(mine) == [FIRST, SECOND]


def test_a_newer_version_replaces_what_was_only_run(shipped: Path, mine: Path) -> None:
    (mine / FIRST).write_text(notebook("1 + 1", output="2"))
    assert lab.copy_tutorials(shipped, mine) == lab.Copied()
    assert (mine / FIRST).read_text() == notebook("1 + 1", output="2"), "of the same version: the run stays"
    (shipped / FIRST).write_text(notebook("1 + 1 + 1"))
    assert lab.copy_tutorials(shipped, mine) == lab.Copied(renewed=[FIRST])
    assert (mine / FIRST).read_text() == notebook("1 + 1 + 1")


def test_a_newer_version_of_what_the_reader_changed_arrives_beside_it_once(
    shipped: Path, mine: Path
) -> None:
    (mine / FIRST).write_text(notebook("mine"))
    (shipped / FIRST).write_text(notebook("newer"))
    beside = "01-first-commit-new.ipynb"
    assert lab.copy_tutorials(shipped, mine) == lab.Copied(unchanged=[FIRST], beside=[beside])
    assert (mine / FIRST).read_text() == notebook("mine")
    assert (mine / beside).read_text() == notebook("newer")
    (mine / beside).unlink()
    assert lab.copy_tutorials(shipped, mine) == lab.Copied(unchanged=[FIRST])
    assert names(mine) == [FIRST, SECOND], "who has thrown it away does not get it again"


def test_no_version_that_arrived_beside_is_written_over_where_it_was_changed(
    shipped: Path, mine: Path
) -> None:
    (mine / FIRST).write_text(notebook("mine"))
    beside = []
    for version in ("second", "third", "fourth"):
        (shipped / FIRST).write_text(notebook(version))
        beside += lab.copy_tutorials(shipped, mine).beside
        if version == "second":
            (mine / beside[0]).write_text(notebook("mine, too"))
    assert beside == [f"01-first-commit-new{number}.ipynb" for number in ("", "-2", "-2")]
    assert (mine / beside[0]).read_text() == notebook("mine, too")
    assert (mine / beside[1]).read_text() == notebook("fourth")


def test_a_new_tutorial_arrives(shipped: Path, mine: Path) -> None:
    (shipped / "03-more.ipynb").write_text(notebook("3"))
    assert lab.copy_tutorials(shipped, mine).new == ["03-more.ipynb"]


def test_without_a_record_whatever_differs_is_the_readers(shipped: Path, mine: Path) -> None:
    for record in (None, "{", "[]"):
        (mine / lab.RECORD).unlink()
        if record is not None:
            (mine / lab.RECORD).write_text(record)
        (mine / FIRST).write_text("not even a notebook")
        assert lab.copy_tutorials(shipped, mine).unchanged == [FIRST]
        assert (mine / FIRST).read_text() == "not even a notebook"


def test_a_copy_that_fails_leaves_no_half_of_a_file(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="cannot be copied to .*mine .no space left.; name a folder"):
        lab.copy_tutorials(shipped, tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_the_folder_they_come_from_is_refused(shipped: Path) -> None:
    before = names(shipped)
    with pytest.raises(InvalidArgument, match="name another one for your copy"):
        lab.copy_tutorials(shipped, shipped)
    assert names(shipped) == before
    assert cli.main(["lab", str(ROOT / "notebooks")]) == 2


def test_a_folder_without_tutorials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no tutorials in"):
        lab.copy_tutorials(tmp_path, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


# -- the start -------------------------------------------------------------------------------------


def test_lab_without_jupyterlab_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 2
    assert "pip install 'deltanb[lab]'" in capsys.readouterr().err


def test_a_folder_that_is_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("")
    assert cli.main(["lab", str(tmp_path / "mine")]) == 2
    assert "is a file" in capsys.readouterr().err


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """What would have become JupyterLab: its command lines and environments."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def end_here(program: str, command: list[str], environment: dict[str, str]) -> None:
        calls.append((command, environment))
        raise SystemExit  # as the call that never returns

    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / f".{name}"))
    monkeypatch.setattr(os, "execve", end_here)
    return calls


becomes_jupyterlab = pytest.mark.skipif(
    os.name != "posix", reason="elsewhere JupyterLab is a process of its own")


@becomes_jupyterlab
@pytest.mark.parametrize(("options", "expected"), [
    (["mine", "--port", "8889", "--no-browser"], ["--port", "8889", "--no-browser"]),
    (["mine", "--port=8889"], ["--port=8889"]),
    (["mine"], []),
])
def test_options_of_jupyterlab_keep_their_values(
    tmp_path: Path, started: list, options: list[str], expected: list[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["lab", *options])
    assert names(tmp_path) == ["mine"]
    ((command, _),) = started
    assert f"--ServerApp.root_dir={tmp_path / 'mine'}" in command
    assert [text for text in command[4:] if not text.startswith(("--LabApp", "--allow"))] == expected


@becomes_jupyterlab
def test_a_checkout_opens_a_copy_of_its_tutorials_with_the_tour_in_front(
    tmp_path: Path, started: list, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.shipped_tutorials() == ROOT / "notebooks"
    with pytest.raises(SystemExit):
        cli.main(["lab"])
    ((command, _),) = started
    folder = tmp_path / lab.TUTORIALS_FOLDER
    assert f"--ServerApp.root_dir={folder}" in command
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST_TUTORIAL}" in command
    assert names(folder) == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert names(folder)[0] == lab.FIRST_TUTORIAL
    assert capsys.readouterr().out == f"deltanb: the tutorials are in {folder}\n"


@becomes_jupyterlab
def test_defaults_go_before_other_configurations_and_hide_none(
    started: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "theirs")
    with pytest.raises(SystemExit):
        cli.main(["lab"])
    ((_, environment),) = started
    assert environment["JUPYTER_CONFIG_PATH"].split(os.pathsep) == [str(lab.SETTINGS_FOLDER), "theirs"]


@pytest.mark.skipif(not shutil.which("git") or not (ROOT / ".git").exists(), reason="no checkout of git's")
def test_git_does_not_see_a_copy_in_a_checkout() -> None:
    for folder in (ROOT, ROOT / "notebooks"):
        path = folder / lab.TUTORIALS_FOLDER / FIRST
        assert subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=ROOT).returncode == 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``deltanb lab`` on a free port of this machine, stopped afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    homes = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    arguments = ["lab", str(tmp_path / "mine"), "--no-browser", f"--port={port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "deltanb.app.cli", *arguments, "--IdentityProvider.token=secret"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **homes},
        cwd=tmp_path,
    )
    too_late = threading.Timer(PATIENCE, process.kill)
    too_late.start()
    try:
        yield process
    finally:
        too_late.cancel()
        process.terminate()
        process.wait(timeout=PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.slow
def test_lab_serves_a_copy_of_the_tutorials_and_asks_for_no_news(
    served: subprocess.Popen[str], tmp_path: Path
) -> None:
    url = served_at(served)
    assert "started" in ask(f"{url}/api/status")
    shown = {entry["name"] for entry in ask(f"{url}/api/contents")["content"]}
    assert lab.FIRST_TUTORIAL in shown
    assert shown == set(names(tmp_path / "mine"))
    assert ask(f"{url}/api/contents/{lab.FIRST_TUTORIAL}")["type"] == "notebook"
    setting = ask(f"{url}/lab/api/settings/{NOTIFICATION}")
    assert setting["schema"]["properties"]["fetchNews"]["default"] == "false"
    assert not list((tmp_path / "CONFIG").rglob("*.jupyterlab-settings")), "the reader's settings are theirs"


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
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)
