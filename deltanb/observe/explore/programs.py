"""Writers whose turns are given to them: each is run alone, in worlds that somebody chooses.

What lives here: :class:`Program`, a writer; :class:`Local`, where it stands between two of its turns;
:class:`Run`, which runs it for one turn more.
What it does not know: other writers, orders, whether it works on a table or on a catalog (``places``).

A turn is one of three: the writer *reads* the newest version as a statement or a transaction begins; it
*tries* to commit, and if others were faster checks what they did by the conflict rules, all of it that is
there by then; or it asks for a *lock* (``locking``), and has it, is refused, or has to wait, which makes its
going on another turn. What is read under a lock that was just granted is read in the turn of the lock.
That reads of single winners are no turns of their own loses nothing: a commit never changes, so it does not
matter when it is read, and a writer that reads the last one later has only tried later.

Python cannot go back to an earlier moment of a function. So a turn runs the function from its beginning,
shows it at each turn the world that it saw there, and stops it before the turn after the new one by an
exception.
Everything that a writer can see is decided by the worlds: the time stands still, ids count from the beginning
of a statement, numbers drawn by ``random`` are seeded. A function that does something else all the same is
refused.
"""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from deltanb.concurrency.stacks import apart, has_threads
from deltanb.errors import DeltaError, IllegalStateError, LockFailure
from deltanb.locks.core.modes import LockResult
from deltanb.locks.core.waits import exploring, parking
from deltanb.observe.explore.locking import (
    NOTHING_LOCKED,
    Holding,
    LockRequest,
    Locks,
    Managers,
    RunLocks,
)
from deltanb.observe.explore.locking import Place as LockPlace
from deltanb.observe.explore.surroundings import end, running, surroundings
from deltanb.observe.explore.worlds import short_hash
from deltanb.observe.turns import Work
from deltanb.options import set_options
from deltanb.store.read_only import refusing
from deltanb.table.contract import Call, Does
from deltanb.transaction.drive import watching
from deltanb.transaction.group import GroupFailed, Ratify
from deltanb.transaction.runs import sleeping
from deltanb.transaction.steps import Failed, PutIfAbsent, Step

ONE_COMMIT = frozenset({Does.WRITES, Does.ADDS, Does.REPLACES})
"""What a method of a table does that makes one commit and ends."""
MAX_TURNS = 200
"""Turns of one writer: who takes more is taken for one that never ends."""
PATIENCE = 30.0
"""Seconds that a writer has for a run up to its next turn: what takes longer is taken for a loop."""
NOT_OURS = ("by a handle of its own; it may only write by what it is called with: "
            "def work(table): table.append(…)")
"""Why a writer may not write there, and what else it can do."""
_IDS = uuid.UUID("6f1d6b1e-0d2a-4c3f-9b59-3d1b8a0f2c11")


class Looked(BaseException):
    """A writer has looked at what is not part of a world's digest, as the number of a version that it
    committed: from now on its turns are known apart by everything that was before them."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.name)
        self.program = program


class _Paused(BaseException):
    """Ends a run at the next turn; a BaseException, so that no writer catches it by accident."""


@dataclass(frozen=True)
class Turn:
    """The turn that a writer is about to take: ``read``, ``put`` with the versions that it tries, ``lock``,
    or ``wait``, which is to go on once a lock is granted."""

    kind: str
    is_staged: bool
    """Whether it belongs to a statement of the table, whose result shows no more than that it was done."""
    statement: str = ""
    """The statement that this turn ends if it lands; "" where that is not known."""
    next: Mapping[str, int] = field(default_factory=dict)
    """The version of each table that is expected to be free."""
    attempted: Any = None
    saw: str = ""
    """What the commit rests on, and so what may conflict with it."""
    request: LockRequest | None = None
    """The locks that are asked for."""

    def is_same_as(self, other: Turn) -> bool:
        """Whether it does the same, made by another run."""
        return self.kind == other.kind and self.next == other.next and self._does() == other._does()

    def _does(self) -> tuple[Any, Any]:
        return self.attempted and self.attempted.id, self.request and self.request.digest


class Statement(NamedTuple):
    """A statement that has ended: its name, after how many turns, and the error that it raised, if any. What
    it returned is not known: a writer that looks at it is known precisely."""

    name: str
    turns: int
    error: BaseException | None


class Sight(NamedTuple):
    """What there is when a writer takes a turn: the table, and what is locked."""

    world: Any
    locks: Locks


@dataclass
class Answer:
    """What came of a request for locks."""

    result: Any = None
    error: BaseException | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether something is not granted."""
        return self.error is not None or (isinstance(self.result, LockResult) and not self.result.is_held)

    @property
    def rule(self) -> str:
        """The kind of the error, or the result of a try that was refused."""
        return str(self.result) if self.error is None else kind_of(self.error)

    def __str__(self) -> str:
        """As the writer learns it."""
        return repr(self.result) if self.error is None else f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, eq=False)
