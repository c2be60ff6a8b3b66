"""The handle of a catalog: namespaces, tables, transactions of several tables.

What lives here: :class:`Catalog`, which delegates.
What it does not know: the database, logs, how several tables are committed.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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
from deltanb.catalog.store.names import MAX_PAGE, Page, TableName, all_rows
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.rows import taken
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.transaction import CatalogTransaction
from deltanb.commands.define.create import MODES, nothing_to_replace, schema_and_data
from deltanb.concurrency import background
from deltanb.errors import DeltaError, InvalidArgument, TableAlreadyExists, TableNotFound
from deltanb.options import writer_name
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.display import Displayable
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown
from deltanb.text.spellings import Spelt, answer_wrong_arguments

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


@answer_wrong_arguments(also=("__init__",))
class Catalog(Displayable, Spelt, place="catalog"):
    """Tables that can be committed together.

    Args:
        url: the database: ``sqlite:///FILE``, or ``postgresql://user@host/database``. PyIceberg's SqlCatalog
            and Java's JdbcCatalog can share it; they see its Iceberg tables, and their changes are in the
            history here, by "another program".
        warehouse: the folder that contains its tables: a path, or a URI in a bucket.
        name: the catalog's name in the database, which can hold several.
        storage_options: access to a warehouse in a bucket, as for :func:`deltanb.open`. They are not stored
        in
            the database; PyIceberg gets the same ones for rows of Iceberg tables.
        limits: the limits of one commit, by default ``dn.Limits(tables=100, updates=1000, seconds=30)``.

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

    commits_together = True
    """Whether a transaction may change several of its tables."""

    def __init__(
        self, url: str, warehouse: str | os.PathLike[str], name: str = "default", *,
        storage_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
    ) -> None:
        limits = Limits.of(limits)
        store, place = CatalogStore(url, name), Warehouse(warehouse, storage_options)
        self._set(store, place, IcebergTables(store, place, limits))

    @classmethod
    def over(cls, store: Any, warehouse: Warehouse, iceberg: IcebergTables) -> Catalog:
        """The catalog of a store that is open already: a database, or a server.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///opened.db", warehouse="opened")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.ducks", {"id": [1]})
        >>> again = dn.Catalog.over(catalog.store, catalog.warehouse, catalog.iceberg)
        >>> again.list_tables("shop")
        ['shop.ducks']
        """
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
        iceberg.owner = self
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

        Waits for checkpoints that are being written for its tables, since these use the catalog, too.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///close.db", warehouse="close")
        >>> catalog.create_namespace("shop")
        >>> catalog.close()
        """
        self._settle()
        self.store.close()

    def _settle(self) -> None:
        """Wait for background work on tables of this catalog."""
        background.settle(lambda log: getattr(getattr(log, "commits", None), "catalog", None) is self.store)

    def serve(self, host: str = "127.0.0.1", port: int = 0,
              tokens: Tokens | str | os.PathLike[str] | None = None, *,
              limits: Limits | None = None) -> Server:
        """Serve the catalog over HTTP, for a block or until the server's ``stop()``.

        The catalog itself stays usable meanwhile. ``deltanb serve`` runs a server in its own process.

        Args:
            port: 0 chooses a free one; the server's ``.url`` has it.
            tokens: the permissions by token, or a file with them; None allows everyone, on loopback only.
            limits: the limits of one commit over HTTP, by default the catalog's own.

        Raises:
            InvalidArgument: the catalog is behind a server itself, or another host without tokens.
            StorageError: the port cannot be used.
            MissingDependency: the server is not installed: ``pip install 'deltanb[catalog]'``.
            NoThreads: this Python starts no threads, as in a browser.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
        >>> with catalog.serve() as server:
        ...     dn.connect(server.url).name
        'default'
        """
        from deltanb.catalog.rest.server.serving import serve

        if not isinstance(self.store, CatalogStore):
            raise InvalidArgument(
                f"catalog {shown(self.name)} is already served: give others the address of that server")
        return serve(self.store, self.warehouse, host, port, tokens, limits or self.limits)

    def require_for(self, function: str) -> None:
        """Refuse a function that takes a catalog for the sake of several tables, where it has no such thing.

        >>> import deltanb as dn
        >>> dn.Catalog("sqlite:///lake.db", warehouse="lake").require_for("race")

        Raises:
            InvalidArgument: the catalog commits one table at a time.
        """

    # -- namespaces --------------------------------------------------------------------------------

    def create_namespace(self, name: Any, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace: ``"shop"``, or ``"shop.eu"``, which also creates ``"shop"`` if it is missing.

        Raises:
            NamespaceAlreadyExists: the namespace exists.
            InvalidArgument: a name or properties that are not allowed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///create_namespace.db", warehouse="create_namespace")
        >>> catalog.create_namespace("shop")
        >>> catalog.create_namespace("farm", {"owner": "Grandma"})
        >>> catalog.list_namespaces()
        ['farm', 'shop']
        """
        self.store.namespaces.create(name, as_mapping(properties, "properties"))

    def drop_namespace(self, name: Any) -> None:
        """Drop an empty namespace.

        Raises:
            NamespaceNotFound: there is no such namespace.
            NamespaceNotEmpty: it has tables or namespaces.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///drop_namespace.db", warehouse="drop_namespace")
        >>> catalog.create_namespace("shop")
        >>> catalog.drop_namespace("shop")
        >>> catalog.list_namespaces()
        []
        """
        self.store.namespaces.drop(name)

    def list_namespaces(self, parent: Any = None) -> list[str]:
        """The names of the namespaces directly below one, or of those at the top.

        Raises:
            NamespaceNotFound: there is no such parent namespace.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///list_namespaces.db", warehouse="list_namespaces")
        >>> catalog.create_namespace("shop")
        >>> catalog.list_namespaces()
        ['shop']
        """
        children = self.store.namespaces.children
        return [".".join(parts) for parts in all_rows(lambda token: children(parent or (), token))]

    def namespace_properties(self, name: Any) -> dict[str, str]:
        """The properties of a namespace.

        Raises:
            NamespaceNotFound: there is no such namespace.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///namespace_properties.db", warehouse="namespace_properties")
        >>> catalog.create_namespace("shop")
        >>> catalog.namespace_properties("shop")
        {}
        """
        return self.store.namespaces.properties(name)

    def update_namespace_properties(
        self, name: Any, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace in one step.

        Raises:
            NamespaceNotFound: there is no such namespace.
            InvalidArgument: a property that is both set and removed, or is not allowed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///updated.db", warehouse="updated")
        >>> catalog.create_namespace("shop")
        >>> catalog.update_namespace_properties("shop", {"owner": "Daisy"})
        >>> catalog.namespace_properties("shop")
        {'owner': 'Daisy'}
        """
        self.store.namespaces.update(name, as_mapping(updates, "updates"), as_list(removals, "removals"))

    # -- tables ------------------------------------------------------------------------------------

    def create_table(
        self, name: Any, data_or_schema: Any, *, format: str = "delta",
        partition_by: str | Sequence[str] = (), properties: Mapping[str, Any] | None = None,
        description: str | None = None, location: str | os.PathLike[str] | None = None,
        cluster_by: str | Sequence[str] = (), mode: str = "error", user_metadata: str | None = None,
    ) -> DeltaTable | IcebergTable:
        """Create a table and return it.

        Args:
            name: its full name, ``"namespace.table"``.
            data_or_schema: rows or a schema, as in :func:`deltanb.create`.
            format: ``"delta"`` or ``"iceberg"``.
            partition_by: column names; an Iceberg table is partitioned by their values.
            properties, description, user_metadata: as in :func:`deltanb.create`; an Iceberg table takes only
                properties, among them ``format-version``, 1 to 3.
            location: a folder below the warehouse, by default named after the table. It must be empty, not
                reached by a link, and neither inside another table's folder nor around one.
            cluster_by: as in :func:`deltanb.create`; of a Delta table.
            mode: if the name is taken, ``"error"`` raises, ``"ignore"`` returns the table unchanged,
                ``"overwrite"`` and ``"replace"`` replace the rows, schema and properties of a Delta table
                where it lies, ``"replace"`` only one that exists.

        Raises:
            TableAlreadyExists: the name or the location is taken; nothing is left behind.
            TableNotFound: there is no table to be replaced.
            NamespaceNotFound: there is no such namespace.
            InvalidSchema, InvalidArgument: columns, properties or a location that are not allowed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///create_table.db", warehouse="create_table")
        >>> catalog.create_namespace("shop")
        >>> events = catalog.create_table("shop.events", "id bigint, day date", partition_by="day")
        >>> events.name
        'shop.events'
        """
        name = TableName.of(name)
        place = None if location is None else as_place(location, "location")
        columns = partition_by if isinstance(partition_by, str) else as_list(partition_by, "partition_by")
        properties = as_mapping(properties, "properties")
        if mode not in MODES:
            raise InvalidArgument(f"mode={mode!r} is not one of {', '.join(MODES)}")
        row = None if mode == "error" else self._row_or_none(name)
        if row is not None and mode == "ignore":
            return self._table(row)
        if row is None and mode == "replace":
            raise nothing_to_replace(str(name))
        try:
            return self._create(name, data_or_schema, row, mode, format, columns, properties, description,
                                place, cluster_by, user_metadata)
        except TableAlreadyExists:
            # Somebody may have created it since. Nothing is overwritten: a stream of rows is read only once.
            row = self._row_or_none(name) if mode == "ignore" else None
            if row is None:
                raise
            return self._table(row)

    def _create(
        self, name: TableName, data_or_schema: Any, row: TableRow | None, mode: str, format: str,
        partition_by: str | Sequence[str], properties: Mapping[str, Any], description: str | None,
        place: str | None, cluster_by: str | Sequence[str], user_metadata: str | None,
    ) -> DeltaTable | IcebergTable:
        """Create a table, or replace that of ``row``."""
        if format == "iceberg":
            if description is not None or user_metadata is not None:
                raise InvalidArgument("an Iceberg table takes properties, but no description or "
                                      "user_metadata")
            if row is not None or cluster_by:
                what = "is replaced" if row is not None else "is clustered"
                raise InvalidArgument(
                    f"{name}: no Iceberg table {what}; drop it and create it, or partition it")
            return self._create_iceberg(name, data_or_schema, partition_by, properties, place)
        if format != "delta":
            raise InvalidArgument(f"format={format!r} is neither 'delta' nor 'iceberg'")
        settings: dict[str, Any] = {
            "partition_by": partition_by, "properties": properties, "description": description,
            "cluster_by": cluster_by, "user_metadata": user_metadata}
        if row is not None:
            if place is not None:
                raise InvalidArgument(f"{name} keeps its place; a table that is replaced takes no location")
            return DeltaTable(self.delta.replace(row, data_or_schema, mode, **settings))
        self._must_be_free(name)
        row = self.delta.create(name, data_or_schema, place, asked=mode, **settings)
        return DeltaTable(self.delta.log(row))

    def _row_or_none(self, name: TableName) -> TableRow | None:
        try:
            row: TableRow = self.store.tables.load(name)
        except TableNotFound:
            return None
        return row

    def _create_iceberg(
        self, name: TableName, data_or_schema: Any, partition_by: str | Sequence[str],
        properties: Mapping[str, Any], location: str | None,
    ) -> IcebergTable:
        columns, data = schema_and_data(data_or_schema)
        schema = schema_of(columns)
        names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.iceberg.create(
            name, schema, identity_spec(schema, names), location=location, principal=writer_name(),
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
        """Refuse a taken name before files are written; the database would refuse it afterwards."""
        self.store.namespaces.properties(name.namespace)
        if self._row_or_none(name) is not None:
            raise taken(name)

    def table(self, name: Any) -> Any:
        """A table by its full name; it follows the newest version, like one opened by its path.

        Returns:
            A :class:`~deltanb.table.table.DeltaTable`, or an
            :class:`~deltanb.catalog.iceberg.table.IcebergTable`.

        Raises:
            TableNotFound: there is none of that name.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///table.db", warehouse="table")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.table("shop.ducks").count()
        1
        """
        return self._table(self._row(name))

    def _table(self, row: TableRow) -> Any:
        return IcebergTable(self.iceberg, row.name) if row.delta is None else DeltaTable(self.delta.log(row))

    def _row(self, name: Any) -> TableRow:
        """The row of a table; the error for an unknown name suggests similar ones."""
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
        """Register a table below the warehouse: a Delta table by its folder, an Iceberg table by its metadata
        file.

        From then on, a Delta table is read and written through the catalog: a commit adds the table feature
        ``catalogManaged`` unless the table has it. A table of another catalog must be dropped there first,
        since its folder does not show whether a catalog still has it.

        Raises:
            TableNotFound: there is no table.
            TableAlreadyExists: the name or the location is taken.
            InvalidArgument: the location is outside of the warehouse.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///register_table.db", warehouse="register_table")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> folder = ducks.path
        >>> catalog.drop_table("shop.ducks")
        >>> catalog.register_table("shop.geese", folder).count()
        1
        """
        name = TableName.of(name)
        self._must_be_free(name)
        place = as_place(location, "location")
        if place.endswith(".metadata.json"):
            self.iceberg.register(name, place, principal=writer_name())
            return IcebergTable(self.iceberg, name)
        return DeltaTable(self.delta.log(self.delta.take_over(name, place)))

    def list_tables(self, namespace: Any) -> list[str]:
        """The full names of the tables directly in a namespace, of both formats.

        Raises:
            NamespaceNotFound: there is no such namespace.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///list_tables.db", warehouse="list_tables")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.list_tables("shop")
        ['shop.ducks']
        """
        return [str(row.name) for row in all_rows(lambda token: self.page(namespace, token, MAX_PAGE))]

    def page(self, namespace: Any, token: str | None = None, size: int = 1000) -> Page[TableRow]:
        """A page of a namespace's tables, by name; ``next_token`` leads to the next page.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///page.db", warehouse="page")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> [row.name.name for row in catalog.page("shop").items]
        ['ducks']
        """
        return self.store.tables.page(namespace, token, size)

    def rename_table(self, name: Any, new_name: Any) -> None:
        """Rename a table, within its namespace or into another one; its files stay where they are.

        A concurrent commit under the old name is refused.

        Raises:
            TableNotFound: there is no table of the old name.
            TableAlreadyExists: the new name is taken.
            NamespaceNotFound: there is no such new namespace.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///rename_table.db", warehouse="rename_table")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.rename_table("shop.ducks", "shop.geese")
        >>> catalog.list_tables("shop")
        ['shop.geese']
        """
        self.store.tables.rename(name, new_name)

    def drop_table(self, name: Any, purge: bool = False) -> None:
        """Drop a table from the catalog. Its files stay, unless ``purge`` deletes them.

        Raises:
            TableNotFound: there is no table of that name.
            InvalidTable, StorageError: its newest commits cannot be published into its folder.
            MaxCommitRetriesExceeded: others kept committing to it.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///drop_table.db", warehouse="drop_table")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.drop_table("shop.ducks")
        >>> catalog.list_tables("shop")
        []
        """
        row = self._row(name)
        self._settle()  # nothing is written into a folder while it is deleted
        if row.delta is None:
            self.iceberg.drop(name, purge, writer_name())
        else:
            self.delta.drop(row.name, purge)

    # -- several tables ----------------------------------------------------------------------------

    def transaction(self) -> CatalogTransaction:
        """Several tables in one transaction, as a block: ``with catalog.transaction() as txn:``.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///transaction.db", warehouse="transaction")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> with catalog.transaction() as txn:
        ...     _ = txn.table("shop.ducks").append({"id": [2]})
        >>> ducks.count()
        2
        """
        return CatalogTransaction(self)

    def commit_iceberg(self, *transactions: Any) -> int | None:
        """Commit transactions of PyIceberg (``table.transaction()``) in one step, each on another table.

        Their tables come from this library, or from PyIceberg's own catalogs on the same database or server.

        Returns:
            The number of the catalog's transaction; None if nothing changed.

        Raises:
            CommitFailed: a table does not meet a transaction's requirements; nothing was committed.
            InvalidArgument: not transactions of PyIceberg, or two of one table.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///commit_iceberg.db", warehouse="commit_iceberg")
        >>> catalog.create_namespace("shop")
        >>> events = catalog.create_table("shop.events", {"id": [1]}, format="iceberg")
        >>> change = events.pyiceberg().transaction()
        >>> _ = change.set_properties({"owner": "Daisy"})
        >>> _ = catalog.commit_iceberg(change)
        >>> events.properties["owner"]
        'Daisy'
        """
        changes = pyiceberg_client.changes_of(transactions)
        done = self.iceberg.commit(changes, writer_name())
        pyiceberg_client.finish(transactions)
        return done.seq  # type: ignore[union-attr]

    def sql(self, text: str, /, spark: Any = None, **parameters: Any) -> Any:
        """Run SQL over the catalog's tables: statements and arguments are those of :mod:`deltanb.sql
        <deltanb.sql>`, names with a namespace are the catalog's first.

        ``BEGIN ATOMIC … END`` and ``BEGIN TRANSACTION; … COMMIT`` commit statements over several tables
        together, as :meth:`transaction` does, and return the transaction.

        Raises:
            InvalidQuery: a text that is no such statement, with line and column.
            TableNotFound: a name that means nothing.
            DeltaConcurrentModificationException: another commit conflicts; nothing of the transaction landed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///shop.db", warehouse="shop")
        >>> _ = catalog.sql("CREATE SCHEMA shop; CREATE TABLE shop.stock AS SELECT 1 AS id, 7 AS n;"
        ...                 "CREATE TABLE shop.sold (id int, n int)")
        >>> catalog.sql('''BEGIN ATOMIC
        ...     INSERT INTO shop.sold SELECT id, :n FROM shop.stock WHERE id = :id;
        ...     UPDATE shop.stock SET n = n - :n WHERE id = :id;
        ... END''', id=1, n=2).committed.versions == {"shop.sold": 1, "shop.stock": 1}
        True
        >>> catalog.sql("SELECT n FROM shop.stock").rows.to_pylist()
        [{'n': 5}]
        """
        return upper.run_sql(text, None, spark, parameters, self)

    def snapshot(self, names: Iterable[Any]) -> CatalogSnapshot:
        """Tables as they are at one instant, now.

        Raises:
            TableNotFound: one of them does not exist.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///snapshot.db", warehouse="snapshot")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> then = catalog.snapshot(["shop.ducks"])
        >>> _ = ducks.append({"id": [2]})
        >>> then["shop.ducks"].count(), ducks.count()
        (1, 2)
        """
        table_names = as_list(names, "names")
        return CatalogSnapshot(self, self.store.instant(), table_names)

    def as_of(self, moment: int | str | dt.datetime, names: Iterable[Any] = ()) -> CatalogSnapshot:
        """Tables as they were at a time: epoch milliseconds, a datetime, or ISO 8601 text.

        Raises:
            TableNotFound: one of them did not exist.
            InvalidArgument: an invalid time, or names that are not a list.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///as_of.db", warehouse="as_of")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.as_of(dn.options.options.clock())["shop.ducks"].count()
        1
        """
        from deltanb.log.commit_times import to_milliseconds

        time, table_names = to_milliseconds(moment), as_list(names, "names")
        if abs(time) >= 2**63:
            raise InvalidArgument(f"a time is epoch milliseconds in 64 bits, found {shown(moment)}")
        return CatalogSnapshot(self, self.store.instant(time), table_names)

    def history(self, limit: int | None = None) -> CatalogHistory:
        """The catalog's transactions, newest first; at most ``limit`` of them.

        An immutable sequence; ``.names`` has the names of the tables by their ids.

        Raises:
            InvalidArgument: a limit below 1.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///history.db", warehouse="history")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> len(catalog.history())
        1
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
        """The current names of tables by id; dropped tables are left out.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///names_of.db", warehouse="names_of")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> row = catalog.page("shop").items[0]
        >>> list(catalog.names_of([row.table_id]).values())
        ['shop.ducks']
        """
        names: dict[str, str] = self.store.names_of(table_ids)
        return names

    def timeline(self, start: Any = None, end: Any = None) -> upper.CatalogTimeline:
        """The catalog's transactions as a picture, with a lane per table and ties between a transaction's
        tables.

        Args:
            start, end: the first and the last transaction, by number or by time; by default the newest 400.

        Returns:
            A :class:`~deltanb.observe.catalog_timeline.CatalogTimeline`.

        Raises:
            InvalidArgument: neither a number nor a time.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///timeline.db", warehouse="timeline")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.timeline().save("as_drawn.svg").name
        'as_drawn.svg'
        """
        return upper.CatalogTimeline.of(self, start, end)

    def overview(self, most: int = 20) -> Overview:
        """The catalog at a glance, as its picture shows it: at most ``most`` tables and transactions.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///overview.db", warehouse="overview")
        >>> catalog.create_namespace("shop")
        >>> ducks = catalog.create_table("shop.ducks", {"id": [1]})
        >>> catalog.overview().num_tables
        1
        """
        overview: Overview = self.store.overview(most)
        return overview

    def table_at(self, name: TableName, seq: int) -> tuple[DeltaLog, Snapshot] | Loaded:
        """A table after a transaction of the catalog: a Delta table's log and snapshot, or an Iceberg table.

        Raises:
            TableNotFound: the table does not exist, or did not exist then.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///then.db", warehouse="then")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.ducks", {"id": [1]})
        >>> newest = catalog.history()[0].seq
        >>> _, snapshot = catalog.table_at("shop.ducks", newest)
        >>> snapshot.version
        0
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
        snapshot = log.snapshot  # the catalog has just said which version: it is not asked once more
        if snapshot.version < version:
            snapshot = log.update()
        return log, snapshot if snapshot.version == version else log.snapshot_at(version)
