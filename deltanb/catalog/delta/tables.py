"""Delta tables of a catalog: their places, creation, registration, and logs.

What lives here: :class:`DeltaTables`: a new table's folder and first version, registering an existing table,
the logs of tables (one each, separate from those opened by path), and cleaning up after refused commands; the
checks of a table that a catalog is to manage, and its registration.
What it does not know: the database, transactions of several tables.

Version 0 is written directly into the log and then registered. An existing table gets the feature
``catalogManaged`` by a commit in its folder; from then on it is not written by path (PROTOCOL.md,
"Catalog-managed tables").
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.actions import Metadata, Protocol
from deltanb.catalog.delta.commits import CatalogCommits
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.contents import delete_folder, first_file, table_around
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ownership import NEW_TABLE, FolderNote
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    InvalidArgument,
    MaxCommitRetriesExceeded,
    TableAlreadyExists,
    TableNotFound,
    add_note,
)
from deltanb.log.commits import PublishedCommits
from deltanb.options import options, writer_name
from deltanb.schema.protocol import CATALOG_MANAGED, CATALOG_TABLE_ID, FEATURE_PREFIX, supports
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.ids import deciding_id, new_table_id

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

__all__ = ["GRACE", "DeltaTables", "managed_table", "register", "require_managed"]

MAX_LOGS = 64
"""Logs kept open for tables that are asked for again and again."""

MAX_DROPS = 10
"""Tries to drop a table that others commit to meanwhile."""

GRACE = 86_400_000
"""Milliseconds for which what may be unfinished is left alone: no command takes a day."""

MANAGED = {FEATURE_PREFIX + CATALOG_MANAGED: "supported", "delta.enableInCommitTimestamps": "true"}
"""What makes a table one of a catalog's."""


