"""DuckDB as a reader and writer of Delta tables: its package and its extension, and a session with both.

The extension is a download of DuckDB's own, or a package beside that of DuckDB; there is none for each
version. So both packages are installed, once, into the user's cache folder, and run in a process of their own
(``duckdb_server.py``). Where they cannot be had, :class:`Unavailable` says why and the tests skip.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from tests.peers.delta_spark import PeerError, Unavailable
from tests.peers.maven import alone, cache_folder, run

VERSION = "1.5.5"
"""Of DuckDB and of its extension: the newest that there are packages of both of."""
FETCH_SECONDS = 240
PIP = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target")


def packages() -> Path:
    """The folder of both packages, from the cache or installed into it.

    Raises:
        Unavailable: they are not to be had; the message says why.
    """
    folder = cache_folder() / f"duckdb-delta-{VERSION}" / sys.implementation.cache_tag
    with alone("duckdb-delta"):
        if not (folder / "complete").exists():
            try:
                done = run([*PIP, str(folder), f"duckdb=={VERSION}", f"duckdb-extension-delta=={VERSION}"],
                           timeout=FETCH_SECONDS)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"DuckDB's extension did not come within {FETCH_SECONDS} s") from None
            if done.returncode:
                raise Unavailable(f"DuckDB's extension cannot be installed: {done.stdout.strip()[-300:]}")
            (folder / "complete").touch()
    return folder


class DuckDB:
    """A session of DuckDB that knows Delta tables."""

    def __init__(self) -> None:
        server = Path(__file__).with_name("duckdb_server.py")
        self.process = subprocess.Popen([sys.executable, str(server), str(packages())], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._answer()["version"] == VERSION

    def sql(self, text: str) -> pa.Table:
        """Run a statement; its rows.

        Raises:
            PeerError: DuckDB refuses it.
        """
        assert self.process.stdin is not None
        print(json.dumps(text), file=self.process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise PeerError(answer["error"], None, answer["message"])
        return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Unavailable("the process of DuckDB ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> DuckDB:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
