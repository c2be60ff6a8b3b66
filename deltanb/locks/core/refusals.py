"""Why a lock was not granted: the facts, and the error that states them.

What lives here: the facts that are taken down while the lock still stands as it did, the errors made of them
afterwards, and timeouts as people write them.
What it does not know: how the facts are found (``manager``, ``deadlock``).
"""

from __future__ import annotations

import datetime as dt
import math
import threading
from dataclasses import dataclass
from typing import Any

from deltanb.errors import (
    DeadlockError,
    IllegalUpgradeError,
    InvalidArgument,
    LockFailure,
    LockInterruptedError,
    LockTimeoutError,
)
from deltanb.locks.core.deadlock import Cycle, DeadlockItem
from deltanb.locks.core.modes import MODE_NAMES, LockResult, label
from deltanb.locks.core.names import called
from deltanb.text.safe_text import escaped, shown

FOR_EVER = -1
MAX_HOLDERS = 3  # named in a message; a lock can be shared by thousands
MAX_ATTACHED = 200  # characters of an attachment in a message

Timeout = float | dt.timedelta | None
"""As people give it: seconds or a ``timedelta``."""


@dataclass(frozen=True)
class Refusal:
    """Why a request came to nothing, taken down under the manager's mutex."""

    result: LockResult
    timeout: float = 0
    attachment: Any = None
    cycle: Cycle | None = None
    items: tuple[DeadlockItem, ...] = ()
    holders: tuple[tuple[int, str], ...] = ()
    is_closed: bool = False
    is_put_off: bool = False
    """Whether a commit that waits to be flushed holds the lock."""

    def answer(self, index_id: int, key: bytes, requested: int, is_try: bool) -> LockResult:
        """The result, for a call that only tries.

        Raises:
            LockFailure: for all others, and for a deadlock.
        """
        if is_try and self.result is not LockResult.DEADLOCK:
            return self.result
        raise self.error(index_id, key, requested)

    def error(self, index_id: int, key: bytes, requested: int) -> LockFailure:
        """The error; this is where foreign code runs, the ``str`` of an attachment."""
        place = {"index_id": index_id, "key": key}
        mode = MODE_NAMES[requested]
        what = f"{'an' if mode[0] in 'uei' else 'a'} {mode} lock on {label((index_id, key))}"
        if self.result is LockResult.ILLEGAL:
            return IllegalUpgradeError(
                f"the shared lock on {label((index_id, key))} cannot become {mode} under this "
                f"upgrade rule{self._held()}; take an upgradable lock before "
                "the row is read (lock_mode UPGRADABLE_READ)", **place)
        if self.result is LockResult.INTERRUPTED:
            why = ("the lock manager is closed; make another one" if self.is_closed else
                   "the wait was interrupted")
            return LockInterruptedError(f"{what} was not granted: {why}", **place)
        place |= {"timeout": self.timeout, "owner_attachment": self.attachment}
        attached = "" if self.attachment is None else f"; owner attachment: {attached_text(self.attachment)}"
        if self.cycle is None:
            way = ("a commit that was put off (NO_FLUSH) keeps it until it is flushed: manager.flush()"
                   if self.is_put_off else
                   "wait longer (lock_timeout), or find out who holds it: print(manager)")
            why = f"{waited(self.timeout)}{self._held()}{attached}"
            return LockTimeoutError(f"{what} was not granted: {why}; {way}", **place)
        part = "is part of" if self.cycle.is_on_it else "only waits for"
        return DeadlockError(
            f"{what} was not granted, deadlock (this transaction {part} it): {in_words(self.cycle)}; "
            f"{waited(self.timeout)}{attached}; roll back this transaction, and {advice(self.cycle)}",
            **place, guilty=self.cycle.is_on_it, cycle=self.cycle, deadlock_set=self.items)

    def _held(self) -> str:
        names = [f"{called(holder)} ({mode})" for holder, mode in self.holders[:MAX_HOLDERS]]
        more = len(self.holders) - len(names)
        names += [f"{more} more"] if more else []
        return f", held by {', '.join(names)}" if names else ""


def waited(timeout: float) -> str:
    """How long a call was ready to wait.

    >>> waited(0.2), waited(0), waited(-1)
    ('waited 0.2 s', 'never waited', 'infinite wait')
    """
    if timeout < 0:
        return "infinite wait"
    return f"waited {round(timeout, 3) or timeout:g} s" if timeout else "never waited"


def in_words(cycle: Cycle) -> str:
    """A cycle as a sentence."""
    parts = []
    for at, wait in enumerate(cycle.waits):
        following = cycle.transactions[(at + 1) % len(cycle.transactions)]
        lock = f"{wait.lock} ({wait.mode})"
        parts.append(f"{called(wait.transaction)} waits for {lock} held by {called(following)}")
    if cycle.idle is not None:
        parts.append(f"only thread {cycle.thread} works on {called(cycle.idle)}, and it would wait for ever")
    return ", ".join(parts)


def advice(cycle: Cycle) -> str:
    """What would have avoided a cycle."""
    if cycle.idle is not None:
        return f"end {called(cycle.idle)} first, or wait a limited time"
    if cycle.is_conversion and any("intention" in wait.has + wait.mode for wait in cycle.waits):
        return "ask at once for all that a table or partition will be locked in, the strongest first"
    if cycle.is_conversion:
        return "take upgradable locks on what will be written after it is read"
    return "take these locks in one order everywhere: " + ", ".join(map(label, cycle.order))


def attached(attachment: Any) -> str:
    """An attachment in a picture, by its ``repr``: foreign code, which may fail.

    >>> attached("planner")
    "'planner'"
    """
    try:
        return shown(attachment)
    except Exception as error:
        return f"a {type(attachment).__name__} whose repr raises {type(error).__name__}"


def attached_text(attachment: Any) -> str:
    """An attachment in a message, by its ``str``: foreign code, which may fail.

    >>> attached_text("planner"), attached_text(OSError("full")), attached_text(KeyboardInterrupt())
    ('planner', 'OSError: full', 'KeyboardInterrupt')
    """
    try:
        text = escaped(str(attachment))[:MAX_ATTACHED]
    except Exception as error:
        return f"a {type(attachment).__name__} whose str raises {type(error).__name__}"
    if isinstance(attachment, BaseException):
        return f"{type(attachment).__name__}: {text}" if text else type(attachment).__name__
    return text


def seconds(timeout: Any, where: str) -> float:
    """A timeout in seconds; whatever is for ever is -1.

    >>> seconds(0.5, "timeout"), seconds(-3, "timeout"), seconds(None, "timeout")
    (0.5, -1, -1)
    >>> seconds(dt.timedelta(milliseconds=20), "timeout"), seconds(dt.timedelta(-1), "timeout")
    (0.02, -1)

    Raises:
        InvalidArgument: neither a number nor a ``timedelta``.
    """
    if timeout is None:
        return FOR_EVER
    if isinstance(timeout, dt.timedelta):
        timeout = timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout):
        raise InvalidArgument(f"{where} takes seconds or a timedelta, 0 not to wait, negative to wait for "
                              f"ever; found {type(timeout).__name__}: {shown(timeout)}")
    return FOR_EVER if timeout < 0 or timeout > threading.TIMEOUT_MAX else timeout
