"""A catalog that is explored: transactions over several tables, ratified in memory.

What lives here: :class:`Lake`, the tables of a catalog after some transactions; :class:`CatalogPlace`,
whose writers get a transaction each.
What it does not know: turns of other writers, the catalog's database.

A turn is one of two: the transaction begins, which decides what it reads, or the catalog is asked to ratify
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.limits import Limits
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, Refused
from deltanb.catalog.transaction import CatalogTransaction
from deltanb.errors import IllegalStateError
from deltanb.log.commits import PublishedCommits
from deltanb.observe.explore.exploration import TABLES_OWN
from deltanb.observe.explore.places import ExploredLog, rows_of, seen_by, still
from deltanb.observe.explore.programs import Run, Turn
from deltanb.observe.explore.worlds import OWN, Attempted, Levels, Overlay, World, short_hash
from deltanb.observe.turns import Work
from deltanb.store.read_only import writing
from deltanb.table.table import DeltaTable
from deltanb.transaction.group import Ratified, Ratify

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.catalog.catalog import Catalog
    from deltanb.log.snapshot import Snapshot


class Tables:
    """The tables of a catalog by name, as they were before all turns; each is opened when it is asked for."""

    def __init__(self, catalog: Catalog, levels: Levels) -> None:
        self.catalog, self.levels = catalog, levels
        self.seq = catalog.store.instant()
        self._known: dict[str, tuple[Any, World]] = {}

    def base(self, name: str) -> Any:
        """The log of a table.

        Raises:
            TableNotFound: there is none of this name.
        """
        return self._opened(name)[0]

    def root(self, name: str) -> World:
        """The world of a table."""
        return self._opened(name)[1]

    @property
    def opened(self) -> list[str]:
        """The names of those that somebody has asked for."""
        return list(self._known)

    def require_delta(self, name: Any, refuse: Callable[[str], BaseException]) -> None:
        """Refuse a table that is not explored."""
        if str(name) in self._known:  # else each run would ask the catalog's database again
            return
        with writing():
            table = self.catalog.table(name)
        if not isinstance(table, DeltaTable):
            raise refuse(f"uses {name}, which is an Iceberg table; Delta tables alone are explored: leave it "
                         "out, or run the writers in one order with dn.race(catalog, writers)")

    def _opened(self, name: str) -> tuple[Any, World]:
        if name not in self._known:
            with writing():
                log, snapshot = self.catalog.table_at(TableName.of(name), self.seq)  # type: ignore[misc]
            self._known[name] = log, World.of(snapshot._state, self.levels)
        return self._known[name]


class GroupAttempted:
    """A transaction over several tables that a writer has prepared: what it commits to each."""

    def __init__(self, writer: str, members: Mapping[str, Attempted]) -> None:
        self.writer, self.members = writer, dict(members)

    @cached_property
    def id(self) -> str:
        """The same for transactions that do the same."""
        return short_hash(self.writer, sorted((name, one.id) for name, one in self.members.items()))

    @cached_property
    def operation(self) -> str:
        """What it says that it does to each table."""
        return ", ".join(f"{one.operation} {name}" for name, one in self.members.items())


class Lake:
    """The tables of a catalog after some transactions."""

    def __init__(
        self, tables: Tables, changed: Mapping[str, World], parent: Lake | None = None,
        commit: GroupAttempted | None = None,
    ) -> None:
        self.tables, self.changed, self.parent, self.commit = tables, changed, parent, commit
        self.children: dict[str, Lake] = {}
        self.version: int = tables.seq if parent is None else parent.version + 1
        self.id: str = short_hash(parent.id, commit.id) if parent and commit else "root"

    def table(self, name: str) -> World:
        """One of the tables."""
        return self.changed.get(name) or self.tables.root(name)

    def child(self, commit: GroupAttempted) -> Lake:
        """The tables after one transaction more."""
        known = self.children.get(commit.id)
        if known is None:
            changed = {name: self.table(name).child(one) for name, one in commit.members.items()}
            known = self.children[commit.id] = Lake(
                self.tables, {**self.changed, **changed}, self, commit)
        return known

    @cached_property
    def digest(self) -> str:
        """A text for all that a reader can see."""
        return short_hash(self.version, sorted((name, world.digest) for name, world in self.changed.items()))

    def takes(self, versions: Mapping[str, int]) -> bool:
        """Whether the versions that are expected to be free are."""
        return all(self.table(name).version == version - 1 for name, version in versions.items())

    def winners(self, versions: Mapping[str, int]) -> tuple[str, ...]:
        """The commits that are there from these versions on."""
        return tuple(f"{name} {one}" for name, version in sorted(versions.items())
                     for one in self.table(name).winners({name: version}))


class CatalogPlace:
    """A catalog, by its tables before all turns."""

    mark = "#"

    def __init__(self, catalog: Catalog, levels: Levels = OWN) -> None:
        self.name, self.tables = catalog.name, Tables(catalog, levels)
        self.root = Lake(self.tables, {})
        self.time = 1 + max((entry.time for entry in catalog.history(limit=1)), default=0)
        self.isolation, self.row_level = levels.isolation or TABLES_OWN, levels.row_level or TABLES_OWN

    def seat(self, run: Run) -> CatalogSeat:
        """The catalog as a run works on it."""
        return CatalogSeat(run, self.root)

    def still(self, lake: Lake) -> Mapping[str, DeltaTable]:
        """The tables of a world by name, which nobody can write to."""
        return _Still(lake)

    def rows(self, lake: Lake) -> tuple[str, dict[str, pa.Table | None]]:
        """A text for the rows of a world, and the rows of the tables that writers have asked for."""
        rows = {name: rows_of(self.tables.base(name), lake.table(name), managed)
                for name in sorted(self.tables.opened)}
        return short_hash([(name, text) for name, (text, _) in rows.items()]), {
            name: table for name, (_, table) in rows.items()}


class CatalogSeat:
    """The catalog of one run."""

    looks_under_locks = False  # what a transaction reads was decided when it began

    def __init__(self, run: Run, root: Lake) -> None:
        self.run, self._world = run, root
        self.stores: dict[str, Overlay] = {}
        self.transaction: CatalogTransaction | None = None

    @property
    def world(self) -> Lake:
        """The tables as the run sees them."""
        return self._world

    @world.setter
    def world(self, world: Lake) -> None:
        """Show the run other tables."""
        self._world = world
        for name, store in self.stores.items():
            store.world = world.table(name)

    def work(self, work: Work) -> Any:
        """Do it with a transaction, which is committed at its end."""
        with CatalogTransaction(_Explored(self)) as self.transaction:  # type: ignore[arg-type]
            return work(self.transaction)

    def is_ours(self, txn: Any) -> bool | None:
        """Whether a transaction is that of the run; None for its statements."""
        if hasattr(getattr(txn, "log", None), "below"):
            return None
        return txn is self.transaction

    def turn(self, txn: Any, step: Ratify) -> Turn:
        """The ratification of the transaction."""
        members = {name: Attempted(self.run.program.name, staged.body, self.stores[name].written)
                   for name, _, staged in step.proposals}
        versions = {name: version for name, version, _ in step.proposals}
        versions |= {name: version + 1 for name, version in step.stands}
        saw = [seen_by(prepared, self.world.table(name)) for name in versions
               if (part := txn.transaction_of(name)) is not None and (prepared := part.prepared) is not None]
        return Turn("put", False, "", versions, GroupAttempted(self.run.program.name, members),
                    short_hash(saw))

    def unseen(self) -> Any:
        """Statements of a transaction are all done again."""
        raise AssertionError

    def name_tables(self, manager: Any) -> None:
        """None: tables of the transaction are not locked, only what has a name of the writers' own."""

    def log(self, name: str) -> tuple[ExploredLog, Snapshot]:
        """The log of a table, and the version that the transaction reads."""
        base = self.world.tables.base(name)
        store = self.stores[name] = Overlay(base, self.world.table(name), self.run.program.name)
        table_id = base.commits.table_id
        made = partial(_Committer, _Ratifier(self), TableName.of(name), table_id)  # type: ignore[arg-type]
        log = ExploredLog(store, lambda: store.world, base.name, commits=managed(store), committer=made)
        return log, log.update()


