"""Jars for tests that run Java: resolved by Maven, once, into its own repository in the user's home."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RESOLVE_SECONDS = 540
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""


class Unavailable(Exception):
    """There is no Java, no Maven, or no jars; the text says which."""


def classpath(artifacts: Iterable[str], folder: Path) -> str:
    """The class path of artifacts, ``group:name:version[:classifier]``, and of all they need.

    Raises:
        Unavailable: it cannot be had; nothing is known to be wrong with what is tested.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not on PATH")
    dependencies = "".join(
        _DEPENDENCY.format(group, name, version, "".join(f"<classifier>{one}</classifier>" for one in rest))
        for group, name, version, *rest in (artifact.split(":") for artifact in artifacts))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(dependencies))
    with alone("maven"):
        done = run(["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath.txt"],
                    cwd=folder, timeout=RESOLVE_SECONDS)
    if done.returncode:
        raise Unavailable(f"Maven cannot resolve the jars: {done.stdout[-500:]}")
    return (folder / "classpath.txt").read_text().strip()


def cache_folder() -> Path:
    """Where the tests keep what they fetch."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "deltanb-tests"


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Hold a lock over processes: two workers that fetch into one folder at once spoil each other's files."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """A process and what it printed, on both streams."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
