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
from deltanb.errors import InvalidArgument, Unauthorized
from deltanb.store.uris import is_of_unity
from deltanb.text.spellings import answer_wrong_arguments

__all__ = ["connect"]


@answer_wrong_arguments()
def connect(
    url: str, token: str | None = None, timeout: float = TIMEOUT, *,
    storage_options: Mapping[str, Any] | None = None,
    client_id: str | None = None, client_secret: str | None = None, token_url: str | None = None,
    scope: str | None = None, profile: str | None = None,
    allow_local_files: bool = False, allow_maintenance: bool = False,
) -> Catalog:
    """A catalog that a server serves, with the interface of :class:`deltanb.Catalog`: one of this library's
    (``deltanb serve``) by its URL, or a Unity Catalog by its address, ``uc://host/catalog``.

    Names and commits go through the server; the tables' files are read and written where they lie, so their
    place has to be reachable from here under the name that the server has for it. If a
    commit is not answered, its outcome is asked for on a fresh connection; no file is deleted before that is
    known.

    Of a Unity Catalog, what it has no notion of is refused by name: transactions of several tables, Iceberg
    tables. Its keys to the tables' files are used as it hands them out, and renewed; a region or an endpoint
    comes from ``storage_options``. Plain HTTP is spoken to this machine alone.

    Args:
        url: where the server answers, ``http://localhost:8181``, or ``uc://localhost:8080/main``.
        token: the bearer token that the server knows its sender by.
        timeout: seconds for an answer.
        storage_options: access to a bucket, as in :meth:`DeltaTable.for_path
            <deltanb.table.table.DeltaTable.for_path>`.
        client_id, client_secret, token_url, scope: of a Unity Catalog, an OAuth client in place of a token,
            and where it gets its tokens; by default at the server, as at Databricks.
        profile: a section of Databricks' configuration file in place of both.
        allow_local_files: open tables at ``file:`` places that a Unity Catalog names.
        allow_maintenance: OPTIMIZE, VACUUM and cleaning up logs of a Unity Catalog that does not say whether
            its clients may; where it says so, that counts.

    Raises:
        InvalidArgument: the URL is malformed, another kind of server answers there, or an argument that only
            a Unity Catalog takes.
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
    of_unity: dict[str, Any] = {
        "client_id": client_id, "client_secret": client_secret, "token_url": token_url, "scope": scope,
        "profile": profile, "allow_local_files": allow_local_files, "allow_maintenance": allow_maintenance}
    if is_of_unity(url):
        from deltanb.catalog.unity.client.catalog import connect_unity

        return connect_unity(url, timeout, storage_options=storage_options, token=token, **of_unity)
    for name, value in of_unity.items():
        if value:
            raise InvalidArgument(
                f"{name} is for a Unity Catalog, uc://host/catalog; a server of this library takes a token")
    try:
        store = RemoteStore(url, token, timeout)
    except Unauthorized:
        needed = "a token" if token is None else "a token other than the one given"
        raise Unauthorized(
            f"the catalog at {url} wants {needed}: deltanb.connect(url, token=...)") from None
    warehouse = Warehouse(store.warehouse, storage_options)
    return Catalog.over(store, warehouse, RemoteIcebergTables(store, warehouse))
