"""Driving a commit: take its steps one after the other, and do what each asks for.

What lives here: :class:`Drive`, :func:`drain`, and :data:`watching`, by which others pause a commit
between two steps.
What it does not know: what the steps are about. They come from a generator, their answers from a committer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from deltanb.transaction.steps import Backoff, Committed, LookCloser, PutIfAbsent, ReadWinner, Step

if TYPE_CHECKING:
    from deltanb.transaction.committer import Committer

Steps = Generator[Step, Any, Committed]

watching: ContextVar[Callable[[Any, Step], None] | None] = ContextVar("watching", default=None)
"""Called with each step that a transaction's ``commit()`` is about to answer in this context; None is nobody.

It gets the transaction and the step. Until it returns, the commit pauses there and holds no lock; if it
raises, the commit is given up and nothing more is written.
"""


def watcher(txn: Any) -> Callable[[Step], None] | None:
    """What :data:`watching` has to be called with for a transaction's steps; None where nobody watches."""
    watch = watching.get()
    return None if watch is None else partial(watch, txn)


_NO_LOCK: AbstractContextManager[Any] = nullcontext()


class GivenUp(BaseException):
    """The commit was given up between two steps by its driver."""


def answer(step: Step, committer: Committer, sleep: Callable[[float], None] = time.sleep) -> Any:
    """Do what a step asks for: all of a commit's I/O."""
    match step:
        case PutIfAbsent():
            return committer.put(step.version, step.body, step.actions)
        case ReadWinner():
            return committer.read(step.version)
        case LookCloser():
            return committer.look_closer(step.current, step.winner, step.begun)
        case Backoff():
            sleep(step.seconds)
    return None


class Drive:
    """A commit driven by hand: each :meth:`advance` does what the current step asks for, and no more.

    ``lock`` is held while a step reads or writes, and not in between. An exception from a step's I/O is
    the step's reply: the steps decide what it means. An interrupt ends the steps at once, except that they
    ask what became of a put. A commit of several tables is driven the same way, with other answers
    (``catalog/group.py``).

    ``by_parts`` stops at each part of a put, where the committer's have any (``putting``), instead of at the
    put as a whole.
    """

    committed: Any = None
    """The step that says the commit succeeded; None until then."""
    _answer: Callable[[Step, Any], Any] = staticmethod(answer)

    def __init__(
        self, steps: Generator[Step, Any, Any], committer: Any, lock: AbstractContextManager[Any] = _NO_LOCK,
        by_parts: bool = False,
    ) -> None:
        self.steps, self.committer, self.lock = steps, committer, lock
        self._putting = getattr(committer, "putting", None) if by_parts else None
        self._parts: Generator[Step, None, Any] | None = None  # of the put that is at work
        self.step: Step | None = None
        """The current step; None before the first and after the last."""
        self.reply: Any = None
        """The reply to the step before."""
        self._is_open = False  # an answer was begun after which the commit may be there

    def run(self, listen: Callable[[Step], object] | None = None) -> Any:
        """Go on to the end and return the commit; ``listen`` is as in :func:`drain`."""
        try:
            while (step := self.advance()) is not None:
                if listen is not None:
                    listen(step)
        except BaseException as error:
            self.give_up(error)
            raise
        return self.committed

    def advance(self) -> Step | None:
        """Answer the current step and go on to the next one; None is the end.

        Raises:
            DeltaError: the commit failed.
        """
        if self.committed is not None and self.step is None:
            return None
        try:
            if self._parts is None:
                self.reply = self._reply(self.step) if self.step is not None and self.step.asks else None
            elif self._goes_on(self._parts):
                return self.step
            self._parts = None
            if isinstance(self.reply, BaseException) and not isinstance(self.reply, Exception):
                raise self.reply
            self._move(self.steps.send, self.reply)
        except BaseException as error:
            self.give_up(error)
            raise
        return self.step

    def give_up(self, error: BaseException | None = None) -> None:
        """End the commit at its current step, for a reason; what became of an unanswered put is asked first.

        Nothing happens where it has ended already.
        """
        error = GivenUp() if error is None else error
        parts, self._parts, self._putting = self._parts, None, None
        if parts is not None:
            with suppress(BaseException):  # it is the reply to the put, whatever its parts make of it
                parts.throw(error)
        try:
            self._move(self.steps.send if self._is_open else self.steps.throw, error)
            while self.step is not None:
                self._move(self.steps.send, self._reply(self.step) if self.step.asks else None)
        except BaseException as ended:
            if ended is not error:
                raise

    def _move(self, tell: Callable[[Any], Step], reply: Any) -> None:
        """Go on to the next step."""
        try:
            self.step = tell(reply)
        except StopIteration:
            self.step = None
        self._is_open = False
        if self.step is not None and self.step.is_success:
            self.committed = self.step
        if isinstance(self.step, PutIfAbsent) and self._putting is not None:
            self._parts, self._is_open = self._putting(
                self.step.version, self.step.body, self.step.actions, self.step.attempt), True
            self.step = next(self._parts)

    def _goes_on(self, parts: Generator[Step, None, Any]) -> bool:
        """Do the current part of a put; False where it was the last one, whose reply is the put's."""
        try:
            with self.lock:
                self.step = next(parts)
            return True
        except StopIteration as ended:
            self.reply = ended.value
        except BaseException as error:
            self.reply = error
        return False

    def _reply(self, step: Step) -> Any:
        """The reply to a step; an exception is a reply, too."""
        self._is_open = step.may_land
        try:
            with _NO_LOCK if isinstance(step, Backoff) else self.lock:
                return self._answer(step, self.committer)
        except BaseException as error:
            return error


def drain(
    steps: Steps, committer: Committer, listen: Callable[[Step], None] | None = None,
    lock: AbstractContextManager[Any] = _NO_LOCK,
) -> Committed:
    """Run a commit to its end; ``listen`` is called with every step before it is answered, and gives the
    commit up by raising.

    Without a listener the commit does not pause, and takes turns with other writers on this host if the
    committer has turns.
    """
    turn = getattr(committer, "turn", nullcontext) if listen is None else nullcontext
    with turn():
        committed: Committed = Drive(steps, committer, lock).run(listen)
        return committed
