"""Commits to Iceberg tables: changes of several tables, prepared outside of the database, committed in it at
once.

What lives here: the algorithm. Read all rows at one instant; check the requirements of all tables and report
every failure; write the new metadata files; have the catalog's database move all tables or none. After a lost
race it starts again on fresh metadata, and reuses the files of tables that have not moved.
What it does not know: HTTP, and the meaning of a table's updates (``iceberg``).

Files are recorded as garbage before they are written, and the transaction that makes them a table's removes
that record. So whenever the process ends, a sweep knows which files belong to no table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from deltanb.catalog.iceberg.metadata import document as engine
from deltanb.catalog.iceberg.metadata import requirements as engine_requirements
from deltanb.catalog.iceberg.metadata.fields import Json, refuse
from deltanb.catalog.iceberg.metadata.requirements import FailedRequirement, check
from deltanb.catalog.iceberg.metadata.updates import parsed as parsed_updates
from deltanb.catalog.iceberg.metadata_files import MetadataFile, MetadataFiles
from deltanb.catalog.limits import Limits
from deltanb.catalog.store.contents import first_file
from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ownership import folder_of_file, staged_id
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, IcebergSwap, Ratified, Refused
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    DeltaError,
    TableNotFound,
)
from deltanb.log.commits import LOG_FOLDER
from deltanb.options import options
from deltanb.text.damage import reading
from deltanb.text.safe_text import shown
from deltanb.transaction.ids import deciding_id, new_table_id

__all__ = ["Change", "Committed", "Committer", "IcebergTable", "Prepared", "moved_again", "not_iceberg"]

GRACE = 24 * 3600 * 1000  # milliseconds after which a file that no commit took back may be swept


@dataclass(frozen=True)
class Change:
    """The change of one table; ``where`` is its path in the request, for messages."""

    name: TableName
    requirements: Sequence[Json] = ()
    updates: Sequence[Json] = ()
    where: str = ""

    def path(self, field: str) -> str:
        """The path of one of its fields in the request."""
        return f"{self.where}.{field}" if self.where else field


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table at one instant. A staged one has neither an id nor a file."""

    name: TableName
    table_id: str | None
    metadata_location: str | None
    metadata: Json = field(repr=False)
    """Shared with others: never write to it."""


@dataclass(frozen=True)
class Member:
    """One table of a commit: before, after, and the new metadata file if it moves."""

    change: Change
    before: TableRow | None
    after: IcebergTable
    file: MetadataFile | None
    places: tuple[str, ...] = ()
    """Folders that are its own from then on."""

    @property
    def step(self) -> IcebergSwap | Asserted | None:
        """The proposal or assertion for the catalog; None if nothing is required or changed."""
        if self.file is not None:
            pointer = None if self.before is None else self.before.metadata_location
            return IcebergSwap(str(self.after.table_id), self.change.name, pointer, self.file.location,
                               self.places)
        if self.change.requirements:
            return Asserted(str(self.after.table_id), self.change.name, str(self.after.metadata_location))
        return None


@dataclass(frozen=True)
class Prepared:
    """A commit ready to be ratified, its files written: alone, or with the commits of Delta tables."""

    members: tuple[Member, ...]

    @property
    def tables(self) -> tuple[IcebergTable, ...]:
        """The tables after the commit, in the order of the request."""
        return tuple(member.after for member in self.members)

    @property
    def proposals(self) -> list[IcebergSwap]:
        """The proposals for tables that move."""
        return [step for step in self._steps if isinstance(step, IcebergSwap)]

    @property
    def assertions(self) -> list[Asserted]:
        """The assertions for tables that have requirements and do not change."""
        return [step for step in self._steps if isinstance(step, Asserted)]

    @property
    def written(self) -> list[str]:
        """The locations of the new files, which ``ratify`` takes out of the garbage."""
        return [member.file.location for member in self.members if member.file is not None]

    @property
    def _steps(self) -> list[IcebergSwap | Asserted | None]:
        return [member.step for member in self.members]


@dataclass(frozen=True)
class Committed:
    """A commit that landed: the tables after it, and its place in the catalog's history (None: no change)."""

    txn_id: str
    seq: int | None
    tables: tuple[IcebergTable, ...]


