"""A Unity Catalog as people hold it.

What lives here: :class:`UnityCatalog`, a catalog whose methods refuse by name what Unity Catalog has no
notion of; and :func:`connect_unity`.
What it does not know: how it is asked (``connection``, ``store``), how its tables are committed to.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from deltanb.catalog.catalog import Catalog
from deltanb.catalog.rest.client.connection import TIMEOUT
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.unity.client.access import Access
from deltanb.catalog.unity.client.address import parse_address
from deltanb.catalog.unity.client.auth import auth_of
from deltanb.catalog.unity.client.connection import UnityConnection
from deltanb.catalog.unity.client.store import UnityStore
from deltanb.catalog.unity.client.tables import UnityDeltaTables
from deltanb.errors import InvalidArgument
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.spellings import answer_wrong_arguments

__all__ = ["UnityCatalog", "connect_unity"]

_ONE = "Unity Catalog commits one table at a time"
_NOW = "Unity Catalog keeps no order of the commits to several tables"
REFUSED: Mapping[str, str] = {
    "transaction": f"{_ONE}; commit to each by itself: catalog.table(name).transaction()",
    "commit_iceberg": "its Iceberg tables are written through its Iceberg REST API; use PyIceberg there",
    "serve": "it is served already; give others its address",
    "snapshot": f"{_NOW}; open each table at a version: catalog.table(name).as_of(version)",
    "as_of": f"{_NOW}; open each table at a time: catalog.table(name).as_of(time)",
    "table_at": f"{_NOW}; open the table at a version: catalog.table(name).as_of(version)",
    "names_of": "Unity Catalog finds tables by their names alone; the rows of catalog.page(schema) have both",
    "history": f"{_NOW}; catalog.table(name).history() has those of one, catalog.timeline() draws them all",
}
"""Methods of a catalog that Unity Catalog has no notion of, and what to do in their place."""

REFUSED_FUNCTIONS: Mapping[str, str] = {
    "race": f"{_ONE}; race writers on one of them: deltanb.race(catalog.table(name), writers)",
    "explore": f"{_ONE}; explore writers of one of them: deltanb.explore(catalog.table(name), writers)",
    "bisect": f"{_NOW}; bisect one of them: deltanb.bisect(catalog.table(name), …)",
}
"""Functions that take a catalog for the sake of several tables, likewise."""


@answer_wrong_arguments()
class UnityCatalog(Catalog):
    """A catalog of a Unity Catalog server, made by :func:`deltanb.connect` of its address, ``uc://…``.

    Its namespaces are its schemas. Tables that it manages have their commits ratified by it; those of an
    external table are files of its folder. It commits one table at a time: what takes several is refused.
    """

    commits_together = False

    def __init__(self, store: UnityStore, access: Access) -> None:
        self.store, self.access = store, access
        self.name = store.name
        self.delta = UnityDeltaTables(store, access, self)
        self.limits, self.attempts = None, deque(maxlen=0)

    def require_for(self, function: str) -> None:
        """Refuse a function that takes a catalog for the sake of several tables.

        Raises:
            InvalidArgument: always, with what to do in its place.
        """
        raise InvalidArgument(f"a Unity Catalog has no {function}(): {REFUSED_FUNCTIONS[function]}")

    def _table(self, row: TableRow) -> Any:
        return DeltaTable(self.delta.log(row))

    def _create(
        self, name: Any, data_or_schema: Any, row: TableRow | None, mode: str, format: str,
        *settings: Any,
    ) -> Any:
        if format != "delta":
            raise InvalidArgument(
                f"format={format!r}: this library makes Delta tables in a Unity Catalog, and no others")
        return super()._create(name, data_or_schema, row, mode, format, *settings)

    def register_table(self, name: Any, location: str | os.PathLike[str]) -> DeltaTable:
        """Register a Delta table that is there as an external table; its folder keeps its commits.

        Raises:
            TableNotFound: there is no table.
            TableAlreadyExists: the name or the location is taken.
            Forbidden: the catalog hands out no keys to the location.
        """
        if os.fspath(location).endswith(".metadata.json"):
            raise InvalidArgument(f"{name}: this library registers Delta tables in a Unity Catalog")
        return super().register_table(name, location)  # type: ignore[return-value]

    def timeline(self, start: Any = None, end: Any = None) -> upper.CatalogTimeline:
        """The commits of its tables as a picture, in the order of their times, with a lane per table.

        They are read from the tables' logs and from what the catalog has of them; at most the newest 400, of
        50 tables.

        Args:
            start, end: the first and the last commit, by its place among those or by time.

        Raises:
            InvalidArgument: neither a number nor a time.
        """
        return upper.CatalogTimeline.of_tables(self, start, end)

    def drop_table(self, name: Any, purge: bool = False) -> None:
        """Drop a table. The catalog deletes the files of a managed table, at once or later, as it sees fit;
        those of an external table stay.

        Raises:
            TableNotFound: there is no table of that name.
            InvalidArgument: ``purge`` of an external table, whose files are yours to delete.
        """
        row = self._row(name)
        self._settle()
        self.delta.drop(row.name, purge)


def _refused(name: str, reason: str) -> Callable[..., Any]:
    def method(self: UnityCatalog, *_: Any, **__: Any) -> Any:
        raise InvalidArgument(f"a Unity Catalog has no {name}(): {reason}")

    method.__name__, method.__doc__ = name, f"Refused: {reason}."
    return method


for _name, _reason in REFUSED.items():
    setattr(UnityCatalog, _name, _refused(_name, _reason))


def connect_unity(
    address: str, timeout: float = TIMEOUT, *, storage_options: Mapping[str, Any] | None = None,
    allow_local_files: bool = False, allow_maintenance: bool = False, **who: Any,
) -> UnityCatalog:
    """The catalog at an address; see :func:`deltanb.connect`."""
    at = parse_address(address)
    if at.name:
        raise InvalidArgument(
            f"{address} names a table; deltanb.open opens it, and deltanb.connect a catalog: uc://host/catalog")
    connection = UnityConnection(at.url, auth_of(at.url, **who), timeout)
    store = UnityStore(connection, at.catalog, allow_maintenance)
    return UnityCatalog(store, Access(store, storage_options, allow_local_files))

