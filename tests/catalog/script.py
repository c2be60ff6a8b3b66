"""Writers that stop where a test says: held before a statement, killed there, or without an answer."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from tests.patience import PATIENCE


class Held:
    """Holds the first transaction of a store that comes to a statement (or to COMMIT) until let on."""

    def __init__(self, store: CatalogStore, statement: str) -> None:
        self._reached, self._on = threading.Event(), threading.Event()
        engine = store.database.engine
        if statement == "COMMIT":
            sa.event.listen(engine, "commit", lambda connection: self._stop())
        else:
            sa.event.listen(
                engine, "before_cursor_execute",
                lambda connection, cursor, text, *more: self._stop() if statement in text else None)

    def _stop(self) -> None:
        if not self._reached.is_set():
            self._reached.set()
            assert self._on.wait(PATIENCE)

    def wait(self) -> None:
        """Until the transaction is there."""
        assert self._reached.wait(PATIENCE)

    def let_on(self) -> None:
        """Let the transaction go on."""
        self._on.set()


class Running:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._result = call()
        except BaseException as error:
            self._error = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        """What the call returned; its exception is raised here."""
        self._thread.join(PATIENCE)
        assert self.is_over
        if self._error is not None:
            raise self._error
        return self._result


def until_blocked(store: CatalogStore, running: Running) -> None:
    """Until a call waits for a lock; in SQLite it does from its first statement on, which nobody can see."""
    if store.database.engine.dialect.name != "postgresql":
        return
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while not running.is_over:
        if store.database.read(lambda connection: connection.execute(waiting).scalar()):
            return
    raise AssertionError(f"it did not wait: {running.result()}")


def in_child(call: Callable[[], Any]) -> Callable[[], Any]:
    """Run a call in a forked process; returns what waits for its result, or for the signal that ended it."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = pickle.dumps(call())
        except BaseException:
            answer = pickle.dumps(AssertionError(traceback.format_exc()))
        os.write(write, answer)
        os._exit(0)
    os.close(write)

    def result() -> Any:
        with os.fdopen(read, "rb") as pipe:
            answer = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            return signal.Signals(-status)
        outcome = pickle.loads(answer)
        if isinstance(outcome, AssertionError):
            raise outcome
        return outcome

    return result


def each_statement(store: CatalogStore, does: Callable[[int], None]) -> None:
    """Call ``does(number)`` before each statement of a store, before COMMIT, and after it."""
    numbers = iter(range(1000))
    engine = store.database.engine
    for name in ("before_cursor_execute", "commit"):
        sa.event.listen(engine, name, lambda *_: does(next(numbers)))
    commit = engine.dialect.do_commit

    def committed(connection: Any) -> None:
        commit(connection)
        does(next(numbers))

    engine.dialect.do_commit = committed  # type: ignore[method-assign]


def die() -> None:
    """End this process at once, as a loss of power does."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def at_commit(store: CatalogStore, does: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Within the block the first COMMIT is ``does(commit)``; those after it are as ever."""
    dialect = store.database.engine.dialect
    commit, is_first = dialect.do_commit, [True]

    def committed(connection: Any) -> None:
        if is_first:
            is_first.clear()
            does(lambda: commit(connection))
        else:
            commit(connection)

    dialect.do_commit = committed  # type: ignore[method-assign]
    try:
        yield
    finally:
        dialect.do_commit = commit  # type: ignore[method-assign]