AnswerFor = Callable[["Committed"], Answer]
"""What a commit will be answered, known before it lands: it is kept in the same transaction."""


class Committer:
    """Commits to the Iceberg tables of one catalog in one warehouse."""

    def __init__(self, store: CatalogStore, files: MetadataFiles, limits: Limits | None = None) -> None:
        self.store, self.files, self.limits = store, files, Limits.of(limits)

    def commit(
        self, changes: Sequence[Change], principal: str | None = None, answer: AnswerFor | None = None,
        summary: str | None = None,
    ) -> Committed | Replayed:
        """Change several tables, all or none.

        After a lost race it continues from the winner's metadata, as long as the requirements are met and
        time is left; changes without requirements are merged.

        ``answer`` makes the answer to store under the request's idempotency key; if another request with the
        key was first, its answer is returned instead and nothing changes.

        Raises:
            BadRequest: the request is malformed, over a limit, or names a table twice.
            TableNotFound: tables do not exist; the message names all of them.
            CommitFailed: ``.failed_requirements`` has every unmet requirement of every table.
            CommitTimedOut: it took too long, because the database was locked or others kept changing its
            tables,
                which the message names; nothing was changed.
            CommitOutcomeUnknown: the database does not know whether it landed; its files stay.
            StorageError: a file or the database cannot be written; nothing was changed.
        """
        self.check_request(changes)
        txn_id = f"txn-{deciding_id(self.store.place_of_ids)}"
        prepared, why = None, ""
        with self.limits.began() as deadline:
            while True:
                prepared = self.prepare(changes, prepared)
                if not deadline.left:
                    self.discard(prepared.written)
                    raise deadline.over(why)
                result = self.land(prepared, txn_id, principal, answer, summary)
                if not isinstance(result, Refused):
                    return result
                why = moved_again(member.change.name for member in prepared.members
                                  if member.after.table_id in result.latest)

    def check_request(self, changes: Sequence[Change]) -> None:
        """Check the whole request before anything is read.

        Raises:
            BadRequest: it is malformed, over a limit, or names a table twice.
        """
        if not changes:
            refuse("table-changes", "is empty: a commit changes at least one table")
        if len(changes) > self.limits.tables:
            refuse("table-changes", f"has {len(changes)} tables, and a commit may have {self.limits.tables}")
        for change in changes:
            if len(change.updates) > self.limits.updates:
                refuse(change.path("updates"), f"has {len(change.updates)} updates, and a table may have "
                                               f"{self.limits.updates}")
        seen: dict[TableName, Change] = {}
        for change in changes:
            if change.name in seen:
                refuse(change.path("identifier"), f"names {change.name} again; a table has one change")
            seen[change.name] = change
        for change in changes:
            engine_requirements.parsed(change.requirements, change.path("requirements"))
            parsed_updates(change.updates, change.path("updates"))

    def prepare(self, changes: Sequence[Change], before: Prepared | None = None) -> Prepared:
        """Check all tables as they are at one instant and write their new metadata files.

        With ``before``, a refused attempt, the files of tables that have not moved since are reused; the
        others are removed. If this raises, no file stays.

        Raises:
            BadRequest: an update cannot be applied.
            TableNotFound, CommitFailed: see :meth:`commit`.
            StorageError: a file cannot be read or written.
        """
        held = {} if before is None else {member.change.name: member for member in before.members}
        files = set() if before is None else set(before.written)
        try:
            rows = self._rows(changes)
            bases = {name: self.files.read(str(row.metadata_location)) for name, row in rows.items()}
            self._check(changes, rows, bases)
            members = tuple(
                held[change.name] if _stands(held.get(change.name), rows.get(change.name))
                else self._member(change, rows.get(change.name), bases.get(change.name), files)
                for change in changes)
            new = [member.file for member in members if member.file and member.file.location not in files]
            self.record(file.location for file in new)
            files.update(file.location for file in new)
            for file in new:
                self.files.write(file)
        except BaseException:
            self.discard(files)
            raise
        prepared = Prepared(members)
        self.discard(files - set(prepared.written))
        return prepared

    def _rows(self, changes: Sequence[Change]) -> dict[TableName, TableRow]:
        """The existing tables; the others are to be created."""
        rows = self.store.tables.find_many([change.name for change in changes])
        iceberg = {name: row for name, row in rows.items() if row.format == "iceberg"}
        missing = [change.name for change in changes if change.name not in iceberg and not _creates(change)]
        if missing:
            raise not_iceberg(missing, [name for name in missing if name in rows])
        taken = [change for change in changes if change.name in rows and change.name not in iceberg]
        if taken:
            raise _failed([(change, FailedRequirement(
                {"type": "assert-create"}, {"format": "delta"}, "Requirement failed: table already exists"))
                for change in taken])
        return iceberg

    def _check(
        self, changes: Sequence[Change], rows: dict[TableName, TableRow], bases: dict[TableName, Json]
    ) -> None:
        failed = []
        for change in changes:
            with reading("the metadata file", _location(rows.get(change.name))):
                failures = check(
                    change.requirements, bases.get(change.name), where=change.path("requirements"))
            failed += [(change, failure) for failure in failures]
        if failed:
            raise _failed(failed)

    def _member(
        self, change: Change, row: TableRow | None, base: Json | None, written: Collection[str]
    ) -> Member:
        location = None if row is None else row.metadata_location
        updates = change.path("updates")
        try:
            with reading("the metadata file", _location(row)):
                after = engine.apply(
                    [*self._default_location(change, base), *change.updates], base, options.clock(),
                    where=updates, previous_file=location)
        except CommitFailed as error:
            raise CommitFailed(f"Transaction failed for table {change.name}: {error}",
                               failed_requirements=[]) from error
        table_id = new_table_id() if row is None else row.table_id
        if after is base:
            return Member(change, row, IcebergTable(change.name, table_id, location, after), None)
        places: tuple[str, ...] = ()
        # A file that was written over may name any folder: where the table's own lies says which is its own.
        is_moved = base is None or after["location"] != base["location"]
        if is_moved or after["location"] != folder_of_file(str(location)):
            field = updates if is_moved else f"location of {change.name}"
            place = self.own_place(after["location"], field, change.name, row, written)
            after, places = {**after, "location": place}, (place,)
        file = self.files.new(after, location)
        return Member(change, row, IcebergTable(change.name, table_id, file.location, after), file, places)

    def _default_location(self, change: Change, base: Json | None) -> list[Json]:
        """An update that sets a new table's location, unless the change has one."""
        by_action = {update.get("action"): update for update in change.updates}
        if base is not None or "set-location" in by_action:
            return []
        uuid = by_action.get("assign-uuid", {}).get("uuid")
        drawn = uuid if isinstance(uuid, str) else new_table_id()
        return [{"action": "set-location",
                 "location": self.files.warehouse.new_location(change.name, drawn)}]

    def own_place(
        self, location: str, field: str, name: TableName, row: TableRow | None = None,
        written: Collection[str] = (),
    ) -> str:
        """A location that a table may take, without slashes at its end.

        The folder has no files of others, and is not inside, around or equal to another table's folder. Files
        staged for a table of the same name, files left by a dropped table of its namespace, and files
        ``written`` by this commit are allowed.

        Raises:
            BadRequest: the table may not have the location.
        """
        warehouse = self.files.warehouse
        location = warehouse.table_location(location, field)
        claims = self.store.tables.claims_on(
            location, [None if row is None else row.table_id, staged_id(self.store.name, name)])
        if claims.other is not None:
            refuse(field, f"is the folder of another table, or lies inside or around one: {shown(location)}")
        is_left = name.namespace in claims.left_in
        if claims.noted is not None or is_left:
            log = first_file(warehouse.store, f"{warehouse.name_of(location, field)}/{LOG_FOLDER}")
            if log is not None:
                refuse(field, f"has become the folder of a Delta table: {shown(location)} has {log}")
        if claims.noted is not None:  # looked at when it was staged; its files are there by now
            return location
        files = {warehouse.name_of(file, field) for file in written}
        mine = (*claims.mine, location) if is_left else claims.mine
        return warehouse.vacant_location(location, field, mine, files)

    def land(
        self, prepared: Prepared, txn_id: str, principal: str | None = None, answer: AnswerFor | None = None,
        summary: str | None = None, commits: Sequence[DeltaCommit] = (), asserted: Sequence[Asserted] = (),
    ) -> Committed | Replayed | Refused:
        """Have the catalog move all tables of a prepared commit, with ``commits`` of Delta tables, if what is
        ``asserted`` of others holds.

        Its files stay if it is refused, or if the outcome is unknown; otherwise the files of a commit that
        did not land are removed.

        Raises:
            CommitOutcomeUnknown, StorageError, NamespaceNotFound: see ``CatalogStore.ratify``.
        """
        recorded = None if answer is None else answer(Committed(txn_id, None, prepared.tables))
        proposals: list[DeltaCommit | IcebergSwap] = [*commits, *prepared.proposals]
        assertions = [*asserted, *prepared.assertions]
        if not proposals and not assertions:
            first = None if recorded is None else self.store.answers.keep(recorded)
            return Committed(txn_id, None, prepared.tables) if first in (None, recorded) else Replayed(first)
        try:
            result = self.store.ratify(
                txn_id, principal, proposals, assertions, recorded, prepared.written, summary)
        except CommitOutcomeUnknown:
            raise
        except DeltaError:
            self.discard(prepared.written)
            raise
        if isinstance(result, Replayed):
            self.discard(prepared.written)
        return Committed(txn_id, result.seq, prepared.tables) if isinstance(result, Ratified) else result

    def record(self, locations: Iterable[str]) -> None:
        """Record files that are about to be written as garbage."""
        named = list(locations)
        if named:
            self.store.garbage.record(named, "metadata of a commit", options.clock() + GRACE)

    def discard(self, locations: Iterable[str]) -> None:
        """Remove files of a commit that certainly did not land; leftovers are for a sweep."""
        gone = [location for location in locations if self.files.remove(location)]
        if gone:
            with suppress(DeltaError):
                self.store.garbage.forget(gone)


