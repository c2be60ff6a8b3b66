"""The store of a table, from what a person gives, and of a file, from what a log says.

What lives here: which kind of store serves which scheme.
What it does not know: how a store works.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.store.local import LocalStore, can_name_a_file
from deltanb.store.paths import place_of
from deltanb.store.uris import is_of_unity, is_served
from deltanb.text.safe_text import without_credentials

__all__ = ["beside", "elsewhere", "store_for"]

# A slash must follow: "a:b.parquet" is a file name. Two letters at least, for the sake of "C:/".
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:(?=/)")


def store_for(
    table: str | os.PathLike[str] | LogStore, storage_options: Mapping[str, Any] | None = None
) -> LogStore:
    """The store of a table given by path, ``file:`` URI, URI of a bucket, or as a store already.

    ``storage_options`` are those of buckets (:class:`~deltanb.store.object.ObjectStore`).

    Raises:
        InvalidArgument: a URI whose scheme no store serves, neither path nor store, or options that it does
            not take.
        MissingDependency: a bucket, and obstore is not installed.

    >>> store_for("lake/flights").root.endswith("/lake/flights")
    True
    """
    if not isinstance(table, str | os.PathLike):
        if not hasattr(table, "put_if_absent"):
            raise InvalidArgument(f"a table is given by its path, a URI or a store, not by {table!r:.60}")
        if storage_options:
            raise InvalidArgument(
                f"storage_options belong to a URI; {table!r:.60} is a store already, made with its own")
        return table
    text = os.fspath(table)
    if not isinstance(text, str):
        raise InvalidArgument(f"a table's path is text, found {text!r}")
    if not text:
        raise InvalidArgument("a table's path is empty; the folder you are in is '.'", path=text)
    if not can_name_a_file(text) or (text[:5].lower() == "file:" and not can_name_a_file(unquote(text))):
        raise InvalidArgument(f"{text!r} is not a valid path: it contains a NUL or an unpaired surrogate",
                              path=text)
    if is_served(text):
        from deltanb.store.object import ObjectStore

        return ObjectStore(text, storage_options)
    if storage_options:
        raise InvalidArgument(
            f"storage_options are those of a bucket (s3://, gs://, az://, abfss://), and {text} is not in "
            "one; leave them out", path=text)
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[0].lower() == "file:":
        return LocalStore(text)
    if is_of_unity(text):
        raise InvalidArgument(
            f"{text} is the address of a table in a Unity Catalog, which opens it: take what "
            "deltanb.open(address) gives. On Spark its to_df() is a frame, and append(frame) and "
            "write_stream(frame) write one", path=text)
    raise InvalidArgument(
        f"no store serves {scheme[0]}// ({text}); give a local path, a file: URI, that of a bucket "
        "(s3://, gs://, az://, abfss://), or an object with the methods of deltanb.store.base.LogStore",
        path=text,
    )


def beside(
    store: LogStore, table: str | os.PathLike[str] | LogStore
) -> str | os.PathLike[str] | LogStore:
    """Where another table is, named in work on this one: what lies in its bucket is reached as it is."""
    sibling = getattr(store, "sibling", None)
    if sibling is not None and isinstance(table, str) and is_served(table):
        return sibling(table) or table
    return table


def elsewhere(store: LogStore, path: str) -> tuple[LogStore, str]:
    """(store, name) of a decoded path: what :meth:`LogStore.resolve` is for the stores of this library.

    Raises:
        InvalidArgument: no store serves such a URI.
    """
    place = place_of(store, path, is_encoded=False)
    if place.name is not None:
        return store, place.name
    if place.address.startswith("/"):
        return LocalStore("/"), place.address.lstrip("/")
    head, _, tail = place.address.rpartition("/")
    sibling = getattr(store, "sibling", None)
    if sibling is not None and (home := sibling(without_credentials(head))) is not None:
        return home, tail
    return store_for(head), tail
