"""Metadata files of Iceberg tables: naming, writing once, reading, and a cache.

What lives here: ``metadata/<version>-<uuid>.metadata.json`` below a table's location. A file never changes
once it is written, so its content can be cached; the most recent ones are, up to a size.
What it does not know: which file is a table's current one, and whether a file belongs to a table.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from deltanb.catalog.iceberg.metadata.draft import completed
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.places import Warehouse
from deltanb.errors import DeltaError, InvalidTable, MetadataFileNotFound, StorageError
from deltanb.store.new_files import names_for
from deltanb.text.damage import reading

__all__ = ["MetadataFile", "MetadataFiles"]

MAX_CACHED = 32 << 20  # bytes of files whose content is cached: some hundred tables of 500 snapshots
MAX_FILE = 512 << 20  # bytes of an unpacked file: no table's metadata is as large
_VERSION = re.compile(r"(\d{1,9})-[^/]*\.metadata\.json(?:\.gz)?$|v(\d{1,9})\.(?:gz\.)?metadata\.json$")


@dataclass(frozen=True)
class MetadataFile:
    """A file to be written: its location and content."""

    location: str
    metadata: Json = field(repr=False)
    data: bytes = field(repr=False)


class MetadataFiles:
    """The metadata files in a warehouse.

    >>> files = MetadataFiles(Warehouse("lake"))
    >>> from deltanb.catalog.iceberg.metadata.document import new_metadata
    >>> table = new_metadata({"type": "struct", "fields": []}, f"{files.warehouse.uri}/t", None, None, {}, 2,
    ...                      "9c12d441-03fe-4693-9a96-a0705ddf69c1", now=0)
    >>> new = files.new(table, None)
    >>> files.write(new)
    >>> MetadataFiles(files.warehouse).read(new.location) == table
    True
    """

    def __init__(self, warehouse: Warehouse, max_cached: int = MAX_CACHED) -> None:
        self.warehouse = warehouse
        self._max_cached = max_cached
        self._cached: OrderedDict[str, tuple[int, Json]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def new(self, metadata: Json, before: str | None) -> MetadataFile:
        """The file for metadata that follows that of the file ``before``; nothing is written yet."""
        match = _VERSION.search(before or "")
        version = int(match[1] or match[2]) + 1 if match else 0
        folder = f"{metadata['location']}/metadata"
        name = next(names_for(self.warehouse.store, lambda drawn: self._name(
            f"{folder}/{version:05}-{drawn}.metadata.json")))
        location = f"{folder}/{name.rpartition('/')[2]}"
        return MetadataFile(location, metadata, msgspec.json.encode(metadata))

    def write(self, file: MetadataFile) -> None:
        """Write a new file atomically.

        Raises:
            StorageError: it cannot be written, or exists already.
        """
        store, name = self.warehouse.store, self._name(file.location)
        try:
            written = store.put_if_absent(name, file.data)
        except OSError as error:
            raise StorageError.of(error, "written", file.location) from error
        # A store that repeats requests can meet its own file.
        if not written and (store.is_final or store.read(name) != file.data):
            raise StorageError(f"{file.location} cannot be written: it already exists", path=file.location)
        self._keep(file.location, file.metadata, len(file.data))

    def read(self, location: str, *, must_exist: bool = False) -> Json:
        """The content of a file, which must not be modified.

        Args:
            must_exist: check that the file still exists, even if its content is cached.

        Raises:
            BadRequest: it is outside of the warehouse.
            MetadataFileNotFound: there is no such file.
            InvalidTable: its content is not a table's metadata.
            UnsupportedProtocol: the table's format is newer than v3.
            StorageError: it cannot be read.
        """
        if must_exist and not self.exists(location):
            self.forget(location)
        with self._lock:
            if location in self._cached:
                self._cached.move_to_end(location)
                return self._cached[location][1]
        try:
            data = self.warehouse.store.read(self._name(location))
        except FileNotFoundError as error:
            raise MetadataFileNotFound(f"there is no metadata file {location}", file=location) from error
        except StorageError as error:
            if self.exists(location):
                raise
            raise InvalidTable(f"{location} is a folder, not a metadata file", file=location) from error
        metadata = _parsed(location, data)
        self._keep(location, metadata, len(data))
        return metadata

    def exists(self, location: str) -> bool:
        """Whether a file exists, regardless of the cache."""
        return self.warehouse.store.status(self._name(location)) is not None

    def remove(self, location: str) -> bool:
        """Remove a file that belongs to no table; whether that worked. Otherwise a sweep removes it."""
        self.forget(location)
        with suppress(DeltaError):
            self.warehouse.store.delete(self._name(location))
            return True
        return False

    def forget(self, location: str) -> None:
        """Drop a file's content from the cache."""
        with self._lock:
            self._size -= self._cached.pop(location, (0,))[0]

    def _keep(self, location: str, metadata: Json, size: int) -> None:
        self.forget(location)
        with self._lock:
            if location not in self._cached and size <= self._max_cached:
                self._cached[location] = (size, metadata)
                self._size += size
            while self._size > self._max_cached:
                self._size -= self._cached.popitem(last=False)[1][0]

    def _name(self, location: str) -> str:
        return self.warehouse.name_of(location, "metadata-location")


def _parsed(location: str, data: bytes) -> Json:
    with reading("the metadata file", location):
        metadata = msgspec.json.decode(_unpacked(location, data))
        if not isinstance(metadata, dict) or not isinstance(metadata.get("location"), str):
            raise InvalidTable(f"{location} is not metadata of an Iceberg table", file=location)
        completed(metadata)
    return metadata


def _unpacked(location: str, data: bytes) -> bytes:
    """The JSON of a file, which may be compressed by gzip whatever its name."""
    if data[:2] != b"\x1f\x8b":
        return data
    unpacker = zlib.decompressobj(wbits=31)
    text = unpacker.decompress(data, MAX_FILE)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise InvalidTable(f"{location} is cut off, or larger than {MAX_FILE >> 20} MB", file=location)
    return text
