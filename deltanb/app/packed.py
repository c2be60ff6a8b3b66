"""The library as a wheel, packed from the files that run: nothing is built, and no build tool is needed.

What lives here: :func:`pack`.
What it does not know: who unpacks it. Its dependencies are not named in it, since in a browser others stand
in for them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import deltanb
from deltanb._version import __version__

LEFT_OUT = {"__pycache__", "tutorials"}
"""Folders of the package that a browser has no use for: the tutorials lie beside it there."""


def pack(folder: Path) -> Path:
    """Write the wheel into a folder.

    >>> import tempfile
    >>> wheel = pack(Path(tempfile.mkdtemp()))
    >>> "deltanb/errors.py" in zipfile.ZipFile(wheel).namelist()
    True
    """
    root = Path(deltanb.__file__).parent
    info = f"deltanb-{__version__}.dist-info"
    wheel = folder / f"deltanb-{__version__}-py3-none-any.whl"
    files = [path for path in sorted(root.rglob("*"))
             if path.is_file() and not LEFT_OUT & set(path.relative_to(root).parts)]
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: deltanb\nVersion: {__version__}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: deltanb\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    names = [f"deltanb/{path.relative_to(root).as_posix()}" for path in files]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in zip(names, files, strict=True):
            packed.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        for name, text in texts.items():
            packed.writestr(zipfile.ZipInfo(name), text)
        record = "".join(f"{name},,\n" for name in (*names, *texts, f"{info}/RECORD"))
        packed.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record)
    return wheel
