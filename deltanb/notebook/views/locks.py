"""Locks: who holds what and who waits, and the scopes of a transaction.

What lives here: the views of ``LockManager`` and of its ``Transaction``.
What it does not know: who gets a lock, who waits for whom (``lock_graph``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any

from deltanb.locks.core.commit import described
from deltanb.locks.core.modes import MODE_NAMES, label
from deltanb.locks.core.names import called
from deltanb.locks.core.refusals import attached
from deltanb.notebook.drawing.lock_scopes import ScopeLines, ScopesView, room_of
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

MAX_CHANGE = 60  # characters of a change in words
MAX_DESCRIBED = 1000  # changes that their participants are asked to describe
BEFORE = 14  # columns of what comes before: "1 000 before, "
MAX_NAMED = 6  # transactions or locks named in a cell; a lock can be shared by thousands


def manager(manager: Any) -> View:
    """The view of a :class:`~deltanb.locks.core.manager.LockManager`."""
    mark: Inline = warn("closed") if manager.is_closed else ok("open")
    counts = [units.count(manager.num_locks_held, "lock") + " held",
              units.count(manager.num_waiting, "transaction") + " waiting"]
    if manager.num_pending:
        counts.append(units.count(manager.num_pending, "commit") + " to be flushed")
    settings = (f"upgrades {manager.upgrade_rule}  waits {_seconds(manager.lock_timeout)}  "
                f"looks for deadlocks as {DETECTED[manager.detect]}")
    states = manager.locks(max(1, options.max_rows))
    rows = tuple((code(manager.label(state.index_id, state.key)), _modes(state.holders),
                  _modes(state.waiters)) for state in states)
    marked = frozenset(at for at, state in enumerate(states) if state.waiters)
    table = Table(("lock", "held by", "waited for by"), rows, manager.num_locks_held, "lock", marked=marked)
    sections = (Section("Locks", _summary(manager), table, is_open=True, text_rows=True),) if rows else ()
    return View("Lock manager", "", (mark,), ("  ".join(counts), muted(settings)), sections)


DETECTED = {"enqueue": "a wait begins", "timeout": "a wait runs out of time"}


def _summary(manager: Any) -> str:
    return "those waited for first" if manager.num_waiting else "nobody waits"


def _modes(pairs: Sequence[tuple[int, str]]) -> Inline:
    """Transactions by their modes, neighbours of one mode together.

    >>> _modes([(3, "upgradable"), (1, "shared"), (2, "shared")])
    'upgradable: transaction 3; shared: transaction 1, transaction 2'
    """
    parts = [f"{mode}: {', '.join(units.clean(called(txn)) for txn, _ in some)}"
             for mode, some in groupby(pairs[:MAX_NAMED], key=lambda pair: pair[1])]
    return "; ".join([*parts, *_more(len(pairs))])


def _more(total: int) -> Iterable[str]:
    return [f"{units.number(total - MAX_NAMED)} more"] if total > MAX_NAMED else []


def _seconds(timeout: float) -> str:
    return "for ever" if timeout < 0 else f"{timeout:g} s at most" if timeout else "not at all"


# -- a transaction -----------------------------------------------------------------------------


def transaction(txn: Any) -> ScopesView:
    """The view of a :class:`~deltanb.locks.core.transaction.Transaction` of a lock manager."""
    if txn.is_bogus:
        return ScopesView("Transaction", "BOGUS", ("none at all",), ("nothing is locked, nothing is undone",))
    scopes = txn.scopes()
    held = len({name for scope in scopes for group in scope.groups for name, _ in group})
    changes = sum(scope.num_changes for scope in scopes)
    line = "  ".join([units.count(held, "lock"), units.count(changes, "change"), txn.durability_mode.name])
    lines: list[Inline] = [line]
    if txn.attachment is not None and txn.attachment != txn.name:
        lines.append(["attached: ", code(attached(txn.attachment))])
    before = [0, *accumulate(scope.num_changes for scope in scopes)]
    listed = tuple(_scope(level, scope, before[level]) for level, scope in enumerate(scopes))
    return ScopesView("Transaction", units.clean(str(txn.id)), (_state(txn),), tuple(lines), scopes=listed,
                      note=f"now at level {txn.nesting_level}")


def _scope(level: int, scope: Any, before: int) -> ScopeLines:
    """The lines of a scope; ``before`` is the number of changes made in the scopes around it."""
    point = f"  savepoint after {units.count(before, 'change')}" if level else ""
    head: list[object] = [Span(str(level), strong=True), f"  {scope.lock_mode.name}  waits "
                          f"{_seconds(scope.lock_timeout)}", muted(point)]
    facts: list[tuple[str, Inline]] = []
    if scope.groups:
        groups = _once(scope.groups)
        lines = [" + ".join(f"{label(name)} {MODE_NAMES[mode]}" for name, mode in group)
                for group in groups[-MAX_NAMED:]]
        facts.append(("locks", _last(lines, len(groups) - len(lines), room_of(level))))
    if scope.num_changes:
        newest = scope.changes[-MAX_DESCRIBED:]
        lines = [units.fit(units.clean(line), MAX_CHANGE) for line in described(newest)]
        facts.append(("changes", _last(lines, scope.num_changes - len(newest), room_of(level))))
    short = f"{level}  {scope.lock_mode.name}  {units.count(sum(map(len, scope.groups)), 'lock')}"
    if scope.num_changes:
        short += f"  {units.count(scope.num_changes, 'change')}"
    return ScopeLines(level, head, short, tuple(facts))


def _once(groups: Sequence[Any]) -> list[Any]:
    """The groups of a scope; a lock that it upgraded is listed once, at its last place."""
    latest = {tuple(name for name, _ in group): group for group in reversed(groups)}
    return list(latest.values())[::-1]


def _last(items: Sequence[str], before: int, room: int) -> Inline:
    """The last items, as many as fit; the others are counted, together with ``before`` earlier ones."""
    few = list(items[-MAX_NAMED:])
    while len(few) > 1 and len(", ".join(few)) + (BEFORE if before or len(few) < len(items) else 0) > room:
        few.pop(0)
    before += len(items) - len(few)
    return ", ".join([*([f"{units.number(before)} before"] if before else []), *few])


def _state(txn: Any) -> Inline:
    if not txn.is_valid:
        return warn("✕ disabled")
    waiting = txn.waiting
    if waiting is None:
        return ok("open")
    return warn(f"waits for {txn.manager.label(waiting.index_id, waiting.key)} ({waiting.mode})")