class DeltaTables:
    """The Delta tables of ``catalog``, a store or a server; ``owner`` is its handle."""

    def __init__(self, catalog: Any, warehouse: Warehouse, owner: Any = None) -> None:
        self.catalog, self.warehouse, self.owner = catalog, warehouse, owner
        self._logs: OrderedDict[tuple[str, TableName], DeltaLog] = OrderedDict()
        self._lock = threading.Lock()

    def log(self, row: TableRow) -> DeltaLog:
        """The log of a table; the same object as long as the table has this name.

        Raises:
            InvalidArgument: it is not a Delta table.
        """
        if row.delta is None or row.table_id is None:
            raise InvalidArgument(
                f"{row.name} is an Iceberg table; it has no Delta log")
        table_id, location = row.table_id, row.delta.location

        def opened() -> DeltaLog:
            store = self.warehouse.store_at(location)
            return DeltaLog(
                store, CatalogCommits(store, self.catalog, table_id),
                partial(ManagedCommitter, self.catalog, row.name, table_id), str(row.name))

        return self.one_log((table_id, row.name), opened)

    def one_log(self, key: tuple[str, TableName], opened: Callable[[], DeltaLog]) -> DeltaLog:
        """The log of a table's id and name, which is opened once."""
        with self._lock:
            log = self._logs.get(key)
            if log is None:
                log = self._logs[key] = opened()
                log.catalog = self.owner
            self._logs.move_to_end(key)
            while len(self._logs) > MAX_LOGS:
                self._logs.popitem(last=False)
            return log

    def as_known(self, row: TableRow) -> TableRow:
        """A table's row with what was published here, of which the catalog has not heard yet."""
        log = self._logs.get((str(row.table_id), row.name))
        if row.delta is None or log is None or not isinstance(log.commits, CatalogCommits) \
                or not log.commits.is_published(row.delta.latest):
            return row
        return replace(row, delta=replace(row.delta, published=row.delta.latest))

    def create(
        self, name: TableName, data_or_schema: Any, location: str | None, *, asked: str = "error",
        **settings: Any,
    ) -> TableRow:
        """Create a table and register it; if that is refused, nothing of it is left. The commit records the
        mode that was ``asked``.

        Raises:
            TableAlreadyExists: the name is taken, or there is a table at the location.
            InvalidSchema, InvalidArgument: columns, properties or a location that no table may have.
        """
        from deltanb.commands.define.create import create

        store = self.warehouse.store_at(
            self.warehouse.new_location(name, deciding_id(None)) if location is None
            else self.warehouse.table_location(_whole(location), "location"))
        place, table_id = store.root, new_table_id()
        settings["properties"] = {
            **(settings.get("properties") or {}), **MANAGED, CATALOG_TABLE_ID: table_id}
        if next(store.list_all(""), None) is not None:
            raise TableAlreadyExists(
                f"{place} is not empty, so no table can be made there; catalog.register_table({str(name)!r}, "
                "location) takes over one that is there", path=place)
        self._refuse_around(store)
        self.catalog.tables.note_folder(place, FolderNote(NEW_TABLE, table_id), options.clock() + GRACE)
        is_ours = location is None  # a folder of this name is nobody else's
        try:
            log = create(DeltaLog(store, PublishedCommits(store)), data_or_schema, asked=asked, **settings)
            is_ours = True  # it was empty, and its first version is this one
            return register(self.catalog.tables, name, log.snapshot, table_id, writer_name())
        except BaseException as error:
            if isinstance(error, DeltaError) or not self._is_registered(table_id, name, error):
                self._take_away(store, place, is_ours and not isinstance(error, CommitOutcomeUnknown), True)
            raise

    def replace(self, row: TableRow, data_or_schema: Any, mode: str, **settings: Any) -> DeltaLog:
        """Replace a table's rows, schema and properties by a commit of its own.

        Args:
            mode: ``"overwrite"`` or ``"replace"``.

        Raises:
            InvalidArgument: it is an Iceberg table.
            InvalidSchema, InvalidArgument: columns or properties that no table may have.
        """
        from deltanb.commands.define.create import create

        log = self.log(row)
        before = log.update().metadata.configuration
        settings["properties"] = {
            **(settings.get("properties") or {}), **MANAGED, CATALOG_TABLE_ID: before[CATALOG_TABLE_ID]}
        return create(log, data_or_schema, mode=mode, **settings)

    def _refuse_around(self, store: LogStore) -> None:
        """Refuse a folder inside that of a table, even one that no catalog has."""
        name = self.warehouse.name_of(store.root, "location")
        around = table_around(self.warehouse.store, name)
        if around is not None:
            raise TableAlreadyExists(
                f"{store.root} lies in the folder of another table, {around or self.warehouse.uri}; give a "
                "location of its own", path=store.root)

    def _is_registered(self, table_id: str, name: TableName, interrupt: BaseException) -> bool:
        """Whether an interrupted creation succeeded or may have; adds a note to the interrupt."""
        try:
            was_registered = self.catalog.tables.is_registered(table_id)
        except DeltaError as error:
            add_note(interrupt, f"it is unknown whether {name} was created: {error}. Its files were kept")
            return True
        add_note(interrupt, f"table {name} was created despite the interruption" if was_registered else
                 f"table {name} was not created; what was written was deleted")
        return was_registered

    def _take_away(self, store: LogStore, place: str, deletes: bool, is_new: bool = False) -> None:
        """Delete the files of a table that was not created; leftovers are for a sweep."""
        with suppress(OSError, DeltaError):
            if deletes:
                self.warehouse.table_location(place, "location")  # no link leads elsewhere by now
                others = delete_folder(store, is_new=is_new)
            else:
                others = []
            if first_file(store, "", [] if is_new else others) is None:
                self.catalog.tables.forget_folder(place)

    def drop(self, name: TableName, purge: bool) -> None:
        """Drop a table; see :meth:`Catalog.drop_table`."""
        tables, who = self.catalog.tables, writer_name()
        if purge:
            self._purge(tables.drop(name, who, purged_from=options.clock()))
            return
        for _ in range(MAX_DROPS):
            log = self.log(tables.load(name))
            snapshot = log.update()
            log.committer(snapshot).publish(snapshot.version)  # it is in the folder before nobody knows of it
            log.commits.published(snapshot.version)  # and the catalog knows that it is
            if tables.drop(name, who, published=True) is not None:
                return
        raise MaxCommitRetriesExceeded(
            f"table {name} was changed each time it was about to be dropped; nothing was done. Stop its "
            "writers, and drop it again", attempts=MAX_DROPS)

    def _purge(self, row: TableRow) -> None:
        """Delete the files of a dropped table whose folder is recorded as garbage."""
        assert row.delta is not None
        try:
            self._take_away(self.warehouse.store_at(row.delta.location), row.delta.location, deletes=True)
        except BaseException as error:
            add_note(error, f"table {row.name} was dropped despite the interruption; what is left of its "
                            "files is noted as garbage")
            raise

    def take_over(self, name: TableName, location: str) -> TableRow:
        """Register an existing table, and make it catalog-managed unless it is.

        Raises:
            TableNotFound: there is no table at the location.
            TableAlreadyExists: the name is taken, or the location is another table's, or lies in one's or
                around it; nothing was changed.
        """
        from deltanb.commands.define.alter_properties import set_properties
        from deltanb.commands.define.place import hint_of_files

        store = self.warehouse.store_at(self.warehouse.table_location(_whole(location), "location"))
        place = store.root
        log = DeltaLog(store, PublishedCommits(store))
        if not log.exists:
            hint = "; ".join(filter(None, ["there is no Delta table", hint_of_files(store)]))
            raise TableNotFound(f"{place} cannot be registered: {hint}", path=place)
        self._refuse_around(store)
        self.catalog.tables.require_free(place, log.snapshot.properties.get(CATALOG_TABLE_ID), name)
        try:
            if not supports(log.snapshot.protocol, CATALOG_MANAGED):
                table_id = log.snapshot.properties.get(CATALOG_TABLE_ID) or new_table_id()
                set_properties(log, {**MANAGED, CATALOG_TABLE_ID: table_id})
            snapshot = log.update()
            return register(self.catalog.tables, name, snapshot, snapshot.properties.get(CATALOG_TABLE_ID),
                            writer_name())
        except BaseException as error:
            with suppress(Exception):
                if supports(log.update().protocol, CATALOG_MANAGED):
                    add_note(error, f"the table at {place} can only be opened through a catalog from now on; "
                                    f"register it again, if the catalog has no table {name}")
            raise


