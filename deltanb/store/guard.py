"""Stores of others: what they raise becomes errors of this library that name store, file and cause.

What lives here: :func:`guarded`, through which a log sees a store that somebody else wrote. Whoever opens a
table then has one tree of errors to catch, whatever an SDK raises.
What it does not know: any particular store. Those of this library raise such errors by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError, StorageError
from deltanb.store.base import read_range
from deltanb.text.damage import what_is_wrong
from deltanb.text.safe_text import redacted

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.store.base import FileStatus, LogStore

_OURS = ("deltanb.store.local", "deltanb.store.object", "deltanb.testing")


def guarded(store: LogStore) -> LogStore:
    """The store itself where it is one of this library's, else one that asks it and translates its errors.

    >>> from deltanb.testing import MemoryStore
    >>> store = MemoryStore()
    >>> class Cloud(MemoryStore):
    ...     def read(self, name):
    ...         raise RuntimeError("throttled")
    >>> guarded(store) is store, guarded(Cloud("cloud://lake")).root
    (True, 'cloud://lake')
    >>> guarded(Cloud("cloud://lake")).read("a.json")
    Traceback (most recent call last):
        ...
    deltanb.errors.StorageError: cloud://lake/a.json cannot be read: throttled (RuntimeError in Cloud)
    """
    if isinstance(store, _Guarded) or type(store).__module__ in _OURS:
        return store
    return _Guarded(store)


def unguarded(store: LogStore) -> LogStore:
    """The store as its author made it."""
    return store.inner if isinstance(store, _Guarded) else store


class _Guarded:
    """Equal to the store that it asks; whatever is not a method of a log store is that store's own."""

    root: str
    is_partial_write_visible: bool
    has_folders: bool
    is_final: bool

    def __init__(self, inner: LogStore) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return repr(self.inner)

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == (other.inner if isinstance(other, _Guarded) else other))

    def __hash__(self) -> int:
        return hash(self.inner)

    def list_from(self, name: str, **bounds: Any) -> list[FileStatus]:
        """As the store's; one that hands on what a bucket of ours can do takes its bounds, too."""
        with self._translated("listed", name):
            return self.inner.list_from(name, **bounds)

    def list_names(self, name: str) -> list[str]:
        with self._translated("listed", name):
            return self.inner.list_names(name)

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        with self._translated("listed", prefix):
            files = iter(self.inner.list_all(prefix))
        while True:
            with self._translated("listed", prefix):
                status = next(files, None)
            if status is None:
                return
            yield status  # outside: what the caller raises is the caller's

    def status(self, name: str) -> FileStatus | None:
        with self._translated("read", name):
            return self.inner.status(name)

    def read(self, name: str) -> bytes:
        with self._translated("read", name, passes=FileNotFoundError):
            return self.inner.read(name)

    def open_input(self, name: str) -> pa.NativeFile:
        with self._translated("read", name, passes=FileNotFoundError):
            return self.inner.open_input(name)

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        with self._translated("read", name, passes=FileNotFoundError):
            return read_range(self.inner, name, start, stop)

    def open_output(self, name: str) -> pa.NativeFile:
        with self._translated("written", name, passes=FileExistsError):
            return self.inner.open_output(name)

    def put(self, name: str, data: bytes) -> None:
        with self._translated("written", name):
            self.inner.put(name, data)

    def delete(self, name: str) -> None:
        with self._translated("removed", name):
            self.inner.delete(name)

    def put_if_absent(self, name: str, data: bytes, **settings: bool) -> bool:
        """Never a StorageError of our own: that says nothing was written, which only the store knows."""
        try:
            return self.inner.put_if_absent(name, data, **settings)
        except (DeltaError, OSError):
            raise
        except Exception as error:
            raise OSError(_reason(error, self.inner)) from error

    def resolve(self, path: str) -> tuple[LogStore, str]:
        with self._translated("read", path):
            store, name = self.inner.resolve(path)
        return (self if store is self.inner else guarded(store)), name

    def local_path(self, name: str) -> str | None:
        return self.inner.local_path(name)

    @contextmanager
    def _translated(
        self, doing: str, name: str, passes: type[OSError] | tuple[()] = ()
    ) -> Iterator[None]:
        """A block whose errors become those of this library, but for one kind that says what is at a name."""
        try:
            yield
        except DeltaError:
            raise
        except Exception as error:
            if isinstance(error, passes):
                raise
            path = "/".join(part for part in (self.inner.root.rstrip("/"), name) if part)
            raise StorageError(f"{path} cannot be {doing}: {_reason(error, self.inner)}", path=redacted(path),
                               errno=getattr(error, "errno", None)) from error


def _reason(error: Exception, store: LogStore) -> str:
    words = getattr(error, "strerror", None) or what_is_wrong(error)
    return f"{words} ({type(error).__name__} in {type(store).__name__})"
