"""``deltanb lab``: JupyterLab on a copy of the tutorials.

What lives here: the reader's copy and how a newer version of the library reaches it, and the start of
JupyterLab with defaults of ours.
What it does not know: what the tutorials say.

The tutorials that came with the library are only read. A copy is the reader's: a tutorial whose cells were
changed is never written again, and a newer version is put beside it. To tell which were changed, a small file
in the folder has a digest of the cells of every tutorial that was put there. Running a tutorial changes its
outputs and not its cells, so it counts as unchanged.

The defaults are a folder on Jupyter's path of configurations, ``JUPYTER_CONFIG_PATH``. They go below the
reader's own settings, and nothing is written to those.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from deltanb.errors import InvalidArgument, MissingDependency, StorageError
from deltanb.store.drafts import write_whole
from deltanb.text.safe_text import safe

FIRST_TUTORIAL = "00-tour.ipynb"
TUTORIALS_FOLDER = "deltanb-tutorials"
SETTINGS_FOLDER = Path(__file__).resolve().parent / "lab_settings"
RECORD = ".deltanb-tutorials.json"
"""The file in a folder of tutorials that says what was put there: name -> digest."""


def run(folder: Path | None, rest: list[str]) -> int:
    """Open JupyterLab on a copy of the tutorials; on POSIX this process becomes JupyterLab.

    Args:
        folder: where the copy is, or goes; by default ``./deltanb-tutorials``.
        rest: more options for JupyterLab.

    Raises:
        MissingDependency: JupyterLab is not installed.
        InvalidArgument: ``folder`` is a file, or the folder that the tutorials came in.
        StorageError: ``folder`` cannot be written to.
    """
    if find_spec("jupyterlab") is None:
        raise MissingDependency(
            "JupyterLab is not installed; pip install 'deltanb[lab]'", extra="lab"
        )
    folder = folder or Path(TUTORIALS_FOLDER)
    shipped = shipped_tutorials()
    copied = copy_tutorials(shipped, folder)
    _trust(folder, shipped)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}",
               f"--LabApp.default_url=/lab/tree/{FIRST_TUTORIAL}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # JupyterLab refuses to start for root, who is the only user in many containers.
        command.append("--allow-root")
    command += rest
    for line in (f"the tutorials are in {folder.resolve()}", *copied.lines()):
        print(safe(f"deltanb: {line}"), flush=True)
    if os.name == "posix":
        os.execve(sys.executable, command, _environment())  # signals reach it
    return subprocess.call(command, env=_environment())


def _environment() -> dict[str, str]:
    """This process's own, with the defaults of ours: no question whether JupyterLab may fetch news."""
    paths = [str(SETTINGS_FOLDER), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    return {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths))}


