"""What writers that are explored have locked, as a value, and the managers that they lock with.

What lives here: :class:`Locks`, all that is locked and waited for between two turns; :class:`Managers`, the
lock managers that writers share; :class:`RunLocks`, those of one run in place of them.
What it does not know: orders of turns, tables.

A writer is run alone, so a manager that it shares with others is replaced by one of its own, of the same
settings. Before a turn that one is shown what is locked, by transactions of other writers, too: it decides
about a request as it always does, with its own table of locks, its own queues and its own search for
deadlocks. After the turn it says what has become of the locks. A request that has to wait is two turns: it is
made, and it goes on once somebody else's turn has granted it. No time passes: who waits gives up only where
nobody is left who could release the lock, as in a race.

Locks are released in the turn after which they are. That loses nothing: whoever asked for one before has to
wait, and goes on as if he had asked later; and to be refused at once, without a wait, is what he could have
been before that turn, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.locks.core.batch import Batches
from deltanb.locks.core.granules import Granule
from deltanb.locks.core.lock_table import ANSWERS, FEW, Lock, Waiter
from deltanb.locks.core.manager import LockManager
from deltanb.locks.core.modes import (
    EXCLUSIVE,
    JOINED,
    MODE_NAMES,
    NONE,
    SHARED,
    IndexId,
    LockResult,
    Name,
    label,
    named,
)
from deltanb.locks.core.names import TransactionId
from deltanb.locks.core.stack import Locker
from deltanb.locks.core.transaction import Transaction
from deltanb.locks.core.waits import exploring
from deltanb.locks.tables.table import COMMITS
from deltanb.locks.tables.table import Work as TableWork
from deltanb.observe.explore.worlds import short_hash

if TYPE_CHECKING:
    from deltanb.observe.explore.programs import Run

TABLE = -1
"""The index id of the table that is explored."""


class Who(NamedTuple):
    """A transaction of a writer: which one it was that began, and its id now."""

    writer: str
    number: int
    id: TransactionId


class Asking(NamedTuple):
    """A request that waits (:class:`~deltanb.locks.core.lock_table.Waiter`)."""

    who: Who
    held: int
    requested: int
    step: str
    is_endless: bool


class Holding(NamedTuple):
    """A lock: who holds it and how, the owner or the first one first, and who waits in its queues."""

    holders: tuple[tuple[Who, int], ...]
    queues: tuple[tuple[Asking, ...], ...]

    def __str__(self) -> str:
        """The same for locks that are held and waited for alike, whatever the ids of transactions."""
        holders = [(*who[:2], mode) for who, mode in self.holders]
        return repr((holders, [[(*one.who[:2], *one[1:]) for one in queue] for queue in self.queues]))


class LockRequest(NamedTuple):
    """What a writer asks a manager for, as far as it does not have it: locks with the modes that it wants."""

    manager: int
    who: Who
    locks: tuple[tuple[Name, int], ...]

    @property
    def digest(self) -> str:
        """The same for requests of the same locks by the same transaction."""
        return short_hash(self.manager, self.who[:2], self.locks)

    @property
    def lock(self) -> tuple[Name, int]:
        """The one that it is about: of a part and the whole that it lies in, the part."""
        return self.locks[-1]

    def __str__(self) -> str:
        name, mode = self.lock
        return f"{label(name)} ({MODE_NAMES[mode]})"


Place = tuple[int, Name]
"""A lock among those of all managers: the number of its manager, and its name."""


class Locks:
    """All that is locked and waited for, by the number of the manager and the name of the lock."""

    def __init__(self, locks: Mapping[Place, Holding]) -> None:
        self.locks = locks

    @cached_property
    def digest(self) -> str:
        """A text for all of it."""
        return self.part(self.locks)

    def part(self, places: Iterable[Place]) -> str:
        """A text for some of it; empty where nothing of it is held."""
        some = sorted((place, str(self.locks[place])) for place in places if place in self.locks)
        return short_hash(some) if some else ""

    def after(self, changes: Mapping[Place, Holding | None]) -> Locks:
        """The locks after some of them have changed; None is free."""
        if not changes:
            return self
        return Locks({place: holding for place, holding in {**self.locks, **changes}.items()
                      if holding is not None})

    def of(self, manager: int) -> dict[Name, Holding]:
        """Those of one manager."""
        return {name: holding for (number, name), holding in self.locks.items() if number == manager}

    def request_of(self, writer: str) -> tuple[Place, Asking] | None:
        """The request of a writer that waits, if one does."""
        return next(((place, one) for place, one in self._asking() if one.who.writer == writer), None)

    def in_the_way(self, place: Place, writer: str) -> tuple[str, ...]:
        """The other writers that hold a lock, or wait for it."""
        holding = self.locks.get(place)
        if holding is None:
            return ()
        names = [who.writer for who, _ in holding.holders] or [
            one.who.writer for queue in holding.queues for one in queue]
        return tuple(dict.fromkeys(name for name in names if name != writer))

    def around(self, writer: str, request: LockRequest | None) -> list[Place]:
        """What a turn of a writer may depend on and change: what it holds and asks for, and whatever those
        wait for who have a part in that."""
        if not self.locks and request is None:
            return []
        places = [place for place, holding in self.locks.items()
                  if any(who.writer == writer for who, _ in holding.holders)]
        if request is not None:
            places += ((request.manager, name) for name, _ in request.locks)
        waits = {(place[0], *one.who[:2]): place for place, one in self._asking()}
        known = dict.fromkeys(places)
        todo = list(known)
        for place in todo:
            for who in self._parties(place):
                further = waits.get((place[0], *who[:2]))
                if further is not None and further not in known:
                    known[further] = None
                    todo.append(further)
        return todo

    def _parties(self, place: Place) -> Iterator[Who]:
        holding = self.locks.get(place)
        if holding is not None:
            yield from (who for who, _ in holding.holders)
            yield from (one.who for queue in holding.queues for one in queue)

    def _asking(self) -> Iterator[tuple[Place, Asking]]:
        for place, holding in self.locks.items():
            for queue in holding.queues:
                for one in queue:
                    yield place, one


NOTHING_LOCKED = Locks({})


class Managers:
    """The lock managers that writers share, numbered as they are met."""

    def __init__(self, writers: Sequence[str]) -> None:
        self.writers = tuple(writers)
        self._met: list[LockManager] = []

    def number_of(self, manager: LockManager) -> int:
        """The number of a manager."""
        if manager not in self._met:
            self._met.append(manager)
        return self._met.index(manager)


class RunLocks:
    """The lock managers of a run, in place of those that its writer shares with others."""

    def __init__(self, run: Run, managers: Managers) -> None:
        self.run, self.managers = run, managers
        self.shown = NOTHING_LOCKED
        """What was locked before the last turn."""
        self._own: dict[int, _Manager] = {}

    # -- what the writer asks (:class:`~deltanb.locks.core.waits.Exploring`) ----------------------------

    def manager_for(self, manager: LockManager) -> LockManager:
        """The manager of this run in place of one that writers share."""
        if manager._explored_by is self or isinstance(manager, _Manager):
            return manager
        if manager._explored_by is not None:
            raise self.refuse("uses a lock manager that another run or writer has made; make it before "
                              "dn.explore, so that all of them share it")
        number = self.managers.number_of(manager)
        if number not in self._own:
            self._own[number] = _Manager(manager, self, number)
            self._own[number].show(self.shown.of(number))
        return self._own[number]

    def refuse(self, words: str) -> BaseException:
        """Ends the writer."""
        return self.run.refuse(words)

    # -- turns -----------------------------------------------------------------------------------------

    def show(self, locks: Locks) -> None:
        """Show all managers what is locked."""
        self.shown = locks
        for number, manager in self._own.items():
            manager.show(locks.of(number))

    def changes(self) -> dict[Place, Holding | None]:
        """What has become of the locks since then."""
        changes: dict[Place, Holding | None] = {}
        for number, manager in self._own.items():
            before, after = self.shown.of(number), manager.holdings()
            for name in {**before, **after}:
                if before.get(name) != after.get(name):
                    changes[number, name] = after.get(name)
        return changes


class _Transaction(Transaction):
    """A transaction of a manager of a run."""

    __slots__ = ()

    def operation(self) -> Any:
        """As of any transaction; a statement of a table looks at the newest version, which is a turn."""
        explorer = self._explorer
        if self._locker.call is None and not explorer.run.calls:
            explorer.run.is_due = True
        return super().operation()

    def changed(self, participant: Any, change: Any) -> None:
        """As of any transaction, if it is a table that has changed."""
        if not isinstance(participant, TableWork):
            raise self._explorer.refuse(
                f"changes a {type(participant).__name__} under locks, which is the same object at every run; "
                "only what tables hold is explored")
        super().changed(participant, change)

    @property
    def _explorer(self) -> RunLocks:
        assert isinstance(self.manager, _Manager)
        return self.manager.explorer


class _Manager(LockManager):
    """A lock manager as one run has it: it knows transactions of other writers, as far as they hold locks or
    wait for some."""

    def __init__(self, shared: LockManager, explorer: RunLocks, number: int) -> None:
        super().__init__(shared.upgrade_rule, shared.lock_timeout, shared.detect, clock=lambda: 0,
                         park=self._wait)
        self.explorer, self.number = explorer, number
        self.writer = explorer.run.program.name
        self._table.quick = None  # nothing is decided at a glance: whoever asks takes a turn
        self._batches = _Batches(self._table, self._waits, self._deadlines, self._refused)
        self._batches.manager = self
        writers = explorer.managers.writers
        self._step = len(writers)
        self._ids = 1 + writers.index(self.writer) - self._step
        """Writers number their transactions in turn, so that all ids of a manager differ."""
        self._lockers: list[Locker] = []
        """Those of the writer itself."""
        self._others: dict[Locker, Who] = {}
        self._request: LockRequest | None = None
        explorer.run.seat.name_tables(self)

    # -- what the transactions of the writer ask -------------------------------------------------------

    def new_transaction(self, name: str | None = None) -> Transaction:
        """A transaction; named after the writer unless it has another name."""
        return _Transaction(self, self.writer if name is None else name)

    def new_locker(self, kind: type[Locker] = Locker, name: str = "") -> Locker:
        """A holder of locks, with an id that no writer has."""
        self._ids += self._step - 1
        locker = super().new_locker(kind, name)
        self._lockers.append(locker)
        return locker

    def end(self, locker: Locker) -> None:
        """Release all that a transaction holds; its new id, too, is one that no writer has."""
        self._ids += self._step - 1
        super().end(locker)

    def name_index(self, index_id: int, name: str, columns: Sequence[str] = ()) -> IndexId:
        """Remember what an index is called, which is the table that is explored or none."""
        if index_id < 0 and index_id not in (TABLE, COMMITS):
            raise self.explorer.refuse(
                f"locks {name}, which is not the table that it is called with; take that one, or explore "
                "without the other")
        return super().name_index(index_id, name, columns)

    def lock(self, locker: Locker, index_id: int, key: bytes, requested: int, timeout: float,
             is_try: bool = False) -> LockResult:
        """Ask for a lock: a turn, unless it is held already."""
        result: LockResult = self.ask(locker, [(named(index_id, key), requested)], partial(
            super().lock, locker, index_id, key, requested, timeout, is_try))
        return result

    def ask(self, locker: Locker, requests: Sequence[tuple[Name, int]], lock: Callable[[], Any]) -> Any:
        """What ``lock`` gives, which makes a request: a turn, if that asks for more than its transaction
        holds."""
        current = exploring.get()
        if current is not self.explorer and current is not None:
            raise current.refuse("uses a transaction under locks of an earlier run; begin one at every run")
        lacking = tuple((name, mode) for name, mode in requests if not self._has(locker, name, mode))
        if not lacking:
            return lock()
        self._request = LockRequest(self.number, self._who(locker), tuple(
            (self._named(name), mode) for name, mode in lacking))
        return self.explorer.run.ask(self._request, lock)

    def refuse_to_show(self, does: str) -> None:
        """It is shared with others, though they are not here."""
        raise self.explorer.refuse(f"{does}, which depends on what others do at that moment; leave that out")

    def put_off(self, txn: Transaction, locker: Locker, changes: Any) -> None:
        """Not explored: somebody else's turn could publish it."""
        raise self.explorer.refuse(
            "puts a commit off (durability_mode NO_FLUSH), which anybody's next commit may publish; take "
            "SYNC, NO_SYNC or NO_REDO")

    def interrupt(self, locker: Locker) -> bool:
        """Nobody else runs, so nobody waits."""
        return False

    def _has(self, locker: Locker, name: Name, mode: int) -> bool:
        lock = self._table.locks.get(name)
        held = NONE if lock is None else lock.held_by(locker)
        if name[0] < 0:
            return held != NONE and JOINED[held][mode] == held
        return isinstance(ANSWERS[held][mode], LockResult)

    def _named(self, name: Name) -> Name:
        return (self._table.ids.get(name[0], name[0]), name[1]) if name[0] < 0 else name

    def _wait(self, waiter: Waiter, timeout: float | None) -> bool:
        """Wait for a turn, at which the request was granted or nobody is left who could do that."""
        assert self._request is not None
        self.explorer.run.wait(self._request)
        return waiter.result is not None

    # -- locks as a value ------------------------------------------------------------------------------

    def show(self, holdings: Mapping[Name, Holding]) -> None:
        """Have these locks be held and waited for. Those of the writer itself are as they are here already,
        but for what it waits for: that may have been granted."""
        table = self._table
        own = {self._who(waiter.locker)[:2]: waiter for waiter in table.waiting
               if waiter.locker in self._lockers}
        before, self._others = dict(table.locks), {}
        table.locks.clear()
        table.waiting.clear()
        for name, holding in holdings.items():
            table.locks[name] = self._shown(name, holding, before.get(name), own)
        for waiter in own.values():
            if waiter not in table.waiting:
                table.granted(waiter)

    def holdings(self) -> dict[Name, Holding]:
        """All locks as they are held and waited for now."""
        return {name: self._holding(lock) for name, lock in self._table.locks.items()}

    def _shown(self, name: Name, holding: Holding, lock: Any, own: Mapping[tuple[Any, ...], Waiter]) -> Any:
        """A lock that is held so: the same object, since stacks hold it."""
        if lock is None:
            lock = Granule.__new__(Granule) if name[0] < 0 else Lock()
            lock.name = name
        holders = {self._locker(who): mode for who, mode in holding.holders}
        queues = [[self._asking(one, lock, own, ticket) for ticket, one in enumerate(queue)]
                  for queue in holding.queues]
        if isinstance(lock, Granule):
            (lock.first, lock.mode), *others = holders.items()
            lock.others = dict(others) or None
            lock.queue = queues[0] or None
            return lock
        owner = next((locker for locker, mode in holders.items() if mode != SHARED), None)
        lock.owner, lock.is_exclusive = owner, owner is not None and holders[owner] == EXCLUSIVE
        shared = [locker for locker in holders if locker is not owner]
        lock.shared = tuple(shared) if len(shared) <= FEW else dict.fromkeys(shared)
        lock.owners, lock.readers = (deque(queue) if queue else None for queue in queues)
        return lock

    def _asking(self, one: Asking, lock: Any, own: Mapping[tuple[Any, ...], Waiter], ticket: int) -> Waiter:
        waiter = own.get(one.who[:2]) if one.who.writer == self.writer else None
        if waiter is None:
            waiter = Waiter(self._locker(one.who), lock, one.held, one.requested, one.step, ticket)
            waiter.is_endless = one.is_endless
        waiter.step, waiter.ticket, waiter.locker.waiter = one.step, ticket, waiter
        self._table.waiting[waiter] = None
        self._table.tickets = max(self._table.tickets, ticket + 1)
        return waiter

    def _holding(self, lock: Any) -> Holding:
        if isinstance(lock, Granule):
            holders = [(self._who(locker), mode) for locker, mode in lock._holders()]
            queues = [lock.queue]
        else:
            holders = [(self._who(locker), mode) for locker, mode in lock.holders()]
            queues = [lock.owners, lock.readers]
        return Holding(tuple(holders), tuple(
            tuple(Asking(self._who(one.locker), one.held, one.requested, one.step, one.is_endless)
                  for one in queue or ()) for queue in queues))

    def _locker(self, who: Who) -> Locker:
        if who.writer == self.writer:
            return self._lockers[who.number]
        for locker, other in self._others.items():
            if other[:2] == who[:2]:
                return locker
        locker = Locker(who.id, 0, who.id.name)
        locker.thread = locker  # of nobody's thread here
        self._others[locker] = who
        return locker

    def _who(self, locker: Locker) -> Who:
        other = self._others.get(locker)
        return other or Who(self.writer, self._lockers.index(locker), locker.id)


class _Batches(Batches):
    """Calls that lock several: one turn each."""

    manager: _Manager

    def lock_each(self, locker: Locker, requests: Any, timeout: float, is_try: bool = False) -> Any:
        """As of any manager."""
        return self.manager.ask(locker, requests, partial(
            super().lock_each, locker, requests, timeout, is_try))
