"""Who drives a commit: its steps taken one after the other, what they ask for done, and the waiting.

What lives here: :class:`Drive`, :func:`drain`, and :data:`watching`, by which others stop a commit between
two steps.
What it does not know: what the steps are about. They come from a generator, their answers from a committer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from deltanb.transaction.steps import Backoff, Committed, PutIfAbsent, ReadWinner, Step

if TYPE_CHECKING:
    from deltanb.transaction.committer import Committer

Steps = Generator[Step, Any, Committed]

watching: ContextVar[Callable[[Any, Step], None] | None] = ContextVar("watching", default=None)
"""Told of each step that a transaction's ``commit()`` is about to answer in this context; None is nobody.

It gets the transaction and the step. While it has not returned, the commit stands still there and holds
no lock; if it raises, the commit is given up and nothing more is written.
"""

_NO_LOCK: AbstractContextManager[Any] = nullcontext()


class GivenUp(BaseException):
    """The commit was given up between two steps, by whoever drives it."""


class Drive:
    """A commit driven by hand: each :meth:`advance` does what the step it stands at asks for, and no more.

    ``lock`` is held while a step reads or writes, and not in between. An exception that a step's I/O ends
    with is the step's reply: the steps decide what it means. An interrupt ends the steps at once, but for
    the question what became of a put.
    """

    def __init__(
        self, steps: Steps, committer: Committer,
        lock: AbstractContextManager[Any] = _NO_LOCK,
    ) -> None:
        self.steps, self.committer, self.lock = steps, committer, lock
        self.step: Step | None = None
        """The step it stands at; None before the first and after the last."""
        self.reply: Any = None
        """What the step before was answered."""
        self.committed: Committed | None = None
        """The step that says the commit succeeded; None until then."""
        self._is_putting = False

    def advance(self) -> Step | None:
        """Answer the step it stands at and go on to the next one; None is the end.

        Raises:
            DeltaError: the commit failed.
        """
        if self.committed is not None:
            return None
        try:
            self.reply = None if self.step is None else self._answer(self.step)
            if isinstance(self.reply, BaseException) and not isinstance(self.reply, Exception):
                raise self.reply
            self.step = self.steps.send(self.reply)
            self._is_putting = False
        except StopIteration as stop:
            self.step, self.committed = None, stop.value
        except BaseException as error:
            self.give_up(error)
            raise
        return self.step

    def give_up(self, error: BaseException | None = None) -> None:
        """End the commit where it stands, for a reason; what became of an unanswered put is asked first.

        Nothing happens where it has ended already.
        """
        error = GivenUp() if error is None else error
        tell: Callable[[Any], Step] = self.steps.send if self._is_putting else self.steps.throw
        self._is_putting = False
        try:
            step = tell(error)
            while True:
                self.step = step
                step = self.steps.send(self._answer(step))
        except StopIteration:
            pass
        except BaseException as ended:
            if ended is not error:
                raise

    def _answer(self, step: Step) -> Any:
        if not isinstance(step, PutIfAbsent | ReadWinner):
            return answer(step, self.committer)
        self._is_putting = isinstance(step, PutIfAbsent)
        try:
            with self.lock:
                return answer(step, self.committer)
        except BaseException as error:
            return error


def drain(
    steps: Steps, committer: Committer, listen: Callable[[Step], None] | None = None,
    lock: AbstractContextManager[Any] = _NO_LOCK,
) -> Committed:
    """Run a commit to its end; ``listen`` hears of every step before it is answered, and gives the commit
    up by raising.

    Where nobody listens the commit does not pause, and is made in turn with those of other writers on this
    host, if the committer has turns.
    """
    turn = getattr(committer, "turn", nullcontext) if listen is None else nullcontext
    with turn():
        return _drained(Drive(steps, committer, lock), listen)


def _drained(drive: Drive, listen: Callable[[Step], None] | None) -> Committed:
    try:
        while (step := drive.advance()) is not None:
            if listen is not None:
                listen(step)
    except BaseException as error:
        drive.give_up(error)
        raise
    assert drive.committed is not None
    return drive.committed


def answer(step: Step, committer: Committer, sleep: Callable[[float], None] = time.sleep) -> Any:
    """Do what a step asks for: all of a commit's I/O."""
    match step:
        case PutIfAbsent():
            return committer.put(step.version, step.body, step.actions)
        case ReadWinner():
            return committer.read(step.version)
        case Backoff():
            sleep(step.seconds)
    return None
