"""Records about a transaction's scopes and the lock that it waits for.

What lives here: three records.
What it does not know: how a scope begins and ends (``transaction``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltanb.locks.core.modes import LockMode, Name

if TYPE_CHECKING:
    from deltanb.locks.core.commit import Participant


class Scope(NamedTuple):
    """What the scope around a nested one goes back to."""

    floor: int
    """The height of its stack of locks below which they belong to the scopes around it."""
    height: int
    """How many changes there were when it began, or committed last."""
    lock_mode: LockMode
    lock_timeout: float
    reads: Mapping[int, int]
    """How much had been read of each table by then."""


class ScopeState(NamedTuple):
    """One scope as it stands: how it reads and waits, what it has changed and locked since it began."""

    lock_mode: LockMode
    lock_timeout: float
    num_changes: int
    groups: tuple[tuple[tuple[Name, int], ...], ...]
    """Its locks in order, each with the mode it is held in now; those of a group together."""
    changes: tuple[tuple[Participant, Any], ...] = ()
    """What it has changed, in order; an exit takes it back."""


class Waiting(NamedTuple):
    """The lock that a transaction waits for."""

    mode: str
    index_id: int
    key: bytes
