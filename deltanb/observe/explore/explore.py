"""Every order of some writers' turns on a table, and what comes of each.

What lives here: :func:`explore`, and the rules of its arguments.
What it does not know: how anything is explored (``request``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument
from deltanb.observe.explore.request import Request
from deltanb.observe.explore.worlds import Levels
from deltanb.observe.turns import Work, is_catalog, named
from deltanb.observe.verdicts import require_isolation
from deltanb.options import options
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.row_levels import require_level

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog
    from deltanb.observe.explore.exploration import Exploration
    from deltanb.sql.conditions import Where
    from deltanb.table.table import DeltaTable

__all__ = ["explore"]

MAX_STATES = 100_000
SECONDS = 60.0


@answer_wrong_arguments()
def explore(
    table: DeltaTable | Catalog,
    writers: Sequence[Work] | Mapping[str, Work],
    invariant: Callable[[Any], Any] | Where | None = None,
    isolation: str | None = None,
    row_level: str | None = None,
    orders: int | None = None,
    seed: int | None = None,
    *,
    depth: int | None = None,
    seconds: float = SECONDS,
    max_states: int = MAX_STATES,
) -> Exploration:
    """Let writers take their turns in every order, and say what can come of it; the table stays as it is.

    A writer is a callable that takes the table, as for :func:`~deltanb.observe.race.race`: commands,
    transactions by hand or as blocks, :func:`~deltanb.locks.tables.retrying.retry`, several commits one after
    the other. Each works on a copy in memory. A turn is one of three: a statement or a transaction reads the
    newest version; it tries to commit, and if others were faster checks what they did; or it asks for a lock
    of a :class:`~deltanb.locks.core.manager.LockManager`, which whoever waits for has once others release it.
    All orders of such turns are explored, though few are gone through: those that lead to the same state go
    on alike.

    What a writer sees is the table alone: the time stands still, ``time.sleep`` and other waits take no time,
    and what ``random`` draws is the same at every run, by ``seed``. It is run many times, and so may read
    other tables, but writes to none, and starts no thread and no process.
    A lock manager that writers share is replaced by one that nobody has locked anything in; who waits for a
    lock gives up only where nobody is left who could release it.

    Args:
        table: a table at its newest version, or a catalog. On a catalog a writer gets a transaction, which is
            committed when the writer returns; its turns are to begin, and to have it ratified.
        writers: by name, or in a list, of which each is called as its function.
        invariant: what should hold in every version: a condition on each row, a query with one value, or a
            function of the table that returns whether it holds. It may only read.
        isolation: the level that the table has meanwhile; its own by default.
        row_level: how closely commits look at each other's rows meanwhile
            (:data:`deltanb.transaction.row_levels.ROW_LEVELS`); as the option or the table says by default.
        orders: draw so many orders in place of going through all of them.
        seed: by which they are drawn, and what ``random`` and ``numpy.random`` draw in writers; 0 by default.
        depth: draw orders by priorities that change ``depth - 1`` times (PCT: Burckhardt and others, "A
            randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).
        seconds, max_states: where to stop; what was left out is said in ``left_out``.

    Returns:
        The outcomes, with an order for each, and the states that break the invariant.

    Raises:
        InvalidArgument: no table, no writers, a level that a table cannot have, an invariant that is none.
        IllegalStateError: a writer that does not do the same when it is run again, that writes to or locks
            other tables, starts threads or processes, never ends, or returns a coroutine; an invariant that
            writes; an Iceberg table; or a table that is pinned to a version.

    >>> import deltanb as dn
    >>> table = dn.create("account", {"id": [1], "balance": [100]})
    >>> def withdraw(table):
    ...     balance = table.to_arrow()["balance"][0].as_py()
    ...     table.update({"balance": str(balance - 60)}, "id = 1")
    >>> exploration = dn.explore(table, {"ann": withdraw, "ben": withdraw}, invariant="balance >= 0")
    >>> exploration.num_orders, exploration.holds, table.version
    (20, False, 0)
    >>> print(exploration.violations[0])
      1. ann reads v0
      2. ann reads v0
      3. ann commits v1 (UPDATE)
      4. ben reads v1
      5. ben reads v1
      6. ben commits v2 (UPDATE)
    """
    _number("seconds", seconds, float)
    _number("max_states", max_states, int)
    if orders is not None or depth is not None:
        orders = 1000 if orders is None else _number("orders", orders, int)
        depth = None if depth is None else _number("depth", depth, int)
    seed = 0 if seed is None else seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidArgument(f"seed={shown(seed)} is not a whole number")
    levels = Levels(None if isolation is None else require_isolation(isolation),
                    require_level(row_level) or options.row_level)
    works = named(writers, "explore", is_catalog(table))
    return Request(table, works, invariant, levels, seed, orders, depth, seconds, max_states).explore()


def _number(name: str, value: Any, kind: type) -> Any:
    is_number = isinstance(value, int | float if kind is float else int) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value <= 0:
        raise InvalidArgument(f"{name}={shown(value)} is not a {'whole ' * (kind is int)}number above 0")
    return value
