"""Delta tables of a Unity Catalog: opened, made, replaced, dropped.

What lives here: :class:`UnityDeltaTables`. A managed table is made by way of a staging table, whose answer
says what its first version has to have; an external one lies where its maker says, and its folder has its
commits.
What it does not know: requests (``store``), commits (``commit``), keys (``access``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.catalog.delta.tables import DeltaTables
from deltanb.catalog.store.contents import delete_folder
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.unity.client.access import Access
from deltanb.catalog.unity.client.answers import Loaded, Staging
from deltanb.catalog.unity.client.commit import UnityCommits, UnityCommitter
from deltanb.catalog.unity.client.store import UnityRow, UnityStore, row_of
from deltanb.catalog.unity.client.updates import external_table, new_table
from deltanb.catalog.unity.contract import PROPERTIES, PROTOCOL
from deltanb.catalog.unity.forms import uri_of
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    InvalidArgument,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedProtocol,
    add_note,
)
from deltanb.log.commits import PublishedCommits
from deltanb.schema import properties as table_properties
from deltanb.schema.protocol import CATALOG_TABLE_ID, FEATURE_PREFIX, FEATURES
from deltanb.text.safe_text import get_logger
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import LogStore

__all__ = ["UnityDeltaTables"]

logger = get_logger("deltanb.catalog")


class UnityDeltaTables(DeltaTables):
    """The Delta tables of a Unity Catalog; ``owner`` is its handle, ``access`` leads to their files."""

    catalog: UnityStore

    def __init__(self, catalog: UnityStore, access: Access, owner: Any) -> None:
        super().__init__(catalog, None, owner)  # type: ignore[arg-type]
        self.access = access

    def log(self, row: TableRow) -> DeltaLog:
        """The log of a table, which is read with the catalog's answer that the row is."""
        if not isinstance(row, UnityRow) or row.loaded is None:
            row = self.catalog.tables.load(row.name)
        assert isinstance(row, UnityRow) and row.loaded is not None
        loaded, name = row.loaded, row.name
        log = self.one_log((loaded.table_id, name), lambda: self._opened(name, loaded))
        if isinstance(log.commits, UnityCommits):
            log.commits.begin_with(loaded.tail)
            log.update()
        return log

    def _opened(self, name: TableName, loaded: Loaded) -> DeltaLog:
        store = self.access.store_of(loaded.location, partial(self.catalog.credentials, name))
        if not loaded.is_managed:
            return DeltaLog(store, name=str(name))
        return DeltaLog(
            store, UnityCommits(store, self.catalog, loaded.table_id),
            partial(UnityCommitter, self.catalog, name, loaded.table_id), str(name))

    # -- managed tables ------------------------------------------------------------------------------

    def create(
        self, name: TableName, data_or_schema: Any, location: str | None, *, asked: str = "error",
        **settings: Any,
    ) -> TableRow:
        """Create a table; if that is refused, nothing of it is left.

        Raises:
            TableAlreadyExists: the name is taken.
            InvalidSchema, InvalidArgument: columns, properties or a location that no table may have.
            UnsupportedProtocol: the catalog requires a feature that this library does not write.
        """
        from deltanb.commands.define.create import create

        if location is not None:
            return self._create_external(name, data_or_schema, location, asked, settings)
        staging = self.catalog.stage_table(name)
        settings["properties"] = properties_of_new(staging, settings.get("properties") or {})
        store = self.access.store_of(
            staging.location, lambda _: self.catalog.staging_credentials(staging.table_id),
            staging.storage_credentials)
        try:
            log = create(DeltaLog(store, PublishedCommits(store)), data_or_schema, asked=asked, **settings)
        except BaseException:
            _take_back(store)
            raise
        first = log.snapshot
        body = new_table(name.name, staging.location, first.protocol, first.metadata,
                         first.domain_metadata.values(), first.timestamp)
        with _taken_back(name, store):
            return row_of(name, self.catalog.create_table(name, body, staging.table_id))

    def replace(self, row: TableRow, data_or_schema: Any, mode: str, **settings: Any) -> DeltaLog:
        """Replace a table's rows, schema and properties by a commit of its own; what its catalog required of
        it stays."""
        from deltanb.commands.define.create import create

        log = self.log(row)
        before = log.update()
        required = {name: value for name, value in before.metadata.configuration.items()
                    if name in (*PROPERTIES, CATALOG_TABLE_ID)}
        features = {FEATURE_PREFIX + name: "supported" for name in before.protocol.features
                    if name in PROTOCOL["reader-features"]}
        settings["properties"] = {**(settings.get("properties") or {}), **required, **features}
        return create(log, data_or_schema, mode=mode, **settings)

    def drop(self, name: TableName, purge: bool) -> None:
        """Drop a table; see :meth:`UnityCatalog.drop_table`."""
        if purge and not self.catalog.load(name).is_managed:
            raise InvalidArgument(
                f"{name} is an external table, whose files are not the catalog's to delete: drop it without "
                "purge, and delete its folder")
        self.catalog.tables.drop(name)

    # -- external tables -----------------------------------------------------------------------------

    def _create_external(
        self, name: TableName, data_or_schema: Any, location: str, asked: str, settings: dict[str, Any]
    ) -> TableRow:
        from deltanb.commands.define.create import create

        store = self.access.store_at(location, "PATH_CREATE_TABLE")
        if next(store.list_all(""), None) is not None:
            raise TableAlreadyExists(
                f"{store.root} is not empty, so no table can be made there; catalog.register_table("
                f"{str(name)!r}, location) takes over one that is there", path=store.root)
        log = create(DeltaLog(store), data_or_schema, asked=asked, **settings)
        with _taken_back(name, store, lambda: self._why_kept(log)):
            return self._registered(name, log.snapshot)

    def _why_kept(self, log: DeltaLog) -> str | None:
        """Why the files of a new table stay that its catalog refused: others can find its folder, and may
        have it by now. None where nobody has, as far as it can be seen.

        Raises:
            DeltaError: it cannot.
        """
        if log.update().version > 0:
            return "somebody has committed to it"
        names = self.catalog.tables.names_at(uri_of(log.path))
        return f"it is registered as {', '.join(map(str, names))}" if names else None

    def take_over(self, name: TableName, location: str) -> TableRow:
        """Register a table that is there as an external one; nothing of it is changed.

        Raises:
            TableNotFound: there is none.
            TableAlreadyExists: the name or the place is taken.
        """
        log = DeltaLog(self.access.store_at(location, "PATH_READ_WRITE"))
        if not log.exists:
            raise TableNotFound(f"there is no Delta table at {log.path} to be registered", path=log.path)
        return self._registered(name, log.snapshot)

    def _registered(self, name: TableName, snapshot: Snapshot) -> TableRow:
        uri = uri_of(snapshot.log.path)
        body = external_table(self.catalog.name, name, uri, snapshot.metadata)
        return row_of(name, self.catalog.create_external_table(name, body, uri))


