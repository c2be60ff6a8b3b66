"""Taking turns: writers on stacks of their own, exactly one of which runs at a time.

What lives here: the writers, the order of turns, and each writer's outcome in words. A writer stops before
each step of I/O of its commits and waits for its turn, so that the same order always gives the same log. A
writer that waits for a lock passes its turn on and gets none until its request is decided; if nobody is left
who could release the lock, the first waiter times out. No time passes.
What it does not know: what is written to, and which steps are I/O; the caller says both. Whether a stack is a
thread (:mod:`deltanb.concurrency.stacks`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltanb import errors
from deltanb.commands.read.diff import in_short
from deltanb.concurrency.stacks import Stack, gate
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


OF_TABLE = "the table", 'lambda t: t.delete("month = 1")'
OF_CATALOG = "a transaction of the catalog", 'lambda txn: txn.table("ns.a").delete("month = 1")'
"""What a writer takes, and an example."""
LOSSES = (
    errors.DeltaConcurrentModificationException, errors.MaxCommitRetriesExceeded, errors.CommitOutcomeUnknown,
    errors.CommitFailed, errors.TransactionAbandoned, errors.FeatureDropConflict,
    errors.RowTrackingBackfillRunningConcurrentlyWithUnbackfill, errors.LockFailure)
"""How a race may end for a writer: with these it has lost. Any other exception is an error of the writer."""
MAX_MISTAKES = 3  # writers whose errors are told one by one


def words(outcomes: Mapping[str, Any], root: str = "", place: str = "v") -> str:
    """The outcomes of the writers on one line, without those that ended with an error (:func:`mistakes`);
    ``place`` precedes the number of what was committed.

    >>> words({"ann": 1, "ben": ValueError("no"), "cid": None})
    'ann committed v1, cid committed nothing'
    """
    outcomes = {name: outcome for name, outcome in outcomes.items() if not is_mistake(outcome)}
    reasons = {name: _why(error, root) for name, error in outcomes.items()
               if isinstance(error, BaseException)}
    bare = _sentence(outcomes, dict.fromkeys(reasons, ""), place)
    room = (units.MAX_COLUMNS - units.width(bare)) // max(1, sum(map(bool, reasons.values())))
    if room < MIN_WHY:
        return bare
    return _sentence(outcomes, {name: units.fit(why, room) for name, why in reasons.items()}, place)


def is_mistake(outcome: Any) -> bool:
    """Whether a writer ended with an error other than a lost race."""
    return isinstance(outcome, BaseException) and not isinstance(outcome, LOSSES)


def mistakes(outcomes: Mapping[str, Any], root: str = "") -> list[str]:
    """The writers that ended with an error, a line each; the last line counts the rest.

    >>> mistakes({"ann": 1, "ben": ValueError("no"), "cid": None})
    ['ben raised ValueError: no']
    """
    raised = {name: error for name, error in outcomes.items() if is_mistake(error)}
    lines = [f"{units.clean(name)} raised {type(error).__name__}{_why(error, root)}"
             for name, error in list(raised.items())[:MAX_MISTAKES]]
    if left := list(raised)[MAX_MISTAKES:]:
        lines.append(f"{units.count(len(left), 'more writer')} raised errors: {', '.join(left)}")
    return [units.fit(units.clean(line), units.MAX_COLUMNS - len("✕ ")) for line in lines]


def _sentence(outcomes: Mapping[str, Any], reasons: Mapping[str, str], place: str) -> str:
    parts = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, BaseException):
            parts.append(f"{name} failed ({type(outcome).__name__.removesuffix('Exception')}{reasons[name]})")
        else:
            parts.append(f"{name} committed " + ("nothing" if outcome is None else f"{place}{outcome}"))
    return ", ".join(parts)


def _why(error: BaseException, root: str) -> str:
    """The message of a mistake on one line, without folders or addresses; empty for a conflict."""
    if isinstance(error, errors.DeltaConcurrentModificationException):
        return ""
    words = _ADDRESS.sub("", units.clean(in_short(error, root)))
    return f": {words}" if words else ""


def named(
    writers: Sequence[Work] | Mapping[str, Work], caller: str = "race", of_catalog: bool = False
) -> dict[str, Work]:
    """The writers by name, in order; ``caller`` is the function that was called.

    Raises:
        InvalidArgument: no writers, or one that is no function of the table, or of a catalog's transaction.
    """
    takes, like = OF_CATALOG if of_catalog else OF_TABLE
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
            raise InvalidArgument(f"a writer's name is a string, found {name!r}")
        if why := _unfit(work, takes):
            raise InvalidArgument(f"writer {name!r} {why}; write it like {like}")
    if not named:
        raise InvalidArgument(
            f"{caller} takes a list or a dict of writers, one at least, found {type(writers).__name__}"
            + (" without any" if isinstance(writers, Sequence | Mapping) else "")
            + f"; write it like dn.{caller}(table, [{like}])")
    return named


def _unfit(work: Any, takes: str) -> str:
    """Why something cannot be called as a writer; "" if it can."""
    if not callable(work):
        return f"is a callable that takes {takes}, found {type(work).__name__}"
    if inspect.iscoroutinefunction(work) or inspect.isgeneratorfunction(work):
        return f"only makes a {'coroutine' if inspect.iscoroutinefunction(work) else 'generator'} when called"
    try:
        inspect.signature(work).bind(None)
    except TypeError as error:
        return f"is called with {takes}, and that does not fit: {error}"
    except ValueError:  # built in, and silent about its arguments
        pass
    return ""


def is_catalog(value: Any) -> bool:
    """Whether it is a catalog; who has one has loaded the module."""
    catalogs = sys.modules.get("deltanb.catalog.catalog")
    return catalogs is not None and isinstance(value, catalogs.Catalog)


def turns_of(order: Any, names: Sequence[str]) -> list[int]:
    """The first turns, as indices of writers; after them each writer runs to its end in turn.

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
                f"order: {turn!r} is not one of the writers; they are {', '.join(names)}, "
                f"or 0 to {len(names) - 1}")
        turns.append(turn if is_place else names.index(turn))
    return turns


