"""Stores of places whose credentials a catalog vends: :func:`vended_store`.

What lives here: how such a store is made.
What it does not know: when credentials are asked for and replaced (``vending``), and how a catalog is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltanb.store.object import ObjectStore
from deltanb.store.storage_options import access_of
from deltanb.store.uris import parse
from deltanb.store.vending import Vend, Vended, Vending

__all__ = ["Vend", "Vended", "vended_store"]


def vended_store(uri: str, storage_options: Mapping[str, Any] | None, vend: Vend) -> ObjectStore:
    """The store of a place for which a catalog vends temporary credentials.

    Args:
        uri: as for :class:`~deltanb.store.object.ObjectStore`; the credentials are for this place and what is
            below it.
        storage_options: region, endpoint, timeouts, …, as for an ObjectStore: a catalog vends none of these.
            Whoever gives credentials among them, or another way to get some (a role, ``skip_signature``), has
            those, and the catalog is never asked.
        vend: asks the catalog: for ``"READ"`` at the first request, for ``"READ_WRITE"`` at the first write,
            and again before an answer expires, by one thread for all. Where a service refuses a credential
            before its time, another is asked for and the request is made once more.

    The store is an ObjectStore in everything else. What ``vend`` raises comes out of the call that needed the
    credentials; nothing was written then. An answer without any leaves the place to the credentials of the
    environment or the machine's role. Other places in the bucket, which a table's log may name, are reached
    by those, too.

    No repr, error, log line or pickle has the credentials. In another process an unpickled store raises a
    StorageError that says so; executors of Spark on this machine are lent those in force.

    Raises:
        InvalidArgument: not such a URI, or an option that is not known.
        MissingDependency: obstore is not installed.

    >>> def vend(operation):
    ...     return Vended({"s3.access-key-id": "AKIA", "s3.secret-access-key": "hush"}, expires=None)
    >>> store = vended_store("s3://lake/flights", {"aws_region": "eu-west-1"}, vend)
    >>> store, store.sibling("s3://lake/flights/2013").access == store.access
    (ObjectStore('s3://lake/flights'), True)
    """
    place = parse(uri)
    access = access_of(place.kind, storage_options).is_for(place)
    if access.has_own_credentials:
        return ObjectStore(uri, storage_options)
    vending = Vending(place.root, place.kind, vend)
    return ObjectStore.at(place, replace(access, vending=vending.token, prefix=place.root))
