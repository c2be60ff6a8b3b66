"""How the files of a Unity Catalog's tables are reached.

What lives here: :class:`Access`: the store of a place that the catalog names, with keys that the catalog
hands out for it, a prefix and an operation each.
What it does not know: when keys are renewed (``store/vended``), requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.catalog.unity.client.answers import PATH_CREDENTIALS, Credential
from deltanb.errors import Forbidden, InvalidArgument
from deltanb.store.local import LocalStore
from deltanb.store.uris import is_served
from deltanb.store.vended import Vended, vended_store
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.catalog.unity.client.store import UnityStore
    from deltanb.store.base import LogStore

__all__ = ["Access"]

_PATH_OPERATIONS = {"READ": "PATH_READ", "READ_WRITE": "PATH_READ_WRITE"}


class Access:
    """Access to places that a catalog names.

    Args:
        catalog: it is asked for keys.
        storage_options: what keys do not say: a region, an endpoint.
        allow_local_files: whether ``file:`` places of the server's are opened on this machine.
    """

    def __init__(
        self, catalog: UnityStore, storage_options: Mapping[str, Any] | None = None,
        allow_local_files: bool = False,
    ) -> None:
        self.catalog, self.storage_options = catalog, storage_options
        self.allow_local_files = allow_local_files

    def store_of(
        self, location: str, asked: Callable[[str], Sequence[Credential]],
        first: Sequence[Credential] = (),
    ) -> LogStore:
        """The store of a table's place.

        Args:
            asked: the catalog's keys for an operation.
            first: keys that came with the place; each operation has these before it asks for others, unless
                they ended on the way.
        """
        unused = {"READ", "READ_WRITE"} if first else set()

        def vend(operation: str) -> Vended:
            if operation in unused:
                unused.discard(operation)
                keys = longest(first, location, operation)
                if not keys.has_ended:
                    return keys
            return longest(asked(operation), location, operation)

        return self._store(location, vend)

    def store_at(self, location: str, operation: str) -> LogStore:
        """The store of a place that no table of the catalog has yet."""
        def vend(reads: str) -> Vended:
            asked = _PATH_OPERATIONS[reads] if operation != "PATH_CREATE_TABLE" else operation
            keys, expires = self.catalog.change(
                "temporary_path_credentials", {}, PATH_CREDENTIALS, {"url": location, "operation": asked})
            return Vended(keys, expires)

        return self._store(location, vend)

    def _store(self, location: str, vend: Callable[[str], Vended]) -> LogStore:
        if is_served(location):
            return vended_store(location, self.storage_options, vend)
        if not location.startswith(("file:", "/")):
            raise InvalidArgument(
                f"the catalog {self.catalog.place} has a table at {shown(location)}, and no store serves "
                "such a place")
        if not self.allow_local_files:
            raise InvalidArgument(
                f"the catalog {self.catalog.place} names the place {shown(location)} on this machine, which "
                "a server is not allowed to by itself; deltanb.connect(…, allow_local_files=True) allows it")
        return LocalStore(location)


def longest(credentials: Sequence[Credential], location: str, operation: str) -> Vended:
    """The keys whose prefix says most of a place.

    >>> both = [Credential("s3://lake", "READ"), Credential("s3://lake/t", "READ", {"s3.access-key-id": "k"})]
    >>> longest(both, "s3://lake/t", "READ").config
    {'s3.access-key-id': 'k'}

    Raises:
        Forbidden: there are none for it.
    """
    fitting = [each for each in credentials if operation == "READ" or each.operation == operation
               if covers(each.prefix, location)]
    if not fitting:
        raise Forbidden(f"the catalog has handed out no keys to {operation} at {location}")
    best = max(fitting, key=lambda each: len(each.prefix.rstrip("/")))
    return Vended(best.config, best.expiration_time_ms)


def covers(prefix: str, location: str) -> bool:
    """Whether a place lies below a prefix, folder by folder.

    >>> covers("s3://lake/t", "s3://lake/t/x"), covers("s3://lake/t", "s3://lake/tables")
    (True, False)
    """
    return f"{location.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")
