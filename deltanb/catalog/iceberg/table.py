"""The handle of an Iceberg table of a catalog, alone and within a transaction of several tables.

What lives here: :class:`IcebergTable`, whose rows PyIceberg reads and writes, and
:class:`StagedIcebergTable`, whose changes wait for the transaction's commit.
What it does not know: Iceberg's rules (``iceberg``), how PyIceberg is called (``pyiceberg_client``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal

from deltanb.catalog.iceberg import pyiceberg_client
from deltanb.catalog.iceberg.commit import Change
from deltanb.catalog.iceberg.commit import IcebergTable as Loaded
from deltanb.catalog.iceberg.file_io import file_io_properties
from deltanb.catalog.iceberg.metadata.document import apply
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.iceberg.metadata.requirements import check, commit_failed
from deltanb.catalog.store.names import TableName
from deltanb.commands.result import CommandResult
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.options import options, writer_name
from deltanb.sql.conditions import Where, text_of
from deltanb.table.contract import Askable, Asked, Call, declaration_of, like
from deltanb.table.frame import Frame
from deltanb.table.table import DeltaTable
from deltanb.text.display import Displayable
from deltanb.text.spellings import SpeltClass

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.catalog.iceberg.member import IcebergMember
    from deltanb.catalog.iceberg.tables import IcebergTables

__all__ = ["IcebergTable", "PinnedIcebergTable", "StagedIcebergTable"]


class IcebergTable(Frame, Displayable, Askable, SpeltClass, place="iceberg"):
    """An Iceberg table of a catalog.

    Its metadata is read here; its rows are read and written by PyIceberg, which commits through the catalog.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> table = catalog.create_table("shop.events", "id bigint, what string", format="iceberg")
    >>> table.column_names, table.snapshot_id
    (['id', 'what'], None)
    """

    def __init__(self, tables: IcebergTables, name: TableName) -> None:
        self.tables, self.full_name = tables, name
        self._known: Loaded | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if declaration_of(DeltaTable, name) is not None:
                raise AttributeError(
                    f"{type(self).__name__} has no {name}, which Delta tables have; pyiceberg() is the table "
                    "as PyIceberg's, with methods of its own", name=name, obj=self)
            return super().__getattr__(name)

    @property
    def name(self) -> str:
        """The name in the catalog, with its namespace.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_name.db", warehouse="ice_name")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.name
        'shop.orders'
        """
        return str(self.full_name)

    def loaded(self) -> Loaded:
        """The table as it is now.

        Raises:
            TableNotFound: it was dropped or renamed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_loaded.db", warehouse="ice_loaded")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.loaded().metadata["format-version"]
        2
        """
        self._known = self.tables.load(self.full_name)
        return self._known

    @property
    def known(self) -> Loaded:
        """The table as last seen by this handle, which its picture shows; loaded at first use.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_known.db", warehouse="ice_known")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> before = table.known
        >>> catalog.table("shop.orders").append({"id": [3]}).operation
        'WRITE'
        >>> table.known is before, table.loaded() is before
        (True, False)
        """
        return self.loaded() if self._known is None else self._known

    @property
    def metadata(self) -> Json:
        """The table's current metadata, the JSON of its metadata file; must not be modified.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_metadata.db", warehouse="ice_metadata")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> len(table.metadata["snapshots"])
        1
        """
        return self.loaded().metadata

    @property
    def location(self) -> str:
        """The URI of its folder.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_location.db", warehouse="ice_location")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.location.startswith("file:///")
        True
        """
        return str(self.metadata["location"])

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot; None if the table has no rows yet.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_snapshot.db", warehouse="ice_snapshot")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> result = table.append({"id": [3]})
        >>> table.snapshot_id == result.version
        True
        """
        snapshot_id = self.metadata.get("current-snapshot-id")
        return None if snapshot_id in (None, -1) else int(snapshot_id)

    @property
    def column_names(self) -> list[str]:
        """The names of the top-level columns.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_columns.db", warehouse="ice_columns")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.column_names
        ['id']
        """
        metadata = self.metadata
        schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
        return [field["name"] for field in schema["fields"]]

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_properties.db", warehouse="ice_properties")
        >>> catalog.create_namespace("shop")
        >>> settings = {"format": "iceberg", "properties": {"owner": "Daisy"}}
        >>> catalog.create_table("shop.orders", {"id": [1]}, **settings).properties["owner"]
        'Daisy'
        """
        return dict(self.metadata.get("properties", {}))

    def pyiceberg(self) -> Any:
        """The table as PyIceberg's ``Table``, whose commits go through this catalog.

        Raises:
            MissingDependency: PyIceberg is not installed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_client.db", warehouse="ice_client")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.pyiceberg().scan().to_arrow().num_rows
        2
        """
        return pyiceberg_client.table(
            self.full_name, self._read, self._commit, file_io_properties(self.tables.warehouse.store))

    def _read(self) -> Loaded:
        return self.loaded()

    def _commit(self, requirements: list[Json], updates: list[Json]) -> Loaded:
        done = self.tables.commit([Change(self.full_name, requirements, updates)], writer_name())
        self._known = done.tables[0]  # type: ignore[union-attr]
        return self._known

    @like(DeltaTable.to_arrow)
    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where | None = None, limit: int | None = None
    ) -> pa.Table:
        """All rows, or those for which a condition in PyIceberg's syntax is true.

        Raises:
            InvalidArgument: the condition cannot be parsed, or names an unknown column.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_arrow.db", warehouse="ice_arrow")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.to_arrow(columns=["id"], where="id > 1").to_pylist()
        [{'id': 2}]
        """
        where = self._condition(where)
        with pyiceberg_client.errors(self.name):
            return self._scan_of(columns, where, limit).to_arrow()

    @like(DeltaTable.to_batches)
    def to_batches(
        self, columns: Sequence[str] | None = None, where: Where | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows as a stream of batches; arguments and errors are those of :meth:`to_arrow`.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_batches.db", warehouse="ice_batches")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.to_batches().read_all().num_rows
        2
        """
        where = self._condition(where)
        with pyiceberg_client.errors(self.name):
            return self._scan_of(columns, where, limit).to_arrow_batch_reader()

    @like(DeltaTable.count)
    def count(self, where: Where | None = None) -> int:
        """The number of rows, or of those for which a condition in PyIceberg's syntax is true; from the
        manifests where these say it.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_count.db", warehouse="ice_count")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.count(), table.count("id = 1")
        (2, 1)
        """
        where = self._condition(where)
        with pyiceberg_client.errors(self.name):
            return int(self._scan_of(None, where).count())

    def _condition(self, where: Where | None) -> str | None:
        """A condition in PyIceberg's syntax, which a text is already."""
        return where if where is None or isinstance(where, str) else text_of(where, self._arrow_schema)

    def _scan_of(
        self, columns: Sequence[str] | None, where: Where | None, limit: int | None = None
    ) -> Any:
        return self.pyiceberg().scan(
            **({} if where is None else {"row_filter": where}),
            selected_fields=("*",) if columns is None else tuple(columns), limit=limit)

    @like(DeltaTable.append)
    def append(self, data: Any) -> CommandResult:
        """Add rows: any data that a Delta table's ``append`` takes, except Spark's.

        Returns:
            The id of the snapshot, and its metrics under Iceberg's names.

        Raises:
            CommitFailed: another commit was first; nothing was changed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_append.db", warehouse="ice_append")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> table.append({"id": [3]}).metrics["added-records"], table.count()
        (1, 3)
        """
        return self._write("append", data)

    @like(DeltaTable.overwrite)
    def overwrite(self, data: Any) -> CommandResult:
        """Replace all rows. PyIceberg makes two snapshots for it, whose metrics are added.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_overwrite.db", warehouse="ice_overwrite")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> _ = table.overwrite({"id": [7]})
        >>> table.to_arrow().to_pylist()
        [{'id': 7}]
        """
        return self._write("overwrite", data)

    @like(DeltaTable.delete)
    def delete(self, where: Where | None = None) -> CommandResult:
        """Delete the rows for which a condition in PyIceberg's syntax is true; all rows without one.

        Raises:
            InvalidArgument: the condition cannot be parsed, or names an unknown column.
            CommitFailed: another commit was first; nothing was changed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_delete.db", warehouse="ice_delete")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> _ = table.delete("id = 1")
        >>> table.to_arrow().to_pylist()
        [{'id': 2}]
        """
        where = self._condition(where)
        return self._run("DELETE", lambda table: table.delete(*(() if where is None else (where,))))

    @like(DeltaTable.truncate)
    def truncate(self) -> CommandResult:
        """Delete all rows; PyIceberg makes a snapshot of the operation ``delete`` of it.

        Raises:
            CommitFailed: another commit was first; nothing was changed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///ice_truncate.db", warehouse="ice_truncate")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.orders", {"id": [1, 2]}, format="iceberg")
        >>> _ = table.truncate()
        >>> table.count()
        0
        """
        return self._run("TRUNCATE", lambda table: table.delete())

    @like(DeltaTable.upsert)
    def upsert(self, source: Any, on: str | Sequence[str]) -> CommandResult:
        """Update the rows whose keys the source has, and insert its other rows. PyIceberg does not write rows
        again that have the source's values already.

        Raises:
            MultipleSourceRowsMatched: several rows of the source have one key.
            InvalidArgument: the table or the source lacks a column of ``on``.
            CommitFailed: another commit was first; nothing was changed.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///shop.db", warehouse="shop")
        >>> catalog.create_namespace("shop")
        >>> table = catalog.create_table("shop.events", {"id": [1], "what": ["click"]}, format="iceberg")
        >>> _ = table.upsert({"id": [1, 2], "what": ["buy", "click"]}, on="id")
        >>> table.to_arrow().sort_by("id").to_pydict()
        {'id': [1, 2], 'what': ['buy', 'click']}
        """
        import pyarrow.compute as pc

        from deltanb.commands.merge import keys

        with pyiceberg_client.errors(self.name):
            rows = pyiceberg_client.fitted(self.pyiceberg(), _rows("upsert", source), self.name)
        names = keys.check(
            keys.columns_of(on, "upsert"), self.name, self.column_names, rows.column_names)
        repeated = keys.repeated(names, rows)
        if repeated is not None:
            raise keys.refusal(self.name, *repeated)
        is_whole = reduce(pc.and_, (pc.is_valid(rows[name]) for name in names))

        def work(table: Any) -> None:
            with table.transaction() as txn:
                for part, write in ((is_whole, partial(txn.upsert, join_cols=names)),
                                    (pc.invert(is_whole), txn.append)):
                    some = rows.filter(part)
                    if some.num_rows:
                        write(some)

        return self._run("MERGE", work)

    # -- as a frame (table/frame) ---------------------------------------------------------------------------

    def _column_names(self) -> list[str]:
        return self.column_names

    def _arrow_schema(self) -> pa.Schema:
        with pyiceberg_client.errors(self.name):
            return self.pyiceberg().schema().as_arrow()

    # -- how ------------------------------------------------------------------------------------------------

    def _run(self, operation: str, work: Callable[[Any], object]) -> CommandResult:
        """Run work on PyIceberg's table; returns the result of what it committed."""
        made: list[Json] = []

        def commit(requirements: list[Json], updates: list[Json]) -> Loaded:
            done = self._commit(requirements, updates)
            made.extend(update["snapshot"] for update in updates if update["action"] == "add-snapshot")
            return done

        with pyiceberg_client.errors(self.name):
            work(pyiceberg_client.table(
                self.full_name, self._read, commit, file_io_properties(self.tables.warehouse.store)))
        newest = int(made[-1]["snapshot-id"]) if made else None
        return CommandResult(operation, newest, "pyiceberg", _counted(made))

    def _write(self, how: str, data: Any) -> CommandResult:
        rows = _rows(how, data)
        return self._run("WRITE", lambda table: getattr(table, how)(
            pyiceberg_client.fitted(table, rows, self.name)))


