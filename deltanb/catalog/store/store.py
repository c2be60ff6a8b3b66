"""A catalog in a database: many tables, Delta and Iceberg, that move together or not at all.

What lives here: operations on the database as a whole: ratify, outcome, history, and the commits of Delta
tables that are not in their folders yet. The parts are ``namespaces``, ``tables``, ``answers``, ``garbage``.
What it does not know: files, logs, HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.catalog.overview import Overview, names_of, overview
from deltanb.catalog.store.database import Database, Undo
from deltanb.catalog.store.foreign import LOOKS, ForeignMoves
from deltanb.catalog.store.history import Entry, entries, pointers_at, record, seq_at, seq_of
from deltanb.catalog.store.ledgers import Answer, Answers, Garbage, keep, take_back
from deltanb.catalog.store.namespaces import Namespaces
from deltanb.catalog.store.ratification import (
    PUBLISHED,
    Asserted,
    DeltaCommit,
    IcebergSwap,
    Overtaken,
    Ratified,
    Refused,
    hold,
    moved,
    ordered,
    time_of,
)
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import TableRow
from deltanb.catalog.store.statements import Prepared, for_each_count, ids_of
from deltanb.catalog.store.tables import delta_commits, delta_tables, garbage, iceberg_tables, insert, sa
from deltanb.errors import InvalidArgument, TableNotFound, VersionNotFound

__all__ = ["CatalogStore", "Commit", "Replayed", "Tail"]

CLAIMED = "a staged commit that was swept"
_BEHIND, _OVERTAKEN = object(), object()  # why a ratification begins again
NEVER = 2**62  # a claim is not due to be deleted: its file is, at once


@dataclass(frozen=True)
class Replayed:
    """The stored answer to a repeated request; nothing moved now."""

    answer: Answer


@dataclass(frozen=True)
class Commit:
    """A ratified commit that its table's folder may not have yet: a staged file, or inline content."""

    version: int
    file_name: str | None
    file_size: int | None
    mtime: int | None
    ict: int | None
    txn_id: str


@dataclass(frozen=True)
class Tail:
    """A Delta table at one instant: its latest version, the published one, the commits between, oldest first.
    """

    latest: int
    published: int
    commits: tuple[Commit, ...]


