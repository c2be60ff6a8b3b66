"""Taking turns: writers in threads of their own, exactly one of which runs at a time.

What lives here: the threads, the order of turns, and what became of each writer in words. A writer is stopped
before each step of I/O of its commits and waits there until it is its turn again, so that the same order
gives the same log at every run. One that waits for a lock gives the turn on, and has no turn until somebody
decides its request; where nobody is left who could, the first one that waits is timed out. No time passes.
What it does not know: what is written to, and which steps are I/O: it is told.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltanb import errors
from deltanb.commands.read.diff import in_short
from deltanb.errors import InvalidArgument
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.modes import MODE_NAMES, label
from deltanb.locks.core.waits import parking
from deltanb.observe.tracks import Mark, Track
from deltanb.options import set_options
from deltanb.text import formatting as units
from deltanb.transaction.drive import watching
from deltanb.transaction.steps import Step

Work = Callable[[Any], Any]
SERIAL = "serial"
WAITED = "‖"  # the sign of a commit whose writer had to wait for a lock
MIN_WHY = 16  # columns of a mistake's message that say more than its type
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in a message; it is another one at every run
GRACE = 10.0  # seconds that an interrupted race waits for the writer that runs: nobody else can stop it


LOSSES = (
    errors.DeltaConcurrentModificationException, errors.MaxCommitRetriesExceeded, errors.CommitOutcomeUnknown,
    errors.CommitFailed, errors.TransactionAbandoned, errors.FeatureDropConflict,
    errors.RowTrackingBackfillRunningConcurrentlyWithUnbackfill, errors.LockFailure)
"""How a race may end for a writer: with these it has lost. Any other exception is an error of the writer."""
MAX_MISTAKES = 3  # writers whose errors are told one by one


def words(outcomes: Mapping[str, Any], root: str = "", place: str = "v") -> str:
    """What became of the writers, in a line, but for those that ended with an error (:func:`mistakes`);
    ``place`` stands before the number of what was committed.

    >>> words({"ann": 1, "ben": ValueError("no"), "cid": None})
    'ann committed v1, cid committed nothing'
    """
    outcomes = {name: outcome for name, outcome in outcomes.items() if not is_mistake(outcome)}
    told = {name: _why(error, root) for name, error in outcomes.items() if isinstance(error, BaseException)}
    bare = _sentence(outcomes, dict.fromkeys(told, ""), place)
    room = (units.MAX_COLUMNS - units.width(bare)) // max(1, sum(map(bool, told.values())))
    if room < MIN_WHY:
        return bare
    return _sentence(outcomes, {name: units.fit(why, room) for name, why in told.items()}, place)


def is_mistake(outcome: Any) -> bool:
    """Whether a writer ended with an error that is no way to lose a race."""
    return isinstance(outcome, BaseException) and not isinstance(outcome, LOSSES)


def mistakes(outcomes: Mapping[str, Any], root: str = "") -> list[str]:
    """The writers that ended with an error, a line each; the last line counts those that are left.

    >>> mistakes({"ann": 1, "ben": ValueError("no"), "cid": None})
    ['ben raised ValueError: no']
    """
    found = {name: error for name, error in outcomes.items() if is_mistake(error)}
    lines = [f"{units.clean(name)} raised {type(error).__name__}{_why(error, root)}"
             for name, error in list(found.items())[:MAX_MISTAKES]]
    if left := list(found)[MAX_MISTAKES:]:
        lines.append(f"{units.count(len(left), 'more writer')} raised errors: {', '.join(left)}")
    return [units.fit(units.clean(line), units.MAX_COLUMNS - len("✕ ")) for line in lines]


def _sentence(outcomes: Mapping[str, Any], told: Mapping[str, str], place: str) -> str:
    said = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, BaseException):
            said.append(f"{name} failed ({type(outcome).__name__.removesuffix('Exception')}{told[name]})")
        else:
            said.append(f"{name} committed " + ("nothing" if outcome is None else f"{place}{outcome}"))
    return ", ".join(said)


def _why(error: BaseException, root: str) -> str:
    """What a mistake says, on a line, without folders or addresses; a conflict has a picture of its own."""
    if isinstance(error, errors.DeltaConcurrentModificationException):
        return ""
    words = _ADDRESS.sub("", units.clean(in_short(error, root)))
    return f": {words}" if words else ""


def named(
    writers: Sequence[Work] | Mapping[str, Work], takes: str = "the table",
    like: str = 'lambda t: t.delete("month = 1")',
) -> dict[str, Work]:
    """The writers by name, in their order; ``takes`` and ``like`` say what one is, for messages.

    Raises:
        InvalidArgument: none, or one that cannot be called.
    """
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
                f"writer {name!r} is a callable that takes {takes}, found {type(work).__name__}; "
                f"write it like {like}")
    if not named:
        raise InvalidArgument(
            f"a race takes a list or a dict of writers, one at least, found {type(writers).__name__}"
            + (" without any" if isinstance(writers, Sequence | Mapping) else ""))
    return named


def turns_of(order: Any, names: Sequence[str]) -> list[int]:
    """Whose turns come first, by place; after them each writer goes on to its end in turn.

    Raises:
        InvalidArgument: an order that names none of them.
    """
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


def run(runners: Sequence[Runner], turns: Sequence[int]) -> dict[str, Any]:
    """Give the turns, then let each go on to its end; whatever happens, no thread stays behind waiting."""
    waiting: dict[Runner, None] = {}
    try:
        for place in turns:
            _turn(runners[place], waiting)
        while left := [runner for runner in runners if not runner.done]:
            free = next((runner for runner in left if not runner.is_blocked), None)
            if free is None:
                free = next(runner for runner in waiting if runner.is_blocked)
                free.time_out()
            _turn(free, waiting)
    finally:
        for runner in runners:
            runner.stop()
    return {runner.name: runner.outcome for runner in runners}


def _turn(runner: Runner, waiting: dict[Runner, None]) -> None:
    """Give a turn; ``waiting`` has those that wait for a lock, the first one first."""
    if runner.is_blocked:
        return
    runner.advance()
    waiting.pop(runner, None)
    if runner.is_blocked:
        waiting[runner] = None


def waits_of(runners: Iterable[Runner], tracks: Iterable[Track]) -> tuple[dict[Any, Mark], str]:
    """The locks that writers waited for: as remarks on the commits that came of it, the others in words.

    Of a writer that failed its error tells.
    """
    commits = [(getattr(track, "who", track.user or track.writer), track.version)
               for track in tracks if track.is_committed]
    found: dict[Any, list[LockWait]] = {}
    others = []
    for runner, wait in [(one, wait) for one in runners for wait in one.waits]:
        after = -1 if wait.end is None else wait.end
        own = [version for writer, version in commits if writer == wait.writer and version > after]
        if own and wait.is_granted:
            found.setdefault(min(own), []).append(wait)
        elif not isinstance(runner.outcome, BaseException):
            others.append(f"{wait.writer} {wait}")
    marks = {version: Mark(", ".join(dict.fromkeys(map(str, waits))), WAITED, waits[0].start)
             for version, waits in found.items()}
    return marks, "; ".join(dict.fromkeys(others))


def newest(runners: Iterable[Runner], before: int) -> int:
    """The newest commit of a race so far."""
    return max([before, *(runner.committed for runner in runners if runner.committed is not None)])


def runners_of(
    works: Mapping[str, Callable[[], Any]], judge: Callable[[Any, Step], Stop | None], before: int
) -> list[Runner]:
    """A runner for each writer of a race that begins behind a commit."""
    runners: list[Runner] = []
    now = partial(newest, runners, before)
    runners += [Runner(name, work, judge, now) for name, work in works.items()]
    return runners


class Raced:
    """What the timeline of a race has besides: ``outcomes`` has for each writer what it committed last, None,
    or the exception that it ended with, ``waits`` the locks that writers waited for."""

    def __init__(self, *args: Any, outcomes: Mapping[str, Any] | None = None,
                 waits: Sequence[LockWait] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outcomes = dict(outcomes or {})
        self.waits = tuple(waits)


def race_summary(
    runners: Sequence[Runner], outcomes: Mapping[str, Any], tracks: Sequence[Track], root: str,
    place: str = "v",
) -> dict[str, Any]:
    """What a race says beside its tracks, as its timeline takes it."""
    marks, waited = waits_of(runners, tracks)
    title = "; ".join(filter(None, (words(outcomes, root, place=place), waited)))
    return {"marks": marks, "title": title, "outcomes": outcomes, "errors": mistakes(outcomes, root),
            "waits": [wait for runner in runners for wait in runner.waits]}


class _Stopped(BaseException):
    """The race is over; no ``except Exception`` of a writer may hold it up."""


@dataclass(frozen=True)
class Stop:
    """A step of a writer's commit: what it had come to by then, and whether the writer waits for its turn."""

    txn_id: str
    outcome: Any = None
    waits: bool = False


