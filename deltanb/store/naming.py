"""How a file that is on the disk under a hidden name gets its own, if that is free.

What lives here: :func:`hard_link`, and for systems and file systems without hard links :func:`take`, which
knows three other ways.
What it does not know: what the files mean, and what a writer does when the name is taken.

===========  ==============================  ====================================  ===========================
way          where                           a reader sees                         a writer that is killed
===========  ==============================  ====================================  ===========================
`RENAMED`    the system renames only to      the whole file                        leaves a hidden file
             a free name
`LOOKED`     nobody else is there: Pyodide   the whole file                        leaves a hidden file
`CLAIMED`    everywhere else                 an empty file for a moment, then      may leave an empty file,
                                             the whole                             which is to be removed
===========  ==============================  ====================================  ===========================

In each of them one writer wins. Of `LOOKED` that is so because nothing comes between the look and the
rename: a process of Pyodide has one thread, which is given on at turns of a race and nowhere else, and its
files in memory are its own. Where a folder of the host is mounted, or browser tabs share their storage,
Pyodide makes even ``O_EXCL`` of a look and a creation. So there is no exclusive put between processes at all,
and one of them writes to a table.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any, Literal

__all__ = ["CLAIMED", "LOOKED", "NO_HARD_LINKS", "RENAMED", "Way", "hard_link", "take"]

Way = Literal["renamed", "looked", "claimed"]
RENAMED: Way = "renamed"
LOOKED: Way = "looked"
CLAIMED: Way = "claimed"

WORDS: dict[Way, str] = {
    RENAMED: "files get their names by a rename that replaces nothing",
    LOOKED: "files get their names by a look and a rename, which is safe while one process writes",
    CLAIMED: "a name is claimed by an empty file, which the whole one replaces: a reader may see it empty, "
             "and a writer that is killed leaves it so",
}

NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What link() answers on file systems without hard links (FAT, some network and FUSE mounts)."""
_NO_SUCH_RENAME = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

is_alone = sys.platform == "emscripten"
"""Whether no other process has files in common with this one."""

_looking = threading.Lock()


def hard_link(source: str, target: str, **how: Any) -> None:
    """:func:`os.link`, or ENOSYS where Python has none."""
    link = getattr(os, "link", None)
    if link is None:
        raise OSError(errno.ENOSYS, "there are no hard links", target)
    link(source, target, **how)


def take(source: str, target: str) -> tuple[bool, Way]:
    """Rename a file, if the name is free: whether it was, and the way that led there.

    Raises:
        OSError: it has not been renamed.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("a", "b"):
    ...     _ = Path(folder, name).write_text(name)
    >>> take(f"{folder}/a", f"{folder}/new")[0], take(f"{folder}/b", f"{folder}/new")[0]
    (True, False)
    """
    if is_alone:
        with _looking:
            if os.path.lexists(target):
                return False, LOOKED
            os.replace(source, target)
            return True, LOOKED
    is_free = _renamed(source, target)
    if is_free is not None:
        return is_free, RENAMED
    return _claimed(source, target), CLAIMED


def _claimed(source: str, target: str) -> bool:
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    try:
        os.replace(source, target)
    except BaseException:
        with suppress(OSError):
            if os.stat(target).st_size == 0:  # not replaced: an empty commit would stop every reader
                os.unlink(target)
        raise
    return True


def _renamed(source: str, target: str) -> bool | None:
    """Whether a rename that replaces nothing was made; None where there is no such call."""
    try:
        if sys.platform == "win32":
            os.rename(source, target)
            return True
        call = _call()
        if call is None:
            return None
        code = call(os.fsencode(source), os.fsencode(target))
    except FileExistsError:
        return False
    if code in _NO_SUCH_RENAME:
        return None
    if code == errno.EEXIST:
        return False
    if code:
        raise OSError(code, os.strerror(code), target)
    return True


@cache
def _call() -> Any:
    """The system's rename that replaces nothing; it returns an error's number, or 0."""
    try:
        import ctypes

        system = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            exclusive = 4  # RENAME_EXCL
            rename, before, between = system.renamex_np, (), ()
        else:
            here, exclusive = -100, 1  # AT_FDCWD, RENAME_NOREPLACE
            rename, before, between = system.renameat2, (here,), (here,)
    except (ImportError, OSError, AttributeError, TypeError):
        return None

    def call(source: bytes, target: bytes) -> int:
        done = rename(*before, source, *between, target, exclusive)
        return 0 if done == 0 else ctypes.get_errno()

    return call
