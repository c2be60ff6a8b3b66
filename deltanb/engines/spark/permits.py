"""The permit of a write by tasks: an empty file of the driver; while it exists, tasks may leave files.

What lives here: :func:`granted`, :func:`grant`, :func:`open_permits` and :func:`withdraw` for drivers, and
:func:`check` for tasks.
What it does not know: which files a write has, who writes them and who removes them.

A failed job stops its other tasks without waiting for them, so one may finish a file after the driver has
listed and removed the files. Therefore a task first completes its files and then checks the permit; the
driver first withdraws the permit and then lists files. A file that was complete before the permit was
withdrawn is found by the driver. For any other file, the task sees that the permit is gone, and removes the
file.

A task that is killed in between leaves its files, and a killed driver leaves the permit. VACUUM removes both:
the permit has the name of a temporary file, which readers of the folder ignore.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from deltanb.errors import IllegalStateError
from deltanb.store.base import LogStore

__all__ = ["check", "grant", "granted", "open_permits", "permit_of", "withdraw"]


def permit_of(write: str) -> str:
    """The name of a write's permit; InPlaceCommitter.java uses it, too.

    >>> from deltanb.store.local import is_temporary
    >>> permit_of("part-0123456789abcdef"), is_temporary(permit_of("part-0123456789abcdef"))
    ('.part.0123456789abcdef.tmp', True)
    """
    return f".{write.replace('-', '.')}.tmp"


@contextmanager
def granted(store: LogStore, write: str) -> Iterator[None]:
    """A block in which tasks write: their permit exists until its end, successful or not."""
    grant(store, write)
    try:
        yield
    finally:
        withdraw(store, write)


def grant(store: LogStore, write: str) -> None:
    """Create the permit, before the first task begins.

    Raises:
        StorageError: it cannot be written.
    """
    store.put(permit_of(write), b"")


def withdraw(store: LogStore, write: str) -> None:
    """Remove the permit, before files are listed; one that cannot be removed is left for VACUUM."""
    with suppress(OSError):
        store.delete(permit_of(write))


def open_permits(store: LogStore, beginning: str) -> list[str]:
    """The writes with this prefix whose permits exist; none if they cannot be listed."""
    first = permit_of(beginning).removesuffix(".tmp")
    with suppress(OSError):
        return [name[1:].removesuffix(".tmp").replace(".", "-") for name in store.list_names(first)
                if name.startswith(first)]
    return []


def check(store: LogStore, write: str) -> None:
    """Check the permit, once the files of a task are complete.

    Raises:
        IllegalStateError: the permit is gone; the files have to be removed.
        StorageError: it is unknown; the same.
    """
    if store.status(permit_of(write)) is None:
        raise IllegalStateError(
            f"the write {write} to {store.root} has ended, and a task of it was still at work: Spark had "
            "given the task up, or the write had failed elsewhere, or VACUUM ran with a retention shorter "
            "than the write. The files of the task are gone. If the whole write has failed because of this, "
            "write again, and keep VACUUM's retention longer than any write takes", path=store.root)
