"""Where the programs of a PostgreSQL server are, on a machine that has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ELSEWHERE = "/usr/lib/postgresql"  # Debian has a folder for each version there, and none of them on PATH


def initdb() -> Path | None:
    """The program that makes a server's folder; the others lie beside it."""
    folders = [os.environ.get("PATH", ""), *sorted(map(str, Path(ELSEWHERE).glob("*/bin")), reverse=True)]
    found = shutil.which("initdb", path=os.pathsep.join(folders))
    return None if found is None else Path(found).resolve()
