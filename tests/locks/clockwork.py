"""Transactions on threads of their own, and a time that only moves when a test says so.

What lives here: ``Clockwork``, which starts calls on the thread of their transaction, knows of each whether
it is done or waits for a lock, and lets waits end by moving the time. Nothing sleeps, and nothing depends on
how fast the machine is.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import Any

from deltanb.locks import LockManager, Transaction
from deltanb.locks.core.lock_table import Waiter
from tests.patience import PATIENCE


class Call:
    """A call on a transaction's thread."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.waiter: Waiter | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False

    def run(self) -> None:
        try:
            self.value = self.work()
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        assert self.is_done
        if self.error is not None:
            raise self.error
        return self.value

    @property
    def is_waiting(self) -> bool:
        return not self.is_done and self.waiter is not None and self.waiter.result is None


class Clockwork:
    """A lock manager whose waiting threads, and whose time, are in the hands of a test."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.manager = LockManager(**settings, clock=lambda: int(self.now * 1e9), park=self._park)
        self._deadlines: dict[Waiter, float] = {}
        self._expired: set[Waiter] = set()
        self._news: queue.Queue[Call] = queue.Queue()
        self._inboxes: dict[Any, queue.Queue[Call | None]] = {}
        self._last: dict[Any, Call] = {}
        self._threads: list[threading.Thread] = []
        self._running = threading.local()

    def __enter__(self) -> Clockwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.manager.close()
        for inbox in self._inboxes.values():
            inbox.put(None)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def start(self, txn: Transaction | None, work: Callable[[], Any]) -> Call:
        """Begin a call on the thread of a transaction; returns when it is done or waits.

        A call before it on that thread is let end first.
        """
        if txn in self._last:
            self.finish(self._last[txn])
        call = self._last[txn] = Call(work)
        self._inbox(txn).put(call)
        while not call.is_done and call.waiter is None:
            self._take_news()
        return call

    def do(self, txn: Transaction | None, work: Callable[[], Any]) -> Any:
        """A call to its end; while it waits, the time moves on."""
        call = self.start(txn, work)
        self.finish(call)
        return call.result()

    def finish(self, call: Call, within: float = math.inf) -> None:
        """Let a call end: it was granted, or its time comes within so many seconds."""
        end = self.now + within
        while not call.is_done:
            if call.is_waiting:
                assert self._expire_next(end), "it still waits"
            else:
                self._take_news()

    def pass_time(self, seconds: float) -> None:
        """Move the time; waits that end meanwhile end in their order."""
        end = self.now + seconds
        while self._expire_next(end):
            pass
        self.now = end

    def _expire_next(self, end: float) -> bool:
        waiting = {w: at for w, at in self._deadlines.items() if w.result is None and w not in self._expired}
        if not waiting or min(waiting.values()) > end:
            return False
        waiter = min(waiting, key=waiting.__getitem__)
        self.now = max(self.now, waiting[waiter])
        self._expired.add(waiter)
        waiter.signal.release()
        while waiter.result is None:
            self._take_news()
        return True

    def _take_news(self) -> None:
        self._news.get(timeout=PATIENCE)

    def _park(self, waiter: Waiter, timeout: float | None) -> bool:
        call: Call = self._running.call
        self._deadlines[waiter] = math.inf if timeout is None else self.now + timeout
        call.waiter = waiter
        self._news.put(call)
        waiter.signal.acquire()
        return waiter not in self._expired

    def _inbox(self, txn: Transaction | None) -> queue.Queue[Call | None]:
        if txn not in self._inboxes:
            self._inboxes[txn] = queue.Queue()
            thread = threading.Thread(target=self._serve, args=(self._inboxes[txn],), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self._inboxes[txn]

    def _serve(self, inbox: queue.Queue[Call | None]) -> None:
        while (call := inbox.get()) is not None:
            self._running.call = call
            call.run()
            call.is_done = True
            self._news.put(call)
