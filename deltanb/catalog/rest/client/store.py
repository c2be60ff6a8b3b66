"""A catalog's store behind a server, with the interface of ``CatalogStore``.

What lives here: :class:`RemoteStore`, each of whose methods is a request; most derive from the table of
endpoints.
What it does not know: HTTP (``connection``), tables' files, and what the server makes of a request.

A ratification that is not answered may still be on its way. Each is therefore an attempt with an id of its
own, and :meth:`RemoteStore.outcome` has the server give up all attempts of the transaction before it says
that there is none: from then on none of them can land.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import plain
from deltanb.catalog.rest.client.connection import TIMEOUT, Connection, Refusal, new_key
from deltanb.catalog.rest.endpoints import ICEBERG, OWN
from deltanb.catalog.rest.forms import IcebergChange
from deltanb.catalog.store.names import MAX_PAGE, Page, check_size, key_of
from deltanb.catalog.store.ownership import FolderNote
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, IcebergSwap, Ratified, Refused
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import DeltaError, InvalidArgument, NamespaceNotFound, StorageError
from deltanb.transaction.ids import new_table_id

__all__ = ["RemoteNamespaces", "RemoteRatified", "RemoteRegistry", "RemoteStore"]

MAX_ASKED = 1000  # ids in one question: a server takes no more

_OWN = {each.path.removeprefix("/deltanb/v1"): each for each in OWN}
ICEBERG_ENDPOINTS = {each.name: each for each in ICEBERG}


def _remote(path: str) -> Any:
    """The method that an endpoint carries, as a request: with its parameters and its result."""
    endpoint = _OWN[path]
    assert endpoint.carries is not None
    signature = inspect.signature(endpoint.carries)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        return self.connection.send(endpoint, endpoint.fields(bound.arguments))

    return wraps(endpoint.carries)(method)


@dataclass(frozen=True)
class RemoteRatified(Ratified):
    """All proposals are committed; the server wrote these metadata files, in the order of the Iceberg tables.
    """

    metadata_locations: tuple[str, ...]


class RemoteStore:
    """The catalog that a server at ``url`` serves.

    Raises:
        InvalidArgument: the URL is malformed, or another kind of server answers there.
        MissingDependency: httpx is not installed.
        StorageError: nothing answers there.
        Unauthorized: the server wants another token.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = TIMEOUT) -> None:
        self.connection = Connection(url, token, timeout)
        try:
            config = self.connection.send(_OWN["/config"], {})
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.url} serves no catalog of this library ({error}); 'deltanb serve' "
                                  "starts one") from None
        self.name: str = config["name"]
        self.warehouse: str = config["warehouse"]
        """Where its tables' files are."""
        self.namespaces = RemoteNamespaces(self.connection)
        self.tables = RemoteRegistry(self.connection)
        self._open: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """Where the catalog is."""
        return self.connection.url

    @property
    def place_of_ids(self) -> None:
        """None: it is unknown here who else commits to it."""

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.connection.url

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r}, {self.name!r})"

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.connection.close()

    def ratify(
        self, txn_id: str, principal: str | None, proposals: Sequence[DeltaCommit | IcebergChange],
        assertions: Sequence[Asserted] = (), *, written: Iterable[str] = (), summary: str | None = None,
    ) -> Ratified | Refused:
        """As :meth:`CatalogStore.ratify`; of an Iceberg table is proposed what is to be changed, and the
        server writes its metadata file.

        Raises:
            CommitOutcomeUnknown: the server did not answer: ask for the :meth:`outcome`, delete no file.
            CommitFailed: a requirement is not met.
            StorageError, InvalidArgument: nothing was changed.
        """
        if list(written) or any(isinstance(each, IcebergSwap) for each in proposals):
            raise InvalidArgument("the metadata files of tables behind a server are written by the server")
        attempt = new_key()
        value = {"txn-id": txn_id, "attempt": attempt, "principal": principal, "summary": summary,
                 "proposals": proposals, "assertions": assertions}
        with self._lock:  # also where an interrupt ends it
            self._open.setdefault(txn_id, []).append(attempt)
        try:
            verdict = self.connection.once(_OWN["/ratify"], value)
        except Refusal as refusal:
            self._ended(txn_id, attempt)
            if "latest" in refusal.details:
                return Refused(_latest(refusal.details["latest"], "latest"))
            raise refusal.error from None
        except StorageError:
            self._ended(txn_id, attempt)
            raise
        with self._lock:
            self._open.pop(txn_id, None)  # whichever attempt it was
        return RemoteRatified(verdict["seq"], tuple(verdict["metadata-locations"]))

    def _ended(self, txn_id: str, attempt: str) -> None:
        """Forget an attempt that certainly changed nothing and never will."""
        with self._lock:
            self._open[txn_id].remove(attempt)
            if not self._open[txn_id]:
                del self._open[txn_id]

    def outcome(self, txn_id: str) -> Ratified | None:
        """Whether a transaction has landed; None: neither has nor will any attempt that was begun here.

        Raises:
            StorageError: the server cannot be asked.
        """
        with self._lock:
            attempts = list(self._open.get(txn_id, ()))
        seq = self.connection.send(_OWN["/outcome"], {"txn-id": txn_id, "attempts": attempts}, fresh=True)
        with self._lock:
            self._open.pop(txn_id, None)
        return None if seq is None else Ratified(seq)

    def names_of(self, table_ids: Iterable[str]) -> dict[str, str]:
        """As :meth:`CatalogStore.names_of`, of tables that the token may read."""
        asked, names = sorted(set(table_ids)), dict[str, str]()
        for at in range(0, len(asked), MAX_ASKED):
            names |= self.connection.send(_OWN["/names"], {"table-ids": asked[at:at + MAX_ASKED]})
        return names

    history = _remote("/history")
    instant = _remote("/instant")
    pointers_at = _remote("/pointers")
    tails = _remote("/tails")
    content = _remote("/content")
    set_published = _remote("/published")
    overview = _remote("/overview")


