"""Where nothing may be written: work that is tried, on copies in memory, leaves all else as it is.

What lives here: :func:`check_writable`, which whatever writes calls before; and :data:`refusing`, by which
somebody refuses that for a while.
What it does not know: what is tried, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

refusing: ContextVar[Callable[[str], BaseException] | None] = ContextVar("refusing", default=None)
"""Where nothing may be written: makes the exception that says so, of the place that would be."""


def check_writable(place: str) -> None:
    """Refuse to write to a place where nothing may be written.

    >>> check_writable("/lake/flights")  # here all may be
    >>> token = refusing.set(lambda place: PermissionError(f"{place} may only be read"))
    >>> check_writable("/lake/flights")
    Traceback (most recent call last):
        ...
    PermissionError: /lake/flights may only be read
    >>> refusing.reset(token)
    """
    if (refuse := refusing.get()) is not None:
        raise refuse(place)


@contextmanager
def writing() -> Iterator[None]:
    """A block in which all may be written again: what is done in it is not what is tried.

    >>> token = refusing.set(lambda place: PermissionError(f"{place} may only be read"))
    >>> with writing():
    ...     check_writable("/lake/flights")
    >>> refusing.reset(token)
    """
    token = refusing.set(None)
    try:
        yield
    finally:
        refusing.reset(token)