def register(
    tables: Any, name: TableName, snapshot: Snapshot, table_id: str | None, principal: str | None
) -> TableRow:
    """Make a row for a table as its log is there; ``tables`` is a registry, or one behind a server."""
    return tables.register_delta(  # type: ignore[no-any-return]
        name, snapshot.log.path, snapshot.version, table_id, principal, ict=snapshot.timestamp,
        etag=f"{snapshot.version}.{snapshot.timestamp}",
        protocol=json.dumps(snapshot.protocol.to_value()), metadata=json.dumps(snapshot.metadata.to_value()))


def require_managed(protocol: dict[str, Any], metadata: dict[str, Any], table_id: str | None = None) -> None:
    """Refuse a table that no catalog could manage.

    Raises:
        InvalidArgument: the protocol lacks a feature, or a property is not set.
    """
    checked = Protocol.from_value(protocol)
    Metadata.from_value(metadata)
    for feature, kinds in ((CATALOG_MANAGED, ("reader", "writer")), ("inCommitTimestamp", ("writer",))):
        for kind in kinds:
            if feature not in (getattr(checked, f"{kind}_features") or ()):
                raise InvalidArgument(f"protocol: a managed table has the {kind} feature {feature}")
    properties = metadata.get("configuration") or {}
    if properties.get("delta.enableInCommitTimestamps") != "true":
        raise InvalidArgument("properties: a managed table has delta.enableInCommitTimestamps=true")
    if table_id is not None and properties.get(CATALOG_TABLE_ID) != table_id:
        id_in_log = properties.get(CATALOG_TABLE_ID)
        raise InvalidArgument(f"properties: {CATALOG_TABLE_ID} is {table_id}, found {id_in_log}")


def managed_table(store: LogStore, version: int, table_id: str | None) -> Snapshot:
    """The newest snapshot of the table in a folder, as its log is there, for a catalog to register it.

    Raises:
        InvalidArgument: there is no log, its newest version is another one, or no catalog could manage it.
    """
    log = DeltaLog(store, PublishedCommits(store))
    if not log.exists:
        raise InvalidArgument(f"location: there is no Delta table at {store.root}")
    snapshot = log.snapshot
    if snapshot.version != version:
        raise InvalidArgument(
            f"version: the log at {store.root} is at version {snapshot.version}, and not at {version}")
    require_managed(snapshot.protocol.to_value(), snapshot.metadata.to_value(), table_id)
    return snapshot


def _whole(location: str) -> str:
    """A user's location, with a relative path resolved against the current folder."""
    return location if "://" in location else os.path.abspath(location)