class Local:
    """A writer between two turns.

    ``key`` is the same for those that go on alike whatever follows; ``past`` is what the function has seen so
    far. ``script`` has for each turn up to here what there was when it went this way.
    """

    key: str
    past: tuple[Any, ...]
    script: tuple[Sight, ...]
    turns: tuple[Turn, ...]
    """The turns taken so far."""
    turn: Turn | None
    """The next one; None: the function has ended."""
    error: BaseException | None = None
    conflicts: tuple[BaseException, ...] = ()
    """The errors that its commits have failed with, in their order."""
    commits: int = 0
    """How many commits it has made."""
    calls: tuple[Statement, ...] = ()
    """The statements that have ended, if it has made nothing but statements."""
    answer: Answer | None = None
    """What came of the request for a lock that its last turn was about, if that has ended."""

    @property
    def is_waiting(self) -> bool:
        """Whether it has asked for a lock that was not free; somebody may have granted it by now."""
        return self.turn is not None and self.turn.kind == "wait"

    def lands_in(self, world: Any) -> bool:
        """Whether its next turn commits, in a world."""
        turn = self.turn
        return turn is not None and turn.kind == "put" and world.takes(turn.next)


class Place(Protocol):
    """What is explored: a table or a catalog."""

    name: str
    isolation: str
    row_level: str
    """The level of the table, in words."""
    mark: str
    """What the number of a commit is written behind."""
    root: Any
    """Its world before all turns."""
    time: int
    """When everything happens, in epoch milliseconds."""

    def seat(self, run: Run) -> Seat:
        """What a run works on."""

    def still(self, world: Any) -> Any:
        """The table, or the tables by name, in a world, which nobody can write to."""

    def rows(self, world: Any) -> tuple[str, Any]:
        """A text for the rows in a world, and the rows, of a catalog by table; None of very many."""


class Seat(Protocol):
    """What one run works on."""

    world: Any
    """As the run sees it."""
    looks_under_locks: bool
    """Whether it looks at the newest version again once it has a lock."""

    def work(self, work: Work) -> Any:
        """Do it, from its beginning."""

    def is_ours(self, txn: Any) -> bool | None:
        """Whether a transaction commits here; None for one that does not commit yet."""

    def turn(self, txn: Any, step: Any) -> Turn:
        """The turn that a step of a transaction is."""

    def unseen(self) -> Any:
        """The result of a statement that is not done again."""

    def name_tables(self, manager: Any) -> None:
        """Tell a lock manager what the tables are called that can be locked, if there are any."""


