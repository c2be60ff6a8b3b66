"""What happened to locks, written down as it happens: the last so many events, for a timeline.

What lives here: the recorder, a lock table and a transaction that report to it, and the events as a
value. They replace the plain ones, so that without recording nothing has to ask whether to record.
What it does not know: who gets a lock (``core``), how events are drawn.

An event of a lock has the mode it is about and, as ``held``, what the transaction holds of the lock after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.locks.core.lock_table import AnyLock, LockTable, Waiter
from deltanb.locks.core.modes import MODE_NAMES, NONE, DurabilityMode, LockResult, Name, UpgradeRule, label
from deltanb.locks.core.names import own_name
from deltanb.locks.core.transaction import NO_CAUSE, Transaction
from deltanb.text import upper
from deltanb.text.display import Displayable, views
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.locks.core.stack import Locker

Row = tuple[int, int, str, "Name | None", int, int, int]
"""Nanoseconds, transaction, what, lock, mode, mode held then, nesting level."""

ENDINGS: Final = {
    LockResult.TIMED_OUT_LOCK: "timed out", LockResult.DEADLOCK: "deadlock",
    LockResult.INTERRUPTED: "interrupted",
}
"""How a wait in vain ends."""

VAIN: Final = {"deadlock": "deadlock victim", "timed out": "timed out", "interrupted": "interrupted"}
"""What became of a transaction that committed nothing after such a wait."""

OUTCOMES: Final = {"committed": "committed", "put off": "put off", "failed": "failed",
                   **dict.fromkeys(("rolled back", "undone", "exited", "reset"), "rolled back")}
"""What became of a transaction, by the event that ended its outermost scope."""

WHATS: Final = ("waits", "granted", "lowered", "released", "illegal", *ENDINGS.values(), "entered", "exited",
                "undone", "rolled back", "committed", "put off", "failed", "reset", "closed")
"""Everything that an event can be."""


@dataclass(frozen=True)
class LockEvent:
    """Something that happened to a lock, or to a scope of a transaction."""

    number: int
    """How many events were recorded before it."""
    at_ns: int
    """When, by the manager's clock, which began at 0 with the manager."""
    transaction: int
    what: str
    """A word of :data:`WHATS`."""
    index_id: int | None = None
    key: bytes | None = None
    mode: str | None = None
    """What was asked for, granted, or held before it was lowered or released."""
    held: str | None = None
    """What the transaction holds of the lock after it."""
    level: int | None = None
    """How many scopes lay around the one that this is about, for events of scopes."""

    @property
    def name(self) -> str:
        """What the transaction is called; empty if it has no name."""
        return own_name(self.transaction)

    @property
    def lock(self) -> str:
        """The lock, as text; empty where it is about a scope."""
        return "" if self.index_id is None or self.key is None else label((self.index_id, self.key))


def outcome_of(rows: Iterable[Row]) -> str:
    """What became of a transaction, from its events: a word of :data:`OUTCOMES` or, where it was undone after
    a wait in vain, of :data:`VAIN`; empty while it is open.

    >>> undone = [(0, 1, "deadlock", (1, b"k"), 3, 0, 0), (1, 1, "exited", None, 0, 0, 0)]
    >>> outcome_of(undone), outcome_of(undone[:1]), outcome_of([(1, 1, "committed", None, 0, 0, 0)])
    ('deadlock victim', '', 'committed')
    """
    ended = vain = ""
    for _, _, what, name, _, _, level in rows:
        if name is not None:
            vain = VAIN.get(what, "" if what == "granted" else vain)
        elif not level and what in OUTCOMES:
            ended = OUTCOMES[what]
    return vain if vain and ended == "rolled back" else ended


