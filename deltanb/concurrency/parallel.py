"""Work in parallel: several files at a time, on threads that work on the same as who started them.

What lives here: :func:`each`, for results in order, and :func:`streamed`, for streams in order. Everything in
the library that reads several files at a time goes through these two. :func:`workers` are the threads alone.
What it does not know: files. More threads than :data:`MAX_THREADS` only wait for the same disk.

Where no thread can be started, whoever asks does the work: each item, and each stream, when it is asked for.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from deltanb.concurrency.stacks import has_threads, is_refusal

_A = TypeVar("_A")
_B = TypeVar("_B")

MAX_THREADS = 8
MAX_WAITING = 16
"""Threads where each waits for a network: the answers come as fast as they are asked for."""
MAX_SMALL = 64
"""The same where the answers are small. A thousand commits, 30 ms away, take 2.0 s by 16 connections, 0.5 s
by 64 and 0.3 s by 128, for 0.3 s of processor time each. S3 answers 5,500 requests a second for a prefix, of
which 64 connections make two fifths."""
LANE_ITEMS = 2
"""Items that wait for the consumer, of each stream that is open."""


def threads(most: int, limit: int = MAX_THREADS) -> int:
    """How many threads work on so many things that keep a processor busy: at least 1."""
    return max(1, min(limit, os.cpu_count() or 1, most))


class _Workers(ThreadPoolExecutor):
    """A pool whose threads see the settings, and all other context, of whoever hands them work."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As ThreadPoolExecutor's; ``map`` goes through it, too.

        Raises:
            _NoThread: it has none, and cannot have any; the work will not be done.
        """
        try:
            return super().submit(copy_context().run, fn, *args, **kwargs)
        except RuntimeError as error:
            if self._threads or not is_refusal(error):  # type: ignore[attr-defined]
                raise
            raise _NoThread(str(error)) from error


class _NoThread(RuntimeError):
    """The system starts no threads, or no more."""


class _Patient(_Workers):
    """One that still works, in the caller's thread, where there can be no other: where the machine has none,
    and where the interpreter ends and no pool takes work.

    That is when the rest of the work in the background is done (:mod:`deltanb.concurrency.background`).
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As that of all pools."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if "interpreter shutdown" not in str(error) and not isinstance(error, _NoThread):
                raise
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def workers(count: int, name: str) -> ThreadPoolExecutor:
    """So many threads for work that is handed to them one by one; whoever asked for them ends them.

    Where there are none the work is done as it is handed over.
    """
    return _Patient(count, f"deltanb-{name}")


def each(
    work: Callable[[_A], _B], items: Iterable[_A], limit: int | None = None, name: str = "work"
) -> Iterator[_B]:
    """The results of ``work`` for the items, in their order; several are worked on at a time.

    Args:
        limit: of threads; by default as many as there are processors, :data:`MAX_THREADS` at most. A
            single item, and every item where there would be one thread, is worked on in this one.
        name: of the threads, behind ``deltanb-``.

    The first error is raised; work that has not begun by then is not done.

    >>> from deltanb.options import options, set_options
    >>> with set_options(max_rows=3):
    ...     list(each(lambda n: n * options.max_rows, [1, 2, 3]))
    [3, 6, 9]
    """
    known = items if isinstance(items, Sized) else list(items)
    limited = min(threads(len(known)) if limit is None else limit, len(known))
    if limited < 2 or not has_threads():
        yield from map(work, known)  # type: ignore[arg-type]
        return
    with workers(limited, name) as pool:
        yield from pool.map(work, known)  # type: ignore[arg-type]


def streamed(
    start: Callable[[_A], Generator[_B, None, None]], items: Iterable[_A], limit: int, name: str = "work",
    ahead: int = LANE_ITEMS,
) -> Generator[_B, None, None]:
    """What the streams of the items give, one stream after the other; ``limit`` of them advance at a time.

    Of each stream that is open at most ``ahead`` items wait to be taken. A stream is closed where
    it ends; all are, where the iterator is.

    >>> list(streamed(lambda n: (n for _ in range(n)), [1, 2, 3], 2))
    [1, 2, 2, 3, 3, 3]
    """
    lanes: deque[_Lane[_B]] = deque()
    rest = iter(items)
    if not has_threads():
        for item in rest:
            with closing(start(item)) as stream:
                yield from stream
        return
    with _Workers(limit, f"deltanb-{name}") as pool:

        def open_next() -> None:
            for item in rest:
                lanes.append(_Lane(ahead))
                pool.submit(_fill, lanes[-1], start, item)
                return

        try:
            for _ in range(limit):
                open_next()
            while lanes:
                yield from lanes[0]
                lanes.popleft()
                open_next()
        finally:
            for lane in lanes:
                lane.close()


def begin(work: Callable[[], _A], name: str = "work") -> Callable[[], _A]:
    """Start one thing in a thread; what is returned waits for it, and gives its result or raises its error.

    >>> begin(lambda: 6 * 7)()
    42
    """
    pool = _Patient(1, f"deltanb-{name}")
    future: Future[_A] = pool.submit(work)
    pool.shutdown(wait=False)
    return future.result


def beside(
    work: Callable[[], _A], meanwhile: Callable[[], object], at_once: bool, name: str = "work"
) -> _A:
    """The result of ``work``, which another thread does while this one does the rest; both are done then.

    An error of the rest goes before one of the work. Unless ``at_once``, this thread does both.

    >>> beside(lambda: 6 * 7, lambda: None, at_once=True)
    42
    """
    if not at_once:
        result = work()
        meanwhile()
        return result
    waited_for = begin(work, name)
    try:
        meanwhile()
    except BaseException:
        with suppress(Exception):
            waited_for()
        raise
    return waited_for()


def _fill(lane: _Lane[_B], start: Callable[[_A], Generator[_B, None, None]], item: _A) -> None:
    error: BaseException | None = None
    try:
        with closing(start(item)) as stream:
            for one in stream:
                if not lane.put(one):
                    return
    except BaseException as raised:  # it belongs to the thread that reads the lane
        error = raised
    finally:
        lane.finish(error)


class _Lane(Generic[_B]):
    """The items of one stream on their way from the thread that makes them to the consumer."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._items: deque[_B] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._is_open = True
        self._error: BaseException | None = None

    def put(self, item: _B) -> bool:
        """Wait for room; False when nobody wants the item any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._ahead or not self._is_open)
            self._items.append(item)
            self._changed.notify_all()
            return self._is_open

    def finish(self, error: BaseException | None) -> None:
        """No item follows; ``error`` is raised at the consumer after those that wait."""
        with self._changed:
            self._finished, self._error = True, error
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody wants more."""
        with self._changed:
            self._is_open = False
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[_B]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._finished)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error
