"""Who writes, where nobody says: the person, the machine and the job, as ``ann@laptop:nightly``.

What lives here: the name of the running process as commits, histories and conflicts show it.
What it does not know: options, commits. ``options.writer_name`` asks here where a person has chosen no name.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import PurePath
from typing import Any

__all__ = ["name_process"]

MAX_PART = 60
"""Characters of the person, the machine and the job each: the name of a file may have 255."""
NOTEBOOK_VARIABLE = "JPY_SESSION_NAME"  # the notebook's path: Jupyter Server sets it for its kernels
NOTEBOOK_NAME = "__vsc_ipynb_file__"  # the same, as a global of the kernel: Visual Studio Code sets it
LIBRARY = __name__.partition(".")[0]
SHELL = "shell"  # the job of this library's own command line: the library is nobody's name


def name_process() -> str:
    """The person, the machine and the job: ``person@machine:job``.

    The job is the notebook's or script's name without its ending, the module of ``python -m``, ``shell`` for
    the command line of this library, and otherwise the program: ``notebook``, ``ipython`` or ``python``.

    >>> person, _, place = name_process().partition("@")
    >>> machine, _, job = place.partition(":")
    >>> "" in (person, machine, job)
    False
    """
    main = sys.modules.get("__main__")
    module = getattr(getattr(main, "__spec__", None), "name", None)
    notebook = os.environ.get(NOTEBOOK_VARIABLE) or getattr(main, NOTEBOOK_NAME, None)
    job = _job(module or "", getattr(main, "__file__", None), notebook)
    return f"{_person()}@{_machine()}:{job or _program()}"


@cache
def _person() -> str:
    from getpass import getuser  # here, since it loads the terminal's modules

    try:
        return _readable(getuser())
    except (KeyError, OSError, ImportError):  # a container's user without a name; a system that has none
        return f"user{os.getuid()}" if hasattr(os, "getuid") else "user"


@cache
def _machine() -> str:
    from socket import gethostname  # here, since most of what is imported never writes

    return _readable(gethostname().partition(".")[0]) or "localhost"


@cache
def _job(module: str, script: str | None, notebook: Any) -> str:
    """The module, script or notebook that runs; empty where there is none, or none that has a name."""
    if module.partition(".")[0] == LIBRARY:
        return SHELL
    if module not in ("", "__main__"):
        return _readable(module.removesuffix(".__main__"))
    if script:
        path = PurePath(script)
        name = _stem(path.parent.name if path.stem == "__main__" else path.name)  # of a folder that is run
        return SHELL if name == LIBRARY else _readable(name)
    return _readable(_stem(str(notebook))) if notebook else ""


def _stem(path: str) -> str:
    return PurePath(path.replace("\\", "/")).stem


def _program() -> str:
    if "ipykernel" in sys.modules:
        return "notebook"
    return "ipython" if "IPython" in sys.modules and hasattr(sys, "ps1") else "python"


def _readable(name: str) -> str:
    """A name as text that can be printed: those of files may be any bytes."""
    return "".join(character if character.isprintable() else "?" for character in name)[:MAX_PART]