def shipped_tutorials() -> Path:
    """The folder the tutorials came in: in a checkout its own ``notebooks``, else a part of the package."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "notebooks"
    is_checkout = (package.parent / "pyproject.toml").exists() and any(checkout.glob("*.ipynb"))
    return checkout if is_checkout else package / "tutorials"


@dataclass
class Copied:
    """What became of a copy of the tutorials: names of notebooks in its folder."""

    new: list[str] = field(default_factory=list)
    """Put there where nothing was."""
    renewed: list[str] = field(default_factory=list)
    """Replaced by a newer version; the reader had changed none of their cells."""
    unchanged: list[str] = field(default_factory=list)
    """Left as the reader changed them."""
    beside: list[str] = field(default_factory=list)
    """Newer versions of some that were kept, under names of their own."""

    def lines(self) -> Iterator[str]:
        """What is worth saying: nothing where a copy was made, or is as it was."""
        if self.renewed:
            yield f"replaced by newer versions: {', '.join(self.renewed)}"
        if self.unchanged:
            yield f"not updated, because you changed them: {', '.join(self.unchanged)}"
        if self.beside:
            yield f"newer versions lie next to them: {', '.join(self.beside)}"


def copy_tutorials(source: Path, folder: Path) -> Copied:
    """Copy the notebooks of ``source`` into ``folder``; one whose cells were changed there stays as it is.

    Raises:
        InvalidArgument: ``source`` holds no notebooks, or ``folder`` is a file, or ``source`` itself.
        StorageError: ``folder`` cannot be written to.

    >>> import tempfile
    >>> source, target = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> _ = (source / "01-first-commit.ipynb").write_text('{"cells": []}')
    >>> copy_tutorials(source, target).new
    ['01-first-commit.ipynb']
    >>> copy_tutorials(source, target).new
    []
    """
    notebooks = sorted(source.glob("*.ipynb"))
    if not notebooks:
        raise InvalidArgument(f"no tutorials in {source}; install deltanb again")
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"{folder} is a file; name a folder for the tutorials")
    if folder.exists() and folder.samefile(source):
        raise InvalidArgument(
            f"{folder} is the folder that the tutorials come from; name another one for your copy")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _copy(notebooks, folder)
    except OSError as error:
        raise StorageError(
            f"the tutorials cannot be copied to {folder.absolute()} ({error.strerror or error}); name a "
            "folder that you may write to: deltanb lab FOLDER",
            path=str(folder), errno=error.errno) from error


def _copy(notebooks: Iterable[Path], folder: Path) -> Copied:
    record, copied = _record(folder), Copied()
    before = dict(record)
    for notebook in notebooks:
        _bring(notebook.name, notebook.read_bytes(), folder, record, copied)
    if record != before:
        write_whole(folder / RECORD, json.dumps(record, indent=1).encode())
    return copied


def _bring(name: str, content: bytes, folder: Path, record: dict[str, str], copied: Copied) -> None:
    """Put one tutorial into the folder, where that takes nothing from the reader."""
    shipped, present = _digest(content), _digest_of(folder / name)
    if present in (None, record.get(name)):
        if present != shipped:
            write_whole(folder / name, content)
            (copied.new if present is None else copied.renewed).append(name)
    elif present != shipped:
        copied.unchanged.append(name)
        if shipped in (digest for other, digest in record.items() if _is_of(other, name)):
            return  # it is this version that was changed, or it was put beside the changed one
        name = next(other for other in _names_beside(name)
                    if _digest_of(folder / other) in (None, shipped, record.get(other)))
        if _digest_of(folder / name) != shipped:
            write_whole(folder / name, content)
        copied.beside.append(name)
    record[name] = shipped


def _names_beside(name: str) -> Iterator[str]:
    stem = name.removesuffix(".ipynb")
    yield f"{stem}-new.ipynb"
    for number in count(2):
        yield f"{stem}-new-{number}.ipynb"


def _is_of(other: str, name: str) -> bool:
    """Whether a recorded notebook is a tutorial, or a version of it that was put beside it."""
    return other == name or other.startswith(name.removesuffix(".ipynb") + "-new")


def _digest_of(path: Path) -> str | None:
    """The digest of a notebook that is there; None where there is none."""
    try:
        return _digest(path.read_bytes())
    except FileNotFoundError:
        return None


def _digest(content: bytes) -> str:
    """One for the cells of a notebook, whatever their outputs; what is no notebook counts as it is."""
    try:
        cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(content)["cells"]]
        content = json.dumps(cells).encode()
    except (ValueError, TypeError, KeyError):
        pass
    return hashlib.sha256(content).hexdigest()


def _record(folder: Path) -> dict[str, str]:
    """What was put into the folder; where nobody knows, whatever differs counts as changed by the reader."""
    try:
        recorded = json.loads((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def _trust(folder: Path, shipped: Path) -> None:
    """Sign the notebooks that are still as shipped, so that their stored pictures show at once."""
    import nbformat
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()
    contents = {original.read_bytes() for original in shipped.glob("*.ipynb")}
    for copy in folder.glob("*.ipynb"):
        if copy.read_bytes() in contents:
            notary.sign(nbformat.read(copy, as_version=4))
