"""Races on purpose on a catalog: transactions of several tables, in an order that is chosen.

What lives here: :func:`race_of`, and at which steps of a commit of several tables a writer waits.
What it does not know: how writers take turns (``turns``), how such a commit goes (``transaction/group``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.observe.catalog_timeline import CatalogTimeline
from deltanb.observe.turns import Raced, Stop, Work, named, run, runners_of, told, turns_of
from deltanb.transaction.group import GroupCommitted, MemberStep, Ratify
from deltanb.transaction.steps import ReadWinner, Step

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog

__all__ = ["CatalogRace", "race_of"]


class CatalogRace(Raced, CatalogTimeline):
    """The timeline of a race on a catalog; ``outcomes`` has for each writer the transaction of the catalog
    that it committed, None, or the exception that it ended with, ``waits`` the locks that writers waited
    for."""


def race_of(
    catalog: Catalog, writers: Sequence[Work] | Mapping[str, Work],
    order: str | Sequence[str | int] | None = None,
) -> CatalogRace:
    """Run writers against each other on a catalog, as :func:`deltanb.observe.race.race` says.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> for name in ("orders", "totals"):
    ...     _ = catalog.create_table(f"shop.{name}", {"n": [1]})
    >>> def order(txn):
    ...     _ = txn.table("shop.orders").append({"n": [2]})
    ...     _ = txn.table("shop.totals").update({"n": "n + 1"})
    >>> result = race_of(catalog, {"ann": order, "ben": order})
    >>> result.outcomes["ann"], type(result.outcomes["ben"]).__name__
    (3, 'ConcurrentAppendException')
    """
    judge = partial(_judged, catalog)
    like = 'lambda txn: txn.table("ns.a").delete("month = 1")'
    before = catalog.store.instant()
    works = {name: partial(_committed, catalog, work)
             for name, work in named(writers, "a transaction of the catalog", like).items()}
    runners = runners_of(works, judge, before)
    turns = turns_of(order, [runner.name for runner in runners])
    outcomes = run(runners, turns)
    seen = {txn_id for runner in runners for txn_id in runner.txn_ids}
    whole = CatalogTimeline.of(catalog, before + 1)
    shown = [track for track in whole.tracks if track.is_committed or track.txn_id in seen]
    return CatalogRace(shown, catalog.name, writers=whole.writers,
                       **told(runners, outcomes, shown, catalog.warehouse.uri, place="#"))


def _committed(catalog: Catalog, work: Work) -> None:
    """A writer's whole work: its transaction, from the first read to the commit."""
    with catalog.transaction() as txn:
        work(txn)


def _judged(catalog: Catalog, txn: Any, step: Step) -> Stop | None:
    """A step of a commit of several tables of the raced catalog."""
    if getattr(txn, "catalog", None) is not catalog:
        return None
    outcome = step.seq if isinstance(step, GroupCommitted) else None
    waits = isinstance(step, Ratify) or (isinstance(step, MemberStep) and isinstance(step.step, ReadWinner))
    return Stop(txn.txn_id, outcome, waits)