def _rows(how: str, data: Any) -> pa.Table:
    import pyarrow as arrow

    from deltanb.engines.arrow import enforce, inputs

    if inputs.is_spark(data):
        raise InvalidArgument(
            f"{how}: rows of an Iceberg table are written by PyIceberg, which takes no Spark DataFrame; "
            "give Arrow or pandas, or write with Spark through the catalog's server")
    source = inputs.source(data)
    rows = arrow.Table.from_batches(source.batches(), source.schema)
    columns = [arrow.chunked_array([enforce.decoded(chunk) for chunk in column.chunks or [
        arrow.nulls(0, column.type)]]) for column in rows.columns]  # not all of PyIceberg takes other forms
    return arrow.table(columns, names=rows.column_names)


def _counted(snapshots: Sequence[Json]) -> dict[str, int]:
    """The sums of snapshots' summaries, without the table's totals.

    >>> _counted([{"summary": {"operation": "append", "added-records": "2", "total-records": "9"}}])
    {'added-records': 2}
    """
    counts: dict[str, int] = {}
    for snapshot in snapshots:
        for name, value in snapshot.get("summary", {}).items():
            if not name.startswith("total-") and str(value).isdigit():
                counts[name] = counts.get(name, 0) + int(value)
    return counts


class PinnedIcebergTable(IcebergTable):
    """An Iceberg table at one instant, read-only."""

    def __init__(self, tables: IcebergTables, then: Loaded) -> None:
        super().__init__(tables, then.name)
        self._then = then

    def loaded(self) -> Loaded:
        """The table as it was."""
        return self._then

    @property
    def _reads_at(self) -> Literal["past"]:
        return "past"

    def _admit(self, asked: Asked) -> None:
        if not asked.does.is_read:
            self._commit([], [])

    def _commit(self, requirements: list[Json], updates: list[Json]) -> Loaded:
        raise IllegalStateError(
            f"this is the table {self.name} as it was, which can be read only; write to the table itself: "
            f"catalog.table({self.name!r})")