def run(runners: Sequence[Runner], turns: Sequence[int]) -> dict[str, Any]:
    """Give the turns, then let each writer run to its end; in any case, no thread is left waiting."""
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
    """Give a turn; ``waiting`` has those that wait for a lock, in the order they began."""
    if runner.is_blocked:
        return
    runner.advance()
    waiting.pop(runner, None)
    if runner.is_blocked:
        waiting[runner] = None


def waits_of(runners: Iterable[Runner], tracks: Iterable[Track]) -> tuple[dict[Any, Mark], str]:
    """The waits for locks: as remarks on the commits that followed, the others in words.

    Waits of writers that failed are left to their errors.
    """
    commits = [(getattr(track, "who", track.user or track.writer), track.version)
               for track in tracks if track.is_committed]
    waits_by_version: dict[Any, list[LockWait]] = {}
    others = []
    for runner, wait in [(one, wait) for one in runners for wait in one.waits]:
        after = -1 if wait.end is None else wait.end
        own = [version for writer, version in commits if writer == wait.writer and version > after]
        if own and wait.is_granted:
            waits_by_version.setdefault(min(own), []).append(wait)
        elif not isinstance(runner.outcome, BaseException):
            others.append(f"{wait.writer} {wait}")
    marks = {version: Mark(", ".join(dict.fromkeys(map(str, waits))), WAITED, waits[0].start)
             for version, waits in waits_by_version.items()}
    return marks, "; ".join(dict.fromkeys(others))


def newest(runners: Iterable[Runner], before: int) -> int:
    """The newest commit of a race so far."""
    return max([before, *(runner.committed for runner in runners if runner.committed is not None)])


