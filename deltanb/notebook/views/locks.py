"""Locks: who holds what and who waits, and the scopes of a transaction.

What lives here: the views of ``LockManager`` and of its ``Transaction``.
What it does not know: who gets a lock, who waits for whom (``lock_graph``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from deltanb import formatting as units
from deltanb.locks.modes import MODE_NAMES, label
from deltanb.locks.refusals import attached
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options

MAX_NAMED = 6  # transactions or locks named in a cell; a lock can be shared by thousands


def manager(found: Any) -> View:
    """The view of a :class:`~deltanb.locks.manager.LockManager`."""
    mark: Inline = warn("closed") if found.is_closed else ok("open")
    counts = [units.count(found.num_locks_held, "lock") + " held",
              units.count(found.num_waiting, "transaction") + " waiting"]
    if found.num_pending:
        counts.append(units.count(found.num_pending, "commit") + " to be flushed")
    settings = (f"upgrades {found.upgrade_rule}  waits {_seconds(found.lock_timeout)}  "
                f"looks for deadlocks as {DETECTED[found.detect]}")
    states = found.locks(max(1, options.max_rows))
    rows = tuple((code(found.label(state.index_id, state.key)), _modes(state.holders), _modes(state.waiters))
                 for state in states)
    marked = frozenset(at for at, state in enumerate(states) if state.waiters)
    table = Table(("lock", "held by", "waited for by"), rows, found.num_locks_held, "lock", marked=marked)
    sections = (Section("Locks", _summary(found), table, is_open=True, text_rows=True),) if rows else ()
    return View("Lock manager", "", (mark,), ("  ".join(counts), muted(settings)), sections)


DETECTED = {"enqueue": "a wait begins", "timeout": "a wait runs out of time"}


def _summary(found: Any) -> str:
    return "those waited for first" if found.num_waiting else "nobody waits"


def _modes(pairs: Sequence[tuple[int, str]]) -> Inline:
    """Transactions and their modes, neighbours of one mode together.

    >>> _modes([(3, "upgradable"), (1, "shared"), (2, "shared")])
    '3 upgradable, 1 2 shared'
    """
    parts = [f"{' '.join(str(txn) for txn, _ in some)} {mode}"
             for mode, some in groupby(pairs[:MAX_NAMED], key=lambda pair: pair[1])]
    return ", ".join([*parts, *_more(len(pairs))])


def _more(total: int) -> Iterable[str]:
    return [f"{units.number(total - MAX_NAMED)} more"] if total > MAX_NAMED else []


def _seconds(timeout: float) -> str:
    return "for ever" if timeout < 0 else f"{timeout:g} s at most" if timeout else "not at all"


# -- a transaction -----------------------------------------------------------------------------


def transaction(txn: Any) -> View:
    """The view of a :class:`~deltanb.locks.transaction.Transaction` of a lock manager."""
    if txn.is_bogus:
        return View("Transaction", "BOGUS", ("none at all",), ("nothing is locked, nothing is undone",))
    scopes = txn.scopes()
    held = len({name for scope in scopes for group in scope.groups for name, _ in group})
    changes = sum(scope.num_changes for scope in scopes)
    line = "  ".join([units.count(held, "lock"), units.count(changes, "change"), txn.durability_mode.name])
    lines: list[Inline] = [line]
    if txn.attachment is not None:
        lines.append(["attached: ", code(attached(txn.attachment))])
    rows = tuple(("  " * level + str(level), scope.lock_mode.name, _seconds(scope.lock_timeout),
                  units.number(scope.num_changes), _groups(scope.groups))
                 for level, scope in enumerate(scopes))
    table = Table(("scope", "reads", "waits", "changes", "locks, the last one last"), rows, len(rows),
                  "scope", limit=None)
    section = Section("Scopes", f"now at level {txn.nesting_level}", table, is_open=True, text_rows=True)
    return View("Transaction", str(txn.id), (_state(txn),), tuple(lines), (section,))


def _state(txn: Any) -> Inline:
    if not txn.is_valid:
        return warn("✕ disabled")
    waiting = txn.waiting
    if waiting is None:
        return ok("open")
    return warn(f"waits for {txn.manager.label(waiting.index_id, waiting.key)} ({waiting.mode})")


def _groups(groups: Sequence[Sequence[tuple[tuple[int, bytes], int]]]) -> Inline:
    """Locks by name and mode; those of a group are joined by a plus, only the last ones are named."""
    said = [" + ".join(f"{label(name)} {MODE_NAMES[mode]}" for name, mode in group) for group in groups]
    few = said[-MAX_NAMED:]
    left = len(said) - len(few)
    return ", ".join([*([f"{units.number(left)} before"] if left else []), *few]) or "none"
