"""What a commit asks of its participants: undo changes, make them permanent, and report that this is done.

What lives here: the contract of an index in a transaction, and the callback of commits that are put off.
What it does not know: locks (``manager``), when a scope ends (``transaction``), what a change is, where a
commit that is put off waits (``buffer``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from deltanb.errors import add_note
from deltanb.locks.core.modes import DurabilityMode

if TYPE_CHECKING:
    from deltanb.locks.core.manager import LockManager
    from deltanb.locks.core.transaction import Transaction

committing: ContextVar[LockManager | None] = ContextVar("committing", default=None)
"""Under whose locks tables are being committed."""


class Participant(Protocol):
    """What has changes in a transaction: an index, or tables that commit as a group.

    Before each change it takes an exclusive lock on ``(index id, key)`` and then tells the transaction:
    ``txn.changed(self, change)``, with whatever it needs to undo it. One that has a method
    ``describe(changes) -> list[str]`` is asked for its changes in words where a transaction is shown. One
    that has ``size(changes) -> int`` says how many bytes they hold, in files or in memory, while they wait.
    One that cannot undo its commit has ``has_landed``: whether it is permanent, whatever interrupted it.

    >>> import deltanb as dn
    >>> index, txn = dn.testing.MemoryIndex(1), dn.locks.LockManager().new_transaction()
    >>> index.store(txn, "k", "v")
    >>> [(participant is index) for state in txn.scopes() for participant, change in state.changes]
    [True]
    """

    def undo(self, change: Any) -> None:
        """Take a change back, after all later ones were. Called under the lock of the change, even after
        :meth:`commit` where that failed, or where another participant's did.

        >>> import deltanb as dn
        >>> index, txn = dn.testing.MemoryIndex(1, {"k": "v"}), dn.locks.LockManager().new_transaction()
        >>> index.store(txn, "k", "w")
        >>> txn.rollback()  # calls it
        >>> index.load(None, "k")
        'v'
        """

    def commit(self, changes: Sequence[Any], durability: DurabilityMode) -> None:
        """Make all changes of a transaction permanent, as the mode says (never ``NO_FLUSH``: a commit that
        was put off arrives as ``NO_SYNC``). What this raises undoes the transaction everywhere; so what
        can fail, and cannot be undone, is one participant alone, which says so: ``commits_last``.

        >>> import deltanb as dn
        >>> class Loud(dn.testing.MemoryIndex):
        ...     def commit(self, changes, durability):
        ...         print(len(changes), durability)
        >>> index, txn = Loud(1), dn.locks.LockManager().new_transaction()
        >>> index.store(txn, "a", 1); index.store(txn, "b", 2)
        >>> txn.commit()
        2 SYNC
        """


class CommitCallback:
    """Told of commits that are put off (``NO_FLUSH``); attach one with ``txn.attach(callback)``.

    A commit that is done when ``commit()`` returns needs no callback, and calls none. What a callback
    raises is logged. ``finished`` is called by whoever flushes, in whatever thread.

    >>> import deltanb as dn
    >>> class Printing(CommitCallback):
    ...     def pending(self, txn, txn_id):
    ...         print("put off")
    ...     def finished(self, txn, txn_id, error):
    ...         print("published" if error is None else error)
    >>> index, txn = dn.testing.MemoryIndex(1), dn.locks.LockManager().new_transaction()
    >>> txn.durability_mode = "NO_FLUSH"
    >>> txn.attach(Printing())
    >>> index.store(txn, "k", "v"); txn.commit()
    put off
    >>> txn.flush()
    published
    """

    def pending(self, txn: Transaction, txn_id: int) -> None:
        """The commit is in the queue. The transaction is free for other work already, with a new id.

        >>> CommitCallback().pending(None, 1)  # does nothing; a class of yours says what is done
        """

    def finished(self, txn: Transaction, txn_id: int, error: BaseException | None) -> None:
        """The commit was published; or it failed, with ``error``, and its changes are undone.

        >>> CommitCallback().finished(None, 1, None)  # does nothing; a class of yours says what is done
        """


Changes = list[tuple[Participant, Any]]


def publish(changes: Changes, durability: DurabilityMode) -> None:
    """Have every participant commit, in the order in which they joined but for the one that is last."""
    of_each: dict[int, tuple[Participant, list[Any]]] = {}
    for participant, change in changes:
        of_each.setdefault(id(participant), (participant, []))[1].append(change)
    ordered = sorted(of_each.values(), key=lambda each: getattr(each[0], "commits_last", False))
    for participant, theirs in ordered:
        participant.commit(theirs, durability)


def have_landed(changes: Changes) -> bool:
    """Whether changes are permanent, although a commit of them was interrupted: who says so commits last."""
    return any(getattr(participant, "has_landed", False) for participant, _ in changes)


def undo(changes: Changes, height: int = 0) -> BaseException | None:
    """Take changes back, the last one first, down to so many; all are tried. Returns the first failure."""
    failed: BaseException | None = None
    while len(changes) > height:
        participant, change = changes.pop()
        try:
            participant.undo(change)
        except BaseException as error:  # an interrupt, too: half undone is worse than late
            if failed is not None:
                add_note(failed, f"then failed, too: {type(error).__name__}: {error}")
            failed = failed or error
    return failed


def size_of(changes: Changes) -> int:
    """How many bytes changes hold, as far as their participants know."""
    total = 0
    for _, some in groupby(changes, key=lambda pair: id(pair[0])):
        pairs = list(some)
        measure = getattr(pairs[0][0], "size", None)
        total += 0 if measure is None else measure([change for _, change in pairs])
    return total


def described(changes: Sequence[tuple[Participant, Any]]) -> list[str]:
    """Changes in words, in their order, where participants have some; a failing ``describe`` is reported."""
    words: list[str] = []
    for _, some in groupby(changes, key=lambda pair: id(pair[0])):
        pairs = list(some)
        participant, theirs = pairs[0][0], [change for _, change in pairs]
        describe = getattr(participant, "describe", None)
        try:
            words += [f"{len(theirs)} of a {type(participant).__name__}"] if describe is None else [
                str(line) for line in describe(theirs)]
        except Exception as error:
            words.append(f"{len(theirs)} of a {type(participant).__name__} whose describe raises "
                        f"{type(error).__name__}")
    return words
