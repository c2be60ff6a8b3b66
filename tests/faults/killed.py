"""Commands run in processes that are killed: a server that forks one for each request.

Started as ``python -m tests.faults.killed MODULE``, whose ``run_struck`` runs a command; a request is a line
of JSON on standard input, its answer a line on standard output: how the child ended. The server runs nothing
itself and so has no threads to fork beside.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from deltanb.options import set_options
from tests.faults.disk import Strike

ROOT = Path(__file__).resolve().parents[2]


class Killer:
    """The server as its clients see it; close it by leaving the ``with`` block."""

    def __init__(self, module: str = "tests.faults.trial") -> None:
        self.module = module

    def __enter__(self) -> Killer:
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.killed", self.module], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.server.communicate()

    def run(self, command: str, folder: Path, strike: Strike) -> int:
        """Run a command in a process of its own; the process's exit code, negative for a signal."""
        assert self.server.stdin is not None and self.server.stdout is not None
        request = [command, str(folder), strike.place, strike.moment, strike.fault]
        print(json.dumps(request), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())


def load_everything() -> None:
    """Import what a command may import, once, for all children."""
    for package in ("log", "transaction", "engines.arrow", "commands", "commands.define", "commands.rows"):
        package_module = importlib.import_module(f"deltanb.{package}")
        for module in pkgutil.iter_modules(package_module.__path__):
            importlib.import_module(f"{package_module.__name__}.{module.name}")


def serve() -> None:
    """Answer requests until there are none."""
    run_struck = importlib.import_module(sys.argv[1]).run_struck
    load_everything()
    set_options(checkpoints="inline")  # a command's operations are those of its own thread
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        command, folder, *strike = json.loads(line)
        child = os.fork()
        if child == 0:
            end(partial(run_struck, command, Path(folder), Strike(*strike)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def end(work: Any) -> None:
    """Do the work and end the process; whatever it raised is told on standard error."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    serve()