@dataclass(frozen=True)
class LockWait:
    """A writer waited for a lock while others had their turns.

    ``start`` and ``end`` are the newest commits of the race when the wait began and when it ended, None
    where there was none yet.
    """

    writer: str
    lock: str
    mode: str
    start: int | None
    end: int | None
    is_granted: bool

    def __str__(self) -> str:
        return f"waited for {self.lock} ({self.mode}){'' if self.is_granted else ' in vain'}"


class Runner:
    """One writer: its thread, its settings, and what came of it.

    ``work`` does all of it. ``judge`` is told of each step of its commits, and says what it is to the race;
    None where it is no part of it. ``now`` tells the newest commit of the race.
    """

    def __init__(
        self, name: str, work: Callable[[], Any], judge: Callable[[Any, Step], Stop | None],
        now: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.name = name
        self.waits: list[LockWait] = []
        """The locks that it waited for."""
        self._now = now
        self._waiter: Waiter | None = None
        self._is_timed_out = False
        self.outcome: Any = None
        self.committed: int | None = None
        """What it committed last, whatever became of it then."""
        self.done = False
        self.txn_ids: set[str] = set()
        self._work, self._judge = work, judge
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._is_running = self._is_stopped = False
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._live,), name=f"race: {name}", daemon=True)

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for a lock that it has not been given yet."""
        waiter = self._waiter  # nobody else runs in the race; who grants it from without is seen next time
        return waiter is not None and waiter.result is None and not self._is_timed_out

    def time_out(self) -> None:
        """The time of its wait is over; its next turn lets it see that."""
        self._is_timed_out = True

    def advance(self) -> None:
        """Let the writer run up to its next step of I/O, to a lock that it has to wait for, or to its end."""
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
        parking.set(self._park)
        set_options(user_name=self.name)  # of this thread's context, like whatever else the writer sets
        try:
            self._work()
        except BaseException as error:  # a writer's exception is its outcome, whatever it is
            self.outcome = error
        finally:
            self.done = True
            self._back.release()

    def _pause(self, txn: Any, step: Step) -> None:
        stop = self._judge(txn, step)
        if stop is None:
            return
        self.txn_ids.add(stop.txn_id)
        if stop.outcome is not None:
            self.outcome = self.committed = stop.outcome
        if stop.waits:
            self._give_the_turn_on()

    def _park(self, waiter: Waiter, timeout: float | None) -> bool:
        """Wait for a lock: as long as it takes, in turns; the seconds of the timeout do not count."""
        start, lock = self._now(), waiter.lock.name
        self._waiter, self._is_timed_out = waiter, False
        try:
            self._give_the_turn_on()
            return waiter.result is not None
        finally:
            self._waiter = None
            is_granted = waiter.result is not None and waiter.result.is_held
            self.waits.append(LockWait(self.name, label(lock), MODE_NAMES[waiter.wanted], start, self._now(),
                                       is_granted))

    def _give_the_turn_on(self) -> None:
        if not self._is_stopped:
            self._back.release()
            self._go.acquire()
        if self._is_stopped:
            raise _Stopped