def managed(store: Overlay) -> PublishedCommits:
    """The commits of a table of a catalog, all of which a world has."""
    return PublishedCommits(store)


class _Explored:
    """A catalog as a transaction uses it."""

    limits = Limits()
    iceberg = None

    def __init__(self, seat: CatalogSeat) -> None:
        self.seat, self.store = seat, _Ratifier(seat)
        self.name: str = seat.world.tables.catalog.name
        self.attempts: list[Any] = []

    def table_at(self, name: TableName, seq: int) -> Any:
        """A table as it was when the transaction began."""
        self.seat.world.tables.require_delta(name, self.seat.run.refuse)
        return self.seat.log(str(name))


class _Staged(NamedTuple):
    """What is to be ratified of a table."""

    name: str
    version: int
    body: bytes


class _Committer(ManagedCommitter):
    """Nothing is staged in a file, nor published: the world has what is ratified."""

    def stage(self, version: int, body: bytes) -> Any:
        return _Staged(str(self.name), version, body)

    def discard(self, proposal: Any) -> None:
        """There is no file."""

    def publish(self, version: int) -> None:
        """The world has it."""


@dataclass
class _Ratifier:
    """The catalog's word on what is committed."""

    seat: CatalogSeat
    place_of_ids: str | None = None

    def instant(self) -> int:
        """The newest transaction: a turn."""
        self.seat.run.is_due = True
        return int(self.seat.run.read().version)

    def ratify(
        self, txn_id: str, principal: str | None, proposals: Sequence[_Staged],
        assertions: Sequence[Asserted] = (), *, written: Iterable[str] = (), summary: str | None = None,
    ) -> Any:
        """All of it, or nothing."""
        world, ids = self.seat.world, {}
        expected = {one.name: one.version for one in proposals}
        expected |= {str(one.name): int(one.pointer) + 1 for one in assertions}
        for name, version in expected.items():
            if (latest := world.table(name).version) != version - 1:
                ids[world.tables.base(name).commits.table_id] = latest
        if ids:
            return Refused(ids)  # by table id, as a catalog answers
        writer = self.seat.run.program.name
        members = {}
        for one in proposals:
            store = self.seat.stores[one.name]
            members[one.name], store.written = Attempted(writer, one.body, store.written), {}
        self.seat.world = world.child(GroupAttempted(writer, members))
        return Ratified(self.seat.world.version)

    def outcome(self, txn_id: str) -> Ratified | None:
        """Not known to be there."""
        return None


class _Still(Mapping[str, DeltaTable]):
    """The tables of a world by name."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def __getitem__(self, name: Any) -> DeltaTable:
        name = str(TableName.of(name))
        self._lake.tables.require_delta(name, lambda words: IllegalStateError(f"the invariant {words}"))
        return still(self._lake.tables.base(name), self._lake.table(name), managed)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lake.tables.opened)

    def __len__(self) -> int:
        return len(self._lake.tables.opened)

    table = __getitem__
