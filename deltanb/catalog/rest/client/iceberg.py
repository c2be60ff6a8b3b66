"""Iceberg tables of a catalog behind a server: read in place, changed by the server.

What lives here: :class:`RemoteIcebergTables`. A table's metadata is read where it lies; a commit sends its
requirements and updates, and the server checks them and writes the new metadata file.
What it does not know: HTTP (``connection``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltanb.catalog.iceberg.commit import Change, Committed, IcebergTable
from deltanb.catalog.iceberg.member import IcebergMember
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.client.store import ICEBERG_ENDPOINTS, RemoteRatified, RemoteStore
from deltanb.catalog.rest.forms import IcebergChange
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.ratification import Ratified, Refused
from deltanb.errors import CommitFailed, CommitOutcomeUnknown, StorageError
from deltanb.transaction.ids import deciding_id

__all__ = ["RemoteIcebergTables"]

TRIES = 3  # of a commit that is not answered, each after the one before was given up


class RemoteMember(IcebergMember):
    """An Iceberg table's part in a commit of several: what is asked of it is sent with the ratification."""

    def stage(self, version: int, body: bytes) -> Any:
        """What the server is asked for; nothing is written before it is ratified."""
        assert self.change is not None
        return IcebergChange(
            self.table_id, self.name, list(self.change.requirements), list(self.change.updates))


class RemoteIcebergTables(IcebergTables):
    """The Iceberg tables of a catalog behind a server."""

    is_remote = True

    def __init__(self, store: RemoteStore, warehouse: Warehouse) -> None:
        super().__init__(store, warehouse)  # type: ignore[arg-type]
        self._remote = store
        self.commit = self._commit  # type: ignore[assignment]

    def part(self, table: IcebergTable, change: Change | None) -> IcebergMember:
        """A table's part in a commit of several."""
        return RemoteMember(self.committer, table, change)

    def _commit(
        self, changes: Sequence[Change], principal: str | None = None, answer: None = None,
        summary: str | None = "commit",
    ) -> Committed:
        """Change many tables, all or none.

        Raises:
            CommitFailed: ``.failed_requirements`` has every requirement of every table that is not met.
            CommitOutcomeUnknown: the server does not say whether it landed.
            BadRequest, TableNotFound, StorageError: nothing was changed.
        """
        txn_id = f"txn-{deciding_id(self._remote.place_of_ids)}"
        proposals = [IcebergChange(None, change.name, list(change.requirements), list(change.updates))
                     for change in changes]
        done = self._landed(txn_id, principal, proposals, summary)
        names = [change.name for change in changes]
        if isinstance(done, RemoteRatified) and done.metadata_locations:
            return Committed(txn_id, done.seq, tuple(
                IcebergTable(name, None, place, self.files.read(place))
                for name, place in zip(names, done.metadata_locations, strict=True)))
        loaded = self.load_many(names)
        return Committed(txn_id, done.seq, tuple(loaded[name] for name in names))

    def _landed(
        self, txn_id: str, principal: str | None, proposals: list[IcebergChange], summary: str | None
    ) -> Ratified | RemoteRatified:
        """What became of a transaction; one that is not answered is asked for, and sent again if it is not
        there."""
        unknown: CommitOutcomeUnknown | None = None
        for _ in range(TRIES):
            try:
                verdict = self._remote.ratify(txn_id, principal, proposals, summary=summary)
            except CommitOutcomeUnknown as error:
                unknown, landed = error, self._remote.outcome(txn_id)
                if landed is not None:
                    return landed
                continue
            if not isinstance(verdict, Refused):
                return verdict
            names = ", ".join(str(each.name) for each in proposals)
            raise CommitFailed(f"Transaction failed: {names}: others keep changing these tables; try "
                               "again", failed_requirements=[])
        raise StorageError(
            f"the catalog at {self._remote.url} did not answer {TRIES} times; nothing was committed",
            path=self._remote.url) from unknown

    def create(  # type: ignore[override]
        self, name: Any, schema: Json, partition_spec: Json | None = None, sort_order: Json | None = None,
        location: str | None = None, properties: Mapping[str, str] | None = None,
        principal: str | None = None,
    ) -> IcebergTable:
        """Make a table; the server writes its metadata."""
        return self._made("create_table", name, {
            "schema": schema, "partition-spec": partition_spec, "write-order": sort_order,
            "location": location, "properties": dict(properties or {})})

    def register(  # type: ignore[override]
        self, name: Any, metadata_location: str, overwrite: bool = False, principal: str | None = None,
    ) -> IcebergTable:
        """Make a table of a metadata file that is there."""
        return self._made(
            "register_table", name, {"metadata-location": metadata_location, "overwrite": overwrite})

    def _made(self, endpoint: str, name: Any, value: Json) -> IcebergTable:
        name = TableName.of(name)
        loaded = self._remote.connection.send(
            ICEBERG_ENDPOINTS[endpoint], {"namespace": name.namespace, "name": name.name, **value})
        return IcebergTable(name, None, loaded.get("metadata-location"), loaded["metadata"])

    def drop(  # type: ignore[override]
        self, name: Any, purge: bool = False, principal: str | None = None
    ) -> None:
        """Take a table out of the catalog; with ``purge`` the server deletes its files as well."""
        name = TableName.of(name)
        self._remote.connection.send(ICEBERG_ENDPOINTS["drop_table"], {
            "namespace": name.namespace, "table": name.name, "purgeRequested": purge})
