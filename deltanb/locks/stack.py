"""The locks of one transaction, in the order in which it took them: scopes, groups, and what may be unlocked.

What lives here: a transaction as the manager knows it, its stack of locks, and every rule about which of
them can be unlocked.
What it does not know: who else holds or waits (``core``), undo, commits (``transaction``).

An entry of the stack is a lock that was *acquired*, or the *upgrade* of one that lies deeper: it became
exclusive although it was not the last lock of the scope, so the scope can give that back alone. Upgrading the
last lock of the scope ("immediately") adds no entry. Neighbouring entries can be combined into a group. The
entries below ``floor`` belong to the scopes around the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from deltanb.errors import IllegalStateError
from deltanb.locks.modes import NONE, UPGRADABLE, label

if TYPE_CHECKING:
    from deltanb.locks.core import Lock, Waiter

NO_POSITIONS: Final[frozenset[int]] = frozenset()


class Locker:
    """Who holds locks: a transaction, or a commit that is not flushed yet.

    The manager's mutex guards what is locked: ``entries``, ``upgrades``, ``joined``, ``waiter``. ``id``,
    ``born`` and ``floor`` change only in a call of the transaction that does not wait, so whoever grants it a
    lock reads what was written before that wait began. ``attachment`` is one reference, replaced whole;
    ``call`` is cleared by the thread that set it.
    """

    __slots__ = ("attachment", "born", "call", "entries", "floor", "id", "joined", "thread", "upgrades",
                 "waiter")

    def __init__(self, locker_id: int, born: int) -> None:
        self.id = locker_id
        self.born = born
        self.attachment: Any = None
        self.call: object = None
        """The token of the thread that is in a call of the transaction."""
        self.thread: object = None
        """The token of the thread that last asked for a lock."""
        self.waiter: Waiter | None = None
        self.entries: list[Lock] = []
        self.upgrades: Any = NO_POSITIONS
        """Positions of entries that are upgrades."""
        self.joined: Any = NO_POSITIONS
        """Positions of entries that are in one group with the entry below them."""
        self.floor = 0

    # -- what the core notes -------------------------------------------------------------------

    def acquired(self, lock: Lock) -> None:
        """A lock was granted that was not held before."""
        self.entries.append(lock)

    def upgraded(self, lock: Lock) -> None:
        """A lock has become exclusive."""
        entries = self.entries
        if len(entries) > self.floor and entries[-1] is lock:
            return  # immediately
        if not self.upgrades:
            self.upgrades = set()
        self.upgrades.add(len(entries))
        entries.append(lock)

    # -- scopes --------------------------------------------------------------------------------

    def cut(self, height: int) -> list[tuple[Lock, int]]:
        """Take the entries from a height on off the stack.

        Returns:
            They, the last one first, each with what is still held of its lock: an upgrade leaves it
            upgradable.
        """
        upgrades = self.upgrades
        taken = [(self.entries[at], UPGRADABLE if at in upgrades else NONE)
                 for at in range(len(self.entries) - 1, height - 1, -1)]
        del self.entries[height:]
        if upgrades:
            self.upgrades = {at for at in upgrades if at < height} or NO_POSITIONS
        if self.joined:
            self.joined = {at for at in self.joined if at < height} or NO_POSITIONS
        return taken

    @property
    def last(self) -> Lock | None:
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
        if not self.joined and not self.upgrades and top >= self.floor:
            lock = self.entries[top]
            if lock.owner is not self or not lock.is_exclusive:
                return top
        bottom = self._bottom(top)
        for at in range(top, bottom - 1, -1):
            lock = self.entries[at]
            if at < self.floor or at in self.upgrades or (lock.is_exclusive and lock.owner is self):
                self._refuse_unlock(at, verb)
        return bottom

    def _refuse_unlock(self, at: int, verb: str) -> None:
        name = label(self.entries[at].name)
        if at < self.floor:
            raise IllegalStateError(
                f"{verb} cannot cross a scope boundary: {name} belongs to the scope around this one; exit "
                "this scope first")
        if at in self.upgrades:
            raise IllegalStateError(
                f"{verb} cannot take back a non-immediate upgrade: {name} was locked before other locks and "
                "then made exclusive; exit or roll back the scope")
        raise IllegalStateError(
            f"{verb} cannot release an exclusive lock: {name} may have been written; commit, exit or roll "
            "back the scope")

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
        if not self.joined:
            self.joined = set()
        self.joined.add(bottom)

    def _bottom(self, at: int) -> int:
        while at in self.joined:
            at -= 1
        return at

    def groups(self) -> Iterator[list[Lock]]:
        """The entries, those of a group together, the oldest first."""
        group: list[Lock] = []
        for at, lock in enumerate(self.entries):
            if group and at not in self.joined:
                yield group
                group = []
            group.append(lock)
        if group:
            yield group
