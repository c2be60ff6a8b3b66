"""The locks of one transaction, in the order in which it took them: scopes, groups, and what may be unlocked.

What lives here: a transaction as the manager knows it, its stack of locks, every rule about which of them can
be unlocked, and the block in which a thread has a transaction for itself.
What it does not know: who else holds or waits (``core``, ``granules``), undo, commits (``transaction``).

An entry of the stack is a lock that was *acquired*, or the *upgrade* of one that lies deeper: it became
exclusive although it was not the last lock of the scope, so the scope can give that back alone. Upgrading the
last lock of the scope ("immediately") adds no entry. A lock on a whole with parts (``granules``) has an entry
for whatever made it stronger, and each gives back exactly that; so these can be unlocked, too, as long as
nothing in them is exclusive. Neighbouring entries can be combined into a group. The entries below ``floor``
belong to the scopes around the current one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from deltanb.errors import IllegalStateError
from deltanb.locks.core.granules import Granule
from deltanb.locks.core.modes import EXCLUSIVE, NONE, UPGRADABLE, LockResult, label
from deltanb.locks.core.names import TransactionId

if TYPE_CHECKING:
    from deltanb.locks.core.lock_table import AnyLock, Waiter

NO_POSITIONS: Final[frozenset[int]] = frozenset()
NO_UPGRADES: Final[Mapping[int, int]] = MappingProxyType({})


class Locker:
    """Who holds locks: a transaction, or a commit that is not flushed yet.

    The manager's mutex guards what is locked: ``entries``, ``is_plain``, ``upgrades``, ``joined``,
    ``waiter``. ``id``, ``born`` and ``floor`` change only in a call of the transaction that does not wait, so
    whoever grants it a lock reads what was written before that wait began. ``attachment`` is one reference,
    replaced whole; ``call`` is cleared by the thread that set it.
    """

    __slots__ = ("attachment", "born", "call", "entries", "floor", "id", "is_plain", "joined", "known",
                 "name", "thread", "upgrades", "waiter")

    def __init__(self, locker_id: int, born: int, name: str = "") -> None:
        self.id = TransactionId.named(locker_id, name)
        self.name = name
        """What it is called unless something else is attached to it."""
        self.born = born
        self.attachment: Any = None
        self.call: object = None
        """The token of the thread that is in a call of the transaction."""
        self.thread: object = None
        """The token of the thread that last asked for a lock."""
        self.waiter: Waiter | None = None
        self.entries: list[AnyLock] = []
        self.is_plain = True
        """Whether there surely is no upgrade, no group and no granule among the entries."""
        self.upgrades: Any = NO_UPGRADES
        """Positions of entries that are upgrades, and the mode that each goes back to."""
        self.joined: Any = NO_POSITIONS
        """Positions of entries that are in one group with the entry below them."""
        self.floor = 0
        self.known: AnyLock | None = None
        """The last lock, where a call came upon a lock that was owned already; one that was just acquired is
        another object, or noted."""

    # -- what the core notes -------------------------------------------------------------------

    def acquired(self, lock: AnyLock) -> None:
        """A lock was granted that was not held before."""
        if lock.__class__ is Granule:
            self.is_plain = False
        self.entries.append(lock)

    def upgraded(self, lock: AnyLock, held: int) -> None:
        """A lock has become exclusive, or a granule stronger than it was."""
        entries = self.entries
        back = held
        if lock.__class__ is not Granule:
            back = UPGRADABLE
            if len(entries) > self.floor and entries[-1] is lock:
                return  # immediately
        self.is_plain = False
        if not self.upgrades:
            self.upgrades = {}
        self.upgrades[len(entries)] = back
        entries.append(lock)

    def note(self, result: LockResult) -> LockResult:
        """Note what came of a lock call; the same result."""
        self.known = self.entries[-1] if self.entries and not result.is_acquired else None
        return result

    # -- scopes --------------------------------------------------------------------------------

    def locks_above(self, height: int) -> list[tuple[AnyLock, int]]:
        """The entries from a height of the stack on.

        Returns:
            They, the last one first, each with what is held of its lock without it: an upgrade leaves it
            upgradable, that of a granule leaves what was held before.
        """
        upgrades = self.upgrades
        return [(self.entries[at], upgrades.get(at, NONE))
                for at in range(len(self.entries) - 1, height - 1, -1)]

    def cut(self, height: int) -> None:
        """Take the entries from a height on off the stack."""
        del self.entries[height:]
        if self.upgrades:
            self.upgrades = {at: to for at, to in self.upgrades.items() if at < height} or NO_UPGRADES
        if self.joined:
            self.joined = {at for at in self.joined if at < height} or NO_POSITIONS
        self.is_plain = self.is_plain or not height

    @property
    def last(self) -> AnyLock | None:
        """The last lock of the current scope."""
        return self.entries[-1] if len(self.entries) > self.floor else None

    # -- what may be unlocked ------------------------------------------------------------------

    def to_unlock(self, verb: str = "unlock") -> int:
        """Where the last lock or group begins; all of it may be unlocked.

        Raises:
            IllegalStateError: there is none in the scope, or something in it must stay. Nothing is changed.
        """
        top = len(self.entries) - 1
        if top < 0:
            raise IllegalStateError(f"{verb}: no locks held; {verb} what a lock call has acquired")
        if self.is_plain and top >= self.floor:
            lock = self.entries[top]
            if lock.owner is not self or not lock.is_exclusive:
                return top
        bottom = self._bottom(top)
        for at in range(top, bottom - 1, -1):
            lock = self.entries[at]
            if (at < self.floor or lock.lasting(self)
                    or (at in self.upgrades and lock.__class__ is not Granule)):
                self._refuse_unlock(at, verb)
        return bottom

    def _refuse_unlock(self, at: int, verb: str) -> None:
        name = label(self.entries[at].name)
        if at < self.floor:
            raise IllegalStateError(
                f"{verb} cannot cross a scope boundary: {name} belongs to the scope around this one; exit "
                "this scope first")
        if at in self.upgrades and self.entries[at].__class__ is not Granule:
            raise IllegalStateError(
                f"{verb} cannot take back a non-immediate upgrade: {name} was locked before other locks and "
                "then made exclusive; exit or roll back the scope")
        of = "" if self.entries[at].lasting(self) == EXCLUSIVE else "a part of "
        raise IllegalStateError(
            f"{verb} cannot release an exclusive lock: {of}{name} may have been written; commit, exit or "
            "roll back the scope")

    def combine(self) -> None:
        """Put the last lock or group into one group with the entry below it.

        Raises:
            IllegalStateError: one is a lock that was acquired, the other the upgrade of a lock.
        """
        if not self.entries:
            return
        bottom = self._bottom(len(self.entries) - 1)
        if bottom == 0:
            return
        if (bottom in self.upgrades) != (bottom - 1 in self.upgrades):
            names = [label(self.entries[at].name) for at in (bottom - 1, bottom)]
            kinds = ["an upgrade" if at in self.upgrades else "acquired" for at in (bottom - 1, bottom)]
            raise IllegalStateError(
                f"unlock_combine cannot combine an acquire with an upgrade: {names[0]} is {kinds[0]}, "
                f"{names[1]} is {kinds[1]}; combine locks before they are upgraded")
        self.is_plain = False
        if not self.joined:
            self.joined = set()
        self.joined.add(bottom)

    def _bottom(self, at: int) -> int:
        while at in self.joined:
            at -= 1
        return at

    def groups(self) -> Iterator[list[AnyLock]]:
        """The entries, those of a group together, the oldest first."""
        group: list[AnyLock] = []
        for at, lock in enumerate(self.entries):
            if group and at not in self.joined:
                yield group
                group = []
            group.append(lock)
        if group:
            yield group


class Keeper(Locker):
    """Who keeps the locks of a commit that was put off."""

    __slots__ = ()


class Call:
    """A block in which a thread has a transaction for itself."""

    __slots__ = ("_before", "_locker")

    def __init__(self, locker: Locker, before: object) -> None:
        self._locker, self._before = locker, before

    def __enter__(self) -> None:
        """It has begun already: what refuses it raises before there is a block."""

    def __exit__(self, *_: object) -> None:
        self._locker.call = self._before
