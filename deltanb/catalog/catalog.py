"""A catalog as people hold it: namespaces, tables, transactions of several tables.

What lives here: :class:`Catalog`, which delegates.
What it does not know: the database, logs, how a commit of several tables goes.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from deltanb.catalog.arguments import as_list, as_mapping, as_place
from deltanb.catalog.delta.tables import DeltaTables
from deltanb.catalog.iceberg import pyiceberg_client
from deltanb.catalog.iceberg.commit import IcebergTable as Loaded
from deltanb.catalog.iceberg.schema import identity_spec, schema_of
from deltanb.catalog.iceberg.table import IcebergTable
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.limits import Limits
from deltanb.catalog.snapshot import CatalogSnapshot
from deltanb.catalog.store.history import CatalogHistory, Entry
from deltanb.catalog.store.names import MAX_PAGE, Page, TableName
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.rows import taken
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.transaction import CatalogTransaction
from deltanb.commands.define.create import schema_and_data
from deltanb.concurrency import background
from deltanb.errors import DeltaError, InvalidArgument, TableNotFound
from deltanb.options import options
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.catalog.overview import Overview
    from deltanb.catalog.progress import GroupAttempt
    from deltanb.catalog.rest.server.serving import Server
    from deltanb.catalog.rest.server.tokens import Tokens
    from deltanb.catalog.store.rows import TableRow
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

__all__ = ["Catalog"]

T = TypeVar("T")

MAX_ATTEMPTS = 1_000  # transactions remembered: grids of words, some MB where each has a hundred tables


class Catalog(Displayable):
    """Tables that can be committed together.

    Args:
        url: the database: ``sqlite:///FILE``, or ``postgresql://user@host/database``. PyIceberg's SqlCatalog
            and Java's JdbcCatalog can share it; they see its Iceberg tables, and what they do to these is in
            the history here, by "another program".
        warehouse: the folder below which its tables lie: a path, or a URI in a bucket.
        name: of the catalog in the database, which can hold several.
        storage_options: how to get to a warehouse in a bucket, as for :func:`deltanb.open`. The database
            keeps none of them; PyIceberg is given the same ones for rows of Iceberg tables.
        limits: what one commit may ask for: ``dn.Limits(tables=100, updates=1000, seconds=30)`` unless given.

    Raises:
        InvalidArgument: another kind of URL, or limits of another type.
        StorageError: the database cannot be reached.
        MissingDependency: SQLAlchemy is not installed: ``pip install 'deltanb[catalog]'``.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> table = catalog.create_table("shop.ducks", {"name": ["Donald"]})
    >>> table.append({"name": ["Daisy"]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> catalog.list_tables("shop"), catalog.table("shop.ducks").to_arrow().num_rows
    (['shop.ducks'], 2)
    """

    def __init__(
        self, url: str, warehouse: str | os.PathLike[str], name: str = "default", *,
        storage_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
    ) -> None:
        limits = Limits.of(limits)
        store, place = CatalogStore(url, name), Warehouse(warehouse, storage_options)
        self._set(store, place, IcebergTables(store, place, limits))

    @classmethod
    def over(cls, store: Any, warehouse: Warehouse, iceberg: IcebergTables) -> Catalog:
        """The catalog of a store that is open already: of a database, or of one behind a server."""
        catalog = cls.__new__(cls)
        catalog._set(store, warehouse, iceberg)
        return catalog

    def _set(self, store: Any, warehouse: Warehouse, iceberg: IcebergTables) -> None:
        self.store = store
        """What is asked of the catalog as a whole: its database, or the server before that."""
        self.name: str = store.name
        self.warehouse = warehouse
        self.delta = DeltaTables(store, warehouse, self)
        self.iceberg = iceberg
        self.limits: Limits | None = None if iceberg.is_remote else iceberg.committer.limits
        """What one commit may ask for; None where the server says."""
        self.attempts: deque[GroupAttempt] = deque(maxlen=MAX_ATTEMPTS)
        """The transactions that tried to commit through this object, those that failed included."""

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database; a later use opens new ones.

        The checkpoints that are being written behind commits to its tables are waited for: they ask the
        catalog, too.
        """
        self._settle()
        self.store.close()

    def _settle(self) -> None:
        """Wait for what is done in the background for tables of this catalog."""
        background.settle(lambda log: getattr(getattr(log, "commits", None), "catalog", None) is self.store)

    def serve(self, host: str = "127.0.0.1", port: int = 0,
              tokens: Tokens | str | os.PathLike[str] | None = None, *,
              limits: Limits | None = None) -> Server:
        """Let other programs in over HTTP, as long as the server runs: a block, or until its ``stop()``.

        The catalog itself stays usable meanwhile. For a process of its own there is ``deltanb serve``.

        Args:
            port: 0 takes any that is free; ``.url`` of the server says which.
            tokens: who may do what, or the file that says so; None lets everyone in, on loopback only.
            limits: what one commit over HTTP may ask for; the catalog's own unless given.

        Raises:
            InvalidArgument: the catalog is behind a server already, or no tokens and another host.
            StorageError: the port cannot be had.
            MissingDependency: the server is not installed: ``pip install 'deltanb[catalog]'``.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
        >>> with catalog.serve() as server:
        ...     dn.connect(server.url).name
        'default'
        """
        from deltanb.catalog.rest.server.serving import serve

        if not isinstance(self.store, CatalogStore):
            raise InvalidArgument(
                f"catalog {shown(self.name)} is behind a server already: give others the address of that one")
        return serve(self.store, self.warehouse, host, port, tokens, limits or self.limits)

    # -- namespaces --------------------------------------------------------------------------------

    def create_namespace(self, name: Any, properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace: ``"shop"``, or ``"shop.eu"``, which makes ``"shop"`` as well where it is missing.

        Raises:
            NamespaceAlreadyExists: there is one.
            InvalidArgument: a name or properties that no namespace may have.
        """
        self.store.namespaces.create(name, as_mapping(properties, "properties"))

    def drop_namespace(self, name: Any) -> None:
        """Take out a namespace that is empty.

        Raises:
            NamespaceNotFound: it is not there.
            NamespaceNotEmpty: it has tables or namespaces.
        """
        self.store.namespaces.drop(name)

    def list_namespaces(self, parent: Any = None) -> list[str]:
        """The names of the namespaces directly below one, or of those at the top.

        Raises:
            NamespaceNotFound: the one above them is not there.
        """
        children = self.store.namespaces.children
        return [".".join(parts) for parts in _all(lambda token: children(parent or (), token))]

    def namespace_properties(self, name: Any) -> dict[str, str]:
        """The properties of a namespace.

        Raises:
            NamespaceNotFound: it is not there.
        """
        return self.store.namespaces.properties(name)

    def update_namespace_properties(
        self, name: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace, in one step.

        Raises:
            NamespaceNotFound: it is not there.
            InvalidArgument: a property both set and removed, or one that none may have.
        """
        self.store.namespaces.update(name, as_mapping(updates, "updates"), as_list(removals, "removals"))

    # -- tables ------------------------------------------------------------------------------------

    def create_table(
        self, name: Any, data_or_schema: Any, *, format: str = "delta",
        partition_by: str | Sequence[str] = (), properties: Mapping[str, Any] | None = None,
        description: str | None = None, location: str | os.PathLike[str] | None = None,
        user_metadata: str | None = None,
    ) -> DeltaTable | IcebergTable:
        """Create a table and return it.

        Args:
            name: its full name, ``"namespace.table"``.
            data_or_schema: rows or a schema, as :func:`deltanb.create` takes them.
            format: ``"delta"`` or ``"iceberg"``.
            partition_by: column names; an Iceberg table is partitioned by their values.
            properties, description, user_metadata: as :func:`deltanb.create` takes them; an Iceberg table has
                properties alone, of which ``format-version`` is 1 to 3.
            location: a folder below the warehouse; one named after the table by default. It is the table's
                own: it is empty, reached by no link, and neither lies in another table's nor has one in it.

        Raises:
            TableAlreadyExists: the name or the location is taken; nothing is left of the attempt.
            NamespaceNotFound: its namespace is not there.
            InvalidSchema, InvalidArgument: columns, properties or a location that no table may have.
        """
        name = TableName.of(name)
        place = None if location is None else as_place(location, "location")
        columns = partition_by if isinstance(partition_by, str) else as_list(partition_by, "partition_by")
        properties = as_mapping(properties, "properties")
        if format == "iceberg":
            if description is not None or user_metadata is not None:
                raise InvalidArgument("an Iceberg table takes properties, no description or user_metadata")
            return self._create_iceberg(name, data_or_schema, columns, properties, place)
        if format != "delta":
            raise InvalidArgument(f"format={format!r} is neither 'delta' nor 'iceberg'")
        self._must_be_free(name)
        row = self.delta.create(
            name, data_or_schema, place, partition_by=columns, properties=properties,
            description=description, user_metadata=user_metadata)
        return DeltaTable(self.delta.log(row))

    def _create_iceberg(
        self, name: TableName, data_or_schema: Any, partition_by: str | Sequence[str],
        properties: Mapping[str, Any], location: str | None,
    ) -> IcebergTable:
        columns, data = schema_and_data(data_or_schema)
        schema = schema_of(columns)
        names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.iceberg.create(
            name, schema, identity_spec(schema, names), location=location, principal=options.user_name,
            properties={key: str(value) for key, value in properties.items()})
        table = IcebergTable(self.iceberg, name)
        if data is not None:
            try:
                table.append(data)
            except BaseException:
                self.iceberg.drop(name, purge=True)
                raise
        return table

    def _must_be_free(self, name: TableName) -> None:
        """Refuse early what the database would refuse after the files are written."""
        self.store.namespaces.properties(name.namespace)
        with suppress(TableNotFound):
            self.store.tables.load(name)
            raise taken(name)

    def table(self, name: Any) -> Any:
        """A table by its full name; it follows the table, as one that was opened by its path does.

        Returns:
            A :class:`~deltanb.table.table.DeltaTable`, or an
            :class:`~deltanb.catalog.iceberg.table.IcebergTable`.

        Raises:
            TableNotFound: there is none of that name.
        """
        row = self._row(name)
        return IcebergTable(self.iceberg, row.name) if row.delta is None else DeltaTable(self.delta.log(row))

    def _row(self, name: Any) -> TableRow:
        """What the catalog has of a table; a name that it does not have is answered with those like it."""
        name = TableName.of(name)
        try:
            row: TableRow = self.store.tables.load(name)
        except TableNotFound as error:
            raise self._with_hint(error, name) from None
        return row

    def _with_hint(self, error: TableNotFound, name: TableName) -> TableNotFound:
        try:
            names = [row.name.name for row in self.page(name.namespace).items]
        except DeltaError:  # no such namespace, or one that may not be listed: nothing more to say
            return error
        if name.name in names:
            return error
        place = ".".join(name.namespace)
        hint, _ = did_you_mean(name.name, names, f"tables in {place}", shown=lambda each: f"{place}.{each}")
        return TableNotFound(f"there is no table {name} in the catalog; {hint}", path=str(name))

    def register_table(self, name: Any, location: str | os.PathLike[str]) -> DeltaTable | IcebergTable:
        """Take a table below the warehouse into the catalog: a Delta table by its folder, an Iceberg table by
        its metadata file.

        From then on a Delta table is read and written through the catalog: one that was open to all by its
        path gets the table feature ``catalogManaged``, with a commit of its own. One that another catalog has
        must be dropped there first: its folder does not tell whether one has it still.

        Raises:
            TableNotFound: there is no table.
            TableAlreadyExists: the name or the location is taken.
            InvalidArgument: the location is outside of the warehouse.
        """
        name = TableName.of(name)
        self._must_be_free(name)
        place = as_place(location, "location")
        if place.endswith(".metadata.json"):
            self.iceberg.register(name, place, principal=options.user_name)
            return IcebergTable(self.iceberg, name)
        return DeltaTable(self.delta.log(self.delta.take_over(name, place)))

    def list_tables(self, namespace: Any) -> list[str]:
        """The full names of the tables directly in a namespace, of both formats.

        Raises:
            NamespaceNotFound: it is not there.
        """
        return [str(row.name) for row in _all(lambda token: self.page(namespace, token, MAX_PAGE))]

    def page(self, namespace: Any, token: str | None = None, size: int = 1000) -> Page[TableRow]:
        """Some of a namespace's tables as the catalog has them, by name; ``next_token`` gives the next."""
        return self.store.tables.page(namespace, token, size)

    def rename_table(self, name: Any, new_name: Any) -> None:
        """Give a table another name, in this or another namespace; its files stay where they are.

        A commit under way that knows it by the old name is refused.

        Raises:
            TableNotFound: there is none of the old name.
            TableAlreadyExists: the new name is taken.
            NamespaceNotFound: the new namespace is not there.
        """
        self.store.tables.rename(name, new_name)

    def drop_table(self, name: Any, purge: bool = False) -> None:
        """Take a table out of the catalog. Its files stay, unless ``purge`` has them deleted.

        Raises:
            TableNotFound: there is none of that name.
            InvalidTable, StorageError: its newest commits cannot be put into its folder, where they are to
                stay.
            MaxCommitRetriesExceeded: others went on to commit to it.
        """
        row = self._row(name)
        self._settle()  # nothing is written into a folder while it is deleted
        if row.delta is None:
            self.iceberg.drop(name, purge, options.user_name)
        else:
            self.delta.drop(row.name, purge)

    # -- several tables ----------------------------------------------------------------------------

    def transaction(self) -> CatalogTransaction:
        """Several tables in one transaction, as a block: ``with catalog.transaction() as txn:``."""
        return CatalogTransaction(self)

    def commit_iceberg(self, *transactions: Any) -> int | None:
        """Commit transactions of PyIceberg (``table.transaction()``) in one step, each of another table.

        They came from this library, or from PyIceberg's own catalogs on the same database or server.

        Returns:
            The catalog's transaction; None where nothing changed.

        Raises:
            CommitFailed: a table is not what a transaction took it for; nothing of any was committed.
            InvalidArgument: no transactions of PyIceberg, or two of one table.
        """
        changes = pyiceberg_client.changes_of(transactions)
        done = self.iceberg.commit(changes, options.user_name)
        pyiceberg_client.finish(transactions)
        return done.seq  # type: ignore[union-attr]

    def snapshot(self, names: Iterable[Any]) -> CatalogSnapshot:
        """Tables as they are at one instant, now.

        Raises:
            TableNotFound: one of them is not there.
        """
        table_names = as_list(names, "names")
        return CatalogSnapshot(self, self.store.instant(), table_names)

    def as_of(self, moment: int | str | dt.datetime, names: Iterable[Any] = ()) -> CatalogSnapshot:
        """Tables as they were at a time: epoch milliseconds, a datetime, or ISO 8601 text.

        Raises:
            TableNotFound: one of them was not there.
            InvalidArgument: a time that cannot be understood, or names that are no list.
        """
        from deltanb.log.history import to_milliseconds

        time, table_names = to_milliseconds(moment), as_list(names, "names")
        if abs(time) >= 2**63:
            raise InvalidArgument(f"a time is epoch milliseconds in 64 bits, found {shown(moment)}")
        return CatalogSnapshot(self, self.store.instant(time), table_names)

    def history(self, limit: int | None = None) -> CatalogHistory:
        """The catalog's transactions, newest first; at most ``limit`` of them.

        A sequence that does not change; ``.names`` has the names of the tables by their ids.

        Raises:
            InvalidArgument: a limit below 1.
        """
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise InvalidArgument(f"limit={shown(limit)} is not a number of transactions, 1 or more")
        newest, after = self.store.instant(), 0
        entries: list[Entry] = []
        if limit is not None:
            after = max(0, newest - limit)
        while after < newest:
            page = self.store.history(after)
            if not page:
                break
            entries += page
            after = page[-1].seq
        ids = (table_id for entry in entries for table_id in entry.changes)
        return CatalogHistory(entries[::-1][:limit], self.names_of(ids), self.name, max(newest, len(entries)))

    def names_of(self, table_ids: Iterable[str]) -> dict[str, str]:
        """The names that tables have now, by id; those that are no more are left out."""
        names: dict[str, str] = self.store.names_of(table_ids)
        return names

    def timeline(self, start: Any = None, end: Any = None) -> upper.CatalogTimeline:
        """What happened in the catalog as a picture: a lane a table, commits of one transaction tied.

        Args:
            start, end: the first and the last transaction, by number or by time; the newest 400 unless given.

        Returns:
            A :class:`~deltanb.observe.catalog_timeline.CatalogTimeline`.

        Raises:
            InvalidArgument: neither a number nor a time.
        """
        return upper.CatalogTimeline.of(self, start, end)

    def overview(self, most: int = 20) -> Overview:
        """What it has at a glance, as its picture shows it: at most ``most`` tables and transactions."""
        overview: Overview = self.store.overview(most)
        return overview

    def table_at(self, name: TableName, seq: int) -> tuple[DeltaLog, Snapshot] | Loaded:
        """A table after a transaction of the catalog: a Delta table's log and snapshot, or an Iceberg table.

        Raises:
            TableNotFound: there is no such table, or there was none then.
        """
        row = self._row(name)
        assert row.table_id is not None
        pointer = self.store.pointers_at(seq, [row.table_id]).get(row.table_id)
        if pointer is None:
            raise TableNotFound(
                f"there was no table {name} in the catalog after its transaction {seq}: it was made later. "
                "Begin another transaction or snapshot", path=str(name))
        if row.delta is None:
            return Loaded(name, row.table_id, pointer, self.iceberg.files.read(pointer))
        log, version = self.delta.log(row), int(pointer)
        snapshot = log.update()
        return log, snapshot if snapshot.version == version else log.snapshot_at(version)


def _all(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """What all pages have."""
    token: str | None = None
    while True:
        items, token = page(token)
        yield from items
        if token is None:
            return
