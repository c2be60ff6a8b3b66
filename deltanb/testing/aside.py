"""Work that stands aside: begun beside who called, and stopped where it has to wait for a lock.

What lives here: :func:`aside` and what it returns.
What it does not know: managers, tables. Who waits for a lock asks how to wait (``deltanb.locks.core.waits``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltanb.concurrency.stacks import Stack, gate
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.locks.core.lock_table import Waiter
from deltanb.locks.core.modes import MODE_NAMES, label
from deltanb.locks.core.waits import parking
from deltanb.options import options, set_options
from deltanb.text.safe_text import shown


def aside(work: Callable[[], Any]) -> Aside:
    """Run a function until it ends or has to wait for a lock, and return meanwhile.

    It has settings of its own, and goes on where :meth:`Aside.join` is called. So a wait can be looked at,
    and a deadlock made, with the same result at every run. No time passes: no wait for a lock times out.

    Raises:
        InvalidArgument: no function.
        NoThreads: nothing runs side by side on this machine.

    >>> import deltanb as dn
    >>> manager = dn.locks.LockManager(lock_timeout=None)
    >>> ann, ben = manager.new_transaction(), manager.new_transaction()
    >>> ben.lock_exclusive(1, b"south")
    ACQUIRED
    >>> waiting = dn.testing.aside(lambda: ann.lock_exclusive(1, b"south"))
    >>> waiting.is_waiting, manager.num_waiting
    (True, 1)
    >>> ben.exit()
    >>> waiting.join()
    ACQUIRED
    """
    if not callable(work):
        raise InvalidArgument(f"aside takes a function without arguments, found {shown(work)}")
    beside = Aside(work)
    beside._go_on()
    return beside


class Aside:
    """What :func:`aside` has begun."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._stack = Stack(self._live, "aside", "aside")
        self._go, self._back = gate(), gate()
        self._waiter: Waiter | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_done = False

    def __repr__(self) -> str:
        state = f"waits for {self._lock}" if self.is_waiting else "goes on" if not self._is_done else "done"
        return f"<aside: {state}>"

    @property
    def is_waiting(self) -> bool:
        """Whether it still waits for a lock."""
        return self._waiter is not None and self._waiter.result is None

    def join(self) -> Any:
        """Let it go on to its end.

        Returns:
            What the function has returned.

        Raises:
            IllegalStateError: it waits for a lock that nobody has released.
            BaseException: what the function ended with.
        """
        while not self._is_done:
            if self.is_waiting:
                raise IllegalStateError(f"the work aside still waits for {self._lock}: end the transaction "
                                        "that holds it (manager.graph() shows which), and join then")
            self._go_on()
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def _lock(self) -> str:
        assert self._waiter is not None
        return f"{label(self._waiter.lock.name)} ({MODE_NAMES[self._waiter.requested]})"

    def _go_on(self) -> None:
        if self._stack.is_begun:
            self._go.release()
        else:
            self._stack.start()
        self._back.acquire()

    # -- on its stack ----------------------------------------------------------------------------

    def _live(self) -> None:
        parking.set(self._park)
        try:
            with set_options(user_name=options.user_name):  # so what it sets is of its context alone
                self._result = self._work()
        except BaseException as error:  # it is for who joins
            self._error = error
        finally:
            self._is_done = True
            self._back.release()

    def _park(self, waiter: Waiter, timeout: float | None) -> bool:
        self._waiter = waiter
        self._back.release()
        self._go.acquire()
        self._waiter = None
        return waiter.result is not None
