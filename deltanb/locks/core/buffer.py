"""Deferred commits (``NO_FLUSH``): the buffer in which they wait, and what flushes it.

What lives here: :class:`Pending`, a commit that waits; :class:`Buffer`, those of a manager in their order;
the flush at the end of the process.
What it does not know: who gets a lock (``core``), when a transaction ends (``transaction``), what a change
is.

A commit that waits keeps its exclusive locks and the files it has written, which are nobody's if the process
is killed. So a buffer is bounded, and flushed as soon as it is full: by the commit that fills it, or for its
age by a thread that waits until then. It is flushed before a commit that is to be durable, as a log would be;
and when the process ends, before its pools of threads do.

The failure of one commit concerns no other: it is undone, its callback gets the error, and without a
callback the next ``flush()`` raises it. A flush that nobody asked for raises nothing but an interrupt, which
leaves in the buffer what was not begun. A forked process begins with an empty buffer: what waits is its
parent's.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # its own end is registered first, and so comes after that of the buffers
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.errors import add_note
from deltanb.locks.core.commit import Changes, CommitCallback, have_landed, publish, size_of, undo
from deltanb.locks.core.modes import DurabilityMode
from deltanb.locks.core.names import called
from deltanb.options import own_settings, set_options
from deltanb.text.formatting import count
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from deltanb.locks.core.stack import Locker
    from deltanb.locks.core.transaction import Transaction

__all__ = ["MAX_BYTES", "MAX_COMMITS", "MAX_SECONDS", "Buffer", "Pending"]

assert concurrent.futures.thread

_log = get_logger("deltanb.locks")

MAX_COMMITS = 64
"""Commits that wait: each keeps locks that others may want, and a flush of so many takes about a second."""
MAX_BYTES = 64 << 20
"""Bytes of data files that wait: as many are nobody's after a crash, until a VACUUM removes them."""
MAX_SECONDS = 10.0
"""How long a commit waits at most: ten times as long as others wait for a lock by default."""


@dataclass(eq=False)
class Pending:
    """A commit in the buffer: its changes, and who keeps its exclusive locks."""

    txn: Transaction
    txn_id: int
    keeper: Locker
    changes: Changes
    callback: CommitCallback | None
    since: int
    settings: dict[str, Any] = field(default_factory=own_settings)
    """Of the block in which it was committed, which has ended when it is flushed."""
    is_begun: bool = False
    error: BaseException | None = None
    """Why it failed, once it was begun; or what interrupted it."""
    has_landed: bool = False
    """Whether its changes are permanent all the same."""

    def __post_init__(self) -> None:
        self.size = size_of(self.changes)

    def announce(self) -> None:
        """Tell the callback that the commit waits."""
        self._call_back("pending", self.txn, self.txn_id)

    def finish(self) -> BaseException | None:
        """Publish it, or undo it; returns what it has raised. Once: an interrupt can have come behind it."""
        if self.is_begun:
            return self.error
        try:
            self.is_begun = True
            with set_options(**self.settings) if self.settings else nullcontext():
                publish(self.changes, DurabilityMode.NO_SYNC)
        except BaseException as error:
            self.error = error
            self.has_landed = have_landed(self.changes)
            if not self.has_landed:
                undo(self.changes)
            add_note(error, f"in the commit of {called(self.txn_id)}, which NO_FLUSH had put off")
        return self.error

    def notify_finished(self, error: BaseException | None) -> None:
        """Tell the callback how it ended, once the locks are gone."""
        self._call_back("finished", self.txn, self.txn_id, None if self.has_landed else error)

    def _call_back(self, name: str, *args: Any) -> None:
        if self.callback is None:
            return
        try:
            getattr(self.callback, name)(*args)
        except Exception:
            _log.exception("CommitCallback.%s of transaction %d failed", name, self.txn_id)


