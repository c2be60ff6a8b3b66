"""A catalog's store behind a server: what ``CatalogStore`` is in the process.

What lives here: :class:`RemoteStore`, with the same calls, each of them a request.
What it does not know: HTTP (``connection``), tables' files, and what the server makes of a request.

A ratification that is not answered may still be on its way. So each is an attempt with an id of its own, and
:meth:`RemoteStore.outcome` has the server give up all attempts of the transaction before it says that there
is none: from then on none of them can land.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from deltanb.catalog.iceberg.metadata.fields import (
    array,
    base64_text,
    flag,
    mapping,
    maybe,
    plain,
    record,
    text,
    texts,
)
from deltanb.catalog.overview import Overview
from deltanb.catalog.rest.client.connection import TIMEOUT, Connection, Refusal, new_key
from deltanb.catalog.rest.forms import (
    VERSION,
    IcebergChange,
    assertion_value,
    entry_of,
    name_value,
    overview_of,
    proposal_value,
    row_of,
    tail_of,
)
from deltanb.catalog.store.history import Entry
from deltanb.catalog.store.names import MAX_PAGE, Page, TableName, check_size, joined, key_of, parts_of
from deltanb.catalog.store.ownership import FolderNote
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, IcebergSwap, Ratified, Refused
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.store.store import Tail
from deltanb.errors import DeltaError, InvalidArgument, NamespaceNotFound, StorageError, TableNotFound
from deltanb.transaction.ids import new_table_id

__all__ = ["OWN", "RemoteRatified", "RemoteStore", "place_of_namespace"]

OWN = "/deltanb/v1"
"""Below it are the endpoints that are this library's own."""

MAX_ASKED = 1000  # ids in one question: a server takes no more
SEPARATOR = "\x1f"  # between the parts of a namespace in a URL, as the REST catalog has it


def _nothing(value: Any, path: str) -> None:
    """Whatever is answered says no more than that it is done."""


@dataclass(frozen=True)
class RemoteRatified(Ratified):
    """All proposals are committed; the server wrote these metadata files, in the order of the Iceberg tables.
    """

    metadata_locations: tuple[str, ...]


_CONFIG = record({"name": text, "warehouse": text})
_RATIFIED = record({"metadata-locations": array(text)}, {"seq": VERSION})


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
            found = self.connection.ask(f"{OWN}/config", None, _CONFIG, "GET")
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.url} serves no catalog of this library ({error}); 'deltanb serve' "
                                  "begins one") from None
        self.name: str = found["name"]
        self.warehouse: str = found["warehouse"]
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
        """Nobody here knows who else commits to it."""

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
                 "proposals": [proposal_value(each) for each in proposals],
                 "assertions": [assertion_value(each) for each in assertions]}
        with self._lock:  # also where an interrupt ends it
            self._open.setdefault(txn_id, []).append(attempt)
        try:
            found = self.connection.once(f"{OWN}/ratify", value, _RATIFIED)
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
        return RemoteRatified(found.get("seq"), tuple(found["metadata-locations"]))

    def _ended(self, txn_id: str, attempt: str) -> None:
        """An attempt that surely did nothing and never will."""
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
        found = self.connection.ask(
            f"{OWN}/outcome", {"txn-id": txn_id, "attempts": attempts}, record({"seq": maybe(VERSION)}),
            fresh=True)
        with self._lock:
            self._open.pop(txn_id, None)
        return None if found["seq"] is None else Ratified(found["seq"])

    def history(self, after: int = 0, size: int = 1000) -> list[Entry]:
        """As :meth:`CatalogStore.history`; of tables that the token may not read nothing is told."""
        found = self.connection.ask(
            f"{OWN}/history", {"after": after, "size": size}, record({"entries": array(entry_of)}))
        return list(found["entries"])

    def names_of(self, table_ids: Iterable[str]) -> dict[str, str]:
        """As :meth:`CatalogStore.names_of`, of tables that the token may read."""
        wanted, names = sorted(set(table_ids)), dict[str, str]()
        for at in range(0, len(wanted), MAX_ASKED):
            names |= self.connection.ask(
                f"{OWN}/names", {"table-ids": wanted[at:at + MAX_ASKED]}, record({"names": texts}))["names"]
        return names

    def overview(self, most: int) -> Overview:
        """As :meth:`CatalogStore.overview`, of what the token may see."""
        found: Overview = self.connection.ask(f"{OWN}/overview", {"most": most}, overview_of)
        return found

    def instant(self, time: int | None = None) -> int:
        """As :meth:`CatalogStore.instant`."""
        value = {} if time is None else {"time": time}
        return int(self.connection.ask(f"{OWN}/instant", value, record({"seq": VERSION}))["seq"])

    def pointers_at(self, seq: int, table_ids: Iterable[str]) -> dict[str, str | None]:
        """As :meth:`CatalogStore.pointers_at`."""
        value = {"seq": seq, "table-ids": sorted(set(table_ids))}
        return dict(self.connection.ask(
            f"{OWN}/pointers", value, record({"pointers": mapping(maybe(text))}))["pointers"])

    def tails(self, table_ids: Iterable[str]) -> dict[str, Tail]:
        """As :meth:`CatalogStore.tails`."""
        value = {"table-ids": sorted(set(table_ids))}
        return dict(self.connection.ask(f"{OWN}/tails", value, record({"tails": mapping(tail_of)}))["tails"])

    def content(self, table_id: str, version: int) -> bytes:
        """As :meth:`CatalogStore.content`."""
        value = {"table-id": table_id, "version": version}
        return base64.b64decode(self.connection.ask(
            f"{OWN}/content", value, record({"content": base64_text}))["content"])

    def set_published(self, table_id: str, version: int) -> None:
        """As :meth:`CatalogStore.set_published`."""
        self.connection.ask(f"{OWN}/published", {"table-id": table_id, "version": version}, _nothing)


