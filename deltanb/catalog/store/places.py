"""A warehouse: the folder that contains all tables of a catalog.

What lives here: which locations are inside it, the location of a new table, and a location's name in the
warehouse's store. A location is stored exactly as its client wrote it; Iceberg's clients decode nothing in
it.
What it does not know: the contents of a location.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

from deltanb.catalog.iceberg.metadata.fields import refuse
from deltanb.catalog.store.contents import first_file, table_around
from deltanb.catalog.store.names import TableName
from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.store.guard import guarded
from deltanb.store.open import beside, store_for
from deltanb.store.paths import address_of, place_of
from deltanb.text.safe_text import shown, without_credentials

__all__ = ["Warehouse"]

MAX_LOCATION = 800  # characters: with the name of a metadata file it still fits the database's column
_ID_LETTERS = 8  # of a table's UUID, in the name of its folder
_MAX_FOLDER = 200  # bytes of a folder's name: file systems take 255
_BEGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/+|/+")


class Warehouse:
    """The folder that contains all tables, given by path, ``file:`` URI, other URI or store.

    >>> lake = Warehouse("lake")
    >>> uri = lake.uri
    >>> lake.name_of(f"{uri}/sales/orders", "location"), uri.startswith("file:///"), uri.endswith("/lake")
    ('sales/orders', True, True)
    >>> lake.name_of("file:///etc", "location")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: location is outside of the warehouse: 'file:///etc'

    Raises:
        InvalidArgument: no store serves it, or it is the root of the file system.
    """

    def __init__(
        self, root: str | os.PathLike[str] | LogStore, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self.store = guarded(store_for(root, storage_options))
        path = self.store.local_path("")
        text = self.store.root if path is None else f"file://{self.store.root}"
        self.uri = text.rstrip("/")
        """As the locations of its tables begin."""
        if not self.uri or self.uri == "file:":
            raise InvalidArgument("a warehouse is a folder below the root of the file system")

    def __repr__(self) -> str:
        return f"Warehouse({self.uri!r})"

    def new_location(self, name: TableName, table_uuid: str) -> str:
        """A new table's folder, which is unique even if an earlier table had its name.

        >>> Warehouse("lake").new_location(TableName.of("a.b.t"), "9c12d441-03fe").rpartition("/lake/")[2]
        'a/b/t-9c12d441'
        """
        parts = (part.encode()[:_MAX_FOLDER] for part in (*name.namespace, name.name))
        folders = [part.decode(errors="ignore") for part in parts]
        return "/".join((self.uri, *folders)) + f"-{table_uuid[:_ID_LETTERS]}"

    def name_of(self, location: str, field: str) -> str:
        """The name of a location in the store.

        Raises:
            BadRequest: it is outside of the warehouse, the warehouse itself, or not a plain path; names
                ``field``.
        """
        if not location.isprintable():
            refuse(field, "has characters that cannot be printed")
        try:
            name = place_of(self.store, location, is_encoded=False).name
        except (InvalidArgument, ValueError):
            name = None
        if not name:
            refuse(field, f"{'is outside of' if name is None else 'is'} the warehouse: {shown(location)}")
        begin = _BEGIN.match(location)
        if begin is None or set(location[begin.end():].split("/")) & {"", ".", ".."}:
            refuse(field, "is not a plain path: it is relative, or has empty parts or dots: "
                          f"{shown(location)}")
        return name

    def store_at(self, location: str) -> LogStore:
        """The store of a place below the warehouse, in a bucket with the warehouse's access.

        Nothing in the location is decoded, as in :meth:`name_of`.
        """
        return store_for(beside(self.store, address_of(location)))

    def table_location(self, location: str, field: str) -> str:
        """A location that is allowed for a table, without slashes at its end.

        Raises:
            BadRequest: see :meth:`name_of`; or its path has a link, or an encoded dot or slash, or is too
            long.
        """
        location = location.rstrip("/")
        if len(location) > MAX_LOCATION:
            refuse(field, f"has more than {MAX_LOCATION} characters")
        name = self.name_of(location, field)
        if without_credentials(location) != location:  # a file's name would be lost behind a question mark
            refuse(field, f"has credentials, or what comes after a path in a URI: {shown(location)}")
        if any(part in (".", "..") or "/" in part for part in map(unquote, name.split("/"))):
            refuse(field, "has percent-encoded dots or slashes, which other clients decode: "
                          f"{shown(location)}")
        self._refuse_links(name, location, field)
        return location

    def _refuse_links(self, name: str, location: str, field: str) -> None:
        """Refuse links, which writes and deletes would follow to another place."""
        root, place = self.store.local_path(""), self.store.local_path(name)
        if root is not None and place is not None and (
                os.path.realpath(place) != os.path.join(os.path.realpath(root), name)):
            refuse(field, f"goes through a link; give the place that it leads to: {shown(location)}")

    def vacant_location(
        self, location: str, field: str, spared: Iterable[str] = (), but: Collection[str] = ()
    ) -> str:
        """A free location: without files below it, and without a table around it.

        Files in ``spared`` folders and those named in ``but`` are allowed.

        Raises:
            BadRequest: see :meth:`table_location`; there is a file, or the folder is in a table's.
        """
        location = self.table_location(location, field)
        name = self.name_of(location, field)
        around = table_around(self.store, name)
        if around is not None:
            refuse(field, f"lies in the folder of another table, {around or self.uri}: {shown(location)}")
        paths = accumulate(name.split("/"), "{}/{}".format) if self.store.has_folders else [name]
        file = next((one for one in paths if self.store.status(one) is not None), None)
        if file is not None:
            refuse(field, f"is not a folder, {file} is a file: {shown(location)}")
        names = [place_of(self.store, place, is_encoded=False).name for place in spared]
        file = first_file(self.store, name, filter(None, names), but)
        if file is not None:
            refuse(field, f"is not empty, and a table's folder is its own: {shown(location)} has {file}")
        return location