def _latest(value: Any, path: str) -> Mapping[str, int | str | None]:
    latest = plain(value, path)
    return latest if isinstance(latest, dict) else {}


class RemoteNamespaces:
    """Namespaces behind a server, as :class:`~deltanb.catalog.store.namespaces.Namespaces` has them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def create(self, namespace: Any, properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace."""
        self._send("create_namespace", namespace, properties=dict(properties or {}))

    def exists(self, namespace: Any) -> bool:
        """Whether a namespace exists."""
        try:
            self.properties(namespace)
        except NamespaceNotFound:
            return False
        return True

    def children(
        self, parent: Any = (), token: str | None = None, size: int = MAX_PAGE
    ) -> Page[tuple[str, ...]]:
        """A page of the namespaces directly inside a parent that the token may see."""
        key_of(token)
        page = self._send("list_namespaces", None, parent=parent or None, pageToken=token or "",
                           pageSize=check_size(size))
        return Page(tuple(page["namespaces"]), page["next-page-token"])

    def properties(self, namespace: Any) -> dict[str, str]:
        """The properties of a namespace."""
        return dict(self._send("load_namespace", namespace)["properties"])

    def update(
        self, namespace: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> list[str]:
        """Set and remove properties; returns those of ``removals`` that were there."""
        return list(self._send("update_properties", namespace, updates=dict(updates or {}),
                               removals=sorted(set(removals)))["removed"])

    def drop(self, namespace: Any) -> None:
        """Drop a namespace that is empty."""
        self._send("drop_namespace", namespace)

    def _send(self, name: str, namespace: Any, **values: Any) -> Any:
        return self.connection.send(ICEBERG_ENDPOINTS[name], {"namespace": namespace, **values})


class RemoteRegistry:
    """The tables of a catalog behind a server, as :class:`~deltanb.catalog.store.registry.Registry`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._registering: dict[str, str] = {}

    load = Registry.load
    load_many = Registry.load_many
    find_many = _remote("/tables/load")
    page = _remote("/tables/page")
    require_free = _remote("/places/free")
    forget_folder = _remote("/places/forget")
    rename = _remote("/tables/rename")
    drop = _remote("/tables/drop")

    def register_delta(
        self, name: Any, location: str, version: int, table_id: str | None = None,
        principal: str | None = None, **state: Any,
    ) -> TableRow:
        """As :meth:`Registry.register_delta`; one that is interrupted can be asked for by the table's id."""
        table_id, key = table_id or new_table_id(), new_key()
        value = {"table": name, "location": location, "version": version, "table-id": table_id,
                 "principal": principal, **state}
        self._registering[table_id] = key  # also where an interrupt ends it
        try:
            row: TableRow = self.connection.send(_OWN["/tables/register"], value, key=key)
        except DeltaError:
            self._registering.pop(table_id, None)
            raise
        self._registering.pop(table_id, None)
        return row

    def note_folder(self, location: str, what: FolderNote, not_before: int) -> None:
        """Note a folder in which a table is about to be made; how long it is left alone, the server says."""
        self.connection.send(_OWN["/places/record"], {"locations": location, "table-id": what.table_id})

    def is_registered(self, table_id: str) -> bool:
        """Whether there is a table with an id; a registration that was interrupted can make it no more."""
        key = self._registering.get(table_id)
        is_there: bool = self.connection.send(
            _OWN["/tables/is-registered"], {"table-id": table_id, "keys": [] if key is None else [key]})
        self._registering.pop(table_id, None)
        return is_there
