"""The store of a table, from what a person gives: a path, a URI, or a store already.

What lives here: which kind of store serves which scheme.
What it does not know: how a store works.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.store.local import LocalStore, can_name_a_file

__all__ = ["store_for"]

# A slash must follow: "a:b.parquet" is a file name. Two letters at least, for the sake of "C:/".
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:(?=/)")


def store_for(table: str | os.PathLike[str] | LogStore) -> LogStore:
    """The store of a table given by path, ``file:`` URI, other URI, or as a store already.

    Raises:
        InvalidArgument: a URI whose scheme no store serves, or neither path nor store.

    >>> store_for("lake/flights").root.endswith("/lake/flights")
    True
    """
    if not isinstance(table, str | os.PathLike):
        if not hasattr(table, "put_if_absent"):
            raise InvalidArgument(f"a table is given by its path, a URI or a store, not by {table!r:.60}")
        return table
    text = os.fspath(table)
    if not isinstance(text, str):
        raise InvalidArgument(f"a table's path is text, found {text!r}")
    if not text:
        raise InvalidArgument("a table's path is empty; the folder you are in is '.'", path=text)
    if not can_name_a_file(text) or (text[:5].lower() == "file:" and not can_name_a_file(unquote(text))):
        raise InvalidArgument(f"{text!r} is not a valid path: it contains a NUL or an unpaired surrogate",
                              path=text)
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[0].lower() == "file:":
        return LocalStore(text)
    raise InvalidArgument(
        f"no store serves {scheme[0]}// ({text}); give a local path, a file: URI, "
        "or an object with the methods of deltanb.store.base.LogStore",
        path=text,
    )
