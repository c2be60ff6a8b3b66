"""Requests to a bucket: asked by obstore, again where an answer breaks off, and with errors of this library.

What lives here: :class:`Bucket`, one method for each kind of request, by key; and the refusal of a service
that does not know conditional puts. Where a catalog vends the credentials, a request has those for what it
does, and is made once more where a service refuses them and the catalog has others.
What it does not know: tables, names below a table's root, Arrow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from deltanb.concurrency import parallel
from deltanb.concurrency.parallel import MAX_WAITING
from deltanb.errors import DeltaError, StorageError
from deltanb.store.answers import answer_of, is_no_bucket, storage_error
from deltanb.store.clients import check_options, client_of
from deltanb.store.storage_options import Access
from deltanb.store.upload import Upload
from deltanb.store.uris import Location
from deltanb.store.vending import READ, READ_WRITE, Credential, Vending, vending_of
from deltanb.text.safe_text import safe

__all__ = ["Bucket", "ListedObject"]

MAX_READS = 3
"""Times that something is read whose answer breaks off; obstore repeats what was not answered at all."""
PAUSE = 0.05
"""Seconds before it is read again, and twice that before the third time."""
_DELETED_AT_ONCE = 1000  # S3's bound
_PAGE = 1000
_PARTS = 4  # on their way at a time, of each file that is written; each is held in memory meanwhile

_R = TypeVar("_R")
_proven: set[tuple[str, str]] = set()
"""Buckets of services that are not the makers' own and were seen to refuse a second put."""


class ListedObject(NamedTuple):
    """An object: key, size in bytes, time in epoch milliseconds, and a tag that changes with its content."""

    key: str
    size: int
    time: int
    tag: str

    @classmethod
    def of(cls, meta: Any) -> ListedObject:
        """From obstore's. A listing tells parts of seconds that the headers of an object do not: they go."""
        return cls(meta["path"], meta["size"], int(meta["last_modified"].timestamp()) * 1000, _tag(meta))