def _latest(value: Any, path: str) -> Mapping[str, int | str | None]:
    found = plain(value, path)
    return found if isinstance(found, dict) else {}


class RemoteNamespaces:
    """Namespaces behind a server, as :class:`~deltanb.catalog.store.namespaces.Namespaces` has them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, namespace: Any, properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace."""
        value = {"namespace": list(parts_of(namespace)), "properties": dict(properties or {})}
        self._connection.change("/v1/namespaces", value, _nothing)

    def exists(self, namespace: Any) -> bool:
        """Whether a namespace is there."""
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
        query = f"pageSize={check_size(size)}&pageToken={quote(token or '', safe='')}"
        if parent:
            query += f"&parent={_quoted(parts_of(parent))}"
        found = self._connection.ask(f"/v1/namespaces?{query}", None, _NAMESPACES, "GET")
        return Page(tuple(map(tuple, found["namespaces"])), found.get("next-page-token"))

    def properties(self, namespace: Any) -> dict[str, str]:
        """The properties of a namespace."""
        answer = record({"namespace": array(text)}, {"properties": texts})
        found = self._connection.ask(place_of_namespace(namespace), None, answer, "GET")
        return dict(found.get("properties", {}))

    def update(
        self, namespace: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> list[str]:
        """Set and remove properties; returns those of ``removals`` that were there."""
        value = {"updates": dict(updates or {}), "removals": sorted(set(removals))}
        answer = record({"updated": array(text), "removed": array(text)}, {"missing": array(text)})
        path = f"{place_of_namespace(namespace)}/properties"
        return list(self._connection.change(path, value, answer)["removed"])

    def drop(self, namespace: Any) -> None:
        """Drop a namespace that is empty."""
        self._connection.change(place_of_namespace(namespace), None, _nothing, "DELETE")


_NAMESPACES = record({"namespaces": array(array(text))}, {"next-page-token": text})


def _quoted(parts: tuple[str, ...]) -> str:
    return quote(SEPARATOR.join(parts), safe="")


def place_of_namespace(namespace: Any) -> str:
    """The path of a namespace's endpoints.

    >>> place_of_namespace("shop.eu")
    '/v1/namespaces/shop%1Feu'
    """
    parts = parts_of(namespace)
    joined(parts)
    return f"/v1/namespaces/{_quoted(parts)}"


_MADE, _DROPPED = record({"row": row_of}), record({}, {"row": row_of})


class RemoteRegistry:
    """The tables of a catalog behind a server, as :class:`~deltanb.catalog.store.registry.Registry`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._registering: dict[str, str] = {}

    def load(self, name: Any) -> TableRow:
        """A table by its name."""
        name = TableName.of(name)
        return self.load_many([name])[name]

    def load_many(self, names: Iterable[Any]) -> dict[TableName, TableRow]:
        """Tables by name, all as they were at one instant."""
        wanted = list(dict.fromkeys(map(TableName.of, names)))
        found = self.find_many(wanted)
        for name in wanted:
            if name not in found:
                raise TableNotFound(f"there is no table {name} in the catalog", path=str(name))
        return found

    def find_many(self, names: Iterable[Any]) -> dict[TableName, TableRow]:
        """As :meth:`load_many`, without those that are not there."""
        value = {"tables": [name_value(name) for name in dict.fromkeys(map(TableName.of, names))]}
        found = self._connection.ask(f"{OWN}/tables/load", value, record({"tables": array(row_of)}))
        return {row.name: row for row in found["tables"]}

    def page(
        self, namespace: Any, token: str | None = None, size: int = 1000, format: str | None = None
    ) -> Page[TableRow]:
        """A page of the tables directly in a namespace."""
        key_of(token)  # refused before it is sent
        value = {"namespace": list(parts_of(namespace)), "page-token": token, "page-size": check_size(size),
                 "format": format}
        answer = record({"tables": array(row_of)}, {"next-page-token": text})
        found = self._connection.ask(f"{OWN}/tables/page", value, answer)
        return Page(tuple(found["tables"]), found.get("next-page-token"))

    def register_delta(
        self, name: Any, location: str, version: int, table_id: str | None = None,
        principal: str | None = None, *, ict: int | None = None, etag: str | None = None,
        protocol: str | None = None, metadata: str | None = None,
    ) -> TableRow:
        """Make a row for a Delta table whose log has all versions up to ``version`` in its folder."""
        table_id, key = table_id or new_table_id(), new_key()
        value = {"table": name_value(TableName.of(name)), "location": location, "version": version,
                 "table-id": table_id, "principal": principal, "ict": ict, "etag": etag,
                 "protocol": protocol, "metadata": metadata}
        self._registering[table_id] = key  # also where an interrupt ends it
        try:
            found = self._connection.change(f"{OWN}/tables/register", value, _MADE, key=key)
        except DeltaError:
            self._registering.pop(table_id, None)
            raise
        self._registering.pop(table_id, None)
        row: TableRow = found["row"]
        return row

    def require_free(self, location: str, table_id: str | None = None, name: TableName | None = None) -> None:
        """Refuse a folder that is another table's than the one with an id, and a name that is taken, or whose
        namespace one may not write."""
        value = {"location": location, "table-id": table_id}
        self._connection.ask(f"{OWN}/places/free", {
            **value, **({} if name is None else {"table": name_value(name)})}, _nothing)

    def note_folder(self, location: str, what: FolderNote, not_before: int) -> None:
        """Note a folder in which a table is about to be made; how long it is left alone, the server says."""
        self._connection.ask(
            f"{OWN}/places/record", {"locations": [location], "table-id": what.table_id}, _nothing)

    def is_registered(self, table_id: str) -> bool:
        """Whether there is a table with an id; a registration that was interrupted can make it no more."""
        key = self._registering.get(table_id)
        value = {"table-id": table_id, "keys": [] if key is None else [key]}
        found = self._connection.ask(
            f"{OWN}/tables/is-registered", value, record({"is-registered": flag}))["is-registered"]
        self._registering.pop(table_id, None)
        return bool(found)

    def rename(self, old: Any, new: Any) -> None:
        """Give a table another name."""
        value = {"source": name_value(TableName.of(old)), "destination": name_value(TableName.of(new))}
        self._connection.change(f"{OWN}/tables/rename", value, _nothing)

    def drop(
        self, name: Any, principal: str | None = None, published: bool = False,
        purged_from: int | None = None,
    ) -> TableRow | None:
        """Take a Delta table out of the catalog; its files stay. Returns what it was."""
        value = {"table": name_value(TableName.of(name)), "principal": principal, "published": published,
                 "purge": purged_from is not None}
        row: TableRow | None = self._connection.change(f"{OWN}/tables/drop", value, _DROPPED).get("row")
        return row

    def forget_folder(self, location: str) -> None:
        """Take out a folder that is a table's, or deleted."""
        self._connection.ask(f"{OWN}/places/forget", {"locations": [location]}, _nothing)