class Program:
    """A writer by name: what it does, and what is known of its turns."""

    def __init__(self, name: str, work: Work, place: Place, seed: int, managers: Managers) -> None:
        self.name, self.work, self.place, self.seed, self.managers = name, work, place, seed, managers
        self.is_precise = False
        """Whether it looks at more than worlds' digests (:class:`Looked`)."""
        self.runs = 0
        self.run: Run | None = None
        """The one under way."""
        self.context = self._settled()
        """In which it is run: its settings."""
        self._known: dict[tuple[Any, ...], tuple[Local, Any, Mapping[LockPlace, Holding | None]]] = {}

    def _settled(self) -> Context:
        now = self.place.time
        with set_options(
                user_name=self.name, checkpoints="inline", report=False, journal=False, row_level=None,
                commit_listeners=(), hook_failure_listeners=(), backoff=None, new_id=self._new_id,
                clock=lambda: now):
            context = copy_context()
        context.run(sleeping.set, lambda seconds: None)
        context.run(parking.set, lambda waiter, timeout: waiter.result is not None)
        return context

    def _new_id(self) -> str:
        assert self.run is not None
        return self.run.new_id()

    def know_precisely(self) -> None:
        """From now on, tell its turns apart by everything that was before them."""
        self.is_precise = True
        self._known.clear()

    def rehearse(self) -> int:
        """Run it once, alone, from its beginning to its end: the number of its turns.

        Raises:
            IllegalStateError: it does what cannot be explored, or does not end.
        """
        runs = [Run(self, (), (), is_alone=True) for _ in range(2)]
        for run in runs:
            run.go()
        first, second = ([attempted.id for attempted in run.landed] for run in runs)
        if first != second:
            raise runs[0].is_unsteady()
        return runs[0].at

    def start(self) -> Local:
        """Before its first turn."""
        return self._after(None, None, ())[0]

    def advance(self, local: Local, world: Any, locks: Locks = NOTHING_LOCKED) -> tuple[Local, Any, Locks]:
        """The writer after its next turn, in a world in which some locks are held, and both then."""
        turn = local.turn
        assert turn is not None, "it has ended"
        lands = local.lands_in(world)
        seen = () if lands else world.winners(turn.next) if turn.kind == "put" else (world.digest,)
        key = (local.key, lands, locks.part(locks.around(self.name, turn.request)),
               *(seen if not self.is_precise else (world.id,)))
        known = self._known.get(key)
        if known is None:
            after, changes = self._after(local, Sight(world, locks), seen)
            known = self._known[key] = after, turn.attempted if lands else None, changes
        after, landed, changes = known
        return after, world if landed is None else world.child(landed), locks.after(changes)

    def _after(
        self, local: Local | None, sight: Sight | None, seen: tuple[str, ...]
    ) -> tuple[Local, Mapping[LockPlace, Holding | None]]:
        """The writer after a turn, and what has become of locks by it."""
        script: tuple[Sight, ...] = ()
        turns: tuple[Turn, ...] = ()
        if local is not None:
            assert sight is not None and local.turn is not None
            script, turns = (*local.script, sight), (*local.turns, local.turn)
        known = () if local is None else local.calls
        lands = local is not None and sight is not None and local.lands_in(sight.world)
        if lands and turns[-1].statement:
            known = (*known, Statement(turns[-1].statement, len(script), None))
        run = Run(self, script, turns, known)
        run.go()
        self.runs += 1
        past: tuple[Any, ...] = ()
        conflicts, commits = tuple(run.conflicts), 0
        if local is not None:
            assert sight is not None
            commits = local.commits + lands
            past = (*local.past, *self._events(local, sight, seen, run))
            conflicts = (*local.conflicts, *conflicts)
        turn = run.turn
        if turn is None:
            key = short_hash(self.name, "ended", commits, *how_it_ended(run.error))
        elif turn.kind == "put":
            assert turn.attempted is not None
            key = short_hash(self.name, "put", past, sorted(turn.next.items()), turn.saw, turn.attempted.id)
        else:
            key = short_hash(self.name, turn.kind, past, turn.request and turn.request.digest)
        return Local(key, past, script, turns, turn, run.error, conflicts, commits,
                     tuple(run.ended) if run.is_plain else (), run.answer), run.changes

    def _events(self, local: Local, sight: Sight, seen: tuple[str, ...], run: Run) -> Iterator[Any]:
        """What the function has learned by a turn."""
        turn = local.turn
        assert turn is not None
        if run.turn is not None and run.turn.kind == "wait":
            return  # it waits, and learns of it only what comes of that
        if turn.request is not None:
            yield "locked", str(run.answer), run.has_looked and (
                sight.world.id if self.is_precise else sight.world.digest)
        elif self.is_precise:
            yield turn.kind, sight.world.id
        elif turn.kind == "read":
            if not turn.is_staged or (run.turn is not None and run.turn.request is not None):
                yield "read", sight.world.digest
            elif run.turn is None or run.turn.kind == "read":
                yield ("nothing",)
        elif local.lands_in(sight.world):
            yield ("committed",) if turn.is_staged else ("committed", sight.world.digest)
        elif run.conflicts or (run.turn is not None and run.turn.request is not None):
            yield "failed" if run.conflicts else "goes on", *seen


