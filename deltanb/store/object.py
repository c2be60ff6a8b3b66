"""Buckets of object stores as stores: S3, Google Cloud Storage, Azure Storage.

What lives here: :class:`ObjectStore`, the protocol of ``base`` for a place in a bucket.
What it does not know: what the files mean: no name of a log file, no action, no Parquet. URIs, options,
requests and errors are those of its neighbours (``uris``, ``storage_options``, ``bucket``, ``answers``).

A put-if-absent is one request, whose answer can be lost; obstore sends it again and meets its own object.
So ``False`` says that there is an object, and not whose (``is_final``): whoever asks reads it back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import MAX_SMALL
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.bucket import Bucket, ListedObject
from deltanb.store.clients import service_in_environment
from deltanb.store.object_files import AHEAD, Reader, Writer
from deltanb.store.read_only import check_writable
from deltanb.store.recent import ObjectKey, recent
from deltanb.store.storage_options import Access, access_of
from deltanb.store.uris import Location, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["ObjectStore"]

MAX_TAGS = 64
"""Tags that are remembered: of a commit that was just read, nobody need ask for it again."""
_NO_NAMES = ("", ".", "..")


class ObjectStore:
    """A place in a bucket, by its URI.

    Args:
        uri: ``s3://bucket/path`` (also ``s3a``), ``gs://bucket/path``, ``az://container/path``, or
            ``abfss://container@account.dfs.core.windows.net/path``.
        storage_options: how to get there, as deltalake spells it: ``{"aws_region": "eu-west-1"}``, keys, an
            endpoint, timeouts. What is not given comes from the environment (``AWS_ACCESS_KEY_ID``, …), then
            from the role of the machine.

    Credentials are in no repr, error or log line, and not in a pickle either: in another process they come
    from its environment.

    Raises:
        InvalidArgument: not such a URI, or an option that is not known.
        MissingDependency: obstore is not installed.

    >>> store = ObjectStore("s3a://lake//flights/", {"aws_region": "eu-west-1", "aws_session_token": "hush"})
    >>> store, store == ObjectStore("s3://lake/flights", {"REGION": "eu-west-1", "aws_session_token": "hush"})
    (ObjectStore('s3://lake/flights'), True)
    """

    is_partial_write_visible = False
    has_folders = False
    is_final = False
    is_remote = True

    def __init__(self, uri: str, storage_options: Mapping[str, Any] | None = None) -> None:
        place = parse(uri)
        self._begin(place, access_of(place.kind, storage_options).is_for(place))

    def _begin(self, place: Location, access: Access) -> None:
        self.place, self.access, self.root = place, access, place.root
        self.bucket = Bucket(place, access)
        self._tags: OrderedDict[str, tuple[str, int | None]] = OrderedDict()

    @classmethod
    def at(cls, place: Location, access: Access) -> ObjectStore:
        """That of a place, with an access that there is already."""
        made = cls.__new__(cls)
        made._begin(place, access)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).at, (self.place, self.access)

    def __repr__(self) -> str:
        return f"ObjectStore({self.root!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectStore):
            return NotImplemented
        return (self.identity, self.access) == (other.identity, other.access)

    def __hash__(self) -> int:
        return hash((self.identity, self.access))

    @property
    def identity(self) -> str:
        """The same for all URIs and options that name one place, and for no others."""
        service = [self.place.kind, self.access.get("endpoint").rstrip("/"), self.access.get("account_name")]
        return "|".join([*service, self.place.bucket, self.place.key])

    @property
    def place_of_content(self) -> str:
        """As :attr:`identity`, and another one where the environment names another service."""
        return f"{self.identity}|{service_in_environment()}"

    # -- listing --------------------------------------------------------------------------------

    def list_names(self, name: str) -> list[str]:
        """As :meth:`list_from`: a status costs nothing more."""
        return [status.name for status in self.list_from(name)]

    def list_from(
        self, name: str, *, until: str = "", below: list[FileStatus] | None = None
    ) -> list[FileStatus]:
        """By one listing that starts behind what comes before, and ends at ``until``.

        The whole of a folder is listed without the folders in it; a part of it with them, and they go after:
        into ``below``, where somebody wants them, and then the whole of a folder has them, too.
        """
        folder, slash, first = name.rpartition("/")
        prefix = self.place.named(folder).rstrip("/")
        listing: Iterable[ListedObject]
        if first[:-1] in _NO_NAMES:  # nothing that a listing could start behind
            listing = self.bucket.folder(prefix) if below is None else self.bucket.listing(prefix)
        else:
            listing = self.bucket.listing(prefix, self.place.named(folder + slash + first[:-1]),
                                       self.place.named(until) if until else "")
        statuses = []
        for one in map(self._status, listing):
            if one.name >= name and (not until or one.name < until):
                if one.name.rpartition("/")[0] == folder:
                    statuses.append(one)
                elif below is not None:
                    below.append(one)
        statuses.sort(key=lambda one: one.name)
        self._remember((one.name, one.tag, one.modification_time) for one in statuses[-MAX_TAGS:])
        return statuses

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        """In the order of names, a page at a time; without the object by which others make the folder."""
        listing = self.bucket.listing(self.place.named(prefix.rstrip("/")).rstrip("/"))
        return (status for status in map(self._status, listing) if status.name)

    def status(self, name: str) -> FileStatus | None:
        """By one request without a body."""
        try:
            return self._status(self.bucket.head(self._key(name)))
        except FileNotFoundError:
            return None

    def _status(self, item: ListedObject) -> FileStatus:
        name = item.key[len(self.place.key):].lstrip("/") if self.place.key else item.key
        return FileStatus(name, item.size, item.time, item.tag)

    # -- whole objects --------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """By one request."""
        return self.fetch(name)[0]

    def fetch(self, name: str, some: tuple[int, int] | None = None) -> tuple[bytes, FileStatus]:
        """The content, or the bytes from a place to another one, and whose it is, by one request."""
        data, item = self.bucket.get(self._key(name), some)
        self._remember([(name, item.tag, item.time)])
        return data, self._status(item)

    def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """The content of several in their order; None for one that is not there.

        :data:`~deltanb.concurrency.parallel.MAX_SMALL` are asked for at a time: they are small, as files of
        logs and journals are.
        """
        def one(name: str) -> bytes | None:
            try:
                return self.read(name)
            except FileNotFoundError:
                return None

        return parallel.each(one, names, MAX_SMALL, "bucket")

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        """A conditional put. False is an answer about the object that is there: it may be this very put's.

        Raises:
            StorageError: nothing was written: refused, or the service does not know conditional puts.
            OSError: the answer was lost, or the service has failed; it may be there.
        """
        check_writable(f"{self.root}/{name}")
        key = self._key(name)
        self.bucket.must_put_conditionally(self.place.key)
        tag = self.bucket.create(key, data)
        if tag is None:
            return False
        self._remember([(name, tag, None)])
        if tag:  # what is put so is never replaced, and may be read back
            recent.keep(ObjectKey(self.place_of_content, name, tag, len(data)), data)
        return True

    def put(self, name: str, data: bytes) -> None:
        """By one request."""
        check_writable(f"{self.root}/{name}")
        self._tags.pop(name, None)
        self.bucket.put(self._key(name), data)

    def delete(self, name: str) -> None:
        """By one request."""
        self.delete_many([name])

    def delete_many(self, names: Iterable[str]) -> None:
        """A thousand at a time, where the service takes them so.

        Raises:
            StorageError: one of them is there and cannot be removed; others may be gone.
        """
        names = list(names)
        for name in names:
            check_writable(f"{self.root}/{name}")
        for name in names:
            self._tags.pop(name, None)
        self.bucket.delete([self._key(name) for name in names])

    # -- files for Arrow ------------------------------------------------------------------------

    def open_input(self, name: str) -> pa.NativeFile:
        """Read by ranges; the end, or all of a small object, comes with the first request."""
        return self.open_ahead(name, AHEAD)

    def open_ahead(self, name: str, ahead: int) -> pa.NativeFile:
        """As :meth:`open_input`; so many bytes of the end come with the first request."""
        from deltanb.store.arrow_file import opened

        file: pa.NativeFile = opened(Reader(self.bucket, self._key(name), ahead))
        return file

    def read_range(self, name: str, start: int, stop: int) -> memoryview:
        """By one request; fewer bytes where the object ends before."""
        return self.bucket.get_part(self._key(name), start, stop)

    def open_output(self, name: str) -> pa.NativeFile:
        """A multipart upload, or one put where there is less than a part."""
        import pyarrow as pa

        check_writable(f"{self.root}/{name}")
        self.bucket.prepare_writing()
        return pa.PythonFile(Writer(self.bucket, self._key(name)), mode="w")

    # -- places ---------------------------------------------------------------------------------

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """Names outside the table are served from the bucket, with the same access; others by their URI."""
        from deltanb.store.open import elsewhere

        return elsewhere(self, path)

    def sibling(self, address: str) -> ObjectStore | None:
        """A place in the same bucket, by a URI that somebody else wrote; None for another bucket.

        Credentials that a catalog vends are for their own prefix alone: beside it, the user's own count.
        """
        place = parse(address)
        same = (place.kind, place.bucket) == (self.place.kind, self.place.bucket)
        if not same or place.account not in ("", self.access.get("account_name")):
            return None
        place = self.place.at(place.key)
        return self.at(place, self.access.at(place))

    def local_path(self, name: str) -> None:
        """Nowhere on this machine."""
        return None

    # -- helpers --------------------------------------------------------------------------------

    def tag_of(self, name: str) -> str | None:
        """The tag an object had when it was last read, listed or created here; None if that is long ago."""
        known = self._tags.get(name)
        return None if known is None else known[0]

    def time_of(self, name: str) -> int | None:
        """When an object was written (epoch milliseconds) that was read or listed not long ago; None of one
        that was created here: the answer does not say it."""
        known = self._tags.get(name)
        return None if known is None else known[1]

    def _remember(self, tags: Iterable[tuple[str, str, int | None]]) -> None:
        for name, tag, time in tags:
            self._tags.pop(name, None)
            self._tags[name] = tag, time
        while len(self._tags) > MAX_TAGS:
            with suppress(KeyError):  # another thread was first
                self._tags.popitem(last=False)

    def _key(self, name: str) -> str:
        """The whole key.

        Raises:
            FileNotFoundError: no object can have this name.
        """
        if any(part in _NO_NAMES for part in name.split("/")) or "\0" in name:
            raise FileNotFoundError(f"no object of {self.root} can be called {name!r}")
        return self.place.named(name)