class Recorder:
    """The last so many events. Whoever tells of one holds the manager's mutex."""

    def __init__(self, size: Any, clock: Callable[[], int]) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidArgument(
                f"record takes the number of events to keep, 1 or more, found {shown(size)}; without it "
                "nothing is recorded")
        self._clock, self._start = clock, clock()
        self._rows: deque[Row] = deque(maxlen=size)
        self._total = 0

    def tell(self, transaction: int, what: str, name: Name | None = None, mode: int = NONE, held: int = NONE,
             level: int = 0) -> None:
        """Note an event."""
        self._total += 1
        self._rows.append((self._clock() - self._start, transaction, what, name, mode, held, level))

    def timeline(self) -> LockTimeline:
        """All that is still there."""
        rows = tuple(self._rows)
        return LockTimeline(rows, self._total - len(rows), self._clock() - self._start)


@answer_wrong_arguments()
class LockTimeline(Displayable):
    """What happened to the locks of a manager: who waited, who held what, how scopes and waits ended.

    In a notebook it is a picture with a lane for each transaction.

    >>> from deltanb.locks import LockManager
    >>> manager = LockManager(record=100, clock=lambda: 0)
    >>> with manager.new_transaction() as txn:
    ...     _ = txn.lock_exclusive(1, b"k")
    ...     txn.commit()
    >>> [(event.what, event.lock) for event in manager.timeline().events]
    [('granted', '1:k'), ('released', '1:k'), ('committed', '')]
    """

    def __init__(self, rows: Sequence[Row], dropped: int = 0, now_ns: int = 0) -> None:
        self.rows = tuple(rows)
        self.dropped = dropped
        """How many earlier events were there and are not kept."""
        self.now_ns = now_ns
        """When this was taken, by the manager's clock."""

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def events(self) -> tuple[LockEvent, ...]:
        """The events, the oldest first.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> [event.what for event in manager.timeline().events]
        ['granted', 'released', 'committed']
        """
        return tuple(_event(self.dropped + at, row) for at, row in enumerate(self.rows))

    def newest(self, limit: int) -> tuple[LockEvent, ...]:
        """So many events at most, the newest first.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> [event.what for event in manager.timeline().newest(1)]
        ['committed']
        """
        total, few = len(self.rows), self.rows[:-1 - limit:-1]
        return tuple(_event(self.dropped + total - 1 - at, row) for at, row in enumerate(few))

    @cached_property
    def outcomes(self) -> dict[int, str]:
        """What became of each transaction, by its id: "committed", "rolled back", "deadlock victim",
        "timed out", "interrupted", "failed", "put off"; empty while it is open.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> manager.timeline().outcomes
        {1: 'committed'}
        """
        by_transaction: dict[int, list[Row]] = {}
        for row in self.rows:
            if row[2] != "closed":
                by_transaction.setdefault(row[1], []).append(row)
        return {transaction: outcome_of(rows) for transaction, rows in by_transaction.items()}

    @cached_property
    def scene(self) -> Any:
        """What the picture shows, and where: lanes and bands.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> len(manager.timeline().scene.lanes)
        1
        """
        return views().drawing(self, "scene")

    def table(self) -> Any:
        """The events as an Arrow table, a row each: ``number``, ``at``, ``transaction``, ``name``, ``what``,
        ``index``, ``key``, ``lock``, ``mode``, ``held``, ``level``.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> manager.timeline().table()["what"].to_pylist()
        ['granted', 'released', 'committed']
        """
        return upper.lock_events(self.events)

    @property
    def svg(self) -> str:
        """The picture as SVG.

        >>> from deltanb.locks import LockManager
        >>> manager = LockManager(record=100, clock=lambda: 0)
        >>> with manager.new_transaction("nightly") as txn:
        ...     _ = txn.lock_exclusive(1, b"k")
        ...     txn.commit()
        >>> manager.timeline().svg[:4]
        '<svg'
        """
        drawn: str = views().drawing(self, "svg")
        return drawn


def _event(number: int, row: Row) -> LockEvent:
    at, transaction, what, name, mode, held, level = row
    if name is None:
        return LockEvent(number, at, transaction, what, level=level)
    return LockEvent(number, at, transaction, what, name[0], name[1], MODE_NAMES[mode], MODE_NAMES[held])


