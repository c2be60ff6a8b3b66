"""The files of a log in a bucket, as the listings of one piece of work saw them.

Lives here: :class:`ListedFiles`, a store that fetches no listed file a second time. What a listing showed is
known by its tag, so content from before is served only where it is what the bucket has now, and only to
somebody who could list it now.

Does not know: what a log file says, and how contents are kept (``store/recent``, ``store/disk_cache``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import MAX_SMALL, MAX_WAITING
from deltanb.log.checkpoint.names import SIDECAR_FOLDER
from deltanb.store.disk_cache import disk_cache
from deltanb.store.recent import ObjectKey, recent

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.store.base import FileStatus

__all__ = ["ListedFiles"]

WHOLE = 1 << 20
"""Bytes up to which a file that Arrow reads is fetched as a whole, as one request brings that much anyway."""


class ListedFiles:
    """A store in a bucket; whatever is no listing and no read of a log file is that store's own.

    It is made for one piece of work, such as loading a version, and belongs to what that has opened. Where
    the options name a cache on the disk, larger files are fetched as a whole, into it.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._listed: dict[str, FileStatus] = {}
        self._has_sidecars = False
        self._disk = disk_cache()
        self._place = store.place_of_content
        self._checked: set[str] = set()
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._store, name)

    def __repr__(self) -> str:
        return repr(self._store)

    def only(self, names: Iterable[str]) -> ListedFiles:
        """The same of some files and all sidecars: what keeps it, as a snapshot does its checkpoint, keeps no
        long listing."""
        some = ListedFiles(self._store)
        some._disk, some._has_sidecars = self._disk, self._has_sidecars
        some._listed = {name: self._listed[name] for name in names if name in self._listed}
        some._listed.update((name, status) for name, status in self._listed.items()
                            if name.startswith(SIDECAR_FOLDER))
        return some

    # -- listing --------------------------------------------------------------------------------

    def list_from(self, name: str, *, until: str = "") -> list[FileStatus]:
        """As the store's; the identities of the files are remembered."""
        below: list[FileStatus] | None = None if self._disk is None else []
        statuses: list[FileStatus] = self._store.list_from(name, until=until, below=below)
        self._listed.update((status.name, status) for status in statuses)
        if below is not None and not until:
            self._note_sidecars(below)
        return statuses

    def list_names(self, name: str) -> list[str]:
        """As the store's."""
        return [status.name for status in self.list_from(name)]

    def _note_sidecars(self, statuses: Iterable[FileStatus]) -> None:
        self._listed.update((one.name, one) for one in statuses if one.name.startswith(SIDECAR_FOLDER))
        self._has_sidecars = True

    def _status(self, name: str) -> FileStatus | None:
        """What a listing says of a file; sidecars are listed where the listing has ended before them."""
        if self._disk is not None and name.startswith(SIDECAR_FOLDER):
            with self._lock:
                if not self._has_sidecars:
                    self._note_sidecars(self._store.list_from(SIDECAR_FOLDER))
        return self._listed.get(name)

    # -- reading --------------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """The content: from before, where it is what was listed, else fetched."""
        data = self._known(name)
        return self._fetched(name) if data is None else data

    def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of several, in their order; None for one that is not there. Those that have to be
        fetched are fetched many at a time."""
        names = list(names)
        known = {name: data for name in names if (data := self._known(name)) is not None}
        missing = [name for name in names if name not in known]
        fetched = parallel.each(self._fetched_or_none, missing, self.at_once(missing), "bucket")
        for name in names:
            yield known.pop(name) if name in known else next(fetched)

    def at_once(self, names: Iterable[str]) -> int:
        """How many files are asked for at a time: of large ones fewer, which would fill memory."""
        sizes = [self._listed[name].size for name in names if name in self._listed]
        return MAX_SMALL if max(sizes, default=0) <= WHOLE else MAX_WAITING

    def open_input(self, name: str) -> pa.NativeFile:
        """As the store's; a small file as a whole."""
        file = self._opened(name)
        return self._store.open_input(name) if file is None else file

    def open_ahead(self, name: str, ahead: int) -> pa.NativeFile:
        """As :meth:`open_input`; of a larger file, so many bytes of the end come with the first request."""
        file = self._opened(name)
        return self._store.open_ahead(name, ahead) if file is None else file

    def _opened(self, name: str) -> Any:
        """A file that is small, or in the cache on the disk by now; None for another one."""
        key = self._key(self._status(name))
        if key is None:
            return None
        if key.size <= WHOLE:
            import pyarrow as pa

            return pa.BufferReader(self.read(name))
        return self._on_disk(key)

    def _on_disk(self, key: ObjectKey) -> Any:
        """A larger file in the cache on the disk, which it is fetched into; None where it cannot be."""
        if self._disk is None:
            return None
        entry = self._disk.open(key, is_checked=key.name in self._checked)
        if entry is None and self._disk.fetch(key, lambda start, stop: self._block(key, start, stop)):
            entry = self._disk.open(key, is_checked=True)
        if entry is None:
            return None
        import pyarrow as pa

        self._checked.add(key.name)
        return pa.PythonFile(entry, mode="r")

    # -- contents from before -------------------------------------------------------------------

    def _key(self, status: FileStatus | None) -> ObjectKey | None:
        """What identifies a listed file; None where no listing has shown it, or the bucket has no tags."""
        if status is None or not status.tag:
            return None
        return ObjectKey(self._place, status.name, status.tag, status.size)

    def _known(self, name: str) -> bytes | None:
        key = self._key(self._status(name))
        if key is None:
            return None
        data = recent.content(key)
        if data is None and self._disk is not None and (data := self._disk.content(key)) is not None:
            recent.keep(key, data)
        return data

    def _fetched(self, name: str) -> bytes:
        data, status = self._store.fetch(name)
        key = self._key(status)
        if key is not None and len(data) == status.size:
            recent.keep(key, data)
            if self._disk is not None:
                self._disk.keep(key, data)
        return bytes(data)

    def _fetched_or_none(self, name: str) -> bytes | None:
        try:
            return self._fetched(name)
        except FileNotFoundError:
            return None

    def _block(self, key: ObjectKey, start: int, stop: int) -> bytes | None:
        data, status = self._store.fetch(key.name, (start, stop))
        return bytes(data) if self._key(status) == key else None