class Bucket:
    """The bucket that a location is in. ``place`` is named in errors."""

    def __init__(self, place: Location, access: Access) -> None:
        self.place, self.access = place, access
        check_options(place, access)
        self._vending = vending_of(access.vending)  # as long as there is this bucket

    def prepare_writing(self) -> None:
        """Have what a write needs before it is begun.

        Raises:
            DeltaError: the catalog that vends the credentials refuses those for writes.
        """
        if (vending := self._vended()) is not None:
            vending.credential(READ_WRITE)

    def _vended(self) -> Vending | None:
        if self._vending is None:
            self._vending = self.access.vended()
        return self._vending

    def _ask(self, work: Callable[[Any], _R], operation: str = READ, *, once: bool = False) -> _R:
        """What obstore's client answers to a request, or to a second one with other credentials, where the
        service refuses those that a catalog had vended.

        With ``once`` there is no second one where the first may have been done.
        """
        vending = self._vended()
        if vending is None:
            return work(client_of(self.place, self.access))
        used = vending.credential(operation)
        try:
            return work(client_of(self.place, self.access, used))
        except DeltaError:
            raise
        except Exception as error:
            refused = error
        answer = answer_of(refused)
        if not answer.is_denial or (once and not answer.is_refusal) \
                or not vending.renew(used, operation, is_expired=answer.is_expired):
            raise refused
        return work(client_of(self.place, self.access, vending.credential(operation)))

    # -- reading --------------------------------------------------------------------------------

    def head(self, key: str) -> ListedObject:
        """What is known of an object; FileNotFoundError where there is none."""
        import obstore

        return ListedObject.of(self._again("read", key, lambda client: obstore.head(client, key)))

    def get(self, key: str, some: tuple[int, int] | None = None) -> tuple[bytes, ListedObject]:
        """The content of an object, or ``some`` of its bytes, and what is known of it."""
        import obstore

        def asked(client: Any) -> tuple[bytes, ListedObject]:
            response = obstore.get(client, key, options=None if some is None else {"range": some})
            return bytes(response.bytes()), ListedObject.of(response.meta)

        return self._again("read", key, asked)

    def get_range(self, key: str, start: int, stop: int) -> memoryview:
        """Some of the bytes of an object."""
        import obstore

        return self._again("read", key, lambda client: memoryview(
            obstore.get_range(client, key, start=start, end=stop)))

    def get_part(self, key: str, start: int, stop: int) -> memoryview:
        """As :meth:`get_range`, of an object that may end before: then fewer, or none."""
        try:
            return self.get_range(key, start, stop)
        except StorageError:
            with suppress(StorageError):
                if self.head(key).size <= start:  # no such range: services say that in many ways
                    return memoryview(b"")
            raise

    def get_end(self, key: str, ahead: int) -> tuple[int, memoryview]:
        """(size, the last bytes) of an object: ``ahead`` of them, or all."""
        import obstore

        if self.place.kind == "az":  # knows no ranges that count from the end
            size = self.head(key).size
            return size, self.get_range(key, max(0, size - ahead), size) if size else memoryview(b"")

        def asked(client: Any) -> tuple[int, memoryview]:
            try:
                response = obstore.get(client, key, options={"range": {"suffix": ahead}})
                return response.meta["size"], memoryview(response.bytes())
            except Exception as error:
                answer = answer_of(error)
                if answer.status != 416 and "non-partial" not in answer.text:
                    raise
            whole = memoryview(obstore.get(client, key).bytes())  # an empty one has no range
            return len(whole), whole

        return self._again("read", key, asked)

    def listing(self, prefix: str, behind: str | None = None, until: str = "") -> Iterator[ListedObject]:
        """The objects below a prefix, those in folders too, in the order of keys, as all services list them.

        They are behind a key, and those from another one on are not asked for. Where an answer breaks off the
        listing goes on behind the last object that it had.
        """
        import obstore

        pages: Any = None
        failed = None

        def next_page(client: Any) -> Any:
            nonlocal pages
            try:
                if pages is None:
                    pages = iter(obstore.list(client, prefix or None, offset=behind, chunk_size=_PAGE))
                return next(pages, None)
            except Exception:
                pages = None
                raise

        while True:
            try:
                page = self._ask(next_page)
            except Exception as error:
                failed = (failed or 0) + 1
                if failed == MAX_READS or not answer_of(error).is_cut:
                    raise self._storage_error(error, "listed", prefix) from None
                time.sleep(PAUSE * failed)
                continue
            if page is None:
                return
            for meta in page:
                behind, failed = meta["path"], None
                if until and behind >= until:
                    return
                yield ListedObject.of(meta)

    def folder(self, prefix: str) -> list[ListedObject]:
        """The objects below a prefix, without those in folders."""
        import obstore

        return list(map(ListedObject.of, self._again(
            "listed", prefix, lambda client: obstore.list_with_delimiter(client, prefix or None)["objects"])))

    # -- writing --------------------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> None:
        """Create or replace an object."""
        import obstore

        with self.answering("written", key):
            self._ask(lambda client: obstore.put(client, key, data, use_multipart=False), READ_WRITE)

    def writer(self, key: str, part_size: int) -> Any:
        """A multipart upload: ``write(bytes)``, and it is an object from ``close()`` on."""
        import obstore

        def begin(credential: Credential | None = None) -> Any:
            client = client_of(self.place, self.access, credential)
            return obstore.open_writer(client, key, buffer_size=part_size, max_concurrency=_PARTS)

        vending = self._vended()
        if vending is None or not vending.credential(READ_WRITE).values:
            return begin()
        return Upload(vending, begin, part_size)

    def create(self, key: str, data: bytes) -> str | None:
        """Create an object and return its tag; None where there is one, perhaps from this very request.

        Raises:
            StorageError: nothing was written: it was refused.
            OSError: the answer was lost, or the service has failed; it may be there.
        """
        import obstore

        try:
            return _tag(self._ask(lambda client: obstore.put(
                client, key, data, mode="create", use_multipart=False), READ_WRITE, once=True))
        except DeltaError:
            raise
        except Exception as error:
            if type(error).__name__ == "AlreadyExistsError":
                return None
            answer, refusal = answer_of(error), self._error(error, "written", key)
            if answer.is_refusal or answer.status == 501:
                raise refusal from None
            raise OSError(refusal.errno, safe(refusal.message)) from None

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, a thousand at a time where the service takes them so; absent ones are fine."""
        import obstore

        for at in range(0, len(keys), _DELETED_AT_ONCE):
            some = list(keys[at:at + _DELETED_AT_ONCE])

            def asked(client: Any, keys: list[str] = some) -> None:
                obstore.delete(client, keys if len(keys) > 1 else keys[0])

            try:
                self._again("removed", some[0], asked, READ_WRITE)
            except FileNotFoundError:
                if len(some) > 1:  # Azure stops at the first that is not there
                    for _ in parallel.each(lambda key: self.delete([key]), some, MAX_WAITING, "bucket"):
                        pass

    def must_put_conditionally(self, prefix: str) -> None:
        """Refuse a service that lets a second put through: two commits would have one version.

        AWS, Google and Azure do not; whoever serves S3 at another endpoint is tried once, with an object
        below the prefix that logs ignore.

        Raises:
            StorageError: naming the service.
        """
        endpoint = self.access.get("endpoint")
        bucket = endpoint, self.place.bucket
        if self.place.kind != "s3" or not endpoint or ".amazonaws.com" in endpoint or bucket in _proven:
            return
        key = f"{prefix}/" * bool(prefix) + f".conditional-put.{os.urandom(8).hex()}.tmp"
        try:
            self.create(key, b"")
            if self.create(key, b"") is not None:
                raise self._unconditional("ignores", endpoint, None)
        except StorageError as error:
            if error.data.get("status") in (400, 501):
                raise self._unconditional("refuses", endpoint, error.status) from None
            raise
        finally:
            with suppress(OSError, DeltaError):  # logs ignore it, and VACUUM removes it
                self.delete([key])
        _proven.add(bucket)

    def _unconditional(self, does: str, endpoint: str, status: int | None) -> StorageError:
        return StorageError(
            f"{self.place.root} cannot be written: the service at {endpoint} {does} conditional puts "
            "(If-None-Match: *), so that two commits could both become one version. The table can be read; "
            "to write, keep it where such puts are known (AWS S3, Cloudflare R2, MinIO, SeaweedFS)",
            path=self.place.root, bucket=self.place.bucket, status=status)

    # -- errors ---------------------------------------------------------------------------------

    def _again(self, doing: str, key: str, work: Callable[[Any], _R], operation: str = READ) -> _R:
        """What can be done twice without harm, done again where its answer breaks off."""
        for attempt in range(1, MAX_READS):
            try:
                return self._ask(work, operation)
            except DeltaError:
                raise
            except Exception as error:
                if not answer_of(error).is_cut:
                    raise self._storage_error(error, doing, key) from None
            time.sleep(PAUSE * attempt)
        try:
            return self._ask(work, operation)
        except DeltaError:
            raise
        except Exception as error:
            raise self._storage_error(error, doing, key) from None

    def _storage_error(self, error: Exception, doing: str, key: str) -> Exception:
        if isinstance(error, DeltaError):
            return error
        if isinstance(error, FileNotFoundError) and not is_no_bucket(error):
            return FileNotFoundError(f"{self.place.at(key).root} is not there")
        return self._error(error, doing, key)

    @contextmanager
    def answering(self, doing: str, key: str) -> Iterator[None]:
        """A block whose errors become those of this library."""
        try:
            yield
        except DeltaError:
            raise
        except Exception as error:
            raise self._error(error, doing, key) from None

    def _error(self, error: BaseException, doing: str, key: str) -> StorageError:
        return storage_error(error, doing, self.place, key, lacks_secrets=self.access.lacks_secrets,
                             is_vended=self._vending is not None and self._vending.has_values)


def _tag(meta: Any) -> str:
    """What differs wherever the content does; listings and headers quote it or not."""
    return str(meta.get("e_tag") or meta.get("version") or "").strip('"')