def not_iceberg(missing: Sequence[TableName], delta: Sequence[TableName]) -> TableNotFound:
    """The error for ``missing`` Iceberg tables; those in ``delta`` are Delta tables.

    >>> str(not_iceberg([TableName.of("shop.orders")], [TableName.of("shop.orders")]))
    'there is no Iceberg table shop.orders in the catalog: shop.orders is a Delta table; commit to it with \
others by catalog.transaction()'
    """
    names = ", ".join(map(str, delta))
    what, them = ("is a Delta table", "it") if len(delta) == 1 else ("are Delta tables", "them")
    why = f"{names} {what}; commit to {them} with others by catalog.transaction()" if delta else ""
    return TableNotFound(
        f"there is no Iceberg table {', '.join(map(str, missing))} in the catalog{f': {why}' if why else ''}",
        path=str(missing[0]), names=list(missing), why=why)


def _creates(change: Change) -> bool:
    return any(each.get("type") == "assert-create" for each in change.requirements)


def _location(row: TableRow | None) -> str:
    return str(row.metadata_location) if row is not None else ""


def _stands(member: Member | None, row: TableRow | None) -> bool:
    """Whether a table has not moved since its change was prepared."""
    if member is None:
        return False
    then = member.before
    if then is None or row is None:
        return then is row
    return (then.table_id, then.pointer) == (row.table_id, row.pointer)


def _failed(failures: Sequence[tuple[Change, FailedRequirement]]) -> CommitFailed:
    """The error with all failures; for a single table, with its requirement's message."""
    texts = [f"requirement not met for table {change.name}: {failure.message}"
             for change, failure in failures]
    is_one = all(not change.where for change, _ in failures)
    message = "; ".join(failure.message for _, failure in failures) if is_one else (
        f"Transaction failed: {'; '.join(texts)}")
    return CommitFailed(message, failed_requirements=[
        {"identifier": identifier(change.name), **failure.to_value()} for change, failure in failures])


def moved_again(names: Iterable[TableName]) -> str:
    """Why a commit could not land: the tables that others kept moving.

    >>> moved_again([TableName.of("shop.orders")])
    'others went on to change shop.orders'
    """
    return f"others went on to change {', '.join(map(str, names))}"


def identifier(name: TableName) -> Json:
    """A table's name as JSON."""
    return {"namespace": list(name.namespace), "name": name.name}