class Buffer:
    """The commits of a manager that were put off, in their order.

    Args:
        mutex: of the manager; the list of commits changes under it.
        release: gives back the locks of a commit.
        clock: nanoseconds, for the age of commits.
    """

    def __init__(self, mutex: threading.Lock, release: Callable[[Locker], None],
                 clock: Callable[[], int]) -> None:
        self._release, self._clock = release, clock
        self.clear(mutex)

    def clear(self, mutex: threading.Lock) -> None:
        """Begin anew with nothing in it: in a forked process, where neither commits nor threads are."""
        self._mutex = mutex
        self._commits: list[Pending] = []
        self._failed: list[tuple[Pending, BaseException]] = []
        """What failed, and nobody was told of it but the log."""
        self._turn = threading.RLock()
        """Whose turn it is to flush: one thread at a time, so that commits land in their order."""
        self._thread: threading.Thread | None = None
        _open.pop(self, None)

    def __len__(self) -> int:
        return len(self._commits)

    def has(self, changes: Changes) -> bool:
        """Whether the commit of these changes waits here."""
        return any(pending.changes is changes for pending in list(self._commits))

    def put(self, pending: Pending) -> None:
        """Take a commit in; the mutex is held. :meth:`was_put_in` follows once it is not."""
        _open[self] = None
        self._commits.append(pending)

    def was_put_in(self) -> None:
        """A commit was taken in: flush what fills the buffer, else have its age looked after."""
        if self._is_full or not self._is_watched():
            self.flush_quietly()

    def flush(self, txn: Transaction | None = None) -> None:
        """Publish what waits, or that of one transaction, in order.

        Raises:
            Exception: what the first commit failed with that has no callback to be told, now or since the
                last flush; its notes name others.
        """
        def is_due(pending: Pending) -> bool:
            return txn is None or pending.txn is txn

        with self._turn:
            self._publish(is_due)
            failed = [(p, error) for p, error in self._failed if is_due(p)]
            self._failed = [(p, error) for p, error in self._failed if not is_due(p)]
        if failed:
            for pending, error in failed[1:]:
                add_note(failed[0][1], f"{called(pending.txn_id)} has failed, too: "
                                       f"{type(error).__name__}: {error}")
            raise failed[0][1]

    def flush_quietly(self, waits: bool = False) -> None:
        """Publish all that waits, unless another thread does so; what fails is logged, and raised by the next
        :meth:`flush`."""
        if not self._turn.acquire(blocking=waits):
            return
        try:
            known = len(self._failed)
            self._publish(lambda pending: True)
            for pending, error in self._failed[known:]:
                _log.warning("the commit of transaction %d, which NO_FLUSH had put off, has failed and is "
                             "undone: %s: %s", pending.txn_id, type(error).__name__, error)
        finally:
            self._turn.release()

    # -- how it is done ------------------------------------------------------------------------

    def _publish(self, is_due: Callable[[Pending], bool]) -> None:
        while (pending := next(filter(is_due, list(self._commits)), None)) is not None:
            error = pending.finish()
            self._take_out(pending)
            pending.notify_finished(error)
            if error is not None and not isinstance(error, Exception):
                raise error  # an interrupt: the others wait on
            if error is not None and pending.callback is None:
                self._failed.append((pending, error))

    def _take_out(self, pending: Pending) -> None:
        self._release(pending.keeper)
        with self._mutex:
            self._commits.remove(pending)
            if not self._commits:
                _open.pop(self, None)

    @property
    def _is_full(self) -> bool:
        waiting = list(self._commits)
        return (len(waiting) >= MAX_COMMITS or sum(p.size for p in waiting) >= MAX_BYTES
                or self._is_due(waiting))

    def _is_due(self, waiting: list[Pending]) -> bool:
        return bool(waiting) and self._seconds_left(waiting) <= 0

    def _seconds_left(self, waiting: list[Pending]) -> float:
        return MAX_SECONDS - (self._clock() - waiting[0].since) / 1e9

    # -- age ---------------------------------------------------------------------------------------

    def _is_watched(self) -> bool:
        """Whether somebody will flush what waits, by its age or as the process ends."""
        if not _is_flushed_at_end():
            return False
        with self._mutex:
            if self._thread is not None:
                return True
            self._thread = threading.Thread(target=self._watch, name="deltanb-put-off")
        with suppress(RuntimeError):  # as many threads as there may be
            self._thread.start()
            return True
        self._thread = None
        return False

    def _watch(self) -> None:
        """Wait until what came first is old enough, or the process ends: no daemon, since a commit is not to
        be broken off."""
        while True:
            with self._mutex:
                waiting = list(self._commits)
                if not waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    break
            if self._is_due(waiting):
                self.flush_quietly(waits=True)
            else:
                threading.main_thread().join(self._seconds_left(waiting))


# -- the end of the process ------------------------------------------------------------------------

_open: dict[Buffer, None] = {}
"""Buffers in which something waits, the first one first; they stay though nobody has their manager."""
_end: list[bool] = []
"""Whether the flush at the end is registered, and then whether it has begun."""


def _is_flushed_at_end() -> bool:
    """Whether what waits now is flushed when the process ends; registers that."""
    if not _end:
        try:
            # As pools of threads do it: while threads can still begin, and before others are waited for.
            getattr(threading, "_register_atexit", atexit.register)(_flush_at_end)
        except RuntimeError:  # it has ended
            return False
        _end.append(False)
    return not _end[0]


def _flush_at_end() -> None:
    _end[:] = [True]
    for buffer in list(_open):
        try:
            buffer.flush_quietly(waits=True)
        except BaseException as error:
            _log.warning("the process ends, and %s that NO_FLUSH had put off will not be made permanent: %s; "
                         "files that were written for it stay until a VACUUM",
                         count(len(buffer), "commit"), type(error).__name__)
