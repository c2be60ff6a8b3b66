"""A release, in one command: ``python -m tests.release [--out DIR] [--only TEXT]``.

It builds the wheel and the sdist, asks whether they agree, and installs the wheel into empty environments
of many kinds (``environments.py`` derives them from ``pyproject.toml``), where it runs what users run first.
What mypy and pyright say of a user's file is part of it. Nothing is uploaded: what was built lies in
``--out``, and the last lines say what to do with it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from tests.release.environments import ROOT, Environment, environments, project, version

USES = Path(__file__).with_name("uses")


class Refused(Exception):
    """What is built must not be released."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check and say what happened; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where both files go (default dist/)")
    parser.add_argument("--only", default="", help="only environments whose name holds this text")
    parser.add_argument("--list", action="store_true", help="say which environments there are, and end")
    chosen = parser.parse_args(arguments)
    asked = [one for one in environments() if chosen.only in one.name]
    if chosen.list:
        print("\n".join(f"{one.name:40} {one.asks}" for one in asked))
        return 0
    try:
        check_notes()
        wheel, sdist = built(chosen.out)
        check_contents(wheel, sdist)
    except Refused as reason:
        print(f"no release: {reason}", file=sys.stderr)
        return 1
    failed = [one.name for one in asked if not passes(one, wheel)]
    if failed:
        print(f"no release: {len(failed)} of {len(asked)} environments failed: {', '.join(failed)}",
              file=sys.stderr)
        return 1
    print(f"deltanb {version()} works in {len(asked)} environments\n{wheel}\n{sdist}\n"
          f"next: git tag v{version()}, and give both files to the index (twine upload)")
    return 0


def check_notes() -> None:
    """The changelog's newest section is of this version, and git has all that is built.

    Raises:
        Refused: it is not.
    """
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    newest = next((line[3:] for line in lines if line.startswith("## ")), "")
    if newest.partition(" ")[0] != version():
        raise Refused(f"the first section of CHANGELOG.md is {newest!r}, the version in deltanb/_version.py "
                      f"{version()}: name the section after the version, or raise the version")
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True)
    if changed.returncode == 0 and changed.stdout:
        raise Refused(f"there are files that are not committed:\n{changed.stdout}")


def built(out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, made anew in a folder."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    out.mkdir(parents=True, exist_ok=True)
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(out), versions=["standard"])
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(out), versions=["standard"])
    return Path(wheel), Path(sdist)


def check_contents(wheel: Path, sdist: Path) -> None:
    """The sdist makes the same wheel, and neither has what stands for nobody.

    Raises:
        Refused: they differ.
    """
    from hatchling.builders.wheel import WheelBuilder

    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        (again,) = WheelBuilder(str(source)).build(directory=folder, versions=["standard"])
        with ZipFile(wheel) as one, ZipFile(again) as other:
            names, others = set(one.namelist()), set(other.namelist())
    if names != others:
        raise Refused(f"the sdist makes another wheel: {sorted(names ^ others)[:5]}")
    stray = [name for name in names if name.endswith((".pyc", ".orig", ".log")) or "__pycache__" in name]
    if stray:
        raise Refused(f"the wheel has {stray[:5]}")


def passes(environment: Environment, wheel: Path) -> bool:
    """Install the wheel into an environment of its own and run what is to run there."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="deltanb-release-") as folder:
        try:
            versions = environment.run(wheel, Path(folder), USES)
        except subprocess.CalledProcessError as error:
            print(f"FAILED  {environment.name}\n{error.stdout or ''}{error.stderr or ''}", flush=True)
            return False
    print(f"ok      {environment.name:40} {time.monotonic() - begun:5.0f} s  {versions}", flush=True)
    return True


if __name__ == "__main__":
    assert project()["name"] == "deltanb"
    sys.exit(main())