class CatalogStore:
    """The catalog ``name`` in the database at ``url``; other catalogs may be in the same one.

    Raises:
        InvalidArgument: neither ``sqlite:///FILE`` nor ``postgresql://…``.
        StorageError: the database cannot be reached.

    >>> with CatalogStore("sqlite:///catalog.db") as store:
    ...     store.namespaces.create("sales")
    ...     a = store.tables.register_delta("sales.orders", "lake/orders", version=0)
    ...     commit = DeltaCommit(a.table_id, a.name, version=1, inline=b"{}")
    ...     store.ratify("txn-1", "ada", [commit]), store.outcome("txn-1")
    ...     store.ratify("txn-2", "bob", [commit]).latest == {a.table_id: 1}
    (Ratified(seq=2), Ratified(seq=2))
    True
    """

    def __init__(self, url: str, name: str = "default", durability: str | None = None) -> None:
        self.name = name
        self.database = Database(url, durability)
        self.namespaces = Namespaces(self.database, name)
        self.foreign = ForeignMoves(self.database, name)
        self.tables = Registry(self.database, name, self.foreign)
        self.answers = Answers(self.database)
        self.garbage = Garbage(self.database)

    def __repr__(self) -> str:
        return f"CatalogStore({self.database.place!r}, {self.name!r})"

    def __enter__(self) -> CatalogStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """The catalog's URL, without a password."""
        return self.database.place

    @property
    def place_of_ids(self) -> str | None:
        """As the database has it."""
        return self.database.place_of_ids

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def ratify(
        self, txn_id: str, principal: str | None, proposals: Sequence[DeltaCommit | IcebergSwap],
        assertions: Sequence[Asserted] = (), answer: Answer | None = None, written: Iterable[str] = (),
        summary: str | None = None,
    ) -> Ratified | Refused | Replayed:
        """Move all proposed tables if all assertions hold, in one transaction; or change nothing.

        ``written`` are files recorded as garbage which are taken back. ``answer`` is stored with its key; a
        request whose key was used before gets the stored answer. A repeated ``txn_id`` is reported as
        ratified.

        Raises:
            CommitOutcomeUnknown: COMMIT was not answered and the database cannot be read: ask :meth:`outcome`
                later, and delete no file meanwhile.
            StorageError: nothing was written.
            DataFileNotFound: a file of ``written`` was claimed to be deleted; nothing was written.
            IdempotencyKeyReused: the key was used with another body.
            InvalidArgument: a table twice, or none at all.
            TableAlreadyExists: a folder for an Iceberg table is another table's.
        """
        members, written = ordered(proposals, assertions), sorted(set(written))
        looks = LOOKS

        def work(connection: sa.Connection) -> Ratified | Refused | Replayed | None:
            # The key first: the same request, under way in another connection, ends before this one looks.
            if answer and (before := keep(connection, answer)):
                raise Undo(Replayed(before))
            held = hold(connection, self.name, members)
            if held.is_behind and looks:
                raise Undo(_BEHIND)
            try:
                changes, refused = moved(connection, self.name, txn_id, members, held)
            except Overtaken:
                raise Undo(_OVERTAKEN) from None
            if refused:
                raise Undo(_landed(connection, txn_id) or Refused(refused))
            take_back(connection, written)
            try:
                return Ratified(record(connection, txn_id, principal, summary, changes, time_of(members)))
            except sa.exc.IntegrityError:  # the same transaction, ratified meanwhile
                raise Undo(None) from None

        while True:  # overtaken once by each table at most: from then on it is refused
            result = self.database.write(work, lambda connection: _landed(connection, txn_id), txn_id)
            if result is _BEHIND:
                self.foreign.take_in()  # it came before: what this moves, it moves on from there
                looks -= 1
            elif result is not _OVERTAKEN:
                return result if result is not None else self._ratified(txn_id)

    def _ratified(self, txn_id: str) -> Ratified:
        outcome = self.outcome(txn_id)
        assert outcome is not None, txn_id
        return outcome

    def outcome(self, txn_id: str) -> Ratified | None:
        """Whether a transaction has landed, read on a new connection.

        None is certain for a transaction that was in its COMMIT, since this waits until all of those have
        ended. One that was not yet in its COMMIT, or is ratified later, can still land.

        Raises:
            StorageError: the database cannot be asked.
        """
        return self.database.ask(lambda connection: _landed(connection, txn_id))

    def history(self, after: int = 0, size: int = 1000) -> list[Entry]:
        """Up to ``size`` transactions of the database after a sequence number, oldest first."""
        self.foreign.take_in(with_drops=True)
        return self.database.read(lambda connection: entries(connection, after, size))

    def names_of(self, table_ids: Iterable[str]) -> dict[str, str]:
        """The current names of tables by id; dropped tables are left out."""
        return names_of(self.database, self.name, table_ids)

    def overview(self, most: int) -> Overview:
        """At most ``most`` namespaces, tables and transactions, with the numbers of all."""
        self.foreign.take_in(with_drops=True)
        return overview(self.database, self.name, most)

    def instant(self, time: int | None = None) -> int:
        """The sequence number of the last transaction, of all or up to a time (epoch ms); 0 if there is none.

        Changes by other programs to Iceberg tables are recorded in the history first.
        """
        if time is None:
            return self.foreign.newest_seq()
        self.foreign.take_in(with_drops=True)
        return self.database.read(lambda connection: seq_at(connection, time))

    def pointers_at(self, seq: int, table_ids: Iterable[str]) -> dict[str, str | None]:
        """The tables' versions or metadata locations after transaction ``seq``, as text.

        None means a dropped table; tables that did not exist yet are left out.
        """
        ids = sorted(set(table_ids))
        return self.database.read(lambda connection: pointers_at(connection, seq, ids))

    def tails(self, table_ids: Iterable[str]) -> dict[str, Tail]:
        """Delta tables with their unpublished commits, all at one instant.

        Raises:
            TableNotFound: no Delta table has one of the ids.
        """
        ids = sorted(set(table_ids))
        tails: dict[str, Tail] = {}
        for table_id, latest, published, *one in self.database.read(
                lambda connection: _TAILS(len(ids)).run(connection, ids_of(ids)).all()) if ids else ():
            before = tails[table_id].commits if table_id in tails else ()
            more = () if one[0] is None else (Commit(*one),)
            tails[table_id] = Tail(latest, published, before + more)
        for table_id in ids:
            if table_id not in tails:
                raise _no_delta_table(table_id)
        return tails

    def every_table(self) -> Iterator[TableRow]:
        """All tables of the catalog, page by page, by namespace and name."""
        yield from self.tables.every()

    def stray_tables(self) -> list[str]:
        """The ids of Delta versions or commits in the database without a table in any catalog."""
        named = sa.select(iceberg_tables.c.dn_table_id).where(iceberg_tables.c.dn_table_id.is_not(None))
        query = sa.union(*(sa.select(table.c.table_id).where(table.c.table_id.not_in(named))
                           for table in (delta_tables, delta_commits)))
        return sorted(self.database.read(lambda connection: connection.execute(query).scalars().all()))

    def claim_staged(self, table_id: str, paths: Iterable[str]) -> list[str]:
        """Claim a Delta table's staged files by path; returns those that can no longer be ratified.

        A file that was ratified is not among them. The claims last until :meth:`forget_claims`, that is, as
        long as the version could still be ratified.
        """
        unique = sorted(set(paths))

        def work(connection: sa.Connection) -> list[str]:
            # Whoever ratifies a version holds this row, and looks at the claims after that.
            held = sa.select(delta_tables.c.latest_version).where(delta_tables.c.table_id == table_id)
            connection.execute(held.with_for_update())
            names = {path.rpartition("/")[2]: path for path in unique}
            ratified = sa.select(delta_commits.c.file_name).where(
                delta_commits.c.table_id == table_id, delta_commits.c.file_name.in_(names))
            free = sorted(set(names) - set(connection.execute(ratified).scalars()))
            for name in free:
                claim = insert(connection, garbage).values(
                    path=names[name], reason=CLAIMED, not_before=NEVER, swept=True)
                connection.execute(claim.on_conflict_do_update(index_elements=["path"], set_={"swept": True}))
            return [names[name] for name in free]

        return self.database.write(work)

    def forget_claims(self, is_over: Callable[[str], bool]) -> None:
        """Remove claims of staged files whose versions have been ratified by another commit."""
        query = sa.select(garbage.c.path).where(garbage.c.reason == CLAIMED)
        paths = self.database.read(lambda connection: connection.execute(query).scalars().all())
        self.garbage.forget(path for path in paths if is_over(path))

    def content(self, table_id: str, version: int) -> bytes:
        """The content of an inline commit.

        Raises:
            VersionNotFound: no inline commit of that version is here: it is staged, published, or not there.
        """
        row = delta_commits.c
        query = sa.select(row.inline).where(row.table_id == table_id, row.version == version)
        content = self.database.read(lambda connection: connection.execute(query).scalar())
        if content is None:
            raise VersionNotFound(
                f"the catalog has no content of version {version} of table {table_id}; look into its folder",
                version=version)
        return bytes(content)

    def set_published(self, table_id: str, version: int) -> None:
        """Record that all versions up to this one are in the table's folder; the catalog drops their commits.

        A version that is recorded already, or an earlier one, changes nothing.

        Raises:
            TableNotFound: no Delta table has the id.
            InvalidArgument: the version is not ratified.
        """
        place = {"of_table": table_id, "up_to": version}

        def work(connection: sa.Connection) -> None:
            if _FORWARD.run(connection, place).rowcount:
                PUBLISHED.run(connection, place)
                return
            newest = sa.select(delta_tables.c.latest_version).where(delta_tables.c.table_id == table_id)
            latest = connection.execute(newest).scalar()
            if latest is None:
                raise _no_delta_table(table_id)
            if version > latest:
                raise InvalidArgument(
                    f"version {version} of table {table_id} cannot be published: the latest that is ratified "
                    f"is {latest}")

        self.database.write(work, is_durable=False)  # who does not find it there publishes once more


