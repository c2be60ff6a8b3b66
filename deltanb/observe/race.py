"""Races on purpose: writers run against each other on a real table, in an order that is chosen.

What lives here: :func:`race`, and how threads take turns: each writer has a thread of its own, and exactly
one of all of them runs at a time. A writer is stopped before each step of I/O of its commits and waits
there until it is its turn again, so that the same order gives the same log at every run.
What it does not know: how a commit goes (``transaction.drive`` tells it of each step through
``watching``), how a race is drawn.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from deltanb import formatting as units
from deltanb.commands.read.diff import in_short
from deltanb.errors import DeltaConcurrentModificationException, InvalidArgument
from deltanb.observe.timeline import CommitTimeline
from deltanb.observe.tracks import joined, read
from deltanb.options import set_options
from deltanb.table import DeltaTable
from deltanb.transaction.drive import watching
from deltanb.transaction.journal import journal_of
from deltanb.transaction.steps import Committed, PutIfAbsent, ReadWinner, Step

Work = Callable[[DeltaTable], Any]
SERIAL = "serial"
MIN_WHY = 16  # columns of a mistake's message that say more than its type
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in a message; it is another one at every run
GRACE = 10.0  # seconds that an interrupted race waits for the writer that runs: nobody else can stop it


def race(
    table: DeltaTable,
    writers: Sequence[Work] | Mapping[str, Work],
    order: str | Sequence[str | int] | None = None,
) -> Race:
    """Run writers against each other on a table, and show what became of them.

    A writer is a callable that takes the table: any command, or transactions made by hand. Its name is the
    ``userName`` of its commits: a dict's key, a function's own name, or else "writer 1" and so on.
    Settings that it changes are its own. It stops before each step of I/O of its commits on this table
    (putting a version, reading the winner's); all it does before the first one, it does in one go.

    Args:
        table: the table itself, not one of its past.
        writers: in the order in which they take turns.
        order: None: all of them read, then each in turn commits and goes on to its end. ``"serial"``:
            one after the other. Or names or places (from 0), each of which lets that writer go on to its
            next step of I/O; a turn of one that has ended is passed over, and at the end of the list the
            others go on to their ends in turn.

    Returns:
        The timeline of the race. Its ``outcomes`` has for each name the last version committed (None
        for a writer without a commit), or the exception that the writer ended with.

    Raises:
        InvalidArgument: no table, no writers, one that cannot be called, or an order that names none.
        IllegalStateError: the table stands at a version, so nobody can write to it.

    A writer must not hold a lock that another one wants while it commits; commits of threads that a
    writer starts are not stopped. Ctrl+C ends the race: writers that wait write nothing more, and the one
    that runs is waited for up to its next step of I/O, ten seconds at most.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
    >>> result = dn.race(table, {
    ...     "ann": lambda t: t.append({"name": ["Scrooge"], "nephews": [1]}),
    ...     "ben": lambda t: t.delete("nephews = 0"),
    ... })
    >>> result.outcomes["ann"], type(result.outcomes["ben"]).__name__
    (1, 'ConcurrentAppendException')
    """
    if not isinstance(table, DeltaTable):
        raise InvalidArgument(
            f"a race is run on a table, found {type(table).__name__}; write it like "
            "dn.race(dn.open(path), writers)")
    log = table._writable("race")
    runners = [_Runner(name, work, table) for name, work in _named(writers).items()]
    turns = _turns(order, [runner.name for runner in runners])
    before = log.update().version
    outcomes = _run(runners, turns)
    seen = {txn_id for runner in runners for txn_id in runner.txn_ids}
    tried = [attempt for attempt in journal_of(log) if attempt.txn_id in seen]
    tracks = joined(read(log, before + 1), tried)
    return Race(tracks, table.name, title=_words(outcomes, log.path), writers=outcomes, outcomes=outcomes)


class Race(CommitTimeline):
    """The timeline of a race; ``outcomes`` has for each writer the version it committed last, None, or the
    exception that it ended with."""

    def __init__(self, *args: Any, outcomes: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outcomes = dict(outcomes)


def _words(outcomes: Mapping[str, Any], root: str = "") -> str:
    """What became of the writers, in a line; of mistakes, as much of their messages as there is room for.

    >>> _words({"ann": 1, "ben": ValueError("no"), "cid": None})
    'ann committed v1, ben failed (ValueError: no), cid committed nothing'
    """
    told = {name: _why(error, root) for name, error in outcomes.items() if isinstance(error, BaseException)}
    bare = _sentence(outcomes, dict.fromkeys(told, ""))
    room = (units.MAX_COLUMNS - units.width(bare)) // max(1, sum(map(bool, told.values())))
    if room < MIN_WHY:
        return bare
    return _sentence(outcomes, {name: units.fit(why, room) for name, why in told.items()})


def _sentence(outcomes: Mapping[str, Any], told: Mapping[str, str]) -> str:
    said = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, BaseException):
            said.append(f"{name} failed ({type(outcome).__name__.removesuffix('Exception')}{told[name]})")
        else:
            said.append(f"{name} committed " + ("nothing" if outcome is None else f"v{outcome}"))
    return ", ".join(said)


def _why(error: BaseException, root: str) -> str:
    """What a mistake says, on a line, without folders or addresses; a conflict has a picture of its own."""
    if isinstance(error, DeltaConcurrentModificationException):
        return ""
    words = _ADDRESS.sub("", units.clean(in_short(error, root)))
    return f": {words}" if words else ""


def _named(writers: Sequence[Work] | Mapping[str, Work]) -> dict[str, Work]:
    """The writers by name, in their order."""
    if isinstance(writers, Mapping):
        named = dict(writers)
    elif isinstance(writers, Sequence):
        named = {}
        for place, work in enumerate(writers, 1):
            name = getattr(work, "__name__", "")
            name = name if name.isidentifier() else f"writer {place}"
            named[name if name not in named else f"{name} {place}"] = work
    else:
        named = {}
    for name, work in named.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"a writer's name is a text, found {name!r}")
        if not callable(work):
            raise InvalidArgument(
                f"writer {name!r} is a callable that takes the table, found {type(work).__name__}; "
                'write it like lambda t: t.delete("month = 1")')
    if not named:
        raise InvalidArgument(
            f"a race takes a list or a dict of writers, one at least, found {type(writers).__name__}"
            + (" without any" if isinstance(writers, Sequence | Mapping) else ""))
    return named


def _turns(order: Any, names: Sequence[str]) -> list[int]:
    """Whose turns come first, by place; after them each writer goes on to its end in turn."""
    if order is None:
        return list(range(len(names)))
    if order == SERIAL:
        return []
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise InvalidArgument(
            f"order={order!r} is None, 'serial', or a list of writers: {', '.join(names)}")
    turns = []
    for turn in order:
        is_place = isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn < len(names)
        if not is_place and turn not in names:
            raise InvalidArgument(
                f"order: {turn!r} is none of the writers; they are {', '.join(names)}, "
                f"or 0 to {len(names) - 1}")
        turns.append(turn if is_place else names.index(turn))
    return turns


def _run(runners: Sequence[_Runner], turns: Sequence[int]) -> dict[str, Any]:
    """Give the turns, then let each go on to its end; whatever happens, no thread stays behind waiting."""
    try:
        for place in turns:
            runners[place].advance()
        for runner in runners:
            while not runner.done:
                runner.advance()
    finally:
        for runner in runners:
            runner.stop()
    return {runner.name: runner.outcome for runner in runners}


class _Stopped(BaseException):
    """The race is over; no ``except Exception`` of a writer may hold it up."""


class _Runner:
    """One writer: its thread, its settings, and what came of it."""

    def __init__(self, name: str, work: Work, table: DeltaTable) -> None:
        self.name = name
        self.outcome: Any = None
        self.done = False
        self.txn_ids: set[str] = set()
        self._work = work
        self._table = table
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._is_running = self._is_stopped = False
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._live,), name=f"race: {name}", daemon=True)

    def advance(self) -> None:
        """Let the writer run up to its next step of I/O, or to its end."""
        if self.done:
            return
        self._is_running = True
        self._resume()
        try:
            self._back.acquire()
        except BaseException:  # it must not go on by itself
            self._is_stopped = True
            self._is_running = not self._back.acquire(timeout=GRACE)
            raise
        self._is_running = False
        if self.done:
            self._thread.join()

    def stop(self) -> None:
        """End the writer where it waits; one that still runs ends before its next step of I/O."""
        self._is_stopped = True
        if self._thread.ident is not None and not self._is_running:
            self.advance()

    def _resume(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()

    # -- in its thread ---------------------------------------------------------------------------

    def _live(self) -> None:
        watching.set(self._pause)
        set_options(user_name=self.name)  # of this thread's context, like whatever else the writer sets
        try:
            self._work(self._table)
        except BaseException as error:  # a writer's exception is its outcome, whatever it is
            self.outcome = error
        finally:
            self.done = True
            self._back.release()

    def _pause(self, txn: Any, step: Step) -> None:
        if getattr(txn, "log", None) is not self._table.log:  # of another table, or of several tables
            return
        self.txn_ids.add(txn.txn_id)
        if isinstance(step, Committed):
            self.outcome = step.version
        if isinstance(step, PutIfAbsent | ReadWinner):
            if not self._is_stopped:
                self._back.release()
                self._go.acquire()
            if self._is_stopped:
                raise _Stopped