def timeline_of(recorder: Recorder | None) -> LockTimeline:
    """What a recorder has.

    Raises:
        IllegalStateError: there is none.
    """
    if recorder is None:
        raise IllegalStateError(
            "nothing is recorded: LockManager(record=10_000) keeps the last ten thousand events")
    return recorder.timeline()


# -- who tells it ------------------------------------------------------------------------------


class RecordedTable(LockTable):
    """A lock table that tells a recorder what it does."""

    __slots__ = ("_recorder",)

    def __init__(self, rule: UpgradeRule, recorder: Recorder) -> None:
        super().__init__(rule)
        self._recorder = recorder

    def ask(self, locker: Locker, name: Name, requested: int) -> LockResult | Waiter:
        """As the table's; what is new to the transaction is recorded."""
        before = self._held(locker, name)
        result = super().ask(locker, name, requested)
        held = self._held(locker, name)
        name = self.locks[name].name
        if isinstance(result, Waiter):
            self._recorder.tell(locker.id, "waits", name, requested, held)
        elif result is LockResult.ILLEGAL:
            self._recorder.tell(locker.id, "illegal", name, requested, held)
        elif held != before:
            self._recorder.tell(locker.id, "granted", name, held, held)
        return result

    def lower(self, locker: Locker, lock: AnyLock, to: int) -> None:
        """As the table's; told before those whom it lets go on."""
        held = lock.held_by(locker)
        if held != to:
            self._recorder.tell(locker.id, "released" if to == NONE else "lowered", lock.name, held, to)
        super().lower(locker, lock, to)

    def drop(self, locker: Locker, lock: Any) -> None:
        """As the table's."""
        self.lower(locker, lock, NONE)

    def close(self, keeper: Locker) -> None:
        """As the table's."""
        self._recorder.tell(keeper.id, "closed")
        super().close(keeper)

    def end(self, waiter: Waiter, result: LockResult) -> None:
        """As the table's."""
        has_waited = waiter.locker.waiter is waiter
        super().end(waiter, result)
        if has_waited:
            what = ENDINGS.get(result, "granted")
            held = waiter.lock.held_by(waiter.locker)
            mode = held if result.is_held else waiter.requested
            self._recorder.tell(waiter.locker.id, what, waiter.lock.name, mode, held)

    def _held(self, locker: Locker, name: Name) -> int:
        lock = self.locks.get(name)
        return NONE if lock is None else lock.held_by(locker)


class RecordedTransaction(Transaction):
    """A transaction that tells the recorder of its scopes."""

    __slots__ = ()

    def enter(self) -> None:
        super().enter()
        self._tell("entered", self.id, self.nesting_level)

    def commit(self) -> None:
        txn_id, level, is_empty = self.id, self.nesting_level, self._is_empty
        is_put_off = not level and self._durability is DurabilityMode.NO_FLUSH and bool(self._changes)
        try:
            super().commit()
        except BaseException:
            if self.id != txn_id:
                self._tell("failed", txn_id, level)
            raise
        if not is_empty:
            self._tell("put off" if is_put_off else "committed", txn_id, level)

    def exit(self) -> None:
        txn_id, level, is_empty = self.id, self.nesting_level, self._is_empty
        what = "undone" if len(self._changes) > self._height else "exited"
        super().exit()
        if not is_empty:
            self._tell(what, txn_id, level)

    close = exit

    def rollback(self) -> None:
        txn_id, level, is_empty = self.id, self.nesting_level, self._is_empty
        super().rollback()
        if not is_empty:
            self._tell("rolled back", txn_id, level)

    def reset(self, cause: Any = NO_CAUSE) -> None:
        txn_id, is_empty = self.id, self._is_empty
        super().reset(cause)
        if not is_empty:
            self._tell("reset", txn_id, 0)

    @property
    def _is_empty(self) -> bool:
        """Whether nothing can be told of it: it has locked and changed nothing, and is not nested."""
        return not (self._scopes or self._changes or self._locker.entries)

    def _tell(self, what: str, txn_id: int, level: int) -> None:
        with self._manager._mutex:
            recorder = self._manager._recorder
            assert recorder is not None
            recorder.tell(txn_id, what, level=level)
