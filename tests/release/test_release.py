"""A release is tried in every environment that ``pyproject.toml`` allows, and is of one version."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deltanb as dn
from tests.examples import every
from tests.release import __main__ as release
from tests.release.environments import ROOT, environments, extras, minors_of_pyspark, version

USES = Path(release.USES)


def test_each_extra_is_tried_alone_with_the_newest_and_the_oldest_versions() -> None:
    tried = {(one.extra, one.oldest) for one in environments()}
    assert tried >= {(extra, oldest) for extra in ("", *extras()) for oldest in (False, True)}
    assert {one.name for one in environments()} >= {f"PySpark {minor}" for minor in minors_of_pyspark()}


def test_each_environment_runs_a_program_of_its_own() -> None:
    programs = {path.stem for path in USES.glob("*.py")}
    assert {use for one in environments() for use in one.uses} | {"typed"} == programs
    for path in USES.glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path.name


def test_the_version_is_one() -> None:
    assert version() == dn.__version__
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## ")[2]
    assert newest.partition(" ")[0] == version()
    assert f"version: {version()}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_a_changelog_of_another_version_is_no_release(monkeypatch) -> None:
    monkeypatch.setattr(release, "version", lambda: "9.9.9")
    with pytest.raises(release.Refused, match=r"9\.9\.9: name the section"):
        release.check_notes()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an archive of the files has no sdist of its own")
def test_the_sdist_makes_the_same_wheel(tmp_path: Path) -> None:
    release.check_contents(*release.built(tmp_path))


def test_a_wheel_that_the_sdist_does_not_make_is_no_release(tmp_path: Path) -> None:
    from zipfile import ZipFile

    wheel, sdist = release.built(tmp_path)
    with ZipFile(wheel, "a") as archive:
        archive.writestr("deltanb/_left_over.py", "")
    with pytest.raises(release.Refused, match="_left_over"):
        release.check_contents(wheel, sdist)


def test_what_users_write_is_typed() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(USES / "typed.py")], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.environments
@pytest.mark.parametrize("name", every(2, ["core, oldest", "types"]))
def test_a_wheel_works_in_an_empty_environment(name: str, tmp_path: Path) -> None:
    """Those that differ most from the one in which all other tests run."""
    wheel, _ = release.built(tmp_path / "dist")
    (environment,) = (one for one in environments() if one.name == name)
    assert release.passes(environment, wheel)