def runners_of(
    works: Mapping[str, Callable[[], Any]], judge: Callable[[Any, Step], Stop | None], before: int
) -> list[Runner]:
    """A runner for each writer of a race that begins after commit ``before``."""
    runners: list[Runner] = []
    now = partial(newest, runners, before)
    runners += [Runner(name, work, judge, now) for name, work in works.items()]
    return runners


class Raced:
    """What the timeline of a race adds: ``outcomes`` has each writer's last commit, None, or the exception
    that ended it, ``waits`` the locks that writers waited for."""

    def __init__(self, *args: Any, outcomes: Mapping[str, Any] | None = None,
                 waits: Sequence[LockWait] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outcomes = dict(outcomes or {})
        self.waits = tuple(waits)


def race_summary(
    runners: Sequence[Runner], outcomes: Mapping[str, Any], tracks: Sequence[Track], root: str,
    place: str = "v",
) -> dict[str, Any]:
    """The settings of a race's timeline: outcomes, waits, marks, title."""
    marks, waited = waits_of(runners, tracks)
    title = "; ".join(filter(None, (words(outcomes, root, place=place), waited)))
    return {"marks": marks, "title": title, "outcomes": outcomes, "errors": mistakes(outcomes, root),
            "waits": [wait for runner in runners for wait in runner.waits]}


class _Stopped(BaseException):
    """Raised in a writer when the race is over; a BaseException, so that no writer catches it by accident."""


@dataclass(frozen=True)
class Stop:
    """A step of a writer's commit: the outcome so far, and whether the writer waits for its turn."""

    txn_id: str
    outcome: Any = None
    waits: bool = False


@dataclass(frozen=True)
class LockWait:
    """A writer waited for a lock while others had their turns.

    ``start`` and ``end`` are the newest commits of the race when the wait began and ended, None if there was
    none yet.
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
    """One writer: its stack, its settings, and its outcome.

    ``work`` is what it does. ``judge`` gets each step of its commits and returns the stop, or None for steps
    that are not part of the race. ``now`` returns the newest commit of the race.

    Raises:
        NoThreads: nothing runs side by side on this machine.
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
        self._stack = Stack(self._live, f"race: {name}", "dn.race")
        self._go, self._back = gate(), gate()
        self._is_running = self._is_stopped = False

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for a lock that has not been granted yet."""
        waiter = self._waiter  # no other writer runs; a grant from outside the race is seen next time
        return waiter is not None and waiter.result is None and not self._is_timed_out

    def time_out(self) -> None:
        """End its wait for a lock with a timeout, which it sees at its next turn."""
        self._is_timed_out = True

    def advance(self) -> None:
        """Let the writer run to its next step of I/O, to a lock it has to wait for, or to its end."""
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
            self._stack.join()

    def stop(self) -> None:
        """End a waiting writer; a running one ends before its next step of I/O."""
        self._is_stopped = True
        if self._stack.is_begun and not self._is_running:
            self.advance()

    def _resume(self) -> None:
        if not self._stack.is_begun:
            self._stack.start()
        else:
            self._go.release()

    # -- on its stack ----------------------------------------------------------------------------

    def _live(self) -> None:
        watching.set(self._pause)
        parking.set(self._park)
        try:
            with set_options(user_name=self.name):  # and whatever else the writer sets is of its context, too
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
        """Wait for a lock in turns, as long as it takes; the timeout in seconds is ignored."""
        start, lock = self._now(), waiter.lock.name
        self._waiter, self._is_timed_out = waiter, False
        try:
            self._give_the_turn_on()
            return waiter.result is not None
        finally:
            self._waiter = None
            is_granted = waiter.result is not None and waiter.result.is_held
            self.waits.append(LockWait(self.name, label(lock), MODE_NAMES[waiter.requested], start,
                                       self._now(), is_granted))

    def _give_the_turn_on(self) -> None:
        if not self._is_stopped:
            self._back.release()
            self._go.acquire()
        if self._is_stopped:
            raise _Stopped
