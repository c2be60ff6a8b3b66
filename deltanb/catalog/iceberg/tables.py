"""The Iceberg tables of a catalog: created, registered, loaded, renamed, dropped, and committed to.

What lives here: the life of a table, in the catalog's database and the warehouse's files. Servers over HTTP
and catalogs in the process use :class:`IcebergTables`.
What it does not know: HTTP, and Delta tables, except that their names are taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltanb.catalog.iceberg.commit import (
    GRACE,
    AnswerFor,
    Change,
    Committed,
    Committer,
    IcebergTable,
    Member,
    Prepared,
    moved_again,
    not_iceberg,
)
from deltanb.catalog.iceberg.member import IcebergMember
from deltanb.catalog.iceberg.metadata.document import new_metadata
from deltanb.catalog.iceberg.metadata.fields import Json, refuse
from deltanb.catalog.iceberg.metadata_files import MetadataFiles
from deltanb.catalog.limits import Limits
from deltanb.catalog.store.contents import delete_folder, first_file, table_around
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ownership import EVERYONE, STAGED, FolderNote, key_of, staged_id
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.ratification import IcebergSwap, Ratified, Refused
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import TableRow, taken
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.errors import InvalidArgument, InvalidTable, NamespaceNotFound
from deltanb.log.commits import LOG_FOLDER
from deltanb.options import options
from deltanb.store.base import LogStore
from deltanb.text.safe_text import shown
from deltanb.transaction.ids import deciding_id, new_table_id

__all__ = ["IcebergTables"]

FORMAT_VERSION = "format-version"
NEW_TABLES_VERSION = 2
_ITS_LOCATION = "metadata-location: its location"
READ_AGAIN = 3  # times that a table is looked up whose metadata file is gone: another one may follow it


class IcebergTables:
    """The Iceberg tables of a catalog with one warehouse.

    >>> with CatalogStore("sqlite:///catalog.db") as store:
    ...     store.namespaces.create("sales")
    ...     tables = IcebergTables(store, "lake")
    ...     column = {"id": 1, "name": "total", "type": "long", "required": False}
    ...     made = tables.create("sales.orders", {"type": "struct", "fields": [column]})
    ...     update = {"action": "set-properties", "updates": {"owner": "ada"}}
    ...     done = tables.commit([Change(made.name, [], [update])])
    ...     tables.load("sales.orders").metadata["properties"], done.seq
    ({'owner': 'ada'}, 2)
    """

    owner: Any = None
    """The handle of the catalog that they are of."""

    def __init__(
        self, store: CatalogStore, warehouse: str | os.PathLike[str] | LogStore | Warehouse,
        limits: Limits | None = None,
    ) -> None:
        self.store = store
        self.warehouse = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
        self.files = MetadataFiles(self.warehouse)
        if isinstance(store, CatalogStore):  # else the server reads them
            store.foreign.read_metadata = self.files.read
        self.committer = Committer(store, self.files, limits)
        self.commit = self.committer.commit

    is_remote = False
    """Whether a server commits, and says what one commit may ask for."""

    def create(
        self, name: Any, schema: Json, partition_spec: Json | None = None, sort_order: Json | None = None,
        location: str | None = None, properties: Mapping[str, str] | None = None, staged: bool = False,
        principal: str | None = None, answer: AnswerFor | None = None,
    ) -> IcebergTable | Replayed:
        """Create a table, or if ``staged`` only its metadata: a commit with ``assert-create`` creates it.

        Raises:
            TableAlreadyExists: the name is taken, by a table of any format or a view.
            NamespaceNotFound: its namespace is not there.
            BadRequest: an argument is malformed, or the location is outside of the warehouse.
            StorageError: the file or the database cannot be written; nothing was changed.
        """
        name, uuid = TableName.of(name), new_table_id()
        properties = dict(properties or {})
        self._require_free(name)
        place = self.committer.own_place(
            self.warehouse.new_location(name, uuid) if location is None else location, "location", name)
        metadata = new_metadata(
            schema, place, partition_spec, sort_order, properties, _format_version(properties), uuid,
            options.clock())
        if staged:
            what = FolderNote(STAGED, staged_id(self.store.name, name), principal or EVERYONE)
            self.store.tables.note_folder(place, what, options.clock() + GRACE)
            return IcebergTable(name, None, None, metadata)
        file = self.files.new(metadata, None)
        table = IcebergTable(name, new_table_id(), file.location, metadata)
        self.committer.record([file.location])
        try:
            self.files.write(file)
        except BaseException:
            self.committer.discard([file.location])
            raise
        return self._land(Member(Change(name), None, table, file, (place,)), principal, answer, "create")

    def _land(
        self, member: Member, principal: str | None, answer: AnswerFor | None, summary: str
    ) -> IcebergTable | Replayed:
        """Commit a new table, or a new metadata file of a table."""
        prepared = Prepared((member,))
        txn_id = deciding_id(self.store.place_of_ids)
        result = self.committer.land(prepared, txn_id, principal, answer, summary)
        if isinstance(result, Refused):
            self.committer.discard(prepared.written)
            raise taken(member.change.name)
        return result if isinstance(result, Replayed) else member.after

    def _require_free(self, name: TableName) -> None:
        if not self.store.namespaces.exists(name.namespace):
            space = ".".join(name.namespace)
            raise NamespaceNotFound(f"there is no namespace {space}; create it first", namespace=space)
        if self.store.tables.find_many([name]):
            raise taken(name)

    def register(
        self, name: Any, metadata_location: str, overwrite: bool = False, principal: str | None = None,
        answer: AnswerFor | None = None, allow: Callable[[tuple[str, ...]], None] = lambda namespace: None,
    ) -> IcebergTable | Replayed:
        """Register a table by an existing metadata file; with ``overwrite``, it may replace another one.

        ``allow`` refuses files of a dropped table, by the namespace it was in.

        Raises:
            TableAlreadyExists: the name is taken, and either ``overwrite`` is False or it is a Delta table.
            NamespaceNotFound: its namespace is not there.
            BadRequest: the file, or the location in it, is outside of the warehouse, or another table's, or
                the file does not lie where its table's files are.
            InvalidTable: there is no such file, or it is not a table's metadata.
            CommitTimedOut: others kept changing the table.
        """
        name = TableName.of(name)
        metadata = self.files.read(metadata_location)
        place = self._registered_place(metadata_location, metadata)
        if not isinstance(metadata.get("table-uuid"), str | None):
            raise InvalidTable(
                f"{metadata_location} has a table-uuid that is not a string", file=metadata_location)
        with self.committer.limits.began() as deadline:
            while True:
                row = self.store.tables.find_many([name]).get(name) if overwrite else None
                if row is not None and row.format != "iceberg":
                    raise taken(name)
                if row is None:
                    self._require_free(name)
                table_id = new_table_id() if row is None else str(row.table_id)
                claims = self.store.tables.claims_on(place, [table_id])
                if claims.other is not None:
                    refuse(_ITS_LOCATION, f"is the folder of another table, or lies inside or around one: "
                                          f"{shown(place)}")
                for namespace in claims.left_in:
                    allow(namespace)
                table = IcebergTable(name, table_id, metadata_location, metadata)
                done = self._registered(row, table, place, principal, answer)
                if not isinstance(done, Refused):
                    return table if isinstance(done, Committed) else done
                if not overwrite:
                    raise taken(name)
                deadline.require(moved_again([name]))

    def _registered_place(self, file: str, metadata: Json) -> str:
        """The folder of a table, by its metadata file: its location, if the file is where metadata files
        belong.

        A file elsewhere, even deeper in the folder, could claim any folder for a table, whose purge would
        empty it.
        """
        place = self.warehouse.table_location(metadata["location"], _ITS_LOCATION)
        name = self.warehouse.name_of(place, _ITS_LOCATION)
        folder = self.warehouse.table_location(file, "metadata-location").rpartition("/")[0]
        if self.warehouse.name_of(folder, "metadata-location") not in (name, f"{name}/metadata"):
            refuse("metadata-location", f"{shown(file)} does not lie in the metadata folder of the location "
                                        f"that it names, {shown(place)}: move it there")
        around = table_around(self.warehouse.store, name)
        log = first_file(self.warehouse.store, f"{name}/{LOG_FOLDER}")
        if around is not None or log is not None:
            refuse(_ITS_LOCATION, "is the folder of a Delta table" if around is None else
                   f"lies in the folder of another table, {around or self.warehouse.uri}")
        return place

    def _registered(
        self, row: TableRow | None, table: IcebergTable, place: str, principal: str | None,
        answer: AnswerFor | None,
    ) -> Committed | Replayed | Refused:
        before = None if row is None else row.metadata_location
        swap = IcebergSwap(
            str(table.table_id), table.name, before, str(table.metadata_location), (place,))
        committed = Committed(deciding_id(self.store.place_of_ids), None, (table,))
        result = self.store.ratify(
            committed.txn_id, principal, [swap], answer=None if answer is None else answer(committed),
            summary="register")
        return committed if isinstance(result, Ratified) else result

    def part(self, table: IcebergTable, change: Change | None) -> IcebergMember:
        """A table's part in a commit of several, as it was read; without a change it must not move."""
        return IcebergMember(self.committer, table, change)

    def load(self, name: Any) -> IcebergTable:
        """A table as it is.

        Raises:
            TableNotFound: no Iceberg table of that name.
            InvalidTable: its metadata file is gone, or damaged.
        """
        name = TableName.of(name)
        return self.load_many([name])[name]

    def load_many(self, names: Iterable[Any]) -> dict[TableName, IcebergTable]:
        """Tables as they were at one instant.

        Raises:
            TableNotFound: one of them is not there.
            InvalidTable: a metadata file is gone, or damaged.
        """
        unique = list(dict.fromkeys(map(TableName.of, names)))
        for last in (*[False] * (READ_AGAIN - 1), True):
            rows = self.store.tables.load_many(unique)
            for name in unique:
                _require_iceberg(rows[name])
            try:
                return {name: self._read(row) for name, row in rows.items()}
            except InvalidTable:  # of a table that moved on meanwhile, or for good
                if last or self.store.tables.find_many(unique) == rows:
                    raise
        raise AssertionError("unreachable")

    def _read(self, row: TableRow) -> IcebergTable:
        location = str(row.metadata_location)
        return IcebergTable(row.name, row.table_id, location, self.files.read(location, must_exist=True))

    def row(self, name: Any) -> TableRow:
        """A table's row, without its metadata.

        Raises:
            TableNotFound: no Iceberg table of that name.
        """
        row = self.store.tables.load(name)
        _require_iceberg(row)
        return row

    def rename(self, old: Any, new: Any, registry: Registry | None = None) -> None:
        """Rename a table; ``registry`` replaces the catalog's.

        Raises:
            TableNotFound: no Iceberg table of the old name.
            TableAlreadyExists: the new name is taken.
            NamespaceNotFound: the new namespace is not there.
        """
        self.row(old)
        (registry or self.store.tables).rename(old, new)

    def drop(
        self, name: Any, purge: bool = False, principal: str | None = None, registry: Registry | None = None
    ) -> None:
        """Drop a table; with ``purge``, also delete every file below its location and its previous ones.
        Unregistered tables inside stay.

        Raises:
            TableNotFound: no Iceberg table of that name.
            InvalidArgument: a purge is refused, because files of another table are below its location or its
            own
                below another's, its path has a link, or its metadata names a folder that is not its own in
                the catalog; nothing was changed.
            StorageError: not all files could be deleted; the table is dropped.
        """
        row = self.row(name)
        places = self._purged_places(row) if purge else []
        (registry or self.store.tables).drop(
            row.name, principal, table_id=row.table_id, purged_places=places,
            purged_from=options.clock() if purge else None, purged_by=principal)
        self.files.forget(str(row.metadata_location))
        for place in places:
            delete_folder(self.warehouse.store, self.warehouse.name_of(place, "location"))
            self.store.tables.forget_folder(place)  # until here it is swept where this process ends

    def _purged_places(self, row: TableRow) -> list[str]:
        """The folders to purge, which no other table may share."""
        location = self._read(row).metadata["location"]
        mine = self.store.tables.claims_on(location, [row.table_id]).mine
        places = dict(zip(mine, mine, strict=True))
        if key_of(location) not in places:  # its file was written over, or lies elsewhere
            raise InvalidArgument(
                f"{row.name} cannot be purged: its metadata names {location}, which the catalog does not "
                "know as its folder; drop it without purging", path=location)
        places[key_of(location)] = location
        for place in places.values():
            self.warehouse.table_location(place, "location")
            around = table_around(self.warehouse.store, self.warehouse.name_of(place, "location"))
            if around and key_of(f"{self.warehouse.uri}/{around}") in places:
                around = None  # its own, in which it had another one before
            other = self.store.tables.claims_on(place, [row.table_id]).other or around
            if other is not None:
                raise InvalidArgument(
                    f"{row.name} cannot be purged: its location {place} and that of another table, "
                    f"{other}, lie in each other; drop it without purging", path=place)
        return list(places.values())


def _require_iceberg(row: TableRow) -> None:
    if row.format != "iceberg":
        raise not_iceberg([row.name], [row.name])


def _format_version(properties: Mapping[str, str]) -> int:
    text = properties.get(FORMAT_VERSION, str(NEW_TABLES_VERSION))
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > 3:
        refuse(f"properties.{FORMAT_VERSION}", f"must be 1, 2 or 3, found {text!r:.80}")
    return int(text)
