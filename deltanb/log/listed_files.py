"""The files of a log in a bucket, as the listings of one piece of work saw them.

Lives here: :class:`ListedFiles`, a store that fetches no listed file a second time. What a listing showed is
known by its tag, so content from before is served only where it is what the bucket has now, and only to
somebody who could list it now.

Does not know: what a log file says, and where contents are kept (``store/recent``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import MAX_WAITING
from deltanb.store.recent import ObjectKey, recent

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.store.base import FileStatus

__all__ = ["ListedFiles"]

WHOLE = 1 << 20
"""Bytes up to which a file that Arrow reads is fetched as a whole, as one request brings that much anyway."""
CHANGING = ("_delta_log/_last_checkpoint",)
"""Files of a log that are replaced."""


class ListedFiles:
    """A store in a bucket; whatever is no listing and no read of a log file is that store's own.

    It is made for one piece of work, such as loading a version, and belongs to what that has opened.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._listed: dict[str, FileStatus] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_store", "_listed"):  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._store, name)

    def __repr__(self) -> str:
        return repr(self._store)

    def only(self, names: Iterable[str]) -> ListedFiles:
        """The same of some files: what keeps it, as a snapshot does its checkpoint, keeps no long listing."""
        some = ListedFiles(self._store)
        some._listed = {name: self._listed[name] for name in names if name in self._listed}
        return some

    # -- listing --------------------------------------------------------------------------------

    def list_from(self, name: str, **settings: Any) -> list[FileStatus]:
        """As the store's; the identities of the files are remembered."""
        statuses: list[FileStatus] = self._store.list_from(name, **settings)
        self._listed.update((status.name, status) for status in statuses)
        return statuses

    def list_names(self, name: str) -> list[str]:
        """As the store's."""
        return [status.name for status in self.list_from(name)]

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
        fetched = parallel.each(self._fetched_or_none, missing, MAX_WAITING, "bucket")
        for name in names:
            yield known.pop(name) if name in known else next(fetched)

    def open_input(self, name: str) -> pa.NativeFile:
        """As the store's; a small file as a whole."""
        status = self._listed.get(name)
        if status is not None and status.tag and status.size <= WHOLE:
            import pyarrow as pa

            return pa.BufferReader(self.read(name))
        file: pa.NativeFile = self._store.open_input(name)
        return file

    def open_ahead(self, name: str, ahead: int) -> pa.NativeFile:
        """As :meth:`open_input`; of a larger file, so many bytes of the end come with the first request."""
        status = self._listed.get(name)
        if status is not None and status.size <= WHOLE:
            return self.open_input(name)
        file: pa.NativeFile = self._store.open_ahead(name, ahead)
        return file

    # -- contents from before -------------------------------------------------------------------

    def _key(self, status: FileStatus | None) -> ObjectKey | None:
        """What identifies a listed file; None where no listing has shown it, or it may change."""
        if status is None or not status.tag or status.name in CHANGING:
            return None
        return ObjectKey(self._store.identity, status.name, status.tag, status.size)

    def _known(self, name: str) -> bytes | None:
        key = self._key(self._listed.get(name))
        return None if key is None else recent.content(key)

    def _fetched(self, name: str) -> bytes:
        data, status = self._store.fetch(name)
        key = self._key(status)
        if key is not None and len(data) == status.size:
            recent.keep(key, data)
        return bytes(data)

    def _fetched_or_none(self, name: str) -> bytes | None:
        try:
            return self._fetched(name)
        except FileNotFoundError:
            return None
