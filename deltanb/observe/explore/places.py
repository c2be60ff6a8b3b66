"""A table that is explored: what a writer gets in place of it.

What lives here: :class:`TablePlace`; :class:`ExploredLog` and :class:`ExploredTable`, whose newest version is
decided turn by turn.
What it does not know: turns of other writers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deltanb.commands.result import CommandResult
from deltanb.locks.tables.log import index_of
from deltanb.log.commits import FolderCommits
from deltanb.log.snapshot import Snapshot
from deltanb.observe.explore.programs import Run, Statement, Turn
from deltanb.observe.explore.worlds import (
    OWN,
    Attempted,
    Levels,
    Overlay,
    World,
    isolation_of,
    row_level_of,
    short_hash,
)
from deltanb.observe.turns import Work
from deltanb.table.contract import Call, Does
from deltanb.table.table import DeltaTable
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.reader import LogReader
    from deltanb.transaction.current import CurrentTransaction

MAX_ROWS = 10_000
"""Rows of a table up to which outcomes are told apart by them; of larger tables, by their files."""
ONLY = ""
"""The name of a table that is alone."""
_LOOKS = frozenset({Does.READS_VERSIONS, Does.READS_LOG, Does.READS_COMMITS, Does.COPIES})
"""What a method does that may look at single versions."""


class TablePlace:
    """A table, by its log and its world before all turns."""

    mark = "v"

    def __init__(self, table: DeltaTable, levels: Levels = OWN) -> None:
        self.name, self.base = table.name, table._writable("explore")
        self.root = World.of(self.base.update()._state, levels)
        self.time = int(self.root.state.info.get("timestamp") or 0) + 1
        self.isolation, self.row_level = isolation_of(self.root.state), row_level_of(self.root.state)

    def seat(self, run: Run) -> TableSeat:
        """The table as a run works on it."""
        return TableSeat(run, self)

    def still(self, world: World) -> DeltaTable:
        """The table of a world, which nobody can write to."""
        return still(self.base, world)

    def rows(self, world: World) -> tuple[str, pa.Table | None]:
        """A text for the rows of a world, and the rows, in an order of their own; None of very many."""
        return rows_of(self.base, world)


class TableSeat:
    """The table of one run."""

    looks_under_locks = True

    def __init__(self, run: Run, place: TablePlace) -> None:
        self.run = run
        self.store = Overlay(place.base, place.root, run.program.name)
        self.log = ExploredLog(self.store, run.read, getattr(place.base, "name", None), run)

    @property
    def world(self) -> World:
        """The table as the run sees it."""
        return self.store.world

    @world.setter
    def world(self, world: World) -> None:
        """Show the run another table."""
        self.store.world = world

    def work(self, work: Work) -> Any:
        """Do it with the table."""
        return work(ExploredTable(self.log))

    def is_ours(self, txn: Any) -> bool | None:
        """Whether a transaction commits to the table; None for a statement of one that does later."""
        log = getattr(txn, "log", None)
        return None if hasattr(log, "below") else log is self.log

    def turn(self, txn: Any, step: Any) -> Turn:
        """The put of a commit."""
        attempted = Attempted(self.run.program.name, step.body, self.store.written)
        return Turn("put", self.run.is_staged, self.run.statement, {ONLY: step.version}, attempted,
                    short_hash(*seen_by(txn.prepared, self.world)))

    def unseen(self) -> Any:
        """The result of a statement that is not done again."""
        return _Unseen(None, self.run)

    def name_tables(self, manager: Any) -> None:
        """Have the table be the first one that a manager knows; that is no turn."""
        is_due, self.run.is_due = self.run.is_due, False
        index_of(manager, self.log)
        self.run.is_due = is_due


def still(base: LogReader, world: World, commits: Callable[[Overlay], Any] = FolderCommits) -> DeltaTable:
    """A table in a world, read-only; ``commits`` makes those that it has of a store."""
    store = Overlay(base, world)
    log = ExploredLog(store, lambda: world, getattr(base, "name", None), commits=commits(store))
    return DeltaTable(log, log.update())


def rows_of(
    base: LogReader, world: World, commits: Callable[[Overlay], Any] = FolderCommits
) -> tuple[str, pa.Table | None]:
    """A text for the rows of a table in a world, and the rows; of more than :data:`MAX_ROWS` a text for its
    files, and None."""
    table = still(base, world, commits)
    if table.count() > MAX_ROWS:
        return short_hash(world.definition, sorted(world.live.items())), None
    rows = table.to_arrow()
    lines = [repr(row) for row in rows.to_pylist()]
    order = sorted(range(len(lines)), key=lines.__getitem__)
    return short_hash(str(rows.schema), sorted(lines)), rows.take(order) if order else rows


def seen_by(current: CurrentTransaction, world: World) -> list[Any]:
    """What a transaction rests on, so that others may conflict with it."""
    reads = current.reads
    files = sorted(path for some in reads.files for path in some["path"].to_pylist())
    return [world.definition, repr(reads.scans), files, reads.whole_table, sorted(reads.app_ids),
            reads.elsewhere, current.isolation]


class ExploredLog(DeltaLog):
    """The log of a table in a world, whose newest version is decided turn by turn."""

    def __init__(
        self, store: Overlay, read: Callable[[], World], name: str | None, run: Run | None = None,
        **more: Any,
    ) -> None:
        super().__init__(store, name=name, **more)
        self._read, self.run = read, run

    def update(self) -> Snapshot:
        """The newest version, which may be a turn."""
        world = self._read()
        held = self._held
        if held is None or held[0]._state is not world.state:
            seen = self.commits.identity(world.version)
            self._held = held = Snapshot(self, world.state, seen), seen
        return held[0]

    def advance(self, version: int, actions: Any, written: Any = (), known: Any = None) -> Snapshot:
        """After a commit: the world has it already."""
        return self.update()

    def history(self, *args: Any, **settings: Any) -> Any:
        """Single commits, which a digest does not show."""
        if self.run is not None and not self.run.calls:
            self.run.looks()
            self.update()
        return super().history(*args, **settings)

    def checkpoint(self, version: int | None = None) -> Any:
        """None: a world is in memory."""

    def clean_up(self) -> Any:
        """Nothing is old."""


class ExploredTable(DeltaTable):
    """The table as a writer gets it that is explored."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            run: Run = object.__getattribute__(self, "log").run
            if not run.calls:
                run.is_due = True
        return super().__getattribute__(name)

    def _writable(self, what: str) -> DeltaLog:
        run: Run = object.__getattribute__(self, "log").run
        log = super()._writable(what)
        if what == "txn.table":  # its statements look for themselves
            run.is_due = False
        return log

    def _perform(self, call: Call) -> Any:
        run: Run = object.__getattribute__(self.log, "run")
        if not run.calls and call.asked.does in _LOOKS:
            run.looks()
            self.log.update()  # commits may be listed without it: to look at them is a turn, too
        if run.calls:
            return super()._perform(call)
        is_statement = call.asked.does.is_staged and run.is_plain
        if is_statement and len(run.ended) < len(run.known):
            return run.skip(call.asked.name)
        run.calls.append(call)
        error: Exception | None = None
        try:
            result = super()._perform(call)
        except Exception as raised:
            error = raised
            raise
        finally:
            run.calls.pop()
            if is_statement and run.turn is None:
                run.ended.append(Statement(call.asked.name, run.at, error))
        if run.program.is_precise or not isinstance(result, CommandResult):
            return result
        return _Unseen(result, run)


class _Unseen:
    """The result of a command before somebody looks at it, in whatever way: a result is a number, too."""

    def __init__(self, result: Any, run: Run) -> None:
        object.__setattr__(self, "_held", (result, run))

    def __getattribute__(self, name: str) -> Any:
        result, run = object.__getattribute__(self, "_held")
        run.looks()
        return getattr(result, name)


def _looking(name: str) -> Callable[..., Any]:
    """A method that Python calls by the class: it asks no instance for it."""
    def method(self: _Unseen, *args: Any) -> Any:
        return getattr(self, name)(*args)

    return method


_OWN = frozenset({
    "__class__", "__new__", "__init__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__",
    "__init_subclass__", "__subclasshook__"})
for _name in dir(CommandResult):
    if _name.startswith("__") and _name not in _OWN and callable(getattr(CommandResult, _name)):
        setattr(_Unseen, _name, _looking(_name))