# Made once: SQLAlchemy takes longer to make a statement than the database to run it.

_table, _commit = delta_tables.c, delta_commits.c
_FORWARD = Prepared(delta_tables.update().where(
    _table.table_id == sa.bindparam("of_table"), _table.published_version < sa.bindparam("up_to"),
    _table.latest_version >= sa.bindparam("up_to")).values(published_version=sa.bindparam("up_to")))


@for_each_count
def _TAILS(ids: list[sa.BindParameter[str]]) -> sa.Select[Any]:
    return sa.select(
        _table.table_id, _table.latest_version, _table.published_version,
        *(column for column in _commit if column.name not in ("table_id", "inline")),
    ).select_from(delta_tables.outerjoin(delta_commits, sa.and_(
        _commit.table_id == _table.table_id, _commit.version > _table.published_version))
    ).where(_table.table_id.in_(ids)).order_by(_commit.version)


def _landed(connection: sa.Connection, txn_id: str) -> Ratified | None:
    seq = seq_of(connection, txn_id)
    return None if seq is None else Ratified(seq)


def _no_delta_table(table_id: str) -> TableNotFound:
    return TableNotFound(
        f"the catalog has no Delta table of the id {table_id}: it was dropped after it was opened; "
        "catalog.list_tables(namespace) has those that are there", path=table_id)
