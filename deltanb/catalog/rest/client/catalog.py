"""``dn.connect``: a catalog behind a server.

What lives here: the function.
What it does not know: how the server is asked (``connection``, ``store``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.catalog.catalog import Catalog
from deltanb.catalog.rest.client.connection import TIMEOUT
from deltanb.catalog.rest.client.iceberg import RemoteIcebergTables
from deltanb.catalog.rest.client.store import RemoteStore
from deltanb.catalog.store.places import Warehouse
from deltanb.errors import Unauthorized
from deltanb.text.spellings import answer_wrong_arguments

__all__ = ["connect"]


@answer_wrong_arguments()
def connect(
    url: str, token: str | None = None, timeout: float = TIMEOUT, *,
    storage_options: Mapping[str, Any] | None = None,
) -> Catalog:
    """A catalog that a server serves (``deltanb serve``), with the interface of :class:`deltanb.Catalog`.

    Names and commits go through the server; the tables' files are read and written where they lie, so their
    place has to be reachable from here under the name that the server has for it. If a
    commit is not answered, its outcome is asked for on a fresh connection; no file is deleted before that is
    known.

    Args:
        url: where the server answers, ``http://localhost:8181``.
        token: the bearer token that the server knows its sender by.
        timeout: seconds for an answer.

    Raises:
        InvalidArgument: the URL is malformed, or another kind of server answers there.
        StorageError: nothing answers there.
        Unauthorized: the server wants another token.
        MissingDependency: httpx is not installed: ``pip install 'deltanb[catalog]'``.

    >>> import deltanb as dn
    >>> from deltanb.catalog.rest.server import serve
    >>> with serve("sqlite:///lake.db", warehouse="lake") as server, dn.connect(server.url) as catalog:
    ...     catalog.create_namespace("shop")
    ...     table = catalog.create_table("shop.ducks", {"name": ["Donald"]})
    ...     with catalog.transaction() as txn:
    ...         _ = txn.table("shop.ducks").append({"name": ["Daisy"]})
    ...     table.version, catalog.list_tables("shop")
    (1, ['shop.ducks'])
    """
    try:
        store = RemoteStore(url, token, timeout)
    except Unauthorized:
        needed = "a token" if token is None else "a token other than the one given"
        raise Unauthorized(
            f"the catalog at {url} wants {needed}: deltanb.connect(url, token=...)") from None
    warehouse = Warehouse(store.warehouse, storage_options)
    return Catalog.over(store, warehouse, RemoteIcebergTables(store, warehouse))
