"""Races on purpose: writers run against each other on a real table or catalog, in a chosen order.

What lives here: :func:`race`, and the steps of a commit at which a writer waits for its turn.
What it does not know: how writers take turns (``turns``), how a commit works (``transaction.drive`` reports
each step through ``watching``), how a race is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument
from deltanb.observe.catalog_timeline import CatalogTimeline
from deltanb.observe.timeline import CommitTimeline
from deltanb.observe.tracks import joined, read
from deltanb.observe.turns import (
    Raced,
    Stop,
    Work,
    is_catalog,
    named,
    race_summary,
    run,
    runners_of,
    turns_of,
)
from deltanb.options import set_options
from deltanb.table.table import DeltaTable
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.group import GroupCommitted, MemberStep, Ratify
from deltanb.transaction.journal import journal_of
from deltanb.transaction.row_levels import require_level
from deltanb.transaction.steps import Committed, PutIfAbsent, ReadWinner, Step

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog


@answer_wrong_arguments()
def race(
    table: Any,
    writers: Sequence[Work] | Mapping[str, Work],
    order: str | Sequence[str | int] | None = None,
    row_level: str | None = None,
) -> Any:
    """Run writers against each other on a table, and return the timeline of the race.

    A writer is a callable that takes the table: any command, or transactions made by hand. Its name is the
    ``userName`` of its commits: a dict's key, a function's own name, or else "writer 1" and so on.
    Settings that it changes are its own. It stops before each step of I/O of its commits on this table
    (putting a version, reading the winner's); what comes before the first such step runs in one go.

    Args:
        table: a table at its newest version, or a catalog. On a catalog, a writer gets a transaction, which
            is committed when the writer returns, and waits before ratification and before reading a winner;
            outcomes are transactions of the catalog, and the timeline is the catalog's.
        writers: in the order in which they take turns.
        order: None: all of them read, then each in turn commits and runs to its end. ``"serial"``:
            one after the other. Or names or positions (from 0), each of which lets that writer run to its
            next step of I/O; turns of writers that have ended are skipped, and after the last turn the
            remaining writers run to their ends in turn.
        row_level: how closely the writers' commits look at each other's rows
            (:data:`deltanb.transaction.row_levels.ROW_LEVELS`); as the option or the table says by default.

    Returns:
        The timeline of the race. Its ``outcomes`` has for each name the last version committed (None
        for a writer without a commit), or the exception that the writer ended with. Exceptions that are not
        lost races, such as a misspelt column, are shown as errors.

    Raises:
        InvalidArgument: no table, no writers, a writer that is not callable, an order without writers, or no
            row level.
        IllegalStateError: the table is pinned to a version, so nobody can write to it.

    A writer that waits for a lock of a :class:`~deltanb.locks.core.manager.LockManager` passes its turn on,
    and its turns are skipped until it has the lock; ``waits`` of the result lists these waits. If nobody is
    left who could release the lock, the first waiter times out; no time passes. While it commits, a writer
    must not hold any other lock (``threading.Lock``) that another writer needs; commits of threads that a
    writer starts are not stopped. Ctrl+C ends the race: waiting writers write nothing more, and the running
    one is awaited up to its next step of I/O, for ten seconds at most.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
    >>> result = dn.race(table, {
    ...     "ann": lambda t: t.append({"name": ["Scrooge"], "nephews": [1]}),
    ...     "ben": lambda t: t.delete("nephews = 0"),
    ... })
    >>> result.outcomes["ann"], type(result.outcomes["ben"]).__name__
    (1, 'ConcurrentAppendException')
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> for name in ("orders", "totals"):
    ...     _ = catalog.create_table(f"shop.{name}", {"n": [1]})
    >>> def order(txn):
    ...     _ = txn.table("shop.orders").append({"n": [2]})
    ...     _ = txn.table("shop.totals").update({"n": "n + 1"})
    >>> result = dn.race(catalog, {"ann": order, "ben": order})
    >>> result.outcomes["ann"], type(result.outcomes["ben"]).__name__
    (3, 'ConcurrentAppendException')
    """
    if require_level(row_level) is not None:
        with set_options(row_level=row_level):
            return race(table, writers, order)
    if is_catalog(table):
        table.require_for("race")
        return _race_on_catalog(table, writers, order)
    if not isinstance(table, DeltaTable):
        raise InvalidArgument(
            f"a race is run on a table or a catalog, found {type(table).__name__}; write it like "
            "dn.race(dn.open(path), writers)")
    log = table._writable("race")
    before = log.update().version
    works = {name: partial(work, table) for name, work in named(writers).items()}
    runners = runners_of(works, partial(_judged, log), before)
    outcomes = run(runners, turns_of(order, list(works)))
    seen = {txn_id for runner in runners for txn_id in runner.txn_ids}
    tried = [attempt for attempt in journal_of(log) if attempt.txn_id in seen]
    tracks = joined(read(log, before + 1), tried)
    return Race(tracks, table.name, writers=outcomes, **race_summary(runners, outcomes, tracks, log.path))


def _race_on_catalog(
    catalog: Catalog, writers: Sequence[Work] | Mapping[str, Work], order: str | Sequence[str | int] | None
) -> CatalogRace:
    before = catalog.store.instant()
    works = {name: partial(_in_transaction, catalog, work)
             for name, work in named(writers, of_catalog=True).items()}
    runners = runners_of(works, partial(_judged, catalog), before)
    outcomes = run(runners, turns_of(order, list(works)))
    seen = {txn_id for runner in runners for txn_id in runner.txn_ids}
    whole = CatalogTimeline.of(catalog, before + 1)
    tracks = [track for track in whole.tracks if track.is_committed or track.txn_id in seen]
    return CatalogRace(tracks, catalog.name, writers=whole.writers,
                       **race_summary(runners, outcomes, tracks, catalog.warehouse.uri, place="#"))


def _in_transaction(catalog: Catalog, work: Work) -> None:
    """Run a writer in a transaction of the catalog, from the first read to the commit."""
    with catalog.transaction() as txn:
        work(txn)


def _judged(raced: Any, txn: Any, step: Step) -> Stop | None:
    """The stop for a step of a commit on the raced log or catalog; None for any other commit."""
    if raced is not getattr(txn, "log", None) and raced is not getattr(txn, "catalog", None):
        return None
    outcome = step.version if isinstance(step, Committed) else \
        step.seq if isinstance(step, GroupCommitted) else None
    asks = step.step if isinstance(step, MemberStep) else step
    return Stop(txn.txn_id, outcome, isinstance(asks, PutIfAbsent | Ratify | ReadWinner))


class Race(Raced, CommitTimeline):
    """The timeline of a race: ``outcomes`` has each writer's last version, None, or the exception that ended
    it, ``waits`` the locks that writers waited for.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> add = lambda table: table.append({"id": [2]})
    >>> race = dn.race(table, {"one": add, "other": add})
    >>> sorted(race.outcomes)
    ['one', 'other']
    """


class CatalogRace(Raced, CatalogTimeline):
    """The timeline of a race on a catalog; its outcomes are transactions of the catalog.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///raced.db", warehouse="raced")
    >>> catalog.create_namespace("shop")
    >>> _ = catalog.create_table("shop.orders", {"id": [1]})
    >>> def order(catalog):
    ...     with catalog.transaction() as txn:
    ...         _ = txn.table("shop.orders").append({"id": [2]})
    >>> race = dn.race(catalog, {"ann": order, "ben": order})
    >>> sorted(race.outcomes)
    ['ann', 'ben']
    """
