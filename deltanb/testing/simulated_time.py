"""A simulated time: it passes only while everybody waits, so nobody really does.

What lives here: :class:`SimulatedTime`, which runs functions on stacks of their own, one at a time, and
decides by the simulated time who goes on.
What it does not know: what the functions do. They wait by :meth:`SimulatedTime.sleep`, or for a lock by
:meth:`SimulatedTime.park`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from deltanb.concurrency.stacks import Gate, Stack, gate
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.text.safe_text import shown


class SimulatedTime:
    """Time in which works run side by side, and waiting takes no real time.

    Only one work runs at any moment: it goes on until it waits or ends. Then the one whose wait ends first
    has its turn; of two that end at once, the one that has waited longer. Everything but waiting takes no
    time. So a strategy of retrying can be tried out on real tables, with the same result at every run and
    on every machine. ``now`` is the time in seconds, from 0.

    >>> time = SimulatedTime()
    >>> def nap(name, seconds):
    ...     time.sleep(seconds)
    ...     return f"{name} wakes up after {time.now} s"
    >>> time.run([lambda: nap("Donald", 7200), lambda: nap("Daisy", 60)])
    ['Donald wakes up after 7200.0 s', 'Daisy wakes up after 60.0 s']

    In :func:`deltanb.retry` it takes the place of the real time; with a manager, that of waits for locks too:

    >>> import deltanb as dn
    >>> table = dn.create("coins", {"owner": ["Scrooge"], "coins": [900]})
    >>> manager = dn.locks.LockManager(park=time.park)
    >>> dn.retry(lambda: table.delete("coins < 1"), sleep=time.sleep, manager=manager).version is None
    True
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[_Turn] = []  # in the order in which they began to wait

    def run(self, works: Iterable[Callable[[], Any]]) -> list[Any]:
        """Run functions without arguments side by side, until all of them have ended.

        They begin one after the other, in the order given, and work in the context of the caller.

        Returns:
            What each returned, in the order given.

        Raises:
            InvalidArgument: something that is not a function.
            NoThreads: nothing runs side by side on this machine.
            BaseException: what the first work in the order given ended with that failed; the others go on
                to their ends all the same.
        """
        started = [_Work(self, work) for work in works]
        for work in started:
            self._waiting.append(work.turn)
        for work in started:
            work.stack.start()
        self._pass_on()
        for work in started:
            work.stack.join()
        for work in started:
            if work.error is not None:
                raise work.error
        return [work.result for work in started]

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds; none, and fewer than none, let those go on who wait for this moment.

        Raises:
            InvalidArgument: not a finite number.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            raise InvalidArgument(f"sleep takes a number of seconds, found {shown(seconds)}")
        self._wait(_Turn(self.now + max(seconds, 0)))

    def park(self, waiter: Any, timeout: float | None) -> bool:
        """Wait for a lock; for the argument of this name of a
        :class:`~deltanb.locks.core.manager.LockManager`.

        Raises:
            IllegalStateError: nobody is left who could release it.
        """
        end = math.inf if timeout is None else self.now + timeout
        self._wait(_Turn(end, lambda: waiter.result is not None))
        return waiter.result is not None

    def _wait(self, turn: _Turn) -> None:
        self._waiting.append(turn)
        self._pass_on()
        turn.came.acquire()
        if turn.is_stuck:
            raise IllegalStateError("everybody waits for a lock, and nobody is left to release one")

    def _pass_on(self) -> None:
        """Give the turn to the next one, and move the time to where it goes on."""
        if not self._waiting:
            return
        turn = min(self._waiting, key=lambda turn: self.now if turn.is_ready() else turn.until)
        self._waiting.remove(turn)
        if not turn.is_ready():
            turn.is_stuck = turn.until == math.inf
            self.now = self.now if turn.is_stuck else max(self.now, turn.until)
        turn.came.release()


@dataclass(eq=False)
class _Turn:
    """A wait: until a time, or until something has happened."""

    until: float
    is_ready: Callable[[], bool] = lambda: False
    came: Gate = field(default_factory=gate)
    is_stuck: bool = False


class _Work:
    """A function on a stack, which begins when its turn comes."""

    def __init__(self, time: SimulatedTime, work: Callable[[], Any]) -> None:
        if not callable(work):
            raise InvalidArgument(f"run takes functions without arguments, found {shown(work)}")
        self.time, self.work, self.turn = time, work, _Turn(time.now)
        self.result: Any = None
        self.error: BaseException | None = None
        self.stack = Stack(self._go, "simulated time", "SimulatedTime.run")

    def _go(self) -> None:
        self.turn.came.acquire()
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error
        finally:
            self.time._pass_on()