class Run:
    """One run of a function, from its beginning to the turn after the last one of a script."""

    def __init__(
        self, program: Program, script: tuple[Sight, ...], turns: tuple[Turn, ...],
        known: tuple[Statement, ...] = (), is_alone: bool = False,
    ) -> None:
        self.program, self.script, self.turns, self.is_alone = program, script, turns, is_alone
        self.known = known
        """Statements at the beginning that need not be done again."""
        self.ended: list[Statement] = []
        self.is_plain = not program.is_precise
        """Whether all turns so far are of statements."""
        self.at = 0
        """Turns taken so far."""
        self.turn: Turn | None = None
        self.error: BaseException | None = None
        self.conflicts: list[BaseException] = []
        """Those that commits have failed with after the last turn of the script."""
        self.is_due = True
        """Whether the next look at the newest version is a turn."""
        self.has_looked = False
        """Whether the table was looked at since the last turn, which was not one to read."""
        self.calls: list[Call] = []
        self.locking = RunLocks(self, program.managers)
        self.answer: Answer | None = None
        """What came of the request for a lock that the last turn was about."""
        self.changes: Mapping[LockPlace, Holding | None] = {}
        """What has become of locks since the last turn of the script, up to the next turn."""
        self.waits = 0
        """How many of its turns were to wait."""
        self.seat: Seat = program.place.seat(self)
        self.landed: list[Any] = []
        """The commits of a run that is alone."""
        self.refusal: BaseException | None = None
        """Why the function cannot be explored."""
        self._drawn = 0
        self._context = program.context.copy()
        self._thread = threading.Thread(target=self._context.run, args=(self._go,), daemon=True)

    def go(self) -> None:
        """Run it, in a thread of its own: so one that never comes to its next turn can be left.

        Where there are no threads it runs in this one, and is not left.

        Raises:
            IllegalStateError: it cannot be explored.
            Looked: it has to be known more precisely.
        """
        self.program.run = self
        if not has_threads():
            self._thread = threading.current_thread()
            with surroundings(self.program.seed), apart():
                self._context.run(self._go)
            if self.refusal is not None:
                raise self.refusal
            return
        with surroundings(self.program.seed):
            self._thread.start()
            try:
                self._thread.join(PATIENCE)
            except BaseException:  # an interrupt: nothing of it goes on
                self._leave()
                raise
            if self._thread.is_alive():
                self._leave()
                raise IllegalStateError(
                    f"writer {self.program.name!r} has not come to its next turn in {PATIENCE:.0f} s: it "
                    "loops, sleeps, or waits for something that is not there when it is run alone. Leave "
                    "that out, or give what it waits for as an argument")
        if self.refusal is not None:
            raise self.refusal

    def _leave(self) -> None:
        """End the thread at its next instruction, if it comes to one."""
        self.turn = self.turn or Turn("read", False)
        if self._thread.ident is not None:
            end(self._thread, _Paused)

    def _go(self) -> None:
        watching.set(self._watch)
        exploring.set(self.locking)
        running.set(self.refuse)
        refusing.set(lambda place: self.refuse(f"writes to {place} {NOT_OURS}"))
        try:
            self._require_done(self.seat.work(self.program.work))
        except _Paused:
            return
        except (Exception, SystemExit) as error:
            if self.turn is None:  # else it is what it does as it is left at its next turn
                self.error = error
        except BaseException as error:  # an interrupt, or what is not for others
            self.refusal = self.refusal or error
        if self.turn is None:
            self.changes = self.locking.changes()
            if self.at < len(self.script):
                self.refusal = self.refusal or self.is_unsteady()

    def _require_done(self, result: Any) -> None:
        """Refuse a writer that has only been begun: what it returns would do the work."""
        if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            kind = type(result).__name__.replace("_", " ")
            if not inspect.isasyncgen(result):
                result.close()
            raise self.refuse(f"returns a {kind}, which nobody runs, and does nothing; write a function that "
                              "does its work, like lambda table: asyncio.run(work(table))")

    def skip(self, name: str) -> Any:
        """The end of a statement that was done in an earlier run, with the same worlds.

        Raises:
            Exception: what it raised then.
        """
        known = self.known[len(self.ended)]
        if known.name != name:
            self.refusal = self.is_unsteady()
            raise _Paused
        self.ended.append(known)
        self.at, self._drawn = known.turns, 0
        if self.at:
            self._show(self.script[self.at - 1])
        if known.error is not None:
            raise known.error.with_traceback(None)
        return self.seat.unseen()

    def refuse(self, words: str) -> BaseException:
        """Note why the function cannot be explored; returns what ends it."""
        self.refusal = self.refusal or IllegalStateError(f"writer {self.program.name!r} {words}")
        return _Paused()

    def take(self, turn: Turn) -> None:
        """Take a turn, or stop before it where the script ends."""
        if threading.current_thread() is not self._thread:
            raise self.refuse("uses its table in a thread that it has started; what is explored does its "
                              "work in one thread, since others could take their turns at any time")
        if self.is_alone and self.at == MAX_TURNS:
            raise self.refuse(f"has taken {MAX_TURNS} turns and has not ended; one that is explored makes a "
                              "few commits and returns")
        if self.refusal is not None or self.turn is not None or (
                self.at == len(self.script) and not self.is_alone):
            if self.turn is None:
                self.turn, self.changes = turn, self.locking.changes()
            raise _Paused
        self.has_looked, self.is_due, self.answer = turn.kind == "read", False, None
        if not self.is_alone:
            if not turn.is_same_as(self.turns[self.at]):
                self.refusal = self.is_unsteady()
                raise _Paused
            self._show(self.script[self.at], turn.request is None or self.seat.looks_under_locks)
        self.at += 1
        self._drawn = 0

    def _show(self, sight: Sight, is_looking: bool = True) -> None:
        """Have the writer see this."""
        if is_looking:
            self.seat.world = sight.world
        self.locking.show(sight.locks)

    def ask(self, request: LockRequest, lock: Callable[[], Any]) -> Any:
        """Take the turn of a request for locks, and note what comes of it."""
        self.is_plain = False
        self.take(Turn("lock", False, request=request))
        answer = Answer()
        try:
            answer.result = lock()
        except Exception as error:
            answer.error = error
            raise
        finally:
            self.answer = answer
        return answer.result

    def wait(self, request: LockRequest) -> None:
        """Go on with a request that had to wait."""
        self.take(Turn("wait", False, request=request))
        self.waits += 1

    def read(self) -> Any:
        """The newest version as the writer sees it."""
        if self.is_due:
            self.is_due = False
            self.is_plain &= self.is_staged
            self.take(Turn("read", self.is_staged))
        self.has_looked = True
        return self.seat.world

    @property
    def is_staged(self) -> bool:
        """Whether a statement of the table is done."""
        return bool(self.calls) and self.calls[0].asked.does.is_staged

    @property
    def statement(self) -> str:
        """The statement that is done, if it is one that makes a single commit."""
        is_one = self.is_plain and bool(self.calls) and self.calls[0].asked.does in ONE_COMMIT
        return self.calls[0].asked.name if is_one else ""

    def _watch(self, txn: Any, step: Step) -> None:
        is_ours = self.seat.is_ours(txn)
        if is_ours is None:
            return
        if not is_ours:
            raise self.refuse(f"commits to {getattr(txn, 'table', 'a catalog')} {NOT_OURS}")
        if self.is_alone and step.is_success:
            assert self.seat.world.commit is not None
            self.landed.append(self.seat.world.commit)
        if isinstance(step, Failed | GroupFailed) and self.at == len(self.script):
            self.conflicts.append(step.error)
        if isinstance(step, PutIfAbsent | Ratify):
            self.take(self.seat.turn(txn, step))

    def new_id(self) -> str:
        """An id, the same at every run that has come here."""
        self._drawn += 1
        turns = self.at - self.waits
        return str(uuid.uuid5(_IDS, f"{self.program.name} {turns} {self._drawn}"))

    def is_unsteady(self) -> IllegalStateError:
        """The error of a function that depends on more than the worlds it sees."""
        return IllegalStateError(
            f"writer {self.program.name!r} did something else when it was run again and saw the same: it "
            "depends on more than the table, as on the time, on a random number of its own or on a variable "
            "that it changes. Leave that out, or give it as an argument")

    def looks(self) -> None:
        """Note that the function has looked at more than a digest shows."""
        if not self.program.is_precise and not self.is_alone:
            self.refusal = Looked(self.program)
            raise _Paused


def kind_of(error: BaseException) -> str:
    """What an error is called: by its stable code, if it has one."""
    return error.kind if isinstance(error, DeltaError) else type(error).__name__


def how_it_ended(error: BaseException | None) -> tuple[str, str]:
    """How a writer has ended, as far as outcomes are told apart by it: the kind of its error, and why.
    Who was in the way of a lock is no part of it."""
    if error is None:
        return "", ""
    return kind_of(error), "" if isinstance(error, LockFailure) else rule_of(error) or str(error)


def rule_of(error: BaseException | None) -> str:
    """The rule by which a commit failed; "" for other errors."""
    conflict = getattr(error, "conflict", None)
    return "" if conflict is None else str(conflict.rule)
