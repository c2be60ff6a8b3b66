"""What would keep an invariant: each change is tried, by exploring the same writers with it.

What lives here: :class:`Remedy`, :func:`remedies_of`, and the changes that are tried.
What it does not know: how orders are explored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.locks.core.manager import LockManager
from deltanb.observe.explore.exploration import in_short
from deltanb.observe.turns import LOSSES
from deltanb.observe.verdicts import LEVELS

if TYPE_CHECKING:
    from deltanb.observe.explore.exploration import Exploration


ONE_BY_ONE = "writers one after the other"
ONE_LOCK = "each writer under a lock: with manager.new_transaction() as txn: txn.lock_exclusive(1, {name!r})"
ONE_TRANSACTION = "each writer as one transaction: with table.transaction() as txn"


@dataclass(frozen=True, repr=False)
class Remedy:
    """A change, whether the invariant holds with it in every order, and what was explored to know it.

    ``why`` says what stands against it where it does not: an order that breaks the invariant all the same, or
    a writer that cannot work so.
    """

    change: str
    holds: bool
    why: str
    exploration: Exploration = field(compare=False)

    def __str__(self) -> str:
        return f"{'✓' if self.holds else '✕'} {self.change}" + (f": {self.why}" if self.why else "")

    def __repr__(self) -> str:
        return f"<Remedy {self}>"


def remedies_of(exploration: Exploration) -> Iterator[Remedy]:
    """The changes, one after the other."""
    request = exploration.request
    for level in LEVELS:
        if level != exploration.isolation:
            yield _tried(f"isolation={level!r}", request.at(isolation=level).explore())
    if request.is_about_one_table:
        writers = _by_work(request.writers, _as_one_transaction)
        yield _tried(ONE_TRANSACTION, replace(request, writers=writers).explore())
        name = exploration.table.encode()
        writers = _by_work(request.writers, partial(_under_one_lock, LockManager(lock_timeout=None), name))
        yield _tried(ONE_LOCK.format(name=name), replace(request, writers=writers).explore())
        return
    # A transaction of a catalog is committed once its writer has returned; by then its locks have gone.
    yield _tried(ONE_BY_ONE, replace(request, is_serial=True).explore())


def _by_work(writers: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The writers with their work changed; those that do the same still do."""
    changed = {id(work): change(work) for work in writers.values()}
    return {name: changed[id(work)] for name, work in writers.items()}


def _as_one_transaction(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def together(table: Any) -> None:
        with table.transaction() as txn:
            work(txn)

    return together


def _under_one_lock(
    manager: LockManager, name: bytes, work: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    def alone(table: Any) -> None:
        with manager.new_transaction() as txn:
            txn.lock_exclusive(1, name)
            work(table)

    return alone


def _tried(change: str, explored: Exploration) -> Remedy:
    for outcome in explored.outcomes:
        for name, error in outcome.errors.items():
            if not isinstance(error, LOSSES):
                why = f"{name} cannot work so: {type(error).__name__}: {error}"
                return Remedy(change, False, why, explored)
    if explored.violations:
        order = in_short(explored.violations[0].order)
        return Remedy(change, False, f"it breaks in the order {order}", explored)
    why = explored.left_out and f"as far as it was explored: {explored.left_out}"
    return Remedy(change, True, why, explored)
