"""Reading what may be damaged: whatever goes wrong with the content of a file names the file.

What lives here: :func:`reading`, in which a file's bytes are decoded. Decoders fail in some thirty ways
on bytes that nobody meant for them (RecursionError, OverflowError, ArrowInvalid, MemoryError for a
length that lies, …); a person needs one: which file it is.
What it does not know: any format, and what else could be read instead.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from deltanb.errors import DeltaError, InvalidTable

__all__ = ["is_of_the_store", "reading", "what_is_wrong"]

MAX_REASON = 200
"""Characters of a decoder's message: some quote what they could not read."""

RESTORE = "Restore it from a backup or a copy of the table"

# Arrow's errors of content are OSErrors without a number; the others come of names that no file can have.
_OF_NAMES = (None, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL)


@contextmanager
def reading(what: str, file: str, root: str = "", way_out: str = RESTORE) -> Iterator[None]:
    """Errors of the content as InvalidTable: "<what> <file> of <root> cannot be read: …".

    Errors of this library's tree and those of the disk or network itself pass as they are.

    >>> with reading("the file", "a.json"):
    ...     int("x")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidTable: the file 'a.json' cannot be read: invalid literal for int() with base 10: \
'x'. Restore it from a backup or a copy of the table
    """
    try:
        yield
    except DeltaError:
        raise
    except Exception as error:
        if is_of_the_store(error):
            raise
        where = f"{what} {file!r}" + (f" of {root}" if root else "")
        raise InvalidTable(
            f"{where} cannot be read: {what_is_wrong(error)}. {way_out}", path=root, file=file,
        ) from error


def is_of_the_store(error: BaseException) -> bool:
    """Whether the disk or network failed, and not the content: Arrow's own OSErrors have no number."""
    if not isinstance(error, OSError):
        return False
    return isinstance(error, FileNotFoundError) or error.errno not in _OF_NAMES


def what_is_wrong(error: BaseException) -> str:
    """An error in one line.

    >>> what_is_wrong(KeyError("add")), what_is_wrong(MemoryError())
    ("KeyError: 'add'", 'reading it would need more memory than is available')
    """
    text = (str(error).splitlines() or [""])[0]
    text = text if len(text) <= MAX_REASON else text[:MAX_REASON] + "…"
    if isinstance(error, MemoryError):
        return f"reading it would need more memory than is available{f' ({text})' if text else ''}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, LookupError | TypeError | AttributeError) or not text:
        return f"{type(error).__name__}{f': {text}' if text else ''}"
    return text
