"""The permit of a write by tasks: an empty file of the driver's; while it stands, what they write may stay.

What lives here: :func:`granted`, :func:`grant`, :func:`open_permits` and :func:`withdraw` for drivers, and
:func:`check` for tasks.
What it does not know: which files a write has, who writes them and who removes them.

A job that fails tells its other tasks to end and does not wait for them, so that one may finish a file after
the driver has removed all that it found. Therefore a task first makes its files whole and then looks for the
permit; the driver first withdraws the permit and then looks for files. A file that was whole before the
permit went is found by the driver. Of any other the task sees that there is no permit, and removes it.

A task that is killed between the two leaves its files, and a driver that is killed the permit. VACUUM removes
both: the permit has the name of a temporary file, which readers of the folder overlook.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from deltanb.errors import IllegalStateError
from deltanb.store.base import LogStore

__all__ = ["check", "grant", "granted", "open_permits", "permit_of", "withdraw"]


def permit_of(write: str) -> str:
    """The name of a write's permit; also known to InPlaceCommitter.java.

    >>> from deltanb.store.local import is_temporary
    >>> permit_of("part-0123456789abcdef"), is_temporary(permit_of("part-0123456789abcdef"))
    ('.part.0123456789abcdef.tmp', True)
    """
    return f".{write.replace('-', '.')}.tmp"


@contextmanager
def granted(store: LogStore, write: str) -> Iterator[None]:
    """While tasks write: their permit stands; when this ends, well or not, it is gone."""
    grant(store, write)
    try:
        yield
    finally:
        withdraw(store, write)


def grant(store: LogStore, write: str) -> None:
    """Before the first task begins.

    Raises:
        StorageError: nothing can be written there.
    """
    store.put(permit_of(write), b"")


def withdraw(store: LogStore, write: str) -> None:
    """Before anybody looks for the files; a permit that cannot be removed now is left for VACUUM."""
    with suppress(OSError):
        store.delete(permit_of(write))


def open_permits(store: LogStore, beginning: str) -> list[str]:
    """The writes whose names begin so and whose permits stand; where they cannot be listed, none."""
    first = permit_of(beginning).removesuffix(".tmp")
    with suppress(OSError):
        return [name[1:].removesuffix(".tmp").replace(".", "-") for name in store.list_names(first)
                if name.startswith(first)]
    return []


def check(store: LogStore, write: str) -> None:
    """Once the files of a task are whole.

    Raises:
        IllegalStateError: there is no permit any more; the files have to go.
        StorageError: nobody can tell; the same.
    """
    if store.status(permit_of(write)) is None:
        raise IllegalStateError(
            f"the write {write} to {store.root} has ended, and a task of it was still at work: Spark had "
            "given the task up, or the write had failed elsewhere, or VACUUM ran with a retention shorter "
            "than the write. The files of the task are gone. If the whole write has failed by this, write "
            "again, and keep VACUUM's retention longer than any write takes", path=store.root)