class StagedIcebergTable(IcebergTable):
    """An Iceberg table within a transaction of its catalog: changes wait for the commit of all tables.

    Every change sees those before it, and is checked when it is made; at the commit, the requirements are
    checked again against the current table.
    """

    def __init__(
        self, tables: IcebergTables, base: Loaded, check_open: Callable[[str], None]
    ) -> None:
        super().__init__(tables, base.name)
        self.base, self.now = base, base
        self.updates: list[Json] = []
        """What was done, in order."""
        self.requirements: list[Json] = []
        """What was required of the table as it was read."""
        self.is_read = False
        self._check_open = check_open

    @property
    def _reads_at(self) -> Literal["transaction"]:
        return "transaction"

    def _admit(self, asked: Asked) -> None:
        if not asked.does.is_read:
            self._check_open(asked.name)

    def _perform(self, call: Call) -> Any:
        return CommandResult.staged(super()._perform(call))

    def loaded(self) -> Loaded:
        """The table after the last change, without new commits of others."""
        return self.now

    def _read(self) -> Loaded:
        self.is_read = True
        return self.now

    def _commit(self, requirements: list[Json], updates: list[Json]) -> Loaded:
        self._check_open("commit")
        failed = check(requirements, self.now.metadata)
        if failed:
            raise commit_failed(failed)
        after = apply(updates, self.now.metadata, options.clock(), previous_file=self.base.metadata_location)
        # What holds of the staged table alone was said of what an earlier change has made of it.
        self.requirements += [each for each in requirements
                              if each not in self.requirements and not check([each], self.base.metadata)]
        self.updates += updates
        self.now = Loaded(self.base.name, self.base.table_id, self.base.metadata_location, after)
        return self.now

    @property
    def is_read_only(self) -> bool:
        """Whether nothing was changed."""
        return not self.updates

    @property
    def operations(self) -> list[str]:
        """The operations so far, update by update."""
        return [str(update.get("action", "?")) for update in self.updates]

    @property
    def reads(self) -> list[str]:
        """What was read: everything or nothing, since any change of the table counts."""
        return ["TRUE"] if self.is_read else []

    @property
    def takes_part(self) -> bool:
        """Whether it was read or changed."""
        return bool(self.updates) or self.is_read

    def part(self) -> IcebergMember:
        """Its part in the commit."""
        change = Change(self.full_name, self.requirements, self.updates) if self.updates else None
        return self.tables.part(self.base, change)

    def delete_written(self) -> None:
        """Delete the files that PyIceberg wrote for discarded changes."""
        if self.updates:
            pyiceberg_client.delete_new_files(
                self.base, self.now, file_io_properties(self.tables.warehouse.store))