@contextmanager
def _taken_back(
    name: TableName, store: LogStore, why_kept: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """A block that registers a table: if that is surely refused its files are deleted, unless there is a
    reason to keep them."""
    try:
        yield
    except CommitOutcomeUnknown:
        raise
    except DeltaError as error:
        try:
            reason = why_kept()
        except (OSError, DeltaError) as unseen:
            reason = f"whether another table has it by now cannot be seen: {unseen}"
        if reason is None:
            _take_back(store)
        else:
            add_note(error, f"the table at {store.root} was kept: {reason}")
        raise
    except BaseException as interrupt:
        add_note(interrupt, f"it is unknown whether {name} was created; its files were kept at {store.root}")
        raise


def _take_back(store: LogStore) -> None:
    """Delete what was written for a table that was not made."""
    with suppress(OSError, DeltaError):
        delete_folder(store, is_new=True)


# -- what a catalog asks of a new table ----------------------------------------------------------------

def properties_of_new(staging: Staging, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a new table: those that are asked for, those that its catalog requires, and those
    that it suggests as far as this library writes them.

    Raises:
        InvalidArgument: one that is asked for is not what the catalog requires.
        UnsupportedProtocol: it requires a feature that this library does not write.
    """
    required: dict[str, Any] = {}
    for kind in ("reader-features", "writer-features"):
        for feature in staging.required_protocol.get(kind, ()):
            if feature not in FEATURES:
                raise UnsupportedProtocol(
                    f"the catalog requires the table feature {feature} of its tables, which this library "
                    "does not write", features=(feature,))
            required[FEATURE_PREFIX + feature] = "supported"
    required |= {name: value for name, value in staging.required_properties.items() if value is not None}
    for name, value in required.items():
        if name in properties and table_properties.as_text(name, properties[name]) != value:
            raise InvalidArgument(
                f"the property {name} is {value} in each table of this catalog, and not {properties[name]}")
    return {**_suggested(staging), **properties, **required}


def _suggested(staging: Staging) -> dict[str, str]:
    """What the catalog suggests and this library knows."""
    suggested = {name: value for name, value in staging.suggested_properties.items() if value is not None}
    for kind in ("reader-features", "writer-features"):
        suggested |= {FEATURE_PREFIX + feature: "supported"
                      for feature in staging.suggested_protocol.get(kind, ()) if feature in FEATURES}
    known = {}
    for name, value in suggested.items():
        try:
            table_properties.validate({name: value})
        except DeltaError as error:
            logger.info("Leaving out %s=%s, which the catalog suggests for a new table: %s", name, value,
                        error)
            continue
        known[name] = value
    return known


